"""Requests over httpx2. This is the only module that imports httpx2 and the two libraries below it, httpcore2 and h11.

`Connections` is written once, with `await`. Its subclasses only say how to wait: `AwaitedConnections` on an event loop,
`BlockingConnections` in the calling thread, so that nothing ever suspends (see `blocking.py`).

httpx2 sends the whole body of a request before it reads the response. A stream of votes needs both at once, so `Exchange` puts
h11, which parses HTTP/1.1 without I/O, on the network streams of httpcore2.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final

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
FIRST_ANSWER_S: Final = 5.0  # after which a stream assumes a proxy that reads the whole request before it answers
CONNECT_ERRORS: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpcore2.ConnectError, httpcore2.ConnectTimeout)
TIMEOUT_ERRORS: Final = (httpx2.TimeoutException, httpcore2.TimeoutException)
TRANSPORT_ERRORS: Final = (
    *(httpx2.TransportError, httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError, h11.ProtocolError),
    OSError,
)

_url: Final = lru_cache(maxsize=256)(httpx2.URL)  # parsing takes a tenth of a vote's time, and votes go to one path


class Connections(ABC):
    """Connections to one service. Threads may share them; a forked child makes its own.

    - `address`: of the service.
    - `headers`: of every request.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address = address
        self.headers = {"Accept-Encoding": "identity", **headers}
        self._transports: dict[tuple[int, bool], Any] = {}

    async def send(self, request: Request[Any], timeout: float) -> HttpAnswer:
        """Send a request once, and return its answer.

        - `request`: what to send. One that is not repeatable gets a new connection.
        - `timeout`: seconds to wait for each step.
        """
        dialled = Dialled()
        with self.errors(dialled):
            transport = self._transport(keep_alive=request.repeatable)
            return await self.answer(await self.handle(transport, self.ask(request, timeout, dialled)))

    @asynccontextmanager
    async def events(self, path: str, *, timeout: float, silence: float) -> AsyncIterator[AsyncIterator[httpx2.ServerSentEvent]]:
        """Yield the server-sent events of a path.

        - `path`: of the request.
        - `timeout`, `silence`: seconds to wait for the connection, and for each read.
        """
        with self.errors():
            request = self.listen(path, timeout, silence)
            response = await self.handle(self._transport(keep_alive=False), request)
            response.request = request
            try:
                if response.status_code != 200:
                    raise error_of(await self.answer(response))
                yield self.iterate(httpx2.EventSource(response, MAX_EVENT_BYTES))
            finally:
                await self.close_response(response)

    async def exchange(self, path: str, content_type: str, *, timeout: float, silence: float) -> Exchange:
        """Return a POST whose body is sent in pieces while its response is read.

        - `path`, `content_type`: of the request.
        - `timeout`, `silence`: seconds to wait for the connection, and for each step on it.
        """
        address = self.address
        with self.errors():
            stream = await self.dial(address.host, address.port, timeout)
            if address.secure:
                stream = await stream.start_tls(self.tls, address.host, timeout)
        exchange = Exchange(self, Duplex(self, path, content_type), stream, silence)
        try:
            await exchange.begin()
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def close(self) -> None:
        """Close the connections of this process; the next request makes new ones."""
        transports, self._transports = self._transports, {}
        for (process, _), transport in transports.items():
            if process == os.getpid():
                await self.close_transport(transport)

    def _transport(self, *, keep_alive: bool) -> Any:
        key = os.getpid(), keep_alive
        transport = self._transports.get(key)
        return transport or self._transports.setdefault(key, self.transport_type(**self.options(keep_alive=keep_alive)))

    # --- how to wait

    transport_type: ClassVar[type[Any]]

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait."""

    @abstractmethod
    async def handle(self, transport: Any, request: httpx2.Request) -> httpx2.Response:
        """Return the response of a transport, whose body is still to be read."""

    @abstractmethod
    async def answer(self, response: httpx2.Response) -> HttpAnswer:
        """Read a response to its end, and close it."""

    @abstractmethod
    def iterate(self, source: httpx2.EventSource) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield events as they come."""

    @abstractmethod
    async def dial(self, host: str, port: int, timeout: float) -> httpcore2.AsyncNetworkStream:
        """Return a new connection."""

    @abstractmethod
    async def close_response(self, response: httpx2.Response) -> None:
        """Release the connection of a response."""

    @abstractmethod
    async def close_transport(self, transport: Any) -> None:
        """Close the connections of a transport."""

    # --- requests and errors of httpx2

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

    def ask(self, request: Request[Any], timeout: float, dialled: Dialled) -> httpx2.Request:
        """Return the request of httpx2 for one of ours."""
        headers = {} if request.body is None else {"Content-Type": JSON_TYPE}
        return self.request(
            request.method, request.path, headers, content=request.body, connect=timeout, read=timeout, trace=self.trace(dialled)
        )

    def trace(self, dialled: Dialled) -> Any:
        """Return what httpcore2 calls with the steps of a request."""
        return dialled.anote

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
    cause = error
    while True:
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause.__cause__ or cause.__context__
        if inner is None:
            break
        cause = inner
    return cause if isinstance(cause, OSError) else ConnectionError(str(error).rstrip("."))


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


