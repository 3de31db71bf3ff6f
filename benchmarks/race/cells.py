"""What is raced over: the shared sets and simulated crowds, as integer codes in files that every environment can read."""

import os
from pathlib import Path

import numpy as np
import polars as pl

import adjudge as adj

PER_TASK = 5
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)  # votes, of 4 labels
LABELS = (2, 16, 100)  # in addition to 4, with 100 thousand votes
QUICK_SIZES, QUICK_LABELS, QUICK_SETS = (1_000, 10_000, 100_000), (2,), ("bm", "sp")


def crowds(quick=False):
    """(name, votes, labels) of the simulated crowds; smaller ones first, so that who is stopped is not asked for more."""
    sizes, labels = (QUICK_SIZES, QUICK_LABELS) if quick else (SIZES, LABELS)
    every = [(votes, 4) for votes in sizes] + [(100_000, k) for k in labels]
    return [(f"{short(votes)} x {k}", votes, k) for votes, k in sorted(every)]


def short(votes):
    """A number of votes in few characters: 10k, 2M."""
    for power, letter in ((6, "M"), (3, "k")):
        if votes >= 10**power:
            return f"{votes / 10**power:.3g}{letter}"
    return str(votes)


def sets(quick=False):
    """Names of the shared sets whose tasks have one label each, smaller ones first; none where ADJUDGE_DATA names no folder."""
    folder = os.environ.get("ADJUDGE_DATA")
    found = sorted(Path(folder).glob("*/votes.csv"), key=lambda path: path.stat().st_size) if folder else []
    names = [path.parent.name for path in found if "_ml" not in path.parent.name]
    return [name for name in names if name in QUICK_SETS] if quick else names


def workers_of(votes):
    """How many workers cast so many votes: 100 each, or more where there would be over 20 thousand of them."""
    return min(max(votes // 100, 10), 20_000)


def simulated(path, votes, labels):
    """Write a crowd of this size."""
    crowd = adj.simulate(tasks=votes // PER_TASK, workers=workers_of(votes), labels=labels, votes_per_task=PER_TASK, seed=1)
    return written(path, crowd.votes, crowd.truth)


def shared(path, name):
    """Write a shared set."""
    folder = Path(os.environ["ADJUDGE_DATA"]) / name
    votes, truth = (pl.read_csv(folder / f"{what}.csv", infer_schema=False) for what in ("votes", "truth"))
    return written(path, votes, truth)


def written(path, votes, truth):
    """Write votes as codes in order of first appearance, and return how many of everything there are."""
    votes = votes.select(pl.col("task", "worker", "label").cast(pl.String)).drop_nulls()
    codes, ids = {}, {}
    for name in votes.columns:
        ids[name] = votes[name].unique(maintain_order=True)
        numbered = pl.DataFrame({name: ids[name], "code": np.arange(len(ids[name]))})
        codes[name] = votes.join(numbered, on=name, how="left", maintain_order="left")["code"].to_numpy()
    known = truth.select(pl.col("task", "label").cast(pl.String)).drop_nulls()
    for name in ("task", "label"):
        numbered = pl.DataFrame({name: ids[name], f"{name} code": np.arange(len(ids[name]))})
        known = known.join(numbered, on=name, how="left" if name == "label" else "inner")
    true = np.full(len(ids["task"]), -1)
    true[known["task code"].to_numpy()] = (
        known["label code"].fill_null(-2).to_numpy()
    )  # true labels that nobody gave: never right
    sizes = {"votes": len(votes), "tasks": len(ids["task"]), "workers": len(ids["worker"]), "labels": len(ids["label"])}
    np.savez(path, **codes, truth=true, sizes=np.array(list(sizes.values())))
    return sizes
