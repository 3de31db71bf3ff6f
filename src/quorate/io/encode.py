"""Encoding: batches of votes become codes, codes become `Votes`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, MissingLabels, OptionError, listed, shown
from quorate.io.assemble import Arrays, assemble, assemble_compiled, drop_duplicates
from quorate.io.coder import MISSING, ROLES, Coded, Coder, CompiledCoder, PolarsCoder
from quorate.io.ids import narrowed, prepared, sort_order
from quorate.kernels.core import compiled
from quorate.vocabulary import Vocabulary
from quorate.votes import FrameKind, Votes

DUPLICATES = ("all", "last", "first", "error")


class Encoder:
    """Takes votes batch by batch, in the caller's order, and makes `Votes` of them.

    `narrow` says that the source is text (CSV), where a column of whole numbers is meant as such.
    """

    def __init__(self, *, labels: Iterable[object] | None = None, duplicates: str = "all", narrow: bool = False) -> None:
        if duplicates not in DUPLICATES:
            raise OptionError(f"duplicates is {shown(duplicates)}: choose one of {listed(DUPLICATES)}")
        if isinstance(labels, str):
            raise OptionError(f"labels is {shown(labels)}: give a list of labels")
        self._declared = None if labels is None else Vocabulary.of(labels, "label")
        self._duplicates = duplicates
        self._narrow = narrow
        self._rows = 0
        self._threads = os.cpu_count() or 1
        self._core = compiled()
        self._coder: Coder = PolarsCoder() if self._core is None else CompiledCoder(self._core, self._threads)

    def add(self, batch: pl.DataFrame) -> None:
        """Takes a batch with the columns task, worker and label."""
        keep = self._coder.takes_categories
        columns = {role: prepared(batch[role], role, self._rows, keep_categories=keep) for role in ROLES}
        for role in ("task", "worker"):
            if columns[role].null_count():
                row = self._rows + int(columns[role].is_null().arg_true()[0]) + 1
                raise InputError(f"{role} is missing in row {row}: every vote needs a {role}")
        self._coder.add(pl.DataFrame(columns))
        self._rows += len(batch)

    def finish(self, frame_kind: FrameKind = "polars") -> Votes:
        """Returns all votes taken so far; warns when some had no label."""
        coded = self._coder.finish()
        missing = int(np.count_nonzero(coded.codes["label"] == MISSING))
        if self._narrow:
            coded = Coded(coded.codes, {role: narrowed(ids) for role, ids in coded.ids.items()})
        if self._duplicates != "all":
            drop_duplicates(coded, self._duplicates)
        # Workers and labels are sorted, so that rows mean the same whatever the order of the votes.
        order = {role: sort_order(coded.ids[role]) for role in ("worker", "label")}
        if self._declared is None:
            labels, label_rank = coded.ids["label"].take(order["label"]), _rank(order["label"])
        else:
            labels, label_rank = self._declared, self._declared_rank(coded)
        tasks, workers = coded.ids["task"], coded.ids["worker"].take(order["worker"])
        arrays = self._assemble(coded, _rank(order["worker"]), label_rank, len(labels))
        if missing:
            warnings.warn(f"{missing} of {self._rows} votes have no label: dropped as abstentions", MissingLabels, stacklevel=3)
        return _votes(arrays, tasks, workers, labels, missing, frame_kind)

    def _assemble(self, coded: Coded, worker_rank: NDArray[np.uint32], label_rank: NDArray[np.uint32], n_labels: int) -> Arrays:
        n_tasks = len(coded.ids["task"])
        if self._core is None:
            return assemble(coded.codes, n_tasks, worker_rank, label_rank, n_labels)
        return assemble_compiled(self._core, coded.codes, n_tasks, worker_rank, label_rank, n_labels, self._threads)

    def _declared_rank(self, coded: Coded) -> NDArray[np.uint32]:
        """Returns the place of each label seen among the declared ones; one that is not is an error with its row."""
        assert self._declared is not None
        rank = self._declared.codes(coded.ids["label"].ids())
        if (rank < 0).any():
            stranger = np.zeros(len(rank) + 1, np.bool_)
            stranger[:-1] = rank < 0
            row = int(np.argmax(stranger[np.minimum(coded.codes["label"], len(rank))]))
            value = coded.ids["label"][int(coded.codes["label"][row])]
            raise InputError(
                f"label {shown(value)} in row {row + 1} is not among the declared labels: {listed(self._declared.ids())}"
            )
        return rank.astype(np.uint32)


def _votes(
    arrays: Arrays, tasks: Vocabulary, workers: Vocabulary, labels: Vocabulary, abstentions: int, frame_kind: FrameKind
) -> Votes:
    """Returns the votes of these arrays, with tasks and workers left without a vote set apart."""
    tasks, unvoted, task_ptr = _voted(tasks, arrays.task_ptr)
    workers, _, worker_ptr = _voted(workers, arrays.worker_ptr)
    return Votes(
        task_ptr=task_ptr,
        row=arrays.row,
        worker_ptr=worker_ptr,
        row_label=arrays.row_label,
        tasks=tasks,
        workers=workers,
        labels=labels,
        unvoted=unvoted,
        abstentions=abstentions,
        frame_kind=frame_kind,
    )


def _voted(ids: Vocabulary, ptr: NDArray[np.int64]) -> tuple[Vocabulary, Vocabulary, NDArray[np.int64]]:
    """Returns the ids that have something, those that have nothing, and where the things of the former begin."""
    has = ptr[1:] > ptr[:-1]
    if has.all():
        return ids, ids.take(np.zeros(0, np.int64)), ptr
    return ids.take(np.flatnonzero(has)), ids.take(np.flatnonzero(~has)), np.concatenate([ptr[:-1][has], ptr[-1:]])


def _rank(order: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Returns the place of each code in this order, [n]."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank
