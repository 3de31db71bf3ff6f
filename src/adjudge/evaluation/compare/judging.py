"""Models judged, by labels that are known and by where they differ; and advice in words: which to take, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.errors import itemize, pluralize
from adjudge.evaluation import intervals
from adjudge.evaluation.compare.fits import PARTS, ComparedFit
from adjudge.evaluation.evaluate import calibration
from adjudge.evaluation.inputs import KnownLabels
from adjudge.evaluation.intervals import Estimate, Flags, Floats, Integers, Paired, ratio, sum_by
from adjudge.io.frames import column, numbers

Labels = Mapping[str, NDArray[np.int32]]  # by model, [tasks] codes
SIGNIFICANCE_LEVEL: Final = 0.05  # below which a corrected p-value is called significant
# How much more accurate than "auto" a model is before anything is known of these votes: on the nine public sets of
# docs/can-you-trust-it.md the seven others are 1.1 points below it on average, with a spread of 3.0.
PRIOR_MEAN: Final = -0.01
PRIOR_GAIN_SD: Final = 0.03
CAUTIOUS: Final = ("auto", "mv")  # the first of these that runs is the advice unless known labels favour another
Pairs = Mapping[tuple[str, str], Paired]
Stability = Mapping[str, Mapping[str, float]]  # by the part left out, workers or tasks, and by model: share of labels that stay
WORTH: Final = 0.02  # a difference in accuracy that is worth finding
POWER: Final = (1.96 + 0.84) ** 2  # of finding it in four cases of five, at the level of 5%


def assign_folds(known: KnownLabels, folds: int, rng: np.random.Generator, cluster: Integers | None = None) -> Integers:
    """Return the fold of each known task, [n]: at random, but every label is spread evenly over the folds.

    With `cluster`, [n] codes, the tasks of a cluster share a fold.
    """
    if cluster is not None:
        return (rng.permutation(int(cluster.max()) + 1) % folds)[cluster]
    order = rng.permutation(len(known))
    order = order[np.argsort(known.labels[order], kind="stable")]
    out = np.empty(len(known), np.int64)
    out[order] = np.arange(len(known)) % folds
    return out


class JudgedAnswers(NamedTuple):
    """The answers of one model on the known tasks."""

    chosen: Integers  # [n] codes
    confidence: Floats  # [n]
    probabilities: Floats | None  # [n, K]


def answers_of(fits: Sequence[ComparedFit], fold: Integers, known: KnownLabels) -> JudgedAnswers:
    """Return what each fit says of the known tasks of its fold, [n], which it did not learn from."""
    chosen, confidence = np.empty(len(known), np.int64), np.empty(len(known))
    every = [fit.probabilities for fit in fits if fit.probabilities is not None]
    probabilities = np.empty_like(every[0]) if len(every) == len(fits) else None
    for number, fit in enumerate(fits):
        own = fold == number
        chosen[own], confidence[own] = fit.labels[known.tasks[own]], fit.confidence[known.tasks[own]]
        if probabilities is not None:
            probabilities[own] = every[number][own]
    return JudgedAnswers(chosen, confidence, probabilities)


@dataclass(frozen=True)
class ModelFigures:
    """The figures of one model."""

    tasks: int
    right: int
    accuracy: Estimate
    f1: float
    calibration_error: float
    log_loss: float
    expected_wrong: float  # among the judged tasks


def measure(
    answers: JudgedAnswers, known: KnownLabels, resamples: int, level: float, seed: int, cluster: Integers | None = None
) -> ModelFigures:
    """Return what the known labels say of one model; `cluster` has codes of the known tasks, [n]."""
    is_right, true = answers.chosen == known.labels, known.labels
    right, k = int(is_right.sum()), answers.probabilities.shape[1] if answers.probabilities is not None else 0
    worth = calibration(answers.confidence, is_right, answers.probabilities, np.where(true < k, true, -1))
    rng = np.random.default_rng([seed, 1])
    if cluster is None:
        accuracy = intervals.accuracy_interval(right, len(known), resamples, level, rng)
    else:
        accuracy = intervals.clustered_accuracy(is_right.astype(np.float64), cluster, resamples, level, rng)
    return ModelFigures(
        tasks=len(known),
        right=right,
        accuracy=accuracy,
        f1=macro_f1(answers.chosen, true),
        calibration_error=worth.expected_calibration_error,
        log_loss=worth.log_loss,
        expected_wrong=worth.expected_errors,
    )


def macro_f1(chosen: Integers, true: Integers) -> float:
    """Return the mean of the labels' F1, over labels that are true or chosen somewhere; [n] codes each.

    >>> round(macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1])), 4)  # 2/3 of both labels
    0.6667
    """
    size = int(max(chosen.max(initial=-1), true.max(initial=-1))) + 1
    both = np.bincount(chosen, minlength=size) + np.bincount(true, minlength=size)
    hit = np.bincount(true[chosen == true], minlength=size)
    return float((2 * hit[both > 0] / both[both > 0]).mean()) if size else float("nan")


def compare_pairs(
    right: Mapping[str, Flags], resamples: int, level: float, seed: int, cluster: Integers | None = None
) -> dict[tuple[str, str], Paired]:
    """Return how every two models differ, both ways round; `right` says by model where its labels are right, [n] each."""
    rng = np.random.default_rng([seed, 2])
    pairs = {
        (a, b): intervals.compare_paired(right[a], right[b], resamples, level, rng, cluster) for a, b in combinations(right, 2)
    }
    adjusted = intervals.holm(np.array([pair.p_value for pair in pairs.values()]))
    out = {}
    for ((a, b), pair), corrected in zip(pairs.items(), adjusted.tolist(), strict=True):
        gain, only_a, only_b, p_value, _ = pair
        out[a, b] = pair._replace(p_adjusted=corrected)
        out[b, a] = Paired(Estimate(-gain, -gain.high, -gain.low), only_b, only_a, p_value, corrected)
    return out


def is_below(name: str, highest: str, pairs: Mapping[tuple[str, str], Paired]) -> bool:
    """Return whether a model is significantly less accurate than the one with the highest accuracy."""
    return name != highest and pairs[highest, name].difference > 0 and pairs[highest, name].p_adjusted < SIGNIFICANCE_LEVEL


def cautious_of(names: Mapping[str, object]) -> str:
    """Return the model that is advised where nothing is known: "auto", or majority vote where that did not run.

    >>> cautious_of({"mv": 1, "ds": 2})
    'mv'
    """
    return next(name for name in (*CAUTIOUS, *names) if name in names)


class ChosenModel(NamedTuple):
    """The model that known labels favour: the one with the highest expected accuracy, given a prior on models."""

    best: str
    cautious: str
    highest: str  # the model with the highest accuracy


def choose(right: Mapping[str, Flags], cluster: Integers | None = None) -> ChosenModel:
    """Return the choice; `right` says by model where its labels are right, [n] each on the same tasks.

    The difference of a model from the cautious one is observed with an error, which is large on few tasks. Its expected value
    is the mean of the observation and the prior, each weighted by its precision. The model with the highest expected value is
    chosen. On 20 tasks a model must be far ahead for that, on a thousand a little is enough.

    >>> few = {"auto": np.arange(20) < 15, "ds": np.arange(20) < 16}
    >>> many = {"auto": np.arange(2000) < 1500, "ds": np.arange(2000) < 1600}
    >>> choose(few).best, choose(many).best
    ('auto', 'ds')
    """
    cautious = cautious_of(right)
    gains = {name: 0.0 if name == cautious else _expected_gain(right[name], right[cautious], cluster) for name in right}
    best = max(gains, key=lambda name: (gains[name], name == cautious))
    return ChosenModel(best, cautious, max(right, key=lambda name: (right[name].mean(), name == best)))


def _expected_gain(right: Flags, cautious: Flags, cluster: Integers | None) -> float:
    """Return the expected difference in accuracy, given the observed one and the prior."""
    ahead, behind, n = int((right & ~cautious).sum()), int((cautious & ~right).sum()), len(right)
    effect = 1.0 if cluster is None else intervals.design_effect(right.astype(np.float64) - cautious, cluster)
    seen, known = intervals.standard_error(ahead, behind, n) ** -2 / max(effect, 1e-9), PRIOR_GAIN_SD**-2
    return ((ahead - behind) / n * seen + PRIOR_MEAN * known) / (seen + known)


class LabelSupport(NamedTuple):
    """Who voted for labels of tasks."""

    votes: Integers  # [n]
    accuracy: Floats  # [n] the mean expected accuracy of those who did; NaN if nobody did


@dataclass(frozen=True, eq=False)
class Overruled:
    """Labels that models give against majority vote, one line per task and label, and the evidence for both."""

    task: Integers  # [n] codes
    label: Integers  # [n] what some models say instead
    said: Mapping[str, Flags]  # by model: whether it says so, [n]
    for_majority: LabelSupport
    for_label: LabelSupport

    def __len__(self) -> int:
        return len(self.task)

    @property
    def tasks(self) -> int:
        """The number of tasks on which some model differs from majority vote."""
        return len(np.unique(self.task))

    def frame(self, votes: Votes, majority: NDArray[np.int32], confidence: Floats, known: Integers) -> pl.DataFrame:
        """Return them as a frame, those with most models first, among them those with least `confidence`, [tasks].

        `majority` is what majority vote says and `known` the known labels, [tasks] codes; those below 0, or of K and above,
        have no name here, and are null.
        """
        every = np.array(list(self.said.values()))  # [models, n]
        order = np.lexsort((self.task, confidence[self.task], -every.sum(axis=0)))
        task = self.task[order]
        patterns, which = np.unique(every[:, order], axis=1, return_inverse=True)
        who = [", ".join(name for name, says in zip(self.said, pattern, strict=True) if says) for pattern in patterns.T]
        named = np.where((known >= 0) & (known < votes.n_labels), known, -1)[task]
        truth = column(votes.labels).gather(pl.Series(np.maximum(named, 0)))
        return pl.DataFrame(
            {
                "task": column(votes.tasks, task),
                "votes": np.diff(votes.task_ptr)[task],
                "majority": column(votes.labels, majority[task].astype(np.int64)),
                "majority_votes": self.for_majority.votes[order],
                "majority_accuracy": numbers(self.for_majority.accuracy[order]).fill_nan(None),
                "label": column(votes.labels, self.label[order]),
                "label_votes": self.for_label.votes[order],
                "label_accuracy": numbers(self.for_label.accuracy[order]).fill_nan(None),
                "models": pl.Series(who, dtype=pl.String).gather(pl.Series(which.ravel(), dtype=pl.UInt32)),
                "confidence": numbers(confidence[task]),
                "known": truth.set(pl.Series(named < 0), None) if len(task) else truth,
            }
        )


def find_overruled(votes: Votes, labels: Labels, accuracy: Floats) -> Overruled:
    """Return where models differ from majority vote ("mv" among the `labels`); `accuracy` is that of workers, [workers]."""
    majority, k = labels["mv"], max(votes.n_labels, 1)
    differing = {name: np.flatnonzero(chosen != majority) for name, chosen in labels.items()}
    keys = {name: tasks * k + labels[name][tasks] for name, tasks in differing.items()}
    lines = np.unique(np.concatenate(list(keys.values())))
    task, label = lines // k, lines % k
    return Overruled(
        task,
        label,
        {name: np.isin(lines, of_model) for name, of_model in keys.items()},
        _support(votes, task, majority[task].astype(np.int64), accuracy),
        _support(votes, task, label, accuracy),
    )


def _support(votes: Votes, task: Integers, label: Integers, accuracy: Floats) -> LabelSupport:
    """Return who voted for these labels of these tasks, [n] codes each."""
    size = np.diff(votes.task_ptr)[task]
    line = np.repeat(np.arange(len(task)), size)
    first = np.cumsum(size) - size
    row = votes.row[np.repeat(votes.task_ptr[:-1][task] - first, size) + np.arange(len(line))]
    given = votes.row_label[row] == label[line]
    line, worker = line[given], votes.row_worker()[row[given]]
    number = np.bincount(line, minlength=len(task))
    return LabelSupport(number, ratio(sum_by(line, accuracy[worker], len(task)), number.astype(np.float64)))


def advise_by_truth(
    choice: ChosenModel, scores: Mapping[str, ModelFigures], pairs: Pairs, known: KnownLabels, folds: int
) -> list[str]:
    """Return what known labels say, the advice first."""
    best, own, what = choice.best, scores[choice.best], f"the {pluralize(len(known), 'task')} with {known.source}"
    out = [f"Take {best}: {_why(choice, scores, pairs, what)}."]
    if best != "mv" and "mv" in scores:
        out.append(_against_majority(best, scores, pairs))
    below = [name for name in scores if is_below(name, choice.highest, pairs)]
    of = f"{choice.highest}, which is right most often" if best != choice.highest else best
    corrected = f" (corrected for {len(pairs) // 2} comparisons)" if len(pairs) > 2 else ""
    if below:
        out.append(f"Significantly below {of}{corrected}: {itemize(below)}.")
    elif len(scores) > 1:
        out.append(f"No model is significantly below {of}{corrected}.")
    wrong = own.tasks - own.right
    if own.expected_wrong == own.expected_wrong:
        out.append(f"On these tasks the confidence of {best} predicts {own.expected_wrong:.0f} wrong labels; {wrong} are wrong.")
    if folds:
        out.append(
            f"Every judged label was found without the gold of its own part, one of {folds}; the final fits learn from all gold. "
            "For other tasks this holds as far as the gold was drawn from them at random."
        )
    return out


def advise_by_votes(
    best: str, votes: Votes, facts: Mapping[str, Any], labels: Labels, overruled: Overruled, stable: Stability
) -> list[str]:
    """Return what the votes alone say, the advice first; `facts` are those of the fit of the advised model."""
    why, tasks = facts.get("why"), votes.n_tasks
    reason = f" ({why})" if best == "auto" and why else ""
    out = [
        f"Take {best}{reason}: it is the cautious choice. Nothing that votes alone tell says which model is most accurate; "
        "truth or gold of some tasks does."
    ]
    if {"shared_error", "effective_votes"} <= facts.keys():
        per_task = f"{float(facts['votes_per_task']):.1f}" if "votes_per_task" in facts else ""
        rho, spread, effective = (float(facts[name]) for name in ("shared_error", "skill_spread", "effective_votes"))
        out.append(
            f"Measured: errors that workers share {rho:.2f}, spread of skill {spread:.2f}; the {per_task} votes per "
            f"task are worth {effective:.1f} independent ones."
        )
    disputed = overruled.tasks
    out.append(
        f"Some model differs from majority vote on {disputed} of {pluralize(tasks, 'task')} "
        f"({disputed / max(tasks, 1):.1%}); on the others all agree."
        if disputed
        else f"Every model gives the labels of majority vote ({pluralize(tasks, 'task')}): the choice does not matter here."
    )
    sentences = (_overruling(best, overruled), _stable(best, stable, votes), _describe_tasks_needed(best, labels, tasks))
    return [*out, *(sentence for sentence in sentences if sentence)]


def _stable(best: str, stable: Stability, votes: Votes) -> str:
    """Return how far the labels of a model hold without some workers, and without some tasks."""
    out, (workers, tasks) = [], (stable["workers"], stable["tasks"])
    if not np.isnan(workers[best]):
        least = min(workers, key=lambda name: workers[name])
        beside = f" (least: {least}, {workers[least]:.1%})" if least != best else ""
        some = "a fifth of the workers" if votes.n_workers >= PARTS else "one of the workers"
        out.append(f"Without {some} {best} keeps {workers[best]:.1%} of its labels{beside}.")
    if not np.isnan(tasks[best]):
        some = "a fifth of the tasks" if votes.n_tasks >= PARTS else "one of the tasks"
        out.append(f"Without {some} {'it' if out else best} keeps {tasks[best]:.1%} of the others' labels.")
    return " ".join(out)


def _why(choice: ChosenModel, scores: Mapping[str, ModelFigures], pairs: Pairs, what: str) -> str:
    """Return why known labels speak for a model."""
    best, cautious, highest = choice.best, choice.cautious, choice.highest
    own = scores[best]
    figure = f"it is right on {own.accuracy:.1%} of {what}{_interval(own.accuracy, '%')}"
    if best != cautious:
        pair = pairs[best, cautious]
        sure = "" if pair.p_value < SIGNIFICANCE_LEVEL else f", though that may be chance ({_chance(pair.p_value)})"
        return f"{figure}, {_points(pair.difference)} more than {cautious}{sure}"
    if highest != best:
        gain = _points(pairs[highest, best].difference)
        return f"{figure}; {highest} is right on {gain} more, too little on so few tasks to prefer it"
    return f"{figure}, and no other model on more" if len(scores) > 1 else figure


def _against_majority(best: str, scores: Mapping[str, ModelFigures], pairs: Pairs) -> str:
    """Return a sentence that compares majority vote with a model: one comparison, not corrected for the others."""
    pair, accuracy = pairs["mv", best], scores["mv"].accuracy
    if pair.difference == 0.0:
        return f"Majority vote is right as often ({accuracy:.1%})."
    apart, way = (pair.difference, "more") if pair.difference > 0 else (pairs[best, "mv"].difference, "less")
    planned = " (one planned comparison, not corrected)" if len(pairs) > 2 else ""
    return f"Majority vote is right on {accuracy:.1%}: {_points(apart)} {way}, {_chance(pair.p_value)}{planned}."


def _overruling(best: str, overruled: Overruled) -> str:
    """Return on what evidence a model overrules majority vote."""
    lines = overruled.said.get(best)
    if lines is None or not lines.any():
        return f"{best} gives the label of majority vote everywhere." if best != "mv" and overruled.tasks else ""
    tasks = pluralize(int(lines.sum()), "task")
    own, other = overruled.for_label.accuracy[lines], overruled.for_majority.accuracy[lines]
    voted = float(overruled.for_label.votes[lines].mean()), float(overruled.for_majority.votes[lines].mean())
    if np.isnan(own).all():
        return f"{best} overrules majority vote on {tasks}, for labels that nobody gave there."
    return (
        f"{best} overrules majority vote on {tasks}: on average {voted[0]:.1f} votes of workers whose accuracy "
        f"it estimates at {np.nanmean(own):.0%} against {voted[1]:.1f} votes of workers at {np.nanmean(other):.0%}."
    )


def _describe_tasks_needed(best: str, labels: Labels, tasks: int) -> str:
    """Return how many tasks with truth would show a difference that is worth finding."""
    differing = {name: int((labels[best] != labels[name]).sum()) for name in labels if name != best}
    other = max(differing, key=lambda name: differing[name], default=best)
    share = differing.get(other, 0) / max(tasks, 1)
    if not share:  # the sentences before cover this
        return ""
    if share <= WORTH:
        return f"No model differs from {best} on more than {share:.1%} of the tasks, so none can be far better."
    needed = int(np.ceil(POWER * (share - WORTH**2) / WORTH**2))
    rounded = int(round(needed, 1 - len(str(needed))))
    return (
        f"To see a difference of {WORTH * 100:.0f} points between {best} and {other}, which differ most, it takes the truth of "
        f"about {rounded} tasks drawn at random{', more than there are' if rounded > tasks else ''}."
    )


def _chance(p_value: float) -> str:
    """Return a p-value as people read it.

    >>> _chance(0.62), _chance(0.0123), _chance(1e-9)
    ('p = 0.62', 'p = 0.012', 'p < 0.001')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2f}" if p_value >= 0.1 else f"p = {p_value:.3f}"


def _points(apart: Estimate) -> str:
    """Return a difference of accuracies in points, with its interval."""
    return f"{apart * 100:.1f} points{_interval(apart)}"


def _interval(estimate: Estimate, unit: str = "") -> str:
    low, high = (round(bound * 100, 1) + 0.0 for bound in (estimate.low, estimate.high))  # no "-0.0"
    return "" if low != low else f" ({low:.1f}{unit} to {high:.1f}{unit})"
