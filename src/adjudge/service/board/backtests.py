"""Back-tests started from the page: each runs in the background and reports its progress."""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from adjudge.errors import AdjudgeError
from adjudge.service.http import backtesting
from adjudge.service.http.errors import Unavailable
from adjudge.service.http.types import BacktestAnswer

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

MAX_KEPT: Final = 50  # of all campaigns; the oldest are dropped
MAX_RUNNING: Final = 2


@dataclass(slots=True)
class Test:
    """One back-test.

    - `campaign`: number of the campaign; `document`: the policy that is tried; `text`: that as JSON.
    - `until`: the position at which it ends; `position`: how far it has come.
    - `answer`: what came out; `error`: why nothing did.
    """

    key: str
    campaign: int
    document: dict[str, Any]
    text: str
    by: str
    until: int
    position: int = 0
    answer: BacktestAnswer | None = None
    error: str | None = None
    began: float = field(default_factory=time.monotonic)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.answer is None and self.error is None

    @property
    def share(self) -> float:
        """How far it has come, from 0 to 1."""
        return 1.0 if not self.is_running else min(self.position / max(self.until, 1), 0.99)

    def advance(self, position: int) -> None:
        """Note how far it has come."""
        self.position = position


class Backtests:
    """The back-tests of a server, by key."""

    def __init__(self) -> None:
        self._known: dict[str, Test] = {}

    def find(self, campaign: Campaign, key: str | None) -> Test | None:
        """Return a back-test of a campaign, None if there is none, or it was dropped."""
        test = None if key is None else self._known.get(key)
        return test if test is not None and test.campaign == campaign.number else None

    def start(self, campaign: Campaign, document: dict[str, Any], text: str, by: str) -> Test:
        """Start a back-test; one of the same person in the same campaign that still runs is stopped."""
        for known in self._known.values():
            if known.is_running and (known.campaign, known.by) == (campaign.number, by):
                known.stop.set()
        if sum(known.is_running and not known.stop.is_set() for known in self._known.values()) >= MAX_RUNNING:
            raise Unavailable(f"{MAX_RUNNING} back-tests are running: try again when one has ended", retry_after=10)
        while len(self._known) >= MAX_KEPT:
            self._known.pop(next(iter(self._known))).stop.set()
        test = Test(secrets.token_urlsafe(12), campaign.number, document, text, by, campaign.position)
        self._known[test.key] = test
        campaign.campaigns.start(_run(campaign, test))
        return test

    def stop(self) -> None:
        """Stop all that still run."""
        for test in self._known.values():
            test.stop.set()


async def _run(campaign: Campaign, test: Test) -> None:
    try:
        await campaign.on_disk_now()
        work = partial(
            backtesting.answer, campaign.campaigns.store, campaign.number, test.document, None, test.stop, test.advance
        )
        test.answer = await campaign.campaigns.in_thread(work)
    except AdjudgeError as error:
        test.error = str(error)
    except BaseException:
        test.error = "the back-test failed: the log of the server says why"
        raise
