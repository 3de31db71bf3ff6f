"""The result of `panel`, and its summary in sentences: the answer first, then the evidence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from adjudge.data.vocabulary import Id, Vocabulary
from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, OptionError, itemize, pluralize, quote
from adjudge.evaluation.clusters import describe_clusters
from adjudge.evaluation.intervals import Estimate, or_none
from adjudge.evaluation.panel.judges import ADDS, ADDS_NOTHING, NOT_LOOKED_AT, REPEATS, TOO_FEW, UNCLEAR, Judge
from adjudge.evaluation.panel.panels import Chosen, CurvePoint, enough
from adjudge.io.frames import Frame, column, to_native
from adjudge.results.plotting import Picture, Theme, draw

MAX_CARD_JUDGES: Final = 8  # lines of a card
MAX_NAMED_JUDGES: Final = 5  # judges in a sentence
JUDGE_VERDICTS: Final = (ADDS, REPEATS, ADDS_NOTHING, UNCLEAR, TOO_FEW, NOT_LOOKED_AT)


@dataclass(frozen=True)
class BestPanel:
    """The best panel: its judges, its cost per task, and how often such panels are right."""

    size: int
    workers: tuple[Id, ...]  # none where a panel is a number of votes per task
    accuracy: float
    low: float
    high: float
    cost: float | None


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PanelStudy:
    """How many judges are enough, what each adds, and the best panels; `print` reports it in sentences.

    Examples
    --------
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
    points: Sequence[CurvePoint]
    found: Sequence[Judge]
    chosen: Sequence[Chosen]
    error_correlation: Estimate  # of two votes on a task
    find_confusions: Callable[[], pl.DataFrame] | None = None  # on tasks with truth; None without truth
    budget: float | None = None  # per task
    clusters: tuple[str, int] | None = None  # of tasks: what they are called, and how many there are
    understood: Understood | None = None  # what reading made of the votes' source
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
        from adjudge.results.card import Card, CardTable

        whole = self.points[-1]
        kind = "accuracy" if self.measured_by == "truth" else "expected accuracy"
        what = "judges" if self.by == "judges" else "votes per task"
        figures = [(f"of {whole.size} {what} are enough", self.enough), (f"{kind} of all", whole.accuracy)]
        figures.append(("effective votes of all", whole.effective_votes))
        columns = ("size", kind, "low", "high", "short of all", "cost per task")
        sizes = [(one.size, one.accuracy, one.low, one.high, float(one.shortfall), one.cost) for one in self.points]
        judges = [(self.workers[one.worker], one.word, float(one.adds), one.why) for one in self.found if one.adds is not None]
        tables = [
            CardTable(f"panels of random {what}", columns, sizes),
            CardTable.cut("who adds most", ("worker", "", "adds", "why"), judges, "study.judges", MAX_CARD_JUDGES),
        ]
        steps = ["study.judges", "study.panels", "study.best(budget=…)"]
        return Card(repr(self), figures, self.sentences(), tables, next_steps=steps).html()

    def plot(self, *, theme: Theme = "light") -> Picture:
        """Draw accuracy and effective votes by the size of a panel, with its cost.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            Accuracy and effective votes by the size of a panel, with its cost.

        """
        return draw("studies:panel", self, theme=theme)

    @cached_property
    def sizes(self) -> Frame:
        """One row per panel size: how many panels were drawn, and how good they are.

        `accuracy` is the share of right labels, averaged over random panels of this size; `measured_by` names the yardstick. Nine
        of ten such panels, on as many other tasks, are between `low` and `high`. `shortfall` is the accuracy of all votes minus
        theirs, with a 90% interval. `agreement` is the share of labels equal to those of all votes, `effective_votes` the number
        of independent votes per task that such panels amount to, `cost` the price of one task (null if no cost was given).
        """
        return to_native(self.sizes_frame(), self.frame_kind)

    @cached_property
    def judges(self) -> Frame:
        """One row per worker, the largest gain first: the gain of panels from the worker, and a verdict if that is clear.

        `votes` are those on tasks that count. With truth, `accuracy` is the share of them that is right, with a 90% interval.
        `adds` is the accuracy that panels gain from the worker, with its 90% interval: panels of up to 12 other judges, decided
        by majority vote, always including the judge most like it (the column `beside`). In a crowd the gain is on the worker's
        own tasks. `lost_without` is the accuracy that the model loses on all tasks (in a crowd, on the worker's own) if all
        others decide alone, with an interval. `effective_votes` is the worker's contribution to those of all. `word` is "adds",
        "adds nothing", "repeats" (the answers of a judge that panels gain by counting twice), "unclear", "too few votes" or "not
        looked at" (in a crowd, workers behind the busiest), and `why` gives the reason. Figures that were not measured are null.
        """
        return to_native(self.judges_frame(), self.frame_kind)

    @cached_property
    def confusions(self) -> Frame:
        """The share of each given label by worker and true label, on tasks with truth: a judge's leaning to one label.

        Lines have worker, true, given, tasks (of that true label that the worker saw), share, low and high (a 90% interval).
        """
        return to_native(self.confusions_frame(), self.frame_kind)

    @cached_property
    def panels(self) -> Frame:
        """One row per chosen panel: size, workers, accuracy, low, high (a 90% interval), effective_votes, cost.

        `workers` are in the order in which they were chosen. `accuracy` is that of panels chosen the same way, on tasks that the
        choice has not seen. Empty for a crowd.
        """
        return to_native(self.panels_frame(), self.frame_kind)

    @property
    def enough(self) -> int:
        """The smallest size from which random panels fall short of all votes by at most `within`, on average."""
        return enough(self.points, self.within)

    @property
    def effective_votes(self) -> float:
        """The number of independent votes per task that all votes are worth."""
        return self.points[-1].effective_votes

    @property
    def ceiling(self) -> float:
        """The limit of independent votes for any number of such judges; infinite if they share no errors."""
        return 1.0 / self.error_correlation if self.error_correlation > 0 else math.inf

    def best(self, budget: float | None = None) -> BestPanel:
        """Return the best panel: the cheapest within `within` of the most accurate one that `budget` allows.

        Parameters
        ----------
        budget : float, optional
            The money for one task; by default that of the call, or else any.

        Returns
        -------
        BestPanel
            The panel to take: the cheapest within `within` of the most accurate one, of those that `budget` pays for.

        Notes
        -----
        Without costs the cheapest is the smallest. A crowd has no chosen panels: there it is a number of votes per task.

        Examples
        --------
        >>> import adjudge as adj
        >>> crowd = adj.simulate(tasks=200, workers=7, votes_per_task=7, skill=0.9, seed=1)
        >>> study = adj.panel(crowd.votes, truth=crowd.truth, cost=0.02, subsets=10)
        >>> study.best(budget=0.07).size
        3

        """
        budget = self.budget if budget is None else check_budget(budget, self.points[-1].cost is not None)
        every = self._candidates()
        paid = [one for one in every if budget is None or (one.cost is not None and one.cost <= budget * (1 + 1e-9))]
        if not paid:
            least = min(one.cost or 0.0 for one in every)
            raise InputError(f"budget is {quote(budget)} per task: the cheapest panel costs {least:.4g}")
        enough = max(one.accuracy for one in paid) - self.within
        return min((one for one in paid if one.accuracy >= enough), key=lambda one: (one.cost or 0.0, one.size, -one.accuracy))

    def sentences(self) -> list[str]:
        """Return the findings as sentences, the answer first."""
        lines = (answer(self), choice(self), worth(self), additions(self), basis(self), doubt(self))
        return [line for line in lines if line]

    def words(self) -> dict[str, int]:
        """Return how many workers have each word, of the words that occur."""
        number = Counter(one.word for one in self.found)
        return {word: number[word] for word in JUDGE_VERDICTS if word in number}

    def names(self, codes: Sequence[int]) -> str:
        """Return the names of some judges, joined by commas; a long list is cut.

        Parameters
        ----------
        codes : sequence of int
            Codes of the judges.

        """
        return itemize([self.workers[code] for code in codes], MAX_NAMED_JUDGES)

    def sizes_frame(self) -> pl.DataFrame:
        """Return `sizes` as a polars frame, regardless of the caller's frame library."""
        plain = ("size", "panels", "votes_per_task", "accuracy", "low", "high")
        rows = [
            {
                **{name: getattr(one, name) for name in plain},
                **_interval("shortfall", one.shortfall),
                "agreement": one.agreement,
                "effective_votes": or_none(one.effective_votes),
                "cost": one.cost,
            }
            for one in self.points
        ]
        return pl.DataFrame(rows, schema_overrides={"cost": pl.Float64, "effective_votes": pl.Float64})

    def judges_frame(self) -> pl.DataFrame:
        """Return `judges` as a polars frame, regardless of the caller's frame library."""
        rows = [
            {
                "votes": one.votes,
                **_interval("adds", one.adds),
                "beside": None if one.beside < 0 else self.workers[one.beside],
                **_interval("lost_without", one.lost_without),
                **_interval("accuracy", one.accuracy),
                **{name: getattr(one, name) for name in ("effective_votes", "cost", "word", "why")},
            }
            for one in self.found
        ]
        ids = column(self.workers)
        floats = (
            *_interval("accuracy", None),
            *_interval("adds", None),
            *_interval("lost_without", None),
            "effective_votes",
            "cost",
        )
        kinds: dict[str, Any] = {**dict.fromkeys(floats, pl.Float64), "beside": ids.dtype}
        named = ids.gather([one.worker for one in self.found]).alias("worker")
        return pl.DataFrame(rows, schema_overrides=kinds, infer_schema_length=None).insert_column(0, named)

    def confusions_frame(self) -> pl.DataFrame:
        """Return `confusions` as a polars frame, regardless of the caller's frame library."""
        if self.find_confusions is None:
            raise OptionError("confusions compare votes with known labels: give truth=… (--truth FILE)")
        return self.find_confusions()

    def panels_frame(self) -> pl.DataFrame:
        """Return `panels` as a polars frame, regardless of the caller's frame library."""
        ids = column(self.workers)
        rows = [
            (one.size, ids.gather(list(one.workers)).to_list(), *one.accuracy.rounded(), or_none(one.effective_votes), one.cost)
            for one in self.chosen
        ]
        floats = dict.fromkeys(("accuracy", "low", "high", "effective_votes", "cost"), pl.Float64)
        return pl.DataFrame(rows, schema={"size": pl.Int64, "workers": pl.List(ids.dtype), **floats}, orient="row")

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        plain = ("by", "measured_by", "model", "votes", "tasks", "judged_tasks", "sampled_from", "within", "enough", "budget")
        try:
            best = {**asdict(found := self.best()), "workers": list(found.workers)}
        except InputError:  # the budget pays for none
            best = None
        return {
            **{name: getattr(self, name) for name in plain},
            "workers": len(self.workers),
            "clusters": None if self.clusters is None else self.clusters[1],
            "effective_votes": or_none(self.effective_votes),
            "ceiling": None if math.isinf(self.ceiling) else self.ceiling,
            "error_correlation": self.error_correlation.summary(),
            "words": self.words(),
            "best": best,
            **{name: getattr(self, f"{name}_frame")().to_dicts() for name in ("sizes", "judges", "panels")},
            "sentences": self.sentences(),
        }

    def _candidates(self) -> list[BestPanel]:
        """Return the chosen panels, or those of each size if there are none."""
        if not self.chosen:
            return [BestPanel(one.size, (), one.accuracy, one.low, one.high, one.cost) for one in self.points]
        named = [tuple(self.workers[code] for code in one.workers) for one in self.chosen]
        return [BestPanel(one.size, who, *one.accuracy.rounded(), one.cost) for who, one in zip(named, self.chosen, strict=True)]


