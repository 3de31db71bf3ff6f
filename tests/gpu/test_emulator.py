"""The emulator runs what the kernels are made of as a device does, and says where a device would do something undefined."""

import pickle
import re

import numpy as np
import pytest

from gpu.emulated import EmulatedDevice, EmulationError

SOURCE = r"""
typedef long long i64;
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void doubled(const double* __restrict__ x, i64 n, double* out) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < n; i += (i64)gridDim.x * blockDim.x) out[i] = TIMES * x[i];
}

extern "C" __global__ void __launch_bounds__(256) block_sums(const double* x, i64 n, double* out) {
    __shared__ double part[256];
    const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void reversed(u32* x) {
    DYNAMIC_SHARED(u32, room);
    room[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void warps(const i64* x, i64* down, i64* up, i64* from, double* sum, u32* ballot, u32* any) {
    const int i = threadIdx.x;
    down[i] = __shfl_down_sync(0xffffffffu, x[i], 3);
    up[i] = __shfl_up_sync(0xffffffffu, x[i], 3, 8);
    from[i] = __shfl_sync(0xffffffffu, x[i], 5, 16);
    double total = (double)x[i];
    for (int step = 16; step; step /= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
    sum[i] = total;
    ballot[i] = __ballot_sync(0xffffffffu, x[i] & 1);
    any[i] = __any_sync(0xffffffffu, x[i] == 0) + 2 * __all_sync(0xffffffffu, x[i] >= 32);
}

extern "C" __global__ void halves(u32* out) {  // lanes of one half go another way than those of the other
    const u32 lane = threadIdx.x % 32, mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    u32 total = lane;
    if (lane < 16) {
        for (int step = 8; step; step /= 2) total += __shfl_xor_sync(mask, total, step);
    } else {
        __syncwarp(mask);
        total = __ballot_sync(mask, lane % 2);
    }
    out[threadIdx.x] = total;
}

extern "C" __global__ void early(u32* out) {  // threads that have ended hold nobody up
    if (threadIdx.x % 2) return;
    __syncthreads();
    out[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1)) + 100 * __syncthreads_count(threadIdx.x < 10);
}

extern "C" __global__ void atomics(u32* most, u64* votes, double* sum, float* few, int* least, u32* bits) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMax(most, (u32)i);
    atomicAdd(votes, (u64)-1);
    atomicAdd(sum, 0.5);
    atomicAdd(few, 0.25f);
    atomicMin(least, -i);
    atomicOr(bits, 1u << i % 32);
    u32 seen = most[1], wanted;
    do {
        wanted = seen;
        seen = atomicCAS(most + 1, wanted, wanted + 2);
    } while (seen != wanted);
    if (atomicExch(most + 2, 7u) == 7u) atomicAdd(most + 3, 1u);
}

extern "C" __global__ void bits(const u64* x, u32* out) {
    out[0] = __popcll(x[0]);
    out[1] = __clz((int)x[0]);
    out[2] = __ffs((int)x[0]);
    out[3] = (u32)(__longlong_as_double(__double_as_longlong(2.0)) + __uint_as_float(0x40400000u));
    out[4] = min(3u, max(1, 2));
    const uint4 four = make_uint4(1, 2, 3, 4);
    out[5] = four.w + make_double2(1.0, 2.0).y + make_ushort4(1, 2, 3, 4).x;
    out[6] = (u32)rint(2.5);
}

extern "C" __global__ void unset(u32* out) {
    __shared__ u32 room[4];
    DYNAMIC_SHARED(u32, dynamic);
    out[0] = room[3];
    out[1] = dynamic[3];
    out[2] = __shfl_sync(0xffffffffu, 1u, 31);  // of a lane that is not there
    room[3] = dynamic[3] = 0;
}

extern "C" __global__ void neighbours(const u32* x, u32* out) {  // a barrier is missing
    __shared__ u32 room[64];
    room[threadIdx.x] = x[threadIdx.x];
    out[blockIdx.x * 64 + threadIdx.x] = room[(threadIdx.x + 63) % 64];
}

extern "C" __global__ void warp_neighbours(const u32* x, u32* out) {  // one warp reads what the other writes: the same
    __shared__ u32 room[64];
    __syncthreads();
    room[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    out[blockIdx.x * 64 + threadIdx.x] = room[(threadIdx.x + 32) % 64];
}

extern "C" __global__ void stuck(u32* out) {
    if (threadIdx.x < 3) __syncthreads();
    __syncwarp();
    out[0] = 1;
}

extern "C" __global__ void apart(u32* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[0] = 1;
}

extern "C" __global__ void left_out(u32* out) { out[0] = __ballot_sync(1u, 1); }
extern "C" __global__ void store(double* out, i64 at) { out[at] = 1.0; }
extern "C" __global__ void store_shared(u32* out, i64 at) {
    DYNAMIC_SHARED(u32, room);
    room[at] = 1;
    out[0] = room[0];
}
extern "C" __global__ void kinds(const double* x, u32* y, i64 whole, double number, void* any) { y[0] = whole + (u32)number; }
extern "C" __global__ void both(const u32* x, u32* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }
extern "C" __global__ void narrow(int whole) {}
#if TIMES > 2
extern "C" __global__ void elsewhere(u32* out) { out[0] = TIMES; }
#endif
"""


