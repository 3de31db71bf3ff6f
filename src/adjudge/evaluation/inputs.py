"""What studies read: votes, labels, truth, gold and probabilities of tasks, and the group, item or cluster of each task."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import polars as pl

from adjudge.data.options import DEFAULTS
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Votes, require_unweighted
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.evaluation.intervals import Flags, Floats, Integers
from adjudge.io import answers
from adjudge.io.answers import is_dict, keep_one_per_task, read_pairs, texts
from adjudge.io.columns import REMAINING_COLUMNS
from adjudge.io.encode import narrow_ids, sort_order
from adjudge.io.families import is_families, require_families
from adjudge.io.files import COMPRESSED_SUFFIXES, FILE_FORMATS
from adjudge.io.frames import column, match_ids, series_of, text_column, vocabulary
from adjudge.io.reading import Reading, Wanted
from adjudge.io.sources import Opened, Source, is_spark_frame, open_table, read_frame
from adjudge.io.workers import ANSWERS_LIKE, group_votes, load_votes, read_groups
from adjudge.models.base import as_model
from adjudge.results.groups import answering_alike
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.online import Online

BEYOND: Final = 1e-6  # how far a probability may leave 0 to 1 by rounding
POSTERIOR_SUM_TOLERANCE: Final = 0.01  # how far the probabilities of a task may be from 1 together: people round them
BOOLEAN_TEXTS: Final = ("true", "false")  # as text files hold booleans
UNGROUPED_NAME: Final = "all"  # the group of all tasks, if no groups are given
TABLE_FILE_SUFFIXES: Final = frozenset({*FILE_FORMATS, *COMPRESSED_SUFFIXES, ".json"})  # a column may be called "model.version"


class VoteSubset(NamedTuple):
    """Some of the votes, and the tasks that have some of them."""

    votes: Votes
    tasks: Integers  # [tasks left] codes among all tasks


def subset(votes: Votes, mask: Flags) -> VoteSubset:
    """Return the votes that a mask keeps, [votes]; workers and tasks without votes go, labels stay.

    >>> import adjudge as adj
    >>> part = subset(adj.read([(1, "ann", "x"), (1, "bob", "y"), (2, "bob", "x")]), np.array([False, True, True]))
    >>> part.votes.workers.ids(), part.tasks.tolist()
    (['bob'], [0, 1])
    """
    rows = np.zeros(votes.n_rows, np.bool_)
    rows[votes.row[mask]] = True
    length, size = votes.by_worker(rows.astype(np.int64)), np.add.reduceat(mask, votes.task_ptr[:-1], dtype=np.int64)
    tasks = np.flatnonzero(size)
    left = votes.plain(
        task_ptr=np.concatenate([[0], np.cumsum(size[tasks])]),
        row=(np.cumsum(rows) - 1)[votes.row[mask]].astype(np.uint32),
        worker_ptr=np.concatenate([[0], np.cumsum(length[length > 0])]),
        row_label=votes.row_label[rows],
        row_weight=None if votes.row_weight is None else votes.row_weight[rows],
        workers=votes.workers.take(np.flatnonzero(length)),
        tasks=votes.tasks.take(tasks),
        abstained=None,
    )
    return VoteSubset(left, tasks)


def group_judges(votes: Votes, groups: Source, study: str) -> Votes:
    """Return the votes of groups, as `adj.aggregate` counts them: a table worker to group, or a word for those to look for."""
    require_unweighted(votes, f"{study} with groups", "read the votes without weight")
    if is_families(groups):
        mapping = require_families(votes.workers.texts())
    elif isinstance(groups, str) and groups == ANSWERS_LIKE:
        mapping = answering_alike(as_model(DEFAULTS.model).fit(load_votes(votes)))
    else:
        mapping = read_groups(groups)
    return group_votes(votes, mapping).votes if mapping else votes


def vote_tasks(votes: Votes) -> Integers:
    """Return the task of each vote, [votes] codes."""
    return np.repeat(np.arange(votes.n_tasks), np.diff(votes.task_ptr))


def read_labels(source: Result | Online | Source, task: str | None, label: str | None) -> tuple[pl.DataFrame, FrameKind]:
    """Return (task and label as text, confidence, gold; the kind of frame they came in) of the tasks with a label.

    Confidence is null if it is not known; gold is false where no column of that name says otherwise.
    """
    if isinstance(source, Result):
        frame, kind = source.labels_frame(), source.votes.frame_kind
    elif callable(getattr(source, "labels", None)):
        frame, kind = cast(Any, source).labels_frame(), "polars"
    elif is_dict(source):
        frame, kind = read_pairs(source, {"task": None, "label": None})
    else:
        frame, kind = _columns(cast(Source, source), {"task": task, "label": label, "confidence": None, "gold": None})
    known = frame["confidence"] if "confidence" in frame.columns else pl.repeat(None, len(frame), dtype=pl.Float64, eager=True)
    given = _marks(frame["gold"]) if "gold" in frame.columns else None
    out = texts(frame).with_columns(
        confidence=_probability(known, frame["task"], "confidence"), gold=pl.lit(False) if given is None else given
    )
    return keep_one_per_task(out, "labels", "label or confidence" if "confidence" in frame.columns else "label"), kind


def read_truth(source: Result | Source, task: str | None, label: str | None) -> pl.DataFrame:
    """Return task and label as text, of the tasks whose truth is known."""
    if isinstance(source, Result):
        return keep_one_per_task(texts(source.labels_frame()), "truth", "label")
    if is_spark_frame(source):
        frame = _columns(source, {"task": task, "truth": label})[0]
        return keep_one_per_task(texts(frame.rename({"truth": "label"})), "truth", "label")
    return answers.read_answers(source, "truth", task, label)[0]


def truth_codes(votes: Votes, known: pl.DataFrame) -> Integers:
    """Return the known label of each task of votes, [tasks] codes: K and above for labels that nobody gave, -1 if not known.

    `known` has task and label as text, as `read_truth` returns them.

    >>> import adjudge as adj
    >>> votes = adj.read([(1, "ann", "cat"), (2, "ann", "dog"), (3, "ann", "dog")])
    >>> truth_codes(votes, pl.DataFrame({"task": ["1", "3"], "label": ["dog", "cow"]})).tolist()
    [1, -1, 2]
    """
    code = {name: n for n, name in enumerate(votes.labels.texts())}
    for name in known["label"].unique(maintain_order=True):
        code.setdefault(name, len(code))
    coded = known.select("task", code=pl.col("label").replace_strict(code, return_dtype=pl.Int64))
    tasks = pl.DataFrame({"task": column(votes.tasks).cast(pl.String)})
    return tasks.join(coded, on="task", how="left", maintain_order="left")["code"].fill_null(-1).to_numpy()


def read_truth_codes(votes: Votes, truth: Result | Source, task: str | None = None, label: str | None = None) -> Integers:
    """Return `truth_codes` of a source, at most K; it is an error where no task of the votes has truth."""
    codes = truth_codes(votes, read_truth(truth, task, label))
    if not (codes >= 0).any():
        raise InputError(f"the truth has none of the {votes.n_tasks} tasks of the votes: are these their ids?")
    return np.minimum(codes, votes.n_labels)


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Known labels of tasks with votes."""

    tasks: Integers  # [n] codes, rising
    labels: Integers  # [n] codes; K and above for labels that nobody gave
    source: str = "gold"  # or "truth"

    @classmethod
    def of(cls, codes: Integers, source: str) -> KnownLabels:
        """Return the known labels among codes of all tasks, [tasks], which are below 0 for the others."""
        tasks = np.flatnonzero(codes >= 0)
        return cls(tasks, codes[tasks], source)

    def __len__(self) -> int:
        return len(self.tasks)

    def within(self, tasks: Integers) -> tuple[Integers, Integers]:
        """Return the places of known tasks among some tasks, rising codes, and their labels, [known there] each."""
        at = np.searchsorted(tasks, self.tasks)
        inside = at < len(tasks)
        inside[inside] = tasks[at[inside]] == self.tasks[inside]
        return at[inside], self.labels[inside]


