"""Votes as clients take them, and the requests that many of them travel in."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from adjudge.errors import InputError, quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.client.request import text
from adjudge.service.http import types as t

Vote: TypeAlias = t.VoteIn | Sequence[object] | Mapping[str, object]  # (task, worker, label), with an id or without

MAX_VOTES_PER_REQUEST: Final = 5000  # votes of one request
MAX_REQUEST_BYTES: Final = 7_000_000  # of one request, at the most that its characters can take


def vote_of(source: Vote, number: int | None = None) -> t.VoteIn:
    """Return a vote, given as (task, worker, label) with or without an id, as a dict of these, or as a `VoteIn`.

    - `source`: the vote.
    - `number`: which of several it is, for the error.

    >>> vote_of(("t1", "ann", "spam")), vote_of({"task": 1, "worker": "ann", "label": "spam", "id": "x"}).id
    (VoteIn(task='t1', worker='ann', label='spam', id=None, data=None), 'x')
    """
    if isinstance(source, t.VoteIn):
        return source
    where = "" if number is None else f"vote {number}: "
    if isinstance(source, Mapping):
        unknown = [key for key in source if key not in t.VoteIn.__struct_fields__]
        parts: Sequence[object] = [source.get(name) for name in t.VoteIn.__struct_fields__]
        if unknown:
            raise InputError(f"{where}{quote(source)} has {quote(unknown[0])}: a vote has task, worker, label, id and data")
    elif isinstance(source, Sequence) and not isinstance(source, str | bytes) and len(source) in (3, 4, 5):
        parts = [*source, None, None][:5]
    else:
        raise InputError(f"{where}{quote(source)} is not a vote: give (task, worker, label), or these and an id")
    task, worker, label, own, data = parts
    return t.VoteIn(
        text(f"{where}task", task),
        text(f"{where}worker", worker),
        text(f"{where}label", label),
        None if own is None else text(f"{where}id", own),
        data,
    )


def task_of(source: object) -> object:
    """Return a task as a request carries it: its id, or a dict of `task` and `data`."""
    return dict(source) if isinstance(source, Mapping) else text("task", source)


def with_id(vote: t.VoteIn) -> t.VoteIn:
    """Return a vote that has an id, by which it counts once however often it is sent."""
    return vote if vote.id is not None else msgspec.structs.replace(vote, id=str(uuid.uuid4()))


class Total:
    """What became of votes that were sent in several requests."""

    def __init__(self) -> None:
        self._accepted = self._repeated = 0
        self._decisions: dict[str, Decision] = {}

    def add(self, answer: t.VoteAnswer) -> None:
        """Add the answer to one request."""
        self._accepted += answer.accepted
        self._repeated += answer.repeated
        self._decisions.update((decision.task, decision) for decision in answer.decisions)

    def answer(self) -> t.VoteAnswer:
        """Return the answer to all of them: the last decision of every task."""
        return t.VoteAnswer(self._accepted, self._repeated, list(self._decisions.values()))


class Chunks:
    """Gathers votes into requests.

    - `ids`: whether votes without an id get one.
    """

    def __init__(self, *, ids: bool) -> None:
        self._ids = ids
        self._votes: list[t.VoteIn] = []
        self._number = self._bytes = 0

    def add(self, source: Vote) -> list[t.VoteIn] | None:
        """Take a vote; return those of a request that is full."""
        vote = vote_of(source, self._number)
        self._number += 1
        self._bytes += 6 * (len(vote.task) + len(vote.worker) + len(vote.label)) + 200
        self._bytes += 0 if vote.data is None else len(msgspec.json.encode(vote.data))
        self._votes.append(with_id(vote) if self._ids else vote)
        return self.take() if len(self._votes) == MAX_VOTES_PER_REQUEST or self._bytes > MAX_REQUEST_BYTES else None

    def take(self) -> list[t.VoteIn]:
        """Return the gathered votes, and start over."""
        votes, self._votes, self._bytes = self._votes, [], 0
        return votes
