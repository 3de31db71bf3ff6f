"""Passes on a device against the reference: labels and integer counts bit for bit, the rest to last bits."""

import numpy as np
import pytest

from adjudge.data.exact import LOG_UNIT, unit_below
from adjudge.gpu.passes import DeviceKernels
from adjudge.gpu.votes import TieIds, label_type
from adjudge.kernels import reference

SHAPES = {
    "one label": {"labels": 1},
    "two labels": {"labels": 2},
    "a task": {"tasks": 1, "labels": 3},
    "four labels": {"labels": 4, "tasks": 300},
    "seven labels, long tasks": {"labels": 7, "long_tasks": (128, 300)},
    "thirty labels, long tasks": {"labels": 30, "long_tasks": (200,)},
    "forty labels, as many votes": {"labels": 40, "votes": (30, 60)},
    "three hundred labels": {"labels": 300, "tasks": 20},
}


@pytest.fixture(params=SHAPES)
def votes(request, random_votes):
    return random_votes(**{"seed": 5, "tasks": 80, **SHAPES[request.param]})


class Both:
    """The same pass by the reference and on a device."""

    def __init__(self, device, votes, seed=7):
        self.device, self.v = device, votes
        self.kernels, self.layout = DeviceKernels(device), votes.layout(device)
        rng = np.random.default_rng(seed)
        k = votes.n_labels
        self.label_hash = rng.integers(0, 2**63, k).astype(np.uint64)
        ids = rng.integers(-(10**6), 10**12, votes.n_tasks)
        self.keys = reference.tie_keys(reference.hash_integers(ids), 3)
        salt = int(reference.mix(np.array([3], np.uint64)).view(np.int64)[0])
        self.ties = TieIds(None, device.upload(ids), salt)
        counts = rng.integers(0, 5, (votes.n_rows, k)).astype(np.int64)
        counts[np.arange(votes.n_rows), votes.row_label] += 3
        self.table, _ = reference.confusion_table(counts, votes.worker_ptr, 0.0)
        self.log_prior = np.log(rng.dirichlet(np.ones(k)))

    def tally(self, hard, fine=False, unit=LOG_UNIT):
        rows, k = self.v.n_rows, self.v.n_labels
        if hard:
            return {"counts": np.zeros((rows, k), np.int64), "class_counts": np.zeros(k, np.int64)}
        out = {"counts": np.zeros((rows, k)), "class_counts": np.zeros(k), "class_rest": np.zeros(k), "unit": unit}
        return {**out, "rest": np.zeros((rows, k))} if fine else out

    def decided(self):
        n, k = self.v.n_tasks, self.v.n_labels
        return {"confidence": np.zeros(n), "tie": np.zeros(n, bool), "posterior": np.zeros((n, k))}

    def up(self, arrays):
        return {name: self.device.upload(x) if isinstance(x, np.ndarray) else x for name, x in arrays.items()}

    def em(self, out, labels, table=None, **how):
        """Return the sums of both, and the outputs of the reference and of the device."""
        v, table = self.v, self.table if table is None else table
        mine = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in out.items()}
        there = self.up({**out, "labels": labels.astype(label_type(v.n_labels))})
        mine["labels"] = labels.copy()
        sums = reference.em_pass(v.task_ptr, v.row, table, self.log_prior, self.keys, self.label_hash, **how, **mine)
        found = self.kernels.em_pass(
            self.layout, self.device.upload(table), self.log_prior, self.ties, self.label_hash, **how, **there
        )
        return sums, found, mine, self.down(there)

    def down(self, arrays):
        return {name: x if isinstance(x, (int, float)) else self.device.download(x) for name, x in arrays.items()}


