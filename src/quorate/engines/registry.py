"""The engines by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from quorate.engines.base import Engine, ReadsVotes
from quorate.engines.disk import DiskEngine
from quorate.engines.local import LocalEngine
from quorate.engines.memory import NOTHING, Room, in_memory
from quorate.engines.spark import SparkEngine
from quorate.errors import OptionError, shown, unknown
from quorate.io.encoded.plan import memory_of
from quorate.io.memory import available
from quorate.io.read import as_votes
from quorate.io.sources import Source
from quorate.io.spark import is_frame
from quorate.io.spark_votes import SparkVotes
from quorate.kernels import cpu, glad_cpu
from quorate.kernels.core import compiled
from quorate.settings import Number
from quorate.votes import Votes

MOST_THREADS = 4096  # more than any machine has cores
EVERYTHING = 1 << 62  # votes in a shard: the compiled kernels divide the work among threads themselves


def _reference(threads: int) -> Engine:
    return LocalEngine(name="reference", threads=threads)


def _cpu(threads: int) -> Engine:
    return LocalEngine(name="cpu", kernels=cpu, glad_kernels=glad_cpu, threads=threads, shard_votes=EVERYTHING)


def _disk(threads: int) -> Engine:
    if compiled() is None:
        return DiskEngine(threads=threads)
    return DiskEngine(kernels=cpu, glad_kernels=glad_cpu, threads=threads)


def _spark(threads: int) -> Engine:
    return cast(Engine, SparkEngine(threads=threads))


ENGINES: Mapping[str, Callable[[int], Engine]] = MappingProxyType(
    {"reference": _reference, "cpu": _cpu, "disk": _disk, "spark": _spark}
)


def resolve(
    engine: str | Engine = "auto",
    threads: int | None = None,
    *,
    source: Votes | Source | None = None,
    memory: str | int | None = None,
    room: Room = NOTHING,
    **of_disk: Any,
) -> Engine:
    """Returns the engine of this name (or the engine itself), set to a number of threads.

    "auto" is the compiled engine on all cores, or the reference where it could not be built; "disk" for a source of
    files that would not fit in memory, with the `room` that the model takes beside; and "spark" for a Spark frame.
    `memory` bounds what may be used; it and `of_disk` are for the disk engine.

    >>> resolve("reference").name
    'reference'
    """
    if threads is not None:
        Number(least=1, most=MOST_THREADS, whole=True).check("threads", threads)
        threads = int(threads)
    try:
        limit = None if memory is None else memory_of(memory)
    except OverflowError:
        raise OptionError(f"memory is {shown(memory)}: give a size like '2GB' or '500MB', or a number of bytes") from None
    chosen = engine
    if isinstance(source, SparkVotes) or is_frame(source):
        name = engine if isinstance(engine, str) else engine.name
        if name not in ("auto", "spark"):
            raise OptionError(f"engine is {name!r}, but the votes are on Spark: choose 'spark', or collect them first")
        chosen = "spark" if engine == "auto" else engine
    if chosen == "auto":
        fits = source is None or in_memory(source, room, threads or os.cpu_count() or 1) <= (
            available() if limit is None else limit
        )
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
