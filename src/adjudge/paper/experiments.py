"""The paper's other experiments: convergence, time against size, online aggregation, and several correct options."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import polars as pl

import adjudge
from adjudge.data.options import ModelName
from adjudge.data.votes import Votes
from adjudge.errors import NotConverged
from adjudge.evaluation.evaluate import evaluate
from adjudge.evaluation.simulate import simulate
from adjudge.io.read import read
from adjudge.models.aggregation import aggregate
from adjudge.online import Online
from adjudge.paper import published
from adjudge.paper.grid import CellFolder, Figures, Questions, conditions, draw_votes, fit

FAR: Final[dict[str, Any]] = {"tol": 1e-9, "max_iter": 3000}  # DS until nothing moves: the gaps' limit
MIN_RELATIVE_GAP: Final = 1e-6  # a gap below this share of the first says more of the limit than of the rate
MIN_GAPS: Final = 2  # gaps that a rate needs: a hard fit may have no more
BASE_SIZES: Final = {"tasks": 40_000, "votes_per_task": 5, "workers": 100, "labels": 4}
SWEEPS: Final[dict[str, Sequence[int]]] = {
    "tasks": (20_000, 40_000, 80_000, 160_000),
    "votes_per_task": (3, 6, 12, 24),
    "workers": (50, 100, 200, 400),
    "labels": (2, 4, 8, 16),
}
PAPER_EXPONENTS: Final = {"tasks": 1.0, "votes_per_task": 0.0, "workers": 1.0, "labels": 1.0}  # of O(QACn), per iteration
TIMED_FITS: Final = 5
MAX_TIMED_ITERATIONS: Final = 12  # a time is divided by the number that ran
STREAMED_SET: Final = "sp"
STREAMED_ANNOTATOR_COUNTS: Final = (2, 3, 4, 5)
MULTI_LABEL_SETS: Final = ("snow_affect_ml50", "snow_affect_ml25")  # the paper's own was never published
ANNOTATORS_PER_TASK: Final = 5
MULTI_LABEL_TRIALS: Final = 5  # "averaged over five subsets"


def _table(
    questions: Questions, cells: CellFolder, kind: str, columns: Sequence[str], compute: Callable[[], list[Any]], **more: object
) -> pl.DataFrame:
    """Return the rows of one cell of a set as a frame, with the name of the set."""
    cell = cells.get(f"{kind}-{questions.name}", conditions(questions, **more), lambda: {"rows": compute()})
    return pl.DataFrame([(questions.name, *row) for row in cell["rows"]], ["set", *columns], orient="row")


def likelihoods(questions: Questions, cells: CellFolder) -> pl.DataFrame:
    """Return method, iteration, phase and negative log-likelihood of DS, FDS and Hybrid with all annotators."""

    def compute() -> list[Any]:
        votes = questions.read(questions.annotators)
        fits = [fit(votes, model) for model in published.EM_METHODS]
        return [[one.model, row.iteration, row.phase, -row.log_likelihood] for one in fits for row in one.fit.trace]

    return _table(questions, cells, "likelihood", ["method", "iteration", "phase", "nll"], compute)


def switches(questions: Questions, cells: CellFolder) -> pl.DataFrame:
    """Return the Hybrid's iterations before its switch and in total, at every number of annotators from 2."""

    def compute() -> list[Any]:
        rows = []
        for k in range(2, questions.annotators + 1):
            trace = fit(questions.read(k), "hybrid", trace="light").fit.trace
            rows.append([k, sum(row.phase == "soft" for row in trace), len(trace)])
        return rows

    found = _table(questions, cells, "switch", ["annotators", "soft", "iterations"], compute)
    return found.with_columns(share=pl.col("soft") / pl.col("iterations"))


def gaps(questions: Questions, cells: CellFolder) -> pl.DataFrame:
    """Return how far DS (log-likelihood) and FDS (C2, the paper's theorem) are from their limit in every iteration."""

    def compute() -> list[Any]:
        votes, rows = questions.read(questions.annotators), []
        for model, options in (("ds", FAR), ("fds", {"stop": "labels"})):
            trace = fit(votes, model, **options).fit.trace
            limit = trace[-1].objective
            rows += [[model, row.iteration, limit - row.objective] for row in trace if limit > row.objective]
        return rows

    return _table(questions, cells, "gaps", ["method", "iteration", "gap"], compute, **FAR)


