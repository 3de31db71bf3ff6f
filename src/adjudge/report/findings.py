"""Everything a report shows of one result, found once: views, explanations, and what truth says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.evaluation.truth import Evaluation, evaluate
from adjudge.io.ids import column
from adjudge.report.details import real_accuracy
from adjudge.report.draw.curves import ModelScore
from adjudge.report.views.agreement import AgreementView, agreement
from adjudge.report.views.confusion import ConfusionView, confusions
from adjudge.report.views.tasks import TasksView, tasks
from adjudge.report.views.workers import WorkersView, workers
from adjudge.results.ask_next import TaskGains
from adjudge.results.evidence import figures_at
from adjudge.results.explain import explain_many
from adjudge.results.explanation import Explanation
from adjudge.results.result import Result
from adjudge.results.workers import gold_frame

MAX_UNCERTAIN: Final = 30  # tasks that are listed, with every vote
MAX_DISPUTED: Final = 20
COMPARED: Final = ("mv", "fds", "auto")  # models whose accuracy stands beside that of the report's own
MAX_COMPARED: Final = 300_000  # votes up to which these are fitted for a report: a second or two
MAX_CELLS: Final = 30_000_000  # tasks x labels up to which the gain of one more vote is computed for all tasks
NORMAL: Final = 1.96  # standard errors of a 95% interval


class Compared(Protocol):
    """What a comparison of models tells a report: `adj.compare` returns one."""

    def models_frame(self) -> pl.DataFrame:
        """Return model, accuracy, accuracy_low and accuracy_high, as a polars frame."""
        ...


@dataclass(frozen=True, eq=False)
class Findings:
    """What is known of a result of single labels."""

    result: Result
    truth: pl.DataFrame | None = None  # task and label as text
    comparison: Compared | None = None  # of models on these votes, where there is one

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
        """How far workers agree; None where votes are not in memory, or are too many to compare."""
        return agreement(self.workers.people) if self.result.is_here and self.workers.is_judged else None

    @cached_property
    def crowd(self) -> ConfusionView:
        """The confusion of all workers together, against truth where it is known."""
        return confusions(self.workers.people, None, truth=self.true_codes)[0]

    @cached_property
    def doubtful(self) -> dict[int, float]:
        """The tasks where one more vote is worth most, with the expected gain in right labels; the least certain ones of many.

        Where a table of tasks x labels would be too large, gains are NaN.
        """
        votes = self.result.votes
        if votes.n_tasks * votes.n_labels > MAX_CELLS:
            return dict.fromkeys(self.tasks.uncertain[:MAX_UNCERTAIN].tolist(), math.nan)
        found = TaskGains(self.result, None, None).ranked(MAX_UNCERTAIN, only_gains=True)
        order = np.lexsort((found.code, -found.gain))
        gains = {
            code: gain for code, gain in zip(found.code[order].tolist(), found.gain[order].tolist(), strict=True) if code >= 0
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
    def is_gold(self) -> NDArray[np.bool_]:
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
        """What truth says of the labels that were not given; None where it says nothing."""
        if self.judged is None or (self.is_gold.any() and not len(self.judged)):
            return None
        found = evaluate(self.result, self.judged)
        return found if found.tasks else None

    @cached_property
    def true_codes(self) -> NDArray[np.int64] | None:
        """The true label of each task, [tasks]: -1 where it is not known, K where nobody gives it; None without truth."""
        if self.truth is None or not self.result.is_here:
            return None
        votes = self.workers.people.votes
        names = pl.DataFrame({"label": pl.Series(votes.labels.texts(), dtype=pl.String)}).with_row_index("code")
        known = self.truth.join(names, on="label", how="left").with_columns(pl.col("code").cast(pl.Int64))
        known = known.with_columns(pl.col("code").fill_null(votes.n_labels))
        own = pl.DataFrame({"task": column(votes.tasks).cast(pl.String)})
        return own.join(known, on="task", how="left", maintain_order="left")["code"].fill_null(-1).to_numpy()

    @cached_property
    def real(self) -> dict[int, tuple[int, int]]:
        """Right votes and votes on tasks with truth, by the code of a notable worker."""
        if self.true_codes is None:
            return {}
        return real_accuracy(self.workers.people, self.true_codes, self.workers.notable["code"].to_list())

    @cached_property
    def scores(self) -> tuple[ModelScore, ...]:
        """The accuracy of some models, best first; none without truth, and the report's own alone where votes are many."""
        if self.evaluation is None:
            return ()
        compared = () if self.comparison is None else _compared(self.comparison, self.result.model)
        if compared:
            return compared
        own = _score(self.result.model, self.evaluation, is_own=True)
        fitted = [own]
        if self.truth is not None and self.result.is_here and len(self.result.votes) <= MAX_COMPARED:
            fitted += [_score(name, self._evaluated(name)) for name in COMPARED if name != self.result.model]
        return tuple(sorted(fitted, key=lambda one: -one.accuracy))

    def _evaluated(self, model: str) -> Evaluation:
        """Return how another model does on the same votes and gold, with its own settings."""
        from adjudge.models.aggregation import aggregate

        gold = gold_frame(self.result.votes, self.result.fit.outcome.labels, self.is_gold)
        fitted = aggregate(self.result.votes, model=model, confidence="posterior", gold=gold)  # type: ignore[call-overload]
        found: Evaluation = evaluate(fitted, self.judged)  # type: ignore[arg-type]
        return found


def _score(model: str, found: Evaluation, *, is_own: bool = False) -> ModelScore:
    low, high = wilson(found.correct, found.tasks)
    return ModelScore(model, found.accuracy, low, high, is_own)


def _compared(comparison: Compared, own: str) -> tuple[ModelScore, ...]:
    """Return the accuracy of the models that a comparison knows it of with an interval, best first."""
    frame = comparison.models_frame().select("model", "accuracy", "accuracy_low", "accuracy_high").drop_nulls()
    rows = frame.sort("accuracy", descending=True, maintain_order=True).iter_rows()
    return tuple(ModelScore(name, accuracy, low, high, name == own) for name, accuracy, low, high in rows)


def wilson(right: int, tasks: int) -> tuple[float, float]:
    """Return the 95% interval of a share, as Wilson has it.

    >>> [round(end, 3) for end in wilson(90, 100)]
    [0.826, 0.945]
    """
    if not tasks:
        return 0.0, 1.0
    share, z2 = right / tasks, NORMAL**2
    middle, half = share + z2 / (2 * tasks), NORMAL * math.sqrt(share * (1 - share) / tasks + z2 / (4 * tasks**2))
    low, high = (middle - half) / (1 + z2 / tasks), (middle + half) / (1 + z2 / tasks)
    return (low if right else 0.0), (high if right < tasks else 1.0)  # which they are, but for the last bits
