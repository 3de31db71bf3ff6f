"""What is sent, how answers are read, and when a request is sent again: over both transports, against a service that breaks."""

import os
import pickle
import subprocess
import sys
import warnings

import pytest

import adjudge
from adjudge.service.client import errors
from adjudge.service.client import request as requests
from adjudge.service.client.request import Attempts, Request
from flaky_service import DROP, REFUSE, answer, flaky, problem

DECISION = {
    "task": "t1",
    "label": "spam",
    "confidence": 0.9,
    "status": "open",
    "votes": 1,
    "policy": 1,
    "time": "2026-01-01T00:00:00Z",
    "position": 3,
    "reason": "minimum_votes",
    "flips": 0,
    "by": None,
}
VOTED = answer({"accepted": 1, "repeated": 0, "decisions": [DECISION]})
VIEW = {"task": "t1", "decision": DECISION | {"votes": 0}, "posterior": {}, "evidence": []}
BUSY = problem(503, "unavailable", headers=[("Retry-After", "0")])

pytestmark = pytest.mark.usefixtures("no_pauses")


def test_a_vote_is_sent_with_an_id_and_answered(client):
    with flaky(VOTED) as service:
        decision = client(service.url, token="adj_secret", campaign="a/b").vote("t1", 17, "spam")
    (seen,) = service.seen
    assert (decision.task, decision.label, decision.votes) == ("t1", "spam", 1)
    assert (seen.method, seen.path) == ("POST", "/v1/campaigns/a%2Fb/votes")
    assert seen.headers["authorization"] == "Bearer adj_secret"
    assert seen.headers["host"] == service.url.removeprefix("http://")
    assert seen.json.items() >= {"task": "t1", "worker": "17", "label": "spam"}.items()
    assert len(seen.json["id"]) == 36


@pytest.mark.parametrize("fault", [DROP, BUSY, problem(429, "too-many", headers=[("Retry-After", "0")]), problem(502, "")])
def test_a_lost_vote_is_sent_again_with_the_same_id(client, fault):
    with flaky(fault, VOTED) as service:
        assert client(service.url).vote("t1", "ann", "spam").label == "spam"
    assert len(service.seen) == 2
    assert service.seen[0].body == service.seen[1].body


def test_half_an_answer_is_none(client):
    whole, _ = VOTED
    for cut in (10, len(whole) - 5):
        with flaky((whole[:cut], True), VOTED) as service:
            assert client(service.url).vote("t1", "ann", "spam").label == "spam"
        assert len(service.seen) == 2


REFUSALS = [
    (400, "malformed", errors.Malformed),
    (401, "unauthorized", errors.Unauthorized),
    (403, "forbidden", errors.Forbidden),
    (404, "not-found", errors.NotFound),
    (409, "conflict", errors.Conflict),
    (413, "too-large", errors.TooLarge),
    (422, "invalid", errors.Invalid),
    (500, "internal", errors.Unexpected),
]


@pytest.mark.parametrize(("status", "code", "kind"), REFUSALS)
def test_a_refusal_is_an_error_of_its_kind_and_final(client, status, code, kind):
    with flaky(problem(status, code, "it is\x1b[31m wrong"), VOTED) as service, pytest.raises(kind) as raised:
        client(service.url).vote("t1", "ann", "spam")
    error = raised.value
    assert (error.status, error.code, error.request_id) == (status, code, "r-1")
    assert str(error) == rf"it is\x1b[31m wrong ({status} {code}, request r-1)"
    assert isinstance(error, adjudge.AdjudgeError)
    assert len(service.seen) == 1, "never sent again"
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.status) == (kind, str(error), status)


