"""The proof of copying: experts are cleared, exact rings are named, and the figures are those of the naive version."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.results.trust import proof
from adjudge.results.trust.proof import RingProof, answer_alike, beta_quantile
from adjudge.results.workers import JudgedWorkers
from oracle_trust import experts_among_weak, quantile, ring_proof

EXPERTS = {
    "as they are": {},
    "better crowd": {"weak_skill": 0.5, "expert_skill": 0.98},
    "four labels": {"labels": 4, "weak_skill": 0.35},
    "two labels": {"labels": 2, "weak_skill": 0.5},
}


@pytest.mark.parametrize(("model", "confidence"), [("auto", "honest"), ("fds", "posterior")])
@pytest.mark.parametrize("name", EXPERTS)
def test_experts_among_weak_workers_are_not_copies(name, model, confidence):
    alike = 0
    for seed in range(12):
        rows = experts_among_weak(seed, **EXPERTS[name])
        workers = adj.aggregate(rows, model=model, confidence=confidence).workers
        assert (workers["verdict"] != "copy").all()
        alike += workers.filter(pl.col("worker") < 5)["answers_like"].is_not_null().sum()
    assert alike >= (40 if name != "two labels" else 5)  # they do answer alike, and the column says so


@pytest.mark.parametrize("model", ["mv", "fds", "auto", "glad"])
def test_rings_get_the_proof_of_the_naive_version(model):
    crowd = adj.simulate(tasks=200, workers=16, labels=3, votes_per_task=6, colluders=0.5, ring=4, seed=5)
    result = adj.aggregate(crowd.votes, model=model, confidence="honest")
    votes = list(zip(*(crowd.votes[c].to_list() for c in ("task", "worker", "label")), strict=True))
    names = result.votes.workers.texts()
    proofs = result.judged.assessment.proofs
    assert len(proofs) == 2
    for one in proofs:
        ring = {names[w] for w in one.members}
        rest = adj.aggregate([v for v in votes if v[1] not in ring], model=model, confidence="honest")
        labels = rest.votes.labels.texts()
        code = {t: n for n, t in enumerate(rest.votes.tasks.texts())}

        chances = {name: rest.fit.honest.chance(np.full(len(code), c, np.int32)) for c, name in enumerate(labels)}

        def chance(task, label, chances=chances, code=code):
            return float(chances[label][code[task]]) if task in code else None

        agreeing, pairs, needed, best, ratio = ring_proof(votes, ring, chance, 3)
        assert (one.agreeing, one.pairs) == (agreeing, pairs)
        assert one.needed == pytest.approx(needed, abs=1e-5)
        assert one.found == pytest.approx(best, abs=1e-4)
        assert one.log_ratio == pytest.approx(ratio, abs=1e-3)
        assert one.is_copied


def test_the_probability_of_an_answer_is_that_before_the_last_step():
    crowd = adj.simulate(tasks=50, workers=9, labels=3, seed=2)
    for engine in ("cpu", "reference"):
        result = adj.aggregate(crowd.votes, model="fds", confidence="honest", engine=engine)
        shown = result.probabilities.drop("task").to_numpy()
        before = np.stack([result.fit.honest.chance(np.full(50, c, np.int32)) for c in range(3)], axis=1)
        assert before.sum(axis=1) == pytest.approx(1.0)
        last = before.copy()
        last[np.arange(50), result.fit.outcome.labels] = before.max(axis=1)
        assert last / last.sum(axis=1, keepdims=True) == pytest.approx(shown, abs=1e-12)


@pytest.mark.parametrize(("agreeing", "pairs", "alike"), [(0, 0, False), (10, 10, True), (289, 296, False), (5950, 6000, True)])
def test_agreement_must_be_exact_or_beyond_doubt(agreeing, pairs, alike):
    assert answer_alike(agreeing, pairs) is alike


def test_less_is_asked_of_rings_that_never_differ():
    member = np.array([0, 1])
    assert RingProof(member, 120, 120, 0.999, 0.97, 0.4).is_copied
    assert not RingProof(member, 90, 90, 0.999, 0.97, 0.4).is_copied
    assert not RingProof(member, 5950, 6000, 0.99, 0.97, 0.4).is_copied
    assert RingProof(member, 5950, 6000, 0.99, 0.97, 1.1).is_copied


@pytest.mark.parametrize(("right", "wrong"), [(0, 0), (3, 1), (60, 0), (980, 20), (5, 90)])
@pytest.mark.parametrize("level", [0.01, 0.5])
def test_quantiles_are_those_of_the_beta_distribution(right, wrong, level):
    assert beta_quantile(right, wrong, level) == pytest.approx(quantile(right + 0.5, wrong + 0.5, level), abs=2e-5)


def test_more_rings_than_refits_are_left_out_together(monkeypatch):
    crowd = adj.simulate(tasks=400, workers=24, labels=3, votes_per_task=8, colluders=0.5, ring=4, seed=3)
    asked = []
    monkeypatch.setattr(proof, "MAX_REFITS", 2)
    whole = adj.aggregate(crowd.votes, model="fds", confidence="posterior")
    judge = JudgedWorkers.judge_without

    def counted(self, left_out):
        asked.append(int(left_out.sum()))
        return judge(self, left_out)

    monkeypatch.setattr(JudgedWorkers, "judge_without", counted)
    assert sorted(whole.workers.filter(verdict="copy")["worker"]) == sorted(crowd.workers.filter(kind="colluder")["worker"])
    assert asked == [8, 4]


def test_a_ring_of_everybody_cannot_be_judged():
    rng = np.random.default_rng(1)
    answers = rng.integers(0, 3, 80)
    rows = [(t, w, int(answers[t])) for t in range(80) for w in "abcd"]
    assert "copy" not in set(adj.aggregate(rows, model="fds", confidence="honest").workers["verdict"])


def test_what_callers_know_is_known_without_the_ring_too():
    """Gold on every task says that the ring errs: with it the proof is stronger."""
    crowd = adj.simulate(tasks=200, workers=16, labels=3, votes_per_task=6, colluders=0.25, ring=4, seed=5)
    without, known = (
        adj.aggregate(crowd.votes, model="fds", confidence="honest", gold=gold).judged.assessment.proofs[0]
        for gold in (None, crowd.truth)
    )
    assert known.log_ratio > without.log_ratio
    accuracy = crowd.workers.filter(kind="colluder")["accuracy"].mean()
    assert known.found == pytest.approx(accuracy, abs=0.12)
