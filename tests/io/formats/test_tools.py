"""Logs of evaluation tools, made by the tools: every form gives the verdicts that were logged, and nothing is misread."""

import gzip
import json
import random
import sys
from importlib import import_module
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import adjudge as adj
import exports
from adjudge.io.formats.export import Ask, SeveralQuestions, read_export, read_items
from adjudge.io.formats.registry import FORMATS, look, recognise
from adjudge.io.frames import frame_of
from exports import EXPORTS

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.errors.MissingLabels")
CORPUS = Path(__file__).parents[1] / "corpus"
TOOLS = CORPUS / "tools"
sys.path.insert(0, str(TOOLS))
jury = import_module("jury")
sys.path.remove(str(TOOLS))


def words(right, wrong):
    return lambda value: right if value else wrong


BOOLEANS, WORDS, DIGITS = words("true", "false"), words("right", "wrong"), words("1", "0")
GRADERS = ",".join(f"correct{{0}}{grader}" for grader in jury.GRADERS)
# file: (format, question or None, its judges' names, its labels, whether the person's reviews are in it, failed verdicts kept)
LOGS = {
    "console-logs.jsonl": ("opentelemetry", GRADERS.format("."), "correct.{}", words("pass", "fail"), False, True),
    "langfuse-scores-v2.json": ("langfuse", "correct-*", "correct-{} (EVAL)", WORDS, False, False),
    "langfuse-scores.json": ("langfuse", "correct-*", "correct-{} (EVAL)", BOOLEANS, False, False),
    "langsmith-feedback.jsonl": ("langsmith", "correctness", "{}", WORDS, True, True),
    "mlflow-frame.json.gz": ("mlflow", None, "openai:/{}", BOOLEANS, True, True),
    "mlflow-frame.parquet": ("mlflow", None, "openai:/{}", BOOLEANS, True, True),
    "mlflow-traces.jsonl": ("mlflow", None, "openai:/{}", BOOLEANS, True, True),
    "opik-traces.json": ("opik", "correct", "{}", WORDS, True, False),
    "otlp-logs.jsonl": ("opentelemetry", GRADERS.format("."), "correct.{}", words("pass", "fail"), False, True),
    "otlp-traces.json": ("opentelemetry", None, "correct.{}", words("pass", "fail"), False, True),
    "phoenix-annotations.csv": ("phoenix", "correct", "{}", WORDS, True, True),
    "phoenix-annotations.jsonl": ("phoenix", "correct", "{}", WORDS, True, True),
    "phoenix-annotations.parquet": ("phoenix", "correct", "{}", WORDS, True, True),
    "promptfoo.json.gz": ("promptfoo", None, "{}", BOOLEANS, False, True),
    "promptfoo.jsonl.gz": ("promptfoo", None, "{}", BOOLEANS, False, True),
    "trulens-feedback.jsonl": ("trulens", None, "correct_{}", DIGITS, True, True),
    "trulens-records.json": ("trulens", GRADERS.format("_"), "correct_{}", DIGITS, False, True),
}
OTHERS = {"opik-export.json": "opik", "promptfoo-providers.json.gz": "promptfoo"}
PEOPLE = {"trulens": "Human Feedback"}
NOT_JSON = ("phoenix-annotations.csv", "phoenix-annotations.parquet", "mlflow-frame.parquet")


def expected(name):
    """(answer, judge, label) of the jury as this log should have it, and the number of abstentions."""
    form, _, judge, label, has_reviews, keeps_failures = LOGS[name]
    verdicts = jury.verdicts()
    if form == "promptfoo":  # a test in which one grader fails has no verdicts at all
        failed = {n for _, n, value in verdicts if value is None}
        verdicts = [(grader, n, None if n in failed else value) for grader, n, value in verdicts]
    votes = [(n, judge.format(grader), label(value)) for grader, n, value in verdicts if value is not None]
    if has_reviews:
        votes += [(n, PEOPLE.get(form, jury.PERSON), label(value)) for n, value in jury.reviews()]
    return sorted(votes), sum(value is None for *_, value in verdicts) if keeps_failures else 0


