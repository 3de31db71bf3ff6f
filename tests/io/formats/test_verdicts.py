"""Which names of scorers are judges of one question, which are questions, and what their values become."""

import random

import pytest

import adjudge as adj
from adjudge.io.formats.export import Ask, SeveralQuestions
from adjudge.io.formats.verdicts import Verdicts

COLUMNS = {"task": "id", "worker": "scorer", "label": "value"}


def jury(judges, tasks=60, accuracy=0.8, labels=("C", "I"), seed=1):
    """Verdicts (name, judge, task, value) of judges of one question."""
    draw = random.Random(seed)
    truth = {task: draw.choice(labels) for task in range(tasks)}
    return [
        (judge, judge, str(task), right if draw.random() < accuracy else draw.choice(labels))
        for task, right in truth.items()
        for judge in judges
    ]


def read(rows, ask=None, questions=(), **options):
    verdicts = Verdicts(ask or Ask(), "a.log", **options)
    for name, judge, task, value in rows:
        verdicts.add(name, judge, task, value, is_question=name in questions)
    return verdicts.extract(COLUMNS)


def several(rows, **options):
    with pytest.raises(SeveralQuestions) as raised:
        read(rows, **options)
    assert "\n" not in str(raised.value)
    return raised.value


def test_judges_of_one_question_are_joined_and_the_screen_says_so():
    extract = read(jury("abc"))
    assert extract.columns["worker"] == "scorer (a, b, c as judges of one question)"
    assert (extract.question, len(extract.votes), set(extract.votes["worker"])) == ("a,b,c", 180, set("abc"))
    one = read(jury("a"))
    assert (one.columns, one.question) == (COLUMNS, "a")


def test_two_questions_with_the_same_values_are_refused_with_both_remedies():
    rows = jury("ab", seed=1) + jury("cd", seed=2)
    error = several(rows)
    assert error.questions == ("a,b", "c,d")
    assert "agree no better than chance" in str(error)
    assert "--question a,b,c,d says so" in str(error)
    assert set(read(rows, Ask(question="c,d")).votes["worker"]) == set("cd")
    assert set(read(rows, Ask(question="[abc]")).votes["worker"]) == set("abc")
    assert set(read(rows, Ask(question="b")).votes["worker"]) == {"b"}
    with pytest.raises(adj.InputError, match="has no question 'e'; the questions are: a, b, c, d"):
        read(rows, Ask(question="a,e"))


def test_independent_scorers_are_hardly_ever_joined_and_judges_of_middling_skill_are():
    apart = sum(raises(jury("a", 50, seed=n) + jury("b", 50, seed=n + 1000)) for n in range(100))
    together = sum(not raises(jury("abcd", 100, 0.6, seed=n)) for n in range(100))
    assert apart >= 90  # of 100, and 95 on average
    assert together >= 94


def raises(rows):
    try:
        read(rows)
    except SeveralQuestions:
        return True
    return False


def test_different_values_are_different_questions():
    rows = jury("ab") + jury("x", labels=("good", "bad"))
    assert several(rows).questions == ("a,b", "x")
    assert "a,b' (C, I), x (bad, good)" in str(several(rows))
    grades = [("fluency", "fluency", task, float(len(task))) for _, _, task, _ in jury("a", 60)]
    assert several(jury("ab") + grades).questions == ("a,b", "fluency")


def test_a_value_that_a_judge_happened_not_to_use_separates_nobody():
    rows = jury("ab", 20, labels=("yes", "no"), accuracy=0.95)
    rows[0] = ("a", "a", "0", "partly")
    assert read(rows).question == "a,b"
    many = [(n, j, t, "partly" if n == "a" and int(t) % 4 == 0 else v) for n, j, t, v in jury("ab", 60, labels=("yes", "no"))]
    assert several(many).questions == ("a", "b")
    graded = [(n, j, t, "P" if n == "a" and int(t) % 4 == 0 else v) for n, j, t, v in jury("ab", 90, accuracy=0.9)]
    assert read(graded).question == "a,b"  # P belongs to the scale of C and I


def test_a_judge_who_always_says_the_same_follows_the_others():
    always = [("z", "z", str(task), "C") for task in range(60)]
    assert read(jury("ab") + always).question == "a,b,z"
    assert several(jury("a") + always).questions == ("a", "z")  # nothing shows that they answer one question
    same = [(name, name, str(task), "C") for task in range(3) for name in "ab"]
    assert read(same).question == "a,b"


def test_verdicts_too_few_for_evidence_are_joined_only_if_that_is_unambiguous():
    rows = jury("ab", 30, 0.95) + jury("x", 30, seed=5)
    few = [("expert", "ann", task, value) for name, _, task, value in rows[:1]]
    assert several(rows + few).questions == ("a,b", "x", "expert") or several(rows + few).questions == ("a,b,expert", "x")
    assert read(jury("ab", 30, 0.95) + few).question == "a,b,expert"
    assert (
        read([(name, name, task, value) for task, value in zip("123", "CIC", strict=True) for name in "abc"]).question == "a,b,c"
    )


