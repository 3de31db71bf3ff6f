"""What the labels mean as measurements: names, an order, or numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.data.vocabulary import Vocabulary
from quorate.errors import InputError, shown

LEVELS: Final = ("nominal", "ordinal", "interval")
MOST_ORDERED: Final = 512  # labels at level ordinal: its observed part is a table of label by label


@dataclass(frozen=True, eq=False)
class Scale:
    """The level of measurement, and the place of every label on it."""

    level: str
    values: NDArray[np.float64]  # [K] ordinal: ranks from 0; interval: the numbers; nominal: all 0, and not used

    @property
    def places(self) -> NDArray[np.float64]:
        """The values stretched to 0 (least) … 1 (most), [K]; all 0 where they do not differ."""
        low = self.values.min(initial=np.inf)
        width = self.values.max(initial=-np.inf) - low
        return (self.values - low) / width if width > 0 else np.zeros(len(self.values))


def scale_of(labels: Vocabulary, level: str) -> Scale:
    """Return the scale of these labels.

    An order is the one the labels were declared in. Labels in plain text order were probably not declared: if all of
    them are numbers, the numbers give the order ("10" after "9").

    >>> scale_of(Vocabulary.of(["1", "10", "9"]), "ordinal").values.tolist()
    [0.0, 2.0, 1.0]
    >>> scale_of(Vocabulary.of(["poor", "fair", "good"]), "ordinal").values.tolist()
    [0.0, 1.0, 2.0]
    """
    k = len(labels)
    if level == "nominal":
        return Scale(level, np.zeros(k))
    texts = labels.texts()
    numbers = [_number(text) for text in texts]
    if level == "interval":
        for text, number in zip(texts, numbers, strict=True):
            if number is None:
                raise InputError(f"level 'interval' needs numbers as labels, but {shown(text)} is none: take level 'ordinal'")
        return Scale(level, np.array(numbers, np.float64))
    if k > MOST_ORDERED:
        raise InputError(f"level 'ordinal' takes at most {MOST_ORDERED} labels, and these votes have {k}: take level 'interval'")
    if None in numbers or not _in_text_order(texts):
        return Scale(level, np.arange(k, dtype=np.float64))
    rank = np.empty(k)
    rank[np.argsort(np.array(numbers, np.float64), kind="stable")] = np.arange(k)
    return Scale(level, rank)


def _in_text_order(texts: Sequence[str]) -> bool:
    return list(texts) == sorted(texts, key=str.encode)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
