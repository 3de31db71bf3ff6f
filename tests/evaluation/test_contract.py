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
