"""Votes that remain after workers were filtered."""

from adjudge.crowdkit.postprocessing.entropy_threshold import entropy_threshold

__all__ = ["entropy_threshold"]
