"""Encoding: batches of votes become codes, codes become the arrays of `Votes`, sorted by task and row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.data.vocabulary import Kind, Vocabulary, freeze, text_of
from adjudge.data.votes import MOST_WEIGHT, FrameKind, Votes
from adjudge.errors import InputError, itemize, label_error, quote, warn_abstentions
from adjudge.io.frames import WEIGHTS, column, id_columns, vocabulary
from adjudge.kernels.cpu import compiled, cores, fastest

ROLES: Final = ("task", "worker", "label")
MISSING_CODE: Final = np.uint32(0xFFFFFFFF)  # the code of a label that is not there
KIND_OF_DTYPE: Final[Mapping[pl.DataType, Kind]] = {pl.String(): "string", pl.Int64(): "integer", pl.Boolean(): "boolean"}
MAX_SORTED_TEXTS: Final = 1 << 10  # that are sorted before polars has begun
MIN_PARALLEL_VOTES: Final = 1 << 15  # votes that one thread encodes before others have begun

Codes = NDArray[np.uint32]
Integers = NDArray[np.int64]
WEIGHT_UNITS_PER_VOTE: Final = round(1 / LOG_UNIT)  # the units of a vote that counts once


class Coded(NamedTuple):
    """All votes as codes, in input order, and the ids behind them, in order of first appearance."""

    codes: dict[str, NDArray[np.uint32]]  # role -> [votes]; labels may be MISSING_CODE
    ids: dict[str, Vocabulary]


class Dictionary:
    """Gives every distinct id of a column a code in order of first appearance, batch by batch; missing ids get MISSING_CODE.

    With `core` the codes come from its hash tables; without it, by polars joins: the definition, and the fallback. A
    dictionary serves one thread at a time.

    >>> d = Dictionary("worker")
    >>> d.encode(pl.Series(["b", "a", "b"])).tolist(), d.encode(pl.Series(["c", "a"])).tolist()
    ([0, 1, 0], [2, 1])
    >>> d.vocabulary().ids()
    ['b', 'a', 'c']
    """

    def __init__(self, role: str, core: ModuleType | Literal["auto"] | None = "auto") -> None:
        self.role = role
        self.kind: Kind | None = None
        self._core: Any = compiled() if core == "auto" else core
        self._table: Any = None  # of the core, or a frame of ids and codes
        self._new: list[pl.Series] = []  # the distinct ids, in chunks
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def encode(self, ids: pl.Series) -> Codes:
        """Return the code of every id of a prepared series, [n]."""
        if ids.null_count() == len(ids):
            return np.full(len(ids), MISSING_CODE)
        kind = KIND_OF_DTYPE.get(ids.dtype, "string")  # categories are texts
        if self.kind is not None:
            require_same(self.role, self.kind, kind)
        self.kind = kind
        codes = self._encode_by_join(ids) if self._core is None else self._encode_in_core(ids)
        self._remember(ids, codes)
        return codes

    def ids(self, begin: int = 0) -> pl.Series:
        """Return the distinct ids with codes from `begin` on, in code order."""
        whole = pl.concat(self._new) if self._new else pl.Series([], dtype=pl.String)
        self._new = [whole]
        return whole[begin:]

    def vocabulary(self) -> Vocabulary:
        """Return the distinct ids, in code order."""
        return vocabulary(self.ids())

    def _encode_in_core(self, ids: pl.Series) -> Codes:
        if self._table is None:
            self._table = self._core.TextDictionary() if self.kind == "string" else self._core.IntDictionary()
        out = self._core.Codes()
        stream = self._core.Stream(ids.to_frame("id").__arrow_c_stream__())
        try:
            while (batch := stream.next()) is not None:
                self._core.encode(batch, [0], [self._table], [out], 1)
        except ValueError as error:  # more ids than codes
            raise InputError(f"too many {self.role}s: {error}") from error
        return cast(Codes, out.finish())

    def _encode_by_join(self, ids: pl.Series) -> Codes:
        batch = (ids.cast(pl.String) if self.kind == "string" else ids).to_frame("id")
        new = batch.drop_nulls().unique(maintain_order=True)
        if self._table is None:
            self._table = new.with_row_index("code")
        else:
            new = new.join(self._table, on="id", how="anti", maintain_order="left")
            self._table = self._table.extend(new.with_row_index("code", offset=len(self._table)))
        coded = batch.join(self._table, on="id", how="left", maintain_order="left")["code"]
        return coded.fill_null(int(MISSING_CODE)).to_numpy().astype(np.uint32, copy=False)

    def _remember(self, ids: pl.Series, codes: Codes) -> None:
        """Keep the ids that are new: those with codes from the old size on."""
        where = np.flatnonzero((codes >= self._size) & (codes != MISSING_CODE))
        if not len(where):
            return
        new, first = np.unique(codes[where], return_index=True)
        ids = ids.gather(where[first])
        self._new.append(ids.cast(pl.String) if self.kind == "string" else ids)
        self._size = int(new[-1]) + 1


class PolarsCoder:
    """Codes ids batch by batch: the definition, and the fallback, with a dictionary per role and no compiled core."""

    takes_categories = False

    def __init__(self) -> None:
        self._dictionaries = {role: Dictionary(role, core=None) for role in ROLES}
        self._codes: dict[str, list[Codes]] = {role: [] for role in ROLES}

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        for role in ROLES:
            self._codes[role].append(self._dictionaries[role].encode(batch[role]))

    def finish(self) -> Coded:
        """Return everything added; it is called once."""
        codes = {role: np.concatenate([np.zeros(0, np.uint32), *parts]) for role, parts in self._codes.items()}
        return Coded(codes, {role: dictionary.vocabulary() for role, dictionary in self._dictionaries.items()})


class CompiledCoder:
    """The same by hash tables in the compiled core, fed straight from Arrow buffers; the columns of a batch go to threads."""

    takes_categories = True

    def __init__(self, core: ModuleType, threads: int) -> None:
        self._core = core
        self._threads = threads
        self._kinds: dict[str, Kind] = {}
        self._dictionaries: dict[str, Any] = {}
        self._codes = {role: core.Codes() for role in ROLES}

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch of prepared columns; only labels may be missing."""
        stream = self._core.Stream(batch[list(ROLES)].__arrow_c_stream__())
        tables = []
        for role, kind in zip(ROLES, stream.kinds, strict=True):
            fitting = self._core.TextDictionary if kind in ("string", "null") else self._core.IntDictionary
            if kind == "null" or batch[role].null_count() == len(batch):
                tables.append(fitting())  # nothing but missing labels: of their own type, and forgotten
                continue
            require_same(role, self._kinds.setdefault(role, kind), kind)
            if role not in self._dictionaries:
                self._dictionaries[role] = fitting()
            tables.append(self._dictionaries[role])
        columns, threads = list(range(len(ROLES))), 1 if len(batch) < MIN_PARALLEL_VOTES else self._threads
        try:
            while (part := stream.next()) is not None:
                self._core.encode(part, columns, tables, [self._codes[role] for role in ROLES], threads)
        except ValueError as error:  # more ids than codes
            raise InputError(f"too much for one table of votes: {error}") from error

    def finish(self) -> Coded:
        """Return everything added so far, and discard it."""
        ids = dict.fromkeys(ROLES, Vocabulary.of_texts([]))
        for role, table in self._dictionaries.items():
            kind, values = self._kinds[role], table.finish()
            arrays = values[::-1] if kind == "string" else (values.astype(np.bool_) if kind == "boolean" else values,)
            ids[role] = Vocabulary.wrap(kind, *arrays)
        return Coded({role: self._codes[role].finish() for role in ROLES}, ids)


