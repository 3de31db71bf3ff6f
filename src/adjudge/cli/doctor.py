"""`adjudge doctor`: whether the installation, the folder and a store are in order, and what to do if they are not."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple, TypeAlias

import typer

from adjudge.cli import output as out
from adjudge.cli.options import command
from adjudge.errors import AdjudgeError, quote

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

State: TypeAlias = Literal["ok", "off", "warn", "fail"]
BYTES_PER_GB: Final = 1e9
LOW_DISK_BYTES, FULL_DISK_BYTES = 1 * BYTES_PER_GB, 0.05 * BYTES_PER_GB
SLOW_SYNC_S: Final = 0.05
TIMED_SYNCS: Final = 5
MAX_EVENTS_BEHIND: Final = 1_000_000  # after the last snapshot: some seconds of a start
EARLIEST_TIME: Final = datetime(2025, 1, 1, tzinfo=UTC)  # a correct clock shows a later time
# Extra to its libraries, by the name of the distribution, and its purpose.
EXTRAS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "serve": (("starlette", "uvicorn", "httptools", "uvloop", "jinja2"), "adjudge serve"),
    "client": (("httpx2",), "adj.Client, adjudge vote and adjudge watch"),
    "postgres": (("psycopg",), "stores in PostgreSQL"),
    "report": (("altair", "vl-convert-python"), "plots"),
    "excel": (("fastexcel",), "spreadsheets"),
    "spark": (("pyspark", "pyarrow"), "the engine spark, and streams"),
}
# Rows that are not of one campaign, by table, in words.
_TABLE_NOUNS: Final = {"campaign": "campaigns", "token": "tokens", "webhook": "webhooks", "outbox": "messages to webhooks"}


class Finding(NamedTuple):
    """A check's outcome: its status, and a detail or a remedy."""

    state: State
    what: str
    text: str


STATE_STYLES: Final = {"ok": "green", "off": "dim", "warn": "yellow", "fail": "bold red"}
DEFAULT_STORE: Final = "votes.db"


