"""Honest confidence of streams: equal to the batch rule right after a renewal, for any history; streams of auto."""

import contextlib
import math
import pickle
import random
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io import container, stream_file
from adjudge.kernels.online_honest import unpack
from adjudge.online import stream as online_module
from oracle_auto import honest
from streams import learned

LABELS = ["a", "b", "c"]


def stream(*, compiled=True, **options):
    """A stream of honest confidence, on the compiled state or on the reference."""
    options = {"labels": LABELS, "confidence": "honest", **options}
    if compiled:
        return adj.Online(**options)
    with mock.patch.object(online_module, "compiled", return_value=None):
        return adj.Online(**options)


def by_the_rule(online):
    """Honest probabilities before the last step by task, and the accuracy of every worker, by the naive version of the rule.

    The labels are those in the counts of the stream.
    """
    now = online._state.snapshot()
    tasks = unpack(now["task_offsets"], now["task_texts"])
    workers = unpack(now["worker_offsets"], now["worker_texts"])
    texts = [str(label) for label in online.settings["labels"]]
    triples, cuts = [], now["task_ptr"].tolist()
    for task in range(len(tasks)):
        for row in now["row"][cuts[task] : cuts[task + 1]].tolist():
            triples.append((task, int(now["row_worker"][row]), int(now["row_label"][row])))
    labels = {task: int(label) for task, label in enumerate(now["labels"]) if label >= 0}
    there = sorted({given for *_, given in triples} | set(labels.values()))
    code = {label: place for place, label in enumerate(there)}
    winners = adj.aggregate(
        [(tasks[t], workers[w], texts[g]) for t, w, g in triples], model="mv", labels=texts, seed=online.settings["seed"]
    ).labels
    majority = {tasks.index(str(task)): code[texts.index(str(label))] for task, label, *_ in winners.iter_rows()}
    coded = [(t, w, code[g]) for t, w, g in triples]
    gold = {task: int(label) for task, label in enumerate(now["task_gold"]) if label >= 0}
    _, before = honest(coded, len(there), {t: code[y] for t, y in labels.items()}, majority, gold)
    for task in gold.keys() & before.keys():
        assert labels[task] == gold[task]
        before[task] = [float(label == gold[task]) for label in there]
    spread = {tasks[t]: {texts[label]: p for label, p in zip(there, line, strict=True)} for t, line in before.items()}
    means = {}
    for t, w, g in coded:
        means.setdefault(workers[w], []).append(before[t][g])
    shares = [math.exp(x / 0.8) for x in now["log_prior"].tolist()]
    lent = math.fsum(x * now["lent"][c, c] for c, x in enumerate(shares)) / now["measured"][0] / math.fsum(shares)
    filled = {
        worker: [*x, *[min(lent, 0.95)] * (5 - len(x))] for worker, x in means.items()
    }  # up to five votes, by the mean worker
    return spread, {worker: min(max(math.fsum(x) / len(x), 0.01), 0.99) for worker, x in filled.items()}


def assert_is_the_rule(online):
    """Every answer of a stream is that of the rule."""
    frame = online.labels()
    before, means = by_the_rule(online)
    for task, label, confidence, votes, tie, *gold in frame.iter_rows():
        seen = online.predict(task)
        assert (seen.label, seen.votes, seen.gold) == (label, votes, any(gold))
        if not votes and any(gold):
            assert (confidence, tie) == (1.0, False)
            continue
        if not votes:
            assert (label, confidence, tie) == (None, None, False)
            continue
        likely = before[str(task)]
        best, rest = max(likely.values()), math.fsum(p for name, p in likely.items() if name != str(label))
        for name, p in seen.probabilities.items():
            want = best if str(name) == str(label) else likely.get(str(name), 0.0)
            assert p == pytest.approx(want / (best + rest), abs=1e-9)
        assert confidence == seen.confidence == max(seen.probabilities.values())
        assert tie == seen.tie
        near = sum(p >= best - 1e-9 for p in likely.values()) > 1
        nearly = sum(p >= best - 1.1e-9 for p in likely.values()) > 1  # rounding decides between the two
        assert tie or not near or nearly
    for worker, _, accuracy, low, high in online.workers().iter_rows():
        assert accuracy == pytest.approx(means[str(worker)], abs=1e-9)
        assert 0.0 <= low <= accuracy <= high <= 1.0


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([*["learn"] * 5, "retract", "forget", "abstain", "gold", "gold", "free", "read", "refit"]),
        st.integers(0, 7).map("t{}".format),
        st.integers(0, 4).map("w{}".format),
        st.sampled_from(LABELS),
    ),
    min_size=1,
    max_size=60,
)
MODELS = st.sampled_from(["auto", "ds", "fds", "hybrid"])


