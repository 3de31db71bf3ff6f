"""What one transaction writes: filled in one thread, then handed to the writer as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from quorate.store.events import Event
from quorate.store.ids import Generation


class DecisionRow(NamedTuple):
    """A decision as it was taken: the position of the event that made it so, the task, and its JSON."""

    position: int
    task: str
    body: bytes


class OutboxRow(NamedTuple):
    """A message to a webhook, to be sent once the batch is stored."""

    webhook: int  # its number
    campaign: int
    position: int  # of the event that it tells of
    key: str  # names the delivery, so that the receiver recognises a repeated one
    body: bytes
    due: int  # the time of the first attempt, in microseconds since 1970


class ArchiveRow(NamedTuple):
    """The record of a task that left memory."""

    campaign: int
    position: int  # of the event that sent it away
    task: str
    record: bytes
    touched: int | None = 0  # the time at which the task was last touched; 0: the record alone knows; None: it has no votes


@dataclass(slots=True)
class Page:
    """Events that follow each other in the log of a campaign; event i of them has the position `first + i`."""

    first: int
    events: list[Event]


@dataclass(slots=True)
class Batch:
    """What one transaction writes. Its length is the number of events; it is true where it holds anything at all.

    >>> from quorate.store.events import Vote
    >>> batch = Batch()
    >>> batch.append(1, 7, Vote(time=0, task="t", worker=0, label=1))
    >>> len(batch), batch.pages[1].first
    (1, 7)
    """

    pages: dict[int, Page] = field(default_factory=dict)  # by the number of the campaign
    decisions: dict[int, list[DecisionRow]] = field(default_factory=dict)  # the same; in the order of their positions
    workers: list[tuple[int, int, str]] = field(default_factory=list)  # campaign, number, name: new ones
    erased: list[tuple[int, int]] = field(default_factory=list)  # campaign, number: the name is forgotten
    archived: list[ArchiveRow] = field(default_factory=list)
    ids: list[Generation] = field(default_factory=list)  # of clients' ids, once one is full: see `IdIndex.remember`
    outbox: list[OutboxRow] = field(default_factory=list)

    def append(self, campaign: int, position: int, event: Event) -> None:
        """Add an event to the page of a campaign.

        - `campaign`: its number.
        - `position`: of the event; the first one of a batch says where its page begins, the others follow it.
        - `event`: what happened.
        """
        self.extend(campaign, position, [event])

    def extend(self, campaign: int, position: int, events: list[Event]) -> None:
        """Add events to the page of a campaign.

        - `campaign`: its number.
        - `position`: of the first of them.
        - `events`: what happened, in order.
        """
        page = self.pages.get(campaign)
        if page is None:
            self.pages[campaign] = Page(position, events)
        else:
            page.events += events

    def decide(self, campaign: int, row: DecisionRow) -> None:
        """Add a decision of a campaign, after all others of it.

        - `campaign`: its number.
        - `row`: the decision.
        """
        self.decisions.setdefault(campaign, []).append(row)

    def __len__(self) -> int:
        return sum(len(page.events) for page in self.pages.values())

    def __bool__(self) -> bool:
        return bool(self.pages or self.decisions) or self._has_more()

    def is_page(self) -> bool:
        """Return whether this is events of one campaign, decisions of that campaign, and nothing else."""
        return len(self.pages) == 1 and self.decisions.keys() <= self.pages.keys() and not self._has_more()

    def _has_more(self) -> bool:
        return bool(self.workers or self.erased or self.archived or self.ids or self.outbox)
