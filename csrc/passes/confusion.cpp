#include "confusion.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "../threads.hpp"
#include "few_labels.hpp"
#include "pass.hpp"

namespace adjudge {
namespace {

constexpr int64_t kMostKnown = 4096;

// log(count + s). Most hard counts are small whole numbers, whose logarithms are looked up, unless few are needed.
template <class Count>
class LogCount {
  public:
    LogCount(double smoothing, int64_t needed) : smoothing_(smoothing) {
        if constexpr (std::is_integral_v<Count>) {
            known_.resize(size_t(std::min(needed / 4, kMostKnown)));
            for (size_t n = 0; n < known_.size(); ++n) known_[n] = std::log(double(n) + smoothing);
        }
    }
    double operator()(Count count) const {
        if constexpr (std::is_integral_v<Count>)
            if (count >= 0 && size_t(count) < known_.size()) return known_[size_t(count)];
        return std::log(double(count) + smoothing_);
    }

  private:
    double smoothing_;
    std::vector<double> known_;
};

}  // namespace

template <class Count>
void confusion_table(const Count* counts, const int64_t* worker_ptr, int64_t workers, int of_labels, double smoothing,
                     double* table, double* totals, int threads) {
    const LogCount<Count> log_count(smoothing, worker_ptr[workers] * of_labels), log_total(of_labels * smoothing, workers * of_labels);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const bool looked_up = std::is_integral_v<Count> || smoothing != 0.0;
    const auto make_lines = [&](auto labels, int64_t begin, int64_t end) {
        const int k = labels ? labels : of_labels;
        std::vector<double> room(size_t(k) * size_t(end - begin + 1));
        double* const __restrict lost = room.data();
        double* const norms = lost + k;
        for (int64_t w = begin; w < end; ++w) {
            double* const __restrict total = totals + w * k;
            for (int c = 0; c < k; ++c) total[c] = lost[c] = 0.0;
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r)
                for (int c = 0; c < k; ++c) {
                    const double x = double(counts[r * k + c]), sum = total[c] + x;
                    if constexpr (!std::is_integral_v<Count>) {  // what the sum loses, so that the order does not matter
                        const double added = sum - total[c];
                        lost[c] += (total[c] - (sum - added)) + (x - added);
                    }
                    total[c] = sum;
                }
            for (int c = 0; c < k; ++c) {
                total[c] += lost[c];  // 0 / 0: no answer is possible
                norms[(w - begin) * k + c] = total[c] + k * smoothing > 0.0 ? log_total(Count(total[c])) : kInfinity;
            }
        }
        const int64_t first = worker_ptr[begin] * k, cells = worker_ptr[end] * k - first;
        if constexpr (!std::is_integral_v<Count>)
            if (!looked_up) kernels().log_counts(counts + first, cells, table + first);
        for (int64_t w = begin; w < end; ++w) {
            const double* const norm = norms + (w - begin) * k;
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r)
                for (int c = 0; c < k; ++c) {
                    double& cell = table[r * k + c];
                    cell = whole((looked_up ? log_count(counts[r * k + c]) : cell) - norm[c], kLogGrid);
                }
        }
    };
    share_range(threads, workers, 256, [&](int64_t begin, int64_t end) {
        with_labels(of_labels, [&](auto labels) { make_lines(labels, begin, end); });
    });
}

template void confusion_table(const int64_t*, const int64_t*, int64_t, int, double, double*, double*, int);
template void confusion_table(const double*, const int64_t*, int64_t, int, double, double*, double*, int);

}  // namespace adjudge
