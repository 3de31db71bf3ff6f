"""Partitions of votes in their final order, written to the files of a folder as shards with a checksum each."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Kind, Vocabulary
from adjudge.io.dictionary import Coded, Dictionary
from adjudge.io.encode import drop_duplicates
from adjudge.io.folder.arrays import ArrayFile
from adjudge.io.folder.spill import Codes, Rows, group, hash_ids, rank_of
from adjudge.io.ids import narrowed
from adjudge.io.suspicious import repeats_in

VALUES: Final = {"string": np.uint8, "integer": np.int64, "boolean": np.bool_}  # type of a vocabulary's values, by kind


class Arranged(NamedTuple):
    """The tasks of a partition in their final order, and the tasks without votes."""

    task_ptr: NDArray[np.int64]  # [tasks + 1]
    row: NDArray[np.uint32]  # [votes]
    task_hash: NDArray[np.uint64]  # [tasks]
    tasks: Vocabulary
    unvoted: Vocabulary
    repeated: int  # votes beyond the first of a worker on a task, counted or dropped


def arrange(votes: Iterable[pl.DataFrame], rows: Rows, *, duplicates: str, narrow: bool) -> Arranged:
    """Return the votes of a partition (frames of task and row code, in input order) in their final order."""
    task, row, ids = _encoded(votes, rows.final_row)
    if narrow:
        ids = narrowed(ids)
    worker, repeated = np.repeat(np.arange(len(rows.workers), dtype=np.uint32), np.diff(rows.worker_ptr)), 0
    if duplicates != "all":
        by = np.append(worker, np.uint32(0))[np.minimum(row, len(worker))]  # of abstentions any worker
        coded = Coded({"task": task, "worker": by, "label": row}, {"task": ids, "worker": rows.workers})
        repeated = drop_duplicates(coded, duplicates)
    order, hashes = by_hash(ids)
    task_ptr, row = group(rank_of(order)[task], row, len(ids))
    repeated = repeated or repeats_in(task_ptr, row, worker)
    voted = task_ptr[1:] > task_ptr[:-1]
    if voted.all():
        return Arranged(task_ptr, row, hashes, ids.take(order), ids.take(order[:0]), repeated)
    task_ptr = np.concatenate([task_ptr[:-1][voted], task_ptr[-1:]])
    return Arranged(task_ptr, row, hashes[voted], ids.take(order[voted]), ids.take(order[~voted]), repeated)


def by_hash(ids: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return (the codes in the order of their hashes, equal hashes in the order of their texts; the hashes in this order)."""
    hashes = hash_ids(ids)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # with a probability of 2^-64 per pair
        texts, listed = ids.texts(), hashes.tolist()
        order = np.array(sorted(range(len(texts)), key=lambda code: (listed[code], texts[code])), np.int64)
    return order, ordered


