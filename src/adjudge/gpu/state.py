"""The counts and the table of a fit on its devices; the host sees copies, where something asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Lines, Parameters
from adjudge.data.exact import COARSE, FINE
from adjudge.engines.shard import Units, class_totals
from adjudge.gpu.fit_device import FitDevice, Replicated
from adjudge.kernels import reference

Floats = NDArray[np.float64]


class DeviceParameters(Parameters):
    """Parameters whose table was made on a device. The host gets a copy where a model or a result asks for one."""

    _fit_devices: Sequence[FitDevice]
    copies: Replicated  # of the table, [rows, K]
    _totals: Any  # device [workers, K], the first one's

    @classmethod
    def made(cls, fit_devices: Sequence[FitDevice], priors: Floats, lines: Lines) -> DeviceParameters:
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
            found: Floats = device.download(self._totals)
            return found

    def blended(self, other: DeviceParameters) -> DeviceParameters:
        """Return the mean of two tables and of their log priors; all else is as here."""
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
            self._class_counts = classes if self._units is None else self._restored(classes, self._units)
        return self._class_counts

    def _restored(self, classes: Floats, units: Units) -> Floats:
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
        """Return the counts on the host, [rows, K]: copied when they are asked for, and kept."""
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
