"""A small crowd that has one of everything, and its page."""

import polars as pl
import pytest

import adjudge as adj

EVIL = "<img src=x onerror=alert(1)>"
LABEL = "</script>"


@pytest.fixture(scope="session")
def crowd():
    """Votes of eight workers, one of whom always says the same, one of whom copies; names are markup."""
    made = adj.simulate(tasks=120, workers=6, votes_per_task=5, labels=3, seed=4)
    names = {"l0": LABEL, "l1": "a & b", "l2": "cat"}
    votes = made.votes.with_columns(label=pl.col("label").replace_strict(names))
    tasks = votes["task"].unique(maintain_order=True)
    spam = pl.DataFrame({"task": tasks, "worker": EVIL, "label": LABEL})
    copied = votes.filter(pl.col("worker") == "w1").with_columns(worker=pl.lit("copy of w1"))
    truth = made.truth.with_columns(label=pl.col("label").replace_strict(names))
    return pl.concat([votes, spam, copied]), truth


@pytest.fixture(scope="session")
def result(crowd):
    return adj.aggregate(crowd[0])
