"""Warnings and errors are about the caller's line, not about lines inside the package."""

import inspect
import warnings
from pathlib import Path

import pytest

import quorate as qr

VOTES = [("t1", "ann", "x"), ("t1", "bob", "y"), ("t1", "eve", "x"), ("t2", "ann", "y"), ("t2", "bob", "y"), ("t2", "eve", "x")]
SPELT = [*VOTES, ("t2", "zoe", "X")]
MISSING = [*VOTES, ("t2", "zoe", None)]
TRUTH = {"t1": "x", "u1": "x", "u2": "x"}


@pytest.mark.parametrize(("category", "call"), [
    (qr.SuspiciousVotes, lambda _: qr.read(SPELT)),
    (qr.SuspiciousVotes, lambda _: qr.aggregate(SPELT)),
    (qr.SuspiciousVotes, lambda _: qr.aggregate(SPELT, engine="disk")),
    (qr.SuspiciousVotes, lambda _: qr.MajorityVote().fit(SPELT)),
    (qr.SuspiciousVotes, lambda folder: qr.encode(SPELT, folder / "votes")),
    (qr.SuspiciousVotes, lambda _: qr.aggregate([*VOTES, ("t3", "ann", "x")], gold=TRUTH)),
    (qr.SuspiciousVotes, lambda _: qr.evaluate({"t1": "x", "t2": "y", "t3": "y"}, TRUTH)),
    (qr.SuspiciousVotes, lambda _: qr.aggregate([("t", "ann", "a,b"), ("t", "bob", "b,c"), ("t", "eve", "a")], multi=True)),
    (qr.MissingLabels, lambda _: qr.read(MISSING)),
    (qr.MissingLabels, lambda _: qr.aggregate(MISSING)),
    (qr.MissingLabels, lambda _: qr.agreement(MISSING)),
    (qr.MissingLabels, lambda folder: qr.encode(MISSING, folder / "votes")),
    (qr.NotConverged, lambda _: qr.aggregate(VOTES, "ds", max_iter=1)),
    (qr.NotConverged, lambda _: qr.DawidSkene(max_iter=1).fit(VOTES)),
    (qr.UnknownWorkers, lambda _: qr.aggregate(VOTES, exclude=["ann", "nobody"])),
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
            qr.read(SPELT)
        qr.read(SPELT)
    assert len(caught) == 2


def test_a_notebook_shows_the_callers_lines_alone():
    with pytest.raises(qr.InputError) as found:
        qr.aggregate({"task": ["t"], "label": ["x"]}, "ds")
    shown = found.value._render_traceback_()
    assert len(found.traceback) > 3
    assert [line for line in shown if line.lstrip().startswith("File")] == [
        f'  File "{__file__}", line {found.traceback[0].lineno + 1}, in test_a_notebook_shows_the_callers_lines_alone'
    ]
    assert shown[-1].startswith("quorate.errors.InputError: ")


def test_code_without_a_module_is_warned_too():
    code = "import quorate as qr\nqr.read([('t', 'ann', 'x'), ('t', 'bob', 'X')])"
    with pytest.warns(qr.SuspiciousVotes) as caught:
        exec(compile(code, "cell", "exec"), {})
    assert [(one.filename, one.lineno) for one in caught] == [("cell", 2)]
