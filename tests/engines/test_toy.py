"""Adding an engine takes one file and one registered name; a recipe may ask for sums over all workers in several rounds."""

import numpy as np
import pytest

import adjudge as adj
import contract
from adjudge.engines import registry
from adjudge.engines.passes import Answers
from adjudge.models import em
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS
from adjudge.models.dawid_skene import ConfusionPrior, ConfusionRecipe, ConfusionStep


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(registry.ENGINES, "toy", "toy_engine:make")
    return "toy"


# Every check for a model that counts hard labels and for one that counts shares. The others ask the engine for nothing else:
# that it gives what the reference gives, and of what shape, is checked of each.
EVERY = ("fds", "ds")
OF_OTHERS = (
    "every_task_gets_a_label",
    "engines_agree",
    "honest_confidence_is_the_same_everywhere",
    "the_smallest_inputs_work",
    "symmetric_crowds_stay_tied",
)
CONTRACT = [
    (check, model)
    for check in contract.CHECKS
    for model in DEFAULT_COMPARED_MODELS
    if MODELS[model].place == "anywhere" and (model in EVERY or check in OF_OTHERS)
]


@pytest.mark.parametrize(("check", "model"), CONTRACT)
def test_contract(toy, check, model):
    contract.CHECKS[check](model, toy)


def test_a_model_that_an_engine_cannot_run_is_reported(toy):
    with pytest.raises(adj.OptionError, match="engine 'toy' cannot run model 'glad'"):
        adj.aggregate([("t", "w", "x")], model="glad", engine=toy)


class PulledTwice(ConfusionRecipe):
    """Pulls workers toward their mean confusion, found in two rounds of sums over all of them."""

    def shared(self, priors, gather):
        votes = gather(_by_given)
        mean = votes / np.maximum(votes.sum(axis=0), 1.0)
        distance = gather(lambda block, counts: np.abs(counts - mean[block.panel.row_label]).sum())
        return mean * (1.0 + 100.0 / (1.0 + distance))

    def on(self, block):
        return lambda counts, shared: ConfusionStep(block, ConfusionPrior(0.0, shared).of(block))(counts)


def _by_given(block, counts):
    k = block.panel.n_labels
    return np.stack([np.bincount(block.panel.row_label, counts[:, c], minlength=k) for c in range(k)], axis=1)


@pytest.mark.parametrize("engine", ["toy", "cpu", "disk"])
def test_a_recipe_with_rounds(toy, engine):
    votes = adj.read(adj.simulate(tasks=80, workers=9, labels=3, seed=4).votes)
    found = []
    for name in ("reference", engine):
        session = registry.resolve(name).load(votes, seed=0, ties="hash")
        em.run(session, PulledTwice(adj.DawidSkene(max_iter=50)), em.FitOptions())
        found.append((session.finish(), np.concatenate(list(map(np.atleast_2d, session.posterior())))))
    (there, expected), (here, posterior) = found
    assert np.array_equal(here.labels, there.labels)
    assert np.allclose(posterior, expected, atol=1e-9)
    assert here.log_likelihood != pytest.approx(adj.aggregate(votes, model="ds").log_likelihood)


@pytest.mark.parametrize("model", ["auto", "fds", "iwmv", "mv", "catd", "wawa", "zc"])
@pytest.mark.parametrize("known", [0, 12])
def test_honest_confidence(toy, model, known):
    crowd = adj.simulate(tasks=80, workers=10, labels=3, skill=0.4, seed=4)
    gold = dict(crowd.truth.head(known).iter_rows()) or None
    near, far = (MODELS[model]().fit(crowd.votes, engine=name, gold=gold, confidence="honest") for name in ("cpu", toy))
    assert far.labels_frame().drop("confidence").equals(near.labels_frame().drop("confidence"))
    for ask in (
        lambda fit: fit.fit.outcome.confidence,
        lambda fit: fit.fit.honest(),
        lambda fit: fit.session.run(Answers(fit.fit.honest.honest.rule), fit.fit.honest.honest.lines),
    ):
        assert np.allclose(ask(far), ask(near), rtol=0, atol=1e-9)
