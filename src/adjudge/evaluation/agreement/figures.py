"""What `agreement` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.data.vocabulary import Id, Vocabulary
from adjudge.data.votes import FrameKind
from adjudge.errors import InputError
from adjudge.evaluation.agreement.coefficients import Estimate, Floats, Integers, or_none
from adjudge.evaluation.agreement.pairs import CopyingPairs, PairFigures
from adjudge.io import frames
from adjudge.io.ids import column, label_columns

MAX_MATRIX_WORKERS: Final = 2000
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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Agreement:
    """How far workers agree. Figures are floats with an interval: `a.alpha`, `a.alpha.low`, `a.alpha.high`.

    NaN stands for figures without a value: AC2 of labels without order, kappa where everybody always says the same.

    >>> import adjudge as adj
    >>> a = adj.agreement([(1, "ann", "x"), (1, "bob", "x"), (2, "ann", "y"), (2, "bob", "x"), (3, "ann", "y"), (3, "bob", "y")])
    >>> a
    Agreement(alpha 0.4444, 3 tasks, 2 workers, 2 labels)
    >>> a.percent, a.percent.low, a.percent.high
    (0.6667 [0, 1], 0.0, 1.0)
    >>> a.pairs.select("worker_a", "worker_b", "shared", "kappa").rows()
    [('ann', 'bob', 3, 0.39999999999999997)]
    """

    level: str
    votes: int
    tasks: int
    paired_tasks: int  # with two votes or more: the others say nothing about agreement
    repeated_votes: int  # that are not the first of their worker on their task; they count as votes nevertheless
    workers: Vocabulary
    labels: Vocabulary
    percent: Estimate
    cohen: Estimate
    scott: Estimate
    fleiss: Estimate
    alpha: Estimate
    ac1: Estimate
    ac2_linear: Estimate = field(default=Estimate(np.nan))
    ac2_quadratic: Estimate = field(default=Estimate(np.nan))
    reference: str | None  # what common wrong answers are counted against: truth, or the name of a model
    votes_per_task: float  # on the task of a vote, in the mean over votes
    error_correlation: Estimate
    effective_votes: Estimate  # without truth that of `result.facts`
    resamples: int
    confidence: float
    pair_figures: PairFigures | None
    same_wrong: Integers | None  # [pairs]
    ring: Integers  # [workers] the smallest code in the worker's ring; -1 for workers in none
    copies: CopyingPairs
    without_pairs: str | None  # why pairs of workers were left out
    frame_kind: FrameKind = "polars"

    def __repr__(self) -> str:
        return f"Agreement(alpha {self.alpha:.4f}, {self.tasks} tasks, {len(self.workers)} workers, {len(self.labels)} labels)"

    def _repr_html_(self) -> str:
        from adjudge.evaluation.cards import of_agreement

        return of_agreement(self)

    @property
    def figures(self) -> Any:
        """Figure, title, value, low, high: every coefficient that these labels allow."""
        return self._native(self.figures_frame())

    @cached_property
    def pairs(self) -> Any:
        """A line for every two workers that share a task: shared, agreement, kappa, pi, same_wrong, same_ring.

        `shared` counts pairs of their votes on the same task, `agreement` is the share of them that agree, `same_wrong`
        (null without a reference) those where both gave the same wrong label, `same_ring` whether both are in one of `rings`.
        """
        return self._native(self.pairs_frame())

    @cached_property
    def matrix(self) -> Any:
        """A row and a column per worker: the share of shared tasks on which they agree, null where there is none."""
        return self._native(self.matrix_frame())

    @cached_property
    def copying(self) -> Any:
        """A line for every two workers of the same ring who share a task, the surest first.

        `shared` counts tasks of known label, `same_wrong` those with the same wrong answer. `copied` is the likeliest share
        of copied answers, `log10_odds` how much likelier copying makes their votes.
        """
        return self._native(self.copying_frame())

    @property
    def rings(self) -> tuple[tuple[Id, ...], ...]:
        """Workers who answer alike beyond what the truth explains, the largest ring first: `answers_like` of `result.workers`."""
        members = [np.flatnonzero(self.ring == r) for r in np.unique(self.ring[self.ring >= 0])]
        return tuple(tuple(self.workers[int(w)] for w in m) for m in sorted(members, key=lambda m: (-len(m), m[0])))

    @property
    def errors_against(self) -> str | None:
        """What `error_correlation` and `effective_votes` are measured against: "truth", "majority vote", or nothing."""
        return self.reference if self.reference in (None, "truth") else "majority vote"

    def estimates(self) -> dict[str, Estimate]:
        """Return every coefficient that these labels allow, by name."""
        ordered = self.level != "nominal"
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
        """Return the agreement of every two workers, [workers, workers]; 1 with oneself, NaN where no task is shared."""
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
            "level": self.level,
            "votes": self.votes,
            "tasks": self.tasks,
            "paired_tasks": self.paired_tasks,
            "repeated_votes": self.repeated_votes,
            "workers": len(self.workers),
            "labels": len(self.labels),
            "confidence": self.confidence,
            "resamples": self.resamples,
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

    def _native(self, frame: pl.DataFrame) -> Any:
        return frames.native(frame, self.frame_kind)
