"""Times of votes: votes that were sent twice count once, and times say which of a worker's votes is the last."""

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
    columns = ["created_at", "submitTime", "timestamp", "lead_time", "completed", "when"]
    assert find_moments(columns) == ["submitTime", "timestamp", "when", "created_at"]


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


CHANGED = pl.DataFrame({
    "task": [1, 1, 1, 2, 2, 2],
    "worker": list("aababa"),
    "label": list("xyyyxz"),
    "answered_at": ["2026-05-02 10:00", "2026-05-01 10:00", "2026-05-01 10:00", "2026-05-03 10:00", "2026-05-03 10:00", "2026-05-03 10:00"],
})  # fmt: skip


def kept(source, rule, **options):
    """Return the label that counts for each task and worker."""
    votes = adj.read(source, duplicates=rule, **options) if not hasattr(source, "task_ptr") else source
    tasks = np.repeat(votes.tasks.ids(), np.diff(votes.task_ptr))
    given = zip(tasks, votes.row_worker()[votes.row], votes.row_label[votes.row], strict=True)
    return {(task, votes.workers[int(w)]): votes.labels[int(label)] for task, w, label in given}


LAST = {(1, "a"): "x", (1, "b"): "y", (2, "a"): "z", (2, "b"): "x"}
FIRST = {(1, "a"): "y", (1, "b"): "y", (2, "a"): "y", (2, "b"): "x"}


@pytest.mark.parametrize(("rule", "wanted"), [("last", LAST), ("first", FIRST)])
def test_times_decide_which_vote_is_the_last(tmp_path, rule, wanted):
    """Equal times are in the order of the input."""
    parsed = CHANGED.with_columns(pl.col("answered_at").str.to_datetime("%Y-%m-%d %H:%M"))
    numbered = parsed.with_columns(pl.col("answered_at").dt.epoch("ms"))
    text = [time.replace(" ", "T") + ":00+02:00" for time in CHANGED["answered_at"]]
    for frame in (
        CHANGED,
        parsed,
        numbered,
        CHANGED.with_columns(answered_at=pl.Series(text)),
        parsed.to_pandas(),
        CHANGED.to_dicts(),
    ):
        assert kept(frame, rule) == wanted
        assert adj.read(frame, duplicates=rule).understood.ordered_by == "answered_at"
    swapped = CHANGED[[1, 0, 2, 3, 4, 5]]
    assert kept(swapped, rule) == wanted
    swapped.write_csv(tmp_path / "votes.csv")
    stored = adj.encode(tmp_path / "votes.csv", tmp_path / "encoded", duplicates=rule)
    assert kept(adj.read(tmp_path / "encoded"), rule) == wanted
    assert str(stored.understood).endswith(f"4 votes, 2 repeated votes (the {rule} by answered_at counts)")
    sets = swapped.filter(pl.col("task") == 1, pl.col("worker") == "a")
    assert adj.aggregate(sets, multi=True, duplicates=rule, model="mv").labels["label"].to_list() == [[wanted[1, "a"]]]
    scores = swapped.with_columns(pl.col("label").replace_strict({"x": 1, "y": 2, "z": 3}))
    assert adj.scores(scores, duplicates=rule).understood.ordered_by == "answered_at"


def test_without_times_the_input_decides():
    bare = CHANGED.drop("answered_at")
    assert kept(bare, "last")[1, "a"] == "y"
    assert str(adj.read(bare, duplicates="last").understood).endswith("2 repeated votes (the last in the input counts)")
    for days in ("2026-05-01", "00:35"):  # no times of day
        assert adj.read(bare.with_columns(date=pl.lit(days)), duplicates="last").understood.ordered_by == ""


def test_times_that_cannot_be_compared_are_reported():
    """Day and month may be either: the order of the input decides, for the whole of a worker's votes on a task."""
    odd = CHANGED.with_columns(when=pl.lit("10/05/2026 13:29")).drop("answered_at")
    with pytest.warns(adj.SuspiciousVotes, match="the times in 'when' cannot be compared for 2 repeated votes"):
        votes = adj.read(odd, duplicates="last")
    assert (kept(votes, "last")[1, "a"], votes.understood.ordered_by) == ("y", "")
    with pytest.raises(adj.InputError, match="cannot be compared"):
        adj.read(odd, duplicates="last", strict=True)
    partly = CHANGED.with_columns(answered_at=pl.Series([*CHANGED["answered_at"][:1], None, *CHANGED["answered_at"][2:]]))
    with pytest.warns(adj.SuspiciousVotes, match="for 1 repeated votes"):
        assert kept(partly, "last")[1, "a"] == "y"


@pytest.mark.parametrize("rule", ["last", "first"])
def test_a_shuffled_log_gives_the_votes_of_the_sorted_one(tmp_path, rule):
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, high, 3000) for name, high in (("task", 40), ("worker", 8), ("label", 3))}
    frame = pl.DataFrame(columns).with_columns(timestamp=pl.Series(1777627800 + rng.permutation(3000)))
    plain = kept(frame.sort("timestamp").drop("timestamp"), rule)
    frame.write_csv(tmp_path / "votes.csv")
    assert kept(tmp_path / "votes.csv", rule) == plain
    adj.encode(tmp_path / "votes.csv", tmp_path / "encoded", duplicates=rule)
    assert kept(adj.read(tmp_path / "encoded"), rule) == plain


def test_when_is_a_time_and_no_rival_of_a_label():
    frame = CHANGED.rename({"answered_at": "when", "label": "category"})
    assert adj.read(frame, duplicates="last").understood.columns["label"] == "category"
    assert kept(frame, "last") == LAST
