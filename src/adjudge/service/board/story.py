"""The story of a task: everything in the log about it, and every decision, in the order of time."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from adjudge.service.campaigns.decision import Decision, moment
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.loading import Names
from adjudge.service.store import events
from adjudge.service.store.store import Store

MAX_CHAPTERS: Final = 500  # of a story: only the last ones are shown
_decode: Final = msgspec.json.Decoder(Decision).decode
# What an event is called, by its type.
EVENT_NAMES: Final[dict[type, str]] = {
    events.Created: "campaign made",
    events.TasksAdded: "task named",
    events.Vote: "vote",
    events.Change: "vote changed",
    events.Retraction: "vote taken back",
    events.GoldSet: "gold",
    events.PolicySet: "policy",
    events.Ban: "ban",
    events.Unban: "ban lifted",
    events.Revisit: "archived tasks revisited",
    events.WorkerSet: "worker",
    events.Rename: "label renamed",
    events.LabelAdded: "label added",
    events.Erase: "name erased",
    events.Override: "override",
    events.Reopen: "reopened",
    events.AuditAnswer: "audit answered",
    events.RefitBegun: "refit begun",
    events.RefitDone: "refit",
    events.Tick: "clock",
    events.Sweep: "tasks archived",
    events.Truncated: "votes expired",
    events.SettingsChanged: "settings",
    events.BreakerReset: "breaker reset",
    events.ClockSet: "clock set",
}


class Chapter(NamedTuple):
    """One event of a log, or one decision, in words."""

    position: int
    time: datetime
    kind: str
    task: str | None = None
    workers: tuple[str, ...] = ()
    label: str | None = None
    actor: str | None = None
    reason: str | None = None
    decision: Decision | None = None


def tell(position: int, event: events.Event, state: CampaignState, names: Names) -> Chapter:
    """Return an event in words."""
    numbers: list[int] = list(getattr(event, "workers", ()))
    worker = getattr(event, "worker", None)
    if isinstance(worker, int):
        numbers.append(worker)
    code = getattr(event, "label", None)
    label = state.labels[code] if isinstance(code, int) and 0 <= code < len(state.labels) else None
    reason = getattr(event, "reason", None) or getattr(event, "note", None)
    kind = EVENT_NAMES[type(event)]
    if isinstance(event, events.GoldSet) and event.label is None:
        kind = "gold taken back"
    if isinstance(event, events.LabelAdded | events.Rename):
        reason = event.name
    if isinstance(event, events.TasksAdded):
        reason = f"{len(event.tasks)} tasks" if len(event.tasks) > 1 else None
    task: Any = getattr(event, "task", None)
    if isinstance(event, events.TasksAdded) and len(event.tasks) == 1:
        task = event.tasks[0]
    return Chapter(
        position,
        moment(event.time),
        kind,
        task,
        tuple(names.name(number) or f"#{number}" for number in numbers),
        label,
        getattr(event, "by", None),
        reason,
    )


def tell_decision(decision: Decision) -> Chapter:
    """Return a decision in words."""
    return Chapter(
        decision.position,
        decision.time,
        decision.status,
        decision.task,
        (),
        decision.label,
        decision.by,
        decision.reason,
        decision,
    )


def position_at(store: Store, campaign: int, first: int, last: int, time: int) -> int:
    """Return the position of the first event at or after a time, `last + 1` if there is none.

    A log that an operator has set back is not in the order of time there: then the position is one of several.

    - `store`: is read in the thread that calls.
    - `first`, `last`: positions that are kept.
    - `time`: in microseconds since 1970.
    """

    def time_of(position: int) -> int:
        for _, page in store.read(campaign, after=position - 1, until=position, skip_expired=True):
            return page[0].time
        return 0

    return first + bisect_left(range(first, last + 1), time, key=time_of)


class Story(NamedTuple):
    """Everything that happened to a task."""

    chapters: list[Chapter]
    voters: list[int]  # numbers of workers in the order of their votes in force
    has_more: bool  # whether earlier chapters are left out


async def read_story(campaign: Campaign, task: str) -> Story:
    """Return the story of a task; a thread scans the log from the time when the task came in."""
    await campaign.on_disk_now()
    known = campaign.state.find(task)
    store, number, first, last = campaign.campaigns.store, campaign.number, campaign.state.begins, campaign.committed
    opened, touched = (0, 0) if known is None else (known.opened, known.touched)

    def read() -> tuple[list[tuple[int, events.Event]], list[Decision]]:
        after = position_at(store, number, first, last, opened) - 1
        until = min(last, position_at(store, number, first, last, touched + 1) - 1)
        told = list(store.events_of(number, task, after=after, until=until))
        decided = [_decode(row.body) for row in store.decisions(number, after=after, task=task)]
        return told, decided

    told, decided = await campaign.campaigns.in_thread(read)

    def put() -> Story:
        chapters = [tell(position, event, campaign.state, campaign.names) for position, event in told]
        chapters += [tell_decision(decision) for decision in decided]
        chapters.sort(key=lambda chapter: (chapter.position, chapter.decision is not None))
        cast: dict[int, int] = {}
        for position, event in told:
            if isinstance(event, events.Vote | events.Change):
                cast[event.worker] = position
            elif isinstance(event, events.Retraction):
                cast.pop(event.worker, None)
        voters = sorted(cast, key=cast.__getitem__)
        return Story(chapters[-MAX_CHAPTERS:], voters, len(chapters) > MAX_CHAPTERS)

    return await campaign.read(put, 20 * len(told))
