"""Which column is the task, the worker, the label: by the names it may have, or as the caller says.

Only names are looked at, never values. A role has names of several ranks: a column of a lower rank is taken where none of a
higher rank is there. Two columns of one rank are two good candidates, and the caller chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from adjudge.data.votes import NO_WORKER_COLUMN, Notes
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io.frames import prepare_ids
from adjudge.io.moments import MOMENT_ROLE, TIMED, number_moments, order_moments
from adjudge.io.reading import PLAIN_READING, Reading, Wanted
from adjudge.io.unsupported import of_columns

# All names are compared in lower case without spaces, dots, dashes and underscores.
TRUE_LABEL: Final = "label truth gold answer trueanswer truelabel goldlabel groundtruth target class category"
WORKER_WORDS: Final = (
    "worker annotator rater user judge labeler labeller participant coder reviewer voter grader assessor evaluator scorer "
    "respondent juror turker crowdworker expert annotatedby labeledby labelledby ratedby judgedby reviewedby completedby"
)
MODEL_WORDS: Final = "model llm agent person email username"
TASK_WORDS: Final = "task question item unit example instance object document sample subject hit datapoint"
CONTENT_WORDS: Final = (
    "text prompt query sentence image picture photo video audio clip tweet post message comment claim statement passage "
    "paragraph utterance conversation dialogue dialog thread article doc page ticket case record entry pair comparison battle "
    "match content input url file filename path snippet phrase word title stimulus product review"
)
LABEL_WORDS: Final = (
    "label answer choice vote annotation rating judgment judgement score grade verdict winner decision preference preferred "
    "opinion ballot stars mark"
)
LABEL_LIKE: Final = "labelname labeltext labelvalue givenlabel workerlabel annotatorlabel crowdlabel noisylabel humanlabel labels"
# Labels that name their question. With the answer to another question in the table, either may be the label.
ASKED_WORDS: Final = "stars score rating grade mark opinion"
WEAK_LABEL: Final = "response category class option value result output sentiment topic tag selection selected outcome"
LABEL_ID: Final = "labelid classid categoryid optionid choiceid"
ROW_WORDS: Final = "index row rownumber rowindex"
SIDES: Final = "model item option response assistant system player candidate answer output completion"  # a and b of a comparison
# Columns that say when a vote was cast, by their last word; whether they hold times of day, their values say.
MOMENT_PATTERN: Final = re.compile(
    r"(.*timestamp|ts|time|datetime|date|datecreated|when|created|updated|submitted|answered|"
    r".*(created|creation|submitted|submit|submission|updated|completed|finished|started|start|end|answered|annotated|labeled|"
    r"labelled|voted|vote|judged|rated|reviewed|recorded|logged|received|accept|accepted|event)(at|on|time|datetime))"
)
# Of several such columns, the first kind orders a worker's votes on a task, and the last kind only without the others.
LATER_MOMENT: Final = re.compile(r".*(submi|complet|finish|^end|answer|annotat|label|vote|judg|rate|review|updat).*")
EARLIER_MOMENT: Final = re.compile(r".*(creat|accept|start|receiv|event).*")


class Rank(NamedTuple):
    """Names that are equally good for a role."""

    names: frozenset[str]
    suffixes: tuple[str, ...] = ("",)  # what may follow such a name: "id" in question_id
    guarded: bool = False  # whether a column is taken only where no other could be meant


def _rank(names: str, *suffixes: str, guarded: bool = False) -> Rank:
    return Rank(frozenset(names.split()), suffixes or ("",), guarded)


def _sides(side: str) -> Rank:
    return _rank(" ".join(word + side for word in SIDES.split()), "", "id", "name")


WORKER_DETAILS: Final = ("email", "login", "model")  # after the word for a worker: they identify one, as an id does
_WORKERS: Final = (_rank(WORKER_WORDS, "", "id", "name", *WORKER_DETAILS), _rank(MODEL_WORDS, "", "id", "name"))
_TRUTHS: Final = (_rank(TRUE_LABEL, "", "id"), _rank(LABEL_WORDS))
_LABELS: Final = (_rank(LABEL_WORDS), _rank(LABEL_LIKE), _rank(WEAK_LABEL, guarded=True))
_CONTENTS: Final = _rank(CONTENT_WORDS, "id"), _rank(f"{CONTENT_WORDS} id uid uuid guid key")
_DESCRIBED: Final = frozenset(f"{WORKER_WORDS} {MODEL_WORDS} {TASK_WORDS} {CONTENT_WORDS}".split())
_SIDES: Final = (_rank(SIDES, "", "id", "name", "text"), _sides("a"), _sides("b"), _sides("1"), _sides("2"))
RANKS: Final[Mapping[str, tuple[Rank, ...]]] = {
    "task": (_rank(TASK_WORDS, "", "id"), *_CONTENTS, Rank(frozenset({"", *ROW_WORDS.split()}))),
    "worker": _WORKERS,
    "excluded worker": _WORKERS,
    "label": (*_LABELS, _rank(LABEL_ID, guarded=True)),
    "group": (_rank("group team family ring cluster", "", "id"),),
    "truth": _TRUTHS,
    "gold label": _TRUTHS,
    "true": (_rank("true truelabel truth", "", "id"),),
    "given": (_rank("given givenlabel answer said label", "", "id"),),
    "count": (_rank("count votes n number weight", "", "id"),),
    "cost": (_rank("cost price fee pay rate", "", "pervote"),),
    "left": (_rank("left leftitem itemleft leftmodel modelleft", "", "id", "name"), _sides("a"), _sides("1"), _rank("a")),
    "right": (_rank("right rightitem itemright rightmodel modelright", "", "id", "name"), _sides("b"), _sides("2"), _rank("b")),
    "winner": (_rank("winner"), _rank("preferred preference better outcome"), _rank(LABEL_WORDS), _rank("chosen result")),
    "judge": _WORKERS,
    "cluster": (_rank("prompt document conversation", "", "id"),),
    "score": (_rank("score rating value grade mark stars"), *_LABELS),
    "gold score": (*_TRUTHS, _rank("value")),
}
# A score next to a label is somebody's confidence in it.
QUALIFIED_STEM: Final[Mapping[str, str]] = {"score": "label"}
# Columns that are neither task nor worker nor label, and so leave no doubt about one that could be.
_OTHER_WORDS: Final = (
    "confidence weight probability certainty split fold batch source language lang country region city ip age gender sex price "
    "cost reward tokens duration when time timestamp date datetime day created updated submitted started finished leadtime "
    "worktime reason rationale explanation notes note remark remarks feedback count votes n number status state version seed "
    "seconds temperature latency meta metadata extra truth gold groundtruth target goldlabel truelabel trueanswer correct"
)
OTHER_NAMES: Final = frozenset(_OTHER_WORDS.split())
# Columns that describe a task or a worker, and so are not rivals of a label that names its question.
DESCRIBING_WORDS: Final = (
    "dataset domain difficulty length round site platform device experience order position turn genre system"
)
# What a column that says how much a vote counts may be called; it is used only where the caller names it.
WEIGHT_NAMES: Final = frozenset({"weight", "weights", "voteweight", "sampleweight", "samplingweight", "confidence", "certainty"})
# What a column that says how many votes a line stands for may be called; likewise.
COUNT_NAMES: Final = frozenset({"count", "counts", "votecount", "nvotes", "numvotes"})
# The last word of such columns: annotation_id, createdAt, lead_time.
OTHER_ENDING: Final = re.compile(
    r"(?:[^A-Za-z0-9](?i:id|at|time|date|timestamp|seconds|ms|url|text|name|email|comment|status)"
    r"|(?<=[a-z])(?:Id|ID|At|Time|Date|Timestamp|Seconds|Ms|Url|URL|Text|Name|Email|Comment|Status))$"
)
# Two things that were compared: a question may come with many such pairs.
COMPARED_ITEM_PATTERN: Final = re.compile(r"(model|system|player|candidate|response|completion|output)(a|b|1|2|left|right)")
# Taken where a column has exactly this name, and not missed where none has.
OPTIONAL_ROLES: Final = frozenset({"confidence", "gold", MOMENT_ROLE})
# Roles of tables whose columns no option names (gold, histories, groups, workers left out, costs).
BY_NAME: Final = frozenset({"gold label", "gold score", "true", "given", "count", "group", "excluded worker", "cost"})
VOTE_ROLES: Final = ("task", "worker", "label")
SCORE_ROLES: Final = ("task", "worker", "score")
REMAINING_COLUMNS: Final = "*"  # as a role: every column that serves no other, under its own name
MIN_FAMILY_COLUMNS: Final = 2  # columns of one family: judge_1, judge_2
SEEN: Final = 1024  # names of columns that need not be looked at again: tables of one kind come one after the other
MAX_LISTED_COLUMNS: Final = 40  # columns in a message: tools export some thirty


def find(columns: Sequence[str], wanted: Mapping[str, str | None], where: str) -> dict[str, str]:
    """Return the column of each wanted role; one that is absent or ambiguous is an error that lists the columns.

    >>> find(["question_id", "annotator", "answer"], {"task": None, "worker": None, "label": None}, "votes.csv")
    {'task': 'question_id', 'worker': 'annotator', 'label': 'answer'}
    >>> find(["task", "cat", "dog"], {"task": None, REMAINING_COLUMNS: None}, "probabilities.csv")
    {'task': 'task', 'cat': 'cat', 'dog': 'dog'}
    """
    named = {role: name for role, name in wanted.items() if name is not None}
    if REMAINING_COLUMNS in wanted and "task" in wanted and "task" in columns:
        named.setdefault("task", "task")  # the others are labels, and a label may be called "item"
    for role, name in named.items():
        if name not in columns:
            raise _error(where, f"there is no column {quote(name)} for the {role}", columns)
    alike = find_family(columns)
    if {named.get("worker"), named.get("label")} <= set(alike):  # what follows would be nonsense
        raise InputError(f"{where}: {_looks_wide(alike)}")
    compared = [c for c in columns if COMPARED_ITEM_PATTERN.fullmatch(normalize_name(c))] or _find_sides(columns)
    if "worker" in wanted and wanted.get("task") is None and len(compared) > 1:
        raise _error(
            where,
            f"votes that compare {itemize(compared)} have no single column for the task; make one that identifies the pair, and "
            f"name it with {_option('task')}; or rank them: adj.rank, adjudge rank",
            columns,
        )
    free = [c for c in columns if c not in named.values()]
    required = [role for role in wanted if role != REMAINING_COLUMNS and role not in OPTIONAL_ROLES]
    found = dict(named)
    for role in required:  # in this order: a column treated as one role cannot take the next
        if role not in named:
            found[role] = _usual(role, [c for c in free if c not in found.values()], columns, wanted, found, where)
    more = [c for c in free if c not in found.values()]
    roles = [*required, *(role for role in named if role not in required)]
    out = {role: found[role] for role in roles} | {
        c: c for c in more if REMAINING_COLUMNS in wanted or (c in OPTIONAL_ROLES and c in wanted)
    }
    if len(set(out.values())) < len(out):
        raise _error(where, f"one column cannot serve two roles: {out}", columns)
    return out


def _find_sides(columns: Sequence[str]) -> list[str]:
    """Return the columns a and b of a table that also has a winner."""
    sides = [c for c in columns if normalize_name(c) in ("a", "b")]
    return sides if len(sides) > 1 and any(_stem(c, rank) for c in columns for rank in RANKS["winner"][:2]) else []


def _error(where: str, message: str, columns: Iterable[object]) -> InputError:
    names = ["'' (without a name)" if str(c) == "" else c for c in columns]
    hint = "; � is a byte that is not UTF-8: name the encoding (encoding='cp1252', --encoding cp1252, for files from Windows)"
    is_garbled = any("�" in str(name) for name in names)
    return InputError(f"{where}: {message}; the columns are: {itemize(names, MAX_LISTED_COLUMNS)}{hint if is_garbled else ''}")


@lru_cache(SEEN, typed=True)
def normalize_name(name: object) -> str:
    """Return a column's name in lower case, without spaces and punctuation.

    >>> normalize_name("Prompt_ID"), normalize_name("")
    ('promptid', '')
    """
    text = re.sub(r"[^a-z0-9]", "", str(name).lower())
    return "" if re.fullmatch(r"unnamed[0-9]*(level[0-9]*)?", text) else text  # as pandas calls a column without name


def is_known(name: object) -> bool:
    """Return whether a column's name says what it holds."""
    return any(_stem(name, rank) is not None for ranks in RANKS.values() for rank in ranks) or is_other(name)


