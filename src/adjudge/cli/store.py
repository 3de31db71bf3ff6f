"""Commands on the store of a service: `adjudge backup`, `replay` and `backtest`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from adjudge.cli import output as out
from adjudge.cli.options import command
from adjudge.data.options import Number, StreamedModel
from adjudge.errors import InputError, OptionError, choice_error, itemize, pluralize

if TYPE_CHECKING:
    from adjudge.cli.console import Screen
    from adjudge.service.campaigns.audits import TriedAudits
    from adjudge.service.campaigns.backtest import Backtest, Outcomes
    from adjudge.service.campaigns.decision import Decision
    from adjudge.service.store.store import CampaignRow, Store

Until = Annotated[int | None, typer.Option(help="Stop after this position of the log.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
POSITIONS: Final = Number(1, 1 << 62, whole=True)
MAX_SHOWN_CHANGED_TASKS: Final = 10


def open_to_read(url: str) -> closing[Store]:
    """Return a store that is there, to read, and to be closed at the end of a `with`."""
    from adjudge.service.store.opening import open_store

    return closing(open_store(url, readonly=True))


def _campaigns(store: Store, name: str | None) -> list[CampaignRow]:
    """Return the campaign of this name, or all; raise if there is none."""
    rows = store.campaigns()
    if not rows:
        raise InputError(f"the store {store.url} has no campaign yet")
    if name is not None and name not in [row.name for row in rows]:
        raise choice_error("campaign", name, [row.name for row in rows])
    return [row for row in rows if name is None or row.name == name]


def _only_campaign(store: Store, name: str | None) -> CampaignRow:
    """Return the campaign of this name, or the only one; raise if there are several and none is named."""
    rows = _campaigns(store, name)
    if len(rows) > 1:
        names = itemize(row.name for row in rows)
        raise OptionError(f"the store has {len(rows)} campaigns: say which one with --campaign ({names})")
    return rows[0]


@command(
    ("A copy, while the service runs:", "adjudge backup votes.db backup.db"),
    ("Restore it to a new store:", "adjudge backup --restore backup.db restored.db"),
    ("Votes and decisions as tables:", "adjudge backup votes.db --votes votes.csv --decisions decisions.jsonl"),
)
def backup(
    source: Annotated[str, typer.Argument(metavar="STORE", help="A file or postgresql://…; with --restore the backup.")],
    target: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The new backup; with --restore the new store, or postgresql://….")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Make a store from a backup: --restore FILE STORE.")] = False,
    votes: Annotated[Path | None, typer.Option(help="Write the votes in force here: csv, tsv, jsonl, json or parquet.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="Write every decision here, in the order of the log.")] = None,
    history: Annotated[bool, typer.Option("--history", help="With --votes: changed and retracted votes, too.")] = False,
    campaign: Annotated[str | None, typer.Option(help="The campaign, if the store has several.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Copy, restore or export the store of a service.

    A backup is made while the store is in use. It is a store of its own: one file, from SQLite as from PostgreSQL.
    Its checksums are verified before a restore.
    """
    from adjudge.io.write import write_batches
    from adjudge.service.store.backup import restore as restore_backup
    from adjudge.service.store.export import decision_frames, vote_frames

    tables = {"--votes": votes, "--decisions": decisions}
    exports = votes is not None or decisions is not None
    if history and votes is None:
        raise OptionError("--history says which votes go to --votes FILE: give it, too")
    if restore:
        if target is None or exports or campaign is not None:
            raise OptionError("--restore takes a backup and a new store, and nothing else: adjudge backup --restore FILE STORE")
        restore_backup(source, target)
        if not quiet:
            out.say(f"restored {source} to {target}")
        return
    if target is None and not exports:
        raise OptionError("nothing to write: give a file for the backup, or --votes FILE, or --decisions FILE")
    if campaign is not None and not exports:
        raise OptionError("--campaign is for --votes and --decisions: a backup has all campaigns")
    others = {} if target is None else {"the backup": target}
    out.check(tables, {} if "://" in source else {"the store": source}, others=others)
    with open_to_read(source) as store:
        number = _only_campaign(store, campaign).number if exports else 0
        if target is not None:
            store.backup(target)
            if not quiet:
                out.say(f"wrote {target}, {Path(target).stat().st_size / 1e6:.1f} MB")
        if votes is not None:
            write_batches(vote_frames(store, number, in_force=not history), votes)
        if decisions is not None:
            write_batches(decision_frames(store, number), decisions)


