"""The coefficients of whole tasks, with their intervals: functions of sums over tasks.

Sums add, so a resample is a weighted sum of them. It needs only how often each resampling unit was drawn: a pattern of
votes, which stands for all tasks with the same votes per label; a single task; or a group of tasks. Patterns are exact for
any number of tasks. Where there are too many of them, tasks are dealt at random into groups of equal size, and groups are
drawn: the spread of the figures is the same, to about 1 / sqrt(2 * groups).

All coefficients but Krippendorff's are (observed - chance) / (1 - chance), and differ in what they take for chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Sums = Mapping[str, Floats]  # of every kind of sum: [units, …], or [resamples, …] after bootstrap

LEVELS: Final = ("nominal", "ordinal", "interval")
MAX_ORDINAL_LABELS: Final = 512  # the observed part of level ordinal is a table of label by label
MAX_UNITS: Final = 2048  # a bootstrap of this many groups knows the spread to 1.6 %
MIN_UNITS: Final = 64  # even where each takes much memory
MAX_UNIT_NUMBERS: Final = 1 << 23  # numbers that all units may hold together
MAX_DRAWN_NUMBERS: Final = 1 << 22  # numbers of drawn sums held at once
CHUNK: Final = 1 << 22  # pairs of (vote, label of its task) per chunk, so that copies stay small


@dataclass(frozen=True, eq=False)
class Scale:
    """The level of measurement, and the value of every label on it."""

    level: str
    values: Floats  # [K] ordinal: ranks from 0; interval: the numbers; nominal: all 0, and not used

    @property
    def positions(self) -> Floats:
        """The values mapped to 0 (smallest) … 1 (largest), [K]; all 0 where they do not differ."""
        low = self.values.min(initial=np.inf)
        width = self.values.max(initial=-np.inf) - low
        return (self.values - low) / width if width > 0 else np.zeros(len(self.values))


def scale_of(labels: Vocabulary, level: str) -> Scale:
    """Return the scale of these labels.

    The order is the one in which the labels were declared. Labels in plain text order were probably not declared. If all
    of them are numbers, the numbers give the order ("10" after "9").

    >>> scale_of(Vocabulary.of(["1", "10", "9"]), "ordinal").values.tolist()
    [0.0, 2.0, 1.0]
    >>> scale_of(Vocabulary.of(["poor", "fair", "good"]), "ordinal").values.tolist()
    [0.0, 1.0, 2.0]
    """
    k = len(labels)
    if level == "nominal":
        return Scale(level, np.zeros(k))
    texts = labels.texts()
    values = [_number(text) for text in texts]
    if level == "interval":
        for text, number in zip(texts, values, strict=True):
            if number is None:
                raise InputError(f"level 'interval' needs numbers as labels, but {shown(text)} is none: take level 'ordinal'")
        return Scale(level, np.array(values, np.float64))
    if k > MAX_ORDINAL_LABELS:
        most = MAX_ORDINAL_LABELS
        raise InputError(f"level 'ordinal' takes at most {most} labels, and these votes have {k}: take level 'interval'")
    if None in values or not _in_text_order(texts):
        return Scale(level, np.arange(k, dtype=np.float64))
    rank = np.empty(k)
    rank[np.argsort(np.array(values, np.float64), kind="stable")] = np.arange(k)
    return Scale(level, rank)


class Estimate(float):
    """A number with the interval in which it lies; otherwise a plain float.

    >>> e = Estimate(0.75, 0.46, 0.93)
    >>> e + 1, e.low, e.high
    (1.75, 0.46, 0.93)
    >>> e
    0.75 [0.46, 0.93]
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> Estimate:
        """Return the number; NaN stands for what is not known."""
        made = super().__new__(cls, value)
        made.low, made.high = float(low), float(high)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high

    def __repr__(self) -> str:
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}]"

    def summary(self) -> dict[str, float | None]:
        """Return value, low and high as plain numbers, None for what is not known.

        >>> Estimate(0.5).summary()
        {'value': 0.5, 'low': None, 'high': None}
        """
        return {"value": or_none(float(self)), "low": or_none(self.low), "high": or_none(self.high)}


