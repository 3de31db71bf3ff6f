"""Layouts of research code: the Fast Dawid-Skene script, the truth-inference collections, and peerannot."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from adjudge.errors import InputError, itemize
from adjudge.io import files
from adjudge.io.columns import VOTE_ROLES, find, is_usual
from adjudge.io.formats.decoding import decode
from adjudge.io.formats.export import AnswerCollector, Ask, Extract
from adjudge.io.formats.registry import Content, look

CROWD_FILE: Final = "crowd.csv"
GOLD_FILE: Final = "gold.csv"
VOTES_FILES: Final = ("label.csv", "answer.csv")
TRUTH_FILE: Final = "truth.csv"
PEERANNOT: Final = "peerannot"


def read_fast_dawid_skene(content: Content, _: Ask) -> Extract:
    """Return the votes of `crowd.csv` (annotator, question, annotation, without a header).

    `gold.csv` next to it evaluates, as in the script.
    """
    assert content.path is not None
    path, name = content.path, content.name
    if content.kind == "folder":
        path, name = path / CROWD_FILE, f"{name}/{CROWD_FILE}"
    votes = _headerless(path, name, ("worker", "task", "label"))
    other = path.parent / GOLD_FILE
    truth = _headerless(other, str(other), ("task", "label")) if path.name == CROWD_FILE and other.is_file() else None
    columns = {"task": "the second column", "worker": "the first column", "label": "the third column"}
    return Extract(votes.select(VOTE_ROLES), columns, truth=truth)


def is_fast_dawid_skene(content: Content) -> bool:
    """Return whether this is a file or folder of the script, by its name and content."""
    if content.path is None:
        return False
    if content.kind == "folder":
        return content.has(CROWD_FILE, GOLD_FILE) and _is_headerless(look(content.path / CROWD_FILE, CROWD_FILE))
    return Path(content.name).name == CROWD_FILE and _is_headerless(content)


def _is_headerless(content: Content, width: int = 3) -> bool:
    """Return whether the first line of a table is a vote like the others: its values come again, and none is a column's name."""
    rows = content.rows
    if content.kind != "table" or len(rows) < 2 or any(len(row) != width for row in rows):
        return False
    if any(is_usual(name, role) for name in rows[0] for role in VOTE_ROLES):
        return False
    again = [any(row[n] == rows[0][n] for row in rows[1:]) for n in range(width)]
    return again[-1] and any(again[:-1])


def _headerless(path: Path, name: str, roles: tuple[str, ...]) -> pl.DataFrame:
    content = look(path, name)
    try:
        frame = pl.read_csv(content.data, has_header=False, infer_schema=False, separator=content.separator)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"cannot read {name}: {' '.join(str(error).split())[:300]}") from error
    if frame.width != len(roles):
        raise InputError(
            f"{name} has {frame.width} columns: fast-dawid-skene has {len(roles)} ({', '.join(roles)}), without a header"
        )
    return frame.rename(dict(zip(frame.columns, roles, strict=True))).with_columns(pl.all().str.strip_chars())


def read_truth_inference(content: Content, ask: Ask) -> Extract:
    """Return the votes of a folder, from `label.csv` or `answer.csv`, and its truth (`truth.csv`), which only evaluates."""
    assert content.path is not None
    content.require(TRUTH_FILE, form="truth-inference")
    file = next((name for name in VOTES_FILES if content.has(name)), VOTES_FILES[0])
    path, name = content.path / file, f"{content.name}/{file}"
    wanted = {role: ask.columns.get(role) for role in VOTE_ROLES}
    columns = find(look(path, file).fields, wanted, name)
    votes = pl.concat(list(files.batches(path, wanted, name=name)))
    known = files.batches(content.path / TRUTH_FILE, {"task": None, "truth": None}, name=f"{content.name}/{TRUTH_FILE}")
    truth = pl.concat(list(known)).rename({"truth": "label"})
    return Extract(votes, {role: f"{file}:{column}" for role, column in columns.items()}, truth=truth)


def is_truth_inference(content: Content) -> bool:
    """Return whether this is such a folder: by its files and their headers."""
    own = [name for name in VOTES_FILES if content.has(name)]
    if content.kind != "folder" or content.path is None or not content.has(TRUTH_FILE) or len(own) != 1:
        return False
    votes, truth = (look(content.path / name, name).fields for name in (own[0], TRUTH_FILE))
    roles = {role for name in votes for role in VOTE_ROLES if is_usual(name, role)}
    return len(votes) == 3 and len(roles) == 3 and "truth" in truth


def read_peerannot(content: Content, ask: Ask) -> Extract:
    """Return a vote per answer of `answers.json`: {task: {worker: label}}."""
    kind = dict[str, dict[str, int | float | str | list[int | str] | None]]
    answers: dict[str, dict[str, int | float | str | list[int | str] | None]] = decode(content.data, kind, content.name)
    columns = [name for name in answers if any(is_usual(name, role) for role in VOTE_ROLES)]
    if columns and ask.format != PEERANNOT:
        raise InputError(
            f"{content.name} looks like a table by columns ({itemize(columns)}), as to_json of pandas writes it: write it with "
            f"orient='records'; where these are tasks: format={PEERANNOT!r} (--format)"
        )
    ballots = AnswerCollector(ask, content.name)
    for task, given in answers.items():
        for worker, label in given.items():
            ballots.vote(task, worker, None if label is None else label if isinstance(label, list) else [label])
    return ballots.extract({"task": "the keys", "worker": "the keys inside", "label": "the values"})
