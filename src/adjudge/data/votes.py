"""Votes as arrays: for every task the rows, (worker, given label) pairs, that were cast on it; gold, weights and provenance.

Votes of one worker for one label that have different weights are in different rows. Passes see rows: the line of a row is the
line of its pair times its weight, and a row's count is a number of votes. Models see pairs: the count of a pair is the sum of
weight x count over its rows. So neither kernels nor models know of weights, and counts of votes stay whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT, round_to_unit
from adjudge.data.vocabulary import (
    Vocabulary,
    ensure_frozen,
    freeze,
    require_array,
    require_below,
    require_offsets,
    require_sorted,
)
from adjudge.data.wide import Cells
from adjudge.errors import InputError, OptionError, choice_error, make_visible, quote

NOT_COUNTED: Final = -1
NO_WORKER_COLUMN: Final = "(absent)"  # as the worker's column: votes do not say who gave them


@dataclass(frozen=True)
class Understood:
    """How a source of votes was read; `str()` of it is one line.

    Examples
    --------
    >>> print(Understood("table (csv)", {"task": "item", "worker": "judge", "label": "score"}, votes=5, repeated=1))
    table (csv): task=item, worker=judge, label=score; 5 votes, 1 repeated vote

    """

    format: str  # "table (csv)", "pandas frame", "tuples", …
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column; empty where columns have no names
    votes: int = 0  # that count
    abstentions: int = 0  # votes without a label, which do not count
    repeated: int = 0  # votes beyond the first of a worker on a task, counted or dropped; -1 if nobody has counted them
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> lines left out
    gold: int = 0  # answers of the source that were taken as gold, not as votes
    resent: int = 0  # votes that equal another in task, worker, label and time, and do not count again
    duplicates: str = "all"  # which repeated votes count
    ordered_by: str = ""  # the column of times that decides which one is the last or first; empty if lines decide

    def __post_init__(self) -> None:
        for name in ("columns", "skipped"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:  # views of dicts cannot be pickled
        return Understood, tuple(self.summary().values())

    def __str__(self) -> str:
        columns = ", ".join(f"{role}={make_visible(name)}" for role, name in self.columns.items())
        return f"{self.format}{': ' if columns else ''}{columns}; {self.counts()}"

    def counts(self) -> str:
        """Return the counts of votes, abstentions and other rows, in words."""
        numbers = {"vote": self.votes, "abstention": self.abstentions, "repeated vote": self.repeated, "gold answer": self.gold}
        said = [f"{n} {what}{'' if n == 1 else 's'}" for what, n in numbers.items() if n > 0 or what == "vote"]
        if self.repeated > 0 and self.duplicates in ("last", "first"):
            by = f"by {make_visible(self.ordered_by)}" if self.ordered_by else "in the input"
            said = [f"{part} (the {self.duplicates} {by} counts)" if "repeated" in part else part for part in said]
        said += [f"{self.resent} sent twice (same time) and counted once"] if self.resent else []
        said += [f"{count} skipped ({make_visible(reason)})" for reason, count in self.skipped.items()]
        return ", ".join(said)

    @property
    def has_workers(self) -> bool:
        """Whether votes have workers; majority vote does not need them."""
        return self.columns.get("worker") != NO_WORKER_COLUMN

    def table_columns(self) -> dict[str, str]:
        """Return the columns of task, worker and label of a table; none of an export, whose fields are those of its tool."""
        columns = {role: self.columns.get(role, NO_WORKER_COLUMN) for role in ("task", "worker", "label")}
        is_table = any(kind in self.format for kind in ("table", "frame", "columns", "records"))
        return columns if is_table and NO_WORKER_COLUMN not in columns.values() else {}

    def summary(self) -> dict[str, Any]:
        """Return every field as plain Python values, ready for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: dict(value) if isinstance(value, MappingProxyType) else value for name, value in values.items()}


