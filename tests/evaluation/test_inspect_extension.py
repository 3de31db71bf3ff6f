"""The jury for Inspect in real runs of inspect_ai, which call no model and no network."""

import importlib.util
import json
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import polars as pl
import pytest

import adjudge as adj
from adjudge.io.frames import frame_of

TESTS = Path(__file__).parents[1]
NAMES = ["strict", "lenient", "terse", "guessing"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels"),
    pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    command = [sys.executable, str(TESTS / "inspect_runs.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "runs.json").read_text())


@pytest.mark.parametrize("name", ["once", "twice"])
def test_every_verdict_is_kept_and_read_back(runs, name):
    logged = runs[name]
    wanted = []
    for (sample, epoch, _, _), panel in zip(logged["samples"], logged["panels"], strict=True):
        assert (panel["judges"], panel["size"]) == (NAMES, 4)
        wanted += [
            (f"{sample}/{epoch}" if name == "twice" else sample, *vote) for vote in zip(NAMES, panel["votes"], strict=True)
        ]
    votes = adj.read(logged["path"])
    assert sorted(frame_of(votes).rows()) == sorted(vote for vote in wanted if vote[2] is not None)
    failures = [failure for panel in logged["panels"] for failure in panel["failures"]]
    assert votes.abstentions == len(failures) > 0  # a grader that fails stays in the denominator
    assert failures[0]["reason"] == "ValueError: no grade"


@pytest.mark.parametrize("name", ["once", "twice"])
def test_metrics_over_all_samples_are_those_of_the_library(runs, name):
    measured = runs[name]["metrics"]
    with warnings.catch_warnings(action="ignore"):
        result = adj.aggregate(adj.read(runs[name]["path"]))
    assert measured["effective_judges"] == pytest.approx(result.facts["effective_votes"])
    assert 1 < measured["effective_judges"] <= 4
    accuracy = dict(result.workers.select("worker", "accuracy").rows())
    assert {judge: value for judge, value in measured.items() if judge in NAMES} == pytest.approx(accuracy)
    assert accuracy["strict"] > accuracy["guessing"]
    assert 0.5 < measured["accuracy"] < 0.8


@pytest.mark.parametrize("name", ["once", "twice"])
def test_joint_labels_go_back_to_the_samples(runs, name, tmp_path):
    logged = runs[name]
    result = adj.aggregate(logged["path"])
    result.write(tmp_path / "scores.csv", logged["path"], format="inspect")
    rows = pl.read_csv(tmp_path / "scores.csv")
    assert sorted(rows.select("id", "epoch", "jury").rows()) == sorted(
        (id_, epoch, value) for id_, epoch, _, value in logged["samples"]
    )
    assert dict(rows.select("task", "consensus").rows()) == dict(result.labels.select("task", "label").rows())
    right = {(id_, epoch): "C" if is_right else "I" for id_, epoch, is_right, _ in logged["samples"]}
    labels = rows.select("id", "epoch", "consensus").rows()
    assert sum(label == right[id_, epoch] for id_, epoch, label in labels) >= 0.88 * len(right)


def test_names_of_graders_and_those_that_say_nothing(runs):
    panel = runs["unnamed"]["panels"][0]
    assert panel["judges"] == ["grader", "grader (2)", "plain", "silent"]
    assert {one["votes"][3] for one in runs["unnamed"]["panels"]} == {None}
    assert {value for *_, value in runs["silent"]["samples"]} == {None}
    assert runs["silent"]["metrics"]["effective_judges"] is None


def test_a_grader_that_asks_a_model(runs):
    for panel in runs["model"]["panels"]:  # the mock model's reply has no grade
        assert panel["judges"] == ["model_graded_qa", "plain"]
        assert panel["votes"] == [None, "C"]


def test_what_is_no_jury_is_refused(runs):
    assert runs["refused"] == [
        "a jury needs at least one grader",
        "names are 'a', 'a': give one name of its own for each of 2 graders",
    ]


def test_inspect_finds_the_extension_by_its_entry_point(runs):
    project = tomllib.loads((TESTS.parent / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == {"adjudge": "adjudge.evaluation.inspect"}
    assert runs["name"] == "adjudge/jury"
