"""The start and the end of a fit: no pass twice, and nothing that nobody asked for; the same answers all the same."""

import gc
import pickle

import numpy as np
import pytest

import adjudge as adj
from adjudge.engines.local import MemoryStore
from adjudge.engines.registry import engine_named, resolve
from adjudge.engines.shard import TieKeys
from adjudge.kernels.cpu import compiled
from adjudge.models.base import make
from fitting import aggregate

ENGINES = ["reference", *(["cpu"] if compiled() is not None else [])]
CROWD = adj.simulate(tasks=300, workers=12, labels=3, votes_per_task=4, adversaries=0.2, seed=3)
VOTES = adj.read(CROWD.votes)
GOLD = CROWD.truth.head(20)


@pytest.fixture
def passes(monkeypatch):
    """Names of the passes over all votes, in order."""
    seen = []
    for name in ("relabel", "decide", "scan"):
        plain = getattr(MemoryStore, name)

        def act(self, what, act, plain=plain, name=name):
            if name != "relabel" or seen[-1:] != [f"({what})"]:
                seen.append(what)
            seen.append(f"({what})")  # what `decide` and `scan` do inside
            out = plain(self, what, act)
            while seen and seen[-1].startswith("("):
                seen.pop()
            return out

        monkeypatch.setattr(MemoryStore, name, act)
    return seen


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("model", "kind"), [("fds", "hard"), ("ds", "soft")])
def test_an_iteration_is_a_pass_and_the_last_one_decides(passes, engine, model, kind):
    result = adj.aggregate(VOTES, model=model, engine=engine, confidence="posterior")
    assert result.converged
    assert passes == ["majority vote", *(f"pass {i} ({kind})" for i in range(1, result.iterations)), "last pass"]
    passes.clear()
    assert result.workers.height == VOTES.n_workers
    assert passes[:1] == (["right votes"] if kind == "hard" else passes[:1])  # nobody had asked for them before
    assert result.trace["log_likelihood"][-1] == result.log_likelihood