@dataclass
class Notes:
    """A source being read: fields are filled when its first lines are, and final with its last."""

    format: str
    columns: Mapping[str, str] = field(default_factory=dict)  # role -> column
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> lines left out
    gold: int = 0  # answers taken as gold
    has_workers: bool = True  # whether votes say who gave them
    export: str = ""  # the format of an export that was recognised
    ignored: str | None = None  # a column that looks like weights or counts, and is not used
    resent: int = 0  # votes that equal another in task, worker, label and time
    duplicates: str = "all"  # which repeated votes count
    ordered_by: list[str] = field(default_factory=list)  # the column of times that decides which one is the last or first
    undated: int = 0  # repeated votes whose times cannot be compared

    def understood(self, *, votes: int, abstentions: int, repeated: int) -> Understood:
        """Return what was understood in the end; without workers no vote is a repeated one.

        >>> print(Notes("tuples").understood(votes=2, abstentions=1, repeated=0))
        tuples; 2 votes, 1 abstention
        """
        repeated = repeated if self.has_workers else 0
        known = (votes, abstentions, repeated, self.skipped, self.gold, self.resent, self.duplicates)
        return Understood(self.format, self.columns, *known, *(self.ordered_by if self.undated < repeated else ()))


FrameKind = Literal["polars", "pandas", "pyarrow"]


class ReadableItems(Protocol):
    """Where the content of tasks is, which is read when somebody asks for it."""

    def native(self, kind: FrameKind) -> Any:
        """Return the content of all tasks as a frame of this kind."""
        ...


COUNT_CHUNK_VOTES: Final = 1 << 18  # votes counted at once
DUPLICATE_CHOICES: Final = ("all", "last", "first")  # of a worker's votes on one task
MOST_WEIGHT: Final = 1e6  # of a vote
VOTE_ARRAYS: Final = ("task_ptr", "row", "worker_ptr", "row_label", "row_weight", "abstained")


