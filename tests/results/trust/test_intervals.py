import numpy as np
import pytest

import adjudge as adj
from adjudge.results.workers import population

pytestmark = pytest.mark.filterwarnings("ignore::adjudge.NotConverged")  # slow convergence is not what is looked at


def covered(seeds, model="fds", weights=None, **setting):
    """(share of accuracies within their interval, mean width, share of class priors within theirs) over seeds."""
    inside, width, priors = [], [], []
    for seed in seeds:
        crowd = adj.simulate(seed=seed, label_weights=weights, **setting)
        result = adj.aggregate(crowd.votes, model=model, confidence="posterior")
        both = result.workers.join(crowd.workers.select("worker", true="accuracy"), on="worker")
        inside += ((both["accuracy_low"] <= both["true"]) & (both["true"] <= both["accuracy_high"])).to_list()
        width += (both["accuracy_high"] - both["accuracy_low"]).to_list()
        shares = np.array(weights or [1.0] * crowd.spec.labels)
        share = dict(zip(crowd.label_names, shares / shares.sum(), strict=True))
        priors += [low <= share[label] <= high for label, _, low, high in result.priors.iter_rows()]
    return np.mean(inside), np.mean(width), np.mean(priors)


# Workers with about 5, 20 and 200 votes, on tasks with few votes and with many.
CROWDS = [
    {"tasks": 120, "workers": 120, "labels": 3, "votes_per_task": 5},
    {"tasks": 240, "workers": 60, "labels": 2, "votes_per_task": 5},
    {"tasks": 400, "workers": 60, "labels": 4, "votes_per_task": 3},
    {"tasks": 960, "workers": 24, "labels": 2, "votes_per_task": 5},
    {"tasks": 533, "workers": 24, "labels": 4, "votes_per_task": 9},
]


@pytest.mark.parametrize("setting", CROWDS, ids=lambda s: f"{s['tasks'] * s['votes_per_task'] // s['workers']}-{s['labels']}")
@pytest.mark.parametrize("model", ["ds", "fds", "hybrid"])
def test_nine_in_ten_accuracies_lie_in_their_interval(setting, model):
    inside, _, _ = covered(range(100, 105), model, **setting)  # 120 workers and more: their share is known to 3%
    assert 0.82 < inside < 0.97


def test_nine_in_ten_class_priors_lie_in_theirs():
    equal = [covered(range(200, 204), **s)[2] for s in CROWDS]
    unequal = [covered(range(200, 204), weights=[5, 3, 2, 1][: s["labels"]], **s)[2] for s in CROWDS]
    assert 0.84 < np.mean(equal + unequal) < 0.97
    assert min(equal + unequal) > 0.7


def test_accuracies_of_em_do_not():
    """What is mended: the model's own figure with the spread of its own count."""
    inside = []
    for seed in range(100, 108):
        crowd = adj.simulate(seed=seed, **CROWDS[0])
        workers = adj.aggregate(crowd.votes, model="ds", confidence="posterior").workers
        both = workers.join(crowd.workers.select("worker", true="accuracy"), on="worker")
        a, n = both["accuracy"].to_numpy(), both["votes"].to_numpy()
        inside.append((np.abs(a - both["true"].to_numpy()) < 1.645 * np.sqrt(a * (1 - a) / n)).mean())
    assert np.mean(inside) < 0.7


def test_more_votes_make_narrower_intervals():
    widths = [covered([1], tasks=n, workers=20, labels=3, votes_per_task=4)[1] for n in (20, 100, 500, 2500)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.1


def test_nothing_is_known_of_those_whose_tasks_are_theirs_alone():
    crowd = adj.simulate(tasks=200, workers=10, labels=2, votes_per_task=4, seed=1)
    alone = [(f"own {n}", "hermit", "l0") for n in range(200)]
    workers = adj.aggregate([*crowd.votes.rows(), *alone], confidence="posterior").workers
    low, high = workers.filter(worker="hermit").select("accuracy_low", "accuracy_high").row(0)
    assert high - low > 0.2
    assert workers.filter(worker="hermit")["verdict"].item() == "unclear"
    lonely = adj.aggregate(alone, confidence="posterior").workers
    assert lonely["accuracy_low"].item() < 0.05
    assert lonely["accuracy_high"].item() > 0.95


def test_gold_makes_intervals_narrower():
    crowd = adj.simulate(tasks=300, workers=12, labels=2, votes_per_task=2, skill=0.65, seed=4)
    blind, told = (adj.aggregate(crowd.votes, gold=gold).workers for gold in (None, crowd.truth))
    width = [(w["accuracy_high"] - w["accuracy_low"]).mean() for w in (blind, told)]
    assert width[1] < width[0]
    both = told.join(crowd.workers.select("worker", true="accuracy"), on="worker")
    assert ((both["accuracy_low"] <= both["true"]) & (both["true"] <= both["accuracy_high"])).mean() > 0.8


@pytest.mark.parametrize("votes", [5.0, 50.0])
@pytest.mark.parametrize(("mean", "spread"), [(0.75, 0.05), (0.6, 0.2)])
def test_the_population_is_found(mean, spread, votes):
    rng = np.random.default_rng(8)
    strength = 1 / spread - 1
    accuracy = rng.beta(mean * strength, (1 - mean) * strength, size=4000)
    found = population(rng.binomial(int(votes), accuracy) / votes, np.full(4000, votes), np.full(4000, int(votes)))
    assert found.mean == pytest.approx(mean, abs=0.02)
    assert found.spread == pytest.approx(spread, abs=0.02)
    assert found.mean_variance < 1e-4


def test_labels_that_nobody_gave_change_nothing():
    votes = adj.simulate(tasks=120, workers=15, labels=3, votes_per_task=4, seed=10).votes
    plain, more = adj.aggregate(votes), adj.aggregate(adj.read(votes, labels=["never", "l2", "l1", "l0"]))
    for name in ("accuracy_low", "accuracy_high", "evidence", "information"):
        assert more.workers[name].to_list() == pytest.approx(plain.workers[name].to_list(), rel=1e-3, abs=2e-3)
    assert more.priors.filter(label="never").select("low", "high").row(0)[1] < 0.05
