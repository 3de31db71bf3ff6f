"""Who may do what: by a walk over the table, with every kind of token."""

import json
import time
from contextlib import closing

import pytest

from adjudge.errors import InputError, OptionError
from adjudge.service.http import tokens
from adjudge.service.http.errors import Unauthorized
from adjudge.service.http.routes import ROUTES
from adjudge.service.http.tokens import IMPLIED, SCOPES, TokenIndex
from adjudge.service.store.opening import open_token_store
from adjudge.service.store.rows import update_rows
from adjudge.service.store.tables import TokenRow
from service.serving import BASE, Client, serving

GIVEN = [(scope, scope, None) for scope in SCOPES] + [
    ("elsewhere", "admin", "other"),
    ("here", "read,vote", "default"),
    ("both", "vote,read", None),
]
# What a request has to carry to be taken apart at all; what it asks for need not be there.
BODIES = {
    "put_campaign": {"labels": ["spam", "ok"]},
    "change_campaign": {},
    "add_label": {"id": "x", "name": "x"},
    "rename_label": {"name": "x"},
    "post_votes": {"task": "t", "worker": "w", "label": "spam"},
    "retract_vote": {"task": "none", "worker": "none"},
    "put_gold": {"label": "nope"},
    "override": {"label": "nope"},
    "judge": {"task": "none", "label": "nope"},
    "change_worker": {},
    "ban_workers": {"workers": ["nobody"]},
    "put_policy": {"policy": {}},
    "backtest": {},
    "add_webhook": {"url": "http://127.0.0.1/"},
    "label_studio": {"action": "NOTHING"},
}
GUARDED = [route for route in ROUTES if route.scope is not None]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("secured"), given=GIVEN) as client:
        yield client


def ask(client, route, token, headers=()):
    """Ask for a route; streams of events are not read to their end."""
    path = route.path.replace("{campaign}", "default")
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", "nothing")
    path += "?worker=w" if path.endswith("/next") else "?id=0" if route.handler.__name__ == "delete_webhook" else ""
    body = BODIES.get(route.handler.__name__)
    sent = {"Authorization": f"Bearer {token}"} if token else {}
    connection = client.connection()
    try:
        connection.request(route.method, path, None if body is None else json.dumps(body), sent | dict(headers))
        response = connection.getresponse()
        text = response.read() if "event-stream" not in (response.headers["Content-Type"] or "") else b""
        return response.status, response.headers, text
    finally:
        connection.close()


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_every_route_asks_for_a_token(secured, route):
    for token in (None, "adj_wrong", secured.tokens["admin"][:-1], secured.tokens["admin"] + "x"):
        status, headers, text = ask(secured, route, token)
        assert (status, headers["WWW-Authenticate"], json.loads(text)["error"]) == (401, "Bearer", "unauthorized")
    status, _, _ = ask(secured, route, None, {"Authorization": "Basic cXI6cXI="})
    assert status == 401


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.name)
def test_every_route_asks_for_its_scope(secured, route):
    for scope in SCOPES:
        status, _, text = ask(secured, route, secured.tokens[scope])
        assert (status == 403) == (route.scope not in IMPLIED[scope]), (scope, text)
        assert status < 500 or route.handler.__name__ == "backtest", text


@pytest.mark.parametrize("route", [r for r in GUARDED if r.parameters], ids=lambda route: route.name)
def test_a_token_of_another_campaign_is_told_nothing(secured, route):
    token = secured.tokens["elsewhere"]
    known, _, first = ask(secured, route, token)
    unknown = Client(secured.address, token)
    path = route.path.replace("{campaign}", "no such")
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", "nothing")
    answer = unknown(route.method, path.replace(" ", "%20"))
    told = [{key: value for key, value in json.loads(each).items() if key != "request"} for each in (first, answer.body)]
    assert (known, answer.status) == (403, 403)
    assert told[0] == told[1]


def test_open_routes_are_these():
    assert {route.path for route in ROUTES if route.scope is None} == {"/healthz", "/readyz", "/openapi.json"}


