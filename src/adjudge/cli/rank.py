"""`adjudge rank`: items ranked by pairwise comparisons, with intervals, and what is known of the judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from adjudge.cli import reading
from adjudge.cli.command import for_input, for_model, for_output, one_of

if TYPE_CHECKING:
    import polars as pl

    from adjudge.ranking.ranking import Ranking

EXAMPLES = (
    ("A leaderboard of what was compared:", "adjudge rank battles.csv"),
    ("Other columns, and the leaderboard into a file:", "adjudge rank games.csv --left home --right away -o board.csv"),
    ("What is known of judges, and whom to compare next:", "adjudge rank battles.csv --judges judges.csv --neighbours next.csv"),
)
YesNo = Literal["auto", "yes", "no"]
MAX_ITEMS = 50  # lines of the leaderboard on the screen
MAX_JUDGES = 20
FILES = "Files or patterns with a comparison per line: left, right, winner, and who says so; - is stdin."


def command(
    comparisons: Annotated[list[str], typer.Argument(metavar="COMPARISONS", help=FILES)],
    left: Annotated[str | None, for_input(help="Column of the item on the left.")] = None,
    right: Annotated[str | None, for_input(help="Column of the item on the right.")] = None,
    winner: Annotated[str | None, for_input(help="Column of the winner: an id, left, right, a, b, tie, ….")] = None,
    worker: reading.Worker = None,
    cluster: Annotated[
        str | None, for_input(help="Column of the prompt or document that makes comparisons depend on each other; '' for none.")
    ] = None,
    separator: reading.Separator = None,
    no_header: Annotated[
        bool, for_input("--no-header", help="The first line is a comparison; columns are called 1, 2, ….")
    ] = False,
    weigh_judges: Annotated[
        str, for_model(help="Estimate the reliability of judges: auto, yes or no.", autocompletion=one_of(YesNo))
    ] = "auto",
    position: Annotated[
        str, for_model(help="Estimate the advantage of the left side: auto, yes or no.", autocompletion=one_of(YesNo))
    ] = "auto",
    prior: Annotated[
        str, for_model(help="Comparisons with a mean item that every item is given, half of them won: auto or a number.")
    ] = "auto",
    level: Annotated[float, for_model(help="Level of the intervals.")] = 0.9,
    draws: Annotated[int, for_model(help="Draws for the errors of more than 2000 items.")] = 64,
    seed: Annotated[int, for_model(help="Seed of the draws.")] = 0,
    output_board: Annotated[Path | None, for_output("-o", "--output", help="Write the leaderboard here.")] = None,
    judges: Annotated[Path | None, for_output(help="Write a line per judge here.")] = None,
    neighbours: Annotated[Path | None, for_output(help="Write a line per two neighbours in the ranking here.")] = None,
    as_json: Annotated[bool, for_output("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, for_output("--quiet", help="Print nothing but warnings.")] = False,
) -> None:
    """Rank items by pairwise comparisons, with intervals.

    The model is that of Bradley and Terry. Judges who guess count for less, and an advantage of the left side is taken out, where
    comparisons show them.
    """
    import adjudge as adj
    from adjudge.cli import console, output
    from adjudge.io.write import write_frame

    targets = {"--output": output_board, "--judges": judges, "--neighbours": neighbours}
    output.check(targets, {"the comparisons": comparisons}, to_stdout=True)
    found = adj.rank(
        reading.source(comparisons),
        judges=_decided("--weigh-judges", weigh_judges),
        position=_decided("--position", position),
        prior=cast(Any, _number(prior)),
        level=level,
        draws=draws,
        seed=seed,
        left=left,
        right=right,
        winner=winner,
        worker=worker,
        cluster=cluster,
        separator=None if separator is None else output.unescaped(separator),
        header=not no_header,
    )
    board = found.leaderboard_frame()
    if output_board is not None:
        write_frame(board, output_board)
    for path, frame in ((judges, found.judges_frame), (neighbours, found.neighbours_frame)):
        if path is not None:
            write_frame(frame(), path)
    if as_json:
        output.document(found.to_dict() | {"understood": output.summary_of(found.understood)})
    elif not quiet:
        console.data().say(output.read_as(comparisons, found.understood))
        _print(found, board)


def _decided(option: str, given: str) -> bool | Literal["auto"]:
    from adjudge.errors import unknown

    if given not in ("auto", "yes", "no"):
        raise unknown(option, given, ("auto", "yes", "no"))
    return "auto" if given == "auto" else given == "yes"


def _number(given: str) -> float | str:
    try:
        return float(given)
    except ValueError:
        return given  # "auto", or what the option's rule refuses


def _print(found: Ranking, board: pl.DataFrame) -> None:
    """Print what there is to know, the leaderboard with the neighbours below each item, and the judges."""
    from adjudge.cli import console

    out = console.data()
    for sentence in found.sentences():
        out.say(sentence)
    several = len(found.has_maximum) > 1
    further = {(row["component"], row["upper"]): row for row in found.neighbours_frame().iter_rows(named=True)}
    names = ["item", *(["component"] if several else []), "rank", "strength", f"{100 * found.level:g}% interval", "ranks"]
    names += ["points", "comparisons", "above the next", "to separate"]
    rows = []
    for line in board.head(MAX_ITEMS).iter_rows(named=True):
        below = further.get((line["component"], line["item"]))
        rows.append(
            (
                line["item"],
                *([str(line["component"])] if several else []),
                str(line["rank"]),
                f"{line['strength']:.2f}",
                f"{line['low']:.2f} to {line['high']:.2f}",
                f"{line['rank_low']} to {line['rank_high']}" if line["rank_low"] < line["rank_high"] else str(line["rank_low"]),
                f"{line['points']:.0f}",
                str(line["comparisons"]),
                "" if below is None else _sure(below["probability"]),
                "" if below is None else "–" if below["further"] is None else str(below["further"]),
            )
        )
    out.print()
    out.print(console.table(names, rows, ids=1))
    if len(board) > MAX_ITEMS:
        out.say(f"… and {len(board) - MAX_ITEMS} more: -o FILE lists them")
    if found.fitted.problem.has_judges:
        _print_judges(found)


def _sure(probability: float) -> str:
    return "> 99.9%" if probability > 0.999 else f"{probability:.1%}"


def _print_judges(found: Ranking) -> None:
    """Print the judges, those with most comparisons first."""
    from adjudge.cli import console

    frame = found.judges_frame().sort("comparisons", descending=True, maintain_order=True)
    has_position = found.fitted.problem.has_position
    names = ["judge", "comparisons", "reliability", f"{100 * found.level:g}% interval"]
    names += ["position bias", f"{100 * found.level:g}% interval"] if has_position else []
    names += ["agrees"]
    rows = []
    for line in frame.head(MAX_JUDGES).iter_rows(named=True):
        cells = [line["worker"], str(line["comparisons"]), f"{line['reliability']:.2f}"]
        cells += [f"{line['reliability_low']:.2f} to {line['reliability_high']:.2f}"]
        if has_position:
            cells += [f"{line['position_bias']:+.2f}", f"{line['position_low']:+.2f} to {line['position_high']:+.2f}"]
        rows.append((*cells, f"{line['agreement']:.1%}"))
    out = console.data()
    out.heading("judges: 1 is the mean one, 0 guesses; position bias is what the left side gains, in nats")
    out.print(console.table(names, rows, ids=1))
    if len(frame) > MAX_JUDGES:
        out.say(f"… and {len(frame) - MAX_JUDGES} more: --judges FILE lists them")
