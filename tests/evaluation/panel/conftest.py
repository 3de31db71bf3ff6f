import numpy as np
import polars as pl
import pytest

import adjudge as adj


def coin(accuracy, labels=3):
    """A confusion with the same accuracy for every label."""
    out = np.full((labels, labels), (1 - accuracy) / (labels - 1))
    np.fill_diagonal(out, accuracy)
    return out


@pytest.fixture(scope="session")
def judges():
    """Votes and truth of six ordinary judges, an expert, one who guesses, and a copy of the first."""
    accuracy = {**{f"o{n}": 0.7 for n in range(6)}, "expert": 0.95, "guess": 1 / 3}
    crowd = adj.simulate(
        tasks=300, votes_per_task=8, confusions=[coin(a) for a in accuracy.values()], worker_names=list(accuracy), seed=3
    )
    copy = crowd.votes.filter(pl.col("worker") == "o0").with_columns(worker=pl.lit("copy"))
    return pl.concat([crowd.votes, copy]), crowd.truth


@pytest.fixture(scope="session")
def study(judges):
    """The judges, looked at with truth and costs."""
    votes, truth = judges
    return adj.panel(votes, truth=truth, cost={w: 9 if w == "expert" else 1 for w in votes["worker"].unique()}, subsets=12)


@pytest.fixture(scope="session")
def blind(judges):
    """The judges, looked at without truth."""
    return adj.panel(judges[0], subsets=12)
