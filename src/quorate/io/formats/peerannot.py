"""peerannot's `answers.json`: {task: {worker: label}}."""

from __future__ import annotations

from typing import Final

from quorate.io.formats.content import Content, decode
from quorate.io.formats.extract import Ask, Ballots, Extract

NAME: Final = "peerannot"


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per answer."""
    answers: dict[str, dict[str, int | float | str | list[int | str] | None]] = decode(
        content.data, dict[str, dict[str, int | float | str | list[int | str] | None]], content.name
    )
    ballots = Ballots(ask, content.name)
    for task, given in answers.items():
        for worker, label in given.items():
            ballots.vote(task, worker, None if label is None else label if isinstance(label, list) else [label])
    return ballots.extract(NAME, {"task": "the keys", "worker": "the keys inside", "label": "the values"})
