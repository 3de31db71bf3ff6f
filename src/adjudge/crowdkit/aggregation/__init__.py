"""Aggregators of labels, sets of labels and comparisons."""

from adjudge.crowdkit.aggregation import base, classification, multilabel, pairwise
from adjudge.crowdkit.aggregation.classification import *  # noqa: F403
from adjudge.crowdkit.aggregation.multilabel import *  # noqa: F403
from adjudge.crowdkit.aggregation.pairwise import *  # noqa: F403

__all__ = ["base"]
__all__ += classification.__all__
__all__ += multilabel.__all__
__all__ += pairwise.__all__
