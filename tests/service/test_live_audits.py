"""Audits over HTTP: the queue is blind, answers are judged and decide, and the alarm reaches every reader and survives a kill."""

import json
import time
from contextlib import closing

import pytest

from adjudge.service.campaigns.replay import check, replay
from adjudge.service.http import queue
from adjudge.service.http import server as server_module
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.store.opening import open_store
from crashing.server import Server
from service.serving import serving
from service.test_clock import Time
from service.test_feed import Stream

AUDIT = {"share": 1.0, "error": 0.05, "risk": 0.1, "run": 5000, "deadline_days": 7}
POLICY = {"minimum_votes": 1, "confidence": 0.5, "maximum_votes": 2, "audit": AUDIT}
FIGURES = ("drawn", "waiting", "audited", "wrong", "expired")


class Audited:
    """A client of a campaign with audits; paths are relative to it."""

    def __init__(self, client, name, **audit):
        self.client, self.path = client, f"/v1/campaigns/{name}"
        policy = {**POLICY, "audit": {**AUDIT, **audit}}
        assert client("PUT", self.path, {"labels": ["spam", "ok"], "policy": policy}).status in (200, 201)

    def __call__(self, method, path, body=None):
        return self.client(method, f"{self.path}/{path}", body)

    def vote(self, task, worker="ann", label="spam", **more):
        answer = self("POST", "votes", {"task": task, "worker": worker, "label": label, **more})
        assert answer.status == 200, answer.body
        return answer.json["decisions"][0]

    def escalate(self, task):
        for worker, label in (("ann", "spam"), ("bob", "ok")):
            decision = self.vote(task, worker, label)
        assert decision["status"] == "escalated", decision

    def judge(self, task, label="spam", by="eve"):
        return self("POST", "queue", {"task": task, "label": label, "by": by})

    def queue(self, by="eve", n=100):
        return self("GET", f"queue?by={by}&n={n}").json["tasks"]

    def figures(self):
        view = self("GET", "audits").json
        return tuple(view[name] for name in FIGURES)


@pytest.fixture
def audited(server, request):
    return Audited(server, f"audited {request.node.name}".replace(" ", "%20")[:80])


def test_the_queue_is_blind(audited):
    audited("POST", "tasks", {"tasks": [{"task": "t1", "data": {"text": "Buy!"}}]})
    audited.vote("t1")
    assert audited.queue() == [{"task": "t1", "data": {"text": "Buy!"}}]
    assert [sorted(row) for row in audited.queue()] == [["data", "task"]]


def test_escalated_tasks_and_audits_look_the_same(audited):
    audited("PUT", "policy", {"policy": {**POLICY, "minimum_votes": 2, "escalate": {"disagreement": 0.4}}})
    audited.escalate("e1")
    audited.vote("t1", "ann")
    assert audited.vote("t1", "bob")["status"] == "decided"
    audited.escalate("e2")
    rows = audited.queue()
    assert {row["task"] for row in rows} >= {"e1", "e2", "t1"}
    answers = [audited.judge(task) for task in ("e1", "t1", "e2")]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert [list(answer.json) for answer in answers] == [["position"]] * 3
    reasons = [audited("GET", f"tasks/{task}").json["decision"]["reason"] for task in ("e1", "t1", "e2")]
    assert reasons == ["override", "audit", "override"]


def test_answers_are_judged_and_decide(audited):
    for task in ("right", "wrong", "later"):
        audited.vote(task)
    assert audited.judge("right", "spam").status == 200
    assert audited.judge("wrong", "ok").status == 200
    assert audited.figures() == (3, 1, 2, 1, 0)
    view = audited("GET", "audits").json
    assert (view["rate"], view["share"], view["error"], view["decisions"], view["alarmed"]) == (0.5, 1.0, 0.05, 3, False)
    assert 0 <= view["interval"][0] <= 0.5 < view["interval"][1] <= 1
    assert 0 < view["alarm"] < 1
    decisions = [audited("GET", f"tasks/{task}").json for task in ("right", "wrong")]
    assert [(each["decision"]["label"], each["decision"]["by"]) for each in decisions] == [("spam", "eve"), ("ok", "eve")]
    assert decisions[0]["why"][0] == "a person judged it in an audit (eve), without seeing the votes"
    assert [row["task"] for row in audited.queue()] == ["later"]


