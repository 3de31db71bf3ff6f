"""Votes of groups, against a plain count per task; and the ways to say who is in which group."""

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import adjudge as adj
from adjudge.io.frames import frame_of
from adjudge.io.workers import group_votes, read_groups
from strategies import crowds


def naive(votes, mapping):
    """(task, voter) -> labels that count, and ties by group: task by task, vote by vote."""
    counted, ties = {}, Counter()
    for task in dict.fromkeys(t for t, _, _ in votes):
        ballots = {}
        for _, worker, label in (v for v in votes if v[0] == task):
            if worker in mapping:
                ballots.setdefault(mapping[worker], []).append(label)
            else:
                counted.setdefault((task, worker), []).append(label)
        for group, labels in ballots.items():
            (best, most), *others = Counter(labels).most_common()
            if others and others[0][1] == most:
                ties[group] += 1
            else:
                counted[task, group] = [best]
    return {key: sorted(labels) for key, labels in counted.items()}, ties


def as_counted(votes):
    out = {}
    for task, worker, label in frame_of(votes).iter_rows():
        out.setdefault((task, worker), []).append(label)
    return {key: sorted(labels) for key, labels in out.items()}


some_groups = st.dictionaries(st.integers(0, 4).map("w{}".format), st.sampled_from(["a", "b", "x y"]))


@given(crowds(max_workers=5), some_groups)
@example([("t0", "w0", "l0"), ("t0", "w1", "l1"), ("t1", "w2", "l0")], {"w0": "a", "w1": "a"})
def test_groups_vote_as_a_plain_count_says(votes, mapping):
    grouping = group_votes(adj.read(votes), mapping, strict=False)
    expected, ties = naive(votes, mapping)
    assert as_counted(grouping.votes) == expected
    assert dict(zip(grouping.groups.ids(), grouping.ties.tolist(), strict=True)) == {
        group: ties[group] for group in sorted({mapping[w] for _, w, _ in votes if w in mapping})
    }
    assert grouping.ties_within == sum(ties.values()) == grouping.votes.abstentions
    voted = {task for task, _ in expected}
    assert set(grouping.votes.tasks.ids()) == voted
    assert set(grouping.votes.unvoted.ids()) == {task for task, _, _ in votes} - voted
    assert grouping.votes.labels.ids() == adj.read(votes).labels.ids()


@given(crowds())
def test_groups_of_one_named_like_their_member_change_nothing(votes):
    read = adj.read(votes, duplicates="last")
    grouped = group_votes(read, {worker: worker for worker in read.workers.ids()}).votes
    for name in ("task_ptr", "row", "worker_ptr", "row_label"):
        assert np.array_equal(getattr(grouped, name), getattr(read, name))
    assert (grouped.tasks.ids(), grouped.workers.ids()) == (read.tasks.ids(), read.workers.ids())
    assert grouped.duplicates == "last"


def test_repeated_votes_of_members_all_count_within_their_group():
    votes = [("t", "ann", "x"), ("t", "ann", "x"), ("t", "bob", "y"), ("t", "eve", "y"), ("t", "eve", "y")]
    mapping = {"ann": "g", "bob": "g"}
    assert as_counted(group_votes(adj.read(votes), mapping).votes) == {("t", "g"): ["x"], ("t", "eve"): ["y", "y"]}


@pytest.mark.parametrize(("duplicates", "label"), [("last", "y"), ("first", "x")])
def test_duplicates_are_dropped_before_groups_vote(duplicates, label):
    votes = [("t", "ann", "x"), ("t", "bob", "x"), ("t", "ann", "y"), ("t", "bob", "y"), ("t", "ann", "y")]
    grouping = group_votes(adj.read(votes, duplicates=duplicates), {"ann": "g", "bob": "g"})
    assert as_counted(grouping.votes) == {("t", "g"): [label]}
    with pytest.raises(adj.InputError, match="'ann' voted more than once on task 't'"):
        adj.aggregate(votes, model="mv", groups={"ann": "g", "bob": "g"}, duplicates="error")


def test_abstentions_add_up_and_unvoted_tasks_are_listed_together():
    votes = [("t1", "ann", None), ("t2", "ann", "x"), ("t2", "bob", "y"), ("t3", "eve", "x")]
    with pytest.warns(adj.MissingLabels):
        read = adj.read(votes)
    grouping = group_votes(read, {"ann": "g", "bob": "g"})
    assert grouping.votes.unvoted.ids() == ["t1", "t2"]
    assert (grouping.votes.abstentions, grouping.ties_within) == (2, 1)


@pytest.mark.parametrize(
    ("groups", "voters"),
    [({1: 7, 2: 7}, [3, 7]), ({1: "seven", 2: "seven"}, ["3", "seven"]), ({1: "10", 2: "10", 3: "9"}, [9, 10])],
)
def test_voters_are_numbers_where_all_are(groups, voters):
    votes = [("t", 1, "x"), ("t", 2, "x"), ("t", 3, "y")]
    assert group_votes(adj.read(votes), read_groups(groups)).votes.workers.ids() == voters


def tables(folder):
    frame = pl.DataFrame({"annotator": ["a", "b", "c", "d"], "team": ["g", "g", None, "h"]})
    frame.write_csv(folder / "groups.csv")
    frame.write_parquet(folder / "groups.parquet")
    (folder / "groups.jsonl").write_text(frame.write_ndjson())
    return [
        {"a": "g", "b": "g", "c": None, "d": "h"},
        frame,
        frame.to_pandas(),
        frame.to_arrow(),
        frame.to_dict(as_series=False),
        frame.rows(),
        folder / "groups.csv",
        str(folder / "groups.parquet"),
        folder / "groups.jsonl",
    ]


def test_groups_come_in_every_kind_of_table(tmp_path):
    for source in tables(tmp_path):
        assert read_groups(source) == {"a": "g", "b": "g", "d": "h"}, type(source)
    assert isinstance(tables(tmp_path)[2], pd.DataFrame)
    assert isinstance(tables(tmp_path)[3], pa.Table)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (pl.DataFrame({"worker": ["a", "a"], "group": ["g", "h"]}), "put worker 'a' into more than one (g, h): keep one"),
        (pl.DataFrame({"worker": ["a"], "kind": ["g"]}), "no column looks like the group; call its column 'group'"),
        (pl.DataFrame({"worker": [None, "a"], "group": ["g", "g"]}), "worker is missing in row 1 of the groups"),
        ({"nobody": "g"}, "groups names no worker with votes (nobody); there are 3 workers, the first: a, b, c"),
        ({"a": "c", "b": "c"}, "'c' is a group and a worker who is in no group: call the group otherwise"),
    ],
)
def test_bad_groups_are_refused_in_one_line(groups, words):
    votes = [("t", "a", "x"), ("t", "b", "x"), ("t", "c", "y")]
    with pytest.raises(adj.InputError) as error:
        adj.aggregate(votes, model="mv", groups=groups)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_members_without_votes_are_named():
    with pytest.warns(adj.UnknownWorkers, match="groups names 1 of 2 workers who have no votes here: typo"):
        adj.aggregate([("t", "a", "x")], model="mv", groups={"a": "g", "typo": "g"})
