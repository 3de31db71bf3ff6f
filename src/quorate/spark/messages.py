"""What an executor does with a part whose table comes by mail: it joins the lines, passes over the votes, and mails counts.

A part's own rows stand block by block, in the order in which it asked for them; so a block's lines are one slice of the
part's table, and one slice of what it counts goes back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.votes import Gold, Votes
from quorate.io.answers import gold_codes
from quorate.io.ids import column, sort_order
from quorate.spark.blocks import Asked, Block, Count, Post, Receive, State, Tabulate, block_of
from quorate.spark.executor import Counted, Ends, Scores, Setting, Verdict, counted_of
from quorate.spark.packing import LINE, SCHEMA, Packing, Part, line
from quorate.spark.session import ipc

WIDE_SCHEMA = f"{SCHEMA}, slices binary, asks binary"


@dataclass(frozen=True)
class WidePacking(Packing):
    """Makes parts that number their rows block by block, and list them for the blocks."""

    blocks: int = 1

    @property
    def schema(self) -> dict[str, Any]:
        """The columns of a line."""
        return {**LINE, "slices": pl.Binary, "asks": pl.Binary}

    def _line(self, votes: Votes, gold: Gold | None) -> dict[str, Any]:
        rank = np.empty(votes.n_workers, np.int64)
        rank[sort_order(votes.workers)] = np.arange(votes.n_workers)
        worker, block = votes.row_worker(), block_of(votes.workers, self.blocks)
        order = np.lexsort((votes.row_label, rank[worker], block[worker]))
        own = np.empty(votes.n_rows, np.uint32)
        own[order] = np.arange(votes.n_rows)
        codes = gold_codes(gold, votes.tasks) if gold is not None else self.no_gold(votes.n_tasks)
        # Votes keep their order within a task, that of their workers: scores are sums in the order of every other engine.
        told = line(votes.tasks, votes.task_ptr, own[votes.row], votes.row_label[order].astype(np.uint32), votes.unvoted, codes)
        asked = pl.DataFrame(
            {
                "worker": column(votes.workers, worker[order]),
                "label": votes.row_label[order].astype(np.int64),
                "votes": votes.votes_per_row()[order].astype(np.int64),
            }
        )
        slices = np.searchsorted(block[worker][order], np.arange(self.blocks + 1))
        return {**told, "slices": slices.astype(np.int64).tobytes(), "asks": ipc(asked, packed=True)}

    def _nothing(self, problem: str) -> dict[str, Any]:
        return {**super()._nothing(problem), "slices": b"", "asks": b""}


class WidePart(NamedTuple):
    """A part as passes want it."""

    data: bytes  # of a `Part`, whose `rows` are the labels of its own rows
    slices: NDArray[np.int64]  # [blocks + 1] where the rows of each block begin

    def laid(self, setting: Setting) -> tuple[Setting, Part]:
        """Return what passes share over the own rows, and the part, its own rows being all there are."""
        part = Part.unpack(self.data)
        rows = np.arange(len(part.rows), dtype=np.uint32)
        return replace(setting, row_label=part.rows.astype(np.int32)), part._replace(rows=rows)

    def joined(self, lines: Iterable[Asked], labels: int) -> NDArray[np.float64]:
        """Return the table over the own rows, [own rows, K], of the lines that blocks have sent."""
        table = np.zeros((int(self.slices[-1]), labels))
        for block, some in lines:
            table[self.slices[block] : self.slices[block + 1]] = some
        return table


class Here(NamedTuple):
    """What is given as a broadcast elsewhere."""

    value: Any


class Tasks(NamedTuple):
    """The votes of a part, and what has come for it."""

    setting: Setting
    part: Part
    table: NDArray[np.float64] | None  # [own rows, K]
    labels: NDArray[Any] | None  # [tasks] after the last pass


@dataclass(frozen=True)
class Begin:
    """Counts majority vote: by winner (hard) or by vote shares (soft)."""

    hard: bool

    def __call__(self, at: Tasks) -> tuple[Counted, NDArray[np.int32]]:
        """Return the counts of a part, and the winners, [tasks]."""
        rules, shards = at.setting.shards(at.part)
        tally, labels = rules.empty(hard=self.hard), np.zeros(len(at.part.task_hash), np.int32)
        for piece, shard in shards:
            shard.start(tally, hard=self.hard, tie_weights=at.setting.tie_weights)
            shard.label_by_majority(at.setting.tie_weights)
            labels[piece] = shard.labels
        return counted_of(at.part, tally, Ends()), labels


@dataclass(frozen=True)
class Pass:
    """One pass: an E-step under the table that has come, and the recount; with `delta` of what has changed alone."""

    priors: NDArray[np.float64]  # [K]
    uses_prior: bool
    hard: bool
    delta: bool
    likelihood: bool

    def __call__(self, at: Tasks) -> tuple[Counted, NDArray[np.int32]]:
        """Return the counts of a part, and its labels, [tasks]."""
        assert at.table is not None
        rules, shards = at.setting.shards(at.part)
        tally, labels = rules.empty(hard=self.hard), np.zeros(len(at.part.task_hash), np.int32)
        params = Scores(self.priors, at.table, self.uses_prior).whole()
        ends = np.zeros(len(Ends._fields))
        for piece, shard in shards:
            if at.labels is not None:
                shard.take(at.labels[piece].astype(np.int32))
            sums = shard.step(params, tally, hard=self.hard, delta=self.delta, likelihood=self.likelihood)
            ends += Ends(sums.log_likelihood, sums.changed, sums.impossible)
            labels[piece] = shard.labels
        return counted_of(at.part, tally, Ends(*ends)), labels


@dataclass(frozen=True)
class Decide:
    """How tasks are decided in the end."""

    by: Literal["scores", "heads", "weights"]
    priors: NDArray[np.float64]  # [K]
    uses_prior: bool

    def verdict(self, at: Tasks) -> Verdict:
        """Return the verdict on the tasks of a part."""
        by_heads = self.by == "heads" or at.table is None
        scores = None if by_heads else Here(Scores(self.priors, np.asarray(at.table), self.uses_prior))
        return Verdict(Here(at.setting), self.by, scores)

    def __call__(self, at: Tasks) -> tuple[Counted, None]:
        """Return the counts of a part's labels; for EM the right and the agreeing votes of each row in their place."""
        return self.verdict(at)(at.part), None


