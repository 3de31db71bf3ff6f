# ruff: noqa: PLW0108 (a picture is drawn when it is called)
"""The pictures of the docs, from simulated votes: the same votes, the same files.

    python benchmarks/pictures.py [NAME ...]

writes docs/plots/NAME.svg, all of them unless some are named. Nothing here is timed.
"""

import sys
from functools import cache
from pathlib import Path

import adjudge as adj
from adjudge.evaluation.ranking.simulate import simulate_comparisons
from adjudge.results import plotting

FOLDER = Path(__file__).parents[1] / "docs" / "plots"
ANIMALS = ["bird", "cat", "dog", "other"]
JUDGES = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove"]
COST = dict(zip(JUDGES, (0.05, 0.02, 0.004, 0.04, 0.003, 0.006, 0.001), strict=True))  # of one vote


@cache
def crowd():
    """Forty workers, among them spammers, an adversary and a ring that copies."""
    return adj.simulate(
        tasks=800, workers=40, power=1.0, spammers=0.1, adversaries=0.03, colluders=0.1, seed=5, labels=4, label_names=ANIMALS
    )


@cache
def judges():
    """Seven judges who all see every task, and err together now and then."""
    return adj.simulate(
        tasks=300,
        workers=7,
        votes_per_task=7,
        shared_error=0.2,
        seed=3,
        labels=2,
        label_names=["bad", "good"],
        worker_names=JUDGES,
    )


@cache
def rings():
    """Workers of whom some copy one another."""
    return adj.simulate(tasks=400, workers=24, votes_per_task=12, colluders=0.35, ring=4, seed=2)


@cache
def many():
    """Five thousand workers and 25 labels."""
    return adj.simulate(tasks=40_000, workers=5000, labels=25, power=0.8, spammers=0.05, seed=2)


def battles():
    """Twelve items, compared by judges who differ and favour the left side."""
    drawn = simulate_comparisons(items=12, comparisons=1500, judges=6, reliability_spread=0.4, position=0.3, seed=2)
    return drawn.comparisons


@cache
def fitted(votes, model="auto"):
    return adj.aggregate(votes().votes, model=model)


def doubtful():
    """A task of the crowd with a doubtful label."""
    return fitted(crowd).labels.sort("confidence")["task"][60]


PICTURES = {
    "workers": lambda: fitted(crowd).plot.workers(),
    "workers-dark": lambda: fitted(crowd).plot.workers(theme="dark"),
    "workers-judges": lambda: fitted(judges).plot.workers(),
    "workers-many": lambda: fitted(many).plot.workers(),
    "confusion": lambda: fitted(crowd).plot.confusion(),
    "confusion-worker": lambda: fitted(crowd).plot.confusion("w2"),
    "confusion-many": lambda: fitted(many).plot.confusion(),
    "tasks": lambda: fitted(crowd).plot.tasks(),
    "agreement": lambda: fitted(judges).plot.agreement(),
    "agreement-rings": lambda: fitted(rings).plot.agreement(),
    "reliability": lambda: fitted(crowd).plot.reliability(crowd().truth),
    "trace": lambda: fitted(crowd, "ds").plot.trace(),
    "shares": lambda: fitted(crowd).plot.shares(),
    "explain": lambda: fitted(crowd).plot.explain(doubtful()),
    "comparison": lambda: plotting.draw("studies:comparison", adj.compare(crowd().votes, truth=crowd().truth)),
    "panel": lambda: plotting.draw("studies:panel", adj.panel(judges().votes, truth=judges().truth, cost=COST)),
    "ranking": lambda: adj.rank(battles()).plot(),
}


def main(names):
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        PICTURES[name]().save(FOLDER / f"{name}.svg")
        print(f"{name}.svg: {(FOLDER / f'{name}.svg').stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
