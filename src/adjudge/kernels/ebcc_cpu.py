"""The compiled twin of EBCC's reference kernel: the same arguments, the same results; restarts are shared by threads."""

from __future__ import annotations

from typing import Any

from adjudge.kernels.cpu import required
from adjudge.kernels.ebcc_reference import Priors


def ebcc(*votes: Any, priors: Priors, **rest: Any) -> None:
    """Do what `ebcc_reference.ebcc` does."""
    required().ebcc(*votes, **priors._asdict(), **rest)
