"""Cards for notebooks: what they say, that data stays text, and that nothing slow is done for one."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.results import card
from adjudge.results.card import Card, CardTable
from adjudge.results.workers import JudgedWorkers
from cards import NASTY, read

anything = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80))


@settings(max_examples=60, deadline=None)
@given(anything, anything, anything)
def test_whatever_ids_say_stays_text(task, worker, label):
    votes = [(f"t{task}", f"w{worker}", f"l{label}"), (f"t{task}", "bob", f"l{label}"), ("other", "bob", "l")]
    found = read(adj.aggregate(votes, model="mv"))
    for cell in (f"t{task}", f"l{label}"):
        seen = adj.errors.make_visible(cell)
        assert seen in found.cells or seen in found.titles or len(seen) > card.MAX_CARD_ID_CHARACTERS


@settings(max_examples=60, deadline=None)
@given(anything)
def test_whatever_a_card_is_given_stays_text(text):
    shown = Card(text, [(text, text)], [text], [CardTable(text, (text, text), [(text, 1)], text)], [text], [text])
    found = read(shown.html())
    assert (
        adj.errors.make_visible(text) in found.cells or len(text) > card.MAX_CARD_ID_CHARACTERS or adj.errors.UNSEEN.search(text)
    )


def test_the_answer_comes_first():
    crowd = adj.simulate(tasks=200, workers=9, votes_per_task=9, spammers=0.3, seed=1, worker_names=[NASTY[0], *"bcdefghi"])
    result = adj.aggregate(crowd.votes)
    found = read(result)
    text = re.sub(r"\s+", " ", found.text)
    assert text.startswith(
        f"{result!r} 200 tasks {result.expected_errors:.3g} ({result.expected_errors / 200:.1%}) expected wrong labels"
    )
    assert "effective votes per task" in text
    first = result.labels_frame().row(0)
    assert found.cells[:2] == [first[0], first[1]]
    assert "… and 195 more: result.labels" in text
    assert 'result.report("report.html")' in found.texts
    flagged = result.workers_frame().filter(pl.col("verdict") == "spammer")["worker"].to_list()
    assert NASTY[0] in flagged, "the crowd is one with a worker to look at"
    assert set(flagged) <= set(found.cells)
    assert any("as guesses would" in cell for cell in found.cells), "and why"


def test_what_a_reader_must_know_is_reported():
    with pytest.warns(adj.NotConverged):
        short = adj.aggregate(adj.simulate(tasks=100, workers=8, seed=2).votes, model=adj.DawidSkene(max_iter=1))
    assert "not converged after 1 iterations" in read(short).text
    with pytest.warns(adj.MissingLabels):
        missing = adj.aggregate([(1, "a", "x"), (1, "b", "y"), (2, "a", None)], model="mv")
    assert "1 tasks have nothing but abstentions" in read(missing).text
    assert "1 labels were picked among tied ones" in read(missing).text
    alike = adj.simulate(tasks=200, workers=9, votes_per_task=9, colluders=1.0, ring=3, skill=0.6, seed=1).votes
    assert "workers err together" in read(adj.aggregate(alike)).text
    predicted = short.predict([("new", "zoe", "l0")])
    assert "1 workers were unknown to the model" in read(predicted).text


def test_long_names_are_cut_in_the_middle_with_the_whole_on_hover():
    name = "a" * 50 + "b" * 50
    found = read(adj.aggregate([(name, "w", "x"), (name, "v", "x")], model="mv"))
    assert name in found.titles
    assert any(re.fullmatch("a+…b+", cell) and len(cell) <= card.MAX_CARD_ID_CHARACTERS for cell in found.cells)


def test_workers_are_not_judged_for_a_card_of_many_votes(monkeypatch):
    result = adj.aggregate(adj.simulate(tasks=60, workers=8, spammers=0.4, seed=1).votes)
    monkeypatch.setattr(card, "MAX_CARD_VERDICT_VOTES", 10)
    asked = []
    real = JudgedWorkers.frame
    monkeypatch.setattr(JudgedWorkers, "frame", lambda self, **how: asked.append(1) or real(self, **how))
    assert "workers to look at" not in read(result).text
    assert not asked
    assert "(judges every worker)" in read(result).text
    result.workers  # noqa: B018 (who has asked for them sees them)
    assert "workers to look at" in read(result).text


def test_a_result_on_disk_has_a_card(tmp_path):
    adj.simulate(tasks=300, workers=8, seed=1).votes.write_csv(tmp_path / "votes.csv")
    result = adj.aggregate(tmp_path / "votes.csv", engine="disk")
    assert result.is_on_disk
    first = next(result.label_batches()).row(0)
    assert read(result).cells[:2] == [first[0], first[1]]


def test_a_card_of_no_votes():
    empty = adj.aggregate(
        pl.DataFrame({"task": [], "worker": [], "label": []}, schema=dict.fromkeys(("task", "worker", "label"), pl.String))
    )
    assert "0 tasks" in re.sub(r"\s+", " ", read(empty).text)


def test_sets_and_streams_have_cards():
    votes = [("t1", "ann", ["fear", NASTY[0]]), ("t1", "bob", [NASTY[0]]), ("t2", "ann", []), ("t2", "bob", [])]
    for per_option in (False, True):
        result = adj.aggregate(votes, multi=True, per_option=per_option)
        found = read(result)
        chosen = result.labels_frame()["label"].to_list()
        assert found.cells[:2] == ["t1", " | ".join(chosen[0])]
        assert found.cells[3:5] == ["t2", "(none)"]
        assert f"{len(result.votes.options)} options" in repr(result)
    online = adj.Online(labels=["cat", NASTY[1]])
    assert "Online(" in read(online).text
    online.learn(NASTY[0], "ann", NASTY[1])
    assert read(online).cells[:2] == [NASTY[0], NASTY[1]]


def test_a_large_stream_measures_nothing_for_a_card(monkeypatch):
    online = adj.Online(labels=["a", "b"])
    online.learn("t", "w", "a")
    monkeypatch.setattr(card, "MAX_CARD_STREAM_TASKS", 0)
    monkeypatch.setattr(type(online), "labels_frame", lambda self: pytest.fail("measured"))
    assert "1 tasks" in read(online).text


def test_numbers_have_the_digits_that_mean_something():
    numbers = {0.123456: "0.123", 1234567: "1\u202f234\u202f567", 5: "5", 12345.6: "12\u202f346", float("nan"): "–", None: "–"}
    rows = [(value,) for value in numbers]
    assert read(Card("x", tables=[CardTable("", ("n",), rows)]).html()).cells == list(numbers.values())
    assert read(Card("x", tables=[CardTable("", ("n",), [(np.float64(0.5),), (True,)])]).html()).cells == ["0.5", "True"]


def test_a_card_is_made_of_the_result_alone():
    result = adj.aggregate(adj.simulate(tasks=30, workers=5, seed=1).votes)
    assert read(replace(result)).text == read(result).text, "earlier calls do not change it"


def test_explanations():
    votes = [(NASTY[0], NASTY[1], "x"), (NASTY[0], "bob", "x"), (NASTY[0], "eve", NASTY[0]), ("other", "bob", "x")]
    why = adj.aggregate(votes).explain(NASTY[0])
    found = read(why)
    assert {NASTY[0], NASTY[1], "bob", "eve"} <= set(found.cells + found.titles)
    assert f"{why.evidence[0].contribution:+.2f}" in found.cells
    assert "explanation.plot()" in found.texts
