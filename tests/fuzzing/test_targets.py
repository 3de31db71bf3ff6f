"""Every fuzz target on a few fixed seeds; `make fuzz` runs them for a given time."""

from importlib import import_module
from pathlib import Path

import pytest

SEEDS = {"fits": range(25), "service": (2, 4, 13, 27)}  # cases of the service take seconds
TARGETS = sorted(p.stem for p in Path(__file__).parent.glob("[a-z]*.py") if not p.stem.startswith("test_"))
ONCE_FAILED = {"containers": [1794927564028]}


@pytest.mark.parametrize("target", TARGETS)
def test_cases(target):
    module = import_module(f"fuzzing.{target}")
    for seed in (*SEEDS.get(target, range(10)), *ONCE_FAILED.get(target, ())):
        module.run(seed)


def test_a_saved_model_without_facts_warns_and_works():
    """Its warning is one of ours: it does not end the case."""
    import_module("fuzzing.containers").run(1794927564028)
