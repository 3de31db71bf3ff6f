"""Warnings and errors are about the caller's line, not about lines inside the package."""

import inspect
import warnings
from pathlib import Path

import pytest

import adjudge as adj

VOTES = [("t1", "ann", "x"), ("t1", "bob", "y"), ("t1", "eve", "x"), ("t2", "ann", "y"), ("t2", "bob", "y"), ("t2", "eve", "x")]
SPELT = [*VOTES, ("t2", "zoe", "X")]
MISSING = [*VOTES, ("t2", "zoe", None)]
TRUTH = {"t1": "x", "u1": "x", "u2": "x"}


@pytest.mark.parametrize(("category", "call"), [
    (adj.SuspiciousVotes, lambda _: adj.read(SPELT)),
    (adj.SuspiciousVotes, lambda _: adj.aggregate(SPELT)),
    (adj.SuspiciousVotes, lambda _: adj.aggregate(SPELT, engine="disk")),
    (adj.SuspiciousVotes, lambda _: adj.MajorityVote().fit(SPELT)),
    (adj.SuspiciousVotes, lambda folder: adj.encode(SPELT, folder / "votes")),
    (adj.SuspiciousVotes, lambda _: adj.aggregate([*VOTES, ("t3", "ann", "x")], gold=TRUTH)),
    (adj.SuspiciousVotes, lambda _: adj.evaluate({"t1": "x", "t2": "y", "t3": "y"}, TRUTH)),
    (adj.SuspiciousVotes, lambda _: adj.aggregate([("t", "ann", "a,b"), ("t", "bob", "b,c"), ("t", "eve", "a")], multi=True)),
    (adj.MissingLabels, lambda _: adj.read(MISSING)),
    (adj.MissingLabels, lambda _: adj.aggregate(MISSING)),
    (adj.MissingLabels, lambda _: adj.agreement(MISSING)),
    (adj.MissingLabels, lambda folder: adj.encode(MISSING, folder / "votes")),
    (adj.NotConverged, lambda _: adj.aggregate(VOTES, adj.DawidSkene(max_iter=1))),
    (adj.NotConverged, lambda _: adj.DawidSkene(max_iter=1).fit(VOTES)),
    (adj.UnknownWorkers, lambda _: adj.aggregate(VOTES, exclude=["ann", "nobody"])),
])  # fmt: skip
def test_warnings_are_of_the_callers_line(category, call, tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(tmp_path)
    of_kind = [one for one in caught if issubclass(one.category, category)]
    assert of_kind
    assert {(Path(one.filename), one.lineno) for one in of_kind} == {(Path(__file__), inspect.getsourcelines(call)[1])}


def test_a_warning_is_shown_once_for_each_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            adj.read(SPELT)
        adj.read(SPELT)
    assert len(caught) == 2


def test_a_notebook_shows_the_callers_lines_alone():
    with pytest.raises(adj.InputError) as found:
        adj.aggregate({"task": ["t"], "label": ["x"]}, "ds")
    shown = found.value._render_traceback_()
    assert len(found.traceback) > 3
    assert [line for line in shown if line.lstrip().startswith("File")] == [
        f'  File "{__file__}", line {found.traceback[0].lineno + 1}, in test_a_notebook_shows_the_callers_lines_alone'
    ]
    assert shown[-1].startswith("adjudge.errors.InputError: ")


def test_code_without_a_module_is_warned_too():
    code = "import adjudge as adj\nadj.read([('t', 'ann', 'x'), ('t', 'bob', 'X')])"
    with pytest.warns(adj.SuspiciousVotes) as caught:
        exec(compile(code, "cell", "exec"), {})
    assert [(one.filename, one.lineno) for one in caught] == [("cell", 2)]


@pytest.mark.parametrize("value", [5, float("nan"), True, object()])
def test_an_option_that_is_no_list_is_named(value):
    votes, pairs = [(1, "a", "x"), (1, "b", "x"), (2, "a", "y")], [("p", "q", "p")]
    calls = {
        "require": lambda: adj.check(votes, value),
        "labels": lambda: adj.read(votes, labels=value),
        "show": lambda: adj.read(votes, show=value),
        "models": lambda: adj.compare(votes, models=value),
        "own_labels": lambda: adj.compare(votes, own_labels=value),
        "covariates": lambda: adj.rank(pairs, covariates=value),
    }
    for name, call in calls.items():
        with pytest.raises(adj.OptionError, match=f"^{name} is .*: give a "):
            call()
