#include "ranking.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../threads.hpp"

namespace adjudge {

namespace {

constexpr int64_t kPieceRows = 1 << 15;
constexpr int64_t kMostRankPieces = 32;
constexpr int64_t kMostMatrices = 4;
constexpr double kLarge = 0x1p500;  // products of (1 + exp) below it can take another factor of up to 2^kFactors
constexpr double kFactors = 256;    // equal comparisons that are multiplied; more take a logarithm of their own

double inner(const double* a, const double* b, int64_t n) {
    double out = 0.0;
    for (int64_t i = 0; i < n; ++i) out += a[i] * b[i];
    return out;
}

double power(double base, int n) {
    double out = 1.0;
    for (; n; n >>= 1, base *= base)
        if (n & 1) out *= base;
    return out;
}

// Pieces depend on the data alone, and are added up in order: results are the same for any number of threads.
// `cells` are the sums of a piece; there are so few pieces that these take no more room than the rows.
template <class Work>
void in_pieces(int64_t rows, int64_t cells, double* sums, int64_t most, int threads, const Work& work) {
    const int64_t fitting = std::max<int64_t>(1, 4 * rows / std::max<int64_t>(cells, 1));
    const int64_t pieces = std::clamp<int64_t>(rows / kPieceRows, 1, std::min(most, fitting));
    std::vector<double> part(size_t((pieces - 1) * cells), 0.0);
    std::fill(sums, sums + cells, 0.0);
    share_out(threads, pieces, [&](int, int64_t piece) {
        double* out = piece ? part.data() + (piece - 1) * cells : sums;
        work(rows * piece / pieces, rows * (piece + 1) / pieces, out);
    });
    for (int64_t piece = 1; piece < pieces; ++piece) {
        const double* one = part.data() + (piece - 1) * cells;
        for (int64_t cell = 0; cell < cells; ++cell) sums[cell] += one[cell];
    }
}

}  // namespace

double rank_chances(const RankRows& r, const RankModel& m, double* chance, double* told, int threads) {
    std::vector<double> sums(size_t(m.judges) + 1);
    in_pieces(r.rows, m.judges + 1, sums.data(), kMostRankPieces, threads, [&](int64_t begin, int64_t end, double* out) {
        double likelihood = 0.0, product = 1.0;
        for (int64_t n = begin; n < end; ++n) {
            const int64_t judge = r.judge[n];
            const double gap = m.strength[r.left[n]] - m.strength[r.right[n]], count = r.count[n];
            const double odds = m.reliability[judge] * gap + m.position[judge] + inner(r.style + n * r.styles, m.effect, r.styles);
            const double small = std::exp(-std::abs(odds)), likely = 1.0 / (1.0 + small);
            const double p = odds < 0 ? small * likely : likely;
            // log(1 + exp(odds)) = max(odds, 0) + log(1 + small); logarithms of many rows are taken as that of their product.
            likelihood += r.points[n] * odds - count * std::max(odds, 0.0);
            if (count <= kFactors && count == std::floor(count)) {
                product *= power(1.0 + small, int(count));
                if (product > kLarge) {
                    likelihood -= std::log(product);
                    product = 1.0;
                }
            } else {
                likelihood -= count * std::log1p(small);
            }
            chance[n] = p;
            out[judge] += count * p * (1.0 - p) * gap * gap;
        }
        out[m.judges] += likelihood - std::log(product);
    });
    std::copy(sums.begin(), sums.end() - 1, told);
    return sums.back();
}

void rank_slopes(const RankRows& r, const RankModel& m, const double* chance, const double* variance, double* by_item,
                 double* by_judge, double* by_style, int threads) {
    const int64_t judges_at = m.items, style_at = judges_at + 2 * m.judges, cells = style_at + r.styles;
    std::vector<double> sums(size_t(cells), 0.0);
    in_pieces(r.rows, cells, sums.data(), kMostRankPieces, threads, [&](int64_t begin, int64_t end, double* out) {
        for (int64_t n = begin; n < end; ++n) {
            const int64_t judge = r.judge[n], left = r.left[n], right = r.right[n];
            const double gap = m.strength[left] - m.strength[right], p = chance[n];
            const double pull = variance[judge] * r.count[n] * p * (1.0 - p) * gap;
            const double residual = r.points[n] - r.count[n] * p - 0.5 * pull * (1.0 - 2.0 * p) * gap;
            const double of_left = m.reliability[judge] * residual - pull;
            out[left] += of_left;
            out[right] -= of_left;
            out[judges_at + 2 * judge] += residual;
            out[judges_at + 2 * judge + 1] += residual * gap;
            for (int64_t s = 0; s < r.styles; ++s) out[style_at + s] += residual * r.style[n * r.styles + s];
        }
    });
    std::copy(sums.begin(), sums.begin() + judges_at, by_item);
    std::copy(sums.begin() + judges_at, sums.begin() + style_at, by_judge);
    std::copy(sums.begin() + style_at, sums.end(), by_style);
}

void rank_information(const RankRows& r, const RankModel& m, const RankPlaces& places, const double* weight, double* matrix,
                      int threads) {
    const int64_t size = places.size;
    in_pieces(r.rows, size * size, matrix, kMostMatrices, threads, [&](int64_t begin, int64_t end, double* out) {
        std::vector<double> diagonal(size_t(m.items), 0.0);
        double unused = 0.0;
        for (int64_t n = begin; n < end;) {  // rows of one judge and left item follow each other: theirs stays in the cache
            const int64_t judge = r.judge[n], left = r.left[n];
            const int64_t at_position = places.position + places.step * judge, at_scale = places.scale + judge;
            const bool has_position = places.position >= 0, has_scale = places.scale >= 0;
            const double scale = m.reliability[judge];
            double* const of_left = out + left * size;
            double* const of_position = has_position ? out + at_position * size : nullptr;
            double* const of_scale = has_scale ? out + at_scale * size : nullptr;
            double total = 0.0, apart = 0.0, squares = 0.0;
            for (; n < end && r.left[n] == left && r.judge[n] == judge; ++n) {
                const int64_t right = r.right[n];
                const double w = weight[n], gap = m.strength[left] - m.strength[right];
                of_left[right] -= w * scale * scale;
                diagonal[size_t(right)] += w * scale * scale;
                if (has_position) of_position[right] -= w * scale;
                if (has_scale) of_scale[right] -= w * gap * scale;
                total += w, apart += w * gap, squares += w * gap * gap;
                for (int64_t s = 0; s < r.styles; ++s) {
                    const double* const style = r.style + n * r.styles;
                    double* const line = out + (places.style + s) * size;
                    const double known = w * style[s];
                    line[left] += known * scale;
                    line[right] -= known * scale;
                    (has_position ? line[at_position] : unused) += known;
                    (has_scale ? line[at_scale] : unused) += known * gap;
                    for (int64_t other = 0; other <= s; ++other) line[places.style + other] += known * style[other];
                }
            }
            diagonal[size_t(left)] += total * scale * scale;
            if (has_position) of_position[left] += total * scale, of_position[at_position] += total;
            if (has_scale) of_scale[left] += apart * scale, of_scale[at_scale] += squares;
            if (has_scale && has_position) of_scale[at_position] += apart;
        }
        for (int64_t item = 0; item < m.items; ++item) out[item * size + item] += diagonal[size_t(item)];
    });
    for (int64_t a = 0; a < size; ++a)  // left and right fall on either side of the diagonal
        for (int64_t b = 0; b < a; ++b) {
            const double both = matrix[a * size + b] + matrix[b * size + a];
            matrix[a * size + b] = matrix[b * size + a] = both;
        }
}

}  // namespace adjudge
