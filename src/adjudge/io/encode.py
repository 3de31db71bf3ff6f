"""Encoding: batches of votes become codes, codes become the arrays of `Votes`, sorted by task and row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.bounds import freeze
from adjudge.data.exact import LOG_UNIT
from adjudge.data.vocabulary import Kind, Vocabulary, text_of
from adjudge.data.votes import FrameKind, Votes
from adjudge.errors import InputError, OptionError, listed, shown, undeclared, warn_abstentions
from adjudge.io.dictionary import MISSING, ROLES, Coded, Coder, CompiledCoder, PolarsCoder, threads_for
from adjudge.io.ids import narrowed, prepared, require_present, sort_order
from adjudge.io.weights import ONE, weight_units, weights_of, with_weights
from adjudge.kernels.cpu import compiled, cores

Codes = NDArray[np.uint32]
DUPLICATES = ("all", "last", "first", "error")


class Arrays(NamedTuple):
    """The arrays of `Votes`; a task or a worker may have no vote."""

    task_ptr: NDArray[np.int64]
    row: NDArray[np.uint32]
    worker_ptr: NDArray[np.int64]
    row_label: NDArray[np.int32]


def assemble(
    codes: dict[str, Codes],  # role -> [votes], in input order; a MISSING label is no vote
    n_tasks: int,
    worker_rank: Codes,  # [workers] the place of each worker's code in the final order
    label_rank: Codes,  # [labels] likewise
    n_labels: int,
) -> Arrays:
    """Return the votes of these codes: the definition, in NumPy."""
    given = codes["label"] != MISSING
    task = codes["task"][given].astype(np.int64)
    worker = worker_rank[codes["worker"][given]].astype(np.int64)
    label = label_rank[codes["label"][given]].astype(np.int64)
    rows, row = np.unique(worker * max(n_labels, 1) + label, return_inverse=True)
    row_worker, row_label = np.divmod(rows, max(n_labels, 1))
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    return Arrays(
        task_ptr,
        row[np.lexsort((row, task))].astype(np.uint32),
        np.searchsorted(row_worker, np.arange(len(worker_rank) + 1)).astype(np.int64),
        row_label.astype(np.int32),
    )


def assemble_compiled(
    core: ModuleType, codes: dict[str, Codes], n_tasks: int, worker_rank: Codes, label_rank: Codes, n_labels: int, threads: int
) -> Arrays:
    """Return what `assemble` does, by counting sort over threads; the codes of worker and label are overwritten."""
    row = codes["worker"]
    task_ptr, n_votes, worker_ptr, row_label = core.assemble(
        codes["task"], row, codes["label"], n_tasks, worker_rank, label_rank, n_labels, threads
    )
    return Arrays(task_ptr, row[:n_votes], worker_ptr, row_label)


def check_duplicates(rule: str) -> None:
    """Raise unless this is a rule for repeated votes."""
    if rule not in DUPLICATES:
        raise OptionError(f"duplicates is {shown(rule)}: choose one of {listed(DUPLICATES)}")


def drop_duplicates(coded: Coded, duplicates: str) -> int:
    """Mark a worker's repeated votes on a task as MISSING, all but the last or all but the first; return how many."""
    given = np.flatnonzero(coded.codes["label"] != MISSING)
    task, worker = coded.codes["task"][given], coded.codes["worker"][given]
    pair = task.astype(np.int64) * max(len(coded.ids["worker"]), 1) + worker
    if duplicates == "last":
        pair, given = pair[::-1], given[::-1]
    distinct, first = np.unique(pair, return_index=True)
    if len(distinct) == len(pair):
        return 0
    again = np.ones(len(pair), np.bool_)
    again[first] = False
    if duplicates == "error":
        vote = int(given[np.argmax(again)])
        _refuse(coded.ids["task"], coded.ids["worker"], coded.codes["task"][vote], coded.codes["worker"][vote])
    coded.codes["label"][given[again]] = MISSING
    return int(again.sum())


def _refuse(tasks: Vocabulary, workers: Vocabulary, task: np.uint32, worker: np.uint32) -> None:
    raise InputError(
        f"worker {shown(workers[int(worker)])} voted more than once on task {shown(tasks[int(task)])}: "
        "choose duplicates='all', 'last' or 'first'"
    )


