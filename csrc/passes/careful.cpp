#include "careful.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../threads.hpp"
#include "units.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1024;            // workers
constexpr int64_t kBlockRows = 1 << 16;     // whose votes are summed before those of other blocks are added
constexpr double kTiny = 1e-9;

double logit(double p) { return std::log(p / (1.0 - p)); }

}  // namespace

template <class Count>
void worker_sums(const WorkerCounts<Count>& in, double* met, double* said, double* right, int threads) {
    const int k = in.k;
    share_range(threads, in.workers, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t w = begin; w < end; ++w) {
            double* const __restrict mine = met + w * k;
            double agreed = 0.0;
            for (int c = 0; c < k; ++c) mine[c] = 0.0;
            if (said)
                for (int c = 0; c < k; ++c) said[w * k + c] = 0.0;
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const Count* const line = in.counts + r * k;
                double all = 0.0;
                for (int c = 0; c < k; ++c) {
                    mine[c] += double(line[c]);
                    all += double(line[c]);
                }
                agreed += double(line[in.row_label[r]]);
                if (said) said[w * k + in.row_label[r]] += all;
            }
            right[w] = agreed;
        }
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

template <class Count>
void careful_table(const WorkerCounts<Count>& in, const Careful& shared, double* table, int threads) {
    const int k = in.k;
    const bool has_taste = shared.taste_power != 0.0;
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    std::vector<double> own_logit(size_t(k), 0.0), by_given(size_t(k) * size_t(k));
    for (int c = 0; c < k; ++c) {
        own_logit[size_t(c)] = logit(shared.own[c]);
        for (int g = 0; g < k; ++g) by_given[size_t(g) * size_t(k) + size_t(c)] = shared.errors[c * k + g];
    }
    share_range(threads, in.workers, kGrain / 4, [&](int64_t begin, int64_t end) {
        std::vector<double> room(size_t(k) * 7);
        double* const __restrict right = room.data();       // probability to be right, by true label
        double* const __restrict wrong = right + k;         // to err; 0 for labels that do not exist
        double* const __restrict likely = wrong + k;        // to be right; 0 for labels that do not exist
        double* const __restrict taste = likely + k;        // A: by given label
        double* const __restrict scale = taste + k;         // A: 1 / norm; B: 1 - share of the worker's own rows
        double* const __restrict mine = scale + k;          // B: that share, by vote of the worker
        double* const __restrict expected = mine + k;       // A: votes by given label
        for (int64_t w = begin; w < end; ++w) {
            const double* const met = shared.met + w * k;
            double total = 0.0, mean = 0.0;
            for (int c = 0; c < k; ++c) {
                total += met[c];
                mean += met[c] * shared.own[c];
            }
            const double usual = std::clamp(mean / std::max(total, kTiny), 0.02, 0.98);
            const double rate = std::clamp((shared.right[w] + shared.kappa * usual) / (total + shared.kappa), 0.01, 0.995);
            const double shift = shared.weight * (logit(rate) - logit(usual));
            for (int c = 0; c < k; ++c) {
                right[c] = 1.0 / (1.0 + std::exp(-(own_logit[size_t(c)] + shift)));
                wrong[c] = shared.exists[c] ? 1.0 - right[c] : 0.0;
                likely[c] = shared.exists[c] ? right[c] : 0.0;
            }
            if (has_taste) {
                double all = 0.0;
                for (int g = 0; g < k; ++g) {
                    const double* const line = by_given.data() + size_t(g) * size_t(k);
                    double sum = 0.0;
                    for (int c = 0; c < k; ++c) sum += met[c] * wrong[c] * line[c];
                    expected[g] = sum + met[g] * likely[g];
                    all += expected[g];
                }
                for (int g = 0; g < k; ++g) {
                    const double lent = 10.0 * expected[g] / std::max(all, kTiny) + 1e-3;
                    taste[g] = std::pow((shared.said[w * k + g] + lent) / (expected[g] + lent), shared.taste_power);
                }
                for (int c = 0; c < k; ++c) {
                    const double* const line = shared.errors + c * k;
                    double sum = 0.0;
                    for (int g = 0; g < k; ++g) sum += taste[g] * line[g];
                    const double norm = wrong[c] * sum + likely[c] * taste[c];
                    scale[c] = norm > 0.0 ? 1.0 / norm : 1.0;
                }
            } else {
                for (int c = 0; c < k; ++c) {
                    const double share = std::min(met[c] / (met[c] + 10.0), shared.most_own);
                    scale[c] = 1.0 - share;
                    mine[c] = share / std::max(met[c], kTiny);
                }
            }
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const int g = in.row_label[r];
                const double* const line = by_given.data() + size_t(g) * size_t(k);
                double* const __restrict out = table + r * k;
                for (int c = 0; c < k; ++c) out[c] = wrong[c] * line[c];
                out[g] = right[g];
                if (has_taste)
                    for (int c = 0; c < k; ++c) out[c] *= taste[g] * scale[c];
                else
                    for (int c = 0; c < k; ++c) out[c] = out[c] * scale[c] + mine[c] * double(in.counts[r * k + c]);
                for (int c = 0; c < k; ++c)
                    out[c] = shared.exists[c] ? whole(std::log(std::max(out[c], 1e-6)), kLogGrid) : kNever;
            }
        }
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
    template void worker_sums(const WorkerCounts<Count>&, double*, double*, double*, int);                       \
    template void given_votes(const WorkerCounts<Count>&, double*, int);                                         \
    template void careful_table(const WorkerCounts<Count>&, const Careful&, double*, int);                       \
    template void honest_lines(const WorkerCounts<Count>&, const double*, const uint8_t*, double, double*, double*, int);
ADJUDGE_FOR(int64_t)
ADJUDGE_FOR(double)
#undef ADJUDGE_FOR

}  // namespace adjudge
