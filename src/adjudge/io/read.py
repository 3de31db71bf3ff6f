"""Read votes from any source: open it, encode its batches, and warn of signs that they were not read as they were meant.

The signs are found in codes and dictionaries, never in a text per vote: checks of labels read the dictionary of labels, those
of tasks read codes, and end at the first task that refutes them. docs/reading-votes.md lists all of them with their thresholds.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import SET_SEPARATOR, ReadOptions
from adjudge.data.votes import Notes, Understood, Votes, WorkerRows
from adjudge.errors import InputError, OptionError, SuspiciousVotes, itemize, quote, warn
from adjudge.io.columns import COUNT_NAMES, VOTE_ROLES, normalize_name
from adjudge.io.encode import Encoder
from adjudge.io.formats.registry import FORMATS
from adjudge.io.reading import PLAIN_READING, Reading, normalize_texts
from adjudge.io.sources import Opened, Source, open_table
from adjudge.io.unsupported import CORNERS, INSPECTED_VALUES, MEANT, NAMES_ONLY, NUMBERS_UNSUPPORTED, explain, kind_of
from adjudge.kernels.cpu import compiled, cores

MIN_CHECKED_VOTES: Final = 20  # fewer votes than these may look like anything
MIN_TASKS: Final = 30  # with several votes each, before perfect agreement is remarkable
MAX_LABELS_PER_VOTE: Final = 0.5  # labels per vote
MAX_REPEATED_VOTE_SHARE: Final = 0.25  # of the votes
MAX_SPELLINGS: Final = 100_000  # labels whose spelling is looked at
MAX_MESSAGE_EXAMPLES: Final = 5  # examples in a message
MIN_SETS: Final = 3  # labels that look like sets
SET_SEPARATORS: Final = (SET_SEPARATOR, ",", ";")
FIRST_SCAN_VOTES: Final = 1 << 12  # votes looked at first: most votes show a disagreement soon
SCAN_CHUNK_VOTES: Final = 1 << 17  # votes per block
# Words for abstentions.
ABSTENTION_WORDS: Final = "na n/a nan null none nil ignore ignored refuse refused refusal skip skipped abstain abstained"
ABSTENTIONS: Final = frozenset(["", *ABSTENTION_WORDS.split()])
MAX_SCALE_STEPS: Final = 20  # labels with decimals that may be the steps of a scale
MAX_TEXTS: Final = 100_000  # whose spelling is looked at
MANY_TEXTS: Final = 100  # different texts that are more than a list of labels
FEW_VOTES: Final = 5  # votes per label, of free text
MIN_WORDS: Final = 3  # of a text that is more than a name
MIN_JOINED: Final = 3  # labels that look like sets or rankings
MANY_NUMBERS: Final = 30  # different whole numbers that may be measurements
MAX_DISTANCE_RATIO: Final = 0.25  # how much nearer than others votes on one task are, where numbers measure
SAMPLE_VOTES: Final = 1 << 17  # votes whose numbers are compared
PLAIN_NAME_PATTERN: Final = re.compile("[a-z0-9_-]+")  # a name without capitals, white space and decimals
DECIMAL_PATTERN: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)")
# What Unicode calls white space, and polars strips; Python would strip four separators of old files, too.
WHITE_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


def read(source: Source, **options: Unpack[ReadOptions]) -> Votes:
    """Return the votes of files, a frame, Arrow data, tuples (task, worker, label), a dict of columns or an encoded folder.

    Sources are read batch by batch, so memory stays close to that of the encoded votes. `votes.understood` says how the source
    was read; `SuspiciousVotes` warns about data that looks wrong.

    Parameters
    ----------
    source : path, file, frame, Arrow data, tuples, dict or array
        A path, several paths or a pattern (csv, tsv, jsonl, parquet, arrow, xlsx; .gz or .zst), "-" for standard input, an open
        file, a frame of pandas, polars or pyarrow, a series of pandas by task and worker, anything with the Arrow interface, an
        iterator of record batches, tuples, dicts, a dict of columns, a NumPy array, or a folder that `adj.encode` made.
    **options
        Reading options, which all functions that read votes accept: those below.
    task, worker, label : str, optional
        The columns, if they do not have usual names (task, question, item…). `worker=""` reads votes without workers, as majority
        vote (model "mv") does if there is no worker column. `task=""` is for wide tables without a task column: row numbers, from
        0 on, are the tasks.
    labels : iterable of object, optional
        All labels, in order; any other label is then an error. By default those of an ordered type, or the sorted labels that
        occur.
    duplicates : Duplicates, optional
        Which of a worker's votes on one task count: "all", the "last", the "first", or "error" for none. The last is the latest
        if a column of times is recognised, and else the last in the input.
    wide : bool, optional
        True for a table with one line per task and one column per worker, or a matrix of tasks x workers. `worker` may then be
        a pattern or a list of columns: "judge_*" or "ann,bob". An empty cell means no vote.
    count : str, optional
        The column with the number of votes that a row stands for; the worker column may then be absent (for model "mv").
    weight : str, optional
        The column of vote weights, from 0 (abstain) to a million; without it every vote counts once. Tuples then have a fourth
        item.
    abstain : iterable of object or object, optional
        Labels that are abstentions, such as ["NA", "skip"] or -1.
    normalize : bool, optional
        True joins labels that differ only in case or white space; they become lower case, or as in `labels`.
    strict : bool, optional
        True turns `SuspiciousVotes` warnings into errors.
    separator : str, optional
        Field separator of a text file, if its header does not show it.
    encoding : str, optional
        Encoding of text files that are not UTF-8 and have no byte order mark: "cp1252", "latin-1", "utf-16".
    header : bool, optional
        False for text files whose first line is a vote: their columns are called 1, 2, …, and three are task, worker and label.
    format : str, optional
        "auto" recognises the exports of annotation tools (Label Studio, MTurk, Toloka, Argilla, Prodigy, doccano, …) and the logs
        of evaluation tools (Inspect, promptfoo, MLflow, Phoenix, Langfuse, LangSmith, …) by their content; or the name of one, or
        "table" to always read an ordinary table. Gold in an export is in `votes.found_gold`.
    question : str, optional
        The question to read, if an export has several.
    predictions : bool, optional
        True reads predictions and suggestions in an export as votes of their models.
    show : iterable of str or str, optional
        Columns with the content of tasks, such as "review_text", which `votes.items`, reports and explanations show.

    Returns
    -------
    Votes
        The encoded votes.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or conflicts with another.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = adj.read({"question": [1, 1, 2], "annotator": ["ann", "bob", "ann"], "answer": ["yes", "no", "yes"]})
    >>> votes
    Votes(3 votes, 2 tasks, 2 workers, 2 labels, 2 rows)
    >>> print(votes.understood)
    dict of columns: task=question, worker=annotator, label=answer; 3 votes
    >>> adj.read([(1, "ann", "yes", 0.9), (1, "bob", "no", 0.4)], weight="sure")
    Votes(2 votes, 1 tasks, 2 workers, 2 labels, 2 rows, weighted)

    """
    return read_votes(source, Reading.of(options))


def read_votes(source: Source | Opened, reading: Reading = PLAIN_READING) -> Votes:
    """Return the votes of a source, as `read` does."""
    opened = Opened.of(source)
    if opened.folder is not None:
        reading.refuse("encode")
        from adjudge.io.folder.encoded import open_encoded

        return open_encoded(opened.folder, hold=True)
    table = open_table(opened, None, reading, timed=True)
    encoder = Encoder(labels=table.labels, duplicates=reading.duplicates, narrow=table.is_text)
    for batch in table.batches:
        encoder.add(batch)
    votes = encoder.finish(table.frame_kind, warn=not reading.abstain)
    if table.gold is not None:
        from adjudge.io.answers import with_gold

        votes = with_gold(votes, table.gold, is_declared=table.labels is not None)
    worker = votes.row_worker().astype(np.uint32)
    repeated = encoder.dropped.votes or sum(count_repeats(ptr, row, worker) for _, ptr, row in votes.parts())
    table.notes.duplicates, table.notes.resent, table.notes.undated = reading.duplicates, encoder.resent, encoder.dropped.undated
    understood = table.notes.understood(votes=len(votes), abstentions=votes.abstentions, repeated=repeated)
    check_read(votes, opened, understood, table.notes, declared=table.labels is not None, strict=reading.strict)
    if reading.show or understood.format in FORMATS:
        from adjudge.io.items import ItemSource

        votes = votes.with_fields(item_source=ItemSource.of(opened, reading, understood))
    return votes.with_fields(understood=understood)


def check_read(votes: Votes, source: Opened, understood: Understood, notes: Notes, *, declared: bool, strict: bool) -> None:
    """Warn of what looks wrong about votes that were read, or raise if the caller is strict."""
    repeated, has_workers = understood.repeated, notes.has_workers
    signs = find_signs(votes, understood.columns, repeated=repeated, declared=declared, has_workers=has_workers)
    paths = source.paths
    empty = [] if paths is None or len(votes) or votes.abstentions else [f"{itemize(paths, 3)}: no votes follow the header"]
    ignored = find_ignored_column(notes.ignored)
    warn_suspicious(chain(find_repeated_paths(paths), empty, ignored, find_undated(notes), signs), strict=strict)


def find_undated(notes: Notes) -> list[str]:
    """Return a sign for repeated votes of which the order of lines decided which one counts, although others have times."""
    if not notes.undated:
        return []
    column = quote(next(iter(notes.ordered_by), "time"))
    return [
        f"the times in {column} cannot be compared for {notes.undated} repeated votes, of which the {notes.duplicates} in the "
        "input counts: write times as 2026-05-01 09:30:00, or sort the input by time and leave that column out"
    ]


def as_votes(source: Votes | Source | Opened, reading: Reading = PLAIN_READING, *, study: str | None = None) -> Votes:
    """Return votes unchanged, and read anything else; options of reading are refused for votes.

    A `study` is the name of a function that needs its votes in memory, with one label each.
    """
    opened = Opened.of(source)
    if study is not None:
        from adjudge.io.sets import SetVotes

        if opened.home == "spark":
            raise InputError(
                f"{study} is not run on Spark: call adj.{study}(frame.toArrow()), on the votes of some tasks if not all fit "
                "in memory"
            )
        if isinstance(opened.source, SetVotes):
            raise InputError(f"{study} is for votes with one label: give one yes/no vote per task and option")
    if isinstance(opened.source, Votes):
        if reading != PLAIN_READING:
            reading.refuse("read")
        return opened.source
    return read_votes(opened, reading)


def questions_of(source: Source, *, multi: bool = False, **options: Unpack[ReadOptions]) -> tuple[str, ...]:
    """Return the questions of an export, as `question` takes them; an ordinary table has none, which is an error.

    Warn of questions whose answers are numbers, which are left out: they are scores, not labels.
    """
    from adjudge.io.formats.export import SeveralQuestions

    try:
        table = open_table(source, dict.fromkeys(VOTE_ROLES), Reading.of(options), sets=multi)
    except SeveralQuestions as several:
        labelled = tuple(question for question in several.questions if question not in several.scored)
        if not labelled:
            raise
        if several.scored:
            warn(f"left out: {itemize(several.scored)}, whose answers are numbers: `adjudge scores` weighs them", SuspiciousVotes)
        return labelled
    if table.question is None:
        raise OptionError("question is for exports of annotation tools that have questions: leave it out")
    return (table.question,)


def warn_suspicious(messages: Iterable[str], *, strict: bool = False) -> None:
    """Warn of every sign (`SuspiciousVotes`); the first is an error where the caller is strict."""
    for message in messages:
        if strict:
            raise InputError(f"{message} (strict)")
        warn(message, SuspiciousVotes)


def count_repeats(
    task_ptr: NDArray[np.int64],  # [tasks + 1]
    row: NDArray[np.uint32],  # [votes]
    row_worker: NDArray[np.uint32],  # [rows]
) -> int:
    """Return the number of votes that are not the first of their worker on their task.

    Within a task votes are sorted by row, and so by worker.

    >>> count_repeats(np.array([0, 3, 4]), np.array([0, 1, 2, 1], np.uint32), np.array([0, 0, 1], np.uint32))
    1
    """
    core = compiled()
    if core is not None and row.flags.c_contiguous and task_ptr.flags.c_contiguous:
        return int(core.repeats(task_ptr, row, row_worker, cores()))
    return count_repeats_reference(task_ptr, row, row_worker)


def count_repeats_reference(task_ptr: NDArray[np.int64], row: NDArray[np.uint32], row_worker: NDArray[np.uint32]) -> int:
    """Return what `repeats_in` does: the definition, in NumPy."""
    total, begins = 0, np.zeros(len(row) + 1, np.bool_)  # of a task
    begins[task_ptr] = True
    for start in range(0, len(row), SCAN_CHUNK_VOTES):
        worker = row_worker[row[start : start + SCAN_CHUNK_VOTES + 1]]
        same = worker[1:] == worker[:-1]
        same &= ~begins[start + 1 : start + 1 + len(same)]
        total += int(np.count_nonzero(same))
    return total


def find_signs(votes: Votes, columns: Mapping[str, str], *, repeated: int, declared: bool, has_workers: bool) -> Iterator[str]:
    """Yield the signs that votes of these columns were misread; labels that were declared are as they are meant.

    `repeated` is the number of votes that repeat others; `has_workers` says whether votes say who gave them.
    """
    n, seen = len(votes), int(votes.given_labels().sum())
    if n >= MIN_CHECKED_VOTES and n == votes.n_tasks:
        yield (
            f"every one of {n} tasks has one vote, so no vote can be compared with another: is {_spell(columns, 'task', 'this')} "
            "the task? (task=…, --task)"
        )
    if n >= MIN_CHECKED_VOTES and seen > MAX_LABELS_PER_VOTE * n:
        what = "every vote has a label of its own" if seen == n else f"there are {seen} labels in {n} votes"
        yield f"{what}: is {_spell(columns, 'label', 'this')} the label? (label=…, --label)"
    elif n >= MIN_CHECKED_VOTES and seen > 1 and never_differ(votes):
        yield (
            f"no task with several votes has two different ones: is {_spell(columns, 'label', 'this')} what workers said, "
            "or does it describe the task? (label=…, --label)"
        )
    if has_workers and votes.duplicates == "all" and n >= MIN_CHECKED_VOTES and repeated > MAX_REPEATED_VOTE_SHARE * n:
        yield (
            f"{repeated} votes repeat their worker's vote on a task: is a task more than {_spell(columns, 'task', 'this')} "
            "(then make one column of what identifies it), or should one of them count? (duplicates='last', --duplicates last)"
        )
    if not declared:
        yield from _signs(votes, seen)
        yield from _spellings(votes)


def never_differ(votes: Votes) -> bool:
    """Return whether votes on one task never differ, though many tasks have several.

    >>> import adjudge as adj
    >>> never_differ(adj.read([(task, worker, task % 2) for task in range(20) for worker in "ab"]))  # too few to tell
    False
    """
    several = 0
    for _, ptr, row in votes.parts():
        begins = np.zeros(len(row) + 1, np.bool_)
        begins[ptr] = True
        start, size = 0, FIRST_SCAN_VOTES
        while start < len(row):
            label = votes.row_label[row[start : start + size + 1]]
            if ((label[1:] != label[:-1]) & ~begins[start + 1 : start + len(label)]).any():
                return False
            start, size = start + size, SCAN_CHUNK_VOTES
        several += int(np.count_nonzero(np.diff(ptr) > 1))
    return several >= MIN_TASKS


def _spellings(votes: WorkerRows) -> Iterator[str]:
    """Yield what is odd about the texts of labels."""
    given = np.flatnonzero(votes.given_labels())
    if not 1 < len(given) <= MAX_SPELLINGS:
        return
    labels = votes.labels.take(given)
    if labels.kind == "integer":
        numbers = set(labels.values.tolist())
        if min(numbers) == -1 and numbers != {-1, 1}:
            yield _abstention(["-1"], "-1")
        return
    if labels.kind == "boolean":
        return
    texts = labels.texts()
    is_plain = all(map(PLAIN_NAME_PATTERN.fullmatch, texts))  # then every label is its own normal form
    forms = texts if is_plain else normalize_texts(texts)
    if len(set(forms)) < len(forms):
        groups = pl.DataFrame({"form": forms, "text": texts}).group_by("form", maintain_order=True).agg("text")
        alike = groups.filter(pl.col("text").list.len() > 1)["text"].to_list()
        examples = "; ".join(
            " and ".join(quote(text) for text in some[:MAX_MESSAGE_EXAMPLES]) for some in alike[:MAX_MESSAGE_EXAMPLES]
        )
        yield f"labels differ only in case, white space or '.0' ({examples}): normalize=True (--normalize) joins them"
    words = [text for text, form in zip(texts, forms, strict=True) if form in ABSTENTIONS]
    if words:
        yield _abstention([repr(word) for word in words], ",".join(words))
    for mark in SET_SEPARATORS:
        joined = _sets(texts, mark)
        if joined:
            more = "" if mark == SET_SEPARATOR else f" with set_separator={mark!r} (--set-separator)"
            yield (
                f"{len(joined)} labels look like sets of options ({itemize(joined, MAX_MESSAGE_EXAMPLES)}): "
                f"multi=True (--multi){more} takes them as such"
            )


def _abstention(values: Sequence[str], typed: str) -> str:
    several = len(values) > 1
    return (
        f"the label{'s' if several else ''} {', '.join(values)} look{'' if several else 's'} like abstentions: "
        f"abstain=[{', '.join(values)}] (--abstain {quote(typed)}) makes them so, labels=[…] says that they are labels"
    )


def _sets(texts: Sequence[str], mark: str) -> list[str]:
    """Return labels that are joined by a mark, where the parts of all of them are options that come again."""
    joined = [text for text in texts if mark in text]
    if len(joined) < MIN_SETS or any(text.startswith(("[", "{")) for text in joined):  # JSON has commas of its own
        return []
    known = frozenset(texts)
    parts = Counter(part.strip(WHITE_SPACE) for text in joined for part in text.split(mark))
    return joined if all(times > 1 or part in known for part, times in parts.items()) else []


def find_repeated_paths(paths: Sequence[Path] | None) -> Iterator[str]:
    """Yield a sign for every file that is given twice, even under another name."""
    seen: dict[tuple[int, int], Path] = {}
    for path in paths if paths is not None and len(paths) > 1 else ():
        try:
            status = os.stat(path)  # noqa: PTH116
        except OSError:
            continue  # reading says why
        first = seen.setdefault((status.st_dev, status.st_ino), path)
        if first is not path:
            other = "" if str(first) == str(path) else f" (it is {first})"
            yield f"{path}{other} is named twice, so its votes count twice: name it once"


def find_ignored_column(column: str | None) -> Iterator[str]:
    """Yield a sign where a column that looks like weights or counts was not used.

    >>> next(find_ignored_column("confidence"))
    "the column 'confidence' is not used: aggregate counts votes by it with weight='confidence' (--weight 'confidence')"
    >>> next(find_ignored_column("count"))
    "the column 'count' is not used: if a line stands for several votes, say count='count' (--count 'count')"
    """
    if column is None:
        return
    name = quote(column)
    if normalize_name(column) in COUNT_NAMES:
        yield f"the column {name} is not used: if a line stands for several votes, say count={name} (--count {name})"
    else:
        yield f"the column {name} is not used: aggregate counts votes by it with weight={name} (--weight {name})"


def find_unmatched(
    what: str, tasks: tuple[int, int, int], theirs: Iterable[object], ours: Iterable[object], among: str = "votes"
) -> Iterator[str]:
    """Yield a sign where few tasks of gold or truth are among those of the votes; raise if none is.

    `tasks` are numbers: of the gold, of the votes, of both; few are less than half of the smaller of the two. `theirs` and
    `ours` are examples.
    """
    given, here, matched = tasks
    if 2 * matched >= min(given, here):
        return
    listed_theirs, listed_ours = (itemize(map(quote, tasks), MAX_MESSAGE_EXAMPLES) for tasks in (theirs, ours))
    some = f"the {what} has tasks like {listed_theirs}, the {among} like {listed_ours}"
    if not matched:
        raise InputError(f"none of the {given} tasks of the {what} has {among}: {some}; use the same ids for both")
    yield f"{given - matched} of the {given} tasks of the {what} have no {among}: {some}"


def _spell(columns: Mapping[str, str], role: str, otherwise: str) -> str:
    return quote(columns[role]) if role in columns else otherwise


def _signs(votes: Votes, seen: int) -> Iterator[str]:
    """Yield what labels look like, where names of labels seldom do; raise if they can be nothing else.

    `seen` labels were given.
    """
    given = votes.labels.take(np.flatnonzero(votes.given_labels()))
    if given.kind == "integer" and seen >= MANY_NUMBERS and _measure(votes):
        yield (
            f"the labels are {seen} different whole numbers, and votes on one task are near each other, as measurements are; "
            f"{NUMBERS_UNSUPPORTED}; {MEANT}"
        )
    if given.kind != "string" or not len(given):
        return
    some = given if seen <= MAX_TEXTS else given.take(np.arange(MAX_TEXTS))
    texts = [text.strip(WHITE_SPACE) for text in some.texts()]
    yield from _written_as_json(texts)
    yield from _decimals(texts)
    yield from _rankings(texts)
    if seen >= MANY_TEXTS and len(votes) < FEW_VOTES * seen:
        long = [text for text in texts if text.count(" ") >= MIN_WORDS - 1]
        if 2 * len(long) > len(texts):
            yield (
                f"{seen} different texts in {len(votes)} votes look like free text ({itemize(long, 2)}), which adjudge "
                f"does not merge: {NAMES_ONLY}; sort them into a few labels first"
            )


def boxes_as_sets(sets: pl.Series) -> Iterator[str]:
    """Yield a sign where every set of options, of lists of texts, has four of many whole numbers."""
    options = sets.explode().drop_nulls().unique()
    if len(options) > MAX_SCALE_STEPS and (sets.list.len() == CORNERS).all() and options.str.contains("^-?[0-9]+$").all():
        yield f"every vote has four of {len(options)} whole numbers, which looks like boxes, but {NAMES_ONLY}; {MEANT}"


def _measure(votes: Votes) -> bool:
    """Return whether votes on one task that differ are near each other, compared with votes of any two tasks."""
    values = votes.labels.values.astype(np.int64)
    for _, ptr, row in votes.parts():
        label = values[votes.row_label[row[:SAMPLE_VOTES]]]
        begins = np.zeros(len(label) + 1, np.bool_)
        begins[ptr[ptr <= len(label)]] = True
        apart = np.abs(np.diff(label))[~begins[1 : len(label)]]
        anywhere = np.abs(label - np.roll(label, int(0.382 * len(label))))
        apart, anywhere = apart[apart > 0], anywhere[anywhere > 0]
        if len(apart) >= MANY_NUMBERS and len(anywhere):
            return bool(np.median(apart) <= MAX_DISTANCE_RATIO * np.median(anywhere))
    return False


def _written_as_json(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for labels that are JSON lists of options; raise for other lists and for objects."""
    if not all(text.startswith(("[", "{")) for text in texts):
        return
    try:
        found = [json.loads(text) for text in texts[:INSPECTED_VALUES]]
    except (ValueError, RecursionError):
        return
    kinds = [kind_of(value, may_be_set=False) for value in found]
    if kinds[0] is not None and None not in kinds:
        raise InputError(f"the label {quote(texts[0])} {explain(found[0], kinds[0])}")
    if len(texts) >= MIN_JOINED:
        yield f"labels look like sets written as JSON ({itemize(texts, 3)}): multi=True (--multi) takes them as such"


def _decimals(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for a few numbers with decimals, which may be the steps of a scale; raise for many."""
    if not all(map(DECIMAL_PATTERN.fullmatch, texts)):
        return
    broken = [text for text in texts if float(text) % 1 != 0]  # an infinite one, of very many digits, is not whole either
    message = f"{len(broken)} labels are numbers with decimals ({itemize(broken, 3)}); {NUMBERS_UNSUPPORTED}; {MEANT}"
    if len(broken) > MAX_SCALE_STEPS:
        raise InputError(message)
    if broken:
        yield message


def _rankings(texts: Sequence[str]) -> Iterator[str]:
    """Yield a sign for labels that order the same items differently."""
    if len(texts) < MIN_JOINED or not all(">" in text for text in texts):
        return
    orders = {tuple(sorted(part.strip() for part in text.split(">"))) for text in texts}
    if len(orders) == 1 and len(next(iter(orders))) > 2:
        yield (
            f"labels look like rankings ({itemize(texts, 3)}), which are not labels: make a comparison of every pair, "
            "and give these to adj.rank (adjudge rank)"
        )
