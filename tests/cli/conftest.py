from typing import NamedTuple

import pytest


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(adjudge):
    return lambda *arguments: Done(*adjudge(*arguments))


@pytest.fixture
def votes_csv(tmp_path):
    """A small file of votes and one of their truth; returns the path of the votes."""
    import adjudge as adj

    crowd = adj.simulate(tasks=40, workers=6, labels=3, votes_per_task=3, seed=4)
    crowd.votes.write_csv(tmp_path / "votes.csv")
    crowd.truth.write_csv(tmp_path / "truth.csv")
    return tmp_path / "votes.csv"
