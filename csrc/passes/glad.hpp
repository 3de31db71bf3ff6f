// GLAD: a vote is right with probability s = 1 / (1 + exp(-x)), x = ability of the worker * ease of the task.
#pragma once

#include "pass.hpp"

namespace adjudge {

constexpr double kFlat = 1e-5;  // below this |x| the bound's curvature is 1/4 to the last digit

// IN: the votes and the model.
struct Glad {
    const int64_t* task_ptr = nullptr;    // [tasks + 1] absolute positions in row
    const uint32_t* row = nullptr;        // [votes]
    int64_t tasks = 0;
    const int32_t* row_worker = nullptr;  // [rows]
    int64_t workers = 0;
    const double* ability = nullptr;           // [workers]
    const double* ease = nullptr;              // [tasks]
    double log_others = 0.0;                   // log(K - 1)
};

// The E-step: log-likelihood and number of labels changed. IN p: the log prior, the tie rule and the outputs.
// right OUT [votes of these tasks]: the posterior probability of the label that the vote gives; class_counts IN/OUT [k].
Sums glad_expect(const Glad& g, const Pass& p, const int32_t* row_label, double* right, double* class_counts,
                 int threads);

// The expected log-likelihood, with its gradient by ability (by_worker IN/OUT [workers]: added to) and by the
// logarithm of ease (by_task OUT [tasks]), and the curvature of the quadratic bound (likewise).
double glad_gradient(const Glad& g, const double* right, double* by_worker, double* by_task, double* worker_curvature,
                     double* task_curvature, int threads);

}  // namespace adjudge
