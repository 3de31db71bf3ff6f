// Votes that are not the first of their worker on their task.
#pragma once
#include <cstddef>
#include <cstdint>

namespace adjudge {

// Returns how many there are. Throws std::invalid_argument where arrays do not fit each other.
int64_t count_repeats(const int64_t* task_ptr, size_t tasks,        // IN [tasks + 1]
                      const uint32_t* row, size_t votes,            // IN [votes], sorted within a task
                      const uint32_t* row_worker, size_t rows,      // IN [rows], sorted
                      int threads);

}  // namespace adjudge
