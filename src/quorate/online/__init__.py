"""Votes that come one at a time, late, changed or taken back: labels and workers kept up to date, saved and loaded."""

from __future__ import annotations

from quorate.online.reading import EvictedTask, Prediction
from quorate.online.refit import Refit
from quorate.online.settings import KINDS, LASTING, RULES, STREAMED, VERSION, OnlineSettings
from quorate.online.stream import Online

__all__ = ["KINDS", "LASTING", "RULES", "STREAMED", "VERSION", "EvictedTask", "Online", "OnlineSettings", "Prediction", "Refit"]
