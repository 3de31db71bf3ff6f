"""Votes of every shape that Python has: the same votes from all of them, on memory and on disk."""

import io
import pickle
import uuid
from datetime import date, datetime

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj
from adjudge.io.frames import frame_of

VOTES = [("t1", "ann", "x"), ("t1", "bob", "y"), ("t2", "ann", "y"), ("t2", "bob", "y")]
FRAME = pl.DataFrame(VOTES, schema=["item", "judge", "score"], orient="row")
PANDAS = FRAME.to_pandas()
WIDE = pd.DataFrame({"item": ["t1", "t2"], "ann": ["x", "y"], "bob": ["y", "y"]})
CSV = FRAME.write_csv()


def triples(votes):
    return sorted(frame_of(votes).rows())


SHAPES = {
    "list of dicts": (FRAME.to_dicts(), "records"),
    "iterator of dicts": (iter(FRAME.to_dicts()), "records"),
    "record array": (PANDAS.to_records(index=False), "NumPy array"),
    "array of text": (np.array(VOTES), "NumPy array"),
    "array of objects": (np.array(VOTES, object), "NumPy array"),
    "LazyFrame": (FRAME.lazy(), "polars frame"),
    "named index": (PANDAS.set_index("item"), "pandas frame"),
    "two named index levels": (PANDAS.set_index(["judge", "item"]), "pandas frame"),
    "series by task and worker": (PANDAS.set_index(["item", "judge"])["score"], "pandas series"),
    "series with levels turned": (
        PANDAS.rename(columns={"item": "task", "judge": "worker"}).set_index(["worker", "task"])["score"],
        "pandas series",
    ),
    "StringIO": (io.StringIO(CSV), "table (csv)"),
    "BytesIO": (io.BytesIO(CSV.encode()), "table (csv)"),
    "BytesIO of Parquet": (io.BytesIO(), "table (parquet)"),
    "StringIO with semicolons": (io.StringIO(CSV.replace(",", ";")), "table (csv, separated by ';')"),
    "list of lists": ([list(vote) for vote in VOTES], "tuples"),
}
FRAME.write_parquet(SHAPES["BytesIO of Parquet"][0])


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    source, form = SHAPES[name]
    if hasattr(source, "seek"):
        source.seek(0)
    found = adj.read(source)
    assert triples(found) == VOTES
    assert found.understood.format == form
    if form not in ("tuples", "pandas series", "NumPy array"):
        assert found.understood.columns == {"task": "item", "worker": "judge", "label": "score"}


def test_open_files(tmp_path):
    path = tmp_path / "votes.tsv"
    path.write_text(CSV.replace(",", "\t"))
    for mode in ("r", "rb"):
        with path.open(mode) as file:
            assert triples(adj.read(file)) == VOTES
    with path.open() as file:
        file.read()
        with pytest.raises(adj.InputError, match="votes.tsv is empty"):
            adj.read(file)


WIDES = {
    "pandas": WIDE,
    "pandas by its index": WIDE.set_index("item"),
    "polars": pl.DataFrame(WIDE),
    "lazy": pl.LazyFrame(WIDE),
    "pyarrow": pa.Table.from_pandas(WIDE),
    "dict of columns": WIDE.to_dict("list"),
    "records": WIDE.to_dict("records"),
}


@pytest.mark.parametrize("name", WIDES)
def test_wide(name, tmp_path):
    found = adj.read(WIDES[name], wide=True)
    assert triples(found) == VOTES
    assert found.understood.format.startswith("wide ")
    assert found.understood.columns == {"task": "item", "workers": "ann, bob"}
    assert triples(adj.encode(WIDES[name], tmp_path / "votes", wide=True)) == VOTES


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.float64, object])
def test_matrices(kind):
    matrix = np.array([[0, 1, -1], [1, 1, 0]], kind)
    found = adj.read(matrix, wide=True, abstain=-1)  # abstentions that are named are expected
    assert triples(found) == [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1), (1, 2, 0)]
    assert found.understood.abstentions == 1
    assert triples(adj.read(matrix.tolist(), wide=True, abstain=[-1])) == triples(found)


