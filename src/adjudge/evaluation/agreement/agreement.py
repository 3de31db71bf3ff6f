"""One call from votes to how far their workers agree, and what their errors have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.data.options import Choice, Duplicates, Level, ModelName, Number, Rules
from adjudge.data.votes import Votes
from adjudge.data.weights import require_unweighted
from adjudge.errors import CopiedVotes, InputError, warn
from adjudge.evaluation.agreement import coefficients
from adjudge.evaluation.agreement.coefficients import (
    LEVELS,
    Bootstrap,
    Estimate,
    Floats,
    Integers,
    Scale,
    Sums,
    by_pattern,
    by_task,
    estimates,
    ratio,
    scale_of,
    sum_by,
    task_sums,
    unit_numbers,
)
from adjudge.evaluation.agreement.figures import Agreement
from adjudge.evaluation.agreement.pairs import (
    CHUNK_TASKS,
    MAX_VOTE_PAIRS,
    REMEDY,
    CopyingPairs,
    PairFigures,
    PairTables,
    TooManyError,
    VotePairs,
    common_answers,
    copying_pairs,
    figures,
    no_copying,
    pair_means,
    pair_tables,
)
from adjudge.evaluation.truth import truth_codes
from adjudge.io.ids import column
from adjudge.io.read import Shaping, as_votes
from adjudge.io.sources import Source, is_spark_frame
from adjudge.models.base import make
from adjudge.results.honest import effective_votes, own_rates
from adjudge.results.result import Result
from adjudge.results.trust.copies import NOBODY, Copies, find_copies

RULES: Final[Rules] = {
    "level": Choice(LEVELS),
    "resamples": Number(least=0, most=1_000_000, whole=True),
    "confidence": Number(least=0.5, most=0.9999),
    "seed": Number(least=0, whole=True),
}


def agreement(
    source: Votes | Source,
    *,
    level: Level = "nominal",
    truth: Result | Source | None = None,
    model: ModelName | None = "fds",
    pairs: bool = True,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = "all",
    truth_task: str | None = None,
    truth_label: str | None = None,
    **shaping: Unpack[Shaping],
) -> Agreement:
    """Return how far the workers agree, with intervals, and how many independent votes they amount to.

    - `source`: the votes: anything that `adj.read` takes, or the votes that it returned.
    - `level`: the kind of labels: names ("nominal"), an order ("ordinal": that of `labels`, of numbers, or of the alphabet) or
      numbers ("interval").
    - `truth`: known labels that errors are measured against, as for `adj.evaluate`; its columns are named by `truth_task` and
      `truth_label` where their usual names do not tell. Without it errors are measured against majority vote, so that
      `effective_votes` is that of `result.facts`.
    - `model`: the model whose labels show common wrong answers and copies without truth; None measures no errors, and looks
      for no copies.
    - `pairs`: False leaves out pairs of workers and copies; so do crowds with too many pairs.
    - `resamples`: bootstraps over tasks, of which intervals hold the middle `confidence`; 0 draws none.
    - `seed`: what they are drawn from.
    - `task`, `worker`, `label`, `labels`, `duplicates`, `shaping` (`wide`, `abstain`, `format`, …): as for `adj.read`.

    Warns with `CopiedVotes` where workers answer alike beyond what the truth explains: those who have somebody in the column
    `answers_like` of `result.workers`, which then says who is called a copy.

    >>> import adjudge as adj
    >>> a = adj.agreement(adj.simulate(tasks=400, workers=9, votes_per_task=9, seed=1).votes)
    >>> round(a.alpha, 3), round(a.effective_votes, 1), a.rings
    (0.35, 8.8, ())
    """
    options.check({"level": level, "resamples": resamples, "confidence": confidence, "seed": seed}, RULES)
    if is_spark_frame(source):
        raise InputError(
            "agreement looks at the votes of single tasks together and is not run on Spark: give the votes of some tasks in "
            "memory (frame.toArrow())"
        )
    votes = as_votes(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates, **shaping)
    require_unweighted(votes, "agreement", "read the votes without weight")
    scale = scale_of(votes.labels, level)
    paired = int(np.count_nonzero(np.diff(votes.task_ptr) > 1))
    if not paired:
        raise InputError(f"none of the {votes.n_tasks} tasks has two votes: agreement needs tasks that several workers judged")
    bootstrap = Bootstrap(resamples, confidence, seed)
    reference = _reference(votes, truth, model, seed, truth_task, truth_label)
    vote_pairs = VotePairs(votes)
    seen = _look(vote_pairs, reference, model, seed) if pairs else Panel(reference, "pairs=False leaves them out")
    errors = measure_errors(votes, _compared_with(votes, reference, seed), bootstrap)
    out = Agreement(
        level=level,
        votes=len(votes),
        tasks=votes.n_tasks,
        paired_tasks=paired,
        repeated_votes=vote_pairs.repeats,
        workers=votes.workers,
        labels=votes.labels,
        **_task_figures(votes, scale, bootstrap),
        **_pair_figures(vote_pairs, seen, bootstrap),
        reference=None if seen.reference is None else seen.reference.source,
        votes_per_task=errors.votes_per_task,
        error_correlation=errors.correlation,
        effective_votes=errors.effective_votes,
        resamples=resamples,
        confidence=confidence,
        pair_figures=seen.pairs,
        same_wrong=seen.same_wrong,
        ring=np.full(votes.n_workers, NOBODY) if seen.ring is None else seen.ring,
        copies=seen.copies,
        without_pairs=seen.without,
        frame_kind=votes.frame_kind,
    )
    if len(out.copies):
        warn(_copied_votes(out), CopiedVotes)
    return out


@dataclass(frozen=True, eq=False)
class Reference:
    """The label that each task is taken to have."""

    labels: Integers  # [tasks] codes; K: a label that nobody gave; -1: not known
    source: str  # truth, or the name of the model


def _reference(
    votes: Votes,
    truth: Result | Source | None,
    model: str | None,
    seed: int,
    truth_task: str | None,
    truth_label: str | None,
) -> Reference | None:
    """Return the given labels of the votes' tasks, matched by id as text, or else the labels of a fit."""
    if truth is None:
        return None if model is None else Reference(_fitted(votes, model, seed), model)
    return Reference(truth_codes(votes, truth, truth_task, truth_label), "truth")


