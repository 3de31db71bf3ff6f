"""Warm starts on real sets: passes and likelihood of a fit resumed after 1% new votes, against one from the beginning.

    ADJUDGE_DATA=… python benchmarks/warm.py

prints the table of docs/what-you-know.md: medians over eight random splits, then the last percent of the file.
"""

import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import adjudge as adj
from adjudge.models.base import make

SETS = ("trec2010", "sp")
MODELS = ("fds", "ds", "hybrid")
SPLITS = 8


class Saved(NamedTuple):
    """The passes a warm start saved, and the likelihood it gained or lost."""

    share: float  # of the cold fit's passes
    gain: float  # of the likelihood, relative to the cold fit's
    gain_at_a_third: float  # the same, stopped after a third of the cold fit's passes


def main() -> None:
    warnings.simplefilter("ignore", adj.NotConverged)
    print("| set | model | passes | likelihood | likelihood after a third of the passes | last percent: passes | likelihood |")
    print("|---|---|---|---|---|---|---|")
    for name in SETS:
        votes = pl.read_csv(Path(os.environ["ADJUDGE_DATA"]) / name / "votes.csv", infer_schema=False)
        for model in MODELS:
            splits = [saved(votes.sample(fraction=1.0, shuffle=True, seed=seed), model) for seed in range(SPLITS)]
            middle, last = Saved(*np.median(splits, axis=0)), saved(votes, model)
            print(
                f"| {name} | {model} | {middle.share:.2f} | {middle.gain:+.1e} | {middle.gain_at_a_third:+.1e} "
                f"| {last.share:.2f} | {last.gain:+.1e} |"
            )


def saved(votes: pl.DataFrame, model: str) -> Saved:
    before = adj.aggregate(votes.head(int(0.99 * len(votes))), model=model)
    cold = adj.aggregate(votes, model=model)
    warm = adj.aggregate(votes, model=model, warm_start=before)
    third = adj.aggregate(votes, model=make(model, {"max_iter": max(1, cold.iterations // 3)}), warm_start=before)
    gains = [(fit.log_likelihood - cold.log_likelihood) / abs(cold.log_likelihood) for fit in (warm, third)]
    return Saved(warm.iterations / cold.iterations, *gains)


if __name__ == "__main__":
    main()
