"""The content of one transaction: filled in one thread, then handed to the writer as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from adjudge.service.store.events import Event
from adjudge.service.store.ids import Generation


class DecisionRow(NamedTuple):
    """A decision as it was made: the position of the event that caused it, the task, and the decision as JSON."""

    position: int
    task: str
    body: bytes


class OutboxRow(NamedTuple):
    """A message to a webhook, to be sent once the batch is committed."""

    webhook: int  # its number
    campaign: int
    position: int  # of the event that it reports
    key: str  # identifies the delivery, so that the receiver recognises a repeated one
    body: bytes
    due: int  # the time of the first attempt, in microseconds since 1970


class ArchiveRow(NamedTuple):
    """The record of a task that left memory."""

    campaign: int
    position: int  # of the event that sent it away
    task: str
    record: bytes
    touched: int | None = 0  # the time of the task's last event; 0: only the record has it; None: the record has no votes


class AnnotationRow(NamedTuple):
    """The current content of a Label Studio annotation."""

    campaign: int
    annotation: str  # its id in Label Studio
    task: str  # empty if the annotation was deleted before anything else was known of it
    worker: int  # number; 0 if the annotation has no label and its worker no number, and once it is deleted
    label: int | None  # code; None if it is not a vote: skipped, without a choice, or with an unknown one
    truth: bool  # it is the ground truth of its task, and not a vote
    deleted: bool  # for good: Label Studio never reuses an id
    updated: int  # microseconds since 1970 by Label Studio's clock; older versions are ignored
    seen: int  # the same by our clock, when this row was written


class AnnotatedTaskRow(NamedTuple):
    """The content of a Label Studio task apart from its annotations."""

    campaign: int
    task: str
    gold: int | None  # the label that Label Studio made gold, and may withdraw
    claimed: int  # when an annotation last became the ground truth, by Label Studio's clock: earlier ones no longer are
    deleted: bool
    seen: int


class ItemRow(NamedTuple):
    """What people look at to decide a task."""

    campaign: int
    task: str
    data: bytes  # JSON
    seen: int  # microseconds since 1970


@dataclass(slots=True)
class EventPage:
    """Consecutive events in the log of a campaign; event i has the position `first + i`."""

    first: int
    events: list[Event]


@dataclass(slots=True)
class Batch:
    """The content of one transaction. Its length is the number of events; it is true if it holds anything at all.

    >>> from adjudge.service.store.events import Vote
    >>> batch = Batch()
    >>> batch.extend(1, 7, [Vote(time=0, task="t", worker=0, label=1)])
    >>> len(batch), batch.pages[1].first
    (1, 7)
    """

    pages: dict[int, EventPage] = field(default_factory=dict)  # by the number of the campaign
    decisions: dict[int, list[DecisionRow]] = field(default_factory=dict)  # likewise, in the order of their positions
    workers: list[tuple[int, int, str]] = field(default_factory=list)  # campaign, number, name: new ones
    erased: list[tuple[int, int]] = field(default_factory=list)  # campaign, number: the name is forgotten
    archived: list[ArchiveRow] = field(default_factory=list)
    ids: list[Generation] = field(default_factory=list)  # of clients' ids, once one is full: see `IdIndex.remember`
    outbox: list[OutboxRow] = field(default_factory=list)
    annotations: list[AnnotationRow] = field(default_factory=list)  # new or changed, each id once
    annotated_tasks: list[AnnotatedTaskRow] = field(default_factory=list)  # new or changed, each task once
    items: list[ItemRow] = field(default_factory=list)

    def extend(self, campaign: int, position: int, events: list[Event]) -> None:
        """Add consecutive events to the page of a campaign, the first of them at `position`."""
        page = self.pages.get(campaign)
        if page is None:
            self.pages[campaign] = EventPage(position, events)
        else:
            page.events += events

    def decide(self, campaign: int, rows: list[DecisionRow]) -> None:
        """Add decisions of a campaign, none of them earlier than those added before."""
        self.decisions.setdefault(campaign, []).extend(rows)

    def __len__(self) -> int:
        return sum(len(page.events) for page in self.pages.values())

    def __bool__(self) -> bool:
        return bool(self.pages or self.decisions) or self._has_more()

    def is_page(self) -> bool:
        """Return whether the batch holds only events and decisions of a single campaign."""
        return len(self.pages) == 1 and self.decisions.keys() <= self.pages.keys() and not self._has_more()

    def _has_more(self) -> bool:
        some = self.workers, self.erased, self.archived, self.ids, self.outbox, self.annotations, self.annotated_tasks
        return any(some) or bool(self.items)

    def campaigns(self) -> set[int]:
        """Return the numbers of the campaigns that this process must own to write the batch."""
        annotated = {row.campaign for row in self.annotations} | {row.campaign for row in self.annotated_tasks}
        return annotated | {row.campaign for row in self.items} | self.pages.keys()
