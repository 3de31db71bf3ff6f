"""An encoding in progress in its folder: from the input to partitions to shards, in bounded memory, resumable."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.data.bounds import require_below
from adjudge.data.memory import FLOOR
from adjudge.data.vectors import pieces
from adjudge.data.vocabulary import Kind, Vocabulary
from adjudge.errors import InputError, OptionError, AdjudgeError, shown
from adjudge.io.dictionary import KINDS, MISSING, require_same
from adjudge.io.files import votes_in
from adjudge.io.folder.arrays import StoredArray
from adjudge.io.folder.manifest import Manifest, digest, is_count, read_json, spans_fault, write_sealed
from adjudge.io.folder.spill import Rows, RunningRows, Spill, WeightedRows, append_streams, cut_to, hash_ids, read_streams, split
from adjudge.io.folder.writer import VALUES, ShardWriter, VocabularyWriter, arrange, write_ids, write_items
from adjudge.io.ids import narrowed, prepared, require_present, vocabulary
from adjudge.io.sources import Table
from adjudge.kernels.cpu import compiled

PER_VOTE: Final = 100  # bytes per vote while a partition is sorted
SHARD: Final = 1 << 22  # votes in a shard
STATE: Final = "state.json"
SOURCE: Final = "source.json"
VERSION: Final = 4
IDS: Final = ("workers", "labels", "rows")  # logs of ids
ABSTAINED: Final = "abstained"  # the log of abstentions: the worker's code * 2^32 + how many
MAX_BITS: Final = 10  # of partitions
Progress = Callable[[str, int, int], None]  # the step, votes done, and votes in all (0: not known)
BATCH = 1 << 18  # rows read at once
SPLIT_BITS = 6  # a partition that is too large is split into 64
COUNT_VOTES = 1 << 22  # votes counted at once
LOGS: Final = {"workers", "labels", "rows", "weights", "cells"}  # files of ids


@dataclass(frozen=True)
class Plan:
    """How votes are divided; only `shard_votes` changes the outcome."""

    bits: int = 6  # 2^bits partitions
    partition_votes: int = 1 << 22  # a larger partition is split
    held_votes: int = 1 << 20  # votes held in memory before they are spilled
    shard_votes: int = SHARD

    @classmethod
    def of(cls, memory: int, votes: int | None) -> Plan:
        """Return the plan for this memory, in bytes, and about so many votes."""
        max_votes = min(max((memory - FLOOR) // PER_VOTE, 1 << 16), 1 << 22)
        bits = 6 if votes is None else min(max((2 * votes // max_votes).bit_length(), 0), 10)
        return cls(bits=bits, partition_votes=max_votes, held_votes=min(max_votes, 1 << 21))


@dataclass
class State:
    """The progress of an encoding: batches of input, then partitions."""

    bits: int  # 2^bits partitions
    shard_votes: int
    file: int = 0  # the file being read
    taken: int = 0  # rows read of it
    rows: int = 0  # rows read of all files
    missing: int = 0  # those without label
    repeated: int = 0  # votes beyond the first of a worker on a task, in partitions that are in the shards
    kind: Kind | None = None  # of the tasks' ids
    whole: bool = True  # whether all tasks' ids, read as text, are whole numbers
    votes: list[int] = field(default_factory=list)  # [partitions] see Spill
    sizes: list[int] = field(default_factory=list)  # [partitions]
    sums: list[int] = field(default_factory=list)  # [partitions] CRC-32 of so many bytes
    logs: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes of the files of ids, and their CRC-32
    read: bool = False  # whether all input was read
    done: int = 0  # partitions that are in the shards
    shards: dict[str, Any] | None = None  # see ShardWriter
    unvoted: dict[str, Any] | None = None  # see VocabularyWriter

    def save(self, folder: Path) -> None:
        """Store the state atomically."""
        # Not `asdict`, which copies the facts of all shards, and this is done at every partition.
        write_sealed(folder / STATE, {"version": VERSION, **vars(self)})

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Return the state of an unfinished encoding; None where there is none."""
        path = folder / STATE
        try:
            found = read_json(path)
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged: start again without resume") from error
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise InputError(f"{folder} was started by another version of adjudge: start again without resume")
        if found.pop("sha256", None) != digest(found):
            raise InputError(f"{path} is damaged (its checksum does not match): start again without resume")
        del found["version"]
        fault = _fault(found)
        if fault is not None:
            raise InputError(f"{path} is not valid: {fault}; start again without resume")
        return cls(**found)


