// What all kernels share. Parameters of kernels are pointers, long long and double; constants are macros.
//
// The same sources run on the processor in tests, so they keep to plain C++ and to what tests/gpu/emulator.hpp defines: threads
// and blocks in one dimension, barriers, shuffles and votes over all 32 lanes, atomic operations and the bit functions.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#ifdef LABEL_BYTES  // of a label of a task
#if LABEL_BYTES == 1
typedef u8 LABEL;
#else
typedef u32 LABEL;
#endif
#endif

// The bytes of shared memory that a launch asks for: DYNAMIC_SHARED(double, scores); is a pointer to the first.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name)                                  \
    extern __shared__ __align__(16) unsigned char adjudge_shared[]; \
    type* name = (type*)adjudge_shared
#endif

__device__ __forceinline__ double infinity() {
#ifdef ADJUDGE_EMULATED
    return __builtin_inf();
#else
    return __longlong_as_double(0x7ff0000000000000LL);
#endif
}

#define FULL 0xffffffffu  // all lanes of a warp

// Over a warp, for all its lanes: each step adds the same two numbers in both lanes, so that all get the same bits.
__device__ __forceinline__ double warp_sum(double x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(FULL, x, step);
    return x;
}

__device__ __forceinline__ double warp_max(double x) {
    for (int step = 16; step; step /= 2) {
        const double other = __shfl_xor_sync(FULL, x, step);
        if (other > x) x = other;
    }
    return x;
}

// The sum over a block, in an order that is always the same, for all its threads.
__device__ inline double block_sum(double x) {
    __shared__ double part[32];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0.0;
    for (int i = 0; i < (int)(blockDim.x / 32); ++i) x += part[i];
    __syncthreads();
    return x;
}

// The bits of x well stirred (the finaliser of splitmix64), as `reference.mix`.
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

// The hash of a whole number's decimal text (FNV-1a, finished by mix).
__device__ inline u64 hash_integer(i64 value) {
    u8 text[20];
    int begin = 20;
    u64 left = value < 0 ? 0 - (u64)value : (u64)value;
    do {
        text[--begin] = (u8)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0) text[--begin] = '-';
    u64 hash = 0xCBF29CE484222325ULL;
    for (; begin < 20; ++begin) hash = (hash ^ text[begin]) * 0x100000001B3ULL;
    return mix(hash);
}

// The hash of (seed, task): ready, or made of the id.
__device__ inline u64 tie_key(const u64* keys, const i64* numbers, u64 salt, i64 task) {
    return keys ? keys[task] : mix(hash_integer(numbers[task]) ^ salt);
}
