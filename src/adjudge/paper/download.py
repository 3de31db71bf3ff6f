"""Pinned public files, fetched over HTTP, checked to the byte, and converted to votes.csv and truth.csv."""

from __future__ import annotations

import csv
import hashlib
import http.client
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

from adjudge.errors import InputError, AdjudgeError, shown
from adjudge.io.write import write_aside
from adjudge.paper.sources import PublicSet, RawFile

Row = Sequence[str]
Tables = dict[str, list[Row]]  # "votes": (task, worker, label); "truth": (task, label)
Progress = Callable[[RawFile, int], object]  # (file, bytes of it that are here)
CHUNK: Final = 1 << 16
TRIES: Final = 3  # connections that may break before we give up; each goes on where the last one stopped
TIMEOUT: Final = 30.0  # seconds without a byte
SERVER_ERROR: Final = 500


def convert(which: PublicSet, raw: Path, folder: Path) -> None:
    """Write votes.csv and truth.csv of a set into `folder`, from its raw files below `raw` (as OWNER/NAME/PATH)."""
    tables: Tables = {"votes": [], "truth": []}
    for file in which.files:
        for kind, rows in _read(file, raw / file.place).items():
            tables[kind] += rows
    if len(tables["votes"]) != which.votes:
        raise InputError(f"{which.name} has {len(tables['votes'])} votes, not {which.votes}: remove {raw} and get it again")
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "votes.csv", ("task", "worker", "label"), tables["votes"])
    _write(folder / "truth.csv", ("task", "label"), tables["truth"])


def _read(file: RawFile, path: Path) -> Tables:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return READERS[file.rule](lines)
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise InputError(f"cannot read {path} as the registry says ({file.rule}): {error}") from error


def _tabbed(lines: Iterable[str]) -> Iterator[Row]:
    return (line.rstrip("\r\n").split("\t") for line in lines)


def _worker_task_label(lines: Iterable[str]) -> Tables:
    return {"votes": [(task, worker, label) for worker, task, label in _tabbed(lines)]}


def _task_label(lines: Iterable[str]) -> Tables:
    return {"truth": [(task, label) for task, label in _tabbed(lines)]}


def _trec(lines: Iterable[str]) -> Tables:
    """Return votes whose task is topicID_docID; gold -1 means that no truth is known."""
    _, *rows = _tabbed(lines)
    votes: list[Row] = [(f"{topic}_{document}", worker, label) for topic, worker, document, _, label in rows]
    return {"votes": votes, "truth": _first((f"{t}_{d}", gold) for t, _, d, gold, _ in rows if gold != "-1")}


def _snow(lines: Iterable[str]) -> Tables:
    _, *rows = _tabbed(lines)
    return {
        "votes": [(task, worker, response) for _, worker, task, response, _ in rows],
        "truth": _first((task, gold) for _, _, task, _, gold in rows),
    }


def _matrix(lines: Iterable[str]) -> Tables:
    """Return the votes of a matrix with a line per task, a column per worker, both numbered from 0; -1 is no vote."""
    rows = ((str(task), line.split()) for task, line in enumerate(lines))
    return {"votes": [(task, str(worker), label) for task, row in rows for worker, label in enumerate(row) if label != "-1"]}


def _lines(lines: Iterable[str]) -> Tables:
    return {"truth": [(str(task), line.strip()) for task, line in enumerate(lines)]}


def _worker_task_label_truth(lines: Iterable[str]) -> Tables:
    rows = [row[:4] for row in csv.reader(lines)]
    return {
        "votes": [(task, worker, label) for worker, task, label, _ in rows],
        "truth": _first((task, truth) for _, task, _, truth in rows),
    }


READERS: Final[Mapping[str, Callable[[Iterable[str]], Tables]]] = {
    "worker_task_label": _worker_task_label,
    "task_label": _task_label,
    "trec": _trec,
    "snow": _snow,
    "matrix": _matrix,
    "lines": _lines,
    "worker_task_label_truth": _worker_task_label_truth,
}