def is_usual(name: object, role: str) -> bool:
    """Return whether a column of this name is one that usually has the role.

    >>> is_usual("Annotator ID", "worker"), is_usual("7", "worker")
    (True, False)
    """
    return any(_stem(name, rank) is not None for rank in RANKS[role])


def is_other(name: object) -> bool:
    """Return whether a column's name says that it is neither task nor worker nor label."""
    text = normalize_name(name)
    return (
        text in OTHER_NAMES or text in ("", "id") or text in CONTENT_WORDS.split() or OTHER_ENDING.search(str(name)) is not None
    )


def find_moments(columns: Iterable[Any], taken: Iterable[Any] = ()) -> list[Any]:
    """Return columns whose names say when a vote was cast, the end of it first, without those that serve as something else.

    >>> find_moments(["task", "worker", "label", "created_at", "submitTime", "work_time"], ["task", "worker", "label"])
    ['submitTime', 'created_at']
    """
    names = {c: normalize_name(c) for c in columns if c not in taken}
    found = [c for c, name in names.items() if MOMENT_PATTERN.fullmatch(name)]
    return sorted(found, key=lambda c: bool(EARLIER_MOMENT.match(names[c])) - bool(LATER_MOMENT.match(names[c])))


def find_family(columns: Iterable[object]) -> list[str]:
    """Return columns that look like one per worker: judge_1, judge_2; rater_a, rater_b; gpt4_label, claude_label.

    >>> find_family(["item", "text", "judge_1", "judge_2"]), find_family(["item", "worker_id", "worker_name"])
    (['judge_1', 'judge_2'], [])
    """
    return list(_family(tuple(map(str, columns))))


