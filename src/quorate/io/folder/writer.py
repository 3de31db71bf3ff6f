"""Partitions of votes in their final order, written to the files of a folder as shards with a checksum each."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.vocabulary import Kind, Vocabulary
from quorate.io.dictionary import Coded
from quorate.io.encode import drop_duplicates
from quorate.io.folder.arrays import ArrayFile
from quorate.io.folder.spill import Codes, Rows, RunningCodes, group, hash_ids
from quorate.io.ids import narrowed

VALUES: Final = {"string": np.uint8, "integer": np.int64, "boolean": np.bool_}  # what a vocabulary's values are, by kind


class Arranged(NamedTuple):
    """The tasks of a partition in their final order, and those that nobody voted on."""

    task_ptr: NDArray[np.int64]  # [tasks + 1]
    row: NDArray[np.uint32]  # [votes]
    task_hash: NDArray[np.uint64]  # [tasks]
    tasks: Vocabulary
    unvoted: Vocabulary


def arrange(votes: Iterable[pl.DataFrame], rows: Rows, *, duplicates: str, narrow: bool) -> Arranged:
    """Return the votes of a partition (frames of task and row code, in input order) in their final order."""
    task, row, ids = _encoded(votes, rows.place)
    if narrow:
        ids = narrowed(ids)
    if duplicates != "all":
        worker = np.repeat(np.arange(len(rows.workers), dtype=np.uint32), np.diff(rows.worker_ptr))
        by = np.append(worker, np.uint32(0))[np.minimum(row, len(worker))]  # whoever abstains does not matter
        drop_duplicates(Coded({"task": task, "worker": by, "label": row}, {"task": ids, "worker": rows.workers}), duplicates)
    order, hashes = by_hash(ids)
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    task_ptr, row = group(rank[task], row, len(ids))
    voted = task_ptr[1:] > task_ptr[:-1]
    if voted.all():
        return Arranged(task_ptr, row, hashes, ids.take(order), ids.take(order[:0]))
    task_ptr = np.concatenate([task_ptr[:-1][voted], task_ptr[-1:]])
    return Arranged(task_ptr, row, hashes[voted], ids.take(order[voted]), ids.take(order[~voted]))


def by_hash(ids: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return (the codes in the order of their hashes, equal hashes in the order of their texts; the hashes in this order)."""
    hashes = hash_ids(ids)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # next to never: one pair in 2^64
        texts, listed = ids.texts(), hashes.tolist()
        order = np.array(sorted(range(len(texts)), key=lambda code: (listed[code], texts[code])), np.int64)
    return order, ordered


