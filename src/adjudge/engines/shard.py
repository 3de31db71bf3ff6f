"""A shard: the votes of some tasks and their current labels. Every engine runs its passes over shards.

Gold tasks keep their label: their votes are counted under it, and passes go over the other tasks only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import COARSE, FINE, LOG_UNIT, decode_coarse, unit_below
from adjudge.data.fit import Parameters
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.data.wide import Cells
from adjudge.engines.passes import RowInputs, certain_answers
from adjudge.kernels import reference
from adjudge.kernels.reference import Sums

RECOUNT_VOTES = 1 << 20  # votes recounted at once, to bound the memory
MAX_FINE_VOTES = 1 << 17  # with at most so many votes soft shares are counted finely, in two sums: they take little memory
NO_GOLD = -1  # the code of a task without gold
# Counts and class counts. Hard: int64, [rows, K] and [K]. Soft: float64, [rows, K], or [2, rows, K] where fine, and [2, K].
Tally = tuple[Any, Any]


class Units(NamedTuple):
    """The units of soft shares, which make sums independent of their order; see `adjudge.data.exact`."""

    unit: float
    fine: bool = False  # in two sums

    @classmethod
    def of(cls, most: int, *, fine: bool = False) -> Units:
        """Return the units for at most `most` votes per worker; fine, for at most `most` votes and tasks in total."""
        return cls(max(LOG_UNIT, unit_below(most)), fine)


@dataclass(frozen=True, eq=False)
class PassRules:
    """What all shards of a fit share: the kernels, and the rule of ties."""

    kernels: ModuleType
    threads: int
    row_label: NDArray[np.int32]  # [rows]
    label_hash: NDArray[np.uint64]  # [K]
    by_prior: bool  # whether the larger prior wins a tie
    units_for: Callable[[], Units]  # called for the first soft tally
    row_weight: NDArray[np.float64] | None = None  # [rows] what a vote of a row counts; None: 1

    @classmethod
    def of(
        cls,
        kernels: ModuleType,
        threads: int,
        row_label: NDArray[np.int32],
        labels: Vocabulary,
        ties: str,
        units: Callable[[], Units],
        row_weight: NDArray[np.float64] | None = None,
    ) -> PassRules:
        """Return the rules for votes over these labels."""
        return cls(kernels, threads, row_label, hashes(kernels, labels), ties == "prior", units, row_weight)

    @cached_property
    def units(self) -> Units:
        """The units of soft shares."""
        return self.units_for()

    def empty(self, *, hard: bool) -> Tally:
        """Return an empty tally."""
        rows, k = len(self.row_label), len(self.label_hash)
        shape, dtype = (2, rows, k) if not hard and self.units.fine else (rows, k), np.int64 if hard else np.float64
        zeros = np.zeros if self.kernels is reference else partial(self.kernels.room, zero=True, threads=self.threads)
        return zeros(shape, dtype), np.zeros(k if hard else (2, k), dtype)

    def counted(self, tally: Tally) -> Tally:
        """Return the counts, [rows, K] and [K], of a complete tally."""
        counts, class_counts = tally
        if is_hard(tally) or isinstance(counts, Cells):
            return tally
        unit, restore = self.units.unit, self.kernels.restore_counts
        if self.units.fine:
            restore(counts[0], counts[1], unit, self.threads)
            restore(class_counts[0], class_counts[1], unit)
            return counts[0], class_counts[0]
        restore(counts, None, unit, self.threads)
        return counts, class_totals(class_counts, unit)

    def classification(self, tally: Tally, params: Parameters) -> float:
        """Return C2 of the labels counted in a (hard) tally."""
        found: float = self.kernels.classification(*tally, params.table, params.log_prior, threads=self.threads)
        return found

    def confusion_table(self, counts: Any, worker_ptr: NDArray[np.int64], smoothing: float) -> tuple[Any, Any]:
        """Return log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        table, totals = self.kernels.confusion_table(counts, worker_ptr, smoothing, threads=self.threads)
        return table, totals


def units_of(votes: Votes, kernels: ModuleType, threads: int, by_row: NDArray[np.int64] | None = None) -> Units:
    """Return the units of soft shares of these votes; `by_row` has the votes of each row, [rows], where known.

    The units depend on the votes alone, so that every engine, shard size and number of threads counts the same.
    """
    if len(votes) <= MAX_FINE_VOTES:
        return Units.of(len(votes), fine=True)
    if by_row is None and type(votes) is Votes:
        by_row = kernels.votes_per_row(votes.row, votes.n_rows, threads)
    elif by_row is None:
        by_row = votes.votes_per_row()  # stored in the folder
    return Units.of(int(votes.by_worker(by_row).max()))


