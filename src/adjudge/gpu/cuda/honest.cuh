// Honest confidence: what the other votes of a task say (`reference.honest_pass`, `reference.below_chance`), sums over pairs of
// votes (`reference.pair_sums`), and the lines that votes are judged by (`adjudge.models.honest.Honest.lines`).
//
// K is the number of labels. A thread works on a task where K is at most 32; a block does on tasks of LONG_TASK votes or more,
// and on all tasks where K is larger. Votes are added in their stored order in both, as the reference adds them.
#include "common.cuh"

#define BLOCK 128  // threads of a block; votes that it looks at together
#define WARPS (BLOCK / 32)
#define TIE 1e-9
#define VOTE_SHARE 0.2
#define ANSWERS_PER_ONE 68719476736.0  // 2^36: 1 / ANSWER_UNIT

#if K <= 256
typedef u8 Label;
#else
typedef u32 Label;
#endif

// The largest x of a block, for all its threads.
__device__ double block_max(double x) {
    __shared__ double part[WARPS];
    x = warp_max(x);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
    for (int i = 1; i < WARPS; ++i)
        if (part[i] > x) x = part[i];
    __syncthreads();
    return x;
}

__device__ __forceinline__ void add_units(u64* sums, i64 at, double units) { atomicAdd(sums + at, (u64)(i64)rint(units)); }

// By how much the scores of a task are flattened: by what its workers share. Less than one vote shares nothing.
__device__ __forceinline__ double coldness(double size, double shared_error, double trust) {
    const double others = size - 1.0 > 0.0 ? size - 1.0 : 0.0;
    return trust / (2.0 * (1.0 + others * shared_error));
}

__device__ __forceinline__ double with_shares(double weight, double shown, double uniform, double size) {
    return (1.0 - VOTE_SHARE) * weight + VOTE_SHARE * (shown + uniform) / (size + 1.0);
}

// ---- A thread for each task ------------------------------------------------------------------------------------------------
#if K <= 32

// One of a few numbers that stay in registers.
__device__ __forceinline__ double cell(const double* cells, int at) {
    double out = cells[0];
#pragma unroll
    for (int c = 1; c < K; ++c) out = c == at ? cells[c] : out;
    return out;
}

// What a vote says of every label, [K]; the label it gave gets the largest of all. Returns that label.
__device__ __forceinline__ int say(
    u32 row, int label, const int* row_label, const double* lines, const double* without, double* said) {
    const i64 begin = (i64)row * K;
    const int given = row_label[row];
    const double left_out = without[begin + label];
    double top = -infinity();
#if K % 2
#pragma unroll
    for (int c = 0; c < K; ++c) said[c] = lines[begin + c];
#else
    const double2* const pairs = (const double2*)(lines + begin);  // half as many reads; every line begins at a pair
#pragma unroll
    for (int c = 0; c < K; c += 2) {
        const double2 two = pairs[c / 2];
        said[c] = two.x;
        said[c + 1] = two.y;
    }
#endif
#pragma unroll
    for (int c = 0; c < K; ++c) {
        if (c == label) said[c] = left_out;
        if (said[c] > top) top = said[c];
    }
#pragma unroll
    for (int c = 0; c < K; ++c) said[c] = c == given ? top : said[c];
    return given;
}

// The scores of a task's votes, and its votes by label, [K] each. Returns how many votes it has by their weights.
__device__ __forceinline__ double scores_of(
    u32 begin, u32 end, int label, const u32* row, const int* row_label, const double* lines, const double* without,
    const double* rule, const double* row_weight, double* score, double* shown) {
    double size = 0.0, said[K];
#pragma unroll
    for (int c = 0; c < K; ++c) score[c] = shown[c] = 0.0;
    for (u32 vote = begin; vote < end; ++vote) {
        const int given = say(row[vote], label, row_label, lines, without, said);
        const double weight = row_weight ? row_weight[row[vote]] : 1.0;
        size += weight;
#pragma unroll
        for (int c = 0; c < K; ++c) {
            score[c] += said[c];
            shown[c] += c == given ? weight : 0.0;
        }
    }
#pragma unroll
    for (int c = 0; c < K; ++c) score[c] += rule[c];
    return size;
}

