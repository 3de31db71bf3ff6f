"""The compiled twins of the passes over numeric scores: the same arguments, the same sums up to their last bits."""

from __future__ import annotations

from typing import Any

from adjudge.kernels.cpu import required
from adjudge.kernels.scores_reference import Floats, ScoreArrays


def score_pass(scores: ScoreArrays, line: Floats, share: Floats | None, **settings: Any) -> None:
    """Do what `scores_reference.score_pass` does."""
    required().score_pass(*scores, line, share, **settings)


def score_agreement(scores: ScoreArrays, line: Floats, share: Floats | None, **settings: Any) -> None:
    """Do what `scores_reference.score_agreement` does."""
    required().score_agreement(*scores, line, share, **settings)
