"""Tables of other shapes as one vote per line: a column per worker (wide), counts of votes; labels that are no votes.

A `Layout` says how a table is laid out, as the caller does. A `Shape` is what follows for the columns of one table: which are
read, and how their lines become votes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

import numpy as np
import polars as pl

from adjudge.data.understood import ABSENT, workers_in_words
from adjudge.data.vocabulary import text_of
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.io.columns import COUNT, OPTIONAL, WEIGHT, family, find, is_other, is_usual, plain
from adjudge.io.ids import prepared

Wanted = Mapping[str, str | None]  # role -> the column the caller named, if any
ANYBODY: Final = ""  # as the worker's column: it may be absent
UNNAMED: Final = ""  # as the task's column of a wide table: there is none, and lines are called by their numbers
EVERYBODY: Final = "everybody"  # the one worker of votes that do not say who gave them
MAX_COUNTED: Final = 1 << 31  # votes that a column of counts may amount to
SIMPLE: Final = re.compile("[a-z0-9_-]+")  # a name without capitals, white space and decimals
CELL: Final = "worker {}"  # the role of a worker's column in a wide table


@dataclass(frozen=True)
class Layout:
    """How a table is laid out, where that does not show; see `adjudge.read` for every option."""

    separator: str | None = None
    header: bool = True
    wide: bool = False
    count: str | None = None
    abstain: frozenset[str] = frozenset()  # texts of labels
    normalize: bool = False
    spelling: Mapping[str, str] = field(default_factory=dict)  # normal form -> the declared label
    weight: str | None = None  # the column of what a vote counts
    format: str = "auto"
    question: str | None = None
    predictions: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for."""
        return self == Layout()

    @property
    def table_option(self) -> str | None:
        """An option that is given and says how the lines of an ordinary table are laid out; no export is recognised then."""
        given = {"wide": self.wide, "count": self.count is not None, "separator": self.separator is not None}
        return next((name for name, is_given in {**given, "header": not self.header}.items() if is_given), None)

    def cleaned(self, batch: pl.DataFrame, role: str = "label") -> pl.DataFrame:
        """Return a batch whose labels are normalised, and missing where they are words for abstentions."""
        if not (self.abstain or self.normalize) or role not in batch.columns or isinstance(batch[role].dtype, pl.List):
            return batch
        label = batch[role]
        if label.dtype in (pl.Categorical, pl.Enum):
            label = label.cast(pl.String)
        if self.normalize and label.dtype == pl.String:
            label = normal(label)
        if self.abstain:
            texts = prepared(label, role).cast(pl.String) if label.dtype != pl.String else label
            out = {*self.abstain, *normal(pl.Series(list(self.abstain)))} if self.normalize else self.abstain
            where = texts.is_in(list(out)).fill_null(False)
            label = label.set(where, None) if where.any() else label
        if self.spelling and label.dtype == pl.String:
            label = label.replace(dict(self.spelling))
        return batch.with_columns(label.alias(role))


PLAIN: Final = Layout()


def layout_of(
    *,
    wide: bool = False,
    count: str | None = None,
    weight: str | None = None,
    abstain: object = None,
    normalize: bool = False,
    separator: str | None = None,
    header: bool = True,
    format: str = "auto",  # noqa: A002
    question: str | None = None,
    predictions: bool = False,
    labels: Sequence[object] | None = None,
) -> Layout:
    """Return the layout that options describe; nonsense is an error."""
    for name, column in (("count", count), ("weight", weight)):
        if wide and column is not None:
            raise OptionError(f"wide=True and {name}=… do not go together: a wide table has one vote per cell")
        if column is not None and not isinstance(column, str):
            raise OptionError(f"{name} is {shown(column)}: name the column of {name}s")
    if separator is not None and (not isinstance(separator, str) or len(separator.encode()) != 1):
        raise OptionError(f"separator is {shown(separator)}: give one character, like ';' or a tab")
    spelling = {}
    if normalize and labels is not None:
        texts = [text_of(label) for label in labels]
        forms = normal_forms(texts)
        if len(set(forms)) < len(forms):
            twice = next(text for n, text in enumerate(texts) if forms[n] in forms[:n])
            raise OptionError(f"labels name {shown(twice)} in two spellings, which normalize=True joins: leave one out")
        spelling = dict(zip(forms, texts, strict=True))
    more = (weight, format, question, bool(predictions))
    return Layout(separator, bool(header), bool(wide), count, _abstentions(abstain), bool(normalize), spelling, *more)


