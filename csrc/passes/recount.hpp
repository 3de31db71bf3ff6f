// The recount that feeds the M-step: what a block of decided tasks adds to the counts.
#pragma once

#include "lengths.hpp"
#include "one_task.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// Adds `one` to the cell of label in the line of each vote of the task.
ADJUDGE_INLINE void move_votes(const Pass& p, int64_t task, int label, int64_t one) {
    for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v)
        __atomic_fetch_add(p.shared_hard + int64_t(p.row[v]) * p.k + label, one, __ATOMIC_RELAXED);
}

constexpr int64_t kNearTally = 1 << 19;  // bytes that a core keeps close

// Hard, in a private tally: a block of decided tasks, one run of equal length at a time.
struct TallyRun {
    const Pass& p;
    const Lengths& lengths;
    const int64_t* ptr;     // IN the task_ptr of the block
    const int32_t* labels;  // IN [tasks]
    uint8_t* tally;         // IN/OUT [rows, k]

    // Adds one; a cell that is full goes to the shared counts and starts again.
    ADJUDGE_INLINE void count(uint8_t* cell) const {
        if (__builtin_expect(__builtin_add_overflow(*cell, uint8_t(1), cell), 0))
            __atomic_fetch_add(p.shared_hard + (cell - tally), int64_t(256), __ATOMIC_RELAXED);
    }

    template <int N>
    ADJUDGE_INLINE void run(const uint16_t* order, int tasks) {
        if (p.rows * p.k > kNearTally) some<N, true>(order, tasks);
        else some<N, false>(order, tasks);
    }

    template <int N, bool Prefetch>
    void some(const uint16_t* order, int tasks) {
        const TallyRun mine = *this;  // a local: the compiler cannot know that counting leaves these pointers alone
        const uint32_t* const rows = p.row;
        const int64_t k = p.k;
        const Ahead<N> ahead(p, lengths, ptr, kFarAhead);
        for (int i = 0; i < tasks; ++i) {
            const int t = order[i];
            const int64_t first = mine.ptr[t], n = N ? N : mine.ptr[t + 1] - first;
            if constexpr (Prefetch) ahead.fetch(order + i, first, n, mine.tally, k);
            const uint32_t* row = rows + first;
            uint8_t* column = mine.tally + mine.labels[t];
            for (int64_t v = 0; v < n; ++v) mine.count(column + row[v] * k);
        }
    }
};

// Few labels are counted one after the other, many tasks at once; a sum that waits for the one before it takes longer.
inline void count_classes(const Pass& p, Worker& w, int64_t first, int tasks) {
    const int32_t* const labels = p.labels + first;
    for (int c = 0; p.k <= 16 && c < p.k; ++c) {
        int32_t number = 0;
        for (int t = 0; t < tasks; ++t) number += labels[t] == c;
        w.class_counts[c] += double(number);
    }
    for (int t = 0; p.k > 16 && t < tasks; ++t) w.class_counts[labels[t]] += 1.0;
}

// Hard, from scratch: a block of decided tasks.
ADJUDGE_APART inline void recount_hard(const Pass& p, Worker& w, const Lengths& lengths, int64_t first, int tasks) {
    count_classes(p, w, first, tasks);
    if (w.hard) return lengths.each(TallyRun{p, lengths, p.task_ptr + first, p.labels + first, w.hard});
    for (int64_t t = first; t < first + tasks; ++t) move_votes(p, t, p.labels[t], 1);
}

// Hard, by difference: one task that leaves a label (-1: none yet) for another.
ADJUDGE_INLINE void recount_delta(const Pass& p, Worker& w, int64_t task, int from, int to) {
    if (from >= 0 && from < p.k) {
        w.class_counts[from] -= 1.0;
        move_votes(p, task, from, -1);
    }
    w.class_counts[to] += 1.0;
    move_votes(p, task, to, 1);
}

ADJUDGE_INLINE void add_shared(double* cell, double x) {
    uint64_t* bits = reinterpret_cast<uint64_t*>(cell);
    uint64_t seen = __atomic_load_n(bits, __ATOMIC_RELAXED), wanted;
    do {
        double sum;
        std::memcpy(&sum, &seen, sizeof sum);
        sum += x;
        std::memcpy(&wanted, &sum, sizeof wanted);
    } while (!__atomic_compare_exchange_n(bits, &seen, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

// Bytes of a tally that is not in the caches. Of a smaller one the processor itself runs far enough ahead: asking costs more.
constexpr size_t kFar = size_t(1) << 24;

// Soft, in a private tally with lines of L cells: the shares of a block of tasks, one run of equal length at a time.
template <int L>
struct RecountRun {
    using V = Vec<double, L>;
    const Pass& p;
    const Lengths& lengths;
    const int64_t* ptr;  // IN the task_ptr of the block
    const double* share;      // IN [tasks, L]
    double* tally;            // IN/OUT [rows, L]

    template <int N>
    ADJUDGE_INLINE void run(const uint16_t* order, int tasks) {
        if (size_t(p.rows) * L * sizeof(double) > kFar) run<N, true>(order, tasks);
        else run<N, false>(order, tasks);
    }

    template <int N, bool Prefetch>
    ADJUDGE_APART void run(const uint16_t* order, int tasks) {
        const int64_t* const ptr_ = ptr;  // locals: the compiler cannot know that the tally is not these pointers
        const double* const share_ = share;
        const uint32_t* const rows = p.row;
        double* const tally_ = tally;
        const Ahead<N> ahead(p, lengths, ptr, kFarAhead);
        for (int i = 0; i < tasks; ++i) {
            const int t = order[i];
            const int64_t first = ptr_[t], n = N ? N : ptr_[t + 1] - first;
            const uint32_t* row = rows + first;
            if constexpr (Prefetch) ahead.fetch(order + i, first, n, tally_, L * sizeof(double));
            const V mine = V::load(share_ + t * L);
            for (int64_t v = 0; v < n; ++v) {
                double* line = tally_ + int64_t(row[v]) * L;
                (V::load(line) + mine).store(line);
            }
        }
    }
};

// Up to 16 labels: a block of tasks whose shares are IN w.shares, [tasks, L], fine: [tasks, 2, L].
template <int L>
ADJUDGE_APART void recount_block(const Pass& p, Worker& w, const Lengths& lengths, int64_t first) {
    const int64_t* ptr = p.task_ptr + first;
    if (p.rest) lengths.each(RecountRun<2 * L>{p, lengths, ptr, w.shares, w.soft});
    else lengths.each(RecountRun<L>{p, lengths, ptr, w.shares, w.soft});
}

// Any number of labels: the shares of one task as they are counted, IN [k], fine: the second ones at `second`, too.
inline void recount_soft(const Pass& p, Worker& w, int64_t task, const double* share, const double* second) {
    const int k = p.k;
    for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v) {
        const int64_t line = int64_t(p.row[v]) * k;
        if (w.soft && !p.rest) {
            double* to = w.soft + line;
            for (int c = 0; c < k; ++c) to[c] += share[c];
        } else if (w.soft) {
            double* to = w.soft + 2 * line;
            for (int c = 0; c < k; ++c) to[c] += share[c];
            for (int c = 0; c < k; ++c) to[k + c] += second[c];
        } else {
            for (int c = 0; c < k; ++c) {
                if (share[c] != 0.0) add_shared(p.shared_soft + line + c, share[c]);
                if (p.rest && second[c] != 0.0) add_shared(p.rest + line + c, second[c]);
            }
        }
    }
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