@dataclass(frozen=True, eq=False)
class Gold:
    """Tasks and the code of the label of each."""

    tasks: Vocabulary
    labels: NDArray[np.int32]  # [gold tasks] codes

    def __post_init__(self) -> None:
        require_array("labels", self.labels, np.int32, (len(self.tasks),))

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False, kw_only=True)
class WorkerRows:
    """Workers and the labels they give: all that an M-step needs of votes, wherever they are stored.

    A *row* is a pair (worker, given label) that occurs in the data. Rows are sorted by worker, then label, so
    `row_label[worker_ptr[w]:worker_ptr[w + 1]]` are the labels that worker `w` has given at all. Votes with weights have a
    row per (worker, given label, weight); see the module.
    """

    worker_ptr: NDArray[np.int64]  # [workers + 1] where each worker's rows begin
    row_label: NDArray[np.int32]  # [rows] the label given
    workers: Vocabulary
    labels: Vocabulary
    row_weight: NDArray[np.float64] | None = None  # [rows] what a vote of the row counts; None: 1
    engine: ClassVar[str | None] = None  # the engine that holds the votes, if that is not this process

    @property
    def n_workers(self) -> int:
        """The number of workers that have votes."""
        return len(self.worker_ptr) - 1

    @property
    def n_labels(self) -> int:
        """The number of labels (K), declared or seen."""
        return len(self.labels)

    @property
    def n_rows(self) -> int:
        """The number of (worker, given label) pairs that occur."""
        return len(self.row_label)

    def row_worker(self) -> NDArray[np.int64]:
        """Return the worker of each row, [rows]."""
        return np.repeat(np.arange(self.n_workers), np.diff(self.worker_ptr))

    def row_of(self, worker: NDArray[np.integer], label: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the row of each (worker, given label) pair, [pairs]; -1 if it does not occur.

        Parameters
        ----------
        worker, label : array of integer
            Codes of the pairs, shape (pairs,).

        """
        k = max(self.n_labels, 1)
        rows = self.row_worker() * k + self.row_label
        wanted = worker.astype(np.int64) * k + label
        place = np.searchsorted(rows, wanted)
        found = np.zeros(len(wanted), np.bool_)
        within = place < len(rows)
        found[within] = rows[place[within]] == wanted[within]
        return np.where(found, place, -1)

    def given_labels(self) -> NDArray[np.bool_]:
        """Return which labels anybody has given, [K]."""
        out = np.zeros(self.n_labels, np.bool_)
        out[self.row_label] = True
        return out

    def by_worker(self, by_row: NDArray[Any] | Cells) -> NDArray[Any]:
        """Return the sum over each worker's rows, [workers, …], of values per row, [rows, …].

        Parameters
        ----------
        by_row : array of Any or Cells
            One value or line of values per row.

        """
        if isinstance(by_row, Cells):
            return by_row.by_worker(self)
        starts = self.worker_ptr[:-1]
        return np.add.reduceat(by_row, starts, axis=0) if len(starts) else by_row


def require_panel(panel: WorkerRows) -> None:
    """Raise unless the arrays of a panel are as documented, and every worker and label has its own id."""
    workers, labels, row_weight = panel.workers, panel.labels, panel.row_weight
    for name, ids in (("workers", workers), ("labels", labels)):
        if not isinstance(ids, Vocabulary):
            raise InputError(f"{name} is {quote(ids)} of type {type(ids).__name__}: give a Vocabulary")
    row_label = require_array("row_label", panel.row_label, np.int32)
    worker_ptr = require_array("worker_ptr", panel.worker_ptr, np.int64)
    require_offsets("worker_ptr", worker_ptr, len(row_label), strictly=True)
    require_below("row_label", row_label, len(labels))
    require_sorted("row_label", row_label, worker_ptr, strictly=row_weight is None)
    if row_weight is not None:
        require_weights("row_weight", require_array("row_weight", row_weight, np.float64, (len(row_label),)))
        same = row_label[1:] == row_label[:-1]
        same[worker_ptr[1:-1] - 1] = False  # the next row belongs to another worker
        wrong = same & (row_weight[1:] <= row_weight[:-1])
        if wrong.any():
            at = int(np.argmax(wrong)) + 1
            raise InputError(
                f"row_weight holds {row_weight[at]} after {row_weight[at - 1]} at index {at}: rows of one worker and label "
                "must be sorted by weight, and distinct"
            )
    if len(workers) != len(worker_ptr) - 1:
        raise InputError(f"workers has {len(workers)} ids, but worker_ptr describes {len(worker_ptr) - 1}: give one for each")


def require_weights(name: str, weights: NDArray[np.float64]) -> None:
    """Raise unless every weight is above 0 and at most `MOST_WEIGHT`: a vote without weight is an abstention.

    >>> require_weights("row_weight", np.array([0.5, 0.0]))
    Traceback (most recent call last):
    adjudge.errors.InputError: row_weight holds 0.0 at index 1: give numbers above 0 and at most 1e+06
    """
    wrong = ~((weights > 0) & (weights <= MOST_WEIGHT))  # NaN is neither
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"{name} holds {weights[at]} at index {at}: give numbers above 0 and at most {MOST_WEIGHT:g}")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Votes(WorkerRows):
    """All votes, sorted by task (in order of first appearance), within a task by row.

    `adjudge.read` returns them; arrays from a caller are checked in full, and copied unless they are read-only.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = adj.read([("t1", "ann", "cat"), ("t1", "bob", "dog"), ("t2", "ann", "cat")])
    >>> votes
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> votes.task_ptr.tolist(), votes.row.tolist()
    ([0, 2, 3], [0, 1, 0])

    """

    task_ptr: NDArray[np.int64]  # [tasks + 1] where each task's votes begin
    row: NDArray[np.uint32]  # [votes] the row of each vote
    tasks: Vocabulary
    unvoted: Vocabulary  # tasks whose every vote was an abstention
    abstentions: int = 0
    abstained: NDArray[np.int64] | None = None  # [workers] abstentions of each; None if nobody has counted them
    frame_kind: FrameKind = "polars"  # the caller's own kind of frame; results come back in it
    duplicates: str = "all"  # which of a worker's votes on one task counted: all, last or first
    found_gold: Gold | None = None  # labels that the source itself gives; `aggregate` learns from them unless given others
    understood: Understood | None = None  # what reading made of their source; None for votes that were not read
    item_source: ReadableItems | None = None  # where the content of tasks is; None if nothing has any

    def __post_init__(self) -> None:
        for name in VOTE_ARRAYS:
            array = getattr(self, name)
            if isinstance(array, np.ndarray):
                object.__setattr__(self, name, ensure_frozen(array))
        self._require()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for name in VOTE_ARRAYS:
            freeze(getattr(self, name))  # None stays as it is
        self._require()

    def _require(self) -> None:
        """Raise unless every array is valid."""
        self._require_ids()
        row, task_ptr = require_array("row", self.row, np.uint32), require_array("task_ptr", self.task_ptr, np.int64)
        if isinstance(self.tasks, Vocabulary) and len(task_ptr) and len(self.tasks) != self.n_tasks:
            raise InputError(f"tasks has {len(self.tasks)} ids, but task_ptr describes {self.n_tasks}: give one for each")
        require_below("row", row, self.n_rows)
        require_offsets("task_ptr", task_ptr, len(row), strictly=True)
        require_sorted("row", row, task_ptr)

    def _require_ids(self) -> None:
        """Raise unless rows, ids and figures are valid."""
        require_panel(self)
        for name in ("tasks", "unvoted", "workers", "labels"):
            ids = getattr(self, name)
            if not isinstance(ids, Vocabulary):
                raise InputError(f"{name} is {quote(ids)} of type {type(ids).__name__}: give a Vocabulary")
            ids.require_distinct(name)
        if len(self.unvoted) and len(self.tasks) and self.unvoted.kind != self.tasks.kind:
            raise InputError(f"unvoted holds ids of kind {self.unvoted.kind}, tasks of kind {self.tasks.kind}: use one kind")
        if self.frame_kind not in get_args(FrameKind):
            raise choice_error("frame_kind", self.frame_kind, get_args(FrameKind))
        if self.duplicates not in DUPLICATE_CHOICES:
            raise choice_error("duplicates", self.duplicates, DUPLICATE_CHOICES)
        if not isinstance(self.abstentions, int | np.integer) or isinstance(self.abstentions, bool) or self.abstentions < 0:
            raise InputError(f"abstentions is {quote(self.abstentions)}: give a whole number of at least 0")
        if self.abstained is not None:
            counted = require_array("abstained", self.abstained, np.int64, (self.n_workers,))
            require_below("abstained", counted, int(self.abstentions) + 1)
        if self.understood is not None and not isinstance(self.understood, Understood):
            raise InputError(f"understood is {quote(self.understood)}: give an Understood, or None")

    def __len__(self) -> int:
        return len(self.row)

    def __repr__(self) -> str:
        return (
            f"Votes({len(self)} votes, {self.n_tasks} tasks, {self.n_workers} workers, "
            f"{self.n_labels} labels, {self.n_rows} rows{'' if self.row_weight is None else ', weighted'})"
        )

    def plain(self, **changes: Any) -> Votes:
        """Return the same votes as arrays in memory, with some fields replaced and everything checked again.

        Parameters
        ----------
        **changes : object
            New values by field name.

        """
        return Votes(**{f.name: getattr(self, f.name) for f in fields(Votes)} | changes)

    def with_fields(self, **changes: Any) -> Self:
        """Return the same votes with some fields replaced, unchecked; the other arrays are shared.

        Parameters
        ----------
        **changes : object
            New values by field name.

        """
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__ | changes)
        return out

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have votes."""
        return len(self.task_ptr) - 1

    @property
    def items(self) -> Any:
        """The items: a frame with the task's id as text, and a column of text for each part of the item.

        It is read from the votes' source on access, from formats that contain items or from the columns that `show` names. None
        if there is neither.

        Examples
        --------
        >>> import adjudge as adj
        >>> votes = adj.read({"task": [1, 1], "worker": ["a", "b"], "label": ["x", "y"], "body": ["hello"] * 2}, show="body")
        >>> votes.items.rows()
        [('1', 'hello')]

        """
        return None if self.item_source is None else self.item_source.native(self.frame_kind)

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return how many votes each row holds, [rows]."""
        out = np.zeros(self.n_rows, np.int64)
        # NumPy counts a copy in 64 bits: of some votes at a time, it is twice as fast as of all.
        size = max(COUNT_CHUNK_VOTES, 4 * self.n_rows)
        for start in range(0, len(self), size):
            out += np.bincount(self.row[start : start + size], minlength=self.n_rows)
        return out

    def votes_on(self, task: int) -> int:
        """Return the number of votes on a task.

        Parameters
        ----------
        task : int
            Code of the task.

        """
        return int(self.task_ptr[task + 1] - self.task_ptr[task])

    def votes_in(self, tasks: slice) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Return the votes of a range of tasks: where each task's votes begin, and the rows of the votes.

        Parameters
        ----------
        tasks : slice
            Codes of the tasks.

        """
        ptr = self.task_ptr[tasks.start : tasks.stop + 1]
        return ptr - ptr[0], self.row[ptr[0] : ptr[-1]]

    def without_workers(self, left_out: NDArray[np.bool_]) -> tuple[Votes, NDArray[np.int64]]:
        """Return the votes of the remaining workers, and the codes of the tasks that still have some.

        Parameters
        ----------
        left_out : array of bool_
            Shape (workers,): True for each worker to drop.

        """
        length, kept_row = np.diff(self.worker_ptr), ~left_out[self.row_worker()]
        kept_vote = kept_row[self.row]
        size = np.add.reduceat(kept_vote, self.task_ptr[:-1], dtype=np.int64) if self.n_tasks else np.zeros(0, np.int64)
        tasks = np.flatnonzero(size)
        rows = {
            "task_ptr": np.concatenate([[0], np.cumsum(size[tasks])]),
            "row": (np.cumsum(kept_row) - 1)[self.row[kept_vote]].astype(np.uint32),
            "worker_ptr": np.concatenate([[0], np.cumsum(length[~left_out])]),
            "row_label": self.row_label[kept_row],
            "row_weight": None if self.row_weight is None else self.row_weight[kept_row],
        }
        ids = {"workers": self.workers.take(np.flatnonzero(~left_out)), "tasks": self.tasks.take(tasks)}
        left = self.plain(**rows, **ids, abstentions=0, abstained=None, found_gold=None, understood=None)
        return left, tasks

    def parts(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint32]]]:
        """Yield (some tasks, where the votes of each begin, the votes' rows), in task order; in memory all at once."""
        yield slice(0, self.n_tasks), self.task_ptr, self.row

    def task_parts(self) -> Iterator[tuple[slice, Vocabulary, NDArray[np.int64]]]:
        """Yield (some tasks, their ids, how many votes each has), in task order; in memory all at once."""
        yield slice(0, self.n_tasks), self.tasks, np.diff(self.task_ptr)


