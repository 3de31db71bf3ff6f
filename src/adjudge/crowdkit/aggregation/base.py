"""The base classes of the aggregators, by what they take and return."""

from __future__ import annotations

from typing import Any

from adjudge.crowdkit.frames import pd
from adjudge.crowdkit.params import Estimator

__all__ = [
    "BaseClassificationAggregator",
    "BaseEmbeddingsAggregator",
    "BaseImageSegmentationAggregator",
    "BasePairwiseAggregator",
    "BaseTextsAggregator",
]


class BaseClassificationAggregator(Estimator):
    """Aggregates labels: `labels_` is a Series of the label of every task, indexed by task.

    `data` is a frame with the columns task, worker and label.
    """

    labels_: pd.Series[Any]

    def fit(self, data: pd.DataFrame) -> BaseClassificationAggregator:
        """Fit the votes of a frame, and return self."""
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the votes of a frame, and return the label of every task."""
        raise NotImplementedError()


class BasePairwiseAggregator(Estimator):
    """Aggregates comparisons: `scores_` is a Series of the score of every item.

    `data` is a frame with the columns worker, left, right and label, the winner.
    """

    scores_: pd.Series[Any]

    def fit(self, data: pd.DataFrame) -> BasePairwiseAggregator:
        """Fit the comparisons of a frame, and return self."""
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the comparisons of a frame, and return the score of every item."""
        raise NotImplementedError()


class BaseTextsAggregator(Estimator):
    """For aggregators of texts that others write: none of them is here."""

    texts_: pd.Series[Any]

    def fit(self, data: pd.DataFrame) -> BaseTextsAggregator:
        """Fit the texts of a frame, and return self."""
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the texts of a frame, and return the text of every task."""
        raise NotImplementedError()


class BaseImageSegmentationAggregator(Estimator):
    """For aggregators of segmentations that others write: none of them is here."""

    segmentations_: pd.Series[Any]

    def fit(self, data: pd.DataFrame) -> BaseImageSegmentationAggregator:
        """Fit the segmentations of a frame, and return self."""
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame) -> pd.Series[Any]:
        """Fit the segmentations of a frame, and return that of every task."""
        raise NotImplementedError()


class BaseEmbeddingsAggregator(Estimator):
    """For aggregators of embeddings that others write: none of them is here."""

    embeddings_and_outputs_: pd.DataFrame

    def fit(self, data: pd.DataFrame) -> BaseEmbeddingsAggregator:
        """Fit the embeddings of a frame, and return self."""
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit the embeddings of a frame, and return that of every task."""
        raise NotImplementedError()
