"""Webhooks as rows: targets, pending messages, and messages that could not be delivered."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from adjudge.service.store.batch import OutboxRow
from adjudge.service.store.rows import Link, add_rows, read_rows, update_rows

if TYPE_CHECKING:
    from adjudge.service.store.store import Store


class WebhookRow(NamedTuple):
    """A target of a campaign's messages."""

    number: int
    campaign: int
    url: str
    secret: str  # signs messages, so a hash of it would not do
    settings: Mapping[str, Any]  # which messages it wants, …
    created: int  # microseconds since 1970
    removed: int | None  # likewise; its messages are gone


class Delivery(NamedTuple):
    """A message in the outbox."""

    number: int
    webhook: int
    campaign: int
    position: int
    key: str
    body: bytes
    due: int  # the time of the next attempt, in microseconds since 1970
    attempts: int
    error: str | None  # of the last attempt
    dead: int | None  # the time at which delivery was given up


class Failure(NamedTuple):
    """A failed attempt: `due` is the time of the next one, or None if delivery is given up."""

    number: int
    error: str
    due: int | None
    time: int


class Webhooks:
    """The webhooks of a store: methods that change them run in the writer's thread, the others in any.

    Times are in microseconds since 1970.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def targets(self, campaign: int | None = None) -> list[WebhookRow]:
        """Return the current targets of a campaign, or of all campaigns, by number."""
        with self._store.reading() as link:
            current = "WHERE removed IS NULL AND campaign = coalesce(?, campaign) ORDER BY number"
            rows = read_rows(link, "webhook", current, campaign)
        return [WebhookRow._make((*row[:4], json.loads(row[4]), *row[5:])) for row in rows]

    def add(self, campaign: int, url: str, secret: str, settings: Mapping[str, Any], created: int) -> int:
        """Add a target, and return its number; see `WebhookRow` for the fields."""
        with self._store.writing() as link:
            return add_rows(link, "webhook", [(campaign, url, secret, json.dumps(dict(settings)), created, None)])[0]

    def remove(self, number: int, time: int) -> bool:
        """Remove a target and all its messages, and forget its secret; return whether it existed."""
        with self._store.writing() as link:
            current = "WHERE number = ? AND removed IS NULL"
            removed = update_rows(link, "webhook", lambda hook: hook.update(removed=time, secret=""), current, number)
            link.run("DELETE FROM outbox WHERE webhook = ?", number)
            return bool(removed)

    def due(self, time: int, limit: int = 100, *, campaigns: Collection[int] | None = None) -> list[Delivery]:
        """Return up to `limit` messages whose next attempt is due, longest due first, of all or of some campaigns."""
        among = "" if campaigns is None else f"AND campaign IN ({', '.join('?' * len(campaigns)) or 'NULL'}) "
        where = f"dead IS NULL AND due <= ? {among}ORDER BY due, number LIMIT ?"
        return self._messages(where, time, *(campaigns or ()), limit)

    def dead(self, campaign: int, *, after: int = 0, limit: int = 100) -> list[Delivery]:
        """Return up to `limit` undeliverable messages of a campaign, by number, after that number."""
        where = "dead IS NOT NULL AND campaign = ? AND number > ? ORDER BY number LIMIT ?"
        return self._messages(where, campaign, after, limit)

    def _messages(self, where: str, *values: object) -> list[Delivery]:
        with self._store.reading() as link:
            return [Delivery._make(row) for row in read_rows(link, "outbox", f"WHERE {where}", *values)]

    def settle(self, delivered: Iterable[int] = (), failed: Iterable[Failure] = ()) -> None:
        """Record the outcome of attempts in one transaction: remove delivered messages, reschedule or give up the others."""
        with self._store.writing() as link:
            for number in delivered:
                link.run("DELETE FROM outbox WHERE number = ?", number)
            for failure in failed:
                update_rows(link, "outbox", partial(_record, failure), "WHERE number = ?", failure.number)

    def hasten(self, campaign: int, time: int) -> None:
        """Make every message of a campaign due no later than `time`: a clock that was ahead dated it."""
        with self._store.writing() as link:
            later = "WHERE dead IS NULL AND campaign = ? AND due > ?"
            update_rows(link, "outbox", lambda message: message.update(due=time), later, campaign, time)

    def redeliver(self, campaign: int, number: int, time: int) -> bool:
        """Schedule an undeliverable message of a campaign for `time`; return whether it existed."""
        fresh, dead = {"dead": None, "attempts": 0, "due": time}, "WHERE number = ? AND campaign = ? AND dead IS NOT NULL"
        with self._store.writing() as link:
            return bool(update_rows(link, "outbox", lambda message: message.update(fresh), dead, number, campaign))


def put_messages(link: Link, messages: list[OutboxRow]) -> None:
    """Put messages into the outbox, in the transaction of the decisions that they report."""
    add_rows(link, "outbox", [(*message, 0, None, None) for message in messages])


def _record(failure: Failure, message: dict[str, Any]) -> None:
    """Record a failed attempt in the row of its message."""
    message["attempts"] += 1
    message["error"], message["dead"] = failure.error, failure.time if failure.due is None else None
    message["due"] = message["due"] if failure.due is None else failure.due
