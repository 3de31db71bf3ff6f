"""Which model: accuracies as dots with intervals on one axis, majority vote the rule to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import PERCENT, WIDTH, hue, nothing, on, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt

MAJORITY: Final = "mv"
ADVISED, AMONG, BELOW = "advised", "not significantly below the most accurate", "significantly below it"
WITHOUT: Final = {"stable_workers": "without a fifth of the workers", "stable_tasks": "without a fifth of the tasks"}


class Compared(Protocol):
    """What a picture takes of a comparison; `adj.compare` returns it."""

    @property
    def best(self) -> str:
        """The name of the model that is advised."""
        ...

    @property
    def advice(self) -> Sequence[str]:
        """Sentences: which model, and on what evidence."""
        ...

    @property
    def confidence(self) -> float:
        """Of the intervals."""
        ...

    def models_frame(self) -> pl.DataFrame:
        """Return model, accuracy, accuracy_low, accuracy_high, below_highest, stable_workers and stable_tasks of each."""
        ...


def comparison(found: Compared, mode: Mode) -> Chart:
    """Return the accuracy of every model; without truth and gold, how far labels stay where some of the votes are left out."""
    told = found.advice[0] if found.advice else words.sentence(f"take {found.best}")
    frame = found.models_frame()
    judged = frame.filter(pl.col("accuracy").is_not_null())
    if len(judged):
        return titled(_accuracies(found, judged, mode), told, f"Lines are {words.percent(found.confidence)} intervals.")  # type: ignore[no-any-return]
    stable = frame.filter(pl.any_horizontal(pl.col(*WITHOUT).is_not_null()))
    if not len(stable):
        return nothing(told, "No truth was given: pass truth=… or gold=… to see accuracies.")
    note = "How many labels stay where some votes are left out. Pass truth=… or gold=… to see accuracies."
    return titled(_stability(stable, mode), told, note)  # type: ignore[no-any-return]


def _accuracies(found: Compared, judged: pl.DataFrame, mode: Mode) -> Any:
    kind = (
        pl.when(pl.col("model") == found.best)
        .then(pl.lit(ADVISED))
        .when("below_highest")
        .then(pl.lit(BELOW))
        .otherwise(pl.lit(AMONG))
    )
    judged = judged.sort("accuracy", descending=True, maintain_order=True).with_columns(
        kind=kind,
        low=pl.coalesce("accuracy_low", "accuracy"),
        high=pl.coalesce("accuracy_high", "accuracy"),
        text=pl.Series([f"{share:.1%}" for share in judged.sort("accuracy", descending=True, maintain_order=True)["accuracy"]]),
    )
    ends = [*judged["low"], *judged["high"]]
    room = 0.08 * (max(ends) - min(ends)) + 1e-3
    place: dict[str, Any] = {
        "title": "accuracy (share of right labels)",
        "scale": alt.Scale(domain=(max(min(ends) - room, 0.0), min(max(ends) + room, 1.0)), nice=False),
        "axis": alt.Axis(format=".0%" if max(ends) - min(ends) > 0.08 else ".1%", tickCount=7),
    }
    kinds = [one for one in (ADVISED, AMONG, BELOW) if one in set(judged["kind"])]
    grey, accent, page = hue(palette.GREY, mode), hue(palette.ACCENT, mode), hue(palette.PAGE, mode)
    colours = {ADVISED: accent, AMONG: grey, BELOW: grey}
    legend = alt.Legend(orient="top", title=None)
    signs: dict[str, Any] = {
        "stroke": alt.Stroke("kind:N", legend=legend).scale(domain=kinds, range=[colours[one] for one in kinds]),
        "fill": alt.Fill("kind:N", legend=legend).scale(
            domain=kinds, range=[page if one == BELOW else colours[one] for one in kinds]
        ),
        "shape": alt.Shape("kind:N", legend=legend).scale(
            domain=kinds, range=[{ADVISED: "diamond", AMONG: "circle", BELOW: "circle"}[one] for one in kinds]
        ),
    }
    y = alt.Y("model:N", sort=None, title=None, axis=alt.Axis(labelColor=hue(palette.TEXT, mode), grid=True, labelLimit=200))
    tooltip = ["model:N", *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("accuracy", "low", "high")), "kind:N"]
    base = on(judged).encode(y)
    lines = base.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q", **place), alt.X2("high:Q"), stroke=signs["stroke"])
    dots = base.mark_point(size=110, strokeWidth=1.6, opacity=1).encode(alt.X("accuracy:Q", **place), **signs, tooltip=tooltip)
    figures = base.mark_text(dy=-11, fontSize=11, color=hue(palette.TEXT, mode)).encode(
        alt.X("accuracy:Q", **place), text="text:N"
    )
    layers: list[Any] = [lines, dots, figures]
    majority = judged.filter(pl.col("model") == MAJORITY)
    if len(majority):
        rule = on(majority.select("accuracy")).encode(alt.X("accuracy:Q", **place))
        muted = hue(palette.MUTED, mode)
        named = rule.mark_text(text="majority vote", y=-6, color=muted, fontSize=11, baseline="bottom")
        layers = [rule.mark_rule(strokeDash=[5, 4], color=muted), named, *layers]
    return alt.layer(*layers).properties(width=WIDTH, height=alt.Step(34))


def _stability(stable: pl.DataFrame, mode: Mode) -> Any:
    long = pl.concat(stable.select("model", share=column, kind=pl.lit(kind)) for column, kind in WITHOUT.items()).drop_nulls(
        "share"
    )
    kinds = list(WITHOUT.values())
    colours = [hue(colour, mode) for colour in palette.CATEGORIES[:2]]
    legend = alt.Legend(orient="top", title=None)
    least: Any = long["share"].min()
    x = alt.X("share:Q", title="labels that stay").axis(format=PERCENT, tickCount=6)
    x = x.scale(domain=(max(least - 0.02, 0.0), 1.0), nice=False)
    y = alt.Y("model:N", sort=stable["model"].to_list(), title=None)
    y = y.axis(labelColor=hue(palette.TEXT, mode), grid=True, labelLimit=200)
    dots = (
        on(long)
        .mark_point(size=100, strokeWidth=1.6, filled=True, opacity=1)
        .encode(
            x,
            y,
            color=alt.Color("kind:N", legend=legend).scale(domain=kinds, range=colours),
            shape=alt.Shape("kind:N", legend=legend).scale(domain=kinds, range=["circle", "square"]),
            tooltip=[
                "model:N",
                alt.Tooltip("kind:N", title="votes"),
                alt.Tooltip("share:Q", format=".1%", title="labels that stay"),
            ],
        )
    )
    return dots.properties(width=WIDTH, height=alt.Step(30))
