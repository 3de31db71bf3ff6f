"""Sums that do not depend on the order of their terms.

Numbers that are multiples of a power of two, a *unit*, add without rounding while the sum has no more than 53 bits. So
log-probabilities are rounded to multiples of `LOG_UNIT`, and soft shares are counted in units small enough for 53 bits.
In a symmetric crowd only rounding could break a tie, and expectation-maximisation would turn it into a certain label
within a few dozen passes: exact sums keep the symmetry, regardless of names and the order of rows.

The part of a share below the unit must not be lost: "hardly ever" is not "never", and a worker who hardly ever met a
label is judged by such shares alone. So a share is written in digits: multiples of u, u^2, u^3 and so on, where u is the
unit. *Coarse* sums, for many votes, have the leading digit of each share. *Fine* ones are two sums, of the two leading
digits; those of odd powers go to one sum, those of even powers to the other. Digits of lower powers are scaled up so far
that higher ones vanish next to them: in the end a sum holds the digits of the lowest power that any share has.
So fine sums are correct to as many bits as a unit has, regardless of the size of the shares.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LOG_UNIT = 2.0**-40  # log-probabilities are multiples of this; no unit is smaller
MOST_DIGITS, COARSE_DIGITS = 36, 10
LIFT = 2.0**200  # powers of a unit may be too small for a number: digits are taken of shares times this
FINE, COARSE = 2.0**864, 2.0**400  # by which digits of the first power are scaled


def unit_below(most: int) -> float:
    """Return the unit in which `most` numbers of at most 1 add up exactly.

    >>> unit_below(4) == 2.0**-49
    True
    """
    return math.ldexp(1.0, int(most).bit_length() - 52)


def round_to_unit(x: Floats, unit: float) -> Floats:
    """Return x rounded to whole units.

    >>> round_to_unit(np.array([0.3, -np.inf]), 0.25).tolist()
    [0.25, -inf]
    """
    out: Floats = np.rint(x * (1.0 / unit)) * unit
    return out


def encode_coarse(shares: Floats, unit: float) -> Floats:
    """Return shares in the scale of one sum."""
    out, lifted, missing = np.zeros_like(shares), shares * LIFT, shares > 0
    for power, scale in zip(_powers(unit), _coarse_scales(), strict=False):
        digit = round_to_unit(np.where(missing, lifted, 0.0), math.ldexp(LIFT, power))
        out += digit * (scale / LIFT)
        missing &= digit == 0
        if not missing.any():
            break
    return out


def decode_coarse(sums: Floats, unit: float) -> Floats:
    """Return coarse sums brought back to scale.

    >>> decode_coarse(encode_coarse(np.array([0.5, 2.0**-90]), LOG_UNIT), LOG_UNIT).tolist() == [0.5, 2.0**-90]
    True
    """
    return _restore(sums, _powers(unit), _coarse_scales())


def encode_fine(shares: Floats, unit: float) -> tuple[Floats, Floats]:
    """Return shares in the scale of two sums."""
    powers, scales = _powers(unit), _fine_scales()
    out, lifted, missing = (np.zeros_like(shares), np.zeros_like(shares)), shares * LIFT, shares > 0
    for i, power in enumerate(powers):
        digit = round_to_unit(np.where(missing, lifted, 0.0), math.ldexp(LIFT, power))
        found = digit > 0
        out[i % 2][found] = digit[found] * (scales[i] / LIFT)
        if i + 1 < len(powers):
            left = round_to_unit(lifted[found] - digit[found], math.ldexp(LIFT, powers[i + 1]))
            out[1 - i % 2][found] = left * (scales[i + 1] / LIFT)
        missing &= ~found
        if not missing.any():
            break
    return out


def decode_fine(first: Floats, second: Floats, unit: float) -> Floats:
    """Return fine sums brought back to scale.

    >>> decode_fine(*encode_fine(np.array([0.3, 1e-30, 1e-320, 0.0]), LOG_UNIT), LOG_UNIT).tolist()
    [0.3, 1e-30, 1e-320, 0.0]
    """
    powers, scales = _powers(unit), _fine_scales()
    return _restore(first, powers[::2], scales[::2]) + _restore(second, powers[1::2], scales[1::2])


def _restore(sums: Floats, powers: list[int], scales: list[float]) -> Floats:
    """Return sums of scaled digits; the size of a sum shows its power: at least half of that power's scaled unit."""
    out, missing = np.zeros_like(sums), sums != 0
    for power, scale in zip(powers, scales, strict=False):
        found = missing & (np.abs(sums) >= math.ldexp(0.5 * scale, power))
        out[found] = sums[found] / scale
        missing &= ~found
        if not missing.any():
            break
    return out


def _powers(unit: float) -> list[int]:
    """Return the powers of the unit for which a number can have digits, as powers of two."""
    bits = 1 - math.frexp(unit)[1]
    return [-power * bits for power in range(1, MOST_DIGITS + 1) if power * bits < 1074 + bits]


def _fine_scales() -> list[float]:
    return [FINE * 2.0 ** (-48 * (i // 2)) for i in range(MOST_DIGITS)]


def _coarse_scales() -> list[float]:
    return [COARSE * 2.0 ** (-88 * i) for i in range(COARSE_DIGITS)]


def sums_of(values: Floats, starts: NDArray[np.int64]) -> Floats:
    """Return the sum of the lines from each start to the next, [starts, …], of something given by line, [lines, …].

    Whole units and remainders are added separately, so the result does not depend on the order of the lines.

    >>> sums_of(np.array([0.1, 0.2, 0.3, 5.0]), np.array([0, 3])).tolist()
    [0.6, 5.0]
    >>> sums_of(np.array([0.3, 0.2, 0.1, 5.0]), np.array([0, 3])).tolist()
    [0.6, 5.0]
    """
    if not len(starts):
        return np.zeros((0, *values.shape[1:]))
    largest = int(np.abs(values).max(initial=0.0)) + 1
    units = round_to_unit(values, math.ldexp(unit_below(largest), len(values).bit_length()))
    out: Floats = np.add.reduceat(units, starts, axis=0) + np.add.reduceat(values - units, starts, axis=0)
    return out


def sum_of(values: Floats) -> float:
    """Return the sum of a few numbers, rounded once.

    >>> sum_of(np.array([0.1, 0.2, 0.3])), sum_of(np.array([0.3, 0.2, 0.1]))
    (0.6, 0.6)
    """
    return math.fsum(values.tolist())


def round_to_units(values: Floats) -> Floats:
    """Return numbers rounded so that any subset adds up exactly in any order: to `LOG_UNIT`, or coarser if necessary.

    >>> round_to_units(np.array([1.0, 0.1])).tolist()[0]
    1.0
    """
    total = float(np.abs(values).sum())
    return round_to_unit(values, max(LOG_UNIT, unit_below(int(total) + 1)))
