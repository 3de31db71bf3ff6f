// One task by the book, in float64: the definition that every faster loop falls back on.
#pragma once

#include <cmath>
#include <limits>

#include "hash.hpp"
#include "pass.hpp"

namespace adjudge {
namespace ADJUDGE_ISA {

constexpr double kTie = 1e-9;  // scores this close (relative to the best, absolute below 1) are tied
constexpr double kSame = 1e-11;  // scores this close are one score: they differ by what rounding of a table can do
constexpr double kNever = -std::numeric_limits<double>::infinity();

struct Decision {
    int label;
    bool tied;
    bool impossible;
};

ADJUDGE_INLINE double tie_threshold(double best, double near = kTie) {
    const double size = std::fabs(best);
    return best - near * (size > 1.0 ? size : 1.0);
}

// scores OUT [k]: the log prior and then the votes one after the other, in stored order.
ADJUDGE_INLINE void score_one(const Pass& p, int64_t task, double* scores) {
    for (int c = 0; c < p.k; ++c) scores[c] = p.log_prior[c];
    for (int64_t v = p.task_ptr[task]; v < p.task_ptr[task + 1]; ++v) {
        const double* line = p.table + int64_t(p.row[v]) * p.k;
        for (int c = 0; c < p.k; ++c) scores[c] += line[c];
    }
}

// Scores of a task that every label excludes: the limit of smoothing to 0. The labels with the fewest impossible
// votes keep the finite part of their score; a label whose prior is 0 stays out. scores OUT [k].
inline void score_impossible(const Pass& p, int64_t task, double* scores) {
    const int64_t begin = p.task_ptr[task], end = p.task_ptr[task + 1];
    const int64_t out = std::numeric_limits<int64_t>::max();
    int64_t fewest = out;
    // Twice over the votes of each label, rather than room for the misses of all labels: this is rare.
    for (int pass = 0; pass < 2; ++pass) {
        for (int c = 0; c < p.k; ++c) {
            int64_t misses = p.log_prior[c] == kNever ? out : 0;
            double finite = p.log_prior[c];
            for (int64_t v = begin; v < end && misses != out; ++v) {
                const double x = p.table[int64_t(p.row[v]) * p.k + c];
                if (x == kNever) ++misses;
                else finite += x;
            }
            if (pass == 0) fewest = misses < fewest ? misses : fewest;
            else scores[c] = misses == fewest ? finite : kNever;
        }
    }
}

// The winner among labels whose score (IN [k]) reaches the threshold: the largest favour, then the largest hash. One alone
// needs no hash.
inline Decision settle(const Pass& p, int64_t task, const double* scores, double threshold) {
    int first = 0, candidates = 0;
    for (int c = 0; c < p.k; ++c)
        if (scores[c] >= threshold && candidates++ == 0) first = c;
    if (candidates < 2) return {first, false, false};
    int winner = first;
    double weight = kNever;
    uint64_t key = 0;
    const uint64_t of_task = tie_key(p.task_key, task);
    for (int c = first; c < p.k; ++c) {
        if (!(scores[c] >= threshold)) continue;
        const double w = p.favour ? p.favour[c] : 0.0;
        const uint64_t hash = mix(of_task ^ p.label_hash[c]);
        if (c == first || w > weight || (w == weight && hash > key)) winner = c, weight = w, key = hash;
    }
    return {winner, true, false};
}

// The decision on a task whose scores (IN/OUT [k]) are known; an impossible task gets its scores in the limit. Labels that
// are as good as the best get its very score, so that a tie stays a tie from pass to pass.
inline Decision decide(const Pass& p, int64_t task, double* scores) {
    double best = kNever;
    for (int c = 0; c < p.k; ++c) best = scores[c] > best ? scores[c] : best;
    const bool impossible = best == kNever;
    if (impossible) {
        score_impossible(p, task, scores);
        for (int c = 0; c < p.k; ++c) best = scores[c] > best ? scores[c] : best;
    }
    Decision d = settle(p, task, scores, tie_threshold(best));
    const double same = tie_threshold(best, kSame);
    for (int c = 0; c < p.k; ++c)
        if (scores[c] >= same) scores[c] = best;
    d.impossible = impossible;
    return d;
}

}  // namespace ADJUDGE_ISA
}  // namespace adjudge
