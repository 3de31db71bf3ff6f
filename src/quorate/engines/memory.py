"""Memory foreseen: what a fit will take, and a clear word before it is taken."""

from __future__ import annotations

from quorate.errors import QuorateError
from quorate.io.memory import available, gib
from quorate.votes import Votes


def estimate(votes: Votes, shard_votes: int, threads: int = 1) -> int:
    """Returns the bytes a fit takes beside the votes: tables, counts, and the work of one shard."""
    cells = votes.n_rows * votes.n_labels
    tables = (3 + threads) * 8 * cells  # table, its aligned copy, counts, and a tally for every thread
    tasks = votes.n_tasks * (8 + 4 + 8 + 1)  # tie key, label, confidence, tie
    shard = 4 * 8 * min(shard_votes, len(votes)) * (votes.n_labels + 1)
    return tables + tasks + shard


def require(votes: Votes, shard_votes: int, threads: int = 1) -> None:
    """Raises when the estimate does not fit, naming it and the remedy."""
    need, have = estimate(votes, shard_votes, threads), available()
    if need > have:
        raise QuorateError(
            f"this fit needs about {gib(need)} ({votes.n_rows} rows x {votes.n_labels} labels), but {gib(have)} are free: "
            "merge rare labels, drop workers with few votes, or use a machine with more memory"
        )
