"""Soft labels: the distribution of a crowd's answers per task, and whether a task is ambiguous or only short of votes.

A task's own distribution of answers comes from one of K Dirichlet kinds ("most say g"), or from one Dirichlet of all tasks. The
kinds count as far as they explain more than their parameters would by chance. Lines of counts repeat: the law is computed once
per distinct line, from tables over pairs of a label and a number of votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.errors import AdjudgeError, InputError, pluralize
from adjudge.io.frames import column, label_columns
from adjudge.kernels.special import beta_above, digamma, log_gamma

if TYPE_CHECKING:
    from adjudge.results.result import Result

SURE_VERDICT: Final = 0.8  # the probability from which on a verdict is given
AMBIGUOUS, SETTLED, ASK_MORE = "ambiguous", "settled", "ask more"
AMBIGUITY_VERDICTS: Final = (AMBIGUOUS, SETTLED, ASK_MORE)
MIN_AMBIGUITY_RELIABILITY: Final = 0.3  # of the ambiguity, below which it is not shown
MAX_SPLIT_TASKS: Final = 20_000  # whose votes are split into halves
MIN_SPLIT_TASKS: Final = 20
MAX_SOFT_LABELS: Final = 100
SOFT_COLUMNS: Final = ("ambiguity", "doubt", "verdict")
MAX_LAW_PASSES: Final = 60
MAX_MEMBERSHIP_MOVE: Final = 1e-3  # of the memberships
LENT_KIND_TASKS: Final = 1.0  # of two votes, drawn as the kind is
CONCENTRATION: Final = (1e-3, 200.0)  # the least and the most of a Dirichlet's parameters
MAX_KEY: Final = 2**62
TOP_SHARE: Final = 2.0 / 3.0  # of the crowd: a task whose top answer has less is ambiguous
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
        return self.reliability >= MIN_AMBIGUITY_RELIABILITY

    @cached_property
    def answers(self) -> tuple[Floats, Floats, Floats]:
        """The distribution, [lines, labels], the ambiguity and the doubt, [lines] in nats."""
        return self.law.answers(self.lines, self.member)

    @cached_property
    def verdicts(self) -> NDArray[np.int64]:
        """The verdict of every line, [lines]: its place in `AMBIGUITY_VERDICTS`."""
        ambiguous = self.law.probability_ambiguous(self.lines, self.member)
        return np.where(ambiguous >= SURE_VERDICT, 0, np.where(ambiguous <= 1.0 - SURE_VERDICT, 1, 2))

    @cached_property
    def verdict_counts(self) -> dict[str, int]:
        """How many tasks have each verdict; empty if none is given."""
        if not self.is_reliable:
            return {}
        counted = np.bincount(self.verdicts, self.lines.times, minlength=len(AMBIGUITY_VERDICTS)).astype(int)
        return dict(zip(AMBIGUITY_VERDICTS, counted.tolist(), strict=True))

    def frame(self) -> pl.DataFrame:
        """Return a line per task: task, a column per label, ambiguity, doubt and verdict."""
        share, ambiguity, doubt = (part[self.line] for part in self.answers)
        votes = self.result.votes
        names = label_columns(votes.labels.texts(), "task", *SOFT_COLUMNS)
        known: dict[str, Any] = {"ambiguity": ambiguity, "doubt": doubt}
        frame = pl.DataFrame({"task": column(votes.tasks), **dict(zip(names, share.T, strict=True)), **known})
        if not self.is_reliable:
            empty = [pl.lit(None, pl.Float64).alias(name) for name in known]
            return frame.with_columns(*empty, verdict=pl.lit(None, pl.String))
        words = pl.Series("verdict", AMBIGUITY_VERDICTS).gather(self.verdicts[self.line])
        return frame.with_columns(words)

    def sentences(self) -> list[str]:
        """Return what the votes say of ambiguity, as sentences."""
        if np.isnan(self.reliability):
            return ["too few tasks have two votes or more to tell an ambiguous task from one that is short of votes"]
        if not self.is_reliable:
            return [
                f"ambiguity is not shown: two halves of the votes hardly agree on which tasks are ambiguous (reliability "
                f"{self.reliability:.2f}, {MIN_AMBIGUITY_RELIABILITY:g} is needed); more votes per task would tell"
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
    if k > MAX_SOFT_LABELS:
        raise InputError(f"soft labels are for at most {MAX_SOFT_LABELS} labels, and there are {k}: merge labels first")
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


@dataclass(frozen=True, eq=False)
class CountLines:
    """Distinct lines of counts: how often each label was given to a task."""

    count: Floats  # [lines, K]
    times: Floats  # [lines] tasks that have the line

    @classmethod
    def of(cls, counts: Floats) -> tuple[CountLines, Integers]:
        """Return the distinct lines of counts, [tasks, K], and the line of every task, [tasks]."""
        width = counts.max(axis=0, initial=0.0) + 1.0
        if np.prod(width) < MAX_KEY and (counts == np.floor(counts)).all():
            weight = np.concatenate([np.cumprod(width[:0:-1])[::-1], [1.0]])
            key = counts.astype(np.int64) @ weight.astype(np.int64)
            _, first, line, times = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
            return cls(counts[first], times.astype(np.float64)), line
        distinct, line, times = np.unique(counts, axis=0, return_inverse=True, return_counts=True)
        return cls(distinct, times.astype(np.float64)), line.ravel()

    @cached_property
    def total(self) -> Floats:
        """Votes of every line, [lines]."""
        return np.asarray(self.count.sum(axis=1))

    @cached_property
    def pairs(self) -> Pairs:
        """The pairs of a label and a number of its votes that occur, and where."""
        line, label = np.nonzero(self.count)
        distinct, pair = np.unique(np.stack([label, self.count[line, label]]), axis=1, return_inverse=True)
        return Pairs(line, pair.ravel(), distinct[0].astype(np.int64), distinct[1])

    def by_line(self, of_pair: Floats) -> Floats:
        """Return the sum over the pairs of every line, [lines]."""
        return np.asarray(np.bincount(self.pairs.line, of_pair[self.pairs.pair], len(self.count)), np.float64)

    def by_label(self, of_line: Floats, of_pair: Floats) -> Floats:
        """Return the sum over lines and their pairs for every label, [K], of a number per line times one per pair."""
        pairs = self.pairs
        weight = np.bincount(pairs.pair, of_line[pairs.line], len(pairs.label))
        return np.asarray(np.bincount(pairs.label, weight * of_pair, self.count.shape[1]), np.float64)


class Pairs(NamedTuple):
    """Pairs of a label and a number of votes."""

    line: Integers  # [cells above 0]
    pair: Integers  # [cells above 0] below the number of pairs
    label: Integers  # [pairs]
    number: Floats  # [pairs] of votes


@dataclass(frozen=True, eq=False)
class AnswerLaw:
    """Dirichlet kinds of tasks, and the overall law as the last one."""

    kinds: Floats  # [K + 1, K]
    log_weight: Floats  # [K] of the first K kinds
    trust: float  # from 0 to 1: how far the first K kinds count
    passes: tuple[int, int]

    def membership(self, lines: CountLines) -> Floats:
        """Return the probability of every kind, [lines, K + 1]."""
        score = np.stack([_log_likelihood(lines, kind) for kind in self.kinds[:-1]], axis=1) + self.log_weight
        member, _ = _softmax(score)
        return np.concatenate([self.trust * member, np.full((len(lines.count), 1), 1.0 - self.trust)], axis=1)

    def answers(self, lines: CountLines, member: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the expected distribution of answers, [lines, K], its ambiguity and its doubt, [lines] in nats.

        Ambiguity is the expected entropy of the task's own distribution, doubt the entropy that more votes would remove.
        """
        pairs = lines.pairs
        share, ambiguity = np.zeros_like(lines.count), np.zeros(len(lines.count))
        for kind, weight in zip(self.kinds, member.T, strict=True):
            a, b = kind[pairs.label], kind[pairs.label] + pairs.number
            total = lines.total + kind.sum()
            share += weight[:, None] * (lines.count + kind) / total[:, None]
            known = float((kind * digamma(kind + 1.0)).sum())
            inner = known + lines.by_line(b * digamma(b + 1.0) - a * digamma(a + 1.0))
            ambiguity += weight * (digamma(total + 1.0) - inner / total)
        entropy = -(share * np.log(np.maximum(share, 1e-12))).sum(axis=1)
        return share, ambiguity, np.maximum(entropy - ambiguity, 0.0)

    def probability_ambiguous(self, lines: CountLines, member: Floats, share: float = TOP_SHARE) -> Floats:
        """Return the probability that the most frequent answer has less than a share of the crowd, [lines].

        Above one half only one answer can have the share, so that this is a sum over beta variables.
        """
        k = lines.count.shape[1]
        cells = np.stack(
            [np.broadcast_to(np.arange(k), lines.count.shape), lines.count, np.repeat(lines.total[:, None], k, axis=1)]
        )
        distinct, cell = np.unique(cells.reshape(3, -1), axis=1, return_inverse=True)
        label, count, votes = distinct[0].astype(np.int64), distinct[1], distinct[2]
        out = np.zeros(len(lines.count))
        for kind, weight in zip(self.kinds, member.T, strict=True):
            if weight.max(initial=0.0) < 1e-6:
                continue
            own = count + kind[label]
            above = beta_above(share, own, votes + kind.sum() - own)
            out += weight * (1.0 - above[cell.ravel()].reshape(lines.count.shape).sum(axis=1))
        return np.clip(out, 0.0, 1.0)


