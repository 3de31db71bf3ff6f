"""Bans, unbans and erasure over a store whose tasks are archived."""

import asyncio
import http.client
import threading
from contextlib import asynccontextmanager, closing, suppress

import pytest

import postgres
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.replay import check
from adjudge.service.http import maintenance
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store import events
from adjudge.service.store.opening import open_store
from adjudge.service.store.verify import verify
from server_process import Served, until
from service.serving import serving as client_of

RING = ["mal", "mel", "mil"]
SPEC = CampaignSpec(labels=["spam", "ok"], retention={"tasks": 1, "waiting": 1}, policy={"minimum_votes": 3, "confidence": 0.5})
CAMPAIGN = "/v1/campaigns/default"


@pytest.fixture(params=postgres.STORES)
def url(request, tmp_path):
    return str(tmp_path / "votes.db") if request.param == "sqlite" else postgres.server().fresh()


@asynccontextmanager
async def serving(url):
    """A campaign of a server that does nothing by itself."""
    campaigns = await Campaigns.open(url)
    await asyncio.sleep(0)
    for task in campaigns._endless:
        task.cancel()
    try:
        campaign, _ = await campaigns.put("default", SPEC)
        yield campaign
    finally:
        await campaigns.close()


async def attack(campaign, tasks=8):
    """Honest workers decide some tasks, a ring eight others; nearly all of them are archived."""
    for n in range(6):
        await campaign.vote([VoteIn(f"good{n}", worker, "ok") for worker in ("ann", "bob", "cy", *RING)])
    for n in range(tasks):
        await campaign.vote([VoteIn(f"bad{n}", worker, "spam") for worker in RING])
        await campaign.vote([VoteIn(f"bad{n}", "ann", "ok")])
    await campaign.duties.sweep()
    assert campaign.state.archived_tasks >= tasks


async def statuses(campaign, tasks=8):
    views = [await campaign.task(f"bad{n}") for n in range(tasks)]
    return [(view.decision.status, view.decision.label if view.decision.status == "decided" else None) for view in views]


def told(changes):
    return sorted((was.task, was.status, is_.status) for was, is_ in changes)


def test_a_ban_reaches_archived_tasks_and_the_preview_says_so(url):
    async def story():
        async with serving(url) as campaign:
            await attack(campaign)
            assert await statuses(campaign) == [("decided", "spam")] * 8
            position = campaign.position
            preview = await campaign.ban(RING, dry_run=True)
            assert told(preview) == [(f"bad{n}", "decided", "open") for n in range(8)]
            assert campaign.position == position, "a preview changes nothing"
            done = await campaign.ban(RING, by="mo", reason="a ring")
            assert told(done) == told(preview)
            assert campaign.committed == campaign.position, "the answer comes when all of it is on disk"
            assert await statuses(campaign) == [("open", None)] * 8
            assert not campaign.state.unreached
            rows = list(campaign.campaigns.store.decisions(1))
            assert {row.task for row in rows if row.position > position} == {f"bad{n}" for n in range(8)}, "all are recorded"
            back = await campaign.unban(RING, dry_run=True)
            assert told(await campaign.unban(RING)) == told(back) == [(f"bad{n}", "open", "decided") for n in range(8)]
            assert await statuses(campaign) == [("decided", "spam")] * 8
        store = open_store(url, readonly=True)
        found = check(store, 1)
        store.close()
        assert (found.difference, found.snapshot) == (None, found.position)

    asyncio.run(story())


def test_a_ban_that_was_cut_off_is_finished_after_a_restart(url, monkeypatch):
    monkeypatch.setattr(maintenance, "TASKS_PER_EVENT", 2)

    async def cut_off():
        async with serving(url) as campaign:
            await attack(campaign)
            ban = asyncio.create_task(campaign.ban(RING))
            while sum(campaign.state.find(f"bad{n}").standing.status == "open" for n in range(8)) < 4:
                await asyncio.sleep(0)
            ban.cancel()
            await asyncio.wait([ban])
            assert len(campaign.state.unreached) == 3
            return sum(status == "decided" for status, _ in await statuses(campaign))

    async def go_on():
        async with serving(url) as campaign:
            assert campaign.duties.reach.is_due()
            await campaign.vote([VoteIn("bad7", "bob", "ok")])  # comes back by itself meanwhile
            await campaign.duties.reach.run()
            assert not campaign.duties.reach.is_due()
            assert await statuses(campaign) == [("open", None)] * 8
            return snapshot.digest(campaign.state)

    assert asyncio.run(cut_off()) > 0
    digest = asyncio.run(go_on())
    store = open_store(url, readonly=True)
    found = check(store, 1)
    store.close()
    assert (found.difference, found.digest) == (None, digest)


