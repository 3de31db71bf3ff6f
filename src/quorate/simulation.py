"""Votes drawn from known confusions: crowds whose truth and whose workers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate import settings
from quorate.settings import Number, Rules

RULES: Final[Rules] = {
    "tasks": Number(least=0, whole=True),
    "workers": Number(least=1, whole=True),
    "labels": Number(least=1, whole=True),
    "votes_per_task": Number(least=1, whole=True),
    "skill": Number(least=0),
    "spammers": Number(least=0),
    "adversaries": Number(least=0),
    "seed": Number(least=0, whole=True),
}


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated crowd: its votes and truth as frames, and the confusion each worker answered by."""

    votes: pl.DataFrame  # task, worker, label
    truth: pl.DataFrame  # task, label
    confusions: NDArray[np.float64]  # [workers, K true, K given]
    worker_names: tuple[str, ...]


def simulate(
    *,
    tasks: int = 1000,
    workers: int = 50,
    labels: int = 3,
    votes_per_task: int = 5,
    skill: float = 0.75,
    spammers: float = 0.0,
    adversaries: float = 0.0,
    confusions: NDArray[np.float64] | None = None,
    worker_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
    label_weights: Sequence[float] | None = None,
    seed: int = 0,
) -> Simulation:
    """Returns votes of workers with known confusions on tasks with known truth.

    `skill` is the mean probability of a right answer; `spammers` and `adversaries` are shares of the workers:
    the former answer without looking, the latter name a wrong label whenever they can. `confusions`,
    [workers, K true, K given], gives every worker instead; `label_weights` makes some labels more frequent.

    >>> import quorate as qr
    >>> crowd = qr.simulate(tasks=100, workers=10, seed=1)
    >>> qr.evaluate(qr.aggregate(crowd.votes), crowd.truth).accuracy > 0.9
    True
    """
    given = dict(locals())
    settings.check(given, RULES)
    rng = np.random.default_rng(seed)
    if confusions is None:
        confusions = _crowd(rng, workers, labels, skill, spammers, adversaries)
    workers, labels = confusions.shape[:2]
    weights = np.ones(labels) if label_weights is None else np.asarray(label_weights, float)
    truth = rng.choice(labels, size=tasks, p=weights / weights.sum())
    panel = min(votes_per_task, workers)
    # Without replacement: the `panel` smallest of a row of random numbers are a random panel.
    voters = np.argpartition(rng.random((tasks, workers)), panel - 1, axis=1)[:, :panel]
    ladder = confusions.cumsum(axis=2)[voters, truth[:, None]]  # [tasks, panel, K]
    choice = (rng.random((tasks, panel, 1)) > ladder).sum(axis=2).clip(max=labels - 1)

    worker_ids = tuple(worker_names or (f"w{n}" for n in range(workers)))
    label_ids = pl.Series(list(label_names or (f"l{n}" for n in range(labels))), dtype=pl.String)
    task_ids = pl.Series([f"t{n}" for n in range(tasks)], dtype=pl.String)
    votes = pl.DataFrame(
        {
            "task": task_ids.gather(np.repeat(np.arange(tasks), panel)),
            "worker": pl.Series(worker_ids, dtype=pl.String).gather(voters.ravel()),
            "label": label_ids.gather(choice.ravel()),
        }
    )
    return Simulation(votes, pl.DataFrame({"task": task_ids, "label": label_ids.gather(truth)}), confusions, worker_ids)


def _crowd(
    rng: np.random.Generator, workers: int, k: int, skill: float, spammers: float, adversaries: float
) -> NDArray[np.float64]:
    """Returns the confusions of a crowd, [workers, K, K]: spammers first, then adversaries, then the rest."""
    confusions = np.stack([_confusion(rng, k, skill) for _ in range(workers)])
    n_spam, n_adverse = round(spammers * workers), round(adversaries * workers)
    confusions[:n_spam] = rng.dirichlet(np.ones(k), n_spam)[:, None, :]
    if k > 1:
        against = (1 - np.eye(k)) / (k - 1) * 0.9 + np.eye(k) * 0.1
        confusions[n_spam : n_spam + n_adverse] = against
    return confusions


def _confusion(rng: np.random.Generator, k: int, skill: float) -> NDArray[np.float64]:
    """Returns one worker's confusion, [K, K]: right with about this skill, errors spread unevenly."""
    right = rng.beta(10 * skill + 1e-9, 10 * (1 - skill) + 1e-9, size=k) if skill < 1 else np.ones(k)
    if k == 1:
        return np.ones((1, 1))
    errors = rng.dirichlet(np.ones(k - 1), size=k) * (1 - right)[:, None]
    matrix = np.zeros((k, k))
    matrix[~np.eye(k, dtype=bool)] = errors.ravel()
    return matrix + np.diag(right)
