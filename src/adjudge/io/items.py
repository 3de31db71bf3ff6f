"""What was judged in each task: text, prompts and answers, read again from the votes' source when somebody asks for them.

Reading votes never reads items. Formats that hold items give them; of an ordinary table the caller names columns with `show`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import polars as pl

from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io import frames
from adjudge.io.frames import text_column
from adjudge.io.reading import Reading
from adjudge.io.sources import Opened, open_table

if TYPE_CHECKING:
    from adjudge.io.formats.registry import Format

NO_ITEMS: Final = pl.DataFrame(schema={"task": pl.String})
SHOWN: Final = "shown {}"  # the role of a column of the item
READ_ONCE: Final = "show reads the votes' source a second time, and this one can be read only once: name a file, or give a frame"


@dataclass(frozen=True, eq=False)
class ItemSource:
    """Where the items of votes are, and how to read them."""

    source: Any  # paths, or anything in memory that can be read again; None if it was left behind
    reading: Reading
    task: str | None  # the column of the task in a table
    format: str | None  # of an export

    @classmethod
    def of(cls, opened: Opened, reading: Reading, understood: Understood) -> ItemSource | None:
        """Return the items of a source that was read; None if it has none, or nobody has asked for them."""
        from adjudge.io.formats.registry import FORMATS

        form = FORMATS.get(understood.format)
        can_be_read_again = opened.paths is not None or (opened.names is None and not _is_spent(opened.source))
        if form is not None and form.columns is None:
            has_items = can_be_read_again and hasattr(form.load(), "items")
            return cls(opened.source, reading, None, form.name) if has_items else None
        if not reading.show:
            return None
        if not can_be_read_again:
            raise OptionError(READ_ONCE)
        return cls(opened.source, reading, understood.columns.get("task"), None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; what is in memory stays behind, because items are read where the votes were."""
        return vars(self) | {"source": self.source if Opened(self.source).names is not None else None}

    def frame(self, tasks: Collection[str] | None = None) -> pl.DataFrame:
        """Return the items of these tasks, or of all: the task's id as text, and a column of text for each part.

        A task that occurs several times has what its first line says.
        """
        if self.source is None:
            return NO_ITEMS
        wanted = None if tasks is None else set(tasks)
        return self._of_table(wanted) if self.format is None else self._of_export(self.format, wanted)

    def native(self, kind: FrameKind) -> Any:
        """Return all items as the caller's kind of frame."""
        return frames.to_native(self.frame(), kind)

    def _of_export(self, name: str, tasks: set[str] | None) -> pl.DataFrame:
        from adjudge.io.formats.registry import FORMATS

        items: dict[str, Mapping[str, Any]] = {}
        for task, item in self._read(FORMATS[name]):
            if tasks is None or task in tasks:
                items.setdefault(task, item)
        columns = list(dict.fromkeys(column for item in items.values() for column in item))
        if self.reading.show:
            missing = [column for column in self.reading.show if column not in columns]
            if missing and items:
                raise InputError(f"items of {name} have no {quote(missing[0])} to show; they have {itemize(columns)}")
            columns = [column for column in self.reading.show if column in columns]
        texts = {column: [as_item_text(item.get(column)) for item in items.values()] for column in columns}
        schema = {"task": pl.String} | dict.fromkeys(columns, pl.String)
        return pl.DataFrame({"task": list(items), **texts}, schema=cast(Any, schema))

    def _read(self, form: Format) -> Iterator[tuple[str, Mapping[str, Any]]]:
        from adjudge.io.formats import registry
        from adjudge.io.formats.export import read_items

        opened = Opened(self.source)
        if opened.paths is not None:
            yield from read_items(form, opened.contents)
        elif isinstance(self.source, list):
            yield from read_items(form, [registry.look_records(self.source, "the records")])
        else:
            yield from read_items(form, [registry.look_frame(self.source, "the frame")])

    def _of_table(self, tasks: set[str] | None) -> pl.DataFrame:
        names = {SHOWN.format(n): column for n, column in enumerate(self.reading.show)}
        layout = {name: getattr(self.reading, name) for name in ("separator", "encoding", "header")}
        table = open_table(self.source, {"task": self.task, **names}, Reading.of({**layout, "format": "table"}))
        parts = []
        for batch in table.batches:
            part = batch.with_columns(text_column(batch["task"], "task"))
            part = part if tasks is None else part.filter(pl.col("task").is_in(list(tasks)))
            texts = [_as_texts(part[role]).alias(name) for role, name in names.items()]
            parts.append(pl.DataFrame([part["task"], *texts]).unique("task", keep="first", maintain_order=True))
        return pl.concat(parts).unique("task", keep="first", maintain_order=True) if parts else NO_ITEMS


def items_of(votes: Any, tasks: Collection[str]) -> dict[str, dict[str, str]]:
    """Return what was judged in these tasks, given as texts of their ids: text by column; nothing for tasks without an item."""
    source = getattr(votes, "item_source", None)
    if source is None or not tasks:
        return {}
    rows = source.frame(tasks).to_dicts()
    return {row["task"]: {name: text for name, text in row.items() if name != "task" and text} for row in rows}


def with_items(frame: pl.DataFrame, votes: Any) -> pl.DataFrame:
    """Return a frame of tasks with the content of each in further columns, `item NAME` where a name is taken."""
    source = getattr(votes, "item_source", None)
    if source is None or not len(frame):
        return frame
    ids = text_column(frame["task"], "task").to_list()
    items = source.frame(ids)
    found = pl.DataFrame({"task": ids}).join(items, on="task", how="left", maintain_order="left").drop("task")
    return frame.hstack([column.alias(_free(column.name, frame.columns)) for column in found.iter_columns()])


def as_item_text(value: Any) -> str | None:
    """Return a part of an item as text: messages of a conversation line by line, other objects as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(one, dict) and isinstance(one.get("content"), str) for one in value):
        return "\n".join(f"{one['role']}: {one['content']}" if one.get("role") else one["content"] for one in value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _as_texts(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        return values
    if values.dtype.is_nested() or values.dtype == pl.Object:
        return pl.Series([as_item_text(value) for value in values.to_list()], dtype=pl.String)
    return values.cast(pl.String)


def _free(name: str, taken: Collection[str]) -> str:
    return f"item {name}" if name in taken else name


def _is_spent(source: Any) -> bool:
    """Return whether a source in memory can be read only once, as files that are open and iterators are."""
    return hasattr(source, "read") or hasattr(source, "__next__") or hasattr(source, "gi_frame")
