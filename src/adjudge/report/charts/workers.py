"""Who is good, who is not: workers as dots, by votes and accuracy, each with its interval and its verdict."""

from __future__ import annotations

import math
from typing import Any, Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, SHAPES, WIDTH, distinct, hue, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.workers import WorkersView
from adjudge.results.overview import TO_LOOK_AT, UNKNOWN

HEIGHT: Final = 340
MAX_NAMED: Final = 12  # workers up to which all have their name beside their dot
MAX_RANKED: Final = 40  # workers who are listed by name where all have about as many votes
MAX_LINES: Final = 300  # workers up to which all have their interval drawn; of more, only those to look at
EVEN: Final = 1.5  # most votes over least, below which votes tell nobody apart
ACCURACY: Final = "accuracy (share of votes that are right)"
UNJUDGED: Final = "worker"
CELLS: Final = (palette.LINE, palette.GREY)  # few and many workers: colour is left to those who are to look at
TOOLTIP: Final = ("worker", "votes", "right", "interval", "verdict", "why")


def workers(view: WorkersView, mode: Mode) -> Chart:
    """Return votes against accuracy, a dot per worker; of very many, cells in the shade of their number under the notable dots.

    Where all have about as many votes there is nothing to see from left to right: workers are then ranked by accuracy.
    """
    known = view.frame.filter(pl.col("accuracy").is_not_null())
    if not len(known):
        return nothing(view.sentence)
    votes = known["votes"]
    is_even = float(votes.max()) < EVEN * float(votes.min())  # type: ignore[arg-type]
    if is_even and not view.is_binned:
        return _ranked(view, mode)
    return _scatter(view, mode, is_even)


def _dots(view: WorkersView) -> pl.DataFrame:
    """Return the workers that are drawn, with the words of their tooltips and the number of each verdict."""
    dots = view.dots.filter(pl.col("accuracy").is_not_null())
    if view.is_binned:
        dots = dots.filter(pl.col("verdict").is_in(TO_LOOK_AT))
    rows = dots.select("accuracy", "accuracy_low", "accuracy_high").rows()
    number = view.verdicts
    return dots.select(
        "worker",
        "votes",
        "accuracy",
        pl.col("accuracy_low").fill_null(pl.col("accuracy")).alias("low"),
        pl.col("accuracy_high").fill_null(pl.col("accuracy")).alias("high"),
        pl.col("verdict").fill_null(UNJUDGED),
        pl.col("why").fill_null(""),
        pl.Series("right", [words.percent(a) for a, _, _ in rows], pl.String),
        pl.Series("interval", ["" if low is None else _between(low, high) for _, low, high in rows], pl.String),
    ).with_columns(kind=pl.col("verdict").replace_strict({v: _kind(v, number) for v in (*palette.VERDICTS, UNJUDGED)}))


def _between(low: float, high: float) -> str:
    return f"{words.percent(low)} to {words.percent(high)}"


def _kind(verdict: str, number: dict[str, int]) -> str:
    """Return a verdict as the legend shows it: with the number of workers who have it."""
    return verdict if verdict == UNJUDGED else f"{verdict} ({words.count(number.get(verdict, 0))})"


def _signs(view: WorkersView, mode: Mode) -> dict[str, Any]:
    """Return the encodings that mark a verdict: shape, outline and filling, with one legend."""
    shown = [v for v in palette.VERDICTS if v in view.verdicts and (not view.is_binned or v in TO_LOOK_AT)]
    signs = [palette.VERDICTS[v] for v in shown] or [palette.UNJUDGED]
    domain = [_kind(v, view.verdicts) for v in shown] or [UNJUDGED]
    colours = [hue(sign.colour, mode) for sign in signs]
    filled = [hue(palette.PAGE, mode) if sign.shape == "ring" else colour for sign, colour in zip(signs, colours, strict=True)]
    legend = alt.Legend(orient="top", title=None, symbolSize=90) if shown else None
    return {
        "shape": alt.Shape("kind:N", legend=legend).scale(domain=domain, range=[SHAPES[sign.shape] for sign in signs]),
        "stroke": alt.Stroke("kind:N", legend=legend).scale(domain=domain, range=colours),
        "fill": alt.Fill("kind:N", legend=legend).scale(domain=domain, range=filled),
    }


def _tooltip() -> list[Any]:
    names = {"right": "accuracy", "interval": "90% interval"}
    return [alt.Tooltip(f"{field}:Q" if field == "votes" else f"{field}:N", title=names.get(field, field)) for field in TOOLTIP]


def _note(view: WorkersView) -> str:
    what = "Lines are 90% intervals." if view.is_judged or view.frame["accuracy_low"].is_not_null().any() else ""
    if not view.is_binned:
        return what
    named = int(view.frame["verdict"].is_in(TO_LOOK_AT).sum())
    shown = min(named, len(view.notable))
    first = (
        f"of {words.counted(named, 'worker')} to look at the first {words.count(shown)}" if named > shown else "those to look at"
    )
    return f"{words.counted(len(view.frame), 'worker')} as cells; {first} as dots: result.workers has all." if named else what


