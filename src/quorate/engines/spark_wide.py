"""Passes on Spark whose rows stay on the executors: blocks of workers and parts of tasks that write to each other.

A pass is one job. Blocks mail lines of the table to the parts that asked for them; parts pass over their votes and mail
counts back; blocks add these up and take the M-step. The driver sees sums over all tasks and all workers, and runs `em.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from quorate.engines.shard import Units, class_totals
from quorate.engines.spark_blocks import Block, Named, Plan, Receive, State, Told, block_of
from quorate.engines.spark_layout import FAR, NO_START, WHAT, FarOutcome, Size
from quorate.engines.spark_mail import (
    Begin,
    Decide,
    Pass,
    at_block,
    blocks_in,
    from_block,
    from_part,
)
from quorate.engines.spark_pass import Ends, Setting
from quorate.engines.spark_routes import Routes
from quorate.engines.spark_tell import END, Column, Tagged, tell_confusion, tell_tasks, tell_workers
from quorate.errors import OptionError
from quorate.io import spark
from quorate.io.ids import label_columns
from quorate.io.spark import Frame, alike, place, plain_errors, quoted
from quorate.io.spark_votes import SQL_KIND, WideVotes
from quorate.kernels import reference
from quorate.params import Parameters
from quorate.prior import Others
from quorate.statistics import Statistics
from quorate.vocabulary import Vocabulary, text_of
from quorate.votes import Panel

SWEEP = 8  # passes after which Java looks for what nobody holds any more: the mail of earlier passes lies on disks

T = TypeVar("T")
Rdd = Any  # pyspark is optional, so its types are not named


@dataclass(frozen=True, eq=False)
class FarParameters(Parameters):
    """What an M-step on the executors has estimated: the priors are here, the table is with the blocks."""

    state: Rdd = None  # (block, State) whose table this is
    hard_classes: NDArray[np.int64] | None = None  # [K] tasks by label, where its counts are those of hard labels


@dataclass(frozen=True, eq=False)
class FarStatistics(Statistics):
    """What a pass leaves with the blocks, and the sums of it that are here."""

    state: Rdd = None  # (block, State) whose counts these are
    hard: bool = False
    penalty: float = 0.0  # of the table that the M-step of this state has made
    ends: Ends | None = None
    digests: tuple[tuple[int, bytes], ...] = ()

    def fingerprint(self) -> bytes:
        """Returns bytes that are equal where the counts are."""
        return b"".join(digest for _, digest in sorted(self.digests))


class Shown(NamedTuple):
    """A column of workers, and the counts whose M-step knows it."""

    column: Column
    counted: Any  # statistics, or the parameters that were made of them


class WidePasses:
    """Votes and rows on executors. The driver has labels and sums; nothing here grows with the tasks or the workers."""

    def __init__(self, votes: WideVotes, partitions: int | None, blocks: int | None, *, seed: int, ties: str, gold: Any) -> None:
        self.spark = votes.frame.sparkSession
        self._votes, self._routes = votes, Routes(votes, partitions, blocks, gold)
        favour = votes.given.astype(np.float64) if ties == "prior" else None
        self._setting = Setting(np.zeros(0, np.int32), votes.labels, seed, ties, gold is not None, favour, Units.of(len(votes)))
        self._plan: Plan | None = None
        self._seen = False
        self._ended: tuple[Decide, Rdd] | None = None  # how tasks are decided, once the fit has ended, and the table's state
        self._end: Rdd = None  # (block, State) with the right and the agreeing votes by row, or the counts of the labels
        self._states: list[Rdd] = []
        self._given: Rdd = None  # (block, State) of parameters to begin with, which other passes may precede
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

    @property
    def labels_known(self) -> Vocabulary:
        """The labels."""
        return self._votes.labels

    def remember(self, past: Callable[[Panel], Others]) -> None:
        """Takes what is known of workers beforehand, as a function of a panel: pseudo-votes in every M-step."""
        self._routes.past = past

    def given(self, priors: NDArray[np.float64], table: Callable[[Panel], Parameters]) -> FarParameters:
        """Returns parameters that are not estimated here, as a function of a panel."""
        k = self._votes.n_labels
        with plain_errors(WHAT):
            state = alike(self._routes.named.mapValues(partial(_with_table, table)), self._routes.parts)
            spark.keep(state)
            self._states.append(state)
            self._given = state
        here = table(Block.nobody(self._votes.labels))
        none = np.zeros((0, k))
        return FarParameters(priors, none, none, uses_prior=here.uses_prior, shares=here.shares, state=state)

    def follow(self, plan: Plan, *, seen: bool = False) -> None:
        """Takes how an M-step is made of a block's counts, and whether counts are compared with those of earlier passes."""
        self._plan, self._seen = plan, seen

    def start(self, *, hard: bool) -> FarStatistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        found = self._pass(Begin(hard), self._receive(hard, delta=False), None)
        self._keep_only(found.state, self._given)
        return found

    def recount(self, labels: NDArray[np.int32]) -> NoReturn:
        """Raises: labels of all tasks never meet on the driver."""
        raise OptionError(NO_START)

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> FarStatistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount."""
        assert isinstance(params, FarParameters)
        past = params.hard_classes if hard else None
        delta = past is not None
        work = Pass(params.priors, params.uses_prior, hard, delta, likelihood)
        found = self._pass(work, self._receive(hard, delta=delta), params.state)
        self._keep_only(params.state, found.state)
        if past is not None:
            found = replace(found, class_counts=past + found.class_counts.astype(np.int64))
        of_priors = 0.0
        if hard:
            none = np.zeros((0, self._votes.n_labels))
            of_priors = reference.classification(none, found.class_counts, none, params.log_prior)
        return replace(found, classification=found.classification + of_priors if hard else float("nan"))

    def confusion_table(self, counts: Any, smoothing: float) -> NoReturn:
        """Raises: the counts are with the blocks."""
        raise TypeError(FAR)

    def finish(self, params: Parameters) -> FarOutcome:
        """Returns what the E-step under `params` says, summed over all tasks."""
        assert isinstance(params, FarParameters)
        found = self._decide(Decide("scores", params.priors, params.uses_prior), params.state, width=2)
        return self._outcome(found)

    def majority(self) -> tuple[FarOutcome, FarStatistics]:
        """Returns what majority vote says, summed over all tasks, and the statistics of its winners."""
        found = self._decide(Decide("heads", np.zeros(self._votes.n_labels), False), None, width=self._votes.n_labels)
        return replace(self._outcome(found), log_likelihood=float("nan")), found

    def weigh(self, params: Parameters) -> tuple[FarOutcome, FarStatistics]:
        """Returns what weighted votes say, summed over all tasks, and the statistics of their winners."""
        assert isinstance(params, FarParameters)
        found = self._decide(Decide("weights", params.priors, False), params.state, width=self._votes.n_labels)
        return replace(self._outcome(found), log_likelihood=float("nan")), found

    def posterior(self, params: Parameters) -> NoReturn:
        """Raises: probabilities of all tasks never meet on the driver."""
        raise TypeError(FAR)

    weight_shares = posterior

    def shares(self) -> NoReturn:
        """Raises: shares of all tasks never meet on the driver."""
        raise TypeError(FAR)

    def gold(self) -> None:
        """Returns nothing: which tasks are gold is told by `labels`."""
        return

    def over_blocks(self, function: Callable[[Block, NDArray[Any]], T], statistics: Statistics) -> list[T]:
        """Returns what a function says of each block and its counts; for what is small."""
        assert isinstance(statistics, FarStatistics)
        return self._over(partial(_of_counts, function), self._routes.blocks.union(statistics.state))

    def labels(self) -> Frame:
        """Returns a Spark frame of task, label, confidence, votes, tie, under what the fit ended with."""
        schema = f"task {SQL_KIND[self._votes.task_kind]}, label {SQL_KIND[self._votes.labels.kind]}"
        schema += ", confidence double, votes bigint, tie boolean" + (", gold boolean" if self._setting.with_gold else "")
        return self._by_task(None, schema)

    def probabilities(self) -> Frame:
        """Returns a Spark frame of task and a column per label, under what the fit ended with."""
        names = label_columns(self._votes.labels.texts(), "task")
        schema = [f"task {SQL_KIND[self._votes.task_kind]}", *(f"{quoted(name)} double" for name in names)]
        return self._by_task(names, ", ".join(schema))

    def workers(self, columns: Mapping[str, Shown]) -> Frame:
        """Returns a Spark frame of worker, votes, accuracy, agreement, and what else the model tells of a worker."""
        states = {END: self._end, **{name: told.counted.state for name, told in columns.items()}}
        found = self._named_with(states).mapPartitions(partial(tell_workers, {n: told.column for n, told in columns.items()}))
        schema = f"worker {SQL_KIND[self._votes.workers.kind]}, votes bigint, accuracy double, agreement double"
        return spark.frame_of(found, schema + "".join(f", {quoted(name)} double" for name in columns), self.spark)

    def confusion(self, worker: object, plan: Plan, state: Rdd) -> NDArray[np.float64] | None:
        """Returns pi_cl of one worker, [K true, K given], under a plan for these counts; None where there is no such worker."""
        text = text_of(worker)
        block = int(block_of(Vocabulary.of_texts([text]), self._routes.n_blocks)[0])
        with plain_errors(WHAT):
            items = self._named_with({END: state})
            found = self.spark.sparkContext.runJob(items, partial(tell_confusion, plan, text), [block])
        return found[0] if found else None

    def release(self) -> None:
        """Gives back what the executors keep; frames that were not written down cannot be made afterwards."""
        self._keep_only()
        self._routes.release()

    def _receive(self, hard: bool, *, delta: bool) -> Receive:
        unit = None if hard else self._setting.units.unit
        return Receive(self._plan, hard, delta, self._votes.n_labels, self._seen, unit)

    def _decide(self, decide: Decide, state: Rdd, *, width: int) -> FarStatistics:
        found = self._pass(decide, Receive(None, decide.by != "scores", False, width), state)
        self._ended, self._end = (decide, state), found.state
        return found

    def _outcome(self, found: FarStatistics) -> FarOutcome:
        assert found.ends is not None
        return FarOutcome(
            labels=np.zeros(0, np.int32),
            confidence=np.zeros(0),
            tie=np.zeros(0, np.bool_),
            right=np.zeros(0),
            log_likelihood=found.log_likelihood,
            agreeing=np.zeros(0, np.int64),
            ties=int(found.ends.ties),
            confidence_sum=found.ends.confidence,
        )

    def _pass(self, work: Any, receive: Receive, state: Rdd) -> FarStatistics:
        """Returns what parts make of the table in a state, as the blocks have received it; one job."""
        parts, blocks = self._routes.parts, self._routes.blocks
        with plain_errors(WHAT):
            mail = self._with_mail(parts, state).mapPartitions(partial(from_part, self._setting, work))
            items = blocks.union(mail.partitionBy(self._routes.n_blocks, place))
            items = items if state is None else items.union(state)
            after = alike(items.mapPartitions(partial(at_block, receive), preservesPartitioning=True), parts)
            spark.keep(after)
            told = reduce(Told.plus, after.map(_told).collect())
            self._states.append(after)
            self._passes += 1
            if self._passes % SWEEP == 0:
                self.spark.sparkContext._jvm.System.gc()
        if not receive.hard:
            told = told._replace(classes=class_totals(told.classes, self._setting.units.unit))
        ends = Ends(*told.ends)
        nothing: NDArray[Any] = np.zeros((0, self._votes.n_labels), np.int64 if receive.hard else np.float64)
        return FarStatistics(
            nothing,
            told.classes,
            ends.log_likelihood,
            told.classification,
            int(ends.changed),
            int(ends.impossible),
            state=after,
            hard=receive.hard,
            penalty=told.penalty,
            ends=ends,
            digests=told.digests,
        )

    def _with_mail(self, parts: Rdd, state: Rdd) -> Rdd:
        """Returns the parts, each with the lines of the table and the labels that blocks send it."""
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

    def _keep_only(self, *states: Rdd) -> None:
        for state in self._states:
            if all(state is not one for one in states):
                spark.drop(state)
        self._states = [state for state in self._states if any(state is one for one in states)]

    def _over(self, function: Callable[[Iterable[Any]], Iterator[T]], rdd: Rdd) -> list[T]:
        with plain_errors(WHAT):
            return rdd.mapPartitions(function).collect()  # type: ignore[no-any-return]


def _with_table(table: Callable[[Panel], Parameters], named: Named) -> State:
    k = named.block.n_labels
    none = Told(np.zeros(k), np.zeros(len(Ends._fields)))
    return State(np.zeros((0, k)), table(named.panel()).table, (), none)


def _told(item: tuple[int, State]) -> Told:
    return item[1].told


def _of_counts(function: Callable[[Block, NDArray[Any]], T], items: Iterable[tuple[int, Any]]) -> Iterator[T]:
    for _, block, state, _ in blocks_in(items):
        assert state is not None
        yield function(block, state.counts)
