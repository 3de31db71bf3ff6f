"""The compiled M-steps of auto and of honest confidence give what their definitions in NumPy give."""

import numpy as np
import pytest

from adjudge.data.fit import WIDE_TABLE, given_votes
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import WorkerBlock
from adjudge.kernels import cpu, reference
from adjudge.models.careful import CAREFUL_KINDS, BelievedVotes, shared_by_all, worker_table
from adjudge.models.honest import UNMEASURED_DEPENDENCE, Dependence, Honest, WorkerAgreement, spread_moments, votes_of_all

pytestmark = pytest.mark.skipif(cpu.compiled() is None, reason="the compiled core was not built")
FOUND = Dependence(0.12, 5.0, 0.09)


def blocks(seed, *, workers, k, hard, missing=False):
    """The same workers for NumPy and for the compiled kernels, their counts, and which labels exist."""
    draw = np.random.default_rng(seed)
    given = [np.sort(draw.choice(k, draw.integers(1, k + 1), replace=False)) for _ in range(workers)]
    ptr = np.concatenate([[0], np.cumsum([len(labels) for labels in given])]).astype(np.int64)
    label = np.concatenate(given).astype(np.int32)
    panel = WorkerRows(worker_ptr=ptr, row_label=label, workers=Vocabulary.of(range(workers)), labels=Vocabulary.of(range(k)))
    counts = draw.poisson(1.5, (len(label), k)) + 6 * (label[:, None] == np.arange(k))
    exists = np.ones(k, np.bool_)
    if missing:
        exists[-1] = False
        counts[:, -1] = 0
    counts = counts.astype(np.int64) if hard else counts * 0.73
    made = [WorkerBlock(panel, lambda: None, None, reference.confusion_table, threads=threads) for threads in (0, 1, 3)]
    return made, counts, exists


