"""Votes read from any source: opened, encoded, judged; and the options that say how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final, TypedDict, Unpack, cast

from adjudge.data.options import DEFAULTS, Duplicates
from adjudge.data.vocabulary import text_of
from adjudge.data.votes import Votes
from adjudge.errors import OptionError, listed
from adjudge.io.encode import Encoder
from adjudge.io.formats.extract import SeveralQuestions
from adjudge.io.formats.found import with_gold
from adjudge.io.formats.registry import AUTO
from adjudge.io.shapes import Layout, layout_of
from adjudge.io.sources import Source, Table, encoded_folder, open_table, paths_of, refuse_options
from adjudge.io.suspicious import ignored_column, named_twice, repeats, suspicions, warn_suspicious
from adjudge.io.understood import Reading, Understood


class Shaping(TypedDict, total=False):
    """The options of `read` that say how a table is laid out, and what its labels mean."""

    wide: bool
    count: str | None
    weight: str | None
    abstain: Iterable[object] | object | None
    normalize: bool
    strict: bool
    separator: str | None
    header: bool
    format: str
    question: str | None
    predictions: bool


# What each is where nothing is said.
SHAPING: Final[Mapping[str, object]] = {
    "wide": False,
    "count": None,
    "weight": None,
    "abstain": None,
    "normalize": False,
    "strict": False,
    "separator": None,
    "header": True,
    "format": AUTO,
    "question": None,
    "predictions": False,
}


def read(
    source: Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    wide: bool = False,
    count: str | None = None,
    weight: str | None = None,
    abstain: Iterable[object] | object | None = None,
    normalize: bool = False,
    strict: bool = False,
    separator: str | None = None,
    header: bool = True,
    format: str = "auto",  # noqa: A002
    question: str | None = None,
    predictions: bool = False,
) -> Votes:
    """Return the votes of files, a frame, Arrow data, tuples (task, worker, label), a dict of columns or an encoded folder.

    Sources are read batch by batch: memory stays near that of the encoded votes. What was understood is in
    `votes.understood`; what looks wrong is warned of (`SuspiciousVotes`).

    - `source`: a path, several paths or a pattern (csv, tsv, jsonl, parquet, arrow, xlsx; .gz or .zst), "-" for standard
      input, an open file, a frame of pandas, polars or pyarrow, a series of pandas by task and worker, anything with the
      Arrow interface, an iterator of record batches, tuples, dicts, a dict of columns, a NumPy array, or a folder that
      `adj.encode` made.
    - `task`, `worker`, `label`: the columns, where their usual names (task, question, item…) do not tell. `worker=""` reads
      votes that need not say who gave them, as majority vote does (model "mv") where no worker is named. `task=""` is for
      wide tables without a column for the task: lines are called by their numbers, from 0 on.
    - `labels`: all labels, in their order; by default those of an ordered type, or those seen, sorted. A vote for another
      label is then an error.
    - `duplicates`: which of a worker's votes on one task count: "all", the "last", the "first", or "error" for none.
    - `wide`: True for a table with one line per task and one column per worker, or a matrix of tasks x workers. `worker`
      may then be a pattern or a list of columns: "judge_*" or "ann,bob". An empty cell is no vote.
    - `count`: the column that says how many votes a line stands for; the worker may then be absent (for model "mv").
    - `weight`: the column of what a vote counts, from 0 (an abstention) to a million; without it every vote counts once.
      Tuples then have a fourth item.
    - `abstain`: labels that are abstentions, as ["NA", "skip"] or -1.
    - `normalize`: True joins labels that differ only in case or white space: they come in lower case, or as in `labels`.
    - `strict`: True makes errors of what would be warned of as suspicious.
    - `separator`: between the fields of a text file, where its header does not show it.
    - `header`: False for text files whose first line is a vote: their columns are called 1, 2, …, and three are task,
      worker and label.
    - `format`: "auto" recognises the exports of annotation tools (Label Studio, MTurk, Toloka, Argilla, Prodigy, doccano, …)
      by their content; or the name of one, or "table" for an ordinary table whatever it looks like. `votes.understood`
      says what was read and how; labels that the export itself gives are in `votes.found_gold`.
    - `question`: which question of an export with several.
    - `predictions`: True makes the predictions and suggestions of models in an export votes of these models.

    >>> import adjudge as adj
    >>> votes = adj.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    >>> votes
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> print(votes.understood)
    dict of columns: task=question, worker=annotator, label=answer; 3 votes
    >>> adj.read([(1, "ann", "yes", 0.9), (1, "bob", "no", 0.4)], weight="sure")
    Votes(2 votes, 1 tasks, 2 workers, 2 labels, 2 rows, weighted)
    """
    folder = encoded_folder(source)
    given = list(labels) if labels is not None and not isinstance(labels, str) else labels
    layout = layout_of(
        wide=wide,
        count=count,
        weight=weight,
        abstain=abstain,
        normalize=normalize,
        separator=separator,
        header=header,
        format=format,
        question=question,
        predictions=predictions,
        labels=given,
    )
    if folder is not None:
        refuse_options("encode", task, worker, label, labels, duplicates=duplicates, layout=layout)
        from adjudge.io.folder.opened import open_encoded

        return open_encoded(folder, hold=True)
    table = open_table(source, {"task": task, "worker": worker, "label": label}, layout)
    declared = order_of(table, given, layout)
    encoder = Encoder(labels=declared, duplicates=duplicates, narrow=table.is_text)
    for batch in table.batches:
        encoder.add(batch)
    votes = encoder.finish(table.frame_kind, warn=not layout.abstain)
    if table.gold is not None:
        votes = with_gold(votes, table.gold, is_declared=declared is not None)
    repeated = encoder.dropped or repeats(votes)
    understood = table.reading.understood(votes=len(votes), abstentions=votes.abstentions, repeated=repeated)
    check_read(votes, source, understood, table.reading, declared=declared is not None, strict=strict)
    return votes.with_understood(understood)


def order_of(table: Table, labels: Iterable[object] | None, layout: Layout) -> Iterable[object] | None:
    """Return the labels of a table in their order: as declared, or as the type of their column says; None where neither does."""
    if labels is not None or table.labels is None or layout.normalize:
        return labels
    return [label for label in table.labels if text_of(label) not in layout.abstain]


def check_read(votes: Votes, source: Source, understood: Understood, reading: Reading, *, declared: bool, strict: bool) -> None:
    """Warn of what looks wrong about votes that were read, or raise where the caller is strict."""
    repeated, has_workers = understood.repeated, reading.has_workers
    signs = suspicions(votes, understood.columns, repeated=repeated, declared=declared, has_workers=has_workers)
    paths = paths_of(source)
    empty = [] if paths is None or len(votes) or votes.abstentions else [f"{listed(paths, 3)}: no votes follow the header"]
    warn_suspicious(chain(named_twice(paths), empty, ignored_column(reading.ignored), signs), strict=strict)


def as_votes(
    source: Votes | Source,
    *,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    **shaping: Unpack[Shaping],
) -> Votes:
    """Return votes unchanged, and read anything else; reading options are refused for votes."""
    if isinstance(source, Votes):
        is_strict = shaping.pop("strict", False)
        refuse_options("read", task, worker, label, labels, duplicates=duplicates, layout=layout_of(**cast(Any, shaping)))
        del is_strict  # votes that were read are not judged again
        return source
    rule = cast(Duplicates, duplicates)
    return read(source, task=task, worker=worker, label=label, labels=labels, duplicates=rule, **shaping)


def questions_of(source: Source, *, multi: bool = False, **shaping: Unpack[Shaping]) -> tuple[str, ...]:
    """Return the questions of an export, as `question` takes them; an ordinary table has none, which is an error."""
    try:
        table = open_table(source, dict.fromkeys(("task", "worker", "label")), layout_of(**cast(Any, shaping)), sets=multi)
    except SeveralQuestions as several:
        return several.questions
    if table.question is None:
        raise OptionError("question is for exports of annotation tools that have questions: leave it out")
    return (table.question,)
