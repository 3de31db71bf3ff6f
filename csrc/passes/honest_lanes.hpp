// Honest probabilities of up to 16 labels: the numbers of a line are worked on together, and a block of tasks goes through
// one short loop after the other. Every instruction set gives the same bits.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

#include "../prefetch.hpp"
#include "honest.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// Lane by lane: a where `when` is above 0, else b.
template <int L>
ADJUDGE_INLINE Vec<double, L> where_positive(const Vec<double, L>& when, const Vec<double, L>& a, const Vec<double, L>& b) {
    using V = Vec<double, L>;
    V r;
    for (int i = 0; i < V::kParts; ++i)
        r.part[i] = when.part[i] > typename V::Register{} ? a.part[i] : b.part[i];
    return r;
}

// The sum of x IN [L] in an order that does not depend on the width of a register.
template <int L>
ADJUDGE_INLINE double sum_of_lanes(const double* x) {
    using Pair = Vec<double, 2>;
    Pair sum = Pair::load(x);
    for (int c = 2; c < L; c += 2) sum = sum + Pair::load(x + c);
    return spread_sum(sum).first();
}

ADJUDGE_INLINE void add_units(int64_t* cell, int64_t units, bool alone) {
    if (alone) *cell += units;
    else reinterpret_cast<std::atomic<int64_t>*>(cell)->fetch_add(units, std::memory_order_relaxed);
}

// Writes the outputs of one task whose probabilities before the last step are p [k], IN and room.
ADJUDGE_INLINE void judge_one(const Labelled& v, const HonestOut& out, int64_t t, double* p, const LastStep& last, bool alone) {
    const size_t k = size_t(v.k), label = size_t(v.labels[t]);
    if (out.tie) out.tie[t] |= last.tied;
    if (out.answers) {
        const int64_t doubt = std::llrint((1.0 - p[label]) / kAnswerUnit);
        for (int64_t i = v.task_ptr[t]; i < v.task_ptr[t + 1]; ++i) {
            const size_t row = v.row[i];
            add_units(out.answers + row, std::llrint(p[v.row_label[row]] / kAnswerUnit), alone);
            add_units(out.doubts + row, doubt, alone);
        }
    }
    if (out.chance) out.chance[t] = p[size_t(out.wanted[t])];
    if (out.confidence) out.confidence[t] = last.best / last.total;
    if (out.probabilities) {
        p[label] = last.best;
        for (size_t c = 0; c < k; ++c) out.probabilities[size_t(t) * k + c] = p[c] / last.total;
    }
}

// 1 / T: how much shared error and chance agreement flatten the scores of a task with `size` votes. A weight below one vote
// shares no error.
ADJUDGE_INLINE double coldness(const Honest& h, double size) {
    const double more = size - 1.0 > 0.0 ? size - 1.0 : 0.0, held = 2.0 * h.holds < 1.0 ? 2.0 * h.holds : 1.0;
    return held / (2.0 * (1.0 + more * h.shared_error));
}

constexpr double kNone = -std::numeric_limits<double>::infinity();

ADJUDGE_INLINE void pad_line(const double* from, int k, int lanes, double* to) {
    for (int c = 0; c < k; ++c) to[c] = from[c];
    for (int c = k; c < lanes; ++c) to[c] = kNone;
}

// Some tasks of a pass. both IN [rows, 2, L] lines with and without a vote side by side, or null: read the caller's.
template <int L>
struct HonestLanes {
    using V = Vec<double, L>;

    const Labelled& v;
    const Honest& h;
    const double* const both;
    alignas(64) double one[L][L]{};  // 1 in one lane
    alignas(64) double start[L], uniform[L]{};

    HonestLanes(const Labelled& v_, const Honest& h_, const double* both_) : v(v_), h(h_), both(both_) {
        for (int c = 0; c < L; ++c) {
            one[c][c] = 1.0;
            start[c] = c < v.k ? h.log_prior[c] : kNone;
            if (c < v.k) uniform[c] = h.uniform[c];
        }
    }

    // The scores of one task, and its votes by label in addition to `uniform`. OUT size: total weight of its votes.
    template <bool Weighted>
    ADJUDGE_INLINE V scores_of(int64_t t, V& shown, double& size) const {
        constexpr int64_t kAhead = 16;  // votes whose row is fetched beforehand
        const int64_t first = v.task_ptr[t], last = v.task_ptr[t + 1], end = v.task_ptr[v.tasks];
        const int32_t label = v.labels[t];
        const V own_lane = V::load(one[label]);
        V scores = V::load(start);
        shown = V::load(uniform);
        size = Weighted ? 0.0 : double(last - first);
        for (int64_t i = first; i < last; ++i) {
            const size_t row = v.row[i];
            if (both && i + kAhead < end) prefetch(both + size_t(v.row[i + kAhead]) * 2 * L);
            V line;
            double own;
            if (both) {
                line = V::load(both + row * 2 * L);
                own = both[row * 2 * L + L + size_t(label)];
            } else {
                double padded[L];
                pad_line(h.lines + row * size_t(h.stride), v.k, L, padded);
                line = V::load(padded);
                own = h.without[row * size_t(h.stride) + size_t(label)];
            }
            line = where_positive(own_lane, V::all(own), line);
            const V lane = V::load(one[v.row_label[row]]);
            scores = scores + where_positive(lane, spread_max(line), line);  // no vote speaks against what it says
            if constexpr (Weighted) {
                const double weight = v.row_weight[row];
                shown = shown + lane * V::all(weight);
                size += weight;
            } else {
                shown = shown + lane;
            }
        }
        return scores;
    }

    // Tasks begin..end. The arithmetic does not depend on the number of votes or threads, nor on weights that are all 1.
    template <bool Weighted>
    void judge(const HonestOut& out, int64_t begin, int64_t end, bool alone) const {
        constexpr int kTasks = 1024 / L;  // of a block: its numbers stay in the nearest cache
        alignas(64) double chance[kTasks * L]{}, shown[kTasks * L], size[kTasks];
        for (int64_t first = begin; first < end; first += kTasks) {
            const int tasks = end - first < kTasks ? int(end - first) : kTasks;
            for (int i = 0; i < tasks; ++i) {
                V votes;
                const V scores = scores_of<Weighted>(first + i, votes, size[i]);
                ((scores - spread_max(scores)) * V::all(coldness(h, size[i]))).store(chance + i * L);
                votes.store(shown + i * L);
            }
            for (int i = 0; i < tasks * L; i += 8)  // and of what follows them, up to eight: a block is whole eights
                exp_nonpositive(Vec<double, 8>::load(chance + i)).store(chance + i);
            for (int i = 0; i < tasks; ++i) {
                double* const p = chance + i * L;
                const V weight = V::load(p);
                const V mixed = weight * V::all((1.0 - kVoteShare) / sum_of_lanes<L>(p)) +
                                V::load(shown + i * L) * V::all(kVoteShare / (size[i] + 1.0));
                const double best = spread_max(mixed).first();
                const unsigned near = at_least(mixed, V::all(best - kNear));
                mixed.store(p);
                const double total = sum_of_lanes<L>(p) + (best - p[v.labels[first + i]]);
                judge_one(v, out, first + i, p, {(near & (near - 1)) != 0, best, total}, alone);
            }
        }
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
