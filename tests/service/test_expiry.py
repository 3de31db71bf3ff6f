"""Votes that are older than a campaign keeps them: what goes, what stays, and that the log loads wherever it was cut off."""

import asyncio
import shutil
from contextlib import asynccontextmanager

import msgspec
import pytest

import postgres
from adjudge.errors import InputError
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.backtest import backtest
from adjudge.service.campaigns.replay import check, replay
from adjudge.service.campaigns.tasks import Archived
from adjudge.service.http import items, maintenance
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.clock import Clock as ServiceClock
from adjudge.service.http.loading import load
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store import events
from adjudge.service.store import log as store_log
from adjudge.service.store.backup import restore
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify

DAY = 86_400 * 1_000_000_000  # nanoseconds
SPEC = CampaignSpec(labels=["spam", "ok"], retention={"votes_days": 10}, policy={"minimum_votes": 3, "confidence": 0.6})


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1_700_000_000_000_000_000

    def __call__(self):
        self.now += 1_000_000
        return self.now


@pytest.fixture(params=postgres.STORES)
def url(request, tmp_path):
    return str(tmp_path / "votes.db") if request.param == "sqlite" else postgres.server().fresh()


async def opened(url, clock):
    """The campaigns of a server that does nothing by itself."""
    campaigns = await Campaigns.open(url, clock=ServiceClock(clock, clock))
    await asyncio.sleep(0)
    for task in campaigns._endless:
        task.cancel()
    return campaigns


@asynccontextmanager
async def serving(url, clock, spec=SPEC):
    """One campaign of it."""
    campaigns = await opened(url, clock)
    try:
        campaign, _ = await campaigns.put("default", spec)
        yield campaign
    finally:
        await campaigns.close()


async def vote(campaign, task, *labels, first=0, **more):
    """One worker after the other votes on a task."""
    for at, label in enumerate(labels, first):
        answer = await campaign.vote([VoteIn(task=task, worker=f"w{at}", label=label, **more)])
    return answer.decisions[0]


async def wait_an_hour(campaign):
    """Let the clock of a test show the time that it shows now for an hour, and a second: what is deleted is deleted by that."""
    clock = campaign.campaigns.clock
    clock.read()
    clock._wall.now += DAY // 24 + 1_000_000_000


async def expire(campaign):
    """Let what is too old expire, an hour after that was seen, and return the digest of the state then."""
    await wait_an_hour(campaign)
    await campaign.duties.expiry.run()
    await campaign.on_disk_now()
    return snapshot.digest(campaign.state)


async def fill(campaign, clock, days=30, tasks=3):
    """Some tasks per day, decided by three votes of which one is wrong now and then; some that wait; one gold; one banned."""
    for day in range(days):
        clock.now += DAY
        for n in range(tasks):
            label = ("spam", "ok")[(day + n) % 2]
            wrong = "ok" if label == "spam" else "spam"
            await vote(campaign, f"d{day}-{n}", label, wrong if day % 5 == 4 else label, label)
        await vote(campaign, f"open{day}", "spam")
        if day % 7 == 0:
            await campaign.gold(f"d{day}-0", "spam")
            await vote(campaign, f"d{day}-1", "spam", "spam", first=5)
        if day == 3:
            await campaign.ban(["w6"])


def listed(page):
    return {row.task for row in page.votes}


def digest_of(store, number):
    loaded = load(store, number, lambda _: None)
    return snapshot.digest(loaded.state)