def is_hard(tally: Tally) -> bool:
    """Return whether a tally is of hard labels."""
    return bool(tally[0].dtype == np.int64)


def class_totals(class_counts: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return the class counts, [K], of coarse sums and their remainders, [2, K]."""
    return decode_coarse(class_counts[0] + class_counts[1], unit)


def hashes(kernels: ModuleType, ids: Vocabulary, threads: int = 1) -> NDArray[np.uint64]:
    """Return the hash of every id's text, [n]."""
    if ids.kind == "integer":  # without a text for each
        return kernels.hash_integers(ids.values, threads)  # type: ignore[no-any-return]
    return kernels.hash_texts(*ids.text_buffers(), threads)  # type: ignore[no-any-return]


class TieKeys:
    """Keys of tasks by which ties are settled, as in `kernels.tie_keys`, hashed on demand.

    Most tasks never tie, so most ids are never hashed.
    """

    def __init__(self, kernels: ModuleType, tasks: Vocabulary, seed: int, threads: int = 1, cut: slice | None = None) -> None:
        self._kernels, self._tasks, self._seed, self._threads = kernels, tasks, seed, threads
        self._cut = slice(0, len(tasks)) if cut is None else cut  # the tasks at hand

    def __len__(self) -> int:
        return int(self._cut.stop - self._cut.start)

    def __getitem__(self, tasks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the keys of some tasks, [some]."""
        return self._keys(self._tasks.take(self._cut.start + tasks)) if len(tasks) else np.zeros(0, np.uint64)

    def within(self, cut: slice) -> TieKeys:
        """Return the keys of a range of tasks."""
        start = self._cut.start
        return TieKeys(self._kernels, self._tasks, self._seed, self._threads, slice(start + cut.start, start + cut.stop))

    def every(self) -> NDArray[np.uint64]:
        """Return the keys of all tasks at hand, [tasks]."""
        if len(self) == len(self._tasks):
            return self._keys(self._tasks)
        return self[np.arange(len(self))]

    def ids(self) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None, int]:
        """Return what compiled passes hash: whole numbers, or where texts begin and their bytes; and the seed."""
        seed, (start, stop) = int(self._seed) % 2**64, (self._cut.start, self._cut.stop)
        if self._tasks.kind == "integer":
            return self._tasks.values[start:stop], None, seed  # type: ignore[return-value]
        offsets, texts = self._tasks.text_buffers()
        return offsets[start : stop + 1], texts, seed

    def _keys(self, tasks: Vocabulary) -> NDArray[np.uint64]:
        found: NDArray[np.uint64] = self._kernels.tie_keys(hashes(self._kernels, tasks, self._threads), self._seed, self._threads)
        return found


class Shard:
    """The votes of some tasks. Passes add to a `tally`; OUT arrays are [tasks] of the shard."""

    def __init__(
        self,
        rules: PassRules,
        task_ptr: NDArray[np.int64],  # [tasks + 1] absolute positions in `row`
        row: NDArray[np.uint32],  # [all votes]
        task_key: NDArray[np.uint64] | TieKeys,  # [tasks] see kernels.tie_keys
        *,
        labels: NDArray[np.int32] | None = None,  # [tasks] at the start; written except for gold
        gold: NDArray[np.int32] | None = None,  # [tasks] given labels, NO_GOLD if there is none
    ) -> None:
        self.rules = rules
        self.n_tasks = len(task_ptr) - 1
        self.n_votes = int(task_ptr[-1] - task_ptr[0])
        self._ptr, self._row, self._key = task_ptr, row, task_key
        self._labels = np.zeros(self.n_tasks, np.int32) if labels is None else labels
        self._gold = None if gold is None or not (gold >= 0).any() else gold
        if self._gold is not None:
            self._is_open = self._gold < 0
            chosen = np.flatnonzero(self._gold >= 0)
            self._given = self._gold[chosen]
            self._given_ptr, self._given_row = reference.select(task_ptr, row, chosen)
            open_tasks = np.flatnonzero(self._is_open)
            self._ptr, self._row = reference.select(task_ptr, row, open_tasks)
            every = task_key.every() if isinstance(task_key, TieKeys) else task_key
            self._key, self._labels = every[open_tasks], self._labels[open_tasks]

    @property
    def labels(self) -> NDArray[np.int32]:
        """The current label of every task, [tasks]."""
        if self._gold is None:
            return self._labels
        merged = self._gold.copy()
        merged[self._is_open] = self._labels
        return merged

    def start(self, tally: Tally, *, hard: bool, tie_weights: NDArray[np.float64] | None) -> None:
        """Count majority vote: by winner (hard) or by vote shares (soft)."""
        self._majority(soft=not hard, tie_weights=tie_weights, **self._counting(tally))
        self.count_gold(tally)

    def recount(self, labels: NDArray[np.int32], tally: Tally) -> None:
        """Take these labels, [tasks], as the current ones, and count them; gold tasks keep theirs."""
        self.take(labels)
        rules, votes = self.rules, (self._ptr, self._row, self._labels)
        if rules.kernels is reference:
            _recount(*votes, tally)
        else:
            rules.kernels.recount_hard(*votes, *tally, checked=True, threads=rules.threads)
        self.count_gold(tally)

    def step(self, params: Parameters, tally: Tally | None, *, hard: bool, delta: bool = False, likelihood: bool = True) -> Sums:
        """Return the sums of an E-step, counted if there is a tally; with `delta` that has the counts of the current labels."""
        counting = {} if tally is None else self._counting(tally)
        sums = self._pass(params, hard=hard, delta=delta, likelihood=likelihood, **counting)
        if tally is not None and not delta:
            self.count_gold(tally)
        return sums if self._gold is None else self._with_gold(sums, params)

    def finish(
        self,
        params: Parameters,
        tally: Tally | None,
        confidence: NDArray[np.float64],
        tie: NDArray[np.bool_],
        *,
        delta: bool = False,
    ) -> Sums:
        """Return the sums of the last E-step, counted as the tally is, or not at all; confidence and tie are OUT.

        With `delta` the (hard) tally already has the counts of the current labels.
        """
        hard, counting = tally is not None and is_hard(tally), {} if tally is None else self._counting(tally)
        act = partial(self._pass, params, hard=hard, delta=delta, **counting)
        sums: Sums = self._write(act, {"confidence": (confidence, 1.0), "tie": (tie, False)})
        if tally is not None and not delta:
            self.count_gold(tally)
        return sums if self._gold is None else self._with_gold(sums, params)

    def majority(
        self,
        tally: Tally | None,
        tie_weights: NDArray[np.float64] | None,
        confidence: NDArray[np.float64],
        tie: NDArray[np.bool_],
    ) -> None:
        """Count the winners of majority vote, if there is a tally; confidence (vote share) and tie are OUT."""
        counting = {} if tally is None else self._counting(tally)
        act = partial(self._majority, soft=False, tie_weights=tie_weights, **counting)
        self._write(act, {"confidence": (confidence, 1.0), "tie": (tie, False)})
        if tally is not None:
            self.count_gold(tally)

    def weighted_majority(
        self, params: Parameters, tally: Tally, confidence: NDArray[np.float64], tie: NDArray[np.bool_]
    ) -> None:
        """Count the winners of weighted votes; confidence (the winner's share of the weights) and tie are OUT."""
        act = partial(self._pass, params, hard=True, likelihood=False, **self._counting(tally))
        self._write(act, {"tie": (tie, False)})
        winners = self._without_gold(confidence)
        for piece, shares in self._weight_shares(params):
            winners[piece] = shares[np.arange(len(shares)), self._labels[piece]]
        self._merge_gold(winners, confidence, 1.0)
        self.count_gold(tally)

    def weight_shares(self, params: Parameters, out: NDArray[np.float64]) -> None:
        """Write the share of each label in a task's weights to OUT [tasks, K]; a gold label has share 1."""
        part = self._without_gold(out)
        for piece, shares in self._weight_shares(params):
            part[piece] = shares
        self._merge_gold(part, out, self.certain())

    def take(self, labels: NDArray[np.int32]) -> None:
        """Take these labels, [tasks], as the current ones, without counting; gold tasks keep theirs."""
        self._labels[:] = self._of_open(labels)

    def label_by_scores(self, params: Parameters) -> None:
        """Take the labels under `params` as the current ones, without counting."""
        self._pass(params, hard=True, likelihood=False)

    def label_by_majority(self, tie_weights: NDArray[np.float64] | None) -> None:
        """Take the labels of majority vote as the current ones, without counting."""
        self._majority(soft=False, tie_weights=tie_weights)

    def posterior(self, params: Parameters, out: NDArray[np.float64]) -> None:
        """Write T_qc under `params` to OUT [tasks, K]."""
        self._write(partial(self._pass, params, hard=False), {"posterior": (out, self.certain())})

    def shares(self, tie_weights: NDArray[np.float64] | None, out: NDArray[np.float64]) -> None:
        """Write the share of each label in a task's votes to OUT [tasks, K]; a gold label has share 1."""
        self._write(partial(self._majority, soft=True, tie_weights=tie_weights), {"posterior": (out, self.certain())})

    def count_shares(self, params: Parameters, tally: Tally) -> None:
        """Count T_qc under `params` in a soft tally; the current labels stay as they are."""
        self._pass(params, hard=False, labels=np.zeros_like(self._labels), **self._counting(tally))
        self.count_gold(tally)

    def right_votes(self, params: Parameters, out: NDArray[np.int64]) -> None:
        """Add the probability of each vote's label under a table in parts to OUT [rows], in units of ANSWER_UNIT."""
        self._pass(params, hard=True, labels=np.zeros_like(self._labels), right=out)
        self._add_gold(certain_answers, {"answers": out})

    def gold_tasks(self, votes: int) -> int:
        """Return the number of gold tasks with at least `votes` votes."""
        return 0 if self._gold is None else int((np.diff(self._given_ptr) >= votes).sum())

    def run(self, kernel: str, inputs: RowInputs, **how: Any) -> Any:
        """Return what a kernel says of the votes without gold under the current labels; see `engines/passes.py`."""
        rules = self.rules
        votes = self._ptr, self._row, rules.row_label, self._labels
        return getattr(rules.kernels, kernel)(*votes, **inputs, row_weight=rules.row_weight, threads=rules.threads, **how)

    def fill(
        self,
        kernel: str,
        inputs: RowInputs,
        out: Mapping[str, tuple[Any, Any]],
        *,
        given: Mapping[str, Any] | None = None,
        **how: Any,
    ) -> None:
        """Run a kernel that writes figures of tasks.

        `out` has by name an OUT array, [tasks, …], and its values on gold tasks; `given` has IN arrays, [tasks]. A name in both
        is read and written.
        """
        self._write(partial(self.run, kernel, inputs, **how), out, given or {})

    def _write(
        self, act: Callable[..., Any], out: Mapping[str, tuple[Any, Any]], given: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        """Return what a kernel says that writes figures of tasks without gold; gold tasks get theirs. See `fill`."""
        parts = {name: self._of_open(array) for name, array in given.items()}
        parts |= {name: self._without_gold(array) for name, (array, _) in out.items() if name not in parts}
        said = act(**parts)
        for name, (array, of_gold) in out.items():
            self._merge_gold(parts[name], array, of_gold)
        return said

    def add(
        self,
        kernel: str,
        inputs: RowInputs,
        sums: Mapping[str, NDArray[np.int64]],
        on_gold: Callable[..., None],
        **how: Any,
    ) -> None:
        """Run a kernel that adds to sums by row, by name, OUT [rows] or [n, rows].

        `on_gold` adds what is certain: it gets the row of each vote on a gold task, the task's label, `row_label` and the sums.
        """
        self.run(kernel, inputs, **sums, **how)
        self._add_gold(on_gold, sums)

    def _add_gold(self, on_gold: Callable[..., None], sums: Mapping[str, NDArray[np.int64]]) -> None:
        if self._gold is not None:
            on_gold(self._given_row, np.repeat(self._given, np.diff(self._given_ptr)), self.rules.row_label, sums)

    def certain(self) -> Any:
        """Return the probabilities of the gold tasks, [gold, K]; None without gold."""
        return None if self._gold is None else np.eye(len(self.rules.label_hash))[self._given]

    def is_gold(self, labels: NDArray[np.int32]) -> Any:
        """Return whether the label of each gold task is the given one, [gold], of labels of all tasks, [tasks]."""
        return self._gold is not None and labels[~self._is_open] == self._given

    def _pass(self, params: Parameters, **how: Any) -> Sums:
        rules = self.rules
        sums: Sums = rules.kernels.em_pass(
            self._ptr,
            self._row,
            params.table,
            params.log_prior,
            self._key,
            rules.label_hash,
            by_prior=rules.by_prior,
            classification=False,  # `PassRules.classification` computes it for all shards at once
            checked=True,  # when the votes were read
            threads=rules.threads,
            **{"labels": self._labels, **how},
        )
        return sums

    def _counting(self, tally: Tally) -> dict[str, Any]:
        """Return the arrays that a pass counts into, and the unit."""
        if is_hard(tally):
            return {"counts": tally[0], "class_counts": tally[1]}
        counts, rest = tally[0] if tally[0].ndim == 3 else (tally[0], None)
        class_counts, class_rest = tally[1]
        into = {"counts": counts, "class_counts": class_counts, "rest": rest, "class_rest": class_rest}
        return {**into, "unit": self.rules.units.unit}

    def _majority(self, **how: Any) -> None:
        rules = self.rules
        rules.kernels.majority(
            self._ptr,
            self._row,
            rules.row_label,
            self._key,
            rules.label_hash,
            row_weight=rules.row_weight,
            labels=self._labels,
            checked=True,
            threads=rules.threads,
            **how,
        )

    def _weight_shares(self, params: Parameters) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield (some tasks without gold, each label's share of their weights), in chunks."""
        for piece in cuts(self._ptr, RECOUNT_VOTES):
            ptr = self._ptr[piece.start : piece.stop + 1]
            yield piece, reference.weight_shares(ptr, self._row, self.rules.row_label, params.table)

    def count_gold(self, tally: Tally) -> None:
        """Count the votes on gold tasks under the labels that were given."""
        if self._gold is not None:
            _recount(self._given_ptr, self._given_row, self._given, tally)

    def _with_gold(self, sums: Sums, params: Parameters) -> Sums:
        """Return sums whose likelihood has that of the gold tasks, too: the sum of log p(votes, given label)."""
        of_votes = params.table[self._given_row, np.repeat(self._given, np.diff(self._given_ptr))]
        of_gold = float(of_votes.sum() + params.log_prior[self._given].sum())
        return sums._replace(log_likelihood=sums.log_likelihood + of_gold)

    def _without_gold(self, out: NDArray[Any]) -> NDArray[Any]:
        """Return the array that passes write to: OUT, or one without the gold tasks."""
        return out if self._gold is None else np.empty((len(self._labels), *out.shape[1:]), out.dtype)

    def _of_open(self, array: Any) -> Any:
        """Return the items of tasks without gold of an array that passes read, [tasks]: itself without gold."""
        return array if self._gold is None else np.ascontiguousarray(array[self._is_open])

    def _merge_gold(self, part: NDArray[Any], out: NDArray[Any], of_gold: Any) -> None:
        if self._gold is not None:
            out[self._is_open] = part
            out[~self._is_open] = of_gold


def rules_for(votes: Votes, kernels: ModuleType, threads: int, ties: str) -> PassRules:
    """Return the rules of a fit over these votes."""
    units = partial(units_of, votes, kernels, threads)
    return PassRules.of(kernels, threads, votes.row_label, votes.labels, ties, units, votes.row_weight)


def _recount(ptr: NDArray[np.int64], row: NDArray[np.uint32], labels: NDArray[np.int32], tally: Tally) -> None:
    counts, class_counts = tally
    one: float = 1
    if not is_hard(tally):
        is_fine = counts.ndim == 3
        counts, class_counts, one = counts[0] if is_fine else counts, class_counts[0], FINE if is_fine else COARSE
    for piece in cuts(ptr, RECOUNT_VOTES):
        reference.recount_hard(ptr[piece.start : piece.stop + 1], row, labels[piece], counts, class_counts, one)


def cuts(task_ptr: NDArray[np.int64], votes: int) -> list[slice]:
    """Return slices of tasks with about this many votes each; a task is never split.

    >>> cuts(np.array([0, 2, 4, 9]), 4)
    [slice(0, 2, None), slice(2, 3, None)]
    """
    out, start, tasks = [], 0, len(task_ptr) - 1
    while start < tasks:
        end = int(np.searchsorted(task_ptr, task_ptr[start] + votes, side="right")) - 1
        end = max(end, start + 1)
        out.append(slice(start, end))
        start = end
    return out
