"""The plots of the reproduction, as SVG. They need Altair, and only when something is drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from adjudge.paper import published

if TYPE_CHECKING:
    from adjudge.report.charts import Chart, alt

NO_ALTAIR: Final = "no plots: they need altair (pip install 'adjudge[report]'); tables and report are written without"
# The paper's colours by name, in shades that colour-blind people tell apart; a shape of its own for each method.
METHOD_STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "ds": ("#0072B2", "circle"),
    "fds": ("#009E73", "square"),
    "hybrid": ("#D55E00", "triangle-up"),
    "iwmv": ("#222222", "cross"),
    "mv": ("#AA4499", "diamond"),
    "glad": ("#B37A00", "triangle-down"),
}
OUR_SERIES: Final = "adjudge"
PAPERS: Final = "the paper"
LEGEND_GREY: Final = "#666666"
DECADES: Final = [10.0**power for power in range(-12, 7)]  # ticks of logarithmic scales
MEASURES: Final[Mapping[published.Measure, str]] = {
    "accuracy": "accuracy",
    "seconds": "seconds (log scale)",
    "iterations": "iterations",
}


def available() -> bool:
    """Return whether Altair, and what makes SVG of its charts, are installed."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def figure1(found: pl.DataFrame, folder: Path) -> None:
    """Draw Figure 1: accuracy, time and iterations (rows) of every set (columns) against the number of annotators.

    `found` is the table figure1.csv.
    """
    from adjudge.report.charts import alt

    sets, methods, panels = list(dict.fromkeys(found["set"])), set(found["method"]), []
    for measure, title in MEASURES.items():
        ours, paper = (
            found.select("set", "method", x="annotators", y=pl.col(f"{measure} {which}").cast(pl.Float64), source=pl.lit(name))
            for which, name in (("ours", OUR_SERIES), ("paper", PAPERS))
        )
        points = pl.concat([paper, ours]).drop_nulls("y").with_columns(marked=True)
        if measure != "accuracy":
            points = points.filter(pl.col("method") != "mv")  # it does not iterate
        for name in sets:
            x = alt.X("x:Q").axis(values=list(range(1, published.annotators(name) + 1)), format="d").scale(nice=False, padding=8)
            x = x.title("annotators" if measure == "iterations" else None)
            y = alt.Y("y:Q").title(title if name == sets[0] else None).scale(zero=measure == "iterations", nice=False, padding=8)
            y = y.axis(format=".2f" if measure == "accuracy" else "d", tickCount=6)
            if measure == "seconds":
                y = y.scale(type="log", nice=False, padding=8).axis(values=DECADES, format="~g")
            heading = published.PAPER_SET_NAMES[name] if measure == "accuracy" else None
            part = points.filter(pl.col("set") == name)
            panels.append(_panel(part, x, y, methods, heading).properties(width=180, height=180))
    _save(panels, folder / "figure1.svg", columns=len(sets))


def likelihoods(found: pl.DataFrame, folder: Path) -> None:
    """Draw the negative log-likelihood in every iteration; the paper's values at convergence (Table 2) are dashed."""
    from adjudge.report.charts import alt

    panels = []
    for name in dict.fromkeys(found["set"]):
        ours = _points(found.filter(pl.col("set") == name), x="iteration", y="nll", methods=published.EM_METHODS)
        table = published.figures()["table2"][published.PAPER_SET_NAMES[name]]
        last, (low, high) = int(_range(ours["x"])[1]), _range(ours["y"])
        paper = pl.DataFrame(
            [
                (model, x, float(table[published.METHODS[model]]), PAPERS, False)
                for model in published.EM_METHODS
                for x in (1, last)
            ],
            schema=ours.schema,
            orient="row",
        )
        room = 0.08 * (high - low)  # the paper's line may be outside: its votes then differ from ours
        x = alt.X("x:Q").title("iteration").scale(type="log", nice=False, padding=8)
        x = x.axis(values=[t for t in (1, 2, 5, 10, 20, 50, 100) if t <= last], format="d")
        y = alt.Y("y:Q").title("negative log-likelihood").scale(domain=(low - room, high + room), nice=False)
        both = pl.concat([paper, ours])
        panel = _panel(both, x, y.axis(format=",d", tickCount=5), published.EM_METHODS, published.PAPER_SET_NAMES[name])
        panels.append(panel.properties(width=300, height=200))
    _save(panels, folder / "likelihood.svg")


def gaps(found: pl.DataFrame, folder: Path) -> None:
    """Draw how far each iteration is from the limit, on a logarithmic scale: a straight line is a linear rate."""
    from adjudge.report.charts import alt

    panels = []
    for name in dict.fromkeys(found["set"]):
        part = found.filter((pl.col("set") == name) & (pl.col("iteration") <= 60) & (pl.col("gap") > 0))
        x = alt.X("x:Q").title("iteration").scale(nice=False, padding=8).axis(format="d", tickCount=6)
        y = alt.Y("y:Q").title("gap to the limit").scale(type="log", nice=False, padding=8)
        y = y.axis(values=DECADES, labelOverlap=True, format="~e")
        points = _points(part, x="iteration", y="gap", methods=("ds", "fds"))
        panels.append(
            _panel(points, x, y, ("ds", "fds"), published.PAPER_SET_NAMES[name], None).properties(width=300, height=200)
        )
    _save(panels, folder / "convergence.svg")