def _compared_with(votes: Votes, reference: Reference | None, seed: int) -> Integers | None:
    """Return the labels that errors are measured against, [tasks]: the truth or, as in `result.facts`, majority vote."""
    if reference is None:
        return None
    return reference.labels if reference.source == "truth" else _fitted(votes, "mv", seed)


def _fitted(votes: Votes, model: str, seed: int, gold: Source | None = None) -> Integers:
    """Return the labels of a fit, [tasks]."""
    fitted = make(model, {"seed": 0}, {"seed": seed}).fit(votes, trace="light", gold=gold, confidence="posterior")
    return fitted.fit.outcome.labels.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Panel:
    """The pairs of workers, and who copies whom."""

    reference: Reference | None  # the one given; without truth and with rings, one in which each ring has one vote per task
    without: str | None = None  # why pairs were left out
    tables: PairTables | None = None
    pairs: PairFigures | None = None
    same_wrong: Integers | None = None  # [pairs]
    ring: Integers | None = None  # [workers] the smallest code in the worker's ring; -1 for workers in none
    copies: CopyingPairs = field(default_factory=no_copying)


def _look(vote_pairs: VotePairs, reference: Reference | None, model: str | None, seed: int) -> Panel:
    votes, number = vote_pairs.votes, vote_pairs.number
    if number > MAX_VOTE_PAIRS:
        return Panel(reference, f"the tasks have {number} pairs of votes, more than {MAX_VOTE_PAIRS}: {REMEDY}")
    if votes.n_workers**2 * votes.n_labels * (votes.n_labels + 1) >= 2**62:
        return Panel(reference, f"{votes.n_workers} workers x {votes.n_labels} labels are too many: {REMEDY}")
    try:
        return _look_at_pairs(vote_pairs, reference, model, seed)
    except TooManyError as error:
        return Panel(reference, f"the tables of all pairs of {votes.n_workers} workers have {error}: {REMEDY}")


def _look_at_pairs(vote_pairs: VotePairs, reference: Reference | None, model: str | None, seed: int) -> Panel:
    votes, tables = vote_pairs.votes, pair_tables(vote_pairs)
    pairs = figures(tables)
    if reference is None:
        return Panel(None, tables=tables, pairs=pairs)
    found = _copies(votes, reference, model, seed)
    if found is not None and (found.ring >= 0).any() and reference.source != "truth":
        reference = Reference(found.labels(reference.labels), f"{reference.source}, one vote per ring")
    once = vote_pairs.once()
    common = common_answers(once, reference.labels, pairs)
    ring = None if found is None else found.ring
    copies = no_copying() if ring is None else copying_pairs(once.votes, reference.labels, pairs, common, ring)
    return Panel(reference, None, tables, pairs, common.same_wrong, ring, copies)


def _copies(votes: Votes, reference: Reference, model: str | None, seed: int) -> Copies | None:
    """Return who copies whom, as `result.workers` finds it: truth is taken for gold, and a fit labels the other tasks."""
    labels, known = reference.labels, None
    if reference.source == "truth":
        known = (labels >= 0) & (labels < votes.n_labels)
        if not known.all():
            gold = pl.DataFrame(
                {"task": column(votes.tasks, np.flatnonzero(known)), "label": column(votes.labels, labels[known])}
            )
            labels = _fitted(votes, model or "mv", seed, gold if known.any() else None)
    return find_copies(votes, labels.astype(np.int32), known)


