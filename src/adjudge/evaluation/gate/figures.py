"""The figures of votes that a requirement is about, each with its interval, and how much more would narrow it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from adjudge.data.options import ModelName
from adjudge.data.votes import Votes
from adjudge.errors import InputError, itemize, pluralize, quote
from adjudge.evaluation.agreement.agreement import Agreement, agreement
from adjudge.evaluation.clusters import TaskClusters, clusters_of, describe_clusters
from adjudge.evaluation.gate.requirements import AT_LEAST, FAILS, INCONCLUSIVE, VERDICT_HOLDS, Requirement, Verdict
from adjudge.evaluation.inputs import read_truth, truth_codes
from adjudge.evaluation.intervals import (
    Estimate,
    Flags,
    Integers,
    clustered_share,
    design_effect,
    quantile,
    standard_error,
    wilson,
)
from adjudge.evaluation.rates.planning import search
from adjudge.evaluation.rates.rates import Rates, rates
from adjudge.io.sources import Source
from adjudge.models.base import Model, as_model
from adjudge.results.result import Result

KNOWN_LABELS: Final = "known labels of random tasks"
MORE_TASKS: Final = "tasks"
SUGGESTED_GOLD: Final = 50  # known labels that show how judges err together
MOST_MORE: Final = 10_000_000
LEAST_GAP: Final = 1e-6  # between a figure and its limit that any number of labels would show
VOTES_ALONE: Final = "by votes alone, which do not show errors that all judges share"


@dataclass(frozen=True)
class Missing:
    """What would decide an open requirement."""

    what: str  # KNOWN_LABELS or MORE_TASKS
    more: int | None  # how many more; None if no number of them is enough
    why: str = ""

    def __str__(self) -> str:
        return self.why if self.more is None else f"{self.more} more {self.what} would decide"


Planner: TypeAlias = Callable[[Requirement, float], Missing]


@dataclass(frozen=True)
class Figure:
    """A figure of votes with its interval."""

    estimate: Estimate
    basis: str  # what it rests on
    missing: Planner | Missing  # what would decide a requirement with a limit
    is_upper: bool = False  # whether the true value is at most this: votes alone do not show more

    def plan(self, need: Requirement, limit: float) -> Missing:
        """Return what would decide a requirement with this limit."""
        return self.missing if isinstance(self.missing, Missing) else self.missing(need, limit)


@dataclass(frozen=True, eq=False)
class VoteFigures:
    """Measures figures of one set of votes, each on first access."""

    votes: Votes
    gold: Source | None  # known labels of random tasks
    clusters: TaskClusters | None
    model: Model
    level: float
    resamples: int
    seed: int

    @cached_property
    def known(self) -> Integers:
        """The known label of each task, [tasks] codes: -1 if it is not known, K and above for labels that nobody gave."""
        if self.gold is None:
            return np.full(self.votes.n_tasks, -1)
        codes = truth_codes(self.votes, read_truth(self.gold, None, None))
        if not (codes >= 0).any():
            raise InputError(f"the gold has none of the {self.votes.n_tasks} tasks of the votes: are these their ids?")
        return codes

    @property
    def known_tasks(self) -> Integers:
        """The tasks with a known label, rising codes."""
        return np.flatnonzero(self.known >= 0)

    @cached_property
    def result(self) -> Result:
        """The fit, which has not learned from the known labels."""
        return self.model.fit(replace(self.votes, found_gold=None))

    @cached_property
    def right(self) -> Flags:
        """Whether the label of each task with a known one is right, [known]."""
        tasks = self.known_tasks
        return np.asarray(self.result.fit.outcome.labels[tasks] == self.known[tasks])

    @cached_property
    def agreement(self) -> Agreement:
        """How far workers agree, and what their errors have in common; by the known labels if there are any."""
        drawn: Any = {"level": self.level, "resamples": self.resamples, "seed": self.seed}
        model: ModelName | None = None if self.gold is not None else "fds"
        return agreement(self.votes, truth=self.gold, model=model, pairs=False, cluster=self.clusters, **drawn)

    @cached_property
    def rates(self) -> Rates:
        """The true share of each label among all tasks."""
        given: Any = {"gold": self.gold, "cluster": self.clusters or "", "level": self.level}
        return rates(self.votes, model=self.model, seed=self.seed, **given)

    def measure(self, need: Requirement) -> Figure:
        """Return the figure that a requirement is about."""
        measured: Figure = getattr(self, f"_{need.figure}")(need)
        if self.clusters is None or need.figure in ("tasks", "votes_per_task"):
            return measured
        said = describe_clusters(self.clusters.column, self.clusters.number)
        return replace(measured, basis=f"{measured.basis}; {said[0].lower()}{said[1:]}")

    def _accuracy(self, _: Requirement) -> Figure:
        """Return the share of right labels, as the known ones measure it."""
        number, whole = len(self.known_tasks), self.votes.n_tasks
        effect, z = 1.0, quantile(self.level, math.inf)
        if number:
            cluster = clusters_of(self.clusters, self.known_tasks)
            estimate = clustered_share(self.right, cluster, self.level)
            if cluster is not None:
                effect = design_effect(self.right.astype(np.float64), cluster)
            guess, basis = float(estimate), f"{pluralize(number, 'known label')} of {whole} tasks"
        else:
            guess = float(np.nanmean(self.result.labels_frame()["confidence"].to_numpy()))
            estimate = Estimate(math.nan)
            basis = f"no known labels; confidence expects {100 * guess:.1f}%, which only known labels can check"

        def missing(need: Requirement, limit: float) -> Missing:
            def decides(labels: int) -> bool:
                low, high = wilson(guess, labels / max(effect, 1e-9), z)
                return need.judge(Estimate(guess, low, high), limit) != INCONCLUSIVE

            least = search(number + 1 if number else min(SUGGESTED_GOLD, whole), whole, decides)
            if least is None:
                return Missing(KNOWN_LABELS, None, f"all {whole} tasks known would probably not decide: more tasks are needed")
            return Missing(KNOWN_LABELS, least - number)

        return Figure(estimate, basis, missing)

    def _rate(self, need: Requirement) -> Figure:
        """Return the true share of a label, corrected for what judges get wrong."""
        names = self.votes.labels.texts()
        if need.label not in names:
            raise InputError(f"require names the label {quote(need.label)}, which no vote has: the labels are {itemize(names)}")
        found, code = self.rates.found[0], names.index(need.label)
        basis = (
            VOTES_ALONE if found.method == "votes" else f"corrected by {pluralize(found.gold, 'known label')} ({found.method})"
        )
        estimate = Estimate(float(found.share[code]), float(found.low[code]), float(found.high[code]))

        def missing(_: Requirement, limit: float) -> Missing:
            plan = found.plan
            least = plan.least(code, max(abs(float(estimate) - limit), LEAST_GAP), self.level)
            if least is None:
                return Missing(
                    KNOWN_LABELS, None, f"all {plan.tasks} tasks known would probably not decide: more tasks are needed"
                )
            return Missing(KNOWN_LABELS, least - plan.gold)

        return Figure(estimate, basis, missing)

    def _alpha(self, _: Requirement) -> Figure:
        """Return Krippendorff's alpha."""
        paired = self.agreement.paired_tasks
        basis = f"{pluralize(paired, 'task')} with two votes or more"
        return Figure(self.agreement.alpha, basis, plan_by_size(MORE_TASKS, paired, self.agreement.alpha))

    def _effective_votes(self, _: Requirement) -> Figure:
        """Return how many independent votes those on a task amount to; without known labels an upper bound."""
        estimate, number = self.agreement.effective_votes, len(self.known_tasks)
        if number:
            basis = f"errors against {pluralize(number, 'known label')}"
            return Figure(estimate, basis, plan_by_size(KNOWN_LABELS, number, estimate, self.votes.n_tasks))
        more = Missing(KNOWN_LABELS, min(SUGGESTED_GOLD, self.votes.n_tasks))
        return Figure(estimate, "errors are against majority vote, which hides those that most judges share", more, is_upper=True)

    def _votes_per_task(self, _: Requirement) -> Figure:
        return _exact(len(self.votes) / max(self.votes.n_tasks, 1), f"{pluralize(len(self.votes), 'vote')}")

    def _tasks(self, _: Requirement) -> Figure:
        return _exact(self.votes.n_tasks, "tasks with votes")


