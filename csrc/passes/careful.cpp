#include "careful.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "../threads.hpp"
#include "aligned.hpp"
#include "few_labels.hpp"
#include "pass.hpp"
#include "prepare.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrain = 1024;            // workers
constexpr int64_t kBlockRows = 1 << 16;     // whose votes are summed before those of other blocks are added

// Adds a line of counts IN [k] to OUT [k].
template <class Count>
inline void add_line(const Count* line, int k, double* __restrict sum) {
    for (int c = 0; c < k; ++c) sum[c] += double(line[c]);
}

template <class Count>
const CarefulKernels<Count>& careful_kernels() {
    if constexpr (std::is_same_v<Count, int64_t>) return kernels().careful_hard;
    else return kernels().careful_soft;
}

// Sums over workers begin..end, of any number of labels. given IN/OUT [k given, k true], or null.
template <class Count>
void sum_any(const WorkerCounts<Count>& in, const WorkerSums& out, double* given, int64_t begin, int64_t end) {
    const int k = in.k;
    std::vector<double> room(static_cast<size_t>(k) * 3);
    double* const __restrict met = room.data();
    double* const __restrict said = met + k;
    double* const __restrict mixed = said + k;
    for (int64_t w = begin; w < end; ++w) {
        double right = 0.0, total = 0.0;
        for (int c = 0; c < k; ++c) met[c] = said[c] = 0.0;
        for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
            const int label = in.row_label[r];
            for (int c = 0; c < k; ++c) {
                const double own = double(in.counts[r * k + c]);
                mixed[c] = in.kept ? in.kept_share * in.kept[r * k + c] + in.own_share * own : own;
            }
            add_line(mixed, k, met);
            if (given) add_line(mixed, k, given + int64_t(label) * k);
            right += mixed[label];
            double all = 0.0;
            for (int c = 0; out.said && c < k; ++c) all += mixed[c];
            said[label] += all;
        }
        for (int c = 0; c < k; ++c) total += met[c];
        if (out.met) std::copy(met, met + k, out.met + w * k);
        if (out.said) std::copy(said, said + k, out.said + w * k);
        out.right[w] = right;
        out.votes[w] = total;
    }
}

}  // namespace

