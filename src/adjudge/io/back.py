"""Labels back to where the votes came from: in the tool's own form, or as columns beside the rows of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import polars as pl

from adjudge.data.options import SET_SEPARATOR
from adjudge.data.understood import Understood
from adjudge.errors import InputError, listed, shown, unknown
from adjudge.io.files import is_encoded, is_stream
from adjudge.io.formats.consensus import Consensus
from adjudge.io.formats.content import JSON, TABLES, Content, look, look_records
from adjudge.io.formats.export import expanded
from adjudge.io.formats.registry import AUTO, FORMATS, MODULES, TABLE, Format, recognise
from adjudge.io.join import join, table_at
from adjudge.io.sources import Source, paths_of
from adjudge.io.write import check_files, check_folder, check_suffix, write_aside, write_frame

OWN: Final = tuple(form.name for form in FORMATS.values() if form.back)  # tools with a form of their own
WRITTEN: Final = (*OWN, TABLE)
TEXT: Final = ("", ".csv", ".tsv")  # files that hold no lists
ARRAY: Final = ".json"  # a file that is one JSON array; others have an object per line


@dataclass(frozen=True, eq=False)
class Target:
    """Where labels are written, and in which form."""

    path: Path
    form: str  # one of WRITTEN
    contents: Sequence[Content]  # that the votes came from
    where: str  # these, in messages


def target_of(source: Source, path: str | os.PathLike[str], form: str = AUTO, read_as: str = AUTO) -> Target:
    """Return where and how labels go back, before any long work; what cannot be written is an error that lists what can.

    `form` is one of `WRITTEN`, or "auto". `read_as` is the format that the votes are read as, as `adjudge.read` takes it.
    """
    if form != AUTO and form not in WRITTEN:
        raise unknown("form of labels", form, (AUTO, *WRITTEN))
    place, contents = Path(path), _contents(source)
    where = contents[0].name if len(contents) == 1 else f"{contents[0].name} and {len(contents) - 1} more"
    chosen = _chosen(recognise(contents, read_as), contents, form, where)
    check_folder(place)
    _check_suffix(place, chosen, contents)
    check_files({"the output": place}, {"the votes": source})
    return Target(place, chosen, contents, where)


def write_back(consensus: Consensus, source: Source, path: str | os.PathLike[str], form: str = AUTO) -> None:
    """Write labels into a copy of the file that the votes came from; see `Result.write`."""
    target = target_of(source, path, form, read_as(consensus.understood))
    if target.form == TABLE:
        joined: Any = join(consensus.labels, table_at(source), consensus.understood, where=target.where)
        write_frame(_without_lists(joined, target.path), target.path)
        return
    rows = import_module(MODULES + FORMATS[target.form].back).rows(target.contents, consensus, target.where)
    if isinstance(rows, pl.DataFrame):
        write_frame(rows, target.path)
    else:
        write_aside(target.path, lambda aside: aside.write_bytes(encoded(rows, target.path)))


def _contents(source: Source) -> list[Content]:
    """Return the files that votes came from, or the records of an export in memory."""
    if isinstance(source, list) and source and all(isinstance(one, dict) for one in source):
        return [look_records(source, "the records")]
    paths = paths_of(source)
    if paths is None:
        named = [source] if isinstance(source, str | os.PathLike) else source if isinstance(source, list | tuple) else []
        if named and all(isinstance(one, str | os.PathLike) for one in named):
            raise InputError(f"labels go back to a file that is read again, and {named[0]} can be read only once: name a file")
        raise InputError(
            f"labels cannot be written back to {shown(source)}: name the file that the votes came from; result.join(frame) puts "
            "labels beside the rows of a frame"
        )
    for path in paths:
        if is_encoded(path):
            raise InputError(f"{path} has encoded votes, which labels cannot go back to: name the file that was encoded")
    return [expanded(look(path, str(path))) for path in paths]


def _chosen(found: Format | None, contents: Sequence[Content], form: str, where: str) -> str:
    """Return the form that labels are written in."""
    own = "" if found is None or not found.back else found.name
    what = "an ordinary table" if found is None else f"an export of {found.name}"
    if form == AUTO:
        if own or found is None or all(content.kind in TABLES for content in contents):
            return own or TABLE
        raise InputError(
            f"{where} is {what}, which has no form for labels: they can go back to exports of {listed(OWN)}, and to tables; "
            "labels alone can be written anywhere"
        )
    if form not in (own, TABLE):
        raise InputError(f"{where} is {what}: its labels cannot be written as {form}, only as {own or TABLE}")
    return form


def _check_suffix(path: Path, form: str, contents: Sequence[Content]) -> None:
    """Raise where the suffix names a file that this form is not written to; a pipe or device needs none."""
    if form == TABLE:
        check_suffix(path)
        return
    module = import_module(MODULES + FORMATS[form].back)
    accepted = module.SUFFIXES if all(content.kind in JSON for content in contents) else module.TABLE_SUFFIXES
    if path.suffix.lower() not in accepted and not (is_stream(path) and not path.suffix):
        raise InputError(f"cannot write {path}: labels for {form} are written to files that end in {listed(accepted)}")


def read_as(understood: Understood | None) -> str:
    """Return the format that votes were read as, as options name it."""
    if understood is None:
        return AUTO
    return understood.format if understood.format in FORMATS else TABLE if TABLE in understood.format else AUTO


def _without_lists(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Return a frame as its file can hold it: text files have no lists, so sets are joined."""
    if path.suffix.lower() not in TEXT:
        return frame
    sets = [name for name, kind in frame.schema.items() if kind == pl.List(pl.String)]
    return frame.with_columns(pl.col(name).list.join(SET_SEPARATOR) for name in sets)


def encoded(rows: Sequence[Any], path: Path) -> bytes:
    """Return records as the JSON that the suffix of a file names: an array, or a line each."""
    import msgspec

    if path.suffix.lower() in ("", ARRAY):
        return msgspec.json.encode(rows)
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
