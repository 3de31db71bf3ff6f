"""The engines by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from quorate.engines.base import Engine
from quorate.engines.local import LocalEngine
from quorate.engines.spark import SparkEngine
from quorate.errors import OptionError, shown, unknown
from quorate.io.spark_votes import SparkVotes
from quorate.kernels import cpu, glad_cpu
from quorate.kernels.core import compiled

EVERYTHING = 1 << 62  # votes in a shard: the compiled kernels divide the work among threads themselves


def _reference(threads: int) -> Engine:
    return LocalEngine(name="reference", threads=threads)


def _cpu(threads: int) -> Engine:
    return LocalEngine(name="cpu", kernels=cpu, glad_kernels=glad_cpu, threads=threads, shard_votes=EVERYTHING)


def _spark(threads: int) -> Engine:
    return cast(Engine, SparkEngine(threads=threads))


ENGINES: Mapping[str, Callable[[int], Engine]] = MappingProxyType({"reference": _reference, "cpu": _cpu, "spark": _spark})


def engine_for(votes: object, engine: str | Engine) -> str | Engine:
    """Returns the engine that runs where these votes are; another one that was asked for is an error."""
    if not isinstance(votes, SparkVotes):
        return engine
    name = engine if isinstance(engine, str) else engine.name
    if name not in ("auto", "spark"):
        raise OptionError(f"engine is {name!r}, but the votes are on Spark: choose 'spark', or collect them first")
    return "spark" if engine == "auto" else engine


def resolve(engine: str | Engine = "auto", threads: int | None = None) -> Engine:
    """Returns the engine of this name (or the engine itself), set to a number of threads.

    "auto" is the compiled engine on all cores, or the reference where it could not be built.

    >>> resolve("reference").name
    'reference'
    """
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise OptionError(f"threads is {shown(threads)}: give a whole number of at least 1, or leave it out for all cores")
    if not isinstance(engine, str):
        return engine
    if engine == "auto":
        engine = "reference" if compiled() is None else "cpu"
    if engine not in ENGINES:
        raise unknown("engine", engine, ["auto", *ENGINES])
    return ENGINES[engine](threads or os.cpu_count() or 1)
