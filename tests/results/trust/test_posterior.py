import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
import oracle_trust as naive
from adjudge.results.trust.posterior import Ballots, of_labels, settle, tally, update_posterior
from strategies import crowds


def as_dict(votes, posterior):
    labels = votes.labels.ids()
    return {task: {label: float(posterior[c, q]) for c, label in enumerate(labels)} for q, task in enumerate(votes.tasks.ids())}


@given(crowds(), st.integers(0, 2**32 - 1))
def test_a_pass_equals_the_naive_one(rows, seed):
    votes = adj.read(rows, labels=["l0", "l1", "l2", "l3", "never"])
    shape = votes.n_labels, votes.n_tasks
    posterior = np.random.default_rng(seed).dirichlet(np.ones(shape[0]), shape[1]).T.astype(np.float32)
    expected = naive.judged(rows, as_dict(votes, posterior), votes.labels.ids())
    ballots = Ballots.of(votes)
    update_posterior(ballots, tally(ballots, posterior), posterior)  # in place, as passes do
    for task, line in as_dict(votes, posterior).items():
        assert line == pytest.approx(expected[task], abs=2e-4)


def test_it_is_as_sure_as_it_is_right_where_em_is_not():
    sure, settled, right, em_right = [], [], [], []
    for seed in range(8):
        crowd = adj.simulate(tasks=200, workers=100, labels=3, votes_per_task=3, seed=seed)  # six votes a worker
        result = adj.aggregate(crowd.votes, model="ds", confidence="posterior")
        truth = dict(crowd.truth.iter_rows())
        codes = result.votes.labels.codes([truth[t] for t in result.votes.tasks.ids()])
        posterior = settle(Ballots.of(result.votes), of_labels(result.fit.outcome.labels, 3))
        sure.append(result.fit.outcome.confidence.mean())
        em_right.append((result.fit.outcome.labels == codes).mean())
        settled.append(posterior.max(axis=0).mean())
        right.append((posterior.argmax(axis=0) == codes).mean())
    assert np.mean(sure) - np.mean(em_right) > 0.1
    assert abs(np.mean(settled) - np.mean(right)) < 0.02
    assert np.mean(right) > np.mean(em_right) + 0.03


def test_known_tasks_keep_their_label():
    crowd = adj.simulate(tasks=60, workers=10, labels=2, votes_per_task=3, seed=1)
    result = adj.aggregate(crowd.votes)
    labels, known = result.fit.outcome.labels.copy(), np.arange(60) < 10
    labels[known] = 1 - labels[known]  # against the votes
    posterior = settle(Ballots.of(result.votes), of_labels(labels, 2), known)
    assert (posterior[labels[known], np.flatnonzero(known)] == 1).all()
    assert ((posterior[:, ~known] > 0.01) & (posterior[:, ~known] < 0.99)).any()


def test_chunks_cut_between_tasks(monkeypatch):
    votes = adj.read(adj.simulate(tasks=40, workers=10, labels=3, votes_per_task=(1, 6), seed=2).votes)
    whole = Ballots.of(votes)
    labels = adj.aggregate(votes).fit.outcome.labels
    expected = settle(whole, of_labels(labels, 3))
    monkeypatch.setattr("adjudge.results.trust.posterior.CHUNK_VOTES", 7)
    assert len(list(whole.chunks())) > 10
    assert settle(whole, of_labels(labels, 3)) == pytest.approx(expected, abs=1e-6)


def test_votes_that_nobody_cast_beside_tell_nothing():
    votes = adj.read([("t", "a", "x"), ("u", "a", "x"), ("u", "b", "y"), ("v", "b", "x"), ("v", "b", "y")])
    ballots = Ballots.of(votes)
    assert ballots.informative().tolist() == [False, True, False]
    assert ballots.informative(np.array([True, False, False])).tolist() == [True, True, False]
    some = ballots.of_tasks(ballots.informative())
    assert some.task_ptr.tolist() == [0, 2]
    assert some.per_worker.tolist() == [1, 1]