// Scores made probabilities, in place: flattened, of the labels that exist.
__device__ __forceinline__ void soften(double* score, const double* uniform, double cold) {
    double best = -infinity(), total = 0.0;
#pragma unroll
    for (int c = 0; c < K; ++c)
        if (uniform[c] > 0.0 && score[c] > best) best = score[c];
#pragma unroll
    for (int c = 0; c < K; ++c) {
        score[c] = uniform[c] > 0.0 ? exp((score[c] - best) * cold) : 0.0;
        total += score[c];
    }
#pragma unroll
    for (int c = 0; c < K; ++c) score[c] /= total;
}

// `rule` is where scores start, [K], and the equal shares of labels that exist, [K].
extern "C" __global__ void __launch_bounds__(BLOCK) honest_tasks(
    const u32* ptr, const u32* row, const int* row_label, const Label* labels, const double* lines, const double* without,
    const double* rule, double shared_error, double trust, const double* row_weight, i64 tasks, double* confidence, u8* tie,
    double* probabilities, u64* answers, u64* doubts, const Label* wanted, double* chance) {
    const i64 task = blockIdx.x * (i64)BLOCK + threadIdx.x;
    if (task >= tasks) return;
    const u32 begin = ptr[task], end = ptr[task + 1];
    if (end - begin >= LONG_TASK) return;
    const int label = labels[task];
    double before[K], shown[K];
    const double size = scores_of(begin, end, label, row, row_label, lines, without, rule, row_weight, before, shown);
    soften(before, rule + K, coldness(size, shared_error, trust));
    double best = 0.0, total = 0.0;
#pragma unroll
    for (int c = 0; c < K; ++c) {
        before[c] = with_shares(before[c], shown[c], rule[K + c], size);
        if (before[c] > best) best = before[c];
        total += before[c];
    }
    const double own = cell(before, label);
    total = total - own + best;
    if (confidence) confidence[task] = best / total;
    if (tie) {
        int near = 0;
#pragma unroll
        for (int c = 0; c < K; ++c) near += before[c] >= best - TIE;
        if (near > 1) tie[task] = 1;
    }
    if (chance) chance[task] = cell(before, wanted[task]);
    if (probabilities) {
#pragma unroll
        for (int c = 0; c < K; ++c) probabilities[task * K + c] = (c == label ? best : before[c]) / total;
    }
    if (answers) {
        for (u32 vote = begin; vote < end; ++vote) {
            const u32 at = row[vote];
            add_units(answers, at, cell(before, row_label[at]) * ANSWERS_PER_ONE);
            add_units(doubts, at, (1.0 - own) * ANSWERS_PER_ONE);
        }
    }
}

// `sums` is [4, rows]; the last two are of all rows of a vote's worker.
extern "C" __global__ void __launch_bounds__(BLOCK) below_chance_tasks(
    const u32* ptr, const u32* row, const int* row_label, const Label* labels, const double* lines, const double* without,
    const double* rule, double shared_error, double trust, const double* row_weight, i64 tasks, const i64* row_worker,
    const i64* worker_ptr, double unit, u64* sums, i64 rows) {
    const i64 task = blockIdx.x * (i64)BLOCK + threadIdx.x;
    if (task >= tasks) return;
    const u32 begin = ptr[task], end = ptr[task + 1];
    if (end - begin >= LONG_TASK || end - begin < 2) return;
    const int label = labels[task];
    double score[K], shown[K], others[K];
    const double size = scores_of(begin, end, label, row, row_label, lines, without, rule, row_weight, score, shown);
    const double cold = coldness(size, shared_error, trust);
    for (u32 vote = begin; vote < end; ++vote) {
        const u32 at = row[vote];
        const int given = say(at, label, row_label, lines, without, shown);  // `shown` is not needed any more
#pragma unroll
        for (int c = 0; c < K; ++c) others[c] = score[c] - shown[c];
        soften(others, rule + K, cold);
        atomicAdd(sums + at, (u64)1);
        add_units(sums + rows, at, cell(others, given) / unit);
        const i64 worker = row_worker[at], last = worker_ptr[worker + 1];
        for (i64 mine = worker_ptr[worker]; mine < last; ++mine) {
            const double p = cell(others, row_label[mine]);
            add_units(sums + 2 * rows, mine, p / unit);
            add_units(sums + 3 * rows, mine, p * p / unit);
        }
    }
}

