"""Scores read from any source: tasks, workers and numbers, as arrays sorted by task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Understood
from adjudge.errors import InputError, MissingLabels, OptionError, itemize, quote, warn
from adjudge.io.answers import is_dict
from adjudge.io.columns import SCORE_ROLES
from adjudge.io.encode import (
    MISSING_CODE,
    CompiledCoder,
    PolarsCoder,
    drop_duplicates,
    narrow_ids,
    rank_of,
    sort_order,
    with_points,
)
from adjudge.io.frames import column, id_columns, match_ids, prepare_ids, series_of, text_column, vocabulary
from adjudge.io.moments import MOMENT_ROLE
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, find_ignored_column, find_repeated_paths, find_unmatched, warn_suspicious
from adjudge.io.reading import Reading
from adjudge.io.sources import Opened, Source, open_table, read_frame
from adjudge.kernels.cpu import compiled, cores
from adjudge.kernels.scores_reference import ScoreArrays

MAX_SCORE: Final = 1e100  # whose square is far from the end of floating point
ACCEPTED: Final = "give a number, or nothing for an abstention; abstain=… (--abstain) names words for abstentions"
NOT_FOR_SCORES: Final = ("labels", "weight", "normalize")


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores as arrays, sorted by task and worker."""

    arrays: ScoreArrays
    tasks: Vocabulary  # with scores, in the order of the source
    workers: Vocabulary  # with scores, sorted
    unscored: Vocabulary  # tasks without any
    understood: Understood
    frame_kind: FrameKind


def read_scores(source: Any, reading: Reading) -> ScoreTable:
    """Return the scores of a source; memory grows with their number and that of the ids."""
    opened = Opened.of(source)
    if opened.folder is not None:
        raise InputError(f"{opened.folder} has encoded labels, and scores are numbers: give the file they were encoded from")
    for name in NOT_FOR_SCORES:
        if name in reading.given():
            raise OptionError(f"{name} is for labels, and these are numeric scores: leave it out")
    wanted = {"task": reading.task, "worker": reading.worker, "score": reading.label}
    wanted |= {MOMENT_ROLE: None} if reading.duplicates != "all" else {}
    table = open_table(opened, wanted, replace(reading, abstain=frozenset()))
    core = compiled()
    coder: PolarsCoder | CompiledCoder = PolarsCoder() if core is None else CompiledCoder(core, cores())
    values, moments, rows = [np.zeros(0)], [np.zeros(0, np.uint64)], 0
    for batch in table.batches:
        ids = id_columns(batch, SCORE_ROLES[:2], rows, keep_categories=coder.takes_categories)
        coder.add(pl.DataFrame(ids).with_columns(label=pl.lit(None, pl.String)))  # labels have no codes here
        values.append(_numbers(batch["score"], reading.abstain, rows))
        moments.append(batch["moment"].to_numpy() if "moment" in batch.columns else np.zeros(len(batch), np.uint64))
        rows += len(batch)
    y = np.concatenate(values)
    del values
    coded = coder.finish()
    coded.codes["label"] = np.where(np.isnan(y), MISSING_CODE, np.uint32(0))
    missing = int(np.isnan(y).sum())
    dropped = 0
    if reading.duplicates != "all":
        dropped = drop_duplicates(coded, reading.duplicates, np.concatenate(moments)).votes
    table.notes.duplicates = reading.duplicates
    if not (coded.codes["label"] != MISSING_CODE).any():
        raise InputError("no scores found: give a line per task and worker, with a number")
    if missing and not reading.abstain:
        warn(f"{missing} of {rows} lines have no score: dropped as abstentions", MissingLabels)
    names = {role: narrow_ids(given) if table.is_text else given for role, given in coded.ids.items()}
    found, repeated = _arrange(coded.codes, names, y)
    known = table.notes.understood(votes=len(found["y"]), abstentions=missing, repeated=repeated + dropped)
    ignored = [] if reading.strict else find_ignored_column(table.notes.ignored)
    warn_suspicious([*find_repeated_paths(opened.paths), *ignored], strict=reading.strict)
    arrays = ScoreArrays(found["item_ptr"], found["judge"], found["y"])
    return ScoreTable(arrays, found["tasks"], found["workers"], found["unscored"], known, table.frame_kind)


