"""The page in a real browser: what people see, press and hear; two of them at once, a restart, no script, no session."""

import re
import time

import pytest

from server_process import Served
from service.board.browsing import ASK_A_PERSON, MARKS, VIEWS, is_live
from service.serving import Client, serving

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright: pip install 'adjudge[dev]'")
expect = sync_api.expect
pytestmark = MARKS


@pytest.fixture
def site(tmp_path):
    with serving(tmp_path, policy=ASK_A_PERSON) as client:
        yield client


def escalate(client, tasks):
    votes = [
        {"task": f"t{n}", "worker": worker, "label": label, "data": {"text": f"Item {n}"}}
        for n in range(tasks)
        for worker, label in (("ann", "spam"), ("bob", "ok"))
    ]
    assert client("POST", "votes", votes).status == 200


def card(page):
    return page.locator(".task-card").get_attribute("data-task")


def test_votes_appear_without_a_reload(opened, site):
    page = opened(site.address, "/c/default/now")
    is_live(page)
    page.evaluate("window.kept = 1")
    site.vote("t1", "ann", "spam")
    expect(page.locator("dl.figures")).to_contain_text("1 vote in force")
    escalate(site, 4)
    expect(page.locator("h1")).to_contain_text("4 tasks wait for a person")
    expect(page.locator("[data-count]")).to_have_text("(4)")
    assert page.evaluate("window.kept") == 1


def test_ten_tasks_by_keyboard_and_two_undone(opened, site):
    escalate(site, 12)
    page = opened(site.address, "/c/default/queue")
    is_live(page)
    place = page.locator("[data-key='1']").bounding_box()
    decided = []
    for n in range(10):
        task = card(page)
        decided.append((task, ("spam", "ok")[n % 2]))
        page.keyboard.press("12"[n % 2])
        expect(page.locator(".decide .line")).to_contain_text(f"{task}: decided as")
        assert page.locator("[data-key='1']").bounding_box() == place  # no button moves
        if n in (4, 8):
            page.keyboard.press("u")
            expect(page.locator(".task-card")).to_have_attribute("data-task", task)
            page.keyboard.press("2")
            expect(page.locator(".decide .line")).to_contain_text(f"{task}: decided as ok")
            decided[-1] = (task, "ok")
    assert len({task for task, _ in decided}) == 10
    for task, label in decided:
        decision = site("GET", f"tasks/{task}").json["decision"]
        assert (decision["label"], decision["reason"], decision["by"]) == (label, "override", "local")
    assert site("GET", "/v1/campaigns/default").json["tasks"]["escalated"] == 2
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    here = card(page)
    page.keyboard.press("s")
    expect(page.locator(".task-card")).not_to_have_attribute("data-task", here)


def test_keys_are_letters_where_people_write(opened, site):
    escalate(site, 2)
    page = opened(site.address, "/c/default/queue")
    page.keyboard.press("/")
    page.keyboard.type("1u")
    assert page.locator("#find").input_value() == "1u"
    assert site("GET", "/v1/campaigns/default").json["tasks"]["escalated"] == 2


def test_two_reviewers_see_each_other(opened, site):
    opened.known["may fail"] = True
    escalate(site, 2)
    first, second = (opened(site.address, "/c/default/queue") for _ in range(2))
    is_live(first)
    is_live(second)
    task = card(first)
    assert card(second) == task
    first.keyboard.press("1")
    expect(first.locator(".decide .line")).to_contain_text(f"{task}: decided as spam")
    expect(second.locator("[data-news]")).to_contain_text("This task has changed")
    second.keyboard.press("2")  # pressed all the same
    expect(second.locator(".told")).to_contain_text("has changed since")
    assert site("GET", f"tasks/{task}").json["decision"]["label"] == "spam"
    second.goto(f"{site.address}/c/default/task?id={task}")
    is_live(second)
    site("POST", f"tasks/{task}/reopen", {"by": "eve"})
    expect(second.locator("[data-changed]")).to_be_visible()


def test_a_ban_is_previewed_and_applied(opened, tmp_path):
    with serving(tmp_path, policy={"minimum_votes": 2, "confidence": 0.6}) as client:
        client("POST", "votes", [{"task": f"t{n}", "worker": w, "label": "spam"} for n in range(6) for w in ("ann", "bob")])
        page = opened(client.address, "/c/default/workers")
        page.get_by_role("link", name="ann").first.click()
        page.get_by_label("Reason").fill("a bot")
        page.get_by_role("button", name="Ban…").click()
        page.get_by_role("button", name="Ban and change 6 decisions").click()
        expect(page.locator(".told")).to_contain_text("Banned")
        expect(page.locator(".told")).to_contain_text("a bot")
        assert client("GET", "workers/ann").json["banned"]


