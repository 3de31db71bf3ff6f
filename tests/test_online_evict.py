"""Tasks leave memory and come back without a trace; saved streams continue to the bit; refits in three steps."""

import contextlib
import random
import threading
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io import container
from adjudge.io.stream_file import VERSION
from adjudge.kernels.online_honest import SHARE_UNITS
from adjudge.online import stream as stream_module
from adjudge.online.refit import content_of
from streams import LABELS, counts, recount, saved, with_reference

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
MODEL = st.sampled_from(["auto", "ds", "fds", "hybrid"])
OPTIONS = {"duplicates": st.sampled_from(["last", "all"]), "strength": st.sampled_from([0.0, 1.0]), "compiled": st.booleans()}
TASK = st.integers(0, 5).map("t{}".format)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *["learn"] * 6,
                "retract",
                "forget",
                "abstain",
                "gold",
                "free",
                "read",
                "add_label",
                "refit",
                "evict",
                "back",
                "back",
            ]
        ),
        TASK,
        st.integers(0, 4).map("w{}".format),
        st.integers(0, 3),
    ),
    max_size=30,
)


def stream(compiled=True, **options):
    return (adj.Online if compiled else with_reference)(labels=LABELS, **options)


def play(online, events, away, *, reading=True):
    """Plays events; `away` has the tasks that were evicted, by id, and changes with them."""
    for event, task, worker, nth in events:
        labels = online.settings["labels"]
        label = labels[nth % len(labels)]
        with contextlib.suppress(adj.InputError):  # there may be none to take back
            if event == "learn":
                online.learn(task, worker, label)
            elif event == "abstain":
                online.learn(task, worker, None)
            elif event == "gold":
                online.gold(task, label)
            elif event == "free":
                online.gold(task, None)
            elif event == "retract":
                online.retract(task, worker)
            elif event == "forget":
                online.forget(task)
            elif event == "evict" and task not in away:
                away[task] = online.evict(task)
            elif event == "back" and task in away:
                online.bring_back(away[task])
                del away[task]
            elif event == "add_label" and len(labels) < 5:
                online.add_label(f"label {len(labels)}")
            elif event == "read" and reading:
                online.labels()
            elif event == "refit" and (online.state.snapshot()["labels"] >= 0).any():
                online.refit(engine="reference")


def answers(online):
    """Every answer of a stream, and its bytes before and after."""
    before = saved(online)
    every = [online.labels().rows(), online.workers().rows(), online.gold_labels().rows(), online.abstentions]
    workers = online.workers()["worker"].to_list()
    return before, every, [online.confusion(worker).rows() for worker in workers], counts(online), saved(online)


@given(events=EVENTS, later=EVENTS, leave=st.lists(TASK, min_size=1, max_size=4), model=MODEL, adds=st.booleans(), **OPTIONS)
@settings(deadline=None, max_examples=30)
def test_a_task_that_leaves_and_comes_back_leaves_no_trace(events, later, leave, model, adds, compiled, **options):
    there, away = (stream(compiled, model=model, **options) for _ in range(2))
    gone = [{}, {}]
    for online, tasks in zip((there, away), gone, strict=True):
        play(online, events, tasks)
    left = []
    for task in leave:
        with contextlib.suppress(adj.InputError):
            left.append(away.evict(task))
    assert counts(away) == counts(there)
    if adds:
        for online in (there, away):
            online.add_label("added")
    for evicted in left[::-1]:
        away.bring_back(evicted)
    assert saved(away) == saved(there)
    for online, tasks in zip((there, away), gone, strict=True):
        play(online, later, tasks)
    assert answers(away) == answers(there)
    assert counts(away) == recount(away)


@given(events=EVENTS, later=EVENTS, leave=st.lists(TASK, min_size=1, max_size=3), model=MODEL, **OPTIONS)
@settings(deadline=None, max_examples=25)
def test_others_are_answered_as_if_it_had_stayed(events, later, leave, model, compiled, **options):
    """While a task is away, votes on other tasks are settled, and read, as they would be."""
    there, away = (stream(compiled, model=model, confidence="posterior", **options) for _ in range(2))
    for online in (there, away):
        play(online, events, {})
    left = {}
    for task in leave:
        with contextlib.suppress(adj.InputError):
            left[task] = away.evict(task)
    others = [event for event in later if event[1] not in leave and event[0] not in ("refit", "evict", "back")]
    for online in (there, away):
        play(online, others, {})
    stays = pl.col("task").is_in(leave).not_()
    assert (
        away.labels()
        .select("task", "label", "confidence", "votes", "tie")
        .filter(stays)
        .equals(there.labels().select("task", "label", "confidence", "votes", "tie").filter(stays))
    )
    for evicted in left.values():
        away.bring_back(evicted)
    assert answers(away) == answers(there)


