"""One call from numeric scores to a score per item with an interval, and what each judge does to the scale: `adj.scores`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Unpack

import numpy as np
import polars as pl

from adjudge.data import options
from adjudge.data.options import Choice, Number, ReadOptions, Rules
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Understood
from adjudge.errors import InputError, OptionError, SuspiciousVotes, itemize, pluralize, quote, warn
from adjudge.evaluation.scores import fit as fitting
from adjudge.evaluation.scores import truth
from adjudge.evaluation.scores.fit import ScoreFit
from adjudge.evaluation.scores.panel import ScoreEstimates, ScorePanel, group_codes
from adjudge.evaluation.scores.reading import MAX_SCORE, ScoreTable, ids_column, read_gold_scores, read_scores
from adjudge.io.frames import Frame, to_native, vocabulary
from adjudge.io.reading import Reading
from adjudge.io.sources import Source
from adjudge.io.workers import read_groups, require_known
from adjudge.kernels.scores_reference import Floats, ScoreArrays
from adjudge.results.plotting import Picture, Theme, draw, load

Units = Literal["auto", "own", "shared"]
RULES: Final[Rules] = {
    "units": Choice(("auto", "own", "shared")),
    "validity": Number(least=0.01, most=1),
    "level": Number(least=0.5, most=0.999),
}
THRESHOLD: Final = Number(least=-MAX_SCORE, most=MAX_SCORE)
MIN_SCORE_RELIABILITY: Final = 0.2  # below it judges hardly agree
MAX_NAMED_JUDGES: Final = 5
MAX_CARD_ITEMS: Final = 8
VALIDITY_GOLD: Final = 20  # scores that measure the validity


@dataclass(frozen=True)
class ScorePlots:
    """The pictures of scores, each under a sentence that says what it shows."""

    study: Scores

    def judges(self, *, theme: Theme = "light") -> Picture:
        """Return bias against noise, a dot per judge.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            Bias against noise, a dot per judge.

        """
        return draw("scores:judges", self.study, theme=theme)

    def items(self, *, theme: Theme = "light") -> Picture:
        """Return items with their intervals, from the highest score to the lowest; of many an even selection.

        Parameters
        ----------
        theme : Theme, default "light"
            "light", "dark" or "none", which leaves the look to Altair's own themes.

        Returns
        -------
        Picture
            Items with their intervals, from the highest score to the lowest; of many an even selection.

        """
        return draw("scores:items", self.study, theme=theme)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Scores:
    """A score per item with an interval, and the judges behind them; `print` states the assumptions.

    Examples
    --------
    >>> import adjudge as adj
    >>> rows = [(item, judge, item + shift) for item in range(9) for judge, shift in [("ann", 0.5), ("bob", -0.5), ("eve", 0.0)]]
    >>> found = adj.scores(rows)
    >>> found
    Scores(9 items, 3 judges, 27 scores)
    >>> found.judges.columns
    ['worker', 'n', 'bias', 'slope', 'noise', 'agreement', 'agreement_low', 'agreement_high', 'reversed', 'constant']

    """

    table: ScoreTable
    panel: ScorePanel
    score: Floats  # [items] in the panel's units
    variance: Floats  # [items]
    clipped: Floats  # [items] scores drawn in
    fitted: Mapping[str, Any]  # facts of the fit; empty for predictions

    def __repr__(self) -> str:
        judges, count = len(self.table.workers), len(self.table.arrays.y)
        return f"Scores({pluralize(len(self.score), 'item')}, {pluralize(judges, 'judge')}, {pluralize(count, 'score')})"

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _repr_html_(self) -> str:
        from adjudge.results.card import Card, CardTable

        figures: list[tuple[str, object]] = [("items", len(self.score)), ("judges", len(self.table.workers))]
        figures += [(name, value) for name in ("reliability", "validity") if (value := self.facts[name]) is not None]
        shown = self.items_frame().select("task", "score", "low", "high", "n")
        table = CardTable.cut("items", shown.columns, shown.rows(), "scores.items", MAX_CARD_ITEMS)
        steps = ["scores.judges", "scores.plot.judges()", "scores.report(path)"]
        return Card(repr(self), figures, self.sentences(), [table], next_steps=steps).html()

    @property
    def understood(self) -> Understood:
        """How the source was read."""
        return self.table.understood

    @cached_property
    def items(self) -> Frame:
        """One row per item: task, score, low, high, n, clipped; and label, probability with a threshold or gold labels.

        `score` is the mean that the whole panel would give, or an estimate of the gold score where gold scores are known. The
        interval from `low` to `high` contains the truth as often as `level` says, if the validity is right. `n` scores were
        given, of which `clipped` lay so far out that they were drawn in. `label` is True above the threshold (with gold labels:
        where these would be 1), with its `probability`. Tasks without scores come last, without a score.
        """
        return to_native(self.items_frame(), self.table.frame_kind)

    @cached_property
    def judges(self) -> Frame:
        """One row per judge: worker, n, bias, slope, noise, agreement with an interval, reversed, constant.

        A judge gives centre + bias + slope * (score - centre), with standard deviation `noise`, in the panel's units. `agreement`
        is the correlation with the other judges on the same items; null below five scores. `reversed` judges surely turn the
        scale round, `constant` ones say one thing only and count for nothing.
        """
        return to_native(self.panel.judges_frame(), self.table.frame_kind)

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The figures behind the scores, by name.

        `reliability` (squared correlation with the mean of infinitely many such judges), `validity` (share of the judges' common
        signal that is true: assumed, or measured by gold scores), `validity_from` ("assumption", "gold"), `spread` (standard
        deviation of the items), `centre`, `units`, `clipped` scores, `passes`, `converged`, `gold`, `panels` (judges who share
        items are one), `items`, `judges`, `scores`.
        """
        panel = self.panel
        measured = None if panel.gold is None else panel.gold.validity(panel.spread)
        known = {
            "reliability": None,
            "validity": panel.validity if measured is None else measured,
            "validity_from": "assumption" if measured is None else "gold",
            "spread": math.sqrt(panel.spread),
            "centre": panel.centre,
            "units": "shared" if panel.judge_mean is None else "own",
            "clipped": int(self.clipped.sum()),
            "items": len(self.score),
            "judges": len(self.table.workers),
            "scores": len(self.table.arrays.y),
        }
        return known | dict(self.fitted)

    @cached_property
    def estimates(self) -> ScoreEstimates:
        """Scores, both ends of their intervals, and probabilities of labels, as arrays."""
        return self.panel.estimate(self.score, self.variance)

    def items_frame(self) -> pl.DataFrame:
        """Return `items` as a polars frame."""
        found, n = self.estimates, np.diff(self.table.arrays.item_ptr)
        columns: dict[str, Any] = {"score": found.score, "low": found.low, "high": found.high}
        columns |= {"n": n, "clipped": self.clipped.astype(np.int64)}
        if found.probability is not None:
            columns |= {"label": found.probability >= 0.5, "probability": found.probability}
        frame = pl.DataFrame(columns).with_columns(pl.col(pl.Float64).fill_nan(None))
        if found.probability is not None:
            frame = frame.with_columns(label=pl.when(pl.col("probability").is_not_null()).then("label"))
        empty = len(self.table.unscored)
        if empty:
            frame = pl.concat([frame, pl.DataFrame({"n": [0] * empty, "clipped": [0] * empty})], how="diagonal")
        return frame.insert_column(0, ids_column(self.table.tasks, self.table.unscored))

    @property
    def plot(self) -> ScorePlots:
        """Pictures of the judges and of the items."""
        return ScorePlots(self)

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write one page that shows these scores: items, judges, and the assumptions behind the figures.

        Parameters
        ----------
        path : str or path
            The new file; it is written completely or not at all.
        title : str, optional
            The heading of the page.

        """
        load("adjudge.report.scores:write")(self, Path(path), title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned about the judges to a file that `adj.load` reads.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.

        """
        self.panel.save(path)

    def predict(self, source: Source, **reading: Unpack[ReadOptions]) -> Scores:
        """Score other items by the same judges; nothing is learned about them.

        Parameters
        ----------
        source, **reading
            Scores, as for `adj.scores`.

        Returns
        -------
        Scores
            The scores of other items by the same judges, of whom nothing is learned.

        """
        return self.panel.predict(source, **reading)

    def sentences(self) -> list[str]:
        """Return the assumptions behind the figures, as sentences."""
        facts, panel = self.facts, self.panel
        out = [self._about_scale(), *self._about_intervals()]
        if facts["reliability"] is not None:
            out.append(
                f"reliability {facts['reliability']:.2f}: the squared correlation with the mean of infinitely many such judges"
            )
        frame = panel.judges_frame()
        for word, what in (("reversed", "turn the scale round"), ("constant", "say one thing only, and count for nothing")):
            names = frame.filter(word)["worker"].to_list()
            if names:
                out.append(f"{word}: {itemize(map(quote, names), MAX_NAMED_JUDGES)} {what}")
        if facts["clipped"]:
            out.append(f"{pluralize(facts['clipped'], 'score')} far from all others drawn in to six robust standard deviations")
        return out

    def _about_scale(self) -> str:
        facts = self.facts
        if self.panel.gold is not None:
            return f"scores are on the scale of {facts['gold']} gold scores"
        if facts["units"] == "own":
            return "judges use ranges that differ more than fivefold: scores are in standard deviations, 0 being the mean"
        return "scores are on the panel's scale: the mean that all judges would give"

    def _about_intervals(self) -> list[str]:
        kind, level, facts = self.panel.kind, f"{100 * self.panel.level:g}%", self.facts
        if kind == "constant":
            return ["all scores are equal, which tells nothing of items or judges"]
        out = []
        if kind == "means":
            out.append("too few items and judges overlap to tell them apart: scores are plain means")
        if np.isnan(self.estimates.low).all():
            return [*out, "their errors cannot be estimated, so intervals are left out"]
        if facts["validity_from"] == "gold":
            out.append(f"{level} intervals hold the truth as gold shows it (validity {facts['validity']:.2f})")
        else:
            out.append(
                f"{level} intervals assume a validity of {self.panel.validity:g}: that share of the judges' common signal is "
                f"true, which scores cannot show; {VALIDITY_GOLD} gold scores (gold=…, --gold) measure it"
            )
        return out

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain Python values, ready for JSON."""
        lists = {"items": self.items_frame().to_dicts(), "judges": self.panel.judges_frame().to_dicts()}
        return {**lists, "facts": dict(self.facts), "sentences": self.sentences()}


def scores(
    source: Source,
    gold: Source | None = None,
    groups: Source | None = None,
    units: Units = "auto",
    validity: float = truth.DEFAULT_VALIDITY,
    threshold: float | None = None,
    level: float = 0.9,
    **reading: Unpack[ReadOptions],
) -> Scores:
    """Merge numeric scores of several judges into one per item with an interval, and estimate how each judge uses the scale.

    A judge's score is centre + bias + slope * (item - centre) + error. All are estimated jointly: judges are shrunk towards the
    typical one, and scores far from their judge's line count less. Runs in memory, with about 90 bytes per score.

    Parameters
    ----------
    source : source
        Scores by task and worker, whole numbers or decimals: anything that `adj.read` takes. The column may be called score,
        rating, value, grade, or as a label would be.
    gold : source, optional
        Known scores of some tasks (a dict task -> score, a frame or file). Scores are then on the scale of the gold, and
        intervals are calibrated by it. Gold of only 0 and 1 (or true and false) are labels: every item then gets the probability
        of label 1.
    groups : source, optional
        Judges that count once per item, such as several prompts of one model: a table of worker and group, or a dict.
    units : Units, default "auto"
        "shared" if all judges use one range; "own" converts each to standard deviations first; "auto" does so if ranges differ
        more than fivefold.
    validity : float, default 0.5
        The share of the judges' common signal that is true, assumed if no gold scores are given: people reach .99, panels of
        language models .34 to .66. 1 estimates the mean of such judges.
    threshold : float, optional
        The score that separates labels: items get the probability of a truth above it.
    level : float, default 0.9
        Level of the intervals.
    **reading
        The options of `adj.read`, without those for labels.

    Returns
    -------
    Scores
        Merged scores with intervals, and the judges.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or does not go with another.

    Examples
    --------
    >>> import adjudge as adj
    >>> rows = [(item, judge, item + shift) for item in range(9) for judge, shift in [("ann", 0.5), ("bob", -0.5), ("eve", 0.0)]]
    >>> found = adj.scores(rows, threshold=4.5)
    >>> found.items.select("task", pl.col("score").round(1), "n", "label").rows()[4:6]
    [(4, 4.0, 3, False), (5, 5.0, 3, True)]
    >>> [round(bias, 1) + 0.0 for bias in found.judges["bias"]]
    [0.5, -0.5, 0.0]

    """
    options.check({"units": units, "validity": validity, "level": level}, RULES)
    if threshold is not None:
        THRESHOLD.check("threshold", threshold)
    how = Reading.of(reading)
    table = read_scores(source, how)
    members = _read_groups(groups, table.workers)
    n_judges = len(table.workers)
    own = units == "own" or (units == "auto" and fitting.ranges_differ(table.arrays, n_judges))
    group = group_codes(table.workers, members) if members else None
    fit = (fitting.fit_own_units if own else fitting.fit)(table.arrays, n_judges, group=group)
    known: dict[str, Any] = {"gold": None, "label_line": None}
    gold_count = 0
    if gold is not None:
        item, value = read_gold_scores(gold, table.tasks, strict=how.strict)
        gold_count = len(value)
        if np.isin(value, (0.0, 1.0)).all():
            known["label_line"] = truth.fit_logistic(fit, item, value == 1.0)
        elif gold_count >= truth.MIN_GOLD_SCORES and not np.ptp(value):
            raise InputError(
                f"all {gold_count} gold scores are {value[0]:g}, which shows no scale: give gold of different scores, or none"
            )
        else:
            known["gold"] = truth.gold_scale(fit, item, value)
    panels = _panels(table.arrays, n_judges)
    _warn(fit, panels)
    reliability = fit.reliability
    facts = {
        "reliability": None if math.isnan(reliability) else reliability,
        "gold": gold_count,
        "panels": panels,
        "passes": fit.passes,
        "converged": fit.converged,
    }
    panel = ScorePanel(
        workers=table.workers,
        validity=float(validity),
        level=float(level),
        threshold=None if threshold is None else float(threshold),
        groups=members,
        **{name: getattr(fit, name) for name in OF_FIT},
        **known,
    )
    return Scores(table=table, panel=panel, score=fit.score, variance=fit.variance, clipped=fit.clipped, fitted=facts)


OF_FIT: Final = (
    *("judges", "agreement", "compared", "centre", "spread", "clip", "typical_noise", "bias_spread", "kind"),
    *("judge_mean", "judge_sd"),
)


def _read_groups(groups: Source | None, workers: Vocabulary) -> dict[str, str]:
    if groups is None:
        return {}
    if isinstance(groups, str) and groups == "answers_like":
        raise OptionError("groups='answers_like' compares labels, and these are scores: give a table of worker and group")
    members = read_groups(groups)
    require_known(vocabulary(pl.Series(list(members), dtype=pl.String)), workers, "groups")
    return members


def _panels(scores: ScoreArrays, n_judges: int) -> int:
    """Return the number of panels of judges that have no item in common with each other."""
    label = np.arange(n_judges)
    while True:
        of_item = np.minimum.reduceat(label[scores.judge], scores.item_ptr[:-1])
        least = label.copy()
        np.minimum.at(least, scores.judge, np.repeat(of_item, np.diff(scores.item_ptr)))
        least = least[least]
        if np.array_equal(least, label):
            return len(np.unique(label))
        label = least


def _warn(fit: ScoreFit, panels: int) -> None:
    """Warn of judges who hardly agree, and of panels that share no item."""
    if fit.kind != "factor":
        return
    if fit.reliability < MIN_SCORE_RELIABILITY:
        warn(
            f"judges hardly agree beyond chance: the scores have a reliability of {fit.reliability:.2f}; ask more judges, or a "
            "clearer question",
            SuspiciousVotes,
        )
    if panels > 1:
        warn(
            f"the judges fall into {panels} panels that share no item: scores compare within a panel, and across panels only if "
            "the items of all are alike on average",
            SuspiciousVotes,
        )
