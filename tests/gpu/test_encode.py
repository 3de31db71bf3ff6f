"""Votes encoded on a device: the same arrays as `adjudge.read` makes of the same columns."""

import pickle
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import adjudge as adj
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, SuspiciousVotes
from adjudge.gpu import encode as module
from adjudge.gpu.device import device_at, device_count
from adjudge.gpu.encode import encode
from adjudge.gpu.votes import DeviceVotes
from adjudge.io.encode import over_labels
from adjudge.io.reading import Reading
from adjudge.io.sources import Opened
from gpu.columns import HostDevice, InterfaceArray, PackedArray, column_on
from gpu.strict import StrictDevice

ROLES = ("task", "worker", "label")


WAYS = [("host", "sorts"), ("emulated", "sorts"), ("emulated", "kernels"), ("cuda", "sorts"), ("cuda", "kernels")]


@pytest.fixture(params=WAYS, ids="-".join)
def device(request, monkeypatch):
    """Both ways of numbering: over NumPy, on the emulator with arrays as strict as CuPy's, on a CUDA device where there is one."""
    where, way = request.param
    if where == "cuda" and not device_count():
        pytest.skip("no CUDA device")
    if where == "emulated":
        request.getfixturevalue("emulated")  # or a word of why not
    monkeypatch.setattr(module, "MIN_KERNEL_VOTES", 0 if way == "kernels" else 1 << 40)
    monkeypatch.setattr(module, "SPARE_SLOTS", 16)  # so that few votes meet hashes, and pairs that are hashed, too
    monkeypatch.setattr(module, "FIRST_SLOTS", 16)  # which are too few for some
    return device_at(0) if where == "cuda" else StrictDevice() if where == "emulated" else HostDevice()


def columns_of(votes, types=(np.int64, np.int64, np.int64)):
    return {role: np.array(some, kind) for role, some, kind in zip(ROLES, zip(*votes, strict=True), types, strict=True)}


def on_device(device, columns, kind=PackedArray):
    """Return columns as arrays on a device, or on its emulation."""
    return {role: column_on(device, array, kind) for role, array in columns.items()}


def require_same(found, wanted):
    """Assert that two sets of votes are equal, array by array."""
    assert isinstance(found, DeviceVotes)
    assert len(found) == len(wanted)
    assert found.n_tasks == wanted.n_tasks
    for name in ("task_ptr", "row", "worker_ptr", "row_label"):
        mine, theirs = getattr(found, name), getattr(wanted, name)
        assert (name, mine.dtype, mine.tolist()) == (name, theirs.dtype, theirs.tolist())
    for name in ("tasks", "workers", "labels", "unvoted"):
        mine, theirs = getattr(found, name), getattr(wanted, name)
        assert (name, len(mine), mine.ids()) == (name, len(theirs), theirs.ids())
        assert mine.kind == theirs.kind or not len(mine), name
        assert mine.is_declared == theirs.is_declared
    assert found.understood.votes == wanted.understood.votes
    assert found.understood.repeated == wanted.understood.repeated
    assert found.duplicates == wanted.duplicates
    assert found.abstentions == 0
    assert found.row_weight is None


NEAR, FAR = st.integers(-3, 4), st.integers(-(2**63) + 1, 2**63 - 1)
COLUMN = st.sampled_from([NEAR, st.sampled_from([-(2**62), 5, 6, 2**62, 2**63 - 1]), FAR, st.just(4)])


@st.composite
def integer_votes(draw):
    """Lists of three whole numbers: ids near each other or far apart, repeated or not, in any order."""
    return draw(st.lists(st.tuples(draw(COLUMN), draw(COLUMN), draw(COLUMN)), min_size=1, max_size=60))


@pytest.mark.filterwarnings("ignore::adjudge.errors.SuspiciousVotes")
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(integer_votes())
def test_same_as_read(device, votes):
    columns = columns_of(votes)
    require_same(encode(device, on_device(device, columns)), adj.read(columns))


@pytest.mark.filterwarnings("ignore::adjudge.errors.SuspiciousVotes")
@pytest.mark.parametrize("types", [(np.int32, np.int16, np.uint8), (np.uint16, np.int8, np.bool_)])
def test_types(device, types):
    random = np.random.default_rng(3)
    columns = {
        role: random.integers(0, 2 if kind is np.bool_ else 9, 300).astype(kind) for role, kind in zip(ROLES, types, strict=True)
    }
    require_same(encode(device, on_device(device, columns, InterfaceArray)), adj.read(columns))


