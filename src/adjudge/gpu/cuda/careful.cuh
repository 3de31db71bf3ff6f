// The careful versions of workers on a device: `adjudge.models.careful` has the definition. K is the number of labels.
#include "common.cuh"

namespace careful {

const double TINY = 1e-9;
const double LEAST = 1e-6;                       // smallest probability of a vote, for every worker
const double UNIT = 1.0 / 1099511627776.0;       // of log-probabilities, 2^-40
const double UNITS = 1099511627776.0;

}  // namespace careful

// Votes of each worker by true and by given label, and those that are right. A thread has one worker and label.
extern "C" __global__ void careful_seen(
    const double* counts,   // IN [rows, K]
    const i64* worker_ptr,  // IN [workers + 1]
    const int* row_label,   // IN [rows]
    double* met,            // OUT [workers, K]
    double* said,           // OUT [workers, K]
    double* right,          // OUT [workers]
    i64 workers) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= workers * K) return;
    const i64 worker = i / K, c = i % K;
    double of_true = 0.0, of_given = 0.0, agreed = 0.0;
    for (i64 row = worker_ptr[worker]; row < worker_ptr[worker + 1]; ++row) {
        const double* const line = counts + row * K;
        const int label = row_label[row];
        of_true += line[c];
        if (c == 0) agreed += line[label];
        if (label == c)
            for (int each = 0; each < K; ++each) of_given += line[each];
    }
    met[i] = of_true;
    said[i] = of_given;
    if (c == 0) right[worker] = agreed;
}

// Lines times a matrix. A thread has one number.
extern "C" __global__ void careful_product(
    const double* lines,   // IN [n, K]
    const double* matrix,  // IN [K, K]
    double* out,           // OUT [n, K]
    i64 n) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * K) return;
    const double* const line = lines + i / K * K;
    const i64 to = i % K;
    double sum = 0.0;
    for (int c = 0; c < K; ++c) sum += line[c] * matrix[c * K + to];
    out[i] = sum;
}

// log W in whole units. A thread has one number.
extern "C" __global__ void careful_table(
    const i64* row_worker,     // IN [rows]
    const int* row_label,      // IN [rows]
    const double* sure,        // IN [workers, K] probability to be right, by true label
    const double* wrong,       // IN [workers, K] and not to be; 0 for a label that does not exist
    const double* errors,      // IN [K given, K true] how the mean worker errs
    const u8* exists,          // IN [K]
    const double* taste,       // IN [workers, K given] version A; null: version B
    const double* norm,        // IN [workers, K] version A
    const double* share,       // IN [workers, K] version B: weight of the worker's own votes
    const double* met,         // IN [workers, K]
    const double* counts,      // IN [rows, K]
    double* table,             // OUT [rows, K]
    i64 rows) {
    using namespace careful;
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * K) return;
    const i64 row = i / K, c = i % K, label = row_label[row], line = row_worker[row] * K, at = line + c;
    double cell = c == label ? sure[at] : wrong[at] * errors[label * K + c];
    if (taste) {
        cell = cell * taste[line + label] / norm[at];
    } else {
        const double own = share[at], of_true = met[at];
        cell = cell * (1.0 - own) + own * counts[i] / (of_true > TINY ? of_true : TINY);
    }
    const double log_cell = log(cell > LEAST ? cell : LEAST);
    table[i] = exists[c] ? rint(log_cell * UNITS) * UNIT : -infinity();
}
