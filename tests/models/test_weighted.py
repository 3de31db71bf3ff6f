"""Weighted majority votes against their naive versions, and what each of them promises."""

import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
import oracle_weighted as naive
from fitting import aggregate
from strategies import crowds

NAIVE = {"wawa": naive.wawa, "zbs": naive.zbs, "catd": naive.catd, "la": naive.la}
CROWD = adj.simulate(tasks=120, workers=12, labels=3, votes_per_task=4, skill=0.6, adversaries=0.2, seed=3)


def fit(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model, confidence="posterior", **options)


def pairs(frame, *columns):
    return dict(frame.select(*columns).iter_rows())


def require_same(result, want, gold=()):
    assert pairs(result.labels, "task", "label") == want["labels"]
    assert pairs(result.workers, "worker", "weight") == pytest.approx(want["weights"], rel=1e-10, abs=1e-12)
    assert result.iterations == want.get("iterations", 0)
    for row in result.probabilities.to_dicts():
        task = row.pop("task")
        line = want["scores"][task]
        if max(line.values()) > 1e-12 and task not in gold:
            total = sum(max(score, 0.0) for score in line.values())
            assert row == pytest.approx({label: max(score, 0.0) / total for label, score in line.items()}, abs=1e-9)


@pytest.mark.parametrize("model", NAIVE)
@settings(max_examples=15)
@given(crowds(max_tasks=8, max_votes=40), st.integers(0, 3))
def test_generated(model, votes, seed):
    result = fit(votes, model, seed=seed)
    if result.converged:
        require_same(result, NAIVE[model](votes, seed))


@pytest.mark.parametrize("model", NAIVE)
@pytest.mark.parametrize("name", ["rte", "bm"])
def test_real(data_dir, name, model):
    votes = pl.read_csv(data_dir / name / "votes.csv", infer_schema=False)
    require_same(fit(votes, model), NAIVE[model](votes.rows()))


@pytest.mark.parametrize("model", NAIVE)
def test_gold(model):
    gold = dict(CROWD.truth.head(40).rows())
    want, result = NAIVE[model](CROWD.votes.rows(), gold=gold), fit(CROWD.votes, model, gold=gold)
    assert pairs(result.labels, "task", "label") == want["labels"]
    assert pairs(result.workers, "worker", "weight") == pytest.approx(want["weights"], rel=1e-10)


@pytest.mark.parametrize("model", [*NAIVE, "goldmv", "zc"])
def test_a_weight_of_two_is_two_votes(model):
    times = np.random.default_rng(1).choice([1, 2], len(CROWD.votes))
    twice = CROWD.votes[np.repeat(np.arange(len(times)), times)]
    gold = CROWD.truth.head(30)
    some = fit(CROWD.votes.with_columns(w=times), model, weight="w", gold=gold)
    with pytest.warns(adj.SuspiciousVotes, match="repeat"):
        many = fit(twice, model, gold=gold)
    assert pairs(some.labels, "task", "label") == pairs(many.labels, "task", "label")
    column = "skill" if model == "zc" else "weight"
    assert pairs(some.workers, "worker", column) == pytest.approx(pairs(many.workers, "worker", column), rel=1e-9)


@pytest.mark.parametrize("model", [*NAIVE, "goldmv"])
def test_a_history_counts_as_votes_on_other_tasks(model):
    """Right and wrong votes that were counted before, of a worker who never votes right here."""
    past = pl.DataFrame({"worker": ["w0", "w0"], "true": ["l0", "l0"], "given": ["l0", "l1"], "count": [900.0, 100.0]})
    result = fit(CROWD.votes, model, history=past, gold=CROWD.truth.head(30))
    plain = fit(CROWD.votes, model, gold=CROWD.truth.head(30))
    before, after = (pairs(one.workers, "worker", "weight")["w0"] for one in (plain, result))
    expected = {"wawa": 0.9, "zbs": 0.9, "goldmv": 0.9, "la": 3 * 0.9 - 1}.get(model)
    assert after == pytest.approx(expected, abs=0.15) if expected else after > before


def test_zbs_with_a_rate_follows_the_naive_version():
    for options in ({"rate": 0.3, "max_iter": 7}, {"rate": 0.5, "rate_steps": 2, "rate_factor": 0.7, "tol": 1e-3}):
        require_same(fit(CROWD.votes, adj.ZeroBasedSkill(**options)), naive.zbs(CROWD.votes.rows(), **options))


