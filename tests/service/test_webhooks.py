"""Webhooks: signed, tried again, given up, delivered again; and where they may not go."""

import hashlib
import hmac
import ipaddress
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from adjudge.service.http import webhooks
from adjudge.service.http.errors import Invalid
from adjudge.service.http.webhooks import check, is_public, parse_target, resolve
from adjudge.service.store.opening import open_store
from adjudge.service.store.rows import update_rows
from service.serving import serving

SECRET = "a secret of some length"


@contextmanager
def receiver(answers=()):
    """Yield (address, deliveries): the first requests get these statuses, all others 200."""
    seen, left = [], list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers, body))
            status = left.pop(0) if left else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b"x" * 200_000)  # more than is read

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def until(found, seconds=20):
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def allowing(tmp_path_factory):
    """A server that posts to loopback, hurries, and gives up after three attempts."""
    patch = pytest.MonkeyPatch()
    patch.setattr(webhooks, "FIRST_RETRY_PAUSE_S", 0.02)
    patch.setattr(webhooks, "OUTBOX_INTERVAL_S", 0.02)
    with serving(tmp_path_factory.mktemp("webhooks"), allow_private=True, attempts=3) as client:
        yield client
    patch.undo()


@pytest.fixture
def hook(allowing):
    """Make a webhook, which is removed in the end."""
    made = []

    def make(url, **more):
        answer = allowing("POST", "webhooks", {"url": url, **more})
        assert answer.status == 201, answer.body
        made.append(answer.json["id"])
        return answer.json

    yield make
    for number in made:
        allowing("DELETE", f"webhooks?id={number}")


def test_a_decision_is_posted_and_signed(allowing, hook):
    with receiver() as (url, seen):
        made = hook(f"{url}/hook?a=b", secret=SECRET)
        assert made["secret"] == SECRET
        decision = allowing.decide("posted")
        until(lambda: seen)
    path, headers, body = seen[0]
    assert path == "/hook?a=b"
    told = json.loads(body)
    assert told == {"delivery": headers["X-Adjudge-Delivery"], "campaign": "default", "decision": decision}
    moment, _, signed = headers["X-Adjudge-Signature"].removeprefix("t=").partition(",v1=")
    assert signed == hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Host"] == url.removeprefix("http://")
    assert len(seen) == 1


def test_secrets_are_made_and_shown_once(allowing, hook):
    with receiver() as (url, _):
        made = hook(url)
        assert len(made["secret"]) >= 32
        listed = allowing("GET", "webhooks").json["webhooks"]
        assert [(each["id"], each["secret"]) for each in listed] == [(made["id"], None)]


def test_only_wanted_statuses_are_posted(allowing, hook):
    with receiver() as (url, seen):
        hook(url, statuses=["escalated"])
        allowing.decide("not wanted")
        allowing("PUT", "policy", {"policy": {"minimum_votes": 2, "maximum_votes": 2, "confidence": 1.0}})
        for worker, label in (("new 1", "spam"), ("new 2", "ok")):
            answer = allowing.vote("torn", worker, label).json["decisions"][0]
        assert answer["status"] == "escalated"
        until(lambda: seen)
        assert [json.loads(body)["decision"]["task"] for _, _, body in seen] == ["torn"]


def test_failures_are_tried_again_with_the_same_id(allowing, hook):
    with receiver([500, 404]) as (url, seen):
        hook(url)
        allowing.decide("stubborn")
        until(lambda: len(seen) == 3)
        assert len({headers["X-Adjudge-Delivery"] for _, headers, _ in seen}) == 1
        until(lambda: 'outcome="delivered"' in allowing("GET", "/metrics").body.decode())
        assert allowing("GET", "webhooks/dead").json["dead"] == []


def test_dead_letters_can_be_delivered_again(allowing, hook):
    with receiver([500, 302, 500]) as (url, seen):
        made = hook(url)
        decision = allowing.decide("given up")
        dead = until(lambda: allowing("GET", "webhooks/dead").json["dead"])
        assert [path for path, _, _ in seen] == ["/"] * 3  # redirects are not followed
        letter = dead[0]
        assert (letter["webhook"], letter["attempts"], letter["decision"]) == (made["id"], 3, decision)
        assert letter["error"] == "the receiver answered 500"
        assert allowing("POST", f"webhooks/dead/{letter['id']}/redeliver").status == 202
        until(lambda: len(seen) == 4)
        assert seen[3][1]["X-Adjudge-Delivery"] == letter["delivery"]
        assert 'adjudge_deliveries_total{outcome="dead"} 1' in allowing("GET", "/metrics").body.decode()
        assert until(lambda: not allowing("GET", "webhooks/dead").json["dead"])
        for wrong in (letter["id"], "nonsense", "0", "9" * 30):
            assert allowing("POST", f"webhooks/dead/{wrong}/redeliver").status == 404


def test_webhooks_that_are_not_there(allowing):
    assert allowing("DELETE", "webhooks?id=0").status == 404
    assert allowing("DELETE", "webhooks").status == 422
    assert allowing("GET", "webhooks").json == {"webhooks": []}


