"""GLAD's passes over shards of votes, the outcome of its last E-step, and where its arrays are: in memory, or in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import FitOutcome, Pieces, Statistics
from adjudge.data.vectors import Vector
from adjudge.data.votes import Votes
from adjudge.engines import checkpoint
from adjudge.engines.base import Believe, Checkpoint, GladModel, Report
from adjudge.engines.disk_files import FileVector, LabelFile, LoadedShard, ShardReader, VectorFiles
from adjudge.engines.shard import cuts
from adjudge.io.folder.arrays import write_all, writing
from adjudge.kernels import reference
from adjudge.kernels.cpu import kernels_named
from adjudge.kernels.reference import Sums

Floats = NDArray[np.float64]
# The use of a pass: an E-step, which writes labels and `right`; slopes, which read `right`; or a look, which stores nothing.
Use = Literal["expect", "slope", "look"]
MAX_POSTERIOR_CELLS = 1 << 22  # tasks x labels at once, to bound their memory


@dataclass(frozen=True, eq=False)
class GladShard:
    """The votes of some tasks with the results of the last E-step; valid until the next shard is read."""

    tasks: slice
    task_ptr: NDArray[np.int64]  # [tasks + 1] positions in `row`
    row: NDArray[np.uint32]
    task_key: NDArray[np.uint64]  # [tasks]
    labels: NDArray[np.int32]  # [tasks] of the last E-step; written to
    right: Floats  # [votes of these tasks] the probability that each is right: the M-step needs nothing else of an E-step


class GladStore(Protocol):
    """Stores the votes of GLAD, and arrays of the length of votes or tasks."""

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are not yet written."""
        ...

    def shards(self, what: str, use: Use) -> Iterator[GladShard]:
        """Yield all votes in order of their tasks."""
        ...

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return labels, confidence and tie, [tasks] each, from those of some tasks at a time."""
        ...

    def figures(self, found: Iterator[Floats]) -> Pieces:
        """Return figures of all tasks, [tasks, K]: at once, or in chunks."""
        ...

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was interrupted, and its abilities then; None if it was not."""
        ...

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Store a point to resume from."""
        ...

    def clear(self) -> None:
        """Remove what only a fit in progress needs."""
        ...


@dataclass(frozen=True, eq=False)
class GladRules:
    """What GLAD's passes take from the session: the kernels, the rule of ties, and gold."""

    kernels: ModuleType  # `methods_reference` or its compiled twin
    threads: int
    label_hash: NDArray[np.uint64]  # [K]
    by_prior: bool
    gold: NDArray[np.int32] | None = None  # [tasks] given labels, below 0 if there is none

    def __reduce__(self) -> tuple[Any, ...]:  # a module is pickled by its name
        return _unpickled_rules, (self.kernels.__name__, self.threads, self.label_hash, self.by_prior, self.gold)


def _unpickled_rules(kernels: str, *others: Any) -> GladRules:
    return GladRules(kernels_named(kernels), *others)


class Expectation(NamedTuple):
    """The E-step of some tasks."""

    shard: GladShard
    cut: slice  # of the shard's tasks
    sums: Sums
    out: dict[str, Any]  # confidence and tie [tasks], posterior [tasks, K], where requested


