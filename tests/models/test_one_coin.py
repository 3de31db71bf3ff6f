"""One-coin Dawid-Skene against loops and dictionaries."""

import math
import warnings
from collections import defaultdict

import pytest
from hypothesis import given

import oracle
import quorate as qr
from conftest import SETS
from strategies import crowds


def naive(votes, iterations):
    """(posterior {task: {label: p}}, skill {worker: s}, log-likelihood) after so many iterations."""
    labels = sorted({label for _, _, label in votes}, key=str)
    others = max(len(labels) - 1, 1)
    posterior = {task: {c: share.get(c, 0.0) for c in labels} for task, share in oracle.shares(votes).items()}
    for _ in range(iterations):
        right, total = defaultdict(float), defaultdict(float)
        for task, worker, label in votes:
            right[worker] += posterior[task][label]
            total[worker] += sum(posterior[task].values())
        prior = {c: sum(p[c] for p in posterior.values()) / len(posterior) for c in labels}
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
    return posterior, skill, likelihood


def log(x):
    return math.log(x) if x > 0 else -math.inf


def compare(votes, source):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qr.NotConverged)
        result = qr.aggregate(source, model="one-coin", max_iter=12)
    posterior, skill, likelihood = naive(votes, result.iterations)
    assert result.log_likelihood == pytest.approx(likelihood, rel=1e-9, abs=1e-9)
    found = dict(result.workers.select("worker", "skill").iter_rows())
    assert {str(w): s for w, s in found.items()} == pytest.approx({str(w): s for w, s in skill.items()}, abs=1e-9)
    for row in result.probabilities.to_dicts():
        line = posterior[row.pop("task")]
        assert {str(c): p for c, p in row.items()} == pytest.approx({str(c): p for c, p in line.items()}, abs=1e-6)


@given(crowds(max_tasks=10, max_votes=60))
def test_generated(votes):
    compare(votes, votes)


@pytest.mark.parametrize("name", [n for n in SETS if n in ("bm", "rte", "adult2")])
def test_real(data_dir, name):
    votes = qr.read(data_dir / name / "votes.csv")
    from quorate.io.ids import frame_of

    compare(frame_of(votes).rows(), votes)
