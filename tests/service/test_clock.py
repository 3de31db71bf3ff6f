"""A wrong clock: nothing is deleted by it, no event is dated by it, and a log that it has dated can be set back."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager

import pytest

import postgres
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.backtest import backtest
from adjudge.service.campaigns.replay import check, replay
from adjudge.service.http import server as server_module
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.clock import MAX_STEP_S, Clock
from adjudge.service.http.errors import Unavailable
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store import events
from adjudge.service.store.opening import open_store
from service.serving import serving as served

SECOND = 1_000_000_000  # nanoseconds
DAY = 86_400 * SECOND
YEAR = 365 * DAY
POLICY = {"minimum_votes": 3, "confidence": 0.6, "hold": 60}


class Time:
    """A wall clock that can be wrong, and a steady one that cannot."""

    def __init__(self):
        self.steady, self.wrong = 1_700_000_000 * SECOND, 0

    def passes(self, seconds):
        self.steady += int(seconds * SECOND)

    def clock(self):
        return Clock(lambda: self.steady + self.wrong, lambda: self.steady)


@pytest.fixture(params=postgres.STORES)
def url(request, tmp_path):
    return str(tmp_path / "votes.db") if request.param == "sqlite" else postgres.server().fresh()


@asynccontextmanager
async def running(url, time, *, retention=None):
    """A campaign whose duties run when the test says so."""
    campaigns = await Campaigns.open(url, clock=time.clock())
    await asyncio.sleep(0)
    for task in campaigns._endless:
        task.cancel()
    spec = CampaignSpec(labels=["spam", "ok"], retention=retention or {"votes_days": 10}, policy=POLICY)
    try:
        if campaigns.names():
            yield campaigns.get("default")
        else:
            yield (await campaigns.put("default", spec))[0]
    finally:
        await campaigns.close()


async def vote(campaign, task, label="spam", workers=3):
    for at in range(workers):
        answer = await campaign.vote([VoteIn(task=task, worker=f"w{at}", label=label)])
    return answer.decisions[0]


async def look(campaign):
    """What the server does five times per second."""
    if not campaign.is_in_doubt():
        await campaign.duties.look()
        await asyncio.gather(*(task for task in campaign.campaigns._tasks if task not in campaign.campaigns._endless))
    await campaign.on_disk_now()


def times_of(url, number=1):
    store = open_store(url, readonly=True)
    found = [event.time for _, page in store.read(number, skip_expired=True) for event in page]
    store.close()
    return found


def test_the_clock_follows_small_steps_and_doubts_large_ones(caplog):
    time = Time()
    clock = time.clock()
    for step in (0, 100 * SECOND, -200 * SECOND):
        time.wrong += step
        time.passes(5)
        assert clock.now() == (time.steady + time.wrong) // 1000
    for hour in range(100):  # a clock that runs too fast by a minute per hour
        time.wrong += 60 * SECOND
        time.passes(3600)
        assert clock.now(), hour
    for wrong in (YEAR, -YEAR, (MAX_STEP_S + 1) * SECOND, -(MAX_STEP_S + 1) * SECOND):
        caplog.clear()
        clock.accept()
        before, time.wrong = time.wrong, time.wrong + wrong
        with pytest.raises(Unavailable, match="the clock has jumped"):
            clock.now()
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        assert clock.jump_s == pytest.approx(wrong / SECOND)
        time.wrong = before
        assert clock.now()
        assert (clock.jump_s, clock.doubt) == (0.0, None)
    time.wrong += YEAR
    assert clock.read()
    assert clock.doubt
    clock.accept()
    assert clock.now() == (time.steady + time.wrong) // 1000


def test_a_machine_that_sleeps_is_no_jump():
    time = Time()
    clock = time.clock()
    time.passes(8 * 3600)
    assert clock.now()


def test_a_time_is_settled_once_it_was_seen_for_an_hour():
    time = Time()
    clock = time.clock()
    begun = clock.read()
    assert clock.settled() is None
    time.passes(3599)
    assert clock.settled() is None
    time.passes(2)
    assert clock.settled() == begun
    time.wrong += YEAR
    clock.accept()
    for _ in range(59):
        assert clock.settled() < begun + 3700 * 10**6
        time.passes(60)
    time.passes(120)
    assert clock.settled() >= begun + YEAR // 1000
    time.wrong -= YEAR  # and back
    clock.accept()
    assert clock.settled() < begun + 3 * 3600 * 10**6


@pytest.mark.parametrize("wrong", [YEAR, -YEAR], ids=["ahead", "behind"])
@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_year_off_for_three_seconds_changes_nothing(url, wrong, is_busy, caplog):
    async def story():
        time = Time()
        async with running(url, time) as campaign:
            for day in range(3):
                await vote(campaign, f"t{day}")
                await look(campaign)
                time.passes(86_400)
            held = await vote(campaign, "held")
            assert held.status == "held"
            time.passes(10)
            await look(campaign)
            before, position = campaign.state.time, campaign.position
            votes = await campaign.votes(0, 100)
            time.wrong = wrong
            for _ in range(30):
                time.passes(0.1)
                await look(campaign)
                if is_busy:
                    with pytest.raises(Unavailable, match="the clock has jumped"):
                        await vote(campaign, "meanwhile")
                    with pytest.raises(Unavailable):
                        await campaign.erase("w1")
                    with pytest.raises(Unavailable):
                        await campaign.gold("t1", "ok")
                await campaign.duties.expiry.run()
            assert campaign.campaigns.ready() == [campaign.campaigns.clock.doubt]
            assert (campaign.position, campaign.state.time) == (position, before)
            time.wrong = 0
            await look(campaign)
            assert campaign.campaigns.ready() == []
            assert (await campaign.votes(0, 100)).votes == votes.votes
            assert (await campaign.task("held")).decision.status == "held"
            time.passes(60)
            await look(campaign)
            assert (await campaign.task("held")).decision.status == "decided"
            assert (await vote(campaign, "later")).status == "held"
            assert campaign.names.number("w1")
            digest = snapshot.digest(campaign.state)
        store = open_store(url, readonly=True)
        checked = check(store, 1)
        assert checked.difference is None
        assert checked.digest == digest
        store.close()

    asyncio.run(story())
    times = times_of(url)
    assert times == sorted(times)
    assert times[-1] - times[0] < 4 * DAY // 1000
    assert [record.levelname for record in caplog.records if "jumped" in record.message] == ["ERROR"]


def test_a_start_with_a_clock_a_year_ahead_deletes_nothing_and_can_be_set_right(url, caplog):
    """The service cannot tell: it dates by the wrong clock. Nothing is deleted within an hour, and the log can be set back."""

    async def story():
        time = Time()
        async with running(url, time) as campaign:
            await vote(campaign, "t0")
            number, first = campaign.number, campaign.state.time
        time.passes(600)
        time.wrong = YEAR
        async with running(url, time) as campaign:
            for _ in range(30):
                time.passes(0.1)
                await look(campaign)
            assert (await vote(campaign, "ahead")).status == "held"
            await campaign.set_policy({**POLICY, "hold": 50})
            assert campaign.state.begins == 1
            assert len((await campaign.votes(0, 100)).votes) == 6
            ahead = campaign.state.time
            assert ahead > first + YEAR // 1000
        time.wrong = 0
        async with running(url, time) as campaign:
            assert campaign.campaigns.clock.doubt is None
            [reason] = campaign.campaigns.ready()
            assert "the log of campaign 'default' is 31536" in reason
            assert "POST /v1/clock" in reason
            await look(campaign)
            await look(campaign)
            with pytest.raises(Unavailable, match="ahead of the clock"):
                await vote(campaign, "refused")
            now, names = await campaign.campaigns.set_clock("ann", "the clock was a year ahead")
            assert (names, campaign.state.time) == (["default"], now)
            assert campaign.campaigns.ready() == []
            assert (await campaign.campaigns.set_clock())[1] == [], "once is enough"
            view = await campaign.task("ahead")
            assert view.touched.timestamp() <= now / 1e6
            assert (await campaign.policies())[-1].time.timestamp() <= now / 1e6
            assert (await vote(campaign, "now")).status == "held"
            time.passes(49)
            await look(campaign)
            assert (await campaign.task("ahead")).decision.status == "held"
            time.passes(2)
            await look(campaign)
            assert (await campaign.task("ahead")).decision.status == "decided"
            assert (await campaign.task("now")).decision.status == "decided"
            assert len((await campaign.votes(0, 100)).votes) == 9
            digest = snapshot.digest(campaign.state)
        store = open_store(url, readonly=True)
        checked = check(store, number)
        assert checked.difference is None
        assert checked.digest == digest == snapshot.digest(replay(store, number))
        [reset] = [event for _, page in store.read(number) for event in page if isinstance(event, events.ClockSet)]
        assert (reset.by, reset.reason) == ("ann", "the clock was a year ahead")
        found = backtest(store, policy={"minimum_votes": 3, "confidence": 0.6}, campaign=number)
        assert found.before.decided == found.after.decided == 3
        assert 0 <= found.after.seconds <= found.before.seconds < 86_400
        store.close()

    asyncio.run(story())
    assert [record.levelname for record in caplog.records if "until then it takes no events" in record.message] == ["ERROR"]


def test_an_hour_of_the_later_time_lets_votes_expire(tmp_path):
    async def story():
        time = Time()
        async with running(str(tmp_path / "votes.db"), time) as campaign:
            for day in range(3):
                await vote(campaign, f"t{day}")
                time.passes(86_400)
        time.wrong = 30 * DAY
        async with running(str(tmp_path / "votes.db"), time) as campaign:
            for minute in range(59):
                await look(campaign)
                assert campaign.state.begins == 1, minute
                time.passes(60)
            await vote(campaign, "fresh")
            for _ in range(70):
                time.passes(60)
                await look(campaign)
            assert campaign.state.begins > 1
            assert {row.task for row in (await campaign.votes(0, 100)).votes} == {"fresh"}

    asyncio.run(story())


def test_what_was_dated_ahead_expires_by_when_it_happened(url):
    """Of a log that was set back, nothing is cut that is younger than votes are kept; and all that is older."""

    async def story():
        time = Time()
        async with running(url, time) as campaign:
            await vote(campaign, "before")
            time.passes(86_400)
        time.wrong = YEAR
        async with running(url, time) as campaign:
            await vote(campaign, "ahead")
        time.wrong = 0
        async with running(url, time) as campaign:
            await campaign.campaigns.set_clock()
            await vote(campaign, "after")
            for hours, left in ((8 * 24, {"before", "ahead", "after"}), (30, {"ahead", "after"}), (36, set())):
                for _ in range(hours):
                    time.passes(3600)
                    campaign.now()
                await vote(campaign, f"new{hours}", workers=1)
                campaign.duties.expiry._due_at = 0
                await look(campaign)
                now = {row.task for row in (await campaign.votes(0, 100)).votes}
                assert {task for task in now if not task.startswith("new")} == left
            digest = snapshot.digest(campaign.state)
            assert campaign.state.clock_sets == []
        store = open_store(url, readonly=True)
        assert check(store, 1).digest == digest
        store.close()

    asyncio.run(story())


def test_leases_and_refits_go_on_after_a_log_is_set_back(tmp_path):
    async def story():
        time = Time()
        time.wrong = YEAR
        async with running(str(tmp_path / "votes.db"), time) as campaign:
            await campaign.settings(refit={"seconds": 100, "votes": 1000})
            await vote(campaign, "t", workers=1)
            assert [task.task for task in (await campaign.next("w1", 5)).tasks] == ["t"]
            time.wrong = 0
            with pytest.raises(Unavailable):
                await campaign.next("w1", 5)
            await campaign.campaigns.set_clock()
            assert (await campaign.next("w1", 5)).tasks == [], "it was given to them just now"
            assert not campaign.duties.is_refit_due()
            time.passes(301)
            assert [task.task for task in (await campaign.next("w1", 5)).tasks] == ["t"]
            assert campaign.duties.is_refit_due()

    asyncio.run(story())


def test_over_http(tmp_path, monkeypatch):
    time = Time()
    opened = Campaigns.open.__func__
    monkeypatch.setattr(
        server_module.Campaigns, "open", classmethod(lambda cls, url: opened(cls, url, clock=time.clock())), raising=True
    )
    tokens = [("root", "admin", None), ("one", "admin", "default"), ("ann", "vote,read", None)]
    with served(tmp_path, given=tokens) as client:
        client.token = client.tokens["ann"]
        assert client.vote("t1", "w1", "spam").status == 200
        time.wrong = YEAR
        answer = client.vote("t2", "w1", "spam")
        assert answer.status == 503
        assert "the clock has jumped 31536000 s ahead" in answer.json["detail"]
        assert answer.headers["retry-after"]
        ready = client("GET", "/readyz")
        assert (ready.status, ready.json["reasons"]) == (503, [answer.json["detail"]])
        assert client("GET", "tasks/t1").status == 200, "existing tasks can be read"
        assert client("GET", "/healthz").status == 200
        figures = client("GET", "/metrics").body.decode()
        assert "adjudge_clock_jump_seconds 31536000" in figures
        assert client("POST", "/v1/clock").status == 403
        client.token = client.tokens["one"]
        assert client("POST", "/v1/clock").status == 403, "it is the clock of all campaigns"
        client.token = client.tokens["root"]
        accepted = client("POST", "/v1/clock", {"by": "root", "reason": "it was behind before"})
        assert (accepted.status, accepted.json["campaigns"]) == (200, [])
        assert client.vote("t2", "w1", "spam").status == 200
        time.wrong = 0
        assert client.vote("t3", "w1", "spam").status == 503
        accepted = client("POST", "/v1/clock")
        assert (accepted.status, accepted.json["campaigns"]) == (200, ["default"])
        assert client.vote("t3", "w1", "spam").status == 200
        assert client("GET", "/readyz").status == 200
        assert "adjudge_clock_jump_seconds 0" in client("GET", "/metrics").body.decode()


def test_doctor_says_how_to_set_a_log_back(tmp_path, adjudge):
    async def story():
        clock = Clock()
        wall = clock._wall
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"), clock=Clock(lambda: wall() + YEAR))
        await campaigns.put("default", CampaignSpec(labels=["spam", "ok"]))
        await campaigns.close()

    asyncio.run(story())
    code, out, _ = adjudge("doctor", str(tmp_path / "votes.db"), "--json")
    assert code == 0
    [warning] = [one["text"] for one in json.loads(out) if one["state"] == "warn" and "campaign" in one["what"]]
    assert "ahead of the clock" in warning
    assert "POST /v1/clock" in warning