def play(online, events):
    for event, task, worker, label in events:
        if event == "learn":
            online.learn(task, worker, label)
        elif event == "read":
            online.labels()
        elif event == "refit" and len(online):
            if online.labels()["votes"].sum():
                online.refit(engine="reference")
        elif event == "abstain":
            online.learn(task, worker, None)
        elif event == "gold":
            online.gold(task, label)
        else:
            with contextlib.suppress(adj.InputError):  # there may be none
                if event == "retract":
                    online.retract(task, worker)
                elif event == "forget":
                    online.forget(task)
                elif event == "free":
                    online.gold(task, None)


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@given(
    events=EVENTS,
    model=MODELS,
    duplicates=st.sampled_from(["last", "all"]),
    strength=st.sampled_from([0.0, 1.0, 2.5]),
    compiled=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_right_after_a_renewal_confidence_is_that_of_the_batch_rule(events, model, duplicates, strength, compiled):
    online = stream(compiled=compiled, model=model, duplicates=duplicates, strength=strength)
    play(online, [("learn", "t0", "w0", "a"), *events])
    if not online.labels()["votes"].sum():
        return
    online.renew()
    assert_is_the_rule(online)
    for other in (pickle.loads(pickle.dumps(online)), adj.Online.load(*_file(online))):  # which renew when they are read
        assert other.labels().equals(online.labels())
        assert other.workers().equals(online.workers())


def _file(online):
    folder = tempfile.mkdtemp()
    online.save(Path(folder) / "stream")
    return [Path(folder) / "stream"]


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@given(events=EVENTS, model=MODELS)
@settings(max_examples=60, deadline=None)
def test_reads_and_the_kind_of_confidence_change_neither_labels_nor_what_is_saved(events, model):
    one, two = stream(model=model), stream(model=model)
    posterior, twin = stream(model=model, confidence="posterior"), stream(compiled=False, model=model)
    play(one, events)
    play(two, [event for step in events for event in (step, ("read", *step[1:]))])
    play(twin, events)
    play(posterior, events)
    assert learned(one) == learned(two) == learned(twin)
    assert one.labels().equals(twin.labels())  # to the last bit: both were read at the same moments
    assert one.workers().equals(twin.workers())
    columns = ["task", "label", "votes"]
    assert one.labels().select(columns).equals(two.labels().select(columns))
    assert one.labels().select(columns).equals(posterior.labels().select(columns))
    assert posterior.settings["confidence"] == "posterior"


@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
def test_right_after_a_refit_confidence_is_that_of_the_fit(model):
    crowd = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=(1, 6), shared_error=0.2, seed=5)
    online = adj.Online(labels=crowd.label_names, model=model, confidence="honest", strength=0.0)
    online.learn_many(crowd.votes.head(300))
    before = online.labels()
    online.learn_many(crowd.votes.tail(-300))
    fitted = online.refit(engine=adj.AutoEngine(threads=1))
    assert fitted.model == model
    assert fitted.facts["holds"] == pytest.approx(online_facts(online)["holds"], abs=1e-12)
    frame = online.labels().join(fitted.labels, on="task", suffix="_fit")
    same = frame.filter(frame["label"] == frame["label_fit"])
    assert len(same) >= (len(frame) if model == "auto" else 0.95 * len(frame))
    assert np.abs(same["confidence"] - same["confidence_fit"]).max() < 1e-9
    workers = online.workers().join(fitted.workers, on="worker", suffix="_fit")
    for name in ("accuracy", "accuracy_low", "accuracy_high"):
        assert np.abs(workers[name] - workers[f"{name}_fit"]).max() < 1e-9
    shorter = before.join(online.labels(), on="task", suffix="_now")
    assert not shorter["confidence"].equals(shorter["confidence_now"])