def read_gold_codes(votes: Votes, source: Source, *, strict: bool = False) -> tuple[Integers, int]:
    """Return the gold label of each task, [tasks] codes below 0 if there is none, and how many are of other tasks."""
    given = answers.read_gold(answers.read_matching_answers(source, "gold", votes.tasks, strict=strict), votes.labels)
    codes = answers.gold_codes(given, votes.tasks).astype(np.int64)
    return codes, len(given.labels) - int((codes >= 0).sum())


def read_probabilities(source: Result | Source, tasks: pl.Series) -> tuple[dict[str, int], Floats]:
    """Return (column of each label, probabilities [tasks, K]) for these tasks; lines are NaN if nothing is known."""
    if isinstance(source, Result):
        frame = source.probabilities_frame()
    else:
        frame, _ = _columns(source, {"task": None, REMAINING_COLUMNS: None})
    names = [name for name in frame.columns if name != "task"]
    if not names:
        raise InputError("the probabilities have no column except the task: give one for each label")
    frame = frame.with_columns(text_column(frame["task"], "task"))
    if frame["task"].is_duplicated().any():
        again = frame.filter(pl.col("task").is_duplicated())["task"][0]
        raise InputError(f"the probabilities have task {quote(again)} twice: keep one line per task")
    found = pl.DataFrame({"task": tasks}).join(frame, on="task", how="left", maintain_order="left")
    if not isinstance(source, Result):
        found = found.with_columns(_probability(found[name], found["task"], f"probability of {name!r}") for name in names)
    matrix = found.select(pl.col(names).cast(pl.Float64).fill_null(np.nan)).to_numpy()
    odd = np.flatnonzero(np.abs(matrix.sum(axis=1) - 1) > POSTERIOR_SUM_TOLERANCE)  # NaN is not odd
    if len(odd) and not isinstance(source, Result):
        total, whose = matrix[odd[0]].sum(), quote(found["task"][int(odd[0])])
        raise InputError(f"the probabilities of task {whose} sum to {total:.4g}, not 1: give a column per label, and no other")
    return {name: place for place, name in enumerate(names)}, matrix


