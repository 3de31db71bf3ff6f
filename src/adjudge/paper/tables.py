"""The paper's tables with its figure, ours and the difference side by side, as frames, CSV and Markdown."""

from __future__ import annotations

import statistics
from pathlib import Path

import polars as pl

from adjudge.io.write import write_aside, write_frame
from adjudge.paper import published
from adjudge.paper.grid import Grid

Row = dict[str, object]


def compare_figures(name: str, paper: float | None, ours: float | None) -> Row:
    """Return three columns: the paper's figure, ours, and ours less the paper's.

    >>> compare_figures("accuracy", 0.5, 0.75)
    {'accuracy paper': 0.5, 'accuracy ours': 0.75, 'accuracy difference': 0.25}
    """
    difference = None if paper is None or ours is None else ours - paper
    return {f"{name} paper": paper, f"{name} ours": ours, f"{name} difference": difference}


def frame(rows: list[Row]) -> pl.DataFrame:
    """Return rows as a frame, however many of the first cells are empty."""
    return pl.DataFrame(rows, infer_schema_length=None)


def figure1(grid: Grid) -> pl.DataFrame:
    """Return every point of Figure 1: accuracy (mean and standard deviation over trials), iterations, seconds."""
    rows = []
    for (name, model, k), spot in grid.items():
        row: Row = {"set": name, "method": model, "annotators": k}
        row |= compare_figures("accuracy", published.point("accuracy", name, model, k), spot.mean)
        row["accuracy sd"] = spot.spread
        if model != "mv":
            row |= compare_figures("iterations", published.point("iterations", name, model, k), spot.mean_iterations)
        row |= {"seconds paper": published.point("seconds", name, model, k), "seconds ours": spot.time}
        rows.append(row)
    return frame(rows)


def table1(grid: Grid) -> pl.DataFrame:
    """Return the speed-ups in time and iterations, averaged over the numbers of annotators from 2.

    The paper's averages leave out one annotator, when there is nothing to decide: its own curves say so.
    """
    rows = []
    for name in dict.fromkeys(name for name, _, _ in grid):
        ks = range(2, published.annotators(name) + 1)
        for key, slow, fast in published.SPEEDUPS:
            paper = published.figures()["table1"][published.PAPER_SET_NAMES[name]][key]
            row: Row = {"set": name, "speed-up": f"{fast} over {slow}"}
            known = (name, slow, 2) in grid and (name, fast, 2) in grid
            pairs = [(grid[name, slow, k], grid[name, fast, k]) for k in ks] if known else []
            row |= compare_figures("time", paper[0], statistics.fmean(a.time / b.time for a, b in pairs) if pairs else None)
            ours = statistics.fmean(a.mean_iterations / b.mean_iterations for a, b in pairs) if pairs else None
            rows.append(row | compare_figures("iterations", paper[1], ours))
    return frame(rows)


def table2(grid: Grid) -> pl.DataFrame:
    """Return the negative log-likelihood at convergence with all annotators: the mean over the trials."""
    rows = []
    for name in dict.fromkeys(name for name, _, _ in grid):
        for model in published.EM_METHODS:
            paper = published.figures()["table2"][published.PAPER_SET_NAMES[name]][published.METHODS[model]]
            ours = statistics.fmean(grid[name, model, published.annotators(name)].nll)
            rows.append({"set": name, "method": model} | compare_figures("nll", paper, ours))
    return frame(rows)


def table3(online: pl.DataFrame) -> pl.DataFrame:
    """Return accuracy, seconds and iterations of online aggregation on SP with all annotators."""
    last = online.filter(pl.col("annotators") == pl.col("annotators").max())
    return frame([_compare_row({}, row, "table3") for row in last.to_dicts()])


def table4(grid: Grid, online: pl.DataFrame) -> pl.DataFrame:
    """Return FDS against online FDS on SP for 2 to 5 annotators, and online DS and Hybrid."""
    paper = published.figures()["table4"]
    rows = []
    for place, k in enumerate(paper["annotators"]):
        row: Row = {"method": "fds", "annotators": k}
        rows.append(row | compare_figures("accuracy", paper["FDS"][place], grid["sp", "fds", k].mean))
        for found in online.filter(pl.col("annotators") == k).to_dicts():
            theirs = paper["Online FDS"][place] if found["method"] == "fds" else None
            row = {"method": f"online {found['method']}", "annotators": k}
            rows.append(row | compare_figures("accuracy", theirs, found["accuracy"]))
    return frame(sorted(rows, key=lambda r: (list(METHOD_ORDER).index(str(r["method"])), r["annotators"])))


METHOD_ORDER = ("fds", "online fds", "online ds", "online hybrid")


def table5(multiple: pl.DataFrame) -> pl.DataFrame:
    """Return accuracy, seconds and iterations with several correct options; the paper's are of another data set."""
    return frame([_compare_row({"set": row["set"]}, row, "table5") for row in multiple.to_dicts()])


def _compare_row(head: Row, row: Row, table: str) -> Row:
    paper = published.figures()[table][published.METHODS[str(row["method"])]]
    out = head | {"method": row["method"]}
    for name in ("accuracy", "seconds", "iterations"):
        out |= compare_figures(name, paper[name], row[name])  # type: ignore[arg-type]
    return out


def write(found: pl.DataFrame, folder: Path, name: str) -> None:
    """Write a table as NAME.csv, to the last digit, and NAME.md, for people."""
    write_frame(found, folder / f"{name}.csv")
    write_text(markdown(found), folder / f"{name}.md")


def write_text(text: str, path: Path) -> None:
    """Write a text file whole or not at all."""
    write_aside(path, lambda aside: aside.write_text(text, encoding="utf-8"))


def markdown(found: pl.DataFrame) -> str:
    """Return a frame as a Markdown table, figures to the right and no more digits than people read.

    >>> print(markdown(pl.DataFrame({"set": ["bm"], "accuracy difference": [0.01234]})))
    | set | accuracy difference |
    |---|---:|
    | bm | +0.0123 |
    <BLANKLINE>
    """
    lines = ["| " + " | ".join(found.columns) + " |"]
    lines.append("|" + "|".join("---" if kind == pl.String else "---:" for kind in found.dtypes) + "|")
    for row in found.iter_rows():
        lines.append("| " + " | ".join(_cell(name, value) for name, value in zip(found.columns, row, strict=True)) + " |")
    return "\n".join(lines) + "\n"


def _cell(column: str, value: object) -> str:
    if value is None or value != value:
        return "–"
    sign = "+" if "difference" in column else ""
    if not isinstance(value, float):
        if isinstance(value, bool):
            return "yes" if value else ""
        return f"{value:{sign}d}" if isinstance(value, int) else str(value)
    if column.startswith(("accuracy", "rate")):
        return f"{value:{sign}.4f}"
    return f"{value:{sign}.3g}" if column.startswith("seconds") else f"{value:{sign}.2f}"
