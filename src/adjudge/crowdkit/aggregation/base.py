"""Base classes of the aggregators, with scikit-learn's settings protocol but without scikit-learn."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from adjudge.crowdkit.frames import Encoded, Floats, first_best, pd

__all__ = [
    "BaseClassificationAggregator",
    "BaseEmbeddingsAggregator",
    "BaseImageSegmentationAggregator",
    "BasePairwiseAggregator",
    "BaseTextsAggregator",
]


class NotFittedError(ValueError, AttributeError):
    """Raised for predictions of an aggregator that is not fitted."""


@dataclass(eq=False)
class Aggregator:
    """Settings are the constructor's arguments; `fit` sets attributes that end with an underscore."""

    series_names: ClassVar[dict[str, str]] = {
        "labels_": "agg_label",
        "skills_": "skill",
        "priors_": "prior",
        "alphas_": "alpha",
        "betas_": "beta",
        "scores_": "agg_score",
        "biases_": "bias",
    }  # names of fitted Series, by attribute
    output: ClassVar[str] = "labels_"  # what `fit_predict` returns

    def fit(self, data: pd.DataFrame) -> Self:
        """Fit the rows of a frame and return self.

        Parameters
        ----------
        data : DataFrame
            Columns task, worker and label; pairwise aggregators take worker, left, right and label.

        """
        raise NotImplementedError()

    def fit_predict(self, data: pd.DataFrame, *known: Any, **named: Any) -> Any:
        """Fit the rows of a frame and return one label per task, or one score per item.

        Parameters
        ----------
        data, *known, **named : arguments of `fit`
            Passed on to `fit`.

        """
        return getattr(self.fit(data, *known, **named), self.output)

    def __setattr__(self, name: str, value: Any) -> None:
        wanted = self.series_names.get(name)
        if wanted is not None and isinstance(value, pd.Series) and value.name != wanted:
            value = value.rename(wanted)
        super().__setattr__(name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name.

        Parameters
        ----------
        deep : bool, default True
            Whether to add the settings of nested aggregators, as "name__setting".

        """
        out = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        if deep:
            nested = [(name, value) for name, value in out.items() if isinstance(value, Aggregator)]
            out.update({f"{name}__{key}": inner for name, value in nested for key, inner in value.get_params().items()})
        return out

    def set_params(self, **params: Any) -> Self:
        """Change settings and return self.

        Parameters
        ----------
        **params : object
            New values by name; "name__setting" is a setting of a nested aggregator.

        Raises
        ------
        ValueError
            If there is no setting of that name.

        """
        valid = [setting.name for setting in fields(self)]
        for key in params:
            if key.partition("__")[0] not in valid:
                raise ValueError(f"Invalid parameter {key!r} for estimator {self!r}. Valid parameters are: {valid}.")
        for key, value in params.items():
            name, nested, setting = key.partition("__")
            if nested:
                getattr(self, name).set_params(**{setting: value})
            else:
                setattr(self, name, value)
        return self

    def _require_fitted(self, attribute: str) -> None:
        """Raise unless `fit` has set the attribute; the error is scikit-learn's own if the program has loaded it."""
        if attribute not in vars(self):
            sklearn = sys.modules.get("sklearn.exceptions")
            kind = NotFittedError if sklearn is None else sklearn.NotFittedError
            raise kind(f"this {type(self).__name__} is not fitted: call fit first")


class BaseClassificationAggregator(Aggregator):
    """Aggregates frames with the columns task, worker and label; `labels_` has one label per task."""

    # Set by `fit`: every class has `labels_`, and its docstring lists the others.
    labels_: pd.Series[Any]
    probas_: pd.DataFrame
    scores_: pd.DataFrame
    errors_: pd.DataFrame
    skills_: pd.Series[Any]
    priors_: pd.Series[Any]
    alphas_: pd.Series[Any]
    betas_: pd.Series[Any]
    loss_history_: list[float]


class ProbabilityAggregator(BaseClassificationAggregator):
    """An aggregator with a probability or vote share for every task and label."""

    def fit_predict_proba(self, data: pd.DataFrame, *known: Any, **named: Any) -> pd.DataFrame:
        """Fit the votes of a frame and return the probability of every label of every task.

        Parameters
        ----------
        data, *known, **named : arguments of `fit`
            Passed on to `fit`.

        """
        self.fit_predict(data, *known, **named)
        return self.probas_

    def _set_posterior(self, votes: Encoded, posterior: Floats, name: str | None = "label") -> None:
        """Set labels and probabilities from a posterior, [tasks, K]; an empty one gives empty frames."""
        self.probas_ = votes.probabilities(posterior, name) if len(votes) else pd.DataFrame()
        self.labels_ = votes.name_labels(first_best(posterior)) if len(votes) else pd.Series(dtype=float)


class BasePairwiseAggregator(Aggregator):
    """Aggregates frames with the columns worker, left, right and label, the winner; `scores_` has one score per item."""

    output: ClassVar[str] = "scores_"
    scores_: pd.Series[Any]
    skills_: pd.Series[Any]
    biases_: pd.Series[Any]
    loss_history_: list[float]


class BaseTextsAggregator(Aggregator):
    """Base for text aggregators written elsewhere; this package has none."""

    output: ClassVar[str] = "texts_"


class BaseImageSegmentationAggregator(Aggregator):
    """Base for segmentation aggregators written elsewhere; this package has none."""

    output: ClassVar[str] = "segmentations_"


class BaseEmbeddingsAggregator(Aggregator):
    """Base for embedding aggregators written elsewhere; this package has none."""

    output: ClassVar[str] = "embeddings_and_outputs_"
