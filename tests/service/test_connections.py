"""What a client sends or withholds on a connection: headers, time, reading, and how many connections there are."""

import json
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from adjudge.service.http import limits
from adjudge.service.http.errors import HeadersTooLarge, Malformed
from adjudge.service.http.parsing import read_headers
from server_process import Served, until
from service.serving import BASE, Client, serving

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
VOTE = {"task": "t", "worker": "ann", "label": "spam"}


def connect(server, timeout=20):
    return socket.create_connection((server.host, server.port), timeout=timeout)


def everything(sock):
    """All bytes until the server closes the connection."""
    found = b""
    while chunk := sock.recv(65536):
        found += chunk
    return found


def is_closed(sock, data):
    """Whether the server has closed the connection, while it is sent some more bytes."""
    sock.settimeout(0.1)
    try:
        sock.sendall(data)
        return sock.recv(65536) == b""
    except TimeoutError:
        return False
    except OSError:  # reset, as more was sent than was read
        return True


# --- headers


@pytest.mark.parametrize(
    "lines",
    [
        [b"A: b\r\n"] * (limits.MAX_HEADER_LINES + 1),
        [b"A: " + b"b" * limits.MAX_HEADER_BYTES + b"\r\n"],
        [b"A: " + b"b" * 2000 + b"\r\n"] * 20,
    ],
)
def test_headers_that_are_too_large_are_refused_and_the_connection_is_closed(server, lines):
    with connect(server) as sock:
        sock.sendall(HEAD + b"".join(lines) + b"\r\n")
        found = everything(sock)
    assert found.startswith(b"HTTP/1.1 431 ")
    assert found.count(b"HTTP/1.1") == 1
    assert json.loads(found.rpartition(b"\r\n")[2])["error"] == "headers-too-large"


def test_a_request_line_counts_as_header(server):
    with connect(server) as sock:
        sock.sendall(b"GET /" + b"a" * limits.MAX_HEADER_BYTES + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert everything(sock).startswith(b"HTTP/1.1 431 ")


def test_headers_at_the_limit_are_answered(server):
    lines = b"A: b\r\n" * (limits.MAX_HEADER_LINES - 2) + b"Connection: close\r\n"
    with connect(server) as sock:
        sock.sendall(HEAD + lines + b"\r\n")
        assert everything(sock).startswith(b"HTTP/1.1 200 ")


def flood(sock, data):
    """Bytes that can be sent before the server closes the connection, 60 MB at most."""
    sent = 0
    try:
        while sent < 60_000_000:
            sent += sock.send(data)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize("line", [b"A: " + b"b" * 50 + b"\r\n", b"b" * 1000])  # many lines, and one without an end
def test_headers_without_an_end_are_cut_off(server, line):
    """60 MB of them took 1.2 GB."""
    with connect(server) as sock:
        sock.sendall(HEAD + b"X: ")
        assert flood(sock, line * 100) < 20_000_000  # the kernel takes some megabytes
    assert server("GET", "/healthz").status == 200


def test_trailers_without_an_end_are_cut_off(server):
    with connect(server) as sock:
        head = f"POST {BASE}/votes:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "
        sock.sendall(head.encode())
        assert flood(sock, b"x" * 100_000) < 20_000_000


@pytest.mark.parametrize("cut", [0, 5, len(HEAD)])
def test_headers_have_to_come_in_time(server, monkeypatch, cut):
    """Bytes that trickle in do not extend the time."""
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.5)
    with connect(server) as sock:
        sock.sendall(HEAD[:cut])
        until(lambda: is_closed(sock, {0: b"", 5: b"a"}.get(cut, b"A: b\r\n")))


