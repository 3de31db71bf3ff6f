"""The share of a label in every group: dots with intervals on one axis, and the share of the labels as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import polars as pl

from adjudge.data.vocabulary import text_of
from adjudge.errors import OptionError, listed, shown
from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, WIDTH, hue, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt

KINDS: Final = (("share", "true share, estimated"), ("naive", "share of the labels as given"))
MAX_GROUPS: Final = 60  # in a picture


class Rated(Protocol):
    """What a picture takes of rates; `adj.rates` returns them."""

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        ...

    def rates_frame(self) -> pl.DataFrame:
        """Return group, label, share, low, high and naive, a line per group and label."""
        ...

    def sentences(self) -> Sequence[str]:
        """Return what the figures rest on."""
        ...


def rates(found: Rated, label: object, mode: Mode) -> Chart:
    """Return the shares of one label, or of all, in every group."""
    frame = found.rates_frame().with_columns(pl.col("group", "label").cast(pl.String))
    labels = frame["label"].unique(maintain_order=True).to_list()
    if label is not None and text_of(label) not in labels:
        raise OptionError(f"label is {shown(label)}: choose one of {listed(labels)}")
    wanted = [text_of(label)] if label is not None else labels[-1:] if len(labels) == 2 else labels
    groups = frame["group"].unique(maintain_order=True).to_list()
    kept = groups[:MAX_GROUPS]
    few = frame.filter(pl.col("label").is_in(wanted), pl.col("group").is_in(kept))
    charts = [_shares(few.filter(label=one), one, mode) for one in wanted]
    chart = alt.vconcat(*charts, spacing=14) if len(charts) > 1 else charts[0]
    more = f" {len(groups) - len(kept)} more groups are not shown." if len(groups) > len(kept) else ""
    note = f"Lines are {words.percent(found.confidence)} intervals.{more}"
    of = f"true share of {wanted[0]}" if len(wanted) == 1 else "true share of each label"
    return titled(chart, words.sentence(f"{of} per group"), note)  # type: ignore[no-any-return]


def _shares(frame: pl.DataFrame, label: str, mode: Mode) -> Any:
    place: dict[str, Any] = {
        "title": f"share of {label}",
        "scale": alt.Scale(domain=(0.0, 1.0), nice=False),
        "axis": alt.Axis(format=PERCENT, tickCount=6),
    }
    y = alt.Y("group:N", sort=None, title=None, axis=alt.Axis(labelColor=hue(palette.TEXT, mode), grid=True, labelLimit=200))
    frame = frame.with_columns(text=pl.Series([f"{share:.1%}" for share in frame["share"]]))
    shares = ("share", "low", "high", "naive")
    tooltip = [
        "group:N",
        "label:N",
        *(alt.Tooltip(f"{name}:Q", format=".1%") for name in shares),
        "tasks:Q",
        "gold:Q",
        "method:N",
    ]
    accent, muted = hue(palette.ACCENT, mode), hue(palette.MUTED, mode)
    long = pl.concat(frame.select(*frame.columns, at=pl.col(name), kind=pl.lit(kind)) for name, kind in KINDS)
    kinds = [kind for _, kind in KINDS]
    legend = alt.Legend(orient="top", title=None, labelLimit=300)
    lines = on(frame).mark_rule(strokeWidth=1.5, color=accent).encode(y, alt.X("low:Q", **place), alt.X2("high:Q"))
    dots = (
        on(long)
        .mark_point(size=90, strokeWidth=1.6, filled=True, opacity=1)
        .encode(
            y,
            alt.X("at:Q", **place),
            color=alt.Color("kind:N", legend=legend).scale(domain=kinds, range=[accent, muted]),
            shape=alt.Shape("kind:N", legend=legend).scale(domain=kinds, range=["circle", "diamond"]),
            tooltip=tooltip,
        )
    )
    figures = (
        on(frame)
        .mark_text(dy=-12, fontSize=11, color=hue(palette.TEXT, mode))
        .encode(y, alt.X("share:Q", **place), text="text:N")
    )
    return alt.layer(lines, dots, figures).properties(width=WIDTH, height=alt.Step(36))
