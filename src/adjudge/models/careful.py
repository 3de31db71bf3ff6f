"""Careful workers: the tables that auto scores votes by, from counts of the labels believed.

Both versions of a worker take the confusion of the mean worker, symmetrised, and shift it by the worker's accuracy, which is
shrunk by empirical Bayes and damped by the errors that workers share. Version A adds the worker's taste for labels, version
B the worker's own rows up to a cap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.fit import WIDE_TABLE, Knowledge, lay_out
from adjudge.data.votes import WorkerRows
from adjudge.data.wide import Cells, WidePart, WideTable
from adjudge.engines.base import Gather, WorkerBlock
from adjudge.kernels import cpu, reference
from adjudge.models.honest import PRIOR_WEIGHT, Dependence, pools_votes, population, spread, spread_moments, votes_of_all

Floats = NDArray[np.float64]
Kind = Literal["A", "B"]
T = TypeVar("T")
CAREFUL_KINDS: Final[tuple[Kind, ...]] = ("A", "B")
TINY: Final = 1e-9
LEAST: Final = 1e-6  # of a probability


class CarefulShared(NamedTuple):
    """What every worker's lines depend on: the mean worker, and how far a worker is believed to differ."""

    mean_worker: Floats  # [K true, K given]
    own: Floats  # [K] the mean worker's accuracy by true label
    kappa: float  # votes of the mean worker that an accuracy is shrunk by
    trust: float  # g: how far shared error leaves agreement informative
    most_own: float  # the largest weight that version B gives to a worker's own rows


@dataclass(frozen=True, eq=False)
class BelievedVotes:
    """Votes of some workers under the labels believed, those of their history included."""

    counts: Any  # [rows, K]
    met: Floats  # [workers, K] votes by true label
    said: Floats  # [workers, K] votes by given label
    right: Floats  # [workers]
    votes: Floats  # [workers]
    given: Floats = field(default_factory=partial(np.empty, (0, 0)))  # [K given, K true] those of all workers, if `pools_votes`

    @classmethod
    def of(cls, block: WorkerBlock, counts: Any, *, said: bool = True) -> BelievedVotes:
        """Return what was seen of the workers of a block; the compiled kernels leave out votes by given label if not asked."""
        panel: WorkerRows = block.panel
        if isinstance(counts, Cells) and block.history is None:
            right = panel.by_worker(counts[np.arange(panel.n_rows), panel.row_label])
            by_given, met = np.zeros((panel.n_workers, panel.n_labels)), panel.by_worker(counts)
            by_given[panel.row_worker(), panel.row_label] = counts.sum(axis=1)
            return cls(counts, met, by_given, right, met.sum(axis=1))
        if block.threads and block.history is None:
            rows, pools = (counts, panel.worker_ptr, panel.row_label), pools_votes(block, counts)
            return cls(counts, *cpu.worker_sums(*rows, said=said, given=pools, threads=block.threads))
        counts = np.asarray(counts, np.float64)
        met = panel.by_worker(counts)
        past = lay_out(panel, None, block.history)
        by_given, right = np.zeros((panel.n_workers, panel.n_labels)), np.zeros(panel.n_workers)
        if past is not None:
            counts, met = counts + past.cells, met + past.totals
            others = past.others
            np.add.at(by_given, (others.worker, others.label), others.counts.sum(axis=1))
            np.add.at(right, others.worker, others.counts[np.arange(len(others.label)), others.label])
        by_given.reshape(-1)[panel.row_worker() * panel.n_labels + panel.row_label] += counts.sum(axis=1)
        right += panel.by_worker(counts[np.arange(panel.n_rows), panel.row_label])
        return cls(counts, met, by_given, right, met.sum(axis=1))

    def spread_moments(self, own: Floats, block: WorkerBlock | None) -> Floats:
        """Return what `spread` needs; `own` is the mean worker's accuracy, [K]."""
        if block is not None and block.threads and not isinstance(self.counts, Cells):
            return cpu.careful_moments(self.met, self.right, self.votes, own, block.threads)
        return spread_moments(self.right, self.votes, self.expected_accuracy(own))

    def expected_accuracy(self, own: Floats) -> Floats:
        """Return what the mean worker would reach on the labels that each worker met, [workers]; `own` is its accuracy, [K]."""
        out: Floats = np.clip(self.met @ own / np.maximum(self.votes, TINY), 0.02, 0.98)
        return out