def test_headers_of_a_second_request_have_to_come_in_time(server, monkeypatch):
    monkeypatch.setattr(limits, "HEADER_SECONDS", 0.5)
    with connect(server) as sock:
        sock.sendall(HEAD + b"\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        time.sleep(2.5)  # between requests there is more time
        sock.sendall(HEAD)
        assert everything(sock) == b""


def test_an_idle_connection_is_closed(server, monkeypatch):
    monkeypatch.setattr(limits, "KEEP_ALIVE_SECONDS", 0.5)
    with connect(server) as sock:
        sock.sendall(HEAD + b"\r\n")
        assert everything(sock).startswith(b"HTTP/1.1 200")


def test_a_body_that_trickles_in_after_its_answer_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    with connect(server) as sock:
        sock.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 404")
        until(lambda: is_closed(sock, b"x"))


@pytest.mark.parametrize(
    ("fields", "detail"),
    [
        (b"", "the header Host is missing"),
        (b"Host: localhost\r\nHost: localhost\r\n", "two host headers"),
        (b"Host: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n", "two authorization headers"),
        (b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", "two origin headers"),
        (b"Host: localhost\r\nContent-Length: 1\r\nContent-Length: 1\r\n", "not HTTP"),
        (b"Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n", "not HTTP"),
        (b"Host: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", "not HTTP"),
        (b"Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n", "not HTTP"),
        (b"Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "not HTTP"),
    ],
)
@pytest.mark.parametrize("line", [b"GET /healthz", f"POST {BASE}/votes".encode()])
def test_ambiguous_headers_are_refused_and_the_connection_is_closed(server, line, fields, detail):
    with connect(server) as sock:
        sock.sendall(line + b" HTTP/1.1\r\n" + fields + b"\r\n")
        found = everything(sock)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert detail in json.loads(found.rpartition(b"\r\n")[2])["detail"]


def test_headers_of_every_version_are_checked():
    assert read_headers([(b"x-forwarded-for", b"1.2.3.4")], version="1.0").is_forwarded
    for version in ("0.9", "2.0"):
        with pytest.raises(Malformed, match="version"):
            read_headers([(b"host", b"a")], version=version)
    with pytest.raises(Malformed, match="no Transfer-Encoding"):
        read_headers([(b"transfer-encoding", b"chunked")], version="1.0")
    with pytest.raises(HeadersTooLarge, match="exceed 32000 bytes or 100 lines"):
        read_headers([(b"a", b"b")] * 101)


@pytest.mark.parametrize("route", ["votes", "votes:stream"])
def test_trailers_change_nothing(server, route):
    """They took the place of the headers Host, Origin and Authorization."""
    body = json.dumps({**VOTE, "task": f"trailed {route}"}).encode()
    for host, trailers, status in (
        ("evil.example", "Host: localhost\r\n", b"403"),
        ("localhost", "Host: evil.example\r\nOrigin: http://evil.example\r\nAuthorization: Bearer x\r\n", b"200"),
    ):
        head = f"POST {BASE}/{route} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
        with connect(server) as sock:
            sock.sendall(head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers.encode()))
            assert everything(sock).startswith(b"HTTP/1.1 " + status)
    for keep in ("", "Connection: close\r\n"):  # the short way of votes, and the long one
        head = f"POST {BASE}/votes HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n{keep}\r\n".encode()
        found = server.raw(head + b"%x\r\n%b\r\n0\r\nHost: localhost\r\n\r\n" % (len(body), body), b"}")
        assert found.startswith(b"HTTP/1.1 403")


def test_what_cannot_be_parsed_is_refused_after_what_came_before_it(server):
    with connect(server) as sock:
        sock.sendall(HEAD + b"\r\n" + HEAD + b"\r\n" + b"nonsense\r\n\r\n")
        found = everything(sock)
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200", b"200", b"400"]


def test_a_body_that_cannot_be_parsed_ends_its_request(server):
    with connect(server) as sock:
        sock.sendall(f"POST {BASE}/votes:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode())
        found = everything(sock)
    assert found.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))  # whether or not its answer had begun
    assert server("GET", "/healthz").status == 200


# --- clients that do not read


@pytest.fixture
def process(tmp_path):
    with Served(tmp_path / "votes.db", "--labels", "spam,ok", "--log-level", "error") as served:
        served.host = "127.0.0.1"
        yield served


def memory(served):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{served.process.pid}/status").read_text())[1]) * 1000


@pytest.mark.slow
def test_clients_that_do_not_read_stop_nobody(process):
    """2,100 connections that pipelined requests and read nothing made every vote, and the check of health, fail."""
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    before = memory(process)
    sockets = []
    try:
        for _ in range(2100):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((process.host, process.port))
            sock.setblocking(False)
            sock.send(request * 500)
            sockets.append(sock)
        for n in range(20):
            assert process.ask("GET", "/healthz")[0] == 200
            assert process.ask("POST", f"{BASE}/votes", {**VOTE, "task": f"t{n}"})[0] == 200
            time.sleep(0.05)
        page = process.ask("GET", "/metrics")[1]
        assert re.search(r"adjudge_connections (\d+)", page)[1] == "2101"
        assert int(re.search(r"adjudge_requests_under_way (\d+)", page)[1]) < 10
        assert memory(process) - before < 2100 * 1_000_000
    finally:
        for sock in sockets:
            sock.close()


def test_a_client_that_does_not_read_is_cut_off(server, monkeypatch, caplog):
    monkeypatch.setattr(limits, "SEND_SECONDS", 1.0)
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n"
    for end in (b"\r\n", b"Connection: close\r\n\r\n"):  # one whose connection is being closed, too
        with connect(server) as sock:
            sock.sendall((request + b"\r\n") * 400 + request + end)
            until(lambda: "adjudge_connections 1\n" in server("GET", "/metrics").body.decode())
            assert everything(sock).count(b"HTTP/1.1 200") < 400
    assert caplog.records == []


def test_a_client_that_reads_slowly_gets_everything(server, monkeypatch):
    monkeypatch.setattr(limits, "SEND_SECONDS", 2.0)  # less than the whole takes
    monkeypatch.setattr(limits, "MIN_SENT_BYTES", 1000)
    size = len(server("GET", "/openapi.json").body)
    number = 3_000_000 // size + 400  # more than the kernel keeps
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n"
    with connect(server) as sock:
        sender = threading.Thread(
            target=sock.sendall, args=((request + b"\r\n") * (number - 1) + request + b"Connection: close\r\n\r\n",)
        )
        sender.start()
        found, pauses = [], 0
        while chunk := sock.recv(1_000_000):
            found.append(chunk)
            if pauses < 25:
                pauses += 1
                time.sleep(0.1)
        sender.join()
    assert b"".join(found).count(b"HTTP/1.1 200") == number


def test_pipelined_requests_are_not_taken_while_earlier_ones_wait(server, monkeypatch):
    """One packet held as many requests as fit into it, each with everything that a request needs."""
    from adjudge.service.http.connections import Protocol

    most, begin = [], Protocol.begin

    def watched(self):
        most.append((len(self.pipeline), len(self._held)))
        begin(self)

    monkeypatch.setattr(Protocol, "begin", watched)
    data = HEAD + b"\r\n"
    with connect(server) as sock:
        sender = threading.Thread(target=sock.sendall, args=(data * 19_999 + HEAD + b"Connection: close\r\n\r\n",))
        sender.start()
        found = everything(sock)
        sender.join()
    assert found.count(b"HTTP/1.1 200") == len(most) == 20_000
    assert max(waiting for waiting, _ in most) <= limits.MAX_PIPELINED
    assert max(held for _, held in most) <= 1 << 18  # one piece, as uvloop reads it


# --- how many connections


def test_connections_are_limited_per_peer_and_in_total(tmp_path):
    with serving(tmp_path, connections=5, connections_per_peer=3) as client:

        def opened(source):
            return socket.create_connection((client.host, client.port), timeout=10, source_address=(source, 0))

        def answer(sock):
            sock.sendall(HEAD + b"\r\n")
            return sock.recv(65536).split(b"\r\n", 1)[0]

        sockets = [opened(source) for source in ("127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2")]
        for sock in sockets:
            assert answer(sock) == b"HTTP/1.1 200 OK"
        sockets.pop().close()
        time.sleep(0.2)
        sockets.append(opened("127.0.0.1"))
        assert b"3 connections are open from your address" in everything(sockets[-1])
        sockets.append(opened("127.0.0.2"))
        assert answer(sockets[-1]) == b"HTTP/1.1 200 OK"
        sockets.append(opened("127.0.0.3"))
        assert b"5 connections are open" in everything(sockets[-1])
        for sock in sockets:
            sock.close()
        until(lambda: Client(client.address)("GET", "/healthz").status == 200)


def test_peers_are_not_limited_if_the_limit_is_zero(tmp_path):
    with serving(tmp_path, connections_per_peer=0) as client:
        sockets = [connect(client) for _ in range(50)]
        assert client("GET", "/healthz").status == 200
        for sock in sockets:
            sock.close()


# --- streams


def opened_stream(client, campaign="default", token=None):
    """An open votes:stream after its header has come, and the status."""
    connection = client.connection(timeout=20)
    connection.putrequest("POST", f"/v1/campaigns/{campaign}/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    if token:
        connection.putheader("Authorization", f"Bearer {token}")
    connection.endheaders()
    response = connection.response_class(connection.sock, method="POST")
    response.begin()
    return connection, response


def test_streams_of_one_token_block_no_other(tmp_path):
    """500 idle streams used to block those of all tokens in all campaigns."""
    given = [("one", "admin", None), ("two", "vote,read", "default")]
    with serving(tmp_path, given=given) as client:
        one, two = client.tokens["one"], client.tokens["two"]
        assert Client(client.address, one)("PUT", "/v1/campaigns/other", {"labels": ["spam", "ok"]}).status == 201
        held = [opened_stream(client, token=one) for _ in range(500)]
        statuses = [response.status for _, response in held]
        most = limits.MAX_STREAMS_PER_TOKEN_AND_CAMPAIGN
        assert statuses == [200] * most + [429] * (500 - most)
        assert json.loads(held[-1][1].read())["error"] == "too-many"
        for campaign, token in (("other", one), ("default", two)):
            connection, response = opened_stream(client, campaign, token)
            assert response.status == 200
            body = json.dumps(VOTE).encode() + b"\n"
            connection.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
            assert json.loads(response.read())["task"] == "t"
            held.append((connection, response))
        events = Client(client.address, two).connection()
        events.request("GET", f"{BASE}/events", headers={"Authorization": f"Bearer {two}"})
        assert events.getresponse().status == 200
        for connection, _ in [*held, (events, None)]:
            connection.close()


def test_streams_are_counted_until_they_end(server):
    connection, response = opened_stream(server)
    assert "adjudge_listeners 1" in server("GET", "/metrics").body.decode()
    connection.send(b"0\r\n\r\n")
    assert response.read() == b""
    connection.close()
    until(lambda: "adjudge_listeners 0" in server("GET", "/metrics").body.decode())


def test_limits_of_streams(monkeypatch):
    from adjudge.service.http.errors import TooMany, Unavailable

    streams = limits.Streams()
    monkeypatch.setattr(limits, "MAX_STREAMS", 2)
    monkeypatch.setattr(limits, "MAX_STREAMS_PER_TOKEN", 1)
    with streams.open(b"a", "x"):
        with pytest.raises(TooMany, match="1 streams of this token"), streams.open(b"a", "y"):
            pass
        with (
            streams.open(b"b", "x"),
            pytest.raises(Unavailable, match="2 streams are open"),
            streams.open(b"c", "x"),
        ):
            pass
    assert streams.now == 0