LINES = pl.DataFrame({"lf_1": [0, None, 1], "lf_2": [1, None, 1], "lf_3": [None, None, 0]})
NUMBERED = [(0, "lf_1", 0), (0, "lf_2", 1), (2, "lf_1", 1), (2, "lf_2", 1), (2, "lf_3", 0)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "polars", "lazy", "dict of columns", "records", "batches"])
@pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
def test_lines_without_a_name_are_called_by_their_numbers(kind, tmp_path):
    path = tmp_path / f"lines.{kind}"
    if kind in ("csv", "parquet"):
        getattr(LINES, f"write_{kind}")(path)
    sources = {
        "polars": LINES,
        "lazy": LINES.lazy(),
        "dict of columns": LINES.to_dict(as_series=False),
        "records": LINES.rows(named=True),
        "batches": LINES.iter_slices(2),
    }
    source = sources.get(kind, path)
    if kind != "batches":
        with pytest.raises(adj.InputError, match=r"looks like one column per worker \(lf_1, lf_2, lf_3\): say wide=True"):
            adj.read(source)
        with pytest.raises(adj.InputError, match=r"where lines have no name: task='' \(--task ''\) calls them by their numbers"):
            adj.read(source, wide=True)
    found = adj.read(source, wide=True, task="")
    assert triples(found) == NUMBERED
    assert found.understood.columns == {"task": "row", "workers": "lf_1, lf_2, lf_3"}


def test_a_file_that_is_a_matrix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "matrix.csv").write_text("0,1,-1,0\n1,1,0,-1\n")
    for options, message in (
        ({}, r"the column '0' occurs twice in the header: rename one of them; .*header=False \(--no-header\)"),
        (
            {"header": False},
            r"say which with task=…, worker=…, label=…; where there is one column per worker: wide=True \(--wide\)",
        ),
        ({"header": False, "wide": True}, r"task='' \(--task ''\) calls them by their numbers"),
    ):
        with pytest.raises(adj.InputError, match=message):
            adj.read("matrix.csv", **options)
    found = adj.read("matrix.csv", header=False, wide=True, task="", abstain=-1)
    assert triples(found) == [(0, 1, 0), (0, 2, 1), (0, 4, 0), (1, 1, 1), (1, 2, 1), (1, 3, 0)]
    with pytest.raises(adj.OptionError, match="numbers of their lines, which several files have in common"):
        adj.read(["matrix.csv", "matrix.csv"], header=False, wide=True, task="")
    with pytest.raises(adj.InputError, match=r"no column looks like the task.*where there is one column per worker: wide=True"):
        adj.read(pl.DataFrame({str(n): [n, 1] for n in range(5)}))


def test_tables_that_have_no_tasks_get_none(tmp_path):
    (tmp_path / "workers.csv").write_text("worker\nbob\n")
    result = adj.aggregate(VOTES, exclude=tmp_path / "workers.csv", model="mv")
    assert result.workers["worker"].to_list() == ["ann"]


def test_cells_without_a_vote():
    matrix = np.array([[0, np.nan, 1], [np.nan] * 3])
    with pytest.warns(adj.MissingLabels, match="1 of 3"):
        found = adj.read(matrix, wide=True)
    assert triples(found) == [(0, 0, 0), (0, 2, 1)]
    assert found.unvoted.ids() == [1]
    masked = np.ma.masked_array([[0, 5, 1]], [[False, True, False]])
    assert triples(adj.read(masked, wide=True)) == [(0, 0, 0), (0, 2, 1)]


def test_cells_of_several_types():
    frame = pl.DataFrame({"item": [1, 2], "judge_1": [1, 2], "judge_2": ["1", "x"]})
    assert triples(adj.read(frame, wide=True)) == [
        (1, "judge_1", "1"),
        (1, "judge_2", "1"),
        (2, "judge_1", "2"),
        (2, "judge_2", "x"),
    ]


