"""Votes in a Spark frame: who votes with which labels is gathered here, tasks stay where they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, MissingLabels, OptionError, listed, shown
from quorate.io.assemble import check_duplicates
from quorate.io.columns import find
from quorate.io.ids import EXACT, matched, narrowed, sort_order, vocabulary
from quorate.io.spark import Frame, functions, gather, plain_errors
from quorate.vocabulary import Kind, Vocabulary
from quorate.votes import FrameKind, Panel

ROLES: Final = ("task", "worker", "label")
TEXTS: Final = ("string", "varchar", "char", "void")
WHOLE: Final = ("byte", "short", "integer", "long")
SQL_KIND: Final[Mapping[Kind, str]] = {"string": "string", "integer": "bigint", "boolean": "boolean"}
# A text that is a whole number and nothing else: "7", not "007".
PLAIN_NUMBER: Final = "^(0|-?[1-9][0-9]{0,18})$"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SparkVotes(Panel):
    """Votes in a Spark frame of task, worker and label; a missing label is an abstention."""

    frame: Frame
    task_kind: Kind
    per_row: NDArray[np.int64]  # [rows] votes of each row
    abstentions: int
    duplicates: str  # "all" or "error"
    n_tasks: int = 0  # known once the votes are laid out on executors
    n_unvoted: int = 0
    frame_kind: FrameKind = "polars"  # of what is gathered

    def __len__(self) -> int:
        return int(self.per_row.sum())

    def __repr__(self) -> str:
        return f"SparkVotes({len(self)} votes, {self.n_workers} workers, {self.n_labels} labels, {self.n_rows} rows)"

    def __getattr__(self, name: str) -> Any:
        if name in ("tasks", "task_ptr", "row", "unvoted"):
            raise InputError("this looks at tasks one by one, and tasks on Spark stay on the executors: collect the votes first")
        raise AttributeError(f"SparkVotes has no attribute {name!r}")

    def over(self, labels: Vocabulary) -> SparkVotes:
        """Returns the same votes over labels that hold all of theirs."""
        label = matched(self.labels, labels)[self.row_label]
        order = np.lexsort((label, self.row_worker()))
        return replace(self, labels=labels, row_label=label[order].astype(np.int32), per_row=self.per_row[order])

    def votes_per_row(self) -> NDArray[np.int64]:
        """Returns how many votes each row holds, [rows]."""
        return self.per_row


def read(
    frame: Frame,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    narrow: bool = False,
) -> SparkVotes:
    """Returns the votes of a Spark frame, numbered as `quorate.read` numbers them; one pass over the frame.

    `narrow` says that the source is text (CSV), where a column of whole numbers is meant as such.
    """
    check_duplicates(duplicates)
    if duplicates in ("last", "first"):
        raise OptionError(
            f"duplicates is {shown(duplicates)}, but rows of a Spark frame have no order: keep one vote per worker and task "
            "beforehand (a window over a time column), or choose 'all' or 'error'"
        )
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise InputError("this frame belongs to Spark Connect, which lends no executors: use a classic Spark session")
    if frame.isStreaming:
        raise InputError("this frame is a stream: give a frame with an end")
    columns = find(frame.columns, {"task": task, "worker": worker, "label": label}, "the Spark frame")
    declared = None if labels is None else Vocabulary.of(labels, "label")
    with plain_errors("cannot read the Spark frame"):
        prepared = _prepared(frame, columns)
        seen = gather(_survey(prepared, narrow))
    _refuse(seen)
    kinds = {role: _kind(seen, prepared, role, narrow) for role in ROLES}
    ready = prepared.select([prepared[role].cast(SQL_KIND[kind]).alias(role) for role, kind in kinds.items()])
    pairs = seen.drop_nulls("label").select("worker", "label", "votes")
    missing = int(seen.filter(pl.col("label").is_null())["votes"].sum())
    votes = _numbered(pairs, declared, kinds, frame=ready, abstentions=missing, duplicates=duplicates)
    if missing:
        total = missing + len(votes)
        warnings.warn(f"{missing} of {total} votes have no label: dropped as abstentions", MissingLabels, stacklevel=3)
    return votes


def _prepared(frame: Frame, columns: Mapping[str, str]) -> Frame:
    """Returns the three columns as text, whole numbers or booleans, each with the values that are none of these."""
    # By position: a name may hold dots, or differ from another in its case alone.
    plain = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    out = []
    for role, name in columns.items():
        place = frame.columns.index(name)
        ids, odd = ids_and_odd(plain[f"c{place}"], frame.schema.fields[place].dataType.typeName(), role)
        out += [ids.alias(role), odd.alias(f"odd_{role}")]
    return plain.select(out)


def ids_and_odd(given: Any, kind: str, role: str) -> tuple[Any, Any]:
    """Returns a column of a Spark type as text, whole numbers or booleans, and the numbers that are not whole."""
    f = functions()
    odd = f.lit(None).cast("double")
    if kind in WHOLE:
        return given.cast("bigint"), odd
    if kind == "boolean":
        return given, odd
    if kind in TEXTS:
        return given.cast("string"), odd
    if kind not in ("float", "double"):
        raise InputError(f"the {role} column holds {kind}: give text, whole numbers or booleans")
    value = f.when(~f.isnan(given), given.cast("double"))
    whole = (value == f.floor(value)) & (f.abs(value) <= EXACT)
    return f.when(whole, value).cast("bigint"), f.when(~whole, value)


def _survey(prepared: Frame, narrow: bool) -> Frame:
    """Returns a line for each (worker, label) pair with its votes, and what is wrong with some of them.

    Nothing but numbers is aggregated: for the largest text Spark would sort all votes.
    """
    f = functions()
    whole = f.lit(False)
    if narrow:
        whole = f.col("task").rlike(PLAIN_NUMBER) & f.expr("try_cast(task as bigint) is not null")
    return prepared.groupBy("worker", "label").agg(
        f.count(f.lit(1)).alias("votes"),
        f.sum(f.col("task").isNull().cast("bigint")).alias("without_task"),
        f.min(whole).alias("tasks_are_whole"),
        *(f.max(f"odd_{role}").alias(f"odd_{role}") for role in ROLES),
    )


def _refuse(seen: pl.DataFrame) -> None:
    for role in ROLES:
        odd = seen[f"odd_{role}"].drop_nulls()
        if len(odd):
            raise InputError(f"a {role} is {odd[0]}: give text or whole numbers")
    absent = {
        "task": int(seen["without_task"].sum()),
        "worker": int(seen.filter(pl.col("worker").is_null())["votes"].sum()),
    }
    for role, votes in absent.items():
        if votes:
            raise InputError(f"{role} is missing in {votes} of {seen['votes'].sum()} votes: every vote needs a {role}")


def _kind(seen: pl.DataFrame, prepared: Frame, role: str, narrow: bool) -> Kind:
    """Returns what the ids of a role are, whole numbers written as text being numbers where the source is text."""
    kinds: dict[str, Kind] = {"long": "integer", "boolean": "boolean", "string": "string"}
    kind = kinds[prepared.schema[role].dataType.typeName()]
    if not narrow or kind != "string":
        return kind
    if role == "task":
        return "integer" if len(seen) and bool(seen["tasks_are_whole"].all()) else "string"
    return narrowed(vocabulary(seen[role].drop_nulls().unique())).kind


def _numbered(pairs: pl.DataFrame, declared: Vocabulary | None, kinds: Mapping[str, Kind], **rest: Any) -> SparkVotes:
    """Returns the panel of these pairs: rows sorted by worker, then label."""
    ids = {}
    for role in ("worker", "label"):
        found = vocabulary(pairs[role].cast(pl.Int64) if kinds[role] == "integer" else pairs[role])
        distinct = vocabulary(pairs[role].unique().cast(pl.Int64) if kinds[role] == "integer" else pairs[role].unique())
        ids[role] = found, distinct.take(sort_order(distinct))
    (worker, workers), (label, labels) = ids["worker"], ids["label"]
    if declared is not None:
        strangers = np.flatnonzero(matched(labels, declared) < 0)
        if len(strangers):
            raise InputError(
                f"label {shown(labels[int(strangers[0])])} is not among the declared labels: {listed(declared.ids())}"
            )
        labels = declared
    codes = matched(worker, workers), matched(label, labels)
    order = np.lexsort((codes[1], codes[0]))
    return SparkVotes(
        worker_ptr=np.searchsorted(codes[0][order], np.arange(len(workers) + 1)).astype(np.int64),
        row_label=codes[1][order].astype(np.int32),
        workers=workers,
        labels=labels,
        per_row=pairs["votes"].to_numpy()[order].astype(np.int64),
        task_kind=kinds["task"],
        **rest,
    )
