"""A server under load, killed so many times."""

import random
import threading
import time

from crashing.clients import CAMPAIGN, Client, Moderator
from crashing.server import SPEC, Server

CLIENTS = 4


def crash(store, kills, *, seed=0, longest=0.6, last=0.2, say=lambda _: None):
    """Kill a server over a store under load; return the clients, and the votes that it lists in the end.

    - `store`: the address of a new store.
    - `kills`: how often; every fourth time while it starts.
    - `seed`: of everything that is random here; when what happens is up to the machine.
    - `longest`: seconds until it is killed.
    - `last`: seconds that it has after the last time.
    - `say`: is given the number of kills so far.
    """
    rng = random.Random(seed)
    server = Server(store)
    stop, moderated = threading.Event(), threading.Event()
    clients = [Client(i, server.port, stop, seed) for i in range(CLIENTS)]
    moderator = Moderator(server.port, moderated, seed, [worker for client in clients for worker in client.workers])
    threads = [*clients, moderator]
    try:
        server.start()
        server.until_ready()
        assert server.ask("PUT", CAMPAIGN, SPEC)[0] == 201
        for thread in threads:
            thread.start()
        for kill in range(kills):
            time.sleep(rng.random() * (0.1 if kill % 4 == 3 else longest))
            server.kill()
            failed = [thread.failed for thread in threads if thread.failed is not None]
            if failed:
                raise failed[0]
            server.start(ahead=rng.uniform(-3600, 3600))
            if kill % 4 != 2:  # else the next kill comes while it starts
                server.until_ready()
            say(kill + 1)
        server.until_ready()
        time.sleep(last)
        moderated.set()
        moderator.join()
        stop.set()
        for client in clients:
            client.join()
        for thread in threads:
            if thread.failed is not None:
                raise thread.failed
        moderated.clear()
        for worker in sorted(moderator.banned):
            moderator.let_in(worker)
        moderator.sender.close()
        shown = _votes(server)
        server.end()
    finally:
        stop.set()
        moderated.set()
        server.close()
    return clients, shown


def _votes(server):
    """{(task, worker): label} of the votes in force, as the server lists them."""
    found, after = {}, 0
    while after is not None:
        status, page = server.ask("GET", f"{CAMPAIGN}/votes?after={after}&limit=500")
        assert status == 200, page
        for vote in page["votes"]:
            assert (vote["task"], vote["worker"]) not in found, vote
            found[vote["task"], vote["worker"]] = vote["label"]
        after = page["next"]
    return found
