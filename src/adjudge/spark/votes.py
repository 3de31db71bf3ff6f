"""Votes and gold in Spark frames: the panel is gathered on the driver, tasks stay on the executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Kind, Vocabulary
from adjudge.data.votes import NOT_COUNTED, FrameKind, Understood, WorkerRows
from adjudge.errors import InputError, OptionError, itemize, label_error, quote, warn_abstentions
from adjudge.io import answers
from adjudge.io.columns import find
from adjudge.io.encode import narrow_ids, sort_order
from adjudge.io.frames import ID_DTYPES, MAX_EXACT_ID, column, match_ids, vocabulary
from adjudge.io.reading import check_duplicates
from adjudge.io.sources import Source, is_spark_frame
from adjudge.spark.files import scan
from adjudge.spark.session import Frame, functions, gather, plain_errors, sql_name, to_spark
from adjudge.spark.survey import PLAIN_NUMBER, ROLES, UNLIMITED, Survey, survey

TEXTS: Final = ("string", "varchar", "char", "void")
WHOLE: Final = ("byte", "short", "integer", "long")
SQL_KIND: Final[Mapping[Kind, str]] = {"string": "string", "integer": "bigint", "boolean": "boolean"}
GOLD_ROLE = "gold label"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SparkVotes(WorkerRows):
    """Votes in a Spark frame of task, worker and label; a missing label is an abstention."""

    engine: ClassVar[str | None] = "spark"  # where these votes are

    frame: Frame
    task_kind: Kind
    per_row: NDArray[np.int64]  # [rows] votes of each row
    abstentions: int
    abstained: NDArray[np.int64] | None = None  # [workers] abstentions of each; None if nobody has counted them
    duplicates: str  # "all" or "error"
    n_tasks: int = 0  # known once the votes are laid out on executors
    n_unvoted: int = 0
    frame_kind: FrameKind = "polars"  # of gathered frames
    understood: Understood | None = None  # what reading made of their source

    def __len__(self) -> int:
        return int(self.per_row.sum())

    def __repr__(self) -> str:
        return f"SparkVotes({len(self)} votes, {self.n_workers} workers, {self.n_labels} labels, {self.n_rows} rows)"

    def __getattr__(self, name: str) -> Any:
        if name in ("tasks", "task_ptr", "row", "unvoted"):
            raise InputError("this looks at tasks one by one, and tasks on Spark stay on the executors: collect the votes first")
        raise AttributeError(f"SparkVotes has no attribute {name!r}")

    def over(self, labels: Vocabulary) -> SparkVotes:
        """Return the same votes over a superset of their labels."""
        label = match_ids(self.labels, labels)[self.row_label]
        order = np.lexsort((label, self.row_worker()))
        return replace(self, labels=labels, row_label=label[order].astype(np.int32), per_row=self.per_row[order])

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return the number of votes of each row, [rows]."""
        return self.per_row


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DistributedVotes(SparkVotes):
    """Votes in a Spark frame whose workers stay on the executors, too: the panel has labels, but no workers and rows."""

    given: NDArray[np.int64]  # [K] votes per label
    row_count: int
    worker_count: int = 0  # known once the votes are laid out on executors

    def __len__(self) -> int:
        return int(self.given.sum())

    def __repr__(self) -> str:
        return f"DistributedVotes({len(self)} votes, {self.n_labels} labels, {self.n_rows} rows on the executors)"

    @property
    def n_rows(self) -> int:
        """The number of (worker, given label) pairs that occur."""
        return self.row_count

    @property
    def n_workers(self) -> int:
        """The number of workers with votes, known once these are laid out."""
        return self.worker_count

    def given_labels(self) -> NDArray[np.bool_]:
        """Return which labels occur in votes, [K]."""
        return np.asarray(self.given > 0)

    def over(self, labels: Vocabulary) -> DistributedVotes:
        """Return the same votes over a superset of their labels."""
        given = np.zeros(len(labels), np.int64)
        given[match_ids(self.labels, labels)] = self.given
        return replace(self, labels=labels, given=given)


