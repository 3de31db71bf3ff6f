"""What `adjudge doctor` looks at: the installation, the folder, a store. Each finding says what to do about it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from adjudge.errors import AdjudgeError, shown

if TYPE_CHECKING:
    from adjudge.store.protocol import Store

State: TypeAlias = Literal["ok", "off", "warn", "fail"]
GB: Final = 1e9
LITTLE_ROOM, NO_ROOM = 1 * GB, 0.05 * GB  # bytes free on the disk of a store
SLOW_SYNC: Final = 0.05  # seconds
SYNCS: Final = 5
BEHIND: Final = 1_000_000  # events after the last snapshot: some seconds of a start
EARLIEST: Final = datetime(2025, 1, 1, tzinfo=UTC)  # no clock that is right shows less
# Extra to its libraries, by the name of the distribution, and what it is for.
EXTRAS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "serve": (("starlette", "uvicorn", "httptools", "uvloop"), "adjudge serve"),
    "postgres": (("psycopg",), "stores in PostgreSQL"),
    "report": (("altair", "vl-convert-python"), "plots"),
    "excel": (("fastexcel",), "spreadsheets"),
    "spark": (("pyspark", "pyarrow"), "the engine spark, and streams"),
}
# Rows that are not of one campaign, by table, in words.
_KINDS: Final = {"campaign": "campaigns", "token": "tokens", "webhook": "webhooks", "outbox": "messages to webhooks"}


class Finding(NamedTuple):
    """What was found of one thing: how it is, and what it is or what to do."""

    state: State
    what: str
    text: str


def installation() -> Iterator[Finding]:
    """Yield what is found of the installation."""
    from adjudge import __version__
    from adjudge.kernels import cpu

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "adjudge", f"{__version__} in {Path(__file__).parents[1]}")
    yield Finding("ok", "Python", f"{version}, {os.cpu_count()} processors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = cpu.compiled()
    if core is not None:
        yield Finding("ok", "compiled core", "there")
    else:
        yield Finding("warn", "compiled core", "missing, all is slower: install a wheel, or a compiler and pip install again")
    for extra, (libraries, use) in EXTRAS.items():
        yield _extra(extra, libraries, use)
    yield _cuda()
    yield _sqlite()
    yield _clock()


def _extra(extra: str, libraries: tuple[str, ...], use: str) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in libraries:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    needed = [name for name in libraries if name != "uvloop" or sys.platform != "win32"]
    missing = [name for name in needed if name not in found]
    told = ", ".join(f"{name} {number}" for name, number in found.items())
    if not missing:
        return Finding("ok", f"extra {extra}", told)
    remedy = f"pip install 'adjudge[{extra}]'"
    if found:
        return Finding("warn", f"extra {extra}", f"has {told}, but no {', '.join(missing)}: {remedy}")
    return Finding("off", f"extra {extra}", f"not installed; {use} needs it: {remedy}")


def _cuda() -> Finding:
    """Look for CuPy, and for a device: CuPy is loaded only where it is there."""
    from importlib.util import find_spec

    if find_spec("cupy") is None:
        return Finding("off", "CUDA", "no CuPy; the engine cuda needs it: pip install 'adjudge[cuda]'")
    from adjudge.gpu.device import cupy, device_at, device_count

    try:
        found = device_at(0)
        free, total = found.memory()
    except AdjudgeError as error:
        return Finding("warn", "CUDA", str(error))
    others = f" and {number - 1} more" if (number := device_count()) > 1 else ""
    return Finding("ok", "CUDA", f"{found.name}{others}, {free / GB:.0f} of {total / GB:.0f} GB free, CuPy {cupy().__version__}")


def _sqlite() -> Finding:
    from adjudge.store.sqlite import library_version

    return Finding("ok", "SQLite", library_version())


def _clock() -> Finding:
    now = datetime.now(UTC)
    if now < EARLIEST:
        return Finding("fail", "clock", f"shows {now:%Y-%m-%d %H:%M} UTC, which is past: set it, as decisions carry its time")
    return Finding("ok", "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")


def folder(path: Path) -> Iterator[Finding]:
    """Yield what is found of the folder that a store is or will be in.

    - `path`: the folder.
    """
    import shutil

    if not path.is_dir():
        yield Finding("fail", "folder", f"{path} is not there: make it")
        return
    if not os.access(path, os.W_OK | os.X_OK):
        yield Finding("fail", "folder", f"{path} cannot be written: change its owner or its rights, or run as another user")
        return
    yield Finding("ok", "folder", f"{path} can be written")
    free = shutil.disk_usage(path).free
    state: State = "fail" if free < NO_ROOM else "warn" if free < LITTLE_ROOM else "ok"
    remedy = "" if state == "ok" else ": make room, or votes will be refused"
    yield Finding(state, "free disk", f"{free / GB:.1f} GB{remedy}")
    yield _sync(path)


def _sync(path: Path) -> Finding:
    """Measure what every commit waits for."""
    import tempfile
    import time

    try:
        with tempfile.TemporaryFile(dir=path) as file:
            began = time.perf_counter()
            for _ in range(SYNCS):
                file.write(b"adjudge")
                file.flush()
                os.fsync(file.fileno())
            seconds = (time.perf_counter() - began) / SYNCS
    except OSError as error:
        return Finding("fail", "disk", f"nothing can be written in {path}: {error.strerror}")
    told = f"a write reaches it in {seconds * 1000:.1f} ms"
    if seconds > SLOW_SYNC:
        return Finding("warn", "disk", f"{told}, and every answer waits for one: a faster disk helps")
    return Finding("ok", "disk", told)


def store(url: str) -> Iterator[Finding]:
    """Yield what is found of a store; whoever writes it goes on.

    - `url`: its path or its address.
    """
    from adjudge.store.opening import open_store

    try:
        opened = open_store(url, readonly=True)
    except AdjudgeError as error:
        yield Finding("fail", "store", str(error))
        return
    try:
        yield from _opened(opened)
    except AdjudgeError as error:
        yield Finding("fail", "store", str(error))
    finally:
        opened.close()


def _opened(opened: Store) -> Iterator[Finding]:
    from adjudge.store.sqlite import SqliteStore
    from adjudge.store.verify import verify, verify_shared

    if isinstance(opened, SqliteStore):
        yield Finding("ok", "store", f"{opened.url}, {_size(opened.path)}")
        with opened.reading() as link:
            said = str(link.rows("PRAGMA integrity_check(1)")[0][0])
        yield Finding("ok", "file", "whole") if said == "ok" else Finding("fail", "file", f"damaged: {said}; restore a backup")
    else:
        yield Finding("ok", "store", opened.url)
    counts, problems = verify_shared(opened)
    for problem in problems:
        yield Finding("fail", "store", problem)
    if not problems:
        told = ", ".join(f"{count} {_KINDS[table]}" for table, count in counts.items())
        yield Finding("ok", "store", f"{told}; every checksum is right")
        tokens = [row.revoked is None for row in opened.tokens.all()]
        none = "none holds: nobody is answered" if tokens else "none: this machine is answered, no other"
        yield Finding("ok", "tokens", f"{sum(tokens)} hold" if any(tokens) else none)
    found = verify(opened)
    if not found:
        yield Finding("ok", "campaigns", "none yet")
    for one in found:
        name = f"campaign {shown(one.name)}"
        for problem in one.problems:
            yield Finding("fail", name, problem)
        if not one.problems:
            begins = "" if one.begins == 1 else f" from position {one.begins} on: what was before has expired"
            beside = f"{one.workers} workers, {one.records} records of archived tasks, {one.ids} ids, {one.snapshots} snapshots"
            beside += f", {one.annotations} rows of Label Studio" if one.annotations else ""
            told = f"{one.events} events in {one.pages} pages{begins}, {one.decisions} decisions, {beside}"
            yield Finding("ok", name, f"{told}; every checksum is right")
            yield _writer(opened, one.campaign, name)
            yield _snapshot(opened, one.campaign, one.begins - 1 + one.events, name)
            yield from _last(opened, one.campaign, name)
        yield from _dead(opened, one.campaign, name)


def _size(path: Path) -> str:
    sizes = {end: Path(f"{path}{end}").stat().st_size for end in ("", "-wal") if Path(f"{path}{end}").exists()}
    wal = f", {sizes['-wal'] / 1e6:.1f} MB of them not yet copied from the write-ahead log" if sizes.get("-wal") else ""
    return f"{sum(sizes.values()) / 1e6:.1f} MB{wal}"


def _writer(opened: Store, campaign: int, name: str) -> Finding:
    who = opened.owner(campaign)
    return Finding("ok", name, f"written by {who}" if who else "no process writes it now")


def _snapshot(opened: Store, campaign: int, last: int, name: str) -> Finding:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        latest = opened.snapshots(campaign).latest()
    if told:
        return Finding("warn", name, f"{told[0].message}; the log has everything, and the next snapshot replaces it")
    base = opened.bases.find(campaign)
    what, at = ("snapshot", latest[0]) if latest else ("", 0)
    if base is not None and base.position > at:
        what, at = "base", base.position
    behind = last - at
    where = f"{what} at position {at}, {behind} events behind" if at else "no snapshot"
    if behind > BEHIND:
        return Finding("warn", name, f"{where}: the next start reads {behind} events; stop the service in order, which saves one")
    return Finding("ok", name, where)


def _last(opened: Store, campaign: int, name: str) -> Iterator[Finding]:
    last = opened.last(campaign)
    for _, page in opened.read(campaign, after=last - 1):
        moment = datetime.fromtimestamp(page[-1].time / 1e6, UTC)
        ahead = (moment - datetime.now(UTC)).total_seconds()
        text = f"last event at {moment:%Y-%m-%d %H:%M:%S} UTC"
        if ahead > 60:
            remedy = "set the clock right, or the log back (POST /v1/clock)"
            yield Finding("warn", name, f"{text}, {ahead:.0f} s ahead of the clock: {remedy}")
        else:
            yield Finding("ok", name, text)


def _dead(opened: Store, campaign: int, name: str) -> Iterator[Finding]:
    if opened.webhooks.dead(campaign, limit=1):
        yield Finding("warn", name, "deliveries of webhooks were given up: GET …/webhooks/dead lists them, redeliver sends them")
