// Any number of labels, and long tasks: a block of threads works on a task, its scores in shared memory.
//
// The results are those of `adjudge.kernels.reference`. Macro: LABEL_BYTES.
#include "decide.cuh"

// What a block does once the scores of a task are in `score` [k]: decide, share, count. OUT best.
__device__ inline void decide_wide(const Ties& ties, const Counting& to, const u32* row, i64 begin, i64 end, i64 t, i64 at, int k,
                                   bool is_scores, double* score, i64 likelihood, LABEL* labels, double* confidence, bool* tie,
                                   double* posterior, double& all_likelihood, u32& other) {
    __shared__ double best, over;
    __shared__ int label, before;
    if (threadIdx.x == 0) {
        best = -infinity();
        for (int c = 0; c < k; ++c) best = fmax(best, score[c]);
        bool tied;
        label = pick(score, k, best, ties, t, tied);
        before = labels[t];
        labels[t] = (LABEL)label;
        if (tie) tie[t] = tied;
        other += label != before;
    }
    __syncthreads();
    if (is_scores) {
        const double same = threshold(best, SAME);
        for (int c = threadIdx.x; c < k; c += blockDim.x) score[c] = score[c] >= same ? 1.0 : exp(score[c] - best);
        __syncthreads();
        if (threadIdx.x == 0) {
            const double unit = power_of_two(bit_length(k) - 52), up = power_of_two(52 - bit_length(k));
            double total = 0.0;
            for (int c = 0; c < k; ++c) total += whole(score[c], unit, up);
            if (likelihood) all_likelihood += best + log(total);
            over = 1.0 / total;
        }
        __syncthreads();
        for (int c = threadIdx.x; c < k; c += blockDim.x) score[c] *= over;
        __syncthreads();
    }
    for (int c = threadIdx.x; c < k; c += blockDim.x) {
        if (posterior) posterior[t * k + c] = score[c];
        if (confidence && c == label) confidence[t] = score[c];
    }
    if (to.how == COUNT_HARD || (to.how == COUNT_DELTA && label != before)) {
        for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
            if (to.how == COUNT_DELTA) count_hard(to, (i64)row[i] * k + before, -1);
            count_hard(to, (i64)row[i] * k + label, 1);
        }
        if (threadIdx.x == 0) {
            if (to.how == COUNT_DELTA) count_class_hard(to, before, -1);
            count_class_hard(to, label, 1);
        }
    } else if (to.how >= COUNT_COARSE) {
        double* const firsts = score + k;
        double* const seconds = firsts + k;
        __syncthreads();
        for (int c = threadIdx.x; c < k; c += blockDim.x) {
            double first, second;
            digits(to, score[c], first, second);
            firsts[c] = first;
            seconds[c] = second;
            split_class(to, first, second);
            count_class_soft(to, c, first, second);
        }
        __syncthreads();
        for (int c = threadIdx.x; to.how == COUNT_LATER && c < k; c += blockDim.x) ((double*)to.counts)[at * k + c] = firsts[c];
        for (i64 i = threadIdx.x; to.how != COUNT_LATER && i < (end - begin) * k; i += blockDim.x)
            count_soft(to, (i64)row[begin + i / k] * k + i % k, firsts[i % k], seconds[i % k]);
    }
    __syncthreads();
}

