"""The plots, in PNG and SVG; the only module that needs matplotlib, and only when it draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from quorate.io.write import write_aside
from quorate.paper import published
from quorate.paper.grid import Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING: Final = "no plots: they need matplotlib (pip install 'quorate[report]'); tables and report are written without"
# The paper's colours by name, in shades that colour-blind people tell apart; a marker of its own for each method.
STYLES: Final[Mapping[str, tuple[str, str]]] = {
    "ds": ("#0072B2", "o"),
    "fds": ("#009E73", "s"),
    "hybrid": ("#D55E00", "^"),
    "iwmv": ("#222222", "x"),
    "mv": ("#AA4499", "D"),
    "glad": ("#E69F00", "v"),
}
OURS: Final[dict[str, Any]] = {"linestyle": "-", "linewidth": 1.6, "markersize": 4.5}
PAPERS: Final[dict[str, Any]] = {
    "linestyle": (0, (4, 2)),
    "linewidth": 1.2,
    "markersize": 7.5,
    "alpha": 0.8,
    "markeredgewidth": 0.9,
    "zorder": 3,
}
LOOK: Final[Any] = {
    "font.size": 10,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titleweight": "bold",
    "svg.hashsalt": "quorate",  # the same picture, the same file
}


def available() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def figure1(grid: Grid, folder: Path) -> None:
    """Draw Figure 1: accuracy, time and iterations (rows) of every set (columns) against the number of annotators."""
    sets = list(dict.fromkeys(name for name, _, _ in grid))
    methods = list(dict.fromkeys(model for _, model, _ in grid))
    with _canvas(folder / "figure1", 3, len(sets), (3.0 * len(sets) + 0.6, 9.0)) as (figure, axes):
        for column, name in enumerate(sets):
            ks = list(range(1, published.annotators(name) + 1))
            axes[0][column].set_title(published.SETS[name])
            for row, measure in enumerate(MEASURES):
                _curves(axes[row][column], grid, name, measure, ks)
            axes[2][column].set_xlabel("annotators")
            for row in range(3):
                axes[row][column].set_xticks(ks)
        for row, title in enumerate(("accuracy", "seconds (log scale)", "iterations")):
            axes[row][0].set_ylabel(title)
        _legend(figure, methods, rings=True)


MEASURES: Final[tuple[published.Measure, ...]] = ("accuracy", "seconds", "iterations")


def _curves(ax: Axes, grid: Grid, name: str, measure: published.Measure, ks: Sequence[int]) -> None:
    for model, (colour, marker) in STYLES.items():
        if (name, model, 1) not in grid or (model == "mv" and measure != "accuracy"):
            continue
        spots = [grid[name, model, k] for k in ks]
        ours = {
            "accuracy": [s.mean for s in spots],
            "seconds": [s.time for s in spots],
            "iterations": [s.mean_iterations for s in spots],
        }[measure]
        paper = published.curve(measure, name, model)
        if paper is not None:
            ax.plot(ks, paper, color=colour, marker=marker, markerfacecolor="none", **PAPERS)
        ax.plot(ks, ours, color=colour, marker=marker, **OURS)
    if measure == "seconds":
        ax.set_yscale("log")


def likelihoods(found: pl.DataFrame, folder: Path) -> None:
    """Draw the negative log-likelihood in every iteration; the paper's values at convergence (Table 2) are dashed."""
    sets = list(dict.fromkeys(found["set"]))
    with _panels(folder / "likelihood", len(sets)) as (figure, panels):
        for ax, name in zip(panels, sets, strict=False):
            for model in published.FAMILY:
                part = found.filter((pl.col("set") == name) & (pl.col("method") == model))
                colour, marker = STYLES[model]
                paper = published.figures()["table2"][published.SETS[name]][published.METHODS[model]]
                ax.axhline(paper, color=colour, linestyle=PAPERS["linestyle"], linewidth=1.2, alpha=0.8)
                ax.plot(part["iteration"], part["nll"], color=colour, marker=marker, markevery=_sparse(len(part)), **OURS)
            shown = found.filter(pl.col("set") == name)["nll"].to_list()
            low, high = min(shown), max(shown)  # the paper's line may lie outside: its votes then differ from ours
            ax.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))
            ax.set_title(published.SETS[name])
            _iterations(ax, log=True)
            ax.set_ylabel("negative log-likelihood")
        _legend(figure, published.FAMILY)


