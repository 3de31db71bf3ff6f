"""A batch of a stream: which of its rows are votes, and what they decide."""

from __future__ import annotations

import logging
from typing import Final

import polars as pl

from quorate.errors import InputError, listed, shown
from quorate.io.ids import prepared
from quorate.online import Online
from quorate.vocabulary import text_of

ROLES: Final = ("task", "worker", "label")

log = logging.getLogger(__name__)


def sound(rows: pl.DataFrame, online: Online, batch: int, *, skip: bool) -> tuple[pl.DataFrame, int]:
    """Returns the rows that can be votes, and how many were left out; unless `skip`, a bad one is an error.

    >>> rows = pl.DataFrame({"task": ["t1", "t1"], "worker": ["ann", "bob"], "label": ["cat", "cow"]})
    >>> votes, left_out = sound(rows, Online(labels=["cat", "dog"]), 7, skip=True)
    >>> votes.rows(), left_out
    ([('t1', 'ann', 'cat')], 1)
    """
    rows = rows.select(prepared(rows[role], role) for role in ROLES)
    declared = [text_of(label) for label in online.settings["labels"]]
    undeclared = ~pl.col("label").cast(pl.String).is_in(declared)
    is_bad = pl.any_horizontal(pl.col("task").is_null(), pl.col("worker").is_null(), undeclared.fill_null(value=False))
    bad = rows.filter(is_bad)
    if not len(bad):
        return rows, 0
    what = _complaint(bad.row(0), declared)
    if not skip:
        raise InputError(f"batch {batch}: {what}; bad='skip' leaves such rows out")
    log.warning("batch %d: %d bad rows are left out; the first: %s", batch, len(bad), what)
    return rows.filter(~is_bad), len(bad)


def decide(votes: pl.DataFrame, online: Online, batch: int, *, refit: bool) -> pl.DataFrame:
    """Returns today's label of the tasks that got votes, and of those whose label a refit has changed.

    >>> votes = pl.DataFrame({"task": ["t1", "t1"], "worker": ["ann", "bob"], "label": ["cat", "cat"]})
    >>> decide(votes, Online(labels=["cat", "dog"]), 7, refit=False).select("task", "label", "votes", "batch_id").rows()
    [('t1', 'cat', 2, 7)]
    """
    online.learn_many(votes)
    now = online.labels()
    task = _as_type(now["task"], votes["task"].dtype)
    wanted = task.is_in(votes["task"].implode())
    if refit and len(now):
        # Sums of probabilities depend on the threads in their last bits; whole numbers do not.
        online.refit(threads=None if online.settings["model"] == "fds" else 1)
        before, now = now, online.labels()
        wanted |= now["label"].ne_missing(before["label"])
    return now.with_columns(task, pl.lit(batch, pl.Int64).alias("batch_id")).filter(wanted)


def _complaint(row: tuple[object, ...], declared: list[str]) -> str:
    task, worker, label = row
    if task is None or worker is None:
        role = "task" if task is None else "worker"
        return f"a vote has no {role} (task {shown(task)}, worker {shown(worker)}, label {shown(label)})"
    vote = f"label {shown(label)} of worker {shown(worker)} on task {shown(task)}"
    return f"{vote} is not among the declared labels: {listed(declared)}"


def _as_type(tasks: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Returns the ids of all tasks in the type that the stream has them in, whatever they came as before."""
    try:
        return tasks.cast(dtype)
    except pl.exceptions.InvalidOperationError as error:
        raise InputError(
            "the stream's tasks are whole numbers, but some known before are text: cast the column to string"
        ) from error
