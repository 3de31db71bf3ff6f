"""The contract of quorate.evaluation.contract: every registered model on every engine, and on awkward shards."""

from dataclasses import replace

import pytest

from quorate.engines.local import LocalEngine
from quorate.engines.registry import ENGINES, resolve
from quorate.evaluation import contract
from quorate.models.base import MODELS, USUAL

PLACES = {
    **{name: name for name in ENGINES if name not in ("cuda", "spark")},  # which have their own folders of tests
    **{f"cpu, {n} threads": resolve("cpu", n) for n in (1, 3, 8)},
    "reference, small shards": LocalEngine(shard_votes=60),
    "disk, small shards": replace(resolve("disk", 2), shard_votes=60, batch_votes=0),
}


# The field's other methods on the kernels, the reference and disk: what differs between engines is tested with the usual ones.
FEWER = ("cpu", "reference, small shards", "disk, small shards")
# What the number of threads, all by itself, could change.
OF_THREADS = (
    "engines_agree",
    "honest_confidence_is_the_same_everywhere",
    "long_tasks_do_not_underflow",
    "likelihood_never_falls",
)
EACH = [
    pytest.param(check, model, place, id=f"{check.__name__}, {model}, {name}")
    for check in contract.CHECKS.values()
    for model in MODELS
    for name, place in PLACES.items()
    if (model in USUAL or name in FEWER)
    and not (MODELS[model].place == "memory" and name.startswith("disk"))
    and ("threads" not in name or check.__name__ in OF_THREADS)
]


@pytest.mark.parametrize(("check", "model", "engine"), EACH)
def test_contract(check, model, engine):
    check(model, engine)
