"""Sessions of the page: who has signed in with which token, and the value that their forms carry.

Sessions are in memory, so that neither a stolen store nor a stolen backup opens the page: after a restart people sign in again. A
session grants nothing by itself. Each request looks up the token that it began with, so revoking the token ends it.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from adjudge.service.http.errors import Forbidden
from adjudge.service.http.tokens import Grant

SESSION_COOKIE: Final = "adjudge_session"
SESSION_S: Final = 12 * 3600.0  # a long shift
MAX_SESSIONS: Final = 10_000  # beyond it the oldest end


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """One browser that has signed in.

    - `name`: of the token; None where no token is needed.
    - `digest`: of the token.
    - `csrf`: the secret of its forms.
    - `expires`: when it ends, by the steady clock.
    """

    name: str | None
    digest: bytes
    csrf: str
    expires: float

    def check_form(self, sent: str) -> None:
        """Raise `Forbidden` unless a form was made for this session."""
        if not hmac.compare_digest(sent.encode("utf-8", "replace"), self.csrf.encode()):
            raise Forbidden("this form is not of your session, or the service was restarted: reload the page and try again")


class Sessions:
    """The sessions that are open.

    - `clock`: seconds, from any start.

    >>> sessions = Sessions()
    >>> key, session = sessions.begin(Grant("ann", frozenset(), digest=b"1"))
    >>> sessions.find(key) is session, sessions.find("other")
    (True, None)
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._open: dict[str, BrowserSession] = {}
        self.local = BrowserSession(None, b"", secrets.token_urlsafe(32), float("inf"))  # of everybody, while no token is needed

    def begin(self, grant: Grant) -> tuple[str, BrowserSession]:
        """Open a session for a token; return the value of its cookie, and the session."""
        while len(self._open) >= MAX_SESSIONS:
            del self._open[next(iter(self._open))]
        key = secrets.token_urlsafe(32)
        session = BrowserSession(grant.name, grant.digest, secrets.token_urlsafe(32), self._clock() + SESSION_S)
        self._open[key] = session
        return key, session

    def find(self, key: str | None) -> BrowserSession | None:
        """Return the session of a cookie, None if there is none or it has expired."""
        session = None if key is None else self._open.get(key)
        if session is None or key is None:
            return None
        if self._clock() >= session.expires:
            del self._open[key]
            return None
        return session

    def end(self, key: str | None) -> None:
        """Close a session."""
        if key is not None:
            self._open.pop(key, None)
