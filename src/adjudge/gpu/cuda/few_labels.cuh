// Few labels: a warp works on 32 tasks, a thread decides one of them, and neighbouring lanes read lines of the table.
//
// A line of the table is a read of LANES lanes, one label each; what they add up for their tasks then changes sides, so that
// every lane has all scores of its own task. The results are those of `adjudge.kernels.reference`.
//
// Macros: K, the number of labels, at most 16; LANES, the smallest power of two that is not below it; LABEL_BYTES. Tasks of
// `longest` votes or more are left to a block each (any_labels.cuh).
#include "decide.cuh"

#define STAGED 256  // votes of a warp that are read at once
#define MAX_WARPS 8

// x IN/OUT [LANES] of every lane: element u of lane c and element c of lane u, of a group of LANES lanes, are exchanged.
__device__ __forceinline__ void transpose(double* x, int c) {
#pragma unroll
    for (int bit = LANES / 2; bit; bit /= 2) {
#pragma unroll
        for (int u = 0; u < LANES; ++u) {
            if (u & bit) continue;
            const bool upper = c & bit;
            const double sent = upper ? x[u] : x[u | bit];
            const double got = __shfl_xor_sync(FULL, sent, bit);
            if (upper) x[u] = got;
            else x[u | bit] = got;
        }
    }
}

// What a block adds to the class counts: a lane has sums of label lane % LANES.
__device__ inline void add_classes(const Counting& to, double first, double second) {
    __shared__ double sums[2][32];
    const int c = threadIdx.x % LANES;
    for (int step = LANES; step < 32; step *= 2) {
        first += __shfl_xor_sync(FULL, first, step);
        second += __shfl_xor_sync(FULL, second, step);
    }
    __syncthreads();
    if (threadIdx.x < 64) sums[threadIdx.x / 32][threadIdx.x % 32] = 0.0;
    __syncthreads();
    if (threadIdx.x % 32 < LANES && c < K) {
        atomicAdd(&sums[0][c], first);
        atomicAdd(&sums[1][c], second);
    }
    __syncthreads();
    if (threadIdx.x >= K) return;
    if (to.how == COUNT_HARD || to.how == COUNT_DELTA) {
        if (sums[0][threadIdx.x] != 0.0) count_class_hard(to, threadIdx.x, (i64)sums[0][threadIdx.x]);
    } else {
        count_class_soft(to, threadIdx.x, sums[0][threadIdx.x], sums[1][threadIdx.x]);
    }
}

struct Task {
    i64 t;
    u32 begin, end;
    bool active;
};

__device__ __forceinline__ Task task_at(i64 at, i64 n, const u32* ptr, i64 start, i64 tasks, const u32* list, i64 longest) {
    Task one = {0, 0, 0, false};
    if (at >= n) return one;
    one.t = list ? list[at] : at;
    if (list && (one.t < start || one.t >= tasks)) return one;
    one.begin = ptr[one.t];
    one.end = ptr[one.t + 1];
    one.active = (i64)(one.end - one.begin) < longest;
    if (!one.active) one.end = one.begin;
    return one;
}

// The votes of a warp's tasks: in shared memory where they are neighbours and few, else where they are stored.
struct VotesOf {
    const u32* from;

    __device__ __forceinline__ VotesOf(const Task& task, const u32* row, bool listed, u32* room, int lane) {
        const u32 first = __shfl_sync(FULL, task.begin, 0);
        u32 last = task.end;
        for (int step = 16; step; step /= 2) last = max(last, __shfl_xor_sync(FULL, last, step));
        from = row;
        if (listed || last - first > STAGED) return;
        for (u32 i = lane; i < last - first; i += 32) room[i] = row[first + i];
        __syncwarp();
        from = room - first;
    }
    __device__ __forceinline__ u32 operator[](u32 i) const { return from[i]; }
};

// Counts of the warp's hard labels; the lane of a label has its class count.
__device__ __forceinline__ void recount_hard(const Counting& to, const VotesOf& votes, const Task& task, int label, int before,
                                             int lane, double& first) {
    const bool counts = task.active && (to.how == COUNT_HARD || label != before);
    for (u32 i = task.begin; counts && i < task.end; ++i) {
        const i64 line = (i64)votes[i] * K;
        if (to.how == COUNT_DELTA) count_hard(to, line + before, -1);
        count_hard(to, line + label, 1);
    }
    __syncwarp();
#pragma unroll
    for (int c = 0; c < K; ++c) {
        int more = __popc(__ballot_sync(FULL, counts && label == c));
        if (to.how == COUNT_DELTA) more -= __popc(__ballot_sync(FULL, counts && before == c));
        if (lane == c) first += (double)more;
    }
}

