"""When votes were cast: one number per vote for its time, to find equal times, or to order a worker's votes on a task."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

MOMENT_ROLE: Final = "moment"  # as a role: a number for when a vote was cast, 0 if nothing says so
TIMED: Final = "moment {}"  # the role of a column that says when a vote was cast
CLOCK_PATTERN: Final = r"[0-9]:[0-9]{2}|[0-9]{8}T[0-9]{4}"  # a time of day
DATE_PATTERN: Final = r"(^|[^0-9.])[0-9]{4}([^0-9]|$)|[0-9]{1,2}[/.-][0-9]{1,2}[/.-][0-9]{2}|[0-9]{8}T"
EPOCH_PATTERN: Final = r"^[0-9]{9,19}(\.[0-9]+)?$"  # seconds since 1970, or smaller units
MIN_EPOCH: Final = 10**8
EPOCH_UNITS: Final = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (float("inf"), 1e-3))  # numbers below it, in microseconds
DAY_FIRST: Final = r"^\s*([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})"  # with points the day always comes first
TIME_PATTERN: Final = (
    r"^\s*([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})[T ]+([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"\s*(?:Z|UTC|GMT|([+-])([0-9]{2}):?([0-9]{2}))?\s*$"
)
INSPECTED_MOMENTS: Final = 64  # values of a batch that show whether a column holds times


def number_moments(batch: pl.DataFrame) -> pl.DataFrame:
    """Return a batch with one number per vote for all that its columns say of when; 0 if they hold no times of day."""
    timed = [name for name in batch.columns if name.startswith(TIMED.format(""))]
    known = [name for name in timed if _holds_times(batch[name])]
    if not known:
        return batch.drop(timed)
    every = batch.select(
        pl.struct(known).hash(0).alias(MOMENT_ROLE), pl.all_horizontal(pl.col(known).is_not_null()).alias("is_known")
    )
    moment = every.select(pl.when("is_known").then(pl.col(MOMENT_ROLE) | 1).otherwise(0).alias(MOMENT_ROLE)).to_series()
    return batch.drop(timed).with_columns(moment)


def order_moments(batch: pl.DataFrame) -> tuple[pl.DataFrame, str | None]:
    """Return a batch with the time of each vote in microseconds, 0 if it is unknown, and the role of the column it is from.

    It is the first column that holds times of day; None if there is none.
    """
    timed = [name for name in batch.columns if name.startswith(TIMED.format(""))]
    chosen = next((name for name in timed if _holds_times(batch[name])), None)
    moment = [] if chosen is None else [parse_times(batch[chosen]).alias(MOMENT_ROLE)]
    return batch.drop(timed).with_columns(moment), chosen


def parse_times(values: pl.Series) -> pl.Series:
    """Return times in microseconds since 1970, at least 1; 0 for those whose order is not certain, such as 10/05/2026.

    >>> parse_times(pl.Series(["1970-01-01 00:00", "1970-01-01T01:00:01.5+01:00", "10/05/2026 9:30"])).to_list()
    [1, 1500000, 0]
    """
    if values.dtype == pl.Datetime:
        return values.dt.epoch("us").clip(1, None).fill_null(0).cast(pl.UInt64)
    number = values.cast(pl.Float64, strict=False)
    unit = pl.Series(np.select([number.fill_null(0.0) < end for end, _ in EPOCH_UNITS], [unit for _, unit in EPOCH_UNITS]))
    out = number * unit
    if values.dtype == pl.String:
        part = values.str.replace(DAY_FIRST, "${3}-${2}-${1}").str.extract_groups(TIME_PATTERN).struct.unnest()
        year, month, day, hour, minute, second, fraction, sign, hours, minutes = map(pl.col, part.columns)
        fields = pl.concat_str([year, month, day, hour, minute, second.fill_null("0")], separator=" ")
        known = fields.str.to_datetime("%Y %m %d %H %M %S", strict=False).dt.epoch("us")
        offset = (hours.cast(pl.Int64) * 60 + minutes.cast(pl.Int64)) * pl.when(sign == "-").then(-60).otherwise(60)
        micro = fraction.fill_null("0").str.pad_end(9, "0").cast(pl.Int64) // 1000
        when = part.select((known + micro - offset.fill_null(0) * 1_000_000).cast(pl.Float64)).to_series()
        out = out.zip_with(number.is_not_null(), when)
    return out.clip(1.0, None).fill_null(0.0).cast(pl.UInt64)


def _holds_times(values: pl.Series) -> bool:
    """Return whether a column holds times of day, of some date.

    >>> _holds_times(pl.Series(["2026-05-01 09:30:12"])), _holds_times(pl.Series(["00:35"])), _holds_times(pl.Series([12.5]))
    (True, False, False)
    """
    shown = values.drop_nulls().head(INSPECTED_MOMENTS)
    if not len(shown) or values.dtype == pl.Datetime:
        return len(shown) > 0
    if values.dtype.is_numeric():
        return bool((shown >= MIN_EPOCH).all())
    if values.dtype != pl.String:
        return False
    clock = shown.str.contains(CLOCK_PATTERN) & shown.str.contains(DATE_PATTERN)
    return bool((clock | shown.str.contains(EPOCH_PATTERN)).all())
