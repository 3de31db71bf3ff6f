import json
import re

import polars as pl
import pytest

import adjudge as adj


@pytest.fixture
def panel(tmp_path):
    """A panel of nine judges, three of whom copy one another; returns its folder."""
    adj.simulate(tasks=300, workers=9, votes_per_task=9, colluders=0.34, ring=3, seed=1).write(tmp_path)
    return tmp_path


def test_figures_as_a_table(adjudge, votes_csv):
    code, out, err = adjudge("agreement", votes_csv)
    assert (code, err) == (0, "")
    found = adj.agreement(votes_csv)
    assert out.startswith(f"read {votes_csv} as a table (csv): task=task, worker=worker, label=label; 120 votes\n")
    assert "120 votes on 40 tasks by 6 workers, 3 labels; 40 tasks have two votes or more" in out
    for title, value in found.figures.select("title", "value").rows():
        assert re.search(rf"{title} +{value:.4g} ", out), title
    assert "errors against majority vote" in out
    assert "AC2" not in out
    assert "copy each other" not in out


def test_heat_map_of_a_small_panel_only(adjudge, votes_csv, tmp_path):
    assert "agreement of every two workers" in adjudge("agreement", votes_csv)[1]
    adj.simulate(tasks=50, workers=13, seed=1).votes.write_csv(tmp_path / "more.csv")
    assert "agreement of every two workers" not in adjudge("agreement", tmp_path / "more.csv")[1]


def test_workers_who_share_nothing_have_a_dash(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x\n1,b,x\n2,c,x\n2,d,y\n")
    code, out, _ = adjudge("agreement", tmp_path / "v.csv")
    assert code == 0
    assert re.search(r"a +100% +100% +– +–", out)


def test_a_ring_is_shown_and_warned_about(adjudge, panel):
    code, out, err = adjudge("agreement", panel / "votes.csv", "--truth", panel / "truth.csv")
    assert code == 0
    assert "errors against the truth" in out
    assert "workers who answer alike: copies, errors for the same reason" in out
    assert re.search(r"w0 +w1 +300 ", out)
    assert err.startswith(
        "adjudge: warning: 3 workers seem to copy each other, to err for the same reason, or to know what others do not (3 pairs, 1 ring)"
    )
    assert err.count("\n") == 1


def test_json(adjudge, panel):
    code, out, _ = adjudge("agreement", panel / "votes.csv", "--json", "--resamples", 50, "--seed", 3, "--level", 0.5)
    document = json.loads(out)
    assert code == 0
    assert (document["resamples"], document["level"], document["reference"]) == (50, 0.5, "fds, one vote per ring")
    assert document["rings"] == [["w0", "w1", "w2"]]
    assert document["alpha"]["low"] < document["alpha"]["value"] < document["alpha"]["high"]
    assert document["copying"][0]["worker_a"] == "w0"
    assert document["understood"]["columns"] == {"task": "task", "worker": "worker", "label": "label"}


def test_quiet_prints_alpha(adjudge, votes_csv):
    code, out, _ = adjudge("agreement", votes_csv, "--quiet")
    assert (code, float(out)) == (0, adj.agreement(votes_csv).alpha)


def test_pairs_and_matrix_into_files(adjudge, votes_csv, tmp_path):
    code, _, _ = adjudge("agreement", votes_csv, "--pairs", tmp_path / "pairs.csv", "--matrix", tmp_path / "matrix.parquet")
    assert code == 0
    pairs, matrix = pl.read_csv(tmp_path / "pairs.csv"), pl.read_parquet(tmp_path / "matrix.parquet")
    assert pairs.columns == ["worker_a", "worker_b", "shared", "agreement", "kappa", "pi", "same_wrong", "same_ring"]
    assert len(pairs) == 15
    assert matrix.shape == (6, 7)
    first = pairs.row(0, named=True)
    assert matrix.filter(pl.col("worker") == first["worker_a"])[first["worker_b"]].item() == first["agreement"]


def test_levels_and_labels(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("item,rater,grade\n1,a,poor\n1,b,fair\n2,a,good\n2,b,good\n3,a,poor\n3,b,poor\n")
    arguments = ("agreement", tmp_path / "v.csv", "--scale", "ordinal", "--label", "grade", "--labels", "poor,fair,good")
    code, out, _ = adjudge(*arguments)
    assert code == 0
    assert "Gwet's AC2, quadratic weights" in out
    assert "ordinal labels" in out


def test_repeated_votes_are_told(adjudge, tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n1,a,x\n1,a,y\n1,b,x\n")
    assert "1 votes repeat" in adjudge("agreement", tmp_path / "v.csv")[1]
    assert "votes repeat" not in adjudge("agreement", tmp_path / "v.csv", "--duplicates", "last")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scale", "interval"], "scale 'interval' needs numbers as labels, but 'l0' is none: take scale 'ordinal'"),
        (["--scale", "ratio"], "unknown scale 'ratio'"),
        (["--model", "fdz"], "unknown model 'fdz'"),
        (["--pairs", "x.csv", "--matrix", "x.csv"], "two outputs have the same path"),
        (["--pairs", "no/folder/x.csv"], "does not exist"),
        (["--truth", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_bad_input_is_one_line(adjudge, votes_csv, arguments, message):
    code, out, err = adjudge("agreement", votes_csv, *arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
