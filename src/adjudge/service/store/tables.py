"""Tables next to the log: access tokens, webhooks with their outbox, and annotations of Label Studio.

Methods that change rows run in the writer's thread, all others in any thread. Times are in microseconds since 1970. Annotations
are the current content in Label Studio, so that a webhook can be processed without reading the log; their rows are written in
the transaction of the events that they cause, and have numbers instead of worker names, which must be erasable.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow, OutboxRow
from adjudge.service.store.errors import StoreError
from adjudge.service.store.rows import (
    HASHED_COLUMNS,
    Link,
    Row,
    add_rows,
    decode_text,
    encode_text,
    insert_rows,
    open_row,
    read_pages,
    read_rows,
    select_list,
    update_rows,
)

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

K = TypeVar("K")
MAX_KEYS_PER_QUERY: Final = 400  # two values per pair: below the limit of every version of SQLite
ROWS_PER_QUERY: Final = 4096
ANNOTATION_KEYS: Final = {"annotation": "annotation", "annotated_task": "task"}


class TokenRow(NamedTuple):
    """A token. Only a hash of its text is stored."""

    number: int
    hash: bytes
    name: str
    scopes: tuple[str, ...]
    campaign: str | None  # its name; None: all campaigns
    created: int  # microseconds since 1970
    revoked: int | None  # likewise
    labels: tuple[str, ...] | None = None  # ids of the labels that it may decide; None: all


class Tokens:
    """The tokens of a store: `add` and `revoke` run in the writer's thread, `all` in any."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def all(self) -> list[TokenRow]:
        """Return all tokens by number, including revoked ones."""
        with self._store.reading() as link:
            rows = read_rows(link, "token", "ORDER BY number")
        return [_token(row) for row in rows]

    def add(
        self,
        hash: bytes,  # noqa: A002
        name: str,
        scopes: Sequence[str],
        campaign: str | None,
        created: int,
        labels: Sequence[str] | None = None,
    ) -> int:
        """Add a token, and return its number; see `TokenRow` for the fields."""
        with self._store.writing() as link:
            if link.rows("SELECT 1 FROM token WHERE hash = ?", hash):
                raise StoreError("this token exists already: make another")
            limit = None if labels is None else json.dumps(list(labels))
            return add_rows(link, "token", [(hash, name, json.dumps(list(scopes)), campaign, created, None, limit)])[0]

    def revoke(self, number: int, time: int) -> bool:
        """Revoke a token at a time, in microseconds since 1970; return whether it existed and was not revoked yet."""
        valid = "WHERE number = ? AND revoked IS NULL"
        with self._store.writing() as link:
            return bool(update_rows(link, "token", lambda token: token.update(revoked=time), valid, number))


def _token(row: Row) -> TokenRow:
    number, key, name, scopes, campaign, created, revoked, labels = row
    limit = None if labels is None else tuple(json.loads(labels))
    return TokenRow(number, bytes(key), name, tuple(json.loads(scopes)), campaign, created, revoked, limit)


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


