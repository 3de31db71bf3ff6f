"""Labels back to where the votes came from: in the tool's exact shape, and read again as the votes of a model."""

import json

import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.frames import frame_of
from adjudge.io.write_back import WRITABLE_EXPORTS, WRITTEN
from exports import TASKS, VOTES, annotation, dump, lines, result

BY = "adjudge mv"
LOST = "is read as well, as the votes, and would be lost"


def labels_of(found):
    return {str(task): label for task, label in found.labels.select("task", "label").rows()}


def read_again(path, **options):
    """The votes of the model that the written file has, by task."""
    votes = frame_of(adj.read(path, predictions=True, **options)).filter(pl.col("worker") == BY)
    assert votes["task"].n_unique() == len(votes)
    return {str(task): label for task, label in votes.select("task", "label").rows()}


OWN_FORMS = {
    "label-studio": (exports.label_studio, "out.json"),
    "argilla": (exports.argilla, "out.json"),
    "argilla as lines": (exports.argilla, "out.jsonl"),
    "argilla-flat": (exports.argilla_flat, "out.json"),
    "argilla-flat lines": (exports.argilla_lines, "out.jsonl"),
    "argilla-flat parquet": (exports.argilla_parquet, "out.parquet"),
}


@pytest.mark.parametrize("name", OWN_FORMS)
def test_round_trip(tmp_path, name):
    make, out = OWN_FORMS[name]
    path, out = make(tmp_path), tmp_path / out
    before = path.read_bytes()
    found = adj.aggregate(path, model="mv")
    assert found.write(out, path) is None
    assert path.read_bytes() == before
    assert read_again(out) == labels_of(found)
    assert len(labels_of(found)) == len(TASKS)
    found.write(tmp_path / f"named-{out.name}", path, format=name.split()[0])
    assert (tmp_path / f"named-{out.name}").read_bytes() == out.read_bytes()


