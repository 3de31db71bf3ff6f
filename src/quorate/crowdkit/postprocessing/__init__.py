"""Votes that remain after workers were filtered."""

from quorate.crowdkit.postprocessing.entropy_threshold import entropy_threshold

__all__ = ["entropy_threshold"]
