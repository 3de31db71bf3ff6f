// GLAD on a device: `adjudge.kernels.methods_reference` has the definition. K is the number of labels.
//
// No sum depends on the order in which threads happen to run: each thread, warp and block has a sum of its own, and these are
// added in a fixed order. Sums by worker are taken over a copy of the votes in the order of the workers.
#include "common.cuh"

namespace glad {

const double TIE = 1e-9;       // scores this close (relative to the best, absolute below 1) are tied
const double FLAT = 1e-5;      // below this |x| the bound's curvature is 1/4 to the last digit
const int FACTORS = 256;       // each is at most 2, and so their product far from overflow
const int SUMS = 2;            // of a pass, besides the class counts: log-likelihood, labels changed

#if K <= 256
typedef u8 Label;
#else
typedef u32 Label;
#endif

// The sum of softplus(x) = max(x, 0) + log(1 + exp(-|x|)); one logarithm of a product stands for many of its factors.
struct Softplus {
    double linear, logs, product;
    int factors;

    __device__ __forceinline__ Softplus() : linear(0.0), logs(0.0), product(1.0), factors(0) {}

    // exp(-|x|), which the caller needs as well
    __device__ __forceinline__ double add(double x) {
        const double e = exp(-fabs(x));
        linear += x > 0.0 ? x : 0.0;
        product *= 1.0 + e;
        if (++factors == FACTORS) fold();
        return e;
    }
    __device__ __forceinline__ double sum() {
        fold();
        return linear + logs;
    }
    __device__ __forceinline__ void fold() {
        logs += log(product);
        product = 1.0;
        factors = 0;
    }
};

__device__ __forceinline__ double tie_threshold(double best) {
    const double size = fabs(best);
    return best - TIE * (size > 1.0 ? size : 1.0);
}

// A tied label with what decides ties: the larger weight, then the larger hash, then the smaller label.
struct Candidate {
    double weight;
    u64 key;
    int label;

    __device__ __forceinline__ bool beats(const Candidate& other) const {
        if (weight != other.weight) return weight > other.weight;
        return key != other.key ? key > other.key : label < other.label;
    }
};

__device__ __forceinline__ Candidate none() { return {-infinity(), 0, 0x7FFFFFFF}; }

// Slope and curvature of one vote by x = ability * ease.
struct Bend {
    double slope, curvature;
};

__device__ __forceinline__ Bend bend_at(double x, double e, double right) {
    const double s = (x > 0.0 ? 1.0 : e) / (1.0 + e);
    return {right - s, fabs(x) < FLAT ? 0.25 : (s - 0.5) / x};
}

}  // namespace glad