def test_names_that_the_tool_makes_questions_are_joined_only_if_asked():
    rows = jury(["kind", "true"], accuracy=1.0)
    assert several(rows, questions=("kind", "true")).questions == ("kind", "true")
    assert read(rows, Ask(question="kind,true"), questions=("kind", "true")).question == "kind,true"


def test_several_judges_under_one_name_need_not_agree():
    rows = [("panel", judge, task, value) for seed, judge in enumerate("abc") for _, _, task, value in jury("x", seed=seed)]
    assert read(rows).question == "panel"
    assert read([*jury("xy"), *[("panel", j, t, v) for _, j, t, v in jury("pq")]]).question == "x,y,panel"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["C", "", None, float("nan"), "I"], ["C", None, None, None, "I"]),
        ([True, False, True, True, None], ["true", "false", "true", "true", None]),
        ([1, 0, 1.0, 0.0, None], ["1", "0", "1", "0", None]),
        (["C", "N", "I", "N", "C"], ["C", None, "I", None, "C"]),
        (["Y", "N", "Y", "N", "Y"], ["Y", "N", "Y", "N", "Y"]),
        ([["C"], [], ["I"], "C", None], ["C", None, "I", "C", None]),
    ],
)
def test_values_become_labels_and_abstentions(values, labels):
    extract = read([("a", "a", str(n), value) for n, value in enumerate(values)], no_answer="N")
    assert extract.votes["label"].to_list() == labels


def test_numbers_are_for_scores_unless_they_are_declared_grades():
    rows = [("a", "a", str(n), n % 5 + 1) for n in range(10)]
    with pytest.raises(adj.InputError, match=r"a \(1 to 5\) has numbers.*`adjudge scores`.*--labels 1,2,3"):
        read(rows)
    assert read(rows, Ask(declared=True)).votes["label"].to_list() == [str(n % 5 + 1) for n in range(10)]
    assert read(rows, Ask(numbers=True)).votes["label"].to_list() == [n % 5 + 1.0 for n in range(10)]
    with pytest.raises(adj.InputError, match=r"a \(C, I\) has labels.*`adjudge aggregate`"):
        read(jury("a"), Ask(numbers=True))
    with pytest.raises(adj.InputError, match="is 0.5, which is not a label"):
        read([*rows, ("a", "a", "x", 0.5)], Ask(declared=True))


def test_numeric_scorers_are_judges_of_one_question_if_their_scores_go_together():
    draw = random.Random(3)
    worth = [draw.gauss(0, 1) for _ in range(50)]
    rows = [(judge, judge, str(n), x + draw.gauss(0, 0.5)) for n, x in enumerate(worth) for judge in "ab"]
    assert read(rows, Ask(numbers=True)).question == "a,b"
    percent = [("percent", "percent", str(n), 100 * x) for n, x in enumerate(worth)]
    assert several(rows + percent, ask=Ask(numbers=True)).questions == ("a,b", "percent")
    length = [("length", "length", str(n), draw.gauss(0, 1)) for n in range(50)]
    assert several(rows + length, ask=Ask(numbers=True)).questions == ("a,b", "length")
    with pytest.raises(adj.InputError, match="numbers and labels do not answer one question"):
        read(rows + jury("c"), Ask(question="a,c"))


def test_what_is_not_a_verdict_is_refused():
    with pytest.raises(adj.InputError, match=r"the verdict of 'a' on task '1' is \{'x': 1\}, which is not a label"):
        read([("a", "a", "1", {"x": 1})])
    objects = [("details", "a", str(n), {"x": n}) for n in range(60)]
    with pytest.raises(adj.InputError, match="is not a label.*; if another question is meant, question="):
        read([*jury("a"), *objects])
    assert read([*jury("a"), *objects], Ask(question="a")).question == "a"  # objects of other questions do no harm
    with pytest.raises(adj.InputError, match=r"is \{'x': 0\}, which is not a label"):
        read([*jury("a"), *objects], Ask(question="details"))
    with pytest.raises(adj.InputError, match="has no verdicts: nobody has scored anything"):
        read([])
    with pytest.raises(adj.InputError, match="no verdicts but abstentions: a, b"):
        read([("a", "a", "1", None), ("b", "b", "1", None)])
    with pytest.raises(adj.InputError, match="has 2 options .*multi=True"):
        read([("a", "a", "1", ["x", "y"])])
    sets = read([("a", "a", "1", ["x", "y"]), ("a", "a", "2", "x")], Ask(sets=True))
    assert sets.votes["label"].to_list() == [["x", "y"], ["x"]]