def places(labels: pl.Series, columns: Mapping[str, int]) -> Integers:
    """Return the column of each label, [n]; -1 for one that has none.

    >>> places(pl.Series(["dog", "task", "cow"]), {"dog": 0, "label task": 1}).tolist()
    [0, 1, -1]
    """
    # `label_columns` calls the column of a label named like the task column "label task".
    known = {name: columns.get(name, columns.get(f"label {name}", -1)) for name in labels.unique()}
    return labels.replace_strict(known, return_dtype=pl.Int64).to_numpy() if len(labels) else np.zeros(0, np.int64)


def _columns(source: Source, wanted: Wanted) -> tuple[pl.DataFrame, FrameKind]:
    """Return the wanted columns of any source as one frame, and the caller's kind of frame; those of Spark are gathered."""
    if not is_spark_frame(source):
        return read_frame(source, wanted)
    from adjudge.spark.votes import gather_columns  # loaded for its frames alone

    return gather_columns(source, wanted), "polars"


def _probability(series: pl.Series, tasks: pl.Series, what: str) -> pl.Series:
    """Return a column of numbers from 0 to 1; null if nothing (or NaN) is given."""
    if series.dtype == pl.String:
        series = series.str.strip_chars().replace("", None).str.replace(r"^([0-9]*),([0-9]+)$", "${1}.${2}")  # decimal commas
    fits = series.dtype.is_numeric() or series.dtype in (pl.String, pl.Null)
    numbers = series.cast(pl.Float64, strict=False) if fits else pl.repeat(None, len(series), dtype=pl.Float64, eager=True)
    inside = (numbers.is_nan() | numbers.is_between(-BEYOND, 1 + BEYOND)).fill_null(False)
    odd = (series.is_not_null() & ~inside).arg_true()
    if len(odd):
        at = int(odd[0])
        raise InputError(f"the {what} of task {quote(tasks[at])} is {quote(series[at])}: give a number from 0 to 1")
    return numbers.fill_nan(None).clip(0.0, 1.0).alias(series.name)