def test_an_answer_that_cannot_be_taken(audited):
    audited.vote("t1", "eve")
    for body, status, told in (
        ({"task": "none", "label": "spam"}, 404, "task 'none' is unknown"),
        ({"task": "t1", "label": "nope"}, 422, "label 'nope' is unknown: the labels are spam, ok"),
        ({"task": "t1", "label": "spam", "by": "eve"}, 409, "'eve' has voted on task 't1': somebody else has to judge it"),
        ({"task": "t1"}, 422, "label"),
    ):
        answer = audited("POST", "queue", body)
        assert (answer.status, told in answer.json["detail"]) == (status, True), answer.json
    assert audited.judge("t1", by="mo").status == 200
    again = audited.judge("t1", by="mo")
    assert (again.status, again.json["error"]) == (409, "conflict")
    assert again.json["detail"].startswith("task 't1' does not wait for a person")
    assert audited.figures() == (1, 0, 1, 0, 0)


def test_who_has_voted_is_not_asked(audited):
    audited.vote("t1", "eve")
    audited.vote("t2", "mo")
    assert [row["task"] for row in audited.queue("eve")] == ["t2"]
    assert [row["task"] for row in audited.queue("mo")] == ["t1"]


def test_two_people_get_different_tasks_for_a_while(audited, monkeypatch):
    for n in range(4):
        audited.vote(f"t{n}")
    first = [row["task"] for row in audited.queue("eve", 2)]
    assert first == ["t0", "t1"], "the longest waiting first"
    assert [row["task"] for row in audited.queue("mo", 9)] == ["t2", "t3"]
    assert [row["task"] for row in audited.queue("eve", 9)] == ["t0", "t1"]
    monkeypatch.setattr(queue, "LEASE", 0)
    assert len(audited.queue("mo", 9)) == 4


def test_who_has_voted_on_a_page_of_tasks_gets_the_next(audited, monkeypatch):
    monkeypatch.setattr(queue, "QUEUE_PAGE_TASKS", 2)
    audited("PUT", "policy", {"policy": {**POLICY, "minimum_votes": 2, "escalate": {"disagreement": 0.1}}})
    for n in range(5):
        audited.escalate(f"t{n}")
    for n in range(4):
        audited.vote(f"t{n}", "mo", "spam")
    assert [row["task"] for row in audited.queue("mo")] == ["t4"]
    monkeypatch.setattr(queue, "PAGES", 1)
    assert audited.queue("mo") == []


def test_the_search_for_tasks_that_a_person_has_not_voted_on_is_bounded(audited, monkeypatch):
    monkeypatch.setattr(queue, "QUEUE_PAGE_TASKS", 2)
    monkeypatch.setattr(queue, "PAGES", 2)
    for n in range(5):
        audited.vote(f"t{n}", "mo" if n < 4 else "ann")
    assert audited.queue("mo") == [], "the first four are those of mo"
    assert [row["task"] for row in audited.queue("eve")] == ["t0", "t1", "t2", "t3"]


def test_a_campaign_without_audits(server):
    answer = server("GET", "audits")
    assert (answer.status, answer.json["detail"]) == (404, "the policy of this campaign has no audits")
    assert server("GET", "queue").json == {"tasks": []}


@pytest.mark.parametrize(
    ("audit", "told"),
    [
        ({"share": 2}, "audit.share is 2: give a number of"),
        ({"days": 1}, "unknown field of audit 'days'"),
        (1, "audit is 1: give an"),
    ],
)
def test_a_plan_that_is_wrong_is_refused(server, audit, told):
    answer = server("PUT", "policy", {"policy": {"audit": audit}})
    assert (answer.status, answer.json["detail"].startswith(told)) == (422, True)
    assert "\n" not in answer.json["detail"]


def alarm(audited, first=0):
    """Give wrong answers until the breaker trips; return how many it took."""
    for n in range(first, first + 40):
        audited.vote(f"t{n}")
        audited.judge(f"t{n}", "ok")
        if audited.client("GET", audited.path).json["breaker"]:
            return n - first + 1
    raise AssertionError("no alarm")


