"""`make bench-serve`: what the live service promises, measured in one run on loopback, the load on the same machine.

Ratios are of medians of five repeats in turns. The load is one process, so that on two cores the server has the other one.
"""

import asyncio
import http.client
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import uvloop
from measure import machine

HERE = Path(__file__).parent
CONNECTIONS = 64
SECONDS = 2.0
REPEATS = 5
VOTES = 5_000_000
EMPTY = """
import socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def empty(request):
    return Response(b"{}", media_type="application/json")
listening = socket.create_server(("127.0.0.1", 0))
print(f"listens on http://127.0.0.1:{listening.getsockname()[1]}", file=sys.stderr, flush=True)
config = uvicorn.Config(Starlette(routes=[Route("/", empty, methods=["POST"])]), http="httptools", loop="uvloop",
    access_log=False, log_level="warning")
uvicorn.Server(config).run(sockets=[listening])
"""


class Process:
    """A server in a process of its own."""

    def __init__(self, *command):
        self.began = time.perf_counter()
        self._process = subprocess.Popen([sys.executable, *command], stderr=subprocess.PIPE, text=True)
        for line in self._process.stderr:
            if "listens on" in line:
                self.address = line.split()[-1]
                break
        else:
            raise SystemExit("the server does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, how=signal.SIGTERM):
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()
        self._process.stderr.close()

    def memory(self):
        """Resident bytes."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def until_ready(self):
        """Seconds from the start of the process until votes are taken."""
        while True:
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=60)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    return time.perf_counter() - self.began
            time.sleep(0.01)


def service(store):
    return Process("-m", "adjudge", "serve", "--store", str(store), "--port", "0", "--labels", "a,b", "--log-level", "error")


def load(*arguments):
    """What a load has measured."""
    done = subprocess.run([sys.executable, HERE / "load.py", *map(str, arguments)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


class Bare:
    """A group commit and nothing else: a thread appends what has come meanwhile to a file, and syncs it."""

    def __init__(self, path):
        self.handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self.loop = asyncio.get_running_loop()
        self.queue = queue.SimpleQueue()
        self.came, self.waits, self.syncs = [], [], []
        self.is_writing = False
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        while (batch := self.queue.get()) is not None:
            began = time.perf_counter()
            os.write(self.handle, bytes(100 * len(batch)))
            os.fsync(self.handle)
            self.syncs.append(time.perf_counter() - began)
            self.loop.call_soon_threadsafe(self.written, batch)

    def written(self, batch):
        now = time.perf_counter()
        self.waits += [now - came for came in batch]
        self.is_writing = False
        self.flush()

    def flush(self):
        if self.came and not self.is_writing:
            self.is_writing = True
            self.queue.put(self.came)
            self.came = []


async def commits(path, per_second, seconds):
    """99th percentiles in ms: of the wait for a bare group commit at this rate, and of one append and sync alone."""
    bare = Bare(path)
    due = time.perf_counter()
    end = due + seconds
    while (now := time.perf_counter()) < end:
        while due <= now:
            bare.came.append(now)
            due += 1 / per_second
        bare.flush()
        await asyncio.sleep(0.001)
    while bare.is_writing:
        await asyncio.sleep(0.001)
    bare.queue.put(None)
    bare.thread.join()
    os.close(bare.handle)
    path.unlink()
    return [1000 * sorted(times)[len(times) * 99 // 100] for times in (bare.waits, bare.syncs)]


def singles(folder):
    """Single votes compared with empty requests, and their latency with bare commits."""
    rates = {"empty": [], "vote": []}
    with service(folder / "singles.db") as votes, Process("-c", EMPTY) as empty:
        for _ in range(REPEATS):
            for kind, server in (("empty", empty), ("vote", votes)):
                rates[kind].append(load("requests", server.address, kind, CONNECTIONS, SECONDS)["per_second"])
        median = {kind: statistics.median(found) for kind, found in rates.items()}
        ratio = statistics.median(v / e for v, e in zip(rates["vote"], rates["empty"], strict=True))
        yield f"empty requests per second, {CONNECTIONS} connections", median["empty"], ""
        yield f"single votes per second, {CONNECTIONS} connections", median["vote"], ""
        yield "votes as a share of empty requests", ratio, "0.5 or more"
        half, p99, p50, bare, synced = median["vote"] / 2, [], [], [], []
        for _ in range(REPEATS):
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                waits, syncs = runner.run(commits(folder / "bare", half, SECONDS))
            bare.append(waits)
            synced.append(syncs)
            found = load("requests", votes.address, "vote", CONNECTIONS, SECONDS, half)
            p99.append(found["p99"])
            p50.append(found["p50"])
        yield "at half of that load: median of the time to the answer, ms", statistics.median(p50), ""
        yield "at half of that load: 99th percentile, ms", statistics.median(p99), ""
        yield "a bare group commit at that load: 99th percentile, ms", statistics.median(bare), ""
        yield "one append and sync alone: 99th percentile, ms", statistics.median(synced), ""
        yield (
            "99th percentile as a multiple of the bare commit's",
            statistics.median(ours / theirs for ours, theirs in zip(p99, bare, strict=True)),
            "4 or less",
        )


def streamed(folder, votes=VOTES // 10):
    """Streams of JSON lines."""
    for connections in (1, 4):
        found = []
        for repeat in range(3):
            with service(folder / f"stream{connections}-{repeat}.db") as server:
                found.append(load("stream", server.address, votes, connections)["per_second"])
        bar = "100000 or more" if connections == 1 else ""
        yield f"votes per second over {connections} stream(s) of JSON lines", statistics.median(found), bar


def long_run(folder, votes=VOTES):
    """Memory over many votes, and how soon the server is back after them."""
    path, part, sizes, speeds = folder / "long.db", votes // 20, [], []
    with service(path) as server:
        for number in range(20):
            speeds.append(load("stream", server.address, part, 1, number * part)["per_second"])
            sizes.append(server.memory() / 1e6)
        yield f"votes per second, mean of {votes}", votes / sum(part / speed for speed in speeds), ""
        yield "memory after half of them, MB", sizes[9], ""
        yield "memory in the end, MB", sizes[19], ""
        yield "growth in the second half, %", 100 * (max(sizes[10:]) / sizes[9] - 1), "5 or less"
        server.stop(signal.SIGKILL)
    with service(path) as server:
        yield "seconds until votes are taken again after a kill", server.until_ready(), "5 or less"
    with service(path) as server:
        yield "seconds until votes are taken again after a stop", server.until_ready(), "5 or less"
    yield "size of the store, bytes per vote", path.stat().st_size / votes, ""


def run(folder):
    """The section of `make bench`: without the long run."""
    yield from singles(folder)
    yield from streamed(folder)


def main(names):
    sections = {"singles": singles, "streamed": streamed, "long_run": long_run}
    found = {}
    for name in names or sections:
        print(f"\n{name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="adjudge-serve-") as folder:
            found[name] = []
            for what, figure, bar in sections[name](Path(folder)):
                print(f"  {what:70} {figure:10.4g}  {bar}", flush=True)
                found[name].append({"what": what, "figure": figure, "bar": bar})
    if not names:
        from run import markdown

        text = markdown({"machine": machine(), "sections": found}).replace("make bench`", "make bench-serve`")
        (HERE / "SERVE.md").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
