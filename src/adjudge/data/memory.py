"""Available memory, and sizes in human-readable form."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from adjudge.errors import OptionError, quote

UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
MIN_MEMORY_BYTES: Final = 300 * 10**6  # what Python, polars and their buffers take before any vote
UNCHECKED_BYTES: Final = 1 << 20  # smaller needs are taken to be met: asking how much is free takes longer than to meet them


def free_memory() -> int:
    """Return the free memory of the machine or container, in bytes."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            kib = next(line for line in lines if line.startswith("MemAvailable:")).split()[1]
        free = int(kib) * 1024
    except (OSError, StopIteration):
        if not hasattr(os, "sysconf"):
            return _available_on_windows()
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = Path("/sys/fs/cgroup")
    try:
        most, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        figures = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    return max(min(free, most - used + int(figures.get("file", 0))), 0)  # cached files give way


def _available_on_windows() -> int:
    import ctypes

    # MEMORYSTATUSEX as eight words: its length in bytes, the memory of the machine, what is free of it, and five more.
    status = (ctypes.c_uint64 * 8)(64)
    api: Any = ctypes
    api.windll.kernel32.GlobalMemoryStatusEx(status)
    return status[2]


def gib(size: int) -> str:
    """Return a size in bytes in human-readable form.

    >>> gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def parse_memory(memory: str | int | None, *, of_host: bool = True) -> int:
    """Return an amount of memory in bytes; by default half of the free memory.

    What is `of_host` has a floor, as reading takes some.

    >>> parse_memory("2GB"), parse_memory("1.5 GiB"), parse_memory(10**9)
    (2000000000, 1610612736, 1000000000)
    """
    if memory is None:
        return max(free_memory() // 2, MIN_MEMORY_BYTES)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]i?)?b?\s*", str(memory).lower())
    if found is None or isinstance(memory, bool):
        raise OptionError(f"memory is {quote(memory)}: give a size like '2GB' or '500MB', or a number of bytes")
    size = int(float(found[1]) * UNITS[found[2] or ""])
    if of_host and size < MIN_MEMORY_BYTES:
        raise OptionError(
            f"memory is {quote(memory)}: give at least {gib(MIN_MEMORY_BYTES)}, which reading needs before the first vote"
        )
    return size
