"""The files of the Fast Dawid-Skene script, without headers: `crowd.csv` (annotator, question, annotation) and `gold.csv`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from adjudge.errors import InputError
from adjudge.io.columns import is_usual
from adjudge.io.formats.content import Content, look
from adjudge.io.formats.extract import Ask, Extract

NAME: Final = "fast-dawid-skene"
VOTES: Final = "crowd.csv"
TRUTH: Final = "gold.csv"


def read(content: Content, _: Ask) -> Extract:
    """Return the votes of `crowd.csv`; `gold.csv` beside it evaluates, as it does in the script."""
    assert content.path is not None
    path, name = content.path, content.name
    if content.kind == "folder":
        path, name = path / VOTES, f"{name}/{VOTES}"
    votes = _table(path, name, ("worker", "task", "label"))
    other = path.parent / TRUTH
    truth = _table(other, str(other), ("task", "label")) if path.name == VOTES and other.is_file() else None
    columns = {"task": "the second column", "worker": "the first column", "label": "the third column"}
    return Extract(votes.select("task", "worker", "label"), NAME, columns, truth=truth)


def is_headerless(content: Content, width: int = 3) -> bool:
    """Return whether the first line of a table is a vote like the others: its values come again, and none is a column's name."""
    rows = content.rows
    if content.kind != "table" or len(rows) < 2 or any(len(row) != width for row in rows):
        return False
    if any(is_usual(name, role) for name in rows[0] for role in ("task", "worker", "label")):
        return False
    again = [any(row[n] == rows[0][n] for row in rows[1:]) for n in range(width)]
    return again[-1] and any(again[:-1])


def is_own(content: Content) -> bool:
    """Return whether this is a file or folder of the script: by its name, and by what is in it."""
    if content.path is None:
        return False
    if content.kind == "folder":
        crowd = content.path / VOTES
        return VOTES in content.fields and TRUTH in content.fields and is_headerless(look(crowd, VOTES))
    return Path(content.name).name == VOTES and is_headerless(content)


def _table(path: Path, name: str, roles: tuple[str, ...]) -> pl.DataFrame:
    content = look(path, name)
    try:
        frame = pl.read_csv(content.data, has_header=False, infer_schema=False, separator=content.separator)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())[:300]}") from error
    if frame.width != len(roles):
        raise InputError(f"{name} has {frame.width} columns: {NAME} has {len(roles)} ({', '.join(roles)}), without a header")
    return frame.rename(dict(zip(frame.columns, roles, strict=True))).with_columns(pl.all().str.strip_chars())
