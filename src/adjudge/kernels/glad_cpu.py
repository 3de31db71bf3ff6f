"""The compiled twins of GLAD's reference kernels: the same arguments, the same results, over threads.

Results do not depend on the number of threads, not even in their last bits.
"""

from __future__ import annotations

from typing import Any

from adjudge.kernels.cpu import check_votes, required
from adjudge.kernels.reference import Sums, check_codes


def expect(*votes_and_model: Any, checked: bool = False, **out: Any) -> Sums:
    """Return what `glad_reference.expect` does."""
    if not checked:
        task_ptr, row, row_worker, row_label, ability, _, log_prior, *_ = votes_and_model
        check_votes(task_ptr, row, len(row_worker), out.get("threads", 1))
        check_codes("row_worker", row_worker, len(ability))
        check_codes("row_label", row_label, len(log_prior))
    log_likelihood, changed = required().glad_expect(*votes_and_model, **out)
    return Sums(log_likelihood, float("nan"), changed, 0)


def gradient(*votes_and_model: Any, checked: bool = False, **out: Any) -> float:
    """Return what `glad_reference.gradient` does."""
    if not checked:
        task_ptr, row, row_worker, ability, *_ = votes_and_model
        check_votes(task_ptr, row, len(row_worker), out.get("threads", 1))
        check_codes("row_worker", row_worker, len(ability))
    value: float = required().glad_gradient(*votes_and_model, **out)
    return value