// Counts of the shares of the warp's tasks: share IN [LANES] of every lane, overwritten. `at` is the task's index in COUNT_LATER.
__device__ __forceinline__ void recount_soft(const Counting& to, const VotesOf& votes, const Task& task, double* share, i64 at,
                                             int lane, double& first, double& second) {
    double rest[LANES];
#pragma unroll
    for (int c = 0; c < LANES; ++c) {
        rest[c] = 0.0;
        if (c < K && task.active) {
            double one;
            digits(to, share[c], one, rest[c]);
            share[c] = one;
            if (to.how == COUNT_LATER) ((double*)to.counts)[at * K + c] = one;
        } else {
            share[c] = 0.0;
        }
    }
    const int c = lane % LANES, base = lane - c;
    transpose(share, c);
    if (to.how == COUNT_FINE) transpose(rest, c);
#pragma unroll
    for (int u = 0; u < LANES; ++u) {
        const u32 begin = __shfl_sync(FULL, task.begin, base + u), end = __shfl_sync(FULL, task.end, base + u);
        if (to.how != COUNT_LATER && c < K)
            for (u32 i = begin; i < end; ++i) count_soft(to, (i64)votes[i] * K + c, share[u], rest[u]);
        double one = share[u], two = rest[u];
        split_class(to, one, two);
        first += one;
        second += two;
    }
    __syncwarp();
}

#define FOR_WARPS                                                                                                   \
    __shared__ u32 rooms[MAX_WARPS][STAGED];                                                                       \
    const int lane = threadIdx.x % 32;                                                                              \
    const i64 n = LAST_TASK, stride = (i64)gridDim.x * blockDim.x;                                                  \
    for (i64 at = FIRST_TASK + (i64)blockIdx.x * blockDim.x + threadIdx.x - lane; at < n; at += stride)

extern "C" __global__ void __launch_bounds__(256) em_grouped(VOTES, const double* table, const double* log_prior, TIES_, i64 likelihood, DECIDED_,
                                      COUNTING_, double* likelihoods, u64* changed) {
    MAKE_TIES;
    MAKE_COUNTING;
    double total_likelihood = 0.0, first = 0.0, second = 0.0;
    u32 other = 0, impossible = 0;
    const double unit = power_of_two(bit_length(K) - 52), up = power_of_two(52 - bit_length(K));
    FOR_WARPS {
        const Task task = task_at(at + lane, n, ptr, start, tasks, list, longest);
        const VotesOf votes(task, row, list != 0, rooms[threadIdx.x / 32], lane);
        const int c = lane % LANES, base = lane - c;
        const double* const column = table + (c < K ? c : 0);
        double score[LANES];
        {
            u32 next[LANES], end[LANES];
            bool more = false;
#pragma unroll
            for (int u = 0; u < LANES; ++u) {
                next[u] = __shfl_sync(FULL, task.begin, base + u);
                end[u] = __shfl_sync(FULL, task.end, base + u);
                score[u] = c < K ? log_prior[c] : -infinity();
                more |= next[u] < end[u];
            }
            while (more) {
                more = false;
                double line[LANES];
#pragma unroll
                for (int u = 0; u < LANES; ++u) {
                    line[u] = 0.0;
                    if (next[u] < end[u]) line[u] = column[(i64)votes[next[u]++] * K];
                    more |= next[u] < end[u];
                }
#pragma unroll
                for (int u = 0; u < LANES; ++u) score[u] += line[u];
            }
            __syncwarp();
        }
        transpose(score, c);
        double best = score[0];
#pragma unroll
        for (int l = 1; l < K; ++l) best = fmax(best, score[l]);
        if (task.active && best == -infinity()) {
            ++impossible;
            settle_impossible(score, K, row, task.begin, task.end, table, log_prior);
            for (int l = 0; l < K; ++l) best = fmax(best, score[l]);
        }
        int label = 0, before = 0;
        if (task.active) {
            bool tied;
            label = pick(score, K, best, ties, task.t, tied);
            before = (int)labels[task.t];
            other += label != before;
            if (label != before) labels[task.t] = (LABEL)label;
            if (tie) tie[task.t] = tied;
            if (likelihood || confidence || posterior || to.how >= COUNT_COARSE) {
                const double same = threshold(best, SAME);
                double total = 0.0;
#pragma unroll
                for (int l = 0; l < K; ++l) {
                    score[l] = score[l] >= same ? 1.0 : exp(score[l] - best);
                    total += whole(score[l], unit, up);
                }
                if (likelihood) total_likelihood += best + log(total);
                const double over = 1.0 / total;
#pragma unroll
                for (int l = 0; l < K; ++l) {
                    score[l] *= over;
                    if (posterior) posterior[task.t * K + l] = score[l];
                    if (confidence && l == label) confidence[task.t] = score[l];
                }
            }
        }
        __syncwarp();
        if (to.how >= COUNT_COARSE) recount_soft(to, votes, task, score, task.t - start, lane, first, second);
        else if (to.how != COUNT_NOTHING) recount_hard(to, votes, task, label, before, lane, first);
        __syncwarp();
    }
    if (to.how != COUNT_NOTHING) add_classes(to, first, second);
    const double all = block_sum(total_likelihood), others = block_sum((double)other);
    const double no_label = block_sum((double)impossible);
    if (threadIdx.x == 0) {
        likelihoods[blockIdx.x] = all;
        if (others > 0.0) atomicAdd(changed, (u64)others);
        if (no_label > 0.0) atomicAdd(changed + 1, (u64)no_label);
    }
}

