"""How the benchmarks measure: medians of interleaved repeats, in one run; whole processes with their peak memory."""

import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path


def interleaved(actions, repeats):
    """{name: median seconds} of callables, called in turns so that a noisy moment hits all of them."""
    seconds = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            began = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def process(command, **options):
    """(seconds, peak resident MB) of a command run to its end."""
    began = time.perf_counter()
    child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    error = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode:
        raise SystemExit(f"{command} failed: {error.decode()}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def processes(commands, repeats):
    """{name: (median seconds, largest peak MB)} of commands, run in turns."""
    seen = {name: [] for name in commands}
    for _ in range(repeats):
        for name, command in commands.items():
            seen[name].append(process(command))
    return {name: (statistics.median(s for s, _ in runs), max(m for _, m in runs)) for name, runs in seen.items()}


def python(code):
    """The command that runs this code in this Python."""
    return [sys.executable, "-c", code]


def machine():
    """What this was measured on."""
    model = next(
        (x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "?"
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"
