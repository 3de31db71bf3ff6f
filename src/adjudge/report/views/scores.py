"""Pictures of numeric scores: the judges by bias and noise, and items with their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from adjudge.report import words
from adjudge.report.picture import Axis, Marks, Picture, Plot, Rule, Style, fields, name_rows

if TYPE_CHECKING:
    from adjudge.evaluation.scores.scores import Scores

MAX_SCORE_ITEMS: Final = 30  # rows of a picture
MAX_NAMED_JUDGE_DOTS: Final = 20  # judges up to which every dot has a name
MAX_DOTS: Final = 2000
USUAL, REVERSED, CONSTANT = "judge", "turns the scale round", "says one thing only"
JUDGE_STYLES: Final = {USUAL: Style("accent"), REVERSED: Style("doubt", "diamond"), CONSTANT: Style("grey", "ring")}
ROOM: Final = 0.08  # of the range, around what is drawn
TEXT: Final = Style("text")


def judges(study: Scores) -> Picture:
    """Return bias against noise, a dot per judge: the typical judge is without bias, and the best ones are at the foot."""
    frame = study.panel.judges_frame()
    known = frame.with_columns(
        name=pl.Series([words.shorten(words.name(worker), 24) for worker in frame["worker"]], dtype=pl.String),
        kind=pl.when("constant").then(pl.lit(CONSTANT)).when("reversed").then(pl.lit(REVERSED)).otherwise(pl.lit(USUAL)),
    ).drop_nulls("noise")
    told = _about_judges(known)
    if not len(known) or study.panel.kind != "factor":
        return Picture(told)
    drawn = known.head(MAX_DOTS)
    reach = max(float(np.abs(drawn["bias"]).max()), 1e-9) * (1.0 + 2 * ROOM)
    hover = fields(
        name="text", n=("count", "scores"), bias="signed", slope="number", noise="number", agreement="number", kind="text"
    )
    marks = [Marks("dots", drawn, x="bias", y="noise", by="kind", hover=hover)]
    if len(drawn) <= MAX_NAMED_JUDGE_DOTS:
        marks.append(Marks("texts", drawn, x="bias", y="noise", text="name", style=TEXT, align="start", dx=8, fixed=True))
    plot = Plot(
        Axis("bias (how much higher than the panel)", -reach, reach, 7, "signed"),
        Axis("noise (standard deviation)", 0.0, float(drawn["noise"].max()) * (1.0 + ROOM), 6),  # type: ignore[arg-type]
        marks,
        styles={kind: style for kind, style in JUDGE_STYLES.items() if kind in set(drawn["kind"])},
        rules=(Rule(0.0, "x"),),
    )
    note = f"The first {MAX_DOTS} of {words.count(len(known))} judges." if len(known) > MAX_DOTS else ""
    return Picture(told, (plot,), (f"In the units of the scores. {note}".strip(),))


def _about_judges(known: pl.DataFrame) -> str:
    """Return the sentence above the judges."""
    n = len(known)
    odd = [(int(known[column].sum()), what) for column, what in (("reversed", REVERSED), ("constant", CONSTANT))]
    found = [f"{words.count(number)} {what}" for number, what in odd if number]
    if found:
        return words.sentence(f"of {words.tally(n, 'judge')}, {words.join_parts(found)}")
    if n < 2:
        return words.sentence(f"there {'is' if n == 1 else 'are'} {words.tally(n, 'judge')}")
    high, low = known.sort("bias").row(-1, named=True), known.sort("bias").row(0, named=True)
    return words.sentence(
        f"{words.quote(high['name'])} scores highest ({high['bias']:+.2g} above the panel), {words.quote(low['name'])} lowest "
        f"({low['bias']:+.2g})"
    )


def items(study: Scores) -> Picture:
    """Return items with their intervals, from the highest score to the lowest; of many an even selection."""
    frame = study.items_frame().drop_nulls("score").sort("score", descending=True, maintain_order=True)
    if not len(frame):
        return Picture("No items have scores.")
    first, last = (frame.row(at, named=True) for at in (0, -1))
    ends = f"{words.quote(words.name(str(first['task'])))} has the highest score ({first['score']:.3g})"
    lowest = f", {words.quote(words.name(str(last['task'])))} the lowest ({last['score']:.3g})" if len(frame) > 1 else ""
    told = words.sentence(f"of {words.tally(len(frame), 'item')}, {ends}{lowest}")
    chosen = np.unique(np.linspace(0, len(frame) - 1, min(len(frame), MAX_SCORE_ITEMS)).round().astype(np.int64))
    y, shown = name_rows(frame[chosen].with_columns(pl.col("task").cast(pl.String)), "task")
    shown = shown.with_columns(low=pl.coalesce("low", "score"), high=pl.coalesce("high", "score"))
    low, high = float(shown["low"].min()), float(shown["high"].max())  # type: ignore[arg-type]
    room = ROOM * (high - low) or 1.0
    hover = fields(task="text", score="number", low="number", high="number", n=("count", "scores"))
    plot = Plot(
        Axis("score", low - room, high + room, 7),
        y,
        (
            Marks("lines", shown, x="low", x2="high", y="name", opacity=0.7),
            Marks("dots", shown, x="score", y="name", hover=hover),
        ),
        columns=[("score", [f"{score:.3g}" for score in shown["score"]])],
    )
    some = f"{len(shown)} of {words.count(len(frame))} items, evenly by rank. " if len(shown) < len(frame) else ""
    return Picture(told, (plot,), (f"{some}Lines are {words.percent(study.panel.level)} intervals.",))
