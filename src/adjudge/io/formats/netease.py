"""NetEaseCrowd: a row per answer, with the truth beside it. A table with names of its own, read in pieces like any table."""

from __future__ import annotations

from adjudge.io.formats.content import Content


def columns(_: Content) -> dict[str, str]:
    """Return the column of every role."""
    return {"task": "taskId", "worker": "workerId", "label": "answer", "truth": "truth"}