def test_label_studio_has_the_shape_that_is_imported(tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "predictions.json"
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    sure = dict(found.labels.select("task", "confidence").rows())
    assert json.loads(out.read_text()) == [
        {
            "id": task,
            "data": {"text": f'text, "quoted" {task}', "id": 5},
            "predictions": [
                {
                    "model_version": BY,
                    "score": sure[task],
                    "result": [
                        {
                            "from_name": "sentiment",
                            "to_name": "text",
                            "type": "choices",
                            "value": {"choices": [labels_of(found)[str(task)]]},
                        }
                    ],
                }
            ],
        }
        for task in TASKS
    ]
    # The written file is an export itself: of predictions alone, whose labels come back.
    again = adj.aggregate(out, predictions=True, model="mv")
    assert labels_of(again) == labels_of(found)
    assert again.understood.format == "label-studio"
    with pytest.raises(adj.InputError, match="has answers of models alone: predictions=True"):
        adj.read(out)


def studio(tmp_path, kind, answers, name="q", **more):
    tasks = [
        {
            "id": n,
            "data": {"n": n, "big": 12345678901234567890123, "x": 1.10},
            "meta": {"kept": n} if n == 1 else {},
            "annotations": [
                annotation(worker, [{"from_name": name, "to_name": "item", "type": kind, "value": {kind: one}, **more}])
                for worker, one in zip(exports.WORKERS, given, strict=False)
            ],
        }
        for n, given in enumerate(answers, 1)
    ]
    return dump(tmp_path / f"{kind}.json", tasks)


def values(path):
    return [p["result"][0]["value"] for task in json.loads(path.read_text()) for p in task["predictions"]]


def test_label_studio_values_have_their_own_shape(tmp_path):
    out = tmp_path / "out.json"
    path = studio(tmp_path, "rating", [[4, 4, 1], [2, 2]])
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    assert values(out) == [{"rating": 4}, {"rating": 2}]
    assert read_again(out) == labels_of(found)
    # A name may have in it what joins the names of a path.
    path = studio(tmp_path, "taxonomy", [[[["a / b", "c"]], [["a / b", "c"]]], [[["d"]], [["d"]]]])
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    assert values(out) == [{"taxonomy": [["a / b", "c"]]}, {"taxonomy": [["d"]]}]
    assert read_again(out) == labels_of(found) == {"1": "a / b / c", "2": "d"}
    tasks = [
        {
            "id": 1,
            "data": {},
            "annotations": [
                annotation(w, [{"from_name": "q", "to_name": "pair", "type": "pairwise", "value": {"selected": "left"}}])
                for w in ("ann", "bob")
            ],
        }
    ]
    path = dump(tmp_path / "pairwise.json", tasks)
    adj.aggregate(path, model="mv").write(out, path)
    assert values(out) == [{"selected": "left"}]


def test_label_studio_data_is_carried_as_it_is(tmp_path):
    path, out = studio(tmp_path, "rating", [[4], [2]]), tmp_path / "out.json"
    adj.aggregate(path, model="mv").write(out, path)
    text = out.read_text()
    assert '"big": 12345678901234567890123, "x": 1.1' in text  # not even decoded
    assert [task.get("meta") for task in json.loads(text)] == [{"kept": 1}, None]


def test_label_studio_tasks_without_a_label_and_old_predictions(tmp_path):
    tasks = exports.label_studio_tasks()[:3]
    tasks[0]["annotations"] = []
    tasks[1]["annotations"] = [annotation("ann", [], was_cancelled=True)]
    tasks[2]["predictions"] = [7, {"model_version": "gpt", "result": [result("Neutral")]}]
    path, out = dump(tmp_path / "export.json", tasks), tmp_path / "out.json"
    with pytest.warns(adj.MissingLabels):
        found = adj.aggregate(path, model="mv")
    found.write(out, path)
    written = json.loads(out.read_text())
    assert [task["id"] for task in written] == [100, 101, 102]
    assert [[one["model_version"] for one in task["predictions"]] for task in written] == [[], [], [BY]]
    # Records in memory are as good as a file.
    found.write(tmp_path / "again.json", tasks)
    assert json.loads((tmp_path / "again.json").read_text()) == written


def test_the_question_that_was_asked(tmp_path):
    tasks = exports.label_studio_tasks()
    for task in tasks:
        for one in task["annotations"]:
            one["result"].append({**result("x", "topic"), "to_name": "other"})
    path, out = dump(tmp_path / "export.json", tasks), tmp_path / "out.json"
    adj.aggregate(path, model="mv", question="topic").write(out, path)
    written = json.loads(out.read_text())[0]["predictions"][0]["result"]
    assert written == [{"from_name": "topic", "to_name": "other", "type": "choices", "value": {"choices": ["x"]}}]
    bare = adj.aggregate([(task, worker, label) for task, worker, label in VOTES], model="mv")
    with pytest.raises(adj.InputError, match="has 2 questions: sentiment, topic"):
        bare.write(out, path)
    records = exports.argilla_records()
    for record in records:
        record["responses"]["topic"] = [{"value": "x", "user_id": "ann", "status": "submitted"}]
    path = dump(tmp_path / "records.json", records)
    adj.aggregate(path, model="mv", question="topic").write(out, path)
    assert set(json.loads(out.read_text())[0]["suggestions"]) == {"sentiment", "topic"}
    both = tmp_path / "both.json"  # the next question goes into the file of the one before
    adj.aggregate(path, model="mv", question="sentiment").write(both, out)
    assert {one["agent"] for one in json.loads(both.read_text())[0]["suggestions"].values()} == {BY}
    flat = [{**record, "topic.responses": ["x"], "topic.responses.users": ["ann"]} for record in exports.flat_records()]
    path = dump(tmp_path / "flat.json", flat)
    adj.aggregate(path, model="mv", question="topic").write(out, path)
    first = json.loads(out.read_text())[0]
    assert (first["topic.suggestion"], first["sentiment.suggestion"]) == ("x", "Neutral")


def test_argilla_has_the_shape_that_it_reads(tmp_path):
    path, out = exports.argilla(tmp_path), tmp_path / "out.json"
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    sure = dict(found.labels.select("task", "confidence").rows())
    wanted = exports.argilla_records()
    for record in wanted:
        task = record["id"]
        record["suggestions"]["sentiment"] = {"value": labels_of(found)[task], "score": sure[task], "agent": BY}
    assert json.loads(out.read_text()) == wanted
    assert list(json.loads(out.read_text())[0]) == list(wanted[0])
    found.write(tmp_path / "out.jsonl", path)
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == wanted


def test_argilla_flat_columns(tmp_path):
    path, out = exports.argilla_parquet(tmp_path), tmp_path / "out.parquet"
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    before, after = pl.read_parquet(path), pl.read_parquet(out)
    changed = [f"sentiment.suggestion{end}" for end in ("", ".score", ".agent")]
    assert after.drop(changed).equals(before.drop(changed))
    assert after.columns == before.columns
    assert after["sentiment.suggestion.agent"].unique().to_list() == [BY]
    pl.read_parquet(path).drop(changed).write_parquet(path)  # nobody has suggested anything yet
    found.write(out, path)
    assert read_again(out) == labels_of(found)


def test_argilla_ratings_are_numbers_and_records_without_a_label_stay(tmp_path):
    def record(task, given):
        responses = [{"value": value, "user_id": who, "status": "submitted"} for who, value in given]
        return {"id": task, "fields": {}, "suggestions": {}, "responses": {"stars": responses}}

    records = [record("r1", [("ann", 4), ("bob", 4)]), record("r2", [])]
    path, out = dump(tmp_path / "records.json", records), tmp_path / "out.json"
    adj.aggregate(path, model="mv").write(out, path)
    written = json.loads(out.read_text())
    assert written[0]["suggestions"]["stars"]["value"] == 4
    assert written[1] == records[1]


def test_normalised_labels_have_their_own_spelling_again(tmp_path):
    path, out = exports.label_studio(tmp_path), tmp_path / "out.json"
    found = adj.aggregate(path, model="mv", normalize=True)
    assert set(labels_of(found).values()) <= {"positive", "negative", "neutral"}
    found.write(out, path)
    assert {value["choices"][0] for value in values(out)} <= {"Positive", "Negative", "Neutral"}


def test_sets(tmp_path):
    tasks = [
        {"id": n, "data": {}, "annotations": [annotation(w, [result(["fear", "joy"][:n])]) for w in ("ann", "bob")]}
        for n in (0, 1, 2)
    ]
    path, out = dump(tmp_path / "export.json", tasks), tmp_path / "out.json"
    found = adj.aggregate(path, model="mv", multi=True)
    found.write(out, path)
    given = [[one["value"]["choices"] for one in task["predictions"][0]["result"]] for task in json.loads(out.read_text())]
    assert given == [[], [["fear"]], [["fear", "joy"]]]
    assert json.loads(out.read_text())[2]["predictions"][0]["score"] == found.labels["confidence"][2]
    records = [
        {
            "id": str(n),
            "fields": {},
            "suggestions": {},
            "responses": {"q": [{"value": ["fear", "joy"][:n], "user_id": w, "status": "submitted"} for w in ("ann", "bob")]},
        }
        for n in (1, 2)
    ]
    path = dump(tmp_path / "records.json", records)
    found = adj.aggregate(path, model="mv", multi=True)
    found.write(out, path)
    suggested = [record["suggestions"]["q"] for record in json.loads(out.read_text())]
    assert [one["value"] for one in suggested] == [["fear"], ["fear", "joy"]]
    # Argilla wants a score for every value of a list.
    options = found.probabilities.to_dicts()
    assert [one["score"] for one in suggested] == [[options[0]["fear"]], [options[1]["fear"], options[1]["joy"]]]
    again = adj.aggregate(out, multi=True, predictions=True, model="mv")
    assert again.labels["label"].to_list() == [["fear"], ["fear", "joy"]]
    one_each = dump(tmp_path / "one.json", records[:1])
    adj.aggregate(one_each, model="mv").write(out, one_each)  # lists of one, read without sets
    suggestion = json.loads(out.read_text())[0]["suggestions"]["q"]
    assert (suggestion["value"], len(suggestion["score"])) == (["fear"], 1)


def test_a_wide_table(tmp_path):
    path, out = tmp_path / "wide.csv", tmp_path / "out.csv"
    path.write_text('item;text;judge_1;judge_2;judge_3\n007;"a;b";yes;yes;no\n008;"say ""hi""";no;no;\n009;1.50;;;\n')
    with pytest.warns(adj.MissingLabels):
        found = adj.aggregate(path, wide=True, model="mv")
    found.write(out, path)
    rows = pl.read_csv(out, infer_schema=False)
    assert rows.select("item", "text", "judge_3", "consensus", "consensus_votes").rows() == [
        ("007", "a;b", "no", "yes", "3"),
        ("008", 'say "hi"', None, "no", "2"),
        ("009", "1.50", None, None, "0"),
    ]
    found.write(tmp_path / "out.parquet", path, format="table")
    assert pl.read_parquet(tmp_path / "out.parquet")["consensus"].to_list() == ["yes", "no", None]
    sets = adj.aggregate([(task, "ann", ["x", "y"]) for task in ("007", "008")], multi=True, model="mv")
    sets.write(out, path)
    assert pl.read_csv(out)["consensus"].to_list() == ["x|y", "x|y", None]


def test_rows_of_exports_that_are_tables(tmp_path):
    for make in (exports.mturk, exports.label_studio_csv, exports.crowdflower, exports.toloka):
        path, out = make(tmp_path), tmp_path / "out.csv"
        found = adj.aggregate(path, model="mv")
        found.write(out, path)
        rows = pl.read_csv(out, infer_schema=False)
        assert len(rows) == len(VOTES)
        column = found.understood.columns["task"]
        assert dict(rows.select(column, "consensus").rows()) == labels_of(found)


def test_what_cannot_be_written_is_reported_with_what_can(tmp_path):
    assert WRITABLE_EXPORTS == ("label-studio", "argilla", "argilla-flat", "inspect")
    assert (*WRITABLE_EXPORTS, "table") == WRITTEN
    out = tmp_path / "out.json"
    path = exports.prodigy_choice(tmp_path)
    found = adj.aggregate(path, model="mv")
    with pytest.raises(
        adj.InputError,
        match="export of prodigy, which has no form .* label-studio, argilla, argilla-flat, inspect, and to tables",
    ):
        found.write(out, path)
    with pytest.raises(adj.InputError, match="is an export of prodigy: its labels cannot be written as argilla, only as table"):
        found.write(out, path, format="argilla")
    with pytest.raises(adj.OptionError, match="unknown form of labels 'label_studio': did you mean 'label-studio'"):
        found.write(out, path, format="label_studio")
    found.write(tmp_path / "out.jsonl", path, format="table")  # a line per annotation, as they were
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {str(line["_input_hash"]): line["consensus"] for line in written} == labels_of(found)
    path = exports.label_studio(tmp_path)
    found = adj.aggregate(path, model="mv")
    with pytest.raises(adj.InputError, match="labels for label-studio are written to files that end in .json"):
        found.write(tmp_path / "out.csv", path)
    with pytest.raises(adj.InputError, match=LOST):
        found.write(path, path)
    linked = tmp_path / "linked.json"
    linked.symlink_to(path)
    with pytest.raises(adj.InputError, match=LOST):
        found.write(linked, path)
    with pytest.raises(adj.InputError, match="does not look like label-studio"):
        found.write(out, exports.argilla(tmp_path))
    other = exports.label_studio_tasks()
    for task in other:
        task["id"] += 1000
    with pytest.raises(adj.InputError, match="none of its 12 tasks .1100, .* has a label in this result, whose tasks are 100"):
        found.write(out, other)
    with pytest.raises(adj.InputError, match="result.join"):
        found.write(out, pl.DataFrame({"id": [100]}))
    with pytest.raises(adj.InputError, match="can be read only once"):
        found.write(out, "-")
    for task in other:
        task["id"] -= 1000
        for one in task["annotations"]:
            del one["result"][0]["to_name"]
    with pytest.raises(adj.InputError, match="no answer to 'sentiment' has a to_name"):
        found.write(out, other)
    assert not out.exists()


def test_tables_without_a_header_and_encoded_votes(tmp_path):
    path, out = tmp_path / "plain.csv", tmp_path / "out.csv"
    path.write_text("1,ann,cat\n1,bob,cat\n2,ann,dog\n")  # its first line would pass for a header
    found = adj.aggregate(path, header=False, model="mv")
    with pytest.raises(adj.InputError, match="has no header"):
        found.write(out, path)
    votes = exports.csv(tmp_path / "votes.csv", [{"task": t, "worker": w, "label": label} for t, w, label in VOTES])
    adj.encode(votes, tmp_path / "encoded")
    with pytest.raises(adj.InputError, match="has encoded votes"):
        adj.aggregate(tmp_path / "encoded", model="mv").write(out, tmp_path / "encoded")
    assert not out.exists()


def test_several_files_of_one_export(tmp_path):
    tasks = exports.label_studio_tasks()
    paths = [dump(tmp_path / f"{n}.json", tasks[n * 6 : n * 6 + 6]) for n in (0, 1)]
    found = adj.aggregate(paths, model="mv")
    found.write(tmp_path / "out.json", paths)
    assert read_again(tmp_path / "out.json") == labels_of(found)
    records = exports.argilla_records()
    paths = [lines(tmp_path / f"{n}.jsonl", records[n * 6 : n * 6 + 6]) for n in (0, 1)]
    found = adj.aggregate(paths, model="mv")
    found.write(tmp_path / "out.jsonl", paths)
    assert read_again(tmp_path / "out.jsonl") == labels_of(found)


def test_ids_and_labels_are_data(tmp_path):
    odd = '=cmd|"\u202e</script>\n\x1b[31m,;é'
    tasks = [{"id": odd, "data": {"text": odd}, "annotations": [annotation(w, [result(odd)]) for w in ("ann", "bob")]}]
    path, out = dump(tmp_path / "export.json", tasks), tmp_path / "out.json"
    found = adj.aggregate(path, model="mv")
    found.write(out, path)
    assert values(out) == [{"choices": [odd]}]
    assert json.loads(out.read_text())[0]["data"] == {"text": odd}
    assert read_again(out) == {odd: odd}
