"""Replays: the state of a campaign from its log alone, and whether what was recorded along the way agrees with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from adjudge.errors import AdjudgeError, InputError, quote
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.campaigns.tasks import Archived
from adjudge.service.store import events
from adjudge.service.store.archive import CopiedArchive, MemoryArchive, StoreArchive
from adjudge.service.store.batch import DecisionRow
from adjudge.service.store.errors import DamagedStore
from adjudge.service.store.events import Created, Event
from adjudge.service.store.log import Base
from adjudge.service.store.store import Store, archive_row

T = TypeVar("T")
_DECISION_DECODER: Final = msgspec.json.Decoder(Decision)


class ReplayDifference(msgspec.Struct, frozen=True):
    """The first difference between a replay and the recorded data.

    - `position`: of the event in the log.
    - `what`: a sentence.
    - `task`: the task whose decision differs, if it is a decision.
    """

    position: int
    what: str
    task: str | None = None


class Checked(msgspec.Struct, frozen=True):
    """What a check of a campaign found.

    - `position`: up to which the log was replayed.
    - `decisions`: how many decisions were recorded, and compared.
    - `digest`: of the replayed state: equal for equal states alone.
    - `snapshot`: the position of the snapshot that was compared as well; None where there is none.
    - `difference`: the first one; None where there is none.
    - `base`: the position of the state that the replay began with; 0 where it began with the first event.
    - `begins`: the first position of the log that is kept: 1 if no vote has expired.
    """

    position: int
    decisions: int
    digest: str
    snapshot: int | None = None
    difference: ReplayDifference | None = None
    base: int = 0
    begins: int = 1


def replay(store: Store, campaign: int, *, until: int | None = None) -> CampaignState:
    """Return the state that follows from a log, from its first event on; snapshots are not used.

    Where the first events have expired and are deleted, the log begins with a base, and so does the replay.

    - `store`: has the log.
    - `campaign`: its number.
    - `until`: the last position that is applied; None: all of it.

    >>> import tempfile
    >>> from adjudge.service.store.batch import Batch
    >>> from adjudge.service.store.events import Created, Vote
    >>> from adjudge.service.store.opening import open_store
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = open_store(folder.name + "/votes.db")
    >>> batch, number = Batch(), store.create_campaign("spam")
    >>> batch.extend(number, 1, [Created(time=1, labels=["spam", "ok"], names=["Spam", "Fine"], model="fds")])
    >>> batch.extend(number, 2, [Vote(time=2, task="t1", worker=1, label=0)])
    >>> store.write(batch)
    >>> state = replay(store, number)
    >>> state.position, state.votes, state.tasks.counts()["open"]
    (2, 1, 1)
    >>> check(store, number).difference is None
    True
    >>> store.close(); folder.cleanup()
    """

    def fold(base: Base | None) -> CampaignState:
        state = _begin(store, campaign, base)
        if until is not None and state.position > until:
            begins = f"the log of campaign {campaign} begins with the state at position {state.position}"
            raise InputError(f"until is {until}: {begins}")
        fold_log(store, campaign, state, until)
        return state

    return store.repeat_with_base(campaign, fold)


def fold_log(store: Store, campaign: int, state: CampaignState, until: int | None = None) -> None:
    """Fold the log after the position of a state, up to another position; None: all of it. Decisions are dropped."""
    for first, page in store.read(campaign, after=state.position, until=until):
        for position, event in enumerate(page, first):
            state.apply(position, event)
        state.changes.clear()


def _begin(store: Store, campaign: int, base: Base | None) -> CampaignState:
    """Return the state that a log begins with: its base, or the state before its first event."""
    if base is not None:
        saved, archived, _ = snapshot.unbundle(store.bases.data(base))
        return snapshot.from_bytes(saved, CopiedArchive(StoreArchive(store, campaign, lambda _: None, archived)))
    for position, event in events_of(store, campaign, until=1):
        if position != 1 or not isinstance(event, Created):
            what = f"{type(event).__name__} at position {position}"
            raise AdjudgeError(f"the log begins with {what}, not with Created at position 1")
        return CampaignState(event, MemoryArchive())
    raise InputError(f"campaign {campaign} has no events: there is nothing to replay")


def events_of(store: Store, campaign: int, *, after: int = 0, until: int | None = None) -> Iterator[tuple[int, Event]]:
    """Yield position and event of a log, in order.

    - `store`: has the log.
    - `campaign`: its number.
    - `after`: the position before the first that is wanted.
    - `until`: the last one; None: all.
    """
    for first, page in store.read(campaign, after=after, until=until):
        yield from enumerate(page, first)


def check(store: Store, campaign: int) -> Checked:
    """Replay a log, and compare every decision that was recorded with the one that is made now.

    The state from the newest snapshot and the log behind it is compared with the replayed one, too.

    - `store`: has the log.
    - `campaign`: its number.
    """
    return store.repeat_with_base(campaign, lambda base: _check(store, campaign, base))


def _check(store: Store, campaign: int, base: Base | None) -> Checked:
    """Replay the log from its base on, and compare."""
    state = _begin(store, campaign, base)
    start, end = state.position, store.last(campaign)
    recorded = _Recorded(store, campaign, start)
    for position, event in events_of(store, campaign, after=start, until=end):
        state.apply(position, event)
        recorded.compare(position, state.changes)
        state.changes.clear()
    recorded.end(end)
    snapshot_at, difference = None, recorded.difference or _unlike_archive(store, campaign, state, start, end)
    newest = store.snapshots(campaign).latest(until=end)
    if newest is not None and newest[0] >= start:
        snapshot_at = newest[0]
        difference = difference or _difference(state, _restore(store, campaign, newest[1], end), snapshot_at)
    digest, begins = snapshot.digest(state), store.begins(campaign)
    return Checked(state.position, recorded.number, digest, snapshot_at, difference, start, begins)


class _Recorded:
    """The decisions that a store has, compared with others one by one."""

    def __init__(self, store: Store, campaign: int, after: int) -> None:
        self._rows = store.decisions(campaign, after=after)
        self._next: DecisionRow | None = next(self._rows, None)
        self.number = 0
        self.difference: ReplayDifference | None = None

    def compare(self, position: int, made: list[Decision]) -> None:
        """Compare the decisions that an event made with those recorded of it."""
        for decision in made:
            row = self._take(position)
            if row is None:
                self._note(position, f"the decision of task {quote(decision.task)} is not recorded", decision.task)
            elif (what := _unequal(decision, _DECISION_DECODER.decode(row.body))) is not None:
                self._note(position, f"the decision of task {quote(decision.task)} is recorded otherwise: {what}", decision.task)
        self.end(position)

    def end(self, position: int) -> None:
        """Note decisions up to a position that were recorded, and not made."""
        while (row := self._take(position)) is not None:
            self._note(row.position, f"a decision of task {quote(row.task)} is recorded that is not made", row.task)

    def _take(self, position: int) -> DecisionRow | None:
        row = self._next
        if row is None or row.position > position:
            return None
        self._next = next(self._rows, None)
        self.number += 1
        return row

    def _note(self, position: int, what: str, task: str) -> None:
        self.difference = self.difference or ReplayDifference(position, what, task)


def _unequal(made: Decision, recorded: Decision) -> str | None:
    """Return in words which field of two decisions differs first; None where they are equal."""
    for field in Decision.__struct_fields__:
        now, then = getattr(made, field), getattr(recorded, field)
        if now != then:
            return f"{field} is {quote(now)}, and was {quote(then)}"
    return None


def _restore(store: Store, campaign: int, data: bytes, end: int) -> CampaignState:
    """Return the state from a snapshot and the log behind it."""
    saved, archived, _ = snapshot.unbundle(data)
    state = snapshot.from_bytes(saved, StoreArchive(store, campaign, lambda _: None, archived))
    fold_log(store, campaign, state, end)
    return state


def _unlike_archive(store: Store, campaign: int, state: CampaignState, start: int, end: int) -> ReplayDifference | None:
    """Return the first record of an archived task that is not the one that the replay has made; raise where one is damaged.

    Records from before the start of the replay can only be checked by their checksums.
    """
    archive = state.archive.own if isinstance(state.archive, CopiedArchive) else state.archive
    made = archive.records() if isinstance(archive, MemoryArchive) else {}
    for row in store.scan("archive", campaign):
        if isinstance(row, DamagedStore):
            raise row
        _, _, task, record, touched = stored = archive_row(row)
        if not start < stored.position <= end:
            continue
        expected = made.pop((task, stored.position), None)
        if touched is None and expected not in (None, record):  # its votes have expired since
            expected = Archived.from_bytes(expected or b"").without_votes().to_bytes()
        if record != expected:
            what = "is recorded that is not made" if expected is None else "is recorded otherwise"
            return ReplayDifference(stored.position, f"an archived record of task {quote(task)} {what}", task)
    for task, position in made:
        return ReplayDifference(position, f"the archived record of task {quote(task)} is missing", task)
    return None


def _difference(replayed: CampaignState, restored: CampaignState, position: int) -> ReplayDifference | None:
    """Return what differs between the state of the whole log and the one from a snapshot, at its position."""
    parts = snapshot.unequal(snapshot.to_bytes(replayed), snapshot.to_bytes(restored))
    if not parts:
        return None
    return ReplayDifference(
        position, f"the state from the snapshot at {position} and the log behind it differs in {', '.join(parts)}"
    )


def read_kept_log(store: Store, campaign: int, *, until: int | None = None) -> Iterator[tuple[int, events.Event]]:
    """Yield position and event of a log, in order, from a `Created` on.

    Of a log that begins with a base, the first ones are made from it: labels, the policy that held, groups, experts and bans.

    - `store`: has the log.
    - `campaign`: its number.
    - `until`: the last position; None: all.
    """
    base = store.bases.find(campaign)
    if base is None:
        yield from events_of(store, campaign, until=until)
        return
    if until is not None and until < base.begins:
        raise InputError(f"until is {until}: the log of campaign {campaign} begins at position {base.begins}")
    state = snapshot.from_bytes(snapshot.unbundle(store.bases.data(base))[0], MemoryArchive())
    known = list(_describe_known(state, base))
    yield from enumerate(known, base.begins - len(known))
    for position, event in events_of(store, campaign, after=base.begins - 1, until=until):
        if _is_known(event, position, base):
            yield position, events.Tick(time=event.time)  # backtests have a clock of their own, and pass it over
        else:
            yield position, event


def _describe_known(state: CampaignState, base: Base) -> Iterator[events.Event]:
    """Yield events that say what is known from before the first event that is kept."""
    time, held = state.created.time, [version for version in state.policies if version.position < base.begins]
    yield events.Created(
        time=time,
        labels=list(base.labels),
        names=list(state.names),
        model=state.created.model,
        settings=state.created.settings,
        policy=held[-1].policy.document() if held else state.created.policy,
    )
    for worker in state.crowd.all.values():
        if worker.group is not None or worker.expert:
            yield events.WorkerSet(time=time, worker=worker.number, group=worker.group, expert=worker.expert)
    banned = [worker.number for worker in state.crowd.all.values() if worker.banned]
    if banned:
        yield events.Ban(time=time, workers=banned)


def _is_known(event: events.Event, position: int, base: Base) -> bool:
    """Return whether the base already has the effect of an event, or the event refers to a deleted one."""
    if isinstance(event, events.LabelAdded):
        return position <= base.position
    return isinstance(event, events.RefitDone) and event.read < base.begins