def fit_law(lines: CountLines) -> tuple[AnswerLaw, Floats]:
    """Return the law of the answers of tasks with two labels or more, and the membership of every line, [lines, K + 1]."""
    n, times, k = lines.count, lines.times, lines.count.shape[1]
    base = (times @ n + 1.0) / (times @ lines.total + k)
    one = _fit_mixture(lines, 2.0 * base[None], np.ones((len(n), 1)))
    member = (n == n.max(axis=1, keepdims=True)).astype(np.float64)
    member /= member.sum(axis=1, keepdims=True)
    mean = (times[:, None] * member).T @ ((n + 1.0 / k) / (lines.total + 1.0)[:, None])
    mean += LENT_KIND_TASKS * (0.5 * np.eye(k) + 0.5 * base)
    several = _fit_mixture(lines, 3.0 * mean / mean.sum(axis=1, keepdims=True), member)
    trust = float(np.clip((several.likelihood - one.likelihood) / max(k * k - 1, 1), 0.0, 1.0))
    kinds = np.concatenate([several.kinds, one.kinds])
    member = np.concatenate([trust * several.member, np.full((len(n), 1), 1.0 - trust)], axis=1)
    return AnswerLaw(kinds, several.log_weight, trust, (one.passes, several.passes)), member


class _Mixture(NamedTuple):
    kinds: Floats  # [G, K]
    member: Floats  # [lines, G]
    log_weight: Floats  # [G]
    likelihood: float
    passes: int