def or_none(value: float) -> float | None:
    """Return the number, or None for NaN, which JSON lacks."""
    return None if math.isnan(value) else value


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn."""

    resamples: int
    confidence: float
    seed: int

    def rng(self, stream: int) -> np.random.Generator:
        """Return the random numbers of one part of the work, independent of what other parts draw."""
        return np.random.default_rng([self.seed, stream])


@dataclass(frozen=True, eq=False)
class Units:
    """The resampling units: what a bootstrap draws."""

    tasks: Integers | None  # [n] tasks whose votes are counted; None: all of them
    unit: Integers  # [n] the unit of each of those tasks
    sizes: Integers  # [units] how often the unit occurs in the data
    draws: int  # how many units a resample draws: as many as there are in the data

    def __len__(self) -> int:
        return len(self.sizes)

    def weights(self, rng: np.random.Generator, resamples: int) -> Floats:
        """Return how often each unit was drawn in every resample, [resamples, units]."""
        return rng.multinomial(self.draws, self.sizes / self.draws, size=resamples).astype(np.float64)


def max_units(numbers: int) -> int:
    """Return how many units of so many numbers each may be held."""
    return int(np.clip(MAX_UNIT_NUMBERS // max(numbers, 1), MIN_UNITS, MAX_UNITS))


def by_pattern(votes: Votes, numbers: int, rng: np.random.Generator) -> Units:
    """Return units for figures that depend only on how many votes each label got in a task."""
    key = _patterns(votes)
    if key is not None:
        _, first, unit_sizes = np.unique(key, return_index=True, return_counts=True)
        if len(first) <= max_units(numbers):
            return Units(first, np.arange(len(first)), unit_sizes, votes.n_tasks)
    return by_task(votes.n_tasks, numbers, rng)


def by_task(n_tasks: int, numbers: int, rng: np.random.Generator) -> Units:
    """Return every task as a unit or, where there are too many, tasks dealt into groups of equal size."""
    n = min(n_tasks, max_units(numbers))
    unit = np.arange(n_tasks)
    if n < n_tasks:
        rng.shuffle(unit)
        unit %= n
    return Units(None, unit, np.ones(n, np.int64), n)


def unit_numbers(n_labels: int, scale: Scale) -> int:
    """Return how many numbers a unit holds."""
    return 5 + 2 * n_labels + (n_labels**2 if scale.level == "ordinal" else 0)


def task_sums(votes: Votes, units: Units, scale: Scale) -> Sums:
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
    if scale.level == "ordinal":
        out["coincide"] = np.zeros((n_units, k, k))
    for label, size, unit in _chunks(votes, units):
        _add(out, label, size, unit, scale, k)
    shares, labels = out["shares"].reshape(n_units, k), out["labels"].reshape(n_units, k)
    return out | {"shares": shares, "labels": labels}


def percent(sums: Sums, _: Scale) -> Floats:
    """Return the mean over tasks with two votes or more of the share of pairs of votes that agree."""
    return ratio(sums["agree"], sums["paired"])


def fleiss(sums: Sums, scale: Scale) -> Floats:
    """Return Fleiss' kappa (1971), for unequal numbers of votes as Gwet (2014) generalises it.

    Observed is `percent`; chance is the sum of p_k^2 with p_k the mean over all tasks of the label's share of votes.
    """
    share = _shares(sums)
    return beyond_chance(percent(sums, scale), (share**2).sum(axis=-1))


def ac1(sums: Sums, scale: Scale) -> Floats:
    """Return Gwet's AC1 (2008): chance is the sum of p_k (1 - p_k) / (K - 1), with the shares of `fleiss`."""
    return beyond_chance(percent(sums, scale), _gwet_chance(sums, 1.0))


def ac2_linear(sums: Sums, scale: Scale) -> Floats:
    """Return Gwet's AC2 with weights 1 - |v_k - v_l| / (largest - smallest)."""
    return _ac2(sums, scale, "linear", 1)


def ac2_quadratic(sums: Sums, scale: Scale) -> Floats:
    """Return Gwet's AC2 with weights 1 - ((v_k - v_l) / (largest - smallest))^2."""
    return _ac2(sums, scale, "quadratic", 2)