def leave_workers(votes: SparkVotes) -> DistributedVotes:
    """Return votes with their workers left on the executors."""
    if isinstance(votes, DistributedVotes):
        return votes
    given = np.bincount(votes.row_label, votes.per_row, minlength=votes.n_labels).astype(np.int64)
    rest = {name: getattr(votes, name) for name in ("frame", "task_kind", "abstentions", "duplicates", "understood")}
    return _leave_workers(votes.labels, given, votes.n_rows, votes.workers.kind, **rest)


def read(
    frame: Frame,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    narrow: bool = False,
    max_pairs: int = UNLIMITED,
    fits: Callable[[int, int], bool] | None = None,
) -> SparkVotes:
    """Return the votes of a Spark frame, numbered as by `adjudge.read`; one pass over the frame.

    `narrow` says that the source is text (CSV), in which a column of integers is read as numbers. `fits` says whether that
    number of rows and labels fits on the driver; otherwise workers stay on the executors. At most `max_pairs` pairs are
    gathered at once.
    """
    require_no_order(duplicates)
    _require_whole(frame)
    columns = find(frame.columns, {"task": task, "worker": worker, "label": label}, "the Spark frame")
    declared = None if labels is None else Vocabulary.of(labels, "label")
    with plain_errors("cannot read the Spark frame"):
        prepared = _prepare(frame, columns)
        seen = survey(prepared, narrow, max_pairs)
    _refuse(seen.labels)
    kinds = {role: _kind(seen, prepared, role, narrow) for role in ROLES}
    ready = prepared.select([prepared[role].cast(SQL_KIND[kind]).alias(role) for role, kind in kinds.items()])
    found, order = _labels(seen, declared, kinds["label"])
    missing = int(seen.labels.filter(pl.col("label").is_null())["votes"].sum())
    rest: dict[str, Any] = {"frame": ready, "task_kind": kinds["task"], "abstentions": missing, "duplicates": duplicates}
    votes: SparkVotes
    if fits is None or fits(seen.rows, len(order)):
        with plain_errors("cannot read the Spark frame"):
            pairs = seen.pairs()
        votes = _number_rows(pairs, order, kinds, **rest)
    else:
        given = np.zeros(len(order), np.int64)
        given[match_ids(found, order)] = seen.labels.drop_nulls("label")["votes"].to_numpy()
        votes = _leave_workers(order, given, seen.rows, kinds["worker"], **rest)
    warn_abstentions(missing, missing + len(votes))
    return replace(
        votes, understood=Understood("Spark frame", columns, votes=len(votes), abstentions=missing, repeated=NOT_COUNTED)
    )


def gather_columns(frame: Frame, wanted: Mapping[str, str | None]) -> pl.DataFrame:
    """Return the wanted columns of a Spark frame on the driver, named by their role: labels or truth, not votes."""
    _require_whole(frame)
    columns = find(frame.columns, wanted, "the Spark frame")
    with plain_errors("cannot read the Spark frame"):
        # Columns by position: a name may have dots, or differ from another only in case.
        plain = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
        return gather(plain.select([plain[f"c{frame.columns.index(name)}"].alias(role) for role, name in columns.items()]))


