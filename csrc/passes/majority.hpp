// Majority vote: the start of every fit, and a model of its own.
#pragma once

#include "pass.hpp"

namespace adjudge {

// IN p: the votes, the tie rule (p.favour) and the outputs labels, confidence (the winner's share), tie, posterior
// (vote shares); row_label IN [rows]; row_weight IN [rows] what a vote of a row counts, or null: 1. The counts, which are
// of votes regardless of their weight, are added to; those not wanted are null.
void majority(const Pass& p, const int32_t* row_label, const double* row_weight, int64_t* hard_counts,
              int64_t* hard_class_counts, double* soft_counts, double* soft_class_counts, double* soft_class_rest,
              int threads);

}  // namespace adjudge
