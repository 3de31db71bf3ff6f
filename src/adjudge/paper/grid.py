"""The paper's protocol, and Figure 1's grid: every method on every set at every number of annotators; a run can be resumed."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import adjudge
from adjudge.data.options import TraceDetail
from adjudge.data.votes import Votes
from adjudge.engines.registry import AutoEngine
from adjudge.errors import InputError, NotConverged, SuspiciousVotes, choice_error
from adjudge.evaluation.evaluate import evaluate
from adjudge.io.read import read
from adjudge.io.write import write_aside
from adjudge.models.base import MODELS
from adjudge.paper import published
from adjudge.results.result import Result

SUBSET_NAMES: Final = ("first", "random")
SET_FILE_COLUMNS: Final = {"votes.csv": ["task", "worker", "label"], "truth.csv": ["task", "label"]}
Figures = dict[str, Any]  # what JSON can hold


@dataclass(frozen=True, eq=False)
class Questions:
    """A set's questions of the paper: those with truth and at least as many votes as Table 1 gives annotators."""

    name: str
    annotators: int
    votes: pl.DataFrame  # task, worker, label: every vote of these questions, in file order
    truth: pl.DataFrame  # task, label
    fingerprint: str  # of the files they came from

    def __len__(self) -> int:
        return self.votes["task"].n_unique()

    def subset(self, k: int, rule: str = "first", seed: int = 0) -> pl.DataFrame:
        """Return k votes of each question: the first in file order, or drawn at random (the same for every method)."""
        if rule == "random":
            return draw_votes(self.votes, k, seed)
        return self.votes.filter(pl.int_range(pl.len()).over("task") < k)

    def read(self, k: int, rule: str = "first", seed: int = 0) -> Votes:
        """Return `subset` as votes; one vote per question is what the protocol asks for, and no sign of misreading."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SuspiciousVotes)
            return read(self.subset(k, rule, seed))


def draw_votes(votes: pl.DataFrame, k: int, seed: int) -> pl.DataFrame:
    """Return k random votes of each task."""
    drawn = pl.Series("drawn", np.random.default_rng(seed).random(len(votes)))
    return votes.with_columns(drawn).filter(pl.col("drawn").rank("ordinal").over("task") <= k).drop("drawn")


def methods(name: str) -> list[str]:
    """Return the paper's methods that run on a set and that this version has.

    >>> "glad" in methods("adult2")
    False
    """
    return [m for m in published.METHODS if m != "glad" or published.is_binary(name)]


def choose(sets: Iterable[str] | None) -> list[str]:
    """Return the names of the sets to run, in the paper's order; raises on a name that is not one.

    >>> choose(["sp", "bm"])
    ['bm', 'sp']
    """
    wanted = list(sets or published.PAPER_SET_NAMES)
    for name in wanted:
        if name not in published.PAPER_SET_NAMES:
            raise choice_error("data set", name, published.PAPER_SET_NAMES)
    return [name for name in published.PAPER_SET_NAMES if name in wanted]


def require(folder: Path, names: Iterable[str]) -> None:
    """Raise when a set is not in the folder, with the command that fetches what is missing."""
    missing = [n for n in names if not all((folder / n / file).is_file() for file in SET_FILE_COLUMNS)]
    if missing:
        raise InputError(f"{folder} lacks {', '.join(missing)}: adjudge datasets get {' '.join(missing)} -o {folder}")


def load(folder: Path, name: str) -> Questions:
    """Return the paper's questions of a set."""
    require(folder, [name])
    votes, truth = (_read(folder / name / file, columns) for file, columns in SET_FILE_COLUMNS.items())
    k = published.annotators(name)
    enough = votes.group_by("task").len().filter(pl.col("len") >= k).join(truth, on="task", how="semi")
    kept = votes.join(enough, on="task", how="semi", maintain_order="left")
    if kept.is_empty():
        raise InputError(f"{folder / name}: no task has truth and at least {k} votes, as the paper's questions have")
    digest = hashlib.sha256()
    for file in SET_FILE_COLUMNS:
        digest.update((folder / name / file).read_bytes())
    return Questions(name, k, kept, truth, digest.hexdigest())


