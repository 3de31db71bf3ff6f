"""A figure with its interval."""

from __future__ import annotations

import math


class Estimate(float):
    """A number that knows the interval it lies in; elsewhere it is a plain float.

    >>> e = Estimate(0.75, 0.46, 0.93)
    >>> e + 1, e.low, e.high
    (1.75, 0.46, 0.93)
    >>> e
    0.75 [0.46, 0.93]
    """

    low: float
    high: float

    def __new__(cls, value: float, low: float = math.nan, high: float = math.nan) -> Estimate:
        """Returns the number; NaN stands for what is not known."""
        made = super().__new__(cls, value)
        made.low, made.high = float(low), float(high)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        return float(self), self.low, self.high

    def __repr__(self) -> str:
        return f"{float(self):.4g} [{self.low:.4g}, {self.high:.4g}]"

    def summary(self) -> dict[str, float | None]:
        """Returns value, low and high as plain numbers, None for what is not known.

        >>> Estimate(0.5).summary()
        {'value': 0.5, 'low': None, 'high': None}
        """
        return {"value": known(float(self)), "low": known(self.low), "high": known(self.high)}


def known(value: float) -> float | None:
    """Returns a number as JSON knows it: None in the place of NaN."""
    return None if math.isnan(value) else value
