// A pass in float64 that gives everything: labels, ties, probabilities, likelihoods, and the recount of any kind.
//
// A block of tasks goes through one short loop after the other (score, decide, softmax, record), its scores staying in
// the nearest cache: each loop has independent turns, so the processor works on many tasks at once.
#pragma once

#include "recount.hpp"
#include "score.hpp"
#include "softmax.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// Whether some share is more than nothing, and has no digit of at least `least` yet.
template <class T, int N>
ADJUDGE_INLINE bool any_missing(const Vec<T, N>& x, const Vec<T, N>& digit, const Vec<T, N>& least) {
    const unsigned lanes = N < 32 ? (1u << N) - 1 : ~0u;
    return ~(at_least(Vec<T, N>::all(0.0), x) | at_least(digit, least)) & lanes;
}

// from IN [n] to OUT [n], eight at a time likewise: probabilities to coarse shares (see units.hpp). As a rule every share
// has whole units, and its leading digit is that of the first power.
ADJUDGE_APART inline void coarse_shares(const Units& units, const double* from, double* to, int64_t n) {
    using E = Vec<double, 8>;
    const E grid = E::all(units.grid), scale = E::all(units.coarse[0]), one = E::all(units.unit);
    for (const double* const end = from + n; from < end; from += 8, to += 8) {
        const E x = E::load(from);
        E digit = whole(x, grid);
        E share = digit * scale;
        if (__builtin_expect(any_missing(x, digit, one), 0)) {
            const E lift = E::all(kLift);
            E left = x * lift;
            digit = digit * lift;
            for (int i = 1; i < kCoarseDigits; ++i) {
                left = left - digit;
                digit = whole(left, E::all(units.lifted[i]));
                share = share + digit * E::all(units.coarse[i] * (1.0 / kLift));  // vanishes in rounding next to lower powers
                if (!any_missing(x, share, E::all(std::numeric_limits<double>::min()))) break;
            }
        }
        share.store(to);
    }
}

// L lanes of padded lines (up to 16 labels), or L = 0: any number of labels, from the caller's own table.
template <int L>
struct FullPass {
    static constexpr int W = L ? L : 8;  // lanes of one step through a line
    using V = Vec<double, W>;

    const Pass& p;
    Worker& w;
    Sums& sums;
    const int stride = L ? L : padded(p.k);
    const double total_grid = kRounding * unit_below(p.k);  // totals of a task do not depend on the order of labels
    const bool softmax = p.likelihood || p.confidence || p.posterior || p.recount == Pass::Recount::soft;
    Lengths lengths;

    FullPass(const Pass& p_, Worker& w_, Sums& sums_) : p(p_), w(w_), sums(sums_) {}

    void run(int64_t begin, int64_t end) {
        int block = kBlockNumbers / stride / (p.rest ? 2 : 1);  // scores and shares stay in the nearest cache
        block = block < 1 ? 1 : block > kBlockTasks ? kBlockTasks : block;
        for (int64_t t = begin; t < end; t += block) {
            const int tasks = int(end - t < block ? end - t : block);
            score(t, tasks);
            decide(t, tasks);
            record(t, tasks);
        }
    }

    void score(int64_t first, int tasks) {
        lengths.sort(p.task_ptr + first, p.row, tasks);
        if constexpr (L > 0) {
            lengths.each(ScoreRun<L>{p, lengths, p.task_ptr + first, w.scores});
        } else {
            for (int i = 0; i < tasks; ++i) score_wide(p, first + i, w.scores + int64_t(i) * stride);
        }
    }

    // Winners, and probabilities if requested.
    void decide(int64_t first, int tasks) {
        if constexpr (L > 0) {
            const bool recounted = p.recount == Pass::Recount::soft;
            Softmax<L> all{p, w, sums, recounted || p.confidence || p.posterior, total_grid};
            all.run(first, tasks, softmax);
        } else {
            decide_wide(first, tasks);
            if (softmax) normalise_wide(tasks);
        }
    }

    // Winners; and scores relative to the best, ready for exp.
    void decide_wide(int64_t first, int tasks) {
        double bests = 0.0, winning = 0.0;
        int64_t changed = 0;
        double* line = w.scores;
        for (int64_t task = first; task < first + tasks; ++task, line += stride) {
            V best = highest(line);
            const Candidates found = candidates(line, tie_threshold(best.first()));
            Decision d{found.first, false, false};
            if (__builtin_expect(found.number != 1 || best.first() == kNever, 0)) {
                d = ADJUDGE_ISA::decide(p, task, line);
                sums.impossible += d.impossible;
                if (d.impossible) best = highest(line);
            }
            bests += best.first();
            winning += line[d.label];
            for (int c = 0; c < stride; c += W) (V::load(line + c) - best).store(line + c);

            const int before = p.labels[task];
            if (before != d.label) {
                ++changed;
                p.labels[task] = d.label;
                if (p.recount == Pass::Recount::delta) recount_delta(p, w, task, before, d.label);
            }
            if (p.tie) p.tie[task] = d.tied;
        }
        sums.log_likelihood += bests;
        sums.classification += winning;
        sums.changed += changed;
    }

