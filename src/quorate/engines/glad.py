"""GLAD's passes over parts of the votes, in memory or on disk, and what its last E-step says of every task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from quorate.data.counts import Statistics
from quorate.data.fit import Outcome, Pieces
from quorate.data.vectors import Vector
from quorate.data.votes import Votes
from quorate.engines.base import Believe, Checkpoint, GladModel
from quorate.engines.shard import cuts
from quorate.kernels import reference
from quorate.kernels.cpu import kernels_named
from quorate.kernels.reference import Sums

Floats = NDArray[np.float64]
# What a pass over the votes is for: an E-step that leaves labels and `right`, slopes that read `right`, or a look.
Use = Literal["expect", "slope", "look"]
CELLS = 1 << 22  # of posteriors at once, to bound the memory they take


@dataclass(frozen=True, eq=False)
class Part:
    """The votes of some tasks, with what the E-steps say of them; good until the next one is asked for."""

    tasks: slice
    task_ptr: NDArray[np.int64]  # [tasks + 1] positions in `row`
    row: NDArray[np.uint32]
    task_key: NDArray[np.uint64]  # [tasks]
    labels: NDArray[np.int32]  # [tasks] of the last E-step; written to
    right: Floats  # [votes of these tasks] the probability that each is right: all that an E-step leaves for the M-step


class Shelf(Protocol):
    """Where votes lie, and what is as long as they are or as the tasks."""

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are yet to be written."""
        ...

    def parts(self, what: str, use: Use) -> Iterator[Part]:
        """Yield all votes in order of their tasks."""
        ...

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return labels, confidence and tie, [tasks] each, of what is found of some tasks after the other."""
        ...

    def figures(self, found: Iterator[Floats]) -> Pieces:
        """Return figures of all tasks, [tasks, K]: at once, or piece by piece."""
        ...

    def resume(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was broken off, and the abilities it had then; None where it was not."""
        ...

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keep a point to go on from."""
        ...

    def clear(self) -> None:
        """Let go of what only a fit needs that goes on."""
        ...


@dataclass(frozen=True, eq=False)
class Place:
    """What the session of an engine lends to GLAD's passes."""

    kernels: ModuleType  # glad_reference or its twin
    threads: int
    label_hash: NDArray[np.uint64]  # [K]
    by_prior: bool
    gold: NDArray[np.int32] | None = None  # [tasks] given labels, below 0 where there is none

    def __reduce__(self) -> tuple[Any, ...]:  # a module is pickled by its name
        return _unpickled_place, (self.kernels.__name__, self.threads, self.label_hash, self.by_prior, self.gold)


def _unpickled_place(kernels: str, *others: Any) -> Place:
    return Place(kernels_named(kernels), *others)


class Told(NamedTuple):
    """What the E-step says of some tasks."""

    part: Part
    cut: slice  # of the part's tasks
    sums: Sums
    out: dict[str, Any]  # confidence and tie [tasks], posterior [tasks, K], where they were asked for


