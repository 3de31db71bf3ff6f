"""A Spark Structured Streaming job that keeps labels up to date: every vote counted once, whatever happens to the job."""

from __future__ import annotations

import atexit
import logging
import os
import re
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from quorate import settings
from quorate.errors import InputError, QuorateError, listed, shown
from quorate.io.columns import find
from quorate.io.sources import is_spark_frame
from quorate.online import Online
from quorate.settings import Choice, Number, Rules
from quorate.spark.folders import Sink, into_folder
from quorate.spark.session import Frame, gather, plain_errors, quoted, spread
from quorate.spark.stream_batch import ROLES, decide, sound
from quorate.spark.stream_state import Progress, StateFolder, check_turn

RULES: Final[Rules] = {"bad": Choice(("fail", "skip")), "refit_every": Number(least=0, whole=True)}
TYPES: Final = ("string", "varchar", "char", "byte", "short", "integer", "long")

log = logging.getLogger(__name__)


class SparkStream:
    """Labels that follow a stream of votes in Spark, with one `Online` on the driver.

    Votes are any streaming frame with columns for task, worker and label. After each batch, `sink` is given a row for
    every task that got votes (and, after a refit, for every task whose label changed): a function that takes the frame
    and the batch's id, or the name of a folder with a known suffix, which gets a folder `batch_id=N` per batch. `state`
    is the job's folder: started again with it, the job goes on where it was, after a kill too.

    Inside a batch votes are learned in the order of the columns `order`, then by task, worker and label. A row without
    task or worker, or with an undeclared label, fails its batch; `bad="skip"` leaves it out. `refit_every=N` refits
    after every N batches.

    >>> import quorate as qr
    >>> stream = qr.SparkStream(qr.Online(labels=["cat", "dog"]), state="state", sink="decisions.parquet")
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
        bad: str = "fail",
        refit_every: int = 0,
    ) -> None:
        settings.check({"bad": bad, "refit_every": refit_every}, RULES)
        if not isinstance(online, Online):
            raise InputError(f"cannot go on from {shown(online)}: give a quorate.Online")
        self._given, self._folder = online, StateFolder(state)
        self._sink = into_folder(os.fspath(sink)) if isinstance(sink, str | os.PathLike) else sink
        self._wanted = dict(zip(ROLES, (task, worker, label), strict=True))
        self._order = [order] if isinstance(order, str) else list(order)
        self._bad, self._refit_every = bad, refit_every

    def __repr__(self) -> str:
        return f"SparkStream({self._folder.path})"

    @property
    def progress(self) -> Progress:
        """How far the stream has come: the last finished batch, and what was counted until then."""
        return self._folder.progress()

    def online(self) -> Online:
        """Returns the Online after the last finished batch; it is the caller's own, the job keeps another."""
        return self._folder.online()

    def start(self, votes: Frame, *, name: str | None = None, **trigger: Any) -> Any:
        """Returns the running StreamingQuery over a streaming frame; `trigger` is Spark's (`availableNow=True`, …)."""
        return self._start(votes, name, trigger)[0]

    def run(self, votes: Frame, *, name: str | None = None, **trigger: Any) -> Progress:
        """Returns how far the stream came when it ended; without a trigger it takes what is there now, and ends."""
        query, job = self._start(votes, name, trigger or {"availableNow": True})
        try:
            with plain_errors("the stream stopped"):
                query.awaitTermination()
        except QuorateError:
            if job.error is not None:  # as it was raised, without what Spark wraps around it
                raise job.error from None
            raise
        finally:
            if query.isActive:  # Ctrl-C
                query.stop()
            job.close()
        return self.progress

    def _start(self, votes: Frame, name: str | None, trigger: dict[str, Any]) -> tuple[Any, _Job]:
        picked = self._picked(votes)
        job = _Job(self._folder, *self._folder.begin(self._given), self._sink, self._bad, self._refit_every)
        atexit.register(job.close)
        writer = picked.writeStream.foreachBatch(job).option("checkpointLocation", f"file://{self._folder.checkpoint}")
        with plain_errors("cannot start the stream"):
            writer = writer.trigger(**trigger) if trigger else writer
            return (writer.queryName(name) if name else writer).start(), job

    def _picked(self, votes: Frame) -> Frame:
        """Returns the columns that are used: a role each, then those that give the order."""
        if not is_spark_frame(votes) or not votes.isStreaming:
            raise InputError(f"votes is {shown(votes)}: give a streaming frame (spark.readStream…)")
        if type(votes).__module__.startswith("pyspark.sql.connect"):
            raise InputError("this frame belongs to Spark Connect, whose driver is elsewhere: use a classic Spark session")
        columns: dict[str, str] = find(votes.columns, self._wanted, "the stream")
        for place, column in enumerate(self._order):
            if column not in votes.columns:
                raise InputError(
                    f"the stream: there is no column {shown(column)} to order by; the columns are: {listed(votes.columns)}"
                )
            columns[f"order_{place}"] = column
        picked = votes.selectExpr(*(f"{quoted(column)} AS {role}" for role, column in columns.items()))
        for role in ROLES:
            kind = picked.schema[role].dataType.typeName()
            if kind not in TYPES and (role, kind) != ("label", "boolean"):
                raise InputError(f"the {role} column {shown(columns[role])} holds {kind}: cast it to string or to a whole number")
        return picked


class _Job:
    """One run of a stream: what Spark calls with every batch."""

    def __init__(
        self, folder: StateFolder, progress: Progress, online: Online, sink: Sink | None, bad: str, refit_every: int
    ) -> None:
        self._folder, self._progress, self._online, self._sink = folder, progress, online, sink
        self._skips, self._refit_every = bad == "skip", refit_every
        self.error: Exception | None = None

    def close(self) -> None:
        """Lets go of what is large: Spark's gateway keeps every function it was ever given."""
        atexit.unregister(self.close)
        self.error = None
        del self._online

    def __call__(self, batch: Frame, number: int) -> None:
        try:
            return self._take(batch, number)
        except Exception as error:
            self.error = error
            is_ours = isinstance(error, QuorateError)
            twin = type(error)(str(error)) if is_ours else RuntimeError(traceback.format_exc())
        raise twin  # the gateway keeps errors, too: not one that holds on to all that its traceback has seen

    def _take(self, batch: Frame, number: int) -> None:
        """Learns a batch, gives its decisions away, and only then says that it is finished.

        Killed before the last step, the job forgets the batch: it is taken again from the same votes in the same
        order, and the same decisions are given away under the same id. Killed after it, the batch is not taken again.
        """
        spark = batch.sparkSession
        query = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not check_turn(self._progress, number, query, self._folder.path):
            return
        with _told(f"batch {number}: cannot read the votes"):
            rows = gather(batch)
        ordered = rows.sort([*rows.columns[len(ROLES) :], *ROLES]).select(ROLES)
        votes, skipped = sound(ordered, self._online, number, skip=self._skips)
        given = votes.drop_nulls("label")
        refit = self._refit_every > 0 and (number + 1) % self._refit_every == 0
        decisions = decide(given, self._online, number, refit=refit)
        if self._sink is not None:
            self._sink(spread(decisions, spark), number)
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
def _told(what: str) -> Iterator[None]:
    """Turns an error of Spark into one line that ends with what first went wrong, which Java tells last."""
    try:
        with plain_errors(what):
            yield
    except QuorateError as error:
        first = str(error.__cause__).rpartition("Caused by: ")
        if not first[1]:
            raise
        message = re.sub(r"^[\w.$]+: ", "", first[2].partition("\n\tat ")[0])
        raise InputError(f"{what}: {' '.join(message.split())}") from error
