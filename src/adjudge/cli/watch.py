"""`adjudge watch`: decisions of the live service as they come."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from adjudge.cli import service

if TYPE_CHECKING:
    from adjudge.live.decision import Decision

EXAMPLES = (
    ("Decisions as they come, until Ctrl-C:", "adjudge watch"),
    ("Those of the past first, as lines of JSON:", "adjudge watch --after 0 --json"),
    ("The first three decisions, and no more:", "adjudge watch --after 0 --limit 3"),
)
WIDTH = 40  # characters of an id on the screen


def command(
    url: service.Url = service.DEFAULT_URL,
    token: service.Token = None,
    campaign: service.Campaign = "default",
    after: Annotated[
        str | None, typer.Option(help="Begin behind this position of the log, 0 being the start; else with what comes.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many decisions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print decisions as lines of JSON.")] = False,
) -> None:
    """Print decisions of the live service as they come, a line each.

    A lost connection is made again, and no decision is missed or printed twice. Ctrl-C ends it.
    """
    try:
        with service.client(url, token, campaign) as client, client.events(after=after) as events:
            for decision in islice(events, limit):
                sys.stdout.write((service.json_line(decision) if as_json else _line(decision)) + "\n")
                sys.stdout.flush()  # whoever reads it wants it now
    except KeyboardInterrupt:  # how one leaves it
        return


def _line(decision: Decision) -> str:
    """Return a decision as people read it."""
    from adjudge.cli.output import figure, shortened

    label = "–" if decision.label is None else shortened(decision.label, WIDTH)
    votes = f"{decision.votes} vote{'' if decision.votes == 1 else 's'}"
    by = "" if decision.by is None else f" by {shortened(decision.by, WIDTH)}"
    sure = figure(decision.confidence)
    return (
        f"{decision.time:%Y-%m-%d %H:%M:%S}  {shortened(decision.task, WIDTH)}  {decision.status}  {label}  {sure}  {votes}{by}"
    )
