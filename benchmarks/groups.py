"""Panels of LLM judges in which one model has six voices: accuracy with every judge voting, with one vote per model, and
with one vote per group of judges who answer alike.

    ADJUDGE_DATA=… python benchmarks/groups.py

prints the table of docs/correlated-judges.md: the mean of 20 random panels of eleven judges, six prompts of one model and
one of each other.
"""

import os
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj

PANELS, VOICES = 20, 6


def main() -> None:
    folder = Path(os.environ["ADJUDGE_DATA"]) / "llmbar_natural"
    votes, truth = pl.read_csv(folder / "votes.csv"), folder / "truth.csv"
    judges: dict[str, list[str]] = {}
    for judge in sorted(votes["worker"].unique()):
        judges.setdefault(judge.split("/")[0], []).append(judge)
    print("| six voices of | mv: all vote | one per model | answers_like | auto: all vote | one per model | answers_like |")
    print("|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for model, voices in judges.items():
        found: dict[tuple[str, int], list[float]] = {}
        for _ in range(PANELS):
            panel = [*rng.choice(voices, VOICES, replace=False), *(rng.choice(o) for m, o in judges.items() if m != model)]
            some = votes.filter(pl.col("worker").is_in(panel))
            for name in ("mv", "auto"):
                for way, groups in enumerate((None, {judge: judge.split("/")[0] for judge in panel}, "answers_like")):
                    result = adj.aggregate(some, model=name, confidence="honest", groups=groups)
                    found.setdefault((name, way), []).append(adj.evaluate(result, truth).accuracy)
        print(f"| {model} | {' | '.join(f'{np.mean(values):.3f}'.removeprefix('0') for values in found.values())} |")


if __name__ == "__main__":
    main()