def _read(path: Path, columns: list[str]) -> pl.DataFrame:
    try:
        return pl.read_csv(path, infer_schema=False).select(columns)
    except (OSError, pl.exceptions.PolarsError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"cannot read {path}: {first} (columns {', '.join(columns)} are expected)") from error


@dataclass(frozen=True)
class CellFolder:
    """A folder of finished cells, a small JSON file each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cells = CellFolder(Path(folder))
    ...     [cells.get("a", {"seed": 1}, lambda: {"found": n})["found"] for n in range(3)]
    [0, 0, 0]
    """

    folder: Path
    done: Callable[[str], object] = lambda _: None  # told the name of each cell that is there

    def get(self, name: str, conditions: Mapping[str, object], compute: Callable[[], Figures]) -> Figures:
        """Return the cell of this name; computed only if it is not there, or was computed under other conditions."""
        stamp = hashlib.sha256(json.dumps(conditions, sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{name}.json"
        found = _read_kept(path, stamp)
        if found is None:
            found = compute()
            self.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"conditions": dict(conditions), "stamp": stamp, "figures": found})
            write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        self.done(name)
        return found


def _read_kept(path: Path, stamp: str) -> Figures | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return dict(kept["figures"]) if kept["stamp"] == stamp else None
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None  # missing or not ours: compute it again


@dataclass(frozen=True)
class Spot:
    """One method on one set with k annotators: a value per trial."""

    accuracy: list[float]
    iterations: list[int]
    seconds: list[float]
    nll: list[float]  # empty for methods without a likelihood

    @property
    def mean(self) -> float:
        """Mean accuracy over the trials."""
        return statistics.fmean(self.accuracy)

    @property
    def spread(self) -> float:
        """Standard deviation of the accuracy over the trials."""
        return statistics.stdev(self.accuracy) if len(self.accuracy) > 1 else 0.0

    @property
    def mean_iterations(self) -> float:
        """Mean number of iterations over the trials."""
        return statistics.fmean(self.iterations)

    @property
    def time(self) -> float:
        """Median seconds of a fit: the first ones warm up."""
        return statistics.median(self.seconds)


Grid = Mapping[tuple[str, str, int], Spot]  # (set, method, annotators)


@dataclass(frozen=True)
class GridPlan:
    """How the votes of a question are chosen, and how often everything is repeated."""

    subset: str = "first"
    trials: int = 10


def fit(
    votes: Votes, model: str, seed: int = 0, *, trace: TraceDetail = "full", threads: int | None = None, **settings: Any
) -> Result:
    """Return the result of a registered model with these settings, even if it runs out of iterations, as the paper's DS does.

    Its confidence is the model's own posterior: the paper has no other, and the timings here are of the paper's method.
    """
    chosen = MODELS[model](seed=seed, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return chosen.fit(votes, engine=AutoEngine(threads=threads), trace=trace, confidence="posterior")


def conditions(questions: Questions, **more: object) -> dict[str, object]:
    """Return what a cell depends on: the data, the version, and its own settings."""
    return {"data": questions.fingerprint, "version": adjudge.__version__, **more}


def run_grid(questions: Questions, plan: GridPlan, cells: CellFolder) -> dict[tuple[str, str, int], Spot]:
    """Return a set's part of the grid."""
    found = {}
    for k in range(1, questions.annotators + 1):
        for model in methods(questions.name):
            under = conditions(questions, subset=plan.subset, trials=plan.trials)
            name = f"grid-{questions.name}-{k}-{model}-{plan.subset}"
            found[questions.name, model, k] = Spot(**cells.get(name, under, lambda k=k, m=model: _spot(questions, m, k, plan)))  # type: ignore[misc]
    return found


def _spot(questions: Questions, model: str, k: int, plan: GridPlan) -> Figures:
    out: Figures = {"accuracy": [], "iterations": [], "seconds": [], "nll": []}
    votes = questions.read(k)
    for trial in range(plan.trials):
        if plan.subset == "random":
            votes = questions.read(k, "random", trial)
        began = time.perf_counter()
        result = fit(votes, model, trial, trace="light")
        out["seconds"].append(time.perf_counter() - began)
        out["accuracy"].append(evaluate(result, questions.truth).accuracy)
        out["iterations"].append(result.iterations)
        if result.log_likelihood == result.log_likelihood:
            out["nll"].append(-result.log_likelihood)
    return out
