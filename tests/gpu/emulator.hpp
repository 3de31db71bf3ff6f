// Lets g++ compile the sources of the kernels, and runs them on the processor: see emulated.py.
//
// The threads of a block are fibers of one thread of the processor, and blocks run one after the other. A fiber gives way only
// where CUDA lets threads wait for each other, so a kernel without such places runs from thread to thread without a switch.
// What a device leaves undefined is made visible: shared memory starts as 0xAA, a shuffle from a lane that takes no part gives
// 0xAA, threads run forwards in one block and backwards in the next, and threads that wait for ever are an error.
#pragma once
#define ADJUDGE_EMULATED 1

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tuple>
#include <type_traits>
#include <ucontext.h>
#include <utility>

// Keywords of CUDA. Shared variables of a kernel get their own section, so that they can be filled before each block.
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("adjudge_shared_variables")))

struct Index {
    unsigned x, y, z;
};
static Index threadIdx = {0, 0, 0}, blockIdx = {0, 0, 0}, blockDim = {1, 1, 1}, gridDim = {1, 1, 1};
static const int warpSize = 32;

namespace emulator {

typedef unsigned long long u64;
const int MAX_THREADS = 1024, LANES = 32, GUARD = 64;
const size_t STACK = 256 << 10, PAGE = 4096;
const unsigned char POISON = 0xAA;
enum State { NEW, RUNS, AT_BARRIER, AT_WARP, DONE };
enum Kind { SHUFFLE, BALLOT, WARP_BARRIER, MATCH };

struct Thread {
    State state;
    int fiber;
    int line, kind, predicate;     // of the barrier it waits at
    int warp_kind, source;         // of the warp operation it waits at; the lane that a shuffle reads
    unsigned mask;
    u64 value, result;
};

struct Fiber {
    bool begun;
    jmp_buf at;
    ucontext_t entry;
};

static Thread threads[MAX_THREADS];
static Fiber fibers[MAX_THREADS];
static char* stacks = nullptr;
static jmp_buf outside;             // where the launch waits
static char message[512];
static int count, started, live, current, fiber;  // of the block; the thread and the fiber that run
static bool backwards;
static int ready[MAX_THREADS + 1], ready_begin, ready_end;  // runnable threads, a ring
static int idle[MAX_THREADS], n_idle;                       // fibers without a thread
static int at_barrier, barrier_result;
static unsigned live_lanes[MAX_THREADS / LANES], waiting_lanes[MAX_THREADS / LANES];
static void (*body)(void*);
static void* arguments;
static unsigned char* dynamic_shared = nullptr;

extern "C" unsigned char __start_adjudge_shared_variables[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_adjudge_shared_variables[] __attribute__((weak, visibility("hidden")));

[[noreturn]] __attribute__((format(printf, 1, 2))) static void fail(const char* format, ...) {
    va_list parts;
    va_start(parts, format);
    vsnprintf(message, sizeof message, format, parts);
    va_end(parts);
    _longjmp(outside, 2);
}

static void run_threads(int self);

[[noreturn]] static void jump(int to) {
    Fiber& one = fibers[to];
    fiber = to;
    if (one.begun) _longjmp(one.at, 1);
    one.begun = true;
    getcontext(&one.entry);
    one.entry.uc_stack.ss_sp = stacks + to * STACK + PAGE;
    one.entry.uc_stack.ss_size = STACK - PAGE;
    one.entry.uc_link = nullptr;
    makecontext(&one.entry, (void (*)())run_threads, 1, to);
    setcontext(&one.entry);
    abort();
}

static void set_thread(int thread) {
    current = thread;
    threadIdx.x = (unsigned)thread;
}

// Go on with a thread that may, or with a new one, or, if there is none, outside.
[[noreturn]] static void go_on() {
    if (ready_begin != ready_end) {
        const int next = ready[ready_begin];
        ready_begin = (ready_begin + 1) % (MAX_THREADS + 1);
        set_thread(next);
        threads[next].state = RUNS;
        jump(threads[next].fiber);
    }
    if (started < count) jump(idle[--n_idle]);
    _longjmp(outside, 1);
}

static void may_go_on(int thread) {
    threads[thread].state = RUNS;
    ready[ready_end] = thread;
    ready_end = (ready_end + 1) % (MAX_THREADS + 1);
}

// The same, before all others: a warp runs as far ahead of the others as it can, so that a missing barrier shows.
static void goes_on_next(int thread) {
    threads[thread].state = RUNS;
    ready_begin = (ready_begin + MAX_THREADS) % (MAX_THREADS + 1);
    ready[ready_begin] = thread;
}

// Wait until another thread has called `may_go_on` for this one.
static __attribute__((noinline)) void wait() {
    if (!_setjmp(fibers[fiber].at)) go_on();
    asm volatile("" ::: "memory");
}

// Release all threads if all remaining ones have arrived at the barrier; return whether they have.
static bool open_barrier(int self) {
    if (!at_barrier || at_barrier < live) return false;
    int first = -1, sum = 0;
    for (int i = 0; i < count; ++i) {
        if (threads[i].state != AT_BARRIER) continue;
        if (first < 0) first = i;
        if (threads[i].line != threads[first].line || threads[i].kind != threads[first].kind)
            fail("threads %d and %d of block %u meet at different barriers, at lines %d and %d", first, i, blockIdx.x,
                 threads[first].line, threads[i].line);
        sum += threads[i].predicate;
    }
    barrier_result = sum;
    at_barrier = 0;
    for (int i = 0; i < count; ++i) {
        const int thread = backwards ? count - 1 - i : i;
        if (threads[thread].state == AT_BARRIER && thread != self) may_go_on(thread);
    }
    return true;
}

static int barrier(int line, int kind, int predicate) {
    Thread& me = threads[current];
    const int self = current;
    me.state = AT_BARRIER;
    me.line = line;
    me.kind = kind;
    me.predicate = predicate != 0;
    ++at_barrier;
    if (open_barrier(self))
        me.state = RUNS;
    else
        wait();
    return barrier_result;
}

// Finish the warp operation of a lane if all lanes of its mask that are left have arrived; return whether they have.
static bool finish_warp(int warp, int lane, int self) {
    const Thread* const lanes = threads + warp * LANES;
    const unsigned group = lanes[lane].mask & live_lanes[warp];
    if ((waiting_lanes[warp] & group) != group) return false;
    for (int i = 0; i < LANES; ++i)
        if (group >> i & 1 && (lanes[i].mask != lanes[lane].mask || lanes[i].warp_kind != lanes[lane].warp_kind)) return false;
    unsigned votes = 0;
    for (int i = 0; i < LANES; ++i)
        if (group >> i & 1 && lanes[i].value) votes |= 1u << i;
    waiting_lanes[warp] &= ~group;
    for (int i = 0; i < LANES; ++i) {
        const int at = backwards ? i : LANES - 1 - i;  // the one that continues first comes last
        if (!(group >> at & 1)) continue;
        Thread& one = threads[warp * LANES + at];
        if (one.warp_kind == SHUFFLE) {
            one.result = group >> one.source & 1 ? lanes[one.source].value : 0xAAAAAAAAAAAAAAAAULL;
        } else if (one.warp_kind == BALLOT) {
            one.result = votes;
        } else if (one.warp_kind == MATCH) {
            one.result = 0;
            for (int j = 0; j < LANES; ++j)
                if (group >> j & 1 && lanes[j].value == one.value) one.result |= 1u << j;
        }
        if (warp * LANES + at != self) goes_on_next(warp * LANES + at);
    }
    return true;
}

static u64 warp_operation(Kind kind, unsigned mask, u64 value, int source) {
    const int self = current, warp = self / LANES, lane = self % LANES;
    Thread& me = threads[self];
    if (!(mask >> lane & 1)) fail("thread %d of block %u calls a warp operation whose mask leaves it out", self, blockIdx.x);
    me.state = AT_WARP;
    me.warp_kind = kind;
    me.mask = mask;
    me.value = value;
    me.source = source;
    waiting_lanes[warp] |= 1u << lane;
    if (finish_warp(warp, lane, self))
        me.state = RUNS;
    else
        wait();
    return me.result;
}

// The end of a thread may be what others wait for.
static void end_thread() {
    const int warp = current / LANES;
    threads[current].state = DONE;
    --live;
    live_lanes[warp] &= ~(1u << current % LANES);
    for (int lane = 0; lane < LANES; ++lane)
        if (waiting_lanes[warp] >> lane & 1) finish_warp(warp, lane, -1);
    open_barrier(-1);
}

// What a fiber does: threads that have not begun, one after the other.
static void run_threads(int self) {
    for (;;) {
        while (started < count) {
            const int thread = backwards ? count - 1 - started : started;
            ++started;
            set_thread(thread);
            threads[thread].state = RUNS;
            threads[thread].fiber = self;
            body(arguments);
            asm volatile("" ::: "memory");
            end_thread();
        }
        idle[n_idle++] = self;
        wait();
    }
}

static void forget_fibers() {
    for (int i = 0; i < MAX_THREADS; ++i) {
        fibers[i].begun = false;
        idle[i] = MAX_THREADS - 1 - i;
    }
    n_idle = MAX_THREADS;
}

static void explain_wait() {
    int barriers = 0, warps = 0, line = 0, some = -1;
    for (int i = 0; i < count; ++i) {
        if (threads[i].state == AT_BARRIER) {
            ++barriers;
            line = threads[i].line;
        }
        if (threads[i].state == AT_WARP) {
            ++warps;
            some = i;
        }
    }
    int used = snprintf(message, sizeof message, "deadlock in block %u: %d of %d threads have ended", blockIdx.x, count - live, count);
    if (barriers) used += snprintf(message + used, sizeof message - used, ", %d wait at the barrier of line %d", barriers, line);
    if (warps)
        snprintf(message + used, sizeof message - used, ", %d wait in a warp operation (thread %d: mask 0x%08x)", warps, some,
                 threads[some].mask);
}

static bool run_block(int shared) {
    unsigned char* const begin = __start_adjudge_shared_variables;
    if (begin) memset(begin, POISON, __stop_adjudge_shared_variables - begin);
    memset(dynamic_shared, POISON, shared + GUARD);
    started = at_barrier = ready_begin = ready_end = 0;
    live = count;
    memset(live_lanes, 0, sizeof live_lanes);
    memset(waiting_lanes, 0, sizeof waiting_lanes);
    for (int i = 0; i < count; ++i) {
        threads[i].state = NEW;
        live_lanes[i / LANES] |= 1u << i % LANES;
    }
    const int how = _setjmp(outside);
    if (!how) go_on();
    if (how == 2) return false;
    if (live) {
        explain_wait();
        return false;
    }
    for (int i = 0; i < GUARD; ++i)
        if (dynamic_shared[shared + i] != POISON) {
            snprintf(message, sizeof message, "block %u wrote beyond its %d bytes of dynamic shared memory", blockIdx.x, shared);
            return false;
        }
    return true;
}

static const char* run_grid(unsigned blocks, int block_threads, int shared, bool reverse, void (*kernel)(void*), void* values) {
    if (!stacks) {
        stacks = (char*)mmap(nullptr, STACK * MAX_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stacks == (char*)MAP_FAILED) {
            stacks = nullptr;
            return "no memory for the stacks of threads";
        }
        // A guard value detects stack overflows. Guard pages would need two maps per stack, of which a process
        // has 65,530.
        for (int i = 0; i < MAX_THREADS; ++i) memset(stacks + i * STACK, 0x5A, PAGE);
        forget_fibers();
    }
    dynamic_shared = (unsigned char*)aligned_alloc(128, (shared + GUARD + 127) / 128 * 128);
    body = kernel;
    arguments = values;
    count = block_threads;
    blockDim.x = (unsigned)block_threads;
    gridDim.x = blocks;
    bool good = true;
    for (blockIdx.x = 0; good && blockIdx.x < blocks; ++blockIdx.x) {
        backwards = (blockIdx.x & 1) != (unsigned)reverse;
        good = run_block(shared);
    }
    free(dynamic_shared);
    for (int i = 0; good && i < block_threads; ++i)
        for (int at = 0; at < PAGE; at += 64)
            if (stacks[i * STACK + at] != 0x5A) return "a thread needs more stack than there is";
    if (good) return nullptr;
    forget_fibers();  // the waiting threads are given up
    return message;
}

// What a parameter of a kernel is: 'p' a pointer, 'i' long long, 'd' double, '?' something else; what it points to.
struct Parameter {
    char kind, constant, item;  // item: 'f' floating, 'i' whole number, 'o' another
    int size;
};

template <class A>
Parameter describe() {
    typedef std::remove_cv_t<A> Bare;
    if constexpr (std::is_pointer_v<Bare>) {
        typedef std::remove_pointer_t<Bare> Item;
        int size = 0;
        if constexpr (!std::is_void_v<Item>) size = (int)sizeof(Item);
        const char item = std::is_floating_point_v<Item> ? 'f' : std::is_integral_v<Item> ? 'i' : 'o';
        return {'p', (char)std::is_const_v<Item>, item, size};
    }
    return {std::is_same_v<Bare, long long> ? 'i' : std::is_same_v<Bare, double> ? 'd' : '?', 0, 'o', (int)sizeof(A)};
}

template <class... A>
int describe_all(void (*)(A...), Parameter* out) {
    if (out) {
        const Parameter found[] = {describe<A>()..., {}};
        memcpy(out, found, sizeof(Parameter) * sizeof...(A));
    }
    return (int)sizeof...(A);
}

template <class A>
A value_of(void* at) {
    A value;
    memcpy((void*)&value, at, sizeof(A));
    return value;
}

template <auto kernel, class... A, size_t... I>
const char* launch_with(void (*)(A...), void** values, unsigned blocks, int block_threads, int shared, bool reverse,
                        std::index_sequence<I...>) {
    std::tuple<std::remove_cv_t<A>...> all(value_of<std::remove_cv_t<A>>(values[I])...);
    typedef decltype(all) All;
    return run_grid(blocks, block_threads, shared, reverse, [](void* at) { std::apply(kernel, *(All*)at); }, &all);
}

template <auto kernel, class... A>
const char* launch(void (*same)(A...), void** values, unsigned blocks, int block_threads, int shared, bool reverse) {
    return launch_with<kernel>(same, values, blocks, block_threads, shared, reverse, std::index_sequence_for<A...>());
}

template <class T>
u64 bits_of(T value) {
    static_assert(sizeof(T) <= 8, "a lane passes on 8 bytes at most");
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <class T>
T from_bits(u64 bits) {
    T value;
    memcpy((void*)&value, &bits, sizeof(T));
    return value;
}

// The value of another lane, or the lane's own where that one is not `inside` its group of lanes.
template <class T>
T shuffle(unsigned mask, T value, int source, bool inside) {
    return from_bits<T>(warp_operation(SHUFFLE, mask, bits_of(value), inside ? source : current % LANES));
}

}  // namespace emulator

// Dynamic shared memory, by another name in common.cuh where the compiler is CUDA's.
#define DYNAMIC_SHARED(type, name) type* name = (type*)emulator::dynamic_shared

// Places where threads wait for each other.
#define __syncthreads() ((void)emulator::barrier(__LINE__, 0, 0))
#define __syncthreads_count(predicate) emulator::barrier(__LINE__, 1, (predicate))
#define __syncthreads_or(predicate) (emulator::barrier(__LINE__, 2, (predicate)) != 0)
#define __syncthreads_and(predicate) (!emulator::barrier(__LINE__, 3, !(predicate)))

inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::warp_operation(emulator::WARP_BARRIER, mask, 0, 0); }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    return (unsigned)emulator::warp_operation(emulator::BALLOT, mask, predicate != 0, 0);
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
inline unsigned __activemask() { return emulator::live_lanes[emulator::current / 32]; }
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
    return (unsigned)emulator::warp_operation(emulator::MATCH, mask, emulator::bits_of(value), 0);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    const int lane = emulator::current % 32;
    return emulator::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), true);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
    const int lane = emulator::current % 32, source = lane ^ lanes;
    return emulator::shuffle(mask, value, source, source < 32 && (source & ~(width - 1)) <= (lane & ~(width - 1)));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = emulator::current % 32, source = lane + (int)by;
    return emulator::shuffle(mask, value, source, (source & ~(width - 1)) == (lane & ~(width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = emulator::current % 32, source = lane - (int)by;
    return emulator::shuffle(mask, value, source, source >= (lane & ~(width - 1)));
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// Atomic functions, for the types that CUDA has them for; one fiber runs at a time.
#define ADJUDGE_ATOMIC(name, type, expression) \
    inline type name(type* at, type value) {   \
        const type old = *at;                  \
        *at = (expression);                    \
        return old;                            \
    }
#define ADJUDGE_ATOMIC_WHOLE(type)                                \
    ADJUDGE_ATOMIC(atomicAdd, type, old + value)                  \
    ADJUDGE_ATOMIC(atomicExch, type, value)                       \
    ADJUDGE_ATOMIC(atomicOr, type, old | value)                   \
    ADJUDGE_ATOMIC(atomicAnd, type, old & value)                  \
    ADJUDGE_ATOMIC(atomicXor, type, old ^ value)                  \
    ADJUDGE_ATOMIC(atomicMax, type, old > value ? old : value)    \
    ADJUDGE_ATOMIC(atomicMin, type, old < value ? old : value)    \
    inline type atomicCAS(type* at, type expected, type value) {  \
        const type old = *at;                                     \
        if (old == expected) *at = value;                         \
        return old;                                               \
    }
ADJUDGE_ATOMIC_WHOLE(int)
ADJUDGE_ATOMIC_WHOLE(unsigned)
ADJUDGE_ATOMIC_WHOLE(unsigned long long)
ADJUDGE_ATOMIC(atomicSub, int, old - value)
ADJUDGE_ATOMIC(atomicSub, unsigned, old - value)
ADJUDGE_ATOMIC(atomicMax, long long, old > value ? old : value)
ADJUDGE_ATOMIC(atomicMin, long long, old < value ? old : value)
ADJUDGE_ATOMIC(atomicAdd, float, old + value)
ADJUDGE_ATOMIC(atomicAdd, double, old + value)
ADJUDGE_ATOMIC(atomicExch, float, value)

// Bits, loads, and smaller and larger.
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline double __longlong_as_double(long long x) { return emulator::from_bits<double>(emulator::bits_of(x)); }
inline long long __double_as_longlong(double x) { return (long long)emulator::bits_of(x); }
inline float __uint_as_float(unsigned x) { return emulator::from_bits<float>(x); }
inline float __int_as_float(int x) { return __uint_as_float((unsigned)x); }
inline unsigned __float_as_uint(float x) { return (unsigned)emulator::bits_of(x); }
inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline long long __double2ll_rn(double x) { return (long long)rint(x); }
inline int __double2int_rn(double x) { return (int)rint(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
template <class T>
T __ldg(const T* at) { return *at; }
template <class T>
T __ldcs(const T* at) { return *at; }
template <class T>
T __ldcg(const T* at) { return *at; }
template <class T>
void __stcs(T* at, T value) { *at = value; }
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
    const std::common_type_t<A, B> x = a, y = b;
    return y < x ? y : x;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
    const std::common_type_t<A, B> x = a, y = b;
    return x < y ? y : x;
}

// Short vectors.
#define ADJUDGE_VECTORS(type, name, align2, align4)                                             \
    struct alignas(align2) name##2 { type x, y; };                                              \
    struct alignas(align4) name##4 { type x, y, z, w; };                                        \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                            \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
ADJUDGE_VECTORS(signed char, char, 2, 4)
ADJUDGE_VECTORS(unsigned char, uchar, 2, 4)
ADJUDGE_VECTORS(short, short, 4, 8)
ADJUDGE_VECTORS(unsigned short, ushort, 4, 8)
ADJUDGE_VECTORS(int, int, 8, 16)
ADJUDGE_VECTORS(unsigned, uint, 8, 16)
ADJUDGE_VECTORS(float, float, 8, 16)
ADJUDGE_VECTORS(long long, longlong, 16, 16)
ADJUDGE_VECTORS(unsigned long long, ulonglong, 16, 16)
ADJUDGE_VECTORS(double, double, 16, 16)

// A kernel of the source, by its name: what its parameters are, and how it is started.
#define ADJUDGE_EXPORT extern "C" __attribute__((visibility("default")))
#define ADJUDGE_KERNEL(name)                                                                                              \
    ADJUDGE_EXPORT int parameters_of_##name(emulator::Parameter* out) { return emulator::describe_all(name, out); }           \
    ADJUDGE_EXPORT const char* run_##name(void** values, unsigned blocks, int threads, int shared, int reverse) {             \
        return emulator::launch<name>(name, values, blocks, threads, shared, reverse != 0);                               \
    }
