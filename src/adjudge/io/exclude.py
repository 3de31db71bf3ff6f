"""Workers left out: their votes are dropped before anything else looks at them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes
from adjudge.errors import InputError, OptionError, UnknownWorkers, listed, warn
from adjudge.io.answers import text_column
from adjudge.io.frames import kind_of
from adjudge.io.ids import column, matched, require_present, series_of, vocabulary
from adjudge.io.sources import Source, read_frame

ROLE: Final = "excluded worker"
LISTS: Final = ("", ".txt")  # suffixes of files with one id per line
SOME: Final = 5  # workers named as examples


class Remaining(NamedTuple):
    """Votes without those of some workers, and how many were left out."""

    votes: Votes
    workers_out: int
    votes_out: int


def read_workers(source: Source) -> list[str]:
    """Return ids of workers as texts: of a list or set, of a frame or a table file with a column worker, or of lines of text.

    Files without suffix, or with .txt, have one id per line.

    >>> read_workers(["ann", "bob", "ann"]), read_workers({"annotator": [7]})
    (['ann', 'bob'], ['7'])
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        ids = _lines(path) if path.suffix.lower() in LISTS else _column(source)
    elif isinstance(source, Mapping) or kind_of(source) is not None or not isinstance(source, Iterable):
        ids = _column(source)
    else:
        ids = text_column(series_of(list(source), "worker"), "worker")
        require_present(ids, "worker", why=" of exclude")
    return ids.unique(maintain_order=True).to_list()


def without_workers(votes: Votes, workers: list[str], *, keep_labels: bool) -> Remaining:
    """Return the votes of all other workers; tasks that lose every vote are unvoted.

    `keep_labels` says that labels which nobody else gave stay, as declared ones do. Workers without votes are warned of;
    it is an error where none of them has any.
    """
    votes = held(votes)
    named = vocabulary(pl.Series(workers, dtype=pl.String))
    if len(named):
        require_known(named, votes.workers, "exclude")
    out = matched(votes.workers, named) >= 0
    left, tasks = votes.without_workers(out)
    label, labels = left.row_label, left.labels
    if not keep_labels:
        seen = left.given_labels()
        label, labels = (np.cumsum(seen, dtype=np.int32) - 1)[label], labels.take(np.flatnonzero(seen))
    lost = votes.tasks.take(np.setdiff1d(np.arange(votes.n_tasks), tasks, assume_unique=True))
    gone = 0 if votes.abstained is None else int(votes.abstained[out].sum())
    left = replace(
        left,
        row_label=label,
        labels=labels,
        unvoted=concatenated(votes.unvoted, lost),
        abstentions=votes.abstentions - gone,
        abstained=None if votes.abstained is None else votes.abstained[~out],
        understood=votes.understood,
        found_gold=votes.found_gold if keep_labels else None,  # its codes are of all labels
    )
    return Remaining(left, int(out.sum()), len(votes) - len(left))


def held(votes: Votes) -> Votes:
    """Return votes as arrays in memory; encoded votes, which are opened where memory suffices, are read."""
    if type(votes) is Votes:
        return votes
    tasks, unvoted = (Vocabulary(one.kind, one.values, one.offsets) for one in (votes.tasks, votes.unvoted))
    return Votes(
        task_ptr=votes.task_ptr,
        row=votes.row,
        worker_ptr=votes.worker_ptr,
        row_label=votes.row_label,
        row_weight=votes.row_weight,
        workers=votes.workers,
        labels=votes.labels,
        abstentions=votes.abstentions,
        abstained=votes.abstained,
        frame_kind=votes.frame_kind,
        duplicates=votes.duplicates,
        understood=votes.understood,
        tasks=tasks,
        unvoted=unvoted,
    )


def require_in_memory(option: str, engine: Any, instead: str) -> None:
    """Raise where an option that looks at all votes meets an engine that does not hold them in memory."""
    if engine.name in ("disk", "spark"):
        raise OptionError(f"{option} needs the votes in memory, not on engine {engine.name!r}: use engine='cpu', or {instead}")


def require_known(given: Vocabulary, workers: Vocabulary, option: str) -> None:
    """Warn of ids that no worker has; raise where none of them has one."""
    strangers = np.flatnonzero(matched(given, workers) < 0)
    if not len(strangers):
        return
    some = listed(given.take(strangers).ids())
    if len(strangers) == len(given):
        there = listed(workers.take(np.arange(min(len(workers), SOME))).ids())
        raise InputError(f"{option} names no worker with votes ({some}); there are {len(workers)} workers, the first: {there}")
    message = f"{option} names {len(strangers)} of {len(given)} workers who have no votes here: {some}"
    warn(message, UnknownWorkers)


def concatenated(first: Vocabulary, second: Vocabulary) -> Vocabulary:
    """Return the ids of two vocabularies of one kind, one behind the other."""
    if not len(first) or not len(second):
        return second if not len(first) else first
    return vocabulary(pl.concat([column(first), column(second)], rechunk=True))


def _column(source: Any) -> pl.Series:
    frame, _ = read_frame(source, {ROLE: None})
    ids = text_column(frame[ROLE], "worker")
    require_present(ids, "worker", why=" of exclude")
    return ids


def _lines(path: Path) -> pl.Series:
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {why}; exclude takes a list of workers, or a file") from error
    return pl.Series([line.strip() for line in lines if line.strip()], dtype=pl.String)