def _require_whole(frame: Frame) -> None:
    """Raise unless this is a frame with an end, of a session that lends its executors."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise InputError("this frame belongs to Spark Connect, which lends no executors: use a classic Spark session")
    if frame.isStreaming:
        raise InputError("this frame is a stream: give a frame with an end")


def require_no_order(duplicates: str) -> None:
    """Raise if repeated votes are to be chosen by their order."""
    check_duplicates(duplicates)
    if duplicates in ("last", "first"):
        raise OptionError(
            f"duplicates is {quote(duplicates)}, but rows of a Spark frame have no order: keep one vote per worker and task "
            "beforehand (a window over a time column), or choose 'all' or 'error'"
        )


def _prepare(frame: Frame, columns: Mapping[str, str]) -> Frame:
    """Return a column per role as text, whole numbers or booleans, and one of its invalid numbers, `odd_` and the role."""
    # Columns by position: a name may have dots, or differ from another only in case.
    plain = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    out = []
    for role, name in columns.items():
        index = frame.columns.index(name)
        ids, odd = ids_and_odd(plain[f"c{index}"], frame.schema.fields[index].dataType.typeName(), role)
        out += [ids.alias(role), odd.alias(f"odd_{role}")]
    return plain.select(out)


def ids_and_odd(given: Any, kind: str, role: str) -> tuple[Any, Any]:
    """Return a column of a Spark type as text, whole numbers or booleans, and the numbers that are not whole."""
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
    whole = (value == f.floor(value)) & (f.abs(value) <= MAX_EXACT_ID)
    return f.when(whole, value).cast("bigint"), f.when(~whole, value)


def _refuse(seen: pl.DataFrame) -> None:
    for role in ROLES:
        odd = seen[f"odd_{role}"].drop_nulls()
        if len(odd):
            raise InputError(f"a {role} is {odd[0]}: give text or whole numbers")
    absent = {
        "task": int(seen["without_task"].sum()),
        "worker": int(seen["without_worker"].sum()),
    }
    for role, votes in absent.items():
        if votes:
            raise InputError(f"{role} is missing in {votes} of {seen['votes'].sum()} votes: every vote needs a {role}")


def _kind(seen: Survey, prepared: Frame, role: str, narrow: bool) -> Kind:
    """Return the kind of the ids of a role; in a text source, texts of whole numbers are numbers."""
    kinds: dict[str, Kind] = {"long": "integer", "boolean": "boolean", "string": "string"}
    kind = kinds[prepared.schema[role].dataType.typeName()]
    if not narrow or kind != "string":
        return kind
    if role == "task":
        return "integer" if len(seen.labels) and bool(seen.labels["tasks_are_whole"].all()) else "string"
    if role == "worker":
        return "integer" if seen.workers_are_whole else "string"
    return narrow_ids(vocabulary(seen.labels["label"].drop_nulls())).kind


def _labels(seen: Survey, declared: Vocabulary | None, kind: Kind) -> tuple[Vocabulary, Vocabulary]:
    """Return the labels in the order of the survey, and all labels in their final order: declared, or sorted by id."""
    found = _ids(seen.labels["label"].drop_nulls(), kind)
    if declared is None:
        return found, found.take(sort_order(found))
    strangers = np.flatnonzero(match_ids(found, declared) < 0)
    if len(strangers):
        first = found.take(strangers).take(sort_order(found.take(strangers)))[0]
        raise label_error(first, declared.ids())
    return found, declared


def _ids(series: pl.Series, kind: Kind) -> Vocabulary:
    return vocabulary(series.cast(pl.Int64) if kind == "integer" else series)


def _number_rows(pairs: pl.DataFrame, labels: Vocabulary, kinds: Mapping[str, Kind], **rest: Any) -> SparkVotes:
    """Return the panel of these pairs: rows sorted by worker, then label; pairs without label are abstentions."""
    silent, pairs = pairs.filter(pl.col("label").is_null()), pairs.drop_nulls("label")
    worker, label = (_ids(pairs[role], kinds[role]) for role in ("worker", "label"))
    workers = _ids(pairs["worker"].unique(), kinds["worker"])
    workers = workers.take(sort_order(workers))
    codes = match_ids(worker, workers), match_ids(label, labels)
    order = np.lexsort((codes[1], codes[0]))
    abstained = np.zeros(len(workers) + 1, np.int64)  # the last is of those who did nothing else
    np.add.at(abstained, match_ids(_ids(silent["worker"], kinds["worker"]), workers), silent["votes"].to_numpy())
    return SparkVotes(
        abstained=abstained[:-1],
        worker_ptr=np.searchsorted(codes[0][order], np.arange(len(workers) + 1)).astype(np.int64),
        row_label=codes[1][order].astype(np.int32),
        workers=workers,
        labels=labels,
        per_row=pairs["votes"].to_numpy()[order].astype(np.int64),
        **rest,
    )


def _leave_workers(labels: Vocabulary, given: NDArray[np.int64], rows: int, worker_kind: Kind, **rest: Any) -> DistributedVotes:
    return DistributedVotes(
        worker_ptr=np.zeros(1, np.int64),
        row_label=np.zeros(0, np.int32),
        workers=vocabulary(pl.Series([], dtype=ID_DTYPES[worker_kind])),
        labels=labels,
        per_row=np.zeros(0, np.int64),
        given=given,
        row_count=rows,
        **rest,
    )


@dataclass(frozen=True, eq=False)
class RemoteGold:
    """Tasks as text, each with the code of its label (`gold`), in a Spark frame."""

    frame: Frame
    count: int

    def __len__(self) -> int:
        return self.count


def read_gold(source: Source, votes: SparkVotes) -> RemoteGold:
    """Return gold (a Spark frame, a path or URI, or what `adjudge.aggregate` takes) as codes; raise for an unknown label."""
    spark = votes.frame.sparkSession
    path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and not Path(path).exists():  # no file of the driver, perhaps one of Spark
        source = scan([path], spark)[0]
    if not is_spark_frame(source):
        gold = answers.read_gold(source, votes.labels)
        codes = pl.DataFrame({"task": column(gold.tasks), "gold": pl.Series(gold.labels, dtype=pl.Int64)})
        return RemoteGold(to_spark(codes, spark), len(gold))
    with plain_errors("cannot read the gold"):
        return _encode_gold(_texts(source), votes.labels, spark)


def with_gold(votes: SparkVotes, gold: RemoteGold) -> Frame:
    """Return task, worker, label and gold: a line per vote, and a line without worker and label per gold task."""
    f = functions()
    nothing = [f.lit(None).cast(votes.frame.schema[role].dataType).alias(role) for role in ("worker", "label")]
    cast = votes.frame.withColumn("gold", f.lit(None).cast("bigint"))
    text, kind = f.col("task"), votes.task_kind
    lines = gold.frame
    if kind == "integer":
        lines = lines.where(text.rlike(PLAIN_NUMBER)).withColumn("task", f.expr("try_cast(task as bigint)"))
    elif kind == "boolean":
        lines = lines.where(text.isin("true", "false")).withColumn("task", text == "true")
    return cast.union(lines.select(f.col("task").cast(SQL_KIND[kind]), *nothing, f.col("gold")))


def _texts(source: Frame) -> Frame:
    """Return task and label as text, of the lines that have both."""
    columns = find(source.columns, {"task": None, GOLD_ROLE: None}, "the gold")
    f, ready = functions(), _prepare(source, columns)
    odd = ready.agg(*(f.max(f.col(f"`odd_{role}`")) for role in columns)).first()
    for role, value in zip(columns, odd, strict=True):
        if value is not None:
            raise InputError(f"a {role} of the gold is {value}: give text or whole numbers")
    texts = [f.col(sql_name(role)).cast("string").alias(name) for role, name in (("task", "task"), (GOLD_ROLE, "label"))]
    return ready.select(*texts).dropna()


def _encode_gold(gold: Frame, labels: Vocabulary, spark: object) -> RemoteGold:
    f = functions()
    codes = pl.DataFrame({"label": pl.Series(labels.texts(), dtype=pl.String), "gold": pl.arange(len(labels), eager=True)})
    joined = gold.distinct().join(f.broadcast(to_spark(codes, spark)), "label", "left").select("task", "label", "gold")
    stranger = joined.where(f.col("gold").isNull()).first()
    if stranger is not None:
        raise InputError(
            f"gold gives task {quote(stranger[0])} the label {quote(stranger[1])}, which is not among the labels: "
            f"{itemize(labels.ids())}; declare it with labels=… when no vote has it"
        )
    return RemoteGold(joined.select("task", "gold"), joined.count())
