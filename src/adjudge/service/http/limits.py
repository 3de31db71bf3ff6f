"""Limits on clients: sizes, times, and how much of it at once. docs/operations.md lists them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from adjudge.service.http.errors import Malformed, TooLarge, TooMany, TooSlow, Unavailable

MAX_BODY: Final = 8_000_000  # bytes
MAX_LINE_BYTES: Final = 64_000  # bytes of one line of a stream
MAX_UNDER_WAY: Final = 2000  # requests whose answers are being made
BODY_SECONDS: Final = 30.0  # within which a body has to come

MAX_HEADER_BYTES: Final = 32_000  # request line and headers; also trailers, and chunk framing without content
MAX_HEADER_LINES: Final = 100
HEADER_SECONDS: Final = 10.0  # from connecting, or from the first byte of a further request, to the end of its headers
KEEP_ALIVE_SECONDS: Final = 75  # between requests; more than the 60 after which nginx closes, so that no request meets a close
SEND_SECONDS: Final = 30.0  # within which a client has to take MIN_SENT_BYTES of the waiting data, or all of it
SEND_WHILE_RECEIVING_SECONDS: Final = 300.0  # the same while the client is still sending its request
MIN_SENT_BYTES: Final = 16_000
LINGER_SECONDS: Final = 2.0  # for a refused client to read the reason before the connection is closed
MAX_LINGER_BYTES: Final = 1_000_000  # that are read and dropped meanwhile
MAX_PIPELINED: Final = 16  # requests of a connection that wait for the answer to an earlier one
MAX_CONNECTIONS: Final = 10_000
MAX_CONNECTIONS_PER_PEER: Final = 4000  # per address

MAX_STREAMS: Final = 2000  # votes:stream and /events that are open at once
MAX_STREAMS_PER_TOKEN: Final = 1000
MAX_STREAMS_PER_TOKEN_AND_CAMPAIGN: Final = 100
STREAM_IDLE_SECONDS: Final = 300.0  # without a whole line, after which votes:stream ends
MAX_UNREAD_BYTES: Final = 16_000_000  # answers of a votes:stream that the client has not read
UNREAD_SECONDS: Final = 5.0  # without reading any of them, after which the stream ends
MAX_UNREAD_BYTES_IN_ALL: Final = 256_000_000  # the same, over all streams

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Disconnected(Exception):  # noqa: N818 (the client is gone)
    """The client went away before its request was whole."""


class Bucket:
    """Units of a token, filled at a steady rate up to a burst: one per request, and one per further vote in it.

    - `rate`: units per second; None: as many as come.
    - `burst`: units that may be used at once after a pause; by default those of two seconds.

    >>> bucket = Bucket(rate=10, burst=20)
    >>> bucket.wait(20, now=0.0), bucket.wait(5, now=0.0), bucket.wait(5, now=0.5)
    (0.0, 0.5, 0.0)
    """

    __slots__ = ("at", "burst", "level", "rate")

    def __init__(self, rate: float | None, burst: float | None = None) -> None:
        self.rate = rate
        self.burst = self.level = (2 * rate if burst is None else burst) if rate is not None else 0.0
        self.at: float | None = None

    def wait(self, units: float, now: float | None = None) -> float:
        """Take units, and return 0; or take nothing, and return after how many seconds they will be there."""
        if self.rate is None:
            return 0.0
        now = time.monotonic() if now is None else now
        if self.at is not None:
            self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        wanted = min(units, self.burst)  # more than a burst is never there: a full bucket pays for it, and goes into debt
        if self.level < wanted - 1e-9:
            return (wanted - self.level) / self.rate
        self.level -= units
        return 0.0

    def charge(self, units: float) -> None:
        """Take units for further votes of an admitted request, on credit if there are too few."""
        if self.rate is not None:
            self.level -= units

    def take(self, units: float) -> None:
        """Take units, or raise `TooMany` with the time to wait."""
        if self.rate is not None and (seconds := self.wait(units)):
            raise TooMany(f"more than {self.rate:g} requests or votes per second with this token", retry_after=seconds)


class Gate:
    """Counts what is under way, and refuses more than there is room for.

    - `most`: how many may be under way at once.
    - `what`: what they are, for the sentence that refuses one.
    """

    __slots__ = ("most", "now", "what")

    def __init__(self, most: int, what: str) -> None:
        self.most, self.what, self.now = most, what, 0

    def __enter__(self) -> None:
        if self.now >= self.most:
            raise Unavailable(f"{self.most} {self.what} are under way already: try again", retry_after=1)
        self.now += 1

    def __exit__(self, *_: object) -> None:
        self.now -= 1


class ConnectionCounter:
    """Counts connections, in total and per peer address.

    - `most`: how many there may be.
    - `per_peer`: how many of them from one address; 0: no limit.

    >>> connections = ConnectionCounter(most=3, per_peer=2)
    >>> [connections.admit(peer) is None for peer in ("a", "a", "a", "b", "b")]
    [True, True, False, True, False]
    """

    def __init__(self, most: int = MAX_CONNECTIONS, per_peer: int = MAX_CONNECTIONS_PER_PEER) -> None:
        self.most, self.per_peer, self.now = most, per_peer, 0
        self._by_peer: Counter[str] = Counter()

    def admit(self, peer: str) -> Unavailable | None:
        """Count a connection, or return the problem if there are too many."""
        if self.now >= self.most:
            return Unavailable(f"{self.most} connections are open: try again later", retry_after=1)
        if self.per_peer and self._by_peer[peer] >= self.per_peer:
            return Unavailable(f"{self.per_peer} connections are open from your address: reuse them", retry_after=1)
        self.now += 1
        self._by_peer[peer] += 1
        return None

    def release(self, peer: str) -> None:
        """Forget a connection that was counted."""
        self.now -= 1
        self._by_peer[peer] -= 1
        if not self._by_peer[peer]:
            del self._by_peer[peer]


class Streams:
    """Counts open streams: in total, per token, and per token and campaign; and the bytes that their clients have not read.

    >>> streams = Streams()
    >>> with streams.open(b"digest", "default"):
    ...     streams.now
    1
    """

    def __init__(self) -> None:
        self._open: Counter[tuple[bytes | str, ...]] = Counter()
        self.unread_bytes = 0

    @property
    def now(self) -> int:
        """How many are open."""
        return self._open[()]

    @contextmanager
    def open(self, token: bytes, campaign: str) -> Iterator[None]:
        """Count a stream while it is open, or raise because there are too many.

        - `token`: its digest; empty if no token is needed.
        - `campaign`: its name.
        """
        if self._open[()] >= MAX_STREAMS:
            raise Unavailable(f"{MAX_STREAMS} streams are open: try again later", retry_after=1)
        if self._open[token,] >= MAX_STREAMS_PER_TOKEN:
            raise TooMany(f"{MAX_STREAMS_PER_TOKEN} streams of this token are open: close some first", retry_after=1)
        if self._open[token, campaign] >= MAX_STREAMS_PER_TOKEN_AND_CAMPAIGN:
            most = MAX_STREAMS_PER_TOKEN_AND_CAMPAIGN
            raise TooMany(f"{most} streams of this token are open in this campaign: close some first", retry_after=1)
        keys: tuple[tuple[bytes | str, ...], ...] = ((), (token,), (token, campaign))
        self._open.update(keys)
        try:
            yield
        finally:
            self._open.subtract(keys)
            for key in keys:
                if not self._open[key]:
                    del self._open[key]


async def read_body(receive: Receive, length: bytes | None) -> bytes:
    """Return the whole body of a request, if it is not too large and comes in time.

    - `receive`: ASGI's, of the request.
    - `length`: the header Content-Length, if there was one: what is too large is refused before it is read.
    """
    if length is not None and not length.isdigit():
        raise Malformed("Content-Length is not a number")
    if length is not None and (len(length) > 18 or int(length) > MAX_BODY):
        raise TooLarge(f"the body is larger than {MAX_BODY} bytes")
    chunks, size, more = [], 0, True
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > MAX_BODY:
                    raise TooLarge(f"the body is larger than {MAX_BODY} bytes")
                more = message.get("more_body", False)
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_SECONDS:g} seconds") from None
    return b"".join(chunks)