PRIVATE = [
    "http://127.0.0.1/",
    "http://localhost:8000/",
    "http://LOCALHOST./",
    "http://x.localhost/",
    "http://10.1.2.3/",
    "http://192.168.0.1/",
    "http://172.16.5.4/",
    "http://169.254.169.254/latest/meta-data/",
    "http://0.0.0.0/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://100.64.0.1/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[fe80::1]/",
    "https://[fc00::1]/",
    "https://[ff02::1]/",
    "https://[::]/",
]
WRONG = [
    "ftp://example.org/",
    "http://",
    "http:///x",
    "http://u:p@example.org/",
    "http://example.org:0/",
    "http://example.org:99999/",
    "http://exa mple.org/",
    "http://exämple.org/",
    "javascript:alert(1)",
    "http://[::1/",
    "http://example.org/\r\nX: y",
]


@pytest.mark.parametrize("url", PRIVATE + WRONG)
def test_addresses_that_are_refused_when_a_webhook_is_made(server, url):
    answer = server("POST", "webhooks", {"url": url})
    assert (answer.status, answer.json["error"]) == (422, "invalid")
    with pytest.raises(Invalid):
        check(url, allow_private=False)


@pytest.mark.parametrize("url", WRONG)
def test_some_are_refused_even_where_private_ones_are_allowed(url):
    with pytest.raises(Invalid):
        check(url, allow_private=True)


def test_public_addresses_are_taken():
    assert check("https://example.org:8443/a?b", allow_private=False) == (True, "example.org", 8443, "/a?b")
    assert check("http://93.184.216.34", allow_private=False).path == "/"
    assert parse_target("https://[2606:2800:220:1::]:8443/").authority == "[2606:2800:220:1::]:8443"
    assert is_public(ipaddress.ip_address("2606:2800:220:1::"))


def test_a_name_that_comes_to_mean_a_private_address_is_refused_at_delivery(monkeypatch):
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, port, **_: [(2, 1, 6, "", ("93.184.216.34", port)), (2, 1, 6, "", ("127.0.0.1", port))],
    )
    with pytest.raises(Invalid, match="private"):
        resolve(parse_target("http://rebound.example/"), allow_private=False)
    assert "private" in webhooks.post("http://rebound.example/", SECRET, "key", b"{}", allow_private=False)


def test_the_connection_is_made_to_the_address_that_was_checked(monkeypatch):
    """A name server that changes its mind after the first answer changes nothing."""
    with receiver() as (url, seen):
        port = int(url.rpartition(":")[2])
        asked = []

        def rebinding(host, port, **_):
            asked.append(host)
            return [(2, 1, 6, "", ("127.0.0.1" if len(asked) == 1 else "192.0.2.1", port))]

        connected = []
        real = socket.create_connection

        def connect(address, **options):
            connected.append(address)
            monkeypatch.undo()
            return real(address, **options)

        monkeypatch.setattr(webhooks.socket, "getaddrinfo", rebinding)
        monkeypatch.setattr(webhooks.socket, "create_connection", connect)
        assert webhooks.post(f"http://rebound.example:{port}/", SECRET, "key", b"{}", allow_private=True) is None
    assert (asked, connected) == (["rebound.example"], [("127.0.0.1", port)])
    assert seen[0][1]["Host"] == f"rebound.example:{port}"


def test_failures_of_the_network_are_told_in_a_line():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        assert "refused" in webhooks.post(f"http://127.0.0.1:{port}/", SECRET, "key", b"{}", allow_private=True)


def test_a_receiver_that_never_ends_is_left(monkeypatch):
    monkeypatch.setattr(webhooks, "RESPONSE_TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        stop = threading.Event()

        def drip():
            connection, _ = silent.accept()
            with connection:
                while not stop.wait(0.02):  # never long enough a pause for the time-out of a single wait
                    try:
                        connection.send(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        assert webhooks.post(f"http://127.0.0.1:{port}/", SECRET, "key", b"{}", allow_private=True)
        stop.set()
        thread.join(10)


def test_pauses_grow_and_differ():
    first = webhooks.FIRST_RETRY_PAUSE_S
    assert [webhooks.pause(n, 1.0) / first for n in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert webhooks.pause(3, 0.0) / first == 2.0
    assert webhooks.pause(60, 1.0) == webhooks.MAX_RETRY_PAUSE_S


def test_deliveries_survive_a_restart(tmp_path):
    with receiver() as (url, seen):
        with serving(tmp_path, allow_private=True) as client:
            client("POST", "webhooks", {"url": "http://127.0.0.1:9/"})  # where nobody listens
            client.decide("waits")
            until(lambda: 'outcome="failed"' in client("GET", "/metrics").body.decode())
        store = open_store(client.path)
        with store.writing() as link:
            assert update_rows(link, "webhook", lambda hook: hook.update(url=url), "") == 1
            assert update_rows(link, "outbox", lambda message: message.update(due=0), "") == 1
        store.close()
        with serving(tmp_path, allow_private=True):
            until(lambda: seen)
        assert json.loads(seen[0][2])["decision"]["task"] == "waits"
