"""Small files as people have them: each is read as it is meant, or refused with what to say. None is misread."""

from pathlib import Path

import pytest

import adjudge as adj
from adjudge.io.frames import frame_of
from adjudge.io.reading import Reading
from adjudge.io.sets import read_sets

CORPUS = Path(__file__).parent / "corpus"
USUAL = [("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat"), ("t2", "bob", "cat")]
JUDGES = [(task, {"ann": "judge_1", "bob": "judge_2"}[worker], label) for task, worker, label in USUAL]
CODES = [("t1", "w1", 0), ("t1", "w2", 1), ("t2", "w1", 0), ("t2", "w2", 0)]
COUNTED = [("t1", "everybody", "cat")] * 3 + [("t1", "everybody", "dog")] + [("t2", "everybody", "cat")] * 2
ABSTENTIONS = "look like abstentions: abstain=\\['NA', 'skip'\\] \\(--abstain 'NA,skip'\\) makes them so"

# file; options; the columns it is read by, "task worker label"; the votes (those above where nothing stands).
READ = [
    ("plain.csv", {}, "task worker label"),
    ("plain.tsv", {}, "task worker label"),
    ("plain.jsonl", {}, "task worker label"),
    ("plain.parquet", {}, "item annotator label"),
    ("plain.arrow", {}, "item annotator label"),
    ("scale.parquet", {}, "item annotator label"),
    ("windows-line-ends.csv", {}, "task worker label"),
    ("no-final-newline.csv", {}, "task worker label"),
    ("blank-lines.csv", {}, "task worker label"),
    ("mark.csv", {}, "task worker label"),
    ("utf-16.csv", {}, "task worker label"),
    ("upper-case.csv", {}, "TASK WORKER LABEL"),
    ("camel-case.csv", {}, "taskId workerId label"),
    ("question-annotator-answer.csv", {}, "question annotator answer"),
    ("item-rater-rating.csv", {}, "item_id rater_id rating"),
    ("prompt-judge-verdict.csv", {}, "prompt_id judge verdict"),
    ("prompt-model-score.csv", {}, "prompt_id model score"),
    ("example-llm-grade.csv", {}, "example_id llm grade"),
    ("image-labeler-class.csv", {}, "image_id labeler class"),
    ("text-user-category.csv", {}, "text user category"),
    ("tweet-annotator-choice.csv", {}, "tweet_id annotator_id choice"),
    ("document-reviewer-decision.csv", {}, "document reviewer decision"),
    ("id-worker-label.csv", {}, "id worker label"),
    ("label-ids.csv", {}, "task_id worker_id label_id"),
    ("european.csv", {}, "task worker label"),
    ("european.csv.gz", {}, "task worker label"),
    ("european-decimals.csv", {}, "task worker label"),
    ("tabs-in-csv.csv", {}, "task worker label"),
    ("pipes.csv", {}, "task worker label"),
    ("commas-in-tsv.tsv", {}, "task worker label"),
    ("tilde.csv", {"separator": "~"}, "task worker label"),
    ("spaces.txt", {"separator": " "}, "task worker label"),
    ("no-header.csv", {"header": False}, "1 2 3"),
    ("no-header-turned.csv", {"header": False, "task": "2", "worker": "1", "label": "3"}, "2 1 3"),
    ("no-header-four.csv", {"header": False, "task": "2", "worker": "3", "label": "4"}, "2 3 4"),
    ("fds-script.csv", {"header": False}, "1 2 3", [(100, 1, "cat"), (100, 2, "dog"), (101, 1, "cat"), (101, 2, "cat")]),
    ("label-studio.csv", {"task": "id"}, "id annotator sentiment"),
    ("label-studio.csv", {}, "id annotator sentiment"),
    ("index-by-to-csv.csv", {}, "text worker label"),
    ("index-and-task.csv", {}, "task worker label"),
    ("unnamed-index.csv", {}, "task worker label"),
    ("row-id-and-text.csv", {"task": "text"}, "text worker label"),
    ("topic-and-sentiment.csv", {"label": "sentiment"}, "question annotator sentiment"),
    ("judged-response.csv", {}, "question judge score"),
    ("judged-answer.csv", {"label": "score"}, "question judge score"),
    ("id-and-text-of-question.csv", {}, "question_id worker answer"),
    ("task-and-text.csv", {}, "task_id worker_id label"),
    ("row-id-and-prompt-id.csv", {}, "prompt_id judge score"),
    ("worker-id-and-name.csv", {}, "task worker_id label"),
    ("label-and-score.csv", {}, "task worker label"),
    ("judge-and-model.csv", {}, "prompt_id judge verdict"),
    ("judges.jsonl", {}, "prompt_id judge verdict"),
    ("with-truth.csv", {}, "task worker label"),
    ("class-and-time.csv", {}, "task worker class"),
    ("unknown-label.csv", {"label": "colour"}, "task worker colour"),
    ("arena.csv", {"task": "question_id"}, "question_id judge winner"),
    ("mturk-like.csv", {}, "HITId WorkerId Answer.sentiment.label"),
    ("mturk-like.csv", {"label": "Answer.sentiment.label"}, "HITId WorkerId Answer.sentiment.label"),
    ("zeros-in-front.csv", {}, "task worker label", [("001", "ann", "cat"), ("01", "bob", "dog")]),
    ("repeated.csv", {}, "task worker label", [("t1", "ann", "cat"), ("t1", "ann", "dog"), ("t1", "bob", "dog")]),
    ("quoted-commas.csv", {}, "task worker label", [("t1, one", "ann", "cat, big"), ("t1, one", "bob", "dog")]),
    ("counts-by-worker.csv", {"count": "n"}, "item worker label n", [("t1", "ann", "cat")] * 2 + [("t1", "bob", "dog")]),
    (
        "spellings.csv",
        {"normalize": True, "labels": ["Cat", "Dog"]},
        "task worker label",
        [(task, worker, label.title()) for task, worker, label in USUAL],
    ),
    ("spellings.csv", {"normalize": True}, "task worker label"),
    (
        "numbers-spelt-twice.csv",
        {"normalize": True},
        "task worker label",
        [("t1", "ann", 1), ("t1", "bob", 1), ("t2", "ann", 2), ("t2", "bob", 1)],
    ),
]
# file; options; the workers' columns; the votes.
WIDE = [
    ("wide-judges.csv", {}, "judge_1, judge_2", JUDGES),
    ("wide-european.csv", {}, "judge_1, judge_2", JUDGES),
    ("wide-with-text.csv", {}, "judge_1, judge_2", JUDGES),
    (
        "wide-scores.csv",
        {"task": "id"},
        "gpt4_score, claude-3_score, gemini_score",
        [
            (task, f"{judge}_score", score if judge != "gemini" else 5)
            for task, score in (("t1", 4), ("t2", 3))
            for judge in ("gpt4", "claude-3", "gemini")
        ],
    ),
    ("wide-names.csv", {}, "ann, bob", USUAL),
    ("wide-pivoted.csv", {}, "ann, bob", USUAL),
    ("wide-names-with-text.csv", {"worker": "ann,bob"}, "ann, bob", USUAL),
    (
        "wide-gaps.csv",
        {},
        "rater_a, rater_b, rater_c",
        [("t1", "rater_a", "cat"), ("t1", "rater_b", "dog"), ("t2", "rater_a", "cat"), ("t2", "rater_c", "cat")],
    ),
    (
        "wide-labels.csv",
        {"worker": "*_label"},
        "gpt_label, claude_label, gemini_label",
        [
            (t, f"{w}_label", "dog" if (t, w) == ("t1", "claude") else "cat")
            for t in ("t1", "t2")
            for w in ("gpt", "claude", "gemini")
        ],
    ),
]
COUNTS = [("counts.csv", "count", "item (absent) label count"), ("counts-votes.csv", "votes", "image_id (absent) class votes")]
# file; options; what the one line says.
REFUSED = [
    ("label-studio.csv", {"format": "table"}, r"the task could be any of text, id; say which with task=… \(--task"),
    ("row-id-and-text.csv", {}, r"the task could be any of id, text; say which with task=… \(--task"),
    ("topic-and-sentiment.csv", {}, r"the label could be any of category, sentiment; say which with label=… \(--label"),
    ("judged-answer.csv", {}, r"the label could be any of answer, score"),
    ("label-and-answer.csv", {}, r"the label could be any of label, answer"),
    ("two-workers.csv", {}, r"the worker could be any of user, judge; say which with worker=…"),
    ("two-tasks.csv", {}, r"the task could be any of document_id, question_id"),
    ("truth-alone.csv", {}, r"no column looks like the label"),
    ("annotation-id-alone.csv", {}, r"no column looks like the label"),
    ("unknown-label.csv", {}, r"no column looks like the label.*perhaps 'colour'"),
    ("mturk-like.csv", {"format": "table"}, r"no column looks like the label.*perhaps 'Answer.sentiment.label'"),
    ("arena.csv", {}, r"votes that compare model_a, model_b have no single column for the task"),
    ("tilde.csv", {}, r"no column looks like the task"),
    ("spaces.txt", {}, r"the header looks separated by spaces: separator=' ' \(--separator ' '\)"),
    ("carriage-returns.csv", {}, r"lines end in a carriage return alone"),
    ("excel-separator.csv", {}, r"the first line, 'sep=', is no header: remove it"),
    ("comment-first.csv", {}, r"the first line, '# votes of May', is no header: remove it"),
    ("header-on-two-lines.csv", {}, r"no column looks like the label"),
    ("responses-compared.csv", {}, r"votes that compare response_a, response_b have no single column for the task"),
    (
        "matrix-alone.csv",
        {"wide": True, "header": False},
        r"say which with task='1' .*, where every column is a worker's and lines have no names, task=''",
    ),
    ("wide-scores.csv", {"task": "id"}, r"one column per worker \(gpt4_score, claude-3_score, gemini_score\)"),
    ("european.csv", {"separator": ","}, r"leave separator out, or give another"),
    ("plain.parquet", {"separator": ";"}, r"separator and header are for text files, not for parquet"),
    ("no-header.csv", {}, r"where the first line is a vote already: header=False \(--no-header\)"),
    ("fds-script.csv", {}, r"header=False \(--no-header\)"),
    ("no-header-four.csv", {"header": False}, r"the 4 columns without a header are called 1, 2, …: say which with task=…"),
    ("wide-judges.csv", {}, r"this looks like one column per worker \(judge_1, judge_2\): say wide=True \(--wide"),
    ("wide-judges.csv", {"worker": "judge_1", "label": "judge_2"}, r"this looks like one column per worker"),
    ("wide-gaps.csv", {}, r"this looks like one column per worker"),
    ("wide-codes.csv", {}, r"this looks like one column per worker \(w1, w2, w3\)"),
    ("wide-labels.csv", {}, r"this looks like one column per worker"),
    ("wide-names.csv", {}, r"no column looks like the worker.*if there is one column per worker: wide=True"),
    ("wide-names-with-text.csv", {"wide": True}, r"but text do not look so: name the columns of workers with worker="),
    ("wide-names-with-text.csv", {"wide": True, "worker": "judge_*"}, r"no column matches worker='judge_\*'"),
    ("counts.csv", {}, r"where each line counts votes: count='count' \(--count\) and model='mv'"),
    ("counts-of-halves.csv", {"count": "count"}, r"count in row 1 is '1.5': give a whole number of at least 0"),
    ("lists.jsonl", {}, r"the label column holds lists: these are sets, say multi=True \(--multi"),
    ("too-many-fields.csv", {}, r"line 3 has 4 fields, the header 3"),
    ("twice-named-column.csv", {}, r"the column 'label' occurs twice"),
    ("spellings.csv", {"strict": True}, r"differ only in case, white space.*normalize=True"),
    ("abstentions.csv", {"strict": True}, ABSTENTIONS),
]
SUSPICIOUS = [
    (
        "spellings.csv",
        {},
        r"labels differ only in case, white space or '.0' \('(Cat|cat| CAT)' and .*: normalize=True \(--normalize\) joins",
    ),
    ("numbers-spelt-twice.csv", {}, r"labels differ only in case, white space or '.0'"),
    ("abstentions.csv", {}, ABSTENTIONS),
    (
        "european-decimals.csv",
        {},
        r"the column 'confidence' is not used: aggregate counts votes by it with weight='confidence' \(--weight 'confidence'\)$",
    ),
    ("counts.csv", {"worker": ""}, r"the column 'count' is not used: if a line stands for several votes, say count='count'"),
    ("header-only.csv", {}, "header-only.csv: no votes follow the header"),
]


