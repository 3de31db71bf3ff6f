// Votes counted under given labels.
#pragma once

#include "pass.hpp"

namespace adjudge {

// IN p: the votes and the labels of all tasks. counts IN/OUT [rows, k] and class_counts IN/OUT [k] are added to.
void count_labels(Pass p, int64_t* counts, int64_t* class_counts, int threads);

}  // namespace adjudge