@pytest.mark.parametrize(("source", "message"), [
    (np.zeros((9, 5)), r"the array is 9 x 5: give lines of task, worker, label, or say wide=True"),
    (np.zeros(9), r"the array has 1 dimensions"),
    (np.random.default_rng(0).integers(0, 3, (60, 3)), r"60 x 3, and most of its lines repeat their first two numbers: say wide=True"),
    ([[1, 2, 3, 4]], r"give tuples \(task, worker, label\); where each item is a task and has a label per worker: wide=True"),
    ([{"task": 1, "worker": 2, "label": 3}, (1, 2, 3)], r"item 2 is \(1, 2, 3\): the items before are dicts"),
    (PANDAS["score"], r"has 1 index level: give one for each of task, worker"),
    (pd.DataFrame([[1, 2, 3, 4]], columns=["task", "worker", "label", "label"]), r"the column 'label' occurs twice in the frame"),
    ([("t", "w", ["x"])], r"these are sets, say multi=True"),
    ([("t", "w", b"\xff")], r"label in row 1 is b'\\xff', bytes that are not UTF-8"),
])  # fmt: skip
def test_refused(source, message):
    with pytest.raises(adj.InputError, match=message):
        adj.read(source)


@pytest.mark.parametrize(("options", "message"), [
    ({"wide": True, "count": "n"}, "wide=True and count=… do not go together"),
    ({"wide": True, "label": "score"}, "with wide=True the labels are the cells"),
    ({"separator": ";;"}, "separator is ';;': give one character"),
    ({"separator": ";"}, "separator, encoding and header are for text files"),
    ({"header": False}, "separator, encoding and header are for text files"),
    ({"count": "nope"}, "there is no column 'nope' for the count"),
    ({"count": 3}, "count is 3: name the column"),
    ({"abstain": object()}, "abstain is"),
    ({"normalize": True, "labels": ["x", "X "]}, "labels name 'X ' in two spellings"),
])  # fmt: skip
def test_options_without_sense(options, message):
    with pytest.raises((adj.OptionError, adj.InputError), match=message):
        adj.read(FRAME, **options)


def test_votes_are_not_read_twice():
    with pytest.raises(adj.OptionError, match="already been read"):
        adj.aggregate(adj.read(FRAME), wide=True)


