"""A service in a process of its own, started as people start it, and a way to talk to it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time

WAIT_S = 60


class Served:
    """`adjudge serve` on a free port; `end` tells it to stop, `kill` does not ask."""

    def __init__(self, store, *options, cwd=None):
        command = [sys.executable, "-m", "adjudge", "serve", "--store", str(store), "--port", "0", *map(str, options)]
        self.process = subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("adjudge listens on "):
                break
        else:
            self.process.wait(WAIT_S)
            self.process.stderr.close()
            raise AssertionError("".join(self.said))
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        self.said.extend(self.process.stderr)

    def ask(self, method, path, body=None, *, token=None):
        """(status, what was answered, headers)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text, answer.headers

    def end(self):
        """Stop it as a service manager does; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.process.stderr.close()


def until(check, *, wait=20.0):
    """What `check` gives, once it gives anything but None or False; fails after some seconds."""
    end = time.monotonic() + wait
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < end, "the condition did not become true in time"
        time.sleep(0.05)


def refused(*arguments, cwd):
    """The one-line error of a command that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "adjudge", *map(str, arguments)],
        cwd=cwd,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]
