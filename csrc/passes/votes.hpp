// The votes themselves: whether they can be passed over at all, and how many each row has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace adjudge {

// Whether each of at IN [n] is at least the one before.
bool rises(const int64_t* at, size_t n, int threads = 1);

// Whether each of code IN [n] is one of 0..k.
bool are_codes(const int32_t* code, size_t n, int64_t k, int threads = 1);

// What is wrong with votes that a pass is to read, and where.
struct Fault {
    enum class What { none, falls, row } what = What::none;
    int64_t at = -1;  // the task whose votes would end before they begin, or the vote whose row does not exist
};

// The first fault of task_ptr IN [tasks + 1] and of the rows it leads to, row IN [votes]; the ends of task_ptr lie in row.
Fault check_votes(const int64_t* task_ptr, int64_t tasks, const uint32_t* row, int64_t rows,
                  int threads);

// counts IN/OUT [rows]: one more for each vote of the row. row IN [votes], every one below rows.
void votes_per_row(const uint32_t* row, int64_t votes, int64_t rows, int64_t* counts, int threads);

}  // namespace adjudge
