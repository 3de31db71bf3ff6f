"""The state of a campaign: a fold over the events of its log.

Nothing here reads a clock, a random number or the network: the same events give the same state, bit for bit, with any
number of threads. What takes long (the fit of a refit) may run elsewhere, between the two events that say where it began
and where it took effect.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, cast

import msgspec
import numpy as np

from adjudge.errors import AdjudgeError
from adjudge.online import Online
from adjudge.service.campaigns.audits import ALARM_CAUSE
from adjudge.service.campaigns.breakers import Breakers
from adjudge.service.campaigns.crowd import BanRecord, Worker
from adjudge.service.campaigns.decision import Standing
from adjudge.service.campaigns.reader import MIN_REBUILT_DUES, StateReader
from adjudge.service.campaigns.rule import Rule
from adjudge.service.campaigns.settings import RefitSettings, Retention
from adjudge.service.campaigns.tally import Tally
from adjudge.service.campaigns.tasks import NO_ANSWER, SETTLED_STATUSES, Answer, Archived, Task
from adjudge.service.store import events
from adjudge.service.store.archive import Record

Touched: TypeAlias = tuple[Task, Answer | None]  # None: readers have to ask the stream
BY_HAND: Final = frozenset({"gold", "override", "audit"})  # reasons of decisions that are neither watched nor audited
CLOSED: Final = SETTLED_STATUSES | {"escalated"}  # what only new votes open again, where the old ones have expired
ACCURACY_TOLERANCE: Final = 1e-9


class CampaignState(StateReader):
    """Everything that follows from the log of one campaign up to `position`.

    - `created`: the first event of the log, which is to be applied like all others.
    - `archive`: where tasks go that leave memory.
    """

    def follow(self, online: Online) -> None:
        """Take a stream for the one that learns the votes."""
        self.online, self.stream = online, online.state

    # --- the fold

    def apply(self, position: int, event: events.Event) -> Touched | None:
        """Fold one event, the one after those before; return the task that it touched, if there is one."""
        if position != self.position + 1:
            raise AdjudgeError(f"event {position} does not follow event {self.position}: the log has a gap")
        self.position, self.time = position, event.time
        return _EVENT_HANDLERS[type(event)](self, event)

    def _created(self, event: events.Created) -> None:
        if self.position != 1:
            raise AdjudgeError(f"event {self.position} makes the campaign a second time")

    def _tasks(self, event: events.TasksAdded) -> None:
        for name in event.tasks:
            if self.find(name) is None:
                self._enter(name)

    def _vote(self, event: events.Vote) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        worker = self.crowd.all.get(event.worker) or self.crowd.get(event.worker)
        worker.votes += 1
        self.votes += 1
        if task.moved is not None and event.worker in task.moved:
            task.moved[event.worker] = self.position
        return self._cast(task, worker, event.label)

    def _change(self, event: events.Change) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        task.note_move(event.worker, self.position)
        return self._cast(task, self.crowd.get(event.worker), event.label)

    def _cast(self, task: Task, worker: Worker, label: int) -> Touched:
        """Learn a vote, or keep it aside."""
        name = task.name
        if worker.banned or (self.policy.probation is not None and not worker.trusted):
            worker.keep_aside(task, label)
            task.touched = self.time
            self.tasks.touch(task)
            self._promote(worker)
            return task, self._answer(name)
        self.since_refit += 1
        tally = self.tallies.get(name) if self.tallies else None
        if tally is not None:
            self._recount(tally, worker, self.stream.voted(name, worker.text), label)
        if worker.expert and self.rule.needs_experts:  # they decide at once, however many votes the task has
            self.stream.learn(name, worker.text, label, False, False)
            answer: Any = self._answer(name)
        else:
            answer = self.stream.vote(name, worker.text, label, self.kind) or self._predict_again(name)
        if answer is True:  # a task of many votes: one of the next ones lets the policy look at it again
            task.touched = self.time
            self.tasks.touch(task)
            return task, None
        worker.cast(answer[4][label])
        after = self.rule.decide(task.standing, self.evidence(task, answer))
        self.stand(task, answer, self.unless_expired(task, answer, after) if task.expired else after)
        return task, answer

    def _retraction(self, event: events.Retraction) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        worker = self.crowd.get(event.worker)
        if worker.aside is not None and event.task in worker.aside:
            worker.drop_aside(task)
        else:
            self._take_out(task, worker, self.stream.voted(event.task, worker.text))
        task.note_move(event.worker, self.position)
        worker.votes -= 1
        self.votes -= 1
        return self._settle(task)

    def _gold(self, event: events.GoldSet) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        self.stream.set_gold(event.task, -1 if event.label is None else event.label)
        return self._settle(task)

    def _override(self, event: events.Override) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        answer = self._answer(event.task)
        self.stand(task, answer, self.rule.override(task.standing, event.label, self.time, by=event.by))
        return task, answer

    def _reopen(self, event: events.Reopen) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        answer = self._answer(event.task)
        experts = self.tally(event.task).experts
        self.stand(task, answer, self.rule.reopen(task.standing, answer[2], self.time, experts=experts))
        return task, answer

    def _audit(self, event: events.AuditAnswer) -> Touched:
        task = self.tasks.by_name.get(event.task) or self._enter(event.task)
        if self.audits is not None:
            self.audits.answer(event.task, event.label, self.breakers)
        answer, before = self._answer(event.task), task.standing
        if before.reason in BY_HAND:  # somebody who saw the task has decided it since
            self.stand(task, answer, before)
            return task, answer
        self.stand(task, answer, self.rule.override(before, event.label, self.time, by=event.by, reason="audit"))
        if (before.status, before.label) == ("decided", event.label):  # a decision of its own all the same
            self._decide(task, answer, before, is_watched=False)
        return task, answer

    def _policy(self, event: events.PolicySet) -> None:
        before = self.policy
        self._adopt_policy(event.policy, event.time, event.by, event.note)
        if self.policy.breakers != before.breakers:
            self.breakers = Breakers()
            self._restart_alarm()
        if self.audits is None:
            self.breakers.release(ALARM_CAUSE)
        for task in self.tasks:
            task.standing = self.rule.adopt(task.standing, self.time)
        self._note_dues()
        for worker in self.crowd.all.values():
            if before.probation is None and worker.votes:  # probation is for those who come from now on
                worker.trusted = True
        self._take_in(*self.crowd.all.values())
        self._reconsider(every=True)

    def _ban(self, event: events.Ban) -> None:
        workers = [worker for number in event.workers if not (worker := self.crowd.get(number)).banned]
        if not workers:
            return
        touched: dict[str, Task] = {}
        self.online.renew_due()
        for worker, known in zip(workers, self._accuracy_by(self._crowd_view(), workers), strict=True):
            worker.banned = True
            worker.ban = BanRecord(self.time, self.position, worker.votes, *known, event.by, event.reason)
            self.unreached.pop(worker.number, None)
            in_memory = self.stream.tasks_of(worker.text)
            if worker.votes > len(in_memory) + len(worker.aside or ()):
                self.unreached[worker.number] = self.position
            for name, label in in_memory:
                task = touched[name] = self.tasks.by_name[name]
                worker.keep_aside(task, label)
                self._take_out(task, worker, label)
        self._settle_all(touched.values())

    def _unban(self, event: events.Unban) -> None:
        touched: dict[str, Task] = {}
        for number in event.workers:
            worker = self.crowd.get(number)
            if not worker.banned:
                continue
            worker.banned, worker.ban = False, None
            self.unreached.pop(number, None)
            if not worker.aside or self.on_probation(worker):
                continue
            worker.trusted = True
            in_memory = {name: task for name in worker.aside if (task := self.tasks.by_name.get(name)) is not None}
            touched.update(in_memory)
            if len(in_memory) < len(worker.aside):
                self.unreached[number] = self.position
        # Task by task, as the archive follows: worker by worker, the first of a ring would be judged without the others.
        for task in touched.values():
            self._meet(task, ())
        self._settle_all(touched.values())

    def _revisit(self, event: events.Revisit) -> None:
        names = [name for name in dict.fromkeys(event.tasks) if self.is_concerned(name)]
        self._settle_all([self._enter(name, settles=False) for name in names])
        for number in event.reached:
            self.unreached.pop(number, None)

    def _worker(self, event: events.WorkerSet) -> None:
        worker = self.crowd.get(event.worker)
        was = worker.group, worker.expert
        worker.group = worker.group if event.group is None else event.group
        worker.expert = worker.expert if event.expert is None else event.expert
        voted = self.stream.tasks_of(worker.text) if self.tallies or self.rule.needs_votes else ()
        for name, label in voted:
            if (tally := self.tallies.get(name)) is not None:
                tally.remove((label, *was))
                tally.add((label, worker.group, worker.expert))
        if worker.expert and not worker.trusted:  # experts need no probation, not even once they are none any more
            worker.trusted = True
            self._take_in(worker)
        if self.rule.needs_votes:
            self._settle_all(self.tasks.by_name[name] for name, _ in self.stream.tasks_of(worker.text))

    def _rename(self, event: events.Rename) -> None:
        self.names[event.label] = event.name

    def _label(self, event: events.LabelAdded) -> None:
        self.online.add_label(event.id)
        self.online.renew()  # it is possible from now on
        self.codes[event.id] = len(self.labels)
        self.labels.append(event.id)
        self.names.append(event.name)
        self.rule = Rule(self.policy, self.labels)

    def _refit_begun(self, event: events.RefitBegun) -> None:
        self.refit_under_way, self.refit_read = self.online.begin_refit(), self.position
        self.since_refit = 0

    def _refit_done(self, event: events.RefitDone) -> None:
        if event.read != self.refit_read or self.refit_under_way is None:
            raise AdjudgeError(f"event {self.position} ends a refit that read position {event.read}, which no event began")
        self.online.finish_refit(self.refit_under_way)
        self.refit_under_way, self.refit_read = None, 0
        self._reconsider()

    def _tick(self, event: events.Tick) -> None:
        self.run_clock(event.time)

    def _sweep(self, event: events.Sweep) -> None:
        leaving = [*self.tasks.oldest(event.decided, settled=True), *self.tasks.oldest(event.others, settled=False)]
        self.archive.put(self.position, [self._leave(self.tasks.by_name[name]) for name in leaving])
        for name in self.tasks.oldest(event.emptied, settled=False):
            self._empty(self.tasks.by_name[name])

    def _truncated(self, event: events.Truncated) -> None:
        self.begins, self.expired = event.until + 1, max(self.expired, event.before)
        self.clock_sets = [(position, time) for position, time in self.clock_sets if position >= self.begins]
        for name in [name for name, (touched, _) in self.away.items() if touched < self.expired]:
            self._forget_aside(name, self.away.pop(name)[1])

    def _settings(self, event: events.SettingsChanged) -> None:
        if event.refit is not None:
            self.refit = RefitSettings.of(event.refit)
        if event.retention is not None:
            self.retention = Retention.of(event.retention)
        if event.image_hosts is not None:
            self.image_hosts = event.image_hosts

    def _breaker_reset(self, event: events.BreakerReset) -> None:
        self.breakers.reset()
        self._restart_alarm()
        self._reconsider(every=True)

    def _restart_alarm(self) -> None:
        if self.audits is not None:
            self.audits.restart_alarm(self.position)

    def _clock_set(self, event: events.ClockSet) -> None:
        """Date what happened later than now, by a clock that was ahead, to now; what lasts a while ends after that while."""
        time = self.time
        self.clock_sets.append((self.position, time))
        self.expired = min(self.expired, time)
        self.policies = [msgspec.structs.replace(each, time=min(each.time, time)) for each in self.policies]
        self.away = {name: (min(touched, time), workers) for name, (touched, workers) in self.away.items()}
        for task in self.tasks:
            task.clamp(self.rule, time)
            self.tasks.opened[task.slot] = task.opened
        if self.audits is not None:
            self.audits.clamp(time)
        self._note_dues()

    def pass_over(self, position: int, event: events.Event) -> None:
        """Go on to an event without folding it: for those who try out what would have been."""
        self.position, self.time = position, event.time

    def run_clock(self, time: int) -> None:
        """Let the clock change what was due up to a time, and nothing else."""
        self.time = time
        while self._dues and self._dues[0][0] <= time:
            due, name = heapq.heappop(self._dues)
            if self.audits is not None:
                self.audits.expire(name, due, self.breakers)
            task = self.tasks.by_name.get(name)
            if task is not None and task.standing.due == due:
                after = self.rule.tick(task.standing, time, breaker=self.breakers.tripped is not None)
                self.stand(task, self._answer(name), after)

    def recall(self) -> None:
        """Find again what follows from the tasks: how certain each is, and when the clock changes it."""
        self._note_dues()
        tasks = list(self.tasks)
        predictions = self.stream.predict_many([task.name for task in tasks], self.lasting)
        if predictions:
            self.tasks.show(tasks, predictions[0], predictions[4])

    # --- steps of the fold

    def _answer(self, name: str) -> Answer:
        """Return what the stream says of a task in memory; what it rests on is measured again where that is due."""
        answer = self.stream.predict(name, self.kind)
        if answer is False:
            answer = self._predict_again(name)
        return cast(Answer, answer or NO_ANSWER)

    def _predict_again(self, name: str) -> Any:
        self.online.renew_due()
        return self.stream.predict(name, self.lasting)

    def _recount(self, tally: Tally, worker: Worker, was: int, label: int) -> None:
        """Count a vote of a worker, in place of the one for the label `was`; -1: they had none, or have none any more."""
        if was >= 0:
            tally.remove((was, worker.group, worker.expert))
        if label >= 0:
            tally.add((label, worker.group, worker.expert))

    def _take_out(self, task: Task, worker: Worker, was: int) -> None:
        """Unlearn the vote of a worker on a task, which was for the label `was`."""
        if (tally := self.tallies.get(task.name)) is not None:
            self._recount(tally, worker, was, -1)
        self.stream.retract(task.name, worker.text)
        self.since_refit += 1

    def _settle(self, task: Task) -> Touched:
        """Let the policy look at a task again; return what the stream says of it."""
        answer = self._answer(task.name)
        self.stand(task, answer, self._judge(task, answer))
        return task, answer

    def _judge(self, task: Task, answer: Answer) -> Standing:
        """Return the standing of a task by the current evidence."""
        after = self.rule.decide(task.standing, self.evidence(task, answer))
        return self.unless_expired(task, answer, after) if task.expired else after

    def unless_expired(self, task: Task, answer: Answer, after: Standing) -> Standing:
        """Return where a task stands whose old votes are deleted: that they are missing does not open it again."""
        if answer[2] >= self.policy.minimum_votes:
            task.expired = False
            return after
        return task.standing if after.status == "open" and task.standing.status in CLOSED else after

    def _settle_all(self, tasks: Iterable[Task]) -> None:
        """Let the policy look at tasks again that a person's act has changed; breakers do not watch that."""
        for task in list(tasks):
            answer = self._answer(task.name)
            self.stand(task, answer, self._judge(task, answer), is_watched=False)

    def stand(self, task: Task, answer: Answer, after: Standing, *, is_watched: bool = True) -> None:
        """Note where a task stands now, and that it was touched; a new status or label is a decision."""
        before, tasks, likely = task.standing, self.tasks, answer[4]
        label = after.label if after.label >= 0 else answer[0]
        task.touched = self.time
        tasks.confidence[task.slot] = likely[label] if label >= 0 and likely else 0.0
        if after is before:
            tasks.touch(task)
            return
        task.standing = after
        tasks.place(task)
        if after.due and after.due != before.due:
            self._note_due(after.due, task.name)
        if after.status != before.status or after.label != before.label:
            self._decide(task, answer, before, is_watched=is_watched)

    def _decide(self, task: Task, answer: Answer, before: Standing, *, is_watched: bool) -> None:
        """Note the decision that a task has come to."""
        after = task.standing
        task.position, task.version = self.position, self.version
        for number in task.aside or ():
            worker = self.crowd.all[number]
            worker.judge((worker.aside or {})[task.name], before, -1)
            worker.judge((worker.aside or {})[task.name], after, 1)
        if after.status in SETTLED_STATUSES and (before.status not in SETTLED_STATUSES or before.label != after.label):
            is_flip = 0 <= task.last != after.label
            task.flips += is_flip
            task.last = after.label
            if is_watched and self.policy.breakers is not None and after.reason not in BY_HAND:
                self._watch(task, is_flip=is_flip)
            if self.audits is not None and after.reason not in BY_HAND:
                due = self.audits.draw(self.created, task.name, label=after.label, position=self.position, time=self.time)
                if due:
                    self._note_due(due, task.name)
        self.changes.append(self.decision(task, answer))

    def _watch(self, task: Task, *, is_flip: bool) -> None:
        limits, label = self.policy.breakers, task.standing.label
        assert limits is not None
        against = 0.0 if limits.disagreement is None else self.tally(task.name).share_against(label)
        self.breakers.note_decision(limits, self.labels, label, against=against, is_flip=is_flip)

    def _reconsider(self, *, every: bool = False) -> None:
        """Let the policy look at the tasks in memory again: `every` one, or those whose votes are judged otherwise now."""
        tasks = list(self.tasks)
        if not tasks:
            return
        (label, tie, votes, gold, likely), (status, stands, confidence) = self._look(tasks)
        might = np.ones(len(tasks), bool) if every else self.rule.might_change(status, stands, votes, label, confidence, likely)
        answers = [
            (tasks[at], (int(label[at]), bool(tie[at]), int(votes[at]), bool(gold[at]), likely[at].tolist()))
            for at in np.flatnonzero(might).tolist()
        ]
        standings = [self._judge(task, answer) for task, answer in answers]
        limits = self.policy.breakers
        if limits is not None and not every:
            flips = sum(task.flips_with(after) for (task, _), after in zip(answers, standings, strict=True))
            self.breakers.check_refit(limits, flips, self.tasks.settled)
            standings = [self._judge(task, answer) for task, answer in answers]
        for (task, answer), after in zip(answers, standings, strict=True):
            if after is not task.standing:
                self.stand(task, answer, after, is_watched=False)

    def _look(self, tasks: list[Task]) -> tuple[Any, Any]:
        """Return what the stream says of these tasks today, and where they stand, after noting how certain they are."""
        names = [task.name for task in tasks]
        predictions = self.stream.predict_many(names, self.kind)
        if predictions is False:
            self.online.renew_due()
            predictions = self.stream.predict_many(names, self.lasting)
        label, tie, votes, gold, likely = predictions
        return (label, tie, np.maximum(votes, 0), gold, likely), self.tasks.show(tasks, label, likely)  # -1: none ever came

    def _note_due(self, due: int, name: str) -> None:
        """Note when the clock changes a task."""
        heapq.heappush(self._dues, (due, name))
        if len(self._dues) > self._max_dues:
            self._note_dues()

    def _note_dues(self) -> None:
        dues = [(task.standing.due, task.name) for task in self.tasks if task.standing.due]
        self._dues = sorted(dues if self.audits is None else dues + self.audits.dues())
        self._max_dues = MIN_REBUILT_DUES + 2 * len(self._dues)

    def _enter(self, name: str, *, settles: bool = True) -> Task:
        """Take a task into memory: a new one, or one from the archive, which meets the bans and unbans since it left.

        With `settles` the policy looks at it again if they change which votes count.
        """
        record = self._find_record(name)
        if record is None:
            task = Task(name, self.time, self.time)
            self.tasks.enter(task)
            return task
        task = record.task
        if task.touched > self.time:  # by a clock that was ahead: the log was set back since
            task.clamp(self.rule, self.time)
        self.archived_tasks -= 1
        self.away.pop(name, None)
        if record.votes is not None:
            self.stream.bring_back(name, record.votes)
        elif record.answer[3]:
            self.stream.set_gold(name, record.answer[0])
        if record.version != self.version:
            task.standing = self.rule.adopt(task.standing, self.time)
        self.tasks.enter(task, record.confidence)
        if task.standing.due:
            self._note_due(task.standing.due, name)
        if self._meet(task, record.ballots) and settles:
            self._settle_all([task])
        return task

    def _meet(self, task: Task, ballots: Iterable[tuple[str, int]]) -> bool:
        """Keep the votes of the banned aside and count those of the unbanned again; return whether there were any."""
        before = self.since_refit
        for text, label in ballots:
            worker = self.crowd.all[int(text)]
            if worker.banned:
                worker.keep_aside(task, label)
                self._take_out(task, worker, label)
        for number in list(task.aside or ()):
            worker = self.crowd.all[number]
            if self.counts(worker):
                self._count_again(worker, task)
        return self.since_refit > before

    def _count_again(self, worker: Worker, task: Task) -> None:
        """Learn a vote that was kept aside."""
        label = worker.drop_aside(task)
        if (tally := self.tallies.get(task.name)) is not None:
            self._recount(tally, worker, -1, label)
        self.stream.learn(task.name, worker.text, label, False, False)
        self.since_refit += 1

    def _leave(self, task: Task) -> Record:
        """Take a task out of memory, and return what the archive keeps of it."""
        self._absent = None
        answer = self._answer(task.name)
        votes = self.stream.evict(task.name)
        self.tasks.leave(task)
        self.tallies.pop(task.name, None)
        self.archived_tasks += 1
        record = Archived(task, answer, votes, self.version)
        if task.touched < self.expired:
            self._forget_aside(task.name, task.aside or ())
            return Record(task.name, record.without_votes().to_bytes(), None)
        if task.aside:
            self.away[task.name] = task.touched, task.aside
        return Record(task.name, record.to_bytes(), task.touched)

    def _empty(self, task: Task) -> None:
        """Delete the votes of a task that stays as it is; what was learned from them stays as well."""
        answer = self._answer(task.name)
        self.stream.evict(task.name)
        self.tallies.pop(task.name, None)
        if answer[3]:
            self.stream.set_gold(task.name, answer[0])
        self._forget_aside(task.name, task.aside or ())
        task.moved, task.aside, task.expired, task.touched = None, None, True, self.time
        self.tasks.touch(task)
        self.tasks.confidence[task.slot] = 0.0

    def _forget_aside(self, name: str, workers: Iterable[int]) -> None:
        """Forget votes that are kept aside; those on probation keep counting as judged or not."""
        for number in workers:
            aside = self.crowd.all[number].aside
            assert aside is not None
            del aside[name]

    def _promote(self, worker: Worker) -> None:
        """Let the votes of a worker count from now on, where enough of them were right."""
        probation = self.policy.probation
        if probation is None or worker.banned or worker.judged < probation.votes:
            return
        if worker.right >= probation.accuracy * worker.judged - ACCURACY_TOLERANCE:
            worker.trusted = True
            self._take_in(worker)

    def _take_in(self, *workers: Worker) -> None:
        """Learn the votes that were kept aside of workers who count now, and then let the policy look at their tasks."""
        touched: dict[str, Task] = {}
        for worker in workers:
            if not worker.aside or worker.banned or self.on_probation(worker):
                continue
            worker.trusted = True
            for name in list(worker.aside):
                task = self.tasks.by_name.get(name)
                if task is None:
                    task = self._enter(name, settles=False)
                else:
                    self._count_again(worker, task)
                touched[name] = task
        for task in touched.values():
            self._settle(task)


