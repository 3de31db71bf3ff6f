"""Requests become events: each waits for its turn on the campaign, is folded in slices or in a thread, and is written as a whole.

Work on the state of a campaign is a generator. It yields None when its time slice is used up, so that the event loop can answer
other requests; or it yields a slow function, and receives the result from another thread. Until the work ends, no other request
reads or changes that campaign, so nobody sees a partial change.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

import msgspec

from adjudge.errors import quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.effort import is_heavy
from adjudge.service.campaigns.state import CampaignState, Touched
from adjudge.service.http.clock import MAX_STEP_S
from adjudge.service.http.errors import Unavailable
from adjudge.service.http.feed import Tail
from adjudge.service.http.leases import UNKNOWN_OWNER, Lease, now
from adjudge.service.http.loading import Loaded
from adjudge.service.store import events
from adjudge.service.store.batch import AnnotatedTaskRow, AnnotationRow, ArchiveRow, DecisionRow, OutboxRow
from adjudge.service.store.ids import Generation

if TYPE_CHECKING:
    from adjudge.service.http.campaigns import Campaigns

C = TypeVar("C", bound="LiveCampaign")
P = ParamSpec("P")
T = TypeVar("T")
Steps: TypeAlias = Generator[Callable[[], Any] | None, Any, T]
LONG_READ_US: Final = 2000  # microseconds on the loop: what takes longer is read in another thread
ROWS_PER_LOOK: Final = 8  # decisions that are encoded between looks at the clock
SLICE_S: Final = 0.005  # of work on the loop, after which others have their turn
log = logging.getLogger(__name__)
Rows: TypeAlias = tuple[list[Decision], list[DecisionRow], list[OutboxRow]]  # decisions, and their rows
NO_ROWS: Final[Rows] = ([], [], [])
_ENCODE_JSON = msgspec.json.Encoder().encode


class Slice:
    """Tells when a slice of work on the loop is over; the next one begins when it has told so.

    >>> Slice(seconds=60).is_over(), Slice(seconds=0).is_over()
    (False, True)
    """

    __slots__ = ("_seconds", "_until")

    def __init__(self, seconds: float = SLICE_S) -> None:
        self._seconds = seconds
        self._until = time.perf_counter() + seconds

    def is_over(self) -> bool:
        """Return whether the slice is used up."""
        return time.perf_counter() >= self._until

    def begin(self) -> None:
        """Begin the next one."""
        self._until = time.perf_counter() + self._seconds


class Turn:
    """Lets one piece of work at a time have a campaign, in the order in which they ask."""

    __slots__ = ("_waiting", "is_taken")

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take the turn if it is free; return whether it was."""
        if self.is_taken:
            return False
        self.is_taken = True
        return True

    async def wait(self) -> None:
        """Take the turn, after all who asked before."""
        if self.take():
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # it was handed over at the same moment
                self.give()
            raise

    def give(self) -> None:
        """Hand the turn to the next who waits; it stays taken where there is one."""
        while self._waiting:
            following = self._waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        self.is_taken = False


def drain(steps: Steps[T]) -> T:
    """Run work to its end at once, without slices."""
    try:
        job = steps.send(None)
        while True:
            job = steps.send(None if job is None else job())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def finish(steps: Steps[T], job: Callable[[], Any] | None, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]) -> T:
    """Go on with work that has yielded `job`, in slices and in threads, to its end."""
    try:
        while True:
            try:
                if job is None:
                    await asyncio.sleep(0)
                    done = None
                else:
                    done = await in_thread(job)
            except BaseException as error:
                job = steps.throw(error)
            else:
                job = steps.send(done)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


ENDLESS: Final = Slice(math.inf)