def test_votes_go_decisions_and_what_was_learned_stay(url):
    async def story():
        clock = Clock()
        async with serving(url, clock) as campaign:
            await fill(campaign, clock)
            state, store = campaign.state, campaign.campaigns.store
            workers = {n: (w.votes, w.usual) for n, w in state.crowd.all.items()}
            confusion = state.stream.confusion("1").tolist()
            every = {f"d{day}-{n}": (await campaign.task(f"d{day}-{n}")).decision for day in range(30) for n in range(3)}
            decided = {name: one for name, one in every.items() if one.status == "decided"}
            assert len(decided) > 80
            escalated = await campaign.override("open2", "ok", by="eve")
            clock.now += DAY // 2
            await expire(campaign)
            assert state.begins > 1
            assert campaign.view().begins == store.begins(campaign.number) == state.begins
            recent = {f"d{day}-{n}" for day in range(20, 30) for n in range(3)} | {f"open{day}" for day in range(20, 30)}
            assert listed(await campaign.votes(0, 1000)) == recent
            assert listed(await campaign.votes(5, 1000)) == recent
            for task, before in decided.items():
                view = await campaign.task(task)
                assert view.decision == before, "regardless of its votes"
                assert bool(view.evidence) == (task in recent)
                assert ("expired" in view.why[0]) == (task not in recent)
            assert (await campaign.task("open2")).decision == escalated
            assert not any("w6" in str(row) for row in (await campaign.task("d7-1")).evidence)
            waiting = (await campaign.task("open3")).decision
            assert (waiting.status, waiting.votes) == ("open", 0)
            assert state.tasks.by_name["open3"].expired, "what waits for votes stays in memory"
            assert {n: (w.votes, w.usual) for n, w in state.crowd.all.items()} == workers
            assert state.stream.confusion("1").tolist() == confusion
            assert (await campaign.task("d7-0")).gold == "spam"
            [found] = verify(store)
            assert (found.problems, found.begins) == ([], state.begins)
            rows = list(store.archived_tasks(campaign.number))
            records = [Archived.from_bytes(store.find_record(campaign.number, task, until=1 << 60)) for task in rows]
            assert len(records) >= 60
            assert all(not one.ballots and one.task.aside is None and one.task.moved is None for one in records)
            assert not any(name not in state.tasks.by_name for w in state.crowd.all.values() for name in w.aside or ())

    asyncio.run(story())


@pytest.mark.slow
def test_every_way_to_load_gives_the_same_state(url, tmp_path):
    async def story():
        clock = Clock()
        async with serving(url, clock) as campaign:
            await fill(campaign, clock)
            await campaign.refit()
            while campaign.state.refit_read:
                await asyncio.sleep(0.01)
            digest = await expire(campaign)
            store, number = campaign.campaigns.store, campaign.number
            assert store.bases.find(number).position == campaign.position
            assert digest_of(store, number) == snapshot.digest(replay(store, number)) == digest
            await vote(campaign, "d3-1", "ok", "ok", "ok")  # its old votes are gone
            await campaign.gold("d7-0", None)
            await vote(campaign, "new", "spam", "spam", "ok", id=None)
            await campaign.unban(["w6"])
            clock.now += 4 * DAY
            await vote(campaign, "later", "spam", "spam", "spam")
            await campaign.duties.sweep()
            await campaign.on_disk_now()
            digest = snapshot.digest(campaign.state)
            assert digest_of(store, number) == snapshot.digest(replay(store, number)) == digest
            found = check(store, number)
            assert (found.difference, found.digest, found.base) == (None, digest, store.bases.find(number).position)
            assert found.begins == campaign.state.begins
            await campaign.duties.save_snapshot()
            assert check(store, number).snapshot == campaign.position
            assert digest_of(store, number) == digest
            second = await expire(campaign)
            assert digest_of(store, number) == second != digest
            assert store.snapshots(number).latest() is None, "they hold votes that have expired"
            store.backup(tmp_path / "backup.db")
        for target in (str(tmp_path / "restored.db"), postgres.server().fresh("other")):
            restore(tmp_path / "backup.db", target)
            async with serving(target, clock) as campaign:
                assert snapshot.digest(campaign.state) == second
                assert (await vote(campaign, "after", "spam")).votes == 1
                assert check(campaign.campaigns.store, campaign.number).difference is None

    asyncio.run(story())


def test_a_task_without_its_votes_keeps_its_decision_until_there_are_enough_new_ones(tmp_path):
    async def story():
        clock = Clock()
        async with serving(str(tmp_path / "votes.db"), clock) as campaign:
            for n in range(8):
                await vote(campaign, f"t{n}", "spam", "spam", "spam")
            await vote(campaign, "stuck", *["spam", "ok"] * 5)
            assert (await campaign.task("stuck")).decision.status == "escalated"
            await campaign.gold("t7", "ok")
            clock.now += 20 * DAY
            await expire(campaign)
            before = (await campaign.task("t0")).decision
            assert (before.status, before.label, before.votes) == ("decided", "spam", 3)
            first = await vote(campaign, "t0", "ok")
            assert (first.status, first.label, first.votes, first.time) == ("decided", "spam", 1, before.time)
            assert (await vote(campaign, "t0", "ok", first=1)).status == "decided"
            assert (await vote(campaign, "t0", "ok", first=2)).label == "ok"
            assert (await campaign.retract("t0", "w2")).status == "open", "from now on the new votes count alone"
            assert (await campaign.reopen("t1")).status == "open"
            assert (await vote(campaign, "stuck", "spam")).status == "escalated"
            assert (await vote(campaign, "t7", "spam")).reason == "gold"
            assert (await campaign.task("t7")).gold == "ok"
            assert (await campaign.gold("t2", "ok")).label == "ok"
            again = await campaign.vote([VoteIn(task="t3", worker="w0", label="spam")])
            assert (again.accepted, again.repeated) == (1, 0), "the earlier vote is not there"
            assert listed(await campaign.votes(0, 99)) == {"t0", "stuck", "t7", "t3"}
            assert check(campaign.campaigns.store, campaign.number).difference is None

    asyncio.run(story())


