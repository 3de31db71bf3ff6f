"""Encoded votes opened: `Votes` whose arrays stay on disk until they are touched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.io.encoded.arrays import mapped
from quorate.io.encoded.manifest import Manifest
from quorate.io.encoded.spill import hash_ids
from quorate.io.encoded.writer import Span
from quorate.vocabulary import Vocabulary, text_of
from quorate.votes import Votes, piece


class HashedVocabulary(Vocabulary):
    """Ids in the order of their hashes: one is found by its hash, without a dictionary of all of them."""

    hashes: NDArray[np.uint64]  # [n] ascending

    def codes(self, ids: Iterable[object]) -> NDArray[np.int64]:
        """Returns the code of each id, compared by text; -1 where it is unknown."""
        texts = [text_of(i) for i in ids]
        wanted = hash_ids(Vocabulary.of_texts(texts))
        first = np.searchsorted(self.hashes, wanted, "left")
        behind = np.searchsorted(self.hashes, wanted, "right")
        found = [
            next((code for code in range(a, b) if text_of(self[code]) == text), -1)
            for text, a, b in zip(texts, first.tolist(), behind.tolist(), strict=True)
        ]
        return np.array(found, np.int64)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class EncodedVotes(Votes):
    """Votes in a folder that `encode` made, tasks in the order of their hashes. Arrays are mapped, not read.

    Where all votes are looked at, `parts` reads them shard by shard.
    """

    folder: Path
    shards: tuple[Span, ...]
    task_hash: NDArray[np.uint64]  # [tasks] ascending
    row_votes: NDArray[np.int64]  # [rows]
    identity: str  # the manifest's checksum
    keeper: object = None  # what removes a folder that was made for the occasion

    def votes_per_row(self) -> NDArray[np.int64]:
        """Returns how many votes each row holds, [rows]."""
        return self.row_votes

    def cuts(self) -> Iterator[tuple[slice, slice]]:
        """Yields (tasks, votes) of each shard, as slices."""
        task = vote = 0
        for span in self.shards or (Span(),):  # nothing is one empty part
            yield slice(task, task + span.tasks), slice(vote, vote + span.votes)
            task, vote = task + span.tasks, vote + span.votes

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint32]]]:
        """Yields (some tasks, where the votes of each begin, the votes' rows), in task order; shard by shard."""
        for tasks, votes in self.cuts():
            yield tasks, piece(self.task_ptr, slice(tasks.start, tasks.stop + 1)) - votes.start, piece(self.row, votes)

    def task_parts(self) -> Iterator[tuple[slice, Vocabulary, NDArray[np.int64]]]:
        """Yields (some tasks, their ids, how many votes each has), in task order; shard by shard."""
        for tasks, _ in self.cuts():
            yield tasks, _part(self.tasks, tasks), np.diff(piece(self.task_ptr, slice(tasks.start, tasks.stop + 1)))


def open_encoded(folder: str | os.PathLike[str], *, check: bool = True) -> EncodedVotes:
    """Returns the votes of a folder that `encode` made; one that is damaged is an error.

    Checking reads everything once; without `check` only the sizes of the files are looked at.
    """
    where = Path(folder)
    manifest = Manifest.read(where)
    manifest.check_sizes(where)
    if check:
        manifest.check_content(where, os.cpu_count() or 1)

    def array(name: str) -> NDArray[Any]:
        entry = manifest.files[name]
        return mapped(where / f"{name}.npy", entry["dtype"], entry["length"])

    def ids(name: str, kind: str, of: type[Vocabulary] = Vocabulary) -> Vocabulary:
        return of(manifest.kinds[kind], array(name), array(f"{name}_offsets") if manifest.kinds[kind] == "string" else None)

    hashes = array("task_hash")
    tasks = ids("tasks", "task", HashedVocabulary)
    assert isinstance(tasks, HashedVocabulary)
    tasks.hashes = hashes
    return EncodedVotes(
        task_ptr=array("task_ptr"),
        row=array("row"),
        worker_ptr=np.array(array("worker_ptr")),
        row_label=np.array(array("row_label")),
        tasks=tasks,
        workers=ids("workers", "worker"),
        labels=ids("labels", "label"),
        unvoted=ids("unvoted", "task"),
        abstentions=manifest.abstentions,
        duplicates=manifest.duplicates,
        folder=where,
        shards=manifest.shards,
        task_hash=hashes,
        row_votes=np.array(array("row_votes")),
        identity=manifest.identity,
    )


def _part(ids: Vocabulary, cut: slice) -> Vocabulary:
    """Returns some of the ids, read from their file."""
    if ids.kind != "string":
        return Vocabulary(ids.kind, piece(ids.values, cut))
    offsets = piece(ids.offsets, slice(cut.start, cut.stop + 1))
    return Vocabulary("string", piece(ids.values, slice(int(offsets[0]), int(offsets[-1]))), offsets - offsets[0])
