"""The coefficients of agreement, and what errors have in common: functions of sums over tasks.

All coefficients except Krippendorff's are (observed - chance) / (1 - chance), and differ in how they define chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import effective_votes, own_rates
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, quote
from adjudge.evaluation import intervals
from adjudge.evaluation.intervals import (
    Bootstrap,
    Estimate,
    Floats,
    Integers,
    ResamplingUnits,
    Sums,
    beyond_chance,
    ratio,
    sum_by,
)

MAX_ORDINAL_LABELS: Final = 512  # the observed part of level ordinal is a table of label by label
CHUNK_TASKS: Final = 1 << 18  # per block
COINCIDENCE_CHUNK_PAIRS: Final = 1 << 22  # pairs of (vote, label of its task) per chunk, so that copies stay small


@dataclass(frozen=True, eq=False)
class MeasurementScale:
    """The kind of labels, and the value of every label."""

    kind: str  # nominal, ordinal or interval
    values: Floats  # [K] ordinal: ranks from 0; interval: the numbers; nominal: all 0, and not used

    @property
    def positions(self) -> Floats:
        """The values mapped to 0 (smallest) … 1 (largest), [K]; all 0 if they do not differ."""
        low = self.values.min(initial=np.inf)
        width = self.values.max(initial=-np.inf) - low
        return (self.values - low) / width if width > 0 else np.zeros(len(self.values))


def scale_of(labels: Vocabulary, kind: str) -> MeasurementScale:
    """Return the scale of these labels.

    The order is the one in which the labels were declared. Labels in plain text order were probably not declared. If all
    of them are numbers, the numbers give the order ("10" after "9").

    >>> scale_of(Vocabulary.of(["1", "10", "9"]), "ordinal").values.tolist()
    [0.0, 2.0, 1.0]
    >>> scale_of(Vocabulary.of(["poor", "fair", "good"]), "ordinal").values.tolist()
    [0.0, 1.0, 2.0]
    """
    k = len(labels)
    if kind == "nominal":
        return MeasurementScale(kind, np.zeros(k))
    texts = labels.texts()
    values = [_number(text) for text in texts]
    if kind == "interval":
        for text, number in zip(texts, values, strict=True):
            if number is None:
                raise InputError(f"scale 'interval' needs numbers as labels, but {quote(text)} is none: take scale 'ordinal'")
        return MeasurementScale(kind, np.array(values, np.float64))
    if k > MAX_ORDINAL_LABELS:
        most = MAX_ORDINAL_LABELS
        raise InputError(f"scale 'ordinal' takes at most {most} labels, and these votes have {k}: take scale 'interval'")
    if None in values or list(texts) != sorted(texts, key=str.encode):
        return MeasurementScale(kind, np.arange(k, dtype=np.float64))
    rank = np.empty(k)
    rank[np.argsort(np.array(values, np.float64), kind="stable")] = np.arange(k)
    return MeasurementScale(kind, rank)


def by_pattern(votes: Votes, numbers: int, rng: np.random.Generator, cluster: Integers | None = None) -> ResamplingUnits:
    """Return units for figures that depend only on how many votes each label got in a task; clusters of tasks are units."""
    key = None if cluster is not None else _patterns(votes)
    if key is not None:
        _, first, unit_sizes = np.unique(key, return_index=True, return_counts=True)
        if len(first) <= intervals.max_units(numbers):
            return ResamplingUnits(first, np.arange(len(first)), unit_sizes, votes.n_tasks)
    return intervals.by_task(votes.n_tasks, numbers, rng, cluster)


def task_sums(votes: Votes, units: ResamplingUnits, scale: MeasurementScale) -> Sums:
    """Return the sums of every unit.

    With n votes in a task, n_k of them for label k, a task adds

    - `tasks` 1, `shares` n_k / n;
    - and, if n >= 2, `paired` 1, `labels` n_k,
      `agree` the share of its ordered pairs of votes that agree: sum of n_k (n_k - 1) / (n (n - 1)),
      `linear` and `quadratic` the mean over those pairs of 1 - d and 1 - d^2, d the distance of the two labels,
      `observed` its disagreement: sum over pairs of the squared distance (1 for names) / (n - 1),
      or for an order `coincide` the table n_k n_l / (n - 1), the label with itself n_k (n_k - 1) / (n - 1).
    """
    k, n_units = votes.n_labels, len(units)
    out = {name: np.zeros(n_units) for name in ("tasks", "paired", "agree", "linear", "quadratic", "observed")}
    out |= {name: np.zeros(n_units * k) for name in ("shares", "labels")}
    if scale.kind == "ordinal":
        out["coincide"] = np.zeros((n_units, k, k))
    for label, size, unit in _chunks(votes, units):
        _add(out, label, size, unit, scale, k)
    shares, labels = out["shares"].reshape(n_units, k), out["labels"].reshape(n_units, k)
    return out | {"shares": shares, "labels": labels}


def percent(sums: Sums, _: MeasurementScale) -> Floats:
    """Return the mean over tasks with two votes or more of the share of pairs of votes that agree."""
    return ratio(sums["agree"], sums["paired"])


def fleiss(sums: Sums, scale: MeasurementScale) -> Floats:
    """Return Fleiss' kappa (1971), for unequal numbers of votes as Gwet (2014) generalises it.

    Observed is `percent`; chance is the sum of p_k^2 with p_k the mean over all tasks of the label's share of votes.
    """
    share = ratio(sums["shares"], sums["tasks"][..., None])
    return beyond_chance(percent(sums, scale), (share**2).sum(axis=-1))


def ac1(sums: Sums, scale: MeasurementScale) -> Floats:
    """Return Gwet's AC1 (2008): chance is the sum of p_k (1 - p_k) / (K - 1), with the shares of `fleiss`."""
    return beyond_chance(percent(sums, scale), _gwet_chance(sums, 1.0))


