"""An encoding in progress in its folder: from the input to partitions to shards, in bounded memory, resumable."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import msgspec
import numpy as np
import polars as pl

from adjudge.data.memory import MIN_MEMORY_BYTES
from adjudge.data.vocabulary import Kind, Vocabulary, require_below
from adjudge.errors import InputError, OptionError, read_error, refuse_windows, write_error
from adjudge.io.columns import VOTE_ROLES
from adjudge.io.encode import KIND_OF_DTYPE, MISSING_CODE, hash_ids, narrow_ids, require_same
from adjudge.io.files import is_encoded, votes_in
from adjudge.io.folder import arrays, spill
from adjudge.io.folder.arrays import Checksum, Count, IdsState, ShardsState, sync
from adjudge.io.folder.manifest import Manifest, convert, digest, read_json, write_sealed
from adjudge.io.frames import id_columns, prepare_ids, vocabulary
from adjudge.io.reading import Reading
from adjudge.io.records import OpenTable
from adjudge.kernels.cpu import compiled

SORT_BYTES_PER_VOTE: Final = 100  # bytes per vote while a partition is sorted
SHARD: Final = 1 << 22  # votes in a shard
STATE: Final = "state.json"
SOURCE: Final = "source.json"
VERSION: Final = 1
ABSTAINED: Final[Log] = "abstained"  # the log of abstentions: the worker's code * 2^32 + how many
MAX_BITS: Final = 10  # of partitions
Progress = Callable[[str, int, int], None]  # the step, votes done, and votes in total (0: unknown)
BATCH = 1 << 18  # rows read at once


@dataclass(frozen=True)
class EncodingPlan:
    """How votes are divided; only `shard_votes` changes the outcome."""

    bits: int = 6  # 2^bits partitions
    partition_votes: int = 1 << 22  # a larger partition is split
    held_votes: int = 1 << 20  # votes held in memory before they are spilled
    shard_votes: int = SHARD

    @classmethod
    def of(cls, memory: int, votes: int | None, shard_votes: int = SHARD) -> EncodingPlan:
        """Return the plan for this memory, in bytes, and about so many votes."""
        max_votes = min(max((memory - MIN_MEMORY_BYTES) // SORT_BYTES_PER_VOTE, 1 << 16), 1 << 22)
        bits = 6 if votes is None else min(max((2 * votes // max_votes).bit_length(), 0), 10)
        return cls(bits=bits, partition_votes=max_votes, held_votes=min(max_votes, 1 << 21), shard_votes=shard_votes)


Log = Literal["workers", "labels", "rows", "weights", "cells", "abstained"]  # files of ids, and of abstentions


class EncodingState(msgspec.Struct, forbid_unknown_fields=True):
    """The progress of an encoding: batches of input, then partitions."""

    bits: Annotated[int, msgspec.Meta(ge=0, le=MAX_BITS)]  # 2^bits partitions
    shard_votes: Annotated[int, msgspec.Meta(gt=0, lt=2**62)]
    file: Count = 0  # the file being read
    taken: Count = 0  # rows read of it
    rows: Count = 0  # rows read of all files
    missing: Count = 0  # those without label
    resent: Count = 0  # votes that equal another one, its time included, in the same partitions
    undated: Count = 0  # of the repeated votes, those whose times cannot be compared
    ordered_by: str = ""  # the column of times that decides which of them counts
    repeated: Count = 0  # votes beyond the first of a worker on a task, in partitions that are in the shards
    kind: Kind | None = None  # of the tasks' ids
    whole: bool = True  # whether all tasks' ids, read as text, are whole numbers
    votes: list[Count] = []  # [partitions] see `spill.Spill`
    sizes: list[Count] = []  # [partitions]
    sums: list[Checksum] = []  # [partitions] CRC-32 of these bytes
    logs: dict[Log, tuple[Count, Checksum]] = {}  # bytes of the files of ids, and their CRC-32
    read: bool = False  # whether all input was read
    done: Count = 0  # partitions that are in the shards
    shards: ShardsState | None = None
    unvoted: IdsState | None = None

    def save(self, folder: Path) -> None:
        """Store the state atomically."""
        write_sealed(folder / STATE, {"version": VERSION, **msgspec.structs.asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> EncodingState | None:
        """Return the state of an unfinished encoding; None if there is none."""
        path = folder / STATE
        try:
            body = read_json(path)
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged: start again without resume") from error
        if not isinstance(body, dict) or body.pop("version", None) != VERSION:
            raise InputError(f"{folder} was started by another version of adjudge: start again without resume")
        if body.pop("sha256", None) != digest({"version": VERSION, **body}):
            raise InputError(f"{path} is damaged (its checksum does not match): start again without resume")
        state, fault = convert(body, cls)
        partitions = {0} if state is None else {len(state.votes), len(state.sizes), len(state.sums)}
        if fault is None and (len(partitions) > 1 or not partitions <= {0, 1 << state.bits}):
            fault = "votes, sizes and sums are of different partitions"
        if fault is not None:
            raise InputError(f"{path} is not valid: {fault}; start again without resume")
        return cast(EncodingState, state)


def fingerprint(paths: Sequence[Path], reading: Reading) -> dict[str, Any]:
    """Return what identifies files and how they are read."""
    stamps = []
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise read_error(path, error) from error
        stamps.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
    labels = None if reading.labels is None else Vocabulary.of(reading.labels, "label").ids()
    return {"files": stamps, **asdict(reading), "labels": labels, "abstain": sorted(reading.abstain), "strict": None}


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
def lock_folder(folder: Path) -> Iterator[None]:
    """Make a folder and lock it; raise if another process works in it."""
    refuse_windows("a folder of encoded votes")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from error
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


def clear(folder: Path) -> None:
    """Remove the content of a folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replace_votes(aside: Path, target: Path) -> None:
    """Move a finished folder to its target atomically: a reader finds the old votes or the new ones."""
    if target.exists():
        _sync(aside)  # before the old votes go
        with lock_folder(target):  # so that no process works in the old votes
            if not _exchange(aside, target):
                target.rename(old_votes(target))
                aside.rename(target)
            _sync(target.parent)
            for path in (aside, old_votes(target)):
                shutil.rmtree(path, ignore_errors=True)
    else:
        aside.rename(target)
    (target / STATE).unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically, and return whether the file system could do that."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # another system than Linux
        return False
    cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(rename(cwd, os.fsencode(one), cwd, os.fsencode(other), ctypes.c_uint(exchange)) == 0)


