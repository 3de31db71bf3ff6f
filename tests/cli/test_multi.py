import json

import polars as pl
import pytest

import adjudge as adj


def test_sets_from_file_to_file(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x|y\n1,b,y\n1,c,y\n2,a,\n2,b,\n")
    (tmp_path / "t.csv").write_text("task,label\n1,y\n2,\n")
    code, out, _ = adjudge("aggregate", tmp_path / "v.csv", "--multi", "--model", "mv", "--json", "--truth", tmp_path / "t.csv")
    document = json.loads(out)
    assert code == 0
    assert [row["label"] for row in document["result"]] == [["y"], []]
    assert document["option_accuracy"] == 1.0
    for suffix, value in (("csv", "y"), ("jsonl", ["y"])):
        path = tmp_path / f"l.{suffix}"
        assert adjudge("aggregate", tmp_path / "v.csv", "--multi", "--per-option", "-o", path)[0] == 0
        read = pl.read_csv if suffix == "csv" else pl.read_ndjson
        assert read(path)["label"].to_list()[0] == value
        code, out, _ = adjudge("evaluate", path, "--truth", tmp_path / "t.csv", "--multi")
        assert code == 0
        assert "exact accuracy" in out
    assert adjudge("aggregate", tmp_path / "v.csv", "--multi", "--model", "mv", "--quiet")[1].splitlines()[1].startswith("1,y,")
    assert isinstance(adj.aggregate(tmp_path / "v.csv", multi=True), adj.MultiResult)


VOTES = "task,worker,label\n1,a,x|y\n1,b,y\n1,c,y\n2,a,\n2,b,\n3,c,x\n3,a,x|z\n"


@pytest.mark.parametrize("apart", [[], ["--per-option"]])
def test_a_model_of_sets_is_saved_and_predicts(adjudge, tmp_path, apart):
    (tmp_path / "v.csv").write_text(VOTES)
    (tmp_path / "new.csv").write_text("task,worker,label\n8,a,x;y\n8,b,y\n8,new,y\n9,b,\n")
    given = ["aggregate", tmp_path / "v.csv", "--multi", *apart, "--save", tmp_path / "m", "--workers", tmp_path / "w.csv"]
    code, _, err = adjudge(*given, "-o", tmp_path / "l.csv")
    assert code == 0
    for figure in ("expected wrong sets", "expected wrong options"):
        assert figure in err
    assert "--groups" not in err, "sets have no groups"
    workers = pl.read_csv(tmp_path / "w.csv")
    assert {"accuracy_low", "accuracy_high", "abstained", "verdict", "why"} <= set(workers.columns)
    assert (workers["accuracy_low"] < workers["accuracy_high"]).all()
    files = {"-o": tmp_path / "p.csv", "--workers": tmp_path / "k.csv", "--probabilities": tmp_path / "y.csv"}
    outputs = [part for pair in files.items() for part in pair]
    code, _, err = adjudge("predict", tmp_path / "new.csv", "--using", tmp_path / "m", "--set-separator", ";", *outputs)
    assert (code, "2 tasks labelled by FittedSets(auto: 3 workers, 3 options)" in err, "new" in err) == (0, True, True)
    assert f"read {tmp_path / 'new.csv'} as a table (csv): task=" in err
    assert pl.read_csv(tmp_path / "p.csv")["label"].to_list() == ["y", ""]
    assert pl.read_csv(tmp_path / "k.csv").filter(~pl.col("known"))["worker"].to_list() == ["new"]
    assert pl.read_csv(tmp_path / "y.csv").columns == ["task", "x", "y", "z"]
    code, out, _ = adjudge("predict", tmp_path / "v.csv", "--using", tmp_path / "m", "--quiet")
    assert code == 0
    assert out.splitlines()[1].startswith("1,y,")
    assert adjudge("predict", tmp_path / "v.csv", "--using", tmp_path / "m", "-o", tmp_path / "p.jsonl")[0] == 0
    assert pl.read_ndjson(tmp_path / "p.jsonl")["label"].to_list()[0] == ["y"]


def test_the_figures_of_sets_as_json(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text(VOTES)
    code, out, _ = adjudge("aggregate", tmp_path / "v.csv", "--multi", "--json")
    found, result = json.loads(out), adj.aggregate(tmp_path / "v.csv", multi=True)
    assert code == 0
    assert found["expected_wrong_sets"] == pytest.approx(result.expected_errors)
    assert found["expected_wrong_options"] == pytest.approx(result.expected_wrong_options)
    assert found["priors"] == {"x": pytest.approx(1 / 3), "y": pytest.approx(1 / 3), "z": 0.0}
    assert found["why"] == result.facts["why"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "v.csv", "--using", "single", "--set-separator", ";"], "--set-separator is for models of sets"),
        (["aggregate", "v.csv", "--model", "ds", "--warm-start", "sets"], "which only predict can use"),
        (["agreement", "v.csv", "--multi", "--quiet"], "--quiet is for votes with one label"),
        (["agreement", "v.csv", "--multi", "--scale", "ordinal"], "--scale is for votes with one label"),
        (["agreement", "one.csv", "--multi"], "none of the 1 tasks has two votes"),
    ],
)
def test_what_sets_do_not_have(adjudge, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text(VOTES)
    (tmp_path / "one.csv").write_text("task,worker,label\n1,a,x|y\n")
    adj.aggregate([("t", "a", "x"), ("t", "b", "y")], "ds").save("single")
    adj.aggregate("v.csv", "ds", multi=True).save("sets")
    code, out, err = adjudge(*arguments)
    assert (code, out) == (1, "")
    assert words in err.strip().splitlines()[-1]


def test_agreement_on_every_option(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text(VOTES)
    code, out, _ = adjudge("agreement", tmp_path / "v.csv", "--multi")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()][-3:] == ["x", "y", "z"]
    code, out, _ = adjudge("agreement", tmp_path / "v.csv", "--multi", "--json", "--resamples", 20)
    found = json.loads(out)
    by_hand = [(t, w, o in s.split("|")) for t, w, s in (line.split(",") for line in VOTES.splitlines()[1:]) for o in "y"]
    assert found["y"]["alpha"]["value"] == pytest.approx(float(adj.agreement(by_hand, resamples=0).alpha))
    assert list(found) == ["x", "y", "z"]
