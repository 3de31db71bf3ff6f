"""What a fit came to: whether labels can be trusted, tasks in doubt, shares of labels, convergence, and if confidence is true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from adjudge.data.votes import piece
from adjudge.evaluation.evaluate import Evaluation
from adjudge.evaluation.intervals import Floats, Integers, wilson
from adjudge.report import words
from adjudge.report.picture import Axis, Marks, Picture, Plot, Rule, Style, fields, name_rows, share_axis
from adjudge.results.overview import label_shares, least_certain_codes
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.sets import MultiResult

TRUST: Final = "Can I trust these labels?"
# On 67 public sets with truth, expected wrong labels were between these multiples of the real ones on seven of ten.
USUAL_RATIO: Final = (0.6, 1.6)
GOOD, FAIR = 0.05, 0.15  # shares of wrong labels
MEASURED: Final = ("votes_per_task", "effective_votes")
DOUBTS: Final = "Which tasks are in doubt?"
BINS: Final = 20  # of equal width, from 0 to 1
DOUBT: Final = 0.7  # confidence below which a label is in doubt
MAX_LISTED: Final = 50
MAX_NAMED_TASKS: Final = 12  # tasks by name in a picture
SURE, IN_DOUBT = "70% or more", "below 70%: in doubt"
DOUBT_STYLES: Final = {SURE: Style("accent", "square"), IN_DOUBT: Style("doubt", "square")}
CHUNK: Final = 1 << 20  # tasks per block, so that copies stay small
NUDGE: Final = 1e-9  # confidences are sums of floats: 0.7 belongs to the bin that begins there
SHARES: Final = "Which labels are given, and which are chosen?"
MAX_LABELS: Final = 30
FEW_POINTS: Final = 0.02  # a shift of shares below this is none to speak of
TRACE: Final = "Has the fit converged?"
MAX_PASSES: Final = 200  # that are drawn: the last ones
RELIABILITY: Final = "Is confidence true?"
NORMAL_90: Final = 1.645  # standard errors that hold 90% of a normal distribution
CLOSE: Final = 0.03  # mean gap between confidence and accuracy that nobody need worry about


@dataclass(frozen=True, eq=False)
class HeadlineView:
    """The figures that matter most."""

    tasks: int
    workers: int
    votes: int
    labels: int
    noun: str  # label, or set
    model: str
    expected_wrong: float
    is_honest: bool  # whether confidence is the honest one, which was measured against truth
    votes_per_task: float  # on average over votes; NaN if it was not measured
    effective_votes: float

    @property
    def wrong_share(self) -> float:
        """The share of labels that are expected to be wrong."""
        return self.expected_wrong / max(self.tasks, 1)

    @property
    def wrong_range(self) -> tuple[float, float] | None:
        """Between what wrong labels really were on seven of ten public sets that expected as many; None if nobody knows."""
        if not self.is_honest or self.noun != "label":
            return None
        low, high = USUAL_RATIO
        return self.expected_wrong / high, min(self.expected_wrong / low, float(self.tasks))

    @property
    def sentence(self) -> str:
        """The figures in a sentence."""
        if not self.tasks:
            return "There are no votes, and no labels."
        wrong, noun = self.expected_wrong, self.noun
        share = words.percent(self.wrong_share)
        good = self.wrong_share <= GOOD
        if wrong < 0.5 and good:
            return words.sentence(f"hardly any {noun} is expected to be wrong")
        about = f"about {words.figure(wrong)} of {words.tally(self.tasks, noun)} ({share})"
        are = "is" if words.figure(wrong) == "1" else "are"
        verdict = (
            "most can be trusted" if good else "look at the doubtful ones" if self.wrong_share <= FAIR else "handle with care"
        )
        if self.tasks == 1:
            return words.sentence(f"there is one {noun}, which is wrong with a probability of {share}: {verdict}")
        return words.sentence(f"{about} {are} expected to be wrong: {verdict}")


def headline(result: Result | MultiResult) -> HeadlineView:
    """Return the view of the figures at the top.

    - `result`: of any model, in memory or on disk.

    >>> import adjudge as adj
    >>> headline(adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)).workers
    8
    """
    facts: Mapping[str, object]
    if isinstance(result, Result):
        first, facts, known = result, result.facts, result.votes
        people = known if result.grouping is None else result.grouping.members
        size = (known.n_tasks, people.n_workers, len(known), known.n_labels)
    else:
        first, sets = result.results[0], result.votes
        facts = result.facts if len(result.results) == 1 else {}
        size = (len(sets.tasks), sets.binary.n_workers, sets.n_votes, len(sets.options))
    votes, effective = (float(v) if isinstance(v := facts.get(name), int | float) else float("nan") for name in MEASURED)
    return HeadlineView(
        *size,
        noun="label" if isinstance(result, Result) else "set",
        model=result.model,
        expected_wrong=result.expected_errors if size[0] else 0.0,
        is_honest=first.fit.honest is not None,
        votes_per_task=votes,
        effective_votes=effective,
    )


@dataclass(frozen=True, eq=False)
class TasksView:
    """The tasks by confidence, and those to look at."""

    n_tasks: int
    counts: Integers  # [BINS] tasks by confidence
    doubtful: int  # tasks with a confidence below `DOUBT`
    expected_wrong: float  # labels, if confidence is to be believed
    uncertain: Integers  # codes of the least certain tasks, least first
    disputed: Integers  # codes of the tasks that most votes speak against, most first
    against: Integers  # [disputed] those votes
    result: Result | None = None  # where the labels of these tasks are

    @cached_property
    def bins(self) -> pl.DataFrame:
        """Low, high, tasks, in_doubt: bins of equal width, from the lowest that has a task."""
        first = int(np.argmax(self.counts > 0)) if self.counts.any() else 0
        edges = np.arange(BINS + 1) / BINS
        low = edges[first:-1]
        return pl.DataFrame(
            {"low": low, "high": edges[first + 1 :], "tasks": self.counts[first:], "in_doubt": low < DOUBT - NUDGE}
        )

    @property
    def share_in_doubt(self) -> float:
        """The share of tasks with a confidence below `DOUBT`."""
        return self.doubtful / max(self.n_tasks, 1)

    def listed(self, codes: Integers) -> pl.DataFrame:
        """Return code, task, label (text each), confidence and votes of some tasks."""
        assert self.result is not None
        votes, outcome = self.result.votes, self.result.fit.outcome
        rows = [
            (
                int(code),
                words.name(votes.tasks[int(code)]),
                words.name(votes.labels[int(piece(outcome.labels, slice(code, code + 1))[0])]),
                float(piece(outcome.confidence, slice(code, code + 1))[0]),
                votes.votes_on(int(code)),
            )
            for code in codes.tolist()
        ]
        kinds = {"code": pl.Int64, "task": pl.String, "label": pl.String, "confidence": pl.Float64, "votes": pl.Int64}
        return pl.DataFrame(rows, schema=kinds, orient="row")

    @property
    def sentence(self) -> str:
        """The picture in a sentence."""
        if not self.n_tasks:
            return "There are no tasks."
        if self.n_tasks == 1:
            return "There is one task; its votes are below."
        if not self.doubtful:
            return words.sentence(f"no label has a confidence below {words.percent(DOUBT)}")
        share = words.percent(self.share_in_doubt)
        have = "has" if self.doubtful == 1 else "have"
        of = words.tally(self.n_tasks, "label")
        return words.sentence(f"{words.count(self.doubtful)} of {of} ({share}) {have} a confidence below {words.percent(DOUBT)}")

    def picture(self, *, with_list: bool = True) -> Picture:
        """Return the histogram of confidence and, if wanted, the least certain tasks by name."""
        if not self.n_tasks:
            return Picture(self.sentence)
        plots = [self._histogram()]
        if with_list and self.result is not None and len(self.uncertain):
            plots.append(self._list())
        note = f"If confidence is to be believed, {words.figure(self.expected_wrong)} labels are wrong."
        return Picture(self.sentence, plots, (note,))

    def _histogram(self) -> Plot:
        kind = pl.when("in_doubt").then(pl.lit(IN_DOUBT)).otherwise(pl.lit(SURE))
        bins = self.bins.with_columns(kind=kind)
        low, most = min(float(bins["low"][0]), DOUBT - 0.1), max(int(bins["tasks"].max() or 1), 1)  # type: ignore[arg-type]
        hover = fields(tasks="count", low=("percent", "confidence from"), high=("percent", "to"))
        return Plot(
            share_axis("confidence: probability that the label is right", low, 1.0, grid=False),
            Axis("tasks", 0.0, most, 4, "count"),
            (Marks("bars", bins, x="low", x2="high", y=0.0, y2="tasks", by="kind", hover=hover, thick=0),),
            styles=DOUBT_STYLES,
            rules=(Rule(DOUBT, "x", f"{words.percent(self.share_in_doubt)} in doubt", colour="text"),),
            height=180,
        )

    def _list(self) -> Plot:
        listed = self.listed(self.uncertain[:MAX_NAMED_TASKS])
        y, listed = name_rows(listed, "task", grid=False)
        listed = listed.with_columns(kind=pl.when(pl.col("confidence") < DOUBT).then(pl.lit(IN_DOUBT)).otherwise(pl.lit(SURE)))
        hover = fields(task="text", label=("text", "label"), confidence="share", votes="count")
        columns = {
            "": [words.percent(share) for share in listed["confidence"]],
            "label": [words.shorten(label, 24) for label in listed["label"]],
            "votes": [words.count(number) for number in listed["votes"]],
        }
        return Plot(
            Axis(ticks=()),
            y,
            (Marks("bars", listed, x=0.0, x2="confidence", y="name", by="kind", hover=hover, thick=10),),
            styles={IN_DOUBT: DOUBT_STYLES[IN_DOUBT]} if set(listed["kind"]) == {IN_DOUBT} else DOUBT_STYLES,
            columns=list(columns.items()),
            heading="The least certain tasks",
            step=20,
            width=420,
        )


def bin_confidence(confidence: Floats) -> TasksView:
    """Return the view of confidences, [tasks], without tasks to look at."""
    none = np.zeros(0, np.int64)
    counts, doubtful, wrong = _count(confidence)
    return TasksView(len(confidence), counts, doubtful, wrong, none, none, none)


def _count(confidence: Floats) -> tuple[Integers, int, float]:
    """Return the tasks in each bin, those in doubt, and how many are expected to be wrong."""
    at = np.clip(((confidence + NUDGE) * BINS).astype(np.int64), 0, BINS - 1)
    return np.bincount(at, minlength=BINS), int((confidence < DOUBT - NUDGE).sum()), float((1.0 - confidence).sum())


def tasks(result: Result, *, limit: int = MAX_LISTED) -> TasksView:
    """Return the view of the tasks of a result.

    - `result`: of any model, in memory or on disk.
    - `limit`: how many tasks each list holds at most.

    >>> import adjudge as adj
    >>> votes = [(t, w, "no" if (t, w) == (3, "eve") else "yes") for t in range(5) for w in ("ann", "bob", "eve")]
    >>> view = tasks(adj.aggregate(votes, model="mv"))
    >>> view.sentence, view.disputed.tolist()
    ('5 of 5 labels (100%) have a confidence below 70%.', [3])
    """
    votes, outcome = result.votes, result.fit.outcome
    counts, doubtful, wrong = np.zeros(BINS, np.int64), 0, 0.0
    for start in range(0, votes.n_tasks, CHUNK):
        some = _count(np.asarray(piece(outcome.confidence, slice(start, start + CHUNK)), np.float64))
        counts, doubtful, wrong = counts + some[0], doubtful + some[1], wrong + some[2]
    least = [code for code, _ in least_certain_codes(result, limit)]
    disputed, against = _find_disputed(result, limit)
    return TasksView(
        n_tasks=votes.n_tasks,
        counts=counts,
        doubtful=doubtful,
        expected_wrong=wrong,
        uncertain=np.array(least, np.int64),
        disputed=disputed,
        against=against,
        result=result,
    )


def _find_disputed(result: Result, limit: int) -> tuple[Integers, Integers]:
    """Return the tasks that most votes speak against, and how many: of equally many first the least certain ones."""
    votes, outcome = result.votes, result.fit.outcome
    codes, against, sure = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    for part, ptr, row in votes.parts():
        label = piece(outcome.labels, part)
        if not len(label):
            continue
        differs = votes.row_label[row] != np.repeat(label, np.diff(ptr))
        number = np.add.reduceat(differs, ptr[:-1], dtype=np.int64)
        at = np.flatnonzero(number)
        confidence = np.asarray(piece(outcome.confidence, part), np.float64)[at]
        at = at[np.lexsort((confidence, -number[at]))[:limit]]
        codes, against = np.append(codes, at + part.start), np.append(against, number[at])
        sure = np.append(sure, np.asarray(piece(outcome.confidence, part), np.float64)[at])
        first = np.lexsort((codes, sure, -against))[:limit]
        codes, against, sure = codes[first], against[first], sure[first]
    return codes, against


@dataclass(frozen=True, eq=False)
class SharesView:
    """The shares of the labels, most frequently chosen first."""

    frame: pl.DataFrame  # label (text), given, chosen: all labels
    noun: str = "label"

    @property
    def top(self) -> pl.DataFrame:
        """The labels that a picture shows: at most `MAX_LABELS`."""
        return self.frame.head(MAX_LABELS)

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not len(self.frame):
            return f"There are no {self.noun}s."
        first = self.frame.row(0, named=True)
        unit = "tasks" if self.noun == "label" else "sets"
        often = f"chosen for {words.percent(first['chosen'])} of the {unit}"
        most = f"{words.quote(first['label'])} is the most frequent {self.noun}, {often}"
        moved = self.frame.with_columns(by=pl.col("chosen") - pl.col("given")).sort(pl.col("by").abs(), descending=True)
        one = moved.row(0, named=True)
        if abs(one["by"]) < FEW_POINTS:
            return words.sentence(f"{most}; {self.noun}s appear about equally often among votes and chosen labels")
        way = "more" if one["by"] > 0 else "less"
        shift = f"{words.percent(one['given'])} of the votes, {words.percent(one['chosen'])} of the {unit}"
        if one["label"] == first["label"]:
            return words.sentence(f"{words.quote(one['label'])} is chosen {way} often than it is given: {shift}")
        return words.sentence(f"{most}; {words.quote(one['label'])} is chosen {way} often than it is given: {shift}")

    def picture(self) -> Picture:
        """Return a line per label: how often it is given (a ring), and how often it is chosen (a dot)."""
        top = self.top
        if not len(top):
            return Picture(self.sentence)
        given, chosen = "share of the votes", f"share of the {self.noun}s chosen"
        y, top = name_rows(top, "label")
        ends = pl.concat(
            top.select("label", "name", share=column, kind=pl.lit(kind))
            for column, kind in (("given", given), ("chosen", chosen))
        )
        most = max(0.01, *ends["share"]) * 1.02
        hover = fields(label="text", kind="text", share=("share", ""))
        plot = Plot(
            share_axis("share", 0.0, min(most, 1.0)),
            y,
            (
                Marks("lines", top, x="given", x2="chosen", y="name", style=Style("grey")),
                Marks("dots", ends, x="share", y="name", by="kind", hover=hover),
            ),
            styles={given: Style("grey", "ring"), chosen: Style("accent")},
            columns=[(column, [words.percent(share) for share in top[column]]) for column in ("given", "chosen")],
            step=26,
        )
        left = len(self.frame) - len(top)
        note = f"The {len(top)} most frequent of {words.tally(len(self.frame), self.noun)}." if left else ""
        return Picture(self.sentence, (plot,), (note,))


def shares(result: Result | MultiResult) -> SharesView:
    """Return the view of the labels of a result, or of the options of sets.

    - `result`: of any model, in memory or on disk.

    >>> import adjudge as adj
    >>> votes = [(1, "ann", "cat"), (1, "bob", "cat"), (2, "eve", "dog"), (2, "ann", "cat")]
    >>> shares(adj.aggregate(votes, model="mv", seed=1)).sentence
    '‘cat’ is chosen more often than it is given: 75% of the votes, 100% of the tasks.'
    """
    label_counts = label_shares(result) or []
    rows = [(words.name(one.label), one.of_votes, one.of_labels) for one in label_counts]
    frame = pl.DataFrame(rows, schema={"label": pl.String, "given": pl.Float64, "chosen": pl.Float64}, orient="row")
    return SharesView(frame, "label" if isinstance(result, Result) else "option")


@dataclass(frozen=True, eq=False)
class TraceView:
    """The passes of a fit."""

    frame: pl.DataFrame  # iteration, phase, change, log_likelihood, labels_changed: at most `MAX_PASSES`
    model: str
    converged: bool
    iterations: int

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not self.iterations:
            return "Majority vote counts once: there is nothing to converge."
        passes = words.tally(self.iterations, "iteration")
        changed = self.frame["labels_changed"][-1]
        last = "the last one changed no label" if not changed else f"the last one changed {words.tally(int(changed), 'label')}"
        if self.model == "auto":
            return words.sentence(f"auto took {passes}, a few by design; {last}")
        if self.converged:
            return words.sentence(f"the fit converged after {passes}; {last}")
        return words.sentence(f"the fit has NOT converged after {passes}: raise max_iter; {last}")

    def picture(self) -> Picture:
        """Return a bar per iteration: the labels it changed, on a scale that is logarithmic and has a zero."""
        if not len(self.frame):
            return Picture(self.sentence)
        frame = self.frame.with_columns(
            phase=pl.format("phase {}", "phase").fill_null(""), start=pl.col("iteration") - 0.5, end=pl.col("iteration") + 0.5
        )
        most = max(int(frame["labels_changed"].max() or 0), 1)  # type: ignore[arg-type]
        first, last, n = frame["iteration"][0], frame["iteration"][-1], len(frame)
        steps = (1, 3) if most < 1000 else (1,)
        ticks = [0, *(tick for power in range(13) for step in steps if (tick := step * 10**power) <= most)]
        phases = frame["phase"].unique(maintain_order=True).to_list()
        hover = fields(
            iteration="count",
            phase="text",
            labels_changed=("count", "labels changed"),
            change=("number", "change of the priors"),
            log_likelihood=("number", "log-likelihood"),
        )
        plot = Plot(
            Axis("iteration", first - 0.5, last + 0.5, range(first, last + 1, -(-n // 15)), "count", grid=False),
            Axis("labels changed (log scale)", 0.0, most, ticks, "count", "symlog"),
            (Marks("bars", frame, x="start", x2="end", y=0.0, y2="labels_changed", by="phase", hover=hover),),
            styles={phase: Style(f"c{at % 8}", "square") for at, phase in enumerate(phases)},
            height=140,
        )
        note = f"The last {words.count(n)} of {words.tally(self.iterations, 'iteration')}." if self.iterations > n else ""
        return Picture(self.sentence, (plot,), (note,))


def trace(result: Result) -> TraceView:
    """Return the view of the passes of a fit.

    - `result`: of any model.

    >>> import adjudge as adj
    >>> trace(adj.aggregate([(1, "ann", "cat"), (1, "bob", "dog")], model="mv")).sentence
    'Majority vote counts once: there is nothing to converge.'
    """
    names = ("iteration", "phase", "change", "log_likelihood", "labels_changed")
    kinds = {"iteration": pl.Int64, "phase": pl.String, "labels_changed": pl.Int64}
    rows = [tuple(getattr(row, name) for name in names) for row in result.fit.trace[-MAX_PASSES:]]
    frame = pl.DataFrame(rows, schema={name: kinds.get(name, pl.Float64) for name in names}, orient="row")
    return TraceView(frame, result.model, result.converged, result.iterations)


@dataclass(frozen=True, eq=False)
class ReliabilityView:
    """The reliability curve of labels with truth."""

    bins: pl.DataFrame  # lowest, highest, tasks, confidence, accuracy; empty if no confidence is known
    tasks: int
    wrong: int
    expected_wrong: float
    gap: float  # expected calibration error; NaN if no confidence is known

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if not self.tasks:
            return "No task with truth has a confidence."
        wrong = f"of {words.tally(self.tasks, 'label')} with truth {words.count(self.wrong)} are wrong"
        expected = f"confidence expected {words.figure(self.expected_wrong)}"
        off = words.points(self.gap)
        if self.gap <= CLOSE:
            return words.sentence(f"{wrong}, {expected}: it is {off} off in the mean, and can be believed")
        too = "too sure" if self.expected_wrong < self.wrong else "too modest"
        return words.sentence(f"{wrong}, {expected}: it is {too}, by {off} in the mean")

    def picture(self) -> Picture:
        """Return accuracy against confidence: a dot per bin of tasks, larger for more tasks, with its 90% interval."""
        if not len(self.bins):
            return Picture(self.sentence)
        bins = self.bins_with_intervals()
        low = max(0.0, float(np.floor(10 * min(*bins["confidence"], *bins["accuracy"], *bins["low"], 0.9)) / 10))
        hover = fields(
            tasks="count",
            lowest=("share", "confidence from"),
            highest=("share", "to"),
            confidence=("share", "mean confidence"),
            accuracy="share",
        )
        diagonal = pl.DataFrame({"confidence": [low, 1.0], "accuracy": [low, 1.0]})
        plot = Plot(
            share_axis("confidence promised", low, 1.0),
            share_axis("labels that are right", low, 1.0),
            (
                Marks("curve", diagonal, x="confidence", y="accuracy", style=Style("muted"), dashed=True),
                Marks("curve", bins, x="confidence", y="accuracy", opacity=0.5),
                Marks("lines", bins, x="confidence", y="low", y2="high", opacity=0.7),
                Marks("dots", bins, x="confidence", y="accuracy", size="tasks", hover=hover),
            ),
            width=420,
            height=400,
        )
        note = "Dashed: confidence that comes true. Above it labels are better than promised, below worse."
        return Picture(self.sentence, (plot,), (f"{note} Lines are 90% intervals; larger dots are more tasks.",))

    def bins_with_intervals(self) -> pl.DataFrame:
        """Return the bins with low and high, Wilson's 90% interval of their accuracy."""
        low, high = wilson(self.bins["accuracy"].to_numpy(), self.bins["tasks"].to_numpy().astype(np.float64), NORMAL_90)
        return self.bins.with_columns(low=pl.Series(low), high=pl.Series(high))


def reliability(evaluation: Evaluation) -> ReliabilityView:
    """Return the view of what confidence is worth.

    - `evaluation`: what `adj.evaluate` returns for a result and truth.

    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=400, workers=10, seed=1)
    >>> view = reliability(adj.evaluate(adj.aggregate(crowd.votes), crowd.truth))
    >>> view.tasks, view.bins.columns
    (400, ['lowest', 'highest', 'tasks', 'confidence', 'accuracy'])
    """
    known = evaluation.calibration
    names = ("lowest", "highest", "tasks", "confidence", "accuracy")
    kinds = dict.fromkeys(names, pl.Float64) | {"tasks": pl.Int64}
    bins = pl.DataFrame({name: known.bins[name] for name in names}, schema=kinds) if known.bins else pl.DataFrame(schema=kinds)
    return ReliabilityView(bins, known.tasks, known.errors, known.expected_errors, known.expected_calibration_error)
