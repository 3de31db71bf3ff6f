"""Groups, excluded workers, and messages about panels that err together, on the command line."""

import json

import numpy as np
import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = adj.simulate(tasks=80, workers=6, labels=3, votes_per_task=5, seed=2)
    made.votes.write_csv("votes.csv")
    pl.DataFrame({"worker": ["w1", "w2", "w3"], "group": ["g", "g", "g"]}).write_csv("groups.csv")
    return made


HONEST = ("--model", "auto", "--confidence", "honest")


def test_groups_and_excluded_workers_reach_the_library(crowd, run):
    done = run(
        "aggregate",
        "votes.csv",
        *HONEST,
        "--groups",
        "groups.csv",
        "--exclude",
        "w5",
        "-o",
        "a.csv",
        "--workers",
        "w.csv",
        "--json",
    )
    assert done.code == 0, done.err
    expected = adj.aggregate("votes.csv", model="auto", confidence="honest", groups="groups.csv", exclude=["w5"])
    facts = json.loads(done.out)
    assert pl.read_csv("a.csv")["label"].equals(expected.labels["label"])
    assert pl.read_csv("w.csv").columns == expected.workers.columns
    for name in ("chose", "why", "shared_error", "effective_votes", "votes_per_task"):
        assert facts[name] == expected.facts[name]
    assert (facts["workers"], facts["groups"], facts["excluded_workers"]) == (5, 1, 1)
    assert facts["excluded_votes"] == crowd.votes.filter(pl.col("worker") == "w5").height
    assert facts["ties_within_groups"] == expected.facts["ties_within"] > 0
    assert (facts["votes"], facts["votes_cast"]) == (len(expected.votes), len(crowd.votes) - facts["excluded_votes"])


def test_the_summary_tells_them(crowd, run):
    done = run("aggregate", "votes.csv", *HONEST, "--groups", "groups.csv", "--exclude", "w5", "-o", "a.csv")
    lines = dict(line.rsplit("  ", 1) for line in done.err.splitlines() if "  " in line)
    told = {name.strip(): value.strip() for name, value in lines.items()}
    assert (told["groups"], told["excluded workers"]) == ("1", "1")
    assert int(told["ties within groups"]) > 0
    assert "auto chose careful fit: workers differ in skill more than they err together" in done.err


@pytest.mark.parametrize(
    ("name", "text"), [("out.txt", "w5\nw4\n"), ("out.csv", "annotator\nw5\nw4\n"), ("w5,w4", None), (" w4 , w5", None)]
)
def test_workers_are_left_out_by_name_or_by_file(crowd, run, tmp_path, name, text):
    if text is not None:
        (tmp_path / name).write_text(text)
    facts = json.loads(run("aggregate", "votes.csv", "--exclude", name, "-o", "a.csv", "--json").out)
    assert facts["excluded_workers"] == 2
    assert pl.read_csv("a.csv")["label"].equals(adj.aggregate("votes.csv", exclude=["w4", "w5"]).labels["label"])


def test_groups_that_the_votes_show(crowd, run):
    ring = crowd.votes.filter(pl.col("worker") == "w0")
    pl.concat([crowd.votes, *(ring.with_columns(worker=pl.lit(f"copy{n}")) for n in range(3))]).write_csv("rings.csv")
    facts = json.loads(run("aggregate", "rings.csv", "--model", "mv", "--groups", "answers_like", "-o", "a.csv", "--json").out)
    assert (facts["groups"], facts["workers"]) == (1, 9)
    assert json.loads(run("aggregate", "votes.csv", "--groups", "answers_like", "-o", "a.csv", "--json").out)["groups"] == 0


def test_saved_groups_are_applied_by_predict(crowd, run):
    run("aggregate", "votes.csv", "--model", "fds", "--groups", "groups.csv", "--save", "m.adjudge", "-o", "a.csv", "--quiet")
    done = run("predict", "votes.csv", "--using", "m.adjudge", "-o", "p.csv", "--workers", "w.csv")
    assert done.code == 0
    assert pl.read_csv("p.csv").select("task", "label", "votes").equals(pl.read_csv("a.csv").select("task", "label", "votes"))
    assert pl.read_csv("w.csv")["group"].to_list().count("g") == 3