def test_votes_kept_aside_expire_as_well(tmp_path):
    spec = msgspec.structs.replace(
        SPEC, policy={"minimum_votes": 1, "confidence": 0.5, "probation": {"votes": 6, "accuracy": 0.5}}
    )

    async def story():
        clock = Clock()
        async with serving(str(tmp_path / "votes.db"), clock, spec) as campaign:
            await campaign.set_worker("w0", expert=True)
            for n in range(4):
                await vote(campaign, f"t{n}", "spam", "spam")
            worker = campaign.state.crowd.all[campaign.number_of("w1")]
            assert (set(worker.aside), worker.judged) == ({"t0", "t1", "t2", "t3"}, 4)
            clock.now += 8 * DAY
            await vote(campaign, "t3", "ok", first=1)
            campaign.submit(events.Sweep(time=campaign.now(), decided=2, others=0))
            assert set(campaign.state.away) == {"t0", "t1"}, "they have left memory before they expire"
            await campaign.on_disk_now()
            copy = snapshot.from_bytes(snapshot.to_bytes(campaign.state), campaign.state.archive)
            assert copy.away == campaign.state.away
            clock.now += 8 * DAY
            await expire(campaign)
            worker = campaign.state.crowd.all[campaign.number_of("w1")]
            assert (set(worker.aside), worker.judged) == ({"t3"}, 4), "how often they were right is known on"
            assert campaign.state.voted("t0", worker.number) == -1
            assert campaign.state.voted("t3", worker.number) == 1
            assert campaign.state.away == {}
            campaign.submit(events.Sweep(time=campaign.now(), decided=9))
            assert set(campaign.state.away) == {"t3"}
            await campaign.override("t3", "ok")
            assert campaign.state.away == {}, "it is in memory again"
            for n in range(4, 7):
                await vote(campaign, f"t{n}", "spam", "spam")
            assert worker.trusted
            assert check(campaign.campaigns.store, campaign.number).difference is None
            digest = snapshot.digest(campaign.state)
            assert digest_of(campaign.campaigns.store, campaign.number) == digest

    asyncio.run(story())


@pytest.mark.parametrize(
    "where", [step if step in (0, 6, 11) else pytest.param(step, marks=pytest.mark.slow) for step in range(12)]
)
def test_killed_between_any_two_steps(tmp_path, monkeypatch, where):
    """The store is copied as it is on disk after each step, and loaded from the copy."""
    monkeypatch.setattr(store_log, "DELETE_CHUNK_BYTES", 2000)
    monkeypatch.setattr(store_log, "PART_BYTES", 20_000)
    monkeypatch.setattr(maintenance, "RECORDS_AT_ONCE", 30)
    path = tmp_path / "votes.db"

    async def story():
        clock = Clock()
        async with serving(str(path), clock) as campaign:
            await fill(campaign, clock, days=14)
            await expire(campaign)  # so that there is an earlier base
            await fill(campaign, clock, days=12)
            await campaign.duties.save_snapshot()
            campaigns, steps = campaign.campaigns, 0
            in_writer = campaigns.in_writer

            async def counted(*work):
                nonlocal steps
                done = await in_writer(*work)
                if steps == where:
                    store = open_store(str(path), readonly=True)
                    store.backup(tmp_path / "killed.db")
                    store.close()
                    shutil.copytree(f"{path}.snapshots", tmp_path / "killed.db.snapshots")
                steps += 1
                return done

            campaigns.in_writer = counted
            digest = await expire(campaign)
            assert steps > 12
        async with serving(str(tmp_path / "killed.db"), clock) as campaign:
            store = campaign.campaigns.store
            assert snapshot.digest(campaign.state) == digest
            assert check(store, campaign.number).difference is None
            assert verify(store)[0].problems == []
            await vote(campaign, "d3-1", "ok", "spam")
            await vote(campaign, "d20-1", "ok", "spam", first=7)
            after = await expire(campaign)
            assert digest_of(store, campaign.number) == snapshot.digest(replay(store, campaign.number)) == after
            with store.reading() as link:
                assert link.rows("SELECT count(*) FROM log WHERE first < ?", campaign.state.begins) == [(0,)]
                assert link.rows("SELECT count(DISTINCT position) FROM base_part") == [(1,)]
                assert link.rows("SELECT count(*) FROM archive WHERE touched < ?", campaign.state.expired) == [(0,)]

    asyncio.run(story())


