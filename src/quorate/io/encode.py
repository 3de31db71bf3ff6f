"""Encoding: batches of votes become codes, codes become `Votes`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.bounds import freeze
from quorate.errors import InputError, MissingLabels, listed, shown
from quorate.io.assemble import assemble, assemble_compiled, check_duplicates, drop_duplicates
from quorate.io.coder import MISSING, ROLES, Coded, Coder, CompiledCoder, PolarsCoder
from quorate.io.ids import narrowed, prepared, sort_order
from quorate.kernels.core import compiled
from quorate.vocabulary import Kind, Vocabulary, text_of
from quorate.votes import FrameKind, Votes


class Encoder:
    """Takes votes batch by batch, in the caller's order, and makes `Votes` of them.

    `narrow` says that the source is text (CSV), where a column of whole numbers is meant as such.
    """

    def __init__(self, *, labels: Iterable[object] | None = None, duplicates: str = "all", narrow: bool = False) -> None:
        check_duplicates(duplicates)
        self._declared = None if labels is None else Vocabulary.of(labels, "label")
        self._duplicates = duplicates
        self._narrow = narrow
        self._rows = 0
        core = compiled()
        self._coder: Coder = PolarsCoder() if core is None else CompiledCoder(core, os.cpu_count() or 1)

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
        votes = votes_of(coded, self._declared, duplicates=self._duplicates, abstentions=missing, frame_kind=frame_kind)
        if missing:
            warnings.warn(f"{missing} of {self._rows} votes have no label: dropped as abstentions", MissingLabels, stacklevel=3)
        return votes


def votes_of(
    coded: Coded,
    declared: Vocabulary | None = None,
    *,
    duplicates: str = "all",
    abstentions: int = 0,
    frame_kind: FrameKind = "polars",
) -> Votes:
    """Returns the votes of these codes (which are used up), over the declared labels or those that occur."""
    if duplicates != "all":
        drop_duplicates(coded, duplicates)
    # Workers and labels are sorted, so that rows mean the same whatever the order of the votes.
    order = {role: sort_order(coded.ids[role]) for role in ("worker", "label")}
    if declared is None:
        labels, label_rank = coded.ids["label"].take(order["label"]), _rank(order["label"])
    else:
        labels, label_rank = declared, _declared_rank(coded, declared)
    worker_rank, n_tasks, core = _rank(order["worker"]), len(coded.ids["task"]), compiled()
    if core is None:
        arrays = assemble(coded.codes, n_tasks, worker_rank, label_rank, len(labels))
    else:
        threads = os.cpu_count() or 1
        arrays = assemble_compiled(core, coded.codes, n_tasks, worker_rank, label_rank, len(labels), threads)
    tasks, unvoted, task_ptr = _voted(coded.ids["task"], arrays.task_ptr)
    workers, _, worker_ptr = _voted(coded.ids["worker"].take(order["worker"]), arrays.worker_ptr)
    return Votes(
        task_ptr=freeze(task_ptr),
        row=freeze(arrays.row),
        worker_ptr=freeze(worker_ptr),
        row_label=freeze(arrays.row_label),
        tasks=tasks,
        workers=workers,
        labels=labels,
        unvoted=unvoted,
        abstentions=abstentions,
        frame_kind=frame_kind,
        duplicates="all" if duplicates == "error" else duplicates,
    )


def over_labels(votes: Votes, labels: Vocabulary, what: str, *, closed: bool = True) -> Votes:
    """Returns votes over labels that `what` (a saved model, a history) is over; these must hold all labels of the votes.

    Unless `closed`, votes whose labels hold all of the others stay as they are.
    """
    own, other = votes.labels.texts(), labels.texts()
    if own == other or (not closed and set(other) <= set(own)):
        return votes
    if not set(own) <= set(other):
        raise InputError(
            f"the {what} is over the labels {listed(labels.ids())}, the votes over {listed(votes.labels.ids())}: "
            "use the same labels for both (labels=… declares them)"
        )
    if hasattr(votes, "is_stored"):  # an encoded folder
        wider: Votes = _relabelled(votes, labels, what)
        return wider
    same_kind = _of_kind(labels, votes.labels.kind) if len(votes.labels) else labels
    elsewhere: Any = getattr(votes, "over", None)
    if elsewhere is not None:  # votes on Spark
        moved: Votes = elsewhere(same_kind)
        return moved
    place = np.repeat(np.arange(votes.n_tasks, dtype=np.uint32), np.diff(votes.task_ptr))
    worker = votes.row_worker().astype(np.uint32)[votes.row]
    codes = {"task": place, "worker": worker, "label": votes.row_label[votes.row].astype(np.uint32)}
    coded = Coded(codes, {"task": votes.tasks, "worker": votes.workers, "label": votes.labels})
    more = votes_of(coded, same_kind, abstentions=votes.abstentions, frame_kind=votes.frame_kind)
    return replace(more, unvoted=votes.unvoted, duplicates=votes.duplicates)


def _relabelled(votes: Any, labels: Vocabulary, what: str) -> Any:
    """Returns encoded votes over more labels; their rows stay as they are, so the order of their labels must."""
    place = labels.codes(votes.labels.texts())
    if (np.diff(place) < 0).any():
        raise InputError(
            f"the {what} has the labels in the order {listed(labels.ids())}, the encoded votes in {listed(votes.labels.ids())}: "
            "encode the votes with the labels declared in that order"
        )
    same_kind = _of_kind(labels, votes.labels.kind) if len(votes.labels) else labels
    return votes.with_fields(labels=same_kind, row_label=place[votes.row_label].astype(np.int32))


def _of_kind(labels: Vocabulary, kind: Kind) -> Vocabulary:
    """Returns labels as the caller of other votes writes them; as text where they cannot be."""
    texts = labels.texts()
    if labels.kind == kind:
        return labels
    if kind == "boolean" and set(texts) <= {text_of(False), text_of(True)}:
        return Vocabulary.of([text == text_of(True) for text in texts])
    return narrowed(Vocabulary.of_texts(texts)) if kind == "integer" else Vocabulary.of_texts(texts)


def _declared_rank(coded: Coded, declared: Vocabulary) -> NDArray[np.uint32]:
    """Returns the place of each label seen among the declared ones; one that is not is an error with its row."""
    rank = declared.codes(coded.ids["label"].ids())
    if (rank < 0).any():
        stranger = np.zeros(len(rank) + 1, np.bool_)
        stranger[:-1] = rank < 0
        row = int(np.argmax(stranger[np.minimum(coded.codes["label"], len(rank))]))
        value = coded.ids["label"][int(coded.codes["label"][row])]
        raise InputError(f"label {shown(value)} in row {row + 1} is not among the declared labels: {listed(declared.ids())}")
    return rank.astype(np.uint32)


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
