"""An M-step of `auto` reads its counts once, and keeps nothing of them."""

import pickle

import adjudge as adj
from adjudge.models.careful import BelievedVotes, SeenOnce


def test_an_m_step_looks_at_its_counts_once(monkeypatch):
    looks, of = [], BelievedVotes.of

    def counted(block, counts, **asked):
        looks.append(counts)
        return of(block, counts, **asked)

    monkeypatch.setattr(BelievedVotes, "of", counted)
    result = adj.AutoModel().fit(adj.simulate(tasks=200, workers=12, labels=3, votes_per_task=5, seed=1).votes)
    assert result.facts["chose"] == "careful"
    assert len(looks) == result.iterations


def test_what_was_seen_is_given_once_and_for_its_counts_alone(monkeypatch):
    monkeypatch.setattr(BelievedVotes, "of", lambda *_, **__: object())
    once, counts, others = SeenOnce(), [1], [1]
    seen = once.look("A", None, counts)
    assert once.take(None, counts) is seen
    assert once.take(None, counts) is not seen
    seen = once.look("A", None, counts)
    assert once.take(None, others) is not seen


def test_a_copy_has_seen_nothing(monkeypatch):
    monkeypatch.setattr(BelievedVotes, "of", lambda _, counts, **__: counts)
    once = SeenOnce()
    once.look("A", None, "large")
    assert b"large" not in pickle.dumps(once)