def ac2(sums: Sums, scale: MeasurementScale, *, power: int) -> Floats:
    """Return Gwet's AC2 with linear (power 1) or quadratic (2) weights: 1 - (|v_k - v_l| / (largest - smallest))^power."""
    position = scale.positions
    if position.max(initial=0.0) == 0:  # no two labels differ in value
        return np.full(sums["tasks"].shape, np.nan)
    k = len(position)
    # The sum over all pairs of labels of |v_k - v_l|, or of its square.
    apart = 2 * ((2 * np.arange(k) - k + 1) * np.sort(position)).sum() if power == 1 else 2 * k**2 * position.var()
    weight = (k**2 - apart) / k  # the sum of all weights; 1 for each label with itself makes it AC1's
    return beyond_chance(ratio(sums["linear" if power == 1 else "quadratic"], sums["paired"]), _gwet_chance(sums, weight))


def alpha(sums: Sums, scale: MeasurementScale) -> Floats:
    """Return Krippendorff's alpha (2011), 1 - observed / expected disagreement, on tasks with two votes or more."""
    counts = sums["labels"]  # [..., K]
    n = counts.sum(axis=-1)
    if scale.kind == "nominal":
        observed, expected = sums["observed"], n**2 - (counts**2).sum(axis=-1)
    elif scale.kind == "interval":
        observed, expected = sums["observed"], _spread(counts, scale.positions)
    else:
        # The ordinal distance, (n_k / 2 + all between + n_l / 2)^2, is that of mean ranks.
        order = np.argsort(scale.values)
        inverse = np.argsort(order)
        ordered = ratio(counts[..., order], n[..., None])
        rank = (np.cumsum(ordered, axis=-1) - ordered / 2)[..., inverse] - 0.5
        table = np.einsum("...kl,...k,...l->...", sums["coincide"], rank, rank)
        observed, expected = 2 * ((counts * rank**2).sum(axis=-1) - table), _spread(counts, rank)
    return 1 - ratio((n - 1) * observed, expected)


Figure = Callable[[Sums, MeasurementScale], Floats]
NOMINAL: Mapping[str, Figure] = MappingProxyType({"percent": percent, "fleiss": fleiss, "alpha": alpha, "ac1": ac1})
WEIGHTED: Mapping[str, Figure] = {"ac2_linear": partial(ac2, power=1), "ac2_quadratic": partial(ac2, power=2)}
ORDERED: Mapping[str, Figure] = MappingProxyType({**NOMINAL, **WEIGHTED})


def _patterns(votes: Votes) -> Integers | None:
    """Return a number for every task that identifies its votes per label, [tasks]; None where 63 bits are too few.

    Its digits are the votes of each label, in a base above the largest number of votes of a task.
    """
    base = int(np.diff(votes.task_ptr).max(initial=0)) + 1
    if base**votes.n_labels >= 2**63 or not votes.n_tasks:
        return None
    digit = np.array([base**k for k in range(votes.n_labels)], np.int64)
    return np.add.reduceat(digit[votes.row_label][votes.row], votes.task_ptr[:-1])


