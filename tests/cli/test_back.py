"""`--to` on the command line: labels in the form that the votes came in, checked before any work."""

import json
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.frames import frame_of

MODEL = ("--model", "mv", "--quiet")


@pytest.mark.parametrize("to", ["auto", "label-studio"])
def test_label_studio(adjudge, tmp_path, to):
    path, out = exports.label_studio(tmp_path), tmp_path / "predictions.json"
    status, stdout, stderr = adjudge("aggregate", path, "-o", out, "--to", to, *MODEL)
    assert (status, stdout, stderr) == (0, "", "")
    again = frame_of(adj.read(out, predictions=True))
    assert set(again["worker"]) == {"adjudge mv"}
    found = adj.aggregate(path, model="mv").labels
    assert dict(again.select("task", "label").rows()) == dict(found.select("task", "label").rows())


def test_argilla_and_tables(adjudge, tmp_path):
    path, out = exports.argilla(tmp_path), tmp_path / "records.jsonl"
    assert adjudge("aggregate", path, "-o", out, "--to", "argilla", *MODEL)[0] == 0
    assert json.loads(out.read_text().splitlines()[0])["suggestions"]["sentiment"]["agent"] == "adjudge mv"
    wide, out = tmp_path / "wide.tsv", tmp_path / "out.csv"
    wide.write_text("id\tjudge_1\tjudge_2\n1\ta\ta\n2\tb\tb\n")
    workers = tmp_path / "workers.csv"
    status, *_ = adjudge("aggregate", wide, "--wide", "-o", out, "--to", "table", "--workers", workers, *MODEL)
    assert status == 0
    assert pl.read_csv(out).select("id", "judge_1", "consensus").rows() == [(1, "a", "a"), (2, "b", "b")]
    assert workers.exists()


def test_a_file_per_question(adjudge, tmp_path):
    records = exports.argilla_records()
    for record in records:
        record["responses"]["topic"] = [{"value": "art", "user_id": "ann", "status": "submitted"}]
    path, out = exports.dump(tmp_path / "records.json", records), tmp_path / "out.json"
    assert adjudge("aggregate", path, "--question", "all", "-o", out, "--to", "argilla", *MODEL)[0] == 0
    assert json.loads((tmp_path / "out.topic.json").read_text())[0]["suggestions"]["topic"]["value"] == "art"
    assert (tmp_path / "out.sentiment.json").exists()


def test_labels_keep_their_names_without_it(adjudge, tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "labels.csv"
    assert adjudge("aggregate", path, "-o", out, *MODEL)[0] == 0
    assert out.read_text().splitlines()[0] == "task,label,confidence,votes,tie"


def test_impossible_options_are_reported_before_any_work(adjudge, tmp_path, monkeypatch):
    monkeypatch.setattr(adj, "aggregate", lambda *_, **__: pytest.fail("worked"))
    path, out = exports.label_studio(tmp_path), tmp_path / "out.json"
    peers = exports.peerannot(tmp_path)
    for arguments, said in [
        ((path, "--to", "label-studio"), "--to writes a file: say where with -o"),
        ((path, "--to", "csv", "-o", out), "unknown form of labels 'csv'"),
        ((path, "--to", "argilla", "-o", out), "its labels cannot be written as argilla, only as label-studio"),
        ((path, "--to", "auto", "-o", tmp_path / "out.csv"), "labels for label-studio are written to files that end in .json"),
        ((path, "--to", "auto", "-o", path), "is read as well, as the votes, and would be lost"),
        ((path, "--to", "auto", "-o", out, "--save", out), "two outputs have the same path"),
        ((path, "--to", "auto", "-o", tmp_path / "no" / "out.json"), "does not exist; make it first"),
        (
            (peers, "--to", "auto", "-o", out),
            "which has no form for labels: they can go back to exports of label-studio, argilla",
        ),
        ((path, "--to", "table", "-o", out, "--no-header"), "--to does not go with --no-header"),
        ((path, "--to", "auto", "-o", out, "--engine", "spark"), "--to does not go with --engine spark"),
        (("-", "--to", "auto", "-o", out), "can be read only once: name a file"),
    ]:
        status, stdout, stderr = adjudge("aggregate", *arguments)
        assert (status, stdout) == (1, ""), arguments
        assert said in stderr
        assert stderr.count("\n") == 1
    assert not out.exists()
    assert Path(path).read_bytes() == exports.dump(tmp_path / "again.json", exports.label_studio_tasks()).read_bytes()
