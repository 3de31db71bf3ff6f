"""A fit stored between two passes, so that another process can continue from there."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from adjudge.data.fit import TraceRow
from adjudge.data.vectors import pieces
from adjudge.data.vocabulary import require_below
from adjudge.engines.base import Checkpoint
from adjudge.engines.shard import Tally
from adjudge.errors import AdjudgeError, InputError, quote
from adjudge.io import container
from adjudge.io.folder.arrays import Checksum, read_at, sync
from adjudge.io.folder.manifest import convert

KIND: Final = "checkpoint"
VERSION: Final = 1
CHECKPOINT_FILE: Final = "checkpoint.adjudge"
CHECKPOINT_CRC_CHUNK_BYTES: Final = 1 << 20  # bytes of a file checked at once
MAX_FILE_NUMBER: Final = 1000  # numbers of files are below it


@dataclass(frozen=True, eq=False)
class StoredFit:
    """A checkpoint: the state of the loop, the counts, and the file of labels (glad: of abilities) that belongs to it."""

    point: Checkpoint
    tally: Tally | None  # None for glad, whose counts follow from the file
    file: int  # its number
    crc32: int  # of its content


class CheckpointState(msgspec.Struct, forbid_unknown_fields=True):
    """What a checkpoint stores besides its arrays."""

    trace: Annotated[list[TraceRow], msgspec.Meta(min_length=1)]
    hard: bool
    seen: list[Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})*$")]]
    labels: Annotated[int, msgspec.Meta(ge=0, lt=MAX_FILE_NUMBER)]  # number of the file
    crc32: Checksum  # of that file


def save(folder: Path, stored: StoredFit, path: Path) -> None:
    """Store a checkpoint atomically, after the file at `path` that belongs to it is on disk."""
    point = stored.point
    seen = [fingerprint.hex() for fingerprint in point.seen]
    state = CheckpointState(list(point.trace), point.hard, seen, stored.file, stored.crc32)
    arrays: dict[str, NDArray[Any]] = {"priors": point.shares}
    if stored.tally is not None:
        arrays |= {"counts": stored.tally[0], "class_counts": stored.tally[1]}
    sync(path)
    meta = msgspec.to_builtins(state, enc_hook=float)  # numbers of NumPy, too
    container.save(folder / CHECKPOINT_FILE, KIND, VERSION, meta, arrays)
    sync(folder)


def load(folder: Path) -> StoredFit | None:
    """Return the checkpoint of a folder; None if there is none; raise if it is damaged or not valid."""
    path = folder / CHECKPOINT_FILE
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        raise InputError(f"cannot read {path}: it is not a file")
    try:
        meta, arrays = container.load(path, KIND, VERSION)
    except AdjudgeError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid: {quote(error)}") from error
    state, fault = convert(meta, CheckpointState)
    fault = fault or _arrays_fault(arrays)
    if fault is not None:
        raise InputError(f"{path} is not valid: {fault}")
    tally = (np.array(arrays["counts"]), np.array(arrays["class_counts"])) if "counts" in arrays else None
    point = Checkpoint(
        None if tally is None else tally[1],
        np.array(arrays["priors"]),
        tuple(state.trace),
        state.hard,
        tuple(map(bytes.fromhex, state.seen)),
    )
    return StoredFit(point, tally, state.labels, state.crc32)


def check_counts(stored: StoredFit, n_tasks: int, votes_per_row: NDArray[np.int64], n_labels: int) -> None:
    """Raise unless the counts of a checkpoint match these votes."""
    if stored.point.shares.shape != (n_labels,):
        raise InputError(f"the checkpoint has priors of {stored.point.shares.shape} labels, not {n_labels}")
    if stored.tally is None:
        return
    counts, class_counts = stored.tally
    if counts.shape != (len(votes_per_row), n_labels) or class_counts.shape != (n_labels,):
        raise InputError(f"the checkpoint has counts of the shape {counts.shape}, not {(len(votes_per_row), n_labels)}")
    tolerance = 0.0 if counts.dtype.kind == "i" else 1e-6  # whole numbers are counted exactly
    fine = np.allclose(counts.sum(axis=1), votes_per_row, rtol=tolerance, atol=tolerance)
    if not fine or not np.isclose(class_counts.sum(), n_tasks, rtol=tolerance, atol=tolerance):
        raise InputError("the counts of the checkpoint belong to other votes")


def check_file(path: Path, dtype: DTypeLike, length: int, crc32: int, bound: int | None = None) -> None:
    """Raise unless a file has the length and CRC-32 of its checkpoint, and every item is below the bound.

    Without a bound the items must be finite numbers.
    """
    item = np.dtype(dtype)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    try:
        size = os.fstat(descriptor).st_size
        if size != length * item.itemsize:
            raise InputError(f"{path} is damaged: it has {size} bytes, not {length * item.itemsize}")
        own_crc32 = 0
        for cut in pieces(length, CHECKPOINT_CRC_CHUNK_BYTES // item.itemsize):
            items = np.empty(cut.stop - cut.start, item)
            read_at(descriptor, cut.start * item.itemsize, items, path)
            own_crc32 = zlib.crc32(items.view(np.uint8).data, own_crc32)
            if bound is not None:
                require_below(str(path), items, bound)
            elif not np.isfinite(items).all():
                raise InputError(f"{path} is damaged: it holds a number that is not finite")
    finally:
        os.close(descriptor)
    if own_crc32 != crc32:
        raise InputError(f"{path} is damaged (its checksum does not match)")


def _arrays_fault(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    if arrays.keys() not in ({"priors"}, {"priors", "counts", "class_counts"}):
        return f"it has the arrays {quote(sorted(arrays))}"
    if arrays["priors"].dtype != np.float64:
        return f"priors are of type {arrays['priors'].dtype}"
    if "counts" in arrays and (
        arrays["counts"].dtype not in (np.int64, np.float64) or arrays["counts"].dtype != arrays["class_counts"].dtype
    ):
        return f"counts are of type {arrays['counts'].dtype}"
    for name, array in arrays.items():
        if array.size and not (np.isfinite(array).all() and array.min() >= 0):
            return f"{name} holds a number that is negative or not finite"
    return None
