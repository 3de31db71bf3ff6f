"""Which column is which: names by rank, two good candidates refused, and the list in the docs."""

import itertools
import re
from pathlib import Path

import pytest

import adjudge as adj
from adjudge.io.columns import CONTENT_WORDS, RANKS, ROW_WORDS, find, find_family, is_other, normalize_name
from adjudge.io.read import ABSTENTION_WORDS

PAGE = Path(__file__).parents[2] / "docs" / "reading-votes.md"
VOTES = dict.fromkeys(("task", "worker", "label"))


def columns(header):
    return tuple(find(header.split(","), VOTES, "votes.csv").values())


@pytest.mark.parametrize("role", ["task", "worker", "label", "truth"])
def test_docs_list_the_names_that_are_known(role):
    """The table of the page is the code's: every name of every rank, and no other."""
    table = re.search(rf"^\| {role}.*?(?=^\| [a-z]|^$)", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    lines = [line.split("|")[3] for line in table.splitlines()]
    told = [set(re.findall(r"`([a-z]+)`", re.sub(r"\(.*?\)|, each followed by.*", "", line))) for line in lines]
    known = [set(rank.names) - {""} for rank in RANKS[role]]
    if role == "truth":
        known, told = known[:1], told[:1]
        assert "those of a label, rank 1" in lines[1]
    assert told == known


def test_docs_list_the_words_of_abstentions():
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith("| labels look like abstentions"))
    assert [*ABSTENTION_WORDS.split()] == re.findall(r"`([a-z/]+)`", line.split("|")[1])


@pytest.mark.parametrize("name", ["score", "grade", "rating", "verdict", "winner", "Judgment", "Final-Answer"[6:]])
def test_labels_of_judges(name):
    assert columns(f"prompt_id,judge,{name}") == ("prompt_id", "judge", name)


@pytest.mark.parametrize(("header", "found"), [
    ("prompt_id,model,verdict", ("prompt_id", "model", "verdict")),
    ("prompt_id,judge_model,score", ("prompt_id", "judge_model", "score")),
    ("prompt,response,judge,verdict", ("prompt", "judge", "verdict")),
    ("id,question,worker,label", ("question", "worker", "label")),
    ("index,id,worker,label", ("id", "worker", "label")),
    ("question,question_id,annotator_name,annotator_id,score", ("question_id", "annotator_id", "score")),
])  # fmt: skip
def test_ranks(header, found):
    assert columns(header) == found


@pytest.mark.parametrize(("header", "found"), [
    ("text,annotator_email,label", ("text", "annotator_email", "label")),
    ("text,worker_email,label", ("text", "worker_email", "label")),
    ("text,rater_id,stars,rater_age", ("text", "rater_id", "stars")),
    ("prompt_id,model,judge_model,verdict", ("prompt_id", "judge_model", "verdict")),
    ("item,annotator_id,annotator_email,annotator_name,label", ("item", "annotator_id", "label")),
    ("item,annotator,annotator_email,label", ("item", "annotator", "label")),
    ("item,rater,rating,rating_reason,time_spent,task_type", ("item", "rater", "rating")),
    ("prompt_id,system,judge,score", ("prompt_id", "judge", "score")),
])  # fmt: skip
def test_people_and_named_answers(header, found):
    assert columns(header) == found


@pytest.mark.parametrize(("header", "role"), [
    ("review,annotator_email,sentiment,stars,is_spam", "label"),
    ("review,annotator,stars,helpful", "label"),
    ("review,annotator,grade,is_correct", "label"),
    ("item,user_id,annotator_email,label", "worker"),
    ("prompt,a,b,judge,winner", "task"),
])  # fmt: skip
def test_two_good_candidates_are_refused_with_the_flag(header, role):
    with pytest.raises(adj.InputError, match=rf"--{role} on the command line"):
        columns(header)


def test_sides_called_a_and_b_are_ranked():
    votes = {"prompt": [1, 2, 3, 4], "a": ["x", "y", "x", "z"], "b": ["y", "z", "z", "x"], "winner": ["a", "b", "a", "tie"]}
    assert adj.rank(votes).understood.columns["left"] == "a"


def test_the_order_of_columns_does_not_matter():
    for header in ("question_id,response,judge,score,id", ",text,worker,label", "text,id,sentiment,annotator,annotation_id"):
        outcomes = set()
        for some in itertools.permutations(header.split(",")):
            try:
                outcomes.add(columns(",".join(some)))
            except adj.InputError:
                outcomes.add("refused")
        assert len(outcomes) == 1, header


def test_an_id_is_never_the_label_while_another_fits():
    for name in ("annotation_id", "answer_id", "response_id", "vote_id", "rating_id", "score_id", "labelId"):
        assert columns(f"task,worker,{name},verdict")[2] == "verdict"
        if name != "labelId":
            with pytest.raises(adj.InputError, match="no column looks like the label"):
                columns(f"task,worker,{name}")


def test_no_name_serves_two_roles():
    names = {role: {name for rank in RANKS[role] for name in rank.names} for role in VOTES}
    for one, other in itertools.combinations(names, 2):
        assert not names[one] & names[other]


def test_content_and_rows_are_tasks_of_lower_rank():
    assert not set(CONTENT_WORDS.split()) & RANKS["task"][0].names
    assert set(ROW_WORDS.split()) <= RANKS["task"][3].names
    assert normalize_name("Unnamed: 0") == ""


def test_what_is_neither_is_known():
    for name in ("created_at", "leadTime", "annotation_id", "worker_country"[7:], "truth", "confidence", "text"):
        assert is_other(name)
    for name in ("cat", "format", "valid", "sentiment", "alice"):
        assert not is_other(name)


@pytest.mark.parametrize(("header", "found"), [
    ("item,judge_1,judge_2", ["judge_1", "judge_2"]),
    ("item,Rater A,Rater B,text", ["Rater A", "Rater B"]),
    ("item,judge_gpt,judge_claude,judge_gemini", ["judge_gpt", "judge_claude", "judge_gemini"]),
    ("task,worker,label", []),
    ("task,worker_id,worker_name,worker_country,label", []),
    ("task,label_1,label_2,label_3", ["label_1", "label_2", "label_3"]),
])  # fmt: skip
def test_families(header, found):
    assert find_family(header.split(",")) == found


def test_mistyped_columns_are_named():
    with pytest.raises(adj.InputError, match="there is no column 'nope' for the task; the columns are: task, worker, label"):
        find(["task", "worker", "label"], {**VOTES, "task": "nope"}, "votes.csv")
