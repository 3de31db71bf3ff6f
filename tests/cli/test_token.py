"""`adjudge token`: made, listed and revoked, also while a service writes the store."""

import json

import pytest

from adjudge.service.store.opening import open_store
from server_process import Served, until

CAMPAIGN = "/v1/campaigns/default"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_secret_is_printed_once_and_kept_nowhere(adjudge, tmp_path):
    code, out, err = adjudge("token", "add", "website", "--scope", "vote,read")
    secret = out.strip()
    assert (code, out) == (0, f"{secret}\n")
    assert secret.startswith("adj_")
    assert "cannot be shown again" in err
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.iterdir())
    code, out, err = adjudge("token", "list", "--json")
    [row] = json.loads(out)
    assert (row["name"], row["scopes"], row["campaign"], row["revoked"]) == ("website", ["vote", "read"], None, None)
    assert secret not in adjudge("token", "list")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "a", "--scope", "votes"], "unknown scope 'votes': did you mean 'vote'?"),
        (["add", "a", "--scope", ","], "a token needs a scope: vote, read, moderate, admin"),
        (["add", "", "--scope", "vote"], "a token cannot be called ''"),
        (["add", "a\x1b[31m", "--scope", "vote"], r"a token cannot be called 'a\x1b[31m'"),
        (["add", "there", "--scope", "vote"], "there is a token 'there' already"),
        (["revoke", "nope"], "there is no token 'nope': those that hold are there"),
        (["revoke", "a", "--store", "none.db"], "there is no store none.db"),
        (["list", "--store", "none.db"], "there is no store none.db"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(adjudge, tmp_path, arguments, says):
    adjudge("token", "add", "there", "--scope", "vote")
    code, out, err = adjudge("token", *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert says in err
    assert len(json.loads(adjudge("token", "list", "--json")[1])) == 1
    assert not (tmp_path / "none.db").exists()


def test_a_revoked_name_can_be_given_again(adjudge):
    first = adjudge("token", "add", "a", "--scope", "vote")[1]
    assert adjudge("token", "revoke", "a")[0] == 0
    assert adjudge("token", "add", "a", "--scope", "vote")[1] != first
    rows = json.loads(adjudge("token", "list", "--json")[1])
    assert [row["revoked"] is None for row in rows] == [True, False], "revoked ones last"


def test_tokens_change_while_the_service_runs(adjudge, tmp_path):
    vote = {"task": "t", "worker": "w", "label": "spam"}
    with Served("votes.db", "--labels", "spam,ok", cwd=tmp_path) as server:
        assert server.ask("POST", f"{CAMPAIGN}/votes", vote)[0] == 200
        voter = adjudge("token", "add", "voter", "--scope", "vote", "--campaign", "default")[1].strip()
        until(lambda: server.ask("POST", f"{CAMPAIGN}/votes", vote)[0] == 401)
        assert server.ask("POST", f"{CAMPAIGN}/votes", vote, token=voter)[0] == 200
        assert server.ask("GET", f"{CAMPAIGN}/tasks/t", token=voter)[0] == 403
        adjudge("token", "revoke", "voter")
        until(lambda: server.ask("POST", f"{CAMPAIGN}/votes", vote, token=voter)[0] == 401)
        admin = adjudge("token", "add", "admin", "--scope", "admin")[1].strip()
        until(lambda: server.ask("GET", f"{CAMPAIGN}/tasks/t", token=admin)[0] == 200)
    with Served("votes.db", "--host", "127.0.0.2", cwd=tmp_path) as server:
        assert server.url.startswith("http://127.0.0.2")


def test_tokens_change_while_another_holds_the_lock_of_the_writer(adjudge):
    store = open_store("votes.db")
    assert adjudge("token", "add", "a", "--scope", "admin")[0] == 0
    assert [row.name for row in store.tokens.all()] == ["a"]
    store.create_campaign("still writes")
    store.close()
