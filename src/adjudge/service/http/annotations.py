"""Votes and gold that follow from the annotations of Label Studio.

A webhook changes what is known of some annotations. The votes of every pair of task and worker that it touches, and the
gold of every task, are then derived again from all annotations of theirs that are left. So in any order of webhooks, and
however often, the votes end up as Label Studio has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.state import CampaignState, Touched
from adjudge.service.http.fold import Slice, Steps
from adjudge.service.store import events
from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

R = TypeVar("R")
NO_LABEL: Final = -1  # in place of the code of a label


class WebhookAnnotation(NamedTuple):
    """An annotation as a webhook describes it."""

    annotation: str
    task: str
    worker: str  # name
    label: int | None  # code; None: it is not a vote
    truth: bool
    updated: int | None  # microseconds since 1970


class Skip(NamedTuple):
    """Why nothing came of a part of a webhook."""

    reason: str  # one of a few words, by which skips are counted
    text: str


@dataclass
class Message:
    """What a webhook says."""

    said: list[WebhookAnnotation] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)  # annotations
    deleted_tasks: list[str] = field(default_factory=list)
    skipped: list[Skip] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.said) + len(self.deleted) + len(self.deleted_tasks)


@dataclass
class TaskChange:
    """What a webhook changes of one task."""

    task: str
    rows: list[AnnotationRow] = field(default_factory=list)
    votes: dict[int, int] = field(default_factory=dict)  # by worker: the label, or NONE
    truth: int = NO_LABEL  # the label that Label Studio calls true
    about: AnnotatedTaskRow | None = None  # None: Label Studio never said what is true of it
    is_new: bool = False  # `about` is to be written


@dataclass
class WebhookPlan:
    """What a webhook changes. Workers without a number yet have negative ones."""

    steps: list[TaskChange]
    strangers: list[str]  # names; worker -1 is the first
    repeated: int  # annotations that are known to say this already
    skipped: list[Skip]


@dataclass
class WebhookOutcome:
    """What a webhook has changed."""

    accepted: int = 0
    retracted: int = 0
    decisions: list[Decision] = field(default_factory=list)


def plan(store: Store, campaign: int, message: Message, numbers: Mapping[str, int], now: int) -> WebhookPlan:
    """Return the changes of a webhook, compared with the stored annotations. Reads the store, in any thread.

    - `store`: where annotations are; all that was written must be on disk.
    - `campaign`: its number.
    - `message`: what the webhook says.
    - `numbers`: of workers, by name.
    - `now`: the time, in microseconds since 1970.
    """
    return _Planner(store, campaign, message, numbers, now).plan()


class _Planner:
    def __init__(self, store: Store, campaign: int, message: Message, numbers: Mapping[str, int], now: int) -> None:
        self._index, self._campaign, self._message, self._numbers, self._now = store.annotations, campaign, message, numbers, now
        ids = dict.fromkeys([*(said.annotation for said in message.said), *message.deleted])
        self._rows = {row.annotation: row for row in self._index.find(campaign, ids)}
        for row in self._index.of_tasks(campaign, dict.fromkeys(message.deleted_tasks)):
            self._rows[row.annotation] = row
        tasks = {*(said.task for said in message.said), *(row.task for row in self._rows.values()), *message.deleted_tasks} - {""}
        self._about = {row.task: row for row in self._index.find_tasks(campaign, tasks)}
        self._truths = {row.task: row for row in self._index.find_truths(campaign, tasks)}
        self._rows.update((row.annotation, row) for row in self._truths.values())
        self._changed: dict[str, None] = {}  # annotations whose rows are to be written
        self._changed_tasks: set[str] = set()
        self._touched: dict[tuple[str, int], None] = {}  # pairs of task and worker
        self._strangers: dict[str, int] = {}
        self._skipped = list(message.skipped)
        self._repeated = 0

    def plan(self) -> WebhookPlan:
        for said in self._message.said:
            self._say(said)
        for annotation in self._message.deleted:
            self._delete(annotation)
        for task in self._message.deleted_tasks:
            self._delete_task(task)
        return WebhookPlan(list(self._steps()), list(self._strangers), self._repeated, self._skipped)

    def _say(self, said: WebhookAnnotation) -> None:
        """Note what an annotation says, unless a later version of it is known."""
        row = self._rows.get(said.annotation)
        about = self._about.get(said.task)
        if (row is not None and row.deleted) or (about is not None and about.deleted):
            self._skip("deleted", f"annotation {said.annotation} was deleted before")
            return
        updated = said.updated if said.updated is not None else row.updated if row is not None else 0
        is_true = said.truth and self._claim(said, updated)
        if row is not None:
            self._touched[row.task, row.worker] = None
            if updated < row.updated:
                self._skip("stale", f"annotation {said.annotation} has changed since")
                return
        new = AnnotationRow(
            self._campaign, said.annotation, said.task, self._worker(said), said.label, is_true, False, updated, self._now
        )
        if row is not None and new._replace(seen=row.seen) == row:
            self._repeated += 1
            return
        self._put(new)

    def _claim(self, said: WebhookAnnotation, updated: int) -> bool:
        """Return whether an annotation is the ground truth of its task. Label Studio silently withdraws the one before."""
        about = self._about.get(said.task) or AnnotatedTaskRow(self._campaign, said.task, None, updated, False, self._now)
        if updated < about.claimed:
            return False
        if said.task not in self._about or updated > about.claimed:
            self._put_task(about._replace(claimed=updated))
        truth = self._truths.get(said.task)
        if truth is not None and truth.annotation != said.annotation:
            self._put(truth._replace(truth=False))
        return True

    def _delete(self, annotation: str) -> None:
        row = self._rows.get(annotation)
        if row is None:
            self._skip("unknown", f"annotation {annotation} was deleted, and never taken")
            self._put(AnnotationRow(self._campaign, annotation, "", 0, None, False, True, 0, self._now))
        elif row.deleted:
            self._skip("deleted", f"annotation {annotation} was deleted before")
        else:
            self._touched[row.task, row.worker] = None
            self._put(row._replace(worker=0, label=None, truth=False, deleted=True))

    def _delete_task(self, task: str) -> None:
        about = self._about.get(task) or AnnotatedTaskRow(self._campaign, task, None, 0, False, self._now)
        annotations = [row.annotation for row in self._rows.values() if row.task == task and not row.deleted]
        if not annotations:
            self._skip("unknown", f"task {task} was deleted, and has no annotation that is known")
        for annotation in annotations:
            self._delete(annotation)
        if not about.deleted:
            self._put_task(about._replace(deleted=True))

    def _put(self, row: AnnotationRow) -> None:
        self._rows[row.annotation] = row._replace(seen=self._now)
        self._changed[row.annotation] = None
        if row.worker:
            self._touched[row.task, row.worker] = None
        if row.truth:
            self._truths[row.task] = row
        elif (truth := self._truths.get(row.task)) is not None and truth.annotation == row.annotation:
            del self._truths[row.task]

    def _put_task(self, row: AnnotatedTaskRow) -> None:
        self._about[row.task] = row._replace(seen=self._now)
        self._changed_tasks.add(row.task)

    def _worker(self, said: WebhookAnnotation) -> int:
        number = self._numbers.get(said.worker)
        if number is None and said.label is None:
            return 0  # nobody becomes known who has not voted
        return self._strangers.setdefault(said.worker, -1 - len(self._strangers)) if number is None else number

    def _skip(self, reason: str, text: str) -> None:
        self._skipped.append(Skip(reason, text))

    def _steps(self) -> Iterator[TaskChange]:
        pairs = [(task, worker) for task, worker in self._touched if worker]
        for row in self._index.of_pairs(self._campaign, [(task, worker) for task, worker in pairs if worker > 0]):
            self._rows.setdefault(row.annotation, row)
        newest: dict[tuple[str, int], AnnotationRow] = {}
        for row in self._rows.values():
            if row.label is not None and not row.truth and not row.deleted:
                pair = row.task, row.worker
                if pair not in newest or _age(row) > _age(newest[pair]):
                    newest[pair] = row
        steps: dict[str, TaskChange] = {}
        for annotation in self._changed:
            row = self._rows[annotation]
            _step(steps, row.task).rows.append(row)
        for task, worker in pairs:
            vote = newest.get((task, worker))
            _step(steps, task).votes[worker] = NO_LABEL if vote is None or vote.label is None else vote.label
        for task in {*steps, *self._changed_tasks}:
            if (about := self._about.get(task)) is not None:
                step, truth = _step(steps, task), self._truths.get(task)
                step.about, step.is_new = about, task in self._changed_tasks
                step.truth = NO_LABEL if truth is None or truth.label is None else truth.label
        yield from steps.values()


def _step(steps: dict[str, TaskChange], task: str) -> TaskChange:
    return steps.setdefault(task, TaskChange(task))


def _age(row: AnnotationRow) -> tuple[int, int, str]:
    """Return by what annotations of one worker on one task are ordered: the time, then the number that Label Studio gave."""
    return row.updated, len(row.annotation), row.annotation


def folding(campaign: Campaign, planned: WebhookPlan, may_set_gold: Callable[[], None]) -> Steps[WebhookOutcome]:
    """Make votes and gold what a plan says, all or nothing, and have that written; a piece of work for `Campaign.in_turn`.

    - `campaign`: whose votes they are.
    - `planned`: the changes.
    - `may_set_gold`: called before anything is changed if gold changes; raises if it may not.
    """
    campaign.require_open()
    changes, pace = _Changes(campaign, planned.strangers), Slice()
    state, first = campaign.state, campaign.position + 1
    for step in planned.steps:
        if step.about is not None and gold_change(state, step) is not None:
            may_set_gold()
            break
        yield from campaign.pause(state, pace)
    with campaign.whole():
        for step in planned.steps:
            yield from changes.fold(step, pace)
            yield from campaign.pause(state, pace)
        rows = yield from campaign.encode_decisions(state, pace)
    campaign.write(first, changes.events, rows, changes.workers, annotations=changes.annotations, annotated_tasks=changes.tasks)
    campaign.accepted += changes.outcome.accepted
    campaign.retracted += changes.outcome.retracted
    return changes.outcome


class _Changes:
    """What a plan changes, folded step by step: the events, and the rows that are written with them."""

    def __init__(self, campaign: Campaign, strangers: list[str]) -> None:
        self._campaign, self._state, self._strangers = campaign, campaign.state, strangers
        self._time = campaign.now()
        self.events: list[events.Event] = []
        self.workers: list[tuple[int, str]] = []
        self.annotations: list[AnnotationRow] = []
        self.tasks: list[AnnotatedTaskRow] = []
        self.outcome = WebhookOutcome()

    def _number(self, worker: int) -> int:
        return self._campaign.enlist(self._strangers[-1 - worker], self.workers) if worker < 0 else worker

    def _apply(self, event: events.Event) -> Steps[Touched]:
        touched = yield from self._campaign.applying(event)
        assert touched is not None
        self.events.append(event)
        return touched

    def fold(self, step: TaskChange, pace: Slice) -> Steps[None]:
        """Fold what changes of a task, which may have all votes of the webhook."""
        touched: Touched | None = None
        about = step.about
        if about is not None and step.truth != NO_LABEL:
            about, touched = yield from self._fold_gold(step, about)
        for worker, label in step.votes.items():
            number = self._number(worker)
            was = self._state.voted(step.task, number)
            if was == label:
                continue
            if label == NO_LABEL:
                event: events.Event = events.Retraction(time=self._time, task=step.task, worker=number)
                self.outcome.retracted += 1
            else:
                kind = events.Vote if was == NO_LABEL else events.Change
                event = kind(time=self._time, task=step.task, worker=number, label=label)
                self.outcome.accepted += 1
            touched = yield from self._apply(event)
            yield from self._campaign.pause(self._state, pace)
        if about is not None and step.truth == NO_LABEL:  # after the vote that the annotation may have become
            about, withdrawn = yield from self._fold_gold(step, about)
            touched = withdrawn or touched
        self.annotations += [row._replace(worker=self._number(row.worker)) if row.worker < 0 else row for row in step.rows]
        if about is not None and (step.is_new or about != step.about):
            self.tasks.append(about)
        if touched is not None:
            self.outcome.decisions.append(self._campaign.decision_of(touched[0].name, touched[1]))

    def _fold_gold(self, step: TaskChange, about: AnnotatedTaskRow) -> Steps[tuple[AnnotatedTaskRow, Touched | None]]:
        """Set gold to Label Studio's ground truth; return the updated row and the touched task."""
        change = gold_change(self._state, step)
        if change is None:
            is_ours = about.gold is not None and about.gold == step.truth
            return (about if is_ours else about._replace(gold=None)), None
        label = None if change == NO_LABEL else change
        touched = yield from self._apply(events.GoldSet(time=self._time, task=step.task, label=label))
        return about._replace(gold=label), touched