def _arrange(codes: Mapping[str, NDArray[np.uint32]], ids: Mapping[str, Vocabulary], y: Any) -> tuple[dict[str, Any], int]:
    """Return the arrays sorted by task and worker, their ids, and the number of repeated scores."""
    given = codes["label"] != MISSING_CODE
    whole = bool(given.all())
    task, worker = (codes[role] if whole else codes[role][given] for role in ("task", "worker"))
    y = y if whole else y[given]
    n_tasks, n_workers = len(ids["task"]), len(ids["worker"])
    order = sort_order(ids["worker"])
    has_worker = np.bincount(worker, minlength=n_workers) > 0
    order = order[has_worker[order]]
    rank = np.zeros(n_workers, np.uint32)
    rank[order] = np.arange(len(order), dtype=np.uint32)
    per_task = np.bincount(task, minlength=n_tasks)
    scored = np.flatnonzero(per_task)
    place = rank_of(np.concatenate([scored, np.flatnonzero(per_task == 0)]))
    key = place[task].astype(np.int64) * len(order) + rank[worker]
    if (np.diff(key) < 0).any():
        by_task = np.argsort(key, kind="stable")
        key, y = key[by_task], y[by_task]
    repeated = int((np.diff(key) == 0).sum())
    item_ptr = np.concatenate([[0], np.cumsum(per_task[scored])]).astype(np.int64)
    arrays = {"item_ptr": item_ptr, "judge": (key % len(order)).astype(np.int32), "y": np.ascontiguousarray(y)}
    names = {"tasks": ids["task"].take(scored), "workers": ids["worker"].take(order)}
    return arrays | names | {"unscored": ids["task"].take(np.flatnonzero(per_task == 0))}, repeated


def _numbers(given: pl.Series, abstain: Iterable[str], first_row: int, what: str = "score") -> NDArray[np.float64]:
    """Return scores as numbers, [rows]; NaN if there is none. Anything else is an error that names its row."""
    if isinstance(given.dtype, pl.Boolean) or not (given.dtype.is_numeric() or given.dtype in (pl.String, pl.Null)):
        if given.dtype in (pl.Object, pl.Categorical, pl.Enum):
            given = prepare_ids(given, what, first_row).cast(pl.String)
        else:
            value = given.drop_nulls().head(1).to_list()
            raise InputError(f"the {what} column holds {given.dtype}{f', like {quote(value[0])}' if value else ''}: {ACCEPTED}")
    texts = given
    if given.dtype == pl.String:
        texts = given.str.strip_chars().replace("", None)
        words = list(abstain)
        texts = texts.set(texts.is_in(words).fill_null(False), None) if words else texts
        plain = with_points(texts)
        number = plain.cast(pl.Float64, strict=False)
    else:
        number = given.cast(pl.Float64)
    number = number.fill_nan(None) if given.dtype != pl.String else number
    bad = (texts.is_not_null() & (number.is_null() | ~(number.abs() < MAX_SCORE)).fill_null(True)) & ~_is_nan(given)
    if bad.any():
        at = int(bad.arg_max() or 0)
        raise InputError(f"{what} in row {first_row + at + 1} is {quote(given[at])}: {ACCEPTED}")
    out = number.fill_null(float("nan")).to_numpy().astype(np.float64, copy=True)
    for word in abstain if given.dtype != pl.String else ():
        try:
            out[out == float(word)] = np.nan
        except ValueError:  # a word, among numbers
            continue
    return out


def _is_nan(given: pl.Series) -> pl.Series:
    return given.is_nan().fill_null(False) if given.dtype.is_float() else pl.repeat(False, len(given), eager=True)


def read_gold_scores(source: Source, tasks: Vocabulary, *, strict: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the items that have a known score, [gold] rising codes, and these scores, [gold]."""
    if is_dict(source):
        frame = pl.DataFrame({"task": series_of(list(source), "task"), "value": series_of(list(source.values()), "gold score")})
    else:
        frame = read_frame(source, {"task": None, "gold score": None})[0].rename({"gold score": "value"})
    value = frame["value"]
    if value.dtype == pl.Boolean:
        value = value.cast(pl.Float64)
    elif value.dtype == pl.String:
        value = value.str.strip_chars().replace({"true": "1", "false": "0", "True": "1", "False": "0"})
    known = pl.DataFrame({"task": text_column(frame["task"], "task"), "value": _numbers(value, (), 0, "gold score")})
    known = known.filter(pl.col("value").is_not_nan()).unique(maintain_order=True)
    twice = known.filter(known["task"].is_duplicated())
    if len(twice):
        both = itemize(twice.filter(task=twice["task"][0])["value"].to_list())
        raise InputError(f"the gold gives task {quote(twice['task'][0])} more than one score ({both}): keep one per task")
    if not len(known):
        raise InputError("the gold names no score: give a table of task and score")
    given = vocabulary(known["task"])
    place = match_ids(given, tasks)
    theirs = given.take(np.flatnonzero(place < 0)[:MAX_MESSAGE_EXAMPLES]).ids()
    ours = tasks.take(np.arange(min(len(tasks), MAX_MESSAGE_EXAMPLES))).ids()
    sizes = len(given), len(tasks), int((place >= 0).sum())
    warn_suspicious(find_unmatched("gold", sizes, theirs, ours, among="scores"), strict=strict)
    order = np.argsort(place, kind="stable")
    order = order[place[order] >= 0]
    return place[order], known["value"].to_numpy()[order]


def ids_column(tasks: Vocabulary, unscored: Vocabulary) -> pl.Series:
    """Return the ids of tasks with scores, then of those without."""
    parts = [column(ids) for ids in (tasks, unscored) if len(ids)]
    same = len({part.dtype for part in parts}) == 1
    return pl.concat(parts if same else [part.cast(pl.String) for part in parts]).alias("task")
