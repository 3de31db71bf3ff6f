"""When a request is sent again, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from adjudge.client.errors import ConnectionFailed, NotFound, ServiceError, TooMany, Unavailable
from adjudge.client.request import Request

T = TypeVar("T")
FIRST: Final = 0.1  # seconds before the first retry; each further one waits twice as long
LONGEST: Final = 5.0


class Attempts(Generic[T]):
    """The attempts at one request.

    It is sent again after a lost connection where that is safe, and after 429 and 503, by which the service says that nothing
    was taken. Each pause is twice as long as the one before, of which a random part is left out, so that many clients do not
    come back at the same moment; or as long as the service asks for.

    - `request`: is sent; `self.request` is what to send next.
    - `retries`: how often it is sent again; None: as often as it takes.
    - `deadline`: seconds after which it is not sent again.
    - `clock`, `chance`: the time in seconds, and random numbers from 0 to 1.
    """

    def __init__(
        self,
        request: Request[T],
        *,
        retries: int | None,
        deadline: float,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.request = request
        self._retries, self._clock, self._chance = retries, clock, chance
        self._until = clock() + max(deadline, request.timeout or 0)
        self._failed = 0
        self._lost = False  # whether an attempt may have been carried out without an answer

    def timeout(self, usual: float) -> float:
        """Return how many seconds to wait for the next answer.

        - `usual`: those of the client.
        """
        return max(min(self.request.timeout or usual, self._until - self._clock()), 0.001)

    def after(self, error: ServiceError) -> float:
        """Return how many seconds to wait before the request is sent again; raise the error where it is not.

        - `error`: by which the attempt failed.
        """
        if isinstance(error, NotFound) and self._lost and self.request.instead is not None:
            self.request = self.request.instead
            return 0.0
        if not isinstance(error, ConnectionFailed | TooMany | Unavailable) or getattr(error, "final", False):
            raise error
        if isinstance(error, ConnectionFailed) and error.sent:
            if not self.request.repeatable:
                raise ConnectionFailed(f"{error.detail}; whether it was done is not known, so it is not sent again", sent=True)
            self._lost = True
            if error.kept:
                return 0.0
        self._failed += 1
        if self._retries is not None and self._failed > self._retries:
            raise error
        pause = error.retry_after
        if pause is None:
            pause = min(FIRST * 2 ** min(self._failed - 1, 30), LONGEST) * (1 - self._chance() / 2)
        if self._clock() + pause >= self._until:
            raise error
        return pause
