"""Arrays of the emulated device refuse what CuPy's refuse, and compute what NumPy's compute."""

import numpy as np
import pytest

from gpu.emulated import EmulationError
from gpu.strict import DeviceArray, StrictDevice

device = StrictDevice()
xp = device.xp
HOST = np.arange(6, dtype=np.int64)


@pytest.fixture
def there():
    return device.upload(HOST)


def test_functions_and_operators_are_those_of_numpy(there):
    x = (there * 2 + 1) % 5
    x[2:4] += there[:2]
    x[there == 5] = 7
    assert device.download(x).tolist() == [1, 3, 0, 3, 4, 7]
    assert device.download(xp.where(x > 2, x, -x)).tolist() == [-1, 3, 0, 3, 4, 7]
    assert device.download(np.cumsum(x)).tolist() == [1, 4, 4, 7, 11, 18]  # NumPy hands over to the device's function
    assert device.download(xp.concatenate([x, there[::-1]])[x]).tolist() == [3, 3, 1, 3, 4, 4]
    values, at = xp.unique(x, return_inverse=True)
    assert (device.download(values).tolist(), device.download(at).tolist()) == ([0, 1, 3, 4, 7], [1, 2, 0, 2, 3, 4])
    xp.add.at(x, device.upload(np.array([0, 0])), 5)
    assert x.tolist() == [11, 3, 0, 3, 4, 7]


def test_a_view_is_a_view_and_a_copy_is_a_copy(there):
    there[1:].reshape(-1)[0] = 9
    assert (there.tolist()[1], HOST[1]) == (9, 1)
    again = xp.asarray(HOST)
    again[0] = 9
    assert HOST[0] == 0


def test_sums_and_elements_are_arrays(there):
    for one in (there.sum(), there.argmax(), xp.max(there), there[2], next(iter(there))):
        assert isinstance(one, DeviceArray)
        assert one.shape == ()
    assert int(there.sum()) == 15
    assert float(there[2]) == 2.0
    assert (there > 4).any()


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x + HOST,
        lambda x: HOST + x,
        lambda x: xp.add(x, HOST),
        lambda x: xp.searchsorted(x, HOST),
        lambda x: xp.zeros(6).__setitem__(slice(None), np.ones(6)),
        lambda x: x[HOST],
        lambda x: np.concatenate([HOST, x]),
        device.upload,
        lambda x: device.download(HOST),
        lambda x: xp.repeat(x, x),
        lambda x: xp.lexsort((x, x)),
        lambda x: device.copier().copy(HOST, HOST),
        lambda x: device.upload(np.array(["a"])),
    ],
)
def test_host_and_device_do_not_meet(there, mixed):
    with pytest.raises(EmulationError):
        mixed(there)


@pytest.mark.parametrize(
    "taken", [np.asarray, np.ascontiguousarray, lambda x: HOST[x], lambda x: HOST.__setitem__(slice(None), x)]
)
def test_nothing_comes_back_by_itself(there, taken):
    with pytest.raises(TypeError, match="by download"):
        taken(there)


def test_what_cupy_has_not_is_not_there(there):
    with pytest.raises(AttributeError, match="CuPy has no insert"):
        xp.insert(there, 0, 1)
    with pytest.raises(AttributeError, match="has no ctypes"):
        there.ctypes  # noqa: B018


def test_memory_that_was_never_written_shows():
    assert xp.empty(2, np.uint32).tolist() == [0xAAAAAAAA] * 2
    assert xp.empty_like(xp.zeros(1, np.uint8)).tolist() == [0xAA]


def test_kernels_take_arrays_of_the_device_alone(emulated):
    program = device.compiled('extern "C" __global__ void twice(double* x) { x[threadIdx.x] *= 2.0; }', name="twice")
    x = device.upload(np.arange(3.0))
    program.launch("twice", 1, 2, x[1:])
    assert x.tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(EmulationError, match="argument 0 of kernel twice is an array of the host"):
        program.launch("twice", 1, 1, np.zeros(1))
    with pytest.raises(EmulationError, match="is an array: the parameter is a number"):
        device.compiled('extern "C" __global__ void number(long long x) {}', name="number").launch("number", 1, 1, x.sum())


def test_copies_with_kernels(there):
    copier = device.copier()
    copier.copy(there[1:3], np.array([8, 9]))
    copier.arrive()
    assert there.tolist() == [0, 8, 9, 3, 4, 5]
