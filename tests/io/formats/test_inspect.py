"""Logs of Inspect, made by inspect_ai itself: votes against another reading of the same log, and every way a log can be wrong."""

import gzip
import io
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

import adjudge as adj
from adjudge.io.formats import archive
from adjudge.io.formats.export import SeveralQuestions
from adjudge.io.formats.registry import FORMATS, look
from adjudge.io.frames import frame_of

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
CORPUS = Path(__file__).parents[1] / "corpus" / "inspect"
TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorials" / "arithmetic.eval"
ZIP = archive._zip_library()
JUDGES = ("judges.eval", "deflate.eval", "people.eval", "chunked.eval")
PANELS = {"panel.json.gz": "judge(name={}, skill={})", "arithmetic.eval": "judge(name={}, skill={})"}
GRADERS = {"panel.json.gz": (("x", 0.95), ("y", 0.9), ("z", 0.85))}
GRADERS["arithmetic.eval"] = (("strict", 0.95), ("lenient", 0.9), ("terse", 0.8), ("guessing", 0.55))


def path_of(name):
    return TUTORIAL if name == TUTORIAL.name else CORPUS / name


def members(path):
    with ZIP.ZipFile(path) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def samples_of(path):
    """The samples of a log, decoded by the standard library, which knows NaN."""
    if path.suffix == ".gz":
        return json.loads(gzip.decompress(path.read_bytes()))["samples"]
    found = members(path)
    return [
        json.loads(data)
        for name, data in found.items()
        if name.startswith("samples/") and (name.endswith("/sample.json") or name.count("/") == 1)
    ]


def expected(name):
    """(task, judge, label) of every vote and abstention, from the log's JSON."""
    samples = [sample for sample in samples_of(path_of(name)) if sample.get("scores") and not sample.get("invalidation")]
    epochs = {sample["epoch"] for sample in samples}
    scorers = {scorer for sample in samples for scorer in sample["scores"]}
    out = []
    for sample in samples:
        task = str(sample["id"]) + (f"/{sample['epoch']}" if len(epochs) > 1 else "")
        for scorer in scorers:
            score = sample["scores"].get(scorer, {"value": None})
            value, history = score["value"], score.get("history") or []
            panel = (score.get("metadata") or {}).get("panel")
            edits = [edit for edit in history if edit.get("provenance") and edit["value"] != "UNCHANGED"]
            people = {edit["provenance"]["author"]: edit["value"] for edit in edits}
            out += [(task, author, plain(label)) for author, label in people.items()]
            if panel:
                graders = [PANELS[name].format(*grader) for grader in GRADERS[name]]
                out += [(task, judge, plain(label)) for judge, label in zip(graders, panel["votes"], strict=True)]
            elif scorer != "expert":  # whose only score a person has added
                out.append((task, scorer, plain(history[0]["value"] if history else value)))
    return sorted((t, w, label) for t, w, label in out if label is not None), sum(label is None for *_, label in out)


def plain(value):
    if value is None or value == "N" or (isinstance(value, float) and math.isnan(value)):
        return None
    return str(value).lower() if isinstance(value, bool) else value


def ballots(votes):
    return sorted((str(t), str(w), str(label)) for t, w, label in frame_of(votes).rows())


def refused(path, message, **options):
    with pytest.raises(adj.InputError, match=message) as raised:
        adj.read(path, **options)
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("name", [*JUDGES, *PANELS])
def test_votes_are_those_of_the_log(name):
    votes = adj.read(path_of(name))
    wanted, abstentions = expected(name)
    assert ballots(votes) == wanted
    assert (votes.abstentions, votes.understood.abstentions) == (abstentions, abstentions)
    assert (votes.understood.format, votes.understood.columns["label"]) == ("inspect", "scores[].value")
    several = "people.eval" if name == "people.eval" else None
    assert votes.understood.skipped == ({"invalidated samples": 1, "samples without scores": 1} if several else {})
    assert votes.found_gold is None  # a target says nothing about which judge is right


