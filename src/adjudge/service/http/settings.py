"""What a server is started with."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_args

from adjudge.data.options import Choice, Number, Rules, StreamedModel, check
from adjudge.service.http.limits import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_PEER, MAX_UNDER_WAY

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
RULES: Final[Rules] = {
    "port": Number(0, 65535, whole=True),
    "requests": Number(1, 1_000_000, whole=True),
    "connections": Number(1, 1_000_000, whole=True),
    "connections_per_peer": Number(0, 1_000_000, whole=True),
    "attempts": Number(1, 100, whole=True),
    "grace": Number(0, 3600),
    "log_level": Choice(LOG_LEVELS),
    "model": Choice(get_args(StreamedModel)),
}
_RATE: Final = Number(0.001, 1e9)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a server is started with.

    - `store`: a file, or the address of a PostgreSQL database.
    - `host`: where to listen; beyond loopback only with tokens.
    - `port`: of TCP; 0: any that is free.
    - `labels`: of the campaign "default", which is made where it is not there.
    - `model`, `policy`: of that campaign, where it is made: `fds`, `ds`, `hybrid` or `auto`, and a policy's document.
    - `rate`: requests and votes per second and token; None: no limit.
    - `requests`: that may be under way at once.
    - `connections`: that may be open at once.
    - `connections_per_peer`: that may be open from one address, which may be a proxy's; 0: no limit.
    - `require_tokens`: whether a token is needed on loopback, too, as behind a proxy.
    - `allow_private`: whether webhooks may be posted to addresses that are not public.
    - `attempts`: after which a delivery of a webhook is given up.
    - `grace`: seconds that requests have to end in when the server stops.
    - `ui`: whether the page is served at `/`.
    - `log_level`: debug, info, warning or error.

    >>> Settings(port=0).local
    True
    """

    store: str = "votes.db"
    host: str = "127.0.0.1"
    port: int = 8000
    labels: tuple[str, ...] = ()
    model: StreamedModel = "fds"
    policy: Mapping[str, Any] = field(default_factory=dict)
    rate: float | None = None
    requests: int = MAX_UNDER_WAY
    connections: int = MAX_CONNECTIONS
    connections_per_peer: int = MAX_CONNECTIONS_PER_PEER
    require_tokens: bool = False
    allow_private: bool = False
    attempts: int = 8
    grace: float = 20.0
    ui: bool = True
    log_level: str = "info"

    def __post_init__(self) -> None:
        check({each.name: getattr(self, each.name) for each in fields(self)}, RULES)
        if self.rate is not None:
            _RATE.check("rate", self.rate)

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
