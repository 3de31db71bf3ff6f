"""Temperature: one number that makes probabilities more or less sure, fitted where the truth is known.

A temperature T turns p into p^(1/T), normalised. T above 1 makes probabilities less sure, T below 1 surer; the order of
the labels of a task never changes, so neither does its label. Zeros are floored at `PROBABILITY_FLOOR` first: a probability of 0
stays 0 at every temperature, however wrong it was, and its logarithm is infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import Fit
from adjudge.data.options import Number
from adjudge.data.votes import Gold, piece
from adjudge.engines.base import Session
from adjudge.errors import InputError, quote
from adjudge.io.answers import gold_codes, read_gold
from adjudge.io.sources import Source

if TYPE_CHECKING:
    from adjudge.results.result import Result

PROBABILITY_FLOOR: Final = 1e-12  # probabilities below this count as this: the logarithm stays finite
COLDEST, HOTTEST = 0.05, 100.0  # where temperatures are sought: labels that are all right (wrong) would ask for 0 (infinity)
TEMPERATURE: Final = Number(least=1e-6, most=1e6)  # where p^(1/T) neither overflows nor loses the order of labels
MAX_NEWTON_STEPS: Final = 200  # far more than Newton with bisection takes
RELATIVE_TOLERANCE: Final = 1e-12  # relative change of 1/T that ends the search
Floats = NDArray[np.float64]
MIN_CALIBRATION_TASKS: Final = 10  # below which a temperature is a guess
CALIBRATION_FOLDS: Final = 2
PRIOR_TASKS: Final = 20.0  # known tasks that the prior of a temperature is worth
MAX_BELIEVED_TASKS: Final = 100_000  # tasks whose own probabilities make the prior: of more, every second, third, …
Refit = Callable[[Source], "Result"]  # the same fit, with other gold


def log_loss(posterior: NDArray[np.float64], truth: NDArray[np.integer]) -> float:
    """Return the mean of -log of the true labels' probabilities, which below `PROBABILITY_FLOOR` count as `PROBABILITY_FLOOR`.

    posterior [n, K]; truth [n] codes, -1 for a label that has no column (its probability is 0).

    >>> round(log_loss(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([0, 1])), 4)  # log(2) and the floor's 27.63, halved
    14.1621
    """
    _check(posterior, truth, least=-1)
    if not len(truth):
        return float("nan")
    of_truth = np.where(truth < 0, 0.0, posterior[np.arange(len(truth)), truth])
    return float(-np.log(np.clip(of_truth, PROBABILITY_FLOOR, 1.0)).mean())


def apply_temperature(posterior: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Return p^(1/T), normalised in every line, [n, K]; T = 1 changes nothing, not even zeros.

    >>> apply_temperature(np.array([[0.9, 0.1]]), 2.0).round(3)
    array([[0.75, 0.25]])
    """
    TEMPERATURE.check("temperature", temperature)
    _check(posterior)
    if temperature == 1.0:
        return posterior.copy()
    return _softmax(_logs(posterior) / temperature)