def same(mine, there):
    for name, x in mine.items():
        if isinstance(x, np.ndarray):
            if "rest" in mine and name in ("counts", "class_counts", "rest", "class_rest"):
                continue  # the second sums of fine counts have the last bits of shares: both together are compared
            if x.dtype.kind in "iub":
                assert np.array_equal(x, there[name]), name
            else:
                assert np.allclose(x, there[name], rtol=1e-12, atol=1e-300), name
    for first, second in (("counts", "rest"), ("class_counts", "class_rest")) if "rest" in mine else ():
        for of in (mine, there):
            reference.restore_counts(of[first], of[second], of["unit"])
        assert np.allclose(mine[first], there[first], rtol=1e-12, atol=0), first


@pytest.mark.parametrize("how", ["hard", "delta", "coarse", "fine", "nothing"])
def test_e_steps(device, votes, how):
    both, by_prior = Both(device, votes), how in ("delta", "fine")
    hard = how in ("hard", "delta")
    out = {**both.decided(), **({} if how == "nothing" else both.tally(hard, how == "fine", unit_below(10**6)))}
    if how == "delta":
        reference.recount_hard(votes.task_ptr, votes.row, votes.labels, out["counts"], out["class_counts"])
    sums, found, mine, there = both.em(out, votes.labels, hard=hard, by_prior=by_prior, delta=how == "delta")
    same(mine, there)
    assert (sums.changed, sums.impossible) == (found.changed, found.impossible)
    assert found.log_likelihood == pytest.approx(sums.log_likelihood, rel=1e-12)


def test_labels_without_likelihood(device, votes):
    both = Both(device, votes)
    out = both.tally(True)
    _, found, mine, there = both.em(out, votes.labels, hard=True, by_prior=False, likelihood=False)
    same(mine, there)
    assert np.isnan(found.log_likelihood)


def test_impossible_votes(device, random_votes):
    votes = random_votes(seed=2, tasks=60, labels=4, long_tasks=(150,))
    both = Both(device, votes)
    table = both.table.copy()
    table[np.random.default_rng(1).random(table.shape) < 0.6] = -np.inf
    sums, found, mine, there = both.em(both.decided(), votes.labels, table, hard=True, by_prior=False)
    assert sums.impossible == found.impossible > 0
    assert found.log_likelihood == -np.inf
    same(mine, there)


def test_ties_everywhere(device, random_votes):
    votes = random_votes(seed=4, tasks=120, labels=7)
    both = Both(device, votes)
    table = np.round(both.table)
    table[np.isneginf(table)] = -4.0
    both.log_prior = np.zeros(7)
    _, _, mine, there = both.em(both.decided(), votes.labels, table, hard=True, by_prior=False)
    assert mine["tie"].sum() > 5
    same(mine, there)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_majority(device, random_votes, soft, weighted):
    for shape in ({"labels": 4, "tasks": 200}, {"labels": 40, "long_tasks": (140,)}, {"labels": 7, "long_tasks": (130, 260)}):
        v = random_votes(seed=3, weights=weighted, **shape)
        both = Both(device, v)
        out = {**both.decided(), **both.tally(not soft)}
        mine = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in out.items()}
        mine["labels"] = np.zeros(v.n_tasks, np.int32)
        there = both.up({**out, "labels": np.zeros(v.n_tasks, label_type(v.n_labels))})
        weights = np.arange(v.n_labels) % 3.0
        how = {"tie_weights": weights, "soft": soft}
        votes = v.task_ptr, v.row, v.row_label, both.keys, both.label_hash
        reference.majority(*votes, row_weight=v.row_weight, **how, **mine)
        row_weight = None if v.row_weight is None else device.upload(v.row_weight)
        row_label = device.upload(v.row_label)
        both.kernels.majority(both.layout, row_label, both.ties, both.label_hash, row_weight=row_weight, **how, **there)
        same(mine, both.down(there))