class SeenOnce:
    """What the first round of sums of an M-step saw, for the second and for its table: all look at the same counts.

    It is held until the table takes it, and no longer: it is as large as the table.
    """

    def __init__(self) -> None:
        self._last: tuple[Any, BelievedVotes] | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # a copy is for other counts
        return SeenOnce, ()

    def pool(self, kind: Kind, block: WorkerBlock, counts: Any) -> Floats:
        """Return what `pooled_votes` does, and keep what else the same look at the counts shows."""
        self._last = None  # counts may have changed in place
        if block.history is not None or not pools_votes(block, counts):
            return pooled_votes(block, counts)
        return self.look(kind, block, counts).given.T

    def look(self, kind: Kind, block: WorkerBlock, counts: Any) -> BelievedVotes:
        """Return what a version sees of a block, and keep it."""
        if self._last is not None and self._last[0] is counts:
            return self._last[1]
        seen = BelievedVotes.of(block, counts, said=kind == "A")
        self._last = counts, seen
        return seen

    def take(self, block: WorkerBlock, counts: Any) -> BelievedVotes:
        """Return what was seen of these counts, and keep it no longer."""
        last, self._last = self._last, None
        return last[1] if last is not None and last[0] is counts else BelievedVotes.of(block, counts)


def pooled_votes(block: WorkerBlock, counts: Any) -> Floats:
    """Return the votes of all workers, [K true, K given], those of histories included."""
    pooled = votes_of_all(block, counts).T
    if block.history is not None:
        np.add.at(pooled.T, block.history.label, block.history.counts)
    return pooled


def shared_by_all(
    gather: Gather,
    found: Dependence,
    exists: NDArray[np.bool_],
    see: Callable[[WorkerBlock, Any], BelievedVotes] = BelievedVotes.of,
    pool: Callable[[WorkerBlock, Any], Floats] = pooled_votes,
) -> CarefulShared:
    """Return the mean worker and the spread of skill, from two rounds of sums over all workers: `pool`, then `see`."""
    pooled = gather(pool)
    k, n_labels = len(exists), int(exists.sum())
    inner = np.ix_(exists, exists)
    total = pooled.sum()
    accuracy = float(np.clip(np.trace(pooled) / total, 1.0 / n_labels + 0.02, 0.995))
    mean_worker = np.zeros((k, k))
    mean_worker[inner] = population(pooled[inner], accuracy)
    own = np.clip(np.diag(mean_worker), 0.01, 0.99)

    kappa = 1.0 / spread(gather(partial(_moments, see, own))) - 1.0
    trust, effective = 1.0 / (1.0 + found.shared_error * (kappa + 1.0)), found.effective_votes
    return CarefulShared(mean_worker, own, kappa, trust, trust * effective / (effective + 5.0))


def _moments(see: Callable[[Any, Any], BelievedVotes], own: Floats, block: WorkerBlock | None, counts: Any) -> Floats:
    return see(block, counts).spread_moments(own, block)


def worker_table(
    kind: Kind,
    block: WorkerBlock,
    seen: BelievedVotes,
    shared: CarefulShared,
    found: Dependence,
    exists: NDArray[np.bool_],  # [K]
) -> Floats | WideTable:
    """Return log W of one of the two versions for all rows of a block, [rows, K true]: compiled, or by `careful_table`.

    It is in parts where only cells with votes are stored.
    """
    panel = block.panel
    if isinstance(seen.counts, Cells):
        who = np.arange(panel.n_workers)
        part = wide_part(kind, seen, shared, found, exists, panel, who, seen.counts, max(block.threads, 1))
        return WideTable(panel, (part,))
    if not block.threads or panel.n_labels >= WIDE_TABLE:  # matrix products are faster then
        return careful_table(kind, seen, shared, found, exists, panel.row_worker(), panel.row_label, seen.counts)
    return cpu.careful_table(
        seen.counts,
        panel.worker_ptr,
        panel.row_label,
        block.threads,
        met=seen.met,
        said=seen.said if kind == "A" else None,
        right=seen.right,
        own=shared.own,
        errors=error_shares(shared.mean_worker),
        exists=exists.view(np.uint8),
        kappa=shared.kappa,
        weight=shift_weight(kind, shared, found),
        taste_power=taste_power(found.inflation) if kind == "A" else 0.0,
        most_own=shared.most_own,
    )


def shift_weight(kind: Kind, shared: CarefulShared, found: Dependence) -> float:
    """Return how far a worker's accuracy moves its lines away from the mean worker."""
    return float(found.inflation**-0.5 if kind == "A" else shared.trust)


def taste_power(inflation: float) -> float:
    """Return how far a worker's taste for labels counts."""
    return float(0.6 * inflation**-0.25)


def error_shares(mean_worker: Floats) -> Floats:
    """Return how the mean worker's errors are distributed over the given labels, [K true, K given]."""
    errors = mean_worker.copy()
    np.fill_diagonal(errors, 0.0)
    of_label = errors.sum(axis=1, keepdims=True)
    errors /= np.where(of_label > 0, of_label, 1.0)
    return errors


