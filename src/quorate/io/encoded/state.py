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

from quorate.errors import InputError, OptionError, QuorateError
from quorate.vocabulary import Kind

STATE: Final = "state.json"
SOURCE: Final = "source.json"
VERSION: Final = 1


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
    logs: dict[str, int] = field(default_factory=dict)  # bytes of the files of ids
    read: bool = False  # whether everything was read
    done: int = 0  # partitions that are in the shards
    shards: dict[str, Any] | None = None  # see ShardWriter
    unvoted: dict[str, Any] | None = None  # see VocabularyWriter

    def save(self, folder: Path) -> None:
        """Notes the state; a reader finds the old one or the new one, never half of one."""
        aside = folder / f"{STATE}.new"
        aside.write_text(json.dumps({"version": VERSION, **asdict(self)}), encoding="utf-8")
        aside.replace(folder / STATE)

    @classmethod
    def load(cls, folder: Path) -> State | None:
        """Returns the state of an unfinished encoding; None where there is none."""
        try:
            found = json.loads((folder / STATE).read_text(encoding="utf-8"))
        except OSError:
            return None
        except ValueError as error:
            raise InputError(f"{folder / STATE} is damaged: begin anew without resume") from error
        if found.pop("version", None) != VERSION:
            raise InputError(f"{folder} was begun by another version of quorate: begin anew without resume")
        return cls(**found)


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
        return bool(json.loads((folder / SOURCE).read_text(encoding="utf-8")) == json.loads(json.dumps(source)))
    except (OSError, ValueError):
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
