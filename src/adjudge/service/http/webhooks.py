"""Webhooks: decisions posted to public addresses, signed, retried with backoff, and given up in the end.

A message is stored in the transaction of the decision that it reports, so a crash loses no delivery. If an answer is lost, a
delivery arrives twice under the same id. The signature covers the time and the body, so that neither can be changed and an old
delivery cannot be replayed.

A host is resolved once per delivery, every address is checked, and the connection goes to a checked address: a name that
resolves to a public address first and to a private one later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import ipaddress
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from adjudge.errors import make_visible, quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.http.errors import Invalid, Problem
from adjudge.service.http.fold import LiveCampaign
from adjudge.service.http.logs import LOGGER
from adjudge.service.store.batch import OutboxRow
from adjudge.service.store.tables import Delivery, Failure, WebhookRow

if TYPE_CHECKING:
    from adjudge.service.http.call import Context

MAX_DELIVERY_ATTEMPTS: Final = 8  # after which a delivery is given up: with the pauses below, some ten minutes after the first
FIRST_RETRY_PAUSE_S: Final = 2.0  # seconds; each further one is up to twice as long
MAX_RETRY_PAUSE_S: Final = 3600.0
RESPONSE_TIMEOUT_S: Final = 10.0  # within which a receiver has to answer
MAX_RESPONSE_BYTES: Final = 64_000  # bytes of an answer that are read
DELIVERY_THREADS: Final = 8
OUTBOX_INTERVAL_S: Final = 0.5  # seconds between looks into the store
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_encode: Final = msgspec.json.Encoder().encode


def sign(secret: str, moment: int, body: bytes) -> str:
    """Return the header X-Adjudge-Signature: the time, and HMAC-SHA256 of the time, a dot and the body.

    - `secret`: of the webhook.
    - `moment`: in seconds since 1970.
    - `body`: what is posted.

    >>> sign("a secret of some length", 1700000000, b"{}")[:30]
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
    """A connection to one address, even if its name resolves to another meanwhile."""

    def __init__(self, receiver: Target, address: str) -> None:
        super().__init__(receiver.host, receiver.port, timeout=RESPONSE_TIMEOUT_S)
        self._target, self._address = receiver, address

    def connect(self) -> None:
        """Connect to the address that was checked; certificates are checked against the name."""
        self.sock = socket.create_connection((self._address, self._target.port), timeout=RESPONSE_TIMEOUT_S)
        if self._target.secure:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self._target.host)

    def abort(self) -> None:
        """Interrupt a blocked read or write."""
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
        receiver = parse_target(url)
        connection = _PinnedConnection(receiver, resolve(receiver, allow_private=allow_private))
        headers = {
            "Host": receiver.authority,
            "Content-Type": "application/json",
            "User-Agent": "adjudge",
            "X-Adjudge-Delivery": key,
            "X-Adjudge-Signature": sign(secret, int(time.time()), body),
            "Connection": "close",
        }
        end = threading.Timer(2 * RESPONSE_TIMEOUT_S, connection.abort)  # the other limit is on each wait, and there may be many
        end.daemon = True
        end.start()
        try:
            connection.request("POST", receiver.path, body, headers)
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


class Target(NamedTuple):
    """An address to post to, taken apart."""

    secure: bool
    host: str
    port: int
    path: str  # with the query

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"


