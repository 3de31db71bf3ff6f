"""Small data: the cost of a call beyond its passes, and of `auto` compared with the models that it replaces."""

import numpy as np
import pandas as pd
import polars as pl
from measure import interleaved
from passes import Crowd

import adjudge as adj
from adjudge.kernels import cpu

TASKS, PER_TASK, WORKERS, K = 1_000, 5, 50, 4
LOOPS = 10  # calls per turn: a single one is too short to time
REPEATS = 15
BAR = 1.5  # ms of a call beyond its passes
LARGE = 2_000_000  # votes, of 20 thousand workers
BAR_AUTO = 1.0  # of the two fits that it is measured by


def run(_folder):
    drawn = adj.simulate(tasks=TASKS, workers=WORKERS, labels=K, votes_per_task=PER_TASK, seed=1).votes
    columns = {name: [f"{name} {value}" for value in drawn[name].to_list()] for name in ("task", "worker", "label")}
    sources = {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "tuples": list(zip(*columns.values(), strict=True)),
        "votes that were read": adj.read(columns),
    }
    made = {f"fds, {name}": calls(source, model="fds", confidence="posterior") for name, source in sources.items()}
    made |= {f"auto, honest, {name}": calls(source, model="auto") for name, source in sources.items()}
    iterations = adj.aggregate(columns, model="fds", confidence="posterior").iterations
    made["passes"] = passes(iterations)
    seconds = {name: 1e3 * found / LOOPS for name, found in interleaved(made, REPEATS).items()}
    beyond = seconds.pop("passes")  # ms of a call
    yield f"the passes of a fit of {TASKS * PER_TASK} votes, {iterations} iterations, ms", beyond, ""
    for name, found in seconds.items():
        if name.startswith("fds"):
            yield f"`aggregate` of as many votes and its labels, {name}, ms beyond the passes", found - beyond, f"<= {BAR}"
        else:
            yield f"`aggregate` of as many votes and its labels, {name}, ms in total", found, ""
    yield from auto()


def calls(source, **options):
    """Some calls, as a loop over many small sets makes them."""

    def act():
        for _ in range(LOOPS):
            assert len(adj.aggregate(source, **options).labels) == TASKS

    return act


def passes(iterations):
    """The passes of as many fits, and the tables between them, without anything around them."""
    crowd = Crowd(TASKS * PER_TASK, workers=WORKERS, k=K)
    row_label = np.tile(np.arange(K, dtype=np.int32), WORKERS)

    def act():
        for _ in range(LOOPS):
            crowd.counts[:], crowd.class_counts[:] = 0, 0
            cpu.majority(
                crowd.task_ptr, crowd.row, row_label, crowd.task_key, crowd.label_hash, tie_weights=None, soft=False,
                checked=True, threads=crowd.threads, labels=crowd.labels, counts=crowd.counts, class_counts=crowd.class_counts,
            )  # fmt: skip
            for _ in range(iterations):
                crowd.m_step()
                crowd.hard(delta=True, likelihood=True)
            crowd.soft()

    return act


def auto():
    """`auto` on many encoded votes, compared with one fit of fds and one of ds."""
    votes = adj.read(adj.simulate(tasks=LARGE // PER_TASK, workers=20_000, labels=K, votes_per_task=PER_TASK, seed=1).votes)
    fits = {
        "auto": lambda: adj.aggregate(votes, model="auto"),
        "fds and ds": lambda: (adj.aggregate(votes, model="fds"), adj.aggregate(votes, model="ds")),
    }
    seconds = interleaved(fits, 5)
    ratio = seconds["auto"] / seconds["fds and ds"]
    yield f"auto, honest, {LARGE // 10**6}M encoded votes / one fit of fds and one of ds, honest", ratio, f"<= {BAR_AUTO}"
