"""Turns: child processes that fit on request, one at a time, with a time limit per fit."""

import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import contestants

CHILD = Path(__file__).with_name("child.py")
PREPARE = 120  # seconds for import, preparation and warm-up, which are not charged
OFTEN, SELDOM = (1.0, 5), (7.0, 3)  # below so many seconds, so many fits count; else one
TAIL = 200  # characters of a child's last words


class OverError(Exception):
    """A child that is not asked again, and why."""


class Child:
    """One contestant that has loaded one cell."""

    def __init__(self, python, contestant, data, folder):
        self.contestant = contestant
        self.answer = folder / "answer.npz"
        folder.mkdir(parents=True)
        self.errors = folder / "errors.txt"
        given = [contestant.library, contestant.method, json.dumps(contestant.options), data, self.answer]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [str(x) for x in (python, CHILD, *given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,  # a line that waits in a buffer would not be seen by select
                start_new_session=True,  # what it starts ends with it
            )

    def ready(self):
        """What it says when it has loaded everything."""
        return self._heard(PREPARE, "its preparation took more than {} s")

    def fit(self, limit, options=None, answer=False):
        """{"seconds"} of a fit, perhaps with other options; with `answer` its memory, too, and its labels in a file."""
        line = json.dumps({"options": options or {}, "answer": answer}) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            raise OverError(self._last_words()) from None
        found = self._heard(limit, "stopped at {} s")
        if answer:
            self._heard(PREPARE, "its answer took more than {} s")
        return found

    def _heard(self, seconds, late):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.close()
            raise OverError(late.format(f"{seconds:g}"))
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise OverError(self._last_words())
        return json.loads(line)

    def _last_words(self):
        text, code = self.errors.read_text(errors="replace"), self.process.wait()
        return last_words(text, code)

    def close(self):
        """End the child and its own processes."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                continue


def turns_of(seconds):
    """The number of fits: if they are short, the first one, which allocates memory, does not count."""
    return rounds(seconds) + (seconds < OFTEN[0])


def last_words(text, code):
    """What a child that ended by itself said: the last error it names, or else the signal or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Interrupt)\b", line)]
    if code < 0 or not lines:
        return f"failed: ended by signal {-code}" if code < 0 else f"failed: ended with code {code}"
    return f"failed: {(named or lines)[-1][:TAIL]}"


def rounds(seconds):
    """How many fits count of a contestant whose first took so long."""
    return next((times for below, times in (OFTEN, SELDOM) if seconds < below), 1)


def admit(some, cell, done, where, missing):
    """The contestants of a cell: lines of those that are not asked, which say why, and (contestant, environment) of the others.

    - `done`: the cells so far. `where`: the environment of each library. `missing`: why libraries have none.
    """
    lines, entrants = {}, []
    for one in some:
        past = [(before, before["lines"].get(one.name, {})) for before in done]
        why = missing.get(one.library) or contestants.unfit(one, cell) or not_tried(past, cell)
        if why:
            lines[one.name] = {"why": why}
        else:
            entrants.append((one, where[one.library]))
    return lines, entrants


def not_tried(past, cell):
    """Why a contestant that was stopped in a cell which is no larger is not asked for this one; None if it is.

    - `past`: (cell, line) of the contestant so far.
    """
    for before, line in past:
        if line.get("why", "").startswith("stopped") and all(before[size] <= cell[size] for size in ("votes", "labels")):
            return f"not tried: {before['votes']:,} votes were {line['why']}".replace("were stopped", "stopped")
    return None


def take_turns(entrants, cell, data, folder, limit, together, judge):
    """{name: line} of all entrants, (contestant, python) pairs, which fit in turns; as many at once as `together` says."""
    lines = {}
    for start in range(0, len(entrants), together):
        some = entrants[start : start + together]
        children = {}
        with ThreadPoolExecutor(min(2, together)) as pool:  # one for each of two cores; nothing is timed meanwhile
            began = list(pool.map(lambda one: _started(*one, data, folder), some))
        for (contestant, _), (child, said) in zip(some, began, strict=True):
            lines[contestant.name] = said
            if child is not None:
                children[contestant.name] = child
        try:
            _run_rounds(children, lines, limit, judge)
        finally:
            for child in children.values():
                child.close()
        print(f"  {cell['name']}: {start + len(some)} of {len(entrants)}", file=sys.stderr, flush=True)
    return lines


def _started(contestant, python, data, folder):
    child = Child(python, contestant, data, folder / f"child-{time.monotonic_ns()}")
    try:
        return child, child.ready()
    except OverError as over:
        child.close()
        return None, {"why": str(over)}


def _judged(judge, child):
    """Judge an answer; one that cannot be judged is reported, and does not end the race."""
    try:
        return judge(child.contestant, child.answer)
    except Exception as error:
        return {"unjudged": f"{type(error).__name__}: {error}"[:TAIL]}


def _run_rounds(children, lines, limit, judge):
    """Fill the lines: a first fit of each, with its memory and its answer; then as many more as each may have, in turns."""
    times, over = {}, set()
    for turn in range(OFTEN[1] + 1):
        for name, child in children.items():
            if name in over or (turn and turn >= turns_of(times[name][0])):
                continue
            try:
                found = child.fit(limit, answer=not turn)
            except OverError as stopped:
                over.add(name)
                if not turn:
                    lines[name]["why"] = str(stopped)
                continue
            times.setdefault(name, []).append(found["seconds"])
            if not turn:
                if child.contestant.options.get("engine") != "spark":  # whose memory is that of other processes
                    lines[name]["MB"] = found["MB"]
                lines[name].update(_judged(judge, child))
    for name, seconds in times.items():
        counted = seconds[1:] if len(seconds) > 1 and seconds[0] < OFTEN[0] else seconds
        lines[name]["seconds"] = statistics.median(counted)
        lines[name]["times"] = counted
