"""What the pages show and do, asked as a browser asks, without one: everything here works without JavaScript, too."""

import csv
import io
import json
import re
import time
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest

from service.board.visitor import Visitor
from service.serving import serving

POSITION = re.compile(r'name="position" value="(\d+)"')
POLICY = {"minimum_votes": 1, "maximum_votes": 2, "confidence": 0.999}


def shown(page):
    """The task that the queue shows, or None."""
    found = re.search(r'data-task="([^"]*)"', page.body.decode())
    return found and found[1]


def listed(page):
    """Every task that the queue shows or lists, in order."""
    rest = re.findall(r'<th scope="row"><a href="/c/default/queue\?task=[^"]*" title="([^"]*)"', page.body.decode())
    return [task for task in [shown(page), *rest] if task]


def sentence(page):
    return re.search(r'<(?:h1|p) class="lead"[^>]*>(.*?)</(?:h1|p)>', page.body.decode(), re.DOTALL)[1]


@pytest.fixture
def site(tmp_path):
    """A campaign whose tasks all go to a person after two votes."""
    with serving(tmp_path, policy=POLICY) as client:
        yield Visitor(client)


def escalate(site, tasks=3, **more):
    for n in range(tasks):
        for worker, label in (("ann", "spam"), ("bob", "ok")):
            answer = site.client("POST", "votes", {"task": f"t{n}", "worker": worker, "label": label, **more})
    assert answer.json["decisions"][0]["status"] == "escalated"


def form(page, **fields):
    return {"position": POSITION.search(page.body.decode())[1], **fields}


def test_empty_pages_say_what_to_do(site):
    assert b"/v1/campaigns/default/votes -d" in site.get("/c/default/now").body
    assert f"curl http://127.0.0.1:{site.client.port}/v1/campaigns/default/votes".encode() in site.get("/c/default/queue").body
    assert "Nobody has voted yet." in sentence(site.get("/c/default/workers"))
    assert b"Version 1 of the policy holds" in site.get("/c/default/policy").body
    assert "1 event" in sentence(site.get("/c/default/log"))


def test_a_decision_leads_to_the_next_task_and_can_be_undone(site):
    escalate(site)
    page = site.get("/c/default/queue")
    assert sentence(page).startswith("3 tasks wait for a person, the oldest for ")
    first = shown(page)
    answer = site.post("/c/default/queue", form(page, id=first, label="spam"), csrf="/c/default/queue")
    assert answer.status == 303
    page = site.get(answer.headers["Location"])
    assert shown(page) not in (first, None)
    assert f"{first}: decided as <b>spam</b> by local." in page.body.decode()
    task = site.client("GET", f"tasks/{first}").json["decision"]
    assert (task["status"], task["label"], task["reason"], task["by"]) == ("decided", "spam", "override", "local")
    back = site.post("/c/default/queue/undo", {"id": first, "position": task["position"]}, csrf="/c/default/queue")
    page = site.get(back.headers["Location"])
    assert shown(page) == first
    assert site.client("GET", f"tasks/{first}").json["decision"]["reason"] == "reopened"
    assert set(listed(page)) == {"t0", "t1", "t2"}  # what was reopened is contested, and still waits
    kinds = [row["event"] for row in log(site)]
    assert kinds[-4:] == ["override", "decided", "reopened", "open"]


def log(site, **query):
    text = site.get(f"/c/default/log/download?{urlencode({'format': 'jsonl', **query})}").body.decode()
    return [json.loads(line) for line in text.splitlines()]


def test_nobody_decides_a_task_that_has_changed_since(site):
    escalate(site, 1)
    page = site.get("/c/default/queue")
    stale = form(page, id="t0", label="ok")
    assert site.post("/c/default/queue", form(page, id="t0", label="spam"), csrf="/c/default/queue").status == 303
    answer = site.post("/c/default/queue", stale, csrf="/c/default/queue")
    assert answer.status == 409
    assert "has changed since" in answer.body.decode()
    assert "decided" in answer.body.decode()
    assert shown(answer) == "t0"
    assert site.client("GET", "tasks/t0").json["decision"]["label"] == "spam"
    stale = {"id": "t0", "position": stale["position"]}
    assert site.post("/c/default/queue/undo", stale, csrf="/c/default/queue").status == 409
    for action in ("override", "reopen"):
        sent = {**stale, "action": action, "label": "ok"}
        assert site.post("/c/default/task", sent, csrf="/c/default/task?id=t0").status == 409
    api = site.client("POST", "tasks/t0/override", {"label": "ok", "position": int(stale["position"])})
    assert (api.status, api.json["error"]) == (409, "conflict")


