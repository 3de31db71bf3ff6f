"""Memory foreseen: what a fit will take, and a clear word before it is taken."""

from __future__ import annotations

from typing import NamedTuple

from quorate.errors import QuorateError
from quorate.io.encoded.mapped import open_encoded
from quorate.io.encoded.plan import FLOOR, votes_in
from quorate.io.memory import available, gib
from quorate.io.read import encoded_folder
from quorate.io.sources import Source, paths_of
from quorate.votes import Votes

# Bytes of a cell on Spark's driver: table and counts, each as it is, as it was, as it travels, and as it is summed.
PER_CELL = 8 * 8
PER_VOTE = 60  # bytes that a vote takes while it is read into memory
VOTES_PER_TASK = 3  # few crowds have less; asked of where tasks are not counted yet


class Room(NamedTuple):
    """Bytes that a model takes in memory beside what all models take."""

    per_vote: int = 0
    per_task: int = 0
    per_worker: int = 0

    def of(self, votes: int, tasks: int, workers: int) -> int:
        """Returns the bytes for so many of them."""
        return self.per_vote * votes + self.per_task * tasks + self.per_worker * workers


NOTHING = Room()
# The probability that a vote is right; and 25 vectors of the M-step (see models/ascent.py).
GLAD = Room(per_vote=8, per_task=200, per_worker=200)


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


def require_glad(votes: Votes) -> None:
    """Raises when the vectors of GLAD's M-step do not fit beside the votes, naming the estimate and the remedy."""
    need, have = GLAD.of(len(votes), votes.n_tasks, votes.n_workers), available()
    if need > have:
        raise QuorateError(
            f"glad needs about {gib(need)} ({votes.n_tasks} tasks, {votes.n_workers} workers), but {gib(have)} are free: "
            "use engine='disk', or a machine with more memory"
        )


def room_for_shards(votes: Votes, threads: int, limit: int | None) -> int:
    """Returns the bytes that tables and counts leave of the memory allowed, or of that of the machine; below 0 too few."""
    return (available() if limit is None else limit) - _without_shards(votes, threads)


def _without_shards(votes: Votes, threads: int) -> int:
    return FLOOR + (3 + threads) * 8 * votes.n_rows * votes.n_labels


def require_on_disk(votes: Votes, shards: int, threads: int, limit: int | None) -> None:
    """Raises when tables, counts and the shards at hand do not fit in the memory allowed, or in that of the machine."""
    need = _without_shards(votes, threads) + shards
    have = available() if limit is None else limit
    if need > have:
        whose = "are free" if limit is None else "are allowed"
        raise QuorateError(
            f"this fit needs about {gib(need)} ({votes.n_rows} rows x {votes.n_labels} labels, and a shard of votes), "
            f"but {gib(have)} {whose}: allow more, merge rare labels, or drop workers with few votes"
        )


def cells_fit(rows: int, labels: int) -> bool:
    """Returns whether a driver can hold the tables of a fit whose votes lie elsewhere."""
    return PER_CELL * rows * labels <= available()


def most_pairs() -> int:
    """Returns how many rows a driver can hold the tables of, if there are no more than two labels."""
    return available() // (2 * PER_CELL)


def require_cells(rows: int, labels: int) -> None:
    """Raises when a driver cannot hold the tables of a fit whose votes lie elsewhere, naming the estimate and the remedy."""
    if not cells_fit(rows, labels):
        raise QuorateError(
            f"the driver needs about {gib(PER_CELL * rows * labels)} for its tables ({rows} rows x {labels} labels), but "
            f"{gib(available())} are free: give it more memory, merge rare labels, or leave the rows on the executors "
            "(a Spark frame, rows='auto')"
        )


def in_memory(source: Votes | Source, room: Room = NOTHING) -> int:
    """Returns about how many bytes it takes to fit the votes of a source in memory; 0 where it is there already."""
    folder = encoded_folder(source)
    if folder is not None:
        votes = open_encoded(folder, check=False)
        beside = room.of(len(votes), votes.n_tasks, votes.n_workers)
        return 4 * len(votes) + 24 * votes.n_tasks + estimate(votes, 0) + beside
    paths = None if isinstance(source, Votes) else paths_of(source)
    if paths is None:
        return 0
    n = votes_in(paths)
    return PER_VOTE * n + room.of(n, n // VOTES_PER_TASK, 0)
