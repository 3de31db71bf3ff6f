"""Soft labels: the distribution of a crowd's answers per task, and whether a task is ambiguous or only short of votes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.errors import AdjudgeError, InputError, pluralize
from adjudge.io.frames import column, label_columns
from adjudge.results.answer_law import TOP_SHARE, AnswerLaw, CountLines, Floats, fit_law

if TYPE_CHECKING:
    from adjudge.results.result import Result

SURE: Final = 0.8  # the probability from which on a verdict is given
AMBIGUOUS, SETTLED, ASK_MORE = "ambiguous", "settled", "ask more"
VERDICTS: Final = (AMBIGUOUS, SETTLED, ASK_MORE)
MIN_RELIABILITY: Final = 0.3  # of the ambiguity, below which it is not shown
MAX_SPLIT_TASKS: Final = 20_000  # whose votes are split into halves
MIN_SPLIT_TASKS: Final = 20
MAX_LABELS: Final = 100
FIGURES: Final = ("ambiguity", "doubt", "verdict")


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """The distribution of answers of every task."""

    result: Result
    lines: CountLines
    line: NDArray[np.int64]  # [tasks] below the number of lines
    law: AnswerLaw
    member: Floats  # [lines, kinds]
    reliability: float  # of the ambiguity, by halves of the votes; NaN where too few tasks have two votes

    @property
    def is_reliable(self) -> bool:
        """Whether ambiguity says something of tasks, so that it is shown."""
        return self.reliability >= MIN_RELIABILITY

    @cached_property
    def answers(self) -> tuple[Floats, Floats, Floats]:
        """The distribution, [lines, labels], the ambiguity and the doubt, [lines] in nats."""
        return self.law.answers(self.lines, self.member)

    @cached_property
    def verdicts(self) -> NDArray[np.int64]:
        """The verdict of every line, [lines]: its place in `VERDICTS`."""
        ambiguous = self.law.probability_ambiguous(self.lines, self.member)
        return np.where(ambiguous >= SURE, 0, np.where(ambiguous <= 1.0 - SURE, 1, 2))

    @cached_property
    def verdict_counts(self) -> dict[str, int]:
        """How many tasks have each verdict; empty where none is given."""
        if not self.is_reliable:
            return {}
        counted = np.bincount(self.verdicts, self.lines.times, minlength=len(VERDICTS)).astype(int)
        return dict(zip(VERDICTS, counted.tolist(), strict=True))

    def frame(self) -> pl.DataFrame:
        """Return a line per task: task, a column per label, ambiguity, doubt and verdict."""
        share, ambiguity, doubt = (part[self.line] for part in self.answers)
        votes = self.result.votes
        names = label_columns(votes.labels.texts(), "task", *FIGURES)
        known: dict[str, Any] = {"ambiguity": ambiguity, "doubt": doubt}
        frame = pl.DataFrame({"task": column(votes.tasks), **dict(zip(names, share.T, strict=True)), **known})
        if not self.is_reliable:
            empty = [pl.lit(None, pl.Float64).alias(name) for name in known]
            return frame.with_columns(*empty, verdict=pl.lit(None, pl.String))
        words = pl.Series("verdict", VERDICTS).gather(self.verdicts[self.line])
        return frame.with_columns(words)

    def sentences(self) -> list[str]:
        """Return what the votes say of ambiguity, as sentences."""
        if np.isnan(self.reliability):
            return ["too few tasks have two votes or more to tell an ambiguous task from one that is short of votes"]
        if not self.is_reliable:
            return [
                f"ambiguity is not shown: two halves of the votes hardly agree on which tasks are ambiguous (reliability "
                f"{self.reliability:.2f}, {MIN_RELIABILITY:g} is needed); more votes per task would tell"
            ]
        counts = self.verdict_counts
        return [
            f"{pluralize(counts[SETTLED], 'task')} settled, {counts[AMBIGUOUS]} ambiguous, {counts[ASK_MORE]} need more votes: "
            f"on an ambiguous task no answer has {TOP_SHARE:.0%} of the crowd (reliability {self.reliability:.2f})"
        ]


def soft_labels(result: Result) -> SoftLabels:
    """Return the soft labels of a result, by all its votes, each counting alike (or by its weight)."""
    votes, k = result.votes, result.votes.n_labels
    if len(result.fit.outcome.labels) != votes.n_tasks:
        raise AdjudgeError("soft labels are made where votes are, and those of this result stay on Spark's executors")
    if k > MAX_LABELS:
        raise InputError(f"soft labels are for at most {MAX_LABELS} labels, and there are {k}: merge labels first")
    if not votes.n_tasks:
        raise InputError("soft labels need votes, and this result has none")
    counts = np.zeros((votes.n_tasks, k))
    halves: list[tuple[Floats, Floats]] = []
    weight = votes.row_weight
    keep = MAX_SPLIT_TASKS / votes.n_tasks
    for cut, ptr, row in votes.parts():
        task, number = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), len(ptr) - 1
        cell = task * k + votes.row_label[row]
        worth = None if weight is None else weight[row]
        counts[cut] = np.bincount(cell, worth, minlength=number * k).reshape(-1, k)
        halves.append(_split(task, cell, worth, np.diff(ptr), k, keep))
    lines, line = CountLines.of(counts)
    law, member = fit_law(lines)
    first, second = (np.concatenate(part) for part in zip(*halves, strict=True))
    return SoftLabels(result, lines, line, law, member, _reliability(law, first, second))


def _split(task: Any, cell: Any, worth: Any, size: Any, k: int, keep: float) -> tuple[Floats, Floats]:
    """Return the counts of two random halves of the votes of some tasks that have two votes or more, [tasks, K] each."""
    rng = np.random.default_rng(len(size))
    chosen = (size >= 2) & (rng.random(len(size)) < keep)
    used = np.flatnonzero(chosen[task])
    task, number = (np.cumsum(chosen) - 1)[task[used]], int(chosen.sum())
    cell, worth = task * k + cell[used] % k, None if worth is None else worth[used]
    order = np.lexsort((rng.random(len(task)), task))
    place = np.arange(len(task)) - np.repeat(np.cumsum(size[chosen]) - size[chosen], size[chosen])
    side = np.empty(len(task), np.bool_)
    side[order] = place % 2 == 1
    out = []
    for half in (~side, side):
        some = None if worth is None else worth[half]
        out.append(np.bincount(cell[half], some, minlength=number * k).reshape(-1, k).astype(np.float64))
    return out[0], out[1]


def _reliability(law: AnswerLaw, first: Floats, second: Floats) -> float:
    """Return the correlation of the ambiguity by halves, stepped up to all votes (Spearman and Brown); NaN for few tasks."""
    if len(first) < MIN_SPLIT_TASKS:
        return float("nan")
    found = []
    for counts in (first, second):
        lines, line = CountLines.of(counts)
        found.append(law.answers(lines, law.membership(lines))[1][line])
    if min(float(np.ptp(part)) for part in found) < 1e-12:
        return 0.0
    r = float(np.corrcoef(found[0], found[1])[0, 1])
    return 2.0 * r / (1.0 + r) if r > 0.0 else r