def test_the_alarm_is_an_event_and_a_metric_and_holds_decisions(audited):
    stream = Stream(audited.client, campaign=audited.path)
    name = audited.path.rpartition("/")[2].replace("%20", " ")
    took = alarm(audited)
    told = [stream.event() for _ in range(2 * took + 1)]
    assert [each["event"] for each in told].count("decision") == 2 * took
    answers = [json.loads(each["data"]) for each in told if each["event"] == "decision"]
    assert [each["reason"] for each in answers] == ["confidence", "audit"] * took
    [trip] = [each for each in told if each["event"] == "breaker"]
    assert "id" not in trip
    assert json.loads(trip["data"])["tripped"].startswith(f"audits: {took} of the last {took} audited decisions were wrong")
    late = Stream(audited.client, campaign=audited.path)
    assert late.event() == trip, "who connects later gets it, too"
    late.close()

    figures = audited.client("GET", "/metrics").body.decode()
    label = f'campaign="{name}"'
    assert f'adjudge_audits_total{{{label},outcome="wrong"}} {took}\n' in figures
    assert f'adjudge_audits_total{{{label},outcome="right"}} 0\n' in figures
    assert f'adjudge_audits_total{{{label},outcome="expired"}} 0\n' in figures
    assert f"adjudge_audit_alarm{{{label}}} 1\n" in figures
    assert f"adjudge_breaker_tripped{{{label}}} 1\n" in figures
    for metric in ("audits_waiting", "audit_error_lower", "audit_error_upper", "audit_alarm_level"):
        assert f"adjudge_{metric}{{{label}}} " in figures

    held = audited.vote("after")
    assert (held["status"], held["reason"]) == ("held", "breaker")
    assert audited("POST", "breaker/reset", {"by": "mo"}).status == 200
    rest = [stream.event() for _ in range(3)]
    assert sorted(each["event"] for each in rest) == ["breaker", "decision", "decision"]
    assert [json.loads(each["data"]) for each in rest if each["event"] == "breaker"] == [{"tripped": None}]
    stream.close()
    view = audited("GET", "audits").json
    assert (view["alarm"], view["alarmed"], view["wrong"]) == (0.0, False, took)


def test_without_an_answer_it_expires_by_the_clock(tmp_path, monkeypatch):
    clock, opened = Time(), Campaigns.open.__func__
    monkeypatch.setattr(server_module.Campaigns, "open", classmethod(lambda cls, url: opened(cls, url, clock=clock.clock())))
    with serving(tmp_path) as client:
        audited = Audited(client, "default2", deadline_days=0.001)
        audited.vote("t1")
        assert audited.figures() == (1, 1, 0, 0, 0)
        clock.passes(100)
        end = time.monotonic() + 20
        while audited.figures()[-1] == 0 and time.monotonic() < end:
            time.sleep(0.02)
        assert audited.figures() == (1, 0, 1, 1, 1)
        assert audited.judge("t1").status == 409
    with closing(open_store(client.path, readonly=True)) as store:
        [number] = [row.number for row in store.campaigns() if row.name == "default2"]
        assert check(store, number).difference is None
        assert replay(store, number).audits.expired == 1


@pytest.mark.slow
def test_the_state_after_kills_is_that_of_the_log(tmp_path):
    """A server is killed between answers, three times; no audit is lost or doubled, and a replay agrees to the bit."""
    path = tmp_path / "votes.db"
    server = Server(path)
    wrong = done = 0
    try:
        server.start()
        server.until_ready()
        base = "/v1/campaigns/default"
        spec = {"labels": ["spam", "ok"], "policy": {**POLICY, "audit": {**AUDIT, "share": 0.6, "run": 1e6}}}
        assert server.ask("PUT", base, spec)[0] == 201
        for life in range(4):
            for n in range(30):
                assert server.ask("POST", f"{base}/votes", {"task": f"t{life}.{n}", "worker": f"w{n}", "label": "spam"})[0] == 200
            for row in server.ask("GET", f"{base}/queue?by=eve&n=9")[1]["tasks"]:
                label = "ok" if done % 7 == 0 else "spam"
                assert server.ask("POST", f"{base}/queue", {"task": row["task"], "label": label, "by": "eve"})[0] == 200
                wrong, done = wrong + (label == "ok"), done + 1
            if life < 3:
                server.kill()
                server.start()
                server.until_ready()
        view = server.ask("GET", f"{base}/audits")[1]
        assert (view["audited"], view["wrong"], view["expired"]) == (done, wrong, 0)
        assert view["drawn"] == done + view["waiting"]
        server.end()
    finally:
        server.close()
    with closing(open_store(str(path), readonly=True)) as store:
        [(number, _)] = store.campaigns()
        checked = check(store, number)
        assert checked.difference is None
        assert checked.snapshot == checked.position
        audits = replay(store, number).audits
        assert audits.state[:2] == (wrong, done)
        assert view["interval"] == [round(bound, 9) for bound in (audits.lower_bound, audits.upper_bound)]