def test_recounts(device, votes):
    both = Both(device, votes)
    for dtype, times in ((np.int64, 1), (np.float64, 2.0**400)):
        counts, classes = np.zeros((votes.n_rows, votes.n_labels), dtype), np.zeros(votes.n_labels, dtype)
        there = device.upload(counts), device.upload(classes)
        reference.recount_hard(votes.task_ptr, votes.row, votes.labels, counts, classes, times)
        labels = device.upload(votes.labels.astype(label_type(votes.n_labels)))
        both.kernels.recount_hard(both.layout, labels, *there, times)
        assert np.array_equal(device.download(there[0]), counts)
        assert np.array_equal(device.download(there[1]), classes)
    assert np.array_equal(
        device.download(both.kernels.votes_per_row(both.layout, votes.n_rows)), np.bincount(votes.row, minlength=votes.n_rows)
    )


def test_tables(device, votes):
    both, rng = Both(device, votes), np.random.default_rng(3)
    shape, ptr = (votes.n_rows, votes.n_labels), device.upload(votes.worker_ptr)
    for counts in (rng.integers(0, 4, shape), rng.random(shape) * (rng.random(shape) < 0.7)):
        for smoothing in (0.0, 0.3):
            wanted = reference.confusion_table(counts, votes.worker_ptr, smoothing)
            found = [device.download(x) for x in both.kernels.confusion_table(device.upload(counts), ptr, smoothing)]
            assert np.allclose(found[1], wanted[1], rtol=1e-15)
            finite = np.isfinite(wanted[0])
            assert np.array_equal(finite, np.isfinite(found[0]))
            assert np.abs(found[0][finite] - wanted[0][finite]).max(initial=0) <= LOG_UNIT
    counts = rng.integers(0, 4, shape)
    classes = rng.integers(0, 9, votes.n_labels)
    table = np.where(rng.random(shape) < 0.1, -np.inf, -rng.random(shape))
    wanted = reference.classification(counts, classes, table, both.log_prior)
    found = both.kernels.classification(device.upload(counts), classes, device.upload(table), both.log_prior)
    assert found == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("unit", [LOG_UNIT, unit_below(20_000_000)])
def test_sums_of_shares_come_back(device, unit):
    from adjudge.data.exact import encode_coarse, encode_fine

    rng = np.random.default_rng(0)
    shares = np.concatenate([rng.random(50), 10.0 ** -rng.uniform(0, 300, 200), [0.0, 1.0]])
    kernels = DeviceKernels(device)
    sums = encode_coarse(shares, unit)
    there = device.upload(sums)
    kernels.restore_counts(there, None, unit)
    wanted = sums.copy()
    reference.restore_counts(wanted, None, unit)
    assert np.array_equal(device.download(there), wanted)
    first, second = encode_fine(shares, unit)
    there = device.upload(first)
    kernels.restore_counts(there, device.upload(second), unit)
    reference.restore_counts(first, second, unit)
    assert np.array_equal(device.download(there), first)


def test_weight_shares(device, random_votes):
    v = random_votes(seed=6, tasks=60, labels=5, long_tasks=(130,))
    both, table = Both(device, v), np.random.default_rng(2).normal(size=(v.n_rows, 5))
    out = device.upload(np.zeros((v.n_tasks, 5)))
    both.kernels.weight_shares(both.layout, device.upload(v.row_label), device.upload(table), out)
    assert np.allclose(device.download(out), reference.weight_shares(v.task_ptr, v.row, v.row_label, table), rtol=1e-12)


class Quick(DeviceKernels):
    """Kernels that take the ways of large data with small ones, too."""

    min_narrow_votes = 0
    min_sorted_votes = 0
    sorted_from_cached = 3


LITTLE_SHARED = (8 << 10) + 64  # bytes: tables stay in the caches, and tiles are of 256 tasks or fewer
QUICK = {
    "two labels, five votes each": {"labels": 2, "votes": (5, 5)},
    "four labels, long tasks": {"labels": 4, "long_tasks": (140,)},
    "four labels, long tasks, many multiprocessors": {"labels": 4, "long_tasks": (140,)},  # small tiles, short runs
    "four labels, many workers": {"labels": 4, "workers": 400},  # whose runs are short
    "seven labels, five votes each, little shared memory": {"labels": 7, "workers": 4, "votes": (5, 5)},
    "seven labels, many workers, little shared memory": {"labels": 7, "workers": 400, "votes": (5, 5)},
    "sixteen labels, long tasks, little shared memory": {"labels": 16, "long_tasks": (140, 128)},
}