def _abstentions(given: object) -> frozenset[str]:
    """Return the labels that are abstentions, as texts: one, or several."""
    if given is None:
        return frozenset()
    if isinstance(given, str | int | float | np.generic):
        given = [given]
    if not isinstance(given, Iterable):
        raise OptionError(f"abstain is {shown(given)}: give the labels that are abstentions, like ['NA', 'skip'] or -1")
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in given]
    return frozenset(text_of(value) for value in whole)


def normal(labels: pl.Series) -> pl.Series:
    """Return labels without what hardly distinguishes two: case, white space around and repeated within, ".0" of numbers.

    >>> normal(pl.Series(["Cat ", "new  York", "1.0"])).to_list()
    ['cat', 'new york', '1']
    """
    form = (
        pl.col("label")
        .str.normalize("NFC")
        .str.strip_chars()
        .str.replace_all(r"\s+", " ")
        .str.to_lowercase()
        .str.replace(r"^(-?[0-9]+)\.0+$", "${1}")
    )
    return labels.to_frame("label").select(form).to_series().alias(labels.name)  # in one query: each costs more than few labels


def normal_forms(labels: Sequence[str]) -> list[str]:
    """Return the normal form of every label; simple names are their own, and polars need not be asked.

    >>> normal_forms(["cat", "dog_2"]), normal_forms(["cat", "Dog "])
    (['cat', 'dog_2'], ['cat', 'dog'])
    """
    if all(map(SIMPLE.fullmatch, labels)):
        return list(labels)
    return normal(pl.Series(labels, dtype=pl.String)).to_list()


@dataclass(frozen=True)
class Shape:
    """Which columns of a table are read, under which roles, and how they become votes."""

    columns: dict[str, str]  # role -> column
    workers: tuple[Any, ...] = ()  # of a wide table, in the order of their columns
    is_counted: bool = False
    is_anonymous: bool = False  # whether votes do not say who gave them
    is_numbered: bool = False  # whether tasks have no column: they are lines, called by their numbers from 0 on
    layout: Layout = PLAIN
    ignored: str | None = None  # a column that looks like weights or counts, where no column was named as such

    @property
    def has_workers(self) -> bool:
        """Whether votes say who gave them."""
        return not self.is_anonymous

    def told(self) -> dict[str, str]:
        """Return the columns as `Understood` tells them."""
        if not self.workers:
            columns = {role: str(name) for role, name in self.columns.items()}
            return {"task": columns["task"], "worker": ABSENT} | columns if self.is_anonymous else columns
        return {"task": str(self.columns.get("task", "row")), "workers": workers_in_words(self.workers)}

    def votes(self, batch: pl.DataFrame, first_row: int = 0) -> pl.DataFrame:
        """Return a batch of the table, its columns named by role, as one vote per line; `first_row` lines came before."""
        if self.is_numbered and "task" not in batch.columns:
            batch = batch.with_columns(pl.int_range(first_row, first_row + pl.len(), dtype=pl.Int64).alias("task"))
        if self.workers:
            batch = _unpivoted(batch, self.workers)
        elif self.is_counted:
            batch = _repeated(batch, first_row)
        if self.is_anonymous:
            batch = batch.with_columns(pl.lit(EVERYBODY).alias("worker"))
        return self.layout.cleaned(batch)


