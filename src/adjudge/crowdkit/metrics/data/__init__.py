"""Figures of votes."""

from adjudge.crowdkit.metrics.data._classification import alpha_krippendorff, consistency, uncertainty

__all__ = ["alpha_krippendorff", "consistency", "uncertainty"]