class LiveCampaign:
    """The state of a campaign, and the only way to read and change it: one reader or writer at a time, in any thread."""

    def __init__(self, campaigns: Campaigns, number: int, name: str, loaded: Loaded) -> None:
        self.campaigns, self.number, self.name = campaigns, number, name
        self.tail = Tail(campaigns.store, number, lambda: self.committed)
        self.turn = Turn()
        self.archived: list[ArchiveRow] = []  # of the event that is being folded
        self.decided = 0  # decisions since the server began
        self.follows: str | None = None  # which other process writes it; None: this one does
        self.lease: Lease | None = None  # what answers rest on while this process owns it
        self.current = -math.inf  # when the state was last known to be all of the log, while another process owns it
        self._was_ahead = False  # its log, of the clock
        self._breaker: tuple[int, str | None] = (0, None)  # why breakers hold decisions, and a position at which they did
        self._begin(loaded)

    def _begin(self, loaded: Loaded) -> None:
        """Continue from the state loaded from the log."""
        self.loaded = loaded
        self.state, self.names, self.ids = loaded.state, loaded.names, loaded.ids
        self.on_disk(self.state.position)
        self.current = now()
        self.archived.clear()

    def hold(self) -> None:
        """Own this campaign from now on: its lock was taken, and its whole log read since."""
        self.follows, self.lease = None, self.campaigns.leases.begin()

    def follow(self, owner: str) -> None:
        """Leave this campaign to another process from now on."""
        self.follows, self.lease = owner, None

    def lose(self) -> None:
        """Answer as an owner no more: the lock is lost.

        If events wait to be written, that fails, and then all campaigns are loaded again.
        """
        if self.lease is not None:
            self.lease.is_lost = True
            self.lease = None
        self.current = -math.inf  # the new owner may have written: followers answer after they have looked
        if self.committed == self.position:
            self.follow(UNKNOWN_OWNER)

    # --- turns

    async def in_turn(self, steps: Steps[T]) -> T:
        """Do work on the state when it is its turn, to its end, and return what it returns.

        Work that ends within its first slice never waits. Longer work runs to its end even if its caller was cancelled.
        """
        if not self.turn.take():
            return await asyncio.shield(self._keep(self._wait_and_finish(steps)))
        try:
            job = next(steps)
        except StopIteration as end:
            self.turn.give()
            return end.value  # type: ignore[no-any-return]
        except BaseException:
            self.turn.give()
            raise
        return await asyncio.shield(self._keep(self._finish(steps, job)))

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())  # seen, whether or not anybody waits
        return task

    async def _wait_and_finish(self, steps: Steps[T]) -> T:
        await self.turn.wait()
        return await self._finish(steps, None)

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
            result: T = (yield work) if cost > LONG_READ_US else work()
            return result

        result = await self.in_turn(steps())
        await self.on_disk_now()
        return result

    # --- events

    @property
    def position(self) -> int:
        """The position of the last event, be it on disk or not."""
        return self.state.position

    def now(self) -> int:
        """Return the time of the next event, which is never before that of the last one; raise while it is in doubt."""
        time = self.campaigns.clock.now()
        doubt = self.doubt(time)
        if doubt is not None:
            raise Unavailable(doubt, retry_after=10)
        return max(time, self.state.time)

    def doubt(self, time: int) -> str | None:
        """Return why no event can be given a time: the log is ahead of the clock. None if it is not."""
        ahead = (self.state.time - time) / 1e6
        if ahead <= MAX_STEP_S:
            return None
        return (
            f"the log of campaign {quote(self.name)} is {ahead:.0f} s ahead of the clock: set the clock right, "
            "or the log back (POST /v1/clock)"
        )

    def is_in_doubt(self) -> bool:
        """Return whether nothing can be done by time now; what begins or ends that is logged."""
        time = self.campaigns.clock.read()
        if self.campaigns.clock.doubt is not None:
            return True
        doubt = self.doubt(time)
        if doubt is not None and not self._was_ahead:
            log.error("%s; until then it takes no events", doubt)
        self._was_ahead = doubt is not None
        return self._was_ahead

    def require_open(self) -> int:
        """Return the time of the next event; raise where none can be taken now."""
        if self.follows is not None:
            raise Unavailable(
                f"campaign {quote(self.name)} is written by {self.follows}: send it there, or try again", retry_after=1
            )
        self.campaigns.require_open()
        return self.now()

    def submit(self, event: events.Event) -> Touched | None:
        """Fold an event at once, without slices, and queue it for writing."""
        self._require_free()
        return drain(self.folding(event))

    async def fold(self, event: Callable[[], events.Event]) -> Touched | None:
        """Fold an event when it is its turn, and have it written; `event` makes it then."""

        def steps() -> Steps[Touched | None]:
            return (yield from self.folding(event()))

        return await self.in_turn(steps())

    def applying(self, event: events.Event) -> Steps[Touched | None]:
        """Apply the next event to the state, in another thread if that takes long."""
        state = self.state
        return self.running(partial(state.apply, state.position + 1, event), is_heavy=is_heavy(state, event))

    def running(self, work: Callable[[], T], *, is_heavy: bool) -> Steps[T]:
        """Do work on the state, in another thread if that takes long."""
        if not is_heavy:
            return work()
        state = self.state
        result: T = yield work
        self.require_state(state)
        return result

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Reload the state from the log if an error aborts a fold that has changed it."""
        state, before = self.state, self.state.position
        try:
            yield
        except BaseException as error:
            self.drop(state, before, error)
            raise

    def drop(self, state: CampaignState, before: int, error: BaseException) -> None:
        """Reload the state from the log if an aborted fold has changed it since position `before`."""
        if state.position != before and self.state is state and not self.campaigns.is_broken:
            self.campaigns.distrust(error)

    def folding(self, event: events.Event, workers: Sequence[tuple[int, str]] = ()) -> Steps[Touched | None]:
        """Fold an event, in another thread where that takes long, and have it written with the names of new workers."""
        state, pace, first = self.state, Slice(), self.position + 1
        with self.whole():
            touched = yield from self.applying(event)
            rows = (yield from self.encode_decisions(state, pace)) if state.changes else NO_ROWS
        self.write(first, [event], rows, workers)
        return touched

    def _require_free(self) -> None:
        """Raise where other work has the turn: two folds at once would mix their events."""
        if self.turn.is_taken:
            raise Unavailable(f"campaign {quote(self.name)} is busy: try again", retry_after=1)

    def require_state(self, state: CampaignState) -> None:
        """Raise where the state was built again from the log meanwhile: what was folded into the old one is lost."""
        if self.state is not state or self.campaigns.is_broken:
            raise Unavailable("the campaign is being loaded again: nothing was taken", retry_after=1)

    def pause(self, state: CampaignState, pace: Slice) -> Steps[None]:
        """Let others have the loop if the slice is used up."""
        if pace.is_over():
            yield None
            self.require_state(state)
            pace.begin()

    def encode_decisions(self, state: CampaignState, pace: Slice) -> Steps[Rows]:
        """Return what is written of the decisions that the last events made."""
        changes, state.changes = state.changes, []
        rows: list[DecisionRow] = []
        posted: list[OutboxRow] = []
        tell = self.campaigns.on_decision
        for decision in changes:
            body = _ENCODE_JSON(decision)
            rows.append(DecisionRow(decision.position, decision.task, body))
            if tell is not None:
                posted += tell(self, decision, body)
            if not len(rows) % ROWS_PER_LOOK:
                yield from self.pause(state, pace)
        return changes, rows, posted

    def write(
        self,
        first: int,
        folded: list[events.Event],
        told: Rows,
        workers: Sequence[tuple[int, str]],
        ids: Sequence[Generation] = (),
        annotations: Sequence[AnnotationRow] = (),
        annotated_tasks: Sequence[AnnotatedTaskRow] = (),
    ) -> None:
        """Have events written that were folded, and everything that comes with them, as one."""
        batch, (changes, rows, posted) = self.campaigns.pending(), told
        if folded:
            batch.extend(self.number, first, folded)
            self.campaigns.count(len(folded))
        for number, name in workers:
            batch.workers.append((self.number, number, name))
        if self.archived:
            batch.archived.extend(self.archived)
            self.archived.clear()
        batch.ids.extend(ids)
        batch.annotations.extend(annotations)
        batch.annotated_tasks.extend(annotated_tasks)
        if changes:
            batch.decisions.setdefault(self.number, []).extend(rows)
            batch.outbox.extend(posted)
            self.decided += len(changes)

    def on_disk(self, position: int) -> None:
        """Note that everything up to this position is on disk; listeners look for it there."""
        self.committed = position
        tripped = self.state.breakers.tripped
        if tripped != self._breaker[1]:
            self._breaker = self.state.position, tripped
        if position >= self._breaker[0]:
            self.tail.note_breaker(self._breaker[1])
        self.tail.wake()

    async def on_disk_now(self) -> None:
        """Wait until everything that readers can see is on disk."""
        if self.state.position > self.committed:
            self.campaigns.require_sound()
            await self.campaigns.commit()


def atomic(steps: Callable[Concatenate[C, P], Steps[T]]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Return a change to a campaign as a call to be awaited: it has its turn, and returns once its events are on disk."""

    @wraps(steps)
    async def change(campaign: C, /, *args: P.args, **options: P.kwargs) -> T:
        def require_open_first() -> Steps[T]:
            campaign.require_open()
            return (yield from steps(campaign, *args, **options))

        result = await campaign.in_turn(require_open_first())
        await campaign.on_disk_now()
        return result

    return change
