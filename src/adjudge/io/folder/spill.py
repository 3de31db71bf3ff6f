"""Code votes batch by batch, and spill them to partitions by the hash of their task.

All votes of a task are in one partition. Partition p of 2^bits has the hashes whose first `bits` bits are p. Its file is a
sequence of Arrow streams, each after its length (8 bytes), in the order of the input.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.bounds import require_below
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import MOST_WEIGHT
from adjudge.errors import InputError, shown, undeclared
from adjudge.io.dictionary import KINDS, MISSING, Dictionary
from adjudge.io.folder.arrays import write_all
from adjudge.io.ids import narrowed, sort_order, vocabulary
from adjudge.io.weights import ONE, weight_units, weights_of
from adjudge.kernels.cpu import compiled, fastest

Codes = NDArray[np.uint32]
MAX_STREAM_VOTES = 1 << 16  # per Arrow stream, the unit in which a partition is read
MAX_HELD_VOTES = 1 << 20  # while a partition is split
CHUNK = 1 << 20  # bytes checked at once


class Rows(NamedTuple):
    """The final panel, and the final row of each row code."""

    worker_ptr: NDArray[np.int64]  # [workers + 1]
    row_label: NDArray[np.int32]  # [rows]
    workers: Vocabulary
    labels: Vocabulary
    final_row: Codes  # [rows seen + 1] of each code; the last is that of MISSING
    abstained: NDArray[np.int64]  # [workers] abstentions of each
    row_weight: NDArray[np.float64] | None = None  # [rows] where votes have weights


class RunningRows:
    """Workers, labels and rows seen so far. A vote is the code of its row; one without label is MISSING."""

    def __init__(self, declared: Vocabulary | None) -> None:
        self.workers = Dictionary("worker")
        self.labels = Dictionary("label")
        self.rows = Dictionary("row")  # worker code * 2^32 + label code
        self.declared = declared
        self.abstained = np.zeros(0, np.int64)  # [workers so far] abstentions of each, by code; or fewer

    def dictionaries(self) -> dict[str, Dictionary]:
        """Return what must be stored to continue later, by name."""
        return {"workers": self.workers, "labels": self.labels, "rows": self.rows}

    def encode(self, worker: pl.Series, label: pl.Series, first_row: int, weight: pl.Series | None = None) -> Codes:
        """Return the code of every vote's row, [votes]."""
        by_worker = self.workers.encode(worker)
        before = len(self.labels)
        by_label = self.labels.encode(label)
        if self.declared is not None and len(self.labels) > before:
            self._require_declared(by_label, before, first_row)
        given = self._given(by_label, label, weight, first_row)
        missing = given == MISSING
        if missing.any():
            self.abstain(by_worker[missing])
        return coded_pairs(self.rows, by_worker, given)

    def _given(self, by_label: Codes, label: pl.Series, weight: pl.Series | None, first_row: int) -> Codes:
        """Return the code of what each vote gives, [votes], MISSING for an abstention: that of its label."""
        return by_label

    def abstain(self, worker: NDArray[np.integer]) -> None:
        """Count abstentions of these workers, [abstentions] codes."""
        now = np.bincount(worker, minlength=len(self.workers))
        now[: len(self.abstained)] += self.abstained
        self.abstained = now

    def check(self) -> None:
        """Raise unless the rows that were read back refer to workers and labels that were, too."""
        check_pairs(self.rows, ("the worker of a row", len(self.workers)), ("the label of a row", len(self.labels)))

    def _labels_of(self, given: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Return the code of the label of each row, [rows], and the units of its weight, where votes have weights."""
        return given, None

    def finish(self, *, narrow: bool) -> Rows:
        """Return the rows in their final order: by worker, then label, each in the order of its ids; then by weight."""
        workers, labels = self.workers.vocabulary(), self.labels.vocabulary()
        if narrow:
            workers, labels = narrowed(workers), narrowed(labels)
        pair = self.rows.ids().cast(pl.Int64).to_numpy()
        by_label, units = self._labels_of(pair & 0xFFFFFFFF)
        worker_order = sort_order(workers)
        worker = rank_of(worker_order)[pair >> 32].astype(np.int64)
        if self.declared is None:
            label_order = sort_order(labels)
            labels, label_rank = labels.take(label_order), rank_of(label_order)
        else:
            label_rank = self.declared.codes(labels.ids()).astype(np.uint32)
            labels = self.declared
        label = label_rank[by_label].astype(np.int64)
        order = np.lexsort((label, worker) if units is None else (units, label, worker))
        final_row = np.full(len(pair) + 1, MISSING)
        final_row[order] = np.arange(len(order), dtype=np.uint32)
        voted, sizes = np.unique(worker, return_counts=True)  # a worker may have abstentions only
        abstained = np.zeros(len(worker_order), np.int64)
        abstained[: len(self.abstained)] = self.abstained
        return Rows(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
            label[order].astype(np.int32),
            workers.take(worker_order[voted]),
            labels,
            final_row,
            abstained[worker_order[voted]],
            None if units is None else weights_of(units[order]),
        )

    def _require_declared(self, codes: Codes, before: int, first_row: int) -> None:
        declared = self.declared
        assert declared is not None
        fresh = self.labels.ids(before).to_list()
        strange = np.flatnonzero(declared.codes(fresh) < 0)
        if len(strange):
            row = first_row + int(np.argmax(codes == before + strange[0])) + 1
            value = fresh[int(strange[0])]
            raise undeclared(value, declared.ids(), f" in row {row}")


class WeightedRows(RunningRows):
    """Workers, labels, weights and rows seen so far: a row is a worker with a *cell*, a label with a weight."""

    def __init__(self, declared: Vocabulary | None) -> None:
        super().__init__(declared)
        self.weights = Dictionary("weight")  # in units, see adjudge.io.weights
        self.cells = Dictionary("cell")  # label code * 2^32 + weight code

    def dictionaries(self) -> dict[str, Dictionary]:
        """Return what must be stored to continue later, by name."""
        return {**super().dictionaries(), "weights": self.weights, "cells": self.cells}

    def _given(self, by_label: Codes, label: pl.Series, weight: pl.Series | None, first_row: int) -> Codes:
        assert weight is not None
        units = weight_units(weight, label, first_row)
        return coded_pairs(self.cells, np.where(units > 0, by_label, MISSING), self.weights.encode(pl.Series(units)))

    def check(self) -> None:
        """Raise unless the rows that were read back refer to workers, labels and weights that were, too."""
        check_pairs(self.rows, ("the worker of a row", len(self.workers)), ("the cell of a row", len(self.cells)))
        check_pairs(self.cells, ("the label of a row", len(self.labels)), ("the weight of a row", len(self.weights)))
        units = self.weights.ids()
        if len(units) and (units.dtype != pl.Int64 or not units.is_between(0, ONE * int(MOST_WEIGHT)).all()):
            raise InputError("the weights that were stored are not valid: start again without resume")

    def _labels_of(self, given: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        cell = self.cells.ids().cast(pl.Int64).to_numpy()[given]
        units = self.weights.ids().cast(pl.Int64).to_numpy()[cell & 0xFFFFFFFF]
        return cell >> 32, None if (units == ONE).all() else units


def coded_pairs(pairs: Dictionary, first: Codes, second: Codes) -> Codes:
    """Return the code of each pair of codes, [n]; MISSING where one of both is."""
    pair = pl.Series((first.astype(np.int64) << 32) | second)
    missing = (first == MISSING) | (second == MISSING)
    return pairs.encode(pair.set(pl.Series(missing), None) if missing.any() else pair)


def check_pairs(pairs: Dictionary, *bounds: tuple[str, int]) -> None:
    """Raise unless the codes of both parts of every pair are below their bounds, which are given with their names."""
    if not len(pairs):
        return
    ids = pairs.ids()
    pair = ids.to_numpy() if ids.dtype == pl.Int64 else np.full(1, -1)
    for (name, bound), part in zip(bounds, (pair >> 32, pair & 0xFFFFFFFF), strict=True):
        require_below(name, part, bound)


def distinct(pieces: Iterable[pl.Series], role: str) -> tuple[Codes, Vocabulary]:
    """Return the code of every id of a column in chunks, and the distinct ids."""
    running = Dictionary(role)
    codes = [running.encode(piece) for piece in pieces]
    return np.concatenate([np.zeros(0, np.uint32), *codes]), running.vocabulary()


def group(task: Codes, row: Codes, n_tasks: int) -> tuple[NDArray[np.int64], Codes]:
    """Return (task_ptr [tasks + 1], row [votes]) sorted by task and row; votes whose row is MISSING are left out."""
    core: Any = compiled()
    if core is not None:
        task_ptr, votes = core.group_by_task(task, row, n_tasks, os.cpu_count() or 1)
        return task_ptr, row[:votes]
    given = row != MISSING
    task, row = task[given], row[given]
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    return task_ptr, row[np.lexsort((row, task))]


def rank_of(order: NDArray[np.integer]) -> Codes:
    """Return the rank of each code in this order, [n]."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank


def hash_ids(ids: Vocabulary) -> NDArray[np.uint64]:
    """Return the hash of every id's text, [n], which decides its partition, its position there, and ties."""
    kernels: ModuleType = fastest()
    if ids.kind == "integer":
        return kernels.hash_integers(ids.values)  # type: ignore[no-any-return]
    return kernels.hash_texts(*ids.text_buffers())  # type: ignore[no-any-return]


class Spill:
    """Votes of partitions, held in memory and written to files in larger chunks."""

    def __init__(self, folder: Path, bits: int, skip: int = 0) -> None:
        self.folder = folder
        self.bits = bits
        self.votes = np.zeros(1 << bits, np.int64)  # [partitions] votes written
        self.sizes = np.zeros(1 << bits, np.int64)  # [partitions] bytes written
        self.sums = np.zeros(1 << bits, np.int64)  # [partitions] their CRC-32
        self.waiting = 0  # votes in memory
        self.skip = skip  # leading bits, which all hashes here share
        self._held: list[tuple[pl.DataFrame, NDArray[np.int64]]] = []
        folder.mkdir(exist_ok=True)

    def add(self, task: pl.Series, row: NDArray[np.uint32], hashes: NDArray[np.uint64]) -> None:
        """Take votes, [n] each, in their order."""
        part = _leading(hashes, self.skip, self.bits)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=1 << self.bits))
        self._held.append((pl.DataFrame({"task": task, "row": row})[order], ends))
        self.waiting += len(task)

    def flush(self) -> None:
        """Write what is in memory."""
        for part in range(1 << self.bits):
            frames = [frame[0 if not part else int(ends[part - 1]) : int(ends[part])] for frame, ends in self._held]
            frames = [frame for frame in frames if len(frame)]
            if frames:
                self._write(part, pl.concat(frames))
        self._held, self.waiting = [], 0

    def restore(self, votes: list[int], sizes: list[int], sums: list[int], first: int) -> None:
        """Restore the partitions of an earlier run, from `first` on, to these sizes.

        What was written later is cut off; raise if a file is damaged.
        """
        self.votes[:], self.sizes[:], self.sums[:] = votes, sizes, sums
        for part in range(first, len(sizes)):
            cut_to(self.path(part), sizes[part], sums[part])

    def path(self, part: int) -> Path:
        """Return the file of a partition."""
        return self.folder / f"{part:05d}.spill"

    def read(self, part: int) -> Iterator[pl.DataFrame]:
        """Yield the votes of a partition in order, in chunks."""
        return read_streams(self.path(part), "task", "row") if self.votes[part] else iter(())

    def remove(self, part: int) -> None:
        """Remove the file of a partition."""
        self.path(part).unlink(missing_ok=True)

    def _write(self, part: int, frame: pl.DataFrame) -> None:
        size, self.sums[part] = append_streams(self.path(part), frame, int(self.sums[part]))
        self.sizes[part] += size
        self.votes[part] += len(frame)


