"""Audits on the page: shown blind in the queue, answered with a key, and counted in *Now*."""

import re

import pytest

from adjudge.service.board import queue as board_queue
from service.board.test_pages import form, listed, log, sentence, shown
from service.board.visitor import Visitor
from service.serving import serving

AUDIT = {"share": 1.0, "error": 0.05, "risk": 0.1, "run": 5000, "deadline_days": 7}
POLICY = {"minimum_votes": 2, "confidence": 0.5, "escalate": {"disagreement": 0.4}, "audit": AUDIT}
MODERATORS = [("ann", "read,moderate", None), ("eve", "read,moderate", None), ("root", "admin", None)]


def decide(client, task, label="spam", text="Buy!"):
    """Two votes that agree: the task is decided and drawn."""
    for worker in ("ann", "bob"):
        answer = client("POST", "votes", {"task": task, "worker": worker, "label": label, "data": {"text": text}})
    assert answer.json["decisions"][0]["status"] == "decided"


@pytest.fixture
def site(tmp_path):
    with serving(tmp_path, policy=POLICY) as client:
        yield Visitor(client)


def main_of(page):
    """The content of a page without its navigation and the buttons of the labels."""
    text = page.body.decode()
    return re.search(r"<main.*?</main>", text, re.DOTALL)[0]


def test_an_audit_is_shown_without_anything_known_of_it(site):
    decide(site.client, "drawn", "spam", "A <b>text</b>")
    page = site.get("/c/default/queue")
    assert (shown(page), sentence(page)) == ("drawn", "1 task waits for a person.")
    card = re.search(r"<article.*?</article>", page.body.decode(), re.DOTALL)[0]
    assert "A &lt;b&gt;text&lt;/b&gt;" in card
    for word in ("spam", "decided", "audit", "confidence", "sure", "ann", "bob", "vote", "href"):
        assert word not in card
    assert "audit" not in main_of(page).lower()
    assert "Why it is here" not in page.body.decode()


def test_an_answer_is_taken_and_the_next_task_comes(site):
    decide(site.client, "first")
    decide(site.client, "second")
    page = site.get("/c/default/queue")
    assert listed(page) == ["first", "second"]
    answer = site.post("/c/default/queue", form(page, id="first", label="ok", blind="1"), csrf="/c/default/queue")
    assert answer.status == 303
    page = site.get(answer.headers["Location"])
    assert shown(page) == "second"
    assert "Undo" not in page.body.decode(), "it would show whether the decision was right"
    decision = site.client("GET", "tasks/first").json["decision"]
    assert (decision["label"], decision["reason"], decision["by"]) == ("ok", "audit", "local")
    assert [row["event"] for row in log(site, task="first")][-2:] == ["audit answered", "decided"]
    stale = site.post(
        "/c/default/queue", {"position": "0", "id": "first", "label": "spam", "blind": "1"}, csrf="/c/default/queue"
    )
    assert stale.status == 409
    assert "does not wait for a person" in stale.body.decode()


def test_skip_leads_from_audits_to_escalated_tasks(site):
    for task in ("a1", "a2"):
        decide(site.client, task)
    for worker, label in (("ann", "spam"), ("bob", "ok")):
        site.client.vote("split", worker, label)
    seen, address = [], "/c/default/queue"
    while shown(page := site.get(address)) is not None:
        seen.append(shown(page))
        address = re.search(r'data-key="s" href="([^"]*)"', page.body.decode())[1].replace("&amp;", "&")
    assert seen == ["a1", "a2", "split"]
    assert listed(site.get("/c/default/queue?reason=disagreement")) == ["split"]
    assert listed(site.get("/c/default/queue?label=spam")) in (["split"], []), "a filter by label shows no audit"


def test_who_has_voted_gets_no_audit_of_that_task(tmp_path):
    with serving(tmp_path, policy=POLICY, given=MODERATORS) as client:
        client.token = client.tokens["root"]
        decide(client, "drawn")
        pages = {}
        for name in ("ann", "eve"):
            client.token = None
            visitor = Visitor(client)
            visitor.sign_in(client.tokens[name])
            pages[name] = shown(visitor.get("/c/default/queue"))
            if name == "ann":
                refused = visitor.post(
                    "/c/default/queue", {"position": "0", "id": "drawn", "label": "spam", "blind": "1"}, csrf="/c/default/queue"
                )
                assert (refused.status, "somebody else has to judge it" in refused.body.decode()) == (409, True)
        assert pages == {"ann": None, "eve": "drawn"}


def test_now_has_the_rate_and_its_bounds(site):
    for n in range(20):
        decide(site.client, f"t{n}")
    now = site.get("/c/default/now").body.decode()
    assert "0 tasks escalated, 0 contested, 20 audits" in now
    assert "no audit has an answer yet" in now
    assert "the alarm of the audits trips them" in now
    for n in range(19):
        site.client("POST", "queue", {"task": f"t{n}", "label": "spam" if n else "ok", "by": "eve"})
    view = site.client("GET", "audits").json
    now = site.get("/c/default/now").body.decode()
    figure = re.search(r"Wrong, by audits</dt>(.*?)</div>", now, re.DOTALL)[1]
    text = re.sub(r"<[^>]+>", " ", figure)
    low, high = (f"{bound:.0%}" for bound in view["interval"])
    assert "1 of 19; " in text
    assert high.rstrip("%") in text
    assert low.rstrip("%") in text
    assert "5.0% accepted" in text or "5% accepted" in text
    assert "alarm" not in text


def test_the_search_for_audits_is_bounded(site, monkeypatch):
    monkeypatch.setattr(board_queue, "MAX_LOOKED_TASKS", 2)
    for n in range(3):
        site.client.vote(f"t{n}", "local", "spam")
        decide(site.client, f"t{n}")
    decide(site.client, "other")
    assert listed(site.get("/c/default/queue")) == []
    monkeypatch.setattr(board_queue, "MAX_LOOKED_TASKS", 4)
    assert listed(site.get("/c/default/queue")) == ["other"]


def test_a_task_that_waits_twice_is_counted_once(site):
    for task in ("split", "again", "drawn"):
        decide(site.client, task)
    for worker in ("cy", "di"):
        site.client.vote("split", worker, "ok")
    site.client("POST", "tasks/again/reopen", {})
    page = site.get("/c/default/queue")
    assert sentence(page).startswith("3 tasks wait for a person")
    assert sorted(listed(page)) == ["again", "drawn", "split"]
    assert "1 task escalated, 1 contested, 1 audit" in re.sub(r"\s+", " ", site.get("/c/default/now").body.decode())


def test_the_alarm_is_the_first_thing_that_now_says(site):
    for n in range(20):
        decide(site.client, f"t{n}")
        site.client("POST", "queue", {"task": f"t{n}", "label": "ok", "by": "eve"})
        if site.client("GET", "/v1/campaigns/default").json["breaker"]:
            break
    page = site.get("/c/default/now")
    assert sentence(page).startswith("A circuit breaker has tripped")
    assert f"audits: {n + 1} of the last {n + 1} audited decisions were wrong" in page.body.decode()
    assert "<b>alarm</b>" in page.body.decode()
    assert site.post("/c/default/breaker", {}, csrf="/c/default/now").status == 303
    assert "<b>alarm</b>" not in site.get("/c/default/now").body.decode()
