"""The law of a crowd's answers: what share of infinitely many votes each label would get on a task, given few votes.

A task's own distribution of answers comes from one of K Dirichlet kinds ("most say g"), or from one Dirichlet of all tasks. The
kinds count as far as they explain more than their parameters would by chance. Votes of different tasks are rarely different:
everything here is computed once per distinct line of counts, from tables over pairs of a label and a number of votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.special import beta_above, digamma, log_gamma

MAX_PASSES: Final = 60
TOLERANCE: Final = 1e-3  # of the memberships
LENT_TASKS: Final = 1.0  # of two votes, drawn as the kind is
CONCENTRATION: Final = (1e-3, 200.0)  # the least and the most of a Dirichlet's parameters
MAX_KEY: Final = 2**62
TOP_SHARE: Final = 2.0 / 3.0  # of the crowd: a task whose top answer has less is ambiguous
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
    mean += LENT_TASKS * (0.5 * np.eye(k) + 0.5 * base)
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
    while passes < MAX_PASSES:
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
            up = lines.by_label(mine, rise) + LENT_TASKS * (digamma(kind + 2.0 * kind / total) - digamma(kind))
            down = float(mine @ (digamma(lines.total + total) - digamma(total[None])))
            down += LENT_TASKS * float((digamma(total[None] + 2.0) - digamma(total[None])).item())
            kinds[g] = np.clip(kind * up / max(down, 1e-12), *CONCENTRATION)
        if moved < TOLERANCE and float(np.abs(kinds - before).max()) < 1e-2 * float(before.max()):
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
