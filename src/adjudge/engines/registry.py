"""The engines: their settings, as callers give them, and the engines by name, loaded when chosen."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

from adjudge.data.extensions import extension_names, load_extension
from adjudge.data.memory import free_memory, parse_memory
from adjudge.data.options import Choice, EngineName, Flag, Number
from adjudge.data.votes import Votes
from adjudge.engines.base import Engine
from adjudge.engines.memory import NO_EXTRA_ROOM, Room, in_memory
from adjudge.errors import OptionError, choice_error, quote
from adjudge.io.sources import Opened, Source
from adjudge.kernels.cpu import compiled, cores

MAX_THREADS = 4096  # more than any machine has cores


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of an engine, checked on the way in.

    Parameters
    ----------
    threads : int, optional
        How many to use; all cores by default.

    """

    name: ClassVar[str]
    needs_host_memory: ClassVar[bool] = True  # of which reading takes some

    threads: int | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            Number(least=1, most=MAX_THREADS, whole=True).check("threads", self.threads)
            object.__setattr__(self, "threads", int(self.threads))
        memory = getattr(self, "memory", None)
        if memory is not None:
            try:
                object.__setattr__(self, "memory", parse_memory(memory, of_host=self.needs_host_memory))
            except OverflowError:
                raise OptionError(f"memory is {quote(memory)}: give a size like '2GB' or '500MB', or a number of bytes") from None


@dataclass(frozen=True, kw_only=True)
class AutoEngine(EngineSettings):
    """The engine that suits the votes; `engine="auto"` is `AutoEngine()`.

    It runs compiled passes in memory; on disk for files that would not fit; on Spark for its frames; and on a GPU, if there is
    one, for many votes.

    Parameters
    ----------
    memory : str or int, optional
        Maximum memory, as "2GB" or in bytes; larger fits go to disk. By default the free memory.
    threads : int, optional
        How many to use; all cores by default.

    Examples
    --------
    >>> AutoEngine(memory="2GB").memory
    2000000000

    """

    name: ClassVar[str] = "auto"
    memory: str | int | None = None


@dataclass(frozen=True, kw_only=True)
class Reference(EngineSettings):
    """NumPy on votes in memory, which defines what the others compute; `engine="reference"` is `Reference()`."""

    name: ClassVar[str] = "reference"


@dataclass(frozen=True, kw_only=True)
class Cpu(EngineSettings):
    """Compiled passes over votes in memory; `engine="cpu"` is `Cpu()`.

    Parameters
    ----------
    threads : int, optional
        How many to use; all cores by default.

    Examples
    --------
    >>> import adjudge as adj
    >>> adj.aggregate([("t1", "ann", "cat"), ("t1", "bob", "cat")], engine=adj.Cpu(threads=2)).labels["label"].to_list()
    ['cat']

    """

    name: ClassVar[str] = "cpu"


@dataclass(frozen=True, kw_only=True)
class Disk(EngineSettings):
    """Votes on disk, which need not fit in memory; `engine="disk"` is `Disk()`.

    Parameters
    ----------
    memory : str or int, optional
        Maximum memory, as "2GB" or in bytes; by default half of the free memory.
    work : str or path, optional
        Working folder, which is kept; by default a temporary one that is removed with the result.
    resume : bool, default False
        True continues a fit that was interrupted in the same `work`.
    threads : int, optional
        How many to use; all cores by default.

    Examples
    --------
    >>> import adjudge as adj
    >>> adj.aggregate([("t1", "ann", "cat"), ("t1", "bob", "cat")], engine=adj.Disk(memory="1GB")).labels["label"].to_list()
    ['cat']

    """

    name: ClassVar[str] = "disk"
    memory: str | int | None = None
    work: str | os.PathLike[str] | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        Flag().check("resume", self.resume)


@dataclass(frozen=True, kw_only=True)
class Cuda(EngineSettings):
    """Passes on CUDA devices; `engine="cuda"` is `Cuda()`.

    Parameters
    ----------
    devices : sequence of int, optional
        Numbers of the devices to use; all by default.
    memory : str or int, optional
        Maximum memory of each device, as "2GB" or in bytes; by default the free memory.
    threads : int, optional
        Number of processor threads, for work without a device kernel; all cores by default.

    """

    name: ClassVar[str] = "cuda"
    needs_host_memory: ClassVar[bool] = False

    devices: Sequence[int] | None = None
    memory: str | int | None = None


@dataclass(frozen=True, kw_only=True)
class Spark(EngineSettings):
    """Passes on the executors of a Spark session; `engine="spark"` is `Spark()`.

    Parameters
    ----------
    master : str, optional
        Cluster of a new session; by default that of spark-submit, otherwise this machine.
    partitions : int, optional
        Number of partitions of the votes; by default it depends on their number.
    rows : {"auto", "driver", "executors"}, default "auto"
        Where rows (pairs of worker and label) are: on the "driver", on the "executors", or "auto": on the driver if they fit.
    blocks : int, optional
        Number of blocks of workers, if rows are on the executors; by default it depends on the number of rows.
    threads : int, optional
        Number of threads of the driver, for M-steps; all cores by default.

    """

    name: ClassVar[str] = "spark"
    master: str | None = None
    partitions: int | None = None
    rows: Literal["auto", "driver", "executors"] = "auto"
    blocks: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        Choice(("auto", "driver", "executors")).check("rows", self.rows)
        for name, value in (("partitions", self.partitions), ("blocks", self.blocks)):
            if value is not None:
                Number(least=1, whole=True).check(name, value)


