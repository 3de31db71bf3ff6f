"""Columns of votes that are on a device already: arrays of CuPy, PyTorch, JAX or any other library, used in place.

Libraries say where their arrays are by `__cuda_array_interface__` or `__dlpack__`; none of them is imported here. An array is
copied only where its numbers do not follow each other in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from adjudge.errors import InputError, listed
from adjudge.gpu.device import Device
from adjudge.io.columns import VOTE
from adjudge.io.shapes import PLAIN, shape_of
from adjudge.io.sources import is_device_array
from adjudge.io.understood import Reading

MAX_VOTES: Final = 2**32 - 2  # positions have 32 bits, and one stands for none
LARGEST: Final = 2**63 - 1
WHERE: Final = "the dict of arrays"


class DeviceColumns(NamedTuple):
    """The columns of votes on a device."""

    task: Any  # device [votes] whole numbers, contiguous; likewise the others, which may be booleans
    worker: Any
    label: Any
    reading: Reading  # what is understood of them


def device_number(source: Any) -> int:
    """Return the number of the CUDA device that a source is on; 0 where its arrays do not say."""
    columns = source.values() if isinstance(source, Mapping) else source
    known = (_number_of(value) for value in columns if is_device_array(value))
    return next((number for number in known if number is not None), 0)


def column_length(source: Any) -> int:
    """Return how many votes a source has, as its first array on a device says; 0 where that has no length."""
    columns = source.values() if isinstance(source, Mapping) else source
    first = next((value for value in columns if is_device_array(value)), None)
    shape = getattr(first, "shape", None)
    return int(shape[0]) if shape else 0


def columns_of(device: Device, source: Any, names: Mapping[str, str | None]) -> DeviceColumns:
    """Return the columns of a source on this device, in place; `names` are the caller's for task, worker and label.

    What is no column of whole numbers, or not where the others are, is an error that names it.
    """
    given, reading = _given(source, names)
    _require_one_device(given)
    arrays = {role: _column(device, role, value) for role, value in given.items()}
    lengths = {role: len(array) for role, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{n} {role}s" for role, n in lengths.items())
        raise InputError(f"the arrays have different lengths ({sizes}): give one task, one worker and one label for each vote")
    if not lengths["task"]:
        raise InputError("the arrays of votes are empty: give at least one vote")
    if lengths["task"] > MAX_VOTES:
        raise InputError(f"{lengths['task']} votes are more than a device takes at once: give at most {MAX_VOTES}")
    return DeviceColumns(**arrays, reading=reading)


def _given(source: Any, names: Mapping[str, str | None]) -> tuple[dict[str, Any], Reading]:
    """Return the arrays by role, as the caller gave them, and what is understood of them."""
    reading = Reading("arrays on a device")
    if isinstance(source, Mapping):
        by_name = {str(name): value for name, value in source.items()}
        shape = shape_of(list(by_name), {role: names.get(role) for role in VOTE}, PLAIN, WHERE)
        if not shape.has_workers:
            raise InputError(
                f"{WHERE} has no column for the worker ({listed(by_name)}): give one, or host data, which may have none"
            )
        reading.saw(shape)
        return {role: by_name[shape.columns[role]] for role in VOTE}, reading
    named = [role for role in VOTE if names.get(role)]  # "" says that workers may be absent: here they are not
    if named:
        raise InputError(f"{named[0]} names a column, and a tuple of arrays has none: give a dict of arrays")
    return dict(zip(VOTE, source, strict=True)), reading


def _require_one_device(given: Mapping[str, Any]) -> None:
    """Raise unless all arrays are on one device."""
    here = [role for role, value in given.items() if not is_device_array(value)]
    if here:
        there = " and ".join(f"{role}s" for role in given if role not in here)
        raise InputError(
            f"the {here[0]}s are on the host, but the {there} on a CUDA device: give all on one device "
            "(cupy.asarray, tensor.cuda())"
        )
    device_of = {role: number for role, value in given.items() if (number := _number_of(value)) is not None}
    first = next(iter(device_of), None)
    for role, number in device_of.items():
        if first is not None and number != device_of[first]:
            raise InputError(
                f"the {role}s are on CUDA device {number}, but the {first}s on device {device_of[first]}: give all on one device"
            )


def _number_of(value: Any) -> int | None:
    """Return the number of the device of an array; None where its library does not say."""
    where = getattr(value, "__dlpack_device__", None)
    return None if where is None else int(where()[1])


def _column(device: Device, role: str, value: Any) -> Any:
    """Return a column as an array of the device, without a copy where it is contiguous."""
    array = _taken(device, role, value)
    where = getattr(getattr(array, "device", None), "id", None)  # arrays without DLPack do not say before
    if None not in (where, device.number) and where != device.number:
        raise InputError(f"the {role}s are on CUDA device {where}, but the fit on device {device.number}: give all on one device")
    if array.ndim != 1:
        raise InputError(
            f"the {role}s have {array.ndim} dimensions, shape {array.shape}: give an array with one, a line per vote"
        )
    allowed, right = ("iu", "whole numbers") if role == "task" else ("iub", "whole numbers or booleans")
    if array.dtype.kind not in allowed:
        raise InputError(f"the {role}s are of type {array.dtype}: give {right} (or text, from the host)")
    if array.dtype == np.uint64:
        if len(array) and int(array.max()) > LARGEST:
            raise InputError(f"a {role} is greater than {LARGEST}: give such ids as text, from the host")
        array = array.view(np.int64)
    return device.xp.ascontiguousarray(array)


def _taken(device: Device, role: str, value: Any) -> Any:
    """Return an array of another library as one of this device: the same memory.

    DLPack comes first: it waits for what the other library has started on a stream of its own. Where it fails, as for types
    that one of the two does not know there, the other interface is asked.
    """
    if isinstance(value, device.xp.ndarray):
        return value
    ways = [("__dlpack__", device.xp.from_dlpack), ("__cuda_array_interface__", device.xp.asarray)]
    error: Exception | None = None
    for name, take in ways:
        try:
            if hasattr(value, name):
                return take(value)
        except Exception as refused:  # every library refuses in its own way
            error = error or refused
    raise InputError(
        f"the {role}s cannot be taken from {type(value).__module__}.{type(value).__name__} ({error}): "
        "give a plain array on a CUDA device"
    )
