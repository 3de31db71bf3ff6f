"""What a careful user once tripped over: each stays mended."""

import io
import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj

ROWS = [("t", "w", "x"), ("t", "v", "y"), ("u", "w", "x")]


def test_an_odd_first_item_is_an_error_not_an_empty_source():
    with pytest.raises(adj.InputError, match="item 1 is None"):
        adj.read([None, ("t", "w", "x")])


def test_duplicates_of_sets():
    votes = [("1", "a", ["x"]), ("1", "a", ["y"])]
    with pytest.raises(adj.OptionError, match="duplicates is 'nonsense'"):
        adj.aggregate(votes, multi=True, duplicates="nonsense")
    with pytest.raises(adj.InputError, match="voted more than once on task '1'"):
        adj.aggregate(votes, multi=True, duplicates="error")
    assert adj.aggregate(votes, multi=True, duplicates="last", model="mv").labels["label"].to_list() == [["y"]]


def test_missing_labels_from_standard_input_are_abstentions_in_typed_formats(monkeypatch):
    lines = b'{"task":"1","worker":"a","label":["x"]}\n{"task":"b","worker":"a","label":null}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    with pytest.warns(adj.MissingLabels):
        result = adj.aggregate("-", multi=True, model="mv")
    assert result.labels.select("task", "label", "votes").rows() == [("1", ["x"], 1), ("b", None, 0)]


def test_what_is_missing_inside_a_set_is_not_an_option():
    votes = [("t", "a", ["x", None]), ("t", "b", ["x", float("nan"), 1.0]), ("t", "c", [1])]
    assert adj.aggregate(votes, multi=True, model="mv").probabilities.columns == ["task", "1", "x"]
    text = [("t", "a", "x|"), ("t", "b", " x||y"), ("t", "c", '["x", null, true]')]
    assert adj.aggregate(text, multi=True, model="mv").probabilities.columns == ["task", "true", "x", "y"]


def test_no_option_at_all():
    for votes in ([("t", "a", [])], []):
        result = adj.aggregate(votes, multi=True)
        assert result.labels["label"].to_list() == [[]] * len(votes)
        assert result.probabilities.columns == ["task"]


def test_dicts_of_labels():
    found = adj.evaluate({"t1": None, "t2": "x"}, {"t1": "x", "t2": "x"})
    assert (found.tasks, found.correct, found.without_label) == (1, 1, 1)
    assert adj.evaluate({"t": 1.0, "u": float("nan")}, {"t": 1, "u": 1}).accuracy == 1.0
    columns = {"task": pd.Series(["a", "b"]), "label": pd.Series(["x", "y"])}
    assert adj.evaluate(columns, {"a": "x", "b": "y"}).tasks == 2


def test_labels_named_like_columns():
    online = adj.Online(labels=[True, False])
    online.learn("t", "w", True)
    assert online.confusion("w").columns == ["true", "label true", "false"]
    both = adj.aggregate([("t", "w", "task"), ("t", "w2", "label task")]).probabilities
    assert len(both.columns) == 3


def test_options_fitted_apart_are_asked_for_by_name():
    result = adj.aggregate([("t", "a", ["x", "y"]), ("t", "b", ["x"])], multi=True, per_option=True)
    with pytest.raises(adj.InputError, match="name one of x, y, not 'zzz'"):
        result.confusion("a", "zzz")


def test_a_header_with_a_repeated_column(tmp_path):
    (tmp_path / "v.csv").write_text("task,task,worker,label\n1,2,a,x\n")
    with pytest.raises(adj.InputError, match="the column 'task' occurs twice"):
        adj.read(tmp_path / "v.csv")


def test_starts_are_checked():
    for start in ([0], [5, 9], [-1, 0]):
        with pytest.raises(adj.OptionError, match="0 to 1, for each of the 2 tasks"):
            adj.FastDawidSkene().fit(ROWS, start=np.array(start, np.int32))


def test_files_with_a_header_alone_and_with_blank_lines(tmp_path):
    (tmp_path / "v.csv").write_text("task,label\n")
    assert adj.evaluate({"a": 1}, tmp_path / "v.csv").tasks == 0
    assert adj.evaluate([("a", ["x"])], tmp_path / "v.csv", multi=True).tasks == 0
    (tmp_path / "b.csv").write_text("task,worker,label\n1,a,x\n\n2,a,y\n\n")
    assert len(adj.read(tmp_path / "b.csv")) == 2


def test_names_like_patterns_in_every_format(tmp_path):
    frame = pl.DataFrame(ROWS, schema=["task", "worker", "label"], orient="row")
    frame.write_ndjson(tmp_path / "w[1].jsonl")
    assert len(adj.read(str(tmp_path / "w[1].jsonl"))) == 3


