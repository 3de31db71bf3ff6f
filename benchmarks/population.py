"""The population prior on real sets: accuracy of fds, ds and hybrid without it, at fixed strengths, and at the estimated one.

    ADJUDGE_DATA=… python benchmarks/population.py

prints the tables of docs/what-you-know.md.
"""

import os
import warnings
from pathlib import Path

import adjudge as adj
from adjudge.models.base import make

SETS = ("adult2", "bm", "trec2010", "rte", "labelme", "sp", "snow_temp", "zencrowd_in")
STRENGTHS = (0.0, 1.0, 3.0, 10.0, 30.0, "auto")
MODELS = ("fds", "ds", "hybrid")


def main() -> None:
    warnings.simplefilter("ignore", adj.NotConverged)
    folder = Path(os.environ["ADJUDGE_DATA"])
    votes = {name: adj.read(folder / name / "votes.csv") for name in SETS}
    majority = {name: accuracy(folder, name, adj.aggregate(votes[name], model="mv")) for name in SETS}
    print(f"| model | strength | {' | '.join(SETS)} | mean | worst against mv |")
    print("|---|---|" + "---|" * (len(SETS) + 2))
    print(f"| mv | | {' | '.join(told(majority[n]) for n in SETS)} | {told(mean(majority.values()))} | |")
    for model in MODELS:
        for strength in STRENGTHS:
            fits = {name: adj.aggregate(votes[name], model=make(model, {"strength": strength})) for name in SETS}
            found = {name: accuracy(folder, name, fits[name]) for name in SETS}
            worst = min(found[name] - majority[name] for name in SETS)
            said = f"auto ({min(f.strength for f in fits.values()):.1f} to {max(f.strength for f in fits.values()):.0f})"
            shown = said if strength == "auto" else f"{strength:g}"
            line = " | ".join(told(found[n]) for n in SETS)
            print(f"| {model} | {shown} | {line} | {told(mean(found.values()))} | {100 * worst:+.1f} |")


def accuracy(folder: Path, name: str, result: adj.Result) -> float:
    return adj.evaluate(result, folder / name / "truth.csv").accuracy


def mean(values) -> float:
    values = list(values)
    return sum(values) / len(values)


def told(value: float) -> str:
    return f"{value:.4f}".removeprefix("0")


if __name__ == "__main__":
    main()