def scaling(found: pl.DataFrame, paper: Mapping[str, float], folder: Path) -> None:
    """Draw the time of an iteration against each size; O(QACn) is dashed, from DS's first point on."""
    from adjudge.report.charts import alt

    parts = {}
    for size in dict.fromkeys(found["size"]):
        part = found.filter(pl.col("size") == size).with_columns(ms=1000 * pl.col("seconds"))
        points = _points(part, x="value", y="ms", methods=("ds", "fds"))
        first = points.filter(pl.col("method") == "ds").sort("x")
        steep = first["y"][0] * (pl.col("x") / first["x"][0]) ** paper[size]
        parts[size] = pl.concat([first.with_columns(y=steep, source=pl.lit("O(QACn)"), marked=False), points])
    low, high = _range(pl.concat(parts.values())["y"])
    panels: list[Chart] = []
    for size, points in parts.items():
        x = alt.X("x:Q").title(size.replace("_", " ")).scale(type="log", nice=False, padding=10)
        x = x.axis(values=sorted(set(points["x"])), format="~s")
        y = alt.Y("y:Q").title(None if panels else "ms per iteration")
        y = y.scale(type="log", domain=(0.9 * low, 1.1 * high), nice=False)
        y = y.axis(values=[t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= t <= 1.1 * high], format="~g")
        panels.append(_panel(points, x, y, ("ds", "fds"), None, "O(QACn)").properties(width=220, height=190))
    _save(panels, folder / "scaling.svg", columns=4)


def _points(found: pl.DataFrame, *, x: str, y: str, methods: Sequence[str]) -> pl.DataFrame:
    """Return the points of our curves: method, x, y, source and whether the point is marked, some 15 of a curve."""
    return (
        found.filter(pl.col("method").is_in(methods))
        .select("method", x=x, y=y, source=pl.lit(OUR_SERIES))
        .with_columns(marked=(pl.int_range(pl.len()) % (pl.len() // 15).clip(1) == 0).over("method"))
    )


def _range(values: pl.Series) -> tuple[float, float]:
    low, high = values.min(), values.max()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    return low, high


def _panel(
    points: pl.DataFrame, x: alt.X, y: alt.Y, methods: Collection[str], title: str | None, dashed: str | None = PAPERS
) -> alt.LayerChart:
    """Return one panel: a curve per method, ours solid with filled marks; `dashed` names the other ones, with open marks.

    Every panel names all methods of the figure, since they share colours and shapes.
    """
    from adjudge.report.charts import alt

    shown = [model for model in METHOD_STYLES if model in methods]
    names, colours, shapes = zip(*((published.METHODS[m], *METHOD_STYLES[m]) for m in shown), strict=True)
    method = alt.Color("method:N").title(None).scale(domain=names, range=colours)
    shape = alt.Shape("method:N").title(None).scale(domain=names, range=shapes)
    named = points.with_columns(method=pl.col("method").replace(dict(published.METHODS)))
    curves = alt.Chart(named).encode(x, y, method)
    ours, theirs = (curves.transform_filter(kind) for kind in (alt.datum.source == OUR_SERIES, alt.datum.source != OUR_SERIES))
    layers: list[Any] = [ours.mark_line(strokeWidth=1.8), ours.transform_filter("datum.marked").mark_point(size=40, opacity=1)]
    layers[1] = layers[1].encode(shape)
    if dashed is not None:
        dash = alt.StrokeDash("source:N").title(None).scale(domain=[OUR_SERIES, dashed], range=[[1, 0], [4, 3]])
        dash = dash.legend(symbolType="stroke", symbolSize=220, symbolStrokeColor=LEGEND_GREY)
        layers[0] = layers[0].encode(dash)
        lines = theirs.mark_line(strokeWidth=1.3, clip=True).encode(dash)
        if dashed != PAPERS:
            lines = lines.encode(color=alt.value(LEGEND_GREY))
        rings = theirs.transform_filter("datum.marked").mark_point(filled=False, size=90, opacity=0.8, strokeWidth=1.2)
        layers = [lines, rings.encode(shape), *layers]
    panel = alt.layer(*layers)
    return panel.properties(title=alt.Title(title, anchor="middle", offset=6)) if title else panel  # type: ignore[return-value]


def _save(panels: Sequence[Chart], path: Path, columns: int = 3) -> None:
    """Write a figure with one legend for all panels: colours and shapes are methods, dashes are the paper."""
    from adjudge.report.charts import alt, apply_theme, save_svg

    figure = alt.concat(*panels, columns=columns, spacing={"row": 24, "column": 20})
    looking = apply_theme(figure.resolve_scale(color="shared", shape="shared", strokeDash="shared"))
    looking.config["legend"] |= {"orient": "bottom", "direction": "horizontal"}
    save_svg(looking, path)
