"""A disk that is full, files that are damaged, a clock that is set back: a clear error or a clean recovery, the log intact."""

import asyncio
import itertools
import os
import resource
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from adjudge.service.campaigns import replay
from adjudge.service.http.campaigns import Campaigns
from adjudge.service.http.clock import Clock
from adjudge.service.http.types import CampaignSpec, VoteIn
from adjudge.service.store.errors import DamagedSnapshot
from adjudge.service.store.opening import open_store
from crashing.clients import CAMPAIGN, VOTES
from crashing.server import SPEC, Server, small

counter = itertools.count()


@pytest.fixture
def server(tmp_path):
    """A server that runs, over a store in a folder of its own."""
    running = Server(tmp_path / "votes.db")
    running.start()
    running.until_ready()
    assert running.ask("PUT", CAMPAIGN, SPEC)[0] == 201
    yield running
    running.close()


def vote(server, task=None):
    """(status, task) of a new vote."""
    task = f"t{next(counter)}" if task is None else task
    return server.ask("POST", VOTES, {"task": task, "worker": "ann", "label": "ok"})[0], task


def votes(server, number):
    """Take so many votes, with decisions among them."""
    for _ in range(-(-number // 3)):
        task = f"t{next(counter)}"
        body = [{"task": task, "worker": worker, "label": "ok"} for worker in ("ann", "bob", "cy")]
        assert server.ask("POST", VOTES, body)[0] == 200


def until_taken(server):
    end = time.monotonic() + 30
    while vote(server)[0] != 200:
        assert time.monotonic() < end, "the service did not resume"
        time.sleep(0.05)


def sound(path, *, snapshot=True):
    """The position of the last event of a log that is whole, and from which the state follows."""
    with small():
        store = open_store(path, readonly=True)
        try:
            checked = replay.check(store, 1)
        finally:
            store.close()
    assert checked.difference is None, checked.difference
    assert not snapshot or checked.snapshot is not None
    return checked.position


# --- the disk


def refuses_and_goes_on(server, fill, free):
    """Fill the disk under load: 503 and nothing taken; make room: it resumes by itself."""
    votes(server, 30)
    fill()
    refused = []
    end = time.monotonic() + 30
    while len(refused) < 3:
        status, task = vote(server)
        assert status in (200, 503)
        refused += [task] * (status == 503)
        assert time.monotonic() < end, "the disk is not full"
    status, said = server.ask("POST", VOTES, {"task": "x", "worker": "ann", "label": "ok"})
    assert (status, said["error"]) == (503, "unavailable")
    assert server.ask("GET", "/healthz")[0] == 200
    assert server.ask("GET", "/readyz")[0] == 503
    process = server.process.pid
    free()
    until_taken(server)
    assert server.process.pid == process
    assert server.process.is_alive()
    for task in refused:
        assert server.ask("GET", f"{CAMPAIGN}/tasks/{task}")[0] == 404, "a vote that was refused is there"
    votes(server, 30)
    server.end()
    sound(server.store)


def test_a_file_that_may_not_grow(server):
    pid, path = server.process.pid, Path(server.store)
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)

    def fill():
        largest = max(file.stat().st_size for file in (path, path.with_name("votes.db-wal")))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (largest, hard))

    refuses_and_goes_on(server, fill, lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard)))


def test_a_disk_that_is_full(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "adjudge-test", folder]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    running = Server(folder / "votes.db")
    try:
        running.start()
        running.until_ready()
        assert running.ask("PUT", CAMPAIGN, SPEC)[0] == 201
        ballast = folder / "ballast"

        def fill():
            with ballast.open("wb", buffering=0) as file, suppress(OSError):  # until the disk is full
                while True:
                    file.write(bytes(4096))

        refuses_and_goes_on(running, fill, ballast.unlink)
    finally:
        running.close()
        subprocess.run(["umount", "-l", folder], check=True)


# --- files