@lru_cache(SEEN)
def _family(columns: tuple[str, ...]) -> tuple[str, ...]:
    stems: dict[tuple[str, str], list[str]] = {}
    words = [*WORKER_WORDS.split(), *LABEL_WORDS.split(), "ann", "anno", "lf", "w", "r", "j", "a"]
    for name in columns:
        last = re.split(r"[^a-z0-9]+", name.lower())[1:][-1:]
        if last and last[0] in LABEL_WORDS.split():  # gpt-4o_score
            stems.setdefault((last[0], "of"), []).append(name)
            continue
        parts = [part for part in re.split(r"[^a-z0-9]+|(?<=[a-z])(?=[0-9])", name.lower()) if part]
        if len(parts) != MIN_FAMILY_COLUMNS:
            continue
        head, tail = parts
        if head in words and (tail.isdigit() or len(tail) == 1):
            stems.setdefault((head, "numbered"), []).append(name)
        elif head in words and not is_other(name) and tail not in OTHER_NAMES:
            stems.setdefault((head, "named"), []).append(name)
    least = {"numbered": MIN_FAMILY_COLUMNS, "named": MIN_FAMILY_COLUMNS + 1, "of": MIN_FAMILY_COLUMNS + 1}
    fitting = [found for (_, how), found in stems.items() if len(found) >= least[how]]
    largest: list[str] = max(fitting, key=len, default=[])
    return tuple(largest)