@given(events=st.lists(st.one_of(EVENTS, st.none()), min_size=1, max_size=6), model=MODEL, **OPTIONS)
@settings(deadline=None, max_examples=30)
def test_a_saved_stream_continues_to_the_bit(events, model, compiled, **options):
    """None saves and loads one of the two streams; the other has no such break."""
    whole, broken = (stream(compiled, model=model, **options) for _ in range(2))
    away = [{}, {}]
    for some in events:
        if some is None:
            data = broken.to_bytes()
            assert data == saved(broken)
            broken = adj.Online.from_bytes(data) if compiled else reference_of(data)
            assert broken.to_bytes() == data
            continue
        for online, tasks in zip((whole, broken), away, strict=True):
            play(online, some, tasks)
        assert away[0] == away[1]
        assert answers(whole) == answers(broken)


def reference_of(data):
    """The stream of some bytes on the reference state."""
    with mock.patch.object(stream_module, "compiled", return_value=None):
        return adj.Online.from_bytes(data)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["ds", "fds"])
def test_records_that_are_not_of_the_stream_are_refused(model, compiled):
    online = stream(compiled, model=model)
    online.learn_many([(f"t{n % 4}", f"w{n % 3}", LABELS[n % 2]) for n in range(12)])
    online.gold("t2", "c")
    other = online.evict("t1")
    good = online.evict("t0").record
    votes, label, units, fitted, gold, order = good
    before = saved(online)
    half = None if units is None else (SHARE_UNITS // 2, SHARE_UNITS // 2, 0)
    bad = [
        ((votes, 3, units, fitted, gold, order), "a label for every task"),
        ((votes, -1, units, fitted, gold, order), "a label for every task"),
        (([], 0, units, fitted, gold, order), "a label for every task"),
        ((votes, label, units, fitted, 3, order), "no such gold"),
        ((votes, label, units, fitted, (label + 1) % 3, order), "no such gold"),
        ((votes, label, units, 3, gold, order), "whether a fit"),
        ((votes, label, units, fitted, gold, 4), "a number that no task had"),
        ((votes, label, units, fitted, gold, -1), "a number that no task had"),
        (([("nobody", 0)], 0, half, fitted, gold, order), "not among those of evicted"),
        (([("w0", 2)], 0, half, fitted, gold, order), "not among those of evicted"),
        (([("w0", 7)], 0, half, fitted, gold, order), "not among those of evicted"),
        ((votes * 9, label, units, fitted, gold, order), "not among those of evicted"),
        ((votes, 2, half, fitted, gold, order), "not among those of evicted"),
        ((votes, label, units, fitted, gold), "not the record"),
        ((votes, "a", units, fitted, gold, order), "not the record"),
        (([("w0", 0, 0)], label, units, fitted, gold, order), "not the record"),
        (None, "not the record"),
    ]
    if units is not None:
        bad += [
            ((votes, label, None, fitted, gold, order), "probabilities"),
            ((votes, label, (SHARE_UNITS, 1, -1), fitted, gold, order), "probabilities"),
            ((votes, label, (SHARE_UNITS, 0, 0, 0), fitted, gold, order), "probabilities"),
            ((votes, label, (SHARE_UNITS - 1, 0, 0), fitted, gold, order), "probabilities"),
        ]
    for record, message in bad:
        with pytest.raises(ValueError, match=message):
            online.state.bring_back("t0", record)
        assert saved(online) == before
    with pytest.raises(ValueError, match="in memory"):
        online.state.bring_back("t2", good)
    with pytest.raises(adj.InputError, match="cannot bring back 'x'"):
        online.bring_back("x")
    online.state.bring_back("t0", good)
    online.bring_back(other)
    with pytest.raises(adj.InputError, match=r"cannot bring back task 't1': the task is in memory"):
        online.bring_back(other)
    online.forget("t1")
    with pytest.raises(adj.InputError, match="no task was evicted"):
        online.bring_back(other)


@pytest.mark.parametrize("model", ["ds", "fds"])
def test_a_window_of_tasks_takes_bounded_room_and_forgets_no_worker(model):
    """Many more tasks pass than are kept, so that the codes of evicted ones are used again; all come back at the end."""
    online, whole = (adj.Online(labels=LABELS, model=model, confidence="posterior") for _ in range(2))
    left = []
    for n in range(2500):
        for one in (online, whole):
            one.learn_many([(f"t{n}", f"w{n % 3}", LABELS[n % 2]), (f"t{n}", f"w{(n + 1) % 3}", "a")])
        if n >= 20:
            left.append(online.evict(f"t{n - 20}"))
        if n % 500 == 499:
            online.bring_back(left.pop(n // 3))
    assert len(online) == 25
    assert online.state.evicted == len(left) == 2475
    assert all(online.confusion(f"w{n}").equals(whole.confusion(f"w{n}")) for n in range(3))
    assert online.workers()["votes"].sum() == 50
    assert counts(online) == counts(whole) == recount(online)
    for evicted in left:
        online.bring_back(evicted)
    assert saved(online) == saved(whole)


def test_what_is_measured_is_that_of_the_tasks_in_memory():
    """Shared error is that of a stream without the evicted tasks; labels that only they had are still there."""
    draw, votes = random.Random(3), []
    for task in range(90):  # on every other task three of seven err alike
        right, wrong = draw.sample(LABELS, 2)
        for nth, worker in enumerate(draw.sample(range(14), 7)):
            guess = right if draw.random() < 0.8 else draw.choice(LABELS)
            votes.append((f"t{task}", f"w{worker}", wrong if task % 2 and nth < 3 else guess))
    online, rest = (adj.Online(labels=[*LABELS, "d"]) for _ in range(2))
    online.learn_many([*votes, *(("the only one", f"w{n}", "d") for n in range(3))])
    gone = {f"t{n}" for n in range(30)}
    for task in (*gone, "the only one"):
        online.evict(task)
    rest.learn_many([vote for vote in votes if vote[0] not in gone])
    settled = dict(zip(*(online.state.snapshot()[name].tolist() for name in ("order", "labels")), strict=True))
    other = [nth + 30 for nth, label in enumerate(rest.state.snapshot()["labels"].tolist()) if label != settled[nth + 30]]
    for task in other:  # other counts may say otherwise: what is measured then differs, as it should
        online.forget(f"t{task}")
        rest.forget(f"t{task}")
    for one in (online, rest):
        one.renew()
    (error, holds, votes, _), (want_error, want_holds, want_votes, _) = (one.state.measured() for one in (online, rest))
    assert votes == want_votes
    assert error == pytest.approx(want_error, abs=1e-12)
    assert holds == pytest.approx(want_holds, abs=1e-12)
    assert error > 0.01
    assert online.predict("t89").probabilities["d"] > 0 == rest.predict("t89").probabilities["d"]


CROWD = adj.simulate(tasks=120, workers=8, labels=3, votes_per_task=4, skill=0.7, seed=5)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
def test_a_refit_judges_workers_by_what_evicted_tasks_taught(model, compiled):
    online = (adj.Online if compiled else with_reference)(labels=CROWD.label_names, model=model)
    online.learn_many(CROWD.votes)
    online.refit(engine="reference")
    labels = dict(online.labels().select("task", "label").iter_rows())
    gone = CROWD.votes["task"].unique(maintain_order=True).head(70).to_list()
    evicted = [online.evict(task) for task in gone]
    left = CROWD.votes.filter(pl.col("task").is_in(gone))
    history = left.select("worker", given="label", true=pl.col("task").replace_strict(labels))
    history = history.group_by("worker", "true", "given").len("count")
    stays = CROWD.votes.filter(pl.col("task").is_in(gone).not_())
    want = adj.aggregate(stays, model=model, labels=CROWD.label_names, history=history, engine="reference", confidence="honest")
    got = online.refit(engine="reference")
    assert got.labels.equals(want.labels)
    assert got.workers.equals(want.workers)
    assert not got.workers.equals(adj.aggregate(stays, model=model, labels=CROWD.label_names, engine="reference").workers)
    assert counts(online) == recount(online)
    for one in evicted:
        online.bring_back(one)
    assert counts(online) == recount(online)
    assert dict(online.labels().select("task", "votes").iter_rows()) == dict.fromkeys(labels, 4)
    fitted = online.refit(engine="reference")
    assert fitted.labels.equals(
        adj.aggregate(CROWD.votes, model=model, labels=CROWD.label_names, engine="reference", confidence="honest").labels
    )


@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
def test_a_refit_in_three_steps_is_the_same_wherever_it_runs(model):
    """On any number of threads, in another thread, from a copy of the stream, or not before it is finished."""
    begun = adj.Online(labels=CROWD.label_names, model=model)
    begun.learn_many(CROWD.votes.head(400))
    begun.evict("t3")
    data = begun.to_bytes()

    def later(online):
        online.learn_many(CROWD.votes.tail(-400))
        online.gold("t5", "l0")
        online.evict("t7")

    found = []
    for how in ("here", "3 threads", "elsewhere", "copy", "late"):
        online = adj.Online.from_bytes(data)
        refit = (adj.Online.from_bytes(data) if how == "copy" else online).begin_refit()
        assert refit.result is None
        if how == "elsewhere":
            thread = threading.Thread(target=lambda refit=refit: refit.run(engine=adj.AutoEngine(threads=2)))
            thread.start()
            thread.join()
        elif how != "late":
            refit.run(engine=adj.AutoEngine(threads=3 if how == "3 threads" else 1))
        later(online)
        assert refit.votes.n_tasks == len(begun)
        result = online.finish_refit(refit)
        assert refit.result is result
        found.append((saved(online), result.labels.rows(), online.labels().rows()))
    assert repr(refit) == f"Refit({model}: 99 tasks, run)"
    other = adj.Online(labels=CROWD.label_names, model="ds" if model == "fds" else "fds")
    for wrong in (other.begin_refit(), result):
        with pytest.raises(adj.InputError, match="give a refit that this stream has begun"):
            online.finish_refit(wrong)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["ds", "fds", "auto"])
def test_forged_content_is_refused(model, compiled):
    online = stream(True, model=model)
    online.learn_many([(f"t{n % 5}", f"w{n % 3}", LABELS[n % 2]) for n in range(15)])
    online.evict("t1")
    online.labels()
    forged = [
        ("changes", -1, "changes"),
        ("tasks_seen", 2, "number that comes later"),
        ("tasks_seen", True, "tasks_seen"),
        ("evicted", 0, "nothing uses"),
        ("measured", {}, "lent_total"),
        ("order", 4, "never fall|comes later"),
        ("order", -1, "order"),
        ("base_counts", -1, "base_counts"),
        ("base_counts", 1, "whole|by label|one vote each"),
        ("base_counts", (1 << 62) + 1, "base_counts"),
        ("base_classes", 1, "one vote each|whole"),
        ("base_classes", 9 * SHARE_UNITS, "at least one vote|were evicted|from 0 on"),
        ("lent", 0.0, "lent"),
        ("lent", np.nan, "lent"),
        ("uniform", 2.0, "uniform"),
        ("log_prior", 1.0, "log_prior"),
        ("log_prior", np.nan, "log_prior"),
    ]
    if model == "ds":
        forged += [("base_labelled", 1, "whole"), ("base_labelled_classes", 1, "whole|one vote each")]
    forged += [
        (("measured", name), value, name.split("_")[0]) for name, value in (("holds", 2.0), ("votes", -1), ("changes", 99))
    ]
    for name, value, message in forged:
        meta, arrays = content_of(online, "a test")
        if isinstance(name, tuple):
            meta["measured"] = {**meta["measured"], name[1]: value}
        elif name in meta:
            meta[name] = value
        else:
            arrays[name] = arrays[name].copy()
            arrays[name].flat[0] = value
        data = b"".join(container.pack("online", VERSION, meta, arrays))
        with pytest.raises(adj.InputError, match=message):
            adj.Online.from_bytes(data) if compiled else reference_of(data)
    with pytest.raises(adj.InputError, match="is damaged"):
        adj.Online.from_bytes(online.to_bytes()[:-1] + b"?")
    with pytest.raises(adj.InputError, match="a stream in bytes is not a file that adjudge saved"):
        adj.Online.from_bytes(b"hello")