def _fault(body: Mapping[str, Any]) -> str | None:
    """Return the fault in a state whose checksum is right; None without fault."""
    if body.keys() != State.__dataclass_fields__.keys():
        return f"it has the fields {shown(sorted(body))}"
    counts = [body[name] for name in ("file", "taken", "rows", "missing", "repeated", "done")]
    fine = is_count(body["bits"], MAX_BITS + 1) and is_count(body["shard_votes"]) and body["shard_votes"] > 0
    if not fine or not all(is_count(count) for count in counts) or not all(type(body[n]) is bool for n in ("whole", "read")):
        return "one of its numbers or flags is not valid"
    if body["kind"] is not None and body["kind"] not in list(VALUES):
        return f"kind is {shown(body['kind'])}"
    partitions = 1 << body["bits"]
    for name, bound in (("votes", 2**62), ("sizes", 2**62), ("sums", 2**32)):
        listed = body[name]
        if not isinstance(listed, list) or len(listed) not in (0, partitions) or not all(is_count(one, bound) for one in listed):
            return f"{name} is {shown(listed)}"
    if not len(body["votes"]) == len(body["sizes"]) == len(body["sums"]):
        return "votes, sizes and sums are of different partitions"
    return _files_fault(body)


def _files_fault(body: Mapping[str, Any]) -> str | None:
    logs = body["logs"]
    if not isinstance(logs, dict) or not logs.keys() <= {*LOGS, ABSTAINED} or not all(map(_is_log, logs.values())):
        return f"logs is {shown(logs)}"
    for name, inner in (("shards", "shards"), ("unvoted", "crc32")):
        written = body[name]
        if written is None:
            continue
        if not isinstance(written, dict) or written.keys() != {inner, "lengths"} or not _are_counts(written["lengths"]):
            return f"{name} is {shown(written)}"
        if name == "unvoted" and not _are_counts(written["crc32"], 2**32):
            return f"{name} is {shown(written)}"
        fault = spans_fault(written["shards"], None) if name == "shards" else None
        if fault is not None:
            return fault
    return None


