// Scores of a block of tasks, in float64, to the last bit those of the definition.
#pragma once

#include "lengths.hpp"
#include "one_task.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// Up to 16 labels: a task's score is one Vec of L lanes, a vote one addition.
template <int L>
struct ScoreRun {
    const Pass& p;
    const Lengths& lengths;
    const int64_t* ptr;  // IN the task_ptr of the block
    double* scores;           // OUT [tasks, L]

    template <int N>
    ADJUDGE_INLINE void run(const uint16_t* order, int tasks) {
        if (p.ahead) run<N, true>(order, tasks);
        else run<N, false>(order, tasks);
    }

    template <int N, bool Prefetch>
    void run(const uint16_t* order, int tasks) {
        using V = Vec<double, L>;
        const V start = V::load(p.start);
        const double* const lines = p.lines;
        const uint32_t* const rows = p.row;
        const int64_t* const at = ptr;
        const int32_t* const labels = p.labels + (ptr - p.task_ptr);
        const Ahead<N> ahead(p, lengths, ptr, p.ahead);
        for (int i = 0; i < tasks; ++i) {
            const int t = order[i];
            const int64_t first = at[t], n = N ? N : at[t + 1] - first;
            const uint32_t* row = rows + first;
            if constexpr (Prefetch) ahead.fetch(order + i, first, n, lines, L * sizeof(double));
            fetch_streams(at, row, labels, t);
            V score = start;
            for (int64_t v = 0; v < n; ++v) score = score + V::load(lines + int64_t(row[v]) * L);
            score.store(scores + t * L);
        }
    }
};

// Any number of labels, straight from the caller's table: W columns at a time stay in registers over all votes.
template <int W>
ADJUDGE_INLINE void score_columns(const Pass& p, int64_t task, int c, double* scores) {
    using V = Vec<double, W>;
    V score = V::load(p.log_prior + c);
    for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v)
        score = score + V::load(p.table + int64_t(p.row[v]) * p.k + c);
    score.store(scores + c);
}

inline void score_wide(const Pass& p, int64_t task, double* scores) {
    int c = 0;
    for (; c + 32 <= p.k; c += 32) score_columns<32>(p, task, c, scores);
    if (c + 16 <= p.k) score_columns<16>(p, task, c, scores), c += 16;
    if (c + 8 <= p.k) score_columns<8>(p, task, c, scores), c += 8;
    if (c + 4 <= p.k) score_columns<4>(p, task, c, scores), c += 4;
    if (c + 2 <= p.k) score_columns<2>(p, task, c, scores), c += 2;
    if (c < p.k) {
        double score = p.log_prior[c];
        for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v)
            score += p.table[int64_t(p.row[v]) * p.k + c];
        scores[c] = score;
    }
    for (c = p.k; c < padded(p.k); ++c) scores[c] = kNever;
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
