"""The contract: every registered model on every engine, and on awkward shards."""

from dataclasses import replace

import pytest

import contract
from adjudge.engines.local import LocalEngine
from adjudge.engines.registry import ENGINES, engine_named
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS

PLACES = {
    **{name: name for name in ENGINES if name not in ("cuda", "spark")},  # which have their own folders of tests
    **{f"cpu, {n} threads": engine_named("cpu", n) for n in (1, 3, 8)},
    "reference, small shards": LocalEngine(shard_votes=60),
    "disk, small shards": replace(engine_named("disk", 2), shard_votes=60, batch_votes=0),
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
# What shards of the default size, which hold these crowds whole, could change on disk: the same code on many shards passes the
# rest. Tables of 300 labels are what one shard is large for, and many shards only repeat.
OF_ONE_SHARD = (*OF_THREADS, "the_smallest_inputs_work", "abstentions_are_no_label", "many_labels_work")
# What small shards leave as it is on disk: the encoding has sorted the votes before a model sees them.
NOT_OF_DISK_SHARDS = (
    "names_of_workers_do_not_matter",
    "below_chance_is_used_not_obeyed",
    "symmetric_crowds_stay_tied",
)
# What shards could change of the field's other methods. The rest asks whether a fit is right, which each of them is asked on
# the kernels: `engines_agree` says that fits over shards are the same.
OF_SHARDS = (*OF_THREADS, "the_smallest_inputs_work")
# In memory also what other shards are cut by: orders of rows and names of workers. On disk the encoding has sorted them away
# before a model sees them, and crowds of a few votes are one shard, counted by the kernels; the usual models are asked all that.
OF_SHARDS_IN_MEMORY = (
    *OF_SHARDS,
    "order_of_rows_does_not_matter",
    "names_of_workers_do_not_matter",
    "symmetric_crowds_stay_tied",
    "tiny_crowds_have_one_answer",
)


def is_asked(check, model, place):
    """Whether a check is made here: each is, of every model, on the kernels, and wherever its outcome could be another."""
    if MODELS[model].place == "memory" and place.startswith("disk"):
        return False
    if check == "many_labels_work" and "small shards" in place:
        return False
    if "threads" in place:
        return model in DEFAULT_COMPARED_MODELS and check in OF_THREADS
    if model not in DEFAULT_COMPARED_MODELS:
        of_shards = OF_SHARDS_IN_MEMORY if place.startswith("reference") else OF_SHARDS
        return place == "cpu" or (place in FEWER and check in of_shards)
    if place == "disk, small shards" and check in NOT_OF_DISK_SHARDS:
        return False
    return place != "disk" or check in OF_ONE_SHARD


EACH = [
    pytest.param(check, model, place, id=f"{check.__name__}, {model}, {name}")
    for check in contract.CHECKS.values()
    for model in MODELS
    for name, place in PLACES.items()
    if is_asked(check.__name__, model, name)
]


@pytest.mark.parametrize(("check", "model", "engine"), EACH)
def test_contract(check, model, engine):
    check(model, engine)
