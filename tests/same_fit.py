"""What the design demands of two fits of the same votes on different engines."""

import warnings

import numpy as np

import adjudge as adj
from fitting import aggregate

EXACT = ("mv", "fds", "iwmv")  # integer counts: labels equal to the last task


def fit(votes, model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model=model, **options)


def assert_same(far, near):
    """Labels, ties and changes equal, probabilities to 1e-6, likelihood to 1e-9, workers to 1e-9."""
    ours, theirs = (r.labels_frame().sort("task") for r in (far, near))
    exact = [name for name in ("task", "label", "votes", "tie", "gold") if name in theirs.columns]
    assert ours.select(exact).equals(theirs.select(exact))
    assert ours.columns == theirs.columns
    ours, theirs = (r.probabilities_frame().sort("task") for r in (far, near))
    assert ours["task"].equals(theirs["task"])
    assert ours.columns == theirs.columns
    if len(ours):
        assert np.abs(ours.drop("task").to_numpy() - theirs.drop("task").to_numpy()).max() < 1e-6
    assert [row.labels_changed for row in far.fit.trace] == [row.labels_changed for row in near.fit.trace]
    assert [row.phase for row in far.fit.trace] == [row.phase for row in near.fit.trace]
    assert (far.converged, far.votes.n_tasks, len(far.votes)) == (near.converged, near.votes.n_tasks, len(near.votes))
    assert (far.ties, far.unvoted, far.gold_without_votes) == (near.ties, near.unvoted, near.gold_without_votes)
    assert np.isclose(far.expected_errors, near.expected_errors, rtol=1e-6, atol=1e-6)
    assert np.isclose(far.log_likelihood, near.log_likelihood, rtol=1e-9, equal_nan=True)
    assert np.allclose(far.fit.params.priors, near.fit.params.priors, atol=1e-9)
    ours, theirs = far.workers_frame(trust=False), near.workers_frame(trust=False)
    assert ours.columns == theirs.columns
    assert ours.select("worker", "votes").equals(theirs.select("worker", "votes"))
    if getattr(far.votes, "abstained", None) is None and far.votes.abstentions:  # not counted by worker, and so not claimed
        assert ours["abstained"].null_count() == len(ours)
        ours = ours.drop("abstained")
    for name in ours.columns[2:]:
        assert np.allclose(ours[name].to_numpy(), theirs[name].to_numpy(), atol=1e-9)
