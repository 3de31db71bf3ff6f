"""The compiled M-steps of auto and of honest confidence give what their definitions in NumPy give."""

import numpy as np
import pytest

from adjudge.data.fit import given_votes
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