def _looks_wide(alike: Sequence[str]) -> str:
    return f"this looks like one column per worker ({itemize(alike)}): say wide=True (--wide on the command line)"


def _usual(
    role: str, free: Sequence[str], columns: Sequence[str], wanted: Mapping[str, str | None], found: Mapping[str, str], where: str
) -> str:
    by_name = not wanted.keys().isdisjoint(BY_NAME)
    for rank in RANKS[role]:
        stems = {c: stem for c in free if (stem := _stem(c, rank)) is not None}
        stems = {c: stem for c, stem in stems.items() if QUALIFIED_STEM.get(stem) not in stems.values()}
        candidates = list(stems)
        if len(set(stems.values())) == 1 and len(candidates) > 1:  # question and question_id are one candidate: the id
            with_id = [c for c in candidates if normalize_name(c).endswith("id")]
            plain = [c for c in candidates if not normalize_name(c).endswith(WORKER_DETAILS)]
            bare = plain if len(plain) == 1 and normalize_name(plain[0]) in stems.values() else candidates
            candidates = with_id if len(with_id) == 1 else bare
        if candidates and rank.guarded:
            candidates += [c for c in free if c not in candidates and not is_other(c) and not _serves(c, wanted, found)]
        elif role == "label" and len(candidates) == 1 and stems[candidates[0]] in ASKED_WORDS.split():
            candidates += [c for c in free if c not in candidates and _may_answer(c, wanted, found)]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            remedy = "leave the others out" if by_name else f"say which with {_option(role)}"
            raise _error(where, f"the {role} could be any of {itemize(candidates, MAX_LISTED_COLUMNS)}; {remedy}", columns)
    alike = find_family(columns) if role in ("task", "worker", "label") and "worker" in wanted else []
    if alike:
        raise InputError(f"{where}: {_looks_wide(alike)}; else say which is the {role} with {_option(role)}")
    remedy = f"call its column {role.rpartition(' ')[2]!r}" if by_name else f"say which with {_option(role)}"
    hint = "" if by_name else _hint(role, free, columns, wanted, found)
    raise _error(where, f"no column looks like the {role}; {remedy}{hint}", columns)


