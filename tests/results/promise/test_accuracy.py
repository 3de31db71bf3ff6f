"""Intervals of accuracy hold what they promise, and use honest doubt where there is enough gold."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.results.promise.accuracy import interval_of
from fitting import aggregate

CROWD = adj.simulate(tasks=1500, workers=25, votes_per_task=3, skill=0.65, seed=4)
TRUTH = dict(CROWD.truth.iter_rows())


@pytest.fixture(scope="module")
def result():
    return aggregate(CROWD.votes)


def draws(n, many, rng):
    """Intervals of random gold on labels whose doubt is true, and the real accuracy."""
    confidence = rng.beta(6, 1, 3000)
    wrong = rng.random(3000) < 1 - confidence
    golds = [rng.choice(3000, n, replace=False) for _ in range(many)]
    return [interval_of(confidence, gold, wrong[gold], 0.9) for gold in golds], 1 - wrong.mean()


@pytest.mark.parametrize("n", [40, 150, 400])
def test_nine_of_ten_intervals_hold_the_accuracy(n):
    intervals, accuracy = draws(n, 600, np.random.default_rng(n))
    assert 0.865 <= np.mean([low <= accuracy <= high for low, high in intervals]) <= 0.95


def test_doubt_saves_gold():
    rng = np.random.default_rng(2)
    confidence = np.where(rng.random(3000) < 0.8, 0.99, 0.5)
    wrong = rng.random(3000) < 1 - confidence
    gold = rng.choice(3000, 300, replace=False)
    low, high = interval_of(confidence, gold, wrong[gold], 0.9)
    flat_low, flat_high = interval_of(np.full(3000, 0.9), gold, wrong[gold], 0.9)
    assert high - low < 0.9 * (flat_high - flat_low)


def test_all_tasks_leave_no_doubt():
    confidence = np.full(60, 0.8)
    low, high = interval_of(confidence, np.arange(60), np.arange(60) < 6, 0.9)
    assert low == pytest.approx(0.9, abs=1e-3)
    assert high == pytest.approx(0.9, abs=1e-3)


def test_a_result_takes_gold_of_any_kind(result, tmp_path):
    draw = result.draw_gold(120, floor=0, seed=1)
    gold = {task: TRUTH[task] for task in draw["task"]}
    labels = dict(result.labels.select("task", "label").iter_rows())
    wrong = np.array([labels[task] != gold[task] for task in gold])
    place = {task: at for at, task in enumerate(result.labels["task"])}
    expected = interval_of(result.labels["confidence"].to_numpy(), np.array([place[task] for task in gold]), wrong, 0.9)
    assert result.accuracy_interval(gold) == pytest.approx(expected)
    assert result.accuracy_interval(CROWD.truth.filter(CROWD.truth["task"].is_in(list(gold)))) == pytest.approx(expected)
    assert result.accuracy_interval(gold, draw=draw) == pytest.approx(expected)
    assert expected.low < 1 - wrong.mean() < expected.high


def test_a_part_is_not_taken_for_the_whole(result):
    draw = result.draw_gold(100, floor=0.8, seed=1)
    gold = {task: TRUTH[task] for task in draw["task"]}
    with pytest.raises(adj.InputError, match=r"drawn from the \d+ tasks with a confidence of at least 0.8: give draw="):
        result.accuracy_interval(gold)
    low, high = result.accuracy_interval(gold, draw=draw)
    labels = result.labels.filter(result.labels["confidence"] >= 0.8)
    accuracy = np.mean([TRUTH[task] == label for task, label in labels.select("task", "label").iter_rows()])
    assert low < accuracy < high
    gold.popitem()
    with pytest.raises(adj.InputError, match="1 of the 100 drawn tasks have no answer"):
        result.accuracy_interval(gold, draw=draw)


def test_what_is_refused(result):
    with pytest.raises(adj.OptionError, match="level is 1"):
        result.accuracy_interval({"t1": "l0"}, level=1)
    with pytest.raises(adj.InputError, match="answers none of the tasks"):
        result.accuracy_interval({"nobody": "l0"})


def test_plans_follow_honest_confidence(result):
    assert result.gold_needed(0.2, 0.3) <= result.gold_needed(0.4, 0.3)
    assert result.gold_needed(1.0, 0.01) is None
    with pytest.raises(adj.OptionError, match="share is 0"):
        result.gold_needed(0)