def test_truth_columns_can_be_named(tmp_path):
    (tmp_path / "t.csv").write_text("task,label,gold\na,x,y\n")
    assert adj.evaluate({"a": "y"}, tmp_path / "t.csv", truth_label="gold").accuracy == 1.0
    with pytest.raises(adj.InputError, match="say which with truth_label="):
        adj.evaluate({"a": "y"}, tmp_path / "t.csv")


def test_row_numbers_go_on_from_batch_to_batch():
    frames = [pl.DataFrame(ROWS, schema=["task", "worker", "label"], orient="row") for _ in range(3)]
    frames[2] = frames[2].with_columns(worker=pl.when(pl.col("task") == "t").then("worker"))
    for action in (
        lambda: adj.aggregate(iter(frames), multi=True),
        lambda: adj.Online(labels=["x", "y"]).learn_many(iter(frames)),
    ):
        with pytest.raises(adj.InputError, match="worker is missing in row 9"):
            action()
    mixed = [frames[0], frames[0].with_columns(task=pl.lit(1))]
    with pytest.raises(adj.InputError, match="do not fit together"):
        adj.aggregate(iter(mixed), multi=True)


def test_streams_take_votes_and_leave_no_trace_of_failures():
    online = adj.Online(labels=["x", "y"])
    for bad in ([(1, 2, "BAD")], [("\ud800", "w", "x")]):
        with pytest.raises(adj.InputError):
            online.learn_many(bad)
    for bad in (("\ud800", "w", "x"), ("t", "\ud800", "x")):
        with pytest.raises(adj.InputError, match="not valid text"):
            online.learn(*bad)
    assert len(online) == 0
    online.learn("7", "8", "x")
    assert online.labels()["task"].to_list() == ["7"]
    online.learn_many(adj.read(ROWS))
    assert len(online) == 3
    online.retract("7", "8")
    assert online.predict("7").label is None
    with pytest.raises(adj.InputError, match="one label per vote"):
        adj.Online.from_result(adj.aggregate([("t", "w", ["x"])], multi=True))
    with pytest.raises(adj.OptionError, match="give a list of labels"):
        adj.Online(labels="xy")


def test_numbers_of_numpy_are_numbers():
    assert adj.aggregate(ROWS, model=adj.FastDawidSkene(tol=np.float32(1e-3)), seed=np.int64(3)).converged
    with pytest.raises(adj.InputError, match="too large"):
        adj.read([(2**53 + 1, "w", "x"), (1.0, "w", "y")])


@pytest.mark.parametrize(
    "options",
    [
        {"label_weights": [1, float("nan"), 2]},
        {"votes_per_task": 2.5},
        {"votes_per_task": (1, 2, 3)},
        {"worker_names": ["a"]},
        {"confusions": np.ones((2, 2, 2))},
    ],
)
def test_simulations_that_make_no_sense(options):
    with pytest.raises(adj.OptionError):
        adj.simulate(**options)


def run(*arguments, **options):
    command = [sys.executable, "-m", "adjudge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)


def test_one_line_where_output_is_impossible(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x\n")
    votes = tmp_path / "v.csv"
    cases = [
        ["aggregate", votes, "-o", tmp_path / "same.csv", "--workers", tmp_path / "same.csv"],
        ["aggregate", votes, "-o", tmp_path / f"{'n' * 256}.csv"],
        ["aggregate", votes, "--labels", "x,"],
        ["simulate", "-o", votes / "x"],
        ["simulate", "-o", tmp_path / "new", "--format", "xls"],
        ["demo", "--seed", "-1"],
    ]
    for arguments in cases:
        code, _, err = adjudge(*arguments)
        assert code == 1, arguments
        assert err.count("\n") == 1, err
    assert not (tmp_path / "new").exists()
    assert adjudge("aggregate", votes, "-o", tmp_path / f"{'n' * 240}.csv", "--quiet")[0] == 0
    with open("/dev/full", "w") as full:  # noqa: PTH123
        command = [sys.executable, "-m", "adjudge", "aggregate", str(votes), "--quiet"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "adjudge", "aggregate", "-"],
        input=b"\x1f\x8bgarbage",
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1


def test_an_empty_simulation_can_be_read(tmp_path):
    assert run("simulate", "-o", tmp_path, "--tasks", 0).returncode == 0
    assert len(adj.read(tmp_path / "votes.csv")) == 0


def test_ctrl_c_while_streaming_into_files_leaves_nothing(tmp_path):
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "adjudge", "simulate", "-o", str(tmp_path / "sim"), "--tasks", "30000000"],
        stderr=subprocess.DEVNULL,
    )
    for _ in range(200):
        if any(p.stat().st_size > 0 for p in (tmp_path / "sim").glob(".adjudge-*")):
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    try:
        assert process.wait(timeout=30) != 0
    finally:
        process.kill()
    assert list((tmp_path / "sim").iterdir()) == []