def _chance(view: WorkersView, mode: Mode, place: dict[str, Any], *, across: bool) -> list[Any]:
    """Return the rule at the accuracy of guessing, and its name, on the axis of accuracy that the dots have."""
    if view.chance != view.chance:
        return []
    grey, data = hue(palette.MUTED, mode), pl.DataFrame({"chance": [view.chance]})
    at: Any = alt.Y("chance:Q", **place) if across else alt.X("chance:Q", **place)
    rule, text = on(data).encode(at).mark_rule(color=grey, strokeDash=[5, 4]), on(data).encode(at)
    if across:
        named = text.mark_text(color=grey, text="guessing", fontSize=11, align="right", baseline="bottom", dy=-3, x="width")
    else:
        named = text.mark_text(color=grey, text="guessing", fontSize=11, align="left", baseline="bottom", dx=-4, y=-4)
    return [rule, named]


def _floor(view: WorkersView, dots: pl.DataFrame) -> float:
    """Return where the axis of accuracy begins: at a tenth below everything that is drawn."""
    values = [*dots["low"], *view.cells["accuracy_from"], *([] if view.chance != view.chance else [view.chance])]
    return max(0.0, math.floor(10 * min(values, default=0.0) - 0.3) / 10)


def _scatter(view: WorkersView, mode: Mode, is_even: bool) -> Chart:
    dots, signs = _dots(view), _signs(view, mode)
    low = _floor(view, dots)
    most, least = float(view.frame["votes"].max()), float(view.frame["votes"].min())  # type: ignore[arg-type]
    ends = (max(least, 1.0) / 1.15, most * 1.15) if not is_even else (least / 2, most * 2)
    up: dict[str, Any] = {
        "title": ACCURACY,
        "axis": alt.Axis(format=PERCENT, tickCount=6),
        "scale": alt.Scale(domain=(low, 1.0), nice=False),
    }
    across: dict[str, Any] = {
        "title": "votes (log scale)",
        "axis": alt.Axis(values=_ticks(*ends), format=",d", grid=False),
        "scale": alt.Scale(type="log", domain=ends, nice=False),
    }
    x, y = alt.X("votes:Q", **across), alt.Y("accuracy:Q", **up)
    layers: list[Any] = []
    if view.is_binned:
        shade = alt.Color("workers:Q", title="workers").scale(type="log", range=[hue(c, mode) for c in CELLS], interpolate="rgb")
        cells = on(view.cells).mark_rect(strokeWidth=0).encode(alt.X2("votes_to:Q"), alt.Y2("accuracy_to:Q"))
        layers.append(cells.encode(alt.X("votes_from:Q", **across), alt.Y("accuracy_from:Q", **up), shade.legend(format=",d")))
    layers += _chance(view, mode, up, across=True)
    base = on(dots).encode(x, y)
    lines = dots if len(dots) <= MAX_LINES else dots.filter(pl.col("verdict").is_in(TO_LOOK_AT))
    lines = lines if len(lines) <= MAX_LINES and not view.is_binned else lines.clear()
    faint = 0.55 if len(lines) <= 60 else 0.25
    layers.append(
        on(lines)
        .mark_rule(strokeWidth=1, opacity=faint)
        .encode(x, alt.Y("low:Q", **up), alt.Y2("high:Q"), stroke=signs["stroke"])
    )
    size = 70 if len(dots) <= 60 else 45 if len(dots) <= 400 and not view.is_binned else 25
    layers.append(base.mark_point(size=size, strokeWidth=1.4, opacity=0.95).encode(**signs, tooltip=_tooltip()))
    placed = _placed(dots, ends, (low, 1.0), view.chance)
    for side, align, away in (("right", "left", 8), ("left", "right", -8)):
        if len(some := placed.filter(pl.col("side") == side)):
            names = on(some).mark_text(align=align, dx=away, fontSize=11, color=hue(palette.TEXT, mode))  # type: ignore[arg-type]
            layers.append(names.encode(x, y, text="name:N"))
    chart = alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)
    drawn: Chart = titled(chart, view.sentence, _note(view))
    return drawn


def _ticks(low: float, high: float) -> list[float]:
    """Return ticks of a logarithmic axis of votes: 1, 2, 5, 10, …; closer over a narrow range, wider over a wide one."""
    steps: tuple[float, ...] = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    if high / low > 6:
        steps = (1, 2, 5) if high / low < 300 else (1, 3) if high / low < 3000 else (1,)
    ticks = [step * 10.0**power for power in range(10) for step in steps]
    return [tick for tick in ticks if low <= tick <= high and tick == int(tick)]


