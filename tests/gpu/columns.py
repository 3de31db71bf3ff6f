"""Arrays that say they are on a device, over NumPy's; and a device without kernels."""

from contextlib import nullcontext

import numpy as np

from gpu.strict import DeviceArray


class HostDevice:
    """NumPy in place of a device: for what needs no kernel."""

    xp = np
    name, number = "host", None

    def current(self):
        return nullcontext()

    def upload(self, array):
        return np.array(array)

    def download(self, array):
        return np.array(array)

    def program(self, source, **constants):
        raise AssertionError(f"kernels of {source} are not here")


class InterfaceArray:
    """An array with `__cuda_array_interface__` alone, as libraries without DLPack have it."""

    def __init__(self, values, dtype=None):
        self.values = np.asarray(values, dtype)

    @property
    def __cuda_array_interface__(self):
        return self.values.__array_interface__

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


class PackedArray:
    """An array that DLPack says is on a CUDA device."""

    def __init__(self, values, dtype=None, device=0, kind=2):
        self.values, self._where = np.asarray(values, dtype), (kind, device)

    def __dlpack__(self, **options):
        return self.values.__dlpack__()

    def __dlpack_device__(self):
        return self._where


class StrictColumn(DeviceArray):
    """An array of the emulated device that is as strict as CuPy's, and says where it is."""

    def __dlpack_device__(self):
        return 2, 0


def column_on(device, array, kind=PackedArray):
    """Return a column on a device: in truth, or as near as can be."""
    if device.xp is np:
        return kind(array)
    return device.upload(array) if device.number is not None else StrictColumn(np.array(array))
