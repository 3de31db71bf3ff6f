"""The public door: arrays that callers give are right, or an error that names what is wrong with them."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import adjudge as adj
import adjudge.data.vocabulary
import adjudge.data.votes
from adjudge.data.fit import Knowledge
from adjudge.data.votes import Gold
from adjudge.models.base import MODELS
from adjudge.models.knowledge import Learned
from strategies import crowds

VOTES = adj.read([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat"), ("t2", "bob", "cat"), ("t3", "bob", "dog")])
PARTS = {name: getattr(VOTES, name) for name in ("task_ptr", "row", "worker_ptr", "row_label")}
IDS = {name: getattr(VOTES, name) for name in ("tasks", "workers", "labels", "unvoted")}
LEARNED = adj.aggregate(VOTES).learned()


def not_of_files(check, *arguments, **options):
    assert not any(adjudge.data.vocabulary.is_mapped(a) for a in arguments)
    return check(*arguments, **options)


def array(name, *numbers):
    return np.array(numbers, PARTS[name].dtype)


def built(**changed):
    return adj.Votes(**{**PARTS, **IDS, **changed})


def test_what_read_makes_can_be_made_by_hand():
    for engine in ("reference", "cpu"):
        assert adj.aggregate(built(), engine=engine).labels.equals(adj.aggregate(VOTES, engine=engine).labels)


BAD = [
    ({"row": array("row", 0, 1, 0, 2, 3)}, "row holds 3 at index 4: give numbers from 0 to 2"),
    ({"row": array("row", 0, 1, 0, 2**32 - 1, 2)}, "row holds 4294967295 at index 3"),
    ({"row": array("row", 1, 0, 0, 1, 2)}, "row holds 0 after 1 at index 1: it must be sorted within each part"),
    ({"row": PARTS["row"].astype(np.int64)}, "row holds int64: give a NumPy array of uint32"),
    ({"row": [0, 1, 0, 1, 2]}, "row is .* of type list"),
    ({"row": PARTS["row"][:, None]}, r"row has the shape \[5, 1\]: give \[n\]"),
    ({"row": PARTS["row"][:4]}, "task_ptr ends with 5: it must end with 4"),
    ({"task_ptr": array("task_ptr", 1, 2, 4, 5)}, "task_ptr begins with 1: it must begin with 0"),
    ({"task_ptr": array("task_ptr", 0, -2, 4, 5)}, "task_ptr falls from 0 to -2 at index 1"),
    ({"task_ptr": array("task_ptr", 0, 2, 2, 5)}, "task_ptr stays at 2 at index 2"),
    ({"task_ptr": array("task_ptr", 0, 2, 4, 10**12)}, "task_ptr ends with 1000000000000"),
    ({"task_ptr": array("task_ptr")}, "task_ptr begins with nothing"),
    ({"task_ptr": array("task_ptr", 0, 5)}, "tasks has 3 ids, but task_ptr describes 1"),
    ({"row_label": array("row_label", 0, 0, 2)}, "row_label holds 2 at index 2: give numbers from 0 to 1"),
    ({"row_label": array("row_label", -1, 0, 1)}, "row_label holds -1 at index 0"),
    ({"row_label": array("row_label", 0, 1, 1)}, "row_label holds 1 after 1 at index 2: it must be sorted and distinct"),
    ({"worker_ptr": array("worker_ptr", 0, 4, 3)}, "worker_ptr falls from 4 to 3"),
    ({"worker_ptr": array("worker_ptr", 0, 1, 2**40)}, "worker_ptr ends with 1099511627776: it must end with 3"),
    ({"worker_ptr": array("worker_ptr", 0, 1, 2, 3)}, "workers has 2 ids, but worker_ptr describes 3"),
    ({"worker_ptr": np.array([0.0, 1.0, 3.0])}, "worker_ptr holds float64"),
    ({"tasks": adj.Vocabulary.of(["t1", "t2"])}, "tasks has 2 ids"),
    ({"tasks": adj.Vocabulary.of_texts(["t1", "t2", "t1"])}, "tasks hold 't1' twice, the second time at index 2"),
    ({"tasks": adj.Vocabulary("integer", np.array([4, 4, 5]))}, "tasks hold 4 twice"),
    ({"workers": IDS["workers"].take(np.array([0, 0]))}, "workers hold 'ann' twice"),
    ({"labels": adj.Vocabulary.of(["cat"])}, "row_label holds 1 at index 2: give numbers from 0 to 0"),
    ({"labels": ["cat", "dog"]}, "labels is .* of type list: give a Vocabulary"),
    ({"tasks": None}, "tasks is None of type NoneType: give a Vocabulary"),
    ({"unvoted": adj.Vocabulary.of([1])}, "unvoted holds ids of kind integer, tasks of kind string"),
    ({"frame_kind": "spark"}, "unknown frame_kind 'spark'"),
    ({"duplicates": "error"}, "unknown duplicates 'error'"),
    ({"abstentions": -1}, "abstentions is -1"),
    ({"abstentions": True}, "abstentions is True"),
    ({"abstained": [0, 0]}, "abstained is .* of type list"),
    ({"abstained": np.array([0])}, r"abstained has the shape \[1\]: give \[2\]"),
    ({"abstentions": 2, "abstained": np.array([0, 3])}, "abstained holds 3 at index 1: give numbers from 0 to 2"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_votes_that_cannot_be(changed, message):
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        built(**changed)
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        replace(VOTES, **changed)
    stolen = copy.copy(VOTES)
    vars(stolen).update(changed)
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        pickle.loads(pickle.dumps(stolen))


@given(crowds(), st.sampled_from(sorted(PARTS)), st.integers(0, 50), st.sampled_from([-(2**31), -1, 0, 1, 2, 7, 2**31 - 1]))
def test_a_changed_number_is_refused_or_harmless(rows, name, at, value):
    votes = adj.read(rows)
    changed = getattr(votes, name).copy()
    changed[at % len(changed)] = value if changed.dtype.kind == "i" else value % 2**32
    try:
        other = replace(votes, **{name: changed})
    except adj.InputError:
        return
    for model in (adj.MajorityVote(), adj.FastDawidSkene(tol=10), adj.DawidSkene(tol=10)):
        assert len(model.fit(other, engine="cpu").labels) == other.n_tasks


def test_bytes_in_the_other_order_are_refused():
    with pytest.raises(adj.InputError, match="row holds >u4: give a NumPy array of uint32"):
        built(row=PARTS["row"].astype(">u4"))


def test_a_caller_cannot_change_what_was_checked():
    row = PARTS["row"].copy()
    beside = row[:]  # a view that knows nothing of the copy
    votes = built(row=row)
    row[:] = beside[:] = 2**32 - 1
    assert votes.row.tolist() == VOTES.row.tolist()
    assert row.flags.writeable, "the caller's array stays the caller's"
    ids = np.array([1, 2, 3])
    tasks = adj.Vocabulary("integer", ids)
    ids[0] = 2
    assert tasks.ids() == [1, 2, 3]
    for name in PARTS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(votes, name)[0] = 1


def test_read_only_arrays_are_not_copied():
    assert all(getattr(built(), name) is PARTS[name] for name in PARTS)
    assert replace(VOTES, abstentions=3).row is VOTES.row
    loose = np.empty(10, np.uint32)[:5]
    loose[:] = VOTES.row
    loose.flags.writeable = False  # but what it is a view of can be written to
    assert built(row=loose).row is not loose


def test_arrays_need_not_be_contiguous():
    wide = np.zeros((5, 2), np.uint32)
    wide[:, 0] = VOTES.row
    votes = built(row=wide[:, 0])
    assert votes.row.flags.c_contiguous
    assert adj.aggregate(votes, engine="cpu").labels.equals(adj.aggregate(VOTES).labels)


@pytest.mark.parametrize("again", [lambda votes: pickle.loads(pickle.dumps(votes)), copy.deepcopy, copy.copy])
def test_copies_are_frozen_and_whole(again):
    votes = again(VOTES)
    assert adj.aggregate(votes).labels.equals(adj.aggregate(VOTES).labels)
    for name in PARTS:
        assert not getattr(votes, name).flags.writeable
    for name in IDS:
        assert not getattr(votes, name).values.flags.writeable


def test_votes_in_files_that_callers_map_are_checked(tmp_path):
    np.save(tmp_path / "row.npy", array("row", 0, 1, 0, 1, 9))
    with pytest.raises(adj.InputError, match="row holds 9"):
        built(row=np.load(tmp_path / "row.npy", mmap_mode="r"))
    np.save(tmp_path / "ids.npy", np.frombuffer(b"t1t2t3", np.uint8))
    np.save(tmp_path / "offsets.npy", np.array([0, 2, 4, 99]))
    tasks = adj.Vocabulary("string", *(np.load(tmp_path / f"{n}.npy", mmap_mode="r") for n in ("ids", "offsets")))
    with pytest.raises(adj.InputError, match="the offsets of tasks ends with 99"):
        built(tasks=tasks)


def test_encoded_votes_are_checked_where_they_are_replaced(tmp_path):
    votes = adj.encode(VOTES, tmp_path / "v")
    assert adj.aggregate(replace(votes, frame_kind="pandas"), engine="disk").labels["label"].tolist()
    with pytest.raises(adj.InputError, match="row holds 7"):
        replace(votes, row=array("row", 0, 1, 0, 1, 7))
    with pytest.raises(adj.InputError, match="row_label holds 5"):
        replace(votes, row_label=array("row_label", 0, 0, 5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("string", np.frombuffer(b"ab", np.uint8), np.array([0, 1, 3])), "ends with 3: it must end with 2"),
        (("string", np.frombuffer(b"ab", np.uint8), np.array([1, 2])), "begins with 1"),
        (("string", np.frombuffer(b"ab", np.uint8), np.array([0, 2, 1, 2])), "falls from 2 to 1"),
        (("string", np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2], np.int32)), "offsets holds int32"),
        (("string", np.frombuffer(b"ab", np.uint8)), "offsets is None"),
        (("string", np.frombuffer(b"", np.uint8), np.zeros(0, np.int64)), "offsets are empty"),
        (("string", np.array(["ab"]), np.array([0, 2])), "values holds <U2: give a NumPy array of uint8"),
        (("string", np.array([0xFF], np.uint8), np.array([0, 1])), "not UTF-8"),
        (("string", np.frombuffer("ä".encode(), np.uint8), np.array([0, 1, 2])), "begins within a character"),
        (("integer", np.array([1.5])), "values holds float64"),
        (("integer", np.array([1]), np.array([0, 1])), "leave them out"),
        (("number", np.array([1])), "unknown kind 'number'"),
    ],
)
def test_vocabularies_that_cannot_be(given, message):
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        adj.Vocabulary(*given)


def test_many_ids_are_distinguished_by_hashes():
    texts = [f"{n:x}" * (n % 3) for n in range(1, 3000)]
    distinct = list(dict.fromkeys(texts))
    adj.Vocabulary.of_texts(distinct).require_distinct("ids")
    with pytest.raises(adj.InputError, match="twice"):
        adj.Vocabulary.of_texts([*distinct, distinct[700]]).require_distinct("ids")


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid", "one-coin", "iwmv"])
def test_labels_to_start_with(model):
    fit = MODELS[model]().fit
    wanted = fit(VOTES, start=np.array([0, 0, 1], np.int32)).fit.params.table
    for start in ([0, 0, 1], (0, 0, 1), np.array([0, 0, 1], np.uint8), np.array([0, 9, 0, 9, 1])[::2]):
        assert np.array_equal(fit(VOTES, start=start).fit.params.table, wanted)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (
            np.array([0.5, 1.0, 0.0]),
            r"start is array\(\[0.5, 1. , 0. \]\): give the code of a label, 0 to 1, for each of the 3 tasks",
        ),
        ([0.0, 1.0, 0.0], "as whole numbers"),
        ([True, False, True], "as whole numbers"),
        ([0, 1], "for each of the 3 tasks"),
        ([0, 1, [2]], "for each of the 3 tasks"),
        ("abc", "start is 'abc'"),
        (3, "start is 3"),
        ([0, 1, 2], "start holds 2 at index 2"),
        ([0, -1, 1], "start holds -1 at index 1"),
        (np.array([0, 2**32, 1]), "start holds 4294967296"),
        ([0, 10**30, 1], "as whole numbers"),
        ([[0], [1], [0]], "for each of the 3 tasks"),
    ],
)
def test_what_is_not_a_label_to_start_with(start, message):
    with pytest.raises(adj.OptionError, match=message):
        adj.FastDawidSkene().fit(VOTES, start=start)


def test_an_empty_start():
    empty = {"task": [], "worker": [], "label": []}
    with pytest.raises(adj.OptionError):
        adj.FastDawidSkene().fit(empty, start=[1])
    assert not len(adj.FastDawidSkene().fit(empty, start=[]).labels)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"counts": np.full((3, 2), -1.0)}, "counts holds -1.0 at index 0: give finite numbers of at least 0"),
        ({"counts": np.full((3, 2), np.nan)}, "counts holds nan"),
        ({"counts": np.full((3, 2), 1e308)}, "counts holds 1e.308"),
        ({"counts": np.zeros((2, 2))}, r"counts has the shape \[2, 2\]: give \[3, 2\]"),
        ({"class_counts": np.zeros(3)}, r"class_counts has the shape \[3\]: give \[2\]"),
        ({"row_label": array("row_label", 0, 0, 7)}, "row_label holds 7"),
        ({"worker_ptr": array("worker_ptr", 0, 1, 9)}, "worker_ptr ends with 9"),
    ],
)
def test_knowledge_that_cannot_be(changed, message):
    known = LEARNED.knowledge
    parts = {field.name: getattr(known, field.name) for field in fields(Knowledge)}
    with pytest.raises(adj.InputError, match=message):
        Knowledge(**{**parts, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": np.zeros((2, 2))}, r"table has the shape \[2, 2\]: give \[3, 2\]"),
        ({"table": np.full((3, 2), np.nan)}, "table holds NaN"),
        ({"priors": np.array([1, 0])}, "priors holds int64: give a NumPy array of float64"),
        ({"skill": np.zeros(5)}, "skill has the shape"),
        ({"temperature": 0.0}, "temperature is 0.0"),
        ({"scoring": "coins"}, "unknown scoring 'coins'"),
    ],
)
def test_models_that_cannot_be(changed, message):
    parts = {name: getattr(LEARNED, name) for name in Learned.__dataclass_fields__}
    with pytest.raises((adj.InputError, adj.OptionError), match=message):
        adj.FittedModel(Learned(**{**parts, **changed}))
    with pytest.raises(adj.InputError, match="content is 3"):
        adj.FittedModel(3)


def test_gold_that_cannot_be():
    with pytest.raises(adj.InputError, match=r"labels has the shape \[2\]: give \[1\]"):
        Gold(adj.Vocabulary.of(["t1"]), np.array([0, 1], np.int32))


def test_votes_without_some_workers():
    rows = [
        ("t1", "ann", "x"),
        ("t1", "bob", "y"),
        ("t2", "bob", "x"),
        ("t3", "eve", "z"),
        ("t3", "ann", "x"),
        ("t3", "bob", "x"),
    ]
    votes = adj.read(rows)
    left_out = np.array([name == "bob" for name in votes.workers.texts()])
    left, tasks = votes.without_workers(left_out)
    assert [votes.tasks.texts()[t] for t in tasks] == left.tasks.texts() == ["t1", "t3"]
    worker, task = left.row_worker()[left.row], np.repeat(np.arange(left.n_tasks), np.diff(left.task_ptr))
    names = [ids.texts() for ids in (left.tasks, left.workers, left.labels)]
    got = {(names[0][t], names[1][w], names[2][g]) for t, w, g in zip(task, worker, left.row_label[left.row], strict=True)}
    assert got == {row for row in rows if row[1] != "bob"}
    assert left.labels is votes.labels
    nobody, none = votes.without_workers(np.ones(3, np.bool_))
    assert len(nobody) == len(none) == 0
