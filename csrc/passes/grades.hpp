// Judges of grades: sharpness, stretch and bias of each, from its expected votes by given and true grade.
#pragma once

#include <cstdint>

namespace adjudge {

// The prior of a judge; kernels/grades_reference.py says what each is, and a test compares them.
constexpr double kSure = 2.0, kSharp = 2.0, kBiasVariance = 4.0, kStretchVariance = 1.0;

// Finds g, h and b of every judge, which maximise the penalised log-likelihood of its votes, as `fit_judges` of
// kernels/grades_reference.py does; to rounding, not to the last bit.
void fit_judges(const int32_t* given,       // IN [rows] the place of the given grade, below k; none twice of one worker
                const double* counts,       // IN [rows, k true] expected votes, none below 0
                const int64_t* worker_ptr,  // IN [workers + 1]
                int64_t workers, int k,
                double* judges,  // OUT [workers, 3]
                int threads);

}  // namespace adjudge
