"""The engine of this process: shards of tasks in memory, one kernel call each, statistics summed in shard order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

from adjudge.data.fit import Others
from adjudge.data.options import Place
from adjudge.data.votes import Votes, WorkerRows
from adjudge.engines.memory import require
from adjudge.engines.session import LocalSession, MemoryStore
from adjudge.engines.shard import rules_for
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.read import as_votes
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source
from adjudge.kernels import cpu, reference
from adjudge.kernels.cpu import compiled, kernels_named


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
