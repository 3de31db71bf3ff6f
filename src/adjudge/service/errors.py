"""Answers that say what is wrong: one class per kind, each with its status and a short code for programs."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from adjudge.errors import AdjudgeError


class ErrorAnswer(msgspec.Struct, frozen=True):
    """What went wrong: a code for programs, a sentence for people, and the id by which logs know the request."""

    error: str
    detail: str
    request: str | None = None


class Problem(AdjudgeError):  # noqa: N818 (it is what an answer tells)
    """Base of everything that a request can be answered with instead of what it asked for.

    - `detail`: one sentence for people. It names the value and what would be right, and nothing secret.
    - `retry_after`: seconds after which the same request may succeed; None where it never will.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal"

    def __init__(self, detail: object = "", *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Malformed(Problem):
    """The request cannot be read at all: no JSON, no UTF-8, nested too deeply."""

    status, code = 400, "malformed"


class Unauthorized(Problem):
    """There is no token, or none that is known."""

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
