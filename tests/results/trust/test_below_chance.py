"""How far answers follow what the others say: against the naive version, on every engine, and what verdicts make of it."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.kernels import cpu, reference
from adjudge.results.trust.posterior import Kinds
from adjudge.results.workers import ADVERSARY, INFORMATIVE, UNCLEAR, verdicts
from oracle_auto import judged
from oracle_trust import below_chance

CROWDS = {
    "plain": {"tasks": 60, "workers": 9, "labels": 3, "votes_per_task": 4, "seed": 1},
    "two labels": {"tasks": 80, "workers": 7, "labels": 2, "votes_per_task": 5, "skill": 0.6, "seed": 2},
    "adversaries": {"tasks": 70, "workers": 12, "labels": 4, "votes_per_task": (1, 6), "adversaries": 0.3, "seed": 3},
    "colluders": {"tasks": 90, "workers": 10, "labels": 3, "votes_per_task": 6, "colluders": 0.4, "repeats": 0.2, "seed": 4},
}


def naive(votes, labels):
    """z of each worker, [workers], of labels, [tasks]."""
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    triples = list(zip(task.tolist(), votes.row_worker()[votes.row].tolist(), votes.row_label[votes.row].tolist(), strict=True))
    majority = dict(enumerate(adj.MajorityVote().fit(votes, engine="reference").fit.outcome.labels.tolist()))
    chosen = dict(enumerate(labels.tolist()))
    found = below_chance(triples, votes.n_labels, chosen, judged(triples, votes.n_labels, chosen, majority)[2])
    return np.array([found[w] for w in range(votes.n_workers)])


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("model", ["mv", "fds", "auto"])
@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("confidence", ["honest", "posterior"])
def test_z_is_that_of_the_naive_version(name, model, engine, confidence):
    votes = adj.read(adj.simulate(**CROWDS[name]).votes)
    result = adj.aggregate(votes, model=model, engine=engine, confidence=confidence)
    found = result.workers["below_chance"].to_numpy()
    assert found == pytest.approx(naive(votes, result.fit.outcome.labels), abs=1e-9)


@pytest.mark.parametrize("name", ["rte", "bm", "snow_temp"])
def test_z_of_real_votes(data_dir, name):
    votes = adj.read(data_dir / name / "votes.csv")
    result = adj.aggregate(votes, model="fds", confidence="honest")
    assert result.workers["below_chance"].to_numpy() == pytest.approx(naive(votes, result.fit.outcome.labels), abs=1e-9)


def test_the_compiled_sums_are_those_of_the_reference_to_the_last_unit():
    votes = adj.read(adj.simulate(tasks=3000, workers=40, labels=5, votes_per_task=(1, 9), seed=3).votes)
    sums = []
    for kernels, threads in ((reference, 1), (cpu, 1), (cpu, 3)):
        session = adj.aggregate(votes, model="fds", confidence="honest", engine="reference").fit.honest
        lines = session.honest.lines(session.session._block, session.session._counted[0])
        out = np.zeros((4, votes.n_rows), np.int64)
        ids = votes.row_worker(), votes.worker_ptr
        kernels.below_chance(
            votes.task_ptr,
            votes.row,
            votes.row_label,
            session.labels,
            *lines,
            session.honest.rule,
            *ids,
            2.0**-40,
            out,
            threads=threads,
        )
        sums.append(out)
    assert np.array_equal(sums[1], sums[2])
    assert np.array_equal(sums[0][0], sums[1][0])
    assert np.abs(sums[0] - sums[1]).max() <= 40  # exp differs in its last bit


def test_disk_has_z_too_and_no_verdicts(tmp_path):
    votes = adj.read(adj.simulate(**CROWDS["plain"]).votes)
    here = adj.aggregate(votes, model="fds", confidence="honest", engine="cpu").workers.sort("worker")
    there = adj.aggregate(votes, model="fds", confidence="honest", engine="disk").workers.sort("worker")
    assert there["below_chance"].to_numpy() == pytest.approx(here["below_chance"].to_numpy(), abs=1e-12)
    if "verdict" not in there.columns:
        assert {"why", "answers_like"}.isdisjoint(there.columns)


def test_gold_says_for_certain_what_others_say():
    rows = [(t, w, "ab"[t % 2]) for t in range(20) for w in "uvw"] + [(t, "odd", "ab"[(t + 1) % 2]) for t in range(20)]
    rows += [(100 + t, "alone", "ab"[t % 2]) for t in range(8)]
    gold = {t: "ab"[t % 2] for t in range(20)} | {100 + t: "ab"[(t + t // 4) % 2] for t in range(8)}
    workers = adj.aggregate(rows, model="fds", confidence="honest", gold=gold).workers
    z = dict(workers.select("worker", "below_chance").iter_rows())
    # Certain answers are 0 or 1: mean and square are the share of the label, and z follows by hand.
    n, share = 20, 0.5
    assert z["u"] == pytest.approx((1 - share) / np.sqrt((share - share**2) / (n - 1)))
    assert z["odd"] == pytest.approx(-z["u"])
    assert z["alone"] == pytest.approx(0.0, abs=1e-9)  # right in half of eight


def kinds_of(*, evader, looks, bits):
    return Kinds(*(np.array([x]) for x in (evader, 0.0, looks, evader, bits, -5.0)))


@pytest.mark.parametrize(
    ("z", "evader", "word"),
    [(-2.4, 0.0, ADVERSARY), (-2.2, 0.0, INFORMATIVE), (-2.2, 0.95, ADVERSARY), (-1.6, 0.95, UNCLEAR), (np.nan, 0.95, UNCLEAR)],
)
def test_adversaries_are_significantly_below_chance(z, evader, word):
    found = kinds_of(evader=evader, looks=0.6 if not evader else 0.0, bits=9.0)
    assert verdicts(found, np.array([False]), np.array([z]), 3)[0] == word


def test_honest_workers_are_not_adversaries():
    """Of 1,600 workers of mean skill 0.75 none is below chance."""
    for seed in range(40):
        crowd = adj.simulate(tasks=300, workers=40, labels=3, votes_per_task=6, seed=100 + seed)
        workers = adj.aggregate(crowd.votes, model="fds", confidence="posterior").workers
        assert (workers["verdict"] != "adversary").all()
        assert workers.filter(pl.col("below_chance") < -2.33).is_empty()
