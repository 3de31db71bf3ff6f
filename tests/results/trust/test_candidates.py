"""Many labels: only those given on a task are distinguished, which changes little but the cost."""

import numpy as np
import pytest

import adjudge as adj
from adjudge.results.trust import posterior
from adjudge.results.workers import assess


def crowd(labels, tasks=400, workers=30, per_task=5, seed=0):
    draw = np.random.default_rng(seed)
    truth, skill = draw.integers(0, labels, tasks), np.clip(draw.normal(0.7, 0.15, workers), 0.1, 0.98)
    skill[: workers // 6] = 0.0
    return [
        (t, int(w), int(truth[t] if draw.random() < skill[w] else draw.integers(labels)))
        for t in range(tasks)
        for w in draw.choice(workers, per_task, replace=False)
    ]


def both(monkeypatch, rows, gold=None):
    """Verdicts with all labels distinguished, and with few."""
    result = adj.aggregate(rows, model="mv", gold=gold)
    found = []
    for many in (10**9, 1):
        monkeypatch.setattr("adjudge.results.trust.copies.MIN_CANDIDATE_LABELS", many)
        found.append(assess(result.votes, result.fit.outcome.labels, result.session.gold()))
    return found


@pytest.mark.parametrize("labels", [3, 8, 40])
def test_figures_are_nearly_those_of_all_labels(monkeypatch, labels):
    whole, cells = both(monkeypatch, crowd(labels))
    assert np.array_equal(whole.verdict, cells.verdict)
    assert cells.accuracy.low == pytest.approx(whole.accuracy.low, abs=0.05)
    assert cells.accuracy.high == pytest.approx(whole.accuracy.high, abs=0.05)
    assert cells.information == pytest.approx(whole.information, abs=0.1)
    assert cells.evidence == pytest.approx(whole.evidence, rel=0.1, abs=2.0)
    assert cells.priors.low == pytest.approx(whole.priors.low, abs=0.02)


def test_rings_are_found_among_many_labels():
    drawn = adj.simulate(tasks=400, workers=20, labels=80, votes_per_task=6, colluders=0.2, ring=4, seed=2)
    workers = adj.aggregate(drawn.votes, model="fds", confidence="posterior").workers
    assert sorted(workers.filter(verdict="copy")["worker"]) == sorted(drawn.workers.filter(kind="colluder")["worker"])


def test_gold_is_kept(monkeypatch):
    rows = crowd(20, seed=3)
    gold = {t: (t * 7) % 20 for t in range(150)}  # as good as random: skill is measured against it
    whole, cells = both(monkeypatch, rows, gold)
    assert cells.accuracy.low == pytest.approx(whole.accuracy.low, abs=0.08)
    assert cells.accuracy.low.max() < 0.8


def test_no_pass_goes_over_all_labels(monkeypatch):
    def never(*_, **__):
        raise AssertionError

    for name in ("settle", "tally", "compare"):
        monkeypatch.setattr(f"adjudge.results.trust.copies.{name}", never)
    monkeypatch.setattr(posterior, "update_posterior", never)
    workers = adj.aggregate(crowd(300), model="fds", confidence="posterior").workers
    assert (workers.filter(workers["worker"] < 5)["verdict"] == "spammer").sum() >= 4
    assert (workers.filter(workers["worker"] >= 5)["verdict"] == "informative").sum() >= 24


@pytest.mark.parametrize(
    "rows", [[("t", "w", "x")], [("t", "w", "x"), ("u", "w", "y")], [(t, w, "x") for t in "tu" for w in "abc"]]
)
def test_the_smallest_inputs_work(rows):
    labels = ["x", "y", *(f"l{n}" for n in range(100))]
    result = adj.aggregate(rows, model="mv", labels=labels)
    assert set(result.workers["verdict"]) == {"unclear"}
    assert len(result.priors) == 102
