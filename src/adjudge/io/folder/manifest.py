"""The manifest of a folder of encoded votes: its sizes and checksums."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from adjudge.data.vocabulary import Kind
from adjudge.errors import InputError, AdjudgeError, listed, shown
from adjudge.io.files import MANIFEST
from adjudge.io.folder.writer import VALUES, Span, sharded_files

FORMAT: Final = "adjudge votes"
VERSION: Final = 2  # of folders with files that 0.1.0 does not know; that of others is 1, so that it reads them
NEWER: Final[Mapping[str, Any]] = {"row_weight": np.float64, "abstained": np.int64}  # these: weights, abstentions by worker
LARGEST: Final = 2**62  # bound of the numbers of votes, tasks and bytes
ROLES: Final = ("task", "worker", "label")


@dataclass(frozen=True)
class Manifest:
    """Sizes, kinds of ids, and a checksum for every part of every file."""

    votes: int
    tasks: int
    kinds: Mapping[str, Kind]  # task, worker, label
    rows_read: int  # of the input
    abstentions: int  # those without label
    duplicates: str
    files: Mapping[str, Mapping[str, Any]]  # name -> dtype, length, and the crc32 of files without shards
    shards: tuple[Span, ...]

    @property
    def identity(self) -> str:
        """The checksum of the manifest, and so of all files."""
        return digest(self._body())

    @property
    def is_weighted(self) -> bool:
        """Whether votes have weights."""
        return "row_weight" in self.files

    def write(self, folder: Path) -> None:
        """Write the manifest, after all other files."""
        write_sealed(folder / MANIFEST, self._body(), indent=1)

    def _body(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION if NEWER.keys() & self.files.keys() else 1, **asdict(self)}

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
                f"{folder} was encoded by a newer adjudge (format {shown(version)}, this one reads {VERSION}): upgrade"
            )
        if body.pop("sha256", None) != digest(body):
            raise InputError(f"{path} is damaged (its checksum does not match): encode the votes again")
        wrong = _fault(body)
        if wrong is not None:
            raise InputError(f"{path} is not valid: {wrong}; encode the votes again")
        del body["format"], body["version"]
        return cls(**body | {"shards": tuple(Span(**span) for span in body["shards"])})

    @property
    def sizes(self) -> dict[str, int]:
        """The number of items of every file."""
        return {name: entry["length"] for name, entry in self.files.items()}


def file_types(kinds: Mapping[str, Kind], newer: Iterable[str] = ()) -> dict[str, str]:
    """Return the type of the items of every file of a folder with ids of these kinds, and with these of the newer files."""
    types: dict[str, Any] = dict(sharded_files(kinds["task"]))
    for name, role in {"unvoted": "task", "workers": "worker", "labels": "label"}.items():
        types[name] = VALUES[kinds[role]]
        if kinds[role] == "string":
            types[f"{name}_offsets"] = np.int64
    types |= {"worker_ptr": np.int64, "row_label": np.int32, "row_votes": np.int64}
    types |= {name: NEWER[name] for name in newer}
    return {name: np.dtype(item).newbyteorder("<").str for name, item in types.items()}


def digest(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a JSON document; the order of its keys does not matter."""
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, body: Mapping[str, Any], indent: int | None = None) -> None:
    """Write a JSON document with its digest, atomically."""
    aside = path.with_name(f"{path.name}.new")
    aside.write_text(json.dumps({**body, "sha256": digest(body)}, indent=indent) + ("\n" if indent else ""), encoding="utf-8")
    aside.replace(path)


