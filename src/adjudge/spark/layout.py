"""How votes are laid out on executors: a partition is one line, with its votes and the ids of its tasks as bytes.

Rows are numbered within the partition, and `rows` gives the row of the panel of each. So a partition with few workers needs
few lines of the table, and sends few counts. Tasks are sorted by id and votes by row: a partition that is lost and
computed again is the same to the last byte.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Gold, Votes, WorkerRows
from adjudge.engines.shard import NO_GOLD, hashes
from adjudge.errors import AdjudgeError, InputError, MissingLabels, itemize, quote
from adjudge.io.answers import gold_codes
from adjudge.io.encode import Encoder, sort_order
from adjudge.io.frames import column, match_ids, vocabulary
from adjudge.kernels import reference
from adjudge.kernels.cpu import fastest
from adjudge.spark.session import Frame, arrow_batches, ipc, plain_errors

MIN_PARTITION_VOTES: Final = 1 << 18  # a smaller partition is not worth its task
MAX_PARTITION_VOTES: Final = 1 << 21
FIT_FAILED: Final = "the fit on Spark failed"
SOURCE_CHANGED: Final = "the source gave other votes when it was read again: write it down first, or cache it"
COUNT_COLUMNS: Final = ("tasks", "votes", "unvoted", "gold")
PART_SCHEMA: Final = "".join(f"{name} bigint, " for name in COUNT_COLUMNS) + "problem string, part binary, ids binary"


class TaskPart(NamedTuple):
    """The votes of a partition's tasks, as arrays."""

    task_ptr: NDArray[np.int64]  # [tasks + 1]
    row: NDArray[np.uint32]  # [votes] the own row of each vote
    rows: NDArray[np.uint32]  # [own rows] the row of the panel
    task_hash: NDArray[np.uint64]  # [tasks] of the text of the id
    gold: NDArray[np.int32]  # [tasks] given labels, below 0 if there is none; or empty

    def keys(self, seed: int) -> NDArray[np.uint64]:
        """Return the keys by which ties are settled, [tasks]."""
        keys: NDArray[np.uint64] = fastest().tie_keys(self.task_hash.copy(), seed)
        return keys

    def recall(self, source: object) -> None:
        """Return None: bytes keep no labels."""

    def keep(self, source: object, labels: object) -> None:
        """Do nothing: bytes keep no labels."""

    def pack(self) -> bytes:
        """Return the arrays as bytes, each at a multiple of 8."""
        blocks = [np.array([len(array) for array in self], np.int64).tobytes()]
        for array in self:
            blocks.append(array.tobytes())
            blocks.append(bytes(-array.nbytes % 8))
        return b"".join(blocks)

    @classmethod
    def unpack(cls, data: bytes) -> TaskPart:
        """Return what `pack` made of a part, without copying it."""
        kinds = (np.int64, np.uint32, np.uint32, np.uint64, np.int32)
        lengths = np.frombuffer(data, np.int64, len(kinds))
        arrays, at = [], lengths.nbytes
        for kind, length in zip(kinds, lengths.tolist(), strict=True):
            arrays.append(np.frombuffer(data, kind, length, at))
            at += arrays[-1].nbytes + -arrays[-1].nbytes % 8
        return cls(*arrays)


@dataclass(frozen=True)
class Packing:
    """Makes a part of the record batches of a partition: task, worker and label; all votes of a task must be among them."""

    panel: WorkerRows
    duplicates: str
    with_gold: bool  # whether some lines give a task's label instead of a vote, as a code in the column `gold`

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield one record batch of one line, the part."""
        try:
            packed = self._pack_votes(batches)
        except AdjudgeError as error:  # sent as data: the message of an exception on an executor is hard to extract
            packed = self._nothing(str(error))
        yield from arrow_batches(pl.DataFrame([packed], schema=self.schema))

    @property
    def schema(self) -> dict[str, Any]:
        """The columns of a line."""
        return PART_DTYPES

    def _nothing(self, problem: str) -> dict[str, Any]:
        return {**dict.fromkeys(COUNT_COLUMNS, 0), "problem": problem, "part": b"", "ids": b""}

    def _pack_votes(self, batches: Iterator[Any]) -> dict[str, Any]:
        encoder = Encoder(labels=self.panel.labels.ids(), duplicates=self.duplicates)
        gold = []
        for batch in batches:
            frame = pl.DataFrame(batch)
            if self.with_gold:
                gold.append(frame.filter(pl.col("gold").is_not_null()).select("task", "gold"))
                frame = frame.filter(pl.col("gold").is_null())
            encoder.add(frame)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MissingLabels)  # the driver warns, once
            votes = encoder.finish()
        return self._line(votes, self._standards(pl.concat(gold)) if gold else None)

    def _standards(self, gold: pl.DataFrame) -> Gold:
        """Return the gold of a partition's tasks; two labels of one task are an error."""
        gold = gold.unique(maintain_order=True)
        twice = gold.filter(pl.col("task").is_duplicated())
        if len(twice):
            task = twice["task"][0]
            codes = twice.filter(pl.col("task") == task)["gold"]
            labels = itemize(self.panel.labels[code] for code in codes)
            raise InputError(f"the gold gives task {quote(str(task))} more than one label ({labels}): keep one per task")
        return Gold(vocabulary(gold["task"]), gold["gold"].to_numpy().astype(np.int32))

    def _line(self, votes: Votes, gold: Gold | None) -> dict[str, Any]:
        worker = match_ids(votes.workers, self.panel.workers)
        rows = self.panel.row_of(worker[votes.row_worker()], votes.row_label)
        if (worker < 0).any() or (rows < 0).any():
            raise AdjudgeError(SOURCE_CHANGED)
        codes = gold_codes(gold, votes.tasks) if gold is not None else self.no_gold(votes.n_tasks)
        return line(votes.tasks, votes.task_ptr, votes.row, rows.astype(np.uint32), votes.unvoted, codes)

    def no_gold(self, tasks: int) -> NDArray[np.int32] | None:
        """Return the gold of tasks that have none, [tasks]; None if no gold was given."""
        return np.full(tasks, NO_GOLD, np.int32) if self.with_gold else None