def shape_of(columns: Sequence[str], wanted: Wanted, layout: Layout, where: str) -> Shape:
    """Return the shape of a table with these columns."""
    giver = "judge" if "judge" in wanted else "worker"
    may_be_absent = wanted.get(giver) == ANYBODY and ANYBODY not in columns
    if may_be_absent:
        wanted = {**wanted, giver: None}
    if wanted.get("cluster") == ANYBODY:
        there = layout.header and any(is_usual(c, "cluster") for c in columns if c not in wanted.values())
        wanted = {role: None if role == "cluster" else name for role, name in wanted.items() if there or role != "cluster"}
    if layout.wide:
        return _wide(columns, wanted, layout, where)
    if not layout.header:
        wanted = _by_number([c for c in columns if c != layout.weight], wanted, where, giver if may_be_absent else None)
    named = {"weight": layout.weight, "count": layout.count}
    counted = {**wanted, **{role: name for role, name in named.items() if name is not None}}
    may_be_absent |= layout.count is not None and wanted.get("worker") is None
    try:
        found = find(columns, counted, where)
    except InputError:
        in_doubt = giver == "judge" and any(is_usual(c, giver) for c in columns if c not in wanted.values())
        if not may_be_absent or in_doubt:  # a judge is never dropped because there are two candidates
            raise
        found = find(columns, {role: name for role, name in counted.items() if role != giver}, where)
    anonymous, ignored = "worker" in wanted and "worker" not in found, _ignored(columns, found)
    return Shape(found, is_counted=layout.count is not None, is_anonymous=anonymous, layout=layout, ignored=ignored)


def _ignored(columns: Sequence[str], found: Mapping[str, str]) -> str | None:
    """Return the first column that looks like weights or counts and has no role, unless another column is that."""
    names = WEIGHT if "count" in found else COUNT if "weight" in found else WEIGHT | COUNT
    return next((c for c in columns if plain(c) in names and c not in found.values()), None)


def _by_number(columns: Sequence[str], wanted: Wanted, where: str, absent: str | None) -> Wanted:
    """Return the columns of a table without header, which are called 1, 2, …: all roles in order, or as the caller says.

    `absent` is the role whose column may not be there: it is not where there is one column less.
    """
    given = {role: None if name is None else str(name) for role, name in wanted.items()}
    roles = [role for role in wanted if role not in OPTIONAL]
    if any(name is not None for name in given.values()):
        return given
    if len(columns) == len(roles) - 1 and absent is not None:
        roles.remove(absent)
    if len(columns) != len(roles):
        options = ", ".join(f"{'worker' if role == 'judge' else role}=…" for role in roles)
        hint = "; where there is one column per worker: wide=True (--wide)" if len(columns) > len(roles) else ""
        raise InputError(
            f"{where}: the {len(columns)} columns without a header are called 1, 2, …: say which with {options}{hint}"
        )
    return {**wanted, **dict(zip(roles, columns, strict=True))}


def _wide(columns: Sequence[str], wanted: Wanted, layout: Layout, where: str) -> Shape:
    """Return the shape of a table with one column per worker: those the caller names, a family, or all but the task."""
    if wanted.get("label") is not None:
        raise OptionError("with wide=True the labels are the cells: leave label out, and name the workers' columns with worker=…")
    if not layout.header and wanted.get("task") is None:
        raise InputError(
            f"{where}: a wide table without header does not say which column is the task: say which with task='1' (--task 1), "
            "or, where every column is a worker's and lines have no names, task='' (--task '') calls them by their numbers"
        )
    named = wanted.get("worker")
    if named is not None:
        patterns = [part.strip() for part in str(named).split(",")]
        workers = [c for c in columns if c == named or any(fnmatchcase(str(c), pattern) for pattern in patterns)]
        if not workers:
            raise InputError(f"{where}: no column matches worker={shown(named)}; the columns are: {listed(columns, 40)}")
    else:
        workers = family(columns)
    task = None
    if wanted.get("task") != UNNAMED or UNNAMED in columns:
        left = [c for c in columns if c not in workers or c == wanted.get("task")]
        if wanted.get("task") is None and not any(is_usual(c, "task") for c in left):
            raise InputError(
                f"{where}: no column looks like the task; say which with task=… (--task on the command line); where lines have "
                f"no name: task='' (--task '') calls them by their numbers (the columns are: {listed(columns, 40)})"
            )
        task = find(left, {"task": wanted.get("task")}, where)["task"]
    if not workers:
        workers = [c for c in columns if c != task]
        doubtful = [c for c in workers if is_other(c)]
        if doubtful:
            raise InputError(
                f"{where}: with wide=True every column but the task is a worker, but {listed(doubtful)} do not look so: "
                "name the columns of workers with worker='judge_*' or worker='ann,bob' (--worker)"
            )
    workers = [c for c in workers if c != task]
    if not workers:
        raise InputError(f"{where}: with wide=True there is one column per worker; the columns are: {listed(columns, 40)}")
    roles = {CELL.format(n): name for n, name in enumerate(workers)}
    named_too = roles if task is None else {"task": task} | roles
    return Shape(named_too, tuple(workers), is_numbered=task is None, layout=layout)


