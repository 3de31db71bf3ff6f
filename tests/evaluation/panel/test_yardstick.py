"""Shares, gains and their intervals, compared with plain loops and truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.evaluation.inputs import subset, vote_tasks
from adjudge.evaluation.panel.judges import RandomPanels, answers
from adjudge.evaluation.panel.yardstick import (
    Yardstick,
    draw_panels,
    majority_shares,
    of_result,
    of_truth,
    some_tasks,
    thin_votes,
)


def loop_shares(counts):
    out = []
    for task in counts:
        best = max(task)
        winners = [k for k, n in enumerate(task) if n == best and n > 0]
        out.append([1 / len(winners) if k in winners else 0.0 for k in range(len(task))])
    return out


@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=6))
def test_majority_shares_are_those_of_a_loop(counts):
    assert majority_shares(np.array(counts)).tolist() == loop_shares(counts)


def test_a_gain_is_the_difference_of_two_accuracies():
    truth = of_truth(np.array([0, 1, 2, -1, 3]), 3)
    assert truth.tasks.tolist() == [0, 1, 2, 4]
    before, after = (truth.shares_of(np.array(labels)) for labels in ([0, 0, -1, 0, 0], [0, 1, 2, 0, 0]))
    assert truth.right(before).tolist() == [1, 0, 0, 0]
    gain = truth.gain(after - before)
    assert gain == pytest.approx(2 / 4)
    change = np.array([0, 1, 1, 0])
    assert gain.high - gain == pytest.approx(1.6448536 * change.std() / 2)
    assert truth.gain(after - before, pseudo=1.0).high > gain.high
    assert truth.gain(after - before, np.array([0.2, 0.8])).high > gain.high


def test_doubt_about_truth_widens_a_gain():
    tasks, change = np.arange(50), np.tile([[1.0, -1.0], [-1.0, 1.0]], (25, 1))
    sure, unsure = (Yardstick(tasks, np.tile([[p, 1 - p]], (50, 1))) for p in (1.0, 0.6))
    assert sure.gain(change) == pytest.approx(unsure.gain(change)) == pytest.approx(0)
    assert unsure.gain(change).high > sure.gain(change).high


def test_what_a_judge_adds_is_that_of_a_loop():
    crowd = adj.simulate(tasks=12, workers=5, labels=3, votes_per_task=(3, 5), seed=2)
    votes = adj.read(crowd.votes)
    true = np.array([votes.labels.texts().index(label) for label in crowd.truth["label"]])
    yardstick, answered = of_truth(true, 3), answers(votes, np.arange(12))
    panels = RandomPanels.of(answered, np.random.default_rng(1))
    judge, beside = 2, 4
    gains = []
    for members in panels.members:
        others = [w for w in range(5) if (members[w] and w != judge) or w == beside]
        before, after = (answered[who].sum(axis=0) for who in (others, [*others, judge]))
        gains.append([s[c] - r[c] for s, r, c in zip(loop_shares(after), loop_shares(before), true, strict=True)])
    assert panels.gain(judge, beside, yardstick) == pytest.approx(np.mean(gains))


def test_intervals_of_gains_hold_the_truth():
    """On 40 small crowds of the same workers, the interval holds what a large one shows nine times of ten, with truth or without."""
    accuracy = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    confusions = np.where(np.eye(3, dtype=bool), accuracy[:, None, None], (1 - accuracy[:, None, None]) / 2)

    def gains(tasks, seed):
        crowd = adj.simulate(tasks=tasks, confusions=confusions, votes_per_task=5, seed=seed)
        votes = adj.read(crowd.votes)
        names = votes.labels.texts()
        truth = of_truth(np.array([names.index(label) for label in crowd.truth["label"]]), 3)
        estimate = of_result(adj.aggregate(votes))
        panels = RandomPanels.of(answers(votes, np.arange(tasks)), np.random.default_rng(1))
        order = [votes.workers.texts().index(f"w{n}") for n in range(5)]
        return [[panels.gain(order[n], order[(n + 1) % 5], one) for n in range(5)] for one in (truth, estimate)]

    real = [float(one) for one in gains(10_000, 99)[0]]
    drawn = [gains(150, seed) for seed in range(40)]
    for kind in (0, 1):
        held = [one.low <= true <= one.high for found in drawn for one, true in zip(found[kind], real, strict=True)]
        assert np.mean(held) > 0.8, kind


def test_kept_votes_are_the_votes_kept():
    votes = adj.read(adj.simulate(tasks=30, workers=6, votes_per_task=4, seed=1).votes)
    mask = np.random.default_rng(0).random(len(votes)) < 0.5
    part = subset(votes, mask)

    def triples(v, keep):
        worker = v.row_worker()[v.row]
        return [
            (v.tasks[t], v.workers[w], v.labels[k])
            for t, w, k, keeps in zip(vote_tasks(v), worker, v.row_label[v.row], keep, strict=True)
            if keeps
        ]

    assert triples(part.votes, np.ones(len(part.votes), bool)) == triples(votes, mask)
    assert [votes.tasks[t] for t in part.tasks] == part.votes.tasks.ids()


def test_draws_have_their_size():
    votes = adj.read(adj.simulate(tasks=30, workers=6, votes_per_task=(2, 5), seed=1).votes)
    rng = np.random.default_rng(0)
    size = np.diff(votes.task_ptr)
    left = np.add.reduceat(thin_votes(votes, 3, rng).astype(int), votes.task_ptr[:-1])
    assert left.tolist() == np.minimum(size, 3).tolist()
    assert (draw_panels(20, 7, 5, rng).sum(axis=1) == 7).all()
    assert len(draw_panels(5, 2, 50, rng)) == 10
    first = np.zeros(30, bool)
    first[[3, 20]] = True
    part = some_tasks(votes, first, 40, rng)
    assert {3, 20} <= set(part.tasks.tolist())
    assert len(part.votes) <= 40