#endif
// ---- A block for each task -------------------------------------------------------------------------------------------------

// Votes that a block looks at together.
struct Tile {
    u32 row[BLOCK];
    int given[BLOCK];
    double top[BLOCK], weight[BLOCK];
};

// What a vote says of a label; `top` is the largest that it says of any.
__device__ __forceinline__ double said_of(
    int c, u32 row, int given, int label, double top, const double* lines, const double* without) {
    return c == given ? top : c == label ? without[(i64)row * K + c] : lines[(i64)row * K + c];
}

// The largest that a vote says of any label, by a warp: all its lanes get it.
__device__ __forceinline__ double top_of(u32 row, int label, const double* lines, const double* without) {
    double top = -infinity();
    for (int c = threadIdx.x % 32; c < K; c += 32) {
        const double said = said_of(c, row, -1, label, 0.0, lines, without);
        if (said > top) top = said;
    }
    return warp_max(top);
}

// The scores of a task's votes, and its votes by label, [K] each: a thread works on the labels that are its own, one by one.
// Returns how many votes the task has by their weights. No thread has seen the others' labels before the next barrier.
__device__ double block_scores(
    Tile& tile, u32 begin, u32 end, int label, const u32* row, const int* row_label, const double* lines, const double* without,
    const double* rule, const double* row_weight, double* score, double* shown) {
    double size = 0.0;
    for (int c = threadIdx.x; c < K; c += BLOCK) score[c] = shown[c] = 0.0;
    for (i64 base = begin; base < end; base += BLOCK) {
        const int votes = end - base < BLOCK ? (int)(end - base) : BLOCK;
        const int mine = threadIdx.x;
        __syncthreads();  // all are done with the votes before
        if (mine < votes) {
            const u32 at = row[base + mine];
            tile.row[mine] = at;
            tile.given[mine] = row_label[at];
            tile.weight[mine] = row_weight ? row_weight[at] : 1.0;
#if K <= 32
            double top = -infinity();
            for (int c = 0; c < K; ++c) {
                const double said = said_of(c, at, -1, label, 0.0, lines, without);
                if (said > top) top = said;
            }
            tile.top[mine] = top;
#endif
        }
        __syncthreads();
#if K > 32
        for (int vote = mine / 32; vote < votes; vote += WARPS) {
            const double top = top_of(tile.row[vote], label, lines, without);
            if (mine % 32 == 0) tile.top[vote] = top;
        }
        __syncthreads();
#endif
        for (int c = mine; c < K; c += BLOCK) {
            double sum = score[c], seen = shown[c];
            for (int vote = 0; vote < votes; ++vote) {
                sum += said_of(c, tile.row[vote], tile.given[vote], label, tile.top[vote], lines, without);
                if (tile.given[vote] == c) seen += tile.weight[vote];
            }
            score[c] = sum;
            shown[c] = seen;
        }
        for (int vote = 0; vote < votes; ++vote) size += tile.weight[vote];
    }
    for (int c = threadIdx.x; c < K; c += BLOCK) score[c] += rule[c];
    return size;
}

