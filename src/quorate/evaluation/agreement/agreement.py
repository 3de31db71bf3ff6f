"""One call from votes to how far their workers agree."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np

from quorate.data import options
from quorate.data.options import Choice, Number, Rules
from quorate.data.votes import Votes
from quorate.errors import CopiedVotes, InputError
from quorate.evaluation.agreement import coefficients, panel
from quorate.evaluation.agreement import copies as mistakes
from quorate.evaluation.agreement.figures import Agreement
from quorate.evaluation.agreement.pair_means import pair_means
from quorate.evaluation.agreement.pairs import VotePairs
from quorate.evaluation.agreement.panel import Panel
from quorate.evaluation.agreement.reference import Reference, from_fit, from_truth
from quorate.evaluation.agreement.resample import Drawing, Estimate, estimates
from quorate.evaluation.agreement.scale import LEVELS, Scale, scale_of
from quorate.evaluation.agreement.sums import Floats, Sums, by_pattern, features, task_sums
from quorate.io.sources import Source, as_votes
from quorate.results.result import Result

RULES: Final[Rules] = {
    "level": Choice(LEVELS),
    "resamples": Number(least=0, most=1_000_000, whole=True),
    "confidence": Number(least=0.5, most=0.9999),
    "seed": Number(least=0, whole=True),
}


def agreement(
    source: Votes | Source,
    *,
    level: str = "nominal",
    truth: Result | Source | None = None,
    model: str | None = "fds",
    pairs: bool = True,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    truth_task: str | None = None,
    truth_label: str | None = None,
) -> Agreement:
    """Return how far the workers agree, with intervals, and how many independent votes they amount to.

    - `level`: what labels are: names (nominal), an order (ordinal: that of `labels`, of numbers, or of the alphabet) or
      numbers (interval).
    - Errors are measured against `truth` (whatever `qr.evaluate` takes), or else against the labels of `model`; None
      measures none.
    - `pairs=False` leaves out pairs of workers and all that comes from them; so do crowds with too many pairs.
    - Intervals hold the middle `confidence` of `resamples` bootstraps over tasks, drawn from `seed`; 0 draws none.

    Warns with `CopiedVotes` where workers seem to copy each other.

    >>> import quorate as qr
    >>> a = qr.agreement(qr.simulate(tasks=400, workers=9, votes_per_task=9, seed=1).votes)
    >>> round(a.alpha, 3), round(a.effective_votes, 1), a.rings
    (0.35, 8.1, ())
    """
    options.check({"level": level, "resamples": resamples, "confidence": confidence, "seed": seed}, RULES)
    votes = as_votes(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
    scale = scale_of(votes.labels, level)
    paired = int(np.count_nonzero(np.diff(votes.task_ptr) > 1))
    if not paired:
        raise InputError(f"none of the {votes.n_tasks} tasks has two votes: agreement needs tasks that several workers judged")
    drawing = Drawing(resamples, confidence, seed)
    reference = _reference(votes, truth, model, seed, truth_task, truth_label)
    vote_pairs = VotePairs(votes)
    seen = panel.look(vote_pairs, reference, seed) if pairs else panel.unseen(reference, "pairs=False leaves them out")
    errors = mistakes.measure(votes, seen.reference, drawing)
    out = Agreement(
        level=level,
        votes=len(votes),
        tasks=votes.n_tasks,
        paired_tasks=paired,
        repeated_votes=vote_pairs.repeats,
        workers=votes.workers,
        labels=votes.labels,
        **_task_figures(votes, scale, drawing),
        **_pair_figures(vote_pairs, seen, drawing),
        reference=None if seen.reference is None else seen.reference.source,
        votes_per_task=errors.votes_per_task,
        error_correlation=errors.correlation,
        effective_votes=errors.effective_votes,
        resamples=resamples,
        confidence=confidence,
        pair_figures=seen.pairs,
        same_wrong=seen.same_wrong,
        copies=seen.copies,
        without_pairs=seen.without,
        frame_kind=votes.frame_kind,
    )
    if len(seen.copies):
        warnings.warn(_word(out), CopiedVotes, stacklevel=2)
    return out


def _reference(
    votes: Votes,
    truth: Result | Source | None,
    model: str | None,
    seed: int,
    truth_task: str | None,
    truth_label: str | None,
) -> Reference | None:
    if truth is not None:
        return from_truth(votes, truth, truth_task=truth_task, truth_label=truth_label)
    return None if model is None else from_fit(votes, model, seed)


def _task_figures(votes: Votes, scale: Scale, drawing: Drawing) -> dict[str, Estimate]:
    """Return the figures that depend on nothing but how many votes each label got in each task."""
    rng = drawing.rng(1)
    atoms = by_pattern(votes, features(votes.n_labels, scale), rng)
    figures = coefficients.NOMINAL if scale.level == "nominal" else coefficients.ORDERED
    bound = {name: partial(_on_scale, figure, scale) for name, figure in figures.items()}
    return estimates(bound, task_sums(votes, atoms, scale), atoms, drawing, rng)


def _on_scale(figure: coefficients.Figure, scale: Scale, sums: Sums) -> Floats:
    return figure(sums, scale)


def _pair_figures(vote_pairs: VotePairs, seen: Panel, drawing: Drawing) -> dict[str, Estimate]:
    if seen.pairs is None or seen.cells is None:
        return {"cohen": Estimate(np.nan), "scott": Estimate(np.nan)}
    return pair_means(vote_pairs, seen.cells, seen.pairs, drawing)


def _word(found: Agreement) -> str:
    """Return one line on who copies whom."""
    first = found.copying_frame().row(0, named=True)
    number, rings = len(found.copies), found.rings
    return (
        f"{sum(map(len, rings))} workers seem to copy each other, or to err for the same reason "
        f"({number} pair{'s' * (number > 1)}, {len(rings)} ring{'s' * (len(rings) > 1)}): "
        f"{first['worker_a']} and {first['worker_b']} gave the same wrong answer {first['same_wrong']} times on "
        f"{first['shared']} shared tasks, which copying makes 10^{first['log10_odds']:.0f} times likelier; "
        "count a ring as one vote"
    )