extern "C" __global__ void __launch_bounds__(256) majority_grouped(VOTES, const LABEL* row_label, const double* row_weight, TIES_,
                                                                   DECIDED_, COUNTING_) {
    MAKE_TIES;
    MAKE_COUNTING;
    double first = 0.0, second = 0.0;
    FOR_WARPS {
        const Task task = task_at(at + lane, n, ptr, start, tasks, list, longest);
        const VotesOf votes(task, row, list != 0, rooms[threadIdx.x / 32], lane);
        double share[LANES], total = (double)(task.end - task.begin);
        if (!row_weight) {
            u32 number[K];
#pragma unroll
            for (int c = 0; c < K; ++c) number[c] = 0;
#pragma unroll 4
            for (u32 i = task.begin; i < task.end; ++i) {
                const int given = row_label[votes[i]];
#pragma unroll
                for (int c = 0; c < K; ++c) number[c] += given == c;
            }
#pragma unroll
            for (int c = 0; c < LANES; ++c) share[c] = c < K ? (double)number[c < K ? c : 0] : 0.0;
        } else {
            total = 0.0;
#pragma unroll
            for (int c = 0; c < LANES; ++c) share[c] = 0.0;
            for (u32 i = task.begin; i < task.end; ++i) {
                const double weight = row_weight[votes[i]];
                const int given = row_label[votes[i]];
                total += weight;
#pragma unroll
                for (int c = 0; c < K; ++c)
                    if (given == c) share[c] += weight;
            }
        }
        int label = 0;
        if (task.active) {
            // Vote counts tie if shares do. Divisions are the slowest part, so compute them only on demand.
            if (row_weight || confidence || posterior || to.how >= COUNT_COARSE)
#pragma unroll
                for (int c = 0; c < K; ++c) share[c] /= total;
            double best = -infinity();
#pragma unroll
            for (int c = 0; c < K; ++c) best = fmax(best, share[c]);
            bool tied;
            label = pick(share, K, best, ties, task.t, tied);
            labels[task.t] = (LABEL)label;
            if (tie) tie[task.t] = tied;
#pragma unroll
            for (int c = 0; c < K; ++c) {
                if (posterior) posterior[task.t * K + c] = share[c];
                if (confidence && c == label) confidence[task.t] = share[c];
            }
        }
        __syncwarp();
        if (to.how >= COUNT_COARSE) recount_soft(to, votes, task, share, task.t - start, lane, first, second);
        else if (to.how != COUNT_NOTHING) recount_hard(to, votes, task, label, label, lane, first);
        __syncwarp();
    }
    if (to.how != COUNT_NOTHING) add_classes(to, first, second);
}
