"""Aggregators of sets of labels."""

from quorate.crowdkit.aggregation.multilabel.binary_relevance import BinaryRelevance

__all__ = ["BinaryRelevance"]
