"""A replay under other conditions: another policy, another model, no gold; and one stream for two that differ in policy alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

import msgspec

from adjudge.online import Online
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.policy import ANY_LABEL, Policy
from adjudge.service.campaigns.standing import Standing
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import SETTLED_STATUSES, Task
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive

# Gold judges, and must not decide; the clock runs by itself, as holds differ by policy; nothing leaves memory, as sweeps
# count tasks that another policy decides otherwise. So bans reach every task at once, and need not revisit the archive.
SKIPPED_EVENTS: Final = frozenset({events.GoldSet, events.Tick, events.Sweep, events.Truncated, events.Revisit})


class Ending(msgspec.Struct):
    """The decision that a task has come to, and where: the later lock of a decision is none of its own."""

    status: str  # "decided" or "escalated"; everything else is open
    label: int
    position: int  # of the last event before it
    time: int


class Trial:
    """A campaign's past, replayed under a policy or a model of its own.

    - `created`: the first event of the log.
    - `policy`: takes the place of all policies of the log; None: these hold.
    - `model`: takes the place of that of the log; None: that one.
    - `beside`: another trial, which is always one event ahead. Its stream serves this one as well, for as long as the same
      votes count.
    """

    def __init__(
        self, created: events.Created, *, policy: Policy | None = None, model: str | None = None, beside: Trial | None = None
    ) -> None:
        self.policy, self._labels = policy, list(created.labels)
        changes: dict[str, Any] = {} if model is None else {"model": model}
        if policy is not None:
            changes["policy"] = _narrowed(policy, self._labels)
        self.state = CampaignState(msgspec.structs.replace(created, **changes), MemoryArchive())
        self.endings: dict[str, Ending] = {}
        self._shared: SharedStream | None = None
        self._beside = beside
        if beside is not None and model is None and beside.state.policy.probation == self.state.policy.probation:
            self._shared = SharedStream(beside.state, self.state.lasting)
            self.state.follow(cast(Online, self._shared))

    def prepare(self, event: events.Event) -> None:
        """Look at an event before the trial beside this one folds it."""
        if self._shared is None or self._beside is None:
            return
        self._shared.remember(event)
        if type(event) is events.PolicySet and Policy.of(event.policy).probation != self.state.policy.probation:
            self.state.follow(Online.from_bytes(self._beside.state.online.to_bytes()))  # from here on other votes count
            self.state.online.expect_every_label()
            self._shared = None

    def step(self, position: int, event: events.Event) -> Task | None:
        """Fold an event, or pass it over; return the task that it touched, where it is one."""
        state, kind, touched = self.state, type(event), None
        due = state.next_due()
        if due and due <= event.time:
            state.run_clock(event.time)
        if kind in SKIPPED_EVENTS or (kind is events.PolicySet and self.policy is not None):
            state.pass_over(position, event)
        else:
            if self.policy is not None and isinstance(event, events.LabelAdded):
                self._labels.append(event.id)
                state.policy = Policy.of(_narrowed(self.policy, self._labels))
            touched = state.apply(position, event)
        if state.changes:
            self._note(state.changes)
            state.changes = []
        return None if touched is None else touched[0]

    def _note(self, changes: Iterable[Decision]) -> None:
        """Note where tasks have come to."""
        for decision in changes:
            standing = self.state.tasks.by_name[decision.task].standing
            status = outcome_of(standing)
            known = self.endings.get(decision.task)
            if known is None or known.status != status or known.label != standing.label:
                self.endings[decision.task] = Ending(status, standing.label, self.state.position, standing.since)


def outcome_of(standing: Standing) -> str:
    """Return what has come of a task: decided, escalated or open."""
    if standing.status in SETTLED_STATUSES:
        return "decided"
    return "escalated" if standing.status == "escalated" else "open"


class SharedStream:
    """The stream of another state, read only: what that state has learned need not be learned again.

    - `owner`: the other state, which folds every event first.
    - `lasting`: the kind of confidence that is read.
    """

    def __init__(self, owner: CampaignState, lasting: int) -> None:
        self._owner, self._lasting = owner, lasting
        self._stream = owner.online.state
        self._voted: dict[str, list[tuple[str, int]]] = {}
        self._before: tuple[str, str, int] | None = None  # task, worker, and the label of their vote before this event
        # What only reads is the owner's own.
        self.predict, self.predict_many = self._stream.predict, self._stream.predict_many
        self.votes_of, self.confusion = self._stream.votes_of, self._stream.confusion
        self.crowd, self.judge = self._stream.crowd, self._stream.judge

    @property
    def state(self) -> SharedStream:
        """What a campaign calls vote by vote: this."""
        return self

    def remember(self, event: events.Event) -> None:
        """Remember the votes that an event changes or takes back, before the owner does so."""
        workers = map(str, event.workers) if isinstance(event, events.Ban) else ()
        self._voted = {worker: self._stream.tasks_of(worker) for worker in workers}
        self._before = None
        if isinstance(event, events.Vote | events.Change | events.Retraction):
            worker = str(event.worker)
            self._before = event.task, worker, self._stream.voted(event.task, worker)

    def voted(self, task: str, worker: str) -> int:
        """Return the label of a worker's vote on a task as it was before this event."""
        if self._before is not None and self._before[:2] == (task, worker):
            return self._before[2]
        label: int = self._stream.voted(task, worker)
        return label

    def tasks_of(self, worker: str) -> list[tuple[str, int]]:
        """Return task and label of the votes of a worker, those that are being taken back included."""
        if worker in self._voted:
            return self._voted.pop(worker)
        found: list[tuple[str, int]] = self._stream.tasks_of(worker)
        return found

    def vote(self, task: str, worker: str, label: int, kind: int) -> Any:
        """Return what the stream says of a task; the vote is learned already."""
        return self.predict(task, self._lasting)

    def learn(self, *vote: Any) -> None:
        """Do nothing: it is learned already."""

    def retract(self, task: str, worker: str) -> int:
        """Do nothing: it is taken back already."""
        return 0

    def add_label(self, label: str) -> None:
        """Do nothing: it is added already."""

    def renew(self) -> None:
        """Do nothing: the owner has measured everything."""

    def renew_due(self) -> None:
        """Do nothing: the owner has measured what was due."""

    def begin_refit(self) -> Any:
        """Return the refit that the owner has begun."""
        return self._owner.refit_under_way

    def finish_refit(self, refit: Any) -> None:
        """Do nothing: the owner goes on from it."""


def _narrowed(policy: Policy, labels: list[str]) -> dict[str, Any]:
    """Return a policy without what it says of labels that are not there yet."""
    document = policy.document()
    known = {*labels, ANY_LABEL}
    if isinstance(policy.confidence, dict):
        document["confidence"] = {label: value for label, value in policy.confidence.items() if label in known}
    if policy.costs is not None:
        document["costs"] = {
            true: {decided: cost for decided, cost in line.items() if decided in known}
            for true, line in policy.costs.items()
            if true in known
        }
    return document