def from_part(setting: Setting, work: Any, items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield (block, mail) of a partition: what its part has counted of the rows of each block, and its labels."""
    for number, wide, at in tasks_of(setting, items):
        counted, labels = work(at)
        places = np.searchsorted(counted.rows, wide.slices)
        for block in np.flatnonzero(np.diff(places)).tolist():
            some = slice(places[block], places[block + 1])
            place = (counted.rows[some] - wide.slices[block]).astype(np.uint32)
            yield block, Count(number, place, counted.lines[some])
        kept = np.zeros(0, np.int8) if labels is None else labels.astype(np.min_scalar_type(max(len(setting.labels), 1)))
        yield number % (len(wide.slices) - 1), Post(number, kept, counted.classes, counted.sums)


def tasks_of(setting: Setting, items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, WidePart, Tasks]]:
    """Yield (its number, the part, its votes with what has come for them), if a partition has a part."""
    wide: WidePart | None = None
    number, lines, labels = 0, list[Asked](), None
    for key, item in items:
        if isinstance(item, WidePart):
            number, wide = key, item
        elif isinstance(item, Asked):
            lines.append(item)
        else:
            labels = item
    if wide is not None:
        own, part = wide.laid(setting)
        has_table = bool(lines) or not wide.slices[-1]  # a part without votes asks for no line
        table = wide.joined(lines, len(setting.labels)) if has_table else None
        yield number, wide, Tasks(own, part, table, labels)


def from_block(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield (part, mail) of a partition: the lines of the table that each part asked for, and the labels kept for it."""
    for number, block, state, _ in blocks_in(items):
        if state is None:
            continue
        for part, rows in block.routes.items():
            yield part, Asked(number, state.table[rows])
        for post in state.labels:
            yield post.part, post.labels


def at_block(receive: Receive | Tabulate, items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, State]]:
    """Yield (block, its state after a pass), if a partition has a block."""
    for number, block, before, mail in blocks_in(items):
        yield number, receive(number, block, before, mail)


def blocks_in(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Block, State | None, list[Count | Post]]]:
    """Yield (its number, the block, its state, its mail), if a partition has a block."""
    block: Block | None = None
    number, state, mail = 0, None, []
    for key, item in items:
        if isinstance(item, Block):
            number, block = key, item
        elif isinstance(item, State):
            state = item
        else:
            mail.append(item)
    if block is not None:
        yield number, block, state, mail
