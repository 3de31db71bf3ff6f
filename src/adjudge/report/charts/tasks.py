"""Which tasks are in doubt: how confidence is spread, and the least certain tasks by name."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, WIDTH, distinct, hue, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.tasks import DOUBT, TasksView

MAX_NAMED: Final = 12  # tasks by name


def tasks(view: TasksView, mode: Mode) -> Chart:
    """Return the histogram of confidence over the list of the least certain tasks."""
    if not view.n_tasks:
        return nothing(view.sentence)
    spread, named = _histogram(view, mode), _list(view, mode)
    expected = f"If confidence is to be believed, {words.figure(view.expected_wrong)} labels are wrong."
    chart = spread if named is None else alt.vconcat(spread, named, spacing=24)
    drawn: Chart = titled(chart, view.sentence, expected)
    return drawn


def _histogram(view: TasksView, mode: Mode) -> Any:
    low = min(float(view.bins["low"][0]), DOUBT - 0.1)
    x = (
        alt.X("low:Q", title="confidence", bin="binned")
        .scale(domain=(low, 1.0), nice=False)
        .axis(format=PERCENT, grid=False, tickMinStep=0.1)
    )
    y = alt.Y("tasks:Q", title="tasks").axis(format=",d", tickMinStep=1, tickCount=4)
    doubt, accent = hue(palette.DOUBT, mode), hue(palette.ACCENT, mode)
    tooltip = [
        alt.Tooltip("low:Q", format=PERCENT, title="confidence from"),
        alt.Tooltip("high:Q", format=PERCENT, title="to"),
        alt.Tooltip("tasks:Q", format=",d"),
    ]
    bars = on(view.bins).mark_bar(binSpacing=1.5).encode(x, y, alt.X2("high:Q"), tooltip=tooltip)
    bars = bars.encode(color=alt.condition("datum.in_doubt", alt.value(doubt), alt.value(accent)))
    line = pl.DataFrame({"at": [DOUBT], "text": [f"in doubt: {words.percent(view.share_in_doubt)}"]})
    rule = on(line).mark_rule(strokeDash=[5, 4], color=hue(palette.MUTED, mode)).encode(x="at:Q")
    text = on(line).mark_text(align="right", baseline="bottom", dx=4, y=-5, color=doubt, fontWeight=600)
    return alt.layer(bars, rule, text.encode(x="at:Q", text="text:N")).properties(width=WIDTH, height=170)


def _list(view: TasksView, mode: Mode) -> Any:
    """Return the least certain tasks as bars of their confidence, with label and votes beside them; None where there is none."""
    listed = view.listed(view.uncertain[:MAX_NAMED])
    if not len(listed):
        return None
    rows = listed.select("label", "confidence", "votes").rows()
    listed = listed.with_columns(
        name=pl.Series(distinct(listed["task"]), dtype=pl.String),
        says=pl.Series([f"{words.percent(c)}  {words.shortened(label, 24)}, {words.counted(v, 'vote')}" for label, c, v in rows]),
    )
    y = alt.Y("name:N", sort=None, title=None).axis(labelLimit=220, grid=False, labelColor=hue(palette.TEXT, mode))
    x = alt.X("confidence:Q", axis=None).scale(domain=(0.0, 1.0))  # the figures stand beside the bars
    tooltip = ["task:N", "label:N", alt.Tooltip("confidence:Q", format=".1%"), "votes:Q"]
    doubt, accent = hue(palette.DOUBT, mode), hue(palette.ACCENT, mode)
    colour = alt.condition(f"datum.confidence < {DOUBT}", alt.value(doubt), alt.value(accent))
    bars = on(listed).mark_bar(height=10).encode(x, y, tooltip=tooltip, color=colour)
    text = on(listed).mark_text(align="left", dx=6, fontSize=11, color=hue(palette.TEXT, mode)).encode(x, y, text="says:N")
    chart = alt.layer(bars, text).properties(width=WIDTH, height=alt.Step(20))
    return chart.properties(title=alt.Title("The least certain tasks", fontSize=13, offset=6))