@pytest.mark.slow
def test_a_server_that_is_killed_during_a_ban_finishes_it(tmp_path):
    url, tasks = str(tmp_path / "votes.db"), 600

    async def prepare():
        async with serving(url) as campaign:
            await attack(campaign, tasks)

    asyncio.run(prepare())
    with Served(url) as server:

        def ban():
            with suppress(OSError, http.client.HTTPException):
                server.ask("POST", f"{CAMPAIGN}/bans", {"workers": RING})

        asking = threading.Thread(target=ban)
        asking.start()
        store = open_store(url, readonly=True)
        until(lambda: any(isinstance(event, events.Revisit) for _, page in store.read(1) for event in page))
        store.close()
        server.kill()
        asking.join()
    with Served(url) as server:

        def is_done():
            found = [server.ask("GET", f"{CAMPAIGN}/tasks/bad{n}")[1]["decision"]["status"] for n in range(0, tasks, 37)]
            return set(found) == {"open"}

        assert until(is_done)
        assert server.end() == 0


@pytest.mark.slow
def test_a_follower_sees_what_a_ban_changed_in_the_archive():
    url = postgres.server().fresh()

    async def prepare():
        async with serving(url) as campaign:
            await attack(campaign)

    asyncio.run(prepare())
    with Served(url) as owner, Served(url) as follower:
        status, answer, _ = owner.ask("POST", f"{CAMPAIGN}/bans", {"workers": RING})
        assert (status, len(answer["changes"])) == (200, 8)
        assert answer["summary"].startswith("8 changes: ")
        for n in range(8):
            wanted = owner.ask("GET", f"{CAMPAIGN}/tasks/bad{n}")[1]["decision"]
            assert wanted["status"] == "open"
            assert until(lambda: follower.ask("GET", f"{CAMPAIGN}/tasks/bad{n}")[1]["decision"] == wanted)  # noqa: B023
        worker = owner.ask("GET", f"{CAMPAIGN}/workers/mal")[1]
        assert worker["banned"]
        assert until(lambda: follower.ask("GET", f"{CAMPAIGN}/workers/mal")[1] == worker)


def test_votes_during_a_ban_lose_nothing(url, monkeypatch):
    """Tasks that come back, and leave again, between the search and the events."""
    monkeypatch.setattr(maintenance, "TASKS_PER_EVENT", 1)

    async def story():
        async with serving(url) as campaign:
            await attack(campaign)
            ban = asyncio.create_task(campaign.ban(RING))
            for n in reversed(range(8)):
                await campaign.vote([VoteIn(f"bad{n}", "bob", "ok")])
                await campaign.duties.sweep()
            await ban
            assert await statuses(campaign) == [("open", None)] * 8
            assert not any(campaign.state.is_concerned(f"{kind}{n}") for kind in ("good", "bad") for n in range(8))

    asyncio.run(story())


def test_two_bans_at_once_tell_all_changes_between_them(url, monkeypatch):
    monkeypatch.setattr(maintenance, "TASKS_PER_EVENT", 1)

    async def story():
        async with serving(url) as campaign:
            await attack(campaign)
            changes = await asyncio.gather(campaign.ban(RING[:2]), campaign.ban(RING[2:]))
            assert {was.task for each in changes for was, _ in each} == {f"bad{n}" for n in range(8)}
            assert await statuses(campaign) == [("open", None)] * 8
            assert not campaign.state.unreached

    asyncio.run(story())