def _fit_mixture(lines: CountLines, kinds: Floats, member: Floats) -> _Mixture:
    """Return a mixture of Dirichlet-multinomials by EM, with one step of Minka's fixed point per pass."""
    times, pairs, number = lines.times, lines.pairs, len(kinds)
    likelihood, passes, log_weight = -np.inf, 0, np.zeros(number)
    while passes < MAX_LAW_PASSES:
        passes += 1
        log_weight = np.log((times @ member + 1.0) / (times.sum() + number))
        score = np.stack([_log_likelihood(lines, kind) for kind in kinds], axis=1) + log_weight
        new, log_total = _softmax(score)
        likelihood = float(times @ log_total)
        moved, member, before = float(np.abs(new - member).max(initial=0.0)), new, kinds
        kinds = np.empty_like(kinds)
        for g, kind in enumerate(before):
            mine, total = times * member[:, g], kind.sum()
            rise = digamma(pairs.number + kind[pairs.label]) - digamma(kind)[pairs.label]
            up = lines.by_label(mine, rise) + LENT_KIND_TASKS * (digamma(kind + 2.0 * kind / total) - digamma(kind))
            down = float(mine @ (digamma(lines.total + total) - digamma(total[None])))
            down += LENT_KIND_TASKS * float((digamma(total[None] + 2.0) - digamma(total[None])).item())
            kinds[g] = np.clip(kind * up / max(down, 1e-12), *CONCENTRATION)
        if moved < MAX_MEMBERSHIP_MOVE and float(np.abs(kinds - before).max()) < 1e-2 * float(before.max()):
            break
    return _Mixture(kinds, member, log_weight, likelihood, passes)


def _log_likelihood(lines: CountLines, kind: Floats) -> Floats:
    """Return the log-likelihood of every line, [lines], under a Dirichlet kind; the multinomial coefficient is left out."""
    pairs, total = lines.pairs, kind.sum(keepdims=True)
    of_pair = log_gamma(pairs.number + kind[pairs.label]) - log_gamma(kind)[pairs.label]
    return np.asarray(lines.by_line(of_pair) - log_gamma(lines.total + total) + log_gamma(total))


def _softmax(score: Floats) -> tuple[Floats, Floats]:
    """Return probabilities, [lines, G], and the logarithms of their totals, [lines]."""
    top = score.max(axis=1, keepdims=True)
    out = np.exp(score - top)
    total = out.sum(axis=1, keepdims=True)
    return out / total, (top + np.log(total))[:, 0]