def test_zbs_that_runs_out_of_rounds_says_so_and_labels_may_repeat():
    with pytest.warns(adj.NotConverged, match=r"zbs did not converge in 9 iterations \(last change of the weights"):
        result = adj.aggregate(CROWD.votes, adj.ZeroBasedSkill(rate=0.1, max_iter=9))
    assert result.trace["labels_changed"].to_list().count(0) > 1, "the same labels do not end it: skills still move"


@settings(max_examples=15)
@given(crowds(max_tasks=8, max_votes=40), st.integers(0, 3), st.data())
def test_goldmv_generated(votes, seed, data):
    tasks, labels = sorted({vote[0] for vote in votes}), naive.labels_of(votes)
    gold = data.draw(st.dictionaries(st.sampled_from(tasks), st.sampled_from(labels)))
    require_same(fit(votes, "goldmv", seed=seed, gold=gold), naive.goldmv(votes, gold, seed), gold)


def test_goldmv_knows_gold_alone():
    with pytest.raises(adj.OptionError, match="'goldmv' needs gold to learn from: give gold="):
        adj.aggregate(CROWD.votes, "goldmv")
    result = fit([("t", "a", "x"), ("t", "b", "y"), ("u", "c", "y"), ("u", "b", "x")], "goldmv", gold={"t": "x"})
    assert result.workers.sort("worker").select("weight", "gold_votes").rows() == [(1.0, 1.0), (1e-6, 1.0), (0.5, 0.0)]
    assert pairs(result.labels, "task", "label") == {"t": "x", "u": "y"}, "the mean worker beats one who was never right"


def test_a_vote_of_no_weight_decides_if_it_is_the_only_one():
    result = fit(adj.read([("t", "a", "x"), ("u", "a", "x")], labels=["never", "x", "y"]), "goldmv", gold={"t": "y"})
    assert pairs(result.labels, "task", "label") == {"t": "y", "u": "x"}


def test_catd_knows_how_little_few_votes_tell():
    """Of two workers who are always right, the one with more votes weighs more; the alpha is that of the interval."""
    votes = [(t, w, "x") for t in range(20) for w in ("often", "wrong")] + [(0, "once", "x"), (1, "wrong", "y")]
    one, other = (pairs(fit(votes, adj.CATD(alpha=alpha)).workers, "worker", "weight") for alpha in (0.05, 0.5))
    assert one["often"] > 100 * one["once"]
    assert other["often"] / other["once"] < one["often"] / one["once"]
    with pytest.raises(adj.OptionError, match="alpha is 0: give a number of at least 1e-06 and at most 1"):
        adj.CATD(alpha=0)


def test_la_takes_tasks_in_an_order_of_its_own():
    """The seed decides it, rows do not; gold comes first, so that everything else is weighted by it."""
    shuffled = CROWD.votes.sample(fraction=1.0, shuffle=True, seed=4)
    weights = [
        pairs(fit(votes, "la", seed=seed).workers, "worker", "weight") for votes, seed in ((CROWD.votes, 0), (shuffled, 0))
    ]
    assert weights[0] == weights[1]
    assert weights[0] != pairs(fit(CROWD.votes, "la", seed=1).workers, "worker", "weight")
    trace = fit(CROWD.votes, "la").trace
    assert trace["phase"].to_list() == ["first", "second"]
    assert trace["objective"].is_nan().all()


@pytest.mark.parametrize(("model", "engine", "others"), [("la", "disk", "'cpu' or 'reference'")])
def test_engines_that_cannot(model, engine, others):
    with pytest.raises(adj.OptionError, match=f"engine '{engine}' cannot run model '{model}': choose engine={others}"):
        adj.aggregate(CROWD.votes, model, engine=engine)


@pytest.mark.parametrize("model", ["wawa", "zbs", "catd", "la"])
def test_ties_by_prior(model):
    votes = [("t", "a", "x"), ("t", "b", "y"), ("u", "c", "y"), ("v", "c", "y")]
    assert all(pairs(fit(votes, model, ties="prior", seed=s).labels, "task", "label")["t"] == "y" for s in range(4))


def test_aggregate_leaves_a_model_its_own_defaults():
    assert adj.aggregate(CROWD.votes, "zbs").settings["tol"] == 1e-5
    assert adj.aggregate(CROWD.votes, adj.ZeroBasedSkill(tol=0.01)).settings["tol"] == 0.01
