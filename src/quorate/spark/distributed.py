"""Passes on Spark whose rows stay on the executors: blocks of workers and parts of tasks that send messages to each other.

A pass is one job. Blocks send lines of the table to the parts that asked for them; parts pass over their votes and send
counts back; blocks add these up and take the M-step. The driver sees sums over all tasks and workers, and runs `models/em.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from quorate.data.counts import Lines, Others, Parameters, Statistics
from quorate.data.vocabulary import Vocabulary, text_of
from quorate.data.votes import Panel
from quorate.engines.base import Checkpoint, Estimate, PassSums, Recipe, WorkerBlock
from quorate.engines.shard import Units, class_totals
from quorate.errors import OptionError
from quorate.io.ids import label_columns
from quorate.kernels import reference
from quorate.spark import session as spark
from quorate.spark.blocks import Block, BlockSummary, Named, Receive, State, Tabulate, block_of
from quorate.spark.executor import Ends, Setting
from quorate.spark.layout import FAR, NO_START, WHAT, FarOutcome, Size
from quorate.spark.messages import Begin, Decide, Pass, at_block, blocks_in, from_block, from_part
from quorate.spark.result import DistributedResult
from quorate.spark.routes import END, OWN, Routes, Tagged, tell_confusion, tell_tasks, tell_workers
from quorate.spark.session import Frame, alike, place, plain_errors, quoted
from quorate.spark.votes import SQL_KIND, WideVotes

SWEEP = 8  # passes after which Java looks for what nobody holds any more: the messages of earlier passes are on its disks
Floats = NDArray[np.float64]
T = TypeVar("T")
Rdd = Any  # pyspark is optional, so its types are not named


class Counted(NamedTuple):
    """What a pass has left with the blocks, and its sums, which are here."""

    state: Rdd  # (block, State)
    hard: bool
    class_counts: NDArray[Any]  # [K]
    ends: Ends
    summary: BlockSummary


class Scored(NamedTuple):
    """Where the current table is, and what scores begin with."""

    state: Rdd  # (block, State) whose table it is
    priors: Floats  # [K]
    uses_prior: bool
    penalty: float = 0.0
    recipe: Recipe | None = None  # None where it was learned elsewhere
    names: tuple[str, ...] = ()  # of the columns of workers that the recipe knows

    @property
    def log_prior(self) -> Floats:
        """Where scores begin, [K]."""
        none = np.zeros((0, len(self.priors)))
        return Parameters(self.priors, none, none, uses_prior=self.uses_prior).log_prior


class DistributedSession:
    """Votes and rows on executors. The driver has labels and sums; nothing here grows with the tasks or the workers."""

    result = DistributedResult

    def __init__(
        self,
        votes: WideVotes,
        partitions: int | None,
        blocks: int | None,
        *,
        seed: int,
        ties: str,
        gold: Any,
        history: Callable[[Panel], Others] | None = None,
    ) -> None:
        self.spark = votes.frame.sparkSession
        self.gold_given = 0 if gold is None else len(gold)
        self._votes, self._routes = votes, Routes(votes, partitions, blocks, gold)
        self._routes.past = history
        weights = votes.given.astype(np.float64) if ties == "prior" else None
        self._setting = Setting(np.zeros(0, np.int32), votes.labels, seed, ties, gold is not None, weights, Units.of(len(votes)))
        self._recipe: Recipe | None = None  # of the last M-step; blocks make the next table in the pass that counts for it
        self._made: Recipe | None = None  # whose table the state of the last pass has already
        self._last: Counted | None = None  # the last pass
        self._scored: Scored | None = None  # the current table
        self._ended: tuple[Decide, Rdd] | None = None  # how tasks are decided, once the fit has ended, and the table's state
        self._end: Rdd = None  # (block, State) with the right and the agreeing votes by row, or the counts of the labels
        self._shown: tuple[Recipe, Rdd] | None = None  # what makes confusions, of which counts
        self._states: list[Rdd] = []  # what is stored
        self._passes = 0

    @property
    def size(self) -> Size:
        """How many tasks, votes and tasks without votes there are; laid out on the executors when first asked."""
        return self._routes.size

    @property
    def votes(self) -> Any:
        """The votes, with how many tasks and workers they are of."""
        size = self.size
        return replace(self._votes, n_tasks=size.tasks, n_unvoted=size.unvoted, worker_count=self._routes.n_workers)

    def identify(self, settings: Mapping[str, Any]) -> None:
        """Take nothing: a fit on Spark is not resumed."""

    def restore(self) -> None:
        """Return that no fit was interrupted."""

    def checkpoint(self, point: Checkpoint) -> None:
        """Store nothing."""

    def labels_to_start(self, labels: Any) -> NoReturn:
        """Raise: labels of all tasks never meet on the driver."""
        raise OptionError(NO_START)

    recount = labels_to_start

    def start(self, *, hard: bool) -> PassSums:
        """Take majority vote as the current labels, by winner (hard) or by vote shares (soft), and return its sums."""
        self._last = self._pass(Begin(hard), self._receive(hard=hard), None)
        self._keep_only()
        return PassSums(self._last.class_counts)

    def adopt(self, parameters: Callable[[Panel], Parameters], priors: Floats) -> None:
        """Take parameters that were learned elsewhere, as a function of a panel."""
        with plain_errors(WHAT):
            state = self._stored(self._routes.named.mapValues(partial(_with_table, parameters)))
        uses_prior = parameters(Block.nobody(self._votes.labels)).uses_prior
        self._scored, self._last = Scored(state, priors, uses_prior), None  # whose counts are none of these votes

    def gather(self, function: Callable[[WorkerBlock, Any], T]) -> T:
        """Return the sum of what a function says of every block of workers and its counts."""
        with plain_errors(WHAT):
            items = self._routes.blocks.union(self._counted.state)
            found: list[T] = items.mapPartitions(partial(_of_counts, function)).collect()
        total: T = reduce(operator.add, found)
        return total

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Make the table of the counts of the last pass, where they are; that pass may have made it already."""
        shared, last, k = recipe.shared(priors, self.gather), self._counted, self._votes.n_labels
        state, penalty = last.state, last.summary.penalty
        if shared is not None or self._made is not recipe:
            with plain_errors(WHAT):
                items = self._routes.blocks.union(state).mapPartitions(
                    partial(at_block, Tabulate(recipe, shared)), preservesPartitioning=True
                )
                state = self._stored(items)
                penalty = reduce(BlockSummary.plus, state.map(_summary).collect()).penalty
        nobody: Lines = recipe.on(Block.nobody(self._votes.labels).workers_here())(np.zeros((0, k)), shared)
        self._recipe = recipe if shared is None else None
        self._scored = Scored(state, priors, nobody.uses_prior, penalty, recipe, tuple(nobody.columns))
        self._shown = recipe, state
        self._seen = not recipe.is_likelihood

    def e_step(self, *, hard: bool, likelihood: bool = True) -> PassSums:
        """Return the sums of a pass: an E-step under the current table, and the recount."""
        scored, before = self._table, self._last
        past = before.class_counts if hard and before is not None and before.hard else None
        delta = past is not None
        work = Pass(scored.priors, scored.uses_prior, hard, delta, likelihood)
        found = self._pass(work, self._receive(hard=hard, delta=delta), scored.state)
        if past is not None:
            found = found._replace(class_counts=np.asarray(past, np.int64) + found.class_counts.astype(np.int64))
        self._last = found
        self._keep_only()
        classification = float("nan")
        if hard:
            none = np.zeros((0, self._votes.n_labels))
            of_priors = reference.classification(none, found.class_counts, none, scored.log_prior)
            classification = found.summary.classification + of_priors
        ends = found.ends
        return PassSums(
            found.class_counts, ends.log_likelihood, classification, int(ends.changed), int(ends.impossible), scored.penalty
        )

    def fingerprint(self) -> bytes:
        """Return bytes that are equal where the counts of two passes are."""
        return b"".join(digest for _, digest in sorted(self._counted.summary.digests))

    def finish(self) -> FarOutcome:
        """Return what the E-step under the current table says, summed over all tasks."""
        scored = self._table
        return self._outcome(self._decide(Decide("scores", scored.priors, scored.uses_prior), scored.state, width=2))

    def majority(self) -> FarOutcome:
        """Return what majority vote says, summed over all tasks."""
        k = self._votes.n_labels
        self._last = self._decide(Decide("heads", np.zeros(k), False), None, width=k)
        return replace(self._outcome(self._last), log_likelihood=float("nan"))

    def weighted_majority(self) -> FarOutcome:
        """Return what weighted votes say, summed over all tasks."""
        scored = self._table
        self._last = self._decide(Decide("weights", scored.priors, False), scored.state, width=self._votes.n_labels)
        return replace(self._outcome(self._last), log_likelihood=float("nan"))

    def estimate(self, shown: Recipe | None = None) -> Estimate:
        """Return what the fit knows of labels; what it knows of workers stays where they are."""
        none, last = np.zeros((0, self._votes.n_labels)), self._counted
        priors = None if self._scored is None else self._scored.priors
        if shown is not None:
            self._shown = shown, last.state
            priors = shown.class_priors(last.class_counts).priors
        assert priors is not None
        return Estimate(Parameters(priors, none, none), Statistics(none, last.class_counts), {})

    def posterior(self) -> NoReturn:
        """Raise: probabilities of all tasks never meet on the driver."""
        raise TypeError(FAR)

    def gold(self) -> None:
        """Return nothing: which tasks are gold is in `labels`."""

    def keep(self, pieces: Any) -> NoReturn:
        """Raise: figures of all tasks never meet on the driver."""
        raise TypeError(FAR)

    def labels(self) -> Frame:
        """Return a Spark frame of task, label, confidence, votes, tie, under what the fit ended with."""
        schema = f"task {SQL_KIND[self._votes.task_kind]}, label {SQL_KIND[self._votes.labels.kind]}"
        schema += ", confidence double, votes bigint, tie boolean" + (", gold boolean" if self._setting.with_gold else "")
        return self._by_task(None, schema)

    def probabilities(self) -> Frame:
        """Return a Spark frame of task and a column per label, under what the fit ended with."""
        names = label_columns(self._votes.labels.texts(), "task")
        schema = [f"task {SQL_KIND[self._votes.task_kind]}", *(f"{quoted(name)} double" for name in names)]
        return self._by_task(names, ", ".join(schema))

    def workers(self) -> Frame:
        """Return a Spark frame of worker, votes, accuracy, agreement, and what else the model knows of a worker."""
        scored = self._scored
        names: tuple[str, ...] = () if scored is None else scored.names
        states = {END: self._end} if scored is None or not names else {END: self._end, OWN: scored.state}
        recipe = None if scored is None else scored.recipe
        found = self._named_with(states).mapPartitions(partial(tell_workers, recipe, names))
        schema = f"worker {SQL_KIND[self._votes.workers.kind]}, votes bigint, accuracy double, agreement double"
        return spark.frame_of(found, schema + "".join(f", {quoted(name)} double" for name in names), self.spark)

    def confusion(self, worker: object) -> Floats | None:
        """Return pi_cl of one worker, [K true, K given]; None where there is no such worker."""
        assert self._shown is not None
        recipe, state = self._shown
        text = text_of(worker)
        block = int(block_of(Vocabulary.of_texts([text]), self._routes.n_blocks)[0])
        with plain_errors(WHAT):
            items = self._named_with({END: state})
            found = self.spark.sparkContext.runJob(items, partial(tell_confusion, recipe, text), [block])
        return found[0] if found else None

    def release(self) -> None:
        """Give back what the executors keep; frames that were not written down cannot be made afterwards."""
        for state in self._states:
            spark.drop(state)
        self._states.clear()
        self._routes.release()

    @property
    def _counted(self) -> Counted:
        assert self._last is not None  # a pass came before
        return self._last

    @property
    def _table(self) -> Scored:
        assert self._scored is not None  # an M-step came before
        return self._scored

    def _receive(self, *, hard: bool, delta: bool = False) -> Receive:
        self._made = self._recipe
        unit = None if hard else self._setting.units.unit
        return Receive(self._recipe, hard, delta, self._votes.n_labels, seen=self._seen, unit=unit)

    _seen = False  # whether counts are compared with those of earlier passes

    def _decide(self, decide: Decide, state: Rdd, *, width: int) -> Counted:
        found = self._pass(decide, Receive(None, decide.by != "scores", False, width), state)
        self._ended, self._end = (decide, state), found.state
        return found

    def _outcome(self, found: Counted) -> FarOutcome:
        return FarOutcome(
            labels=np.zeros(0, np.int32),
            confidence=np.zeros(0),
            tie=np.zeros(0, np.bool_),
            right=np.zeros(0),
            log_likelihood=found.ends.log_likelihood,
            agreeing=np.zeros(0, np.int64),
            ties=int(found.ends.ties),
            confidence_sum=found.ends.confidence,
        )

    def _pass(self, work: Any, receive: Receive, state: Rdd) -> Counted:
        """Return what parts make of the table in a state, as the blocks have received it; one job."""
        parts, blocks = self._routes.parts, self._routes.blocks
        with plain_errors(WHAT):
            sent = self._with_mail(parts, state).mapPartitions(partial(from_part, self._setting, work))
            items = blocks.union(sent.partitionBy(self._routes.n_blocks, place))
            items = items if state is None else items.union(state)
            after = self._stored(items.mapPartitions(partial(at_block, receive), preservesPartitioning=True))
            summary = reduce(BlockSummary.plus, after.map(_summary).collect())
            self._passes += 1
            if self._passes % SWEEP == 0:
                self.spark.sparkContext._jvm.System.gc()
        classes = summary.classes if receive.hard else class_totals(summary.classes, self._setting.units.unit)
        return Counted(after, receive.hard, classes, Ends(*summary.ends), summary)

    def _stored(self, state: Rdd) -> Rdd:
        state = alike(state, self._routes.parts)
        spark.keep(state)
        self._states.append(state)
        return state

    def _with_mail(self, parts: Rdd, state: Rdd) -> Rdd:
        """Return the parts, each with the lines of the table and the labels that blocks send it."""
        if state is None:
            return parts
        sent = self._routes.blocks.union(state).mapPartitions(from_block)
        return parts.union(sent.partitionBy(parts.getNumPartitions(), place))

    def _by_task(self, names: list[str] | None, schema: str) -> Frame:
        assert self._ended is not None
        decide, state = self._ended
        parts = self._routes.parts
        with plain_errors(WHAT):
            ids = self._routes.ids()
            items = self._with_mail(parts.union(ids), state)
            return spark.frame_of(items.mapPartitions(partial(tell_tasks, self._setting, decide, names)), schema, self.spark)

    def _named_with(self, states: Mapping[str, Rdd]) -> Rdd:
        items = self._routes.named
        for name, state in states.items():
            items = items.union(alike(state.mapValues(partial(Tagged, name)), self._routes.parts))
        return items

    def _keep_only(self) -> None:
        """Drop what is stored of earlier passes."""
        used = [None if one is None else one.state for one in (self._last, self._scored)]
        for state in self._states:
            if all(state is not one for one in used):
                spark.drop(state)
        self._states = [state for state in self._states if any(state is one for one in used)]


def _with_table(parameters: Callable[[Panel], Parameters], named: Named) -> State:
    k = named.block.n_labels
    none = BlockSummary(np.zeros(k), np.zeros(len(Ends._fields)))
    return State(np.zeros((0, k)), parameters(named.panel()).table, (), none)


def _summary(item: tuple[int, State]) -> BlockSummary:
    return item[1].summary


def _of_counts(function: Callable[[WorkerBlock, NDArray[Any]], T], items: Iterable[tuple[int, Any]]) -> Iterator[T]:
    for _, block, state, _ in blocks_in(items):
        assert state is not None
        yield function(block.workers_here(), state.counts)
