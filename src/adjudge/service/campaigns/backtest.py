"""Backtests: replay the past of a campaign under another policy or model, without gold, and compare the outcomes."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.online import Online
from adjudge.online.reading import RULES
from adjudge.service.campaigns.audits import TriedAudits
from adjudge.service.campaigns.decision import Decision, Standing
from adjudge.service.campaigns.policy import ANY_LABEL, Policy
from adjudge.service.campaigns.replay import read_kept_log
from adjudge.service.campaigns.rule import Rule
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import SETTLED_STATUSES, Task
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive
from adjudge.service.store.opening import open_store
from adjudge.service.store.store import Store

# Gold judges, and must not decide; the clock runs by itself, as holds differ by policy; nothing leaves memory, as sweeps
# count tasks that another policy decides otherwise. So bans reach every task at once, and need not revisit the archive. Answers
# to audits judge as gold does: another policy draws others.
SKIPPED_EVENTS: Final = frozenset(
    {events.GoldSet, events.AuditAnswer, events.Tick, events.Sweep, events.Truncated, events.Revisit}
)
Log: TypeAlias = "Store | str | os.PathLike[str] | Iterable[events.Event]"
MAX_BACKTEST_EXAMPLES: Final = 20
SECOND: Final = 1_000_000  # microseconds


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
    - `leader`: another trial, which is always one event ahead. Its stream serves this one as well, for as long as the same
      votes count.
    """

    def __init__(
        self, created: events.Created, *, policy: Policy | None = None, model: str | None = None, leader: Trial | None = None
    ) -> None:
        self.policy, self._labels = policy, list(created.labels)
        changes: dict[str, Any] = {} if model is None else {"model": model}
        if policy is not None:
            changes["policy"] = _narrow(policy, self._labels)
        self.state = CampaignState(msgspec.structs.replace(created, **changes), MemoryArchive())
        self.endings: dict[str, Ending] = {}
        self.audited: list[tuple[str, int]] = []  # task and decided label of the decisions that were drawn for an audit
        self._shared: SharedStream | None = None
        self._leader = leader
        if leader is not None and model is None and leader.state.policy.probation == self.state.policy.probation:
            self._shared = SharedStream(leader.state, self.state.lasting)
            self.state.follow(cast(Online, self._shared))

    def prepare(self, event: events.Event) -> None:
        """Prepare for an event, before the other trial folds it."""
        if self._shared is None or self._leader is None:
            return
        self._shared.remember(event)
        if type(event) is events.PolicySet and Policy.of(event.policy).probation != self.state.policy.probation:
            self.state.follow(Online.from_bytes(self._leader.state.online.to_bytes()))  # from here on other votes count
            self.state.online.expect_every_label()
            self._shared = None

    def step(self, position: int, event: events.Event) -> Task | None:
        """Fold or skip an event; return the task that it touched, if there is one."""
        state, kind, touched, audits = self.state, type(event), None, self.state.audits
        due = state.next_due()
        if due and due <= event.time:
            state.run_clock(event.time)
        if kind in SKIPPED_EVENTS or (kind is events.PolicySet and self.policy is not None):
            state.pass_over(position, event)
        else:
            if self.policy is not None and isinstance(event, events.LabelAdded):
                self._labels.append(event.id)
                state.policy = Policy.of(_narrow(self.policy, self._labels))
            touched = state.apply(position, event)
        if state.audits is not audits:  # a policy without `audit` drops what was drawn before
            self.audited = []
        if state.changes:
            self._note(state.changes)
            state.changes = []
            if state.audits is not None and state.audits.waiting:
                self.audited += state.audits.take_waiting()  # so that none expires: nobody is asked
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
        votes: list[tuple[str, int]] = self._stream.tasks_of(worker)
        return votes

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
        """Do nothing: the owner has taken it up."""


