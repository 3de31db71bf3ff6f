"""`adjudge scores` and `--soft`: the files, the screen, and bad input that leaves nothing behind."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth, bias = rng.normal(5, 2, 60), [0.0, 1.0, -1.0, 0.5]
    rows = [(f"t{n}", f"j{j}", round(truth[n] + bias[j] + rng.normal(), 2)) for n in range(60) for j in range(4)]
    pl.DataFrame(rows, schema=["item", "judge", "rating"], orient="row").write_csv("s.csv")
    pl.DataFrame({"task": [f"t{n}" for n in range(20)], "score": truth[:20]}).write_csv("g.csv")
    pl.DataFrame({"worker": ["j0", "j1"], "group": ["a", "a"]}).write_csv("groups.csv")
    return tmp_path


def test_files_are_those_of_the_library(adjudge, folder):
    settings = ("--gold", "g.csv", "--groups", "groups.csv", "--threshold", "7")
    code, out, err = adjudge(
        "scores", "s.csv", *settings, "-o", "items.csv", "--judges", "judges.csv", "--report", "r.html", "--save", "p.adjudge"
    )
    assert (code, err) == (0, "")
    found = adj.scores("s.csv", gold="g.csv", groups="groups.csv", threshold=7)
    assert pl.read_csv("items.csv").equals(found.items)
    assert pl.read_csv("judges.csv").equals(found.judges)
    assert "scores are on the scale of 20 gold scores" in out
    assert "Which items score high?" in Path("r.html").read_text()
    assert adj.load("p.adjudge").judges_frame().equals(found.judges)
    document = json.loads(adjudge("scores", "s.csv", "--json")[1])
    assert len(document["items"]) == 60
    assert document["facts"]["validity_from"] == "assumption"
    assert "validity of 0.5" in " ".join(document["sentences"])
    assert adjudge("scores", "s.csv", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("line", "options", "words"),
    [
        ("t1,j1,good", (), "score in row 241 is 'good': give a number"),
        ("t1,j1,5", ("--validity", "2"), "validity is 2.0: give a number"),
        ("t1,j1,5", ("--units", "metres"), "units"),
        ("t1,j1,5", ("--groups", "s.csv"), "group"),
    ],
)
def test_bad_input_leaves_nothing(adjudge, folder, line, options, words):
    with Path("s.csv").open("a") as file:
        file.write(f"{line}\n")
    code, out, err = adjudge("scores", "s.csv", "-o", "items.csv", "--judges", "judges.csv", *options)
    assert (code, out) == (1, "")
    assert words in err
    assert len(err.splitlines()) == 1
    assert not Path("items.csv").exists()
    assert not Path("judges.csv").exists()


def test_soft_labels_into_a_file(adjudge, folder):
    crowd = adj.simulate(tasks=200, workers=20, labels=3, votes_per_task=10, skill=0.8, seed=1)
    crowd.votes.write_csv("votes.csv")
    assert adjudge("aggregate", "votes.csv", "-o", "l.csv", "--soft", "soft.csv", "--quiet") == (0, "", "")
    assert pl.read_csv("soft.csv").columns == ["task", "l0", "l1", "l2", "ambiguity", "doubt", "verdict"]
    code, _, err = adjudge("aggregate", "votes.csv", "-o", "m.csv", "--soft", "soft2.csv", "--multi", "--quiet")
    assert code == 1
    assert "--soft is for single labels" in err
    assert not Path("m.csv").exists()


def test_with_truth_accuracy_is_the_first_figure(adjudge, folder):
    crowd = adj.simulate(tasks=100, workers=10, seed=1)
    crowd.votes.write_csv("votes.csv")
    crowd.truth.write_csv("truth.csv")
    lines = adjudge("aggregate", "votes.csv", "--truth", "truth.csv", "-o", "l.csv")[2].splitlines()
    right = adj.evaluate(adj.aggregate("votes.csv"), "truth.csv").accuracy
    assert lines[1].split() == ["accuracy", f"{right:.1%}", "of", "100", "labels", "with", "truth"]
    assert any(line.startswith("expected wrong labels") and "--gold" not in line for line in lines)
    without = adjudge("aggregate", "votes.csv", "-o", "l.csv")[2]
    assert "; --gold, --calibrate measure it" in without
