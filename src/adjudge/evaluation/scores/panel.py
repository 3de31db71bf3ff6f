"""A panel of judges as scores have shown it: enough to score other items, and what `adj.load` returns of a saved one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
import polars as pl

from adjudge.data.options import ReadOptions
from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import UnknownWorkers, itemize, quote, warn
from adjudge.evaluation.intervals import quantile
from adjudge.evaluation.scores import truth
from adjudge.evaluation.scores.fit import HUBER, MAX_ITEM_MOVE, MAX_SCORE_PASSES, JudgeFigures, group_shares, judge_lines
from adjudge.evaluation.scores.reading import ScoreTable, read_scores
from adjudge.evaluation.scores.truth import GoldScale
from adjudge.io.frames import column, match_ids
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.kernels.cpu import cores
from adjudge.kernels.scores_reference import JUDGE_SUMS, Floats, ScoreArrays, score_kernels

if TYPE_CHECKING:
    from adjudge.evaluation.scores.scores import Scores

REVERSED_Z: Final = 1.96  # standard errors of a slope that is surely below 0
MAX_WORKER_EXAMPLES: Final = 5


class ScoreEstimates(NamedTuple):
    """Figures of items, [items] each."""

    score: Floats
    low: Floats  # NaN if nothing tells
    high: Floats
    probability: Floats | None  # of the label, with a threshold or gold labels


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScorePanel:
    """The judges of numeric scores, as `adj.load` returns them; `predict` scores other items.

    Examples
    --------
    >>> import adjudge as adj, tempfile, pathlib
    >>> rows = [(item, judge, item + shift) for item in range(9) for judge, shift in [("ann", 0.5), ("bob", -0.5), ("eve", 0.0)]]
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "panel.adjudge"
    >>> adj.scores(rows).save(path)
    >>> panel = adj.load(path)
    >>> panel
    ScorePanel(3 judges, learned from 27 scores)
    >>> panel.predict([("new", "ann", 4.5), ("new", "bob", 3.5)]).items["score"].round(1).to_list()
    [4.0]

    """

    workers: Vocabulary
    judges: JudgeFigures
    agreement: Floats  # [judges]
    compared: Floats  # [judges] scores behind the agreement
    centre: float
    spread: float
    clip: tuple[float, float]
    typical_noise: float
    bias_spread: float
    kind: str  # of the fit
    judge_mean: Floats | None = None  # [judges] of each judge's own units
    judge_sd: Floats | None = None
    validity: float = truth.DEFAULT_VALIDITY
    level: float = 0.9
    threshold: float | None = None
    gold: GoldScale | None = None
    label_line: tuple[float, float] | None = None  # of the log-odds of a label, learned from gold labels
    groups: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ScorePanel({len(self.workers)} judges, learned from {int(self.judges.count.sum())} scores)"

    def judges_frame(self) -> pl.DataFrame:
        """Return one row per judge; see `Scores.judges`."""
        figures = self.judges
        half = quantile(self.level, np.inf) / np.sqrt(np.maximum(self.compared - 3.0, 1.0))
        fisher = np.arctanh(np.clip(self.agreement, -0.9999, 0.9999))
        shown = {
            "bias": figures.bias,
            "slope": figures.slope,
            "noise": figures.noise,
            "agreement": self.agreement,
            "agreement_low": np.tanh(fisher - half),
            "agreement_high": np.tanh(fisher + half),
        }
        return pl.DataFrame(
            {
                "worker": column(self.workers),
                "n": figures.count.astype(np.int64),
                **shown,
                "reversed": figures.slope + REVERSED_Z * np.sqrt(figures.slope_variance) < 0.0,
                "constant": figures.constant,
            }
        ).with_columns(pl.col(*shown).fill_nan(None))

    def estimate(self, score: Floats, variance: Floats) -> ScoreEstimates:
        """Return scores with intervals and probabilities.

        Parameters
        ----------
        score, variance : Floats
            Posterior means and variances in the panel's units, shape (items,).

        """
        out, sd = score, truth.panel_deviation(variance, self.spread, self.validity)
        if self.gold is not None:
            out, sd = self.gold.apply(score, variance)
        if self.kind == "constant":  # nobody knows how far the truth is
            sd = np.full(len(score), np.nan)
        low, high = truth.interval(out, sd, self.level)
        probability = None
        if self.label_line is not None:
            probability = truth.label_probability(score, self.centre, self.spread, self.label_line)
        elif self.threshold is not None:
            probability = truth.above(out, sd, self.threshold)
        return ScoreEstimates(out, low, high, probability)

    def predict(self, source: Source, **reading: Unpack[ReadOptions]) -> Scores:
        """Score other items by these judges; nothing is learned about them.

        Parameters
        ----------
        source, **reading
            Scores, as for `adj.scores`. Judges without a past count as typical ones; where judges are on scales of their own,
            their scores are left out.

        Returns
        -------
        Scores
            The scores of other items by these judges, who are taken as they are known; nothing is learned.

        """
        from adjudge.evaluation.scores.scores import Scores

        table = read_scores(source, Reading.of(reading))
        place = match_ids(table.workers, self.workers)
        strangers = np.flatnonzero(place < 0)
        if len(strangers):
            named = itemize(map(quote, table.workers.take(strangers).ids()), MAX_WORKER_EXAMPLES)
            fate = "they count as typical judges" if self.judge_mean is None else "their scales are not known: left out"
            warn(f"{len(strangers)} judges are new ({named}): {fate}", UnknownWorkers)
        score, variance, drawn = self._posterior(table, place)
        clipped = np.add.reduceat(drawn, table.arrays.item_ptr[:-1], dtype=np.float64)
        return Scores(table=table, panel=self, score=score, variance=variance, clipped=clipped, fitted={})

    def _posterior(self, table: ScoreTable, place: Any) -> tuple[Floats, Floats, Any]:
        """Return mean and variance of every item by the lines of known judges, and which scores were drawn in."""
        arrays, known, y = table.arrays, np.maximum(place, 0), table.arrays.y
        if self.judge_mean is not None and self.judge_sd is not None:
            y = (y - self.judge_mean[known[arrays.judge]]) / self.judge_sd[known[arrays.judge]]
        kept = np.clip(y, *self.clip)
        scores = ScoreArrays(arrays.item_ptr, arrays.judge, np.ascontiguousarray(kept))
        means = np.add.reduceat(kept, arrays.item_ptr[:-1]) / np.diff(arrays.item_ptr)
        if self.kind != "factor":
            return means, np.full(len(means), np.nan), kept != y
        figures, new = self.judges, place < 0
        line = judge_lines(
            np.where(new, 0.0, figures.bias[known]),
            np.where(new, 1.0, figures.slope[known]),
            np.where(new, self.typical_noise**2 + self.bias_spread, figures.noise[known] ** 2),
            np.where(new, 0.0, figures.slope_variance[known]),
            np.where(new, self.judge_mean is not None, figures.constant[known]),
        )
        share = None if not self.groups else group_shares(scores, group_codes(table.workers, self.groups))
        kernels = score_kernels()
        how: dict[str, Any] = {"centre": self.centre, "spread": self.spread, "huber": HUBER, "threads": cores()}
        x, variance, sums = means.copy(), np.empty(len(means)), np.empty((len(line), JUDGE_SUMS))
        for step in range(MAX_SCORE_PASSES):  # only weights change, so items move apart from each other
            before = x.copy()
            kernels.score_pass(*scores, line, share, robust=step > 0, x=x, variance=variance, sums=sums, **how)
            if step and np.abs(x - before).max() < MAX_ITEM_MOVE * self.spread**0.5:
                break
        return x, variance, kept != y

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the panel to a file that `adj.load` reads.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.

        """
        from adjudge.evaluation.scores.saved import write_panel

        write_panel(Path(path), self)


def group_codes(workers: Vocabulary, groups: Mapping[str, str]) -> Any:
    """Return the group of every judge as a code, [judges]; judges in none are groups of their own."""
    names: dict[object, int] = {}
    return np.array([names.setdefault(("group", groups[w]) if w in groups else w, len(names)) for w in workers.texts()], np.int64)