def narrow_ids(ids: Vocabulary) -> Vocabulary:
    """Return texts as whole numbers when that loses nothing ("7", but not "007").

    >>> narrow_ids(Vocabulary.of(["7", "12"])).ids(), narrow_ids(Vocabulary.of(["7", "012"])).ids()
    ([7, 12], ['7', '012'])
    """
    if ids.kind != "string" or len(ids.offsets) == 1:
        return ids
    core = compiled()
    if core is not None:
        values = core.whole_numbers(ids.offsets, ids.values)
        return ids if values is None else Vocabulary.wrap("integer", values)
    series = column(ids)
    numbers = series.cast(pl.Int64, strict=False)
    is_lossless = numbers.null_count() == 0 and (numbers.cast(pl.String) == series).all()
    return vocabulary(numbers) if is_lossless else ids


def encode_pairs(pairs: Dictionary, first: Codes, second: Codes) -> Codes:
    """Return the code of each pair of codes, [n]; MISSING_CODE where one of both is."""
    pair = pl.Series((first.astype(np.int64) << 32) | second)
    missing = (first == MISSING_CODE) | (second == MISSING_CODE)
    return pairs.encode(pair.set(pl.Series(missing), None) if missing.any() else pair)


def hash_ids(ids: Vocabulary) -> NDArray[np.uint64]:
    """Return the hash of every id's text, [n], which decides its partition, its position there, and ties."""
    kernels: ModuleType = fastest()
    if ids.kind == "integer":
        return kernels.hash_integers(ids.values)  # type: ignore[no-any-return]
    return kernels.hash_texts(*ids.text_buffers())  # type: ignore[no-any-return]


