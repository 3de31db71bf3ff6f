// Votes sorted by task, and within a task by row.
#pragma once
#include <cstddef>
#include <cstdint>

namespace adjudge {

// Votes whose row is NONE are left out; a task may be left without any. Returns how many votes are left.
// The result does not depend on the order of the votes, nor on the number of threads.
size_t group_by_task(const uint32_t* task,  // IN codes [votes]
                     uint32_t* row,         // IN [votes]; OUT the rows, task by task, up to the number returned
                     uint32_t* scratch,     // [votes], overwritten
                     size_t votes, size_t tasks,
                     int64_t* task_ptr,     // OUT [tasks + 1] where each task's votes begin
                     int threads);

}  // namespace adjudge
