"""The number of threads changes nothing, to the last bit: labels, probabilities, workers, likelihoods, saved models."""

import warnings
from dataclasses import replace

import polars as pl
import pytest

import adjudge as adj
from adjudge.engines.registry import engine_named
from adjudge.engines.shard import MAX_FINE_VOTES
from adjudge.kernels.cpu import compiled
from adjudge.models.base import MODELS

CROWD = adj.simulate(tasks=50_000, workers=400, labels=3, votes_per_task=4, skill=0.4, spammers=0.2, seed=5)
SOFT = ("ds", "hybrid", "one-coin", "fds")  # fds counts softly in the end


@pytest.fixture(scope="module")
def votes():
    return adj.read(CROWD.votes)


def written(votes, model, engine, folder, *, likelihoods=True, confidence="honest"):
    """Everything that a fit can write, as bytes by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        result = MODELS[model](max_iter=4).fit(votes, engine=engine, confidence=confidence)
    result.save(folder / "model.adjudge")
    trace = result.trace.drop("seconds") if likelihoods else result.trace.select("change", "labels_changed")
    frames = {
        "labels": result.labels,
        "probabilities": result.probabilities,
        "workers": result.workers_frame(trust=False),
        "trace": trace,
        "priors": pl.DataFrame(result.fit.params.priors),
        "confusion": pl.DataFrame(result.fit.params.table),
    }
    out = {name: frame.write_csv().encode() for name, frame in frames.items()}
    saved = (folder / "model.adjudge").read_bytes()
    return {**out, "saved": saved, "likelihood": float(result.log_likelihood).hex()} if likelihoods else out


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
@pytest.mark.parametrize("model", SOFT)
def test_any_number_of_threads_writes_the_same_bytes(votes, model, tmp_path):
    assert len(votes) > max(3 * (1 << 16), MAX_FINE_VOTES)  # several shards to be shared out
    first = written(votes, model, engine_named("cpu", 1), tmp_path)
    for threads in (2, 3, 8):
        assert written(votes, model, engine_named("cpu", threads), tmp_path) == first
    for threads in (1, 3):
        assert written(votes, model, engine_named("disk", threads), tmp_path) == first


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
@pytest.mark.parametrize("model", SOFT)
def test_any_shard_size_counts_the_same(votes, model, tmp_path):
    """All but the likelihoods and the sums behind honest confidence, whose terms are added shard by shard."""
    how = {"likelihoods": False, "confidence": "posterior"}
    first = written(votes, model, engine_named("cpu", 2), tmp_path, **how)
    small = replace(engine_named("disk", 2), shard_votes=9000, batch_votes=0)
    assert written(votes, model, small, tmp_path, **how) == first


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
def test_what_is_reported_for_workers_is_the_same(tmp_path):
    """With verdicts and intervals, and a last soft count behind the accuracy."""
    votes = adj.simulate(tasks=20_000, workers=60, labels=3, votes_per_task=5, spammers=0.2, seed=6).votes
    frames = [adj.aggregate(votes, model="fds", engine=adj.AutoEngine(threads=threads)).workers for threads in (1, 2, 8)]
    assert frames[0].write_csv() == frames[1].write_csv() == frames[2].write_csv()
