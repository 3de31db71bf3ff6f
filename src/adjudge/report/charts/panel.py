"""How many judges are enough: accuracy and effective votes against the size of a panel, with its cost below."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Protocol

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, WIDTH, hue, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt

RANDOM, CHOSEN = "random panels", "panels chosen by what each judge adds"
MAX_TICKS: Final = 14


class Studied(Protocol):
    """What a picture takes of a study of panels; `adj.panel` returns it."""

    @property
    def by(self) -> str:
        """What a panel is made of: "judges", or "votes" per task."""
        ...

    @property
    def enough(self) -> int:
        """The size from which on more adds nothing to speak of."""
        ...

    def sizes_frame(self) -> pl.DataFrame:
        """Return size, accuracy, low, high, effective_votes and cost of the panels of each size."""
        ...

    def panels_frame(self) -> pl.DataFrame:
        """Return size, accuracy, low and high of chosen panels; none for a crowd."""
        ...

    def sentences(self) -> Sequence[str]:
        """Return what was found, the answer first."""
        ...


def panel(study: Studied, mode: Mode) -> Chart:
    """Return accuracy by size with a band that holds nine of ten panels, over the independent votes that they amount to."""
    sizes = study.sizes_frame()
    kinds = ("size", "accuracy", "low", "high")
    parts = [sizes.select(*kinds, kind=pl.lit(RANDOM))]
    chosen = study.panels_frame()
    if len(chosen):
        best = chosen.sort("size", -pl.col("accuracy"), maintain_order=True).unique("size", keep="first", maintain_order=True)
        parts.append(best.select(*kinds, kind=pl.lit(CHOSEN)))
    points = pl.concat(parts, how="vertical_relaxed").drop_nulls("accuracy")
    charts = [_accuracy(study, sizes, points, mode)]
    if sizes["effective_votes"].is_not_null().any():
        charts.append(_effective(study, sizes, mode))
    told = study.sentences()
    chart = alt.vconcat(*charts, spacing=18) if len(charts) > 1 else charts[0]
    return titled(chart, words.sentence(told[0]) if told else "", "The band holds nine of ten random panels.")  # type: ignore[no-any-return]


def _across(study: Studied, sizes: pl.DataFrame, *, is_last: bool) -> dict[str, Any]:
    """Return the axis of sizes: under each size what such a panel costs per task, where costs are known."""
    unit = "judges in the panel" if study.by == "judges" else "votes per task"
    every = sizes["size"].to_list()
    step = -(-len(every) // MAX_TICKS)
    ticks = sorted({*every[::step], every[-1]})
    axis: dict[str, Any] = {"values": ticks, "format": "d", "grid": False, "labels": is_last}
    costs = {str(size): f"{cost:.2g}" for size, cost in sizes.select("size", "cost").rows() if cost is not None}
    if costs and is_last:  # figures alone: no name is read as an expression
        axis["labelExpr"] = f"[format(datum.value, 'd'), {json.dumps(costs)}[format(datum.value, 'd')]]"
        unit += ", and below the cost of a task"
    low, high = min(every), max(every)
    scale = alt.Scale(domain=(low, max(high, low + 1)), nice=False, padding=12)
    return {"title": unit if is_last else None, "axis": alt.Axis(**axis), "scale": scale}


def _accuracy(study: Studied, sizes: pl.DataFrame, points: pl.DataFrame, mode: Mode) -> Any:
    across = _across(study, sizes, is_last=not sizes["effective_votes"].is_not_null().any())
    ends: list[float] = [*points["low"].drop_nulls(), *points["high"].drop_nulls(), *points["accuracy"]]
    room = 0.08 * (max(ends) - min(ends)) + 1e-3
    up: dict[str, Any] = {
        "title": "accuracy (share of right labels)",
        "axis": alt.Axis(format=PERCENT, tickCount=6),
        "scale": alt.Scale(domain=(max(min(ends) - room, 0.0), min(max(ends) + room, 1.0)), nice=False),
    }
    kinds = [kind for kind in (RANDOM, CHOSEN) if kind in set(points["kind"])]
    colours = {RANDOM: hue(palette.ACCENT, mode), CHOSEN: hue(palette.DOUBT, mode)}
    legend = alt.Legend(orient="top", title=None, labelLimit=300) if len(kinds) > 1 else None
    colour = alt.Color("kind:N", legend=legend).scale(domain=kinds, range=[colours[kind] for kind in kinds])
    shape = alt.Shape("kind:N", legend=legend).scale(domain=kinds, range=["circle", "diamond"][: len(kinds)])
    x, y = alt.X("size:Q", **across), alt.Y("accuracy:Q", **up)
    band = on(points.filter(pl.col("kind") == RANDOM)).mark_area(opacity=0.18, color=colours[RANDOM])
    tooltip = ["kind:N", "size:Q", *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("accuracy", "low", "high"))]
    base = on(points).encode(x, y, colour)
    layers: list[Any] = [
        band.encode(x, alt.Y("low:Q", **up), alt.Y2("high:Q")),
        base.mark_line(strokeWidth=1.6),
        base.mark_point(filled=True, size=60, opacity=1).encode(shape, tooltip=tooltip),
        *_enough(study, sizes, across, mode),
    ]
    return alt.layer(*layers).properties(width=WIDTH, height=260)


def _enough(study: Studied, sizes: pl.DataFrame, across: dict[str, Any], mode: Mode) -> list[Any]:
    muted = hue(palette.MUTED, mode)
    at = on(pl.DataFrame({"at": [study.enough]})).encode(alt.X("at:Q", **across))
    low, most = sizes["size"][0], sizes["size"][-1]
    text = "all are needed" if study.enough == most else f"{study.enough} {'is' if study.enough == 1 else 'are'} enough"
    text = f"at random: {text}" if len(study.panels_frame()) else text
    place: dict[str, Any] = {"align": "right", "dx": -5} if 2 * study.enough > low + most else {"align": "left", "dx": 5}
    named = at.mark_text(text=text, baseline="bottom", y="height", dy=-5, color=muted, **place)
    return [at.mark_rule(strokeDash=[5, 4], color=muted), named]


def _effective(study: Studied, sizes: pl.DataFrame, mode: Mode) -> Any:
    known = sizes.drop_nulls("effective_votes")
    across = _across(study, sizes, is_last=True)
    most: Any = known["effective_votes"].max()
    y = alt.Y("effective_votes:Q", title=["independent", "votes"]).axis(tickCount=4).scale(domain=(0, 1.1 * most), nice=False)
    base = on(known).encode(alt.X("size:Q", **across), y)
    accent = hue(palette.ACCENT, mode)
    dots = base.mark_point(filled=True, size=45, opacity=1, color=accent)
    dots = dots.encode(tooltip=["size:Q", alt.Tooltip("effective_votes:Q", format=".1f", title="independent votes")])
    return alt.layer(base.mark_line(strokeWidth=1.6, color=accent), dots).properties(width=WIDTH, height=110)
