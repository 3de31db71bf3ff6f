"""The compiled passes against the reference, on random and on nasty models, for every instruction set and thread count."""

import itertools
import math

import numpy as np
import pytest

from adjudge.data.exact import encode_fine
from adjudge.data.vocabulary import Vocabulary
from adjudge.engines.shard import TieKeys
from adjudge.errors import InputError
from adjudge.kernels import cpu
from adjudge.kernels import reference as ref
from adjudge.kernels.cpu import compiled

core = compiled()
pytestmark = pytest.mark.skipif(core is None, reason="no compiled core")

SHAPES = ("equal", "mixed", "empty", "long")
KINDS = ("smooth", "positive", "exact ties", "near ties", "sparse", "hopeless", "huge", "astronomic", "denormal")
LABELS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 40, 300)


def votes(g, tasks, rows, shape):
    length = {
        "equal": lambda: np.full(tasks, int(g.integers(1, 10))),
        "mixed": lambda: g.integers(1, 12, tasks),
        "empty": lambda: g.integers(0, 3, tasks),
        "long": lambda: np.where(g.random(tasks) < 0.02, g.integers(30, 3000, tasks), g.integers(1, 9, tasks)),
    }[shape]()
    ptr = np.zeros(tasks + 1, np.int64)
    np.cumsum(length, out=ptr[1:])
    return ptr, g.integers(0, rows, ptr[-1], dtype=np.uint32)


def model(g, rows, k, kind):
    """A table and a log prior of this kind."""
    flat, halves = np.ones(k) / k, g.integers(1, 3, (rows, k)) / 4
    close = 1e-9 * g.choice([0, 1 - 1e-3, 1 + 1e-3, 1, -1, 4.97, 0.5], (rows, k))
    present = g.random((rows, k))
    sparse_prior = np.where(g.random(k) < 0.8, g.random(k), 0.0)
    sparse_prior[0] = 0.1
    with np.errstate(divide="ignore"):
        table, prior = {
            "smooth": lambda: (np.log(g.random((rows, k))), g.dirichlet(np.ones(k))),
            "positive": lambda: (g.normal(size=(rows, k)) * 3, g.dirichlet(np.ones(k))),
            "exact ties": lambda: (np.log(halves), flat),
            "near ties": lambda: (np.log(halves) + close, flat),
            "sparse": lambda: (np.log(g.random((rows, k)) * (present < 0.6)), sparse_prior),
            "hopeless": lambda: (np.log(halves * (present < 0.2)), flat),
            "huge": lambda: (-1e5 * g.integers(1, 3, (rows, k)) * (1 + close), flat),
            "astronomic": lambda: (-1e35 * g.random((rows, k)), flat),
            "denormal": lambda: (-1e-42 * g.random((rows, k)), np.ones(k)),
        }[kind]()
        return np.ascontiguousarray(table, dtype=float), np.log(prior)


def outputs(labels, k, rows, hard):
    tasks, cell = len(labels), np.int64 if hard else np.float64
    return {
        "labels": labels.copy(),
        "confidence": np.zeros(tasks),
        "tie": np.zeros(tasks, bool),
        "posterior": np.zeros((tasks, k)),
        "counts": np.zeros((rows, k), cell),
        "class_counts": np.zeros(k, cell),
    }


def near(got, want, tolerance):
    got, want = np.asarray(got, float), np.asarray(want, float)
    with np.errstate(invalid="ignore"):
        return ((got == want) | (np.abs(got - want) <= tolerance * np.maximum(1, np.abs(want)))).all()


def compare(g, tasks, k, rows, shape, kind, by_prior, threads):
    ptr, row = votes(g, tasks, rows, shape)
    table, log_prior = model(g, rows, k, kind)
    key, names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (tasks, k))
    old = g.integers(0, k, tasks).astype(np.int32)
    given = (ptr, row, table, log_prior, key, names)
    for hard in (True, False):
        want, got = outputs(old, k, rows, hard), outputs(old, k, rows, hard)
        with np.errstate(all="ignore"):
            expected = ref.em_pass(*given, hard=hard, by_prior=by_prior, **want)
        sums = cpu.em_pass(*given, hard=hard, by_prior=by_prior, threads=threads, **got)
        assert sums[2:] == expected[2:]
        assert near(sums[:2], expected[:2], 1e-11)
        for name in ("labels", "tie"):
            assert np.array_equal(got[name], want[name]), name
        for name in ("confidence", "posterior"):
            assert near(got[name], want[name], 1e-13), name
        for name in ("counts", "class_counts"):
            assert near(got[name], want[name], 0 if hard else 1e-11), name
        if hard:
            compare_recounts(g, given, old, want, expected, by_prior, threads)
    if shape != "empty" and tasks:
        compare_majority(g, ptr, row, k, rows, key, names, log_prior if by_prior else None, threads)