def _hint(
    role: str, free: Sequence[str], columns: Sequence[str], wanted: Mapping[str, str | None], found: Mapping[str, str]
) -> str:
    """Return what else may be meant by columns among which a role was not found."""
    if said := of_columns(columns):
        return said
    doubtful = [c for c in free if not is_other(c) and not _serves(c, wanted, found)]
    if role == "task" and "worker" in wanted and len(columns) > len(VOTE_ROLES) and not any(map(is_known, columns)):
        return "; if there is one column per worker: wide=True (--wide)"
    if role == "worker":
        counts = [c for c in free if _stem(c, RANKS["count"][0]) is not None]
        if counts:
            return f"; where each line counts votes: count={quote(counts[0])} (--count) and model='mv'"
        if len(doubtful) <= 1:  # the label
            return "; if votes do not name their worker: model='mv' (--model mv)"
        return "; if there is one column per worker: wide=True (--wide)"
    return f", perhaps {quote(doubtful[0])}" if len(doubtful) == 1 and role == "label" else ""


def _serves(column: str, wanted: Mapping[str, str | None], found: Mapping[str, str]) -> bool:
    """Return whether a column fits another wanted role, and so cannot take this one."""
    others = [role for role in wanted if role in RANKS and role not in ("label", "truth")]
    return column in found.values() or any(_stem(column, rank) is not None for role in others for rank in RANKS[role])


def _may_answer(column: str, wanted: Mapping[str, str | None], found: Mapping[str, str]) -> bool:
    """Return whether a column may be the answer to another question: it describes neither task nor worker, nor a side."""
    text = normalize_name(column)
    describes = text in DESCRIBING_WORDS.split() or any(_plain_stem(text, rank) for rank in (*RANKS["group"], *_SIDES))
    head, *tail = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(column)).lower())
    of_another = bool(tail) and head in _DESCRIBED  # annotator_age, task_type
    of_answer = bool(tail) and head not in ("is", "has") and not OTHER_NAMES.isdisjoint((head, *tail))  # score_reason, time_spent
    return not (describes or of_another or of_answer or is_other(column) or _serves(column, wanted, found))


def _stem(name: object, rank: Rank) -> str | None:
    """Return the name of a rank that a column has, without what may follow it; None if it has none."""
    return _plain_stem(normalize_name(name), rank)


@lru_cache(SEEN)
def _plain_stem(text: str, rank: Rank) -> str | None:
    for suffix in rank.suffixes:
        if text.endswith(suffix) and text[: len(text) - len(suffix)] in rank.names:
            return text[: len(text) - len(suffix)]
    return None


