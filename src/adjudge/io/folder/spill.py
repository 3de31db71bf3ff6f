"""Code votes batch by batch, spill them to partitions by the hash of their task, and sort a partition into its final order.

All votes of a task are in one partition. Partition p of 2^bits has the hashes whose first `bits` bits are p. Its file is a
sequence of Arrow streams, each after its length (8 bytes), in the order of the input.
"""

from __future__ import annotations

import io
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.data.vocabulary import Vocabulary, require_below
from adjudge.data.votes import MOST_WEIGHT
from adjudge.errors import InputError, label_error, quote
from adjudge.io import encode
from adjudge.io.encode import MISSING_CODE, Codes, Dictionary, encode_pairs, hash_ids, narrow_ids, rank_of, sort_order
from adjudge.io.frames import vocabulary
from adjudge.io.read import count_repeats
from adjudge.kernels.cpu import compiled

MAX_STREAM_VOTES = 1 << 16  # per Arrow stream, the unit in which a partition is read
MAX_HELD_VOTES = 1 << 20  # while a partition is split
SPLIT_BITS = 6  # a partition that is too large is split into 64
SPILL_CRC_CHUNK_BYTES = 1 << 20  # bytes checked at once


class FinalRows(NamedTuple):
    """The final panel, and the final row of each row code."""

    worker_ptr: NDArray[np.int64]  # [workers + 1]
    row_label: NDArray[np.int32]  # [rows]
    workers: Vocabulary
    labels: Vocabulary
    final_row: Codes  # [rows seen + 1] of each code; the last is that of MISSING_CODE
    abstained: NDArray[np.int64]  # [workers] abstentions of each
    row_weight: NDArray[np.float64] | None = None  # [rows] where votes have weights


class RunningRows:
    """Workers, labels and rows seen so far. A vote is the code of its row; one without label is MISSING_CODE.

    With weights a row is a worker with a *cell*, a label with a weight; without, a worker with a label.
    """

    def __init__(self, declared: Vocabulary | None, *, is_weighted: bool = False) -> None:
        self.workers = Dictionary("worker")
        self.labels = Dictionary("label")
        self.rows = Dictionary("row")  # worker code * 2^32 + label code, or cell code
        self.declared = declared
        self.abstained = np.zeros(0, np.int64)  # [workers so far] abstentions of each, by code; or fewer
        self.weights = Dictionary("weight") if is_weighted else None  # in units, see adjudge.io.encode
        self.cells = Dictionary("cell")  # label code * 2^32 + weight code

    def dictionaries(self) -> dict[str, Dictionary]:
        """Return what must be stored to continue later, by name."""
        of_weights = {} if self.weights is None else {"weights": self.weights, "cells": self.cells}
        return {"workers": self.workers, "labels": self.labels, "rows": self.rows, **of_weights}

    def encode(self, worker: pl.Series, label: pl.Series, first_row: int, weight: pl.Series | None = None) -> Codes:
        """Return the code of every vote's row, [votes]."""
        by_worker = self.workers.encode(worker)
        before = len(self.labels)
        given = self.labels.encode(label)
        if self.declared is not None and len(self.labels) > before:
            self._require_declared(self.declared, given, before, first_row)
        if self.weights is not None and weight is not None:
            units = encode.weight_units(weight, label, first_row)
            given = encode_pairs(self.cells, np.where(units > 0, given, MISSING_CODE), self.weights.encode(pl.Series(units)))
        missing = given == MISSING_CODE
        if missing.any():
            abstained = np.bincount(by_worker[missing], minlength=len(self.workers))
            abstained[: len(self.abstained)] += self.abstained
            self.abstained = abstained
        return encode_pairs(self.rows, by_worker, given)

    def check(self) -> None:
        """Raise unless what was read back refers to workers, labels and weights that were, too."""
        workers, labels = ("the worker of a row", len(self.workers)), ("the label of a row", len(self.labels))
        if self.weights is None:
            check_pairs(self.rows, workers, labels)
            return
        check_pairs(self.rows, workers, ("the cell of a row", len(self.cells)))
        check_pairs(self.cells, labels, ("the weight of a row", len(self.weights)))
        units, most = self.weights.ids(), encode.WEIGHT_UNITS_PER_VOTE * int(MOST_WEIGHT)
        if len(units) and (units.dtype != pl.Int64 or not units.is_between(0, most).all()):
            raise InputError("the weights that were stored are not valid: start again without resume")

    def finish(self, *, narrow: bool) -> FinalRows:
        """Return the rows in their final order: by worker, then label, each in the order of its ids; then by weight."""
        workers, labels = self.workers.vocabulary(), self.labels.vocabulary()
        if narrow:
            workers, labels = narrow_ids(workers), narrow_ids(labels)
        pair = self.rows.ids().cast(pl.Int64).to_numpy()
        by_label, units = pair & 0xFFFFFFFF, None
        if self.weights is not None:
            cell = self.cells.ids().cast(pl.Int64).to_numpy()[by_label]
            by_label, units = cell >> 32, self.weights.ids().cast(pl.Int64).to_numpy()[cell & 0xFFFFFFFF]
            units = None if (units == encode.WEIGHT_UNITS_PER_VOTE).all() else units
        worker_order = sort_order(workers)
        worker = rank_of(worker_order)[pair >> 32].astype(np.int64)
        if self.declared is None:
            label_order = sort_order(labels)
            labels, label_rank = labels.take(label_order), rank_of(label_order)
        else:
            labels, label_rank = self.declared, self.declared.codes(labels.ids()).astype(np.uint32)
        label = label_rank[by_label].astype(np.int64)
        order = np.lexsort((label, worker) if units is None else (units, label, worker))
        final_row = np.full(len(pair) + 1, MISSING_CODE)
        final_row[order] = np.arange(len(order), dtype=np.uint32)
        voted, sizes = np.unique(worker, return_counts=True)  # a worker may have abstentions only
        abstained = np.zeros(len(worker_order), np.int64)
        abstained[: len(self.abstained)] = self.abstained
        return FinalRows(
            np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
            label[order].astype(np.int32),
            workers.take(worker_order[voted]),
            labels,
            final_row,
            abstained[worker_order[voted]],
            None if units is None else (units[order] * LOG_UNIT).astype(np.float64, copy=False),
        )

    def _require_declared(self, declared: Vocabulary, codes: Codes, before: int, first_row: int) -> None:
        fresh = self.labels.ids(before).to_list()
        strange = np.flatnonzero(declared.codes(fresh) < 0)
        if len(strange):
            row = first_row + int(np.argmax(codes == before + strange[0])) + 1
            raise label_error(fresh[int(strange[0])], declared.ids(), f" in row {row}")