def test_an_answer_of_something_else_is_said_to_be_one(client):
    page = answer(body=b"<html>hello</html>", status=404)
    with flaky(page) as service, pytest.raises(errors.NotFound, match="is this the address of an adjudge service"):
        client(service.url).task("t1")
    with flaky(answer(body=b"<html>hello</html>")) as service, pytest.raises(errors.Unexpected, match="not understood"):
        client(service.url).task("t1")
    moved = answer(body=b"", status=301, headers=[("Location", "http://127.0.0.1:1/")])
    with flaky(moved) as service, pytest.raises(errors.Unexpected, match="redirects are not followed"):
        client(service.url).task("t1")
    with flaky((b"SSH-2.0-OpenSSH\r\n\r\n\r\n", True)) as service, pytest.raises(errors.ConnectionFailed, match="was lost"):
        client(service.url, retries=0).task("t1")


def test_it_gives_up_after_so_many_retries(client):
    with flaky(*[DROP] * 9) as service, pytest.raises(errors.ConnectionFailed, match="was lost"):
        client(service.url, retries=2).vote("t1", "ann", "spam")
    assert len(service.seen) == 3
    with flaky(*[BUSY] * 9) as service, pytest.raises(errors.Unavailable):
        client(service.url, retries=2).vote("t1", "ann", "spam")
    assert len(service.seen) == 3


def test_it_does_not_wait_beyond_its_deadline(client):
    late = problem(503, "unavailable", headers=[("Retry-After", "3600")])
    with flaky(late, VOTED) as service, pytest.raises(errors.Unavailable) as raised:
        client(service.url, deadline=60).vote("t1", "ann", "spam")
    assert (len(service.seen), raised.value.retry_after) == (1, 3600)


def test_what_is_silent_is_not_waited_for_longer_than_asked(client):
    def silent(seen, stream, there):
        stream.read()

    with flaky(silent, VOTED) as service:
        assert client(service.url, timeout=0.05).vote("t1", "ann", "spam").votes == 1
    assert len(service.seen) == 2


def test_a_retraction_whose_answer_was_lost_is_done(client):
    gone = problem(404, "not-found")
    with flaky(DROP, gone, answer(VIEW)) as service:
        assert client(service.url).retract("t/1", "ann").votes == 0
    assert [(one.method, one.path.rpartition("default/")[2]) for one in service.seen] == [
        ("DELETE", "votes"),
        ("DELETE", "votes"),
        ("GET", "tasks/t%2F1"),
    ]
    assert service.seen[0].json == {"task": "t/1", "worker": "ann"}
    with flaky(gone) as service, pytest.raises(errors.NotFound):
        client(service.url).retract("t1", "ann")
    with flaky(BUSY, gone) as service, pytest.raises(errors.NotFound):  # nothing was taken the first time
        client(service.url).retract("t1", "ann")


@pytest.mark.parametrize(
    ("call", "given", "options"),
    [
        ("reopen", ["t1"], {}),
        ("judge", ["t1", "spam"], {}),
        ("override", ["t1", "spam"], {"position": 7}),
        ("refit", [], {}),
        ("add_label", ["x"], {}),
        ("add_webhook", ["https://example.org"], {}),
    ],
)
def test_what_would_happen_twice_is_not_sent_twice(client, call, given, options):
    with (
        flaky(DROP, answer(DECISION)) as service,
        pytest.raises(errors.ConnectionFailed, match="whether it was done is not known"),
    ):
        getattr(client(service.url), call)(*given, **options)
    assert len(service.seen) == 1
    with flaky(BUSY, BUSY) as service, pytest.raises(errors.Unavailable):
        getattr(client(service.url, retries=1), call)(*given, **options)
    assert len(service.seen) == 2, "nothing was taken, so that it can be sent again"


def test_connections_are_kept_and_replaced_when_they_were_closed(client):
    whole, _ = VOTED
    with flaky(VOTED, VOTED, (whole, True), VOTED) as service:
        ours = client(service.url, retries=0)
        for _ in range(4):
            assert ours.vote("t1", "ann", "spam").votes == 1
    assert [one.connection for one in service.seen] == [1, 1, 1, 2]