def alpha(sums: Sums, scale: Scale) -> Floats:
    """Return Krippendorff's alpha (2011), 1 - observed / expected disagreement, on tasks with two votes or more."""
    counts = sums["labels"]  # [..., K]
    n = counts.sum(axis=-1)
    if scale.level == "nominal":
        observed, expected = sums["observed"], n**2 - (counts**2).sum(axis=-1)
    elif scale.level == "interval":
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


Figure = Callable[[Sums, Scale], Floats]
NOMINAL: Mapping[str, Figure] = MappingProxyType({"percent": percent, "fleiss": fleiss, "alpha": alpha, "ac1": ac1})
ORDERED: Mapping[str, Figure] = MappingProxyType({**NOMINAL, "ac2_linear": ac2_linear, "ac2_quadratic": ac2_quadratic})


def ratio(above: Floats, below: Floats) -> Floats:
    """Return above / below, NaN where below is 0."""
    above, below = np.broadcast_arrays(above, below)
    out: Floats = np.divide(above, below, out=np.full(above.shape, np.nan), where=below > 0)
    return out


def beyond_chance(observed: Floats, chance: Floats) -> Floats:
    """Return (observed - chance) / (1 - chance), NaN where chance explains everything."""
    return ratio(observed - chance, np.where(chance < 1 - 1e-12, 1 - chance, 0.0))


