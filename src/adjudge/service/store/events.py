"""The events of a campaign's log: the only source of its state.

An event says what was asked for, in numbers that do not change: a worker is its number, a label its place in the
campaign's list. The names of both can change, or be erased, without a change of the log. Fields are only ever added, with
a default, so that every log that was written can be read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec


class _LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    """One entry of a log; `time` is in microseconds since 1970, and falls from one entry to the next only at a `ClockSet`."""

    time: int


class Created(_LogEntry, frozen=True, tag="created"):
    """The campaign's first event."""

    labels: list[str]  # ids
    names: list[str]  # what people read
    model: str  # fds, ds, hybrid, auto
    settings: dict[str, Any] = {}  # seed, strength, confidence of the stream
    policy: dict[str, Any] = {}  # version 1
    refit: dict[str, Any] = {}  # when refits run: see service/campaigns/settings.py
    retention: dict[str, Any] = {}  # how long tasks and votes are kept: see service/campaigns/settings.py


class TasksAdded(_LogEntry, frozen=True, tag="tasks"):
    """Tasks that wait for their first votes."""

    tasks: list[str]


class Vote(_LogEntry, frozen=True, tag="vote"):
    """A vote of a worker who has none on the task."""

    task: str
    worker: int
    label: int
    id: str | None = None  # given by the client, to be idempotent


class Change(_LogEntry, frozen=True, tag="change"):
    """Another vote of a worker who had voted on the task: it takes the place of the earlier one."""

    task: str
    worker: int
    label: int
    id: str | None = None


class Retraction(_LogEntry, frozen=True, tag="retraction"):
    """A worker's vote on a task, taken back."""

    task: str
    worker: int


class GoldSet(_LogEntry, frozen=True, tag="gold"):
    """The true label of a task; None takes it back."""

    task: str
    label: int | None


class PolicySet(_LogEntry, frozen=True, tag="policy"):
    """A new version of the policy: versions are numbered 1, 2, 3, … in the order of the log."""

    policy: dict[str, Any]
    by: str | None = None


class Ban(_LogEntry, frozen=True, tag="ban"):
    """The votes of these workers no longer count."""

    workers: list[int]
    by: str | None = None
    reason: str | None = None


class Unban(_LogEntry, frozen=True, tag="unban"):
    """They count again."""

    workers: list[int]
    by: str | None = None


class Revisit(_LogEntry, frozen=True, tag="revisit"):
    """Archived tasks that a ban or an unban concerns: they come back into memory, and the policy looks at them again."""

    tasks: list[str]
    reached: list[int] = []  # workers whose ban or unban has now reached the whole archive


class WorkerSet(_LogEntry, frozen=True, tag="worker"):
    """What is known of a worker beside votes: the group they belong to, whether they are an expert. None: as it was."""

    worker: int
    group: str | None = None
    expert: bool | None = None


class Rename(_LogEntry, frozen=True, tag="rename"):
    """A new name of a label; its id stays."""

    label: int
    name: str


class LabelAdded(_LogEntry, frozen=True, tag="label"):
    """One more label, after all others."""

    id: str
    name: str


class Erase(_LogEntry, frozen=True, tag="erase"):
    """The name of a worker was erased; their votes and what was learned of them stay, under the number."""

    worker: int


class Override(_LogEntry, frozen=True, tag="override"):
    """A person decides a task, whatever the votes say."""

    task: str
    label: int
    by: str | None = None
    reason: str | None = None


class Reopen(_LogEntry, frozen=True, tag="reopen"):
    """A decision is appealed: the task is open again."""

    task: str
    by: str | None = None
    reason: str | None = None


class RefitBegun(_LogEntry, frozen=True, tag="refit-begun"):
    """A refit reads the votes in force here."""


class RefitDone(_LogEntry, frozen=True, tag="refit"):
    """It takes effect here; `read` is the position of its `RefitBegun`."""

    read: int


class Tick(_LogEntry, frozen=True, tag="tick"):
    """The clock made a decision: every hold that was due at this time has ended."""


class Sweep(_LogEntry, frozen=True, tag="sweep"):
    """Tasks leave memory for the archive: of the decided ones and of the others so many, those untouched for longest.

    Of the others, `emptied` stay and lose their votes, which have expired.
    """

    decided: int
    others: int = 0
    emptied: int = 0


class Truncated(_LogEntry, frozen=True, tag="truncated"):
    """Votes have expired: the log up to a position is deleted, and so are the votes of archived tasks untouched since a time."""

    until: int  # the position
    before: int  # the time of the first event that is kept


class SettingsChanged(_LogEntry, frozen=True, tag="settings"):
    """New rules for refits or retention; None: as it was."""

    refit: dict[str, Any] | None = None
    retention: dict[str, Any] | None = None


class BreakerReset(_LogEntry, frozen=True, tag="breaker-reset"):
    """A person has looked: automatic decisions go on."""

    by: str | None = None


class ClockSet(_LogEntry, frozen=True, tag="clock"):
    """An operator has set the log's time, which was ahead, back to that of the clock: the only event whose time may fall."""

    by: str | None = None
    reason: str | None = None


Event: TypeAlias = (
    Created
    | TasksAdded
    | Vote
    | Change
    | Retraction
    | GoldSet
    | PolicySet
    | Ban
    | Unban
    | Revisit
    | WorkerSet
    | Rename
    | LabelAdded
    | Erase
    | Override
    | Reopen
    | RefitBegun
    | RefitDone
    | Tick
    | Sweep
    | Truncated
    | SettingsChanged
    | BreakerReset
    | ClockSet
)
EVENTS: tuple[type[_LogEntry], ...] = Event.__args__

encode = msgspec.json.Encoder().encode  # a list of events -> the body of a page
decode = msgspec.json.Decoder(list[Event]).decode