def rate(gap: list[float]) -> float:
    """Return the factor by which the gap shrinks in an iteration near the limit; NaN if there are too few gaps.

    The rate is the slope of log(gap) over the second half of the iterations: a straight line is linear convergence.

    >>> rate([8.0, 4.0, 2.0, 1.0, 0.5, 0.25])
    0.5
    """
    clear = [g for g in gap if g > MIN_RELATIVE_GAP * gap[0]]
    tail = clear[len(clear) // 2 :] if len(clear) > 2 * MIN_GAPS else clear
    if len(tail) < MIN_GAPS:
        return math.nan
    return round(math.exp(math.log(tail[-1] / tail[0]) / (len(tail) - 1)), 4)


def rates(found: pl.DataFrame) -> pl.DataFrame:
    """Return a line per set and method: its rate, and the iterations with a gap."""
    rows = [
        (name, method, rate(part["gap"].to_list()), len(part))
        for (name, method), part in found.group_by("set", "method", maintain_order=True)
    ]
    return pl.DataFrame(rows, ["set", "method", "rate", "iterations"], orient="row")


def measure_scaling(cells: CellFolder, base: dict[str, int] | None = None) -> pl.DataFrame:
    """Return seconds per iteration of DS and FDS on simulated crowds, one size varied at a time."""
    rows = []
    for size, values in SWEEPS.items():
        for value in values:
            spec = {**BASE_SIZES, **(base or {}), size: value}
            under = {**spec, "version": adjudge.__version__}
            found = cells.get(f"scaling-{size}-{value}", under, lambda spec=spec: _time_sizes(spec))  # type: ignore[misc]
            rows += [(size, value, method, found["votes"], seconds) for method, seconds in found["seconds"].items()]
    return pl.DataFrame(rows, ["size", "value", "method", "votes", "seconds"], orient="row")


def _time_sizes(spec: dict[str, Any]) -> Figures:
    votes = read(simulate(**spec, seed=1).votes)
    return {"votes": len(votes), "seconds": {model: _time_iteration(votes, model) for model in ("ds", "fds")}}


def _time_iteration(votes: Votes, model: str) -> float:
    found = []
    for _ in range(TIMED_FITS):
        began = time.perf_counter()
        result = fit(votes, model, trace="light", threads=1, max_iter=MAX_TIMED_ITERATIONS)
        found.append((time.perf_counter() - began) / result.iterations)
    return min(found)  # what else the machine did only adds


def exponents(found: pl.DataFrame) -> pl.DataFrame:
    """Return how time per iteration grows with each size: the slope on logarithmic axes, and the paper's O(QACn)."""
    rows = []
    for (size, method), part in found.group_by("size", "method", maintain_order=True):
        slope = np.polyfit(np.log(part["value"].to_numpy()), np.log(part["seconds"].to_numpy()), 1)[0]
        rows.append((size, method, PAPER_EXPONENTS[str(size)], round(float(slope), 2)))
    return pl.DataFrame(rows, ["size", "method", "paper", "ours"], orient="row")


def stream_questions(questions: Questions, cells: CellFolder) -> pl.DataFrame:
    """Return method, annotators, accuracy over all questions, iterations of the initial fit and seconds of it all.

    Tables 3 and 4: half of the questions are fitted at once, the others arrive whole, one after the other.
    """
    rows = []
    for k in STREAMED_ANNOTATOR_COUNTS:
        for model in published.EM_METHODS:
            found = cells.get(
                f"online-{questions.name}-{k}-{model}",
                conditions(questions),
                lambda k=k, model=model: _stream(questions.subset(k), questions.truth, model),  # type: ignore[misc]
            )
            rows.append((model, k, found["accuracy"], found["iterations"], found["seconds"]))
    return pl.DataFrame(rows, ["method", "annotators", "accuracy", "iterations", "seconds"], orient="row")


def _stream(votes: pl.DataFrame, truth: pl.DataFrame, model: str) -> Figures:
    by_task = votes.partition_by("task", maintain_order=True)
    half = len(by_task) // 2
    initial = read(pl.concat(by_task[:half]))
    began = time.perf_counter()
    result = fit(initial, model, trace="light")
    learner = Online.from_result(result)
    for question in by_task[half:]:
        for vote in question.select("task", "worker", "label").iter_rows():  # the same as learn_many, without opening a table
            learner.learn(*vote)
    seconds = time.perf_counter() - began
    accuracy = evaluate(learner.labels(), truth).accuracy
    return {"accuracy": accuracy, "iterations": result.iterations, "seconds": seconds}


def multi_label_sets(folder: Path) -> list[str]:
    """Return the multi-label sets that the data folder has."""
    files = ("votes.csv", "truth.csv")
    return [name for name in MULTI_LABEL_SETS if all((folder / name / file).is_file() for file in files)]


def choose_options(folder: Path, cells: CellFolder) -> pl.DataFrame:
    """Return set, method, accuracy per (task, option), seconds and iterations, averaged over random subsets of the votes."""
    rows = []
    for name in multi_label_sets(folder):
        for model in published.EM_METHODS:
            under = {"version": adjudge.__version__, "bytes": (folder / name / "votes.csv").stat().st_size}
            found = cells.get(f"multiple-{name}-{model}", under, lambda n=name, m=model: _average(folder / n, m))  # type: ignore[misc]
            rows.append((name, model, found["accuracy"], found["seconds"], found["iterations"]))
    return pl.DataFrame(rows, ["set", "method", "accuracy", "seconds", "iterations"], orient="row")


def _average(folder: Path, model: str) -> Figures:
    votes = pl.read_csv(folder / "votes.csv", infer_schema=False)
    found: dict[str, list[float]] = {"accuracy": [], "seconds": [], "iterations": []}
    for trial in range(MULTI_LABEL_TRIALS):
        with tempfile.TemporaryDirectory() as aside, warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            path = Path(aside) / "votes.csv"  # an empty cell is a vote for no option: read as any file of votes is
            draw_votes(votes, ANNOTATORS_PER_TASK, trial).write_csv(path)
            began = time.perf_counter()
            result = aggregate(path, cast(ModelName, model), seed=trial, multi=True, confidence="posterior")
            found["seconds"].append(time.perf_counter() - began)
            evaluation = evaluate(result, folder / "truth.csv", multi=True)
        found["accuracy"].append(evaluation.option_accuracy)
        found["iterations"].append(result.iterations)
    return {name: statistics.fmean(values) for name, values in found.items()}
