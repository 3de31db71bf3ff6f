"""Annotations of Label Studio: what each of them says now, so that a webhook finds what it is about without reading the log.

Rows are written in the transaction of the events that they cause. A worker is a number here: names are erased elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow
from adjudge.service.store.link import Link, Links, Row
from adjudge.service.store.rows import HASHED_COLUMNS, insert_rows, open_row, read_rows, select_list

K = TypeVar("K")
KEYS_PER_QUERY: Final = 400  # two values per pair: below the limit of every version of SQLite
ROWS_PER_QUERY: Final = 4096
ANNOTATION_KEYS: Final = {"annotation": "annotation", "annotated_task": "task"}


class Annotations:
    """The annotations of a store: `remove` in the writer's thread, everything else in any thread.

    - `links`: the store's connections.
    """

    def __init__(self, links: Links) -> None:
        self._links = links

    def find(self, campaign: int, annotations: Iterable[str]) -> list[AnnotationRow]:
        """Return the rows of those annotations that are known, deleted ones included."""
        return [_annotation(row) for row in self._among("annotation", "annotation", campaign, annotations)]

    def find_tasks(self, campaign: int, tasks: Iterable[str]) -> list[AnnotatedTaskRow]:
        """Return the rows of those tasks that have one."""
        return [_task(row) for row in self._among("annotated_task", "task", campaign, tasks)]

    def find_truths(self, campaign: int, tasks: Iterable[str]) -> list[AnnotationRow]:
        """Return the annotations that are the ground truth of one of these tasks."""
        return [_annotation(row) for row in self._among("annotation", "task", campaign, tasks, "AND truth = 1")]

    def of_tasks(self, campaign: int, tasks: Iterable[str]) -> list[AnnotationRow]:
        """Return all annotations of these tasks."""
        return [_annotation(row) for row in self._among("annotation", "task", campaign, tasks)]

    def of_pairs(self, campaign: int, pairs: Iterable[tuple[str, int]]) -> list[AnnotationRow]:
        """Return all annotations of these pairs of a task and the number of a worker."""
        rows: list[Row] = []
        for some in _chunks(list(pairs)):
            values = [value for task, worker in some for value in (_bytes(task), worker)]
            sql = f"""WITH pair (task, worker) AS (VALUES {", ".join(["(?, ?)"] * len(some))})
                SELECT {select_list("annotation", "a")} FROM pair JOIN annotation a
                ON a.campaign = ? AND a.task = pair.task AND a.worker = pair.worker"""
            with self._links.reading() as link:
                rows += link.rows(sql, *values, campaign)
        return [_annotation(open_row("annotation", row)) for row in rows]

    def seen_before(self, campaign: int, time: int) -> Iterator[list[AnnotationRow]]:
        """Yield the annotations that were last written before a time, some at once."""
        for rows in self._pages("annotation", campaign, time):
            yield [_annotation(row) for row in rows]

    def tasks_seen_before(self, campaign: int, time: int) -> Iterator[list[AnnotatedTaskRow]]:
        """Yield the tasks that were last written before a time, some at once."""
        for rows in self._pages("annotated_task", campaign, time):
            yield [_task(row) for row in rows]

    def remove(self, campaign: int, annotations: Sequence[str], tasks: Sequence[str]) -> None:
        """Delete rows for good."""
        with self._links.writing() as link:
            _delete(link, "annotation", campaign, annotations)
            _delete(link, "annotated_task", campaign, tasks)
        self._links.overwrite()

    def _among(self, table: str, column: str, campaign: int, keys: Iterable[str], more: str = "") -> Iterator[Row]:
        for some in _chunks([_bytes(key) for key in keys]):
            with self._links.reading() as link:
                which = f"WHERE campaign = ? AND {column} IN ({', '.join('?' * len(some))}) {more}"
                rows = read_rows(link, table, which, campaign, *some)
            yield from rows

    def _pages(self, table: str, campaign: int, before: int) -> Iterator[list[Row]]:
        """Yield the rows that were last written before a time, in the order of that time."""
        columns, key = HASHED_COLUMNS[table], ANNOTATION_KEYS[table]
        seen, at = columns.index("seen"), columns.index(key)
        after: tuple[object, object] = (-(1 << 62), b"")
        while True:
            with self._links.reading() as link:
                which = f"WHERE campaign = ? AND seen < ? AND (seen, {key}) > (?, ?) ORDER BY seen, {key} LIMIT ?"
                rows = read_rows(link, table, which, campaign, before, *after, ROWS_PER_QUERY)
            if rows:
                yield rows
            if len(rows) < ROWS_PER_QUERY:
                return
            after = rows[-1][seen], rows[-1][at]


def put_annotations(link: Link, annotations: Sequence[AnnotationRow], tasks: Sequence[AnnotatedTaskRow]) -> None:
    """Write rows in the place of those with the same keys.

    - `link`: within a transaction.
    - `annotations`, `tasks`: each key at most once.
    """
    for table, rows in (("annotation", annotations), ("annotated_task", tasks)):
        key = HASHED_COLUMNS[table].index(ANNOTATION_KEYS[table])
        for campaign in {row[0] for row in rows}:
            _delete(link, table, campaign, [str(row[key]) for row in rows if row[0] == campaign])
        if rows:
            insert_rows(link, table, [_stored(row) for row in rows])


def _delete(link: Link, table: str, campaign: int, keys: Sequence[str]) -> None:
    for some in _chunks([_bytes(key) for key in keys]):
        marks = ", ".join("?" * len(some))
        link.run(f"DELETE FROM {table} WHERE campaign = ? AND {ANNOTATION_KEYS[table]} IN ({marks})", campaign, *some)


def _stored(row: AnnotationRow | AnnotatedTaskRow) -> list[object]:
    """Return the values of a row as the database keeps them."""
    return [_bytes(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value for value in row]


def _annotation(row: Row) -> AnnotationRow:
    campaign, annotation, task, worker, label, truth, deleted, updated, seen = row
    return AnnotationRow(campaign, _text(annotation), _text(task), worker, label, bool(truth), bool(deleted), updated, seen)


def _task(row: Row) -> AnnotatedTaskRow:
    campaign, task, gold, claimed, deleted, seen = row
    return AnnotatedTaskRow(campaign, _text(task), gold, claimed, bool(deleted), seen)


def _chunks(keys: Sequence[K]) -> Iterator[Sequence[K]]:
    for start in range(0, len(keys), KEYS_PER_QUERY):
        yield keys[start : start + KEYS_PER_QUERY]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return bytes(data).decode("utf-8", "surrogatepass")
