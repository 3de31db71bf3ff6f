"""What all shards of a fit share: its devices, and how votes become tables and sums."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters
from adjudge.data.votes import Votes
from adjudge.engines.shard import PassRules, Tally, Units, hashes
from adjudge.gpu.device import Device
from adjudge.gpu.fit_device import FitDevice, Replicated
from adjudge.gpu.kernels import DeviceKernels
from adjudge.gpu.state import DeviceCounts
from adjudge.kernels.cpu import fastest


@dataclass(frozen=True, eq=False)
class DeviceRules(PassRules):
    """The rules of a fit on devices. What is small is computed on the host, by `kernels`."""

    votes: Votes | None = None
    devices: tuple[Device, ...] = ()
    make_kernels: Callable[[Device], Any] = DeviceKernels
    is_bounded: bool = False  # whether the caller bounds the memory: then no copies of the votes are made to be faster
    lock: Any = field(default_factory=Lock)  # of sums on the host, to which the threads of several devices add

    @classmethod
    def over(
        cls,
        votes: Votes,
        ties: str,
        units: Callable[[], Units],
        devices: tuple[Device, ...],
        kernels: Callable[[Device], Any],
        *,
        is_bounded: bool,
    ) -> DeviceRules:
        """Return the rules of a fit over these votes."""
        host = fastest()
        hashed = hashes(host, votes.labels)
        given = host, 1, votes.row_label, hashed, ties == "prior", units, votes.row_weight
        return cls(*given, votes=votes, devices=devices, make_kernels=kernels, is_bounded=is_bounded)

    @cached_property
    def fit_devices(self) -> tuple[FitDevice, ...]:
        """The devices, ready for passes."""
        assert self.votes is not None
        every = [self.make_kernels(device) for device in self.devices]
        if self.is_bounded:
            for kernels in every:
                kernels.min_sorted_votes = sys.maxsize
        given = enumerate(zip(self.devices, every, strict=True))
        return tuple(FitDevice(n, device, kernels, self.votes) for n, (device, kernels) in given)

    def empty(self, *, hard: bool) -> Tally:
        """Return an empty tally: counts on the devices, and room for the class counts of a complete pass."""
        rows, k = len(self.row_label), len(self.label_hash)
        return DeviceCounts.empty(self.fit_devices, rows, k, None if hard else self.units), np.zeros(
            k, np.int64 if hard else np.float64
        )

    def counted(self, tally: Tally) -> Tally:
        """Return the counts of a complete tally, on the first device, and its class counts, [K]."""
        return tally[0], tally[0].sum_up()

    def classification(self, tally: Tally, params: Parameters) -> float:
        """Return C2 of the labels counted in a (hard) tally."""
        counts, fit_device = tally[0].summed, self.fit_devices[0]
        with fit_device.device.current():
            table = self.table_on(fit_device, params)
            found: float = fit_device.kernels.classification(counts, tally[0].sum_up(), table, params.log_prior)
        return found

    def confusion_table(self, counts: Any, worker_ptr: NDArray[np.int64], smoothing: float) -> tuple[Any, Any]:
        """Return log pi, [rows, K], and the votes of each worker by true label, [workers, K]: where the counts are.

        Of counts on a device, the totals come to the host where smoothing needs them there.
        """
        if not isinstance(counts, DeviceCounts):
            return super().confusion_table(counts, worker_ptr, smoothing)
        fit_device, by_row = self.fit_devices[0], counts.summed
        with fit_device.device.current():
            table, totals = fit_device.kernels.confusion_table(by_row, fit_device.worker_ptr, smoothing)
            return table, fit_device.device.download(totals) if smoothing else totals

    def table_on(self, fit_device: FitDevice, params: Parameters) -> Any:
        """Return the table of some parameters by row, on a device: device [rows, K]."""
        copies: Replicated | None = getattr(params, "copies", None)
        return fit_device.cached("table", params.table) if copies is None else copies.on(fit_device)
