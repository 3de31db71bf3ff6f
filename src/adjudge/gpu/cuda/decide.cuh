// What E-steps and majority vote share: how ties are settled, and how votes are counted.
//
// Macro: LABEL_BYTES, the size of a label, 1 or 4. Scores are float64 sums of multiples of 2^-40: exact in any order up to 8,192.
#pragma once

#include "common.cuh"
#include "exact_sums.cuh"

#define TIE 1e-9    // scores this close are tied
#define SAME 1e-11  // scores this close are one score

// What becomes of the votes of a task whose labels are known.
#define COUNT_NOTHING 0
#define COUNT_HARD 1
#define COUNT_DELTA 2
#define COUNT_COARSE 3
#define COUNT_FINE 4
#define COUNT_LATER 5  // coarse shares are written down, [tasks from start, K]; classes are counted

struct Ties {
    const u64* keys;
    const i64* numbers;
    u64 salt;
    const u64* label_hash;  // [k]
    const double* tie_weights;   // [k] or null: ties go to the largest of these first
};

struct Counting {
    int how;
    int bits;  // the unit of soft counts is 2 to the power -bits
    void* counts;        // [rows, k] i64, or double where soft
    double* rest;        // [rows, k] the second sums of fine counts
    void* class_counts;  // [k] likewise
    double* class_rest;  // [k]
};

__device__ __forceinline__ double threshold(double best, double near) { return best - near * fmax(1.0, fabs(best)); }

// The winner of the tied labels, of which there are several.
template <class Scores>
__device__ int settle(const Scores& score, int k, double least, const Ties& ties, i64 task) {
    double most = -infinity();
    if (ties.tie_weights)
        for (int c = 0; c < k; ++c)
            if (score[c] >= least) most = fmax(most, ties.tie_weights[c]);
    const u64 key = tie_key(ties.keys, ties.numbers, ties.salt, task);
    u64 largest = 0;
    int winner = -1;
    for (int c = 0; c < k; ++c) {
        if (!(score[c] >= least) || (ties.tie_weights && ties.tie_weights[c] != most)) continue;
        const u64 mixed = mix(key ^ ties.label_hash[c]);
        if (winner < 0 || mixed > largest) {
            largest = mixed;
            winner = c;
        }
    }
    return winner < 0 ? 0 : winner;
}

// The label of a task by its scores, and whether it was tied.
template <class Scores>
__device__ __forceinline__ int pick(const Scores& score, int k, double best, const Ties& ties, i64 task, bool& tied) {
    const double least = threshold(best, TIE);
    int winner = -1, number = 0;
#pragma unroll
    for (int c = 0; c < k; ++c)
        if (score[c] >= least) {
            if (winner < 0) winner = c;
            ++number;
        }
    tied = number > 1;
    return tied ? settle(score, k, least, ties, task) : winner;
}

// Scores of a task all of whose labels have probability 0: the labels with the fewest impossible votes, by their finite part.
template <class Scores>
__device__ void settle_impossible(Scores& score, int k, const u32* row, i64 begin, i64 end, const double* table,
                                  const double* log_prior) {
    double fewest = infinity();
    for (int c = 0; c < k; ++c) {
        double misses = 0.0, finite = log_prior[c];
        for (i64 i = begin; i < end; ++i) {
            const double line = table[(i64)row[i] * k + c];
            if (line == -infinity()) misses += 1.0;
            else finite += line;
        }
        if (finite == -infinity()) misses = infinity();  // a label with prior 0 stays out
        fewest = fmin(fewest, misses);
        score[c] = finite;
    }
    for (int c = 0; c < k; ++c) {
        double misses = 0.0;
        for (i64 i = begin; i < end; ++i) misses += table[(i64)row[i] * k + c] == -infinity() ? 1.0 : 0.0;
        if (score[c] == -infinity()) misses = infinity();
        if (misses != fewest) score[c] = -infinity();
    }
}

__device__ __forceinline__ int bit_length(int k) {
    int bits = 0;
    for (; k > 0; k >>= 1) ++bits;
    return bits;
}

__device__ __forceinline__ void count_hard(const Counting& to, i64 cell, i64 by) {
    atomicAdd((u64*)to.counts + cell, (u64)by);
}

__device__ __forceinline__ void count_class_hard(const Counting& to, int label, i64 by) {
    atomicAdd((u64*)to.class_counts + label, (u64)by);
}

// One share of a vote, or of a task.
__device__ __forceinline__ void count_soft(const Counting& to, i64 cell, double first, double second) {
    if (first != 0.0) atomicAdd((double*)to.counts + cell, first);
    if (second != 0.0) atomicAdd(to.rest + cell, second);
}

__device__ __forceinline__ void split_class(const Counting& to, double& first, double& second) {
    if (to.how == COUNT_FINE) return;
    const double unit = 0x1p384;  // CLASS_UNIT of the reference: a label may have as many shares as there are tasks
    const double units = rint(first * (1.0 / unit)) * unit;
    second = first - units;
    first = units;
}

__device__ __forceinline__ void count_class_soft(const Counting& to, int label, double first, double second) {
    if (first != 0.0) atomicAdd((double*)to.class_counts + label, first);
    if (second != 0.0) atomicAdd(to.class_rest + label, second);
}

__device__ __forceinline__ void digits(const Counting& to, double share, double& first, double& second) {
    second = 0.0;
    if (to.how == COUNT_FINE) fine(share, to.bits, first, second);
    else first = coarse(share, to.bits);
}

// Tasks from `start` to `tasks`, or where there is a list those on it; those of `longest` votes or more are left out.
#define VOTES const u32* ptr, const u32* row, i64 start, i64 tasks, const u32* list, const u32* listed, i64 longest
#define FIRST_TASK (list ? 0 : start)
#define LAST_TASK (list ? (i64)*listed : tasks)
#define TIES_ const u64* keys, const i64* numbers, i64 salt, const u64* label_hash, const double* tie_weights
#define COUNTING_ i64 how, i64 bits, void* counts, double* rest, void* class_counts, double* class_rest
#define DECIDED_ LABEL* labels, double* confidence, bool* tie, double* posterior
#define MAKE_TIES const Ties ties = {keys, numbers, (u64)salt, label_hash, tie_weights}
#define MAKE_COUNTING const Counting to = {(int)how, (int)bits, counts, rest, class_counts, class_rest}
