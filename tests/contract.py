"""The contract: what every registered model must pass, on every engine.

A new model or engine is tested by being registered. Each check takes a model's name and an engine and raises
`AssertionError` with what went wrong; `check` runs them all.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import Confidence
from adjudge.data.votes import Votes
from adjudge.engines.base import Engine
from adjudge.engines.local import LocalEngine
from adjudge.engines.registry import resolve
from adjudge.errors import MissingLabels, NotConverged
from adjudge.evaluation.evaluate import evaluate
from adjudge.evaluation.simulate import simulate
from adjudge.io.read import read
from adjudge.io.sources import Source
from adjudge.models.base import MODELS
from adjudge.results.result import Result

POSTERIOR_TOLERANCE: Final = 1e-6  # posteriors of two engines differ by less than this
MIRRORED_SEEDS: Final = (44, 212, 291, 408)  # seeds of `mirrored` whose ties plain sums of floating-point numbers would break
TINY_SEEDS: Final = (2, 92, 621)  # seeds of `tiny`, the last two of such a kind
Told = list[tuple[str, str, str]]  # votes as (task, worker, label)
Check = Callable[[str, str | Engine], None]


def check(model: str, engine: str | Engine = "auto") -> None:
    """Run every check of the contract on one model and one engine.

    >>> check("mv", "reference")
    """
    for one in CHECKS.values():
        one(model, engine)


def every_task_gets_a_label(model: str, engine: str | Engine) -> None:
    """Each task once, a known label, a confidence that is the probability of the label."""
    crowd = simulate(tasks=200, workers=20, labels=_up_to(model, 4), votes_per_task=3, seed=3)
    result = _fit(model, crowd.votes, engine)
    labels, probabilities = result.labels_frame(), result.probabilities_frame()
    first = ["task", "label", "confidence", "votes", "tie"]  # a model may add columns after these
    assert labels.columns[:5] == first, f"the columns are {labels.columns}"
    assert set(labels["task"]) == set(crowd.votes["task"]), "a task is missing or made up"
    assert labels["task"].is_unique().all(), "a task has two labels"
    assert set(labels["label"]) <= set(crowd.votes["label"]), "a label is made up"
    matrix = probabilities.drop("task").to_numpy()
    assert np.allclose(matrix.sum(axis=1), 1.0), "probabilities do not sum to one"
    assert ((matrix >= 0) & (matrix <= 1)).all(), "a probability is below 0 or above 1"
    winner = np.array([probabilities.columns.index(label) - 1 for label in labels["label"]])
    chosen = matrix[np.arange(len(winner)), winner]
    assert np.allclose(chosen, labels["confidence"].to_numpy()), "confidence is not the probability of the label"
    assert np.allclose(chosen, matrix.max(axis=1)), "the label is not the most probable one"
    assert (labels["votes"] == 3).all(), "votes are miscounted"


def fitting_twice_is_the_same(model: str, engine: str | Engine) -> None:
    """A model is frozen settings: fitting changes neither it nor the votes."""
    votes = read(simulate(tasks=50, workers=9, labels=_up_to(model, 3), seed=5).votes)
    before = votes.row.copy()
    first, second = _fit(model, votes, engine), _fit(model, votes, engine)
    assert first.labels_frame().equals(second.labels_frame()), "a second fit differs from the first"
    assert np.array_equal(before, votes.row), "a fit changed the votes"


def order_of_rows_does_not_matter(model: str, engine: str | Engine) -> None:
    """The same votes in another order get the same labels."""
    votes = simulate(tasks=120, workers=15, labels=_up_to(model, 3), votes_per_task=2, seed=8).votes
    first = _labels(_fit(model, votes, engine))
    again = _labels(_fit(model, votes.sample(fraction=1.0, shuffle=True, seed=1), engine))
    assert again == first, "rows in another order changed labels"


def names_of_workers_do_not_matter(model: str, engine: str | Engine) -> None:
    """Workers under other names (and so in another order) leave the labels as they are."""
    votes = simulate(tasks=120, workers=15, labels=_up_to(model, 3), votes_per_task=2, seed=9).votes
    renamed = votes.with_columns(worker=pl.col("worker").str.reverse() + "!")
    first, again = _labels(_fit(model, votes, engine)), _labels(_fit(model, renamed, engine))
    assert again == first, "other names of workers changed labels"


def order_of_labels_does_not_matter(model: str, engine: str | Engine) -> None:
    """Labels declared in another order, or with one that never occurs, win where they won before."""
    votes = simulate(tasks=120, workers=15, labels=_up_to(model, 3), votes_per_task=2, seed=10).votes
    first = _labels(_fit(model, votes, engine))
    for declared in (["l2", "l0", "l1"], ["never", "l1", "l2", "l0"]) if _up_to(model, 4) == 4 else (["l1", "l0"],):
        again = _labels(_fit(model, read(votes, labels=declared), engine))
        assert again == first, f"labels declared as {', '.join(declared)} changed labels"


def ids_are_their_text(model: str, engine: str | Engine) -> None:
    """Ids as numbers or as the text of those numbers give the same labels, each in its own type."""
    votes = simulate(tasks=120, workers=15, labels=_up_to(model, 3), votes_per_task=2, seed=11).votes
    numbers = votes.with_columns(pl.all().str.slice(1).cast(pl.Int64))
    texts = numbers.cast(pl.String)
    as_numbers, as_texts = _labels(_fit(model, numbers, engine)), _labels(_fit(model, texts, engine))
    assert {str(task): str(label) for task, label in as_numbers.items()} == as_texts, "numbers as ids changed labels"
    for kind, found in ((int, as_numbers), (str, as_texts)):
        ids = [one for pair in found.items() for one in pair]
        assert all(isinstance(one, kind) for one in ids), f"an id that was {kind.__name__} comes back as something else"


def engines_agree(model: str, engine: str | Engine) -> None:
    """Labels equal the reference's, posteriors to 1e-6, likelihood to 1e-9; the reference's own, however it cuts the votes."""
    reference = LocalEngine()
    if resolve(engine) == reference:
        reference = LocalEngine(shard_votes=100)
    for k, per_task, seed in ((2, 1, 1), (2, 4, 2), (3, 2, 3), (5, 6, 4), (17, 3, 5)):
        some = _up_to(model, k)
        votes = read(simulate(tasks=150, workers=20, labels=some, votes_per_task=per_task, adversaries=0.2, seed=seed).votes)
        here, there = _fit(model, votes, engine), _fit(model, votes, reference)
        assert _labels(here) == _labels(there), f"labels differ from the reference with {k} labels"
        assert here.iterations == there.iterations, f"{here.iterations} iterations, {there.iterations} of the reference"
        ours, theirs = here.probabilities_frame().drop("task"), there.probabilities_frame().drop("task")
        assert np.abs(ours.to_numpy() - theirs.to_numpy()).max() < POSTERIOR_TOLERANCE, "probabilities differ from the reference"
        likelihoods = here.log_likelihood, there.log_likelihood
        assert np.isclose(*likelihoods, rtol=1e-9, equal_nan=True), "the likelihood differs from the reference"


def honest_confidence_is_the_same_everywhere(model: str, engine: str | Engine) -> None:
    """Honest confidence changes no label, is a probability, and equals the reference's to 1e-6."""
    for k, per_task, seed in ((2, 3, 6), (4, 5, 7)):
        crowd = simulate(tasks=120, workers=15, labels=_up_to(model, k), votes_per_task=per_task, shared_error=0.2, seed=seed)
        votes = read(crowd.votes)
        here, there = (_fit(model, votes, place, "honest") for place in (engine, LocalEngine()))
        assert _labels(here) == _labels(_fit(model, votes, engine)), "honest confidence changed a label"
        ours, theirs = (fit.probabilities_frame().sort("task").drop("task").to_numpy() for fit in (here, there))
        assert np.allclose(ours.sum(axis=1), 1.0), "honest probabilities do not sum to 1"
        assert np.abs(ours - theirs).max() < POSTERIOR_TOLERANCE, "honest probabilities differ from the reference"


