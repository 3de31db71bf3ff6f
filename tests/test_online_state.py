"""The state of a stream as a service calls it: in codes and texts, a vote and its answer in one call."""

import inspect
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge import _core
from adjudge.kernels import online_reference
from adjudge.online import stream as online_module
from streams import LABELS, counts, recount, saved, with_reference

VOTES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=40)
MODEL = st.sampled_from(["auto", "ds", "fds", "hybrid"])


def both(**options):
    """The same stream on the compiled state and on the reference."""
    return adj.Online(labels=LABELS, **options), with_reference(labels=LABELS, **options)


def told(online, read):
    """What a reader of the state finds, after a renewal where one is due."""
    found = read(1)
    if found is False:
        online.renew_due()
        found = read(2)
    return found


@given(votes=VOTES, model=MODEL, duplicates=st.sampled_from(["last", "all"]), gold=st.sets(st.integers(0, 5), max_size=2))
@settings(deadline=None, max_examples=60)
def test_a_vote_answers_as_learning_and_asking_do(votes, model, duplicates, gold):
    streams = [*both(model=model, duplicates=duplicates), adj.Online(labels=LABELS, model=model, duplicates=duplicates)]
    for online in streams:
        for task in gold:
            online.gold(f"t{task}", "b")
    for task, worker, label in votes:
        found = []
        for online in streams[:2]:
            answer = online.state.vote(f"t{task}", f"w{worker}", label, 1)
            if answer is False:
                online.renew_due()
                answer = online.state.predict(f"t{task}", 2)
            found.append(answer)
        apart = streams[2]
        apart.state.learn(f"t{task}", f"w{worker}", label, False, False)
        found.append(told(apart, lambda kind, task=task, apart=apart: apart.state.predict(f"t{task}", kind)))
        assert found[0] == found[1] == found[2]
    assert saved(streams[0]) == saved(streams[1]) == saved(streams[2])


