"""Workers left out: the same as votes that never were."""

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io.workers import read_workers
from strategies import crowds


def by_task(frame):
    return frame.sort("task").rows()


@st.composite
def crowds_and_excluded_workers(draw):
    """Votes of at least two workers, and some of these workers, but not all."""
    votes = [("t0", "w0", "l0"), *draw(crowds()), ("t1", "w1", "l0")]
    workers = sorted({worker for _, worker, _ in votes})
    return votes, draw(st.sets(st.sampled_from(workers), min_size=1, max_size=len(workers) - 1))


@given(crowds_and_excluded_workers(), st.sampled_from(["mv", "fds", "ds", "auto"]))
def test_leaving_out_equals_votes_that_never_were(crowd, model):
    votes, out = crowd
    left = [vote for vote in votes if vote[1] not in out]
    with_out = adj.aggregate(votes, model=model, confidence="honest", exclude=out)
    alone = adj.aggregate(left, model=model, confidence="honest")
    voted = with_out.labels.drop_nulls("label")
    assert by_task(voted) == by_task(alone.labels)
    assert by_task(with_out.probabilities) == by_task(alone.probabilities)
    assert with_out.workers_frame(trust=False).equals(alone.workers_frame(trust=False))
    assert with_out.votes.labels.ids() == alone.votes.labels.ids()
    silent = {task for task, _, _ in votes} - {task for task, _, _ in left}
    assert set(with_out.votes.unvoted.ids()) == silent
    assert with_out.facts["excluded_workers"] == len(out)
    assert with_out.facts["excluded_votes"] == len(votes) - len(left)


def test_declared_labels_stay():
    votes = [("t", "a", "x"), ("t", "b", "y"), ("u", "a", "x")]
    assert adj.aggregate(votes, model="mv", exclude=["b"]).votes.labels.ids() == ["x"]
    assert adj.aggregate(votes, model="mv", exclude=["b"], labels=["y", "x"]).votes.labels.ids() == ["y", "x"]
    assert adj.aggregate(adj.read(votes), model="mv", exclude=["b"]).votes.labels.ids() == ["x", "y"]


def test_workers_come_as_lists_tables_and_files(tmp_path):
    (tmp_path / "out.txt").write_text("7\n\n 8 \n")
    (tmp_path / "out").write_text("7\n8")
    frame = pl.DataFrame({"judge": [7, 8, 7]})
    frame.write_csv(tmp_path / "out.csv")
    for source in (
        [7, 8],
        ("7", "8"),
        pl.Series([7, 8, 8]),
        pd.Series([7, 8]),
        frame,
        frame.to_pandas(),
        {"worker": ["7", "8"]},
        tmp_path / "out.txt",
        str(tmp_path / "out"),
        tmp_path / "out.csv",
    ):
        assert read_workers(source) == ["7", "8"], type(source)
    assert sorted(read_workers({7, 8})) == ["7", "8"]
    votes = [("t", 7, "x"), ("t", 8, "y"), ("t", 9, "y")]
    assert adj.aggregate(votes, model="mv", exclude={7, 8}).labels.rows() == [("t", "y", 1.0, 1, False)]
    assert adj.aggregate(votes, model="mv", exclude=[]).labels["votes"].to_list() == [3]


@pytest.mark.parametrize(
    ("exclude", "words"),
    [
        (["zoe", "yan"], "exclude names no worker with votes (zoe, yan); there are 2 workers, the first: a, b"),
        (pl.DataFrame({"who": ["a"]}), "no column looks like the excluded worker; call its column 'worker'"),
        ("nowhere.txt", "cannot read nowhere.txt: No such file or directory; exclude takes a list of workers, or a file"),
        (["a", None], "worker is missing in row 2 of exclude"),
        (7, "cannot read from 7"),
    ],
)
def test_bad_lists_are_refused_in_one_line(exclude, words):
    with pytest.raises(adj.InputError) as error:
        adj.aggregate([("t", "a", "x"), ("t", "b", "x")], model="mv", exclude=exclude)
    assert words in str(error.value)


def test_ids_that_match_nobody_are_named():
    with pytest.warns(adj.UnknownWorkers, match="exclude names 1 of 2 workers who have no votes here: zoe"):
        result = adj.aggregate([("t", "a", "x"), ("t", "b", "y")], model="mv", exclude=["a", "zoe"])
    assert result.facts["excluded_workers"] == 1


def test_everybody_left_out_leaves_tasks_without_votes():
    result = adj.aggregate([("t", "a", "x"), ("u", "b", "y")], model="mv", exclude=["a", "b"], labels=["x", "y"])
    assert result.votes.unvoted.ids() == ["t", "u"]
