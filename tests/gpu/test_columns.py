"""Columns on a device: which sources count, and which columns are refused."""

from types import SimpleNamespace

import numpy as np
import pytest

import adjudge as adj
from adjudge.errors import InputError, OptionError
from adjudge.gpu.encode import columns_of, device_number
from adjudge.io.sources import Opened, is_device_source
from gpu.columns import HostDevice, InterfaceArray, PackedArray

UNNAMED = {"task": None, "worker": None, "label": None}


def three(kind=PackedArray, **first):
    return kind([7, 7, 8], np.int64, **first), kind([1, 2, 1], np.int32), kind([0, 1, 1], np.uint8)


@pytest.mark.parametrize("kind", [PackedArray, InterfaceArray])
def test_columns_are_taken_in_place(kind):
    given = three(kind)
    found = columns_of(HostDevice(), given, UNNAMED)
    for array, own in zip(found[:3], given, strict=True):
        assert np.shares_memory(array, own.values)
        assert array.dtype == own.values.dtype


def test_recognised_without_a_library():
    assert is_device_source(three())
    assert is_device_source(list(three(InterfaceArray)))
    assert is_device_source(dict(zip("abc", three(), strict=True)))
    assert is_device_source((np.zeros(3), *three()[1:]))  # mixed: an error that names the one on the host
    host = [np.zeros(3, int)] * 3
    for other in (host, tuple(host), {"task": host[0]}, three()[:2], "votes.csv", [("t", "w", "l")] * 3, None, np.zeros((3, 3))):
        assert not is_device_source(other)
    assert not is_device_source([PackedArray([1], kind=1)] * 3)  # DLPack of the host
    assert Opened(three()).home == "cuda"
    assert Opened(host).home is None


def test_an_array_that_does_not_say_where_it_is():
    class Odd:
        def __dlpack_device__(self):
            raise RuntimeError("sparse arrays are nowhere")

    assert not is_device_source((Odd(), Odd(), Odd()))


def test_the_number_of_the_device():
    assert device_number(tuple(PackedArray([1], device=3) for _ in range(3))) == 3
    assert device_number(three(InterfaceArray)) == 0
    assert device_number({"task": PackedArray([1], device=2)}) == 2


def test_names_of_columns():
    columns = dict(zip(("item", "judge", "score"), three(), strict=True))
    found = columns_of(HostDevice(), columns | {"confidence": PackedArray([1.0])}, UNNAMED)
    assert found.notes.columns == {"task": "item", "worker": "judge", "label": "score"}
    assert found.notes.ignored == "confidence"
    other = columns_of(HostDevice(), dict(zip(("a", "b", "c"), three(), strict=True)), {"task": "a", "worker": "c", "label": "b"})
    assert other.worker.tolist() == [0, 1, 1]


def wrong(role, value):
    return tuple(value if name == role else array for name, array in zip(("task", "worker", "label"), three(), strict=True))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (wrong("worker", PackedArray([[1, 2, 3]])), "the workers have 2 dimensions, shape (1, 3): give an array with one"),
        (wrong("label", PackedArray([0, 1])), "different lengths (3 tasks, 3 workers, 2 labels)"),
        (wrong("label", PackedArray([0.0, 1.0, 2.0])), "the labels are of type float64: give whole numbers or booleans"),
        (wrong("task", PackedArray([0j, 1j, 2j])), "the tasks are of type complex128: give whole numbers"),
        (wrong("task", PackedArray([True, False, True])), "the tasks are of type bool: give whole numbers"),
        (wrong("worker", np.array([1, 2, 3])), "the workers are on the host, but the tasks and labels on a CUDA device"),
        (wrong("worker", [1, 2, 3]), "the workers are on the host"),
        (wrong("label", PackedArray([0, 1, 1], device=1)), "the labels are on CUDA device 1, but the tasks on device 0"),
        (wrong("task", PackedArray([1, 2, 2**63], np.uint64)), "a task is greater than 9223372036854775807"),
        (tuple(PackedArray([], np.int64) for _ in range(3)), "the arrays of votes are empty"),
        ({"task": three()[0], "label": three()[2]}, "worker"),
    ],
)
def test_refused_in_one_line(source, message):
    with pytest.raises(InputError) as caught:
        columns_of(HostDevice(), source, UNNAMED)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tuple_has_no_names():
    with pytest.raises(InputError, match="task names a column, and a tuple of arrays has none"):
        columns_of(HostDevice(), three(), {**UNNAMED, "task": "item"})
    assert len(columns_of(HostDevice(), three(), {**UNNAMED, "worker": ""}).task) == 3  # majority vote: workers may be absent


def test_an_array_that_cannot_be_taken():
    class Torn(PackedArray):
        def __dlpack__(self, **options):
            raise BufferError("the memory is gone")

    with pytest.raises(InputError, match=r"the tasks cannot be taken from .*Torn \(the memory is gone\)"):
        columns_of(HostDevice(), (Torn([1]), Torn([1]), Torn([1])), UNNAMED)


def test_the_other_interface_where_dlpack_fails():
    class Both(InterfaceArray):
        def __dlpack__(self, **options):
            raise BufferError("booleans are not known here")

        def __dlpack_device__(self):
            return 2, 0

    given = Both([True, False])
    found = columns_of(HostDevice(), (PackedArray([1, 2]), PackedArray([1, 2]), given), UNNAMED).label
    assert np.shares_memory(found, given.values)


def test_small_numbers_and_booleans():
    found = columns_of(
        HostDevice(), (PackedArray([3, 4], np.uint64), PackedArray([1, 2], np.int8), PackedArray([True, False])), UNNAMED
    )
    assert found.task.dtype == np.int64
    assert found.worker.dtype == np.int8
    assert found.label.dtype == np.bool_
    assert columns_of(HostDevice(), tuple(PackedArray(np.arange(9)[::3]) for _ in range(3)), UNNAMED).task.flags.c_contiguous


def test_arrays_that_say_where_they_are_only_when_taken():
    """Those without DLPack: the library that takes them knows their device."""

    class OnSecond(np.ndarray):
        device = SimpleNamespace(id=1)

    class Taking(HostDevice):
        number = 0
        xp = SimpleNamespace(ndarray=OnSecond, asarray=lambda value: np.asarray(value).view(OnSecond), from_dlpack=None)

    with pytest.raises(InputError, match="the tasks are on CUDA device 1, but the fit on device 0: give all on one device"):
        columns_of(Taking(), three(InterfaceArray), {})


def test_other_ways_in_say_where_to_go():
    with pytest.raises(InputError, match="arrays on a CUDA device are not read into memory"):
        adj.read(three())
    with pytest.raises(OptionError, match="engine is 'cpu', but the votes are on a CUDA device: choose 'auto' or 'cuda'"):
        adj.aggregate(three(), engine="cpu")
