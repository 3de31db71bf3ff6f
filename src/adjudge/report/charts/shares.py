"""Which labels are given, and which are chosen: two dots per label on one axis."""

from __future__ import annotations

from typing import Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, WIDTH, distinct, hue, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.shares import SharesView

KINDS: Final = ("share of the votes", "share of the labels")


def shares(view: SharesView, mode: Mode) -> Chart:
    """Return the share of each label among the votes (a ring) and among the labels chosen (a dot), most frequent first."""
    top = view.top
    if not len(top):
        return nothing(view.sentence)
    top = top.with_columns(name=pl.Series(distinct(top["label"]), dtype=pl.String))
    kinds = (KINDS[0], f"share of the {'labels chosen' if view.noun == 'label' else 'sets chosen'}")
    ends = pl.concat(
        top.select("label", "name", share=column, kind=pl.lit(kind))
        for column, kind in zip(("given", "chosen"), kinds, strict=True)
    )
    y = alt.Y("name:N", sort=top["name"].to_list(), title=None).axis(
        labelLimit=240, labelColor=hue(palette.TEXT, mode), grid=True
    )
    x = alt.X("share:Q", title="share").axis(format=PERCENT, tickCount=6).scale(zero=True)
    way = on(top).mark_rule(strokeWidth=2, color=hue(palette.LINE, mode))
    way = way.encode(alt.X("given:Q", title="share", axis=alt.Axis(format=PERCENT, tickCount=6)), alt.X2("chosen:Q"), y)
    grey, accent, page = hue(palette.GREY, mode), hue(palette.ACCENT, mode), hue(palette.PAGE, mode)
    legend = alt.Legend(orient="top", title=None)
    dots = (
        on(ends)
        .mark_point(size=90, strokeWidth=1.8, opacity=1)
        .encode(
            x,
            y,
            stroke=alt.Stroke("kind:N", legend=legend).scale(domain=kinds, range=[grey, accent]),
            fill=alt.Fill("kind:N", legend=legend).scale(domain=kinds, range=[page, accent]),
            tooltip=[
                alt.Tooltip("label:N", title=view.noun),
                alt.Tooltip("kind:N", title="what"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    chart = alt.layer(way, dots).properties(width=WIDTH, height=alt.Step(26))
    left = len(view.frame) - len(top)
    note = f"The {len(top)} most frequent of {words.counted(len(view.frame), view.noun)}." if left else ""
    drawn: Chart = titled(chart, view.sentence, note)
    return drawn
