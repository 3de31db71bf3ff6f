"""The state of a campaign: a fold over the events of its log.

Nothing here reads a clock, a random number or the network: the same events give the same state, bit for bit, on any machine
and with any number of threads. What takes long (the fit of a refit) may run elsewhere, between the two events that say
where it began and where it took effect.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np

from quorate.data.options import StreamedModel
from quorate.errors import InputError, QuorateError
from quorate.live.breakers import Breakers
from quorate.live.crowd import Crowd, Worker
from quorate.live.decision import Decision, moment
from quorate.live.policy import Policy
from quorate.live.rule import Rule
from quorate.live.settings import Refit, Retention
from quorate.live.standing import EXPERTS_DIFFER, NO_EXPERT, Evidence, Standing
from quorate.live.tasks import SETTLED, Task, Tasks
from quorate.online import KINDS, Online
from quorate.store import events
from quorate.store.archive import Archive

Answer: TypeAlias = tuple[int, bool, int, bool, list[float]]  # label, tie, votes, whether it is gold, probabilities
Touched: TypeAlias = tuple[Task, Answer]
NOTHING: Final[Answer] = (-1, False, 0, False, [])


class PolicyVersion(msgspec.Struct, frozen=True):
    """One version of a campaign's policy, and since when it holds."""

    version: int
    policy: Policy
    position: int
    time: int
    by: str | None = None


class Archived(msgspec.Struct, array_like=True, frozen=True):
    """A task that has left memory."""

    task: Task | None
    answer: Answer  # when it left
    votes: Any  # as the stream takes it back: (worker, label) of every vote first; None: it had none


