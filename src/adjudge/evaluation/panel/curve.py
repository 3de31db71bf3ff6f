"""Accuracy against the size of a panel: random panels of each size, each labelled by the model and measured alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.evaluation.panel.sampling import Flags, Integers, drawn_panels, thinned
from adjudge.evaluation.panel.yardstick import Decider, Floats, Interval, Yardstick
from adjudge.results.honest import effective_votes

MIN_PANELS: Final = 3  # of a size, however many votes there are
WORK: Final = 400_000  # votes that the panels of one size may have together; a fit itself costs as much as some thousand
FIT_WORK: Final = 3_000
DRAWS: Final = 20  # of other tasks, for each panel of a size


@dataclass(frozen=True)
class Point:
    """What panels of one size are worth, in the mean over those drawn."""

    size: int
    panels: int  # drawn
    votes_per_task: float
    accuracy: float
    low: float  # nine of ten panels of this size, on as many other tasks, lie between low and high
    high: float
    shortfall: Interval  # what such panels fall short of all votes, in the mean
    agreement: float  # share of labels that are those of all votes
    effective_votes: float  # independent votes per task that they amount to
    cost: float | None  # of one task


@dataclass(frozen=True, eq=False)
class Draws:
    """How panels are drawn and labelled."""

    decider: Decider
    by: str  # "judges": some workers with all their votes; "votes": some votes of each task
    subsets: int  # panels of each size, at most
    seed: int
    costs: Floats | None  # [workers] of one vote

    def points(
        self,
        sizes: Sequence[int],
        yardstick: Yardstick,
        labels: Integers,  # [tasks] of all votes
        correlation: float,  # of the errors of two votes on a task
        step: Callable[[str], None],
    ) -> Iterator[Point]:
        """Yield a point per size; the last size is that of all votes."""
        for size in sizes:
            masks = [np.ones(len(self.decider.votes), np.bool_)] if size == sizes[-1] else self.masks(size)
            step(f"panels of {size}")
            yield self._point(size, masks, yardstick, labels, correlation)

    def masks(self, size: int) -> list[Flags]:
        """Return random panels of a size, each as the votes that it has, [votes]."""
        votes, rng = self.decider.votes, np.random.default_rng([self.seed, 1, size])
        most = votes.n_workers if self.by == "judges" else max(int(np.diff(votes.task_ptr).max()), 1)
        each = len(votes) * min(size / most, 1.0) + FIT_WORK
        number = min(self.subsets, max(int(WORK / each), MIN_PANELS))
        if self.by == "votes":
            return [thinned(votes, size, rng) for _ in range(number)]
        worker = votes.row_worker()[votes.row]
        return [panel[worker] for panel in drawn_panels(votes.n_workers, size, number, rng)]

    def _point(self, size: int, masks: list[Flags], yardstick: Yardstick, labels: Integers, correlation: float) -> Point:
        votes, n = self.decider.votes, len(yardstick)
        whole = yardstick.shares_of(labels)
        mean_shares, right, same, paid, cast, met = np.zeros(whole.shape), [], [], [], [], []
        cost = None if self.costs is None else self.costs[votes.row_worker()][votes.row]
        for mask in masks:
            own = labels if mask.all() else self.decider.labels(mask)
            shares = yardstick.shares_of(own)
            mean_shares += shares / len(masks)
            right.append(float(yardstick.right(shares).mean()))
            same.append(float((own == labels)[yardstick.tasks].mean()))
            per_task = np.add.reduceat(mask, votes.task_ptr[:-1], dtype=np.int64)
            cast.append(float(per_task.mean()))
            met.append(float((per_task**2).sum() / per_task.sum()))
            paid.append(0.0 if cost is None else float(cost[mask].sum()) / votes.n_tasks)
        panels, rng = np.array(right), np.random.default_rng([self.seed, 2, size])
        elsewhere = rng.binomial(n, np.tile(np.clip(panels, 0.0, 1.0), DRAWS)) / n
        low, high = np.quantile(elsewhere, (0.05, 0.95))
        mean = float(panels.mean())
        return Point(
            size=size,
            panels=len(masks),
            votes_per_task=float(np.mean(cast)),
            accuracy=mean,
            low=min(float(low), mean),
            high=max(float(high), mean),
            shortfall=yardstick.gain(whole - mean_shares, panels),
            agreement=float(np.mean(same)),
            effective_votes=float(effective_votes(float(np.mean(met)), correlation)),
            cost=None if cost is None else float(np.mean(paid)),
        )


def enough(points: Sequence[Point], within: float) -> int:
    """Return the smallest size from which on panels fall short of all votes by no more than `within`, in the mean."""
    found = points[-1].size
    for point in reversed(points):
        if point.shortfall.value > within:
            break
        found = point.size
    return found
