"""Public data sets: pinned files, fetched over HTTP, checked to the byte, and converted to votes.csv and truth.csv."""

from __future__ import annotations

import csv
import hashlib
import http.client
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote as quote_url
from urllib.parse import urlsplit
from urllib.request import Request, build_opener

from adjudge.errors import AdjudgeError, InputError, quote
from adjudge.io.write import write_aside

_ACT: Final = "orchidproject/active-crowd-toolkit"
_GAL: Final = "ipeirotis/Get-Another-Label"
_LABELME: Final = "fmenat/PyLearningCrowds"
_SNOW: Final = "edwinrobots/bayesian_combination_tutorial2"
_TREC: Final = "axelabels/CDM_BIAS"
COMMITS: Final[Mapping[str, str]] = {
    _TREC: "68aaa11dd12638f79bb01a2ec49012fb43c2d5ec",
    _SNOW: "f98448e2e9a941463aa92f418eefd1f43bd5a637",
    _LABELME: "0edf617d0357a43b48dc53f10f4181ec0163d4db",
    _GAL: "9fe6c56a7a157dba1a12018f696bad56806125b7",
    _ACT: "2c0c194e85ca126545bd830d811ec39151bdd448",
}
# By name: what the votes are about, where the files are, how many votes there are, and whether the paper uses them.
_SET_ROWS: Final[Mapping[str, tuple[str, str, str, int, bool]]] = {
    "adult2": ("adult content of pages, Ipeirotis et al.", _GAL, "data/AdultContent2", 92721, True),
    "bm": ("sentiment of tweets, Mozafari et al.", _GAL, "data/BarzanMozafari", 5000, True),
    "trec2010": ("relevance of documents, TREC 2010", _TREC, "trec-rf10-crowd", 98453, True),
    "rte": ("textual entailment, Snow et al. 2008", _SNOW, "all_collected_data", 8000, True),
    "snow_temp": ("order of events, Snow et al. 2008", _SNOW, "all_collected_data", 4620, False),
    "labelme": ("scenes in images, Rodrigues et al.", _LABELME, "data/LabelMe", 2547, True),
    "sp": ("sentiment of sentences, Rodrigues et al.", _ACT, "Data", 27746, True),
    "zencrowd_in": ("links between entities, Demartini et al.", _ACT, "Data", 11205, False),
}
# The files of each set: bytes, sha256, and how to read it.
_FILES: Final[Mapping[str, Sequence[tuple[str, int, str, str]]]] = {
    "adult2": [
        ("labels.txt", 3592352, "9584f9d0eda4ede1bce503539c751179a32362240b92e55400f0e2ded8f7468c", "worker_task_label"),
        ("gold.txt", 62239, "7b2417f4f8568426767139400d827e0be303c7f6f82126bf58a8febeb33f3949", "task_label"),
    ],
    "bm": [
        ("labels.txt", 104022, "d82f0c9d0f221ca2fcd25c05f74228a9980cbe6dbaf959295da40784378cf1f9", "worker_task_label"),
        ("evaluation.txt", 5893, "4bcec34f1efca8607260fa14e39e22eb4b163b8779ede749c98b65346964ebc9", "task_label"),
    ],
    "trec2010": [("trec-rf10-data.txt", 4103310, "ab501bd275bc1a4bc1d2e680ddf1234f15d25c90a841e5adc55c6c995d303016", "trec")],
    "rte": [("rte.standardized.tsv", 515468, "3187c5de59b9b9c596d490d25b5f5f108090a35cbdd10e81f21e6d1939d6ba79", "snow")],
    "snow_temp": [("temp.standardized.tsv", 302152, "7f74de9f36a0d3dfdc1f51e6433526abfc788c616d0c2d04a96206780ac74860", "snow")],
    "labelme": [
        ("answers.txt", 174453, "354c282e10835a59962494acb1d180fe997b65a0aa1e27f870cdb4ef51ef3e2b", "matrix"),
        ("LabelMe_Z_train.txt", 2000, "229556bdc5da327dd7d4e4154ba180969091c83f43cf8cbee3727131c5a062f6", "lines"),
    ],
    "sp": [("SP.csv", 655310, "a83cf48092dc61bbb8986fdb0c1a17f658ba8555bddffc9e9ca26b95d514236f", "csv_with_truth")],
    "zencrowd_in": [
        ("ZenCrowd_in.csv", 846125, "c5eabf0b145ce04122a77e28e3d765045ba65c3b16edee2dc0c5106418e92f5a", "csv_with_truth")
    ],
}
HOST: Final = "https://raw.githubusercontent.com"
Row = Sequence[str]
Tables = dict[str, list[Row]]  # "votes": (task, worker, label); "truth": (task, label)
Progress = Callable[["RawFile", int], object]  # (file, bytes of it that are here)
DOWNLOAD_CHUNK_BYTES: Final = 1 << 16
MAX_CONNECTION_ATTEMPTS: Final = 3  # connections that may break before we give up; each goes on where the last one stopped
TIMEOUT: Final = 30.0  # seconds without a byte
SERVER_ERROR: Final = 500


@dataclass(frozen=True)
class RawFile:
    """One public file, pinned to the byte."""

    repository: str  # OWNER/NAME
    path: str
    size: int  # bytes
    sha256: str
    rule: str  # how `convert` reads it, one of `FILE_READERS`

    @property
    def commit(self) -> str:
        """The full commit at which the file has this checksum."""
        return COMMITS[self.repository]

    @property
    def place(self) -> str:
        """Where the file stands on a mirror and among files placed by hand: OWNER/NAME/PATH."""
        return f"{self.repository}/{self.path}"

    def url(self, base: str | None = None) -> str:
        """Return where to fetch the file: from GitHub at its commit, or below a mirror's base as OWNER/NAME/PATH.

        >>> SETS["bm"].files[1].url("http://mirror/raw/")
        'http://mirror/raw/ipeirotis/Get-Another-Label/data/BarzanMozafari/evaluation.txt'
        """
        if base is not None:
            return f"{base.rstrip('/')}/{quote_url(self.place)}"
        return f"{HOST}/{self.repository}/{self.commit}/{quote_url(self.path)}"


