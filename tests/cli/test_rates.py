"""`adjudge rates`: the tables on the screen, the files, and bad input."""

import json

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = adj.simulate(tasks=120, workers=7, labels=2, label_names=["bad", "good"], skill=0.85, seed=5)
    number = pl.col("task").str.slice(1).cast(pl.Int64)
    system = pl.when(number % 2 == 0).then(pl.lit("v1")).otherwise(pl.lit("v2"))
    drawn.votes.with_columns(system=system, prompt=number // 2).write_csv("votes.csv")
    drawn.truth.head(60).write_csv("gold.csv")
    return tmp_path


def test_tables_files_and_json(run, crowd):
    done = run("rates", "votes.csv", "--by", "system", "--cluster", "prompt", "--gold", "gold.csv")
    assert (done.code, done.err) == (0, "")
    wanted = adj.rates("votes.csv", by="system", cluster="prompt", gold="gold.csv")
    lines = done.out.splitlines()
    assert lines[0].startswith("read votes.csv as a table (csv)")
    assert lines[1] == wanted.sentences()[0]
    first = wanted.rates.row(0, named=True)
    assert f"{100 * first['low']:.1f}% to {100 * first['high']:.1f}%" in done.out
    assert "differences of shares, in points" in done.out
    assert "known labels that would halve the widest interval" in done.out
    files = {"-o": "rates.csv", "--differences": "differences.csv", "--gold-needed": "needed.parquet"}
    typed = [part for pair in files.items() for part in pair]
    quiet = run("rates", "votes.csv", "--by", "system", "--cluster", "prompt", "--gold", "gold.csv", "--quiet", *typed)
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert pl.read_csv("rates.csv").equals(wanted.rates)
    assert pl.read_csv("differences.csv").equals(wanted.differences)
    assert pl.read_parquet("needed.parquet").equals(wanted.gold_needed)
    document = json.loads(run("rates", "votes.csv", "--by", "system", "--json", "--these-tasks", "--level", 0.8).out)
    assert document["facts"]["sample"] is False
    assert document["level"] == 0.8
    assert document["understood"]["votes"] == 600
    assert {line["group"] for line in document["rates"]} == {"v1", "v2"}


def test_groups_are_data(run, crowd):
    evil = "\x1b[31mred"
    pl.DataFrame({"task": [f"t{n}" for n in range(120)], "group": [evil] * 120}).write_csv("groups.csv")
    done = run("rates", "votes.csv", "--by", "groups.csv")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "red" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--by", "sistem"], "there is no column 'sistem' for the group"),
        (["--by", "system", "--baseline", "v3"], "baseline is 'v3'"),
        (["--by", "system", "--level", 2], "level is 2.0: give a number of at least 0.5 and at most 0.999"),
        (["--gold", "votes.csv", "-o", "votes.csv"], "votes.csv"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, crowd, arguments, message):
    before = (crowd / "votes.csv").read_bytes()
    done = run("rates", "votes.csv", "--differences", "differences.csv", *arguments)
    assert done.code == 1
    assert message in done.err
    assert len(done.err.splitlines()) == 1
    assert not (crowd / "differences.csv").exists()
    assert (crowd / "votes.csv").read_bytes() == before
