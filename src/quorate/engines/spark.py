"""Deprecated: the engine of Spark is `quorate.spark.engine.SparkEngine`."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "SparkEngine":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("quorate.engines.spark is now quorate.spark.engine", DeprecationWarning, stacklevel=2)
    return import_module("quorate.spark.engine").SparkEngine
