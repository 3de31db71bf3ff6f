"""How far a stream has come, in one folder: the `Online` after each batch, and a pointer to the last of them.

    DIR/state.quorate             the pointer: the last finished batch, and what was counted
    DIR/online-000000041.quorate  the Online after it, as `Online.save` writes it
    DIR/online-000000040.quorate  the one before
    DIR/checkpoint/               Spark's own: which votes belong to which batch

A batch is finished when the pointer is renamed into place, and not a moment earlier.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from quorate.errors import InputError, QuorateError, listed, shown
from quorate.io import container
from quorate.io.bounds import Bounds, Types
from quorate.online import Online

VERSION: Final = 1
META: Final[Types] = {"batch": int, "query": (str, type(None)), "votes": int, "abstentions": int, "skipped": int}


@dataclass(frozen=True)
class Progress:
    """What a stream has taken so far."""

    batch: int = -1  # the last finished one
    query: str | None = None  # Spark's id of the job, the same after every restart
    votes: int = 0
    abstentions: int = 0  # votes without a label
    skipped: int = 0  # bad rows left out


class StateFolder:
    """The folder of one stream.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as name:
    ...     folder = StateFolder(name)
    ...     begun, online = folder.begin(Online(labels=["cat", "dog"]))
    ...     online.learn("t1", "ann", "cat")
    ...     folder.finish(begun, Progress(batch=0, votes=1), online)
    ...     folder.progress().batch, folder.online()
    (0, Online(fds: 1 tasks, 1 workers, 2 labels))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if "://" in os.fspath(path):
            raise InputError(
                f"the state cannot be kept at {os.fspath(path)}: name a folder on a disk that the driver always sees"
            )
        self.path = Path(path).absolute()
        self.pointer, self.checkpoint = self.path / "state.quorate", self.path / "checkpoint"

    def begin(self, online: Online) -> tuple[Progress, Online]:
        """Returns how far the stream has come, and its Online; in a new folder it begins with the one given."""
        if not self.pointer.exists():
            if self.checkpoint.exists():
                raise InputError(
                    f"{self.path} has a checkpoint but no {self.pointer.name}: restore it, or begin in an empty folder"
                )
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"cannot keep the state in {self.path}: {error.strerror}") from error
            self._write(Progress(), online)
        progress = self.progress()
        known = Online.load(self._file(progress.batch))
        for name, value in known.settings.items():
            if value != online.settings[name]:
                old, new = (listed(v) if isinstance(v, list) else v for v in (value, online.settings[name]))
                raise InputError(
                    f"the stream in {self.path} has {name} {old}, not {new}: go on as it began, or in an empty folder"
                )
        return progress, known

    def progress(self) -> Progress:
        """Return how far the stream has come."""
        meta, _ = container.load(self.pointer, "stream", VERSION, META, {})
        bounds = Bounds(self.pointer)
        strangers = [name for name in meta if name not in META]
        bounds.need(not strangers, f"its meta has {listed(map(shown, strangers), 3)}, which nothing uses")
        for name, value in meta.items():
            bounds.need(not isinstance(value, int) or value >= (-1 if name == "batch" else 0), f"it has {name} {shown(value)}")
        return Progress(**meta)

    def online(self) -> Online:
        """Returns the Online after the last finished batch, as a copy of its own."""
        return Online.load(self._file(self.progress().batch))

    def finish(self, before: Progress, after: Progress, online: Online) -> None:
        """Writes that a batch is finished, whole or not at all; the state before it is kept, older ones are removed."""
        if self.progress() != before:
            raise QuorateError(f"another job writes to {self.path}: stop one of the two, and start the other again")
        self._write(after, online)
        kept = {self._file(before.batch), self._file(after.batch)}
        for path in (*self.path.glob("online-*.quorate"), *self.path.glob(".quorate-*")):  # the latter: of a killed write
            if path not in kept:
                path.unlink(missing_ok=True)

    def _write(self, progress: Progress, online: Online) -> None:
        online.save(self._file(progress.batch))
        container.save(self.pointer, "stream", VERSION, asdict(progress), {})

    def _file(self, batch: int) -> Path:
        return self.path / f"online-{'begin' if batch < 0 else f'{batch:09d}'}.quorate"


def check_turn(progress: Progress, batch: int, query: str | None, folder: Path) -> bool:
    """Returns whether a batch is still to be taken; one that fits neither as the next nor as the last is an error.

    >>> check_turn(Progress(batch=4), 5, None, Path("state")), check_turn(Progress(batch=4), 4, None, Path("state"))
    (True, False)
    """
    if progress.query not in (None, query):
        raise InputError(
            f"{folder} belongs to the query {progress.query}, not to {query}: its checkpoint was removed or replaced; "
            "restore it, or begin in an empty folder"
        )
    if batch not in (progress.batch, progress.batch + 1):
        raise InputError(
            f"Spark gives batch {batch}, but the state in {folder} ends with batch {shown(progress.batch)}: checkpoint and "
            "state are not of one moment; restore both together"
        )
    return batch == progress.batch + 1
