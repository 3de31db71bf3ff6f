#include "messages.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "../threads.hpp"

namespace adjudge {
namespace {

constexpr int64_t kGrainTasks = 4096;
constexpr int64_t kGrainWorkers = 64;

// Added to a number and taken away again, this rounds it to a grid on which n numbers of at most `most` add exactly.
double grid(double most, int64_t n) {
    int exponent = 0;
    std::frexp(most, &exponent);
    int bits = 0;
    for (int64_t left = n; left > 0; left >>= 1) ++bits;
    return std::ldexp(1.5, exponent + bits);
}

double rounded(double x, double on) { return (x + on) - on; }

void raise_to(std::atomic<double>& most, double seen) {
    double known = most.load(std::memory_order_relaxed);
    while (seen > known && !most.compare_exchange_weak(known, seen, std::memory_order_relaxed)) {
    }
}

}  // namespace

double kos_tasks(const Edges& e, const double* to_task, double* to_worker, double* score, double* weight, int threads) {
    std::atomic<double> most{0.0};
    share_range(threads, e.tasks, kGrainTasks, [&](int64_t from, int64_t to) {
        double seen = 0.0;
        for (int64_t t = from; t < to; ++t) {
            const int64_t first = e.task_ptr[t], last = e.task_ptr[t + 1];
            double largest = 0.0;
            for (int64_t v = first; v < last; ++v) largest = std::max(largest, std::fabs(to_task[v]));
            const double on = grid(largest, last - first);
            double sum = 0.0, size = 0.0;
            for (int64_t v = first; v < last; ++v) {
                const double said = rounded(e.sign[v] * to_task[v], on);
                sum += said;
                size += std::fabs(said);
                to_worker[v] = said;
            }
            for (int64_t v = first; v < last; ++v) {
                to_worker[v] = sum - to_worker[v];
                seen = std::max(seen, std::fabs(to_worker[v]));
            }
            score[t] = sum;
            weight[t] = size;
        }
        raise_to(most, seen);
    });
    return most.load();
}

double kos_workers(const Edges& e, const double* to_worker, double* to_task, double* total, int threads) {
    std::atomic<double> most{0.0};
    share_range(threads, e.workers, kGrainWorkers, [&](int64_t from, int64_t to) {
        double seen = 0.0;
        for (int64_t w = from; w < to; ++w) {
            const int64_t first = e.worker_ptr[w], last = e.worker_ptr[w + 1];
            double largest = 0.0;
            for (int64_t at = first; at < last; ++at) largest = std::max(largest, std::fabs(to_worker[e.vote[at]]));
            const double on = grid(largest, last - first);
            double sum = 0.0;
            for (int64_t at = first; at < last; ++at) {
                const int64_t v = e.vote[at];
                const double agrees = rounded(e.sign[v] * to_worker[v], on);
                sum += agrees;
                to_task[v] = agrees;
            }
            for (int64_t at = first; at < last; ++at) {
                const int64_t v = e.vote[at];
                to_task[v] = sum - to_task[v];
                seen = std::max(seen, std::fabs(to_task[v]));
            }
            total[w] = sum;
        }
        raise_to(most, seen);
    });
    return most.load();
}

namespace {

// Calls each(worker, others in the order they were met) after common and agreed, [workers], hold their sums; clears them.
template <class Each>
void each_worker(const Casts& c, int threads, const Each& each) {
    share_range(threads, c.workers, kGrainWorkers, [&](int64_t from, int64_t to) {
        std::vector<int64_t> common(size_t(c.workers)), agreed(size_t(c.workers));
        std::vector<int32_t> met;
        for (int64_t w = from; w < to; ++w) {
            met.clear();
            for (int64_t at = c.worker_ptr[w]; at < c.worker_ptr[w + 1]; ++at) {
                const int64_t mine = c.cast[at], t = c.task[mine];
                for (int64_t theirs = c.task_ptr[t]; theirs < c.task_ptr[t + 1]; ++theirs) {
                    const int32_t who = c.worker[theirs];
                    if (who == w) continue;
                    if (common[size_t(who)] == 0) met.push_back(who);
                    const int64_t pairs = c.times[mine] * c.times[theirs];
                    common[size_t(who)] += pairs;
                    if (c.label[theirs] == c.label[mine]) agreed[size_t(who)] += pairs;
                }
            }
            each(w, met, common, agreed);
            for (const int32_t who : met) common[size_t(who)] = agreed[size_t(who)] = 0;
        }
    });
}

}  // namespace

void count_pairs(const Casts& c, int64_t* degree, int threads) {
    each_worker(c, threads, [&](int64_t w, const std::vector<int32_t>& met, const std::vector<int64_t>&,
                                const std::vector<int64_t>&) { degree[w] = int64_t(met.size()); });
}

void fill_pairs(const Casts& c, const int64_t* ptr, int32_t* other, int64_t* common, int64_t* agreed, int threads) {
    each_worker(c, threads, [&](int64_t w, std::vector<int32_t>& met, const std::vector<int64_t>& shared,
                                const std::vector<int64_t>& alike) {
        std::sort(met.begin(), met.end());
        int64_t at = ptr[w];
        for (const int32_t who : met) {
            if (at == ptr[w + 1]) return;  // the degrees are not of these casts
            other[at] = who;
            common[at] = shared[size_t(who)];
            agreed[at++] = alike[size_t(who)];
        }
    });
}

void trimmed_ratios(const int64_t* ptr, int64_t workers, const int32_t* other, const double* size, const int64_t* trim,
                    const double* of, const double* own, double* out, int threads) {
    share_range(threads, workers, kGrainWorkers, [&](int64_t from, int64_t to) {
        std::vector<double> ratios;
        for (int64_t w = from; w < to; ++w) {
            ratios.clear();
            int64_t above = 0, below = 0;
            for (int64_t at = ptr[w]; at < ptr[w + 1]; ++at) {
                const double divisor = of[other[at]];
                if (!(divisor > kNoSkill)) continue;  // a worker without skill says nothing of others
                const double ratio = size[at] / divisor;
                above += ratio > own[w];
                below += ratio < own[w];
                ratios.push_back(ratio);
            }
            if (ratios.empty()) {
                out[w] = own[w];
                continue;
            }
            if (trim[w] < 0) {
                out[w] = *std::max_element(ratios.begin(), ratios.end());
                continue;
            }
            const int64_t n = int64_t(ratios.size()), low = std::min(trim[w], below), high = std::min(trim[w], above);
            if (low + high >= n) {
                out[w] = own[w];
                continue;
            }
            const auto first = ratios.begin() + low, last = ratios.end() - high;
            if (low > 0) std::nth_element(ratios.begin(), first, ratios.end());
            if (high > 0) std::nth_element(first, last, ratios.end());
            const double on = grid(*std::max_element(first, last), last - first);
            double sum = 0.0;
            for (auto ratio = first; ratio != last; ++ratio) sum += rounded(*ratio, on);
            out[w] = sum / double(last - first);
        }
    });
}

}  // namespace adjudge