@dataclass(frozen=True)
class PublicSet:
    """A data set and the files it is made of."""

    name: str
    about: str
    files: tuple[RawFile, ...]
    votes: int  # votes in the converted file
    in_paper: bool

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(file.size for file in self.files)


def _public_set(name: str) -> PublicSet:
    about, repository, folder, votes, in_paper = _SET_ROWS[name]
    files = [RawFile(repository, f"{folder}/{file}", size, sha256, rule) for file, size, sha256, rule in _FILES[name]]
    return PublicSet(name, about, tuple(files), votes, in_paper)


SETS: Final[Mapping[str, PublicSet]] = MappingProxyType({name: _public_set(name) for name in _SET_ROWS})


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
            return FILE_READERS[file.rule](lines)
    except (OSError, UnicodeDecodeError, ValueError, IndexError) as error:
        raise InputError(f"cannot read {path} as the registry says ({file.rule}): {error}") from error


def _split_tabs(lines: Iterable[str]) -> Iterator[Row]:
    return (line.rstrip("\r\n").split("\t") for line in lines)


def _worker_task_label(lines: Iterable[str]) -> Tables:
    return {"votes": [(task, worker, label) for worker, task, label in _split_tabs(lines)]}


def _task_label(lines: Iterable[str]) -> Tables:
    return {"truth": [(task, label) for task, label in _split_tabs(lines)]}


def _trec(lines: Iterable[str]) -> Tables:
    """Return votes whose task is topicID_docID; gold -1 means that no truth is known."""
    _, *rows = _split_tabs(lines)
    votes: list[Row] = [(f"{topic}_{document}", worker, label) for topic, worker, document, _, label in rows]
    return {"votes": votes, "truth": _first((f"{t}_{d}", gold) for t, _, d, gold, _ in rows if gold != "-1")}


def _snow(lines: Iterable[str]) -> Tables:
    _, *rows = _split_tabs(lines)
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


def _csv_with_truth(lines: Iterable[str]) -> Tables:
    rows = [row[:4] for row in csv.reader(lines)]
    return {
        "votes": [(task, worker, label) for worker, task, label, _ in rows],
        "truth": _first((task, truth) for _, task, _, truth in rows),
    }


FILE_READERS: Final[Mapping[str, Callable[[Iterable[str]], Tables]]] = {
    "worker_task_label": _worker_task_label,
    "task_label": _task_label,
    "trec": _trec,
    "snow": _snow,
    "matrix": _matrix,
    "lines": _lines,
    "csv_with_truth": _csv_with_truth,
}


def _first(pairs: Iterable[tuple[str, str]]) -> list[Row]:
    """Return a line per task, in the order of first appearance."""
    labels: dict[str, str] = {}
    for task, label in pairs:
        labels.setdefault(task, label)
    return list(labels.items())


def _write(path: Path, header: Row, rows: Iterable[Row]) -> None:
    def write(aside: Path) -> None:
        with aside.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)

    write_aside(path, write)


def get(which: PublicSet, folder: Path, base: str | None = None, progress: Progress | None = None) -> None:
    """Fetch a set's raw files into folder/raw and write folder/NAME/votes.csv and truth.csv.

    Raw files that are there already, whole and right, are not fetched again: so files placed by hand will do.
    """
    if base is not None and urlsplit(base).scheme not in ("http", "https"):
        raise InputError(f"base-url is {quote(base)}: give an address that begins with http:// or https://")
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
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != file.sha256:
        raise InputError(f"{path} has sha256 {digest}, not {file.sha256}: remove it and get {file.place} again")


def _fetch(file: RawFile, part: Path, base: str | None, progress: Progress | None) -> None:
    """Fill `part` to the file's size, going on where an earlier run or a broken connection stopped."""
    url = file.url(base)
    for attempt in range(MAX_CONNECTION_ATTEMPTS):
        if _size_of(part) >= file.size:
            break
        if attempt:
            time.sleep(0.2 * attempt)
        last = attempt == MAX_CONNECTION_ATTEMPTS - 1
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
    if _size_of(part) < file.size:
        raise AdjudgeError(
            f"{url} ended after {_size_of(part)} of {file.size} bytes: run this again to go on; {_by_hand(file, part, url)}"
        )


def _connect(file: RawFile, url: str, part: Path, progress: Progress | None) -> None:
    received = _size_of(part)
    request = Request(url, headers={"User-Agent": "adjudge"})
    if received:
        request.add_header("Range", f"bytes={received}-")
    with build_opener().open(request, timeout=TIMEOUT) as response:  # proxies come from the environment
        goes_on = received > 0 and response.status == http.client.PARTIAL_CONTENT
        received = received if goes_on else 0  # a server without ranges sends the whole file again
        with part.open("ab" if goes_on else "wb") as out:
            # never more than the registry's size and one byte, whatever the server sends
            while received <= file.size and (piece := response.read(min(DOWNLOAD_CHUNK_BYTES, file.size + 1 - received))):
                out.write(piece)
                received += len(piece)
                if progress is not None:
                    progress(file, received)


def _size_of(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _by_hand(file: RawFile, part: Path, url: str) -> str:
    target = part.with_name(part.name.removesuffix(".part"))
    what = "that file" if url == file.url() else file.url()
    return f"without a network, fetch {what} elsewhere, place it at {target} and run this again"
