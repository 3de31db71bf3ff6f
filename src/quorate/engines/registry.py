"""The engines by name, loaded when chosen: the command line, the contract and the docs read this table."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from quorate.data.memory import available, memory_of
from quorate.data.options import Number
from quorate.data.votes import Panel, Votes
from quorate.engines.base import Engine
from quorate.engines.memory import NOTHING, Room, in_memory
from quorate.errors import OptionError, shown, unknown
from quorate.io.sources import Source, is_spark_frame
from quorate.kernels.cpu import compiled, cores

MOST_THREADS = 4096  # more than any machine has cores
# Name to "module:function", which returns the engine for a number of threads. Adding an engine adds a line here.
ENGINES: dict[str, str] = {
    "reference": "quorate.engines.local:reference_engine",
    "cpu": "quorate.engines.local:cpu_engine",
    "disk": "quorate.engines.disk:disk_engine",
    "spark": "quorate.spark.engine:spark_engine",
}


def register(name: str, home: str) -> None:
    """Add an engine from elsewhere: `home` is "module:function", which returns it for a number of threads.

    >>> register("mine", "my_package.engine:make")
    >>> "mine" in ENGINES
    True
    >>> del ENGINES["mine"]
    """
    ENGINES[name] = home


def engine_named(name: str, threads: int) -> Engine:
    """Return the engine of this name."""
    if name not in ENGINES:
        raise unknown("engine", name, ["auto", *ENGINES])
    module, function = ENGINES[name].split(":")
    return cast(Engine, getattr(import_module(module), function)(threads))


def resolve(
    engine: str | Engine = "auto",
    threads: int | None = None,
    *,
    source: Votes | Source | None = None,
    memory: str | int | None = None,
    room: Room = NOTHING,
    **of_disk: Any,
) -> Engine:
    """Return the engine of this name (or the engine itself), set to a number of threads.

    "auto" is the compiled engine on all cores, or the reference where it could not be built; "disk" for a source of
    files that would not fit in memory, with the `room` that the model takes beside; and "spark" for a Spark frame.
    `memory` bounds what may be used by "auto" and by the disk engine, which `of_disk` is for.

    >>> resolve("reference").name
    'reference'
    """
    home = home_of(source)
    if not isinstance(engine, str) and home is None and threads is None and memory is None and not any(of_disk.values()):
        return engine  # resolved before
    if threads is not None:
        Number(least=1, most=MOST_THREADS, whole=True).check("threads", threads)
        threads = int(threads)
    try:
        limit = None if memory is None else memory_of(memory)
    except OverflowError:
        raise OptionError(f"memory is {shown(memory)}: give a size like '2GB' or '500MB', or a number of bytes") from None
    chosen = engine
    if home is not None:
        name = engine if isinstance(engine, str) else engine.name
        if name not in ("auto", home):
            raise OptionError(
                f"engine is {name!r}, but the votes are on {home.capitalize()}: choose {home!r}, or collect them first"
            )
        chosen = home if engine == "auto" else engine
    if chosen == "auto":
        need = 0 if source is None else in_memory(source, room, threads or cores())
        fits = not need or need <= (available() if limit is None else limit)
        chosen = "disk" if not fits else "reference" if compiled() is None else "cpu"
    if isinstance(chosen, str):
        chosen = engine_named(chosen, threads or cores())
    given = {name: value for name, value in {"memory": limit, **of_disk}.items() if value}
    if chosen.name == "disk":
        return replace(cast(Any, chosen), **given)  # type: ignore[no-any-return]
    if given.keys() - ({"memory", "report"} if engine == "auto" else {"report"}):
        name = next(iter(given.keys() - {"report"}))
        raise OptionError(f"{name} is for engine='disk': engine {chosen.name!r} holds everything in memory")
    if limit is not None and chosen.name in ("cpu", "reference"):
        return replace(cast(Any, chosen), memory=limit)  # type: ignore[no-any-return]
    return chosen


def home_of(source: object) -> str | None:
    """Return the engine that already holds the votes of a source: "spark" for a Spark frame; None for all others."""
    home: str | None = getattr(source, "engine", None)
    if home is not None and isinstance(source, Panel):
        return home
    return "spark" if is_spark_frame(source) else None
