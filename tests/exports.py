"""One crowd, written as every annotation tool exports it: the same votes under the names and in the shapes of the tool."""

import json
import random
import zipfile

import polars as pl

LABELS = ("Negative", "Neutral", "Positive")
WORKERS = ("ann", "bob", "cyd", "dan", "eve")


def crowd(tasks=12, seed=3):
    """(task, worker, label) of every worker on every task; most are right."""
    draw = random.Random(seed)
    out = []
    for task in range(100, 100 + tasks):
        truth = LABELS[task % 3]
        out += [(task, worker, truth if draw.random() < 0.7 else draw.choice(LABELS)) for worker in WORKERS]
    return out


VOTES = crowd()
TRUTH = {task: LABELS[task % 3] for task, _, _ in VOTES}
TASKS = list(TRUTH)
NUMBER = {worker: n for n, worker in enumerate(WORKERS, 1)}


def dump(path, value):
    path.write_text(json.dumps(value))
    return path


def lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def csv(path, records, separator=","):
    pl.DataFrame(records).write_csv(path, separator=separator)
    return path


def result(label, name="sentiment"):
    value = {"choices": label if isinstance(label, list) else [label]}
    return {"value": value, "id": "x1", "from_name": name, "to_name": "text", "type": "choices", "origin": "manual"}


def annotation(worker, results, **more):
    return {
        "id": 1,
        "completed_by": NUMBER.get(worker, worker) if isinstance(worker, str) else worker,
        "result": results,
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2024-01-01T00:00:00Z",
        "lead_time": 2.5,
        **more,
    }


def label_studio_tasks():
    return [
        {
            "id": task,
            "annotations": [annotation(w, [result(label)]) for t, w, label in VOTES if t == task],
            "drafts": [],
            "predictions": [],
            "data": {"text": f'text, "quoted" {task}', "id": 5},
            "meta": {},
            "project": 1,
        }
        for task in TASKS
    ]


def label_studio(folder):
    return dump(folder / "export.json", label_studio_tasks())


def min_rows():
    return [
        {
            "text": f"text {t}",
            "id": t,
            "sentiment": label,
            "annotator": NUMBER[w],
            "annotation_id": n,
            "created_at": "2024-01-01T00:00:00Z",
            "updated_at": "2024-01-01T00:00:00Z",
            "lead_time": 2.5,
        }
        for n, (t, w, label) in enumerate(VOTES)
    ]


def label_studio_csv(folder):
    return csv(folder / "export.csv", min_rows())


def label_studio_json_min(folder):
    return dump(folder / "export-min.json", min_rows())


def mturk_rows():
    return [
        {
            "HITId": f"HIT{t}",
            "HITTypeId": "3TYPE",
            "Title": "Rate, please",
            "AssignmentId": f"A{n}",
            "WorkerId": w,
            "AssignmentStatus": "Approved" if n % 2 else "Submitted",
            "SubmitTime": "Mon Jan 01 00:00:00 PST 2024",
            "WorkTimeInSeconds": "31",
            "Input.text": f"text {t}",
            "Answer.sentiment.label": label,
            "Approve": "",
            "Reject": "",
        }
        for n, (t, w, label) in enumerate(VOTES)
    ]


def mturk(folder):
    return csv(folder / "Batch_1_batch_results.csv", mturk_rows())


def toloka_rows():
    return [
        {
            "INPUT:text": f"text {t}",
            "OUTPUT:result": label,
            "GOLDEN:result": None,
            "HINT:text": None,
            "ASSIGNMENT:link": "https://toloka.example/1",
            "ASSIGNMENT:task_id": f"task-{t}",
            "ASSIGNMENT:assignment_id": f"a-{n}",
            "ASSIGNMENT:worker_id": w,
            "ASSIGNMENT:status": "APPROVED" if n % 2 else "SUBMITTED",
            "ASSIGNMENT:started": "2024-01-01T00:00:00.000",
        }
        for n, (t, w, label) in enumerate(VOTES)
    ]