@command(
    ("Whether every recorded decision follows from the log:", "adjudge replay votes.db"),
    ("The state after the first 40 events:", "adjudge replay votes.db --campaign default --until 40"),
)
def replay(
    store: Annotated[str, typer.Argument(metavar="STORE", help="A file or postgresql://…, in use or not; a backup, too.")],
    campaign: Annotated[str | None, typer.Option(help="The only campaign to replay (default: all).")] = None,
    until: Annotated[int | None, typer.Option(help="Stop after this position of the log, and compare nothing.")] = None,
    as_json: Json = False,
) -> None:
    """Rebuild campaigns from their log, and compare the decisions.

    Every checksum is checked, every event applied, every decision compared with the recorded one, and the state with that
    from the snapshot. Equal digests mean equal states. The exit code is 1 if anything differs.
    """
    if until is not None:
        POSITIONS.check("until", until)
    outcomes: list[dict[str, Any]] = []
    with open_to_read(store) as log:
        for row in _campaigns(log, campaign):
            outcomes.append(_replay_campaign(log, row, until))
            if not as_json:
                _show_replay(outcomes[-1], out.screen())
    if as_json:
        out.document(outcomes)
    if any(outcome.get("difference") for outcome in outcomes):
        raise typer.Exit(1)


def _replay_campaign(store: Store, row: CampaignRow, until: int | None) -> dict[str, Any]:
    """Replay the log of a campaign, whole or up to a position, and compare it with the recorded decisions."""
    import msgspec

    from adjudge.service.campaigns import replay, snapshot

    if not store.last(row.number):
        return {"campaign": row.name, "events": 0}
    if until is not None:
        state = replay.replay(store, row.number, until=until)
        return {
            "campaign": row.name,
            "events": state.position,
            "votes": state.votes,
            "tasks": state.tasks.counts(),
            "workers": len(state.crowd.all),
            "policy": state.version,
            "digest": snapshot.digest(state),
        }
    checked = msgspec.to_builtins(replay.check(store, row.number))
    names = ("begins", "base", "decisions", "snapshot", "digest", "difference")
    return {"campaign": row.name, "events": checked["position"], **{name: checked[name] for name in names}}


def _show_replay(outcome: dict[str, Any], screen: Screen) -> None:
    name, events = outcome["campaign"], outcome["events"]
    if not events:
        screen.say(f"{name}: no events yet")
        return
    if "tasks" in outcome:
        tasks = ", ".join(f"{count} {status}" for status, count in outcome["tasks"].items() if count) or "none"
        screen.say(f"{name}: after {events} events {outcome['votes']} votes by {outcome['workers']} workers; tasks: {tasks}")
    else:
        snapshot = "" if outcome["snapshot"] is None else f", and the snapshot at {outcome['snapshot']}"
        different = outcome["difference"]
        if outcome["base"]:
            screen.say(
                f"{name}: the log begins at position {outcome['begins']}: what was before has expired; "
                f"the replay begins with the state at position {outcome['base']}"
            )
        if different is None:
            screen.say(f"{name}: {events} events give the {outcome['decisions']} decisions that were recorded{snapshot}")
        else:
            screen.say(f"{name}: differs at position {different['position']}: {different['what']}", style="bold red")
    screen.say(f"digest {outcome['digest']}")


