"""Chosen panels: no winner's curse."""

import numpy as np

import adjudge as adj
from adjudge.evaluation.panel.panels import Panels
from adjudge.evaluation.panel.yardstick import Decider, of_truth
from adjudge.models.base import make


def test_a_choice_among_equals_is_not_praised():
    """Of forty judges who guess, the best on the tasks seen looks good; measured where the choice has not looked, it guesses."""
    rng = np.random.default_rng(1)
    rows = [(task, f"j{judge}", str(rng.integers(2))) for task in range(60) for judge in range(40)]
    votes = adj.read(rows)
    yardstick = of_truth(rng.integers(2, size=60), 2)
    decider = Decider(votes, make("mv", {"seed": 0}, {"seed": 0}))
    chosen = Panels(decider, yardstick, None, 0, lambda _: None).choose(np.zeros(60, np.int64))
    first = chosen[0]
    seen = float(yardstick.right(yardstick.shares_of(decider.labels((votes.row_worker() == first.workers[0])[votes.row]))).mean())
    assert seen > 0.6, "the best of forty on the tasks that it was chosen by"
    assert np.mean([one.accuracy for one in chosen]) < 0.56
    assert [one.size for one in chosen] == list(range(1, 13))


def test_panels_that_spare_money_are_among_them():
    crowd = adj.simulate(tasks=150, workers=6, votes_per_task=6, seed=4)
    dear = adj.panel(crowd.votes, truth=crowd.truth, cost={f"w{n}": 10**n for n in range(6)}, sizes=[1], subsets=1, model="mv")
    same = adj.panel(crowd.votes, truth=crowd.truth, cost=1, sizes=[1], subsets=1, model="mv")
    assert len(dear.chosen) > len(same.chosen) == 6
    assert min(one.cost for one in dear.chosen if one.size == 3) == 111
