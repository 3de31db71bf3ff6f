"""What the page knows of single workers: figures, confusion, bias and agreement with others, as data for its script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.report import words
from adjudge.report.views.agreement import AgreementView
from adjudge.report.views.confusion import MAX_MATRIX, ConfusionView, confusions, voted
from adjudge.report.views.workers import WorkersView
from adjudge.results.result import Result

MAX_NAME: Final = 200  # characters of a name: they may be of any length, a page may not
MAX_BIAS: Final = 8  # labels whose shares are compared
MAX_PAIRS: Final = 12  # confused pairs, where labels are many
MAX_PARTNERS: Final = 6
Floats = NDArray[np.float64]


def details(
    view: WorkersView, agreement: AgreementView | None, truth: NDArray[np.int64] | None, real: dict[int, tuple[int, int]]
) -> dict[str, Any]:
    """Return what the script needs to describe the notable workers.

    - `view`: the workers.
    - `agreement`: who agrees with whom; None where that is not known.
    - `truth`: the code of the true label of each task, [tasks]; None where no truth is known.
    - `real`: right votes and votes with truth by the code of the worker.
    """
    rows = view.notable.to_dicts()
    codes = [row["code"] for row in rows]
    tables = confusions(view.people, codes, truth=truth)
    others = agreement_with_others(view.people)
    partners = {} if agreement is None else _partners(agreement)
    names = [words.shortened(name, MAX_NAME) for name in view.people.votes.labels.texts()]
    return {
        "labels": names,
        "against": "true" if truth is not None else "chosen",
        "others": _rounded(others[1]),
        "workers": {
            str(row["code"]): _worker(row, table, float(others[0][row["code"]]), partners.get(row["code"], []), real)
            for row, table in zip(rows, tables, strict=True)
        },
    }


def _worker(
    row: dict[str, Any], table: ConfusionView, others: float, partners: list[Any], real: dict[int, tuple[int, int]]
) -> dict[str, Any]:
    known = real.get(row["code"])
    figures = {name: _rounded(row[name]) for name in ("accuracy", "accuracy_low", "accuracy_high", "agreement")}
    return {
        "name": words.shortened(row["worker"], MAX_NAME),
        "votes": row["votes"],
        **figures,
        "verdict": row["verdict"],
        "why": None if row["why"] is None else words.shortened(row["why"], 3 * MAX_NAME),
        "like": None if row["answers_like"] is None else words.shortened(row["answers_like"], MAX_NAME),
        "group": None if row["group"] is None else words.shortened(row["group"], MAX_NAME),
        "others": _rounded(others),
        "partners": partners,
        "real": None if known is None else list(known),
        "cells": _cells(table),
        "bias": _bias(table),
    }


def _cells(table: ConfusionView) -> list[list[int]]:
    """Return true label, given label and votes of every cell; of many labels those of the pairs that are confused most."""
    cells = np.stack([table.true, table.given, table.votes], axis=1)
    if len(table.labels) > MAX_MATRIX:
        wrong = cells[table.true != table.given]
        cells = wrong[np.argsort(-wrong[:, 2], kind="stable")[:MAX_PAIRS]]
    return [[int(n) for n in cell] for cell in cells]


def _bias(table: ConfusionView) -> list[list[float]]:
    """Return label, share given and share expected, of the labels on which both differ most.

    A label is expected as often as the tasks that the worker judged have it.
    """
    total = max(int(table.votes.sum()), 1)
    given = np.bincount(table.given, table.votes, minlength=len(table.labels)) / total
    expected = table.support / total
    most = np.argsort(-np.abs(given - expected), kind="stable")[:MAX_BIAS]
    return [[int(c), round(float(given[c]), 4), round(float(expected[c]), 4)] for c in most if given[c] or expected[c]]


def agreement_with_others(people: Result) -> tuple[Floats, float]:
    """Return how often other votes on the same tasks give the same label: of each worker, [workers], and of all.

    NaN stands for workers whose tasks nobody else judged.
    """
    votes = people.votes
    same, others = np.zeros(votes.n_rows), np.zeros(votes.n_rows)
    k, first = max(votes.n_labels, 1), 0
    for part, ptr, row in votes.parts():
        size = np.diff(ptr)
        task = np.repeat(np.arange(len(size)), size)
        key = task * k + votes.row_label[row]
        _, where, times = np.unique(key, return_inverse=True, return_counts=True)
        same += np.bincount(row, times[where] - 1, minlength=votes.n_rows)
        others += np.bincount(row, np.repeat(size - 1, size), minlength=votes.n_rows)
        first = part.stop
    assert first == votes.n_tasks
    own, all_others = votes.by_worker(same), votes.by_worker(others)
    with np.errstate(invalid="ignore"):
        return own / np.where(all_others > 0, all_others, np.nan), float(own.sum() / max(all_others.sum(), 1.0))


def _partners(view: AgreementView) -> dict[int, list[list[Any]]]:
    """Return, by the code of a worker, those it agrees with most and least: name, kappa, agreement, shared tasks."""
    out = {}
    for at, code in enumerate(view.codes.tolist()):
        others = np.flatnonzero((view.shared[at] > 0) & ~np.isnan(view.kappa[at]))
        others = others[others != at]
        order = others[np.argsort(-view.kappa[at, others], kind="stable")][:MAX_PARTNERS]
        out[code] = [
            [
                words.shortened(view.workers[o], MAX_NAME),
                round(float(view.kappa[at, o]), 3),
                round(float(view.agreement[at, o]), 3),
                int(view.shared[at, o]),
            ]
            for o in order.tolist()
        ]
    return out


def real_accuracy(people: Result, truth: NDArray[np.int64], codes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return right votes and votes on tasks with truth, by the code of a worker; workers without one are left out."""
    votes = people.votes
    right, known = np.zeros(votes.n_rows, np.int64), np.zeros(votes.n_rows, np.int64)
    for row, label in voted(votes, truth):
        has = label >= 0
        known += np.bincount(row[has], minlength=votes.n_rows)
        right += np.bincount(row[has & (votes.row_label[row] == label)], minlength=votes.n_rows)
    by_right, by_known = votes.by_worker(right), votes.by_worker(known)
    return {code: (int(by_right[code]), int(by_known[code])) for code in codes if by_known[code]}


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value else round(float(value), 4)
