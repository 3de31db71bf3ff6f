"""The panel stack: the optimum of its regression in plain loops, what it learns, when `auto` takes it, and how it explains itself."""

import math

import numpy as np
import polars as pl
import pytest

import adjudge as adj
from adjudge.models.panel import Stack
from adjudge.results.explain import explain_many
from fitting import aggregate

CROWD = adj.simulate(tasks=250, workers=9, votes_per_task=9, labels=2, skill=0.55, shared_error=0.5, seed=2)
THREE = adj.simulate(tasks=150, workers=6, votes_per_task=5, labels=3, skill=0.5, shared_error=0.3, repeats=0.1, seed=4)


def some_gold(crowd, n):
    return dict(crowd.truth.head(n).iter_rows())


def penalised_loss(crowd, gold, trust, weights, spread):
    """What the stack minimises, a task and a vote at a time."""
    alone = aggregate(crowd.votes)
    honest = {row["task"]: row for row in alone.probabilities.iter_rows(named=True)}
    total = (trust - 1) ** 2 / (2 * 0.3**2) + sum(u**2 for u in weights.values()) * len(weights) / (2 * spread**2)
    for task, true in gold.items():
        given = crowd.votes.filter(task=task)
        scores = {label: trust * math.log(max(p, 1e-6)) for label, p in honest[task].items() if label != "task"}
        for worker, votes in given.group_by("worker"):
            for label in votes["label"]:
                scores[label] += weights[worker[0]] / len(votes)
        total += math.log(sum(map(math.exp, scores.values()))) - scores[true]
    return total


@pytest.mark.parametrize(("crowd", "spread"), [(CROWD, 1.0), (THREE, 0.5)])
def test_no_other_weights_are_better(crowd, spread):
    gold = some_gold(crowd, 40)
    result = aggregate(crowd.votes, adj.PanelStack(spread=spread), gold=gold)
    trust, weights = result.facts["trust_in_votes"], dict(result.workers.select("worker", "weight").iter_rows())
    best = penalised_loss(crowd, gold, trust, weights, spread)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1):
        for _ in range(4):
            other = {worker: u + size * rng.normal() for worker, u in weights.items()}
            assert penalised_loss(crowd, gold, trust + size * rng.normal(), other, spread) > best


def test_probabilities_are_those_of_the_scores():
    gold = some_gold(THREE, 30)
    result = aggregate(THREE.votes, "panel", gold=gold)
    stack = result.fit.stack
    assert isinstance(stack, Stack)
    scores = stack.scores(result.votes)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rest = ~result.labels["gold"].to_numpy()
    assert np.allclose(result.probabilities.drop("task").to_numpy()[rest], expected[rest])
    assert result.labels.filter(gold=True)["confidence"].to_list() == [1.0] * 30
    known = dict(result.labels.select("task", "label").iter_rows())
    assert {task: known[task] for task in gold} == gold


def test_it_learns_whom_to_believe():
    gold = some_gold(CROWD, 50)
    alone, stacked = aggregate(CROWD.votes), aggregate(CROWD.votes, "panel", gold=gold)
    rest = CROWD.truth.filter(~CROWD.truth["task"].is_in(list(gold)))
    assert adj.evaluate(stacked, rest).accuracy > adj.evaluate(alone, rest).accuracy + 0.05
    assert adj.evaluate(stacked, rest).log_loss < adj.evaluate(alone, rest).log_loss
    workers = stacked.workers.sort("weight")
    assert workers["gold_right"][0] < workers["gold_right"][-1]
    assert (workers["gold_votes"] == 50).all()


def test_auto_takes_it_where_cross_validation_says_so():
    gold = some_gold(CROWD, 60)
    result = aggregate(CROWD.votes, gold=gold)
    assert result.facts["chose"] == "panel"
    assert result.facts["why"].startswith("panel stack: 60 gold tasks say whom to believe (log-odds per vote: most w")
    assert result.labels.equals(aggregate(CROWD.votes, "panel", gold=gold).labels)
    assert aggregate(CROWD.votes, gold=some_gold(CROWD, 19)).facts["chose"] != "panel"
    assert aggregate(CROWD.votes).facts["chose"] != "panel"


