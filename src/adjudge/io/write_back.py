"""Write labels back to where the votes came from, or tasks to be labelled again, in the form of their file.

Labels go into the tool's own form, or into columns added to the rows of a table. Tasks to be labelled again are written with
what a tool needs to show them, without the votes that they have: a tool imports the file as new tasks, and the caller joins
the votes of its next export with the earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import polars as pl

from adjudge.data.options import SET_SEPARATOR
from adjudge.data.votes import Understood
from adjudge.errors import InputError, OptionError, choice_error, itemize, quote
from adjudge.io import frames
from adjudge.io.columns import REMAINING_COLUMNS, find
from adjudge.io.files import is_encoded, is_stream
from adjudge.io.formats import registry
from adjudge.io.formats.export import MAX_TASK_EXAMPLES, Consensus
from adjudge.io.formats.registry import AUTO, FORMATS, TABLE, Content, look
from adjudge.io.frames import Frame, text_column
from adjudge.io.sources import Opened, Source, read_frame
from adjudge.io.write import check_files, check_folder, check_suffix, write_aside, write_frame

DEFAULT_PREFIX: Final = "consensus"
# Columns of labels that are added, and what follows the prefix in the name of each.
JOINED_SUFFIXES: Final = {"label": "", "confidence": "_confidence", "votes": "_votes", "tie": "_tie"}
HEADERLESS: Final = "without header"  # as reading calls such a table
SCRIPT: Final = "fast-dawid-skene"  # the format whose files have none
WIDE: Final = "wide"  # in what reading calls a table of one line per task
FRAME: Final = "the frame"
WRITABLE_EXPORTS: Final = tuple(form.name for form in FORMATS.values() if form.writes_back)  # tools with a form of their own
WRITTEN: Final = (*WRITABLE_EXPORTS, TABLE)
TEXT_SUFFIXES: Final = ("", ".csv", ".tsv", ".xlsx")  # files that hold no lists


def join(
    labels: pl.DataFrame,
    frame: Any,
    understood: Understood | None = None,
    *,
    task: str | None = None,
    prefix: str = DEFAULT_PREFIX,
    where: str = FRAME,
) -> Frame:
    """Return a frame of any kind, or the table of a file, with the label of each row's task added; see `Result.join`.

    `where` is the file that the frame was read from, in messages.

    >>> labels = pl.DataFrame({"task": [7, 8], "label": ["cat", "dog"], "confidence": [0.9, 0.8], "votes": [3, 2], "tie": False})
    >>> join(labels, pl.DataFrame({"item": ["8", "9"]}), task="item").rows()
    [('8', 'dog', 0.8, 2, False), ('9', None, None, None, None)]
    """
    if isinstance(frame, str | os.PathLike):
        where = os.fspath(frame)
        frame = _table_at(where)
    elif isinstance(frame, pl.LazyFrame):
        return cast(Frame, join(labels, frame.collect(), understood, task=task, prefix=prefix).lazy())
    elif frames.kind_of(frame) is None:
        raise InputError(f"cannot join with {quote(frame)}: give a frame of pandas, polars or pyarrow, or the path of a table")
    with_index = frames.with_index(frame)
    columns = frames.columns_of(with_index)
    if not isinstance(prefix, str) or not prefix:
        raise OptionError(f"prefix is {quote(prefix)}: give the name of the label's column, like {DEFAULT_PREFIX!r}")
    names = {what: prefix + end for what, end in JOINED_SUFFIXES.items()}
    taken = [name for name in names.values() if name in set(map(str, columns))]
    if taken:
        raise InputError(f"{where} has a column {quote(taken[0])} already: choose another name for the new ones with prefix=…")
    column = _task_column(columns, task, understood, where)
    ids = text_column(frames.select(with_index, {"task": column})["task"], "task")
    known = text_column(labels["task"], "task")
    index = pl.DataFrame({"task": known}).with_row_index("index")
    row = pl.DataFrame({"task": ids}).join(index, on="task", how="left", maintain_order="left")["index"]
    if len(ids) and row.null_count() == len(ids):
        raise InputError(
            f"{where}: no value of the column {quote(column)} is a task of this result (the column has "
            f"{itemize(ids.drop_nulls().head(MAX_TASK_EXAMPLES))}; tasks are {itemize(known.head(MAX_TASK_EXAMPLES))}): "
            "say which column is with task=…"
        )
    return frames.add_columns(frame, pl.DataFrame({name: labels[what].gather(row) for what, name in names.items()}))


def _table_at(source: Source) -> pl.DataFrame:
    """Return all columns of a file, or of several with the same columns; those of text files stay text, as written."""
    contents = [look(path, str(path)) for path in Opened.of(source).paths or ()]
    if contents and all(content.kind == "array" for content in contents):  # of JSON records
        keys = dict.fromkeys(key for content in contents for record in content.records for key in record)
        return pl.concat([content.table(list(keys)) for content in contents], how="vertical_relaxed")
    return read_frame(source, {REMAINING_COLUMNS: None})[0]


def _task_column(columns: Sequence[Any], task: str | None, understood: Understood | None, where: str) -> Any:
    """Return the column of the task: as the caller says, as it was when the votes were read, or by its usual names."""
    by_name = {str(column): column for column in columns}
    if task is None and understood is not None:
        if where != FRAME and (HEADERLESS in understood.format or understood.format == SCRIPT):
            raise InputError(f"{where} has no header, so no column can be named: read it into a frame, and join with that")
        task = understood.columns.get("task")
        task = task if task in by_name else None
    return by_name[find(list(by_name), {"task": None if task is None else str(task)}, where)["task"]]


@dataclass(frozen=True, eq=False)
class LabelTarget:
    """Where labels are written, and in which form."""

    path: Path
    form: str  # one of WRITTEN
    contents: Sequence[Content]  # that the votes came from
    where: str  # these, in messages

    def write(self, rows: Any) -> None:
        """Write records as the JSON that the suffix names, an array or a line each; or a frame."""
        if isinstance(rows, pl.DataFrame):
            write_frame(rows, self.path)
            return
        import msgspec

        is_array = self.path.suffix.lower() in ("", ".json")
        data = msgspec.json.encode(rows) if is_array else b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        write_aside(self.path, lambda aside: aside.write_bytes(data))


def target_of(source: Source, path: str | os.PathLike[str], form: str = AUTO, read_as: str = AUTO) -> LabelTarget:
    """Return where and how labels go back, before any long work; what cannot be written is an error that lists what can.

    `form` is one of `WRITTEN`, or "auto". `read_as` is the format that the votes are read as, as `adjudge.read` takes it.
    """
    if form != AUTO and form not in WRITTEN:
        raise choice_error("form of labels", form, (AUTO, *WRITTEN))
    place, contents = Path(path), _contents(source)
    where = registry.join_names(contents)
    chosen = _choose_form(contents, form, read_as, where)
    check_folder(place)
    module = None if chosen == TABLE else FORMATS[chosen].load()
    if module is None or hasattr(module, "table"):
        check_suffix(place)
    else:
        accepted = module.SUFFIXES if all(content.kind in registry.JSON_KINDS for content in contents) else module.TABLE_SUFFIXES
        if place.suffix.lower() not in accepted and (place.suffix or not is_stream(place)):  # a pipe or device needs none
            raise InputError(f"cannot write {place}: labels for {chosen} are written to files that end in {itemize(accepted)}")
    check_files({"the output": place}, {"the votes": source})
    return LabelTarget(place, chosen, contents, where)


def write_back(consensus: Consensus, source: Source, path: str | os.PathLike[str], form: str = AUTO) -> None:
    """Write labels into a copy of the file that the votes came from; see `Result.write`."""
    target = target_of(source, path, form, read_as(consensus.understood))
    module = None if target.form == TABLE else FORMATS[target.form].load()
    if module is not None and not hasattr(module, "table"):
        target.write(module.rows(target.contents, consensus, target.where))
        return
    if module is None:
        joined: Any = join(consensus.labels, _table_at(source), consensus.understood, where=target.where)
    else:
        joined = join(consensus.labels, module.table(target.contents), task="task", where=target.where)
    if target.path.suffix.lower() in TEXT_SUFFIXES:  # which hold no lists, so sets are joined
        sets = [name for name, kind in joined.schema.items() if kind == pl.List(pl.String)]
        joined = joined.with_columns(pl.col(name).list.join(SET_SEPARATOR) for name in sets)
    target.write(joined)


def write_tasks(
    tasks: Sequence[str],
    source: Source,
    path: str | os.PathLike[str],
    form: str = AUTO,
    understood: Understood | None = None,
    *,
    for_gold: bool = False,
) -> None:
    """Write tasks, given as texts of their ids, to `path` in the form of the file that the votes came from, in this order.

    `form` and `source` are as for `Result.write`; `understood` is what reading made of the source. With `for_gold` a table has
    a column "task" and an empty column "label", and tasks keep their ids even where a tool gives them new ones.
    """
    target = target_of(source, path, form, read_as(understood))
    if target.form != TABLE:
        module = FORMATS[target.form].load()
        has_table = hasattr(module, "table")
        records = module.table(target.contents, votes=False) if has_table else module.without_votes(target.contents)
        if isinstance(records, pl.DataFrame):
            ids = list(map(str, records["task" if has_table else "id"]))
            target.write(records[_positions(tasks, ids, target.where)])
        else:
            ids = [str(module.id_of(record)) for record in records]
            chosen = [records[at] for at in _positions(tasks, ids, target.where)]
            keep_id = getattr(module, "with_original_id", None) if for_gold else None
            target.write(chosen if keep_id is None else [keep_id(record) for record in chosen])
        return
    table = _table_at(source)
    name = _task_column(table.columns, None, understood, target.where)
    rows = table[_positions(tasks, text_column(table[name], "task").to_list(), target.where)]
    if understood is not None and WIDE not in understood.format:  # what a task's first line has in addition to the vote
        of_votes = {column for role, column in understood.columns.items() if role != "task" and column != name}
        rows = rows.drop(column for column in rows.columns if column in of_votes)
    if for_gold:
        others = rows.drop({name, "task", "label"} & set(rows.columns))
        rows = rows.select(task=name).with_columns(label=pl.lit(None, pl.String)).hstack(others)
    target.write(rows)


def _contents(source: Source) -> list[Content]:
    """Return the files that votes came from, or the records of an export in memory."""
    if isinstance(source, list) and source and all(isinstance(one, dict) for one in source):
        return [registry.look_records(source, "the records")]
    opened = Opened.of(source)
    if opened.paths is None:
        if opened.names is not None:
            raise InputError(
                f"labels go back to a file that is read again, and {opened.names[0]} can be read only once: name a file"
            )
        raise InputError(
            f"labels cannot be written back to {quote(source)}: name the file that the votes came from; result.join(frame) puts "
            "labels next to the rows of a frame"
        )
    for path in opened.paths:
        if is_encoded(path):
            raise InputError(f"{path} has encoded votes, which labels cannot go back to: name the file that was encoded")
    return [registry.expand(look(path, str(path))) for path in opened.paths]


def _choose_form(contents: Sequence[Content], form: str, read_as: str, where: str) -> str:
    """Return the form that labels are written in."""
    export = registry.recognise(contents, read_as)
    own = export.name if export is not None and export.writes_back else ""
    what = "an ordinary table" if export is None else f"an export of {export.name}"
    if form == AUTO:
        if own or export is None or all(content.kind in registry.TABLE_KINDS for content in contents):
            return own or TABLE
        raise InputError(
            f"{where} is {what}, which has no form for labels: they can go back to exports of {itemize(WRITABLE_EXPORTS)}, "
            "and to tables; labels alone can be written anywhere"
        )
    if form not in (own, TABLE):
        raise InputError(f"{where} is {what}: its labels cannot be written as {form}, only as {own or TABLE}")
    return form


def read_as(understood: Understood | None) -> str:
    """Return the format that votes were read as, as options name it."""
    if understood is None:
        return AUTO
    return understood.format if understood.format in FORMATS else TABLE if TABLE in understood.format else AUTO


def _positions(tasks: Sequence[str], ids: Sequence[str], where: str) -> list[int]:
    """Return where each task first is among these ids; one that is not there is left out, all of them are an error."""
    first = {id_: at for at, id_ in reversed(list(enumerate(ids)))}
    positions = [first[task] for task in tasks if task in first]
    if tasks and not positions:
        raise InputError(
            f"{where}: none of its tasks ({itemize(ids[:MAX_TASK_EXAMPLES])}) is one to be labelled again "
            f"({itemize(tasks[:MAX_TASK_EXAMPLES])}): name the file that the votes came from"
        )
    return positions
