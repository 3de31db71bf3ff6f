"""`adjudge scores`: numeric scores of several judges."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import (
    Flags,
    Json,
    Level,
    Silent,
    VotesFiles,
    command,
    existing_file,
    for_knowledge,
    for_model,
    for_output,
)

if TYPE_CHECKING:
    from adjudge.cli.console import Screen
    from adjudge.evaluation.scores.scores import Scores

SCORE_UNITS: Final = ("auto", "own", "shared")
MAX_SHOWN_SCORED_ITEMS: Final = 20
MAX_SHOWN_JUDGES: Final = 20


@command(
    ("A score per item with an interval, and every judge's bias:", "adjudge scores s.csv -o items.csv --judges judges.csv"),
    ("On the scale of some known scores:", "adjudge scores s.csv --gold g.csv -o items.csv"),
    (
        "Which items pass, with several prompts of one model counted as one:",
        "adjudge scores s.csv --groups groups.csv --threshold 7",
    ),
    without=("labels", "weight", "normalize", "set_separator"),
    units=SCORE_UNITS,
)
def scores(
    votes: VotesFiles,
    gold: Annotated[Path | None, for_knowledge(help="Known scores of some tasks; or labels, 0 and 1.")] = None,
    groups: Annotated[str | None, for_knowledge(help="Judges that count as one: a table worker, group.")] = None,
    units: Annotated[str, for_model(help="auto, own (each judge in units of its own) or shared.")] = "auto",
    validity: Annotated[
        float, for_model(help="Share of the judges' common signal that is true, if gold does not measure it.")
    ] = 0.5,
    threshold: Annotated[float | None, for_model(help="The score that separates labels.")] = None,
    level: Level = 0.9,
    output: Annotated[Path | None, for_output("-o", "--output", help="Write a line per item here.")] = None,
    judges: Annotated[Path | None, for_output(help="Write a line per judge here.")] = None,
    report: Annotated[Path | None, for_output(help="Write a report page here.")] = None,
    save: Annotated[Path | None, for_output(help="Save the fitted judges here.")] = None,
    as_json: Json = False,
    quiet: Silent = False,
    *,
    how_read: Flags,
) -> None:
    """Merge numeric scores into one per item, with intervals.

    Every judge gets a bias, a slope and a noise. Runs in memory, on one machine.
    """
    targets, pages = {"--output": output, "--judges": judges}, {"--report": report, "--save": save}
    inputs = {"the scores": votes, "the gold": gold, "the groups": existing_file(groups)}
    out.check(targets, inputs, others=pages, to_stdout=True)
    settings: Any = {"units": units, "validity": validity, "threshold": threshold, "level": level}
    found = adj.scores(out.source_of(votes), gold, groups, **settings, **how_read)
    out.write_frames(targets.values(), (found.items_frame, found.panel.judges_frame))
    if report is not None:
        found.report(report)
    if save is not None:
        found.save(save)
    out.present(found.to_dict, partial(_show, found), votes, found.understood, as_json=as_json, quiet=quiet)


def _show(found: Scores, screen: Screen) -> None:
    """Print what the figures rest on, the first items and the judges."""
    for sentence in found.sentences():
        screen.say(sentence)
    interval = f"{100 * found.panel.level:g}% interval"
    frame = found.items_frame()
    labelled = ["probability"] if "probability" in frame.columns else []
    screen.heading("items")
    rows: list[tuple[object, ...]] = [
        (
            row["task"],
            out.figure(row["score"]),
            out.interval(row["low"], row["high"]),
            row["n"],
            *(out.figure(row[name]) for name in labelled),
        )
        for row in frame.head(MAX_SHOWN_SCORED_ITEMS).iter_rows(named=True)
    ]
    screen.table(["task", "score", interval, "scores", *(["P(above)"] if labelled else [])], rows, ids=1)
    screen.more(len(frame), MAX_SHOWN_SCORED_ITEMS, "-o FILE has all")
    frame = found.panel.judges_frame()
    screen.heading("judges")
    rows = [
        (
            row["worker"],
            row["n"],
            *(out.figure(row[name]) for name in ("bias", "slope", "noise", "agreement")),
            out.interval(row["agreement_low"], row["agreement_high"]),
        )
        for row in frame.head(MAX_SHOWN_JUDGES).iter_rows(named=True)
    ]
    screen.table(["judge", "scores", "bias", "slope", "noise", "agreement", interval], rows, ids=1)
    screen.more(len(frame), MAX_SHOWN_JUDGES, "--judges FILE has all")
