"""One label per task, from any source: truth to measure by, gold to learn from, and the gold of exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Gold, Votes
from adjudge.errors import InputError, itemize, quote
from adjudge.io.encode import narrow_ids, over_labels, sort_order
from adjudge.io.frames import column, match_ids, series_of, text_column, vocabulary
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, find_unmatched, warn_suspicious
from adjudge.io.reading import Wanted
from adjudge.io.sources import Source, read_frame


def read_answers(source: Source, what: str, task: str | None = None, label: str | None = None) -> tuple[pl.DataFrame, FrameKind]:
    """Return (frame of task and label as text, the kind of frame it came in); tasks without a label are left out.

    A dict task -> label is also accepted. A task with two labels is an error.
    """
    role = {"truth": "truth", "gold": "gold label"}[what]
    frame, kind = read_pairs(source, {"task": task, role: label})
    return keep_one_per_task(texts(frame.rename({role: "label"})), what, "label"), kind


def read_pairs(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return two columns of any source, as `read_frame` does; a dict from one to the other is also accepted."""
    if not is_dict(source):
        return read_frame(source, wanted)
    columns = zip(wanted, (list(source), list(source.values())), strict=True)
    return pl.DataFrame({role: series_of(values, role) for role, values in columns}), "polars"


def read_matching_answers(source: Source, what: str, tasks: Vocabulary, *, strict: bool = False) -> pl.DataFrame:
    """Return what `read_answers` does, of votes on these tasks: warn where most answers are of other tasks, raise if all are.

    `strict` makes an error of the warning.
    """
    frame, _ = read_answers(source, what)
    if not len(frame) and not is_dict(source):  # an empty dict says on purpose that nothing is known
        warn_suspicious([f"the {what} has no task with a label: nothing is learned from it"], strict=strict)
    given = vocabulary(frame["task"])
    place = match_ids(given, tasks)
    strangers = given.take(np.flatnonzero(place < 0)[:MAX_MESSAGE_EXAMPLES])
    ours = tasks.take(np.arange(min(len(tasks), MAX_MESSAGE_EXAMPLES)))
    sizes = len(given), len(tasks), int((place >= 0).sum())
    warn_suspicious(find_unmatched(what, sizes, strangers.ids(), ours.ids()), strict=strict)
    return frame


def is_dict(source: object) -> TypeGuard[Mapping[object, object]]:
    """Return whether this is a dict task -> label, not a dict of columns."""
    return isinstance(source, Mapping) and not any(isinstance(v, Iterable) and not isinstance(v, str) for v in source.values())


def texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the tasks and labels of a frame as text: ids are compared as such."""
    return frame.select(text_column(frame["task"], "task"), text_column(frame["label"], "label"))


def keep_one_per_task(frame: pl.DataFrame, what: str, thing: str) -> pl.DataFrame:
    """Return the lines that have a label, without repeats; two labels of one task are an error."""
    frame = frame.drop_nulls("label").unique(maintain_order=True)
    twice = frame["task"].is_duplicated()
    if twice.any():
        again = frame.filter(twice)
        first = again.filter(pl.col("task") == again["task"][0])["label"].unique(maintain_order=True)
        raise InputError(
            f"the {what} give{'' if what.endswith('s') else 's'} task {quote(again['task'][0])} more than one {thing} "
            f"({itemize(first)}): keep one per task"
        )
    return frame


def read_gold(source: Source | Gold, labels: Vocabulary) -> Gold:
    """Return gold (a frame, a file or a dict task -> label) in codes; an unknown label is an error."""
    if isinstance(source, Gold):
        return source
    frame, _ = read_answers(source, "gold")
    code = dict(zip(labels.texts(), range(len(labels)), strict=True))
    for task, label in frame.filter(~pl.col("label").is_in(list(code))).head(1).iter_rows():
        raise InputError(
            f"gold gives task {quote(task)} the label {quote(label)}, which is not among the labels: "
            f"{itemize(labels.ids()) or '(none)'}; declare it with labels=… when no vote has it"
        )
    codes = frame["label"].replace_strict(code, return_dtype=pl.Int32) if len(frame) else pl.Series([], dtype=pl.Int32)
    return Gold(vocabulary(frame["task"]), codes.to_numpy())


def gold_codes(gold: Gold, tasks: Vocabulary) -> NDArray[np.int32]:
    """Return the label of each of these tasks, [tasks]; -1 for tasks without gold."""
    place, codes = match_ids(gold.tasks, tasks), np.full(len(tasks), -1, np.int32)
    codes[place[place >= 0]] = gold.labels[place >= 0]
    return codes


def with_gold(votes: Votes, gold: pl.DataFrame, *, is_declared: bool) -> Votes:
    """Return votes with the gold of their source; labels that only gold has are added, unless all were declared."""
    gold = keep_one_per_task(texts(gold), "gold", "label")
    names = dict.fromkeys([*votes.labels.texts(), *gold["label"]])
    if not is_declared and len(names) > votes.n_labels:
        ids = narrow_ids(Vocabulary.of_texts(list(names)))
        votes = over_labels(votes, ids.take(sort_order(ids)), "gold")
    return replace(votes, found_gold=read_gold(gold, votes.labels))


def gold_frame(votes: Votes) -> pl.DataFrame:
    """Return the labels that the source of these votes itself gives, which there must be, as task and label."""
    gold = votes.found_gold
    assert gold is not None
    return pl.DataFrame({"task": column(gold.tasks), "label": column(votes.labels, gold.labels)})
