"""The engine around the kernels: the same answers as on the processor, for one device and several, resident and streamed."""

import gc
import pickle
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adjudge as adj
import contract
from adjudge.engines.passes import Answers
from adjudge.engines.registry import engine_with, resolve
from adjudge.gpu import passes, store
from adjudge.gpu.engine import CudaEngine
from adjudge.gpu.passes import DeviceKernels
from adjudge.gpu.state import DeviceCounts, DeviceParameters
from adjudge.models.base import MODELS
from gpu.crowds import little_memory
from gpu.reference_device import ReferenceDevice, ReferenceKernels
from same_fit import assert_same, fit
from strategies import crowds

RUNS = [name for name in MODELS if MODELS[name].place != "memory"]
KINDS = ("one", "three", "streamed")


def engine_of(kind, votes=None, gold=None, **how):
    """Return an engine of reference devices; one that streams has just the memory for its tables and a few votes."""
    devices = tuple(ReferenceDevice(f"device {n}") for n in range({"one": 1, "three": 3, "streamed": 2}[kind]))
    if kind == "streamed" and votes is not None:
        how["memory"] = little_memory(votes, gold=gold)
    return CudaEngine(devices, kernels=ReferenceKernels, threads=1, **how)


def crowd(seed=3, labels=3, tasks=60, **how):
    return adj.simulate(tasks=tasks, workers=9, labels=labels, votes_per_task=4, seed=seed, **how)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=KINDS[1:])
def divided(request):
    """What one device does is among what three do."""
    return request.param


class OnDevices:
    """What the contract takes for an engine: it makes a new one for the votes at hand."""

    name, place = "cuda", "process"

    def __init__(self, kind):
        self.kind = kind

    def read(self, source, **options):
        return engine_of("one").read(source, **options)

    def load(self, votes, **known):
        return engine_of(self.kind, votes).load(votes, **known)


# Models whose passes differ. The others differ only in how the processor turns counts into tables.
PASSES = ("auto", "mv", "ds", "fds", "hybrid", "iwmv")


@pytest.mark.parametrize("model", PASSES)
@pytest.mark.parametrize("check", contract.CHECKS)
def test_contract(check, model):
    if check in ("long_tasks_do_not_underflow", "many_labels_work") and model in ("hybrid", "iwmv"):
        pytest.skip("the passes are those of ds and fds")
    contract.CHECKS[check](model, OnDevices("one"))


@pytest.mark.parametrize("model", [name for name in RUNS if name not in PASSES])
def test_other_models(model):
    some = crowd(labels=2)
    how = {"gold": dict(some.truth.head(20).iter_rows())} if model == "goldmv" else {}
    votes = adj.read(some.votes, labels=["l0", "l1"])
    assert_same(*(fit(votes, model, engine=engine, **how) for engine in (engine_of("one"), "cpu")))


# What devices and streams could change.
DIVIDED = (
    "engines_agree",
    "honest_confidence_is_the_same_everywhere",
    "tiny_crowds_have_one_answer",
    "long_tasks_do_not_underflow",
)


@pytest.mark.parametrize("model", ["auto", "ds", "fds"])
@pytest.mark.parametrize("check", DIVIDED)
@pytest.mark.parametrize("of", KINDS[1:])
def test_contract_on_several_devices(check, model, of):
    if check in ("long_tasks_do_not_underflow", "tiny_crowds_have_one_answer") and (model, of) != ("ds", "streamed"):
        pytest.skip("such tasks are on one device, as any other")
    contract.CHECKS[check](model, OnDevices(of))


@pytest.mark.parametrize("model", ["mv", "fds", "ds", "auto"])
@settings(max_examples=8)
@given(votes=crowds(), known=st.integers(0, 2), of=st.sampled_from(KINDS))
def test_any_crowd(model, votes, known, of):
    votes = adj.read(votes)
    gold = {task: label for task, _, label in _votes_of(votes)[:known]} or None
    far, near = (fit(votes, model, engine=engine, gold=gold) for engine in (engine_of(of, votes, gold), "cpu"))
    assert_same(far, near)
    if model in ("mv", "fds"):
        assert np.array_equal(far.fit.outcome.labels, near.fit.outcome.labels)


