"""Webhooks: decisions posted to others, signed, tried again when that fails, and given up in the end.

What is to be posted is in the store from the moment at which the decision is: a crash loses no delivery. A delivery may
arrive twice, when its answer was lost; its id tells it. The signature covers the time and the body, so that neither can be
changed, and an old delivery cannot be played again later.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import random
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from adjudge.errors import make_visible
from adjudge.service.http.addresses import Target, resolve, target
from adjudge.service.http.call import Context
from adjudge.service.http.errors import Problem
from adjudge.service.http.logs import LOGGER
from adjudge.service.store.webhooks import Delivery, Failure, WebhookRow

MAX_DELIVERY_ATTEMPTS: Final = 8  # after which a delivery is given up: with the pauses below, some ten minutes after the first
FIRST_RETRY_PAUSE_S: Final = 2.0  # seconds; each further one is up to twice as long
MAX_RETRY_PAUSE_S: Final = 3600.0
RESPONSE_TIMEOUT_S: Final = 10.0  # within which a receiver has to answer
MAX_RESPONSE_BYTES: Final = 64_000  # bytes of an answer that are read
DELIVERY_THREADS: Final = 8
OUTBOX_INTERVAL_S: Final = 0.5  # seconds between looks into the store


def signature(secret: str, moment: int, body: bytes) -> str:
    """Return the header X-Adjudge-Signature: the time, and HMAC-SHA256 of the time, a dot and the body.

    - `secret`: of the webhook.
    - `moment`: in seconds since 1970.
    - `body`: what is posted.

    >>> signature("a secret of some length", 1700000000, b"{}")[:30]
    't=1700000000,v1=9008b8e96ac884'
    """
    signed = hmac.new(secret.encode(), b"%d." % moment + body, hashlib.sha256)
    return f"t={moment},v1={signed.hexdigest()}"


def pause(attempts: int, chance: float) -> float:
    """Return the seconds until the next attempt: twice as long each time, less a random part, so that none meet.

    - `attempts`: those that have failed.
    - `chance`: between 0 and 1.
    """
    return min(MAX_RETRY_PAUSE_S, FIRST_RETRY_PAUSE_S * 2.0 ** (attempts - 1)) * (0.5 + 0.5 * chance)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to one address, whatever its name means meanwhile."""

    def __init__(self, found: Target, address: str) -> None:
        super().__init__(found.host, found.port, timeout=RESPONSE_TIMEOUT_S)
        self._target, self._address = found, address

    def connect(self) -> None:
        """Connect to the address that was checked; certificates are checked against the name."""
        self.sock = socket.create_connection((self._address, self._target.port), timeout=RESPONSE_TIMEOUT_S)
        if self._target.secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self._target.host)

    def abort(self) -> None:
        """End whatever is waited for."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def post(url: str, secret: str, key: str, body: bytes, *, allow_private: bool) -> str | None:
    """Post a delivery once; return None if the receiver took it, and else what went wrong.

    - `url`, `secret`: of the webhook.
    - `key`: the id of the delivery.
    - `body`: what is posted.
    - `allow_private`: whether private addresses are allowed.
    """
    try:
        found = target(url)
        connection = _PinnedConnection(found, resolve(found, allow_private=allow_private))
        headers = {
            "Host": found.authority,
            "Content-Type": "application/json",
            "User-Agent": "adjudge",
            "X-Adjudge-Delivery": key,
            "X-Adjudge-Signature": signature(secret, int(time.time()), body),
            "Connection": "close",
        }
        end = threading.Timer(2 * RESPONSE_TIMEOUT_S, connection.abort)  # the other limit is on each wait, and there may be many
        end.daemon = True
        end.start()
        try:
            connection.request("POST", found.path, body, headers)
            answer = connection.getresponse()
            answer.read(MAX_RESPONSE_BYTES)
        finally:
            end.cancel()
            connection.close()
    except (OSError, http.client.HTTPException, Problem, UnicodeError) as error:
        return make_visible(str(error) or type(error).__name__)[:300]
    if 200 <= answer.status < 300:
        return None
    return f"the receiver answered {answer.status}" + (", and redirects are not followed" if 300 <= answer.status < 400 else "")


class Courier:
    """Makes the deliveries that are due.

    - `context`: of the server.
    - `attempts`: after how many a delivery is given up.
    """

    def __init__(self, context: Context, *, attempts: int = MAX_DELIVERY_ATTEMPTS) -> None:
        self._context, self._attempts = context, attempts
        self._threads = ThreadPoolExecutor(DELIVERY_THREADS, thread_name_prefix="adjudge-webhook")
        self._random = random.Random()

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            while True:
                try:
                    more = await self.round()
                except Exception:
                    LOGGER.exception("deliveries of webhooks have failed; they are tried again")
                    more = False
                if not more:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._context.wake.wait(), OUTBOX_INTERVAL_S)
                    self._context.wake.clear()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def round(self) -> bool:
        """Try what is due now; return whether there was anything."""
        store, loop = self._context.campaigns.store, asyncio.get_running_loop()
        clock = self._context.campaigns.clock
        now, owned = clock.read(), self._context.campaigns.owned()  # those of others are delivered by them
        if not self._context.outbox or clock.doubt is not None:  # the next attempt would be dated by a wrong clock
            return False
        due = await loop.run_in_executor(self._threads, lambda: store.webhooks.due(now, 4 * DELIVERY_THREADS, campaigns=owned))
        if not due:
            return False
        rows = await loop.run_in_executor(self._threads, store.webhooks.targets)
        hooks = {hook.number: hook for hook in rows}
        results = await asyncio.gather(
            *(loop.run_in_executor(self._threads, self._attempt, hooks.get(each.webhook), each) for each in due)
        )
        delivered, failed = [], []
        for each, error in zip(due, results, strict=True):
            if error is None:
                delivered.append(each.number)
            else:
                failed.append(self._failure(each, error))
            outcome = "delivered" if error is None else "failed" if failed[-1].due is not None else "dead"
            self._context.metrics.deliveries[outcome] += 1
        await self._context.campaigns.in_writer(store.webhooks.settle, delivered, failed)
        return True

    def _attempt(self, hook: WebhookRow | None, delivery: Delivery) -> str | None:
        if hook is None:
            return None  # it was removed meanwhile
        return post(hook.url, hook.secret, delivery.key, delivery.body, allow_private=self._context.allow_private)

    def _failure(self, delivery: Delivery, error: str) -> Failure:
        tried, now = delivery.attempts + 1, self._context.campaigns.clock.read()
        given_up = tried >= self._attempts
        due = None if given_up else now + int(pause(tried, self._random.random()) * 1e6)
        LOGGER.warning(
            "a delivery was given up" if given_up else "a delivery has failed",
            extra={"webhook": delivery.webhook, "delivery": delivery.key, "attempts": tried, "error": error},
        )
        return Failure(delivery.number, error, due, now)
