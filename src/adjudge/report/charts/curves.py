"""Two curves: what confidence promised beside what came true, and labels changed in each pass."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, SQUARE, WIDTH, hue, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.reliability import ReliabilityView
from adjudge.report.views.trace import TraceView

NORMAL_90: Final = 1.645  # standard errors that hold 90% of a normal distribution
MAX_PHASES: Final = 2


def reliability(view: ReliabilityView, mode: Mode) -> Chart:
    """Return accuracy against confidence, a dot per bin of tasks in the size of its number, with its 90% interval."""
    if not len(view.bins):
        return nothing(view.sentence)
    bins = _with_intervals(view.bins)
    low = float(min(bins["confidence"].min(), bins["accuracy"].min(), bins["low"].min()))  # type: ignore[type-var, arg-type]
    ends = (max(0.0, np.floor(10 * low) / 10), 1.0)
    place: dict[str, Any] = {"scale": alt.Scale(domain=ends, nice=False), "axis": alt.Axis(format=PERCENT, tickMinStep=0.1)}
    x = alt.X("confidence:Q", title="confidence promised", **place)
    y = alt.Y("accuracy:Q", title="labels that are right", **place)
    muted, accent = hue(palette.MUTED, mode), hue(palette.ACCENT, mode)
    line = pl.DataFrame({"confidence": ends, "accuracy": ends})
    promised = on(line).mark_line(color=muted, strokeDash=[5, 4], strokeWidth=1.2).encode(x, y)
    base = on(bins).encode(x, y)
    most, least = int(bins["tasks"].max()), int(bins["tasks"].min())  # type: ignore[arg-type]
    legend = alt.Legend(format=",d", tickCount=3) if most > 2 * least else None
    size = alt.Size("tasks:Q", title="tasks", legend=legend).scale(domain=(0, most), range=(0, 220))
    tooltip = [
        alt.Tooltip("tasks:Q", format=",d"),
        alt.Tooltip("lowest:Q", format=".1%", title="confidence from"),
        alt.Tooltip("highest:Q", format=".1%", title="to"),
        alt.Tooltip("confidence:Q", format=".1%", title="mean confidence"),
        alt.Tooltip("accuracy:Q", format=".1%"),
    ]
    rules = on(bins).mark_rule(strokeWidth=1.2, opacity=0.7, color=accent)
    chart = alt.layer(
        promised,
        base.mark_line(strokeWidth=1.2, opacity=0.6, color=accent),
        rules.encode(x, alt.Y("low:Q", title="labels that are right", **place), alt.Y2("high:Q")),
        base.mark_circle(opacity=1, color=accent).encode(size, tooltip=tooltip),
    ).properties(width=SQUARE, height=SQUARE)
    note = "Dashed: confidence that comes true. Above it labels are better than promised, below worse. Lines are 90% intervals."
    drawn: Chart = titled(chart, view.sentence, note)
    return drawn


def _with_intervals(bins: pl.DataFrame) -> pl.DataFrame:
    """Return the bins with low and high, Wilson's 90% interval of their accuracy."""
    n, p = bins["tasks"].to_numpy().astype(np.float64), bins["accuracy"].to_numpy()
    z2 = NORMAL_90**2
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_90 / (1 + z2 / n) * np.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return bins.with_columns(low=pl.Series(middle - half), high=pl.Series(middle + half))


def trace(view: TraceView, mode: Mode) -> Chart:
    """Return the labels changed in each pass, on a scale that is logarithmic and has a zero."""
    if not len(view.frame):
        return nothing(view.sentence)
    frame = view.frame.with_columns(pl.format("phase {}", "phase").fill_null("").alias("phase"))
    most = float(frame["labels_changed"].max() or 0)  # type: ignore[arg-type]
    steps = (1, 3) if most < 1000 else (1,)
    ticks = [0.0, *(t for power in range(10) for step in steps if (t := step * 10.0**power) <= max(most, 1.0))]
    x = alt.X("iteration:Q", title="iteration").axis(format="d", tickMinStep=1, grid=False).scale(nice=False, padding=10)
    y = alt.Y("labels_changed:Q", title="labels changed (log scale)").scale(
        type="symlog", constant=1, domainMin=0, nice=False, padding=4
    )
    y = y.axis(values=ticks, format=",d")
    tooltip = [
        alt.Tooltip("iteration:Q"),
        alt.Tooltip("phase:N"),
        alt.Tooltip("labels_changed:Q", format=",d", title="labels changed"),
        alt.Tooltip("change:Q", format=".2g", title="change of the priors"),
        alt.Tooltip("log_likelihood:Q", format=",.1f", title="log-likelihood"),
    ]
    base, accent = on(frame).encode(x, y, tooltip=tooltip), hue(palette.ACCENT, mode)
    dots = base.mark_point(size=50, opacity=1, filled=True, color=accent)
    phases = frame["phase"].unique(maintain_order=True).to_list()
    if 1 < len(phases) <= MAX_PHASES:
        colours = [hue(colour, mode) for colour in palette.CATEGORIES[: len(phases)]]
        legend = alt.Legend(orient="top", title=None)
        shape = alt.Shape("phase:N", legend=legend).scale(domain=phases, range=["circle", "square"])
        dots = dots.encode(alt.Color("phase:N", legend=legend).scale(domain=phases, range=colours), shape)
    chart = alt.layer(base.mark_line(strokeWidth=1.2, opacity=0.6, color=accent).encode(detail="phase:N"), dots).properties(
        width=WIDTH, height=180
    )
    left = view.iterations - len(frame)
    note = f"The last {words.count(len(frame))} of {words.counted(view.iterations, 'iteration')}." if left > 0 else ""
    drawn: Chart = titled(chart, view.sentence, note)
    return drawn