class Glad:
    """The passes of GLAD. They include gold tasks, whose difficulty is estimated, and then overwrite their labels."""

    def __init__(self, votes: Votes, rules: GladRules, store: GladStore) -> None:
        self._votes = votes
        self._rules = rules
        self._store = store
        self._row_worker = votes.row_worker().astype(np.int32)
        self._class_counts = np.zeros(votes.n_labels)
        # At least as many votes as rows: a recount goes over all rows.
        self._at_once = max(MAX_POSTERIOR_CELLS // max(votes.n_labels, 1), votes.n_rows)
        self._passes = 0  # E-steps
        self._slopes = 0  # since the last of them

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are not yet written."""
        return self._store.vector()

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was interrupted, and its abilities then; None if it was not."""
        found = self._store.restore()
        self._passes = 0 if found is None else len(found[0].trace)
        return found

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Store a point to resume from."""
        self._store.checkpoint(point, x)

    def expect(self, model: GladModel) -> Sums:
        """Return the sums of an E-step."""
        likelihood, changed = 0.0, 0
        for found in self._expectations(model, f"pass {self._passes} (soft)", "expect"):
            likelihood += found.sums.log_likelihood
            changed += found.sums.changed
        self._passes, self._slopes = self._passes + 1, 0
        return Sums(likelihood, float("nan"), changed, 0)

    def class_counts(self) -> Floats:
        """Return the expected number of tasks of each label in the last E-step, [K]."""
        return self._class_counts

    def gradient(self, model: GladModel, slope: Vector, curvature: Vector, believe: Believe) -> float:
        """Return the expected log-likelihood under the last E-step, plus the log prior.

        Its slope and curvature are OUT [workers + tasks].
        """
        workers, rules = self._votes.n_workers, self._rules
        ability = model.x[slice(0, workers)]
        by_worker, worker_curvature = np.zeros(workers), np.zeros(workers)
        value = 0.0
        self._slopes += 1
        for shard in self._store.shards(f"M-step {self._passes}, slope {self._slopes}", "slope"):
            here = slice(workers + shard.tasks.start, workers + shard.tasks.stop)
            log_ease = model.x[here]
            ease = np.exp(log_ease)
            by_task, task_curvature = np.empty_like(ease), np.empty_like(ease)
            value += rules.kernels.glad_gradient(
                shard.task_ptr,
                shard.row,
                self._row_worker,
                ability,
                ease,
                shard.right,
                model.log_others,
                checked=True,  # when the votes were read
                threads=rules.threads,
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

    def finish(self, model: GladModel) -> tuple[FitOutcome, Statistics]:
        """Return the outcome of the last E-step and its soft statistics; no M-step follows."""
        votes = self._votes
        counted = Statistics(np.zeros((votes.n_rows, votes.n_labels)), np.zeros(votes.n_labels))
        likelihood = 0.0

        def decided() -> Iterator[tuple[NDArray[Any], ...]]:
            nonlocal likelihood
            for shard, cut, sums, out in self._expectations(model, "last pass", "look", full=True):
                ptr = shard.task_ptr[cut.start : cut.stop + 1]  # once in a fit: the reference is fast enough
                reference.recount_soft(ptr, shard.row, out["posterior"], counted.counts, counted.class_counts)
                likelihood += sums.log_likelihood
                yield shard.labels[cut], out["confidence"], out["tie"]

        self._store.clear()
        labels, confidence, tie = self._store.collected(decided())
        right = counted.counts[np.arange(votes.n_rows), votes.row_label].astype(np.float64)
        return FitOutcome(labels, confidence, tie, right, likelihood), counted

    def posterior(self, model: GladModel) -> Pieces:
        """Return T_qc, [tasks, K]: at once, or in chunks."""
        found = self._expectations(model, "probabilities", "look", full=True)
        return self._store.figures(one.out["posterior"] for one in found)

    def _expectations(self, model: GladModel, what: str, use: Use, *, full: bool = False) -> Iterator[Expectation]:
        """Yield the E-step of all tasks in order; `full` requests confidence, tie and posterior as well."""
        workers, gold = self._votes.n_workers, self._rules.gold
        ability = model.x[slice(0, workers)]
        class_counts = self._class_counts = np.zeros(self._votes.n_labels)
        for shard in self._store.shards(what, use):
            ease = np.exp(model.x[slice(workers + shard.tasks.start, workers + shard.tasks.stop)])
            given = None if gold is None or not (gold[shard.tasks] >= 0).any() else gold[shard.tasks]
            for cut in cuts(shard.task_ptr, self._at_once) if full or given is not None else [slice(0, len(ease))]:
                out = self._blank(cut, full=full, posterior=given is not None)
                sums = self._expect(model, ability, ease[cut], shard, cut, class_counts, given, out)
                yield Expectation(shard, cut, sums, out)

    def _blank(self, cut: slice, *, full: bool, posterior: bool) -> dict[str, Any]:
        n = cut.stop - cut.start
        out: dict[str, Any] = {"posterior": np.empty((n, self._votes.n_labels))} if full or posterior else {}
        return {**out, "confidence": np.empty(n), "tie": np.empty(n, np.bool_)} if full else out

    def _expect(
        self,
        model: GladModel,
        ability: Floats,  # [workers]
        ease: Floats,  # [tasks of the cut]
        shard: GladShard,
        cut: slice,
        class_counts: Floats,  # OUT [K] added to
        gold: NDArray[np.int32] | None,  # [tasks of the shard]
        out: dict[str, Any],
    ) -> Sums:
        ptr, first = shard.task_ptr[cut.start : cut.stop + 1], shard.task_ptr[0]
        labels, right = shard.labels[cut], shard.right[ptr[0] - first : ptr[-1] - first]
        given = None if gold is None else gold[cut]
        if given is not None:
            np.copyto(labels, given, where=given >= 0)
        sums: Sums = self._rules.kernels.glad_expect(
            ptr,
            shard.row,
            self._row_worker,
            self._votes.row_label,
            ability,
            ease,
            model.log_prior,
            model.log_others,
            shard.task_key[cut],
            self._rules.label_hash,
            by_prior=self._rules.by_prior,
            checked=True,
            threads=self._rules.threads,
            labels=labels,
            right=right,
            class_counts=class_counts,
            **out,
        )
        if given is None:
            return sums
        changed = sums.changed - int(((labels != given) & (given >= 0)).sum())  # these get their given label below
        of_gold = self._fix(given, ptr, shard.row, labels, right, class_counts, **out)
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
        """Give gold tasks their label, and return the change of the log-likelihood: the sum of log p of the given labels."""
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
        where -= np.repeat(np.cumsum(lengths) - lengths, lengths)  # the indices of these tasks' votes
        right[where - ptr[0]] = self._votes.row_label[row[where]] == np.repeat(given, lengths)
        with np.errstate(divide="ignore"):
            return float(np.log(found[np.arange(len(given)), given]).sum())


class GladMemoryStore:
    """Votes in memory, with the probability that each is right."""

    def __init__(self, votes: Votes, task_key: NDArray[np.uint64], cuts: Sequence[slice]) -> None:
        self._votes = votes
        self._task_key = task_key
        self._cuts = cuts  # of tasks
        self._labels = np.zeros(votes.n_tasks, np.int32)
        self._right = np.empty(len(votes))

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are not yet written."""
        return np.empty(self._votes.n_workers + self._votes.n_tasks)

    def shards(self, what: str, use: Use) -> Iterator[GladShard]:
        """Yield all votes in order of their tasks."""
        for cut in self._cuts:
            ptr = self._votes.task_ptr[cut.start : cut.stop + 1]
            right = self._right[ptr[0] : ptr[-1]]
            yield GladShard(cut, ptr, self._votes.row, self._task_key[cut], self._labels[cut], right)

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return labels, confidence and tie, [tasks] each, from those of some tasks at a time."""
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

    def restore(self) -> None:
        """Return None: a fit in memory is not resumed."""

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Do nothing: a fit in memory is not resumed."""

    def clear(self) -> None:
        """Do nothing: a look needs the same arrays."""


Collect = Callable[[Iterator[tuple[NDArray[Any], ...]]], tuple[NDArray[Any], ...]]
MIN_SHARD_BYTES = 1 << 23  # smaller shards cost more time than they save memory
BYTES_PER_VOTE, BYTES_PER_TASK = 40, 90  # while passes run: two shards, and the results of one with its sums by worker


class GladDiskStore:
    """Votes on disk, with files for labels, the probability that each vote is right, and vectors."""

    def __init__(
        self,
        reader: ShardReader,
        folder: Path,  # of this fit
        *,
        collect: Collect,  # see GladStore.collected
        report: Report | None,
        n_labels: int,
        n_votes: int,
        length: int,  # workers + tasks
        resumable: bool,
        found: tuple[Checkpoint, int] | None,  # where this fit was interrupted, and the number of its vector
    ) -> None:
        self._reader, self._folder = reader, folder
        self._collect, self._report = collect, report
        self._n_votes, self._resumable = n_votes, resumable
        self._vectors = VectorFiles(folder, length)
        self._labels = LabelFile(folder / "glad-labels", n_labels)
        self._right = folder / "glad-right"
        self._interrupted = None if found is None else found[0]
        # The vector of the last checkpoint: its file must stay, so it is reopened before any other is made.
        self._stored = None if found is None else self._vectors.reopen(found[1])
        self._labelled = False
        for path in (self._labels.path, self._right):  # of an earlier run, which did not end its E-step
            with writing(path):
                path.unlink(missing_ok=True)

    def vector(self) -> Vector:
        """Return an uninitialised vector, [workers + tasks]."""
        return self._vectors.blank()

    def shards(self, what: str, use: Use) -> Iterator[GladShard]:
        """Yield all votes in order of their tasks; after an E-step over a shard, write its labels and `right` to their files.

        They overwrite the old ones: a fit that is interrupted here repeats its last E-step.
        """
        shards = self._reader.shards(
            self._labels if use == "expect" and self._labelled else None, self._right if use == "slope" else None, room=True
        )
        if use != "expect":
            for loaded in shards:
                yield _glad_shard(loaded)
                self._report_shard(what, loaded)
            return
        with writing(self._right), _over(self._labels.path) as labels, _over(self._right) as right:
            for loaded in shards:
                yield _glad_shard(loaded)
                self._labels.append(labels, loaded.labels)
                write_all(right, loaded.right.view("u1").data if len(loaded.right) else b"")
                self._report_shard(what, loaded)
        self._labelled = True

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Collect labels, confidence and tie of consecutive groups of tasks on disk, [tasks] each."""
        return self._collect(found)

    def figures(self, found: Iterator[Floats]) -> Iterator[Floats]:
        """Return figures of all tasks, [tasks, K], in chunks."""
        return found

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was interrupted, and its abilities then; None if it was not."""
        return None if self._interrupted is None or self._stored is None else (self._interrupted, self._stored)

    def checkpoint(self, point: Checkpoint, x: Vector) -> None:
        """Store a point to resume from."""
        if self._resumable and isinstance(x, FileVector):
            with writing(x.path):
                checkpoint.save(self._folder, checkpoint.StoredFit(point, None, x.number, x.crc32()), x.path)
            self._stored = x

    def clear(self) -> None:
        """Remove what only a fit in progress needs: the vectors that are not in use, and the files of E-steps."""
        self._vectors.clear()
        for path in (self._labels.path, self._right):
            path.unlink(missing_ok=True)
        self._labelled = False

    def _report_shard(self, what: str, loaded: LoadedShard) -> None:
        if self._report is not None:
            self._report(what, loaded.votes.stop, self._n_votes)


def _glad_shard(loaded: LoadedShard) -> GladShard:
    return GladShard(loaded.tasks, loaded.task_ptr, loaded.row, loaded.task_key, loaded.labels, loaded.right)


def _over(path: Path) -> BinaryIO:
    """Open a file to overwrite from its beginning, while a reader reads what is not yet overwritten."""
    path.touch()
    return path.open("r+b", buffering=0)
