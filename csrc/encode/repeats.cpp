#include "repeats.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "../threads.hpp"

namespace adjudge {
namespace {

constexpr int64_t GRAIN = 1 << 14;

// Returns the largest number of rows of one worker.
uint32_t most_rows(const uint32_t* row_worker, size_t rows) {
    size_t most = 0, begin = 0;
    for (size_t r = 0; r < rows; ++r) {
        if (row_worker[r] != row_worker[begin]) begin = r;
        most = std::max(most, r - begin + 1);
    }
    return static_cast<uint32_t>(most);
}

}  // namespace

// A worker's rows are neighbours, so two votes whose rows lie far apart are of two workers: the table is seldom asked.
int64_t count_repeats(const int64_t* task_ptr, size_t tasks, const uint32_t* row, size_t votes, const uint32_t* row_worker,
                      size_t rows, int threads) {
    if (task_ptr[0] != 0 || task_ptr[tasks] != static_cast<int64_t>(votes))
        throw std::invalid_argument("tasks and votes do not fit");
    const uint32_t most = most_rows(row_worker, rows);
    std::atomic<int64_t> total{0};
    std::atomic<bool> fits{true};
    share_range(threads, static_cast<int64_t>(tasks), GRAIN, [&](int64_t first, int64_t last) {
        int64_t found = 0;
        for (int64_t q = first; q < last; ++q) {
            const int64_t begin = task_ptr[q], end = task_ptr[q + 1];
            if (begin < 0 || begin > end || end > static_cast<int64_t>(votes)) {
                fits = false;
                return;
            }
            for (int64_t v = begin + 1; v < end; ++v) {
                if (row[v] - row[v - 1] >= most) continue;
                if (row[v] >= rows || row[v - 1] >= rows) {
                    fits = false;
                    return;
                }
                found += row_worker[row[v]] == row_worker[row[v - 1]];
            }
        }
        total += found;
    });
    if (!fits) throw std::invalid_argument("rows and workers do not fit");
    return total;
}

}  // namespace adjudge
