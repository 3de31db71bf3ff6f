"""Snapshots: checksummed, bound to the log they were made from, never needed.

A snapshot is a header and the state. The header says which log, up to which position, and the checksum of the log there. So a
snapshot from before a backup was restored is not mistaken for one of the log that continued differently.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.errors import warn
from adjudge.service.store.errors import DamagedSnapshot, StoreError, StoreUnavailable
from adjudge.service.store.rows import CHECKSUM_BYTES

if TYPE_CHECKING:
    from adjudge.service.store.protocol import Store

SNAPSHOTS_PER_CAMPAIGN: Final = 2  # of each campaign
SNAPSHOT_MAGIC: Final = b"adjudge snapshot 1\n"


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


class Unusable(Exception):  # noqa: N818 (what is so, not a kind of error)
    """Why a snapshot is passed over: it is damaged, or it is of another log."""

    def __init__(self, why: str, *, is_damaged: bool = True) -> None:
        super().__init__(why)
        self.is_damaged = is_damaged


def check_header(store: Store, campaign: int, position: int, header: bytes) -> bool:
    """Return whether a snapshot is of use: not if a base has taken its place. Raise `Unusable` if it is not of this log.

    - `store`, `campaign`: whose log it must be of.
    - `position`: that its name gives.
    - `header`: of the snapshot.
    """
    try:
        found = msgspec.json.decode(header, type=Header)
    except msgspec.DecodeError as error:
        raise Unusable(f"its header cannot be read: {error}") from error
    if found.position != position or found.campaign != campaign:
        raise Unusable(f"it is kept as that of campaign {campaign} at position {position}, and is another")
    if position < store.begins(campaign) - 1:
        return False
    mark = store.mark(campaign, position)
    if mark is None or mark.hex() != found.mark:
        raise Unusable(f"it is of another log (at position {position})", is_damaged=False)
    return True


def damaged(why: str, campaign: int) -> None:
    """Warn that a snapshot is passed over.

    - `why`: in words.
    - `campaign`: its number.
    """
    warn(f"a snapshot of campaign {campaign} is not used: {why}", DamagedSnapshot)


class SnapshotReader(ABC):
    """What snapshots of a campaign have in common, wherever they are."""

    _campaign: int

    @abstractmethod
    def positions(self) -> list[int]:
        """Return the positions of all snapshots, the newest first."""

    @abstractmethod
    def read(self, position: int) -> bytes | None:
        """Return the state at a position, None if it is of no use any more; raise `Unusable` if it cannot be used."""

    def latest(self, *, until: int | None = None) -> tuple[int, bytes] | None:
        """Return the newest snapshot that is whole: its position and the state."""
        for position in self.positions():
            if until is None or position <= until:
                try:
                    data = self.read(position)
                except Unusable as error:
                    damaged(f"the one at position {position}: {error}", self._campaign)
                else:
                    if data is not None:
                        return position, data
        return None

    def check(self) -> tuple[int, list[str]]:
        """Read all snapshots; return how many are usable, and what is wrong with those that are damaged."""
        usable, problems = 0, []
        for position in self.positions():
            try:
                usable += self.read(position) is not None
            except Unusable as error:
                if error.is_damaged:
                    problems.append(f"the snapshot of campaign {self._campaign} at position {position} is damaged: {error}")
        return usable, problems


class FileSnapshots(SnapshotReader):
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
                for chunk in (SNAPSHOT_MAGIC, header, *chunks):
                    whole.update(chunk)
                    file.write(chunk)
                file.write(whole.digest())
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            sync_folder(self._folder)
            for _, old in self._files()[SNAPSHOTS_PER_CAMPAIGN:]:
                old.unlink(missing_ok=True)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StoreUnavailable(f"a snapshot cannot be written to {self._folder}: {error.strerror}") from error

    def positions(self) -> list[int]:
        """Return the positions of all snapshots, the newest first."""
        return [position for position, _ in self._files()]

    def forget(self, before: int) -> None:
        """Remove the snapshots of earlier positions."""
        for position, path in self._files():
            if position < before:
                path.unlink(missing_ok=True)

    def read(self, position: int) -> bytes | None:
        """Return the state at a position, None if it is of no use any more; raise `Unusable` if it cannot be used."""
        path = self._folder / f"{self._campaign}-{position}.snapshot"
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # a newer one has taken its place meanwhile
            return None
        except OSError as error:
            raise Unusable(f"{path}: {error.strerror}") from error
        start = data.find(b"\n", len(SNAPSHOT_MAGIC)) + 1
        whole = memoryview(data)[:-CHECKSUM_BYTES]
        if (
            not data.startswith(SNAPSHOT_MAGIC)
            or not start
            or blake2b(whole, digest_size=CHECKSUM_BYTES).digest() != data[len(whole) :]
        ):
            raise Unusable(f"{path} is damaged")
        is_of_use = check_header(self._store, self._campaign, position, data[len(SNAPSHOT_MAGIC) : start])
        return bytes(whole[start:]) if is_of_use else None


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
