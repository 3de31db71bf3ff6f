"""`adjudge vote`: votes for the live service, and what is decided then."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adjudge.cli import reading, service

if TYPE_CHECKING:
    from adjudge.client import Client
    from adjudge.io.sources import Table
    from adjudge.live.decision import Decision

EXAMPLES = (
    ("One vote, and what is decided of the task then:", "adjudge vote 'post 7' ann spam"),
    ("All votes of a file, in their order:", "adjudge vote votes.csv"),
    ("Decisions as lines of JSON, one after every vote:", "adjudge vote votes.csv --json"),
    ("Take a vote back:", "adjudge vote --retract 'post 7' ann"),
)
WHAT = "TASK WORKER LABEL; or files or patterns of votes, as for `aggregate`; - is stdin. With --retract: TASK WORKER, or files."
Row = tuple[str, str, str]


def command(
    what: Annotated[list[str], typer.Argument(metavar="VOTES", help=WHAT)],
    url: service.Url = service.DEFAULT_URL,
    token: service.Token = None,
    campaign: service.Campaign = "default",
    retract: Annotated[bool, typer.Option("--retract", help="Take votes back.")] = False,
    id_of: Annotated[str | None, typer.Option("--id", help="Id of one vote: sent again with it, it counts once.")] = None,
    task: reading.Task = None,
    worker: reading.Worker = None,
    label: reading.Label = None,
    wide: reading.Wide = False,
    abstain: reading.Abstain = None,
    normalize: reading.Normalize = False,
    separator: reading.Separator = None,
    no_header: reading.NoHeader = False,
    form: reading.Format = "auto",
    question: reading.Question = None,
    predictions: reading.Predictions = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON after every vote.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Send votes to the live service, and print the decisions.

    A vote that is there already changes nothing, so a file can be sent again after an interruption. Each vote that was
    answered is on the disk of the service.
    """
    from adjudge.cli import output
    from adjudge.errors import OptionError

    ids = _ids(what, retract)
    if id_of is not None and (ids is None or retract):
        raise OptionError("--id is for one vote: adjudge vote TASK WORKER LABEL --id ID")
    with service.client(url, token, campaign) as client:
        if ids is not None:
            made = client.retract(*ids) if retract else client.vote_many([(*ids, id_of)], ids=False).decisions[0]
            _print([made], as_json=as_json, quiet=quiet)
            return
        table = _opened(what, reading.given(locals()))
        rows = _Rows(table)
        with _counting(quiet) as count:
            answers = (client.retract(*row[:2]) for row in rows) if retract else client.stream(rows, ids=False)
            last = _followed(answers, as_json and not quiet, count)
        if not as_json:
            _print(list(last.values()), as_json=False, quiet=quiet)
        if not quiet:
            output.say(output.read_as(what, table.reading.understood(votes=rows.sent, abstentions=rows.missing, repeated=0)))
            output.say(_summary(client, rows.sent, last, "taken back" if retract else "sent"))


def _ids(what: list[str], retract: bool) -> list[str] | None:
    """Return what was typed as the ids of one vote; None where they are files."""
    from pathlib import Path

    wanted = 2 if retract else 3
    if len(what) != wanted:
        return None
    return None if all(name == "-" or Path(name).exists() for name in what) else what


def _opened(what: list[str], how: dict[str, Any]) -> Table:
    import adjudge as adj
    from adjudge.io.shapes import layout_of
    from adjudge.io.sources import encoded_folder, open_table

    source = reading.source(what)
    wanted = {role: how.pop(role) for role in ("task", "worker", "label")}
    return open_table(source if encoded_folder(source) is None else adj.read(source), wanted, layout_of(**how))


class _Rows:
    """The votes of a table as texts, in their order; abstentions are left out, and counted."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.sent = self.missing = 0

    def __iter__(self) -> Iterator[Row]:
        import polars as pl

        from adjudge.io.ids import prepared, require_present

        first = 0
        for batch in self._table.batches:
            columns = {role: prepared(batch[role], role, first) for role in ("task", "worker", "label")}
            for role in ("task", "worker"):
                require_present(columns[role], role, first)
            for row in zip(*(column.cast(pl.String) for column in columns.values()), strict=True):
                if row[2] is None:
                    self.missing += 1
                else:
                    self.sent += 1
                    yield row
            first += len(batch)


def _followed(answers: Iterable[Decision], as_json: bool, count: Callable[[int], None]) -> dict[str, Decision]:
    """Return the last decision of every task; with JSON, print every one as it comes."""
    last: dict[str, Decision] = {}
    for number, decision in enumerate(answers, 1):
        last[decision.task] = decision
        if as_json:
            sys.stdout.write(service.json_line(decision) + "\n")
        count(number)
    return last


def _counting(quiet: bool) -> AbstractContextManager[Callable[[int], None]]:
    from adjudge.cli import output

    if quiet or not output.is_shown(sys.stderr):
        return nullcontext(lambda _: None)
    from adjudge.cli import console

    return console.tally(console.talk(), "votes answered")


def _print(decisions: list[Decision], *, as_json: bool, quiet: bool) -> None:
    """Print decisions: lines of JSON, or a table on a terminal, or CSV."""
    from adjudge.cli import output

    if quiet:
        return
    if as_json:
        for decision in decisions:
            sys.stdout.write(service.json_line(decision) + "\n")
        return
    import polars as pl

    columns = {"task": pl.String, "label": pl.String, "confidence": pl.Float64, "status": pl.String, "votes": pl.Int64}
    frame = pl.DataFrame([[getattr(one, name) for name in columns] for one in decisions], schema=columns, orient="row")
    output.labels(iter([frame]), len(frame))


def _summary(client: Client, sent: int, last: dict[str, Decision], done: str) -> str:
    by_status: dict[str, int] = {}
    for decision in last.values():
        by_status[decision.status] = by_status.get(decision.status, 0) + 1
    tasks = ", ".join(f"{count} {status}" for status, count in sorted(by_status.items()))
    return f"{sent} votes {done}: campaign {client.campaign} at {client.url}; tasks: {tasks or 'none'}"
