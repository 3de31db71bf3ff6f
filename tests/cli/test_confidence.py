"""What the commands print of confidence."""

import json

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def files(adjudge, votes_csv, tmp_path):
    """Labels, probabilities and truth as files."""
    names = {name: tmp_path / f"{name}.csv" for name in ("labels", "probs", "truth")}
    assert (
        adjudge("aggregate", votes_csv, "--model", "ds", "-o", names["labels"], "--probabilities", names["probs"], "--quiet")[0]
        == 0
    )
    return names


def test_evaluate_shows_the_curve(adjudge, files):
    expected = adj.evaluate(files["labels"], files["truth"])
    code, out, _ = adjudge("evaluate", files["labels"], "--truth", files["truth"])
    assert code == 0
    assert "confidence, on 40 tasks" in out
    assert f"expected wrong labels {expected.expected_errors:.4g}" in " ".join(out.split())
    assert "Brier score, label right or not (0 to 1)" in out
    assert "all labels" not in out, "only the confidence is known"
    assert "log loss" not in out
    rows = [line for line in out.splitlines() if "█" in line and "–" in line]
    assert len(rows) == len(expected.reliability)
    for row, (low, high, tasks, _, accuracy) in zip(rows, expected.reliability.rows(), strict=True):
        assert row.split()[:4] == [f"{low:.3f}", "–", f"{high:.3f}", str(tasks)]
        assert row.count("│") == 1
        assert abs(row.count("█") - 30 * accuracy) <= 1.5


def test_evaluate_takes_probabilities(adjudge, files):
    expected = adj.evaluate(files["labels"], files["truth"], probabilities=files["probs"])
    arguments = ["evaluate", files["labels"], "--truth", files["truth"], "--probabilities", files["probs"]]
    assert json.loads(adjudge(*arguments, "--json")[1]) == expected.summary()
    out = " ".join(adjudge(*arguments)[1].split())
    assert f"Brier score, all labels (0 to 2) {expected.brier:.4g}" in out
    assert f"log loss (floor 1e-12) {expected.log_loss:.4g}" in out
    assert float(adjudge(*arguments, "--quiet")[1]) == expected.accuracy


def test_without_confidence_nothing_more_is_printed(adjudge, files, tmp_path):
    pl.read_csv(files["labels"]).select("task", "label").write_csv(tmp_path / "plain.csv")
    out = adjudge("evaluate", tmp_path / "plain.csv", "--truth", files["truth"])[1]
    assert "accuracy" in out
    assert "confidence" not in out


def test_gold_is_reported(adjudge, files, tmp_path):
    frame = pl.read_csv(files["labels"]).with_columns(gold=pl.int_range(40) < 10)
    frame.write_csv(tmp_path / "gold.csv")
    out = adjudge("evaluate", tmp_path / "gold.csv", "--truth", files["truth"])[1]
    assert "10 of these labels were given as gold; accuracy of the others" in out
    assert "confidence, on 30 tasks" in out


def test_aggregate_predicts_and_with_truth_measures(adjudge, votes_csv, tmp_path):
    result = adj.aggregate(votes_csv)
    foretold = f"expected wrong labels {result.expected_errors:.4g}"
    out = tmp_path / "l.csv"
    err = adjudge("aggregate", votes_csv, "-o", out)[2]
    assert foretold in " ".join(err.split())
    assert "█" not in err
    truth = votes_csv.with_name("truth.csv")
    found = adj.evaluate(result, truth)
    err = adjudge("aggregate", votes_csv, "-o", out, "--truth", truth)[2]
    for line in (foretold, f"wrong labels {found.calibration.errors} ", f"log loss {found.log_loss:.4g}"):
        assert line in " ".join(err.split())
    assert "expected among these" not in err
    assert "█" in err
    pl.read_csv(truth).head(7).write_csv(tmp_path / "some.csv")
    document = json.loads(adjudge("aggregate", votes_csv, "--json", "--truth", tmp_path / "some.csv")[1])
    some = adj.evaluate(result, tmp_path / "some.csv")
    assert document["expected_wrong_labels"] == pytest.approx(result.expected_errors)
    assert document["expected_among_these"] == pytest.approx(some.expected_errors)
    assert document["evaluation"]["reliability"] == some.summary()["reliability"]
    (tmp_path / "none.csv").write_text("task,label\nnowhere,l0\n")
    code, _, err = adjudge("aggregate", votes_csv, "--json", "--truth", tmp_path / "none.csv")
    assert code == 1
    assert "none of the 1 tasks of the truth has labels" in err


def test_bad_confidence_is_one_line(adjudge, files, tmp_path):
    (tmp_path / "bad.csv").write_text("task,label,confidence\nt1,l0,90%\n")
    code, out, err = adjudge("evaluate", tmp_path / "bad.csv", "--truth", files["truth"])
    assert (code, out) == (1, "")
    assert err == "adjudge: the confidence of task 't1' is '90%': give a number from 0 to 1\n"
