"""What an executor computes of a part: the counts of a pass, what a fit ended with, labels and probabilities.

Nothing is kept between passes. How many labels changed is told by looking at the votes under the table before, too; so
a part may be passed over by any executor, and one that dies takes nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.counts import Parameters
from quorate.data.exact import from_coarse
from quorate.data.vocabulary import Vocabulary
from quorate.engines.shard import Rules, Shard, Tally, Units, cuts
from quorate.io.ids import column
from quorate.kernels import reference
from quorate.kernels.cpu import fastest
from quorate.spark.packing import Part, ids_of

PIECE = 1 << 18  # votes passed over at once by the reference, so that K numbers per vote stay little
CELLS = 1 << 22  # numbers at once where tasks are told of one by one
Kept = Any  # a broadcast, whose value is loaded when asked for


class Scores(NamedTuple):
    """What an E-step asks of parameters."""

    priors: NDArray[np.float64]  # [K]
    table: NDArray[np.float64]  # [rows, K]
    uses_prior: bool

    def on(self, rows: NDArray[np.uint32]) -> Parameters:
        """Return the lines of these rows, in this order."""
        return self._replace(table=self.table[rows]).whole()

    def whole(self) -> Parameters:
        """Return all lines."""
        return Parameters(self.priors, self.table, np.zeros((0, len(self.priors))), uses_prior=self.uses_prior)


@dataclass(frozen=True, eq=False)
class Setting:
    """What all passes of a fit share."""

    row_label: NDArray[np.int32]  # [rows]
    labels: Vocabulary
    seed: int
    ties: str
    with_gold: bool
    tie_weights: NDArray[np.float64] | None  # [K] ties of majority vote go to the largest of these first
    units: Units  # of soft shares: the same in all parts, whose sums are then the same in any order

    def shards(self, part: Part, most: int = 1 << 62) -> tuple[Rules, list[tuple[slice, Shard]]]:
        """Return the rules over a part's own rows, and its votes in shards of about `most` votes, each with its tasks."""
        kernels = fastest()
        rules = Rules.of(kernels, 1, self.row_label[part.rows], self.labels, self.ties, lambda: self.units)
        key = kernels.tie_keys(part.task_hash.copy(), self.seed)
        pieces = cuts(part.task_ptr, min(most, PIECE if kernels is reference else most))
        gold = part.gold if self.with_gold else None
        return rules, [
            (p, Shard(rules, part.task_ptr[p.start : p.stop + 1], part.row, key[p], gold=None if gold is None else gold[p]))
            for p in pieces
        ]


class Counted(NamedTuple):
    """Lines of numbers, each of one row of the panel, and sums; two of them add."""

    rows: NDArray[np.uint32]  # [lines] sorted
    lines: NDArray[Any]  # [lines, …]
    classes: NDArray[Any]  # [K]
    sums: NDArray[np.float64]  # [Ends]

    def plus(self, other: Counted) -> Counted:
        """Return the sum of both."""
        if len(self.rows) == len(other.rows) and np.array_equal(self.rows, other.rows):
            return Counted(self.rows, self.lines + other.lines, self.classes + other.classes, self.sums + other.sums)
        rows = np.union1d(self.rows, other.rows)
        lines = np.zeros((len(rows), self.lines.shape[1]), self.lines.dtype)
        for one in (self, other):
            lines[np.searchsorted(rows, one.rows)] += one.lines
        return Counted(rows, lines, self.classes + other.classes, self.sums + other.sums)

    @classmethod
    def nothing(cls, labels: int) -> Counted:
        """Return the sum of no parts."""
        return cls(
            np.zeros(0, np.uint32), np.zeros((0, labels), np.int64), np.zeros(labels, np.int64), np.zeros(len(Ends._fields))
        )

    def add_to(self, tally: Tally) -> Tally:
        """Return a tally over all rows, added to."""
        tally[0][self.rows] += self.lines
        tally[1][:] += self.classes
        return tally


class Ends(NamedTuple):
    """The names of `Counted.sums`."""

    log_likelihood: float = 0.0
    changed: float = 0.0
    impossible: float = 0.0
    ties: float = 0.0
    confidence: float = 0.0


@dataclass(frozen=True)
class Start:
    """Counts majority vote: by winner (hard) or by vote shares (soft)."""

    setting: Kept
    hard: bool

    def __call__(self, part: Part) -> Counted:
        """Return the counts of a part."""
        setting: Setting = self.setting.value
        rules, shards = setting.shards(part)
        tally = rules.empty(hard=self.hard)
        for _, shard in shards:
            shard.start(tally, hard=self.hard, tie_weights=setting.tie_weights)
        return counted_of(part, tally, Ends())


@dataclass(frozen=True)
class Step:
    """One pass. Labels before it are those of `before`: of a table, of majority vote, or none.

    With `delta` only the votes of tasks whose label changed are counted, out of the old label and into the new one.
    """

    setting: Kept
    before: Kept  # or "heads", or None
    scores: Kept
    hard: bool
    delta: bool
    likelihood: bool

    def __call__(self, part: Part) -> Counted:
        """Return the counts of a part."""
        setting: Setting = self.setting.value
        rules, shards = setting.shards(part)
        tally = rules.empty(hard=self.hard)
        if isinstance(self.before, str):
            for _, shard in shards:
                shard.label_by_majority(setting.tie_weights)
        elif self.before is not None:
            past = self.before.value.on(part.rows)
            for _, shard in shards:
                shard.look(past)
            del past
        params = self.scores.value.on(part.rows)
        how = {"hard": self.hard, "delta": self.delta, "likelihood": self.likelihood}
        sums = [shard.step(params, tally, **how) for _, shard in shards]
        ends = Ends(*(sum(getattr(s, name) for s in sums) for name in ("log_likelihood", "changed", "impossible")))
        return counted_of(part, tally, ends)


