"""Community Notes: the ratings of notes, a row per rating. A table with names of its own, read in pieces like any table."""

from __future__ import annotations

from typing import Final

from adjudge.io.formats.content import Content

RATERS: Final = ("raterParticipantId", "participantId")


def columns(content: Content) -> dict[str, str]:
    """Return the column of every role."""
    rater = next(name for name in RATERS if name in content.fields)
    return {"task": "noteId", "worker": rater, "label": "helpfulnessLevel"}
