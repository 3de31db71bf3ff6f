"""Nothing that was acknowledged is lost, and nothing counts twice, however often the server is killed. `make crash` is the whole."""

import copy

import pytest

import postgres
from crashing.proof import prove
from crashing.run import crash


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The store of a server that was killed, what clients know, and the votes that it listed."""
    path = tmp_path_factory.mktemp("killed") / "votes.db"
    return path, *crash(path, 8, seed=1)


def test_killed_on_sqlite(killed):
    path, clients, shown = killed
    figures = prove(path, clients, shown)
    assert figures["without an answer"] > 8  # the load was there when it was killed
    assert figures["decisions"] > 8


def test_killed_on_postgresql():
    url = postgres.server().fresh("crash")
    assert prove(url, *crash(url, 5, seed=2))["without an answer"] > 5


@pytest.mark.parametrize("seed", [3, 4])
def test_any_interleaving_is_the_log_in_order(tmp_path, seed):
    path = tmp_path / "votes.db"
    figures = prove(path, *crash(path, 0, seed=seed, last=1.5))
    assert figures["without an answer"] == 0
    assert figures["decisions"]  # few on a busy machine


@pytest.mark.parametrize("what", ["lost", "doubled", "other", "not in force", "listed"])
def test_the_proof_can_fail(killed, what):
    path, clients, shown = killed
    keys = [(client, key) for client in clients for key, pair in client.pairs.items() if pair.doubt is None and pair.events]
    client, key = keys[0]
    kept, shown = client.pairs[key], dict(shown)
    pair = client.pairs[key] = copy.deepcopy(kept)
    if what == "lost":  # acknowledged, and not in the log
        pair.events.append(("vote", "ok", None))
    elif what == "doubled":
        pair.events.pop()
    elif what == "other":
        pair.events[0] = ("vote", "none", None)
    elif what == "not in force":
        del shown[next(iter(shown))]
    else:
        shown["task", "worker"] = "ok"
    try:
        with pytest.raises(AssertionError):
            prove(path, clients, shown)
    finally:
        client.pairs[key] = kept