def sort_order(ids: Vocabulary) -> Codes:
    """Return the codes in the order of their ids: numbers by value, texts by their bytes.

    >>> sort_order(Vocabulary.of(["b", "a", "ab"])).tolist(), sort_order(Vocabulary.of([3, -1])).tolist()
    ([1, 2, 0], [1, 0])
    """
    if ids.kind != "string":
        return np.argsort(ids.values).astype(np.uint32)
    if len(ids.offsets) > MAX_SORTED_TEXTS:
        return column(ids).arg_sort().to_numpy()
    whole = ids.values.tobytes()
    texts = [whole[start:end] for start, end in pairwise(ids.offsets.tolist())]
    return np.array(sorted(range(len(texts)), key=texts.__getitem__), np.uint32)


def require_same(role: str, before: Kind, now: Kind) -> None:
    """Raise when two parts of a source have ids of different kinds."""
    if before != now:
        raise InputError(f"the {role} ids are of kind {before} in one part of the source and {now} in another: use one type")


def weight_units(weight: pl.Series, label: pl.Series, first_row: int = 0) -> Integers:
    """Return the weight of every vote in units of 2^-40, [votes]; 0 if it has no label.

    Sums of whole units are exact, so that equal weights in another order tie. A weight that is no number from 0 to
    `MOST_WEIGHT` is an error that names its row.

    >>> (weight_units(pl.Series([1.0, 0.5]), pl.Series(["a", "b"])) / WEIGHT_UNITS_PER_VOTE).tolist()
    [1.0, 0.5]
    """
    kind = weight.dtype
    if not (kind.is_numeric() or kind in (pl.String, pl.Null)):
        raise InputError(f"the weight column holds {kind}: give numbers")
    number = (with_points(weight) if kind == pl.String else weight).cast(pl.Float64, strict=False)
    absent = label.is_null()
    bad = ((number.is_null() | ~number.is_between(0, MOST_WEIGHT)).fill_null(True) & ~absent).arg_true()
    if len(bad):
        at = int(bad[0])
        raise InputError(f"weight in row {first_row + at + 1} is {quote(weight[at])}: {WEIGHTS}")
    known = number.set(absent, 0.0).to_numpy()
    return np.rint(known / LOG_UNIT).astype(np.int64)