@pytest.mark.parametrize("name", sorted(p.name for p in CORPUS.iterdir() if p.is_file() and p.suffix != ".py"))
def test_logs_are_recognised_as_such_and_as_nothing_else(name):
    content = look(CORPUS / name, name)
    assert [form.name for form in FORMATS.values() if form.test(content)] == ["inspect"]


def test_a_log_saved_again_in_one_line_or_without_a_telling_name_is_the_same(tmp_path):
    path = CORPUS / "panel.json.gz"
    log = json.loads(gzip.decompress(path.read_bytes()))
    wanted = ballots(adj.read(path))
    for name, text in {"line.json": json.dumps(log), "pretty.json": json.dumps(log, indent=2), "log": json.dumps(log)}.items():
        (tmp_path / name).write_text(text)
    assert ballots(adj.read(tmp_path / "line.json")) == wanted
    assert ballots(adj.read(tmp_path / "pretty.json")) == wanted
    with (tmp_path / "log").open("rb") as stream:
        assert ballots(adj.read(stream)) == wanted
    with (CORPUS / "judges.eval").open("rb") as stream:
        assert ballots(adj.read(io.BytesIO(stream.read()))) == ballots(adj.read(CORPUS / "judges.eval"))


def test_the_screen_says_who_was_taken_for_a_judge():
    assert str(adj.read(CORPUS / "judges.eval").understood) == (
        "inspect: task=sample.id, worker=scorer (judge, judge1, judge2 as judges of one question), label=scores[].value; "
        "66 votes, 6 abstentions"
    )
    understood = adj.read(CORPUS / "panel.json.gz").understood
    assert understood.columns["task"] == "sample.id/epoch"


def test_questions_are_refused_naming_the_flag():
    error = refused(CORPUS / "rubric.eval", "has 3 questions: correct .*tone .*clarity .*--question NAME")
    assert isinstance(error, SeveralQuestions)
    votes = adj.read(CORPUS / "rubric.eval", question="correct")
    wanted = []
    for sample in samples_of(CORPUS / "rubric.eval"):
        for scorer, score in sample["scores"].items():
            if isinstance(score["value"], dict):
                wanted.append((sample["id"], scorer, plain(score["value"]["correct"])))
    assert ballots(votes) == sorted(wanted)
    assert votes.abstentions == 48 - len(wanted)  # scores without a value are abstentions of every question
    refused(CORPUS / "rubric.eval", r"clarity \(0.0\d? to 0.99\) has numbers.*`adjudge scores`", question="clarity")
    error = refused(CORPUS / "questions.eval", "polite agree no better than chance")
    assert error.questions == ("judge,judge1,judge2", "polite")
    assert set(adj.read(CORPUS / "questions.eval", question="polite").workers.ids()) == {"polite"}


def test_numbers_name_the_other_command():
    refused(CORPUS / "numbers.eval", "has 2 questions: 'grade,grade1' .*grade2")
    refused(CORPUS / "numbers.eval", "has numbers, which are scores and not labels: `adjudge scores`", question="grade")
    grades = adj.read(CORPUS / "numbers.eval", question="grade2", labels=[1, 2, 3, 4, 5])
    assert (len(grades), grades.labels.ids()) == (20, [1, 2, 3, 4, 5])


def test_several_logs_are_distinguished(tmp_path):
    for name, model in (("a.eval", "openai/gpt"), ("b.eval", "google/gemini")):
        rewrite(CORPUS / "judges.eval", tmp_path / name, model=model)
    votes = adj.read(str(tmp_path / "*.eval"))
    one = adj.read(CORPUS / "judges.eval")
    assert (len(votes), votes.n_tasks, votes.n_workers) == (2 * len(one), 2 * one.n_tasks, 3)
    assert votes.understood.columns["task"] == "model/sample.id"
    assert set(votes.tasks.ids()) >= {"openai/gpt/q0", "google/gemini/q0"}
    with pytest.raises(adj.InputError, match="two of these are the same log, 'task': name each log once"):
        adj.read([tmp_path / "a.eval", tmp_path / "a.eval"])
    with pytest.raises(adj.InputError, match="several formats"):
        adj.read([tmp_path / "a.eval", CORPUS.parent / "plain.csv"])


