"""Garbage on executors: Spark looks for it after every task, which can take longer than the task."""

from __future__ import annotations

import gc
import sys
from functools import cache


@cache
def spare_loaded() -> None:
    """Exempt what this worker process has loaded from collections of garbage, once; on the driver do nothing.

    A Python worker of Spark runs a full collection after each of its tasks. The libraries that it has loaded are some hundred
    thousand objects that never become garbage, and to look at all of them takes tens of milliseconds.
    """
    if "pyspark.worker" in sys.modules:
        gc.collect()
        gc.freeze()