@pytest.mark.parametrize("size", [1, 31, 32, 33, 255, 256, 257, 1025])
def test_sizes(device, size):
    """Blocks, warps and words of bits that end in the middle."""
    random = np.random.default_rng(size)
    columns = {
        "task": random.integers(0, size, size),
        "worker": random.integers(-9, 9, size),
        "label": random.integers(0, 3, size),
    }
    with _quiet():
        require_same(encode(device, on_device(device, columns)), adj.read(columns))


def test_long_tasks_and_repeats(device):
    random = np.random.default_rng(1)
    columns = {"task": random.integers(0, 3, 900), "worker": random.integers(0, 200, 900), "label": random.integers(0, 3, 900)}
    with _quiet():
        found, wanted = encode(device, on_device(device, columns)), adj.read(columns)
    require_same(found, wanted)
    assert found.understood.repeated > 0
    assert len(found.layout.long_tasks) == 3


def test_many_pairs_of_few_votes(device):
    """More pairs of workers and labels than tables have slots: pairs are hashed themselves."""
    random = np.random.default_rng(4)
    columns = {role: random.integers(0, 90, 200) for role in ROLES}
    with _quiet():
        require_same(encode(device, on_device(device, columns)), adj.read(columns))


def test_the_whole_range_of_ids(device):
    """No number is left that stands for none: sorts take over."""
    ends = [-(2**63), 2**63 - 1, 0, -(2**63), 7, 2**63 - 1]
    columns = {role: np.array(ends) for role in ROLES}
    require_same(encode(device, on_device(device, columns)), adj.read(columns))


def test_a_tuple_is_task_worker_label(device):
    columns = columns_of([(5, 1, 0), (5, 2, 1), (4, 1, 1)])
    found = encode(device, tuple(on_device(device, columns).values()))
    assert found.tasks.ids() == [5, 4]
    assert found.task_ptr.tolist() == [0, 2, 3]
    assert str(found.understood) == "arrays on a device; 3 votes"


@pytest.mark.parametrize("labels", [[2, 0, 1], ["1", "0", "2", "9"], [0, 1, 2]])
def test_declared_labels(device, labels):
    columns = columns_of([(1, 1, 0), (1, 2, 2), (2, 1, 1), (2, 2, 2), (3, 1, 2)])
    require_same(encode(device, on_device(device, columns), Reading(labels=tuple(labels))), adj.read(columns, labels=labels))


def test_an_undeclared_label(device):
    columns = columns_of([(1, 1, 0), (1, 2, 7), (2, 1, 1), (2, 2, 8)])
    with pytest.raises(InputError) as wanted:
        adj.read(columns, labels=[0, 1])
    with pytest.raises(InputError) as caught:
        encode(device, on_device(device, columns), Reading(labels=(0, 1)))
    assert str(caught.value) == str(wanted.value)


def test_what_looks_wrong_is_reported(device):
    columns = columns_of([(n, n % 3, n % 2) for n in range(40)])
    with pytest.warns(SuspiciousVotes, match="every one of 40 tasks has one vote"):
        encode(device, on_device(device, columns))
    with pytest.raises(InputError, match="strict"):
        encode(device, on_device(device, columns), Reading(strict=True))


@pytest.mark.parametrize(
    "option", [{"duplicates": "last"}, {"weight": "label"}, {"wide": True}, {"abstain": [-1]}, {"question": "q"}]
)
def test_options_of_the_host_are_refused(option):
    columns = on_device(HostDevice(), columns_of([(1, 1, 0), (1, 2, 1)]))
    with pytest.raises(OptionError, match=r"copy the arrays to the host \(array.get\(\), tensor.cpu\(\)\)"):
        encode(HostDevice(), columns, Reading.of(option))


def some_votes(device):
    random = np.random.default_rng(7)
    columns = {
        "task": random.integers(0, 40, 400) * 7 - 50,
        "worker": random.integers(0, 9, 400),
        "label": random.integers(1, 4, 400),
    }
    with _quiet():
        return encode(device, on_device(device, columns)), adj.read(columns)


