"""Long vectors on a device, for functions that know NumPy alone (`adjudge.data.vectors`, `adjudge.models.lbfgs`).

What those functions call on some numbers of a vector (operators, NumPy's functions by element, sums) runs on the device.
Where they ask for a NumPy array, the numbers are copied to the host.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from adjudge.gpu.device import Device

Floats = NDArray[np.float64]
PIECE: Final = 1 << 22  # numbers at once: few waits for sums, and what is made on the way stays in the device's cache


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

    piece = PIECE

    def __init__(self, device: Device, array: Any) -> None:
        self.device = device
        self.array = array  # device float64 [n]

    def __reduce__(self) -> tuple[Any, ...]:
        with self.device.current():
            return np.array, (self.device.download(self.array),)  # a result is loaded where there is no device

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
