"""What an executor keeps of a block of workers: their rows, which parts ask for which of them, their counts and table.

Workers are put into blocks by the hash of their id. A part lists the rows it uses block by block, once; the block numbers
what all parts list, and remembers who asked for what. From then on nothing but numbers travels, in the order of the lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.counts import Others
from quorate.data.exact import from_coarse
from quorate.data.vocabulary import Vocabulary
from quorate.data.votes import Panel
from quorate.engines.base import Recipe, WorkerBlock
from quorate.engines.shard import hashes
from quorate.io.ids import matched, sort_order, vocabulary
from quorate.kernels.cpu import fastest
from quorate.spark.executor import Ends

Floats = NDArray[np.float64]


def block_of(workers: Vocabulary, blocks: int) -> NDArray[np.int64]:
    """Return the block of each worker, [workers]."""
    kernels = fastest()
    return (hashes(kernels, workers) % np.uint64(blocks)).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Block(Panel):
    """The panel of some workers, whose ids lie elsewhere, and the ways to the parts that ask for its rows."""

    per_row: NDArray[np.int64]  # [rows] votes
    routes: dict[int, NDArray[np.uint32]]  # by part: the rows it asks for, in the order it does
    history: Others | None = None  # pseudo-votes of these workers

    @classmethod
    def nobody(cls, labels: Vocabulary) -> Block:
        """Return a block without workers."""
        nothing = np.zeros(0, np.int64)
        return cls(
            worker_ptr=np.zeros(1, np.int64),
            row_label=nothing.astype(np.int32),
            workers=Vocabulary("integer", nothing),
            labels=labels,
            per_row=nothing,
            routes={},
        )

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return how many votes each row holds, [rows]."""
        return self.per_row

    def workers_here(self) -> WorkerBlock:
        """Return what M-steps know of these workers."""
        kernels: Any = fastest()
        return WorkerBlock(self, self.votes_per_row, self.history, kernels.confusion_table)


class Named(NamedTuple):
    """A block, and the ids of its workers."""

    block: Block
    workers: Vocabulary

    def panel(self) -> Panel:
        """Return the block with the ids of its workers."""
        return replace(self.block, workers=self.workers)


class Ask(NamedTuple):
    """The rows of one block that a part uses, as the part lists them."""

    part: int
    rows: pl.DataFrame  # worker, label (its code), votes


def number(asks: Iterable[Ask], labels: Vocabulary) -> Named:
    """Return the block of the rows that parts ask for, sorted by worker, then label, whatever order parts come in."""
    asked = [ask for ask in sorted(asks, key=lambda ask: ask.part) if len(ask.rows)]
    if not asked:
        nobody = Block.nobody(labels)
        return Named(nobody, nobody.workers)
    every = pl.concat([ask.rows for ask in asked])
    distinct = vocabulary(every["worker"].unique())
    workers = distinct.take(sort_order(distinct))
    k = max(len(labels), 1)
    keys, row = np.unique(matched(vocabulary(every["worker"]), workers) * k + every["label"].to_numpy(), return_inverse=True)
    ends = np.cumsum([len(ask.rows) for ask in asked])
    routes = {ask.part: row[end - len(ask.rows) : end].astype(np.uint32) for ask, end in zip(asked, ends, strict=True)}
    block = Block(
        worker_ptr=np.searchsorted(keys, np.arange(len(workers) + 1) * k).astype(np.int64),
        row_label=(keys % k).astype(np.int32),
        workers=Vocabulary("integer", np.zeros(0, np.int64)),
        labels=labels,
        per_row=np.bincount(row, every["votes"].to_numpy(), minlength=len(keys)).astype(np.int64),
        routes=routes,
    )
    return Named(block, workers)


class Asked(NamedTuple):
    """A block's lines of the table, as a part asked for them."""

    block: int
    table: Floats  # [asked, K]


class Count(NamedTuple):
    """What a part has counted of a block's rows, less those it counted nothing of."""

    part: int
    place: NDArray[np.uint32]  # [lines] in the part's list
    lines: NDArray[Any]  # [lines, …]


