"""The manners of a scikit-learn estimator, without scikit-learn: settings by name, copies without what was fitted."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ClassVar, Self

from adjudge.crowdkit.frames import pd


class NotFittedError(ValueError, AttributeError):
    """An aggregator was asked for what only a fitted one knows."""


def not_fitted(estimator: object) -> Exception:
    """Return the error of an aggregator that is not fitted: scikit-learn's own, where a program uses that."""
    text = f"this {type(estimator).__name__} is not fitted: call fit first"
    theirs = sys.modules.get("sklearn.exceptions")
    return NotFittedError(text) if theirs is None else theirs.NotFittedError(text)


class Estimator:
    """Settings are what the constructor takes; what `fit` learns are attributes that end with an underscore."""

    series_names: ClassVar[dict[str, str]] = {
        "labels_": "agg_label",
        "skills_": "skill",
        "priors_": "prior",
        "alphas_": "alpha",
        "betas_": "beta",
        "scores_": "agg_score",
        "biases_": "bias",
    }  # of attributes that are Series

    def __setattr__(self, name: str, value: Any) -> None:
        wanted = self.series_names.get(name)
        if wanted is not None and isinstance(value, pd.Series) and value.name != wanted:
            value = value.rename(wanted)
        super().__setattr__(name, value)

    @classmethod
    def _settings(cls) -> list[str]:
        """Return the names of the settings, in the constructor's order."""
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; `deep` adds those of aggregators among them, as "name__setting"."""
        out = {name: getattr(self, name) for name in self._settings()}
        if deep:
            inner = [(name, value) for name, value in out.items() if isinstance(value, Estimator)]
            out.update({f"{name}__{key}": one for name, value in inner for key, one in value.get_params().items()})
        return out

    def set_params(self, **params: Any) -> Self:
        """Set settings by name, those of an inner aggregator as "name__setting", and return self."""
        valid = self._settings()
        inner: dict[str, dict[str, Any]] = {}
        for key in params:
            if key.partition("__")[0] not in valid:
                raise ValueError(f"Invalid parameter {key!r} for estimator {self!r}. Valid parameters are: {valid}.")
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self._settings())})"

    def _require(self, *attributes: str) -> None:
        """Raise unless all of these attributes were fitted."""
        if any(name not in vars(self) for name in attributes):
            raise not_fitted(self)
