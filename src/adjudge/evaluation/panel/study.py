"""What `panel` returns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from adjudge.data.vocabulary import Id, Vocabulary
from adjudge.data.votes import FrameKind
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.evaluation.agreement.coefficients import Estimate, or_none
from adjudge.evaluation.panel.curve import Point, enough
from adjudge.evaluation.panel.judges import ADDS, NOT_LOOKED_AT, NOTHING, REPEATS, TOO_FEW, UNCLEAR, Judge
from adjudge.evaluation.panel.selection import Chosen
from adjudge.io import frames
from adjudge.io.frames import Frame
from adjudge.io.ids import column
from adjudge.results.higher import load
from adjudge.results.plotting import Chart, Theme

MAX_NAMED: Final = 5  # judges in a sentence
WORDS: Final = (ADDS, REPEATS, NOTHING, UNCLEAR, TOO_FEW, NOT_LOOKED_AT)


@dataclass(frozen=True)
class BestPanel:
    """The panel to take: who, at what cost per task, and how often such panels are right."""

    size: int
    workers: tuple[Id, ...]  # none where a panel is a number of votes per task
    accuracy: float
    low: float
    high: float
    cost: float | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PanelStudy:
    """How many judges are enough, what each adds, and which panels to take. `print` says it in sentences.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=200, workers=7, votes_per_task=7, skill=0.9, seed=1)
    >>> study = adj.panel(crowd.votes, truth=crowd.truth, subsets=10)
    >>> study
    PanelStudy(7 judges, 200 tasks, measured by truth: 4 are enough)
    >>> study.sizes.columns[:6]
    ['size', 'panels', 'votes_per_task', 'accuracy', 'low', 'high']
    """

    by: str  # what a panel is made of: "judges", or "votes" per task
    measured_by: str  # "truth", or "all votes"
    model: str
    workers: Vocabulary
    votes: int  # looked at
    tasks: int  # looked at
    judged_tasks: int  # by which accuracy is measured
    sampled_from: int | None  # tasks that there were, where not all were looked at
    within: float  # accuracy that does not matter
    points: Sequence[Point]
    found: Sequence[Judge]
    chosen: Sequence[Chosen]
    error_correlation: Estimate  # of two votes on a task
    budget: float | None = None  # per task
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        what = f"{len(self.workers)} {'judges' if self.by == 'judges' else 'workers'}"
        size = f"{self.enough} {'' if self.by == 'judges' else 'votes per task '}{'is' if self.enough == 1 else 'are'} enough"
        if self.enough == self.points[-1].size:
            size = "all are needed"
        return f"PanelStudy({what}, {self.tasks} tasks, measured by {self.measured_by}: {size})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        from adjudge.evaluation.cards import of_panel

        return of_panel(self)

    def plot(self, *, theme: Theme = "light") -> Chart:
        """Return accuracy and effective votes by the size of a panel, with its cost; needs the extra `report`.

        - `theme`: "light", "dark" or "none", which leaves the look to Altair's own themes.
        """
        return load("adjudge.report.plots:panel")(self, theme=theme)

    @cached_property
    def sizes(self) -> Frame:
        """A line per size of panels: how many were drawn, and what such panels are worth.

        `accuracy` is the share of right labels, in the mean over random panels of this size; `measured_by` says by what. Nine of
        ten such panels, on as many other tasks, lie between `low` and `high`. `shortfall` is what they lack of the accuracy of
        all votes, with a 90% interval. `agreement` is the share of labels that are those of all votes, `effective_votes` the
        independent votes per task that such panels amount to, `cost` that of one task (null where no cost was given).
        """
        return self._native(self.sizes_frame())

    @cached_property
    def judges(self) -> Frame:
        """A line per worker, those who add most first: what panels gain by it, and a word where that is clear.

        `adds` is the accuracy that panels gain by the worker, with its 90% interval: panels of up to 12 other judges, decided by
        majority vote, that always have the judge most like it, named by `beside`. In a crowd it is gained on the worker's own
        tasks. `lost_without` is what the model loses on all tasks (in a crowd, on the worker's own) where all others decide
        alone, with an interval. `effective_votes` is what the worker adds to those of all. `word` is "adds", "adds nothing",
        "repeats" (the answers of a judge that panels gain by counting twice), "unclear", "too few votes" or "not looked at" (in a
        crowd, workers behind the busiest), and `why` says what earned it. Null is what was not measured.
        """
        return self._native(self.judges_frame())

    @cached_property
    def panels(self) -> Frame:
        """A line per chosen panel: size, workers, accuracy, low, high (a 90% interval), effective_votes, cost.

        `workers` are in the order in which they were chosen. `accuracy` is that of panels chosen the same way, on tasks that the
        choice has not seen. Empty for a crowd.
        """
        return self._native(self.panels_frame())

    @property
    def enough(self) -> int:
        """The smallest size from which on random panels fall short of all votes by no more than `within`, in the mean."""
        return enough(self.points, self.within)

    @property
    def effective_votes(self) -> float:
        """How many independent votes per task all votes amount to."""
        return self.points[-1].effective_votes

    @property
    def ceiling(self) -> float:
        """The independent votes that more and more judges of this kind never pass; infinite where they do not err together."""
        return 1.0 / self.error_correlation if self.error_correlation > 0 else math.inf

    def best(self, budget: float | None = None) -> BestPanel:
        """Return the panel to take: the cheapest within `within` of the most accurate one, of those that `budget` pays for.

        - `budget`: the money for one task; by default that of the call, or else any.

        Without costs the cheapest is the smallest. A crowd has no chosen panels: there it is a number of votes per task.

        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=200, workers=7, votes_per_task=7, skill=0.9, seed=1)
        >>> study = adj.panel(crowd.votes, truth=crowd.truth, cost=0.02, subsets=10)
        >>> study.best(budget=0.07).size
        3
        """
        budget = self.budget if budget is None else check_budget(budget, self.points[-1].cost is not None)
        every = [self._of_chosen(one) for one in self.chosen] or [self._of_point(one) for one in self.points]
        paid = [one for one in every if budget is None or (one.cost is not None and one.cost <= budget * (1 + 1e-9))]
        if not paid:
            least = min(one.cost or 0.0 for one in every)
            raise InputError(f"budget is {shown(budget)} per task: the cheapest panel costs {least:.4g}")
        most = max(one.accuracy for one in paid)
        return min((one for one in paid if one.accuracy >= most - self.within), key=_price)

    def sentences(self) -> list[str]:
        """Return what was found, as sentences, the answer first."""
        from adjudge.evaluation.panel.sentences import sentences

        return sentences(self)

    def words(self) -> dict[str, int]:
        """Return how many workers have each word, of the words that occur."""
        counted = Counter(one.word for one in self.found)
        return {word: counted[word] for word in WORDS if word in counted}

    def names(self, codes: Sequence[int]) -> str:
        """Return some workers by name, joined by commas, of many the first."""
        return listed([self.workers[code] for code in codes], MAX_NAMED)

    def sizes_frame(self) -> pl.DataFrame:
        """Return `sizes` as a polars frame, whatever the caller's kind."""
        plain = ("size", "panels", "votes_per_task", "accuracy", "low", "high")
        rows = [
            {
                **{name: getattr(one, name) for name in plain},
                **_interval("shortfall", one.shortfall.rounded()),
                "agreement": one.agreement,
                "effective_votes": or_none(one.effective_votes),
                "cost": one.cost,
            }
            for one in self.points
        ]
        return pl.DataFrame(rows, schema_overrides={"cost": pl.Float64, "effective_votes": pl.Float64})

    def judges_frame(self) -> pl.DataFrame:
        """Return `judges` as a polars frame, whatever the caller's kind."""
        nothing = (None, None, None)
        rows = [
            {
                "votes": one.votes,
                **_interval("adds", nothing if one.adds is None else one.adds.rounded()),
                "beside": None if one.beside < 0 else self.workers[one.beside],
                **_interval("lost_without", nothing if one.lost_without is None else one.lost_without.rounded()),
                "effective_votes": one.effective_votes,
                "cost": one.cost,
                "word": one.word,
                "why": one.why,
            }
            for one in self.found
        ]
        ids = column(self.workers)
        floats = (
            "adds",
            "adds_low",
            "adds_high",
            "lost_without",
            "lost_without_low",
            "lost_without_high",
            "effective_votes",
            "cost",
        )
        kinds: dict[str, Any] = {**dict.fromkeys(floats, pl.Float64), "beside": ids.dtype}
        named = ids.gather([one.worker for one in self.found]).alias("worker")
        return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None).insert_column(0, named)

    def panels_frame(self) -> pl.DataFrame:
        """Return `panels` as a polars frame, whatever the caller's kind."""
        ids = column(self.workers)
        rows = [
            (one.size, ids.gather(list(one.workers)).to_list(), *one.accuracy.rounded(), or_none(one.effective_votes), one.cost)
            for one in self.chosen
        ]
        floats = dict.fromkeys(("accuracy", "low", "high", "effective_votes", "cost"), pl.Float64)
        return pl.DataFrame(rows, schema={"size": pl.Int64, "workers": pl.List(ids.dtype), **floats}, orient="row")

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        best = None if self.budget is not None and not self._affords() else self.best()
        return {
            "by": self.by,
            "measured_by": self.measured_by,
            "model": self.model,
            "workers": len(self.workers),
            "votes": self.votes,
            "tasks": self.tasks,
            "judged_tasks": self.judged_tasks,
            "sampled_from": self.sampled_from,
            "within": self.within,
            "enough": self.enough,
            "effective_votes": or_none(self.effective_votes),
            "ceiling": None if math.isinf(self.ceiling) else self.ceiling,
            "error_correlation": self.error_correlation.summary(),
            "words": self.words(),
            "budget": self.budget,
            "best": None if best is None else {**vars(best), "workers": list(best.workers)},
            "sizes": self.sizes_frame().to_dicts(),
            "judges": self.judges_frame().to_dicts(),
            "panels": self.panels_frame().to_dicts(),
            "sentences": self.sentences(),
        }

    def _affords(self) -> bool:
        try:
            self.best()
        except InputError:
            return False
        return True

    def _of_chosen(self, one: Chosen) -> BestPanel:
        workers = tuple(self.workers[code] for code in one.workers)
        return BestPanel(one.size, workers, *one.accuracy.rounded(), one.cost)

    def _of_point(self, one: Point) -> BestPanel:
        return BestPanel(one.size, (), one.accuracy, one.low, one.high, one.cost)

    def _native(self, frame: pl.DataFrame) -> Frame:
        return frames.native(frame, self.frame_kind)


def check_budget(budget: object, has_cost: bool) -> float:
    """Return the money for one task; raise unless it is a number above 0, and costs are known."""
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
        raise OptionError(f"budget is {shown(budget)}: give the money for one task, a number above 0")
    if not has_cost:
        raise OptionError(f"budget is {shown(budget)}, but no cost is known: say what a vote costs with cost=… (--cost)")
    return float(budget)


def _interval(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _price(one: BestPanel) -> tuple[float, int, float]:
    return (one.cost or 0.0, one.size, -one.accuracy)
