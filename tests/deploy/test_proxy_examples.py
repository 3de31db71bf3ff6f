"""deploy/Caddyfile and deploy/nginx.conf, run by the real programs on loopback without TLS."""

import http.client
import json
import re
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from adjudge import Client
from adjudge.service.client import transport
from service import proxies
from service.board.visitor import Visitor
from service.serving import BASE, serving

DEPLOY = Path(__file__).parents[2] / "deploy"
ADMIN = [("admin", "admin", None)]
VOTE = {"task": "t", "worker": "ann", "label": "spam"}
SOON_S = 5.0  # a proxy that does not buffer passes on an event sooner


def replace(text, **changes):
    """Replace lines of a configuration, each of which must occur."""
    for old, new in changes.values():
        assert old in text, old
        text = text.replace(old, new)
    return text


def plain_nginx(port, upstream, redirects):
    """Return deploy/nginx.conf with other ports, and without TLS."""
    return replace(
        (DEPLOY / "nginx.conf").read_text(),
        upstream=("server 127.0.0.1:8000;", f"server 127.0.0.1:{upstream};"),
        redirects=("listen 80;", f"listen 127.0.0.1:{redirects};"),
        port=("listen 443 ssl http2;", f"listen 127.0.0.1:{port};"),
        certificate=("    ssl_certificate /etc/ssl/votes.example.org.pem;\n", ""),
        key=("    ssl_certificate_key /etc/ssl/votes.example.org.key;\n", ""),
    )


@contextmanager
def run_nginx(folder, upstream):
    port, redirects = proxies.free_port(), proxies.free_port()
    with proxies.nginx(folder, port, plain_nginx(port, upstream, redirects)) as client:
        client.redirects = redirects
        yield client


@contextmanager
def run_caddy(folder, upstream):
    port = proxies.free_port()
    site = {"ADJUDGE_SITE": f"http://127.0.0.1:{port}", "ADJUDGE_UPSTREAM": f"127.0.0.1:{upstream}"}
    with proxies.caddy(folder, port, DEPLOY / "Caddyfile", **site) as client:
        yield client


PROXIES = {"caddy": run_caddy, "nginx": run_nginx}


@pytest.fixture(params=PROXIES)
def proxy(request):
    return PROXIES[request.param]


@pytest.fixture(scope="module", params=PROXIES)
def both(request, tmp_path_factory):
    """Clients of one server with tokens: through the proxy, and directly; both have the administrator's."""
    with (
        serving(tmp_path_factory.mktemp("server"), given=ADMIN, require_tokens=True) as inside,
        PROXIES[request.param](tmp_path_factory.mktemp("proxy"), inside.port) as outside,
    ):
        outside.name = request.param
        outside.token = inside.token = inside.tokens["admin"]
        yield outside, inside


