// The M-steps of auto for up to 16 labels: the numbers of a line are worked on together. Every instruction set gives the
// same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "careful.hpp"
#include "elementwise.hpp"
#include "honest_lanes.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// from IN [k] in the lanes of a line, of which those from k on are 0.
template <int L, class T>
ADJUDGE_INLINE Vec<double, L> load_line(const T* from, int k) {
    using V = Vec<double, L>;
    if constexpr (std::is_same_v<T, double>) {
        if (k == L) return V::load(from);
    }
    double line[L];
    if (k == L) {
        for (int c = 0; c < L; ++c) line[c] = double(from[c]);
    } else {
        for (int c = 0; c < L; ++c) line[c] = c < k ? double(from[c]) : 0.0;
    }
    return V::load(line);
}

template <int L>
ADJUDGE_INLINE void store_line(const Vec<double, L>& line, int k, double* to) {
    if (k == L) return line.store(to);
    double all[L];
    line.store(all);
    for (int c = 0; c < k; ++c) to[c] = all[c];
}

// Lane by lane.
template <int L>
ADJUDGE_INLINE Vec<double, L> smaller(const Vec<double, L>& a, const Vec<double, L>& b) {
    Vec<double, L> r;
    for (int i = 0; i < Vec<double, L>::kParts; ++i) r.part[i] = a.part[i] < b.part[i] ? a.part[i] : b.part[i];
    return r;
}

// The sum of all lanes, one after the other.
template <int L>
ADJUDGE_INLINE double sum_in_order(const Vec<double, L>& line) {
    double all[L], sum = 0.0;
    line.store(all);
    for (int c = 0; c < L; ++c) sum += all[c];
    return sum;
}

// Workers begin..end; given IN/OUT [k given, L], or null.
template <int L, class Count>
void sum_workers(const WorkerCounts<Count>& in, const WorkerSums& out, double* given, int64_t begin, int64_t end) {
    using V = Vec<double, L>;
    const int k = in.k;
    const V own_share = V::all(in.own_share), kept_share = V::all(in.kept_share);
    const auto with = [&](auto with_kept, auto with_said, auto with_given) {
        for (int64_t w = begin; w < end; ++w) {
            V met = V::all(0.0);
            double said[L] = {}, right = 0.0;
            for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                const int label = in.row_label[r];
                V line = load_line<L>(in.counts + r * k, k);
                double agreed = double(in.counts[r * k + label]);
                if constexpr (with_kept) {
                    line = kept_share * load_line<L>(in.kept + r * k, k) + own_share * line;
                    agreed = in.kept_share * in.kept[r * k + label] + in.own_share * agreed;
                }
                met = met + line;
                right += agreed;
                if constexpr (with_given) (V::load(given + label * L) + line).store(given + label * L);
                if constexpr (with_said) said[label] += sum_in_order(line);
            }
            if (out.met) store_line(met, k, out.met + w * k);
            if constexpr (with_said) store_line(V::load(said), k, out.said + w * k);
            out.right[w] = right;
            out.votes[w] = sum_in_order(met);
        }
    };
    const auto kept = [&](auto with_kept) {
        constexpr std::true_type yes;
        constexpr std::false_type no;
        if (out.said) return given ? with(with_kept, yes, yes) : with(with_kept, yes, no);
        return given ? with(with_kept, no, yes) : with(with_kept, no, no);
    };
    if (in.kept) kept(std::true_type{});
    else kept(std::false_type{});
}

// The lines of some workers.
template <int L, class Count>
struct CarefulLines {
    using V = Vec<double, L>;

    const WorkerCounts<Count>& in;
    const Careful& shared;
    const int k;
    alignas(64) double errors[L][L]{}, by_given[L][L]{}, one[L][L]{}, own[L]{}, own_logit[L]{};
    V exists;

    CarefulLines(const WorkerCounts<Count>& in_, const Careful& shared_) : in(in_), shared(shared_), k(in_.k) {
        double there[L] = {};
        for (int c = 0; c < k; ++c) {
            own[c] = shared.own[c];
            own_logit[c] = logit(own[c]);
            there[c] = shared.exists[c] ? 1.0 : 0.0;
            for (int g = 0; g < k; ++g) by_given[g][c] = errors[c][g] = shared.errors[c * k + g];
        }
        for (int c = 0; c < L; ++c) one[c][c] = 1.0;
        exists = V::load(there);
    }

