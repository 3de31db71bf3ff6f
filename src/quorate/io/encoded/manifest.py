"""The manifest of a folder of encoded votes: what lies in it, and the checksums that tell whether it still does."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from quorate.errors import InputError, QuorateError, shown
from quorate.io.encoded.arrays import HEADER
from quorate.io.encoded.writer import Span, sharded_files
from quorate.vocabulary import Kind

NAME: Final = "manifest.json"
FORMAT: Final = "quorate votes"
VERSION: Final = 1
READ: Final = 1 << 22  # bytes checked at a time


@dataclass(frozen=True)
class Manifest:
    """Sizes, kinds of ids, and a checksum for every part of every file."""

    votes: int
    tasks: int
    kinds: Mapping[str, Kind]  # task, worker, label
    rows_read: int  # of the input
    abstentions: int  # those without label
    duplicates: str
    files: Mapping[str, Mapping[str, Any]]  # name -> dtype, length, and the crc32 of those that are not cut into shards
    shards: tuple[Span, ...]

    @property
    def identity(self) -> str:
        """The checksum of the manifest, and so of everything."""
        return _digest({"format": FORMAT, "version": VERSION, **asdict(self)})

    def write(self, folder: Path) -> None:
        """Writes the manifest, last of all files."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        aside = folder / f"{NAME}.new"
        aside.write_text(json.dumps(body | {"sha256": _digest(body)}, indent=1) + "\n", encoding="utf-8")
        aside.replace(folder / NAME)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Returns the manifest of a folder; what is no such folder, damaged or too new is an error."""
        path = folder / NAME
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{folder} holds no encoded votes ({NAME}: {error.strerror}): make them with encode") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged ({error}): encode the votes again") from error
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            raise InputError(f"{folder} holds no encoded votes: its {NAME} is of something else")
        if not isinstance(body.get("version"), int) or body["version"] > VERSION:
            found = shown(body.get("version"))
            raise QuorateError(f"{folder} was encoded by a newer quorate (format {found}, this one reads {VERSION}): upgrade")
        if body.pop("sha256", None) != _digest(body):
            raise InputError(f"{path} is damaged (its checksum does not match): encode the votes again")
        del body["format"], body["version"]
        return cls(**body | {"shards": tuple(Span(**span) for span in body["shards"])})

    def check_sizes(self, folder: Path) -> None:
        """Raises when a file is not as long as it should be."""
        for name, entry in self.files.items():
            path, size = folder / f"{name}.npy", HEADER + entry["length"] * np.dtype(entry["dtype"]).itemsize
            try:
                have = path.stat().st_size
            except OSError as error:
                raise InputError(f"cannot read {path}: {error.strerror}; encode the votes again") from error
            if have != size:
                raise InputError(f"{path} is damaged: it has {have} bytes, not {size}; encode the votes again")

    def check_content(self, folder: Path, threads: int) -> None:
        """Raises when a checksum does not match; everything is read once."""
        sections = list(self._sections())
        with ThreadPoolExecutor(threads) as pool:
            for (name, place, *_), fine in zip(sections, pool.map(lambda s: _matches(folder, *s), sections), strict=True):
                if not fine:
                    where = f" in shard {place}" if place is not None else ""
                    raise InputError(
                        f"{folder / name}.npy is damaged{where} (its checksum does not match): encode the votes again"
                    )

    def _sections(self) -> Any:
        """Yields (name of the file, number of the shard, first byte, bytes, CRC-32) of every part that has a checksum."""
        sharded = sharded_files(self.kinds["task"])
        for name, entry in self.files.items():
            item = np.dtype(entry["dtype"]).itemsize
            if name not in sharded:
                yield name, None, HEADER, entry["length"] * item, entry["crc32"]
                continue
            at = HEADER + (item if name in ("task_ptr", "tasks_offsets") else 0)  # behind the leading 0
            for place, span in enumerate(self.shards):
                items = {"row": span.votes, "tasks": span.text if self.kinds["task"] == "string" else span.tasks}
                size = item * items.get(name, span.tasks)
                yield name, place, at, size, span.crc32[name]
                at += size


def is_encoded(path: Path) -> bool:
    """Returns whether this is (or claims to be) a folder of encoded votes."""
    return path.is_dir() and (path / NAME).is_file()


def _matches(folder: Path, name: str, _: int | None, first: int, size: int, crc32: int) -> bool:
    found = 0
    with (folder / f"{name}.npy").open("rb", buffering=0) as file:
        file.seek(first)
        while size > 0 and (data := file.read(min(size, READ))):
            found = zlib.crc32(data, found)
            size -= len(data)
    return size == 0 and found == crc32


def _digest(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