def err_together():
    """Votes and truth: on every other task three of seven workers give the same wrong answer."""
    draw, votes, known = random.Random(3), [], {}
    for task in range(150):
        known[task], wrong = draw.sample(LABELS, 2)
        for nth, worker in enumerate(draw.sample(range(14), 7)):
            guess = known[task] if draw.random() < 0.8 else draw.choice(LABELS)
            votes.append((task, worker, wrong if task % 2 and nth < 3 else guess))
    return votes, known


def agree_too_little():
    crowd = adj.simulate(tasks=150, workers=12, labels=3, votes_per_task=(1, 6), shared_error=0.5, skill=0.5, seed=5)
    letters = dict(zip(crowd.label_names, LABELS, strict=True))
    votes = [(task, worker, letters[label]) for task, worker, label in crowd.votes.iter_rows()]
    return votes, {task: letters[label] for task, label in crowd.truth.iter_rows()}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
@pytest.mark.parametrize(("crowd", "name"), [(err_together, "shared_error"), (agree_too_little, "holds")])
def test_with_gold_what_is_measured_is_that_of_the_fit(crowd, name, model, compiled):
    """Tasks with gold are left out of shared error and agreement, and counted in everything else."""
    votes, known = crowd()
    online = stream(compiled=compiled, model=model, strength=0.0)
    online.learn_many(votes)
    for task in list(known)[:50]:
        online.gold(task, known[task])
    fitted = online.refit(engine=adj.AutoEngine(threads=1))
    facts = online_facts(online)
    assert facts[name] > 0.01
    assert facts[name] < 0.99 or model in ("ds", "hybrid")
    assert facts["holds"] == pytest.approx(fitted.facts["holds"], abs=1e-12)
    assert facts["shared_error"] == pytest.approx(fitted.facts["shared_error"], abs=1e-12)
    frame = online.labels().join(fitted.labels, on="task", suffix="_fit")
    same = frame.filter(frame["label"] == frame["label_fit"])
    assert same["gold"].equals(same["gold_fit"].rename("gold"))
    assert same["gold"].sum() == 50
    assert np.abs(same["confidence"] - same["confidence_fit"]).max() < 1e-9
    workers = online.workers().join(fitted.workers, on="worker", suffix="_fit")
    for name in ("accuracy", "accuracy_low", "accuracy_high"):
        assert np.abs(workers[name] - workers[f"{name}_fit"]).max() < 1e-9


def online_facts(online):
    online.labels()
    return dict(zip(("shared_error", "holds", "votes"), online._state.measured(), strict=False))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_tenth_of_the_votes_makes_a_renewal_due_and_fewer_do_not(compiled):
    online = stream(compiled=compiled)
    for n in range(100):
        online.learn(f"t{n % 30}", f"w{n}", LABELS[n % 2])
    assert online_facts(online)["votes"] == 100
    for n in range(9):
        online.learn(f"t{n}", "somebody", "b")
        assert online_facts(online)["votes"] == 100
    online.learn("t9", "somebody", "a")
    assert online.predict("t1").votes
    assert online_facts(online)["votes"] == 110
    for n in range(6):  # a change and a retraction count as well: they make what was measured old
        online.learn(f"t{n}", "somebody", "a")
    assert online_facts(online)["votes"] == 110
    for n in range(5):
        online.retract(f"t{n}", "somebody")
    assert online_facts(online)["votes"] == 105


