"""One page on numeric scores: what the figures rest on, the items, and the judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from adjudge.io.write import check_files, check_page, write_aside
from adjudge.report import words
from adjudge.report.html import Markup, scroll, section, small, table
from adjudge.report.page import assemble, describe_source
from adjudge.report.picture import Picture
from adjudge.report.svg import data_table, inline
from adjudge.report.views import scores as views

if TYPE_CHECKING:
    from adjudge.evaluation.scores.scores import Scores

MAX_JUDGE_ROWS: Final = 100  # of a table of judges
JUDGES_HOW: Final = (
    "A judge says centre + bias + slope × (score − centre), with a noise of the judge's own. Agreement is the correlation "
    "with the other judges on the same items."
)
ITEMS_HOW: Final = "A line is the interval of an item, a dot its score."


def write(study: Scores, path: Path, title: str | None = None) -> None:
    """Write the page to one HTML file, completely or not at all."""
    check_page(path)
    check_files({"the report": path}, {})
    whole = page(study, title)
    write_aside(path, lambda aside: aside.write_bytes(whole.encode("utf-8", "replace")))


def page(study: Scores, title: str | None = None) -> str:
    """Return the page as one HTML document."""
    body = [_trust(study), _items(study), _judges(study)]
    named = title or f"Scores of {words.tally(len(study.score), 'item')}"
    return assemble(named, [describe_source(study.understood)], body, None, "with the model of numeric scores")


def _trust(study: Scores) -> Markup:
    first, *others = map(words.sentence, study.sentences())
    return section("trust", "What do these scores rest on?", first, *map(small, others))


def _items(study: Scores) -> Markup:
    return _show("items", "Which items score high?", views.items(study), how=ITEMS_HOW)


def _judges(study: Scores) -> Markup:
    frame = study.panel.judges_frame()
    heads = [
        "judge",
        "scores",
        "bias",
        "slope",
        "noise",
        "agreement",
        "90% interval".replace("90", f"{100 * study.panel.level:g}"),
    ]
    rows = []
    for row in frame.head(MAX_JUDGE_ROWS).iter_rows(named=True):
        numbers = [words.figure(row["n"]), *(_number(row[name]) for name in ("bias", "slope", "noise", "agreement"))]
        known = row["agreement_low"] is not None
        span = f"{row['agreement_low']:.2f} to {row['agreement_high']:.2f}" if known else "–"
        rows.append((words.shorten(words.name(row["worker"]), 40), *numbers, span))
    more = [small(f"The first {MAX_JUDGE_ROWS} of {words.count(len(frame))} judges.")] if len(frame) > MAX_JUDGE_ROWS else []
    listed = scroll(table(heads, rows, numbers=6), "Judges")
    return _show("judges", "What does each judge do to the scale?", views.judges(study), listed, *more, how=JUDGES_HOW)


def _show(identity: str, question: str, picture: Picture, *more: Markup, how: str) -> Markup:
    drawn = [inline(picture)] if picture.plots else []
    data = data_table(picture) if picture.plots else None
    return section(identity, question, picture.sentence, *drawn, *more, how=how, data=data)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")