def read_json(path: Path, folder: int | None = None) -> Any:
    """Return the content of a JSON file, by its name in the open directory `folder` if given."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=folder)  # do not wait for a pipe of this name

    with open(path if folder is None else path.name, encoding="utf-8", opener=opener) as file:
        return json.loads(file.read())


def is_count(value: object, bound: int = LARGEST) -> bool:
    """Return whether a value of a JSON document is a whole number from 0 to below a bound."""
    return type(value) is int and 0 <= value < bound


def _fault(body: Mapping[str, Any]) -> str | None:
    """Return the fault in a manifest whose checksum is right; None without fault."""
    fields = ["format", "version", *Manifest.__dataclass_fields__]
    if sorted(body) != sorted(fields):
        return f"it has the fields {listed(sorted(map(shown, body)))}"
    for name in ("votes", "tasks", "rows_read", "abstentions"):
        if not is_count(body[name]):
            return f"{name} is {shown(body[name])}"
    if body["duplicates"] not in ("all", "last", "first"):
        return f"duplicates is {shown(body['duplicates'])}"
    kinds = body["kinds"]
    if not isinstance(kinds, dict) or sorted(kinds) != sorted(ROLES) or not all(_is_kind(kind) for kind in kinds.values()):
        return f"kinds is {shown(kinds)}"
    return _files_fault(body) or _shards_fault(body) or _lengths_fault(body)


def _is_kind(kind: object) -> bool:
    return isinstance(kind, str) and kind in VALUES


def _files_fault(body: Mapping[str, Any]) -> str | None:
    files = body["files"]
    newer = [] if body["version"] == 1 or not isinstance(files, dict) else [name for name in NEWER if name in files]
    types = file_types(body["kinds"], newer)
    if not isinstance(files, dict) or sorted(files) != sorted(types):
        return f"its files are {shown(sorted(files) if isinstance(files, dict) else files)}"
    for name, entry in files.items():
        wanted = {"dtype", "length"} | (set() if name in sharded_files(body["kinds"]["task"]) else {"crc32"})
        fine = isinstance(entry, dict) and entry.keys() == wanted and entry["dtype"] == types[name]
        if not fine or not is_count(entry["length"]) or not is_count(entry.get("crc32", 0), 2**32):
            return f"the file {name} is described by {shown(entry)}"
    return None


def _shards_fault(body: Mapping[str, Any]) -> str | None:
    fault = spans_fault(body["shards"], set(sharded_files(body["kinds"]["task"])))
    if fault is not None:
        return fault
    for name in ("tasks", "votes"):
        if sum(span[name] for span in body["shards"]) != body[name]:
            return f"its shards do not add up to {body[name]} {name}"
    return None


def spans_fault(shards: object, names: set[str] | None) -> str | None:
    """Return the fault in a list of shards that have checksums of these names; None without fault."""
    if not isinstance(shards, list):
        return f"shards is {shown(shards)}"
    for index, span in enumerate(shards):
        if not isinstance(span, dict) or span.keys() != Span.__dataclass_fields__.keys():
            return f"shard {index} is {shown(span)}"
        counts, sums = [span[name] for name in ("tasks", "votes", "text")], span["crc32"]
        fine = all(is_count(count) for count in counts) and isinstance(sums, dict) and (names is None or sums.keys() == names)
        if not fine or not all(is_count(one, 2**32) for one in sums.values()) or not 0 < span["tasks"] <= span["votes"]:
            return f"shard {index} is {shown(span)}"
    return None


def _lengths_fault(body: Mapping[str, Any]) -> str | None:
    """Return which file has a length that contradicts other files."""
    length, kinds = {name: entry["length"] for name, entry in body["files"].items()}, body["kinds"]
    rows, tasks = length["row_label"], body["tasks"]
    wanted = {"row": body["votes"], "task_ptr": tasks + 1, "task_hash": tasks, "row_votes": rows}
    wanted |= {"row_weight": rows} if "row_weight" in length else {}
    wanted["tasks"] = sum(span["text"] for span in body["shards"]) if kinds["task"] == "string" else tasks
    if kinds["task"] == "string":
        wanted["tasks_offsets"] = tasks + 1
    wanted["workers_offsets" if kinds["worker"] == "string" else "workers"] = length["worker_ptr"] - (kinds["worker"] != "string")
    if "abstained" in length:
        wanted["abstained"] = length["worker_ptr"] - 1
    for name, count in wanted.items():
        if length[name] != count:
            return f"{name} has {length[name]} items, not {count}"
    empty = [name for name, count in length.items() if name.endswith(("_ptr", "_offsets")) and not count]
    if empty:
        return f"{empty[0]} has no items: it begins with a 0"
    return f"it has {rows} rows, more than a vote can index" if rows > 2**32 else None
