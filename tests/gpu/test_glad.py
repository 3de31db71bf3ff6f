"""GLAD on a device against the definition of its passes, and whole fits against the processor."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import adjudge as adj
from adjudge.data import vectors
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes, WorkerRows
from adjudge.engines.base import GladModel
from adjudge.engines.glad import Glad, GladMemoryStore, GladRules
from adjudge.engines.shard import TieKeys
from adjudge.gpu import glad as device_glad
from adjudge.gpu import plan, tables
from adjudge.gpu.arrays import DeviceVector
from adjudge.gpu.engine import CudaEngine
from adjudge.gpu.glad import DeviceGlad, glad_bytes, glad_on
from adjudge.gpu.store import DeviceStore
from adjudge.gpu.votes import DeviceLayout, TieIds
from adjudge.kernels import methods_reference, reference
from adjudge.models import glad
from adjudge.models.glad import _believe
from strategies import crowds

SEED = 7
CLOSE = 1e-11  # relative to the sum of magnitudes


def votes_of(random):
    """Return random votes of the fixture as `Votes`."""
    task = np.repeat(np.arange(random.n_tasks), np.diff(random.task_ptr))
    order = np.lexsort((random.row, task))
    return Votes(
        worker_ptr=random.worker_ptr,
        row_label=random.row_label,
        workers=Vocabulary.of(range(len(random.worker_ptr) - 1)),
        labels=Vocabulary.of(range(random.n_labels)),
        task_ptr=random.task_ptr,
        row=random.row[order],
        tasks=Vocabulary.of(range(100, 100 + random.n_tasks)),
        unvoted=Vocabulary.of(range(0)),
    )


def ties_of(device, votes, *, hashed):
    """Return what decides ties on a device: ready keys, or ids."""
    salt = int(reference.mix(np.array([SEED], np.uint64)).view(np.int64)[0])
    if hashed:
        return TieIds(device.upload(keys_of(votes)), None, salt)
    return TieIds(None, device.upload(np.asarray(votes.tasks.values, np.int64)), salt)


def keys_of(votes):
    return reference.tie_keys(reference.hash_integers(np.asarray(votes.tasks.values, np.int64)), SEED)


class Both:
    """The passes on a device and those of the reference, over the same votes."""

    def __init__(self, device, votes, *, gold=None, by_prior=False, hashed=False, spread=1.0):
        rng = np.random.default_rng(len(votes))
        self.votes, self.device = votes, device
        label_hash = reference.hash_integers(np.arange(votes.n_labels))
        rules = GladRules(methods_reference, 1, label_hash, by_prior, gold)
        self.reference = Glad(votes, rules, GladMemoryStore(votes, keys_of(votes), [slice(0, votes.n_tasks)]))
        layout = DeviceLayout.of(device, votes.task_ptr, votes.row)
        self.tested = DeviceGlad(device, layout, votes, label_hash, ties_of(device, votes, hashed=hashed), by_prior, gold)
        self.x = np.concatenate([rng.normal(1, 1, votes.n_workers) * spread, rng.normal(0, 1, votes.n_tasks)])
        priors = rng.dirichlet(np.ones(votes.n_labels)) * (np.arange(votes.n_labels) != 1 if votes.n_labels > 2 else 1)
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(priors)

    def model(self, passes):
        x = passes.vector()
        x[slice(0, len(x))] = self.x
        return GladModel(x, self.log_prior, float(np.log(max(self.votes.n_labels - 1, 1))))

    def compare(self):
        ability, log_ease = np.split(self.x, [self.votes.n_workers])
        scale = max(1.0, float(np.abs(ability).max())) * float(np.exp(log_ease.max()))
        wanted, got = (self.everything(passes) for passes in (self.reference, self.tested))
        for name, value in wanted.items():
            if name in ("labels", "tie", "changed"):
                assert np.array_equal(got[name], value), name
            else:
                assert_allclose(got[name], value, rtol=CLOSE * scale, atol=CLOSE * scale, err_msg=name)

    def everything(self, passes):
        model, found = self.model(passes), {}
        for time in ("first", "again"):  # the second finds the labels of the first
            sums = passes.expect(model)
            found |= {f"likelihood {time}": sums.log_likelihood, f"changed {time}": sums.changed}
        found["class counts"] = passes.class_counts().copy()
        slope, curvature = (vectors.empty_like(model.x) for _ in range(2))
        found["value"] = passes.gradient(model, slope, curvature, _believe)
        found |= {"slope": np.array(slope[slice(0, None)]), "curvature": np.array(curvature[slice(0, None)])}
        outcome, statistics = passes.finish(model)
        found |= {"labels": outcome.labels, "tie": outcome.tie, "confidence": outcome.confidence, "right": outcome.right_votes}
        found |= {"last likelihood": outcome.log_likelihood, "counts": statistics.counts}
        return found | {"last class counts": statistics.class_counts, "posterior": passes.posterior(model)}


@pytest.mark.parametrize("long_tasks", [(), (128, 700)], ids=["short", "long"])
@pytest.mark.parametrize("k", [1, 2, 3, 33])
def test_passes_give_what_the_reference_gives(device, random_votes, k, long_tasks):
    votes = votes_of(random_votes(k, tasks=150, workers=15, labels=k, long_tasks=long_tasks))
    Both(device, votes, hashed=k == 3).compare()


@pytest.mark.parametrize("spread", [0.0, 1e-7, 50.0, 1e4])
def test_abilities_of_any_size(device, random_votes, spread):
    """None, so that all labels tie; almost none, so that the bound is flat; and so large that exp overflows."""
    votes = votes_of(random_votes(3, tasks=120, labels=3, long_tasks=(150,)))
    Both(device, votes, spread=spread, by_prior=spread == 50.0).compare()
    Both(device, votes_of(random_votes(3, tasks=40, labels=33)), spread=spread).compare()


@pytest.mark.parametrize("k", [3, 33])
def test_gold_keeps_its_label(device, random_votes, k):
    votes = votes_of(random_votes(5, tasks=100, labels=k, long_tasks=(200, 140)))
    gold = np.where(np.arange(100) % 3 == 0, np.arange(100) % k, -1).astype(np.int32)
    gold[gold == 1] = -1  # its prior is 0
    both = Both(device, votes, gold=gold)
    both.compare()
    assert np.array_equal(both.tested.finish(both.model(both.tested))[0].labels[gold >= 0], gold[gold >= 0])


@pytest.mark.parametrize("by_prior", [False, True])
@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("k", [3, 33])
def test_ties_are_decided_alike(device, random_votes, k, hashed, by_prior):
    """Labels of as many votes tie where abilities and priors differ by less than what counts; gold tasks do not."""
    votes = votes_of(random_votes(6, tasks=150, workers=6, labels=k, votes=(1, 4), long_tasks=(130,)))
    gold = np.where(np.arange(150) % 7 == 0, 2, -1).astype(np.int32)
    both = Both(device, votes, hashed=hashed, by_prior=by_prior, gold=gold)
    rng = np.random.default_rng(k)
    both.x[:] = 1.0 + 1e-11 * rng.random(len(both.x))
    both.log_prior = 1e-11 * rng.permutation(k) - np.log(k)
    both.compare()
    tie = both.tested.finish(both.model(both.tested))[0].tie
    assert tie.sum() > 10  # or nothing was tested
    assert not tie[gold >= 0].any()


def test_thousands_of_votes_on_one_task(device, random_votes):
    """All workers are at chance, and the product of all factors would overflow."""
    Both(device, votes_of(random_votes(2, tasks=4, workers=3, labels=2, long_tasks=(34_000,))), spread=0.0).compare()


def test_many_slices_give_the_same(device, random_votes, monkeypatch):
    """Votes that are sorted, looked at and added up in many parts."""
    for name, size in (("SORTED", 100), ("POSTERIOR_CELLS", 120), ("WORKER_SLICE", 40), ("MAX_GLAD_BLOCKS", 1)):
        monkeypatch.setattr(device_glad, name, size)
    monkeypatch.setattr(device_glad, "DEVICE_CHUNK_NUMBERS", 50)
    monkeypatch.setattr(tables, "SLICE", 7)
    Both(device, votes_of(random_votes(8, tasks=400, workers=5, labels=3, long_tasks=(300, 130)))).compare()
    monkeypatch.setattr(device_glad, "WIDE_CELLS", 1)
    Both(device, votes_of(random_votes(8, tasks=90, workers=5, labels=33, long_tasks=(130,)))).compare()


def test_passes_repeat_bit_for_bit(device, random_votes):
    both = Both(device, votes_of(random_votes(9, tasks=200, workers=4, labels=3, long_tasks=(300,))))
    one, other = both.everything(both.tested), both.everything(both.tested)
    assert all(np.array_equal(one[name], other[name]) for name in one if not name.startswith("changed"))


@pytest.mark.parametrize("hashed", [False, True])
def test_what_is_pickled_needs_no_device(device, random_votes, hashed):
    votes = votes_of(random_votes(4, tasks=60, labels=3))
    gold = np.where(np.arange(60) < 5, 2, -1).astype(np.int32)
    both = Both(device, votes, gold=gold, hashed=hashed)
    model = both.model(both.tested)
    of = {name: getattr(votes, name) for name in ("worker_ptr", "row_label", "workers", "labels")}
    for panel in (votes, WorkerRows(**of)):
        both.tested._panel = panel
        passes, at = pickle.loads(pickle.dumps((both.tested, model)))
        assert type(passes) is Glad
        assert isinstance(at.x, np.ndarray)
        assert_allclose(passes.posterior(at), both.tested.posterior(model), atol=1e-12)
        assert np.array_equal(passes.finish(at)[0].labels, both.tested.finish(model)[0].labels)


def test_a_vector_on_a_device_is_one_of_the_processor(device):
    """Every function of data/vectors.py, and the optimiser over them."""
    rng = np.random.default_rng(1)
    host = [rng.normal(0, 3, 1000) for _ in range(3)]
    there = [DeviceVector(device, device.upload(one)) for one in host]
    for one in there:
        one.piece = 300
    assert_allclose(vectors.dot(there[0], there[1]), vectors.dot(host[0], host[1]), rtol=1e-12)
    assert_allclose(vectors.dot(there[0], there[0]), vectors.dot(host[0], host[0]), rtol=1e-12)
    assert vectors.max_abs(there[2]) == vectors.max_abs(host[2])
    got, wanted = (
        (out := vectors.empty_like(of[0]), vectors.compute_into(out, lambda a, b: (a - 2.5 * b) / 3.0, *of[:2], times=of[1]))
        for of in (there, host)
    )
    assert_allclose(np.array(got[0][slice(0, 1000)]), wanted[0], rtol=1e-15)
    assert_allclose(got[1], wanted[1], rtol=1e-12)

    def hill(x):
        slope, curvature = vectors.empty_like(x), vectors.empty_like(x)
        vectors.compute_into(slope, lambda some: -2.0 * some - some**3, x)
        vectors.compute_into(curvature, lambda some: 2.0 + 3.0 * some**2, x)
        return glad.Point(x, -vectors.sum_of_chunks(lambda some: some**2 + 0.25 * some**2 * some**2, x), slope, curvature)

    tops = [glad.climb(hill, hill(of[0]), most_steps=50, share=0.0, least=1e-14) for of in (host, there)]
    assert tops[1].value == pytest.approx(tops[0].value, abs=1e-12)
    assert isinstance(tops[1].x, DeviceVector)
    assert_allclose(np.array(tops[1].x[slice(0, 1000)]), tops[0].x, atol=1e-7)


def test_numbers_of_a_device_refuse_what_would_be_wrong(device):
    some = DeviceVector(device, device.upload(np.arange(3.0)))[slice(0, 2)]
    with pytest.raises(TypeError):
        np.add.reduce(some)
    with pytest.raises(ValueError, match="by a copy only"):
        np.array(some, copy=False)


@pytest.fixture
def fitted(device, monkeypatch):
    """A fit of the engine of devices, whose passes of GLAD must be there."""

    def fit(model, votes, **options):
        with monkeypatch.context() as patch:
            patch.setattr(DeviceStore, "on_processor", None)
            result = model.fit(votes, engine=CudaEngine((device,), threads=1), **options)
            result.posterior  # noqa: B018 (computed on first access)
            return result

    return fit


def assert_same_fit(got, wanted):
    assert got.labels["label"].to_list() == wanted.labels["label"].to_list()
    assert got.labels["tie"].to_list() == wanted.labels["tie"].to_list()
    assert got.iterations == wanted.iterations
    assert got.log_likelihood == pytest.approx(wanted.log_likelihood, rel=1e-9)
    labels = wanted.posterior.columns[1:]
    assert_allclose(got.posterior[labels].to_numpy(), wanted.posterior[labels].to_numpy(), atol=1e-6)
    assert_allclose(got.workers["ability"].to_numpy(), wanted.workers["ability"].to_numpy(), atol=1e-6)
    assert_allclose(got.workers["accuracy"].to_numpy(), wanted.workers["accuracy"].to_numpy(), atol=1e-6)
    assert_allclose(got.labels["difficulty"].to_numpy(), wanted.labels["difficulty"].to_numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "known"),
    [(adj.GLAD(max_iter=20), 0), (adj.GLAD(class_priors="estimated", ties="prior", max_iter=8), 20)],
    ids=["plain", "prior"],
)
@pytest.mark.parametrize("k", [3, 33])
@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
def test_a_fit_is_that_of_the_processor(fitted, random_votes, model, known, k):
    votes = votes_of(random_votes(k, tasks=60, workers=12, labels=k, votes=(2, 7), long_tasks=(140,)))
    gold = {100 + task: task % k for task in range(known)} or None
    assert_same_fit(fitted(model, votes, gold=gold), model.fit(votes, engine="cpu", gold=gold))


@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged")
def test_votes_in_several_shards_come_together_on_one_device(device, random_votes, monkeypatch):
    """What passes write of tasks bounds shards; GLAD's own passes need all votes in one piece."""
    votes, model = votes_of(random_votes(11, tasks=60, labels=3)), adj.GLAD(max_iter=5, tol=0)
    with monkeypatch.context() as patch:
        patch.setattr(plan, "MAX_OUT", 1000)
        patch.setattr(DeviceStore, "on_processor", None)
        shards = DeviceStore(CudaEngine((device,), threads=1), votes, 0, "hash", None)._plan.cuts
        assert len(shards) > 1
        got = model.fit(votes, engine=CudaEngine((device, device), threads=1)), model.fit(votes, engine=CudaEngine((device,)))
        wanted = model.fit(votes, engine="cpu")
    for one in got:
        assert_same_fit(one, wanted)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(crowds(max_labels=3), st.integers(0, 3))
