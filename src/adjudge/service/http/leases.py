"""Leases: proof that this process still owns a campaign, fresh enough to answer by.

The database holds the lock of a campaign for as long as its owner is connected, and fences writes. It cannot fence answers: a
process that has lost its connection, or was stopped for a while, still has a state in memory. So every answer of an owner
rests on a proof of at most `LEASE_S` seconds: a commit, or a round trip that finds the lock held. The age of a proof counts
from the moment it was requested. A successor waits for `SUCCESSION_S` seconds after it got the lock, until no answer of its
predecessor can be on its way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from adjudge.errors import AdjudgeError
from adjudge.service.http.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjudge.service.http.campaigns import Campaigns

log = logging.getLogger(__name__)
LEASE_S: Final = 0.3  # age of a proof at which it is no longer good enough to answer by
RENEWAL_AGE_S: Final = 0.15  # age at which a request has the next proof made, without waiting for it
RENEWAL_TIMEOUT_S: Final = 1.0  # how long a request waits for a proof
SUCCESSION_S: Final = 0.5  # from getting a lock to the first answer; the rest beyond LEASE_S is for answers under way
UNKNOWN_OWNER: Final = "another process"

# The clock keeps running while the process is stopped, and on Linux also while the machine sleeps.
now: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class Lease:
    """One continuous ownership of a campaign; getting the lock again makes a new one.

    - `proven`: when the last successful proof was requested.
    """

    __slots__ = ("is_lost", "proven")

    def __init__(self, proven: float) -> None:
        self.proven, self.is_lost = proven, False

    def prove(self, requested: float) -> None:
        """Note a proof, by the time at which it was requested."""
        self.proven = max(self.proven, requested)

    @property
    def age(self) -> float:
        """Seconds since the last proof was requested."""
        return math.inf if self.is_lost else now() - self.proven


class Leases:
    """Proves the leases of all campaigns of a server, with one query for all of them.

    - `campaigns`: of the server.
    """

    def __init__(self, campaigns: Campaigns) -> None:
        self._campaigns = campaigns
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="adjudge-lease")  # never behind slower reads
        self._renewal: asyncio.Future[None] | None = None
        self._is_logged = False  # that the database does not answer

    def begin(self) -> Lease:
        """Return the lease of a campaign whose lock was just taken; the lock of a SQLite file is proof for good."""
        return Lease(-math.inf if self._campaigns.store.is_shared else math.inf)

    async def await_predecessor(self, locked: float) -> None:
        """Wait until no former owner can answer any more.

        - `locked`: when the lock was got, by `now`.
        """
        if self._campaigns.store.is_shared:
            await asyncio.sleep(max(0.0, locked + SUCCESSION_S - now()))

    def is_fresh(self, lease: Lease) -> bool:
        """Return whether an answer may rest on a lease now; an ageing proof is renewed for the requests that follow."""
        age = lease.age
        if age >= RENEWAL_AGE_S and not lease.is_lost:
            self.renew()
        return age < LEASE_S

    async def confirm(self, lease: Lease) -> None:
        """Raise `Unavailable` unless a lease is proven, after a round trip if it takes one."""
        if self.is_fresh(lease):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(RENEWAL_TIMEOUT_S):
                for _ in range(2):  # the first proof may have been under way for too long already
                    await asyncio.shield(self.renew())
                    if lease.is_lost or self.is_fresh(lease):
                        break
        if lease.age >= LEASE_S:
            raise make_unproven()

    def renew(self) -> asyncio.Future[None]:
        """Return the proof under way, which all who need one share."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.ensure_future(self._prove())
        return self._renewal

    async def _prove(self) -> None:
        campaigns, requested = self._campaigns, now()
        asked = [(campaign, campaign.lease) for campaign in campaigns.by_name.values() if campaign.lease is not None]
        try:
            held = await asyncio.get_running_loop().run_in_executor(self._threads, campaigns.store.held)
        except (AdjudgeError, OSError) as error:
            if not self._is_logged:
                log.warning("this process cannot prove which campaigns it owns: %s", error)
            self._is_logged = True
            return
        self._is_logged = False
        for campaign, lease in asked:
            if campaign.lease is not lease:
                continue  # it has ended meanwhile
            if campaign.number in held:
                lease.prove(requested)
            else:
                log.warning("campaign %r is no longer owned by this process", campaign.name)
                campaign.lose()

    def close(self) -> None:
        """Let the thread end."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def make_unproven() -> Unavailable:
    """Return the problem of an answer that this process may not give."""
    return Unavailable("this server cannot prove that its state of the campaign is the current one: try again", retry_after=1)
