"""Votes that come one at a time, late, changed or taken back: labels and workers kept up to date, saved and loaded."""

from __future__ import annotations

from adjudge.online.reading import EvictedTask, Prediction
from adjudge.online.refit import Refit
from adjudge.online.settings import KINDS, LASTING, RULES, STREAMED, VERSION, OnlineSettings
from adjudge.online.stream import Online

__all__ = ["KINDS", "LASTING", "RULES", "STREAMED", "VERSION", "EvictedTask", "Online", "OnlineSettings", "Prediction", "Refit"]
