"""How requests to a campaign become events: each in its turn, folded in slices or in another thread, written as a whole."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from quorate.errors import shown
from quorate.live.decision import Decision
from quorate.live.effort import is_heavy
from quorate.live.state import CampaignState, Touched
from quorate.service.errors import Unavailable
from quorate.service.listening import Listeners
from quorate.service.loading import Loaded
from quorate.service.turns import Slice, Steps, Turn, drain, finish
from quorate.store import events
from quorate.store.batch import ArchiveRow, DecisionRow, OutboxRow
from quorate.store.ids import Generation

if TYPE_CHECKING:
    from quorate.service.campaigns import Campaigns

T = TypeVar("T")
LONG_READ_US: Final = 2000  # microseconds on the loop: what takes longer is read in another thread
Rows: TypeAlias = tuple[list[Decision], list[DecisionRow], list[OutboxRow]]  # decisions, and what is written of them
ENDLESS: Final = Slice(math.inf)
NO_ROWS: Final[Rows] = ([], [], [])
_JSON = msgspec.json.Encoder().encode


class Folding:
    """The state of a campaign, and the one way to read and change it. Whoever does so has its turn, in whatever thread."""

    def __init__(self, campaigns: Campaigns, number: int, name: str, loaded: Loaded) -> None:
        self.campaigns, self.number, self.name = campaigns, number, name
        self.listeners = Listeners()
        self.turn = Turn()
        self._told: list[Decision] = []  # made, and not yet on disk
        self.archived: list[ArchiveRow] = []  # of the event that is being folded
        self.decided = 0  # decisions since the server began
        self.follows: str | None = None  # which other process writes it; None: this one does
        self._begin(loaded)

    def _begin(self, loaded: Loaded) -> None:
        """Go on from what was loaded from the log."""
        self.loaded = loaded
        self.state, self.names, self.ids = loaded.state, loaded.names, loaded.ids
        self.committed = self.state.position
        self._told.clear()
        self.archived.clear()

    # --- turns

    async def in_turn(self, steps: Steps[T]) -> T:
        """Do work on the state when it is its turn, to its end, and return what it returns.

        Work that ends within its first slice never waits. Other work goes on even where nobody waits for it any more.
        """
        if not self.turn.take():
            return await asyncio.shield(self._kept(self._wait_and_finish(steps)))
        try:
            job = next(steps)
        except StopIteration as end:
            self.turn.give()
            return end.value  # type: ignore[no-any-return]
        except BaseException:
            self.turn.give()
            raise
        return await asyncio.shield(self._kept(self._finish(steps, job)))

    def _kept(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen, whether or not anybody waits
        return task

    async def _wait_and_finish(self, steps: Steps[T]) -> T:
        await self.turn.wait()
        try:
            job = next(steps)
        except StopIteration as end:
            self.turn.give()
            return end.value  # type: ignore[no-any-return]
        except BaseException:
            self.turn.give()
            raise
        return await self._finish(steps, job)

    async def _finish(self, steps: Steps[T], job: Callable[[], Any] | None) -> T:
        try:
            return await finish(steps, job, self.campaigns.in_folding_thread)
        finally:
            self.turn.give()

    async def read(self, work: Callable[[], T], cost: int) -> T:
        """Return what a reader of the state finds, once everything that it tells is on disk.

        - `work`: reads.
        - `cost`: how long it takes, in microseconds, more or less: what takes long runs in another thread.
        """

        def steps() -> Steps[T]:
            found: T = (yield work) if cost > LONG_READ_US else work()
            return found

        found = await self.in_turn(steps())
        await self.on_disk_now()
        return found

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
        """Fold an event at once, whatever it takes, and have it written."""
        self._require_free()
        return drain(self.folding(event))

    async def fold(self, event: Callable[[], events.Event]) -> Touched | None:
        """Fold an event when it is its turn, and have it written; `event` makes it then."""

        def steps() -> Steps[Touched | None]:
            return (yield from self.folding(event()))

        return await self.in_turn(steps())

    def folding(self, event: events.Event, workers: Sequence[tuple[int, str]] = ()) -> Steps[Touched | None]:
        """Fold an event, in another thread where that takes long, and have it written with the names of new workers."""
        state, pace = self.state, Slice()
        before = state.position
        try:
            if is_heavy(state, event):
                touched: Touched | None = yield partial(state.apply, before + 1, event)
                self._require_same(state)
            else:
                touched = state.apply(before + 1, event)
            rows = (yield from self._told_rows(state, pace)) if state.changes else NO_ROWS
        except BaseException as error:
            self._drop(state, before, error)
            raise
        self._write(before + 1, [event], rows, workers)
        return touched

    def _require_free(self) -> None:
        """Raise where other work has the turn: two folds at once would mix their events."""
        if self.turn.is_taken:
            raise Unavailable(f"campaign {shown(self.name)} is busy: try again", retry_after=1)

    def _drop(self, state: CampaignState, before: int, error: BaseException) -> None:
        """Have the state built again from the log, where a part of what was to be folded after a position is in it."""
        if state.position != before and self.state is state and not self.campaigns.is_broken:
            self.campaigns.distrust(error)

    def _require_same(self, state: CampaignState) -> None:
        """Raise where the state was built again from the log meanwhile: what was folded into the old one is lost."""
        if self.state is not state or self.campaigns.is_broken:
            raise Unavailable("the campaign is being loaded again: nothing was taken", retry_after=1)

    def _told_rows(self, state: CampaignState, pace: Slice) -> Steps[Rows]:
        """Return what is written of the decisions that the last events made."""
        changes, state.changes = state.changes, []
        rows: list[DecisionRow] = []
        posted: list[OutboxRow] = []
        tell = self.campaigns.on_decision
        for decision in changes:
            body = _JSON(decision)
            rows.append(DecisionRow(decision.position, decision.task, body))
            if tell is not None:
                posted += tell(self, decision, body)
            if pace.is_over():
                yield None
                self._require_same(state)
                pace.begin()
        return changes, rows, posted

    def _write(
        self,
        first: int,
        folded: list[events.Event],
        told: Rows,
        workers: Sequence[tuple[int, str]],
        ids: Sequence[Generation] = (),
    ) -> None:
        """Have events written that were folded, and everything that comes with them, as one."""
        batch, (changes, rows, posted) = self.campaigns.pending(), told
        batch.extend(self.number, first, folded)
        self.campaigns.count(len(folded))
        for number, name in workers:
            batch.workers.append((self.number, number, name))
        if self.archived:
            batch.archived.extend(self.archived)
            self.archived.clear()
        batch.ids.extend(ids)
        if changes:
            batch.decisions.setdefault(self.number, []).extend(rows)
            batch.outbox.extend(posted)
            self.decided += len(changes)
            self._told.extend(changes)

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
