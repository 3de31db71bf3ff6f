"""One call from votes to how far their workers agree, and what their errors have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, Unpack, get_args

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import Choice, ModelName, Number, ReadOptions, Rules, ScaleName
from adjudge.data.vocabulary import Id, Vocabulary
from adjudge.data.votes import FrameKind, Votes, require_unweighted
from adjudge.errors import CopiedVotes, InputError, warn
from adjudge.evaluation.agreement import coefficients, pairs
from adjudge.evaluation.agreement.coefficients import MeasurementScale, measure_errors
from adjudge.evaluation.agreement.pairs import CopyingPairs, PairFigures, TooManyError, VotePairs
from adjudge.evaluation.clusters import ClusterSource, read_clusters
from adjudge.evaluation.inputs import TaskValues, group_judges, read_truth_codes
from adjudge.evaluation.intervals import Bootstrap, Estimate, Floats, Integers, estimates, or_none
from adjudge.io.frames import column, label_columns, to_native
from adjudge.io.read import as_votes
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.models.base import as_model
from adjudge.results.result import Result
from adjudge.results.trust.copies import NO_RING, Copies, find_copies

MAX_MATRIX_WORKERS: Final = 2000
MAX_CARD_RINGS: Final = 8  # lines of a card
SAMPLE_REMEDY: Final = "look at a sample of the tasks, or of the workers"
TITLES: Final = {
    "percent": "percent agreement",
    "cohen": "Cohen's kappa, mean of pairs",
    "scott": "Scott's pi, mean of pairs",
    "fleiss": "Fleiss' kappa",
    "alpha": "Krippendorff's alpha",
    "ac1": "Gwet's AC1",
    "ac2_linear": "Gwet's AC2, linear weights",
    "ac2_quadratic": "Gwet's AC2, quadratic weights",
}
RULES: Final[Rules] = {
    "scale": Choice(get_args(ScaleName)),
    "resamples": Number(least=0, most=1_000_000, whole=True),
    "level": Number(least=0.5, most=0.9999),
    "seed": Number(least=0, whole=True),
}
UNKNOWN: Final = Estimate(np.nan)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Agreement:
    """How far workers agree. Figures are floats with an interval: `a.alpha`, `a.alpha.low`, `a.alpha.high`.

    Undefined figures are NaN: AC2 of labels without order, kappa if everybody always gives the same label.

    Examples
    --------
    >>> import adjudge as adj
    >>> a = adj.agreement([(1, "ann", "x"), (1, "bob", "x"), (2, "ann", "y"), (2, "bob", "x"), (3, "ann", "y"), (3, "bob", "y")])
    >>> a
    Agreement(alpha 0.4444, 3 tasks, 2 workers, 2 labels)
    >>> a.percent, a.percent.low, a.percent.high
    (0.6667 [0, 1], 0.0, 1.0)
    >>> a.pairs.select("worker_a", "worker_b", "shared", "kappa").rows()
    [('ann', 'bob', 3, 0.39999999999999997)]

    """

    scale: str  # the kind of labels: nominal, ordinal or interval
    votes: int
    tasks: int
    paired_tasks: int  # with two votes or more: the others say nothing about agreement
    repeated_votes: int  # that are not the first of their worker on their task; they count as votes nevertheless
    workers: Vocabulary
    labels: Vocabulary
    percent: Estimate
    cohen: Estimate = UNKNOWN
    scott: Estimate = UNKNOWN
    fleiss: Estimate
    alpha: Estimate
    ac1: Estimate
    ac2_linear: Estimate = UNKNOWN
    ac2_quadratic: Estimate = UNKNOWN
    reference: str | None  # what common wrong answers are counted against: truth, or the name of a model
    votes_per_task: float  # on the task of a vote, on average over votes
    error_correlation: Estimate
    effective_votes: Estimate  # without truth that of `result.facts`
    resamples: int
    level: float  # of intervals
    clusters: int | None = None  # of tasks, which are resampled; None: tasks are
    pair_figures: PairFigures | None = None
    same_wrong: Integers | None = None  # [pairs]
    ring: Integers  # [workers] the smallest code in the worker's ring; -1 for workers in none
    copies: CopyingPairs = field(default_factory=pairs.no_copying)
    without_pairs: str | None = None  # why pairs of workers were left out
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        return f"Agreement(alpha {self.alpha:.4f}, {self.tasks} tasks, {len(self.workers)} workers, {len(self.labels)} labels)"

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        figures = [
            ("Krippendorff's alpha", _with_interval(self.alpha)),
            ("percent agreement", _with_interval(self.percent)),
            ("effective votes per task", f"{_with_interval(self.effective_votes)} of {self.votes_per_task:.3g}"),
            ("tasks", self.tasks),
            ("workers", len(self.workers)),
        ]
        rings = [(len(ring), ", ".join(map(str, ring))) for ring in self.rings]
        table = CardTable.cut("workers who answer alike", ("workers", "who"), rings, "agreement.rings", MAX_CARD_RINGS)
        against = "the truth" if self.errors_against == "truth" else self.errors_against
        sentences = [] if against is None else [f"errors are measured against {against}"]
        warnings = [f"no pairs of workers: {self.without_pairs}"] if self.without_pairs else []
        return Card(repr(self), figures, sentences, [table], warnings, ["agreement.figures", "agreement.pairs"]).html()

    @property
    def figures(self) -> Any:
        """Figure, title, value, low, high: every coefficient that these labels allow."""
        return to_native(self.figures_frame(), self.frame_kind)

    @cached_property
    def pairs(self) -> Any:
        """One row per pair of workers that share a task: shared, agreement, kappa, pi, same_wrong, same_ring.

        `shared` counts pairs of their votes on the same task, `agreement` is the share of them that agree, `same_wrong`
        (null without a reference) those where both gave the same wrong label, `same_ring` whether both are in one of `rings`.
        """
        return to_native(self.pairs_frame(), self.frame_kind)

    @cached_property
    def matrix(self) -> Any:
        """One row and one column per worker: the share of common tasks on which they agree, null if there are none."""
        return to_native(self.matrix_frame(), self.frame_kind)

    @cached_property
    def copying(self) -> Any:
        """One row per pair of workers of a ring who share a task, the most certain first.

        `shared` counts tasks of known label, `same_wrong` those with the same wrong answer. `copied` is the likeliest share
        of copied answers, `log10_odds` how much likelier copying makes their votes.
        """
        return to_native(self.copying_frame(), self.frame_kind)

    @property
    def rings(self) -> tuple[tuple[Id, ...], ...]:
        """Rings of workers whose answers are more alike than the truth explains (`answers_like`), the largest first."""
        members = [np.flatnonzero(self.ring == r) for r in np.unique(self.ring[self.ring >= 0])]
        return tuple(tuple(self.workers[int(w)] for w in m) for m in sorted(members, key=lambda m: (-len(m), m[0])))

    @property
    def errors_against(self) -> str | None:
        """The reference of `error_correlation` and `effective_votes`: "truth", "majority vote", or nothing."""
        return self.reference if self.reference in (None, "truth") else "majority vote"

    def estimates(self) -> dict[str, Estimate]:
        """Return every coefficient that these labels allow, by name."""
        ordered = self.scale != "nominal"
        return {name: getattr(self, name) for name in TITLES if ordered or not name.startswith("ac2")}

    def figures_frame(self) -> pl.DataFrame:
        """Return `figures` as a polars frame."""
        rows = [(name, TITLES[name], *e.summary().values()) for name, e in self.estimates().items()]
        floats = dict.fromkeys(("value", "low", "high"), pl.Float64)
        return pl.DataFrame(rows, schema={"figure": pl.String, "title": pl.String, **floats}, orient="row")

    def pairs_frame(self) -> pl.DataFrame:
        """Return `pairs` as a polars frame."""
        p = self._pairs()
        same_ring = (self.ring[p.a] >= 0) & (self.ring[p.a] == self.ring[p.b])
        return pl.DataFrame(
            {
                "worker_a": column(self.workers, p.a),
                "worker_b": column(self.workers, p.b),
                "shared": p.shared,
                "agreement": p.agreement,
                "kappa": p.kappa,
                "pi": p.pi,
                "same_wrong": pl.Series([None] * len(p), dtype=pl.Int64) if self.same_wrong is None else self.same_wrong,
                "same_ring": same_ring,
            }
        ).with_columns(pl.col("kappa", "pi").fill_nan(None))

    def matrix_frame(self) -> pl.DataFrame:
        """Return `matrix` as a polars frame."""
        p, n = self._pairs(), len(self.workers)
        if n > MAX_MATRIX_WORKERS:
            raise InputError(f"a matrix of {n} workers has {n * n} cells: use pairs, which lists only those that share a task")
        names = label_columns(self.workers.texts(), "worker")
        square = self.matrix_array(p)
        columns = {name: pl.Series(square[:, i]).fill_nan(None) for i, name in enumerate(names)}
        return pl.DataFrame({"worker": column(self.workers), **columns})

    def matrix_array(self, pairs: PairFigures) -> Floats:
        """Return the agreement of every two workers, [workers, workers]; 1 with oneself, NaN if no task is shared.

        Parameters
        ----------
        pairs : structured frame
            The pairs of workers with their shares, as in `pairs`.

        """
        square = np.full((len(self.workers), len(self.workers)), np.nan)
        np.fill_diagonal(square, 1.0)
        square[pairs.a, pairs.b] = square[pairs.b, pairs.a] = pairs.agreement
        return square

    def copying_frame(self) -> pl.DataFrame:
        """Return `copying` as a polars frame."""
        c = self.copies
        return pl.DataFrame(
            {
                "worker_a": column(self.workers, c.a),
                "worker_b": column(self.workers, c.b),
                "shared": c.shared,
                "same_wrong": c.same_wrong,
                "copied": c.copied,
                "log10_odds": c.log_odds / np.log(10),
            }
        ).with_columns(pl.col("copied").fill_nan(None))

    def summary(self) -> dict[str, object]:
        """Return every figure as plain Python values, ready for JSON."""
        return {
            **{name: getattr(self, name) for name in ("scale", "votes", "tasks", "paired_tasks", "repeated_votes")},
            "workers": len(self.workers),
            "labels": len(self.labels),
            "level": self.level,
            "resamples": self.resamples,
            "clusters": self.clusters,
            **{name: estimate.summary() for name, estimate in self.estimates().items()},
            "pairs": None if self.pair_figures is None else len(self.pair_figures),
            "without_pairs": self.without_pairs,
            "reference": self.reference,
            "errors_against": self.errors_against,
            "votes_per_task": or_none(self.votes_per_task),
            "error_correlation": self.error_correlation.summary(),
            "effective_votes": self.effective_votes.summary(),
            "copying": self.copying_frame().to_dicts(),
            "rings": [list(ring) for ring in self.rings],
        }

    def _pairs(self) -> PairFigures:
        if self.pair_figures is None:
            raise InputError(f"there are no pairs of workers to show: {self.without_pairs}")
        return self.pair_figures


def agreement(
    source: Votes | Source,
    *,
    scale: ScaleName = "nominal",
    truth: Result | Source | None = None,
    model: ModelName | None = "fds",
    pairs: bool = True,
    resamples: int = 1000,
    level: float = 0.95,
    groups: Source | None = None,
    seed: int = 0,
    cluster: ClusterSource | None = None,
    truth_task: str | None = None,
    truth_label: str | None = None,
    **reading: Unpack[ReadOptions],
) -> Agreement:
    """Measure how far workers agree, with intervals, and how many independent votes they are worth.

    Parameters
    ----------
    source : Votes or source
        The votes: anything that `adj.read` takes, or the votes that it returned.
    scale : ScaleName, default "nominal"
        The kind of labels: names ("nominal"), an order ("ordinal": that of `labels`, of numbers, or of the alphabet) or numbers
        ("interval").
    truth : Result or source, optional
        Known labels to measure errors against, as for `adj.evaluate`. By default errors are measured against majority vote, so
        `effective_votes` equals that of `result.facts`.
    truth_task, truth_label : str, optional
        The columns of the truth, if they do not have usual names.
    model : ModelName, default "fds"
        The model whose labels reveal common wrong answers and copies without truth; None skips both.
    pairs : bool, default True
        False leaves out pairs of workers and copies, as happens for crowds with too many pairs.
    resamples : int, default 1000
        Number of bootstraps over tasks; 0 draws none.
    level : float, default 0.95
        Level of the intervals.
    groups : source, optional
        Who votes as one, as for `adj.aggregate`: a table worker to group, "families" (model families, recognised by the names of
        judges) or "answers_like".
    seed : int, default 0
        Seed of the bootstraps.
    cluster : ClusterSource, optional
        The prompt, document or conversation of each task (a dict task -> cluster, a table, or a column of the votes): clusters
        are then drawn instead of tasks, except for the means over pairs of workers (Cohen's kappa, Scott's pi).
    **reading
        The options of `adj.read`.

    Returns
    -------
    Agreement
        Coefficients with intervals, pairs of workers, and groups that answer alike.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Notes
    -----
    Warns with `CopiedVotes` where workers answer alike beyond what the truth explains: those who have somebody in the column
    `answers_like` of `result.workers`, which then says who is called a copy.

    Examples
    --------
    >>> import adjudge as adj
    >>> a = adj.agreement(adj.simulate(tasks=400, workers=9, votes_per_task=9, seed=1).votes)
    >>> round(a.alpha, 3), round(a.effective_votes, 1), a.rings
    (0.35, 8.8, ())

    """
    options.check({"scale": scale, "resamples": resamples, "level": level, "seed": seed}, RULES)
    how = Reading.of(reading)
    votes = as_votes(source, how, study="agreement")
    if groups is not None:
        votes = group_judges(votes, groups, "agreement")
    require_unweighted(votes, "agreement", "read the votes without weight")
    kind = coefficients.scale_of(votes.labels, scale)
    paired = int(np.count_nonzero(np.diff(votes.task_ptr) > 1))
    if not paired:
        raise InputError(f"none of the {votes.n_tasks} tasks has two votes: agreement needs tasks that several workers judged")
    bootstrap, reference, compared = Bootstrap(resamples, level, seed), None, None
    if truth is not None:
        compared = read_truth_codes(votes, truth, truth_task, truth_label)
        reference = ReferenceLabels(compared, "truth")
    elif model is not None:
        fitted = _fit(votes, model, seed)
        reference = ReferenceLabels(fitted.fit.outcome.labels.astype(np.int64), model)
        compared = fitted.session.majority().labels.astype(np.int64)
    clusters = None if cluster is None else read_clusters(TaskValues.of(source, votes, how), cluster)
    drawn = None if clusters is None else clusters.code
    vote_pairs = VotePairs(votes)
    seen = _study_pairs(vote_pairs, reference, model, bootstrap) if pairs else {"without_pairs": "pairs=False leaves them out"}
    errors = measure_errors(votes, compared, bootstrap, drawn)
    own = {
        "reference": None if reference is None else reference.source,
        "ring": np.full(votes.n_workers, NO_RING),
        **_task_figures(votes, kind, bootstrap, drawn),
        **seen,
    }
    out = Agreement(
        scale=scale,
        votes=len(votes),
        tasks=votes.n_tasks,
        paired_tasks=paired,
        repeated_votes=vote_pairs.repeats,
        workers=votes.workers,
        labels=votes.labels,
        votes_per_task=errors.votes_per_task,
        error_correlation=errors.correlation,
        effective_votes=errors.effective_votes,
        resamples=resamples,
        level=level,
        clusters=None if clusters is None else clusters.number,
        frame_kind=votes.frame_kind,
        **own,
    )
    if len(out.copies):
        warn(_copied_votes(out), CopiedVotes)
    return out


class ReferenceLabels(NamedTuple):
    """The label that each task is taken to have."""

    labels: Integers  # [tasks] codes; K: a label that nobody gave; -1: not known
    source: str  # truth, or the name of the model


def fit_labels(votes: Votes, model: str, seed: int, gold: Source | None = None) -> Integers:
    """Return the labels of a fit, [tasks]."""
    return _fit(votes, model, seed, gold).fit.outcome.labels.astype(np.int64)


def _fit(votes: Votes, model: str, seed: int, gold: Source | None = None) -> Result:
    return as_model(model, seed).fit(votes, trace="light", gold=gold, confidence="posterior")


def _study_pairs(
    vote_pairs: VotePairs, reference: ReferenceLabels | None, model: str | None, bootstrap: Bootstrap
) -> dict[str, Any]:
    """Return what `Agreement` has of pairs of workers, and of who copies whom; or why there are none."""
    votes, number = vote_pairs.votes, vote_pairs.number
    workers, k = votes.n_workers, votes.n_labels
    if number > pairs.MAX_COUNTED_VOTE_PAIRS:
        why = f"the tasks have {number} pairs of votes, more than {pairs.MAX_COUNTED_VOTE_PAIRS}"
        return {"without_pairs": f"{why}: {SAMPLE_REMEDY}"}
    if workers**2 * k * (k + 1) >= 2**62:
        return {"without_pairs": f"{workers} workers x {k} labels are too many: {SAMPLE_REMEDY}"}
    try:
        tables = pairs.pair_tables(vote_pairs)
        found = pairs.figures(tables)
        seen = {} if reference is None else _study_copies(vote_pairs, reference, found, model, bootstrap.seed)
    except TooManyError as error:
        return {"without_pairs": f"the tables of all pairs of {workers} workers have {error}: {SAMPLE_REMEDY}"}
    return {"pair_figures": found, **seen, **pairs.pair_means(vote_pairs, tables, found, bootstrap)}


def _study_copies(
    vote_pairs: VotePairs, reference: ReferenceLabels, found: PairFigures, model: str | None, seed: int
) -> dict[str, Any]:
    """Return what the pairs said alike and who copies; without truth, each ring then has one vote per task in the reference."""
    copies = _copies(vote_pairs.votes, reference, model, seed)
    labels, source = reference
    if copies is not None and (copies.ring >= 0).any() and source != "truth":
        labels, source = copies.labels(labels), f"{source}, one vote per ring"
    once = vote_pairs.once()
    common = pairs.common_answers(once, labels, found)
    seen = {"reference": source, "same_wrong": common.same_wrong}
    if copies is None:
        return seen
    return {**seen, "ring": copies.ring, "copies": pairs.copying_pairs(once.votes, labels, found, common, copies.ring)}


def _copies(votes: Votes, reference: ReferenceLabels, model: str | None, seed: int) -> Copies | None:
    """Return who copies whom, as `result.workers` finds it: truth is treated as gold, and a fit labels the other tasks."""
    labels, known = reference.labels, None
    if reference.source == "truth":
        known = (labels >= 0) & (labels < votes.n_labels)
        if not known.all():
            gold = pl.DataFrame(
                {"task": column(votes.tasks, np.flatnonzero(known)), "label": column(votes.labels, labels[known])}
            )
            labels = fit_labels(votes, model or "mv", seed, gold if known.any() else None)
    return find_copies(votes, labels.astype(np.int32), known)


def _task_figures(votes: Votes, scale: MeasurementScale, bootstrap: Bootstrap, cluster: Integers | None) -> dict[str, Estimate]:
    """Return the figures that depend only on how many votes each label got in each task."""
    rng = bootstrap.rng(1)
    numbers = 5 + 2 * votes.n_labels + (votes.n_labels**2 if scale.kind == "ordinal" else 0)  # that a unit holds
    units = coefficients.by_pattern(votes, numbers, rng, cluster)
    chosen = coefficients.NOMINAL if scale.kind == "nominal" else coefficients.ORDERED
    bound: Any = {name: partial(lambda figure, sums: figure(sums, scale), figure) for name, figure in chosen.items()}
    return estimates(bound, coefficients.task_sums(votes, units, scale), units, bootstrap, rng)


def _copied_votes(found: Agreement) -> str:
    """Return one line on who copies whom."""
    first = found.copying_frame().row(0, named=True)
    number, rings = len(found.copies), found.rings
    return (
        f"{sum(map(len, rings))} workers seem to copy each other, to err for the same reason, or to know what others do not "
        f"({number} pair{'s' * (number > 1)}, {len(rings)} ring{'s' * (len(rings) > 1)}): "
        f"{first['worker_a']} and {first['worker_b']} gave the same wrong answer {first['same_wrong']} times on "
        f"{first['shared']} shared tasks, which copying makes 10^{first['log10_odds']:.0f} times likelier; "
        "count a ring as one vote"
    )


def _with_interval(value: Estimate) -> str:
    shown = f"{float(value):.3g}"
    return shown if value.low != value.low else f"{shown} ({value.low:.3g} to {value.high:.3g})"
