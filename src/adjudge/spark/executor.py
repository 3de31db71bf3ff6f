"""What an executor computes of a part: the counts of a pass, final sums, labels and probabilities.

To count changed labels, a pass needs the labels before it. They are in the files of a stored part; if they are not, the tasks
are labelled under the previous table first. So any executor can run any pass, and an executor that dies loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.exact import decode_coarse
from adjudge.data.fit import Parameters
from adjudge.data.vocabulary import Vocabulary
from adjudge.engines.passes import Answers, Confidence, PairSums, Probabilities, RowInputs
from adjudge.engines.session import DecidedBy
from adjudge.engines.shard import PassRules, Shard, Tally, Units, cuts
from adjudge.io.frames import column
from adjudge.kernels import reference
from adjudge.kernels.cpu import fastest
from adjudge.kernels.reference import HonestRule
from adjudge.models.temperature import apply_temperature
from adjudge.spark.layout import ids_of

REFERENCE_VOTES = 1 << 18  # votes per shard of the reference kernels, which need K numbers per vote
DECISION_CELLS = 1 << 22  # tasks x labels decided at once
Broadcast = Any  # of Spark: its value is loaded on first access
LabelSource = Any  # what labels follow from: a `TableSource`, "votes" (majority vote), labels, [tasks], or None: they stay


class AnyPart(Protocol):
    """The votes of some tasks: as bytes (`TaskPart`) or in files (`StoredPart`)."""

    @property
    def task_ptr(self) -> NDArray[np.int64]:
        """Where the votes of each task begin, [tasks + 1]."""

    @property
    def row(self) -> NDArray[np.uint32]:
        """The own row of each vote, [votes]."""

    @property
    def rows(self) -> NDArray[np.uint32]:
        """The row of the panel of each own row, [own rows]."""

    @property
    def gold(self) -> NDArray[np.int32]:
        """Given labels, below 0 if there is none, [tasks]; or empty."""

    def keys(self, seed: int) -> NDArray[np.uint64]:
        """Return the keys by which ties are settled, [tasks]."""

    def recall(self, source: LabelSource) -> NDArray[Any] | None:
        """Return the labels that follow from a source, [tasks], if they were kept."""

    def keep(self, source: LabelSource, labels: Iterable[NDArray[np.int32]]) -> None:
        """Keep the labels of the shards that follow from a source, if there is a place for them."""


class EStepTables(NamedTuple):
    """The parameters of an E-step."""

    priors: NDArray[np.float64]  # [K]
    table: NDArray[np.float64]  # [rows, K]
    uses_prior: bool

    def on(self, rows: NDArray[np.uint32]) -> Parameters:
        """Return the lines of these rows, in this order."""
        is_whole = len(rows) == len(self.table) and np.array_equal(rows, np.arange(len(rows)))
        return self.whole() if is_whole else self._replace(table=self.table[rows]).whole()

    def whole(self) -> Parameters:
        """Return all lines."""
        return Parameters(self.priors, self.table, np.zeros((0, len(self.priors))), uses_prior=self.uses_prior)


class TableChange(NamedTuple):
    """The lines of a table that differ from those of an earlier one, and the priors."""

    rows: NDArray[np.int64]  # [changed rows]
    lines: NDArray[np.float64]  # [changed rows, K]
    priors: NDArray[np.float64]  # [K]
    uses_prior: bool


@dataclass(frozen=True, eq=False)
class TableSource:
    """The tables of an E-step: broadcast whole, or as what changed since a table that executors have."""

    name: str  # unique within the fit
    base: Broadcast  # `EStepTables`
    change: Broadcast = None  # `TableChange`; None: the base is meant

    @property
    def value(self) -> EStepTables:
        """The tables."""
        tables: EStepTables = self.base.value
        if self.change is None:
            return tables
        rows, lines, priors, uses_prior = self.change.value
        table = tables.table.copy()
        table[rows] = lines
        return EStepTables(priors, table, uses_prior)


class HonestTables(NamedTuple):
    """What honest confidence is judged by: log-probabilities of votes with and without one of them, and the rule."""

    lines: NDArray[np.float64]  # [rows, K]
    without: NDArray[np.float64]  # [rows, K]
    rule: HonestRule

    @property
    def inputs(self) -> RowInputs:
        """The lines as passes read them."""
        return {"lines": self.lines, "without": self.without}

    def on(self, rows: NDArray[np.uint32]) -> HonestTables:
        """Return the lines of these rows, in this order."""
        return self._replace(lines=self.lines[rows], without=self.without[rows])


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What all passes of a fit share."""

    row_label: NDArray[np.int32]  # [rows]
    labels: Vocabulary
    seed: int
    ties: str
    with_gold: bool
    tie_weights: NDArray[np.float64] | None  # [K] of majority vote: the largest wins a tie
    units: Units  # of soft shares: the same in every part, so that sums do not depend on their order

    def shards(self, part: AnyPart, votes: int = 1 << 62) -> tuple[PassRules, Shards]:
        """Return the rules over a part's own rows, and its votes in shards of about `votes` votes, each with its tasks."""
        kernels = fastest()
        rules = PassRules.of(kernels, 1, self.row_label[part.rows], self.labels, self.ties, lambda: self.units)
        key = part.keys(self.seed)
        pieces = cuts(part.task_ptr, min(votes, REFERENCE_VOTES if kernels is reference else votes))
        gold = part.gold if self.with_gold else None
        return rules, [
            (p, Shard(rules, part.task_ptr[p.start : p.stop + 1], part.row, key[p], gold=None if gold is None else gold[p]))
            for p in pieces
        ]


