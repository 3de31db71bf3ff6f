"""The weights of votes as they are read: checked, rounded, and made part of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.exact import LOG_UNIT
from adjudge.data.votes import MOST_WEIGHT
from adjudge.errors import InputError, shown
from adjudge.io.dictionary import MISSING
from adjudge.io.ids import WEIGHTS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ONE = round(1 / LOG_UNIT)  # the units of a vote that counts once


def weight_units(weight: pl.Series, label: pl.Series, first_row: int = 0) -> Integers:
    """Return the weight of every vote in units of 2^-40, [votes]; 0 where it has no label.

    Sums of whole units are exact, so that equal weights in another order tie. A weight that is no number from 0 to
    `MOST_WEIGHT` is an error that names its row.

    >>> (weight_units(pl.Series([1.0, 0.5]), pl.Series(["a", "b"])) / ONE).tolist()
    [1.0, 0.5]
    """
    kind = weight.dtype
    if not (kind.is_numeric() or kind in (pl.String, pl.Null)):
        raise InputError(f"the weight column holds {kind}: give numbers")
    number = (_with_points(weight) if kind == pl.String else weight).cast(pl.Float64, strict=False)
    absent = label.is_null()
    bad = ((number.is_null() | ~number.is_between(0, MOST_WEIGHT)).fill_null(True) & ~absent).arg_true()
    if len(bad):
        at = int(bad[0])
        raise InputError(f"weight in row {first_row + at + 1} is {shown(weight[at])}: {WEIGHTS}")
    known = number.set(absent, 0.0).to_numpy()
    return np.rint(known / LOG_UNIT).astype(np.int64)


def _with_points(weight: pl.Series) -> pl.Series:
    """Return numbers as texts with a point before their decimals, where these have a comma; `1,000` may be either, and stays."""
    text = weight.str.strip_chars()
    point = text.str.replace(r"^([0-9]*),([0-9]+)$", "${1}.${2}")
    return text.zip_with(text.str.contains(r"^[1-9][0-9]{0,2},[0-9]{3}$").fill_null(False), point)


def with_weights(label: NDArray[np.uint32], units: Integers) -> tuple[NDArray[np.uint32], Integers, Integers]:
    """Return (the code of every vote's label and weight; the label of each code; its units), in the order of both.

    `label` has the final label of every vote or MISSING, [votes], and `units` the weights.

    >>> codes, of_label, of_units = with_weights(np.array([1, 0, 1, MISSING], np.uint32), np.array([5, 5, 2, 0]))
    >>> codes[:3].tolist(), of_label.tolist(), of_units.tolist()
    ([2, 0, 1], [0, 1, 1], [5, 2, 5])
    """
    given = label != MISSING
    distinct, rank = np.unique(units[given], return_inverse=True)
    cells, code = np.unique(label[given] * np.int64(max(len(distinct), 1)) + rank, return_inverse=True)
    out = np.full(len(label), MISSING)
    out[given] = code
    of_label, of_units = np.divmod(cells, max(len(distinct), 1))
    return out, of_label, distinct[of_units]


def weights_of(units: NDArray[Any]) -> Floats:
    """Return weights as numbers, [n], of units."""
    out: Floats = units * LOG_UNIT
    return out
