"""Who is good, who is not, and how sure that is: votes against accuracy, a dot per worker or a cell for many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.io.frames import column
from adjudge.report import palette, words
from adjudge.report.picture import WIDTH, Axis, Form, Marks, Picture, Plot, Rule, Shade, Style, fields, name_axis, share_axis
from adjudge.results.groups import as_members
from adjudge.results.overview import TO_LOOK_AT, UNCLEAR_VERDICT, label_shares
from adjudge.results.result import Result

QUESTION: Final = "Who is good, who is not, and how sure are we?"
MAX_DOTS: Final = 2000  # workers that are drawn one by one
MAX_NOTABLE: Final = 300  # maximum number drawn or described
MAX_JUDGED: Final = 5_000_000  # votes up to which workers get verdicts: some ten seconds
MAX_CELLS: Final = 40_000_000  # votes x labels up to which they do: some four seconds
LEVEL: Final = 1.5  # times the votes of the worker with fewest that the one with most has, if all have about as many
VOTE_BINS: Final = 32  # of the logarithm of votes
ACCURACY_BINS: Final = 25
KEPT: Final = ("worker", "votes", "accuracy", "accuracy_low", "accuracy_high", "agreement", "verdict", "answers_like", "why")
HEIGHT: Final = 360  # pixels of the picture
MAX_NAMED_DOTS: Final = 20  # workers up to which every dot has a name
MAX_RANKED: Final = 40  # workers who are listed by name if all have about as many votes
MAX_LINES: Final = 300  # workers up to which all have their interval drawn; of more, only those to look at
ACCURACY: Final = "accuracy (expected share of right votes)"
UNJUDGED: Final = "worker"
PHRASES: Final = {
    "informative": "says something",
    "unclear": "cannot be told from guessing yet",
    "spammer": "answers without looking",
    "adversary": "avoids what others say",
    "copy": "copies",
}
NOTHING_FOUND: Final = "guesses, works against the others, or answers like another more often than the labels explain"
MEANING: Final = {
    "copy": ("copies another", "copy each other's answers"),
    "adversary": ("avoids what others say", "avoid what others say"),
    "spammer": ("answers without looking", "answer without looking"),
}


@dataclass(frozen=True, eq=False)
class WorkersView:
    """Every worker with its known figures, and the selection of them that a picture has room for."""

    frame: pl.DataFrame  # code, worker (text), votes, accuracy, accuracy_low, accuracy_high, verdict, why, …; null: not known
    people: Result  # the result whose workers have these codes: members of groups one by one
    chance: float  # accuracy of who guesses at the rates at which labels are given; NaN if it is not known
    is_judged: bool  # whether there are verdicts
    left_out: str  # why there are none

    @property
    def is_binned(self) -> bool:
        """Whether there are too many workers to draw one by one."""
        return len(self.frame) > MAX_DOTS

    @property
    def is_level(self) -> bool:
        """Whether all workers have about as many votes, as judges have: then their rank tells more than their votes."""
        votes = self.frame["votes"]
        return not self.is_binned and len(votes) > 1 and float(votes.max()) < LEVEL * float(votes.min())  # type: ignore[arg-type]

    @cached_property
    def notable(self) -> pl.DataFrame:
        """The workers to look at first, then those with most votes: at most `MAX_NOTABLE`."""
        order = {verdict: rank for rank, verdict in enumerate(TO_LOOK_AT)}
        grave = pl.col("verdict").replace_strict(order, default=len(order), return_dtype=pl.Int8).fill_null(len(order))
        return self.frame.sort(grave, -pl.col("votes"), "code").head(MAX_NOTABLE)

    @property
    def dots(self) -> pl.DataFrame:
        """The workers that are drawn one by one: all, or the notable ones."""
        return self.notable if self.is_binned else self.frame

    @cached_property
    def cells(self) -> pl.DataFrame:
        """How many workers are where: votes_from, votes_to, accuracy_from, accuracy_to, workers; none where all are dots."""
        if not self.is_binned:
            kinds = dict.fromkeys(("votes_from", "votes_to", "accuracy_from", "accuracy_to"), pl.Float64)
            return pl.DataFrame(schema={**kinds, "workers": pl.Int64})
        known = self.frame.filter(pl.col("accuracy").is_not_null())
        votes, accuracy = known["votes"].to_numpy(), known["accuracy"].to_numpy()
        edges = vote_edges(votes)
        across = np.clip(np.searchsorted(edges, votes, side="right") - 1, 0, len(edges) - 2)
        up = np.minimum((accuracy * ACCURACY_BINS).astype(np.int64), ACCURACY_BINS - 1)
        cell, workers = np.unique(across * ACCURACY_BINS + up, return_counts=True)
        across, up = np.divmod(cell, ACCURACY_BINS)
        return pl.DataFrame(
            {
                "votes_from": edges[across],
                "votes_to": edges[across + 1],
                "accuracy_from": up / ACCURACY_BINS,
                "accuracy_to": (up + 1) / ACCURACY_BINS,
                "workers": workers,
            }
        )

    @cached_property
    def verdicts(self) -> dict[str, int]:
        """How many workers have each verdict, the gravest first; empty if nobody was judged."""
        counted = dict(self.frame["verdict"].drop_nulls().value_counts().iter_rows())
        return {word: counted[word] for word in (*TO_LOOK_AT, UNCLEAR_VERDICT, "informative") if word in counted}

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        n = len(self.frame)
        if not n:
            return "There are no workers."
        if not self.verdicts:
            return f"{self._range()}{'' if not self.left_out else f' {self.left_out}'}"
        flagged = [(number, MEANING[word][number > 1]) for word, number in self.verdicts.items() if word in MEANING]
        unclear = self.verdicts.get(UNCLEAR_VERDICT, 0)
        few = f"; {words.count(unclear)} cannot be told from guessing yet" if 0 < unclear < n else ""
        if len(flagged) == 1:
            return words.sentence(f"{words.count(flagged[0][0])} of {words.tally(n, 'worker')} {flagged[0][1]}{few}")
        if flagged:
            found = words.join_parts([f"{words.count(number)} {what}" for number, what in flagged])
            return words.sentence(f"of {words.tally(n, 'worker')}, {found}{few}")
        if unclear == n:
            return "No worker can be told from guessing yet: more votes, or votes on the same tasks, would show who knows."
        if n == 1:
            return "There is one worker, whose answers nobody else's contradict."
        return words.sentence(f"none of {words.tally(n, 'worker')} {NOTHING_FOUND}{few}")

    def _range(self) -> str:
        known = self.frame["accuracy"].drop_nulls().drop_nans()
        if not len(known):
            return f"There are {words.tally(len(self.frame), 'worker')}."
        low, high = float(known.quantile(0.1, "nearest") or 0.0), float(known.quantile(0.9, "nearest") or 0.0)
        what = "All workers are" if len(known) < 10 else f"Eight of ten among {words.tally(len(known), 'worker')} are"
        low, high = (float(known.min() or 0.0), float(known.max() or 0.0)) if len(known) < 10 else (low, high)  # type: ignore[arg-type]
        return f"{what} right in {words.percent(low)} to {words.percent(high)} of their votes."

    def picture(self) -> Picture:
        """Return votes against accuracy, a dot per worker with its interval and verdict; of very many, cells under notable dots.

        If all have about as many votes, workers are ranked by accuracy instead.
        """
        dots = self._select_drawn()
        if not len(dots) and not len(self.cells):
            return Picture(self.sentence)
        plot, note = self._rank(dots) if self.is_level else (self._scatter(dots), "")
        return Picture(self.sentence, (plot,), (f"{self._note()} {note}".strip(),))

    def _select_drawn(self) -> pl.DataFrame:
        """Return the workers that are drawn, with their kind as the key names it."""
        dots = self.dots.filter(pl.col("accuracy").is_not_null())
        if self.is_binned:
            dots = dots.filter(pl.col("verdict").is_in(TO_LOOK_AT))
        kinds = {verdict: self._kind(verdict) for verdict in palette.VERDICTS} | {UNJUDGED: UNJUDGED}
        known = dots.select(
            "code",
            "worker",
            "votes",
            "accuracy",
            pl.col("accuracy_low").fill_null(pl.col("accuracy")).alias("low"),
            pl.col("accuracy_high").fill_null(pl.col("accuracy")).alias("high"),
            pl.col("verdict").fill_null(UNJUDGED),
            pl.col("why").fill_null(""),
        )
        return known.with_columns(
            kind=pl.col("verdict").replace_strict(kinds),
            name=pl.Series([words.shorten(worker, 200) for worker in known["worker"]], dtype=pl.String),
            interval=pl.Series([_between(*row) for row in known.select("low", "high").rows()], dtype=pl.String),
        )

    def _kind(self, verdict: str) -> str:
        return f"{verdict}: {PHRASES[verdict]} ({words.count(self.verdicts.get(verdict, 0))})"

    def _styles(self) -> dict[str, Style]:
        shown = [v for v in palette.VERDICTS if v in self.verdicts and (not self.is_binned or v in TO_LOOK_AT)]
        return {self._kind(v): Style(f"v-{v}", palette.VERDICTS[v].shape) for v in shown} or {UNJUDGED: Style("c0")}

    def _note(self) -> str:
        if not self.is_binned:
            return "Lines are 90% intervals." if self.frame["accuracy_low"].is_not_null().any() else ""
        named = int(self.frame["verdict"].is_in(TO_LOOK_AT).sum())
        if not named:
            return ""
        shown = min(named, len(self.notable))
        few = f"of {words.tally(named, 'worker')} to look at the first {words.count(shown)}"
        first = few if named > shown else "those to look at"
        return f"{words.tally(len(self.frame), 'worker')} as cells; {first} as dots: result.workers has all."

    def _accuracy_axis(self, dots: pl.DataFrame) -> Axis:
        """Return the axis of accuracy: from a tenth below everything that is drawn."""
        lowest = [*dots["low"], *self.cells["accuracy_from"], *([] if self.chance != self.chance else [self.chance])]
        return share_axis(ACCURACY, max(0.0, math.floor(10 * min(lowest, default=0.0) - 0.3) / 10), 1.0)

    def _rules(self, axis: str) -> tuple[Rule, ...]:
        if self.chance != self.chance:
            return ()
        return (Rule(self.chance, axis, f"guessing: {words.percent(self.chance)}", "middle"),)  # type: ignore[arg-type]

    def _scatter(self, dots: pl.DataFrame) -> Plot:
        most, least = float(self.frame["votes"].max()), float(self.frame["votes"].min())  # type: ignore[arg-type]
        ends = (least / 2, most * 2) if most < LEVEL * least else (max(least, 1.0) / 1.15, most * 1.15)
        x, y = Axis("votes (log scale)", *ends, form="count", scale="log", grid=False), self._accuracy_axis(dots)
        many: int = self.cells["workers"].max() or 2  # type: ignore[assignment]
        shade = Shade("workers", 1.0, max(many, 2), log=True, ends=("1 worker", f"{words.count(many)} in a cell"))
        where = fields(
            workers="count",
            votes_from=("count", "votes from"),
            votes_to=("count", "to below"),
            accuracy_from=("percent", "accuracy from"),
            accuracy_to=("percent", "to"),
        )
        cells = Marks(
            "cells", self.cells, x="votes_from", x2="votes_to", y="accuracy_from", y2="accuracy_to", shade=shade, hover=where
        )
        placed = self._place_names(dots, x, y)
        where_dots: dict[str, Any] = {"x": "votes", "y": "accuracy"}
        names = [
            Marks("texts", placed.filter(side="right"), **where_dots, text="name", style=TEXT, align="start", dx=8, fixed=True),
            Marks("texts", placed.filter(side="left"), **where_dots, text="name", style=TEXT, align="end", dx=-8, fixed=True),
        ]
        marks = (*([cells] if self.is_binned else []), *self._dots(dots, where_dots), *names)
        return Plot(x, y, marks, self._styles(), self._rules("y"), height=HEIGHT, identity="workers-plot")

    def _dots(self, dots: pl.DataFrame, place: dict[str, Any]) -> list[Marks]:
        """Return intervals and dots, those to look at on top; `place` names the columns of both axes."""
        grave = pl.col("verdict").is_in(TO_LOOK_AT)
        lines = dots if len(dots) <= MAX_LINES else dots.filter(grave)
        lines = lines if len(lines) <= MAX_LINES and not self.is_binned else lines.clear()
        ends = {"x2": "high"} if place["x"] == "accuracy" else {"y2": "high"}
        at = {axis: "low" if column == "accuracy" else column for axis, column in place.items()}
        interval: tuple[Form, str] = ("text", "90% interval")
        hover = fields(name="text", votes="count", accuracy="percent", interval=interval, verdict="text", why="text")
        return [
            Marks("lines", lines, **at, **ends, by="kind", opacity=0.55 if len(lines) <= 60 else 0.3),  # type: ignore[arg-type]
            Marks("dots", dots.sort(grave, maintain_order=True), **place, by="kind", hover=hover, identity="code"),
        ]

    def _rank(self, dots: pl.DataFrame) -> tuple[Plot, str]:
        """Return the workers by accuracy, and a note on their votes."""
        dots = dots.sort(-pl.col("accuracy"), "code").with_columns(rank=pl.int_range(1, len(dots) + 1))
        accuracy, styles = self._accuracy_axis(dots), self._styles()
        fewest, most = self.frame["votes"].min(), self.frame["votes"].max()
        votes = words.count(most) if fewest == most else f"{words.count(fewest)} to {words.count(most)}"  # type: ignore[arg-type]
        note = f"Each cast {votes} votes."
        if len(dots) <= MAX_RANKED:
            y = name_axis(dots["worker"])
            dots = dots.with_columns(row=pl.Series(y.names, dtype=pl.String))
            marks = self._dots(dots, {"x": "accuracy", "y": "row"})
            return Plot(accuracy, y, marks, styles, self._rules("x"), identity="workers-plot"), note
        x = Axis("workers by accuracy", 0.5, len(dots) + 0.5, 8, "count", grid=False)
        marks = self._dots(dots, {"x": "rank", "y": "accuracy"})
        return Plot(x, accuracy, marks, styles, self._rules("y"), height=HEIGHT, identity="workers-plot"), note

    def _place_names(self, dots: pl.DataFrame, x: Axis, y: Axis) -> pl.DataFrame:
        """Return the workers to name next to their dots: those to look at first, as long as names do not overlap."""
        order = {verdict: rank for rank, verdict in enumerate((*TO_LOOK_AT, UNCLEAR_VERDICT))}
        few = dots if len(dots) <= MAX_NAMED_DOTS else dots.filter(pl.col("verdict").is_in(TO_LOOK_AT))
        first = few.sort(
            pl.col("verdict").replace_strict(order, default=len(order), return_dtype=pl.Int8), -pl.col("votes"), "code"
        )

        def pixels(votes: float, accuracy: float) -> tuple[float, float]:
            return WIDTH * x.place(votes), HEIGHT * (1.0 - y.place(accuracy))

        places = [pixels(*row) for row in dots.select("votes", "accuracy").head(MAX_LINES).rows()]
        boxes = [(left - 5, top - 5, left + 5, top + 5) for left, top in places]  # names keep clear of the dots
        if self.chance == self.chance:  # and of the name of the rule
            below = pixels(x.high, self.chance)[1]
            boxes.append((WIDTH - 90, below - 18, WIDTH, below))
        rows: list[tuple[Any, ...]] = []
        for row in first.head(3 * MAX_NAMED_DOTS).iter_rows(named=True):
            name = words.shorten(row["worker"], 20)
            left, top = pixels(row["votes"], row["accuracy"])
            wide = 4 + 6.5 * len(name)
            sides = {
                side: (start, top - 7, start + wide, top + 7)
                for side, start in (("right", left + 6), ("left", left - 6 - wide))
                if 0 < start < WIDTH + 20 - wide
            }
            free = [
                side
                for side, box in sides.items()
                if all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in boxes)
            ]
            if len(dots) <= MAX_NAMED_DOTS:  # every dot has its name, even if names overlap
                free = free or [*sides, "right"]
            if free and len(rows) < MAX_NAMED_DOTS:
                boxes += [sides[free[0]]] if free[0] in sides else []
                rows.append((row["votes"], row["accuracy"], name, free[0]))
        schema = {"votes": pl.Int64, "accuracy": pl.Float64, "name": pl.String, "side": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")


TEXT: Final = Style("text")


def _between(low: float, high: float) -> str:
    return "" if low == high else f"{words.percent(low)} to {words.percent(high)}"


def workers(result: Result, *, judged: bool | None = None) -> WorkersView:
    """Return the view of the workers of a result.

    - `result`: of any model, in memory or on disk.
    - `judged`: whether to look for verdicts, which costs about as much as the fit; by default where votes are in memory and
      not too many.

    >>> import adjudge as adj
    >>> workers(adj.aggregate(adj.simulate(tasks=300, workers=8, seed=1).votes)).sentence
    'None of 8 workers guesses, works against the others, or answers like another more often than the labels explain.'
    """
    people = result if result.grouping is None else as_members(result)
    few = len(people.votes) <= MAX_JUDGED and len(people.votes) * people.votes.n_labels <= MAX_CELLS
    asked = (result.is_here and few) if judged is None else judged
    why = ""
    if not asked:
        reason = "for this many votes" if result.is_here else "for votes on disk"
        remedy = "result.workers, or --workers, shows them" if result.is_here else "aggregate in memory to get them"
        why = f"Verdicts are not computed {reason}: {remedy}."
    known = people.workers_frame(trust=asked or not result.is_here)
    frame = known.select(
        pl.Series("code", np.arange(len(known))), *(name for name in KEPT if name in known.columns)
    ).with_columns(pl.col("worker").cast(pl.String), pl.col("accuracy").cast(pl.Float64).fill_nan(None))
    missing = [name for name in KEPT if name not in frame.columns]
    kinds = {"accuracy_low": pl.Float64, "accuracy_high": pl.Float64}
    frame = frame.with_columns(pl.lit(None, kinds.get(name, pl.String)).alias(name) for name in missing)
    frame = frame.with_columns(
        pl.col("accuracy_low", "accuracy_high").fill_nan(None), pl.col("answers_like").cast(pl.String), _groups(result, people)
    )
    has_verdicts = "verdict" in known.columns and bool(known["why"].is_not_null().any())
    if not has_verdicts:
        frame = frame.with_columns(verdict=pl.lit(None, pl.String))
    return WorkersView(frame, people, chance_level(result), has_verdicts, why)


def _groups(result: Result, people: Result) -> pl.Series:
    """Return the group that each worker votes in, as text; null if there is none."""
    grouping = result.grouping
    if grouping is None:
        return pl.repeat(None, people.votes.n_workers, dtype=pl.String, eager=True).alias("group")
    known = pl.DataFrame({"worker": column(grouping.members.workers), "group": column(grouping.groups, grouping.group)})
    own = pl.DataFrame({"worker": column(people.votes.workers)})
    return own.join(known, on="worker", how="left", maintain_order="left")["group"].cast(pl.String).alias("group")


def chance_level(result: Result) -> float:
    """Return how often a worker is right who guesses at the rates at which labels are given; NaN if it is not known."""
    shares = label_shares(result)
    return float("nan") if not shares else float(sum(one.of_votes * one.of_labels for one in shares))


def vote_edges(votes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return edges of bins of votes, equal in their logarithm and whole where bins would hold no whole number."""
    most = max(float(votes.max()) if len(votes) else 1.0, 2.0)
    edges = np.unique(np.round(np.geomspace(1.0, most + 1.0, VOTE_BINS + 1)))
    return edges if len(edges) > 1 else np.array([1.0, 2.0])