@pytest.mark.parametrize("form", [{"chunked": True}, {"length": False}, {"close": True}, {}])
def test_bodies_of_every_form_are_read(client, form):
    made = answer({"accepted": 1, "repeated": 0, "decisions": [DECISION]}, **form)
    early = b"HTTP/1.1 100 Continue\r\n\r\n"
    with flaky((early + made[0], made[1]), made) as service:
        ours = client(service.url)
        assert [ours.vote("t1", "ann", "spam").votes for _ in range(2)] == [1, 1]


def test_an_answer_before_the_body_was_read_is_heard(client):
    votes = [(f"task {n}" + "x" * 200, "ann" * 80, "spam") for n in range(4000)]
    with flaky(REFUSE, VOTED) as service, pytest.raises(errors.TooLarge):
        client(service.url, retries=0).vote_many(votes)


def test_ids_are_one_segment_each(client):
    seen = []
    for task in ("a/b", "..", ".", "100%", "é ?#", "a+b", "\x1b[2J"):
        with flaky(answer(VIEW)) as service:
            client(service.url).task(task)
        seen.append(service.seen[0].path.rpartition("/tasks/")[2])
    assert seen == ["a%2Fb", "%2E%2E", "%2E", "100%25", "%C3%A9%20%3F%23", "a%2Bb", "%1B%5B2J"]


def test_votes_go_in_chunks(client):
    made = [answer({"accepted": 5000, "repeated": 0, "decisions": [DECISION]}), VOTED]
    with flaky(*made) as service:
        found = client(service.url).vote_many({"task": n, "worker": "ann", "label": "spam"} for n in range(5001))
    assert [len(one.json) for one in service.seen] == [5000, 1]
    assert len({vote["id"] for one in service.seen for vote in one.json}) == 5001
    assert (found.accepted, len(found.decisions)) == (5001, 1)
    with flaky(VOTED) as service:
        client(service.url).vote_many([("t1", "ann", "spam"), ("t1", "bob", "spam", "mine")], ids=False)
    assert [vote.get("id") for vote in service.seen[0].json] == [None, "mine"]


def test_lists_follow_their_pages(client):
    pages = [answer({"tasks": [DECISION], "next": "c/1"}), answer({"tasks": [DECISION, DECISION], "next": None})]
    with flaky(*pages) as service:
        assert len(client(service.url).tasks(status="open")) == 3
    assert "status=open" in service.seen[0].path
    assert "after" not in service.seen[0].path
    assert "after=c%2F1" in service.seen[1].path


def test_readiness_is_an_answer_even_where_it_is_no(client):
    with flaky(answer({"ready": False, "reasons": ["the disk is full"]}, 503)) as service:
        assert client(service.url).ready().reasons == ["the disk is full"]


def test_nobody_there_is_said_with_the_address(client):
    with flaky() as service:
        address = service.url
    with pytest.raises(errors.ConnectionFailed, match=rf"nothing answers at {address}: .*`adjudge serve`"):
        client(address, retries=1).health()


def test_names_with_several_addresses_are_refused_alike(client):
    with flaky() as service:
        address = service.url.replace("127.0.0.1", "localhost")
    with pytest.raises(errors.ConnectionFailed, match=rf"nothing answers at {address}"):
        client(address, retries=0).health()