// The E-step of short tasks, a thread each, for at most 16 labels; posterior is that of the tasks from `begin`.
extern "C" __global__ void glad_expect(
    const u32* ptr,             // IN [tasks + 1]
    const u32* row,             // IN [votes]
    const double* row_ability,  // IN [rows]
    const int* row_label,       // IN [rows]
    const double* ease,         // IN [tasks]
    const double* log_prior,    // IN [K]
    const u64* keys,            // IN [tasks] or null
    const i64* numbers,         // IN [tasks] or null
    const u64* label_hash,      // IN [K]
    const int* gold,            // IN [tasks] or null
    glad::Label* labels,        // IN/OUT [tasks]
    double* right,              // OUT [votes] or null
    double* confidence,         // OUT [tasks] or null
    u8* tie,                    // OUT [tasks] or null
    double* posterior,          // OUT [end - begin, K] or null
    double* sums,               // OUT [blocks, 2 + K]
    i64 begin, i64 end, i64 salt, i64 by_prior, i64 longest, double log_others) {
#if K <= 16  // registers of a thread
    using namespace glad;
    double likelihood = 0.0, changed = 0.0, classes[K];
#pragma unroll
    for (int c = 0; c < K; ++c) classes[c] = 0.0;
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 task = begin + (i64)blockIdx.x * blockDim.x + threadIdx.x; task < end; task += step) {
        const i64 first = ptr[task], last = ptr[task + 1];
        if (last - first >= longest) continue;
        const double of_task = ease[task];
        double scores[K];
#pragma unroll
        for (int c = 0; c < K; ++c) scores[c] = 0.0;
        Softplus softplus;
        for (i64 v = first; v < last; ++v) {
            const u32 r = row[v];
            const double x = row_ability[r] * of_task;
            const int label = row_label[r];
            softplus.add(x);
            const double part = x + log_others;
#pragma unroll
            for (int c = 0; c < K; ++c) scores[c] += c == label ? part : 0.0;  // an index would put them into memory
        }
        const double every = -softplus.sum() - (double)(last - first) * log_others;
        double best = -infinity();
#pragma unroll
        for (int c = 0; c < K; ++c) {
            scores[c] += every + log_prior[c];
            best = scores[c] > best ? scores[c] : best;
        }
        const double threshold = tie_threshold(best);
        int winner = 0, candidates = 0;
#pragma unroll
        for (int c = 0; c < K; ++c)
            if (scores[c] >= threshold && candidates++ == 0) winner = c;
        if (candidates > 1) {
            const u64 key = tie_key(keys, numbers, (u64)salt, task);
            Candidate top = none();
#pragma unroll
            for (int c = 0; c < K; ++c) {
                if (!(scores[c] >= threshold)) continue;
                const Candidate here = {by_prior ? log_prior[c] : 0.0, mix(key ^ label_hash[c]), c};
                if (here.beats(top)) top = here;
            }
            winner = top.label;
        }
        double total = 0.0;
#pragma unroll
        for (int c = 0; c < K; ++c) total += scores[c] = exp(scores[c] - best);
        likelihood += best + log(total);
        double chosen = 0.0;
        const int given = gold ? gold[task] : -1;
        if (given >= 0) winner = given;
#pragma unroll
        for (int c = 0; c < K; ++c) {
            scores[c] /= total;
            chosen = c == winner ? scores[c] : chosen;
        }
        if (given >= 0) {  // certain, and its likelihood is that of votes and label together
            likelihood += log(chosen);
            chosen = 1.0;
#pragma unroll
            for (int c = 0; c < K; ++c) scores[c] = c == given ? 1.0 : 0.0;
        } else {
            changed += labels[task] != winner;
        }
#pragma unroll
        for (int c = 0; c < K; ++c) {
            classes[c] += scores[c];
            if (posterior) posterior[(task - begin) * K + c] = scores[c];
        }
        labels[task] = (Label)winner;
        if (confidence) confidence[task] = chosen;
        if (tie) tie[task] = given < 0 && candidates > 1;
        if (!right) continue;
        for (i64 v = first; v < last; ++v) {
            const int label = row_label[row[v]];
            double p = 0.0;
#pragma unroll
            for (int c = 0; c < K; ++c) p = c == label ? scores[c] : p;
            right[v] = p;
        }
    }
    double* const out = sums + (i64)blockIdx.x * (SUMS + K);
    likelihood = block_sum(likelihood);
    changed = block_sum(changed);
    if (threadIdx.x == 0) out[0] = likelihood, out[1] = changed;
#pragma unroll
    for (int c = 0; c < K; ++c) {
        const double of_label = block_sum(classes[c]);
        if (threadIdx.x == 0) out[SUMS + c] = of_label;
    }
#endif
}