PART_DTYPES: Final = {
    **dict.fromkeys(COUNT_COLUMNS, pl.Int64),
    "problem": pl.String,
    **dict.fromkeys(("part", "ids"), pl.Binary),
}


def lines(votes: Votes, pieces: list[slice], gold: NDArray[np.int32] | None) -> Iterator[dict[str, Any]]:
    """Yield votes in memory as lines of `PART_SCHEMA`, one per slice of tasks; the last also has the tasks without votes."""
    nobody = votes.tasks.take(np.zeros(0, np.int64))
    for piece in pieces:
        ptr = votes.task_ptr[piece.start : piece.stop + 1]
        rows, own = np.unique(votes.row[ptr[0] : ptr[-1]], return_inverse=True)
        tasks = votes.tasks.take(np.arange(piece.start, piece.stop))
        unvoted = votes.unvoted if piece is pieces[-1] else nobody
        yield line(tasks, ptr - ptr[0], own.astype(np.uint32), rows, unvoted, None if gold is None else gold[piece])


def line(
    tasks: Vocabulary,
    task_ptr: NDArray[np.int64],  # [tasks + 1]
    row: NDArray[np.uint32],  # [votes] own rows
    rows: NDArray[np.uint32],  # [own rows]
    unvoted: Vocabulary,
    gold: NDArray[np.int32] | None,  # [tasks]
) -> dict[str, Any]:
    """Return the votes of some tasks as a line of `PART_SCHEMA`."""
    order = sort_order(tasks).astype(np.int64)
    tasks, unvoted = tasks.take(order), unvoted.take(sort_order(unvoted))
    given = np.zeros(0, np.int32) if gold is None else gold[order]
    part = TaskPart(*reference.select(task_ptr, row, order), rows, hashes(fastest(), tasks), given)
    return {
        "tasks": len(tasks),
        "votes": len(row),
        "unvoted": len(unvoted),
        "gold": int((given >= 0).sum()),
        "problem": None,
        "part": part.pack(),
        "ids": ipc(pl.DataFrame({"task": pl.concat([column(tasks), column(unvoted)])})),
    }


def ids_of(data: bytes) -> pl.Series:
    """Return the ids of a part: of its tasks, then of tasks without votes."""
    return pl.read_ipc(data)["task"]


class Size(NamedTuple):
    """What is stored on the executors."""

    tasks: int
    votes: int
    unvoted: int
    gold: int  # tasks among them


def partitions_for(votes: int, context: Any, max_votes: int = MAX_PARTITION_VOTES) -> int:
    """Return the number of partitions for a number of votes."""
    cores: int = context.defaultParallelism
    return max(1, min(cores, votes // MIN_PARTITION_VOTES), votes // max_votes)


def size_of(packed: Frame, votes: int, release: Callable[[], None]) -> Size:
    """Return the size of the layout; raise the error of a failed partition, or if the number of votes changed."""
    with plain_errors(FIT_FAILED):
        lines = packed.select(*COUNT_COLUMNS, "problem").collect()
    for row in lines:
        if row["problem"] is not None:
            release()
            raise InputError(row["problem"])
    size = Size(*(sum(row[name] for row in lines) for name in COUNT_COLUMNS))
    if size.votes != votes:
        raise AdjudgeError(SOURCE_CHANGED)
    return size