template <class Count>
void worker_sums(const WorkerCounts<Count>& in, const WorkerSums& out, int threads) {
    const int lanes = lanes_for(in.k), stride = lanes ? lanes : in.k;
    const size_t cells = size_t(in.k) * size_t(stride);
    std::vector<double> part(out.given ? size_t((in.workers + kGrain - 1) / kGrain) * cells : 0, 0.0);
    share_range(threads, in.workers, kGrain, [&](int64_t begin, int64_t end) {
        double* const given = out.given ? part.data() + size_t(begin / kGrain) * cells : nullptr;
        if (lanes) careful_kernels<Count>().sums(in, lanes, out, given, begin, end);
        else sum_any(in, out, given, begin, end);
    });
    if (!out.given) return;
    std::fill_n(out.given, size_t(in.k) * size_t(in.k), 0.0);
    for (size_t i = 0; i < part.size(); ++i)
        if (i % size_t(stride) < size_t(in.k)) out.given[i % cells / size_t(stride) * size_t(in.k) + i % size_t(stride)] += part[i];
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
        const double lend = 10.0 / std::max(all, kLeastVotes);
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
    if (const int lanes = lanes_for(k)) {
        share_range(threads, in.workers, some, [&](int64_t begin, int64_t end) {
            const Aligned<double> room = allocate<double>(size_t(end - begin) * size_t(lanes) * 3);
            careful_kernels<Count>().lines(in, lanes, shared, room.get(), table, begin, end);
        });
        return;
    }
    share_range(threads, in.workers, some, [&](int64_t begin, int64_t end) {
        CarefulRoom room(end - begin, k);
        for (int64_t w = begin; w < end; ++w) {
            const double* const met = shared.met + w * k;
            double total = 0.0, mean = 0.0;
            for (int c = 0; c < k; ++c) {
                total += met[c];
                mean += met[c] * shared.own[c];
            }
            const double usual = std::clamp(mean / std::max(total, kLeastVotes), 0.02, 0.98);
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
                    mine[c] = share / std::max(met[c], kLeastVotes);
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

namespace {

constexpr size_t kKnownLogs = 2048;  // of each kind: they stay in the nearest cache

// Logarithms of whole numbers n plus each of some shares: most counts are small and whole, and are looked up.
class KnownLogs {
  public:
    // Small data does not pay for a table: it is made only if `worth`.
    KnownLogs(const double* shares, size_t number, bool worth) : shares_(shares) {
        if (!worth) return;
        known_ = kKnownLogs / number;
        logs_.resize(number * known_);
        for (size_t i = 0; i < number; ++i)
            for (size_t n = 0; n < known_; ++n) logs_[i * known_ + n] = std::log(double(n) + shares[i]);
    }
    double operator()(double count, size_t share) const {
        if (count < double(known_)) {
            const size_t n = size_t(count);
            if (double(n) == count) return logs_[share * known_ + n];
        }
        return std::log(count + shares_[share]);
    }

  private:
    const double* shares_;
    size_t known_ = 0;
    std::vector<double> logs_;
};

}  // namespace

template <class Count>
void honest_lines(const WorkerCounts<Count>& in, const double* lent, const uint8_t* exists, double in_all, double* both,
                  int threads) {
    const size_t cells = size_t(in.k) * size_t(in.k);
    const bool worth = size_t(in.worker_ptr[in.workers]) * size_t(in.k) > 4 * kKnownLogs;
    const KnownLogs log_votes(lent, cells, worth && cells <= kKnownLogs / 8), log_all(&in_all, 1, worth);
    std::vector<double> log_lent(cells);
    for (size_t i = 0; i < log_lent.size(); ++i) log_lent[i] = std::log(lent[i]);  // of 0: minus infinity
    const auto make_lines = [&](auto labels, int64_t begin, int64_t end) {
        const int k = labels ? labels : in.k;
        std::vector<double> room(size_t(k) * 3);
        double* const __restrict met = room.data();
        double* const __restrict total = met + k;
        double* const __restrict fewer = total + k;
        for (int64_t w = begin; w < end; ++w) {
            for (int c = 0; c < k; ++c) met[c] = 0.0;
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) add_line(in.counts + r * k, k, met);
            for (int c = 0; c < k; ++c) {
                total[c] = log_all(met[c], 0);
                fewer[c] = met[c] > 0.0 ? log_all(std::max(met[c] - 1.0, 0.0), 0) : 0.0;
            }
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const size_t of_label = size_t(in.row_label[r]) * size_t(k);
                double* const __restrict line = both + r * 2 * k;
                for (int c = 0; c < k; ++c) {
                    const double votes = double(in.counts[r * k + c]);
                    const size_t cell = of_label + size_t(c);
                    const bool has_votes = votes != 0.0 && exists[c];
                    line[c] = (has_votes ? log_votes(votes, cell) : log_lent[cell]) - total[c];
                    line[k + c] = has_votes ? log_votes(std::max(votes - 1.0, 0.0), cell) - fewer[c] : 0.0;
                }
            }
        }
    };
    share_range(threads, in.workers, kGrain, [&](int64_t begin, int64_t end) {
        with_labels(in.k, [&](auto labels) { make_lines(labels, begin, end); });
    });
}

#define ADJUDGE_FOR(Count)                                                                                       \
    template void worker_sums(const WorkerCounts<Count>&, const WorkerSums&, int);                               \
    template void blend_counts(const double*, const Count*, double, double, int64_t, double*, int);              \
    template void careful_table(const WorkerCounts<Count>&, const Careful&, double*, int);                       \
    template void honest_lines(const WorkerCounts<Count>&, const double*, const uint8_t*, double, double*, int);
ADJUDGE_FOR(int64_t)
ADJUDGE_FOR(double)
#undef ADJUDGE_FOR

}  // namespace adjudge