def numbers_of(path):
    """The answer's number for every task that a log has; ids are those of the tool, in the order of the answers where no more is known."""
    form = LOGS[path.name][0]
    texts = {jury.answer(n)[0]: n for n in range(jury.ANSWERS)}
    if form in ("mlflow", "trulens") and "feedback" not in path.name:
        content = look(path, str(path))
        found = {}
        for task, item in read_items(FORMATS[form], [content]):
            question = item.get("request") or item.get("input")
            question = json.loads(question) if isinstance(question, str) and question.startswith("{") else question
            found[task] = texts[question["question"] if isinstance(question, dict) else question]
        return found.__getitem__
    return {
        "langsmith": lambda task: int(task[-12:], 16) - 1,
        "phoenix": lambda task: int(task, 16) - 1,
        "opik": lambda task: int(task.split("-")[1]),
        "promptfoo": int,
    }.get(form, lambda task: int(task.rpartition("-")[2].rpartition("_")[2]))


def ballots(votes, number):
    return sorted((number(str(task)), str(worker), str(label)) for task, worker, label in frame_of(votes).rows())


def refused(source, message="", **options):
    with pytest.raises((adj.InputError, adj.OptionError), match=message) as raised:
        adj.read(source, **options)
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("name", LOGS)
def test_the_verdicts_that_went_in_come_out(name):
    form, question, *_ = LOGS[name]
    path = TOOLS / name
    votes = adj.read(path, question=question)
    wanted, abstentions = expected(name)
    assert ballots(votes, numbers_of(path)) == wanted
    assert (votes.abstentions, votes.understood.format) == (abstentions, form)
    if question is not None:  # without a flag the log is refused, and the error names the questions
        error = refused(path, "--question NAME")
        assert isinstance(error, SeveralQuestions)
        assert adj.read(path, question=next(q for q in error.questions if q.startswith("correct"))).n_tasks <= jury.ANSWERS


@pytest.mark.parametrize("name", [*LOGS, *OTHERS])
def test_each_log_is_recognised_as_its_own_and_as_no_other(name):
    own = OTHERS.get(name) or LOGS[name][0]
    content = look(TOOLS / name, name)
    assert [form.name for form in FORMATS.values() if form.test(content)] == [own]
    for other in FORMATS:
        if other not in (own, "fast-dawid-skene"):  # which takes any table of three columns when it is named
            with pytest.raises(adj.InputError, match=f"does not look like {other}: .* expected"):
                recognise([content], other)


@pytest.mark.parametrize("name", [name for name in LOGS if name not in NOT_JSON])
def test_json_logs_saved_in_other_ways_are_the_same(tmp_path, name):
    path = TOOLS / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    is_lines = ".jsonl" in name
    records = [json.loads(line) for line in data.splitlines()] if is_lines else json.loads(data)
    saved = {
        "packed.json.gz": gzip.compress(data),
        "one line.json": json.dumps(records).encode(),
        "pretty.json": json.dumps(records, indent=2).encode(),
        "marked.json": b"\xef\xbb\xbf" + json.dumps(records).encode(),
    }
    if isinstance(records, list):
        saved["lines.jsonl"] = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    question = LOGS[name][1]
    wanted = ballots(adj.read(path, question=question), numbers_of(path))
    for other, content in saved.items():
        if LOGS[name][0] == "opentelemetry" and is_lines and not other.startswith(("packed", "lines")):
            continue  # an array of messages of OTLP is nothing that a tool writes
        (tmp_path / other).write_bytes(content)
        assert ballots(adj.read(tmp_path / other, question=question), numbers_of(path)) == wanted, other
    if isinstance(records, list) and LOGS[name][0] != "opentelemetry":
        assert ballots(adj.read(records, question=question), numbers_of(path)) == wanted


@pytest.mark.parametrize("name", ["mlflow-frame.parquet", "phoenix-annotations.parquet"])
def test_frames_are_the_same(name):
    path = TOOLS / name
    question = LOGS[name][1]
    wanted = ballots(adj.read(path, question=question), numbers_of(path))
    frame = pd.read_parquet(path)
    for source in (pl.read_parquet(path), frame, pl.read_parquet(path).to_arrow()):
        assert ballots(adj.read(source, question=question), numbers_of(path)) == wanted
    if "mlflow" in name:  # as search_traces returns it: cells are lists of dicts
        frame["assessments"] = [[dict(one) for one in cell] for cell in frame["assessments"]]
        assert ballots(adj.read(frame, question=question), numbers_of(path)) == wanted


