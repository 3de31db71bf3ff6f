"""GLAD out of core: arrays of the length of votes or tasks are stored in files, which passes read in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from adjudge.data.vectors import Vector
from adjudge.engines import checkpoint
from adjudge.engines.base import Checkpoint, Report
from adjudge.engines.glad import Floats, GladShard, Use
from adjudge.engines.shard_reader import LabelFile, LoadedShard, ShardReader
from adjudge.engines.vector_files import FileVector, VectorFiles
from adjudge.io.folder.arrays import write_all, writing

Collect = Callable[[Iterator[tuple[NDArray[Any], ...]]], tuple[NDArray[Any], ...]]
MIN_SHARD_BYTES = 1 << 23  # smaller shards cost more time than they save memory
BYTES_PER_VOTE, BYTES_PER_TASK = 40, 90  # while passes run: two shards, and the results of one with its sums by worker


class GladDiskStore:
    """Votes on disk. Files beside them hold labels, the probability that each vote is right, and vectors."""

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
        """Return labels, confidence and tie, [tasks] each, on disk, of what is found of some tasks after the other."""
        return self._collect(found)

    def figures(self, found: Iterator[Floats]) -> Iterator[Floats]:
        """Return figures of all tasks, [tasks, K], in chunks."""
        return found

    def restore(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was interrupted, and its abilities then; None where it was not."""
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
