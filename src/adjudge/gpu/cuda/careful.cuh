// The careful versions of workers on a device: `adjudge.models.careful` has the definition. K is the number of labels.
#include "common.cuh"

namespace careful {

const double TINY = 1e-9;
const double LEAST = 1e-6;                       // smallest probability of a vote, for every worker
const double UNIT = 1.0 / 1099511627776.0;       // of log-probabilities, 2^-40
const double UNITS = 1099511627776.0;

__device__ __forceinline__ double log_odds(double p) { return log(p / (1.0 - p)); }

}  // namespace careful

// Votes of each worker: by true label, by given label, those that are right, and all. A thread has one worker and label.
extern "C" __global__ void careful_seen(
    const double* counts,   // IN [rows, K]
    const i64* worker_ptr,  // IN [workers + 1]
    const int* row_label,   // IN [rows]
    double* met,            // OUT [workers, K]
    double* said,           // OUT [workers, K]
    double* right,          // OUT [workers]
    double* votes,          // OUT [workers]
    i64 workers) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= workers * K) return;
    const i64 worker = i / K, c = i % K;
    double of_true = 0.0, of_given = 0.0, agreed = 0.0, all = 0.0;
    for (i64 row = worker_ptr[worker]; row < worker_ptr[worker + 1]; ++row) {
        const double* const line = counts + row * K;
        const int label = row_label[row];
        of_true += line[c];
        if (c == 0) agreed += line[label];
        if (label != c && c) continue;
        double of_row = 0.0;
        for (int each = 0; each < K; ++each) of_row += line[each];
        if (label == c) of_given += of_row;
        all += of_row;
    }
    met[i] = of_true;
    said[i] = of_given;
    if (c) return;
    right[worker] = agreed;
    votes[worker] = all;
}

// The accuracy that the mean worker would have on the labels that each worker met, and the sums by which workers are found to
// differ: those with several votes, and their variance between and within workers. A thread has one worker.
extern "C" __global__ void careful_moments(
    const double* met,    // IN [workers, K]
    const double* right,  // IN [workers]
    const double* votes,  // IN [workers]
    const double* own,    // IN [K] the mean worker's accuracy by true label
    double* usual,        // OUT [workers]
    double* sums,         // OUT [blocks, 3]
    i64 workers) {
    using namespace careful;
    const i64 worker = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    double several = 0.0, between = 0.0, within = 0.0;
    if (worker < workers) {
        double expected = 0.0;
        for (int c = 0; c < K; ++c) expected += met[worker * K + c] * own[c];
        const double n = votes[worker], rate = fmin(fmax(expected / fmax(n, TINY), 0.02), 0.98);
        usual[worker] = rate;
        if (n >= 2.0) {
            const double variance = fmax(rate * (1.0 - rate), TINY), off = right[worker] / n - rate;
            several = 1.0;
            between = n * (off * off) - variance;
            within = variance * (n - 1.0);
        }
    }
    several = block_sum(several);
    between = block_sum(between);
    within = block_sum(within);
    if (threadIdx.x) return;
    sums[3 * blockIdx.x] = several;
    sums[3 * blockIdx.x + 1] = between;
    sums[3 * blockIdx.x + 2] = within;
}

// What a worker's lines are made of. A thread has one worker.
extern "C" __global__ void careful_factors(
    const double* met,     // IN [workers, K]
    const double* said,    // IN [workers, K]
    const double* right,   // IN [workers]
    const double* votes,   // IN [workers]
    const double* usual,   // IN [workers] see careful_moments
    const double* own,     // IN [K] the mean worker's accuracy by true label
    const double* errors,  // IN [K given, K true] how the mean worker errs
    const u8* exists,      // IN [K]
    double* sure,          // OUT [workers, K] probability to be right, by true label
    double* wrong,         // OUT [workers, K] and not to be; 0 for a label that does not exist
    double* taste,         // OUT [workers, K given] version A; null: version B
    double* norm,          // OUT [workers, K] version A
    double* share,         // OUT [workers, K] version B: weight of the worker's own votes
    double kappa, double weight, double taste_power, double most_own, i64 workers) {
    using namespace careful;
    const i64 worker = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (worker >= workers) return;
    const i64 line = worker * K;
    const double rate = fmin(fmax((right[worker] + kappa * usual[worker]) / (votes[worker] + kappa), 0.01), 0.995);
    const double shift = weight * (log_odds(rate) - log_odds(usual[worker]));
    for (int c = 0; c < K; ++c) {
        const double p = 1.0 / (1.0 + exp(-(log_odds(own[c]) + shift)));
        sure[line + c] = p;
        wrong[line + c] = exists[c] ? 1.0 - p : 0.0;
        if (!taste) share[line + c] = fmin(met[line + c] / (met[line + c] + 10.0), most_own);
    }
    if (!taste) return;
    double total = 0.0;
    for (int g = 0; g < K; ++g) {  // what a worker without a taste would have said
        double sum = 0.0;
        for (int c = 0; c < K; ++c) sum += met[line + c] * wrong[line + c] * errors[g * K + c];
        if (exists[g]) sum += met[line + g] * sure[line + g];
        taste[line + g] = sum;
        total += sum;
    }
    for (int g = 0; g < K; ++g) {
        const double expected = taste[line + g], lent = 10.0 * expected / fmax(total, TINY);
        taste[line + g] = pow((said[line + g] + lent + 1e-3) / (expected + lent + 1e-3), taste_power);
    }
    for (int c = 0; c < K; ++c) {
        double sum = 0.0;
        for (int g = 0; g < K; ++g) sum += taste[line + g] * errors[g * K + c];
        sum = wrong[line + c] * sum + (exists[c] ? sure[line + c] * taste[line + c] : 0.0);
        norm[line + c] = sum > 0.0 ? sum : 1.0;
    }
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
