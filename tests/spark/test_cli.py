"""`adjudge aggregate --engine spark`: Spark's formats in and out, and one line for what cannot be."""

import json
import re

import polars as pl
import pytest

import adjudge as adj

CROWD = adj.simulate(tasks=60, workers=8, labels=3, votes_per_task=3, seed=7)


@pytest.fixture(scope="module")
def near():
    return adj.aggregate(CROWD.votes, model="mv").labels.sort("task")


WRITERS = {
    "votes.csv": CROWD.votes.write_csv,
    "votes.tsv": lambda path: CROWD.votes.write_csv(path, separator="\t"),
    "votes.jsonl": CROWD.votes.write_ndjson,
    "votes.parquet": CROWD.votes.write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_formats(spark, adjudge, near, tmp_path, name):
    WRITERS[name](tmp_path / name)
    code, out, err = adjudge("aggregate", tmp_path / name, "--engine", "spark", "--model", "mv", "--quiet")
    assert (code, err) == (0, "")
    assert pl.read_csv(out.encode()).sort("task").equals(near)


def test_odd_ids_in_text(spark, adjudge, tmp_path):
    odd = ["a b", '"', "a,b", "tab\t", "😀", " ", " é ", "x" * 3000, "007", "7"]
    frame = pl.DataFrame({"task": odd, "worker": odd, "label": odd[::-1], "comment": odd})
    frame.write_csv(tmp_path / "votes.csv")
    arguments = ["aggregate", tmp_path / "votes.csv", "--model", "mv", "--quiet"]
    assert adjudge(*arguments, "--engine", "spark", "-o", tmp_path / "labels.csv")[0] == 0
    found = pl.read_csv(tmp_path / "labels.csv" / "*.csv", infer_schema=False).sort("task")
    assert found["task"].to_list() == sorted(odd)
    assert found["label"].to_list() == [odd[::-1][odd.index(task)] for task in sorted(odd)]


def test_folders_and_patterns(spark, adjudge, near, tmp_path):
    (tmp_path / "votes").mkdir()
    for n, part in enumerate(CROWD.votes.iter_slices(50)):
        part.write_parquet(tmp_path / "votes" / f"part-{n}.parquet")
    for source in (tmp_path / "votes", tmp_path / "votes" / "*.parquet"):
        code, out, _ = adjudge("aggregate", source, "--engine", "spark", "--model", "mv", "--quiet")
        assert code == 0
        assert pl.read_csv(out.encode()).sort("task").equals(near)


def test_spark_writes(spark, adjudge, near, tmp_path):
    CROWD.votes.write_csv(tmp_path / "votes.csv")
    targets = ["-o", tmp_path / "labels.parquet", "--probabilities", tmp_path / "p.jsonl", "--workers", tmp_path / "w.csv"]
    gold = tmp_path / "gold.csv"
    gold.write_text("task,gold\nt1,l0\nt2,l1\nnobody,l1\n")
    arguments = ["aggregate", tmp_path / "votes.csv", "--engine", "spark", "--gold", gold]
    code, out, err = adjudge(*arguments, *targets, "--save", tmp_path / "crowd.adjudge", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    near = json.loads(adjudge("aggregate", tmp_path / "votes.csv", "--gold", gold, "--json", "-o", tmp_path / "l.csv")[1])
    assert facts.pop("priors") == pytest.approx(near.pop("priors"))
    assert (facts.pop("label_shares"), set(near.pop("label_shares"))) == (None, {"l0", "l1", "l2"}), "tasks stay on the executors"
    assert (facts.pop("labels_below_95"), near.pop("labels_below_95") > 0) == (None, True)
    understood = facts.pop("understood"), near.pop("understood")
    assert understood[0]["columns"] == understood[1]["columns"] == {"task": "task", "worker": "worker", "label": "label"}
    assert facts == {k: pytest.approx(v) if isinstance(v, float) else v for k, v in near.items()}
    assert {"gold": 2, "gold_without_votes": 1}.items() <= facts.items()
    labels = pl.read_parquet(tmp_path / "labels.parquet" / "*.parquet").sort("task")
    assert labels.select("task", "label").equals(pl.read_csv(tmp_path / "l.csv").sort("task").select("task", "label"))
    assert pl.scan_ndjson(tmp_path / "p.jsonl" / "*.json").collect().height == 60
    assert pl.read_csv(tmp_path / "w.csv" / "*.csv")["worker"].to_list() == [f"w{n}" for n in range(8)]
    assert adj.load(tmp_path / "crowd.adjudge").model == "auto"
    code, _, err = adjudge(*arguments, *targets)
    assert (code, err.count("\n")) == (1, 1)
    assert "labels.parquet: it exists already" in err


BAD = {
    "no such file": (["nope.csv"], "cannot read .*nope.csv: there is no such file or folder"),
    "no such folder": (["nope"], "cannot read nope: there is no such file or folder"),
    "no such file system": (["gopher://host/votes.csv"], "cannot read gopher://host/votes.csv: .*gopher"),
    "no telling suffix": (["."], "neither its suffix nor its files tell the format"),
    "several formats": (["votes.csv", "votes.parquet"], "files of several formats"),
    "no such column": (["votes.csv", "--worker", "who"], "there is no column 'who' for the worker; the columns are: task"),
    "a torn line": (["torn.csv"], 'cannot read the Spark frame: Malformed CSV record: "t'),
    "a torn note": (["torn2.csv"], "cannot read the Spark frame: Malformed CSV record"),
    "torn json": (["torn.jsonl"], "cannot read .*torn.jsonl: "),
    "standard input": (["-"], "Spark cannot read standard input"),
    "glad": (["votes.csv", "--model", "glad"], "engine 'spark' cannot run model 'glad': choose engine='cpu'"),
    "no such model": (["nope.csv", "--model", "sfd"], "unknown model 'sfd': did you mean 'fds'"),
    "sets": (["votes.csv", "--multi"], "--multi does not work with --engine spark"),
    "suffix": (["votes.csv", "-o", "labels.xls"], "cannot write labels.xls: the suffix '.xls' names no known format"),
    "twice": (["votes.csv", "-o", "a.csv", "--workers", "a.csv"], "two outputs have the same path"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(spark, adjudge, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    CROWD.votes.write_csv("votes.csv")
    CROWD.votes.write_parquet("votes.parquet")
    (tmp_path / "torn.csv").write_text('task,worker,label\nt1,w1,x\n"t\n2",w2,x\n')
    (tmp_path / "torn2.csv").write_text('id,task,worker,label,note\n1,t1,w1,x,"two\nt2,w2,x,y"\n2,t3,w1,x,\n')
    (tmp_path / "torn.jsonl").write_text('{"task": 1, "worker": 1, "label": 2}\n{"task": 1, "wor')
    arguments, message = BAD[case]
    paths = [
        f"{tmp_path}/{a}" if a.endswith((".csv", ".parquet", ".jsonl")) and "://" not in a and case != "twice" else a
        for a in arguments
    ]
    code, out, err = adjudge("aggregate", *paths, "--engine", "spark")
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert re.search(message, err), err


def test_master_without_spark(adjudge, tmp_path):
    CROWD.votes.write_csv(tmp_path / "votes.csv")
    code, _, err = adjudge("aggregate", tmp_path / "votes.csv", "--master", "local")
    assert (code, err.count("\n")) == (1, 1)
    assert "--master works only with --engine spark" in err