def likelihood_never_falls(model: str, engine: str | Engine) -> None:
    """What a phase maximises (likelihood, or C2 when hard) never falls within the phase; who maximises nothing claims nothing."""
    kind = MODELS[model]
    options: tuple[dict[str, float], ...] = ({}, {"smoothing": 0.5}) if "smoothing" in kind.options() else ({},)
    for given in options:
        crowd = simulate(tasks=200, workers=25, labels=_up_to(model, 4), votes_per_task=3, spammers=0.3, seed=12)
        result = _fit(model, crowd.votes, engine, **given)
        trace = result.fit.trace
        if not (kind.learns and kind.is_likelihood):
            claimed = [result.log_likelihood, *(row.objective for row in trace)]
            assert all(math.isnan(one) for one in claimed), "a likelihood is claimed where none is maximised"
            continue
        assert len(trace) > 2, "the fit is over before anything could fall"
        assert all(math.isfinite(row.objective) for row in trace), "an objective is no number"
        for before, after in itertools.pairwise(trace):
            if before.phase == after.phase:
                assert after.objective >= before.objective - 1e-9 * abs(before.objective), f"{before} fell to {after}"


def the_smallest_inputs_work(model: str, engine: str | Engine) -> None:
    """No vote, one vote, one label, one worker, one task."""
    empty: dict[str, list[str]] = {"task": [], "worker": [], "label": []}
    assert _fit(model, empty, engine).labels_frame().is_empty(), "no vote, and yet a label"
    inputs: dict[str, Told] = {
        "one vote": [("t", "w", "x")],
        "one worker": [("t", "w", "x"), ("u", "w", "y")],
        "one task": [("t", w, "x") for w in "abc"],
        "one label": [(t, w, "x") for t in "tu" for w in "abc"],
    }
    for what, votes in inputs.items():
        assert _labels(_fit(model, votes, engine)) == {task: label for task, _, label in votes}, f"{what} gets other labels"