def _option(role: str) -> str:
    option = {"truth": "truth_label", "judge": "worker", "score": "label"}.get(role, role)
    return f"{option}=… (--{option.replace('_', '-')} on the command line)"


MAX_NAMED_WORKERS: Final = 6  # columns of workers that a sentence names
ANYBODY: Final = ""  # as the worker's column: it may be absent
UNNAMED: Final = ""  # as the task's column of a wide table: there is none, and lines are called by their numbers
EVERYBODY: Final = "everybody"  # the one worker of votes that do not say who gave them
MAX_COUNTED: Final = 1 << 31  # votes that a column of counts may amount to
CELL: Final = "worker {}"  # the role of a worker's column in a wide table


@dataclass(frozen=True)
class Shape:
    """Which columns of a table are read, under which roles, and how they become votes."""

    columns: dict[str, str]  # role -> column
    workers: tuple[Any, ...] = ()  # of a wide table, in the order of their columns
    is_counted: bool = False
    is_anonymous: bool = False  # whether votes do not say who gave them
    is_numbered: bool = False  # whether tasks have no column: they are lines, called by their numbers from 0 on
    reading: Reading = PLAIN_READING
    cell: str = "label"  # the role of a wide table's cells, "label" or "score"
    ignored: str | None = None  # a column that looks like weights or counts, if no column was named as such
    is_timed: bool = False  # whether columns say when votes were cast
    ordered_by: list[str] = field(default_factory=list)  # the column whose times have ordered votes, once there is one

    def write_to(self, notes: Notes, described: str | None = None) -> None:
        """Note what is known once the columns of a table are: these, and its format if it is described."""
        notes.has_workers, notes.ignored = not self.is_anonymous, self.ignored
        notes.format = notes.export or described or notes.format
        notes.ordered_by = self.ordered_by if self.is_timed else notes.ordered_by
        columns = {role: str(name) for role, name in self.columns.items() if not role.startswith(MOMENT_ROLE)}
        if self.workers:
            columns = {"task": columns.get("task", "row"), "workers": itemize(self.workers, MAX_NAMED_WORKERS)}
        elif self.is_anonymous:
            columns = {"task": columns["task"], "worker": NO_WORKER_COLUMN} | columns
        notes.columns = columns

    def select(self, table: pl.LazyFrame, *, has_blank_lines: bool = False) -> pl.LazyFrame:
        """Return the columns to read, by role, without blank lines."""
        chosen = table.select(pl.col(column).alias(role) for role, column in self.columns.items())
        if self.is_numbered and has_blank_lines:  # before lines are left out
            chosen = chosen.with_row_index("task").cast({"task": pl.Int64})
        blank = pl.all_horizontal(pl.exclude("task").is_null() if self.is_numbered else pl.all().is_null())
        return chosen.filter(~blank) if has_blank_lines else chosen

    def votes(self, batch: pl.DataFrame, first_row: int = 0) -> pl.DataFrame:
        """Return a batch of the table, its columns named by role, as one vote per line; `first_row` lines came before."""
        if self.is_numbered and "task" not in batch.columns:
            batch = batch.with_columns(pl.int_range(first_row, first_row + pl.len(), dtype=pl.Int64).alias("task"))
        if self.workers:
            batch = _unpivot(batch, self.workers, self.cell)
        elif self.is_counted:
            batch = _repeat(batch, first_row)
        if self.is_anonymous:
            batch = batch.with_columns(pl.lit(EVERYBODY).alias("worker"))
        if self.is_timed:
            batch = self._with_moments(batch)
        return self.reading.clean(batch) if self.reading.abstain or self.reading.normalize else batch

    def _with_moments(self, batch: pl.DataFrame) -> pl.DataFrame:
        if self.reading.duplicates == "all":
            return number_moments(batch)
        batch, chosen = order_moments(batch)
        if chosen is not None and not self.ordered_by:
            self.ordered_by.append(str(self.columns[chosen]))
        return batch


