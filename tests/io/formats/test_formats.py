"""Every export: file to labels, what was understood, damaged variants; and recognition that never takes one for another."""

import gzip
import json
from collections import Counter

import datasets
import pandas as pd
import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.formats.registry import FORMATS, look, look_frame, recognise
from exports import EXPORTS, TRUTH, VOTES, annotation, csv, dump, lines, result

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")


def counted(votes):
    """How often each (place of the task, place of the worker, label) was voted; ids differ from tool to tool."""
    frame = pl.DataFrame(votes, schema=["task", "worker", "label"], orient="row") if isinstance(votes, list) else votes
    return (
        Counter(frame.select(pl.col("label").cast(pl.String)).to_series().to_list()),
        frame["task"].n_unique(),
        frame["worker"].n_unique(),
    )


def frame_of(votes):
    from adjudge.io.frames import frame_of

    return frame_of(votes)


def digits(task):
    return int(str(task)[-3:].lstrip("-")) if not isinstance(task, int) or task > 0 else task + 200


@pytest.mark.parametrize("name", EXPORTS)
def test_file_to_labels(tmp_path, name):
    form, write, as_label = EXPORTS[name]
    path = write(tmp_path)
    votes = adj.read(path)
    plain = [(t, w, as_label(label)) for t, w, label in VOTES]
    assert counted(frame_of(votes)) == counted(plain)
    assert votes.understood.format == form
    assert votes.understood.votes == len(VOTES)
    assert set(votes.understood.columns) >= {"task", "worker", "label"}
    assert (votes.understood.abstentions, votes.understood.repeated, votes.understood.gold) == (0, 0, 0)
    wanted = {str(t): label for t, label in adj.aggregate(plain, model="mv").labels.select("task", "label").rows()}
    found = adj.aggregate(path, model="mv").labels.select("task", "label").rows()
    tied = {str(t) for t, _, _, _, tie in adj.aggregate(plain, model="mv").labels.rows() if tie}  # decided by a hash of the ids
    assert {str(digits(t)): str(label) for t, label in found if str(digits(t)) not in tied} == {
        t: label for t, label in wanted.items() if t not in tied
    }


@pytest.mark.parametrize("name", EXPORTS)
def test_recognised_as_its_own_and_as_nothing_else(tmp_path, name):
    form, write, _ = EXPORTS[name]
    path = write(tmp_path)
    content = look(path, str(path))
    assert [f.name for f in FORMATS.values() if f.test(content)] == [form]
    assert recognise([content]).name == form
    assert recognise([content], "table") is None
    for other in FORMATS:
        if other == form:
            assert recognise([content], other).name == form
        elif other != "fast-dawid-skene":  # which takes any table of three columns when it is named
            with pytest.raises(adj.InputError, match=f"does not look like {other}: .* expected"):
                recognise([content], other)


