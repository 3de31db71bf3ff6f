"""Signs that votes were not read as they were meant, found in codes and dictionaries, and what would put each right.

Nothing here looks at a text per vote: the checks of labels read the dictionary of labels, those of tasks read codes, and end
at the first task that refutes them. docs/reading-votes.md lists all of them with their thresholds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import SET_SEPARATOR
from adjudge.data.votes import Panel, Votes
from adjudge.errors import InputError, SuspiciousVotes, listed, shown, warn
from adjudge.io import not_votes
from adjudge.io.columns import COUNT, plain
from adjudge.io.not_votes import WHITE_SPACE
from adjudge.io.shapes import normal_forms
from adjudge.kernels.cpu import compiled

MIN_VOTES: Final = 20  # fewer votes than these may look like anything
MIN_TASKS: Final = 30  # with several votes each, before perfect agreement is remarkable
MANY_LABELS: Final = 0.5  # labels per vote
MANY_REPEATS: Final = 0.25  # of the votes
MAX_SPELLINGS: Final = 100_000  # labels whose spelling is looked at
SOME: Final = 5  # examples in a message
MIN_SETS: Final = 3  # labels that look like sets
SET_SEPARATORS: Final = (SET_SEPARATOR, ",", ";")
FIRST: Final = 1 << 12  # votes looked at first: most votes show a disagreement soon
CHUNK: Final = 1 << 17  # votes looked at at once
WORDS: Final = "na n/a nan null none nil ignore ignored refuse refused refusal skip skipped abstain abstained"  # of abstentions
ABSTENTIONS: Final = frozenset(["", *WORDS.split()])


def warn_suspicious(messages: Iterable[str], *, strict: bool = False) -> None:
    """Warn of every sign (`SuspiciousVotes`); the first is an error where the caller is strict."""
    for message in messages:
        if strict:
            raise InputError(f"{message} (strict)")
        warn(message, SuspiciousVotes)


def repeats(votes: Votes) -> int:
    """Return the number of votes that are not the first of their worker on their task.

    >>> import adjudge as adj
    >>> repeats(adj.read([("t", "ann", "x"), ("t", "ann", "y"), ("t", "bob", "x"), ("u", "ann", "x")]))
    1
    """
    worker = votes.row_worker().astype(np.uint32)
    return sum(repeats_in(ptr, row, worker) for _, ptr, row in votes.parts())


def repeats_in(
    task_ptr: NDArray[np.int64],  # [tasks + 1]
    row: NDArray[np.uint32],  # [votes]
    row_worker: NDArray[np.uint32],  # [rows]
) -> int:
    """Return what `repeats` does, of arrays; within a task votes are sorted by row, and so by worker."""
    core = compiled()
    if core is not None and row.flags.c_contiguous and task_ptr.flags.c_contiguous:
        return int(core.repeats(task_ptr, row, row_worker, os.cpu_count() or 1))
    return repeats_defined(task_ptr, row, row_worker)


def repeats_defined(task_ptr: NDArray[np.int64], row: NDArray[np.uint32], row_worker: NDArray[np.uint32]) -> int:
    """Return what `repeats_in` does: the definition, in NumPy."""
    total, begins = 0, np.zeros(len(row) + 1, np.bool_)  # of a task
    begins[task_ptr] = True
    for start in range(0, len(row), CHUNK):
        worker = row_worker[row[start : start + CHUNK + 1]]
        same = worker[1:] == worker[:-1]
        same &= ~begins[start + 1 : start + 1 + len(same)]
        total += int(np.count_nonzero(same))
    return total


def suspicions(votes: Votes, columns: Mapping[str, str], *, repeated: int, declared: bool, has_workers: bool) -> Iterator[str]:
    """Yield the signs that votes of these columns were misread; labels that were declared are as they are meant.

    `repeated` is the number of votes that repeat others; `has_workers` says whether votes say who gave them.
    """
    n, seen = len(votes), int(votes.given_labels().sum())
    if n >= MIN_VOTES and n == votes.n_tasks:
        yield (
            f"every one of {n} tasks has one vote, so no vote can be compared with another: is {_named(columns, 'task', 'this')} "
            "the task? (task=…, --task)"
        )
    if n >= MIN_VOTES and seen > MANY_LABELS * n:
        what = "every vote has a label of its own" if seen == n else f"there are {seen} labels in {n} votes"
        yield f"{what}: is {_named(columns, 'label', 'this')} the label? (label=…, --label)"
    elif n >= MIN_VOTES and seen > 1 and never_differ(votes):
        yield (
            f"no task with several votes has two different ones: is {_named(columns, 'label', 'this')} what workers said, "
            "or does it describe the task? (label=…, --label)"
        )
    if has_workers and votes.duplicates == "all" and n >= MIN_VOTES and repeated > MANY_REPEATS * n:
        yield (
            f"{repeated} votes repeat their worker's vote on a task: is a task more than {_named(columns, 'task', 'this')} "
            "(then make one column of what identifies it), or should one of them count? (duplicates='last', --duplicates last)"
        )
    if not declared:
        yield from not_votes.signs(votes, seen)
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
        start, size = 0, FIRST
        while start < len(row):
            label = votes.row_label[row[start : start + size + 1]]
            if ((label[1:] != label[:-1]) & ~begins[start + 1 : start + len(label)]).any():
                return False
            start, size = start + size, CHUNK
        several += int(np.count_nonzero(np.diff(ptr) > 1))
    return several >= MIN_TASKS


def _spellings(votes: Panel) -> Iterator[str]:
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
    forms = normal_forms(texts)
    if len(set(forms)) < len(forms):
        groups = pl.DataFrame({"form": forms, "text": texts}).group_by("form", maintain_order=True).agg("text")
        alike = groups.filter(pl.col("text").list.len() > 1)["text"].to_list()
        examples = "; ".join(" and ".join(shown(text) for text in some[:SOME]) for some in alike[:SOME])
        yield f"labels differ only in case, white space or '.0' ({examples}): normalize=True (--normalize) joins them"
    words = [text for text, form in zip(texts, forms, strict=True) if form in ABSTENTIONS]
    if words:
        yield _abstention([repr(word) for word in words], ",".join(words))
    for mark in SET_SEPARATORS:
        joined = _sets(texts, mark)
        if joined:
            more = "" if mark == SET_SEPARATOR else f" with set_separator={mark!r} (--set-separator)"
            yield (
                f"{len(joined)} labels look like sets of options ({listed(joined, SOME)}): multi=True (--multi){more} takes them "
                "as such"
            )


def _abstention(values: Sequence[str], typed: str) -> str:
    several = len(values) > 1
    return (
        f"the label{'s' if several else ''} {', '.join(values)} look{'' if several else 's'} like abstentions: "
        f"abstain=[{', '.join(values)}] (--abstain {shown(typed)}) makes them so, labels=[…] says that they are labels"
    )


def _sets(texts: Sequence[str], mark: str) -> list[str]:
    """Return labels that are joined by a mark, where the parts of all of them are options that come again."""
    joined = [text for text in texts if mark in text]
    if len(joined) < MIN_SETS or any(text.startswith(("[", "{")) for text in joined):  # JSON has commas of its own
        return []
    known = frozenset(texts)
    parts = Counter(part.strip(WHITE_SPACE) for text in joined for part in text.split(mark))
    return joined if all(times > 1 or part in known for part, times in parts.items()) else []


def named_twice(paths: Sequence[Path] | None) -> Iterator[str]:
    """Yield a sign for every file that is named a second time, under whatever name."""
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


def ignored_column(column: str | None) -> Iterator[str]:
    """Yield a sign where a column that looks like weights or counts was not used.

    >>> next(ignored_column("confidence"))
    "the column 'confidence' is not used: aggregate counts votes by it with weight='confidence' (--weight 'confidence')"
    >>> next(ignored_column("count"))
    "the column 'count' is not used: where a line stands for several votes, say count='count' (--count 'count')"
    """
    if column is None:
        return
    name = shown(column)
    if plain(column) in COUNT:
        yield f"the column {name} is not used: where a line stands for several votes, say count={name} (--count {name})"
    else:
        yield f"the column {name} is not used: aggregate counts votes by it with weight={name} (--weight {name})"


def unmatched(
    what: str, tasks: tuple[int, int, int], theirs: Iterable[object], ours: Iterable[object], among: str = "votes"
) -> Iterator[str]:
    """Yield a sign where few tasks of gold or truth are among those of the votes; raise where none is.

    `tasks` are numbers: of the gold, of the votes, of both; few are less than half of the smaller of the two. `theirs` and
    `ours` are examples.
    """
    given, here, matched = tasks
    if 2 * matched >= min(given, here):
        return
    some = f"the {what} has tasks like {listed(map(shown, theirs), SOME)}, the {among} like {listed(map(shown, ours), SOME)}"
    if not matched:
        raise InputError(f"none of the {given} tasks of the {what} has {among}: {some}; use the same ids for both")
    yield f"{given - matched} of the {given} tasks of the {what} have no {among}: {some}"


def _named(columns: Mapping[str, str], role: str, otherwise: str) -> str:
    return shown(columns[role]) if role in columns else otherwise
