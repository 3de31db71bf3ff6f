"""`adjudge backup`: a copy of a store in one file, the way back, and votes and decisions as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from adjudge.store.protocol import Store

EXAMPLES: Final = (
    ("A copy, while the service runs:", "adjudge backup votes.db backup.db"),
    ("The way back, to a place where nothing is:", "adjudge backup --restore backup.db restored.db"),
    ("Votes and decisions as tables:", "adjudge backup votes.db --votes votes.csv --decisions decisions.jsonl"),
)


def command(
    source: Annotated[str, typer.Argument(metavar="STORE", help="A file or postgresql://…; with --restore the backup.")],
    target: Annotated[
        str | None, typer.Argument(metavar="FILE", help="The new backup; with --restore the new store, or postgresql://….")
    ] = None,
    restore: Annotated[bool, typer.Option("--restore", help="Make a store from a backup: --restore FILE STORE.")] = False,
    votes: Annotated[Path | None, typer.Option(help="Write the votes in force here: csv, tsv, jsonl, json or parquet.")] = None,
    decisions: Annotated[Path | None, typer.Option(help="Write every decision here, in the order of the log.")] = None,
    history: Annotated[bool, typer.Option("--history", help="With --votes: changed and retracted votes, too.")] = False,
    campaign: Annotated[str | None, typer.Option(help="Whose votes and decisions, where there are several.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Copy, restore or export the store of a service.

    A backup is made while the store is in use. It is a store of its own: one file, from SQLite as from PostgreSQL. Every
    checksum of it is computed again before it is restored.
    """
    from adjudge.cli import campaigns, output
    from adjudge.errors import OptionError
    from adjudge.store.opening import open_store
    from adjudge.store.restore import restore as restored

    exports = {"--votes": votes, "--decisions": decisions}
    tables = [option for option, path in exports.items() if path is not None]
    if history and votes is None:
        raise OptionError("--history says which votes go to --votes FILE: give it, too")
    if restore:
        if target is None or tables or campaign is not None:
            raise OptionError("--restore takes a backup and a new store, and nothing else: adjudge backup --restore FILE STORE")
        restored(source, target)
        if not quiet:
            output.say(f"restored {source} to {target}")
        return
    if target is None and not tables:
        raise OptionError("nothing to write: give a file for the backup, or --votes FILE, or --decisions FILE")
    if campaign is not None and not tables:
        raise OptionError("--campaign is for --votes and --decisions: a backup has all campaigns")
    others = {} if target is None else {"the backup": target}
    output.check(exports, {} if "://" in source else {"the store": source}, others=others)
    store = open_store(source, readonly=True)
    try:
        number = campaigns.only(store, campaign).number if tables else 0
        if target is not None:
            store.backup(target)
            if not quiet:
                output.say(f"wrote {target}, {Path(target).stat().st_size / 1e6:.1f} MB")
        _export(store, number, votes, decisions, history=history)
    finally:
        store.close()


def _export(store: Store, campaign: int, votes: Path | None, decisions: Path | None, *, history: bool) -> None:
    from adjudge.io.write import write_batches
    from adjudge.store.export import decision_frames, vote_frames

    if votes is not None:
        write_batches(vote_frames(store, campaign, in_force=not history), votes)
    if decisions is not None:
        write_batches(decision_frames(store, campaign), decisions)
