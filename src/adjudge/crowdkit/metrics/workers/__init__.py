"""Figures of workers."""

from adjudge.crowdkit.metrics.workers.accuracy_on_aggregates import accuracy_on_aggregates

__all__ = ["accuracy_on_aggregates"]
