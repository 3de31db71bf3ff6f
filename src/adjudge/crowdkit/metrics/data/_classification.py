"""Figures of votes: how sure, how uncertain, how far workers agree."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from adjudge.crowdkit.aggregation.base import BaseClassificationAggregator
from adjudge.crowdkit.aggregation.classification.majority_vote import MajorityVote
from adjudge.crowdkit.frames import Encoded, Floats, encode, pd, series_of

__all__ = ["alpha_krippendorff", "consistency", "uncertainty"]


class MissingColumnError(KeyError, AssertionError):
    """A column is missing: a KeyError as of any frame, an AssertionError as crowd-kit's."""

    def __str__(self) -> str:
        return str(self.args[0])


def binary_distance(one: Hashable, two: Hashable) -> float:
    """Return 0.0 for equal labels, 1.0 for different ones.

    - `one`: a label.
    - `two`: another.
    """
    return 0.0 if one == two else 1.0


def consistency(
    answers: pd.DataFrame,
    workers_skills: pd.Series[Any] | None = None,
    aggregator: BaseClassificationAggregator | None = None,
    by_task: bool = False,
) -> float | pd.Series[Any]:
    """Return the probability of the aggregated labels under their workers' skills: the mean over tasks, or that of each.

    - `answers`: columns task, worker and label.
    - `workers_skills`: the probability that each worker is right, by worker; those of the aggregator if not given.
    - `aggregator`: gives the labels, and the skills; majority vote if not given.
    - `by_task`: whether to return a figure for every task.

    >>> consistency(pd.DataFrame({"task": ["t", "t"], "worker": ["v", "w"], "label": ["x", "x"]}))
    1.0
    """
    votes, aggregator = _checked(answers), MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    skills = _skills(workers_skills, aggregator).reindex(votes.workers.ids).to_numpy("float64")
    if not len(votes):
        return pd.Series(dtype=float) if by_task else float("nan")
    k = len(votes.labels)
    known = ~np.isnan(skills[votes.workers.codes])  # a worker without a skill says nothing
    chances = _chances(votes, skills)
    task = votes.tasks.codes[known]
    # A product per task and label: of magnitudes as sums of logarithms, and of signs, for skills beyond 0 to 1.
    with np.errstate(divide="ignore"):
        logs, below = np.log(np.abs(chances[known])), chances[known] < 0
    size = np.stack([np.bincount(task, logs[:, c], len(votes.tasks)) for c in range(k)], axis=1)
    sign = 1.0 - 2.0 * (np.stack([np.bincount(task, below[:, c], len(votes.tasks)) for c in range(k)], axis=1) % 2)
    best = size.max(axis=1, keepdims=True)
    product = sign * np.exp(size - np.where(np.isfinite(best), best, 0.0))
    chosen = votes.labels.ids.get_indexer(pd.Index(labels.reindex(votes.tasks.ids)))
    with np.errstate(invalid="ignore"):
        found = product[np.arange(len(votes.tasks)), chosen] / product.sum(axis=1)
    by = series_of(found, votes.tasks.ids, name=None, index="task")
    return by if by_task else float(by.mean())


def uncertainty(
    answers: pd.DataFrame,
    workers_skills: pd.Series[Any] | None = None,
    aggregator: BaseClassificationAggregator | None = None,
    compute_by: str = "task",
    aggregate: bool = True,
) -> float | pd.Series[Any]:
    """Return the entropy of the labels of every task, or of every worker, in nats.

    A vote counts its worker's skill for its own label, and the rest in equal parts for the others.

    - `answers`: columns task, worker and label.
    - `workers_skills`: by worker; those of the aggregator if one is given, otherwise 1.
    - `aggregator`: is fitted for its skills, if none are given.
    - `compute_by`: "task" or "worker".
    - `aggregate`: whether to return the mean.

    >>> round(uncertainty(pd.DataFrame({"task": ["t", "t"], "worker": ["v", "w"], "label": ["x", "y"]})), 6)
    0.693147
    """
    votes = _checked(answers)
    if workers_skills is None and aggregator is not None:
        aggregator.fit(answers)
        workers_skills = _skills(None, aggregator)
    if workers_skills is None:
        workers_skills = pd.Series(1.0, index=votes.workers.ids)
    missing = votes.workers.ids[~votes.workers.ids.isin(workers_skills.index)]
    if len(missing):
        raise AssertionError(f"workers_skills has no skill of {len(missing)} workers, as {missing[0]!r}: give all")
    by = {"task": votes.tasks, "worker": votes.workers}.get(compute_by)
    if by is None:
        raise KeyError(compute_by)
    if not len(votes):
        return float("nan") if aggregate else pd.Series(dtype=float)
    chances = _chances(votes, workers_skills.reindex(votes.workers.ids).to_numpy("float64"))
    total = np.stack([np.bincount(by.codes, chances[:, c], len(by)) for c in range(len(votes.labels))], axis=1).astype(np.float64)
    out = series_of(_entropy(total), by.ids, name=None, index=compute_by)
    return float(out.mean()) if aggregate else out


def alpha_krippendorff(answers: pd.DataFrame, distance: Callable[[Hashable, Hashable], float] = binary_distance) -> float:
    """Return Krippendorff's alpha: 1 for perfect agreement, 0 for that of chance.

    - `answers`: columns task, worker and label. Tasks with one vote count nothing.
    - `distance`: of two labels; 0.0 for equal ones and 1.0 for all others, if not given.

    >>> alpha_krippendorff(pd.DataFrame({"task": [1, 1, 2, 2], "worker": [*"vwvw"], "label": [*"xxyy"]}))
    1.0
    """
    votes = _checked(answers)
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


def _checked(answers: pd.DataFrame) -> Encoded:
    """Return the votes; raise where a column is missing."""
    for name in ("task", "worker", "label"):
        if name not in getattr(answers, "columns", [name]):
            raise MissingColumnError(f'There is no "{name}" column in answers')
    return encode(answers)


def _skills(given: pd.Series[Any] | None, aggregator: BaseClassificationAggregator) -> pd.Series[Any]:
    """Return the given skills, or those of a fitted aggregator; raise where it has none."""
    found = getattr(aggregator, "skills_", None) if given is None else given
    if found is None:
        raise AssertionError(f"{type(aggregator).__name__} has no skills of workers: give workers_skills")
    return found


def _chances(votes: Encoded, skills: Floats) -> Floats:
    """Return the chance of every label by each vote, [votes, K]: its worker's skill for its own, equal parts of the rest."""
    n, k = len(votes), len(votes.labels)
    skill = skills[votes.workers.codes]
    out = np.repeat(((1.0 - skill) / max(k - 1, 1))[:, None], k, axis=1)
    out[np.arange(n), votes.labels.codes] = skill
    return out


def _entropy(weights: Floats) -> Floats:
    """Return the entropy of every line, [lines]; -inf where one has a part below 0."""
    total = weights.sum(axis=1, keepdims=True)
    shares = weights / total
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(shares > 0, -shares * np.log(shares), np.where(shares < 0, -np.inf, 0.0))
    out: Floats = terms.sum(axis=1)
    return out
