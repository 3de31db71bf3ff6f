"""Passes, whole fits and encoding on a CUDA device, compared with the same machine's processor and with the memory floor.

    python benchmarks/gpu.py                       # measures, and writes all of benchmarks/measured/gpu
    python benchmarks/gpu.py --json out.json       # measures alone: it needs CuPy and a device, no library of plots
    python benchmarks/gpu.py --page [--json …]     # writes the tables and the picture of figures that are there

Votes are made on the device: 5 per task, 4 labels, workers of different skill. A pass is an E-step of a session, which ends
when its sums are on the host. Figures are medians after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import machine

PAGE = Path(__file__).parent / "measured" / "gpu" / "README.md"
SIZES = (10**6, 10**7, 10**8, 10**9)
EACH, LABELS = 5, 4
CROWD = r"""
typedef unsigned long long u64; typedef unsigned int u32; typedef long long i64;
__device__ u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}
__device__ double uniform(u64 x) { return (x >> 11) * (1.0 / 9007199254740992.0); }
extern "C" __global__ void crowd(u32* row, i64 tasks, i64 each, i64 workers, i64 k) {
    for (i64 t = (i64)blockIdx.x * blockDim.x + threadIdx.x; t < tasks; t += (i64)gridDim.x * blockDim.x) {
        const u32 truth = (u32)(mix(t * 7 + 1) % k);
        u32 rows[16];
        for (int i = 0; i < each; ++i) {
            const u64 drawn = mix(t * 64 + i + 12345), again = mix(drawn);
            const u32 worker = (u32)((drawn >> 20) % workers);
            const double skill = 0.5 + 0.4 * uniform(mix(worker + 99));
            const u32 given = uniform(again) < skill ? truth : (truth + 1 + (u32)(mix(again) % (k - 1))) % (u32)k;
            rows[i] = worker * (u32)k + given;
        }
        for (int i = 1; i < each; ++i) {
            const u32 one = rows[i];
            int j = i - 1;
            for (; j >= 0 && rows[j] > one; --j) rows[j + 1] = rows[j];
            rows[j + 1] = one;
        }
        for (int i = 0; i < each; ++i) row[t * each + i] = rows[i];
    }
}
"""


def crowd(device: Any, votes: int, workers: int) -> Any:
    """Return votes on a device."""
    from adjudge.data.vocabulary import Vocabulary
    from adjudge.gpu.votes import DeviceLayout, DeviceVocabulary, DeviceVotes

    xp, tasks = device.xp, votes // EACH
    row = xp.empty(tasks * EACH, np.uint32)
    make = xp.RawModule(code=CROWD).get_function("crowd")
    make((4096,), (256,), (row, np.int64(tasks), np.int64(EACH), np.int64(workers), np.int64(LABELS)))
    ptr = (xp.arange(tasks + 1, dtype=np.int64) * EACH).astype(np.uint32)
    return DeviceVotes(
        layout=DeviceLayout.on(device, ptr, row),
        worker_ptr=np.arange(workers + 1, dtype=np.int64) * LABELS,
        row_label=np.tile(np.arange(LABELS, dtype=np.int32), workers),
        workers=Vocabulary.wrap("integer", np.arange(workers)),
        labels=Vocabulary.of([f"l{c}" for c in range(LABELS)]),
        tasks=DeviceVocabulary(device, xp.arange(tasks, dtype=np.int64)),
        unvoted=Vocabulary.wrap("integer", np.zeros(0, np.int64)),
    )


def on_host(votes: Any) -> Any:
    """Return the same votes in the memory of the host."""
    from adjudge.data.vocabulary import Vocabulary
    from adjudge.data.votes import Votes

    return Votes(
        task_ptr=votes.task_ptr, row=votes.row, worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers,
        labels=votes.labels, unvoted=votes.unvoted, tasks=Vocabulary.wrap("integer", votes.tasks.values),
    )  # fmt: skip


def median(action: Any, repeats: int) -> float:
    """Return the median seconds of an action, after one that is not counted."""
    action()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def passes(engine: Any, votes: Any, repeats: int) -> dict[str, float]:
    """Return the milliseconds of every kind of pass on an engine."""
    from adjudge.models.dawid_skene import ConfusionRecipe, DawidSkene, FastDawidSkene

    session, found = engine.load(votes, seed=0, ties="hash"), {}
    found["majority vote"] = median(lambda: (setattr(session, "_is_current", False), session.start(hard=True)), min(repeats, 3))
    recipe = ConfusionRecipe(FastDawidSkene())
    priors = recipe.class_priors(session.start(hard=True).class_counts).priors
    found["m-step"] = median(lambda: session.m_step(recipe, priors), repeats)
    found["hard, changes counted"] = median(lambda: session.e_step(hard=True, likelihood=False), repeats)

    def full() -> None:
        session._is_current = False
        session.e_step(hard=True, likelihood=False)

    for _ in range(40 if engine.name == "cuda" else 1):  # by then a device has sorted the votes
        full()
    found["hard, everything counted"] = median(full, repeats)
    found["hard, with likelihood"] = median(lambda: session.e_step(hard=True), repeats)
    session.m_step(ConfusionRecipe(DawidSkene()), priors)
    for _ in range(3 if engine.name == "cuda" else 0):
        session.e_step(hard=False)
    found["soft"] = median(lambda: session.e_step(hard=False), repeats)
    found["last"] = median(session.finish, min(repeats, 3))
    return {name: 1e3 * seconds for name, seconds in found.items()}


def fits(engine: Any, votes: Any, repeats: int, models: tuple[str, ...]) -> dict[str, tuple[float, int]]:
    """Return the milliseconds and iterations of whole fits."""
    from adjudge.models.base import MODELS

    found = {}
    for model in models:
        name, _, trace = model.partition(" ")
        confidence = "honest" if trace == "honest" else "posterior"
        results: list[Any] = []

        def fit(name: str = name, trace: str = trace, confidence: Any = confidence, results: list[Any] = results) -> None:
            results.clear()  # the result before makes room
            results.append(
                MODELS[name]().fit(votes, engine=engine, trace="full" if trace == "full" else "light", confidence=confidence)
            )

        found[model] = 1e3 * median(fit, repeats), results[0].iterations
    return found


def bandwidth(xp: Any) -> float:
    """Return the bytes per second that a copy on the device reads and writes."""
    one, two = xp.zeros(1 << 31, np.uint8), xp.empty(1 << 31, np.uint8)

    def copy() -> None:
        xp.copyto(two, one)
        xp.cuda.Device().synchronize()

    return 2 * len(one) / median(copy, 10)


def measured(sizes: tuple[int, ...], *, processor: bool = True) -> dict[str, Any]:
    """Return all figures."""
    import gpu_encode

    from adjudge.engines.local import cpu_engine
    from adjudge.gpu.device import device_at
    from adjudge.gpu.engine import cuda_engine
    from adjudge.kernels.cpu import cores

    warnings.simplefilter("ignore")
    device, far = device_at(0), cuda_engine(cores())
    out: dict[str, Any] = {"device": device.name, "machine": machine(), "passes": [], "fits": [], "encoding": {}}
    with device.current():
        xp, out["bandwidth"] = device.xp, bandwidth(device.xp)
        for votes in sizes:
            for workers in (20_000, 1_000_000):
                if workers > votes // 50:
                    continue
                some = crowd(device, votes, workers)
                line = {"votes": votes, "workers": workers, "floor": 1e3 * (4 * votes + 5 * votes // EACH) / out["bandwidth"]}
                line["cuda"] = passes(far, some, 10)
                show({**line, "kept": sorted(some.layout._memo)})
                if workers == 20_000:
                    here = on_host(some) if processor else None
                    for threads in (2, cores()) if processor else ():
                        line[f"{threads} threads"] = passes(cpu_engine(threads), here, 1 if votes > 10**8 else 4)
                        show({threads: line[f"{threads} threads"]})
                    models = ("mv", "fds", "fds full", "ds", "auto", "auto honest")
                    fitted = {"votes": votes, "cuda": fits(far, some, 3, models)}
                    if votes == 10**7:
                        fitted["cuda"] |= fits(far, some, 1, ("glad",))
                    if votes <= 10**8 and processor:
                        fitted["cuda, votes of the host"] = fits(far, here, 2, ("mv", "fds", "auto honest"))
                        fitted[f"{cores()} threads"] = fits(cpu_engine(cores()), here, 2, ("mv", "fds", "ds", "auto honest"))
                        fitted["2 threads"] = fits(cpu_engine(2), here, 1, ("mv", "fds", "auto honest"))
                    show(fitted)
                    out["fits"].append(fitted)
                    del here
                out["passes"].append(line)
                some.layout._memo.clear()
                del some
                xp.get_default_memory_pool().free_all_blocks()
        for kind, far_apart in (("int64", False), ("int32", False), ("int64", True)):
            source = gpu_encode.columns(device, max(sizes), max(sizes) // EACH, 20_000, LABELS, kind, far=far_apart)
            seconds = median(lambda source=source: gpu_encode.encode(device, source), 3)
            out["encoding"][f"{kind}{', far apart' if far_apart else ''}"] = seconds
            show({kind: seconds})
            del source
            xp.get_default_memory_pool().free_all_blocks()
    return out


def show(line: dict[Any, Any]) -> None:
    """Print figures as they come."""
    print(json.dumps(line), file=sys.stderr, flush=True)


def main() -> None:
    """Measure, and write the requested output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=PAGE.with_name("results.json"))
    parser.add_argument("--page", action="store_true", help="write the page from the figures that are there")
    parser.add_argument("--votes", type=float, default=1e9, help="the largest crowd")
    parser.add_argument("--only", action="store_true", help="the largest crowd alone, and the device alone")
    given = parser.parse_args()
    if not given.page:
        from gpu_encode import require_device  # needs adjudge; a page is written without

        require_device()
        sizes = tuple(size for size in SIZES if size <= given.votes)
        found = measured(sizes[-1:] if given.only else sizes, processor=not given.only)
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    if given.page or given.json == PAGE.with_name("results.json"):
        sys.path.append(str(Path(__file__).parent / "race"))
        from gpu_page import write_page

        write_page(json.loads(given.json.read_text()))


if __name__ == "__main__":
    main()
