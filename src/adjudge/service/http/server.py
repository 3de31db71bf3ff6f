"""The server: its settings, and uvicorn around the application, from opening the store to closing it."""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import partial
from importlib import import_module
from typing import Any, Final, cast, get_args

import msgspec
import uvicorn

from adjudge.data.options import Choice, Number, Rules, StreamedModel, check
from adjudge.errors import InputError, OptionError, itemize, refuse_windows
from adjudge.service.http import logs
from adjudge.service.http.app import Service
from adjudge.service.http.call import Context
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.connections import Protocol
from adjudge.service.http.limits import (
    KEEP_ALIVE_SECONDS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_PEER,
    MAX_UNDER_WAY,
    ConnectionCounter,
    Gate,
)
from adjudge.service.http.tokens import MAX_TOKEN_AGE_S, TokenIndex
from adjudge.service.http.types import CampaignSpec
from adjudge.service.http.webhooks import Courier
from adjudge.service.store.tables import TokenRow

REFRESH: Final = 0.3  # seconds between looks at the tokens in the store: a revoked one is refused within a second
MAX_OPEN_FILES: Final = 65_536  # open files that the process asks for
RESERVED_FILES: Final = 200  # that are kept for the store, webhooks and libraries
DEFAULT_CAMPAIGN: Final = "default"  # the campaign that is made on first use
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
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


def serve(settings: Settings, *, started: Callable[[str], None] | None = None) -> None:
    """Run a server until SIGTERM or SIGINT, then finish requests under way and close the store.

    - `settings`: what it is started with.
    - `started`: is given the address once it listens; by default one line goes to standard error.
    """
    refuse_windows("the live service")

    def listens(address: str) -> None:
        _settle()
        (started or _announce)(address)

    gc.disable()  # until everything is loaded: nothing of it is garbage
    try:
        with asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(run(settings, listens))
    finally:
        gc.enable()


def _settle() -> None:
    """Make the interpreter one that keeps much and answers soon: the process is the server's own."""
    # What was loaded stays: looking for cycles through millions of objects again and again would stop everything each time.
    # New objects are looked through in small portions, and old ones hardly ever, since the server makes no cycles that last.
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 20, 1_000)
    # How long a thread that is busy (a refit) may make one wait that answers: 5 milliseconds unless it is set.
    sys.setswitchinterval(0.0005)


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # as on Windows
        return None
    return uvloop.new_event_loop


def _announce(address: str) -> None:
    print(f"adjudge listens on {address}", file=sys.stderr, flush=True)  # noqa: T201


async def run(settings: Settings, started: Callable[[str], None], stop: asyncio.Event | None = None) -> None:
    """Open the store, answer requests until told to stop, and close the store.

    - `settings`: what the server is started with.
    - `started`: is given the address once it listens.
    - `stop`: stops the server when it is set, for servers in a thread, which get no signals.
    """
    handler = logs.to_stream(settings.log_level)
    try:
        listening = _bind(settings)
        try:
            campaigns = await Campaigns.open(settings.store)
            try:
                await _serve(settings, campaigns, listening, started, stop)
            finally:
                await campaigns.close()
        finally:
            listening.close()
    finally:
        logs.LOGGER.removeHandler(handler)


def _bind(settings: Settings) -> socket.socket:
    """Return the socket to listen on, or raise an error that names the address."""
    try:
        kind, _, protocol, _, where = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(kind, socket.SOCK_STREAM, protocol)  # named, or asyncio sends small answers 40 ms late
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
        except OSError:
            listening.close()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        remedy = "; give another port, or 0 for any that is free" if error.errno == errno.EADDRINUSE else ""
        raise InputError(f"cannot listen on {settings.host} port {settings.port}: {why}{remedy}") from None
    return listening


async def _serve(
    settings: Settings,
    campaigns: Campaigns,
    listening: socket.socket,
    started: Callable[[str], None],
    stop: asyncio.Event | None,
) -> None:
    is_token_needed = settings.require_tokens or not settings.local
    tokens = TokenIndex(rate=settings.rate, required=is_token_needed)
    tokens.load(await asyncio.to_thread(campaigns.store.tokens.all))
    if is_token_needed and not len(tokens):
        why = "tokens are required" if settings.local else f"host is {settings.host!r}, which others can reach"
        raise OptionError(f"{why}, and there are no tokens: make one first (adjudge token add NAME --scope admin)")
    await _make_default(settings, campaigns)
    for name in campaigns.names():
        if stall := campaigns.get(name).state.describe_stall():
            logs.LOGGER.warning("nothing can be decided: %s", stall, extra={"campaign": name})
    context = Context(
        campaigns,
        tokens,
        allow_private=settings.allow_private,
        under_way=Gate(settings.requests, "requests"),
        connections=ConnectionCounter(min(settings.connections, _free_files()), settings.connections_per_peer),
    )
    context.outbox.load(await asyncio.to_thread(campaigns.store.webhooks.targets))
    campaigns.on_taken = partial(_load_webhooks, context)
    # By name: the page is a layer above this one.
    board = import_module("adjudge.service.board.board").Board(context) if settings.ui else None
    server = _Server(settings, Service(context, board), context, started, stop)
    around = [asyncio.ensure_future(_refresh(context)), asyncio.ensure_future(Courier(context, attempts=settings.attempts).run())]
    if board is not None:
        around.append(asyncio.ensure_future(board.run()))
    try:
        await server.serve(sockets=[listening])
    finally:
        for task in around:
            task.cancel()
        await asyncio.gather(*around, return_exceptions=True)


