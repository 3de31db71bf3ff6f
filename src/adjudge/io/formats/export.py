"""An export that was recognised, opened as a table: its votes, its gold or its truth."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from adjudge.errors import InputError, OptionError, listed
from adjudge.io import files
from adjudge.io.columns import OPTIONAL
from adjudge.io.formats import archive
from adjudge.io.formats.content import JSON, TABLES, Content, look
from adjudge.io.formats.extract import ALL, Ask, Extract, merged
from adjudge.io.formats.registry import AUTO, FORMATS, Format, recognise
from adjudge.io.not_votes import of_columns
from adjudge.io.shapes import Wanted

VOTE: Final = frozenset({"task", "worker", "label"})


@dataclass(frozen=True, eq=False)
class Export:
    """What an export gives for some wanted roles: all of it, or the columns of a table that is read in pieces."""

    format: str
    frame: pl.DataFrame | None = None  # the wanted roles; None where `columns` say all
    columns: Wanted | None = None
    extract: Extract | None = None  # of votes


def find_export(contents: Sequence[Content], wanted: Wanted, ask: Ask) -> Export | None:
    """Return what these contents give as an export; None where they are to be read as an ordinary table."""
    roles = {role for role in wanted if role not in OPTIONAL}
    is_named = any(column is not None for column in wanted.values())
    known = None if roles == VOTE else next((role for role in ("gold label", "truth") if roles == {"task", role}), "")
    form = None
    if known is None or (known and not is_named):
        form = recognise(contents, ask.format if known is None else AUTO)
    if form is not None and (known is None or known in form.knows):
        return _votes(form, contents, wanted, ask) if known is None else _known(form, contents, known, ask)
    if form is not None and known and contents[0].kind not in (*TABLES, *JSON):
        what = "whose truth only evaluates (--truth)" if "truth" in form.knows else "that gives no task its right label"
        raise InputError(f"{_name(contents)} is an export of {form.name} {what}: name a file with the labels of tasks")
    if known is None and form is None:
        for option, value in (("question", ask.question), ("predictions", ask.predictions or None)):
            if value is not None:
                raise OptionError(
                    f"{option} is for exports of annotation tools, and this is read as an ordinary table: leave it out, "
                    f"or name the format (known are {listed(FORMATS, 20)})"
                )
    for content in contents:
        _refuse(content)
    return None


def _votes(form: Format, contents: Sequence[Content], wanted: Wanted, ask: Ask) -> Export:
    where, module = _name(contents), form.load()
    if hasattr(module, "columns"):
        if ask.question is not None:
            raise OptionError(f"{where}: {form.name} has one question: leave question out")
        found = module.columns(contents[0])
        return Export(form.name, columns={role: wanted[role] or found[role] for role in wanted})
    if ask.question == ALL:
        raise OptionError("question='all' is for `adjudge aggregate` on the command line: ask for one question at a time")
    named = {role: column for role, column in wanted.items() if column is not None}
    role = next((role for role in named if role not in form.named), None)
    if role is not None:
        raise OptionError(
            f"{role} names a column, and {form.name} has none: leave it out (question=… chooses among questions, "
            "format='table' reads an ordinary table)"
        )
    ask = replace(ask, columns=named)
    extract = merged([module.read(content, ask) for content in contents], where)
    return Export(form.name, extract.votes, extract=extract)


def _known(form: Format, contents: Sequence[Content], role: str, ask: Ask) -> Export | None:
    """Return the gold or the truth of an export, as task and label."""
    where, module = _name(contents), form.load()
    if hasattr(module, "columns"):
        found = module.columns(contents[0])
        return Export(form.name, columns={"task": found["task"], role: found[role]})
    extract = merged([module.read(content, ask) for content in contents], where)
    given = extract.gold if role == "gold label" or extract.truth is None else extract.truth
    if given is None:
        raise InputError(f"{where} is an export of {form.name} that gives no task its right label: name a file that does")
    return Export(form.name, given.rename({"label": role}))


def expanded(content: Content) -> Content:
    """Return the only file of an archive in place of the archive, unless it is an export itself."""
    if content.kind != "zip" or len(content.fields) != 1 or recognise([content]) is not None:
        return content
    assert content.path is not None
    inside = content.fields[0]
    spool = files.Spool(io.BytesIO(archive.member(content.path, inside, content.name)))
    return look(spool.path, f"{content.name}: {inside}", spool)


def _refuse(content: Content) -> None:
    """Raise for what is neither an export nor a table."""
    if content.kind == "zip":
        raise InputError(
            f"{content.name} is an archive of {len(content.fields)} files ({listed(content.fields, 4)}), "
            "which is no known export: unpack it"
        )
    if content.kind == "object":
        raise InputError(
            f"{content.name} is one JSON object with {listed(content.fields, 6) or 'nothing in it'}: an array of objects with "
            f"task, worker and label is expected, JSON lines, or an export of {listed(FORMATS, 20)}{of_columns(content.fields)}"
        )
    if content.kind == "folder" and not files.is_encoded(content.path or Path()):
        raise InputError(
            f"{content.name} is a folder that is no known export: name a file, or a pattern like {content.name}/*.csv"
        )


def _name(contents: Sequence[Content]) -> str:
    return contents[0].name if len(contents) == 1 else f"{contents[0].name} and {len(contents) - 1} more"
