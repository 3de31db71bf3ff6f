"""How many more votes of an average worker would settle a label, if the label is right.

The votes to come are taken as they are expected: the mean worker gives each label as often as its confusion says, given that
the label of the task is the true one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import given_votes
from adjudge.kernels.reference import VOTE_SHARE, HonestRule, softened
from adjudge.results.evidence import TaskVotes
from adjudge.results.honest import LENT, Honest, streamed_rule
from adjudge.results.knowledge import Learned
from adjudge.results.temperature import tempered

Floats = NDArray[np.float64]
MAX_MORE: Final = 100  # votes looked ahead


def mean_worker(learned: Learned) -> Floats:
    """Return the confusion of the mean worker of a fit, smoothed, [K given, K true]; 0 for labels that do not exist."""
    known = learned.knowledge
    return streamed_rule(given_votes(known, known.counts), known.class_counts, 0.0, 1.0)[1] / LENT


def expected_lines(confusion: Floats, label: int, *, honest: bool) -> Floats:
    """Return what a vote of the mean worker says of every label where `label` is true, in expectation, [K].

    `confusion` is [K given, K true]. Where confidence is honest, no vote speaks against what it says.
    """
    with np.errstate(divide="ignore"):
        lines = np.log(confusion)
    if honest:
        np.fill_diagonal(lines, lines.max(axis=1, initial=-np.inf))
    share = confusion[:, label]
    cast = share > 0
    return np.asarray(share[cast] @ np.where(np.isneginf(lines[cast]), 0.0, lines[cast]))


def more_honest_votes(
    some: TaskVotes, honest: Honest, scores_now: Floats, settled: float, temperature: float
) -> list[int | None]:
    """Return how many more votes bring the label of each task to honest confidence `settled`.

    `scores_now` has the scores of the honest rule, [tasks, K].
    """
    rule, population, counted = honest.rule, honest.population, some.counted()
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, score, votes in zip(some.labels.tolist(), scores_now, counted, strict=True):
        line = expected_lines(population, label, honest=True)
        scores = np.where(rule.uniform > 0, score + more * line, -np.inf)
        shown = votes + more * population[:, label]
        found.append(_first(_honest(scores, shown, rule), label, settled, temperature))
    return found


def _honest(scores: Floats, shown: Floats, rule: HonestRule) -> Floats:
    """Return honest probabilities, [n, K], of scores and of votes by label, [n, K] each."""
    size = shown.sum(axis=1)
    out: Floats = (1.0 - VOTE_SHARE) * softened(scores, size, rule) + VOTE_SHARE * (shown + rule.uniform) / (size + 1.0)[:, None]
    return out


def more_scored_votes(some: TaskVotes, probabilities: Floats, confusion: Floats, settled: float) -> list[int | None]:
    """Return the same of a posterior that comes from scores; `probabilities` has it now, [tasks, K]."""
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, now in zip(some.labels.tolist(), probabilities, strict=True):
        with np.errstate(divide="ignore"):
            scores = np.where(now > 0, np.log(now) + more * expected_lines(confusion, label, honest=False), -np.inf)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        found.append(_first(shares / shares.sum(axis=1, keepdims=True), label, settled, some.result.fit.temperature))
    return found


def more_counted_votes(some: TaskVotes, sums: Floats, weight: float, confusion: Floats, settled: float) -> list[int | None]:
    """Return the same of a posterior that is a share of votes or weights; `sums` has these by label, [tasks, K].

    `weight` is that of the mean vote.
    """
    more = np.arange(MAX_MORE + 1.0)[:, None]
    found = []
    for label, now in zip(some.labels.tolist(), sums, strict=True):
        after = np.maximum(now + more * max(weight, 0.0) * confusion[:, label], 0.0)
        total = after.sum(axis=1, keepdims=True)
        found.append(_first(after / np.where(total > 0, total, 1.0), label, settled, some.result.fit.temperature))
    return found


def _first(probabilities: Floats, label: int, settled: float, temperature: float) -> int | None:
    """Return the first line, of one vote more each, in which the label is settled; None where it is in none."""
    known = tempered(np.clip(probabilities, 0.0, 1.0), temperature)
    there = np.flatnonzero(known[:, label] >= settled)
    return int(there[0]) if len(there) else None
