"""The application: one way for every request, and a short way for votes, which are nearly all requests."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from adjudge.errors import InputError, OptionError
from adjudge.service.http import limits, openapi
from adjudge.service.http import types as t
from adjudge.service.http.call import Call, Context, Reply
from adjudge.service.http.errors import ErrorAnswer, Forbidden, Invalid, NotAllowed, Problem, Unauthorized, Unavailable
from adjudge.service.http.handlers.votes import decode_votes
from adjudge.service.http.logs import LOGGER, is_plain_id, request_ids
from adjudge.service.http.parsing import Headers, decode_body, decode_query
from adjudge.service.http.routes import ROUTES
from adjudge.service.http.routing import Route, Router
from adjudge.service.http.tokens import Grant, Permit
from adjudge.service.store.errors import StoreUnavailable

encode: Final = msgspec.json.Encoder().encode
Answer: TypeAlias = Callable[[int, bytes, bytes], None]  # takes the status, the lines of the header, the body
HEADERS: Final = "headers"  # the key of the frozen headers in the state of ASGI's scope
VOTES_ROUTE: Final = "POST /v1/campaigns/{campaign}/votes"
MANY_ROWS: Final = 200
LONG_BODY_BYTES: Final = 200_000  # of JSON: it is decoded in another thread
NO_ROUTE: Final = "-"  # in metrics, the route of requests without one
ANSWERED: Final = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]
RESPONSE_HEADER_TEMPLATE: Final = (
    b"".join([b"%b: %b\r\n" % field for field in ANSWERED]) + b"content-length: %d\r\nx-request-id: %b\r\n"
)
_FAST_VOTES_PATH: Final = re.compile(rb"/v1/campaigns/[A-Za-z0-9._~-]+/votes")  # a name that is the same in a path
_SITES: Final = frozenset({None, b"none", b"same-origin", b"same-site"})  # which pages may ask, as browsers tell
_TOKEN_REMEDY: Final = "make a token (adjudge token add NAME --scope admin) and send it"
# Hosts by which a browser on this machine reaches this machine, and no other.
_LOOPBACK_HOST: Final = re.compile(rb"(?:https?://)?(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE)


class Service:
    """The application.

    - `context`: what all requests share.
    - `board`: answers what browsers ask for; None: nobody does.
    """

    def __init__(self, context: Context, board: Any = None) -> None:
        self.context, self.board = context, board
        context.descriptions = {needed: encode(openapi.describe(ROUTES, required=needed)) for needed in (False, True)}
        self._router = Router(ROUTES)
        self._decoders: dict[str, Callable[[bytes], Any]] = {
            route.name: msgspec.json.Decoder(route.body).decode for route in ROUTES if route.body is not None
        }
        self._new_id = request_ids()
        self._votes: list[tuple[Answer, bytes, bytes, float]] = []  # on the short way: they wait for …
        self._done: asyncio.Future[None] | None = None  # … this commit
        self._default: tuple[object, bytes] = (None, b"")  # uvicorn's headers, and their lines

    # --- the short way

    def take(self, url: bytes, headers: Headers, body: bytes, answer: Answer) -> bool:
        """Take votes at once, and answer when they are on disk; return False where nothing was taken.

        Then the request has to go the way of all others, which finds what is wrong with it, and says so.

        - `url`: of the request, still encoded.
        - `headers`: those of the request.
        - `body`: all of it.
        - `answer`: is given status, header and body.
        """
        began = time.perf_counter()
        if not _FAST_VOTES_PATH.fullmatch(url):
            return False
        context, name = self.context, url[14:-6].decode()
        gate = context.under_way
        try:
            grant = self.admit(headers)
            grant.check("vote", name)
            if grant.bucket.rate is not None or gate.now >= gate.most:
                return False
            campaign = context.campaigns.get(name)
            document = decode_body(decode_votes, body)
            votes = document if isinstance(document, list) else [document]
            if not campaign.can_take(votes):
                return False
            lease = context.authority.lease(campaign)
            content = encode(campaign.take(votes))
        except Exception:
            return False
        request_id = self._request_id(headers)
        vote = answer, request_id, content, began
        gate.now += 1
        if campaign.position == campaign.committed:  # all of them were repeated, if this server still owns the campaign
            if lease is not None and context.authority.leases.is_fresh(lease):
                self._on_disk([vote], None)
            else:
                proof = asyncio.ensure_future(context.authority.confirm(lease))
                proof.add_done_callback(partial(self._on_disk, [vote]))
            return True
        done = context.campaigns.commit()
        if done is not self._done:
            self._done, self._votes = done, []
            done.add_done_callback(partial(self._on_disk, self._votes))
        self._votes.append(vote)
        return True

    def default_lines(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the lines of the headers that uvicorn adds to every answer: a new list every second, with the date."""
        if self._default[0] is not headers:
            self._default = headers, b"".join([b"%b: %b\r\n" % field for field in headers])
        return self._default[1]

    def _on_disk(self, votes: list[tuple[Answer, bytes, bytes, float]], done: asyncio.Future[None] | None) -> None:
        """Answer all requests whose votes one commit has written, or has not."""
        context, error = self.context, None if done is None else done.exception()
        context.under_way.now -= len(votes)
        now = time.perf_counter()
        for answer, request_id, content, began in votes:
            if error is None:
                answer(200, RESPONSE_HEADER_TEMPLATE % (len(content), request_id), content)
                context.metrics.count_answer(VOTES_ROUTE, 200, now - began)
            else:
                problem = as_problem(error, request_id)
                headers, reason = self._refusal(problem, request_id, VOTES_ROUTE, began)
                answer(problem.status, b"".join([b"%b: %b\r\n" % field for field in headers]), reason)

    # --- the way of everything else

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route of a request, check everything about it, and send what its handler answers."""
        if self.board is not None and self.board.owns(scope["raw_path"]):
            await self.board(scope, receive, send)
            return
        began = time.perf_counter()
        headers: Headers = scope["state"][HEADERS]
        request_id = self._request_id(headers)
        name, begun = NO_ROUTE, False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            route, ids = self._router.find(scope["method"], scope["raw_path"])
            name = route.name
            grant = self._admit_to(route, ids, headers)
            permit = Permit(self.context.authority, grant, route.scope, ids[0] if ids else None, everywhere=route.everywhere)
            call = Call(self.context, headers, grant, ids, None, None, request_id.decode(), permit)
            if route.query is not None:
                call.query = decode_query(scope["query_string"], route.query)
            elif scope["query_string"]:
                raise Invalid("this endpoint takes no query parameters")
            if route.body is not None and not route.streams:
                call.body = await self._body(route, headers, receive)
            if route.stays_open:
                with self.context.streams.open(grant.digest, ids[0]):
                    response = await _response(await self._handle(route, call, receive), request_id)
                    await response(scope, receive, sending)
            else:
                with self.context.under_way:
                    response = await _response(await self._handle(route, call, receive), request_id)
                await response(scope, receive, sending)  # the gate is open again: a client that does not read holds up nobody
        except limits.Disconnected:
            return
        except Exception as error:
            problem = as_problem(error, request_id)
            if not begun:  # else uvicorn closes the connection: an answer that is cut off is not taken for a whole one
                await self._refuse(problem, request_id, name, began, send)
            return
        self.context.metrics.count_answer(name, response.status_code, time.perf_counter() - began)
        if scope["method"] not in ("GET", "HEAD"):
            _log(name, response.status_code, request_id, ids, grant)

    async def _handle(self, route: Route, call: Call, receive: Receive) -> Any:
        """Return what the handler answers, if this server may answer now what it has found then."""
        call.permit.check()  # its body may have taken long
        authority = self.context.authority
        campaign = self.context.campaigns.by_name.get(call.ids[0]) if call.ids else None
        lease = None if campaign is None else authority.lease(campaign)
        try:
            answer = await _unless_gone(route, call, receive)
        except Problem:
            await authority.confirm(lease)  # what is not there, or contradicts what is, was found in the same state
            raise
        await authority.confirm(lease)
        if route.method == "GET" or route.reads or getattr(call.body, "dry_run", False):
            call.permit.check()  # changes are committed, and acknowledged
        return answer

    def _admit_to(self, route: Route, ids: list[str], headers: Headers) -> Grant:
        if route.scope is None:
            return Grant(None, frozenset())
        grant = self.admit(headers)
        grant.check(route.scope, ids[0] if ids else None, everywhere=route.everywhere)
        grant.bucket.take(1)
        return grant

    async def _body(self, route: Route, headers: Headers, receive: Receive) -> Any:
        body = await limits.read_body(receive, headers.content_length)
        if route.optional and not body.strip():
            body = b"{}"
        decode = partial(decode_body, self._decoders[route.name], body, nul=route.foreign)
        return decode() if len(body) < LONG_BODY_BYTES else await asyncio.to_thread(decode)

    # --- both

    def admit(self, headers: Headers) -> Grant:
        """Return what a request may do, by its headers."""
        grant = self.context.authority.find(headers.authorization)
        if grant.name is None:
            require_local(headers)
        return grant

    def _request_id(self, headers: Headers) -> bytes:
        sent_id = headers.x_request_id
        return sent_id if sent_id is not None and is_plain_id(sent_id) else self._new_id()

    def refuse_unread(self, problem: Problem) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return header and body of the answer to a request that is not read to its end."""
        return self._refusal(problem, self._new_id(), NO_ROUTE, time.perf_counter())

    async def _refuse(self, problem: Problem, request_id: bytes, name: str, began: float, send: Send) -> None:
        """Send a problem as the answer."""
        headers, content = self._refusal(problem, request_id, name, began)
        await send({"type": "http.response.start", "status": problem.status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    def _refusal(self, problem: Problem, request_id: bytes, name: str, began: float) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return header and body of an answer that is a problem, after it was counted and logged."""
        content = encode(ErrorAnswer(problem.code, str(problem), request_id.decode()))
        headers = [*ANSWERED, (b"content-length", b"%d" % len(content)), (b"x-request-id", request_id)]
        if problem.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, -int(-problem.retry_after // 1))))
        if isinstance(problem, Unauthorized):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(problem, NotAllowed):
            headers.append((b"allow", problem.methods.encode()))
        self.context.metrics.count_answer(name, problem.status, time.perf_counter() - began)
        LOGGER.info(
            "refused",
            extra={"route": name, "status": problem.status, "request": request_id.decode(), "detail": str(problem)},
        )
        return headers, content


def require_local(headers: Headers) -> None:
    """Raise `Forbidden` unless a request without a token comes from a program or a page of this machine.

    Without tokens everything is allowed, so pages of other sites in a browser on this machine must not reach the service, nor
    clients of other machines through a proxy. A proxy gives itself away by a header, or by HTTP/1.0, which nginx speaks to
    its upstreams by default in version 1.22. One that leaves no trace looks like a program of this machine.
    """
    if (
        (headers.host is not None and not _LOOPBACK_HOST.fullmatch(headers.host))
        or (headers.origin is not None and not _LOOPBACK_HOST.fullmatch(headers.origin))
        or headers.sec_fetch_site not in _SITES
    ):
        raise Forbidden(f"without tokens only programs and pages of this machine are answered: {_TOKEN_REMEDY}")
    if headers.is_forwarded or headers.version == "1.0":
        raise Forbidden(f"without tokens no request through a proxy, and none over HTTP/1.0, is answered: {_TOKEN_REMEDY}")


def as_problem(error: BaseException, request_id: bytes) -> Problem:
    """Return an error as a problem. An unexpected error is logged, and the client gets no details.

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


async def _unless_gone(route: Route, call: Call, receive: Receive) -> Any:
    """Return what the handler of a route answers; one that may take long is stopped when the client goes away."""
    if not route.long:
        return await route.handler(call)
    answering, gone = asyncio.ensure_future(route.handler(call)), asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise limits.Disconnected
        return answering.result()
    finally:
        gone.cancel()
        answering.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _response(answer: Any, request_id: bytes) -> Response:
    if isinstance(answer, Response):
        response = answer
    else:
        status, content = (answer.status, answer.content) if isinstance(answer, Reply) else (200, answer)
        body = await asyncio.to_thread(encode, content) if _is_long(content) else encode(content)
        response = Response(body, status, media_type="application/json")
        response.raw_headers += ANSWERED[1:]
    response.raw_headers.append((b"x-request-id", request_id))
    return response


def _is_long(content: msgspec.Struct) -> bool:
    """Return whether an answer may take milliseconds to encode: it has lists, or tables, of many lines."""
    if isinstance(content, t.WorkersPage | t.WorkerView | t.PoliciesAnswer | t.PolicyView):  # tables of labels within tables
        return True
    parts = (getattr(content, field) for field in content.__struct_fields__)
    return any(len(part) > MANY_ROWS for part in parts if isinstance(part, list | dict))


def _log(name: str, status: int, request_id: bytes, ids: list[str], grant: Grant) -> None:
    LOGGER.info(
        "done",
        extra={"route": name, "status": status, "request": request_id.decode(), "ids": ids, "token": grant.name},
    )
