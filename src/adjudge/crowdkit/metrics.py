"""Metrics of votes and of workers, and a filter of votes: crowd-kit's `metrics` and `postprocessing`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, cast

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification import MajorityVote
from adjudge.crowdkit.aggregation.utils import get_accuracy
from adjudge.crowdkit.frames import COLUMNS, Codes, Encoded, Floats, encode, pd

__all__ = ["accuracy_on_aggregates", "alpha_krippendorff", "consistency", "entropy_threshold", "uncertainty"]

_MAJORITY = MajorityVote()  # the default; None means that `aggregates` has the labels


class MissingColumnError(KeyError, AssertionError):
    """A column is missing: a KeyError as of any frame, an AssertionError as crowd-kit's."""

    def __str__(self) -> str:
        return str(self.args[0])


def binary_distance(one: Hashable, two: Hashable) -> float:
    """Return 0.0 for equal labels, 1.0 for different ones.

    Parameters
    ----------
    one : Hashable
        A label.
    two : Hashable
        Another label.

    Returns
    -------
    float
        0.0 for equal labels, 1.0 for different ones.

    """
    return 0.0 if one == two else 1.0


def consistency(
    answers: pd.DataFrame,
    workers_skills: pd.Series[Any] | None = None,
    aggregator: BaseClassificationAggregator | None = None,
    by_task: bool = False,
) -> float | pd.Series[Any]:
    """Return the probability of the aggregated labels given their workers' skills: the mean over tasks, or one per task.

    Parameters
    ----------
    answers : pd.DataFrame
        Columns task, worker and label.
    workers_skills : pd.Series[Any], optional
        The probability that each worker is right, by worker; the aggregator's skills by default.
    aggregator : BaseClassificationAggregator, optional
        Provides the labels and the skills; majority vote by default.
    by_task : bool, default False
        Return one value per task.

    Returns
    -------
    float or pd.Series[Any]
        The probability of the aggregated labels given their workers' skills: the mean over tasks, or one per task.

    Examples
    --------
    >>> consistency(pd.DataFrame({"task": ["t", "t"], "worker": ["v", "w"], "label": ["x", "x"]}))
    1.0

    """
    votes, aggregator = _encode(answers), MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    skills = _skills(workers_skills, aggregator).reindex(votes.workers.ids).to_numpy("float64")
    if not len(votes):
        return pd.Series(dtype=float) if by_task else float("nan")
    chances = _chances(votes, skills)
    chances[np.isnan(skills[votes.workers.codes])] = 1.0  # a worker without a skill tells nothing
    # A product per task and label: of magnitudes as sums of logarithms, and of signs, for skills beyond 0 to 1.
    with np.errstate(divide="ignore"):
        size, negative = _sums(votes.tasks, np.log(np.abs(chances))), _sums(votes.tasks, (chances < 0).astype(np.float64))
    best = size.max(axis=1, keepdims=True)
    product = (1.0 - 2.0 * (negative % 2)) * np.exp(size - np.where(np.isfinite(best), best, 0.0))
    chosen = votes.labels.ids.get_indexer(pd.Index(labels.reindex(votes.tasks.ids)))
    total = product.sum(axis=1)
    found = np.where(total == 0, 0.0, product[np.arange(len(product)), chosen] / np.where(total == 0, 1.0, total))
    by = votes.tasks.series(found, None, "task")
    return by if by_task else float(by.mean())


def uncertainty(
    answers: pd.DataFrame,
    workers_skills: pd.Series[Any] | None = None,
    aggregator: BaseClassificationAggregator | None = None,
    compute_by: str = "task",
    aggregate: bool = True,
) -> float | pd.Series[Any]:
    """Return the entropy of the labels of every task or worker, in nats.

    A vote counts its worker's skill for its own label, and the rest in equal parts for the others.

    Parameters
    ----------
    answers : pd.DataFrame
        Columns task, worker and label.
    workers_skills : pd.Series[Any], optional
        By worker; the aggregator's skills if there is one, otherwise 1.
    aggregator : BaseClassificationAggregator, optional
        Is fitted for its skills if none are given.
    compute_by : str, default "task"
        "task" or "worker".
    aggregate : bool, default True
        Return the mean.

    Returns
    -------
    float or pd.Series[Any]
        The entropy of the labels of every task or worker, in nats.

    Examples
    --------
    >>> round(uncertainty(pd.DataFrame({"task": ["t", "t"], "worker": ["v", "w"], "label": ["x", "y"]})), 6)
    0.693147

    """
    votes = _encode(answers)
    if workers_skills is None and aggregator is not None:
        workers_skills = _skills(None, aggregator.fit(answers))
    if workers_skills is None:
        workers_skills = pd.Series(1.0, index=votes.workers.ids)
    missing = votes.workers.ids[~votes.workers.ids.isin(workers_skills.index)]
    if len(missing):
        raise AssertionError(f"workers_skills lacks {len(missing)} workers, such as {missing[0]!r}: give all of them")
    by = {"task": votes.tasks, "worker": votes.workers}[compute_by]
    if not len(votes):
        return float("nan") if aggregate else pd.Series(dtype=float)
    weights = _sums(by, _chances(votes, workers_skills.reindex(votes.workers.ids).to_numpy("float64")))
    shares = weights / weights.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):  # a skill beyond 0 to 1 may leave a negative share
        terms = np.where(shares > 0, -shares * np.log(shares), np.where(shares < 0, -np.inf, 0.0))
    out = by.series(terms.sum(axis=1), None, compute_by)
    return float(out.mean()) if aggregate else out


