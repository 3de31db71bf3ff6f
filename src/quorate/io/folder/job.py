"""An encoding at work in its folder: the input to partitions, partitions to shards."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from quorate.bounds import require_below
from quorate.errors import InputError
from quorate.io.coder import KINDS, MISSING, require_same
from quorate.io.encoded.arrays import StoredArray
from quorate.io.encoded.codes import Rows, RunningRows
from quorate.io.encoded.manifest import Manifest
from quorate.io.encoded.partition import arrange
from quorate.io.encoded.plan import Plan, votes_in
from quorate.io.encoded.spill import Spill, append_streams, cut_to, hash_ids, read_streams, split
from quorate.io.encoded.state import State, emptied
from quorate.io.encoded.writer import ShardWriter, VocabularyWriter, write_ids, write_items
from quorate.io.files import Wanted, batches
from quorate.io.ids import narrowed, prepared, vocabulary
from quorate.io.sources import Table
from quorate.kernels.core import compiled
from quorate.vocabulary import Kind, Vocabulary

Progress = Callable[[str, int, int], None]  # what is done, how many votes of it, of how many (0: not known)

BATCH = 1 << 18  # rows taken at once
SPLIT_BITS = 6  # a partition that is too large falls into 64
COUNT = 1 << 22  # rows counted at once


class Job:
    """An encoding at work in its folder."""

    def __init__(
        self,
        folder: Path,
        state: State,
        plan: Plan,
        declared: Vocabulary | None,
        duplicates: str,
        is_text: bool,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._state = state
        self._plan = plan
        self._duplicates = duplicates
        self._is_text = is_text
        self._report: Progress = progress or (lambda *_: None)
        self._rows = RunningRows(declared)
        self._logged = {"workers": 0, "labels": 0, "rows": 0}  # ids in the files of ids
        self._spill = Spill(folder / "spill", state.bits)
        self._restore()

    def read(self, table: Table, paths: list[Path] | None, columns: Wanted) -> None:
        """Brings all votes of the source to their partitions."""
        state = self._state
        if state.read:
            return
        total = votes_in(paths) if paths is not None else 0
        if paths is None:
            self._take(table.batches, total)
        else:
            for place in range(state.file, len(paths)):
                self._take(batches(paths[place], columns, skip=state.taken), total)
                state.file, state.taken = place + 1, 0
        state.read = True
        self._save_read()

    def build(self) -> None:
        """Brings partition after partition into the shards, and completes the folder."""
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
        for start in range(0, len(row), COUNT):
            some = row[start : start + COUNT]
            require_below(str(row.path), some, len(counts))
            counts += np.bincount(some, minlength=len(counts))
        files |= write_items(folder, "worker_ptr", rows.worker_ptr)
        files |= write_items(folder, "row_label", rows.row_label) | write_items(folder, "row_votes", counts)
        files |= write_ids(folder, "workers", rows.workers) | write_ids(folder, "labels", rows.labels)
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
            if column.null_count():
                place = first + int(column.is_null().arg_true()[0]) + 1
                raise InputError(f"{role} is missing in row {place}: every vote needs a {role}")
        label = prepared(batch["label"], "label", first, keep_categories=keep)
        row = self._rows.encode(ids["worker"], label, first)
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
        """Writes what is in memory, and notes how far the input is read."""
        state, spill = self._state, self._spill
        spill.flush()
        for name, ids in {"workers": self._rows.workers, "labels": self._rows.labels, "rows": self._rows.rows}.items():
            fresh = ids.ids(self._logged[name])
            if len(fresh):
                size, crc32 = state.logs.get(name, (0, 0))
                more, crc32 = append_streams(spill.folder / name, fresh.to_frame("id"), crc32)
                state.logs[name] = size + more, crc32
            self._logged[name] = len(ids)
        state.votes, state.sizes, state.sums = spill.votes.tolist(), spill.sizes.tolist(), spill.sums.tolist()
        state.save(self._folder)

    def _restore(self) -> None:
        """Takes up what an earlier run has left."""
        state, spill = self._state, self._spill
        if not state.votes:  # nothing was noted yet
            emptied(spill.folder)
            return
        for name, ids in {"workers": self._rows.workers, "labels": self._rows.labels, "rows": self._rows.rows}.items():
            size, crc32 = state.logs.get(name, (0, 0))
            cut_to(spill.folder / name, size, crc32)
            for frame in read_streams(spill.folder / name, "id") if size else ():
                ids.encode(frame["id"])
                self._logged[name] += len(frame)
            if len(ids) != self._logged[name]:
                raise InputError(f"{spill.folder / name} is not valid: an id occurs twice; begin anew without resume")
        self._rows.check()
        spill.restore(state.votes, state.sizes, state.sums, first=state.done)

    def _small_enough(self, spill: Spill, part: int) -> Iterator[Iterable[pl.DataFrame]]:
        """Yields the votes of a partition, split by further bits of the hash until they fit in memory."""
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
