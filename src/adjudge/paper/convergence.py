"""How fits converge: the likelihood in every iteration, the linear rate, and the Hybrid's switch."""

from __future__ import annotations

import math
from typing import Any, Final

import polars as pl

from adjudge.data.votes import Votes
from adjudge.paper import published
from adjudge.paper.grid import Cells, Figures, conditions, fit
from adjudge.paper.protocol import Questions
from adjudge.results.result import Result

FAR: Final[dict[str, Any]] = {
    "tol": 1e-9,
    "max_iter": 3000,
}  # DS until nothing moves: the gaps' limit
NOISE = 1e-6  # a gap below this share of the first says more of the limit than of the rate
LONG_ENOUGH = 2  # gaps that a rate needs: a hard fit may have no more


def likelihoods(questions: Questions, cells: Cells) -> pl.DataFrame:
    """Return method, iteration, phase and negative log-likelihood of DS, FDS and Hybrid with all annotators."""

    def compute() -> Figures:
        votes = questions.read(questions.annotators)
        return {"rows": [row for model in published.FAMILY for row in _trace(fit(votes, model))]}

    rows = cells.get(f"likelihood-{questions.name}", conditions(questions), compute)["rows"]
    named = [(questions.name, *row) for row in rows]
    return pl.DataFrame(named, ["set", "method", "iteration", "phase", "nll"], orient="row")


def _trace(result: Result) -> list[list[object]]:
    return [[result.model, row.iteration, row.phase, -row.log_likelihood] for row in result.fit.trace]


def switches(questions: Questions, cells: Cells) -> pl.DataFrame:
    """Return the Hybrid's iterations before its switch and in all, at every number of annotators from 2."""

    def compute() -> Figures:
        rows = []
        for k in range(2, questions.annotators + 1):
            trace = fit(questions.read(k), "hybrid", trace="light").fit.trace
            rows.append([k, sum(row.phase == "soft" for row in trace), len(trace)])
        return {"rows": rows}

    rows = cells.get(f"switch-{questions.name}", conditions(questions), compute)["rows"]
    named = [(questions.name, *row, row[1] / row[2]) for row in rows]
    return pl.DataFrame(named, ["set", "annotators", "soft", "iterations", "share"], orient="row")


def gaps(questions: Questions, cells: Cells) -> pl.DataFrame:
    """Return how far DS (log-likelihood) and FDS (C2, the paper's theorem) are from their limit in every iteration."""

    def compute() -> Figures:
        votes = questions.read(questions.annotators)
        return {"rows": [*_gaps(votes, "ds", FAR), *_gaps(votes, "fds", {"stop": "labels"})]}

    rows = cells.get(f"gaps-{questions.name}", conditions(questions, **FAR), compute)["rows"]
    named = [(questions.name, *row) for row in rows]
    return pl.DataFrame(named, ["set", "method", "iteration", "gap"], orient="row")


def _gaps(votes: Votes, model: str, options: dict[str, Any]) -> list[list[object]]:
    trace = fit(votes, model, **options).fit.trace
    limit = trace[-1].objective
    return [[model, row.iteration, limit - row.objective] for row in trace if limit > row.objective]


def rate(gap: list[float]) -> float:
    """Return the factor by which the gap shrinks in an iteration near the limit; NaN where there are too few gaps.

    The rate is the slope of log(gap) over the second half of the iterations: a straight line is linear convergence.

    >>> rate([8.0, 4.0, 2.0, 1.0, 0.5, 0.25])
    0.5
    """
    clear = [g for g in gap if g > NOISE * gap[0]]
    tail = clear[len(clear) // 2 :] if len(clear) > 2 * LONG_ENOUGH else clear
    if len(tail) < LONG_ENOUGH:
        return math.nan
    return round(math.exp(math.log(tail[-1] / tail[0]) / (len(tail) - 1)), 4)


def rates(found: pl.DataFrame) -> pl.DataFrame:
    """Return a line per set and method: its rate, and the iterations with a gap."""
    rows = [
        (name, method, rate(part["gap"].to_list()), len(part))
        for (name, method), part in found.group_by("set", "method", maintain_order=True)
    ]
    return pl.DataFrame(rows, ["set", "method", "rate", "iterations"], orient="row")
