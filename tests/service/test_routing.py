"""Routing: on the raw path, segment by segment."""

import re
from pathlib import Path

import pytest

from adjudge.service.http.errors import Malformed, NotAllowed, NotFound
from adjudge.service.http.routes import ROUTES
from adjudge.service.http.routing import Router
from service.serving import segment

ROUTER = Router(ROUTES)
IDS = [
    "a/b",
    "..",
    ".",
    "%",
    "%2F",
    "a b",
    "é",
    "日本",
    "a?b#c",
    "votes",
    "tasks",
    "gold",
    "votes:stream",
    "+",
    "\x1b[31m",
    "a\nb",
    '"',
    "\\",
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_every_route_finds_itself(route):
    for text in IDS:
        path = route.path
        for name in route.parameters:
            path = path.replace(f"{{{name}}}", segment(text))
        assert ROUTER.find(route.method, path.encode()) == (route, [text] * len(route.parameters))


def test_ids_come_back_as_they_were_sent(server):
    for text in IDS:
        task = f"ids {text}"
        assert server.vote(task, text, "spam").status == 200
        found = server("GET", f"tasks/{segment(task)}").json
        assert found["task"] == task
        assert [vote["worker"] for vote in found["evidence"]] == [text]
        assert server("GET", f"workers/{segment(text)}").json["worker"] == text


def test_a_literal_may_be_encoded_too():
    assert ROUTER.find("POST", b"/v1/campaigns/x/votes%3Astream")[0].path.endswith("votes:stream")


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/v1",
        b"/v1/campaigns/",
        b"/v1/campaigns//votes",
        b"/v1/campaigns/x/tasks/",
        b"/healthz/",
        b"//healthz",
        b"/v1/campaigns/x/votes/y",
        b"healthz",
        b"/" * 500,
    ],
)
def test_unknown_addresses_are_not_found(path):
    with pytest.raises(NotFound):
        ROUTER.find("GET", path)


def test_methods_of_an_address_are_named():
    with pytest.raises(NotAllowed) as raised:
        ROUTER.find("PUT", b"/v1/campaigns/x/votes")
    assert raised.value.methods == "DELETE, GET, HEAD, POST"
    assert ROUTER.find("HEAD", b"/healthz")[0].method == "GET"


@pytest.mark.parametrize("part", [b"%FF", b"%C3", b"%00", b"\xff", b"a" * 257])
def test_bad_segments_are_told(part):
    with pytest.raises(Malformed):
        ROUTER.find("GET", b"/v1/campaigns/x/tasks/" + part)


def test_wrong_methods_and_paths_over_http(server):
    answer = server("DELETE", "/healthz")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert server("GET", "/nowhere").json["error"] == "not-found"
    assert server("GET", "tasks/%FF").status == 400
    assert server("GET", "/v1/campaigns/nobody").status == 404
    head = server("HEAD", "/healthz")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", "15")


def test_the_reference_lists_every_operation_with_its_scope():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+ /[^`]*)` \| (\w+) \|", page, re.MULTILINE)
    assert listed == [(route.name, route.scope or "none") for route in ROUTES]
