"""Gold in a shard: every pass equals one where the posterior of the gold tasks is fixed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.votes import Gold
from adjudge.engines.registry import engine_named, resolve
from adjudge.kernels import reference
from adjudge.models.dawid_skene import ConfusionPrior, ConfusionRecipe


def naive(votes, params, gold):
    """The soft statistics and the likelihood, with the posterior of gold tasks overwritten."""
    session = resolve("reference").load(votes, seed=0, ties="hash")
    session.adopt(lambda _: params, params.priors)
    posterior = session.posterior()
    given = gold >= 0
    posterior[given] = np.eye(votes.n_labels)[gold[given]]
    counts, classes = np.zeros((votes.n_rows, votes.n_labels)), np.zeros(votes.n_labels)
    reference.recount_soft(votes.task_ptr, votes.row, posterior, counts, classes)
    scores, _ = reference.task_scores(votes.task_ptr, votes.row, params.table, params.log_prior)
    top = scores.max(axis=1)
    marginal = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    likelihood = np.where(given, scores[np.arange(len(gold)), np.maximum(gold, 0)], marginal).sum()
    return posterior, counts, classes, likelihood


def counts_of(session):
    return session.gather(lambda _, counts: counts.copy())


def gold_of(votes, codes):
    return Gold(votes.tasks.take(np.flatnonzero(codes >= 0)), codes[codes >= 0])


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@given(seed=st.integers(0, 50), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_gold_is_fixed_in_every_kind_of_pass(engine, seed, share):
    crowd = adj.simulate(tasks=40, workers=8, labels=3, votes_per_task=3, seed=seed)
    votes = adj.read(crowd.votes)
    rng = np.random.default_rng(seed)
    gold = np.where(rng.random(votes.n_tasks) < share, rng.integers(3, size=votes.n_tasks), -1).astype(np.int32)
    is_gold = gold >= 0
    session = engine_named(engine, 1).load(votes, seed=0, ties="hash", gold=gold_of(votes, gold))

    started = session.start(hard=True)
    assert counts_of(session).sum() == len(votes)
    recipe = ConfusionRecipe(adj.DawidSkene(), ConfusionPrior(0.3))
    session.m_step(recipe, recipe.class_priors(started.class_counts)[0])
    params = session.estimate().params
    posterior, counts, classes, likelihood = naive(votes, params, gold)

    soft = session.e_step(hard=False)
    np.testing.assert_allclose(counts_of(session), counts, atol=1e-9)
    np.testing.assert_allclose(soft.class_counts, classes, atol=1e-9)
    assert soft.log_likelihood == pytest.approx(likelihood, rel=1e-12)
    np.testing.assert_allclose(session.posterior(), posterior, atol=1e-12)

    hard = [session.e_step(hard=True) for _ in range(2)][-1]  # the second one by delta
    labels = np.where(is_gold, gold, posterior.argmax(axis=1)).astype(np.int32)
    fresh = engine_named(engine, 1).load(votes, seed=0, ties="hash")
    assert np.array_equal(hard.class_counts, fresh.recount(labels).class_counts)
    assert np.array_equal(counts_of(session), counts_of(fresh))
    assert hard.changed == 0

    outcome = session.finish()
    assert np.array_equal(outcome.labels, labels)
    assert (outcome.confidence[is_gold] == 1.0).all()
    assert not outcome.tie[is_gold].any()
    voted = session.majority()
    assert np.array_equal(voted.labels[is_gold], gold[is_gold])
