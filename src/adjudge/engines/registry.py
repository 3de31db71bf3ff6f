"""The engines by name, loaded when chosen: the command line, the contract and the docs read this table."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, cast

from adjudge.data.memory import available, memory_of
from adjudge.data.options import Number
from adjudge.data.votes import Panel, Votes
from adjudge.engines.base import Engine
from adjudge.engines.memory import NOTHING, Room, in_memory
from adjudge.errors import OptionError, shown, unknown
from adjudge.io.files import votes_in
from adjudge.io.sources import Source, encoded_folder, is_device_source, is_spark_frame, paths_of
from adjudge.kernels.cpu import compiled, cores

MOST_THREADS = 4096  # more than any machine has cores
# Name to "module:function", which returns the engine for a number of threads. Adding an engine adds a line here.
ENGINES: dict[str, str] = {
    "reference": "adjudge.engines.local:reference_engine",
    "cpu": "adjudge.engines.local:cpu_engine",
    "disk": "adjudge.engines.disk:disk_engine",
    "cuda": "adjudge.gpu.engine:cuda_engine",
    "spark": "adjudge.spark.engine:spark_engine",
}
# Where votes can be already, and how they come to the host, in words.
HOMES = {"spark": ("Spark", "collect them"), "cuda": ("a CUDA device", "copy them to the host (array.get(), tensor.cpu())")}

# "module:function" of engines that "auto" chooses where they are there: from a number of votes and of threads each returns its
# engine, or None where another is the better one; none raises.
PREFERRED: list[str] = ["adjudge.gpu.engine:preferred"]
LARGE_VOTES = 1_000_000  # fewer are fitted here quickly: no other engine is even loaded
MIN_BYTES = 4  # of a vote in memory


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
    return cast(Engine, _loaded(ENGINES[name])(threads))


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
    files that would not fit in memory, with the `room` that the model takes beside; "spark" for a Spark frame; and for many
    votes an engine of `PREFERRED`. `memory` bounds what may be used by "auto", by the disk engine, which `of_disk` is for,
    and of the devices of an engine that has some.

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
        limit = None if memory is None else memory_of(memory, of_host=False)
    except OverflowError:
        raise OptionError(f"memory is {shown(memory)}: give a size like '2GB' or '500MB', or a number of bytes") from None
    chosen = engine
    if home is not None:
        name = engine if isinstance(engine, str) else engine.name
        if name not in ("auto", home):
            where, remedy = HOMES.get(home, (home, "collect them"))
            raise OptionError(f"engine is {name!r}, but the votes are on {where}: choose 'auto' or {home!r}, or {remedy} first")
        chosen = home if engine == "auto" else engine
    if chosen == "auto":
        need = 0 if source is None else in_memory(source, room, threads or cores())
        fits = not need or need <= (available() if limit is None else limit)
        here = "reference" if compiled() is None else "cpu"
        chosen = "disk" if not fits else _preferred(source, need, threads or cores()) or here
    if isinstance(chosen, str):
        chosen = engine_named(chosen, threads or cores())
    if engine == "auto" and hasattr(chosen, "is_automatic"):  # what it cannot do is then done on the processor
        chosen = cast(Engine, replace(cast(Any, chosen), is_automatic=True))
    bounds = getattr(chosen, "bounds_memory", False)  # of its devices
    if limit is not None and not bounds:
        memory_of(memory)  # of the host, which has a floor
    given = {name: value for name, value in {"memory": limit, **of_disk}.items() if value}
    if chosen.name == "disk":
        return replace(cast(Any, chosen), **given)  # type: ignore[no-any-return]
    refused = given.keys() - ({"memory", "report"} if engine == "auto" or bounds else {"report"})
    if refused:
        raise OptionError(f"{min(refused)} is for engine='disk': engine {chosen.name!r} holds everything in memory")
    if limit is not None and (chosen.name in ("cpu", "reference") or (bounds and engine != "auto")):
        return replace(cast(Any, chosen), memory=limit)  # type: ignore[no-any-return]
    return chosen


def _preferred(source: Votes | Source | None, need: int, threads: int) -> Engine | None:
    """Return the engine that is better for the votes of a source than this process; None where there is none.

    `need` is the bytes that files would take in memory, 0 for what is there.
    """
    is_small = source is None or 0 < need < MIN_BYTES * LARGE_VOTES  # which is known without another look at the files
    votes = 0 if is_small or source is None else _votes_in(source)
    if votes < LARGE_VOTES:
        return None
    found = (_loaded(home)(votes, threads) for home in PREFERRED)
    return next((engine for engine in found if engine is not None), None)


def _votes_in(source: Votes | Source) -> int:
    """Return about how many votes a source has: votes, files, or a frame; 0 where it takes long to say."""
    if isinstance(source, Votes):
        return len(source)
    folder = encoded_folder(source)
    if folder is not None:
        from adjudge.io.folder.opened import open_encoded

        return len(open_encoded(folder, check=False))
    paths = paths_of(source)
    if paths is not None:
        return votes_in(paths)
    is_frame = hasattr(source, "columns") and hasattr(source, "__len__")
    return len(cast(Any, source)) if is_frame else 0


def _loaded(home: str) -> Any:
    """Return the function that "module:function" names."""
    module, function = home.split(":")
    return getattr(import_module(module), function)


def home_of(source: object) -> str | None:
    """Return the engine that already holds the votes of a source: "spark" for a Spark frame, "cuda" for arrays on a device.

    None for all others.
    """
    home: str | None = getattr(source, "engine", None)
    if home is not None and isinstance(source, Panel):
        return home
    if is_spark_frame(source):
        return "spark"
    return "cuda" if is_device_source(source) else None
