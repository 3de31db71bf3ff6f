"""Do workers answer alike: a clustered matrix of agreement beyond chance, rings outlined."""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from adjudge.report import palette, words
from adjudge.report.charts.parts import INK, SQUARE, distinct, hue, ink, nothing, on, shade, titled
from adjudge.report.palette import Mode
from adjudge.report.theme import Chart, alt
from adjudge.report.views.agreement import AgreementView

MAX_NAMED: Final = 40  # workers up to which both axes have names
MAX_PRINTED: Final = 12  # workers up to which cells say their figure
FIRM: Final = 20  # shared tasks from which a cell has its full colour: kappa of fewer is mostly noise
LEAST_END: Final = 0.5  # the scale reaches at least so far on both sides of zero


def agreement(view: AgreementView, mode: Mode) -> Chart:
    """Return kappa of every two workers in an order in which those who answer alike are neighbours."""
    cells = view.cells.filter(pl.col("row") != pl.col("column"))
    if not len(cells):
        return nothing(view.sentence)
    n, names = len(view.workers), distinct(view.workers, 22)
    cell = min(44.0, SQUARE / n)
    firm = cells.filter(pl.col("shared") >= FIRM)
    largest: Any = (firm if len(firm) else cells)["kappa"].abs().max()
    ends = max(largest or 0.0, LEAST_END)
    named = pl.Series(names, dtype=pl.String)
    cells = cells.with_columns(y=named.gather(cells["row"]), x=named.gather(cells["column"]))
    cells = cells.with_columns(ink((cells["kappa"] + ends) / (2 * ends), palette.AROUND, mode))
    labels = {"labels": n <= MAX_NAMED, "labelLimit": 180, "labelFontSize": 12 if cell >= 14 else 9}
    plain: dict[str, Any] = {"ticks": False, "domain": False, "grid": False, **labels}
    x = alt.X(
        "x:N",
        sort=names,
        title=None,
        scale=alt.Scale(domain=names),
        axis=alt.Axis(labelAngle=-50, **{**plain, "labelLimit": 120}),
    )
    y = alt.Y("y:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(**plain))
    colour = alt.Color("kappa:Q", title="agreement beyond chance", scale=shade(palette.AROUND, mode, (-ends, ends)))
    colour = colour.legend(orient="right", format=".1f", gradientLength=min(160, int(n * cell)), titleLimit=220)
    faint = alt.Opacity("shared:Q", legend=None).scale(type="linear", domain=(0, FIRM), range=(0.1, 1), clamp=True)
    tooltip = [
        alt.Tooltip("a:N", title="worker"),
        alt.Tooltip("b:N", title="and"),
        alt.Tooltip("kappa:Q", format=".2f", title="kappa"),
        alt.Tooltip("agreement:Q", format=".0%", title="same answer"),
        alt.Tooltip("shared:Q", format=",d", title="shared tasks"),
    ]
    base = on(cells).encode(x, y)
    layers: list[Any] = [
        base.mark_rect(stroke=hue(palette.PAGE, mode), strokeWidth=1 if n <= 40 else 0).encode(colour, faint, tooltip=tooltip)
    ]
    if n <= MAX_PRINTED:
        text = base.transform_filter("isValid(datum.kappa)").mark_text(fontSize=11)
        layers.append(text.encode(text=alt.Text("kappa:Q", format=".2f"), color=INK))
    if view.rings:
        spans = pl.DataFrame([(a * cell, b * cell) for a, b in view.rings], schema=["low", "high"], orient="row")
        box = on(spans).mark_rect(filled=False, stroke=hue(palette.DOUBT, mode), strokeWidth=2.5, cornerRadius=2)
        place: dict[str, Any] = {"axis": None, "scale": alt.Scale(domain=(0, n * cell), nice=False, zero=False)}
        ring = box.encode(alt.X("low:Q", **place), alt.X2("high:Q"))
        down: dict[str, Any] = {"axis": None, "scale": alt.Scale(domain=(0, n * cell), nice=False, zero=False, reverse=True)}
        layers.append(ring.encode(alt.Y("low:Q", **down), alt.Y2("high:Q")))
    chart = alt.layer(*layers).resolve_scale(x="independent", y="independent") if view.rings else alt.layer(*layers)
    chart = chart.properties(width=n * cell, height=n * cell)
    drawn: Chart = titled(chart, view.sentence, _note(view))
    return drawn


def _note(view: AgreementView) -> str:
    notes = []
    if len(view.workers) < view.n_workers:
        notes.append(
            f"{len(view.workers)} of {words.counted(view.n_workers, 'worker')}: those in rings, then those with most votes."
        )
    if view.rings:
        notes.append("Outlined: workers who answer alike beyond what the labels explain.")
    if view.cells["shared"].min() < FIRM:  # type: ignore[operator]
        notes.append(f"Pale: fewer than {FIRM} shared tasks.")
    if view.sampled:
        notes.append("From a part of the tasks.")
    return " ".join(notes)