class PartCounts(NamedTuple):
    """Counts of some rows of the panel, and sums over tasks; two of them can be added."""

    rows: NDArray[np.uint32]  # [lines] sorted
    lines: NDArray[Any]  # [lines, …]
    classes: NDArray[Any]  # [K]
    sums: NDArray[np.float64]  # [TaskSums], or other sums over tasks

    def plus(self, other: PartCounts) -> PartCounts:
        """Return the sum of both."""
        if len(self.rows) == len(other.rows) and np.array_equal(self.rows, other.rows):
            return PartCounts(self.rows, self.lines + other.lines, self.classes + other.classes, self.sums + other.sums)
        rows = np.union1d(self.rows, other.rows)
        lines = np.zeros((len(rows), self.lines.shape[1]), self.lines.dtype)
        for one in (self, other):
            lines[np.searchsorted(rows, one.rows)] += one.lines
        return PartCounts(rows, lines, self.classes + other.classes, self.sums + other.sums)

    @classmethod
    def nothing(cls, labels: int) -> PartCounts:
        """Return the counts of no part."""
        return cls(
            np.zeros(0, np.uint32), np.zeros((0, labels), np.int64), np.zeros(labels, np.int64), np.zeros(len(TaskSums._fields))
        )

    def add_to(self, tally: Tally) -> Tally:
        """Add these counts to a tally over all rows, and return it."""
        tally[0][self.rows] += self.lines
        tally[1][:] += self.classes
        return tally


class TaskSums(NamedTuple):
    """Sums over tasks; the names of the items of `PartCounts.sums`."""

    log_likelihood: float = 0.0
    changed: float = 0.0
    impossible: float = 0.0
    ties: float = 0.0
    confidence: float = 0.0


Shards = list[tuple[slice, Shard]]  # each with its tasks
Counted = tuple[PartCounts, Shards]  # of a part, and its shards with the labels after a pass; none where these are not asked for


def count_majority(settings: FitSettings, part: AnyPart, *, hard: bool) -> Counted:
    """Count majority vote: by winner (hard) or by vote shares (soft)."""
    rules, shards = settings.shards(part)
    tally = rules.empty(hard=hard)
    for _, shard in shards:
        shard.start(tally, hard=hard, tie_weights=settings.tie_weights)
    part.keep("votes", (shard.labels for _, shard in shards))
    return part_counts(part, tally, TaskSums()), shards


def label(settings: FitSettings, part: AnyPart, shards: Shards, source: LabelSource) -> None:
    """Label the tasks of a part as `source` says."""
    if source is None:
        return
    known = source if isinstance(source, np.ndarray) else part.recall(source)
    params = None if known is not None or isinstance(source, str) else source.value.on(part.rows)
    for tasks, shard in shards:
        if known is not None:
            shard.take(known[tasks])
        elif params is not None:
            shard.label_by_scores(params)
        else:
            shard.label_by_majority(settings.tie_weights)


def count_step(settings: FitSettings, part: AnyPart, *, before: LabelSource, scores: Any, hard: bool, **how: bool) -> Counted:
    """Count an E-step, given the labels before it; `how` has `delta` and `likelihood`.

    With `delta` only the votes of tasks whose label changed are counted, out of the old label and into the new one.
    """
    rules, shards = settings.shards(part)
    label(settings, part, shards, before)
    params, tally = scores.value.on(part.rows), rules.empty(hard=hard)
    sums = [shard.step(params, tally, hard=hard, **how) for _, shard in shards]
    part.keep(scores, (shard.labels for _, shard in shards))
    total = TaskSums(*(sum(getattr(one, name) for one in sums) for name in ("log_likelihood", "changed", "impossible")))
    return part_counts(part, tally, total), shards


