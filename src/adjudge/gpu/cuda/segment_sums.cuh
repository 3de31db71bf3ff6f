// Sums of lines of K numbers by segment. Segments are cut into slices, each with a sum of its own, and these are added in order:
// no sum depends on the order in which threads run. `adjudge.gpu.slices` makes the slices.
#include "common.cuh"

// A thread has one number of the lines of a slice.
extern "C" __global__ void slices_add(
    const u32* line,          // IN [lines in the order of their segments] which line of `values` it is
    const double* values,     // IN [any, K]
    const i64* start,         // IN [segments + 1] where the lines of each begin
    const i64* item_start,    // IN [segments + 1] where the slices of each begin
    const u32* item_segment,  // IN [slices]
    double* part,             // OUT [slices, K]
    i64 items, i64 size) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= items * K) return;
    const i64 item = i / K, c = i % K;
    const u32 segment = item_segment[item];
    const i64 first = start[segment] + (item - item_start[segment]) * size;
    const i64 last = first + size < start[segment + 1] ? first + size : start[segment + 1];
    double sum = 0.0;
    for (i64 v = first; v < last; ++v) sum += values[(i64)line[v] * K + c];
    part[i] = sum;
}

// A thread has one number of a segment: the sum of those of its slices.
extern "C" __global__ void slices_total(const double* part, const i64* item_start,
                                        double* out,  // IN/OUT [segments, K] added to
                                        i64 segments) {
    const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= segments * K) return;
    const i64 segment = i / K, c = i % K;
    double sum = out[i];
    for (i64 item = item_start[segment]; item < item_start[segment + 1]; ++item) sum += part[item * K + c];
    out[i] = sum;
}
