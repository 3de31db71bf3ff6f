"""One request: the address it goes to, how its answer is read, and when it is sent again. Nothing here sends anything."""

from __future__ import annotations

import os
import random
import re
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import quote as quote_url
from urllib.parse import urlencode, urlsplit

import msgspec

from adjudge.errors import InputError, OptionError, quote
from adjudge.service.campaigns.policy import Policy
from adjudge.service.client.errors import BY_STATUS, ConnectionFailed, NotFound, ServiceError, TooMany, Unavailable, Unexpected
from adjudge.service.http.errors import ErrorAnswer

T = TypeVar("T")
Cursor: TypeAlias = int | str | None  # where a page begins
DEFAULT_URL: Final = "http://127.0.0.1:8000"  # where `adjudge serve` listens
TOKEN_VARIABLE: Final = "ADJUDGE_TOKEN"  # the variable of the environment
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
TOKEN_PATTERN: Final = re.compile(r"[!-~]{1,1000}")
NO_ANSWER_STATUSES: Final = (502, 504)  # statuses by which a proxy says that it got no answer
JSON_TYPE: Final = "application/json"
FIRST_RETRY_PAUSE_S: Final = 0.1  # seconds before the first retry; each further one waits twice as long
MAX_RETRY_PAUSE_S: Final = 5.0

encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Address:
    """The address of a service, taken apart.

    >>> Address.of("https://votes.example.org/adjudge/")
    Address(secure=True, host='votes.example.org', port=443, prefix='/adjudge')
    >>> str(Address.of("http://[::1]:8000")), Address.of("http://[::1]:8000").authority
    ('http://[::1]:8000', '[::1]:8000')
    """

    secure: bool
    host: str
    port: int
    prefix: str  # before every path, as a proxy may ask for

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the parts of an address, or raise an error that says what an address has to be.

        - `url`: http:// or https://, a host, and where it is needed a port and a path.
        """
        wrong = f"url is {quote(url)}: give an address such as {DEFAULT_URL}"
        if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
            raise OptionError(wrong)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise OptionError(wrong) from None
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise OptionError(wrong)
        return cls(parts.scheme == "https", parts.hostname, port or DEFAULT_PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """Host and port, as the header Host has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"

    def unreached(self, error: Exception) -> ConnectionFailed:
        """Return what to raise where no connection could be made."""
        if isinstance(error, ConnectionRefusedError):
            return ConnectionFailed(f"nothing answers at {self}: is the address right? `adjudge serve` starts a service")
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConnectionFailed(f"the certificate of {self} is not trusted: {error.verify_message}", final=True)
        why = "no answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        return ConnectionFailed(f"cannot reach {self}: {why}")

    def lost(self, error: Exception, *, kept: bool = False) -> ConnectionFailed:
        """Return what to raise where something was sent and no answer came."""
        if isinstance(error, TimeoutError):
            return ConnectionFailed(f"{self} did not answer in time", sent=True)
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ConnectionFailed(f"the connection to {self} was lost: {why}", sent=True, kept=kept)


def token_of(token: str | None) -> str | None:
    """Return a token that is valid; None: that of the environment, if it has one.

    Error messages never contain the token.
    """
    where = TOKEN_VARIABLE if token is None else "token"
    token = os.environ.get(TOKEN_VARIABLE) or None if token is None else token
    if token is not None and (not isinstance(token, str) or not TOKEN_PATTERN.fullmatch(token)):
        raise OptionError(f"{where} is not a token: give one line of plain characters, as `adjudge token` prints it")
    return token


class ListPage(NamedTuple, Generic[T]):
    """Rows, and where the next ones begin; None: there are no more."""

    rows: list[T]
    next: Cursor


class HttpAnswer(NamedTuple):
    """Status, headers (names are case-insensitive) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request, and how to read its answer.

    - `method`, `path`: of the request line; the path is percent-encoded and includes the query.
    - `read`: makes a value of the body of an answer.
    - `body`: JSON; None: there is none.
    - `repeatable`: whether it may be sent again when nobody knows if it was carried out.
    - `instead`: what to ask where sending it again finds nothing, because it was carried out the first time.
    - `accepts`: statuses other than 2xx whose body is read.
    - `timeout`: seconds to wait for the answer; None: those of the client.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    repeatable: bool = True
    instead: Request[T] | None = None
    accepts: tuple[int, ...] = ()
    timeout: float | None = None

    def value(self, answer: HttpAnswer) -> T:
        """Return what an answer holds, or raise the error that it tells."""
        if not (200 <= answer.status < 300 or answer.status in self.accepts):
            raise error_of(answer)
        try:
            return self.read(answer.body)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"the answer is not understood: {error}", status=answer.status) from None


def error_of(answer: HttpAnswer) -> ServiceError:
    """Return what an answer says is wrong, be it from the service or from something before it.

    >>> error_of(HttpAnswer(404, {}, b'{"error": "not-found", "detail": "task is unknown", "request": "7f"}'))
    NotFound('task is unknown (404 not-found, request 7f)')
    """
    status = answer.status
    if status in NO_ANSWER_STATUSES:
        return ConnectionFailed(f"no answer came from behind the proxy ({status})", sent=True, status=status)
    try:
        error = msgspec.json.decode(answer.body, type=ErrorAnswer)
    except (ValueError, RecursionError):
        error = ErrorAnswer(BY_STATUS.get(status, Unexpected).code, _unexplained(answer))
    return BY_STATUS.get(status, Unexpected)(
        error.detail,
        status=status,
        code=error.error,
        request_id=error.request or answer.headers.get("x-request-id"),
        retry_after=_seconds(answer.headers.get("retry-after")),
    )


def _unexplained(answer: HttpAnswer) -> str:
    if 300 <= answer.status < 400:
        return "the service is elsewhere, and redirects are not followed: give its own address"
    return "the answer has no reason: is this the address of an adjudge service?"


def _seconds(text: str | None) -> float | None:
    """Return the seconds of Retry-After; a date, which the service never sends, is left out."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


