"""Groups of judges in studies: each is what it is of the grouped votes, and model families are proposed, never applied."""

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.io.families import find_families

JUDGES = ["gpt-4o", "gpt-4o-mini", "claude-3-opus", "ann", "bob", "eve"]


def crowd(seed=3):
    """Return votes of six judges on 120 tasks; the second answers as the first does nine times in ten."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 120)
    said = np.where(rng.random((120, 6)) < 0.8, truth[:, None], 1 - truth[:, None])
    said[:, 1] = np.where(rng.random(120) < 0.9, said[:, 0], said[:, 1])
    rows = [(f"t{task}", JUDGES[judge], str(said[task, judge])) for task in range(120) for judge in range(6)]
    votes = pl.DataFrame(rows, schema=["task", "worker", "label"], orient="row")
    return votes, {f"t{task}": str(label) for task, label in enumerate(truth)}


def by_hand(votes):
    """Return the votes as the family would cast them: one vote if both agree, none otherwise."""
    family = votes.filter(pl.col("worker").str.starts_with("gpt")).group_by("task", maintain_order=True).agg("label")
    same = family.filter(pl.col("label").list.n_unique() == 1).select(
        "task", pl.lit("gpt family").alias("worker"), pl.col("label").list.first()
    )
    return pl.concat([votes.filter(~pl.col("worker").str.starts_with("gpt")), same])


@pytest.mark.parametrize("groups", ["families", {"gpt-4o": "gpt family", "gpt-4o-mini": "gpt family"}])
def test_studies_of_groups_are_those_of_their_votes(groups):
    votes, truth = crowd()
    grouped = by_hand(votes)
    one, other = (adj.agreement(v, resamples=20, groups=g) for v, g in ((votes, groups), (grouped, None)))
    assert one.alpha == pytest.approx(float(other.alpha))
    assert sorted(one.workers.ids()) == sorted(other.workers.ids())
    one, other = (
        adj.compare(v, truth=truth, models=["mv", "fds"], resamples=0, groups=g) for v, g in ((votes, groups), (grouped, None))
    )
    assert one.models["accuracy"].to_list() == other.models["accuracy"].to_list()
    one, other = (adj.panel(v, truth=truth, model="mv", subsets=5, groups=g) for v, g in ((votes, groups), (grouped, None)))
    assert sorted(one.workers.ids()) == sorted(other.workers.ids())
    assert one.votes == other.votes
    one, other = (adj.rates(v, groups=g) for v, g in ((votes, groups), (grouped, None)))
    np.testing.assert_allclose(one.rates["share"].to_numpy(), other.rates["share"].to_numpy(), atol=1e-9)


def test_families_need_names_of_models():
    votes = [("t1", "ann", "x"), ("t1", "claude", "y"), ("t2", "claudette", "x"), ("t2", "ann", "x")]
    for call in (adj.agreement, adj.compare, adj.panel, adj.rates, adj.aggregate):
        with pytest.raises(adj.OptionError, match="no two judges of one model family"):
            call(votes, groups="families")
    names = [
        "openai/gpt-4o",
        "o3-mini",
        "gpt-4o-mini-2024-07-18",
        "anthropic:claude-3-5-sonnet",
        "Claude Opus 4",
        "o'neill",
        "phi",
        "llama",
    ]
    assert list(find_families(names)) == [
        "openai/gpt-4o",
        "o3-mini",
        "gpt-4o-mini-2024-07-18",
        "anthropic:claude-3-5-sonnet",
        "Claude Opus 4",
    ]


def comparisons():
    rng = np.random.default_rng(1)
    rows = []
    for prompt in range(40):
        left, right = rng.choice(3, 2, replace=False)
        for judge in ("gpt-4o", "gpt-4.1", "ann"):
            rows.append((str(prompt), f"s{left}", f"s{right}", rng.choice(["left", "right", "tie"]), judge))
    return pl.DataFrame(rows, schema=["prompt", "left", "right", "winner", "judge"], orient="row")


def test_a_group_of_judges_compares_once():
    table = comparisons()
    pairs = table.filter(pl.col("judge") != "ann").group_by("prompt", "left", "right", maintain_order=True).agg("winner")
    same = pairs.filter(pl.col("winner").list.n_unique() == 1).with_columns(
        pl.col("winner").list.first(), judge=pl.lit("gpt family")
    )
    hand = pl.concat([table.filter(pl.col("judge") == "ann"), same.select(table.columns)])
    one, other = adj.rank(table, groups="families", judges=False), adj.rank(hand, judges=False)
    by_item = [dict(r.leaderboard.select("item", "strength").rows()) for r in (one, other)]
    assert by_item[0] == pytest.approx(by_item[1], abs=1e-9)
    assert one.understood.votes == len(table)
    with pytest.raises(adj.OptionError, match="--cluster"):
        adj.rank(table.drop("prompt"), groups="families")
    with pytest.raises(adj.OptionError, match="--worker"):
        adj.rank(table.drop("judge"), groups="families")


def test_the_screen_proposes_families(tmp_path):
    import subprocess
    import sys

    votes, _ = crowd()
    votes.write_csv(tmp_path / "votes.csv")
    comparisons().write_csv(tmp_path / "games.csv")
    (tmp_path / "groups.csv").write_text("worker,group\nann,people\nbob,people\n")

    def screen(*command):
        done = subprocess.run(
            [sys.executable, "-m", "adjudge", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            encoding="utf-8",
        )
        return " ".join((done.stdout + done.stderr).split())

    proposal = "(gpt family: gpt-4o, gpt-4o-mini): --groups families lets each family vote once"
    for command in (
        ["aggregate", "votes.csv", "-o", "labels.csv"],
        ["agreement", "votes.csv", "--resamples", "10"],
        ["panel", "votes.csv", "--model", "mv"],
    ):
        assert proposal in screen(*command), command
        assert "model family" not in screen(*command, "--groups", "families"), command
    assert "model family" not in screen("rates", "votes.csv", "--groups", "groups.csv")
    assert "--groups families" in screen("rank", "games.csv")
