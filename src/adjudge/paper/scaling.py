"""Time against tasks, votes, workers and labels: the paper's O(QACn) beside what is measured here."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

import adjudge
from adjudge.evaluation.simulate import simulate
from adjudge.io.read import read
from adjudge.paper.grid import Cells, Figures, fit

BASE: Final = {"tasks": 40_000, "votes_per_task": 5, "workers": 100, "labels": 4}
SWEEPS: Final[dict[str, Sequence[int]]] = {
    "tasks": (20_000, 40_000, 80_000, 160_000),
    "votes_per_task": (3, 6, 12, 24),
    "workers": (50, 100, 200, 400),
    "labels": (2, 4, 8, 16),
}
PAPER: Final = {"tasks": 1.0, "votes_per_task": 0.0, "workers": 1.0, "labels": 1.0}  # exponents of O(QACn), per iteration
TIMES: Final = 5
ITERATIONS: Final = 12  # at most; a time is divided by the number that ran


def run(cells: Cells, base: dict[str, int] | None = None) -> pl.DataFrame:
    """Return seconds per iteration of DS and FDS on simulated crowds, one size varied at a time."""
    rows = []
    for size, values in SWEEPS.items():
        for value in values:
            spec = {**BASE, **(base or {}), size: value}
            under = {**spec, "version": adjudge.__version__}
            found = cells.get(f"scaling-{size}-{value}", under, lambda spec=spec: _measure(spec))  # type: ignore[misc]
            rows += [(size, value, method, found["votes"], seconds) for method, seconds in found["seconds"].items()]
    return pl.DataFrame(rows, ["size", "value", "method", "votes", "seconds"], orient="row")


def _measure(spec: dict[str, int]) -> Figures:
    crowd = simulate(
        tasks=spec["tasks"], workers=spec["workers"], labels=spec["labels"], votes_per_task=spec["votes_per_task"], seed=1
    )
    votes = read(crowd.votes)
    return {"votes": len(votes), "seconds": {model: _per_iteration(votes, model) for model in ("ds", "fds")}}


def _per_iteration(votes: adjudge.Votes, model: str) -> float:
    found = []
    for _ in range(TIMES):
        began = time.perf_counter()
        result = fit(votes, model, trace="light", threads=1, max_iter=ITERATIONS)
        found.append((time.perf_counter() - began) / result.iterations)
    return min(found)  # what else the machine did only adds


def exponents(found: pl.DataFrame) -> pl.DataFrame:
    """Return how time per iteration grows with each size: the slope on logarithmic axes, beside the paper's O(QACn)."""
    rows = []
    for (size, method), part in found.group_by("size", "method", maintain_order=True):
        slope = np.polyfit(np.log(part["value"].to_numpy()), np.log(part["seconds"].to_numpy()), 1)[0]
        rows.append((size, method, PAPER[str(size)], round(float(slope), 2)))
    return pl.DataFrame(rows, ["size", "method", "paper", "ours"], orient="row")
