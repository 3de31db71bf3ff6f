"""Errors of a client: those that the service answers with, and two of its own."""

# ruff: noqa: N818 (each is named after what happened)

from __future__ import annotations

from typing import Final

from adjudge.service.http.errors import (
    Conflict,
    Forbidden,
    Invalid,
    Malformed,
    NotFound,
    ServiceError,
    TooLarge,
    TooMany,
    Unauthorized,
    Unavailable,
)

__all__ = [
    "Conflict",
    "ConnectionFailed",
    "Forbidden",
    "Invalid",
    "Malformed",
    "NotFound",
    "ServiceError",
    "TooLarge",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Unexpected",
]


class ConnectionFailed(ServiceError):
    """No answer came: the service was not reached, or the connection was lost.

    - `sent`: whether the request may have been carried out all the same.
    - `kept`: whether the connection had been kept from an earlier request: a fresh one may do.
    - `final`: whether trying again is of no use.
    """

    code = "connection-failed"

    def __init__(
        self, detail: object = "", *, sent: bool = False, kept: bool = False, final: bool = False, status: int | None = None
    ) -> None:
        super().__init__(detail, status=status)
        self.sent, self.kept, self.final = sent, kept, final


class Unexpected(ServiceError):
    """The client does not understand the answer."""

    code = "unexpected"


_ANSWERED: Final = (Malformed, Unauthorized, Forbidden, NotFound, Conflict, TooLarge, Invalid, TooMany, Unavailable)
BY_STATUS: Final[dict[int, type[ServiceError]]] = {kind.status: kind for kind in _ANSWERED}
BY_CODE: Final[dict[str, tuple[int, type[ServiceError]]]] = {kind.code: (kind.status, kind) for kind in _ANSWERED}