def rewrite(source, path, change=None, drop=(), model=None, method=ZIP.ZIP_DEFLATED):
    """Write a log again with other members."""
    found = {name: data for name, data in members(source).items() if name not in drop}
    if model is not None:
        header = json.loads(found["header.json"])
        header["eval"]["model"] = model
        found["header.json"] = json.dumps(header).encode()
    found |= change or {}
    with ZIP.ZipFile(path, "w", method) as file:
        for name, data in found.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("method", [ZIP.ZIP_STORED, ZIP.ZIP_DEFLATED, ZIP.ZIP_ZSTANDARD])
def test_members_packed_in_any_way(tmp_path, method):
    path = rewrite(CORPUS / "judges.eval", tmp_path / "a.eval", method=method)
    assert ballots(adj.read(path)) == expected("judges.eval")[0]


def test_a_log_that_is_still_written_is_read_as_far_as_it_goes(tmp_path):
    names = members(CORPUS / "judges.eval")
    last = {name for name in names if name.endswith(("header.json", "summaries.json", "reductions.json", "q5_epoch_1.json"))}
    votes = adj.read(rewrite(CORPUS / "judges.eval", tmp_path / "a.eval", drop=last))
    assert ballots(votes) == [vote for vote in expected("judges.eval")[0] if vote[0] != "q5"]


def test_of_two_records_of_a_sample_the_last_one_counts(tmp_path):
    name = "samples/q0_epoch_1.json"
    sample = json.loads(members(CORPUS / "judges.eval")[name])
    sample["scores"]["judge"]["value"] = "P"
    path = rewrite(CORPUS / "judges.eval", tmp_path / "a.eval")
    with ZIP.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr(name, json.dumps(sample))
    assert ("q0", "judge", "P") in ballots(adj.read(path))
    assert len(adj.read(path)) == 66


@pytest.mark.parametrize(("version", "remedy"), [(1, "`inspect log convert` updates it"), (3, "a newer adjudge may read it")])
def test_logs_of_other_versions(tmp_path, version, remedy):
    header = json.loads(members(CORPUS / "judges.eval")["header.json"]) | {"version": version}
    for changed in (header, {**header, "eval": {"changed": True}}):
        path = rewrite(CORPUS / "judges.eval", tmp_path / "a.eval", {"header.json": json.dumps(changed).encode()})
        refused(path, f"Inspect log of version {version}, and version 2 is read: {remedy}")
    (tmp_path / "a.json").write_text(json.dumps({**header, "samples": [{"other": 1}]}))
    refused(tmp_path / "a.json", f"Inspect log of version {version}")