def test_a_vote_that_changes_nothing_makes_no_form_stale(site):
    escalate(site, 1)
    sent = form(site.get("/c/default/queue"), id="t0", label="ok")
    site.client.vote("t0", "cy", "ok")
    assert site.post("/c/default/queue", sent, csrf="/c/default/queue").status == 303


@pytest.mark.parametrize("sort", ["severity", "age"])
def test_the_queue_shows_every_task_once(site, sort):
    escalate(site, 30)
    seen, address = [], f"/c/default/queue?sort={sort}"
    while True:
        page = site.get(address)
        if shown(page) is None:
            break
        seen.append(shown(page))
        address = re.search(r'data-key="s" href="([^"]*)"', page.body.decode())[1].replace("&amp;", "&")
    assert sorted(seen) == sorted(f"t{n}" for n in range(30))
    if sort == "age":
        assert seen == [f"t{n}" for n in range(30)]


def test_the_queue_is_filtered(site):
    escalate(site, 2)
    site.client.vote("lonely", "ann", "spam")
    site.client("POST", "tasks/t1/override", {"label": "ok"})
    site.client("POST", "tasks/t1/reopen", {})
    assert set(listed(site.get("/c/default/queue"))) == {"t0", "t1"}
    assert listed(site.get("/c/default/queue?reason=reopened")) == ["t1"]
    assert listed(site.get("/c/default/queue?reason=maximum_votes")) == ["t0"]
    leads = site.client("GET", "tasks/t0").json["decision"]["label"]
    assert "t0" in listed(site.get(f"/c/default/queue?label={leads}"))
    assert "t0" not in listed(site.get(f"/c/default/queue?label={'ok' if leads == 'spam' else 'spam'}"))
    for wrong in ("sort=x", "reason=x", "label=x", "after=x"):
        assert site.get(f"/c/default/queue?{wrong}").status == 422


def test_a_task_tells_its_story(site):
    escalate(site, 2, data={"text": "Buy now", "url": "https://example.org/1"})
    page = site.get("/c/default/task?id=t1")
    site.post(
        "/c/default/task", form(page, id="t1", action="override", label="spam", note="clear case"), csrf="/c/default/task?id=t1"
    )
    page = site.get("/c/default/task?id=t1")
    site.post("/c/default/task", form(page, id="t1", action="reopen", note="appeal of the author"), csrf="/c/default/task?id=t1")
    site.post("/c/default/task", {"id": "t1", "action": "gold", "label": "ok"}, csrf="/c/default/task?id=t1")
    text = site.get("/c/default/task?id=t1").body.decode()
    assert "Buy now" in text
    assert "https://example.org/1" in text
    story = re.sub(r"<[^>]+>", " ", text[text.index("<h2>Story</h2>") :])
    steps = [
        "vote",
        "by ann : spam",
        "by bob : ok",
        "escalated",
        "clear case",
        "by local",
        "appeal of the author",
        "gold",
        "decided",
    ]
    assert [step for step in steps if step not in " ".join(story.split())] == []
    order = [" ".join(story.split()).index(step) for step in ("by ann", "by bob", "override", "reopened", "gold")]
    assert order == sorted(order)
    assert "How the probabilities moved" in text
    assert "The true label is known: ok" in text
    site.post("/c/default/task", {"id": "t1", "action": "no-gold"}, csrf="/c/default/task?id=t1")
    assert site.client("GET", "tasks/t1").json["gold"] is None
    assert {row["actor"] for row in log(site, event="gold") + log(site, event="gold taken back")} == {"local"}


