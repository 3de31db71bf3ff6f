// The first pass of LA (Yang et al. 2022): tasks one after the other, workers known better from each to the next.
#pragma once

#include <cstdint>

namespace adjudge {

// IN: the votes, the order of the tasks, what is known beforehand, and the tie rule.
struct Light {
    const int64_t* task_ptr = nullptr;     // [tasks + 1] absolute positions in row
    const uint32_t* row = nullptr;         // [votes]
    const int64_t* row_worker = nullptr;   // [rows]
    const int32_t* row_label = nullptr;    // [rows]
    const double* row_weight = nullptr;    // [rows] what a vote of a row counts, or null: 1
    const int64_t* order = nullptr;        // [tasks] each task once
    int64_t tasks = 0;
    int k = 0;
    const int32_t* gold = nullptr;         // [tasks] given labels, below 0 if there is none; or null
    const uint64_t* task_key = nullptr;    // [tasks]
    const uint64_t* label_hash = nullptr;  // [k]
    const double* favour = nullptr;        // [k] the larger wins a tie; or null
};

// right, total IN/OUT [workers]: right votes and all votes of each; labels OUT [tasks], of tasks that have votes.
void light_pass(const Light& in, double* right, double* total, int32_t* labels);

}  // namespace adjudge