def with_points(weight: pl.Series) -> pl.Series:
    """Return numbers as texts with a point before their decimals, if these have a comma; `1,000` may be either, and stays."""
    text = weight.str.strip_chars()
    point = text.str.replace(r"^([-+]?[0-9]*),([0-9]+)$", "${1}.${2}")
    return text.zip_with(text.str.contains(r"^[1-9][0-9]{0,2},[0-9]{3}$").fill_null(False), point)


def with_weights(label: NDArray[np.uint32], units: Integers) -> tuple[NDArray[np.uint32], Integers, Integers]:
    """Return (the code of every vote's label and weight; the label of each code; its units), in the order of both.

    `label` has the final label of every vote or MISSING_CODE, [votes], and `units` the weights.

    >>> codes, of_label, of_units = with_weights(np.array([1, 0, 1, MISSING_CODE], np.uint32), np.array([5, 5, 2, 0]))
    >>> codes[:3].tolist(), of_label.tolist(), of_units.tolist()
    ([2, 0, 1], [0, 1, 1], [5, 2, 5])
    """
    given = label != MISSING_CODE
    distinct, rank = np.unique(units[given], return_inverse=True)
    cells, code = np.unique(label[given] * np.int64(max(len(distinct), 1)) + rank, return_inverse=True)
    out = np.full(len(label), MISSING_CODE)
    out[given] = code
    of_label, of_units = np.divmod(cells, max(len(distinct), 1))
    return out, of_label, distinct[of_units]


Arrays = tuple[NDArray[np.int64], Codes, NDArray[np.int64], NDArray[np.int32]]  # task_ptr, row, worker_ptr, row_label


def assemble(
    codes: dict[str, Codes],  # role -> [votes], in input order; a MISSING_CODE label is an abstention
    n_tasks: int,
    worker_rank: Codes,  # [workers] the place of each worker's code in the final order
    label_rank: Codes,  # [labels] likewise
    n_labels: int,
) -> Arrays:
    """Return the arrays of `Votes` of these codes: the definition, in NumPy. A task or a worker may have no vote."""
    given = codes["label"] != MISSING_CODE
    task = codes["task"][given].astype(np.int64)
    worker = worker_rank[codes["worker"][given]].astype(np.int64)
    label = label_rank[codes["label"][given]].astype(np.int64)
    rows, row = np.unique(worker * max(n_labels, 1) + label, return_inverse=True)
    row_worker, row_label = np.divmod(rows, max(n_labels, 1))
    task_ptr = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(np.bincount(task, minlength=n_tasks), out=task_ptr[1:])
    worker_ptr = np.searchsorted(row_worker, np.arange(len(worker_rank) + 1)).astype(np.int64)
    return task_ptr, row[np.lexsort((row, task))].astype(np.uint32), worker_ptr, row_label.astype(np.int32)


def assemble_in_core(
    core: ModuleType, codes: dict[str, Codes], n_tasks: int, worker_rank: Codes, label_rank: Codes, n_labels: int, threads: int
) -> Arrays:
    """Return what `assemble` does, by counting sort over threads; the codes of worker and label are overwritten."""
    row = codes["worker"]
    task_ptr, n_votes, worker_ptr, row_label = core.assemble(
        codes["task"], row, codes["label"], n_tasks, worker_rank, label_rank, n_labels, threads
    )
    return task_ptr, row[:n_votes], worker_ptr, row_label


class DroppedVotes(NamedTuple):
    """How many of the repeated votes do not count, and for how many of them the order of lines decided, as times did not."""

    votes: int
    undated: int


