"""`adjudge replay` and `adjudge backtest`: the past once more, as it was and otherwise."""

import json
import sqlite3
from pathlib import Path

import pytest

import adjudge as adj
from adjudge.service.campaigns import snapshot
from adjudge.service.campaigns.backtest import backtest
from adjudge.service.campaigns.replay import replay
from adjudge.service.store.opening import open_store
from live_store import cut, fill, small, stored


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_good_log_gives_what_was_recorded(adjudge):
    store = open_store(stored("votes.db", small()))
    number = fill(store, small(tasks=5), name="another")
    store.create_campaign("empty")
    digest = snapshot.digest(replay(store, number))
    recorded = len(list(store.decisions(number)))
    code, out, err = adjudge("replay", "votes.db")  # while the store is in use
    store.close()
    assert (code, err) == (0, "")
    assert f"another: 21 events give the {recorded} decisions that were recorded\ndigest {digest}\n" in out
    assert "empty: no events yet" in out
    [one] = json.loads(adjudge("replay", "votes.db", "--campaign", "another", "--json")[1])
    assert (one["digest"], one["events"], one["decisions"], one["difference"]) == (digest, 21, recorded, None)


def test_a_log_whose_votes_have_expired_says_where_it_begins(adjudge):
    store = open_store("votes.db")
    number = fill(store, small(), per_page=10)
    recorded = len(list(store.decisions(number)))
    digest = cut(store, number, begins=31)
    store.close()
    code, out, err = adjudge("replay", "votes.db")
    assert (code, err) == (0, "")
    assert "default: the log begins at position 31: what was before has expired; the replay begins with the state at" in out
    assert f"digest {digest}\n" in out
    [one] = json.loads(adjudge("replay", "votes.db", "--json")[1])
    assert (one["begins"], one["base"], one["events"], one["digest"], one["difference"]) == (31, 49, 49, digest, None)
    assert recorded > one["decisions"] == 0
    code, out, err = adjudge("replay", "votes.db", "--until", 30)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "begins with the state at position 49" in err
    assert adjudge("backtest", "votes.db", "--policy", _policy())[0] == 0
    code, out, _ = adjudge("backup", "votes.db", "--votes", "votes.csv", "--quiet")
    assert code == 0
    assert Path("votes.csv").read_text().count("\n") == 1 + 19


def _policy():
    Path("policy.json").write_text('{"minimum_votes": 2}')
    return "policy.json"


def test_until_stops_there(adjudge):
    store = open_store(stored("votes.db", small()))
    state = replay(store, 1, until=30)
    store.close()
    code, out, _ = adjudge("replay", "votes.db", "--until", 30, "--json")
    [one] = json.loads(out)
    assert (code, one["events"], one["votes"], one["digest"]) == (0, 30, 29, snapshot.digest(state))
    assert one["tasks"] == state.tasks.counts()
    assert "after 30 events 29 votes by 3 workers; tasks: " in adjudge("replay", "votes.db", "--until", 30)[1]


def test_a_decision_that_was_recorded_otherwise_is_named(adjudge):
    from adjudge.service.store.rows import HASHED_COLUMNS, row_checksum

    stored("votes.db", small())
    connection = sqlite3.connect("votes.db")
    [(*key, body)] = connection.execute(f"SELECT {', '.join(HASHED_COLUMNS['decision'])} FROM decision").fetchall()
    forged = body.replace(b'"decided"', b'"escalated"', 1)
    assert forged != body
    connection.execute("UPDATE decision SET body = ?, checksum = ?", (forged, row_checksum("decision", (*key, forged))))
    connection.commit()
    connection.close()
    code, out, err = adjudge("replay", "votes.db")
    assert (code, err) == (1, "")
    assert "default: differs at position " in out
    assert "status is 'decided', and was 'escalated'" in out


def test_a_changed_log_is_found_by_its_checksums(adjudge, tmp_path):
    stored("votes.db", small())
    data = (tmp_path / "votes.db").read_bytes()
    (tmp_path / "votes.db").write_bytes(data.replace(b'"t3"', b'"t4"', 1))
    code, out, err = adjudge("replay", "votes.db")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "the log is damaged at positions" in err