def _chunks(votes: Votes, units: ResamplingUnits) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yield (label of each vote, grouped by task; votes per task; unit per task), some tasks at a time."""
    label_of = votes.row_label.astype(np.int64)
    if units.tasks is not None:  # one task per pattern
        size = np.diff(votes.task_ptr)[units.tasks]
        before = np.cumsum(size) - size
        position = np.repeat(votes.task_ptr[:-1][units.tasks] - before, size) + np.arange(size.sum())
        yield label_of[votes.row[position]], size, units.unit
        return
    start = 0
    step = COINCIDENCE_CHUNK_PAIRS // max(1, min(votes.n_labels, int(np.diff(votes.task_ptr).max(initial=1))))
    while start < votes.n_tasks:
        end = int(np.searchsorted(votes.task_ptr, votes.task_ptr[start] + step, side="right")) - 1
        end = min(max(end, start + 1), votes.n_tasks)
        ptr = votes.task_ptr[start : end + 1]
        yield label_of[votes.row[ptr[0] : ptr[-1]]], np.diff(ptr), units.unit[start:end]
        start = end


def _add(out: dict[str, Floats], label: Integers, size: Integers, unit: Integers, scale: MeasurementScale, k: int) -> None:
    n_units, n_tasks = len(out["tasks"]), len(size)
    # One entry per task and label that occurs in it, in the order of the labels' positions within a task.
    order = np.argsort(scale.values, kind="stable")
    rank = np.empty(k, np.int64)
    rank[order] = np.arange(k)
    entry, count = np.unique(np.repeat(np.arange(n_tasks), size) * k + rank[label], return_counts=True)
    task, label = entry // k, order[entry % k]
    n = size.astype(np.float64)
    pairs = n * (n - 1)
    paired = pairs > 0

    def to_task(values: Floats) -> Floats:
        return sum_by(task, values, n_tasks)

    def to_unit(values: Floats) -> Floats:
        return sum_by(unit, values, n_units)

    out["tasks"] += to_unit(np.ones(n_tasks))
    out["paired"] += to_unit(paired.astype(np.float64))
    cell = unit[task] * k + label
    out["shares"] += sum_by(cell, count / n[task], n_units * k)
    out["labels"] += sum_by(cell, count * paired[task], n_units * k)
    per_pair = np.divide(1.0, pairs, out=np.zeros(n_tasks), where=paired)
    agree = to_task(count * (count - 1.0))
    out["agree"] += to_unit(agree * per_pair)
    if scale.kind == "nominal":
        out["observed"] += to_unit((pairs - agree) * per_pair * n)
        return
    position = scale.positions[label]
    # The sum of (v_k - v_l)^2 over ordered pairs of votes.
    squares = 2 * (n * to_task(count * position**2) - to_task(count * position) ** 2)
    out["linear"] += to_unit(paired - 2 * to_task(_apart(task, count, position)) * per_pair)
    out["quadratic"] += to_unit(paired - squares * per_pair)
    if scale.kind == "interval":
        out["observed"] += to_unit(squares * per_pair * n)
    else:
        _coincide(out["coincide"], unit[task], task, label, count, per_pair * n)


def _apart(task: Integers, count: Integers, position: Floats) -> Floats:
    """Return for each entry its distance to all votes of its task with a lower position: n_l sum of n_k (v_l - v_k)."""
    first = np.searchsorted(task, task)  # where each entry's task begins
    votes, weight = np.cumsum(count) - count, np.cumsum(count * position) - count * position
    apart: Floats = count * (position * (votes - votes[first]) - (weight - weight[first]))
    return apart


def _coincide(out: Floats, unit: Integers, task: Integers, label: Integers, count: Integers, per_task: Floats) -> None:
    """Add n_k n_l / (n - 1) to the table of each task's unit, without the pairs of a vote with itself."""
    k = out.shape[1]
    scaled = count * per_task[task]
    np.add.at(out, (unit, label, label), -scaled)
    # Every entry meets every entry of its task.
    first, last = np.searchsorted(task, task), np.searchsorted(task, task, side="right")
    width = last - first
    left = np.repeat(np.arange(len(task)), width)
    right = np.arange(len(left)) + np.repeat(first - (np.cumsum(width) - width), width)
    cell = (unit[left] * k + label[left]) * k + label[right]
    np.add.at(out.reshape(-1), cell, scaled[left] * count[right])


def _gwet_chance(sums: Sums, weight: float) -> Floats:
    """Return weight * sum of p_k (1 - p_k) / (K - 1); NaN with one label, for which it is undefined."""
    share = ratio(sums["shares"], sums["tasks"][..., None])
    k = share.shape[-1]
    spread = (share * (1 - share)).sum(axis=-1)
    return weight * spread / (k - 1) if k > 1 else np.full(spread.shape, np.nan)