def _unpivoted(batch: pl.DataFrame, workers: Sequence[Any]) -> pl.DataFrame:
    """Return the cells of a wide table as votes, line by line; an empty cell is none, a line without votes stays as one."""
    cells = [prepared(batch[CELL.format(n)], "label") for n in range(len(workers))]
    kinds = {cell.dtype for cell in cells if cell.null_count() < len(cell)}
    target = kinds.pop() if len(kinds) == 1 else pl.String()
    plain = [_text(cell) if target == pl.String() else cell.cast(target) for cell in cells]
    names = pl.Series("worker", list(workers), dtype=pl.Int64 if all(type(w) is int for w in workers) else pl.String)
    n, width = len(batch), len(workers)
    grid = pl.DataFrame([cell.alias(str(at)) for at, cell in enumerate(plain)])
    labels = grid.select(pl.concat_list(pl.all()).alias("label"))["label"].explode() if n else pl.Series([], dtype=target)
    index = np.arange(n * width)
    long = pl.DataFrame(
        {
            "task": batch["task"].gather(pl.Series(index // width)),
            "worker": names.gather(pl.Series(index % width)),
            "label": labels,
        }
    )
    empty = grid.select(pl.all_horizontal(pl.all().is_null()).alias("empty"))["empty"].to_numpy()
    silent = np.zeros((n, width), np.bool_)
    silent[:, :1] = empty[:, None]
    kept = long.filter(pl.col("label").is_not_null() | pl.Series(silent.ravel()))
    if not empty.any():
        return kept
    return kept.with_columns(worker=pl.when(pl.col("label").is_null()).then(_nobody(names)).otherwise("worker"))


def _nobody(workers: pl.Series) -> pl.Expr:
    """Return the worker of lines that nobody voted on, one that is not among these: a whole number, as all of theirs may be."""
    taken = set(workers.cast(pl.String).to_list())
    number = next(-n for n in range(1, len(taken) + 2) if str(-n) not in taken)
    return pl.lit(number if workers.dtype == pl.Int64 else str(number), workers.dtype)


def _text(series: pl.Series) -> pl.Series:
    return series.cast(pl.String)  # booleans become true and false, as everywhere


def _repeated(batch: pl.DataFrame, first_row: int) -> pl.DataFrame:
    """Return the lines of a table of counts, each as many times as it counts."""
    given = batch["count"]
    count = _whole_numbers(given)
    bad = (count.is_null() | (count < 0) | (count > MAX_COUNTED)).fill_null(True).arg_true()
    if len(bad):
        row = int(bad[0])
        raise InputError(f"count in row {first_row + row + 1} is {shown(given[row])}: give a whole number of at least 0")
    if int(count.sum()) > MAX_COUNTED:
        raise InputError(f"the counts amount to {int(count.sum())} votes, beyond {MAX_COUNTED}: divide all of them by a number")
    index = pl.Series(np.repeat(np.arange(len(batch)), count.to_numpy()))
    return batch.drop("count")[index]


def _whole_numbers(given: pl.Series) -> pl.Series:
    """Return counts as whole numbers; null for anything else."""
    if given.dtype == pl.String:
        return given.str.strip_chars().str.replace(r"[.,]0+$", "").cast(pl.Int64, strict=False)
    if given.dtype.is_float():
        odd = (~given.is_finite() | (given != given.round())).fill_null(True)
        return given.set(odd, None).cast(pl.Int64, strict=False)
    return given.cast(pl.Int64, strict=False) if given.dtype.is_integer() else pl.Series([None] * len(given), dtype=pl.Int64)


def separators_in(line: str) -> dict[str, int]:
    """Return how many fields each usual separator makes of a header line.

    >>> list(separators_in('task;"a, b";label').values())
    [2, 3, 1, 1]
    """
    import csv

    return {mark: len(next(csv.reader([line], delimiter=mark), [])) for mark in (",", ";", "\t", "|")}


def is_number(name: str) -> bool:
    """Return whether a text is a number, as no name of a column is."""
    return re.fullmatch(r"\s*-?[0-9]+([.,][0-9]+)?\s*", name) is not None