def _exact(value: float, basis: str) -> Figure:
    return Figure(Estimate(value, value, value), basis, Missing(MORE_TASKS, None))


def judge(need: Requirement, figure: Figure) -> Verdict:
    """Return whether a requirement with a threshold holds; an upper bound never shows that a figure is large."""
    verdict = need.judge(figure.estimate)
    unproved = VERDICT_HOLDS if need.relation == AT_LEAST else FAILS
    return INCONCLUSIVE if figure.is_upper and verdict == unproved else verdict


def _unmeasured(what: str, need: Requirement) -> Missing:
    return Missing(what, None, f"these votes are too few or too alike to measure {need.name}: more tasks are needed")


def plan_by_size(what: str, size: int, estimate: Estimate, most: int = MOST_MORE) -> Planner:
    """Return the planner of a figure whose interval shrinks with the square root of the number of labels or tasks."""

    def missing(need: Requirement, limit: float) -> Missing:
        if estimate.low != estimate.low:
            return _unmeasured(what, need)
        gap = abs(float(estimate) - limit)
        half = estimate.high - float(estimate) if float(estimate) < limit else float(estimate) - estimate.low
        least = size * (half / max(gap, LEAST_GAP)) ** 2
        if not least <= most:
            why = f"all {most} tasks known would probably not decide: more tasks are needed"
            close = f"{need.name} is too close to its limit for any number of {what}"
            return Missing(what, None, why if most < MOST_MORE else close)
        return Missing(what, max(math.ceil(least) - size, 1))

    return missing


