"""Random panels of each size, and chosen ones: what their labels are worth.

Accuracy against size is that of random panels, each labelled by the model and measured alike. The best panel of each size, and
for each price, is chosen judge by judge: each time the one with which majority vote is best measured. What a panel that was
chosen so is worth is not what it was chosen by: the best of many looks better than it is. So tasks are dealt into five parts; for
each a panel is chosen by the other four, and its labels, by the model asked for, are measured there. The panel shown is chosen by
all tasks, and the accuracy next to it is that of panels chosen this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.data.fit import effective_votes
from adjudge.data.votes import Votes
from adjudge.evaluation.inputs import subset
from adjudge.evaluation.intervals import Estimate, Flags, Floats, Integers
from adjudge.evaluation.panel import yardstick as measures
from adjudge.evaluation.panel.judges import Counts, answers
from adjudge.evaluation.panel.yardstick import Decider, Yardstick, majority_shares

MIN_PANELS: Final = 3  # of a size, however many votes there are
MAX_CURVE_VOTES_PER_SIZE: Final = 400_000  # that the panels of one size may have together
FIT_WORK: Final = 3_000  # votes that a fit itself costs as much as
TASK_DRAWS: Final = 20  # of other tasks, for each panel of a size
MAX_SIZE: Final = 12  # of a chosen panel
SELECTION_FOLDS: Final = 5
MAX_SELECTION_CELLS: Final = 20_000  # tasks x labels that a choice looks at
MAX_CAPS: Final = 5  # prices that a judge may have at most, where costs differ: panels of cheap judges are chosen, too
THRIFT: Final = 0.01  # accuracy that a judge of mean cost must bring, for panels that spare money


@dataclass(frozen=True)
class CurvePoint:
    """What panels of one size are worth, on average over those drawn."""

    size: int
    panels: int  # drawn
    votes_per_task: float
    accuracy: float
    low: float  # nine of ten panels of this size, on as many other tasks, lie between low and high
    high: float
    shortfall: Estimate  # what such panels fall short of all votes, on average
    agreement: float  # share of labels that are those of all votes
    effective_votes: float  # independent votes per task that they amount to
    cost: float | None  # of one task


@dataclass(frozen=True)
class Chosen:
    """A chosen panel, and what panels chosen the same way are worth on tasks that the choice has not seen."""

    workers: tuple[int, ...]  # codes, in the order in which they were chosen
    accuracy: Estimate
    effective_votes: float
    cost: float | None  # of one task

    @property
    def size(self) -> int:
        """The number of its judges."""
        return len(self.workers)


@dataclass(frozen=True, eq=False)
class Panels:
    """Panels of a crowd: how they are labelled, measured and paid."""

    decider: Decider
    yardstick: Yardstick
    costs: Floats | None  # [workers] of one vote
    seed: int
    step: Callable[[str], None]  # told what is being done

    def points(self, by: str, sizes: Sequence[int], subsets: int, labels: Integers, correlation: float) -> Iterator[CurvePoint]:
        """Yield a point per size, of random panels; the last size is that of all votes.

        A panel is some workers with all their votes (`by` is "judges"), or some votes of each task ("votes"); `subsets` are drawn
        of each size, at most. `labels` are those of all votes, [tasks]; `correlation` is that of the errors of two votes.
        """
        for size in sizes:
            masks = [np.ones(len(self.decider.votes), np.bool_)] if size == sizes[-1] else self._masks(by, size, subsets)
            self.step(f"panels of {size}")
            yield self._point(size, masks, labels, correlation)

    def _masks(self, by: str, size: int, subsets: int) -> list[Flags]:
        """Return random panels of a size, each as the votes that it has, [votes]."""
        votes, rng = self.decider.votes, np.random.default_rng([self.seed, 1, size])
        most = votes.n_workers if by == "judges" else max(int(np.diff(votes.task_ptr).max()), 1)
        each = len(votes) * min(size / most, 1.0) + FIT_WORK
        number = min(subsets, max(int(MAX_CURVE_VOTES_PER_SIZE / each), MIN_PANELS))
        if by == "votes":
            return [measures.thin_votes(votes, size, rng) for _ in range(number)]
        worker = votes.row_worker()[votes.row]
        return [panel[worker] for panel in measures.draw_panels(votes.n_workers, size, number, rng)]

    def _point(self, size: int, masks: list[Flags], labels: Integers, correlation: float) -> CurvePoint:
        votes, yardstick, n = self.decider.votes, self.yardstick, len(self.yardstick)
        whole = yardstick.shares_of(labels)
        mean_shares, right, same, paid, cast, met = np.zeros(whole.shape), [], [], [], [], []
        for mask in masks:
            own = labels if mask.all() else self.decider.labels(mask)
            shares = yardstick.shares_of(own)
            mean_shares += shares / len(masks)
            right.append(float(yardstick.right(shares).mean()))
            same.append(float((own == labels)[yardstick.tasks].mean()))
            per_task = np.add.reduceat(mask, votes.task_ptr[:-1], dtype=np.int64)
            cast.append(float(per_task.mean()))
            met.append(float((per_task**2).sum() / per_task.sum()))
            paid.append(cost_per_task(votes, mask, self.costs) or 0.0)
        panels, rng = np.array(right), np.random.default_rng([self.seed, 2, size])
        worth = max(round(n / max(yardstick.effect(yardstick.right(whole)), 1e-9)), 1)  # independent tasks
        elsewhere = rng.binomial(worth, np.tile(np.clip(panels, 0.0, 1.0), TASK_DRAWS)) / worth
        low, high = np.quantile(elsewhere, (0.05, 0.95))
        mean = float(panels.mean())
        return CurvePoint(
            size=size,
            panels=len(masks),
            votes_per_task=float(np.mean(cast)),
            accuracy=mean,
            low=min(float(low), mean),
            high=max(float(high), mean),
            shortfall=yardstick.gain(whole - mean_shares, panels),
            agreement=float(np.mean(same)),
            effective_votes=float(effective_votes(float(np.mean(met)), correlation)),
            cost=None if self.costs is None else float(np.mean(paid)),
        )

    def choose(self, reference: Integers) -> list[Chosen]:
        """Return the chosen panels by size; where costs differ, cheaper ones among them.

        `reference` are the labels that errors are measured against, [tasks].
        """
        votes, rng = self.decider.votes, np.random.default_rng([self.seed, 5])
        cluster = np.arange(len(self.yardstick)) if self.yardstick.cluster is None else self.yardstick.cluster
        fold = (rng.permutation(int(cluster.max(initial=-1)) + 1) % SELECTION_FOLDS)[cluster]
        seen = np.sort(rng.permutation(len(self.yardstick))[: max(MAX_SELECTION_CELLS // votes.n_labels, SELECTION_FOLDS)])
        given, measure = answers(votes, self.yardstick.tasks[seen]), self.yardstick.of_some(seen)
        known: dict[tuple[int, ...], Floats] = {}
        out: dict[tuple[int, ...], Chosen] = {}
        for rule in self._rules():
            self.step("chosen panels")
            whole = list(self._path(given, measure, np.ones(len(seen), np.bool_), rule))
            parts = [list(self._path(given, measure, fold[seen] != part, rule)) for part in range(SELECTION_FOLDS)]
            for size, panel in enumerate(whole):
                if tuple(sorted(panel)) in out:
                    continue
                right = np.zeros(len(self.yardstick))
                for part in range(SELECTION_FOLDS):
                    right[fold == part] = self._right(parts[part][size], known)[fold == part]
                mask = self._mask(panel)
                share = self.yardstick.interval(right)
                effective = measures.independent_votes(subset(votes, mask), reference)
                out[tuple(sorted(panel))] = Chosen(panel, share, effective, cost_per_task(votes, mask, self.costs))
        return sorted(out.values(), key=lambda one: (one.size, one.cost or 0.0))

    def _rules(self) -> list[Floats]:
        """Return what each judge must bring beyond the others, [workers], by several rules; infinite for one who is too dear."""
        costs = np.zeros(self.decider.votes.n_workers) if self.costs is None else self.costs
        prices = np.unique(costs)
        if len(prices) == 1:
            return [np.zeros(len(costs))]
        caps = np.unique(prices[:-1][np.linspace(0, len(prices) - 2, min(MAX_CAPS, len(prices) - 1)).astype(np.int64)])
        spared = [np.zeros(len(costs)), THRIFT * costs / costs.mean()]
        return [*spared, *(np.where(costs <= cap, 0.0, np.inf) for cap in caps)]

    def _path(self, given: Counts, measure: Yardstick, tasks: Flags, rule: Floats) -> Iterator[tuple[int, ...]]:
        """Yield panels of 1, 2, … judges, each with one more than the one before, chosen by some `tasks`, [seen]."""
        if not tasks.any():  # fewer tasks than parts
            tasks = np.ones_like(tasks)
        given, measure = given[:, tasks], measure.of_some(tasks)
        counts, chosen = np.zeros(given.shape[1:], np.int32), list[int]()
        allowed = set(np.flatnonzero(np.isfinite(rule)).tolist())
        for _ in range(min(len(allowed), MAX_SIZE)):
            left = sorted(allowed - set(chosen))
            score = [float(measure.right(majority_shares(counts + given[judge])).mean()) - rule[judge] for judge in left]
            best = left[int(np.argmax(score))]
            chosen.append(best)
            counts = counts + given[best]
            yield tuple(chosen)

    def _right(self, panel: tuple[int, ...], known: dict[tuple[int, ...], Floats]) -> Floats:
        """Return how likely each label of a panel is right, [judged]; panels that were measured before are `known`."""
        key = tuple(sorted(panel))
        if key not in known:
            known[key] = self.yardstick.right(self.yardstick.shares_of(self.decider.labels(self._mask(panel))))
        return known[key]

    def _mask(self, panel: tuple[int, ...]) -> Flags:
        votes = self.decider.votes
        return np.isin(votes.row_worker(), panel)[votes.row]


def enough(points: Sequence[CurvePoint], within: float) -> int:
    """Return the smallest size from which on panels fall short of all votes by no more than `within`, on average."""
    size = points[-1].size
    for point in reversed(points):
        if point.shortfall > within:
            break
        size = point.size
    return size


def cost_per_task(votes: Votes, mask: Flags, costs: Floats | None) -> float | None:
    """Return what the votes of a mask, [votes], cost per task; None where costs, [workers], are not known."""
    return None if costs is None else float(costs[votes.row_worker()][votes.row][mask].sum()) / votes.n_tasks