def votes_of(found):
    return sorted(frame_of(found).rows())


@pytest.mark.parametrize(("name", "options", "columns", "votes"), [(*c, USUAL) if len(c) == 3 else c for c in READ])
def test_read_as_it_is_meant(name, options, columns, votes):
    found = adj.read(CORPUS / name, **options)
    assert " ".join(found.understood.columns.values()) == columns
    assert votes_of(found) == sorted(votes)
    assert found.understood.votes == len(votes)


@pytest.mark.parametrize(("name", "options", "workers", "votes"), WIDE)
def test_wide_tables(name, options, workers, votes):
    found = adj.read(CORPUS / name, wide=True, **options)
    assert found.understood.columns["workers"] == workers
    assert found.understood.format.startswith("wide table (csv")
    assert votes_of(found) == sorted(votes)


@pytest.mark.parametrize(("name", "count", "columns"), COUNTS)
def test_counts(name, count, columns):
    found = adj.read(CORPUS / name, count=count)
    assert " ".join(found.understood.columns.values()) == columns
    assert votes_of(found) == sorted(COUNTED)
    assert found.understood.repeated == 0  # nobody knows who voted twice
    labels = adj.aggregate(CORPUS / name, count=count, model="mv").labels
    assert labels["label"].to_list() == ["cat", "cat"]
    with pytest.raises(adj.InputError, match="only majority vote can count them: model='mv'"):
        adj.aggregate(CORPUS / name, count=count)


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_refused_with_what_to_say(name, options, message):
    with pytest.raises((adj.InputError, adj.OptionError), match=message) as caught:
        adj.read(CORPUS / name, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "options", "message"), SUSPICIOUS)