def _is_log(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and is_count(entry[0]) and is_count(entry[1], 2**32)


def _are_counts(found: object, bound: int = 2**62) -> bool:
    return isinstance(found, dict) and all(is_count(one, bound) for one in found.values())


def fingerprint(paths: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies files and options."""
    stamps = []
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        stamps.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
    return {"files": stamps, **options}


def write_source(folder: Path, source: Mapping[str, Any]) -> None:
    """Store what is encoded here."""
    (folder / SOURCE).write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")


def is_of_source(folder: Path, source: Mapping[str, Any]) -> bool:
    """Return whether a folder, finished or not, was encoded from these files and options."""
    try:
        return bool(read_json(folder / SOURCE) == json.loads(json.dumps(source)))
    except (OSError, ValueError, RecursionError):
        return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder and lock it; raise if another process works in it."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise AdjudgeError(f"cannot write {folder}: {error.strerror}") from error
    handle = lock(folder)
    try:
        yield
    finally:
        os.close(handle)


def lock(folder: Path) -> int:
    """Return a handle that locks a folder until it is closed, or the process ends."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise OptionError(f"something else is using {folder}: wait until it is done, or choose another folder") from error
    return handle


def emptied(folder: Path) -> None:
    """Remove the content of a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


class Job:
    """An encoding in progress in its folder."""

    def __init__(
        self,
        folder: Path,
        state: State,
        plan: Plan,
        declared: Vocabulary | None,
        duplicates: str,
        is_text: bool,
        progress: Progress | None,
        is_weighted: bool = False,
    ) -> None:
        self._folder = folder
        self._state = state
        self._plan = plan
        self._duplicates = duplicates
        self._is_text = is_text
        self._report: Progress = progress or (lambda *_: None)
        self._rows = WeightedRows(declared) if is_weighted else RunningRows(declared)
        self._logged = dict.fromkeys(self._rows.dictionaries(), 0)  # ids already in the files of ids
        self._abstained = np.zeros(0, np.int64)  # [workers] abstentions already in their file
        self._spill = Spill(folder / "spill", state.bits)
        self._restore()

    def read(self, table: Table, paths: list[Path] | None) -> None:
        """Spill all votes of the source to their partitions."""
        state = self._state
        if state.read:
            return
        total = votes_in(paths) if paths is not None else 0
        if paths is None or table.file is None:
            self._take(table.batches, total)
        else:
            for number in range(state.file, len(paths)):
                self._take(table.file(number, state.taken), total)
                state.file, state.taken = number + 1, 0
        state.read = True
        self._save_read()

    def build(self) -> None:
        """Append all partitions to the shards, and complete the folder."""
        state, spill = self._state, self._spill
        narrow = self._is_text and state.whole and state.rows > 0
        kind: Kind = "integer" if narrow else state.kind or "string"
        rows = self._rows.finish(narrow=self._is_text)
        shards = ShardWriter(self._folder, kind, state.shard_votes, state.shards)
        unvoted = VocabularyWriter(self._folder, "unvoted", kind, state.unvoted)
        try:
            for part in range(state.done, 1 << state.bits):
                for votes in self._small_enough(spill, part):
                    found = arrange(votes, rows, duplicates=self._duplicates, narrow=narrow)
                    shards.add(*found[:4])
                    unvoted.add(found.unvoted)
                    state.repeated += found.repeated
                state.done, state.shards, state.unvoted = part + 1, shards.state(), unvoted.state()
                state.save(self._folder)
                shutil.rmtree(spill.folder / f"{part:05d}", ignore_errors=True)
                spill.remove(part)
                self._report("sorting votes", int(spill.votes[: part + 1].sum()), int(spill.votes.sum()))
        except BaseException:
            shards.abandon()
            unvoted.abandon()
            raise
        self._complete(rows, shards, unvoted, kind)

    def _complete(self, rows: Rows, shards: ShardWriter, unvoted: VocabularyWriter, kind: Kind) -> None:
        folder = self._folder
        files = shards.entries() | unvoted.entries()
        row = StoredArray(folder / "row.npy", np.uint32, shards.votes)
        counts = np.zeros(len(rows.row_label), np.int64)
        for cut in pieces(len(row), COUNT_VOTES):
            some = row[cut]
            require_below(str(row.path), some, len(counts))
            counts += np.bincount(some, minlength=len(counts))
        files |= write_items(folder, "worker_ptr", rows.worker_ptr)
        files |= write_items(folder, "row_label", rows.row_label) | write_items(folder, "row_votes", counts)
        if rows.row_weight is not None:
            files |= write_items(folder, "row_weight", rows.row_weight)
        files |= write_ids(folder, "workers", rows.workers) | write_ids(folder, "labels", rows.labels)
        if self._state.missing:
            files |= write_items(folder, "abstained", rows.abstained)
        manifest = Manifest(
            votes=shards.votes,
            tasks=sum(span.tasks for span in shards.shards),
            rows_read=self._state.rows,
            kinds={"task": kind, "worker": rows.workers.kind, "label": rows.labels.kind},
            abstentions=self._state.missing,
            duplicates="all" if self._duplicates == "error" else self._duplicates,
            files=dict(sorted(files.items())),
            shards=tuple(shards.shards),
        )
        manifest.write(folder)

    def _take(self, coming: Iterable[pl.DataFrame], total: int) -> None:
        state = self._state
        for whole in coming:
            for batch in whole.iter_slices(BATCH):
                self._add(batch)
                state.rows += len(batch)
                state.taken += len(batch)
                if self._spill.waiting >= self._plan.held_votes:
                    self._save_read()
                self._report("reading votes", state.rows, total)

    def _add(self, batch: pl.DataFrame) -> None:
        state, keep, first = self._state, compiled() is not None, self._state.rows
        ids = {role: prepared(batch[role], role, first, keep_categories=keep and role != "task") for role in ("task", "worker")}
        for role, column in ids.items():
            require_present(column, role, first)
        label = prepared(batch["label"], "label", first, keep_categories=keep)
        weight = batch["weight"] if "weight" in batch.columns else None
        row = self._rows.encode(ids["worker"], label, first, weight)
        state.missing += int(np.count_nonzero(row == MISSING))
        if not len(batch):
            return
        kind = KINDS[ids["task"].dtype]
        if state.kind is not None:
            require_same("task", state.kind, kind)
        state.kind = kind
        tasks = vocabulary(ids["task"])
        if self._is_text and state.whole:
            state.whole = narrowed(tasks).kind == "integer"
        self._spill.add(ids["task"], row, hash_ids(tasks))

    def _save_read(self) -> None:
        """Write what is in memory, and store how far the input was read."""
        state, spill = self._state, self._spill
        spill.flush()
        for name, ids in self._rows.dictionaries().items():
            self._log(name, ids.ids(self._logged[name]))
            self._logged[name] = len(ids)
        abstained = self._rows.abstained
        more = abstained.copy()
        more[: len(self._abstained)] -= self._abstained
        worker = np.flatnonzero(more)
        self._log(ABSTAINED, pl.Series((worker << 32) | more[worker]))
        self._abstained = abstained
        state.votes, state.sizes, state.sums = spill.votes.tolist(), spill.sizes.tolist(), spill.sums.tolist()
        state.save(self._folder)

    def _log(self, name: str, fresh: pl.Series) -> None:
        """Append to a log what is new in it."""
        if len(fresh):
            size, crc32 = self._state.logs.get(name, (0, 0))
            more, crc32 = append_streams(self._spill.folder / name, fresh.to_frame("id"), crc32)
            self._state.logs[name] = size + more, crc32

    def _logs(self, name: str) -> Iterator[pl.Series]:
        """Yield what an earlier run has appended to a log; what came later is cut off."""
        path, (size, crc32) = self._spill.folder / name, self._state.logs.get(name, (0, 0))
        cut_to(path, size, crc32)
        for frame in read_streams(path, "id") if size else ():
            yield frame["id"]

    def _restore(self) -> None:
        """Restore the state of an earlier run."""
        state, spill = self._state, self._spill
        if not state.votes:  # nothing was stored yet
            emptied(spill.folder)
            return
        for name, ids in self._rows.dictionaries().items():
            for some in self._logs(name):
                ids.encode(some)
                self._logged[name] += len(some)
            if len(ids) != self._logged[name]:
                raise InputError(f"{spill.folder / name} is not valid: an id occurs twice; start again without resume")
        self._rows.check()
        self._abstained = np.zeros(len(self._rows.workers), np.int64)
        for some in self._logs(ABSTAINED):
            worker, number = np.divmod(some.cast(pl.Int64).to_numpy(), 1 << 32)
            require_below("the worker of an abstention", worker, len(self._abstained))
            np.add.at(self._abstained, worker, number)
        self._rows.abstained = self._abstained
        spill.restore(state.votes, state.sizes, state.sums, first=state.done)

    def _small_enough(self, spill: Spill, part: int) -> Iterator[Iterable[pl.DataFrame]]:
        """Yield the votes of a partition, split by further bits of the hash until they fit in memory."""
        if spill.votes[part] <= self._plan.partition_votes:
            if spill.votes[part]:
                yield spill.read(part)
            return
        finer = split(spill, part, SPLIT_BITS)
        if finer is None:  # one task: it cannot be split
            yield spill.read(part)
            return
        for some in range(1 << finer.bits):
            yield from self._small_enough(finer, some)
            finer.remove(some)
        shutil.rmtree(finer.folder)
