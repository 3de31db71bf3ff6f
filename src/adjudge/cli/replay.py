"""`adjudge replay`: the state of campaigns once more, from the log alone, compared with what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from adjudge.store.protocol import CampaignRow, Store

EXAMPLES: Final = (
    ("Whether every recorded decision follows from the log:", "adjudge replay votes.db"),
    ("How things stood after the first 40 events:", "adjudge replay votes.db --campaign default --until 40"),
)


def command(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A file or postgresql://…, in use or not; a backup, too.")],
    campaign: Annotated[str | None, typer.Option(help="Only this one (default: all).")] = None,
    until: Annotated[int | None, typer.Option(help="Stop after this position of the log, and compare nothing.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Rebuild campaigns from their log, and compare the decisions.

    Every checksum is checked, every event applied, every decision compared with the recorded one, and the state with that
    from the snapshot. The digest is equal for equal states alone. The exit code is 1 where anything differs.
    """
    from adjudge.cli import campaigns, output
    from adjudge.data.options import Number
    from adjudge.store.opening import open_store

    if until is not None:
        Number(1, 1 << 62, whole=True).check("until", until)
    opened = open_store(store, readonly=True)
    found: list[dict[str, Any]] = []
    try:
        for row in campaigns.every(opened, campaign):
            one = _checked(opened, row) if until is None else _at(opened, row, until)
            found.append(one)
            if not as_json:
                _print(one)
    finally:
        opened.close()
    if as_json:
        output.document(found)
    if any(one.get("difference") for one in found):
        raise typer.Exit(1)


def _checked(store: Store, row: CampaignRow) -> dict[str, Any]:
    """Replay the whole log of a campaign, and compare."""
    import msgspec

    from adjudge.live.replay import check

    if not store.last(row.number):
        return {"campaign": row.name, "events": 0}
    found = check(store, row.number)
    different = found.difference
    return {
        "campaign": row.name,
        "events": found.position,
        "begins": found.begins,
        "base": found.base,
        "decisions": found.decisions,
        "snapshot": found.snapshot,
        "digest": found.digest,
        "difference": None if different is None else msgspec.to_builtins(different),
    }


def _at(store: Store, row: CampaignRow, until: int) -> dict[str, Any]:
    """Replay the log of a campaign up to a position."""
    from adjudge.live import snapshot
    from adjudge.live.replay import replay

    if not store.last(row.number):
        return {"campaign": row.name, "events": 0}
    state = replay(store, row.number, until=until)
    return {
        "campaign": row.name,
        "events": state.position,
        "votes": state.votes,
        "tasks": state.tasks.counts(),
        "workers": len(state.crowd.all),
        "policy": state.version,
        "digest": snapshot.digest(state),
    }


def _print(found: dict[str, Any]) -> None:
    from adjudge.cli import console

    out = console.data()
    name, events = found["campaign"], found["events"]
    if not events:
        out.say(f"{name}: no events yet")
    elif "tasks" in found:
        tasks = ", ".join(f"{count} {status}" for status, count in found["tasks"].items() if count) or "none"
        out.say(f"{name}: after {events} events {found['votes']} votes by {found['workers']} workers; tasks: {tasks}")
        out.say(f"digest {found['digest']}")
    else:
        snapshot = "" if found["snapshot"] is None else f", and the snapshot at {found['snapshot']}"
        different = found["difference"]
        if found["base"]:
            out.say(
                f"{name}: the log begins at position {found['begins']}: what was before has expired; "
                f"the replay begins with the state at position {found['base']}"
            )
        if different is None:
            out.say(f"{name}: {events} events give the {found['decisions']} decisions that were recorded{snapshot}")
        else:
            out.say(f"{name}: differs at position {different['position']}: {different['what']}", style="bold red")
        out.say(f"digest {found['digest']}")
