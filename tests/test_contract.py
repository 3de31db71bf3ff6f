"""The contract of quorate.checks: every registered model on every engine, and on awkward shards."""

import pytest

from quorate import checks
from quorate.engines.local import LocalEngine
from quorate.engines.registry import ENGINES
from quorate.models.registry import MODELS

PLACES = {
    **{name: name for name in ENGINES},
    "reference, small shards": LocalEngine(shard_votes=60),
}


@pytest.mark.parametrize("engine", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("check", checks.CHECKS.values(), ids=checks.CHECKS)
def test_contract(check, model, engine):
    if check is checks.long_tasks_do_not_underflow and engine != "reference" and model == "ds":
        pytest.skip("slow on one-task shards, and the same code")
    check(model, engine)


def test_a_broken_model_fails_the_contract(monkeypatch):
    """The contract is worth something: a model that labels by position does not pass."""
    from quorate.kernels import reference

    monkeypatch.setattr(reference, "mix", lambda x: x * 0)
    with pytest.raises(AssertionError):
        checks.order_of_labels_does_not_matter("mv", "reference")
