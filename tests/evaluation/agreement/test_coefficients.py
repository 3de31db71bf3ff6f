"""Every figure against another package, or against plain loops, on crowds with gaps."""

import math
from contextlib import nullcontext

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import fleiss_kappa

import adjudge as adj
import oracle_agreement as naive
from strategies import crowds

CLOSE = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}
SEEDS = range(40)
LEVELS = ("nominal", "ordinal", "interval")


def matrix(votes):
    """[workers, tasks] of numbers, NaN without a vote."""
    tasks, workers = sorted({v[0] for v in votes}), sorted({v[1] for v in votes})
    out = np.full((len(workers), len(tasks)), np.nan)
    for task, worker, label in votes:
        out[workers.index(worker), tasks.index(task)] = label
    return out


def plain(votes, **options):
    return adj.agreement(votes, resamples=0, model=None, **options)


def crowd_of(draw, seed):
    rng = np.random.default_rng(seed)
    return draw(
        seed,
        tasks=int(rng.integers(2, 40)),
        workers=int(rng.integers(2, 8)),
        labels=int(rng.integers(2, 6)),
        missing=rng.uniform(0, 0.7),
        noise=rng.uniform(0, 1),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_alpha_equals_the_krippendorff_package(draw, seed):
    votes = crowd_of(draw, seed)
    if not any(len(g) > 1 for g in naive.by_task(votes).values()):
        pytest.skip("no task has two votes")
    data = matrix(votes)
    paired = (~np.isnan(data)).sum(axis=0) > 1
    for level in LEVELS:
        mine = plain(votes, scale=level).alpha
        if len(np.unique(data[:, paired][~np.isnan(data[:, paired])])) < 2:
            assert math.isnan(mine)
            continue
        assert mine == pytest.approx(krippendorff.alpha(data, level_of_measurement=level), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_fleiss_equals_statsmodels_where_all_tasks_have_as_many_votes(draw, seed):
    votes = draw(seed, missing=0, labels=2 + seed % 4, noise=0.2 + seed / 60)
    labels = sorted({v[2] for v in votes})
    table = [[given.count(k) for k in labels] for given in naive.by_task(votes).values()]
    assert plain(votes).fleiss == pytest.approx(fleiss_kappa(np.array(table)), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_cohen_equals_scikit_learn_for_every_pair_and_in_the_mean(draw, seed):
    votes = crowd_of(draw, seed)
    if not any(len(g) > 1 for g in naive.by_task(votes).values()):
        pytest.skip("no task has two votes")
    found = plain(votes)
    expected = {}
    for pair, both in naive.pairs(votes).items():
        a, b = zip(*both, strict=True)
        with np.errstate(invalid="ignore"), pytest.warns() if len({*a, *b}) == 1 else nullcontext():
            expected[pair] = (cohen_kappa_score(a, b), naive.scott(both), np.mean(np.array(a) == np.array(b)), len(both))
    frame = found.pairs
    assert dict.fromkeys(zip(frame["worker_a"], frame["worker_b"], strict=True)) == dict.fromkeys(expected)
    for row in frame.iter_rows(named=True):
        kappa, pi, agreement, shared = expected[row["worker_a"], row["worker_b"]]
        assert row["shared"] == shared
        assert row["agreement"] == pytest.approx(agreement, **CLOSE)
        for mine, theirs in ((row["kappa"], kappa), (row["pi"], pi)):
            assert (math.nan if mine is None else mine) == pytest.approx(theirs, **CLOSE)
    defined = [(kappa, n) for kappa, _, _, n in expected.values() if kappa == kappa]
    mean = sum(k * n for k, n in defined) / sum(n for _, n in defined) if defined else math.nan
    assert found.cohen == pytest.approx(mean, **CLOSE)
    assert found.scott == pytest.approx(naive.weighted(naive.scott, votes), **CLOSE)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_others_equal_plain_loops(draw, seed):
    votes = crowd_of(draw, seed)
    if not any(len(g) > 1 for g in naive.by_task(votes).values()):
        pytest.skip("no task has two votes")
    labels = list(range(1, 8))  # declared: some of them nobody gave
    values = {k: float(k) for k in labels}
    for level in ("ordinal", "interval"):
        found = plain(votes, scale=level, labels=labels)
        assert found.percent == pytest.approx(naive.percent(votes), **CLOSE)
        assert found.fleiss == pytest.approx(naive.fleiss(votes, labels), **CLOSE)
        assert found.ac1 == pytest.approx(naive.gwet(votes, labels), **CLOSE)
        assert found.ac2_linear == pytest.approx(naive.gwet(votes, labels, naive.linear(values)), **CLOSE)
        assert found.ac2_quadratic == pytest.approx(naive.gwet(votes, labels, naive.quadratic(values)), **CLOSE)


def test_ac2_measures_distances_of_numbers_at_level_interval(draw):
    votes = [(t, w, (1, 2, 10, 100)[k - 1]) for t, w, k in draw(3)]
    values = {1: 1.0, 2: 2.0, 10: 10.0, 100: 100.0}
    found, ranked = plain(votes, scale="interval"), plain(votes, scale="ordinal")
    assert found.ac2_linear == pytest.approx(naive.gwet(votes, list(values), naive.linear(values)), **CLOSE)
    ranks = {k: float(n) for n, k in enumerate(values)}
    assert ranked.ac2_linear == pytest.approx(naive.gwet(votes, list(values), naive.linear(ranks)), **CLOSE)
    assert abs(found.ac2_linear - ranked.ac2_linear) > 0.01


@given(crowds())
def test_repeated_votes_count_as_votes_of_their_task(votes):
    if not any(len(g) > 1 for g in naive.by_task(votes).values()):
        with pytest.raises(adj.InputError, match="has two votes"):
            plain(votes)
        return
    labels = sorted({v[2] for v in votes})
    found = plain(votes)
    assert found.percent == pytest.approx(naive.percent(votes), **CLOSE)
    assert found.fleiss == pytest.approx(naive.fleiss(votes, labels), **CLOSE)
    assert found.ac1 == pytest.approx(naive.gwet(votes, labels), **CLOSE)
    keys = [v[:2] for v in votes]
    assert found.repeated_votes == len(keys) - len(set(keys))
    together = sum(a[0] == b[0] and a[1] < b[1] for a in votes for b in votes)
    assert found.pairs["shared"].sum() == together


@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_votes_and_the_names_of_labels_do_not_matter(votes, random):
    if not any(len(g) > 1 for g in naive.by_task(votes).values()):
        return
    other = list(votes)
    random.shuffle(other)
    renamed = [(t, w, f"z{9 - int(k[1:])}") for t, w, k in other]
    first, second = plain(votes), plain(renamed)
    for name, value in first.estimates().items():
        assert getattr(second, name) == pytest.approx(value, **CLOSE), name


KRIPPENDORFF_2011 = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def published():
    lines = KRIPPENDORFF_2011.strip().splitlines()
    return [(t, w, int(x)) for w, line in enumerate(lines) for t, x in enumerate(line.split()) if x != "."]


def test_published_figures_of_four_observers():
    """Krippendorff (2011) gives alpha; Gwet's irrCAC gives the other coefficients of the same data."""
    alpha = {level: round(plain(published(), scale=level).alpha, 3) for level in LEVELS}
    assert alpha == {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849}
    found = plain(published())
    assert round(found.percent, 5) == 0.81818
    assert round(found.fleiss, 5) == 0.76117
    assert round(found.ac1, 5) == 0.77544


def test_published_figures_of_fourteen_raters():
    """The worked example of Fleiss' kappa with ten subjects and five categories."""
    table = """0 0 0 0 14, 0 2 6 4 2, 0 0 3 5 6, 0 3 9 2 0, 2 2 8 1 1, 7 7 0 0 0, 3 2 6 3 0, 2 5 3 2 2, 6 5 2 1 0, 0 2 2 3 7"""
    votes = []
    for subject, line in enumerate(table.split(",")):
        given = [k for k, n in enumerate(line.split()) for _ in range(int(n))]
        votes += [(subject, rater, k) for rater, k in enumerate(given)]
    found = plain(votes)
    assert (round(found.percent, 3), round(found.fleiss, 3)) == (0.378, 0.210)


def test_published_figures_of_two_raters():
    """Fifty applicants, 20 and 15 agreed on: kappa 0.4; pi and AC1 by hand."""
    said = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    found = plain([(t, w, k) for t, both in enumerate(said) for w, k in enumerate(both)])
    assert found.percent == pytest.approx(0.7)
    assert found.cohen == pytest.approx(0.4)
    assert found.scott == pytest.approx((0.7 - 0.505) / 0.495)
    assert found.fleiss == pytest.approx(found.scott)
    assert found.ac1 == pytest.approx((0.7 - 0.495) / 0.505)


def test_where_everybody_says_the_same():
    votes = [(t, w, "x") for t in range(4) for w in range(3)]
    found = plain(votes)
    assert found.percent == 1
    assert all(math.isnan(value) for name, value in found.estimates().items() if name != "percent")
    declared = plain(votes, labels=["x", "y"])
    assert declared.ac1 == 1
    assert math.isnan(declared.fleiss)


@pytest.mark.parametrize("level", LEVELS)
def test_perfect_agreement(level):
    votes = [(t, w, t % 3) for t in range(9) for w in range(3)]
    found = adj.agreement(votes, scale=level)
    for name, value in found.estimates().items():
        assert (value, value.low, value.high) == pytest.approx((1, 1, 1)), name


def test_huge_numbers_keep_their_digits():
    votes = [(t, w, k) for t, w, k in published()]
    far = [(t, w, 10**9 + k) for t, w, k in votes]
    assert plain(far, scale="interval").alpha == pytest.approx(plain(votes, scale="interval").alpha, rel=1e-9)
