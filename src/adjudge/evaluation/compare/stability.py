"""How far the labels of a model hold when some workers, or some tasks, had not been there."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.evaluation.compare.fits import Fitted, Ints

PARTS: Final = 5  # that workers, and tasks, are divided into: a refit leaves one of them out


class LeftOut(NamedTuple):
    """Votes without some workers, or without some tasks."""

    what: str  # "workers" or "tasks"
    votes: Votes
    tasks: Ints  # [tasks left] their codes among all tasks


def left_out(votes: Votes, refits: int, seed: int) -> list[LeftOut]:
    """Return `refits` sets of votes that lack a fifth of the workers each, and as many that lack a fifth of the tasks.

    Up to five of each lack different fifths. Crowds of fewer than five workers lack one of them at a time; nothing is left
    out of a single worker, or a single task.
    """
    out = []
    for stream, (what, n) in enumerate((("workers", votes.n_workers), ("tasks", votes.n_tasks))):
        rng = np.random.default_rng([seed, 3, stream])
        parts = min(PARTS, n)
        for number in range(refits if parts > 1 else 0):
            if number % parts == 0:  # every fifth was left out once
                part = rng.permutation(np.arange(n) % parts)
            gone = part == number % parts
            voter = votes.row_worker()[votes.row] if what == "workers" else _task_of(votes)
            out.append(LeftOut(what, *votes_kept(votes, ~gone[voter])))
    return out


def votes_kept(votes: Votes, kept: NDArray[np.bool_]) -> tuple[Votes, Ints]:
    """Return some of the votes, where `kept` is true, [votes], and the tasks that have some, [tasks left] codes."""
    size = np.bincount(_task_of(votes)[kept], minlength=votes.n_tasks)
    used = np.zeros(votes.n_rows, np.bool_)
    used[votes.row[kept]] = True
    rows = np.bincount(votes.row_worker()[used], minlength=votes.n_workers)  # of each worker that are left
    tasks, workers = np.flatnonzero(size), np.flatnonzero(rows)
    left = Votes(
        task_ptr=np.concatenate([[0], np.cumsum(size[tasks])]),
        row=(np.cumsum(used) - 1)[votes.row[kept]].astype(np.uint32),
        worker_ptr=np.concatenate([[0], np.cumsum(rows[workers])]),
        row_label=votes.row_label[used],
        row_weight=None if votes.row_weight is None else votes.row_weight[used],
        workers=votes.workers.take(workers),
        labels=votes.labels,
        tasks=votes.tasks.take(tasks),
        unvoted=votes.unvoted,
        frame_kind=votes.frame_kind,
        duplicates=votes.duplicates,
        understood=votes.understood,
    )
    return left, tasks


def stable_share(whole: Fitted, refits: list[tuple[LeftOut, Fitted]], what: str) -> float:
    """Return the share of labels that stay the same without some workers, or without some tasks; NaN where none was left out."""
    shares = [
        float((again.labels == whole.labels[part.tasks]).mean())
        for part, again in refits
        if part.what == what and len(part.tasks)
    ]
    return float(np.mean(shares)) if shares else float("nan")


def _task_of(votes: Votes) -> Ints:
    """Return the task of every vote, [votes]."""
    return np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))