def _encoded(votes: Iterable[pl.DataFrame], place: Codes) -> tuple[Codes, Codes, Vocabulary]:
    """Return (the task of each vote, its final row, the tasks in order of first appearance)."""
    running, task, row = RunningCodes("task"), [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for frame in votes:
        task.append(running.encode(frame["task"]))
        row.append(place[np.minimum(frame["row"].to_numpy(), len(place) - 1)])
    return np.concatenate(task), np.concatenate(row), running.vocabulary()


@dataclass
class Span:
    """A shard: so many tasks and votes behind those of the shards before, and the CRC-32 of each file's part."""

    tasks: int = 0
    votes: int = 0
    text: int = 0  # bytes of the tasks' ids, where these are texts
    crc32: dict[str, int] = field(default_factory=dict)


def sharded_files(kind: Kind) -> dict[str, Any]:
    """Return the files that shards share, with the type of their items; there is an offset per task for texts alone."""
    files: dict[str, Any] = {"task_ptr": np.int64, "row": np.uint32, "task_hash": np.uint64, "tasks": VALUES[kind]}
    return files | ({"tasks_offsets": np.int64} if kind == "string" else {})


class VocabularyWriter:
    """Takes ids, some at a time, and puts them behind those before; the checksums are those of whole files."""

    def __init__(self, folder: Path, name: str, kind: Kind, state: dict[str, Any] | None = None) -> None:
        self._name = name
        self.crc32: dict[str, int] = dict(state["crc32"]) if state else {}
        lengths = state["lengths"] if state else {}
        types: dict[str, Any] = {name: VALUES[kind]} | ({f"{name}_offsets": np.int64} if kind == "string" else {})
        self._files = {n: ArrayFile(folder / f"{n}.npy", dtype, lengths.get(n, 0)) for n, dtype in types.items()}
        if not state and kind == "string":
            self._append(f"{name}_offsets", np.zeros(1, np.int64))

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later from here."""
        return {"crc32": dict(self.crc32), "lengths": {name: file.length for name, file in self._files.items()}}

    def add(self, ids: Vocabulary) -> None:
        """Take more ids."""
        if ids.kind == "string":
            self._append(f"{self._name}_offsets", ids.offsets[1:] - ids.offsets[0] + self._files[self._name].length)
        self._append(self._name, ids.values)

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what the manifest says of the files, which are complete now."""
        for file in self._files.values():
            file.close()
        return {name: entry_of(file, self.crc32.get(name, 0)) for name, file in self._files.items()}

    def abandon(self) -> None:
        """Leave the files as they are."""
        for file in self._files.values():
            file.abandon()

    def _append(self, name: str, items: NDArray[Any]) -> None:
        self.crc32[name] = zlib.crc32(self._files[name].append(items), self.crc32.get(name, 0))


def entry_of(file: ArrayFile, crc32: int | None = None) -> dict[str, Any]:
    """Return what the manifest says of a file."""
    return {"dtype": file.dtype.str, "length": file.length} | ({} if crc32 is None else {"crc32": crc32})


def write_ids(folder: Path, name: str, ids: Vocabulary) -> dict[str, dict[str, Any]]:
    """Return what the manifest says of the files of these ids, written here."""
    writer = VocabularyWriter(folder, name, ids.kind)
    writer.add(ids)
    return writer.entries()


def write_items(folder: Path, name: str, items: NDArray[Any]) -> dict[str, dict[str, Any]]:
    """Return what the manifest says of the file of this array, written here."""
    with ArrayFile(folder / f"{name}.npy", items.dtype) as file:
        crc32 = zlib.crc32(file.append(items))
    return {name: entry_of(file, crc32)}


class ShardWriter:
    """Takes tasks in their final order, some at a time, and puts them behind those before."""

    def __init__(self, folder: Path, kind: Kind, shard_votes: int, state: dict[str, Any] | None = None) -> None:
        self._shard_votes = shard_votes
        self.shards = [Span(**span) for span in state["shards"]] if state else []
        lengths = state["lengths"] if state else {}
        self._files = {
            name: ArrayFile(folder / f"{name}.npy", dtype, lengths.get(name, 0)) for name, dtype in sharded_files(kind).items()
        }
        self.votes = sum(span.votes for span in self.shards)
        self._text = sum(span.text for span in self.shards)
        if not state:  # the positions begin with 0
            for name in self._files.keys() & {"task_ptr", "tasks_offsets"}:
                self._files[name].append(np.zeros(1, np.int64))

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later from here."""
        return {
            "shards": [asdict(span) for span in self.shards],
            "lengths": {name: file.length for name, file in self._files.items()},
        }

    def add(
        self,
        task_ptr: NDArray[np.int64],  # [tasks + 1] positions in `row`
        row: NDArray[np.uint32],
        task_hash: NDArray[np.uint64],  # [tasks]
        tasks: Vocabulary,
    ) -> None:
        """Take tasks with their votes. Shards are filled to the brim, whatever the portions that tasks come in."""
        start, n = 0, len(tasks)
        while start < n:
            if not self.shards or self._room() <= 0:
                self.shards.append(Span())
            end = int(np.searchsorted(task_ptr, task_ptr[start] + self._room(), side="right")) - 1
            if end <= start and self.shards[-1].tasks:  # the next task does not fit any more
                self.shards.append(Span())
                continue
            end = max(end, start + 1)  # a task is never split, however large
            self._put(task_ptr[start : end + 1], row[task_ptr[start] : task_ptr[end]], task_hash[start:end], tasks, start, end)
            start = end

    def entries(self) -> dict[str, dict[str, Any]]:
        """Return what the manifest says of the files, which are complete now."""
        for file in self._files.values():
            file.close()
        return {name: entry_of(file) for name, file in self._files.items()}

    def abandon(self) -> None:
        """Leave the files as they are."""
        for file in self._files.values():
            file.abandon()

    def _room(self) -> int:
        return self._shard_votes - self.shards[-1].votes

    def _put(
        self,
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        task_hash: NDArray[np.uint64],
        tasks: Vocabulary,
        start: int,
        end: int,
    ) -> None:
        parts: dict[str, NDArray[Any]] = {"task_ptr": task_ptr[1:] - task_ptr[0] + self.votes, "row": row, "task_hash": task_hash}
        span = self.shards[-1]
        if tasks.kind == "string":
            offsets = tasks.offsets[start : end + 1]
            parts["tasks"] = tasks.values[offsets[0] : offsets[-1]]
            parts["tasks_offsets"] = offsets[1:] - offsets[0] + self._text
            span.text += len(parts["tasks"])
            self._text += len(parts["tasks"])
        else:
            parts["tasks"] = tasks.values[start:end]
        for name, items in parts.items():
            data = self._files[name].append(items)
            span.crc32[name] = zlib.crc32(data, span.crc32.get(name, 0))
        span.tasks += end - start
        span.votes += len(row)
        self.votes += len(row)