def fit_temperature(
    posterior: NDArray[np.float64], truth: NDArray[np.integer], believed: NDArray[np.float64] | None = None
) -> float:
    """Return the temperature between 0.05 and 100 with the smallest log loss; 1.0 where none is better than 1.

    posterior [n, K]; truth [n] codes below K. With `believed`, [tasks, K], the loss has a prior worth `PRIOR_TASKS` more tasks,
    of which these probabilities are treated as the truth, and 1 stays unless the known tasks speak clearly against it.

    The loss is convex in 1/T: its slope is the sum over tasks of the expected log-probability less that of the truth, which
    rises with 1/T, and Newton's method finds where it crosses zero. A step that leaves the interval known to hold the zero is
    replaced by the interval's middle.

    >>> sure = np.array([[0.99, 0.01]] * 4)
    >>> round(fit_temperature(sure, np.array([0, 0, 0, 1])), 2)  # right three times in four, not 99 in 100
    4.18
    >>> fit_temperature(sure, np.array([0, 0, 0, 1]), believed=sure)  # four labels are not enough to say so
    1.0
    """
    _check(posterior, truth)
    if not len(truth):
        return 1.0
    logs = _logs(posterior)
    parts = [(logs, float(logs[np.arange(len(truth)), truth].sum()), 1.0)]  # logs, those of the truth, the weight of a task
    if believed is not None and len(believed):
        _check(believed)
        logs = _logs(believed)
        weight = PRIOR_TASKS / len(believed)
        parts.append((logs, weight * float((believed * logs).sum()), weight))
    of_truth = sum(part[1] for part in parts)
    low, high, cool = 1 / HOTTEST, 1 / COLDEST, 1.0  # of 1/T
    for _ in range(MAX_NEWTON_STEPS):
        slope, bend = -of_truth, 0.0
        for logs, _, weight in parts:
            share = _softmax(cool * logs)
            mean = (share * logs).sum(axis=1)
            slope += weight * float(mean.sum())
            bend += weight * float((share * np.square(logs - mean[:, None])).sum())
        low, high = (low, cool) if slope > 0 else (cool, high)
        newton = cool - slope / bend if bend > 0 else np.inf
        nearer = newton if low <= newton <= high else np.sqrt(low * high)
        done = abs(nearer - cool) <= RELATIVE_TOLERANCE * cool
        cool = float(nearer)
        if done:
            break
    best = 1.0 / cool

    gain = log_loss(posterior, truth) - log_loss(apply_temperature(posterior, best), truth)
    # The floor bends the loss a little, and the best of a flat loss is a matter of rounding: 1 stays unless beaten, and where
    # a prior doubts the known tasks, unless beaten by what would be a nat if they were as many as the prior is worth.
    needed = 0.0 if len(parts) == 1 else PRIOR_TASKS / len(truth) ** 2
    return best if gain > needed else 1.0


def _logs(posterior: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(posterior, PROBABILITY_FLOOR))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.exp(scores - scores.max(axis=1, keepdims=True))
    out /= out.sum(axis=1, keepdims=True)
    return out


def _check(posterior: NDArray[np.float64], truth: NDArray[np.integer] | None = None, least: int = 0) -> None:
    """Raise unless these are probabilities, [n, K], and codes of at least `least` and below K, [n]."""
    lines = np.shape(posterior)
    if len(lines) != 2 or not isinstance(posterior, np.ndarray) or posterior.dtype.kind != "f":
        other = "" if truth is None else f", truth {np.shape(truth)}"
        raise InputError(f"posterior has shape {lines}{other}: give [n, K] probabilities as a NumPy array of floats")
    within = (posterior >= 0) & (posterior <= 1 + 1e-6)  # NaN is neither
    if not within.all():
        at = int(np.argmin(within.all(axis=1)))
        raise InputError(f"line {at + 1} of posterior is {quote(posterior[at].tolist())}: give probabilities from 0 to 1")
    if truth is None:
        return
    if not isinstance(truth, np.ndarray) or truth.shape != lines[:1] or truth.dtype.kind not in "iu":
        raise InputError(f"posterior has shape {lines}, truth {np.shape(truth)}: give [n] codes of labels as whole numbers")
    odd = (truth < least) | (truth >= lines[1])
    if odd.any():
        at = int(np.argmax(odd))
        raise InputError(f"code {at + 1} of truth is {truth[at]}: give codes from {least} to {lines[1] - 1}")


def posterior_pieces(fit: Fit, session: Session) -> Iterator[tuple[slice, Floats]]:
    """Yield (some tasks, their T_qc, [tasks, K]) of a fit, in task order; all at once where they are in memory."""
    found = session.posterior() if fit.posterior is None else fit.posterior()
    at = 0
    for part in (found,) if isinstance(found, np.ndarray) else found:
        yield slice(at, at + len(part)), part
        at += len(part)


def probability_pieces(fit: Fit, session: Session) -> Iterator[tuple[slice, Floats]]:
    """Yield (some tasks, their probabilities for people, [tasks, K]) of a fit, in task order."""
    return posterior_pieces(fit if fit.shown is None else replace(fit, posterior=fit.shown), session)


def posterior_of(fit: Fit, session: Session) -> Floats:
    """Return T_qc of a fit, [tasks, K]."""
    pieces = [part for _, part in posterior_pieces(fit, session)]
    return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros((0, len(fit.params.priors))), *pieces])


