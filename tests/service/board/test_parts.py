"""Parts of the page against naive versions of them: contributions of votes, figures, searches by time, forms of policies."""

import asyncio
import http.client
import json
import random
import time

import numpy as np
import pytest

from adjudge.service.board.activity import Activities
from adjudge.service.board.audit import GoldRecord
from adjudge.service.board.evidence import trace, weigh
from adjudge.service.board.policies import document_of, fields_of
from adjudge.service.board.story import position_at
from adjudge.service.campaigns.decision import CODES
from adjudge.service.campaigns.policy import Policy
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store.opening import open_store
from live_store import START, stored
from service.serving import serving

LABELS = ["a", "b", "c"]


@pytest.fixture
def campaign(tmp_path):
    """A campaign with votes of nine workers on 60 tasks, and what happened in it."""

    async def make():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"))
        made, _ = await campaigns.put("c", CampaignSpec(labels=LABELS, policy={"maximum_votes": 6, "confidence": 0.97}))
        activity = Activities(campaigns).of(made)
        rng = random.Random(3)
        for task in range(60):
            true = rng.choice(LABELS)
            for worker in rng.sample(range(9), rng.randint(1, 7)):
                label = true if rng.random() < 0.55 + 0.05 * worker else rng.choice(LABELS)
                await made.vote([VoteIn(f"t{task}", f"w{worker}", label)])
        await made.ban(["w3"])
        return campaigns, made, activity

    with asyncio.Runner() as runner:
        campaigns, made, activity = runner.run(make())
        yield made, activity
        runner.run(campaigns.close())


def test_contributions_add_up_to_the_reported_odds(campaign):
    made, _ = campaign
    state = made.state
    for task in state.tasks:
        weighed = weigh(state, made.names, task.name)
        if weighed.label < 0:  # its only votes are of somebody who is banned
            assert not any(counts for _, _, counts in state.ballots(task.name))
            continue
        likely = state.answer(task.name)[4]
        best, second = sorted(likely, reverse=True)[:2]
        assert weighed.total == pytest.approx(np.log(max(best, 1e-6)) - np.log(max(second, 1e-6)))
        assert sum(vote.adds for vote in weighed.votes) + weighed.rest == pytest.approx(weighed.total)
        assert all(vote.adds == 0 for vote in weighed.votes if not vote.counts)
        assert {vote.worker for vote in weighed.votes if not vote.counts} <= {"w3"}
        shares = trace(weighed, [vote.number for vote in weighed.votes])
        assert shares[-1] == pytest.approx(likely, abs=1e-5)
        assert shares.sum(axis=1) == pytest.approx(np.ones(len(shares)))
        assert len(shares) == 1 + sum(vote.counts for vote in weighed.votes)
        for vote in weighed.votes:
            if vote.is_decisive and weighed.rest == pytest.approx(0):
                without = trace(weighed, [vote.number])[0]
                left = trace(weighed, [other.number for other in weighed.votes if other is not vote])
                assert left[-1][weighed.runner_up] / left[-1][weighed.label] > 0
                assert np.log(without[weighed.label] / without[weighed.runner_up]) == pytest.approx(
                    weighed.total - vote.adds, abs=1e-6
                )


def test_figures_of_tasks_equal_a_count_by_hand(campaign):
    made, activity = campaign
    state, summary = made.state, made.state.tasks.summary()
    tasks = list(state.tasks)
    assert summary.counts == {status: sum(task.standing.status == status for task in tasks) for status in CODES}
    for status, oldest in summary.oldest.items():
        assert oldest == min(task.opened for task in tasks if task.standing.status == status)
    decided = [task for task in tasks if task.standing.status in ("decided", "locked")]
    assert summary.labels == {
        code: number for code in range(3) if (number := sum(task.standing.label == code for task in decided))
    }
    sure = [state.answer(task.name)[4][task.standing.label] for task in decided]
    assert summary.doubt == pytest.approx(1 - sum(sure) / len(sure), abs=0.1)
    assert activity.decisions["votes"] >= len(decided)


class Reopening(np.ndarray):
    """Labels of which the first one with a mask is reopened while they are read, as another thread may do it."""

    def __getitem__(self, key):
        part = super().__getitem__(key)
        if not isinstance(key, np.ndarray):
            return part
        part[:1] = -1
        return np.asarray(part)


def test_a_summary_allows_for_tasks_that_are_reopened_meanwhile(campaign):
    made, _ = campaign
    tasks = made.state.tasks
    before = tasks.summary()
    tasks.label = tasks.label.view(Reopening)
    assert sum(tasks.summary().labels.values()) == sum(before.labels.values()) - 1


def test_a_time_is_found_in_the_log(tmp_path):
    votes = [(f"t{n}", "ann", "ok") for n in range(130)]
    store = open_store(stored(tmp_path / "votes.db", votes, per_page=17))
    times = [event.time for _, page in store.read(1) for event in page]
    for time_ in [0, START, *times[::7], times[-1], times[-1] + 1]:
        expected = next((position for position, at in enumerate(times, 1) if at >= time_), len(times) + 1)
        assert position_at(store, 1, 1, len(times), time_) == expected
    found = [(position, event.task) for position, event in store.events_of(1, "t40", after=0, until=len(times))]
    assert found == [(42, "t40")]
    assert list(store.events_of(1, "t40", after=42, until=len(times))) == []
    store.close()


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(confidence={"spam": 0.95, "*": 0.8}, lock=0, maximum_votes=None),
        Policy(quorum={"groups": 3}, probation={"votes": 5}, breakers={"label_share": None, "window": 50}),
        Policy(audit={"share": 0.02, "run": 300, "risk": 0.2}, lock=60),
        Policy(confidence=0.99999987, lock=1234567.5, hysteresis=1e-7, audit={"share": 0.00123456789, "error": 0.05000001}),
        Policy(costs={"spam": {"ok": 2.0}}, maximum_cost=0.3, next={"per_worker_per_day": 4}, escalate={"tie": True}),
    ],
)
def test_a_form_that_nobody_touched_changes_nothing(policy):
    document = policy.document()
    assert Policy.of(document_of(fields_of(document), document)) == policy


def test_an_audit_says_how_many_answers_are_missing():
    for right, judged in ((0, 0), (3, 4), (12, 14), (23, 30)):
        gold = GoldRecord(judged, right, 0.8)
        assert gold.verdict is None
        if gold.needed is not None:
            assert gold.judged + gold.needed >= 10
    assert GoldRecord(60, 58, 0.8).verdict == "good"
    assert GoldRecord(60, 30, 0.8).verdict == "poor"
    assert GoldRecord(9, 9, 0.5).verdict is None


def test_the_live_stream_tells_what_changes(tmp_path):
    with serving(tmp_path, policy={"minimum_votes": 1, "maximum_votes": 2, "confidence": 0.999}) as client:
        connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=10)
        connection.request("GET", "/c/default/live")
        stream = connection.getresponse()
        assert stream.headers["Content-Type"] == "text/event-stream"

        def changes():
            for line in stream:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

        told = changes()
        assert next(told) == {"position": 1, "waiting": 0, "votes": 0, "tasks": []}
        client.vote("t", "ann", "spam")
        client.vote("t", "bob", "ok")
        end = time.monotonic() + 10
        while (latest := next(told))["waiting"] != 1:
            assert time.monotonic() < end
        assert latest["tasks"] == ["t"]
        connection.close()
