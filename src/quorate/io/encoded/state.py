"""How far an encoding has come, noted so that another process can go on from there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from quorate.errors import InputError, OptionError, QuorateError, shown
from quorate.io.encoded.manifest import digest, is_count, read_json, spans_fault
from quorate.io.encoded.writer import VALUES
from quorate.vocabulary import Kind

STATE: Final = "state.json"
SOURCE: Final = "source.json"
VERSION: Final = 2
MAX_BITS: Final = 10  # of partitions


@dataclass
class State:
    """What is done: first batches of input, then partitions."""

    bits: int  # 2^bits partitions
    shard_votes: int
    file: int = 0  # the file being read
    taken: int = 0  # rows of it that were taken
    rows: int = 0  # rows taken of all files
    missing: int = 0  # those without label
    kind: Kind | None = None  # of the tasks' ids
    whole: bool = True  # whether all tasks' ids, read as text, are whole numbers
    votes: list[int] = field(default_factory=list)  # [partitions] see Spill
    sizes: list[int] = field(default_factory=list)  # [partitions]
    sums: list[int] = field(default_factory=list)  # [partitions] CRC-32 of so many bytes
    logs: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes of the files of ids, and their CRC-32
    read: bool = False  # whether everything was read
    done: int = 0  # partitions that are in the shards
    shards: dict[str, Any] | None = None  # see ShardWriter
    unvoted: dict[str, Any] | None = None  # see VocabularyWriter

    def save(self, folder: Path) -> None:
        """Notes the state; a reader finds the old one or the new one, never half of one."""
        aside, body = folder / f"{STATE}.new", {"version": VERSION, **asdict(self)}
        aside.write_text(json.dumps(body | {"sha256": digest(body)}), encoding="utf-8")
        aside.replace(folder / STATE)

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Returns the state of an unfinished encoding; None where there is none."""
        path = folder / STATE
        try:
            found = read_json(path)
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is damaged: begin anew without resume") from error
        if not isinstance(found, dict) or found.get("version") != VERSION:
            raise InputError(f"{folder} was begun by another version of quorate: begin anew without resume")
        if found.pop("sha256", None) != digest(found):
            raise InputError(f"{path} is damaged (its checksum does not match): begin anew without resume")
        del found["version"]
        fault = _fault(found)
        if fault is not None:
            raise InputError(f"{path} is not valid: {fault}; begin anew without resume")
        return cls(**found)


def _fault(body: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a state whose checksum is right; None where nothing is."""
    if body.keys() != State.__dataclass_fields__.keys():
        return f"it has the fields {shown(sorted(body))}"
    counts = [body[name] for name in ("file", "taken", "rows", "missing", "done")]
    fine = is_count(body["bits"], MAX_BITS + 1) and is_count(body["shard_votes"]) and body["shard_votes"] > 0
    if not fine or not all(is_count(count) for count in counts) or not all(type(body[n]) is bool for n in ("whole", "read")):
        return "a number in it is not one"
    if body["kind"] is not None and body["kind"] not in list(VALUES):
        return f"kind is {shown(body['kind'])}"
    partitions = 1 << body["bits"]
    for name, bound in (("votes", 2**62), ("sizes", 2**62), ("sums", 2**32)):
        listed = body[name]
        if not isinstance(listed, list) or len(listed) not in (0, partitions) or not all(is_count(one, bound) for one in listed):
            return f"{name} is {shown(listed)}"
    if not len(body["votes"]) == len(body["sizes"]) == len(body["sums"]):
        return "votes, sizes and sums are not of the same partitions"
    return _files_fault(body)


def _files_fault(body: Mapping[str, Any]) -> str | None:
    logs = body["logs"]
    if not isinstance(logs, dict) or not logs.keys() <= {"workers", "labels", "rows"} or not all(map(_is_log, logs.values())):
        return f"logs is {shown(logs)}"
    for name, inner in (("shards", "shards"), ("unvoted", "crc32")):
        written = body[name]
        if written is None:
            continue
        if not isinstance(written, dict) or written.keys() != {inner, "lengths"} or not _are_counts(written["lengths"]):
            return f"{name} is {shown(written)}"
        if name == "unvoted" and not _are_counts(written["crc32"], 2**32):
            return f"{name} is {shown(written)}"
        fault = spans_fault(written["shards"], None) if name == "shards" else None
        if fault is not None:
            return fault
    return None


def _is_log(entry: object) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and is_count(entry[0]) and is_count(entry[1], 2**32)


def _are_counts(found: object, bound: int = 2**62) -> bool:
    return isinstance(found, dict) and all(is_count(one, bound) for one in found.values())


def fingerprint(paths: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what tells whether files and options are still the same."""
    stamps = []
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        stamps.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
    return {"files": stamps, **options}


def note_source(folder: Path, source: Mapping[str, Any]) -> None:
    """Notes what is encoded here."""
    (folder / SOURCE).write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")


def is_of_source(folder: Path, source: Mapping[str, Any]) -> bool:
    """Returns whether a folder, finished or not, is of these very files and options."""
    try:
        return bool(read_json(folder / SOURCE) == json.loads(json.dumps(source)))
    except (OSError, ValueError, RecursionError):
        return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes a folder, and keeps it to this process; one that something else works in is an error."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise QuorateError(f"cannot write {folder}: {error.strerror}") from error
    handle = lock(folder)
    try:
        yield
    finally:
        os.close(handle)


def lock(folder: Path) -> int:
    """Returns a handle that keeps a folder to this process until it is closed, or the process ends."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise OptionError(f"something else is at work in {folder}: wait for it, or choose another place") from error
    return handle


def emptied(folder: Path) -> None:
    """Removes everything in a folder, but not the folder."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