def tempered_fit(fit: Fit, session: Session, temperature: float) -> Fit:
    """Return a fit whose posteriors are raised to 1 / temperature; gold stays certain."""
    if temperature == 1.0:
        return fit
    elsewhere = getattr(session, "tempered_outcome", None)  # of sessions whose tasks are not in this process
    if elsewhere is not None:
        return replace(fit, outcome=elsewhere(fit.outcome, temperature), temperature=temperature)
    posterior, labels = Tempered(fit, session, temperature), fit.outcome.labels

    def confidence() -> Iterator[Floats]:
        at = 0
        for part in posterior():
            yield part[np.arange(len(part)), piece(labels, slice(at, at + len(part)))]
            at += len(part)

    outcome = replace(fit.outcome, confidence=session.keep(confidence()))
    return replace(fit, outcome=outcome, shown=posterior, temperature=temperature)


@dataclass(frozen=True, eq=False)
class Tempered:
    """The posterior of a fit, raised to 1 / temperature; gold stays certain."""

    fit: Fit
    session: Session
    temperature: float

    def __call__(self) -> Iterator[Floats]:
        """Yield T_qc of some tasks after the other, [tasks, K]."""
        given = self.fit.task_columns.get("gold")
        for cut, plain in probability_pieces(self.fit, self.session):
            out = apply_temperature(plain, self.temperature)
            if given is not None:
                certain = given[cut]
                out[certain] = plain[certain]
            yield out


def calibrate_result(result: Result, calibrate: Source | bool, gold: pl.DataFrame | None, refit: Refit) -> Result:
    """Return a result at the temperature that suits known labels best.

    `calibrate` gives these labels; nothing is learned from them. With True they are the gold, of which each half is
    judged by a fit that has seen only the other half: a fit that has learned from a task would be overconfident on it.
    A prior worth 20 tasks, made of all tasks' own probabilities, keeps a few labels from doing harm.
    """
    if calibrate is True and gold is not None:
        posterior, truth = _cross_judge(gold, refit)
    else:
        posterior, truth = _judge(result, read_gold(cast(Source, calibrate), result.votes.labels))
    if len(truth) < MIN_CALIBRATION_TASKS:
        which = "gold labels of tasks with votes" if calibrate is True else "known labels of tasks with votes that are not gold"
        raise InputError(f"a temperature needs at least {MIN_CALIBRATION_TASKS} {which}; there are {len(truth)}")
    temperature = fit_temperature(posterior, truth, _believe(result))
    return replace(result, fit=tempered_fit(result.fit, result.session, temperature))


def _believe(result: Result) -> NDArray[np.float64]:
    """Return the probabilities of all tasks without gold, [tasks, K]; if there are very many, of tasks at equal distances."""
    given, step = result.fit.task_columns.get("gold"), -(-result.votes.n_tasks // MAX_BELIEVED_TASKS) or 1
    parts = [np.zeros((0, result.votes.n_labels))]
    for cut, part in probability_pieces(result.fit, result.session):
        chosen = np.arange(-cut.start % step, len(part), step)
        if given is not None:
            chosen = chosen[~piece(given, cut)[chosen]]
        parts.append(part[chosen])
    return np.concatenate(parts)


def _cross_judge(gold: pl.DataFrame, refit: Refit) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return what fits that did not see them say of gold tasks, [gold, K], and their labels, [gold]."""
    fold = gold["task"].rank("ordinal").to_numpy() % CALIBRATION_FOLDS  # by the task's text: the same in any order
    parts = []
    for hidden in range(CALIBRATION_FOLDS):
        there = refit(gold.filter(pl.Series(fold != hidden)))
        parts.append(_judge(there, read_gold(gold.filter(pl.Series(fold == hidden)), there.votes.labels)))
    return np.concatenate([p for p, _ in parts]), np.concatenate([t for _, t in parts])


def _judge(result: Result, known: Gold) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the posterior of the tasks that are known here and no gold of the fit, [tasks, K], and their labels."""
    codes = gold_codes(known, result.votes.tasks)
    learned_from = result.fit.task_columns.get("gold")
    if learned_from is not None:
        codes[learned_from] = -1
    parts = [np.zeros((0, result.votes.n_labels))]
    parts += [part[codes[cut] >= 0] for cut, part in probability_pieces(result.fit, result.session)]
    return np.concatenate(parts), codes[codes >= 0]