def _spread(counts: Floats, position: Floats) -> Floats:
    """Return the sum over ordered pairs of votes of (v_k - v_l)^2, [...]; exactly 0 if all votes have the same position."""
    n = counts.sum(axis=-1)
    spread = 2 * (n * (counts * position**2).sum(axis=-1) - (counts * position).sum(axis=-1) ** 2)
    least = np.where(counts > 0, position, np.inf).min(axis=-1, initial=np.inf)
    most = np.where(counts > 0, position, -np.inf).max(axis=-1, initial=-np.inf)
    differ: Floats = np.where(most > least, spread, 0.0)
    return differ


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


@dataclass(frozen=True, eq=False)
class ErrorFigures:
    """Errors against the truth, or against majority vote."""

    votes_per_task: float  # on the task of a vote, on average over votes
    correlation: Estimate  # of the errors of two votes on the same task
    effective_votes: Estimate  # number of independent votes that the votes of a task amount to


def measure_errors(votes: Votes, labels: Integers | None, bootstrap: Bootstrap, cluster: Integers | None = None) -> ErrorFigures:
    """Return the correlation of errors and the effective votes, as `result.facts` has them, with intervals.

    `labels` are what votes are compared with, [tasks] codes: K for a label that nobody gave, -1 for one that is not known.
    Let x be 1 for a right vote and 0 for a wrong one, less its worker's rate q (see `own_rates`). The correlation is the sum
    of x x' over all pairs of votes on the same task, divided by that of the square root of q (1 - q) q' (1 - q'). Tasks, or
    their clusters, are resampled; the workers' rates are held fixed.
    """
    if labels is None:
        return ErrorFigures(_votes_per_task(np.diff(votes.task_ptr)), Estimate(np.nan), Estimate(np.nan))
    rng = bootstrap.rng(3)
    rate = _right_rates(votes, labels)
    deviation = np.sqrt(rate * (1.0 - rate))
    units = intervals.by_task(votes.n_tasks, 4, rng, cluster)
    sums = {name: np.zeros(len(units)) for name in ("together", "apart", "votes", "pairs")}
    row_worker = votes.row_worker()
    for start in range(0, votes.n_tasks, CHUNK_TASKS):
        task, row, right = _chunk(votes, labels, start)
        unit, worker = units.unit[start : start + CHUNK_TASKS], row_worker[row]
        for name, x in (("together", right - rate[worker]), ("apart", deviation[worker]), ("pairs", np.ones(len(row)))):
            of_task = sum_by(task, x, len(unit)) ** 2 - sum_by(task, x**2, len(unit))
            sums[name] += sum_by(unit, of_task, len(units))
        sums["votes"] += sum_by(unit, sum_by(task, np.ones(len(row)), len(unit)), len(units))
    found = intervals.estimates({"correlation": _correlation, "effective": _effective}, sums, units, bootstrap, rng)
    effective = found["effective"]
    least = min(1.0, float(effective))  # a resample may have a correlation above 1
    effective = Estimate(effective, float(np.maximum(effective.low, least)), effective.high)  # NaN stays
    return ErrorFigures(_votes_per_task(np.diff(votes.task_ptr)[labels >= 0]), found["correlation"], effective)


def _votes_per_task(sizes: Integers) -> float:
    """Return how many votes the task of a vote has, on average over votes, from the votes of each task, [tasks]."""
    return 1.0 + float((sizes * (sizes - 1)).sum() / sizes.sum())


def _correlation(sums: Sums) -> Floats:
    return ratio(sums["together"], sums["apart"])


def _effective(sums: Sums) -> Floats:
    return effective_votes(1.0 + ratio(sums["pairs"], sums["votes"]), _correlation(sums))


def _right_rates(votes: Votes, labels: Integers) -> Floats:
    """Return how often each worker is right, [workers]; the mean worker's rate without a vote on a task whose label is known."""
    right, seen = np.zeros(votes.n_rows), np.zeros(votes.n_rows)
    for start in range(0, votes.n_tasks, CHUNK_TASKS):
        _, row, rights = _chunk(votes, labels, start)
        right += np.bincount(row, rights, minlength=votes.n_rows)
        seen += np.bincount(row, minlength=votes.n_rows)
    starts = votes.worker_ptr[:-1]
    return own_rates(np.add.reduceat(right, starts), np.add.reduceat(seen, starts), right.sum() / seen.sum())


def _chunk(votes: Votes, labels: Integers, start: int) -> tuple[Integers, NDArray[np.uint32], Floats]:
    """Return task (counted from `start`), row and rightness of the votes of some tasks whose label is known."""
    ptr = votes.task_ptr[start : start + CHUNK_TASKS + 1]
    task = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    label = labels[start : start + CHUNK_TASKS][task]
    row = votes.row[ptr[0] : ptr[-1]]
    if (label < 0).any():
        task, row, label = task[label >= 0], row[label >= 0], label[label >= 0]
    return task, row, (votes.row_label[row] == label).astype(np.float64)