def _votes_of(votes):
    task = np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
    ids, labels = votes.tasks.ids(), votes.labels.ids()
    return [(ids[t], None, labels[votes.row_label[row]]) for t, row in zip(task, votes.row, strict=True)]


@pytest.mark.parametrize("model", ["auto", "ds", "fds", "iwmv", "goldmv", "zbs"])
def test_gold(divided, model):
    some = crowd(skill=0.5)
    votes, gold = adj.read(some.votes), dict(some.truth.head(20).iter_rows())
    assert_same(*(fit(votes, model, engine=engine, gold=gold) for engine in (engine_of(divided, votes, gold), "cpu")))


def test_gold_of_every_task(divided):
    some = crowd()
    votes, gold = adj.read(some.votes), dict(some.truth.iter_rows())
    for model in ("mv", "ds", "fds", "auto"):
        assert_same(*(fit(votes, model, engine=engine, gold=gold) for engine in (engine_of(divided, votes, gold), "cpu")))


@pytest.mark.parametrize("model", ["mv", "ds", "fds", "auto", "iwmv"])
@pytest.mark.parametrize("known", [0, 15])
def test_weights(divided, model, known):
    some, draw = crowd(skill=0.5), np.random.default_rng(1)
    frame = some.votes.with_columns(weight=draw.choice([0.5, 1.0, 2.0], len(some.votes)))
    votes = adj.read(frame, weight="weight")
    gold = dict(some.truth.head(known).iter_rows()) or None
    assert_same(*(fit(votes, model, engine=engine, gold=gold) for engine in (engine_of(divided, votes, gold), "cpu")))


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
@pytest.mark.parametrize(
    "options",
    [
        {"smoothing": 0.5},
        {"ties": "prior"},
        {"trace": "light"},
        {"stop": "labels"},
        {"strength": 2.0},
        {"priors": {"l0": 0.6, "l1": 0.3, "l2": 0.1}},
        {"priors": {"l0": 0.6, "l1": 0.3, "l2": 0.1}, "priors_weight": 5.0},
        {"accelerate": True},
        {"seed": 7},
    ],
    ids=",".join,
)
def test_options(model, options):
    if model == "fds" and "accelerate" in options:
        pytest.skip("its passes are hard: nothing to extrapolate")
    votes = adj.read(crowd().votes)
    assert_same(*(fit(votes, model, engine=engine, **options) for engine in (engine_of("three", votes), "cpu")))


@pytest.mark.parametrize("model", ["ds", "fds"])
def test_options_of_streamed_fits(model):
    votes, options = adj.read(crowd().votes), {"smoothing": 0.5, "ties": "prior", "trace": "light", "stop": "labels", "seed": 7}
    assert_same(*(fit(votes, model, engine=engine, **options) for engine in (engine_of("streamed", votes), "cpu")))


@pytest.mark.parametrize("model", ["ds", "fds", "auto"])
def test_history_and_warm_start(divided, model):
    before, votes = fit(crowd(seed=1).votes, model), adj.read(crowd(seed=2).votes)
    for known in ({"history": before}, {"warm_start": before}):
        if set(known) <= MODELS[model].takes:
            assert_same(*(fit(votes, model, engine=engine, **known) for engine in (engine_of(divided, votes), "cpu")))