def compare_recounts(g, given, old, want, expected, by_prior, threads):
    """Full and delta recounts without the likelihood: the fast way to the same labels, counts and C2."""
    rows, k = want["counts"].shape
    for delta in (False, True):
        labels = np.where(g.random(len(old)) < 0.1, old, want["labels"]).astype(np.int32)
        before = labels.copy()
        counts, class_counts = np.zeros((rows, k), np.int64), np.zeros(k, np.int64)
        if delta:
            ref.recount_hard(given[0], given[1], labels, counts, class_counts)
        sums = cpu.em_pass(
            *given, hard=True, by_prior=by_prior, delta=delta, likelihood=False, threads=threads,
            labels=labels, counts=counts, class_counts=class_counts,
        )  # fmt: skip
        assert np.array_equal(labels, want["labels"])
        assert np.array_equal(counts, want["counts"])
        assert np.array_equal(class_counts, want["class_counts"])
        assert sums.changed == (before != labels).sum()
        assert near(sums.classification, expected.classification, 1e-11)


def compare_majority(g, ptr, row, k, rows, key, names, tie_weights, threads):
    row_label = g.integers(0, k, rows).astype(np.int32)
    old = np.zeros(len(key), np.int32)
    for soft in (False, True):
        want, got = outputs(old, k, rows, not soft), outputs(old, k, rows, not soft)
        ref.majority(ptr, row, row_label, key, names, tie_weights=tie_weights, soft=soft, **want)
        cpu.majority(ptr, row, row_label, key, names, tie_weights=tie_weights, soft=soft, threads=threads, **got)
        for name in want:
            assert near(got[name], want[name], 1e-11 if soft and "counts" in name else 0), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", LABELS)
def test_every_kind_of_model(instructions, k, kind):
    g = np.random.default_rng([k, KINDS.index(kind)])
    for n, shape in enumerate(SHAPES):
        tasks = int(g.choice([1, 7, 300, 700])) if k < 40 else int(g.choice([1, 60]))
        compare(g, tasks, k, int(g.choice([3, 50, 900])), shape, kind, bool(n % 2), int(g.integers(1, 9)))


@pytest.mark.parametrize("kind", ["exact ties", "sparse", "smooth"])
def test_many_shards(kind):
    compare(np.random.default_rng(1), 60_000, 4, 500, "mixed", kind, False, 4)


def test_no_tasks_and_no_labels():
    compare(np.random.default_rng(1), 0, 3, 5, "equal", "smooth", False, 2)


@pytest.mark.parametrize("length", [30_000, 70_000])
def test_very_long_tasks(length):
    """Beyond 65,536 votes single precision is not trusted at all."""
    g = np.random.default_rng(length)
    ptr = np.array([0, length, length + 5, 2 * length + 5])
    row = g.integers(0, 200, ptr[-1], dtype=np.uint32)
    table = np.log(g.dirichlet(np.ones(3), 200))
    key, names = np.arange(3, dtype=np.uint64), np.arange(3, dtype=np.uint64)
    want, got = (outputs(np.zeros(3, np.int32), 3, 200, True) for _ in range(2))
    given = (ptr, row, table, np.log(np.ones(3) / 3), key, names)
    expected = ref.em_pass(*given, hard=True, by_prior=False, **want)
    sums = cpu.em_pass(*given, hard=True, by_prior=False, **got)
    assert near(sums[:2], expected[:2], 1e-11)
    assert np.array_equal(got["labels"], want["labels"])
    fast = np.zeros(3, np.int32)
    cpu.em_pass(*given, hard=True, by_prior=False, likelihood=False, labels=fast)
    assert np.array_equal(fast, want["labels"])


