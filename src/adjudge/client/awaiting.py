"""Requests over asyncio's streams: HTTP/1.1 as far as a client needs it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from adjudge.client.address import Address
from adjudge.client.request import JSON, Answer, Request, error_of

MAX_KEPT: Final = 8  # connections that wait for the next request
PIECE: Final = 65_536  # bytes that are read at once, and the most that a head may have


class BadAnswerError(OSError):
    """What came is no answer of HTTP/1.1."""


FAULTS: Final = (OSError, EOFError, asyncio.LimitOverrunError)


class Head(NamedTuple):
    """Status and headers of an answer."""

    status: int
    headers: Mapping[str, str]
    keeps: bool  # whether the connection can be used again

    @property
    def is_chunked(self) -> bool:
        """Whether the body comes in chunks, which say how long they are."""
        return self.headers.get("transfer-encoding", "").lower().strip() == "chunked"

    @property
    def length(self) -> int | None:
        """How long the body is, where it is known."""
        if self.status in (204, 304):
            return 0
        text = self.headers.get("content-length")
        if text is not None and not (text.isascii() and text.isdigit() and len(text) < 19):
            raise BadAnswerError("Content-Length is not a number")
        return None if text is None else int(text)


class Connection:
    """One connection.

    - `reader`, `writer`: its streams.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def stands(self) -> bool:
        """Whether nothing says that it was closed."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def write(self, data: bytes) -> None:
        """Send bytes, soon."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        await self._writer.drain()

    async def head(self) -> Head:
        """Return the head of the next answer; those that only say that it is coming are passed over."""
        while True:
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            version, _, rest = lines[0].partition(" ")
            status = rest[:3]
            if version not in ("HTTP/1.1", "HTTP/1.0") or not (status.isascii() and status.isdigit() and len(status) == 3):
                raise BadAnswerError("what came is no answer of HTTP")
            headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
            if int(status) >= 200:
                keeps = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
                return Head(int(status), headers, keeps)

    async def pieces(self, head: Head) -> AsyncIterator[bytes]:
        """Yield the body of an answer as it comes."""
        reader = self._reader
        if head.is_chunked:
            while size := _size(await reader.readuntil(b"\r\n")):
                left = size
                while left:
                    piece = await reader.read(min(left, PIECE))
                    if not piece:
                        raise asyncio.IncompleteReadError(b"", left)
                    left -= len(piece)
                    yield piece
                await reader.readexactly(2)
            while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
                pass
            return
        left_of_all = head.length
        while left_of_all != 0:
            piece = await reader.read(PIECE if left_of_all is None else min(left_of_all, PIECE))
            if not piece:
                if left_of_all is None:
                    return
                raise asyncio.IncompleteReadError(b"", left_of_all)
            if left_of_all is not None:
                left_of_all -= len(piece)
            yield piece

    async def body(self, head: Head) -> bytes:
        """Return the whole body of an answer."""
        return b"".join([piece async for piece in self.pieces(head)])

    def drop(self) -> None:
        """Close it, without waiting for that."""
        self._writer.close()

    async def close(self) -> None:
        """Close it."""
        self._writer.close()
        with suppress(*FAULTS):
            await self._writer.wait_closed()


def _size(line: bytes) -> int:
    text = line.partition(b";")[0].strip()
    try:
        if not text or len(text) > 8:
            raise ValueError
        return int(text, 16)
    except ValueError:
        raise BadAnswerError("a chunk of the answer does not say how long it is") from None


