"""A fit in codes: prior knowledge as pseudo-votes, parameters, counts, and the outcome that `results/result.py` decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit, round_to_units, sum_of
from adjudge.data.vocabulary import require_array, require_finite
from adjudge.data.votes import WorkerRows, require_panel
from adjudge.data.wide import Cells

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WorkerPrior:
    """Pseudo-votes by worker, given label and true label, laid out on the rows of a panel.

    The rows hold the cells of labels that a worker has given; pseudo-votes for labels that a worker never gave
    count only in the totals.
    """

    cells: Floats  # [rows, K]
    on_rows: Floats  # [workers, K] over the labels that have a row
    totals: Floats  # [workers, K] over all given labels, those without a row too
    shared: Floats  # [K given, K true] lent to every worker alike
    others: Others  # what is believed of one worker, and of labels without a row

    def matrix(self, panel: WorkerRows, worker: int) -> Floats:
        """Return the pseudo-votes of one worker, [K given, K true]."""
        out = self.shared.copy()
        rows = slice(panel.worker_ptr[worker], panel.worker_ptr[worker + 1])
        out[panel.row_label[rows]] = self.cells[rows]
        mine = self.others.worker == worker
        np.add.at(out, self.others.label[mine], self.others.counts[mine])
        return out


@dataclass(frozen=True, eq=False)
class Others:
    """Pseudo-votes of (worker, given label) pairs that have no row, as pairs in any order."""

    worker: NDArray[np.int64]  # [pairs]
    label: NDArray[np.int64]  # [pairs]
    counts: Floats  # [pairs, K]


@dataclass(frozen=True, eq=False)
class ClassPrior:
    """Given class priors: fixed, or as pseudo-tasks added to the counted tasks."""

    priors: Floats  # [K], of sum 1
    weight: float | None = None  # tasks they are worth; None: they are not estimated at all

    def estimate(self, class_counts: NDArray[np.float64] | NDArray[np.int64]) -> tuple[Floats, float]:
        """Return p_c, [K], and the prior's term of the log-likelihood."""
        if self.weight is None:
            return self.priors, 0.0
        counts = class_counts + self.weight * self.priors
        total = sum_of(counts)
        found: Floats = counts / total if total else self.priors
        believed = self.weight * self.priors
        with np.errstate(divide="ignore"):
            penalty = np.where(believed > 0, believed * np.log(np.where(believed > 0, found, 1.0)), 0.0)
        return found, float(penalty.sum())


@dataclass(frozen=True, eq=False)
class Prior:
    """Prior knowledge of workers and labels; none by default, as in the paper."""

    smoothing: float = 0.0  # pseudo-votes in every cell of every worker
    workers: WorkerPrior | None = None
    classes: ClassPrior | None = None


def lay_out(panel: WorkerRows, shared: Floats | None, history: Others | None) -> WorkerPrior | None:
    """Return pseudo-votes on the rows of a panel: `shared`, [K given, K true], for every worker, plus each worker's `history`."""
    k = panel.n_labels
    if shared is None and history is None:
        return None
    lent = np.zeros((k, k)) if shared is None else round_to_units(shared)
    cells = lent[panel.row_label]
    totals = np.repeat(lent.sum(axis=0)[None, :], panel.n_workers, axis=0)
    left = Others(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, k)))
    if history is not None:
        history = replace(history, counts=round_to_units(history.counts))
        np.add.at(totals, history.worker, history.counts)
        place = panel.row_of(history.worker, history.label)
        has = place >= 0
        np.add.at(cells, place[has], history.counts[has])
        left = Others(history.worker[~has], history.label[~has], history.counts[~has])
    return WorkerPrior(cells, panel.by_worker(cells), totals, lent, left)


PSEUDO_VOTES_PER_WORKER: Final = 5.0  # votes of the mean worker that every worker is lent
WIDE_TABLE: Final = 64  # labels from which tables are summed by row, not by column
MAX_EXACT_COUNT: Final = 2.0**53  # above it, float64 no longer tells whole numbers apart


@dataclass(frozen=True, eq=False, kw_only=True)
class Knowledge(WorkerRows):
    """Expected votes of every worker by given label (rows) and true label, and expected tasks by label.

    Knowledge is additive: that of two sets of votes over the same labels is the sum of both.
    """

    counts: Any  # [rows, K] votes of a row on tasks of this true label: an array, or `Cells`
    class_counts: NDArray[np.float64]  # [K] tasks of this true label

    def __post_init__(self) -> None:
        require_panel(self)
        for name, ids in (("workers", self.workers), ("labels", self.labels)):
            ids.require_distinct(name)
        arrays = {"counts": (self.counts, (self.n_rows, self.n_labels)), "class_counts": (self.class_counts, (self.n_labels,))}
        if isinstance(self.counts, Cells):
            arrays["counts"] = self.counts.count, (len(self.counts.label),)
        for name, (array, shape) in arrays.items():
            require_finite(name, require_array(name, array, np.float64, shape), least=0, most=MAX_EXACT_COUNT)

    def mean_worker(self) -> NDArray[np.float64]:
        """Return all workers' votes as shares of those on tasks of the same true label, [K given, K true].

        A true label that nobody has met gets zeros.
        """
        return mean_worker(self, self.counts)