def long_tasks_do_not_underflow(model: str, engine: str | Engine) -> None:
    """30,000 votes on one task, for which a product of probabilities would underflow."""
    rng = np.random.default_rng(0)
    worker = np.concatenate([np.arange(30_000) % 500, rng.integers(500, size=3000)])
    task = np.concatenate([np.zeros(30_000, int), rng.integers(1, 300, size=3000)])
    right = rng.random(33_000) < 0.7
    k = _up_to(model, 3)
    label = np.where(right, task % k, rng.integers(k, size=33_000))
    frame = _fit(model, {"task": task, "worker": worker, "label": label}, engine, **_briefly(model)).labels_frame()
    assert frame["confidence"].is_finite().all(), "a confidence is no number"
    assert dict(frame.select("task", "label").iter_rows())[0] == 0, "the task of 30,000 votes has another label than most of them"


def many_labels_work(model: str, engine: str | Engine) -> None:
    """300 labels."""
    k = _up_to(model, 300)
    nearby = _neighbours(12, k, 0.8) if MODELS[model].is_ordered else None  # errors of judges of grades are not anywhere
    crowd = simulate(tasks=900, workers=12, labels=k, votes_per_task=4, skill=0.8, confusions=nearby, seed=13)
    accuracy = evaluate(_fit(model, crowd.votes, engine, **_briefly(model)), crowd.truth).accuracy
    assert accuracy > 0.85, f"the accuracy is {accuracy}"


