"""Where votes and rows lie on the executors: parts of tasks, blocks of workers, and the ways between them.

A part lists the rows it uses, block by block; a block numbers what all parts list. That is one shuffle, once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl

from quorate.prior import Others
from quorate.spark import session as spark
from quorate.spark.answers import Ids
from quorate.spark.blocks import Ask, Block, Named, number
from quorate.spark.gold import beside
from quorate.spark.layout import WHAT, Size, partitions_for, size_of
from quorate.spark.messages import WIDE_SCHEMA, WidePacking, WidePart
from quorate.spark.session import Frame, alike, arrow_batches, functions, ipc, place, plain_errors
from quorate.spark.votes import WideVotes
from quorate.vocabulary import Vocabulary
from quorate.votes import Panel

MANY = 1 << 20  # votes in a part, above which it is divided: each may ask for a row of its own
CELLS = 1 << 21  # of a block's table, beyond which there are more blocks
FEW = 1 << 16  # rows in a block, below which it is not worth its task

Rdd = Any  # pyspark is optional, so its types are not named


class Routes:
    """Parts and blocks, laid out when first asked for."""

    def __init__(self, votes: WideVotes, partitions: int | None, blocks: int | None, gold: Any) -> None:
        self.past: Callable[[Panel], Others] | None = None  # what is known of workers beforehand; before anything is laid out
        self._spark = votes.frame.sparkSession
        self._votes, self._partitions, self._gold = votes, partitions, gold
        cells, cores = votes.n_rows * votes.n_labels, self._spark.sparkContext.defaultParallelism
        self.n_blocks: int = blocks or max(1, min(cores, votes.n_rows // FEW), cells // CELLS)

    @cached_property
    def size(self) -> Size:
        """How many tasks, votes and tasks without votes there are; laid out on the executors when first asked."""
        return size_of(self.packed, len(self._votes), self.release)

    @cached_property
    def packed(self) -> Frame:
        """The votes on the executors' disks, a line per partition, with the ids of its tasks and the rows it uses."""
        votes = self._votes
        n = self._partitions or partitions_for(len(votes), self._spark.sparkContext, MANY)
        panel = Panel(worker_ptr=votes.worker_ptr, row_label=votes.row_label, workers=votes.workers, labels=votes.labels)
        packing = WidePacking(panel, votes.duplicates, self._gold is not None, self.n_blocks)
        with plain_errors(WHAT):
            source = votes.frame if self._gold is None else beside(votes, self._gold)
            frame = spark.map_arrow(source.repartition(n, "task"), packing.__call__, WIDE_SCHEMA)
            return frame.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def parts(self) -> Rdd:
        """(part, its votes), as passes want them."""
        assert self.size is not None  # laid out, and found to be sound
        lines = self.packed.select("part", "slices").rdd
        parts = lines.mapPartitionsWithIndex(_parts).partitionBy(lines.getNumPartitions(), place)
        return parts.persist(spark.storage("MEMORY_AND_DISK"))

    @cached_property
    def named(self) -> Rdd:
        """(block, its rows, who asks for them, and the ids of its workers)."""
        lists = self.packed.select(functions().spark_partition_id().alias("part"), "slices", "asks")
        # A line for each block: a list as a whole would be copied several times on its way from Java to Python.
        asks = spark.map_arrow(lists, _asks, "block bigint, part bigint, rows binary")
        asks = asks.rdd.map(_ask).partitionBy(self.n_blocks, place)
        make = partial(_numbered, self._votes.labels, self.past)
        named = alike(asks.mapPartitionsWithIndex(make, preservesPartitioning=True), self.parts)
        return named.persist(spark.storage("DISK_ONLY"))

    @cached_property
    def blocks(self) -> Rdd:
        """(block, its rows and who asks for them), as passes want them."""
        return alike(self.named.mapValues(_block), self.parts).persist(spark.storage("DISK_ONLY"))

    @cached_property
    def n_workers(self) -> int:
        """The number of workers."""
        with plain_errors(WHAT):
            return int(self.named.mapPartitions(_count_workers).sum())

    def ids(self) -> Rdd:
        """Returns (part, the ids of its tasks)."""
        lines = self.packed.select("ids").rdd
        return lines.mapPartitionsWithIndex(_ids).partitionBy(self.parts.getNumPartitions(), place)

    def release(self) -> None:
        """Gives back what the executors keep."""
        for kept in ("blocks", "named", "parts", "packed"):
            if kept in self.__dict__:
                self.__dict__[kept].unpersist()


def _parts(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, WidePart]]:
    for line in lines:
        yield index, WidePart(bytes(line["part"]), np.frombuffer(bytes(line["slices"]), np.int64))


def _ids(index: int, lines: Iterable[Any]) -> Iterator[tuple[int, Ids]]:
    for line in lines:
        yield index, Ids(bytes(line["ids"]))


def _asks(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for part, bounds, asks in pl.DataFrame(batch).iter_rows():
            rows, slices = pl.read_ipc(asks), np.frombuffer(bounds, np.int64).tolist()
            for block, (start, end) in enumerate(itertools.pairwise(slices)):
                if end > start:
                    line = {"block": [block], "part": [part], "rows": [ipc(rows[start:end], packed=True)]}
                    yield from arrow_batches(pl.DataFrame(line))


def _ask(line: Any) -> tuple[int, tuple[int, bytes]]:
    return line["block"], (line["part"], bytes(line["rows"]))


def _numbered(
    labels: Vocabulary,
    past: Callable[[Panel], Others] | None,
    index: int,
    asks: Iterable[tuple[int, tuple[int, bytes]]],
) -> Iterator[tuple[int, Named]]:
    named = number((Ask(part, pl.read_ipc(rows)) for _, (part, rows) in asks), labels)
    if past is not None:
        named = named._replace(block=replace(named.block, history=past(named.panel())))
    yield index, named


def _block(named: Named) -> Block:
    return named.block


def _count_workers(items: Iterable[tuple[int, Named]]) -> Iterator[int]:
    for _, named in items:
        yield named.block.n_workers
