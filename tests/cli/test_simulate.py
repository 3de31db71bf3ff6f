import polars as pl
import pytest

import adjudge as adj


def test_simulate_then_aggregate(adjudge, tmp_path):
    code, out, err = adjudge(
        "simulate", "-o", tmp_path / "crowd", "--tasks", 200, "--workers", 12, "--labels", 4, "--votes-per-task", "3-6",
        "--label-weights", "4,3,2,1", "--seed", 9, "--format", "parquet",
    )  # fmt: skip
    assert (code, out) == (0, "")
    assert "200 tasks by 12 workers" in err.replace("\n", " ")
    expected = adj.simulate(tasks=200, workers=12, labels=4, votes_per_task=(3, 6), label_weights=[4, 3, 2, 1], seed=9)
    assert pl.read_parquet(tmp_path / "crowd" / "votes.parquet").equals(expected.votes)
    assert adjudge("aggregate", tmp_path / "crowd" / "votes.parquet", "--quiet", "-o", tmp_path / "l.csv")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--votes-per-task", "many"], "votes-per-task is 'many'"),
        (["--label-weights", "a,b"], "label-weights is 'a,b'"),
        (["--tasks", "-3"], "tasks is -3"),
        (["--format", "doc"], "names no known format"),
    ],
)
def test_bad_settings(adjudge, tmp_path, arguments, message):
    code, _, err = adjudge("simulate", "-o", tmp_path / "x", "--tasks", 3, *arguments)
    assert (code, err.count("\n")) == (1, 1)
    assert message in err


def test_into_a_file(adjudge, votes_csv):
    code, _, err = adjudge("simulate", "-o", votes_csv)
    assert code == 1
    assert "is a file: name a folder" in err
