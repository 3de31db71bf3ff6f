"""The share of right labels with an interval, and how much gold a promise takes: both from honest confidence and few answers."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import Number, Rules, check
from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import InputError
from adjudge.io.frames import match_ids
from adjudge.io.sources import Source
from adjudge.results.promise.answers import check_answer_labels, read_gold_answers
from adjudge.results.promise.draws import ERROR_RANGE, RISK_RANGE, Draw, candidates, require_same_result
from adjudge.results.promise.walk import gold_needed

if TYPE_CHECKING:
    from adjudge.results.result import Result

Floats = NDArray[np.float64]
MIN_TASKS_FOR_SLOPE: Final = 100  # gold tasks from which honest doubt is used as a predictor: below, its slope is a guess
MAX_SLOPE: Final = 1.5
MIN_GAIN, MAX_GAIN = 0.3, 4.0  # of gold tasks: between which the draws lie that the predicted ones are worth
LEVEL_RULE: Final[Rules] = {"level": Number(least=0.5, most=0.999)}
PLAN_RULES: Final[Rules] = {"share": Number(least=0.001, most=1.0), "error": ERROR_RANGE, "risk": RISK_RANGE}


class AccuracyInterval(NamedTuple):
    """An interval of the share of right labels."""

    low: float
    high: float


def interval_of(confidence: Floats, gold: NDArray[np.integer], wrong: NDArray[np.bool_], level: float) -> AccuracyInterval:
    """Return an interval of the share of right labels among these tasks, some of which were drawn and answered.

    Below 100 gold tasks it is Wilson's interval, for draws without replacement. From there on honest doubt predicts errors
    (prediction-powered inference with a fitted slope), and the interval is Wilson's with as many draws as that is worth.

    Parameters
    ----------
    confidence : array, shape (tasks,)
        Confidence of all labels.
    gold : array of int, shape (n,)
        Tasks drawn uniformly without replacement.
    wrong : array of bool, shape (n,)
        Whether their labels are wrong.
    level : float
        Level of the interval.

    Examples
    --------
    >>> interval_of(np.full(1000, 0.9), np.arange(50), np.arange(50) < 5, 0.9)
    AccuracyInterval(low=0.81..., high=0.94...)

    """
    n, total = len(gold), len(confidence)
    errors = np.asarray(wrong, np.float64)
    z = NormalDist().inv_cdf(0.5 + level / 2)
    share, size = float(errors.mean()), n / max(1.0 - n / total, 1e-9)
    if n >= MIN_TASKS_FOR_SLOPE:
        doubt = 1.0 - confidence
        seen = doubt[gold]
        slope = np.clip(np.cov(errors, seen)[0, 1] / max(seen.var(ddof=1), 1e-12), 0.0, MAX_SLOPE)
        unexplained = errors - slope * seen
        share = float(slope * doubt.mean() + unexplained.mean())
        plain = np.clip(share, 0.5 / n, 1.0 - 0.5 / n)
        worth = plain * (1.0 - plain) / max(float(unexplained.var(ddof=2)) / size, 1e-12)
        size = float(np.clip(worth, MIN_GAIN * n, MAX_GAIN * n))
        z *= 1.0 + (z * z + 1.0) / (4.0 * (n - 1))  # Student's quantile, nearly
    share = min(max(share, 0.0), 1.0)
    centre = (share + z * z / (2.0 * size)) / (1.0 + z * z / size)
    half = z / (1.0 + z * z / size) * math.sqrt(share * (1.0 - share) / size + z * z / (4.0 * size * size))
    return AccuracyInterval(1.0 - min(centre + half, 1.0), 1.0 - max(centre - half, 0.0))


def accuracy_interval(result: Result, gold: Source, *, level: float, draw: Draw | None) -> AccuracyInterval:
    """Return an interval of the accuracy of a result; see `Result.accuracy_interval`."""
    check({"level": level}, LEVEL_RULE)
    answers = read_gold_answers(gold)
    check_answer_labels(answers, result.votes.labels)
    confidence, tasks = candidates(result)
    if draw is not None:
        require_same_result(draw, result)
        answers = {task: answers[task] for task in draw.tasks.texts() if task in answers}
        if len(answers) < len(draw):
            raise InputError(
                f"{len(draw) - len(answers)} of the {len(draw)} drawn tasks have no answer: an interval needs all of them, "
                "as those without may be the hard ones"
            )
        inside = confidence >= draw.floor
        confidence, tasks = confidence[inside], tasks[inside]
    else:
        _refuse_part(result, answers)
    place = match_ids(Vocabulary.of_texts(list(answers)), result.votes.tasks.take(tasks))
    known = place >= 0
    if not known.any():
        raise InputError("the gold answers none of the tasks whose labels were inferred: an interval needs some")
    labels = result.votes.labels.texts()
    codes = np.asarray(result.fit.outcome.labels)[tasks[place[known]]]
    truths = np.array(list(answers.values()), object)[known]
    wrong = np.array([labels[code] != truth for code, truth in zip(codes.tolist(), truths.tolist(), strict=True)])
    return interval_of(confidence, place[known], wrong, level)


def _refuse_part(result: Result, answers: dict[str, str]) -> None:
    """Raise if this gold was drawn from a part of the tasks, and would be taken for a sample of them all."""
    draw = result.latest_draw
    if draw is not None and draw.region < len(candidates(result)[0]) and answers.keys() <= set(draw.tasks.texts()):
        raise InputError(
            f"this gold was drawn from the {draw.region} tasks with a confidence of at least {draw.floor:.4g}: give draw=… for "
            "the accuracy of those, or draw from all tasks with floor=0"
        )


def plan_gold(result: Result, *, share: float, error: float, risk: float) -> int | None:
    """Return how many gold tasks are likely to certify a share of the labels; see `Result.gold_needed`."""
    check({"share": share, "error": error, "risk": risk}, PLAN_RULES)
    confidence, _ = candidates(result)
    if not len(confidence):
        return None
    ranked = -np.sort(-confidence)
    surest = ranked[: max(math.ceil(share * len(ranked)), 1)]
    return gold_needed(float((1.0 - surest).mean()), error, risk)
