"""The folders of the truth-inference collections: `label.csv` or `answer.csv` with the votes, `truth.csv` with the truth."""

from __future__ import annotations

from typing import Final

import polars as pl

from adjudge.io import files
from adjudge.io.columns import find, is_usual
from adjudge.io.formats.content import Content, look
from adjudge.io.formats.extract import Ask, Extract

NAME: Final = "truth-inference"
VOTES: Final = ("label.csv", "answer.csv")
TRUTH: Final = "truth.csv"


def read(content: Content, ask: Ask) -> Extract:
    """Return the votes of a folder, and its truth, which only evaluates."""
    assert content.path is not None
    file = _votes_of(content)
    path = content.path / file
    wanted = {role: ask.columns.get(role) for role in ("task", "worker", "label")}
    header = look(path, file).fields
    columns = find(header, wanted, f"{content.name}/{file}")
    votes = pl.concat(list(files.batches(path, wanted, name=f"{content.name}/{file}")))
    truth = pl.concat(list(files.batches(content.path / TRUTH, {"task": None, "truth": None}, name=f"{content.name}/{TRUTH}")))
    return Extract(votes, NAME, {r: f"{file}:{c}" for r, c in columns.items()}, truth=truth.rename({"truth": "label"}))


def is_own(content: Content) -> bool:
    """Return whether this is such a folder: by its files and their headers."""
    if content.kind != "folder" or content.path is None or TRUTH not in content.fields:
        return False
    if len(own := [name for name in VOTES if name in content.fields]) != 1:
        return False
    votes, truth = (look(content.path / name, name).fields for name in (own[0], TRUTH))
    roles = [{role for role in ("task", "worker", "label") if is_usual(name, role)} for name in votes]
    return len(votes) == 3 and set().union(*roles) == {"task", "worker", "label"} and "truth" in truth


def _votes_of(content: Content) -> str:
    content.require(TRUTH, form=NAME)
    return next((name for name in VOTES if name in content.fields), VOTES[0])