def abstentions_are_no_label(model: str, engine: str | Engine) -> None:
    """Missing labels are dropped, counted and warned about; a task left without votes has no label."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        votes = read([("t", "a", "x"), ("t", "b", None), ("u", "a", None)])
    assert [w.category for w in caught] == [MissingLabels], "no warning about abstentions, or another"
    assert votes.abstentions == 2, "abstentions are miscounted"
    found = _fit(model, votes, engine).labels_frame().select("task", "label", "votes").rows()
    assert found == [("t", "x", 1), ("u", None, 0)], f"abstentions became {found}"


def below_chance_is_used_not_obeyed(model: str, engine: str | Engine) -> None:
    """With a third of the crowd answering below chance, a model that learns beats majority vote; others give what most say."""
    crowd = simulate(tasks=500, workers=30, labels=_up_to(model, 3), votes_per_task=9, skill=0.85, adversaries=1 / 3, seed=14)
    votes = read(crowd.votes)
    result = _fit(model, votes, engine)
    if not MODELS[model].learns:
        given = crowd.votes.group_by("task", "label").len()
        most = given.filter(pl.col("len") == pl.col("len").max().over("task")).select("task", "label")
        assert set(_labels(result).items()) <= set(most.iter_rows()), "a task has a label that fewer votes gave than another"
        return
    accuracy = evaluate(result, crowd.truth).accuracy
    assert accuracy > 0.95, f"the accuracy is {accuracy}"
    assert accuracy > evaluate(_fit("mv", votes, engine), crowd.truth).accuracy, "majority vote is no worse"


def symmetric_crowds_stay_tied(model: str, engine: str | Engine) -> None:
    """A crowd that is its own mirror image has ties, and nothing but rounding could break them; a hard pass decides them."""
    for seed in MIRRORED_SEEDS:
        votes, image = mirrored(seed)
        if not _is_defined(model, votes):
            continue
        result, answer = _one_answer(model, votes, engine, seed)
        if any(row.phase != "soft" for row in result.fit.trace) or MODELS[model].needs_gold:  # gold breaks the symmetry
            continue
        if MODELS[model].is_ordered and result.votes.n_labels > 2:  # permutations are not symmetries of three grades
            continue
        for task, (label, tie) in answer.items():
            mirror = image[task, label]
            assert mirror[0] != task or mirror[1] == label or tie, f"crowd {seed}: {task} is {label}, and as well {mirror[1]}"
            assert answer[mirror[0]][1] == tie, f"crowd {seed}: {task} is tied, its image is not"


def tiny_crowds_have_one_answer(model: str, engine: str | Engine) -> None:
    """Two to six votes, with many kinds of ties: the answer depends neither on names nor on any order."""
    for seed in TINY_SEEDS:
        if _is_defined(model, tiny(seed)):
            _one_answer(model, tiny(seed), engine, seed)


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        one.__name__: one
        for one in (
            every_task_gets_a_label,
            fitting_twice_is_the_same,
            order_of_rows_does_not_matter,
            names_of_workers_do_not_matter,
            order_of_labels_does_not_matter,
            ids_are_their_text,
            engines_agree,
            honest_confidence_is_the_same_everywhere,
            likelihood_never_falls,
            the_smallest_inputs_work,
            long_tasks_do_not_underflow,
            many_labels_work,
            abstentions_are_no_label,
            below_chance_is_used_not_obeyed,
            symmetric_crowds_stay_tied,
            tiny_crowds_have_one_answer,
        )
    }
)


def mirrored(seed: int) -> tuple[Told, dict[tuple[str, str], tuple[str, str]]]:
    """Return votes that a permutation of tasks, workers and labels leaves as they are, and the image of each (task, label)."""
    rng = random.Random(seed)
    labels, workers, tasks = rng.choice([2, 2, 3, 4]), rng.randint(2, 6), rng.randint(1, 5)
    of_worker, of_label, of_task = (_swaps(n, rng) for n in (workers, labels, tasks))
    votes = set()
    for _ in range(rng.randint(2, 8)):
        task, worker, label = rng.randrange(tasks), rng.randrange(workers), rng.randrange(labels)
        votes |= {(task, worker, label), (of_task[task], of_worker[worker], of_label[label])}
    image = {
        (f"t{task}", f"l{label}"): (f"t{of_task[task]}", f"l{of_label[label]}")
        for task, label in itertools.product(range(tasks), range(labels))
    }
    return [(f"t{task}", f"w{worker}", f"l{label}") for task, worker, label in sorted(votes)], image


def tiny(seed: int) -> Told:
    """Return two to six votes."""
    rng = random.Random(seed)
    labels = rng.randint(2, 4)
    votes = [(rng.randrange(3), rng.randrange(4), rng.randrange(labels)) for _ in range(rng.randint(2, 6))]
    return [(f"t{task}", f"w{worker}", f"l{label}") for task, worker, label in votes]


def _swaps(n: int, rng: random.Random) -> list[int]:
    """Return a permutation of n that exchanges some neighbours, and is its own inverse."""
    out = list(range(n))
    for i in range(0, n - 1, 2):
        if rng.random() < 0.8:
            out[i], out[i + 1] = i + 1, i
    return out


def _one_answer(model: str, votes: Told, engine: str | Engine, seed: int) -> tuple[Result, dict[str, tuple[str, bool]]]:
    """Return a fit and its (label, tie) by task; other names of workers, orders of labels and rows, and the reference agree."""
    rng = random.Random(seed)
    workers, labels = (sorted({vote[place] for vote in votes}) for place in (1, 2))
    result = _fit(model, read(votes), engine)
    first = _answer(result)
    others: dict[str, Votes] = {}
    for n in range(2):
        names = dict(zip(workers, rng.sample(workers, len(workers)), strict=True))
        others[f"other names of workers ({n + 1})"] = read([(task, names[worker], label) for task, worker, label in votes])
    others["another order of rows"] = read(rng.sample(votes, len(votes)))
    others["another order of labels"] = read(votes, labels=rng.sample(labels, len(labels)))
    for what, again in others.items():
        assert _answer(_fit(model, again, engine)) == first, f"crowd {seed}: {what} changed the answer"
    assert _answer(_fit(model, read(votes), LocalEngine())) == first, f"crowd {seed}: the reference gives another answer"
    return result, first


def _answer(result: Result) -> dict[str, tuple[str, bool]]:
    return {task: (label, tie) for task, label, tie in result.labels_frame().select("task", "label", "tie").iter_rows()}


def _fit(
    model: str, votes: Votes | Source, engine: str | Engine, confidence: Confidence = "posterior", /, **options: float
) -> Result:
    """Return a fit with the model's own figures, which honest ones would hide, unless those are requested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # slow convergence is not what is checked
        gold = _some_gold(votes) if MODELS[model].needs_gold else None
        # Restarts repeat what one start shows: two of them show that the better one is kept.
        restarts = {"restarts": 2} if "restarts" in MODELS[model].options() else {}
        order = _in_order(votes) if MODELS[model].is_ordered else {}
        return MODELS[model](**cast(Any, {**restarts, **order, **options})).fit(
            votes, engine=engine, confidence=confidence, gold=gold
        )


