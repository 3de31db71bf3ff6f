"""When votes were cast: one number per vote for its time, so that equal times can be found."""

from __future__ import annotations

from typing import Final

import polars as pl

MOMENT_ROLE: Final = "moment"  # as a role: a number for when a vote was cast, 0 if nothing says so
TIMED: Final = "moment {}"  # the role of a column that says when a vote was cast
CLOCK_PATTERN: Final = r"[0-9]:[0-9]{2}|[0-9]{8}T[0-9]{4}"  # a time of day
DATE_PATTERN: Final = r"(^|[^0-9.])[0-9]{4}([^0-9]|$)|[0-9]{1,2}[/.-][0-9]{1,2}[/.-][0-9]{2}|[0-9]{8}T"
EPOCH_PATTERN: Final = r"^[0-9]{9,19}(\.[0-9]+)?$"  # seconds since 1970, or smaller units
MIN_EPOCH: Final = 10**8
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