class Post(NamedTuple):
    """A part's labels, kept by a block from pass to pass, and what its pass adds up to."""

    part: int
    labels: NDArray[Any]  # [tasks]
    classes: NDArray[Any]  # [K]
    ends: NDArray[np.float64]  # [Ends]


class BlockSummary(NamedTuple):
    """What a block tells the driver; two of them add."""

    classes: NDArray[Any]  # [K]
    ends: NDArray[np.float64]  # [Ends]
    classification: float = 0.0  # of the votes alone
    penalty: float = 0.0  # of the table to come
    digests: tuple[tuple[int, bytes], ...] = ()  # of the counts, by block

    def plus(self, other: BlockSummary) -> BlockSummary:
        """Return the sum of both."""
        return BlockSummary(
            self.classes + other.classes,
            self.ends + other.ends,
            self.classification + other.classification,
            self.penalty + other.penalty,
            self.digests + other.digests,
        )


class State(NamedTuple):
    """What a pass leaves with a block."""

    counts: NDArray[Any]  # [rows, K] int64 when hard, float64 when soft
    table: Floats  # [rows, K] what the M-step makes of them; empty where none follows
    labels: tuple[Post, ...]  # of the parts whose labels it keeps
    summary: BlockSummary


@dataclass(frozen=True)
class Receive:
    """Adds up what parts have counted, and takes the M-step."""

    recipe: Recipe | None
    hard: bool
    delta: bool  # on top of the counts before
    width: int  # numbers in a line
    seen: bool = False  # whether counts are compared with earlier ones
    unit: float | None = None  # of soft counts, which are then brought back to scale

    def __call__(self, number: int, block: Block, before: State | None, mail: list[Count | Post]) -> State:
        """Return the state after a pass."""
        kind = np.int64 if self.hard else np.float64
        counts: NDArray[Any] = np.zeros((block.n_rows, self.width), kind)
        if self.delta and before is not None:
            counts += before.counts
        # In the order of the parts, so that a sum made again after a loss is the same to the last bit.
        for one in sorted((m for m in mail if isinstance(m, Count)), key=lambda m: m.part):
            counts[block.routes[one.part][one.place]] += one.lines
        if self.unit is not None:
            counts = from_coarse(counts, self.unit)
        posts = tuple(sorted((m for m in mail if isinstance(m, Post)), key=lambda m: m.part))
        classes = sum((p.classes for p in posts), np.zeros(block.n_labels, kind))
        ends = sum((p.ends for p in posts), np.zeros(len(Ends._fields)))
        told = BlockSummary(classes, ends)
        if self.hard and before is not None and len(before.table):
            told = told._replace(classification=_of_votes(counts, before.table))
        table = np.zeros((0, block.n_labels))
        if self.recipe is not None:
            lines = self.recipe.on(block.workers_here())(counts, None)
            table, told = lines.table, told._replace(penalty=lines.penalty)
        if self.seen:
            told = told._replace(digests=((number, blake2b(counts.tobytes(), digest_size=16).digest()),))
        return State(counts, table, posts, told)


@dataclass(frozen=True)
class Tabulate:
    """Takes the M-step of a recipe that the pass before did not know, or that needs sums over all workers."""

    recipe: Recipe
    shared: Any

    def __call__(self, number: int, block: Block, before: State | None, mail: list[Count | Post]) -> State:
        """Return the state with another table."""
        assert before is not None
        lines = self.recipe.on(block.workers_here())(before.counts, self.shared)
        return before._replace(table=lines.table, summary=before.summary._replace(penalty=lines.penalty))


def _of_votes(counts: NDArray[Any], table: Floats) -> float:
    """Return the part of C2 that votes have, without that of the priors."""
    kernels: Any = fastest()
    none = np.zeros(counts.shape[1], counts.dtype)
    return float(kernels.classification(counts, none, table, np.zeros(counts.shape[1])))