class Annotations:
    """The annotations of a store: `remove` runs in the writer's thread, everything else in any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, campaign: int, annotations: Iterable[str]) -> list[AnnotationRow]:
        """Return the rows of known annotations, including deleted ones."""
        return [_annotation(row) for row in self._select("annotation", "annotation", campaign, annotations)]

    def find_tasks(self, campaign: int, tasks: Iterable[str]) -> list[AnnotatedTaskRow]:
        """Return the rows of known tasks."""
        return [_task(row) for row in self._select("annotated_task", "task", campaign, tasks)]

    def find_truths(self, campaign: int, tasks: Iterable[str]) -> list[AnnotationRow]:
        """Return the annotations that are the ground truth of one of these tasks."""
        return [_annotation(row) for row in self._select("annotation", "task", campaign, tasks, "AND truth = 1")]

    def of_tasks(self, campaign: int, tasks: Iterable[str]) -> list[AnnotationRow]:
        """Return all annotations of these tasks."""
        return [_annotation(row) for row in self._select("annotation", "task", campaign, tasks)]

    def of_pairs(self, campaign: int, pairs: Iterable[tuple[str, int]]) -> list[AnnotationRow]:
        """Return all annotations of these pairs of a task and a worker's number."""
        rows: list[Row] = []
        for chunk in _chunks(list(pairs)):
            values = [value for task, worker in chunk for value in (encode_text(task), worker)]
            sql = f"""WITH pair (task, worker) AS (VALUES {", ".join(["(?, ?)"] * len(chunk))})
                SELECT {select_list("annotation", "a")} FROM pair JOIN annotation a
                ON a.campaign = ? AND a.task = pair.task AND a.worker = pair.worker"""
            with self._store.reading() as link:
                rows += link.rows(sql, *values, campaign)
        return [_annotation(open_row("annotation", row)) for row in rows]

    def seen_before(self, campaign: int, time: int) -> Iterator[list[AnnotationRow]]:
        """Yield the annotations that were last written before a time, page by page."""
        return ([_annotation(row) for row in rows] for rows in self._pages("annotation", campaign, time))

    def tasks_seen_before(self, campaign: int, time: int) -> Iterator[list[AnnotatedTaskRow]]:
        """Yield the tasks that were last written before a time, page by page."""
        return ([_task(row) for row in rows] for rows in self._pages("annotated_task", campaign, time))

    def remove(self, campaign: int, annotations: Sequence[str], tasks: Sequence[str]) -> None:
        """Delete rows for good."""
        with self._store.writing() as link:
            _delete(link, "annotation", campaign, annotations)
            _delete(link, "annotated_task", campaign, tasks)
        self._store.overwrite()

    def _select(self, table: str, column: str, campaign: int, keys: Iterable[str], condition: str = "") -> Iterator[Row]:
        for chunk in _chunks([encode_text(key) for key in keys]):
            with self._store.reading() as link:
                where = f"WHERE campaign = ? AND {column} IN ({', '.join('?' * len(chunk))}) {condition}"
                rows = read_rows(link, table, where, campaign, *chunk)
            yield from rows

    def _pages(self, table: str, campaign: int, before: int) -> Iterator[list[Row]]:
        """Yield the rows that were last written before a time, in the order of that time."""
        columns, key = HASHED_COLUMNS[table], ANNOTATION_KEYS[table]
        seen, at = columns.index("seen"), columns.index(key)

        def read(link: Link, *after: object) -> list[Row]:
            where = f"WHERE campaign = ? AND seen < ? AND (seen, {key}) > (?, ?) ORDER BY seen, {key} LIMIT ?"
            return read_rows(link, table, where, campaign, before, *after, ROWS_PER_QUERY)

        return read_pages(self._store, read, (-(1 << 62), b""), lambda row: (row[seen], row[at]), ROWS_PER_QUERY)


def put_annotations(link: Link, annotations: Sequence[AnnotationRow], tasks: Sequence[AnnotatedTaskRow]) -> None:
    """Replace the rows with these keys, within a transaction; each key occurs at most once."""
    for table, rows in (("annotation", annotations), ("annotated_task", tasks)):
        key = HASHED_COLUMNS[table].index(ANNOTATION_KEYS[table])
        for campaign in {row[0] for row in rows}:
            _delete(link, table, campaign, [str(row[key]) for row in rows if row[0] == campaign])
        if rows:
            insert_rows(link, table, [_encode(row) for row in rows])


def _delete(link: Link, table: str, campaign: int, keys: Sequence[str]) -> None:
    for chunk in _chunks([encode_text(key) for key in keys]):
        marks = ", ".join("?" * len(chunk))
        link.run(f"DELETE FROM {table} WHERE campaign = ? AND {ANNOTATION_KEYS[table]} IN ({marks})", campaign, *chunk)


def _encode(row: AnnotationRow | AnnotatedTaskRow) -> list[object]:
    """Return the values of a row as the database stores them."""
    return [encode_text(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value for value in row]


def _annotation(row: Row) -> AnnotationRow:
    campaign, annotation, task, worker, label, truth, deleted, updated, seen = row
    texts = decode_text(annotation), decode_text(task)
    return AnnotationRow(campaign, *texts, worker, label, bool(truth), bool(deleted), updated, seen)


def _task(row: Row) -> AnnotatedTaskRow:
    campaign, task, gold, claimed, deleted, seen = row
    return AnnotatedTaskRow(campaign, decode_text(task), gold, claimed, bool(deleted), seen)


def _chunks(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    return (keys[start : start + MAX_KEYS_PER_QUERY] for start in range(0, len(keys), MAX_KEYS_PER_QUERY))