def test_nothing_expires_where_nothing_is_said_or_nothing_is_old(tmp_path):
    async def story():
        clock = Clock()
        async with serving(str(tmp_path / "votes.db"), clock, CampaignSpec(labels=["spam", "ok"])) as campaign:
            await vote(campaign, "t", "spam")
            clock.now += 1000 * DAY
            assert not campaign.duties.expiry.is_due()
            await campaign.settings(retention={"votes_days": 2000})
            assert campaign.duties.expiry.is_due()
            position = campaign.position
            await expire(campaign)
            assert campaign.position == position
            assert campaign.campaigns.store.bases.find(campaign.number) is None
            assert not campaign.duties.expiry.is_due()
            clock.now += DAY // 2
            assert not campaign.duties.expiry.is_due()
            clock.now += DAY
            assert campaign.duties.expiry.is_due()
            await campaign.settings(retention={"votes_days": 0.01})
            clock.now += DAY
            await expire(campaign)
            assert campaign.state.begins > 1
            clock.now += DAY // 48
            assert not campaign.duties.expiry.is_due(), "once an hour at most"
            clock.now += DAY // 24
            assert campaign.duties.expiry.is_due()

    asyncio.run(story())


def test_ids_are_known_after_their_votes_are_gone(url):
    async def story():
        clock = Clock()
        async with serving(url, clock) as campaign:
            await campaign.vote([VoteIn(task="t", worker="ann", label="spam", id="one")])
            clock.now += 20 * DAY
            await expire(campaign)
            assert (await campaign.vote([VoteIn(task="t", worker="ann", label="spam", id="one")])).repeated == 1
        async with serving(url, clock) as campaign:
            assert (await campaign.vote([VoteIn(task="t", worker="ann", label="spam", id="one")])).repeated == 1

    asyncio.run(story())


@pytest.mark.slow
def test_a_follower_that_is_behind_loads_again():
    database = postgres.server().fresh()

    async def story():
        clock = Clock()
        async with serving(database, clock) as owner:
            await fill(owner, clock, days=5)
            other = await opened(database, clock)
            follower = other.get("default")
            assert follower.follows
            await fill(owner, clock, days=15)
            await owner.vote([VoteIn(task="d2-1", worker="w9", label="ok")])
            digest = await expire(owner)
            assert follower.position < owner.campaigns.store.begins(owner.number)
            await other.follower.look()
            assert snapshot.digest(follower.state) == digest
            await vote(owner, "d3-1", "ok")
            await other.follower.look()
            assert snapshot.digest(follower.state) == snapshot.digest(owner.state)
            await owner.vote([VoteIn(task="d3-2", worker="w9", label="ok", id="last")])
            clock.now += 20 * DAY
            await expire(owner)
        await other.follower._look_at_locks()
        assert follower.follows is None
        answer = await follower.vote([VoteIn(task="d3-2", worker="w9", label="ok", id="last")])
        assert answer.repeated == 1, "its ids are in the base"
        await other.close()

    asyncio.run(story())


@pytest.mark.slow
def test_a_follower_that_keeps_up_knows_the_ids_of_what_is_deleted():
    database = postgres.server().fresh()

    async def story():
        clock = Clock()
        async with serving(database, clock) as owner:
            other = await opened(database, clock)
            follower = other.get("default")
            state = follower.state
            await owner.vote([VoteIn(task="t", worker="ann", label="ok", id="one")])
            clock.now += 20 * DAY
            in_writer = owner.campaigns.in_writer

            async def followed(*work):
                await other.follower.look()
                return await in_writer(*work)

            owner.campaigns.in_writer = followed
            await expire(owner)
            await other.follower.look()
            assert follower.state is state, "it need not load again"
            assert snapshot.digest(state) == snapshot.digest(owner.state)
        await other.follower._look_at_locks()
        assert (await follower.vote([VoteIn(task="t", worker="ann", label="ok", id="one")])).repeated == 1
        await other.close()

    asyncio.run(story())


