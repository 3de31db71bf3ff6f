"""Webhooks, as rows: targets, messages that wait to be sent, and those that could not be."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from adjudge.service.store.batch import OutboxRow
from adjudge.service.store.link import Link, Links
from adjudge.service.store.rows import add_rows, read_rows, update_rows


class WebhookRow(NamedTuple):
    """A target of a campaign's messages."""

    number: int
    campaign: int
    url: str
    secret: str  # signs messages, so that it cannot be kept as a hash
    settings: Mapping[str, Any]  # which messages it wants, …
    created: int  # microseconds since 1970
    removed: int | None  # the same; its messages are gone


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
    dead: int | None  # the time at which it was given up


class Failure(NamedTuple):
    """An attempt that failed: `due` is the time of the next one, or None where the message is given up."""

    number: int
    error: str
    due: int | None
    time: int


class Webhooks:
    """The webhooks of a store: what changes them in the writer's thread, what reads in any.

    - `links`: the store's connections.
    """

    def __init__(self, links: Links) -> None:
        self._links = links

    def targets(self, campaign: int | None = None) -> list[WebhookRow]:
        """Return the targets that were not removed, by number.

        - `campaign`: of this campaign only.
        """
        with self._links.reading() as link:
            which = "WHERE removed IS NULL AND campaign = coalesce(?, campaign) ORDER BY number"
            rows = read_rows(link, "webhook", which, campaign)
        return [WebhookRow._make((*row[:4], json.loads(row[4]), *row[5:])) for row in rows]

    def add(self, campaign: int, url: str, secret: str, settings: Mapping[str, Any], created: int) -> int:
        """Add a target and return its number.

        - `campaign`: the number of its campaign.
        - `url`: where messages go.
        - `secret`: signs them.
        - `settings`: which messages it wants, as JSON has it.
        - `created`: the time, in microseconds since 1970.
        """
        with self._links.writing() as link:
            return add_rows(link, "webhook", [(campaign, url, secret, json.dumps(dict(settings)), created, None)])[0]

    def remove(self, number: int, time: int) -> bool:
        """Remove a target and all its messages, and forget its secret; return whether it was there.

        - `number`: of the target.
        - `time`: in microseconds since 1970.
        """
        with self._links.writing() as link:
            which = "WHERE number = ? AND removed IS NULL"
            there = update_rows(link, "webhook", lambda hook: hook.update(removed=time, secret=""), which, number)
            link.run("DELETE FROM outbox WHERE webhook = ?", number)
            return bool(there)

    def due(self, time: int, limit: int = 100, *, campaigns: Collection[int] | None = None) -> list[Delivery]:
        """Return the messages whose next attempt is due, the longest due first.

        - `time`: now, in microseconds since 1970.
        - `limit`: at most so many.
        - `campaigns`: of these campaigns only, by number; None: of all.
        """
        among = "" if campaigns is None else f"AND campaign IN ({', '.join('?' * len(campaigns)) or 'NULL'}) "
        where = f"dead IS NULL AND due <= ? {among}ORDER BY due, number LIMIT ?"
        return self._messages(where, time, *(campaigns or ()), limit)

    def next_due(self) -> int | None:
        """Return when the next attempt is due, in microseconds since 1970; None where no message waits."""
        with self._links.reading() as link:
            time: int | None = link.rows("SELECT min(due) FROM outbox WHERE dead IS NULL")[0][0]
            return time

    def waiting(self) -> int:
        """Return how many messages wait."""
        with self._links.reading() as link:
            return int(link.rows("SELECT count(*) FROM outbox WHERE dead IS NULL")[0][0])

    def dead(self, campaign: int, *, after: int = 0, limit: int = 100) -> list[Delivery]:
        """Return messages that were given up, by number.

        - `campaign`: its number.
        - `after`: the number before the first that is wanted.
        - `limit`: at most so many.
        """
        where = "dead IS NOT NULL AND campaign = ? AND number > ? ORDER BY number LIMIT ?"
        return self._messages(where, campaign, after, limit)

    def _messages(self, where: str, *values: object) -> list[Delivery]:
        with self._links.reading() as link:
            return [Delivery._make(row) for row in read_rows(link, "outbox", f"WHERE {where}", *values)]

    def settle(self, delivered: Iterable[int] = (), failed: Iterable[Failure] = ()) -> None:
        """Keep what became of attempts, in one transaction.

        - `delivered`: numbers of messages that arrived; they are removed.
        - `failed`: attempts that did not succeed.
        """
        with self._links.writing() as link:
            for number in delivered:
                link.run("DELETE FROM outbox WHERE number = ?", number)
            for failure in failed:
                update_rows(link, "outbox", partial(_fail, failure), "WHERE number = ?", failure.number)

    def hasten(self, campaign: int, time: int) -> None:
        """Let no message wait for longer than until a time: it was dated by a clock that was ahead.

        - `campaign`: its number.
        - `time`: in microseconds since 1970.
        """
        with self._links.writing() as link:
            which = "WHERE dead IS NULL AND campaign = ? AND due > ?"
            update_rows(link, "outbox", lambda message: message.update(due=time), which, campaign, time)

    def redeliver(self, campaign: int, number: int, time: int) -> bool:
        """Try a message again that was given up; return whether it was there.

        - `campaign`: its number: messages of others are not there.
        - `number`: of the message.
        - `time`: of the next attempt, in microseconds since 1970.
        """
        again, which = {"dead": None, "attempts": 0, "due": time}, "WHERE number = ? AND campaign = ? AND dead IS NOT NULL"
        with self._links.writing() as link:
            return bool(update_rows(link, "outbox", lambda message: message.update(again), which, number, campaign))


def put(link: Link, messages: list[OutboxRow]) -> None:
    """Put messages into the outbox, in the transaction of what they tell."""
    add_rows(link, "outbox", [(*message, 0, None, None) for message in messages])


def _fail(failure: Failure, message: dict[str, Any]) -> None:
    """Note a failed attempt in the row of its message."""
    message["attempts"] += 1
    message["error"], message["dead"] = failure.error, failure.time if failure.due is None else None
    message["due"] = message["due"] if failure.due is None else failure.due
