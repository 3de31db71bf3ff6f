"""Errors of the service: one class per kind, each with its status and a short code for programs.

The service answers with them, and a client raises them.
"""

# ruff: noqa: N818 (each is named after what happened)

from __future__ import annotations

from typing import Final

import msgspec

from adjudge.errors import AdjudgeError

MAX_QUOTED: Final = 500  # characters of an answer in the message of a client


class ErrorAnswer(msgspec.Struct, frozen=True):
    """What went wrong: a code for programs, a sentence for people, and the id by which logs know the request."""

    error: str
    detail: str
    request: str | None = None


class ServiceError(AdjudgeError):
    """Base of everything that can go wrong between a client and the service; both sides use the same classes.

    - `detail`: one sentence for people. It names the value and what would be right, and nothing secret.
    - `status`: of the answer that a client got, which the message then names; None: that of the class.
    - `code`: a short word for programs, such as "not-found"; None: that of the class.
    - `request_id`: the id of the request in the logs of the server.
    - `retry_after`: seconds after which the same request may succeed; None if it never will.

    >>> print(NotFound("task 'x' is unknown"))
    task 'x' is unknown
    >>> print(NotFound("task 'x' is unknown", status=404, request_id="7f3a"))
    task 'x' is unknown (404 not-found, request 7f3a)
    """

    status: int | None = None
    code: str = ""

    def __init__(
        self,
        detail: object = "",
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.detail, self.request_id, self.retry_after = str(detail), request_id, retry_after
        if code is not None:
            self.code = code
        message = self.detail
        if status is not None:
            self.status, self.detail = status, self.detail[:MAX_QUOTED]
            request = "" if request_id is None else f", request {request_id[:100]}"
            message = f"{self.detail} ({f'{status} {self.code[:100]}'.strip()}{request})"
        super().__init__(message)


class Problem(ServiceError):
    """Base of the errors that the service answers with."""

    status: int = 500
    code = "internal"


class Malformed(Problem):
    """The request cannot be read at all: no JSON, no UTF-8, nested too deeply."""

    status, code = 400, "malformed"


class Unauthorized(Problem):
    """The token is missing or unknown."""

    status, code = 401, "unauthorized"


class Forbidden(Problem):
    """The token does not reach this, or the request comes from a page of another origin."""

    status, code = 403, "forbidden"


class NotFound(Problem):
    """What the address names is not there."""

    status, code = 404, "not-found"


class NotAllowed(Problem):
    """The address is known, but not with this method.

    - `methods`: those that it is known with, as the header Allow has them.
    """

    status, code = 405, "method-not-allowed"

    def __init__(self, methods: str) -> None:
        super().__init__(f"this address takes {methods}")
        self.methods = methods


class TooSlow(Problem):
    """The body did not come in time."""

    status, code = 408, "too-slow"


class Conflict(Problem):
    """It contradicts what is there: the same id with other content, a campaign of that name with other labels."""

    status, code = 409, "conflict"


class TooLarge(Problem):
    """The body is larger than is read."""

    status, code = 413, "too-large"


class Invalid(Problem):
    """The request was read, and a value in it is not accepted."""

    status, code = 422, "invalid"


class TooMany(Problem):
    """The token has used up its rate."""

    status, code = 429, "too-many"


class HeadersTooLarge(Problem):
    """The request line and headers exceed the limits."""

    status, code = 431, "headers-too-large"


class Unavailable(Problem):
    """It cannot be done now: the queue of the writer is full, the disk is, or the server stops. Nothing was taken."""

    status, code = 503, "unavailable"


PROBLEMS: tuple[type[Problem], ...] = (
    Malformed,
    Unauthorized,
    Forbidden,
    NotFound,
    NotAllowed,
    TooSlow,
    Conflict,
    TooLarge,
    Invalid,
    TooMany,
    HeadersTooLarge,
    Unavailable,
    Problem,
)
