"""`adjudge vote` and `adjudge watch` against the real service."""

import json
import re
import shlex
import signal
import subprocess
import sys
import threading

import polars as pl
import pytest

import adjudge as adj
from adjudge.cli import client
from adjudge.service import running
from adjudge.service.client import Client
from adjudge.service.client import request as requests

MAIN = "from adjudge.cli.main import main; main()"


@pytest.fixture(scope="module")
def url():
    with running(labels=["spam", "fine"]) as address:
        yield address


@pytest.fixture
def campaign(url, request, monkeypatch):
    """A client of a campaign of this test, which commands reach without being told the address."""
    monkeypatch.setenv("ADJUDGE_URL", url)
    with Client(url, campaign=request.node.name) as client:
        client.create(["spam", "fine", "yes", "no"], policy=adj.Policy(minimum_votes=2, confidence=0.5))
        yield client


@pytest.fixture
def told(adjudge, campaign):
    """told(*arguments): a command about that campaign."""
    return lambda *given: adjudge(*given, "--campaign", campaign.campaign)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_one_vote_is_answered_by_the_decision(told, campaign):
    code, out, err = told("vote", "post 7", "ann", "spam")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"task,label,confidence,status,votes\npost 7,spam,[.0-9]+,open,1\n", out)
    code, out, err = told("vote", "post 7", "bob", "spam", "--json")
    assert (code, err) == (0, "")
    (decision,) = lines(out)
    assert (decision["task"], decision["status"], decision["votes"]) == ("post 7", "decided", 2)
    assert told("vote", "post 7", "bob", "spam", "--quiet") == (0, "", "")
    assert campaign.describe().votes == 2


def test_an_id_makes_a_vote_count_once(told, campaign):
    for _ in range(2):
        assert told("vote", "t", "ann", "spam", "--id", "x")[0] == 0
    code, _, err = told("vote", "t", "ann", "fine", "--id", "x")
    assert (code, "the id 'x' was used for another vote (409 conflict" in err) == (1, True)
    assert err.count("\n") == 1
    code, _, err = told("vote", "--retract", "t", "ann", "--id", "x")
    assert (code, "--id is for one vote" in err) == (1, True)


def test_a_vote_is_taken_back(told):
    told("vote", "t", "ann", "spam")
    code, out, _ = told("vote", "--retract", "t", "ann", "--json")
    assert (code, lines(out)[0]["votes"]) == (0, 0)
    code, out, err = told("vote", "--retract", "t", "ann")
    assert (code, out) == (1, "")
    assert "worker 'ann' has no vote on task 't' (404 not-found" in err


@pytest.fixture
def votes(tmp_path):
    rows = [(f"t{n % 40}", f"w{n // 40}", "spam" if n % 3 else None if n == 39 else "fine") for n in range(120)]
    path = tmp_path / "votes.csv"
    pl.DataFrame(rows, schema=["item", "annotator", "answer"], orient="row").write_csv(path)
    return path


def test_a_file_is_sent_in_its_order_and_can_be_sent_again(told, campaign, votes):
    code, out, err = told("vote", votes)
    assert code == 0, err
    table = pl.read_csv(out.encode())
    assert table.columns == ["task", "label", "confidence", "status", "votes"]
    assert table.height == 40
    assert "label=answer; 119 votes, 1 abstention" in err
    assert f"119 votes sent: campaign {campaign.campaign} at" in err
    in_force = list(campaign.votes())
    assert [vote.worker for vote in in_force] == sorted(vote.worker for vote in in_force), "the order of the file"
    position = campaign.describe().position
    assert told("vote", votes, "--quiet") == (0, "", "")
    assert campaign.describe().position == position, "what is in force already is not logged again"


def test_decisions_are_lines_of_json_one_per_vote(told, votes):
    code, out, _ = told("vote", votes, "--json")
    assert (code, len(lines(out))) == (0, 119)