class Glad:
    """The passes of GLAD. Gold tasks stay in them, since their difficulty is estimated; what is found of them is overwritten."""

    def __init__(self, votes: Votes, place: Place, shelf: Shelf) -> None:
        self._votes = votes
        self._place = place
        self._shelf = shelf
        self._row_worker = votes.row_worker().astype(np.int32)
        self._class_counts = np.zeros(votes.n_labels)
        # As many votes as there are rows, at least: their recount goes over all rows.
        self._at_once = max(CELLS // max(votes.n_labels, 1), votes.n_rows)
        self._passes = 0  # E-steps
        self._slopes = 0  # since the last of them

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are yet to be written."""
        return self._shelf.vector()

    def resume(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was broken off, and the abilities it had then; None where it was not."""
        found = self._shelf.resume()
        self._passes = 0 if found is None else len(found[0].trace)
        return found

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keep a point to go on from."""
        self._shelf.note(point, x)

    def expect(self, model: GladModel) -> Sums:
        """Return the sums of an E-step."""
        likelihood, changed = 0.0, 0
        for told in self._tell(model, f"pass {self._passes} (soft)", "expect"):
            likelihood += told.sums.log_likelihood
            changed += told.sums.changed
        self._passes, self._slopes = self._passes + 1, 0
        return Sums(likelihood, float("nan"), changed, 0)

    def class_counts(self) -> Floats:
        """Return the expected number of tasks of each label in the last E-step, [K]."""
        return self._class_counts

    def gradient(self, model: GladModel, slope: Vector, curvature: Vector, believe: Believe) -> float:
        """Return the expected log-likelihood under the last E-step, with what is believed beforehand.

        Its slope and curvature are OUT [workers + tasks].
        """
        workers, place = self._votes.n_workers, self._place
        ability = model.x[slice(0, workers)]
        by_worker, worker_curvature = np.zeros(workers), np.zeros(workers)
        value = 0.0
        self._slopes += 1
        for part in self._shelf.parts(f"M-step {self._passes}, slope {self._slopes}", "slope"):
            here = slice(workers + part.tasks.start, workers + part.tasks.stop)
            log_ease = model.x[here]
            ease = np.exp(log_ease)
            by_task, task_curvature = np.empty_like(ease), np.empty_like(ease)
            value += place.kernels.gradient(
                part.task_ptr,
                part.row,
                self._row_worker,
                ability,
                ease,
                part.right,
                model.log_others,
                checked=True,  # when the votes were read
                threads=place.threads,
                by_worker=by_worker,
                by_task=by_task,
                worker_curvature=worker_curvature,
                task_curvature=task_curvature,
            )
            value += believe(log_ease, by_task, task_curvature, of_tasks=True)
            slope[here], curvature[here] = by_task, task_curvature
        value += believe(ability, by_worker, worker_curvature, of_tasks=False)
        slope[slice(0, workers)], curvature[slice(0, workers)] = by_worker, worker_curvature
        return value

    def finish(self, model: GladModel) -> tuple[Outcome, Statistics]:
        """Return what the E-step says of every task, and its soft statistics; no M-step follows."""
        votes = self._votes
        counted = Statistics(np.zeros((votes.n_rows, votes.n_labels)), np.zeros(votes.n_labels))
        likelihood = 0.0

        def decided() -> Iterator[tuple[NDArray[Any], ...]]:
            nonlocal likelihood
            for part, cut, sums, out in self._tell(model, "last pass", "look", full=True):
                ptr = part.task_ptr[cut.start : cut.stop + 1]  # once in a fit: the reference is fast enough
                reference.recount_soft(ptr, part.row, out["posterior"], counted.counts, counted.class_counts)
                likelihood += sums.log_likelihood
                yield part.labels[cut], out["confidence"], out["tie"]

        self._shelf.clear()
        labels, confidence, tie = self._shelf.collected(decided())
        right = counted.counts[np.arange(votes.n_rows), votes.row_label].astype(np.float64)
        return Outcome(labels, confidence, tie, right, likelihood), counted

    def posterior(self, model: GladModel) -> Pieces:
        """Return T_qc, [tasks, K]: at once, or piece by piece."""
        return self._shelf.figures(told.out["posterior"] for told in self._tell(model, "probabilities", "look", full=True))

    def _tell(self, model: GladModel, what: str, use: Use, *, full: bool = False) -> Iterator[Told]:
        """Yield what an E-step says, of all tasks in order; `full` asks for more than labels and `right`."""
        workers, gold = self._votes.n_workers, self._place.gold
        ability = model.x[slice(0, workers)]
        class_counts = self._class_counts = np.zeros(self._votes.n_labels)
        for part in self._shelf.parts(what, use):
            ease = np.exp(model.x[slice(workers + part.tasks.start, workers + part.tasks.stop)])
            given = None if gold is None or not (gold[part.tasks] >= 0).any() else gold[part.tasks]
            for cut in cuts(part.task_ptr, self._at_once) if full or given is not None else [slice(0, len(ease))]:
                out = self._blank(cut, full=full, posterior=given is not None)
                told = Told(part, cut, self._expect(model, ability, ease[cut], part, cut, class_counts, given, out), out)
                yield told

    def _blank(self, cut: slice, *, full: bool, posterior: bool) -> dict[str, Any]:
        n = cut.stop - cut.start
        out: dict[str, Any] = {"posterior": np.empty((n, self._votes.n_labels))} if full or posterior else {}
        return {**out, "confidence": np.empty(n), "tie": np.empty(n, np.bool_)} if full else out

    def _expect(
        self,
        model: GladModel,
        ability: Floats,  # [workers]
        ease: Floats,  # [tasks of the cut]
        part: Part,
        cut: slice,
        class_counts: Floats,  # OUT [K] added to
        gold: NDArray[np.int32] | None,  # [tasks of the part]
        out: dict[str, Any],
    ) -> Sums:
        ptr, first = part.task_ptr[cut.start : cut.stop + 1], part.task_ptr[0]
        labels, right = part.labels[cut], part.right[ptr[0] - first : ptr[-1] - first]
        given = None if gold is None else gold[cut]
        if given is not None:
            np.copyto(labels, given, where=given >= 0)
        sums: Sums = self._place.kernels.expect(
            ptr,
            part.row,
            self._row_worker,
            self._votes.row_label,
            ability,
            ease,
            model.log_prior,
            model.log_others,
            part.task_key[cut],
            self._place.label_hash,
            by_prior=self._place.by_prior,
            checked=True,
            threads=self._place.threads,
            labels=labels,
            right=right,
            class_counts=class_counts,
            **out,
        )
        if given is None:
            return sums
        changed = sums.changed - int(((labels != given) & (given >= 0)).sum())  # given back below
        of_gold = self._fix(given, ptr, part.row, labels, right, class_counts, **out)
        return sums._replace(log_likelihood=sums.log_likelihood + of_gold, changed=changed)

    def _fix(
        self,
        gold: NDArray[np.int32],  # [tasks]
        ptr: NDArray[np.int64],  # [tasks + 1]
        row: NDArray[np.uint32],
        labels: NDArray[np.int32],  # OUT [tasks]
        right: Floats,  # OUT [votes]
        class_counts: Floats,  # OUT [K]
        posterior: Floats,  # OUT [tasks, K]
        **out: NDArray[Any],
    ) -> float:
        """Give gold tasks their label, and returns what that adds to the log-likelihood: log p of the given labels."""
        chosen = np.flatnonzero(gold >= 0)
        given, found = gold[chosen], posterior[chosen]
        certain = np.eye(self._votes.n_labels)[given]
        class_counts += certain.sum(axis=0) - found.sum(axis=0)
        posterior[chosen] = certain
        labels[chosen] = given
        for name, value in (("confidence", 1.0), ("tie", False)):
            if name in out:
                out[name][chosen] = value
        lengths = np.diff(ptr)[chosen]
        where = np.repeat(ptr[chosen], lengths) + np.arange(lengths.sum())
        where -= np.repeat(np.cumsum(lengths) - lengths, lengths)  # the places of these tasks' votes
        right[where - ptr[0]] = self._votes.row_label[row[where]] == np.repeat(given, lengths)
        with np.errstate(divide="ignore"):
            return float(np.log(found[np.arange(len(given)), given]).sum())


class MemoryShelf:
    """Votes in memory with, for each, the probability that it is right."""

    def __init__(self, votes: Votes, task_key: NDArray[np.uint64], cuts: Sequence[slice]) -> None:
        self._votes = votes
        self._task_key = task_key
        self._cuts = cuts  # of tasks
        self._labels = np.zeros(votes.n_tasks, np.int32)
        self._right = np.empty(len(votes))

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are yet to be written."""
        return np.empty(self._votes.n_workers + self._votes.n_tasks)

    def parts(self, what: str, use: Use) -> Iterator[Part]:
        """Yield all votes in order of their tasks."""
        for cut in self._cuts:
            ptr = self._votes.task_ptr[cut.start : cut.stop + 1]
            right = self._right[ptr[0] : ptr[-1]]
            yield Part(cut, ptr, self._votes.row, self._task_key[cut], self._labels[cut], right)

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return labels, confidence and tie, [tasks] each, of what is found of some tasks after the other."""
        n, at = self._votes.n_tasks, 0
        whole: tuple[NDArray[Any], ...] = (np.empty(n, np.int32), np.empty(n), np.empty(n, np.bool_))
        for some in found:
            for out, items in zip(whole, some, strict=True):
                out[at : at + len(items)] = items
            at += len(some[0])
        return whole

    def figures(self, found: Iterator[Floats]) -> Floats:
        """Return figures of all tasks, [tasks, K]."""
        out, at = np.empty((self._votes.n_tasks, self._votes.n_labels)), 0
        for some in found:
            out[at : at + len(some)] = some
            at += len(some)
        return out

    def resume(self) -> None:
        """Return that no fit was broken off."""

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keep nothing: what is in memory ends with the process."""

    def clear(self) -> None:
        """Let go of nothing: a look needs room, too."""
