"""`adjudge token`: who may use a service, and for what; changed while the service runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from adjudge.cli.command import PlainCommand, PlainGroup, epilog, one_of

if TYPE_CHECKING:
    from adjudge.store.tokens import TokenRow

EXAMPLES: Final = (
    ("For a website that sends votes; the token is printed once:", "adjudge token add website --scope vote"),
    ("For moderators of one campaign:", "adjudge token add moderators --scope moderate --campaign default"),
    ("All tokens, and what they are good for:", "adjudge token list"),
    ("No longer:", "adjudge token revoke website"),
)
LONGEST: Final = 64  # characters of a token's name
SCOPES: Final = "vote, read, moderate (and read), admin (everything)"

app = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="Make, list and revoke the tokens of a service.")
Store = Annotated[str, typer.Option(help="The file or the address of the service's store.")]


@app.command("add", cls=PlainCommand, epilog=epilog(EXAMPLES[:2]))
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, for people and for logs.")],
    scope: Annotated[
        str,
        typer.Option(
            help=f"What it is for, joined by commas: {SCOPES}.", autocompletion=one_of((), "vote", "read", "moderate", "admin")
        ),
    ],
    campaign: Annotated[str | None, typer.Option(help="The only campaign that it reaches (default: all).")] = None,
    store: Store = "votes.db",
) -> None:
    """Make a token and print it: only a hash of it is kept.

    A service that runs takes it within a second.
    """
    import time

    from adjudge.cli import output
    from adjudge.errors import UNSEEN, InputError, shown
    from adjudge.service.tokens import digest, make, scopes
    from adjudge.store.beside import open_beside

    wanted = scopes(scope)
    if not 1 <= len(name) <= LONGEST or UNSEEN.search(name):
        raise InputError(f"a token cannot be called {shown(name)}: give 1 to {LONGEST} visible characters")
    opened = open_beside(store)
    try:
        if any(row.name == name for row in _held(opened.tokens.all())):
            raise InputError(f"there is a token {shown(name)} already: revoke it first, or give another name")
        if campaign is not None and campaign not in [row.name for row in opened.campaigns()]:
            output.say(f"there is no campaign {shown(campaign)} yet: the token reaches it once there is")
        secret = make()
        opened.tokens.add(digest(secret), name, wanted, campaign, time.time_ns() // 1000)
    finally:
        opened.close()
    typer.echo(secret)
    output.say("keep it: it cannot be shown again; send it as the header  Authorization: Bearer TOKEN")


@app.command("list", cls=PlainCommand)
def list_tokens(
    store: Store = "votes.db",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the tokens of a store, revoked ones last."""
    from adjudge.cli import console, output
    from adjudge.store.opening import open_store

    opened = open_store(store, readonly=True)
    try:
        rows = sorted(opened.tokens.all(), key=lambda row: row.revoked is not None)
    finally:
        opened.close()
    found = [
        {
            "name": row.name,
            "scopes": list(row.scopes),
            "campaign": row.campaign,
            "created": _moment(row.created),
            "revoked": _moment(row.revoked),
        }
        for row in rows
    ]
    if as_json:
        output.document(found)
        return
    if not found:
        output.say("there are no tokens: on this machine the service answers everybody, beyond it nobody")
        return
    shown = [(one["name"], ",".join(row.scopes), one["campaign"] or "all", one["created"], one["revoked"])
             for one, row in zip(found, rows, strict=True)]  # fmt: skip
    console.data().print(console.table(["name", "scopes", "campaign", "created", "revoked"], shown, left=5))


@app.command("revoke", cls=PlainCommand, epilog=epilog(EXAMPLES[3:]))
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the token, as `token list` has it.")],
    store: Store = "votes.db",
) -> None:
    """Let a token count no longer.

    A service that runs refuses it within a second.
    """
    import time

    from adjudge.cli import output
    from adjudge.errors import InputError, listed, shown
    from adjudge.store.beside import open_beside
    from adjudge.store.opening import open_store

    open_store(store, readonly=True).close()  # raises where there is none: it is not to be made here
    opened = open_beside(store)
    try:
        held = _held(opened.tokens.all())
        found = next((row for row in held if row.name == name), None)
        if found is None:
            names = f"those that hold are {listed(row.name for row in held)}" if held else "none holds"
            raise InputError(f"there is no token {shown(name)}: {names}")
        opened.tokens.revoke(found.number, time.time_ns() // 1000)
    finally:
        opened.close()
    output.say(f"revoked {name}")


def _held(rows: list[TokenRow]) -> list[TokenRow]:
    return [row for row in rows if row.revoked is None]


def _moment(time: int | None) -> str | None:
    if time is None:
        return None
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time // 1_000_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