def check_pairs(pairs: Dictionary, *bounds: tuple[str, int]) -> None:
    """Raise unless the codes of both parts of every pair are below their bounds, which are given with their names."""
    if not len(pairs):
        return
    ids = pairs.ids()
    pair = ids.to_numpy() if ids.dtype == pl.Int64 else np.full(1, -1)
    for (name, bound), part in zip(bounds, (pair >> 32, pair & 0xFFFFFFFF), strict=True):
        require_below(name, part, bound)


def group(task: Codes, row: Codes, n_tasks: int) -> tuple[NDArray[np.int64], Codes]:
    """Return (task_ptr [tasks + 1], row [votes]) sorted by task and row; votes whose row is MISSING_CODE are left out."""
    core: Any = compiled()
    if core is not None:
        task_ptr, votes = core.group_by_task(task, row, n_tasks, os.cpu_count() or 1)
        return task_ptr, row[:votes]
    is_vote = row != MISSING_CODE
    task, row = task[is_vote], row[is_vote]
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    return task_ptr, row[np.lexsort((row, task))]


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

    def add(self, task: pl.Series, row: Codes, hashes: NDArray[np.uint64], moment: pl.Series | None = None) -> None:
        """Take votes, [n] each, in their order; `moment` has a number for the time of each, where times are known."""
        part = _leading(hashes, self.skip, self.bits)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=1 << self.bits))
        columns = {"task": task, "row": row} | ({} if moment is None else {"moment": moment})
        self._held.append((pl.DataFrame(columns)[order], ends))
        self.waiting += len(task)

    def flush(self) -> None:
        """Write what is in memory."""
        for part in range(1 << self.bits):
            frames = [frame[0 if not part else int(ends[part - 1]) : int(ends[part])] for frame, ends in self._held]
            frames = [frame for frame in frames if len(frame)]
            if frames:
                whole = pl.concat(frames, how="diagonal")
                self._write(part, whole.with_columns(pl.col("moment").fill_null(0)) if "moment" in whole.columns else whole)
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

    def _write(self, part: int, frame: pl.DataFrame) -> None:
        size, self.sums[part] = append_streams(self.path(part), frame, int(self.sums[part]))
        self.sizes[part] += size
        self.votes[part] += len(frame)


def read_in_parts(spill: Spill, part: int, max_votes: int) -> Iterator[Iterable[pl.DataFrame]]:
    """Yield the votes of a partition, split by further bits of the hash until they fit in memory."""
    finer = split(spill, part, SPLIT_BITS) if spill.votes[part] > max_votes else None
    if finer is None:  # it is small, or one task, which cannot be split
        if spill.votes[part]:
            yield spill.read(part)
        return
    for number in range(1 << finer.bits):
        yield from read_in_parts(finer, number, max_votes)
        finer.path(number).unlink(missing_ok=True)
    shutil.rmtree(finer.folder)


def split(spill: Spill, part: int, bits: int) -> Spill | None:
    """Split a partition by the next bits of the hashes, and return the new spill; None if there is only one hash."""
    if _has_one_hash(spill, part):
        return None
    skip = spill.skip + spill.bits
    finer = Spill(spill.folder / f"{part:05d}", min(bits, 64 - skip), skip)
    for frame in spill.read(part):
        finer.add(frame["task"], frame["row"].to_numpy(), hash_ids(vocabulary(frame["task"])), frame.to_dict().get("moment"))
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
    with path.open("ab") as file:
        for part in frame.iter_slices(MAX_STREAM_VOTES):
            packed = io.BytesIO()
            part.rechunk().write_ipc_stream(packed, compression="lz4", compat_level=pl.CompatLevel.oldest())
            data = packed.getbuffer()
            for block in (len(data).to_bytes(8, "little"), data):
                file.write(block)
                crc32 = zlib.crc32(block, crc32)
                size += len(block)
    return size, crc32


