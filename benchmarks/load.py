"""A load of HTTP requests from one process: as fast as answers come, or at a steady rate.

`python benchmarks/load.py ADDRESS KIND CONNECTIONS SECONDS [RATE]` prints one line of JSON: requests per second and quantiles
of the time to the answer, in milliseconds. With a rate that time runs from when a request was due, so that a server that
stalls is charged for all that had to wait. KIND is `vote` (every request is a new vote) or `empty`.
"""

import asyncio
import json
import random
import sys
import time
from urllib.parse import urlsplit

import uvloop

WORKERS = 2000
VOTES = 5  # per task
WARM = 0.3  # seconds that are not counted


class Requests:
    """Votes of a crowd, three in four for the first label, no two by one worker on one task."""

    def __init__(self, address, kind, seed):
        self.host = urlsplit(address).netloc
        self.kind = kind
        self.random = random.Random(seed)
        self.run = f"{seed:x}{time.time_ns():x}"
        self.number = 0

    def next(self):
        """The bytes of the next request."""
        self.number += 1
        path = "/v1/campaigns/default/votes" if self.kind == "vote" else "/"
        task, turn = divmod(self.number, VOTES)
        worker = (self.number * 7 + turn) % WORKERS
        label = "ab"[self.random.random() > 0.75]
        body = f'{{"task":"{self.run}-{task}","worker":"w{worker}","label":"{label}"}}'
        return (
            f"POST {path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n{body}"
        ).encode()


class Connection(asyncio.Protocol):
    """A connection with at most one request under way."""

    def __init__(self, load):
        self.load = load
        self.rest = b""
        self.began = 0.0

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        self.load.lost(error)

    def send(self, began):
        self.began = began
        self.transport.write(self.load.requests.next())

    def data_received(self, data):
        self.rest = data = self.rest + data if self.rest else data
        head = data.find(b"\r\n\r\n")
        if head < 0:
            return
        at = data.find(b"content-length: ")
        size = int(data[at + 16 : data.index(b"\r", at)])
        if len(data) < head + 4 + size:
            return
        self.rest = b""
        if not data.startswith(b"HTTP/1.1 200"):
            self.load.refused += 1
        self.load.answered(self)


class Load:
    """All connections, and the times to their answers."""

    def __init__(self, requests, rate):
        self.requests, self.rate = requests, rate
        self.times = []
        self.free = []
        self.refused = 0
        self.stopped = False
        self.counted_from = 0.0

    def lost(self, error):
        if not self.stopped:
            raise SystemExit(f"the server closed a connection: {error}")

    def answered(self, connection):
        now = time.perf_counter()
        if connection.began >= self.counted_from and not self.stopped:
            self.times.append(now - connection.began)
        if self.stopped:
            return
        if self.rate is None:
            connection.send(now)
        else:
            self.free.append(connection)

    async def steady(self, until):
        """Send what is due, on connections that are free."""
        due = time.perf_counter()
        while (now := time.perf_counter()) < until:
            while due <= now and self.free:
                self.free.pop().send(due)
                due += 1 / self.rate
            await asyncio.sleep(max(0.0, min(0.001, due - time.perf_counter())))

    async def run(self, host, port, connections, seconds):
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            _, connection = await loop.create_connection(lambda: Connection(self), host, port)
            self.free.append(connection)
        began = time.perf_counter()
        self.counted_from = began + WARM
        if self.rate is None:
            for connection in self.free:
                connection.send(time.perf_counter())
            await asyncio.sleep(seconds + WARM)
        else:
            await self.steady(began + WARM + seconds)
        self.stopped = True
        return len(self.times) / seconds


def main(address, kind, connections, seconds, rate=None):
    """Run the load, and print what was measured."""
    load = Load(Requests(address, kind, seed=1), float(rate) if rate else None)
    where = urlsplit(address)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        per_second = runner.run(load.run(where.hostname, where.port, int(connections), float(seconds)))
    times = sorted(load.times)
    ms = {f"p{q}": 1000 * times[min(len(times) - 1, len(times) * q // 100)] for q in (50, 90, 99)}
    print(json.dumps({"per_second": per_second, "refused": load.refused, **ms, "max": 1000 * times[-1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
