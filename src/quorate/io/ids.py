"""Columns of ids as polars series: text, whole numbers or booleans, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.errors import InputError, shown
from quorate.vocabulary import LARGEST, Vocabulary, common_kind

CHUNK = 1 << 20  # texts handled at once, so that copies stay small
DTYPE = {"string": pl.String(), "integer": pl.Int64(), "boolean": pl.Boolean()}


def series_of(values: object, what: str) -> pl.Series:
    """Returns Python values, an array or any column as a series; mixed types are refused, naming the row.

    >>> series_of(["a", None], "label").to_list()
    ['a', None]
    """
    if isinstance(values, pl.Series):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubf":
        return pl.Series(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"the {what} column is {shown(values)}: give a sequence of ids")
    given = [_plain(v) for v in values]
    present = [v for v in given if v is not None]
    if present and all(type(v) in (int, float) for v in present) and any(type(v) is float for v in present):
        return pl.Series(given, dtype=pl.Float64, strict=False)
    # The row is named in the caller's numbering, so kinds are looked for among all values.
    kind = common_kind(present, what) if len(present) == len(given) else _kind_with_missing(given, what)
    try:
        return pl.Series(given, dtype=DTYPE[kind])
    except (UnicodeEncodeError, TypeError) as error:
        raise InputError(f"the {what} column cannot be read as text: {error}") from error


def prepared(series: pl.Series, what: str, first_row: int = 0) -> pl.Series:
    """Returns the series as String, Int64 or Boolean; whole numbers stored as floats become numbers again."""
    dtype = series.dtype
    if dtype in (pl.String, pl.Int64, pl.Boolean):
        return series
    if dtype in (pl.Categorical, pl.Enum) or dtype == pl.Null:
        return series.cast(pl.String)
    if dtype == pl.Object:
        return prepared(series_of(series.to_list(), what), what, first_row)
    if dtype.is_integer():
        largest = series.max()
        if isinstance(largest, int) and largest > LARGEST:
            raise InputError(f"the {what} column holds {largest}, beyond 64 bits: give such ids as text")
        return series.cast(pl.Int64)
    if dtype.is_float():
        return _whole(series, what, first_row)
    raise InputError(f"the {what} column holds {dtype}: give text, whole numbers or booleans")


def vocabulary(series: pl.Series) -> Vocabulary:
    """Returns the vocabulary of a prepared series of distinct ids, without a Python object per id."""
    if series.dtype == pl.String:
        offsets = np.zeros(len(series) + 1, np.int64)
        np.cumsum(series.str.len_bytes().to_numpy(), out=offsets[1:])
        whole = series.str.join("").item() if len(series) else ""
        return Vocabulary("string", np.frombuffer(whole.encode(), np.uint8), offsets)
    values = series.to_numpy().copy()
    return Vocabulary("boolean" if series.dtype == pl.Boolean else "integer", values)


def text_series(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pl.Series:
    """Returns the texts in two flat arrays as a series, without a Python object per text.

    >>> text_series(np.array([0, 1, 1, 3]), np.frombuffer(b"abc", np.uint8)).to_list()
    ['a', '', 'bc']
    """
    seen = np.bincount(data, minlength=128)
    free = next((c for c in range(1, 128) if not seen[c]), None)
    if free is None:  # every ASCII character occurs: no separator is left
        whole, cuts = data.tobytes(), offsets.tolist()
        return pl.Series([whole[a:b].decode() for a, b in itertools.pairwise(cuts)], dtype=pl.String)
    parts = [_split(offsets[n : n + CHUNK + 1], data, free) for n in range(0, len(offsets) - 1, CHUNK)]
    return pl.concat(parts) if parts else pl.Series([], dtype=pl.String)


def _split(offsets: NDArray[np.int64], data: NDArray[np.uint8], separator: int) -> pl.Series:
    """Returns the texts between these offsets: joined by a character that none of them has, and split again."""
    base, n = int(offsets[0]), len(offsets) - 1
    spread = np.full(int(offsets[-1]) - base + n - 1, separator, np.uint8)
    where = np.arange(int(offsets[-1]) - base) + np.repeat(np.arange(n), np.diff(offsets))
    spread[where] = data[base : int(offsets[-1])]
    return pl.Series([spread.tobytes().decode()]).str.split(chr(separator)).explode()


def narrowed(series: pl.Series) -> pl.Series:
    """Returns distinct texts as whole numbers when that loses nothing ("7", but not "007").

    >>> narrowed(pl.Series(["7", "12"])).to_list(), narrowed(pl.Series(["7", "012"])).to_list()
    ([7, 12], ['7', '012'])
    """
    if series.dtype != pl.String or not len(series):
        return series
    numbers = series.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == 0 and (numbers.cast(pl.String) == series).all() else series


def _whole(series: pl.Series, what: str, first_row: int) -> pl.Series:
    series = series.fill_nan(None)
    odd = (series != series.round()) | (series.abs() > 2.0**53)
    at = odd.arg_true()
    if len(at):
        place, value = int(at[0]), series[int(at[0])]
        raise InputError(f"{what} in row {first_row + place + 1} is {value}: give text or whole numbers")
    return series.cast(pl.Int64)


def _plain(value: Any) -> object:
    """Returns a scalar of NumPy as Python's, a string of any subclass as str, and NaN or NA as None."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return str(value)
    missing = value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    return None if missing else value


def _kind_with_missing(given: Sequence[object], what: str) -> Any:
    """Returns the common kind of the values that are there; missing ones take any type."""
    filler = next((v for v in given if v is not None), "")
    return common_kind([filler if v is None else v for v in given], what)
