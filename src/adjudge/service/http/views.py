"""Views of a campaign for readers: tasks, workers and votes in force, single or in pages, each from one consistent state."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from adjudge.errors import pluralize, quote
from adjudge.service.campaigns.audits import Audits
from adjudge.service.campaigns.crowd import BanRecord, Worker
from adjudge.service.campaigns.decision import CODES, Decision, moment
from adjudge.service.campaigns.policy import PolicyVersion
from adjudge.service.campaigns.reader import Accuracy
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import SETTLED_STATUSES, Answer, Task
from adjudge.service.http import types as t
from adjudge.service.http.errors import Invalid, NotFound
from adjudge.service.http.loading import Names
from adjudge.service.store import events
from adjudge.service.store.events import Event
from adjudge.service.store.store import Store

if TYPE_CHECKING:
    from adjudge.service.http.campaign import Campaign

EXPIRED: Final = "its earlier votes have expired and are deleted; what they decided holds until there are enough new ones"
BOUND_DIGITS: Final = 9  # of bounds of error rates: a bound of 0 is computed to be 1e-17
ROW_US: Final = 20  # microseconds that a vote takes, more or less
LIST_BATCH_EVENTS: Final = 4096  # events
MAX_CONFUSION_CELLS_PER_PAGE: Final = (
    200_000  # of the confusions on one page of workers: with many labels it has fewer lines than asked for
)


def view_campaign(name: str, state: CampaignState, workers: int, archived: int) -> t.CampaignView:
    """Return a campaign as it stands."""
    return t.CampaignView(
        name=name,
        labels=[t.Label(label, shown) for label, shown in zip(state.labels, state.names, strict=True)],
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
        warning=state.describe_stall(),
    )


def view_audits(audits: Audits) -> t.AuditsView:
    """Return what audits say of automatic decisions."""
    wrong, audited, _ = audits.state
    return t.AuditsView(
        share=audits.plan.share,
        error=audits.plan.error,
        decisions=audits.decisions,
        drawn=audits.drawn,
        waiting=audits.count_waiting(),
        audited=audited,
        wrong=wrong,
        expired=audits.expired,
        rate=audits.rate,
        interval=(round(audits.lower_bound, BOUND_DIGITS), round(audits.upper_bound, BOUND_DIGITS)),
        alarm=audits.plan.rule.alarm_level(audits.state),
        alarmed=audits.is_alarmed,
    )


def find_task(state: CampaignState, name: str) -> tuple[Task, Answer, bool]:
    """Return a task, what the votes say of it, and whether it is archived; nothing of the state changes."""
    task = state.tasks.by_name.get(name)
    if task is not None:
        return task, state.answer(name), False
    record = state.find_archived(name)
    if record is None:
        raise NotFound(f"task {quote(name)} is unknown")
    return *record, True


def view_decision(state: CampaignState, name: str) -> Decision:
    """Return what is decided of a task, in memory or archived."""
    task, answer, _ = find_task(state, name)
    return state.decision(task, answer)


def view_task(state: CampaignState, names: Names, name: str) -> t.TaskView:
    """Return a task: what is decided, how likely every label is, and why."""
    known, answer, is_archived = find_task(state, name)
    label, tie, _, gold, likely = answer
    return t.TaskView(
        task=name,
        decision=state.decision(known, answer),
        posterior=dict(zip(state.labels, likely, strict=False)),
        evidence=list(_ballots(state, names, name)),
        why=[*([EXPIRED] if known.expired else []), *state.why(known, answer)],
        gold=state.labels[label] if gold else None,
        tie=tie,
        opened=moment(known.opened),
        touched=moment(known.touched),
        archived=is_archived,
    )


def _ballots(state: CampaignState, names: Names, name: str) -> Iterable[t.Ballot]:
    ballots = state.ballots(name)
    workers = [state.crowd.all[number] for number, _, _ in ballots]
    for (number, label, counts), worker, known in zip(ballots, workers, accuracies(state, workers), strict=True):
        yield t.Ballot(
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


def view_workers(state: CampaignState, names: Names, numbers: Sequence[int]) -> list[t.WorkerView]:
    """Return what is known of workers."""
    known = [state.crowd.all[number] for number in numbers if number in state.crowd.all]
    by_number = {each.number: (each, now) for each, now in zip(known, accuracies(state, known), strict=True)}
    return [
        _worker(state, names, *by_number[number]) if number in by_number else t.WorkerView(worker=names.name(number), votes=0)
        for number in numbers
    ]


def _worker(state: CampaignState, names: Names, known: Worker, accuracy: Accuracy) -> t.WorkerView:
    matrix = None if known.banned or accuracy.mean is None else state.online.state.confusion(known.text)
    confusion = None
    if matrix is not None:
        confusion = {
            true: dict(zip(state.labels, line, strict=True)) for true, line in zip(state.labels, matrix.tolist(), strict=True)
        }
    return t.WorkerView(
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


def _ban(ban: BanRecord) -> t.BanView:
    return t.BanView(
        time=moment(ban.time), votes=ban.votes, accuracy=ban.accuracy, interval=ban.interval, by=ban.by, reason=ban.reason
    )


def iterate_votes(state: CampaignState, names: Names, first: int, page: list[events.Event]) -> Iterable[t.VoteRow]:
    """Return the votes of a page of the log that are in force."""
    for position, event in enumerate(page, first):
        if isinstance(event, (events.Vote, events.Change)) and state.in_force(event, position):
            worker = state.crowd.all[event.worker]
            yield t.VoteRow(
                task=event.task,
                worker=names.name(event.worker),
                label=state.labels[event.label],
                position=position,
                time=moment(event.time),
                id=event.id,
                counts=worker.aside is None or event.task not in worker.aside,
            )


def view_policy(version: PolicyVersion, warning: str | None = None) -> t.PolicyView:
    """Return a version of the policy, and why it decides nothing if that is so."""
    return t.PolicyView(
        version=version.version,
        policy=version.policy.document(),
        position=version.position,
        time=moment(version.time),
        by=version.by,
        note=version.note,
        warning=warning,
    )


def collect_decisions(state: CampaignState, workers: Iterable[int]) -> dict[str, Decision]:
    """Return what is decided of every task in memory that these workers voted on."""
    names: set[str] = set()
    for number in workers:
        known = state.crowd.all.get(number)
        if known is not None:
            names.update(name for name, _ in state.online.state.tasks_of(known.text))
            names.update(name for name in known.aside or () if name in state.tasks.by_name)
    return {name: view_decision(state, name) for name in sorted(names)}


def collect_archived_decisions(state: CampaignState, names: Iterable[str]) -> dict[str, Decision]:
    """Return what is decided of those of some tasks that are archived, and that a ban or an unban changes."""
    return {name: view_decision(state, name) for name in names if state.is_concerned(name)}


def compare_decisions(state: CampaignState, before: dict[str, Decision]) -> list[tuple[Decision, Decision]]:
    """Return the decisions whose status or label is another now, before and after."""
    now = ((was, view_decision(state, name)) for name, was in before.items())
    return [(was, is_) for was, is_ in now if (was.status, was.label) != (is_.status, is_.label)]


def summarize_changes(changes: Iterable[tuple[Decision, Decision]]) -> str:
    """Return how many decisions change, and what they become: a label, or a status without one."""
    after = Counter(now.label if now.status in SETTLED_STATUSES else now.status for _, now in changes)
    parts = ", ".join(f"{count} to {what}" for what, count in after.most_common())
    return f"{pluralize(after.total(), 'change')}{f': {parts}' if parts else ''}"


def list_tasks(state: CampaignState, status: str | None, sort: str, limit: int, after: str | None) -> t.TasksPage:
    """Return tasks in memory in an order, after a cursor."""
    statuses = set(CODES) if status is None else {status}
    page = state.tasks.list_page(statuses, sort, limit=limit, after=None if after is None else decode_cursor(after))
    rows = [view_decision(state, name) for _, name in page]
    return t.TasksPage(rows, encode_cursor(*page[-1]) if len(page) == limit else None)


def encode_cursor(key: float, name: str) -> str:
    """Return the cursor after a task in a list."""
    return base64.urlsafe_b64encode(msgspec.json.encode((key, name))).decode()


def decode_cursor(cursor: str) -> tuple[float, str]:
    """Return key and name of the last task before a cursor."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[float, str])
    except (msgspec.MsgspecError, binascii.Error, ValueError):
        raise Invalid("after is not a cursor: pass the `next` of the previous page") from None