def restarted(server):
    """Start the server again, see that it works, and stop it; the position at which its log begins to grow."""
    server.start()
    server.until_ready()
    votes(server, 9)
    server.end()
    return sound(server.store)


@pytest.mark.parametrize("damage", ["bytes", "end", "empty", "other log"])
def test_snapshots_that_cannot_be_used(server, tmp_path, damage):
    votes(server, 300)
    server.end()
    last = sound(server.store)
    found = sorted((tmp_path / "votes.db.snapshots").iterdir())
    assert found
    if damage == "other log":
        other = Server(tmp_path / "other.db")
        other.start()
        other.until_ready()
        assert other.ask("PUT", CAMPAIGN, SPEC)[0] == 201
        votes(other, 300)
        other.end()
        source = max((tmp_path / "other.db.snapshots").iterdir(), key=lambda path: path.stat().st_mtime)
        for path in found:
            shutil.copy(source, path)
    for path in found:
        data = bytearray(path.read_bytes())
        if damage == "bytes":
            data[len(data) // 2] ^= 1
        if damage != "other log":
            path.write_bytes(data if damage == "bytes" else data[:-100] if damage == "end" else b"")
    store = open_store(server.store, readonly=True)
    with pytest.warns(DamagedSnapshot):
        assert store.snapshots(1).latest() is None
    store.close()
    assert restarted(server) > last


@pytest.mark.parametrize("cut", [1, 3000, 60_000])
@pytest.mark.filterwarnings("ignore::adjudge.service.store.errors.DamagedSnapshot")
def test_a_write_ahead_log_whose_end_is_torn(server, tmp_path, cut):
    votes(server, 240)
    server.kill()
    wal = tmp_path / "votes.db-wal"
    assert wal.stat().st_size > cut, "there is nothing to tear"
    os.truncate(wal, wal.stat().st_size - cut)
    # Lost writes are gone: a prefix of the log remains, and files ahead of it are not used.
    assert restarted(server) > 1


def test_rubbish_behind_the_write_ahead_log(server, tmp_path):
    votes(server, 60)
    last = server.ask("GET", CAMPAIGN)[1]["position"]
    server.kill()
    with (tmp_path / "votes.db-wal").open("ab") as file:
        file.write(os.urandom(9000))
    assert restarted(server) > last


def test_a_damaged_log_is_named_and_left_alone(server, tmp_path):
    votes(server, 90)
    server.end()
    shutil.rmtree(tmp_path / "votes.db.snapshots")
    path = tmp_path / "votes.db"
    data = path.read_bytes()
    at = data.index(b'"vote"', len(data) // 2)
    path.write_bytes(data[:at] + b'"vite"' + data[at + 6 :])
    damaged = path.read_bytes()
    server.start()
    server.process.join(30)
    assert server.process.exitcode == 1
    assert path.read_bytes() == damaged


# --- the clock


def test_a_clock_that_is_set_back_a_little(tmp_path):
    times = iter([2_000.0, *[2_000 + i / 10 for i in range(40)], *[1_800.0 + i / 10 for i in range(10_000)]])

    async def run():
        campaigns = await Campaigns.open(str(tmp_path / "votes.db"), clock=Clock(lambda: int(next(times) * 1e9)))
        try:
            campaign, _ = await campaigns.put(
                "default", CampaignSpec(labels=["a", "b"], policy={"minimum_votes": 1, "hold": 1.0})
            )
            for i in range(30):
                await campaign.vote([VoteIn(task=f"t{i}", worker="ann", label="a")])
            return campaign.state.time
        finally:
            await campaigns.close()

    assert asyncio.run(run()) >= 2_000_000_000
    store = open_store(tmp_path / "votes.db", readonly=True)
    found = [event.time for _, page in store.read(1) for event in page]
    store.close()
    assert found == sorted(found)
    assert len(found) == 31
    sound(tmp_path / "votes.db")
