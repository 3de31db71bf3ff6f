"""A stream's state, without Spark: killed at any step of writing, a batch is finished or it never was; row order is nothing."""

import os
import random
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io import write
from adjudge.spark.stream import Progress, StateFolder, _StreamRun, check_turn, decide

LABELS = ["a", "b"]
ids = st.integers(0, 4).map(str)


class Killed(BaseException):
    """The process ends here."""


def fake_batch(rows, order=()):
    """What Spark gives to foreachBatch, as far as a job looks at it."""
    frame = pl.DataFrame(rows, schema=["task", "worker", "label", *order], orient="row")
    context = SimpleNamespace(getLocalProperty=lambda name: "the query")
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context), frame=frame)


@pytest.fixture(autouse=True, scope="module")
def no_spark():
    """Frames to and from Spark are polars frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjudge.spark.stream.gather", lambda batch: batch.frame)
        patch.setattr("adjudge.spark.stream.to_spark", lambda frame, _: frame)
        yield


def job(folder, *, model="fds", bad="fail", refit_every=0, **options):
    online = adj.Online(labels=LABELS, model=model, **options)
    return _StreamRun(folder, *folder.begin(online), None, bad, refit_every)


def saved(folder):
    """The bytes of the Online after the last finished batch."""
    return folder._file(folder.progress().batch).read_bytes()


@given(
    batches=st.lists(st.lists(st.tuples(ids, ids, st.sampled_from([*LABELS, None])), max_size=12), min_size=1, max_size=4),
    seed=st.integers(0, 99),
    model=st.sampled_from(["fds", "ds"]),
    duplicates=st.sampled_from(["last", "all"]),
    refit_every=st.sampled_from([0, 2]),
)
def test_rows_in_any_order_and_restarts_anywhere_give_the_same_bytes(
    batches, seed, model, duplicates, refit_every, tmp_path_factory
):
    draw = random.Random(seed)
    folders = [StateFolder(tmp_path_factory.mktemp("state")) for _ in range(2)]
    settings = {"model": model, "duplicates": duplicates, "refit_every": refit_every}
    one = job(folders[0], **settings)
    for number, rows in enumerate(batches):
        one(fake_batch(rows), number)
        other = job(folders[1], **settings)  # loaded afresh for every batch
        other(fake_batch(draw.sample(rows, len(rows))), number)
        other(fake_batch(draw.sample(rows, len(rows))), number)  # again, as after a kill before Spark's own note
    assert saved(folders[0]) == saved(folders[1])
    done = folders[0].progress()
    assert done.votes + done.abstentions == sum(map(len, batches))
    by_hand = adj.Online(labels=LABELS, model=model, duplicates=duplicates)
    for number, rows in enumerate(batches):
        for task, worker, label in sorted(rows, key=lambda row: (row[2] is not None, *map(str, row))):  # abstentions first
            by_hand.learn(task, worker, label)
        if refit_every and (number + 1) % refit_every == 0 and len(by_hand):
            by_hand.refit(engine=adj.AutoEngine(threads=1))
    assert by_hand.labels().equals(folders[0].online().labels())
    assert by_hand.abstentions == folders[0].online().abstentions == done.abstentions


def test_gold_holds_for_the_whole_job(tmp_path):
    folder, rows = StateFolder(tmp_path / "state"), []

    def begun(gold):
        online = adj.Online(labels=LABELS, gold=gold)
        return _StreamRun(folder, *folder.begin(online), lambda frame, _: rows.extend(frame.rows()), "fail", 2)

    for number in range(4):  # with refits and without
        begun({"t1": "b", "7": "a"})(fake_batch([("t1", f"w{number}", "a"), ("t2", f"w{number}", "a")]), number)
    seen = [(batch, label, confidence) for task, label, confidence, _, _, batch in rows if task == "t1"]
    assert seen == [(batch, "b", 1.0) for batch in range(4)]
    for other in (None, {"t1": "b"}, {"t1": "b", "7": "b"}):
        with pytest.raises(adj.InputError, match="has 2 gold labels, not the .* given: continue with the original gold"):
            begun(other)
    assert folder.online().gold_labels().rows() == [("7", "a"), ("t1", "b")]


@pytest.mark.filterwarnings("ignore::adjudge.NotConverged")
@pytest.mark.parametrize("confidence", ["honest", "posterior"])
@pytest.mark.parametrize("model", ["auto", "fds", "ds"])
def test_a_job_that_is_restarted_at_every_batch_gives_the_same_rows(model, confidence, tmp_path):
    """Batches that grow the stream by a tenth and by less: what was measured before a restart must not show."""
    crowd = adj.simulate(tasks=60, workers=9, labels=2, votes_per_task=5, skill=0.6, seed=2).votes
    rows = crowd.with_columns(pl.col("label").replace({"l0": "a", "l1": "b"})).sample(fraction=1, shuffle=True, seed=1).rows()
    batches = [rows[:200], *(rows[at : at + 9] for at in range(200, 290, 9))]
    given = []
    for restarts in (False, True):
        folder, sunk = StateFolder(tmp_path / str(restarts)), []
        online = adj.Online(labels=LABELS, model=model, confidence=confidence)

        def begun(folder=folder, online=online, sunk=sunk):
            return _StreamRun(folder, *folder.begin(online), lambda frame, _: sunk.append(frame), "fail", 4)

        one = begun()
        for number, batch in enumerate(batches):
            one(fake_batch(batch), number)
            one = begun() if restarts else one
        given.append(pl.concat(sunk))
    assert given[0].equals(given[1])
    assert saved(StateFolder(tmp_path / "False")) == saved(StateFolder(tmp_path / "True"))


def test_a_job_may_continue_with_another_confidence(tmp_path):
    folder = StateFolder(tmp_path)
    job(folder, confidence="posterior")(fake_batch([("t1", "w1", "a"), ("t1", "w2", "b")]), 0)
    assert folder.online().settings["confidence"] == "posterior"
    job(folder, confidence="honest")(fake_batch([("t2", "w1", "a")]), 1)
    assert folder.online().settings["confidence"] == "honest"


class Deadly:
    """Every step that changes the disk, killed before or after the n-th of them; a dead process changes nothing more."""

    steps = ((os, "ftruncate"), (os, "fsync"), (Path, "replace"), (write, "_unlink"), (Path, "unlink"))

    def __init__(self, patch, fatal, after):
        self.fatal, self.after, self.done, self.dead = fatal, after, 0, False
        for owner, name in self.steps:
            patch.setattr(owner, name, self.wrapped(getattr(owner, name)))

    def wrapped(self, real):
        def step(*arguments, **options):
            if self.dead:
                return None
            self.dead = self.done == self.fatal
            self.done += 1
            if self.dead and not self.after:
                raise Killed
            out = real(*arguments, **options)
            if self.dead:
                raise Killed
            return out

        return step


WRITING = 9  # make, sync, rename and clean up, for the Online and for the pointer; then the oldest Online goes


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("fatal", range(WRITING + 1))
def test_killed_at_any_step_of_writing_the_batch_counts_once(tmp_path, monkeypatch, fatal, after):
    batches = [[("t1", "w1", "a"), ("t2", "w1", "b")], [("t1", "w2", "b")], [("t1", "w3", "a"), ("t3", "w3", "a")]]
    whole, folder = StateFolder(tmp_path / "whole"), StateFolder(tmp_path / "killed")
    undisturbed = job(whole)
    for number, rows in enumerate(batches):
        undisturbed(fake_batch(rows), number)
    job(folder)(fake_batch(batches[0]), 0)
    restarted = job(folder)
    with monkeypatch.context() as patch:
        deadly = Deadly(patch, fatal, after)
        if fatal < WRITING:
            with pytest.raises(Killed):
                restarted(fake_batch(batches[1]), 1)
        else:
            restarted(fake_batch(batches[1]), 1)
            assert deadly.done == WRITING
    assert folder.progress().batch in (0, 1)
    for number in (1, 2):
        job(folder)(fake_batch(batches[number]), number)
    assert saved(folder) == saved(whole)
    assert folder.progress() == whole.progress()
    kept = {"state.adjudge", "online-000000001.adjudge", "online-000000002.adjudge"}
    assert {p.name for p in folder.path.iterdir()} == kept, "what a killed write left is removed"


def test_decisions_are_those_of_touched_tasks_and_after_a_refit_of_changed_ones(tmp_path):
    given, folder = [], StateFolder(tmp_path)
    running = job(folder, refit_every=3)
    running._sink = lambda frame, number: given.append((frame, number))
    crowd = adj.simulate(tasks=60, workers=9, labels=2, votes_per_task=3, skill=0.6, seed=3).votes
    rows = crowd.with_columns(pl.col("label").replace({"l0": "a", "l1": "b"})).rows()
    twin = adj.Online(labels=LABELS)
    for number, start in enumerate((0, 90, 170)):
        some = rows[start : (90, 170, 180)[number]]
        running(fake_batch(some), number)
        twin.learn_many(sorted(some))
        before = twin.labels()
        if number == 2:
            twin.refit()
        now, (found, told) = twin.labels(), given[-1]
        touched = {task for task, _, _ in some}
        changed = set(now["task"].filter(now["label"] != before["label"]))
        assert told == number
        assert found["batch_id"].unique().to_list() == [number]
        assert set(found["task"]) == touched | changed
        assert found.drop("batch_id").equals(now.filter(pl.col("task").is_in(list(touched | changed))))
    assert changed - touched, "the refit moved a task that got no vote"


def test_order_columns_go_before_the_ids(tmp_path):
    rows = [("t1", "w1", "a", 2), ("t1", "w1", "b", 1)]
    job(StateFolder(tmp_path / "one"))(fake_batch(rows, ["order_0"]), 0)
    job(StateFolder(tmp_path / "two"))(fake_batch([r[:3] for r in rows]), 0)
    labels = [StateFolder(tmp_path / name).online().predict("t1").label for name in ("one", "two")]
    assert labels == ["a", "b"], "the last vote replaces: by time, or else by label"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("t1", "w1", "c"), "batch 0: label 'c' of worker 'w1' on task 't1' is not among the declared labels: a, b"),
        ((None, "w1", "a"), r"batch 0: a vote has no task \(task None, worker 'w1', label 'a'\)"),
        (("t1", None, "a"), r"batch 0: a vote has no worker \(task 't1', worker None, label 'a'\)"),
        ((None, None, None), "batch 0: a vote has no task"),
    ],
)
def test_bad_rows_fail_the_batch_or_are_skipped_and_counted(tmp_path, row, message, caplog):
    rows = [("t1", "w1", "a"), row, ("t1", "w2", None)]
    failing = job(StateFolder(tmp_path / "fail"))
    with pytest.raises(adj.InputError, match=message):
        failing(fake_batch(rows), 0)
    assert StateFolder(tmp_path / "fail").progress() == Progress()
    folder = StateFolder(tmp_path / "skip")
    job(folder, bad="skip")(fake_batch(rows), 0)
    assert folder.progress() == Progress(batch=0, query="the query", votes=1, abstentions=1, skipped=1)
    assert "1 bad rows are left out; the first: " in caplog.text


def test_whole_numbers_stay_whole_numbers():
    online = adj.Online(labels=[0, 1])
    decide(pl.DataFrame({"task": [7, 12], "worker": [1, 1], "label": [0, 1]}), online, 0, refit=False)
    decisions = decide(pl.DataFrame({"task": [12], "worker": [2], "label": [1]}), online, 1, refit=False)
    assert decisions.select("task", "label", "votes").rows() == [(12, 1, 2)]
    assert decisions.schema["task"] == pl.Int64
    text = pl.DataFrame({"task": ["x"], "worker": ["2"], "label": ["1"]})
    assert decide(text, online, 2, refit=False)["task"].to_list() == ["x"]
    with pytest.raises(adj.InputError, match="whole numbers, but some known before are text"):
        decide(pl.DataFrame({"task": [12], "worker": [3], "label": [1]}), online, 3, refit=True)


def test_a_job_that_refits_finds_text_ids_of_before_in_its_first_batch(tmp_path):
    known = adj.Online(labels=LABELS)
    known.learn("t1", "w1", "a")
    folder = StateFolder(tmp_path)
    one = _StreamRun(folder, *folder.begin(known), None, "fail", 100)
    with pytest.raises(adj.InputError, match="whole numbers, but some known before are text"):
        one(fake_batch([(12, "w1", "a")]), 0)


@given(
    known=st.lists(st.tuples(st.integers(0, 200).map(str), ids, st.sampled_from(LABELS)), max_size=200),
    batch=st.lists(st.tuples(st.integers(0, 250).map(str), ids, st.sampled_from(LABELS)), max_size=6),
    model=st.sampled_from(["fds", "ds"]),
)
def test_a_batch_decides_its_tasks_as_the_table_of_all_tasks_does(known, batch, model):
    schema = ["task", "worker", "label"]
    online = adj.Online(labels=LABELS, model=model)
    online.learn_many(pl.DataFrame(known, schema=dict.fromkeys(schema, pl.String), orient="row"))
    votes = pl.DataFrame(batch, schema=dict.fromkeys(schema, pl.String), orient="row")
    decisions = decide(votes, online, 7, refit=False)
    every = online.labels().filter(pl.col("task").is_in({task for task, _, _ in batch}))
    assert decisions.drop("batch_id").sort("task").equals(every.sort("task"))
    assert decisions.drop("batch_id").schema == every.schema
    assert decisions["task"].n_unique() == len(decisions)
    assert set(decisions["batch_id"]) <= {7}


def test_a_small_batch_asks_for_no_other_tasks(monkeypatch):
    online = adj.Online(labels=LABELS)
    online.learn_many([(f"t{n}", "w1", "a") for n in range(100)])
    asked = []
    predict = online.predict
    monkeypatch.setattr(online, "labels", lambda: pytest.fail("the table of all tasks was read"))
    monkeypatch.setattr(online, "predict", lambda task: asked.append(task) or predict(task))
    votes = pl.DataFrame({"task": ["t5", "new", "t5"], "worker": ["w1", "w2", "w3"], "label": ["b", "b", "b"]})
    assert decide(votes, online, 0, refit=False)["task"].to_list() == asked == ["t5", "new"]


def test_state_and_checkpoint_must_be_of_one_moment(tmp_path):
    past = Progress(batch=4, query="q")
    assert check_turn(past, 5, "q", tmp_path)
    assert not check_turn(past, 4, "q", tmp_path)
    for batch in (0, 3, 6):
        with pytest.raises(adj.InputError, match=f"Spark gives batch {batch}, but the state .* ends with batch 4"):
            check_turn(past, batch, "q", tmp_path)
    with pytest.raises(adj.InputError, match="belongs to the query q, not to r"):
        check_turn(past, 5, "r", tmp_path)


def test_two_jobs_in_one_folder_are_noticed(tmp_path):
    folder = StateFolder(tmp_path)
    one, two = job(folder), job(folder)
    one(fake_batch([("t1", "w1", "a")]), 0)
    with pytest.raises(adj.AdjudgeError, match="another job writes"):
        two(fake_batch([("t1", "w1", "a")]), 0)


def test_a_stream_goes_on_as_it_began(tmp_path):
    folder = StateFolder(tmp_path)
    folder.begin(adj.Online(labels=LABELS))
    for other, message in (({"labels": ["a"]}, "has labels a, b, not a:"), ({"labels": LABELS, "seed": 3}, "has seed 0, not 3")):
        with pytest.raises(adj.InputError, match=message):
            folder.begin(adj.Online(**other))


def test_damage_is_reported(tmp_path):
    folder = StateFolder(tmp_path)
    job(folder)(fake_batch([("t1", "w1", "a")]), 0)
    for path in (folder._file(0), folder.pointer):
        whole = path.read_bytes()
        path.write_bytes(whole[:-40] + bytes(40))
        with pytest.raises(adj.InputError, match=f"{path.name} is damaged"):
            job(folder)
        path.write_bytes(whole)
    folder._file(0).unlink()
    with pytest.raises(adj.InputError, match="cannot read .*online-000000000.adjudge"):
        job(folder)
    folder.pointer.unlink()
    folder.checkpoint.mkdir()
    with pytest.raises(adj.InputError, match="has a checkpoint but no state"):
        job(folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(adj.InputError, match="cannot keep the state in"):
        StateFolder(tmp_path / "file" / "state").begin(adj.Online(labels=LABELS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sink": "decisions"}, "cannot write decisions: the suffix '' names no known format"),
        ({"bad": "ignore"}, "unknown bad 'ignore'"),
        ({"refit_every": -1}, "refit_every is -1: give a whole number of at least 0"),
        ({"state": "s3://bucket/state"}, "the state cannot be kept at s3://bucket/state"),
        ({"online": "x"}, "cannot continue from 'x': give a adjudge.Online"),
    ],
)
def test_bad_options(options, message):
    given = {"online": adj.Online(labels=LABELS), "state": "state", **options}
    with pytest.raises(adj.AdjudgeError, match=message):
        adj.SparkStream(given.pop("online"), **given)


@pytest.mark.parametrize("votes", [None, [("t", "w", "a")], pl.DataFrame()])
def test_only_streaming_frames_are_taken(votes, tmp_path):
    with pytest.raises(adj.InputError, match="give a streaming frame"):
        adj.SparkStream(adj.Online(labels=LABELS), state=tmp_path / "s").start(votes)
    assert not (tmp_path / "s").exists()