def shape_of(columns: Sequence[str], wanted: Wanted, reading: Reading, where: str) -> Shape:
    """Return the shape of a table with these columns."""
    giver = "judge" if "judge" in wanted else "worker"
    if reading.remembered:
        wanted = reading.over(wanted, columns)
    may_be_absent = wanted.get(giver) == ANYBODY and ANYBODY not in columns
    if may_be_absent:
        wanted = {**wanted, giver: None}
    if wanted.get("cluster") == ANYBODY:
        there = reading.header and any(is_usual(c, "cluster") for c in columns if c not in wanted.values())
        wanted = {role: None if role == "cluster" else name for role, name in wanted.items() if there or role != "cluster"}
    absent = next((name for name in reading.show if name not in columns), None)
    if absent is not None and "worker" in wanted:
        raise _error(where, f"there is no column {quote(absent)} to show", columns)
    if reading.wide:
        return _wide(columns, wanted, reading, where)
    if not reading.header:
        wanted = _by_number([c for c in columns if c != reading.weight], wanted, where, giver if may_be_absent else None)
    named = {"weight": reading.weight, "count": reading.count}
    counted = {**wanted, **{role: name for role, name in named.items() if name is not None}}
    may_be_absent |= reading.count is not None and wanted.get("worker") is None
    try:
        found = find(columns, counted, where)
    except InputError:
        in_doubt = giver == "judge" and any(is_usual(c, giver) for c in columns if c not in wanted.values())
        if not may_be_absent or in_doubt:  # a judge is never dropped because there are two candidates
            raise
        found = find(columns, {role: name for role, name in counted.items() if role != giver}, where)
    # A column that looks like weights or counts and has no role, unless another column is that.
    names = WEIGHT_NAMES if "count" in found else COUNT_NAMES if "weight" in found else WEIGHT_NAMES | COUNT_NAMES
    ignored = next((c for c in columns if normalize_name(c) in names and c not in found.values()), None)
    anonymous = "worker" in wanted and "worker" not in found
    is_timed = MOMENT_ROLE in wanted and reading.duplicates != "error" and reading.count is None and not anonymous
    timed = {TIMED.format(n): c for n, c in enumerate(find_moments(columns, found.values()) if is_timed else ())}
    return Shape(
        found | timed,
        is_counted=reading.count is not None,
        is_anonymous=anonymous,
        reading=reading,
        ignored=ignored,
        is_timed=bool(timed),
    )


def _by_number(columns: Sequence[str], wanted: Wanted, where: str, absent: str | None) -> Wanted:
    """Return the columns of a table without header, which are called 1, 2, …: all roles in order, or as the caller says.

    `absent` is the role whose column may not be there: it is not where there is one column less.
    """
    given = {role: None if name is None else str(name) for role, name in wanted.items()}
    roles = [role for role in wanted if role not in OPTIONAL_ROLES]
    if any(name is not None for name in given.values()):
        return given
    if len(columns) == len(roles) - 1 and absent is not None:
        roles.remove(absent)
    if len(columns) != len(roles):
        options = ", ".join(f"{'worker' if role == 'judge' else role}=…" for role in roles)
        hint = "; if there is one column per worker: wide=True (--wide)" if len(columns) > len(roles) else ""
        raise InputError(
            f"{where}: the {len(columns)} columns without a header are called 1, 2, …: say which with {options}{hint}"
        )
    return {**wanted, **dict(zip(roles, columns, strict=True))}