def alpha_krippendorff(answers: pd.DataFrame, distance: Callable[[Hashable, Hashable], float] = binary_distance) -> float:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for agreement by chance.

    Parameters
    ----------
    answers : pd.DataFrame
        Columns task, worker and label. Tasks with one vote do not count.
    distance : callable, optional
        Of two labels; 0.0 for equal labels and 1.0 for others by default.

    Returns
    -------
    float
        Krippendorff's alpha: 1 for perfect agreement, 0 for agreement by chance.

    Examples
    --------
    >>> alpha_krippendorff(pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*"vwvw"], "label": [*"xxyy"]}))
    1.0

    """
    votes = _encode(answers)
    if not len(votes):
        raise ValueError("Cannot calculate alpha, no data present!")
    labels = list(votes.labels.ids)
    apart = np.array([[distance(one, two) for two in labels] for one in labels], float)
    counts = votes.scores()
    size = counts.sum(axis=1)
    counts, size = counts[size > 1], size[size > 1]
    number = counts.sum(axis=0)
    if number.sum() == 0:
        return 1.0  # no task has two votes
    observed = float((((counts @ apart) * counts).sum(axis=1) / (size - 1)).sum() / number.sum())
    expected = float(number @ apart @ number / (number.sum() * (number.sum() - 1)))
    return 1.0 if expected == 0 else 1.0 - observed / expected


def _encode(answers: pd.DataFrame) -> Encoded:
    """Return the votes; raise if a column is missing."""
    for name in COLUMNS:
        if name not in getattr(answers, "columns", COLUMNS):
            raise MissingColumnError(f'There is no "{name}" column in answers')
    return encode(answers)


def _skills(given: pd.Series[Any] | None, aggregator: BaseClassificationAggregator) -> pd.Series[Any]:
    """Return the given skills, or those of a fitted aggregator; raise if it has none."""
    found = getattr(aggregator, "skills_", None) if given is None else given
    if found is None:
        raise AssertionError(f"{type(aggregator).__name__} has no skills of workers: give workers_skills")
    return found


def _chances(votes: Encoded, skills: Floats) -> Floats:
    """Return the probability of every label by each vote, [votes, K]: its worker's skill, [workers], for its own label."""
    k, skill = len(votes.labels), skills[votes.workers.codes]
    out = np.repeat(((1.0 - skill) / max(k - 1, 1))[:, None], k, axis=1)
    out[np.arange(len(votes)), votes.labels.codes] = skill
    return out


def _sums(by: Codes, values: Floats) -> Floats:
    """Return the sums of the votes' values, [votes, K], over each task or worker, [ids, K]."""
    return np.stack([np.bincount(by.codes, column, len(by)) for column in values.T], axis=1)


def accuracy_on_aggregates(
    answers: pd.DataFrame,
    aggregator: BaseClassificationAggregator | None = _MAJORITY,
    aggregates: pd.Series[Any] | None = None,
    by: str | None = None,
) -> float | pd.Series[Any]:
    """Return the share of votes that equal the aggregated label of their task.

    Parameters
    ----------
    answers : pd.DataFrame
        Columns task, worker and label.
    aggregator : BaseClassificationAggregator, optional
        Provides the labels unless `aggregates` does; majority vote by default.
    aggregates : pd.Series[Any], optional
        Labels by task.
    by : str, optional
        A column, such as "worker": return a share for each of its values instead of one number.

    Returns
    -------
    float or pd.Series[Any]
        The share of votes that equal the aggregated label of their task.

    Examples
    --------
    >>> accuracy_on_aggregates(pd.DataFrame({"task": [1, 1, 1], "worker": [*"uvw"], "label": [*"xxy"]}), by="worker").to_dict()
    {'u': 1.0, 'v': 1.0, 'w': 0.0}

    """
    if aggregates is None:
        if aggregator is None:
            raise AssertionError("One of aggregator or aggregates should be not None")
        aggregates = (MajorityVote() if aggregator is _MAJORITY else aggregator).fit_predict(answers)
    votes = answers[COLUMNS]
    found: float | pd.Series[Any] = get_accuracy(votes[votes["label"].notna()], aggregates, by=by)
    return found


def entropy_threshold(
    answers: pd.DataFrame, workers_skills: pd.Series[Any] | None = None, percentile: int = 10, min_answers: int = 2
) -> pd.DataFrame:
    """Return the votes without those of workers whose label entropy is at or below a percentile of all workers' entropies.

    Parameters
    ----------
    answers : pd.DataFrame
        Columns task, worker and label.
    workers_skills : pd.Series[Any], optional
        By worker; see `uncertainty`.
    percentile : int, default 10
        0 to 100.
    min_answers : int, default 2
        Workers with fewer votes stay, and do not count for the percentile.

    Returns
    -------
    pd.DataFrame
        The votes without those of workers whose label entropy is at or below a percentile of all workers' entropies.

    Examples
    --------
    >>> votes = pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*"vwvw"], "label": [*"xxyx"]})
    >>> entropy_threshold(votes)["worker"].to_list()
    ['v', 'v']

    """
    number = answers["worker"].value_counts()
    judged = number.index[number >= min_answers]
    of_worker = cast("pd.Series[Any]", uncertainty(answers, workers_skills, compute_by="worker", aggregate=False))
    of_judged = of_worker[of_worker.index.isin(judged)]
    if not len(of_judged):
        return answers
    limit = np.percentile(of_judged.to_numpy("float64"), percentile)
    return answers[~answers["worker"].isin(of_judged.index[of_judged <= limit])]
