"""Passes over the votes under the current labels, besides E-steps: one record each.

A pass says which kernel runs, what it reads and what becomes of its output. A session makes the inputs by row where its counts
are and applies the record to its shards (`Session.run`). Every engine runs the same records: kernel modules share the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Pieces
from adjudge.data.votes import WorkerRows, piece
from adjudge.kernels.reference import ANSWER_UNIT, HonestRule

if TYPE_CHECKING:
    from adjudge.engines.base import WorkerBlock
    from adjudge.engines.session import VoteStore
    from adjudge.engines.shard import Shard

Floats = NDArray[np.float64]
Sums = NDArray[np.int64]
T = TypeVar("T")
RowInputs = Mapping[str, Any]  # arrays by row that a kernel reads, by the names of its parameters
RowFunction = Callable[["WorkerBlock", Any], Any]  # makes them of some workers and their counts


class VotePass(Generic[T]):
    """A pass over the votes."""

    skips_gold: ClassVar[bool] = False  # whether inputs are made of the counts of tasks without gold
    row_axis: ClassVar[int] = 0  # of the inputs

    def inputs(self, values: Any, block: WorkerBlock) -> RowInputs:
        """Return the values of a `RowFunction` over a block of workers as inputs of the kernel."""
        raise NotImplementedError

    def inputs_at(self, inputs: RowInputs, rows: NDArray[np.uint32]) -> RowInputs:
        """Return the inputs of some rows."""
        return {name: np.take(array, rows, axis=self.row_axis) for name, array in inputs.items()}

    def over(self, store: VoteStore, inputs: RowInputs) -> Any:
        """Return what the kernel returns of all shards: sums can be added to those of other stores."""
        raise NotImplementedError

    def result(self, total: Any) -> T:
        """Return the result of a pass over all votes."""
        out: T = total
        return out


@dataclass(frozen=True, eq=False)
class PairSums(VotePass[Floats]):
    """Sums over pairs of votes on one task without gold, [quantities + 2]: see `reference.pair_sums`.

    The row function returns the values of rows, [quantities, 2, rows], or of workers, [quantities, 2, workers].
    """

    skips_gold: ClassVar[bool] = True
    row_axis: ClassVar[int] = 2

    def inputs(self, values: Any, block: WorkerBlock) -> RowInputs:
        """Return the values, times the weights of the votes; compiled kernels read those of workers if there are no weights."""
        weights, ptr = block.weights, block.panel.worker_ptr
        if block.threads and weights is None and values.shape[2] == len(ptr) - 1:
            return {"values": values, "worker_ptr": ptr}
        values = self.by_row(values, ptr, block.panel.n_rows)
        return {"values": values if weights is None else np.take(values, weights.pair, axis=2) * weights.weight}

    def inputs_at(self, inputs: RowInputs, rows: NDArray[np.uint32]) -> RowInputs:
        """Return the values of some rows."""
        return super().inputs_at({"values": self.by_row(**inputs)}, rows)

    def by_row(self, values: Floats, worker_ptr: Sums | None = None, n_rows: int = -1) -> Floats:
        """Return the values of rows, [quantities, 2, rows], of those of rows or workers."""
        return values if worker_ptr is None or values.shape[2] == n_rows else np.repeat(values, np.diff(worker_ptr), axis=2)

    def over(self, store: VoteStore, inputs: RowInputs) -> Floats:
        """Return the sums, added in the order of the shards."""
        k, nothing = len(store.rules.label_hash), np.zeros(len(inputs["values"]) + 2)
        return sum(store.scan("pairs of votes", lambda _, shard: shard.run("pair_sums", inputs, n_labels=k)), nothing)


@dataclass(frozen=True, eq=False)
class HonestPass(VotePass[T]):
    """A pass over honest probabilities; the row function returns lines with and without one vote, [rows, K] each."""

    rule: HonestRule

    def inputs(self, values: Any, block: WorkerBlock) -> RowInputs:
        """Return both lines."""
        return {"lines": values[0], "without": values[1]}


@dataclass(frozen=True, eq=False)
class Confidence(HonestPass[tuple[Floats, NDArray[np.bool_]]]):
    """The honest confidence of the current labels, and whether they are tied, [tasks] each. Gold is certain."""

    tie: Any  # [tasks] where the model found a tie

    def over(self, store: VoteStore, inputs: RowInputs) -> tuple[Floats, NDArray[np.bool_]]:
        """Return both, where the store keeps arrays of tasks."""

        def act(cut: slice, shard: Shard, confidence: Floats, tie: NDArray[np.bool_]) -> None:
            tie[:] = piece(self.tie, cut)
            self.write(shard, inputs, confidence, tie)

        _, (_, confidence, tie) = store.decide("confidence", act)
        return confidence, tie

    def write(self, shard: Shard, inputs: RowInputs, confidence: Floats, tie: NDArray[np.bool_]) -> None:
        """Write those of a shard to OUT [tasks] each; `tie` is read, too."""
        out = {"confidence": (confidence, 1.0), "tie": (tie, False)}
        shard.fill("honest_pass", inputs, out, given={"tie": tie}, rule=self.rule)


@dataclass(frozen=True, eq=False)
class Probabilities(HonestPass[Pieces]):
    """The honest probabilities of all labels, [tasks, K]. Gold is certain."""

    def over(self, store: VoteStore, inputs: RowInputs) -> Pieces:
        """Return them at once, or in chunks."""
        return store.figures("probabilities", lambda shard, out: self.write(shard, inputs, out))

    def write(self, shard: Shard, inputs: RowInputs, out: Floats) -> None:
        """Write those of a shard to OUT [tasks, K]."""
        shard.fill("honest_pass", inputs, {"probabilities": (out, shard.certain())}, rule=self.rule)


@dataclass(frozen=True, eq=False)
class Chance(HonestPass[Floats]):
    """The honest probability of a wanted label of every task, before the last step of the rule, [tasks]. Gold is certain."""

    wanted: NDArray[np.int32]  # [tasks]

    def over(self, store: VoteStore, inputs: RowInputs) -> Floats:
        """Return it in one array."""
        out = np.empty(store.votes.n_tasks)

        def act(cut: slice, shard: Shard) -> None:
            wanted = self.wanted[cut]
            known = {"chance": (out[cut], shard.is_gold(wanted))}
            shard.fill("honest_pass", inputs, known, given={"wanted": wanted}, rule=self.rule)

        store.scan("answers", act)
        return out


@dataclass(frozen=True, eq=False)
class Answers(HonestPass[Floats]):
    """Sums by row of the probability of every vote's answer, and of its task's label being wrong, [2, rows]."""

    def over(self, store: VoteStore, inputs: RowInputs) -> Sums:
        """Return the sums in units of ANSWER_UNIT."""
        sums = np.zeros((2, len(store.rules.row_label)), np.int64)
        out = {"answers": sums[0], "doubts": sums[1]}
        store.scan("answers", lambda _, shard: shard.add("honest_pass", inputs, out, certain_answers, rule=self.rule))
        return sums

    def result(self, total: Sums) -> Floats:
        """Return the sums as probabilities."""
        return np.multiply(total, ANSWER_UNIT, dtype=np.float64)


def certain_answers(row: NDArray[Any], true: NDArray[Any], row_label: NDArray[np.int32], out: Mapping[str, Sums]) -> None:
    """Add the answers of votes on gold tasks, each right or wrong."""
    right = row_label[row] == true
    out["answers"][:] += np.bincount(row[right], minlength=len(row_label)) * round(1 / ANSWER_UNIT)


@dataclass(frozen=True, eq=False)
class BelowChance(HonestPass[tuple[Sums, Floats]]):
    """What the others say of each worker's answers, by row (see `reference.below_chance`): votes, [rows], and sums, [3, rows].

    The sums are of the probability of the answers, of the row's label on all votes of its worker, and of its square.
    """

    def over(self, store: VoteStore, inputs: RowInputs) -> tuple[Sums, float]:
        """Return all sums, [4, rows], and their unit, which is as fine as the sums of the busiest worker allow."""
        panel = store.votes
        most = int(panel.by_worker(panel.votes_per_row()).max(initial=1))
        unit, sums = 2.0 ** (most.bit_length() - 62), np.zeros((4, panel.n_rows), np.int64)
        ids = {"row_worker": panel.row_worker(), "worker_ptr": panel.worker_ptr}
        on_gold = partial(_certain_others, panel, ids["row_worker"], unit)

        def act(_: slice, shard: Shard) -> None:
            shard.add("below_chance", {**inputs, **ids}, {"sums": sums}, on_gold, rule=self.rule, unit=unit)

        store.scan("answers", act)
        return sums, unit

    def result(self, total: tuple[Sums, float]) -> tuple[Sums, Floats]:
        """Return the votes, and the sums as probabilities."""
        sums, unit = total
        return sums[0], np.multiply(sums[1:], unit, dtype=np.float64)


def _certain_others(
    panel: WorkerRows,
    row_worker: NDArray[np.int64],
    unit: float,
    row: NDArray[Any],
    true: NDArray[Any],
    row_label: NDArray[np.int32],
    out: Mapping[str, Sums],
) -> None:
    """Add what gold says of the answers to its tasks: it is certain, whether or not others voted on them."""
    sums, one, rows = out["sums"], round(1.0 / unit), panel.n_rows
    sums[0] += np.bincount(row, minlength=rows)
    sums[1] += np.bincount(row[row_label[row] == true], minlength=rows) * one
    met = panel.row_of(row_worker[row], true)  # the row of the worker that gives the true label, if there is one
    certain = np.bincount(met[met >= 0], minlength=rows) * one
    if panel.row_weight is not None:  # the first of several rows that give it: all of them say the same
        certain = certain[panel.row_of(row_worker, panel.row_label)]
    sums[2] += certain
    sums[3] += certain
