"""Work on a campaign in slices: nobody sees the half of it, nothing of it is written before all of it is folded."""

import asyncio
import json
import threading
import time

import pytest

from adjudge.service.campaigns.voting import VoteFold
from adjudge.service.http import backtesting, fold
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.errors import Problem
from adjudge.service.http.fold import Slice, Turn
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store import events
from adjudge.service.store.opening import open_store
from service.serving import BASE, serving

N = 3000


def batch(task, n=N, workers="w"):
    return [{"task": f"{task}{i % 10}", "worker": f"{workers}{i}", "label": "spam"} for i in range(n)]


@pytest.fixture
def short_slices(monkeypatch):
    """Every slice is over at once, so that others have their turn after each vote."""
    monkeypatch.setattr(Slice, "is_over", lambda self: True)


def test_turns_are_given_in_order_and_past_those_who_left():
    async def main():
        turn, order = Turn(), []
        assert turn.take()
        assert not turn.take()

        async def work(name):
            await turn.wait()
            order.append(name)
            await asyncio.sleep(0)
            turn.give()

        tasks = [asyncio.ensure_future(work(name)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        turn.give()
        await asyncio.sleep(0)
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert order == ["a", "d"]
        assert not turn.is_taken

    asyncio.run(main())


def test_a_turn_that_is_handed_over_to_one_who_leaves_goes_on():
    async def main():
        turn = Turn()
        assert turn.take()
        waiting = [asyncio.ensure_future(turn.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        turn.give()
        waiting[0].cancel()  # at the same moment
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting[0].cancelled()
        assert turn.is_taken, "the second has it"
        turn.give()
        assert not turn.is_taken

    asyncio.run(main())


def test_readers_see_all_of_a_batch_or_nothing(tmp_path, short_slices):
    with serving(tmp_path) as client:
        seen, ended = set(), threading.Event()

        def read():
            while not ended.is_set():
                seen.add(client("GET", BASE).json["votes"])
                page = client("GET", "votes?limit=10000").json["votes"]
                assert len(page) % N == 0

        reader = threading.Thread(target=read)
        reader.start()
        assert client("POST", "votes", batch("a")).json["accepted"] == N
        assert client("POST", "votes", batch("b")).json["accepted"] == N
        ended.set()
        reader.join()
        assert seen <= {0, N, 2 * N}


def test_others_are_answered_while_a_batch_is_folded(tmp_path, short_slices):
    async def main():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"))
        try:
            campaign, _ = await campaigns.put("c", CampaignSpec(labels=["spam", "ok"]))
            other, _ = await campaigns.put("other", CampaignSpec(labels=["spam", "ok"]))
            votes = [VoteIn(vote["task"], vote["worker"], vote["label"]) for vote in batch("a")]
            voting = asyncio.ensure_future(campaign.fold_votes(votes))
            await asyncio.sleep(0)
            for n in range(10):
                assert (await other.fold_votes([VoteIn("t", f"w{n}", "ok")])).accepted == 1
                await asyncio.sleep(0)
                assert not voting.done()
            assert not campaign.can_take([VoteIn("t", "w", "ok")])
            assert (await voting).accepted == N
        finally:
            await campaigns.close()

    asyncio.run(main())


def test_workers_of_a_request_that_failed_before_its_first_event_are_new_again(tmp_path, monkeypatch):
    def fold(self, votes, start):
        raise RuntimeError("a fault")

    with serving(tmp_path) as client:
        with monkeypatch.context() as broken:
            broken.setattr(VoteFold, "fold", fold)
            assert client("POST", "votes", batch("a", 5, "new")).status == 503  # the campaign is loaded again
        until = time.monotonic() + 30
        while client("POST", "votes", batch("a", 5, "new")).status != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
    store = open_store(str(tmp_path / "votes.db"))
    try:
        assert sorted(number for number, _ in store.workers(1)) == [1, 2, 3, 4, 5]
    finally:
        store.close()


def test_a_batch_that_cannot_be_folded_leaves_nothing_behind(tmp_path, monkeypatch, short_slices):
    plain, broken = VoteFold.fold, threading.Event()

    def fold(self, votes, start):
        done = plain(self, votes, start)
        if "bad" in votes.names[start : start + done]:
            broken.set()
            raise RuntimeError("a fault")
        return done

    monkeypatch.setattr(VoteFold, "fold", fold)
    with serving(tmp_path) as client:
        assert client.vote("t", "ann", "spam").status == 200
        bad = [*batch("a", 50, "new"), {"task": "bad", "worker": "ann", "label": "spam"}, *batch("b", 50, "newer")]
        assert client("POST", "votes", bad).status == 500
        assert broken.is_set()
        for _ in range(200):
            if client("GET", "/readyz").status == 200:
                break
            time.sleep(0.05)
        view = client("GET", BASE).json
        assert (view["votes"], view["workers"], view["position"]) == (1, 1, 2)
        assert client("POST", "votes", batch("a", 50, "new")).json["accepted"] == 50
    store = open_store(str(tmp_path / "votes.db"))
    try:
        assert sum(len(page) for _, page in store.read(1)) == 52
        assert len(list(store.workers(1))) == 51
    finally:
        store.close()


def test_a_batch_whose_client_leaves_is_taken_whole(tmp_path, short_slices):
    with serving(tmp_path) as client:
        connection = client.connection()
        connection.request("POST", "/v1/campaigns/default/votes", json.dumps(batch("a")).encode())
        time.sleep(0.05)
        connection.close()
        for _ in range(400):
            votes = client("GET", BASE).json["votes"]
            if votes:
                break
            time.sleep(0.02)
        assert votes == N


def test_work_of_a_caller_that_is_cancelled_ends_in_its_turn(tmp_path, short_slices):
    async def main():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"))
        try:
            campaign, _ = await campaigns.put("c", CampaignSpec(labels=["spam", "ok"]))
            votes = [VoteIn(vote["task"], vote["worker"], vote["label"]) for vote in batch("a", 100)]
            voting = asyncio.ensure_future(campaign.vote(votes))
            await asyncio.sleep(0)
            assert campaign.turn.is_taken
            voting.cancel()
            view = await campaign.read(campaign.view, 0)
            assert view.votes == 100
            assert not campaign.turn.is_taken
        finally:
            await campaigns.close()

    asyncio.run(main())


def test_groups_of_a_stream_stay_in_order(tmp_path, short_slices):
    lines = [{"task": "t", "worker": "w", "label": ("spam", "ok")[i % 2]} for i in range(2500)]
    with serving(tmp_path) as client:
        body = b"\n".join(json.dumps(line).encode() for line in lines)
        voting = threading.Thread(target=lambda: client("POST", "votes", batch("a")))
        voting.start()
        answer = client("POST", "votes:stream", body)
        voting.join()
        assert answer.body.count(b"\n") == len(lines)
        log = [vote for vote in client("GET", "votes?limit=10000").json["votes"] if vote["task"] == "t"]
        assert [vote["label"] for vote in log] == ["ok"], "the last one is in force"


def test_a_backtest_stops_when_its_client_leaves(tmp_path, monkeypatch):
    read, stopped = [], threading.Event()

    def endless(store, campaign):
        first = next(iter(store.read(campaign, until=1)))[1][0]
        yield 1, first
        try:
            while True:
                read.append(time.sleep(0.001))
                yield len(read) + 1, events.Tick(time=first.time)
        finally:
            stopped.set()

    monkeypatch.setattr(backtesting, "read_kept_log", endless)
    with serving(tmp_path) as client:
        connection = client.connection()
        connection.request("POST", "/v1/campaigns/default/policy/backtest", b'{"policy":{"confidence":0.7}}')
        while not read:
            time.sleep(0.01)
        connection.close()
        assert stopped.wait(20)


def test_work_at_once_does_what_work_in_slices_does():
    def steps():
        one = yield lambda: 1
        yield None
        return one + 1

    async def main():
        work = steps()
        return await fold.finish(work, next(work), asyncio.to_thread)

    assert fold.drain(steps()) == asyncio.run(main()) == 2


def test_errors_of_long_work_reach_it():
    def steps():
        try:
            yield lambda: (_ for _ in ()).throw(Problem("no"))
        except Problem:
            return "told"

    async def main():
        work = steps()
        return await fold.finish(work, next(work), asyncio.to_thread)

    assert asyncio.run(main()) == "told"