def test_a_snapshot_from_before_votes_expired_is_not_used(tmp_path):
    path = tmp_path / "votes.db"

    async def story():
        clock = Clock()
        async with serving(str(path), clock) as campaign:
            await vote(campaign, "t", "spam", "spam", "spam")
            campaign.submit(events.Sweep(time=campaign.now(), decided=1))
            await vote(campaign, "other", "spam")
            clock.now += 15 * DAY
            await vote(campaign, "another", "spam")
            await campaign.duties.save_snapshot()
            shutil.copytree(f"{path}.snapshots", tmp_path / "kept")
            await vote(campaign, "t", "ok", first=5)  # comes back with its votes, which the archive loses afterwards
            digest = await expire(campaign)
            assert len((await campaign.task("t")).evidence) == 4
            shutil.copytree(tmp_path / "kept", f"{path}.snapshots", dirs_exist_ok=True)
            store = campaign.campaigns.store
            assert store.snapshots(campaign.number).latest() is not None
            assert digest_of(store, campaign.number) == digest
            assert check(store, campaign.number).difference is None

    asyncio.run(story())


def test_an_event_says_what_has_expired(tmp_path):
    async def story():
        clock = Clock()
        async with serving(str(tmp_path / "votes.db"), clock) as campaign:
            await fill(campaign, clock, days=12)
            await expire(campaign)
            store, number = campaign.campaigns.store, campaign.number
            log = [event for _, page in store.read(number, skip_expired=True) for event in page]
            [said] = [event for event in log if isinstance(event, events.Truncated)]
            assert said.until == store.begins(number) - 1
            assert log[0].time - DAY // 1000 < said.before <= log[0].time
            assert log[0].time >= log[-1].time - 10 * DAY // 1000 - 1000

    asyncio.run(story())


def test_a_backtest_of_what_is_left(tmp_path):
    async def story():
        clock = Clock()
        async with serving(str(tmp_path / "votes.db"), clock) as campaign:
            await campaign.set_worker("w0", group="g", expert=True)
            await campaign.set_policy({"minimum_votes": 2, "confidence": 0.55, "experts": {"decide": True}})
            await fill(campaign, clock)
            await campaign.vote([VoteIn(task="d29-1", worker="w1", label="spam")])
            await vote(campaign, "d20-0", "ok", "ok")  # its first votes are about to be deleted
            await campaign.retract("d20-1", "w0")
            await campaign.refit()
            while campaign.state.refit_read:
                await asyncio.sleep(0.01)
            await campaign.add_label("odd", "odd")
            clock.now += DAY // 2
            await expire(campaign)
            await vote(campaign, "after", "odd", "odd", "odd")
            store = campaign.campaigns.store
            begins = store.begins(campaign.number)
            log = [event for _, page in store.read(campaign.number, skip_expired=True) for event in page]
            found = backtest(store, policy={"minimum_votes": 3, "confidence": 0.55})
            assert found.position == campaign.position
            assert found.cast == sum(isinstance(event, events.Vote | events.Change) for event in log)
            assert found.before.votes < found.after.votes, "experts decided at once"
            assert await campaign.backtest({"minimum_votes": 3, "confidence": 0.55}, None) is not None
            assert backtest(store, model="ds", until=campaign.position - 1).position == campaign.position - 1
            with pytest.raises(InputError, match=f"begins at position {begins}"):
                backtest(store, model="ds", until=begins - 1)
            with pytest.raises(InputError, match="begins with the state at position"):
                replay(store, campaign.number, until=begins)

    asyncio.run(story())


def test_items_expire_with_the_votes_of_their_task(url):
    async def main():
        clock = Clock()
        async with serving(url, clock) as campaign:
            store, number = campaign.campaigns.store, campaign.number
            for task in ("old", "touched", "bare"):
                await vote(campaign, task, *["spam"] * 3, data={"text": task})
            await campaign.add_tasks(["named"], items.rows_of(campaign, [("named", "waits since")]))
            clock.now += 12 * DAY
            await vote(campaign, "touched", "ok", first=5)
            await vote(campaign, "new", *["spam"] * 3, data={"text": "new"})
            await expire(campaign)
            kept = {task for task in ("old", "touched", "bare", "named", "new") if store.items.find(number, task) is not None}
            assert kept == {"touched", "new"}
            assert (await campaign.task("old")).data is None
            assert (await campaign.task("old")).decision.label == "spam"

    asyncio.run(main())