def toloka(folder):
    return csv(folder / "assignments.tsv", toloka_rows(), "\t")


def argilla_records():
    return [
        {
            "id": f"rec-{task}",
            "fields": {"text": f"text {task}"},
            "metadata": {},
            "suggestions": {"sentiment": {"value": "Neutral", "score": 0.5, "agent": "gpt"}},
            "responses": {
                "sentiment": [{"value": label, "user_id": w, "status": "submitted"} for t, w, label in VOTES if t == task]
            },
            "vectors": {},
            "status": "completed",
            "_server_id": f"s{task}",
        }
        for task in TASKS
    ]


def argilla(folder):
    return dump(folder / "records.json", argilla_records())


def flat_records():
    return [
        {
            "id": f"rec-{task}",
            "status": "completed",
            "text": f"text {task}",
            "sentiment.responses": [label for t, _, label in VOTES if t == task],
            "sentiment.responses.users": [w for t, w, _ in VOTES if t == task],
            "sentiment.responses.status": ["submitted" for t, *_ in VOTES if t == task],
            "sentiment.suggestion": "Neutral",
            "sentiment.suggestion.score": 0.5,
            "sentiment.suggestion.agent": "gpt",
        }
        for task in TASKS
    ]


def argilla_flat(folder):
    return dump(folder / "flat.json", flat_records())


def argilla_lines(folder):
    return lines(folder / "flat.jsonl", flat_records())


def argilla_parquet(folder):
    pl.DataFrame(flat_records()).write_parquet(folder / "flat.parquet")
    return folder / "flat.parquet"


def choice_records():
    return [
        {
            "text": f"text {t}",
            "_input_hash": t - 200,
            "_task_hash": 7 * t,
            "options": [{"id": label, "text": label.lower()} for label in LABELS],
            "_session_id": f"db-{w}",
            "_annotator_id": w,
            "_view_id": "choice",
            "accept": [label],
            "config": {"choice_style": "single"},
            "answer": "accept",
            "_timestamp": 1700000000,
        }
        for t, w, label in VOTES
    ]


def prodigy_choice(folder):
    return lines(folder / "choice.jsonl", choice_records())


def binary_records(label="Positive"):
    return [
        {
            "text": f"text {t}",
            "_input_hash": t,
            "_task_hash": 7 * t,
            "label": label,
            "_view_id": "classification",
            "answer": "accept" if given == label else "reject",
            "_session_id": f"db-{w}",
        }
        for t, w, given in VOTES
    ]


def prodigy_binary(folder):
    return lines(folder / "binary.jsonl", binary_records())


def doccano_files():
    return {
        f"{w}.jsonl": [{"id": t, "text": f"text {t}", "label": [label], "Comments": []} for t, v, label in VOTES if v == w]
        for w in WORKERS
    }


def doccano_folder(folder):
    place = folder / "doccano"
    place.mkdir()
    for name, records in doccano_files().items():
        lines(place / name, records)
    return place


def doccano_zip(folder):
    path = folder / "doccano.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, records in doccano_files().items():
            archive.writestr(name, "".join(json.dumps(record) + "\n" for record in records))
    return path


LEVELS = dict(zip(LABELS, ("NOT_HELPFUL", "SOMEWHAT_HELPFUL", "HELPFUL"), strict=True))


def notes_rows():
    return [
        {
            "noteId": 10**18 + t,
            "raterParticipantId": w.upper() * 8,
            "createdAtMillis": 1700000000000,
            "version": 2,
            "agree": 0,
            "helpful": 0,
            "notHelpful": 0,
            "helpfulnessLevel": LEVELS[label],
        }
        for t, w, label in VOTES
    ]


def community_notes(folder):
    return csv(folder / "ratings-00000.tsv", notes_rows(), "\t")