def _narrow(policy: Policy, labels: list[str]) -> dict[str, Any]:
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


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """How decisions came out.

    - `decided`, `escalated`, `open`: tasks by their outcome; held tasks count as open.
    - `votes`: that were needed: those on a task after its last decision are not counted.
    - `flips`: how often a decided label became another.
    - `seconds`: from a task's first vote to its decision, the median; None where nothing was decided.
    - `gold`: decided tasks whose true label is known, and that no person decided.
    - `accuracy`: the share of those that were decided right; None where there are none.
    - `breaker`: why decisions were held at the end; None where none was tripped.
    - `audits`: what audits of automatic decisions would have found; None if the last policy has none.
    - `warning`: why nothing was decided, if probation kept all votes aside to the end.
    """

    decided: int
    escalated: int
    open: int
    votes: int
    flips: int
    seconds: float | None = None
    gold: int = 0
    accuracy: float | None = None
    breaker: str | None = None
    audits: TriedAudits | None = None
    warning: str | None = None


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """How the past would have gone. Gold decides nothing on either side: it judges.

    - `position`: up to which the log was replayed.
    - `tasks`: how many tasks it has.
    - `cast`: how many votes were given: first ones and changes.
    - `changed`: tasks whose last decision is another.
    - `votes_saved`: votes that came after the decision that held to the end, under what was tried.
    - `before`: how decisions came out as things were, `after`: under what was tried.
    - `examples`: some of the tasks that changed, before and after; those decided both times come first.
    """

    position: int
    tasks: int
    cast: int
    changed: int
    votes_saved: int
    before: Outcomes
    after: Outcomes
    examples: list[tuple[Decision, Decision]] = []


def backtest(
    log: Log,
    *,
    policy: Policy | Mapping[str, Any] | None = None,
    model: str | None = None,
    campaign: int | str | None = None,
    until: int | None = None,
) -> Backtest:
    """Replay a log as it was and under another policy or model, and compare what comes out.

    Votes, bans, overrides, appeals and refits stay where they were. Gold is left out of both replays and judges both. The
    clock runs by itself, so that holds and locks end when they are due. No task leaves memory. Where votes have expired, what is
    left of the log is replayed, and workers are learned from that alone.

    - `log`: a store, its path or address, or the events themselves.
    - `policy`: what takes the place of all policies of the log.
    - `model`: what takes the place of its model: "fds", "ds", "hybrid" or "auto".
    - `campaign`: its number or name in the store; None: the only one there.
    - `until`: the last position that is replayed; None: all of the log.

    >>> from adjudge.service.store.events import Created, Vote
    >>> log = [Created(time=0, labels=["spam", "ok"], names=["spam", "ok"], model="fds")]
    >>> log += [Vote(time=n, task=f"t{n % 100}", worker=n // 100, label=n % 2) for n in range(500)]
    >>> found = backtest(log, policy={"minimum_votes": 4})
    >>> found.before.votes, found.after.votes, found.changed
    (300, 400, 0)
    """
    opened = open_store(log, readonly=True) if isinstance(log, str | os.PathLike) else None
    try:
        source = opened if opened is not None else log
        return compare(_events(source, campaign, until), policy, model)
    finally:
        if opened is not None:
            opened.close()


def compare(log: Iterable[tuple[int, events.Event]], policy: Policy | Mapping[str, Any] | None, model: str | None) -> Backtest:
    """Return the same as `backtest`.

    - `log`: position and event, in order.
    - `policy`, `model`: as there.
    """
    if policy is None and model is None:
        raise OptionError("nothing to try: give a policy or a model")
    if model is not None:
        RULES["model"].check("model", model := options.resolve_model_name(model))
    run = _PairedTrials(None if policy is None else Policy.of(policy), model)
    for position, event in log:
        run.step(position, event)
    return run.compared()


def _events(log: Any, campaign: int | str | None, until: int | None) -> Iterator[tuple[int, events.Event]]:
    if not hasattr(log, "campaigns"):
        for position, event in enumerate(log, 1):
            if until is not None and position > until:
                return
            yield position, event
        return
    rows = log.campaigns()
    chosen = [row for row in rows if campaign is None or campaign in (row.number, row.name)]
    if len(chosen) != 1:
        problem = "campaign is None" if campaign is None else f"campaign {quote(campaign)} is unknown"
        raise InputError(f"{problem}: give one of {itemize([row.name for row in rows], 20)}")
    yield from read_kept_log(log, chosen[0].number, until=until)


