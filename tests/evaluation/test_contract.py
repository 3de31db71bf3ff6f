"""The contract of quorate.evaluation.contract: every registered model on every engine, and on awkward shards."""

from dataclasses import replace

import pytest

from quorate.engines.local import LocalEngine
from quorate.engines.registry import ENGINES, resolve
from quorate.evaluation import contract
from quorate.models.base import MODELS

PLACES = {
    **{name: name for name in ENGINES if name != "spark"},  # which has its own folder of tests
    **{f"cpu, {n} threads": resolve("cpu", n) for n in (1, 3, 8)},
    "reference, small shards": LocalEngine(shard_votes=60),
    "disk, small shards": replace(resolve("disk", 2), shard_votes=60, batch_votes=0),
}


@pytest.mark.parametrize("engine", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("check", contract.CHECKS.values(), ids=contract.CHECKS)
def test_contract(check, model, engine):
    check(model, engine)


def test_a_broken_model_fails_the_contract(monkeypatch):
    """The contract is worth something: a model that labels by position does not pass."""
    from quorate.kernels import reference

    monkeypatch.setattr(reference, "mix", lambda x: x * 0)
    with pytest.raises(AssertionError):
        contract.order_of_labels_does_not_matter("mv", "reference")


@pytest.mark.parametrize("seed", contract.MIRRORED[1:])
def test_a_model_that_adds_as_it_comes_breaks_the_ties_of_symmetric_crowds(monkeypatch, seed):
    plain_sums(monkeypatch)
    monkeypatch.setattr(contract, "MIRRORED", [seed])
    with pytest.raises(AssertionError, match="changed the answer|and as well"):
        contract.symmetric_crowds_stay_tied("one-coin", "reference")


@pytest.mark.parametrize("seed", contract.TINY[1:])
def test_a_model_that_adds_as_it_comes_answers_tiny_crowds_in_more_than_one_way(monkeypatch, seed):
    plain_sums(monkeypatch)
    monkeypatch.setattr(contract, "TINY", [seed])
    with pytest.raises(AssertionError, match="changed the answer"):
        contract.tiny_crowds_have_one_answer("one-coin", "reference")


def plain_sums(monkeypatch):
    """Takes the rounding away that makes sums exact, as if they were those of any floating-point program."""
    from quorate.data import counts as params
    from quorate.data import exact
    from quorate.kernels import reference
    from quorate.models import one_coin
    from quorate.results import knowledge as transfer

    for module in (exact, params, transfer, reference, one_coin):
        monkeypatch.setattr(module, "whole", lambda x, unit: x)
    monkeypatch.setattr(reference, "SAME", 0.0)
    monkeypatch.setattr(reference, "count_shares", lambda *votes_and_counts: reference.recount_soft(*votes_and_counts[:5]))
    monkeypatch.setattr(reference, "restore_counts", lambda *counts: None)
