"""Requests over http.client: connections that are kept, and exchanges in which both sides speak."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any, Final

from adjudge.client.address import Address
from adjudge.client.request import JSON, Answer, Request, error_of

MAX_KEPT: Final = 8  # connections that wait for the next request
PIECE: Final = 65_536  # bytes that are read at once
FAULTS: Final = (OSError, http.client.HTTPException)


class Connections:
    """Connections to one service. Any number of threads may use them.

    - `address`: where it is.
    - `headers`: of every request.
    """

    def __init__(self, address: Address, headers: Mapping[str, str]) -> None:
        self.address, self.headers = address, headers
        self._kept: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None

    def send(self, request: Request[Any], timeout: float) -> Answer:
        """Send a request once, and return its answer.

        - `request`: what to send. One that is not repeatable gets a fresh connection, which no pause has broken.
        - `timeout`: seconds to wait for each step.
        """
        kept = self._take() if request.repeatable else None
        connection = self.connect(timeout) if kept is None else kept
        try:
            answer, stands = self._over(connection, request, timeout)
        except FAULTS as error:
            connection.close()
            raise self.address.lost(error, kept=kept is not None and isinstance(error, ConnectionError)) from None
        except BaseException:  # an interrupt: the answer is still to come, and must not be taken for the next one's
            connection.close()
            raise
        if stands:
            self._keep(connection)
        else:
            connection.close()
        return answer

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        """Return a new connection.

        - `timeout`: seconds to wait for it, and for each step on it.
        """
        address = self.address
        made: http.client.HTTPConnection
        if address.secure:
            if self._context is None:
                self._context = ssl.create_default_context()
            made = http.client.HTTPSConnection(address.host, address.port, timeout=timeout, context=self._context)
        else:
            made = http.client.HTTPConnection(address.host, address.port, timeout=timeout)
        try:
            made.connect()
        except FAULTS as error:
            made.close()
            raise address.unreached(error) from None
        return made

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for connection in kept:
            connection.close()

    def _over(self, connection: http.client.HTTPConnection, request: Request[Any], timeout: float) -> tuple[Answer, bool]:
        """Return the answer, and whether the connection can be kept."""
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        headers = {**self.headers, **({} if request.body is None else {"Content-Type": JSON})}
        refused: OSError | None = None
        try:
            connection.request(request.method, self.address.prefix + request.path, request.body, headers)
        except (BrokenPipeError, ConnectionResetError) as error:
            refused = error  # the service may have answered before it had read everything
        try:
            response = connection.getresponse()
        except FAULTS as error:
            raise refused or error from None
        answer = Answer(response.status, _headers(response), response.read())
        return answer, refused is None and not response.will_close

    def _take(self) -> http.client.HTTPConnection | None:
        """Return a connection that was kept and still stands."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                connection = self._kept.pop()
            if _is_silent(connection):
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < MAX_KEPT:
                self._kept.append(connection)
                return
        connection.close()


class Exchange:
    """One request whose body is sent piece by piece, and whose answer is read as it comes.

    - `connections`: to the service.
    - `method`, `path`: of the request; that of a GET has no body.
    - `headers`: beside those of every request.
    - `timeout`: seconds to wait for the connection.
    - `silence`: seconds to wait for each piece.
    """

    def __init__(
        self,
        connections: Connections,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        timeout: float,
        silence: float,
    ) -> None:
        self._address, self._connection = connections.address, connections.connect(timeout)
        # Used as it is: http.client would drop its socket behind an answer without a length, and open another to send more.
        self._socket: socket.socket = self._connection.sock
        self._method = method
        self._response: http.client.HTTPResponse | None = None
        self._is_whole = method == "GET"
        try:
            self._socket.settimeout(silence)
            self._connection.putrequest(method, self._address.prefix + path, skip_accept_encoding=True)
            for name, value in {**connections.headers, **headers}.items():
                self._connection.putheader(name, value)
            if not self._is_whole:
                self._connection.putheader("Transfer-Encoding", "chunked")
            self._connection.endheaders()
        except FAULTS as error:
            self.close()
            raise self._address.lost(error) from None

    def write(self, piece: bytes) -> None:
        """Send a piece of the body."""
        if piece:
            self._write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def end(self) -> None:
        """End the body."""
        if not self._is_whole:
            self._is_whole = True
            self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except FAULTS as error:
            self._begun()  # raises what the service says, where it has refused the request
            raise self._address.lost(error) from None

    def piece(self) -> bytes:
        """Return the next piece of the answer; nothing where it has ended."""
        response = self._begun()
        try:
            return response.read1(PIECE)
        except FAULTS as error:
            raise self._address.lost(error) from None

    def _begun(self) -> http.client.HTTPResponse:
        """Return the answer, which has begun and is none that refuses."""
        if self._response is None:
            response = http.client.HTTPResponse(self._socket, method=self._method)
            try:
                response.begin()
                if response.status != 200:
                    raise error_of(Answer(response.status, _headers(response), response.read()))
                self._response = response
            except FAULTS as error:
                raise self._address.lost(error) from None
            finally:
                if self._response is None:
                    response.close()
        return self._response

    def close(self) -> None:
        """End it, wherever it is."""
        if self._response is not None:
            self._response.close()
        self._connection.close()


def _headers(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _is_silent(connection: http.client.HTTPConnection) -> bool:
    """Return whether nothing has come over a connection that waits: its end, above all."""
    if connection.sock is None:
        return False
    if hasattr(select, "poll"):
        looking = select.poll()
        looking.register(connection.sock, select.POLLIN)
        return not looking.poll(0)
    return not select.select([connection.sock], [], [], 0)[0]
