"""Exports on the command line: the question, the format, what was understood, and one output per question."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

import exports
from exports import annotation, dump, result


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(adjudge):
    return lambda *arguments: Done(*adjudge(*arguments))


@pytest.fixture
def studio(tmp_path):
    tasks = [
        {
            "id": n,
            "data": {},
            "annotations": [
                annotation("ann", [result("a"), result("x", "is it ok?")]),
                annotation("bob", [result("a"), result("y", "is it ok?")]),
                annotation("cyd", [result("b")], ground_truth=n == 1),
                annotation("dan", [], was_cancelled=True),
            ],
            "predictions": [{"model_version": "m", "result": [result("b")]}],
        }
        for n in (1, 2)
    ]
    return dump(tmp_path / "export.json", tasks)


def test_one_question(run, studio, tmp_path):
    done = run("aggregate", studio, "--model", "mv")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"adjudge: {studio} has 2 questions: is it ok?, sentiment; choose one with question=")
    done = run("aggregate", studio, "--model", "mv", "--question", "sentiment")
    assert done.returncode == 0
    assert "1,b,1.0,2,false,true" in done.stdout
    assert "label-studio: task=id, worker=annotations[].completed_by, label=sentiment; " in done.stderr
    assert "5 votes, 2 abstentions, 1 gold answer, 2 skipped (predictions of models" in done.stderr
    assert "\ngold " in done.stderr
    done = run("aggregate", studio, "--model", "mv", "--question", "sentiment", "--predictions", "--quiet")
    assert "2,b" in done.stdout or "2,a" in done.stdout
    assert "votes" not in done.stderr.replace("of 9 votes have no label", "")


def test_all_questions(run, studio, tmp_path):
    done = run("aggregate", studio, "--model", "mv", "--question", "all", "-o", tmp_path / "labels.csv", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "x" in (tmp_path / "labels.is-it-ok.csv").read_text()
    assert "b" in (tmp_path / "labels.sentiment.csv").read_text()
    assert not (tmp_path / "labels.csv").exists()
    assert "give -o labels.csv" in run("aggregate", studio, "--question", "all").stderr
    plain = exports.csv(tmp_path / "t.csv", [{"task": 1, "worker": 2, "label": 3}])
    done = run("aggregate", plain, "--question", "all", "-o", tmp_path / "labels.csv")
    assert (done.returncode, done.stderr) == (
        1,
        "adjudge: question is for exports of annotation tools that have questions: leave it out\n",
    )


def test_questions_that_would_share_a_file(run, tmp_path):
    answers = [result("a", "is it ok?"), result("b", "Is it ok!")]
    path = dump(tmp_path / "export.json", [{"id": 1, "data": {}, "annotations": [annotation("ann", answers)]}])
    done = run("aggregate", path, "--question", "all", "-o", tmp_path / "labels.csv")
    assert done.returncode == 1
    assert "the questions 'Is it ok!' and 'is it ok?' would both be written to" in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["export.json"]


def test_formats_by_name_and_from_standard_input(run, studio, tmp_path):
    command = [sys.executable, "-m", "adjudge", "aggregate", "-", "--model", "mv", "--question", "sentiment", "--json"]
    done = subprocess.run(command, input=studio.read_text(), capture_output=True, text=True, check=False, timeout=60)
    document = json.loads(done.stdout)
    assert document["votes"] == document["understood"]["votes"] == 5
    assert document["understood"]["format"] == "label-studio"
    done = run("aggregate", studio, "--format", "mturk")
    assert done.returncode == 1
    assert "does not look like mturk" in done.stderr
    crowd = exports.script_files(tmp_path)
    done = run("aggregate", crowd, "--truth", crowd, "--json", "--model", "mv")
    assert json.loads(done.stdout)["tasks_with_truth"] == len(exports.TASKS)


def test_agreement_and_predict(run, studio, tmp_path):
    done = run("agreement", studio, "--question", "is it ok?", "--quiet")
    assert done.returncode == 0, done.stderr
    done = run("aggregate", studio, "--question", "sentiment", "--save", tmp_path / "m.adjudge", "--quiet")
    assert done.returncode == 0, done.stderr
    done = run("predict", studio, "--using", tmp_path / "m.adjudge", "--question", "sentiment", "--quiet")
    assert done.returncode == 0, done.stderr