def test_auto_stays_as_it_was_on_sparse_votes_and_on_able_judges():
    sparse = adj.simulate(tasks=250, workers=30, votes_per_task=9, labels=2, skill=0.55, shared_error=0.5, seed=2)
    assert aggregate(sparse.votes, gold=some_gold(sparse, 60)).facts["chose"] != "panel"
    able = adj.simulate(tasks=250, workers=7, votes_per_task=7, labels=2, skill=0.97, skill_spread=0.0, seed=3)
    assert aggregate(able.votes, gold=some_gold(able, 60)).facts["chose"] != "panel"


def test_explanations_add_up():
    result = aggregate(THREE.votes, "panel", gold=some_gold(THREE, 30))
    weights = dict(result.workers.select("worker", "weight").iter_rows())
    for why in explain_many(result, np.arange(30, 80)):
        assert sum(vote.contribution for vote in why.evidence) + sum(s.change for s in why.steps) == pytest.approx(why.log_odds)
        if not why.known:
            assert math.log(why.probabilities[why.label] / why.probabilities[why.runner_up]) == pytest.approx(why.log_odds)
            assert all(abs(vote.contribution) <= abs(weights[vote.worker]) + 1e-12 for vote in why.evidence)
    assert "votes without gold" in str(result.explain(result.labels.filter(gold=False)["task"][0]))


def test_reference_and_compiled_engines_agree():
    gold = some_gold(THREE, 30)
    here, there = (aggregate(THREE.votes, "panel", gold=gold, engine=engine) for engine in ("cpu", "reference"))
    assert here.labels.drop("confidence").equals(there.labels.drop("confidence"))
    assert np.allclose(here.labels["confidence"], there.labels["confidence"], atol=1e-9)


def test_what_is_refused():
    with pytest.raises(adj.OptionError, match="'panel' needs gold to learn from"):
        aggregate(CROWD.votes, "panel")
    with pytest.raises(adj.OptionError, match="spread is 0"):
        adj.PanelStack(spread=0)
    with pytest.raises(adj.OptionError, match="engine 'disk' cannot run model 'panel'"):
        aggregate(CROWD.votes, "panel", gold=some_gold(CROWD, 30), engine="disk")
    many = [(f"t{n % 400}", f"w{n}", "yes" if n % 3 else "no") for n in range(1001)]
    with pytest.raises(adj.InputError, match="up to 1000 judges, and these votes have 1001 workers"):
        aggregate(many, "panel", gold={"t1": "yes"})


@pytest.mark.parametrize("options", [{"model": "panel"}, {"model": "auto"}, {"model": "panel", "groups": {"w0": "g", "w1": "g"}}])
def test_the_accuracy_of_a_worker_is_the_probability_of_the_answers_inside_its_interval(options):
    """It is not the agreement with the labels, and the true accuracies are where the intervals say."""
    options = options | {"model": adj.PanelStack()} if options["model"] == "panel" else options
    result = aggregate(CROWD.votes, gold=some_gold(CROWD, 60), **options)
    assert result.facts["chose"] == "panel"
    workers = result.workers
    assert (workers["accuracy"] - workers["agreement"]).abs().max() > 0.02
    assert workers["accuracy"].is_between(workers["accuracy_low"], workers["accuracy_high"]).all()
    shares = result.probabilities
    for worker, accuracy in workers.select("worker", "accuracy").rows():
        given = CROWD.votes.filter(worker=worker).join(shares, on="task")
        assert accuracy == pytest.approx(np.mean([row[row["label"]] for row in given.iter_rows(named=True)]), abs=1e-9)
    right = (
        CROWD.votes.join(CROWD.truth.rename({"label": "true"}), on="task")
        .group_by("worker")
        .agg(right=(pl.col("label") == pl.col("true")).mean())
    )
    true = workers.join(right, on="worker")
    assert true.select(pl.col("right").is_between("accuracy_low", "accuracy_high").mean()).item() > 0.7