class Encoder:
    """Takes votes batch by batch, in the caller's order, and makes `Votes` of them.

    `narrow` says that the source is text (CSV), where a column of digits means whole numbers.
    """

    def __init__(self, *, labels: Iterable[object] | None = None, duplicates: str = "all", narrow: bool = False) -> None:
        check_duplicates(duplicates)
        self._declared = None if labels is None else Vocabulary.of(labels, "label").declared()
        self._duplicates = duplicates
        self._narrow = narrow
        self._rows = 0
        self._units: list[NDArray[np.int64]] = []  # of the weights, where there are some
        self.dropped = 0  # repeated votes that do not count, known in the end
        core = compiled()
        self._coder: Coder = PolarsCoder() if core is None else CompiledCoder(core, cores())

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch with the columns task, worker and label, and weight where votes have weights; 0 is an abstention."""
        keep = self._coder.takes_categories
        columns = {role: prepared(batch[role], role, self._rows, keep_categories=keep) for role in ROLES}
        for role in ("task", "worker"):
            require_present(columns[role], role, self._rows)
        if "weight" in batch.columns:
            self._units.append(weight_units(batch["weight"], columns["label"], self._rows))
        self._coder.add(pl.DataFrame(columns))
        self._rows += len(batch)

    def finish(self, frame_kind: FrameKind = "polars", *, warn: bool = True) -> Votes:
        """Return all votes added so far; warn if some had no label, unless the caller expects that."""
        # Repeated votes are dropped here, and not in `votes_of`, to know how many there are.
        coded = self._coder.finish()
        units = np.concatenate(self._units) if self._units else None
        if units is not None:
            coded.codes["label"][units == 0] = MISSING
        none = coded.codes["label"] == MISSING
        missing = int(np.count_nonzero(none))
        abstained = np.bincount(coded.codes["worker"][none], minlength=len(coded.ids["worker"])) if missing else None
        if self._narrow:
            coded = Coded(coded.codes, {role: narrowed(ids) for role, ids in coded.ids.items()})
        if self._duplicates != "all":
            self.dropped = drop_duplicates(coded, self._duplicates)
        votes = votes_of(
            coded,
            self._declared,
            abstentions=missing,
            abstained=abstained,
            frame_kind=frame_kind,
            duplicates=self._duplicates,
            units=units,
        )
        if warn:
            warn_abstentions(missing, self._rows, weighted=units is not None)
        return votes


def votes_of(
    coded: Coded,
    declared: Vocabulary | None = None,
    *,
    duplicates: str = "all",
    abstentions: int = 0,
    abstained: NDArray[np.int64] | None = None,
    frame_kind: FrameKind = "polars",
    units: NDArray[np.int64] | None = None,
) -> Votes:
    """Return the votes of these codes (which are overwritten), over the declared labels or those that occur.

    `duplicates` is the rule that `drop_duplicates` has applied. `abstained` has the abstentions of each worker, [workers], by
    code; workers who did nothing else have no votes, and are left out. `units` has the weight of every vote (see
    `adjudge.io.weights`), [votes]; where all count once, votes have no weights.
    """
    # Workers and labels are sorted, so that rows mean the same whatever the order of the votes.
    order = {role: sort_order(coded.ids[role]) for role in ("worker", "label")}
    if declared is None:
        labels, label_rank = coded.ids["label"].take(order["label"]), _rank(order["label"])
    else:
        labels, label_rank = declared, _declared_rank(coded, declared)
    worker_rank, n_tasks, core = _rank(order["worker"]), len(coded.ids["task"]), compiled()
    codes, n_given, given = coded.codes, len(labels), None
    if units is not None and (units[codes["label"] != MISSING] != ONE).any():
        # A label with a weight is one of more labels; in the end its row has both.
        final = np.append(label_rank, MISSING)[np.minimum(codes["label"], len(label_rank))]
        cells, *given = with_weights(final, units)
        codes, n_given = codes | {"label": cells}, len(given[0])
        label_rank = np.arange(n_given, dtype=np.uint32)
    if core is None:
        arrays = assemble(codes, n_tasks, worker_rank, label_rank, n_given)
    else:
        threads = threads_for(len(codes["task"]), cores())
        arrays = assemble_compiled(core, codes, n_tasks, worker_rank, label_rank, n_given, threads)
    tasks, unvoted, task_ptr = _voted(coded.ids["task"], arrays.task_ptr)
    workers, _, worker_ptr = _voted(coded.ids["worker"].take(order["worker"]), arrays.worker_ptr)
    if abstained is not None:
        abstained = freeze(abstained[order["worker"]][arrays.worker_ptr[1:] > arrays.worker_ptr[:-1]])
    return Votes(
        task_ptr=freeze(task_ptr),
        row=freeze(arrays.row),
        worker_ptr=freeze(worker_ptr),
        row_label=freeze(arrays.row_label if given is None else given[0][arrays.row_label].astype(np.int32)),
        tasks=tasks,
        workers=workers,
        labels=labels,
        unvoted=unvoted,
        abstentions=abstentions,
        abstained=abstained,
        frame_kind=frame_kind,
        duplicates="all" if duplicates == "error" else duplicates,
        row_weight=None if given is None else freeze(weights_of(given[1][arrays.row_label])),
    )


def units_of_votes(votes: Votes) -> NDArray[np.int64] | None:
    """Return the weight of every vote in units, [votes]; None where all count once."""
    if votes.row_weight is None:
        return None
    return np.rint(votes.row_weight / LOG_UNIT).astype(np.int64)[votes.row]


def over_labels(votes: Votes, labels: Vocabulary, what: str, *, closed: bool = True) -> Votes:
    """Return the votes over the labels of `what` (a saved model, a history), which must include all labels of the votes.

    Unless `closed`, votes whose labels include all of these stay unchanged.
    """
    own, other = votes.labels.texts(), labels.texts()
    if own == other or (not closed and set(other) <= set(own)):
        return votes
    if not set(own) <= set(other):
        raise InputError(
            f"the {what} has the labels {listed(labels.ids())}, the votes have {listed(votes.labels.ids())}: "
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
    units = units_of_votes(votes)
    more = votes_of(coded, same_kind, abstentions=votes.abstentions, frame_kind=votes.frame_kind, units=units)
    same = {name: getattr(votes, name) for name in ("unvoted", "abstained", "duplicates", "understood")}
    return replace(more, **same)


def _relabelled(votes: Any, labels: Vocabulary, what: str) -> Any:
    """Return encoded votes over more labels; their rows do not change, so neither may the order of their labels."""
    place = labels.codes(votes.labels.texts())
    if (np.diff(place) < 0).any():
        raise InputError(
            f"the {what} has the labels in the order {listed(labels.ids())}, the encoded votes in {listed(votes.labels.ids())}: "
            "encode the votes with the labels declared in that order"
        )
    same_kind = _of_kind(labels, votes.labels.kind) if len(votes.labels) else labels
    return votes.with_fields(labels=same_kind, row_label=place[votes.row_label].astype(np.int32))


def _of_kind(labels: Vocabulary, kind: Kind) -> Vocabulary:
    """Return labels as ids of this kind; as text if they cannot be converted."""
    texts = labels.texts()
    if labels.kind == kind:
        return labels
    if kind == "boolean" and set(texts) <= {text_of(False), text_of(True)}:
        return Vocabulary.of([text == text_of(True) for text in texts])
    return narrowed(Vocabulary.of_texts(texts)) if kind == "integer" else Vocabulary.of_texts(texts)


def _declared_rank(coded: Coded, declared: Vocabulary) -> NDArray[np.uint32]:
    """Return the index of each label seen among the declared ones; an undeclared label is an error that names its row."""
    rank = declared.codes(coded.ids["label"].ids())
    if (rank < 0).any():
        stranger = np.zeros(len(rank) + 1, np.bool_)
        stranger[:-1] = rank < 0
        row = int(np.argmax(stranger[np.minimum(coded.codes["label"], len(rank))]))
        value = coded.ids["label"][int(coded.codes["label"][row])]
        raise undeclared(value, declared.ids(), f" in row {row + 1}")
    return rank.astype(np.uint32)


def _voted(ids: Vocabulary, ptr: NDArray[np.int64]) -> tuple[Vocabulary, Vocabulary, NDArray[np.int64]]:
    """Return the ids that have items, those that have none, and where the items of the former begin."""
    has = ptr[1:] > ptr[:-1]
    if has.all():
        return ids, ids.take(np.zeros(0, np.int64)), ptr
    return ids.take(np.flatnonzero(has)), ids.take(np.flatnonzero(~has)), np.concatenate([ptr[:-1][has], ptr[-1:]])


def _rank(order: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Return the rank of each code in this order, [n]."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank
