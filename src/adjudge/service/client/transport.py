"""Requests over httpx2. This is the only module that imports httpx2 and the two libraries below it, httpcore2 and h11.

httpx2 sends the whole body of a request before it reads the response. A stream of votes needs both at once, so `Exchange` and
`AsyncExchange` put h11, which parses HTTP/1.1 without I/O, on the network streams of httpcore2.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property, lru_cache
from typing import Any, Final

from adjudge.errors import AdjudgeError
from adjudge.service.client.errors import ServiceError, Unexpected
from adjudge.service.client.request import JSON_TYPE, Address, HttpAnswer, Request, error_of

try:
    import h11
    import httpcore2
    import httpx2
except ImportError as error:
    raise AdjudgeError("the client needs httpx2: pip install 'adjudge[client]'") from error

MAX_IDLE_CONNECTIONS: Final = 8
MAX_HEAD_BYTES: Final = 65_536
MAX_EVENT_BYTES: Final = 1_000_000
READ_BYTES: Final = 65_536
CONNECT_ERRORS: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpcore2.ConnectError, httpcore2.ConnectTimeout)
TIMEOUT_ERRORS: Final = (httpx2.TimeoutException, httpcore2.TimeoutException)
TRANSPORT_ERRORS: Final = (
    *(httpx2.TransportError, httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, h11.ProtocolError),
    OSError,
)

_url: Final = lru_cache(maxsize=256)(httpx2.URL)  # parsing takes a tenth of a vote's time, and votes go to one path


class Endpoint:
    """What both transports share: the address, the headers, TLS, and how httpx2's requests and errors are made and read.

    - `address`: of the service.
    - `headers`: of every request.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address = address
        self.headers = {"Accept-Encoding": "identity", **headers}

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """The TLS settings of an https:// address: the certificates that the system trusts."""
        return ssl.create_default_context()

    def options(self, *, keep_alive: bool) -> dict[str, Any]:
        """Return the options of a transport: no proxies, any number of connections, of which some stay open if `keep_alive`."""
        limits = httpx2.Limits(
            max_connections=None,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS if keep_alive else 0,
            keepalive_expiry=None,  # the service closes idle connections
        )
        return {"verify": self.tls if self.address.secure else False, "trust_env": False, "limits": limits}

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        content: bytes | None = None,
        connect: float,
        read: float,
        trace: Any = None,
    ) -> httpx2.Request:
        """Return a request of httpx2.

        - `method`, `path`, `headers`, `content`: as sent; `headers` are added to those of every request.
        - `connect`, `read`: seconds to wait for a connection, and for each step on it.
        - `trace`: called by httpcore2 with the steps of the request.
        """
        timeout = {"connect": connect, "read": read, "write": read, "pool": connect}
        return httpx2.Request(
            method,
            _url(f"{self.address}{path}"),
            headers={**self.headers, **headers},
            content=content,
            extensions={"timeout": timeout} if trace is None else {"timeout": timeout, "trace": trace},
        )

    def ask(self, request: Request[Any], timeout: float, trace: Any) -> httpx2.Request:
        """Return the request of httpx2 for one of ours."""
        headers = {} if request.body is None else {"Content-Type": JSON_TYPE}
        return self.request(
            request.method, request.path, headers, content=request.body, connect=timeout, read=timeout, trace=trace
        )

    def listen(self, path: str, timeout: float, silence: float) -> httpx2.Request:
        """Return the request for a stream of events."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        return self.request("GET", path, headers, connect=timeout, read=silence)

    @contextmanager
    def errors(self, dialled: Dialled | None = None) -> Iterator[None]:
        """Raise errors of httpx2, httpcore2 and h11 as ours.

        - `dialled`: whether a connection was made; None: there is always a new one.
        """
        try:
            yield
        except ServiceError:
            raise
        except httpx2.SSEError as error:
            raise Unexpected(f"{error} Is this the address of an adjudge service?") from None
        except TRANSPORT_ERRORS as error:
            cause = _cause(error)
            if isinstance(error, CONNECT_ERRORS):
                raise self.address.unreached(cause) from None
            reused = dialled is not None and not dialled.made and not isinstance(error, TIMEOUT_ERRORS)
            raise self.address.lost(cause, kept=reused) from None


def _cause(error: BaseException) -> Exception:
    """Return the error of the operating system behind one of the libraries, or that of the library itself."""
    if isinstance(error, TIMEOUT_ERRORS):
        return TimeoutError()
    found = error
    while True:
        inner = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else found.__cause__ or found.__context__
        if inner is None:
            break
        found = inner
    return found if isinstance(found, OSError) else ConnectionError(str(error).rstrip("."))


class Dialled:
    """Notes whether a request made a new connection; one that was idle may have been closed by the service meanwhile."""

    def __init__(self) -> None:
        self.made = False

    def note(self, step: str, _: object) -> None:
        """Take a step of httpcore2."""
        if step == "connection.connect_tcp.started":
            self.made = True

    async def anote(self, step: str, _: object) -> None:
        """Take a step of httpcore2, awaited."""
        self.note(step, _)


class SyncConnections(Endpoint):
    """Connections to one service. Threads may share them; a forked child makes its own."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        super().__init__(address, headers)
        self._transports: dict[tuple[int, bool], httpx2.HTTPTransport] = {}

    def _transport(self, *, keep_alive: bool) -> httpx2.HTTPTransport:
        key = os.getpid(), keep_alive
        transport = self._transports.get(key)
        if transport is None:
            transport = self._transports.setdefault(key, httpx2.HTTPTransport(**self.options(keep_alive=keep_alive)))
        return transport

    def send(self, request: Request[Any], timeout: float) -> HttpAnswer:
        """Send a request once, and return its answer.

        - `request`: what to send. One that is not repeatable gets a new connection.
        - `timeout`: seconds to wait for each step.
        """
        dialled = Dialled()
        with self.errors(dialled):
            response = self._transport(keep_alive=request.repeatable).handle_request(self.ask(request, timeout, dialled.note))
            return _answer(response)

    @contextmanager
    def events(self, path: str, *, timeout: float, silence: float) -> Iterator[httpx2.EventSource]:
        """Yield the server-sent events of a path.

        - `path`: of the request.
        - `timeout`, `silence`: seconds to wait for the connection, and for each read.
        """
        with self.errors():
            request = self.listen(path, timeout, silence)
            response = self._transport(keep_alive=False).handle_request(request)
            response.request = request
            try:
                if response.status_code != 200:
                    raise error_of(_answer(response))
                yield httpx2.EventSource(response, MAX_EVENT_BYTES)
            finally:
                response.close()

    def exchange(self, path: str, content_type: str, *, timeout: float, silence: float) -> Exchange:
        """Return a POST whose body is sent in pieces while its response is read.

        - `path`, `content_type`: of the request.
        - `timeout`, `silence`: seconds to wait for the connection, and for each step on it.
        """
        return Exchange(self, Duplex(self, path, content_type), timeout=timeout, silence=silence)

    def close(self) -> None:
        """Close the connections of this process; the next request makes new ones."""
        transports, self._transports = self._transports, {}
        for (process, _), transport in transports.items():
            if process == os.getpid():
                transport.close()