def list_workers(state: CampaignState, names: Names, limit: int, after: int) -> t.WorkersPage:
    """Return workers in the order of their first votes, after a number."""
    limit = min(limit, max(1, MAX_CONFUSION_CELLS_PER_PAGE // len(state.labels) ** 2))
    numbers = names.after(after, limit)
    return t.WorkersPage(view_workers(state, names, numbers), numbers[-1] if len(numbers) == limit else None)


async def list_votes(campaign: Campaign, after: int, limit: int) -> t.VotesPage:
    """Return the votes in force after a position, in the order of the log; those that have expired are not in it."""
    await campaign.on_disk_now()
    store, end = campaign.campaigns.store, campaign.committed
    at = max(after, campaign.state.begins - 1)
    rows: list[t.VoteRow] = []
    while at < end:
        until = min(end, at + LIST_BATCH_EVENTS)
        pages = await campaign.campaigns.in_folding_thread(partial(_pages, store, campaign.number, at, until))
        for first, page in pages:
            rows += await campaign.read(partial(_votes_of, campaign, first, page, limit - len(rows)), ROW_US * len(page))
            if len(rows) == limit:
                return t.VotesPage(rows, rows[-1].position if rows[-1].position < end else None)
        at = until
    return t.VotesPage(rows, None)


def _pages(store: Store, campaign: int, after: int, until: int) -> list[tuple[int, list[Event]]]:
    return list(store.read(campaign, after=after, until=until, skip_expired=True))


def _votes_of(campaign: Campaign, first: int, page: list[Event], limit: int) -> list[t.VoteRow]:
    return list(islice(iterate_votes(campaign.state, campaign.names, first, page), limit))