def gaps(found: pl.DataFrame, folder: Path) -> None:
    """Draw how far each iteration is from the limit, on a logarithmic scale: a straight line is a linear rate."""
    sets = list(dict.fromkeys(found["set"]))
    with _panels(folder / "convergence", len(sets)) as (figure, panels):
        for ax, name in zip(panels, sets, strict=False):
            for model in ("ds", "fds"):
                part = found.filter((pl.col("set") == name) & (pl.col("method") == model) & (pl.col("iteration") <= 60))
                colour, marker = STYLES[model]
                ax.plot(part["iteration"], part["gap"], color=colour, marker=marker, markevery=_sparse(len(part)), **OURS)
            ax.set_yscale("log")
            ax.set_title(published.SETS[name])
            _iterations(ax)
            ax.set_ylabel("gap to the limit")
        _legend(figure, ("ds", "fds"), paper=False)


def scaling(found: pl.DataFrame, paper: Mapping[str, float], folder: Path) -> None:
    """Draw the time of an iteration against each size; O(QACn) is dashed, from DS's first point on."""
    sizes = list(dict.fromkeys(found["size"]))
    with _panels(folder / "scaling", len(sizes), columns=4) as (figure, panels):
        for ax, size in zip(panels, sizes, strict=False):
            for model in ("ds", "fds"):
                part = found.filter((pl.col("size") == size) & (pl.col("method") == model))
                x, y = part["value"].to_list(), [1000 * s for s in part["seconds"]]
                colour, marker = STYLES[model]
                if model == "ds":
                    steep = [y[0] * (v / x[0]) ** paper[size] for v in x]
                    ax.plot(x, steep, color="#666666", linestyle=PAPERS["linestyle"], linewidth=1.2)
                ax.plot(x, y, color=colour, marker=marker, **OURS)
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xticks(x, [f"{v // 1000}k" if v >= 1000 else str(v) for v in x])
            ax.minorticks_off()
            ax.set_xlabel(size.replace("_", " "))
        low, high = min(ax.get_ylim()[0] for ax in panels), max(ax.get_ylim()[1] for ax in panels)
        ticks = [t for t in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= t <= high]
        for ax in panels:
            ax.set_ylim(low, high)
            ax.set_yticks(ticks, [f"{t:g}" for t in ticks])
        panels[0].set_ylabel("ms per iteration")
        _legend(figure, ("ds", "fds"), dashed="O(QACn)")


def _iterations(ax: Axes, log: bool = False) -> None:
    ax.set_xlabel("iteration")
    if log:
        ax.set_xscale("log")
        top = ax.get_xlim()[1]
        ticks = [t for t in (1, 2, 5, 10, 20, 50, 100) if t <= top]
        ax.set_xticks(ticks, [str(t) for t in ticks])
        ax.minorticks_off()


def _sparse(points: int) -> int:
    return max(1, points // 15)


def _legend(figure: Figure, methods: Iterable[str], paper: bool = True, dashed: str = "the paper", rings: bool = False) -> None:
    """One legend for the whole figure: colours are methods, dashes are the paper."""
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], color=STYLES[m][0], marker=STYLES[m][1], label=published.METHODS[m], **OURS)
        for m in STYLES
        if m in methods
    ]
    if paper:
        entries.append(Line2D([], [], color="#666666", label="quorate", linewidth=1.6))
        ring: dict[str, Any] = {"marker": "o", "markerfacecolor": "none", "markersize": 7.5} if rings else {}
        entries.append(Line2D([], [], color="#666666", label=dashed, linestyle=PAPERS["linestyle"], linewidth=1.2, **ring))
    figure.legend(handles=entries, loc="outside lower center", ncols=len(entries), frameon=False, fontsize=11)


class _canvas:  # noqa: N801 (used like a function)
    """A figure with a grid of axes, written as PNG and SVG when left without an error."""

    def __init__(self, path: Path, rows: int, columns: int, size: tuple[float, float]) -> None:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        self.path = path
        self.look = rc_context(LOOK)
        self.look.__enter__()
        self.figure = Figure(figsize=size, layout="constrained")
        self.axes: list[list[Axes]] = self.figure.subplots(rows, columns, squeeze=False).tolist()

    def __enter__(self) -> tuple[Figure, list[list[Axes]]]:
        return self.figure, self.axes

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                picture = self.path.with_suffix(".svg")
                write_aside(picture, lambda aside: self.figure.savefig(aside, metadata={"Date": None}))
        finally:
            self.look.__exit__(None, None, None)


class _panels(_canvas):  # noqa: N801 (used like a function)
    """A figure with one panel after the other, three in a row unless said otherwise."""

    def __init__(self, path: Path, count: int, columns: int = 3) -> None:
        columns = min(columns, count)
        rows = -(-count // columns)
        super().__init__(path, rows, columns, (4.0 * columns, 3.1 * rows + 0.5))
        self.flat = [ax for line in self.axes for ax in line]
        for ax in self.flat[count:]:
            ax.set_visible(False)

    def __enter__(self) -> Any:
        return self.figure, self.flat