@contextmanager
def echo():
    """Yield (port, headers of each request) of an upstream that records what it gets."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append((self.request_version, self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)


def test_a_request_needs_a_token(both):
    outside, _ = both
    assert outside("GET", BASE, headers={"Authorization": ""}).status == 401
    assert outside("GET", "/healthz", headers={"Authorization": ""}).status == 200
    assert outside("POST", "votes", VOTE).status == 200
    assert outside("GET", "tasks/t").json["decision"]["label"] == "spam"


def test_without_tokens_nothing_is_open(proxy, tmp_path):
    with serving(tmp_path) as inside, proxy(tmp_path / "proxy", inside.port) as outside:
        refused = outside("POST", "votes", VOTE)
        assert (refused.status, refused.json["error"]) == (403, "forbidden")
        assert inside("POST", "votes", VOTE).status == 200


def test_forwarding_headers_are_the_proxys_own(proxy, tmp_path):
    forged = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "gopher", "X-Forwarded-Host": "evil.example"}
    with echo() as (port, seen), proxy(tmp_path / "proxy", port) as outside:
        assert outside("GET", "/", headers=forged).status == 200
    ((version, headers),) = seen
    assert version == "HTTP/1.1"
    assert headers["Host"] == headers["X-Forwarded-Host"] == f"127.0.0.1:{outside.port}"
    assert headers["X-Forwarded-For"] == "127.0.0.1"
    assert headers["X-Forwarded-Proto"] == "http"
    assert headers["Connection"] in (None, "keep-alive")
    assert "gopher" not in str(headers)
    assert "evil" not in str(headers)


def test_people_sign_in_and_other_sites_send_no_forms(both):
    outside, _ = both
    visitor = Visitor(outside)
    outside.token, token = None, outside.token
    try:
        origin = {"Origin": f"http://127.0.0.1:{outside.port}", "Sec-Fetch-Site": "same-origin"}
        form = {"token": token, "next": "/"}
        foreign = visitor.post("/sign-in", form, csrf="/sign-in", headers={"Origin": "http://evil.example"})
        assert foreign.status == 403
        assert visitor.post("/sign-in", form, csrf="/sign-in", headers=origin).status == 303
        assert visitor.get("/c/default/now").status == 200
    finally:
        outside.token = token


def test_events_come_at_once(both):
    outside, inside = both
    connection = outside.connection(timeout=30)
    connection.request("GET", f"{BASE}/events", headers={"Authorization": f"Bearer {outside.token}"})
    stream = connection.getresponse()
    try:
        assert (stream.status, stream.headers.get_content_type()) == (200, "text/event-stream")
        for n in range(3):
            inside.decide(f"event {n}")
            begin = time.monotonic()
            line = b""
            while not line.startswith(b"data:"):
                line = stream.readline()
            assert time.monotonic() - begin < SOON_S
            assert json.loads(line.removeprefix(b"data:"))["task"] == f"event {n}"
    finally:
        connection.sock.close()
        connection.close()


def test_a_long_stream_of_votes_is_answered_line_by_line(both):
    outside, _ = both
    lines = b"".join(json.dumps({**VOTE, "task": f"line {n}"}).encode() + b"\n" for n in range(2000))
    answer = outside("POST", "votes:stream", lines)
    assert [json.loads(line)["task"] for line in answer.body.splitlines()] == [f"line {n}" for n in range(2000)]


def test_a_stream_of_votes_answers_while_it_is_sent(both):
    outside, _ = both
    if outside.name == "caddy":
        pytest.skip("Caddy answers over HTTP/1.1 once it has read the whole request; enable_full_duplex changes that from 2.7 on")
    connection = outside.connection(timeout=SOON_S)
    connection.putrequest("POST", f"{BASE}/votes:stream")
    connection.putheader("Authorization", f"Bearer {outside.token}")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    response = None
    for n in range(3):
        line = json.dumps({**VOTE, "task": f"turn {n}"}).encode() + b"\n"
        connection.send(b"%x\r\n%b\r\n" % (len(line), line))
        if response is None:
            response = http.client.HTTPResponse(connection.sock, method="POST")
            response.begin()
        assert json.loads(response.readline())["task"] == f"turn {n}"
    connection.send(b"0\r\n\r\n")
    assert response.read() == b""
    connection.close()


def test_bodies_are_limited_as_the_service_limits_them(both):
    outside, _ = both
    assert outside("POST", "votes", b" " * 9_000_000).status == 413
    assert outside("POST", "votes", b" " * 7_000_000).status == 400  # the service's own answer: no JSON


def test_a_stream_of_votes_may_be_longer(both, monkeypatch):
    """Through Caddy it is cut into requests; through nginx it is one, which stalls if nobody reads while it is sent."""
    outside, inside = both
    monkeypatch.setattr(transport, "FIRST_ANSWER_S", 0.5)
    votes = ((f"{'long ' * 40}{n % 100}", f"w{n // 100}", "spam") for n in range(40_000))
    before = streams(inside)
    with Client(outside.address, token=outside.token) as client:
        assert sum(1 for _ in client.stream(votes)) == 40_000
    assert (streams(inside) - before > 1) == (outside.name == "caddy")
    if outside.name == "caddy":
        lines = (json.dumps(VOTE).encode() + b" " * 50_000 + b"\n") * 200
        answer = outside("POST", "votes:stream", lines)
        assert (answer.status, len(answer.body.splitlines())) == (200, 200)


def streams(client):
    """Return how many streams of votes the service has answered."""
    found = re.search(
        r'adjudge_requests_total{route="POST \S+/votes:stream",status="200"} (\d+)', client("GET", "/metrics").body.decode()
    )
    return int(found[1]) if found else 0


def test_lists_of_votes_go_through_any_proxy(both):
    outside, _ = both
    votes = [(f"many {n % 1000}", f"w{n // 1000}", "spam") for n in range(20_000)]
    with Client(outside.address, token=outside.token) as client:
        assert client.vote_many(votes).accepted == 20_000


def test_metrics_are_not_public(both):
    outside, inside = both
    assert outside("GET", "/metrics").status == 404
    assert inside("GET", "/metrics").status == 200


def test_browsers_are_told_to_stay_with_tls(both):
    outside, _ = both
    assert outside("GET", "/healthz").headers["Strict-Transport-Security"] == "max-age=31536000"


def test_nginx_redirects_to_tls(tmp_path):
    with run_nginx(tmp_path / "nginx", proxies.free_port()) as outside:
        outside.port = outside.redirects
        answer = outside("GET", "/c/default/now", headers={"Host": "votes.example.org"})
    assert (answer.status, answer.headers["Location"]) == (301, "https://votes.example.org/c/default/now")


def test_nginx_accepts_the_file_with_tls(tmp_path):
    if proxies.NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    made = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=votes.example.org")
    files = ("-keyout", tmp_path / "votes.example.org.key", "-out", tmp_path / "votes.example.org.pem")
    subprocess.run([*made, *files], check=True, capture_output=True, timeout=60)
    text = (DEPLOY / "nginx.conf").read_text().replace("/etc/ssl/", f"{tmp_path}/")
    file = proxies.write_nginx(tmp_path / "nginx", text)
    command = [proxies.NGINX, "-t", "-e", tmp_path / "error.log", "-p", tmp_path, "-c", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr


def test_caddy_accepts_the_file_with_tls(tmp_path):
    if proxies.CADDY is None:
        pytest.skip("Caddy is not installed: apt-get install caddy")
    command = [proxies.CADDY, "adapt", "--config", DEPLOY / "Caddyfile", "--adapter", "caddyfile", "--validate"]
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    sites = json.loads(done.stdout)["apps"]["http"]["servers"]["srv0"]
    assert sites["listen"] == [":443"]
    assert sites["routes"][0]["match"] == [{"host": ["votes.example.org"]}]
    formatted = subprocess.run(
        [proxies.CADDY, "fmt", DEPLOY / "Caddyfile"], capture_output=True, text=True, check=False, timeout=60
    )
    assert formatted.stdout in ("", (DEPLOY / "Caddyfile").read_text())
