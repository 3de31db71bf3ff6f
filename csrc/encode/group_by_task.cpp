#include "group_by_task.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "growing.hpp"
#include "codes.hpp"
#include "../threads.hpp"

namespace adjudge {
namespace {

inline void order(uint32_t& a, uint32_t& b) {
    const uint32_t low = std::min(a, b);
    b = std::max(a, b);
    a = low;
}

// Few rows, as most tasks have, are sorted by a network: without branches, which would be guessed wrong.
template <int N>
void sort_few(uint32_t* r) {
    static_assert(N >= 2 && N <= 5);
    if constexpr (N == 5) {
        order(r[0], r[3]);
        order(r[1], r[4]);
        order(r[0], r[2]);
        order(r[1], r[3]);
        order(r[0], r[1]);
        order(r[2], r[4]);
        order(r[1], r[2]);
        order(r[3], r[4]);
        order(r[2], r[3]);
    } else if constexpr (N == 4) {
        order(r[0], r[2]);
        order(r[1], r[3]);
        order(r[0], r[1]);
        order(r[2], r[3]);
        order(r[1], r[2]);
    } else {
        if constexpr (N == 3) order(r[0], r[2]);
        order(r[0], r[1]);
        if constexpr (N == 3) order(r[1], r[2]);
    }
}

void sort_rows(uint32_t* begin, uint32_t* end) {
    switch (end - begin) {
        case 0:
        case 1: return;
        case 2: return sort_few<2>(begin);
        case 3: return sort_few<3>(begin);
        case 4: return sort_few<4>(begin);
        case 5: return sort_few<5>(begin);
    }
    if (end - begin > 32) {
        std::sort(begin, end);
        return;
    }
    sort_few<5>(begin);
    for (uint32_t* p = begin + 5; p < end; ++p) {
        const uint32_t row = *p;
        uint32_t* hole = p;
        for (; hole > begin && hole[-1] > row; --hole) *hole = hole[-1];
        *hole = row;
    }
}

// Tasks are numbered in order of first appearance, so votes that come task by task have rising codes.
bool is_grouped(const uint32_t* task, const uint32_t* row, size_t votes, int threads) {
    std::atomic<bool> grouped{true};
    share_range(threads, static_cast<int64_t>(votes), 1 << 16, [&](int64_t begin, int64_t end) {
        bool rises = begin == 0 || task[begin] >= task[begin - 1];
        if (!grouped.load(std::memory_order_relaxed)) return;
        for (int64_t i = begin; i < end; ++i) rises &= (row[i] != NONE) & (i == begin || task[i] >= task[i - 1]);
        if (!rises) grouped.store(false, std::memory_order_relaxed);
    });
    return grouped;
}

void take_grouped(const uint32_t* task, uint32_t* row, size_t votes, size_t tasks, int64_t* task_ptr, int threads) {
    in_threads(threads, [&](int t) {
        const auto [begin, end] = part(votes, t, threads);
        size_t next = begin ? size_t{task[begin - 1]} + 1 : 0;  // up to the task before, others have told
        for (size_t i = begin; i < end; ++i)
            while (next <= task[i]) task_ptr[next++] = static_cast<int64_t>(i);
        if (end == votes)
            while (next <= tasks) task_ptr[next++] = static_cast<int64_t>(votes);
    });
    in_threads(threads, [&](int t) {
        const auto [begin, end] = part(tasks, t, threads);
        for (size_t q = begin; q < end; ++q) sort_rows(row + task_ptr[q], row + task_ptr[q + 1]);
    });
}

// Two steps, each within reach of a core's cache: votes go to buckets of neighbouring tasks, then each bucket is
// sorted by counting. One step would touch a random place in memory for every vote.
class Buckets {
public:
    Buckets(size_t votes, size_t tasks, int threads) : votes_(votes), tasks_(tasks), threads_(threads) {
        while ((tasks >> shift_) >= MAX_STREAMS && shift_ < 16) ++shift_;
        count_ = (tasks >> shift_) + 1;
    }

