"""Honest confidence on a device: what the other votes of a task say, and sums over pairs of votes."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.gpu.device import Device, Program, blocks_of
from adjudge.gpu.votes import LONG_TASK, DeviceLayout, label_type
from adjudge.kernels.reference import HonestRule

Floats = NDArray[np.float64]
HONEST_THREADS: Final = 128  # of a block, as honest.cuh has it
MAX_THREAD_LABELS: Final = 32  # up to which a thread works on a task by itself
SHARED_CELLS: Final = 40 << 10  # bytes of shared memory for a task's scores, in addition to the kernels' static share
BLOCKS_EACH: Final = 16  # blocks that a multiprocessor gets where blocks go from task to task


class HonestKernels:
    """Kernels of honest confidence. Lines are device arrays; a rule's numbers are the host's."""

    device: Device

    def pair_sums(
        self,
        layout: DeviceLayout,
        row_label: Any,  # IN device int32 [rows]
        labels: Any,  # IN device [tasks] the current labels
        values: Any,  # IN device float64 [quantities, 2, rows] see `reference.pair_sums`
        n_labels: int,
        row_weight: Any | None = None,  # IN device float64 [rows]
    ) -> Floats:
        """Return sums over tasks and ordered pairs of different votes, [quantities + 2], in one order of adding."""
        out = np.zeros(len(values) + 2)
        if not layout.n_votes:
            return out
        program, votes = self._honest(n_labels), (layout.ptr, layout.row, row_label)
        rows, tasks, some = len(row_label), layout.n_tasks, layout.long_tasks
        launches: list[tuple[str, int, tuple[Any, ...], tuple[Any, ...]]] = [("", blocks_of(tasks, HONEST_THREADS), (), (tasks,))]
        if some is not None:
            launches.append(("_long", len(some), (some, len(some)), ()))
        for kind, wanted, chosen, number in launches:
            blocks = self._blocks(wanted)
            parts = self.device.xp.zeros((len(out), blocks))
            for at in range(len(values)):
                given = (*chosen, *votes, labels, values[at], rows, *number, parts[at])
                program.launch(f"pair_products{kind}", blocks, HONEST_THREADS, *given)
            room, shared = self._room(n_labels, blocks) if chosen else (None, 0)
            given = (*chosen, *((room,) if chosen else ()), *votes, row_weight, *number, parts[-2:])
            program.launch(f"pair_counts{kind}", blocks, HONEST_THREADS, *given, shared=shared)
            out += [math.fsum(sums) for sums in self.device.download(parts).tolist()]  # of all blocks
        return out

    def honest_pass(
        self,
        layout: DeviceLayout,
        row_label: Any,  # IN device int32 [rows]
        labels: Any,  # IN device [tasks] the labels that were decided
        lines: Any,  # IN device float64 [rows, K] see `reference.honest_pass`
        without: Any,  # IN device float64 [rows, K]
        rule: HonestRule,
        *,
        row_weight: Any | None = None,  # IN device float64 [rows]
        confidence: Any | None = None,  # OUT device float64 [tasks]
        tie: Any | None = None,  # IN/OUT device bool [tasks]
        probabilities: Any | None = None,  # OUT device float64 [tasks, K]
        answers: Any | None = None,  # OUT device int64 [rows] added to
        doubts: Any | None = None,  # OUT device int64 [rows] added to
        wanted: Any | None = None,  # IN device [tasks]
        chance: Any | None = None,  # OUT device float64 [tasks]
    ) -> None:
        """Write the honest probabilities of the labels of every task, as `reference.honest_pass` does."""
        if wanted is None or chance is None:
            wanted = chance = None
        else:
            wanted = wanted.astype(label_type(lines.shape[1]), copy=False)
        if answers is None or doubts is None:
            answers = doubts = None
        votes = (layout.ptr, layout.row, row_label, labels, lines, without, *self._rule(rule), row_weight)
        out = (confidence, tie, probabilities, answers, doubts, wanted, chance)
        self._over_tasks("honest", layout, lines.shape[1], votes, out)

    def below_chance(
        self,
        layout: DeviceLayout,
        row_label: Any,  # IN device int32 [rows]
        labels: Any,  # IN device [tasks] the labels that were decided
        lines: Any,  # IN device float64 [rows, K]
        without: Any,  # IN device float64 [rows, K]
        rule: HonestRule,
        row_worker: Any,  # IN device int64 [rows]
        worker_ptr: Any,  # IN device int64 [workers + 1]
        unit: float,
        sums: Any,  # OUT device int64 [4, rows] added to
        row_weight: Any | None = None,  # IN device float64 [rows]
    ) -> None:
        """Add up what the other votes of a task say of each worker's answers, as `reference.below_chance` does."""
        votes = (layout.ptr, layout.row, row_label, labels, lines, without, *self._rule(rule), row_weight)
        out = row_worker, worker_ptr, float(unit), sums, len(row_label)
        self._over_tasks("below_chance", layout, lines.shape[1], votes, out)

    def honest_lines(
        self,
        counts: Any,  # IN device int64 or float64 [rows, K]
        worker_ptr: Any,  # IN device int64 [workers + 1]
        row_worker: Any,  # IN device int64 [rows]
        row_label: Any,  # IN device int32 [rows]
        population: Floats,  # IN [K given, K true]
        exists: NDArray[np.bool_],  # IN [K]
        lent: float,
    ) -> tuple[Any, Any]:
        """Return log-probabilities of votes by true label, with and without one of them, device [rows, K] each.

        It is what `Honest.lines` returns of votes without weights and workers without a history.
        """
        (rows, k), xp = counts.shape, self.device.xp
        lines, without = xp.empty((rows, k)), xp.empty((rows, k))
        if not rows * k:
            return lines, without
        program, workers = self._honest(k), len(worker_ptr) - 1
        cells = (counts, None) if counts.dtype.kind == "i" else (None, counts)
        totals = xp.empty((workers, k))
        program.launch(
            "worker_totals", blocks_of(workers * k, HONEST_THREADS), HONEST_THREADS, *cells, worker_ptr, workers, totals
        )
        mean = self.device.upload(np.where(exists, lent * population, 0.0))
        about = (row_worker, row_label, totals, mean, float(lent), rows)
        program.launch("vote_lines", blocks_of(rows * k, HONEST_THREADS), HONEST_THREADS, *cells, *about, lines, without)
        return lines, without

    def _over_tasks(self, kernel: str, layout: DeviceLayout, k: int, votes: tuple[Any, ...], out: tuple[Any, ...]) -> None:
        """Run a kernel over all tasks: by threads, and by blocks where tasks are long or labels many."""
        tasks, some = layout.n_tasks, layout.long_tasks
        if tasks < 1 or not k:
            return
        program = self._honest(k)
        if k <= MAX_THREAD_LABELS:
            program.launch(f"{kernel}_tasks", blocks_of(tasks, HONEST_THREADS), HONEST_THREADS, *votes, tasks, *out)
        if k > MAX_THREAD_LABELS or some is not None:
            chosen = some if k <= MAX_THREAD_LABELS else None  # None: all
            n_chosen = tasks if chosen is None else len(chosen)
            blocks = self._blocks(n_chosen)
            room, shared = self._room(k, blocks)
            program.launch(f"{kernel}_blocks", blocks, HONEST_THREADS, chosen, n_chosen, room, *votes, *out, shared=shared)

    def _honest(self, k: int) -> Program:
        return self.device.program("honest", K=k, LONG_TASK=LONG_TASK)

    def _rule(self, rule: HonestRule) -> tuple[Any, float, float]:
        """Return a rule as kernels take it: start and equal shares on the device, [2, K], shared error, trust in the scores."""
        numbers = self.device.upload(np.stack([rule.log_prior, rule.uniform]).astype(np.float64))
        return numbers, float(rule.shared_error), min(1.0, 2.0 * float(rule.holds))

    def _room(self, k: int, blocks: int) -> tuple[Any | None, int]:
        """Return memory of the device for two numbers per label and block, or None and the bytes of shared memory for them."""
        size = 2 * 8 * k
        return (None, size) if size <= SHARED_CELLS else (self.device.xp.empty(2 * k * blocks), 0)

    def _blocks(self, most: int) -> int:
        """Return how many blocks share some work: no more than can be used, or than keep the device busy."""
        return max(min(most, BLOCKS_EACH * self.device.multiprocessors), 1)
