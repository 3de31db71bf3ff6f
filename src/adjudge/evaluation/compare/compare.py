"""Fit every model to the same votes, judge them, and advise which to use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.grades import numbers_of
from adjudge.data.options import DEFAULTS, ModelName, Number, ReadOptions, Rules
from adjudge.data.votes import FrameKind, Gold, Votes
from adjudge.errors import AdjudgeError, InputError, OptionError, list_values, make_visible, quote
from adjudge.evaluation.clusters import ClusterSource, TaskClusters, clusters_of, describe_clusters, read_clusters
from adjudge.evaluation.compare import judging
from adjudge.evaluation.compare.fits import PARTS, ComparedFit, FitJob, Progress, VotesPart, leave_out, run, stable_share
from adjudge.evaluation.compare.judging import SIGNIFICANCE_LEVEL, Labels, ModelFigures
from adjudge.evaluation.inputs import (
    KnownLabels,
    TaskValues,
    group_judges,
    read_gold_codes,
    read_labels,
    read_truth,
    truth_codes,
)
from adjudge.evaluation.intervals import Integers, Paired, or_none, without_nan
from adjudge.io.answers import gold_frame
from adjudge.io.frames import Frame, column, to_native
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, as_votes, find_unmatched, warn_suspicious
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.models.base import DEFAULT_COMPARED_MODELS, MODELS, Model, as_model
from adjudge.models.grade_test import may_be_grades
from adjudge.results.plotting import Picture, Theme, draw
from adjudge.results.result import Result

EVERY_MODEL: Final = "all"  # models
RULES: Final[Rules] = {
    "resamples": Number(least=0, most=1_000_000, whole=True),
    "folds": Number(least=2, most=1000, whole=True),
    "refits": Number(least=0, most=1000, whole=True),
    "level": Number(least=0.5, most=0.9999),
    "seed": Number(least=0, whole=True),
}
MODEL_COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    "model": pl.String,
    **dict.fromkeys(("accuracy", "accuracy_low", "accuracy_high", "f1", "calibration_error", "log_loss"), pl.Float64),
    "below_highest": pl.Boolean,
    **dict.fromkeys(("expected_wrong", "agrees_with_mv", "stable_workers", "stable_tasks"), pl.Float64),
    "converged": pl.Boolean,
    "seconds": pl.Float64,
    "refused": pl.String,
}
PAIR_COLUMNS: Final[Mapping[str, type[pl.DataType]]] = {
    **dict.fromkeys(("model_a", "model_b"), pl.String),
    "differing": pl.Int64,
    **dict.fromkeys(("same", "difference", "low", "high"), pl.Float64),
    **dict.fromkeys(("only_a", "only_b"), pl.Int64),
    **dict.fromkeys(("p_value", "p_adjusted"), pl.Float64),
    "significant": pl.Boolean,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Comparison:
    """Models side by side on the same votes. Figures that need truth or gold are null without.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=12, seed=1)
    >>> c = adj.compare(crowd.votes, truth=crowd.truth, models=["mv", "auto", "fds"])
    >>> c
    Comparison(advises fds, 3 models, judged by the truth of 300 tasks)
    >>> c.models.select("model", "accuracy").rows()
    [('fds', 0.94), ('auto', 0.93), ('mv', 0.9133333333333333)]

    """

    best: str  # the name of the model that is advised
    advice: tuple[str, ...]  # sentences: which model, and on what evidence
    facts: Mapping[str, object]  # what was measured of the votes: see `result.facts`
    judged_by: str | None  # "truth" or "gold": what accuracies are measured by; None if nothing is known
    judged_tasks: int
    gold_tasks: int  # with votes; learned from in the fits of all models
    folds: int  # that gold was divided into, each hidden from the fit that it judges; 0 where accuracies are not of gold
    disputed: int  # tasks on which some model differs from majority vote
    resamples: int
    level: float  # of intervals
    seed: int
    votes: Votes
    labels_by_model: Labels
    model_table: pl.DataFrame
    pair_table: pl.DataFrame
    dispute_table: pl.DataFrame
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        by = "without truth" if self.judged_by is None else f"judged by the {self.judged_by} of {self.judged_tasks} tasks"
        return f"Comparison(advises {self.best}, {len(self.labels_by_model)} models, {by})"

    def __str__(self) -> str:
        """Return one screen of text: the advice first, then the figures."""
        columns, rows = self.overview()
        lines = [make_visible(sentence) for sentence in self.advice]
        table = [columns, *rows]
        first, *others = (max(map(len, cells)) for cells in zip(*table, strict=True))
        text = ["  ".join([line[0].ljust(first), *map(str.rjust, line[1:], others)]).rstrip() for line in table]
        return "\n".join([*lines, "", *text])

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        columns, rows = self.overview()
        refused = self.model_table.filter(pl.col("refused").is_not_null()).select("model", "refused").rows()
        figures = [("advised", self.best), ("models", len(rows)), ("tasks on which they differ", self.disputed)]
        if self.judged_by is not None:
            figures.append((f"tasks with {self.judged_by}", self.judged_tasks))
        warnings = [f"{model} could not run: {why}" for model, why in refused]
        steps = ["comparison.models", "comparison.differences", "comparison.disagreements", "comparison.plot()"]
        return Card(repr(self), figures, self.advice, [CardTable("models", columns, rows)], warnings, steps).html()

    def plot(self, *, theme: Theme = "light") -> Picture:
        """Draw the accuracy of the models with intervals; majority vote is the baseline.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            The accuracy of the models with intervals, majority vote the rule to beat.

        """
        return draw("studies:comparison", self, theme=theme)

    @property
    def models(self) -> Frame:
        """One row per model, the most accurate first; without truth and gold in the order of the registry.

        - `accuracy`, `accuracy_low`, `accuracy_high`: share of right labels on the judged tasks, and its interval.
        - `f1`: mean of the labels' F1; `calibration_error`, `log_loss`: what confidence is worth there.
        - `below_highest`: whether it is significantly less accurate than the model with the highest accuracy.
        - `expected_wrong`: wrong labels among all tasks, as honest confidence predicts them.
        - `agrees_with_mv`: share of all tasks with the label of majority vote.
        - `stable_workers`, `stable_tasks`: share of labels that stay without a fifth of the workers, or of the tasks.
        - `converged`: whether it met its stopping rule; `seconds`: of one fit, run in parallel with others.
        - `refused`: why it could not run.
        """
        return to_native(self.models_frame(), self.frame_kind)

    @property
    def differences(self) -> Frame:
        """One row per pair of models, the more accurate one first.

        - `differing`, `same`: on how many tasks labels differ, and the share of those with the same label.
        - `difference`, `low`, `high`: of the accuracies of a and b on the same tasks, with its interval.
        - `only_a`, `only_b`: judged tasks on which one alone is right.
        - `p_value`: of McNemar's test (mid-p); `p_adjusted`: corrected for the number of pairs (Holm); `significant`: below .05.
        """
        return to_native(self.differences_frame(), self.frame_kind)

    @property
    def disagreements(self) -> Frame:
        """One row per task and label that a model chooses against majority vote, most models first.

        - `task`, `votes`: the task, and how many votes it has.
        - `majority`, `majority_votes`, `majority_accuracy`: its label by majority vote, the votes for it, and the mean accuracy
          of those who gave them, as the advised model without truth ("auto") estimates it.
        - `label`, `label_votes`, `label_accuracy`: the same for the label that the `models` named here give instead.
        - `confidence`: that model's confidence in its own label; `known`: the label by truth or gold, if there is one.
        """
        return to_native(self.disagreements_frame(), self.frame_kind)

    @property
    def labels(self) -> Frame:
        """Task, and one column per model with its label."""
        return to_native(self.labels_frame(), self.frame_kind)

    def models_frame(self) -> pl.DataFrame:
        """Return `models` as a polars frame."""
        return self.model_table

    def differences_frame(self) -> pl.DataFrame:
        """Return `differences` as a polars frame."""
        return self.pair_table

    def disagreements_frame(self) -> pl.DataFrame:
        """Return `disagreements` as a polars frame."""
        return self.dispute_table

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame."""
        chosen = {name: column(self.votes.labels, codes.astype(np.int64)) for name, codes in self.labels_by_model.items()}
        return pl.DataFrame({"task": column(self.votes.tasks), **chosen})

    def overview(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and the rows of a table of models for people: of figures that are known alone."""
        frame = self.models_frame().filter(pl.col("refused").is_null())
        interval = f"{100 * self.level:g}% interval"
        columns, rows = ["model"], [[row["model"]] for row in frame.iter_rows(named=True)]
        ends = frame.select("accuracy_low", "accuracy_high").rows()
        spans = [None if None in (low, high) else f"{low * 100:.1f} to {high * 100:.1f}" for low, high in ends]
        shown: list[tuple[str, Any, str]] = [("accuracy", "accuracy", ".1%"), (interval, spans, ""), ("F1", "f1", ".3f")]
        shown += [("calibration error", "calibration_error", ".3f"), ("log loss", "log_loss", ".3f")]
        shown += [("expected wrong", "expected_wrong", ".0f")]
        shown += [("as mv", "agrees_with_mv", ".1%")] if self.judged_by is None else []
        shown += [("without 1/5 workers", "stable_workers", ".1%"), ("without 1/5 tasks", "stable_tasks", ".1%")]
        shown += [("seconds", "seconds", ".2f")]
        for title, where, form in shown:
            values = frame[where] if isinstance(where, str) else where
            cells = ["–" if value is None else format(value, form) for value in values]
            if any(cell != "–" for cell in cells):
                columns.append(title)
                for row, cell in zip(rows, cells, strict=True):
                    row.append(cell)
        return columns, rows

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON; of the disputed tasks their number."""
        own = ("best", "judged_by", "judged_tasks", "gold_tasks", "folds", "level", "resamples", "seed")
        tables = {"models": self.model_table, "differences": self.pair_table}
        return {
            **{name: getattr(self, name) for name in own},
            "advice": list(self.advice),
            "tasks": self.votes.n_tasks,
            "disputed_tasks": self.disputed,
            "facts": without_nan(self.facts),
            **{title: [without_nan(row) for row in table.to_dicts()] for title, table in tables.items()},
        }


def compare(
    source: Votes | Source,
    *,
    truth: Result | Source | None = None,
    gold: Source | None = None,
    models: Iterable[ModelName | Model | Any] | Literal["all"] | None = None,
    own_labels: Mapping[str, Source] | None = None,
    resamples: int = 1000,
    folds: int = 5,
    refits: int | None = None,
    level: float = 0.95,
    seed: int = DEFAULTS.seed,
    cluster: ClusterSource | None = None,
    threads: int | None = None,
    groups: Source | None = None,
    progress: Progress | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    **reading: Unpack[ReadOptions],
) -> Comparison:
    """Compare models on the same votes: how accurate each is, which differences are real, and which model to choose.

    Parameters
    ----------
    source : Votes or source
        The votes: anything that `adj.read` takes, or the votes that it returned.
    truth : Result or source, optional
        Known labels to judge by, as for `adj.evaluate`; never learned from.
    truth_task, truth_label : str, optional
        The columns of the truth, if they do not have usual names.
    gold : source, optional
        Known labels to learn from, as for `adj.aggregate`. Without truth they also judge the models, by cross-validation, so that
        no fit is judged by labels it was given. With truth, models are judged by the truth of other tasks.
    models : iterable of ModelName or Model or Any or {"all"}, optional
        Names of models, models with settings (`adj.DawidSkene(tol=1e-6)`), objects with a `fit` as for `adj.aggregate`, or "all";
        by default auto and those of the paper, and for labels on a scale "ordinal" and "scores" (numbers merged as by
        `adj.scores`, and rounded). Majority vote always takes part, as the baseline.
    own_labels : dict, optional
        Your own labels by name (each a dict of task to label, a frame or a file), judged like the models. Every task with votes
        needs one.
    resamples : int, default 1000
        Number of bootstraps over tasks; 0 draws none.
    level : float, default 0.95
        Level of the intervals.
    folds : int, default 5
        Parts of the gold, each hidden from the fit that it judges.
    refits : int, optional
        How often each model is fitted without a fifth of the workers, and without a fifth of the tasks, to see which labels are
        stable; by default 5 without truth and gold, otherwise 0.
    seed : int, default 0
        Decides ties, folds and resamples.
    cluster : ClusterSource, optional
        The prompt, document or conversation of each task (a dict task -> cluster, a table, or a column of the votes), as for
        `adj.rates`: intervals and tests then treat clusters as independent, not tasks, and folds keep clusters together.
    threads : int, optional
        Number of threads; all cores by default. Fits run in parallel, each on one thread if there are enough fits.
    groups : source, optional
        Who votes as one, as for `adj.aggregate`: a table worker to group, "families" (model families, recognised by the names of
        judges) or "answers_like".
    progress : callable, optional
        Called as progress(model, fits done, fits to do) after every fit.
    **reading
        The options of `adj.read`.

    Returns
    -------
    Comparison
        The figures of every model, their differences, and the advice in sentences.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Notes
    -----
    A model that cannot run (too large, no weights) is listed with its reason.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=300, workers=12, seed=1)
    >>> c = adj.compare(crowd.votes, models=["mv", "auto", "fds"])
    >>> c.best, c.judged_by
    ('auto', None)
    >>> c.advice[2]
    'Some model differs from majority vote on 11 of 300 tasks (3.7%); on the others all agree.'

    """
    given = {"resamples": resamples, "folds": folds, "refits": 0 if refits is None else refits}
    options.check({**given, "level": level, "seed": seed}, RULES)
    chosen, how = compared_models(models, seed), Reading.of(reading)
    votes = as_votes(source, how, study="compare")
    if groups is not None:
        votes = group_judges(votes, groups, "compare")
    if models is None and may_be_grades(votes.labels):
        from adjudge.evaluation.scores.rounded import RoundedScores  # for labels on a scale

        scaled = ["ordinal", *([RoundedScores()] if numbers_of(votes.labels.texts()) is not None else [])]
        chosen = compared_models([*DEFAULT_COMPARED_MODELS, *scaled], seed)
    if own_labels and not isinstance(own_labels, Mapping):
        raise OptionError(f"own_labels is {quote(own_labels)}: give a dict name -> labels, like {{'mine': 'labels.csv'}}")
    for name, labels in (own_labels or {}).items():
        if name in chosen:
            raise OptionError(f"own_labels has {quote(name)}, which is a model here: call them something else")
        chosen[name] = as_model(OwnLabels.read(name, labels), seed)
    if not len(votes):
        raise InputError("there are no votes to compare models on")
    learned, votes = _read_gold(votes, gold, strict=how.strict)
    known = _read_known(votes, truth, learned, truth_task, truth_label)
    if refits is None:
        refits = PARTS if known is None else 0
    clusters = read_clusters(TaskValues.of(source, votes, how), cluster)
    plan = ComparisonPlan(votes, chosen, learned, known, folds, seed, clusters)
    done = _fit_all(plan, leave_out(votes, refits, seed), threads, progress)
    if "mv" not in done.whole:  # nothing takes less than majority vote
        raise AdjudgeError(f"not even majority vote could run: {done.refused['mv']}")
    return _compare_fits(plan, done, resamples, level)


@dataclass(frozen=True)
class OwnLabels:
    """Labels that somebody else has decided, as a model: `fit` only looks them up."""

    name: str
    labels: Mapping[str, str]

    @classmethod
    def read(cls, name: str, source: Source) -> OwnLabels:
        """Return the labels of a dict, frame or file."""
        frame, _ = read_labels(source, None, None)
        return cls(name, dict(frame.select("task", "label").rows()))

    def fit(self, votes: Votes) -> dict[str, str]:
        """Return the label of each task with votes that has one."""
        return {task: self.labels[task] for task in votes.tasks.texts() if task in self.labels}


def compared_models(models: Iterable[Any] | str | None, seed: int = DEFAULTS.seed) -> dict[str, Model]:
    """Return the models to compare by name, each once, majority vote among them.

    Of two models with one name, as `adj.DawidSkene()` and `adj.DawidSkene(tol=1e-6)`, the second is called "ds (2)".

    >>> list(compared_models(["Dawid-Skene", "fds", "ds"]))
    ['ds', 'fds', 'mv']
    """
    if isinstance(models, str) and models != EVERY_MODEL:
        raise OptionError(f"models is {quote(models)}: give a list of names, as ['auto', 'ds'], or 'all'")
    named = DEFAULT_COMPARED_MODELS if models is None else MODELS if isinstance(models, str) else models
    given = list_values("models", named, "['auto', 'ds']")
    if not given:
        raise OptionError("models is empty: name some, or leave it out for the usual ones")
    out: dict[str, Model] = {}
    for model in (as_model(one, seed) for one in (*given, "mv")):
        if model not in out.values():
            number = 1 + sum(other.name == model.name for other in out.values())
            out[model.name if number == 1 else f"{model.name} ({number})"] = model
    return out


@dataclass(frozen=True, eq=False)
class ComparisonPlan:
    """The inputs of a comparison: votes, models, gold to learn from, and labels to judge by."""

    votes: Votes
    models: Mapping[str, Model]
    gold: Integers | None  # [tasks] codes to learn from, below 0 if there is none
    known: KnownLabels | None  # what is judged by
    folds: int
    seed: int
    clusters: TaskClusters | None = None

    @property
    def cluster(self) -> Integers | None:
        """The clusters of the known tasks, [n] codes from 0 on; None if tasks are independent."""
        return None if self.known is None else clusters_of(self.clusters, self.known.tasks)

    @property
    def hides(self) -> bool:
        """Whether the known labels are gold, so that they must be hidden from the fits that they judge."""
        return self.known is not None and self.known.source == "gold"

    @property
    def judged(self) -> Integers:
        """The tasks that are judged, [n] codes."""
        return np.zeros(0, np.int64) if self.known is None else self.known.tasks

    def learned(self, hidden: Integers | None = None) -> Gold | None:
        """Return the gold to learn from, except for the `hidden` tasks; None if none is left."""
        if self.gold is None:
            return None
        tasks = np.flatnonzero(self.gold >= 0)
        tasks = tasks if hidden is None else np.setdiff1d(tasks, hidden)
        return Gold(self.votes.tasks.take(tasks), self.gold[tasks].astype(np.int32)) if len(tasks) else None

    def fold_of(self, name: str) -> Integers:
        """Return the fold of each known task, [n]; a model that learns nothing needs one fold only."""
        assert self.known is not None
        folds = min(self.folds, len(self.known)) if self.hides and self.models[name].learns else 1
        return judging.assign_folds(self.known, folds, np.random.default_rng([self.seed, 4]), self.cluster)


@dataclass(frozen=True, eq=False)
class Fits:
    """All fits of a comparison, by model."""

    whole: Mapping[str, ComparedFit]  # of all votes, with all gold
    held_out: Mapping[str, list[ComparedFit]]  # one for each fold of the gold
    parts: Mapping[str, list[tuple[VotesPart, ComparedFit]]]  # without some workers, or some tasks
    refused: Mapping[str, str]


def _fit_all(plan: ComparisonPlan, parts: list[VotesPart], threads: int | None, progress: Progress | None) -> Fits:
    """Fit every model to all votes, to the gold of other folds, and to parts of the votes: all in one queue."""
    jobs: list[tuple[str, FitJob]] = []
    for name, model in plan.models.items():
        jobs.append(("whole", FitJob(name, model, plan.votes, plan.learned(), plan.judged)))
        if plan.hides and plan.known is not None:
            fold = plan.fold_of(name)
            hidden = [plan.known.tasks[fold == number] for number in range(int(fold.max()) + 1)]
            jobs += [("held_out", FitJob(name, model, plan.votes, plan.learned(some), plan.judged)) for some in hidden]
        jobs += [("part", FitJob(name, model, part.votes, plan.learned())) for part in parts]
    jobs.sort(key=lambda job: job[0] != "whole")  # these say first what cannot run
    done = list(zip(jobs, run([job for _, job in jobs], threads=threads, progress=progress), strict=True))
    refused = {job.name: why for (_, job), why in done if isinstance(why, str)}

    def of(name: str, kind: str) -> list[ComparedFit]:
        return [fit for (what, job), fit in done if (job.name, what) == (name, kind) and isinstance(fit, ComparedFit)]

    ran = [name for name in plan.models if name not in refused]
    return Fits(
        whole={name: of(name, "whole")[0] for name in ran},
        held_out={name: of(name, "held_out") for name in ran},
        parts={name: list(zip(parts, of(name, "part"), strict=True)) for name in ran},
        refused=refused,
    )


def _compare_fits(plan: ComparisonPlan, done: Fits, resamples: int, level: float) -> Comparison:
    """Return the figures of all fits, and the advice."""
    votes, known, names = plan.votes, plan.known, list(done.whole)
    figures: dict[str, ModelFigures] = {}
    pairs: dict[tuple[str, str], Paired] = {}
    choice = None
    if known is not None:
        fits = {name: done.held_out[name] if plan.hides else [done.whole[name]] for name in names}
        answers = {name: judging.answers_of(fits[name], plan.fold_of(name), known) for name in names}
        figures = {name: judging.measure(one, known, resamples, level, plan.seed, plan.cluster) for name, one in answers.items()}
        names.sort(key=lambda name: -figures[name].right)  # a stable sort: equal ones stay in the order of the registry
        right = {name: answers[name].chosen == known.labels for name in names}
        pairs = judging.compare_pairs(right, resamples, level, plan.seed, plan.cluster)
        choice = judging.choose(right, plan.cluster)
    labels = {name: done.whole[name].labels for name in names}
    trusted = done.whole[judging.cautious_of(done.whole)]
    overruled = judging.find_overruled(votes, labels, trusted.accuracy)
    stable = {
        what: {name: stable_share(done.whole[name], done.parts[name], what) for name in names} for what in ("workers", "tasks")
    }
    folds = min(plan.folds, len(plan.judged)) if plan.hides else 0
    best, below = judging.cautious_of(done.whole), {}
    if choice is None or known is None:
        said = judging.advise_by_votes(best, votes, trusted.facts, labels, overruled, stable)
    else:
        best, said = choice.best, judging.advise_by_truth(choice, figures, pairs, known, folds)
        below = {name: judging.is_below(name, choice.highest, pairs) for name in names}
    if plan.clusters is not None and known is not None:
        said.append(f"{describe_clusters(plan.clusters.column, plan.clusters.number)}.")
    said += [f"{name} did not converge in its iterations." for name, one in done.whole.items() if not one.converged]
    said += [f"{name} could not run: {why}." for name, why in done.refused.items()]
    rows = [
        {
            "model": name,
            **(_figures_row(figures[name]) if name in figures else {}),
            "below_highest": below.get(name),
            "expected_wrong": done.whole[name].expected_wrong,  # of all tasks, not of those judged
            "agrees_with_mv": float((labels[name] == labels["mv"]).mean()),
            **{f"stable_{what}": share[name] for what, share in stable.items()},
            **{fact: getattr(done.whole[name], fact) for fact in ("converged", "seconds")},
        }
        for name in names
    ]
    rows += [{"model": name, "refused": why} for name, why in done.refused.items()]
    every = np.full(votes.n_tasks, -1, np.int64) if plan.gold is None else plan.gold.copy()
    if known is not None:
        every[known.tasks] = known.labels
    return Comparison(
        best=best,
        advice=tuple(said),
        facts=trusted.facts,
        judged_by=None if known is None else known.source,
        judged_tasks=len(plan.judged),
        gold_tasks=0 if plan.gold is None else int((plan.gold >= 0).sum()),
        folds=folds,
        disputed=overruled.tasks,
        resamples=resamples,
        level=level,
        seed=plan.seed,
        votes=votes,
        labels_by_model=labels,
        model_table=_table(rows, MODEL_COLUMNS),
        pair_table=_table([_pair_row(a, b, labels, pairs) for a, b in combinations(names, 2)], PAIR_COLUMNS),
        dispute_table=overruled.frame(votes, labels["mv"], trusted.confidence, every),
        frame_kind=votes.frame_kind,
    )


def _figures_row(figures: ModelFigures) -> dict[str, Any]:
    accuracy = figures.accuracy
    return {**vars(figures), "accuracy": float(accuracy), "accuracy_low": accuracy.low, "accuracy_high": accuracy.high}


def _pair_row(a: str, b: str, labels: Labels, pairs: Mapping[tuple[str, str], Paired]) -> dict[str, Any]:
    differing = labels[a] != labels[b]
    row: dict[str, Any] = {"model_a": a, "model_b": b, "differing": int(differing.sum()), "same": float(1 - differing.mean())}
    if (a, b) in pairs:
        pair = pairs[a, b]
        row |= {**pair._asdict(), **pair.difference.summary(), "difference": float(pair.difference)}
        row["significant"] = pair.p_adjusted < SIGNIFICANCE_LEVEL
    return row


def _read_gold(votes: Votes, gold: Source | None, *, strict: bool) -> tuple[Integers | None, Votes]:
    """Return the labels to learn from, [tasks] codes below 0 if there is none, and the votes without gold of their own."""
    if votes.found_gold is not None:
        gold = gold_frame(votes) if gold is None else gold
        votes = replace(votes, found_gold=None)
    codes = None if gold is None else read_gold_codes(votes, gold, strict=strict)[0]
    return (codes if codes is not None and (codes >= 0).any() else None), votes


def _read_known(
    votes: Votes, truth: Result | Source | None, gold: Integers | None, truth_task: str | None, truth_label: str | None
) -> KnownLabels | None:
    """Return what models are judged by: the truth of tasks outside the gold, or else the gold."""
    if truth is not None:
        frame, tasks = read_truth(truth, truth_task, truth_label), column(votes.tasks).cast(pl.String)
        codes = truth_codes(votes, frame)
        matched = int((codes >= 0).sum())
        examples = frame["task"].head(MAX_MESSAGE_EXAMPLES), tasks.head(MAX_MESSAGE_EXAMPLES)
        warn_suspicious(find_unmatched("truth", (len(frame), len(tasks), matched), *examples))
        known = KnownLabels.of(codes if gold is None else np.where(gold < 0, codes, -1), "truth")
        if not len(known):
            beside = " beside the gold, which models are given: leave the truth out to be judged by gold" if matched else ""
            raise InputError(f"the truth has no task with votes{beside}")
        return known
    if gold is None:
        return None
    known = KnownLabels.of(gold, "gold")
    if len(known) < 2:
        raise InputError("the gold has one task with votes: it takes two or more to judge models by gold that they learn from")
    return known


def _table(rows: Iterable[Mapping[str, object]], schema: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Return rows as a frame of these columns; what a row lacks, and NaN, is null."""
    return pl.DataFrame([{name: or_none(row.get(name)) for name in schema} for row in rows], schema=dict(schema))
