"""Results of fits on a device: the same frames as on the processor, and arrays that stay where they are."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

import adjudge as adj
from adjudge.data.votes import Votes
from adjudge.errors import AdjudgeError, InputError, OptionError, SuspiciousVotes
from adjudge.gpu import engine as gpu_engine
from adjudge.gpu import store
from adjudge.gpu.arrays import TaskArray
from adjudge.gpu.engine import CudaEngine, CudaResult
from adjudge.gpu.votes import DeviceVotes
from adjudge.models.base import MODELS
from gpu.columns import PackedArray, column_on
from gpu.reference_device import OnDevice, ReferenceDevice, ReferenceKernels, placed
from gpu.strict import must_be_current


class Functions:
    """NumPy's functions, over arrays of a device."""

    def __init__(self, device):
        self._device = device

    def __getattr__(self, name):
        function = getattr(np, name)
        if isinstance(function, type):
            return OnDevice

        def call(*given, **options):
            found = function(*(one.view(np.ndarray) if isinstance(one, OnDevice) else one for one in given), **options)
            several = isinstance(found, tuple)
            out = [placed(one, self._device) if isinstance(one, np.ndarray) else one for one in (found if several else (found,))]
            return tuple(out) if several else out[0]

        return call


class WatchedDevice(ReferenceDevice):
    """A device that knows how long the arrays were that left it."""

    def __init__(self, *given):
        super().__init__(*given)
        self.xp, self.longest = Functions(self), 0

    def download(self, array):
        self.longest = max(self.longest, len(array))
        return super().download(array)


@pytest.fixture
def engine(monkeypatch):
    """An engine over a device of the reference's kernels, as "cuda" finds it."""
    made = CudaEngine((WatchedDevice(),), kernels=ReferenceKernels)
    monkeypatch.setattr(gpu_engine, "cuda_engine", lambda threads, memory=None, **_: replace(made, memory=memory))
    return made


def columns(tasks=60, votes=400, seed=5):
    """Votes of nine workers of different skill on some tasks, as whole numbers, in any order."""
    random = np.random.default_rng(seed)
    task, worker = random.integers(0, tasks, votes), random.integers(0, 9, votes)
    truth = random.integers(0, 3, tasks)
    right = random.random(votes) < np.linspace(0.4, 0.95, 9)[worker]
    return {
        "task": task * 11 - 40,
        "worker": worker + 100,
        "label": np.where(right, truth[task], random.integers(0, 3, votes)) + 1,
    }


def on_device(given):
    return {role: PackedArray(array) for role, array in given.items()}


def require_same_frames(found, wanted):
    for name in ("labels", "probabilities", "posterior", "workers", "priors"):
        mine, theirs = getattr(found, name), getattr(wanted, name)
        assert mine.columns == theirs.columns
        for column in mine.columns:
            if mine[column].dtype.is_float():
                assert np.allclose(mine[column], theirs[column], rtol=0, atol=1e-9, equal_nan=True), (name, column)
            else:
                assert mine[column].to_list() == theirs[column].to_list(), (name, column)


@pytest.mark.parametrize("confidence", ["posterior", "honest"])
@pytest.mark.parametrize("model", ["mv", "fds", "ds", "auto"])
def test_tensors_to_labels(engine, model, confidence):
    """Nothing of the size of votes or tasks visits the host before the first frame, which then equals the processor's."""
    given = columns(tasks=900, votes=6000)
    found = adj.aggregate(on_device(given), model=model, confidence=confidence)
    assert type(found) is CudaResult
    assert isinstance(found.votes, DeviceVotes)
    assert isinstance(found.labels_array, OnDevice)
    assert found.labels_array.dtype == np.int32
    assert isinstance(found.confidence_array, OnDevice)
    assert isinstance(found.tasks_array, OnDevice)
    repr(found), found.facts, found.iterations
    errors, ties = found.expected_errors, found.ties
    assert adj.aggregate(found.votes, model="mv").votes is found.votes  # another fit of the same votes reads nothing
    outcome = found.fit.outcome
    assert not outcome.labels.is_on_host
    assert not outcome.confidence.is_on_host
    assert not outcome.tie.is_on_host
    assert not {"row", "task_ptr"} & found.votes.__dict__.keys()
    assert not found.votes.tasks.is_on_host
    wanted = adj.aggregate(given, model=model, confidence=confidence, engine="reference")
    assert errors == pytest.approx(wanted.expected_errors)
    assert ties == wanted.ties
    assert found.tasks_array.tolist() == wanted.votes.tasks.ids()
    assert np.array_equal(found.labels_array.view(np.ndarray), wanted.fit.outcome.labels)
    require_same_frames(found, wanted)
    assert found.expected_errors == pytest.approx(errors)
    assert found.ties == ties


