"""One running campaign: requests become events, events are folded and put into the batch that is written next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from quorate.errors import InputError, OptionError, listed, shown
from quorate.live.archived import Answer
from quorate.live.decision import Decision
from quorate.live.policy import Policy
from quorate.live.rule import Rule
from quorate.live.settings import Refit, Retention, Stream
from quorate.live.state import Touched
from quorate.live.tasks import Task
from quorate.service import backtesting, lists, views
from quorate.service.duties import Duties
from quorate.service.errors import Conflict, Invalid, NotFound, Unavailable
from quorate.service.listening import Listeners
from quorate.service.loading import Loaded, new
from quorate.service.queue import Queue
from quorate.service.types import (
    BacktestAnswer,
    CampaignSpec,
    CampaignView,
    Label,
    NextAnswer,
    PolicyView,
    RefitAnswer,
    TasksPage,
    TaskView,
    VoteAnswer,
    VoteIn,
    VotesPage,
    WorkersPage,
    WorkerView,
)
from quorate.store import events
from quorate.store.batch import Batch, DecisionRow
from quorate.store.ids import content_of

if TYPE_CHECKING:
    from quorate.service.campaigns import Campaigns

_JSON = msgspec.json.Encoder().encode


class Campaign:
    """One campaign of a server. Everything here runs in the thread of the event loop."""

    def __init__(self, campaigns: Campaigns, number: int, name: str, loaded: Loaded) -> None:
        self.campaigns, self.number, self.name = campaigns, number, name
        self.listeners = Listeners()
        self._told: list[Decision] = []  # made, and not yet on disk
        self.accepted = self.repeated = self.retracted = self.decided = 0  # since the server began
        self.duties, self.queue = Duties(self), Queue(self)
        self.follows: str | None = None  # which other process writes it; None: this one does
        self.adopt(loaded)

    @classmethod
    def new(cls, campaigns: Campaigns, name: str, number: int, created: events.Created) -> Campaign:
        """Return a campaign without events: `created` is to be its first one."""
        return cls(campaigns, number, name, new(campaigns.store, number, created, campaigns.archive))

    def adopt(self, loaded: Loaded) -> None:
        """Go on from what was loaded from the log."""
        self.loaded = loaded
        self.state, self.names, self.ids = loaded.state, loaded.names, loaded.ids
        self.committed = self.state.position
        self._told.clear()
        self.duties.begin(loaded.snapshot_at)

    # --- events

    @property
    def position(self) -> int:
        """The position of the last event, be it on disk or not."""
        return self.state.position

    def now(self) -> int:
        """Return the time of the next event, which is never before that of the last one."""
        return max(self.campaigns.clock() // 1000, self.state.time)

    def require_open(self) -> None:
        """Raise where an event cannot be taken now."""
        if self.follows is not None:
            raise Unavailable(
                f"campaign {shown(self.name)} is written by {self.follows}: send it there, or try again", retry_after=1
            )
        self.campaigns.require_open()

    def submit(self, event: events.Event) -> Touched | None:
        """Fold an event, and have it written."""
        state, batch = self.state, self.campaigns.pending()
        position = state.position + 1
        try:
            touched = state.apply(position, event)
        except BaseException as error:
            self.campaigns.distrust(error)  # the state may be half changed: it is built again from the log
            raise
        self._write(batch, position, [event])
        return touched

    def _write(self, batch: Batch, first: int, folded: list[events.Event]) -> None:
        """Have events written that were folded, and the decisions that they made."""
        batch.extend(self.number, first, folded)
        self.campaigns.count(len(folded))
        if self.state.changes:
            changes, self.state.changes = self.state.changes, []
            self._tell(changes)

    def _tell(self, changes: list[Decision]) -> None:
        batch = self.campaigns.pending()
        for decision in changes:
            batch.decide(self.number, DecisionRow(decision.position, decision.task, _JSON(decision)))
        self.decided += len(changes)
        self._told.extend(changes)
        if self.campaigns.on_decisions is not None:
            self.campaigns.on_decisions(self, changes)

    def on_disk(self, position: int) -> None:
        """Note that everything up to this position is on disk, and tell those who listen."""
        self.committed = position
        if self._told:
            late = [decision for decision in self._told if decision.position > position]
            told = self._told[: len(self._told) - len(late)]
            self._told = late
            if told:
                self.listeners.tell(told)

    async def on_disk_now(self) -> None:
        """Wait until everything that readers can see is on disk."""
        if self.state.position > self.committed:
            self.campaigns.require_sound()
            await self.campaigns.commit()

    # --- votes

    async def vote(self, votes: Sequence[VoteIn]) -> VoteAnswer:
        """Take votes, all or none; return what stands of every task that they touch, once they are on disk."""
        answer = self.take(votes)
        await self.on_disk_now()
        return answer

    def take(self, votes: Sequence[VoteIn]) -> VoteAnswer:
        """Fold votes, all or none, and have them written; return what may be told of them once they are on disk."""
        self.require_open()
        codes = self._checked(votes)
        state, batch, time = self.state, self.campaigns.pending(), self.now()
        first = position = state.position + 1
        taken: list[events.Event] = []
        touched: dict[str, Answer | None] = {}
        try:
            for vote, code in zip(votes, codes, strict=True):
                event = None if code < 0 else self._event(vote, code, time)
                if event is None:
                    touched.setdefault(vote.task, None)
                    continue
                touched[vote.task] = state.apply(position, event)[1]  # type: ignore[index]
                taken.append(event)
                if vote.id is not None:
                    self._remember(vote.id, event, position)
                position += 1
        except BaseException as error:
            self.campaigns.distrust(error)
            raise
        finally:
            if taken:
                self._write(batch, first, taken)
        self.accepted += len(taken)
        self.repeated += len(votes) - len(taken)
        decisions = [self._decision(task, answer) for task, answer in touched.items()]
        return VoteAnswer(len(taken), len(votes) - len(taken), decisions)

    def _event(self, vote: VoteIn, code: int, time: int) -> events.Vote | events.Change | None:
        """Return a vote as the log has it; None where it is there already."""
        number, was = self.names.numbers.get(vote.worker), -1
        if number is None:
            number = self.names.add(vote.worker)
            self.campaigns.pending().workers.append((self.number, number, vote.worker))
        else:
            was = self.state.voted(vote.task, number)
            if was == code and vote.id is None:
                return None
        kind = events.Vote if was < 0 else events.Change
        return kind(time=time, task=vote.task, worker=number, label=code, id=vote.id)

    def _remember(self, mark: str, event: events.Vote | events.Change, position: int) -> None:
        self.ids.remember(mark, content_of(event.task, event.worker, event.label), position)
        if (full := self.ids.full()) is not None:
            self.campaigns.pending().ids.append(full)

    def _checked(self, votes: Sequence[VoteIn]) -> list[int]:
        """Return the codes of the labels, -1 for a vote whose id was seen; raise before anything is taken."""
        codes = self.state.codes
        found = [codes.get(vote.label, -1) for vote in votes]
        if -1 in found:
            at = found.index(-1)
            where = f"vote {at}: " if len(votes) > 1 else ""
            raise Invalid(f"{where}label {shown(votes[at].label)} is unknown: the labels are {listed(self.state.labels, 20)}")
        fresh: dict[str, tuple[str, str, str]] = {}
        for at, vote in enumerate(votes):
            if vote.id is None:
                continue
            says = vote.task, vote.worker, vote.label
            if vote.id in fresh:
                known = "same" if fresh[vote.id] == says else "other"
            else:
                known = self.ids.known(vote.id, content_of(vote.task, self.names.number(vote.worker) or 0, found[at]))
            if known == "other":
                raise Conflict(f"the id {shown(vote.id)} was used for another vote")
            if known == "same":
                found[at] = -1
            fresh[vote.id] = says
        return found

    def _decision(self, name: str, answer: Answer | None) -> Decision:
        task = self.state.tasks.by_name.get(name)
        if task is None:
            return views.decision(self.state, name)
        return self.state.decision(task, answer or self.state.answer(name))

    async def add_tasks(self, tasks: Sequence[str]) -> int:
        """Note tasks that wait for their first votes; return the position of the log at which they are."""
        self.require_open()
        fresh = [task for task in dict.fromkeys(tasks) if self.state.find(task) is None]
        if fresh:
            self.submit(events.TasksAdded(time=self.now(), tasks=fresh))
        position = self.position
        await self.on_disk_now()
        return position

    async def retract(self, task: str, worker: str) -> Decision:
        """Take a vote back."""
        self.require_open()
        number = self.names.number(worker)
        if number is None or self.state.voted(task, number) < 0:
            raise NotFound(f"worker {shown(worker)} has no vote on task {shown(task)}")
        self.retracted += 1
        return await self._touch(events.Retraction(time=self.now(), task=task, worker=number))

    async def _touch(self, event: events.Event) -> Decision:
        """Submit an event of one task, and return what is decided of it once that is on disk."""
        touched = self.submit(event)
        assert touched is not None
        decision = self.state.decision(*touched)
        await self.campaigns.commit()
        return decision

    async def _commit(self, event: events.Event) -> int:
        """Submit an event, and return its position once it is on disk."""
        self.submit(event)
        position = self.position
        await self.campaigns.commit()
        return position

    # --- what moderators do

    def code(self, label: str) -> int:
        """Return the code of a label's id."""
        code = self.state.codes.get(label)
        if code is None:
            raise Invalid(f"label {shown(label)} is unknown: the labels are {listed(self.state.labels, 20)}")
        return code

    def number_of(self, worker: str) -> int:
        """Return the number of a worker."""
        number = self.names.number(worker)
        if number is None:
            raise NotFound(f"worker {shown(worker)} is unknown")
        return number

    def _known(self, task: str) -> Task:
        found = self.state.find(task)
        if found is None:
            raise NotFound(f"task {shown(task)} is unknown")
        return found

    async def gold(self, task: str, label: str | None) -> Decision:
        """Note the true label of a task, seen or not; None takes it back."""
        self.require_open()
        if label is None:
            self._known(task)
            if not self.state.has_gold(task):
                raise NotFound(f"task {shown(task)} has no gold")
        code = None if label is None else self.code(label)
        return await self._touch(events.Gold(time=self.now(), task=task, label=code))

    async def override(self, task: str, label: str, by: str | None = None, reason: str | None = None) -> Decision:
        """Let a person decide a task."""
        self.require_open()
        self._known(task)
        return await self._touch(events.Override(time=self.now(), task=task, label=self.code(label), by=by, reason=reason))

    async def reopen(self, task: str, by: str | None = None, reason: str | None = None) -> Decision:
        """Open a task again."""
        self.require_open()
        self._known(task)
        return await self._touch(events.Reopen(time=self.now(), task=task, by=by, reason=reason))

    async def ban(
        self, workers: Iterable[str], by: str | None = None, reason: str | None = None, dry_run: bool = False
    ) -> list[tuple[Decision, Decision]]:
        """Let the votes of workers count no longer; return the decisions that change, before and after."""
        numbers = [self.number_of(worker) for worker in workers]
        return await self._judge(events.Ban(time=self.now(), workers=numbers, by=by, reason=reason), dry_run)

    async def unban(
        self, workers: Iterable[str], by: str | None = None, dry_run: bool = False
    ) -> list[tuple[Decision, Decision]]:
        """Let them count again."""
        numbers = [self.number_of(worker) for worker in workers]
        return await self._judge(events.Unban(time=self.now(), workers=numbers, by=by), dry_run)

    async def _judge(self, event: events.Ban | events.Unban, dry_run: bool) -> list[tuple[Decision, Decision]]:
        if dry_run:
            await self.on_disk_now()
            return await self.duties.try_out(event)
        self.require_open()
        before = views.before(self.state, event.workers)
        self.submit(event)
        changes = views.changed(self.state, before)
        changes += await self.duties.reach.run(event.workers)
        await self.campaigns.commit()
        return changes

    async def set_worker(self, worker: str, group: str | None = None, expert: bool | None = None) -> WorkerView:
        """Note the group of a worker, or whether they are an expert; a worker who has not voted yet is made known."""
        self.require_open()
        number = self.names.number(worker)
        if number is None:
            number = self.names.add(worker)
            self.campaigns.pending().workers.append((self.number, number, worker))
        await self._commit(events.WorkerSet(time=self.now(), worker=number, group=group, expert=expert))
        return self.worker(worker)

    async def erase(self, worker: str) -> int:
        """Forget the name of a worker; their votes stay, under a number."""
        self.require_open()
        number = self.number_of(worker)
        self.names.erase(number)
        self.campaigns.pending().erased.append((self.number, number))
        return await self._commit(events.Erase(time=self.now(), worker=number))

    # --- settings

    async def set_policy(self, document: dict[str, Any], by: str | None = None) -> PolicyView:
        """Make a new version of the policy, and return it; the policy that holds already is no new one."""
        self.require_open()
        try:
            policy = Policy.of(document)
            Rule(policy, self.state.labels)
        except (InputError, OptionError) as error:
            raise Invalid(error) from None
        if policy != self.state.policy:
            self.submit(events.PolicySet(time=self.now(), policy=policy.document(), by=by))
        version = views.policies(self.state)[-1]
        await self.on_disk_now()
        return version

    async def rename(self, label: str, name: str) -> int:
        """Give a label another name; its id stays."""
        self.require_open()
        code = self.state.codes.get(label)
        if code is None:
            raise NotFound(f"label {shown(label)} is unknown")
        return await self._commit(events.Rename(time=self.now(), label=code, name=name))

    async def add_label(self, label: str, name: str) -> int:
        """Add a label after all others."""
        self.require_open()
        if label in self.state.codes:
            raise Conflict(f"there is a label {shown(label)} already")
        try:
            Rule(self.state.policy, [*self.state.labels, label])
        except OptionError as error:
            raise Invalid(error) from None
        return await self._commit(events.LabelAdded(time=self.now(), id=label, name=name))

    async def settings(self, *, refit: dict[str, Any] | None = None, retention: dict[str, Any] | None = None) -> int:
        """Change when refits run, or how long tasks stay in memory; what is left out of a document stays."""
        self.require_open()
        refit = None if refit is None else {**self.state.refit.document(), **refit}
        retention = None if retention is None else {**self.state.retention.document(), **retention}
        try:
            Refit.of(refit or {})
            Retention.of(retention or {})
        except InputError as error:
            raise Invalid(error) from None
        return await self._commit(events.SettingsChanged(time=self.now(), refit=refit, retention=retention))

    async def reset_breaker(self, by: str | None = None) -> int:
        """Let automatic decisions go on: a person has looked."""
        self.require_open()
        return await self._commit(events.BreakerReset(time=self.now(), by=by))

    def require_same(self, spec: CampaignSpec) -> None:
        """Raise where a campaign of this name was made otherwise."""
        created = self.state.created
        if [label for label, _ in spec.pairs()] != created.labels or spec.model != created.model:
            raise Conflict(
                f"campaign {shown(self.name)} is there with the labels {listed(created.labels, 20)} and the model {created.model}"
            )
        try:
            policy = Policy.of(spec.policy)
            given = (
                ("settings", Stream.of(spec.settings), Stream.of(created.settings)),
                ("refit", Refit.of(spec.refit), Refit.of(created.refit)),
                ("retention", Retention.of(spec.retention), Retention.of(created.retention)),
            )
        except (InputError, OptionError) as error:
            raise Invalid(error) from None
        if spec.policy and policy != Policy.of(created.policy):
            raise Conflict(f"campaign {shown(self.name)} was made with another policy: PUT …/policy makes a new version")
        for label, name in zip(spec.labels, created.names, strict=True):
            if isinstance(label, Label) and label.name != name:
                raise Conflict(f"campaign {shown(self.name)} was made with the name {shown(name)} of a label: PATCH renames it")
        for field, wanted, was in given:
            if getattr(spec, field) and wanted != was:
                remedy = "they stay as they are" if field == "settings" else "PATCH changes it"
                raise Conflict(f"campaign {shown(self.name)} was made with other {field}: {remedy}")

    # --- readers

    def view(self) -> CampaignView:
        """Return the campaign as it stands."""
        return views.campaign(self.name, self.state, len(self.names), self.state.archived_tasks)

    @property
    def labels(self) -> list[Label]:
        """Ids and names of all labels."""
        return [Label(label, name) for label, name in zip(self.state.labels, self.state.names, strict=True)]

    async def task(self, task: str) -> TaskView:
        """Return a task: what is decided, how likely every label is, and why."""
        view = views.task(self.state, self.names, task)
        await self.on_disk_now()
        return view

    def tasks(self, status: str | None, sort: str, limit: int, after: str | None) -> TasksPage:
        """Return tasks in memory by status: the least certain first, or the oldest."""
        return lists.tasks(self.state, status, sort, limit, after)

    async def votes(self, after: int, limit: int) -> VotesPage:
        """Return the votes in force after a position, in the order of the log."""
        return await lists.votes(self, after, limit)

    def worker(self, name: str) -> WorkerView:
        """Return what is known of a worker."""
        return views.workers(self.state, self.names, [self.number_of(name)])[0]

    def workers(self, limit: int, after: int) -> WorkersPage:
        """Return workers in the order of their first votes."""
        return lists.workers(self.state, self.names, limit, after)

    def next(self, worker: str, n: int) -> NextAnswer:
        """Return tasks for a worker to vote on, the most valuable first."""
        return self.queue.next(worker, n)

    def policies(self) -> list[PolicyView]:
        """Return every version of the policy."""
        return views.policies(self.state)

    async def backtest(self, policy: dict[str, Any] | None, model: str | None) -> BacktestAnswer:
        """Return how the past would have gone under another policy or model."""
        await self.on_disk_now()
        return await self.campaigns.in_thread(partial(backtesting.answer, self.campaigns.store, self.number, policy, model))

    async def refit(self) -> RefitAnswer:
        """Begin a refit; it takes effect later, as an event."""
        self.require_open()
        begun = not self.state.refit_read
        if begun:
            self.campaigns.start(self.duties.refit())
            await asyncio.sleep(0)  # until it has read
        position = self.state.refit_read
        await self.on_disk_now()
        return RefitAnswer(position, begun)

    def stats(self) -> dict[str, Any]:
        """Return counters, for metrics."""
        return {
            "position": self.position,
            "committed": self.committed,
            "accepted": self.accepted,
            "repeated": self.repeated,
            "retracted": self.retracted,
            "decisions": self.decided,
            "refits": self.duties.refits,
            "tasks": self.state.tasks.counts(),
            "archived": self.state.archived_tasks,
            "workers": len(self.names),
            "votes": self.state.votes,
            "listeners": len(self.listeners),
            "following": int(self.follows is not None),
            "breaker": self.state.breakers.tripped,
        }

    def listen(self) -> AsyncIterator[Decision]:
        """Yield the decisions that come to be on disk from now on."""
        return self.listeners.listen()
