#include "honest.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "../threads.hpp"

namespace quorate {
namespace {

constexpr int64_t kPieceVotes = 1 << 16;
constexpr double kNear = 1e-9;

// Tasks in pieces of about as many votes each, which depend on the votes alone: sums of pieces are added in their order.
std::vector<int64_t> pieces_of(const Labelled& v) {
    const int64_t first = v.task_ptr[0], votes = v.task_ptr[v.tasks] - first;
    const int64_t n = std::max<int64_t>(votes / kPieceVotes, 1);
    std::vector<int64_t> begin{0};
    for (int64_t i = 1; i < n; ++i)
        begin.push_back(std::lower_bound(v.task_ptr, v.task_ptr + v.tasks, first + votes / n * i) - v.task_ptr);
    begin.push_back(v.tasks);
    return begin;
}

// One task: OUT scores [k] honest probabilities before the last step, room [k].
void probabilities_of(const Labelled& v, const Honest& h, int64_t t, double* scores, double* shown) {
    const int k = v.k;
    const int64_t first = v.task_ptr[t], last = v.task_ptr[t + 1];
    const int32_t label = v.labels[t];
    std::copy(h.log_prior, h.log_prior + k, scores);
    std::copy(h.uniform, h.uniform + k, shown);
    for (int64_t i = first; i < last; ++i) {
        const size_t row = v.row[i];
        const double* line = h.lines + row * size_t(k);
        const double own = h.without[row * size_t(k) + size_t(label)];
        const int32_t given = v.row_label[row];
        double best = own;
        for (int c = 0; c < k; ++c) {
            const double x = c == label ? own : line[c];
            best = x > best ? x : best;
            scores[c] += x;
        }
        scores[given] += best - (given == label ? own : line[given]);
        shown[given] += 1.0;
    }
    honest_mix(h, k, double(last - first), scores, shown);
}

void add(int64_t* cell, int64_t units, bool alone) {
    if (alone) {
        *cell += units;
    } else {
        reinterpret_cast<std::atomic<int64_t>*>(cell)->fetch_add(units, std::memory_order_relaxed);
    }
}

}  // namespace

void honest_mix(const Honest& h, int k, double size, double* scores, const double* shown) {
    double best = -std::numeric_limits<double>::infinity();
    for (int c = 0; c < k; ++c)
        if (h.uniform[c] > 0.0 && scores[c] > best) best = scores[c];
    const double cold = std::min(1.0, 2.0 * h.holds) / (2.0 * (1.0 + (size - 1.0) * h.shared_error));
    double total = 0.0;
    for (int c = 0; c < k; ++c) total += scores[c] = h.uniform[c] > 0.0 ? std::exp((scores[c] - best) * cold) : 0.0;
    for (int c = 0; c < k; ++c)
        scores[c] = (1.0 - kVoteShare) * (scores[c] / total) + kVoteShare * shown[c] / (size + 1.0);
}

LastStep last_step(const double* p, int k, int label) {
    double best = 0.0, total = 0.0;
    for (int c = 0; c < k; ++c) {
        best = p[c] > best ? p[c] : best;
        total += p[c];
    }
    int near = 0;
    for (int c = 0; c < k; ++c) near += p[c] >= best - kNear;
    return {near > 1, best, total + (best - p[label])};
}

void pair_sums(const Labelled& v, const double* values, int quantities, double* out, int threads) {
    const std::vector<int64_t> begin = pieces_of(v);
    const int64_t pieces = int64_t(begin.size()) - 1;
    const size_t width = size_t(quantities) + 2;
    std::vector<double> sums(size_t(pieces) * width);
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<double> mine(width), x(static_cast<size_t>(quantities)), squares(static_cast<size_t>(quantities));
        std::vector<int64_t> shown(static_cast<size_t>(v.k));
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            std::fill(x.begin(), x.end(), 0.0);
            std::fill(squares.begin(), squares.end(), 0.0);
            int64_t alike = 0;
            for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) {
                const size_t row = v.row[i];
                const int32_t given = v.row_label[row];
                alike += shown[size_t(given)]++;
                for (size_t q = 0; q < size_t(quantities); ++q) {
                    const double value = values[(2 * q + size_t(given == v.labels[t])) * size_t(v.rows) + row];
                    x[q] += value;
                    squares[q] += value * value;
                }
            }
            for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) shown[size_t(v.row_label[v.row[i]])] = 0;
            for (size_t q = 0; q < size_t(quantities); ++q) mine[q] += x[q] * x[q] - squares[q];
            const double size = double(v.task_ptr[t + 1] - v.task_ptr[t]);
            mine[width - 2] += 2.0 * double(alike);
            mine[width - 1] += size * (size - 1.0);
        }
        std::copy(mine.begin(), mine.end(), sums.begin() + piece * int64_t(width));
    });
    std::fill(out, out + width, 0.0);
    for (int64_t piece = 0; piece < pieces; ++piece)
        for (size_t q = 0; q < width; ++q) out[q] += sums[size_t(piece) * width + q];
}

void honest_pass(const Labelled& v, const Honest& h, const HonestOut& out, int threads) {
    const std::vector<int64_t> begin = pieces_of(v);
    const int64_t pieces = int64_t(begin.size()) - 1;
    const bool alone = threads <= 1 || pieces == 1;
    const size_t k = size_t(v.k);
    share_out(threads, pieces, [&](int, int64_t piece) {
        std::vector<double> room(2 * k);
        double* const p = room.data();
        for (int64_t t = begin[size_t(piece)]; t < begin[size_t(piece) + 1]; ++t) {
            probabilities_of(v, h, t, p, p + k);
            const size_t label = size_t(v.labels[t]);
            const LastStep last = last_step(p, v.k, v.labels[t]);
            if (out.tie) out.tie[t] |= last.tied;
            if (out.answers) {
                const int64_t doubt = std::llrint((1.0 - p[label]) / kAnswerUnit);
                for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) {
                    const size_t row = v.row[i];
                    add(out.answers + row, std::llrint(p[v.row_label[row]] / kAnswerUnit), alone);
                    add(out.doubts + row, doubt, alone);
                }
            }
            if (out.confidence) out.confidence[t] = last.best / last.total;
            if (out.probabilities) {
                p[label] = last.best;
                for (size_t c = 0; c < k; ++c) out.probabilities[size_t(t) * k + c] = p[c] / last.total;
            }
        }
    });
}

}  // namespace quorate
