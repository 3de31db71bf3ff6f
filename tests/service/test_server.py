"""The server as a process: its address, its output, its end."""

import asyncio
import json
import logging
import re
import signal
import subprocess
import sys
import threading

import pytest

from adjudge.errors import InputError, OptionError
from adjudge.service.http import logs
from adjudge.service.http.server import Settings, run
from service.serving import Client, serving

PROGRAM = "import sys; from adjudge.service.http.server import serve; from adjudge.service.http.server import Settings; serve(Settings(store=sys.argv[1], port=0, labels=('spam', 'ok')))"


@pytest.fixture
def process(tmp_path):
    """A server in a process of its own; its first line says where it listens."""
    started = []

    def start():
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "votes.db")]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(running)
        line = running.stderr.readline()
        if not (found := re.fullmatch(r"adjudge listens on (http://127\.0\.0\.1:\d+)\n", line)):
            running.kill()
            raise AssertionError(line + running.stderr.read())
        return running, Client(found[1])

    yield start
    for running in started:
        running.kill()
        running.wait(30)
        running.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(process, number):
    running, client = process()
    connection = client.connection()
    connection.putrequest("POST", "/v1/campaigns/default/votes:stream")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    body = b'{"task": "t", "worker": "w", "label": "spam"}\n'
    connection.send(b"%x\r\n%b\r\n" % (len(body), body))
    response = connection.getresponse()
    assert json.loads(response.readline())["votes"] == 1
    running.send_signal(number)
    assert json.loads(response.readline())["error"] == "unavailable"
    assert running.wait(30) == 0
    response.close()
    connection.close()
    lines = [json.loads(line) for line in running.stderr.read().splitlines()]
    assert all(line["level"] == "info" for line in lines), lines
    again, client = process()
    assert client("GET", "tasks/t").json["decision"]["votes"] == 1
    again.send_signal(signal.SIGTERM)
    assert again.wait(30) == 0


def test_beyond_loopback_only_with_tokens(tmp_path):
    with (
        pytest.raises(OptionError, match="others can reach, and there are no tokens: make one first"),
        serving(tmp_path, host="0.0.0.0"),
    ):
        pass
    with serving(tmp_path, host="0.0.0.0", given=[("a", "read", None)]) as client:
        here = Client(client.address.replace("0.0.0.0", "127.0.0.1"))
        assert here("GET", "/v1/campaigns").status == 401
        here.token = client.tokens["a"]
        assert here("GET", "/v1/campaigns", headers={"Host": "votes.example"}).json == {"campaigns": ["default"]}


def test_an_address_that_is_taken_is_named(server, tmp_path):
    with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {server.port}: Address already in use"):
        asyncio.run(run(Settings(store=str(tmp_path / "votes.db"), port=server.port), print))
    with pytest.raises(InputError, match="cannot listen on no.such.host.invalid"):
        asyncio.run(run(Settings(store=str(tmp_path / "votes.db"), host="no.such.host.invalid"), print))
    assert not list(tmp_path.iterdir())


def test_votes_are_there_after_a_restart(tmp_path):
    with serving(tmp_path) as client:
        client.vote("kept", "ann", "ok", id="once")
    with serving(tmp_path, labels=()) as client:
        assert client.vote("kept", "ann", "ok", id="once").json["repeated"] == 1
        assert client("GET", "/v1/campaigns").json == {"campaigns": ["default"]}


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("votes.example", False),
        ("10.0.0.1", False),
    ],
)
def test_what_is_local(host, local):
    assert Settings(host=host).local == local


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", 70_000),
        ("port", "8000"),
        ("requests", 0),
        ("rate", 0),
        ("rate", "fast"),
        ("attempts", 0),
        ("grace", -1),
        ("log_level", "loud"),
    ],
)
def test_settings_are_checked(name, value):
    with pytest.raises(OptionError, match=name):
        Settings(**{name: value})


def test_many_clients_at_once(server):
    """Every vote is taken once, in any order of clients."""
    answers = []

    def load(worker):
        connection = server.connection()
        for n in range(60):
            body = json.dumps({"task": f"crowd {n}", "worker": f"w{worker}", "label": "spam" if (n + worker) % 3 else "ok"})
            connection.request("POST", "/v1/campaigns/default/votes", body)
            answers.append(json.loads(connection.getresponse().read())["accepted"])
        connection.close()

    threads = [threading.Thread(target=load, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [1] * 360
    assert {server("GET", f"tasks/crowd%20{n}").json["decision"]["votes"] for n in range(60)} == {6}


def test_logs_are_lines_of_json_with_everything_escaped(capsys):
    handler = logs.to_stream("info", sys.stderr)
    try:
        logs.LOGGER.info("done\x1b[31m\n", extra={"ids": ["a\u202eb\n"], "request": "1"})
        try:
            raise RuntimeError("a\nb")
        except RuntimeError:
            logs.LOGGER.exception("failed")
        logs.LOGGER.debug("left out")
    finally:
        logs.LOGGER.removeHandler(handler)
    lines = capsys.readouterr().err.splitlines()
    found = [json.loads(line) for line in lines]
    assert [line["message"] for line in found] == ["done\x1b[31m\n", "failed"]
    assert found[0]["ids"] == ["a\u202eb\n"]
    assert "RuntimeError: a\nb" in found[1]["exception"]
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert logging.getLevelName(logs.LOGGER.level) == "INFO"


def test_what_is_done_is_logged_and_votes_are_not(tmp_path, capsys):
    with serving(tmp_path, log_level="info") as client:
        client.vote("quiet", "ann", "ok")
        client("POST", "tasks/quiet/override", {"label": "ok"}, {"X-Request-Id": "mine"})
        client("POST", "votes", b"bad")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    told = [(line["message"], line["route"].rpartition("/")[2], line["status"]) for line in lines if "route" in line]
    assert told == [("done", "override", 200), ("refused", "votes", 400)]
    assert lines[0]["request"] == "mine"
    assert lines[0]["ids"] == ["default", "quiet"]
