"""Figure 1's grid: every method on every set at every number of annotators. An interrupted run is resumed."""

from __future__ import annotations

import hashlib
import json
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import adjudge
from adjudge.data.options import ModelName
from adjudge.data.votes import Votes
from adjudge.errors import NotConverged
from adjudge.evaluation.truth import evaluate
from adjudge.io.write import write_aside
from adjudge.models.aggregation import aggregate
from adjudge.models.base import MODELS
from adjudge.paper.protocol import Questions, methods
from adjudge.results.result import Result

Figures = dict[str, Any]  # what JSON can hold


@dataclass(frozen=True)
class Cells:
    """A folder of finished cells, a small JSON file each.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cells = Cells(Path(folder))
    ...     [cells.get("a", {"seed": 1}, lambda: {"found": n})["found"] for n in range(3)]
    [0, 0, 0]
    """

    folder: Path
    done: Callable[[str], object] = lambda _: None  # told the name of each cell that is there

    def get(self, name: str, conditions: Mapping[str, object], compute: Callable[[], Figures]) -> Figures:
        """Return the cell of this name; computed only if it is not there, or was computed under other conditions."""
        stamp = hashlib.sha256(json.dumps(conditions, sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{name}.json"
        found = _kept(path, stamp)
        if found is None:
            found = compute()
            self.folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"conditions": dict(conditions), "stamp": stamp, "figures": found})
            write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))
        self.done(name)
        return found


def _kept(path: Path, stamp: str) -> Figures | None:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return dict(kept["figures"]) if kept["stamp"] == stamp else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # not there, or not ours: computed anew


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
class Plan:
    """How the votes of a question are chosen, and how often everything is repeated."""

    subset: str = "first"
    trials: int = 10


def fit(votes: Votes, model: str, seed: int = 0, **options: Any) -> Result:
    """Return the result of a registered model; one that runs out of iterations (as the paper's DS does) is taken as it is.

    Its confidence is the model's own posterior: the paper has no other, and what is timed here is the paper's method.
    """
    if "seed" in MODELS[model].options():
        options["seed"] = seed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        result: Result = aggregate(votes, cast(ModelName, model), confidence="posterior", **options)
    return result


def conditions(questions: Questions, **more: object) -> dict[str, object]:
    """Return what a cell depends on: the data, the version, and its own settings."""
    return {"data": questions.fingerprint, "version": adjudge.__version__, **more}


def run(questions: Questions, plan: Plan, cells: Cells) -> dict[tuple[str, str, int], Spot]:
    """Return a set's part of the grid."""
    found = {}
    for k in range(1, questions.annotators + 1):
        for model in methods(questions.name):
            under = conditions(questions, subset=plan.subset, trials=plan.trials)
            name = f"grid-{questions.name}-{k}-{model}-{plan.subset}"
            found[questions.name, model, k] = Spot(**cells.get(name, under, lambda k=k, m=model: _spot(questions, m, k, plan)))  # type: ignore[misc]
    return found


def _spot(questions: Questions, model: str, k: int, plan: Plan) -> Figures:
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
