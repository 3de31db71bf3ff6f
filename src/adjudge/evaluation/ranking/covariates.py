"""Covariates of comparisons: which columns have them, and the numbers that add to the log-odds of the left item.

A covariate is a difference between the two sides. It is a column of numbers (left less right), or two columns, one per side
(`length_a`, `length_b`): their difference if they hold numbers, and otherwise one number per category but the commonest: 1 if
the left side alone has it, -1 if the right side alone does. Differences of numbers are divided by their standard deviation.
They are not centred, so that equal sides add nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from adjudge.errors import InputError, OptionError, itemize, list_values, quote
from adjudge.evaluation.intervals import Flags, Floats
from adjudge.io.columns import MAX_LISTED_COLUMNS, SIDES, is_usual, normalize_name

MAX_CATEGORIES: Final = 20  # values of a covariate that holds texts
LEFT_SIDES: Final = ("a", "1", "left", "first", "winner", "chosen")
RIGHT_SIDES: Final = ("b", "2", "right", "second", "loser", "rejected")


@dataclass(frozen=True)
class CovariateColumns:
    """A covariate, and the columns that have it: one of differences, or one per side."""

    name: str
    columns: tuple[str, ...]

    @property
    def roles(self) -> dict[str, str]:
        """The roles under which its columns are read."""
        names = (self.name,) if len(self.columns) == 1 else (f"{self.name} (left)", f"{self.name} (right)")
        return dict(zip((f"covariate {name}" for name in names), self.columns, strict=True))


@dataclass(frozen=True)
class Effect:
    """What a number of a covariate stands for."""

    covariate: str
    value: str | None  # of a category
    against: str | None  # the commonest category, which the others are compared with
    unit: float  # the difference that counts as 1; 1 for a category


def check_names(covariates: str | Sequence[str] | None) -> list[str]:
    """Return the names of covariates, which may be given as one."""
    names = [covariates] if isinstance(covariates, str) else list_values("covariates", covariates or (), "['length']")
    for name in names:
        if not isinstance(name, str) or not normalize_name(name):
            raise OptionError(f"covariates holds {quote(name)}: give names of columns, such as 'length'")
    again = {name for name in names if names.count(name) > 1}
    if again:
        raise OptionError(f"covariates has {quote(min(again))} twice: give each once")
    return names


def find_covariates(names: Sequence[str], columns: Sequence[str], sides: Sequence[str | None]) -> list[CovariateColumns]:
    """Return the columns of covariates; `sides` are the columns of the left and the right item, if known.

    >>> find_covariates(["length", "gap"], ["model_a", "model_b", "length_a", "model_b_length", "gap"], ["model_a", "model_b"])
    [CovariateColumns(name='length', columns=('length_a', 'model_b_length')), CovariateColumns(name='gap', columns=('gap',))]
    """
    out = []
    for name in names:
        if name in columns:
            out.append(CovariateColumns(name, (name,)))
            continue
        base, pair = normalize_name(name), []
        for words, side in zip((LEFT_SIDES, RIGHT_SIDES), sides, strict=True):
            known = {*words, *(thing + word for thing in SIDES.split() for word in words[:2]), normalize_name(side or "")} - {""}
            accepted = {base + word for word in known} | {word + base for word in known}
            pair.append(
                [c for c in columns if normalize_name(c) in accepted and not (is_usual(c, "left") or is_usual(c, "right"))]
            )
        if not all(len(some) == 1 for some in pair):
            several = itemize(map(quote, [*pair[0], *pair[1]]), 6)
            found = f"there are several: {several}" if any(len(some) > 1 for some in pair) else "there are none"
            raise InputError(
                f"covariate {quote(name)} needs a column of that name with the difference (left less right), or one per side, "
                f"such as {quote(f'{name}_a')} and {quote(f'{name}_b')}; {found}; the columns are: "
                f"{itemize(columns, MAX_LISTED_COLUMNS)}"
            )
        out.append(CovariateColumns(name, (pair[0][0], pair[1][0])))
    return out


def encode_covariates(found: Sequence[CovariateColumns], table: pl.DataFrame, kept: Flags) -> tuple[Floats, tuple[Effect, ...]]:
    """Return the numbers of the comparisons that are kept, [comparisons, effects], and what each stands for.

    `table` has the columns of all comparisons by their roles, and `kept` says which have a winner.
    """
    columns: list[Floats] = []
    effects: list[Effect] = []
    for covariate in found:
        given = [table[role] for role in covariate.roles]
        numbers = [values for values in map(_numbers, given) if values is not None]
        if len(numbers) == len(given):
            sides = [_require_finite(*pair, kept) for pair in zip(given, numbers, strict=True)]
            difference = sides[0] - (sides[1] if len(sides) > 1 else 0.0)
            unit = float(difference.std()) if len(difference) else 0.0
            if unit <= 1e-12 * float(np.abs(difference).max(initial=0.0)):
                raise InputError(
                    f"covariate {quote(covariate.name)} has the same difference in every comparison, so its effect cannot be "
                    "told: leave it out"
                )
            columns.append(difference / unit)
            effects.append(Effect(covariate.name, None, None, unit))
            continue
        if len(given) == 1:
            raise InputError(
                f"covariate {quote(covariate.name)} holds texts, and one per comparison: what both sides share favours neither; "
                f"give numbers (left less right), or one column per side, such as {quote(f'{covariate.name}_a')} and "
                f"{quote(f'{covariate.name}_b')}"
            )
        own = _dummies(covariate.name, given, kept)
        columns += [values for _, values in own]
        effects += [effect for effect, _ in own]
    return np.stack(columns, axis=1), tuple(effects)


def _numbers(series: pl.Series) -> Floats | None:
    """Return a column as numbers, NaN where nothing is given; None if it holds anything else."""
    if series.dtype.is_numeric():
        return series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if series.dtype != pl.String:
        return None
    text = series.str.strip_chars().replace("", None)
    numbers = text.cast(pl.Float64, strict=False)
    return numbers.fill_null(np.nan).to_numpy() if numbers.null_count() == text.null_count() < len(text) else None


def _require_finite(series: pl.Series, values: Floats, kept: Flags) -> Floats:
    """Return the values of comparisons with a winner; one that is missing or infinite is an error that names its row."""
    bad = np.flatnonzero(~np.isfinite(values) & kept)
    if len(bad):
        row = int(bad[0])
        what = "missing" if series[row] is None or np.isnan(values[row]) else quote(series[row])
        raise InputError(f"{series.name} in row {row + 1} is {what}: give a number for each comparison, or leave such lines out")
    return values[kept]


def _dummies(name: str, given: Sequence[pl.Series], kept: Flags) -> list[tuple[Effect, Floats]]:
    """Return a number per category but the commonest: 1 where the left side alone has it, -1 where the right side alone does."""
    texts = []
    for series in given:
        text = series.cast(pl.String).str.strip_chars().replace("", None)
        bad = np.flatnonzero(text.is_null().to_numpy() & kept)
        if len(bad):
            raise InputError(
                f"{series.name} in row {int(bad[0]) + 1} is missing: give a value for each comparison, or leave such lines out"
            )
        texts.append(text.filter(pl.Series(kept)).alias("value"))
    counts = pl.concat(texts).value_counts().sort("count", "value", descending=[True, False])
    values = counts["value"].to_list()
    if len(values) > MAX_CATEGORIES:
        raise InputError(
            f"covariate {quote(name)} has {len(values)} different values, {MAX_CATEGORIES} at most can be compared: "
            "give numbers, or fewer categories"
        )
    out = []
    for value in values[1:]:
        left, right = ((text == value).to_numpy().astype(np.float64) for text in texts)
        if (left != right).any():  # else no comparison tells its effect
            out.append((Effect(name, value, values[0], 1.0), left - right))
    if not out:
        raise InputError(
            f"covariate {quote(name)} is the same on both sides of every comparison, so that it favours neither: leave it out"
        )
    return out


def columns_by_role(found: Sequence[CovariateColumns]) -> dict[str, str]:
    """Return the columns of all covariates by their roles."""
    return {role: column for covariate in found for role, column in covariate.roles.items()}
