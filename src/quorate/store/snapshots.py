"""Snapshots: checksummed, bound to the log they were made from, never needed.

A snapshot is a header and the state. The header says which log, up to which position, and the checksum of the log there. So a
snapshot from before a backup was restored is not mistaken for one of the log that continued differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from quorate.errors import warn
from quorate.store.errors import DamagedSnapshot, StoreError, StoreUnavailable
from quorate.store.pages import CHECKSUM_BYTES

if TYPE_CHECKING:
    from quorate.store.protocol import Store

KEPT: Final = 2  # of each campaign
MAGIC: Final = b"quorate snapshot 1\n"


class Header(msgspec.Struct, frozen=True):
    """What a snapshot is of."""

    campaign: int
    position: int
    mark: str  # the checksum of the log up to the position


def header_of(store: Store, campaign: int, position: int) -> bytes:
    """Return the header of a snapshot; raise where the log does not reach so far.

    - `store`, `campaign`, `position`: of what it is.
    """
    mark = store.mark(campaign, position)
    if mark is None:
        last = store.last(campaign)
        raise StoreError(f"a snapshot of campaign {campaign} at position {position} is too early: the log ends at {last}")
    return msgspec.json.encode(Header(campaign, position, mark.hex())) + b"\n"


def usable(store: Store, campaign: int, header: bytes) -> int | None:
    """Return the position of a snapshot if it is of this log; else None, and a warning says why.

    - `store`, `campaign`: whose log it must be of.
    - `header`: of the snapshot.
    """
    try:
        found = msgspec.json.decode(header, type=Header)
    except msgspec.DecodeError as error:
        damaged(f"its header cannot be read: {error}", campaign)
        return None
    if found.position < store.begins(campaign) - 1:
        return None  # from before votes have expired: a base takes its place
    mark = store.mark(campaign, found.position)
    if found.campaign != campaign or mark is None or mark.hex() != found.mark:
        damaged(f"it is of another log (at position {found.position})", campaign)
        return None
    return found.position


def damaged(why: str, campaign: int) -> None:
    """Warn that a snapshot is passed over.

    - `why`: in words.
    - `campaign`: its number.
    """
    warn(f"a snapshot of campaign {campaign} is not used: {why}", DamagedSnapshot)


class FileSnapshots:
    """Snapshots of a campaign, as files in a folder.

    - `store`: whose log they are bound to.
    - `folder`: where they are; it is made when the first is saved.
    - `campaign`: its number.
    """

    def __init__(self, store: Store, folder: Path, campaign: int) -> None:
        self._store = store
        self._folder = folder
        self._campaign = campaign

    def _files(self) -> list[tuple[int, Path]]:
        """Return the files of this campaign, the newest first."""
        name = re.compile(rf"{self._campaign}-(\d+)\.snapshot")
        try:
            found = [(int(match[1]), path) for path in self._folder.iterdir() if (match := name.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            damaged(f"{self._folder}: {error.strerror}", self._campaign)
            return []
        return sorted(found, reverse=True)

    def save(self, position: int, chunks: Iterable[bytes]) -> None:
        """Keep the state at a position: written aside, synced, renamed."""
        header = header_of(self._store, self._campaign, position)
        path = self._folder / f"{self._campaign}-{position}.snapshot"
        aside = path.with_suffix(".part")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with aside.open("wb") as file:
                whole = blake2b(digest_size=CHECKSUM_BYTES)
                for chunk in (MAGIC, header, *chunks):
                    whole.update(chunk)
                    file.write(chunk)
                file.write(whole.digest())
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            sync_folder(self._folder)
            for _, old in self._files()[KEPT:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StoreUnavailable(f"a snapshot cannot be written to {self._folder}: {error.strerror}") from error

    def latest(self, *, until: int | None = None) -> tuple[int, bytes] | None:
        """Return the newest snapshot that is whole: its position and the state."""
        for named, path in self._files():
            if until is None or named <= until:
                found = self._read(path)
                if found is not None:
                    return found
        return None

    def forget(self, before: int) -> None:
        """Remove the snapshots of earlier positions."""
        for position, path in self._files():
            if position < before:
                path.unlink(missing_ok=True)

    def _read(self, path: Path) -> tuple[int, bytes] | None:
        try:
            data = path.read_bytes()
        except OSError as error:
            damaged(f"{path}: {error.strerror}", self._campaign)
            return None
        start = data.find(b"\n", len(MAGIC)) + 1
        whole = memoryview(data)[:-CHECKSUM_BYTES]
        if not data.startswith(MAGIC) or not start or blake2b(whole, digest_size=CHECKSUM_BYTES).digest() != data[len(whole) :]:
            damaged(f"{path} is damaged", self._campaign)
            return None
        position = usable(self._store, self._campaign, data[len(MAGIC) : start])
        return None if position is None else (position, bytes(whole[start:]))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can.

    - `folder`: whose names were changed.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