def _marks(series: pl.Series) -> pl.Series | None:
    """Return which tasks are marked; None if the column holds no marks (it may hold true labels)."""
    if series.dtype == pl.Boolean:
        return series.fill_null(False)
    if series.dtype != pl.String:
        return None
    lower = series.str.to_lowercase()
    return (lower == BOOLEAN_TEXTS[0]).fill_null(False) if lower.drop_nulls().is_in(BOOLEAN_TEXTS).all() else None


@dataclass(frozen=True, eq=False)
class TaskGrouping:
    """The groups of the tasks that have votes."""

    names: Vocabulary  # of groups with votes, sorted
    group: Integers  # [tasks] code of the task's group; -1 for tasks in none
    empty: tuple[str, ...] = ()  # groups none of whose tasks has votes

    def tasks(self, group: int) -> Integers:
        """Return the tasks of a group, rising codes."""
        return np.flatnonzero(self.group == group)


@dataclass(frozen=True, eq=False)
class TaskValues:
    """Reads a value of every task, such as its group or item: from a dict, a table, or a column of the votes' own source."""

    source: Any  # that the votes or labels were read from
    tasks: Vocabulary  # with votes, or labels
    reading: Reading
    task: str | None = None  # the column of the task in the source

    @classmethod
    def of(cls, source: Any, votes: Votes, reading: Reading) -> TaskValues:
        """Return what reads values for the tasks of votes."""
        columns = {} if votes.understood is None else votes.understood.columns
        return cls(source, votes.tasks, reading, columns.get("task"))

    def grouping(self, by: object) -> tuple[TaskGrouping, pl.DataFrame | None]:
        """Return the groups of tasks, and the table they came from, if it was one; without `by` there is a single group."""
        if by is None:
            return TaskGrouping(Vocabulary.of([UNGROUPED_NAME]), np.zeros(len(self.tasks), np.int64)), None
        frame, table = self._read(by, "by", "group")
        is_number = frame["value"].dtype.is_integer() or isinstance(by, str | os.PathLike)
        known = _one_each(frame, "group")
        names = vocabulary(known["value"].unique())
        names = narrow_ids(names) if is_number else names
        names = names.take(sort_order(names))
        group = self._codes(known, names, "groups")
        used = np.unique(group[group >= 0])
        place = np.full(len(names) + 1, -1)
        place[used] = np.arange(len(used))
        empty = [text for code, text in enumerate(names.texts()) if place[code] < 0]
        return TaskGrouping(names.take(used), place[group], tuple(empty)), table

    def codes(self, given: object, option: str, table: pl.DataFrame | None = None) -> Integers:
        """Return the code of the item (or other `option`) of each task, [tasks]; -1 if it is unknown.

        A text may also name a column of `table`.
        """
        known = _one_each(self._read(given, option, option, table)[0], option)
        return self._codes(known, vocabulary(known["value"].unique().sort()), f"{option}s")

    def texts(self, given: object, option: str) -> list[str | None]:
        """Return the value of each task as text, [tasks]; None if it is not said."""
        frame = self._read(given, option, option)[0]
        if frame["value"].dtype.is_float():
            frame = frame.with_columns(pl.col("value").fill_nan(None).cast(pl.String))
        known = _one_each(frame, "value")
        names = vocabulary(known["value"].unique().sort())
        codes, words = self._codes(known, names, f"values of {option}"), names.texts()
        return [None if code < 0 else words[code] for code in codes]

    def _read(
        self, given: object, option: str, thing: str, table: pl.DataFrame | None = None
    ) -> tuple[pl.DataFrame, pl.DataFrame | None]:
        """Return task and value, and the table they came from, if it was one.

        `given` is a dict task -> value, the name of a column, or a frame or file with a column for the task and one for the
        value: called as the `thing`, or the only other one.
        """
        if isinstance(given, str) and table is not None and given in table.columns:
            return table.select("task", value=given), table
        if _is_column(given):
            return self._column(cast(str, given), option, thing), None
        if is_dict(given):
            columns = {"task": series_of(list(given), "task"), "value": series_of(list(given.values()), thing)}
            return pl.DataFrame(columns), None
        table, _ = read_frame(cast(Source, given), {"task": None, REMAINING_COLUMNS: None})
        return table.select("task", value=_only(table, thing, option)), table

    def _column(self, name: str, option: str, thing: str) -> pl.DataFrame:
        """Return task and value, by a column of the table that votes were read from."""
        source, what = self.source, f"{option} is {quote(name)}"
        if Opened(source).is_read:
            raise OptionError(
                f"{what}, which is not a file and so must be a column, but these votes have already been read: give what they "
                f"were read from, or a dict task -> {thing}"
            )
        if isinstance(source, Iterator) or hasattr(source, "read") or (isinstance(source, str) and source == "-"):
            remedy = f"give a file or a frame, or a table of task and {thing}"
            raise OptionError(f"{what}, a column, and this source can be read only once: {remedy}")
        if isinstance(source, np.ndarray) or (isinstance(source, list) and source and isinstance(source[0], tuple | list)):
            raise OptionError(f"{what}, a column, and these votes have none: give a dict task -> {thing}")
        layout: Any = {name: getattr(self.reading, name) for name in ("separator", "header", "format", "question")}
        table = open_table(source, {"task": self.task, thing: name}, Reading.of(layout))
        frame = pl.concat([batch.select("task", thing) for batch in table.batches], how="vertical_relaxed")
        return frame.rename({thing: "value"}).unique(maintain_order=True)

    def _codes(self, known: pl.DataFrame, names: Vocabulary, what: str) -> Integers:
        """Return the code of the value of every task with votes, [tasks]; -1 for tasks without; it is an error where all are."""
        given, tasks = vocabulary(known["task"]), self.tasks
        place = match_ids(tasks, given)
        if not (place >= 0).any():
            theirs, ours = (itemize(map(quote, ids.take(np.arange(min(len(ids), 3))).ids())) for ids in (given, tasks))
            raise InputError(
                f"none of the {len(given)} tasks of the {what} has votes: they have tasks like {theirs}, the votes like {ours}; "
                "use the same ids for both"
            )
        codes = pl.DataFrame({"value": column(names).cast(pl.String), "code": np.arange(len(names))})
        of_task = known.join(codes, on="value", how="left", maintain_order="left")["code"].to_numpy()
        return np.append(of_task, -1)[place]