def test_a_policy_is_edited_tried_and_saved(opened, site):
    escalate(site, 30)
    page = opened(site.address, "/c/default/policy")
    page.get_by_label("Confidence").fill("7")
    expect(page.locator("#verdict")).to_contain_text("confidence is 7.0: give a number above 0 and at most 1")
    page.get_by_label("Confidence").fill("0.5")
    expect(page.locator("#verdict")).to_contain_text("This differs from the policy that holds")
    page.get_by_role("button", name="Back-test").first.click()
    expect(page.locator("h1")).to_contain_text("tasks would be decided otherwise")
    page.get_by_label("Note").fill("more by machine")
    page.get_by_role("button", name=re.compile("Save version 2")).click()
    expect(page.locator("h1")).to_contain_text("Version 2 of the policy holds")
    expect(page.locator("main")).to_contain_text("more by machine")
    assert site("GET", "policy").json["versions"][-1]["policy"]["confidence"] == 0.5


def test_gold_and_an_audit(opened, site):
    escalate(site, 20)
    page = opened(site.address, "/c/default/task?id=t3")
    page.get_by_role("group", name="Gold").get_by_role("button", name="spam").click()
    expect(page.locator("main")).to_contain_text("The true label is known: spam")
    page.goto(f"{site.address}/c/default/worker?id=ann")
    page.get_by_role("link", name="Audit this reviewer").click()
    for n in range(11):
        expect(page.locator("h1")).to_contain_text(f"Of {n + 1} vote")
        page.keyboard.press("1")
    expect(page.locator("h1")).to_contain_text("Of 12 votes with a known truth 12 agree")
    expect(page.locator(".decide .line")).to_contain_text("The audit can end here")


def test_a_session_ends_and_a_new_one_goes_on_where_it_was(opened, tmp_path):
    opened.known["may fail"] = True
    with serving(tmp_path, policy=ASK_A_PERSON, given=[("mia", "moderate", None), ("bot", "vote", None)]) as client:
        client.token = client.tokens["bot"]
        escalate(client, 3)
        page = opened(client.address, "/c/default/queue?sort=age")
        page.get_by_label("Token").fill(client.tokens["mia"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/c/default/queue?sort=age")
        is_live(page)
        task = card(page)
        page.keyboard.press("1")
        expect(page.locator(".decide .line")).to_contain_text("by mia")
        page.context.clear_cookies()
        page.keyboard.press("1")
        expect(page.locator("#notice")).to_contain_text("Your session has ended")
        page.get_by_role("link", name="Sign in again").click()
        page.get_by_label("Token").fill(client.tokens["mia"])
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/c/default/queue?**")
        client.token = client.tokens["mia"]
        assert client("GET", f"tasks/{task}").json["decision"]["by"] == "mia"
        assert client("GET", "/v1/campaigns/default").json["tasks"]["escalated"] == 2  # the last key did nothing


def test_a_restart_while_the_page_is_open(opened, tmp_path):
    opened.known["may fail"] = True
    store = tmp_path / "votes.db"
    with Served(store, "--labels", "spam,ok") as server:
        client, port = Client(server.url), server.port
        client.vote("before", "ann", "spam")
        page = opened(server.url, "/c/default/now")
        is_live(page)
        server.end()
    expect(page.locator("#live.off")).to_be_visible()
    with Served(store, "--labels", "spam,ok", "--port", port) as server:
        assert server.port == port
        page.locator("#live.on").wait_for(timeout=30_000)
        client.vote("after", "ann", "spam")
        expect(page.locator("dl.figures")).to_contain_text("2 votes in force")


def test_without_a_script_links_and_forms_work(opened, site):
    escalate(site, 3)
    page = opened(site.address, "/", java_script_enabled=False)
    page.get_by_role("link", name="Needs a person").click()
    task = card(page)
    page.get_by_role("button", name="spam 1").click()
    expect(page.locator(".decide .line")).to_contain_text(f"{task}: decided as spam")
    page.get_by_role("button", name="Undo").click()
    assert card(page) == task
    page.get_by_role("link", name="Skip s").click()
    assert card(page) != task
    page.get_by_role("link", name="Policy").click()
    page.get_by_label("Confidence").fill("0.5")
    page.get_by_role("button", name="Back-test").first.click()
    end = time.monotonic() + 20
    while page.get_by_role("link", name="Look again").count():
        assert time.monotonic() < end
        page.get_by_role("link", name="Look again").click()
    page.get_by_role("button", name=re.compile("Save version 2")).click()
    expect(page.locator("h1")).to_contain_text("Version 2")
    page.get_by_role("link", name="Reviewers").click()
    page.get_by_role("link", name="ann").first.click()
    page.get_by_role("button", name="Ban…").click()
    page.get_by_role("button", name=re.compile("Ban and change")).click()
    expect(page.locator(".told")).to_contain_text("Banned")


@pytest.mark.parametrize("width", [360, 1280, 1920])
def test_nothing_is_wider_than_the_screen(opened, full, width):
    page = opened(full.address, "/c/default/now", viewport={"width": width, "height": 740})
    for view in VIEWS:
        page.goto(f"{full.address}/c/default/{view}")
        is_live(page)
        page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view


def test_the_keyboard_reaches_everything(opened, full):
    page = opened(full.address, "/c/default/queue")
    is_live(page)
    seen = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.textContent.trim().slice(0, 20) || document.activeElement.name"))
    assert {"Skip to content", "Now", "q", "Show", "Keys ?"} <= seen
    assert any(text.startswith("spam") for text in seen)