@command(
    ("The installation, this folder, and votes.db if it exists:", "adjudge doctor"),
    ("A store, while a service writes it:", "adjudge doctor votes.db"),
)
def doctor(
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="A file or postgresql://… (default: votes.db, if it exists).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check the installation and a store, and say what to do.

    One line per check: ok, off (not installed, not needed), warn or fail. The exit code is 1 if anything fails. A
    store is read completely, and its checksums verified.
    """
    findings: list[Finding] = []
    chosen = store if store is not None else DEFAULT_STORE if Path(DEFAULT_STORE).exists() else None
    is_local = chosen is None or "://" not in chosen
    parent = Path(chosen).absolute().parent if chosen is not None and is_local else Path.cwd()
    of_place = folder_findings(parent) if is_local else ()
    for finding in chain(installation(), of_place, store_findings(chosen) if chosen is not None else ()):
        findings.append(finding)
        if not as_json:
            _show(finding)  # as soon as it is known: a large store takes a while
    if as_json:
        out.document([finding._asdict() for finding in findings])
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(1)


def _show(finding: Finding) -> None:
    from rich.text import Text

    from adjudge.cli import console

    state, what, text = finding
    line = Text.assemble((f"{state:<5}", STATE_STYLES[state]), console.plain(f" {what:<20} {text}"))
    out.screen().print(line, soft_wrap=True)


def installation() -> Iterator[Finding]:
    """Yield what is found of the installation."""
    from adjudge import __version__
    from adjudge.kernels import cpu
    from adjudge.service.store.sqlite import library_version

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "adjudge", f"{__version__} in {Path(__file__).parents[1]}")
    yield Finding("ok", "Python", f"{version}, {os.cpu_count()} processors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = cpu.compiled()
    if core is not None:
        yield Finding("ok", "compiled core", "there")
    else:
        remedy = "install a C++ compiler, then pip install --force-reinstall adjudge"
        yield Finding("warn", "compiled core", f"missing, so fits are slower: {remedy}")
    for extra, (libraries, use) in EXTRAS.items():
        yield _extra(extra, libraries, use)
    yield _cuda()
    yield Finding("ok", "SQLite", library_version())
    yield _clock()


def _extra(extra: str, libraries: tuple[str, ...], use: str) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for name in libraries:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    needed = [name for name in libraries if name != "uvloop" or sys.platform != "win32"]
    missing = [name for name in needed if name not in versions]
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    if not missing:
        return Finding("ok", f"extra {extra}", told)
    remedy = f"pip install 'adjudge[{extra}]'"
    if versions:
        return Finding("warn", f"extra {extra}", f"has {told}, but no {', '.join(missing)}: {remedy}")
    return Finding("off", f"extra {extra}", f"not installed; {use} needs it: {remedy}")


def _cuda() -> Finding:
    """Look for CuPy, and for a device: CuPy is loaded only where it is there."""
    from importlib.util import find_spec

    if find_spec("cupy") is None:
        return Finding("off", "CUDA", "no CuPy; the engine cuda needs it: pip install 'adjudge[cuda]'")
    from adjudge.gpu.device import cupy, device_at, device_count

    try:
        device = device_at(0)
        free, total = device.memory()
    except AdjudgeError as error:
        return Finding("warn", "CUDA", str(error))
    others = f" and {number - 1} more" if (number := device_count()) > 1 else ""
    room = f"{free / BYTES_PER_GB:.0f} of {total / BYTES_PER_GB:.0f} GB free"
    return Finding("ok", "CUDA", f"{device.name}{others}, {room}, CuPy {cupy().__version__}")


def _clock() -> Finding:
    now = datetime.now(UTC)
    if now < EARLIEST_TIME:
        return Finding("fail", "clock", f"shows {now:%Y-%m-%d %H:%M} UTC, which is past: set it, as decisions carry its time")
    return Finding("ok", "clock", f"{now:%Y-%m-%d %H:%M:%S} UTC")


def folder_findings(path: Path) -> Iterator[Finding]:
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
    state: State = "fail" if free < FULL_DISK_BYTES else "warn" if free < LOW_DISK_BYTES else "ok"
    remedy = "" if state == "ok" else ": make room, or votes will be refused"
    yield Finding(state, "free disk", f"{free / BYTES_PER_GB:.1f} GB{remedy}")
    yield _sync(path)


def _sync(path: Path) -> Finding:
    """Measure what every commit waits for."""
    import tempfile
    import time

    try:
        with tempfile.TemporaryFile(dir=path) as file:
            began = time.perf_counter()
            for _ in range(TIMED_SYNCS):
                file.write(b"adjudge")
                file.flush()
                os.fsync(file.fileno())
            seconds = (time.perf_counter() - began) / TIMED_SYNCS
    except OSError as error:
        return Finding("fail", "disk", f"nothing can be written in {path}: {error.strerror}")
    told = f"a write reaches it in {seconds * 1000:.1f} ms"
    if seconds > SLOW_SYNC_S:
        return Finding("warn", "disk", f"{told}, and every answer waits for one: a faster disk helps")
    return Finding("ok", "disk", told)


def store_findings(url: str) -> Iterator[Finding]:
    """Yield the findings on a store, which may be in use meanwhile.

    - `url`: its path or its address.
    """
    from adjudge.cli.store import open_to_read

    try:
        with open_to_read(url) as store:
            yield from _check_store(store)
    except AdjudgeError as error:
        yield Finding("fail", "store", str(error))


def _check_store(opened: Store) -> Iterator[Finding]:
    from adjudge.service.store.sqlite import SqliteStore
    from adjudge.service.store.verify import verify, verify_shared

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
        told = ", ".join(f"{count} {_TABLE_NOUNS[table]}" for table, count in counts.items())
        yield Finding("ok", "store", f"{told}; every checksum is right")
        tokens = [row.revoked is None for row in opened.tokens.all()]
        none = "none holds: nobody is answered" if tokens else "none: this machine is answered, no other"
        yield Finding("ok", "tokens", f"{sum(tokens)} hold" if any(tokens) else none)
    logs = verify(opened)
    if not logs:
        yield Finding("ok", "campaigns", "none yet")
    for log in logs:
        name = f"campaign {quote(log.name)}"
        for problem in log.problems:
            yield Finding("fail", name, problem)
        if not log.problems:
            begins = "" if log.begins == 1 else f" from position {log.begins} on: what was before has expired"
            beside = f"{log.workers} workers, {log.records} records of archived tasks, {log.ids} ids, {log.snapshots} snapshots"
            beside += f", {log.annotations} rows of Label Studio" if log.annotations else ""
            beside += f", {log.items} items" if log.items else ""
            summary = f"{log.events} events in {log.pages} pages{begins}, {log.decisions} decisions, {beside}"
            yield Finding("ok", name, f"{summary}; every checksum is right")
            writer = opened.owner(log.campaign)
            yield Finding("ok", name, f"written by {writer}" if writer else "no process writes it now")
            yield _snapshot(opened, log.campaign, log.begins - 1 + log.events, name)
            yield from _last(opened, log.campaign, name)
        if opened.webhooks.dead(log.campaign, limit=1):
            remedy = "GET …/webhooks/dead lists them, redeliver sends them"
            yield Finding("warn", name, f"deliveries of webhooks were given up: {remedy}")


def _size(path: Path) -> str:
    sizes = {end: Path(f"{path}{end}").stat().st_size for end in ("", "-wal") if Path(f"{path}{end}").exists()}
    wal = f", {sizes['-wal'] / 1e6:.1f} MB of them not yet copied from the write-ahead log" if sizes.get("-wal") else ""
    return f"{sum(sizes.values()) / 1e6:.1f} MB{wal}"


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
    if behind > MAX_EVENTS_BEHIND:
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
