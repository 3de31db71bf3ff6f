"""How much memory there is, and sizes as people say them."""

from __future__ import annotations

import os
from pathlib import Path


def available() -> int:
    """Return the bytes of memory the machine, or the container, can still give."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            kib = next(line for line in lines if line.startswith("MemAvailable:")).split()[1]
        free = int(kib) * 1024
    except (OSError, StopIteration):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = Path("/sys/fs/cgroup")
    try:
        most, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        figures = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no container, or one without a limit
        return free
    return max(min(free, most - used + int(figures.get("file", 0))), 0)  # cached files give way


def gib(size: int) -> str:
    """Return a size in bytes as people say it.

    >>> gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
