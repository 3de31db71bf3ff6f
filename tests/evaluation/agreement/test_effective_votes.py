"""Correlation of errors and effective votes, against plain loops and where the answer is known."""

import math
from itertools import combinations

import numpy as np
import pytest

import quorate as qr


def naive_correlation(votes, truth):
    known = [(t, w, float(k != truth[t])) for t, w, k in votes if t in truth]
    rate = {w: np.mean([x for _, v, x in known if v == w]) for w in {w for _, w, _ in known}}
    above = below = 0.0
    for (t, w, x), (u, v, y) in combinations(known, 2):
        if t == u:
            above += (x - rate[w]) * (y - rate[v])
            below += ((x - rate[w]) ** 2 + (y - rate[v]) ** 2) / 2
    return above / below


@pytest.mark.parametrize("seed", range(5))
def test_correlation_against_plain_loops(draw, seed):
    votes = draw(seed)
    rng = np.random.default_rng(seed)
    truth = {t: int(rng.integers(1, 5)) for t in {v[0] for v in votes} if rng.random() < 0.8}
    found = qr.agreement(votes, truth=truth, resamples=0)
    assert found.error_correlation == pytest.approx(naive_correlation(votes, truth), rel=1e-9)
    n = len([v for v in votes if v[0] in truth]) / len(truth)
    assert found.votes_per_task == pytest.approx(n)
    r = max(found.error_correlation, 0.0)
    assert found.effective_votes == pytest.approx(n / (1 + (n - 1) * r))
    assert found.reference == "truth"


def test_independent_votes_keep_their_number():
    crowd = qr.simulate(tasks=3000, workers=9, votes_per_task=9, seed=2)
    found = qr.agreement(crowd.votes, truth=crowd.truth)
    assert abs(found.error_correlation) < 0.02
    assert 8 < found.effective_votes <= 9
    assert found.error_correlation.low < 0.01
    assert found.effective_votes.low <= found.effective_votes <= found.effective_votes.high


def test_nine_copies_of_one_judge_are_one_vote():
    crowd = qr.simulate(tasks=300, workers=9, votes_per_task=9, colluders=1.0, ring=9, seed=2)
    with pytest.warns(qr.CopiedVotes, match="9 workers seem to copy each other"):
        found = qr.agreement(crowd.votes, truth=crowd.truth)
    assert found.effective_votes == pytest.approx(1)
    assert (found.effective_votes.low, found.effective_votes.high) == pytest.approx((1, 1))


def test_a_ring_of_three_among_nine_weighs_less_than_nine():
    crowd = qr.simulate(tasks=2000, workers=9, votes_per_task=9, colluders=0.34, ring=3, skill_spread=0.0, seed=1)
    with pytest.warns(qr.CopiedVotes):
        found = qr.agreement(crowd.votes, truth=crowd.truth)
    # Three of the 36 pairs have correlation 1, the others 0.
    assert found.error_correlation == pytest.approx(3 / 36, abs=0.02)
    assert found.effective_votes == pytest.approx(9 / (1 + 8 / 12), abs=0.5)


def test_the_correlation_interval_holds_the_true_value():
    inside = 0
    for seed in range(20):
        crowd = qr.simulate(tasks=300, workers=6, votes_per_task=6, colluders=0.5, ring=3, skill_spread=0.0, seed=seed)
        with pytest.warns(qr.CopiedVotes):
            found = qr.agreement(crowd.votes, truth=crowd.truth, resamples=300)
        inside += found.error_correlation.low <= 3 / 15 <= found.error_correlation.high
    assert inside >= 16


def test_where_nobody_errs_nothing_can_be_said():
    votes = [(t, w, t % 2) for t in range(10) for w in range(3)]
    found = qr.agreement(votes, truth={t: t % 2 for t in range(10)})
    assert math.isnan(found.effective_votes)
    assert found.summary()["effective_votes"] == {"value": None, "low": None, "high": None}


def test_truth_of_any_kind(draw, tmp_path):
    votes = draw(1)
    tasks = sorted({v[0] for v in votes})
    truth = {t: 1 + n % 5 for n, t in enumerate(tasks)}  # 5: a label that nobody gave
    expected = qr.agreement(votes, truth=truth).error_correlation
    (tmp_path / "truth.csv").write_text("question,gold\n" + "".join(f"{t},{k}\n" for t, k in reversed(truth.items())))
    assert qr.agreement(votes, truth=tmp_path / "truth.csv").error_correlation == expected
    assert expected == pytest.approx(naive_correlation(votes, truth), rel=1e-9)
    without = {t: k for t, k in truth.items() if k != 5}  # whoever votes on the others errs
    assert expected != pytest.approx(naive_correlation(votes, without), rel=1e-3)
    fit = qr.aggregate(votes)
    assert qr.agreement(votes, truth=fit).error_correlation == pytest.approx(qr.agreement(votes).error_correlation)
    assert qr.agreement(votes, model="ds").reference == "ds"


def test_truth_of_other_tasks(draw):
    with pytest.raises(qr.InputError, match="the truth has none of the 25 tasks of the votes"):
        qr.agreement(draw(1), truth={"x": 1})


def test_without_a_model_no_errors_are_measured(draw):
    found = qr.agreement(draw(1), model=None)
    assert found.reference is None
    assert math.isnan(found.effective_votes)
    assert found.pairs["same_wrong"].null_count() == len(found.pairs)
