// Hard labels in a hurry: scores in whole steps (costs.hpp) or, beyond 16 labels, in single precision; and an exact second
// look where that could be wrong.
//
// In nearly every task the label does not change and is far ahead of the others, so what the loop does per task is to
// make sure of that: the set of labels that could possibly win or tie is the old label alone. All other tasks get a
// second glance.
#pragma once

#include "costs.hpp"
#include "recount.hpp"
#include "score.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

template <class T, int L>
struct CostRun {
    const Pass& p;
    const Lengths& lengths;
    const int64_t* ptr;     // IN the task_ptr of the block
    const int32_t* labels;  // IN [tasks]
    uint16_t* possible;     // OUT [tasks] labels that could win, one bit each

    template <int N>
    ADJUDGE_INLINE void run(const uint16_t* order, int tasks) {
        if (N > 0 && lengths.in_order && p.ahead) some<N, true, true>(order, tasks);
        else if (N > 0 && lengths.in_order) some<N, true, false>(order, tasks);
        else some<N, false, false>(order, tasks);
    }

    template <int N, bool InOrder, bool Prefetch>
    void some(const uint16_t* order, int tasks) {
        const T* const table = static_cast<const T*>(p.cost_lines);
        const uint32_t* const rows = p.row;
        const int64_t* const at = ptr;
        uint16_t* const out = possible;
        const int32_t* const known = labels;
        const Ahead<N> ahead(p, lengths, ptr, p.ahead);
        using Line = CostLine<T, L>;
        const Line start = Line::load(static_cast<const T*>(p.cost_start)).closed();
        int64_t length = N;
        T margin = cost_margin<T>(p, length);
        for (int i = 0; i < tasks; ++i) {
            const int t = InOrder ? i : order[i];
            const int64_t first = InOrder ? at[0] + int64_t(i) * N : at[t], n = N ? N : at[t + 1] - first;
            const uint32_t* row = rows + first;
            if (N == 0 && n != length) margin = cost_margin<T>(p, length = n);
            if constexpr (Prefetch) ahead.fetch(order + i, first, n, table, L * sizeof(T));
            fetch_streams(at, row, known, t);
            Line cost = start;
            for (int64_t v = 0; v < n; ++v) cost += Line::load(table + int64_t(row[v]) * L);
            out[t] = uint16_t(cost.within(margin));
        }
    }
};

// What a single-precision score must reach to be a possible winner, given the best one and the number of votes.
//
// Let u = 2^-24. A score of n votes is a sum of n + 1 numbers, each rounded once, added with n roundings: it is off by
// at most e = (n + 2) u (1 + small) times the sum of their magnitudes. If no number is above 0, that sum is the score
// itself; then true best >= best / (1 - e), and a label that ties or wins has a single-precision score of at least
// (1 + e) (best (1 + 1e-9) / (1 - e) - 1e-9). Otherwise the sum is at most (n + 1) times the largest magnitude. We take
// twice the bound: the threshold itself is computed in single precision. Room of 1e-8 stands for the absolute part
// of the tie rule and for what underflow loses. Minus infinity stays minus infinity in every step.
struct Margin {
    float times, less;

    ADJUDGE_INLINE Margin(const Pass& p, int64_t votes) {
        const double e = double(votes + 4) * 0x1p-24;
        times = float(p.one_sign ? 1.0 + 4.0 * e + 1e-8 : 1.0);
        const double sum = p.one_sign ? 0.0 : double(votes + 1) * p.largest;
        less = votes >= kTooLong ? HUGE_VALF : float(1e-8 + sum * (4.0 * e + 1e-8));
    }
};

struct Scan {
    const Pass& p;
    Worker& w;
    Sums& sums;
    Lengths lengths;
    uint16_t possible[kBlockTasks];

    Scan(const Pass& p_, Worker& w_, Sums& sums_) : p(p_), w(w_), sums(sums_) {}

    // L lanes of costs in T, or L = 0: more than 16 labels.
    template <class T, int L>
    void run(int64_t begin, int64_t end) {
        for (int64_t first = begin; first < end; first += kBlockTasks) {
            const int tasks = int(end - first < kBlockTasks ? end - first : kBlockTasks);
            lengths.sort(p.task_ptr + first, p.row, tasks);
            if constexpr (L > 0) {
                lengths.each(CostRun<T, L>{p, lengths, p.task_ptr + first, p.labels + first, possible});
                look_at_surprises(first, tasks);
            } else {
                for (int64_t t = first; t < first + tasks; ++t) scan_wide(t);
            }
            if (p.recount == Pass::Recount::hard) recount_hard(p, w, lengths, first, tasks);
        }
    }

    // Sixteen tasks at a time: usually the old label is the only possible one in all sixteen.
    void look_at_surprises(int64_t first, int tasks) {
        const int32_t* labels = p.labels + first;
        for (int t = 0; t < tasks; t += 16) {
            const int n = tasks - t < 16 ? tasks - t : 16;
            uint32_t surprise = n < 16;
            if (n == 16)
                for (int i = 0; i < 16; ++i) surprise |= only(labels[t + i]) ^ possible[t + i];
            for (int i = 0; surprise && i < n; ++i)
                if (only(labels[t + i]) != possible[t + i]) look(first + t + i, possible[t + i]);
        }
    }
    static ADJUDGE_INLINE uint32_t only(int32_t label) {
        return uint32_t(1) << (label & 31);  // none yet (-1): a bit that no label has
    }

    void look(int64_t task, unsigned possible) {
        const bool sure = possible && !(possible & (possible - 1));
        become(task, sure ? __builtin_ctz(possible) : second_look(task));
    }

    int second_look(int64_t task) {
        score_one(p, task, w.scores);
        const Decision d = decide(p, task, w.scores);
        ++sums.second_looks;
        sums.impossible += d.impossible;
        return d.label;
    }

    ADJUDGE_INLINE void become(int64_t task, int label) {
        const int before = p.labels[task];
        if (before == label) return;
        ++sums.changed;
        p.labels[task] = label;
        if (p.recount == Pass::Recount::delta) recount_delta(p, w, task, before, label);
    }

    // More than 16 labels: columns by the score's registers, then the possible winners.
    void scan_wide(int64_t task) {
        constexpr int W = 16;
        using V = Vec<float, W>;
        const int64_t begin = p.task_ptr[task], end = p.task_ptr[task + 1];
        const int lanes = p.narrow_lanes;
        V best = V::all(float(kNever));
        for (int c = 0; c < lanes; c += W) {
            V score = V::load(p.narrow_start + c);
            for (int64_t v = begin; v < end; ++v)
                score = score + V::load(p.narrow_lines + int64_t(p.row[v]) * lanes + c);
            score.store(w.narrow + c);
            best = larger(best, score);
        }
        const Margin margin(p, end - begin);
        const V threshold = spread_max(best) * V::all(margin.times) - V::all(margin.less);
        int number = 0, label = 0;
        for (int c = 0; c < lanes && number < 2; c += W) {
            const unsigned possible = at_least(V::load(w.narrow + c), threshold);
            if (!possible) continue;
            label = c + __builtin_ctz(possible);
            number += possible & (possible - 1) ? 2 : 1;
        }
        become(task, number == 1 ? label : second_look(task));
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
