#include "careful.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../threads.hpp"
#include "pass.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1024;            // workers
constexpr int64_t kBlockRows = 1 << 16;     // whose votes are summed before those of other blocks are added
constexpr double kTiny = 1e-9;

double logit(double p) { return std::log(p / (1.0 - p)); }

}  // namespace

template <class Count>
void worker_sums(const WorkerCounts<Count>& in, double* met, double* said, double* right, double* votes, int threads) {
    const int k = in.k;
    share_range(threads, in.workers, kGrain, [&](int64_t begin, int64_t end) {
        std::vector<double> room(static_cast<size_t>(k));
        for (int64_t w = begin; w < end; ++w) {
            double* const __restrict mine = met ? met + w * k : room.data();
            double agreed = 0.0, total = 0.0;
            for (int c = 0; c < k; ++c) mine[c] = 0.0;
            if (said)
                for (int c = 0; c < k; ++c) said[w * k + c] = 0.0;
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const Count* const line = in.counts + r * k;
                for (int c = 0; c < k; ++c) mine[c] += double(line[c]);
                agreed += double(line[in.row_label[r]]);
                if (!said) continue;
                double all = 0.0;
                for (int c = 0; c < k; ++c) all += double(line[c]);
                said[w * k + in.row_label[r]] += all;
            }
            for (int c = 0; c < k; ++c) total += mine[c];
            right[w] = agreed;
            votes[w] = total;
        }
    });
}

void careful_moments(const double* met, const double* right, const double* votes, const double* own, int64_t workers, int k,
                     double* sums, int threads) {
    std::vector<double> part(size_t((workers + kGrain - 1) / kGrain) * 3);
    share_range(threads, workers, kGrain, [&](int64_t begin, int64_t end) {
        double several = 0.0, between = 0.0, within = 0.0;
        for (int64_t w = begin; w < end; ++w) {
            if (votes[w] < 2.0) continue;
            double expected = 0.0;
            for (int c = 0; c < k; ++c) expected += met[w * k + c] * own[c];
            const double mean = std::clamp(expected / votes[w], 0.02, 0.98), off = right[w] / votes[w] - mean;
            const double variance = mean * (1.0 - mean);
            several += 1.0;
            between += votes[w] * (off * off) - variance;
            within += variance * (votes[w] - 1.0);
        }
        double* const mine = part.data() + begin / kGrain * 3;
        mine[0] = several, mine[1] = between, mine[2] = within;
    });
    std::fill_n(sums, 3, 0.0);
    for (size_t i = 0; i < part.size(); ++i) sums[i % 3] += part[i];
}

template <class Count>
void blend_counts(const double* one, const Count* other, double x, double y, int64_t n, double* out, int threads) {
    share_range(threads, n, kBlockRows, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = x * one[i] + y * double(other[i]);
    });
}

template <class Count>
void given_votes(const WorkerCounts<Count>& in, double* votes, int threads) {
    const int64_t rows = in.worker_ptr[in.workers], blocks = (rows + kBlockRows - 1) / kBlockRows;
    const size_t k = size_t(in.k);
    std::vector<double> part(size_t(blocks) * k * k, 0.0);
    share_range(threads, blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            for (int64_t r = b * kBlockRows; r < std::min(rows, (b + 1) * kBlockRows); ++r) {
                double* const __restrict line = part.data() + (size_t(b) * k + size_t(in.row_label[r])) * k;
                for (size_t c = 0; c < k; ++c) line[c] += double(in.counts[size_t(r) * k + c]);
            }
    });
    std::fill_n(votes, k * k, 0.0);
    for (size_t b = 0; b < size_t(blocks); ++b)
        for (size_t i = 0; i < k * k; ++i) votes[i] += part[b * k * k + i];
}

namespace {

// What the lines of some workers are made of, [some] or [some, k].
struct CarefulRoom {
    std::vector<double> shift;               // by how much the odds to be right differ from the mean worker's
    std::vector<double> right;               // probability to be right, by true label
    std::vector<double> expected;            // A: votes by given label
    std::vector<double> taste;               // A: by given label

