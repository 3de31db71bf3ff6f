"""Snapshots: copies of a campaign's state, so that a restart is quick. They are derived from the log, and never required.

A snapshot is a header and the state. The header names the campaign, the position, and the checksum of the log up to there. So
a snapshot from before a backup was restored is not mistaken for one of the log that then continued differently.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.errors import warn
from adjudge.service.store.errors import DamagedSnapshot, StoreError, StoreUnavailable
from adjudge.service.store.log import checksum
from adjudge.service.store.rows import CHECKSUM_BYTES

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

SNAPSHOTS_PER_CAMPAIGN: Final = 2
SNAPSHOT_MAGIC: Final = b"adjudge snapshot 1\n"


class Header(msgspec.Struct, frozen=True):
    """The header of a snapshot."""

    campaign: int
    position: int
    mark: str  # the checksum of the log up to the position


class Unusable(Exception):  # noqa: N818 (a condition, not a kind of error)
    """The reason why a snapshot is skipped: it is damaged, or it is of another log."""

    def __init__(self, reason: str, *, is_damaged: bool = True) -> None:
        super().__init__(reason)
        self.is_damaged = is_damaged


class Snapshots(ABC):
    """The snapshots of one campaign. Any thread may use them."""

    def __init__(self, store: Store, campaign: int) -> None:
        self._store, self._campaign = store, campaign

    @abstractmethod
    def positions(self) -> list[int]:
        """Return the positions of all snapshots, newest first."""

    @abstractmethod
    def read(self, position: int) -> bytes | None:
        """Return the state at a position, None if it is no longer needed; raise `Unusable` if it cannot be used."""

    @abstractmethod
    def save(self, position: int, state: bytes) -> None:
        """Save the state at a position, up to which the log must be stored; only the newest snapshots are kept."""

    @abstractmethod
    def forget(self, before: int) -> None:
        """Remove the snapshots of positions before this one."""

    def latest(self, *, until: int | None = None) -> tuple[int, bytes] | None:
        """Return position and state of the newest usable snapshot, at or before a position; None if there is none."""
        for position in self.positions():
            if until is None or position <= until:
                try:
                    state = self.read(position)
                except Unusable as error:
                    self._warn(f"the one at position {position}: {error}")
                else:
                    if state is not None:
                        return position, state
        return None

    def check(self) -> tuple[int, list[str]]:
        """Read all snapshots; return the number of usable ones, and a message for each damaged one."""
        usable, problems = 0, []
        for position in self.positions():
            try:
                usable += self.read(position) is not None
            except Unusable as error:
                if error.is_damaged:
                    problems.append(f"the snapshot of campaign {self._campaign} at position {position} is damaged: {error}")
        return usable, problems

    def _warn(self, reason: str) -> None:
        warn(f"a snapshot of campaign {self._campaign} is not used: {reason}", DamagedSnapshot)

    def _header(self, position: int) -> bytes:
        """Return the header of a snapshot; raise if the log does not reach its position."""
        mark = self._store.mark(self._campaign, position)
        if mark is None:
            what = f"a snapshot of campaign {self._campaign} at position {position}"
            raise StoreError(f"{what} is too early: the log ends at {self._store.last(self._campaign)}")
        return msgspec.json.encode(Header(self._campaign, position, mark.hex())) + b"\n"

    def _is_current(self, position: int, data: bytes) -> bool:
        """Return whether the snapshot with this header has not been superseded by a base; raise `Unusable` for another log."""
        try:
            header = msgspec.json.decode(data, type=Header)
        except msgspec.DecodeError as error:
            raise Unusable(f"its header cannot be read: {error}") from error
        if header.position != position or header.campaign != self._campaign:
            raise Unusable(f"it is kept as that of campaign {self._campaign} at position {position}, and is another")
        if position < self._store.begins(self._campaign) - 1:
            return False
        mark = self._store.mark(self._campaign, position)
        if mark is None or mark.hex() != header.mark:
            raise Unusable(f"it is of another log (at position {position})", is_damaged=False)
        return True


class FileSnapshots(Snapshots):
    """Snapshots of a campaign as files in a folder, which is created when the first one is saved."""

    def __init__(self, store: Store, folder: Path, campaign: int) -> None:
        super().__init__(store, campaign)
        self._folder = folder

    def _path(self, position: int) -> Path:
        return self._folder / f"{self._campaign}-{position}.snapshot"

    def positions(self) -> list[int]:
        """Return the positions of all snapshots, newest first."""
        name = re.compile(rf"{self._campaign}-(\d+)\.snapshot")
        try:
            positions = [int(match[1]) for path in self._folder.iterdir() if (match := name.fullmatch(path.name))]
        except FileNotFoundError:
            return []
        except OSError as error:
            self._warn(f"{self._folder}: {error.strerror}")
            return []
        return sorted(positions, reverse=True)

    def save(self, position: int, state: bytes) -> None:
        """Save the state at a position: write a temporary file, sync it, rename it."""
        pieces = SNAPSHOT_MAGIC, self._header(position), state
        path = self._path(position)
        aside = path.with_suffix(".part")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with aside.open("wb") as file:
                file.writelines((*pieces, checksum(*pieces)))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
            sync_folder(self._folder)
            for old in self.positions()[SNAPSHOTS_PER_CAMPAIGN:]:
                self._path(old).unlink(missing_ok=True)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise StoreUnavailable(f"a snapshot cannot be written to {self._folder}: {error.strerror}") from error

    def forget(self, before: int) -> None:
        """Remove the snapshots of positions before this one."""
        for position in self.positions():
            if position < before:
                self._path(position).unlink(missing_ok=True)

    def read(self, position: int) -> bytes | None:
        """Return the state at a position, None if it is no longer needed; raise `Unusable` if it cannot be used."""
        path = self._path(position)
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # superseded meanwhile
            return None
        except OSError as error:
            raise Unusable(f"{path}: {error.strerror}") from error
        start = data.find(b"\n", len(SNAPSHOT_MAGIC)) + 1
        content = memoryview(data)[:-CHECKSUM_BYTES]
        if not data.startswith(SNAPSHOT_MAGIC) or not start or checksum(content) != data[len(content) :]:
            raise Unusable(f"{path} is damaged")
        is_current = self._is_current(position, data[len(SNAPSHOT_MAGIC) : start])
        return bytes(content[start:]) if is_current else None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, if the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
