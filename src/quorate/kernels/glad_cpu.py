"""The compiled twins of GLAD's reference kernels: the same arguments, the same results, over threads.

Results do not depend on the number of threads, not even in their last bits.
"""

from __future__ import annotations

from typing import Any

from quorate.kernels.core import required
from quorate.kernels.reference import Sums


def expect(*votes_and_model: Any, **out: Any) -> Sums:
    """Returns what `glad_reference.expect` does."""
    log_likelihood, changed = required().glad_expect(*votes_and_model, **out)
    return Sums(log_likelihood, float("nan"), changed, 0)


def gradient(*votes_and_model: Any, **out: Any) -> float:
    """Returns what `glad_reference.gradient` does."""
    value: float = required().glad_gradient(*votes_and_model, **out)
    return value
