"""The engines by name: the command line, the checks and the docs read this table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from quorate.engines.base import Engine
from quorate.engines.local import LocalEngine
from quorate.errors import OptionError, shown, unknown


def _reference(threads: int) -> Engine:
    return LocalEngine(name="reference", threads=threads)


ENGINES: Mapping[str, Callable[[int], Engine]] = MappingProxyType({"reference": _reference})


def resolve(engine: str | Engine = "auto", threads: int | None = None) -> Engine:
    """Returns the engine of this name (or the engine itself), set to a number of threads.

    >>> resolve("reference").name
    'reference'
    """
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise OptionError(f"threads is {shown(threads)}: give a whole number of at least 1, or leave it out for all cores")
    if not isinstance(engine, str):
        return engine
    if engine == "auto":
        engine = "reference"
    if engine not in ENGINES:
        raise unknown("engine", engine, ["auto", *ENGINES])
    return ENGINES[engine](threads or 1)
