#include "scores.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../threads.hpp"

namespace adjudge {

namespace {

constexpr int64_t kPieceScores = 1 << 15;
constexpr int64_t kMostPieces = 32;

double robust_weight(double huber, double noise, double error) {
    return std::min(1.0, huber * huber * noise / std::max(error * error, 1e-24));
}

// Pieces depend on the data alone, and are added up in order: results are the same for any number of threads.
template <class Work>
void in_pieces(const ScorePass& p, double* sums, int threads, const Work& work) {
    const int64_t scores = p.item_ptr[p.items], cells = p.judges * kJudgeSums;
    const int64_t fitting = std::max<int64_t>(1, scores / std::max<int64_t>(cells, 1));  // sums take no more room than scores
    const int64_t pieces = std::clamp<int64_t>(scores / kPieceScores, 1, std::min(kMostPieces, fitting));
    std::vector<double> part(size_t(pieces * cells), 0.0);
    share_out(threads, pieces, [&](int, int64_t piece) {
        auto first_item = [&](int64_t n) {
            return std::lower_bound(p.item_ptr, p.item_ptr + p.items, scores / pieces * n) - p.item_ptr;
        };
        const int64_t end = piece + 1 == pieces ? p.items : first_item(piece + 1);
        work(first_item(piece), end, part.data() + piece * cells);
    });
    std::fill(sums, sums + cells, 0.0);
    for (int64_t piece = 0; piece < pieces; ++piece)
        for (int64_t cell = 0; cell < cells; ++cell) sums[cell] += part[size_t(piece * cells + cell)];
}

}  // namespace

void score_pass(const ScorePass& p, bool robust, double* x, double* variance, double* sums, int threads) {
    in_pieces(p, sums, threads, [&](int64_t begin, int64_t end, double* out) {
        std::vector<double> u;
        for (int64_t i = begin; i < end; ++i) {
            const int64_t from = p.item_ptr[i], n = p.item_ptr[i + 1] - from;
            u.resize(size_t(n));
            const double before = x[i] - p.centre;
            double precision = 1.0 / p.spread, top = 0.0;
            for (int64_t s = 0; s < n; ++s) {
                const JudgeLine& j = p.line[p.judge[from + s]];
                const double beyond = p.y[from + s] - p.centre - j.bias;
                u[size_t(s)] = robust ? robust_weight(p.huber, j.noise, beyond - j.slope * before) : 1.0;
                const double w = u[size_t(s)] * j.weight * (p.share ? p.share[from + s] : 1.0);
                precision += w * j.gain;
                top += w * j.slope * beyond;
            }
            const double v = 1.0 / precision, dx = top * v;
            x[i] = p.centre + dx;
            variance[i] = v;
            for (int64_t s = 0; s < n; ++s) {
                double* sum = out + int64_t(p.judge[from + s]) * kJudgeSums;
                const double z = p.y[from + s] - p.centre, w = u[size_t(s)];
                sum[0] += w;
                sum[1] += w * dx;
                sum[2] += w * (dx * dx + v);
                sum[3] += w * z;
                sum[4] += w * z * dx;
                sum[5] += w * z * z;
            }
        }
    });
}

void score_agreement(const ScorePass& p, const double* x, const double* variance, double* sums, int threads) {
    in_pieces(p, sums, threads, [&](int64_t begin, int64_t end, double* out) {
        for (int64_t i = begin; i < end; ++i) {
            const int64_t from = p.item_ptr[i], to = p.item_ptr[i + 1];
            if (to - from < 2) continue;
            const double dx = x[i] - p.centre, total = 1.0 / variance[i];
            for (int64_t s = from; s < to; ++s) {
                const JudgeLine& j = p.line[p.judge[s]];
                const double z = p.y[s] - p.centre, beyond = z - j.bias;
                const double u = robust_weight(p.huber, j.noise, beyond - j.slope * dx);
                const double w = u * j.weight * (p.share ? p.share[s] : 1.0);
                const double others = (total * dx - w * j.slope * beyond) / (total - w * j.gain);
                if (!std::isfinite(others)) continue;
                double* sum = out + int64_t(p.judge[s]) * kJudgeSums;
                sum[0] += 1.0;
                sum[1] += z;
                sum[2] += others;
                sum[3] += z * z;
                sum[4] += others * others;
                sum[5] += z * others;
            }
        }
    });
}

}  // namespace adjudge
