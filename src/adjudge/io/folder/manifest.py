"""The manifest of a folder of encoded votes, its sizes and checksums, and the checks of its content.

Every byte is checked against its checksum, every number before it is used as an index: in chunks that fit in the cache,
together with the checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from adjudge.data.vectors import pieces
from adjudge.data.vocabulary import DTYPE_OF_KIND, Kind, require_below
from adjudge.errors import AdjudgeError, InputError, quote
from adjudge.io.files import MANIFEST
from adjudge.io.folder.arrays import Checksum, Count, Span, StoredArray, sharded_files

FORMAT: Final = "adjudge votes"
VERSION: Final = 1
OPTIONAL_FILES: Final[Mapping[str, Any]] = {"row_weight": np.float64, "abstained": np.int64}  # if used
IDS: Final = {"unvoted": "task", "workers": "worker", "labels": "label"}  # file -> role


class FileEntry(TypedDict):
    """A file of the folder."""

    dtype: str
    length: Count
    crc32: NotRequired[Checksum]  # of files without shards


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes, kinds of ids, and a checksum for every part of every file."""

    votes: Count
    tasks: Count
    kinds: dict[Literal["task", "worker", "label"], Kind]
    rows_read: Count  # of the input
    abstentions: Count  # those without label
    duplicates: Literal["all", "last", "first"]
    files: dict[str, FileEntry]
    shards: tuple[Span, ...]

    @property
    def identity(self) -> str:
        """The checksum of the manifest, and so of all files."""
        return digest(self._body())

    @property
    def sizes(self) -> dict[str, int]:
        """The number of items of every file."""
        return {name: entry["length"] for name, entry in self.files.items()}

    def write(self, folder: Path) -> None:
        """Write the manifest, after all other files."""
        write_sealed(folder / MANIFEST, self._body(), indent=1)

    def _body(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **msgspec.to_builtins(self)}

    @classmethod
    def read(cls, folder: Path, handle: int | None = None) -> Manifest:
        """Return the manifest of a folder; raise if it is absent, damaged, not valid or too new.

        `handle` is the open directory, if there is one, whose files are found even if the folder was renamed.
        """
        path = folder / MANIFEST
        try:
            body = read_json(path, handle)
        except OSError as error:
            raise InputError(f"{folder} holds no encoded votes ({MANIFEST}: {error.strerror}): make them with encode") from error
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged ({error}): encode the votes again") from error
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise InputError(f"{folder} holds no encoded votes: its {MANIFEST} belongs to something else")
        version = body.get("version")
        if type(version) is not int or version > VERSION:
            raise AdjudgeError(
                f"{folder} was encoded by a newer adjudge (format {quote(version)}, this one reads {VERSION}): upgrade"
            )
        if body.pop("sha256", None) != digest(body):
            raise InputError(f"{path} is damaged (its checksum does not match): encode the votes again")
        manifest, fault = convert({name: body[name] for name in body if name not in ("format", "version")}, cls)
        fault = fault or manifest._fault()
        if fault is not None:
            raise InputError(f"{path} is not valid: {fault}; encode the votes again")
        return cast(Manifest, manifest)

    def _fault(self) -> str | None:
        """Return which parts of a manifest contradict each other; None without fault."""
        if len(self.kinds) < 3:
            return f"kinds is {quote(self.kinds)}"
        types, sharded = file_types(self.kinds, OPTIONAL_FILES.keys() & self.files.keys()), sharded_files(self.kinds["task"])
        if self.files.keys() != types.keys():
            return f"its files are {quote(sorted(self.files))}"
        for name, entry in self.files.items():
            if entry["dtype"] != types[name] or ("crc32" in entry) == (name in sharded):
                return f"the file {name} is described by {quote(entry)}"
        for index, span in enumerate(self.shards):
            if span.crc32.keys() != sharded.keys() or not 0 < span.tasks <= span.votes:
                return f"shard {index} is {quote(span)}"
        for name, total in (("tasks", self.tasks), ("votes", self.votes)):
            if sum(getattr(span, name) for span in self.shards) != total:
                return f"its shards do not add up to {total} {name}"
        return self._length_fault()

    def _length_fault(self) -> str | None:
        """Return which file has a length that contradicts other files."""
        length, kinds, tasks = self.sizes, self.kinds, self.tasks
        rows, workers = length["row_label"], length["worker_ptr"] - 1
        wanted = {"row": self.votes, "task_ptr": tasks + 1, "task_hash": tasks, "row_votes": rows, "tasks": tasks}
        wanted |= {"row_weight": rows, "abstained": workers}
        if kinds["task"] == "string":
            wanted |= {"tasks": sum(span.text for span in self.shards), "tasks_offsets": tasks + 1}
        wanted |= {"workers_offsets": workers + 1} if kinds["worker"] == "string" else {"workers": workers}
        for name, count in wanted.items():
            if length.get(name, count) != count:
                return f"{name} has {length[name]} items, not {count}"
        empty = [name for name, count in length.items() if name.endswith(("_ptr", "_offsets")) and not count]
        if empty:
            return f"{empty[0]} has no items: it begins with a 0"
        return f"it has {rows} rows, more than a vote can index" if rows > 2**32 else None