def drop_duplicates(coded: Coded, duplicates: str, moment: NDArray[np.uint64] | None = None) -> DroppedVotes:
    """Mark a worker's repeated votes on a task as MISSING_CODE, all but the last or all but the first.

    `moment` has the time of each vote, [votes], 0 if it is unknown: equal times, and all votes of a worker on a task of which
    one has no time, are in the order of their lines.
    """
    given = np.flatnonzero(coded.codes["label"] != MISSING_CODE)
    task, worker = coded.codes["task"][given], coded.codes["worker"][given]
    pair = task.astype(np.int64) * max(len(coded.ids["worker"]), 1) + worker
    when = None if moment is None or not len(moment) else moment[given]
    if when is not None and duplicates != "error":
        when[np.isin(pair, pair[when == 0])] = 0
        order = np.argsort(when, kind="stable")
        given, pair, when = given[order], pair[order], when[order]
    if duplicates == "last":
        pair, given = pair[::-1], given[::-1]
        when = None if when is None else when[::-1]
    distinct, first = np.unique(pair, return_index=True)
    if len(distinct) == len(pair):
        return DroppedVotes(0, 0)
    again = np.ones(len(pair), np.bool_)
    again[first] = False
    if duplicates == "error":
        vote = int(given[np.argmax(again)])
        task_id, worker_id = (coded.ids[role][int(coded.codes[role][vote])] for role in ("task", "worker"))
        raise InputError(
            f"worker {quote(worker_id)} voted more than once on task {quote(task_id)}: choose duplicates='all', 'last' or 'first'"
        )
    coded.codes["label"][given[again]] = MISSING_CODE
    return DroppedVotes(int(again.sum()), 0 if when is None else int((when[again] == 0).sum()))


def drop_resent(codes: dict[str, Codes], moment: NDArray[np.uint64], units: Integers | None = None) -> int:
    """Mark votes that equal an earlier one in task, worker, label, weight and time as MISSING_CODE; return how many.

    `moment` has a number for the time of each vote, [votes], 0 for one that is not known.

    >>> codes = {role: np.zeros(3, np.uint32) for role in ROLES}
    >>> drop_resent(codes, np.array([5, 5, 7], np.uint64)), codes["label"].tolist()
    (1, [0, 4294967295, 0])
    """
    timed = np.flatnonzero((moment != 0) & (codes["label"] != MISSING_CODE))
    columns = {role: codes[role][timed] for role in codes} | {"moment": moment[timed]}
    whole = pl.DataFrame(columns if units is None else columns | {"weight": units[timed]})
    again = timed[~whole.select(pl.struct(pl.all()).is_first_distinct()).to_series().to_numpy()]
    codes["label"][again] = MISSING_CODE
    return len(again)


