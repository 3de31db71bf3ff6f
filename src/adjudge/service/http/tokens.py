"""Tokens: who may do what, in which campaign. Only their SHA-256 is stored, so that the store gives none of them away."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, get_args

from adjudge.data.options import Choice
from adjudge.errors import InputError, itemize
from adjudge.service.http.errors import Forbidden, Unauthorized
from adjudge.service.http.limits import Bucket
from adjudge.service.store.tokens import TokenRow

Scope: TypeAlias = Literal["vote", "read", "moderate", "admin"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
TOKEN_PREFIX: Final = "adj_"  # by which scanners of source code know a token that was left there

# What a scope allows beside itself: who moderates has to read, and who administers may do everything.
IMPLIED: Final[dict[Scope, frozenset[Scope]]] = {
    "vote": frozenset({"vote"}),
    "read": frozenset({"read"}),
    "moderate": frozenset({"read", "moderate"}),
    "admin": frozenset(SCOPES),
}


def make() -> str:
    """Return a new token, of 256 random bits.

    >>> make().startswith("adj_"), len(make())
    (True, 47)
    """
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest(token: str | bytes) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def scopes(text: str) -> tuple[Scope, ...]:
    """Return the scopes that a text names, separated by commas.

    >>> scopes("vote,read")
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
    """

    __slots__ = ("allowed", "bucket", "campaign", "digest", "name")

    def __init__(
        self,
        name: str | None,
        allowed: frozenset[Scope],
        *,
        campaign: str | None = None,
        bucket: Bucket | None = None,
        digest: bytes = b"",
    ) -> None:
        self.name, self.allowed, self.campaign = name, allowed, campaign
        self.bucket = Bucket(None) if bucket is None else bucket
        self.digest = digest

    def check(self, scope: Scope, campaign: str | None) -> None:
        """Raise `Forbidden` unless this may be done there.

        The answer is the same whether there is such a campaign or not.
        """
        if scope not in self.allowed:
            raise Forbidden(f"this needs a token with the scope {scope}")
        if self.campaign is not None and campaign is not None and campaign != self.campaign:
            raise Forbidden("this token does not reach that campaign")

    def everywhere(self) -> None:
        """Raise `Forbidden` unless all campaigns are reached."""
        if self.campaign is not None:
            raise Forbidden("this needs a token for all campaigns")


FULL_GRANT: Final = Grant(None, frozenset(SCOPES))


class TokenIndex:
    """The tokens that hold, by digest; `load` replaces them by what the store has now.

    - `rate`: units per second and token (see `limits.Bucket`); None: no limit.
    - `required`: whether a token is needed even before there is one, as beyond loopback.
    """

    def __init__(self, *, rate: float | None = None, required: bool = False) -> None:
        self._rate, self._always = rate, required
        self._grants: dict[bytes, Grant] = {}
        self.required = required

    def load(self, rows: Iterable[TokenRow]) -> None:
        """Take over what the store has: new tokens hold, revoked ones no longer do; rates go on as they were.

        Where every token was revoked, one is still needed: taking the last one away opens nothing.
        """
        before, grants, some = self._grants, {}, False
        for row in rows:
            some = True
            if row.revoked is not None:
                continue
            known = before.get(row.hash)
            allowed = frozenset[Scope]().union(*(IMPLIED[scope] for scope in SCOPES if scope in row.scopes))
            bucket = Bucket(self._rate) if known is None else known.bucket
            grants[row.hash] = Grant(row.name, allowed, campaign=row.campaign, bucket=bucket, digest=row.hash)
        self._grants, self.required = grants, self._always or some

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
        found = hashlib.sha256(authorization[7:].strip()).digest()
        grant = self._grants.get(found)
        if grant is None or not hmac.compare_digest(grant.digest, found):
            raise Unauthorized("this token is not known, or was revoked")
        return grant