def panel(*, hard):
    """Votes of eight judges who are right 98% of the time, but on a share of hard tasks half of the time."""
    rng = np.random.default_rng(5)
    truth, right = rng.integers(0, 2, 300), np.where(rng.random(300) < hard, 0.5, 0.98)
    given = np.where(rng.random((8, 300)) < right, truth, 1 - truth)
    votes = [(t, f"w{w}", int(label)) for w, line in enumerate(given) for t, label in enumerate(line)]
    pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row").write_csv("panel.csv")


@pytest.mark.parametrize("model", ["auto", "fds"])
def test_the_size_of_a_panel_that_errs_together_is_reported_with_a_remedy(crowd, run, model):
    panel(hard=0.4)
    facts = adj.aggregate("panel.csv", model=model, confidence="honest").facts
    assert facts["effective_votes"] < 2 / 3 * facts["votes_per_task"]
    done = run("aggregate", "panel.csv", "--model", model, "--confidence", "honest", "-o", "a.csv")
    sentence = (
        f"{facts['effective_votes']:.2g} of 8 per task, measured without truth; workers err together: ask judges who differ more"
    )
    assert f"{sentence}, or let those of one kind vote once (--groups)\n" in done.err
    assert "--groups answers_like" in done.err.split("try next:")[1]
    pl.DataFrame({"worker": ["w0", "w1"], "group": ["g", "g"]}).write_csv("two.csv")
    grouped = run("aggregate", "panel.csv", "--model", model, "--confidence", "honest", "--groups", "two.csv", "-o", "a.csv")
    assert "ask judges who differ more\n" in grouped.err
    assert "--groups answers_like" not in grouped.err
    assert "err together:" not in run("aggregate", "panel.csv", "--model", "fds", "--confidence", "posterior", "-o", "a.csv").err


def test_independent_votes_are_worth_their_number(crowd, run):
    panel(hard=0.0)
    done = run("aggregate", "panel.csv", *HONEST, "-o", "a.csv")
    assert "workers err together" not in done.err
    assert "effective votes        8 of 8 per task, measured without truth\n" in done.err
    assert json.loads(run("aggregate", "panel.csv", *HONEST, "-o", "a.csv", "--json").out)["effective_votes"] > 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--groups", "nowhere.csv"], "cannot read nowhere.csv"),
        (["--groups", "votes.csv"], "votes.csv: no column looks like the group; call its column 'group'"),
        (["--exclude", "zoe"], "exclude names no worker with votes (zoe); there are 6 workers, the first: w0, w1"),
        (["--exclude", "w1,,w2"], "exclude is 'w1,,w2': give workers joined by commas, none of them empty, or a file"),
        (["--groups", "groups.csv", "--engine", "disk"], "groups needs the votes in memory, not on engine 'disk'"),
        (["--exclude", "w1", "--multi"], "exclude works only for tasks with one label"),
    ],
)
def test_impossible_options_are_reported_in_one_line(crowd, run, arguments, words):
    done = run("aggregate", "votes.csv", *arguments, "-o", "a.csv")
    assert done.code == 1
    assert words in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(("option", "what"), [("--groups", "the groups"), ("--exclude", "the excluded workers")])
def test_inputs_are_not_overwritten(crowd, run, option, what):
    done = run("aggregate", "votes.csv", option, "groups.csv", "-o", "groups.csv")
    assert done.code == 1
    assert f"-o groups.csv is read as well, as {what}, and would be lost" in done.err


def test_strangers_are_warned_of(crowd, run):
    done = run("aggregate", "votes.csv", "--exclude", "w1,zoe", "-o", "a.csv", "--quiet")
    assert done.err == "adjudge: warning: exclude names 1 of 2 workers who have no votes here: zoe\n"
