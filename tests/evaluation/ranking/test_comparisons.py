"""Comparisons are read from every kind of table, and invalid ones are refused with their row."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj
from adjudge.errors import InputError, MissingLabels
from adjudge.evaluation.ranking.comparisons import read_comparisons

COLUMNS = {"model_a": ["x", "y", "x", "z"], "model_b": ["y", "z", "z", "x"], "winner": ["model_a", "model_b", "tie", "model_a"]}


def scores(source, **options):
    return read_comparisons(source, **options).outcome.tolist()


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table, lambda c: pl.DataFrame(c).lazy()])
def test_every_kind_of_table(make):
    found = read_comparisons(make(COLUMNS))
    assert found.items.ids() == ["x", "y", "z"]
    assert found.outcome.tolist() == [1, 0, 0.5, 1]
    assert (found.left.tolist(), found.right.tolist()) == ([0, 1, 0, 2], [1, 2, 2, 0])
    assert not found.has_judges


def test_results_are_of_the_callers_kind():
    assert isinstance(adj.rank(pd.DataFrame(COLUMNS)).leaderboard, pd.DataFrame)
    assert isinstance(adj.rank(pa.table(COLUMNS)).judges, pa.Table)
    assert isinstance(adj.rank(COLUMNS).neighbours, pl.DataFrame)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files(tmp_path, suffix):
    path = tmp_path / f"battles.{suffix}"
    frame = pl.DataFrame({"item_1": [1, 2, 1], "item_2": [2, 3, 3], "winner": [1, 3, 1], "judge_id": ["j", "k", "j"]})
    getattr(frame, {"csv": "write_csv", "jsonl": "write_ndjson", "parquet": "write_parquet"}[suffix])(path)
    found = read_comparisons(path)
    assert found.items.ids() == [1, 2, 3]
    assert found.judges.ids() == ["j", "k"]
    assert found.outcome.tolist() == [1, 0, 1]
    assert dict(found.understood.columns) == {"left": "item_1", "right": "item_2", "winner": "winner", "judge": "judge_id"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["left", "right", "draw"], [1, 0, 0.5]),
        (["A", "B", "both"], [1, 0, 0.5]),
        (["Model A", "model_b", "tie (bothbad)"], [1, 0, 0.5]),
        (["x", "z", "equal"], [1, 0, 0.5]),
        (["home", "away", "no preference"], [1, 0, 0.5]),  # as the columns are called
    ],
)
def test_words_for_the_winner(words, expected):
    table = {"home": ["x", "y", "z"], "away": ["y", "z", "x"], "winner": words}
    assert scores(table, left="home", right="away") == expected


def test_an_item_may_be_called_like_a_side():
    assert scores([("b", "a", "a"), ("a", "b", "a"), ("a", "b", "tie")]) == [0, 1, 0.5]
    assert scores([("right", "left", "left")]) == [0]


def test_tuples_of_three_and_four_and_numbers():
    found = read_comparisons([(1, 2, 1, "ann"), (2, 10, "tie", "bob"), (10, 1, "right", "ann")][:2])
    assert found.items.ids() == [1, 2, 10]
    assert found.has_judges
    assert found.outcome.tolist() == [1, 0.5]
    assert scores(iter([(1, 2, 2), (1, 2, 1)])) == [0, 1]
    with pytest.raises(InputError, match=r"item 1 is \('a', 'b'\): give tuples"):
        read_comparisons([("a", "b")])
    with pytest.raises(InputError, match=r"item 2 is .* all of one length"):
        read_comparisons([("a", "b", "a"), ("a", "b", "a", "j")])
    assert scores([{"left": "a", "right": "b", "winner": "b"}]) == [0]
    assert scores(np.array([[1, 2, 1], [2, 3, 3]])) == [1, 0]


def test_missing_winners_are_abstentions():
    with pytest.warns(MissingLabels, match="2 of 4 comparisons have no winner: dropped as abstentions"):
        ranking = adj.rank([("a", "b", "a"), ("b", "a", "b"), ("a", "c", None), ("a", "b", "")])
    assert ranking.facts["abstentions"] == 2
    assert ranking.items.ids() == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("a", "b", "a"), ("a", "b", "c")],
            r"winner in row 2 is 'c', which is neither 'a' \(left\) nor 'b' \(right\): give the id",
        ),
        ([("a", "b", "left"), ("a", "b", "up")], "winner in row 2 is 'up'"),
        ([("A", "B", "a"), ("B", "A", "a")], "winner in row 2 is 'a': that may be the item 'A', or the other side; give ids"),
        ([("x", "b", "left"), ("b", "a", "a")], "winner in row 2 is 'a': that may be the item 'a'"),
        (
            [("x", "y", "left"), ("x", "y", "x")],
            "winner in row 2 is 'x', an item, and in row 1 'left', a side: give items throughout",
        ),
        ([("a", "b", "a"), ("a", "a", "a")], "row 2 compares 'a' with itself"),
        ([("a", None, "a")], "right is missing in row 1"),
        ([("a", "b", "a", None)], "worker is missing in row 1"),
        ([], "there are no comparisons to rank"),
        ({"left": ["a"], "winner": ["a"]}, "no column looks like the right; say which with right=…"),
        ({"left": ["a"], "right": ["b"], "winner": ["a"], "judge": ["j"], "rater": ["k"]}, "worker=… .--worker"),
        ({"foo": ["a"], "bar": ["b"], "baz": ["a"]}, "no column looks like the left"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_bad_input_is_one_line(rows, message):
    with pytest.raises(InputError, match=message) as caught:
        adj.rank(rows)
    assert "\n" not in str(caught.value)


def test_a_column_can_be_named():
    table = {"left": ["a", "b"], "right": ["b", "a"], "winner": ["a", "b"], "by": ["j", "k"], "other": ["b", "a"]}
    assert read_comparisons(table, worker="by").judges.ids() == ["j", "k"]
    assert scores(table, winner="other") == [0, 0]
    with pytest.raises(InputError, match="there is no column 'nope' for the winner"):
        read_comparisons(table, winner="nope")


def test_text_without_header(tmp_path):
    (tmp_path / "g.txt").write_text("a;b;a\nb;c;c\n")
    assert scores(tmp_path / "g.txt", left="1", right="2", winner="3", header=False, separator=";") == [1, 0]
    assert scores(tmp_path / "g.txt", header=False) == [1, 0]
    (tmp_path / "g.txt").write_text("a;b;a;ann\nb;c;c;bob\n")
    assert read_comparisons(tmp_path / "g.txt", header=False).judges.ids() == ["ann", "bob"]
    (tmp_path / "g.txt").write_text("a;b\nb;c\n")
    with pytest.raises(InputError, match="the 2 columns without a header .* left=…, right=…, winner=…, worker=…"):
        adj.rank(tmp_path / "g.txt", header=False)


def test_votes_that_compare_lead_to_rank():
    with pytest.raises(InputError, match="or rank them: adj.rank"):
        adj.aggregate(COLUMNS | {"worker": np.array(list("abcd"))})
