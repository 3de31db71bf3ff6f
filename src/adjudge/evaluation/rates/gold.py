"""Shares of labels corrected by known labels of some tasks: prediction-powered inference, and Rogan and Gladen's inversion.

Both take the fit that has not seen the known labels. The first measures on the gold of the group itself by how much predictions
are off in the mean (Angelopoulos, Duchi and Zrnic 2023, PPI++), and assumes nothing but that this gold is a random sample of the
group. The second inverts the table of labels given to tasks of each true label (Rogan and Gladen 1978). It takes the gold of
all groups together, and so assumes that judges err alike in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.rates.shares import KNOWN, MAX_VARIANCE, Beliefs, Estimate, Floats, Integers, by_votes, most_likely

PPI: Final = "ppi"
INVERTED: Final = "rogan-gladen"
MIN_GOLD: Final = 10  # known labels in a group, from which on it is corrected by its own
MIN_PER_LABEL: Final = 5  # known tasks of each true label, from which on the table of all groups is inverted
LENT_TASKS: Final = 8.0  # that say that predictions are calibrated, beside the gold that says how far to trust them
LENT_ERRORS: Final = 2.0  # tasks with the doubt that is expected, in the variance of errors seen on gold
LENT_ROWS: Final = 1.0  # tasks as honest probabilities expect them, in every column of the table
CLEARLY: Final = 0.8  # of the standard error expected of the first: below it the second is taken
CONTRADICTED: Final = 2.0  # standard errors from what the table says, beyond which judges do not err alike in all groups
MAX_CONDITION: Final = 20.0  # of a table that is inverted


@dataclass(frozen=True, eq=False)
class Gold:
    """Known labels of tasks with votes."""

    tasks: Integers  # [gold] codes, rising
    labels: Integers  # [gold] codes

    def within(self, tasks: Integers) -> tuple[Integers, Integers]:
        """Return where gold stands among some tasks, rising codes, and its labels, [gold there] each."""
        at = np.searchsorted(tasks, self.tasks)
        here = at < len(tasks)
        here[here] = tasks[at[here]] == self.tasks[here]
        return at[here], self.labels[here]


def prediction_powered(found: Beliefs, tasks: Integers, at: Integers, labels: Integers, *, sample: bool) -> Estimate:
    """Return the shares of a group by its predictions, corrected by its gold: `at` and `labels` say where it is, and what.

    With y for gold and f for predictions, the share is mean(y - l f) over gold plus l mean(f) over the other tasks. The tuning l
    is the regression of y on f, held back towards 1 by tasks that say so, as few gold tasks tell little of it.
    """
    predicted = most_likely(found)[1]
    n, whole, k = len(at), len(found), predicted.shape[1]
    truth, others = np.eye(k)[labels], np.ones(whole, np.bool_)
    others[at] = False
    rest = whole - n
    seen, spread = predicted[at], predicted.var(axis=0)
    centred = seen - seen.mean(axis=0)
    both = ((truth - truth.mean(axis=0)) * centred).sum(axis=0) + LENT_TASKS * spread
    own = (centred**2).sum(axis=0) + LENT_TASKS * spread
    tuning = np.clip(np.divide(both, own, out=np.zeros(k), where=own > 0), 0.0, 1.0)
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    power = tuning * rest / whole if sample else tuning
    left = truth - power * seen
    errors = left - left.mean(axis=0)
    expected = doubt + (1.0 - power) ** 2 * spread
    variance = ((errors**2).sum(axis=0) + LENT_ERRORS * expected) / (n - 1 + LENT_ERRORS)
    influence = np.zeros((whole, k))
    if sample:
        share = left.mean(axis=0) + (power * predicted[others].mean(axis=0) if rest else 0.0)
        total = variance / n + (power**2 * spread / rest if rest else 0.0)
        influence[at] = errors / n
        influence[others] = power * (predicted[others] - predicted[others].mean(axis=0)) / rest if rest else 0.0
    else:
        share = left.mean(axis=0) + power * predicted.mean(axis=0)
        total = (1.0 - n / whole) * variance / n
    share = np.clip(share, 0.0, 1.0)
    share /= share.sum()  # every label has a tuning of its own, so that more than two need not sum to 1
    method = PPI if rest else KNOWN
    return Estimate(share, np.minimum(total, MAX_VARIANCE), np.zeros(k), method, n - 1, tasks, influence, whole)


@dataclass(frozen=True, eq=False)
class Table:
    """How often tasks of each true label get each label, known from the gold of all groups, with what gold leaves open of it."""

    given: Floats  # [K given, K true] shares: columns sum to 1
    number: Floats  # [K true] gold tasks, and those lent
    inverse: Floats  # [K true, K given]
    gold: Gold
    label: Integers  # [gold] that the fit gave


def expected_table(found: Beliefs) -> Floats:
    """Return how often tasks of each true label get each label by honest probabilities, [K given, K true]."""
    k = found.honest.shape[1]
    out = np.zeros((k, k))
    np.add.at(out, found.label, found.honest)
    shares: Floats = out / np.maximum(out.sum(axis=0), 1e-12)
    return shares


def table_of(found: Beliefs, gold: Gold) -> Table | None:
    """Return the table of labels given by true label; None where gold is too scarce, or labels tell the truth too little."""
    k = found.honest.shape[1]
    label, expected = found.label[gold.tasks], expected_table(found)
    counts = np.zeros((k, k))
    np.add.at(counts, (label, gold.labels), 1.0)
    met = counts.sum(axis=0)
    if (met[found.exists] < MIN_PER_LABEL).any() or not found.exists.all():
        return None
    given = (counts + LENT_ROWS * expected) / (met + LENT_ROWS)
    if np.linalg.cond(given) > MAX_CONDITION:
        return None
    return Table(given, met + LENT_ROWS, np.linalg.inv(given), gold, label)


def inverted(found: Beliefs, tasks: Integers, table: Table, *, sample: bool) -> Estimate:
    """Return the shares of a group by its labels, corrected by the table of all groups: C^-1 s, s being shares of labels."""
    n, k = len(found), found.honest.shape[1]
    labelled = np.eye(k)[found.label]
    seen = labelled.mean(axis=0)
    share = np.clip(table.inverse @ seen, 0.0, None)
    share /= share.sum()
    variance = _inverted_variance(table.given, table.number, table.inverse, seen, share, n, sample=sample)
    given = np.eye(k)[table.label] - table.given[:, table.gold.labels].T
    of_gold = -(given @ table.inverse.T) * (share / table.number)[table.gold.labels][:, None]
    of_tasks = (labelled - seen) @ table.inverse.T / n if sample else np.zeros((n, k))
    method, df = INVERTED, float(len(table.gold.tasks) - k)
    return Estimate(
        share,
        np.minimum(variance, MAX_VARIANCE),
        np.zeros(k),
        method,
        df,
        np.concatenate([tasks, table.gold.tasks]),
        np.concatenate([of_tasks, of_gold]),
        n,
    )


def _inverted_variance(
    given: Floats, number: Floats, inverse: Floats, seen: Floats, share: Floats, n: int, *, sample: bool
) -> Floats:
    """Return the variance of inverted shares, [K]: of the labels of n tasks, and of the table that gold leaves open."""
    by_label = [np.diag(column) - np.outer(column, column) for column in given.T]
    luck = np.diag(seen) - np.outer(seen, seen) if sample else sum(s * one for s, one in zip(share, by_label, strict=True))
    table = sum(s**2 / m * one for s, m, one in zip(share, number, by_label, strict=True))
    out: Floats = np.einsum("ij,jk,ik->i", inverse, luck / n + table, inverse)
    return np.maximum(out, 0.0)


def corrected(every: Beliefs, tasks: Integers, gold: Gold, table: Table | None, *, sample: bool) -> Estimate:
    """Return the shares of a group, `tasks` its rising codes, by the method that is expected to be tighter.

    Which that is follows from the votes and from how many labels are known, not from what these say: a choice by the intervals
    themselves would take those that luck made narrow. The inverted table must be clearly tighter, as it assumes more, and is
    dropped where the group's own gold contradicts it. Without gold enough for either, votes alone decide.
    """
    found = every.of(tasks)
    at, labels = gold.within(tasks)
    own = prediction_powered(found, tasks, at, labels, sample=sample) if len(at) >= MIN_GOLD else None
    if table is None:
        return own or by_votes(found, tasks, sample=sample)
    other = inverted(found, tasks, table, sample=sample)
    if own is None:
        return other
    if not _is_clearly_tighter(every, found, len(at), len(gold.tasks), sample=sample):
        return own
    return own if _is_contradicted(found, at, labels, table, own, other) else other


def _is_contradicted(found: Beliefs, at: Integers, labels: Integers, table: Table, own: Estimate, other: Estimate) -> bool:
    """Return whether a group's gold speaks against the table of all: by its shares, or by how many of its labels are right."""
    apart = np.abs(own.share - other.share) / np.sqrt(own.variance + other.variance + 1e-12)
    chance = table.given[labels, labels]
    right = float((found.label[at] == labels).sum())
    spread = float((chance * (1.0 - chance)).sum()) + 0.25  # of a whole number
    return bool((apart > CONTRADICTED).any() or abs(right - float(chance.sum())) > CONTRADICTED * spread**0.5)


def _is_clearly_tighter(every: Beliefs, found: Beliefs, own: int, pooled: int, *, sample: bool) -> bool:
    """Return whether the inverted table is expected to be clearly tighter than correction by the group's own gold."""
    expected, whole = expected_table(every), len(found)
    if np.linalg.cond(expected) > MAX_CONDITION:
        return False
    share, posterior = most_likely(found)
    doubt = (found.honest * (1.0 - found.honest)).mean(axis=0)
    first = doubt / own + posterior.var(axis=0) / whole if sample else (1.0 - own / whole) * doubt / own
    number = np.maximum(every.honest.mean(axis=0) * pooled, 1.0) + LENT_ROWS
    seen = np.bincount(found.label, minlength=len(share)) / whole
    second = _inverted_variance(expected, number, np.linalg.inv(expected).astype(np.float64), seen, share, whole, sample=sample)
    return bool(second.mean() < CLEARLY**2 * first.mean())
