"""`--weight` on the command line: into labels, the summary and JSON, through encode and predict, and where it is refused."""

import json
from typing import NamedTuple

import polars as pl
import pytest

import adjudge as adj


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(adjudge):
    return lambda *arguments: Done(*adjudge(*arguments))


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    votes = adj.simulate(tasks=50, workers=6, seed=2).votes
    votes = votes.with_columns(sure=pl.int_range(pl.len()) % 4 / 2)
    votes.write_csv("votes.csv")
    return votes


def test_the_weight_reaches_the_library(crowd, run):
    done = run("aggregate", "votes.csv", "--weight", "sure", "--json", "-o", "labels.csv")
    assert done.code == 0
    facts = json.loads(done.out)
    assert facts["weight"] == crowd["sure"].sum()
    assert facts["abstentions"] == (crowd["sure"] == 0).sum()
    with pytest.warns(adj.MissingLabels):
        want = adj.aggregate(crowd, weight="sure").labels
    assert pl.read_csv("labels.csv")["label"].to_list() == want["label"].to_list()
    assert pl.read_csv("labels.csv")["weight"].to_list() == want["weight"].to_list()
    assert "weight" in run("aggregate", "votes.csv", "--weight", "sure", "-o", "labels.csv").err


def test_encode_and_predict_take_it(crowd, run):
    assert run("encode", "votes.csv", "--weight", "sure", "-o", "folder").code == 0
    assert run("aggregate", "folder", "--engine", "disk", "--model", "fds", "-o", "far.csv").code == 0
    assert run("aggregate", "votes.csv", "--weight", "sure", "--model", "fds", "-o", "near.csv", "--save", "m.adjudge").code == 0
    far, near = (pl.read_csv(name).sort("task").drop("confidence") for name in ("far.csv", "near.csv"))
    assert far.equals(near)
    assert run("predict", "votes.csv", "--using", "m.adjudge", "--weight", "sure", "-o", "new.csv").code == 0
    assert pl.read_csv("new.csv")["weight"].sum() == crowd["sure"].sum()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "glad", "--weight", "sure"], "model 'glad' counts every vote once"),
        (["--multi", "--weight", "sure"], "weight works only for tasks with one label"),
        (["--weight", "task", "--task", "label", "--label", "worker", "--worker", "sure"], "weight in row 1 is"),
        (["--weight", "much"], "there is no column 'much' for the weight"),
        (["--engine", "spark", "--weight", "sure"], "--weight does not work with --engine spark"),
    ],
)
def test_refusals_are_one_line(crowd, run, options, message):
    done = run("aggregate", "votes.csv", *options, "-o", "labels.csv")
    assert done.code == 1
    assert message in done.err
    assert done.err.count("\n") == 1