def piece(array: NDArray[Any], cut: slice) -> NDArray[Any]:
    """Return part of an array; for a mapped array, a copy read from its file, so that its pages do not fill memory."""
    stored = getattr(array, "stored", None)  # see StoredArray.map; a view has none: it does not know its place
    out: NDArray[Any] = array[cut] if stored is None else stored[cut]
    return out


def abstention_rates(
    votes: NDArray[np.integer],  # [workers] of each
    abstentions: int,  # of all workers
    abstained: NDArray[np.int64] | None,  # [workers] of each; None if they were not counted by worker
) -> NDArray[np.float64] | None:
    """Return the share of what each worker was shown that got no label, [workers]; None if it is not known.

    >>> abstention_rates(np.array([3, 4]), 1, np.array([1, 0])).tolist()
    [0.25, 0.0]
    """
    if abstained is None:
        return None if abstentions else np.zeros(len(votes))
    shown_to = votes + abstained
    return abstained / np.where(shown_to > 0, shown_to, 1)


Floats = NDArray[np.float64]
DECIMALS: Final = 9  # of sums that people see
WEIGHT_REMEDY: Final = "leave the weight out"


@dataclass(frozen=True, eq=False)
class RowWeights:
    """The weights of the rows of votes, and the (worker, given label) pairs that the rows belong to."""

    panel: WorkerRows  # whose rows are the pairs
    starts: NDArray[np.int64]  # [pairs] the first row of each
    pair: NDArray[np.int64]  # [rows] the pair of each
    weight: Floats  # [rows]

    @classmethod
    def of(cls, votes: WorkerRows) -> RowWeights | None:
        """Return the weights of votes; None where every vote counts once."""
        weight = votes.row_weight
        if weight is None:
            return None
        worker, label = votes.row_worker(), votes.row_label
        first = np.ones(votes.n_rows, np.bool_)
        first[1:] = (worker[1:] != worker[:-1]) | (label[1:] != label[:-1])
        starts = np.flatnonzero(first)
        panel = WorkerRows(
            worker_ptr=np.searchsorted(starts, votes.worker_ptr).astype(np.int64),
            row_label=label[starts],
            workers=votes.workers,
            labels=votes.labels,
        )
        return cls(panel, starts, np.cumsum(first) - 1, weight)

    @property
    def worker_ptr(self) -> NDArray[np.int64]:
        """Where each worker's rows begin, [workers + 1]."""
        return np.append(self.starts, len(self.pair))[self.panel.worker_ptr]

    def pooled(self, by_row: NDArray[Any]) -> Floats:
        """Return the sum of weight x value over the rows of each pair, [pairs, …], of values per row, [rows, …].

        The rows of a pair are sorted by weight: the order of the sum does not depend on that of the votes.
        """
        weighted = by_row * self.weight.reshape(-1, *(1,) * (by_row.ndim - 1))
        return np.add.reduceat(weighted, self.starts, axis=0) if len(self.starts) else weighted.astype(np.float64)

    def lines(self, by_pair: Floats) -> Floats:
        """Return the lines of all rows, [rows, K]: those of their pairs, [pairs, K], times the weight."""
        return round_to_unit(by_pair[self.pair] * self.weight[:, None], LOG_UNIT)