// The same as `honest_tasks` for the tasks that `chosen` names, or for all. `scratch` is [blocks, 2, K], or none where shared
// memory has the room.
extern "C" __global__ void __launch_bounds__(BLOCK) honest_blocks(
    const u32* chosen, i64 n_chosen, double* scratch, const u32* ptr, const u32* row, const int* row_label, const Label* labels,
    const double* lines, const double* without, const double* rule, double shared_error, double trust, const double* row_weight,
    double* confidence, u8* tie, double* probabilities, u64* answers, u64* doubts, const Label* wanted, double* chance) {
    __shared__ Tile tile;
    DYNAMIC_SHARED(double, room);
    double* const before = scratch ? scratch + (i64)blockIdx.x * 2 * K : room;
    double* const shown = before + K;
    const double* const uniform = rule + K;
    for (i64 i = blockIdx.x; i < n_chosen; i += gridDim.x) {
        const i64 task = chosen ? (i64)chosen[i] : i;
        const u32 begin = ptr[task], end = ptr[task + 1];
        const int label = labels[task];
        const double size =
            block_scores(tile, begin, end, label, row, row_label, lines, without, rule, row_weight, before, shown);
        const double cold = coldness(size, shared_error, trust);
        double best = -infinity(), total = 0.0;
        for (int c = threadIdx.x; c < K; c += BLOCK)
            if (uniform[c] > 0.0 && before[c] > best) best = before[c];
        best = block_max(best);
        for (int c = threadIdx.x; c < K; c += BLOCK) {
            before[c] = uniform[c] > 0.0 ? exp((before[c] - best) * cold) : 0.0;
            total += before[c];
        }
        const double weights = block_sum(total);
        best = total = 0.0;
        for (int c = threadIdx.x; c < K; c += BLOCK) {
            before[c] = with_shares(before[c] / weights, shown[c], uniform[c], size);
            if (before[c] > best) best = before[c];
            total += before[c];
        }
        best = block_max(best);
        total = block_sum(total);  // from here on every thread sees what the others wrote
        const double own = before[label];
        total = total - own + best;
        if (tie) {
            double near = 0.0;
            for (int c = threadIdx.x; c < K; c += BLOCK) near += before[c] >= best - TIE;
            near = block_sum(near);
            if (threadIdx.x == 0 && near > 1.0) tie[task] = 1;
        }
        if (threadIdx.x == 0) {
            if (confidence) confidence[task] = best / total;
            if (chance) chance[task] = before[wanted[task]];
        }
        if (probabilities)
            for (int c = threadIdx.x; c < K; c += BLOCK) probabilities[task * K + c] = (c == label ? best : before[c]) / total;
        if (answers)
            for (i64 vote = (i64)begin + threadIdx.x; vote < end; vote += BLOCK) {
                const u32 at = row[vote];
                add_units(answers, at, before[row_label[at]] * ANSWERS_PER_ONE);
                add_units(doubts, at, (1.0 - own) * ANSWERS_PER_ONE);
            }
        __syncthreads();  // the next task writes where this one reads
    }
}

// The same as `below_chance_tasks`: a warp works on a vote.
extern "C" __global__ void __launch_bounds__(BLOCK) below_chance_blocks(
    const u32* chosen, i64 n_chosen, double* scratch, const u32* ptr, const u32* row, const int* row_label, const Label* labels,
    const double* lines, const double* without, const double* rule, double shared_error, double trust, const double* row_weight,
    const i64* row_worker, const i64* worker_ptr, double unit, u64* sums, i64 rows) {
    __shared__ Tile tile;
    DYNAMIC_SHARED(double, room);
    double* const score = scratch ? scratch + (i64)blockIdx.x * 2 * K : room;
    double* const shown = score + K;
    const double* const uniform = rule + K;
    const int lane = threadIdx.x % 32;
    for (i64 i = blockIdx.x; i < n_chosen; i += gridDim.x) {
        const i64 task = chosen ? (i64)chosen[i] : i;
        const u32 begin = ptr[task], end = ptr[task + 1];
        if (end - begin < 2) continue;  // all threads of the block do
        const int label = labels[task];
        const double size = block_scores(tile, begin, end, label, row, row_label, lines, without, rule, row_weight, score, shown);
        const double cold = coldness(size, shared_error, trust);
        __syncthreads();
        for (i64 vote = (i64)begin + threadIdx.x / 32; vote < end; vote += WARPS) {
            const u32 at = row[vote];
            const int given = row_label[at];
            const double top = top_of(at, label, lines, without);
            double best = -infinity(), total = 0.0;
            for (int c = lane; c < K; c += 32) {
                const double other = score[c] - said_of(c, at, given, label, top, lines, without);
                if (uniform[c] > 0.0 && other > best) best = other;
            }
            best = warp_max(best);
            for (int c = lane; c < K; c += 32) {
                const double other = score[c] - said_of(c, at, given, label, top, lines, without);
                if (uniform[c] > 0.0) total += exp((other - best) * cold);
            }
            total = warp_sum(total);
            if (lane == 0) {
                const double p = uniform[given] > 0.0 ? exp((score[given] - top - best) * cold) / total : 0.0;
                atomicAdd(sums + at, (u64)1);
                add_units(sums + rows, at, p / unit);
            }
            const i64 worker = row_worker[at], last = worker_ptr[worker + 1];
            for (i64 mine = worker_ptr[worker] + lane; mine < last; mine += 32) {
                const int c = row_label[mine];
                const double other = score[c] - said_of(c, at, given, label, top, lines, without);
                const double p = uniform[c] > 0.0 ? exp((other - best) * cold) / total : 0.0;
                add_units(sums + 2 * rows, mine, p / unit);
                add_units(sums + 3 * rows, mine, p * p / unit);
            }
        }
        __syncthreads();
    }
}

