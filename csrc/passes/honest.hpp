// Honest probabilities, and sums over pairs of votes on one task: how far workers err together.
#pragma once

#include <cstdint>

namespace adjudge {

struct Wide;

constexpr double kVoteShare = 0.2;        // of honest probabilities that comes from the shares of the votes
constexpr double kAnswerUnit = 0x1p-36;   // of sums of probabilities by row
constexpr double kNear = 1e-9;            // of the best probability, within which others are as likely

// IN: votes with the label that every task has.
struct Labelled {
    const int64_t* task_ptr = nullptr;   // [tasks + 1] absolute positions in row
    const uint32_t* row = nullptr;       // [votes]
    int64_t tasks = 0;
    const int32_t* row_label = nullptr;  // [rows]
    int64_t rows = 0;
    const int32_t* labels = nullptr;     // [tasks]
    int k = 0;
    const double* row_weight = nullptr;  // [rows] what a vote of a row counts, or null: 1
};

// Sums over tasks and ordered pairs of different votes. values IN [quantities, 2, rows]: of a vote that differs from its
// task's label, and of one that equals it, weights included. out OUT [quantities + 2]: of the products of two values, for
// every quantity; pairs that give the same label; all pairs. A pair of weighted votes counts as the product of their weights.
// With worker_ptr IN [workers + 1], where each worker's rows begin, values are [quantities, 2, workers], and votes have no weights.
void pair_sums(const Labelled& v, const double* values, int quantities, const int64_t* worker_ptr, int64_t workers, double* out,
               int threads);

// IN: what honest probabilities depend on.
struct Honest {
    const double* lines = nullptr;      // [rows, k] log-probability of a vote by true label, times its weight
    const double* without = nullptr;    // [rows, k] the same with one vote less: for the label that the vote's task has
    int64_t stride = 0;                 // from the line of one row to that of the next, in both
    const double* log_prior = nullptr;  // [k] minus infinity for labels that do not exist
    const double* uniform = nullptr;    // [k] equal shares of the labels that exist, 0 for others
    double shared_error = 0.0;
    double holds = 1.0;
    const Wide* wide = nullptr;         // the lines in parts (wide.hpp), or null: `lines` and `without`
};

// Where the pass writes; any may be null.
struct HonestOut {
    double* confidence = nullptr;     // [tasks]
    bool* tie = nullptr;              // [tasks] set where the two best are as likely before the last step
    double* probabilities = nullptr;  // [tasks, k]
    int64_t* answers = nullptr;       // [rows] added to: probability of the votes' own label, in units
    int64_t* doubts = nullptr;        // [rows] added to: probability that the label of the vote's task is wrong
    const int32_t* wanted = nullptr;  // IN [tasks] the label of each task whose probability is requested
    double* chance = nullptr;         // [tasks] that probability, before the last step
};

void honest_pass(const Labelled& v, const Honest& h, const HonestOut& out, int threads);

// What one task's scores end as: probabilities before the last step. scores IN/OUT [k]; shown IN [k]: the task's votes by
// label, with `uniform` added; size: how many they are.
void honest_mix(const Honest& h, int k, double size, double* scores, const double* shown);

// The last step on one task: OUT whether the two best of p (IN [k], before it) are as likely, the largest, and the sum of
// all once the label has the largest.
struct LastStep {
    bool tied;
    double best, total;
};
LastStep last_step(const double* p, int k, int label);

// IN: the worker of each row, and where the rows of each worker begin.
struct Workers {
    const int64_t* row_worker = nullptr;  // [rows]
    const int64_t* worker_ptr = nullptr;  // [workers + 1]
};

// What the other votes of a task say of each worker's answers, over tasks of two votes or more, in units of `unit`. The others
// speak with their weights; the answers count once each.
// sums OUT [4, rows], added to: votes; probability of their own label without them; of the row's label on all tasks of its
// worker; and the square of the latter. Integers, so that no order of adding matters.
void below_chance(const Labelled& v, const Honest& h, const Workers& w, double unit, int64_t* sums, int threads);

}  // namespace adjudge