def test_a_ban_is_previewed_and_then_applied(tmp_path):
    with serving(tmp_path, policy={"minimum_votes": 2, "confidence": 0.6}) as client:
        site = Visitor(client)
        for n in range(6):
            for worker in ("ann", "bob"):
                client.vote(f"t{n}", worker, "spam")
        before = client("GET", "workers/ann").json
        sent = {"id": "ann", "action": "preview-ban", "note": "a bot"}
        page = site.post("/c/default/worker", sent, csrf="/c/default/worker?id=ann")
        assert page.status == 200
        assert "Ban and change 6 decisions" in page.body.decode()
        assert client("GET", "workers/ann").json == before  # nothing has happened yet
        assert site.post("/c/default/worker", sent | {"action": "ban"}, csrf="/c/default/worker?id=ann").status == 303
        after = client("GET", "workers/ann").json
        assert (after["banned"], after["ban"]["by"], after["ban"]["reason"]) == (True, "local", "a bot")
        assert client("GET", "tasks/t0").json["decision"]["status"] == "open"
        page = site.post("/c/default/worker", {"id": "ann", "action": "preview-unban"}, csrf="/c/default/worker?id=ann")
        assert "Lift the ban and change 6 decisions" in page.body.decode()
        site.post("/c/default/worker", {"id": "ann", "action": "unban"}, csrf="/c/default/worker?id=ann")
        assert client("GET", "tasks/t0").json["decision"]["status"] == "decided"
        assert site.post("/c/default/worker", {"id": "nobody", "action": "ban"}, csrf="/c/default/worker?id=ann").status == 404


def test_an_audit_is_blind_random_and_becomes_gold(tmp_path):
    with serving(tmp_path) as client:
        site = Visitor(client)
        for n in range(30):
            client("POST", "votes", {"task": f"t{n}", "worker": "ann", "label": "spam", "data": {"text": f"item {n}"}})
            client.vote(f"t{n}", "bob", "spam")
        seen = []
        for answered in range(14):
            page = site.get("/c/default/audit?id=ann")
            text = re.sub(r"<header.*?</header>", "", page.body.decode(), flags=re.DOTALL)
            assert "bob" not in text
            assert "decided" not in text.replace("decided as", "")
            task = re.search(r'name="task" value="([^"]+)"', text)[1]
            seen.append(task)
            sent = {"id": "ann", "task": task, "label": "spam" if answered else "ok"}
            assert site.post("/c/default/audit", sent, csrf="/c/default/audit?id=ann").status == 303
        assert len(set(seen)) == 14
        assert seen != sorted(seen, key=lambda name: int(name[1:]))
        assert client("GET", f"tasks/{seen[0]}").json["gold"] == "ok"
        assert sentence(site.get("/c/default/audit?id=ann")).startswith("Of 14 votes with a known truth 13 agree (")
        skipped = re.search(r'name="task" value="([^"]+)"', site.get("/c/default/audit?id=ann").body.decode())[1]
        after = site.get(f"/c/default/audit?id=ann&skip={skipped}").body.decode()
        assert re.search(r'name="task" value="([^"]+)"', after)[1] not in (skipped, *seen)


def finished(site, location):
    """The page of a back-test that has ended."""
    end = time.monotonic() + 20
    while b"data-poll" in (page := site.get(location)).body:
        assert time.monotonic() < end
        time.sleep(0.05)
    return page


def test_a_policy_is_checked_tried_saved_and_restored(site):
    escalate(site, 4)
    wrong = {"action": "check", "source": "json", "version": "1", "json": '{"minimum_votes": 0}'}
    page = site.post("/c/default/policy", wrong, csrf="/c/default/policy")
    assert "minimum_votes is 0: give" in page.body.decode()
    assert site.post("/c/default/policy", wrong | {"action": "test"}, csrf="/c/default/policy").status == 422
    assert "is not a JSON object" in site.post("/c/default/policy", wrong | {"json": "{"}, csrf="/c/default/policy").body.decode()

    page = site.get("/c/default/policy").body.decode()
    names = re.findall(r'<input id="f-[^"]*" name="([^"]+)" value="([^"]*)"', page)
    draft = dict(names) | {"escalate.votes_run_out": "1", "confidence": "0.6", "source": "form", "version": "1"}
    started = site.post("/c/default/policy", draft | {"action": "test"}, csrf="/c/default/policy")
    assert started.status == 303
    tested = finished(site, started.headers["Location"])
    assert "Under this policy" in tested.body.decode()
    assert "Save version 2" in tested.body.decode()
    text = re.search(r'name="json" value="([^"]*)"', tested.body.decode())[1].replace("&#34;", '"')
    key = parse_qs(urlsplit(started.headers["Location"]).query)["test"][0]
    save = {"action": "save", "source": "json", "json": text, "test": key, "version": "1", "note": "<less sure>"}
    other = save | {"json": text.replace("0.6", "0.7")}
    assert site.post("/c/default/policy", other, csrf="/c/default/policy").status == 409  # this one was not tried
    assert site.post("/c/default/policy", save, csrf="/c/default/policy").status == 303
    last = site.client("GET", "policy").json["versions"][-1]
    assert (last["version"], last["policy"]["confidence"], last["by"], last["note"]) == (2, 0.6, "local", "<less sure>")
    stale = site.post("/c/default/policy", save, csrf="/c/default/policy")
    assert (stale.status, "was saved since" in stale.body.decode()) == (409, True)
    page = site.get("/c/default/policy?version=1").body.decode()
    assert "&#34;confidence&#34;: 0.999" in page
    assert "&lt;less sure&gt;" in page