_EVENT_HANDLERS: Final[dict[type, Callable[[CampaignState, Any], Touched | None]]] = {
    events.Created: CampaignState._created,
    events.TasksAdded: CampaignState._tasks,
    events.Vote: CampaignState._vote,
    events.Change: CampaignState._change,
    events.Retraction: CampaignState._retraction,
    events.GoldSet: CampaignState._gold,
    events.PolicySet: CampaignState._policy,
    events.Ban: CampaignState._ban,
    events.Unban: CampaignState._unban,
    events.Revisit: CampaignState._revisit,
    events.WorkerSet: CampaignState._worker,
    events.Rename: CampaignState._rename,
    events.LabelAdded: CampaignState._label,
    events.Erase: lambda *_: None,  # names are not part of the state
    events.Override: CampaignState._override,
    events.Reopen: CampaignState._reopen,
    events.AuditAnswer: CampaignState._audit,
    events.RefitBegun: CampaignState._refit_begun,
    events.RefitDone: CampaignState._refit_done,
    events.Tick: CampaignState._tick,
    events.Sweep: CampaignState._sweep,
    events.Truncated: CampaignState._truncated,
    events.SettingsChanged: CampaignState._settings,
    events.BreakerReset: CampaignState._breaker_reset,
    events.ClockSet: CampaignState._clock_set,
}
