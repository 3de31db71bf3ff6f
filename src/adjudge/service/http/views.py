"""What readers are told of a campaign: tasks, workers, votes in force, each from one consistent state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from adjudge.errors import quote
from adjudge.service.campaigns.archived import Answer
from adjudge.service.campaigns.crowd import BanRecord, Worker
from adjudge.service.campaigns.decision import Decision, moment
from adjudge.service.campaigns.policy import PolicyVersion
from adjudge.service.campaigns.readable import Accuracy
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import Task
from adjudge.service.http.errors import NotFound
from adjudge.service.http.names import Names
from adjudge.service.http.types import Ballot, BanView, CampaignView, Label, PolicyView, TaskView, VoteRow, WorkerView
from adjudge.service.store import events

EXPIRED: Final = "its earlier votes have expired and are deleted; what they decided holds until there are enough new ones"


def campaign(name: str, state: CampaignState, workers: int, archived: int) -> CampaignView:
    """Return a campaign as it stands."""
    return CampaignView(
        name=name,
        labels=[Label(label, shown) for label, shown in zip(state.labels, state.names, strict=True)],
        model=state.created.model,  # type: ignore[arg-type]
        policy=state.version,
        settings=state.created.settings,
        refit=state.refit.document(),
        retention=state.retention.document(),
        image_hosts=state.image_hosts,
        position=state.position,
        begins=state.begins,
        votes=state.votes,
        workers=workers,
        tasks=state.tasks.counts(),
        archived=archived,
        breaker=state.breakers.tripped,
    )


def standing(state: CampaignState, name: str) -> tuple[Task, Answer, bool]:
    """Return a task, what the votes say of it, and whether it is archived; nothing of the state changes."""
    task = state.tasks.by_name.get(name)
    if task is not None:
        return task, state.answer(name), False
    found = state.archived(name)
    if found is None:
        raise NotFound(f"task {quote(name)} is unknown")
    return *found, True


def decision(state: CampaignState, name: str) -> Decision:
    """Return what is decided of a task, in memory or archived."""
    task, answer, _ = standing(state, name)
    return state.decision(task, answer)


def task(state: CampaignState, names: Names, name: str) -> TaskView:
    """Return a task: what is decided, how likely every label is, and why."""
    known, answer, is_archived = standing(state, name)
    label, tie, _, gold, likely = answer
    return TaskView(
        task=name,
        decision=state.decision(known, answer),
        posterior=dict(zip(state.labels, likely, strict=False)),
        evidence=list(_ballots(state, names, name)),
        why=[*([EXPIRED] if known.expired else []), *state.rule.why(known.standing, state.evidence(known, answer))],
        gold=state.labels[label] if gold else None,
        tie=tie,
        opened=moment(known.opened),
        touched=moment(known.touched),
        archived=is_archived,
    )


def _ballots(state: CampaignState, names: Names, name: str) -> Iterable[Ballot]:
    ballots = state.ballots(name)
    workers = [state.crowd.all[number] for number, _, _ in ballots]
    for (number, label, counts), worker, known in zip(ballots, workers, accuracies(state, workers), strict=True):
        yield Ballot(
            worker=names.name(number),
            label=state.labels[label],
            counts=counts,
            accuracy=known.mean,
            group=worker.group,
            expert=worker.expert,
        )


def accuracies(state: CampaignState, workers: Sequence[Worker]) -> list[Accuracy]:
    """Return how often workers are right; of the banned, how often they were when they were banned."""
    return [
        now if each.ban is None else Accuracy(each.ban.accuracy, each.ban.interval)
        for each, now in zip(workers, state.accuracy_of(workers), strict=True)
    ]


def workers(state: CampaignState, names: Names, numbers: Sequence[int]) -> list[WorkerView]:
    """Return what is known of workers."""
    known = [state.crowd.all[number] for number in numbers if number in state.crowd.all]
    found = {each.number: (each, now) for each, now in zip(known, accuracies(state, known), strict=True)}
    return [
        _worker(state, names, *found[number]) if number in found else WorkerView(worker=names.name(number), votes=0)
        for number in numbers
    ]


def _worker(state: CampaignState, names: Names, known: Worker, accuracy: Accuracy) -> WorkerView:
    matrix = None if known.banned or accuracy.mean is None else state.online.state.confusion(known.text)
    confusion = None
    if matrix is not None:
        confusion = {
            true: dict(zip(state.labels, line, strict=True)) for true, line in zip(state.labels, matrix.tolist(), strict=True)
        }
    return WorkerView(
        worker=names.name(known.number),
        votes=known.votes,
        accuracy=accuracy.mean,
        interval=accuracy.interval,
        confusion=confusion,
        recent=known.recent if known.seen else None,
        drift=known.recent - known.usual if known.seen else None,
        group=known.group,
        expert=known.expert,
        banned=known.banned,
        ban=None if known.ban is None else _ban(known.ban),
        probation=state.on_probation(known),
    )


def _ban(ban: BanRecord) -> BanView:
    return BanView(
        time=moment(ban.time), votes=ban.votes, accuracy=ban.accuracy, interval=ban.interval, by=ban.by, reason=ban.reason
    )


def votes_in_force(state: CampaignState, names: Names, first: int, page: list[events.Event]) -> Iterable[VoteRow]:
    """Return the votes of a page of the log that are in force."""
    for position, event in enumerate(page, first):
        if isinstance(event, (events.Vote, events.Change)) and state.in_force(event, position):
            worker = state.crowd.all[event.worker]
            yield VoteRow(
                task=event.task,
                worker=names.name(event.worker),
                label=state.labels[event.label],
                position=position,
                time=moment(event.time),
                id=event.id,
                counts=worker.aside is None or event.task not in worker.aside,
            )


def policy(version: PolicyVersion) -> PolicyView:
    """Return a version of the policy."""
    return PolicyView(
        version=version.version,
        policy=version.policy.document(),
        position=version.position,
        time=moment(version.time),
        by=version.by,
        note=version.note,
    )


def before(state: CampaignState, workers: Iterable[int]) -> dict[str, Decision]:
    """Return what is decided of every task in memory that these workers voted on."""
    names: set[str] = set()
    for number in workers:
        known = state.crowd.all.get(number)
        if known is not None:
            names.update(name for name, _ in state.online.state.tasks_of(known.text))
            names.update(name for name in known.aside or () if name in state.tasks.by_name)
    return {name: decision(state, name) for name in sorted(names)}


def archived_before(state: CampaignState, names: Iterable[str]) -> dict[str, Decision]:
    """Return what is decided of those of some tasks that are archived, and that a ban or an unban changes."""
    return {name: decision(state, name) for name in names if state.is_concerned(name)}


def changed(state: CampaignState, before: dict[str, Decision]) -> list[tuple[Decision, Decision]]:
    """Return the decisions whose status or label is another now, before and after."""
    now = ((was, decision(state, name)) for name, was in before.items())
    return [(was, is_) for was, is_ in now if (was.status, was.label) != (is_.status, is_.label)]
