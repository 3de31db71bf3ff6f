"""Figures of votes."""

from quorate.crowdkit.metrics.data._classification import alpha_krippendorff, consistency, uncertainty

__all__ = ["alpha_krippendorff", "consistency", "uncertainty"]
