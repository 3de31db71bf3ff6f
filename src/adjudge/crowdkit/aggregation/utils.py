"""Helpers of crowd-kit's users: accuracies, normalised rows, skills beside votes, copies of aggregators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.frames import pd

__all__ = [
    "add_skills_to_data",
    "clone_aggregator",
    "evaluate",
    "evaluate_equal",
    "evaluate_in",
    "factorize",
    "get_accuracy",
    "get_most_probable_labels",
    "manage_data",
    "named_series_attrib",
    "normalize_rows",
]

Aggregator = TypeVar("Aggregator", bound=BaseClassificationAggregator)


def clone_aggregator(aggregator: Aggregator) -> Aggregator:
    """Return a new aggregator with the same settings, which is not fitted.

    - `aggregator`: the one to copy.
    """
    return type(aggregator)(**aggregator.get_params(deep=False))


def evaluate_in(row: pd.Series[Any]) -> int:
    """Return 1 if the predicted label is among the true ones, otherwise 0.

    - `row`: has label_pred, and label_true, a collection of labels.

    >>> evaluate_in(pd.Series({"label_pred": "cat", "label_true": ["cat", "dog"]}))
    1
    """
    return int(row["label_pred"] in row["label_true"])


def evaluate_equal(row: pd.Series[Any]) -> int:
    """Return 1 if the predicted label is the true one, otherwise 0.

    - `row`: has label_pred and label_true.
    """
    return int(row["label_pred"] == row["label_true"])


def evaluate(
    df_true: pd.DataFrame, df_pred: pd.DataFrame, evaluate_func: Callable[[pd.Series[Any]], int] = evaluate_in
) -> str | float:
    """Return the share of tasks whose predicted label is right.

    - `df_true`: columns task and label.
    - `df_pred`: columns task and label; a label for every task of `df_true`.
    - `evaluate_func`: says of a row with label_true and label_pred whether the prediction is right, as 1 or 0.
    """
    both = df_true.merge(df_pred, on="task", suffixes=("_true", "_pred"))
    if len(df_true) != len(both):
        raise AssertionError(f"Dataset length mismatch, expected {len(df_true):d}, got {len(both):d}")
    return float(both.apply(evaluate_func, axis=1).mean())


def factorize(data: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the distinct values in sorted order, and the position of every value among them.

    - `data`: an array of values that can be sorted.

    >>> [array.tolist() for array in factorize(np.array(["b", "a", "b"]))]
    [['a', 'b'], [1, 0, 1]]
    """
    unique, codes = np.unique(np.asarray(data), return_inverse=True)
    return unique, codes


def get_most_probable_labels(proba: pd.DataFrame) -> pd.Series[Any]:
    """Return the label of the largest figure of every task; of equal ones the first column's.

    - `proba`: a frame indexed by task with a column per label.
    """
    if not proba.size:
        return pd.Series([], dtype="O")
    return proba.idxmax(axis="columns")


def normalize_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores divided by the sum of their row.

    - `scores`: a frame indexed by task with a column per label.
    """
    return scores.div(scores.sum(axis=1), axis=0)


def manage_data(data: pd.DataFrame, weights: pd.Series[Any] | None = None, skills: pd.Series[Any] | None = None) -> pd.DataFrame:
    """Return the columns task, worker and label of a frame, with the weight of each task and the skill of each worker.

    - `data`: columns task, worker and label.
    - `weights`: by task; 1 if not given.
    - `skills`: by worker; 1 if not given.
    """
    out = data[["task", "worker", "label"]]
    weight = 1 if weights is None else out["task"].map(weights).to_numpy()
    skill = 1 if skills is None else out["worker"].map(skills).to_numpy()
    return out.assign(weight=weight, skill=skill)


def get_accuracy(data: pd.DataFrame, true_labels: pd.Series[Any], by: str | None = None) -> Any:
    """Return the share of votes that are right, among those on tasks whose label is known; repeated rows count once.

    - `data`: columns task, worker and label; and weight, if votes count differently.
    - `true_labels`: labels by task.
    - `by`: a column, as "worker": a share for each of its values. Without it, one number.
    """
    columns = [name for name in ("task", "worker", "label", "weight") if name in data.columns]
    known = data[data["task"].isin(true_labels.index)].drop_duplicates(columns)
    weight = known["weight"] if "weight" in known.columns else pd.Series(1, index=known.index)
    right = weight * (known["label"] == known["task"].map(true_labels))
    if by is None:
        with np.errstate(invalid="ignore"):
            return right.sum() / np.float64(weight.sum())
    group = known[by]
    return right.groupby(group).sum() / weight.groupby(group).sum()


def add_skills_to_data(
    data: pd.DataFrame, skills: pd.Series[Any], on_missing_skill: str, default_skill: float | None
) -> pd.DataFrame:
    """Return a frame with the skill of every vote's worker as the column skill.

    - `data`: columns task, worker and label.
    - `skills`: by worker.
    - `on_missing_skill`: what happens to votes of other workers: "error" raises; "ignore" drops them, and raises if a task is
      left without votes; "value" gives them `default_skill`.
    - `default_skill`: for "value" alone.
    """
    if on_missing_skill != "value" and default_skill is not None:
        raise ValueError('default_skill is used but on_missing_skill is not "value"')
    out = data.assign(skill=data["worker"].map(skills))
    missing = out["skill"].isna()
    if on_missing_skill == "error":
        if missing.any():
            raise ValueError(
                f"Skill value is missing in {int(missing.sum())} assignments: give a skill for every worker, "
                "or use another value of on_missing_skill"
            )
    elif on_missing_skill == "ignore":
        kept = out[~missing]
        lost = out["task"].nunique() - kept["task"].nunique()
        if lost:
            raise ValueError(
                f"{lost} tasks have no workers with known skills: give a skill for a worker of every task, "
                "or use another value of on_missing_skill"
            )
        out = kept.set_index("task").reset_index()  # task is the first column, and rows are numbered again
    elif on_missing_skill == "value":
        if default_skill is None:
            raise ValueError('Default skill value must be specified when using on_missing_skill="value"')
        out.loc[missing, "skill"] = default_skill
    else:
        raise ValueError(f"Unknown option {on_missing_skill!r} of on_missing_skill: give 'error', 'ignore' or 'value'")
    return out


def named_series_attrib(name: str) -> Any:
    """Return an attribute for a class body: a Series that is assigned to it gets this name.

    It is a field of attrs where a program uses attrs, as it must be in their classes; otherwise it is a descriptor.

    - `name`: of the Series.
    """
    attrs = sys.modules.get("attr")
    if attrs is not None:
        return attrs.ib(init=False, on_setattr=lambda *given: given[-1].rename(name))
    return NamedSeries(name)


class NamedSeries:
    """A descriptor that names the Series it is given."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None:
            return self
        try:
            return vars(instance)[self._attribute]
        except KeyError:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self._attribute!r}") from None

    def __set__(self, instance: object, value: pd.Series[Any]) -> None:
        vars(instance)[self._attribute] = value.rename(self._name)
