"""Aggregators of comparisons."""

from quorate.crowdkit.aggregation.pairwise.bradley_terry import BradleyTerry
from quorate.crowdkit.aggregation.pairwise.noisy_bt import NoisyBradleyTerry

__all__ = ["BradleyTerry", "NoisyBradleyTerry"]
