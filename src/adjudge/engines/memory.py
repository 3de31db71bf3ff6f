"""Estimates of the memory of a fit, and an error before it is taken."""

from __future__ import annotations

from typing import NamedTuple

from adjudge.data.fit import WIDE_TABLE
from adjudge.data.memory import MIN_MEMORY_BYTES, UNCHECKED_BYTES, free_memory, gib, parse_memory
from adjudge.data.votes import Votes
from adjudge.data.wide import is_wide
from adjudge.engines.shard import MAX_FINE_VOTES
from adjudge.errors import AdjudgeError
from adjudge.io.files import votes_in
from adjudge.io.sources import Opened

# Bytes of a cell on Spark's driver: table and counts, each as it is, as it was, as it travels, and as it is summed.
DRIVER_BYTES_PER_CELL = 8 * 8
READ_BYTES_PER_VOTE = 60  # bytes that a vote takes while it is read into memory
VOTES_PER_TASK = 3  # few crowds have less; asked of where tasks are not counted yet
# What the compiled passes do (csrc/passes/crew.hpp, prepare.cpp); a change there is a change here.
SHARD_VOTES = 1 << 16  # in one piece of work for a thread
MOST_SHARD_TASKS = 4 * SHARD_VOTES
PRIVATE_BYTES = 1 << 30  # in the tallies of all threads together; above it, the threads share one
LANES = (2, 4, 8, 16)  # numbers of an aligned line; more labels than 16 have no aligned copy
RECOUNT = 1 << 20  # votes whose weights are shared out at once (engines/shard.py)
GLAD_CELLS = 1 << 22  # of posteriors at once (engines/glad.py)
WIDE_CELL_BYTES = 64  # of a cell with votes, where only these are stored: counts, lines, and what both are made of
WIDE_TABLES = 4, 6  # float64 arrays [workers, K] and [K, K], from which tables in parts are made
WIDE_TABLES_CAREFUL = 14, 8
WEIGHT_TABLES = 3  # more of them where votes have weights


class Room(NamedTuple):
    """Memory of a model: arrays of the size of its table, and arrays as long as votes, tasks or workers."""

    per_vote: int = 0  # bytes
    per_task: int = 0
    per_worker: int = 0
    tables: int = 3  # float64 arrays [rows, K] while a pass counts: the table, the counts before, and those to come
    lines: bool = True  # whether passes read the table from an aligned copy
    tally: int = 8  # bytes of a cell that threads count in: 8 in soft passes, 1 in hard ones, 0 in those that count changes
    hard_tables: int = 0  # as `tables`, during a full recount in a hard pass, in addition to the soft ones
    worker_tables: int = 1  # float64 arrays [workers, K]
    posteriors: int = 0  # float64 arrays [tasks, K] in the end

    def of(self, votes: int, tasks: int, workers: int) -> int:
        """Return the bytes for these numbers."""
        return self.per_vote * votes + self.per_task * tasks + self.per_worker * workers


NO_EXTRA_ROOM = Room()  # in addition to soft passes of expectation-maximisation
STARTS_HARD = Room(tables=2, tally=0, hard_tables=1)  # majority vote is counted in tallies; passes count what has changed
TURNS_HARD = Room(hard_tables=3)
# Two tables, counts of vote shares, and the ingredients of a careful table.
CAREFUL = Room(tables=7, worker_tables=9)
CAREFUL_COMPILED = Room(tables=4, worker_tables=4)  # the same without what NumPy makes in between
# Of honest confidence, after any fit: its table and counts, lines with and without a vote, and what these are made of.
HONEST = Room(tables=7, worker_tables=4)
# Every worker has pseudo-votes: their cells, the sum with the counts, and a table of special functions with its parts.
BELIEVED = Room(tables=7, worker_tables=5)
COMPETENCE = Room(tables=4, worker_tables=4)  # its table and the best one of all restarts; strategies that a start draws
MAJORITY_ROOM = Room(tables=1, lines=False, tally=1)
WEIGHTED = Room(tally=1)
GRADED = Room(tables=5, posteriors=3)  # posteriors of all tasks, and what their means and medians are made of
# Messages in both directions, signs, and where the votes of each worker are.
MESSAGES = Room(per_vote=48, per_task=64, per_worker=24, tables=1, lines=False, tally=1)
# The probability that a vote is right; and 25 vectors of the M-step (see models/glad.py).
GLAD = Room(per_vote=8, per_task=200, per_worker=200, tables=1, lines=False)