@pytest.mark.parametrize("kind", [
    [datetime(2024, 5, 1, 9, 30), datetime(2024, 5, 1, 9, 30), datetime(2024, 5, 2), datetime(2024, 5, 2)],
    [date(2024, 5, 1), date(2024, 5, 1), date(2024, 5, 2), date(2024, 5, 2)],
    [uuid.UUID(int=n // 2) for n in range(4)],
    [b"one", b"one", b"two", b"two"],
])  # fmt: skip
def test_ids_of_other_types_are_text(kind):
    """The text is Python's own, from tuples, pandas and polars alike."""
    wanted = [
        kind[0].decode() if isinstance(kind[0], bytes) else str(kind[0]),
        kind[2].decode() if isinstance(kind[2], bytes) else str(kind[2]),
    ]
    rows = [(task, worker, label) for task, (_, worker, label) in zip(kind, VOTES, strict=True)]
    columns = {"task": kind, "worker": [v[1] for v in VOTES], "label": [v[2] for v in VOTES]}
    sources = [
        rows,
        columns,
        pd.DataFrame(columns),
        pl.DataFrame({**columns, "task": pl.Series(kind)}),
        [dict(zip(columns, row, strict=True)) for row in rows],
    ]
    for source in sources:
        assert adj.read(source).tasks.ids() == wanted


def scales():
    codes, names = [0, 1, 1, 1], ["y", "x", "z"]
    texts = [names[n] for n in codes]
    columns = {"task": [v[0] for v in VOTES], "worker": [v[1] for v in VOTES]}
    features = datasets.Features(
        {"task": datasets.Value("string"), "worker": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    return {
        "pandas": pd.DataFrame({**columns, "label": pd.Categorical(texts, names, ordered=True)}),
        "polars": pl.DataFrame({**columns, "label": pl.Series(texts, dtype=pl.Enum(names))}),
        "pyarrow": pa.table({**columns, "label": pa.DictionaryArray.from_arrays(pa.array(codes), names, ordered=True)}),
        "Hugging Face": datasets.Dataset.from_dict({**columns, "label": codes}, features=features),
        "batches": iter([pl.DataFrame({**columns, "label": pl.Series(texts, dtype=pl.Enum(names))})] * 1),
    }


@pytest.mark.parametrize("name", scales())
def test_ordered_types_keep_their_names_and_order(name, tmp_path):
    assert adj.read(scales()[name]).labels.ids() == ["y", "x", "z"]
    assert adj.encode(scales()[name], tmp_path / "votes").labels.ids() == ["y", "x", "z"]
    assert adj.read(scales()[name], labels=["z", "y", "x"]).labels.ids() == ["z", "y", "x"]


def test_other_categories_are_sorted():
    frame = pd.DataFrame({"task": [1, 1], "worker": [1, 2], "label": pd.Categorical(["b", "a"], ["b", "a", "c"])})
    assert adj.read(frame).labels.ids() == ["a", "b"]


def test_missing_class_labels():
    features = datasets.Features(
        {c: datasets.Value("int64") for c in ("task", "worker")} | {"label": datasets.ClassLabel(names=["no", "yes"])}
    )
    found = datasets.Dataset.from_dict({"task": [1, 1], "worker": [1, 2], "label": [1, -1]}, features=features)
    with pytest.warns(adj.MissingLabels):
        assert triples(adj.read(found)) == [(1, 1, "yes")]


def test_series_are_truth_and_gold():
    result = adj.aggregate(VOTES * 5, model="mv", duplicates="last")
    truth = pd.Series({"t1": "x", "t2": "y"}, name="answer")
    assert adj.evaluate(result, truth).tasks == 2
    assert adj.aggregate(VOTES, gold=truth).labels["label"].to_list() == ["x", "y"]


@pytest.mark.parametrize("engine", ["cpu", "disk", "reference"])
@pytest.mark.parametrize(("source", "options"), [
    (WIDE, {"wide": True}),
    ({"item": ["a", "a"], "worker": ["u", "v"], "label": ["x", "y"], "n": [3, 1]}, {"count": "n"}),
    ([("t", "ann", "Yes"), ("t", "bob", " yes"), ("t", "eve", "NA"), ("u", "ann", "no")], {"normalize": True, "abstain": ["NA"]}),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::adjudge.MissingLabels")
def test_engines_read_alike(engine, source, options):
    wanted = adj.read(source, **options)
    found = adj.aggregate(source, model="fds", engine=engine, **options)
    assert triples(found.votes) == triples(wanted)
    assert found.understood == wanted.understood


def test_what_was_understood_travels(tmp_path):
    found = adj.read(FRAME)
    for same in (
        pickle.loads(pickle.dumps(found)),
        adj.aggregate(found, groups={"ann": "g"}).votes,
        adj.aggregate(found, exclude=["bob"]).votes,
    ):
        assert same.understood == found.understood
    encoded = adj.encode(FRAME, tmp_path / "votes")
    assert encoded.understood == found.understood
    opened = adj.read(tmp_path / "votes").understood
    assert (opened.format, opened.votes, opened.repeated) == ("encoded votes", 4, -1)
    with pytest.raises(adj.InputError, match="understood is 3"):
        adj.Votes(
            **{
                name: getattr(found, name)
                for name in ("task_ptr", "row", "worker_ptr", "row_label", "tasks", "workers", "labels", "unvoted")
            },
            understood=3,
        )


def test_wide_files_are_resumed(tmp_path, monkeypatch):
    """A line of a wide table is several votes: rows that were taken are skipped as votes, not as lines."""
    from adjudge.io import files
    from adjudge.io.reading import Reading

    path = tmp_path / "wide.csv"
    path.write_text("item,judge_1,judge_2\n" + "".join(f"t{n},x,{'y' if n % 3 else ''}\n" for n in range(50)))
    whole = pl.concat(files.batches(path, dict.fromkeys(("task", "worker", "label")), reading=Reading(wide=True)))
    for skip in (1, 17, len(whole) - 1):
        rest = pl.concat(files.batches(path, dict.fromkeys(("task", "worker", "label")), reading=Reading(wide=True), skip=skip))
        assert rest.equals(whole[skip:])


def spreadsheet(path, rows):
    """The least that a spreadsheet needs to have."""
    import zipfile

    main, kinds = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/package/2006"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    cells = [
        [f'<c t="inlineStr"><is><t>{v}</t></is></c>' if isinstance(v, str) else f"<c><v>{v}</v></c>" for v in row] for row in rows
    ]
    sheet = "".join(f"<row>{''.join(row)}</row>" for row in cells)
    link = (
        f'<Relationships xmlns="{kinds}/relationships"><Relationship Id="r1" Type="{office}/{{}}" Target="{{}}"/></Relationships>'
    )
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{kinds}/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": link.format("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": link.format("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def test_spreadsheets(tmp_path):
    pytest.importorskip("fastexcel")
    path = tmp_path / "votes.xlsx"
    spreadsheet(path, [["item", "judge", "score"], [1, "ann", "x"], [1, "bob", "y"]])
    found = adj.read(path)
    assert triples(found) == [(1, "ann", "x"), (1, "bob", "y")]
    assert found.understood.format == "table (xlsx)"
    with path.open("rb") as file:
        assert triples(adj.read(file)) == triples(found)
    spreadsheet(path, [[1, "ann", "x"], [1, "bob", "y"]])
    assert triples(adj.read(path, header=False)) == triples(found)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(adj.InputError, match="it is no spreadsheet"):
        adj.read(path)


def test_predict_and_agreement_read_as_aggregate_does(tmp_path):
    result = adj.aggregate(PANDAS, model="ds")
    result.save(tmp_path / "model.adjudge")
    wanted = result.predict(PANDAS).labels
    for model in (result, adj.load(tmp_path / "model.adjudge")):
        assert model.predict(WIDE, wide=True).labels.equals(wanted)
    with_na = PANDAS.replace("x", "NA")
    assert len(adj.aggregate(with_na, abstain="NA", model="mv").predict(with_na, abstain="NA").votes) == 3
    assert adj.agreement(WIDE, wide=True).alpha == adj.agreement(PANDAS).alpha


ANONYMOUS = {"item": ["a", "a", "a", "b"], "label": ["x", "y", "x", "y"]}


@pytest.mark.parametrize("engine", ["cpu", "disk", "reference"])
def test_majority_vote_needs_no_worker(engine, tmp_path):
    pl.DataFrame(ANONYMOUS).write_csv(tmp_path / "votes.csv")
    for source in (ANONYMOUS, pl.DataFrame(ANONYMOUS), tmp_path / "votes.csv", pl.DataFrame(ANONYMOUS).to_dicts()):
        found = adj.aggregate(source, "mv", engine=engine)
        assert found.labels.select("task", "label", "votes").rows() == [("a", "x", 3), ("b", "y", 1)]
        assert found.understood.columns == {"task": "item", "worker": "(absent)", "label": "label"}
        assert not found.understood.has_workers
        assert found.understood.repeated == 0
    named = adj.aggregate({**ANONYMOUS, "judge": ["u", "v", "w", "u"]}, "mv", engine=engine)
    assert named.votes.workers.ids() == ["u", "v", "w"]  # who is there, counts


def test_other_models_need_workers():
    with pytest.raises(
        adj.InputError, match=r"no column looks like the worker.*do not name their worker: model='mv' \(--model mv\)"
    ):
        adj.aggregate(ANONYMOUS)
    with pytest.raises(adj.InputError, match="these votes do not say who gave them, so only majority vote"):
        adj.aggregate(adj.read(ANONYMOUS, worker=""), "ds")
    assert adj.aggregate(adj.read(ANONYMOUS, worker=""), "mv").labels["label"].to_list() == ["x", "y"]


def test_majority_vote_of_other_shapes_as_before():
    assert adj.aggregate([("a", "u", "x")], "mv").understood.has_workers
    assert adj.aggregate(io.StringIO("a,u,x\nb,v,y\n"), "mv", header=False).votes.workers.ids() == ["u", "v"]
    assert not adj.aggregate(io.StringIO("a,x\nb,y\n"), "mv", header=False).understood.has_workers
    wide = {"item": ["a", "b"], "judge_1": ["x", "y"], "judge_2": ["x", None]}
    assert adj.aggregate(wide, "mv", wide=True).votes.workers.ids() == ["judge_1", "judge_2"]
