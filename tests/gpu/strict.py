"""Arrays of the emulated device that are as strict as CuPy's: what mixes host and device fails here, not on the device alone.

An array of the host and one of the device do not meet; nothing becomes an array of the host by itself; sums and elements are
arrays of the device, not numbers; memory that was never written holds 0xAA. Inside `must_be_current` nothing is done with
arrays while no device is current, as with several devices it would be done on the wrong one.
"""

import functools
import threading
import weakref
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from gpu.emulated import PATTERN, EmulatedCopier, EmulatedDevice, EmulationError

KINDS = "biufc"  # dtype kinds of device arrays
MISSING = {  # functions of NumPy that CuPy has not
    "char", "frompyfunc", "insert", "ma", "memmap", "ndenumerate", "ndindex", "nditer", "rec", "recarray", "strings",
}  # fmt: skip
FROM_HOST = {"array", "asanyarray", "asarray", "ascontiguousarray"}  # functions that copy from the host
NUMBERS = {"item", "tolist", "tobytes"}  # methods that copy to the host, and say so
HOST_ONLY = {"__array_interface__", "__array_struct__", "base", "byteswap", "ctypes", "newbyteorder", "setflags", "tofile"}


_WATCHES = []


class Allocations:
    """The bytes of the arrays of the device that were made in a context, and are alive: now, and at most."""

    def __init__(self):
        self.now = self.peak = 0
        self._known = {}  # of owners of memory, by their id

    def __enter__(self):
        _WATCHES.append(self)
        return self

    def __exit__(self, *_):
        _WATCHES.remove(self)

    def note(self, array):
        while isinstance(array.base, np.ndarray):
            array = array.base
        if id(array) not in self._known:
            self._known[id(array)] = weakref.finalize(array, self._free, id(array), array.nbytes)
            self.now += array.nbytes
            self.peak = max(self.peak, self.now)

    def _free(self, key, size):
        del self._known[key]
        self.now -= size


