"""The workers: votes against accuracy, with intervals; a dot each, or cells where they are many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from adjudge.report import palette, words
from adjudge.report.draw.chart import across, chart, log_place, log_ticks, percent_ticks, rule_across, symbol, up
from adjudge.report.html import Content, Markup, tag
from adjudge.report.style import level
from adjudge.report.views.workers import QUESTION, WorkersView
from adjudge.results.overview import TO_LOOK_AT

MAX_INTERVALS: Final = 400  # dots whose intervals can be told apart; of more, only those to look at have one
MAX_TEXT: Final = 200  # characters of a name on hover: names may be of any length
WORDS: Final = {
    "informative": "says something",
    "unclear": "cannot be told from guessing yet",
    "spammer": "answers without looking",
    "adversary": "avoids what others say",
    "copy": "copies",
}


def draw(view: WorkersView) -> Markup:
    """Return the picture of the workers, with its key."""
    frame = view.dots.filter(view.dots["accuracy"].is_not_null())
    votes = view.frame["votes"]
    low, high = float(votes.min() or 1), float(votes.max() or 1)  # type: ignore[arg-type]
    low, high = (low / 1.5, high * 1.5) if high < low * 1.5 else (low, high)
    rows = frame.sort("accuracy", "code", descending=[True, False]).to_dicts()
    place = {
        row["code"]: (at + 0.5) / len(rows) if view.is_level else log_place(row["votes"], low, high)
        for at, row in enumerate(rows)
    }
    marks: list[Content] = [*_cells(view, low, high)]
    if not math.isnan(view.chance):
        marks.append(rule_across(view.chance, f"guessing: {words.percent(view.chance)}"))
    marks += [_interval(row, place[row["code"]]) for row in rows if _has_interval(row, view, len(rows))]
    order = sorted(rows, key=lambda row: row["verdict"] in TO_LOOK_AT)  # those to look at on top
    marks += [_dot(row, place[row["code"]]) for row in order]
    drawn = chart(
        marks,
        label=f"{QUESTION} {view.sentence}",
        x_ticks=() if view.is_level else log_ticks(low, high),
        y_ticks=percent_ticks(),
        x_title=_level_title(low * 1.5, high / 1.5) if view.is_level else "votes (each step to the right is a multiple)",
        y_title="accuracy: expected share of right votes; thin lines are 90% intervals",
        height=400,
        identity="workers-plot",
    )
    return tag("div", drawn, _key(view))


def _level_title(fewest: float, most: float) -> str:
    votes = words.count(most) if round(most) == round(fewest) else f"{words.count(fewest)} to {words.count(most)}"
    return f"workers, the most accurate first; each has {votes} votes"


def described(row: Mapping[str, Any]) -> str:
    """Return what is known of a worker, in one line."""
    interval = "" if row["accuracy_low"] is None else f" ({_span(row)})"
    right = "" if row["accuracy"] is None else f", accuracy {words.percent(row['accuracy'])}{interval}"
    verdict = "" if row["verdict"] is None else f"; {row['verdict']}"
    why = "" if row["why"] is None else f": {row['why']}"
    return f"{words.shortened(row['worker'], MAX_TEXT)}: {words.counted(row['votes'], 'vote')}{right}{verdict}{why}"


def _span(row: Mapping[str, Any]) -> str:
    return f"{words.percent(row['accuracy_low'])} to {words.percent(row['accuracy_high'])}"


def badge(verdict: str | None) -> Markup | None:
    """Return a verdict with its mark."""
    if verdict is None:
        return None
    return tag("span", symbol(palette.VERDICTS[verdict].shape, f"v-{verdict}"), verdict, class_="badge")


def _has_interval(row: Mapping[str, Any], view: WorkersView, drawn: int) -> bool:
    known = row["accuracy_low"] is not None and row["accuracy_high"] is not None
    return known and (row["verdict"] in TO_LOOK_AT or (drawn <= MAX_INTERVALS and not view.is_binned))


def _interval(row: Mapping[str, Any], place: float) -> Markup:
    x = across(place)
    y1, y2 = up(row["accuracy_low"]), up(row["accuracy_high"])
    return tag("line", x1=x, x2=x, y1=y1, y2=y2, class_=f"iv v-{row['verdict'] or 'informative'}")


def _dot(row: Mapping[str, Any], place: float) -> Markup:
    sign = palette.UNJUDGED if row["verdict"] is None else palette.VERDICTS[row["verdict"]]
    return tag(
        "use",
        tag("title", described(row)),
        href=f"#m-{sign.shape}",
        x=across(place),
        y=up(row["accuracy"]),
        class_=f"dot v-{row['verdict'] or 'informative'}",
        data_w=row["code"],
    )


def _cells(view: WorkersView, low: float, high: float) -> list[Markup]:
    """Return a rectangle for every cell that has workers, the darker the more."""
    cells = view.cells.to_dicts()
    most = math.log1p(max((cell["workers"] for cell in cells), default=1))
    out = []
    for cell in cells:
        left, right = (log_place(min(cell[end], high), low, high) for end in ("votes_from", "votes_to"))
        share = math.log1p(cell["workers"]) / most
        where = f"{words.count(cell['votes_from'])} to {words.count(cell['votes_to'] - 1)} votes"
        what = f"{words.percent(cell['accuracy_from'])} to {words.percent(cell['accuracy_to'])} right"
        out.append(
            tag(
                "rect",
                tag("title", f"{words.counted(cell['workers'], 'worker')}: {where}, {what}"),
                x=across(left),
                width=f"{max((right - left) * 96.0, 0.4):.2f}%",
                y=up(cell["accuracy_to"]),
                height=f"{(cell['accuracy_to'] - cell['accuracy_from']) * 96.0:.2f}%",
                class_=f"h{level(share * 0.8)}",
            )
        )
    return out


def _key(view: WorkersView) -> Markup | None:
    """Return what the marks mean, with how many there are of each."""
    lines = [
        tag("li", symbol(palette.VERDICTS[word].shape, f"v-{word}"), f"{word}: {WORDS[word]} ({words.count(number)})")
        for word, number in view.verdicts.items()
    ]
    return tag("ul", lines, class_="key") if lines else None