class AwaitedConnections(Connections):
    """Connections of one event loop."""

    transport_type = httpx2.AsyncHTTPTransport

    async def sleep(self, seconds: float) -> None:
        """Let the event loop run other tasks meanwhile."""
        await asyncio.sleep(seconds)

    async def handle(self, transport: Any, request: httpx2.Request) -> httpx2.Response:
        """Return the response of a transport."""
        response: httpx2.Response = await transport.handle_async_request(request)
        return response

    async def answer(self, response: httpx2.Response) -> HttpAnswer:
        """Read a response to its end, and close it."""
        try:
            return HttpAnswer(response.status_code, response.headers, b"".join([piece async for piece in response.aiter_raw()]))
        finally:
            await response.aclose()

    def iterate(self, source: httpx2.EventSource) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield events as they come."""
        return aiter(source)

    async def dial(self, host: str, port: int, timeout: float) -> httpcore2.AsyncNetworkStream:
        """Return a new connection."""
        return await httpcore2.AnyIOBackend().connect_tcp(host, port, timeout)

    async def close_response(self, response: httpx2.Response) -> None:
        """Release the connection of a response."""
        await response.aclose()

    async def close_transport(self, transport: Any) -> None:
        """Close the connections of a transport."""
        await transport.aclose()


class BlockingConnections(Connections):
    """Connections that block the thread that uses them: no method ever suspends."""

    transport_type = httpx2.HTTPTransport

    def trace(self, dialled: Dialled) -> Any:
        """Return what httpcore2 calls with the steps of a request."""
        return dialled.note

    async def sleep(self, seconds: float) -> None:
        """Block the thread."""
        time.sleep(seconds)

    async def handle(self, transport: Any, request: httpx2.Request) -> httpx2.Response:
        """Return the response of a transport."""
        response: httpx2.Response = transport.handle_request(request)
        return response

    async def answer(self, response: httpx2.Response) -> HttpAnswer:
        """Read a response to its end, and close it."""
        try:
            return HttpAnswer(response.status_code, response.headers, b"".join(response.iter_raw()))
        finally:
            response.close()

    async def iterate(self, source: httpx2.EventSource) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield events as they come."""
        for event in source:
            yield event

    async def dial(self, host: str, port: int, timeout: float) -> httpcore2.AsyncNetworkStream:
        """Return a new connection."""
        return _BlockingStream(httpcore2.SyncBackend().connect_tcp(host, port, timeout))

    async def close_response(self, response: httpx2.Response) -> None:
        """Release the connection of a response."""
        response.close()

    async def close_transport(self, transport: Any) -> None:
        """Close the connections of a transport."""
        transport.close()


class _BlockingStream(httpcore2.AsyncNetworkStream):
    """A blocking stream with the methods of an awaited one."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        self._stream.close()

    async def start_tls(self, context: ssl.SSLContext, host: str | None = None, timeout: float | None = None) -> _BlockingStream:
        return _BlockingStream(self._stream.start_tls(context, host, timeout))


class Duplex:
    """One POST whose body is sent in pieces while its response is read: bytes in, bytes out, no I/O.

    - `link`: to the service.
    - `path`: of the request.
    - `content_type`: of the body.
    """

    def __init__(self, link: Connections, path: str, content_type: str) -> None:
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

    @property
    def is_answered(self) -> bool:
        """Whether the head of the response is there."""
        return self._response is not None

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
    - `stream`: the connection.
    - `silence`: seconds to wait for each step on it.
    """

    def __init__(self, link: Connections, duplex: Duplex, stream: httpcore2.AsyncNetworkStream, silence: float) -> None:
        self._link, self._duplex, self._stream, self._silence = link, duplex, stream, silence

    @property
    def is_ended(self) -> bool:
        """Whether the body is sent: nothing more can be written."""
        return self._duplex.is_ended

    async def begin(self) -> None:
        """Send the head of the request."""
        await self._send(self._duplex.head)

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
                self._duplex.feed(await self._read())
            return piece

    async def _read(self) -> bytes:
        """Return received bytes. Ends the body if the response does not begin, because some proxies wait for the end."""
        if not self._duplex.is_ended and not self._duplex.is_answered:
            try:
                return await self._stream.read(READ_BYTES, min(self._silence, FIRST_ANSWER_S))
            except httpcore2.ReadTimeout:
                await self._stream.write(self._duplex.end(), self._silence)
        return await self._stream.read(READ_BYTES, self._silence)

    async def close(self) -> None:
        """Close the connection."""
        with suppress(*TRANSPORT_ERRORS):
            await self._stream.aclose()
