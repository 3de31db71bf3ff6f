"""`adjudge backtest`: how a campaign's past would have gone under another policy or model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from adjudge.cli.command import one_of
from adjudge.data.options import StreamedModel

if TYPE_CHECKING:
    from adjudge.live.backtest import Backtest, Outcomes

EXAMPLES: Final = (
    ("What another policy would have decided:", "adjudge backtest votes.db --policy policy.json"),
    ("What another model would have:", "adjudge backtest votes.db --model ds --json"),
)
SHOWN: Final = 10  # tasks that changed


def command(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A store: a file or postgresql://…, in use or not; a backup, too.")],
    policy: Annotated[Path | None, typer.Option(help="A policy, as a file of JSON, in place of all of the past.")] = None,
    model: Annotated[
        str | None, typer.Option("-m", "--model", help="fds, ds, hybrid or auto.", autocompletion=one_of(StreamedModel))
    ] = None,
    campaign: Annotated[str | None, typer.Option(help="Which one, where there are several.")] = None,
    until: Annotated[int | None, typer.Option(help="Stop after this position of the log.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Replay the past under another policy or model, and compare.

    Votes, bans and appeals stay where they were. Gold decides nothing on either side: it judges both. Nothing is written.
    """
    from adjudge.cli import campaigns, output
    from adjudge.data.options import Number
    from adjudge.errors import OptionError
    from adjudge.live.backtest import backtest
    from adjudge.live.policy import Policy
    from adjudge.store.opening import open_store

    if policy is None and model is None:
        raise OptionError("nothing to try: give --policy FILE, or --model, or both")
    if until is not None:
        Number(1, 1 << 62, whole=True).check("until", until)
    tried = None if policy is None else Policy.read(policy)
    opened = open_store(log, readonly=True)
    try:
        row = campaigns.only(opened, campaign)
        found = backtest(opened, policy=tried, model=model, campaign=row.number, until=until)
    finally:
        opened.close()
    if as_json:
        output.document(_document(found))
    else:
        _print(found)


def _document(found: Backtest) -> dict[str, Any]:
    import msgspec

    document: dict[str, Any] = msgspec.to_builtins(found)
    document["examples"] = [{"before": before, "after": after} for before, after in document["examples"]]
    return document


def _print(found: Backtest) -> None:
    from adjudge.cli import console
    from adjudge.cli.output import shortened

    out = console.data()
    out.say(f"{found.position} events: {found.cast} votes on {found.tasks} tasks")
    out.print()
    out.print(console.table(["", "before", "after"], _rows(found.before, found.after)))
    out.print()
    out.say(f"{found.changed} tasks come out otherwise; {found.votes_saved} of {found.cast} votes come after the last decision")
    for side, outcomes in (("before", found.before), ("after", found.after)):
        if outcomes.breaker is not None:
            out.say(f"{side}: decisions were held at the end: {outcomes.breaker}")
    if found.examples:
        rows = [
            (one.task, f"{one.status} {shortened(one.label)}", f"{other.status} {shortened(other.label)}", one.votes)
            for one, other in found.examples[:SHOWN]
        ]
        out.print()
        out.print(console.table(["task", "before", "after", "votes"], rows, left=3))
        if found.changed > SHOWN:
            out.say(f"… and {found.changed - SHOWN} more: --json has {len(found.examples)}")


def _rows(before: Outcomes, after: Outcomes) -> list[tuple[object, ...]]:
    """Return the table: what is counted, before and after."""
    both = (before, after)
    rows: list[tuple[object, ...]] = [
        (name, *(getattr(each, field) for each in both))
        for name, field in (
            ("decided", "decided"),
            ("escalated", "escalated"),
            ("open", "open"),
            ("votes needed", "votes"),
            ("flips", "flips"),
            ("seconds to a decision (median)", "seconds"),
        )
    ]
    if before.gold or after.gold:
        rows.append(("decided tasks with gold", before.gold, after.gold))
        rows.append(("of these right", *(None if each.accuracy is None else f"{each.accuracy:.1%}" for each in both)))
    return rows
