"""Commands that ask the live service something: `adjudge vote` and `watch`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import adjudge as adj
from adjudge.cli import output as out
from adjudge.cli.options import Flags, command
from adjudge.errors import OptionError

if TYPE_CHECKING:
    from adjudge.io.records import OpenTable
    from adjudge.service.campaigns.decision import Decision

for_service: Final = partial(typer.Option, rich_help_panel="Service")
DEFAULT_URL: Final = "http://127.0.0.1:8000"  # of `adjudge.service.client.request`, which is loaded when it is used
Url = Annotated[str, for_service(help="Address of the service, as `adjudge serve` prints it.", envvar="ADJUDGE_URL")]
Token = Annotated[
    str | None, for_service(help="A token of the service; better in the variable ADJUDGE_TOKEN, because others can see commands.")
]
Campaign = Annotated[str, for_service(help="The campaign.")]
VOTE_ARGUMENT_HELP: Final = (
    "TASK WORKER LABEL; or files or patterns of votes, as for `aggregate`; - is stdin. With --retract: TASK WORKER, or files."
)


@command(
    ("One vote, and the resulting decision on the task:", "adjudge vote 'post 7' ann spam"),
    ("All votes of a file, in their order:", "adjudge vote votes.csv"),
    ("Decisions as lines of JSON, one after every vote:", "adjudge vote votes.csv --json"),
    ("Take a vote back:", "adjudge vote --retract 'post 7' ann"),
    without=("weight", "labels", "count", "strict", "set_separator", "duplicates"),
)
def vote(
    what: Annotated[list[str], typer.Argument(metavar="VOTES", help=VOTE_ARGUMENT_HELP)],
    url: Url = DEFAULT_URL,
    token: Token = None,
    campaign: Campaign = "default",
    retract: Annotated[bool, typer.Option("--retract", help="Take votes back.")] = False,
    id_of: Annotated[str | None, typer.Option("--id", help="Id of one vote, so that it counts once if it is sent again.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON after every vote.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
    *,
    how_read: Flags,
) -> None:
    """Send votes to the live service, and print the decisions.

    Repeated votes change nothing, so a file can be sent again after an interruption. Each vote that was
    answered is on the disk of the service.
    """
    is_one_vote = len(what) == (2 if retract else 3) and not all(name == "-" or Path(name).exists() for name in what)
    if id_of is not None and (retract or not is_one_vote):
        raise OptionError("--id is for one vote: adjudge vote TASK WORKER LABEL --id ID")
    with adj.Client(url, token=token, campaign=campaign) as client:
        if is_one_vote:
            made = client.retract(*what) if retract else client.vote_many([(*what, id_of)], ids=False).decisions[0]
            _print([made], as_json=as_json, quiet=quiet)
            return
        table = _open(what, how_read)
        rows = _VoteTexts(table)
        with out.progress("tally", "votes answered", quiet=quiet, unseen=lambda _: None) as count:
            answers = (client.retract(*row[:2]) for row in rows) if retract else client.stream(rows, ids=False)
            decisions = _follow(answers, as_json and not quiet, count)
        if not as_json:
            _print(list(decisions.values()), as_json=False, quiet=quiet)
        if not quiet:
            out.say(out.read_as(what, table.notes.understood(votes=rows.sent, abstentions=rows.missing, repeated=0)))
            by_status = Counter(decision.status for decision in decisions.values())
            tasks = ", ".join(f"{count} {status}" for status, count in sorted(by_status.items())) or "none"
            done = "taken back" if retract else "sent"
            out.say(f"{rows.sent} votes {done}: campaign {client.campaign} at {client.url}; tasks: {tasks}")


def _open(what: list[str], how_read: Flags) -> OpenTable:
    from adjudge.io.reading import Reading
    from adjudge.io.sources import Opened, open_table

    source, reading = out.source_of(what), Reading.of(how_read)
    return open_table(source if Opened(source).folder is None else adj.read(source), None, reading)


class _VoteTexts:
    """The votes of a table as texts, in their order; abstentions are left out, and counted."""

    def __init__(self, table: OpenTable) -> None:
        self._table = table
        self.sent = self.missing = 0

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        import polars as pl

        from adjudge.io.frames import prepare_ids, require_present

        first = 0
        for batch in self._table.batches:
            columns = {role: prepare_ids(batch[role], role, first) for role in ("task", "worker", "label")}
            for role in ("task", "worker"):
                require_present(columns[role], role, first)
            for row in zip(*(column.cast(pl.String) for column in columns.values()), strict=True):
                if row[2] is None:
                    self.missing += 1
                else:
                    self.sent += 1
                    yield row
            first += len(batch)


def _follow(answers: Iterable[Decision], as_json: bool, count: Callable[[int], None]) -> dict[str, Decision]:
    """Return the last decision of every task; with JSON, print every one as it comes."""
    last: dict[str, Decision] = {}
    for number, decision in enumerate(answers, 1):
        last[decision.task] = decision
        if as_json:
            _print([decision], as_json=True, quiet=False)
        count(number)
    return last


def _print(decisions: list[Decision], *, as_json: bool, quiet: bool) -> None:
    """Print decisions: lines of JSON, or a table on a terminal, or CSV."""
    if quiet:
        return
    if as_json:
        for decision in decisions:
            sys.stdout.write(_json_line(decision) + "\n")
        return
    import polars as pl

    columns: Any = {"task": pl.String, "label": pl.String, "confidence": pl.Float64, "status": pl.String, "votes": pl.Int64}
    frame = pl.DataFrame([[getattr(one, name) for name in columns] for one in decisions], schema=columns, orient="row")
    out.print_frames(iter([frame]), len(frame))


def _json_line(decision: Decision) -> str:
    import msgspec

    return out.escape_json(msgspec.json.encode(decision).decode())


@command(
    ("Decisions as they come, until Ctrl-C:", "adjudge watch"),
    ("Past decisions first, as lines of JSON:", "adjudge watch --after 0 --json"),
    ("The first three decisions:", "adjudge watch --after 0 --limit 3"),
)
def watch(
    url: Url = DEFAULT_URL,
    token: Token = None,
    campaign: Campaign = "default",
    after: Annotated[
        str | None, typer.Option(help="Begin after this position of the log (0: its start); by default with new decisions.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many decisions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print decisions as lines of JSON.")] = False,
) -> None:
    """Print decisions of the live service as they come, a line each.

    It reconnects by itself, and misses or repeats no decision. Ctrl-C ends it.
    """
    try:
        with adj.Client(url, token=token, campaign=campaign) as client, client.events(after=after) as events:
            for decision in islice(events, limit):
                sys.stdout.write((_json_line(decision) if as_json else _line(decision)) + "\n")
                sys.stdout.flush()  # readers of a pipe want it now
    except KeyboardInterrupt:  # how one leaves it
        return


def _line(decision: Decision) -> str:
    """Return a decision as people read it."""
    label = "–" if decision.label is None else out.shorten(decision.label)
    votes = f"{decision.votes} vote{'' if decision.votes == 1 else 's'}"
    by = "" if decision.by is None else f" by {out.shorten(decision.by)}"
    task, confidence = out.shorten(decision.task), out.figure(decision.confidence)
    return f"{decision.time:%Y-%m-%d %H:%M:%S}  {task}  {decision.status}  {label}  {confidence}  {votes}{by}"