def test_standard_input_and_options_of_reading(campaign):
    text = "a;b;c\nt1;ann;Spam\nt1;bob;NA\nt1;eve; spam\n"
    given = ["vote", "-", "--task", "a", "--worker", "b", "--label", "c", "--normalize", "--abstain", "NA", "--separator", ";"]
    command = [sys.executable, "-c", MAIN, *given, "--json", "--campaign", campaign.campaign]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [line["votes"] for line in lines(done.stdout)] == [2, 2]


def test_votes_of_a_file_are_taken_back(told, campaign, votes):
    told("vote", votes, "--quiet")
    code, _, err = told("vote", "--retract", votes)
    assert (code, campaign.describe().votes) == (0, 0)
    assert "119 votes taken back" in err


def test_an_unknown_label_is_one_line(told, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("task,worker,label\nt1,ann,spam\nt1,bob\x1b,n\u202eope\n")
    code, _, err = told("vote", path)
    assert code == 1
    assert err.count("\n") == 1
    assert r"task 't1', worker 'bob\x1b': " in err
    assert "\x1b" not in err
    assert "\u202e" not in err


def test_errors_are_one_line(adjudge, campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "FIRST_RETRY_PAUSE_S", 0.0)
    for given, match in [
        (["vote", "t", "w", "spam", "--campaign", "nowhere"], "no such campaign"),
        (["vote", "t", "w", "spam", "--url", "here"], "url is 'here': give an address"),
        (
            ["vote", "t", "w", "spam", "--url", "http://127.0.0.1:1"],
            "nothing answers at http://127.0.0.1:1: is the address right?",
        ),
        (["vote", "t", "w", "spam", "--token", "adj_wrong"], "401 unauthorized"),
        (["vote", str(tmp_path / "none.csv")], "none.csv"),
        (["watch", "--after", "x"], "after is 'x': give a position"),
        (["watch", "--campaign", "nowhere"], "no such campaign"),
    ]:
        code, out, err = adjudge(*given)
        assert (code, out) == (1, ""), given
        assert err.count("\n") == 1, err
        assert match in err


def test_watch_prints_what_was_decided_and_ends_at_its_limit(told, campaign):
    campaign.vote_many([(task, worker, "spam") for task in ("a", "b\x1b[2J") for worker in ("ann", "bob")])
    code, out, err = told("watch", "--after", 0, "--limit", 2)
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  a  decided  spam  [.0-9]+  2 votes", first)
    assert r"b\x1b[2J" in second
    code, out, _ = told("watch", "--after", 0, "--limit", 2, "--json")
    assert [line["task"] for line in lines(out)] == ["a", "b\x1b[2J"]
    position = lines(out)[0]["position"]
    assert "\x1b" not in out
    assert lines(told("watch", "--after", position, "--limit", 1, "--json")[1])[0]["task"] == "b\x1b[2J"


def test_watch_follows_until_it_is_interrupted(campaign):
    command = [sys.executable, "-c", MAIN, "watch", "--after", "0", "--json", "--campaign", campaign.campaign]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        safe = threading.Timer(60, watching.kill)
        safe.start()
        seen = []
        for task in ("a", "b"):
            campaign.vote_many([(task, worker, "spam") for worker in ("ann", "bob")])
            seen.append(json.loads(watching.stdout.readline())["task"])
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)
        safe.cancel()
    assert seen == ["a", "b"]
    assert (watching.returncode, err) == (0, "")


@pytest.mark.parametrize("name", ["vote", "watch"])
def test_examples_run(told, campaign, votes, monkeypatch, name):
    monkeypatch.chdir(votes.parent)
    campaign.vote_many([(task, worker, "spam") for task in "abc" for worker in ("bob", "eve")])
    for what, command in getattr(client, name).examples:
        program, *arguments = shlex.split(command)
        assert what.endswith(":")
        if name == "watch" and "--limit" not in arguments:
            arguments += [*([] if "--after" in arguments else ["--after", "0"]), "--limit", "1"]  # which would not end
        code, _, err = told(*arguments)
        assert (program, code) == ("adjudge", 0), f"{command}\n{err}"
