"""Labels joined to the caller's own rows: every kind of frame, files, names, ids and rows without a label."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj
from adjudge.io.columns import REMAINING_COLUMNS, find

JUDGED = {
    "example_id": [7, 7, 7, 8, 8, 9],
    "judge": ["a", "b", "c", "a", "b", "a"],
    "label": ["good", "good", "bad", "bad", "bad", None],
}
NEW = ["consensus", "consensus_confidence", "consensus_votes", "consensus_tie"]
ROWS = {"example_id": [8, 10, 7, 8, 9], "label": ["mine", "is", "kept", "as", "it"]}
FOUND = ["bad", None, "good", "bad", None]


@pytest.fixture
def result():
    with pytest.warns(adj.MissingLabels):
        return adj.aggregate(pd.DataFrame(JUDGED), model="mv")


def test_every_kind_of_frame_comes_back_as_its_own(result):
    votes = [2, None, 3, 2, 0]
    mine = pd.DataFrame(ROWS, index=[5, 5, 3, 2, 1])  # an index that repeats
    joined = result.join(mine)
    assert list(joined.columns) == ["example_id", "label", *NEW]
    assert list(joined.index) == [5, 5, 3, 2, 1]
    assert [None if pd.isna(one) else one for one in joined["consensus"]] == FOUND
    assert [None if pd.isna(one) else one for one in joined["consensus_votes"]] == votes
    assert (joined["consensus_votes"].dtype, joined["consensus_tie"].dtype) == ("Int64", "boolean")
    assert list(joined["label"]) == ROWS["label"]
    assert list(mine.columns) == ["example_id", "label"]  # the caller's frame is as it was
    joined = result.join(pl.DataFrame(ROWS))
    assert isinstance(joined, pl.DataFrame)
    assert joined["consensus"].to_list() == FOUND
    assert joined["consensus_votes"].to_list() == votes
    sure = dict(result.labels[["task", "confidence"]].itertuples(index=False))
    assert joined["consensus_confidence"].to_list() == [sure[8], None, sure[7], sure[8], None]
    assert joined["consensus_tie"].to_list() == [False, None, False, False, False]
    joined = result.join(pa.table(ROWS))
    assert isinstance(joined, pa.Table)
    assert joined.column_names == ["example_id", "label", *NEW]
    assert joined["consensus"].to_pylist() == FOUND
    joined = result.join(pl.LazyFrame(ROWS))
    assert isinstance(joined, pl.LazyFrame)
    assert joined.collect()["consensus"].to_list() == FOUND


def test_columns_named_by_numbers_and_by_levels_of_the_index(result):
    indexed = pd.DataFrame(ROWS).set_index("example_id")
    joined = result.join(indexed)
    assert list(joined.columns) == ["label", *NEW]
    assert joined.index.name == "example_id"
    assert joined["consensus"].iloc[0] == "bad"
    several = pd.DataFrame({**ROWS, "part": 1}).set_index(["part", "example_id"])
    assert list(result.join(several).index.names) == ["part", "example_id"]
    numbered = pd.DataFrame([[8, "x"], [7, "y"]])
    assert list(result.join(numbered, task=0)["consensus"]) == ["bad", "good"]


@pytest.mark.parametrize("ids", [["8", "7"], [8.0, 7.0], pd.Categorical(["8", "7"]), pd.array([8, 7], dtype="Int64")])
def test_ids_meet_as_text(result, ids):
    assert list(result.join(pd.DataFrame({"example_id": ids}))["consensus"]) == ["bad", "good"]


def test_a_missing_id_has_no_label(result):
    assert list(result.join(pd.DataFrame({"example_id": [8.0, None]}))["consensus"].isna()) == [False, True]
    assert result.join(pl.DataFrame({"example_id": [None, "7"]}))["consensus"].to_list() == [None, "good"]
    empty = result.join(pl.DataFrame({"example_id": []}, schema={"example_id": pl.Int64}))
    assert (len(empty), empty.columns) == (0, ["example_id", *NEW])


def test_names_never_clash(result):
    once = result.join(pl.DataFrame(ROWS))
    with pytest.raises(adj.InputError, match="has a column 'consensus' already: .* prefix=…"):
        result.join(once)
    with pytest.raises(adj.InputError, match="'consensus_tie' already"):
        result.join(pl.DataFrame({**ROWS, "consensus_tie": 1}))
    twice = result.join(once, prefix="mv")
    assert twice.columns[-4:] == ["mv", "mv_confidence", "mv_votes", "mv_tie"]
    assert twice["mv"].to_list() == twice["consensus"].to_list()
    assert result.join(pl.DataFrame({"task": [7]}), task="task", prefix="index").columns[1] == "index"
    with pytest.raises(adj.OptionError, match="prefix is ''"):
        result.join(pl.DataFrame(ROWS), prefix="")


def test_the_column_of_the_task(result):
    other = pl.DataFrame({"doc": [7, 8], "number": [1, 2]})
    assert result.join(other, task="doc")["consensus"].to_list() == ["good", "bad"]
    assert result.join(other)["consensus"].to_list() == ["good", "bad"]  # by its usual name
    with pytest.raises(adj.InputError, match="there is no column 'nothing' for the task; the columns are: doc, number"):
        result.join(other, task="nothing")
    with pytest.raises(
        adj.InputError, match=r"no value of the column 'number' is a task .*\(the column has 1, 2; tasks are 7, 8, 9\)"
    ):
        result.join(other, task="number")
    with pytest.raises(adj.InputError, match="no column looks like the task"):
        result.join(pl.DataFrame({"a": [7], "b": [8]}))
    with pytest.raises(adj.InputError, match="give a frame of pandas, polars or pyarrow, or the path of a table"):
        result.join({"task": [7]})
    tuples = adj.aggregate([("x", "a", "l"), ("x", "b", "l")], model="mv")
    assert tuples.join(pl.DataFrame({"task": ["x"]}))["consensus"].to_list() == ["l"]


def test_a_path_is_read_as_a_frame(result, tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("text;task;example_id\n007;z;8\n;y;10\n")
    joined = result.join(path)
    assert joined.columns == ["text", "task", "example_id", *NEW]  # in the order of the file
    assert joined.rows()[0][:4] == ("007", "z", "8", "bad")
    pl.DataFrame(ROWS).write_parquet(tmp_path / "texts.parquet")
    assert result.join(str(tmp_path / "texts.parquet"))["consensus"].to_list() == FOUND
    (tmp_path / "texts.json").write_text('[{"example_id": 8}, {"example_id": "7", "more": {"a": 1}}]')
    assert result.join(tmp_path / "texts.json")["consensus"].to_list() == ["bad", "good"]
    with pytest.raises(adj.InputError, match="nowhere.csv"):
        result.join(tmp_path / "nowhere.csv")


def test_all_columns_in_their_order():
    assert list(find(["b", "task", "a"], {REMAINING_COLUMNS: None}, "x")) == ["b", "task", "a"]


def test_sets():
    votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t1", "eve", ["joy"]), ("t2", "ann", [])]
    sets = adj.aggregate(votes, model="mv", multi=True)
    frame = pd.DataFrame({"task": ["t2", "t1", "t3"]})
    assert [None if one is None else list(one) for one in sets.join(frame)["consensus"]] == [[], ["joy"], None]
    assert sets.join(pl.DataFrame(frame.to_dict("list")))["consensus"].to_list() == [[], ["joy"], None]


def test_labels_keep_their_documented_names(result):
    assert list(result.labels.columns) == ["task", "label", "confidence", "votes", "tie"]


def test_rows_that_are_votes_each_get_the_label_of_their_task(result):
    assert list(result.join(pd.DataFrame(JUDGED))["consensus"].iloc[:5]) == ["good", "good", "good", "bad", "bad"]
