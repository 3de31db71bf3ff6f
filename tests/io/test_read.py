"""Any source gives the same votes, and a faulty source one line."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj
from adjudge.io.reading import normalize, normalize_texts

ROWS = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "dog"), ("t3", "cy", "cat")]
FRAME = pl.DataFrame(ROWS, schema=["task", "worker", "label"], orient="row")


def same(a, b):
    return (
        np.array_equal(a.task_ptr, b.task_ptr)
        and np.array_equal(a.row, b.row)
        and np.array_equal(a.worker_ptr, b.worker_ptr)
        and np.array_equal(a.row_label, b.row_label)
        and [v.ids() for v in (a.tasks, a.workers, a.labels)] == [v.ids() for v in (b.tasks, b.workers, b.labels)]
    )


def sources(tmp_path):
    FRAME.write_csv(tmp_path / "v.csv")
    FRAME.write_csv(tmp_path / "v.tsv", separator="\t")
    FRAME.write_ndjson(tmp_path / "v.jsonl")
    FRAME.write_parquet(tmp_path / "v.parquet")
    columns = FRAME.to_dict(as_series=False)
    return {
        "csv": tmp_path / "v.csv",
        "csv as text": str(tmp_path / "v.csv"),
        "tsv": tmp_path / "v.tsv",
        "jsonl": tmp_path / "v.jsonl",
        "parquet": tmp_path / "v.parquet",
        "tuples": ROWS,
        "generator": iter(ROWS),
        "dict": columns,
        "dict of arrays": {k: np.array(v) for k, v in columns.items()},
        "polars": FRAME,
        "polars categorical": FRAME.with_columns(pl.all().cast(pl.Categorical)),
        "pandas": pd.DataFrame(columns),
        "pandas objects": pd.DataFrame(columns).astype(object),
        "pandas categorical": pd.DataFrame(columns).astype("category"),
        "pyarrow": pa.table(columns),
        "pyarrow dictionary": pa.table({k: pa.array(v).dictionary_encode() for k, v in columns.items()}),
    }


def test_every_source_gives_the_same_votes(tmp_path):
    expected = adj.read(ROWS)
    assert expected.labels.ids() == ["cat", "dog"]
    assert expected.workers.ids() == ["ann", "bob", "cy"]
    for name, source in sources(tmp_path).items():
        assert same(adj.read(source), expected), name


def test_frames_come_back_in_the_callers_kind(tmp_path):
    kinds = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.Table, "csv": pl.DataFrame, "tuples": pl.DataFrame}
    for name, kind in kinds.items():
        result = adj.aggregate(sources(tmp_path)[name], model="fds")
        for frame in (result.labels, result.probabilities, result.workers, result.priors, result.trace, result.confusion("ann")):
            assert isinstance(frame, kind)


def test_pandas_without_pyarrow(monkeypatch):
    from adjudge.io import frames

    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    frame = pd.DataFrame(ROWS, columns=["task", "worker", "label"])
    assert same(adj.read(frame), adj.read(ROWS))
    assert adj.aggregate(frame, model="mv").labels["label"].tolist()[1:] == ["dog", "cat"]


@pytest.mark.parametrize(
    "names",
    [
        ("question", "annotator", "answer"),
        ("Item ID", "Rater", "Choice"),
        ("unit", "judge", "vote"),
        ("id", "user_id", "annotation"),
    ],
)
def test_usual_names_are_found(names):
    assert same(adj.read(FRAME.rename(dict(zip(FRAME.columns, names, strict=True)))), adj.read(ROWS))


def test_a_general_id_column_yields_to_a_task_column():
    assert same(adj.read(FRAME.with_row_index("id")), adj.read(ROWS))


def test_columns_can_be_named():
    odd = FRAME.rename({"task": "a", "worker": "b", "label": "c"}).with_columns(task=1, label=2)
    assert same(adj.read(odd, task="a", worker="b", label="c"), adj.read(ROWS))


@pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
def test_integers_booleans_and_floats_that_are_whole():
    votes = adj.read({"task": [10, 9, 10], "worker": [True, False, False], "label": [1.0, 2.0, float("nan")]})
    assert votes.tasks.ids() == [10, 9]
    assert votes.workers.ids() == [False, True]
    assert votes.labels.ids() == [1, 2]


def test_numbers_in_text_files_are_numbers_unless_that_would_lose_something(tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\n7,007,1\n10,08,0\n")
    votes = adj.read(tmp_path / "v.csv")
    assert votes.tasks.ids() == [7, 10]
    assert votes.workers.ids() == ["007", "08"]
    assert votes.labels.ids() == [0, 1]


def test_declared_labels_keep_their_order_and_type(tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\na,b,1\n")
    assert adj.read(tmp_path / "v.csv", labels=["3", "1"]).labels.ids() == ["3", "1"]
    assert adj.aggregate([("a", "b", "1")], labels=[1, 2], model="mv").labels["label"].to_list() == [1]


@pytest.mark.parametrize(("rule", "votes"), [("all", 3), ("last", 2), ("first", 2)])
def test_duplicates(rule, votes):
    rows = [("t", "w", "old"), ("t", "v", "x"), ("t", "w", "new")]
    read = adj.read(rows, duplicates=rule)
    assert len(read) == votes
    assert {"last": "old", "first": "new"}.get(rule, "") not in [read.labels[c] for c in read.row_label]


def test_duplicates_as_an_error():
    with pytest.raises(adj.InputError, match="worker 'w' voted more than once on task 't'"):
        adj.read([("t", "w", "a"), ("t", "w", "a")], duplicates="error")


def test_missing_labels_are_counted_and_warned_about(tmp_path):
    (tmp_path / "v.csv").write_text("task,worker,label\na,w,x\nb,w,\nb,v,\na,u,\n")
    with pytest.warns(adj.MissingLabels, match="3 of 4 votes have no label"):
        votes = adj.read(tmp_path / "v.csv")
    assert votes.abstentions == 3
    assert votes.unvoted.ids() == ["b"]
    assert votes.workers.ids() == ["w"]


def test_missing_numbers_in_pandas_stay_whole_numbers():
    frame = pd.DataFrame({"task": [1, 1, 2], "worker": list("abc"), "label": [5.0, 5.0, None]})
    with pytest.warns(adj.MissingLabels):
        labels = adj.aggregate(frame, model="mv").labels
    assert labels["label"].tolist()[0] == 5
    assert str(labels["label"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([("t", "w")], r"item 1 is \('t', 'w'\): give tuples \(task, worker, label\)"),
        ([("t", "w", "a"), (1, "w", "a")], "task in row 2 is 1 of type int: the previous ids are of type str"),
        ([("t", "w", 1.5)], "label in row 1 is 1.5"),
        ([("t", "w", [1])], "the label column holds lists: these are sets, say multi=True"),
        ([("t", None, "a")], "worker is missing in row 1"),
        ([(2**70, "w", "a")], "beyond 64 bits"),
        ({"task": [1], "worker": [1]}, "no column looks like the label.*the columns are: task, worker"),
        ({"task": [1], "worker": [1], "label": [1], "answer": [1]}, "the label could be any of label, answer"),
        ({"task": [1, 2], "worker": [1], "label": [1]}, "different lengths"),
        ({"task": "abc", "worker": [1], "label": [1]}, "give a sequence of ids"),
        (42, "cannot read from 42"),
        (pl.DataFrame({"task": [[1]], "worker": [1], "label": [1]}), r"the task column holds List"),
        (pl.DataFrame({"task": [2**63], "worker": [1], "label": [1]}, schema_overrides={"task": pl.UInt64}), "beyond 64 bits"),
        (pd.DataFrame({"task": ["a", 1], "worker": [1, 2], "label": [1, 2]}), "task in row 2 is 1 of type int"),
    ],
)
def test_bad_sources_are_named(source, message):
    with pytest.raises(adj.InputError, match=message):
        adj.read(source)


def test_columns_that_are_not_there_or_serve_twice():
    with pytest.raises(adj.InputError, match="there is no column 'nope' for the task; the columns are: task, worker, label"):
        adj.read(FRAME, task="nope")
    with pytest.raises(adj.InputError, match="one column cannot serve two roles"):
        adj.read(FRAME, task="task", worker="task")


@pytest.mark.parametrize("name", ["wide", "normalize", "strict", "header", "predictions"])
def test_flags_are_true_or_false(name):
    """Any other value might be meant as its opposite, like "no"."""
    with pytest.raises(adj.OptionError, match=f"{name} is 'no': give True or False"):
        adj.read([("t", "w", "a")], **{name: "no"})
    assert len(adj.read({"task": ["t"], "worker": ["w"], "label": ["a"]}, normalize=np.bool_(True))) == 1


def test_a_label_outside_the_declared_ones_is_named_with_its_row():
    with pytest.raises(adj.InputError, match="label 'dog' in row 2 is not among the declared labels: cat"):
        adj.read(ROWS, labels=["cat"])
    with pytest.raises(adj.InputError, match="label .dog. in row 3"):
        adj.read([("t", "w", None), ("t", "w", "cat"), ("t", "w", "dog")], labels=["cat"])
    with pytest.raises(adj.InputError, match="listed twice"):
        adj.read(ROWS, labels=["cat", "cat"])


@pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
@pytest.mark.parametrize("kind", [pl.Int64, pl.Boolean, pl.String, pl.Null])
def test_a_file_of_nothing_but_abstentions_fits_with_any_other(tmp_path, kind):
    nobody = pl.DataFrame({"task": ["u"], "worker": ["a"], "label": pl.Series([None], dtype=kind)})
    for labels in ([7, 8], ["x", "y"], [True, False]):
        some = pl.DataFrame({"task": ["t", "t"], "worker": ["a", "b"], "label": labels})
        for order in ((nobody, some), (some, nobody)):
            for n, frame in enumerate(order):
                frame.write_parquet(tmp_path / f"{n}.parquet")
            votes = adj.read([tmp_path / "0.parquet", tmp_path / "1.parquet"])
            assert (votes.labels.ids(), votes.abstentions, votes.n_tasks) == (sorted(labels), 1, 1)
    assert adj.read(nobody, labels=[7]).abstentions == 1


def test_few_labels_are_normalized_like_columns():
    draw = np.random.default_rng(3)
    pieces = ["Cat", " ", "\t", "\x1c", "1", ".0", "-", ".00", "New", "\n", "\x85", "É", "e\u0301", "İ", "\u2003", "７.0"]
    texts = ["".join(draw.choice(pieces, draw.integers(0, 6))) for _ in range(3000)]
    for some in (texts, [text for text in texts if text.isascii()]):
        assert normalize_texts(some) == normalize(pl.Series(some, dtype=pl.String)).to_list()