@pytest.mark.parametrize("model", ["auto", "mv", "ds"])
def test_what_a_result_is_asked_for(kind, model, tmp_path):
    votes = adj.read(crowd(skill=0.5, adversaries=0.2).votes)
    gold = {"t1": "l0", "t2": "l1"}
    engine = engine_of(kind, votes, gold)
    far, near = (fit(votes, model, engine=one, gold=gold) for one in (engine, "cpu"))
    for ask in (
        lambda result: result.workers_frame(),
        lambda result: result.posterior,
        lambda result: result.ask_next(10).select("expected_gain"),  # many gain as much, but for the last bits
        lambda result: result.probabilities,
    ):
        _close(ask(far), ask(near))
    assert str(far.explain("t5")) == str(near.explain("t5"))
    worker = votes.workers.ids()[0]
    if MODELS[model].scoring == "confusion":
        _close(far.confusion(worker), near.confusion(worker))
    others = crowd(seed=8).votes
    far.save(tmp_path / "far.adjudge")
    for one in (far, adj.load(tmp_path / "far.adjudge")):
        there = adj.read(others)
        assert_same(one.predict(others, engine=engine_of(kind, there)), near.predict(others))


def _close(ours, theirs):
    assert ours.columns == theirs.columns
    for name in ours.columns:
        if ours[name].dtype.is_float():
            assert np.allclose(ours[name].to_numpy(), theirs[name].to_numpy(), atol=1e-9, equal_nan=True), name
        else:
            assert ours[name].equals(theirs[name]), name


@pytest.mark.parametrize("model", ["auto", "ds", "mv", "iwmv", "glad"])
def test_pickled(divided, model):
    votes = adj.read(crowd().votes)
    made = fit(votes, model, engine=engine_of(divided, votes))
    again = pickle.loads(pickle.dumps(made))
    assert_same(again, made)
    _close(again.posterior, made.posterior)


def test_a_pickled_result_loads_without_devices():
    made = fit(crowd().votes, "ds", engine=engine_of("one"))
    device = made.session._store._engine.devices[0]
    device.number = 10**6  # as a CUDA device is pickled
    data = pickle.dumps(made)
    again = pickle.loads(data)  # there is no such CUDA device
    assert not hasattr(again.session._store._engine, "devices")
    _close(again.posterior, made.posterior)


def test_a_pickled_result_loads_where_devices_are_too_small():
    votes = adj.read(crowd().votes)
    made = fit(votes, "ds", engine=engine_of("one"))
    made.session._store._engine.devices[0].free = 1000
    again = pickle.loads(pickle.dumps(made))
    assert not hasattr(again.session._store._engine, "devices")
    _close(again.posterior, made.posterior)


@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
def test_tables_of_the_paper_never_visit_the_host(model):
    votes = adj.read(crowd(tasks=400).votes)
    engine = engine_of("one")
    session = engine.load(votes, seed=0, ties="hash")
    device = engine.devices[0]
    session.start(hard=True)
    device.uploads.clear()
    device.downloads.clear()
    table, seen = 8 * votes.n_rows * votes.n_labels, []
    count = {"progress": lambda _: seen.append(device.downloads.count(table))}
    made = fit(votes, model, engine=engine, confidence="posterior", trace="light", **count)
    assert max(device.uploads) < table
    assert seen == [0] * made.iterations  # counts and table come to the host for the result, in the end
    assert isinstance(made.session._params, DeviceParameters)
    assert isinstance(made.session._counted[0], DeviceCounts)
    assert sum(name == "confusion_table" for name, _ in device.launches) >= made.iterations


def test_votes_are_copied_once_for_fits_over_them():
    votes, engine = adj.read(crowd(tasks=500).votes), engine_of("three")
    counted = []
    for model in ("mv", "ds", "fds"):
        for device in engine.devices:
            device.uploads.clear()
        fit(votes, model, engine=engine, confidence="posterior")
        counted.append([max(device.uploads) for device in engine.devices])
    first, *others = counted
    for place in range(3):
        assert first[place] > 4 * len(votes) // 4
        assert all(other[place] < first[place] for other in others)


def test_streamed_votes_are_in_two_buffers():
    votes = adj.read(crowd(tasks=300).votes)
    engine = replace(engine_of("streamed", votes), memory=little_memory(votes, parts=8))
    made = fit(votes, "fds", engine=engine)
    store = made.session._store
    assert store.is_streamed
    assert len(store._plan.cuts) > 10
    for stream in store._streams:
        held = sum(buffer.nbytes for some in stream._buffers for buffer in some)
        assert held < 4 * len(votes) // 2


