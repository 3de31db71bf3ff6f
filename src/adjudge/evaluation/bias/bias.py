"""One call that measures whether columns of tasks move the verdicts of judges, given the estimated truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import DEFAULTS, ModelName, Number, ReadOptions, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import FrameKind, Understood, Votes, require_unweighted
from adjudge.errors import InputError, OptionError, itemize, make_visible, pluralize, quote
from adjudge.evaluation.bias.covariates import Covariate, read_covariates
from adjudge.evaluation.bias.effects import calibrate, estimate_effects
from adjudge.evaluation.clusters import ClusterSource, TaskClusters, describe_clusters, read_clusters
from adjudge.evaluation.inputs import TaskValues, read_truth, subset, truth_codes, vote_tasks
from adjudge.evaluation.intervals import Floats, Integers, holm, or_none, quantile, two_sided
from adjudge.evaluation.rates.rates import beliefs_of
from adjudge.evaluation.rates.verdicts import main_label
from adjudge.io.frames import Frame, column, to_native
from adjudge.io.read import as_votes
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import load_votes
from adjudge.models.base import Model, as_model

RULES: Final[Rules] = {"level": Number(least=0.5, most=0.999), "seed": Number(least=0, whole=True)}
MIN_VOTES: Final = 30  # of a judge, from which on effects are looked for
MAX_BIAS_JUDGES: Final = 100  # those with most votes: each costs a fit of the others' votes
MAX_NAMED_EFFECTS: Final = 10  # in sentences
FLOATS: Final = ("effect", "low", "high", "p_value", "p_adjusted")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Bias:
    """Effects of columns on judges' verdicts, given the estimated truth; `print` reports the significant ones.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=400, workers=6, labels=2, votes_per_task=6, skill=0.85, seed=1)
    >>> length = {f"t{n}": n * 37 % 400 for n in range(400)}
    >>> found = adj.bias(crowd.votes, by={"length": length})
    >>> found
    Bias(6 judges, 1 column, no effect shown)
    >>> found.effects.columns
    ['worker', 'column', 'value', 'effect', 'low', 'high', 'p_value', 'p_adjusted', 'shown', 'votes']

    """

    label: str  # whose share of verdicts is looked at
    table: pl.DataFrame
    measured_by: str  # "gold", or "other judges"
    judges: Vocabulary
    left_out: int  # judges with too few votes, or behind the busiest
    columns: tuple[str, ...]
    level: float  # of intervals
    clusters: tuple[str, int] | None = None  # of tasks: what they are called, and how many
    understood: Understood | None = None
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        number = int(self.table["shown"].sum())
        shown = f"{pluralize(number, 'effect')} shown" if number else "no effect shown"
        return f"Bias({pluralize(len(self.judges), 'judge')}, {pluralize(len(self.columns), 'column')}, {shown})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    @cached_property
    def effects(self) -> Frame:
        """One row per judge and effect, the smallest p-value first.

        `effect` is how much more often the judge gives `label` with the value (or per step of a number), the estimated truth
        being the same, with its interval from `low` to `high`. `p_adjusted` is corrected for the number of lines by Holm's
        method, and `shown` whether it is below one minus the level. Null is what the votes cannot tell.
        """
        return to_native(self.table, self.frame_kind)

    def effects_frame(self) -> pl.DataFrame:
        """Return `effects` as a polars frame."""
        return self.table

    def sentences(self) -> list[str]:
        """Return the findings as sentences."""
        shown = self.table.filter("shown")
        out = []
        for row in shown.head(MAX_NAMED_EFFECTS).iter_rows(named=True):
            low, high = (f"{100 * row[name]:+.1f}" for name in ("low", "high"))
            who, label, what = (
                make_visible(str(text)) for text in (row["worker"], self.label, f"{row['column']}: {row['value']}")
            )
            than = "more" if row["effect"] > 0 else "less"
            out.append(
                f"{who} gives {label} {100 * abs(row['effect']):.1f} points {than} often for {what} "
                f"({low} to {high}), the truth being the same"
            )
        number = len(self.table)
        if not len(shown):
            out.append(f"no effect of {itemize(map(make_visible, self.columns))} is shown among {number} that were looked for")
        elif len(shown) > MAX_NAMED_EFFECTS:
            out.append(f"{len(shown) - MAX_NAMED_EFFECTS} more effects are shown")
        out.append(f"{100 * self.level:g}% intervals; what is shown is corrected for {pluralize(number, 'comparison')} (Holm)")
        if self.measured_by != "gold":
            out.append("truth is what the other judges say: an effect that all judges share shows only against known labels")
        if self.clusters is not None:
            out.append(describe_clusters(*self.clusters))
        if self.left_out:
            why = f"fewer than {MIN_VOTES} votes, or not among the busiest {MAX_BIAS_JUDGES}"
            out.append(f"{pluralize(self.left_out, 'judge')} left out: {why}")
        return out

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        plain = {name: getattr(self, name) for name in ("label", "measured_by", "left_out", "level")}
        return {
            **plain,
            "clusters": None if self.clusters is None else self.clusters[1],
            "effects": self.table.to_dicts(),
            "sentences": self.sentences(),
        }


def bias(
    source: Votes | Source,
    *,
    by: str | Sequence[str] | Mapping[str, Any],
    gold: Source | None = None,
    good: object = None,
    cluster: ClusterSource | None = None,
    level: float = 0.9,
    model: ModelName | Model = DEFAULTS.model,
    seed: int = 0,
    **reading: Unpack[ReadOptions],
) -> Bias:
    """Measure whether columns of tasks move the verdicts of judges, given the estimated truth.

    Each judge is measured against the truth that the other judges estimate, or against known labels: for example, does it say
    "pass" more often for long answers than they deserve?

    Parameters
    ----------
    source : Votes or anything that `adj.read` takes
        The votes.
    by : str, list of str, or dict
        Columns of the votes' table with one value per task (length, language, the family of the model that answered), or a dict
        name -> dict task -> value, frame or file. Columns with more than two numbers are measured per standard deviation,
        anything else per value against the most frequent one. All columns are in the model together.
    gold : source of known labels, optional
        Known labels to measure by, instead of the other judges; only their tasks count then.
    good : label, optional
        The label whose share of verdicts is measured; by default one called pass, good, yes, …, otherwise the last.
    cluster : dict, source or column, optional
        The prompt, document or conversation of each task, as for `adj.rates`.
    level : float
        The level of intervals.
    model : str or Model
        The model that estimates the truth.
    seed : int
        Seed of the model, which breaks ties.
    **reading
        The options of `adj.read`.

    Returns
    -------
    Bias
        Effects with intervals and corrected p-values.

    Examples
    --------
    >>> import adjudge as adj
    >>> crowd = adj.simulate(tasks=600, workers=5, labels=2, label_names=["fail", "pass"], votes_per_task=5, skill=0.85, seed=2)
    >>> long = {f"t{n}": "long" if n % 2 else "short" for n in range(600)}
    >>> rows = crowd.votes.rows()
    >>> swayed = [(t, w, "pass" if w == "w3" and long[t] == "long" and int(t[1:]) % 3 == 0 else l) for t, w, l in rows]
    >>> print(adj.bias(swayed, by={"length": long}))
    w3 gives pass 1... points less often for length: short rather than long (...), the truth being the same
    90% intervals; what is shown is corrected for 5 comparisons (Holm)
    truth is what the other judges say: an effect that all judges share shows only against known labels

    """
    options.check({"level": level, "seed": seed}, RULES)
    how = Reading.of(reading)
    every_vote = as_votes(source, how, study="bias")
    require_unweighted(every_vote, "bias", "read the votes without weight")
    votes = replace(load_votes(every_vote), found_gold=None)
    names = votes.labels.texts()
    if votes.n_labels < 2:
        raise InputError("the votes have one label: verdicts need two to be swayed")
    if good is not None and text_of(good) not in names:
        raise InputError(f"good is {quote(good)}, which no vote has: the labels are {itemize(names)}")
    label = main_label(names) if good is None else names.index(text_of(good))
    if gold is None and votes.n_workers < 3:
        raise OptionError(
            f"{pluralize(votes.n_workers, 'judge')}: give gold, or three judges, of whom two tell the truth for one"
        )
    values = TaskValues.of(source, votes, how)
    covariates = read_covariates(values, by)
    clusters = read_clusters(values, cluster)
    known = None if gold is None else _flag_known(votes, gold, label)
    fitted = model if isinstance(model, Model) else as_model(model, seed)
    judges = _busiest(votes)
    if not len(judges):
        raise InputError(f"no judge has {MIN_VOTES} votes: effects on fewer verdicts are not told from luck")
    rows = [
        row for judge in judges for row in _measure(votes, int(judge), label, covariates, clusters, known, fitted, float(level))
    ]
    return Bias(
        label=names[label],
        table=_table(votes, rows, float(level)),
        measured_by="other judges" if known is None else "gold",
        judges=votes.workers.take(judges),
        left_out=votes.n_workers - len(judges),
        columns=tuple(dict.fromkeys(one.column for one in covariates)),
        level=float(level),
        clusters=None if clusters is None else (clusters.column, clusters.number),
        understood=every_vote.understood,
        frame_kind=every_vote.frame_kind,
    )


def _flag_known(votes: Votes, gold: Source, label: int) -> Floats:
    """Return 1 for tasks whose known label is the one in question, 0 for others, NaN if it is not known, [tasks]."""
    codes = truth_codes(votes, read_truth(gold, None, None))
    if not (codes >= 0).any():
        raise InputError(f"the gold has none of the {votes.n_tasks} tasks of the votes: are these their ids?")
    return np.where(codes < 0, np.nan, (codes == label).astype(np.float64))


def _busiest(votes: Votes) -> Integers:
    """Return the judges with votes enough, those with most votes if there are many; rising codes."""
    number = np.bincount(votes.row_worker()[votes.row], minlength=votes.n_workers)
    order = np.argsort(-number, kind="stable")[:MAX_BIAS_JUDGES]
    return np.sort(order[number[order] >= MIN_VOTES])


def _measure(
    votes: Votes,
    judge: int,
    label: int,
    covariates: Sequence[Covariate],
    clusters: TaskClusters | None,
    known: Floats | None,
    model: Model,
    level: float,
) -> list[dict[str, Any]]:
    """Return the effects on one judge."""
    own = votes.row_worker()[votes.row] == judge
    task = vote_tasks(votes)[own]
    verdict = votes.row_label[votes.row[own]] == label
    columns = np.column_stack([one.numbers for one in covariates])
    probability = _by_others(votes, ~own, label, columns, model) if known is None else known
    counted = ~np.isnan(probability[task]) & ~np.isnan(columns[task]).any(axis=1)
    task, verdict = task[counted], verdict[counted]
    cluster = np.unique(task if clusters is None else clusters.code[task], return_inverse=True)[1]
    found = estimate_effects(verdict, probability[task], columns[task], cluster)
    out = []
    for place, one in enumerate(covariates):
        effect, error = float(found.value[place]), float(found.error[place])
        half = quantile(level, found.freedom) * error
        p_value = two_sided(effect / error, found.freedom) if error > 0 else np.nan
        row = {"worker": judge, "column": one.column, "value": one.value, "votes": len(task)}
        out.append(row | {"effect": effect, "low": effect - half, "high": effect + half, "p_value": p_value})
    return out


def _by_others(votes: Votes, others: Any, label: int, columns: Floats, model: Model) -> Floats:
    """Return the probability of the label by the votes of others, calibrated at every value, [tasks]; NaN without such votes."""
    part = subset(votes, others)
    told = beliefs_of(model.fit(part.votes, trace="light"))
    weight = np.where(np.arange(votes.n_labels) == label, 0.0, told.usual)
    rest = told.likelihood @ weight / max(float(weight.sum()), 1e-300)
    both = np.column_stack([told.likelihood[:, label], rest])
    out = np.full(votes.n_tasks, np.nan)
    complete = ~np.isnan(columns[part.tasks]).any(axis=1)
    out[part.tasks[complete]] = calibrate(both[complete], columns[part.tasks[complete]])
    return out


def _table(votes: Votes, rows: Sequence[Mapping[str, Any]], level: float) -> pl.DataFrame:
    """Return the table of all effects, with p-values corrected for their number."""
    p_values = np.array([row["p_value"] for row in rows], np.float64)
    adjusted = np.full(len(rows), np.nan)
    measured = ~np.isnan(p_values)
    adjusted[measured] = holm(p_values[measured])
    ids = column(votes.workers, np.array([row["worker"] for row in rows], np.int64)).alias("worker")
    plain = [
        {
            **{name: row[name] for name in ("column", "value", "votes")},
            **{name: or_none(row[name]) for name in FLOATS if name in row},
            "p_adjusted": or_none(corrected),
            "shown": bool(corrected < 1.0 - level),
        }
        for row, corrected in zip(rows, adjusted, strict=True)
    ]
    frame = pl.DataFrame(plain, schema_overrides=dict.fromkeys(FLOATS, pl.Float64)).insert_column(0, ids)
    frame = frame.select("worker", "column", "value", *FLOATS, "shown", "votes")
    return frame.sort("p_value", nulls_last=True, maintain_order=True)