@pytest.fixture(scope="session")
def program(emulated):
    return emulated.compiled(SOURCE, name="parts", TIMES=2)


def test_a_grid_goes_over_all_elements(program):
    x = np.random.default_rng(0).random(1000)
    for blocks, threads in ((1, 1), (3, 7), (40, 256), (2, 1024)):
        out = np.zeros(1000)
        program.launch("doubled", blocks, threads, x, len(x), out)
        assert np.array_equal(out, 2 * x)


def test_a_macro_makes_another_program(emulated, program):
    out = np.zeros(4)
    emulated.compiled(SOURCE, name="parts", TIMES=3).launch("doubled", 1, 32, np.ones(4), 4, out)
    assert out.tolist() == [3.0] * 4
    emulated.compiled(SOURCE, name="parts", TIMES=3).launch("elsewhere", 1, 1, np.zeros(1, np.uint32))
    with pytest.raises(EmulationError, match="kernel elsewhere of parts does not exist"):
        program.launch("elsewhere", 1, 1, np.zeros(1, np.uint32))


@pytest.mark.parametrize("again", range(2))  # threads run forwards in one launch and backwards in the next
def test_barriers_let_a_block_add_up(program, again):
    x = np.arange(1000.0)
    out = np.zeros(8)
    program.launch("block_sums", 8, 128, x, len(x), out)
    assert out.tolist() == [x[at : at + 128].sum() for at in range(0, 1024, 128)]


@pytest.mark.parametrize("threads", [1, 31, 256, 1024])
def test_dynamic_shared_memory(program, threads):
    x = np.arange(threads, dtype=np.uint32)
    program.launch("reversed", 1, threads, x, shared=4 * threads)
    assert x.tolist() == list(range(threads))[::-1]