@dataclass(frozen=True)
class DecisionPass:
    """How a fit decides tasks at its end: by scores (EM), votes (majority vote) or weights (IWMV)."""

    by: DecidedBy
    scores: Any = None  # a `TableSource`; None if votes decide
    hard: bool = False  # whether scores count the labels they decide, instead of probabilities
    honest: Broadcast = None  # `Judged`, where confidence is honest; None if it is the model's own
    temperature: float = 1.0  # probabilities are raised to one over this

    @property
    def is_hard(self) -> bool:
        """Whether labels are counted."""
        return self.hard or self.by != "scores"

    @property
    def source(self) -> LabelSource:
        """What labels follow from: a table, or "votes"."""
        return "votes" if self.scores is None else self.scores

    def __call__(self, settings: FitSettings, part: AnyPart) -> Counted:
        """Count a part's labels; for EM, of each row the expected right votes and the agreeing votes instead."""
        rules, shards = settings.shards(part, DECISION_CELLS // max(len(settings.labels), 1))
        tally, agreeing = rules.empty(hard=self.is_hard), np.zeros(len(part.rows), np.int64)
        ends = np.zeros(len(TaskSums._fields))
        for piece, shard, sure, tie, likelihood in self._decide_shards(settings, part, shards, tally):
            ends += TaskSums(log_likelihood=likelihood, ties=int(tie.sum()), confidence=float(sure.sum()))
            if self.is_hard:
                continue
            ptr = part.task_ptr[piece.start : piece.stop + 1]
            votes = part.row[ptr[0] : ptr[-1]]
            own = rules.row_label[votes] == np.repeat(shard.labels, np.diff(ptr))
            agreeing += np.bincount(votes[own], minlength=len(agreeing))
        if not self.is_hard:
            right = decode_coarse(tally[0][np.arange(len(agreeing)), rules.row_label], settings.units.unit)
            tally = np.stack([right, agreeing], axis=1), tally[1]
        return part_counts(part, tally, TaskSums(*ends)), shards if self.is_hard else []

    def ends(self, settings: FitSettings, part: AnyPart) -> Counted:
        """Return the sums over a part's tasks alone."""
        return PartCounts.nothing(len(settings.labels))._replace(sums=self(settings, part)[0].sums), []

    def frames(self, settings: FitSettings, part: AnyPart, ids: bytes, names: list[str] | None) -> Iterator[pl.DataFrame]:
        """Yield the labels of a part's tasks, or probabilities in columns of these names."""
        return self.labels(settings, part, ids) if names is None else self.probabilities(settings, part, ids, names)

    def labels(self, settings: FitSettings, part: AnyPart, ids: bytes) -> Iterator[pl.DataFrame]:
        """Yield task, label, confidence, votes, tie (and gold) of a part's tasks; those without votes come last."""
        rules, shards = settings.shards(part, DECISION_CELLS // max(len(settings.labels), 1))
        tasks, gold, length = ids_of(ids), part.gold >= 0, np.diff(part.task_ptr)
        for piece, shard, sure, tie, _ in self._decide_shards(settings, part, shards, rules.empty(hard=self.is_hard)):
            found = {"label": column(settings.labels, shard.labels), "confidence": sure, "votes": length[piece], "tie": tie}
            yield pl.DataFrame({"task": tasks[piece], **found, **({"gold": gold[piece]} if settings.with_gold else {})})
        gold_column = {"gold": pl.lit(None, pl.Boolean)} if settings.with_gold else {}
        yield pl.DataFrame({"task": tasks[len(length) :]}).with_columns(
            label=pl.lit(None, column(settings.labels).dtype),
            confidence=pl.lit(None, pl.Float64),
            votes=pl.lit(0, pl.Int64),
            tie=pl.lit(False),
            **gold_column,
        )

    def probabilities(self, settings: FitSettings, part: AnyPart, ids: bytes, names: list[str]) -> Iterator[pl.DataFrame]:
        """Yield task and a column per label of a part's tasks."""
        tables = self._tables(part)
        tasks, shards = ids_of(ids), settings.shards(part, DECISION_CELLS // max(len(settings.labels), 1))[1]
        if tables[1] is not None:
            label(settings, part, shards, self.source)
        for piece, shard in shards:
            out = self._probabilities(settings, shard, *tables)
            yield pl.DataFrame({"task": tasks[piece], **dict(zip(names, out.T, strict=True))})

    def _tables(self, part: AnyPart) -> tuple[Parameters | None, HonestTables | None]:
        """Return the lines of a part's rows that decide, and those that honest confidence is judged by; None for neither."""
        params = None if self.scores is None else self.scores.value.on(part.rows)
        return params, None if self.honest is None else self.honest.value.on(part.rows)

    def _probabilities(
        self, settings: FitSettings, shard: Shard, params: Parameters | None, judged: HonestTables | None
    ) -> NDArray[np.float64]:
        """Return the probabilities of a shard's tasks, [tasks, K]; honest ones are those of its current labels."""
        out = np.empty((shard.n_tasks, len(settings.labels)))
        if judged is not None:
            Probabilities(judged.rule).write(shard, judged.inputs, out)
        elif params is None:
            shard.shares(settings.tie_weights, out)
        elif self.by == "weights":
            shard.weight_shares(params, out)
        else:
            shard.posterior(params, out)
        return out if self.temperature == 1.0 else apply_temperature(out, self.temperature)

    def _decide_shards(
        self, settings: FitSettings, part: AnyPart, shards: Shards, tally: Tally
    ) -> Iterator[tuple[slice, Shard, NDArray[np.float64], NDArray[np.bool_], float]]:
        """Yield (tasks, their shard, confidence, tie, log-likelihood), shard by shard, counting into the tally."""
        params, judged = self._tables(part)
        for piece, shard in shards:
            sure, tie, likelihood = np.empty(shard.n_tasks), np.empty(shard.n_tasks, np.bool_), float("nan")
            if params is None:
                shard.majority(tally, settings.tie_weights, sure, tie)
            elif self.by == "weights":
                shard.weighted_majority(params, tally, sure, tie)
            else:
                likelihood = shard.finish(params, tally, sure, tie).log_likelihood
            if judged is not None:
                Confidence(judged.rule, tie).write(shard, judged.inputs, sure, tie)
            if self.temperature != 1.0:
                sure = self._probabilities(settings, shard, params, judged)[np.arange(shard.n_tasks), shard.labels]
            yield piece, shard, sure, tie, likelihood


def count_gold(settings: FitSettings, part: AnyPart) -> Counted:
    """Count the votes on a part's gold tasks under the labels that were given."""
    rules, shards = settings.shards(part)
    tally = rules.empty(hard=True)
    for _, shard in shards:
        shard.count_gold(tally)
    return part_counts(part, tally, TaskSums()), []


class PartStore(NamedTuple):
    """The shards of a part, as passes need them."""

    rules: PassRules
    shards: Shards

    def scan(self, what: str, act: Callable[[slice, Shard], Any]) -> list[Any]:
        """Return what an act says of each shard."""
        return [act(*shard) for shard in self.shards]


def sum_votes(
    settings: FitSettings, part: AnyPart, *, source: LabelSource, job: PairSums | Answers, inputs: Broadcast
) -> Counted:
    """Sum a pass over a part: over all votes, or by its rows, [rows, 2]; `inputs` are `RowInputs`."""
    rules, shards = settings.shards(part)
    label(settings, part, shards, source)
    store: Any = PartStore(rules, shards)  # sums need nothing else of a store
    sums: NDArray[Any] = job.over(store, job.inputs_at(inputs.value, part.rows))
    if isinstance(job, PairSums):
        return PartCounts.nothing(len(settings.labels))._replace(sums=sums), []
    return part_counts(part, (sums.T, np.zeros(len(settings.labels), np.int64)), TaskSums()), []


def count_gold_tasks(settings: FitSettings, part: AnyPart, *, votes: int) -> Counted:
    """Count the gold tasks of a part with at least so many votes, as the first sum."""
    return PartCounts.nothing(len(settings.labels))._replace(sums=np.array([gold_tasks(votes, part)], np.float64)), []


def gold_tasks(votes: int, part: AnyPart) -> int:
    """Return the number of gold tasks of a part with at least so many votes."""
    return int(((part.gold >= 0) & (np.diff(part.task_ptr) >= votes)).sum())


def sum_parts(
    settings: FitSettings,
    work: Callable[[FitSettings, AnyPart], Counted],
    parts: Iterable[AnyPart],
    first: PartCounts | None = None,
) -> PartCounts | None:
    """Return the sum over parts, and over the parts before, if there are any."""
    return reduce(lambda total, part: add_counts(total, work(settings, part)[0]), parts, first)


def add_counts(a: PartCounts | None, b: PartCounts | None) -> PartCounts | None:
    """Return the sum of counts; None is that of no part."""
    return b if a is None else a if b is None else a.plus(b)


def part_counts(part: AnyPart, tally: Tally, ends: TaskSums) -> PartCounts:
    """Return a tally over the own rows as counts of the panel's rows, without rows of zeros."""
    lines, classes = tally
    some = lines.any(axis=1)
    if some.all():
        return PartCounts(part.rows, lines, classes, np.array(ends, np.float64))
    return PartCounts(part.rows[some], lines[some], classes, np.array(ends, np.float64))
