"""A load of votes from one process.

`python benchmarks/load.py requests ADDRESS KIND CONNECTIONS SECONDS [RATE]` sends single requests, as fast as answers come or at
a steady rate, and prints one line of JSON: requests per second and quantiles of the time to the answer, in milliseconds. With
a rate that time runs from when a request was due, so that a server that stalls is charged for all that had to wait. KIND is
`vote` (each is a new vote) or `empty`.

`python benchmarks/load.py stream ADDRESS VOTES CONNECTIONS [FIRST]` sends votes as JSON lines over long requests, and prints
votes per second once every line is answered. FIRST is the number of the first vote: earlier ones are not sent again.
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
RIGHT = 0.97  # of the votes: nearly all tasks are decided by five of them
WARM = 0.3  # seconds that are not counted
LINES = 1000  # that are sent at once
AHEAD = 64 * LINES  # lines that are sent before their answers have come


def vote(prefix, number, rng):
    """A vote as JSON: no two by one worker on one task, and most are right."""
    task, turn = divmod(number, VOTES)
    label = "ab"[(task * 7919 >> 3 & 1) ^ (rng.random() > RIGHT)]
    return f'{{"task":"{prefix}{task}","worker":"w{(task * 37 + turn * 401) % WORKERS}","label":"{label}"}}'


class Connection(asyncio.Protocol):
    """A connection with at most one request under way."""

    def __init__(self, load):
        self.load = load
        self.rest = b""
        self.began = 0.0

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, error):
        if not self.load.stopped:
            raise SystemExit(f"the server closed a connection: {error}")

    def send(self, began):
        self.began = began
        self.transport.write(self.load.request())

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
            raise SystemExit(data.decode())
        self.load.answered(self)


class Requests:
    """Single requests over many connections, and the times to their answers."""

    def __init__(self, address, kind, rate):
        self.host = urlsplit(address).netloc
        self.path = "/v1/campaigns/default/votes" if kind == "vote" else "/"
        self.rate = rate
        self.random = random.Random(1)
        self.prefix, self.number = f"{time.time_ns():x}-", 0
        self.times, self.free = [], []
        self.stopped, self.counted_from = False, 0.0

    def request(self):
        """The bytes of the next request."""
        self.number += 1
        body = vote(self.prefix, self.number, self.random)
        head = f"POST {self.path} HTTP/1.1\r\nhost: {self.host}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        return f"{head}\r\n\r\n{body}".encode()

    def answered(self, connection):
        now = time.perf_counter()
        if self.stopped:
            return
        if connection.began >= self.counted_from:
            self.times.append(now - connection.began)
        if self.rate is None:
            connection.send(now)
        else:
            self.free.append(connection)

    async def steady(self, until):
        """Send what is due, on connections that are free.

        Timers are sometimes a millisecond late, which is not the server's fault: a request that could be sent counts from when it
        is, and only what waited for a connection from when it was due.
        """
        due, is_late = time.perf_counter(), False
        while (now := time.perf_counter()) < until:
            while due <= now and self.free:
                self.free.pop().send(due if is_late else time.perf_counter())
                due += 1 / self.rate
            is_late = due <= now
            await asyncio.sleep(0.001)  # to wait for less is to spin, which takes the time of the server

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


class Stream(asyncio.Protocol):
    """A long request whose lines are sent as long as not too many answers are missing."""

    def __init__(self, host, first, last):
        self.host, self.next, self.last = host, first, last
        self.sent = self.answered = 0
        self.random = random.Random(first)
        self.done = asyncio.get_running_loop().create_future()
        self.is_paused = False
        self.tail = b""

    def connection_made(self, transport):
        self.transport = transport
        head = f"POST /v1/campaigns/default/votes:stream HTTP/1.1\r\nhost: {self.host}\r\ntransfer-encoding: chunked\r\n\r\n"
        transport.write(head.encode())
        self.send()

    def connection_lost(self, error):
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the stream ended early"))

    def pause_writing(self):
        self.is_paused = True

    def resume_writing(self):
        self.is_paused = False
        self.send()

    def send(self):
        while not self.is_paused and self.next < self.last and self.sent - self.answered < AHEAD:
            numbers = range(self.next, min(self.last, self.next + LINES))
            body = "".join([vote("s", number, self.random) + "\n" for number in numbers]).encode()
            self.next, self.sent = numbers.stop, self.sent + len(numbers)
            self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
            if self.next == self.last:
                self.transport.write(b"0\r\n\r\n")

    def data_received(self, data):
        if b'"error"' in data:
            raise SystemExit(data.decode())
        self.answered += (self.tail + data).count(b'{"task"')
        self.tail = (self.tail + data)[-6:]  # too short to be counted again
        if self.answered == self.sent and self.next == self.last and not self.done.done():
            self.done.set_result(None)
        self.send()


async def stream(host, port, votes, connections, first):
    """Send votes over several connections; return the seconds until the last answer."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    made = []
    for i in range(connections):  # tasks are not split between them
        start, end = (first + votes * at // connections // VOTES * VOTES for at in (i, i + 1))
        _, one = await loop.create_connection(lambda start=start, end=end: Stream(f"{host}:{port}", start, end), host, port)
        made.append(one)
    await asyncio.gather(*(one.done for one in made))
    return time.perf_counter() - began


def main(kind, address, *arguments):
    """Run a load, and print what was measured."""
    where = urlsplit(address)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if kind == "stream":
            votes, connections, first = (*map(int, arguments), 0)[:3]
            seconds = runner.run(stream(where.hostname, where.port, votes, connections, first))
            print(json.dumps({"per_second": votes / seconds, "seconds": seconds}))
            return
        what, connections, seconds, rate = (*arguments, None)[:4]
        load = Requests(address, what, float(rate) if rate else None)
        runner.run(load.run(where.hostname, where.port, int(connections), float(seconds)))
    times = sorted(load.times)
    ms = {f"p{q}": 1000 * times[min(len(times) - 1, len(times) * q // 100)] for q in (50, 90, 99)}
    print(json.dumps({"per_second": len(times) / float(seconds), **ms, "max": 1000 * times[-1]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
