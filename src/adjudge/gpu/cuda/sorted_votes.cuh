// Recounts over a second copy of the votes: sorted by row within tiles of tasks, so that the votes of a row are a run.
//
// A lane walks `STEPS` votes of the copy one after the other and adds up what they count in registers; the sum of a run goes to
// memory once. Step s of the 32 lanes of a group is stored in a row, so that a warp reads whole lines. A vote is the number of
// its task within the tile; the highest bit says that a run begins with it; ABSENT fills up the last group of a tile.
//
// Macros: K; LANES, the smallest power of two not below it; BITS, of a label in shared memory (2, 4 or 8); STEPS; LABEL_BYTES.
#include "common.cuh"
#include "exact_sums.cuh"

#define BEGINS 0x80000000u
#define ABSENT 0xffffffffu

// OUT keys [votes]: tile, row and number of the task within the tile, of every vote: sorted, they are the copy.
extern "C" __global__ void run_keys(const u32* ptr, const u32* row, i64 tasks, i64 tile_tasks, i64 row_bits, i64 task_bits,
                                    u64* keys) {
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < tasks; t += (i64)gridDim.x * blockDim.x) {
        const u64 tile = (u64)(t / tile_tasks), local = (u64)(t % tile_tasks);
        for (u32 i = ptr[t]; i < ptr[t + 1]; ++i) keys[i] = tile << (row_bits + task_bits) | (u64)row[i] << task_bits | local;
    }
}

// OUT begins [votes]: whether a run begins with a vote of the sorted copy.
extern "C" __global__ void run_begins(const u64* keys, i64 votes, i64 task_bits, u8* begins) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < votes; i += (i64)gridDim.x * blockDim.x)
        begins[i] = i == 0 || keys[i] >> task_bits != keys[i - 1] >> task_bits;
}

// OUT copy, as it is walked; first_run, of every lane's first vote; run_row [runs]. `run` [votes] counts runs from 1.
extern "C" __global__ void run_copy(const u64* keys, i64 votes, i64 row_bits, i64 task_bits, const i64* tile_votes,
                                    const i64* tile_copy, const u8* begins, const u32* run, u32* copy, u32* first_run,
                                    u32* run_row) {
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < votes; i += (i64)gridDim.x * blockDim.x) {
        const u64 key = keys[i];
        const i64 tile = (i64)(key >> (row_bits + task_bits)), at = i - tile_votes[tile];
        const i64 group = at / (32 * STEPS), within = at % (32 * STEPS), lane = within / STEPS, step = within % STEPS;
        const i64 to = tile_copy[tile] + group * 32 * STEPS;
        copy[to + step * 32 + lane] = (u32)(key & ((1ULL << task_bits) - 1)) | (begins[i] && step ? BEGINS : 0);
        if (step == 0) first_run[to / STEPS + lane] = run[i] - 1;
        if (begins[i]) run_row[run[i] - 1] = (u32)(key >> task_bits & ((1ULL << row_bits) - 1));
    }
}

#define PER_WORD (32 / BITS)
#define ONE_LABEL ((1u << BITS) - 1)
#if K <= 4
typedef u32 Tally;  // a byte per label: a lane walks fewer than 256 votes
#else
typedef u64 Tally;
#endif

__device__ __forceinline__ void flush_hard(Tally tally, i64 row, u32* counts) {
#pragma unroll
    for (int c = 0; c < K; ++c) {
        const u32 n = (u32)(tally >> (8 * c)) & 255u;
        if (n) atomicAdd(counts + row * K + c, n);
    }
}

// OUT packed: n labels, BITS each.
__device__ __forceinline__ void pack_labels(const LABEL* labels, i64 n, u32* packed) {
    for (i64 w = threadIdx.x; w * PER_WORD < n; w += blockDim.x) {
        u32 word = 0;
        const i64 begin = w * PER_WORD, some = n - begin < PER_WORD ? n - begin : PER_WORD;
        for (int j = 0; j < some; ++j) word |= (u32)labels[begin + j] << (BITS * j);
        packed[w] = word;
    }
}

