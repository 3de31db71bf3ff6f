"""Cards of evaluations, agreement and panels."""

import pytest

import adjudge as adj
from cards import NASTY, read


@pytest.fixture(scope="module")
def crowd():
    names = [*NASTY, "g", "h", "i"]
    return adj.simulate(
        tasks=120,
        workers=9,
        votes_per_task=9,
        colluders=0.34,
        ring=3,
        seed=1,
        worker_names=names,
        label_names=[NASTY[1], "b", "c"],
    )


def test_evaluation(crowd):
    result = adj.aggregate(crowd.votes, gold=crowd.truth.head(10))
    found = adj.evaluate(result, crowd.truth.head(100))
    shown = read(found)
    assert f"{found.accuracy:.3g}" in shown.text
    assert NASTY[1] in shown.cells
    assert "left out: 20 labels without truth, 0 tasks without label" in shown.text
    assert f"accuracy without them is {found.accuracy_without_gold:.3f}" in shown.text
    assert read(adj.evaluate({"a": "x"}, {"a": "x"})).text


def test_evaluation_of_sets():
    found = adj.evaluate({"task": ["1"], "label": [["x"]]}, {"task": ["1"], "label": [["x", "y"]]}, multi=True)
    assert "0.5 right options" in " ".join(read(found).text.split())


def test_agreement(crowd):
    with pytest.warns(adj.CopiedVotes):
        found = adj.agreement(crowd.votes, resamples=50)
    shown = read(found)
    assert f"{float(found.alpha):.3g} ({found.alpha.low:.3g} to {found.alpha.high:.3g})" in shown.text
    assert ", ".join(map(str, found.rings[0])) in " ".join(shown.cells + shown.titles)
    assert "errors are measured against majority vote" in shown.text


def test_panels(crowd):
    found = adj.panel(crowd.votes, truth=crowd.truth, cost=1, subsets=3, sizes=[1, 3], model="mv")
    shown = read(found)
    assert all(sentence in shown.texts or sentence in shown.titles for sentence in found.sentences())
    assert {"1", "3", "9"} <= set(shown.cells)
    assert found.workers[found.found[0].worker] in shown.cells + shown.titles


def test_comparisons(crowd):
    found = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "auto"], resamples=50)
    shown = read(found)
    assert all(sentence in shown.texts or sentence in shown.titles for sentence in found.advice)
    assert {"mv", "auto"} <= set(shown.cells)
    assert "comparison.plot()" in shown.texts