class CampaignState:
    """Everything that follows from the log of one campaign up to `position`."""

    def __init__(self, created: events.Created, archive: Archive) -> None:
        self.created = created
        self.archive = archive
        self.position, self.time = 0, created.time
        self.labels, self.names = list(created.labels), list(created.names)
        self.codes = {label: code for code, label in enumerate(self.labels)}
        self.online = Online(labels=self.labels, model=cast(StreamedModel, created.model), **created.settings)
        self.online.expect_every_label()  # they were chosen beforehand
        self.kind = KINDS[self.online.settings["confidence"]]
        self.lasting = 2 * self.kind  # the same confidence, by what was measured however long ago
        self.refit, self.retention = Refit.of(created.refit), Retention.of(created.retention)
        self.policies: list[PolicyVersion] = []
        self.tasks, self.crowd = Tasks(), Crowd()
        self.changes: list[Decision] = []  # decisions that the last events made: whoever applies them takes them out
        self.since_refit = 0  # votes learned and taken back
        self.votes = 0  # in force, those kept aside among them
        self.archived_tasks = 0  # that have left memory
        self.refit_read = 0  # where the refit under way has read; 0: none is
        self.refit_under_way: Any = None
        self._dues: list[tuple[int, str]] = []
        self.breakers = Breakers()
        self.policy, self.version = Policy(), 0
        self._adopt_policy(created.policy, created.time, None)

    # --- the fold

    def apply(self, position: int, event: events.Event) -> Touched | None:
        """Fold one event, the one after those before; return the task that it touched, where it is one."""
        if position != self.position + 1:
            raise QuorateError(f"event {position} does not follow event {self.position}: the log has a gap")
        self.position, self.time = position, event.time
        return _FOLDS[type(event)](self, event)

    def _created(self, event: events.Created) -> None:
        if self.position != 1:
            raise QuorateError(f"event {self.position} makes the campaign a second time")

    def _tasks(self, event: events.TasksAdded) -> None:
        for name in event.tasks:
            if self.find(name) is None:
                self._enter(name)

    def _vote(self, event: events.Vote | events.Change) -> Touched:
        name = event.task
        task = self.tasks.by_name.get(name) or self._enter(name)
        worker = self.crowd.all.get(event.worker) or self.crowd.get(event.worker)
        if type(event) is events.Change:
            _note(task, event.worker, self.position)
        else:
            worker.votes += 1
            self.votes += 1
            if task.moved is not None and event.worker in task.moved:
                _note(task, event.worker, self.position)
        if worker.banned or self.on_probation(worker):
            _keep_aside(worker, name, event.label)
            if not worker.banned:
                self._promote(worker)
            return task, self._answer(name)
        self.since_refit += 1
        answer = self.online.state.vote(name, worker.text, event.label, self.kind) or self._renewed(name)
        worker.cast(answer[4][event.label])
        self._settle(task, answer)
        return task, answer

    def _retraction(self, event: events.Retraction) -> Touched:
        name = event.task
        task = self.tasks.by_name.get(name) or self._enter(name)
        worker = self.crowd.get(event.worker)
        if worker.aside is not None and name in worker.aside:
            del worker.aside[name]
        else:
            self.online.state.retract(name, worker.text)
            self.since_refit += 1
        _note(task, event.worker, self.position)
        worker.votes -= 1
        self.votes -= 1
        answer = self._answer(name)
        self._settle(task, answer)
        return task, answer

    def _gold(self, event: events.Gold) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        self.online.state.set_gold(event.task, -1 if event.label is None else event.label)
        answer = self._answer(event.task)
        self._settle(task, answer)
        return task, answer

    def _override(self, event: events.Override) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        answer = self._answer(event.task)
        self._stand(task, answer, self.rule.override(task.standing, event.label, self.time, by=event.by))
        return task, answer

    def _reopen(self, event: events.Reopen) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        answer = self._answer(event.task)
        experts = sum(is_expert for _, _, is_expert in self._ballots(event.task))
        self._stand(task, answer, self.rule.reopen(task.standing, answer[2], self.time, experts=experts))
        return task, answer

    def _policy(self, event: events.PolicySet) -> None:
        self._adopt_policy(event.policy, event.time, event.by)
        for task in self.tasks:
            task.standing = self.rule.adopt(task.standing, self.time)
        if self.policy.probation is None:
            for worker in list(self.crowd.all.values()):
                if worker.aside and not worker.banned:
                    self._take_in(worker)
        self._reconsider(every=True)

    def _ban(self, event: events.Ban) -> None:
        for number in event.workers:
            worker = self.crowd.get(number)
            if worker.banned:
                continue
            worker.banned = True
            for name, label in self.online.state.tasks_of(worker.text):
                _keep_aside(worker, name, label)
                self._take_back(self.tasks.by_name[name], worker)

    def _unban(self, event: events.Unban) -> None:
        for number in event.workers:
            worker = self.crowd.get(number)
            worker.banned = False
            if worker.aside and not self.on_probation(worker):
                self._take_in(worker)

    def _worker(self, event: events.WorkerSet) -> None:
        worker = self.crowd.get(event.worker)
        worker.group = worker.group if event.group is None else event.group
        worker.expert = worker.expert if event.expert is None else event.expert
        if self.rule.needs_votes:
            for name, _ in self.online.state.tasks_of(worker.text):
                self._settle(self.tasks.by_name[name], self._answer(name))

    def _rename(self, event: events.Rename) -> None:
        self.names[event.label] = event.name

    def _label(self, event: events.LabelAdded) -> None:
        self.online.add_label(event.id)
        self.online.renew()  # it is possible from now on
        self.codes[event.id] = len(self.labels)
        self.labels.append(event.id)
        self.names.append(event.name)
        self.rule = Rule(self.policy, self.labels)

    def _erase(self, event: events.Erase) -> None:
        """Change nothing here: names are not part of the state."""

    def _refit_begun(self, event: events.RefitBegun) -> None:
        self.refit_under_way, self.refit_read = self.online.begin_refit(), self.position
        self.since_refit = 0

    def _refit_done(self, event: events.RefitDone) -> None:
        if event.read != self.refit_read or self.refit_under_way is None:
            raise QuorateError(f"event {self.position} ends a refit that read position {event.read}, which no event began")
        self.online.finish_refit(self.refit_under_way)
        self.refit_under_way, self.refit_read = None, 0
        self._reconsider()

    def _tick(self, event: events.Tick) -> None:
        while self._dues and self._dues[0][0] <= self.time:
            due, name = heapq.heappop(self._dues)
            task = self.tasks.by_name.get(name)
            if task is not None and self.rule.due(task.standing) == due:
                answer = self._answer(name)
                self._stand(task, answer, self.rule.tick(task.standing, self.time, breaker=self.breakers.tripped is not None))

    def _sweep(self, event: events.Sweep) -> None:
        leaving = [*_first(self.tasks.settled, event.decided), *_first(self.tasks.waiting, event.others)]
        self.archive.put(self.position, [(name, self._leave(self.tasks.by_name[name])) for name in leaving])

    def _settings(self, event: events.SettingsChanged) -> None:
        if event.refit is not None:
            self.refit = Refit.of(event.refit)
        if event.retention is not None:
            self.retention = Retention.of(event.retention)

    def _breaker_reset(self, event: events.BreakerReset) -> None:
        self.breakers.reset()
        self._reconsider(every=True)

    # --- what readers ask

    def code(self, label: str) -> int | None:
        """Return the code of a label's id, None for an unknown one."""
        return self.codes.get(label)

    def find(self, name: str) -> Task | None:
        """Return a task, from memory or as it was archived, without bringing it back; None for an unknown one."""
        task = self.tasks.by_name.get(name)
        return task if task is not None else (self._archived(name) or _NO_RECORD).task

    def archived(self, name: str) -> tuple[Task, Answer] | None:
        """Return a task that is not in memory, and what the stream said of it when it left."""
        record = self._archived(name)
        return None if record is None or record.task is None else (record.task, record.answer)

    def _archived(self, name: str) -> Archived | None:
        if not self.archive.seen(name):
            return None
        record = self.archive.get(name, self.position)
        return None if record is None else _opened(record)

    def ballots(self, name: str) -> list[tuple[int, int, bool]]:
        """Return (worker, label, whether it counts) of every vote in force on a task."""
        record = None if name in self.tasks.by_name else self._archived(name)
        votes = (self.online.state.votes_of(name) or ()) if record is None else (record.votes or ((),))[0]
        found = [(int(text), label, True) for text, label in votes]
        aside = ((w.number, w.aside[name], False) for w in self.crowd.all.values() if w.aside and name in w.aside)
        return [*found, *aside]

    def has_gold(self, name: str) -> bool:
        """Return whether the true label of a task is known."""
        record = None if name in self.tasks.by_name else self._archived(name)
        return self.answer(name)[3] if record is None else record.answer[3]

    def in_force(self, event: events.Vote | events.Change, position: int) -> bool:
        """Return whether a vote of the log is still in force: not changed, not taken back, its worker not banned."""
        worker = self.crowd.all.get(event.worker)
        if worker is None or worker.banned or self.voted(event.task, event.worker) != event.label:
            return False
        task = self.find(event.task)
        moved = None if task is None else task.moved
        return (moved or {}).get(event.worker, position) == position

    def label_shares(self) -> list[float]:
        """Return how often each label comes, as a share, among the tasks in memory."""
        tasks = self.online.state.measure(False)[3]
        return [number / max(1, sum(tasks)) for number in tasks]

    def votes_in_memory(self) -> int:
        """Return how many votes that count are in memory."""
        votes: int = self.online.state.measure(False)[4]
        return votes

    def voted(self, name: str, worker: int) -> int:
        """Return the label that a worker's vote on a task has, -1 where they have none there."""
        known = self.crowd.all.get(worker)
        if known is None:
            return -1
        if known.aside is not None and (aside := known.aside.get(name)) is not None:
            return aside
        if name not in self.tasks.by_name:
            record = self._archived(name)
            return -1 if record is None else dict((record.votes or ((),))[0]).get(known.text, -1)
        label: int = self.online.state.voted(name, known.text)
        return label

    def answer(self, name: str) -> Answer:
        """Return what the stream says of a task in memory today, for readers: nothing of the state changes."""
        return cast(Answer, self.online.state.predict(name, self.lasting) or NOTHING)

    def decision(self, task: Task, answer: Answer) -> Decision:
        """Return what is decided of a task, as it is told."""
        standing = task.standing
        label = standing.label if standing.label >= 0 else answer[0]
        return Decision(
            task.name,
            self.labels[label] if label >= 0 else None,
            answer[4][label] if label >= 0 and answer[4] else 0.0,
            standing.status,
            answer[2],
            task.version or self.version,
            moment(standing.since or task.opened),
            task.position,
            standing.reason,
            task.flips,
            standing.by,
        )

    def next_due(self) -> int:
        """Return the time at which the clock alone changes a decision next; 0: never."""
        return self._dues[0][0] if self._dues else 0

    def recall(self) -> None:
        """Find again what follows from the tasks: how certain each is, and when the clock changes it."""
        due = ((self.rule.due(task.standing), task.name) for task in self.tasks)
        self._dues = sorted(pair for pair in due if pair[0])
        tasks = list(self.tasks)
        found = self.online.state.predict_many([task.name for task in tasks], self.lasting)
        if found:
            self.tasks.show(tasks, found[0], found[4])

    # --- steps of the fold

    def _adopt_policy(self, document: dict[str, Any], time: int, by: str | None) -> None:
        policy = Policy.of(document)
        self.rule = Rule(policy, self.labels)
        self.policies.append(PolicyVersion(len(self.policies) + 1, policy, max(1, self.position), time, by))
        self.policy, self.version = policy, len(self.policies)

    def _answer(self, name: str) -> Answer:
        """Return what the stream says of a task in memory; what it rests on is measured again where that is due."""
        found = self.online.state.predict(name, self.kind)
        if found is False:
            found = self._renewed(name)
        return cast(Answer, found or NOTHING)

    def _renewed(self, name: str) -> Any:
        self.online.renew_due()
        return self.online.state.predict(name, self.lasting)

    def evidence(self, task: Task, answer: Answer) -> Evidence:
        """Return what the policy looks at."""
        label, tie, votes, gold, likely = answer
        confidence = likely[label] if label >= 0 else 0.0
        found = Evidence(votes, label, confidence, likely, tie, self.time, gold, self.breakers.tripped is not None)
        if self.rule.needs_votes:
            self._look_at_votes(found, self._ballots(task.name))
        return found

    def _ballots(self, name: str) -> list[tuple[int, str | None, bool]]:
        """Return (label, group, whether from an expert) of every vote on a task that counts."""
        workers = self.crowd.all
        votes = ((label, workers[int(text)]) for text, label in self.online.state.votes_of(name) or ())
        return [(label, worker.group, worker.expert) for label, worker in votes]

    def _look_at_votes(self, found: Evidence, ballots: list[tuple[int, str | None, bool]]) -> None:
        """Fill in what only some policies look at: votes by label, by group, and those of experts."""
        counts, groups = [0.0] * len(self.labels), dict[str, list[int]]()
        for label, group, is_expert in ballots:
            counts[label] += 1
            if group is not None:
                groups.setdefault(group, [0] * len(self.labels))[label] += 1
            if is_expert:
                found.experts += 1
                found.expert = label if found.expert in (NO_EXPERT, label) else EXPERTS_DIFFER
        found.counts, found.groups = counts, list(groups.values())

    def _settle(self, task: Task, answer: Answer) -> None:
        """Let the policy look at a task again."""
        self._stand(task, answer, self.rule.decide(task.standing, self.evidence(task, answer)))

    def _stand(self, task: Task, answer: Answer, after: Standing) -> None:
        """Note where a task stands now; a new status or label is a decision."""
        before, task.standing, task.touched = task.standing, after, self.time
        label = after.label if after.label >= 0 else answer[0]
        self.tasks.confidence[task.slot] = answer[4][label] if label >= 0 else 0.0
        if after is before:
            self.tasks.touch(task)
            return
        self.tasks.place(task)
        due = self.rule.due(after)
        if due and due != self.rule.due(before):
            heapq.heappush(self._dues, (due, task.name))
        if after.status == before.status and after.label == before.label:
            return
        task.position, task.version = self.position, self.version
        if after.status in SETTLED and after.label >= 0:
            if task.last >= 0 and task.last != after.label:
                task.flips += 1
            self.breakers.decided(self.policy, after.label, is_flip=task.last >= 0 and task.last != after.label)
            task.last = after.label
        self.changes.append(self.decision(task, answer))

    def _reconsider(self, *, every: bool = False) -> None:
        """Let the policy look at the tasks in memory again: `every` one, or those whose votes are judged otherwise now."""
        tasks = list(self.tasks)
        if not tasks:
            return
        (label, tie, votes, gold, likely), (status, stands, confidence) = self._look(tasks)
        might = np.ones(len(tasks), bool) if every else self.rule.might_change(status, stands, votes, label, confidence, likely)
        for at in np.flatnonzero(might).tolist():
            answer = int(label[at]), bool(tie[at]), int(votes[at]), bool(gold[at]), likely[at].tolist()
            self._settle(tasks[at], answer)

    def _look(self, tasks: list[Task]) -> tuple[Any, Any]:
        """Return what the stream says of these tasks today, and where they stand, after noting how certain they are."""
        names = [task.name for task in tasks]
        found = self.online.state.predict_many(names, self.kind)
        if found is False:
            self.online.renew_due()
            found = self.online.state.predict_many(names, self.lasting)
        return found, self.tasks.show(tasks, found[0], found[4])

    def _enter(self, name: str) -> Task:
        """Take a task into memory: a new one, or one from the archive."""
        record = self._archived(name)
        if record is None or record.task is None:
            task = Task(name, self.time, self.time)
            self.tasks.enter(task)
            return task
        task = record.task
        self.archived_tasks -= 1
        if record.votes is not None:
            self.online.state.bring_back(name, record.votes)
        self.tasks.enter(task)
        due = self.rule.due(task.standing)
        if due:
            heapq.heappush(self._dues, (due, name))
        for text, label in self.online.state.votes_of(name) or ():
            worker = self.crowd.all[int(text)]
            if worker.banned:
                _keep_aside(worker, name, label)
                self.online.state.retract(name, text)
        return task

    def _leave(self, task: Task) -> bytes:
        """Take a task out of memory, and return what the archive keeps of it."""
        answer = self._answer(task.name)
        votes = self.online.state.evict(task.name)
        self.tasks.leave(task)
        self.archived_tasks += 1
        return _PACK.encode(Archived(task, answer, votes))

    def on_probation(self, worker: Worker) -> bool:
        """Return whether the votes of a worker do not count yet."""
        return self.policy.probation is not None and not worker.trusted and not worker.expert

    def _promote(self, worker: Worker) -> bool:
        """Let the votes of a worker count from now on, where enough of them were right."""
        probation = self.policy.probation
        assert probation is not None
        judged = right = 0
        for name, label in (worker.aside or {}).items():
            task = self.tasks.by_name.get(name)
            if task is not None and task.standing.status in SETTLED:
                judged += 1
                right += task.standing.label == label
        if judged < probation.votes or right < probation.accuracy * judged:
            return False
        self._take_in(worker)
        return True

    def _take_in(self, worker: Worker) -> None:
        """Learn the votes that were kept aside."""
        aside, worker.aside, worker.trusted = worker.aside or {}, None, True
        for name, label in aside.items():
            task = self.tasks.by_name.get(name) or self._enter(name)
            answer = self.online.state.vote(name, worker.text, label, self.kind) or self._renewed(name)
            self.since_refit += 1
            self._settle(task, answer)

    def _take_back(self, task: Task, worker: Worker) -> None:
        self.online.state.retract(task.name, worker.text)
        self.since_refit += 1
        self._settle(task, self._answer(task.name))


