"""Which model known labels speak for: the one that is expected to be most accurate, by what is known of models beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from adjudge.evaluation.compare.significance import standard_error

# How much more accurate than "auto" a model is before anything is known of these votes: on the nine public sets of
# docs/can-you-trust-it.md the seven others are 1.1 points below it in the mean, with a spread of 3.0.
PRIOR_MEAN: Final = -0.01
PRIOR_SPREAD: Final = 0.03
CAUTIOUS: Final = ("auto", "mv")  # the first of these that runs is the advice where nothing speaks against it


def cautious_of(names: Mapping[str, object]) -> str:
    """Return the model that is advised where nothing is known: "auto", or majority vote where that did not run.

    >>> cautious_of({"mv": 1, "ds": 2})
    'mv'
    """
    return next(name for name in (*CAUTIOUS, *names) if name in names)


@dataclass(frozen=True)
class Choice:
    """The model that known labels speak for."""

    best: str
    cautious: str
    highest: str  # the model with the highest accuracy
    gains: Mapping[str, float]  # by model: how much more accurate than the cautious one it is expected to be


def choose(right: Mapping[str, NDArray[np.bool_]]) -> Choice:
    """Return the choice; `right` says by model where its labels are right, [n] each on the same tasks.

    The difference of a model from the cautious one is seen with an error, which is large on few tasks. Its expected value
    is the mean of what is seen and what is known beforehand, each weighted by its precision. The model with the highest
    expected value is chosen. On 20 tasks a model must be far ahead for that, on a thousand a little is enough.

    >>> few = {"auto": np.arange(20) < 15, "ds": np.arange(20) < 16}
    >>> many = {"auto": np.arange(2000) < 1500, "ds": np.arange(2000) < 1600}
    >>> choose(few).best, choose(many).best
    ('auto', 'ds')
    """
    cautious = cautious_of(right)
    gains = {name: 0.0 if name == cautious else _expected(right[name], right[cautious]) for name in right}
    best = max(gains, key=lambda name: (gains[name], name == cautious))
    highest = max(right, key=lambda name: (right[name].mean(), name == best))
    return Choice(best, cautious, highest, gains)


def _expected(right: NDArray[np.bool_], cautious: NDArray[np.bool_]) -> float:
    """Return the expected difference in accuracy, of what was seen and of what was known beforehand."""
    ahead, behind, n = int((right & ~cautious).sum()), int((cautious & ~right).sum()), len(right)
    seen, known = standard_error(ahead, behind, n) ** -2, PRIOR_SPREAD**-2
    return ((ahead - behind) / n * seen + PRIOR_MEAN * known) / (seen + known)
