#include "confusion.hpp"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "../threads.hpp"
#include "pass.hpp"

namespace adjudge {
namespace {

constexpr int kKnown = 4096;

// log(count + s). Most hard counts are small whole numbers, whose logarithms are looked up.
template <class Count>
class LogCount {
  public:
    explicit LogCount(double smoothing) : smoothing_(smoothing) {
        if constexpr (std::is_integral_v<Count>) {
            known_.resize(kKnown);
            for (int n = 0; n < kKnown; ++n) known_[size_t(n)] = std::log(n + smoothing);
        }
    }
    double operator()(Count count) const {
        if constexpr (std::is_integral_v<Count>)
            if (count >= 0 && count < kKnown) return known_[size_t(count)];
        return std::log(double(count) + smoothing_);
    }

  private:
    double smoothing_;
    std::vector<double> known_;
};

}  // namespace

template <class Count>
void confusion_table(const Count* counts, const int64_t* worker_ptr, int64_t workers, int k, double smoothing,
                     double* table, double* totals, int threads) {
    const LogCount<Count> log_count(smoothing);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const bool looked_up = std::is_integral_v<Count> || smoothing != 0.0;
    share_range(threads, workers, 256, [&](int64_t begin, int64_t end) {
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
                total[c] += lost[c];
                norms[(w - begin) * k + c] = total[c] + k * smoothing;
            }
        }
        const int64_t first = worker_ptr[begin] * k, cells = worker_ptr[end] * k - first;
        if constexpr (!std::is_integral_v<Count>)
            if (!looked_up) kernels().log_counts(counts + first, cells, table + first);
        for (int64_t i = 0; i < (end - begin) * k; ++i)  // 0 / 0: no answer is possible
            norms[i] = norms[i] > 0.0 ? std::log(norms[i]) : kInfinity;
        for (int64_t w = begin; w < end; ++w) {
            const double* const norm = norms + (w - begin) * k;
            for (int64_t r = worker_ptr[w]; r < worker_ptr[w + 1]; ++r)
                for (int c = 0; c < k; ++c) {
                    double& cell = table[r * k + c];
                    cell = whole((looked_up ? log_count(counts[r * k + c]) : cell) - norm[c], kLogGrid);
                }
        }
    });
}

template void confusion_table(const int64_t*, const int64_t*, int64_t, int, double, double*, double*, int);
template void confusion_table(const double*, const int64_t*, int64_t, int, double, double*, double*, int);

}  // namespace adjudge
