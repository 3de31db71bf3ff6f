"""peerannot's `answers.json`: {task: {worker: label}}."""

from __future__ import annotations

from typing import Final

from adjudge.errors import InputError, listed
from adjudge.io.columns import is_usual
from adjudge.io.formats.content import Content, decode
from adjudge.io.formats.extract import Ask, Ballots, Extract

NAME: Final = "peerannot"


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per answer."""
    answers: dict[str, dict[str, int | float | str | list[int | str] | None]] = decode(
        content.data, dict[str, dict[str, int | float | str | list[int | str] | None]], content.name
    )
    columns = [name for name in answers if any(is_usual(name, role) for role in ("task", "worker", "label"))]
    if columns and ask.format != NAME:
        raise InputError(
            f"{content.name} looks like a table by columns ({listed(columns)}), as to_json of pandas writes it: write it with "
            f"orient='records'; where these are tasks: format={NAME!r} (--format)"
        )
    ballots = Ballots(ask, content.name)
    for task, given in answers.items():
        for worker, label in given.items():
            ballots.vote(task, worker, None if label is None else label if isinstance(label, list) else [label])
    return ballots.extract(NAME, {"task": "the keys", "worker": "the keys inside", "label": "the values"})
