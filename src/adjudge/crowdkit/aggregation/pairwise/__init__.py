"""Aggregators of comparisons."""

from adjudge.crowdkit.aggregation.pairwise.bradley_terry import BradleyTerry
from adjudge.crowdkit.aggregation.pairwise.noisy_bt import NoisyBradleyTerry

__all__ = ["BradleyTerry", "NoisyBradleyTerry"]