    // Workers begin..end; room [3, workers, L].
    void make(int64_t begin, int64_t end, double* room, double* table) const {
        const V none = V::all(0.0), all = V::all(1.0);
        const int64_t workers = end - begin;
        double* const shift = room;
        double* const right = room + workers * L;
        double* const taste = right + workers * L;
        const V accuracy = V::load(own);
        for (int64_t w = begin; w < end; ++w) {
            const V met = load_line<L>(shared.met + w * k, k);
            const double total = sum_in_order(met), mean = sum_in_order(met * accuracy);
            const double usual = std::clamp(mean / std::max(total, kLeastVotes), 0.02, 0.98);
            const double rate = std::clamp((shared.right[w] + shared.kappa * usual) / (total + shared.kappa), 0.01, 0.995);
            shift[w - begin] = rate * (1.0 - usual) / ((1.0 - rate) * usual);
        }
        logs(shift, workers, 1e-9, false);
        const V start = V::load(own_logit);
        for (int64_t w = 0; w < workers; ++w) (start + V::all(shared.weight * shift[w])).store(right + w * L);
        logistics(right, workers * L);
        if (shared.taste_power != 0.0) {
            for (int64_t w = 0; w < workers; ++w) find_taste(begin + w, right + w * L, taste + w * L);
            powers(taste, workers * L, shared.taste_power);
        }
        for (int64_t w = begin; w < end; ++w) {
            const double* const mine = right + (w - begin) * L;
            const double* const likes = taste + (w - begin) * L;
            const V hit = V::load(mine), miss = all - hit;
            if (shared.taste_power != 0.0) {
                V sum = none;
                for (int g = 0; g < k; ++g) sum = sum + V::all(likes[g]) * V::load(by_given[g]);
                const V norm = exists * (miss * sum + hit * V::load(likes));
                const V scale = where_positive(norm, all / where_positive(norm, norm, all), all);
                for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                    const int g = in.row_label[r];
                    const V line = where_positive(V::load(one[g]), hit, miss * V::load(by_given[g]));
                    store_line(line * (V::all(likes[g]) * scale), k, table + r * k);
                }
            } else {
                const V met = load_line<L>(shared.met + w * k, k), most = V::all(shared.most_own);
                const V share = smaller(met / (met + V::all(10.0)), most), scale = all - share;
                const V own_rows = share / larger(met, V::all(kLeastVotes));
                for (int64_t r = in.worker_ptr[w]; r < in.worker_ptr[w + 1]; ++r) {
                    const int g = in.row_label[r];
                    const V line = where_positive(V::load(one[g]), hit, miss * V::load(by_given[g]));
                    store_line(line * scale + own_rows * load_line<L>(in.counts + r * k, k), k, table + r * k);
                }
            }
        }
        const int64_t first = in.worker_ptr[begin], last = in.worker_ptr[end];
        logs(table + first * k, (last - first) * k, 1e-6, true);
        for (int c = 0; c < k; ++c)
            for (int64_t r = first; !shared.exists[c] && r < last; ++r) table[r * k + c] = -std::numeric_limits<double>::infinity();
    }

    // Votes by given label that a worker would cast without a taste, and the taste that its own show: OUT [L].
    ADJUDGE_INLINE void find_taste(int64_t w, const double* right, double* taste) const {
        const V met = load_line<L>(shared.met + w * k, k), hit = V::load(right);
        double missed[L];
        (exists * (met * (V::all(1.0) - hit))).store(missed);
        V expected = V::all(0.0);
        for (int c = 0; c < k; ++c) expected = expected + V::all(missed[c]) * V::load(errors[c]);
        expected = expected + exists * (met * hit);
        const V lent = V::all(10.0 / std::max(sum_in_order(expected), kLeastVotes)) * expected + V::all(1e-3);
        ((load_line<L>(shared.said + w * k, k) + lent) / (expected + lent)).store(taste);
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
