"""All campaigns of a server over one store: loading, group commits, and the work that the clock brings.

One thread, that of the event loop, owns every state. An event is folded at once and written by the writer's thread with all
others that came meanwhile; waiting requests resume when it is on disk. If that fails, the states are ahead of the log:
they are thrown away and built again from it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from adjudge.errors import AdjudgeError, InputError, OptionError, quote
from adjudge.service.campaigns.decision import Decision
from adjudge.service.campaigns.policy import Policy
from adjudge.service.campaigns.reader import prepare_intervals
from adjudge.service.campaigns.settings import StreamSettings
from adjudge.service.campaigns.state import CampaignState
from adjudge.service.http.campaign import Campaign
from adjudge.service.http.clock import Clock
from adjudge.service.http.errors import Invalid, NotFound, Unavailable
from adjudge.service.http.fold import LiveCampaign
from adjudge.service.http.follower import Follower, owner_of
from adjudge.service.http.leases import Leases, now
from adjudge.service.http.loading import Loaded, load, new
from adjudge.service.http.types import CampaignSpec
from adjudge.service.store import events
from adjudge.service.store.archive import MemoryArchive
from adjudge.service.store.batch import ArchiveRow, Batch, OutboxRow
from adjudge.service.store.errors import StoreError, StoreUnavailable
from adjudge.service.store.opening import open_store
from adjudge.service.store.store import Store
from adjudge.service.store.writer import Writer

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
MOST_WAITING: Final = 100_000  # events not yet written: beyond it votes are refused for a moment, before any is taken
FINISH: Final = 10.0  # seconds that background work has to finish when the server stops
CLOCK_INTERVAL_S: Final = 0.2  # seconds between looks at what the clock brings


class Campaigns:
    """The campaigns of one server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.by_name: dict[str, Campaign] = {}
        self.by_number: dict[int, Campaign] = {}
        self.threads = ThreadPoolExecutor(2, thread_name_prefix="adjudge-work")  # for what takes seconds
        self._folding = ThreadPoolExecutor(2, thread_name_prefix="adjudge-fold")  # for what requests wait for
        self._loop = asyncio.get_running_loop()
        self._batch, self._done = Batch(), self._loop.create_future()
        self._in_flight = self._loop.create_future()  # of the batch that is being written, or was last
        self._in_flight.set_result(None)
        self._is_writing = self._is_due = self._is_closed = self._is_recovering = False
        self._waiting = 0  # events folded and not yet on disk
        self._broken: str | None = "the campaigns are being loaded"
        self._tasks: set[asyncio.Task[None]] = set()
        self._endless: list[asyncio.Task[None]] = []
        # Called with every decision, and that as JSON, before it is written: what is to be posted of it.
        self.on_decision: Callable[[LiveCampaign, Decision, bytes], list[OutboxRow]] | None = None
        self.on_taken: Callable[[Campaign], Awaitable[None]] | None = None  # called before a campaign of others is written
        self.follower, self.leases = Follower(self), Leases(self)
        self._recovered, self._pause = -1e9, 0.5
        self.on_commit: Callable[[int, float], None] | None = None  # called with the events of a commit, and its seconds
        self._began = self._requested = 0.0
        self._writer = Writer(store, self._report_written)

    @classmethod
    async def open(cls, store_url: str, *, clock: Clock | None = None) -> Campaigns:
        """Return the campaigns of a store, after they were loaded."""
        loop = asyncio.get_running_loop()
        store = await loop.run_in_executor(None, open_store, store_url)
        self = cls(store, Clock() if clock is None else clock)
        await self.in_thread(prepare_intervals)  # 50 ms that no request has to wait for
        await self._load(store.campaigns())
        self._broken = None
        self._endless = [self.start(self._keep_house()), self.start(self.follower.run())]
        return self

    async def close(self) -> None:
        """Write waiting events, save snapshots, and close the store."""
        if self._is_closed:
            return
        self._is_closed = True
        for task in self._endless:
            task.cancel()
        if self._tasks:  # a refit under way is let end, so that the next start need not repeat it
            await asyncio.wait(self._tasks, timeout=FINISH)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while not self._broken and (self._is_writing or self._batch):
            await asyncio.wait([self.commit()])
        if not self._broken:
            for campaign in self.by_name.values():
                if campaign.follows is None:
                    await self._log_errors(campaign.duties.save_snapshot())  # the log has everything, so a failure does no harm
        self._broken = "the server stops"
        await self._loop.run_in_executor(None, self._writer.close)
        self.leases.close()
        self.threads.shutdown(wait=True)
        self._folding.shutdown(wait=True)
        await self._loop.run_in_executor(None, self.store.close)

    def names(self) -> list[str]:
        """Return the names of all campaigns."""
        return sorted(self.by_name)

    def get(self, name: str) -> Campaign:
        """Return a campaign."""
        campaign = self.by_name.get(name)
        if campaign is None:
            raise NotFound("no such campaign")
        return campaign

    def ready(self) -> list[str]:
        """Return why votes cannot be taken now; nothing where they can."""
        reasons = [self._broken] if self._broken else []
        if self._waiting >= MOST_WAITING:
            reasons.append("too many events wait to be written")
        self.clock.read()
        if self.clock.doubt is not None:
            return [*reasons, self.clock.doubt]
        mine = [campaign for campaign in self.by_name.values() if campaign.follows is None]
        return [*reasons, *(doubt for campaign in mine if (doubt := campaign.doubt(self.clock.read())) is not None)]

    async def set_clock(self, by: str | None = None, reason: str | None = None) -> tuple[int, list[str]]:
        """Take the time of the clock for right, and set the logs back that are ahead of it.

        Return the time, in microseconds since 1970, and the names of the campaigns whose logs were set back.
        """
        self.require_open()
        self.clock.accept()
        now, names = self.clock.now(), []
        for name, campaign in sorted(self.by_name.items()):
            if campaign.follows is None and campaign.state.time > now:
                log.warning("campaign %r: its log is set back by %.0f s", name, (campaign.state.time - now) / 1e6)
                await campaign.fold(partial(events.ClockSet, time=now, by=by, reason=reason))
                names.append(name)
        await self.commit()
        for name in names:
            await self.in_writer(self.store.webhooks.hasten, self.by_name[name].number, now)
        return now, names

    async def put(self, name: str, spec: CampaignSpec) -> tuple[Campaign, bool]:
        """Make a campaign, or find it as it was made; return it, and whether it is new."""
        self.require_open()
        if name not in self.by_name:
            await self.follower.look()  # another process may have made it
        if (existing := await self._find_same(name, spec)) is not None:
            return existing, False
        created = await self.in_folding_thread(partial(self._make_created, spec))
        try:
            number = await self.in_writer(self._create, name)
        except StoreUnavailable:
            raise
        except StoreError as error:
            if name in [row.name for row in await asyncio.to_thread(self.store.campaigns)]:
                raise Unavailable(f"campaign {quote(name)} is being made by another process: try again", retry_after=1) from None
            raise Invalid(error) from None
        if (raced := await self._find_same(name, spec)) is not None:
            return raced, False
        loaded = await self.in_folding_thread(partial(new, self.store, number, created, self.archive))
        if (raced := await self._find_same(name, spec)) is not None:
            return raced, False
        campaign = Campaign(self, number, name, loaded)
        self.take(campaign)
        campaign.submit(created)
        await self.commit()
        return campaign, True

    async def _find_same(self, name: str, spec: CampaignSpec) -> Campaign | None:
        """Return the campaign of this name, None if there is none; raise if it was made otherwise."""
        campaign = self.by_name.get(name)
        if campaign is not None:
            await self.in_folding_thread(partial(campaign.require_same, spec))
        return campaign

    def _make_created(self, spec: CampaignSpec) -> events.Created:
        """Return the first event of a campaign, or raise if anything in its specification is wrong."""
        pairs = spec.pairs()
        try:
            StreamSettings.of(spec.settings)
            created = events.Created(
                time=self.clock.now(),
                labels=[label for label, _ in pairs],
                names=[shown for _, shown in pairs],
                model=spec.model,
                settings=spec.settings,
                policy=Policy.of(spec.policy).document(),
                refit=spec.refit,
                retention=spec.retention,
            )
            CampaignState(created, MemoryArchive())
        except (InputError, OptionError) as error:
            raise Invalid(error) from None
        return created

    def _create(self, name: str) -> int:
        """Return the number of a new campaign; one whose first event was never written is as good as new."""
        for number, known in self.store.campaigns():
            if known == name and not self.store.last(number):
                self.store.own(number)
                return number
        return self.store.create_campaign(name)

    async def in_writer(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that writes to the store, in the only thread that may."""
        return await asyncio.wrap_future(self._writer.run(work, *args, **kwargs))

    # --- writing

    def require_open(self) -> None:
        """Raise where an event cannot be taken now."""
        self.require_sound()
        if self._waiting >= MOST_WAITING:
            raise Unavailable("too many events wait to be written: try again", retry_after=0.1)

    def require_sound(self) -> None:
        """Raise where the states may be ahead of the log for good."""
        if self._broken is not None:
            raise Unavailable(self._broken, retry_after=1)

    def pending(self) -> Batch:
        """Return the batch that is being filled, which will be written soon."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)
        return self._batch

    def archive(self, row: ArchiveRow) -> None:
        """Have a task written to the archive, with the event that sent it there."""
        self.by_number[row.campaign].archived.append(row)

    def commit(self) -> asyncio.Future[None]:
        """Return the future of everything folded so far being on disk."""
        return self._in_flight if not self._batch else self._done

    def count(self, events: int) -> None:
        """Note that so many events wait to be written."""
        self._waiting += events

    def _flush(self) -> None:
        """Hand the batch to the writer, unless it is busy: then what comes meanwhile is written together."""
        self._is_due = False
        if self._is_writing or not self._batch:
            return
        batch, done = self._batch, self._done
        self._batch, self._done = Batch(), self._loop.create_future()
        self._is_writing = True
        self._in_flight = done
        self._began, self._requested = time.perf_counter(), now()
        self._writer.submit(batch)

    def _report_written(self, batch: Batch, error: Exception | None) -> None:
        self._loop.call_soon_threadsafe(self._finish, batch, error)

    def _finish(self, batch: Batch, error: Exception | None) -> None:
        self._is_writing = False
        if error is not None:
            self._fail(error)
            return
        if self.on_commit is not None:
            self.on_commit(len(batch), time.perf_counter() - self._began)
        self._waiting -= len(batch)
        for number, page in batch.pages.items():
            if (campaign := self.by_number.get(number)) is not None:
                if campaign.lease is not None:
                    campaign.lease.prove(self._requested)  # the commit would have failed without the lock
                campaign.on_disk(page.first + len(page.events) - 1)
        self._in_flight.set_result(None)
        if self._batch:
            self._flush()

    def _fail(self, error: BaseException) -> None:
        """Refuse everything that was not written, and build the states again."""
        log.error("the log cannot be written: %s", error)
        self._broken = "the log cannot be written: the server's own log says why"  # clients must not learn paths and hosts
        for done in (self._in_flight, self._done):
            done.set_exception(Unavailable(self._broken, retry_after=1))
            done.exception()  # seen, whether or not anybody waits
        self._batch, self._done, self._waiting = Batch(), self._loop.create_future(), 0
        self._in_flight = self._loop.create_future()
        self._in_flight.set_result(None)
        self._rebuild()

    def distrust(self, error: BaseException) -> None:
        """Build the states again, as an event was not folded whole: nothing of its request is written."""
        log.error("an event could not be folded, the campaigns are loaded again: %r", error)
        self._broken = "an event could not be folded: the campaigns are being loaded again"
        self._rebuild()

    def _rebuild(self) -> None:
        if not self._is_recovering:
            self._is_recovering = True
            self.start(self._recover())

    async def _recover(self) -> None:
        self._pause = 0.5 if time.monotonic() - self._recovered > 60 else min(10.0, 2 * self._pause)
        while True:
            try:
                while self._is_writing or self._batch:
                    self._flush()
                    await asyncio.wait([self.commit()])
                await asyncio.sleep(self._pause)
                await self._load(self.store.campaigns())
            except (AdjudgeError, OSError) as error:
                log.error("the log cannot be read: %s", error)
                self._broken = "the log cannot be read: the server's own log says why"
                continue
            self._broken, self._is_recovering, self._recovered = None, False, time.monotonic()
            log.warning("the campaigns were loaded from the log again")
            return

    # --- loading, and work by the clock

    async def _load(self, rows: Sequence[tuple[int, str]]) -> None:
        owned: list[Campaign] = []
        if self.store.is_shared:
            for campaign in self.by_name.values():
                campaign.lease = None  # before any lock is taken again: a new lease begins when its log was read
        for number, name in rows:
            owner = await self.in_writer(owner_of, self.store, number)
            locked = now()
            loaded = await self.load(number)
            known = self.by_name.get(name)
            if loaded is None:  # its first event was never written
                if known is not None:
                    del self.by_name[name], self.by_number[known.number]
                await self.in_writer(self.store.release, number)  # another process may be about to make it
                continue
            if known is None:
                known = Campaign(self, number, name, loaded)
                self.by_name[name] = self.by_number[number] = known
            else:
                known.adopt(loaded)
            if owner is None:
                owned.append(known)
            else:
                known.follow(owner)
        if owned:
            await self.leases.await_predecessor(locked)
        for campaign in owned:
            if self.on_taken is not None:  # another process may have owned it, and changed its webhooks
                await self.on_taken(campaign)
            campaign.hold()

    async def load(self, campaign: int) -> Loaded | None:
        """Return a campaign as its log has it now; None where it has no events."""
        return await self._loop.run_in_executor(None, load, self.store, campaign, self.archive)

    def owned(self) -> list[int] | None:
        """Return the numbers of the campaigns that this process writes; None: all."""
        mine = [campaign.number for campaign in self.by_name.values() if campaign.follows is None]
        return None if len(mine) == len(self.by_name) else mine

    @property
    def is_broken(self) -> bool:
        """Whether nothing can be written now, and the states are being built again."""
        return self._broken is not None

    def take(self, campaign: Campaign, owner: str | None = None) -> None:
        """Add a campaign to this server; `owner` is the other process that writes it, if any."""
        if owner is None:
            campaign.hold()
        else:
            campaign.follow(owner)
        self.by_name[campaign.name] = campaign
        self.by_number[campaign.number] = campaign

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        """Run work in the background; its errors are logged."""
        task = self._loop.create_task(self._log_errors(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _log_errors(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Unavailable:
            pass  # it will be due again
        except Exception:
            log.exception("background work failed")

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run slow work that touches no state in a thread."""
        return await self._loop.run_in_executor(self.threads, work)

    async def in_folding_thread(self, work: Callable[[], T]) -> T:
        """Run work on the state of a campaign, whose turn the caller has, in a thread."""
        return await self._loop.run_in_executor(self._folding, work)

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(CLOCK_INTERVAL_S)
            for campaign in list(self.by_name.values()):
                if self._broken is None and campaign.follows is None and not campaign.is_in_doubt():
                    try:
                        await campaign.duties.look()
                    except Unavailable:
                        break
                    except Exception:
                        log.exception("campaign %r: what the clock brings failed", campaign.name)