def restore_old(target: Path) -> None:
    """Restore the old votes after a process died between two renames; otherwise remove them."""
    if not target.exists() and is_encoded(old_votes(target)):
        old_votes(target).rename(target)
    shutil.rmtree(old_votes(target), ignore_errors=True)


def old_votes(target: Path) -> Path:
    """Return where the votes of a folder are while others replace them."""
    return target.parent / f".{target.name}.old"


def _sync(folder: Path) -> None:
    """Wait until the arrays of a folder, its manifest and all names in it are on disk."""
    for path in [*folder.glob("*.npy"), *folder.glob("*.json"), folder]:
        sync(path)


class EncodingJob:
    """An encoding in progress in its folder."""

    def __init__(
        self,
        folder: Path,
        state: EncodingState,
        plan: EncodingPlan,
        declared: Vocabulary | None,
        duplicates: str,
        is_text: bool,
        is_weighted: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._folder, self._state, self._plan = folder, state, plan
        self._duplicates, self._is_text = duplicates, is_text
        self._report: Progress = progress or (lambda *_: None)
        self._partitions = spill.Spill(folder / "spill", state.bits)
        self._rows = spill.RunningRows(declared, is_weighted=is_weighted)
        self._logged = Counter[str]()  # how many ids are in the files of ids
        self._abstained = np.zeros(0, np.int64)  # [workers] abstentions already in their file
        self._restore()

    def read(self, table: OpenTable, paths: list[Path] | None) -> None:
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
        state.read, state.ordered_by = True, next(iter(table.notes.ordered_by), state.ordered_by)
        self._save_read()

    def build(self) -> None:
        """Append all partitions to the shards, and complete the folder."""
        state, partitions, folder = self._state, self._partitions, self._folder
        narrow = self._is_text and state.whole and state.rows > 0
        kind: Kind = "integer" if narrow else state.kind or "string"
        rows = self._rows.finish(narrow=self._is_text)
        with ExitStack() as failing:
            shards = arrays.ShardWriter(folder, kind, state.shard_votes, state.shards)
            failing.callback(shards.abandon)
            unvoted = arrays.VocabularyWriter(folder, "unvoted", kind, state.unvoted)
            failing.callback(unvoted.abandon)
            for part in range(state.done, 1 << state.bits):
                for votes in spill.read_in_parts(partitions, part, self._plan.partition_votes):
                    arranged = spill.arrange(votes, rows, duplicates=self._duplicates, narrow=narrow)
                    shards.add(*arranged[:4])
                    unvoted.add(arranged.unvoted)
                    state.repeated += arranged.repeated
                    state.resent += arranged.resent
                    state.undated += arranged.undated
                state.done, state.shards, state.unvoted = part + 1, shards.state(), unvoted.state()
                state.save(folder)
                shutil.rmtree(partitions.folder / f"{part:05d}", ignore_errors=True)
                partitions.path(part).unlink(missing_ok=True)
                self._report("sorting votes", int(partitions.votes[: part + 1].sum()), int(partitions.votes.sum()))
            failing.pop_all()
        files = shards.entries() | unvoted.entries()
        files |= arrays.write_ids(folder, "workers", rows.workers) | arrays.write_ids(folder, "labels", rows.labels)
        items: dict[str, Any] = {"worker_ptr": rows.worker_ptr, "row_label": rows.row_label}
        items["row_votes"] = shards.votes_per_row(len(rows.row_label))
        items |= {} if rows.row_weight is None else {"row_weight": rows.row_weight}
        items |= {"abstained": rows.abstained} if state.missing else {}
        for name, array in items.items():
            files |= arrays.write_items(folder, name, array)
        Manifest(  # the last file: it makes the folder one of encoded votes
            votes=shards.votes,
            tasks=sum(span.tasks for span in shards.shards),
            rows_read=state.rows,
            kinds={"task": kind, "worker": rows.workers.kind, "label": rows.labels.kind},
            abstentions=state.missing,
            duplicates=cast(Any, "all" if self._duplicates == "error" else self._duplicates),
            files=cast(Any, dict(sorted(files.items()))),
            shards=tuple(shards.shards),
        ).write(folder)

    def _take(self, coming: Iterable[pl.DataFrame], total: int) -> None:
        state = self._state
        for whole in coming:
            for batch in whole.iter_slices(BATCH):
                self._add(batch)
                state.rows += len(batch)
                state.taken += len(batch)
                if self._partitions.waiting >= self._plan.held_votes:
                    self._save_read()
                self._report("reading votes", state.rows, total)

    def _add(self, batch: pl.DataFrame) -> None:
        state, first = self._state, self._state.rows
        columns = id_columns(batch, VOTE_ROLES, first, keep_categories=compiled() is not None)
        task = prepare_ids(columns["task"], "task")  # categories as texts
        tasks = vocabulary(task)
        weight = batch["weight"] if "weight" in batch.columns else None
        row = self._rows.encode(columns["worker"], columns["label"], first, weight)
        state.missing += int(np.count_nonzero(row == MISSING_CODE))
        if not len(batch):
            return
        kind = KIND_OF_DTYPE[task.dtype]
        if state.kind is not None:
            require_same("task", state.kind, kind)
        state.kind = kind
        if self._is_text and state.whole:
            state.whole = narrow_ids(tasks).kind == "integer"
        self._partitions.add(task, row, hash_ids(tasks), batch["moment"] if "moment" in batch.columns else None)

    def _save_read(self) -> None:
        """Write what is in memory, and store how far the input was read."""
        state, partitions = self._state, self._partitions
        partitions.flush()
        for name, ids in self._rows.dictionaries().items():
            self._log(name, ids.ids(self._logged[name]))
            self._logged[name] = len(ids)
        abstained = self._rows.abstained
        more = abstained.copy()
        more[: len(self._abstained)] -= self._abstained
        worker = np.flatnonzero(more)
        self._log(ABSTAINED, pl.Series((worker << 32) | more[worker]))
        self._abstained = abstained
        state.votes, state.sizes, state.sums = (a.tolist() for a in (partitions.votes, partitions.sizes, partitions.sums))
        state.save(self._folder)

    def _log(self, name: Any, fresh: pl.Series) -> None:
        """Append to a log what is new in it."""
        if len(fresh):
            size, crc32 = self._state.logs.get(name, (0, 0))
            more, crc32 = spill.append_streams(self._partitions.folder / name, fresh.to_frame("id"), crc32)
            self._state.logs[name] = size + more, crc32

    def _logs(self, name: Any) -> Iterator[pl.Series]:
        """Yield what an earlier run has appended to a log; what came later is cut off."""
        path, (size, crc32) = self._partitions.folder / name, self._state.logs.get(name, (0, 0))
        spill.cut_to(path, size, crc32)
        for frame in spill.read_streams(path, "id") if size else ():
            yield frame["id"]

    def _restore(self) -> None:
        """Restore the state of an earlier run."""
        state, partitions = self._state, self._partitions
        if not state.votes:  # nothing was stored yet
            clear(partitions.folder)
            return
        for name, ids in self._rows.dictionaries().items():
            for chunk in self._logs(name):
                ids.encode(chunk)
                self._logged[name] += len(chunk)
            if len(ids) != self._logged[name]:
                raise InputError(f"{partitions.folder / name} is not valid: an id occurs twice; start again without resume")
        self._rows.check()
        self._abstained = np.zeros(len(self._rows.workers), np.int64)
        for chunk in self._logs(ABSTAINED):
            worker, number = np.divmod(chunk.cast(pl.Int64).to_numpy(), 1 << 32)
            require_below("the worker of an abstention", worker, len(self._abstained))
            np.add.at(self._abstained, worker, number)
        self._rows.abstained = self._abstained
        partitions.restore(state.votes, state.sizes, state.sums, first=state.done)
