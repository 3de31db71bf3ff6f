// Honest probabilities of up to 16 labels: the numbers of a line are worked on together, and a block of tasks goes through
// one short loop after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "../prefetch.hpp"
#include "../threads.hpp"
#include "aligned.hpp"
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

// What all threads read.
template <int L>
struct HonestLanes {
    using V = Vec<double, L>;
    static constexpr double kNone = -std::numeric_limits<double>::infinity();

    const Labelled& v;
    const Honest& h;
    Aligned<double> both;            // [rows, 2, L] lines with and without a vote side by side, or none: read the caller's
    alignas(64) double one[L][L]{};  // 1 in one lane
    alignas(64) double start[L], uniform[L]{};

    // Copies cost more than they save where there are fewer votes than rows.
    HonestLanes(const Labelled& v_, const Honest& h_, int threads) : v(v_), h(h_) {
        const int64_t votes = v.task_ptr[v.tasks] - v.task_ptr[0];
        for (int c = 0; c < L; ++c) {
            one[c][c] = 1.0;
            start[c] = c < v.k ? h.log_prior[c] : kNone;
            if (c < v.k) uniform[c] = h.uniform[c];
        }
        if (votes < v.rows) return;
        both = allocate<double>(size_t(v.rows) * 2 * L);
        share_range(threads, v.rows, 1 << 13, [&](int64_t begin, int64_t end) {
            for (int64_t r = begin; r < end; ++r) {
                pad(h.lines + r * v.k, both.get() + r * 2 * L);
                pad(h.without + r * v.k, both.get() + r * 2 * L + L);
            }
        });
    }

    void pad(const double* from, double* to) const {
        std::copy(from, from + v.k, to);
        std::fill(to + v.k, to + L, kNone);
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
            if (both && i + kAhead < end) prefetch(both.get() + size_t(v.row[i + kAhead]) * 2 * L);
            V line;
            double own;
            if (both) {
                line = V::load(both.get() + row * 2 * L);
                own = both[row * 2 * L + L + size_t(label)];
            } else {
                double padded[L];
                pad(h.lines + row * size_t(v.k), padded);
                line = V::load(padded);
                own = h.without[row * size_t(v.k) + size_t(label)];
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
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