def test_the_second_look_is_taken_and_needed():
    """Scores that single precision cannot tell apart: without the second look these labels would be wrong."""
    g = np.random.default_rng(3)
    ptr = np.arange(0, 5001, 5)
    row = g.integers(0, 50, 5000, dtype=np.uint32)
    table = np.log(g.random((50, 1))) + 1e-8 * g.normal(size=(50, 4))
    given = (ptr, row, table, np.log(np.ones(4) / 4), *(g.integers(0, 2**64, n, dtype=np.uint64) for n in (1000, 4)))
    want, labels = outputs(np.zeros(1000, np.int32), 4, 50, True), np.zeros(1000, np.int32)
    ref.em_pass(*given, hard=True, by_prior=False, **want)
    sums = core.hard_pass(*given, by_prior=False, labels=labels, likelihood=False, classification=False)
    assert sums[4] > 900
    assert np.array_equal(labels, want["labels"])
    in_single = np.stack([table.astype(np.float32)[row[i : i + 5]].sum(axis=0) for i in ptr[:-1]]).argmax(axis=1)
    assert (in_single != want["labels"]).any()


WANTED = {}  # labels of the reference, which takes long, by case: the same for each instruction set


@pytest.mark.parametrize("kind", ["smooth", "positive", "exact ties", "near ties", "sparse", "hopeless", "huge", "denormal"])
@pytest.mark.parametrize("k", [2, 4, 7, 12])
def test_tables_beyond_the_near_cache(instructions, k, kind):
    """These are read in costs of one byte each, which tell few labels apart: the second look decides more often."""
    g = np.random.default_rng([k, KINDS.index(kind)])
    rows = (3 << 18) // 2 // {2: 2, 4: 4, 7: 8, 12: 16}[k] + 1
    for shape, threads in (("equal", 2), ("mixed", 3)):
        ptr, row = votes(g, rows, rows, shape)
        table, log_prior = model(g, rows, k, kind)
        key, names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (rows, k))
        given = (ptr, row, table, log_prior, key, names)
        if (k, kind, shape) not in WANTED:
            WANTED[k, kind, shape] = np.zeros(rows, np.int32)
            with np.errstate(all="ignore"):
                ref.em_pass(*given, hard=True, by_prior=False, labels=WANTED[k, kind, shape])
        got = np.zeros(rows, np.int32)
        core.hard_pass(*given, by_prior=False, labels=got, likelihood=False, classification=False, threads=threads)
        assert np.array_equal(got, WANTED[k, kind, shape])


