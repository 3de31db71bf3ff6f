"""When votes were cast: the columns that say so, and one number per vote for the time, so that equal ones can be found."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import polars as pl

# Columns that say when a vote was cast, by their last word; whether they hold times of day, their values say.
MOMENT_PATTERN: Final = re.compile(
    r"(.*timestamp|ts|time|datetime|datecreated|"
    r".*(created|creation|submitted|submit|submission|updated|completed|finished|started|start|end|answered|annotated|labeled|"
    r"labelled|voted|vote|judged|rated|reviewed|recorded|logged|received|accept|accepted|event)(at|on|time|datetime))"
)
MOMENT_ROLE: Final = "moment"  # as a role: a number for when a vote was cast, 0 if nothing says so
TIMED: Final = "moment {}"  # the role of a column that says when a vote was cast
CLOCK_PATTERN: Final = r"[0-9]:[0-9]{2}|[0-9]{8}T[0-9]{4}"  # a time of day
DATE_PATTERN: Final = r"(^|[^0-9.])[0-9]{4}([^0-9]|$)|[0-9]{1,2}[/.-][0-9]{1,2}[/.-][0-9]{2}|[0-9]{8}T"
EPOCH_PATTERN: Final = r"^[0-9]{9,19}(\.[0-9]+)?$"  # seconds since 1970, or smaller units
MIN_EPOCH: Final = 10**8
INSPECTED_MOMENTS: Final = 64  # values of a batch that show whether a column holds times


def _letters(name: object) -> str:
    return re.sub("[^a-z0-9]", "", str(name).lower())


def find_moments(columns: Iterable[Any], taken: Iterable[Any] = ()) -> list[Any]:
    """Return columns whose names say when a vote was cast, without those that serve as something else.

    >>> find_moments(["task", "worker", "label", "created_at", "submitTime", "work_time"], ["task", "worker", "label"])
    ['created_at', 'submitTime']
    """
    return [c for c in columns if c not in taken and MOMENT_PATTERN.fullmatch(_letters(c))]


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