// The E-step of long tasks, or of any where labels are many: a warp each. A lane has the labels c with c % 32 == lane, and
// adds votes in their stored order. sums IN/OUT [warps, 2 + K], zero at first; room is scratch of [warps, K].
extern "C" __global__ void glad_expect_wide(
    const u32* ptr, const u32* row, const double* row_ability, const int* row_label, const double* ease,
    const double* log_prior, const u64* keys, const i64* numbers, const u64* label_hash, const int* gold,
    glad::Label* labels, double* right, double* confidence, u8* tie, double* posterior, double* sums,
    i64 begin, i64 end, i64 salt, i64 by_prior, double log_others,
    const u32* chosen,  // IN [some] the tasks, or null: those from begin to end
    i64 from, i64 to,   // which of the chosen
    double* room) {
    using namespace glad;
    const int lane = threadIdx.x % 32;
    const i64 warp = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (i64)gridDim.x * blockDim.x / 32;
    double* const scores = room + warp * K;
    double* const out = sums + warp * (SUMS + K);
    double likelihood = 0.0, changed = 0.0;
    for (i64 i = (chosen ? from : begin) + warp; i < (chosen ? to : end); i += warps) {
        const i64 task = chosen ? (i64)chosen[i] : i, first = ptr[task], last = ptr[task + 1];
        const double of_task = ease[task];
        for (int c = lane; c < K; c += 32) scores[c] = 0.0;
        Softplus softplus;
        for (i64 base = first; base < last; base += 32) {
            int label = 0;
            double x = 0.0;
            if (base + lane < last) {
                const u32 r = row[base + lane];
                label = row_label[r];
                x = row_ability[r] * of_task;
                softplus.add(x);
            }
            const int n = last - base < 32 ? (int)(last - base) : 32;
            for (int j = 0; j < n; ++j) {
                const int to_label = __shfl_sync(FULL, label, j);
                const double part = __shfl_sync(FULL, x, j);
                if (to_label % 32 == lane) scores[to_label] += part + log_others;
            }
        }
        const double every = -warp_sum(softplus.sum()) - (double)(last - first) * log_others;
        double best = -infinity();
        for (int c = lane; c < K; c += 32) {
            scores[c] += every + log_prior[c];
            best = scores[c] > best ? scores[c] : best;
        }
        best = warp_max(best);
        const double threshold = tie_threshold(best);
        double candidates = 0.0;
        int winner = 0x7FFFFFFF;
        for (int c = lane; c < K; c += 32)
            if (scores[c] >= threshold && ++candidates == 1.0) winner = c;
        candidates = warp_sum(candidates);
        Candidate top = none();
        if (candidates > 1.0) {
            const u64 key = tie_key(keys, numbers, (u64)salt, task);
            for (int c = lane; c < K; c += 32) {
                if (!(scores[c] >= threshold)) continue;
                const Candidate here = {by_prior ? log_prior[c] : 0.0, mix(key ^ label_hash[c]), c};
                if (here.beats(top)) top = here;
            }
        } else {
            top.label = winner;
        }
        for (int apart = 16; apart; apart /= 2) {
            const Candidate other = {__shfl_xor_sync(FULL, top.weight, apart), __shfl_xor_sync(FULL, top.key, apart),
                                     __shfl_xor_sync(FULL, top.label, apart)};
            if (other.beats(top)) top = other;
        }
        double total = 0.0;
        for (int c = lane; c < K; c += 32) total += scores[c] = exp(scores[c] - best);
        total = warp_sum(total);
        const int given = gold ? gold[task] : -1;
        winner = given >= 0 ? given : top.label < K ? top.label : 0;
        __syncwarp();
        const double share = scores[winner] / total;
        __syncwarp();
        if (lane == 0) {
            likelihood += best + log(total) + (given >= 0 ? log(share) : 0.0);
            changed += given < 0 && labels[task] != winner;
            labels[task] = (Label)winner;
            if (confidence) confidence[task] = given >= 0 ? 1.0 : share;
            if (tie) tie[task] = given < 0 && candidates > 1.0;
        }
        for (int c = lane; c < K; c += 32) {
            const double p = given >= 0 ? (c == given ? 1.0 : 0.0) : scores[c] / total;
            scores[c] = p;
            out[SUMS + c] += p;
            if (posterior) posterior[(task - begin) * K + c] = p;
        }
        __syncwarp();
        if (right)
            for (i64 v = first + lane; v < last; v += 32) right[v] = scores[row_label[row[v]]];
        __syncwarp();
    }
    if (lane == 0) out[0] = likelihood, out[1] = changed;
}

// Slope and curvature by log ease of short tasks, a thread each. sums OUT [blocks] the expected log-likelihood.
extern "C" __global__ void glad_slopes(
    const u32* ptr, const u32* row, const double* row_ability, const double* ease,
    const double* right,  // IN [votes]
    double* by_task,      // OUT [tasks]
    double* curvature,    // OUT [tasks]
    double* sums, i64 tasks, i64 longest, double log_others) {
    using namespace glad;
    Softplus softplus;
    double linear = 0.0;
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 task = (i64)blockIdx.x * blockDim.x + threadIdx.x; task < tasks; task += step) {
        const i64 first = ptr[task], last = ptr[task + 1];
        if (last - first >= longest) continue;
        const double of_task = ease[task];
        double slope = 0.0, bent = 0.0;
        for (i64 v = first; v < last; ++v) {
            const double x = row_ability[row[v]] * of_task, r = right[v];
            const Bend bend = bend_at(x, softplus.add(x), r);
            linear += r * x - (1.0 - r) * log_others;
            slope += bend.slope * x;
            bent += bend.curvature * x * x;
        }
        by_task[task] = slope;
        curvature[task] = bent;
    }
    const double value = block_sum(linear - softplus.sum());
    if (threadIdx.x == 0) sums[blockIdx.x] = value;
}

