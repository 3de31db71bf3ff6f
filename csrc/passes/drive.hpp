// A pass over all tasks on several threads.
#pragma once

#include "pass.hpp"

namespace adjudge {

// Hard: p.recount is none, hard or delta; counts IN/OUT [rows, k] and class_counts IN/OUT [k] are added to.
// Without p.likelihood the log-likelihood is NaN, and C2 covers everything in counts (if there are counts).
Sums hard_pass(Pass p, int64_t* counts, int64_t* class_counts, bool classification, int threads);

// Soft: counts IN/OUT [rows, k], class_counts IN/OUT [k] and class_rest IN/OUT [k] are added to, or all null. What is
// added are shares in whole units (units.hpp): no bit of the sums depends on the threads.
Sums soft_pass(Pass p, double* counts, double* class_counts, double* class_rest, int threads);

// C2 from the counts: the sum of counts * table, and of class_counts * log_prior. What is impossible adds nothing, as in
// the scores of impossible tasks.
double classification(const int64_t* counts, const int64_t* class_counts, const double* table,
                      const double* log_prior, int64_t rows, int k, int threads);

}  // namespace adjudge
