"""GLAD's passes over votes that are on one device, together with everything that is as long as votes or tasks.

Slopes by ability are sums over the votes of a worker. They are taken over a
second copy of the votes, in the order of the workers: so each has one writer, no sum depends on the order in which threads
run, and a fit repeats bit for bit. Sums by atomic additions would not, and numbers of fixed point would need a bound on the
ease of tasks, which has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import FitOutcome, Pieces, Statistics
from adjudge.data.vectors import Vector, pieces
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes, WorkerRows
from adjudge.engines.base import Believe, Checkpoint, GladModel
from adjudge.engines.glad import Glad, GladMemoryStore, GladRules
from adjudge.engines.shard import hashes
from adjudge.gpu.arrays import DEVICE_CHUNK_NUMBERS, DeviceNumbers, DeviceVector
from adjudge.gpu.device import THREADS, Device, blocks_of
from adjudge.gpu.shard import salt_of
from adjudge.gpu.tables import Slices, SortedLines, starts
from adjudge.gpu.votes import LONG_TASK, MAX_SHARD_VOTES, DeviceLayout, TieIds, label_type
from adjudge.kernels.cpu import fastest, methods_of
from adjudge.kernels.reference import Sums, hash_integers, mix

Floats = NDArray[np.float64]
WARPS: Final = THREADS // 32
MAX_GLAD_BLOCKS: Final = 4096  # at most: not by the device, since sums of blocks have the bits of their number
NARROW: Final = 16  # labels up to which a thread has the scores of a task, as in cuda/glad.cuh
WIDE_CELLS: Final = 1 << 22  # scores of all warps together, if a warp holds the scores of a task
WORKER_SLICE: Final = 4096  # votes of one worker that one warp adds up
SORTED: Final = 1 << 27  # votes that are sorted at once, to bound the memory for it
POSTERIOR_CELLS: Final = 1 << 26  # tasks x labels at once
SUMS: Final = 2  # of an E-step, before the class counts: log-likelihood, labels changed


def glad_bytes(votes: int, tasks: int, workers: int, rows: int, n_labels: int) -> int:
    """Return about how much device memory the passes take in addition to the layout, in bytes.

    >>> glad_bytes(10**9, 2 * 10**8, 20_000, 80_000, 4) >> 30
    68
    """
    per_vote = 8 + 8 + 4 + 4  # right in both orders; position and task by worker
    per_task = 26 * 8 + 8 + 1 + 4  # vectors of the M-step and ease; confidence; tie; gold
    some = min(tasks, POSTERIOR_CELLS // max(n_labels, 1) + 1)  # whose posterior is looked at together
    look = 8 * n_labels * some + 16 * WIDE_CELLS + 40 * votes * some // max(tasks, 1)
    sort = 40 * min(votes, SORTED)
    return per_vote * votes + per_task * tasks + 26 * 8 * workers + 8 * rows * (n_labels + 2) + max(sort, look)


def glad_on(
    device: Device,
    votes: Votes,
    label_hash: NDArray[np.uint64],  # [K]
    *,
    seed: int,
    by_prior: bool,
    gold: NDArray[np.int32] | None,  # [tasks] given labels, below 0 if there is none
    room: int,  # bytes of the device that may be taken
    resident: tuple[DeviceLayout, TieIds] | None = None,  # all votes, if they are on the device already
) -> DeviceGlad | None:
    """Return the passes of GLAD on a device; None if it has too little room for them."""
    need = glad_bytes(len(votes), votes.n_tasks, votes.n_workers, votes.n_rows, votes.n_labels)
    if resident is None:
        need += 4 * len(votes) + 12 * votes.n_tasks
    if need > room or len(votes) > MAX_SHARD_VOTES:
        return None
    with device.current():
        if resident is None:
            layout = DeviceLayout.of(device, votes.task_ptr, votes.row)
            if votes.tasks.kind == "integer":
                ties = TieIds(None, device.upload(votes.tasks.values), salt_of(seed))
            else:
                host = fastest()
                ties = TieIds(device.upload(host.tie_keys(hashes(host, votes.tasks), seed)), None, 0)
        else:
            layout, ties = resident
        return DeviceGlad(device, layout, votes, label_hash, ties, by_prior, gold)


class DeviceGlad:
    """The passes of GLAD on one device. They include gold tasks, whose difficulty is estimated, and overwrite their labels."""

    def __init__(
        self,
        device: Device,
        layout: DeviceLayout,
        panel: WorkerRows,
        label_hash: NDArray[np.uint64],  # [K]
        ties: TieIds,
        by_prior: bool,
        gold: NDArray[np.int32] | None = None,  # [tasks] given labels, below 0 if there is none
    ) -> None:
        self._device, self._layout, self._panel = device, layout, panel
        self._ties, self._by_prior = ties, by_prior
        self._k = panel.n_labels
        self._class_counts = np.zeros(self._k)
        with device.current():
            self._program = device.program("glad", K=max(self._k, 1))
            self._row_label = device.upload(panel.row_label)
            self._row_worker = device.upload(panel.row_worker())
            self._label_hash = device.upload(label_hash)
            self._gold = None if gold is None or not (gold >= 0).any() else device.upload(gold.astype(np.int32, copy=False))
            long = layout.long_tasks
            self._long_tasks = np.zeros(0, np.uint32) if long is None else device.download(long)
            self._labels = device.xp.zeros(layout.n_tasks, label_type(self._k))
            self._right = device.xp.empty(layout.n_votes)  # the probability of each vote's label in the last E-step
            self._by_worker, self._position, self._task = self._order_by_worker()
            self._right_by_worker = device.xp.empty(layout.n_votes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce to the processor's passes over the same votes, so that results load without a device."""
        device, layout, ties, panel = self._device, self._layout, self._ties, self._panel
        with device.current():
            if ties.keys is not None:
                keys = device.download(ties.keys)
            else:
                salt = np.array([ties.salt], np.int64).view(np.uint64)
                keys = mix(hash_integers(device.download(ties.numbers)) ^ salt)
            gold = None if self._gold is None else device.download(self._gold)
            votes = (
                panel
                if isinstance(panel, Votes)
                else Votes(
                    worker_ptr=panel.worker_ptr,
                    row_label=panel.row_label,
                    workers=panel.workers,
                    labels=panel.labels,
                    task_ptr=device.download(layout.ptr).astype(np.int64),
                    row=device.download(layout.row),
                    tasks=Vocabulary("integer", np.arange(layout.n_tasks)),  # no pass asks for ids
                    unvoted=Vocabulary("integer", np.zeros(0, np.int64)),
                )
            )
            return _unpickled_glad, (votes, device.download(self._label_hash), keys, self._by_prior, gold)

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are not yet written."""
        with self._device.current():
            return DeviceVector.empty(self._device, self._panel.n_workers + self._layout.n_tasks)

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return None: a fit in memory is not resumed."""
        return None

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Do nothing: a fit in memory is not resumed."""

    def class_counts(self) -> Floats:
        """Return the expected number of tasks of each label in the last E-step, [K]."""
        return self._class_counts

    def expect(self, model: GladModel) -> Sums:
        """Return the sums of an E-step."""
        with self._device.current():
            sums = self._expect(model, self._parameters(model), slice(0, self._layout.n_tasks), right=self._right)
            votes = self._layout.n_votes
            self._program.launch(
                "glad_arrange", blocks_of(votes), THREADS, self._right, self._position, self._right_by_worker, votes
            )
            self._class_counts = sums[SUMS:]
            return Sums(float(sums[0]), float("nan"), int(sums[1]), 0)

    def gradient(self, model: GladModel, slope: Vector, curvature: Vector, believe: Believe) -> float:
        """Return the expected log-likelihood under the last E-step, plus the log prior.

        Its slope and curvature are OUT [workers + tasks].
        """
        workers, n = self._panel.n_workers, self._panel.n_workers + self._layout.n_tasks
        with self._device.current():
            x = self._on_device(model.x)
            of = [one.array if isinstance(one, DeviceVector) else self._device.xp.empty(n) for one in (slope, curvature)]
            row_ability, ease = self._parameters(model)
            value = self._slopes(row_ability, ease, model.log_others, *(one[workers:] for one in of))
            self._worker_slopes(x[:workers], ease, *(one[:workers] for one in of))
            for of_tasks, cuts in (
                (True, pieces(n, DEVICE_CHUNK_NUMBERS, workers)),
                (False, pieces(workers, DEVICE_CHUNK_NUMBERS)),
            ):
                for cut in cuts:
                    some = (DeviceNumbers(self._device, one[cut]) for one in (x, *of))
                    value += believe(*cast(Iterator[Floats], some), of_tasks=of_tasks)
            for out, found in zip((slope, curvature), of, strict=True):
                if not isinstance(out, DeviceVector):
                    out[slice(0, n)] = self._device.download(found)
        return value

    def finish(self, model: GladModel) -> tuple[FitOutcome, Statistics]:
        """Return the outcome of the last E-step and its soft statistics; no M-step follows."""
        device, layout, panel, k = self._device, self._layout, self._panel, self._k
        with device.current():
            xp = device.xp
            confidence, tie = xp.empty(layout.n_tasks), xp.zeros(layout.n_tasks, np.bool_)
            counts, sums = xp.zeros((panel.n_rows, k)), np.zeros(SUMS + k)
            for cut, posterior, found in self._looks(model, confidence=confidence, tie=tie):
                sums += found
                self._recount(cut, posterior, counts)
            self._class_counts = sums[SUMS:]
            counted = Statistics(device.download(counts), self._class_counts.copy())
            right = counted.counts[np.arange(panel.n_rows), panel.row_label].astype(np.float64)
            labels = device.download(self._labels).astype(np.int32)
            outcome = FitOutcome(labels, device.download(confidence), device.download(tie), right, float(sums[0]))
        return outcome, counted

    def posterior(self, model: GladModel) -> Pieces:
        """Return T_qc, [tasks, K]."""
        out = np.empty((self._layout.n_tasks, self._k))
        with self._device.current():
            for cut, posterior, _ in self._looks(model):
                out[cut] = self._device.download(posterior)
        return out

    def _looks(self, model: GladModel, **out: Any) -> Iterator[tuple[slice, Any, Floats]]:
        """Yield tasks, their posterior on the device, [some tasks, K], and the sums of their E-step, all tasks in order."""
        parameters, at_once = self._parameters(model), max(POSTERIOR_CELLS // max(self._k, 1), 1)
        for cut in pieces(self._layout.n_tasks, at_once):
            posterior = self._device.xp.empty((cut.stop - cut.start, self._k))
            yield cut, posterior, self._expect(model, parameters, cut, posterior=posterior, **out)

    def _parameters(self, model: GladModel) -> tuple[Any, Any]:
        """Return the ability of each row's worker, device [rows], and the ease of each task, device [tasks]."""
        x, workers = self._on_device(model.x), self._panel.n_workers
        return x[:workers][self._row_worker], self._device.xp.exp(x[workers:])

    def _on_device(self, x: Vector) -> Any:
        return x.array if isinstance(x, DeviceVector) else self._device.upload(np.asarray(x))

    def _expect(
        self,
        model: GladModel,
        parameters: tuple[Any, Any],
        cut: slice,  # of tasks
        *,
        right: Any | None = None,  # OUT device [votes]
        confidence: Any | None = None,  # OUT device [tasks]
        tie: Any | None = None,  # OUT device [tasks]
        posterior: Any | None = None,  # OUT device [tasks of the cut, K]
    ) -> Floats:
        """Return the log-likelihood, the number of labels that changed, and the class counts, [2 + K], of an E-step."""
        device, layout, k = self._device, self._layout, self._k
        ability, ease = parameters
        begin, end = cut.start, cut.stop
        if begin == end or not k:
            return np.zeros(SUMS + k)
        log_prior = device.upload(model.log_prior)
        data = (layout.ptr, layout.row, ability, self._row_label, ease, log_prior)
        given = (self._ties.keys, self._ties.numbers, self._label_hash, self._gold)
        out = (self._labels, right, confidence, tie, posterior)
        rules = (begin, end, self._ties.salt, int(self._by_prior))
        others, total = float(model.log_others), np.zeros(SUMS + k)
        chosen, some = None, (0, 0)
        if k <= NARROW:
            blocks = min(blocks_of(end - begin), MAX_GLAD_BLOCKS)
            sums = device.xp.empty((blocks, SUMS + k))
            self._program.launch("glad_expect", blocks, THREADS, *data, *given, *out, sums, *rules, LONG_TASK, others)
            total += device.download(sums.sum(axis=0))
            found = np.searchsorted(self._long_tasks, [begin, end])
            chosen, some = layout.long_tasks, (int(found[0]), int(found[1]))
            if some[0] == some[1]:
                return total
        tasks = end - begin if chosen is None else some[1] - some[0]
        most = min(max(WIDE_CELLS // k, 64) // WARPS, MAX_GLAD_BLOCKS)
        blocks = min(-(-tasks // WARPS), most)
        room, sums = device.xp.empty((blocks * WARPS, k)), device.xp.zeros((blocks * WARPS, SUMS + k))
        self._program.launch("glad_expect_wide", blocks, THREADS, *data, *given, *out, sums, *rules, others, chosen, *some, room)
        total += device.download(sums.sum(axis=0))
        return total

    def _slopes(self, ability: Any, ease: Any, log_others: float, by_task: Any, curvature: Any) -> float:
        """Write slope and curvature by log ease, OUT device [tasks]; return the expected log-likelihood."""
        layout, xp, tasks = self._layout, self._device.xp, self._layout.n_tasks
        blocks = min(blocks_of(tasks), MAX_GLAD_BLOCKS)
        sums = xp.empty(blocks)
        data = (layout.ptr, layout.row, ability, ease, self._right, by_task, curvature)
        self._program.launch("glad_slopes", blocks, THREADS, *data, sums, tasks, LONG_TASK, float(log_others))
        value = float(sums.sum())
        if layout.long_tasks is not None:
            count = len(layout.long_tasks)
            blocks = min(-(-count // WARPS), MAX_GLAD_BLOCKS)
            sums = xp.empty(blocks * WARPS)
            self._program.launch("glad_slopes_long", blocks, THREADS, *data, sums, layout.long_tasks, count, float(log_others))
            value += float(sums.sum())
        return value

    def _worker_slopes(self, ability: Any, ease: Any, by_worker: Any, curvature: Any) -> None:
        """Write slope and curvature by ability, OUT device [workers]."""
        of, workers = self._by_worker, self._panel.n_workers
        part = self._device.xp.empty((len(of), 2))
        self._program.launch(
            "glad_by_worker", -(-len(of) // WARPS), THREADS, self._task, self._right_by_worker, ability, ease,
            of.start, of.item_start, of.item_segment, part, len(of), WORKER_SLICE,
        )  # fmt: skip
        self._program.launch("glad_workers", -(-workers // WARPS), THREADS, part, of.item_start, by_worker, curvature, workers)

    def _order_by_worker(self) -> tuple[Slices, Any, Any]:
        """Return the votes of each worker: slices, the position of each vote in the layout, and its task, device [votes] each.

        The votes of a worker keep their order. Some are sorted at a time, to bound the memory for it.
        """
        xp, layout, workers = self._device.xp, self._layout, self._panel.n_workers
        cuts = list(pieces(layout.n_votes, SORTED))
        lengths = xp.zeros(workers, np.int64)
        for cut in cuts:
            lengths += xp.bincount(self._row_worker[layout.row[cut]], minlength=workers)
        position, task = xp.empty(layout.n_votes, np.uint32), xp.empty(layout.n_votes, np.uint32)
        following = starts(self._device, lengths)[:-1].copy()  # where the next vote of each worker goes
        for cut in cuts:
            worker = self._row_worker[layout.row[cut]].astype(np.int32)
            order = xp.argsort(worker, kind="stable")
            worker, here = worker[order], xp.bincount(worker, minlength=workers)
            to = (following - starts(self._device, here)[:-1])[worker] + xp.arange(len(order), dtype=np.int64)
            position[to] = (order + cut.start).astype(np.uint32)
            task[to] = self._task_of(order, cut.start)
            following += here
        return Slices.of(self._device, lengths, WORKER_SLICE), position, task

    def _task_of(self, vote: Any, first: int) -> Any:
        """Return the tasks, device uint32 [some], of votes given by their distance from the vote at `first`."""
        found = self._device.xp.searchsorted(self._layout.ptr, (vote + first).astype(np.uint32), side="right")
        return (found - 1).astype(np.uint32)

    def _recount(self, cut: slice, posterior: Any, counts: Any) -> None:
        """Add the posterior of its task, device [tasks of the cut, K], to counts[row] for each vote, OUT device [rows, K]."""
        layout, device = self._layout, self._device
        first, last = int(layout.ptr[cut.start]), int(layout.ptr[cut.stop])
        if last > first:
            lines = SortedLines.of(device, layout.row[first:last], len(counts))
            lines.add(device, self._task_of(lines.order, first) - np.uint32(cut.start), posterior, counts)


def _unpickled_glad(
    votes: Votes,
    label_hash: NDArray[np.uint64],  # [K]
    task_key: NDArray[np.uint64],  # [tasks]
    by_prior: bool,
    gold: NDArray[np.int32] | None,  # [tasks]
) -> Glad:
    """Return the passes of GLAD over votes in memory."""
    rules = GladRules(methods_of(fastest()), 1, label_hash, by_prior, gold)
    return Glad(votes, rules, GladMemoryStore(votes, task_key, [slice(0, votes.n_tasks)]))
