"""What the archive keeps of a task that has left memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec

from adjudge.errors import InputError
from adjudge.service.campaigns.tasks import Task

Answer: TypeAlias = tuple[int, bool, int, bool, list[float]]  # label, tie, votes, whether it is gold, probabilities
NO_ANSWER: Final[Answer] = (-1, False, 0, False, [])
# As the stream takes a task back: (worker, label) of its votes, label, units of soft shares, mark of a fit, gold, number.
Evicted: TypeAlias = tuple[list[tuple[str, int]], int, tuple[int, ...] | None, int, int, int]


class Archived(msgspec.Struct, array_like=True, frozen=True):
    """A task that has left memory."""

    task: Task
    answer: Answer  # when it left
    votes: Evicted | None  # None: the stream knew no vote on it
    version: int  # of the policy that held when it left

    @property
    def ballots(self) -> list[tuple[str, int]]:
        """Worker and label of every vote that the stream had."""
        return self.votes[0] if self.votes is not None else []

    def without_votes(self) -> Archived:
        """Return what is left of the record once its votes have expired: what is decided, and how certain that was."""
        task = msgspec.structs.replace(self.task, moved=None, aside=None, expired=True)
        return msgspec.structs.replace(self, task=task, votes=None)

    @property
    def confidence(self) -> float:
        """How likely its label was when it left."""
        label, likely = self.task.standing.label, self.answer[4]
        return likely[label if label >= 0 else self.answer[0]] if likely else 0.0

    def to_bytes(self) -> bytes:
        """Return the record as bytes."""
        return _ENCODER.encode(self)

    @staticmethod
    def from_bytes(record: bytes) -> Archived:
        """Return the record that was written as these bytes."""
        try:
            return _RECORD_DECODER.decode(record)
        except msgspec.MsgspecError as error:
            raise InputError(f"a task in the archive is damaged: {error}") from None


class VotesOf:
    """Looks for the votes of some workers in records, without reading all of each: most have none.

    - `texts`: the workers' ids in the stream.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        self._written = re.compile(b"|".join(re.escape(msgspec.msgpack.encode(text)) for text in sorted(self._texts)))

    def has_some(self, record: bytes) -> bool:
        """Return whether a record has votes of the workers that count."""
        if self._written.search(record) is None:
            return False
        return any(text in self._texts for text, _ in Archived.from_bytes(record).ballots)


_ENCODER: Final = msgspec.msgpack.Encoder()
_RECORD_DECODER: Final = msgspec.msgpack.Decoder(Archived)