class AsyncConnections(Endpoint):
    """Connections to one service, of one event loop."""

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        super().__init__(address, headers)
        self._transports: dict[bool, httpx2.AsyncHTTPTransport] = {}

    def _transport(self, *, keep_alive: bool) -> httpx2.AsyncHTTPTransport:
        if keep_alive not in self._transports:
            self._transports[keep_alive] = httpx2.AsyncHTTPTransport(**self.options(keep_alive=keep_alive))
        return self._transports[keep_alive]

    async def send(self, request: Request[Any], timeout: float) -> HttpAnswer:
        """Send a request once, and return its answer. See `SyncConnections.send`."""
        dialled = Dialled()
        with self.errors(dialled):
            transport = self._transport(keep_alive=request.repeatable)
            return await _async_answer(await transport.handle_async_request(self.ask(request, timeout, dialled.anote)))

    @asynccontextmanager
    async def events(self, path: str, *, timeout: float, silence: float) -> AsyncIterator[httpx2.EventSource]:
        """Yield the server-sent events of a path. See `SyncConnections.events`."""
        with self.errors():
            request = self.listen(path, timeout, silence)
            response = await self._transport(keep_alive=False).handle_async_request(request)
            response.request = request
            try:
                if response.status_code != 200:
                    raise error_of(await _async_answer(response))
                yield httpx2.EventSource(response, MAX_EVENT_BYTES)
            finally:
                await response.aclose()

    async def exchange(self, path: str, content_type: str, *, timeout: float, silence: float) -> AsyncExchange:
        """Return a POST whose body is sent in pieces while its response is read. See `SyncConnections.exchange`."""
        return await AsyncExchange.open(self, Duplex(self, path, content_type), timeout=timeout, silence=silence)

    async def close(self) -> None:
        """Close the connections; the next request makes new ones."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()


def _answer(response: httpx2.Response) -> HttpAnswer:
    try:
        return HttpAnswer(response.status_code, response.headers, b"".join(response.iter_raw()))
    finally:
        response.close()


async def _async_answer(response: httpx2.Response) -> HttpAnswer:
    try:
        return HttpAnswer(response.status_code, response.headers, b"".join([piece async for piece in response.aiter_raw()]))
    finally:
        await response.aclose()


class Duplex:
    """One POST whose body is sent in pieces while its response is read: bytes in, bytes out, no I/O.

    - `link`: to the service.
    - `path`: of the request.
    - `content_type`: of the body.
    """

    def __init__(self, link: Endpoint, path: str, content_type: str) -> None:
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        headers = {
            "Host": link.address.authority,
            **link.headers,
            "Content-Type": content_type,
            "Transfer-Encoding": "chunked",
        }
        request = h11.Request(method="POST", target=link.address.prefix + path, headers=list(headers.items()))
        self.head = self._state.send(request) or b""
        self._response: h11.Response | None = None
        self._refusal = b""  # body of a response that is an error
        self.is_ended = False

    def data(self, piece: bytes) -> bytes:
        """Return the bytes that send a piece of the body."""
        return self._state.send(h11.Data(data=piece)) or b""

    def end(self) -> bytes:
        """Return the bytes that end the body; none if it has ended."""
        if self.is_ended:
            return b""
        self.is_ended = True
        return self._state.send(h11.EndOfMessage()) or b""

    def feed(self, data: bytes) -> None:
        """Take bytes as they came; none: the connection was closed."""
        if not data and self._response is None:
            raise ConnectionError("closed without an answer")
        self._state.receive_data(data)

    def next(self) -> bytes | None:
        """Return the next piece of the response, b"" at its end, or None if more bytes are needed.

        Raises the error of a response that refuses the request.
        """
        while True:
            event = self._state.next_event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.Response):
                self._response = event
            elif isinstance(event, h11.Data):
                if self._response is None or self._response.status_code == 200:
                    return bytes(event.data)
                self._refusal += event.data
            elif not isinstance(event, h11.InformationalResponse):
                if self._response is not None and self._response.status_code != 200:
                    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._response.headers}
                    raise error_of(HttpAnswer(self._response.status_code, headers, self._refusal))
                return b""


class Exchange:
    """A `Duplex` on a connection of its own.

    - `link`: to the service.
    - `duplex`: what is sent and read.
    - `timeout`, `silence`: seconds to wait for the connection, and for each step on it.
    """

    def __init__(self, link: Endpoint, duplex: Duplex, *, timeout: float, silence: float) -> None:
        self._link, self._duplex, self._silence = link, duplex, silence
        address = link.address
        with link.errors():
            self._stream = httpcore2.SyncBackend().connect_tcp(address.host, address.port, timeout)
            if address.secure:
                self._stream = self._stream.start_tls(link.tls, address.host, timeout)
        try:
            self._send(duplex.head)
        except BaseException:
            self.close()
            raise

    def write(self, piece: bytes, *, end: bool) -> None:
        """Send a piece of the body, and its end if this was the last."""
        self._send((self._duplex.data(piece) if piece else b"") + (self._duplex.end() if end else b""))

    def _send(self, data: bytes) -> None:
        with self._link.errors():
            try:
                self._stream.write(data, self._silence)
            except httpcore2.WriteError:
                self.piece()  # raises the error of a service that has refused the request
                raise

    def piece(self) -> bytes:
        """Return the next piece of the response; b"" at its end."""
        with self._link.errors():
            while (piece := self._duplex.next()) is None:
                self._duplex.feed(self._stream.read(READ_BYTES, self._silence))
            return piece

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


class AsyncExchange:
    """A `Duplex` on a connection of its own, awaited. See `Exchange`."""

    def __init__(self, link: Endpoint, duplex: Duplex, stream: httpcore2.AsyncNetworkStream, silence: float) -> None:
        self._link, self._duplex, self._stream, self._silence = link, duplex, stream, silence

    @classmethod
    async def open(cls, link: Endpoint, duplex: Duplex, *, timeout: float, silence: float) -> AsyncExchange:
        """Return an exchange whose head is sent."""
        address = link.address
        with link.errors():
            stream = await httpcore2.AnyIOBackend().connect_tcp(address.host, address.port, timeout)
            if address.secure:
                stream = await stream.start_tls(link.tls, address.host, timeout)
        exchange = cls(link, duplex, stream, silence)
        try:
            await exchange._send(duplex.head)
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def write(self, piece: bytes, *, end: bool) -> None:
        """Send a piece of the body, and its end if this was the last."""
        await self._send((self._duplex.data(piece) if piece else b"") + (self._duplex.end() if end else b""))

    async def _send(self, data: bytes) -> None:
        with self._link.errors():
            try:
                await self._stream.write(data, self._silence)
            except httpcore2.WriteError:
                await self.piece()  # raises the error of a service that has refused the request
                raise

    async def piece(self) -> bytes:
        """Return the next piece of the response; b"" at its end."""
        with self._link.errors():
            while (piece := self._duplex.next()) is None:
                self._duplex.feed(await self._stream.read(READ_BYTES, self._silence))
            return piece

    async def close(self) -> None:
        """Close the connection."""
        with suppress(*TRANSPORT_ERRORS):
            await self._stream.aclose()