def check_budget(budget: object, has_cost: bool) -> float:
    """Return the money for one task; raise unless it is a number above 0, and costs are known."""
    if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
        raise OptionError(f"budget is {quote(budget)}: give the money for one task, a number above 0")
    if not has_cost:
        raise OptionError(f"budget is {quote(budget)}, but no cost is known: say what a vote costs with cost=… (--cost)")
    return float(budget)


def _interval(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    values = (None, None, None) if estimate is None else estimate.rounded()
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def answer(study: PanelStudy) -> str:
    """Return how many are enough."""
    enough = next(point for point in study.points if point.size == study.enough)
    whole = study.points[-1]
    if enough.size == whole.size:
        before = study.points[-2] if len(study.points) > 1 else None
        missed = "" if before is None else f"; {_thing(study, before.size)} {_are(before.size)} {_short(before)}"
        # Chosen judges may do with fewer, as the next sentence says.
        every = f"Taken at random, all {_thing(study, whole.size)}" if study.by == "judges" else "All votes"
        return f"{every} are needed: together they are {_right(study)} {whole.accuracy:.1%}{missed}."
    shown = f"random panels of {enough.size}" if study.by == "judges" else f"labels of {enough.size} random votes per task"
    every = f"all {whole.size} judges on" if study.by == "judges" else "all votes on"
    return (
        f"{_thing(study, enough.size)} {_are(enough.size)} enough: {shown} are {_right(study)} {enough.accuracy:.1%}, "
        f"{every} {whole.accuracy:.1%} ({_short(enough)})."
    )


def choice(study: PanelStudy) -> str:
    """Return which panel to take; for a crowd, only where there is a budget."""
    if not study.chosen and study.budget is None:
        return ""
    money = "" if study.budget is None else f" for {study.budget:g} per task"
    try:
        best = study.best()
    except InputError as error:
        return f"No panel{money}: {error}."
    cost = "" if best.cost is None else f", at {best.cost:.3g} per task"
    if not study.chosen:
        return f"The best{money}: {best.size} votes per task ({best.accuracy:.1%} right{cost})."
    codes = study.workers.codes(best.workers).tolist()
    how = f"{best.accuracy:.1%} right on tasks that the choice has not seen, {best.low:.1%} to {best.high:.1%}{cost}"
    return f"The best panel{money} has {pluralize(best.size, 'chosen judge')}: {study.names(codes)} ({how})."


def worth(study: PanelStudy) -> str:
    """Return how many independent votes all votes are worth."""
    whole = study.points[-1]
    if whole.effective_votes != whole.effective_votes:
        return ""
    against = "the truth" if study.measured_by == "truth" else "majority vote"
    each = f"{whole.votes_per_task:.3g} votes per task are worth {whole.effective_votes:.3g} independent ones"
    limit = "" if math.isinf(study.ceiling) else f"; any number of judges like these is worth less than {study.ceiling:.3g}"
    return f"Measured against {against}, {each}{limit}."


def additions(study: PanelStudy) -> str:
    """Return how many workers add something, and who adds nothing."""
    words = study.words()
    if not words:
        return ""
    plural = {ADDS: "add", ADDS_NOTHING: "add nothing", REPEATS: "repeat another"}
    single = {REPEATS: "repeats another"}
    said = ", ".join(f"{n} {(single if n == 1 else plural).get(word, word)}" for word, n in words.items())
    codes = [one.worker for one in reversed(study.found) if one.word == ADDS_NOTHING]
    named = f"; nothing is added by {study.names(codes)}" if codes else ""
    return f"Of {len(study.found)} {'judges' if study.by == 'judges' else 'workers'}: {said}{named}."


def basis(study: PanelStudy) -> str:
    """Return what was drawn and looked at."""
    most = max(point.panels for point in study.points)
    least = min(point.panels for point in study.points[:-1]) if len(study.points) > 1 else most
    number = f"{most}" if least == most else f"{least} to {most}"
    drawn = f"{number} random panels of each size" if study.by == "judges" else f"{number} random draws of votes for each size"
    tasks = f"{study.judged_tasks} tasks" + (" with truth" if study.measured_by == "truth" else "")
    some = "" if study.sampled_from is None else f", votes of {study.tasks} of {study.sampled_from} tasks"
    looked_at = f"Looked at: {drawn}, labelled by {study.model}, measured on {tasks}{some}."
    return looked_at if study.clusters is None else f"{looked_at} {describe_clusters(*study.clusters)}."


def doubt(study: PanelStudy) -> str:
    """Return what an estimate without truth cannot know."""
    if study.measured_by == "truth":
        return ""
    return (
        "Accuracy is an estimate: without truth, labels are measured by what all votes together say. A judge who alone is right "
        "looks useless, and errors that all share are not seen."
    )


def _thing(study: PanelStudy, size: int) -> str:
    return pluralize(size, "judge") if study.by == "judges" else f"{pluralize(size, 'vote')} per task"


def _are(size: int) -> str:
    return "is" if size == 1 else "are"


def _right(study: PanelStudy) -> str:
    return "right on" if study.measured_by == "truth" else "expected to be right on"


def _short(point: CurvePoint) -> str:
    gap = point.shortfall
    sign, than = (100, "short of") if gap >= 0 else (-100, "above")
    low, high = sorted((sign * gap.low, sign * gap.high))
    return f"{sign * gap:.1f} points {than} all, 90% interval {low:.1f} to {high:.1f}"
