"""The engines by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from quorate.engines.base import Engine, ReadsVotes
from quorate.engines.disk import DiskEngine
from quorate.engines.local import LocalEngine
from quorate.engines.memory import in_memory
from quorate.errors import OptionError, shown, unknown
from quorate.io.encoded.plan import memory_of
from quorate.io.memory import available
from quorate.io.read import as_votes
from quorate.io.sources import Source
from quorate.kernels import cpu, glad_cpu, reference
from quorate.kernels.core import compiled
from quorate.votes import Votes

EVERYTHING = 1 << 62  # votes in a shard: the compiled kernels divide the work among threads themselves


def _reference(threads: int) -> Engine:
    return LocalEngine(name="reference", threads=threads)


def _cpu(threads: int) -> Engine:
    return LocalEngine(name="cpu", kernels=cpu, glad_kernels=glad_cpu, threads=threads, shard_votes=EVERYTHING)


def _disk(threads: int) -> Engine:
    return DiskEngine(kernels=reference if compiled() is None else cpu, threads=threads)


ENGINES: Mapping[str, Callable[[int], Engine]] = MappingProxyType({"reference": _reference, "cpu": _cpu, "disk": _disk})


def resolve(
    engine: str | Engine = "auto",
    threads: int | None = None,
    *,
    source: Votes | Source | None = None,
    memory: str | int | None = None,
    **of_disk: Any,
) -> Engine:
    """Returns the engine of this name (or the engine itself), set to a number of threads.

    "auto" is the compiled engine on all cores, or the reference where it could not be built; and "disk" for a source of
    files that would not fit in memory. `memory` bounds what may be used; it and `of_disk` are for the disk engine.

    >>> resolve("reference").name
    'reference'
    """
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise OptionError(f"threads is {shown(threads)}: give a whole number of at least 1, or leave it out for all cores")
    limit = None if memory is None else memory_of(memory)
    chosen = engine
    if chosen == "auto":
        fits = source is None or in_memory(source) <= (available() if limit is None else limit)
        chosen = "disk" if not fits else "reference" if compiled() is None else "cpu"
    if isinstance(chosen, str):
        if chosen not in ENGINES:
            raise unknown("engine", chosen, ["auto", *ENGINES])
        chosen = ENGINES[chosen](threads or os.cpu_count() or 1)
    given = {name: value for name, value in {"memory": limit, **of_disk}.items() if value}
    if isinstance(chosen, DiskEngine):
        return replace(chosen, **given)
    if given.keys() - ({"memory", "report"} if engine == "auto" else {"report"}):
        name = next(iter(given.keys() - {"report"}))
        raise OptionError(f"{name} is for engine='disk': engine {chosen.name!r} holds everything in memory")
    return chosen


def votes_for(place: Engine, source: Votes | Source, **options: Any) -> Votes:
    """Returns the votes of a source as an engine wants them; the options are those of `read`."""
    return place.read(source, **options) if isinstance(place, ReadsVotes) else as_votes(source, **options)
