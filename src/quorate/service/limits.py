"""How much is taken: bytes of a body, requests under way, requests per second and token."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from quorate.service.errors import Malformed, TooLarge, TooMany, TooSlow, Unavailable

MAX_BODY: Final = 8_000_000  # bytes
MAX_LINE: Final = 64_000  # bytes of one line of a stream
MAX_UNDER_WAY: Final = 2000  # requests whose answers are being made
MAX_LISTENERS: Final = 500  # streams of events
BODY_SECONDS: Final = 30.0  # within which a body has to come

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Disconnected(Exception):  # noqa: N818 (nobody is left to be told)
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
        """Take units that came with a request that was admitted: on credit, where there are too few."""
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


async def body(receive: Receive, length: bytes | None, *, begun: bytes = b"", most: int = MAX_BODY) -> bytes:
    """Return the whole body of a request, if it is not too large and comes in time.

    - `receive`: ASGI's, of the request.
    - `length`: the header Content-Length, if there was one: what is too large is refused before it is read.
    - `begun`: what has been read of it already.
    - `most`: how many bytes are read.
    """
    declared(length, most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _whole(receive, begun, most)
    except TimeoutError:
        raise TooSlow(f"the body did not come within {BODY_SECONDS:g} seconds") from None


def declared(length: bytes | None, most: int = MAX_BODY) -> None:
    """Refuse a body by the length that its header declares."""
    if length is None:
        return
    if not length.isdigit():
        raise Malformed("Content-Length is not a number")
    if len(length) > 18 or int(length) > most:
        raise TooLarge(f"the body is larger than {most} bytes")


async def _whole(receive: Receive, begun: bytes, most: int) -> bytes:
    chunks = [begun] if begun else []
    size = len(begun)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise TooLarge(f"the body is larger than {most} bytes")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