@dataclass(frozen=True)
class Verdict:
    """How tasks are decided in the end: by scores (EM), by heads (majority vote) or by weights (IWMV)."""

    setting: Kept
    by: Literal["scores", "heads", "weights"]
    scores: Kept = None  # not by heads

    def __call__(self, part: Part) -> Counted:
        """Return the counts of a part's labels; for EM the right and the agreeing votes of each row in their place."""
        setting: Setting = self.setting.value
        rules, shards = setting.shards(part, CELLS // max(len(setting.labels), 1))
        tally, agreeing = rules.empty(hard=self.by != "scores"), np.zeros(len(part.rows), np.int64)
        ends = np.zeros(len(Ends._fields))
        for piece, shard, sure, tie, likelihood in self._decided(setting, part, shards, tally):
            ends += Ends(log_likelihood=likelihood, ties=int(tie.sum()), confidence=float(sure.sum()))
            ptr = part.task_ptr[piece.start : piece.stop + 1]
            votes = part.row[ptr[0] : ptr[-1]]
            own = rules.row_label[votes] == np.repeat(shard.labels, np.diff(ptr))
            agreeing += np.bincount(votes[own], minlength=len(agreeing))
        if self.by != "scores":
            return counted_of(part, tally, Ends(*ends))
        right = from_coarse(tally[0][np.arange(len(agreeing)), rules.row_label], setting.units.unit)
        return counted_of(part, (np.stack([right, agreeing], axis=1), tally[1]), Ends(*ends))

    def labels(self, part: Part, ids: bytes) -> Iterator[pl.DataFrame]:
        """Yield task, label, confidence, votes, tie (and gold) of a part's tasks; those without votes come last."""
        setting: Setting = self.setting.value
        rules, shards = setting.shards(part, CELLS // max(len(setting.labels), 1))
        tasks, gold, length = ids_of(ids), part.gold >= 0, np.diff(part.task_ptr)
        for piece, shard, sure, tie, _ in self._decided(setting, part, shards, rules.empty(hard=self.by != "scores")):
            told = {"label": column(setting.labels, shard.labels), "confidence": sure, "votes": length[piece], "tie": tie}
            yield pl.DataFrame({"task": tasks[piece], **told, **({"gold": gold[piece]} if setting.with_gold else {})})
        left = tasks[len(length) :]
        nobody, no = column(setting.labels, np.full(len(left), -1, np.int32)), np.zeros(len(left), np.bool_)
        unsure = pl.Series([None] * len(left), dtype=pl.Float64)
        told = {"label": nobody, "confidence": unsure, "votes": np.zeros(len(left), np.int64), "tie": no}
        unknown = pl.Series([None] * len(left), dtype=pl.Boolean)
        yield pl.DataFrame({"task": left, **told, **({"gold": unknown} if setting.with_gold else {})})

    def probabilities(self, part: Part, ids: bytes, names: list[str]) -> Iterator[pl.DataFrame]:
        """Yield task and a column per label of a part's tasks."""
        setting: Setting = self.setting.value
        params = None if self.scores is None else self.scores.value.on(part.rows)
        tasks = ids_of(ids)
        for piece, shard in setting.shards(part, CELLS // max(len(setting.labels), 1))[1]:
            out = np.empty((shard.n_tasks, len(names)))
            if params is None:
                shard.shares(setting.tie_weights, out)
            elif self.by == "weights":
                shard.weight_shares(params, out)
            else:
                shard.posterior(params, out)
            yield pl.DataFrame({"task": tasks[piece], **dict(zip(names, out.T, strict=True))})

    def _decided(
        self, setting: Setting, part: Part, shards: list[tuple[slice, Shard]], tally: Tally
    ) -> Iterator[tuple[slice, Shard, NDArray[np.float64], NDArray[np.bool_], float]]:
        """Yield (tasks, their shard, confidence, tie, log-likelihood), shard by shard, counting into the tally."""
        params = None if self.scores is None else self.scores.value.on(part.rows)
        for piece, shard in shards:
            sure, tie, likelihood = np.empty(shard.n_tasks), np.empty(shard.n_tasks, np.bool_), float("nan")
            if params is None:
                shard.majority(tally, setting.tie_weights, sure, tie)
            elif self.by == "weights":
                shard.weighted_majority(params, tally, sure, tie)
            else:
                likelihood = shard.finish(params, tally, sure, tie).log_likelihood
            yield piece, shard, sure, tie, likelihood


def run(work: Callable[[Part], Counted], parts: Iterator[bytes]) -> Iterator[Counted]:
    """Yield what the parts of a partition add up to, if it has any."""
    total = None
    for data in parts:
        counted = work(Part.unpack(data))
        total = counted if total is None else total.plus(counted)
    if total is not None:
        yield total


def counted_of(part: Part, tally: Tally, ends: Ends) -> Counted:
    """Return a tally over the own rows as lines of the panel's, without those that are nothing but zeros."""
    lines, classes = tally
    some = lines.any(axis=1)
    if some.all():
        return Counted(part.rows, lines, classes, np.array(ends, np.float64))
    return Counted(part.rows[some], lines[some], classes, np.array(ends, np.float64))
