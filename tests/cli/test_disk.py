"""`quorate encode`, and what the other commands make of its folder."""

import polars as pl

import quorate as qr


def test_encode_and_aggregate(quorate, votes_csv, tmp_path):
    code, out, err = quorate("encode", votes_csv, "-o", tmp_path / "votes")
    assert (code, out) == (0, "")
    assert "120 votes on 40 tasks by 6 workers are in" in err
    assert quorate("encode", votes_csv, "-o", tmp_path / "votes", "--quiet", "--memory", "1GB", "--resume") == (0, "", "")
    code, out, _ = quorate("aggregate", tmp_path / "votes", "-o", tmp_path / "labels.csv", "--quiet")
    assert (code, out) == (0, "")
    here = pl.read_csv(tmp_path / "labels.csv").sort("task")
    assert here.drop("confidence").equals(qr.aggregate(votes_csv).labels.sort("task").drop("confidence"))


def test_encode_says_in_one_line_what_is_wrong(quorate, votes_csv, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    for arguments, words in {
        (votes_csv, "-o", tmp_path / "a", "--memory", "1MB"): "memory is '1MB': give at least 286.1 MiB",
        (votes_csv, "-o", tmp_path / "a", "--labels", "l0,,l1"): "joined by commas, none of them empty",
        (votes_csv, "-o", tmp_path / "a", "--labels", "l0"): "is not among the declared labels: l0",
        (votes_csv, "-o", tmp_path / "full"): "exists and holds no encoded votes",
        (tmp_path / "none.csv", "-o", tmp_path / "a"): "cannot read",
        (tmp_path / "full", "-o", tmp_path / "a"): "names no known format",
    }.items():
        code, out, err = quorate("encode", *arguments)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert words in err
