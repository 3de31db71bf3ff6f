"""What is left of a log whose first events have expired, as a log of its own: for backtests, which begin with no state."""

from __future__ import annotations

from collections.abc import Iterator

from adjudge.errors import InputError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.replay import events_of
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive
from adjudge.service.store.bases import Base
from adjudge.service.store.store import Store


def left_of(store: Store, campaign: int, *, until: int | None = None) -> Iterator[tuple[int, events.Event]]:
    """Yield position and event of a log, in order, from a `Created` on.

    Of a log that begins with a base, the first ones are made from it: labels, the policy that held, groups, experts and bans.

    - `store`: where the log is.
    - `campaign`: its number.
    - `until`: the last position; None: all.
    """
    base = store.bases.find(campaign)
    if base is None:
        yield from events_of(store, campaign, until=until)
        return
    if until is not None and until < base.begins:
        raise InputError(f"until is {until}: the log of campaign {campaign} begins at position {base.begins}")
    state = snapshot.from_bytes(snapshot.opened(store.bases.data(base))[0], MemoryArchive())
    known = list(_known(state, base))
    yield from enumerate(known, base.begins - len(known))
    for position, event in events_of(store, campaign, after=base.begins - 1, until=until):
        if _is_known(event, position, base):
            yield position, events.Tick(time=event.time)  # backtests have a clock of their own, and pass it over
        else:
            yield position, event


def _known(state: CampaignState, base: Base) -> Iterator[events.Event]:
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
    """Return whether what an event says is known beforehand, or is of what is deleted."""
    if isinstance(event, events.LabelAdded):
        return position <= base.position
    return isinstance(event, events.RefitDone) and event.read < base.begins
