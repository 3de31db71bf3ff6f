"""A device whose kernels are those of the reference: what the engine does around kernels is tested with it, fast, anywhere.

Its arrays have their own type and know their device. Passing an array of the host, or of another device, instead of one of this
device is an error, as it would be on a real one; and so is work on a device that is not the current one of its thread.
"""

import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from adjudge.gpu.votes import label_type
from adjudge.kernels import reference


class WrongPlaceError(AssertionError):
    """An array is not where it should be."""


class OnDevice(np.ndarray):
    """An array of a device."""

    home = None

    def __array_finalize__(self, before):
        self.home = getattr(before, "home", None)

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **how):
        homes = set()
        for one in (*inputs, *out):
            if isinstance(one, np.ndarray) and not isinstance(one, OnDevice) and one.ndim:
                raise WrongPlaceError(f"{ufunc.__name__} of arrays of a device and of the host")
            if isinstance(one, OnDevice):
                homes.add(one.home)
        if len(homes) > 1:
            raise WrongPlaceError(f"{ufunc.__name__} of arrays of two devices")
        plain = [one.view(np.ndarray) if isinstance(one, OnDevice) else one for one in inputs]
        into = {"out": tuple(one.view(np.ndarray) for one in out)} if out else {}
        found = getattr(ufunc, method)(*plain, **into, **how)
        return out[0] if out else placed(found, homes.pop())


def placed(array, home):
    out = np.asarray(array).view(OnDevice)
    out.home = home
    return out


_CURRENT = threading.local()


class ReferenceDevice:
    """The processor as a device; see `adjudge.gpu.device.Device`."""

    number = None
    multiprocessors, shared_bytes, cache_bytes = 2, 227 << 10, 50 << 20

    def __init__(self, name="reference device", free=1 << 40):
        self.name, self.free = name, free
        self.uploads, self.downloads, self.launches, self.lost = (
            [],
            [],
            [],
            None,
        )  # bytes; names; what the device fails with from now on
        self.xp = SimpleNamespace(
            **{
                name: self._making(getattr(np, name))
                for name in ("zeros", "empty", "arange", "flatnonzero", "take_along_axis", "bincount")
            }
        )

    def __reduce__(self):
        return type(self), (self.name, self.free)

    def _making(self, function):
        def made(*given, **how):
            self.require_current()
            return placed(function(*given, **how), self)

        return made

    def memory(self):
        return self.free, self.free

    @contextmanager
    def current(self):
        before, _CURRENT.device = getattr(_CURRENT, "device", None), self
        try:
            yield
        finally:
            _CURRENT.device = before

    def require_current(self):
        """Raise where another device is the one that arrays would be made on in this thread."""
        if getattr(_CURRENT, "device", None) is not self:
            raise WrongPlaceError(f"{self.name} is used while it is not the current device of this thread")

    def upload(self, array):
        if isinstance(array, OnDevice):
            raise WrongPlaceError("an array of a device is uploaded")
        self.require_current()
        self.uploads.append(array.nbytes)
        return placed(np.array(array, order="C"), self)

    def download(self, array):
        out = np.array(self.own(array), order="C")
        self.downloads.append(out.nbytes)
        return out

    def own(self, array):
        """Return an array of this device as NumPy's; raise for any other."""
        if not isinstance(array, OnDevice) or array.home is not self:
            raise WrongPlaceError(f"{type(array).__name__} is not an array of this device")
        return array.view(np.ndarray)

    def check(self):
        """Kernels run."""

    def wait(self):
        self.require_current()

    def pinned(self, shape, dtype):
        return np.empty(shape, dtype)

    def copier(self):
        self.require_current()
        return Copier(self)


class Copier:
    """Copies that are done when kernels wait for them."""

    def __init__(self, device):
        self.device, self.copies = device, []

    def copy(self, to, host):
        assert len(to) == len(host)
        self.copies.append((self.device.own(to), host))

    def wait(self):
        self.arrive()

    def arrive(self):
        for to, host in self.copies:
            to[...] = host
        self.copies.clear()