def test_the_log_is_filtered_paged_and_downloaded(site):
    escalate(site, 80)
    site.client("POST", "tasks/t3/override", {"label": "ok", "by": "=cmd()", "reason": "Because"})
    everything = log(site)
    assert len({row["position"] for row in everything}) == 162  # with the first event
    seen, address = [], "/c/default/log"
    while address:
        text = site.get(address).body.decode()
        seen += [int(at) for at in re.findall(r'<td class="n">(\d+)</td>', text)]
        more = re.search(r'href="(/c/default/log\?before=[^"]+)"', text)
        address = more and more[1].replace("&amp;", "&")
    assert len(seen) == len(everything)
    assert seen == sorted(seen, reverse=True)
    assert [row["task"] for row in log(site, task="t7", event="vote")] == ["t7", "t7"]
    assert {row["worker"][0] for row in log(site, worker="ann")} == {"ann"}
    assert {row["label"] for row in log(site, label="spam", event="vote")} == {"spam"}
    assert [row["task"] for row in log(site, reason="because")] == ["t3"]
    assert {row["event"] for row in log(site, actor="=cmd()")} == {"override", "decided"}
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert len(log(site, since=today)) == len(everything)
    assert log(site, since="2999-01-01") == log(site, until="2000-01-01") == []
    assert site.get("/c/default/log?since=soon").status == 422
    table = list(csv.DictReader(io.StringIO(site.get("/c/default/log/download?format=csv&event=override").body.decode())))
    assert [(row["task"], row["actor"]) for row in table] == [("t3", "'=cmd()")]  # no spreadsheet runs it


def test_now_counts_what_has_happened(tmp_path):
    with serving(tmp_path, policy={"minimum_votes": 2, "confidence": 0.6, "maximum_votes": 2}) as client:
        site = Visitor(client)
        for n in range(5):
            client.vote(f"t{n}", "ann", "spam")
            client.vote(f"t{n}", "bob", "spam")
        client.vote("open", "ann", "ok")
        client("POST", "tasks/t0/override", {"label": "ok"})
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", site.get("/c/default/now").body.decode()))
        assert "Nothing needs you: 5 tasks decided, 1 open." in text
        assert "Decided by votes alone 83% of 6 decisions" in text  # t0 was decided twice
        assert "11 votes in force, 2 workers" in text
        assert "spam 4 80%" in text


def test_a_tripped_breaker_is_told_and_reset(tmp_path):
    policy = {"minimum_votes": 1, "confidence": 0.5, "breakers": {"window": 20, "label_share": 0.3}}
    with serving(tmp_path, policy=policy) as client:
        site = Visitor(client)
        votes = [{"task": f"t{n}", "worker": f"w{n}", "label": "spam" if n >= 200 else "ok"} for n in range(400)]
        client("POST", "votes", votes)
        page = site.get("/c/default/now")
        assert sentence(page) == "A circuit breaker has tripped: new decisions wait until a person has looked."
        assert site.post("/c/default/breaker", {}, csrf="/c/default/now").status == 303
        assert client("GET", "/v1/campaigns/default").json["breaker"] is None


def test_probation_that_keeps_everybody_aside_is_reported(tmp_path):
    with serving(tmp_path, policy={"minimum_votes": 1, "confidence": 0.5}) as client:
        site = Visitor(client)
        client.vote("t1", "ann", "spam")
        assert "Nothing can be decided" not in site.get("/c/default/now").body.decode()
        sent = {"source": "json", "version": "1", "json": '{"minimum_votes": 1, "probation": {"votes": 5}}'}
        tried = site.post("/c/default/policy", {**sent, "action": "test"}, csrf="/c/default/policy")
        assert b"Probation keeps the votes of all workers aside" in finished(site, tried.headers["Location"]).body
        spec = {"labels": ["spam", "ok"], "policy": {"probation": {"votes": 5}}}
        assert client("PUT", "/v1/campaigns/new", spec).json["warning"]
        assert "Nothing can be decided: probation keeps the votes of all workers aside" in site.get("/c/new/now").body.decode()


