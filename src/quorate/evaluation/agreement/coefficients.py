"""The coefficients of whole tasks, as functions of sums over tasks; each works on many resamples at once.

All but Krippendorff's are (observed - chance) / (1 - chance) and differ in what they take for chance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from quorate.evaluation.agreement.scale import Scale
from quorate.evaluation.agreement.sums import Floats, Sums


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
    """Return Gwet's AC2 with weights 1 - |v_k - v_l| / (most - least)."""
    return _ac2(sums, scale, "linear", 1)


def ac2_quadratic(sums: Sums, scale: Scale) -> Floats:
    """Return Gwet's AC2 with weights 1 - ((v_k - v_l) / (most - least))^2."""
    return _ac2(sums, scale, "quadratic", 2)


def alpha(sums: Sums, scale: Scale) -> Floats:
    """Return Krippendorff's alpha (2011), 1 - observed / expected disagreement, on tasks with two votes or more."""
    counts = sums["labels"]  # [..., K]
    n = counts.sum(axis=-1)
    if scale.level == "nominal":
        observed, expected = sums["observed"], n**2 - (counts**2).sum(axis=-1)
    elif scale.level == "interval":
        observed, expected = sums["observed"], _spread(counts, scale.places)
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


def _shares(sums: Sums) -> Floats:
    return ratio(sums["shares"], sums["tasks"][..., None])


def _gwet_chance(sums: Sums, weight: float) -> Floats:
    """Return weight * sum of p_k (1 - p_k) / (K - 1); NaN with one label, where the figure means nothing."""
    share = _shares(sums)
    k = share.shape[-1]
    spread = (share * (1 - share)).sum(axis=-1)
    return weight * spread / (k - 1) if k > 1 else np.full(spread.shape, np.nan)


def _ac2(sums: Sums, scale: Scale, name: str, power: int) -> Floats:
    place = scale.places
    if place.max(initial=0.0) == 0:  # no two labels differ in value
        return np.full(sums["tasks"].shape, np.nan)
    k = len(place)
    # The sum over all pairs of labels of |v_k - v_l|, or of its square.
    apart = 2 * ((2 * np.arange(k) - k + 1) * np.sort(place)).sum() if power == 1 else 2 * k**2 * place.var()
    weight = (k**2 - apart) / k  # the sum of all weights; 1 for each label with itself makes it AC1's
    return beyond_chance(ratio(sums[name], sums["paired"]), _gwet_chance(sums, weight))


def _spread(counts: Floats, place: Floats) -> Floats:
    """Return the sum over ordered pairs of votes of (v_k - v_l)^2, [...]; exactly 0 where all votes are in one place."""
    n = counts.sum(axis=-1)
    spread = 2 * (n * (counts * place**2).sum(axis=-1) - (counts * place).sum(axis=-1) ** 2)
    least = np.where(counts > 0, place, np.inf).min(axis=-1, initial=np.inf)
    most = np.where(counts > 0, place, -np.inf).max(axis=-1, initial=-np.inf)
    differ: Floats = np.where(most > least, spread, 0.0)
    return differ