def _placed(dots: pl.DataFrame, across: tuple[float, float], up: tuple[float, float], chance: float) -> pl.DataFrame:
    """Return the workers whose name stands beside their dot: those to look at first, as far as names do not overlap."""
    order = {verdict: rank for rank, verdict in enumerate((*TO_LOOK_AT, UNKNOWN))}
    few = dots if len(dots) <= MAX_NAMED else dots.filter(pl.col("verdict").is_in(TO_LOOK_AT))
    first = few.with_row_index("at").sort(
        pl.col("verdict").replace_strict(order, default=len(order), return_dtype=pl.Int8), -pl.col("votes"), "at"
    )
    places = [_place(row, across, up) for row in dots.select("votes", "accuracy").head(MAX_LINES).rows()]
    boxes = [(left - 5, top - 5, left + 5, top + 5) for left, top in places]  # names keep clear of the dots
    if chance == chance:  # and of the name of the rule
        _, below = _place((across[1], chance), across, up)
        boxes.append((WIDTH - 55, below - 18, WIDTH, below))
    rows = []
    for row in first.head(3 * MAX_NAMED).iter_rows(named=True):
        name = words.shortened(row["worker"], 20)
        left, top = _place((row["votes"], row["accuracy"]), across, up)
        wide = 4 + 6.5 * len(name)
        for side, box in (
            ("right", (left + 6, top - 7, left + 6 + wide, top + 7)),
            ("left", (left - 6 - wide, top - 7, left - 6, top + 7)),
        ):
            if (
                box[0] > 0
                and box[2] < WIDTH + 20
                and all(box[2] < b[0] or b[2] < box[0] or box[3] < b[1] or b[3] < box[1] for b in boxes)
            ):
                boxes.append(box)
                rows.append((row["votes"], row["accuracy"], name, side))
                break
        if len(rows) == MAX_NAMED:
            break
    return pl.DataFrame(
        rows, schema={"votes": pl.Int64, "accuracy": pl.Float64, "name": pl.String, "side": pl.String}, orient="row"
    )


def _place(dot: tuple[Any, ...], across: tuple[float, float], up: tuple[float, float]) -> tuple[float, float]:
    """Return where a dot of so many votes and this accuracy is, in pixels from the left and from the top."""
    votes, accuracy = dot
    left = WIDTH * math.log(votes / across[0]) / math.log(across[1] / across[0])
    return left, HEIGHT * (up[1] - accuracy) / (up[1] - up[0])


def _ranked(view: WorkersView, mode: Mode) -> Chart:
    dots, signs = _dots(view), _signs(view, mode)
    dots = dots.with_row_index("at").sort(-pl.col("accuracy"), "at").drop("at")
    dots = dots.with_columns(name=pl.Series(distinct(dots["worker"]), dtype=pl.String), rank=pl.int_range(1, len(dots) + 1))
    low, size = _floor(view, dots), 90 if len(dots) <= MAX_RANKED else 30
    height: Any
    share: dict[str, Any] = {
        "title": ACCURACY,
        "axis": alt.Axis(format=PERCENT, tickCount=6),
        "scale": alt.Scale(domain=(low, 1.0), nice=False),
    }
    votes = f"Each cast {words.count(dots['votes'][0])} votes." if dots["votes"].n_unique() == 1 else ""
    if len(dots) <= MAX_RANKED:
        x = alt.X("accuracy:Q", **share)
        y = alt.Y("name:N", sort=None, title=None, axis=alt.Axis(labelLimit=240, labelColor=hue(palette.TEXT, mode), grid=True))
        base, height = on(dots).encode(x, y), alt.Step(24)
        lines = on(dots).encode(alt.X("low:Q", **share), y, alt.X2("high:Q"))
        layers = [
            *_chance(view, mode, share, across=False),
            lines.mark_rule(strokeWidth=1.5, opacity=0.7).encode(stroke=signs["stroke"]),
        ]
    else:
        x = alt.X("rank:Q", title="workers by accuracy", axis=alt.Axis(grid=False, format=",d")).scale(nice=False, padding=8)
        y = alt.Y("accuracy:Q", **share)
        base, height = on(dots).encode(x, y), HEIGHT
        lines = on(dots).encode(x, alt.Y("low:Q", **share), alt.Y2("high:Q"))
        layers = [
            *_chance(view, mode, share, across=True),
            lines.mark_rule(strokeWidth=1, opacity=0.3).encode(stroke=signs["stroke"]),
        ]
    layers.append(base.mark_point(size=size, strokeWidth=1.4, opacity=1).encode(**signs, tooltip=_tooltip()))
    chart = alt.layer(*layers).properties(width=WIDTH, height=height)
    drawn: Chart = titled(chart, view.sentence, f"{_note(view)} {votes}".strip())
    return drawn
