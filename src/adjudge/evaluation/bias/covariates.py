"""Columns of tasks as numbers: a number per standard deviation, or a 0 or 1 per value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.evaluation.inputs import TaskValues
from adjudge.evaluation.intervals import Floats

MAX_VALUES: Final = 12  # of a column of words
MIN_VALUE_TASKS: Final = 10  # with a value: rarer ones are one value
RARE: Final = "(rare)"


@dataclass(frozen=True, eq=False)
class Covariate:
    """One effect that is looked for."""

    column: str
    value: str  # "language=de rather than en", or the standard deviation that is one step
    numbers: Floats  # [tasks] NaN if it is not known


def read_covariates(values: TaskValues, by: object) -> list[Covariate]:
    """Return the covariates of columns: names of columns, or a dict name -> what `adj.rates` takes as `by`."""
    named: Mapping[str, Any]
    if isinstance(by, str):
        named = {by: by}
    elif isinstance(by, Mapping):
        named = {str(name): given for name, given in by.items()}
    elif isinstance(by, Sequence) and all(isinstance(name, str) for name in by):
        named = {name: name for name in by}
    else:
        raise OptionError(
            f"by is {quote(by)}: name columns, as by=['length', 'language'], or give a dict name -> {{task: value}}"
        )
    if not named:
        raise OptionError("by names no column: give one, as by=['length']")
    return [one for name, given in named.items() for one in _of_column(name, values.texts(given, "by"))]


def _of_column(name: str, texts: Sequence[str | None]) -> list[Covariate]:
    """Return the covariates of one column, from the text of the value of each task."""
    known = [text for text in texts if text is not None]
    numbers = [_number(text) for text in texts]
    if all(number is not None for number, text in zip(numbers, texts, strict=True) if text is not None) and len(set(known)) > 2:
        column = np.array([np.nan if number is None else number for number in numbers])
        spread = float(np.nanstd(column))
        return [Covariate(name, f"per {spread:.4g}", (column - np.nanmean(column)) / spread)]
    common = {text for text, number in Counter(known).items() if number >= MIN_VALUE_TASKS}
    if len(common) > MAX_VALUES:
        raise InputError(f"by names {quote(name)}, which has {len(common)} values: give numbers, or at most {MAX_VALUES} values")
    words = [None if text is None else text if text in common else RARE for text in texts]
    found = sorted({word for word in words if word is not None})
    if len(found) < 2:
        only = itemize(map(quote, sorted(set(known))), 3)
        raise InputError(
            f"by names {quote(name)}, which does not vary enough: {only}; {MIN_VALUE_TASKS} tasks of two values are needed"
        )
    usual = max(found, key=lambda word: (word != RARE, words.count(word)))
    return [
        Covariate(
            name, f"{word} rather than {usual}", np.array([np.nan if text is None else float(text == word) for text in words])
        )
        for word in found
        if word != usual
    ]


def _number(text: str | None) -> float | None:
    """Return the number that a text is; None for anything else."""
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return None
    return number if number is not None and np.isfinite(number) else None
