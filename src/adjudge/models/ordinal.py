"""Ordinal grades: judges who see one scale through a bias, a stretch and a scale of noise of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import ClassPrior, Fit, TableLines, lay_out
from adjudge.data.grades import check_order, grades_of, numbers_of
from adjudge.data.options import DEFAULTS, Number, Order, Rules
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import Votes
from adjudge.engines import memory
from adjudge.engines.base import Session, WorkerBlock
from adjudge.models import em
from adjudge.models.base import COMMON, Knowns, Model
from adjudge.models.dawid_skene import ConfusionPrior, EMRecipe
from adjudge.models.grade_scale import GradeScale, figures, grade_columns

Floats = NDArray[np.float64]
PSEUDO_TASKS_PER_GRADE: Final = 3.0  # tasks of each grade, in addition to the counted ones


@dataclass(frozen=True, kw_only=True)
class Ordinal(Model):
    """Grades with an order: a judge perceives stretch * grade + bias + noise, and gives the grade of that interval.

    The model is the cumulative one of McCullagh 1980 (proportional odds) around an unknown true grade, fitted by soft EM. A label
    is the most probable grade; more columns have the mean and the median of its posterior. Every judge has `bias` (grades too
    high, at the middle of the scale), `scale` (the standard deviation of its noise, in grades) and `stretch` (1 uses the scale
    like the others, below 1 stays near the middle, below 0 reverses it). Grades are one step apart; one that nobody gave, and
    that neither gold nor priors nor a history name, is not a step. Shares of grades are estimated, with three pseudo-tasks each.

    Parameters
    ----------
    order : optional
        Labels from the lowest to the highest grade. By default numbers order themselves, and other labels are in the order in
        which they were declared (`labels=`, or an ordered type of their column).
    tol, max_iter : optional
        As for `DawidSkene`.
    seed, ties : optional
        Break ties between labels that score the same: by a "hash" of seed, task and label, or by the "prior".

    Examples
    --------
    >>> import adjudge as adj
    >>> grades = {"a": [1, 2, 3, 2], "b": [1, 2, 3, 2], "c": [2, 3, 3, 3]}
    >>> votes = [(task, judge, grade) for judge, given in grades.items() for task, grade in enumerate(given)]
    >>> result = adj.Ordinal().fit(votes)
    >>> result.labels["label"].to_list()
    [1, 2, 3, 2]
    >>> result.workers.filter(worker="c")["bias"].item() > 0
    True

    """

    name: ClassVar[str] = "ordinal"
    title: ClassVar[str] = "ordinal grades"
    rules: ClassVar[Rules] = {
        **COMMON,
        "tol": Number(least=0),
        "max_iter": Number(least=1, whole=True),
        "order": Order(),
    }
    scoring: ClassVar[str] = "ordinal"
    room: ClassVar[memory.Room] = memory.GRADED
    is_ordered: ClassVar[bool] = True

    order: Sequence[object] | None = None
    tol: float = DEFAULTS.tol
    max_iter: int = DEFAULTS.max_iter

    def __post_init__(self) -> None:
        if isinstance(self.order, Iterable) and not isinstance(self.order, str | bytes | AbstractSet):
            object.__setattr__(self, "order", tuple(self.order))  # an iterator comes once
        super().__post_init__()
        if self.order is not None:
            object.__setattr__(self, "order", check_order(self.order))

    def adapt_to(self, votes: Votes) -> Ordinal:
        """Return the settings with the order of the labels, which is saved with the parameters.

        Parameters
        ----------
        votes : Votes
            The votes to fit.

        """
        texts = votes.labels.texts()
        grades = grades_of(texts, self._order, is_declared=votes.labels.is_declared)
        return self if self.order is not None or not texts else replace(self, order=tuple(texts[code] for code in grades.codes))

    def over(self, labels: Sequence[object]) -> Ordinal:
        """Return the settings with declared labels as the order, unless one was given or the labels are numbers.

        Parameters
        ----------
        labels : sequence of object
            The labels, in their declared order.

        """
        texts = [text_of(label) for label in labels]
        return self if self.order is not None or not texts or numbers_of(texts) is not None else replace(self, order=texts)

    def _fit(self, session: Session, known: Knowns) -> Fit:
        grades = grades_of(known.votes.labels.texts(), self._order)
        possible = known.possible(session)
        scale, there = GradeScale(grades, possible), max(int(possible.sum()), 1)
        # Else shares of grades fall to 0 where few judges are noisy: neighbours would explain all votes for the grade between.
        classes = known.classes or ClassPrior(possible / there, PSEUDO_TASKS_PER_GRADE * there)
        ended = em.run(session, GradeRecipe(self, ConfusionPrior(classes=classes), scale), known.options)
        outcome = session.finish()
        params, statistics, columns = session.estimate()
        return Fit(
            outcome,
            params,
            statistics,
            ended.trace,
            ended.converged,
            worker_columns=columns,
            task_columns=grade_columns(session, grades),
        )

    @property
    def _order(self) -> tuple[str, ...] | None:
        return None if self.order is None else check_order(self.order)


@dataclass(frozen=True, eq=False)
class GradeRecipe(EMRecipe):
    """Bias, stretch and scale of every judge, each from its own counts."""

    scale: GradeScale | None = None

    def on(self, block: WorkerBlock) -> GradeStep:
        """Return the M-step of these workers."""
        assert self.scale is not None
        return GradeStep(block, self.beliefs, self.scale)


class GradeStep:
    """The M-step of some workers: a small concave problem for each, solved by Newton's method."""

    def __init__(self, block: WorkerBlock, beliefs: ConfusionPrior, scale: GradeScale) -> None:
        panel = self._panel = block.panel
        self._scale, self._prior, self._threads = scale, beliefs.of(block), block.threads
        self._past = None if block.history is None else lay_out(panel, None, block.history)
        # Grades that occur only in a worker's history get rows of their own, after those of the votes.
        none = np.zeros(0, np.int64)
        absent = (none, none) if self._past is None else (self._past.others.worker, self._past.others.label)
        worker = np.concatenate([panel.row_worker(), absent[0]])
        self._order = np.argsort(worker, kind="stable")
        self._label = np.concatenate([panel.row_label, absent[1]])[self._order]
        self._ptr = np.searchsorted(worker[self._order], np.arange(panel.n_workers + 1)).astype(np.int64)

    def __call__(self, counts: Any, shared: Any = None) -> TableLines:
        """Return the lines of the judges that maximise the penalised likelihood of these counts, [rows, K]."""
        panel, past = self._panel, self._past
        counts = np.asarray(counts, np.float64)
        believed = np.zeros((0, panel.n_labels)) if past is None else np.concatenate([past.cells, past.others.counts])
        votes = counts if past is None else np.concatenate([counts + past.cells, past.others.counts])
        judges, log_prior = self._scale.judges(self._label, votes[self._order], self._ptr, self._threads)
        lines = self._scale.lines(np.repeat(judges, np.diff(self._ptr), axis=0), self._label)
        table = np.empty_like(lines)
        table[self._order] = lines
        penalty = float(log_prior.sum())
        if past is not None:
            penalty += float((believed * np.where(believed > 0, np.maximum(table, -1e300), 0.0)).sum())
        totals = panel.by_worker(counts).reshape(panel.n_workers, panel.n_labels)
        return TableLines(np.ascontiguousarray(table[: panel.n_rows]), totals, self._prior, penalty, columns=figures(judges))
