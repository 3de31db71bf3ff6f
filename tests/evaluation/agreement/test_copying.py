"""Rings must be found, and independent crowds left in peace."""

import math
import warnings

import numpy as np
import pytest

import adjudge as adj
from adjudge.evaluation.agreement.pairs import COPY_SHARES, VotePairs, common_answers, figures, pair_tables


def rings_of(crowd):
    """The rings that were simulated, as sets of workers."""
    kinds = crowd.workers.filter(crowd.workers["kind"] == "colluder")
    groups = kinds.group_by("copies").agg("worker")["worker"].to_list()
    return {frozenset(g) for g in groups if len(g) > 1}


def agreement(votes, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.CopiedVotes)
        return adj.agreement(votes, resamples=0, **options)


RINGS = {
    "a crowd": {"tasks": 2000, "workers": 20, "colluders": 0.2, "ring": 4},
    "two labels": {"tasks": 4000, "workers": 20, "votes_per_task": 7, "colluders": 0.2, "ring": 4, "labels": 2},
    "many rings": {"tasks": 2000, "workers": 20, "colluders": 0.6, "ring": 3},
    "among spammers": {"tasks": 3000, "workers": 20, "colluders": 0.2, "ring": 4, "spammers": 0.2, "adversaries": 0.1},
    "few busy workers": {"tasks": 5000, "workers": 20, "colluders": 0.2, "ring": 2, "power": 0.5},
    "repeated votes": {"tasks": 2000, "workers": 20, "colluders": 0.2, "ring": 4, "repeats": 0.2},
    "a panel": {"tasks": 300, "workers": 9, "votes_per_task": 9, "colluders": 0.34, "ring": 3},
    "a panel outvoted": {"tasks": 500, "workers": 9, "votes_per_task": 9, "colluders": 0.56, "ring": 5},
    "few votes": {"tasks": 300, "workers": 20, "colluders": 0.2, "ring": 4},
    "two labels, few votes": {"tasks": 400, "workers": 20, "labels": 2, "colluders": 0.2, "ring": 4},
    "all kinds": {"tasks": 300, "workers": 20, "votes_per_task": 7, "spammers": 0.1, "adversaries": 0.1, "colluders": 0.2},
    "skilled": {"tasks": 500, "workers": 12, "votes_per_task": 6, "skill": 0.9, "skill_spread": 0.05, "colluders": 0.34},
    "rare labels": {"tasks": 800, "workers": 15, "label_weights": [8, 1, 1], "colluders": 0.2, "ring": 3},
    "a large ring": {"tasks": 400, "workers": 20, "votes_per_task": 6, "colluders": 0.4, "ring": 8},
}
HARD = {  # too few votes to find them all
    "many workers": {"tasks": 1000, "workers": 100, "colluders": 0.1, "ring": 5},
    "four labels": {"tasks": 300, "workers": 30, "labels": 4, "colluders": 0.2, "ring": 3},
}


def alike(workers):
    """The workers whose answers are like another's."""
    return sorted(workers.drop_nulls("answers_like")["worker"])


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", [*RINGS, *HARD])
def test_agreement_and_workers_name_the_same_rings(name, seed):
    crowd = adj.simulate(**(RINGS | HARD)[name], seed=seed)
    found = agreement(crowd.votes)
    workers = adj.aggregate(crowd.votes, model="fds").workers
    assert sorted(w for ring in found.rings for w in ring) == alike(workers)
    ring_of = {w: ring for ring in found.rings for w in ring}
    named = workers.drop_nulls("answers_like")
    assert all(like in ring_of[w] for w, like in named.select("worker", "answers_like").iter_rows())
    if name in RINGS:
        assert alike(workers) == sorted(crowd.workers.filter(kind="colluder")["worker"])
        assert set(named["verdict"]) == {"copy"}


@pytest.mark.parametrize("known", [60, 300])
@pytest.mark.parametrize("model", ["fds", "ds", "mv"])
def test_truth_is_gold_to_both(model, known):
    crowd = adj.simulate(tasks=300, workers=30, labels=4, colluders=0.2, ring=3, seed=2)
    truth = crowd.truth.head(known)
    found = agreement(crowd.votes, truth=truth, model=model)
    assert found.reference == "truth"
    assert sorted(w for ring in found.rings for w in ring) == alike(adj.aggregate(crowd.votes, model, gold=truth).workers)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("known", [True, False], ids=["truth", "no truth"])