def test_damaged_logs_get_one_line(tmp_path):
    source = CORPUS / "judges.eval"
    whole = source.read_bytes()
    for size in (3, 40, len(whole) // 2, len(whole) - 10):
        (tmp_path / "cut.eval").write_bytes(whole[:size])
        with pytest.raises(adj.InputError) as raised:
            adj.read(tmp_path / "cut.eval")
        assert "\n" not in str(raised.value)
    name = "samples/q3_epoch_1.json"
    cases = {
        b"": f"{name} is damaged",
        b'{"id": 1, "scores": {"judge": {"value": NaN}': f"{name} is damaged",
        b'{"id": 1, "scores": [1]}': f"{name} is damaged: Expected `object",
        b'{"id": 1, "scores": {"judge": {"value": {"a": {"b": 1}}}}}': "the verdict of 'judge' on task '1' is {'b': 1}",
        b'{"epoch": 1}': "damaged: Object missing required field `id`",
        b"[" * 100_000: "is damaged",
    }
    for data, message in cases.items():
        refused(rewrite(source, tmp_path / "a.eval", {name: data}), message)
    for data, message in {b"{}": "missing required field `version`", b"": "header.json is damaged"}.items():
        refused(rewrite(source, tmp_path / "b.eval", {"header.json": data}), message)
    samples = [name for name in members(source) if name.startswith("samples/")]
    refused(rewrite(source, tmp_path / "c.eval", drop=samples), "has no verdicts: nobody has scored anything in it")
    flipped = bytearray(whole)
    at = whole.index(b"samples/q3_epoch_1.json") + 60
    flipped[at : at + 40] = bytes(40)
    (tmp_path / "d.eval").write_bytes(flipped)
    refused(tmp_path / "d.eval", "samples/q3_epoch_1.json.* cannot be unpacked|damaged")


def test_ids_of_samples_are_data(tmp_path):
    """Sample ids name members of the archive, and may look like paths; none is used as one."""
    source = members(CORPUS / "judges.eval")
    kept = {name: data for name, data in source.items() if not name.startswith("samples/")}
    ids = ["../../evil", "/etc/passwd", "C:\\x", "a b/c: d?", "_epoch_7", "7"]
    draw = random.Random(1)
    with ZIP.ZipFile(tmp_path / "a.eval", "w") as file:
        for name, data in kept.items():
            file.writestr(name, data)
        for one in ids:
            scores = {judge: {"value": draw.choice("CI"), "history": []} for judge in ("judge", "judge1")}
            file.writestr(f"samples/{one}_epoch_1.json", json.dumps({"id": one, "epoch": 1, "scores": scores}))
    votes = adj.read(tmp_path / "a.eval", question="judge,judge1")
    assert votes.tasks.texts() == ids
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.eval"]


def test_more_samples_than_members_of_other_archives(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_MEMBERS", 3)
    assert len(adj.read(CORPUS / "judges.eval")) == 66


ORACLE = """
import json, math, sys
from inspect_ai.log import read_eval_log
def label(value):
    if isinstance(value, float) and math.isnan(value): return None
    return value
out = {}
for path in sys.argv[1:]:
    log = read_eval_log(path)
    out[path] = [
        [str(s.id), s.epoch, name, label(v), bool(score.history), s.invalidation is not None]
        for s in log.samples for name, score in (s.scores or {}).items()
        for v in [score.history[0].value if score.history else score.value]
    ]
print("ORACLE" + json.dumps(out))
"""


@pytest.mark.slow
def test_scores_are_those_that_inspect_itself_reads(tmp_path):
    pytest.importorskip("inspect_ai")
    unpacked = tmp_path / "panel.json"
    unpacked.write_bytes(gzip.decompress((CORPUS / "panel.json.gz").read_bytes()))
    paths = [*(CORPUS / name for name in ("judges.eval", "deflate.eval", "people.eval")), unpacked]
    command = [sys.executable, "-c", ORACLE, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout.partition("ORACLE")[2])
    for path in paths:
        rows = [row for row in read[str(path)] if not row[5]]
        epochs = len({row[1] for row in rows}) > 1
        wanted = sorted(
            (f"{id_}/{epoch}" if epochs else id_, scorer, value)
            for id_, epoch, scorer, value, *_ in rows
            if value not in (None, "N") and scorer not in ("expert", "multi_scorer")
        )
        people = {"ann@example.org", "eve"}
        votes = [vote for vote in ballots(adj.read(path)) if vote[1] not in people and "(" not in vote[1]]
        assert votes == wanted, path


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library unpacks Zstandard")
def test_without_a_library_for_zstandard_the_error_names_it():
    # In a process of its own: inspect_ai, which other tests import, teaches the standard library this method.
    code = "import sys; sys.modules['backports.zstd'] = sys.modules['backports'] = None\nimport adjudge as adj\n"
    code += f"try: adj.read({str(CORPUS / 'judges.eval')!r})\nexcept adj.errors.InputError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "is packed with a method that is not supported here: install backports.zstd, or use Python 3.14" in done.stdout, done