// ---- Pairs of votes ----------------------------------------------------------------------------------------------------------

// The sum of products of the values of two votes, over tasks of fewer than LONG_TASK votes; one number for each block.
// `values` is [2, rows]: for votes that differ from their task's label, and for votes that equal it.
extern "C" __global__ void __launch_bounds__(BLOCK) pair_products(
    const u32* ptr, const u32* row, const int* row_label, const Label* labels, const double* values, i64 rows, i64 tasks,
    double* out) {
    double products = 0.0;
    for (i64 task = blockIdx.x * (i64)BLOCK + threadIdx.x; task < tasks; task += (i64)gridDim.x * BLOCK) {
        const u32 begin = ptr[task], end = ptr[task + 1];
        if (end - begin >= LONG_TASK) continue;
        const int label = labels[task];
        double sum = 0.0, squares = 0.0;
        for (u32 vote = begin; vote < end; ++vote) {
            const u32 at = row[vote];
            const double x = values[(row_label[at] == label ? rows : 0) + at];
            sum += x;
            squares += x * x;
        }
        products += sum * sum - squares;
    }
    products = block_sum(products);
    if (threadIdx.x == 0) out[blockIdx.x] = products;
}

// The same over long tasks, which `chosen` names.
extern "C" __global__ void __launch_bounds__(BLOCK) pair_products_long(
    const u32* chosen, i64 n_chosen, const u32* ptr, const u32* row, const int* row_label, const Label* labels,
    const double* values, i64 rows, double* out) {
    double products = 0.0;
    for (i64 i = blockIdx.x; i < n_chosen; i += gridDim.x) {
        const i64 task = chosen[i];
        const i64 end = ptr[task + 1];
        const int label = labels[task];
        double sum = 0.0, squares = 0.0;
        for (i64 vote = (i64)ptr[task] + threadIdx.x; vote < end; vote += BLOCK) {
            const u32 at = row[vote];
            const double x = values[(row_label[at] == label ? rows : 0) + at];
            sum += x;
            squares += x * x;
        }
        sum = block_sum(sum);
        products += sum * sum - block_sum(squares);
    }
    if (threadIdx.x == 0) out[blockIdx.x] = products;
}

// Pairs that give the same label, and all pairs, of tasks of fewer than LONG_TASK votes; [2, blocks].
extern "C" __global__ void __launch_bounds__(BLOCK) pair_counts(
    const u32* ptr, const u32* row, const int* row_label, const double* row_weight, i64 tasks, double* out) {
    double alike = 0.0, pairs = 0.0;
    for (i64 task = blockIdx.x * (i64)BLOCK + threadIdx.x; task < tasks; task += (i64)gridDim.x * BLOCK) {
        const u32 begin = ptr[task], end = ptr[task + 1];
        if (end - begin >= LONG_TASK) continue;
        double size = 0.0, squares = 0.0;
#if K <= 32
        double shown[K];
#pragma unroll
        for (int c = 0; c < K; ++c) shown[c] = 0.0;
#endif
        for (u32 vote = begin; vote < end; ++vote) {
            const u32 at = row[vote];
            const double weight = row_weight ? row_weight[at] : 1.0;
            const int given = row_label[at];
            size += weight;
            squares += weight * weight;
#if K <= 32
#pragma unroll
            for (int c = 0; c < K; ++c) shown[c] += c == given ? weight : 0.0;
#else
            double same = 0.0;  // labels are many and votes are few: every vote looks at those before it
            for (u32 earlier = begin; earlier < vote; ++earlier) {
                const u32 other = row[earlier];
                if (row_label[other] == given) same += row_weight ? row_weight[other] : 1.0;
            }
            alike += 2.0 * weight * same;
#endif
        }
#if K <= 32
        double together = 0.0;
#pragma unroll
        for (int c = 0; c < K; ++c) together += shown[c] * shown[c];
        alike += together - squares;
#endif
        pairs += size * size - squares;
    }
    alike = block_sum(alike);
    pairs = block_sum(pairs);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = alike;
        out[gridDim.x + blockIdx.x] = pairs;
    }
}

