"""The engine of this process: shards of tasks in memory, one kernel call each, statistics summed in shard order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import WIDE_TABLE, Others
from adjudge.data.options import Place
from adjudge.data.votes import Votes, WorkerRows
from adjudge.data.wide import is_wide
from adjudge.engines.base import GladPasses, WholeVotes
from adjudge.engines.cells import CellCounts
from adjudge.engines.memory import require, require_glad
from adjudge.engines.session import LocalSession, VoteStore
from adjudge.engines.shard import PassRules, Shard, TieKeys, cuts, rules_for
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.read import as_votes
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source
from adjudge.kernels import cpu, reference
from adjudge.kernels.cpu import compiled, kernels_named, methods_of


@dataclass(frozen=True)
class LocalEngine:
    """Runs a kernel module over shards of about `shard_votes` votes each; a task is never split.

    The reference works shard by shard to bound its memory; the compiled kernels shard for their threads themselves.
    """

    name: str = "reference"
    kernels: ModuleType = reference
    threads: int = 1
    shard_votes: int = 1 << 18
    place: ClassVar[Place] = "memory"
    memory: int | None = None  # bytes that a fit may take, where fewer than the machine has are allowed

    def __reduce__(self) -> tuple[Any, ...]:  # a module is pickled by its name
        return _unpickled_engine, (self.name, self.kernels.__name__, self.threads, self.shard_votes, self.memory)

    def read(self, source: Votes | Source | Opened, reading: Reading = PLAIN_READING) -> Votes:
        """Return the votes of any source, in memory."""
        return as_votes(source, reading)

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Source | None = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> LocalSession:
        """Return a session over these votes; raise beforehand if memory is too small."""
        require(votes, self.shard_votes if self.kernels is reference else 0, self.threads)  # compiled passes need no such room
        rules = rules_for(votes, self.kernels, self.threads, ties)
        given = None if gold is None else read_gold(gold, votes.labels)
        store = MemoryStore(self, votes, seed, rules, None if given is None else gold_codes(given, votes.tasks))
        return LocalSession(store, rules, gold=given, history=history)


class MemoryStore(VoteStore):
    """Votes in memory, divided into shards that keep the label of every task."""

    def __init__(self, engine: LocalEngine, votes: Votes, seed: int, rules: PassRules, gold: NDArray[np.int32] | None) -> None:
        self.votes = votes
        self.gold = gold
        self.rules = rules
        self._engine, self._seed = engine, seed
        self._task_key = TieKeys(engine.kernels, votes.tasks, seed, engine.threads)
        self._cuts = cuts(votes.task_ptr, engine.shard_votes)
        self.in_memory = [
            (
                cut,
                Shard(
                    rules,
                    votes.task_ptr[cut.start : cut.stop + 1],
                    votes.row,
                    self._task_key.within(cut),
                    gold=None if gold is None else gold[cut],
                ),
            )
            for cut in self._cuts
        ]
        takes_cells = engine.kernels is cpu and rules.row_weight is None and votes.n_labels >= WIDE_TABLE
        if takes_cells and is_wide(votes.n_rows, votes.n_labels, len(votes)):
            self.cells = CellCounts(votes, engine.threads)

    def __reduce__(self) -> tuple[Any, ...]:  # shards and keys follow from these; their labels are in the outcome of the fit
        return _unpickled_store, (self._engine, self.votes, self._seed, self.rules.by_prior, self.gold)

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes; too little memory is foreseen and said."""
        from adjudge.engines.glad import Glad, GladMemoryStore, GladRules

        engine, rules = self._engine, self.rules
        require_glad(self.votes)
        of_glad = GladRules(methods_of(engine.kernels), engine.threads, rules.label_hash, rules.by_prior, self.gold)
        return Glad(self.votes, of_glad, GladMemoryStore(self.votes, self._task_key.every(), self._cuts))

    def whole(self) -> WholeVotes:
        """Return all votes, for a method whose passes are its own."""
        engine, rules = self._engine, self.rules
        key = self._task_key.every()
        return WholeVotes(self.votes, engine.kernels, engine.threads, key, rules.label_hash, rules.row_weight, self.gold)


def _unpickled_store(engine: LocalEngine, votes: Votes, seed: int, by_prior: bool, gold: NDArray[np.int32] | None) -> MemoryStore:
    rules = rules_for(votes, engine.kernels, engine.threads, "prior" if by_prior else "hash")
    return MemoryStore(engine, votes, seed, rules, gold)


def _unpickled_engine(name: str, kernels: str, threads: int, shard_votes: int, memory: int | None = None) -> LocalEngine:
    """Return an engine that was pickled; where the compiled core was not built, the reference does the same work."""
    found = kernels_named(kernels)
    made = LocalEngine(name, found, threads, shard_votes) if found.__name__ == kernels else reference_engine(threads)
    return replace(made, memory=memory)


UNLIMITED_SHARD_VOTES = 1 << 62  # votes in a shard: the compiled kernels divide the work among threads themselves


def reference_engine(threads: int) -> LocalEngine:
    """Return the engine of the NumPy kernels."""
    return LocalEngine(threads=threads)


def cpu_engine(threads: int) -> LocalEngine:
    """Return the engine of the compiled kernels."""
    return LocalEngine(name="cpu", kernels=cpu, threads=threads, shard_votes=UNLIMITED_SHARD_VOTES)


def processor_engine(threads: int) -> LocalEngine:
    """Return the engine of the compiled kernels, or the reference where they could not be built."""
    return reference_engine(threads) if compiled() is None else cpu_engine(threads)