def test_the_longest_array_that_leaves_is_short(engine):
    given = columns(tasks=900, votes=6000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjudge.gpu.votes.PART", 20)  # what reading looks at, to say what looks wrong
        result = adj.aggregate(on_device(given), model="fds")
    assert result.labels_array is not None
    assert engine.devices[0].longest < 300


@pytest.mark.parametrize("seed", range(3))
def test_bit_equal_labels(engine, seed):
    given = columns(tasks=40, votes=160, seed=seed)  # many ties
    for model in ("mv", "fds"):
        found, wanted = (
            adj.aggregate(tuple(map(PackedArray, given.values())), model=model),
            adj.aggregate(given, model=model, engine="cpu"),
        )
        assert found.labels["label"].to_list() == wanted.labels["label"].to_list()
        assert found.ties == wanted.ties


def test_votes_of_the_host_stay_there_too(engine):
    """Labels and confidence of a fit over votes of the host are on the device; pandas, text and gold as ever."""
    votes = [(f"t{t}", f"w{w}", "abc"[(t * w) % 3]) for t in range(30) for w in range(4)]
    found, wanted = adj.aggregate(votes, model="fds", engine="cuda"), adj.aggregate(votes, model="fds", engine="cpu")
    assert type(found) is CudaResult
    assert isinstance(found.fit.outcome.labels, TaskArray)
    assert found.labels_array.tolist() == wanted.fit.outcome.labels.tolist()
    with pytest.raises(InputError, match="the tasks are ids of kind string: take them from result.labels"):
        _ = found.tasks_array
    require_same_frames(found, wanted)
    gold = {"t1": "a", "t2": "b"}
    found, wanted = (adj.aggregate(votes, model="fds", engine=name, gold=gold) for name in ("cuda", "cpu"))
    assert found.labels_array.tolist() == wanted.fit.outcome.labels.tolist()
    require_same_frames(found, wanted)


def test_everything_that_results_can_do(engine):
    given = columns()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SuspiciousVotes)
        found, wanted = adj.aggregate(on_device(given), model="ds"), adj.aggregate(given, model="ds", engine="reference")
    task = wanted.votes.tasks[3]
    assert str(found.explain(task)) == str(wanted.explain(task))
    assert found.ask_next(5)["task"].to_list() == wanted.ask_next(5)["task"].to_list()
    assert np.allclose(found.confusion_matrix(101), wanted.confusion_matrix(101))
    some = {"task": [1, 1], "worker": [101, 102], "label": [1, 2]}
    assert found.predict(some).labels.rows() == wanted.predict(some).labels.rows()
    mine, theirs = (one.predict(on_device(given) if one is found else given) for one in (found, wanted))
    require_same_frames(mine, theirs)
    assert adj.evaluate(found, dict(zip(wanted.labels["task"], wanted.labels["label"], strict=True))).accuracy == 1.0
    assert found.learned().knowledge.counts.shape == wanted.learned().knowledge.counts.shape
    assert found.understood.votes == 400
    assert adj.agreement(found.votes) is not None


def test_gold_by_ids_of_the_device(engine):
    given = columns()
    gold = {-40: 1, -29: 2}
    found, wanted = (
        adj.aggregate(on_device(given), model="fds", gold=gold),
        adj.aggregate(given, model="fds", gold=gold, engine="reference"),
    )
    require_same_frames(found, wanted)


def test_gold_of_other_tasks(engine):
    given = on_device(columns())
    with pytest.raises(InputError, match="none of the 2 tasks of the gold has votes"):
        adj.aggregate(given, model="fds", gold={1: 1, 2: 2})
    with pytest.warns(SuspiciousVotes, match="3 of the 4 tasks of the gold have no votes"):
        adj.aggregate(given, model="fds", gold={-40: 1, 1: 2, 2: 1, 3: 1})


def test_other_engines_and_other_devices_are_refused(engine):
    given = on_device(columns())
    with pytest.raises(OptionError, match="engine is 'cpu', but the votes are on a CUDA device"):
        adj.aggregate(given, engine="cpu")
    engine.devices[0].number = 0
    with pytest.raises(OptionError, match="the votes are on CUDA device 1, but the engine on reference device"):
        adj.aggregate({role: PackedArray(array, device=1) for role, array in columns().items()})


def test_pickled_results_are_of_the_host(engine):
    given = columns()
    found = adj.aggregate(on_device(given), model="fds")
    again = pickle.loads(pickle.dumps(found))
    assert type(again.votes) is Votes
    assert isinstance(again.fit.outcome.labels, np.ndarray)
    assert again.labels.rows() == found.labels.rows()


