import json

import polars as pl

import quorate as qr


def test_sets_from_file_to_file(quorate, tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x|y\n1,b,y\n1,c,y\n2,a,\n2,b,\n")
    (tmp_path / "t.csv").write_text("task,label\n1,y\n2,\n")
    code, out, _ = quorate("aggregate", tmp_path / "v.csv", "--multi", "--model", "mv", "--json", "--truth", tmp_path / "t.csv")
    document = json.loads(out)
    assert code == 0
    assert [row["label"] for row in document["result"]] == [["y"], []]
    assert document["option_accuracy"] == 1.0
    for suffix, value in (("csv", "y"), ("jsonl", ["y"])):
        path = tmp_path / f"l.{suffix}"
        assert quorate("aggregate", tmp_path / "v.csv", "--multi", "--per-option", "-o", path)[0] == 0
        read = pl.read_csv if suffix == "csv" else pl.read_ndjson
        assert read(path)["label"].to_list()[0] == value
        code, out, _ = quorate("evaluate", path, "--truth", tmp_path / "t.csv", "--multi")
        assert code == 0
        assert "exact accuracy" in out
    assert quorate("aggregate", tmp_path / "v.csv", "--multi", "--model", "mv", "--quiet")[1].splitlines()[1].startswith("1,y,")
    assert isinstance(qr.aggregate(tmp_path / "v.csv", multi=True), qr.MultiResult)