class AsyncConnections:
    """Connections to one service, of one event loop.

    - `address`: where it is.
    - `headers`: of every request.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address, self.headers = address, headers
        self._kept: list[Connection] = []
        self._context: ssl.SSLContext | None = None

    async def send(self, request: Request[Any], timeout: float) -> Answer:
        """Send a request once, and return its answer.

        - `request`: what to send. One that is not repeatable gets a fresh connection, which no pause has broken.
        - `timeout`: seconds to wait for the answer.
        """
        kept = self._take() if request.repeatable else None
        connection = await self.connect(timeout) if kept is None else kept
        whole = False
        try:
            async with asyncio.timeout(timeout):
                body = request.body
                extra = {} if body is None else {"Content-Type": JSON}
                length = {"Content-Length": str(len(body or b""))} if body is not None or request.method != "GET" else {}
                connection.write(self.head_of(request.method, request.path, {**extra, **length}) + (body or b""))
                with suppress(ConnectionError):  # the service may have answered before it had read everything
                    await connection.drain()
                head = await connection.head()
                answer = Answer(head.status, head.headers, await connection.body(head))
                whole = head.keeps and (head.is_chunked or head.length is not None)
        except FAULTS as error:
            gone = isinstance(error, ConnectionError | EOFError)
            raise self.address.lost(_told(error), kept=kept is not None and gone) from None
        finally:
            if whole and len(self._kept) < MAX_KEPT:
                self._kept.append(connection)
            else:
                await connection.close()
        return answer

    def head_of(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        """Return the head of a request as bytes.

        - `method`, `path`: of the request.
        - `headers`: beside those of every request.
        """
        given = {"Host": self.address.authority, **self.headers, **headers}
        lines = [f"{method} {self.address.prefix}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    async def connect(self, timeout: float) -> Connection:
        """Return a new connection.

        - `timeout`: seconds to wait for it.
        """
        address = self.address
        if address.secure and self._context is None:
            self._context = ssl.create_default_context()
        try:
            async with asyncio.timeout(timeout):
                return Connection(*await asyncio.open_connection(address.host, address.port, ssl=self._context, limit=PIECE))
        except FAULTS as error:
            raise address.unreached(error) from None

    def _take(self) -> Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.stands:
                return connection
            connection.drop()
        return None

    async def close(self) -> None:
        """Close the connections that are kept."""
        kept, self._kept = self._kept, []
        for connection in kept:
            await connection.close()


class AsyncExchange:
    """One request whose body is sent piece by piece, and whose answer is read as it comes.

    - `connections`: to the service.
    - `connection`: one of them, for this exchange alone.
    - `method`: of the request; that of a GET has no body.
    - `silence`: seconds to wait for each piece.
    """

    def __init__(self, connections: AsyncConnections, connection: Connection, method: str, silence: float) -> None:
        self._address, self._connection, self._timeout = connections.address, connection, silence
        self._is_whole = method == "GET"
        self._pieces: AsyncIterator[bytes] | None = None

    @classmethod
    async def begin(
        cls,
        connections: AsyncConnections,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        timeout: float,
        silence: float,
    ) -> AsyncExchange:
        """Return an exchange whose head is sent.

        - `connections`, `method`, `path`: of the request.
        - `headers`: beside those of every request.
        - `timeout`: seconds to wait for the connection.
        - `silence`: seconds to wait for each piece.
        """
        extra = {} if method == "GET" else {"Transfer-Encoding": "chunked"}
        connection = await connections.connect(timeout)
        connection.write(connections.head_of(method, path, {**headers, **extra}))
        return cls(connections, connection, method, silence)

    async def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if piece:
            await self._write(b"%x\r\n%b\r\n" % (len(piece), piece))

    async def end(self) -> None:
        """End the body."""
        if not self._is_whole:
            self._is_whole = True
            await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        self._connection.write(data)
        try:
            async with asyncio.timeout(self._timeout):
                await self._connection.drain()
        except FAULTS as error:
            if isinstance(error, ConnectionError):
                await self._begun()  # raises what the service says, where it has refused the request
            raise self._address.lost(_told(error)) from None

    async def piece(self) -> bytes:
        """Return the next piece of the answer; nothing where it has ended."""
        pieces = await self._begun()
        try:
            async with asyncio.timeout(self._timeout):
                return await anext(pieces, b"")
        except FAULTS as error:
            raise self._address.lost(_told(error)) from None

    async def _begun(self) -> AsyncIterator[bytes]:
        """Return the pieces of the answer, which has begun and is none that refuses."""
        if self._pieces is None:
            try:
                async with asyncio.timeout(self._timeout):
                    head = await self._connection.head()
                    if head.status != 200:
                        raise error_of(Answer(head.status, head.headers, await self._connection.body(head)))
            except FAULTS as error:
                raise self._address.lost(_told(error)) from None
            self._pieces = self._connection.pieces(head)
        return self._pieces

    async def close(self) -> None:
        """End it, wherever it is."""
        if self._pieces is not None:
            with suppress(Exception):
                await self._pieces.aclose()  # type: ignore[attr-defined]
        await self._connection.close()


def _told(error: Exception) -> Exception:
    """Return an error whose text says what happened."""
    return ConnectionError("closed without an answer") if isinstance(error, EOFError) else error