class DeviceArray(NDArrayOperatorsMixin):
    """An array on the emulated device."""

    __hash__ = None

    def __init__(self, inner):
        if inner.dtype.kind not in KINDS:
            raise EmulationError(f"a device has no arrays of {inner.dtype}")
        self._inner = inner
        for watch in _WATCHES:
            watch.note(inner)

    def __array__(self, *args, **kwargs):
        raise TypeError("an array of the device becomes one of the host by download() alone")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return _call(getattr(ufunc, method), f"{ufunc.__name__}.{method}", inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return getattr(STRICT, function.__name__)(*args, **kwargs)

    def __getattr__(self, name):
        if name in HOST_ONLY or name.startswith("__"):
            raise AttributeError(f"an array of the device has no {name}")
        found = getattr(self._inner, name)
        if not callable(found):
            return _there(found)
        if name in NUMBERS:
            return found
        return lambda *args, **kwargs: _call(found, name, args, kwargs)

    def __getitem__(self, key):
        if isinstance(key, slice | int):  # a view: nothing runs on the device
            return _there(self._inner[key])
        return _call(self._inner.__getitem__, "[…]", (key,), {})

    def __setitem__(self, key, value):
        _call(self._inner.__setitem__, "[…] =", (key, value), {})

    def __len__(self):
        return len(self._inner)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __bool__(self):
        return bool(self._inner)

    def __int__(self):
        return int(self._inner)

    def __float__(self):
        return float(self._inner)

    def __index__(self):
        return self._inner.__index__()

    def __repr__(self):
        return f"DeviceArray({self._inner!r})"


_CURRENT = threading.local()
_CHECKS = []


@contextmanager
def must_be_current():
    """Let functions of arrays fail while no device is current."""
    _CHECKS.append(True)
    try:
        yield
    finally:
        _CHECKS.pop()


def _call(function, name, args, kwargs, refuse=True):
    """Return what a function of NumPy returns of arrays of the device, there."""
    if _CHECKS and not getattr(_CURRENT, "depth", 0):
        raise EmulationError(f"{name} of arrays of a device while none is current")
    return _there(function(*_inside(args, name, refuse), **_inside(kwargs, name, refuse)))


def _inside(value, name, refuse):
    """Return a value with NumPy's arrays in place of the device's; raise for arrays of the host."""
    if isinstance(value, DeviceArray):
        return value._inner
    if isinstance(value, np.ndarray) and value.ndim and refuse:
        raise EmulationError(f"an array of the host meets the device in {name}: upload() it")
    if type(value) in (tuple, list):
        return type(value)(_inside(one, name, refuse) for one in value)
    if type(value) is dict:
        return {key: _inside(one, name, refuse) for key, one in value.items()}
    return value


def _there(value):
    """Return a value with the device's arrays in place of NumPy's; numbers of NumPy are arrays without dimensions there."""
    if isinstance(value, np.ndarray):
        return DeviceArray(value)
    if isinstance(value, np.generic):
        return DeviceArray(np.array(value))
    if isinstance(value, tuple | list):
        return tuple(map(_there, value)) if isinstance(value, tuple) else [_there(one) for one in value]
    return value


class _Ufunc:
    """A function of elements, with its methods."""

    def __init__(self, ufunc):
        self._ufunc = ufunc

    def __call__(self, *args, **kwargs):
        return _call(self._ufunc, self._ufunc.__name__, args, kwargs)

    def __getattr__(self, name):
        return lambda *args, **kwargs: _call(getattr(self._ufunc, name), f"{self._ufunc.__name__}.{name}", args, kwargs)


class _Strict(ModuleType):
    """NumPy's functions over arrays of the device."""

    ndarray = DeviceArray

    def __getattr__(self, name):
        if name in MISSING:
            raise AttributeError(f"CuPy has no {name}")
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            return _Ufunc(found)
        if isinstance(found, type) or not callable(found):
            return found
        return functools.partial(self._run, found, name)

    def _run(self, function, name, *args, **kwargs):
        if name == "repeat" and not isinstance(kwargs.get("repeats", args[1] if len(args) > 1 else None), int | list | tuple):
            raise EmulationError("repeats of CuPy's repeat are a number or a list, no array: index by a running sum instead")
        if name == "lexsort" and isinstance(args[0], tuple | list):
            raise EmulationError("keys of CuPy's lexsort are one array, [keys, n]: stack them")
        out = _call(function, name, args, kwargs, refuse=name not in FROM_HOST)
        if name in FROM_HOST and isinstance(args[0], np.ndarray):
            out = DeviceArray(np.array(out._inner, order="C"))  # a copy, never the memory of the host
        if name.startswith("empty"):
            out._inner.reshape(-1).view(np.uint8)[:] = PATTERN
        return out


STRICT = _Strict("strict")


class StrictDevice(EmulatedDevice):
    """The emulated device with strict arrays."""

    xp = STRICT

    @contextmanager
    def current(self):
        _CURRENT.depth = getattr(_CURRENT, "depth", 0) + 1
        try:
            yield
        finally:
            _CURRENT.depth -= 1

    def upload(self, array):
        if isinstance(array, DeviceArray):
            raise EmulationError("what is uploaded is on the device already")
        return DeviceArray(np.array(array, order="C"))

    def download(self, array):
        if not isinstance(array, DeviceArray):
            raise EmulationError(f"only arrays of the device can be downloaded, not {type(array).__name__}")
        return np.array(array._inner, order="C")

    def compiled(self, text, name="source", **constants):
        return StrictProgram(super().compiled(text, name, **constants))

    def copier(self):
        return StrictCopier()


class StrictProgram:
    """Kernels that take arrays of the device alone."""

    def __init__(self, program):
        self._program = program

    def launch(self, kernel, blocks, threads, *args, shared=0):
        for at, value in enumerate(args):
            if isinstance(value, np.ndarray):
                raise EmulationError(f"argument {at} of kernel {kernel} is an array of the host: upload() it")
        inner = [one._inner if isinstance(one, DeviceArray) else one for one in args]
        self._program.launch(kernel, blocks, threads, *inner, shared=shared)


class StrictCopier(EmulatedCopier):
    """Copies to arrays of the device from those of the host."""

    def copy(self, to, host):
        if not isinstance(to, DeviceArray) or not isinstance(host, np.ndarray):
            raise EmulationError("a copy goes from an array of the host to one of the device")
        super().copy(to._inner, host)
