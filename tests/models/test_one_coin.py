"""One-coin Dawid-Skene against loops and dictionaries."""

import math
import warnings
from collections import defaultdict

import pytest
from hypothesis import given

import adjudge as adj
import oracle
from conftest import SETS
from strategies import crowds


def naive(votes, iterations, class_priors):
    """(posterior {task: {label: p}}, skill {worker: s}, log-likelihood) after some iterations."""
    labels = sorted({label for _, _, label in votes}, key=str)
    others = max(len(labels) - 1, 1)
    posterior = {task: {c: share.get(c, 0.0) for c in labels} for task, share in oracle.shares(votes).items()}
    for _ in range(iterations):
        right, total = defaultdict(float), defaultdict(float)
        for task, worker, label in votes:
            right[worker] += posterior[task][label]
            total[worker] += sum(posterior[task].values())
        shares = {c: sum(p[c] for p in posterior.values()) / len(posterior) for c in labels}
        prior = shares if class_priors == "estimated" else dict.fromkeys(labels, 1 / len(labels))
        skill = {worker: right[worker] / total[worker] for worker in total}
        scores = {task: {c: log(prior[c]) for c in labels} for task in posterior}
        for task, worker, label in votes:
            for c in labels:
                scores[task][c] += log(skill[worker] if c == label else (1 - skill[worker]) / others)
        likelihood = 0.0
        for task, line in scores.items():
            best = max(line.values())
            whole = sum(math.exp(s - best) for s in line.values())
            likelihood += best + math.log(whole)
            posterior[task] = {c: math.exp(s - best) / whole for c, s in line.items()}
    return posterior, skill, likelihood, shares


def log(x):
    return math.log(x) if x > 0 else -math.inf


def compare(votes, source, class_priors):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        result = adj.OneCoin(max_iter=12, class_priors=class_priors).fit(source, confidence="posterior")
    posterior, skill, likelihood, shares = naive(votes, result.iterations, class_priors)
    found = dict(result.priors.select("label", "prior").iter_rows())
    assert {str(c): p for c, p in found.items()} == pytest.approx({str(c): p for c, p in shares.items()}, abs=1e-9)
    assert result.log_likelihood == pytest.approx(likelihood, rel=1e-9, abs=1e-9)
    found = dict(result.workers.select("worker", "skill").iter_rows())
    assert {str(w): s for w, s in found.items()} == pytest.approx({str(w): s for w, s in skill.items()}, abs=1e-9)
    for row in result.probabilities.to_dicts():
        line = posterior[row.pop("task")]
        assert {str(c): p for c, p in row.items()} == pytest.approx({str(c): p for c, p in line.items()}, abs=1e-6)


@pytest.mark.parametrize("class_priors", ["uniform", "estimated"])
@given(crowds(max_tasks=10, max_votes=60))
def test_generated(class_priors, votes):
    compare(votes, votes, class_priors)


@pytest.mark.parametrize("class_priors", ["uniform", "estimated"])
@pytest.mark.parametrize("name", [n for n in SETS if n in ("bm", "rte", "adult2")])
def test_real(data_dir, name, class_priors):
    votes = adj.read(data_dir / name / "votes.csv")
    from adjudge.io.frames import frame_of

    compare(frame_of(votes).rows(), votes, class_priors)


RING = [("t0", "w3", "l1"), ("t0", "w4", "l1"), ("t1", "w3", "l3"), ("t0", "w1", "l2"), ("t1", "w2", "l0"), ("t0", "w2", "l2")]
CHAIN = [("t2", "w2", "l0"), ("t0", "w1", "l1"), ("t1", "w1", "l0"), ("t0", "w0", "l0"), ("t2", "w1", "l1")]
ENGINES = ("reference", "cpu", "disk")


def told(votes, class_priors, engine):
    labels = adj.OneCoin(class_priors=class_priors).fit(votes, engine=engine, confidence="posterior").labels
    return {t: (c, round(p, 9), tie) for t, c, p, tie in labels.select("task", "label", "confidence", "tie").iter_rows()}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("class_priors", ["uniform", "estimated"])
def test_a_symmetric_crowd_stays_tied_whatever_its_workers_are_called(class_priors, engine):
    """Two camps of two: rounding alone once made a sure label of it, and another one for other names."""
    first = told(RING, class_priors, engine)
    assert all(tie for _, _, tie in first.values())
    for shift in range(1, 4):
        names = {f"w{n}": f"w{(n - 1 + shift) % 4 + 1}" for n in range(1, 5)}
        assert told([(t, names[w], c) for t, w, c in RING], class_priors, engine) == first


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tie_between_the_prior_and_a_worker_is_one_on_every_engine(engine):
    """The share of l0 equals w1's accuracy in every pass, so that t0 and t2 are tied: 0.6 * 0.4 = 0.4 * 0.6."""
    found = told(CHAIN, "estimated", engine)
    assert found["t0"][1:] == (0.5, True)
    assert found["t2"][1:] == (0.5, True)
    assert found == told(CHAIN, "estimated", "reference")
    assert not any(tie for _, _, tie in told(CHAIN, "uniform", engine).values())


def test_equal_priors_hold_in_everything_after_a_fit(tmp_path):
    crowd = adj.simulate(tasks=200, workers=12, labels=3, votes_per_task=4, skill=0.6, seed=2)
    result = adj.aggregate(crowd.votes, model="one-coin", confidence="posterior")
    assert result.settings["class_priors"] == "uniform"
    again = result.predict(crowd.votes)
    assert again.labels["label"].equals(result.labels["label"])
    assert again.labels["confidence"].to_list() == pytest.approx(result.labels["confidence"].to_list(), abs=1e-9)
    result.save(tmp_path / "m")
    loaded = adj.load(tmp_path / "m")
    assert loaded.predict(crowd.votes).labels.equals(again.labels)
    assert loaded.priors["prior"].to_list() == pytest.approx([1 / 3] * 3)
    merged = adj.merge(loaded, loaded)
    assert merged.priors["prior"].to_list() == loaded.priors["prior"].to_list()
    warm = adj.aggregate(crowd.votes, model="one-coin", warm_start=loaded, confidence="posterior")
    assert warm.labels["label"].equals(result.labels["label"])
    assert warm.iterations <= 2
    given = adj.aggregate(crowd.votes, model="one-coin", priors="uniform", confidence="posterior")
    assert given.labels.equals(result.labels)


def test_one_label_that_nobody_gives_does_not_share_in_equal_priors():
    votes = [("t", "a", "x"), ("t", "b", "y"), ("t", "c", "x"), ("u", "a", "y"), ("u", "b", "y")]
    plain = adj.aggregate(votes, model="one-coin")
    declared = adj.aggregate(votes, model="one-coin", labels=["z", "y", "x"])
    assert declared.labels.equals(plain.labels)
    assert declared.log_likelihood == pytest.approx(plain.log_likelihood, rel=1e-12)
