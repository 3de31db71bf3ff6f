"""Votes that come one at a time, late, changed or taken back: labels and workers kept up to date, saved and loaded."""

from __future__ import annotations

from adjudge.online.reading import CONFIDENCE_CODES, LASTING, RULES, STREAMED, EvictedTask, OnlineSettings, Prediction
from adjudge.online.refit import Refit
from adjudge.online.stream import Online

__all__ = ["CONFIDENCE_CODES", "LASTING", "RULES", "STREAMED", "EvictedTask", "Online", "OnlineSettings", "Prediction", "Refit"]
