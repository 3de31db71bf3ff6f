"""Memory foreseen: what a fit will take, and a clear word before it is taken."""

from __future__ import annotations

import os
from pathlib import Path

from quorate.errors import QuorateError
from quorate.votes import Votes


def estimate(votes: Votes, shard_votes: int, threads: int = 1) -> int:
    """Returns the bytes a fit takes beside the votes: tables, counts, and the work of one shard."""
    cells = votes.n_rows * votes.n_labels
    tables = (3 + threads) * 8 * cells  # table, its aligned copy, counts, and a tally for every thread
    tasks = votes.n_tasks * (8 + 4 + 8 + 1)  # tie key, label, confidence, tie
    shard = 4 * 8 * min(shard_votes, len(votes)) * (votes.n_labels + 1)
    return tables + tasks + shard


def available() -> int:
    """Returns the bytes of memory the machine can still give."""
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            kib = next(line for line in lines if line.startswith("MemAvailable:")).split()[1]
        return int(kib) * 1024
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require(votes: Votes, shard_votes: int, threads: int = 1) -> None:
    """Raises when the estimate does not fit, naming it and the remedy."""
    need, have = estimate(votes, shard_votes, threads), available()
    if need > have:
        raise QuorateError(
            f"this fit needs about {gib(need)} ({votes.n_rows} rows x {votes.n_labels} labels), but {gib(have)} are free: "
            "merge rare labels, drop workers with few votes, or use a machine with more memory"
        )


def require_cells(rows: int, labels: int) -> None:
    """Raises when a driver cannot hold the tables of a fit whose votes lie elsewhere, naming the estimate and the remedy."""
    # Table and counts, each as it is, as it was, as it travels, and as it is summed.
    need, have = 8 * 8 * rows * labels, available()
    if need > have:
        raise QuorateError(
            f"the driver needs about {gib(need)} for its tables ({rows} rows x {labels} labels), but {gib(have)} are free: "
            "give it more memory, merge rare labels, or drop workers with few votes"
        )


def gib(size: int) -> str:
    """Returns a size in bytes as people say it.

    >>> gib(3 * 2**30)
    '3.0 GiB'
    """
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