@pytest.mark.parametrize("model", ["fds", "ds"])
def test_a_rule_that_looks_at_labels_has_a_pass_more(passes, model):
    result = adj.aggregate(VOTES, model=make(model, {"stop": "labels"}), engine="reference", confidence="posterior")
    assert result.converged
    assert len(passes) == result.iterations + 2
    assert passes[-1] == "last pass"
    with pytest.warns(adj.NotConverged):  # the most iterations are known beforehand
        few = adj.DawidSkene(max_iter=2, stop="labels").fit(VOTES, engine="reference", confidence="posterior")
    assert passes[-3:] == ["majority vote", "pass 1 (soft)", "last pass"]
    assert few.iterations == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_majority_vote_is_counted_once(passes, engine):
    adj.aggregate(VOTES, model="fds", engine=engine)
    assert passes.count("majority vote") == 1
    assert "recount" not in passes  # the last pass has left the counts of its labels
    whole, measured = (engine_named(engine, 2).load(VOTES, seed=0, ties="hash") for _ in range(2))
    measured.start(hard=True)
    one, two = whole.majority(), measured.majority()  # the second without counting again
    for name in ("labels", "confidence", "tie", "right_votes"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


@pytest.mark.parametrize("engine", ENGINES)
def test_vote_shares_are_counted_once(passes, engine):
    session = engine_named(engine, 2).load(VOTES, seed=0, ties="hash")
    first = session.start(hard=False).class_counts
    counts = session.gather(lambda _, counts: counts)
    assert session.start(hard=False).class_counts is first
    assert session.gather(lambda _, counts: counts) is counts
    assert passes == ["majority vote"]
    session.start(hard=True)
    assert np.array_equal(session.start(hard=False).class_counts, first)
    assert len(passes) == 3


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@pytest.mark.parametrize("gold", [None, GOLD], ids=["no gold", "gold"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["fds", "ds", "hybrid", "one-coin"])
def test_the_last_pass_says_what_a_pass_after_it_would_say(monkeypatch, model, engine, gold):
    options = {"engine": engine, "confidence": "posterior", "gold": gold}
    for more in ({}, {"trace": "light"}):
        shared = aggregate(VOTES, model=model, **options, **more)
        with monkeypatch.context() as apart:
            session = type(engine_named(engine, 1).load(VOTES, seed=0, ties="hash"))
            plain = session.e_step
            apart.setattr(session, "e_step", lambda self, *, last=False, plain=plain, **how: plain(self, **how))
            alone = aggregate(VOTES, model=model, **options, **more)
        for name in ("labels", "confidence", "tie"):
            assert np.array_equal(getattr(shared.fit.outcome, name), getattr(alone.fit.outcome, name)), name
        assert np.array_equal(shared.right_votes, alone.right_votes)
        assert shared.log_likelihood == pytest.approx(alone.log_likelihood, rel=1e-12)
        assert np.array_equal(shared.fit.statistics.counts, alone.fit.statistics.counts)
        assert shared.trace.drop("seconds").equals(alone.trace.drop("seconds"))


def test_right_votes_are_those_of_the_posterior_and_outlive_other_passes():
    result = adj.aggregate(VOTES, model="fds", confidence="posterior")
    posterior = result.session.posterior()
    task = np.repeat(np.arange(VOTES.n_tasks), np.diff(VOTES.task_ptr))
    expected = np.bincount(VOTES.row, posterior[task, VOTES.row_label[VOTES.row]], minlength=VOTES.n_rows)
    again = pickle.loads(pickle.dumps(result))
    result.session.recount(np.zeros(VOTES.n_tasks, np.int32))
    result.session.start(hard=False)
    for one in (result, again):
        np.testing.assert_allclose(one.right_votes, expected, atol=1e-9)


@pytest.mark.parametrize("model", ["fds", "ds"])
def test_a_fit_that_is_stopped_in_its_last_pass_releases_its_folder(tmp_path, model):
    votes = adj.read([(f"t{i % 7}", f"w{i % 5}", "ab"[i * i % 3 % 2]) for i in range(60)], strict=False)
    last = len(adj.aggregate(votes, model=model, engine="disk").trace)

    def stop(row):
        if row.iteration == last:
            raise KeyboardInterrupt

    gc.disable()  # what is in no cycle goes at once
    try:
        with pytest.raises(KeyboardInterrupt) as stopped:
            adj.aggregate(votes, model=model, engine=adj.Disk(work=tmp_path), progress=stop)
        del stopped
        again = adj.aggregate(votes, model=model, engine=adj.Disk(work=tmp_path, resume=True))
    finally:
        gc.enable()
    assert len(again.trace) == last


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_of_a_result_are_not_those_that_later_passes_change(engine):
    result = adj.aggregate(VOTES, model="fds", engine=engine, confidence="posterior")
    kept = {name: getattr(result.fit.outcome, name).copy() for name in ("labels", "confidence", "tie")}
    table, counts = result.fit.params.table.copy(), result.fit.statistics.counts.sum()
    session = result.session
    session.recount(np.ones(VOTES.n_tasks, np.int32))
    session.majority()
    session.finish()
    for name, before in kept.items():
        assert np.array_equal(getattr(result.fit.outcome, name), before), name
    assert np.array_equal(result.fit.params.table, table)
    assert counts == len(VOTES)


@pytest.mark.parametrize("numbers", [False, True], ids=["texts", "numbers"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_fit_hashes_no_task_that_does_not_tie(monkeypatch, engine, numbers):
    votes = [(f"{t}" if not numbers else t, w, "ab"[t % 2]) for t in range(20) for w in "xyz"]
    asked, plain = [], TieKeys.__getitem__
    monkeypatch.setattr(TieKeys, "every", lambda self: pytest.fail("all ids were hashed"))
    monkeypatch.setattr(TieKeys, "__getitem__", lambda self, tasks: asked.extend(tasks) or plain(self, tasks))
    assert not adj.aggregate(votes, model="fds", engine=engine).labels["tie"].any()
    assert not asked


@pytest.mark.skipif(compiled() is None, reason="no compiled core")
@pytest.mark.parametrize("gold", [None, {2: "a", 5: "b"}], ids=["no gold", "gold"])
@pytest.mark.parametrize("ids", ["texts", "numbers", "booleans"])
def test_ties_go_to_the_same_labels_however_ids_are_stored(ids, gold):
    name = {"texts": lambda t: f"t-{t}", "numbers": lambda t: (-1) ** t * (t * 10**15 + t), "booleans": bool}[ids]
    tasks = range(40) if ids != "booleans" else range(2)
    votes = adj.read([(name(t), w, c) for t in tasks for w, c in (("x", "a"), ("y", "b"), ("z", "c"))])
    known = None if gold is None or ids == "booleans" else {name(t): label for t, label in gold.items()}
    for model, seed in (("mv", 0), ("mv", 5), ("fds", -3), ("fds", 2**70)):
        options = {"model": model, "seed": seed, "gold": known}
        first, *others = (aggregate(votes, engine=e, **options).labels for e in ("reference", "cpu", "disk"))
        assert all(one["label"].equals(first["label"]) for one in others)
        if model == "mv" and ids != "booleans":
            assert len(set(first["label"])) == 3


def test_keys_of_some_tasks_are_those_of_all():
    keys = TieKeys(resolve("reference").kernels, VOTES.tasks, 5)
    every, some = keys.every(), np.array([7, 3, 299])
    assert np.array_equal(keys[some], every[some])
    part = keys.within(slice(100, 250))
    assert len(part) == 150
    assert np.array_equal(part.every(), every[100:250])
    assert np.array_equal(part.within(slice(10, 20))[np.array([1])], every[[111]])
