"""One running campaign: what requests ask of it, as events and as reads of its state."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.effort import has_heavy_votes, is_task_heavy, is_vote_heavy
from adjudge.service.campaigns.policy import Policy
from adjudge.service.campaigns.rule import Rule
from adjudge.service.campaigns.settings import RefitSettings, Retention, StreamSettings
from adjudge.service.campaigns.tasks import Answer, Task
from adjudge.service.campaigns.voting import RequestVotes, VoteFold
from adjudge.service.http import backtesting, items, views
from adjudge.service.http import types as t
from adjudge.service.http.errors import Conflict, Invalid, NotFound
from adjudge.service.http.fold import ENDLESS, LONG_READ_US, NO_ROWS, LiveCampaign, Slice, Steps, atomic, drain
from adjudge.service.http.loading import Loaded
from adjudge.service.http.maintenance import Duties
from adjudge.service.http.queue import QUEUE_PAGE_TASKS, PeopleQueue, Queue
from adjudge.service.store import events
from adjudge.service.store.batch import ItemRow
from adjudge.service.store.ids import Generation, content_of

if TYPE_CHECKING:
    from adjudge.service.http.campaigns import Campaigns

MAX_CELLS_AT_ONCE: Final = 3200  # votes times labels that are folded without a pause
MIN_COSTED_LABELS: Final = 100  # up to so many, a vote takes about the same
ROW_US: Final = 20  # microseconds that a row of a list takes, more or less
LOOKED_EVERY: Final = 8  # votes between looks at the clock


class Campaign(LiveCampaign):
    """One campaign of a server."""

    def __init__(self, campaigns: Campaigns, number: int, name: str, loaded: Loaded) -> None:
        super().__init__(campaigns, number, name, loaded)
        self.accepted = self.repeated = self.retracted = 0  # since the server began
        self.annotating = asyncio.Lock()  # webhooks of t.Label Studio are taken one after the other
        self.duties, self.queue, self.people = Duties(self), Queue(self), PeopleQueue(self)
        self.duties.begin(loaded.snapshot_at)

    def adopt(self, loaded: Loaded) -> None:
        """Continue from a state loaded from the log."""
        self._begin(loaded)
        self.duties.begin(loaded.snapshot_at)

    # --- votes

    async def vote(self, votes: Sequence[t.VoteIn]) -> t.VoteAnswer:
        """Take votes, all or none; return what stands of every task that they touch, once they are on disk."""
        answer, has_items = await self.fold_votes(votes)
        await self.votes_on_disk(has_items=has_items)
        return answer

    async def fold_votes(self, votes: Sequence[t.VoteIn]) -> tuple[t.VoteAnswer, bool]:
        """Fold votes, all or none; return the answer to send once they are on disk, and whether items are written as well."""
        content = items.rows_of(self, [(vote.task, vote.data) for vote in votes if vote.data is not None])
        answer = await self.in_turn(self._vote_steps(votes))
        if content:
            self.campaigns.pending().items.extend(content)
        return answer, bool(content)

    async def votes_on_disk(self, *, has_items: bool) -> None:
        """Wait until votes that were folded are on disk, and their items as well, which no event waits for."""
        if not has_items:
            await self.on_disk_now()
            return
        self.campaigns.require_sound()
        await self.campaigns.commit()

    def can_take(self, votes: Sequence[t.VoteIn]) -> bool:
        """Return whether votes can be folded at once, without a pause that others would need."""
        n = len(votes)
        if self.turn.is_taken or (n > 1 and n * max(len(self.state.labels), MIN_COSTED_LABELS) > MAX_CELLS_AT_ONCE):
            return False
        if any(vote.data is not None for vote in votes):
            return False
        if not has_heavy_votes(self.state):
            return True
        return not any(is_vote_heavy(self.state, vote.task, self.names.numbers.get(vote.worker), n) for vote in votes)

    def take(self, votes: Sequence[t.VoteIn]) -> t.VoteAnswer:
        """Fold a few votes at once, where `can_take` says so."""
        self._require_free()
        if len(votes) == 1 and votes[0].id is None and votes[0].label in self.state.codes:
            return self._take_one(votes[0])
        return drain(self._vote_steps(votes, at_once=True))

    def _take_one(self, vote: t.VoteIn) -> t.VoteAnswer:
        """Do what `_vote_steps` does with one vote without an id, in fewer steps: nearly all requests are this."""
        time, state, workers = self.require_open(), self.state, list[tuple[int, str]]()
        event = self._event(vote, state.codes[vote.label], time, workers)
        if event is None:
            self.repeated += 1
            return t.VoteAnswer(0, 1, [self.decision_of(vote.task, None)])
        before = state.position
        try:  # as `whole` does, which takes longer than a vote can afford
            touched = state.apply(before + 1, event)
            assert touched is not None
            rows = drain(self.encode_decisions(state, ENDLESS)) if state.changes else NO_ROWS
        except BaseException as error:
            self.drop(state, before, error)
            raise
        self.write(before + 1, [event], rows, workers)
        self.accepted += 1
        return t.VoteAnswer(1, 0, [self.decision_of(vote.task, touched[1])])

    def _vote_steps(self, votes: Sequence[t.VoteIn], *, at_once: bool = False) -> Steps[t.VoteAnswer]:
        self.require_open()
        state, pace, time = self.state, ENDLESS if at_once else Slice(), self.now()
        codes, has_ids = self._codes(votes)
        if has_ids:
            yield from self._look_up_ids(votes, codes, pace)
        before, fold = state.position, VoteFold(state, time)
        workers: list[tuple[int, str]] = []
        ids: list[Generation] = []
        numbers = self.names.numbers
        columns = RequestVotes(
            [vote.task for vote in votes],
            [numbers.get(vote.worker) or self.enlist(vote.worker, workers) for vote in votes],
            codes,
            [vote.id for vote in votes] if has_ids else None,
        )
        at = 0
        with self.whole():
            while at < len(votes):
                start = len(fold.events)
                if done := fold.fold(columns, at):
                    if fold.is_renewal_due:
                        yield from self.running(fold.renew, is_heavy=not at_once and has_heavy_votes(state))
                elif codes[at] < 0 or (event := self._event(votes[at], codes[at], time, workers)) is None:
                    fold.touched.setdefault(votes[at].task, None)
                else:
                    is_long = not at_once and has_heavy_votes(state) and is_vote_heavy(state, event.task, event.worker)
                    yield from self.running(partial(fold.apply, event), is_heavy=is_long)
                at += done or 1
                if has_ids:
                    ids += self._remember_ids(fold.events[start:], before + 1 + start)
                yield from self.pause(state, pace)
            rows = (yield from self.encode_decisions(state, pace)) if state.changes else NO_ROWS
        taken = fold.events
        if taken:
            self.write(before + 1, taken, rows, workers, ids)
        self.accepted += len(taken)
        self.repeated += len(votes) - len(taken)
        decisions: list[Decision] = []
        for task, answer in fold.touched.items():
            if answer is None and not at_once and is_task_heavy(state, task):
                decisions.append((yield partial(self.decision_of, task, None)))
            else:
                decisions.append(self.decision_of(task, answer))
            if not len(decisions) % LOOKED_EVERY and pace.is_over():
                yield None
                pace.begin()
        return t.VoteAnswer(len(taken), len(votes) - len(taken), decisions)

    def _remember_ids(self, taken: Sequence[events.Event], position: int) -> list[Generation]:
        """Remember the ids of votes from a position on; return the generations that are full now."""
        full: list[Generation] = []
        for at, event in enumerate(taken, position):
            if isinstance(event, events.Vote | events.Change) and event.id is not None:
                self.ids.remember(event.id, content_of(event.task, event.worker, event.label), at)
                if (generation := self.ids.take_full()) is not None:
                    full.append(generation)
        return full

    def _event(self, vote: t.VoteIn, code: int, time: int, workers: list[tuple[int, str]]) -> events.Vote | events.Change | None:
        """Return a vote as the log has it, and note a new worker; None where it is there already."""
        number, was = self.names.numbers.get(vote.worker), -1
        if number is None:
            number = self.enlist(vote.worker, workers)
        else:
            was = self.state.voted(vote.task, number)
            if was == code and vote.id is None:
                return None
        kind = events.Vote if was < 0 else events.Change
        return kind(time=time, task=vote.task, worker=number, label=code, id=vote.id)

    def enlist(self, worker: str, fresh: list[tuple[int, str]]) -> int:
        """Return the number of a worker; somebody unknown gets a new one, which is added to `fresh`."""
        number = self.names.number(worker)
        if number is None:
            number = self.names.add(worker)
            fresh.append((number, worker))
        return number

    def _codes(self, votes: Sequence[t.VoteIn]) -> tuple[list[int], bool]:
        """Return the codes of the labels, and whether any vote has an id; raise where a label is unknown."""
        codes = self.state.codes
        label_codes = [codes.get(vote.label, -1) for vote in votes]
        if -1 in label_codes:
            at = label_codes.index(-1)
            where = f"vote {at}: " if len(votes) > 1 else ""
            raise Invalid(f"{where}label {quote(votes[at].label)} is unknown: the labels are {itemize(self.state.labels, 20)}")
        return label_codes, bool([vote.id for vote in votes if vote.id is not None])

    def _look_up_ids(self, votes: Sequence[t.VoteIn], codes: list[int], pace: Slice) -> Steps[None]:
        """Make the code of a vote -1 whose id was seen; raise before anything is taken where one has other content now."""
        fresh: dict[str, tuple[str, str, str]] = {}
        for at, vote in enumerate(votes):
            if vote.id is None:
                continue
            says = vote.task, vote.worker, vote.label
            if vote.id in fresh:
                known = "same" if fresh[vote.id] == says else "other"
            else:
                known = self.ids.look_up(vote.id, content_of(vote.task, self.names.number(vote.worker) or 0, codes[at]))
            if known == "other":
                raise Conflict(f"the id {quote(vote.id)} was used for another vote")
            if known == "same":
                codes[at] = -1
            fresh[vote.id] = says
            if pace.is_over():
                yield None
                self.require_open()
                pace.begin()

    def decision_of(self, name: str, answer: Answer | None) -> Decision:
        """Return the decision on a task. `answer` is the prediction of the stream; None: predict now."""
        task = self.state.tasks.by_name.get(name)
        if task is None:
            return views.view_decision(self.state, name)
        return self.state.decision(task, answer or self.state.answer(name))

    @atomic
    def add_tasks(self, tasks: Sequence[str], content: Sequence[ItemRow] = ()) -> Steps[int]:
        """Note tasks that wait for their first votes, and their items; return the position of the log at which they are."""
        fresh = yield lambda: [task for task in dict.fromkeys(tasks) if self.state.find(task) is None]
        self.require_open()
        if fresh:
            yield from self.folding(events.TasksAdded(time=self.now(), tasks=fresh))
        if content:
            self.campaigns.pending().items.extend(content)
        return self.position

    @atomic
    def retract(self, task: str, worker: str) -> Steps[Decision]:
        """Take a vote back."""
        number = self.names.number(worker)
        if number is None or self.state.voted(task, number) < 0:
            raise NotFound(f"worker {quote(worker)} has no vote on task {quote(task)}")
        self.retracted += 1
        return (yield from self._decide(events.Retraction(time=self.now(), task=task, worker=number)))

    def _decide(self, event: events.Event) -> Steps[Decision]:
        """Fold an event of one task, and return the decision on it."""
        touched = yield from self.folding(event)
        assert touched is not None
        return self.decision_of(touched[0].name, touched[1])

    def _log(self, event: events.Event) -> Steps[int]:
        """Fold an event, and return its position."""
        yield from self.folding(event)
        return self.position

    # --- what moderators do

    def code(self, label: str) -> int:
        """Return the code of a label's id."""
        code = self.state.codes.get(label)
        if code is None:
            raise Invalid(f"label {quote(label)} is unknown: the labels are {itemize(self.state.labels, 20)}")
        return code

    def number_of(self, worker: str) -> int:
        """Return the number of a worker."""
        number = self.names.number(worker)
        if number is None:
            raise NotFound(f"worker {quote(worker)} is unknown")
        return number

    def _require_task(self, task: str) -> Task:
        known = self.state.find(task)
        if known is None:
            raise NotFound(f"task {quote(task)} is unknown")
        return known

    def _require_seen(self, task: str, seen: int | None) -> None:
        """Raise if a task is unknown, or has another decision than the one at position `seen`."""
        known = self._require_task(task)
        if seen is not None and known.position != seen:
            now = f"{known.standing.status} from position {known.position} on"
            raise Conflict(f"task {quote(task)} has changed since: it is {now}")

    @atomic
    def gold(self, task: str, label: str | None, by: str | None = None) -> Steps[Decision]:
        """Note the true label of a task, seen or not; None takes it back."""
        if label is None:
            self._require_task(task)
            if not self.state.has_gold(task):
                raise NotFound(f"task {quote(task)} has no gold")
        time, code = self.now(), None if label is None else self.code(label)
        return (yield from self._decide(events.GoldSet(time=time, task=task, label=code, by=by)))

    @atomic
    def override(
        self, task: str, label: str, by: str | None = None, reason: str | None = None, seen: int | None = None
    ) -> Steps[Decision]:
        """Let a person decide a task; `seen` is the position of the decision that they saw."""
        self._require_seen(task, seen)
        event = events.Override(time=self.now(), task=task, label=self.code(label), by=by, reason=reason)
        return (yield from self._decide(event))

    @atomic
    def judge(self, task: str, label: str, by: str | None = None) -> Steps[int]:
        """Take what a person makes of a task from their queue, an audit or an escalated task; return the position of the log."""
        code, status = self.code(label), self._require_task(task).standing.status
        audits = self.state.audits
        is_audit = audits is not None and task in audits.waiting
        if not is_audit and status != "escalated":
            raise Conflict(f"task {quote(task)} does not wait for a person: somebody else has decided it, or votes have")
        if self.people.has_voted(task, by):
            raise Conflict(f"{quote(by)} has voted on task {quote(task)}: somebody else has to judge it")
        kind = events.AuditAnswer if is_audit else events.Override
        return (yield from self._log(kind(time=self.now(), task=task, label=code, by=by)))

    @atomic
    def reopen(self, task: str, by: str | None = None, reason: str | None = None, seen: int | None = None) -> Steps[Decision]:
        """Open a task again; `seen` is the position of the decision that they saw."""
        self._require_seen(task, seen)
        return (yield from self._decide(events.Reopen(time=self.now(), task=task, by=by, reason=reason)))

    async def ban(
        self, workers: Iterable[str], by: str | None = None, reason: str | None = None, dry_run: bool = False
    ) -> list[tuple[Decision, Decision]]:
        """Let the votes of workers count no longer; return the decisions that change, before and after."""
        return await self._judge(
            workers, lambda time, numbers: events.Ban(time=time, workers=numbers, by=by, reason=reason), dry_run
        )

    async def unban(
        self, workers: Iterable[str], by: str | None = None, dry_run: bool = False
    ) -> list[tuple[Decision, Decision]]:
        """Let them count again."""
        return await self._judge(workers, lambda time, numbers: events.Unban(time=time, workers=numbers, by=by), dry_run)

    async def _judge(
        self, workers: Iterable[str], event: Callable[[int, list[int]], events.Ban | events.Unban], dry_run: bool
    ) -> list[tuple[Decision, Decision]]:
        if dry_run:
            return await self.duties.try_out(lambda: event(self.now(), [self.number_of(worker) for worker in workers]))

        def steps() -> Steps[tuple[list[int], list[tuple[Decision, Decision]]]]:
            judged = event(self.now(), [self.number_of(worker) for worker in workers])
            self.require_open()
            before = yield partial(views.collect_decisions, self.state, judged.workers)
            self.require_open()
            yield from self.folding(judged)
            return judged.workers, (yield partial(views.compare_decisions, self.state, before))

        numbers, changes = await self.in_turn(steps())
        changes += await self.duties.reach.run(numbers)
        await self.campaigns.commit()
        return changes

    @atomic
    def set_worker(self, worker: str, group: str | None = None, expert: bool | None = None) -> Steps[t.WorkerView]:
        """Note the group of a worker, or whether they are an expert; a worker who has not voted yet is made known."""
        fresh: list[tuple[int, str]] = []
        number = self.enlist(worker, fresh)
        yield from self.folding(events.WorkerSet(time=self.now(), worker=number, group=group, expert=expert), fresh)
        view: t.WorkerView = yield partial(self._worker, worker)
        return view

    @atomic
    def erase(self, worker: str) -> Steps[int]:
        """Forget the name of a worker; their votes stay, under a number."""
        number = self.number_of(worker)
        self.names.erase(number)
        self.campaigns.pending().erased.append((self.number, number))
        return (yield from self._log(events.Erase(time=self.now(), worker=number)))

    # --- settings

    @atomic
    def set_policy(
        self, document: dict[str, Any], by: str | None = None, note: str | None = None, seen: int | None = None
    ) -> Steps[t.PolicyView]:
        """Make a new version of the policy, and return it; nothing changes if it equals the current one.

        - `note`: why.
        - `seen`: the version that the author saw; a later one is a conflict.
        """

        def check() -> dict[str, Any] | None:
            policy = Policy.of(document)
            Rule(policy, self.state.labels)
            return policy.document() if policy != self.state.policy else None

        try:
            fresh = yield check
        except (InputError, OptionError) as error:
            raise Invalid(error) from None
        self.require_open()
        if seen is not None and self.state.version != seen:
            raise Conflict(f"version {self.state.version} of the policy was saved since: look at it first")
        if fresh is not None:
            yield from self.folding(events.PolicySet(time=self.now(), policy=fresh, by=by, note=note))
        version: t.PolicyView = yield lambda: views.view_policy(self.state.policies[-1], self.state.describe_stall())
        return version

    @atomic
    def rename(self, label: str, name: str) -> Steps[int]:
        """Give a label another name; its id stays."""
        code = self.state.codes.get(label)
        if code is None:
            raise NotFound(f"label {quote(label)} is unknown")
        return (yield from self._log(events.Rename(time=self.now(), label=code, name=name)))

    @atomic
    def add_label(self, label: str, name: str) -> Steps[int]:
        """Add a label after all others."""
        if label in self.state.codes:
            raise Conflict(f"there is a label {quote(label)} already")
        try:
            yield partial(Rule, self.state.policy, [*self.state.labels, label])
        except OptionError as error:
            raise Invalid(error) from None
        self.require_open()
        return (yield from self._log(events.LabelAdded(time=self.now(), id=label, name=name)))

    @atomic
    def settings(
        self,
        *,
        refit: dict[str, Any] | None = None,
        retention: dict[str, Any] | None = None,
        image_hosts: list[str] | None = None,
    ) -> Steps[int]:
        """Change when refits run, how long tasks stay in memory, or hosts of images; what is left out of a document stays."""
        whole = None if refit is None else {**self.state.refit.document(), **refit}
        kept = None if retention is None else {**self.state.retention.document(), **retention}
        try:
            RefitSettings.of(whole or {})
            Retention.of(kept or {})
        except InputError as error:
            raise Invalid(error) from None
        event = events.SettingsChanged(time=self.now(), refit=whole, retention=kept, image_hosts=image_hosts)
        return (yield from self._log(event))

    @atomic
    def reset_breaker(self, by: str | None = None) -> Steps[int]:
        """Resume automatic decisions after a review by a person."""
        return (yield from self._log(events.BreakerReset(time=self.now(), by=by)))

    def require_same(self, spec: t.CampaignSpec) -> None:
        """Raise where a campaign of this name was made otherwise."""
        created = self.state.created
        if [label for label, _ in spec.pairs()] != created.labels or spec.model != created.model:
            raise Conflict(
                f"campaign {quote(self.name)} exists with the labels {itemize(created.labels, 20)} and the model {created.model}"
            )
        try:
            policy = Policy.of(spec.policy)
            sections = (
                ("settings", StreamSettings.of(spec.settings), StreamSettings.of(created.settings)),
                ("refit", RefitSettings.of(spec.refit), RefitSettings.of(created.refit)),
                ("retention", Retention.of(spec.retention), Retention.of(created.retention)),
            )
        except (InputError, OptionError) as error:
            raise Invalid(error) from None
        if spec.policy and policy != Policy.of(created.policy):
            raise Conflict(f"campaign {quote(self.name)} was made with another policy: PUT …/policy makes a new version")
        for label, name in zip(spec.labels, created.names, strict=True):
            if isinstance(label, t.Label) and label.name != name:
                raise Conflict(f"campaign {quote(self.name)} was made with the name {quote(name)} of a label: PATCH renames it")
        for field, wanted, was in sections:
            if getattr(spec, field) and wanted != was:
                remedy = "they stay as they are" if field == "settings" else "PATCH changes it"
                raise Conflict(f"campaign {quote(self.name)} was made with other {field}: {remedy}")

    # --- readers

    def view(self) -> t.CampaignView:
        """Return the campaign as it stands."""
        return views.view_campaign(self.name, self.state, len(self.names), self.state.archived_tasks)

    @property
    def labels(self) -> list[t.Label]:
        """Ids and names of all labels."""
        return [t.Label(label, name) for label, name in zip(self.state.labels, self.state.names, strict=True)]

    async def task(self, task: str) -> t.TaskView:
        """Return a task: what is decided, how likely every label is, and why."""

        def steps() -> Steps[t.TaskView]:
            votes = self.state.stream.votes_on(task)
            is_long = votes * max(ROW_US, len(self.state.labels)) > LONG_READ_US or task not in self.state.tasks.by_name
            read = partial(views.view_task, self.state, self.names, task)
            view: t.TaskView = (yield read) if is_long else read()
            return view

        view = await self.in_turn(steps())
        await self.on_disk_now()
        data = await items.find(self, task)
        return view if data is None else msgspec.structs.replace(view, data=msgspec.json.decode(data))

    async def tasks(self, status: str | None, sort: str, limit: int, after: str | None) -> t.TasksPage:
        """Return tasks in memory by status: the least certain first, or the oldest."""
        rows = min(limit, len(self.state.tasks))
        cost = ROW_US * rows * max(1, len(self.state.labels) // 32) + len(self.state.tasks) // 20
        return await self.read(lambda: views.list_tasks(self.state, status, sort, limit, after), cost)

    async def votes(self, after: int, limit: int) -> t.VotesPage:
        """Return the votes in force after a position, in the order of the log."""
        return await views.list_votes(self, after, limit)

    def _worker(self, name: str) -> t.WorkerView:
        return views.view_workers(self.state, self.names, [self.number_of(name)])[0]

    async def worker(self, name: str) -> t.WorkerView:
        """Return what is known of a worker."""
        return await self.read(lambda: self._worker(name), len(self.state.labels) ** 2)

    async def workers(self, limit: int, after: int) -> t.WorkersPage:
        """Return workers in the order of their first votes."""
        cost = min(limit, len(self.names)) * (ROW_US + len(self.state.labels) ** 2)
        return await self.read(lambda: views.list_workers(self.state, self.names, limit, after), cost)

    async def next(self, worker: str, n: int) -> t.NextAnswer:
        """Return tasks for a worker to vote on, the most valuable first."""
        cells = min(self.state.tasks.waiting, QUEUE_PAGE_TASKS) * len(self.state.labels) ** 2
        return await self.read(lambda: self.queue.next(worker, n), cells // 50 + self.state.tasks.waiting)

    async def waiting(self, person: str | None, n: int) -> list[t.QueueTask]:
        """Return tasks for a person to judge, blind, with their items."""
        audits = self.state.audits
        cost = self.state.tasks.counts()["escalated"] + (0 if audits is None else 10 * len(audits.waiting))
        names = await self.read(lambda: self.people.next(person, n), cost)
        content = [await items.find(self, name) for name in names]
        pairs = zip(names, content, strict=True)
        return [t.QueueTask(task=name, data=None if data is None else msgspec.json.decode(data)) for name, data in pairs]

    async def audits(self) -> t.AuditsView | None:
        """Return what audits say of automatic decisions; None if the policy has none."""

        def view() -> t.AuditsView | None:
            return None if self.state.audits is None else views.view_audits(self.state.audits)

        return await self.read(view, 500)

    async def policies(self) -> list[t.PolicyView]:
        """Return every version of the policy."""
        cost = ROW_US * self.state.version * len(self.state.labels)
        return await self.read(lambda: [views.view_policy(version) for version in self.state.policies], cost)

    async def backtest(self, policy: dict[str, Any] | None, model: str | None) -> t.BacktestAnswer:
        """Return how the past would have gone under another policy or model; it stops where nobody waits for it."""
        await self.on_disk_now()
        stop = threading.Event()
        try:
            work = partial(backtesting.answer, self.campaigns.store, self.number, policy, model, stop)
            return await self.campaigns.in_thread(work)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def refit(self) -> t.RefitAnswer:
        """Begin a refit; it takes effect later, as an event."""
        self.require_open()
        begun = await self.duties.begin_refit()
        if begun:
            self.campaigns.start(self.duties.end_refit())
        position = self.state.refit_read
        await self.on_disk_now()
        return t.RefitAnswer(position, begun)

    def stats(self) -> dict[str, Any]:
        """Return counters, for metrics."""
        audits = self.state.audits  # once: another thread may be folding a policy without them
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
            "listeners": self.tail.listeners,
            "following": int(self.follows is not None),
            "breaker": self.state.breakers.tripped,
            "audits": None if audits is None else views.view_audits(audits),
            "ahead": max(0.0, (self.state.time - self.campaigns.clock.read()) / 1e6),
        }