    // Returns how many votes have a row.
    size_t fill(const uint32_t* task, const uint32_t* row,  // IN [votes]
                uint32_t* bucket_rows) {                    // OUT [votes], bucket by bucket
        std::vector<std::vector<size_t>> next(threads_);  // where each thread puts its next vote, per bucket
        in_threads(threads_, [&](int t) {
            next[t].assign(count_, 0);
            const auto [begin, end] = part(votes_, t, threads_);
            for (size_t i = begin; i < end; ++i) next[t][task[i] >> shift_] += row[i] != NONE;
        });
        size_t total = 0;
        for (size_t b = 0; b < count_; ++b) {
            starts_.push_back(total);
            for (auto& mine : next) {
                const size_t count = mine[b];
                mine[b] = total;
                total += count;
            }
        }
        starts_.push_back(total);
        bucket_tasks_ = Growing<uint16_t>(total);
        in_threads(threads_, [&](int t) {
            const auto [begin, end] = part(votes_, t, threads_);
            size_t* mine = next[t].data();
            const uint32_t low = (1u << shift_) - 1;
            for (size_t i = begin; i < end; ++i) {
                if (row[i] == NONE) continue;
                const size_t place = mine[task[i] >> shift_]++;
                bucket_tasks_[place] = static_cast<uint16_t>(task[i] & low);
                bucket_rows[place] = row[i];
            }
        });
        return total;
    }

    void sort(const uint32_t* bucket_rows,              // IN
              int64_t* task_ptr, uint32_t* row) const {  // OUT
        std::atomic<size_t> todo{0};
        in_threads(threads_, [&](int) {
            std::vector<uint32_t> next;
            for (size_t b; (b = todo.fetch_add(1)) < count_;) sort_bucket(b, bucket_rows, next, task_ptr, row);
        });
        task_ptr[tasks_] = static_cast<int64_t>(starts_[count_]);
    }

private:
    static constexpr size_t MAX_STREAMS = 256;  // streams that can be written side by side at full speed

    void sort_bucket(size_t b, const uint32_t* bucket_rows, std::vector<uint32_t>& next, int64_t* task_ptr,
                     uint32_t* row) const {
        const size_t first = b << shift_, size = std::min(tasks_ - first, size_t{1} << shift_);
        const size_t begin = starts_[b], end = starts_[b + 1];
        next.assign(size, 0);
        for (size_t v = begin; v < end; ++v) ++next[bucket_tasks_[v]];
        uint32_t place = 0;
        for (size_t q = 0; q < size; ++q) {
            const uint32_t count = next[q];
            task_ptr[first + q] = static_cast<int64_t>(begin + place);
            next[q] = place;
            place += count;
        }
        for (size_t v = begin; v < end; ++v) row[begin + next[bucket_tasks_[v]]++] = bucket_rows[v];
        for (size_t q = 0; q < size; ++q) sort_rows(row + task_ptr[first + q], row + begin + next[q]);
    }

    size_t votes_, tasks_;
    int threads_;
    unsigned shift_ = 10;  // a bucket of fewer tasks is not worth its while; one of more than 2^16 has no room
    size_t count_;
    std::vector<size_t> starts_;     // [count + 1]
    Growing<uint16_t> bucket_tasks_;  // the task of each vote, counted from the first of its bucket
};

}  // namespace

size_t group_by_task(const uint32_t* task, uint32_t* row, uint32_t* scratch, size_t votes, size_t tasks,
                     int64_t* task_ptr, int threads) {
    if (is_grouped(task, row, votes, threads)) {
        take_grouped(task, row, votes, tasks, task_ptr, threads);
        return votes;
    }
    Buckets buckets(votes, tasks, threads);
    const size_t total = buckets.fill(task, row, scratch);
    buckets.sort(scratch, task_ptr, row);
    return total;
}

}  // namespace adjudge