def test_a_stream_waits_for_the_copy_that_no_pass_asked_for():
    """Its memory is given to others afterwards."""
    votes = adj.read(crowd(tasks=300).votes)
    made = fit(votes, "fds", engine=engine_of("streamed", votes))
    copiers = [stream._copier for stream in made.session._store._streams]
    assert any(copier.copies for copier in copiers)
    del made
    gc.collect()
    assert not any(copier.copies for copier in copiers)


def test_each_device_has_a_thread_that_waits_for_it():
    votes, engine = adj.read(crowd(tasks=300).votes), engine_of("streamed")
    meeting = threading.Barrier(2)

    class Meeting(ReferenceKernels):
        def recount_hard(self, *given, **how):
            meeting.wait(timeout=60)  # a device that waited for the other one would wait forever
            return super().recount_hard(*given, **how)

    session = replace(engine, kernels=Meeting, memory=None).load(votes, seed=0, ties="hash")
    assert session.recount(np.zeros(votes.n_tasks, np.int32)).class_counts.tolist() == [votes.n_tasks, 0, 0]


def test_integer_ids_are_hashed_on_the_device(kind):
    some = crowd(tasks=40).votes
    frame = some.with_columns(task=some["task"].str.slice(1).cast(int) * 1_000_003 - 7)
    votes = adj.read(frame)
    assert votes.tasks.kind == "integer"
    for seed in (0, 1, 2**63 + 5):
        far, near = (adj.MajorityVote(seed=seed).fit(votes, engine=engine) for engine in (engine_of(kind, votes), "cpu"))
        assert far.ties
        assert_same(far, near)


def test_start(divided):
    votes = adj.read(crowd().votes)
    start = np.arange(votes.n_tasks) % 3
    far, near = (adj.FastDawidSkene().fit(votes, engine=engine, start=start) for engine in (engine_of(divided, votes), "cpu"))
    assert_same(far, near)


def test_what_needs_all_votes_in_memory_is_refused_unless_auto_chose():
    votes = adj.read(crowd(labels=2).votes)
    with pytest.raises(adj.OptionError, match="engine 'cuda' cannot run model 'kos': choose engine='cpu'"):
        fit(votes, "kos", engine=engine_of("one"))
    for model in (name for name in MODELS if MODELS[name].place == "memory" and name != "panel"):  # a panel needs gold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(fit(votes, model, engine=engine_of("three", is_automatic=True)), fit(votes, model, engine="cpu"))


def test_auto_leaves_to_the_processor_what_devices_cannot_do():
    votes = adj.read(crowd(labels=30, tasks=100).votes)
    made = engine_of("one")
    made.devices[0].shared_bytes = 256 + 24 * 20  # room for 20 labels
    with pytest.raises(adj.AdjudgeError, match="device 0 takes at most 20 labels, and there are 30: choose engine='cpu'"):
        fit(votes, "fds", engine=made)
    assert_same(*(fit(votes, "fds", engine=engine) for engine in (replace(made, is_automatic=True), "cpu")))


def test_verdicts_and_groups(divided):
    votes = adj.read(crowd(skill=0.5, adversaries=0.3, tasks=120).votes)
    far, near = (fit(votes, "auto", engine=engine) for engine in (engine_of(divided, votes), "cpu"))
    _close(far.workers_frame(trust=True), near.workers_frame(trust=True))


@pytest.fixture(scope="module", params=[1, 2], ids=["one device", "two devices"])
def emulated_engine(request):
    from gpu.emulated import compiler
    from gpu.strict import StrictDevice, must_be_current

    if compiler() is None:
        pytest.skip("no g++ to compile the kernels for the processor")
    with must_be_current():
        yield CudaEngine(tuple(StrictDevice() for _ in range(request.param)), kernels=DeviceKernels, threads=1)