def _encoded(votes: Iterable[pl.DataFrame], final_row: Codes) -> tuple[Codes, Codes, Vocabulary]:
    """Return (the task of each vote, its final row, the tasks in order of first appearance)."""
    running, task, row = Dictionary("task"), [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for frame in votes:
        task.append(running.encode(frame["task"]))
        row.append(final_row[np.minimum(frame["row"].to_numpy(), len(final_row) - 1)])
    return np.concatenate(task), np.concatenate(row), running.vocabulary()


@dataclass
class Span:
    """The size of a shard, and the CRC-32 of its range of each file."""

    tasks: int = 0
    votes: int = 0
    text: int = 0  # bytes of the tasks' ids, where these are texts
    crc32: dict[str, int] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        """Return the fields, copied: a tenth of the time of `asdict`, and asked for every shard after every partition."""
        return vars(self) | {"crc32": dict(self.crc32)}


def sharded_files(kind: Kind) -> dict[str, Any]:
    """Return the files that are cut into shards, with the types of their items; only texts have offsets."""
    files: dict[str, Any] = {"task_ptr": np.int64, "row": np.uint32, "task_hash": np.uint64, "tasks": VALUES[kind]}
    return files | ({"tasks_offsets": np.int64} if kind == "string" else {})


class FilesWriter:
    """Appends to several array files; `lengths` has the items of files of an earlier run."""

    def __init__(self, folder: Path, types: dict[str, Any], lengths: dict[str, int]) -> None:
        self._files = {name: ArrayFile(folder / f"{name}.npy", dtype, lengths.get(name, 0)) for name, dtype in types.items()}
        self.crc32: dict[str, int] = {}  # of whole files, where they have no shards

    def lengths(self) -> dict[str, int]:
        """Return the number of items of each file."""
        return {name: file.length for name, file in self._files.items()}

    def entries(self) -> dict[str, dict[str, Any]]:
        """Close the files, and return their entries in the manifest."""
        for file in self._files.values():
            file.close()
        return {name: entry_of(file, self.crc32.get(name)) for name, file in self._files.items()}

    def abandon(self) -> None:
        """Close the files as they are."""
        for file in self._files.values():
            file.abandon()


class VocabularyWriter(FilesWriter):
    """Appends ids to files, whose checksums cover whole files."""

    def __init__(self, folder: Path, name: str, kind: Kind, state: dict[str, Any] | None = None) -> None:
        types: dict[str, Any] = {name: VALUES[kind]} | ({f"{name}_offsets": np.int64} if kind == "string" else {})
        super().__init__(folder, types, state["lengths"] if state else {})
        self._name = name
        self.crc32 = dict.fromkeys(types, 0) | (state["crc32"] if state else {})
        if not state and kind == "string":
            self._append(f"{name}_offsets", np.zeros(1, np.int64))

    def state(self) -> dict[str, Any]:
        """Return the state to resume from."""
        return {"crc32": dict(self.crc32), "lengths": self.lengths()}

    def add(self, ids: Vocabulary) -> None:
        """Take more ids."""
        if ids.kind == "string":
            self._append(f"{self._name}_offsets", ids.offsets[1:] - ids.offsets[0] + self._files[self._name].length)
        self._append(self._name, ids.values)

    def _append(self, name: str, items: NDArray[Any]) -> None:
        self.crc32[name] = zlib.crc32(self._files[name].append(items), self.crc32[name])


def entry_of(file: ArrayFile, crc32: int | None = None) -> dict[str, Any]:
    """Return the entry of a file in the manifest."""
    return {"dtype": file.dtype.str, "length": file.length} | ({} if crc32 is None else {"crc32": crc32})


def write_ids(folder: Path, name: str, ids: Vocabulary) -> dict[str, dict[str, Any]]:
    """Write ids, and return the entries of their files in the manifest."""
    writer = VocabularyWriter(folder, name, ids.kind)
    writer.add(ids)
    return writer.entries()


def write_items(folder: Path, name: str, items: NDArray[Any]) -> dict[str, dict[str, Any]]:
    """Write an array, and return the entry of its file in the manifest."""
    with ArrayFile(folder / f"{name}.npy", items.dtype) as file:
        crc32 = zlib.crc32(file.append(items))
    return {name: entry_of(file, crc32)}


class ShardWriter(FilesWriter):
    """Appends tasks in their final order to files that are cut into shards."""

    def __init__(self, folder: Path, kind: Kind, shard_votes: int, state: dict[str, Any] | None = None) -> None:
        super().__init__(folder, sharded_files(kind), state["lengths"] if state else {})
        self._shard_votes = shard_votes
        self.shards = [Span(**span) for span in state["shards"]] if state else []
        self.votes = sum(span.votes for span in self.shards)
        self._text = sum(span.text for span in self.shards)
        if not state:  # the first position is 0
            for name in self._files.keys() & {"task_ptr", "tasks_offsets"}:
                self._files[name].append(np.zeros(1, np.int64))

    def state(self) -> dict[str, Any]:
        """Return the state to resume from."""
        return {"shards": [span.state() for span in self.shards], "lengths": self.lengths()}

    def add(
        self,
        task_ptr: NDArray[np.int64],  # [tasks + 1] positions in `row`
        row: NDArray[np.uint32],
        task_hash: NDArray[np.uint64],  # [tasks]
        tasks: Vocabulary,
    ) -> None:
        """Append tasks with their votes. Shards are filled completely, however many tasks come at a time."""
        start, n = 0, len(tasks)
        while start < n:
            if not self.shards or self._room() <= 0:
                self.shards.append(Span())
            end = int(np.searchsorted(task_ptr, task_ptr[start] + self._room(), side="right")) - 1
            if end <= start and self.shards[-1].tasks:  # the next task does not fit
                self.shards.append(Span())
                continue
            end = max(end, start + 1)  # a task is never split, however large
            self._put(task_ptr[start : end + 1], row[task_ptr[start] : task_ptr[end]], task_hash[start:end], tasks, start, end)
            start = end

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
