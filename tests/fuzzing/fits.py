"""Random small crowds, many of them symmetric: every engine, order and naming gives one answer, and the oracle's."""

import random
import warnings

import adjudge as adj
import oracle
from adjudge.engines.registry import engine_with
from adjudge.models.base import MODELS
from fitting import aggregate

EXACT = ("mv", "fds", "iwmv")  # integer counts: equal to the last task
ANY = sorted(name for name, model in MODELS.items() if not model.needs_gold and model.most_labels is None)
NEAR = 1e-6  # soft models: labels may differ only where two probabilities lie this close


def crowd(rng):
    """Votes, (task, worker, label) each: of a random shape, and every third time with their mirror image."""
    tasks, workers, labels = rng.randint(1, 7), rng.randint(1, 6), rng.randint(1, 4)
    votes = [
        (f"t{rng.randrange(tasks)}", f"w{rng.randrange(workers)}", f"l{rng.randrange(labels)}") for _ in range(rng.randint(1, 30))
    ]
    if rng.random() < 0.33:  # the same answers by other workers with the labels turned around: exact ties
        turn = {f"l{i}": f"l{labels - 1 - i}" for i in range(labels)}
        votes += [(task, worker + "'", turn[label]) for task, worker, label in votes]
    return votes


def fit(votes, model, **options):
    if MODELS[model].is_ordered:
        options["labels"] = sorted({label for _, _, label in votes})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", adj.NotConverged)
        return aggregate(votes, model=model, **options)


def answer(result):
    """{task: (label, tie, probabilities by label)}"""
    probabilities = {row["task"]: row for row in result.probabilities_frame().to_dicts()}
    return {row["task"]: (row["label"], row["tie"], probabilities[row["task"]]) for row in result.labels_frame().to_dicts()}


def assert_same(model, ours, theirs, how):
    assert ours.keys() == theirs.keys(), how
    for task, (label, tie, mine) in ours.items():
        other, other_tie, yours = theirs[task]
        near = abs(mine[label] - mine[other]) < NEAR or abs(yours[label] - yours[other]) < NEAR
        assert label == other or (model not in EXACT and near), f"{how}: {task} is {label} or {other}"
        assert tie == other_tie or (model not in EXACT and near), f"{how}: {task} is tied or not"
        for name in mine.keys() - {"task"}:
            assert abs(mine[name] - yours[name]) < NEAR, f"{how}: {task} has {name} at {mine[name]} or {yours[name]}"


def run(seed):
    """Fit one crowd in every way that must give the same answer."""
    rng = random.Random(seed)
    votes = crowd(rng)
    model = rng.choice(ANY)
    given = {"seed": rng.randrange(5)}
    if rng.random() < 0.3 and "smoothing" in MODELS[model].options():
        given["smoothing"] = rng.choice([0.1, 1.0])
    first = fit(votes, model, engine="reference", **given)
    told = answer(first)
    what = f"seed {seed}, {model}, {given}, {votes}"
    for engine, threads in (("cpu", 1), ("cpu", 3), *([("disk", 2)] if MODELS[model].place != "memory" else [])):
        assert_same(
            model, told, answer(fit(votes, model, engine=engine_with(engine, threads=threads), **given)), f"{engine}: {what}"
        )
    shuffled = rng.sample(votes, len(votes))
    assert_same(model, told, answer(fit(shuffled, model, **given)), f"reordered: {what}")
    names = sorted({worker for _, worker, _ in votes})
    other = dict(zip(names, rng.sample([f"x{n}" for n in names], len(names)), strict=True))
    renamed = [(task, other[worker], label) for task, worker, label in votes]
    assert_same(model, told, answer(fit(renamed, model, **given)), f"renamed: {what}")
    if model in ("ds", "fds", "hybrid"):
        naive = oracle.fit(votes, model, seed=given["seed"], smoothing=given.get("smoothing", 0.0))
        for task, (label, _, mine) in told.items():
            near = abs(mine[label] - mine[naive["labels"][task]]) < NEAR
            assert label == naive["labels"][task] or (model != "fds" and near), f"oracle: {task}: {what}"
    elif model in ("mv", "iwmv"):
        naive = oracle.majority(votes, given["seed"]) if model == "mv" else oracle.iwmv(votes, given["seed"])["labels"]
        assert {task: label for task, (label, _, _) in told.items()} == naive, f"oracle: {what}"
