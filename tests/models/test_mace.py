"""MACE against the naive version in oracle_bayes.py; its starts, its objective, and its worker columns."""

import itertools

import numpy as np
import polars as pl
import pytest

import adjudge as adj
import oracle_bayes as oracle
from adjudge.models.mace import draw_start, fit_from

CROWD = adj.simulate(tasks=80, workers=10, labels=3, votes_per_task=5, spammers=0.3, seed=3)


def agree(source, method, iterations=6, **options):
    votes = adj.read(source)
    workers, labels = ([str(i) for i in ids.ids()] for ids in (votes.workers, votes.labels))
    rng = np.random.default_rng(7)
    spam, habit = rng.dirichlet(np.ones(2), len(workers)), rng.dirichlet(np.ones(len(labels)), len(workers))
    rows = (
        [tuple(str(x) for x in row) for row in pl.read_csv(source, infer_schema=False).rows()]
        if _is_path(source)
        else source.rows()
    )
    expected = oracle.mace(
        rows,
        dict(zip(workers, spam.tolist(), strict=True)),
        {w: dict(zip(labels, line, strict=True)) for w, line in zip(workers, habit.tolist(), strict=True)},
        method=method,
        iterations=iterations,
        **options,
    )
    settings = {"strategy_prior" if name == "prior" else name: value for name, value in options.items()}
    found = fit_from(votes, [(spam, habit)], adj.MACE(method=method, **settings), iterations=iterations)
    T = [[expected[0][str(t)][c] for c in labels] for t in votes.tasks.ids()]
    assert found.posterior == pytest.approx(np.array(T), abs=1e-7)
    assert found.spamming == pytest.approx(np.array([expected[1][w] for w in workers]), abs=1e-8)
    assert found.strategies == pytest.approx(np.array([[expected[2][w][c] for c in labels] for w in workers]), abs=1e-8)
    assert found.log_likelihood == pytest.approx(expected[3], rel=1e-9)


def _is_path(source):
    return not isinstance(source, pl.DataFrame)


@pytest.mark.parametrize("iterations", [0, 1, 6])
def test_it_is_the_naive_version(iterations):
    agree(CROWD.votes, "em", iterations, smoothing=0.1)
    agree(CROWD.votes, "vb", iterations, alpha=0.7, beta=0.4, prior=2.0)


@pytest.mark.parametrize("method", ["em", "vb"])
def test_it_is_the_naive_version_on_real_votes(data_dir, method):
    agree(data_dir / "snow_temp" / "votes.csv", method, **({"smoothing": 0.05} if method == "em" else {}))


def test_the_best_of_given_starts_is_kept():
    votes = adj.read(CROWD.votes)
    starts = [draw_start(votes, votes.votes_per_row() * 1.0, votes.given_labels(), adj.MACE(), n) for n in range(4)]
    one_by_one = [fit_from(votes, [start], adj.MACE(), iterations=4).log_likelihood for start in starts]
    assert fit_from(votes, starts, adj.MACE(), iterations=4).log_likelihood == max(one_by_one) > min(one_by_one)


@pytest.mark.parametrize("method", ["em", "vb"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_objective_never_falls_and_more_restarts_never_lower_it(method, smoothing):
    reached = []
    for restarts in (1, 3):
        result = adj.MACE(method=method, smoothing=smoothing, restarts=restarts).fit(CROWD.votes, confidence="posterior")
        trace = [row.objective for row in result.fit.trace]
        assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(trace))
        assert {row.phase for row in result.fit.trace} == {method}
        reached.append(trace[-1])
    assert reached[1] >= reached[0]
    assert result.log_likelihood == pytest.approx(trace[-1] if method == "vb" else result.fit.trace[-1].log_likelihood)


def test_starts_follow_answers_not_names():
    votes = adj.read(CROWD.votes)
    renamed = adj.read(CROWD.votes.with_columns(worker=pl.col("worker").str.replace("w", "v").str.reverse()))
    one, two = (
        {
            str(w)[::-1].replace("v", "w") if v is renamed else str(w): line.tolist()
            for w, line in zip(v.workers.ids(), spam, strict=True)
        }
        for v in (votes, renamed)
        for spam in (draw_start(v, v.votes_per_row() * 1.0, v.given_labels(), adj.MACE(), 1)[0],)
    )
    assert one == two
    spam, habit = draw_start(votes, votes.votes_per_row() * 1.0, votes.given_labels(), adj.MACE(default_noise=2.0), 0)
    assert spam.sum(axis=1) == pytest.approx(np.ones(10))
    assert habit.sum(axis=1) == pytest.approx(np.ones(10))
    assert len(np.unique(spam)) > 10


def test_spammers_are_found():
    crowd = adj.simulate(tasks=400, workers=20, labels=3, votes_per_task=7, spammers=0.3, seed=5)
    for method in ("em", "vb"):
        workers = adj.MACE(method=method).fit(crowd.votes).workers
        assert (workers["spamming"] + workers["trust"]).to_list() == pytest.approx([1.0] * 20)
        assert workers.select(pl.corr("trust", "accuracy")).item() > 0.9
        assert workers.sort("trust").head(3)["accuracy"].max() < 0.5


def test_what_is_known_is_used():
    gold = dict(CROWD.truth.head(20).iter_rows())
    result = adj.MACE(restarts=2).fit(CROWD.votes, gold=gold, priors={"l0": 0.5, "l1": 0.5, "l2": 1e-300}, confidence="posterior")
    assert dict(result.labels.select("task", "label").iter_rows()).items() >= gold.items()
    assert "l2" not in result.labels.filter(~pl.col("gold"))["label"].to_list()
    weighted = CROWD.votes.with_columns(weight=pl.lit(2.0))
    twice = adj.aggregate(pl.concat([CROWD.votes, CROWD.votes]), model=adj.MACE(restarts=1))
    once = adj.aggregate(weighted, model=adj.MACE(restarts=1), weight="weight")
    assert once.log_likelihood == pytest.approx(twice.log_likelihood, rel=1e-9)


def test_what_follows_a_fit(tmp_path):
    result = adj.MACE(method="em", restarts=2).fit(CROWD.votes, confidence="posterior")
    assert result.predict(CROWD.votes).labels["label"].equals(result.labels["label"])
    result.save(tmp_path / "m")
    assert adj.load(tmp_path / "m").predict(CROWD.votes).labels["label"].equals(result.labels["label"])
    assert result.workers.columns[-2:] == ["spamming", "trust"]
    with pytest.raises(adj.OptionError, match="unknown method 'mcmc'"):
        adj.MACE(method="mcmc")
    with pytest.raises(adj.OptionError, match="model 'mace' cannot use history: it takes gold, priors"):
        adj.aggregate(CROWD.votes, model="mace", history=result)