class ReferenceKernels:
    """The kernels of the reference by the signatures of `adjudge.gpu.passes.DeviceKernels`."""

    def __init__(self, device):
        self.device = device

    def _launch(self, name):
        self.device.require_current()
        self.device.launches.append((name, threading.get_ident()))
        if self.device.lost is not None:
            raise self.device.lost

    def _on(self, array):
        return None if array is None else self.device.own(array)

    def _votes(self, layout):
        assert layout.device is self.device
        return self._on(layout.ptr).astype(np.int64), self._on(layout.row)

    def _keys(self, ties):
        if ties.keys is not None:
            return self._on(ties.keys)
        salt = np.array([ties.salt], np.int64).view(np.uint64)
        return reference.mix(reference.hash_integers(self._on(ties.numbers)) ^ salt)

    def _out(self, labels, k, tie, **out):
        labels = self._on(labels)
        assert labels.dtype == label_type(k)
        assert tie is None or tie.dtype == np.bool_
        return {"labels": labels, "tie": self._on(tie), **{name: self._on(array) for name, array in out.items()}}

    def em_pass(
        self,
        layout,
        table,
        log_prior,
        ties,
        label_hash,
        *,
        hard,
        by_prior,
        delta=False,
        likelihood=True,
        unit=None,
        labels,
        tie=None,
        **out,
    ):
        self._launch("em_pass")
        out = self._out(labels, len(log_prior), tie, **out)
        how = {"hard": hard, "by_prior": by_prior, "delta": delta, **({} if unit is None else {"unit": unit})}
        model = self._on(table), log_prior, self._keys(ties), label_hash
        sums = reference.em_pass(*self._votes(layout), *model, **how, **out)
        return sums._replace(
            classification=float("nan"), log_likelihood=sums.log_likelihood if likelihood or not hard else float("nan")
        )

    def majority(
        self, layout, row_label, ties, label_hash, *, tie_weights, soft, row_weight=None, unit=None, labels, tie=None, **out
    ):
        self._launch("majority")
        out = self._out(labels, len(label_hash), tie, **out)
        how = {"tie_weights": tie_weights, "soft": soft, **({} if unit is None else {"unit": unit})}
        given = self._on(row_label), self._keys(ties), label_hash
        reference.majority(*self._votes(layout), *given, row_weight=self._on(row_weight), **how, **out)

    def recount_hard(self, layout, labels, counts, class_counts, times=1):
        self._launch("recount_hard")
        codes, counts = self._on(labels), self._on(counts)
        assert codes.dtype == label_type(counts.shape[1])
        reference.recount_hard(*self._votes(layout), codes, counts, self._on(class_counts), times)

    def weight_shares(self, layout, row_label, table, out):
        self._launch("weight_shares")
        self._on(out)[...] = reference.weight_shares(*self._votes(layout), self._on(row_label), self._on(table))

    def votes_per_row(self, layout, rows):
        self._launch("votes_per_row")
        return placed(np.bincount(self._on(layout.row), minlength=rows), self.device)

    def confusion_table(self, counts, worker_ptr, smoothing):
        self._launch("confusion_table")
        return tuple(
            placed(one, self.device) for one in reference.confusion_table(self._on(counts), self._on(worker_ptr), smoothing)
        )

    def restore_counts(self, counts, rest=None, unit=reference.LOG_UNIT):
        self._launch("restore_counts")
        reference.restore_counts(self._on(counts), self._on(rest), unit)

    def classification(self, counts, class_counts, table, log_prior):
        self._launch("classification")
        assert type(class_counts) is np.ndarray
        return reference.classification(self._on(counts), class_counts, self._on(table), log_prior)

    def pair_sums(self, layout, row_label, labels, values, n_labels, row_weight=None):
        self._launch("pair_sums")
        given = self._on(row_label), self._on(labels), self._on(values)
        return reference.pair_sums(*self._votes(layout), *given, n_labels, self._on(row_weight))

    def honest_pass(self, layout, row_label, labels, lines, without, rule, *, row_weight=None, **out):
        self._launch("honest_pass")
        given = (self._on(array) for array in (row_label, labels, lines, without))
        on = {name: self._on(array) for name, array in out.items()}
        reference.honest_pass(*self._votes(layout), *given, rule, row_weight=self._on(row_weight), **on)

    def below_chance(self, layout, row_label, labels, lines, without, rule, row_worker, worker_ptr, unit, sums, row_weight=None):
        self._launch("below_chance")
        given = (self._on(array) for array in (row_label, labels, lines, without))
        ids = self._on(row_worker), self._on(worker_ptr)
        reference.below_chance(*self._votes(layout), *given, rule, *ids, unit, self._on(sums), self._on(row_weight))
