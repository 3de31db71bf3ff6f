"""The short way of votes: the same answers as the long one, in order, for any fragmentation of the requests."""

import socket
import threading
import time

import pytest

from adjudge.service.http import connections as protocol
from adjudge.service.http.app import Service
from adjudge.service.store.errors import StoreUnavailable
from adjudge.service.store.sqlite import SqliteStore
from service.serving import BASE


def request(task, worker="ann", label="spam", *, fields="", version="1.1", path=f"{BASE}/votes"):
    body = f'{{"task": "{task}", "worker": "{worker}", "label": "{label}"}}'
    return f"POST {path} HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{fields}\r\n{body}".encode()


@pytest.fixture
def short(monkeypatch):
    """Whether each request with votes went the short way."""
    seen, take = [], Service.take

    def watched(*arguments):
        seen.append(take(*arguments))
        return seen[-1]

    monkeypatch.setattr(Service, "take", watched)
    return seen


def test_votes_go_the_short_way(server, short):
    answer = server("POST", "votes", {"task": "whole", "worker": "ann", "label": "spam"}, {"X-Request-Id": "mine"})
    assert short == [True]
    assert (answer.status, answer.json["accepted"], answer.json["decisions"][0]["task"]) == (200, 1, "whole")
    names = {name.lower() for name in answer.headers}
    assert {"date", "content-type", "content-length", "cache-control", "x-content-type-options", "x-request-id"} <= names
    assert answer.headers["X-Request-Id"] == "mine"
    again = server("POST", "votes", {"task": "whole", "worker": "ann", "label": "spam"})
    assert (short, again.json["repeated"]) == ([True, True], 1)


def test_both_ways_give_the_same_answer(server, short, monkeypatch):
    first = server("POST", "votes", [{"task": "same", "worker": w, "label": "spam"} for w in "ab"])
    monkeypatch.setattr(Service, "take", lambda *_: False)
    second = server("POST", "votes", [{"task": "same", "worker": w, "label": "spam"} for w in "ab"])
    assert first.json["decisions"] == second.json["decisions"]
    assert (first.json["accepted"], second.json["repeated"]) == (2, 2)
    skipped = {"date", "content-length", "x-request-id"}
    one, two = ({k: v for k, v in answer.headers.items() if k not in skipped} for answer in (first, second))
    assert one == two
    assert one


@pytest.mark.parametrize("cut", [1, 40, 120, -1])
def test_requests_in_pieces(server, cut):
    data = request(f"pieces{cut}")
    with socket.create_connection((server.host, server.port), timeout=10) as sock:
        for _ in range(2):  # the second over the same connection
            sock.sendall(data[:cut])
            time.sleep(0.02)
            sock.sendall(data[cut:])
            found = b""
            while not found.endswith(b"}]}"):
                found += sock.recv(65536)
            assert found.startswith(b"HTTP/1.1 200")
    assert server("GET", f"tasks/pieces{cut}").json["decision"]["votes"] == 1


def test_a_body_that_takes_its_time(server, short, monkeypatch):
    monkeypatch.setattr(protocol, "BODY_TIMEOUT_S", 0.05)
    data = request("slow")
    with socket.create_connection((server.host, server.port), timeout=10) as sock:
        sock.sendall(data[:-9])
        time.sleep(0.3)
        sock.sendall(data[-9:])
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    assert short == []
    with socket.create_connection((server.host, server.port), timeout=10) as sock:
        sock.sendall(data[:-9])  # and goes away
    assert server("GET", "tasks/slow").json["decision"]["votes"] == 1


def test_large_bodies(server, short):
    many = [{"task": f"large{i}", "worker": "ann", "label": "spam"} for i in range(2000)]
    assert server("POST", "votes", many).json["accepted"] == 2000
    assert short == []


def test_requests_in_one_piece_are_answered_in_order(server):
    data = b"".join(request(f"row{i}") if i % 3 else b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" for i in range(12))
    data += request("row-last", fields="Connection: close\r\n")
    found = server.raw(data, b"never comes")
    assert found.count(b"HTTP/1.1 200") == 13
    places = [found.index(f'"row{i}"'.encode()) for i in range(12) if i % 3]
    assert places == sorted(places)
    assert found.index(b'"row-last"') > places[-1]


@pytest.mark.parametrize(
    ("fields", "version", "first", "last"),
    [
        ("Connection: close\r\n", "1.1", b"HTTP/1.1 200", b'"accepted":1'),
        ("", "1.0", b"HTTP/1.1 403", b'"forbidden"'),  # without tokens
        ("Expect: 100-continue\r\n", "1.1", b"HTTP/1.1 100", b'"accepted":1'),
    ],
)
def test_what_is_unusual_goes_the_long_way(server, short, fields, version, first, last):
    found = server.raw(request(f"unusual{fields[:6]}", fields=fields, version=version), last)
    assert found.startswith(first)
    assert last in found
    assert short == []


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("t", label="no such"), 422),
        (request("t", path="/v1/campaigns/nowhere/votes"), 404),
        (request("t", path="/v1/campaigns/default?/votes"), 405),
        (request("t", path="/v1/campaigns/default/votes?x=/votes"), 422),
        (request("t").replace(b"localhost", b"evil.example"), 403),
        (request("t").replace(b'"task"', b'"tusk"'), 422),
        (request("t").replace(b"Content-Length: ", b"Content-Length: x"), 400),
    ],
)
def test_what_is_wrong_is_told_as_ever(server, data, status):
    found = server.raw(data, b"}")
    assert found.startswith(b"HTTP/1.1 %d" % status), found
    assert server("GET", "tasks/t").status == 404


def test_a_commit_that_fails_is_told_to_all_who_wait(server, monkeypatch):
    write, failing = SqliteStore.write, threading.Event()
    failing.set()

    def full(self, batch):
        if failing.is_set():
            raise StoreUnavailable("the disk is full")
        write(self, batch)

    monkeypatch.setattr(SqliteStore, "write", full)
    for _ in range(2):
        answer = server.vote("refused", "ann", "spam")
        assert (answer.status, answer.json["error"], answer.headers["Retry-After"]) == (503, "unavailable", "1")
    assert server("GET", "tasks/refused").status in (404, 503)  # whether or not it was forgotten already
    failing.clear()
    until = time.monotonic() + 30
    while server.vote("taken", "ann", "spam").status != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert server("GET", "tasks/refused").status == 404
