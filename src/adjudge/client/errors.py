"""What can go wrong between a client and the service: one class per kind, each with a message of one line."""

# ruff: noqa: N818 (each is named after what happened)

from __future__ import annotations

from typing import ClassVar, Final

from adjudge.errors import AdjudgeError

MAX_DETAIL: Final = 500  # characters of an answer that are quoted


class ServiceError(AdjudgeError):
    """Base of everything that a client raises about the service.

    - `detail`: one sentence for people.
    - `status`: of the answer; None where there was none.
    - `code`: a short word for programs, as "not-found".
    - `request_id`: by which the logs of the server know the request.
    - `retry_after`: seconds after which the service asks to be tried again.

    >>> error = NotFound("task 'x' is unknown", status=404, code="not-found", request_id="7f3a")
    >>> print(error)
    task 'x' is unknown (404 not-found, request 7f3a)
    """

    kind: ClassVar[str] = ""  # the code of answers of this class

    def __init__(
        self,
        detail: object = "",
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.detail = str(detail)[:MAX_DETAIL]
        self.status = status
        self.code = self.kind if code is None else code
        self.request_id, self.retry_after = request_id, retry_after
        request = None if request_id is None else f"request {request_id[:100]}"
        facts = [" ".join(str(part) for part in (status, self.code[:100]) if part), request]
        told = ", ".join(fact for fact in facts if fact) if status is not None else ""
        super().__init__(f"{self.detail} ({told})" if told else self.detail)


class ConnectionFailed(ServiceError):
    """No answer came: the service was not reached, or the connection was lost.

    - `sent`: whether the request may have been carried out all the same.
    - `kept`: whether the connection had been kept from an earlier request: a fresh one may do.
    - `final`: whether trying again is of no use.
    """

    kind = "connection-failed"

    def __init__(
        self, detail: object = "", *, sent: bool = False, kept: bool = False, final: bool = False, status: int | None = None
    ) -> None:
        super().__init__(detail, status=status)
        self.sent, self.kept, self.final = sent, kept, final


class Malformed(ServiceError):
    """The service could not read the request."""

    kind = "malformed"


class Unauthorized(ServiceError):
    """There was no token, or none that the service knows."""

    kind = "unauthorized"


class Forbidden(ServiceError):
    """The token does not allow this."""

    kind = "forbidden"


class NotFound(ServiceError):
    """What was named is not there."""

    kind = "not-found"


class Conflict(ServiceError):
    """It contradicts what is there."""

    kind = "conflict"


class TooLarge(ServiceError):
    """The request is larger than the service takes."""

    kind = "too-large"


class Invalid(ServiceError):
    """A value of the request is not accepted."""

    kind = "invalid"


class TooMany(ServiceError):
    """The token has used up its rate."""

    kind = "too-many"


class Unavailable(ServiceError):
    """The service cannot do it now. Nothing was taken."""

    kind = "unavailable"


class Unexpected(ServiceError):
    """The answer is none that this client understands."""

    kind = "unexpected"


BY_STATUS: Final[dict[int, type[ServiceError]]] = {
    400: Malformed,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    422: Invalid,
    429: TooMany,
    503: Unavailable,
}
BY_CODE: Final[dict[str, tuple[int, type[ServiceError]]]] = {kind.kind: (status, kind) for status, kind in BY_STATUS.items()}