@command(
    ("What another policy would have decided:", "adjudge backtest votes.db --policy policy.json"),
    ("What another model would have:", "adjudge backtest votes.db --model ds --json"),
    model=StreamedModel,
)
def backtest(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A store: a file or postgresql://…, in use or not; a backup, too.")],
    policy: Annotated[Path | None, typer.Option(help="A policy, as a JSON file, that replaces all past ones.")] = None,
    model: Annotated[str | None, typer.Option("-m", "--model", help="fds, ds, hybrid or auto.")] = None,
    campaign: Annotated[str | None, typer.Option(help="The campaign, if the store has several.")] = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Replay the past under another policy or model, and compare.

    Votes, bans and appeals stay where they were. Gold decides nothing on either side: it judges both. Nothing is written.
    """
    import msgspec

    from adjudge.service.campaigns import backtest as backtesting
    from adjudge.service.campaigns.policy import Policy

    if policy is None and model is None:
        raise OptionError("nothing to try: give --policy FILE, or --model, or both")
    if until is not None:
        POSITIONS.check("until", until)
    tried = None if policy is None else Policy.read(policy)
    with open_to_read(log) as store:
        number = _only_campaign(store, campaign).number
        try:
            result = backtesting.backtest(store, policy=tried, model=model, campaign=number, until=until)
        except OptionError as error:
            raise error if policy is None else OptionError(f"{policy}: {error}") from None
    if as_json:
        examples = [{"before": before, "after": after} for before, after in msgspec.to_builtins(result.examples)]
        out.document(msgspec.to_builtins(result) | {"examples": examples})
    else:
        _show_backtest(result, out.screen())


def _show_backtest(result: Backtest, screen: Screen) -> None:
    screen.say(f"{result.position} events: {result.cast} votes on {result.tasks} tasks")
    screen.print()
    screen.table(["", "before", "after"], _outcome_rows(result.before, result.after))
    screen.print()
    screen.say(
        f"{pluralize(result.changed, 'task')} would end differently; {result.votes_saved} of {result.cast} votes come after "
        "the last decision"
    )
    for side, outcomes in (("before", result.before), ("after", result.after)):
        if outcomes.breaker is not None:
            screen.say(f"{side}: decisions were held at the end: {outcomes.breaker}")
        if outcomes.warning is not None:
            screen.say(
                f"{side}: {outcomes.warning}. A backtest takes every worker for a newcomer, and gold decides nothing in it"
            )
    if result.examples:
        rows = [
            (one.task, _describe_decision(one), _describe_decision(other), one.votes)
            for one, other in result.examples[:MAX_SHOWN_CHANGED_TASKS]
        ]
        screen.print()
        screen.table(["task", "before", "after", "votes"], rows, left=3)
        screen.more(result.changed, MAX_SHOWN_CHANGED_TASKS, f"--json lists {len(result.examples)} of them")


def _describe_decision(decision: Decision) -> str:
    return decision.status if decision.label is None else f"{decision.status} {out.shorten(decision.label)}"


def _outcome_rows(before: Outcomes, after: Outcomes) -> list[tuple[object, ...]]:
    """Return the table: what is counted, before and after."""
    names = {"votes": "votes needed", "seconds": "seconds to a decision (median)"}
    counted = ("decided", "escalated", "open", "votes", "flips", "seconds")
    rows: list[tuple[object, ...]] = [(names.get(f, f), getattr(before, f), getattr(after, f)) for f in counted]
    if before.gold or after.gold:
        accuracies = (None if side.accuracy is None else f"{side.accuracy:.1%}" for side in (before, after))
        rows += [("decided tasks with gold", before.gold, after.gold), ("of these right", *accuracies)]
    tried = before.audits, after.audits
    if any(tried):
        rows += [
            ("audits drawn", *(None if side is None else side.drawn for side in tried)),
            ("of these with a known label", *(None if side is None else side.known for side in tried)),
            ("of these wrong", *(None if side is None else side.wrong for side in tried)),
            ("bounds of the error rate", *(None if side is None else _format_bounds(side) for side in tried)),
        ]
    return rows


def _format_bounds(audits: TriedAudits) -> str:
    low, high = audits.interval
    return f"{low:.1%} to {high:.1%}{' (alarm)' if audits.alarmed else ''}"