def test_proxies_of_the_environment_are_not_used(client, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with flaky(VOTED) as service:
        assert client(service.url, retries=0).vote("t1", "ann", "spam").votes == 1


def test_answers_are_taken_as_they_are_and_cookies_are_not_kept(client):
    squeezed = answer(body=b"{}", headers=[("Content-Encoding", "gzip"), ("Set-Cookie", "a=b")], status=404)
    with flaky(squeezed, VOTED) as service:
        ours = client(service.url)
        with pytest.raises(errors.NotFound):
            ours.task("t1")
        ours.vote("t1", "ann", "spam")
    assert service.seen[0].headers["accept-encoding"] == "identity"
    assert "cookie" not in service.seen[1].headers


def test_a_head_without_end_is_given_up(client):
    endless = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000
    with flaky((endless, True)) as service, pytest.raises(errors.ConnectionFailed, match="was lost"):
        client(service.url, retries=0).task("t1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_makes_connections_of_its_own():
    with flaky(VOTED, VOTED, VOTED) as service, adjudge.Client(service.url, retries=0) as ours:
        ours.vote("t1", "ann", "spam")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the service of this test is a thread
            child = os.fork()
        if child == 0:
            try:
                code = 0 if ours.vote("t1", "bob", "spam").votes == 1 else 1
                ours.close()
            except BaseException:
                code = 2
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        ours.vote("t1", "eve", "spam")
    assert [one.connection for one in service.seen] == [1, 2, 1]


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_without_the_extra_the_remedy_is_named(kind, tmp_path):
    (tmp_path / "httpx2.py").write_text("raise ModuleNotFoundError(name='httpx2')")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    call = f"import adjudge; adjudge.Client\ntry: adjudge.{kind}()\nexcept adjudge.AdjudgeError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", start + call], capture_output=True, text=True, check=True)
    assert done.stdout == "the client needs httpx2: pip install 'adjudge[client]'\n"
    for command in (["vote", "t", "w", "x"], ["watch"]):
        code = f"{start}sys.argv[1:] = {command}; from adjudge.cli.main import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.strip().endswith("the client needs httpx2: pip install 'adjudge[client]'")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"url": "127.0.0.1:8000"}, "url is '127.0.0.1:8000': give an address such as http://127.0.0.1:8000"),
        ({"url": "ftp://x"}, "url is"),
        ({"url": "http://x/\r\nA: b"}, "url is"),
        ({"url": "http://user:secret@x"}, "url is"),
        ({"url": "http://x:99999"}, "url is"),
        ({"token": "a\r\nX: y"}, "token is not a token"),
        ({"token": ""}, "token is not a token"),
        ({"timeout": 0}, "timeout is 0"),
        ({"retries": -1}, "retries is -1"),
        ({"retries": 1.5}, "retries is 1.5"),
        ({"campaign": None}, "campaign is None"),
    ],
)
def test_bad_options_are_named(options, match):
    for kind in (adjudge.Client, adjudge.AsyncClient):
        with pytest.raises(adjudge.AdjudgeError, match=match) as raised:
            kind(**options)
        assert "X: y" not in str(raised.value), "tokens are not shown"


def test_the_token_of_the_environment_is_used_and_never_shown(client, monkeypatch):
    monkeypatch.setenv("ADJUDGE_TOKEN", "adj_hidden")
    with flaky(VOTED) as service:
        ours = client(service.url)
        ours.vote("t1", "ann", "spam")
    assert service.seen[0].headers["authorization"] == "Bearer adj_hidden"
    assert "hidden" not in repr(ours.client)


@pytest.mark.parametrize(
    "vote", [("t1", "ann"), "abc", ("t1", "ann", None), ("t1", True, "x"), {"task": 1, "who": 2}, 7, ("\ud800", "a", "b")]
)
def test_what_is_no_vote_is_refused_before_anything_is_sent(client, vote):
    with flaky() as service, pytest.raises(adjudge.InputError, match="vote 0: "):
        client(service.url).vote_many([vote])
    assert service.seen == []


def test_pauses_double_and_are_not_all_alike():
    def pauses(chance):
        now = iter(range(100))
        attempts = Attempts(Request("GET", "/", bytes), retries=8, deadline=1e9, clock=lambda: next(now), chance=lambda: chance)
        return [attempts.after(errors.ConnectionFailed("x", sent=True)) for _ in range(8)]

    first = requests.FIRST_RETRY_PAUSE_S
    requests.FIRST_RETRY_PAUSE_S = 0.1
    try:
        longest, shortest = pauses(0.0), pauses(1.0)
    finally:
        requests.FIRST_RETRY_PAUSE_S = first
    assert longest == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    assert shortest == pytest.approx([pause / 2 for pause in longest])
