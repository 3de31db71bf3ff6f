"""`adjudge serve`: starts with nothing, says in one line why it does not, and stops in order."""

import json
import shlex
import socket
import sqlite3
import sys

import pytest

from adjudge.cli.serve import serve
from adjudge.service.store.opening import open_store
from server_process import Served, refused, until


def test_it_runs_without_configuration_and_keeps_everything(tmp_path):
    with Served("votes.db", cwd=tmp_path) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.ask("GET", "/v1/campaigns")[1] == {"campaigns": []}
        assert server.ask("PUT", "/v1/campaigns/mine", {"labels": ["a", "b"]})[0] == 201
        assert server.ask("POST", "/v1/campaigns/mine/votes", {"task": "t", "worker": "w", "label": "a"})[0] == 200
        assert server.end() == 0
    with Served("votes.db", cwd=tmp_path) as server:
        assert server.ask("GET", "/v1/campaigns/mine/tasks/t")[1]["decision"]["votes"] == 1


def test_labels_policy_and_model_make_the_first_campaign(tmp_path):
    (tmp_path / "policy.json").write_text('{"minimum_votes": 5}')
    with Served("votes.db", "--labels", "spam, ok", "--policy", "policy.json", "--model", "auto", cwd=tmp_path) as server:
        made = server.ask("GET", "/v1/campaigns/default")[1]
        assert ([label["id"] for label in made["labels"]], made["model"]) == (["spam", "ok"], "auto")
        assert server.ask("GET", "/v1/campaigns/default/policy")[1]["versions"][0]["policy"]["minimum_votes"] == 5
    with Served("votes.db", "--labels", "other,labels", cwd=tmp_path) as server:
        assert [label["id"] for label in server.ask("GET", "/v1/campaigns/default")[1]["labels"]] == ["spam", "ok"]
        told = until(lambda: [json.loads(line) for line in server.said if "other labels" in line])
        assert told[0]["labels"] == ["spam", "ok"]


def test_a_policy_under_which_nobody_counts_is_reported(tmp_path):
    (tmp_path / "policy.json").write_text('{"probation": {"votes": 5}}')
    with Served("votes.db", "--labels", "spam,ok", "--policy", "policy.json", cwd=tmp_path) as server:
        told = until(lambda: [line for line in server.said if "nothing can be decided: probation keeps" in line])
        assert "default" in told[0]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "70000"], "port is 70000: give a whole number of at least 0 and at most 65535"),
        (["--labels", "spam"], "labels is spam: give at least two"),
        (["--labels", "spam,,ok"], "labels is 'spam,,ok'"),
        (["--policy", "policy.json"], "--policy is for the campaign that --labels makes: give --labels, too"),
        (["--model", "auto"], "--model is for the campaign that --labels makes"),
        (["--labels", "a,b", "--policy", "none.json"], "cannot read the policy 'none.json': No such file or directory"),
        (["--labels", "a,b", "--policy", "labels.json"], "labels.json: confidence has nothing for the label 'b'"),
        (["--labels", "a,b", "--model", "mv"], "unknown model 'mv'"),
        (["--host", "0.0.0.0"], "and there are no tokens: make one first (adjudge token add NAME --scope admin)"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid port 0"),
        (["--log-level", "loud"], "unknown log_level 'loud'"),
        (["--store", "none/votes.db"], "there is no folder"),
        (["--store", "."], "it is not a file"),
        (["--store", "text.db"], "text.db is not a database"),
        (["--store", "other.db"], "a database of another program, not a store of adjudge"),
        (["--store", "mysql://x"], "unknown kind of store 'mysql'"),
        (["--store", "postgresql://127.0.0.1:1/none"], "Connection refused"),
    ],
)
def test_impossible_options_are_reported_in_one_line(adjudge, tmp_path, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "labels.json").write_text('{"confidence": {"a": 0.9}}')
    (tmp_path / "text.db").write_text("no database at all, but text of some length\n" * 99)
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    code, out, err = adjudge("serve", *options, *([] if "--port" in options else ["--port", 0]))
    assert (code, out) == (1, ""), err
    assert err.startswith("adjudge: ")
    assert says in err
    assert err.count("\n") == 1


def test_a_port_and_a_store_in_use_are_reported(tmp_path):
    store = open_store(tmp_path / "votes.db")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("serve", "--store", "other.db", "--port", port, cwd=tmp_path)
    assert line.endswith(
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; give another port, or 0 for any that is free"
    )
    line = refused("serve", "--port", 0, cwd=tmp_path)
    assert "is being written by process" in line
    store.close()


def test_a_missing_library_names_the_extra(adjudge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("uvicorn",) or name.startswith("adjudge.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert adjudge("serve", "--port", 0) == (1, "", "adjudge: the service needs uvicorn: pip install 'adjudge[serve]'\n")
    assert list(tmp_path.iterdir()) == []


def test_examples_start_a_service(tmp_path):
    (tmp_path / "policy.json").write_text("{}")
    for _, command in serve.examples[:2]:
        program, name, *options = shlex.split(command)
        assert (program, name) == ("adjudge", "serve")
        with Served(f"{len(options)}.db", *options, "--port", 0, cwd=tmp_path) as server:
            assert server.ask("GET", "/v1/campaigns")[1] == {"campaigns": ["default"]}
