"""How the service is reached, on the command line: the options of every command that asks it something."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from adjudge.errors import UNSEEN

if TYPE_CHECKING:
    from adjudge.client import Client
    from adjudge.live.decision import Decision

for_service: Final = partial(typer.Option, rich_help_panel="Service")
DEFAULT_URL: Final = "http://127.0.0.1:8000"  # of `adjudge.client.address`, which is loaded when it is used

Url = Annotated[str, for_service(help="Where the service is, as `adjudge serve` says it.", envvar="ADJUDGE_URL")]
Token = Annotated[
    str | None, for_service(help="A token of the service; better in the variable ADJUDGE_TOKEN, as others see commands.")
]
Campaign = Annotated[str, for_service(help="The campaign.")]


def client(url: str, token: str | None, campaign: str) -> Client:
    """Return the client that these options describe."""
    from adjudge.client import Client

    return Client(url, token=token, campaign=campaign)


def json_line(decision: Decision) -> str:
    r"""Return a decision as a line of JSON; what a terminal would obey is escaped as JSON does it.

    >>> json_line("a\x9bb")
    '"a\\u009bb"'
    """
    import json

    import msgspec

    text = msgspec.json.encode(decision).decode()
    return UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