ORDINARY = {
    "crowd-kit": {"task": ["t1", "t1"], "worker": ["a", "b"], "label": ["x", "y"]},
    "question": {"question": [1, 1], "annotator": ["a", "b"], "answer": ["x", "y"]},
    "judges": {"prompt_id": [1, 2], "judge": ["a", "b"], "score": [3, 4]},
    "an id": {"id": [1, 2], "annotator": ["a", "b"], "label": ["x", "y"], "text": ["s", "t"]},
    "some of Label Studio's": {"id": [1, 2], "annotator": ["a", "b"], "annotation_id": [1, 2], "label": ["x", "y"]},
    "some of MTurk's": {"HITId": [1, 2], "WorkerId": ["a", "b"], "Answer.x": ["x", "y"]},
    "some of NetEase's": {"taskId": [1, 2], "workerId": ["a", "b"], "answer": ["x", "y"]},
    "some of CrowdFlower's": {"_unit_id": [1, 2], "worker": ["a", "b"], "label": ["x", "y"]},
    "three columns": {"person": ["ann", "bob"], "thing": [1, 2], "says": ["x", "y"]},
    "numbers": {"1": [1, 2], "2": [3, 4], "3": [5, 6]},
    "wide": {"item": [1, 2], "judge_1": ["x", "y"], "judge_2": ["x", "y"]},
    "with text": {"id": [1, 2], "text": ["s", "t"], "label": ["x", "y"]},
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_tables_are_not_exports(tmp_path, name):
    frame = pl.DataFrame(ORDINARY[name])
    paths = [tmp_path / f"crowd.{suffix}" for suffix in ("csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz")]
    frame.write_csv(paths[0])
    frame.write_csv(paths[1], separator="\t")
    frame.write_ndjson(paths[2])
    frame.write_parquet(paths[3])
    frame.write_ipc(paths[4])
    paths[5].write_bytes(gzip.compress(paths[0].read_bytes()))
    for path in paths:
        assert recognise([look(path, str(path))]) is None, path
    for held in (frame, frame.to_pandas(), frame.to_arrow()):
        assert recognise([look_frame(held, "the frame")]) is None


@pytest.mark.parametrize("name", ["label-studio-csv", "mturk", "toloka", "crowdflower", "community-notes", "netease-crowd"])
def test_tables_are_recognised_as_frames_and_packed(tmp_path, name):
    path = EXPORTS[name][1](tmp_path)
    wanted = counted(frame_of(adj.read(path)))
    frame = pl.read_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    for source in (frame, frame.to_pandas(), frame.to_arrow(), datasets.Dataset(frame.to_arrow())):
        votes = adj.read(source)
        assert counted(frame_of(votes)) == wanted
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert counted(frame_of(adj.read(packed))) == wanted
    assert isinstance(adj.aggregate(frame.to_pandas(), model="mv").labels, pd.DataFrame)


@pytest.mark.parametrize("name", ["label-studio", "label-studio-json-min", "argilla", "argilla-flat", "peerannot"])
def test_json_is_recognised_packed_and_in_other_encodings(tmp_path, name):
    path = EXPORTS[name][1](tmp_path)
    wanted = counted(frame_of(adj.read(path)))
    packed, wide, spread = tmp_path / "x.json.gz", tmp_path / "wide.json", tmp_path / "spread.json"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    wide.write_text(path.read_text(), encoding="utf-16")
    spread.write_text("\n" + json.dumps(json.loads(path.read_text()), indent=2))
    for other in (packed, wide, spread):
        assert counted(frame_of(adj.read(other))) == wanted, other
    if name != "peerannot":
        assert counted(frame_of(adj.read(json.loads(path.read_text())))) == wanted  # as Python's own lists


def test_argilla_flat_as_a_hugging_face_dataset():
    dataset = datasets.Dataset.from_list(exports.flat_records())
    assert counted(frame_of(adj.read(dataset))) == counted(VOTES)


def test_several_files_of_one_export(tmp_path):
    tasks = exports.label_studio_tasks()
    dump(tmp_path / "part-1.json", tasks[:5])
    dump(tmp_path / "part-2.json", tasks[5:])
    votes = adj.read(str(tmp_path / "part-*.json"))
    assert counted(frame_of(votes)) == counted(VOTES)
    csv(tmp_path / "part-3.json", [{"task": 1, "worker": 2, "label": 3}])
    with pytest.raises(adj.InputError, match=r"these are of several formats: .*label-studio.*ordinary"):
        adj.read(str(tmp_path / "part-*.json"))
    folder = exports.doccano_folder(tmp_path)
    assert counted(frame_of(adj.read(str(folder / "*.jsonl")))) == counted(VOTES)
    other = [{**task, "annotations": [annotation("ann", [result("x", "topic")])]} for task in tasks[:2]]
    dump(tmp_path / "part-2.json", other)
    with pytest.raises(adj.InputError, match="2 questions: sentiment, topic"):
        adj.read([tmp_path / "part-1.json", tmp_path / "part-2.json"])


DAMAGED = {
    "label-studio": "damaged: Input data was truncated",
    "label-studio-csv": None,
    "label-studio-json-min": "damaged: Input data was truncated",
    "argilla": "damaged: Input data was truncated",
    "argilla-flat": "damaged: Input data was truncated",
    "argilla-lines": r"flat.jsonl: line 12 is damaged: Input data was truncated",
    "prodigy-choice": r"choice.jsonl: line 60 is damaged",
    "peerannot": "damaged: Input data was truncated",
    "doccano-zip": "is a damaged zip archive",
}


@pytest.mark.parametrize("name", [name for name, message in DAMAGED.items() if message])
def test_a_cut_off_file_is_a_clear_error(tmp_path, name):
    path = EXPORTS[name][1](tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(adj.InputError, match=DAMAGED[name]) as raised:
        adj.read(path)
    assert "\n" not in str(raised.value)


def drop(rows, column):
    return [{**row, column: None} if n == 3 else row for n, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: csv(f / "a.csv", drop(exports.min_rows(), "annotator")), "worker is missing in answer 4"),
        (lambda f: csv(f / "a.csv", drop(exports.mturk_rows(), "WorkerId")), "worker is missing in answer 4"),
        (lambda f: csv(f / "a.tsv", drop(exports.crowdflower_rows(), "_unit_id"), "\t"), "task is missing in answer 4"),
        (lambda f: csv(f / "a.tsv", drop(exports.notes_rows(), "raterParticipantId"), "\t"), "worker is missing in row 4"),
        (lambda f: csv(f / "a.csv", drop(exports.netease_rows(), "taskId")), "task is missing in row 4"),
        (
            lambda f: dump(f / "a.json", [{"id": 1, "data": {}, "annotations": [{"completed_by": None, "result": []}]}]),
            "no answers",
        ),
        (
            lambda f: dump(f / "a.json", [{"id": 1, "data": {}, "annotations": [{"result": [result("x")]}]}]),
            "has no completed_by",
        ),
        (lambda f: dump(f / "a.json", [{"id": None, "data": {}, "annotations": []}]), r"Expected `int \| str`, got `null`"),
        (lambda f: dump(f / "a.json", [{"id": 1, "data": {}, "annotations": ["x"]}]), "Expected `object`, got `str`"),
        (lambda f: dump(f / "a.json", [{**exports.argilla_records()[0], "responses": {"q": ["x"]}}]), "an object is expected"),
        (
            lambda f: dump(f / "a.json", [{**exports.flat_records()[0], "sentiment.responses.users": ["ann"]}]),
            "5 responses to 'sentiment', but 1 users",
        ),
        (lambda f: lines(f / "a.jsonl", [{**exports.choice_records()[0], "answer": "yes"}]), "the answer in line 1 is 'yes'"),
        (
            lambda f: lines(f / "a.jsonl", [{k: v for k, v in exports.binary_records()[0].items() if k != "_session_id"}]),
            "neither _annotator_id nor _session_id",
        ),
        (lambda f: lines(f / "a.jsonl", [{"id": 1, "text": "s", "label": [[0, 2, "ORG"]]}]), "marks spans"),
        (lambda f: dump(f / "a.json", {"t1": {"w1": {"x": 1}, "w2": 3}}), "one JSON object with t1"),
        (lambda f: dump(f / "a.json", {"t1": {"w1": 1}, "t2": 4}), "no column looks like the task"),
        (lambda f: dump(f / "a.json", [{"task": 1}, {"task": 2}]), "no column looks like the worker"),
        (lambda f: dump(f / "a.json", []), "a.json is empty"),
        (lambda f: csv(f / "a.tsv", [{**r, "OUTPUT:result": None} for r in exports.toloka_rows()], "\t"), None),
    ],
)
def test_what_is_damaged_inside_is_named(tmp_path, make, message):
    path = make(tmp_path)
    if message is None:
        assert len(adj.read(path)) == 0
        return
    with pytest.raises(adj.InputError, match=message) as raised:
        adj.read(path)
    assert "\n" not in str(raised.value)


def test_damaged_folders(tmp_path):
    script, inference = exports.script_files(tmp_path), exports.truth_inference(tmp_path)
    (script / "gold.csv").write_text("1,2,3\n")
    with pytest.raises(adj.InputError, match=r"gold.csv has 3 columns: fast-dawid-skene has 2"):
        adj.read(script)
    (inference / "label.csv").write_text('item,worker,label\n1,"a,b\n')
    with pytest.raises(adj.InputError, match=r"label.csv"):
        adj.read(inference)
    with pytest.raises(adj.InputError, match="is a folder that is not a known export"):
        adj.read(tmp_path)


def test_truth_only_evaluates(tmp_path):
    """The truth of a file is never learned from; given as truth it evaluates."""
    for name in ("netease-crowd", "truth-inference", "fast-dawid-skene"):
        path = EXPORTS[name][1](tmp_path)
        votes = adj.read(path)
        assert votes.found_gold is None
        found = adj.aggregate(path, model="mv")
        assert "gold_of_export" not in found.facts
        assert adj.evaluate(found, path).tasks == len(TRUTH)