def pairs_of(votes: Votes) -> WorkerRows:
    """Return the panel of (worker, given label) pairs: the votes' own where every vote counts once."""
    weights = RowWeights.of(votes)
    return votes if weights is None else weights.panel


def without_weights(votes: Votes) -> Votes:
    """Return the same votes, each of which counts once; votes on disk are read."""
    weights = RowWeights.of(votes)
    if weights is None:
        return votes
    panel, row = weights.panel, weights.pair.astype(np.uint32)[votes.row]
    rows = {"row": row, "worker_ptr": panel.worker_ptr, "row_label": panel.row_label, "row_weight": None}
    return votes.plain(**rows, abstained=None, found_gold=None)


def weight_sums(votes: Votes, task_ptr: NDArray[np.int64], row: NDArray[np.uint32]) -> Floats:
    """Return the sum of the weights of the votes of each task, [tasks], for some tasks of these votes (see `Votes.parts`).

    Sums are for people: what the unit of weights adds to them is rounded off.
    """
    assert votes.row_weight is not None
    some = votes.row_weight[row[task_ptr[0] : task_ptr[-1]]]
    sums = np.add.reduceat(some, task_ptr[:-1] - task_ptr[0]) if len(some) else np.zeros(len(task_ptr) - 1)
    return np.round(sums, DECIMALS)


def total_weight(votes: Votes) -> float | None:
    """Return the sum of the weights of all votes; None where every vote counts once."""
    return None if votes.row_weight is None else round(float(votes.votes_per_row() @ votes.row_weight), DECIMALS)


def require_unweighted(votes: WorkerRows, what: str, remedy: str = WEIGHT_REMEDY) -> None:
    """Raise where something that counts every vote once is given weighted votes."""
    if votes.row_weight is not None:
        raise weight_error(what, remedy)


def weight_error(what: str, remedy: str = WEIGHT_REMEDY) -> OptionError:
    """Return the error of a method that counts every vote once but is given weights.

    >>> print(weight_error("model 'glad'"))
    model 'glad' counts every vote once: leave the weight out
    """
    return OptionError(f"{what} counts every vote once: {remedy}")
