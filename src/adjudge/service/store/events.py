"""The events of a campaign's log: the only source of its state.

An event records a request in numbers that never change: workers by number, labels by their index in the campaign's list. So
names can change, or be erased, without changing the log. Fields are only ever added, with a default, so that every log ever
written stays readable.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec


class _LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event", gc=False):
    """One entry of a log; `time` is in microseconds since 1970, and decreases from one entry to the next only at a `ClockSet`."""

    time: int


class Created(_LogEntry, frozen=True, tag="created"):
    """The campaign's first event."""

    labels: list[str]  # ids
    names: list[str]  # for people
    model: str  # fds, ds, hybrid, auto
    settings: dict[str, Any] = {}  # seed, strength, confidence of the stream
    policy: dict[str, Any] = {}  # version 1
    refit: dict[str, Any] = {}  # see service/campaigns/settings.py
    retention: dict[str, Any] = {}  # likewise


class TasksAdded(_LogEntry, frozen=True, tag="tasks"):
    """Tasks that wait for their first votes."""

    tasks: list[str]


class Vote(_LogEntry, frozen=True, tag="vote"):
    """The first vote of a worker on a task."""

    task: str
    worker: int
    label: int
    id: str | None = None  # chosen by the client, so that it can retry


class Change(_LogEntry, frozen=True, tag="change"):
    """A further vote of a worker on a task, which replaces the earlier one."""

    task: str
    worker: int
    label: int
    id: str | None = None


class Retraction(_LogEntry, frozen=True, tag="retraction"):
    """The withdrawal of a worker's vote on a task."""

    task: str
    worker: int


class GoldSet(_LogEntry, frozen=True, tag="gold"):
    """The true label of a task; None withdraws it."""

    task: str
    label: int | None
    by: str | None = None


class PolicySet(_LogEntry, frozen=True, tag="policy"):
    """A new version of the policy; versions are numbered 1, 2, 3, … in the order of the log."""

    policy: dict[str, Any]
    by: str | None = None
    note: str | None = None


class Ban(_LogEntry, frozen=True, tag="ban"):
    """The votes of these workers no longer count."""

    workers: list[int]
    by: str | None = None
    reason: str | None = None


class Unban(_LogEntry, frozen=True, tag="unban"):
    """The votes of these workers count again."""

    workers: list[int]
    by: str | None = None


class Revisit(_LogEntry, frozen=True, tag="revisit"):
    """Archived tasks that a ban or an unban affects return to memory, and the policy is applied to them again."""

    tasks: list[str]
    reached: list[int] = []  # workers whose ban or unban has now reached the whole archive


class WorkerSet(_LogEntry, frozen=True, tag="worker"):
    """The group of a worker, and whether they are an expert; None leaves a field unchanged."""

    worker: int
    group: str | None = None
    expert: bool | None = None


class Rename(_LogEntry, frozen=True, tag="rename"):
    """A new name for a label; its id stays."""

    label: int
    name: str


class LabelAdded(_LogEntry, frozen=True, tag="label"):
    """A new label, after all others."""

    id: str
    name: str


class Erase(_LogEntry, frozen=True, tag="erase"):
    """The name of a worker was erased; their votes and everything learned from them stay, under the number."""

    worker: int


class Override(_LogEntry, frozen=True, tag="override"):
    """A person decides a task, regardless of its votes."""

    task: str
    label: int
    by: str | None = None
    reason: str | None = None


class Reopen(_LogEntry, frozen=True, tag="reopen"):
    """A decision is appealed, which opens the task again."""

    task: str
    by: str | None = None
    reason: str | None = None


class AuditAnswer(_LogEntry, frozen=True, tag="audit"):
    """A person has judged a task whose decision was drawn for an audit, without seeing votes or the decision."""

    task: str
    label: int
    by: str | None = None


class RefitBegun(_LogEntry, frozen=True, tag="refit-begun"):
    """A refit reads the votes in force at this point."""


class RefitDone(_LogEntry, frozen=True, tag="refit"):
    """A refit takes effect at this point; `read` is the position of its `RefitBegun`."""

    read: int


class Tick(_LogEntry, frozen=True, tag="tick"):
    """The clock made decisions: every hold that was due at this time has ended."""


class Sweep(_LogEntry, frozen=True, tag="sweep"):
    """Tasks leave memory for the archive: the given numbers of decided and of other tasks, longest untouched first.

    Of the other tasks, `emptied` stay in memory and lose their votes, which have expired.
    """

    decided: int
    others: int = 0
    emptied: int = 0


class Truncated(_LogEntry, frozen=True, tag="truncated"):
    """Votes have expired: the log up to a position is deleted, and so are the votes of archived tasks untouched since a time."""

    until: int  # the last deleted position
    before: int  # the time of the first event that is kept


class SettingsChanged(_LogEntry, frozen=True, tag="settings"):
    """New rules for refits or retention, or hosts of images that people see; None leaves a field unchanged."""

    refit: dict[str, Any] | None = None
    retention: dict[str, Any] | None = None
    image_hosts: list[str] | None = None


class BreakerReset(_LogEntry, frozen=True, tag="breaker-reset"):
    """A person has looked into a tripped breaker: automatic decisions resume."""

    by: str | None = None


class ClockSet(_LogEntry, frozen=True, tag="clock"):
    """An operator has set the time of a log that was ahead back to that of the clock: the only event whose time may decrease."""

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
    | AuditAnswer
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


def to_micros(time: str) -> int:
    """Return a time from JSON (RFC 3339; without an offset, UTC) in microseconds since 1970; raise `ValidationError`.

    >>> to_micros("1970-01-01T00:00:01Z")
    1000000
    """
    moment = msgspec.convert(time, datetime)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


encode = msgspec.json.Encoder().encode  # a list of events -> the body of a page
decode = msgspec.json.Decoder(list[Event]).decode
