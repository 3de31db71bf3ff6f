"""crowd-kit's helper functions: accuracies, normalised rows, skills joined to votes, copies of aggregators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.frames import COLUMNS, Encoded, Floats, encode, keep_labelled, pd

AnyAggregator = TypeVar("AnyAggregator", bound=BaseClassificationAggregator)


def clone_aggregator(aggregator: AnyAggregator) -> AnyAggregator:
    """Return an unfitted copy of an aggregator.

    Parameters
    ----------
    aggregator : AnyAggregator
        The aggregator to copy.

    Returns
    -------
    AnyAggregator
        An unfitted copy of an aggregator.

    """
    return type(aggregator)(**aggregator.get_params(deep=False))


def evaluate_in(row: pd.Series[Any]) -> int:
    """Return 1 if the predicted label is one of the true labels, otherwise 0.

    Parameters
    ----------
    row : pd.Series[Any]
        Has `label_pred` and `label_true`, a collection of labels.

    Returns
    -------
    int
        1 if the predicted label is one of the true labels, otherwise 0.

    Examples
    --------
    >>> evaluate_in(pd.Series({"label_pred": "cat", "label_true": ["cat", "dog"]}))
    1

    """
    return int(row["label_pred"] in row["label_true"])


def evaluate_equal(row: pd.Series[Any]) -> int:
    """Return 1 if the predicted label is the true label, otherwise 0.

    Parameters
    ----------
    row : pd.Series[Any]
        Has `label_pred` and `label_true`.

    Returns
    -------
    int
        1 if the predicted label is the true label, otherwise 0.

    """
    return int(row["label_pred"] == row["label_true"])


def evaluate(
    df_true: pd.DataFrame, df_pred: pd.DataFrame, evaluate_func: Callable[[pd.Series[Any]], int] = evaluate_in
) -> str | float:
    """Return the share of tasks whose predicted label is right.

    Parameters
    ----------
    df_true : pd.DataFrame
        Columns task and label.
    df_pred : pd.DataFrame
        Columns task and label; needs a label for every task of `df_true`.
    evaluate_func : callable, optional
        Returns 1 or 0 for a row with `label_true` and `label_pred`.

    Returns
    -------
    str or float
        The share of tasks whose predicted label is right.

    """
    both = df_true.merge(df_pred, on="task", suffixes=("_true", "_pred"))
    if len(df_true) != len(both):
        raise AssertionError(f"Dataset length mismatch, expected {len(df_true):d}, got {len(both):d}")
    return float(both.apply(evaluate_func, axis=1).mean())


def factorize(data: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the sorted distinct values, and the position of every value among them.

    Parameters
    ----------
    data : NDArray[Any]
        An array of values that can be sorted.

    Returns
    -------
    tuple[NDArray[Any], NDArray[Any]]
        The sorted distinct values, and the position of every value among them.

    Examples
    --------
    >>> [array.tolist() for array in factorize(np.array(["b", "a", "b"]))]
    [['a', 'b'], [1, 0, 1]]

    """
    unique, codes = np.unique(np.asarray(data), return_inverse=True)
    return unique, codes


def get_most_probable_labels(proba: pd.DataFrame) -> pd.Series[Any]:
    """Return the label with the largest value of every task; the first column wins ties.

    Parameters
    ----------
    proba : pd.DataFrame
        A frame indexed by task with a column per label.

    Returns
    -------
    pd.Series[Any]
        The label with the largest value of every task; the first column wins ties.

    """
    if not proba.size:
        return pd.Series([], dtype="O")
    return proba.idxmax(axis="columns")


