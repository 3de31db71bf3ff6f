"""What a fit has on its devices: the arrays that passes share, the counts, the table, and the rules of passes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.exact import COARSE, FINE
from adjudge.data.fit import Parameters, TableLines
from adjudge.data.votes import Votes
from adjudge.engines.shard import PassRules, Tally, Units, class_totals, hashes
from adjudge.gpu.device import Device
from adjudge.gpu.passes import DeviceKernels
from adjudge.gpu.tables import RowIds
from adjudge.kernels import reference
from adjudge.kernels.cpu import fastest


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

    @cached_property
    def ids(self) -> RowIds:
        """Whose votes the rows are, and for which label."""
        return RowIds(self.device, self.worker_ptr, self.row_worker, self.row_label, self._panel.n_labels)

    @property
    def has_device_kernels(self) -> bool:
        """Whether these are the CUDA kernels, which also serve `auto`, GLAD and lines of honest confidence."""
        return isinstance(self.kernels, DeviceKernels)

    def input(self, name: str, array: NDArray[Any] | Replicated) -> Any:
        """Return an input by row, or by worker, of a pass on the device."""
        if name == "row_worker":
            return self.row_worker
        return self.worker_ptr if name == "worker_ptr" else self.copy_of(name, array)

    def copy_of(self, name: str, array: NDArray[Any] | Replicated) -> Any:
        """Return a device copy of a host array, cached by name until another array of this name replaces it."""
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
            return self._first.device.download(self._parts[0])


Floats = NDArray[np.float64]


class DeviceParameters(Parameters):
    """Parameters whose table was made on a device. The host gets a copy where a model or a result asks for one."""

    _fit_devices: Sequence[FitDevice]
    copies: Replicated  # of the table, [rows, K]
    _totals: Any  # device [workers, K], the first one's

    @classmethod
    def on_devices(cls, fit_devices: Sequence[FitDevice], priors: Floats, lines: TableLines) -> DeviceParameters:
        """Return the parameters of class priors and of lines whose table is on the first device.

        So are the totals, unless the table is smoothed.
        """
        out = object.__new__(cls)
        given = {"priors": priors, "prior": lines.prior, "penalty": lines.penalty, "uses_prior": lines.uses_prior}
        of_workers = {"worker_totals" if lines.prior.smoothing else "_totals": lines.worker_totals}
        vars(out).update(given, **of_workers, _fit_devices=fit_devices, copies=Replicated(fit_devices, lines.table))
        return out

    @cached_property
    def table(self) -> Floats:
        """The table on the host, [rows, K]."""
        return self.copies.on_host()

    @cached_property
    def worker_totals(self) -> Floats:
        """The votes of each worker by true label on the host, [workers, K]."""
        device = self._fit_devices[0].device
        with device.current():
            return device.download(self._totals)

    def blend_with(self, other: DeviceParameters) -> DeviceParameters:
        """Return the mean of two tables and of their log priors; everything else is as here."""
        fit_device, out = self._fit_devices[0], object.__new__(DeviceParameters)
        with fit_device.device.current():
            table = (other.copies.on(fit_device) + self.copies.on(fit_device)) / 2.0
        vars(out).update({name: value for name, value in vars(self).items() if name != "table"})
        vars(out).update(priors=np.sqrt(other.priors * self.priors), copies=Replicated(self._fit_devices, table))
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameters, (self.priors, self.table, self.worker_totals, self.prior, self.penalty, self.uses_prior)


class DeviceCounts:
    """The counts of a pass: a part on every device of the fit, and their sum on the first one in the end.

    Parts are [rows, K] and [K]: int64 of hard labels, else float64 in units, with second sums as [2, rows, K] where fine, and
    [2, K]. A later hard pass adds its changes to any part, so the other parts restart at zero.
    """

    def __init__(self, fit_devices: Sequence[FitDevice], parts: list[Any], classes: list[Any], units: Units | None) -> None:
        self._fit_devices, self._parts, self._classes = fit_devices, parts, classes
        self._units = units  # None: of hard labels
        self._class_counts: NDArray[Any] | None = None  # [K] on the host, where the parts were summed
        self._copy: NDArray[Any] | None = None  # on the host

    @classmethod
    def empty(cls, fit_devices: Sequence[FitDevice], rows: int, k: int, units: Units | None) -> DeviceCounts:
        """Return counts of nothing."""
        kind, shape = (np.int64, (rows, k)) if units is None else (np.float64, (2, rows, k) if units.fine else (rows, k))
        parts, classes = [], []
        for fit_device in fit_devices:
            with fit_device.device.current():
                parts.append(fit_device.device.xp.zeros(shape, kind))
                classes.append(fit_device.device.xp.zeros(k if units is None else (2, k), kind))
        return cls(fit_devices, parts, classes, units)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the counts."""
        return np.dtype(np.int64 if self._units is None else np.float64)

    @property
    def summed(self) -> Any:
        """The counts of all devices on the first one, device [rows, K]."""
        self.sum_up()
        return self._parts[0]

    def into(self, fit_device: FitDevice) -> dict[str, Any]:
        """Return the arrays that passes on a device count into, and the unit."""
        self._copy = self._class_counts = None
        counts, classes = self._parts[fit_device.index], self._classes[fit_device.index]
        if self._units is None:
            return {"counts": counts, "class_counts": classes}
        first, rest = (counts[0], counts[1]) if self._units.fine else (counts, None)
        into = {"counts": first, "rest": rest, "class_counts": classes[0], "class_rest": classes[1]}
        return {**into, "unit": self._units.unit}

    def certain(self, fit_device: FitDevice) -> tuple[Any, Any, float]:
        """Return what known labels are counted into on a device: counts, class counts, and what one vote is there."""
        into, units = self.into(fit_device), self._units
        return into["counts"], into["class_counts"], 1 if units is None else FINE if units.fine else COARSE

    def sum_up(self) -> NDArray[Any]:
        """Sum the parts of a complete pass on the first device, in scale, and return the class counts, [K], on the host."""
        if self._class_counts is None:
            classes = self._sum_up()
            self._class_counts = classes if self._units is None else self._restore_scale(classes, self._units)
        return self._class_counts

    def _restore_scale(self, classes: Floats, units: Units) -> Floats:
        """Bring sums in units back to scale: counts in place, and class counts, [2, K], which are returned, [K]."""
        first, counts = self._fit_devices[0], self._parts[0]
        with first.device.current():
            if not units.fine:
                first.kernels.restore_counts(counts, None, units.unit)
                return class_totals(classes, units.unit)
            first.kernels.restore_counts(counts[0], counts[1], units.unit)
        self._parts = [counts[0]]
        reference.restore_counts(classes[0], classes[1], units.unit)
        found: Floats = classes[0]
        return found

    def _sum_up(self) -> NDArray[Any]:
        """Sum the parts on the first device as they are, and return the sum of the class counts."""
        first, *others = self._fit_devices
        with first.device.current():
            classes = first.device.download(self._classes[0])
        for fit_device in others:
            with fit_device.device.current():
                part, of_classes = (fit_device.device.download(one[fit_device.index]) for one in (self._parts, self._classes))
                self._parts[fit_device.index].fill(0)
                self._classes[fit_device.index].fill(0)
            classes = classes + of_classes
            with first.device.current():
                self._parts[0] += first.device.upload(part)
                self._classes[0] = first.device.upload(classes)
        return classes

    def on_host(self) -> NDArray[Any]:
        """Return the counts on the host, [rows, K], copied on first use."""
        if self._copy is None:
            device, counts = self._fit_devices[0].device, self.summed
            with device.current():
                self._copy = device.download(counts)
        return self._copy

    def copy(self) -> DeviceCounts:
        """Return a copy of complete counts, which no pass adds to."""
        counts = self.summed
        with self._fit_devices[0].device.current():
            out = DeviceCounts(self._fit_devices, [counts.copy()], [], self._units)
        out._class_counts = self._class_counts
        return out

    def tobytes(self) -> bytes:
        """Return the bytes of the counts, for a fingerprint."""
        return self.on_host().tobytes()


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
        """Return log pi, [rows, K], and the votes of each worker by true label, [workers, K], on the counts' device.

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
        return fit_device.copy_of("table", params.table) if copies is None else copies.on(fit_device)
