"""The workers of a campaign, by number; the stream has what was learned from their votes."""

from __future__ import annotations

from typing import Final

import msgspec

from adjudge.service.campaigns.decision import Standing
from adjudge.service.campaigns.tasks import SETTLED_STATUSES, Task

RECENT_VOTE_WEIGHT: Final = 1 / 20  # weight of a vote in the recent share of right votes
USUAL_VOTE_WEIGHT: Final = 1 / 200  # and in the usual one


class BanRecord(msgspec.Struct, array_like=True, frozen=True):
    """What a worker was banned for: the figures at the moment of the ban, and who banned them and why."""

    time: int  # in microseconds since 1970
    position: int  # of the ban in the log
    votes: int  # in force then
    accuracy: float | None = None  # None: no vote of theirs had counted
    interval: tuple[float, float] | None = None  # holds it with a chance of .9
    by: str | None = None
    reason: str | None = None


class Worker(msgspec.Struct):
    """One worker; their name is kept elsewhere, so that it can be erased."""

    number: int
    text: str  # the number as the stream's id
    votes: int = 0  # in force, those kept aside among them
    group: str | None = None
    expert: bool = False
    banned: bool = False
    trusted: bool = False  # past probation
    aside: dict[str, int] | None = None  # votes that do not count now: task -> label, of the banned and of those on probation
    judged: int = 0  # of those, on tasks that are decided
    right: int = 0  # of those, for the decided label
    recent: float = 0.0  # running means of how likely their votes were right when they were cast
    usual: float = 0.0
    seen: int = 0  # votes in those means
    ban: BanRecord | None = None  # while they are banned

    def cast(self, likely: float) -> None:
        """Note how likely a new vote is right."""
        self.seen = seen = self.seen + 1
        mean, usual = self.recent, self.usual
        if seen * USUAL_VOTE_WEIGHT >= 1:
            self.recent = mean + (likely - mean) * RECENT_VOTE_WEIGHT
            self.usual = usual + (likely - usual) * USUAL_VOTE_WEIGHT
        else:
            self.recent = mean + (likely - mean) * max(RECENT_VOTE_WEIGHT, 1 / seen)
            self.usual = usual + (likely - usual) * (1 / seen)

    def judge(self, label: int, standing: Standing, number: int) -> None:
        """Count a vote that is kept aside by where its task stands: 1 adds it, -1 takes it away."""
        if standing.status in SETTLED_STATUSES:
            self.judged += number
            self.right += number * (label == standing.label)

    def keep_aside(self, task: Task, label: int) -> None:
        """Keep a vote aside, in place of an earlier one."""
        if self.aside is None:
            self.aside = {}
        if task.name in self.aside:
            self.judge(self.aside[task.name], task.standing, -1)
        else:
            task.aside = task.aside or []
            task.aside.append(self.number)
        self.aside[task.name] = label
        self.judge(label, task.standing, 1)

    def drop_aside(self, task: Task) -> int:
        """Keep a vote aside no longer, and return its label."""
        assert self.aside is not None
        assert task.aside is not None
        label = self.aside.pop(task.name)
        self.judge(label, task.standing, -1)
        task.aside.remove(self.number)
        return label


class Crowd:
    """All workers of a campaign."""

    def __init__(self) -> None:
        self.all: dict[int, Worker] = {}

    def get(self, number: int) -> Worker:
        """Return a worker, new ones included."""
        worker = self.all.get(number)
        if worker is None:
            worker = self.all[number] = Worker(number, str(number))
        return worker
