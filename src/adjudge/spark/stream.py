"""A Spark Structured Streaming job that keeps labels up to date: every vote is counted once, also after a crash.

    DIR/state.adjudge             the pointer: the last finished batch, and the counts
    DIR/online-000000041.adjudge  the Online after it, as `Online.save` writes it
    DIR/online-000000040.adjudge  the one before
    DIR/checkpoint/               Spark's own: which votes belong to which batch

A batch is finished when the pointer is renamed into place, and not before.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import polars as pl

from adjudge.data import options
from adjudge.data.options import Choice, Number, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.engines.registry import AutoEngine
from adjudge.errors import AdjudgeError, InputError, itemize, label_error, quote
from adjudge.io import container
from adjudge.io.columns import find
from adjudge.io.container import Bounds, Types
from adjudge.io.frames import ID_DTYPES, prepare_ids, select
from adjudge.io.sources import is_spark_frame
from adjudge.online import Online
from adjudge.spark.files import Sink, into_folder
from adjudge.spark.session import Frame, gather, plain_errors, sql_name, to_spark

ROLES: Final = ("task", "worker", "label")
log = logging.getLogger(__name__)
VERSION: Final = 1
META: Final[Types] = {"batch": int, "query": (str, type(None)), "votes": int, "abstentions": int, "skipped": int}
OnBadRows: TypeAlias = Literal["fail", "skip"]
RULES: Final[Rules] = {"bad": Choice(get_args(OnBadRows)), "refit_every": Number(least=0, whole=True)}
TASKS_PER_LOOKUP: Final = 20  # one lookup by id costs as much as this many rows of the table of all tasks
TYPES: Final = ("string", "varchar", "char", "byte", "short", "integer", "long")


def sound(rows: pl.DataFrame, online: Online, batch: int, *, skip: bool) -> tuple[pl.DataFrame, int]:
    """Return the valid rows, and the number of bad ones; without `skip`, raise for a bad row.

    >>> rows = pl.DataFrame({"task": ["t1", "t1"], "worker": ["ann", "bob"], "label": ["cat", "cow"]})
    >>> votes, left_out = sound(rows, Online(labels=["cat", "dog"]), 7, skip=True)
    >>> votes.rows(), left_out
    ([('t1', 'ann', 'cat')], 1)
    """
    rows = rows.select(prepare_ids(rows[role], role) for role in ROLES)
    declared = [text_of(label) for label in online.settings["labels"]]
    undeclared = ~pl.col("label").cast(pl.String).is_in(declared)
    is_bad = pl.any_horizontal(pl.col("task").is_null(), pl.col("worker").is_null(), undeclared.fill_null(value=False))
    bad = rows.filter(is_bad)
    if not len(bad):
        return rows, 0
    what = _complaint(bad.row(0), declared)
    if not skip:
        raise InputError(f"batch {batch}: {what}; bad='skip' leaves such rows out")
    log.warning("batch %d: %d bad rows are left out; the first: %s", batch, len(bad), what)
    return rows.filter(~is_bad), len(bad)


def decide(votes: pl.DataFrame, online: Online, batch: int, *, refit: bool) -> pl.DataFrame:
    """Learn a batch of votes, and return the current label of its tasks; after a refit, of all tasks whose label changed too.

    Without a refit the cost depends on the batch, not on the tasks known before. A refit reads all votes, by design.
    The same state and votes give the same rows in the same order.

    >>> votes = pl.DataFrame({"task": ["t1", "t1"], "worker": ["ann", "bob"], "label": ["cat", "cat"]})
    >>> decide(votes, Online(labels=["cat", "dog"]), 7, refit=False).select("task", "label", "votes", "batch_id").rows()
    [('t1', 'cat', 2, 7)]
    """
    online.learn_many(votes)
    tasks = votes["task"].unique(maintain_order=True)
    if refit and len(online):
        decisions = _refit_labels(tasks, online)
    elif len(tasks) * TASKS_PER_LOOKUP < len(online):
        decisions = _predictions(tasks, online)
    else:
        every, texts = online.labels_frame(), tasks.cast(pl.String).implode()
        decisions = every.filter(every["task"].cast(pl.String).is_in(texts)).with_columns(pl.col("task").cast(tasks.dtype))
    return decisions.drop("gold", strict=False).with_columns(pl.lit(batch, pl.Int64).alias("batch_id"))


def _predictions(tasks: pl.Series, online: Online) -> pl.DataFrame:
    """Return the rows of `Online.labels` for these tasks, looked up by id."""
    labels = Vocabulary.of(online.settings["labels"], "label")
    types = {"label": ID_DTYPES[labels.kind], "confidence": pl.Float64(), "votes": pl.Int64(), "tie": pl.Boolean()}
    found = [online.predict(task) for task in tasks]
    columns = [pl.Series(name, [getattr(one, name) for one in found], dtype) for name, dtype in types.items()]
    return pl.DataFrame([tasks, *columns])


def _refit_labels(tasks: pl.Series, online: Online) -> pl.DataFrame:
    """Refit, and return the labels of these tasks and of those whose label changed."""
    before = online.labels_frame()
    # The last bits of sums of probabilities depend on the number of threads; whole numbers do not.
    online.refit(engine=AutoEngine(threads=None if online.settings["model"] == "fds" else 1))
    now = _labels_as(online, tasks.dtype)
    return now.filter(now["task"].is_in(tasks.implode()) | now["label"].ne_missing(before["label"]))


def _complaint(row: tuple[object, ...], declared: list[str]) -> str:
    task, worker, label = row
    if task is None or worker is None:
        role = "task" if task is None else "worker"
        return f"a vote has no {role} (task {quote(task)}, worker {quote(worker)}, label {quote(label)})"
    return str(label_error(label, declared, f" of worker {quote(worker)} on task {quote(task)}"))


def _labels_as(online: Online, dtype: pl.DataType) -> pl.DataFrame:
    """Return the labels of all tasks, with ids in the type of the stream's column."""
    labels = online.labels_frame()
    try:
        return labels.with_columns(labels["task"].cast(dtype))
    except pl.exceptions.InvalidOperationError as error:
        raise InputError(
            "the stream's tasks are whole numbers, but some known before are text: cast the column to string"
        ) from error