CASES = [
    {"seed": seed, "workers": workers, "k": k, "hard": hard, "missing": missing}
    for seed, (workers, k, hard, missing) in enumerate(
        [
            (1, 1, True, False),
            (1, 2, False, False),
            (7, 3, True, True),
            (3000, 4, True, False),
            (3000, 5, False, True),
            (40, 70, False, False),
        ]
    )
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_over_workers(case):
    (numpy, *compiled), counts, _ = blocks(**case)
    wanted, agreement = BelievedVotes.of(numpy, counts), WorkerAgreement.of(numpy, counts)
    for block in compiled:
        seen = BelievedVotes.of(block, counts)
        for name in ("met", "said", "right", "votes"):
            np.testing.assert_allclose(getattr(seen, name), getattr(wanted, name), rtol=1e-14)
        np.testing.assert_allclose(WorkerAgreement.of(block, counts)[:2], agreement[:2], rtol=1e-14)
        np.testing.assert_allclose(votes_of_all(block, counts), given_votes(block.panel, counts), rtol=1e-13)
        if seen.given.size:
            np.testing.assert_allclose(seen.given, given_votes(block.panel, counts), rtol=1e-13)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_of_skill(case):
    (_, *compiled), counts, exists = blocks(**case)
    own = np.linspace(0.4, 0.9, len(exists))
    for block in compiled:
        seen = BelievedVotes.of(block, counts)
        wanted = spread_moments(seen.right, seen.votes, seen.expected_accuracy(own))
        found = cpu.careful_moments(seen.met, seen.right, seen.votes, own, block.threads)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_counts_are_blended_as_numpy_does():
    draw = np.random.default_rng(5)
    kept, now = draw.random((900, 7)), draw.poisson(2.0, (900, 7)).astype(np.int64)
    for other in (now, now * 0.3):
        np.testing.assert_array_equal(cpu.blend_counts(kept, other, 0.2, 0.8, threads=2), 0.2 * kept + 0.8 * other)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_blend_has_the_sums_and_the_table_of_the_mixture(case):
    (_, *compiled), counts, exists = blocks(**case)
    kept = np.random.default_rng(1).random(counts.shape) * 9.0
    if not exists.all():
        kept[:, ~exists] = 0.0
    for block in compiled:
        blend = cpu.Blend(kept, counts, 0.2, block.threads)
        mixed = np.asarray(blend)
        np.testing.assert_array_equal(mixed, 0.2 * kept + 0.8 * counts)
        one, two = (BelievedVotes.of(block, some) for some in (blend, mixed))
        for name in ("met", "said", "right", "votes", "given"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        if len(exists) < WIDE_TABLE and case["workers"] > 1:
            shared = shared_by_all(lambda function, block=block, mixed=mixed: function(block, mixed), FOUND, exists)
            tables = [worker_table(kind, block, seen, shared, FOUND, exists) for kind in CAREFUL_KINDS for seen in (one, two)]
            np.testing.assert_array_equal(tables[0], tables[1])
            np.testing.assert_array_equal(tables[2], tables[3])


@pytest.mark.parametrize("workers", [700, 3])
def test_pairs_of_votes_by_the_values_of_workers(workers):
    (_, block, _), _, _ = blocks(2, workers=workers, k=5, hard=True)
    draw, panel = np.random.default_rng(4), block.panel
    ptr = np.concatenate([[0], np.cumsum(draw.integers(0, 9, 4000))]).astype(np.int64)
    row = draw.integers(0, panel.n_rows, ptr[-1]).astype(np.uint32)
    labels, values = draw.integers(0, 5, 4000).astype(np.int32), draw.normal(size=(2, 2, workers))
    by_row, given = np.repeat(values, np.diff(panel.worker_ptr), axis=2), (ptr, row, panel.row_label, labels)
    for quantities in (1, 2):
        found = cpu.pair_sums(*given, values[:quantities], 5, worker_ptr=panel.worker_ptr, threads=2)
        np.testing.assert_array_equal(found, cpu.pair_sums(*given, by_row[:quantities], 5, threads=2))
        np.testing.assert_allclose(found, reference.pair_sums(*given, by_row[:quantities], 5), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="worker_ptr"):
        cpu.pair_sums(*given, values, 5, worker_ptr=panel.worker_ptr + 1)


def test_large_blocks_are_cleared_and_reused_only_during_a_fit():
    core, shape = cpu.required(), (1 << 18, 4)

    def address(**how):
        made = cpu.room(shape, np.int64, **how)
        assert not (how and made.any())
        made[:] = 7
        return made.ctypes.data

    with core.BlockReuse():
        first = address()
        with core.BlockReuse():
            assert address(zero=True, threads=2) == first
        assert address(zero=True) == first
        kept = cpu.room(shape)
        kept[:] = 3.0
        assert kept.ctypes.data == first
        assert address() != first
    assert (kept == 3.0).all()
    assert cpu.room((2, 0)).shape == (2, 0)
    assert (cpu.room((5, 3), zero=True) == 0).all()


@pytest.mark.parametrize("kind", CAREFUL_KINDS)
@pytest.mark.parametrize("case", CASES[1:], ids=str)
def test_careful_tables(case, kind):
    (numpy, *compiled), counts, exists = blocks(**case)
    shared = shared_by_all(lambda function: function(numpy, counts), FOUND, exists)
    wanted = worker_table(kind, numpy, BelievedVotes.of(numpy, counts), shared, FOUND, exists)
    tables = [worker_table(kind, block, BelievedVotes.of(block, counts), shared, FOUND, exists) for block in compiled]
    for table in tables:
        np.testing.assert_allclose(table, wanted, rtol=0, atol=1e-11)
    assert np.array_equal(*tables), "threads do not matter"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_honest_lines(case):
    (numpy, *compiled), counts, exists = blocks(**case)
    k = len(exists)
    rule = reference.HonestRule(np.log(np.full(k, 1 / k)), exists / exists.sum(), 1.3, 1.0)
    honest = Honest(rule, np.full((k, k), 1 / k), UNMEASURED_DEPENDENCE)
    wanted = honest.lines(numpy, counts)
    for block in compiled:
        for lines, definition in zip(honest.lines(block, counts), wanted, strict=True):
            np.testing.assert_allclose(lines, definition, rtol=0, atol=1e-12)


def test_codes_that_do_not_fit_are_refused():
    (_, block, _), counts, _ = blocks(0, workers=3, k=3, hard=True)
    ptr, label = block.panel.worker_ptr, block.panel.row_label
    with pytest.raises(ValueError, match="row_label holds no label"):
        cpu.worker_sums(counts, ptr, label + np.int32(9))
    with pytest.raises(ValueError, match="worker_ptr does not divide"):
        cpu.worker_sums(counts, ptr + 1, label)


def test_logarithms_of_counts_of_any_size():
    """Soft counts may be as small as numbers are: their tables are what NumPy makes of them."""
    draw = np.random.default_rng(7)
    counts = draw.gamma(0.3, size=(60, 5)) * 10.0 ** draw.integers(-320, 4, (60, 5))
    counts[draw.random(counts.shape) < 0.2] = 0.0
    ptr = np.arange(0, 61, 4, dtype=np.int64)
    tables = [module.confusion_table(counts, ptr, 0.0)[0] for module in (cpu, reference)]
    np.testing.assert_array_equal(*(np.isneginf(table) for table in tables))
    np.testing.assert_allclose(*tables, rtol=0, atol=4e-12)


@pytest.mark.parametrize("isa", [0, 1, 2])
def test_instruction_sets_give_the_same_tables(isa):
    (_, block, _), counts, exists = blocks(3, workers=300, k=5, hard=False)
    shared = shared_by_all(lambda function: function(block, counts), FOUND, exists)
    seen = BelievedVotes.of(block, counts)

    def tables():
        careful = [worker_table(kind, block, seen, shared, FOUND, exists) for kind in CAREFUL_KINDS]
        return [*careful, cpu.confusion_table(counts, block.panel.worker_ptr, 0.0)[0]]

    wanted = tables()
    cpu.required().use_kernels(isa)
    try:
        for one, other in zip(tables(), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        cpu.required().use_kernels(-1)
