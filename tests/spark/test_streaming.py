"""Structured Streaming: every vote counts once, however the job is killed; state and decisions equal those of an undisturbed run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.spark.session import gather
from adjudge.spark.stream import StateFolder

LABELS = ["a", "b", "c"]
JOB = Path(__file__).with_name("streaming_job.py")
SCHEMA = "task string, worker string, label string"
LAST = 4  # of five batches


@pytest.fixture(scope="module")
def batches():
    """The votes of five files, as rows."""
    crowd = adj.simulate(tasks=40, workers=8, labels=3, votes_per_task=4, skill=0.6, repeats=0.1, seed=2).votes
    rows = crowd.with_columns(pl.col("label").replace({"l0": "a", "l1": "b", "l2": "c"})).sample(fraction=1, shuffle=True, seed=1)
    size = -(-len(rows) // (LAST + 1))
    return [frame.rows() for frame in rows.iter_slices(size)]


@pytest.fixture(scope="module")
def quiet(batches, tmp_path_factory):
    """What comes out by hand, without Spark: the bytes of the Online after all batches, and the decisions of each."""
    online, decisions = adj.Online(labels=LABELS), []
    for number, rows in enumerate(batches):
        online.renew()
        online.learn_many(sorted(rows))
        before = online.labels()
        if number % 3 == 2:
            online.refit()
        now = online.labels()
        wanted = pl.col("task").is_in([task for task, _, _ in rows]) | (now["label"] != before["label"])
        decisions.append(now.filter(wanted).with_columns(batch_id=pl.lit(number, pl.Int64)))
    path = tmp_path_factory.mktemp("quiet") / "online.adjudge"
    online.save(path)
    return path.read_bytes(), pl.concat(decisions)


@pytest.fixture
def folder(tmp_path, batches):
    """A folder with the votes in `votes`, a file per batch, in the order of their age."""
    place = tmp_path / "a job"
    for number, rows in enumerate(batches):
        drop(place / "votes", number, rows)
    return place


def drop(folder, number, rows, names=("task", "worker", "label")):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.csv"
    pl.DataFrame(rows, schema=list(names), orient="row").write_csv(path)
    os.utime(path, (time.time() - 1000 + number,) * 2)


def votes(spark, folder, schema=SCHEMA):
    reader = spark.readStream.schema(schema).option("header", "true").option("maxFilesPerTrigger", 1)
    return reader.csv(str(folder / "votes"))


def stream(folder, **options):
    sink = str(folder / "decisions.parquet")
    return adj.SparkStream(adj.Online(labels=LABELS), **{"state": folder / "state", "sink": sink, "refit_every": 3, **options})


def state(folder, batch=LAST):
    return (folder / "state" / f"online-{batch:09d}.adjudge").read_bytes()


def decided(folder, read=pl.read_parquet, kind="parquet"):
    """The decisions of all batches, as a reader of the folder finds them."""
    frames = []
    for part in (folder / f"decisions.{kind}").glob("batch_id=*/part-*"):
        number = int(part.parent.name.partition("=")[2])
        frames.append(read(part).with_columns(batch_id=pl.lit(number, pl.Int64)))
    return pl.concat(frames).sort("batch_id", maintain_order=True)


def test_a_quiet_run_equals_votes_learned_by_hand(spark, folder, batches, quiet):
    done = stream(folder).run(votes(spark, folder))
    assert (done.batch, done.votes, done.abstentions, done.skipped) == (LAST, sum(map(len, batches)), 0, 0)
    assert state(folder) == quiet[0]
    assert decided(folder).equals(quiet[1])
    read = spark.read.parquet(str(folder / "decisions.parquet"))
    assert read.columns == ["task", "label", "confidence", "votes", "tie", "batch_id"]
    assert read.count() == len(quiet[1])
    assert stream(folder).online().labels().equals(adj.Online.load(folder / "state" / f"online-{LAST:09d}.adjudge").labels())


def test_killed_again_and_again_every_vote_counts_once(spark, folder, quiet):
    points = ["in the sink", "before the pointer", "before Spark's note"]
    for batch, point in enumerate(points, 1):
        command = [sys.executable, str(JOB), str(folder), point, str(batch)]
        done = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert stream(folder).progress.batch == (batch if point == "before Spark's note" else batch - 1)
    stream(folder).run(votes(spark, folder))
    assert state(folder) == quiet[0]
    assert decided(folder).equals(quiet[1])
    assert len(list((folder / "state").glob("*.adjudge"))) == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_sink_that_fails_is_reported_and_tried_again(spark, folder, quiet, when):
    from adjudge.spark.files import into_folder

    write, left = into_folder(str(folder / "decisions.parquet")), [1, 3]

    def fragile(decisions, number):
        if when == "after":
            write(decisions, number)
        if number in left:
            left.remove(number)
            raise OSError(f"no room for batch {number}")
        write(decisions, number)

    job = stream(folder, sink=fragile)
    for number in (1, 3):
        with pytest.raises(OSError, match=f"no room for batch {number}"):
            job.run(votes(spark, folder))
        assert job.progress.batch == number - 1
    job.run(votes(spark, folder))
    assert state(folder) == quiet[0]
    assert decided(folder).equals(quiet[1])


def test_a_batch_that_comes_again_changes_nothing(spark, folder, quiet):
    stream(folder).run(votes(spark, folder))
    for name in (str(LAST), f".{LAST}.crc"):  # Spark forgets that it finished
        (folder / "state" / "checkpoint" / "commits" / name).unlink()
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if "checkpoint" not in str(p) and p.is_file()}
    given = []
    stream(folder, sink=lambda decisions, number: given.append(number)).run(votes(spark, folder))
    assert not given
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert (folder / "state" / "checkpoint" / "commits" / str(LAST)).exists()


def test_a_checkpoint_of_another_moment_is_an_error(spark, folder):
    stream(folder).run(votes(spark, folder))
    checkpoint = folder / "state" / "checkpoint"
    shutil.move(checkpoint, folder / "kept")
    with pytest.raises(adj.InputError, match="belongs to the query"):
        stream(folder).run(votes(spark, folder))
    shutil.rmtree(checkpoint)
    shutil.move(folder / "kept", checkpoint)
    drop(folder / "votes", 9, [("t1", "w1", "a")])
    shutil.copytree(folder / "state", folder / "backup")
    stream(folder).run(votes(spark, folder))
    drop(folder / "votes", 10, [("t1", "w2", "a")])
    for path in (folder / "backup").glob("*.adjudge"):
        shutil.copy(path, folder / "state")
    with pytest.raises(adj.InputError, match=f"Spark gives batch {LAST + 2}, but the state .* ends with batch {LAST}"):
        stream(folder).run(votes(spark, folder))
    (folder / "state" / "state.adjudge").write_bytes(b"ADJUDGE\nxx")
    with pytest.raises(adj.InputError, match="state.adjudge is damaged"):
        stream(folder).start(votes(spark, folder), availableNow=True)


def test_bad_votes(spark, tmp_path):
    drop(tmp_path / "votes", 0, [("t1", "w1", "a"), ("t2", "w1", "d"), (None, "w1", "a"), ("t1", "w2", None)])
    with pytest.raises(adj.InputError, match="batch 0: a vote has no task"):
        stream(tmp_path).run(votes(spark, tmp_path))
    query = stream(tmp_path).start(votes(spark, tmp_path), availableNow=True)
    with pytest.raises(Exception, match="InputError: batch 0: a vote has no task"):  # Spark's own error has it, too
        query.awaitTermination(120)
    done = stream(tmp_path, bad="skip").run(votes(spark, tmp_path))
    assert (done.votes, done.abstentions, done.skipped) == (1, 1, 2)
    with pytest.raises(adj.InputError, match="the label column 'label' holds double: cast it"):
        stream(tmp_path).start(votes(spark, tmp_path, "task string, worker string, label double"))
    with pytest.raises(adj.InputError, match="no column looks like the worker"):
        stream(tmp_path).start(votes(spark, tmp_path, "task string, who string, label string"))
    with pytest.raises(adj.InputError, match="no column 'time' to order by; the columns are: task, worker, label"):
        stream(tmp_path, order="time").start(votes(spark, tmp_path))
    with pytest.raises(adj.InputError, match="give a streaming frame"):
        stream(tmp_path).start(spark.range(3))


def test_order_columns_names_with_dots_and_numbers_as_ids(spark, tmp_path):
    names = ("the.item", "user", "answer", "sent.at")
    drop(tmp_path / "votes", 0, [(7, 1, 2, 20), (7, 1, 3, 10), (12, 1, 2, 5)], names)
    given = []
    online = adj.Online(labels=[2, 3])
    job = adj.SparkStream(
        online, state=tmp_path / "state", task="the.item", order="sent.at", sink=lambda frame, _: given.append(gather(frame))
    )
    schema = "`the.item` int, user bigint, answer short, `sent.at` int"
    job.run(votes(spark, tmp_path, schema), name="my votes")
    assert given[0].select("task", "label", "votes", "batch_id").rows() == [(12, 2, 1, 0), (7, 2, 1, 0)]


def test_json_values_are_parsed_as_the_page_says(spark, tmp_path):
    from pyspark.sql import functions as sql

    lines = [
        '{"task": "t1", "worker": "w1", "label": "b"}',
        '{"task": "t1", "wor',
        "",
        '{"task": "t1", "worker": "w1", "label": "a"}',
    ]
    (tmp_path / "votes").mkdir()
    (tmp_path / "votes" / "0.txt").write_text("\n".join(lines))
    vote = sql.from_json(sql.col("value").cast("string"), SCHEMA)
    parsed = spark.readStream.text(str(tmp_path / "votes")).select(vote.alias("vote"), sql.length("value").alias("offset"))
    done = stream(tmp_path, order=["offset"], bad="skip").run(parsed.select("vote.*", "offset"))
    assert (done.votes, done.skipped) == (2, 2)


def test_command(spark, adjudge, folder, quiet, batches):
    arguments = ["stream", folder / "votes" / "*.csv", "--labels", "a,b,c", "--state", folder / "state", "--refit-every", 3]
    out = folder / "decisions.json"
    code, printed, told = adjudge(*arguments, "-o", out, "--files", 1, "--once")
    assert (code, printed) == (0, "")
    assert f"batches: 5, votes: {sum(map(len, batches))}; decisions are in {out}" in told
    assert state(folder) == quiet[0]
    assert decided(folder, pl.read_ndjson, "json").equals(quiet[1])
    assert adjudge(*arguments, "-o", out, "--once", "--quiet") == (0, "", "")
    drop(folder / "votes", 7, [("w1", "t1", "a")], ("worker", "task", "label"))
    code, _, told = adjudge(*arguments, "-o", out, "--once")
    assert code == 1
    assert "adjudge: batch 5: cannot read the votes: CSV header does not conform" in told
    (folder / "votes" / "7.csv").write_text("task,worker,label\nt1,w1\n")
    code, _, told = adjudge(*arguments, "-o", out, "--once")
    assert code == 1
    assert "adjudge: batch 5: cannot read the votes: " in told


def test_command_with_gold(spark, adjudge, folder):
    (folder / "gold.csv").write_text("task,gold\nt1,c\nlater,a\n")
    arguments = [
        "stream",
        folder / "votes" / "*.csv",
        "--labels",
        "a,b,c",
        "--state",
        folder / "state",
        "-o",
        folder / "out.json",
    ]
    assert adjudge(*arguments, "--once", "--quiet", "--gold", folder / "gold.csv") == (0, "", "")
    online = StateFolder(folder / "state").online()
    assert online.predict("t1").label == "c"
    assert dict(online.gold_labels().iter_rows()) == {"t1": "c", "later": "a"}
    code, _, told = adjudge(*arguments, "--once")
    assert code == 1
    assert "has 2 gold labels, not the 0 given: continue with the original gold" in told


def test_command_takes_what_comes_until_it_is_interrupted(tmp_path):
    drop(tmp_path / "votes", 0, [("t1", "w1", "a")])
    command = [sys.executable, "-m", "adjudge", "stream", "votes/*.csv", "--labels", "a,b", "--state", "state", "-o", "out.csv"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as running:
        try:
            for number in range(2):
                if number:
                    drop(tmp_path / "votes", number, [("t1", "w2", "a")])
                wait_for(tmp_path / "state" / f"online-{number:09d}.adjudge")
            running.send_signal(signal.SIGINT)
            told = running.communicate(timeout=60)[1]
        finally:
            running.kill()  # else leaving the block would wait for a command that takes votes forever
    assert running.returncode == 0
    assert told.endswith("batches: 2, votes: 2; decisions are in out.csv\n")
    parts = [next(tmp_path.glob(f"out.csv/batch_id={number}/part-*")).read_text() for number in range(2)]
    assert parts == [f"task,label,confidence,votes,tie\nt1,a,1.0,{votes},false\n" for votes in (1, 2)]


def wait_for(path):
    end = time.monotonic() + 90
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("votes", [], "its suffix tells no format; name one with --format"),
        ("nowhere", ["--format", "csv"], "cannot read .*nowhere: Path does not exist"),
        ("votes/*.json", [], "no file is there yet"),
    ],
)
def test_command_bad_sources(spark, adjudge, folder, source, options, message):
    out = folder / "out.csv"
    code, _, told = adjudge("stream", folder / source, "--labels", "a,b,c", "--state", folder / "state", "-o", out, *options)
    assert code == 1
    assert re.search(message, told)