def mean_worker(panel: WorkerRows, counts: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the confusion of all workers together, [K given, K true], from their votes by row, [rows, K]."""
    votes = given_votes(panel, counts)
    total = votes.sum(axis=0)
    out: NDArray[np.float64] = votes / np.where(total > 0, total, 1.0)
    return out


def given_votes(panel: WorkerRows, counts: NDArray[np.float64] | NDArray[np.int64] | Cells) -> NDArray[np.float64]:
    """Return the votes of all workers together, [K given, K true], from their votes by row, [rows, K]."""
    k = panel.n_labels
    if isinstance(counts, Cells):
        return counts.by_given(panel.row_label)
    if k >= WIDE_TABLE:  # columns of a wide table are far apart in memory
        order = np.argsort(panel.row_label, kind="stable")
        rows = np.split(order, np.searchsorted(panel.row_label[order], np.arange(1, k)))
        return np.stack([counts[some].sum(axis=0, dtype=np.float64) for some in rows])
    by_true = [np.bincount(panel.row_label, counts[:, c], minlength=k) for c in range(k)]
    return np.stack(by_true, axis=1).astype(np.float64) if k else np.zeros((0, 0))


def effective_votes(votes_per_task: Floats | float, correlation: Floats | float) -> Floats:
    """Return n / (1 + (n - 1) r), how many independent votes those of a task amount to (Kish); r below 0 counts as 0.

    >>> effective_votes(9.0, np.array([-0.1, 0.0, 0.5, 1.0])).tolist()
    [9.0, 9.0, 1.8, 1.0]
    """
    out: Floats = votes_per_task / (1.0 + (votes_per_task - 1.0) * np.maximum(correlation, 0.0))
    return out


def own_rates(right: Floats, votes: Floats, mean: float) -> Floats:
    """Return how often each worker is right, [workers], with five votes of the mean worker lent: what errors are measured beyond.

    `right` and `votes` count each worker's right votes and all votes, [workers]; `mean` is the share of right ones among all.
    """
    out: Floats = np.clip((right + PSEUDO_VOTES_PER_WORKER * mean) / (votes + PSEUDO_VOTES_PER_WORKER), 0.02, 0.98)
    return out


class TableLines(NamedTuple):
    """Lines of the table that an M-step makes from the counts of some workers."""

    table: Any  # [rows, K] log pi: the line of a (worker, given label), by true label; an array, or a `WideTable`
    worker_totals: NDArray[np.float64]  # [workers, K] votes of the worker on tasks of this true label
    prior: Prior = Prior()  # what was believed beforehand
    penalty: float = 0.0  # what beliefs about these workers add to the likelihood, less constants
    uses_prior: bool = True  # whether scores start at the log prior, or at 0
    columns: Mapping[str, NDArray[Any]] = {}  # [workers] each: what else the recipe knows of a worker


@dataclass(frozen=True, eq=False)
class Parameters:
    """What an M-step estimates: p_c as `priors`, log pi_cl^(a) as a table with one line per row."""

    priors: NDArray[np.float64]  # [K] p_c
    table: Any  # [rows, K] log pi: the line of a (worker, given label), by true label; an array, or a `WideTable`
    worker_totals: NDArray[np.float64]  # [workers, K] votes of the worker on tasks of this true label
    prior: Prior = field(default_factory=Prior)  # what was believed beforehand
    penalty: float = 0.0  # what the prior adds to the likelihood, less constants
    uses_prior: bool = True  # whether scores start at the log prior, or at 0

    @classmethod
    def of(cls, priors: NDArray[np.float64], lines: TableLines) -> Parameters:
        """Return the parameters of these class priors and lines."""
        return cls(priors, lines.table, lines.worker_totals, lines.prior, lines.penalty, lines.uses_prior)

    @property
    def log_prior(self) -> NDArray[np.float64]:
        """Initial scores, [K]: log p_c, minus infinity for a label that no task has; 0 for models without a prior."""
        if not self.uses_prior:
            return np.zeros(len(self.priors))
        with np.errstate(divide="ignore"):
            return round_to_unit(np.log(self.priors), LOG_UNIT)

    def denominators(self) -> NDArray[np.float64]:
        """Return votes and pseudo-votes of each worker by true label, [workers, K]: the denominators of pi."""
        out = self.worker_totals + len(self.priors) * self.prior.smoothing
        return out if self.prior.workers is None else out + self.prior.workers.totals

    def confusion(self, panel: WorkerRows, worker: int) -> NDArray[np.float64]:
        """Return pi_cl of one worker, [K true, K given]; zeros where the worker never met the true label."""
        k, believed = panel.n_labels, self.prior.workers
        absent = np.zeros((k, k)) if believed is None else believed.matrix(panel, worker)
        total = self.worker_totals[worker] + k * self.prior.smoothing
        total = total if believed is None else total + believed.totals[worker]
        with np.errstate(divide="ignore", invalid="ignore"):
            matrix = np.nan_to_num((absent + self.prior.smoothing) / total).T
        rows = slice(panel.worker_ptr[worker], panel.worker_ptr[worker + 1])
        matrix[:, panel.row_label[rows]] = np.exp(self.table[rows]).T
        out: NDArray[np.float64] = matrix
        return out


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts of votes by true label, as soft (posterior) or hard (one label) weights.

    Statistics are additive: those of two shards are the sum of both. The arrays belong to the session that
    counted and may reuse them: they are valid until its next step.
    """

    counts: Any  # [rows, K] votes of a row whose task has this true label: an array, or `Cells`
    class_counts: NDArray[np.float64] | NDArray[np.int64]  # [K] tasks with this true label
    log_likelihood: float = float("nan")  # sum of log p(votes of a task), marginal over the true label
    classification: float = float("nan")  # C2 of the paper: sum of log p(votes, chosen label)
    changed: int = 0  # tasks whose label is another than before the pass
    impossible: int = 0  # tasks whose votes have probability 0 under every label

    def fingerprint(self) -> bytes:
        """Return a fingerprint of the counts: equal counts give equal bytes."""
        return blake2b(self.counts.tobytes(), digest_size=16).digest()


# Figures of all tasks, [tasks, …]: at once, or in pieces in task order if they need not fit in memory.
Pieces = NDArray[np.float64] | Iterable[NDArray[np.float64]]


@dataclass(frozen=True)
class TraceRow:
    """One iteration: an M-step and the E-step that follows it."""

    iteration: int
    phase: str  # "soft" or "hard"; "A" or "B" of auto
    change: float  # sum of |p_c - previous p_c|, or what the objective gained (see `stop`); NaN in the first iteration
    log_likelihood: float  # marginal
    classification: float  # C2 of the paper; NaN in a soft pass
    objective: float  # what this phase never lets fall: likelihood (soft) or C2 (hard), plus smoothing's or priors' penalty
    labels_changed: int
    seconds: float


@dataclass(frozen=True, eq=False)
class FitOutcome:
    """Decisions of the last E-step on every task."""

    labels: NDArray[np.int32]  # [tasks] the winner's code
    confidence: NDArray[np.float64]  # [tasks] its posterior probability
    tie: NDArray[np.bool_]  # [tasks] whether another label scored as well
    # [rows] expected number of right votes in the row: counted, or a function that counts them on first use
    right_votes: NDArray[np.float64] | Callable[[], NDArray[np.float64]]
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class Fit:
    """Labels, parameters and trace of a fit, and a model's further figures of workers and tasks."""

    outcome: FitOutcome
    params: Parameters
    statistics: Statistics  # of the last E-step
    trace: tuple[TraceRow, ...] = ()
    converged: bool = True
    worker_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # [workers] each, besides votes and accuracy
    task_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # [tasks] each, besides label and confidence
    honest: Any = None  # the honest probabilities of its labels (`adjudge.models.honest.HonestProbabilities`), where asked for
    stack: Any = None  # the panel stack that decided (`adjudge.models.panel.Stack`), if any
    shown: Callable[[], Pieces] | None = None  # probabilities for people, [tasks, K]; None: the posterior
    posterior: Callable[[], Pieces] | None = None  # T_qc, [tasks, K], where `params` alone do not give it
    skill: NDArray[np.float64] | None = None  # [workers] the weight or accuracy that votes are scored by, if one is
    scored_by: NDArray[np.float64] | None = None  # [K] the priors of scores, if `params` hold the shares of labels instead
    temperature: float = 1.0  # posteriors are raised to 1 / temperature
    is_opaque: bool = False  # whether somebody else's model decided, so that what a changed vote would do is not known
    scoring: str | None = None  # how votes are scored, if not in the model's own way
    facts: Mapping[str, object] = field(default_factory=dict)  # measurements of the votes, and choices made
    log_others: float | None = None  # glad: the logarithm of how many labels an error can fall on
    strength: float = 0.0  # pseudo-votes of the mean worker that every worker was lent

    @property
    def iterations(self) -> int:
        """The number of M-steps taken."""
        return len(self.trace)
