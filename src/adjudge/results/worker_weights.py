"""Weights of workers from how often they were right: the formulas of weighted majority votes, in a fit and in a merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Weighing = Callable[[Floats], Floats]  # from right votes to weights, [workers] each
LEAST: Final = 1e-6  # goldmv: of a worker who was never right, so that a vote still weighs more than none
NO_LOSS: Final = 0.5  # catd: wrong votes of a worker who has fewer
LENT: Final = 2.0  # la: votes that every worker starts with
LENT_RIGHT: Final = 1.0  # and those of them that are right
AGREEMENT: Final = ("wawa", "zbs", "goldmv")  # a weight is the share of right votes


def weighing(model: str, settings: Mapping[str, Any], total: Floats, labels: int) -> Weighing:
    """Return the function from right votes to weights of a model, [workers] each.

    - `model`: its name; `settings`: its options.
    - `total`: votes of each worker, [workers].
    - `labels`: how many labels there are (K).

    >>> weighing("iwmv", {}, np.array([4.0]), 3)(np.array([3.0])).tolist()
    [1.25]
    >>> weighing("wawa", {}, np.array([4.0]), 3)(np.array([3.0])).tolist()
    [0.75]
    """
    some = np.where(total > 0, total, 1.0)
    if model == "catd":
        from adjudge.results.chi_square import chi_square_quantile

        bound = chi_square_quantile(cast(float, settings["alpha"]) / 2.0, some)
        return lambda right: bound / np.maximum(total - right, NO_LOSS)
    if model == "la":
        return lambda right: labels * (right + LENT_RIGHT) / (total + LENT) - 1.0
    if model == "iwmv":
        return lambda right: labels * right / some - 1.0
    if model in AGREEMENT:
        return lambda right: right / some
    raise ValueError(f"the weights of model {model!r} do not follow from how often workers were right")
