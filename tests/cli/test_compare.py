"""`adjudge compare`: advice first, figures, files, JSON; bad input ends in one line."""

import json
import re

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def gold_csv(votes_csv):
    path = votes_csv.with_name("gold.csv")
    pl.read_csv(votes_csv.with_name("truth.csv")).head(25).write_csv(path)
    return path


def test_without_truth(run, votes_csv):
    done = run("compare", votes_csv)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(
        f"read {votes_csv} as a table (csv): task=task, worker=worker, label=label; 120 votes\n\nTake auto ("
    )
    found = adj.compare(votes_csv)
    assert all(sentence in done.out for sentence in found.advice)
    assert "accuracy with its" not in done.out


def test_with_truth_accuracies_are_drawn_on_one_axis(run, votes_csv):
    done = run("compare", votes_csv, "--truth", votes_csv.with_name("truth.csv"), "--models", "auto,ds")
    assert (done.code, done.err) == (0, "")
    found = adj.compare(votes_csv, truth=votes_csv.with_name("truth.csv"), models=["auto", "ds"])
    for name, accuracy in found.models.select("model", "accuracy").iter_rows():
        assert re.search(rf"^{name} +{accuracy:.1%} ", done.out, re.MULTILINE), name
    lines = done.out.split("│ is majority vote\n")[1].splitlines()
    assert [line.split()[0] for line in lines] == found.models["model"].to_list()
    majority = next(line.index("●") for line in lines if line.startswith("mv"))
    assert all(line[majority : majority + 1] in "│┼├┤●" for line in lines)
    assert all(re.fullmatch(r"[\w-]+ [ │]*(├[─┼]*)?●([─┼]*┤)?[ │]*", line) for line in lines), lines


def test_gold_and_truth(run, votes_csv, gold_csv):
    document = json.loads(run("compare", votes_csv, "--gold", gold_csv, "--folds", 4, "--json").out)
    assert (document["judged_by"], document["judged_tasks"], document["folds"]) == ("gold", 25, 4)
    both = run("compare", votes_csv, "--gold", gold_csv, "--truth", votes_csv.with_name("truth.csv"), "--json")
    document = json.loads(both.out)
    assert (document["judged_by"], document["judged_tasks"], document["gold_tasks"]) == ("truth", 15, 25)
    assert document["understood"]["votes"] == 120


def test_files(run, votes_csv, tmp_path):
    names = {"-o": "models.csv", "--differences": "pairs.parquet", "--disagreements": "disputed.jsonl"}
    arguments = [part for option, name in names.items() for part in (option, tmp_path / name)]
    assert run("compare", votes_csv, *arguments, "--refits", 1).code == 0
    found = adj.compare(votes_csv, refits=1)
    assert pl.read_csv(tmp_path / "models.csv")["model"].to_list() == found.models["model"].to_list()
    assert pl.read_parquet(tmp_path / "pairs.parquet").equals(found.differences)
    assert pl.read_ndjson(tmp_path / "disputed.jsonl")["task"].to_list() == found.disagreements["task"].to_list()


def test_quiet_prints_the_name_alone(run, votes_csv):
    assert run("compare", votes_csv, "--quiet", "--refits", 0) == (0, "auto\n", "")


def test_ids_and_labels_are_text(run, tmp_path):
    votes = [
        (f"t{t}\x1b[2J", f"w{w}\x07", "\x1b[31mred" if (t + w % 3 + t * w) % 2 else "[bold]x")
        for t in range(12)
        for w in range(5)
    ]
    pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row").write_csv(tmp_path / "odd\x1b[1m.csv")
    done = run("compare", tmp_path / "odd\x1b[1m.csv")
    assert done.code == 0
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.out + done.err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--models", "auto,best"], "adjudge: unknown model 'best'"),
        (["--folds", "1"], "adjudge: folds is 1: give a whole number of at least 2"),
        (["--truth", "nowhere.csv"], "adjudge: cannot read nowhere.csv"),
        (["--threads", "0"], "adjudge: threads is 0"),
        (["-o", "models.docx"], "adjudge: "),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, votes_csv, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = run("compare", votes_csv, "--disagreements", "disputed.csv", *arguments)
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before


def test_votes_are_not_written_over(run, votes_csv):
    before = votes_csv.read_bytes()
    assert run("compare", votes_csv, "-o", votes_csv).code == 1
    assert votes_csv.read_bytes() == before


def test_an_empty_name_of_a_model_is_reported(adjudge, tmp_path):
    (tmp_path / "votes.csv").write_text("task,worker,label\n1,ann,cat\n")
    assert (
        "models is 'mv,,ds': give models joined by commas" in adjudge("compare", tmp_path / "votes.csv", "--models", "mv,,ds")[2]
    )


def test_own_labels_have_names_of_their_own_and_are_not_overwritten(run, votes_csv):
    mine = votes_csv.with_name("truth.csv")
    before = mine.read_bytes()
    done = run("compare", votes_csv, "--own-labels", f"mine={mine}", "--own-labels", f"mine={votes_csv}")
    assert done.code == 1
    assert "--own-labels gives the name 'mine' twice" in done.err
    done = run("compare", votes_csv, "--own-labels", f"mine={mine}", "-o", mine)
    assert done.code == 1
    assert "is read as well, as your own labels" in done.err
    assert mine.read_bytes() == before
