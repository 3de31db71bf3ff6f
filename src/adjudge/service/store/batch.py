"""What one transaction writes: filled in one thread, then handed to the writer as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from adjudge.service.store.events import Event
from adjudge.service.store.ids import Generation


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


class AnnotationRow(NamedTuple):
    """What an annotation of Label Studio says now."""

    campaign: int
    annotation: str  # its id in Label Studio
    task: str  # empty if the annotation was deleted before anything else was known of it
    worker: int  # number; 0 if the annotation has no label and its worker no number, and once it is deleted
    label: int | None  # code; None if it is not a vote: skipped, without a choice, or with an unknown one
    truth: bool  # it is the ground truth of its task, and no vote
    deleted: bool  # for good: Label Studio never gives an id twice
    updated: int  # microseconds since 1970 by Label Studio's clock: older versions are ignored
    seen: int  # the same by ours, when this was written


class AnnotatedTaskRow(NamedTuple):
    """What Label Studio has said of a task as a whole."""

    campaign: int
    task: str
    gold: int | None  # the label that Label Studio made gold, and may withdraw
    claimed: int  # when an annotation was last made the ground truth, by Label Studio's clock: earlier ones no longer are
    deleted: bool
    seen: int


@dataclass(slots=True)
class EventPage:
    """Events that follow each other in the log of a campaign; event i of them has the position `first + i`."""

    first: int
    events: list[Event]


@dataclass(slots=True)
class Batch:
    """What one transaction writes. Its length is the number of events; it is true where it holds anything at all.

    >>> from adjudge.service.store.events import Vote
    >>> batch = Batch()
    >>> batch.append(1, 7, Vote(time=0, task="t", worker=0, label=1))
    >>> len(batch), batch.pages[1].first
    (1, 7)
    """

    pages: dict[int, EventPage] = field(default_factory=dict)  # by the number of the campaign
    decisions: dict[int, list[DecisionRow]] = field(default_factory=dict)  # the same; in the order of their positions
    workers: list[tuple[int, int, str]] = field(default_factory=list)  # campaign, number, name: new ones
    erased: list[tuple[int, int]] = field(default_factory=list)  # campaign, number: the name is forgotten
    archived: list[ArchiveRow] = field(default_factory=list)
    ids: list[Generation] = field(default_factory=list)  # of clients' ids, once one is full: see `IdIndex.remember`
    outbox: list[OutboxRow] = field(default_factory=list)
    annotations: list[AnnotationRow] = field(default_factory=list)  # new or changed, each id once
    annotated_tasks: list[AnnotatedTaskRow] = field(default_factory=list)  # new or changed, each task once

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
            self.pages[campaign] = EventPage(position, events)
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
        rows = self.workers, self.erased, self.archived, self.ids, self.outbox, self.annotations, self.annotated_tasks
        return any(rows)

    def campaigns(self) -> set[int]:
        """Return the numbers of the campaigns that only their owner may write this for."""
        annotated = {row.campaign for row in self.annotations} | {row.campaign for row in self.annotated_tasks}
        return annotated | self.pages.keys()
