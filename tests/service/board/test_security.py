"""Who gets which page: without a cookie, with too little scope, from elsewhere, with a forged form, and what hostile data does."""

import re
import time
from contextlib import closing
from html.parser import HTMLParser
from urllib.parse import quote

import pytest

from adjudge.service.board.routes import PAGE_ROUTES
from adjudge.service.http import tokens
from adjudge.service.http.tokens import IMPLIED, SCOPES
from adjudge.service.store.opening import open_token_store
from service.board.visitor import Visitor
from service.serving import Client, serving

GIVEN = [(scope, scope, None) for scope in SCOPES] + [("elsewhere", "admin", "other"), ("leaving", "admin", None)]
GUARDED = [route for route in PAGE_ROUTES if route.scope is not None]
POSTS = [route for route in PAGE_ROUTES if route.method == "POST"]
EVIL = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>{{7*7}}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("secured"), given=GIVEN) as client:
        client.token = client.tokens["admin"]
        client.vote("t", "w", "spam")
        client("PUT", "/v1/campaigns/other", {"labels": ["a", "b"]})
        client.token = None
        yield client


def path_of(route):
    path = "/" if route.path == "/start" else route.path.replace("{campaign}", "default").replace("{name}", "style.css")
    return f"{path}?id={'t' if path.endswith('/task') else 'w'}" if path.endswith(("/task", "/worker", "/audit")) else path


@pytest.fixture(scope="module")
def people(secured):
    """A visitor for every token."""
    found = {}
    for name, token in secured.tokens.items():
        found[name] = Visitor(secured)
        if name != "vote":
            assert found[name].sign_in(token).status == 303
    return found


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_without_a_session_every_page_leads_to_the_sign_in(secured, route):
    visitor, path = Visitor(secured), path_of(route)
    for cookie in (None, "adjudge_session=forged", f"adjudge_session={secured.tokens['admin']}"):
        headers = {} if cookie is None else {"Cookie": cookie}
        answer = visitor.get(path, headers) if route.method == "GET" else visitor.post(path, {}, csrf="x", headers=headers)
        if route.method == "GET":
            assert (answer.status, answer.headers["Location"].partition("?")[0]) == (303, "/sign-in")
        else:
            assert answer.status == 401
        assert b"spam" not in answer.body


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_every_page_asks_for_its_scope(people, route):
    path = path_of(route)
    if path.endswith("/live"):
        return  # it has no end: the browser tests listen to it
    for scope in ("read", "moderate", "admin"):
        visitor = people[scope]
        answer = visitor.get(path) if route.method == "GET" else visitor.post(path, {}, csrf="/c/default/now")
        allowed = route.scope in IMPLIED[scope]
        assert (answer.status == 403) != allowed, (scope, answer.status, answer.body[-900:])


def test_saving_a_policy_needs_admin_and_the_page_says_so(people):
    page = people["moderate"].get("/c/default/policy").body
    assert b"Back-test" in page
    sent = {"action": "save", "source": "json", "json": "{}", "version": "1"}
    assert people["moderate"].post("/c/default/policy", sent, csrf="/c/default/policy").status == 403
    assert people["admin"].post("/c/default/policy", sent, csrf="/c/default/policy").status == 409  # it was not back-tested


def test_readers_see_no_form_that_changes_anything(people):
    for path in ("/c/default/queue", "/c/default/task?id=t", "/c/default/worker?id=w", "/c/default/policy"):
        forms = re.findall(r'<form method="post" action="(/c/[^"]+)"', people["read"].get(path).body.decode())
        assert [form for form in forms if not form.endswith("/policy")] == [], path
    assert b"Back-test</button>" not in people["read"].get("/c/default/policy").body


def test_a_token_of_another_campaign_reaches_nothing_here(people):
    visitor = people["elsewhere"]
    assert visitor.get("/").headers["Location"] == "/c/other/now"
    assert visitor.get("/c/default/now").status == 403
    assert b"default" not in visitor.get("/c/other/now").body
    assert visitor.get("/c/nowhere/now").status == 403  # the same, whether there is such a campaign or not


