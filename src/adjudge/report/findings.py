"""Everything a report shows of one result, found once: views, explanations, what truth says, and the details of workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from adjudge.evaluation.evaluate import Evaluation, evaluate
from adjudge.evaluation.inputs import truth_codes
from adjudge.evaluation.intervals import Flags, Floats, Integers, wilson
from adjudge.io.frames import column
from adjudge.report import words
from adjudge.report.views.labels import TasksView, tasks
from adjudge.report.views.votes import MAX_MATRIX, AgreementView, ConfusionView, agreement, confusions, voted
from adjudge.report.views.workers import WorkersView, workers
from adjudge.results.ask_next import TaskGains
from adjudge.results.evidence import figures_at
from adjudge.results.explain import explain_many
from adjudge.results.explanation import Explanation
from adjudge.results.result import Result
from adjudge.results.workers import gold_frame

if TYPE_CHECKING:
    from adjudge.evaluation.compare.compare import Comparison

MAX_UNCERTAIN: Final = 30  # tasks that are listed, with every vote
MAX_DISPUTED: Final = 20
BASELINE_MODELS: Final = ("mv", "fds", "auto")  # models to compare with the report's own
MAX_BASELINE_VOTES: Final = 300_000  # votes up to which a report fits them: a second or two
MAX_GAIN_CELLS: Final = 30_000_000  # tasks x labels up to which the gain of one more vote is computed for all tasks
NORMAL_95: Final = 1.96  # standard errors of a 95% interval
MAX_DETAIL_NAME_CHARACTERS: Final = 200  # characters of a name: they may be of any length, a page may not
MAX_BIAS: Final = 8  # labels whose shares are compared
MAX_CONFUSED_PAIRS: Final = 12  # confused pairs, if labels are many
MAX_PARTNERS: Final = 6


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known of a result of single labels."""

    result: Result
    truth: pl.DataFrame | None = None  # task and label as text
    comparison: Comparison | None = None  # of models on these votes, if any

    @cached_property
    def workers(self) -> WorkersView:
        """The workers."""
        return workers(self.result)

    @cached_property
    def tasks(self) -> TasksView:
        """The tasks by confidence."""
        return tasks(self.result)

    @cached_property
    def agreement(self) -> AgreementView | None:
        """How far workers agree; None if votes are not in memory, or are too many to compare."""
        return agreement(self.workers.people) if self.result.is_here and self.workers.is_judged else None

    @cached_property
    def crowd(self) -> ConfusionView:
        """The confusion of all workers together, against truth where it is known."""
        return confusions(self.workers.people, None, truth=self.true_codes)[0]

    @cached_property
    def doubtful(self) -> dict[int, float]:
        """The tasks where one more vote is worth most, with the expected gain in right labels; the least certain ones of many.

        If a table of tasks x labels would be too large, gains are NaN.
        """
        votes = self.result.votes
        if votes.n_tasks * votes.n_labels > MAX_GAIN_CELLS:
            return dict.fromkeys(self.tasks.uncertain[:MAX_UNCERTAIN].tolist(), math.nan)
        first = TaskGains(self.result, None, None).ranked(MAX_UNCERTAIN, only_gains=True)
        order = np.lexsort((first.code, -first.gain))
        gains = {
            code: gain for code, gain in zip(first.code[order].tolist(), first.gain[order].tolist(), strict=True) if code >= 0
        }
        rest = [code for code in self.tasks.uncertain.tolist() if code not in gains]
        listed = dict(list((gains | dict.fromkeys(rest, 0.0)).items())[:MAX_UNCERTAIN])
        least = self.tasks.uncertain[:1].tolist()  # the page names it, so the list has it
        if len(listed) == MAX_UNCERTAIN and least and least[0] not in listed:
            listed.popitem()
            listed[least[0]] = gains.get(least[0], math.nan)
        return listed

    @cached_property
    def explanations(self) -> dict[int, Explanation]:
        """Why the listed tasks have their labels, by code."""
        codes = np.unique(np.append(np.array(list(self.doubtful), np.int64), self.tasks.disputed[:MAX_DISPUTED]))
        return dict(zip(codes.tolist(), explain_many(self.result, codes), strict=True))

    @cached_property
    def is_gold(self) -> Flags:
        """Whether the label of each task was given, [tasks]."""
        n, gold = self.result.votes.n_tasks, self.result.fit.task_columns.get("gold")
        return np.zeros(n, np.bool_) if gold is None else np.asarray(figures_at(gold, np.arange(n)), np.bool_)

    @cached_property
    def judged(self) -> pl.DataFrame | None:
        """The truth of tasks whose label was not given: a label that was says nothing of how good labels are."""
        if self.truth is None or not self.is_gold.any():
            return self.truth
        given = column(self.result.votes.tasks, np.flatnonzero(self.is_gold)).cast(pl.String)
        return self.truth.filter(~pl.col("task").is_in(given.implode()))

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """What truth says of the labels that were not given; None if it says nothing."""
        if self.judged is None or (self.is_gold.any() and not len(self.judged)):
            return None
        evaluation = evaluate(self.result, self.judged)
        return evaluation if evaluation.tasks else None

    @cached_property
    def true_codes(self) -> Integers | None:
        """The true label of each task, [tasks]: -1 if it is not known, K or above if nobody gives it; None without truth."""
        return None if self.truth is None or not self.result.is_here else truth_codes(self.workers.people.votes, self.truth)

    @cached_property
    def real(self) -> dict[int, tuple[int, int]]:
        """Right votes and votes on tasks with truth, by the code of a notable worker."""
        if self.true_codes is None:
            return {}
        return real_accuracy(self.workers.people, self.true_codes, self.workers.notable["code"].to_list())

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Model, accuracy, low, high (a 95% interval) and is_own, best first: of models compared, or of some that are fitted.

        If votes are many, the report's own model is alone.
        """
        own, compared = self.result.model, self.comparison
        if compared is not None:
            ends = {"low": "accuracy_low", "high": "accuracy_high"}
            frame = compared.models_frame().select("model", "accuracy", **ends, is_own=pl.col("model") == own).drop_nulls()
            if len(frame):
                return frame.sort("accuracy", descending=True, maintain_order=True)
        evaluations = {own: self.evaluation}
        if self.truth is not None and self.result.is_here and len(self.result.votes) <= MAX_BASELINE_VOTES:
            evaluations |= {name: self._evaluate(name) for name in BASELINE_MODELS if name != own}
        rows = [(name, one.accuracy, *wilson_95(one.correct, one.tasks), name == own) for name, one in evaluations.items() if one]
        frame = pl.DataFrame(rows, schema=["model", "accuracy", "low", "high", "is_own"], orient="row")
        return frame.sort("accuracy", descending=True, maintain_order=True)

    def _evaluate(self, model: str) -> Evaluation:
        """Return how another model does on the same votes and gold, with its own settings."""
        from adjudge.models.aggregation import aggregate

        gold = gold_frame(self.result.votes, self.result.fit.outcome.labels, self.is_gold)
        fitted = aggregate(self.result.votes, model=model, confidence="posterior", gold=gold)  # type: ignore[call-overload]
        found: Evaluation = evaluate(fitted, self.judged)  # type: ignore[arg-type]
        return found


def wilson_95(right: int, tasks: int) -> tuple[float, float]:
    """Return the 95% interval of a share, as Wilson has it.

    >>> [round(end, 3) for end in wilson_95(90, 100)]
    [0.826, 0.945]
    """
    low, high = wilson(right / tasks, tasks, NORMAL_95) if tasks else (0.0, 1.0)
    return float(low), float(high)


def details(
    view: WorkersView, agreement: AgreementView | None, truth: Integers | None, real: dict[int, tuple[int, int]]
) -> dict[str, Any]:
    """Return what the script needs to describe the notable workers.

    - `view`: the workers.
    - `agreement`: who agrees with whom; None where that is not known.
    - `truth`: the code of the true label of each task, [tasks]; None if no truth is known.
    - `real`: right votes and votes with truth by the code of the worker.
    """
    rows = view.notable.to_dicts()
    codes = [row["code"] for row in rows]
    tables = confusions(view.people, codes, truth=truth)
    others = agreement_with_others(view.people)
    partners = {} if agreement is None else _partners(agreement)
    names = [words.shorten(name, MAX_DETAIL_NAME_CHARACTERS) for name in view.people.votes.labels.texts()]
    return {
        "labels": names,
        "against": "true" if truth is not None else "chosen",
        "others": _round(others[1]),
        "workers": {
            str(row["code"]): _worker(row, table, float(others[0][row["code"]]), partners.get(row["code"], []), real)
            for row, table in zip(rows, tables, strict=True)
        },
    }


def _worker(
    row: dict[str, Any], table: ConfusionView, others: float, partners: list[Any], real: dict[int, tuple[int, int]]
) -> dict[str, Any]:
    known = real.get(row["code"])
    figures = {name: _round(row[name]) for name in ("accuracy", "accuracy_low", "accuracy_high", "agreement")}
    return {
        "name": words.shorten(row["worker"], MAX_DETAIL_NAME_CHARACTERS),
        "votes": row["votes"],
        **figures,
        "verdict": row["verdict"],
        "why": None if row["why"] is None else words.shorten(row["why"], 3 * MAX_DETAIL_NAME_CHARACTERS),
        "like": None if row["answers_like"] is None else words.shorten(row["answers_like"], MAX_DETAIL_NAME_CHARACTERS),
        "group": None if row["group"] is None else words.shorten(row["group"], MAX_DETAIL_NAME_CHARACTERS),
        "others": _round(others),
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
        cells = wrong[np.argsort(-wrong[:, 2], kind="stable")[:MAX_CONFUSED_PAIRS]]
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
                words.shorten(view.workers[o], MAX_DETAIL_NAME_CHARACTERS),
                round(float(view.kappa[at, o]), 3),
                round(float(view.agreement[at, o]), 3),
                int(view.shared[at, o]),
            ]
            for o in order.tolist()
        ]
    return out


def real_accuracy(people: Result, truth: Integers, codes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return right votes and votes on tasks with truth, by the code of a worker; workers without one are left out."""
    votes = people.votes
    right, known = np.zeros(votes.n_rows, np.int64), np.zeros(votes.n_rows, np.int64)
    for row, label in voted(votes, truth):
        has = label >= 0
        known += np.bincount(row[has], minlength=votes.n_rows)
        right += np.bincount(row[has & (votes.row_label[row] == label)], minlength=votes.n_rows)
    by_right, by_known = votes.by_worker(right), votes.by_worker(known)
    return {code: (int(by_right[code]), int(by_known[code])) for code in codes if by_known[code]}


def _round(value: float | None) -> float | None:
    return None if value is None or value != value else round(float(value), 4)