def read_streams(path: Path, ids: str, *others: str) -> Iterator[pl.DataFrame]:
    """Yield the frames of a file as they were written: a column of ids, others of codes, and times if there are some."""
    types: dict[str, Any] = dict.fromkeys(others, pl.UInt32)
    try:
        with path.open("rb") as file:
            while length := file.read(8):
                frame = pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "little"))))
                kind = frame.schema.get(ids)
                timed = {"moment": pl.UInt64()} if others and "moment" in frame.columns else {}
                if kind not in encode.KIND_OF_DTYPE or frame.schema != {ids: kind, **types, **timed}:
                    raise InputError(f"{path} has unexpected columns: start again without resume")
                yield frame
    except (OSError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot read back {path}: {quote(error)}; start again without resume") from error


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
        checksum = 0
        while data := file.read(SPILL_CRC_CHUNK_BYTES):
            checksum = zlib.crc32(data, checksum)
    if checksum != crc32:
        raise InputError(f"{path} is damaged (its checksum does not match): start again without resume")


def _leading(hashes: NDArray[np.uint64], skip: int, bits: int) -> NDArray[np.uint16]:
    """Return the `bits` bits after the first `skip` bits as a number, [n]."""
    if not bits:
        return np.zeros(len(hashes), np.uint16)
    return ((hashes << np.uint64(skip)) >> np.uint64(64 - bits)).astype(np.uint16)


class Arranged(NamedTuple):
    """The tasks of a partition in their final order, and the tasks without votes."""

    task_ptr: NDArray[np.int64]  # [tasks + 1]
    row: NDArray[np.uint32]  # [votes]
    task_hash: NDArray[np.uint64]  # [tasks]
    tasks: Vocabulary
    unvoted: Vocabulary
    repeated: int  # votes beyond the first of a worker on a task, counted or dropped
    resent: int  # votes that equal another one, its time included, and are dropped
    undated: int  # of the repeated votes, those whose times cannot be compared


def arrange(votes: Iterable[pl.DataFrame], rows: FinalRows, *, duplicates: str, narrow: bool) -> Arranged:
    """Return the votes of a partition (frames of task and row code, in input order) in their final order."""
    task, row, moment, ids = _encode_votes(votes, rows.final_row)
    resent = encode.drop_resent({"task": task, "label": row}, moment) if len(moment) and duplicates == "all" else 0
    if narrow:
        ids = narrow_ids(ids)
    worker, repeated = np.repeat(np.arange(len(rows.workers), dtype=np.uint32), np.diff(rows.worker_ptr)), 0
    undated = 0
    if duplicates != "all":
        by = np.append(worker, np.uint32(0))[np.minimum(row, len(worker))]  # of abstentions any worker
        coded = encode.Coded({"task": task, "worker": by, "label": row}, {"task": ids, "worker": rows.workers})
        repeated, undated = encode.drop_duplicates(coded, duplicates, moment)
    order, hashes = by_hash(ids)
    task_ptr, row = group(rank_of(order)[task], row, len(ids))
    repeated = repeated or count_repeats(task_ptr, row, worker)
    voted = task_ptr[1:] > task_ptr[:-1]
    if voted.all():
        return Arranged(task_ptr, row, hashes, ids.take(order), ids.take(order[:0]), repeated, resent, undated)
    task_ptr = np.concatenate([task_ptr[:-1][voted], task_ptr[-1:]])
    return Arranged(task_ptr, row, hashes[voted], ids.take(order[voted]), ids.take(order[~voted]), repeated, resent, undated)


def by_hash(ids: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return (the codes in the order of their hashes, equal hashes in the order of their texts; the hashes in this order)."""
    hashes = hash_ids(ids)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    if (ordered[1:] == ordered[:-1]).any():  # with a probability of 2^-64 per pair
        texts, listed = ids.texts(), hashes.tolist()
        order = np.array(sorted(range(len(texts)), key=lambda code: (listed[code], texts[code])), np.int64)
    return order, ordered


def _encode_votes(votes: Iterable[pl.DataFrame], final_row: Codes) -> tuple[Codes, Codes, NDArray[np.uint64], Vocabulary]:
    """Return (the task of each vote, its final row, its time, the tasks in order of first appearance); no times: none known."""
    running, task, row = Dictionary("task"), [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    moment, is_timed = [np.zeros(0, np.uint64)], False
    for frame in votes:
        task.append(running.encode(frame["task"]))
        row.append(final_row[np.minimum(frame["row"].to_numpy(), len(final_row) - 1)])
        is_timed |= "moment" in frame.columns
        moment.append(frame["moment"].to_numpy() if "moment" in frame.columns else np.zeros(len(frame), np.uint64))
    return np.concatenate(task), np.concatenate(row), np.concatenate(moment if is_timed else moment[:1]), running.vocabulary()
