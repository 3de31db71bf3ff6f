// Messages along votes (KOS), and pairs of workers who share tasks with the robust factor of their agreement (M-MSR).
// Every sum is exact: its terms are rounded to a grid as fine as their number allows, so that no order of workers or
// votes shows in it (kernels/methods_reference.py is the definition).
#pragma once

#include <cstdint>

namespace adjudge {

constexpr double kNoSkill = 1e-9;  // a factor up to this tells nothing of the factors of others

// IN: votes sorted by task, and the positions of the votes of each worker.
struct Edges {
    const int64_t* task_ptr = nullptr;    // [tasks + 1]
    int64_t tasks = 0;
    const int64_t* worker_ptr = nullptr;  // [workers + 1] places in `vote`
    const int64_t* vote = nullptr;        // [votes] positions, by worker
    int64_t workers = 0;
    const double* sign = nullptr;         // [votes] 1 for one label, -1 for the other
};

// The largest |x|. to_task IN [votes]; to_worker OUT [votes]: what the other votes of the task say; score and weight
// OUT [tasks]: the sum of sign * message, and of |message|.
double kos_tasks(const Edges& e, const double* to_task, double* to_worker, double* score, double* weight, int threads);

// The largest |y|. to_worker IN [votes]; to_task OUT [votes]: how far the worker's other votes agree with their tasks;
// total OUT [workers].
double kos_workers(const Edges& e, const double* to_worker, double* to_task, double* total, int threads);

// IN: distinct (task, row) pairs and how often each was cast, sorted by task; and their positions by worker.
struct Casts {
    const int64_t* task_ptr = nullptr;    // [tasks + 1]
    int64_t tasks = 0;
    const int64_t* task = nullptr;        // [casts]
    const int32_t* worker = nullptr;      // [casts]
    const int32_t* label = nullptr;       // [casts]
    const int64_t* times = nullptr;       // [casts]
    const int64_t* worker_ptr = nullptr;  // [workers + 1] places in `cast`
    const int64_t* cast = nullptr;        // [casts] positions, by worker
    int64_t workers = 0;
};

// degree OUT [workers]: how many others share a task with each.
void count_pairs(const Casts& c, int64_t* degree, int threads);

// other OUT [pairs]: the others of each worker, ascending; common and agreed OUT [pairs]: pairs of votes on one task,
// and those for the same label. ptr IN [workers + 1] holds the sums of the degrees.
void fill_pairs(const Casts& c, const int64_t* ptr, int32_t* other, int64_t* common, int64_t* agreed, int threads);

// out OUT [workers]: the mean of size / of[other], without up to trim[i] of those above own[i] and of those below.
void trimmed_ratios(const int64_t* ptr, int64_t workers, const int32_t* other, const double* size, const int64_t* trim,
                    const double* of, const double* own, double* out, int threads);

}  // namespace adjudge
