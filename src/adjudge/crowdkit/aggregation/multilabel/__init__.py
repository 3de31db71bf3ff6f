"""Aggregators of sets of labels."""

from adjudge.crowdkit.aggregation.multilabel.binary_relevance import BinaryRelevance

__all__ = ["BinaryRelevance"]