def test_nothing_of_the_size_of_votes_or_tasks_comes_to_the_host():
    """Covers reading, and a fit's queries before it loads the votes."""

    class Watched(HostDevice):
        longest = 0

        def download(self, array):
            Watched.longest = max(Watched.longest, len(array))
            return np.array(array)

    random = np.random.default_rng(7)
    columns = {"task": np.arange(6000) // 2, "worker": random.integers(0, 9, 6000), "label": random.integers(1, 4, 6000)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjudge.gpu.votes.PART", 100)
        votes = encode(Watched(), on_device(Watched(), columns))
        (
            votes.votes_per_row(),
            votes.given_labels(),
            repr(votes),
            len(votes.tasks),
            votes.tasks[5],
            votes.tasks.codes([7]),
            Opened(votes).home,
        )
        list(votes.with_fields(understood=None).tasks.take(np.array([3])).ids())
    assert Watched.longest <= 201
    assert not {"row", "task_ptr"} & votes.__dict__.keys()
    assert not votes.tasks.is_on_host


def test_votes_on_a_device_are_votes(monkeypatch):
    found, wanted = some_votes(HostDevice())
    assert isinstance(found, Votes)
    assert Opened(found).home == "cuda"
    assert repr(found) == repr(wanted)
    assert np.array_equal(found.votes_per_row(), wanted.votes_per_row())
    monkeypatch.setattr("adjudge.gpu.votes.PART", 7)
    for _ in range(2):  # before the arrays are on the host, and after
        assert [found.votes_on(t) for t in range(found.n_tasks)] == np.diff(wanted.task_ptr).tolist()
        ptr, row = found.votes_in(slice(3, 9))
        assert np.array_equal(ptr, wanted.votes_in(slice(3, 9))[0])
        assert np.array_equal(row, wanted.votes_in(slice(3, 9))[1])
        parts, tasks = list(found.parts()), list(found.task_parts())
        assert np.array_equal(np.concatenate([row for _, _, row in parts]), wanted.row)
        assert [i for _, some, _ in tasks for i in some.ids()] == wanted.tasks.ids()
        assert np.array_equal(np.concatenate([sizes for _, _, sizes in tasks]), np.diff(wanted.task_ptr))
        assert found.task_ptr[-1] == len(wanted)
        assert found.row[0] == wanted.row[0]


def test_ids_are_found_on_the_device():
    found, wanted = some_votes(HostDevice())
    asked = [wanted.tasks[3], str(wanted.tasks[4]), f"0{max(wanted.tasks.ids())}", "x", "-", 10**30, -3, True]
    assert found.tasks.codes(asked).tolist() == wanted.tasks.codes(asked).tolist()
    assert found.tasks[-1] == wanted.tasks[-1]
    assert not found.tasks.is_on_host
    codes = np.array([5, 2, 5])
    assert found.tasks.take(codes).ids() == wanted.tasks.take(codes).ids()
    assert not found.tasks.is_on_host
    with pytest.raises(IndexError):
        found.tasks[len(wanted.tasks)]
    everything = found.tasks.codes(wanted.tasks.ids() * 2)
    assert everything.tolist() == list(range(len(wanted.tasks))) * 2


def test_pickled_votes_are_plain():
    found, wanted = some_votes(HostDevice())
    plain = pickle.loads(pickle.dumps(found))
    assert type(plain) is Votes
    assert Opened(plain).home is None
    assert np.array_equal(plain.row, wanted.row)
    assert plain.tasks.ids() == wanted.tasks.ids()


@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [3, 2, 1]])
def test_over_more_labels(labels):
    found, wanted = some_votes(HostDevice())
    mine, theirs = (over_labels(votes, Vocabulary.of(labels), "history") for votes in (found, wanted))
    assert np.array_equal(mine.row, theirs.row)
    assert np.array_equal(mine.row_label, theirs.row_label)
    assert isinstance(mine, DeviceVotes) == (labels == sorted(labels))
    assert mine.labels.ids() == labels


def test_every_step_is_reported(device):
    steps = []
    with _quiet():
        encode(
            device,
            on_device(device, columns_of([(n % 7, n % 3, n % 2) for n in range(50)])),
            stage=lambda *step: steps.append(step),
        )
    assert [name for name, _ in steps][-3:] == ["sort", "votes by task", "lengths of tasks"]
    assert all(size > 0 for _, size in steps)


@contextmanager
def _quiet():
    """Let votes look suspicious, as random ones do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousVotes)
        yield
