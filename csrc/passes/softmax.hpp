// Tasks side by side: as many as a register has lanes are decided, and their scores made probabilities, at once.
//
// A register holds one label's scores of several tasks, so that best, total and quotient are each one operation for all of
// them. What is out of the ordinary (a label that changes, a tie, a task that every label excludes) is looked at alone.
#pragma once

#include "one_task.hpp"
#include "recount.hpp"
#include "simd.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

// x IN/OUT [n]: exponentials of whichever tasks (and of what follows them, up to 32 numbers). Four registers at a time:
// what one of them must wait for, the others have done meanwhile.
ADJUDGE_APART inline void exponentials(double* x, int64_t n) {
    using E = Vec<double, kSide * (kRegister == 64 ? 4 : 2)>;  // as many as there are registers for
    for (double* const end = x + n; x < end; x += E::kParts * E::kLanes) exp_nonpositive(E::load(x)).store(x);
}

// Up to 16 labels, in lines of L scores.
template <int L>
struct Softmax {
    const Pass& p;
    Worker& w;
    Sums& sums;
    const bool probabilities;  // whether they are wanted in the place of the scores
    const double grid;         // of totals, see whole()
    bool tied[kSide] = {};     // of the tasks that were looked at alone

    // The scores of a block of tasks IN w.scores [tasks, L]; probabilities OUT in their place, where wanted. There is room
    // behind them for lines that fill up the last register.
    void run(int64_t first, int tasks, bool softmax) {
        double* const scores = w.scores;
        for (int i = tasks; i % kSide; ++i)  // certain of the first label: they add nothing
            for (int c = 0; c < L; ++c) scores[i * L + c] = c ? kNever : 0.0;
        if (!softmax) return decide_all<false>(first, tasks);
        decide_all<true>(first, tasks);
        exponentials(scores, int64_t(tasks + kSide - 1) / kSide * kSide * L);
        normalise(tasks);
    }

    // Winners; and scores relative to the best, ready for exp, in columns [tasks / kSide, L, kSide].
    template <bool Columns>
    ADJUDGE_APART void decide_all(int64_t first, int tasks) {
        double* const scores = w.scores;  // locals: stores of numbers cannot have changed them
        bool* const tie = p.tie;
        const int32_t* const labels = p.labels + first;
        const Side one = Side::all(1.0);
        Side bests = Side::all(0.0);
        for (int i = 0; i < tasks; i += kSide) {
            double* const lines = scores + i * L;
            Side column[L];
            to_columns<L>(lines, column);
            Side best = highest(column);
            const Side threshold = best - larger(magnitude(best), one) * Side::all(kTie);
            Side winner = Side::all(0.0), number = where_at_least(column[0], threshold, one);
            for (int c = 1; c < L; ++c) {
                winner = winner + where_at_least(column[c], threshold, Side::all(c));
                number = number + where_at_least(column[c], threshold, one);
            }
            const Side before = i + kSide <= tasks ? labels_of(labels + i) : last_labels(labels + i, tasks - i);
            unsigned ties = 0;
            if (__builtin_expect(at_least(magnitude(winner - before) + number, Side::all(1.5)), 0)) {
                ties = look(first + i, tasks - i, lines, winner, number);
                if (ties) {
                    to_columns<L>(lines, column);
                    best = highest(column);
                }
            }
            bests = bests + best;
            if (tie)
                for (int j = 0; j < kSide && i + j < tasks; ++j) tie[first + i + j] = tied[j] && (ties >> j & 1);
            if constexpr (Columns)
                for (int c = 0; c < L; ++c) (column[c] - best).store(lines + c * kSide);
        }
        double sum = 0.0, each[kSide];
        bests.store(each);
        for (double x : each) sum += x;
        sums.log_likelihood += sum;
        sums.classification += sum;
    }

    // Exponentials, in columns, to probabilities, in lines.
    ADJUDGE_APART void normalise(int tasks) {
        double* const scores = w.scores;
        const bool keep = probabilities;
        const Side units = Side::all(grid), one = Side::all(1.0);
        Side product = one;  // of the tasks' totals: one logarithm for many tasks, few enough that it has room
        for (int i = 0; i < tasks; i += kSide) {
            double* const lines = scores + i * L;
            Side column[L], total = Side::all(0.0);
            for (int c = 0; c < L; ++c) {
                column[c] = Side::load(lines + c * kSide);
                total = total + whole(column[c], units);
            }
            product = product * total;
            if (!keep) continue;
            const Side scale = one / total;
            for (int c = 0; c < L; ++c) column[c] = column[c] * scale;
            to_lines<L>(column, lines);
        }
        double each[kSide];
        product.store(each);
        for (double x : each) sums.log_likelihood += std::log(x);
    }

    static ADJUDGE_INLINE Side highest(const Side (&column)[L]) {
        Side best = column[0];
        for (int c = 1; c < L; ++c) best = larger(best, column[c]);
        return best;
    }

    static ADJUDGE_INLINE Side labels_of(const int32_t* labels) {
        typedef int32_t Labels __attribute__((vector_size(kSide * sizeof(int32_t))));
        Labels given;
        std::memcpy(&given, labels, sizeof given);
        Side out;
        out.part[0] = __builtin_convertvector(given, Side::Register);
        return out;
    }

    // Of fewer tasks than a register has room for; after the last one the first label.
    static ADJUDGE_APART Side last_labels(const int32_t* labels, int tasks) {
        int32_t some[kSide] = {};
        std::memcpy(some, labels, size_t(tasks) * sizeof(int32_t));
        return labels_of(some);
    }

    // The next tasks one by one; gives a bit for each that has several possible winners. Their lines IN/OUT are as `decide`
    // leaves them.
    ADJUDGE_APART unsigned look(int64_t task, int tasks, double* lines, const Side& winner, const Side& number) {
        double label[kSide], candidates[kSide];
        winner.store(label);
        number.store(candidates);
        unsigned ties = 0;
        for (int j = 0; j < kSide && j < tasks; ++j) {
            Decision d{int(label[j]), false, false};
            if (candidates[j] != 1.0) {
                double* const line = lines + j * L;
                d = decide(p, task + j, line);
                tied[j] = d.tied;
                ties |= 1u << j;
                sums.impossible += d.impossible;
                double best = kNever;
                for (int c = 0; c < p.k; ++c) best = line[c] > best ? line[c] : best;
                if (line[d.label] < best) sums.classification += line[d.label] - best;
            }
            const int before = p.labels[task + j];
            if (before == d.label) continue;
            ++sums.changed;
            p.labels[task + j] = d.label;
            if (p.recount == Pass::Recount::delta) recount_delta(p, w, task + j, before, d.label);
        }
        return ties;
    }
};

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