def estimate(
    votes: Votes, shard_votes: int, threads: int = 1, room: Room = NO_EXTRA_ROOM, *, believed: bool = False, honest: bool = False
) -> int:
    """Return the peak memory of a fit in addition to the votes, in bytes.

    `shard_votes` is 0 for the compiled passes, which need no memory for a shard. `believed` says that workers have their own
    prior, from a history or a population; `honest` that confidence is.
    """
    rows, k, tasks, n = votes.n_rows, votes.n_labels, votes.n_tasks, len(votes)
    wide = 0 if shard_votes or believed or k < WIDE_TABLE else wide_bytes(votes)
    if room is CAREFUL and not (shard_votes or believed) and k < WIDE_TABLE:
        room = CAREFUL_COMPILED
    table = 8 * rows * k
    sums = 2 if room.tally == 8 and n <= MAX_FINE_VOTES else 1  # of soft counts
    lines = line_bytes(rows, k, n) if room.lines else 0
    size = n, tasks, threads
    if shard_votes:
        some = min(shard_votes, n)
        work = hard = 5 * 8 * k * (some * tasks // max(n, 1) + 1) + 64 * some
    else:
        work, hard = lines + sums * tally_bytes(rows, k, *size, room), lines + tally_bytes(rows, k, *size, WEIGHTED)
    # A soft pass; a hard one that counts everything; counts and the table that is made of them.
    peaks = [(room.tables + 2 * (sums - 1)) * table + work, room.hard_tables * table + hard if room.hard_tables else 0, 2 * table]
    if believed:  # its pseudo-votes, made of hard counts of majority vote, and their sum with the counts
        peaks = [*(peak + table for peak in peaks), table + hard, 5 * table]
    if room is WEIGHTED:
        some = min(RECOUNT, n)
        peaks.append(5 * table + 24 * some + 4 * 8 * k * max(some * tasks // max(n, 1), 1))  # two wait for their next use
    if room is GLAD:
        some = min(max(GLAD_CELLS // max(k, 1), rows), n)
        peaks.append(2 * table + 24 * some + 8 * k * max(some * tasks // max(n, 1), 1))
        peaks.append(room.of(n, tasks, votes.n_workers))
    if room.posteriors:
        peaks.append(2 * table + room.posteriors * 8 * k * tasks)
    every_task = 8 + 4 + 4 + 8 + 1  # tie key, label, its copy in the end, confidence, tie
    of_workers = 8 * votes.n_workers * k
    need = max(peaks) + room.worker_tables * of_workers
    if wide and room in (CAREFUL, MAJORITY_ROOM):
        need = wide_bytes(votes, careful=room is CAREFUL)
    elif honest and wide:  # in addition to the counts and the table of the fit
        need = max(need, 2 * table + wide)
    elif honest:
        need = max(need, HONEST.tables * table + HONEST.worker_tables * of_workers)
    return need + every_task * tasks + 2 * 8 * rows + _weight_bytes(votes)


def wide_bytes(votes: Votes, *, careful: bool = False) -> int:
    """Return the bytes of counts by cells and tables in parts, of honest confidence or of `careful` workers, too.

    It is 0 if the compiled engine stores whole arrays.
    """
    rows, k, n, workers = votes.n_rows, votes.n_labels, len(votes), votes.n_workers
    if votes.row_weight is not None or not is_wide(rows, k, n):
        return 0
    shares = min(rows * k, n * min(n // max(votes.n_tasks, 1), k)) if careful else 0
    tables = WIDE_TABLES_CAREFUL if careful else WIDE_TABLES
    return WIDE_CELL_BYTES * (rows + n + shares) + 8 * k * (tables[0] * workers + tables[1] * k)


def _weight_bytes(votes: Votes) -> int:
    """Return the bytes that weights add: counts and lines by pair and by row, products of both, and pairs of rows."""
    return 0 if votes.row_weight is None else votes.n_rows * (WEIGHT_TABLES * 8 * votes.n_labels + 3 * 8)


def line_bytes(rows: int, k: int, votes: int) -> int:
    """Return the bytes of the aligned copy of a table, at most: none is made if it is read seldom, or is aligned already."""
    lanes = next((lanes for lanes in LANES if k <= lanes), 0)
    return 8 * rows * lanes if votes >= rows else 0


def tally_bytes(rows: int, k: int, votes: int, tasks: int, threads: int, room: Room = NO_EXTRA_ROOM) -> int:
    """Return the bytes of the threads' separate tallies, which are summed in the end.

    There is one per busy thread, or none if all together would be too large or not worth their cost. One thread may count
    in the caller's array instead.
    """
    shard_tasks = min(max(tasks * SHARD_VOTES // max(votes, 1), 1), MOST_SHARD_TASKS)
    tallies = min(threads, -(-tasks // shard_tasks))
    lanes = next((lanes for lanes in LANES if k <= lanes), k)
    every = room.tally * rows * (lanes if room.lines and room.tally == 8 else k) * tallies
    return every if votes >= rows and every <= PRIVATE_BYTES else 0


def require(votes: Votes, shard_votes: int, threads: int = 1) -> None:
    """Raise if not even the smallest model fits; `require_fit` checks the actual model."""
    _require(votes, estimate(votes, shard_votes, threads, MAJORITY_ROOM))


def require_fit(engine: object, votes: Votes, room: Room, *, believed: bool = False, honest: bool = False) -> None:
    """Raise if a fit in memory, or the tables of a fit on disk, would not fit, naming the estimate and the remedy.

    Engines elsewhere check it themselves.
    """
    if getattr(engine, "name", "") == "disk":
        memory = getattr(engine, "memory", None)
        limit = None if memory is None else parse_memory(memory)
        rooms = (room, HONEST) if honest else (room,)
        require_on_disk(votes, 0, getattr(engine, "threads", 1), limit, *rooms)
        return
    shard_votes = {"cpu": 0, "reference": getattr(engine, "shard_votes", 0)}.get(getattr(engine, "name", ""))
    if shard_votes is None:
        return
    need = estimate(votes, shard_votes, getattr(engine, "threads", 1), room, believed=believed, honest=honest)
    if room is GLAD:
        _require_glad(votes, need)
    else:
        _require(votes, need, getattr(engine, "memory", None))


def _require(votes: Votes, need: int, limit: int | None = None) -> None:
    size = f"{votes.n_rows} rows x {votes.n_labels} labels"
    if limit is not None and need + MIN_MEMORY_BYTES > limit:
        raise AdjudgeError(
            f"this fit needs about {gib(need + MIN_MEMORY_BYTES)} ({size}), but {gib(limit)} are allowed: allow more, "
            f"{_fewer_rows(votes)}merge rare labels, or drop workers with few votes"
        )
    if need > UNCHECKED_BYTES and need > (have := free_memory()):
        raise AdjudgeError(
            f"this fit needs about {gib(need)} ({size}), but {gib(have)} are free: "
            f"{_fewer_rows(votes)}merge rare labels, drop workers with few votes, or use a machine with more memory"
        )


def _fewer_rows(votes: Votes) -> str:
    """Return the remedy for votes whose weights make many rows."""
    return "" if votes.row_weight is None else "round the weights to fewer distinct ones, "


def of_probabilities(votes: Votes) -> int:
    """Return the bytes of the probabilities of all labels: as written by passes, and as columns of a frame."""
    one = 8 * votes.n_tasks * votes.n_labels
    return max(one + line_bytes(votes.n_rows, votes.n_labels, len(votes)), 2 * one)


def require_probabilities(votes: Votes) -> None:
    """Raise when the probabilities of all labels do not fit in memory, naming the estimate and the remedy."""
    need, have = of_probabilities(votes), free_memory()
    if need > have:
        raise AdjudgeError(
            f"the probabilities need about {gib(need)} ({votes.n_tasks} tasks x {votes.n_labels} labels), but {gib(have)} are "
            "free: use engine='disk', which writes them in chunks"
        )


def require_glad(votes: Votes) -> None:
    """Raise if the vectors of GLAD's M-step do not fit in memory with the votes, naming the estimate and the remedy."""
    _require_glad(votes, GLAD.of(len(votes), votes.n_tasks, votes.n_workers))


def _require_glad(votes: Votes, need: int) -> None:
    have = free_memory()
    if need > have:
        raise AdjudgeError(
            f"glad needs about {gib(need)} ({votes.n_tasks} tasks, {votes.n_workers} workers), but {gib(have)} are free: "
            "use engine='disk', or a machine with more memory"
        )


def room_for_shards(votes: Votes, threads: int, limit: int | None) -> int:
    """Return the bytes left for shards after tables and counts, within the limit or the machine; negative if too few."""
    return (free_memory() if limit is None else limit) - _without_shards(votes, threads)


def _without_shards(votes: Votes, threads: int, rooms: tuple[Room, ...] = ()) -> int:
    rows, k = votes.n_rows, votes.n_labels
    n, tasks = len(votes), votes.n_tasks
    beside = [8 * k * (room.tables * rows + (room.worker_tables - 1) * votes.n_workers) for room in (NO_EXTRA_ROOM, *rooms)]
    tables = max(beside) + _weight_bytes(votes)
    return MIN_MEMORY_BYTES + tables + line_bytes(rows, k, n) + tally_bytes(rows, k, n, tasks, threads)


def require_on_disk(votes: Votes, shards: int, threads: int, limit: int | None, *rooms: Room) -> None:
    """Raise when tables, counts and the current shards do not fit in the memory allowed, or in that of the machine.

    `rooms` are what the model and its confidence take.
    """
    need = _without_shards(votes, threads, rooms) + shards
    have = free_memory() if limit is None else limit
    if need > have:
        whose = "are free" if limit is None else "are allowed"
        raise AdjudgeError(
            f"this fit needs about {gib(need)} ({votes.n_rows} rows x {votes.n_labels} labels, and a shard of votes), "
            f"but {gib(have)} {whose}: allow more, {_fewer_rows(votes)}merge rare labels, or drop workers with few votes"
        )


def cells_fit(rows: int, labels: int) -> bool:
    """Return whether a driver can hold the tables of a fit whose votes are stored elsewhere."""
    return DRIVER_BYTES_PER_CELL * rows * labels <= free_memory()


def most_pairs() -> int:
    """Return the number of rows whose tables a driver can hold, for two labels."""
    return free_memory() // (2 * DRIVER_BYTES_PER_CELL)


def require_cells(rows: int, labels: int) -> None:
    """Raise when a driver cannot hold the tables of a fit whose votes are elsewhere, naming the estimate and the remedy."""
    if not cells_fit(rows, labels):
        raise AdjudgeError(
            f"the driver needs about {gib(DRIVER_BYTES_PER_CELL * rows * labels)} for its tables "
            f"({rows} rows x {labels} labels), but {gib(free_memory())} are free: "
            "give it more memory, merge rare labels, or leave the rows on the executors (a Spark frame, rows='auto')"
        )


def in_memory(source: Opened, room: Room = NO_EXTRA_ROOM, threads: int = 1) -> int:
    """Return about how many bytes it takes to fit the votes of a source in memory; 0 if they are there already."""
    if source.folder is not None:
        from adjudge.io.folder.encoded import open_encoded

        votes = open_encoded(source.folder, check=False)
        return 4 * len(votes) + 24 * votes.n_tasks + estimate(votes, 0, threads, room)
    if source.paths is None:
        return 0
    n = votes_in(source.paths)
    return READ_BYTES_PER_VOTE * n + room.of(n, n // VOTES_PER_TASK, 0)
