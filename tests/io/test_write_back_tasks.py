"""Tasks to be labelled again: in the order asked for, without votes, and an error where the file is another one."""

import json
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.write_back import write_tasks


def test_tasks_come_in_the_requested_order(tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "next.json"
    write_tasks(["105", "101", "nobody knows"], path, out, understood=adj.read(path).understood)
    assert [task["id"] for task in json.loads(out.read_text())] == [105, 101]
    assert all(task.keys() == {"id", "data"} for task in json.loads(out.read_text()))


def test_another_file_is_an_error(tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "next.json"
    with pytest.raises(adj.InputError, match="none of its tasks .* is one to be labelled again"):
        write_tasks(["x"], path, out)
    assert not out.exists()


def test_the_source_is_not_written_over(tmp_path):
    path = exports.label_studio(tmp_path)
    with pytest.raises(adj.InputError, match="would be lost"):
        write_tasks(["101"], path, path)


def test_lines_of_a_table_that_was_not_read_are_kept(tmp_path):
    table, out = tmp_path / "votes.csv", tmp_path / "next.csv"
    table.write_text("task,worker,label\n1,a,x\n1,b,y\n2,a,x\n")
    write_tasks(["2", "1"], table, out)
    assert out.read_text() == "task,worker,label\n2,a,x\n1,a,x\n"


def test_samples_of_inspect_are_written_without_their_scores(tmp_path):
    log = Path(__file__).parents[2] / "docs" / "tutorials" / "arithmetic.eval"
    write_tasks(["q3", "q1"], log, tmp_path / "again.csv")
    assert pl.read_csv(tmp_path / "again.csv").columns == ["task", "id", "epoch", "target"]
    assert pl.read_csv(tmp_path / "again.csv")["task"].to_list() == ["q3", "q1"]