@pytest.mark.parametrize("model", ["mv", "fds", "ds", "hybrid", "one-coin", "iwmv", "auto", "glad"])
def test_the_kernels_themselves(emulated_engine, model):
    for labels, seed, known in ((2, 1, 0), (3, 3, 9)):
        some = crowd(seed=seed, labels=labels, tasks=40)
        votes, gold = adj.read(some.votes), dict(some.truth.head(known).iter_rows()) or None
        assert_same(*(fit(votes, model, engine=engine, gold=gold) for engine in (emulated_engine, "cpu")))


def test_the_kernels_themselves_over_streamed_votes(emulated_engine):
    some = crowd(tasks=40)
    votes, gold = adj.read(some.votes), dict(some.truth.head(9).iter_rows())
    engine = replace(emulated_engine, memory=little_memory(votes, gold=gold))
    for model in ("mv", "fds", "ds", "auto", "glad"):
        far, near = (fit(votes, model, engine=place, gold=gold) for place in (engine, "cpu"))
        assert far.session._store.is_streamed
        assert_same(far, near)


@pytest.mark.parametrize("model", ["mv", "fds", "ds", "auto"])
@pytest.mark.parametrize("check", ["symmetric_crowds_stay_tied", "ids_are_their_text", "the_smallest_inputs_work"])
def test_contract_of_the_kernels_themselves(emulated_engine, check, model):
    if len(emulated_engine.devices) > 1 and check != "the_smallest_inputs_work":
        pytest.skip("ties and ids are the same on any number of devices")
    contract.CHECKS[check](model, emulated_engine)


def test_tables_of_careful_workers_and_honest_lines_stay_on_the_device(emulated_engine):
    made = fit(crowd(tasks=80, adversaries=0.2).votes, "auto", engine=emulated_engine)
    assert made.facts["chose"] == "careful"
    session = made.session
    assert isinstance(session._params, DeviceParameters)
    honest = made.fit.honest.honest
    ours = [one.on_host() for one in session._inputs(Answers(honest.rule), honest.lines).values()]
    theirs = honest.lines(session._block, session._counts)
    labels = np.repeat(np.arange(session.votes.n_labels)[None], session.votes.n_rows, axis=0)
    voted = session._counts[np.arange(session.votes.n_rows)[:, None], labels] > 0
    assert np.allclose(ours[0], theirs[0], atol=1e-12)
    assert np.allclose(ours[1][voted], theirs[1][voted], atol=1e-12)


@pytest.mark.parametrize("engine", ["auto", "cuda"])
def test_resolve(engine, monkeypatch):
    from adjudge.engines import registry
    from adjudge.gpu import engine as home

    devices = (ReferenceDevice(),)
    monkeypatch.setattr(home, "device_count", lambda: 1)
    monkeypatch.setattr(home, "device_at", lambda number: devices[number])
    monkeypatch.setattr(home, "find_spec", lambda name: name)
    votes = adj.read(crowd().votes)
    here = resolve("auto").name
    assert resolve("auto", source=votes).name == here
    monkeypatch.setattr(registry, "LARGE_VOTES", 100)
    assert resolve("auto", source=votes).name == here
    monkeypatch.setattr(home, "crossover_votes", lambda threads, *, warm: len(votes))
    found = resolve(engine_with(engine, threads=3), source=votes)
    assert (found.name, found.threads, found.devices) == ("cuda", 3, devices)
    assert found.is_automatic == (engine == "auto")
    assert resolve(adj.Cuda(memory="2GB")).memory == 2 * 10**9
    assert resolve("auto", source=crowd().votes).name == "cuda"
    with pytest.raises(adj.OptionError, match="work is for engine='disk'"):
        engine_with("cuda", work="folder")
    assert resolve(adj.Cuda(memory="1MB")).memory == 10**6  # of a device, which no reading takes some of
    with pytest.raises(adj.OptionError, match="give at least 286.1 MiB"):
        resolve(adj.AutoEngine(memory="1MB"))
    monkeypatch.setattr(devices[0], "check", broken, raising=False)  # kernels do not compile, say
    assert resolve("auto", source=votes).name == here
    monkeypatch.setattr(home, "device_count", lambda: 0)
    assert resolve("auto", source=votes).name == here


