"""The contribution of every vote to a decision, given the current estimates of the workers.

A vote multiplies the odds of the leading label against the runner-up by how much more often its worker gives that answer when
the one is true than when the other is. Honest confidence lets votes count for less than that, as workers may err together: so
what votes add is scaled to the reported odds. Only what no scale between 0 and 1 explains is left as the prior and corrections.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.service.http import views
from adjudge.service.http.loading import Names

if TYPE_CHECKING:
    from adjudge.service.campaigns.state import CampaignState

LEAST: Final = 1e-6  # of a probability: odds are cut there
CARELESS: Final = 0.05  # share of a worker's answers taken as given without looking: one that was never seen rules nothing out


class WeighedVote(NamedTuple):
    """A vote and its contribution."""

    number: int  # of the worker
    worker: str | None  # None: the name was erased
    label: int
    counts: bool
    accuracy: float | None
    adds: float  # log-odds for the leading label against the runner-up
    is_decisive: bool  # without it the runner-up would lead
    factors: NDArray[np.float64]  # log of how likely this answer is, by true label, [K]


class Weighed(NamedTuple):
    """A task, weighed."""

    label: int  # -1 without votes
    runner_up: int
    total: float  # log-odds
    rest: float  # of it: prior and corrections
    votes: list[WeighedVote]  # those that count most first
    probabilities: Sequence[float]

    @property
    def votes_to_flip(self) -> int | None:
        """How many more votes of a typical worker against the label would let the runner-up lead; None if unknown."""
        typical = [abs(vote.adds) for vote in self.votes if vote.counts and abs(vote.adds) > 1e-9]
        if not typical or self.runner_up < 0:
            return None
        return math.floor(max(self.total, 0.0) / float(np.median(typical))) + 1


def weigh(state: CampaignState, names: Names, task: str) -> Weighed:
    """Return what every vote on a task adds."""
    _, answer, _ = views.find_task(state, task)
    likely = np.asarray(answer[4], float)
    ballots = state.ballots(task)
    workers = [state.crowd.all[number] for number, _, _ in ballots]
    if not len(likely) or answer[0] < 0:
        return Weighed(-1, -1, 0.0, 0.0, [], [])
    order = np.argsort(-likely, kind="stable")
    best, second = int(order[0]), int(order[1])
    odds = np.log(np.maximum(likely, LEAST))
    total = float(odds[best] - odds[second])
    votes: list[WeighedVote] = []
    confusions: dict[str, NDArray[np.float64] | None] = {}
    for (number, label, counts), worker, known in zip(ballots, workers, views.accuracies(state, workers), strict=True):
        if worker.text not in confusions:
            confusions[worker.text] = state.online.state.confusion(worker.text) if counts else None
        matrix = confusions[worker.text]
        column = np.full(len(likely), 1.0) if matrix is None or not counts else np.asarray(matrix)[:, label]
        factors = np.log((1 - CARELESS) * column + CARELESS / len(likely))
        adds = float(factors[best] - factors[second])
        votes.append(WeighedVote(number, names.name(number), label, counts, known.mean, adds, False, factors))
    votes.sort(key=lambda vote: (not vote.counts, -abs(vote.adds)))
    said = sum(vote.adds for vote in votes)
    scale = min(total / said, 1.0) if said > 0 else 1.0
    votes = [
        vote._replace(
            adds=scale * vote.adds,
            factors=scale * vote.factors,
            is_decisive=vote.counts and scale * vote.adds >= total > 0,
        )
        for vote in votes
    ]
    return Weighed(best, second, total, total - scale * said, votes, likely.tolist())


def trace(weighed: Weighed, workers: Sequence[int]) -> NDArray[np.float64]:
    """Return the probabilities of all labels before the first vote and after each of them, [votes + 1, K].

    - `workers`: numbers of the workers in the order of their votes.
    """
    by_worker = {vote.number: vote.factors for vote in weighed.votes if vote.counts}
    factors = [by_worker[number] for number in workers if number in by_worker]
    end = np.log(np.maximum(np.asarray(weighed.probabilities), LEAST))
    steps = np.zeros((len(factors) + 1, len(end)))
    steps[0] = end - sum(factors, np.zeros(len(end)))
    for at, factor in enumerate(factors):
        steps[at + 1] = steps[at] + factor
    steps -= steps.max(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.exp(steps)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