def _is_column(given: object) -> bool:
    """Return whether this names a column, not a file: no file of that name is there, and it does not look like a path."""
    if not isinstance(given, str):
        return False
    looks = os.sep in given or glob.has_magic(given) or given == "-" or Path(given).suffix.lower() in TABLE_FILE_SUFFIXES
    return not looks and not Path(given).is_file()


def _only(table: pl.DataFrame, name: str, option: str) -> pl.Series:
    """Return the column of this name, or the only one other than the task."""
    others = [one for one in table.columns if one != "task"]
    if name in others or len(others) == 1:
        return table[name if name in others else others[0]]
    raise InputError(
        f"{option} has the columns task, {itemize(others)}: call one of them {name!r}, or keep only one of them"
        if others
        else f"{option} has no column except the task: add one with the {name}"
    )


def _one_each(frame: pl.DataFrame, thing: str) -> pl.DataFrame:
    """Return task and value as texts, a line per task that has a value."""
    known = pl.DataFrame({"task": text_column(frame["task"], "task"), "label": text_column(frame["value"], thing)})
    found = keep_one_per_task(known.drop_nulls("task"), f"{thing}s", thing).rename({"label": "value"})
    if not len(found):
        raise InputError(f"the {thing}s name no task: give each its {thing}")
    return found
