"""The ASGI application: Starlette for everything, and before it a short way for votes, which are nearly all requests."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Message, Receive, Scope, Send

from quorate.errors import InputError, OptionError
from quorate.service import limits, openapi
from quorate.service.call import Call, Context, Reply
from quorate.service.errors import ErrorAnswer, Forbidden, Invalid, NotAllowed, Problem, TooLarge, Unauthorized, Unavailable
from quorate.service.handlers.votes import decode_votes
from quorate.service.logs import LOGGER, accepted, request_ids
from quorate.service.reading import decoded, query
from quorate.service.routes import ROUTES
from quorate.service.table import Route, Router
from quorate.service.tokens import Grant
from quorate.store.errors import StoreUnavailable

encode: Final = msgspec.json.Encoder().encode
PREFIX: Final = b"/v1/campaigns/"
VOTES: Final = "POST /v1/campaigns/{campaign}/votes"
NOWHERE: Final = "-"  # the route, in metrics, of what has none
ANSWERED: Final = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]
# Hosts by which a browser on this machine reaches this machine, and no other.
_LOCAL: Final = re.compile(rb"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE)


class Service:
    """The application.

    - `context`: what all requests share.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        context.descriptions = {needed: encode(openapi.describe(ROUTES, required=needed)) for needed in (False, True)}
        self._router = Router(ROUTES)
        self._decoders: dict[str, Callable[[bytes], Any]] = {
            route.name: msgspec.json.Decoder(route.body).decode for route in ROUTES if route.body is not None
        }
        self._new_id = request_ids()
        self._starlette = Starlette(routes=[_Table(self)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            raw: bytes = scope["raw_path"]
            if raw.endswith(b"/votes") and raw.startswith(PREFIX) and b"%" not in raw and raw.count(b"/") == 4 and raw.isascii():
                await self._vote(raw[14:-6].decode(), scope, receive, send)
                return
        await self._starlette(scope, receive, send)

    # --- the short way

    async def _vote(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Take votes: what `answer` does, without objects in between."""
        began = time.perf_counter()
        context = self.context
        authorization = host = origin = length = given = None
        for key, value in scope["headers"]:
            if key == b"authorization":
                authorization = value
            elif key == b"content-length":
                length = value
            elif key == b"host":
                host = value
            elif key == b"origin":
                origin = value
            elif key == b"x-request-id":
                given = value
        request_id = given if given is not None and accepted(given) else self._new_id()
        try:
            grant = self.admitted(authorization, host, origin)
            grant.check("vote", name)
            grant.bucket.take(1)
            campaign = context.campaigns.get(name)
            limits.declared(length)
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body", False):
                body = await limits.body(receive, None, begun=body)
            elif message["type"] == "http.disconnect":
                return
            elif len(body) > limits.MAX_BODY:
                raise TooLarge(f"the body is larger than {limits.MAX_BODY} bytes")
            found = decoded(decode_votes, body)
            votes = found if isinstance(found, list) else [found]
            if len(votes) > 1:
                grant.bucket.charge(len(votes) - 1)
            with context.under_way:
                content = encode(await campaign.vote(votes))
        except limits.Disconnected:
            return
        except Exception as error:
            problem = as_problem(error, request_id)
            await self._refuse(problem, request_id, VOTES, began, send)
            return
        headers = [*ANSWERED, (b"content-length", b"%d" % len(content)), (b"x-request-id", request_id)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        context.metrics.answered(VOTES, 200, time.perf_counter() - began)

    # --- the way of everything else

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route of a request, check everything about it, and send what its handler answers."""
        began = time.perf_counter()
        request = Request(scope, receive)
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id")
        request_id = given if given is not None and accepted(given) else self._new_id()
        name, begun = NOWHERE, False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            route, ids = self._router.find(scope["method"], scope["raw_path"])
            name = route.name
            grant = self._allowed(route, ids, headers)
            call = Call(self.context, request, grant, ids, None, None, request_id.decode())
            if route.query is not None:
                call.query = query(scope["query_string"], route.query)
            elif scope["query_string"]:
                raise Invalid("nothing may stand behind the question mark here")
            if route.body is not None and not route.streams:
                call.body = await self._body(route, headers, receive)
            with self.context.listeners if route.streams or name.endswith("/events") else self.context.under_way:
                response = _response(await route.handler(call))
                response.raw_headers.append((b"x-request-id", request_id))
                await response(scope, receive, sending)
        except limits.Disconnected:
            return
        except Exception as error:
            problem = as_problem(error, request_id)
            if not begun:  # else uvicorn closes the connection: an answer that is cut off is not taken for a whole one
                await self._refuse(problem, request_id, name, began, send)
            return
        self.context.metrics.answered(name, response.status_code, time.perf_counter() - began)
        if scope["method"] not in ("GET", "HEAD"):
            _log(name, response.status_code, request_id, ids, grant)

    def _allowed(self, route: Route, ids: list[str], headers: dict[bytes, bytes]) -> Grant:
        if route.scope is None:
            return Grant(None, frozenset())
        grant = self.admitted(headers.get(b"authorization"), headers.get(b"host"), headers.get(b"origin"))
        grant.check(route.scope, ids[0] if ids else None)
        if route.everywhere:
            grant.everywhere()
        grant.bucket.take(1)
        return grant

    async def _body(self, route: Route, headers: dict[bytes, bytes], receive: Receive) -> Any:
        body = await limits.body(receive, headers.get(b"content-length"))
        if route.optional and not body.strip():
            body = b"{}"
        return decoded(self._decoders[route.name], body, nul=route.foreign)

    # --- both

    def admitted(self, authorization: bytes | None, host: bytes | None, origin: bytes | None) -> Grant:
        """Return what a request may do, by its headers.

        Where no token is needed, whatever runs in a browser on this machine could reach the service. So the name it is
        reached by, and the page that asks, have to be of this machine.
        """
        grant = self.context.tokens.find(authorization)
        if grant.name is None and (
            (host is not None and not _LOCAL.fullmatch(host)) or (origin is not None and not _LOCAL.fullmatch(origin))
        ):
            raise Forbidden("without tokens only programs and pages of this machine are answered")
        return grant

    async def _refuse(self, problem: Problem, request_id: bytes, name: str, began: float, send: Send) -> None:
        """Send a problem as the answer."""
        content = encode(ErrorAnswer(problem.code, str(problem), request_id.decode()))
        headers = [*ANSWERED, (b"content-length", b"%d" % len(content)), (b"x-request-id", request_id)]
        if problem.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, -int(-problem.retry_after // 1))))
        if isinstance(problem, Unauthorized):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(problem, NotAllowed):
            headers.append((b"allow", problem.methods.encode()))
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
        self.context.metrics.answered(name, problem.status, time.perf_counter() - began)
        LOGGER.info(
            "refused",
            extra={"route": name, "status": problem.status, "request": request_id.decode(), "detail": str(problem)},
        )


class _Table(BaseRoute):
    """All routes, as one of Starlette's: it would decode the path before it is taken apart."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Take every request."""
        return (Match.FULL, {}) if scope["type"] == "http" else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer it."""
        await self._service.respond(scope, receive, send)


def as_problem(error: Exception, request_id: bytes) -> Problem:
    """Return what an error is told as. One that nobody expected is logged, and tells the client nothing.

    - `error`: anything.
    - `request_id`: by which the log knows the request.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreUnavailable):
        LOGGER.error("the store cannot be used", extra={"request": request_id.decode(), "detail": str(error)})
        return Unavailable("the store cannot be used now: nothing was taken", retry_after=1)
    if isinstance(error, InputError | OptionError):
        return Invalid(str(error))
    LOGGER.error("an error that nobody expected", exc_info=error, extra={"request": request_id.decode()})
    return Problem("something went wrong; the log of the server says what, under the id of this request")


def _response(answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    status, content = (answer.status, answer.content) if isinstance(answer, Reply) else (200, answer)
    response = Response(encode(content), status, media_type="application/json")
    response.raw_headers += ANSWERED[1:]
    return response


def _log(name: str, status: int, request_id: bytes, ids: list[str], grant: Grant) -> None:
    LOGGER.info(
        "done",
        extra={"route": name, "status": status, "request": request_id.decode(), "ids": ids, "token": grant.name},
    )
