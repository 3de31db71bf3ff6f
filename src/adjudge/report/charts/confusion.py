"""What is confused with what: a matrix of labels, or the worst pairs where labels are many."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import INK, PERCENT, SQUARE, WIDTH, distinct, hue, ink, nothing, on, shade, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.confusion import ConfusionView

MAX_CELL: Final = 64  # pixels of a cell where labels are few
PRINTED: Final = 0.005  # shares from which a cell says its figure
ROWS: Final = {"the chosen label": "label chosen", "the truth": "true label"}


def confusion(view: ConfusionView, mode: Mode) -> Chart:
    """Return the matrix, rows true and columns given, or the worst pairs."""
    if not view.votes.sum():
        return nothing(view.sentence)
    return _matrix(view, mode) if view.is_matrix else _pairs(view, mode)


def _matrix(view: ConfusionView, mode: Mode) -> Chart:
    k, names = len(view.labels), distinct(view.labels, 24)
    cell = min(MAX_CELL, SQUARE / k)
    short = dict(zip(view.labels, names, strict=True))
    cells = view.cells.with_columns(row=pl.col("true").replace_strict(short), column=pl.col("given").replace_strict(short))
    cells = cells.with_columns(ink(cells["share"], palette.SEQUENCE, mode))
    x = alt.X("column:N", sort=names, title="label given", scale=alt.Scale(domain=names))
    slanted = max(len(name) for name in names) * 7 > cell
    x = x.axis(labelAngle=-40 if slanted else 0, labelLimit=170, orient="bottom", ticks=False, domain=False)
    y = alt.Y("row:N", sort=names, title=ROWS[view.against], scale=alt.Scale(domain=names))
    y = y.axis(labelLimit=190, ticks=False, domain=False)
    base = on(cells).encode(x, y)
    colour = alt.Color("share:Q", legend=None, scale=shade(palette.SEQUENCE, mode, (0.0, 1.0)))
    tooltip = [
        alt.Tooltip("true:N", title=ROWS[view.against]),
        alt.Tooltip("given:N", title="given"),
        alt.Tooltip("votes:Q", format=",d"),
        alt.Tooltip("share:Q", format=".1%", title="share of the row"),
    ]
    rects = base.mark_rect(stroke=hue(palette.PAGE, mode), strokeWidth=1.5).encode(colour, tooltip=tooltip)
    printed = base.transform_filter(f"datum.share >= {PRINTED}").mark_text(fontSize=13 if cell >= 40 else 10)
    figures = printed.encode(text=alt.Text("share:Q", format=PERCENT), color=INK)
    support = pl.DataFrame({"row": names, "votes": [f"{words.count(int(n))}" for n in view.support]})
    muted = hue(palette.MUTED, mode)
    beside = on(support).mark_text(align="left", x=k * cell + 10, color=muted).encode(y, text="votes:N")
    head = on(pl.DataFrame({"text": ["votes"]})).mark_text(align="left", x=k * cell + 10, y=-10, color=muted)
    chart = alt.layer(rects, figures, beside, head.encode(text="text:N")).properties(width=k * cell, height=k * cell)
    drawn: Chart = titled(chart, view.sentence, "Each row adds up to 100%.")
    return drawn


def _pairs(view: ConfusionView, mode: Mode) -> Chart:
    worst = view.worst
    pairs = [
        f"{words.shortened(true, 24)} → {words.shortened(given, 24)}" for true, given in worst.select("true", "given").rows()
    ]
    shown = worst.with_columns(pair=pl.Series(distinct(pairs, 60), dtype=pl.String))
    shown = shown.with_columns(text=pl.Series([f"{words.count(v)}  ({words.percent(s)})" for v, s in _figures(worst)]))
    y = alt.Y("pair:N", sort=None, title=None, axis=alt.Axis(labelLimit=330, grid=False))
    x = alt.X("votes:Q", title=f"votes ({ROWS[view.against]} → label given)", axis=alt.Axis(format=",d", tickMinStep=1))
    base = on(shown).encode(x, y)
    tooltip = [alt.Tooltip("true:N", title=ROWS[view.against]), "given:N", "votes:Q", alt.Tooltip("share:Q", format=".1%")]
    bars = base.mark_bar(height=14, color=hue(palette.ACCENT, mode)).encode(tooltip=tooltip)
    text = base.mark_text(align="left", dx=5, fontSize=11, color=hue(palette.TEXT, mode)).encode(text="text:N")
    chart = alt.layer(bars, text).properties(width=WIDTH - 160, height=alt.Step(22))
    every = words.count(int(np.sum(view.true != view.given)))
    note = f"The {len(worst)} pairs that most votes confuse, of {every}; in brackets their share of the row."
    drawn: Chart = titled(chart, view.sentence, note)
    return drawn


def _figures(worst: pl.DataFrame) -> list[tuple[Any, ...]]:
    return worst.select("votes", "share").rows()