// The same of long tasks, a warp each. sums OUT [warps].
extern "C" __global__ void glad_slopes_long(
    const u32* ptr, const u32* row, const double* row_ability, const double* ease, const double* right, double* by_task,
    double* curvature, double* sums, const u32* chosen, i64 count, double log_others) {
    using namespace glad;
    const int lane = threadIdx.x % 32;
    const i64 warp = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = (i64)gridDim.x * blockDim.x / 32;
    Softplus softplus;
    double linear = 0.0;
    for (i64 i = warp; i < count; i += warps) {
        const i64 task = chosen[i], last = ptr[task + 1];
        const double of_task = ease[task];
        double slope = 0.0, bent = 0.0;
        for (i64 v = (i64)ptr[task] + lane; v < last; v += 32) {
            const double x = row_ability[row[v]] * of_task, r = right[v];
            const Bend bend = bend_at(x, softplus.add(x), r);
            linear += r * x - (1.0 - r) * log_others;
            slope += bend.slope * x;
            bent += bend.curvature * x * x;
        }
        slope = warp_sum(slope);
        bent = warp_sum(bent);
        if (lane == 0) by_task[task] = slope, curvature[task] = bent;
    }
    const double value = warp_sum(linear - softplus.sum());
    if (lane == 0) sums[warp] = value;
}

// What belongs to votes, put into the order of another list of them.
extern "C" __global__ void glad_arrange(const double* from, const u32* position, double* to, i64 votes) {
    const i64 step = (i64)gridDim.x * blockDim.x;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < votes; i += step) to[i] = from[position[i]];
}

// Slope and curvature by ability, over votes in the order of their workers: a warp has at most `slice` votes of one worker.
extern "C" __global__ void glad_by_worker(
    const u32* task,         // IN [votes] by worker
    const double* right,     // IN [votes] by worker
    const double* ability,   // IN [workers]
    const double* ease,      // IN [tasks]
    const i64* start,        // IN [workers + 1] where the votes of each begin
    const i64* item_start,   // IN [workers + 1] where the slices of each begin
    const u32* item_worker,  // IN [items]
    double* part,            // OUT [items, 2]
    i64 items, i64 slice) {
    using namespace glad;
    const int lane = threadIdx.x % 32;
    const i64 item = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (item >= items) return;  // all lanes of a warp alike
    const u32 worker = item_worker[item];
    const double of_worker = ability[worker];
    const i64 first = start[worker] + (item - item_start[worker]) * slice;
    const i64 last = first + slice < start[worker + 1] ? first + slice : start[worker + 1];
    double slope = 0.0, bent = 0.0;
    for (i64 v = first + lane; v < last; v += 32) {
        const double of_task = ease[task[v]], x = of_worker * of_task;
        const Bend bend = bend_at(x, exp(-fabs(x)), right[v]);
        slope += bend.slope * of_task;
        bent += bend.curvature * of_task * of_task;
    }
    slope = warp_sum(slope);
    bent = warp_sum(bent);
    if (lane == 0) part[2 * item] = slope, part[2 * item + 1] = bent;
}

// The sums of each worker's slices, a warp each.
extern "C" __global__ void glad_workers(const double* part, const i64* item_start, double* by_worker, double* curvature,
                                        i64 workers) {
    using namespace glad;
    const int lane = threadIdx.x % 32;
    const i64 worker = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (worker >= workers) return;
    double slope = 0.0, bent = 0.0;
    for (i64 i = item_start[worker] + lane; i < item_start[worker + 1]; i += 32) {
        slope += part[2 * i];
        bent += part[2 * i + 1];
    }
    slope = warp_sum(slope);
    bent = warp_sum(bent);
    if (lane == 0) by_worker[worker] = slope, curvature[worker] = bent;
}