def test_an_erased_name_is_nowhere(site):
    escalate(site, 1)
    site.client("DELETE", "workers/ann")
    for view in ("queue", "task?id=t0", "workers", "log"):
        page = site.get(f"/c/default/{view}").body
        assert b"ann" not in page.replace(b"announ", b""), view
        assert b"#1" in page, view


def test_the_search_finds_tasks_and_workers(site):
    escalate(site, 1)
    for text, where in (("t0", "/c/default/task?id=t0"), ("ann", "/c/default/worker?id=ann"), ("an", "/c/default/workers?q=an")):
        assert site.get(f"/c/default/find?q={text}").headers["Location"] == where


def test_workers_are_sorted_searched_and_paged(tmp_path):
    with serving(tmp_path) as client:
        site = Visitor(client)
        votes = [{"task": f"t{t}", "worker": f"w{n:03d}", "label": "ok"} for n in range(120) for t in range(1 + n % 7)]
        client("POST", "votes", votes)
        for sort in ("votes", "accuracy", "name", "drift"):
            seen, address = [], f"/c/default/workers?sort={sort}"
            while address:
                text = site.get(address).body.decode()
                seen += re.findall(r'<th scope="row"><a href="[^"]*" title="([^"]+)"', text)
                more = re.search(r'<a class="button" href="(/c/default/workers[^"]+)"', text)
                address = more and more[1].replace("&amp;", "&")
            assert sorted(seen) == [f"w{n:03d}" for n in range(120)], sort
            if sort == "votes":
                assert [int(name[1:]) % 7 for name in seen] == sorted((n % 7 for n in range(120)), reverse=True)
        assert b"10 of 120" in site.get("/c/default/workers?q=W01").body


def test_ids_may_have_any_characters(tmp_path):
    odd, label = "a\r\n/b%41?..&\u202e", "yes\nor no%20"
    with serving(tmp_path, labels=()) as client:
        site = Visitor(client)
        client("PUT", "/v1/campaigns/default", {"labels": [label, "ok"], "policy": POLICY})
        for worker, said in ((odd, label), ("bob", "ok")):
            client("POST", "votes", {"task": odd, "worker": worker, "label": said})
        page = site.get("/c/default/queue").body.decode()
        forms = dict(re.findall(r'<input type="hidden" name="(id|position)" value="([^"]*)"', page))
        values = re.findall(r'<button name="label" value="([^"]*)"', page)
        assert site.post("/c/default/queue", forms | {"label": values[0]}, csrf="/c/default/queue").status == 303
        [row] = log(site, event="override")
        assert (row["task"], row["label"]) == (odd, label)
        links = re.findall(r'href="(/c/default/(?:task|worker)[^"]*)"', site.get("/c/default/log").body.decode())
        assert {site.get(link.replace("&amp;", "&")).status for link in set(links)} == {200}
        assert listed(site.get(f"/c/default/queue?label={quote(values[0])}")) == []


def test_the_theme_is_chosen_without_a_script(server):
    visitor = Visitor(server)
    answer = visitor.post("/theme", {"theme": "dark", "next": "/c/default/log"}, csrf="/c/default/now")
    assert (answer.status, answer.headers["Location"]) == (303, "/c/default/log")
    assert b'data-theme="dark"' in visitor.get("/c/default/now").body
    assert visitor.post("/theme", {"theme": "<b>"}, csrf="/c/default/now").status == 422


def test_odd_requests_are_answered_with_a_page(server):
    visitor = Visitor(server)
    assert visitor.get("/c/default/nothing").status == 404
    assert visitor.get("/c/default/task").status == 422
    assert visitor.get("/c/default/task?id=a&id=b").status == 422
    assert visitor.get("/c/default/task?id=%FF").status == 400
    assert visitor.post("/c/default/now", {}, csrf="/c/default/now").status == 405
    assert visitor.get("/assets/../secret").status == 404
    assert visitor.post("/c/default/task", {"id": "t" * 300, "action": "gold"}, csrf="/c/default/now").status == 422
    head = server("HEAD", "/c/default/now")
    assert (head.status, head.body) == (200, b"")
