"""Pairs of workers at any size: blocks, tallies, limits; and what callers get of them."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj
from adjudge.evaluation.agreement import agreement, pairs
from adjudge.evaluation.agreement.pairs import KeyCounts


def table(found):
    return found.pairs.sort("worker_a", "worker_b")


@pytest.fixture
def votes(draw):
    """A crowd with repeats and one task that everybody judged often."""
    return draw(1, tasks=40, workers=8) + [("big", f"w{n % 8}", 1 + n % 4) for n in range(60)] + draw(2, tasks=5, workers=8)


@pytest.mark.parametrize("block", [1, 7, 50])
def test_blocks_of_any_size_give_the_same(votes, monkeypatch, block):
    whole = table(adj.agreement(votes))
    monkeypatch.setattr(pairs, "BLOCK_PAIRS", block)
    assert table(adj.agreement(votes)).equals(whole)


def test_sorted_tallies_give_the_same(votes, monkeypatch):
    dense = adj.agreement(votes)
    monkeypatch.setattr(pairs, "MAX_DENSE_KEYS", 0)
    monkeypatch.setattr(pairs, "MAX_PENDING_KEYS", 5)
    monkeypatch.setattr(pairs, "BLOCK_PAIRS", 20)
    sparse = adj.agreement(votes)
    assert table(sparse).equals(table(dense))
    assert (sparse.cohen, sparse.scott) == (dense.cohen, dense.scott)


def test_a_tally_counts_large_keys(monkeypatch):
    monkeypatch.setattr(pairs, "MAX_PENDING_KEYS", 2)
    counting = KeyCounts(1 << 60)
    for keys in ([1 << 59, 3, 3], [5], [3, 1 << 59], []):
        counting.add(np.array(keys, np.int64))
    assert [part.tolist() for part in counting.counts()] == [[3, 5, 1 << 59], [3, 1, 2]]
    empty = KeyCounts(1 << 60)
    assert [part.tolist() for part in empty.counts()] == [[], []]


def test_too_many_pairs_leave_the_other_figures(votes, monkeypatch):
    whole = adj.agreement(votes)
    monkeypatch.setattr(pairs, "MAX_COUNTED_VOTE_PAIRS", 100)
    found = adj.agreement(votes)
    assert "more than 100: look at a sample" in found.without_pairs
    assert math.isnan(found.cohen)
    assert found.alpha == whole.alpha
    assert found.effective_votes == whole.effective_votes
    with pytest.raises(adj.InputError, match="no pairs of workers to show: the tasks have"):
        found.pairs  # noqa: B018
    with pytest.raises(adj.InputError, match="no pairs of workers"):
        found.matrix  # noqa: B018
    json.dumps(found.summary(), allow_nan=False)


def test_too_many_cells_leave_the_other_figures(votes, monkeypatch):
    monkeypatch.setattr(pairs, "MAX_DENSE_KEYS", 0)
    monkeypatch.setattr(pairs, "MAX_PAIR_TABLE_CELLS", 10)
    assert "more than 10 cells: look at a sample" in adj.agreement(votes).without_pairs


def test_pairs_may_be_left_out(votes):
    found = adj.agreement(votes, pairs=False)
    assert found.without_pairs == "pairs=False leaves them out"
    assert found.summary()["pairs"] is None


def test_a_matrix_of_many_workers_is_refused(votes, monkeypatch):
    monkeypatch.setattr(agreement, "MAX_MATRIX_WORKERS", 7)
    found = adj.agreement(votes)
    with pytest.raises(adj.InputError, match="8 workers has 64 cells: use pairs"):
        found.matrix  # noqa: B018
    assert len(found.pairs) == 28


def test_workers_who_share_no_task_have_no_pair():
    found = adj.agreement([(1, "a", "x"), (1, "b", "x"), (2, "b", "y"), (2, "c", "x"), (3, "d", "x")])
    assert found.pairs.select("worker_a", "worker_b", "shared", "agreement").rows() == [("a", "b", 1, 1.0), ("b", "c", 1, 0.0)]
    assert found.matrix.rows() == [
        ("a", 1.0, 1.0, None, None),
        ("b", 1.0, 1.0, 0.0, None),
        ("c", None, 0.0, 1.0, None),
        ("d", None, None, None, 1.0),
    ]


def test_a_worker_called_worker():
    found = adj.agreement([(1, "worker", "x"), (1, "b", "x")])
    assert found.matrix.columns == ["worker", "b", "label worker"]


def test_only_one_worker_who_repeats():
    found = adj.agreement([(1, "a", "x"), (1, "a", "y"), (2, "a", "x")])
    assert (found.repeated_votes, len(found.pairs)) == (1, 0)
    assert math.isnan(found.cohen)
    assert found.percent == 0


def test_frames_are_the_callers_own(votes):
    frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row")
    assert isinstance(adj.agreement(frame.to_pandas()).pairs, pd.DataFrame)
    assert isinstance(adj.agreement(frame.to_arrow()).matrix, pa.Table)
    found = adj.agreement(frame)
    assert isinstance(found.figures, pl.DataFrame)
    assert found.figures["figure"].to_list() == ["percent", "cohen", "scott", "fleiss", "alpha", "ac1"]
    assert isinstance(found.copying, pl.DataFrame)


def test_the_summary_is_plain(votes):
    document = json.loads(json.dumps(adj.agreement(votes, scale="ordinal").summary(), allow_nan=False))
    assert document["votes"] == len(votes)
    assert document["workers"] == 8
    assert document["pairs"] == 28
    assert set(document["ac2_linear"]) == {"value", "low", "high"}
    assert document["rings"] == []
