"""Arrays on a device that functions of NumPy take: of tasks, which stay there until they are read, and long vectors."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from adjudge.gpu.device import Device


class TaskArray(NDArrayOperatorsMixin):
    """Something of every task on a device, [tasks], which NumPy sees as an array of the host.

    The copy is made on first access, and kept. So the arrays of an `Outcome` can stay where they are: `replace` of the
    outcome, its length, or handing it back to a session copies nothing.

    >>> from contextlib import nullcontext
    >>> from types import SimpleNamespace
    >>> host = SimpleNamespace(xp=np, current=nullcontext, download=np.array)  # stands for a device
    >>> labels = TaskArray(host, np.array([1, 0], np.uint8), np.int32)
    >>> len(labels), labels.is_on_host, labels[0], labels.is_on_host
    (2, False, np.int32(1), True)
    """

    def __init__(self, device: Device, array: Any, dtype: type[np.generic] | np.dtype[Any]) -> None:
        self.device = device
        self.array = array  # device [tasks], perhaps of a shorter type; nobody else may change it
        self.dtype = np.dtype(dtype)  # of the copy
        self._copy: NDArray[Any] | None = None

    @classmethod
    def to_fill(cls, device: Device, length: int, dtype: type[np.generic]) -> TaskArray:
        """Return an array that a pass will `put`; until then it has a length alone."""
        return cls(device, range(length), dtype)

    def put(self, array: Any) -> None:
        """Take a new array of the device, [tasks], in place of this one."""
        self.array, self._copy = array, None

    @cached_property
    def parts(self) -> TaskParts:
        """What has parts of this array on the device, for sessions that work on some tasks at a time."""
        return TaskParts(self)

    @property
    def host(self) -> NDArray[Any]:
        """The copy of the host, [tasks]."""
        if self._copy is None:
            with self.device.current():
                self._copy = self.device.download(self.array).astype(self.dtype, copy=False)
        return self._copy

    @property
    def is_on_host(self) -> bool:
        """Whether the copy was made."""
        return self._copy is not None

    def on_device(self) -> Any:
        """Return the array on the device in the type of the copy; it is itself where it has that."""
        with self.device.current():
            return self.array.astype(self.dtype, copy=False)

    def total(self) -> Any:
        """Return the sum over all tasks, counted on the device."""
        with self.device.current():
            return self.array.sum().item()

    @property
    def shape(self) -> tuple[int, ...]:
        """(tasks,)."""
        return (len(self.array),)

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return f"TaskArray({len(self)} {self.dtype} on {self.device.name})"

    def __getitem__(self, at: Any) -> Any:
        return self.host[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        if at != slice(None) or len(value) != len(self):
            raise TypeError("an array of tasks on a device is set as a whole")
        with self.device.current():
            self.put(value.array.copy() if isinstance(value, TaskArray) else self.device.upload(np.asarray(value, self.dtype)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.host, dtype, copy=copy) if copy else self.host.astype(dtype or self.dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*(one.host if isinstance(one, TaskArray) else one for one in inputs), **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") and not name.endswith("__"):  # its own, which are not there while it is copied or pickled
            raise AttributeError(name)
        return getattr(self.host, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return np.array, (self.host,)


class TaskParts:
    """An array of tasks that is cut on its device: a slice of it is one there, too."""

    def __init__(self, whole: TaskArray) -> None:
        self._whole = whole

    def __len__(self) -> int:
        return len(self._whole)

    def __getitem__(self, cut: slice) -> TaskArray:
        return TaskArray(self._whole.device, self._whole.array[cut], self._whole.dtype)


Floats = NDArray[np.float64]
# Few waits for sums, and temporaries stay in the device's cache.
DEVICE_CHUNK_NUMBERS: Final = 1 << 22  # numbers at once


class DeviceNumbers(NDArrayOperatorsMixin):
    """Some numbers on a device, which NumPy's functions by element work on where they are."""

    def __init__(self, device: Device, array: Any) -> None:
        self.device = device
        self.array = array  # device float64 [some]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple[Any, ...] = (), **options: Any) -> Any:
        """Return what a function by element makes of device numbers, on the device."""
        if method != "__call__":
            return NotImplemented
        name, xp = ufunc.__name__, self.device.xp
        if ufunc is np.power and isinstance(inputs[1], int | float) and inputs[1] == 2:  # NumPy multiplies, too
            name, inputs = "square", inputs[:1]
        if out:
            options["out"] = out[0].array
        with self.device.current():
            made = getattr(xp, name)(*(one.array if isinstance(one, DeviceNumbers) else one for one in inputs), **options)
        return out[0] if out else DeviceNumbers(self.device, made)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return a copy on the host."""
        if copy is False:
            raise ValueError("numbers of a device become an array of the host by a copy only")
        with self.device.current():
            host = self.device.download(self.array)
        return host if dtype is None else host.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self.array)

    def sum(self) -> float:
        """Return their sum; it waits for the device."""
        with self.device.current():
            return float(self.array.sum())

    def max(self) -> float:
        """Return the largest; it waits for the device."""
        with self.device.current():
            return float(self.array.max())


class DeviceVector:
    """A vector on a device, read and written by slices."""

    piece = DEVICE_CHUNK_NUMBERS

    def __init__(self, device: Device, array: Any) -> None:
        self.device = device
        self.array = array  # device float64 [n]

    def __reduce__(self) -> tuple[Any, ...]:
        with self.device.current():
            return np.array, (self.device.download(self.array),)  # results load without a device

    @classmethod
    def empty(cls, device: Device, n: int) -> DeviceVector:
        """Return an uninitialised vector of n numbers."""
        with device.current():
            return cls(device, device.xp.empty(n))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, cut: slice, /) -> Floats:
        # typed as the array that it stands for: the functions that take vectors know no other
        return cast(Floats, DeviceNumbers(self.device, self.array[cut]))

    def __setitem__(self, cut: slice, numbers: Any, /) -> None:
        with self.device.current():
            self.array[cut] = numbers.array if isinstance(numbers, DeviceNumbers) else self.device.upload(np.asarray(numbers))

    def alike(self) -> DeviceVector:
        """Return an uninitialised vector of the same length and kind."""
        return DeviceVector.empty(self.device, len(self.array))
