"""Votes that are sets of options, read as one yes-or-no question per (task, option), as in the paper."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import SET_SEPARATOR as SEPARATOR
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Understood, Votes
from adjudge.errors import InputError, OptionError, describe_json_error, itemize, label_error, quote, warn_abstentions
from adjudge.io.columns import find
from adjudge.io.encode import MISSING_CODE, Coded, Dictionary, codes_of, drop_duplicates, narrow_ids, votes_of
from adjudge.io.frames import column, id_columns, options_of, text_column, vocabulary
from adjudge.io.read import MAX_MESSAGE_EXAMPLES, MAX_SPELLINGS, boxes_as_sets, warn_suspicious
from adjudge.io.reading import PLAIN_READING, Reading, Wanted
from adjudge.io.records import concat
from adjudge.io.sources import Opened, Source, open_table
from adjudge.io.unsupported import refuse

LISTED: Final = (pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Null)  # what lists of options may hold
NO_YES: Final = ("no", "yes")


@dataclass(frozen=True, eq=False, repr=False)
class SetVotes:
    """Votes for sets of options, and the same votes as yes or no to every option of every task."""

    binary: Votes  # task * K + option, answered by no or yes
    tasks: Vocabulary
    options: Vocabulary
    n_votes: int  # sets cast
    per_task: NDArray[np.int64]  # [tasks] sets cast on each
    unvoted: pl.Series  # tasks whose every vote was an abstention
    abstentions: int = 0
    abstained: NDArray[np.int64] | None = None  # [workers] abstentions of each, if there are any
    frame_kind: FrameKind = "polars"
    found_gold: pl.DataFrame | None = None  # sets that the source itself gives: task, label
    understood: Understood | None = None  # what was understood of the source

    def __repr__(self) -> str:
        sizes = f"{len(self.tasks)} tasks, {self.binary.n_workers} workers, {len(self.options)} options"
        return f"SetVotes({self.n_votes} sets, {sizes})"

    def of_option(self, option: int) -> Votes:
        """Return the yes-or-no votes on one option alone, over the same tasks and workers."""
        k, binary, codes = len(self.options), self.binary, codes_of(self.binary)
        own = codes["task"] % k == option
        codes = {role: code[own] // (k if role == "task" else 1) for role, code in codes.items()}
        ids = {"task": binary.tasks.take(np.arange(option, binary.n_tasks, k)), "worker": binary.workers, "label": binary.labels}
        return votes_of(Coded(codes, ids), binary.labels)


def read_sets(source: Source | Opened, reading: Reading = PLAIN_READING) -> SetVotes:
    """Return votes whose labels are sets: list columns, JSON lists, or text joined by `|` or another `set_separator`.

    An empty set is a vote for none of the options, a missing value an abstention; in text files, where the two look
    alike, an empty cell is the empty set.

    >>> read_sets([("t1", "ann", "fear|joy"), ("t1", "bob", "joy"), ("t2", "ann", "")])
    SetVotes(3 sets, 2 tasks, 2 workers, 2 options)
    """
    if reading.weight is not None:
        raise OptionError("weight works only for tasks with one label: leave it out for sets")
    opened = Opened.of(source)
    table = open_table(opened, None, reading, sets=True, timed=reading.duplicates != "all")
    parts, rows = [], 0
    for batch in table.batches:
        sets = sets_of(batch["label"], table.is_text, rows, separator=reading.set_separator)
        moment = batch["moment"] if "moment" in batch.columns else pl.zeros(len(batch), dtype=pl.UInt64, eager=True)
        parts.append(pl.DataFrame({**id_columns(batch, ("task", "worker"), rows), "label": sets, "moment": moment}))
        rows += len(batch)
    frame = concat(parts)
    given = frame.filter(pl.col("label").is_not_null())
    missing = len(frame) - len(given)
    known = [] if table.gold is None else [table.gold["label"]]
    options = _options(pl.concat([given["label"], *known]), reading.labels)
    silent = frame.select("task").unique(maintain_order=True).join(given, on="task", how="anti", maintain_order="left")["task"]
    whole = table.is_text and narrow_ids(vocabulary(silent.cast(pl.String))).kind == "integer" if len(silent) else table.is_text
    votes = _expand(given, options, reading.duplicates, narrow={"task": whole, "worker": table.is_text})
    repeated = len(given) - given.select("task", "worker").n_unique()
    table.notes.duplicates = reading.duplicates
    understood = table.notes.understood(votes=votes.n_votes, abstentions=missing, repeated=repeated)
    abstained = _count_abstentions(frame, votes.binary) if missing else None
    votes = replace(votes, unvoted=silent, abstentions=missing, abstained=abstained, understood=understood)
    votes = replace(votes, frame_kind=table.frame_kind, found_gold=table.gold)
    if not reading.abstain:  # or they are expected
        warn_abstentions(missing, len(frame))
    odd = () if reading.labels is not None else boxes_as_sets(given["label"])
    warn_suspicious(chain(odd, _find_other_separators(options, reading.set_separator)), strict=reading.strict)
    return votes


def _count_abstentions(frame: pl.DataFrame, votes: Votes) -> NDArray[np.int64]:
    """Return how many sets of each worker are missing, [workers]."""
    silent = frame.filter(pl.col("label").is_null())["worker"].cast(pl.String).value_counts(name="number")
    out = np.zeros(votes.n_workers + 1, np.int64)  # the last is of those who did nothing else
    out[votes.workers.codes(silent["worker"])] = silent["number"].to_numpy()  # of several of these any: it is left out
    return out[:-1]


def _find_other_separators(options: Vocabulary, separator: str) -> Iterator[str]:
    """Yield a sign where options look like sets that something else joins."""
    texts = options.texts() if len(options) <= MAX_SPELLINGS else []
    for mark in (",", ";", "|"):
        joined = [text for text in texts if mark in text]
        times = Counter(part.strip() for text in joined for part in text.split(mark))
        come_again = len(times) < len(joined) or min(times.values(), default=0) > 1 or times.keys() & set(texts)
        if mark != separator and len(joined) > 1 and come_again:
            yield (
                f"{len(joined)} options look like sets joined by {mark!r} ({itemize(joined, MAX_MESSAGE_EXAMPLES)}): "
                f"set_separator={mark!r} (--set-separator {mark!r}) takes them apart"
            )


def gold_of_options(source: Source, options: Vocabulary, separator: str = SEPARATOR) -> pl.DataFrame:
    """Return gold sets as gold of the (task, option) questions: task and label, yes or no."""
    wanted: Wanted = {"task": None, "gold label": None}
    if isinstance(source, Mapping) and not _has_columns(source, wanted):
        source = {"task": list(source), "label": list(source.values())}
    table = open_table(source, wanted)
    batches = ((text_column(b["task"], "task"), b["gold label"]) for b in table.batches)
    parts = [task.to_frame().with_columns(set=sets_of(label, table.is_text, separator=separator)) for task, label in batches]
    frame = concat(parts).drop_nulls("set").with_columns(pl.col("set").list.unique().list.sort()).unique(maintain_order=True)
    twice = frame.filter(pl.col("task").is_duplicated())["task"]
    if len(twice):
        raise InputError(f"the gold gives task {quote(twice[0])} more than one set: keep one per task")
    names = options.texts()
    for stranger in frame["set"].explode().drop_nulls().unique().sort():
        if stranger not in names:
            raise InputError(f"gold names the option {quote(stranger)}, which is not among the options: {itemize(names)}")
    parts = [
        frame.select(
            pl.concat_str("task", pl.lit(name), separator=SEPARATOR).alias("task"),
            pl.when(pl.col("set").list.contains(name)).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("label"),
        )
        for name in names
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema={"task": pl.String, "label": pl.String})


def _has_columns(source: Mapping[Any, object], wanted: Wanted) -> bool:
    """Return whether a dict has columns with these roles, and is not a dict task -> set."""
    try:
        find(list(source), wanted, "the dict")
    except InputError:
        return False
    return True


def sets_of(values: pl.Series, empty_is_set: bool, first_row: int = 0, *, separator: str = SEPARATOR) -> pl.Series:
    """Return a column of sets as lists of texts; a value that is not a set is an error that names the row."""
    if isinstance(values.dtype, pl.List):
        inner = values.dtype.inner
        refuse(values, "label", first_row)
        if inner not in LISTED and not inner.is_integer():
            raise InputError(f"the label column holds {values.dtype}: give lists of text or whole numbers")
        return values.cast(pl.List(pl.String))
    if values.dtype in (pl.Categorical, pl.Enum, pl.Null):
        values = values.cast(pl.String)
    if values.dtype != pl.String:
        raise InputError(
            f"the label column holds {values.dtype}, not sets: give lists, JSON lists, or text joined by {SEPARATOR!r}; "
            "leave out multi for one label per vote"
        )
    if empty_is_set:
        values = values.fill_null("")
    if values.str.starts_with("[").any():
        rows = enumerate(values, first_row + 1)
        return pl.Series([_json_set(v, row, separator) for row, v in rows], dtype=pl.List(pl.String))
    options = pl.element().str.strip_chars()
    return values.str.split(separator).list.eval(options.filter(options != ""))


def _json_set(text: str | None, row: int, separator: str) -> list[str] | None:
    if text is None:
        return None
    if not text.startswith("["):
        return [option.strip() for option in text.split(separator) if option.strip()]
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"label in row {row} is {quote(text)}: not a JSON list ({describe_json_error(error)})") from error
    refuse([options], "label", row - 1)
    return options_of(options)


def _options(sets: pl.Series, declared: Iterable[object] | None) -> Vocabulary:
    seen = sets.explode().drop_nulls().unique().sort()
    if declared is None:
        return vocabulary(seen)
    options = Vocabulary.of(declared, "label")
    known = set(options.texts())
    for stranger in seen:
        if stranger not in known:
            raise label_error(stranger, options.ids())
    return options


def _expand(given: pl.DataFrame, options: Vocabulary, duplicates: str, narrow: Mapping[str, bool]) -> SetVotes:
    """Return each set as a yes or no to every option: Q tasks with K options are Q K tasks with two."""
    codes: dict[str, NDArray[np.uint32]] = {}
    ids: dict[str, Vocabulary] = {}
    for role in ("task", "worker"):
        dictionary = Dictionary(role)
        codes[role] = dictionary.encode(given[role].cast(pl.String))
        texts = dictionary.vocabulary()
        ids[role] = narrow_ids(texts) if narrow[role] or given[role].dtype == pl.Int64 else texts
    if duplicates != "all":  # a worker's sets on a task, before they fall apart into options
        coded = Coded({**codes, "label": np.zeros(len(given), np.uint32)}, ids)
        drop_duplicates(coded, duplicates, given["moment"].to_numpy())
        kept = coded.codes["label"] != MISSING_CODE
        given, codes = given.filter(pl.Series(kept)), {role: c[kept] for role, c in codes.items()}
    k, n = len(options), len(given)
    chosen = np.zeros((n, k), np.uint32)
    pairs = given.select("label").with_row_index("vote").explode("label").drop_nulls()
    place = pairs["label"].replace_strict(dict(zip(options.texts(), range(k), strict=True)), return_dtype=pl.Int64)
    chosen[pairs["vote"].to_numpy().astype(np.int64), place.to_numpy().astype(np.int64)] = 1
    tasks, names = column(ids["task"]).cast(pl.String), pl.Series(options.texts(), dtype=pl.String)
    places = np.divmod(np.arange(len(tasks) * k), max(k, 1))
    both = tasks.gather(places[0]) + SEPARATOR + names.gather(places[1])
    expanded = {
        "task": (codes["task"].astype(np.int64)[:, None] * k + np.arange(k)).astype(np.uint32).ravel(),
        "worker": np.repeat(codes["worker"], k),
        "label": chosen.ravel(),
    }
    answers = Vocabulary.of(NO_YES)
    binary = votes_of(Coded(expanded, {"task": vocabulary(both), "worker": ids["worker"], "label": answers}), answers)
    per_task = np.bincount(codes["task"], minlength=len(ids["task"]))
    return SetVotes(binary, ids["task"], options, int(per_task.sum()), per_task, given["task"].clear())
