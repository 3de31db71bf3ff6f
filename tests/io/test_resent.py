"""Votes that were sent twice: equal in task, worker, label and time, they count once, however they are read."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
from adjudge.io.columns import find_moments

TIMES = ["2026-05-01 09:30:00", "2026-05-01 09:30:00", "2026-05-01 09:30:01", "2026-05-01 09:30:00", None, None]
VOTES = pl.DataFrame({"task": [1, 1, 1, 1, 2, 2], "worker": list("aaabbb"), "label": list("xxxyyy"), "created_at": TIMES})


def counted(source, **reading):
    """Return how many votes count, how many repeat others, and how many were sent twice."""
    understood = adj.read(source, **reading).understood
    return understood.votes, understood.repeated, understood.resent


def test_every_source_agrees(tmp_path):
    parsed = VOTES.with_columns(pl.col("created_at").str.to_datetime())
    epochs = parsed.with_columns(pl.col("created_at").dt.epoch("s"))
    sources = [
        VOTES,
        parsed,
        epochs,
        VOTES.lazy(),
        parsed.to_pandas(),
        VOTES.to_arrow(),
        VOTES.to_dicts(),
        VOTES.to_dict(as_series=False),
    ]
    sources += [parsed.to_dicts(), parsed.to_pandas().astype({"created_at": object}), [parsed[:2], parsed[2:]]]
    for number, frame in enumerate((VOTES, parsed, epochs)):
        for suffix in ("csv", "ndjson", "parquet"):
            path = tmp_path / f"{number}.{suffix}"
            getattr(frame, f"write_{suffix}")(path)
            sources.append(path if suffix != "ndjson" else path.rename(path.with_suffix(".jsonl")))
    for source in sources:
        assert counted(source if not isinstance(source, list) or isinstance(source[0], dict) else iter(source)) == (5, 2, 1)
    path = tmp_path / "0.csv"
    assert adj.encode(path, tmp_path / "encoded").understood.resent == 1
    assert len(adj.encode(path, tmp_path / "split", plan=None, memory="1GB")) == 5
    assert counted([path, path.rename(tmp_path / "again.csv")][1:]) == (5, 2, 1)


def test_only_times_of_day_make_votes_equal(tmp_path):
    """Days, durations and flags do not count as times: all votes count."""
    for name, value in (
        ("date", "2026-05-01"),
        ("time", "00:35"),
        ("time", 12.5),
        ("submitted", True),
        ("lead_time", 1777627800),
    ):
        frame = VOTES.drop("created_at").with_columns(pl.lit(value).alias(name))
        assert counted(frame) == (6, 3, 0), name
        frame.write_csv(tmp_path / "votes.csv")
        assert counted(tmp_path / "votes.csv") == (6, 3, 0), name
    assert counted(VOTES.drop("created_at")) == (6, 3, 0)
    assert find_moments(["created_at", "submitTime", "timestamp", "lead_time", "completed"]) == [
        "created_at",
        "submitTime",
        "timestamp",
    ]


def test_an_odd_column_of_times_harms_nothing():
    for odd in ([1, "x", None, 2.5, b"b", ()], [dt.date(2026, 5, 1)] * 6, [None] * 6, [[1]] * 6):
        frame = VOTES.drop("created_at").to_dict(as_series=False) | {"created_at": odd}
        assert counted(frame) == (6, 3, 0)
        assert counted(pd.DataFrame(frame)) == (6, 3, 0)


def test_weights_and_other_rules():
    """Votes of other weights are others; a rule for repeated votes comes before times."""
    weighted = VOTES.with_columns(sure=pl.Series([1.0, 0.5, 1, 1, 1, 1]))
    assert counted(weighted, weight="sure") == (6, 3, 0)
    assert counted(VOTES, duplicates="last") == (3, 3, 0)


@pytest.mark.parametrize("seed", range(3))
def test_random_votes(tmp_path, seed):
    """Votes in memory and on disk are those of a plain set of lines."""
    rng = np.random.default_rng(seed)
    columns = {name: rng.integers(0, high, 4000) for name, high in (("task", 60), ("worker", 8), ("label", 3))}
    frame = pl.DataFrame(columns).with_columns(timestamp=pl.Series(1777627800 + rng.integers(0, 3, 4000)))
    frame.write_csv(tmp_path / "votes.csv")
    unique = len(frame.unique())
    assert counted(tmp_path / "votes.csv")[::2] == (unique, 4000 - unique)
    stored = adj.encode(tmp_path / "votes.csv", tmp_path / "encoded")
    assert (len(stored), stored.understood.resent) == (unique, 4000 - unique)
    plain = adj.aggregate(frame.unique(maintain_order=True).drop("timestamp"), model="fds").labels.sort("task")
    for source in (frame, tmp_path / "encoded"):
        assert adj.aggregate(source, model="fds").labels.sort("task")["label"].to_list() == plain["label"].to_list()