def test_an_array_of_tasks():
    device = WatchedDevice()
    array = TaskArray(device, placed(np.array([2, 0, 1], np.uint8), device), np.int32)
    assert len(array) == 3
    assert array.shape == (3,)
    assert array.dtype == np.int32
    assert not array.is_on_host
    assert array.on_device().dtype == np.int32
    assert array.total() == 3
    assert not array.is_on_host
    assert (array.parts[1:].array == placed(np.array([0, 1]), device)).all()
    assert array.parts is array.parts
    assert not array.is_on_host
    assert (array == np.array([2, 0, 1])).all()
    assert array.is_on_host
    assert np.array_equal(array, [2, 0, 1])
    assert np.shares_memory(np.asarray(array), array.host)
    assert array[1:].tolist() == [0, 1]
    assert array.astype(np.int64).sum() == 3
    assert np.bincount(array).tolist() == [1, 1, 1]
    assert (array + array)[0] == 4
    copy = pickle.loads(pickle.dumps(array))
    assert type(copy) is np.ndarray
    assert copy.dtype == np.int32
    empty = TaskArray.to_fill(device, 3, np.int32)
    empty[:] = array
    assert empty.tolist() == [2, 0, 1]
    assert not np.shares_memory(empty.array, array.array)
    empty[:] = np.array([1, 1, 1])
    assert empty.tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="is set as a whole"):
        empty[0] = 1
    assert "3 int32 on reference device" in repr(array)


def test_an_outcome_is_replaced_without_a_copy(engine):
    outcome = adj.aggregate(on_device(columns()), model="fds").fit.outcome
    other = replace(outcome, log_likelihood=0.0)
    assert other.labels is outcome.labels
    assert not outcome.labels.is_on_host


def test_without_the_device():
    result = object.__new__(CudaResult)
    object.__setattr__(result, "session", None)
    with pytest.raises(AdjudgeError, match="loaded without its device"):
        _ = result.device


@pytest.mark.parametrize("model", [name for name in MODELS if MODELS[name].place == "memory" and name != "panel"])
def test_auto_runs_every_model_over_tensors(engine, model):
    """Methods with passes of their own run on the processor, over copies of the votes."""
    given = columns()
    given["label"] = given["label"] % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = adj.aggregate(on_device(given), model=model), adj.aggregate(given, model=model)
    assert found.labels["label"].to_list() == wanted.labels["label"].to_list()
    with pytest.raises(OptionError, match=f"engine 'cuda' cannot run model '{model}'"):
        adj.aggregate(on_device(given), model=model, engine="cuda")


def test_memory_bounds_fits_over_tensors(engine):
    with pytest.raises(AdjudgeError, match="needs about .* are allowed on reference device"):
        adj.aggregate(on_device(columns()), model="ds", engine=adj.Cuda(memory=2000))
    assert len(adj.aggregate(on_device(columns()), model="ds", engine=adj.AutoEngine(memory="1GB")).labels)


def test_votes_of_other_fits_make_room_for_encoding(engine):
    votes = adj.read(columns())
    adj.aggregate(votes, model="mv", engine=engine)
    assert votes in store._RESIDENT
    engine.devices[0].free = 2000
    with pytest.raises(AdjudgeError, match="are free on"):
        adj.aggregate(tuple(ShapedArray(one) for one in columns().values()), model="mv", engine="cuda")
    assert votes not in store._RESIDENT


class ShapedArray(PackedArray):
    """One that says its shape, as those of all libraries do."""

    @property
    def shape(self):
        return self.values.shape


def test_verdicts_refit_as_on_the_processor(engine):
    """Two workers who copy each other: a verdict asks what a fit without them says."""
    random = np.random.default_rng(2)
    task, worker, truth = np.repeat(np.arange(150), 8), np.tile(np.arange(8), 150), random.integers(0, 3, 150)
    label = np.where(random.random(1200) < 0.8, truth[task], random.integers(0, 3, 1200))
    given = {"task": task, "worker": worker, "label": np.where(worker >= 6, (truth[task] + 1) % 3, label)}
    found, wanted = adj.aggregate(on_device(given), model="fds"), adj.aggregate(given, model="fds", engine="reference")
    assert found.refit is not None
    assert found.workers["verdict"].to_list()[6:] == ["copy", "copy"]
    require_same_frames(found, wanted)


@pytest.mark.parametrize("model", ["mv", "fds", "ds"])
def test_the_kernels_from_tensors_to_labels(device, model, monkeypatch):
    """On the emulator, and on a CUDA device where there is one: encoding and fit by their own kernels."""
    monkeypatch.setattr("adjudge.gpu.encode.MIN_KERNEL_VOTES", 0)
    given = columns(tasks=40, votes=250)
    there = {role: column_on(device, array) for role, array in given.items()}
    with must_be_current():
        found = adj.aggregate(there, model=model, engine=CudaEngine((device,)))
        assert found.expected_errors >= found.ties >= 0
    wanted = adj.aggregate(given, model=model, engine="cpu")
    assert not found.fit.outcome.labels.is_on_host
    assert device.download(found.labels_array).tolist() == wanted.fit.outcome.labels.tolist()
    assert np.allclose(device.download(found.confidence_array), wanted.fit.outcome.confidence, rtol=0, atol=1e-9)
    require_same_frames(found, wanted)