def split(spill: Spill, part: int, bits: int) -> Spill | None:
    """Split a partition by the next bits of the hashes, and return the new spill; None where there is only one hash."""
    if _has_one_hash(spill, part):
        return None
    skip = spill.skip + spill.bits
    finer = Spill(spill.folder / f"{part:05d}", min(bits, 64 - skip), skip)
    for frame in spill.read(part):
        finer.add(frame["task"], frame["row"].to_numpy(), hash_ids(vocabulary(frame["task"])))
        if finer.waiting >= MAX_HELD_VOTES:
            finer.flush()
    finer.flush()
    return finer


def _has_one_hash(spill: Spill, part: int) -> bool:
    seen: set[int] = set()
    for frame in spill.read(part):
        seen.update(np.unique(hash_ids(vocabulary(frame["task"])))[:2].tolist())
        if len(seen) > 1:
            return False
    return True


def append_streams(path: Path, frame: pl.DataFrame, crc32: int = 0) -> tuple[int, int]:
    """Append a frame to a file, and return the bytes written and the CRC-32 of the file."""
    size = 0
    with path.open("ab", buffering=0) as file:
        for some in frame.iter_slices(MAX_STREAM_VOTES):
            packed = io.BytesIO()
            some.rechunk().write_ipc_stream(packed, compression="lz4", compat_level=pl.CompatLevel.oldest())
            data = packed.getbuffer()
            for block in (len(data).to_bytes(8, "little"), data):
                write_all(file, block)
                crc32 = zlib.crc32(block, crc32)
                size += len(block)
    return size, crc32