    CarefulRoom(int64_t some, int k)
        : shift(size_t(some)), right(size_t(some) * size_t(k)), expected(right.size()),
          taste(right.size()) {}
};

// Votes by given label that workers begin..end would cast without a taste, and the taste that theirs show.
void find_tastes(const Careful& shared, const double* by_given, int k, int64_t begin, int64_t end, CarefulRoom& room) {
    for (int64_t w = begin; w < end; ++w) {
        const double* const met = shared.met + w * k;
        const double* const right = room.right.data() + (w - begin) * k;
        double* const expected = room.expected.data() + (w - begin) * k;
        double all = 0.0;
        for (int g = 0; g < k; ++g) {
            const double* const line = by_given + size_t(g) * size_t(k);
            double sum = 0.0;
            for (int c = 0; c < k; ++c) sum += shared.exists[c] ? met[c] * (1.0 - right[c]) * line[c] : 0.0;
            expected[g] = sum + (shared.exists[g] ? met[g] * right[g] : 0.0);
            all += expected[g];
        }
        const double lend = 10.0 / std::max(all, kTiny);
        for (int g = 0; g < k; ++g) {
            const double lent = lend * expected[g] + 1e-3;
            room.taste[size_t((w - begin) * k + g)] = (shared.said[w * k + g] + lent) / (expected[g] + lent);
        }
    }
    kernels().powers(room.taste.data(), (end - begin) * k, shared.taste_power);
}

}  // namespace

template <class Count>
void careful_table(const WorkerCounts<Count>& in, const Careful& shared, double* table, int threads) {
    const int k = in.k;
    const bool has_taste = shared.taste_power != 0.0;
    bool all_exist = true;
    std::vector<double> own_logit(size_t(k), 0.0), by_given(size_t(k) * size_t(k));
    for (int c = 0; c < k; ++c) {
        all_exist = all_exist && shared.exists[c];
        own_logit[size_t(c)] = logit(shared.own[c]);
        for (int g = 0; g < k; ++g) by_given[size_t(g) * size_t(k) + size_t(c)] = shared.errors[c * k + g];
    }
    const int64_t some = std::clamp<int64_t>(kBlockNumbers / k, 1, kGrain);
    share_range(threads, in.workers, some, [&](int64_t begin, int64_t end) {
        CarefulRoom room(end - begin, k);
        for (int64_t w = begin; w < end; ++w) {
            const double* const met = shared.met + w * k;
            double total = 0.0, mean = 0.0;
            for (int c = 0; c < k; ++c) {
                total += met[c];
                mean += met[c] * shared.own[c];
            }
            const double usual = std::clamp(mean / std::max(total, kTiny), 0.02, 0.98);
            const double rate = std::clamp((shared.right[w] + shared.kappa * usual) / (total + shared.kappa), 0.01, 0.995);
            room.shift[size_t(w - begin)] = rate * (1.0 - usual) / ((1.0 - rate) * usual);
        }
        kernels().logs(room.shift.data(), end - begin, 1e-9, false);
        for (int64_t w = begin; w < end; ++w)
            for (int c = 0; c < k; ++c)
                room.right[size_t((w - begin) * k + c)] = own_logit[size_t(c)] + shared.weight * room.shift[size_t(w - begin)];
        kernels().logistics(room.right.data(), (end - begin) * k);
        if (has_taste) find_tastes(shared, by_given.data(), k, begin, end, room);
        std::vector<double> numbers(size_t(k) * 2);
        double* const __restrict scale = numbers.data();  // of errors. A: 1 / norm; B: 1 - share of the worker's own rows
        double* const __restrict mine = scale + k;        // B: that share, by vote of the worker
        for (int64_t w = begin; w < end; ++w) {
            const double* const met = shared.met + w * k;
            const double* const right = room.right.data() + (w - begin) * k;
            const double* const taste = room.taste.data() + (w - begin) * k;
            for (int c = 0; c < k; ++c) {
                if (has_taste) {
                    const double* const line = shared.errors + c * k;
                    double sum = 0.0;
                    for (int g = 0; g < k; ++g) sum += taste[g] * line[g];
                    const double norm = shared.exists[c] ? (1.0 - right[c]) * sum + right[c] * taste[c] : 0.0;
                    scale[c] = norm > 0.0 ? 1.0 / norm : 1.0;
                } else {
                    const double share = std::min(met[c] / (met[c] + 10.0), shared.most_own);
                    scale[c] = 1.0 - share;
                    mine[c] = share / std::max(met[c], kTiny);
                }
            }
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const int g = in.row_label[r];
                const double* const line = by_given.data() + size_t(g) * size_t(k);
                double* const __restrict out = table + r * k;
                for (int c = 0; c < k; ++c) out[c] = (1.0 - right[c]) * line[c];
                out[g] = right[g];
                if (has_taste)
                    for (int c = 0; c < k; ++c) out[c] *= taste[g] * scale[c];
                else
                    for (int c = 0; c < k; ++c) out[c] = out[c] * scale[c] + mine[c] * double(in.counts[r * k + c]);
            }
        }
        const int64_t first = in.worker_ptr[begin], last = in.worker_ptr[end];
        kernels().logs(table + first * k, (last - first) * k, 1e-6, true);
        if (all_exist) return;
        for (int64_t r = first; r < last; ++r)
            for (int c = 0; c < k; ++c)
                if (!shared.exists[c]) table[r * k + c] = -std::numeric_limits<double>::infinity();
    });
}