@pytest.mark.filterwarnings("ignore::adjudge.errors.NotConverged", "ignore::adjudge.errors.SuspiciousVotes")
def test_any_small_crowd(fitted, crowd, seed):
    model = adj.GLAD(seed=seed, max_iter=10)
    assert_same_fit(fitted(model, crowd), model.fit(crowd, engine="cpu"))


def test_the_estimate_of_memory_grows_with_everything():
    some = (10_000, 2_000, 50, 200, 4)
    for at in range(5):
        more = [n * 10 if i == at else n for i, n in enumerate(some)]
        assert glad_bytes(*more) > glad_bytes(*some)


@pytest.mark.parametrize("ids", [int, "task {}".format], ids=["numbers", "texts"])
def test_passes_need_room(device, ids):
    votes = adj.read([(ids(task), worker, (task + worker) % 3) for task in range(30) for worker in range(4)])
    known = {"seed": 3, "by_prior": False, "gold": None}
    label_hash = np.arange(3, dtype=np.uint64)
    assert glad_on(device, votes, label_hash, **known, room=1000) is None
    passes = glad_on(device, votes, label_hash, **known, room=1 << 30)
    again = glad_on(device, votes, label_hash, **known, room=1 << 30, resident=(passes._layout, passes._ties))
    assert again._layout is passes._layout
    keys = pickle.loads(pickle.dumps(again))._store._task_key
    assert np.array_equal(keys, TieKeys(reference, votes.tasks, 3).every())