def subtract(need: Requirement, new: VoteFigures, old: VoteFigures) -> Figure:
    """Return by how much a figure of new votes exceeds that of old ones.

    Accuracy on the same tasks is compared task by task. Anything else is treated as independent: the interval then follows from
    the two intervals (Zou and Donner 2008), and is too wide rather than too narrow where both sets have tasks in common.
    """
    if need.figure == "accuracy":
        paired = _paired_accuracy(new, old)
        if paired is not None:
            return paired
    a, b = new.measure(need), old.measure(need)
    x, y = a.estimate, b.estimate
    value = float(x) - float(y)
    low = value - math.hypot(float(x) - x.low, y.high - float(y))
    high = value + math.hypot(x.high - float(x), float(y) - y.low)
    estimate, basis = Estimate(value, low, high), f"now {need.show(float(x))}, before {need.show(float(y))}"
    if value != value:
        if need.figure == "alpha":
            return Figure(estimate, basis, _unmeasured(MORE_TASKS, need))
        return Figure(estimate, basis, Missing(KNOWN_LABELS, min(SUGGESTED_GOLD, new.votes.n_tasks)))
    tasks = new.votes.n_tasks
    if need.figure == "alpha":
        return Figure(estimate, basis, plan_by_size(MORE_TASKS, tasks, estimate))
    return Figure(estimate, basis, plan_by_size(KNOWN_LABELS, max(len(new.known_tasks), SUGGESTED_GOLD), estimate, tasks))


def _paired_accuracy(new: VoteFigures, old: VoteFigures) -> Figure | None:
    """Return the difference of accuracies on the tasks whose known labels both sets have; None if they have not the same ones."""
    place = {name: at for at, name in enumerate(old.votes.tasks.take(old.known_tasks).texts())}
    names = new.votes.tasks.take(new.known_tasks).texts()
    if not names or len(names) != len(place) or not place.keys() >= set(names):
        return None
    before = old.right[[place[name] for name in names]]
    only_new, only_old, n = int((new.right & ~before).sum()), int((before & ~new.right).sum()), len(names)
    difference = new.right.astype(np.float64) - before
    error, df = standard_error(only_new, only_old, n), math.inf
    cluster = clusters_of(new.clusters, new.known_tasks)
    if cluster is not None:
        error, df = error * design_effect(difference, cluster) ** 0.5, max(float(cluster.max()), 1.0)
    value, half = float(difference.mean()), quantile(new.level, df) * error
    estimate = Estimate(value, max(value - half, -1.0), min(value + half, 1.0))
    basis = f"{only_new} tasks are right only now, {only_old} were only before, of {n} with a known label"
    return Figure(estimate, basis, plan_by_size(KNOWN_LABELS, n, estimate, new.votes.n_tasks))


def figures_of(votes: Votes, gold: Source | None, clusters: TaskClusters | None, model: Any, **drawn: Any) -> VoteFigures:
    """Return the figures of some votes; `model` is a name or a model."""
    seed = drawn["seed"]
    return VoteFigures(votes, gold, clusters, model if isinstance(model, Model) else as_model(model, seed), **drawn)