class Encoder:
    """Takes votes batch by batch, in the caller's order, and makes `Votes` of them.

    `narrow` says that the source is text (CSV), in which a column of digits means integers.
    """

    def __init__(self, *, labels: Iterable[object] | None = None, duplicates: str = "all", narrow: bool = False) -> None:
        self._declared = None if labels is None else Vocabulary.of(labels, "label").declared()
        self._duplicates = duplicates
        self._narrow = narrow
        self._rows = 0
        self._units: list[NDArray[np.int64]] = []  # of the weights, if there are any
        self._moments: list[NDArray[np.uint64]] = []  # when votes were cast, 0 if that is not known
        self.dropped = DroppedVotes(0, 0)  # repeated votes that do not count, known at the end
        self.resent = 0  # votes that equal another one, its time included, and do not count again; likewise
        core = compiled()
        self._coder: PolarsCoder | CompiledCoder = PolarsCoder() if core is None else CompiledCoder(core, cores())

    def add(self, batch: pl.DataFrame) -> None:
        """Take a batch with the columns task, worker and label, and weight where votes have weights; 0 is an abstention."""
        columns = id_columns(batch, ROLES, self._rows, keep_categories=self._coder.takes_categories)
        if "weight" in batch.columns:
            self._units.append(weight_units(batch["weight"], columns["label"], self._rows))
        if "moment" in batch.columns:
            missing = self._rows - sum(map(len, self._moments))  # of earlier parts, which have no time
            self._moments += [np.zeros(missing, np.uint64), batch["moment"].to_numpy()]
        self._coder.add(pl.DataFrame(columns))
        self._rows += len(batch)

    def finish(self, frame_kind: FrameKind = "polars", *, warn: bool = True) -> Votes:
        """Return all votes added so far; warn if some had no label, unless the caller expects that."""
        # Repeated votes are dropped here, and not in `votes_of`, to know how many there are.
        coded = self._coder.finish()
        units = np.concatenate(self._units) if self._units else None
        if units is not None:
            coded.codes["label"][units == 0] = MISSING_CODE
        none = coded.codes["label"] == MISSING_CODE
        missing = int(np.count_nonzero(none))
        abstained = np.bincount(coded.codes["worker"][none], minlength=len(coded.ids["worker"])) if missing else None
        if self._narrow:
            coded = Coded(coded.codes, {role: narrow_ids(ids) for role, ids in coded.ids.items()})
        moment = None
        if self._moments:
            missing_end = self._rows - sum(map(len, self._moments))
            moment = np.concatenate([*self._moments, np.zeros(missing_end, np.uint64)])
        if self._duplicates != "all":
            self.dropped = drop_duplicates(coded, self._duplicates, moment)
        elif moment is not None:
            self.resent = drop_resent(coded.codes, moment, units)
        facts: dict[str, Any] = {"abstentions": missing, "abstained": abstained, "frame_kind": frame_kind}
        votes = votes_of(coded, self._declared, duplicates=self._duplicates, units=units, **facts)
        if missing and warn:
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
    `adjudge.io.encode`), [votes]; where all count once, votes have no weights.
    """
    # Workers and labels are sorted, so that rows mean the same for any order of the votes.
    order = {role: sort_order(coded.ids[role]) for role in ("worker", "label")}
    if declared is None:
        labels, label_rank = coded.ids["label"].take(order["label"]), rank_of(order["label"])
    else:
        labels, label_rank = declared, _rank_declared(coded, declared)
    worker_rank, n_tasks, core = rank_of(order["worker"]), len(coded.ids["task"]), compiled()
    codes, n_given, given = coded.codes, len(labels), None
    if units is not None and (units[codes["label"] != MISSING_CODE] != WEIGHT_UNITS_PER_VOTE).any():
        # A label with a weight is one of more labels; in the end its row has both.
        final = np.append(label_rank, MISSING_CODE)[np.minimum(codes["label"], len(label_rank))]
        cells, *given = with_weights(final, units)
        codes, n_given = codes | {"label": cells}, len(given[0])
        label_rank = np.arange(n_given, dtype=np.uint32)
    if core is None:
        task_ptr, row, worker_ptr, row_label = assemble(codes, n_tasks, worker_rank, label_rank, n_given)
    else:
        threads = 1 if len(codes["task"]) < MIN_PARALLEL_VOTES else cores()
        every = assemble_in_core(core, codes, n_tasks, worker_rank, label_rank, n_given, threads)
        task_ptr, row, worker_ptr, row_label = every
    tasks, unvoted, task_ptr = _split_voted(coded.ids["task"], task_ptr)
    if abstained is not None:
        abstained = freeze(abstained[order["worker"]][worker_ptr[1:] > worker_ptr[:-1]])
    workers, _, worker_ptr = _split_voted(coded.ids["worker"].take(order["worker"]), worker_ptr)
    return Votes(
        task_ptr=freeze(task_ptr),
        row=freeze(row),
        worker_ptr=freeze(worker_ptr),
        row_label=freeze(row_label if given is None else given[0][row_label].astype(np.int32)),
        tasks=tasks,
        workers=workers,
        labels=labels,
        unvoted=unvoted,
        abstentions=abstentions,
        abstained=abstained,
        frame_kind=frame_kind,
        duplicates="all" if duplicates == "error" else duplicates,
        row_weight=None if given is None else freeze(given[1][row_label] * LOG_UNIT),
    )


def codes_of(votes: Votes) -> dict[str, Codes]:
    """Return the codes of the task, worker and label of every vote, [votes] each, in task order."""
    task = np.repeat(np.arange(votes.n_tasks, dtype=np.uint32), np.diff(votes.task_ptr))
    worker, label = votes.row_worker().astype(np.uint32), votes.row_label.astype(np.uint32)
    return {"task": task, "worker": worker[votes.row], "label": label[votes.row]}


def over_labels(votes: Votes, labels: Vocabulary, what: str, *, closed: bool = True) -> Votes:
    """Return the votes over the labels of `what` (a saved model, a history), which must include all labels of the votes.

    Unless `closed`, votes whose labels include all of these stay unchanged.
    """
    own, other = votes.labels.texts(), labels.texts()
    if own == other or (not closed and set(other) <= set(own)):
        return votes
    if not set(own) <= set(other):
        raise InputError(
            f"the {what} has the labels {itemize(labels.ids())}, the votes have {itemize(votes.labels.ids())}: "
            "use the same labels for both (labels=… declares them)"
        )
    if hasattr(votes, "is_stored"):  # an encoded folder
        return cast(Votes, _relabel(votes, labels, what))
    same_kind = _of_kind(labels, votes.labels.kind) if len(votes.labels) else labels
    elsewhere: Any = getattr(votes, "over", None)
    if elsewhere is not None:  # votes on Spark
        return cast(Votes, elsewhere(same_kind))
    coded = Coded(codes_of(votes), {"task": votes.tasks, "worker": votes.workers, "label": votes.labels})
    weights = votes.row_weight
    units = None if weights is None else np.rint(weights / LOG_UNIT).astype(np.int64)[votes.row]
    more = votes_of(coded, same_kind, abstentions=votes.abstentions, frame_kind=votes.frame_kind, units=units)
    same = {name: getattr(votes, name) for name in ("unvoted", "abstained", "duplicates", "understood", "item_source")}
    return replace(more, **same)


def _relabel(votes: Any, labels: Vocabulary, what: str) -> Any:
    """Return encoded votes over more labels; their rows do not change, so neither may the order of their labels."""
    place = labels.codes(votes.labels.texts())
    if (np.diff(place) < 0).any():
        raise InputError(
            f"the {what} orders its labels {itemize(labels.ids())}, the encoded votes {itemize(votes.labels.ids())}: "
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
    return narrow_ids(Vocabulary.of_texts(texts)) if kind == "integer" else Vocabulary.of_texts(texts)


def _rank_declared(coded: Coded, declared: Vocabulary) -> NDArray[np.uint32]:
    """Return the index of each label seen among the declared ones; an undeclared label is an error that names its row."""
    rank = declared.codes(coded.ids["label"].ids())
    if (rank < 0).any():
        stranger = np.zeros(len(rank) + 1, np.bool_)
        stranger[:-1] = rank < 0
        row = int(np.argmax(stranger[np.minimum(coded.codes["label"], len(rank))]))
        value = coded.ids["label"][int(coded.codes["label"][row])]
        raise label_error(value, declared.ids(), f" in row {row + 1}")
    return rank.astype(np.uint32)


def _split_voted(ids: Vocabulary, ptr: NDArray[np.int64]) -> tuple[Vocabulary, Vocabulary, NDArray[np.int64]]:
    """Return the ids that have items, those that have none, and where the items of the former begin."""
    has = ptr[1:] > ptr[:-1]
    if has.all():
        return ids, ids.take(np.zeros(0, np.int64)), ptr
    return ids.take(np.flatnonzero(has)), ids.take(np.flatnonzero(~has)), np.concatenate([ptr[:-1][has], ptr[-1:]])


def rank_of(order: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Return the rank of each code in this order, [n]."""
    rank = np.empty(len(order), np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    return rank
