"""Annotations of Label Studio: their current content, so that a webhook can be processed without reading the log.

Rows are written in the transaction of the events that they cause. Workers are numbers here, as their names must be erasable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow
from adjudge.service.store.rows import (
    HASHED_COLUMNS,
    Link,
    Row,
    decode_text,
    encode_text,
    insert_rows,
    open_row,
    read_pages,
    read_rows,
    select_list,
)

if TYPE_CHECKING:
    from adjudge.service.store.store import Store

K = TypeVar("K")
MAX_KEYS_PER_QUERY: Final = 400  # two values per pair: below the limit of every version of SQLite
ROWS_PER_QUERY: Final = 4096
ANNOTATION_KEYS: Final = {"annotation": "annotation", "annotated_task": "task"}


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
