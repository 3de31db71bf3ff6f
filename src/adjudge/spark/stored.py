"""Parts in files of the executor, mapped into memory by each pass: their votes never move from Java to Python again.

In Spark such a part is its number. Its files are in the folder of its executor, which Spark removes with the executor. An
executor without the files of a part reports it missing, and the driver has it laid out there from what Spark stores.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.errors import AdjudgeError
from adjudge.spark.executor import (
    AnyPart,
    Broadcast,
    Counted,
    FitSettings,
    LabelSource,
    PartCounts,
    TableSource,
    add_counts,
    sum_parts,
)
from adjudge.spark.garbage import spare_loaded
from adjudge.spark.layout import TaskPart

MAX_STORED_VOTES: Final = 1 << 26  # of a stored part
FILE_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "task_ptr": np.dtype(np.int64),
    "row": np.dtype(np.uint32),
    "rows": np.dtype(np.uint32),
    "task_key": np.dtype(np.uint64),
    "gold": np.dtype(np.int32),
}
RENUMBERED_VOTES: Final = 1 << 20  # at once
LABELS_PREFIX: Final = "labels-"


class StoredPart:
    """The votes of some tasks in the files of a folder, with the labels of the last two passes."""

    def __init__(self, folder: Path, n_labels: int) -> None:
        self._folder = folder
        self._label_dtype = np.min_scalar_type(max(n_labels - 1, 0))
        arrays = {name: _mapped(folder / name, dtype) for name, dtype in FILE_DTYPES.items()}
        self.task_ptr, self.row, self.rows, self._keys, self.gold = arrays.values()
        if len(self._keys) + 1 != len(self.task_ptr) or self.task_ptr[-1] != len(self.row):
            raise AdjudgeError(f"the files of votes in {folder} are incomplete: the fit must start again")

    def keys(self, seed: int) -> NDArray[np.uint64]:
        """Return the keys by which ties are settled, [tasks]: those of the seed of the fit."""
        return self._keys

    def recall(self, source: LabelSource) -> NDArray[Any] | None:
        """Return the labels that follow from a source, [tasks], if they were kept."""
        file = self._labels_file(source)
        try:
            return None if file is None else np.fromfile(file, self._label_dtype)
        except FileNotFoundError:
            return None

    def keep(self, source: LabelSource, labels: Iterable[NDArray[np.int32]]) -> None:
        """Keep the labels that follow from a source, shard by shard, and those that were kept last; drop all others."""
        target = self._labels_file(source)
        if target is None:
            return
        older = sorted(self._folder.glob(f"{LABELS_PREFIX}*"), key=lambda path: path.stat().st_mtime_ns)
        number, name = tempfile.mkstemp(dir=self._folder)
        with os.fdopen(number, "wb") as out:
            for shard in labels:
                shard.astype(self._label_dtype).tofile(out)
        Path(name).replace(target)
        for path in older[:-1]:
            path.unlink(missing_ok=True)

    def _labels_file(self, source: LabelSource) -> Path | None:
        """Return the file for the labels that follow from a source; None if the source has no name."""
        name = source.name if isinstance(source, TableSource) else source
        return self._folder / f"{LABELS_PREFIX}{name}" if isinstance(name, str) else None


class Found(NamedTuple):
    """What some executors found: sums, and the numbers of the parts whose files they lack."""

    counts: PartCounts | None = None
    missing: tuple[int, ...] = ()

    def plus(self, other: Found) -> Found:
        """Return both together."""
        return Found(add_counts(self.counts, other.counts), self.missing + other.missing)


def store(settings: Broadcast, fit: str, ended: tuple[str, ...], number: int, parts: Iterable[bytes]) -> Iterator[int]:
    """Write the parts of a partition to the files of one, unless they are there, and yield its number.

    The files of fits that have `ended` are removed.
    """
    spare_loaded()
    for one in ended:
        shutil.rmtree(_folder(one), ignore_errors=True)
    every = list(parts)  # to the end: Spark stops a Python that has not read all
    folder = _folder(fit) / str(number)
    if not folder.exists():
        _write(settings.value, folder, map(TaskPart.unpack, every))
    yield number


def run(
    settings: Broadcast, fit: str, work: Callable[[FitSettings, AnyPart], Counted], numbers: Iterable[int]
) -> Iterator[Found]:
    """Yield the sum over the parts of a partition."""
    spare_loaded()
    every = {number: _open(fit, number, settings.value) for number in list(numbers)}
    missing = tuple(number for number, part in every.items() if part is None)
    yield Found(sum_parts(settings.value, work, (part for part in every.values() if part is not None)), missing)


def remove(fit: str, numbers: Iterable[int]) -> Iterator[int]:
    """Remove the files of a fit on this executor."""
    yield from list(numbers)
    shutil.rmtree(_folder(fit), ignore_errors=True)


def _write(settings: FitSettings, folder: Path, parts: Iterable[AnyPart]) -> None:
    """Write parts as one part to the files of a folder, which then appears with all of them."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    used, votes = np.zeros(len(settings.row_label), np.bool_), 0
    with ExitStack() as stack:
        out = {name: stack.enter_context((unfinished / name).open("wb")) for name in FILE_DTYPES}
        np.zeros(1, np.int64).tofile(out["task_ptr"])
        for part in parts:
            (part.task_ptr[1:] + votes).tofile(out["task_ptr"])
            part.rows[part.row].tofile(out["row"])
            part.keys(settings.seed).tofile(out["task_key"])
            part.gold.tofile(out["gold"])
            used[part.rows] = True
            votes += len(part.row)
        rows = np.flatnonzero(used).astype(np.uint32)
        rows.tofile(out["rows"])
    if votes and len(rows) < len(used):
        own = np.cumsum(used, dtype=np.uint32) - np.uint32(1)
        row = np.memmap(unfinished / "row", np.uint32, "r+")
        for start in range(0, votes, RENUMBERED_VOTES):
            row[start : start + RENUMBERED_VOTES] = own[row[start : start + RENUMBERED_VOTES]]
    try:
        unfinished.rename(folder)
    except OSError:
        shutil.rmtree(unfinished)
        if not folder.exists():  # otherwise another attempt at this partition was first
            raise


_opened: dict[Path, StoredPart] = {}  # by this process: its pages stay mapped from pass to pass


def _open(fit: str, number: int, settings: FitSettings) -> StoredPart | None:
    """Return a part from its files; None if they are not on this executor."""
    for folder in [path for path in _opened if not path.exists()]:
        del _opened[folder]  # so that the disk has its room again
    folder = _folder(fit) / str(number)
    if folder not in _opened and folder.exists():
        _opened[folder] = StoredPart(folder, len(settings.labels))
    return _opened.get(folder)


def _folder(fit: str) -> Path:
    """Return the folder of a fit on this executor, which Spark tells its workers in their environment."""
    return Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]) / f"adjudge-{fit}"


def _mapped(file: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the numbers of a file without reading them."""
    with file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        return np.frombuffer(mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) if size else b"", dtype)