def read_streams(path: Path, ids: str, *others: str) -> Iterator[pl.DataFrame]:
    """Yield the frames of a file as they were written: a column of ids, and others of codes."""
    types = dict.fromkeys(others, pl.UInt32)
    try:
        with path.open("rb") as file:
            while length := file.read(8):
                frame = pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "little"))))
                kind = frame.schema.get(ids)
                if kind not in KINDS or frame.schema != {ids: kind, **types}:
                    raise InputError(f"{path} has unexpected columns: start again without resume")
                yield frame
    except (OSError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot read back {path}: {shown(error)}; start again without resume") from error


def cut_to(path: Path, size: int, crc32: int) -> None:
    """Truncate a file to the size it had; raise if it is shorter or has another checksum."""
    have = path.stat().st_size if path.exists() else 0
    if have < size:
        raise InputError(f"{path} is shorter than before: it cannot be resumed, start again without resume")
    if not size:
        path.unlink(missing_ok=True)
        return
    with path.open("r+b") as file:
        file.truncate(size)
        found = 0
        while data := file.read(CHUNK):
            found = zlib.crc32(data, found)
    if found != crc32:
        raise InputError(f"{path} is damaged (its checksum does not match): start again without resume")


def _leading(hashes: NDArray[np.uint64], skip: int, bits: int) -> NDArray[np.uint16]:
    """Return the `bits` bits after the first `skip` bits as a number, [n]."""
    if not bits:
        return np.zeros(len(hashes), np.uint16)
    return ((hashes << np.uint64(skip)) >> np.uint64(64 - bits)).astype(np.uint16)