@pytest.mark.parametrize("name", RINGS)
def test_rings_are_found(name, known, seed):
    crowd = adj.simulate(**RINGS[name], seed=seed)
    with pytest.warns(adj.CopiedVotes, match="seem to copy each other"):
        found = adj.agreement(crowd.votes, truth=crowd.truth if known else None, resamples=0)
    assert {frozenset(ring) for ring in found.rings} == rings_of(crowd)
    assert found.copying["copied"].min() > 0.9
    marked = found.pairs.filter(found.pairs["same_ring"])
    assert len(marked) == len(found.copying)


INDEPENDENT = {
    "a crowd": {},
    "two labels": {"labels": 2, "votes_per_task": 3},
    "unskilled": {"skill": 0.55, "labels": 4, "workers": 20},
    "spammers": {"spammers": 0.4, "workers": 20, "tasks": 2000},
    "adversaries": {"spammers": 0.2, "adversaries": 0.1, "workers": 20, "tasks": 2000},
    "experts": {"skill": 0.97, "skill_spread": 0.02, "workers": 9, "votes_per_task": 9},
    "two votes": {"votes_per_task": 2, "workers": 10, "tasks": 2000},
    "busy workers": {"power": 1.0, "tasks": 2000},
    "repeats": {"repeats": 0.3, "workers": 15},
    "rare labels": {"label_weights": [20, 1, 1], "workers": 10, "votes_per_task": 10},
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent_crowds_are_left_in_peace(name, seed):
    crowd = adj.simulate(**INDEPENDENT[name], seed=seed)
    for truth in (crowd.truth, None):
        assert adj.agreement(crowd.votes, truth=truth, resamples=0).rings == ()  # a warning would be an error here


def same(skill, k):
    return np.full((k, k), (1 - skill) / (k - 1)) * (1 - np.eye(k)) + np.eye(k) * skill


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("experts", "others", "skill"), [(7, 2, None), (4, 5, 0.7), (3, 1, 0.7), (9, 0, None)])
def test_experts_who_agree_nearly_always_are_not_a_ring(k, experts, others, skill):
    rest = np.full((k, k), 1 / k) if skill is None else same(skill, k)
    crowd = adj.simulate(tasks=500, votes_per_task=9, confusions=np.stack([same(0.98, k)] * experts + [rest] * others), seed=3)
    assert adj.agreement(crowd.votes, resamples=0).rings == ()


def test_spammers_with_the_same_habit_are_not_a_ring():
    k = 3
    spam = np.tile([0.9, 0.05, 0.05], (k, 1))
    crowd = adj.simulate(tasks=1000, votes_per_task=9, confusions=np.stack([same(0.8, k)] * 5 + [spam] * 4), seed=3)
    for truth in (crowd.truth, None):
        assert adj.agreement(crowd.votes, truth=truth, resamples=0).rings == ()


def test_partly_copied_answers_are_measured():
    rng = np.random.default_rng(4)
    crowd = adj.simulate(tasks=2000, workers=6, votes_per_task=6, skill=0.7, seed=4)
    said = {(t, w): k for t, w, k in crowd.votes.iter_rows()}
    for share, found_at_all in ((0.3, False), (0.6, False), (0.9, True)):
        votes = []
        for (t, w), k in said.items():
            copied = w == "w1" and rng.random() < share
            votes.append((t, w, said[t, "w0"] if copied else k))
        found = agreement(votes, truth=crowd.truth)
        assert found.rings == ((("w0", "w1"),) if found_at_all else ())
        if found_at_all:
            assert found.copying["copied"].to_list() == [pytest.approx(share, abs=0.06)]


def naive_log_odds(votes, truth, a, b, c):
    """The log odds of a pair by the formula, with the smoothed shares of each worker's answers."""
    labels = sorted({k for _, _, k in votes})
    said = {(w, t): k for t, w, k in votes}

    def share(rows, z, k):
        rows = [said[r] for r in rows if truth[r[1]] == z]
        return rows.count(k), len(rows)

    def p(w, z, k):
        n, m = share([r for r in said if r[0] == w], z, k)
        crowd, total = share(list(said), z, k)
        return (n + crowd / total) / (m + 1)

    out = 0.0
    for t in truth:
        if (a, t) in said and (b, t) in said:
            k = said[a, t]
            if said[b, t] != k:
                out += math.log(1 - c)
            else:
                out += math.log(1 - c + c * (1 / p(a, truth[t], k) + 1 / p(b, truth[t], k)) / 2)
    assert labels
    return out


