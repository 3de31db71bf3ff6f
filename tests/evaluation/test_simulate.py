"""Simulated crowds are what they say, the same at any size, and stream into files."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.evaluation import simulate as draw


def accuracy(crowd):
    both = crowd.votes.join(crowd.truth, on="task", suffix="_true")
    return both.group_by("worker").agg((pl.col("label") == pl.col("label_true")).mean().alias("right"), pl.len())


def test_votes_follow_the_confusions():
    crowd = adj.simulate(tasks=20_000, workers=8, labels=3, votes_per_task=4, skill=0.7, seed=2)
    both = crowd.votes.join(crowd.truth, on="task", suffix="_true")
    for n, worker in enumerate(crowd.worker_names):
        mine = both.filter(worker=worker)
        for true in range(3):
            given = mine.filter(label_true=f"l{true}")["label"].value_counts(normalize=True)
            shares = dict(given.iter_rows())
            for label in range(3):
                assert shares.get(f"l{label}", 0.0) == pytest.approx(crowd.confusions[n, true, label], abs=0.03)


def test_the_same_seed_draws_the_same_votes_and_another_one_others():
    one, two, other = (adj.simulate(tasks=50, seed=s).votes for s in (1, 1, 2))
    assert one.equals(two)
    assert not one.equals(other)


def test_a_worker_sits_once_in_a_panel_and_panels_have_their_size():
    crowd = adj.simulate(tasks=300, workers=9, votes_per_task=(2, 8), power=2.0, seed=3)
    assert not crowd.votes.select("task", "worker").is_duplicated().any()
    sizes = crowd.votes.group_by("task").len()["len"]
    assert (sizes.min(), sizes.max()) == (2, 8)
    full = adj.simulate(tasks=10, workers=3, votes_per_task=7)
    assert full.votes.group_by("task").len()["len"].to_list() == [3] * 10


def test_kinds_of_workers():
    crowd = adj.simulate(tasks=6000, workers=20, labels=3, spammers=0.2, adversaries=0.2, colluders=0.3, ring=3, seed=4)
    kinds = crowd.workers.group_by("kind").len().sort("kind").rows()
    assert kinds == [("adversary", 4), ("colluder", 6), ("ordinary", 6), ("spammer", 4)]
    right = accuracy(crowd).join(crowd.workers, on="worker").group_by("kind").agg(pl.col("right").mean())
    by_kind = dict(right.iter_rows())
    assert by_kind["adversary"] < 0.2
    assert 0.2 < by_kind["spammer"] < 0.45
    assert by_kind["ordinary"] > 0.6


def test_colluders_give_one_answer_per_ring():
    crowd = adj.simulate(tasks=2000, workers=12, labels=4, colluders=0.5, ring=3, votes_per_task=8, skill=0.5, seed=5)
    rings = crowd.votes.join(crowd.workers.filter(kind="colluder"), on="worker").group_by("task", "copies")
    assert (rings.agg(pl.col("label").n_unique())["label"] == 1).all()
    assert len(crowd.workers.filter(kind="colluder")["copies"].unique()) == 2


def test_power_label_weights_and_repeats():
    crowd = adj.simulate(tasks=5000, workers=100, labels=2, power=1.0, label_weights=[9, 1], repeats=0.2, seed=6)
    votes = crowd.votes.group_by("worker").len().sort("len", descending=True)["len"]
    assert votes[0] > 5 * votes[50]
    assert crowd.truth["label"].value_counts(normalize=True).filter(label="l0")["proportion"][0] == pytest.approx(0.9, abs=0.02)
    assert len(crowd.votes) == pytest.approx(5000 * 5 * 1.2, rel=0.02)
    assert crowd.votes.select("task", "worker").is_duplicated().any()


def test_skill_spread_zero_and_one_label():
    assert np.allclose(np.diagonal(adj.simulate(skill_spread=0.0).confusions, axis1=1, axis2=2), 0.75)
    assert adj.simulate(labels=1, tasks=5).votes["label"].unique().to_list() == ["l0"]
    assert adj.simulate(tasks=0).votes.is_empty()
    assert adj.simulate(tasks=0).truth.is_empty()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_files_hold_what_the_frames_do(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(draw, "TASKS_PER_BLOCK", 100)
    monkeypatch.setattr("adjudge.evaluation.simulate.TASKS_PER_BLOCK", 100)
    crowd = adj.simulate(tasks=450, workers=30, seed=7)
    seen = []
    crowd.write(tmp_path, suffix, lambda name, rows: seen.append((name, rows)))
    assert sum(rows for name, rows in seen if name == "votes") == 450 * 5
    read = {"csv": pl.read_csv, "parquet": pl.read_parquet, "jsonl": pl.read_ndjson}.get(
        suffix, lambda p: pl.read_csv(p, separator="\t")
    )
    assert read(tmp_path / f"votes.{suffix}").equals(crowd.votes)
    assert read(tmp_path / f"truth.{suffix}").equals(crowd.truth)
    assert read(tmp_path / f"workers.{suffix}")["kind"].to_list() == ["ordinary"] * 30
    confusion = read(tmp_path / f"confusions.{suffix}")
    assert confusion["probability"].to_numpy() == pytest.approx(crowd.confusions.ravel())
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f"{n}.{suffix}" for n in ("votes", "truth", "workers", "confusions")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": -1}, "tasks is -1: give a whole number of at least 0"),
        ({"skill": 1.5}, "skill is 1.5: give a number of at least 0 and at most 1"),
        ({"votes_per_task": 0}, "votes_per_task is 0"),
        ({"votes_per_task": (5, 3)}, r"votes_per_task is \(5, 3\)"),
        ({"label_weights": [1]}, "label_weights is .1.: give 3 weights"),
        ({"spammers": 0.6, "adversaries": 0.6}, "together at most 1"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(adj.OptionError, match=message):
        adj.simulate(**options)


def test_into_no_folder(tmp_path):
    with pytest.raises(adj.InputError, match="there is no such folder"):
        adj.simulate(tasks=1).write(tmp_path / "nope")