EngineChoice: TypeAlias = EngineName | str | EngineSettings | Engine  # as callers give one
SETTINGS: Final[dict[str, type[EngineSettings]]] = {kind.name: kind for kind in (AutoEngine, Reference, Cpu, Disk, Cuda, Spark)}
# Name to "module:function", which returns the engine for a number of threads, and the other settings of its kind by name.
# Adding an engine adds a line here; another package adds one with an entry point in the group `adjudge.engines`.
ENGINES: dict[str, str] = {
    "reference": "adjudge.engines.local:reference_engine",
    "cpu": "adjudge.engines.local:cpu_engine",
    "disk": "adjudge.engines.disk:disk_engine",
    "cuda": "adjudge.gpu.engine:cuda_engine",
    "spark": "adjudge.spark.engine:spark_engine",
}
# Where votes can be already, and how they come to the host, in words.
REMOTE_VOTE_LOCATIONS = {
    "spark": ("Spark", "collect them"),
    "cuda": ("a CUDA device", "copy them to the host (array.get(), tensor.cpu())"),
}

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
    if name in ENGINES:
        return cast(Engine, _load(ENGINES[name])(threads))
    others = extension_names("engines", ENGINES)
    if name not in others:
        raise choice_error("engine", name, ["auto", *ENGINES, *others])
    return cast(Engine, load_extension("engines", name)(threads))


def engine_with(name: str, **given: Any) -> EngineSettings | Engine:
    """Return the engine of this name with those settings that are not None; one that it does not have is an error.

    >>> engine_with("disk", memory="2GB", threads=None)
    Disk(threads=None, memory=2000000000, work=None, resume=False)
    """
    wanted = {option: value for option, value in given.items() if value is not None}
    kind = SETTINGS.get(name)
    if kind is None:
        threads = Cpu(threads=wanted.pop("threads", None)).threads
    refused = wanted.keys() - (() if kind is None else {f.name for f in fields(kind)})
    if refused:
        raise OptionError(f"{min(refused)} is for engine='disk': engine {name!r} holds everything in memory")
    return engine_named(name, threads or cores()) if kind is None else kind(**wanted)


def resolve(
    engine: EngineChoice = "auto", *, source: Votes | Source | Opened | None = None, room: Room = NO_EXTRA_ROOM
) -> Engine:
    """Return the engine of this name, or with these settings; an engine itself is returned as it is.

    "auto" is the compiled engine on all cores, or the reference if it could not be built; "disk" for a source of
    files that would not fit in memory together with the model's `room`; "spark" for a Spark frame; and for many
    votes an engine of `PREFERRED`.

    >>> resolve("reference").name, resolve(Cpu(threads=3)).threads
    ('reference', 3)
    """
    asked = engine_with(engine) if isinstance(engine, str) else engine
    opened = None if source is None else Opened.of(source)
    home = None if opened is None else opened.home
    if home is not None and asked.name not in ("auto", home):
        where, remedy = REMOTE_VOTE_LOCATIONS.get(home, (home, "collect them"))
        raise OptionError(f"engine is {asked.name!r}, but the votes are on {where}: choose 'auto' or {home!r}, or {remedy} first")
    if isinstance(asked, AutoEngine):
        return _choose_for_source(asked, opened, room)
    if not isinstance(asked, EngineSettings):
        return asked
    given = {f.name: getattr(asked, f.name) for f in fields(asked) if f.name != "threads"}
    return cast(Engine, _load(ENGINES[asked.name])(asked.threads or cores(), **given))


def _choose_for_source(asked: AutoEngine, source: Opened | None, room: Room) -> Engine:
    """Return the engine that suits a source."""
    threads, chosen = asked.threads or cores(), None if source is None else source.home
    found: Engine | None = None
    if chosen is None:
        need = 0 if source is None else in_memory(source, room, threads)
        fits = not need or need <= (free_memory() if asked.memory is None else int(asked.memory))
        found = _find_better(source, need, threads) if fits else None
        chosen = "disk" if not fits else "reference" if compiled() is None else "cpu"
    made = engine_named(chosen, threads) if found is None else found
    if hasattr(made, "is_automatic"):  # what it cannot do is then done on the processor
        made = cast(Engine, replace(cast(Any, made), is_automatic=True))
    if asked.memory is not None and made.name in ("cpu", "reference", "disk"):
        made = cast(Engine, replace(cast(Any, made), memory=asked.memory))
    return made


def _find_better(source: Opened | None, need: int, threads: int) -> Engine | None:
    """Return the engine that is better for the votes of a source than this process; None if there is none.

    `need` is the bytes that files would take in memory, 0 for a source in memory.
    """
    is_small = source is None or 0 < need < MIN_BYTES * LARGE_VOTES  # which is known without another look at the files
    votes = 0 if is_small or source is None else source.votes()
    if votes < LARGE_VOTES:
        return None
    found = (_load(home)(votes, threads) for home in PREFERRED)
    return next((engine for engine in found if engine is not None), None)


def _load(home: str) -> Any:
    """Return the function that "module:function" names."""
    module, function = home.split(":")
    return getattr(import_module(module), function)
