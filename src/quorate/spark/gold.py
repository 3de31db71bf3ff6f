"""Gold for votes on Spark: it goes the way of the votes, and meets them where their task lies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from quorate.errors import InputError, listed, shown
from quorate.io import answers
from quorate.io.columns import find
from quorate.io.ids import column
from quorate.io.sources import Source, is_spark_frame
from quorate.spark.files import scan
from quorate.spark.session import Frame, functions, plain_errors, spread
from quorate.spark.survey import PLAIN_NUMBER
from quorate.spark.votes import SQL_KIND, SparkVotes, ids_and_odd
from quorate.vocabulary import Vocabulary

ROLE = "gold label"


@dataclass(frozen=True, eq=False)
class FarGold:
    """Tasks as text, each with the code of its label (`gold`), in a Spark frame."""

    frame: Frame
    count: int

    def __len__(self) -> int:
        return self.count


def read_gold(source: Source, votes: SparkVotes) -> FarGold:
    """Returns gold (a Spark frame, a path or URI, or what `quorate.aggregate` takes) in codes; an unknown label is an error."""
    path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if path is not None and not Path(path).exists():  # not a file of the driver: Spark may know it
        source = scan([path])[0]
    spark = votes.frame.sparkSession
    if not is_spark_frame(source):
        gold = answers.read_gold(source, votes.labels)
        told = pl.DataFrame({"task": column(gold.tasks), "gold": pl.Series(gold.labels, dtype=pl.Int64)})
        return FarGold(spread(told, spark), len(gold))
    with plain_errors("cannot read the gold"):
        return _coded(_texts(source), votes.labels, spark)


def beside(votes: SparkVotes, gold: FarGold) -> Frame:
    """Returns task, worker, label and gold: a line for every vote, and one without worker and label for every gold task."""
    f = functions()
    nothing = [f.lit(None).cast(votes.frame.schema[role].dataType).alias(role) for role in ("worker", "label")]
    cast = votes.frame.withColumn("gold", f.lit(None).cast("bigint"))
    text, kind = f.col("task"), votes.task_kind
    told = gold.frame
    if kind == "integer":
        told = told.where(text.rlike(PLAIN_NUMBER)).withColumn("task", f.expr("try_cast(task as bigint)"))
    elif kind == "boolean":
        told = told.where(text.isin("true", "false")).withColumn("task", text == "true")
    return cast.union(told.select(f.col("task").cast(SQL_KIND[kind]), *nothing, f.col("gold")))


def _texts(source: Frame) -> Frame:
    """Returns task and label as text, of the lines that have both."""
    columns = find(source.columns, {"task": None, ROLE: None}, "the gold")
    f = functions()
    plain = source.toDF(*(f"c{n}" for n in range(len(source.columns))))
    out = []
    for role, name in columns.items():
        place = source.columns.index(name)
        ids, odd = ids_and_odd(plain[f"c{place}"], source.schema.fields[place].dataType.typeName(), role)
        out += [ids.cast("string").alias("task" if role == "task" else "label"), odd.alias(f"odd {role}")]
    ready = plain.select(out)
    strange = ready.agg(*(f.max(f.col(f"`odd {role}`")) for role in columns)).first()
    for role, value in zip(columns, strange, strict=True):
        if value is not None:
            raise InputError(f"a {role} of the gold is {value}: give text or whole numbers")
    return ready.select("task", "label").dropna()


def _coded(told: Frame, labels: Vocabulary, spark: object) -> FarGold:
    f = functions()
    codes = pl.DataFrame({"label": pl.Series(labels.texts(), dtype=pl.String), "gold": pl.arange(len(labels), eager=True)})
    joined = told.distinct().join(f.broadcast(spread(codes, spark)), "label", "left").select("task", "label", "gold")
    stranger = joined.where(f.col("gold").isNull()).first()
    if stranger is not None:
        raise InputError(
            f"gold gives task {shown(stranger[0])} the label {shown(stranger[1])}, which is not among the labels: "
            f"{listed(labels.ids())}; declare it with labels=… when no vote has it"
        )
    return FarGold(joined.select("task", "gold"), joined.count())
