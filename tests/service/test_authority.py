"""Authority is checked when it is used: streams end with their token, and work begun with one is not finished without it."""

import asyncio
import json
import socket
import threading
from contextlib import closing

import pytest

from adjudge.service.client import Client
from adjudge.service.client.errors import Unauthorized
from adjudge.service.http.errors import Forbidden, Unavailable
from adjudge.service.http.errors import Unauthorized as Refused
from adjudge.service.http.tokens import FULL_GRANT, MAX_TOKEN_AGE_S, Authority, Permit, TokenIndex
from adjudge.service.store.opening import open_store, open_token_store
from service.serving import BASE, serving
from service.test_feed import Stream
from service.test_streaming import line
from service.test_tokens import change_tokens, row

REVOKED = {"revoked": 1}
LESSENED = {"scopes": '["moderate"]'}
NARROWED = {"scopes": '["moderate"]', "campaign": "other"}
GIVEN = [("one", "vote,read", None), ("two", "admin", None)]


class Votes:
    """An open stream of votes, sent and answered in parts."""

    def __init__(self, client, token):
        self.connection = client.connection()
        self.connection.putrequest("POST", f"{BASE}/votes:stream")
        self.connection.putheader("Transfer-Encoding", "chunked")
        self.connection.putheader("Authorization", f"Bearer {token}")
        self.connection.endheaders()
        self.response = None

    def send(self, *lines):
        body = b"".join(each + b"\n" for each in lines)
        self.connection.send(b"%x\r\n%b\r\n" % (len(body), body))

    def answer(self):
        if self.response is None:
            self.response = self.connection.response_class(self.connection.sock, method="POST")
            self.response.begin()
        text = self.response.readline()
        return json.loads(text) if text else None

    def close(self):
        self.connection.close()
        self.response.close()


@pytest.mark.parametrize(("change", "code"), [(REVOKED, "unauthorized"), (LESSENED, "forbidden"), (NARROWED, "forbidden")])
def test_an_idle_stream_of_votes_ends_with_its_token(tmp_path, change, code):
    with serving(tmp_path, given=GIVEN) as client:
        votes = Votes(client, client.tokens["one"])
        votes.send(line("a"), line("b"))
        assert [votes.answer()["task"] for _ in range(2)] == ["a", "b"]
        change_tokens(client.path, "one", **change)
        last = votes.answer()
        assert (last["error"], last["line"]) == (code, 3)
        assert votes.answer() is None
        votes.close()


@pytest.mark.parametrize(("change", "code"), [(REVOKED, "unauthorized"), (NARROWED, "forbidden")])
def test_an_idle_stream_of_events_ends_with_its_token(tmp_path, change, code):
    with serving(tmp_path, given=GIVEN) as client:
        headers = {name: {"Authorization": f"Bearer {client.tokens[name]}"} for name in ("one", "two")}
        one, two = (Stream(client, headers=headers[name]) for name in ("one", "two"))
        change_tokens(client.path, "one", **change)
        assert one.event()["event"] == code
        assert one.event() == {}
        client.token = client.tokens["two"]
        made = client.decide("t")
        assert json.loads(two.event()["data"]) == made, "the other stream continues"
        one.close()
        two.close()


def test_a_stream_without_tokens_ends_when_there_is_one(tmp_path):
    with serving(tmp_path) as client:
        stream = Stream(client)
        with closing(open_token_store(client.path)) as store:
            store.tokens.add(b"0", "first", ["read"], None, 0)
        assert stream.event()["event"] == "unauthorized"
        stream.close()


def test_a_busy_stream_casts_no_vote_after_its_token_was_revoked(tmp_path):
    with serving(tmp_path, given=GIVEN) as client:
        votes, sent = Votes(client, client.tokens["one"]), threading.Event()

        def load():
            try:
                for n in range(100_000):
                    votes.send(*(line(f"{n}.{k}") for k in range(10)))
                    if n == 20:
                        sent.set()
            except OSError:
                pass  # the server has ended the stream

        thread = threading.Thread(target=load)
        thread.start()
        assert sent.wait(30)
        change_tokens(client.path, "one", **REVOKED)
        answered = []
        while "error" not in (answer := votes.answer()):
            answered.append(answer["task"])
        assert (answer["error"], answer["line"]) == ("unauthorized", len(answered) + 1)
        votes.connection.sock.shutdown(socket.SHUT_RDWR)
        thread.join(30)
        votes.close()
        path = client.path
    store = open_store(path, readonly=True)
    taken = [event.task for _, page in store.read(1) for event in page if hasattr(event, "task")]
    store.close()
    assert taken == answered, "what was committed was acknowledged, and nothing else was cast"


def test_a_body_that_comes_after_its_token_was_revoked_is_refused(tmp_path):
    """Both ways: with and without what sends a request the short one."""
    with serving(tmp_path, given=GIVEN) as client:
        body = line("late")
        begun = []
        for fields in ("", "Expect: 100-continue\r\n"):
            sock = socket.create_connection((client.host, client.port), timeout=30)
            head = f"POST {BASE}/votes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.tokens['one']}\r\n{fields}"
            sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
            begun.append(sock)
        change_tokens(client.path, "one", **REVOKED)
        client.token = client.tokens["one"]
        while client("GET", BASE).status != 401:
            pass
        for sock in begun:
            sock.sendall(body[5:])
            answer = b""
            while b"unauthorized" not in answer:
                chunk = sock.recv(65536)
                assert chunk, answer
                answer += chunk
            assert b"HTTP/1.1 401" in answer
            sock.close()
        client.token = client.tokens["two"]
        assert client("GET", "tasks/late").status == 404


def test_a_client_learns_that_its_token_was_revoked(tmp_path):
    with serving(tmp_path, given=GIVEN) as client:
        user = Client(client.address, token=client.tokens["one"])

        def endless():
            for n in range(10**9):
                if n == 3000:
                    change_tokens(client.path, "one", **REVOKED)
                yield f"t{n}", "w", "ok"

        with pytest.raises(Unauthorized, match="revoked"):
            for _ in user.stream(endless()):
                pass
        user.close()


def test_tokens_that_cannot_be_read_again_hold_for_a_while():
    now = [0.0]
    tokens = TokenIndex()
    tokens.load([row("a")])

    async def main():
        authority = Authority(tokens, None, clock=lambda: now[0])
        permit = Permit(authority, authority.find(b"Bearer a"), "read", "default")
        with permit.watch() as ended:
            now[0] = MAX_TOKEN_AGE_S
            authority.review()
            permit.check()
            assert not ended.done()
            now[0] += 1
            authority.review()
            assert isinstance(ended.result(), Unavailable)
        for act in (permit.check, lambda: authority.find(b"Bearer a")):
            with pytest.raises(Unavailable):
                act()
        authority.load([row("a")])
        permit.check()
        authority.load([row("a", campaign="other")])
        with pytest.raises(Forbidden):
            permit.check()
        authority.load([row("a", revoked=1)])
        with pytest.raises(Refused):
            permit.check()
        with pytest.raises(Refused):
            Permit(authority, FULL_GRANT, "read", "default").check()

    asyncio.run(main())
