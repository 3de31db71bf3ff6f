"""`adjudge serve`: the live service, which takes votes over HTTP; and `adjudge token`: who may use it, and for what."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from adjudge.cli import output as out
from adjudge.cli.options import PlainGroup, add_command, command, split_words
from adjudge.cli.store import open_to_read
from adjudge.data.options import StreamedModel
from adjudge.errors import UNSEEN, AdjudgeError, InputError, OptionError, itemize, quote

if TYPE_CHECKING:
    from adjudge.service.store.store import Store
    from adjudge.service.store.tables import TokenRow

DEFAULT_STORE: Final = "votes.db"
MAX_TOKEN_NAME_CHARACTERS: Final = 64
SCOPES_HELP: Final = "vote, read, moderate (and read), admin (everything)"
StoreUrl = Annotated[str, typer.Option("--store", help="The file or the address of the service's store.")]


@command(
    ("A service on this machine, with a first campaign (stored in votes.db):", "adjudge serve --labels spam,ok"),
    ("With a policy, on any free port:", "adjudge serve --labels spam,ok --policy policy.json --port 0"),
    (
        "For other machines, on PostgreSQL (make a token first):",
        "adjudge serve --store postgresql://db/votes --host 0.0.0.0",
    ),
    model=StreamedModel,
    log_level=("debug", "info", "warning", "error"),
)
def serve(
    store: Annotated[
        str, typer.Option(help="A file, or postgresql://USER@HOST/DATABASE; a missing file is created.")
    ] = DEFAULT_STORE,
    host: Annotated[str, typer.Option(help="Address to listen on; other than this machine only with tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any free one.")] = 8000,
    labels: Annotated[
        str | None, typer.Option(help='Labels, joined by commas: creates the campaign "default" with them if it is missing.')
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="With --labels: the policy that decides tasks, a JSON file.")] = None,
    model: Annotated[str, typer.Option("-m", "--model", help="With --labels: fds, ds, hybrid or auto.")] = "fds",
    rate: Annotated[
        float | None, typer.Option(help="Rate limit per token, in requests and votes per second (default: none).")
    ] = None,
    connections: Annotated[int, typer.Option(help="Maximum number of open connections.")] = 10_000,
    connections_per_peer: Annotated[
        int, typer.Option(help="Maximum number of open connections per address, which may be a proxy's; 0: no limit.")
    ] = 4000,
    require_tokens: Annotated[
        bool, typer.Option("--require-tokens", help="Require a token on this machine, too: always set it behind a proxy.")
    ] = False,
    allow_private: Annotated[
        bool, typer.Option("--allow-private-webhooks", help="Allow webhooks to addresses that are not public.")
    ] = False,
    grace: Annotated[float, typer.Option(help="Seconds for requests to finish when the service stops.")] = 20.0,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve the page for people at /.")] = True,
    log_level: Annotated[str, typer.Option(help="Log level on stderr: debug, info, warning or error.")] = "info",
) -> None:
    """Run the live service: votes in over HTTP, decisions out.

    It stops on Ctrl-C or SIGTERM, after it has answered open requests. Votes, decisions and policies are in the store.
    """
    settings: dict[str, Any] = dict(locals())
    if labels is None and (policy is not None or model != "fds"):
        option = "--policy" if policy is not None else "--model"
        raise OptionError(f"{option} is for the campaign that --labels makes: give --labels, too")
    settings["labels"] = () if labels is None else tuple(split_words(labels))
    if settings.pop("policy") is not None:
        from adjudge.service.campaigns.policy import Policy

        chosen = Policy.read(policy)  # type: ignore[arg-type]
        try:
            chosen.rule(settings["labels"])
        except OptionError as error:
            raise OptionError(f"{policy}: {error}") from None
        settings["policy"] = chosen.document()
    try:
        from adjudge.service.http import server
        from adjudge.service.http.server import Settings

        if ui:
            import adjudge.service.board.pages  # noqa: F401 (report a missing library before opening the store)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("adjudge"):
            raise
        raise AdjudgeError(f"the service needs {error.name}: pip install 'adjudge[serve]'") from error
    server.serve(Settings(**settings))


token = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="Make, list and revoke the tokens of a service.")


@command(
    ("For a website that sends votes; the token is printed once:", "adjudge token add website --scope vote"),
    ("For moderators of one campaign:", "adjudge token add moderators --scope moderate --campaign default"),
    scope=("vote", "read", "moderate", "admin"),
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the owner, for people and logs.")],
    scope: Annotated[str, typer.Option(help=f"Scopes, joined by commas: {SCOPES_HELP}.")],
    campaign: Annotated[str | None, typer.Option(help="The only campaign it may use (default: all).")] = None,
    labels: Annotated[
        str | None, typer.Option(help="The only labels that it may decide as a moderator, joined by commas (default: all).")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Make a token and print it: only a hash of it is kept.

    A running service accepts it within a second.
    """
    from adjudge.service.http.tokens import hash_token, make_token, parse_scopes
    from adjudge.service.store.opening import open_token_store

    wanted = parse_scopes(scope)
    if not 1 <= len(name) <= MAX_TOKEN_NAME_CHARACTERS or UNSEEN.search(name):
        raise InputError(f"a token cannot be called {quote(name)}: give 1 to {MAX_TOKEN_NAME_CHARACTERS} visible characters")
    with closing(open_token_store(store)) as writable:
        if any(row.name == name for row in _valid(writable)):
            raise InputError(f"there is a token {quote(name)} already: revoke it first, or give another name")
        if campaign is not None and campaign not in [row.name for row in writable.campaigns()]:
            out.say(f"campaign {quote(campaign)} does not exist yet: the token will reach it once it is created")
        secret = make_token()
        only = None if labels is None else split_words(labels)
        writable.tokens.add(hash_token(secret), name, wanted, campaign, time.time_ns() // 1000, only)
    typer.echo(secret)
    out.say("keep it: it cannot be shown again; send it as the header  Authorization: Bearer TOKEN")


@command(("All tokens and their scopes:", "adjudge token list"))
def list_tokens(
    store: StoreUrl = DEFAULT_STORE,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the tokens of a store, revoked ones last."""
    with open_to_read(store) as readable:
        tokens = sorted(readable.tokens.all(), key=lambda row: row.revoked is not None)
    columns = ("name", "scopes", "campaign", "created", "revoked")
    rows = [(row.name, row.scopes, row.campaign, _moment(row.created), _moment(row.revoked)) for row in tokens]
    if as_json:
        out.document([dict(zip(columns, row, strict=True)) for row in rows])
    elif not rows:
        out.say("no tokens yet: the service answers every program on this machine, and refuses to listen beyond it")
    else:
        cells = [(name, ",".join(scopes), campaign or "all", *times) for name, scopes, campaign, *times in rows]
        out.screen().table(columns, cells, left=5)


@command(("Revoke a token:", "adjudge token revoke website"))
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the token, as in `token list`.")],
    store: StoreUrl = DEFAULT_STORE,
) -> None:
    """Let a token count no longer.

    A running service refuses it within a second.
    """
    from adjudge.service.store.opening import open_token_store

    with open_to_read(store):  # raises if there is none: it is not to be made here
        pass
    with closing(open_token_store(store)) as writable:
        valid = {row.name: row for row in _valid(writable)}
        if name not in valid:
            names = f"those that hold are {itemize(valid)}" if valid else "none holds"
            raise InputError(f"there is no token {quote(name)}: {names}")
        writable.tokens.revoke(valid[name].number, time.time_ns() // 1000)
    out.say(f"revoked {name}")


for name, function in (("add", add), ("list", list_tokens), ("revoke", revoke)):
    add_command(token, name, function)


def _valid(store: Store) -> list[TokenRow]:
    return [row for row in store.tokens.all() if row.revoked is None]


def _moment(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