def test_the_odds_are_those_of_the_formula():
    crowd = adj.simulate(tasks=150, workers=5, colluders=0.4, ring=2, seed=1)
    votes, truth = crowd.votes.rows(), dict(crowd.truth.rows())
    found = agreement(votes, truth=truth)
    row = found.copying.row(0, named=True)
    by_share = [naive_log_odds(votes, truth, row["worker_a"], row["worker_b"], c) for c in COPY_SHARES]
    expected = math.log(sum(math.exp(x) for x in by_share) / len(by_share))
    assert row["log10_odds"] * math.log(10) == pytest.approx(expected, rel=1e-9)
    both = {(t, w): k for t, w, k in votes}
    pair = [
        (both[t, row["worker_a"]], both[t, row["worker_b"]], z)
        for t, z in truth.items()
        if (t, row["worker_a"]) in both and (t, row["worker_b"]) in both
    ]
    assert row["shared"] == len(pair)
    assert row["same_wrong"] == sum(x == y != z for x, y, z in pair)


def test_truth_of_some_tasks_only():
    crowd = adj.simulate(tasks=600, workers=9, votes_per_task=9, colluders=0.34, ring=3, seed=1)
    some = crowd.truth.head(300)
    half = agreement(crowd.votes.filter(crowd.votes["task"].is_in(some["task"].to_list())), truth=crowd.truth)
    found = agreement(crowd.votes, truth=some)
    assert found.rings == half.rings == (("w0", "w1", "w2"),)
    assert found.copying["shared"].to_list() == [300] * 3
    assert sorted(found.copying["same_wrong"]) == sorted(half.copying["same_wrong"])
    assert found.pairs["shared"].to_list() == [600] * 36


def test_repeated_votes_are_not_evidence():
    votes = adj.read([("t", "a", "x")] * 30 + [("t", "b", "x")] * 30 + [("t", "c", "y")] + [("u", "a", "y"), ("u", "c", "y")])
    pairs = VotePairs(votes)
    once = pairs.once()
    assert (len(once.votes), once.repeats) == (5, 0)
    assert once.votes.task_ptr.tolist() == [0, 3, 5]
    common = common_answers(once, np.array([1, 1]), figures(pair_tables(pairs)))
    assert common.shared.tolist() == [1, 2, 1]
    assert common.same_wrong.tolist() == [1, 0, 0]
    assert adj.agreement(votes).rings == ()


def test_each_ring_has_one_vote_in_the_labels():
    crowd = adj.simulate(tasks=500, workers=9, votes_per_task=9, colluders=0.56, ring=5, seed=1)
    found = agreement(crowd.votes)
    assert found.reference == "fds, one vote per ring"
    by_truth = agreement(crowd.votes, truth=crowd.truth)
    by_fit = agreement(crowd.votes, truth=adj.aggregate(crowd.votes, model="fds"))  # the labels of the ring, which outvotes
    ringed, true, fitted = (a.pairs["same_wrong"].sum() for a in (found, by_truth, by_fit))
    assert abs(ringed - true) < 0.2 * true
    assert abs(fitted - true) > 0.5 * true


def test_a_truth_that_nobody_gave_is_not_gold():
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=9, colluders=0.34, ring=3, seed=1)
    nowhere = dict.fromkeys(crowd.truth["task"], "elsewhere")
    for model in ("fds", None):
        found = agreement(crowd.votes, truth=nowhere, model=model)
        assert found.rings == (("w0", "w1", "w2"),)
        assert found.copying["same_wrong"].to_list() == [300] * 3


def test_without_memory_nobody_is_called_a_copy(monkeypatch, caplog):
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=9, colluders=0.34, ring=3, seed=1)
    monkeypatch.setattr("adjudge.results.trust.copies.free_memory", lambda: 1000)
    monkeypatch.setattr("adjudge.results.trust.copies.UNCHECKED_BYTES", 0)
    found = adj.agreement(crowd.votes, resamples=0)
    assert "no intervals, verdicts and copies" in caplog.text
    assert found.rings == ()
    assert not found.pairs["same_ring"].any()
    assert found.pairs["same_wrong"].null_count() == 0


def test_real_judges_and_real_crowds(data_dir):
    judges = agreement(data_dir / "llmbar_natural" / "votes.csv", truth=data_dir / "llmbar_natural" / "truth.csv")
    assert judges.votes_per_task > 80
    assert judges.effective_votes < 8  # prompts of the same models
    assert len(judges.copies) > 30
    assert all(len({judge.split("/")[0] for judge in ring}) == 1 for ring in judges.rings)
    for name in ("bm", "rte", "labelme"):
        assert agreement(data_dir / name / "votes.csv", truth=data_dir / name / "truth.csv").rings == ()
