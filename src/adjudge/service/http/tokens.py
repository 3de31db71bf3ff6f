"""Tokens: who may do what, in which campaign, checked at the moment of use. Only the SHA-256 of a token is stored.

A request is checked when it begins and when its body is complete, an answer before it is sent, and a stream before every vote it
casts and every chunk it sends. Committed votes are acknowledged even if the token was revoked meanwhile: they are in the log.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from adjudge.data.options import Choice
from adjudge.errors import InputError, itemize, quote
from adjudge.service.http.errors import Forbidden, Problem, Unauthorized, Unavailable
from adjudge.service.http.leases import Lease, Leases, make_unproven, now
from adjudge.service.http.limits import Bucket
from adjudge.service.store.tables import TokenRow

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

Scope: TypeAlias = Literal["vote", "read", "moderate", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
TOKEN_PREFIX: Final = "adj_"  # by which scanners of source code know a token that was left there

# The scopes that a scope includes: moderators can read, and administrators can do everything.
IMPLIED: Final[dict[Scope, frozenset[Scope]]] = {
    "vote": frozenset({"vote"}),
    "read": frozenset({"read"}),
    "moderate": frozenset({"read", "moderate"}),
    "admin": frozenset(SCOPES),
}
MAX_TOKEN_AGE_S: Final = 10.0  # how long tokens hold that cannot be read again, as when the database is down
MAX_FOLLOWER_AGE_S: Final = 10.0  # how far a follower may be behind the log, as while it repeats a long refit


def make_token() -> str:
    """Return a new token, of 256 random bits.

    >>> make_token().startswith("adj_"), len(make_token())
    (True, 47)
    """
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str | bytes) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def parse_scopes(text: str) -> tuple[Scope, ...]:
    """Return the scopes that a text names, separated by commas.

    >>> parse_scopes("vote,read")
    ('vote', 'read')
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        Choice(SCOPES).check("scope", name)
    if not names:
        raise InputError(f"a token needs a scope: {itemize(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in names)


class Grant:
    """What a request may do.

    - `name`: of the token, for logs; None: no token was needed.
    - `allowed`: the scopes, with those that they imply.
    - `campaign`: the only one that it reaches; None: all.
    - `bucket`: the rate of this token.
    - `labels`: ids of the labels that it may decide; None: all.
    """

    __slots__ = ("allowed", "bucket", "campaign", "digest", "labels", "name")

    def __init__(
        self,
        name: str | None,
        allowed: frozenset[Scope],
        *,
        campaign: str | None = None,
        bucket: Bucket | None = None,
        digest: bytes = b"",
        labels: Sequence[str] | None = None,
    ) -> None:
        self.name, self.allowed, self.campaign, self.labels = name, allowed, campaign, labels
        self.bucket = Bucket(None) if bucket is None else bucket
        self.digest = digest

    def check(self, scope: Scope, campaign: str | None, *, everywhere: bool = False) -> None:
        """Raise `Forbidden` unless this may be done there, or in all campaigns with `everywhere`.

        The answer is the same whether there is such a campaign or not.
        """
        if scope not in self.allowed:
            raise Forbidden(f"this needs a token with the scope {scope}")
        if self.campaign is not None and campaign is not None and campaign != self.campaign:
            raise Forbidden("this token does not reach that campaign")
        if everywhere and self.campaign is not None:
            raise Forbidden("this needs a token for all campaigns")

    def check_label(self, label: str) -> None:
        """Raise `Forbidden` unless a task may be decided as this label."""
        if self.labels is not None and label not in self.labels:
            raise Forbidden(f"this token may not decide {quote(label)}: its labels are {itemize(self.labels, 20)}")


FULL_GRANT: Final = Grant(None, frozenset(SCOPES))


class TokenIndex:
    """The tokens that hold, by digest; `load` replaces them with those of the store.

    - `rate`: units per second and token (see `limits.Bucket`); None: no limit.
    - `required`: whether a token is needed even before there is one, as beyond loopback.
    """

    def __init__(self, *, rate: float | None = None, required: bool = False) -> None:
        self._rate, self._always = rate, required
        self._grants: dict[bytes, Grant] = {}
        self.required = required

    def load(self, rows: Iterable[TokenRow]) -> None:
        """Load the tokens of the store: new ones are valid, revoked ones no longer; buckets keep their level.

        Where every token was revoked, one is still needed: taking the last one away opens nothing.
        """
        before, grants, has_rows = self._grants, {}, False
        for row in rows:
            has_rows = True
            if row.revoked is not None:
                continue
            known = before.get(row.hash)
            allowed = frozenset[Scope]().union(*(IMPLIED[scope] for scope in SCOPES if scope in row.scopes))
            bucket = Bucket(self._rate) if known is None else known.bucket
            grants[row.hash] = Grant(row.name, allowed, campaign=row.campaign, bucket=bucket, digest=row.hash, labels=row.labels)
        self._grants, self.required = grants, self._always or has_rows

    def __len__(self) -> int:
        return len(self._grants)

    def current(self, grant: Grant) -> Grant:
        """Return what the token of an earlier grant allows now; raise `Unauthorized` if it was revoked."""
        if grant.name is None:
            return self.find(None)
        known = self._grants.get(grant.digest)
        if known is None:
            raise Unauthorized("this token was revoked")
        return known

    def find(self, authorization: bytes | None) -> Grant:
        """Return what the header Authorization allows, or raise `Unauthorized`.

        A look-up by digest tells nothing by the time it takes: to steer the digest one would have to invert SHA-256. The
        comparison of the whole digest is in constant time all the same.
        """
        if authorization is None:
            if self.required:
                raise Unauthorized("a token is needed: Authorization: Bearer TOKEN")
            return FULL_GRANT
        if authorization[:7].lower() != b"bearer ":
            raise Unauthorized("the header Authorization has to be: Bearer TOKEN")
        key = hashlib.sha256(authorization[7:].strip()).digest()
        grant = self._grants.get(key)
        if grant is None or not hmac.compare_digest(grant.digest, key):
            raise Unauthorized("this token is not known, or was revoked")
        return grant


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
        self.watched: set[Permit] = set()

    def load(self, rows: Iterable[TokenRow]) -> None:
        """Replace the tokens with those of the store, and end the streams that are no longer allowed."""
        self._tokens.load(rows)
        self._read = self._clock()
        self.review()

    def review(self) -> None:
        """End the streams that are no longer allowed, be it because the tokens are too old."""
        for permit in list(self.watched):
            permit.review()

    def require_recent(self) -> None:
        """Raise `Unavailable` if the tokens could not be read for too long: any of them may have been revoked."""
        if self._clock() - self._read > MAX_TOKEN_AGE_S:
            raise Unavailable("the store cannot be read, so tokens cannot be checked: try again", retry_after=1)

    def find(self, authorization: bytes | None) -> Grant:
        """Return what the header Authorization allows, or raise."""
        self.require_recent()
        return self._tokens.find(authorization)

    def current(self, grant: Grant) -> Grant:
        """Return what the token of an earlier grant allows now, or raise."""
        self.require_recent()
        return self._tokens.current(grant)

    def lease(self, campaign: Campaign) -> Lease | None:
        """Return the lease that an answer about a campaign will rest on; None for a follower, which answers as one."""
        if campaign.lease is None and (campaign.follows is None or now() - campaign.current > MAX_FOLLOWER_AGE_S):
            raise make_unproven()
        return campaign.lease

    async def confirm(self, lease: Lease | None) -> None:
        """Raise `Unavailable` unless an answer that rests on this lease may be given now."""
        if lease is not None:
            await self.leases.confirm(lease)


class Permit:
    """What one request was admitted for; `check` says whether it still is.

    - `authority`: which admitted it.
    - `grant`: what its token allows.
    - `scope`, `campaign`, `everywhere`: what it does, and where; without a scope anybody may.
    """

    def __init__(
        self, authority: Authority, grant: Grant, scope: Scope | None, campaign: str | None, *, everywhere: bool = False
    ) -> None:
        self.authority, self._grant = authority, grant
        self._scope, self._campaign, self._everywhere = scope, campaign, everywhere
        self._ended: asyncio.Future[Problem] | None = None  # while it is watched

    def check(self) -> None:
        """Raise if the token was revoked, or its scope or campaign changed, since the request was admitted."""
        if self._scope is not None:
            self.authority.current(self._grant).check(self._scope, self._campaign, everywhere=self._everywhere)

    @contextmanager
    def watch(self) -> Iterator[asyncio.Future[Problem]]:
        """Yield a future that has the problem as soon as this no longer holds, for one stream."""
        self._ended = asyncio.get_running_loop().create_future()
        self.authority.watched.add(self)
        try:
            self.review()  # it may have ended since the request began
            yield self._ended
        finally:
            self.authority.watched.discard(self)

    def review(self) -> None:
        """Check it, and end the stream if it no longer holds."""
        if self._ended is not None and not self._ended.done():
            try:
                self.check()
            except Problem as problem:
                self._ended.set_result(problem)
