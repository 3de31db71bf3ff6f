// Fast hard E-steps: the table in whole steps of one byte, of which nearer memory holds more, and an exact second look.
//
// What a vote adds to the scores of all labels alike decides nothing. So the cost of a label in a row is by how much its
// log-probability is below that of the row's likeliest label, in whole steps; the likeliest label of a task has the smallest
// sum. A cost that does not fit is 255: a sum that reached 255 means 255 or more, and never wins. Tasks whose
// two best sums are closer than the rounding error are listed for the exact kernel.
//
// Macros: K, at most 16; LABEL_BYTES; EACH, the votes of every task where all have as many, else 0; SHARED, whether the lines are
// read from shared memory, some of them at a time: the sums of the lines before are passed from launch to launch.
#include "common.cuh"

#define WORDS ((K + 3) / 4)  // of four costs each

// OUT lines [rows, WORDS]: the costs of the table's lines, [rows, K]; largest [1]: the bits of their largest finite magnitude,
// or of the previous value, if that is larger.
extern "C" __global__ void narrow_costs(const double* table, i64 rows, double steps, u32* lines, u64* largest) {
    double most = 0.0;
    for (i64 r = (i64)blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += (i64)gridDim.x * blockDim.x) {
        double line[K], best = -infinity();
#pragma unroll
        for (int c = 0; c < K; ++c) {
            line[c] = table[r * K + c];
            best = fmax(best, line[c]);
            if (line[c] > -infinity()) most = fmax(most, fabs(line[c]));
        }
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            u32 word = 0;
#pragma unroll
            for (int c = 4 * w; c < 4 * w + 4; ++c) {
                const double cost = c < K && best > -infinity() ? rint((best - line[c < K ? c : 0]) * steps) : 255.0;
                word |= (u32)(cost < 255.0 ? cost : 255.0) << (8 * (c - 4 * w));
            }
            lines[r * WORDS + w] = word;
        }
    }
    for (int step = 16; step; step /= 2) most = fmax(most, __shfl_xor_sync(FULL, most, step));
    if (threadIdx.x % 32 == 0) atomicMax(largest, (u64)__double_as_longlong(most));  // bits of numbers that are not negative
}

#if EACH > 0
#define AT_ONCE 4  // tasks of a thread, whose votes are whole lines of 16 bytes
#else
#define AT_ONCE 1
#endif
#if SHARED && EACH > 6  // a block of 1024 threads has 64 registers for each, and the compiler would take up to 80
#define REGISTERS __launch_bounds__(1024)
#else
#define REGISTERS
#endif
#define IS_FIRST 1  // part of the lines
#define IS_LAST 2

// Sums of costs are pairs of 16 bits: the even and the odd costs of a word.
struct Costs {
    u32 even[WORDS], odd[WORDS];

    __device__ __forceinline__ void set(const u32* from) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            even[w] = from[w] & 0x00ff00ffu;
            odd[w] = from[w] >> 8 & 0x00ff00ffu;
        }
    }
    __device__ __forceinline__ void add(const u32* from) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            const u32 word = from[w];
            even[w] += word & 0x00ff00ffu;
            odd[w] += word >> 8 & 0x00ff00ffu;
        }
    }
    __device__ __forceinline__ u32 sum(int c) const {
        const u32 pair = c & 1 ? odd[c / 4] : even[c / 4];
        return c & 2 ? pair >> 16 : pair & 0xffffu;
    }
    // The sums in a byte each; 255 stands for anything from there up, as before.
    __device__ __forceinline__ u32 word(int w) const {
        u32 out = 0;
#pragma unroll
        for (int c = 4 * w; c < 4 * w + 4; ++c) out |= min(sum(c), 255u) << (8 * (c - 4 * w));
        return out;
    }
};

// The cheapest label of a task of n votes; `look` where others may be as cheap: a sum of n + 1 costs is off by half a step each,
// the difference of two sums by n + 1 steps. Slack is the rest, per vote, in steps: the rule of ties, and rounding in float64.
__device__ __forceinline__ int cheapest(const Costs& costs, u32 n, float slack, bool& look) {
    u32 best = ~0u, second = ~0u;  // a sum and its label in one number
#pragma unroll
    for (int c = 0; c < K; ++c) {
        const u32 both = costs.sum(c) << 8 | (u32)c;
        second = min(second, max(best, both));
        best = min(best, both);
    }
    const u32 margin = n + 2 + (u32)(slack * (float)(n + 1)), most = (best >> 8) + margin;
    look = most >= 255u || (K > 1 && second >> 8 <= most);
    return (int)(best & 255u);
}

// Put a warp's tasks on the list, many at once: all warps of the device add to one number.
__device__ __forceinline__ void put_down(const u32* room, u32 waiting, int lane, u32* list, u32* n) {
    __syncwarp();
    u32 first = 0;
    if (lane == 0 && waiting) first = atomicAdd(n, waiting);
    first = __shfl_sync(FULL, first, 0);
    for (u32 i = lane; i < waiting; i += 32) list[first + i] = room[i];
    __syncwarp();
}

