"""Exports as strangers have them: saved again by a spreadsheet, as records or frames, cut off, nested, odd in one field."""

import json
import zipfile

import pandas as pd
import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.formats.label_studio import NUMBERED_PREDICTIONS, SEVERAL_REGIONS
from exports import EXPORTS, VOTES, annotation, csv, dump, lines, result

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
ROWS = {
    "mturk": exports.mturk_rows,
    "toloka": exports.toloka_rows,
    "crowdflower": exports.crowdflower_rows,
    "label-studio-min": exports.min_rows,
    "community-notes": exports.notes_rows,
    "netease-crowd": exports.netease_rows,
}
STATUS = {"mturk": "AssignmentStatus", "toloka": "ASSIGNMENT:status"}


def refused(source, message, **options):
    with pytest.raises((adj.InputError, adj.OptionError), match=message) as raised:
        adj.read(source, **options)
    assert "\n" not in str(raised.value)


def rows_of(name):
    """The rows of an export, the first of them rejected where its tool rejects."""
    rows = ROWS[name]()
    if name in STATUS:
        rows[0][STATUS[name]] = "rejected"
    return rows, len(VOTES) - (name in STATUS)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("mark", [";", "|", "\t", ","])
def test_tables_are_recognised_whatever_separates_them(tmp_path, name, mark):
    rows, votes = rows_of(name)
    found = adj.read(csv(tmp_path / "saved again.csv", rows, mark)).understood
    assert (found.format, found.votes) == (name, votes)


@pytest.mark.parametrize("name", ROWS)
def test_tables_are_recognised_however_they_are_held(tmp_path, name):
    rows, votes = rows_of(name)
    frame = pl.DataFrame(rows)
    sources = [
        rows,
        frame.to_dict(as_series=False),
        frame.lazy(),
        dump(tmp_path / "a.json", rows),
        lines(tmp_path / "a.jsonl", rows),
    ]
    for source in sources:
        found = adj.read(source).understood
        assert (found.format, found.votes) == (name, votes), type(source)


def test_spreadsheets_of_exports(tmp_path):
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    rows, votes = rows_of("mturk")
    pl.DataFrame(rows).write_excel(tmp_path / "batch.xlsx")
    found = adj.read(tmp_path / "batch.xlsx").understood
    assert (found.format, found.votes, found.skipped) == ("mturk", votes, {"rejected": 1})


def test_tables_packed_with_zstandard(tmp_path):
    rows, votes = rows_of("mturk")
    path = tmp_path / "batch.csv.zst"
    pl.DataFrame(rows).write_csv(path, compression="zstd")
    for label in (None, "Answer.sentiment.label"):
        found = adj.read(path, label=label).understood
        assert (found.format, found.votes, found.skipped) == ("mturk", votes, {"rejected": 1})
    path.write_bytes(path.read_bytes()[:-20])
    refused(path, "cannot read .*batch.csv.zst")


def test_typed_files_are_known_by_their_content(tmp_path):
    path = exports.argilla_parquet(tmp_path)
    with path.open("rb") as file:
        assert adj.read(file).understood.format == "argilla-flat"
    plain = tmp_path / "votes.csv"
    pl.DataFrame({"task": ["t"], "worker": ["a"], "label": ["x"]}).write_parquet(plain)
    assert len(adj.read(plain)) == 1


def test_argilla_flat_as_text_is_never_one_vote_per_record(tmp_path):
    path = tmp_path / "flat.csv"
    pd.DataFrame(exports.flat_records()).to_csv(path, index=False)  # lists become text
    refused(path, "lists of responses, which text files cannot hold: export the records as JSON or Parquet")


@pytest.mark.parametrize("empty", [None, [], {}])
def test_argilla_whose_first_record_nobody_has_seen(tmp_path, empty):
    records = exports.argilla_records()
    records[0]["responses"] = empty
    found = adj.read(dump(tmp_path / "a.json", records)).understood
    assert (found.format, found.votes) == ("argilla", len(VOTES) - 5)


@pytest.mark.parametrize("odd", [-1, "x", {"value": "a"}])
def test_argilla_responses_that_are_not_lists(tmp_path, odd):
    records = exports.argilla_records()
    records[1]["responses"]["sentiment"] = odd
    refused(dump(tmp_path / "a.json", records), "responses to 'sentiment' are .*: a list of objects is expected")


def test_argilla_statuses_of_another_number(tmp_path):
    records = exports.flat_records()
    records[0]["sentiment.responses.status"] = ["submitted"]
    refused(dump(tmp_path / "a.json", records), "has 5 responses to 'sentiment', but 5 users and 1 statuses")


def test_pandas_columns_are_not_mistaken_for_answers_of_peerannot(tmp_path):
    path = tmp_path / "votes.json"
    frame = pd.DataFrame({"task": ["t1", "t1"], "worker": ["a", "b"], "label": ["x", "y"]})
    frame.to_json(path)
    refused(path, r"looks like a table by columns \(task, worker, label\).*orient='records'")
    assert adj.read(path, format="peerannot").n_tasks == 3  # as the caller says
    frame.to_json(path, orient="records")
    assert len(adj.read(path)) == 2


def studio(path, annotations, **more):
    return dump(path / "a.json", [{"id": 1, "data": {}, "annotations": annotations, **more}])