class Factors(NamedTuple):
    """What the lines of a version are made of, by worker; see `careful_table`."""

    right: Floats  # [workers, K] probability to be right, by true label
    wrong: Floats  # [workers, K] to err; 0 for labels that do not exist
    errors: Floats  # [K true, K given] how errors are distributed
    taste: Floats  # A: [workers, K given]
    norm: Floats  # A: [workers, K] sums over given labels
    share: Floats  # B: [workers, K] of the worker's own rows

    @classmethod
    def of(cls, kind: Kind, seen: BelievedVotes, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> Factors:
        """Return the factors of one of the two versions."""
        met, total, none = seen.met, seen.votes, np.zeros(0)
        expected_rate = seen.expected_accuracy(shared.own)
        rate = np.clip((seen.right + shared.kappa * expected_rate) / (total + shared.kappa), 0.01, 0.995)
        shift = shift_weight(kind, shared, found) * (_logit(rate) - _logit(expected_rate))
        right = _sigmoid(_logit(shared.own) + shift[:, None])
        errors = error_shares(shared.mean_worker)
        wrong = np.where(exists, 1.0 - right, 0.0)
        if kind == "B":
            share = np.minimum(met / (met + 10.0), shared.most_own)
            return cls(right, wrong, errors, none, none, share)
        expected = (met * wrong) @ errors + met * np.where(exists, right, 0.0)
        lent = 10.0 * expected / np.maximum(expected.sum(axis=1, keepdims=True), TINY)
        taste = ((seen.said + lent + 1e-3) / (expected + lent + 1e-3)) ** taste_power(found.inflation)
        norm = wrong * (taste @ errors.T) + np.where(exists, right, 0.0) * taste
        return cls(right, wrong, errors, taste, np.where(norm > 0, norm, 1.0), none)


def careful_table(
    kind: Kind,
    seen: BelievedVotes,  # of workers
    shared: CarefulShared,
    found: Dependence,
    exists: NDArray[np.bool_],  # [K]
    worker: NDArray[np.int64],  # [rows] whose line is wanted
    label: NDArray[np.integer],  # [rows] for which given label
    counts: Floats,  # [rows, K] the worker's votes for it, by true label
) -> Floats:
    """Return log W of one of the two versions, [rows, K true]."""
    f = Factors.of(kind, seen, shared, found, exists)
    # The table is long, and workers are few: what can be is computed by worker, and the rest in place.
    cells = np.take(f.wrong, worker, axis=0)  # [rows, K true]
    cells *= np.take(f.errors.T, label, axis=0)
    own = np.arange(len(label)), label
    cells[own] = f.right[worker, label]
    if kind == "A":
        cells *= f.taste[worker, label][:, None]
        cells /= np.take(f.norm, worker, axis=0)
    else:
        cells *= np.take(1.0 - f.share, worker, axis=0)
        mine = np.take(f.share, worker, axis=0)
        mine *= counts
        mine /= np.take(np.maximum(seen.met, TINY), worker, axis=0)
        cells += mine
    table = np.log(np.maximum(cells, LEAST, out=cells), out=cells)
    if not exists.all():
        table[:, ~exists] = -np.inf
    return round_to_unit(table, LOG_UNIT)


def wide_part(
    kind: Kind,
    seen: BelievedVotes,  # of workers
    shared: CarefulShared,
    found: Dependence,
    exists: NDArray[np.bool_],  # [K]
    panel: WorkerRows,  # whose lines are wanted
    who: NDArray[np.int64],  # [workers of the panel] where each is in `seen`
    counts: Cells,  # [rows of the panel, K] the workers' votes, by true label
    threads: int = 1,
) -> WidePart:
    """Return the same in parts: all but the cells with votes, and those of the given labels, are sums of logarithms."""
    f = Factors.of(kind, seen, shared, found, exists)
    diagonal = Cells(np.arange(panel.n_rows + 1), panel.row_label, np.zeros(panel.n_rows), panel.n_labels)
    own = diagonal if kind == "A" else cpu.merge_cells(counts, diagonal, 1.0, 1.0, threads)
    row, c = own.row, own.label
    worker, label = who[panel.row_worker()], panel.row_label
    w, g = worker[row], label[row]
    cells = np.where(c == g, f.right[w, c], f.wrong[w, c] * f.errors[c, g])
    with np.errstate(divide="ignore"):
        if kind == "A":
            cells = cells * f.taste[w, g] / f.norm[w, c]
            by_worker, by_row = f.wrong / f.norm, round_to_unit(np.log(f.taste[worker, label]), LOG_UNIT)
        else:
            cells = cells * (1.0 - f.share[w, c]) + f.share[w, c] * own.count / np.maximum(seen.met[w, c], TINY)
            by_worker, by_row = f.wrong * (1.0 - f.share), None
        by_worker, by_given, cells, floor = (
            round_to_unit(np.log(part), LOG_UNIT)
            for part in (by_worker, np.ascontiguousarray(f.errors.T), np.maximum(cells, LEAST), np.array(LEAST))
        )
    return WidePart(by_worker[who], by_given, replace(own, count=cells), by_row, float(floor))


def _logit(p: Floats) -> Floats:
    out: Floats = np.log(p / (1.0 - p))
    return out


def _sigmoid(x: Floats) -> Floats:
    out: Floats = 1.0 / (1.0 + np.exp(-x))
    return out


def known_lines(known: Knowledge, found: Dependence, panel: WorkerRows, worker: NDArray[np.int64]) -> Floats | WideTable:
    """Return the mean of the two tables for the rows of a panel, [rows, K true]: in parts where the counts are cells.

    `worker` has the code of each worker of the panel, [workers], -1 for an unknown one, who is the mean worker. The counts are
    those of a fit's final labels.
    """
    exists, gather = known_labels(known), partial(apply_to, known)
    shared = shared_by_all(gather, found, exists)
    seen = gather(BelievedVotes.of)
    nobody = np.zeros((1, known.n_labels))
    met, said = (np.concatenate([part, nobody]) for part in (seen.met, seen.said))
    seen = BelievedVotes(seen.counts, met, said, *(np.append(part, 0.0) for part in (seen.right, seen.votes)))
    who = np.where(worker >= 0, worker, known.n_workers)
    counts = known_counts(known, panel, worker)
    if isinstance(counts, Cells):
        parts = [wide_part(kind, seen, shared, found, exists, panel, who, counts) for kind in CAREFUL_KINDS]
        return WideTable(panel, tuple(parts))
    rows = np.repeat(who, np.diff(panel.worker_ptr)), panel.row_label, counts
    tables = [careful_table(kind, seen, shared, found, exists, *rows) for kind in CAREFUL_KINDS]
    return round_to_unit((tables[0] + tables[1]) / 2.0, LOG_UNIT)


def known_counts(known: Knowledge, panel: WorkerRows, worker: NDArray[np.int64]) -> Floats | Cells:
    """Return the votes that are known of the rows of a panel, [rows, K]; `worker` has the code of each worker, -1 for none."""
    who = np.repeat(worker, np.diff(panel.worker_ptr))
    row = np.where(who >= 0, known.row_of(np.maximum(who, 0), panel.row_label), -1)
    if isinstance(known.counts, Cells):
        return known.counts.take(row)
    return np.where((row >= 0)[:, None], known.counts[np.maximum(row, 0)] if known.n_rows else 0.0, 0.0)


def known_confusion(known: Knowledge, found: Dependence, worker: int) -> Floats:
    """Return pi_cl of one worker, [K true, K given]; that of the mean worker for -1."""
    own = np.zeros((known.n_labels, known.n_labels))
    if worker >= 0:
        rows = slice(known.worker_ptr[worker], known.worker_ptr[worker + 1])
        own[known.row_label[rows]] = known.counts[rows]
    exists = known_labels(known)
    return confusion_of(own, shared_by_all(partial(apply_to, known), found, exists), found, exists)


def known_labels(known: Knowledge) -> NDArray[np.bool_]:
    """Return which labels there are, [K]: those of tasks, and those that somebody gave."""
    exists = known.class_counts > 0
    exists[known.row_label] = True
    return exists


def apply_to(known: Knowledge, function: Callable[[WorkerBlock, Any], T]) -> T:
    """Return what a function says of all workers that are known, and of their counts: `Gather` over one block."""
    block = WorkerBlock(known, lambda: np.zeros(known.n_rows, np.int64), None, reference.confusion_table)
    return function(block, known.counts)


def confusion_of(own: Floats, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> Floats:
    """Return pi_cl of the worker whose votes these are, [K given, K true]; as [K true, K given]."""
    k = len(exists)
    met, said = (own.sum(axis=axis)[None, :] for axis in (0, 1))
    seen = BelievedVotes(own, met, said, np.array([np.trace(own)]), np.array([own.sum()]))
    rows = np.zeros(k, np.int64), np.arange(k), own
    tables = [careful_table(kind, seen, shared, found, exists, *rows) for kind in CAREFUL_KINDS]
    lines = np.exp((tables[0] + tables[1]) / 2.0).T
    total = lines.sum(axis=1, keepdims=True)
    out: Floats = lines / np.where(total > 0, total, 1.0)
    return out


def careful_priors(shares: Floats, exists: NDArray[np.bool_]) -> Floats:
    """Return where scores start, as probabilities that need not sum to one, [K]: shares of labels, to the power of 0.8."""
    return np.where(exists, np.maximum(shares, TINY) ** PRIOR_WEIGHT, 0.0)
