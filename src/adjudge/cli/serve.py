"""`adjudge serve`: the live service, which takes votes over HTTP and answers with decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from adjudge.cli.command import one_of
from adjudge.data.options import StreamedModel

if TYPE_CHECKING:
    from adjudge.service.settings import Settings

STORE: Final = "votes.db"
EXAMPLES: Final = (
    ("A service on this machine, with a first campaign (votes.db keeps all):", "adjudge serve --labels spam,ok"),
    ("With a policy of its own, on any port that is free:", "adjudge serve --labels spam,ok --policy policy.json --port 0"),
    (
        "For others to reach, over PostgreSQL (adjudge token comes first):",
        "adjudge serve --store postgresql://db/votes --host 0.0.0.0",
    ),
)


def command(
    store: Annotated[
        str, typer.Option(help="A file, or postgresql://USER@HOST/DATABASE; a file that is not there is made.")
    ] = STORE,
    host: Annotated[str, typer.Option(help="Where to listen; beyond this machine only with tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.")] = 8000,
    labels: Annotated[
        str | None, typer.Option(help='Labels, joined by commas: the campaign "default" is made with them if it is not there.')
    ] = None,
    policy: Annotated[Path | None, typer.Option(help="With --labels: when tasks are decided, as a file of JSON.")] = None,
    model: Annotated[
        str, typer.Option("-m", "--model", help="With --labels: fds, ds, hybrid or auto.", autocompletion=one_of(StreamedModel))
    ] = "fds",
    rate: Annotated[
        float | None, typer.Option(help="Requests and votes per second that a token may make (default: any).")
    ] = None,
    connections: Annotated[int, typer.Option(help="Connections that may be open at once.")] = 10_000,
    connections_per_peer: Annotated[
        int, typer.Option(help="Connections that may be open from one address, which may be a proxy's; 0: any number.")
    ] = 4000,
    require_tokens: Annotated[
        bool, typer.Option("--require-tokens", help="Require a token on this machine, too: always set it behind a proxy.")
    ] = False,
    allow_private_webhooks: Annotated[
        bool, typer.Option("--allow-private-webhooks", help="Let webhooks go to addresses that are not public.")
    ] = False,
    grace: Annotated[float, typer.Option(help="Seconds that requests have to end in when the service stops.")] = 20.0,
    log_level: Annotated[
        str,
        typer.Option(
            help="What is logged to stderr: debug, info, warning or error.",
            autocompletion=one_of((), "debug", "info", "warning", "error"),
        ),
    ] = "info",
) -> None:
    """Run the live service: votes in over HTTP, decisions out.

    It stops on Ctrl-C or SIGTERM, after it has answered what is under way. Votes, decisions and policies are in the store.
    """
    from adjudge.cli.output import label_list
    from adjudge.errors import OptionError

    if labels is None and (policy is not None or model != "fds"):
        option = "--policy" if policy is not None else "--model"
        raise OptionError(f"{option} is for the campaign that --labels makes: give --labels, too")
    given: dict[str, Any] = {
        "store": store,
        "host": host,
        "port": port,
        "labels": () if labels is None else tuple(label_list(labels)),
        "model": cast(StreamedModel, model),
        "rate": rate,
        "connections": connections,
        "connections_per_peer": connections_per_peer,
        "require_tokens": require_tokens,
        "allow_private": allow_private_webhooks,
        "grace": grace,
        "log_level": log_level,
    }
    if policy is not None:
        from adjudge.live.policy import Policy

        given["policy"] = Policy.read(policy).document()
    _serve(given)


def _serve(given: dict[str, Any]) -> None:
    from adjudge.errors import AdjudgeError

    try:
        from adjudge.service.server import serve
        from adjudge.service.settings import Settings
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("adjudge"):
            raise
        raise AdjudgeError(f"the service needs {error.name}: pip install 'adjudge[serve]'") from error
    settings: Settings = Settings(**given)
    serve(settings)
