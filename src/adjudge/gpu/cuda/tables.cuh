// Counts to log-probabilities: the M-step of Dawid-Skene (equations 3 and 9), and what becomes of counts.
#include "common.cuh"
#include "exact_sums.cuh"

// Log-probabilities are multiples of 2^-40.
__device__ __forceinline__ double log_whole(double x) { return rint(x * 0x1p40) * 0x1p-40; }

// Sums by worker, OUT totals [workers, k]; what a sum loses is added in the end, so that the order does not matter.
#define CONFUSION_TABLE(NAME, COUNT, EXACT)                                                                              \
    extern "C" __global__ void NAME(const COUNT* counts, const i64* worker_ptr, i64 workers, i64 k, double smoothing,    \
                                    double* table, double* totals) {                                                     \
        for (i64 cell = (i64)blockIdx.x * blockDim.x + threadIdx.x; cell < workers * k;                                  \
             cell += (i64)gridDim.x * blockDim.x) {                                                                      \
            const i64 w = cell / k, c = cell % k, begin = worker_ptr[w], end = worker_ptr[w + 1];                        \
            double total = 0.0, lost = 0.0;                                                                              \
            for (i64 r = begin; r < end; ++r) {                                                                          \
                const double x = (double)counts[r * k + c], sum = total + x;                                             \
                if (!EXACT) {                                                                                            \
                    const double added = sum - total;                                                                    \
                    lost += (total - (sum - added)) + (x - added);                                                       \
                }                                                                                                        \
                total = sum;                                                                                             \
            }                                                                                                            \
            total += lost;                                                                                               \
            totals[cell] = total;                                                                                        \
            const double of_all = log(total + (double)k * smoothing);                                                    \
            for (i64 r = begin; r < end; ++r) {                                                                          \
                const double line = log((double)counts[r * k + c] + smoothing) - of_all;                                 \
                table[r * k + c] = line == line ? log_whole(line) : -infinity();                                         \
            }                                                                                                            \
        }                                                                                                                \
    }

CONFUSION_TABLE(confusion_table_hard, i64, true)
CONFUSION_TABLE(confusion_table_soft, double, false)

// Sums of shares back to scale, IN/OUT counts [n]; `rest` [n] has the second sums of fine counts, or is null.
extern "C" __global__ void restore_counts(double* counts, const double* rest, i64 n, i64 bits) {
    const int most = digits_of((int)bits), digits = rest ? most : (most < COARSE_DIGITS ? most : COARSE_DIGITS);
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        if (rest)
            counts[i] = restored(counts[i], (int)bits, digits, 0, 2, true) + restored(rest[i], (int)bits, digits, 1, 2, true);
        else
            counts[i] = restored(counts[i], (int)bits, digits, 0, 1, false);
    }
}

// Part of C2, OUT sums [blocks]: the sum of count * log-probability over the cells that have votes.
extern "C" __global__ void classification(const i64* counts, const double* table, i64 n, double* sums) {
    __shared__ double part[32];
    double sum = 0.0;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) {
        const double line = table[i];
        if (counts[i] > 0 && line > -infinity()) sum += (double)counts[i] * line;
    }
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0.0;
        for (int i = 0; i < (int)blockDim.x / 32; ++i) all += part[i];
        sums[blockIdx.x] = all;
    }
}