def _wide(columns: Sequence[str], wanted: Wanted, reading: Reading, where: str) -> Shape:
    """Return the shape of a table with one column per worker: those the caller names, a family, or all but the task."""
    if wanted.get("label") is not None or wanted.get("score") is not None:
        raise OptionError("with wide=True the labels are the cells: leave label out, and name the workers' columns with worker=…")
    if not reading.header and wanted.get("task") is None:
        raise InputError(
            f"{where}: a wide table without header does not say which column is the task: say which with task='1' (--task 1), "
            "or, where every column is a worker's and lines have no names, task='' (--task '') calls them by their numbers"
        )
    named = wanted.get("worker")
    if named is not None:
        patterns = [part.strip() for part in str(named).split(",")]
        workers = [c for c in columns if c == named or any(fnmatchcase(str(c), pattern) for pattern in patterns)]
        if not workers:
            raise _error(where, f"no column matches worker={quote(named)}", columns)
    else:
        workers = find_family(columns)
    task = None
    if wanted.get("task") != UNNAMED or UNNAMED in columns:
        left = [c for c in columns if c not in workers or c == wanted.get("task")]
        if wanted.get("task") is None and not any(is_usual(c, "task") for c in left):
            raise _error(
                where,
                f"no column looks like the task; say which with {_option('task')}; where lines have no name: task='' (--task '') "
                "calls them by their numbers",
                columns,
            )
        task = find(left, {"task": wanted.get("task")}, where)["task"]
    if not workers:
        workers = [c for c in columns if c != task]
        doubtful = [c for c in workers if is_other(c)]
        if doubtful:
            raise InputError(
                f"{where}: with wide=True every column but the task is a worker, but {itemize(doubtful)} do not look so: "
                "name the columns of workers with worker='judge_*' or worker='ann,bob' (--worker)"
            )
    workers = [c for c in workers if c != task]
    if not workers:
        raise _error(where, "with wide=True there is one column per worker", columns)
    roles = {CELL.format(n): name for n, name in enumerate(workers)}
    named_too = roles if task is None else {"task": task} | roles
    cell = "score" if "score" in wanted else "label"
    return Shape(named_too, tuple(workers), is_numbered=task is None, reading=reading, cell=cell)


def _unpivot(batch: pl.DataFrame, workers: Sequence[Any], role: str) -> pl.DataFrame:
    """Return the cells of a wide table as votes, line by line; an empty cell is none, a line without votes stays as one."""
    given = [batch[CELL.format(n)] for n in range(len(workers))]
    if role == "score":
        cells = [cell.cast(pl.Float64).fill_nan(None) if cell.dtype.is_numeric() else cell for cell in given]
    else:
        cells = [prepare_ids(cell, role) for cell in given]
    kinds = {cell.dtype for cell in cells if cell.null_count() < len(cell)}
    target = kinds.pop() if len(kinds) == 1 else pl.String()
    plain = [cell.cast(target) for cell in cells]  # booleans become true and false, as everywhere
    names = pl.Series("worker", list(workers), dtype=pl.Int64 if all(type(w) is int for w in workers) else pl.String)
    n, width = len(batch), len(workers)
    grid = pl.DataFrame([cell.alias(str(at)) for at, cell in enumerate(plain)])
    labels = grid.select(pl.concat_list(pl.all()).alias("label"))["label"].explode() if n else pl.Series([], dtype=target)
    index = np.arange(n * width)
    long = pl.DataFrame(
        {
            "task": batch["task"].gather(pl.Series(index // width)),
            "worker": names.gather(pl.Series(index % width)),
            role: labels,
        }
    )
    empty = grid.select(pl.all_horizontal(pl.all().is_null()).alias("empty"))["empty"].to_numpy()
    silent = np.zeros((n, width), np.bool_)
    silent[:, :1] = empty[:, None]
    kept = long.filter(pl.col(role).is_not_null() | pl.Series(silent.ravel()))
    if not empty.any():
        return kept
    return kept.with_columns(worker=pl.when(pl.col(role).is_null()).then(_nobody(names)).otherwise("worker"))


def _nobody(workers: pl.Series) -> pl.Expr:
    """Return the worker of lines that nobody voted on, one that is not among these: a whole number, as all of theirs may be."""
    taken = set(workers.cast(pl.String).to_list())
    number = next(-n for n in range(1, len(taken) + 2) if str(-n) not in taken)
    return pl.lit(number if workers.dtype == pl.Int64 else str(number), workers.dtype)


def _repeat(batch: pl.DataFrame, first_row: int) -> pl.DataFrame:
    """Return the lines of a table of counts, each as many times as it counts."""
    given = batch["count"]
    count = _whole_numbers(given)
    bad = (count.is_null() | (count < 0) | (count > MAX_COUNTED)).fill_null(True).arg_true()
    if len(bad):
        row = int(bad[0])
        raise InputError(f"count in row {first_row + row + 1} is {quote(given[row])}: give a whole number of at least 0")
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