def test_warps_shuffle_and_vote(program):
    x = np.random.default_rng(1).integers(-(2**40), 2**40, 64)
    x[:32] = np.arange(32)
    x[32:] = np.abs(x[32:]) + 32
    down, up, source, sums = np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64, np.int64), np.zeros(64)
    ballot, some = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    program.launch("warps", 1, 64, x, down, up, source, sums, ballot, some)
    at = np.arange(64)
    assert np.array_equal(down, x[np.where(at % 32 + 3 < 32, at + 3, at)])
    assert np.array_equal(up, x[np.where(at % 8 >= 3, at - 3, at)])
    assert np.array_equal(source, x[at // 16 * 16 + 5])
    assert np.array_equal(sums, np.repeat(x.reshape(2, 32).sum(axis=1).astype(float), 32))
    odd = (x.reshape(2, 32) & 1) << np.arange(32)
    assert np.array_equal(ballot, np.repeat(odd.sum(axis=1), 32))
    assert some.tolist() == [1] * 32 + [2] * 32


def test_parts_of_a_warp_go_their_own_ways(program):
    out = np.zeros(64, np.uint32)
    program.launch("halves", 1, 64, out)
    assert out.tolist() == ([120] * 16 + [0xAAAA0000] * 16) * 2


@pytest.mark.parametrize("threads", [64, 40])
def test_threads_that_have_ended_hold_nobody_up(program, threads):
    out = np.zeros(64, np.uint32)
    program.launch("early", 2, threads, out)
    lanes = [16 if at < 32 else (threads - 32) // 2 for at in range(0, threads, 2)]
    assert out[:threads:2].tolist() == [some + 500 for some in lanes]
    assert not out[1::2].any()


def test_atomics(program):
    most, votes, total = np.zeros(4, np.uint32), np.array([200], np.int64), np.zeros(1)
    few, least, flags = np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(1, np.uint32)
    program.launch("atomics", 3, 50, most, votes, total, few, least, flags)
    assert most.tolist() == [149, 300, 7, 149]
    assert (votes[0], total[0], few[0], least[0], flags[0]) == (50, 75.0, 37.5, -149, 2**32 - 1)


def test_bits_and_short_vectors(program):
    out = np.zeros(7, np.uint32)
    program.launch("bits", 1, 1, np.array([0x0F00000000F0], np.uint64), out)
    assert out.tolist() == [8, 24, 5, 5, 2, 7, 2]


def test_what_was_never_set_shows(program):
    for _ in range(2):  # every block starts from the beginning
        out = np.zeros(3, np.uint32)
        program.launch("unset", 2, 4, out, shared=16)
        assert out.tolist() == [0xAAAAAAAA] * 3


@pytest.mark.parametrize("kernel", ["neighbours", "warp_neighbours"])
def test_a_missing_barrier_shows(program, kernel):
    out = np.zeros(128, np.uint32)
    program.launch(kernel, 2, 64, np.arange(64, dtype=np.uint32), out)
    assert (out == 0xAAAAAAAA).any()


def test_a_deadlock_is_reported_and_the_program_lives_on(program):
    out = np.zeros(1, np.uint32)
    for _ in range(2):
        with pytest.raises(EmulationError, match=r"deadlock in block 0: .*3 wait at the barrier of line \d+, 29 wait in a warp"):
            program.launch("stuck", 1, 32, out)
    with pytest.raises(EmulationError, match="meet at different barriers"):
        program.launch("apart", 1, 64, out)
    with pytest.raises(EmulationError, match="whose mask leaves it out"):
        program.launch("left_out", 1, 32, out)
    test_barriers_let_a_block_add_up(program, 0)


@pytest.mark.parametrize(("at", "where"), [(-1, "before"), (-8, "before"), (5, "after"), (9, "after")])
def test_a_write_out_of_bounds_is_reported(program, at, where):
    out = np.zeros(9)
    with pytest.raises(EmulationError, match=f"out of bounds: .* bytes {where} an array of 40 bytes"):
        program.launch("store", 1, 1, out[2:7], at)
    assert not out.any()
    program.launch("store", 1, 1, out[2:7], 4)
    assert out.tolist() == [0.0] * 6 + [1.0] + [0.0] * 2


def test_a_write_beyond_shared_memory_is_reported(program):
    out = np.zeros(1, np.uint32)
    program.launch("store_shared", 1, 1, out, 3, shared=16)
    with pytest.raises(EmulationError, match="block 0 wrote beyond its 16 bytes of dynamic shared memory"):
        program.launch("store_shared", 1, 1, out, 4, shared=16)


def test_arrays_that_overlap_stay_one(program):
    x = np.arange(10, dtype=np.uint32)
    program.launch("both", 1, 5, x[:5], x[2:7])
    assert x.tolist() in ([0, 1, 1, 2, 2, 3, 3, 7, 8, 9], [0, 1, 1, 2, 3, 4, 5, 7, 8, 9])


GOOD = {"x": np.zeros(2), "y": np.zeros(2, np.uint32), "whole": 1, "number": 1.0, "any": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros(2, np.float32)}, "argument 0 .* is of float32: the parameter points to 8-byte floating numbers"),
        ({"x": np.zeros(2, np.int64)}, "argument 0 .* is of int64"),
        ({"y": np.zeros(2, np.uint64)}, "argument 1 .* is of uint64: the parameter points to 4-byte whole numbers"),
        ({"y": np.zeros(4, np.uint32)[::2]}, "argument 1 .* not C-contiguous"),
        ({"y": np.broadcast_to(np.uint32(1), 1)}, "argument 1 .* read-only"),
        ({"y": 5}, "argument 1 .* is the whole number 5: the parameter is a pointer"),
        ({"whole": np.zeros(1, np.int64)}, "argument 2 .* is an array: the parameter is a number"),
        ({"whole": 1.0}, "argument 2 .* is the number 1.0: the parameter is long long"),
        ({"whole": 2**63}, "does not fit long long"),
        ({"whole": None}, "argument 2 .* is None: the parameter is a number"),
        ({"number": 1}, "argument 3 .* is the whole number 1: the parameter is double"),
        ({"number": np.float32(1)}, "argument 3 .* is float32"),
        ({"any": [1]}, "argument 4 .* is list"),
    ],
)
def test_an_argument_that_does_not_fit_is_reported(program, change, message):
    program.launch("kinds", 1, 1, *GOOD.values())
    with pytest.raises(EmulationError, match=message):
        program.launch("kinds", 1, 1, *(GOOD | change).values())


def test_an_impossible_launch_is_reported(program):
    for message, launch in (
        ("has 2 parameters, not 1", lambda: program.launch("store", 1, 1, None)),
        ("does not exist: there are doubled", lambda: program.launch("other", 1, 1)),
        ("no launch of 1 blocks of 1025 threads", lambda: program.launch("store", 1, 1025, np.zeros(1), 0)),
        ("no launch with 232449 bytes", lambda: program.launch("store", 1, 1, np.zeros(1), 0, shared=(227 << 10) + 1)),
        ("pointers, long long or double only", lambda: program.launch("narrow", 1, 1, 1)),
    ):
        with pytest.raises(EmulationError, match=re.escape(message)):
            launch()


def test_a_source_that_does_not_compile_is_reported(emulated):
    with pytest.raises(EmulationError, match=r"(?s)wrong\.cuh does not compile:.*wrong\.cuh:1:"):
        emulated.compiled('extern "C" __global__ void f() { no; }', name="wrong")


def test_copies_are_copies(emulated):
    host = np.arange(4)
    there = emulated.upload(host)
    host[0] = 9
    back = emulated.download(there)
    there[1] = 9
    assert back.tolist() == [0, 1, 2, 3]


def test_copies_with_kernels_come_when_they_are_waited_for(emulated):
    host, there, copier = emulated.pinned(3, np.int64), np.zeros(4, np.int64), emulated.copier()
    host[:] = [1, 2, 3]
    copier.copy(there[1:], host)
    assert not there.any()
    copier.arrive()
    assert there.tolist() == [0, 1, 2, 3]
    with pytest.raises(EmulationError, match="does not fit"):
        copier.copy(there[:2], host)


def test_a_device_travels():
    device = pickle.loads(pickle.dumps(EmulatedDevice(free=5, total=7)))
    assert device.memory() == (5, 7)
