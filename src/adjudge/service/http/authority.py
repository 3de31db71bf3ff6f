"""Authority, checked at the moment it is used: the token is valid, and the campaign is this server's to answer for.

A request is checked when it begins and when its body is complete, an answer before it is sent, a stream before every vote it
casts and every chunk it sends. Committed votes are acknowledged even if the token was revoked meanwhile: they are in the log.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from adjudge.service.http.errors import Problem, Unavailable
from adjudge.service.http.leases import Lease, Leases, now, unproven
from adjudge.service.http.tokens import Grant, Scope, TokenIndex
from adjudge.service.store.tokens import TokenRow

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

MAX_TOKEN_AGE_S: Final = 10.0  # how long tokens hold that cannot be read again, as when the database is down
MAX_FOLLOWER_AGE_S: Final = 10.0  # how far a follower may be behind the log, as while it repeats a long refit


class Authority:
    """Says what may be done now.

    - `tokens`: those that were valid when the store was last read.
    - `leases`: proves which campaigns this process owns.
    - `clock`: seconds, from any start.
    """

    def __init__(self, tokens: TokenIndex, leases: Leases, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens, self._clock = tokens, clock
        self.leases = leases
        self._read = clock()  # when the tokens were last read
        self._watched: set[Permit] = set()

    def load(self, rows: Iterable[TokenRow]) -> None:
        """Replace the tokens with what the store has now, and end the streams that are no longer allowed."""
        self._tokens.load(rows)
        self._read = self._clock()
        self.review()

    def review(self) -> None:
        """End the streams that are no longer allowed, be it because the tokens are too old."""
        for permit in list(self._watched):
            permit.review()

    def require_recent(self) -> None:
        """Raise `Unavailable` if the tokens could not be read for too long: any of them may have been revoked."""
        if self._clock() - self._read > MAX_TOKEN_AGE_S:
            raise Unavailable("the store cannot be read, so tokens cannot be checked: try again", retry_after=1)

    def find(self, authorization: bytes | None) -> Grant:
        """Return what the header Authorization allows, or raise."""
        self.require_recent()
        return self._tokens.find(authorization)

    def permit(self, grant: Grant, scope: Scope | None, campaign: str | None, *, everywhere: bool = False) -> Permit:
        """Return the permit of a request that was admitted.

        - `grant`: what its token allows.
        - `scope`, `campaign`, `everywhere`: what it does, and where; without a scope anybody may.
        """
        return Permit(self, grant, scope, campaign, everywhere)

    def check(self, grant: Grant, scope: Scope, campaign: str | None, *, everywhere: bool) -> None:
        """Raise unless the token of a grant still allows this."""
        self.require_recent()
        grant = self._tokens.current(grant)
        grant.check(scope, campaign)
        if everywhere:
            grant.everywhere()

    def lease(self, campaign: Campaign) -> Lease | None:
        """Return the lease that an answer about a campaign will rest on; None for a follower, which answers as one."""
        if campaign.lease is None and (campaign.follows is None or now() - campaign.current > MAX_FOLLOWER_AGE_S):
            raise unproven()
        return campaign.lease

    async def confirm(self, lease: Lease | None) -> None:
        """Raise `Unavailable` unless an answer that rests on this lease may be given now."""
        if lease is not None:
            await self.leases.confirm(lease)

    @contextmanager
    def watch(self, permit: Permit) -> Iterator[None]:
        """Review a permit whenever the tokens were read again."""
        self._watched.add(permit)
        try:
            permit.review()  # it may have ended since the request began
            yield
        finally:
            self._watched.discard(permit)


class Permit:
    """What one request was admitted for; `check` says whether it still is.

    - `authority`: which issued it.
    - `grant`, `scope`, `campaign`, `everywhere`: see `Authority.permit`.
    """

    def __init__(self, authority: Authority, grant: Grant, scope: Scope | None, campaign: str | None, everywhere: bool) -> None:
        self.authority, self._grant = authority, grant
        self._scope, self._campaign, self._everywhere = scope, campaign, everywhere
        self._ended: asyncio.Future[Problem] | None = None  # while it is watched

    def check(self) -> None:
        """Raise if the token was revoked, or its scope or campaign changed, since the request was admitted."""
        if self._scope is not None:
            self.authority.check(self._grant, self._scope, self._campaign, everywhere=self._everywhere)

    @contextmanager
    def watched(self) -> Iterator[asyncio.Future[Problem]]:
        """Yield a future that has the problem as soon as this no longer holds, for one stream."""
        self._ended = asyncio.get_running_loop().create_future()
        with self.authority.watch(self):
            yield self._ended

    def review(self) -> None:
        """Check it, and end the stream if it no longer holds."""
        if self._ended is not None and not self._ended.done():
            try:
                self.check()
            except Problem as problem:
                self._ended.set_result(problem)
