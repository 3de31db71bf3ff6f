"""Auto's M-step on a device against `adjudge.models.careful`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adjudge as adj
from adjudge.data.exact import LOG_UNIT
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import WorkerRows
from adjudge.engines.base import WorkerBlock
from adjudge.gpu import tables
from adjudge.gpu.tables import DeviceSeen, RowIds, careful_lines
from adjudge.kernels import reference
from adjudge.models.auto import CarefulRecipe
from adjudge.models.careful import CAREFUL_KINDS, BelievedVotes, pooled_votes
from adjudge.models.honest import Dependence


class Case:
    """Counts of some workers by row and true label, on the host and on a device."""

    def __init__(self, device, random, *, counts, absent=()):
        self.device, k = device, random.n_labels
        self.panel = WorkerRows(
            worker_ptr=random.worker_ptr,
            row_label=random.row_label,
            workers=Vocabulary.of(range(len(random.worker_ptr) - 1)),
            labels=Vocabulary.of(range(k)),
        )
        self.block = WorkerBlock(self.panel, lambda: np.zeros(random.n_rows, np.int64), None, reference.confusion_table)
        rng = np.random.default_rng(random.n_rows)
        likely = np.where(np.arange(k) == self.panel.row_label[:, None], 9.0, 1.0)
        likely[:, list(absent)] = 0.0
        self.counts = rng.poisson(likely).astype(np.int64) if counts == "whole" else rng.exponential(likely)
        self.exists = ~np.isin(np.arange(k), absent)

    def recipe(self, kind):
        found = Dependence(shared_error=0.07, votes_per_task=4.5, skill_spread=0.2, agreement=0.8)
        return CarefulRecipe(adj.AutoModel(), kind=kind, dependence=found, exists=self.exists)

    def wanted(self, kind):
        recipe = self.recipe(kind)
        shared = recipe.shared(np.ones(1), lambda function: function(self.block, self.counts))
        return recipe.on(self.block)(self.counts, shared)

    def got(self, kind):
        found = careful_lines(self.ids(), self.device.upload(self.counts), self.recipe(kind))
        return [self.device.download(one) for one in found]

    def ids(self):
        given = self.panel.worker_ptr, self.panel.row_worker(), self.panel.row_label
        return RowIds(self.device, *map(self.device.upload, given), self.panel.n_labels)


@pytest.mark.parametrize("counts", ["whole", "shares"])
@pytest.mark.parametrize("kind", CAREFUL_KINDS)
@pytest.mark.parametrize(("k", "absent"), [(2, ()), (3, (1,)), (33, (3,))])
def test_tables_are_those_of_the_processor(device, random_votes, k, absent, kind, counts):
    case = Case(device, random_votes(k, tasks=400, workers=30, labels=k), counts=counts, absent=absent)
    (table, met), wanted = case.got(kind), case.wanted(kind)
    assert_allclose(met, wanted.worker_totals, rtol=1e-13)
    assert np.array_equal(np.isneginf(table), np.isneginf(wanted.table))
    there = np.isfinite(table)
    # both are rounded to whole units: numbers closer than 1e-12 may be one unit apart
    assert_allclose(table[there], wanted.table[there], rtol=0, atol=1e-12 + LOG_UNIT)
    assert np.array_equal(table[there], np.rint(table[there] / LOG_UNIT) * LOG_UNIT)


def test_what_all_share_is_summed_on_the_device(device, random_votes, monkeypatch):
    """In many slices, too, and the same at every time."""
    case = Case(device, random_votes(3, tasks=500, workers=60, labels=3), counts="shares")
    seen = BelievedVotes.of(case.block, case.counts)
    for size in (256, 4):
        monkeypatch.setattr(tables, "SLICE", size)
        there = DeviceSeen(case.ids(), device.upload(case.counts))
        pooled = there.gather(pooled_votes)
        assert_allclose(pooled, pooled_votes(case.block, case.counts), rtol=1e-13)
        assert np.array_equal(pooled, there.gather(pooled_votes))
    own = np.linspace(0.4, 0.9, 3)
    for name in ("met", "said", "right", "votes"):
        assert_allclose(device.download(getattr(there, name)), getattr(seen, name), rtol=1e-13)
    assert_allclose(there.spread_moments(own), seen.spread_moments(own, None), rtol=1e-12)
    assert np.array_equal(there.spread_moments(own), there.spread_moments(own))


def test_nobody_has_no_lines(device):
    empty = np.zeros((0, 3), np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32)
    recipe = CarefulRecipe(adj.AutoModel(), kind="A", dependence=Dependence(0.0, 1.0, 0.1), exists=np.ones(3, np.bool_))
    counts, *rows = map(device.upload, empty)
    table, met = careful_lines(RowIds(device, *rows, 3), counts, recipe)
    assert table.shape == met.shape == (0, 3)
