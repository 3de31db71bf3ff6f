"""The survey of a Spark frame: the votes of every (worker, label) pair, and sums per label.

One job computes both. The sums per label always go to the driver, the pairs only if they are few.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import polars as pl

from adjudge.io.encode import narrow_ids
from adjudge.io.frames import vocabulary
from adjudge.spark.session import Frame, arrow_batches, empty_like, functions, gather, ipc, map_arrow

ROLES: Final = ("task", "worker", "label")
PAIR: Final = ("worker", "label", "votes")
# A text that is a whole number in its shortest form: "7", not "007".
PLAIN_NUMBER: Final = "^(0|-?[1-9][0-9]{0,18})$"
UNLIMITED: Final = 1 << 62  # pairs
SHUFFLE_PARTITIONS: Final = 200  # assumed where Spark chooses
MIN_PAIRS: Final = 1 << 16  # of a partition that always go to the driver
SENT: Final = "sums binary, whole boolean, pairs binary"


class Survey(NamedTuple):
    """The votes of a frame summed per label; a missing label has a line, too."""

    labels: pl.DataFrame  # label, rows, votes, without_task, without_worker, tasks_are_whole, odd_task, …
    workers_are_whole: bool  # whether all are whole numbers; False where `narrow` was not set
    frame: Frame  # worker, label, votes: a line per pair
    some: pl.DataFrame | None  # the same on the driver; None if a partition had too many pairs

    @property
    def rows(self) -> int:
        """The number of pairs with a label."""
        return int(self.labels.drop_nulls("label")["rows"].sum())

    def pairs(self) -> pl.DataFrame:
        """Return worker, label and votes of every row, and of abstentions, whose label is null; gathered on the driver."""
        seen = gather(self.frame) if self.some is None else self.some
        return seen.select(PAIR)


@dataclass(frozen=True)
class _Send:
    """What a partition of pairs sends to the driver."""

    narrow: bool  # whether texts that are whole numbers are read as numbers
    max_pairs: int  # with more, a partition sends none

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pairs: list[pl.DataFrame] = []
        sums: list[pl.DataFrame] = []
        lines, whole = 0, True
        for batch in batches:
            frame = pl.DataFrame(batch)
            lines += len(frame)
            sums.append(_by_label(frame))
            pairs = [*pairs, frame.select(PAIR)] if lines <= self.max_pairs else []
            whole = whole and self.narrow and _are_whole(frame["worker"])
        if lines:
            kept = ipc(pl.concat(pairs), packed=True) if lines <= self.max_pairs else None
            line = {"sums": ipc(_add_up(sums)), "whole": whole, "pairs": kept}
            schema = {"sums": pl.Binary, "whole": pl.Boolean, "pairs": pl.Binary}
            yield from arrow_batches(pl.DataFrame([line], schema=schema))


def survey(prepared: Frame, narrow: bool, max_pairs: int = UNLIMITED) -> Survey:
    """Return the survey of a frame of the three columns and their odd values, with the pairs if at most `max_pairs`."""
    f = functions()
    whole = f.lit(False)
    if narrow:
        whole = f.col("task").rlike(PLAIN_NUMBER) & f.expr("try_cast(task as bigint) is not null")
    # Aggregate numbers only: for the largest text Spark would sort all votes.
    frame = prepared.groupBy("worker", "label").agg(
        f.count(f.lit(1)).alias("votes"),
        f.sum(f.col("task").isNull().cast("bigint")).alias("without_task"),
        f.min(whole).alias("tasks_are_whole"),
        *(f.max(f"odd_{role}").alias(f"odd_{role}") for role in ROLES),
    )
    parts = prepared.sparkSession.conf.get("spark.sql.shuffle.partitions")
    send = _Send(narrow, max(max_pairs // (int(parts) if parts.isdigit() else SHUFFLE_PARTITIONS), MIN_PAIRS))
    sent = map_arrow(frame, send.__call__, SENT).collect()
    nothing = empty_like(frame)
    sums = [_by_label(nothing), *(pl.read_ipc(bytes(line["sums"])) for line in sent)]
    some = None
    if all(line["pairs"] is not None for line in sent):
        some = pl.concat([nothing.select(PAIR), *(pl.read_ipc(bytes(line["pairs"])) for line in sent)])
    return Survey(_add_up(sums), bool(sent) and all(line["whole"] for line in sent), frame, some)


def _by_label(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the sums over the pairs of each label."""
    without_worker = pl.when(pl.col("worker").is_null()).then("votes").otherwise(0)
    return _add_up([pairs.with_columns(rows=pl.lit(1, pl.Int64), without_worker=without_worker)])


def _add_up(sums: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the sums of each label over several frames of sums."""
    by_label = pl.concat(sums).group_by("label")
    return by_label.agg(
        pl.col("rows", "votes", "without_task", "without_worker").sum(),
        pl.col("tasks_are_whole").all(),
        pl.col(f"odd_{role}" for role in ROLES).max(),
    )


def _are_whole(ids: pl.Series) -> bool:
    """Return whether all ids are texts of whole numbers; True for no texts at all."""
    texts = ids.drop_nulls().unique()
    return ids.dtype == pl.String and (not len(texts) or narrow_ids(vocabulary(texts)).kind == "integer")
