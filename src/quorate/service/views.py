"""What readers are told of a campaign: tasks, workers, votes in force, each from one consistent state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import polars as pl

from quorate.errors import shown
from quorate.live.archived import Answer
from quorate.live.decision import Decision, moment
from quorate.live.state import CampaignState, PolicyVersion
from quorate.live.tasks import Task
from quorate.service.errors import NotFound
from quorate.service.names import Names
from quorate.service.types import Ballot, CampaignView, Label, PolicyView, TaskView, VoteRow, WorkerView
from quorate.store import events

if TYPE_CHECKING:
    from quorate.live.crowd import Worker


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
        raise NotFound(f"task {shown(name)} is unknown")
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
    for number, label, counts in state.ballots(name):
        worker = state.crowd.all[number]
        yield Ballot(
            worker=names.name(number),
            label=state.labels[label],
            counts=counts,
            accuracy=accuracy(state, worker),
            group=worker.group,
            expert=worker.expert,
        )


def accuracy(state: CampaignState, worker: Worker) -> float | None:
    """Return how often a worker is right, as far as the stream knows: by true label, weighed by how often each comes."""
    matrix = state.online.state.confusion(worker.text)
    if matrix is None:
        return None
    shares = state.label_shares()
    return float(sum(share * matrix[c, c] for c, share in enumerate(shares)))


def worker(state: CampaignState, names: Names, number: int, intervals: pl.DataFrame | None = None) -> WorkerView:
    """Return what is known of a worker; `intervals` are those of the last refit."""
    known = state.crowd.get(number) if number in state.crowd.all else None
    if known is None:
        return WorkerView(worker=names.name(number), votes=0)
    matrix = state.online.state.confusion(known.text)
    confusion = None
    if matrix is not None:
        confusion = {
            true: dict(zip(state.labels, line, strict=True)) for true, line in zip(state.labels, matrix.tolist(), strict=True)
        }
    return WorkerView(
        worker=names.name(number),
        votes=known.votes,
        accuracy=accuracy(state, known),
        interval=None if intervals is None else _interval(intervals, known.text),
        confusion=confusion,
        recent=known.recent if known.seen else None,
        drift=known.recent - known.usual if known.seen else None,
        group=known.group,
        expert=known.expert,
        banned=known.banned,
        probation=state.on_probation(known),
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
    )


def before(state: CampaignState, workers: Iterable[int]) -> dict[str, Decision]:
    """Return what is decided of every task in memory that these workers voted on."""
    names: set[str] = set()
    for number in workers:
        known = state.crowd.all.get(number)
        if known is not None:
            names.update(name for name, _ in state.online.state.tasks_of(known.text))
            names.update(known.aside or ())
    return {name: decision(state, name) for name in sorted(names)}


def changed(state: CampaignState, before: dict[str, Decision]) -> list[tuple[Decision, Decision]]:
    """Return the decisions whose status or label is another now, before and after."""
    now = ((was, decision(state, name)) for name, was in before.items())
    return [(was, is_) for was, is_ in now if (was.status, was.label) != (is_.status, is_.label)]


def _interval(intervals: pl.DataFrame, text: str) -> tuple[float, float] | None:
    """Return the interval that holds a worker's accuracy with a chance of .9."""
    line = intervals.filter(pl.col("worker") == text)
    return None if line.is_empty() else (line["accuracy_low"][0], line["accuracy_high"][0])