class _PairedTrials:
    """Two trials of one log, side by side."""

    def __init__(self, policy: Policy | None, model: str | None) -> None:
        self._policy, self._model = policy, model
        self.before: Trial | None = None
        self.after: Trial | None = None
        self.position = 0
        self._lines, self._positions, self._times = array("q"), array("q"), array("q")  # of every vote: the line of its task, …
        self._gold: dict[str, int] = {}
        self._judged: dict[str, int] = {}  # by a person: in an audit, or by an override

    def step(self, position: int, event: events.Event) -> None:
        """Fold an event twice."""
        before, after, self.position = self.before, self.after, position
        if before is None or after is None:
            if not isinstance(event, events.Created):
                raise InputError(f"the log begins with {type(event).__name__}, not with Created")
            before = self.before = Trial(event)
            after = self.after = Trial(event, policy=self._policy, model=self._model, leader=before)
            for trial in (before, after):
                trial.state.pass_over(position, event)  # it is in them already
            return
        kind = type(event)
        if kind is events.Vote or kind is events.Change:
            task = before.step(position, event)
            after.step(position, event)
            assert task is not None
            self._lines.append(task.slot)
            self._positions.append(position)
            self._times.append(event.time)
            return
        if isinstance(event, events.GoldSet):
            if event.label is None:
                self._gold.pop(event.task, None)
            else:
                self._gold[event.task] = event.label
        elif isinstance(event, events.AuditAnswer | events.Override):
            self._judged[event.task] = event.label
        after.prepare(event)
        before.step(position, event)
        after.step(position, event)

    def compared(self) -> Backtest:
        """Return what has come out."""
        if self.before is None or self.after is None:
            raise InputError("the log has no events: there is nothing to replay")
        before, after = self.before, self.after
        if self._policy is not None:
            Rule(self._policy, after.state.labels)  # it may name no label that never was
        pairs = [(task, after.state.tasks.by_name[task.name]) for task in before.state.tasks]
        changed = [
            (old, new)
            for old, new in pairs
            if (outcome_of(old.standing), old.standing.label) != (outcome_of(new.standing), new.standing.label)
        ]
        changed.sort(key=lambda pair: -sum(outcome_of(task.standing) == "decided" for task in pair))
        came_out = self._outcomes(before), self._outcomes(after)
        return Backtest(
            position=self.position,
            tasks=len(pairs),
            cast=len(self._lines),
            changed=len(changed),
            votes_saved=len(self._lines) - came_out[1].votes,
            before=came_out[0],
            after=came_out[1],
            examples=[
                (_describe(before.state, old.name), _describe(after.state, new.name))
                for old, new in changed[:MAX_BACKTEST_EXAMPLES]
            ],
        )

    def _outcomes(self, trial: Trial) -> Outcomes:
        tasks = trial.state.tasks.by_name
        endings = {name: ending for name, ending in trial.endings.items() if ending.status != "open"}
        decided = {name: ending for name, ending in endings.items() if ending.status == "decided"}
        by_votes = {name: ending for name, ending in decided.items() if tasks[name].standing.reason != "override"}
        judged = [name for name in by_votes if name in self._gold]
        right = sum(decided[name].label == self._gold[name] for name in judged)
        return Outcomes(
            decided=len(decided),
            escalated=len(endings) - len(decided),
            open=len(tasks) - len(endings),
            votes=self._needed(trial.state, endings),
            flips=sum(task.flips for task in tasks.values()),
            seconds=self._seconds(trial.state, by_votes),
            gold=len(judged),
            accuracy=right / len(judged) if judged else None,
            breaker=trial.state.breakers.tripped,
            audits=self._audits(trial),
            warning=trial.state.describe_stall(),
        )

    def _audits(self, trial: Trial) -> TriedAudits | None:
        """Return what audits would have found by the labels that are known."""
        audits, known = trial.state.audits, {**self._judged, **self._gold}
        if audits is None:
            return None
        return audits.try_out(known[task] != label for task, label in trial.audited if task in known)

    def _seconds(self, state: CampaignState, decided: dict[str, Ending]) -> float | None:
        """Return the median time from a task's first vote to its decision, in seconds."""
        lines, first = np.unique(np.asarray(self._lines), return_index=True)
        began = dict(zip(lines.tolist(), np.asarray(self._times)[first].tolist(), strict=True))
        # A decision can be dated before a vote whose time was ahead: see `events.ClockSet`.
        took = [max(0, ending.time - began[state.tasks.by_name[name].slot]) for name, ending in decided.items()]
        return median(took) / SECOND if took else None

    def _needed(self, state: CampaignState, endings: dict[str, Ending]) -> int:
        """Return how many votes came no later than the last decision on their task."""
        last: NDArray[np.int64] = np.full(len(state.tasks), np.iinfo(np.int64).max)
        for name, ending in endings.items():
            last[state.tasks.by_name[name].slot] = ending.position
        return int((np.asarray(self._positions) <= last[np.asarray(self._lines)]).sum())


def _describe(state: CampaignState, name: str) -> Decision:
    return state.decision(state.tasks.by_name[name], state.answer(name))