@given(votes=VOTES, model=MODEL, cells=st.integers(0, 200), again=st.none() | st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_votes_that_are_learned_together_answer_as_those_that_are_learned_alone(votes, model, cells, again):
    streams = [*both(model=model), adj.Online(labels=LABELS, model=model)]
    repeats, at = None if again is None else [again.random() < 0.5 for _ in votes], 0
    while at < len(votes):
        rest = [list(column) for column in zip(*votes[at:], strict=True)]
        names = [f"t{task}" for task in rest[0]], [f"w{worker}" for worker in rest[1]]
        runs = [o.state.vote_many(*names, rest[2], None if again is None else repeats[at:], 1, cells) for o in streams[:2]]
        assert runs[0] == runs[1]
        was, *columns, likely = runs[0]
        for i, before in enumerate(was):
            task, worker, label, alone = names[0][i], names[1][i], rest[2][i], streams[2].state
            assert alone.voted(task, worker) == before
            if before == label and not (repeats and repeats[at + i]):
                assert columns[0][i] == -1
                continue
            answer = alone.vote(task, worker, label, 1)
            if answer is not False:
                row = [column[i] for column in columns]
                assert answer == (row[0], bool(row[2] & 1), row[1], row[2] > 1, likely[3 * i : 3 * i + 3])
            else:
                assert i == len(columns[0])
                for online in streams:
                    online.renew_due()
        at += len(was)
    assert saved(streams[0]) == saved(streams[1]) == saved(streams[2])


@given(votes=VOTES, model=MODEL, duplicates=st.sampled_from(["last", "all"]))
@settings(deadline=None, max_examples=60)
def test_what_was_voted(votes, model, duplicates):
    streams, kept = both(model=model, duplicates=duplicates), {}
    for task, worker, label in votes:
        mine = kept.setdefault(f"t{task}", [])
        if duplicates == "last":
            mine[:] = [vote for vote in mine if vote[0] != f"w{worker}"]
        mine.append((f"w{worker}", label))
    asked = ["t0", "nobody asked", "t1", "known", "t0", *kept]
    for online in streams:
        online.gold("known", "c")
        for task, worker, label in votes:
            online.learn(f"t{task}", f"w{worker}", LABELS[label])
        for task, mine in kept.items():
            assert online.state.votes_of(task) == mine
            for worker, _ in mine:
                assert online.state.voted(task, worker) == [label for who, label in mine if who == worker][-1]
        for worker in {worker for mine in kept.values() for worker, _ in mine}:
            assert online.state.tasks_of(worker) == [
                (t, label) for t, mine in kept.items() for who, label in mine if who == worker
            ]
        assert online.state.votes_of("nobody asked") is None
        assert online.state.voted("nobody asked", "w0") == online.state.voted("t0", "nobody") == -1
        assert online.state.tasks_of("nobody") == []
        label, tie, number, gold, likely = told(online, lambda kind, online=online: online.state.predict_many(asked, kind))
        for at, task in enumerate(asked):
            row = (label[at], tie[at], number[at], gold[at], likely[at].tolist())
            assert row == (online.state.predict(task, 2) or (-1, False, -1, False, [0.0] * 3))
    arrays = [told(online, lambda kind, online=online: online.state.predict_many(asked, kind)) for online in streams]
    assert all(np.array_equal(a, b) and a.dtype == b.dtype and a.shape == b.shape for a, b in zip(*arrays, strict=True))


def test_what_cannot_be_asked():
    for online in both():
        online.learn("t", "w", "a")
        with pytest.raises(IndexError, match="no such label"):
            online.state.vote("t", "w", 3, 1)
        assert online.state.predict_many([], 0)[4].shape == (0, 3)
    with pytest.raises(TypeError, match="ids of tasks are texts"):
        adj.Online(labels=LABELS).state.predict_many(["t", 7], 0)


def test_both_states_have_the_same_methods():
    public = [name for name in dir(online_reference.Online) if not name.startswith("_")]
    assert public == [name for name in dir(_core.Online) if not name.startswith("_")]
    for name in public:
        plain = getattr(online_reference.Online, name)
        if callable(plain):
            given = list(inspect.signature(plain).parameters)[1:]
            compiled = getattr(_core.Online, name).__doc__.partition("(self")[2].partition(") ->")[0]
            for parameter in given if compiled else ():
                assert f"{parameter}:" in compiled, (name, parameter)


@pytest.mark.parametrize("model", ["fds", "ds"])
def test_a_task_of_many_votes_is_settled_now_and_then(model):
    """From 1,024 votes on, most votes leave the label of their task: both states do the same, and counts stay exact."""
    compiled = adj.Online(labels=LABELS, model=model)
    compiled.learn_many([(f"t{n}", f"w{n % 40}", LABELS[n % 3]) for n in range(60)])
    compiled.learn_many([("many", f"w{n}", LABELS[n % 3 % 2]) for n in range(1040)])
    with mock.patch.object(online_module, "compiled", return_value=None):
        reference = adj.Online.from_bytes(compiled.to_bytes())
    assert isinstance(reference.state, online_reference.Online)
    light = 0
    for n in range(60):
        worker, label = f"w{(n * 31) % 1100}", n % 3
        answers = [online.state.vote("many", worker, label, 0) for online in (compiled, reference)]
        assert answers[0] == answers[1]
        light += answers[0] is True
        assert compiled.state.voted("many", worker) == label
        if n % 20 == 0:
            assert counts(compiled) == recount(compiled)
            assert counts(compiled) == counts(reference)
    assert 40 < light < 60
    assert saved(compiled) == saved(reference)


def test_votes_on_a_task_cost_the_same_however_many_it_has():
    """Of the 4,096 votes on a task, about one in 64 to 128 settles it."""
    online = adj.Online(labels=LABELS)
    online.learn_many([("many", f"w{n}", "a") for n in range(4096)])
    light = sum(online.state.vote("many", f"x{n}", 1, 0) is True for n in range(2048))
    assert 2048 - 80 < light < 2048 - 8
    assert online.predict("many").votes == 6144