def test_warned_of(name, options, message):
    with pytest.warns(adj.SuspiciousVotes, match=message):
        adj.read(CORPUS / name, **options)


@pytest.mark.filterwarnings("ignore::adjudge.MissingLabels")
def test_abstentions():
    found = adj.read(CORPUS / "abstentions.csv", abstain=["NA", "skip"])
    assert votes_of(found) == [("t1", "ann", "cat"), ("t2", "ann", "cat")]
    assert found.understood.abstentions == found.abstentions == 2
    found = adj.read(CORPUS / "empty-labels.csv")
    assert (len(found), found.abstentions) == (3, 1)
    found = adj.read(CORPUS / "wide-codes.csv", wide=True, abstain=-1)
    assert (votes_of(found), found.abstentions) == (CODES, 2)


def test_repeated_votes_are_counted():
    for rule, votes in (("all", 3), ("last", 2), ("first", 2)):
        found = adj.read(CORPUS / "repeated.csv", duplicates=rule)
        assert (found.understood.votes, found.understood.repeated) == (votes, 1)


def test_sets():
    assert read_sets(CORPUS / "sets.csv").options.ids() == ["fear", "joy"]
    found = read_sets(CORPUS / "sets-by-semicolon.csv", Reading(set_separator=";"))
    assert found.options.ids() == ["fear", "joy"]
    assert found.understood.columns == {"task": "task", "worker": "worker", "label": "labels"}


def test_the_order_of_a_scale_is_kept():
    assert adj.read(CORPUS / "scale.parquet").labels.ids() == ["dog", "cat", "cow"]


def test_every_file_has_its_reading():
    named = {case[0] for cases in (READ, WIDE, COUNTS, REFUSED, SUSPICIOUS) for case in cases}
    named |= {"abstentions.csv", "empty-labels.csv", "sets.csv", "sets-by-semicolon.csv", "index-alone.csv", "spaced-names.csv"}
    assert named == {path.name for path in CORPUS.iterdir() if path.is_file()}
    assert len(named) >= 60


@pytest.mark.parametrize(
    ("name", "columns"), [("index-alone.csv", ["", "worker", "label"]), ("spaced-names.csv", ["Task ID", "Worker ID", "Label"])]
)
def test_odd_names(name, columns):
    found = adj.read(CORPUS / name)
    assert list(found.understood.columns.values()) == columns
    assert votes_of(found) == USUAL
