// Enhanced Bayesian classifier combination (Li, Rubinstein, Cohn 2019): mean-field fits of classes with subtypes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace adjudge {

// IN: votes, priors and the rule of stopping. A cell is (true label, subtype): k * subtypes of them.
struct Ebcc {
    const int64_t* task_ptr = nullptr;   // [tasks + 1]
    const uint32_t* row = nullptr;       // [votes]
    int64_t tasks = 0;
    const int64_t* row_pair = nullptr;   // [rows] the (worker, given label) pair of a row
    const double* row_weight = nullptr;  // [rows] what its votes count
    const int32_t* pair_label = nullptr; // [pairs]
    const int64_t* worker_ptr = nullptr; // [workers + 1] where the pairs of a worker begin
    int64_t pairs = 0, workers = 0;
    const double* shares = nullptr;      // [tasks, k] what the labels start with
    const int32_t* gold = nullptr;       // [tasks] below 0 if there is none
    const uint64_t* task_key = nullptr;  // [tasks]
    const uint64_t* label_hash = nullptr;// [k]
    int k = 0, subtypes = 0;
    double diagonal = 0.0, other = 0.0, subtype_weight = 0.0;
    const double* class_weight = nullptr;// [k] pseudo-tasks; null where log_classes are fixed
    const double* log_classes = nullptr; // [k]
    double tol = 0.0;
    int64_t max_iter = 0;
};

// OUT: of one restart.
struct EbccOut {
    double* posterior = nullptr;  // [tasks, k]
    double* bound = nullptr;      // [max_iter] after each iteration
    int64_t* changed = nullptr;   // [max_iter] labels that changed in it
    int64_t* iterations = nullptr;
};

// The room of one fit, which is given before the threads begin.
size_t ebcc_room(const Ebcc& e);

// Runs a restart, the random start of which is drawn by its number. room OUT [ebcc_room]; labels OUT [tasks].
void ebcc_restart(const Ebcc& e, int64_t restart, const EbccOut& out, double* room, int32_t* labels);

}  // namespace adjudge
