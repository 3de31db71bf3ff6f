"""The engines by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType

from quorate.engines.base import Engine
from quorate.engines.local import LocalEngine
from quorate.errors import OptionError, shown, unknown
from quorate.kernels import cpu, glad_cpu
from quorate.kernels.core import compiled

EVERYTHING = 1 << 62  # votes in a shard: the compiled kernels divide the work among threads themselves


def _reference(threads: int) -> Engine:
    return LocalEngine(name="reference", threads=threads)


def _cpu(threads: int) -> Engine:
    return LocalEngine(name="cpu", kernels=cpu, glad_kernels=glad_cpu, threads=threads, shard_votes=EVERYTHING)


ENGINES: Mapping[str, Callable[[int], Engine]] = MappingProxyType({"reference": _reference, "cpu": _cpu})


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