@dataclass(frozen=True)
class Progress:
    """The progress of a stream."""

    batch: int = -1  # the last finished batch
    query: str | None = None  # Spark's id of the job, the same after every restart
    votes: int = 0
    abstentions: int = 0  # votes without a label
    skipped: int = 0  # bad rows left out


class StateFolder:
    """The folder of one stream.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     folder = StateFolder(name)
    ...     begun, online = folder.begin(Online(labels=["cat", "dog"]))
    ...     online.learn("t1", "ann", "cat")
    ...     folder.finish(begun, Progress(batch=0, votes=1), online)
    ...     folder.progress().batch, folder.online()
    (0, Online(fds: 1 tasks, 1 workers, 2 labels))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in os.fspath(path):
            raise InputError(
                f"the state cannot be kept at {os.fspath(path)}: name a folder on a disk that the driver always sees"
            )
        self.path = Path(path).absolute()
        self.pointer, self.checkpoint = self.path / "state.adjudge", self.path / "checkpoint"

    def begin(self, online: Online) -> tuple[Progress, Online]:
        """Return the progress of the stream and its Online; a new folder starts with the given one."""
        if not self.pointer.exists():
            if self.checkpoint.exists():
                raise InputError(
                    f"{self.path} has a checkpoint but no {self.pointer.name}: restore it, or start in an empty folder"
                )
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot keep the state in {self.path}: {error.strerror}") from error
            self._write(Progress(), online)
        progress = self.progress()
        given: Mapping[str, object] = online.settings
        known = Online.load(self._file(progress.batch), confidence=online.settings["confidence"])  # it changes no state
        for name, value in known.settings.items():
            if value != given[name]:
                old, new = (itemize(v) if isinstance(v, list) else v for v in (value, given[name]))
                raise InputError(
                    f"the stream in {self.path} has {name} {old}, not {new}: continue with the original settings, "
                    "or start in an empty folder"
                )
        if not _is_same_gold(known, online):
            sizes = [len(stream.gold_labels()) for stream in (known, online)]
            raise InputError(
                f"the stream in {self.path} has {sizes[0]} gold labels, not the {sizes[1]} given: "
                "continue with the original gold, or start in an empty folder"
            )
        return progress, known

    def progress(self) -> Progress:
        """Return the progress of the stream."""
        meta, _ = container.load(self.pointer, "stream", VERSION, META, {})
        bounds = Bounds(self.pointer)
        strangers = [name for name in meta if name not in META]
        bounds.need(not strangers, f"its meta has {itemize(map(quote, strangers), 3)}, which nothing uses")
        for name, value in meta.items():
            bounds.need(not isinstance(value, int) or value >= (-1 if name == "batch" else 0), f"it has {name} {quote(value)}")
        return Progress(**meta)

    def online(self) -> Online:
        """Return a copy of the Online after the last finished batch."""
        return Online.load(self._file(self.progress().batch))

    def finish(self, before: Progress, after: Progress, online: Online) -> None:
        """Store the state after a batch, atomically; keep the state before it, and remove older ones."""
        if self.progress() != before:
            raise AdjudgeError(f"another job writes to {self.path}: stop one of the two, and start the other again")
        self._write(after, online)
        kept = {self._file(before.batch), self._file(after.batch)}
        for path in (*self.path.glob("online-*.adjudge"), *self.path.glob(".adjudge-*")):  # the latter of interrupted writes
            if path not in kept:
                path.unlink(missing_ok=True)

    def _write(self, progress: Progress, online: Online) -> None:
        online.save(self._file(progress.batch))
        container.save(self.pointer, "stream", VERSION, asdict(progress), {})

    def _file(self, batch: int) -> Path:
        return self.path / f"online-{'begin' if batch < 0 else f'{batch:09d}'}.adjudge"


def _is_same_gold(one: Online, other: Online) -> bool:
    both = (select(online.gold_labels(), {"task": "task", "label": "label"}) for online in (one, other))
    first, second = (gold.select(pl.all().cast(pl.String)).sort("task") for gold in both)
    return first.equals(second)


def check_turn(progress: Progress, batch: int, query: str | None, folder: Path) -> bool:
    """Return whether a batch is the next one (True) or the last one (False); raise for any other.

    >>> check_turn(Progress(batch=4), 5, None, Path("state")), check_turn(Progress(batch=4), 4, None, Path("state"))
    (True, False)
    """
    if progress.query not in (None, query):
        raise InputError(
            f"{folder} belongs to the query {progress.query}, not to {query}: its checkpoint was removed or replaced; "
            "restore it, or start in an empty folder"
        )
    if batch not in (progress.batch, progress.batch + 1):
        raise InputError(
            f"Spark gives batch {batch}, but the state in {folder} ends with batch {quote(progress.batch)}: "
            "the checkpoint and the state are from different moments; restore both together"
        )
    return batch == progress.batch + 1


class SparkStream:
    """Labels of a stream of votes in Spark, kept up to date by one `Online` on the driver.

    Parameters
    ----------
    online : Online
        The initial stream of a new folder; its gold applies to the whole job.
    state : str or path
        The job's folder: started with the same folder, the job continues where it was, even after a kill.
    sink : Sink or str or path, optional
        Receives, after each batch, a row for every task that got votes (and, after a refit, for every task whose label changed):
        a function of the frame and the batch's id, or the name of a folder with a known suffix, which gets a folder `batch_id=N`
        per batch.
    task, worker, label : str, optional
        The columns, if they do not have usual names.
    order : str or sequence of str, default ()
        Columns by which the votes of a batch are ordered, before task, worker and label.
    bad : OnBadRows, default "fail"
        A row without task or worker, or with an undeclared label: "fail" ends the batch, "skip" leaves the row out.
    refit_every : int, default 0
        Refit after every so many batches; 0 means never.

    Examples
    --------
    >>> import adjudge as adj
    >>> stream = adj.SparkStream(adj.Online(labels=["cat", "dog"]), state="state", sink="decisions.parquet")
    >>> query = stream.start(votes, processingTime="10 seconds")  # doctest: +SKIP

    """

    def __init__(
        self,
        online: Online,
        *,
        state: str | os.PathLike[str],
        sink: Sink | str | os.PathLike[str] | None = None,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        order: str | Sequence[str] = (),
        bad: OnBadRows = "fail",
        refit_every: int = 0,
    ) -> None:
        options.check({"bad": bad, "refit_every": refit_every}, RULES)
        if not isinstance(online, Online):
            raise InputError(f"cannot continue from {quote(online)}: give a adjudge.Online")
        self._given, self._folder = online, StateFolder(state)
        self._sink = into_folder(os.fspath(sink)) if isinstance(sink, str | os.PathLike) else sink
        self._wanted = dict(zip(ROLES, (task, worker, label), strict=True))
        self._order = [order] if isinstance(order, str) else list(order)
        self._bad, self._refit_every = bad, refit_every

    def __repr__(self) -> str:
        return f"SparkStream({self._folder.path})"

    @property
    def progress(self) -> Progress:
        """The progress: the last finished batch, and the counts until then."""
        return self._folder.progress()

    def online(self) -> Online:
        """Return a copy of the Online after the last finished batch."""
        return self._folder.online()

    def start(self, votes: Frame, *, name: str | None = None, **trigger: Any) -> Any:
        """Start the stream and return its running StreamingQuery.

        Parameters
        ----------
        votes : frame
            A streaming frame.
        name : str, optional
            Name of the query.
        **trigger
            Spark's trigger, such as `availableNow=True`.

        """
        return self._start(votes, name, trigger)[0]

    def run(self, votes: Frame, *, name: str | None = None, **trigger: Any) -> Progress:
        """Run the stream until it ends, and return its progress.

        Parameters
        ----------
        votes, name : as for `start`
            The streaming frame, and the name of the query.
        **trigger
            Spark's trigger; by default the stream takes what is available now, and ends.

        """
        query, job = self._start(votes, name, trigger or {"availableNow": True})
        try:
            with plain_errors("the stream stopped"):
                query.awaitTermination()
        except AdjudgeError:
            if job.error is not None:  # the original error, without Spark's wrapping
                raise job.error from None
            raise
        finally:
            if query.isActive:  # Ctrl-C
                query.stop()
            job.close()
        return self.progress

    def _start(self, votes: Frame, name: str | None, trigger: dict[str, Any]) -> tuple[Any, _StreamRun]:
        picked = self._pick_columns(votes)
        job = _StreamRun(self._folder, *self._folder.begin(self._given), self._sink, self._bad, self._refit_every)
        atexit.register(job.close)
        writer = picked.writeStream.foreachBatch(job).option("checkpointLocation", f"file://{self._folder.checkpoint}")
        with plain_errors("cannot start the stream"):
            writer = writer.trigger(**trigger) if trigger else writer
            return (writer.queryName(name) if name else writer).start(), job

    def _pick_columns(self, votes: Frame) -> Frame:
        """Return the columns that are used: the three roles, then those that give the order."""
        if not is_spark_frame(votes) or not votes.isStreaming:
            raise InputError(f"votes is {quote(votes)}: give a streaming frame (spark.readStream…)")
        if type(votes).__module__.startswith("pyspark.sql.connect"):
            raise InputError("this frame belongs to Spark Connect, whose driver is elsewhere: use a classic Spark session")
        columns: dict[str, str] = find(votes.columns, self._wanted, "the stream")
        for index, column in enumerate(self._order):
            if column not in votes.columns:
                raise InputError(
                    f"the stream: there is no column {quote(column)} to order by; the columns are: {itemize(votes.columns)}"
                )
            columns[f"order_{index}"] = column
        picked = votes.selectExpr(*(f"{sql_name(column)} AS {role}" for role, column in columns.items()))
        for role in ROLES:
            kind = picked.schema[role].dataType.typeName()
            if kind not in TYPES and (role, kind) != ("label", "boolean"):
                raise InputError(f"the {role} column {quote(columns[role])} holds {kind}: cast it to string or to a whole number")
        return picked


class _StreamRun:
    """One run of a stream: Spark calls it with every batch."""

    def __init__(
        self, folder: StateFolder, progress: Progress, online: Online, sink: Sink | None, bad: str, refit_every: int
    ) -> None:
        self._folder, self._progress, self._online, self._sink = folder, progress, online, sink
        self._skips, self._refit_every = bad == "skip", refit_every
        self._checked = False  # whether the ids of known tasks have the type of the stream's column
        self.error: Exception | None = None

    def close(self) -> None:
        """Free the Online: Spark's gateway keeps every function it was ever given."""
        atexit.unregister(self.close)
        self.error = None
        del self._online

    def __call__(self, batch: Frame, number: int) -> None:
        try:
            return self._take(batch, number)
        except Exception as error:
            self.error = error
            is_ours = isinstance(error, AdjudgeError)
            twin = type(error)(str(error)) if is_ours else RuntimeError(traceback.format_exc())
        raise twin  # the gateway keeps errors, too: raise one without the traceback and all it refers to

    def _take(self, batch: Frame, number: int) -> None:
        """Learn a batch, pass its decisions to the sink, and then store that it is finished.

        A job that is killed before the last step repeats the batch: the same votes in the same order give the same
        decisions under the same id. A job that is killed after it does not.
        """
        spark = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not check_turn(self._progress, number, query, self._folder.path):
            return
        with _first_cause(f"batch {number}: cannot read the votes"):
            rows = gather(batch)
        if self._online.settings["confidence"] == "honest":
            self._online.renew()  # as after a restart, which knows nothing of earlier renewals: the same rows come again
        ordered = rows.sort([*rows.columns[len(ROLES) :], *ROLES]).select(ROLES)
        votes, skipped = sound(ordered, self._online, number, skip=self._skips)
        given = votes.drop_nulls("label")
        if self._refit_every and not self._checked:  # a refit returns tasks known before: raise now, not at the first refit
            _labels_as(self._online, given["task"].dtype)
            self._checked = True
        refit = self._refit_every > 0 and (number + 1) % self._refit_every == 0
        for task, worker in votes.filter(pl.col("label").is_null()).select("task", "worker").iter_rows():
            self._online.learn(task, worker, None)
        decisions = decide(given, self._online, number, refit=refit)
        if self._sink is not None:
            self._sink(to_spark(decisions, spark), number)
        now = self._progress
        after = replace(
            now,
            batch=number,
            query=query,
            votes=now.votes + len(given),
            abstentions=now.abstentions + len(votes) - len(given),
            skipped=now.skipped + skipped,
        )
        self._folder.finish(now, after, self._online)
        self._progress = after
        log.info("batch %d: %d votes, %d decisions", number, len(given), len(decisions))


@contextmanager
def _first_cause(what: str) -> Iterator[None]:
    """Turn an error of Spark into one line that ends with its first cause, which Java prints last."""
    try:
        with plain_errors(what):
            yield
    except AdjudgeError as error:
        first = str(error.__cause__).rpartition("Caused by: ")
        if not first[1]:
            raise
        message = re.sub(r"^[\w.$]+: ", "", first[2].partition("\n\tat ")[0])
        raise InputError(f"{what}: {' '.join(message.split())}") from error