def estimates(
    figures: Mapping[str, Callable[[Sums], Floats]],
    sums: Sums,
    units: Units,
    bootstrap: Bootstrap,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Return each figure of all tasks, with the interval that holds the middle of its resamples.

    `sums` has the sums of every unit, [units, …]; resamples in which a figure has no value are left out.
    """
    values = {name: float(figure(_drawn(sums, units.sizes[None].astype(np.float64)))[0]) for name, figure in figures.items()}
    drawn: dict[str, list[Floats]] = {name: [] for name in figures}
    width = max(len(units), sum(int(np.prod(array.shape[1:])) for array in sums.values()))
    for start in range(0, bootstrap.resamples, step := max(1, MAX_DRAWN_NUMBERS // width)):
        some = _drawn(sums, units.weights(rng, min(step, bootstrap.resamples - start)))
        for name, figure in figures.items():
            drawn[name].append(figure(some))
    return {name: Estimate(value, *middle(drawn[name], bootstrap.confidence)) for name, value in values.items()}


def middle(drawn: list[Floats], confidence: float) -> tuple[float, float]:
    """Return the ends of the middle share of all values but NaN; NaN where there are none.

    >>> middle([np.arange(101.0), np.array([np.nan])], 0.5)
    (25.0, 75.0)
    """
    values = np.concatenate(drawn) if drawn else np.zeros(0)
    values = values[~np.isnan(values)]
    if not len(values):
        return float("nan"), float("nan")
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def sum_by(index: Integers, values: NDArray[np.generic], n: int) -> Floats:
    """Return the sum of the values at each index, [n].

    >>> sum_by(np.array([2, 0, 2]), np.array([1.0, 5.0, 2.0]), 3).tolist()
    [5.0, 0.0, 3.0]
    """
    return np.bincount(index, values, minlength=n).astype(np.float64, copy=False)


def _patterns(votes: Votes) -> Integers | None:
    """Return a number for every task that identifies its votes per label, [tasks]; None where 63 bits are too few.

    Its digits are the votes of each label, in a base above the largest number of votes of a task.
    """
    base = int(np.diff(votes.task_ptr).max(initial=0)) + 1
    if base**votes.n_labels >= 2**63 or not votes.n_tasks:
        return None
    digit = np.array([base**k for k in range(votes.n_labels)], np.int64)
    return np.add.reduceat(digit[votes.row_label][votes.row], votes.task_ptr[:-1])


def _chunks(votes: Votes, units: Units) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yield (label of each vote, grouped by task; votes per task; unit per task), some tasks at a time."""
    label_of = votes.row_label.astype(np.int64)
    if units.tasks is not None:  # one task per pattern
        size = np.diff(votes.task_ptr)[units.tasks]
        before = np.cumsum(size) - size
        position = np.repeat(votes.task_ptr[:-1][units.tasks] - before, size) + np.arange(size.sum())
        yield label_of[votes.row[position]], size, units.unit
        return
    start = 0
    step = CHUNK // max(1, min(votes.n_labels, int(np.diff(votes.task_ptr).max(initial=1))))
    while start < votes.n_tasks:
        end = int(np.searchsorted(votes.task_ptr, votes.task_ptr[start] + step, side="right")) - 1
        end = min(max(end, start + 1), votes.n_tasks)
        ptr = votes.task_ptr[start : end + 1]
        yield label_of[votes.row[ptr[0] : ptr[-1]]], np.diff(ptr), units.unit[start:end]
        start = end


def _add(
    out: dict[str, Floats],
    label: Integers,
    size: Integers,
    unit: Integers,
    scale: Scale,
    k: int,
) -> None:
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
    if scale.level == "nominal":
        out["observed"] += to_unit((pairs - agree) * per_pair * n)
        return
    position = scale.positions[label]
    # The sum of (v_k - v_l)^2 over ordered pairs of votes.
    squares = 2 * (n * to_task(count * position**2) - to_task(count * position) ** 2)
    out["linear"] += to_unit(paired - 2 * to_task(_apart(task, count, position)) * per_pair)
    out["quadratic"] += to_unit(paired - squares * per_pair)
    if scale.level == "interval":
        out["observed"] += to_unit(squares * per_pair * n)
    else:
        _coincide(out["coincide"], unit[task], task, label, count, per_pair * n)


def _apart(task: Integers, count: Integers, position: Floats) -> Floats:
    """Return for each entry its distance to all votes of its task with a lower position: n_l sum of n_k (v_l - v_k)."""
    first = np.searchsorted(task, task)  # where each entry's task begins
    votes, weight = np.cumsum(count) - count, np.cumsum(count * position) - count * position
    apart: Floats = count * (position * (votes - votes[first]) - (weight - weight[first]))
    return apart


def _coincide(
    out: Floats,
    unit: Integers,
    task: Integers,
    label: Integers,
    count: Integers,
    per_task: Floats,
) -> None:
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


def _shares(sums: Sums) -> Floats:
    return ratio(sums["shares"], sums["tasks"][..., None])


def _gwet_chance(sums: Sums, weight: float) -> Floats:
    """Return weight * sum of p_k (1 - p_k) / (K - 1); NaN with one label, where the figure has no meaning."""
    share = _shares(sums)
    k = share.shape[-1]
    spread = (share * (1 - share)).sum(axis=-1)
    return weight * spread / (k - 1) if k > 1 else np.full(spread.shape, np.nan)


def _ac2(sums: Sums, scale: Scale, name: str, power: int) -> Floats:
    position = scale.positions
    if position.max(initial=0.0) == 0:  # no two labels differ in value
        return np.full(sums["tasks"].shape, np.nan)
    k = len(position)
    # The sum over all pairs of labels of |v_k - v_l|, or of its square.
    apart = 2 * ((2 * np.arange(k) - k + 1) * np.sort(position)).sum() if power == 1 else 2 * k**2 * position.var()
    weight = (k**2 - apart) / k  # the sum of all weights; 1 for each label with itself makes it AC1's
    return beyond_chance(ratio(sums[name], sums["paired"]), _gwet_chance(sums, weight))


def _spread(counts: Floats, position: Floats) -> Floats:
    """Return the sum over ordered pairs of votes of (v_k - v_l)^2, [...]; exactly 0 where all votes have the same position."""
    n = counts.sum(axis=-1)
    spread = 2 * (n * (counts * position**2).sum(axis=-1) - (counts * position).sum(axis=-1) ** 2)
    least = np.where(counts > 0, position, np.inf).min(axis=-1, initial=np.inf)
    most = np.where(counts > 0, position, -np.inf).max(axis=-1, initial=-np.inf)
    differ: Floats = np.where(most > least, spread, 0.0)
    return differ


def _in_text_order(texts: Sequence[str]) -> bool:
    return list(texts) == sorted(texts, key=str.encode)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def _drawn(sums: Sums, weights: Floats) -> Sums:
    """Return the sums of each resample, [resamples, …]."""
    return {name: np.tensordot(weights, array, axes=1) for name, array in sums.items()}
