"""What both clients have: their options, checked, and votes in groups."""

from __future__ import annotations

import uuid
from typing import Any, Final, Self, TypeVar

from adjudge import __version__
from adjudge.client.address import Address, token_of
from adjudge.client.calls import Calls, Vote, vote_of
from adjudge.client.request import Request
from adjudge.client.retry import Attempts
from adjudge.data.options import Number, Rules, check
from adjudge.live.decision import Decision
from adjudge.service.types import VoteAnswer, VoteIn

T = TypeVar("T")
LONG: Final[Request[Any]] = Request("", "", bytes)  # stands for an exchange that has no one answer
WINDOWS: Final = Number(1, 10_000, whole=True)  # votes that may be under way
CHUNK: Final = 5000  # votes of one request
MAX_BYTES: Final = 7_000_000  # of one request, at the most that its characters can take
PAGE: Final = 1000  # rows that a list asks for at once
PATIENCE: Final = 60.0  # seconds without a word after which a stream of votes is taken for lost: rates slow it down
RULES: Final[Rules] = {
    "timeout": Number(0.001, 86_400),
    "retries": Number(0, 1_000_000, whole=True),
    "deadline": Number(0, 86_400),
}


class ClientOptions:
    """Options of a client; `Client` explains them."""

    def __init__(self, url: str, *, token: str | None, campaign: str, timeout: float, retries: int, deadline: float) -> None:
        check({"timeout": timeout, "retries": retries, "deadline": deadline}, RULES)
        self._address, known = Address.of(url), token_of(token)
        self._headers = {"User-Agent": f"adjudge/{__version__}"}
        if known is not None:
            self._headers["Authorization"] = f"Bearer {known}"
        self._calls = Calls(campaign)
        self._timeout, self._retries, self._deadline = float(timeout), int(retries), float(deadline)

    @property
    def url(self) -> str:
        """Where the service is."""
        return str(self._address)

    @property
    def campaign(self) -> str:
        """The name of the campaign."""
        return self._calls.campaign

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r}, campaign={self.campaign!r})"

    def _attempts(self, request: Request[T], *, forever: bool = False) -> Attempts[T]:
        if forever:
            return Attempts(request, retries=None, deadline=float("inf"))
        return Attempts(request, retries=self._retries, deadline=self._deadline)

    def _of(self, campaign: str) -> Self:
        """Return the same client for another campaign."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._calls = Calls(campaign)
        return other


def with_id(vote: VoteIn) -> VoteIn:
    """Return a vote that has an id, by which it counts once however often it is sent."""
    return vote if vote.id is not None else VoteIn(vote.task, vote.worker, vote.label, str(uuid.uuid4()))


class Total:
    """What became of votes that were sent in several requests."""

    def __init__(self) -> None:
        self._accepted = self._repeated = 0
        self._decisions: dict[str, Decision] = {}

    def add(self, answer: VoteAnswer) -> None:
        """Add the answer to one request."""
        self._accepted += answer.accepted
        self._repeated += answer.repeated
        self._decisions.update((decision.task, decision) for decision in answer.decisions)

    def answer(self) -> VoteAnswer:
        """Return the answer to all of them: the last decision of every task."""
        return VoteAnswer(self._accepted, self._repeated, list(self._decisions.values()))


class Chunks:
    """Gathers votes into requests.

    - `ids`: whether votes without an id get one.
    """

    def __init__(self, *, ids: bool) -> None:
        self._ids = ids
        self._votes: list[VoteIn] = []
        self._number = self._bytes = 0

    def add(self, given: Vote) -> list[VoteIn] | None:
        """Take a vote; return those of a request that is full."""
        vote = vote_of(given, self._number)
        self._number += 1
        self._bytes += 6 * (len(vote.task) + len(vote.worker) + len(vote.label)) + 200
        self._votes.append(with_id(vote) if self._ids else vote)
        return self.rest() if len(self._votes) == CHUNK or self._bytes > MAX_BYTES else None

    def rest(self) -> list[VoteIn]:
        """Return the votes of the last request."""
        votes, self._votes, self._bytes = self._votes, [], 0
        return votes


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are given, those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