// Labels of tasks of fewer than `longest` votes. start [WORDS]: the costs of the priors. Tasks that need a second look are put
// on the list `unsure`. In SHARED parts lines begin with `first_row`; partial [tasks, WORDS] passes on sums.
extern "C" __global__ void REGISTERS narrow_scan(
    const u32* ptr, const u32* row, i64 tasks, i64 longest, const u32* lines, i64 first_row, i64 rows, i64 part, u32* partial,
    const u32* start, const double* largest, double steps, LABEL* labels, i64 delta, u64* counts, u64* class_counts, u32* unsure,
    u32* n_unsure, u64* changed) {
    __shared__ int moved[K];
    __shared__ int others;
    __shared__ u32 rooms[32][64];
    for (int c = threadIdx.x; c < K; c += blockDim.x) moved[c] = 0;
    if (threadIdx.x == 0) others = 0;
#if SHARED
    DYNAMIC_SHARED(u32, near);
    for (i64 i = threadIdx.x; i < rows * WORDS; i += blockDim.x) near[i] = lines[first_row * WORDS + i];
#else
    const u32* const near = lines;
#endif
    __syncthreads();
    const int lane = threadIdx.x % 32;
    const float slack = (float)(2e-9 * steps * fmax(1.0, *largest));
    u32* const room = rooms[threadIdx.x / 32];
    u32 waiting = 0;  // tasks of the warp that wait to be put on the list
    const i64 stride = (i64)gridDim.x * blockDim.x * AT_ONCE;
    for (i64 at = ((i64)blockIdx.x * blockDim.x + threadIdx.x - lane) * AT_ONCE; at < tasks; at += stride) {
        const i64 task = at + lane * AT_ONCE;
#if EACH > 0
        u32 votes[4 * EACH];
        if (task + 4 <= tasks) {
            const uint4* const from = (const uint4*)(row + task * EACH);
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                const uint4 four = from[i];
                votes[4 * i] = four.x;
                votes[4 * i + 1] = four.y;
                votes[4 * i + 2] = four.z;
                votes[4 * i + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4 * EACH; ++i) votes[i] = task * EACH + i < tasks * EACH ? row[task * EACH + i] : 0;
        }
#endif
#pragma unroll
        for (int j = 0; j < AT_ONCE; ++j) {
            const i64 t = task + j;
            bool look = false;
            if (t < tasks) {
#if EACH > 0
                const u32 begin = (u32)(t * EACH), n = EACH;
#else
                const u32 begin = ptr[t], n = ptr[t + 1] - begin;
#endif
                Costs costs;
                costs.set(!SHARED || part & IS_FIRST ? start : partial + t * WORDS);
#if EACH > 0
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
                    const u32 r = votes[j * EACH + i] - (SHARED ? (u32)first_row : 0u);
                    if (!SHARED || r < (u32)rows) costs.add(near + (i64)r * WORDS);
                }
#else
                if (n < longest) {
#pragma unroll 4
                    for (u32 i = 0; i < n; ++i) {
                        const u32 r = row[begin + i] - (SHARED ? (u32)first_row : 0u);
                        if (!SHARED || r < (u32)rows) costs.add(near + (i64)r * WORDS);
                    }
                }
#endif
                if (SHARED && !(part & IS_LAST)) {
#pragma unroll
                    for (int w = 0; w < WORDS; ++w) partial[t * WORDS + w] = costs.word(w);
                } else if (n < longest) {
                    const int label = cheapest(costs, n, slack, look), before = (int)labels[t];
                    if (!look && label != before) {
                        labels[t] = (LABEL)label;
                        atomicAdd(&others, 1);
                        if (delta) {
                            for (u32 i = 0; i < n; ++i) {
                                const i64 cell = (i64)row[begin + i] * K;
                                atomicAdd(counts + cell + before, (u64)-1LL);
                                atomicAdd(counts + cell + label, (u64)1);
                            }
                            atomicAdd(&moved[before], -1);
                            atomicAdd(&moved[label], 1);
                        }
                    }
                }
            }
            const u32 looks = __ballot_sync(FULL, look);
            if (look) room[waiting + __popc(looks & ((1u << lane) - 1))] = (u32)t;
            waiting += __popc(looks);
            if (waiting >= 32) {
                put_down(room, waiting, lane, unsure, n_unsure);
                waiting = 0;
            }
        }
    }
    put_down(room, waiting, lane, unsure, n_unsure);
    __syncthreads();
    if (delta)
        for (int c = threadIdx.x; c < K; c += blockDim.x)
            if (moved[c]) atomicAdd(class_counts + c, (u64)(i64)moved[c]);
    if (threadIdx.x == 0 && others) atomicAdd(changed, (u64)others);
}
