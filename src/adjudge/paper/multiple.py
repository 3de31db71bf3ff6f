"""Table 5: several correct options, on the multi-label sets at hand (the paper's own was never published)."""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Final, cast

import numpy as np
import polars as pl

import adjudge
from adjudge.data.options import ModelName
from adjudge.errors import NotConverged
from adjudge.evaluation.truth import evaluate
from adjudge.models.aggregation import aggregate
from adjudge.paper import published
from adjudge.paper.grid import Cells, Figures

SETS: Final = ("snow_affect_ml50", "snow_affect_ml25")
ANNOTATORS: Final = 5
TRIALS: Final = 5  # "averaged over five subsets"


def at_hand(folder: Path) -> list[str]:
    """Return the multi-label sets that the data folder has."""
    return [name for name in SETS if (folder / name / "votes.csv").is_file() and (folder / name / "truth.csv").is_file()]


def run(folder: Path, cells: Cells) -> pl.DataFrame:
    """Return set, method, accuracy per (task, option), seconds and iterations, averaged over random subsets of the votes."""
    rows = []
    for name in at_hand(folder):
        for model in published.FAMILY:
            under = {"version": adjudge.__version__, "bytes": (folder / name / "votes.csv").stat().st_size}
            found = cells.get(f"multiple-{name}-{model}", under, lambda n=name, m=model: _average(folder / n, m))  # type: ignore[misc]
            rows.append((name, model, found["accuracy"], found["seconds"], found["iterations"]))
    return pl.DataFrame(rows, ["set", "method", "accuracy", "seconds", "iterations"], orient="row")


def _average(folder: Path, model: str) -> Figures:
    votes = pl.read_csv(folder / "votes.csv", infer_schema=False)
    found: dict[str, list[float]] = {"accuracy": [], "seconds": [], "iterations": []}
    for trial in range(TRIALS):
        drawn = pl.Series("drawn", np.random.default_rng(trial).random(len(votes)))
        some = votes.with_columns(drawn).filter(pl.col("drawn").rank("ordinal").over("task") <= ANNOTATORS).drop("drawn")
        with tempfile.TemporaryDirectory() as aside, warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            path = Path(aside) / "votes.csv"  # an empty cell is a vote for no option: read as any file of votes is
            some.write_csv(path)
            began = time.perf_counter()
            result = aggregate(path, cast(ModelName, model), seed=trial, multi=True, confidence="posterior")
            found["seconds"].append(time.perf_counter() - began)
            evaluation = evaluate(result, folder / "truth.csv", multi=True)
        found["accuracy"].append(evaluation.option_accuracy)
        found["iterations"].append(result.iterations)
    return {name: statistics.fmean(values) for name, values in found.items()}