_PACK: Final = msgspec.msgpack.Encoder()
_UNPACK: Final = msgspec.msgpack.Decoder(Archived)
_NO_RECORD: Final = Archived(None, NOTHING, ((),))


def _opened(record: bytes) -> Archived:
    try:
        return _UNPACK.decode(record)
    except msgspec.MsgspecError as error:
        raise InputError(f"a task in the archive is damaged: {error}") from None


def _keep_aside(worker: Worker, task: str, label: int) -> None:
    if worker.aside is None:
        worker.aside = {}
    worker.aside[task] = label


def _note(task: Task, worker: int, position: int) -> None:
    """Note where a worker's vote in force is, as it is not their first on the task."""
    if task.moved is None:
        task.moved = {}
    task.moved[worker] = position


def _first(names: dict[str, None], number: int) -> list[str]:
    return [name for name, _ in zip(names, range(number), strict=False)]


_FOLDS: Final[dict[type, Callable[[CampaignState, Any], Touched | None]]] = {
    events.Created: CampaignState._created,
    events.TasksAdded: CampaignState._tasks,
    events.Vote: CampaignState._vote,
    events.Change: CampaignState._vote,
    events.Retraction: CampaignState._retraction,
    events.Gold: CampaignState._gold,
    events.PolicySet: CampaignState._policy,
    events.Ban: CampaignState._ban,
    events.Unban: CampaignState._unban,
    events.WorkerSet: CampaignState._worker,
    events.Rename: CampaignState._rename,
    events.LabelAdded: CampaignState._label,
    events.Erase: CampaignState._erase,
    events.Override: CampaignState._override,
    events.Reopen: CampaignState._reopen,
    events.RefitBegun: CampaignState._refit_begun,
    events.RefitDone: CampaignState._refit_done,
    events.Tick: CampaignState._tick,
    events.Sweep: CampaignState._sweep,
    events.SettingsChanged: CampaignState._settings,
    events.BreakerReset: CampaignState._breaker_reset,
}