def parse_target(url: str) -> Target:
    """Return the parts of an address, or raise `Invalid`.

    >>> parse_target("https://example.org/hook?a=1")
    Target(secure=True, host='example.org', port=443, path='/hook?a=1')
    """
    if not url.isascii() or any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise Invalid("the address of a webhook has to be ASCII without spaces: encode other characters")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise Invalid(f"the address {quote(url)} cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Invalid(f"the address of a webhook has to begin with https:// (or http://) and a host, not {quote(url)}")
    if parts.username is not None or parts.password is not None:
        raise Invalid("the address of a webhook must not hold a name or a password: deliveries are signed instead")
    secure = parts.scheme == "https"
    if port == 0:
        raise Invalid("a webhook cannot be posted to port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(secure, host, port or (443 if secure else 80), path)


def is_public(address: Address) -> bool:
    """Return whether an address is one of the public internet, also where one is wrapped in another.

    >>> [is_public(ipaddress.ip_address(one)) for one in ("93.184.216.34", "127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1")]
    [True, False, False, False]
    """
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or _extract_ipv4(address)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _extract_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the address that a translator (NAT64) would make of it; low addresses hold one, too."""
    whole = int(address)
    if whole >> 32 in (0x64FF9B << 64, 0):
        return ipaddress.IPv4Address(whole & 0xFFFFFFFF)
    return None


def check(url: str, *, allow_private: bool) -> Target:
    """Return the parts of an address that may be posted to, as far as can be checked without the network.

    - `url`: the address.
    - `allow_private`: whether private ones are allowed.
    """
    receiver = parse_target(url)
    if not allow_private:
        try:  # numbers in any notation, such as 2130706433 or 0x7f.1
            numeric = socket.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except (OSError, UnicodeError):
            numeric = []
        for *_, where in numeric:
            _refuse(str(where[0]))
        if receiver.host.rstrip(".").lower() in ("localhost", "localhost.localdomain") or receiver.host.endswith(".localhost"):
            _refuse("127.0.0.1")
    return receiver


def resolve(receiver: Target, *, allow_private: bool) -> str:
    """Return the address to connect to, after every address of the host was checked.

    - `receiver`: of a delivery.
    - `allow_private`: whether private addresses are allowed.
    """
    rows = socket.getaddrinfo(receiver.host, receiver.port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]) for *_, where in rows]
    if not allow_private:
        for each in addresses:
            _refuse(each)
    return addresses[0]


def _refuse(text: str) -> None:
    if "%" in text or not is_public(ipaddress.ip_address(text)):
        raise Invalid("the address of a webhook is private: only public ones are posted to, unless the server allows others")


def make_messages(
    campaign: str, number: int, hooks: Iterable[WebhookRow], decision: Decision, body: bytes, time: int
) -> list[OutboxRow]:
    """Return what is to be posted of a decision, in the same transaction as the decision.

    - `campaign`, `number`: its name and number.
    - `hooks`: the webhooks of the campaign, as the store has them.
    - `decision`, `body`: what was decided, and that as JSON.
    - `time`: now, in microseconds since 1970.
    """
    rows = []
    for hook in hooks:
        wanted = hook.settings.get("statuses")
        if wanted is not None and decision.status not in wanted:
            continue
        name = f"{number}/{hook.number}/{decision.position}/{decision.task}".encode()
        key = hashlib.blake2b(name, digest_size=16).hexdigest()
        whole = b'{"delivery":"%b","campaign":%b,"decision":%b}' % (key.encode(), _encode(campaign), body)
        rows.append(OutboxRow(hook.number, number, decision.position, key, whole, time))
    return rows


class Outbox:
    """Makes the messages of decisions, which are written in the same transaction.

    - `count`: is given the status of every decision.
    - `now`: returns the time, in microseconds since 1970.
    """

    def __init__(self, count: Callable[[str, str], None], now: Callable[[], int]) -> None:
        self._count, self._now = count, now
        self._hooks: dict[int, list[WebhookRow]] = {}

    def load(self, hooks: Iterable[WebhookRow], campaign: int | None = None) -> None:
        """Take over the webhooks that the store has.

        - `hooks`: of all campaigns, or of one.
        - `campaign`: its number.
        """
        if campaign is None:
            self._hooks.clear()
        else:
            self._hooks.pop(campaign, None)
        for hook in hooks:
            self._hooks.setdefault(hook.campaign, []).append(hook)

    def __len__(self) -> int:
        return sum(map(len, self._hooks.values()))

    def __call__(self, campaign: LiveCampaign, decision: Decision, body: bytes) -> list[OutboxRow]:
        """Return what is to be posted of a decision, which is about to be written.

        - `campaign`: whose decision it is.
        - `decision`, `body`: what was decided, and that as JSON.
        """
        self._count(campaign.name, decision.status)
        hooks = self._hooks.get(campaign.number)
        return make_messages(campaign.name, campaign.number, hooks, decision, body, self._now()) if hooks else []