def crowdflower_rows():
    return [
        {
            "_unit_id": t,
            "_created_at": "1/1/2014 00:00:00",
            "_golden": "false",
            "_id": n,
            "_missed": None,
            "_started_at": "1/1/2014 00:00:00",
            "_tainted": "false",
            "_channel": "neodev",
            "_trust": 0.9,
            "_worker_id": NUMBER[w],
            "_country": "USA",
            "sentiment": label,
            "orig__golden": None,
            "sentiment_gold": None,
            "text": f"text {t}",
        }
        for n, (t, w, label) in enumerate(VOTES)
    ]


def crowdflower(folder):
    return csv(folder / "f1.csv", crowdflower_rows())


def netease_rows():
    return [
        {
            "taskId": t,
            "tasksetId": 1,
            "workerId": NUMBER[w],
            "answer": LABELS.index(label),
            "completeTime": 1600000000000,
            "truth": LABELS.index(TRUTH[t]),
            "capability": 69,
        }
        for t, w, label in VOTES
    ]


def netease(folder):
    return csv(folder / "NetEaseCrowd.csv", netease_rows())


def script_files(folder):
    place = folder / "script"
    place.mkdir()
    (place / "crowd.csv").write_text("".join(f"{NUMBER[w]},{t},{label}\n" for t, w, label in VOTES))
    (place / "gold.csv").write_text("".join(f"{t},{label}\n" for t, label in TRUTH.items()))
    return place


def script_file(folder):
    return script_files(folder) / "crowd.csv"


def truth_inference(folder, votes="label.csv", header="item,worker,label", truth="item,truth"):
    place = folder / f"inference-{votes}"
    place.mkdir()
    (place / votes).write_text(header + "\n" + "".join(f"{t},{w},{label}\n" for t, w, label in VOTES))
    (place / "truth.csv").write_text(truth + "\n" + "".join(f"{t},{label}\n" for t, label in TRUTH.items()))
    return place


def truth_inference_answers(folder):
    return truth_inference(folder, "answer.csv", "question,worker,answer", "question,truth")


def peerannot(folder):
    answers = {}
    for t, w, label in VOTES:
        answers.setdefault(str(t), {})[str(NUMBER[w])] = LABELS.index(label)
    return dump(folder / "answers.json", answers)


# name of the export -> (the name of its format, how it is written, how its label follows from the crowd's)
EXPORTS = {
    "label-studio": ("label-studio", label_studio, str),
    "label-studio-csv": ("label-studio-min", label_studio_csv, str),
    "label-studio-json-min": ("label-studio-min", label_studio_json_min, str),
    "mturk": ("mturk", mturk, str),
    "toloka": ("toloka", toloka, str),
    "argilla": ("argilla", argilla, str),
    "argilla-flat": ("argilla-flat", argilla_flat, str),
    "argilla-lines": ("argilla-flat", argilla_lines, str),
    "argilla-parquet": ("argilla-flat", argilla_parquet, str),
    "prodigy-choice": ("prodigy", prodigy_choice, str),
    "prodigy-binary": ("prodigy", prodigy_binary, lambda label: "accept" if label == "Positive" else "reject"),
    "doccano-zip": ("doccano", doccano_zip, str),
    "doccano-folder": ("doccano", doccano_folder, str),
    "community-notes": ("community-notes", community_notes, LEVELS.get),
    "crowdflower": ("crowdflower", crowdflower, str),
    "netease-crowd": ("netease-crowd", netease, lambda label: str(LABELS.index(label))),
    "fast-dawid-skene": ("fast-dawid-skene", script_files, str),
    "fast-dawid-skene-file": ("fast-dawid-skene", script_file, str),
    "truth-inference": ("truth-inference", truth_inference, str),
    "truth-inference-answers": ("truth-inference", truth_inference_answers, str),
    "peerannot": ("peerannot", peerannot, lambda label: str(LABELS.index(label))),
}