def test_label_studio_counts_what_it_leaves_out(tmp_path):
    both = [result("a"), result("b")]
    votes = [annotation("ann", [result("a")]), annotation("bob", [result("b")])]
    found = adj.read(studio(tmp_path, [*votes, annotation("cyd", both, ground_truth=True)])).understood
    assert (found.votes, found.gold, found.skipped) == (2, 0, {SEVERAL_REGIONS: 1})
    cancelled = annotation("cyd", [result("a")], ground_truth=True, was_cancelled=True)
    found = adj.read(studio(tmp_path, [*votes, cancelled])).understood
    assert (found.votes, found.gold, found.abstentions) == (2, 0, 1)
    models = [{"model_version": "m", "result": both}, {"model_version": "n", "result": [result("a")]}, 17]
    found = adj.read(studio(tmp_path, votes, predictions=models), predictions=True).understood
    assert (found.votes, found.skipped) == (3, {SEVERAL_REGIONS: 1, NUMBERED_PREDICTIONS: 1})


def test_label_studio_in_memory_with_drafts_and_a_task_that_nobody_has_seen():
    tasks = exports.label_studio_tasks()
    tasks[1]["drafts"] = [{"id": 3, "result": []}]
    unseen = {"id": 1, "data": {}, "annotations": None, "predictions": None}
    found = adj.read([unseen, *tasks]).understood
    assert (found.format, found.votes, found.skipped) == ("label-studio", len(VOTES), {"drafts": 1})


def test_an_empty_worker_is_missing(tmp_path):
    refused(studio(tmp_path, [annotation("", [result("a")])]), "has no completed_by: every vote needs a worker")
    rows = exports.min_rows()
    rows[3]["annotator"] = ""
    refused(rows, "worker is missing in answer 4")
    records = exports.choice_records()
    records[3]["_annotator_id"] = ""
    refused(records, "worker is missing in answer 4")


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ([{"rating": 3}], "3"),
        ([{"taxonomy": [["A", "B"]]}], "A / B"),
        ([{"selected": "left"}], "left"),
        ({"choices": ["a"]}, "a"),
    ],
)
def test_label_studio_min_writes_answers_that_are_not_text_as_objects(tmp_path, answer, label):
    rows = [{**row, "sentiment": answer} for row in exports.min_rows()]
    as_text = [{**row, "sentiment": json.dumps(answer)} for row in rows]
    for path in (dump(tmp_path / "a.json", rows), csv(tmp_path / "a.csv", as_text)):
        assert [str(one) for one in adj.read(path, question="sentiment").labels.ids()] == [label]


def test_documents_nested_too_deeply(tmp_path):
    deep = "[" * 100_000
    rows = [{**row, "Answer.taskAnswers": deep} for row in exports.mturk_rows()[:3]]
    for row in rows:
        del row["Answer.sentiment.label"]
    refused(csv(tmp_path / "a.csv", rows), "taskAnswers in row 1 .* nested too deeply")
    rows = [{**row, "sentiment": deep} for row in exports.min_rows()[:3]]
    assert adj.read(csv(tmp_path / "b.csv", rows), question="sentiment").labels.ids() == [deep]


def test_crowdflower_options_on_lines_of_windows(tmp_path):
    rows = exports.crowdflower_rows()
    rows[0]["sentiment"] = "Neutral\r\nPositive"
    path = csv(tmp_path / "a.csv", rows)
    labels = adj.aggregate(path, multi=True, model="mv").probabilities.columns
    assert set(labels) == {"task", "Negative", "Neutral", "Positive"}


def test_json_cut_off_in_other_encodings(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(json.dumps(exports.argilla_records()).encode("utf-16")[:-1])
    refused(path, "is not valid UTF-16.*save the file as UTF-8")


@pytest.mark.parametrize(("data", "message"), [(b"", "is empty"), (b"null", "not a JSON array"), (b"[1, 2]", "not a JSON array")])
def test_json_that_holds_no_objects(tmp_path, data, message):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    refused(path, f"{message}.*: an array of objects with task, worker and label is expected")
    path.write_text("{}")
    refused(path, "one JSON object with nothing in it")
    packed = tmp_path / "a.json.zst"
    packed.write_bytes(b"\x28\xb5\x2f\xfd and more")
    refused(packed, "packed with Zstandard, which is not read: unpack it")


def test_doccano_needs_the_names_of_files(tmp_path):
    line = json.dumps({"id": 1, "text": "s", "label": ["x"]}) + "\n"
    path = tmp_path / "Zoë.json"
    path.write_text(line)
    assert adj.read(path).workers.ids() == ["Zoë"]
    with (tmp_path / "Zoë.json").open("rb", buffering=0) as file:
        nameless = type("Nameless", (), {"read": file.read})()
        refused(nameless, "looks like a file of doccano, whose name is the annotator")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/ann.jsonl", line)
        archive.writestr("y/ann.jsonl", line)
    refused(tmp_path / "a.zip", "has two files of 'ann'")


@pytest.mark.parametrize(
    "name", ["label-studio", "argilla", "prodigy-choice", "fast-dawid-skene-file", "peerannot", "doccano-zip"]
)
@pytest.mark.parametrize("role", ["task", "worker"])
def test_a_column_that_an_export_does_not_have_is_never_ignored(tmp_path, name, role):
    form, write, _ = EXPORTS[name]
    refused(write(tmp_path), f"{role} names a column, and {form} has none", **{role: "other"})


@pytest.mark.parametrize("name", ["doccano-zip", "doccano-folder", "peerannot"])
def test_exports_without_truth_say_so(tmp_path, name):
    form, write, _ = EXPORTS[name]
    path = write(tmp_path)
    with pytest.raises(adj.InputError, match=f"is an export of {form} that gives no task its right label"):
        adj.evaluate(adj.aggregate(path, model="mv"), path)
