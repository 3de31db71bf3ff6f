"""Estimated and actual memory: the estimate of `adjudge.engines.memory`, and the peak of a real fit.

    python benchmarks/memory.py [--quick] [name of a model …]

Each fit runs in a process of its own. What is taken is the peak of its resident memory above what it had when the votes
were read. Linux only: the peak is reset through /proc.
"""

import ctypes
import gc
import itertools
import json
import subprocess
import sys
from pathlib import Path

MODELS = ("auto", "mv", "ds", "fds", "hybrid", "one-coin", "iwmv", "glad")
THREADS = (1, 2, 8, 16)
CROWDS = {  # tasks, votes per task, workers, labels, votes of a label in a row: fewer rows where workers keep to few labels
    "few labels, few workers": (400_000, 5, 1_000, 3),
    "few labels, many workers": (400_000, 5, 200_000, 5),
    "one vote a worker": (1_000_000, 1, 1_000_000, 2),
    "16 labels": (200_000, 5, 20_000, 16),
    "17 labels": (200_000, 5, 20_000, 17),
    "many labels, few workers": (200_000, 5, 300, 200),
    "many labels, many workers": (100_000, 5, 20_000, 200),
    "very many labels": (20_000, 5, 200, 1_000),
}
WITHIN = 1.5


def peak_above(action):
    """Peak resident bytes during an action, above those before it."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what reading has freed must not be counted as room
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before = status("VmRSS")
    action()
    return status("VmHWM") - before


def status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def crowd(tasks, per_task, workers, labels):
    """Votes that are right about half the time, as columns."""
    import numpy as np

    draw = np.random.default_rng(0)
    truth = draw.integers(0, labels, tasks)
    task = np.repeat(np.arange(tasks), per_task)
    worker = np.arange(len(task)) if workers >= len(task) else draw.integers(0, workers, len(task))
    label = np.where(draw.random(len(task)) < 0.5, truth[task], draw.integers(0, labels, len(task)))
    return {"task": task, "worker": worker, "label": label}


def one(model, threads, engine, what, size, confidence="posterior"):
    """Told and taken of one fit, in this process."""
    import warnings

    import adjudge as adj
    from adjudge.engines import memory
    from adjudge.engines.registry import engine_with
    from adjudge.models import base as registry
    from adjudge.results import workers

    warnings.simplefilter("ignore")
    small = adj.aggregate(adj.simulate(tasks=50, workers=5).votes, model=model)  # loads what is loaded once
    assert len(small.workers) == 5
    assert len(small.probabilities) == 50
    votes = adj.read(crowd(*size))
    held = []
    options = {} if model in ("mv", "auto") else {"max_iter": 3}

    def fit():
        held.append(
            registry.MODELS[model](**options).fit(votes, engine=engine_with(engine, threads=threads), confidence=confidence)
        )

    if what == "fit":
        room, honest = registry.MODELS[model].room, confidence == "honest"
        told = memory.estimate(votes, (1 << 18) * (engine == "reference"), threads, room, honest=honest)
        taken = peak_above(fit)
    else:
        fit()
        told = memory.of_probabilities(votes) if what == "probabilities" else workers.estimate(votes)
        taken = peak_above(lambda: held.append(getattr(held[0], what)))
    return {"told": told, "taken": taken, "rows": votes.n_rows}


def cases(quick):
    crowds = dict(itertools.islice(CROWDS.items(), 3)) if quick else CROWDS
    for name, size in crowds.items():
        for model in MODELS:
            for threads in THREADS if model in ("ds", "fds") else (2, 16):
                yield name, model, threads, "cpu", "fit", size
            yield name, model, 2, "cpu", "fit", size, "honest"
        yield name, "fds", 2, "reference", "fit", size
        yield name, "fds", 2, "cpu", "probabilities", size
        tasks, *rest = size
        fewer = min(tasks, 4_000_000 // size[3]), *rest  # many labels take minutes
        yield name, "fds", 2, "cpu", "workers", fewer


def main(arguments):
    if arguments and arguments[0] == "--one":
        print(json.dumps(one(*json.loads(arguments[1]))))
        return
    names = [a for a in arguments if not a.startswith("--")]
    wrong = 0
    for name, model, threads, engine, what, size, *confidence in cases("--quick" in arguments):
        if names and model not in names and what not in names:
            continue
        asked = json.dumps([model, threads, engine, what, size, *confidence])
        done = subprocess.run([sys.executable, __file__, "--one", asked], stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout)
        told, taken = found["told"] / 2**20, found["taken"] / 2**20
        off = max(told / taken, taken / told) > WITHIN
        wrong += off
        print(
            f"{name:28} {model:9} {threads:3} threads {engine:9} {' '.join([what, *confidence]):13} {found['rows']:9} rows "
            f"told {told:8.1f} taken {taken:8.1f} MiB  {told / taken:5.2f}{' *' if off else ''}",
            flush=True,
        )
    print(f"{wrong} of them are off by more than a factor of {WITHIN}")


if __name__ == "__main__":
    main(sys.argv[1:])
