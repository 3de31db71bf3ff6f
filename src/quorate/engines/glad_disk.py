"""GLAD out of core: votes, and all that is as long as they are or as the tasks, lie in files that passes read in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from quorate.data.vectors import Vector
from quorate.engines import checkpoint
from quorate.engines.base import Checkpoint, Report
from quorate.engines.glad import Floats, Part, Use
from quorate.engines.stream import LabelFile, Loaded, Stream
from quorate.engines.vector_files import FileVector, VectorFiles
from quorate.io.folder.arrays import write_all, writing

Collect = Callable[[Iterator[tuple[NDArray[Any], ...]]], tuple[NDArray[Any], ...]]
LEAST_ROOM = 1 << 23  # bytes: smaller shards would cost more time than they spare memory
PER_VOTE, PER_TASK = 40, 90  # bytes while passes run: two shards and what is found of one, sums by worker among it


@dataclass(frozen=True, eq=False)
class Lent:
    """What a session on disk lends to GLAD."""

    stream: Stream
    folder: Path  # of this fit
    collected: Collect  # see Shelf
    report: Report | None
    n_labels: int
    n_votes: int
    length: int  # workers + tasks
    notes: bool  # whether the fit can be resumed
    found: tuple[Checkpoint, int] | None  # where it was broken off, and which vector it had then


class DiskShelf:
    """Votes on disk; beside them a file of labels, one of how likely each vote is right, and vectors."""

    def __init__(self, lent: Lent) -> None:
        self._lent = lent
        self._vectors = VectorFiles(lent.folder, lent.length)
        self._labels = LabelFile(lent.folder / "glad-labels", lent.n_labels)
        self._right = lent.folder / "glad-right"
        # What was noted last must stay: it is taken up before any other vector.
        self._noted = None if lent.found is None else self._vectors.again(lent.found[1])
        self._labelled = False
        for path in (self._labels.path, self._right):  # of an earlier run, which did not end its E-step
            with writing(path):
                path.unlink(missing_ok=True)

    def vector(self) -> Vector:
        """Return a vector, [workers + tasks], whose numbers are yet to be written."""
        return self._vectors.blank()

    def parts(self, what: str, use: Use) -> Iterator[Part]:
        """Yield all votes in order of their tasks; labels and `right` of an E-step go to their files behind them.

        They overwrite the old ones: a fit that is broken off here does its last E-step again.
        """
        shards = self._lent.stream.shards(
            self._labels if use == "expect" and self._labelled else None, self._right if use == "slope" else None, room=True
        )
        if use != "expect":
            for loaded in shards:
                yield _part(loaded)
                self._tell(what, loaded)
            return
        with writing(self._right), _over(self._labels.path) as labels, _over(self._right) as right:
            for loaded in shards:
                yield _part(loaded)
                self._labels.append(labels, loaded.labels)
                write_all(right, loaded.right.view("u1").data if len(loaded.right) else b"")
                self._tell(what, loaded)
        self._labelled = True

    def collected(self, found: Iterator[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
        """Return labels, confidence and tie, [tasks] each, on disk, of what is found of some tasks after the other."""
        return self._lent.collected(found)

    def figures(self, found: Iterator[Floats]) -> Iterator[Floats]:
        """Return figures of all tasks, [tasks, K], piece by piece."""
        return found

    def resume(self) -> tuple[Checkpoint, Vector] | None:
        """Return where this fit was broken off, and the abilities it had then; None where it was not."""
        found = self._lent.found
        return None if found is None or self._noted is None else (found[0], self._noted)

    def note(self, point: Checkpoint, x: Vector) -> None:
        """Keep a point to go on from."""
        if self._lent.notes and isinstance(x, FileVector):
            with writing(x.path):
                checkpoint.save(self._lent.folder, checkpoint.Stored(point, None, x.number, x.crc32()), x.path)
            self._noted = x

    def clear(self) -> None:
        """Let go of what only a fit needs that goes on: all vectors but those in use, and what E-steps have left."""
        self._vectors.clear()
        for path in (self._labels.path, self._right):
            path.unlink(missing_ok=True)
        self._labelled = False

    def _tell(self, what: str, loaded: Loaded) -> None:
        if self._lent.report is not None:
            self._lent.report(what, loaded.votes.stop, self._lent.n_votes)


def _part(loaded: Loaded) -> Part:
    return Part(loaded.tasks, loaded.task_ptr, loaded.row, loaded.task_key, loaded.labels, loaded.right)


def _over(path: Path) -> BinaryIO:
    """Return a file to be written over from its beginning, as others may read what is not yet."""
    path.touch()
    return path.open("r+b", buffering=0)