@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("crowd", QUICK)
def test_quick_labels_are_the_exact_ones(device, random_votes, monkeypatch, crowd, delta):
    monkeypatch.setattr(device, "multiprocessors", 2)  # tiles shrink with their number, and runs of a worker with the tiles
    if "little shared memory" in crowd:
        monkeypatch.setattr(device, "shared_bytes", LITTLE_SHARED)
    # Tiles follow the number of multiprocessors, and runs the size of tiles: the same ones on every device.
    monkeypatch.setattr(device, "multiprocessors", 132 if "many multiprocessors" in crowd else 2)
    v = random_votes(seed=7, tasks=601, **QUICK[crowd])
    both = Both(device, v)
    both.kernels = Quick(device)
    for _ in range(4):  # from the third recount on it goes over sorted votes
        out = both.tally(True)
        if delta:
            reference.recount_hard(v.task_ptr, v.row, v.labels, out["counts"], out["class_counts"])
        sums, found, mine, there = both.em(out, v.labels, hard=True, by_prior=False, delta=delta, likelihood=False)
        same(mine, there)
        assert (sums.changed, sums.impossible) == (found.changed, found.impossible)
    if not delta and v.n_labels <= 8:
        runs = both.layout._memo[f"tiles {v.n_labels}"]
        assert (runs.keys is not None) == ("many" in crowd), "short runs are counted by key"
        assert len(runs.tile_votes) > 2  # tiles, so that all multiprocessors are busy


@pytest.mark.parametrize("labels", [3, 4, 7])
def test_shares_of_sorted_votes(device, random_votes, monkeypatch, labels):
    v = random_votes(seed=labels, tasks=400, labels=labels, long_tasks=(150,))
    both = Both(device, v)
    both.kernels = Quick(device)
    monkeypatch.setattr(device, "cache_bytes", 0)
    for _ in range(4):
        _, _, mine, there = both.em(both.tally(False, unit=unit_below(10**6)), v.labels, hard=False, by_prior=False)
        same(mine, there)
    assert f"rows {labels}" in both.layout._memo


@pytest.mark.parametrize("parts", [2, 3])
def test_costs_in_parts_of_shared_memory(device, random_votes, monkeypatch, parts):
    v = random_votes(seed=1, tasks=500, workers=60, labels=4)
    both = Both(device, v)
    both.kernels = Quick(device)
    monkeypatch.setattr(device, "shared_bytes", (9 << 10) + 4 * (v.n_rows // parts + 1))
    for delta in (False, True):
        out = both.tally(True)
        if delta:
            reference.recount_hard(v.task_ptr, v.row, v.labels, out["counts"], out["class_counts"])
        _, _, mine, there = both.em(out, v.labels, hard=True, by_prior=False, delta=delta, likelihood=False)
        same(mine, there)


def test_sorted_votes_over_more_labels(device, random_votes, monkeypatch):
    """Votes on a device keep their layout where labels are added."""
    monkeypatch.setattr(device, "cache_bytes", 0)
    v = random_votes(seed=3, tasks=400, labels=3, long_tasks=(150,))
    layout = v.layout(device)
    for v.n_labels in (3, 4):
        both = Both(device, v)
        both.kernels, both.layout = Quick(device), layout
        for _ in range(3):
            _, _, mine, there = both.em(both.tally(True), v.labels, hard=True, by_prior=False, likelihood=False)
            same(mine, there)
            _, _, mine, there = both.em(both.tally(False, unit=unit_below(10**6)), v.labels, hard=False, by_prior=False)
            same(mine, there)