def gold_change(state: CampaignState, step: TaskChange) -> int | None:
    """Return the label that the gold of a task becomes, NO_LABEL if it is withdrawn; None if it stays.

    Gold that somebody else has set is replaced by a ground truth of Label Studio that differs, and never withdrawn.
    """
    current = state.gold_of(step.task)
    if step.truth != NO_LABEL:
        return None if current == step.truth else step.truth
    is_ours = step.about is not None and step.about.gold is not None and step.about.gold == current
    return NO_LABEL if is_ours else None


async def forget_old(campaign: Campaign, before: int) -> None:
    """Delete what is known of annotations last seen before a time whose votes have expired.

    - `campaign`: which this process writes.
    - `before`: the time, in microseconds since 1970.
    """
    store, number = campaign.campaigns.store, campaign.number
    async with campaign.annotating:
        await campaign.campaigns.commit()
        annotations, tasks = store.annotations.seen_before(number, before), store.annotations.tasks_seen_before(number, before)
        while rows := await asyncio.to_thread(next, annotations, None):
            gone = await campaign.in_turn(_select(campaign, rows, _is_over))
            await campaign.campaigns.in_writer(store.annotations.remove, number, [row.annotation for row in gone], [])
        while about := await asyncio.to_thread(next, tasks, None):
            over = await campaign.in_turn(_select(campaign, about, _is_task_over))
            await campaign.campaigns.in_writer(store.annotations.remove, number, [], [row.task for row in over])


def _select(campaign: Campaign, rows: list[R], holds: Callable[[CampaignState, R], bool]) -> Steps[list[R]]:
    """Return the rows of which something holds, in slices."""
    selected, pace = [], Slice()
    for row in rows:
        if holds(campaign.state, row):
            selected.append(row)
        if pace.is_over():
            yield None
            pace.begin()
    return selected


def _is_over(state: CampaignState, row: AnnotationRow) -> bool:
    """Return whether an annotation that was not seen for long is of no use any more."""
    counts = state.gold_of(row.task) >= 0 if row.truth else state.voted(row.task, row.worker) >= 0
    return row.deleted or not counts


def _is_task_over(state: CampaignState, row: AnnotatedTaskRow) -> bool:
    return row.gold is None or row.gold != state.gold_of(row.task)