def _in_order(votes: Votes | Source) -> dict[str, list[object]]:
    """Return an order of the labels for a model of grades, if there are labels: l9 is below l10, however they were declared."""
    labels: list[object] = sorted(read(votes).labels.ids() if not isinstance(votes, Votes) else votes.labels.ids(), key=_length)
    return {"order": labels} if labels else {}


def _neighbours(workers: int, labels: int, skill: float) -> NDArray[np.float64]:
    """Return workers who are right with this probability, and else one grade off, [workers, K true, K given]."""
    near = (np.eye(labels, k=1) + np.eye(labels, k=-1)) * (1.0 - skill) / 2.0
    near += np.diag(1.0 - near.sum(axis=1))
    return np.repeat(near[None], workers, axis=0)


def _length(label: object) -> tuple[int, str]:
    return len(str(label)), str(label)


def _some_gold(votes: Votes | Source) -> dict[object, object]:
    """Return gold for a model that needs it: what most say of every third task, where most say the same."""
    told = MODELS["mv"]().fit(votes, engine=LocalEngine(), confidence="posterior").labels_frame()
    clear = told.filter(pl.col("confidence") > 0.6).sort(pl.col("task").cast(pl.String))
    return dict(clear[::3].select("task", "label").iter_rows())


def _up_to(model: str, labels: int) -> int:
    """Return so many labels, or as many as the model is made for."""
    most = MODELS[model].most_labels
    return labels if most is None else min(labels, most)


def _is_defined(model: str, votes: Told) -> bool:
    """Return whether the model accepts this number of labels."""
    labels = len({label for _, _, label in votes})
    return _up_to(model, labels) == labels


def _briefly(model: str) -> dict[str, float]:
    """Return options for few iterations, where what is checked shows in each of them."""
    return {"max_iter": 3} if "max_iter" in MODELS[model].options() else {}


def _labels(result: Result) -> dict[object, object]:
    return dict(result.labels_frame().select("task", "label").iter_rows())
