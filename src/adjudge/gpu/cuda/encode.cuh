// From columns of ids to votes in the order of their tasks. A vote becomes one key of 64 bits, its task and its row; keys are
// sorted elsewhere. Macros:
// ID, the type of a column, for kernels over one; TASK, WORKER and LABEL, for those over all three; none, for those over keys.
// Types are bytes, below 0 for signed numbers.
#include "common.cuh"

template <int BYTES> struct Number;
template <> struct Number<-8> { typedef i64 type; };
template <> struct Number<-4> { typedef int type; };
template <> struct Number<-2> { typedef short type; };
template <> struct Number<-1> { typedef signed char type; };
template <> struct Number<4> { typedef u32 type; };
template <> struct Number<2> { typedef u16 type; };
template <> struct Number<1> { typedef u8 type; };

#define NONE 0xFFFFFFFFu

__device__ __forceinline__ i64 thread_number() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }

// The slot of an id in a table that begins with the lowest one; the difference of two numbers of 64 bits fits in as many.
__device__ __forceinline__ u64 slot_of(i64 id, i64 low) { return (u64)id - (u64)low; }

#if defined(ID)

typedef Number<ID>::type id_type;

// IN ids [n]; OUT first [slots], all NONE before: where each id comes first.
extern "C" __global__ void find_first(const id_type* ids, i64 n, i64 low, u32* first) {
    i64 i = thread_number();
    if (i >= n) return;
    u32* at = first + slot_of(ids[i], low);
    if (*at > (u32)i) atomicMin(at, (u32)i);  // a stale value is too high, and costs a look more
}

// IN ids [n]; OUT seen [slots], all 0 before: whether each id occurs.
extern "C" __global__ void find_seen(const id_type* ids, i64 n, i64 low, u8* seen) {
    i64 i = thread_number();
    if (i >= n) return;
    u8* at = seen + slot_of(ids[i], low);
    if (!*at) *at = 1;
}

// IN ids [n], codes [slots]; OUT out [n]: the code of each.
extern "C" __global__ void take_codes(const id_type* ids, i64 n, i64 low, const u32* codes, u32* out) {
    i64 i = thread_number();
    if (i < n) out[i] = codes[slot_of(ids[i], low)];
}

// IN ids [n]; OUT keys [mask + 1], all `empty` before: the ids, each at the slot of its hash or behind; slots [n]: where.
// OUT full [1], 0 before: whether an id found no slot within `most` steps; the others are then left as they are.
extern "C" __global__ void find_slots(const id_type* ids, i64 n, i64 empty, i64* keys, i64 mask, i64 most, u32* slots,
                                      u32* full) {
    i64 i = thread_number();
    if (i >= n || *(volatile u32*)full) return;
    i64 id = ids[i];
    u64 slot = mix((u64)id) & (u64)mask;
    for (i64 steps = 0;; ++steps) {
        if (steps == most) {
            *full = 1;
            return;
        }
        i64 there = keys[slot];
        if (there == empty) there = (i64)atomicCAS((u64*)(keys + slot), (u64)empty, (u64)id);
        if (there == empty || there == id) break;
        slot = (slot + 1) & (u64)mask;
    }
    slots[i] = (u32)slot;
}

// IN first [slots]; OUT bits [n / 32], all 0 before: the slots where an id comes first.
extern "C" __global__ void mark_first(const u32* first, i64 slots, u32* bits) {
    i64 i = thread_number();
    if (i < slots && first[i] != NONE) atomicOr(bits + first[i] / 32, 1u << (first[i] % 32));
}

// IN bits [words]; OUT counts [words].
extern "C" __global__ void count_bits(const u32* bits, i64 words, u32* counts) {
    i64 i = thread_number();
    if (i < words) counts[i] = (u32)__popc(bits[i]);
}

// IN bits, and through [words]: the running sum of bits per word; ids [slots], or null if an id is low + its slot.
// IN first, OUT the code of each id in the order in which they come first; OUT numbers [codes]: the id of each code.
extern "C" __global__ void number_ids(u32* first, i64 slots, i64 low, const i64* ids, const u32* bits, const u32* through,
                                      i64* numbers) {
    i64 i = thread_number();
    if (i >= slots || first[i] == NONE) return;
    u32 word = first[i] / 32, rest = bits[word] >> (first[i] % 32);
    u32 code = through[word] - (u32)__popc(rest);
    first[i] = code;
    numbers[code] = ids ? ids[i] : (i64)((u64)low + (u64)i);
}

#elif defined(TASK)

typedef Number<TASK>::type task_type;
typedef Number<WORKER>::type worker_type;
typedef Number<LABEL>::type label_type;

// IN workers, labels [n]; OUT seen [workers' slots, labels' slots], all 0 before: which pairs occur.
extern "C" __global__ void find_pairs(const worker_type* workers, const label_type* labels, i64 n, i64 low_worker, i64 low_label,
                                      i64 label_slots, u8* seen) {
    i64 i = thread_number();
    if (i >= n) return;
    u8* at = seen + slot_of(workers[i], low_worker) * (u64)label_slots + slot_of(labels[i], low_label);
    if (!*at) *at = 1;
}

// IN the columns [n], codes [tasks' slots], rows [workers' slots, labels' slots]; OUT keys [n]: task and row of each vote.
extern "C" __global__ void join_keys(const task_type* tasks, const worker_type* workers, const label_type* labels, i64 n,
                                     i64 low_task, i64 low_worker, i64 low_label, i64 label_slots, const u32* codes,
                                     const u32* rows, u64* keys) {
    i64 i = thread_number();
    if (i >= n) return;
    u64 pair = slot_of(workers[i], low_worker) * (u64)label_slots + slot_of(labels[i], low_label);
    keys[i] = (u64)codes[slot_of(tasks[i], low_task)] << 32 | rows[pair];
}

#else

// IN keys [n], ascending: task and row; row_worker [rows]. OUT row [n]; ptr [tasks]: where each task begins;
// repeated [1], added to: votes whose worker has one before on the same task.
extern "C" __global__ void split_keys(const u64* keys, i64 n, const u32* row_worker, u32* row, u32* ptr, u64* repeated) {
    i64 i = thread_number();
    bool again = false;
    if (i < n) {
        u64 key = keys[i], before = i ? keys[i - 1] : ~key;
        row[i] = (u32)key;
        if (key >> 32 != before >> 32) ptr[key >> 32] = (u32)i;
        else again = row_worker[(u32)key] == row_worker[(u32)before];
    }
    u32 same = __ballot_sync(0xFFFFFFFFu, again);
    if (same && threadIdx.x % 32 == 0) atomicAdd(repeated, (u64)__popc(same));
}

#endif