def normalize_rows(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores divided by the sum of their row.

    Parameters
    ----------
    scores : pd.DataFrame
        A frame indexed by task with a column per label.

    Returns
    -------
    pd.DataFrame
        The scores divided by the sum of their row.

    """
    return scores.div(scores.sum(axis=1), axis=0)


def manage_data(data: pd.DataFrame, weights: pd.Series[Any] | None = None, skills: pd.Series[Any] | None = None) -> pd.DataFrame:
    """Return the columns task, worker and label of a frame, with each task's weight and each worker's skill.

    Parameters
    ----------
    data : pd.DataFrame
        Columns task, worker and label.
    weights : pd.Series[Any], optional
        By task; 1 by default.
    skills : pd.Series[Any], optional
        By worker; 1 by default.

    Returns
    -------
    pd.DataFrame
        The columns task, worker and label of a frame, with each task's weight and each worker's skill.

    """
    out = data[COLUMNS]
    weight = 1 if weights is None else out["task"].map(weights).to_numpy()
    skill = 1 if skills is None else out["worker"].map(skills).to_numpy()
    return out.assign(weight=weight, skill=skill)


def get_accuracy(data: pd.DataFrame, true_labels: pd.Series[Any], by: str | None = None) -> Any:
    """Return the share of right votes on tasks whose true label is known; repeated rows count once.

    Parameters
    ----------
    data : pd.DataFrame
        Columns task, worker and label, and optionally weight.
    true_labels : pd.Series[Any]
        True labels by task. A task may have several: each of them is right.
    by : str, optional
        A column, such as "worker", or "true_label": return a share for each of its values instead of one number.

    Returns
    -------
    Any
        The share of right votes on tasks whose true label is known; repeated rows count once.

    """
    columns = [name for name in (*COLUMNS, "weight") if name in data.columns]
    known = data[data["task"].isin(true_labels.index)].drop_duplicates(columns)
    known = known.assign(true_label=known["task"].map(true_labels[~true_labels.index.duplicated()]))
    weight = known["weight"].rename(None) if "weight" in known.columns else pd.Series(1, index=known.index)
    pairs = pd.MultiIndex.from_arrays([true_labels.index, true_labels])
    right = weight * pd.MultiIndex.from_arrays([known["task"], known["label"]]).isin(pairs)
    if by is None:
        with np.errstate(invalid="ignore"):
            return right.sum() / np.float64(weight.sum())
    return right.groupby(known[by]).sum() / weight.groupby(known[by]).sum()


def add_skills_to_data(
    data: pd.DataFrame, skills: pd.Series[Any], on_missing_skill: str, default_skill: float | None
) -> pd.DataFrame:
    """Return a frame with the skill of every vote's worker in the column skill.

    Parameters
    ----------
    data : pd.DataFrame
        Columns task, worker and label.
    skills : pd.Series[Any]
        By worker.
    on_missing_skill : str
        What to do with votes of other workers: "error" raises; "ignore" drops them and raises if a task loses all its votes;
        "value" uses `default_skill`.
    default_skill : float
        Only for "value".

    Returns
    -------
    pd.DataFrame
        A frame with the skill of every vote's worker in the column skill.

    """
    if on_missing_skill not in ("error", "ignore", "value"):
        raise ValueError(f"Unknown option {on_missing_skill!r} of on_missing_skill: give 'error', 'ignore' or 'value'")
    if on_missing_skill != "value" and default_skill is not None:
        raise ValueError('default_skill is used but on_missing_skill is not "value"')
    if on_missing_skill == "value" and default_skill is None:
        raise ValueError('Default skill value must be specified when using on_missing_skill="value"')
    out = data.assign(skill=data["worker"].map(skills))
    missing = out["skill"].isna()
    if on_missing_skill == "value":
        out.loc[missing, "skill"] = default_skill
        return out
    if on_missing_skill == "error" and missing.any():
        raise ValueError(
            f"Skill value is missing in {int(missing.sum())} assignments: give a skill for every worker, "
            "or use another value of on_missing_skill"
        )
    lost = out["task"].nunique() - out.loc[~missing, "task"].nunique()
    if lost:
        raise ValueError(
            f"{lost} tasks have no workers with known skills: give a skill for a worker of every task, "
            "or use another value of on_missing_skill"
        )
    return out[~missing].reset_index(drop=True) if on_missing_skill == "ignore" else out


def named_series_attrib(name: str) -> Any:
    """Return an attribute for a class body that renames every Series assigned to it.

    Parameters
    ----------
    name : str
        The name of the Series.

    Returns
    -------
    Any
        An attribute for a class body that renames every Series assigned to it.

    """
    slot = f"_series_{name}"
    return property(lambda self: getattr(self, slot), lambda self, value: setattr(self, slot, value.rename(name)))


def weigh_votes(
    data: pd.DataFrame, skills: pd.Series[Any] | None, on_missing_skill: str = "error", default_skill: float | None = None
) -> tuple[Encoded, Floats | None]:
    """Return the votes of a frame and the weight of each vote, or None without skills.

    Parameters
    ----------
    data : DataFrame
        Columns task, worker and label.
    skills : Series, optional
        Vote weights by worker.
    on_missing_skill, default_skill : as for `MajorityVote`
        What to do with votes of workers without a skill.

    """
    if skills is None:
        return encode(data), None
    with_skill = add_skills_to_data(keep_labelled(data), skills, on_missing_skill, default_skill)
    return encode(with_skill), with_skill["skill"].to_numpy("float64")