    ADJUDGE_INLINE V highest(const double* line) const {
        V best = V::load(line);
        for (int c = W; c < stride; c += W) best = larger(best, V::load(line + c));
        return spread_max(best);
    }

    struct Candidates {
        int first, number;
    };
    ADJUDGE_INLINE Candidates candidates(const double* line, double threshold) const {
        Candidates found{-1, 0};
        for (int c = 0; c < stride; c += W) {
            const unsigned bits = at_least(V::load(line + c), V::all(threshold));
            if (!bits) continue;
            if (found.number == 0) found.first = c + __builtin_ctz(bits);
            found.number += bits & (bits - 1) ? 2 : 1;
        }
        return found;
    }

    // Scores to probabilities.
    void normalise_wide(int tasks) {
        double* const scores = w.scores;  // a local: stores of numbers cannot have changed it
        double* const end = scores + int64_t(tasks) * stride;
        exponentials(scores, end - scores);
        double product = 1.0;  // of the tasks' totals: one logarithm for many tasks
        const V units = V::all(total_grid);
        for (double* line = scores; line < end; line += stride) {
            V total = whole(V::load(line), units);
            for (int c = W; c < stride; c += W) total = total + whole(V::load(line + c), units);
            total = spread_sum(total);
            product *= total.first();
            if (product > 1e250) {  // a total is at most k
                sums.log_likelihood += std::log(product);
                product = 1.0;
            }
            const V scale = V::all(1.0 / total.first());
            for (int c = 0; c < stride; c += W) (V::load(line + c) * scale).store(line + c);
        }
        sums.log_likelihood += std::log(product);
    }

    void record(int64_t first, int tasks) {
        for (int i = 0; i < tasks && (p.confidence || p.posterior); ++i) {
            const double* line = w.scores + int64_t(i) * stride;
            if (p.confidence) p.confidence[first + i] = line[p.labels[first + i]];
            if (p.posterior) std::memcpy(p.posterior + (first + i) * p.k, line, size_t(p.k) * sizeof(double));
        }
        if (p.recount == Pass::Recount::hard) recount_hard(p, w, lengths, first, tasks);
        if (p.recount == Pass::Recount::soft) recount(first, tasks);
    }

    // Probabilities to shares as they are counted (see units.hpp), and then into the counts.
    void recount(int64_t first, int tasks) {
        const int line = p.rest ? 2 * stride : stride;
        if (p.rest) fine_shares(tasks);
        else coarse_shares(p.units, w.scores, w.shares, int64_t(tasks) * stride);
        const double* const shares = w.shares;
        for (int c = 0; c < stride; c += W) {
            V sum = V::all(0.0), more = V::all(0.0);
            for (int i = 0; i < tasks; ++i) sum = sum + V::load(shares + int64_t(i) * line + c);
            if (p.rest) {
                for (int i = 0; i < tasks; ++i) more = more + V::load(shares + int64_t(i) * line + stride + c);
            } else {
                const V units = whole(sum, V::all(p.units.class_grid));
                more = sum - units;
                sum = units;
            }
            (V::load(w.class_counts + c) + sum).store(w.class_counts + c);
            (V::load(w.class_rest + c) + more).store(w.class_rest + c);
        }
        if constexpr (L > 0)
            if (w.soft) return recount_block<L>(p, w, lengths, first);
        for (int i = 0; i < tasks; ++i) {
            const double* mine = shares + int64_t(i) * line;
            recount_soft(p, w, first + i, mine, mine + stride);
        }
    }

    void fine_shares(int tasks) {
        const Units& units = p.units;
        const V grid = V::all(units.grid), next = V::all(units.next), scale = V::all(units.fine[0]);
        const V one = V::all(units.unit);
        const double* from = w.scores;
        double* to = w.shares;
        for (int i = 0; i < tasks; ++i, to += stride)  // over the second ones
            for (int c = 0; c < stride; c += W, from += W, to += W) {
                const V x = V::load(from), digit = whole(x, grid);
                const V sum[2] = {digit * scale, whole(x - digit, next) * scale};
                sum[0].store(to);
                sum[1].store(to + stride);
                if (__builtin_expect(any_missing(x, digit, one), 0)) faint_digits(from, to);
            }
    }

    // Shares some of which have no whole unit: their leading digits are of higher powers, as a rule of the next ones.
    ADJUDGE_APART void faint_digits(const double* from, double* to) const {
        const Units& units = p.units;
        const V x = V::load(from);
        V left = x * V::all(kLift), sum[2] = {V::all(0.0), V::all(0.0)}, before = sum[0];
        for (int i = 0; i < 4; ++i) {
            before = sum[0] + sum[1];
            const V digit = whole(left, V::all(units.lifted[i]));
            sum[i % 2] = sum[i % 2] + digit * V::all(units.fine[i] * (1.0 / kLift));
            left = unless_positive(before, left - digit);  // after the second digit nothing is left
        }
        sum[0].store(to);
        sum[1].store(to + stride);
        if (!any_missing(x, before, V::all(std::numeric_limits<double>::min()))) return;
        double found[W];
        before.store(found);
        for (int j = 0; j < W; ++j) {
            if (found[j] > 0.0) continue;
            double pair[2];
            leading_digits(units, from[j], pair);
            to[j] = pair[0];
            to[stride + j] = pair[1];
        }
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