def convert(body: dict[str, Any], kind: Any) -> tuple[Any, str | None]:
    """Return a JSON object with a valid checksum as this type, and its fault, if any: fields, types or bounds."""
    try:
        converted = msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        return None, str(error)
    same = msgspec.json.encode(converted, order="sorted") == msgspec.json.encode(body, order="sorted")
    return converted, None if same else "it has fields that nothing uses, or too few"


def file_types(kinds: Mapping[Any, Kind], optional: Iterable[str] = ()) -> dict[str, str]:
    """Return the item type of every file of a folder, given the kinds of its ids and its optional files."""
    types: dict[str, Any] = dict(sharded_files(kinds["task"]))
    for name, role in IDS.items():
        types[name] = DTYPE_OF_KIND[kinds[role]]
        if kinds[role] == "string":
            types[f"{name}_offsets"] = np.int64
    types |= {"worker_ptr": np.int64, "row_label": np.int32, "row_votes": np.int64}
    types |= {name: OPTIONAL_FILES[name] for name in optional}
    return {name: np.dtype(item).newbyteorder("<").str for name, item in types.items()}


def digest(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON document; the order of its keys does not matter."""
    return sha256(json.dumps(body, sort_keys=True, default=msgspec.to_builtins).encode()).hexdigest()


def write_sealed(path: Path, body: Mapping[str, Any], indent: int | None = None) -> None:
    """Write a JSON document with its digest, atomically."""
    aside = path.with_name(f"{path.name}.new")
    text = json.dumps({**body, "sha256": digest(body)}, indent=indent, default=msgspec.to_builtins)
    aside.write_text(text + ("\n" if indent else ""), encoding="utf-8")
    aside.replace(path)


def read_json(path: Path, folder: int | None = None) -> Any:
    """Return the content of a JSON file, by its name in the open directory `folder` if given."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=folder)  # do not wait for a pipe of this name

    with open(path if folder is None else path.name, encoding="utf-8", opener=opener) as file:
        return json.loads(file.read())


CONTENT_CRC_CHUNK_BYTES: Final = 1 << 20  # bytes checked at once
Files = Mapping[str, StoredArray]


def check_content(manifest: Manifest, files: Files, threads: int) -> None:
    """Raise if a byte differs from the encoded one, or a number is out of bounds; everything is read once."""
    checks = [partial(_check_leading, files), partial(_check_held, manifest, files), *_shard_checks(manifest, files)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda check: check(), checks):
            pass
    for file in files.values():
        file.keep()


class CheckedRange:
    """A range of the items of a file with a checksum of its own."""

    def __init__(self, file: StoredArray, start: int, stop: int, crc32: int, shard: int | None = None) -> None:
        self.file = file
        self.start = start
        self.stop = stop
        self.shard = shard
        self._crc32 = crc32
        self._found = 0
        self._fault: str | None = None

    def chunks(self) -> Iterator[NDArray[Any]]:
        """Yield the items in chunks; each chunk is valid until the next."""
        size = max(CONTENT_CRC_CHUNK_BYTES // self.file.dtype.itemsize, 1)
        room = None if self.file.is_held else np.empty(min(size, self.stop - self.start), self.file.dtype)
        for cut in pieces(self.stop, size, self.start):
            chunk = self.file.chunk(cut.start, cut.stop) if room is None else room[: cut.stop - cut.start]
            self.take(chunk, cut.start)
            yield chunk

    def take(self, out: NDArray[Any], at: int) -> None:
        """Read the next items to OUT, and add them to the checksum."""
        self.file.read_into(out, at)
        self.add(out)

    def add(self, items: NDArray[Any]) -> None:
        """Add items that were read to the checksum."""
        self._found = zlib.crc32(items.view(np.uint8).data if len(items) else b"", self._found)

    def wrong(self, what: str | None) -> None:
        """Record the first fault, if this is one; a wrong checksum is reported before it."""
        self._fault = self._fault or what

    @property
    def is_wrong(self) -> bool:
        """Whether a fault was recorded."""
        return self._fault is not None

    def finish(self) -> None:
        """Raise if the checksum does not match, or a fault was recorded."""
        where = f" in shard {self.shard}" if self.shard is not None else ""
        if self._found != self._crc32:
            raise InputError(f"{self.file.path} is damaged{where} (its checksum does not match): encode the votes again")
        if self._fault is not None:
            raise InputError(f"{self.file.path} is not valid{where}: {self._fault}; encode the votes again")


def _whole_range(manifest: Manifest, files: Files, name: str) -> CheckedRange:
    return CheckedRange(files[name], 0, manifest.sizes[name], manifest.files[name]["crc32"])


def _check_leading(files: Files) -> None:
    """Check what no checksum covers: every header, and the first position before the shards."""
    for file in files.values():
        file.check_header()
    for name in files.keys() & {"task_ptr", "tasks_offsets"}:
        first = files[name].chunk(0, 1)
        files[name].read_into(first, 0)
        if first[0]:
            raise InputError(f"{files[name].path} is damaged: it begins with {first[0]}, not 0; encode the votes again")


def _check_held(manifest: Manifest, files: Files) -> None:
    """Check the files that are held in memory; that workers' rows and all ids are valid, `Votes` and `Vocabulary` check."""
    for name, entry in manifest.files.items():
        if "crc32" in entry and not name.startswith("unvoted"):
            array, items = files[name].all(), _whole_range(manifest, files, name)
            items.add(array)
            items.finish()  # its checksum, before its numbers
            if name == "row_votes":
                require_below(str(files[name].path), array, manifest.votes + 1)
                counts = array.sum(dtype=np.float64) == manifest.votes  # exact below 2^53, and without overflow
                items.wrong(None if counts else f"it does not count {manifest.votes} votes")
            elif name in IDS:
                items.wrong(_boolean_fault(manifest.kinds["worker" if name == "workers" else "label"], array))
            items.finish()


def _boolean_fault(kind: str, values: NDArray[Any]) -> str | None:
    wrong = kind == "boolean" and len(values) and values.view(np.uint8).max() > 1
    return "a boolean is neither 0 nor 1" if wrong else None


def _text_fault(text: NDArray[np.uint8], begins: NDArray[np.int64]) -> str | None:
    """Return the fault in the texts of some ids, `begins` has the first bytes of all but the first; None without fault."""
    if not len(text) or text.max() < 128:  # ASCII
        return None
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError as error:
        return f"an id is not UTF-8 ({error.reason})"
    return "an id begins within a character" if ((text[begins[begins < len(text)]] & 0xC0) == 0x80).any() else None


def _shard_checks(manifest: Manifest, files: Files) -> Iterator[partial[None]]:
    """Yield the checks of every shard's tasks, their ids and votes, and of the ids of tasks without votes."""
    rows, kind, task, vote, text = manifest.sizes["row_label"], manifest.kinds["task"], 0, 0, 0
    for shard, span in enumerate(manifest.shards):
        tasks, votes, texts = task + span.tasks, vote + span.votes, text + span.text
        part = partial(_range_of, files, span, shard)
        yield partial(_check_rising, part("task_ptr", task + 1, tasks + 1), vote, "the positions of its tasks do not rise", votes)
        yield partial(_check_rows, part("row", vote, votes), rows)
        before = int(files["task_hash"][task - 1 : task][0]) if task else 0
        yield partial(_check_rising, part("task_hash", task, tasks), before, "the hashes of its tasks are not ascending")
        if kind == "string":
            yield partial(_check_texts, part("tasks_offsets", task + 1, tasks + 1), part("tasks", text, texts))
        else:
            yield partial(_check_values, kind, part("tasks", task, tasks))
        task, vote, text = tasks, votes, texts
    unvoted = _whole_range(manifest, files, "unvoted")
    if kind == "string":
        yield partial(_check_texts, _whole_range(manifest, files, "unvoted_offsets"), unvoted, leading=True)
    else:
        yield partial(_check_values, kind, unvoted)


def _range_of(files: Files, span: Span, shard: int, name: str, start: int, stop: int) -> CheckedRange:
    return CheckedRange(files[name], start, stop, span.crc32[name], shard)


def _check_rising(items: CheckedRange, last: int, fault: str, end: int | None = None) -> None:
    """Check that numbers never fall; with an `end`, that they always rise, and end with it."""
    for chunk in items.chunks():
        rises = chunk[1:] >= chunk[:-1] if end is None else chunk[1:] > chunk[:-1]
        items.wrong(None if int(chunk[0]) >= last + (end is not None) and rises.all() else fault)
        last = int(chunk[-1])
    items.wrong(None if end in (None, last) else f"it ends with {last}, not {end}")
    items.finish()


def _check_rows(items: CheckedRange, rows: int) -> None:
    for chunk in items.chunks():
        highest = int(chunk.max())
        items.wrong(None if highest < rows else f"it holds {highest}, but there are only {rows} rows")
    items.finish()


def _check_values(kind: str, items: CheckedRange) -> None:
    for chunk in items.chunks():
        items.wrong(_boolean_fault(kind, chunk))
    items.finish()


def _check_texts(offsets: CheckedRange, values: CheckedRange, *, leading: bool = False) -> None:
    """Check the texts of some ids and their positions; with `leading` the first position is 0."""
    at = values.start
    for number, chunk in enumerate(offsets.chunks()):
        rises = bool(chunk[0] >= at and (chunk[1:] >= chunk[:-1]).all()) and int(chunk[-1]) <= values.stop
        if leading and not number and chunk[0] != 0:
            offsets.wrong(f"it begins with {chunk[0]}, not 0")
        elif not rises:
            offsets.wrong("the positions of its ids fall, or point beyond their texts")
        if offsets.is_wrong:
            continue
        text = values.file.chunk(at, int(chunk[-1]))
        values.take(text, at)
        values.wrong(_text_fault(text, chunk[:-1] - at))
        at += len(text)
    if at != values.stop:
        offsets.wrong(f"it ends with {at}, not {values.stop}")
    offsets.finish()
    values.finish()
