"""The best panel of each size, and for each price: chosen judge by judge, and measured on tasks that the choice has not seen.

Judges are added one by one, each time the one with which majority vote is best measured. What a panel that was chosen so is worth
is not what it was chosen by: the best of many looks better than it is. So tasks are dealt into five parts; for each a panel is
chosen by the other four, and its labels, by the model asked for, are measured there. The panel shown is chosen by all tasks, and
the accuracy beside it is that of panels chosen this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from adjudge.data.votes import Votes
from adjudge.evaluation.panel.judges import Counts, answers
from adjudge.evaluation.panel.sampling import Flags, Integers, kept
from adjudge.evaluation.panel.yardstick import (
    Decider,
    Floats,
    Interval,
    Yardstick,
    independent_votes,
    majority_shares,
    share_interval,
)

MAX_SIZE: Final = 12  # of a chosen panel
FOLDS: Final = 5
MAX_CELLS: Final = 20_000  # tasks x labels that a choice looks at
MAX_CAPS: Final = 5  # prices that a judge may have at most, where costs differ: panels of cheap judges are chosen, too
THRIFT: Final = 0.01  # accuracy that a judge of mean cost must bring, for panels that spare money


@dataclass(frozen=True)
class Chosen:
    """A chosen panel, and what panels chosen the same way are worth on tasks that the choice has not seen."""

    workers: tuple[int, ...]  # codes, in the order in which they were chosen
    accuracy: Interval
    effective_votes: float
    cost: float | None  # of one task

    @property
    def size(self) -> int:
        """The number of its judges."""
        return len(self.workers)


@dataclass(frozen=True, eq=False)
class Chooser:
    """What panels are chosen by."""

    decider: Decider
    yardstick: Yardstick
    costs: Floats | None  # [workers] of one vote
    seed: int

    def panels(self, reference: Integers, step: Callable[[str], None]) -> list[Chosen]:
        """Return the chosen panels by size; where costs differ, cheaper ones among them.

        `reference` are the labels that errors are measured against, [tasks].
        """
        votes, rng = self.decider.votes, np.random.default_rng([self.seed, 5])
        fold = rng.permutation(len(self.yardstick)) % FOLDS
        seen = np.sort(rng.permutation(len(self.yardstick))[: max(MAX_CELLS // votes.n_labels, FOLDS)])
        given, measure = answers(votes, self.yardstick.tasks[seen]), self.yardstick.of_some(seen)
        known: dict[tuple[int, ...], Floats] = {}
        out: dict[tuple[int, ...], Chosen] = {}
        for rule in self._rules():
            step("chosen panels")
            whole = list(self._path(given, measure, np.ones(len(seen), np.bool_), rule))
            parts = [list(self._path(given, measure, fold[seen] != part, rule)) for part in range(FOLDS)]
            for size, panel in enumerate(whole):
                if tuple(sorted(panel)) in out:
                    continue
                right = np.zeros(len(self.yardstick))
                for part in range(FOLDS):
                    right[fold == part] = self._right(parts[part][size], known)[fold == part]
                share = share_interval(float(right.mean()), len(right))
                out[tuple(sorted(panel))] = self._chosen(panel, share, reference)
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

    def _chosen(self, panel: tuple[int, ...], share: Interval, reference: Integers) -> Chosen:
        votes, mask = self.decider.votes, self._mask(panel)
        effective = independent_votes(kept(votes, mask), reference)
        return Chosen(panel, share, effective, cost_per_task(votes, mask, self.costs))


def cost_per_task(votes: Votes, mask: Flags, costs: Floats | None) -> float | None:
    """Return what the votes of a mask, [votes], cost per task; None where costs, [workers], are not known."""
    return None if costs is None else float(costs[votes.row_worker()][votes.row][mask].sum()) / votes.n_tasks
