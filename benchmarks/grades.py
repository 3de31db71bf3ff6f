"""Grades of biased judges: the accuracy of the default and of model "ordinal" compared with means and unordered models.

`python benchmarks/grades.py` simulates judges on grades 1 to 5, and counts how often `auto` takes names that are numbers for
grades; with ADJUDGE_DATA it measures the sets with an order, too, and labelme, whose eight labels are names.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import adjudge as adj

MODELS = ("mv", "auto", "fds", "ds", "ordinal")
CROWDS: dict[str, dict[str, Any]] = {
    "700 tasks, all 7 judges": {"tasks": 700},
    "700 tasks, 4 of 7 judges each": {"tasks": 700, "per_task": 4},
    "150 tasks, all 7 judges": {"tasks": 150},
    "60 tasks, 3 of 7 judges each": {"tasks": 60, "per_task": 3},
    "500 tasks, true quality between grades": {"tasks": 500, "continuous": True},
}
JURIES: dict[str, dict[str, Any]] = {
    "1000 items, 8 judges with a bias of .5": {"bias": 0.5},
    "1000 items, 8 judges without bias": {"bias": 0.0},
    "1000 items, 8 noisy judges": {"bias": 0.2, "noise": 1.0},
    "300 items, 8 judges, 2.4 grades each": {"items": 300, "answered": 0.3},
}
NAMED_SETS = ("labelme",)
SETS = {"adult2": ("G", "P", "R", "X"), "trec2010": ("0", "1", "2")}
SEEDS = 10


def crowd(seed: int, tasks: int, per_task: int = 7, continuous: bool = False) -> tuple[pl.DataFrame, dict[int, int]]:
    """Return votes of 7 judges, with a bias of standard deviation .8 and noise of .4 to .9, and the truth."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(3.0, 1.1, tasks) if continuous else rng.integers(1, 6, tasks).astype(float)
    bias, noise = rng.normal(0.0, 0.8, 7), rng.uniform(0.4, 0.9, 7)
    judge = np.argsort(rng.random((tasks, 7)), axis=1)[:, :per_task]
    seen = quality[:, None] + bias[judge] + noise[judge] * rng.normal(size=judge.shape)
    task = np.repeat(np.arange(tasks), per_task)
    grades = np.clip(np.rint(seen), 1, 5).astype(int).ravel()
    truth = np.clip(np.rint(quality), 1, 5).astype(int)
    return pl.DataFrame({"task": task, "worker": judge.ravel(), "label": grades}), dict(enumerate(truth.tolist()))


def jury(
    seed: int, items: int = 1000, bias: float = 0.5, noise: float = 0.55, answered: float = 0.8
) -> tuple[pl.DataFrame, dict[int, int]]:
    """Return grades by 8 judges of items whose quality lies between grades, and the truth."""
    rng = np.random.default_rng(seed)
    quality, shift = rng.normal(3.0, 1.1, items), rng.normal(0.0, bias, 8)
    item, judge = np.nonzero(rng.random((items, 8)) < answered)
    seen = quality[item] + shift[judge] + noise * rng.normal(size=len(item))
    grades = np.clip(np.rint(seen), 1, 5).astype(int)
    truth = dict(enumerate(np.clip(np.rint(quality), 1, 5).astype(int).tolist()))
    return pl.DataFrame({"task": item, "worker": judge, "label": grades}), truth


def mistaken() -> tuple[int, int]:
    """Return how often `auto` took names that are numbers for grades, and of how many crowds."""
    chosen = []
    for labels in (3, 4, 5, 8):
        for skill in (0.4, 0.6, 0.8):
            for seed in range(SEEDS):
                votes = adj.simulate(tasks=300, workers=15, labels=labels, skill=skill, seed=seed).votes
                numbers = votes.with_columns(pl.col("label").str.slice(1).cast(pl.Int64))
                chosen.append(adj.aggregate(numbers).facts["chose"] == "ordinal")
    return sum(chosen), len(chosen)


def answers(votes: pl.DataFrame) -> dict[str, Any]:
    """Return what each way says of whole numbers as grades."""
    low, high = votes["label"].min(), votes["label"].max()
    spread = ((pl.col("label") - pl.col("label").mean()) / pl.col("label").std().fill_null(1.0).clip(1e-9)).over("worker")
    standard = pl.col("z").mean() * votes["label"].std() + votes["label"].mean()
    by_task = votes.with_columns(z=spread.fill_nan(0.0)).group_by("task")
    means = by_task.agg(mean=pl.col("label").mean().round().cast(pl.Int64), z=standard.round().clip(low, high).cast(pl.Int64))
    out: dict[str, Any] = {
        "rounded mean": dict(means.select("task", "mean").iter_rows()),
        "standardised mean": dict(means.select("task", "z").iter_rows()),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return out | {model: adj.aggregate(votes, model=model) for model in MODELS}


def main() -> None:
    """Print a line per crowd and way: accuracy, and for the shared sets mean absolute error and kappa."""
    both = [(crowd, name, settings) for name, settings in CROWDS.items()]
    both += [(jury, name, settings) for name, settings in JURIES.items()]
    for make, name, settings in both:
        found: dict[str, list[float]] = {}
        for seed in range(SEEDS):
            votes, truth = make(seed, **settings)
            for way, labels in answers(votes).items():
                found.setdefault(way, []).append(adj.evaluate(labels, truth).accuracy)
        print(f"{name}: " + ", ".join(f"{way} {np.mean(some):.3f}" for way, some in found.items()))
    print("names taken for grades: {} of {} crowds".format(*mistaken()))
    folder = os.environ.get("ADJUDGE_DATA")
    for name in NAMED_SETS if folder else ():
        votes, truth = (Path(str(folder), name, f"{part}.csv") for part in ("votes", "truth"))
        found_labels = {way: adj.aggregate(votes, model=way) for way in MODELS}
        print(f"{name}: auto chose {found_labels['auto'].facts['chose']}; ", end="")
        print(", ".join(f"{way} {adj.evaluate(labels, truth).accuracy:.4f}" for way, labels in found_labels.items()))
    for name, order in SETS.items() if folder else ():
        place = {label: n for n, label in enumerate(order)}
        given = {part: pl.read_csv(Path(str(folder), name, f"{part}.csv"), infer_schema=False) for part in ("votes", "truth")}
        frames = {
            part: frame.filter(pl.col("label").is_in(order)).with_columns(pl.col("label").replace_strict(place))
            for part, frame in given.items()
        }
        for way, labels in answers(frames["votes"]).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", adj.SuspiciousVotes)
                e = adj.evaluate(labels, frames["truth"])
            print(f"{name}, {way}: accuracy {e.accuracy:.4f}, error {e.mean_absolute_error:.3f}, kappa {e.quadratic_kappa:.3f}")


if __name__ == "__main__":
    main()