NUMBERS = {
    "console-logs.jsonl": ("quality", ["quality"]),
    "langsmith-feedback.jsonl": ("quality-*", [f"quality-{grader} (api)" for grader in jury.GRADERS]),
    "opik-traces.json": ("quality", ["quality (online_scoring)"]),
    "otlp-logs.jsonl": ("quality", ["quality"]),
    "phoenix-annotations.csv": ("quality", list(jury.GRADERS)),
    "phoenix-annotations.parquet": ("quality", list(jury.GRADERS)),
    "promptfoo.json.gz": (None, list(jury.GRADERS)),
    "trulens-records.json": ("quality", ["quality"]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_for_scores_and_come_out_as_they_are(name):
    path = TOOLS / name
    question, judges = NUMBERS[name]
    form = LOGS[name][0]
    if question is not None:
        refused(path, r"has numbers, which are scores and not labels: `adjudge scores`", question=question)
    votes = read_export(FORMATS[form], [look(path, name)], Ask(numbers=True, question=question)).votes
    number = numbers_of(path)
    graders = dict(zip(judges, jury.GRADERS, strict=False))
    scores = {(number(t), graders[w]): value for t, w, value in votes.rows() if value is not None}
    failed = {n for _, n, value in jury.verdicts() if value is None} if form == "promptfoo" else ()
    wanted = {(n, g): jury.grade(g, n) for n in range(jury.ANSWERS) for g in graders.values() if n not in failed}
    assert scores == pytest.approx(wanted)


def test_gold_and_overridden_assessments_of_mlflow():
    votes = adj.read(TOOLS / "mlflow-traces.jsonl")
    assert votes.understood.gold == 1
    assert votes.understood.skipped == {"assessments that their source has overridden": 1}
    number = numbers_of(TOOLS / "mlflow-traces.jsonl")
    gold = votes.found_gold
    assert [number(task) for task in gold.tasks.ids()] == [1]
    assert votes.labels.ids()[gold.labels[0]] == BOOLEANS(jury.answer(1)[2])


def test_promptfoo_keeps_providers_and_prompts_apart(tmp_path):
    path = TOOLS / "promptfoo-providers.json.gz"
    error = refused(path, "has 3 questions: 'strict,lenient' .*, contains .*, regex ")
    assert error.questions == ("strict,lenient", "contains", "regex")
    votes = adj.read(path, question="strict,lenient")
    assert (len(votes), votes.abstentions, votes.n_tasks) == (56, 8, 28)
    assert "0/first/prompt 0" in votes.tasks.ids()
    log = json.loads(gzip.decompress(path.read_bytes()))
    for result in log["results"]["results"]:
        for component in (result["gradingResult"] or {}).get("componentResults", []):
            component["metadata"] = {"graderError": True}
    (tmp_path / "failed.json").write_text(json.dumps(log))
    refused(tmp_path / "failed.json", "no verdicts but abstentions")
    (tmp_path / "a.json.gz").write_bytes(path.read_bytes())
    (tmp_path / "b.json.gz").write_bytes(path.read_bytes())
    both = adj.read(str(tmp_path / "*.json.gz"), question="strict,lenient")
    assert (len(both), both.n_tasks) == (112, 56)


def test_several_exported_traces_of_opik_are_one_log(tmp_path):
    exported = json.loads((TOOLS / "opik-export.json").read_text())
    for trace in json.loads((TOOLS / "opik-traces.json").read_text()):
        (tmp_path / f"trace_{trace['id']}.json").write_text(json.dumps({**exported, "trace": trace}, indent=2))
    wanted, _ = expected("opik-traces.json")
    number = numbers_of(TOOLS / "opik-traces.json")
    assert ballots(adj.read(str(tmp_path / "trace_*.json"), question="correct"), number) == wanted


def test_a_judge_under_several_names_is_several_workers_if_names_are_joined(tmp_path):
    rows = [
        {"span_id": str(n), "annotation_name": name, "annotator_kind": "LLM", "identifier": "gpt", "result.label": "xy"[n % 2]}
        for n in range(8)
        for name in ("a", "b")
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    refused(tmp_path / "a.json", "has 2 questions: a .*, b ")
    assert set(adj.read(tmp_path / "a.json", question="a,b").workers.ids()) == {"a (gpt)", "b (gpt)"}
    assert set(adj.read(tmp_path / "a.json", question="a").workers.ids()) == {"gpt"}


ITEMS = {
    "mlflow-frame.json.gz": ("request", "response"),
    "mlflow-traces.jsonl": ("request", "response"),
    "opik-traces.json": ("input", "output"),
    "otlp-traces.json": ("input", "output"),
    "promptfoo.json.gz": ("question", "output"),
    "trulens-records.json": ("input", "output"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_have_the_tasks_of_the_votes_and_what_was_judged(name):
    path = TOOLS / name
    form, question, *_ = LOGS[name]
    items = dict(read_items(FORMATS[form], [look(path, name)]))
    votes = adj.read(path, question=question)
    assert set(items) >= {str(task) for task in votes.tasks.ids()}
    asked, given = ITEMS[name]
    number = numbers_of(path)
    for task, item in items.items():
        question, answer, _ = jury.answer(number(task))
        assert question in str(item[asked])
        assert answer in str(item[given]) or item[given] is None  # promptfoo drops the answer of a test that failed


def test_items_of_inspect_and_of_formats_without_any():
    path = CORPUS / "inspect" / "judges.eval"
    items = dict(read_items(FORMATS["inspect"], [look(path, "judges.eval")]))
    assert set(adj.read(path).tasks.ids()) <= set(items)
    assert items["q0"] == {"input": "What is 39 + 64?", "target": "103", "output": "That makes 103."}
    assert list(read_items(FORMATS["langsmith"], [look(TOOLS / "langsmith-feedback.jsonl", "x")])) == []


@pytest.mark.parametrize("name", ["label-studio", "argilla", "argilla-flat", "argilla-parquet", "prodigy-choice"])
def test_items_of_annotation_tools(tmp_path, name):
    form, write, _ = EXPORTS[name]
    path = write(tmp_path)
    items = dict(read_items(FORMATS[form], [look(path, str(path))]))
    assert set(items) == {str(task) for task in adj.read(path).tasks.ids()}
    assert all(str(item["text"]).startswith("text") for item in items.values())


@pytest.mark.parametrize("name", [name for name in (*LOGS, *OTHERS) if not name.endswith(".csv")])
def test_damaged_logs_get_one_line(tmp_path, name):
    path = TOOLS / name
    data = path.read_bytes()
    question = LOGS[name][1] if name in LOGS else "correct"
    for size in (0, 2, 40, len(data) // 2, len(data) - 3):
        cut = tmp_path / name
        cut.write_bytes(data[:size])
        with pytest.raises((adj.InputError, adj.OptionError)) as raised:
            adj.read(cut, question=question)
        assert "\n" not in str(raised.value)


DAMAGED = {
    "opik-traces.json": ("feedback_scores", 3, r"opik-traces.json is damaged: Expected `array \| null`, got `int`"),
    "langsmith-feedback.jsonl": (
        "key",
        None,
        r"langsmith-feedback.jsonl: line 2 is damaged: Expected `str`, got `null` - at `\$.key`",
    ),
    "langfuse-scores-v2.json": ("dataType", "STARS", r"value of score 2 has the dataType 'STARS'; NUMERIC, BOOLEAN"),
    "phoenix-annotations.jsonl": ("span_id", 7, "line 2 is damaged: Expected `str`, got `int`"),
    "trulens-feedback.jsonl": ("result", [1], "line 2 is damaged: Expected `float"),
    "promptfoo.jsonl.gz": ("gradingResult", "x", "line 2 is damaged: Expected `object"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_inside_is_named(tmp_path, name):
    path = TOOLS / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    records = [json.loads(line) for line in data.splitlines()] if ".jsonl" in name else json.loads(data)
    field, value, message = DAMAGED[name]
    records[1][field] = value
    text = "".join(json.dumps(record) + "\n" for record in records) if ".jsonl" in name else json.dumps(records)
    (tmp_path / name.removesuffix(".gz")).write_text(text)
    refused(tmp_path / name.removesuffix(".gz"), message)


def places(value):
    """Every (container, key) of a JSON document."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@pytest.mark.parametrize("name", [name for name in (*LOGS, *OTHERS) if name not in NOT_JSON])
def test_values_of_other_types_give_votes_or_one_line(tmp_path, name):
    draw = random.Random(name)
    path = TOOLS / name
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    is_lines = ".jsonl" in name
    for changes in (1, 1, 3, 3, 10, 30, 60):
        log = [json.loads(line) for line in data.splitlines()] if is_lines else json.loads(data)
        for container, key in draw.sample(list(places(log)), changes):
            container[key] = draw.choice((None, "", 0, 1.5, True, [], {}, "x", [1], {"a": 1}, 10**30, float("nan")))
        changed = tmp_path / name.removesuffix(".gz")
        changed.write_text("".join(json.dumps(line) + "\n" for line in log) if is_lines else json.dumps(log))
        said = ""
        try:
            adj.read(changed, question=draw.choice((None, "correct*")))
        except (adj.InputError, adj.OptionError) as error:
            said = str(error)
        assert "\n" not in said


def test_events_of_opentelemetry_without_a_name(tmp_path):
    event = json.loads((TOOLS / "console-logs.jsonl").read_text().splitlines()[0])
    for name in (None, 3, ["x"]):
        event["attributes"]["gen_ai.evaluation.name"] = name
        (tmp_path / "a.jsonl").write_text(json.dumps(event) + "\n")
        refused(tmp_path / "a.jsonl", r"gen_ai.evaluation.name of an event gen_ai.evaluation.result is .*; text is expected")


EMPTY = {
    "promptfoo": {"evalId": "e", "results": {"version": 3, "results": []}, "config": {}},
    "mlflow": {"traces": [], "next_page_token": None},
    "opentelemetry": {"resourceLogs": []},
    "opik": {"trace": {"id": "t", "feedback_scores": []}, "spans": [], "downloaded_at": "2026"},
}


@pytest.mark.parametrize("form", EMPTY)
def test_empty_logs_say_so(tmp_path, form):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(EMPTY[form], indent=1))
    assert [f.name for f in FORMATS.values() if f.test(look(path, "empty.json"))] == [form]
    refused(path, "empty.json has no (verdicts|events gen_ai.evaluation.result)")


def test_what_only_resembles_a_log_is_none(tmp_path):
    objects = {
        "page.json": {"data": [{"id": 1}], "meta": {"page": 1}},
        "config.json": {"results": [1], "config": {}},
        "info.json": {"info": {"name": "x"}, "data": {"y": 1}},
        "cursor.json": {"data": [{"label": 1}], "next_cursor": None},
    }
    for name, value in objects.items():
        (tmp_path / name).write_text(json.dumps(value))
        assert not [f.name for f in FORMATS.values() if f.test(look(tmp_path / name, name)) and f.name != "peerannot"], name
    (tmp_path / "scores.jsonl").write_text('{"run_id": 1, "score": 2}\n{"run_id": 2, "score": 3}\n')
    assert not [f.name for f in FORMATS.values() if f.test(look(tmp_path / "scores.jsonl", "scores.jsonl"))]


def test_scores_of_langfuse_as_a_table(tmp_path):
    scores = json.loads((TOOLS / "langfuse-scores-v2.json").read_text())
    frame = pl.DataFrame([{k: v for k, v in score.items() if k != "metadata"} for score in scores], infer_schema_length=None)
    frame.write_csv(tmp_path / "scores.csv")
    wanted, _ = expected("langfuse-scores-v2.json")
    number = numbers_of(TOOLS / "langfuse-scores-v2.json")
    assert ballots(adj.read(tmp_path / "scores.csv", question="correct-*"), number) == wanted
    reviews = adj.read(tmp_path / "scores.csv", question="correct")
    assert ballots(reviews, number) == [(n, jury.PERSON, BOOLEANS(value)) for n, value in jury.reviews()]


def test_no_export_of_an_annotation_tool_is_a_log(tmp_path):
    tools = {form for form, *_ in LOGS.values()} | set(OTHERS.values())
    for name, (_, write, _) in EXPORTS.items():
        folder = tmp_path / name
        folder.mkdir()
        path = write(folder)
        assert not [form for form in tools if FORMATS[form].test(look(path, str(path)))], name
    assert exports.VOTES
