"""The contract of quorate.evaluation.contract: every registered model on every engine, and on awkward shards."""

from dataclasses import replace

import pytest

from quorate.engines.local import LocalEngine
from quorate.engines.registry import ENGINES, resolve
from quorate.evaluation import contract
from quorate.models.base import MODELS, USUAL

PLACES = {
    **{name: name for name in ENGINES if name != "spark"},  # which has its own folder of tests
    **{f"cpu, {n} threads": resolve("cpu", n) for n in (1, 3, 8)},
    "reference, small shards": LocalEngine(shard_votes=60),
    "disk, small shards": replace(resolve("disk", 2), shard_votes=60, batch_votes=0),
}


# The field's other methods on the kernels, the reference and disk: what differs between engines is tested with the usual ones.
FEWER = ("cpu", "reference, small shards", "disk, small shards")
EACH = [
    pytest.param(model, place, id=f"{model}, {name}")
    for model in MODELS
    for name, place in PLACES.items()
    if (model in USUAL or name in FEWER) and not (MODELS[model].place == "memory" and name.startswith("disk"))
]


@pytest.mark.parametrize(("model", "engine"), EACH)
@pytest.mark.parametrize("check", contract.CHECKS.values(), ids=contract.CHECKS)
def test_contract(check, model, engine):
    check(model, engine)