def test_an_erased_name_is_in_nothing_that_is_stored(url):
    """Not in archived records, snapshots, pages of ids, decisions, nor in what Label Studio sent."""
    name = "mallory@example.com"

    async def story():
        async with serving(url) as campaign:
            for n in range(6):
                votes = [VoteIn(f"t{n}", worker, "ok", f"{n}-{at}") for at, worker in enumerate(("ann", "bob", name))]
                await campaign.vote(votes)
            await campaign.ban([name])
            await campaign.duties.save_snapshot()
            await campaign.duties.sweep()
            await campaign.erase(name)
            view = await campaign.task("t0")
            assert [ballot.worker for ballot in view.evidence] == ["ann", "bob", None]
            changes = await campaign.unban(["ann"])
            assert changes == []
            await campaign.duties.save_snapshot()
            store = campaign.campaigns.store
            saved = store.snapshots(1).latest()[1]
            kept = [
                saved,
                *(row.record for row in store.archived_page(1, after="", until=campaign.position, limit=100)),
                *(row.body for row in store.decisions(1)),
                *(page.body for page in store.pages(1)),
                *(page for generation, _ in store.id_generations(1) for page in store.id_pages(1, generation)),
                *((worker or "").encode() for _, worker in store.workers(1)),
            ]
            assert not any(name.encode() in data for data in kept)

    asyncio.run(story())


def test_an_erased_name_of_label_studio_is_nowhere_in_the_files(tmp_path):
    name, chosen = (
        "mallory@example.com",
        {"from_name": "kind", "to_name": "text", "type": "choices", "value": {"choices": ["ok"]}},
    )
    with client_of(tmp_path) as client:
        client("PATCH", CAMPAIGN, {"retention": {"tasks": 1, "waiting": 1}})
        for number in range(8):
            annotation = {"id": number, "task": number, "completed_by": {"id": 5, "email": name}, "result": [chosen]}
            assert client("POST", "labelstudio", {"action": "ANNOTATION_CREATED", "annotation": annotation}).json["accepted"] == 1
        until(lambda: client("GET", CAMPAIGN).json["archived"] >= 7)
        assert client("DELETE", f"workers/{name}").status == 200
        assert client("GET", "tasks/0").json["evidence"][0]["worker"] is None
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    with closing(open_store(tmp_path / "votes.db", readonly=True)) as store:
        assert verify(store)[0].annotations > 7
    assert name.encode() not in files


def test_what_is_told_of_a_worker_before_during_and_after_a_ban(tmp_path):
    with client_of(tmp_path) as client:
        client.vote("t", "mal", "spam")
        first = client("GET", "workers/mal").json
        low, high = first["interval"]
        assert 0.5 < first["accuracy"] < 0.8
        assert (high - low > 0.5, low < first["accuracy"] < high) == (True, True)
        assert client("GET", "tasks/t").json["evidence"][0]["accuracy"] == first["accuracy"]
        assert (first["banned"], first["ban"]) == (False, None)
        for n in range(12):
            label, other = ("spam", "ok") if n % 2 else ("ok", "spam")
            for worker in ("ann", "bob", "cy", "dee"):
                client.vote(f"good{n}", worker, label)
            client.vote(f"good{n}", "mal", other)
        before = client("GET", "workers/mal").json
        assert before["accuracy"] < 0.3
        client("POST", "bans", {"workers": ["mal"], "by": "mo", "reason": "always against all others"})
        after = client("GET", "workers/mal").json
        for name in ("accuracy", "interval", "votes"):
            assert after[name] == after["ban"][name] == before[name]
        assert (after["banned"], after["ban"]["by"], after["ban"]["reason"]) == (True, "mo", "always against all others")
        assert after["confusion"] is None, "no vote of theirs counts"
        assert client("GET", "tasks/good0").json["evidence"][-1]["accuracy"] == before["accuracy"]
        page = {row["worker"]: row for row in client("GET", "workers").json["workers"]}
        assert page["mal"] == after
        assert page["ann"] == client("GET", "workers/ann").json
        assert page["ann"]["interval"][0] > 0.5
    with client_of(tmp_path) as client:
        assert client("GET", "workers/mal").json == after, "it is part of the state"
        assert client("POST", "workers/mal/unban").status == 200
        again = client("GET", "workers/mal").json
        assert (again["banned"], again["ban"]) == (False, None)
        assert abs(again["accuracy"] - before["accuracy"]) < 0.05