def test_a_token_decides_its_labels_only(people, secured):
    with closing(open_token_store(secured.path)) as store:
        token = tokens.make_token()
        store.tokens.add(tokens.hash_token(token), "junior", ["moderate"], "default", time.time_ns() // 1000, ["spam"])
    visitor, end = Visitor(secured), time.monotonic() + 5
    while visitor.sign_in(token).status != 303:
        assert time.monotonic() < end
        time.sleep(0.05)
    page = visitor.get("/c/default/task?id=t").body.decode()
    assert set(re.findall(r'name="label" value="([^"]+)"', page)) == {"spam"}
    position = re.search(r'name="position" value="(\d+)"', page)[1]
    csrf = visitor.csrf("/c/default/now")
    for path, action in (("task", "override"), ("task", "gold"), ("queue", ""), ("audit", "")):
        sent = {"id": "t", "task": "t", "action": action, "label": "ok", "position": position}
        answer = visitor.post(f"/c/default/{path}", sent, csrf=csrf)
        assert (answer.status, "may not decide" in answer.body.decode()) == (403, True), path
    junior = Client(secured.address, token)
    assert junior("PUT", "tasks/t/gold", {"label": "ok"}).status == 403
    assert junior("POST", "tasks/t/override", {"label": "ok"}).status == 403
    assert junior("POST", "tasks/t/override", {"label": "spam"}).status == 200


@pytest.mark.parametrize("route", POSTS, ids=lambda route: route.name)
def test_forms_of_other_pages_are_refused(people, secured, route):
    visitor, path = people["admin"], path_of(route)
    good = visitor.csrf("/c/default/now")
    for csrf in (None, "", "forged", good[:-1], people["moderate"].csrf("/c/default/now")):
        assert visitor.post(path, {}, csrf=csrf).status == 403, csrf
    foreign = (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1.evil.example:{secured.port}"},
        {"Origin": f"http://127.0.0.1:{secured.port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    )
    for headers in foreign:
        assert visitor.post(path, {}, csrf=good, headers=headers).status == 403, headers
    for kind in ("text/plain", "application/json", "multipart/form-data; boundary=x"):
        assert visitor.post(path, {}, csrf=good, kind=kind).status == 400, kind
    assert visitor.get("/c/default/now").status == 200  # still signed in


def test_the_session_cookie_is_out_of_reach(secured):
    answer = Visitor(secured).sign_in(secured.tokens["read"])
    cookie = answer.headers["Set-Cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
    assert secured.tokens["read"].lower() not in cookie
    far = Visitor(secured).post("/sign-in", {"token": secured.tokens["read"]}, csrf="/sign-in", headers={"Host": "votes.example"})
    assert "secure" in far.headers["Set-Cookie"].lower().replace(" ", "").split(";")


def test_signing_in_tells_nothing_and_leads_nowhere_else(secured):
    visitor = Visitor(secured)
    for token in ("", "wrong", secured.tokens["read"][:-1]):
        assert visitor.sign_in(token).status == 401
    assert visitor.sign_in(secured.tokens["vote"]).status == 401
    for wanted in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "javascript:alert(1)"):
        assert visitor.sign_in(secured.tokens["read"], wanted).headers["Location"] == "/"
    assert visitor.sign_in(secured.tokens["read"], "/c/default/log?event=vote").headers["Location"] == "/c/default/log?event=vote"


def test_signing_out_ends_the_session(secured):
    visitor = Visitor(secured)
    visitor.sign_in(secured.tokens["read"])
    kept = dict(visitor.cookies)
    assert visitor.post("/sign-out", {}, csrf="/c/default/now").status == 303
    visitor.cookies = kept
    assert visitor.get("/c/default/now").status == 303


def test_a_revoked_token_ends_its_session(people, secured):
    assert people["leaving"].get("/c/default/now").status == 200
    with closing(open_token_store(secured.path)) as store:
        number = next(row.number for row in store.tokens.all() if row.name == "leaving")
        store.tokens.revoke(number, time.time_ns() // 1000)
    end = time.monotonic() + 5
    while people["leaving"].get("/c/default/now").status == 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_every_page_says_what_browsers_may_load(people):
    for route in PAGE_ROUTES:
        if route.method != "GET" or route.path.endswith(("/live", "/{name}", "/download")):
            continue
        answer = people["admin"].get(path_of(route))
        if answer.status == 303:
            continue
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; ")
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        text = answer.body.decode()
        assert "style=" not in text
        assert not re.search(r"<[^>]+\son\w+=", text)
        assert not re.search(r"<script(?! src=)", text)


class Tags(HTMLParser):
    """Counts what a page has of each element, and keeps its links."""

    def __init__(self, page):
        super().__init__()
        self.seen, self.links, self.images = {}, [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.seen[tag] = self.seen.get(tag, 0) + 1
        known = dict(attrs)
        if tag == "a":
            self.links.append(known.get("href"))
        if tag == "img":
            self.images.append(known.get("src"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A campaign in which everything that somebody else chooses is an attack."""
    with serving(tmp_path_factory.mktemp("hostile"), labels=()) as client:
        labels = [{"id": EVIL, "name": EVIL}, {"id": "ok", "name": "ok"}]
        assert (
            client("PUT", "/v1/campaigns/default", {"labels": labels, "policy": {"minimum_votes": 1, "maximum_votes": 2}}).status
            == 201
        )
        item = {
            "text": EVIL,
            "url": "javascript:alert(1)",
            "image_url": "https://tracker.example/p.png",
            EVIL: {"deep": [EVIL]},
        }
        for worker, label in ((EVIL, EVIL), ("b", "ok")):
            assert client("POST", "votes", {"task": EVIL, "worker": worker, "label": label, "data": item}).status == 200
        client("POST", "votes", {"task": "plain", "worker": EVIL, "label": "ok", "data": {"url": "https://example.org/?a=1&b=2"}})
        task = f"/v1/campaigns/default/tasks/{quote(EVIL, safe='')}"
        assert client("POST", f"{task}/override", {"label": EVIL, "by": EVIL, "reason": EVIL}).status == 200
        assert client("POST", f"{task}/reopen", {"by": EVIL, "reason": EVIL}).status == 200
        assert client("PUT", "policy", {"policy": {"minimum_votes": 2}, "by": EVIL, "note": EVIL}).status == 200
        yield Visitor(client)


@pytest.mark.parametrize(
    "view",
    [
        "now",
        "queue",
        "task",
        "workers",
        "worker",
        "audit",
        "policy",
        "log",
        "policy?version=1",
        "queue?sort=%3Cb%3E",
        "task?id=%3Cb%3E",
    ],
)
def test_hostile_data_stays_text(hostile, view):
    path = f"/c/default/{view}"
    if "?" not in path and view in ("task", "worker", "audit"):
        path += f"?id={quote(EVIL, safe='')}"
    page = hostile.get(path)
    assert page.status in (200, 404, 422)
    tags = Tags(page.body.decode())
    assert tags.images == []
    assert tags.seen.get("script") == 1
    assert not [link for link in tags.links if link and not link.startswith(("/", "#", "https://example.org"))]
    if view in ("queue", "task", "worker", "log"):
        assert b"&lt;script&gt;alert(2)" in page.body


def test_links_of_items_open_without_telling_where_from(hostile):
    page = hostile.get("/c/default/task?id=plain").body.decode()
    assert '<a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer" target="_blank">' in page


def test_images_load_from_hosts_that_the_campaign_allows_only(tmp_path):
    with serving(tmp_path) as client:
        visitor = Visitor(client)
        client("POST", "tasks", {"tasks": [{"task": "t", "data": {"image_url": "https://img.example/cat.png"}}]})
        page = visitor.get("/c/default/task?id=t")
        assert b"<img" not in page.body
        assert b"img.example" in page.body
        assert client("PATCH", "/v1/campaigns/default", {"image_hosts": ["img.example; script-src *"]}).status == 422
        assert client("PATCH", "/v1/campaigns/default", {"image_hosts": ["img.example"]}).json["image_hosts"] == ["img.example"]
        page = visitor.get("/c/default/task?id=t")
        assert b'<img src="https://img.example/cat.png"' in page.body
        assert "img-src 'self' https://img.example;" in page.headers["Content-Security-Policy"]


def test_without_tokens_only_this_machine_sees_the_page(server):
    visitor = Visitor(server)
    assert visitor.get("/c/default/now").status == 200
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"X-Forwarded-For": "1.2.3.4"},
    ):
        assert visitor.get("/c/default/now", headers).status == 403, headers


def test_no_ui_leaves_nothing_at_the_root(tmp_path):
    with serving(tmp_path, ui=False) as client:
        for path in ("/", "/sign-in", "/c/default/now", "/assets/board.js"):
            answer = client("GET", path)
            assert (answer.status, answer.json["error"]) == (404, "not-found")
