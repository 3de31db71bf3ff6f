"""Why a task has its label: the log-odds as a waterfall, the prior first, then every vote, then what else moves them."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import WIDTH, distinct, hue, inert, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.results.explanation import Bar, Explanation

MAX_VOTES: Final = 30  # that have a bar of their own; the others have one together
FOR, AGAINST, ELSE, ALL = "speaks for the label", "speaks against it", "prior and corrections", "in all"
SCHEMA: Final = {
    "name": pl.String,
    "full": pl.String,
    "kind": pl.String,
    "start": pl.Float64,
    "end": pl.Float64,
    "text": pl.String,
}


def waterfall(why: Explanation, mode: Mode) -> Chart:
    """Return the bars of an explanation, each from where the one before it ends; right of zero the label wins."""
    told = sentence(why)
    if why.runner_up is None or why.known:
        return nothing(told, "There is nothing to weigh.")
    bars = _bars(why)
    ends = [*bars["start"], *bars["end"], 0.0]
    room = 0.14 * (max(ends) - min(ends) or 1.0)
    names = bars["name"].to_list()
    place: dict[str, Any] = {
        "title": inert(f"log-odds of {words.quoted(why.label, 20)} against {words.quoted(why.runner_up, 20)}"),
        "scale": alt.Scale(domain=(min(ends) - room, max(ends) + room), nice=False),
        "axis": alt.Axis(format="+.1~f", tickCount=7),
    }
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=260, labelColor=hue(palette.TEXT, mode), grid=False))
    kinds = [kind for kind in (FOR, AGAINST, ELSE, ALL) if kind in set(bars["kind"])]
    shades = {FOR: palette.ACCENT, AGAINST: palette.DOUBT, ELSE: palette.GREY, ALL: palette.TEXT}
    colour = alt.Color("kind:N", legend=alt.Legend(orient="top", title=None, symbolType="square"))
    colour = colour.scale(domain=kinds, range=[hue(shades[kind], mode) for kind in kinds])
    tooltip = [alt.Tooltip("full:N", title="what"), alt.Tooltip("kind:N"), alt.Tooltip("text:N", title="adds")]
    rows = on(bars).encode(y)
    muted, text = hue(palette.MUTED, mode), hue(palette.TEXT, mode)
    drawn = rows.mark_bar(height=13).encode(alt.X("start:Q", **place), alt.X2("end:Q"), colour, tooltip=tooltip)
    right = rows.transform_filter("datum.end >= datum.start").mark_text(align="left", dx=5, fontSize=11, color=text)
    left = rows.transform_filter("datum.end < datum.start").mark_text(align="right", dx=-5, fontSize=11, color=text)
    figures = [side.encode(alt.X("end:Q", **place), text="text:N") for side in (right, left)]
    zero = on(pl.DataFrame({"at": [0.0]})).mark_rule(color=muted, strokeWidth=1.2).encode(alt.X("at:Q", **place))
    chart = alt.layer(zero, drawn, *figures).properties(width=WIDTH, height=alt.Step(21))
    cut = " The label is certain: bars are cut at a bound." if why.certain else ""
    note = f"Each bar begins where the one above it ends. Right of 0 {words.quoted(why.label, 20)} wins.{cut}"
    return titled(chart, told, note)  # type: ignore[no-any-return]


def sentence(why: Explanation) -> str:
    """Return the label of the task, how sure it is, and whether one vote could change it."""
    task, label = words.shortened(why.task), words.quoted(why.label)
    if why.known:
        return words.sentence(f"task {task}: {label} is known, so that votes did not decide it")
    if why.runner_up is None:
        return words.sentence(f"task {task}: {label}, {words.percent(why.confidence)} sure, and there is no other label")
    other = f"{words.quoted(why.runner_up)} {words.percent(why.probabilities[why.runner_up])}"
    decisive = sum(vote.is_decisive for vote in why.evidence)
    if len(why.evidence) == 1:
        return words.sentence(f"task {task}: {label} {words.percent(why.confidence)}, {other}; it has one vote")
    hangs = "no single vote could change that" if not decisive else f"{words.counted(decisive, 'vote')} could change that alone"
    return words.sentence(f"task {task}: {label} {words.percent(why.confidence)}, {other}; {hangs}")


def _bars(why: Explanation) -> pl.DataFrame:
    """Return a line per bar: name, full (the uncut name), kind, start, end, text; the last is the sum."""
    every = list(why.bars())
    votes = [bar for bar in every if bar.kind == "vote"]
    telling = {id(bar) for bar in sorted(votes, key=lambda bar: -abs(bar.change))[:MAX_VOTES]}
    kept = [bar for bar in votes if id(bar) in telling]
    prior, steps = every[0], every[1 + len(votes) :]
    left = len(votes) - len(kept)
    rest = [Bar("rest", f"{left} more votes", sum(bar.change for bar in votes) - sum(bar.change for bar in kept), 0.0, 0.0)]
    shown = [prior, *kept, *(rest if left else []), *steps]
    decisive = {id(bar) for bar, vote in zip(votes, why.evidence, strict=True) if vote.is_decisive and len(votes) > 1}
    rows, at = [], 0.0
    for bar, name in zip(shown, distinct(bar.name for bar in shown), strict=True):
        kind = ELSE if bar.kind in ("prior", "step") else FOR if bar.change >= 0 else AGAINST
        text = f"{bar.change:+.2f}{'  decisive' if id(bar) in decisive else ''}"
        rows.append((name, words.name(bar.name), kind, at, at + bar.change, text))
        at += bar.change
    total = distinct([*(row[0] for row in rows), "in all"])[-1]  # a worker may be called so, too
    rows.append((total, "in all", ALL, 0.0, at, f"{at:+.2f}, {words.percent(why.confidence)}"))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")