def _first(pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Return a line per task, in the order of first appearance."""
    found: dict[str, str] = {}
    for task, label in pairs:
        found.setdefault(task, label)
    return list(found.items())


def _write(path: Path, header: Row, rows: Iterable[Row]) -> None:
    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)

    write_aside(path, write)


def get(which: PublicSet, folder: Path, base: str | None = None, progress: Progress | None = None) -> None:
    """Fetch a set's raw files into folder/raw and writes folder/NAME/votes.csv and truth.csv.

    Raw files that are there already, whole and right, are not fetched again: so files placed by hand will do.
    """
    if base is not None and urlsplit(base).scheme not in ("http", "https"):
        raise InputError(f"base-url is {shown(base)}: give an address that begins with http:// or https://")
    for file in which.files:
        try:
            _obtain(file, folder / "raw" / file.place, base, progress)
        except OSError as error:
            raise AdjudgeError(f"cannot write into {folder}: {error.strerror or error}") from error
    try:
        convert(which, folder / "raw", folder / which.name)
    except OSError as error:
        raise AdjudgeError(f"cannot write {folder / which.name}: {error.strerror or error}") from error


def _obtain(file: RawFile, target: Path, base: str | None, progress: Progress | None) -> None:
    if target.exists():
        _verify(file, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + ".part")
        _fetch(file, part, base, progress)
        try:
            _verify(file, part)
        except InputError:
            part.unlink()  # it would fail again
            raise
        part.replace(target)
    if progress is not None:
        progress(file, file.size)


def _verify(file: RawFile, path: Path) -> None:
    """Raise unless the file has the registry's size and checksum."""
    size = path.stat().st_size
    if size != file.size:
        raise InputError(f"{path} has {size} bytes, not {file.size}: remove it and get {file.place} again")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.sha256:
        raise InputError(f"{path} has sha256 {found}, not {file.sha256}: remove it and get {file.place} again")


def _fetch(file: RawFile, part: Path, base: str | None, progress: Progress | None) -> None:
    """Fill `part` to the file's size, going on where an earlier run or a broken connection stopped."""
    url = file.url(base)
    for attempt in range(TRIES):
        if _here(part) >= file.size:
            break
        if attempt:
            time.sleep(0.2 * attempt)
        last = attempt == TRIES - 1
        try:
            _connect(file, url, part, progress)
        except HTTPError as error:
            if last or error.code < SERVER_ERROR:
                raise AdjudgeError(
                    f"cannot get {url}: the server says {error.code} {error.reason}; {_by_hand(file, part, url)}"
                ) from error
        except (URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            if last:
                reason = getattr(error, "reason", None) or error
                raise AdjudgeError(f"cannot get {url}: {reason}; {_by_hand(file, part, url)}") from error
    if _here(part) < file.size:
        raise AdjudgeError(
            f"{url} ended after {_here(part)} of {file.size} bytes: run this again to go on; {_by_hand(file, part, url)}"
        )


def _connect(file: RawFile, url: str, part: Path, progress: Progress | None) -> None:
    here = _here(part)
    request = Request(url, headers={"User-Agent": "adjudge"})
    if here:
        request.add_header("Range", f"bytes={here}-")
    with build_opener().open(request, timeout=TIMEOUT) as response:  # proxies come from the environment
        goes_on = here > 0 and response.status == http.client.PARTIAL_CONTENT
        here = here if goes_on else 0  # a server without ranges sends the whole file again
        with part.open("ab" if goes_on else "wb") as out:
            # never more than the registry's size and one byte, whatever the server sends
            while here <= file.size and (piece := response.read(min(CHUNK, file.size + 1 - here))):
                out.write(piece)
                here += len(piece)
                if progress is not None:
                    progress(file, here)


def _here(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _by_hand(file: RawFile, part: Path, url: str) -> str:
    target = part.with_name(part.name.removesuffix(".part"))
    what = "that file" if url == file.url() else file.url()
    return f"without a network, fetch {what} elsewhere, place it at {target} and run this again"