def test_backtest_prints_both_sides_and_json_has_all(adjudge):
    stored("votes.db", small(tasks=30), gold=[("t1", "spam"), ("t3", "ok"), ("t4", "ok")])
    adj_policy = adj.Policy(minimum_votes=4, confidence=0.99)
    with open("policy.json", "w") as file:  # noqa: PTH123
        file.write(adj_policy.to_json())
    wanted = backtest("votes.db", policy=adj_policy)
    assert wanted.changed > 0
    code, out, err = adjudge("backtest", "votes.db", "--policy", "policy.json")
    assert (code, err) == (0, "")
    lines = {line.split("  ")[0].strip(): line.split()[-2:] for line in out.splitlines() if line}
    assert lines["decided"] == [str(wanted.before.decided), str(wanted.after.decided)]
    assert lines["votes needed"] == [str(wanted.before.votes), str(wanted.after.votes)]
    assert lines["of these right"][0] == f"{wanted.before.accuracy:.1%}"
    assert f"{wanted.changed} tasks would end differently" in out
    found = json.loads(adjudge("backtest", "votes.db", "--policy", "policy.json", "--json")[1])
    assert (found["changed"], found["after"]["decided"]) == (wanted.changed, wanted.after.decided)
    assert found["examples"][0]["before"]["task"] == wanted.examples[0][0].task


def test_backtest_prints_what_audits_would_have_found(adjudge):
    stored("votes.db", small(tasks=30), gold=[(f"t{n}", "spam") for n in range(20)])
    with open("policy.json", "w") as file:  # noqa: PTH123
        file.write(adj.Policy(audit={"share": 1.0}).to_json())
    wanted = backtest("votes.db", policy=adj.Policy(audit={"share": 1.0})).after.audits
    assert wanted.known > 0
    code, out, err = adjudge("backtest", "votes.db", "--policy", "policy.json")
    assert (code, err) == (0, "")
    lines = {line.split("  ")[0].strip(): line.split() for line in out.splitlines() if line}
    assert lines["audits drawn"][-1] == str(wanted.drawn)
    assert lines["of these with a known label"][-1] == str(wanted.known)
    assert lines["of these wrong"][-1] == str(wanted.wrong)
    assert f"{wanted.interval[0]:.1%} to {wanted.interval[1]:.1%}" in out
    found = json.loads(adjudge("backtest", "votes.db", "--policy", "policy.json", "--json")[1])
    assert found["after"]["audits"]["drawn"] == wanted.drawn


def test_a_backtest_says_that_probation_keeps_everybody_aside(adjudge, tmp_path):
    stored("votes.db", small(tasks=30), gold=[("t1", "spam")])
    (tmp_path / "policy.json").write_text('{"probation": {"votes": 2}}')
    code, out, _ = adjudge("backtest", "votes.db", "--policy", "policy.json")
    assert code == 0
    assert "after: probation keeps the votes of all workers aside" in out
    assert "A backtest takes every worker for a newcomer" in out
    assert "open None" not in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["replay", "none.db"], "there is no store none.db"),
        (["replay", "new.db"], "the store new.db has no campaign yet"),
        (["replay", "votes.db", "--campaign", "defalt"], "did you mean 'default'?"),
        (["replay", "votes.db", "--until", "0"], "until is 0"),
        (["backtest", "votes.db"], "nothing to try: give --policy FILE, or --model, or both"),
        (["backtest", "votes.db", "--model", "mv"], "mv"),
        (["backtest", "votes.db", "--policy", "none.json"], "cannot read the policy 'none.json'"),
        (["backtest", "votes.db", "--policy", "bad.json"], "bad.json: unknown field of a policy 'minimum'"),
        (["backtest", "votes.db", "--policy", "labels.json"], "labels.json: confidence has nothing for the label 'spam'"),
        (["backtest", "new.db", "--model", "ds"], "the store new.db has no campaign yet"),
        (["backtest", "two.db", "--model", "ds"], "say which one with --campaign (default, another)"),
    ],
)
def test_mistakes_are_one_line(adjudge, tmp_path, arguments, says):
    stored("votes.db", small(tasks=2))
    open_store("new.db").close()
    store = open_store(stored("two.db", small(tasks=2)))
    fill(store, small(tasks=2), name="another")
    store.close()
    (tmp_path / "bad.json").write_text('{"minimum": 3}')
    (tmp_path / "labels.json").write_text('{"confidence": {"ok": 0.9}}')
    code, out, err = adjudge(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert says in err