def test_a_token_of_one_campaign(secured):
    here = Client(secured.address, secured.tokens["here"])
    assert here("GET", "/v1/campaigns").json == {"campaigns": ["default"]}
    assert here("GET", BASE).status == 200
    assert here("GET", "/metrics").status == 403
    assert Client(secured.address, secured.tokens["read"])("GET", "/metrics").status == 200
    assert Client(secured.address, secured.tokens["elsewhere"])("GET", "/v1/campaigns").json == {"campaigns": []}
    assert Client(secured.address, secured.tokens["read"])("GET", "/v1/campaigns/unknown").status == 404


def test_the_scheme_may_be_in_any_case(secured):
    assert secured("GET", BASE, headers={"Authorization": f"bearer {secured.tokens['read']}"}).status == 200


def test_revoked_and_new_tokens_are_seen_within_a_second(tmp_path):
    given = [("one", "read", None), ("two", "read", None)]
    with serving(tmp_path, given=given) as client:
        one, two = (Client(client.address, client.tokens[name]) for name in ("one", "two"))
        assert one("GET", BASE).status == two("GET", BASE).status == 200
        change_tokens(client.path, "one", revoked=1)
        _until(lambda: one("GET", BASE).status == 401)
        assert two("GET", BASE).status == 200
        change_tokens(client.path, revoked=1)
        _until(lambda: two("GET", BASE).status == 401)
        assert client("GET", BASE).status == 401  # taking the last one away opens nothing


def change_tokens(path, name="%", **fields):
    """Change tokens as another process would; `name` is a pattern."""
    with closing(open_token_store(path)) as store, store.writing() as link:
        assert update_rows(link, "token", lambda token: token.update(fields), "WHERE name LIKE ?", name)


def _until(met, seconds=10):
    """Wait, far longer than a second, as the machine may be busy."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end
        time.sleep(0.05)


def row(token, scopes=("read",), campaign=None, revoked=None):
    return TokenRow(1, tokens.hash_token(token), "n", scopes, campaign, 0, revoked)


def test_tokens_are_not_stored_and_not_alike():
    one, two = tokens.make_token(), tokens.make_token()
    assert one != two
    assert one.encode() not in tokens.hash_token(one)
    assert len(tokens.hash_token(one)) == 32


def test_rates_go_on_when_tokens_are_loaded_again():
    known = TokenIndex(rate=1)
    known.load([row("a")])
    grant = known.find(b"Bearer a")
    grant.bucket.take(2)
    known.load([row("a")])
    assert known.find(b"Bearer a").bucket is grant.bucket


def test_without_tokens_nothing_is_asked_for_unless_it_has_to_be():
    assert TokenIndex().find(None).allowed == set(SCOPES)
    with pytest.raises(Unauthorized):
        TokenIndex(required=True).find(None)
    with pytest.raises(Unauthorized):
        TokenIndex().find(b"Bearer x")  # a token that is not known is never taken for none


def test_scopes_are_named():
    assert tokens.parse_scopes("admin, vote") == ("vote", "admin")
    with pytest.raises(OptionError, match="unknown scope 'reed': did you mean 'read'"):
        tokens.parse_scopes("reed")
    with pytest.raises(InputError, match="needs a scope"):
        tokens.parse_scopes(" ,")


@pytest.mark.parametrize(
    ("header", "value"),
    [("Host", "evil.example"), ("Origin", "https://evil.example"), ("Origin", "null"), ("Host", "127.0.0.1.evil.example")],
)
def test_pages_of_others_get_nothing_where_there_are_no_tokens(server, header, value):
    for path in (BASE, f"{BASE}/votes"):
        answer = server("GET" if path == BASE else "POST", path, None if path == BASE else BODIES["post_votes"], {header: value})
        assert (answer.status, answer.json["error"]) == (403, "forbidden")
    assert server("GET", BASE, headers={"Host": "localhost:1", "Origin": "http://localhost:5173"}).status == 200
