"""A device in a fit: its kernels, and the arrays that all its passes share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.gpu.device import Device
from adjudge.gpu.kernels import DeviceKernels


class FitDevice:
    """A device in a fit: its kernels, and the arrays by row and by worker that its passes share."""

    def __init__(self, index: int, device: Device, kernels: Any, votes: Votes) -> None:
        self.index = index  # among the devices of the fit
        self.device = device
        self.kernels = kernels
        self._panel = votes
        with device.current():
            self.row_label = device.upload(votes.row_label)
            self.row_weight = None if votes.row_weight is None else device.upload(votes.row_weight)
            self.worker_ptr = device.upload(votes.worker_ptr)
        self._cached: dict[str, tuple[Any, Any]] = {}

    @cached_property
    def row_worker(self) -> Any:
        """The worker of each row, device int64 [rows]."""
        with self.device.current():
            return self.device.upload(self._panel.row_worker())

    @property
    def has_device_kernels(self) -> bool:
        """Whether these are the CUDA kernels, which also serve `auto`, GLAD and lines of honest confidence."""
        return isinstance(self.kernels, DeviceKernels)

    def cached(self, name: str, array: NDArray[Any] | Replicated) -> Any:
        """Return a copy on the device of an array of the host; it stays until another one of this name is asked for."""
        if isinstance(array, Replicated):
            return array.on(self)
        before = self._cached.get(name)
        if before is None or before[0] is not array:
            before = None  # which makes room for the one to come
            self._cached.pop(name, None)
            before = self._cached[name] = array, self.device.upload(array)
        return before[1]


class Replicated:
    """An array that every device of a fit has, made on the first one."""

    def __init__(self, fit_devices: Sequence[FitDevice], made: Any) -> None:
        first, *others = fit_devices
        self._first, self._parts = first, [made]
        here = self.on_host() if others else None
        for fit_device in others:
            with fit_device.device.current():
                self._parts.append(fit_device.device.upload(cast(NDArray[Any], here)))

    def on(self, fit_device: FitDevice) -> Any:
        """Return the array on a device."""
        return self._parts[fit_device.index]

    def on_host(self) -> NDArray[Any]:
        """Return a copy on the host."""
        with self._first.device.current():
            found: NDArray[Any] = self._first.device.download(self._parts[0])
            return found