def broken():
    raise adj.AdjudgeError("no compiler")


class QuickKernels(DeviceKernels):
    """The kernels that are for many votes, for few as well."""

    min_narrow_votes = min_sorted_votes = 0
    sorted_from_cached = 1


def _made_of(votes):
    """Return the names of the arrays derived from the votes on each device."""
    return [set(layout._memo) for layout, _ in store._RESIDENT[votes].shards]


def test_the_kernels_for_many_votes(emulated_engine):
    votes, engine = adj.read(crowd(tasks=40).votes), replace(emulated_engine, kernels=QuickKernels)
    for _ in range(2):  # sorted copies of the votes are kept for the next fit over them
        for model in ("mv", "fds", "auto", "ds"):
            assert_same(*(fit(votes, model, engine=place, trace="light") for place in (engine, "cpu")))
    assert all("tiles 3" in made for made in _made_of(votes))


def test_a_limit_of_memory_leaves_no_room_for_sorted_copies(emulated_engine):
    votes = adj.read(crowd(tasks=40).votes)
    for memory, is_sorted in ((None, True), (1 << 30, False)):
        for model in ("fds", "auto"):
            fit(votes, model, engine=replace(emulated_engine, kernels=QuickKernels, memory=memory), trace="light")
        assert all(("tiles 3" in made) == is_sorted for made in _made_of(votes))


def test_fits_of_several_threads_over_the_same_votes(emulated_engine, monkeypatch):
    """Each fit has its own list of doubtful tasks, whichever scan comes in between."""
    votes = adj.read(adj.simulate(tasks=120, workers=15, labels=3, votes_per_task=4, seed=1, skill=0.4).votes)
    models = [adj.FastDawidSkene(smoothing=smoothing) for smoothing in (0.0, 5.0)]
    engine = CudaEngine(emulated_engine.devices[:1], kernels=QuickKernels, threads=1)
    how = {"trace": "light", "confidence": "posterior"}
    wanted = [model.fit(votes, engine="cpu", **how).fit.outcome.labels for model in models]
    meeting, scan = threading.Barrier(2), passes.scan

    def scan_then_meet(*given):
        found = scan(*given)
        with suppress(threading.BrokenBarrierError):  # one fit may have more passes
            meeting.wait(timeout=1)
        return found

    monkeypatch.setattr(passes, "scan", scan_then_meet)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda model: np.asarray(model.fit(votes, engine=engine, **how).fit.outcome.labels), models))
    assert [one.tolist() for one in found] == [one.tolist() for one in wanted]


def test_a_device_has_one_copy_of_votes():
    votes, engine = adj.read(crowd().votes), engine_of("one")
    copies = []
    for seed in range(3):  # which text ids are hashed with on the host
        fit(votes, "mv", engine=engine, seed=seed)
        copies.append(weakref.ref(store._RESIDENT[votes].shards[0][0]))
    gc.collect()
    assert [copy() is not None for copy in copies] == [False, False, True]


@pytest.mark.parametrize(
    "options", [{"smoothing": 0.5}, {"ties": "prior"}, {"trace": "light"}, {"weight": "weight"}], ids=",".join
)
def test_the_kernels_themselves_with_options(emulated_engine, options):
    frame = crowd(tasks=40).votes
    frame = frame.with_columns(weight=np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(frame)))
    frame = frame if "weight" in options else frame.drop("weight")
    for model in ("ds", "fds"):
        far, near = (fit(frame, model, engine=engine, **options) for engine in (emulated_engine, "cpu"))
        assert_same(far, near)
        _close(far.workers_frame(), near.workers_frame())
        _close(far.posterior, near.posterior)
        assert np.allclose(far.ask_next(5)["expected_gain"].to_numpy(), near.ask_next(5)["expected_gain"].to_numpy(), atol=1e-9)
        assert_same(far.predict(frame, engine=emulated_engine), near.predict(frame))
