"""Two servers over one PostgreSQL: one writes a campaign, the other follows its log and takes over when the first is gone."""

import pytest

import postgres
from adjudge.service.campaigns.replay import check
from adjudge.service.store.opening import open_store
from server_process import Served, until

VOTES = "/v1/campaigns/default/votes"


@pytest.fixture
def database():
    return postgres.server().fresh()


@pytest.fixture
def two(database):
    """The server that writes the campaign, and the one that follows."""
    with Served(database, "--labels", "spam,ok") as owner, Served(database) as follower:
        yield owner, follower


def vote(server, task, worker, label, **more):
    return server.ask("POST", VOTES, {"task": task, "worker": worker, "label": label, **more})


def in_force(server):
    """Every vote that a server knows of; None while it cannot say whether these are all."""
    status, answer, _ = server.ask("GET", f"{VOTES}?limit=1000")
    if status == 503:
        return None
    assert (status, answer["next"]) == (200, None)
    return {(row["task"], row["worker"]): row["label"] for row in answer["votes"]}


def test_readers_follow_and_writers_are_sent_to_the_owner(two):
    owner, follower = two
    for worker in ("ann", "bob", "cy"):
        assert vote(owner, "t/1", worker, "spam")[0] == 200
    wanted = owner.ask("GET", "/v1/campaigns/default/tasks/t%2F1")[1]
    assert wanted["decision"]["votes"] == 3
    found = until(
        lambda: (got := follower.ask("GET", "/v1/campaigns/default/tasks/t%2F1"))[0] == 200 and got[1] == wanted and got[1]
    )
    assert found["decision"]["status"] == "decided"
    assert [row["worker"] for row in found["evidence"]] == ["ann", "bob", "cy"], "names of workers are followed, too"

    status, answer, headers = vote(follower, "t/1", "dee", "ok")
    assert (status, headers["Retry-After"]) == (503, "1")
    assert f"written by process {owner.process.pid}" in answer["detail"]
    for method, path, body in (
        ("DELETE", VOTES, {"task": "t/1", "worker": "ann"}),
        ("PUT", "/v1/campaigns/default/tasks/t/gold", {"label": "ok"}),
        ("PUT", "/v1/campaigns/default/policy", {"policy": {}}),
        ("POST", "/v1/campaigns/default/tasks", {"tasks": ["new"]}),
        ("POST", "/v1/campaigns/default/workers/ann/ban", {}),
        ("POST", "/v1/campaigns/default/refit", None),
        ("POST", "/v1/campaigns/default/webhooks", {"url": "https://example.com/hook"}),
    ):
        assert follower.ask(method, path, body)[0] == 503, path
    assert in_force(owner) == {("t/1", name): "spam" for name in ("ann", "bob", "cy")}
    assert 'adjudge_following{campaign="default"} 1' in follower.ask("GET", "/metrics")[1]
    assert 'adjudge_following{campaign="default"} 0' in owner.ask("GET", "/metrics")[1]
    assert follower.ask("GET", "/readyz")[0] == 200

    # Each writes the campaigns that it made.
    spec = {"labels": ["yes", "no"]}
    assert follower.ask("PUT", "/v1/campaigns/other", spec)[0] == 201
    assert owner.ask("PUT", "/v1/campaigns/other", spec)[0] == 200, "the same content again, on either server"
    assert owner.ask("PUT", "/v1/campaigns/other", {"labels": ["a", "b"]})[0] == 409
    one = {"task": "t", "worker": "w", "label": "yes"}
    assert follower.ask("POST", "/v1/campaigns/other/votes", one)[0] == 200
    assert owner.ask("POST", "/v1/campaigns/other/votes", one)[0] == 503
    assert vote(owner, "t", "w", "spam")[0] == 200


def test_a_follower_takes_over_when_the_owner_is_killed_and_nothing_is_lost(two, database):
    owner, follower = two
    wanted = {}
    for n in range(60):
        task, worker, label = f"t{n % 20}", f"w{n // 20}", ("spam", "ok")[n % 20 % 3 == 0]
        assert vote(owner, task, worker, label, id=f"id-{n}")[0] == 200
        wanted[task, worker] = label
    assert owner.ask("POST", "/v1/campaigns/default/refit")[0] == 202
    assert owner.ask("DELETE", VOTES, {"task": "t1", "worker": "w0"})[0] == 200
    del wanted["t1", "w0"]
    owner.kill()

    assert until(lambda: vote(follower, "new", "w9", "spam")[0] == 200)
    wanted["new", "w9"] = "spam"
    assert in_force(follower) == wanted, "every acknowledged vote, in force once"
    status, answer, _ = vote(follower, "t0", "w0", "ok", id="id-0")
    assert (status, answer["accepted"], answer["repeated"]) == (200, 0, 1), "ids of the other process are known"
    assert vote(follower, "t0", "w0", "spam", id="id-0")[0] == 409
    assert vote(follower, "t0", "w0", "spam", id="another")[1]["accepted"] == 1

    with Served(database) as third:
        wanted["t0", "w0"] = "spam"
        assert in_force(third) == wanted, "as the log has it"
        assert vote(third, "t0", "w0", "ok")[0] == 503
    assert follower.end() == 0
    store = open_store(database, readonly=True)
    found = check(store, 1)
    store.close()
    assert (found.difference, found.decisions > 10) == (None, True), "decisions of both processes follow from the log"


def test_a_server_that_lost_its_connection_follows_the_one_that_took_over(two, database):
    import psycopg

    owner, follower = two
    assert vote(owner, "t", "ann", "spam")[0] == 200
    owner.process.send_signal(19)  # SIGSTOP: as a machine that hangs
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s",
            [f"adjudge % {owner.process.pid} %"],
        )
    assert until(lambda: vote(follower, "t", "bob", "spam")[0] == 200)
    owner.process.send_signal(18)  # SIGCONT
    wanted = in_force(follower)
    assert until(lambda: in_force(owner) == wanted)
    assert until(lambda: vote(owner, "t", "cy", "spam")[0] == 503)
    assert vote(follower, "t", "cy", "spam")[0] == 200
    assert until(lambda: ("t", "cy") in (in_force(owner) or ()))
