"""Seconds of encoding votes that are on a CUDA device: columns of whole numbers in, tasks, rows and votes out, step by step.

    python benchmarks/gpu_encode.py --votes 1e9 --type int32
    python benchmarks/gpu_encode.py --votes 1e9 --far        # ids all over 64 bits: they are hashed

Bytes are what a step must read and write at least; where ids are looked up in large tables, more moves. The first run compiles
the kernels and fills the pool of memory, so it is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from typing import Any

from adjudge.errors import AdjudgeError
from adjudge.gpu.device import Device, device_at
from adjudge.gpu.encode import encode

GENERATED_AT_ONCE = 1 << 27  # random numbers take more memory than the votes that are made of them
FAR = 0x5DEECE66D3A1B2C9  # an odd factor, which sends neighbouring ids far apart


def require_device() -> Device:
    """Return the first device; without one, exit with a line that says what is missing."""
    try:
        return device_at(0)
    except AdjudgeError as error:
        sys.exit(f"nothing is measured: {error}")


def columns(device: Device, votes: int, tasks: int, workers: int, labels: int, kind: str, *, far: bool) -> tuple[Any, Any, Any]:
    """Return random votes in no order: tasks, workers and labels, device [votes] each."""
    xp = device.xp
    random = xp.random.default_rng(1)
    out = tuple(xp.empty(votes, kind) for _ in range(3))
    for start in range(0, votes, GENERATED_AT_ONCE):
        size = min(GENERATED_AT_ONCE, votes - start)
        for array, most in zip(out, (tasks, workers, labels), strict=True):
            array[start : start + size] = random.integers(0, most, size)
    if far:
        for array in out[:2]:
            xp.multiply(array, FAR, out=array)  # it wraps around, and stays one to one
    return out[0], out[1], out[2]


class Stages:
    """The seconds and bytes of every step."""

    def __init__(self, device: Device) -> None:
        self._device, self.steps = device, list[tuple[str, float, int]]()
        self._before = self._now()

    def _now(self) -> float:
        self._device.xp.cuda.Device(self._device.number).synchronize()
        return time.perf_counter()

    def __call__(self, name: str, size: int) -> None:
        """Take the end of a step."""
        now = self._now()
        self.steps.append((name, now - self._before, size))
        self._before = now


def main() -> None:
    """Measure, and print a line per step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--votes", type=float, default=1e9)
    parser.add_argument("--per-task", type=float, default=5.0, help="votes of a task, in the mean")
    parser.add_argument("--workers", type=float, default=1e5)
    parser.add_argument("--labels", type=int, default=4)
    parser.add_argument("--type", choices=("int32", "int64"), default="int64")
    parser.add_argument("--far", action="store_true", help="ids of tasks and workers all over 64 bits")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    votes, device = int(given.votes), require_device()
    warnings.simplefilter("ignore")  # random votes look suspicious
    with device.current():
        sizes = votes, max(int(votes / given.per_task), 1), int(given.workers), given.labels
        source = columns(device, *sizes, "int64" if given.far else given.type, far=given.far)
        encode(device, source)
        best: list[tuple[str, float, int]] = []
        for _ in range(given.repeat):
            stages = Stages(device)
            found = encode(device, source, stage=stages)
            stages("what looks wrong", 0)
            del found
            if not best or sum(step[1] for step in stages.steps) < sum(step[1] for step in best):
                best = stages.steps
        start = time.perf_counter()
        found = encode(device, source)
        device.xp.cuda.Device(device.number).synchronize()
        whole = time.perf_counter() - start
    print(f"{device.name}: {found!r}")
    for name, seconds, size in best:
        print(f"{name:32} {1e3 * seconds:9.2f} ms {size / 1e9:9.2f} GB {size / seconds / 1e9:9.0f} GB/s")
    print(f"{'all, without waiting between':32} {1e3 * whole:9.2f} ms, {votes / whole / 1e6:.0f} million votes/s")
    pool = device.xp.get_default_memory_pool()
    print(f"device memory at most {pool.total_bytes() / 2**30:.1f} GiB, with the columns")


if __name__ == "__main__":
    main()