// The same over long tasks; a thread counts the votes of the labels that are its own, so that weights add in one order.
extern "C" __global__ void __launch_bounds__(BLOCK) pair_counts_long(
    const u32* chosen, i64 n_chosen, double* scratch, const u32* ptr, const u32* row, const int* row_label,
    const double* row_weight, double* out) {
    __shared__ int given[BLOCK];
    __shared__ double weight[BLOCK];
    DYNAMIC_SHARED(double, room);
    double* const shown = scratch ? scratch + (i64)blockIdx.x * 2 * K : room;
    double alike = 0.0, pairs = 0.0;
    for (i64 i = blockIdx.x; i < n_chosen; i += gridDim.x) {
        const u32 begin = ptr[chosen[i]], end = ptr[chosen[i] + 1];
        double size = 0.0, squares = 0.0, together = 0.0;
        for (int c = threadIdx.x; c < K; c += BLOCK) shown[c] = 0.0;
        for (i64 base = begin; base < end; base += BLOCK) {
            const int votes = end - base < BLOCK ? (int)(end - base) : BLOCK, mine = threadIdx.x;
            __syncthreads();
            if (mine < votes) {
                const u32 at = row[base + mine];
                given[mine] = row_label[at];
                weight[mine] = row_weight ? row_weight[at] : 1.0;
                size += weight[mine];
                squares += weight[mine] * weight[mine];
            }
            __syncthreads();
            for (int c = mine; c < K; c += BLOCK) {
                double seen = shown[c];
                for (int vote = 0; vote < votes; ++vote)
                    if (given[vote] == c) seen += weight[vote];
                shown[c] = seen;
            }
        }
        for (int c = threadIdx.x; c < K; c += BLOCK) together += shown[c] * shown[c];
        size = block_sum(size);
        squares = block_sum(squares);
        alike += block_sum(together) - squares;
        pairs += size * size - squares;
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = alike;
        out[gridDim.x + blockIdx.x] = pairs;
    }
}

// ---- Lines -------------------------------------------------------------------------------------------------------------------

// The votes of a worker by true label, [workers, K], from those of its rows: whole numbers, or others.
extern "C" __global__ void __launch_bounds__(BLOCK) worker_totals(
    const i64* whole, const double* parts, const i64* worker_ptr, i64 workers, double* out) {
    const i64 at = blockIdx.x * (i64)BLOCK + threadIdx.x, worker = at / K;
    if (worker >= workers) return;
    const i64 last = worker_ptr[worker + 1];
    double sum = 0.0;
    for (i64 row = worker_ptr[worker]; row < last; ++row) {
        const i64 cell = row * K + at % K;
        sum += whole ? (double)whole[cell] : parts[cell];
    }
    out[at] = sum;
}

// Log-probabilities of a row's votes by true label, with and without one of them, [rows, K] each; `lent` is [K given, K true]:
// the mean worker's votes lent to every worker, `lent_all` in total.
extern "C" __global__ void __launch_bounds__(BLOCK) vote_lines(
    const i64* whole, const double* parts, const i64* row_worker, const int* row_label, const double* totals, const double* lent,
    double lent_all, i64 rows, double* lines, double* without) {
    const i64 at = blockIdx.x * (i64)BLOCK + threadIdx.x, row = at / K, c = at % K;
    if (row >= rows) return;
    const double votes = whole ? (double)whole[at] : parts[at], mean = lent[(i64)row_label[row] * K + c];
    const double met = totals[row_worker[row] * K + c];
    if (!(mean > 0.0)) {  // a label that does not exist
        lines[at] = -infinity();
        without[at] = 0.0;
        return;
    }
    lines[at] = log(votes + mean) - log(met + lent_all);
    const double fewer = votes - 1.0 > 0.0 ? votes - 1.0 : 0.0, met_fewer = met - 1.0 > 0.0 ? met - 1.0 : 0.0;
    without[at] = votes == 0.0 ? 0.0 : log(fewer + mean) - log(met_fewer + lent_all);
}