def _task_figures(votes: Votes, scale: Scale, bootstrap: Bootstrap) -> dict[str, Estimate]:
    """Return the figures that depend only on how many votes each label got in each task."""
    rng = bootstrap.rng(1)
    units = by_pattern(votes, unit_numbers(votes.n_labels, scale), rng)
    chosen = coefficients.NOMINAL if scale.level == "nominal" else coefficients.ORDERED
    bound = {name: partial(_on_scale, figure, scale) for name, figure in chosen.items()}
    return estimates(bound, task_sums(votes, units, scale), units, bootstrap, rng)


def _on_scale(figure: coefficients.Figure, scale: Scale, sums: Sums) -> Floats:
    return figure(sums, scale)


def _pair_figures(vote_pairs: VotePairs, seen: Panel, bootstrap: Bootstrap) -> dict[str, Estimate]:
    if seen.pairs is None or seen.tables is None:
        return {"cohen": Estimate(np.nan), "scott": Estimate(np.nan)}
    return pair_means(vote_pairs, seen.tables, seen.pairs, bootstrap)


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors against the truth, or against majority vote."""

    votes_per_task: float  # on the task of a vote, in the mean over votes
    correlation: Estimate  # of the errors of two votes on the same task
    effective_votes: Estimate  # number of independent votes that the votes of a task amount to


def measure_errors(votes: Votes, labels: Integers | None, bootstrap: Bootstrap) -> Errors:
    """Return the correlation of errors and the effective votes, as `result.facts` has them, with intervals.

    `labels` are what votes are compared with, [tasks] codes: K for a label that nobody gave, -1 for one that is not known.
    Let x be 1 for a right vote and 0 for a wrong one, less its worker's rate q (see `own_rates`). The correlation is the sum
    of x x' over all pairs of votes on the same task, divided by that of the square root of q (1 - q) q' (1 - q'). Tasks are
    resampled; the workers' rates are held fixed.
    """
    if labels is None:
        return Errors(_votes_per_task(np.diff(votes.task_ptr)), Estimate(np.nan), Estimate(np.nan))
    rng = bootstrap.rng(3)
    rate = _right_rates(votes, labels)
    deviation = np.sqrt(rate * (1.0 - rate))
    units = by_task(votes.n_tasks, 4, rng)
    sums = {name: np.zeros(len(units)) for name in ("together", "apart", "votes", "pairs")}
    row_worker = votes.row_worker()
    for start in range(0, votes.n_tasks, CHUNK_TASKS):
        task, row, right = _chunk(votes, labels, start)
        unit, worker = units.unit[start : start + CHUNK_TASKS], row_worker[row]
        for name, x in (("together", right - rate[worker]), ("apart", deviation[worker]), ("pairs", np.ones(len(row)))):
            of_task = sum_by(task, x, len(unit)) ** 2 - sum_by(task, x**2, len(unit))
            sums[name] += sum_by(unit, of_task, len(units))
        sums["votes"] += sum_by(unit, sum_by(task, np.ones(len(row)), len(unit)), len(units))
    found = estimates({"correlation": _correlation, "effective": _effective}, sums, units, bootstrap, rng)
    effective = found["effective"]
    least = min(1.0, float(effective))  # a resample may have a correlation above 1
    effective = Estimate(effective, float(np.maximum(effective.low, least)), effective.high)  # NaN stays
    return Errors(_votes_per_task(np.diff(votes.task_ptr)[labels >= 0]), found["correlation"], effective)


def _votes_per_task(sizes: Integers) -> float:
    """Return how many votes the task of a vote has, in the mean over votes, from the votes of each task, [tasks]."""
    return 1.0 + float((sizes * (sizes - 1)).sum() / sizes.sum())


def _correlation(sums: Sums) -> Floats:
    return ratio(sums["together"], sums["apart"])


def _effective(sums: Sums) -> Floats:
    return effective_votes(1.0 + ratio(sums["pairs"], sums["votes"]), _correlation(sums))


def _right_rates(votes: Votes, labels: Integers) -> Floats:
    """Return how often each worker is right, [workers]; the mean worker's rate without a vote on a task whose label is known."""
    right, seen = np.zeros(votes.n_rows), np.zeros(votes.n_rows)
    for start in range(0, votes.n_tasks, CHUNK_TASKS):
        _, row, rights = _chunk(votes, labels, start)
        right += np.bincount(row, rights, minlength=votes.n_rows)
        seen += np.bincount(row, minlength=votes.n_rows)
    starts = votes.worker_ptr[:-1]
    return own_rates(np.add.reduceat(right, starts), np.add.reduceat(seen, starts), right.sum() / seen.sum())


def _chunk(votes: Votes, labels: Integers, start: int) -> tuple[Integers, NDArray[np.uint32], Floats]:
    """Return task (counted from `start`), row and rightness of the votes of some tasks whose label is known."""
    ptr = votes.task_ptr[start : start + CHUNK_TASKS + 1]
    task = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    label = labels[start : start + CHUNK_TASKS][task]
    row = votes.row[ptr[0] : ptr[-1]]
    if (label < 0).any():
        task, row, label = task[label >= 0], row[label >= 0], label[label >= 0]
    return task, row, (votes.row_label[row] == label).astype(np.float64)


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
