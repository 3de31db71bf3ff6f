"""Models judged by labels that are known: what truth says of each, and of every two of them on the same tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Gold, Votes
from adjudge.evaluation.compare.fits import Fitted, Floats, Ints
from adjudge.evaluation.compare.significance import Paired, accuracy_interval, holm, paired
from adjudge.evaluation.confidence import calibration
from adjudge.io.ids import column

LEVEL: Final = 0.05  # below which a corrected p-value is called significant
JudgedBy = Literal["truth", "gold"]


@dataclass(frozen=True, eq=False)
class Known:
    """The tasks that models are judged on, and their labels."""

    source: JudgedBy
    tasks: Ints  # [n] codes
    labels: Ints  # [n] codes; K and above for labels that nobody gave

    def __len__(self) -> int:
        return len(self.tasks)

    @classmethod
    def by_truth(cls, truth: pl.DataFrame, votes: Votes, gold: Ints | None) -> Known:
        """Return the tasks with votes and `truth` (task and label as text) that are not `gold`, [tasks] codes below 0 if not."""
        tasks = pl.DataFrame({"task": column(votes.tasks).cast(pl.String)}).with_row_index("code")
        both = tasks.join(truth, on="task", how="inner", maintain_order="left")
        if gold is not None:
            both = both.filter(pl.Series(gold[both["code"].to_numpy()] < 0))
        code = {name: n for n, name in enumerate(votes.labels.texts())}
        labels = [code.setdefault(name, len(code)) for name in both["label"]]
        return cls("truth", both["code"].to_numpy().astype(np.int64), np.array(labels, np.int64))

    @classmethod
    def by_gold(cls, gold: Ints) -> Known:
        """Return the tasks with votes and gold; `gold` is [tasks], below 0 for tasks without."""
        tasks = np.flatnonzero(gold >= 0)
        return cls("gold", tasks, gold[tasks])


def folds_of(known: Known, folds: int, rng: np.random.Generator) -> Ints:
    """Return the fold of each known task, [n]: at random, but every label is spread evenly over the folds."""
    order = rng.permutation(len(known))
    order = order[np.argsort(known.labels[order], kind="stable")]
    out = np.empty(len(known), np.int64)
    out[order] = np.arange(len(known)) % folds
    return out


def gold_of(votes: Votes, tasks: Ints, labels: Ints) -> Gold:
    """Return some tasks and their labels, [n] codes each, as gold to learn from."""
    return Gold(votes.tasks.take(tasks), labels.astype(np.int32))


@dataclass(frozen=True, eq=False)
class Judged:
    """The answers of one model on the known tasks."""

    chosen: Ints  # [n] codes
    confidence: Floats  # [n]
    probabilities: Floats | None  # [n, K]

    @classmethod
    def of(cls, fitted: Fitted, known: Known) -> Judged:
        """Return what a fit says of the known tasks, which it did not learn from."""
        return cls(fitted.labels[known.tasks].astype(np.int64), fitted.confidence[known.tasks], fitted.probabilities)

    @classmethod
    def held_out(cls, fits: Sequence[Fitted], fold: Ints, known: Known) -> Judged:
        """Return what fits without the gold of one fold each say of the tasks of that fold."""
        each = [cls.of(fitted, known) for fitted in fits]
        chosen, confidence = np.empty(len(known), np.int64), np.empty(len(known))
        every = [one.probabilities for one in each if one.probabilities is not None]
        probabilities = np.empty_like(every[0]) if len(every) == len(each) else None
        for number, one in enumerate(each):
            here = fold == number
            chosen[here], confidence[here] = one.chosen[here], one.confidence[here]
            if probabilities is not None:
                probabilities[here] = every[number][here]
        return cls(chosen, confidence, probabilities)

    def right(self, known: Known) -> NDArray[np.bool_]:
        """Return whether each label is right, [n]."""
        return np.asarray(self.chosen == known.labels, np.bool_)


@dataclass(frozen=True)
class Scores:
    """The figures of one model."""

    tasks: int
    right: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    f1: float
    calibration_error: float
    log_loss: float
    expected_wrong: float  # on the judged tasks: beside the wrong labels that there are


def scores(judged: Judged, known: Known, resamples: int, confidence: float, seed: int) -> Scores:
    """Return what the known labels say of one model."""
    right = judged.right(known)
    found = accuracy_interval(int(right.sum()), len(known), resamples, confidence, np.random.default_rng([seed, 1]))
    true, k = known.labels, judged.probabilities.shape[1] if judged.probabilities is not None else 0
    worth = calibration(judged.confidence, right, judged.probabilities, np.where(true < k, true, -1))
    return Scores(
        tasks=len(known),
        right=int(right.sum()),
        accuracy=found.value,
        accuracy_low=found.low,
        accuracy_high=found.high,
        f1=macro_f1(judged.chosen, true),
        calibration_error=worth.expected_calibration_error,
        log_loss=worth.log_loss,
        expected_wrong=worth.expected_errors,
    )


def macro_f1(chosen: Ints, true: Ints) -> float:
    """Return the mean of the labels' F1, over labels that are true or chosen somewhere; [n] codes each.

    >>> round(macro_f1(np.array([0, 0, 1]), np.array([0, 1, 1])), 4)  # 2/3 of both labels
    0.6667
    """
    size = int(max(chosen.max(initial=-1), true.max(initial=-1))) + 1
    both = np.bincount(chosen, minlength=size) + np.bincount(true, minlength=size)
    hit = np.bincount(true[chosen == true], minlength=size)
    return float((2 * hit[both > 0] / both[both > 0]).mean()) if size else float("nan")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Every two models on the same tasks, the better one first."""

    names: tuple[tuple[str, str], ...]
    found: tuple[Paired, ...]
    adjusted: Floats  # [pairs] p-values corrected for the number of pairs

    def between(self, a: str, b: str) -> tuple[Paired, float]:
        """Return the difference between two models, the first less the second, and its corrected p-value."""
        if (a, b) in self.names:
            at = self.names.index((a, b))
            return self.found[at], float(self.adjusted[at])
        at = self.names.index((b, a))
        value, low, high = self.found[at].difference
        turned = type(self.found[at].difference)(-value, -high, -low)
        _, only_a, only_b, p_value = self.found[at]
        return Paired(turned, only_b, only_a, p_value), float(self.adjusted[at])


def pairs(right: Mapping[str, NDArray[np.bool_]], resamples: int, confidence: float, seed: int) -> Pairs:
    """Return how every two models differ; `right` says by model where its labels are right, [n] each, best model first."""
    names = tuple((a, b) for n, a in enumerate(right) for b in list(right)[n + 1 :])
    rng = np.random.default_rng([seed, 2])
    found = tuple(paired(right[a], right[b], resamples, confidence, rng) for a, b in names)
    return Pairs(names, found, holm(np.array([one.p_value for one in found])))
