"""One request, and how its answer is read; nothing here sends anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from adjudge.client.errors import BY_STATUS, ConnectionFailed, ServiceError, Unexpected
from adjudge.errors import InputError, shown
from adjudge.service.errors import ErrorAnswer

T = TypeVar("T")
LOST: Final = (502, 504)  # statuses by which a proxy says that it got no answer
JSON: Final = "application/json"

encode: Final = msgspec.json.Encoder().encode


class Answer(NamedTuple):
    """What came back: status, headers by their names in lower case, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Request(Generic[T]):
    """What to send, and what comes back.

    - `method`, `path`: as they are sent; the path is percent-encoded, and has its query.
    - `read`: makes a value of the body of an answer.
    - `body`: JSON; None: there is none.
    - `repeatable`: whether it may be sent again when nobody knows if it was carried out.
    - `instead`: what to ask where sending it again finds nothing, because it was carried out the first time.
    - `accepts`: statuses beside those of success whose body is read.
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

    def value(self, answer: Answer) -> T:
        """Return what an answer holds, or raise the error that it tells."""
        if not (200 <= answer.status < 300 or answer.status in self.accepts):
            raise error_of(answer)
        try:
            return self.read(answer.body)
        except (ValueError, RecursionError) as error:
            raise Unexpected(f"the answer is not understood: {error}", status=answer.status) from None


def error_of(answer: Answer) -> ServiceError:
    """Return what an answer says is wrong, be it from the service or from something before it.

    >>> error_of(Answer(404, {}, b'{"error": "not-found", "detail": "task is unknown", "request": "7f"}'))
    NotFound('task is unknown (404 not-found, request 7f)')
    """
    status = answer.status
    if status in LOST:
        return ConnectionFailed(f"no answer came from behind the proxy ({status})", sent=True, status=status)
    try:
        told = msgspec.json.decode(answer.body, type=ErrorAnswer)
    except (ValueError, RecursionError):
        told = ErrorAnswer(BY_STATUS.get(status, Unexpected).kind, _unexplained(answer))
    return BY_STATUS.get(status, Unexpected)(
        told.detail,
        status=status,
        code=told.error,
        request_id=told.request or answer.headers.get("x-request-id"),
        retry_after=_seconds(answer.headers.get("retry-after")),
    )


def _unexplained(answer: Answer) -> str:
    if 300 <= answer.status < 400:
        return "the service is elsewhere, and redirects are not followed: give its own address"
    return "the answer has no reason: is this the address of a adjudge service?"


def _seconds(text: str | None) -> float | None:
    """Return the seconds of Retry-After; a date, which the service never sends, is left out."""
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 9 else None


def json_of(kind: Any) -> Callable[[bytes], Any]:
    """Return what reads the JSON of a type."""
    return _decoder(kind).decode


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def text(what: str, value: object) -> str:
    """Return an id as text; a whole number is one, too.

    >>> text("task", "t1"), text("task", 17)
    ('t1', '17')
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InputError(f"{what} is {shown(value)}: half of a surrogate pair cannot be sent") from None
        return value
    if not isinstance(value, bool) and isinstance(value, Integral):
        return str(int(value))
    raise InputError(f"{what} is {shown(value)}: give text or a whole number")


def path(*parts: str) -> str:
    """Return parts as a path, each percent-encoded by itself.

    >>> path("v1", "campaigns", "a/b"), path("..", "é"), path("votes:stream")
    ('/v1/campaigns/a%2Fb', '/%2E%2E/%C3%A9', '/votes:stream')
    """
    return "".join("/" + (part.replace(".", "%2E") if part in (".", "..") else quote(part, safe=":")) for part in parts)


def query(given: Iterable[tuple[str, object]]) -> str:
    """Return what stands behind the path; None is left out.

    >>> query([("after", None), ("limit", 10)]), query([("after", None)])
    ('?limit=10', '')
    """
    pairs = [(name, str(value)) for name, value in given if value is not None]
    return "?" + urlencode(pairs) if pairs else ""