extern "C" __global__ void em_wide(VOTES, i64 labels_in_all, const double* table, const double* log_prior, TIES_, i64 likelihood,
                                   DECIDED_, COUNTING_, double* likelihoods, u64* changed) {
    MAKE_TIES;
    MAKE_COUNTING;
    DYNAMIC_SHARED(double, score);  // [3, k] scores, and their shares as they are counted
    const int k = (int)labels_in_all, warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    double all_likelihood = 0.0;
    u32 other = 0, impossible = 0;
    const i64 n = LAST_TASK;
    for (i64 at = FIRST_TASK + blockIdx.x; at < n; at += gridDim.x) {
        const i64 t = list ? list[at] : at, begin = ptr[t], end = ptr[t + 1];
        if (list && (t < start || t >= tasks)) continue;
        if (!list && end - begin >= longest) continue;
        if (end - begin >= k) {  // lanes share the votes
            for (int c = warp; c < k; c += warps) {
                double sum = 0.0;
                for (i64 i = begin + lane; i < end; i += 32) sum += table[(i64)row[i] * k + c];
                for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(FULL, sum, step);
                if (lane == 0) score[c] = log_prior[c] + sum;
            }
        } else {  // threads share the labels
            for (int c = threadIdx.x; c < k; c += blockDim.x) {
                double sum = log_prior[c];
                for (i64 i = begin; i < end; ++i) sum += table[(i64)row[i] * k + c];
                score[c] = sum;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double best = -infinity();
            for (int c = 0; c < k; ++c) best = fmax(best, score[c]);
            if (best == -infinity()) {
                ++impossible;
                settle_impossible(score, k, row, begin, end, table, log_prior);
            }
        }
        __syncthreads();
        decide_wide(ties, to, row, begin, end, t, t - start, k, true, score, likelihood, labels, confidence, tie, posterior, all_likelihood,
                    other);
    }
    if (threadIdx.x == 0) {
        likelihoods[blockIdx.x] = all_likelihood;
        if (other) atomicAdd(changed, (u64)other);
        if (impossible) atomicAdd(changed + 1, (u64)impossible);
    }
}

extern "C" __global__ void majority_wide(VOTES, i64 labels_in_all, const LABEL* row_label, const double* row_weight, TIES_,
                                         DECIDED_, COUNTING_) {
    MAKE_TIES;
    MAKE_COUNTING;
    DYNAMIC_SHARED(double, share);  // [3, k]
    const int k = (int)labels_in_all;
    double nothing = 0.0;
    u32 other = 0;
    const i64 n = LAST_TASK;
    for (i64 at = FIRST_TASK + blockIdx.x; at < n; at += gridDim.x) {
        const i64 t = list ? list[at] : at, begin = ptr[t], end = ptr[t + 1];
        if (list && (t < start || t >= tasks)) continue;
        if (!list && end - begin >= longest) continue;
        for (int c = threadIdx.x; c < k; c += blockDim.x) share[c] = 0.0;
        __syncthreads();
        __shared__ double total;
        if (!row_weight) {
            for (i64 i = begin + threadIdx.x; i < end; i += blockDim.x) atomicAdd(share + row_label[row[i]], 1.0);
            if (threadIdx.x == 0) total = (double)(end - begin);
        } else if (threadIdx.x == 0) {  // sums of weights round: one after the other, as everywhere
            total = 0.0;
            for (i64 i = begin; i < end; ++i) {
                share[row_label[row[i]]] += row_weight[row[i]];
                total += row_weight[row[i]];
            }
        }
        __syncthreads();
        for (int c = threadIdx.x; c < k; c += blockDim.x) share[c] /= total;
        __syncthreads();
        decide_wide(ties, to, row, begin, end, t, t - start, k, false, share, 0, labels, confidence, tie, posterior, nothing, other);
    }
}

// How many of n labels there are of each kind, OUT numbers [k] added to. A lane has counters of its own, [k, 32] in shared
// memory, so that equal labels do not wait for each other.
extern "C" __global__ void count_labels(const LABEL* labels, i64 n, i64 k, u64* numbers) {
    DYNAMIC_SHARED(u32, counters);
    for (i64 i = threadIdx.x; i < k * 32; i += blockDim.x) counters[i] = 0;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x)
        atomicAdd(counters + (i64)labels[i] * 32 + lane, 1u);
    __syncthreads();
    for (i64 c = threadIdx.x; c < k; c += blockDim.x) {
        u64 sum = 0;
        for (int i = 0; i < 32; ++i) sum += counters[c * 32 + i];
        if (sum) atomicAdd(numbers + c, sum);
    }
}

// Counts of given labels: a task per thread, or where there is a list, of long ones, per block. `times` is how often each vote
// counts. Labels of tasks are counted by the caller.
extern "C" __global__ void recount_hard(VOTES, i64 k, const LABEL* labels, i64* counts, double* soft, double times) {
    const bool by_block = list != 0;
    const i64 n = LAST_TASK, first = by_block ? blockIdx.x : (i64)blockIdx.x * blockDim.x + threadIdx.x;
    for (i64 at = FIRST_TASK + first; at < n; at += by_block ? gridDim.x : (i64)gridDim.x * blockDim.x) {
        const i64 t = list ? list[at] : at, begin = ptr[t], end = ptr[t + 1], label = labels[t];
        if (!by_block && end - begin >= longest) continue;
        for (i64 i = begin + (by_block ? threadIdx.x : 0); i < end; i += by_block ? blockDim.x : 1) {
            if (counts) atomicAdd((u64*)counts + (i64)row[i] * k + label, (u64)(i64)times);
            else atomicAdd(soft + (i64)row[i] * k + label, times);
        }
    }
}

// The share of each label in the positive weights of a task's votes, OUT [tasks, k].
extern "C" __global__ void weight_shares(const u32* ptr, const u32* row, i64 tasks, i64 k, const int* row_label,
                                         const double* table, double* out) {
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < tasks; t += (i64)gridDim.x * blockDim.x) {
        double* share = out + t * k;
        for (i64 c = 0; c < k; ++c) share[c] = 0.0;
        for (i64 i = ptr[t]; i < ptr[t + 1]; ++i) {
            const i64 r = row[i], given = row_label[r];
            share[given] += table[r * k + given];
        }
        double best = -infinity(), total = 0.0;
        for (i64 c = 0; c < k; ++c) best = fmax(best, share[c]);
        for (i64 c = 0; c < k; ++c) {
            share[c] = best > 0.0 ? fmax(share[c], 0.0) : (share[c] == best ? 1.0 : 0.0);
            total += share[c];
        }
        for (i64 c = 0; c < k; ++c) share[c] /= total;
    }
}