// The labels of a tile are packed in shared memory; a block counts whole tiles. K is at most 8. counts [rows, K] added to.
extern "C" __global__ void recount_runs(const u32* copy, const u32* first_run, const u32* run_row, const i64* tile_copy,
                                        i64 tiles, i64 tile_tasks, i64 tasks, const LABEL* labels, u32* counts) {
    DYNAMIC_SHARED(u32, packed);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const i64 first = tile * tile_tasks, here = tasks - first < tile_tasks ? tasks - first : tile_tasks;
        __syncthreads();
        pack_labels(labels + first, here, packed);
        __syncthreads();
        const i64 groups = (tile_copy[tile + 1] - tile_copy[tile]) / (32 * STEPS);
        for (i64 group = warp; group < groups; group += warps) {
            const i64 at = tile_copy[tile] + group * 32 * STEPS;
            u32 run = first_run[at / STEPS + lane];
            Tally tally = 0;
#pragma unroll 8
            for (int s = 0; s < STEPS; ++s) {
                const u32 vote = copy[at + s * 32 + lane];
                if (vote == ABSENT) break;
                if (vote & BEGINS) {
                    flush_hard(tally, run_row[run], counts);
                    tally = 0;
                    ++run;
                }
                const u32 task = vote & ~BEGINS, label = packed[task / PER_WORD] >> (BITS * (task % PER_WORD)) & ONE_LABEL;
                tally += (Tally)1 << (8 * label);
            }
            if (tally) flush_hard(tally, run_row[run], counts);
        }
    }
}

// shares [tasks, K], of one tile; counts [rows, K] added to. LANES neighbouring lanes have a label each, so that one read fetches
// a line of shares; they walk the votes of LANES lanes in turn.
extern "C" __global__ void share_runs(const u32* copy, const u32* first_run, const u32* run_row, i64 begin, i64 end,
                                      const double* shares, double* counts) {
    const int lane = threadIdx.x % 32, c = lane % LANES, base = lane - c;
    const i64 warps = (i64)gridDim.x * (blockDim.x / 32), groups = (end - begin) / (32 * STEPS);
    for (i64 group = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; group < groups; group += warps) {
        const i64 at = begin + group * 32 * STEPS;
        const u32 mine = first_run[at / STEPS + lane];
        u32 run[LANES];
        double sum[LANES];
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            run[j] = __shfl_sync(0xffffffffu, mine, base + j);
            sum[j] = 0.0;
        }
#pragma unroll 2
        for (int s = 0; s < STEPS; ++s) {
            const u32 vote = copy[at + s * 32 + lane];
            u32 one[LANES];
            double share[LANES];
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                one[j] = __shfl_sync(0xffffffffu, vote, base + j);
                share[j] = one[j] != ABSENT && c < K ? shares[(i64)(one[j] & ~BEGINS) * K + c] : 0.0;
            }
#pragma unroll
            for (int j = 0; j < LANES; ++j) {
                if (one[j] != ABSENT && one[j] & BEGINS) {
                    if (sum[j] != 0.0) atomicAdd(counts + (i64)run_row[run[j]] * K + c, sum[j]);
                    sum[j] = 0.0;
                    ++run[j];
                }
                sum[j] += share[j];
            }
        }
#pragma unroll
        for (int j = 0; j < LANES; ++j)
            if (sum[j] != 0.0) atomicAdd(counts + (i64)run_row[run[j]] * K + c, sum[j]);
    }
}

// The same where runs are short: the sorted keys themselves, of which neighbouring lanes have neighbouring ones.
extern "C" __global__ void recount_keys(const u64* keys, const i64* tile_votes, i64 tiles, i64 tile_tasks, i64 tasks,
                                        i64 row_bits, i64 task_bits, const LABEL* labels, u32* counts) {
    DYNAMIC_SHARED(u32, packed);
    const u64 rows = (1ULL << row_bits) - 1, local = (1ULL << task_bits) - 1;
    for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const i64 first = tile * tile_tasks, here = tasks - first < tile_tasks ? tasks - first : tile_tasks;
        __syncthreads();
        pack_labels(labels + first, here, packed);
        __syncthreads();
#pragma unroll 4
        for (i64 i = tile_votes[tile] + threadIdx.x; i < tile_votes[tile + 1]; i += blockDim.x) {
            const u64 key = keys[i];
            const u32 task = (u32)(key & local), label = packed[task / PER_WORD] >> (BITS * (task % PER_WORD)) & ONE_LABEL;
            atomicAdd(counts + (i64)(key >> task_bits & rows) * K + label, 1u);
        }
    }
}
