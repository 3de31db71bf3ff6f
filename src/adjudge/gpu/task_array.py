"""Arrays of tasks that stay on the device until they are read."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from adjudge.gpu.device import Device


class TaskArray(NDArrayOperatorsMixin):
    """Something of every task on a device, [tasks], which NumPy sees as an array of the host.

    The copy is made when first asked for, and kept. So the arrays of an `Outcome` can stay where they are: `replace` of the
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
