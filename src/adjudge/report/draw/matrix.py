"""Heat maps: confusions as tables with their shares printed, agreement as a table or, of many workers, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from adjudge.report import words
from adjudge.report.html import Markup, scrolled, table, tag
from adjudge.report.style import LEVELS, level
from adjudge.report.views.agreement import AgreementView
from adjudge.report.views.confusion import ConfusionView

MAX_PRINTED: Final = 16  # workers whose agreement is printed in cells
HEAD: Final = 10  # characters of a name above a column; where one is longer, columns are numbered
SIDE: Final = 24  # and beside a row; where one is longer, a legend names the numbers


def confusion(view: ConfusionView, *, columns: str = "given", counted: str = "votes") -> Markup:
    """Return a matrix of shares, rows true and columns given; of many labels the worst pairs.

    `columns` is what has become of labels, `counted` are the things that are counted.
    """
    if not view.is_matrix:
        return pairs(view, counted)
    matrix, names = view.matrix, view.labels
    heads, sides = _named(names)
    rows = []
    for true, beside in enumerate(sides):
        cells = [_share(float(share), is_right=true == given) for given, share in enumerate(matrix[true])]
        rows.append(tag("tr", beside, cells, tag("td", words.count(int(view.support[true])), class_="n")))
    what = "true" if view.against == "the truth" else "chosen"
    corner = tag("td", f"{what} ↓ {columns} →", class_="nodata")
    head = tag("thead", tag("tr", corner, heads, tag("th", counted, scope="col", class_="n")))
    whole = tag("table", head, tag("tbody", rows), class_="heat")
    label = f"Labels {columns}: shares of the {counted} of each label"
    return tag("div", scrolled(whole, label), _legend(names))


def _named(names: Sequence[str]) -> tuple[list[Markup], list[Markup]]:
    """Return the heads of columns and of rows; where names are long columns are numbered, and rows too where they are longer."""
    full = [words.shortened(name, 200) for name in names]
    longest = max((len(name) for name in full), default=0)
    short = [str(n) for n in range(1, len(full) + 1)] if longest > HEAD else full
    sides = short if longest > SIDE or longest <= HEAD else [f"{n} {name}" for n, name in zip(short, full, strict=True)]
    return (
        [tag("th", head, scope="col", title=name) for head, name in zip(short, full, strict=True)],
        [tag("th", side, scope="row", title=name) for side, name in zip(sides, full, strict=True)],
    )


def _legend(names: Sequence[str]) -> Markup | None:
    """Return what the numbers of rows and columns stand for, where rows have nothing else."""
    full = [words.shortened(name, 120) for name in names]
    if max((len(name) for name in full), default=0) <= SIDE:
        return None
    return tag("ol", [tag("li", name) for name in full], class_="legend")


def pairs(view: ConfusionView, counted: str = "votes") -> Markup:
    """Return the pairs of labels that are confused most."""
    what = "true label" if view.against == "the truth" else "chosen label"
    rows = [
        (words.shortened(true, 60), words.shortened(given, 60), words.percent(share), words.count(votes))
        for true, given, votes, share in view.worst.iter_rows()
    ]
    whole = table([what, "called", f"of its {counted}", counted], rows, numbers=2)
    return scrolled(whole, f"The pairs of labels that most {counted} confuse")


def _share(share: float, *, is_right: bool) -> Markup:
    if share != share:
        return tag("td", "–", class_="nodata")
    return tag("td", f"{100 * share:.0f}%", class_=f"h{level(share)}{' diag' if is_right else ''}")


def agreement(view: AgreementView) -> Markup:
    """Return the agreement of every two workers beyond chance, rings outlined."""
    return _printed(view) if len(view.workers) <= MAX_PRINTED else _drawn(view)


def _printed(view: AgreementView) -> Markup:
    heads, sides = _named(view.workers)
    rows = [tag("tr", beside, [_kappa(view, row, col) for col in range(len(view.workers))]) for row, beside in enumerate(sides)]
    whole = tag("table", tag("thead", tag("tr", tag("td"), heads)), tag("tbody", rows), class_="heat")
    return tag("div", scrolled(whole, "Agreement of every two workers beyond chance"), _legend(view.workers), ramp())


def _kappa(view: AgreementView, row: int, col: int) -> Markup:
    if row == col:
        return tag("td", "", class_="nodata")
    shared, kappa = int(view.shared[row, col]), float(view.kappa[row, col])
    if not shared or kappa != kappa:
        return tag("td", "–", class_="nodata", title=words.counted(shared, "shared task"))
    ringed = " ringed" if view.ring[row] >= 0 and view.ring[row] == view.ring[col] else ""
    same = f"same answer on {words.percent(float(view.agreement[row, col]))} of {words.counted(shared, 'shared task')}"
    return tag("td", f"{kappa:.2f}".replace("0.", "."), class_=f"{heat(kappa)}{ringed}", title=same)


def heat(kappa: float) -> str:
    """Return the class of a cell: from chance upwards, or downwards.

    >>> heat(0.5), heat(-0.2), heat(0.0)
    ('p5', 'm2', 'p0')
    """
    return f"{'m' if kappa < 0 else 'p'}{level(abs(kappa))}"


def _drawn(view: AgreementView) -> Markup:
    """Return a drawing with one path for each colour: thousands of cells as elements would be slow to show."""
    n = len(view.workers)
    paths: dict[str, list[str]] = {}
    known = (view.shared > 0) & ~np.isnan(view.kappa)
    for row, col in np.argwhere(known | np.eye(n, dtype=np.bool_)).tolist():
        kind = "own" if row == col else heat(float(view.kappa[row, col]))
        paths.setdefault(kind, []).append(f"M{col} {row}h1v1h-1z")
    cells = [tag("path", d="".join(parts), class_="soft" if kind == "own" else kind) for kind, parts in sorted(paths.items())]
    rings = [tag("rect", x=start, y=start, width=end - start, height=end - start, class_="ring") for start, end in view.rings]
    label = f"Agreement of every two of {n} workers beyond chance. {view.sentence}"
    drawing = tag("svg", cells, rings, viewBox=f"0 0 {n} {n}", role="img", aria_label=label, id="agreement-plot")
    return tag("div", tag("div", drawing, class_="heatbox"), ramp())


def ramp() -> Markup:
    """Return what the colours of agreement mean."""
    steps = [tag("i", class_=f"m{step}") for step in range(LEVELS, 0, -2)] + [
        tag("i", class_=f"p{step}") for step in range(0, LEVELS + 1, 2)
    ]
    text = tag("li", "−1 always differ", tag("span", steps, class_="ramp"), "0 chance … 1 always agree")
    return tag("ul", text, tag("li", "outlined: a ring of workers who answer alike"), class_="key")


def partners(view: AgreementView, limit: int) -> list[tuple[str, str, float, float, int]]:
    """Return the pairs of workers who agree most beyond chance: both names, kappa, agreement, shared tasks."""
    upper = np.triu((view.shared > 0) & ~np.isnan(view.kappa), 1)
    row, col = np.nonzero(upper)
    order: Sequence[int] = np.argsort(-view.kappa[row, col], kind="stable")[:limit].tolist()
    return [
        (
            view.workers[row[at]],
            view.workers[col[at]],
            float(view.kappa[row[at], col[at]]),
            float(view.agreement[row[at], col[at]]),
            int(view.shared[row[at], col[at]]),
        )
        for at in order
    ]
