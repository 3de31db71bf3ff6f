"""Who leads: strengths as dots with intervals on one axis, the strongest on top."""

from __future__ import annotations

from typing import Any, Final, Protocol

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import WIDTH, distinct, hue, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt

MAX_ITEMS: Final = 40
SURE, DOUBT = "separated from its neighbours", "not separated from a neighbour"


class Ranked(Protocol):
    """What a picture takes of a ranking; `adj.rank` returns it."""

    @property
    def level(self) -> float:
        """Of the intervals."""
        ...

    def leaderboard_frame(self) -> pl.DataFrame:
        """Return rank, item, strength, low, high, rank_low, rank_high, comparisons, points and component of each."""
        ...


def ranking(found: Ranked, mode: Mode) -> Chart:
    """Return the strengths of the first items of the largest component."""
    board = found.leaderboard_frame()
    largest = board.filter(pl.col("component") == 1)
    shown = largest.head(MAX_ITEMS)
    shown = shown.with_columns(
        item=pl.Series(distinct(shown["item"].cast(pl.String).to_list())),
        kind=pl.when(pl.col("rank_low") == pl.col("rank_high")).then(pl.lit(SURE)).otherwise(pl.lit(DOUBT)),
        ranks=pl.format("{} to {}", "rank_low", "rank_high"),
    )
    leader = words.shortened(str(largest["item"][0]), 40)
    lead = int((largest["rank_low"] == 1).sum())
    told = f"{leader} leads." if lead == 1 else f"{leader} leads, and {lead - 1} more may be as strong."
    notes = [f"Lines are {words.percent(found.level)} intervals; 0 is the mean item."]
    if len(largest) > len(shown):
        notes.append(f"The first {len(shown)} of {len(largest)} items.")
    if len(largest) < len(board):
        notes.append("The largest component: others were never compared with it.")
    return titled(_dots(shown, mode), told, " ".join(notes))  # type: ignore[no-any-return]


def _dots(shown: pl.DataFrame, mode: Mode) -> Any:
    kinds = [one for one in (SURE, DOUBT) if one in set(shown["kind"])]
    accent, grey, page = hue(palette.ACCENT, mode), hue(palette.GREY, mode), hue(palette.PAGE, mode)
    colours = {SURE: accent, DOUBT: grey}
    legend = alt.Legend(orient="top", title=None)
    stroke = alt.Stroke("kind:N", legend=legend).scale(domain=kinds, range=[colours[one] for one in kinds])
    fill = alt.Fill("kind:N", legend=legend).scale(domain=kinds, range=[accent if one == SURE else page for one in kinds])
    x: dict[str, Any] = {"title": "strength (nats: log-odds of winning against the mean item)", "scale": alt.Scale(zero=False)}
    y = alt.Y("item:N", sort=None, title=None, axis=alt.Axis(labelColor=hue(palette.TEXT, mode), grid=True, labelLimit=200))
    figures = [alt.Tooltip(f"{name}:Q", format=".2f") for name in ("strength", "low", "high")]
    tooltip = ["item:N", "rank:Q", "ranks:N", *figures, alt.Tooltip("points:Q", format=".0f"), "comparisons:Q"]
    base = on(shown).encode(y)
    lines = base.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q", **x), alt.X2("high:Q"), stroke=stroke)
    dots = base.mark_point(size=90, strokeWidth=1.6, opacity=1).encode(
        alt.X("strength:Q", **x), stroke=stroke, fill=fill, tooltip=tooltip
    )
    mean = on(pl.DataFrame({"strength": [0.0]})).mark_rule(strokeDash=[5, 4], color=hue(palette.MUTED, mode))
    return alt.layer(mean.encode(alt.X("strength:Q", **x)), lines, dots).properties(width=WIDTH, height=alt.Step(24))