def reader(kind: type[T], field: str | None = None) -> Callable[[bytes], T]:
    """Return what reads the JSON of a type, or of one field of it."""
    read = _decoder(cast(Any, kind)) if field is None else _decoder(_struct((field, kind)))
    return read if field is None else lambda body: cast(T, getattr(read(body), field))


def page_reader(kind: type[T], rows: str) -> Callable[[bytes], ListPage[T]]:
    """Return what reads a page whose rows are in this field."""
    read = _decoder(_struct((rows, list[cast(Any, kind)]), ("next", Cursor)))  # type: ignore[misc]
    return lambda body: ListPage(*msgspec.structs.astuple(read(body)))


@cache
def _struct(*fields: tuple[str, Any]) -> Any:
    return msgspec.defstruct("Fields", fields)


@cache
def _decoder(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def encode_fields(fields: Mapping[str, object]) -> bytes:
    """Return fields as JSON, without those that are None."""
    try:
        return encode({name: value for name, value in fields.items() if value is not None})
    except (TypeError, ValueError, RecursionError) as error:  # inside of a document: fields of their own are typed
        raise InputError(f"{quote(dict(fields))} cannot be sent as JSON: {error}") from None


def policy_document(policy: object) -> object:
    """Return a policy as the document that is sent."""
    if isinstance(policy, Policy):
        return policy.document()
    if not isinstance(policy, Mapping):
        raise InputError(f"policy is {quote(policy)}: give an adj.Policy, or a dict with its fields")
    return dict(policy)


def text(what: str, value: object) -> str:
    """Return an id as text; a whole number is one, too.

    >>> text("task", "t1"), text("task", 17)
    ('t1', '17')
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{what} is {quote(value)}: half of a surrogate pair cannot be sent") from None
        return value
    if not isinstance(value, bool) and isinstance(value, Integral):
        return str(int(value))
    raise InputError(f"{what} is {quote(value)}: give text or a whole number")


def path(*parts: str) -> str:
    """Return parts as a path, each percent-encoded by itself.

    >>> path("v1", "campaigns", "a/b"), path("..", "é"), path("votes:stream")
    ('/v1/campaigns/a%2Fb', '/%2E%2E/%C3%A9', '/votes:stream')
    """
    return "".join("/" + (part.replace(".", "%2E") if part in (".", "..") else quote_url(part, safe=":")) for part in parts)


def query_string(parameters: Iterable[tuple[str, object]]) -> str:
    """Return the query string, without parameters that are None.

    >>> query_string([("after", None), ("limit", 10)]), query_string([("after", None)])
    ('?limit=10', '')
    """
    pairs = [(name, str(value)) for name, value in parameters if value is not None]
    return "?" + urlencode(pairs) if pairs else ""


class Attempts(Generic[T]):
    """The attempts at one request.

    It is sent again after a lost connection where that is safe, and after 429 and 503, by which the service says that nothing
    was taken. Each pause is twice as long as the one before, of which a random part is left out, so that many clients do not
    come back at the same moment; or as long as the service asks for.

    - `request`: is sent; `self.request` is what to send next.
    - `retries`: how often it is sent again; None: as often as it takes.
    - `deadline`: seconds after which it is not sent again.
    - `clock`, `chance`: the time in seconds, and random numbers from 0 to 1.
    """

    def __init__(
        self,
        request: Request[T],
        *,
        retries: int | None,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.request = request
        self._retries, self._clock, self._chance = retries, clock, chance
        self._until = clock() + max(deadline, request.timeout or 0)
        self._failed = 0
        self._lost = False  # whether an attempt may have been carried out without an answer

    def timeout(self, usual: float) -> float:
        """Return how many seconds to wait for the next answer.

        - `usual`: those of the client.
        """
        return max(min(self.request.timeout or usual, self._until - self._clock()), 0.001)

    def after(self, error: ServiceError) -> float:
        """Return how many seconds to wait before the request is sent again; raise the error where it is not.

        - `error`: by which the attempt failed.
        """
        if isinstance(error, NotFound) and self._lost and self.request.instead is not None:
            self.request = self.request.instead
            return 0.0
        if not isinstance(error, ConnectionFailed | TooMany | Unavailable) or getattr(error, "final", False):
            raise error
        if isinstance(error, ConnectionFailed) and error.sent:
            if not self.request.repeatable:
                raise ConnectionFailed(f"{error.detail}; whether it was done is not known, so it is not sent again", sent=True)
            self._lost = True
            if error.kept:
                return 0.0
        self._failed += 1
        if self._retries is not None and self._failed > self._retries:
            raise error
        pause = error.retry_after
        if pause is None:
            pause = min(FIRST_RETRY_PAUSE_S * 2 ** min(self._failed - 1, 30), MAX_RETRY_PAUSE_S) * (1 - self._chance() / 2)
        if self._clock() + pause >= self._until:
            raise error
        return pause
