// The M-step of Dawid-Skene (the paper's equations 3, 4, 9, 10).
#pragma once

#include <cstdint>

namespace adjudge {

// table OUT [rows, k]: log((counts + s) / (total + k s)) per worker and true label, -inf for 0 / 0;
// totals OUT [workers, k].
template <class Count>
void confusion_table(const Count* counts,              // IN [rows, k]
                     const int64_t* worker_ptr,   // IN [workers + 1] each worker's rows
                     int64_t workers, int k, double smoothing, double* table, double* totals, int threads);

}  // namespace adjudge