template <class Count>
void honest_lines(const WorkerCounts<Count>& in, const double* lent, const uint8_t* exists, double in_all, double* lines,
                  double* without, int threads) {
    const int k = in.k;
    std::vector<double> log_lent(size_t(k) * size_t(k));
    for (size_t i = 0; i < log_lent.size(); ++i) log_lent[i] = std::log(lent[i]);  // of 0: minus infinity
    share_range(threads, in.workers, kGrain, [&](int64_t begin, int64_t end) {
        std::vector<double> room(size_t(k) * 3);
        double* const __restrict met = room.data();
        double* const __restrict total = met + k;
        double* const __restrict fewer = total + k;
        for (int64_t w = begin; w < end; ++w) {
            for (int c = 0; c < k; ++c) met[c] = 0.0;
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r)
                for (int c = 0; c < k; ++c) met[c] += double(in.counts[r * k + c]);
            for (int c = 0; c < k; ++c) {
                total[c] = std::log(met[c] + in_all);
                fewer[c] = met[c] > 0.0 ? std::log(std::max(met[c] - 1.0, 0.0) + in_all) : 0.0;
            }
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const int64_t of_label = int64_t(in.row_label[r]) * k;
                for (int c = 0; c < k; ++c) {
                    const double votes = double(in.counts[r * k + c]), mean = lent[of_label + c];
                    const bool has_votes = votes != 0.0 && exists[c];
                    lines[r * k + c] = (has_votes ? std::log(votes + mean) : log_lent[size_t(of_label + c)]) - total[c];
                    without[r * k + c] = has_votes ? std::log(std::max(votes - 1.0, 0.0) + mean) - fewer[c] : 0.0;
                }
            }
        }
    });
}

#define ADJUDGE_FOR(Count)                                                                                       \
    template void worker_sums(const WorkerCounts<Count>&, double*, double*, double*, double*, int);              \
    template void blend_counts(const double*, const Count*, double, double, int64_t, double*, int);              \
    template void given_votes(const WorkerCounts<Count>&, double*, int);                                         \
    template void careful_table(const WorkerCounts<Count>&, const Careful&, double*, int);                       \
    template void honest_lines(const WorkerCounts<Count>&, const double*, const uint8_t*, double, double*, double*, int);
ADJUDGE_FOR(int64_t)
ADJUDGE_FOR(double)
#undef ADJUDGE_FOR

}  // namespace adjudge