def test_most_labels_are_sure_at_the_first_look():
    """Costs are fine enough for the tasks there are: of one byte or two, with few votes per task or many."""
    g = np.random.default_rng(5)
    for rows, length in ((4000, 5), (200_000, 5), (4000, 60), (200_000, 60)):
        tasks = 60_000 if length == 5 else 5000
        true = g.integers(0, 4, tasks)
        given = np.where(g.random((tasks, length)) < 0.7, true[:, None], g.integers(0, 4, (tasks, length)))
        row = (g.integers(0, rows // 4, (tasks, length)) * 4 + given).astype(np.uint32).ravel()
        share = np.clip(g.normal(0.7, 0.1, rows // 4), 0.3, 0.95)[:, None, None]
        table = np.log(np.where(np.eye(4, dtype=bool), share, (1 - share) / 3)).reshape(rows, 4)
        names = g.integers(0, 2**64, 4, dtype=np.uint64)
        sums = core.hard_pass(
            np.arange(0, tasks * length + 1, length), row, table, np.log(np.full(4, 0.25)), np.arange(tasks, dtype=np.uint64),
            names, by_prior=False, labels=np.zeros(tasks, np.int32), likelihood=False, classification=False,
        )  # fmt: skip
        assert sums[4] < 0.1 * tasks, (rows, length)


@pytest.mark.parametrize("k", [2, 3, 8, 16, 17])
def test_majority_of_many_votes(instructions, k):
    """Up to 255 votes a byte counts each label; a block of tasks with more is counted otherwise, to the same end."""
    g = np.random.default_rng(k)
    for length in ([255] * 40, [256] * 40, [*range(1, 300)], [1000, 3, 255]):
        ptr = np.concatenate([[0], np.cumsum(length)])
        row = g.integers(0, 3 * k, ptr[-1], dtype=np.uint32)
        key, names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (len(length), k))
        compare_majority(g, ptr, row, k, 3 * k, key, names, None, 2)
    ptr, row = np.array([0, 255, 510]), np.zeros(510, np.uint32)  # all for one label: the byte is full
    compare_majority(g, ptr, row, k, 1, key[:2], names, None, 1)


@pytest.mark.parametrize(("rows", "k", "tasks"), [(2, 3, 60_000), (30_000, 300, 9_000)], ids=["full cells", "far tallies"])
def test_hard_recounts_of_any_size(rows, k, tasks):
    """Cells of a byte run full time and again; tallies that no cache holds are filled after the labels are known."""
    g = np.random.default_rng(rows)
    ptr, row = votes(g, tasks, rows, "mixed")
    table, log_prior = model(g, rows, k, "smooth")
    key, names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (tasks, k))
    given = (ptr, row, table, log_prior, key, names)
    labels, counts, class_counts = np.zeros(tasks, np.int32), np.zeros((rows, k), np.int64), np.zeros(k, np.int64)
    cpu.em_pass(
        *given, hard=True, by_prior=False, likelihood=False, threads=2, labels=labels, counts=counts, class_counts=class_counts
    )
    want, of_classes = np.zeros((rows, k), np.int64), np.zeros(k, np.int64)
    ref.recount_hard(ptr, row, labels, want, of_classes)
    assert np.array_equal(counts, want)
    assert np.array_equal(class_counts, of_classes)
    assert counts.sum() == ptr[-1]


@pytest.mark.parametrize(("k", "smoothing", "cell"), [*itertools.product((1, 2, 4, 17), (0.0, 0.01), (np.float64, np.int64))])
def test_m_step(k, smoothing, cell):
    g = np.random.default_rng(k)
    worker_ptr = np.concatenate([[0], np.cumsum(g.integers(1, 5, 700))])
    counts = (g.integers(0, 9000, (worker_ptr[-1], k)) * (g.random((worker_ptr[-1], k)) < 0.5)).astype(cell)
    for got, want in zip(
        cpu.confusion_table(counts, worker_ptr, smoothing, threads=3),
        ref.confusion_table(counts, worker_ptr, smoothing),
        strict=True,
    ):
        assert near(got, want, 1e-14)


def test_hashes():
    g = np.random.default_rng(0)
    texts = [bytes(g.integers(0, 256, g.integers(0, 40), dtype=np.uint8)) for _ in range(500)]
    offsets = np.cumsum([0, *map(len, texts)])
    data = np.frombuffer(b"".join(texts), np.uint8)
    assert np.array_equal(cpu.hash_texts(offsets, data), ref.hash_texts(offsets, data))


def test_hashes_of_numbers_are_those_of_their_text():
    values = np.array([0, 7, -7, 10, 2**63 - 1, -(2**63), -(2**63) + 1, 1234567890123])
    texts = [str(v).encode() for v in values]
    expected = ref.hash_texts(np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8))
    assert np.array_equal(cpu.hash_integers(values), expected)
    assert np.array_equal(ref.hash_integers(values), expected)


def test_wrong_shapes_are_refused():
    good = [
        np.array([0, 1]),
        np.zeros(1, np.uint32),
        np.zeros((1, 2)),
        np.zeros(2),
        np.zeros(1, np.uint64),
        np.zeros(2, np.uint64),
    ]
    for place, bad in {2: np.zeros((1, 3)), 3: np.zeros(3), 4: np.zeros(2, np.uint64)}.items():
        given = [*good[:place], bad, *good[place + 1 :]]
        with pytest.raises(ValueError, match="does not have the shape"):
            core.soft_pass(*given, by_prior=False, labels=np.zeros(1, np.int32))


def three_votes():
    """Sound arguments of a pass: two tasks of two votes and one, two rows, two labels."""
    return {
        "task_ptr": np.array([0, 2, 3]),
        "row": np.array([0, 1, 1], np.uint32),
        "table": np.log(np.full((2, 2), 0.5)),
        "log_prior": np.log(np.full(2, 0.5)),
        "task_key": np.arange(2, dtype=np.uint64),
        "label_hash": np.arange(2, dtype=np.uint64),
    }


UNSOUND = {
    "a row that does not exist": ({"row": np.array([0, 2, 1], np.uint32)}, "row 2 of vote 1 does not exist: there are 2 rows"),
    "a row far out": ({"row": np.array([0, 1, 2**32 - 1], np.uint32)}, "row 4294967295 of vote 2 does not exist"),
    "votes that end before they begin": ({"task_ptr": np.array([0, 5, 3])}, "task_ptr falls at 1"),
    "a negative place": ({"task_ptr": np.array([0, -(2**40), 3])}, "task_ptr falls at 0"),
    "a negative first place": ({"task_ptr": np.array([-1, 2, 3])}, "does not have the shape"),
    "more votes than there are": ({"task_ptr": np.array([0, 2, 4])}, "does not have the shape"),
}


@pytest.mark.parametrize("kernels", [cpu, ref], ids=["cpu", "reference"])
@pytest.mark.parametrize(("bad", "words"), UNSOUND.values(), ids=UNSOUND)
def test_unsound_votes_are_refused(kernels, bad, words):
    """What leads a pass out of its arrays is an error of one line, not a crash."""
    given = three_votes() | bad
    for hard in (True, False):
        with pytest.raises(InputError, match=words):
            kernels.em_pass(*given.values(), hard=hard, by_prior=False, labels=np.zeros(2, np.int32))
    votes = [given["task_ptr"], given["row"], np.arange(2, dtype=np.int32), given["task_key"], given["label_hash"]]
    for soft in (True, False):
        with pytest.raises(InputError, match=words):
            kernels.majority(*votes, soft=soft, tie_weights=None, labels=np.zeros(2, np.int32))


@pytest.mark.parametrize("kernels", [cpu, ref], ids=["cpu", "reference"])
@pytest.mark.parametrize("label", [-1, 2])
def test_labels_of_rows_that_do_not_exist_are_refused(kernels, label):
    votes = three_votes()
    rest = np.array([0, label], np.int32), votes["task_key"], votes["label_hash"]
    with pytest.raises(InputError, match=rf"row_label\[1\] is {label}: give codes of at least 0 and below 2"):
        kernels.majority(votes["task_ptr"], votes["row"], *rest, soft=True, tie_weights=None, labels=np.zeros(2, np.int32))


def test_faults_are_found_in_every_piece():
    """The check splits its input over threads, and reports the first fault."""
    n = 1 << 20
    ptr, row = np.arange(n + 1), np.zeros(n, np.uint32)
    cpu.check_votes(ptr, row, 1, threads=3)
    row[[n // 2, n - 1]] = 7
    with pytest.raises(InputError, match=f"row 7 of vote {n // 2} does not exist: there are 1 rows"):
        cpu.check_votes(ptr, row, 1, threads=3)
    ptr[n - 2] = 0
    with pytest.raises(InputError, match=f"task_ptr falls at {n - 3}"):
        cpu.check_votes(ptr, row, 8, threads=3)


def test_places_that_fall_are_refused_by_every_kernel():
    with pytest.raises(ValueError, match="worker_ptr falls"):
        cpu.confusion_table(np.ones((3, 2)), np.array([0, 9, 3]), 0.0)
    with pytest.raises(ValueError, match="offsets falls"):
        cpu.hash_texts(np.array([0, 9, 3]), np.zeros(3, np.uint8))


def test_votes_of_a_row():
    g = np.random.default_rng(0)
    for votes, rows in ((0, 0), (0, 3), (5, 3), (2_000_000, 1000), (1000, 5000)):
        row = g.integers(0, max(rows, 1), votes, dtype=np.uint32)
        assert np.array_equal(cpu.votes_per_row(row, rows, threads=4), ref.votes_per_row(row, rows))


@pytest.mark.parametrize("rows", [50, 200_000], ids=["a tally for every thread", "shared counts"])
@pytest.mark.parametrize("fine", [False, True], ids=["coarse", "fine"])
@pytest.mark.parametrize("k", [2, 3, 9, 20])
def test_soft_counts_do_not_depend_on_threads_or_order(k, fine, rows):
    """To the last bit: whole units add up exactly, however tasks are put in order and shared out."""
    g = np.random.default_rng(k)
    tasks = 30_000
    ptr, row = votes(g, tasks, rows, "mixed")
    table, log_prior = model(g, rows, k, "sparse")
    table, log_prior = np.rint(table * 2**40) / 2**40, np.rint(log_prior * 2**40) / 2**40
    key, names = (g.integers(0, 2**64, n, dtype=np.uint64) for n in (tasks, k))

    def counted(order, threads):
        there, lines = ref.select(ptr, row, order)
        counts, class_counts, rest = np.zeros((rows, k)), np.zeros(k), np.zeros(k)
        second = np.zeros((rows, k)) if fine else None
        cpu.em_pass(
            there, lines, table, log_prior, key[order], names, hard=False, by_prior=False, threads=threads,
            labels=np.zeros(tasks, np.int32), counts=counts, class_counts=class_counts, class_rest=rest, rest=second,
            unit=2.0**-33,
        )  # fmt: skip
        return counts.tobytes(), (class_counts + rest).tobytes(), None if second is None else second.tobytes()

    first = counted(np.arange(tasks), 1)
    for threads in (2, 3, 8):
        assert counted(np.arange(tasks), threads) == first
    assert counted(g.permutation(tasks), 3) == first


@pytest.mark.parametrize("fine", [False, True], ids=["coarse", "fine"])
@pytest.mark.parametrize("kernels", [cpu, ref], ids=["cpu", "reference"])
def test_faint_shares_are_neither_lost_nor_in_the_way(kernels, fine):
    """A label of probability 1e-30 is possible: negligible next to whole votes, but with a share next to its like."""
    ptr, row = np.arange(5), np.array([0, 1, 1, 2], np.uint32)
    table = np.array([[0.0, np.log(1e-30)], [np.log(1e-30), np.log(1e-290)], [0.0, -np.inf]])
    counts, classes = np.zeros((3, 2)), np.zeros((2, 2))
    rest = np.zeros((3, 2)) if fine else None
    names = np.arange(4, dtype=np.uint64)
    kernels.em_pass(
        ptr, row, table, np.zeros(2), names, names[:2], hard=False, by_prior=False, labels=np.zeros(4, np.int32), counts=counts,
        rest=rest, class_counts=classes[0], class_rest=classes[1],
    )  # fmt: skip
    kernels.restore_counts(counts, rest)
    assert counts[:, 0].tolist() == [1.0, 2.0, 1.0]
    assert counts[:, 1] == pytest.approx([1e-30, 2e-260 if fine else 0.0, 0.0], rel=1e-6 if fine else 1.0, abs=0.0)
    assert (counts[0, 1] > 0).all()


@pytest.mark.parametrize("kernels", [cpu, ref], ids=["cpu", "reference"])
def test_fine_sums_are_right_at_every_scale(kernels):
    """Shares of one size, and of all sizes together, add up as they should."""
    g = np.random.default_rng(1)
    n, sizes = 4096, np.arange(0, 310, 7)
    share = 10.0 ** -sizes[g.integers(0, len(sizes), n)] * g.uniform(0.1, 1.0, n)
    for some in (share, *(10.0**-size * g.uniform(0.1, 1.0, n) for size in sizes)):
        parts = encode_fine(some, 2.0**-39)
        counts, rest = (np.array([part.sum()]) for part in parts)
        assert [counts[0], rest[0]] == [part[::-1].cumsum()[-1] for part in parts], "in another order"
        kernels.restore_counts(counts, rest, 2.0**-39)
        assert counts[0] == pytest.approx(math.fsum(some), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("ids", ["texts", "numbers"])
def test_keys_that_are_hashed_where_tasks_tie_are_those_that_are_ready(instructions, ids):
    g = np.random.default_rng(11)
    tasks, rows, k = 400, 30, 4
    numbers = g.integers(-(2**62), 2**62, tasks)
    names = Vocabulary.of(numbers.tolist()) if ids == "numbers" else Vocabulary.of([f"é{n}" for n in numbers])
    lazy = TieKeys(cpu, names, 3)
    (ptr, row), (table, log_prior) = votes(g, tasks, rows, "mixed"), model(g, rows, k, "exact ties")
    row_label, label_hash = g.integers(0, k, rows).astype(np.int32), g.integers(2**64, size=k, dtype=np.uint64)
    ready = ref.tie_keys(ref.hash_integers(numbers) if ids == "numbers" else ref.hash_texts(*names.text_buffers()), 3)
    found = []
    for kernels, keys in ((ref, ready), (ref, lazy), (cpu, ready), (cpu, lazy)):
        labels, tie = np.zeros((2, tasks), np.int32), np.zeros((2, tasks), bool)
        out = [{"labels": labels[i], "tie": tie[i], "threads": 2} for i in range(2)]
        kernels.em_pass(ptr, row, table, log_prior, keys, label_hash, hard=True, by_prior=False, **out[0])
        kernels.majority(ptr, row, row_label, keys, label_hash, tie_weights=None, soft=False, **out[1])
        found.append((labels, tie))
    assert 0.05 < found[0][1].mean() < 0.95
    for labels, tie in found[1:]:
        assert np.array_equal(labels, found[0][0])
        assert np.array_equal(tie, found[0][1])


def test_ids_that_do_not_fit_their_tasks_are_refused_and_wrong_offsets_are_not_followed():
    ptr, row, hashes = np.arange(0, 5, 2), np.array([0, 1, 0, 1], np.uint32), np.arange(2, dtype=np.uint64)
    args = ptr, row, np.arange(2, dtype=np.int32)
    out = {"labels": np.zeros(2, np.int32)}
    for ids in ((np.arange(3), None, 0), (np.arange(2), np.zeros(9, np.uint8), 0)):
        with pytest.raises(ValueError, match="task_key does not have the shape"):
            core.majority_hard(*args, ids, hashes, **out)
    for offsets in ([-5, 2**60, 9], [9, 0, -(2**62)], [0, 10, 11]):
        core.majority_hard(*args, (np.array(offsets), np.zeros(9, np.uint8), 0), hashes, **out)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 4, 17])
def test_labels_that_are_given_are_counted_like_the_reference_does(instructions, shape, k):
    g = np.random.default_rng(k)
    for rows in (20, 5000):
        (ptr, row), labels = votes(g, 300, rows, shape), g.integers(0, k, 300).astype(np.int32)
        counts, classes = np.ones((2, rows, k), np.int64), np.ones((2, k), np.int64)
        ref.recount_hard(ptr, row, labels, counts[0], classes[0])
        cpu.recount_hard(ptr, row, labels, counts[1], classes[1], threads=3)
        assert np.array_equal(*counts)
        assert np.array_equal(*classes)
    with pytest.raises(ValueError, match="labels does not have"):
        cpu.recount_hard(ptr, row, labels + k, counts[1], classes[1])
    with pytest.raises(InputError, match="does not exist"):
        cpu.recount_hard(ptr, np.full_like(row, rows), labels, counts[1], classes[1])


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_honest_probabilities_are_those_of_the_reference(k):
    g = np.random.default_rng(k)
    tasks, lost = 333, k > 2  # a label that does not exist
    exists = np.arange(k) < k - lost
    with np.errstate(divide="ignore"):
        prior = np.where(exists, np.log(g.uniform(0.1, 1.0, k)), -np.inf)
    found = []
    for rows in (40, 4000):  # the second has more rows than votes
        ptr, row = votes(g, tasks, rows, "mixed")
        row_label, labels = (g.integers(0, k - lost, n).astype(np.int32) for n in (rows, tasks))
        lines, without = (np.where(exists, np.log(g.uniform(0.05, 1.0, (rows, k))), -np.inf) for _ in range(2))
        for holds in (0.0, 0.4):
            rule = ref.HonestRule(prior, exists / exists.sum(), 0.2, holds)
            given = ptr, row, row_label, labels, lines, without, rule
            found = []
            for kernels, threads in ((ref, 1), (cpu, 1), (cpu, 3)):
                out = {"confidence": np.zeros(tasks), "tie": np.zeros(tasks, bool), "probabilities": np.zeros((tasks, k))}
                kernels.honest_pass(*given, threads=threads, **out)
                found.append(out)
            for name in ("confidence", "probabilities"):
                np.testing.assert_allclose(found[1][name], found[0][name], atol=1e-12)
                assert np.array_equal(found[1][name], found[2][name])
            assert np.array_equal(found[1]["tie"], found[0]["tie"])
            assert same_on_all_instruction_sets(given, found[1])


def same_on_all_instruction_sets(given, wanted):
    """Return whether all instruction sets give these bits, with both lines of a row side by side as well."""
    beside = np.stack(given[4:6], axis=1)
    try:
        for isa in range(3):
            cpu.required().use_kernels(isa)
            for lines in (given[4:6], (beside[:, 0], beside[:, 1])):
                out = {name: np.zeros_like(array) for name, array in wanted.items()}
                cpu.honest_pass(*given[:4], *lines, given[6], threads=2, **out)
                if not all(np.array_equal(out[name], wanted[name]) for name in wanted):
                    return False
    finally:
        cpu.required().use_kernels(-1)
    return True