def _free_files() -> int:
    """Return how many connections the limit on open files leaves room for, after raising it as far as is allowed."""
    try:
        import resource
    except ImportError:  # as on Windows
        return MAX_OPEN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_OPEN_FILES if soft == resource.RLIM_INFINITY else max(1, soft - RESERVED_FILES)


async def _make_default(settings: Settings, campaigns: Campaigns) -> None:
    """Make the campaign "default", where labels are given and it is not there."""
    if not settings.labels:
        return
    if DEFAULT_CAMPAIGN not in campaigns.names():
        document = {"labels": list(settings.labels), "model": settings.model, "policy": dict(settings.policy)}
        try:
            spec = msgspec.convert(document, CampaignSpec)
        except msgspec.ValidationError:
            raise OptionError(f"labels is {itemize(settings.labels)}: give at least two, each of 1 to 256 characters") from None
        await campaigns.put(DEFAULT_CAMPAIGN, spec)
    elif (labels := [label.id for label in campaigns.get(DEFAULT_CAMPAIGN).labels]) != list(settings.labels):
        logs.LOGGER.warning(
            "the campaign is there with other labels, and stays so", extra={"campaign": DEFAULT_CAMPAIGN, "labels": labels}
        )


async def _load_webhooks(context: Context, campaign: Campaign) -> None:
    """Know the webhooks of a campaign that another process has written until now."""
    hooks = await asyncio.to_thread(context.campaigns.store.webhooks.targets, campaign.number)
    context.outbox.load(hooks, campaign.number)


async def _refresh(context: Context) -> None:
    """Keep the tokens as the store has them; without an answer from the store, let them age."""
    reading: asyncio.Future[list[TokenRow]] | None = None
    while True:
        await asyncio.sleep(REFRESH)
        reading = reading or asyncio.ensure_future(asyncio.to_thread(context.campaigns.store.tokens.all))
        await asyncio.wait({reading}, timeout=REFRESH)
        if not reading.done():
            context.authority.review()
            continue
        try:
            context.authority.load(reading.result())
        except Exception:
            logs.LOGGER.exception("tokens cannot be read from the store: those known hold for %g s", MAX_TOKEN_AGE_S)
            context.authority.review()
        reading = None


class _Server(uvicorn.Server):
    """uvicorn's server, which ends by itself: a signal that it has caught is not raised again before the store is closed."""

    def __init__(
        self,
        settings: Settings,
        service: Any,
        context: Context,
        started: Callable[[str], None],
        stop: asyncio.Event | None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                service,
                host=settings.host,
                http=Protocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                backlog=2048,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=max(1, int(settings.grace)),
            )
        )
        self._context, self._started, self._stop, self._host = context, started, stop, settings.host
        logger = logging.getLogger("uvicorn.error")
        logger.handlers, logger.propagate = logs.LOGGER.handlers, False
        logger.setLevel(logging.WARNING)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say where."""
        await super().startup(sockets)
        if sockets and self.started:
            host = f"[{self._host}]" if ":" in self._host else self._host
            self._started(f"http://{host}:{sockets[0].getsockname()[1]}")

    async def on_tick(self, counter: int) -> bool:
        """Return whether it is time to stop."""
        if self._stop is not None and self._stop.is_set():
            self.should_exit = True
        if counter % 10 == 0:  # every second
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                try:
                    cast(Protocol, connection).check_deadlines(now)
                except Exception:
                    logs.LOGGER.exception("a connection cannot be checked")
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to accept, tell long answers to end, and let the others finish."""
        self._context.stopping.set()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal; once more, and requests under way are not waited for."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                with suppress(TypeError):  # of a handler that was not set from Python
                    signal.signal(each, handler)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a server is started with.

    - `store`: a file, or the address of a PostgreSQL database.
    - `host`: where to listen; beyond loopback only with tokens.
    - `port`: of TCP; 0: any that is free.
    - `labels`: of the campaign "default", which is made where it is not there.
    - `model`, `policy`: of that campaign, if it is made: `fds`, `ds`, `hybrid` or `auto`, and a policy's document.
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
