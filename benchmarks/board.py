"""The page of the live service at scale: first byte of every view while votes come in, and votes with and without the page.

    python benchmarks/board.py [--tasks 1000000] [--workers 100000] [--rate 2000]

A server of its own takes two votes on each task, then `--rate` votes per second in the background. It requests every view in
turn, then times votes in blocks, with an open page (live stream, views every second) and without one, interleaved.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

BATCH = 5000
LABELS = ("spam", "ok")
POLICY = {"minimum_votes": 2, "maximum_votes": 2, "confidence": 0.8}
VIEWS = (
    "now",
    "queue",
    "queue?sort=age",
    "task?id=t{task}",
    "workers",
    "workers?sort=accuracy",
    "workers?q=w99",
    "worker?id=w{worker}",
    "policy",
    "log",
    "log?worker=w{worker}",
)


def start(folder, tasks):
    policy = Path(folder) / "policy.json"
    policy.write_text(json.dumps(POLICY))
    command = [sys.executable, "-m", "adjudge", "serve", "--store", f"{folder}/votes.db", "--labels", ",".join(LABELS)]
    process = subprocess.Popen(
        [*command, "--policy", str(policy), "--port", "0", "--log-level", "error"], stderr=subprocess.PIPE, text=True
    )
    port = int(process.stderr.readline().rsplit(":", 1)[1])
    threading.Thread(target=process.stderr.read, daemon=True).start()
    keep = {"retention": {"tasks": 4 * tasks, "waiting": 4 * tasks}}
    ask(http.client.HTTPConnection("127.0.0.1", port), "PATCH", "/v1/campaigns/default", keep)
    return process, port


def ask(connection, method, path, body=None):
    """Status and seconds to the first byte."""
    began = time.perf_counter()
    connection.request(method, path, None if body is None else json.dumps(body))
    answer = connection.getresponse()
    answer.read(1)
    first = time.perf_counter() - began
    rest = answer.read()
    assert answer.status < 400, (path, answer.status, rest[-300:])
    return first


def fill(port, tasks, workers):
    rng = random.Random(1)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for begin in range(0, tasks, BATCH // 2):
        votes = []
        for task in range(begin, min(begin + BATCH // 2, tasks)):
            true = rng.random() < 0.4
            for worker in rng.sample(range(workers), 2):
                votes.append({"task": f"t{task}", "worker": f"w{worker}", "label": LABELS[true ^ (rng.random() < 0.1)]})
        ask(connection, "POST", "/v1/campaigns/default/votes", votes)


class Load:
    """Votes at a steady rate, in requests of ten, while a block runs."""

    def __init__(self, port, rate, tasks, workers):
        self.port, self.rate, self.tasks, self.workers = port, rate, tasks, workers
        self.took, self.stop = [], threading.Event()

    def __enter__(self):
        self.threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(4)]
        self.began = time.perf_counter()
        for thread in self.threads:
            thread.start()
        return self

    def _run(self, seed):
        rng, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", self.port)
        due, every = time.perf_counter(), 4 * 10 / self.rate
        while not self.stop.is_set():
            votes = [
                {
                    "task": f"t{rng.randrange(self.tasks)}",
                    "worker": f"w{rng.randrange(self.workers)}",
                    "label": rng.choice(LABELS),
                }
                for _ in range(10)
            ]
            self.took.append(ask(connection, "POST", "/v1/campaigns/default/votes", votes))
            due += every
            time.sleep(max(0.0, due - time.perf_counter()))

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.votes_per_s = 10 * len(self.took) / (time.perf_counter() - self.began)


class Page:
    """An open page: its live stream, and a view every second."""

    def __init__(self, port):
        self.port, self.stop = port, threading.Event()

    def __enter__(self):
        self.stream = http.client.HTTPConnection("127.0.0.1", self.port)
        self.stream.request("GET", "/c/default/live")
        answer = self.stream.getresponse()
        self.threads = [threading.Thread(target=self._listen, args=(answer,), daemon=True), threading.Thread(target=self._look)]
        for thread in self.threads:
            thread.start()
        return self

    def _listen(self, answer):
        with suppress(OSError, ValueError, AttributeError):  # the end of the page closes the connection under it
            while answer.readline():
                pass

    def _look(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        while not self.stop.wait(1.0):
            ask(connection, "GET", "/c/default/now")

    def __exit__(self, *_):
        self.stop.set()
        self.threads[1].join()
        self.stream.sock.shutdown(2)
        self.stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=2000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, port = start(folder, chosen.tasks)
        try:
            began = time.perf_counter()
            fill(port, chosen.tasks, chosen.workers)
            print(f"{chosen.tasks} tasks and {chosen.workers} workers in {time.perf_counter() - began:.0f} s")
            measure(port, chosen)
        finally:
            process.terminate()
            process.wait()


def measure(port, chosen):
    rng = random.Random(5)
    with Load(port, chosen.rate, chosen.tasks, chosen.workers) as load:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for view in VIEWS:
            took = []
            for _ in range(9):
                path = view.format(task=rng.randrange(chosen.tasks), worker=rng.randrange(chosen.workers))
                took.append(ask(connection, "GET", f"/c/default/{path}"))
                time.sleep(0.2)
            print(f"{view:24} first byte {1000 * statistics.median(took):6.0f} ms (median of 9, worst {1000 * max(took):.0f})")
    print(f"with {load.votes_per_s:.0f} votes per second")
    medians = {True: [], False: []}
    for block in range(8):
        is_open = block % 2 == 0
        with Load(port, chosen.rate, chosen.tasks, chosen.workers) as load:
            if is_open:
                with Page(port):
                    time.sleep(6)
            else:
                time.sleep(6)
        medians[is_open].append((statistics.median(load.took), statistics.mean(load.took)))
    for at, what in enumerate(("median", "mean")):
        open_, closed = (statistics.median(row[at] for row in medians[which]) for which in (True, False))
        ratio = f"{1000 * open_:.2f} ms with the page, {1000 * closed:.2f} without: {open_ / closed:.2f}"
        print(f"{what} time of a request of ten votes: {ratio}")


if __name__ == "__main__":
    main()
