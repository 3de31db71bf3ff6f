"""Correlation of errors and effective votes, against plain loops and where the answer is known."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import adjudge as adj
from strategies import crowds


def naive(votes, truth):
    """(correlation of errors, votes on the task of a vote), pair of votes by pair of votes."""
    known = [(t, w, float(k == truth[t])) for t, w, k in votes if t in truth]
    mean = np.mean([x for _, _, x in known])
    rate = {}
    for worker in {w for _, w, _ in known}:
        own = [x for _, w, x in known if w == worker]
        rate[worker] = min(max((sum(own) + 5 * mean) / (len(own) + 5), 0.02), 0.98)
    above = below = 0.0
    for (t, w, x), (u, v, y) in combinations(known, 2):
        if t == u:
            above += (x - rate[w]) * (y - rate[v])
            below += math.sqrt(rate[w] * (1 - rate[w]) * rate[v] * (1 - rate[v]))
    size = Counter(t for t, _, _ in known)
    return above / below, np.mean([size[t] for t, _, _ in known])


@pytest.mark.parametrize("seed", range(5))
def test_correlation_against_plain_loops(draw, seed):
    votes = draw(seed)
    rng = np.random.default_rng(seed)
    truth = {t: int(rng.integers(1, 5)) for t in {v[0] for v in votes} if rng.random() < 0.8}
    found = adj.agreement(votes, truth=truth, resamples=0)
    r, n = naive(votes, truth)
    assert found.error_correlation == pytest.approx(r, rel=1e-9)
    assert found.votes_per_task == pytest.approx(n)
    assert found.effective_votes == pytest.approx(n / (1 + (n - 1) * max(r, 0.0)))
    assert found.reference == found.errors_against == "truth"


@settings(max_examples=60, deadline=None)
@given(crowd=crowds(), seed=st.integers(0, 3))
def test_without_truth_it_is_the_number_of_the_facts(crowd, seed):
    assume(max(Counter(task for task, _, _ in crowd).values()) > 1)
    facts = adj.aggregate(crowd, model="auto", confidence="honest", seed=seed).facts
    found = adj.agreement(crowd, seed=seed, resamples=0, pairs=False)
    assert found.effective_votes == pytest.approx(facts["effective_votes"], abs=1e-9)
    assert found.votes_per_task == pytest.approx(facts["votes_per_task"], abs=1e-9)
    assert max(found.error_correlation, 0.0) == pytest.approx(facts["shared_error"], abs=1e-9)
    assert found.errors_against == "majority vote"


@pytest.mark.parametrize("model", ["fds", "ds", "mv"])
def test_the_model_does_not_change_it(model):
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=(4, 9), colluders=0.34, ring=3, seed=4)
    facts = adj.aggregate(crowd.votes, model=model, confidence="honest").facts
    found = adj.agreement(crowd.votes, model=model, pairs=False)
    assert found.effective_votes == pytest.approx(facts["effective_votes"], abs=1e-9)
    assert found.effective_votes < found.votes_per_task - 0.1  # they do err together
    assert found.effective_votes.low < found.effective_votes < found.effective_votes.high


def test_independent_votes_keep_their_number():
    crowd = adj.simulate(tasks=3000, workers=9, votes_per_task=9, seed=2)
    found = adj.agreement(crowd.votes, truth=crowd.truth)
    assert abs(found.error_correlation) < 0.02
    assert 8 < found.effective_votes <= 9
    assert found.error_correlation.low < 0.01
    assert found.effective_votes.low <= found.effective_votes <= found.effective_votes.high


def test_nine_copies_of_one_judge_are_one_vote():
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=9, colluders=1.0, ring=9, seed=2)
    with pytest.warns(adj.CopiedVotes, match="9 workers seem to copy each other"):
        found = adj.agreement(crowd.votes, truth=crowd.truth)
    assert found.effective_votes == pytest.approx(1)
    assert found.effective_votes.low == pytest.approx(1)  # resamples may fall below, the interval does not
    assert found.effective_votes.high < 1.2


def test_a_ring_of_three_among_nine_weighs_less_than_nine():
    crowd = adj.simulate(tasks=2000, workers=9, votes_per_task=9, colluders=0.34, ring=3, skill_spread=0.0, seed=1)
    with pytest.warns(adj.CopiedVotes):
        found = adj.agreement(crowd.votes, truth=crowd.truth)
    # Three of the 36 pairs have correlation 1, the others 0.
    assert found.error_correlation == pytest.approx(3 / 36, abs=0.02)
    assert found.effective_votes == pytest.approx(9 / (1 + 8 / 12), abs=0.5)


def test_the_correlation_interval_holds_the_true_value():
    inside = 0
    for seed in range(20):
        crowd = adj.simulate(tasks=300, workers=6, votes_per_task=6, colluders=0.5, ring=3, skill_spread=0.0, seed=seed)
        with pytest.warns(adj.CopiedVotes):
            found = adj.agreement(crowd.votes, truth=crowd.truth, resamples=300)
        inside += found.error_correlation.low <= 3 / 15 <= found.error_correlation.high
    assert inside >= 16


def test_without_truth_a_ring_that_outvotes_the_others_is_seen_in_part():
    crowd = adj.simulate(tasks=500, workers=9, votes_per_task=9, colluders=0.56, ring=5, seed=1)
    with pytest.warns(adj.CopiedVotes):
        by_truth, by_votes = adj.agreement(crowd.votes, truth=crowd.truth), adj.agreement(crowd.votes)
    assert by_truth.effective_votes.high < by_votes.effective_votes < 6  # the ring's errors have become labels


def test_where_nobody_errs_two_in_a_hundred_are_taken_to():
    votes = [(t, w, t % 2) for t in range(10) for w in range(3)]
    found = adj.agreement(votes, truth={t: t % 2 for t in range(10)})
    r = 0.02**2 / (0.02 * 0.98)
    assert found.error_correlation == pytest.approx(r)
    assert found.effective_votes == pytest.approx(3 / (1 + 2 * r))


def test_truth_of_any_kind(draw, tmp_path):
    votes = draw(1)
    tasks = sorted({v[0] for v in votes})
    truth = {t: 1 + n % 5 for n, t in enumerate(tasks)}  # 5: a label that nobody gave
    expected = adj.agreement(votes, truth=truth).error_correlation
    (tmp_path / "truth.csv").write_text("question,gold\n" + "".join(f"{t},{k}\n" for t, k in reversed(truth.items())))
    assert adj.agreement(votes, truth=tmp_path / "truth.csv").error_correlation == expected
    assert expected == pytest.approx(naive(votes, truth)[0], rel=1e-9)
    without = {t: k for t, k in truth.items() if k != 5}  # all votes on the other tasks are wrong
    assert expected != pytest.approx(naive(votes, without)[0], rel=1e-3)
    fit = adj.aggregate(votes, model="mv")
    assert adj.agreement(votes, truth=fit).error_correlation == pytest.approx(adj.agreement(votes).error_correlation)
    assert adj.agreement(votes, model="ds").reference == "ds"


def test_truth_of_other_tasks(draw):
    with pytest.raises(adj.InputError, match="the truth has none of the 25 tasks of the votes"):
        adj.agreement(draw(1), truth={"x": 1})


def test_without_a_model_no_errors_are_measured(draw):
    found = adj.agreement(draw(1), model=None)
    assert found.reference is found.errors_against is None
    assert math.isnan(found.effective_votes)
    assert found.pairs["same_wrong"].null_count() == len(found.pairs)