def test_renewals_cost_a_bounded_number_of_looks_at_each_vote():
    online, looks = stream(), []
    measure = online._renewal.measure
    online._renewal.measure = lambda due: (looks.append(votes), measure(due)) if due == 2 else measure(due)
    for votes in range(1, 3001):
        online.learn(f"t{votes % 700}", f"w{votes % 97}-{votes // 700}", LABELS[votes % 3])
        online.predict(f"t{votes % 700}")
    assert sum(looks) < 12 * 3000
    assert len(looks) < 90


@pytest.mark.parametrize("compiled", [True, False])
def test_a_label_that_comes_late_is_known_at_once(compiled):
    online = stream(compiled=compiled)
    online.learn_many([(f"t{n}", f"w{n % 7}", LABELS[n % 2]) for n in range(200)])
    assert online.predict("t3").probabilities["c"] == 0.0
    for worker in ("w1", "w2", "w3"):
        online.learn("t3", worker, "c")
    seen = online.predict("t3")
    assert online_facts(online)["votes"] == 200  # the sums over all votes were not taken again
    assert seen.label == "c"
    assert seen.probabilities["c"] == seen.confidence > 0.5
    assert sum(seen.probabilities.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("model", ["auto", "ds", "fds", "hybrid"])
def test_two_judges_who_always_disagree(model, compiled):
    online = stream(compiled=compiled, model=model, labels=["a", "b"])
    online.learn_many([(f"t{n}", judge, "ab"[(n + (judge == "eve")) % 2]) for n in range(20) for judge in ("ann", "eve")])
    for _ in range(2):
        frame = online.labels()
        assert frame["confidence"].to_list() == pytest.approx([0.5] * 20, abs=1e-9)
        assert frame["tie"].all()
        assert online.predict("t3").tie
        online.refit(engine=adj.AutoEngine(threads=1))
    online.learn("t3", "joe", "a")
    assert not online.predict("t3").tie
    plain = stream(model=model, labels=["a", "b"], confidence="posterior")
    plain.learn_many([("t", "ann", "a"), ("t", "ann too", "a")])
    assert plain.predict("t").confidence > 0.95  # as before


CROWD = adj.simulate(tasks=200, workers=9, labels=3, votes_per_task=5, skill=0.55, shared_error=0.45, seed=11)


def test_a_stream_of_auto_runs_as_fds_and_refits_as_auto():
    names = CROWD.label_names
    auto, fds = (adj.Online(labels=names, model=model, confidence="honest") for model in ("auto", "fds"))
    for online in (auto, fds):
        online.learn_many(CROWD.votes)
        online.retract(*CROWD.votes.row(5)[:2])
    assert auto.labels().equals(fds.labels())
    assert auto.settings["model"] == "auto"
    assert repr(auto).startswith("Online(auto: 200 tasks")
    result = auto.refit(engine=adj.AutoEngine(threads=1))
    assert result.model == "auto"
    assert "chose" in result.facts
    want = dict(result.labels.select("task", "label").iter_rows())
    assert dict(auto.labels().select("task", "label").iter_rows()) == want
    assert auto.refit(warm=True, engine=adj.AutoEngine(threads=1)).model == "auto"


@pytest.mark.parametrize("how", ["as it is", "pickled", "saved"])
def test_a_fit_of_auto_continues_from_its_labels(how, tmp_path):
    result = adj.aggregate(CROWD.votes, model="auto", seed=3, confidence="honest")
    online = adj.Online.from_result(result)
    assert online.settings["confidence"] == "honest"
    if how == "pickled":
        online = pickle.loads(pickle.dumps(online))
    if how == "saved":
        online.save(tmp_path / "stream")
        online = adj.Online.load(tmp_path / "stream")
    frame = online.labels().join(result.labels, on="task", suffix="_fit")
    assert (frame["label"] == frame["label_fit"]).all()
    assert (frame["tie"] == frame["tie_fit"]).all()
    assert np.abs(frame["confidence"] - frame["confidence_fit"]).max() < 1e-9
    plain = adj.Online.from_result(result)
    plain._state.adopt(
        *(plain._state.snapshot()[n] for n in ("task_offsets", "task_texts", "task_ptr", "row")),
        winners=plain._state.snapshot()["labels"],
    )
    other = plain.labels().join(result.labels, on="task", suffix="_fit")
    changed = other.filter(other["label"] != other["label_fit"])["task"].to_list()
    assert changed, "the E-step of fds says the same everywhere: nothing is tried here"
    kept = dict(result.labels.select("task", "label").iter_rows())
    assert online.predict(changed[0]).label == kept[changed[0]]
    online.learn(changed[0], "w1", plain.predict(changed[0]).label)  # a vote settles its task by fds
    assert online._state.snapshot()["fitted"].tolist().count(0) == 1
    assert online.settings["model"] == "auto"
    assert online.settings["seed"] == 3
    again = online.refit(engine=adj.AutoEngine(threads=1))
    assert again.model == "auto"
    assert again.settings == result.settings


def test_confidence_follows_the_fit_unless_given():
    for confidence in ("honest", "posterior"):
        result = adj.aggregate(CROWD.votes, model="fds", confidence=confidence)
        assert adj.Online.from_result(result).settings["confidence"] == confidence
        other = {"honest": "posterior", "posterior": "honest"}[confidence]
        online = adj.Online.from_result(result, confidence=other)
        assert online.settings["confidence"] == other
        assert ("holds" in online.refit().facts) == (other == "honest")
    with pytest.raises(adj.OptionError, match="confidence"):
        adj.Online(labels=LABELS, confidence="sure")


def test_a_stream_keeps_its_confidence_unless_another_is_given(tmp_path):
    for model in ("fds", "ds"):
        online = adj.Online(labels=CROWD.label_names, model=model, confidence="posterior")
        online.learn_many(CROWD.votes)
        online.save(tmp_path / "stream")
        posterior, honest = adj.Online.load(tmp_path / "stream"), adj.Online.load(tmp_path / "stream", confidence="honest")
        assert posterior.settings["confidence"] == "posterior"
        assert_is_the_rule(honest)
        assert posterior.labels().select("task", "label").equals(honest.labels().select("task", "label"))
        honest.save(tmp_path / "again")
        assert adj.Online.load(tmp_path / "again").labels().equals(honest.labels())
    with pytest.raises(adj.OptionError, match="confidence"):
        adj.Online.load(tmp_path / "stream", confidence="sure")


@pytest.mark.parametrize("compiled", [True, False])
def test_forged_marks_and_labels_are_refused(compiled, tmp_path, monkeypatch):

    if not compiled:
        monkeypatch.setattr(online_module, "compiled", lambda: None)
    for model, array, value, message in (
        ("auto", "fitted", 3, "fitted"),
        ("ds", "labels", 7, "labels"),
        ("ds", "labels", -1, "a task with votes has no label"),
        ("ds", "gold_labels", 2, "a task with gold has another label"),
        ("fds", "gold_labels", 2, "a task with gold has another label"),
        ("fds", "gold_labels", 3, "gold_labels"),
        ("fds", "gold_texts", ord("x"), "two of its gold labels are of the same task"),
    ):
        online = adj.Online(labels=LABELS, model=model, gold={"t1": "b", "x1": "b"})
        online.learn_many([("t1", "w1", "a"), ("t2", "w2", "b")])
        online.save(tmp_path / "stream")
        meta, arrays = container.load(tmp_path / "stream", "online", stream_file.VERSION)
        forged = arrays[array].copy()
        forged[0] = value
        container.save(tmp_path / "stream", "online", stream_file.VERSION, meta, {**arrays, array: forged})
        with pytest.raises(adj.InputError, match=message):
            adj.Online.load(tmp_path / "stream")
