"""Which column is the task, the worker, the label: by the names it may have, or as the caller says.

Only names are looked at, never values. A role has names of several ranks: a column of a lower rank is taken where none of a
higher rank is there. Two columns of one rank are two good candidates, and the caller chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from adjudge.errors import InputError, listed, shown
from adjudge.io.not_votes import of_columns

# All names are compared in lower case without spaces, dots, dashes and underscores.
TRUE_LABEL: Final = "label truth gold answer trueanswer truelabel goldlabel groundtruth target class category"
WORKER: Final = (
    "worker annotator rater user judge labeler labeller participant coder reviewer voter grader assessor evaluator scorer "
    "respondent juror turker crowdworker expert annotatedby labeledby labelledby ratedby judgedby reviewedby completedby"
)
MODEL: Final = "model llm judgemodel agent person email username"
TASK: Final = "task question item unit example instance object document sample subject hit datapoint"
CONTENT: Final = (
    "text prompt query sentence image picture photo video audio clip tweet post message comment claim statement passage "
    "paragraph utterance conversation dialogue dialog thread article doc page ticket case record entry pair comparison battle "
    "match content input url file filename path snippet phrase word title stimulus product review"
)
LABEL: Final = (
    "label answer choice vote annotation rating judgment judgement score grade verdict winner decision preference preferred "
    "opinion ballot stars mark"
)
LABEL_LIKE: Final = "labelname labeltext labelvalue givenlabel workerlabel annotatorlabel crowdlabel noisylabel humanlabel labels"
WEAK_LABEL: Final = "response category class option value result output sentiment topic tag selection selected outcome"
LABEL_ID: Final = "labelid classid categoryid optionid choiceid"
ROW: Final = "index row rownumber rowindex"
SIDES: Final = "model item option response assistant system player candidate answer output completion"  # a and b of a comparison


class Rank(NamedTuple):
    """Names that are equally good for a role."""

    names: frozenset[str]
    suffixes: tuple[str, ...] = ("",)  # what may follow such a name: "id" in question_id
    guarded: bool = False  # whether a column is taken only where no other could be meant


def _rank(names: str, *suffixes: str, guarded: bool = False) -> Rank:
    return Rank(frozenset(names.split()), suffixes or ("",), guarded)


def _sides(side: str) -> Rank:
    return _rank(" ".join(word + side for word in SIDES.split()), "", "id", "name")


_WORKERS: Final = (_rank(WORKER, "", "id", "name"), _rank(MODEL, "", "id", "name"))
RANKS: Final[Mapping[str, tuple[Rank, ...]]] = MappingProxyType(
    {
        "task": (
            _rank(TASK, "", "id"),
            _rank(CONTENT, "id"),
            Rank(frozenset({*CONTENT.split(), "id", "uid", "uuid", "guid", "key"})),
            Rank(frozenset({"", *ROW.split()})),
        ),
        "worker": _WORKERS,
        "excluded worker": _WORKERS,
        "label": (
            _rank(LABEL),
            _rank(LABEL_LIKE),
            _rank(WEAK_LABEL, guarded=True),
            _rank(LABEL_ID, guarded=True),
        ),
        "group": (_rank("group team family ring cluster", "", "id"),),
        "truth": (_rank(TRUE_LABEL, "", "id"), _rank(LABEL)),
        "gold label": (_rank(TRUE_LABEL, "", "id"), _rank(LABEL)),
        "true": (_rank("true truelabel truth", "", "id"),),
        "given": (_rank("given givenlabel answer said label", "", "id"),),
        "count": (_rank("count votes n number weight", "", "id"),),
        "cost": (_rank("cost price fee pay rate", "", "pervote"),),
        "left": (_rank("left leftitem itemleft leftmodel modelleft", "", "id", "name"), _sides("a"), _sides("1")),
        "right": (_rank("right rightitem itemright rightmodel modelright", "", "id", "name"), _sides("b"), _sides("2")),
        "winner": (_rank("winner"), _rank("preferred preference better outcome"), _rank(LABEL), _rank("chosen result")),
        "judge": _WORKERS,
        "cluster": (_rank("prompt document conversation", "", "id"),),
    }
)
# A score beside a label tells how sure somebody is of it.
BESIDE: Final[Mapping[str, str]] = MappingProxyType({"score": "label"})
# Columns that are neither task nor worker nor label, and so leave no doubt about one that could be.
_OTHER: Final = (
    "confidence weight probability certainty split fold batch source language lang country region city ip age gender sex price "
    "cost reward tokens duration seconds time timestamp date datetime day created updated submitted started finished leadtime "
    "worktime reason rationale explanation notes note remark remarks feedback count votes n number status state version seed "
    "temperature latency meta metadata extra truth gold groundtruth target goldlabel truelabel trueanswer correct"
)
OTHER: Final = frozenset(_OTHER.split())
# What a column that says how much a vote counts may be called; it is used only where the caller names it.
WEIGHT: Final = frozenset({"weight", "weights", "voteweight", "sampleweight", "samplingweight", "confidence", "certainty"})
# What a column that says how many votes a line stands for may be called; likewise.
COUNT: Final = frozenset({"count", "counts", "votecount", "nvotes", "numvotes"})
# The last word of such columns: annotation_id, createdAt, lead_time.
OTHER_ENDING: Final = re.compile(
    r"(?:[^A-Za-z0-9](?i:id|at|time|date|timestamp|seconds|ms|url|text|name|email|comment|status)"
    r"|(?<=[a-z])(?:Id|ID|At|Time|Date|Timestamp|Seconds|Ms|Url|URL|Text|Name|Email|Comment|Status))$"
)
# Two things that were compared: a question may come with many such pairs.
COMPARED: Final = re.compile(r"(model|system|player|candidate|response|completion|output)(a|b|1|2|left|right)")
# Taken where a column has exactly this name, and not missed where none has.
OPTIONAL: Final = frozenset({"confidence", "gold"})
# Roles of tables whose columns no option names (gold, histories, groups, workers left out, costs).
BY_NAME: Final = frozenset({"gold label", "true", "given", "count", "group", "excluded worker", "cost"})
VOTE: Final = ("task", "worker", "label")
REST: Final = "*"  # as a role: every column that serves no other, under its own name
FEW: Final = 2  # columns of one family: judge_1, judge_2
SEEN: Final = 1024  # names of columns that need not be looked at again: tables of one kind come one after the other
MAX_LISTED: Final = 40  # columns in a message: tools export some thirty


def find(columns: Sequence[str], wanted: Mapping[str, str | None], where: str) -> dict[str, str]:
    """Return the column of each wanted role; one that is absent or ambiguous is an error that lists the columns.

    >>> find(["question_id", "annotator", "answer"], {"task": None, "worker": None, "label": None}, "votes.csv")
    {'task': 'question_id', 'worker': 'annotator', 'label': 'answer'}
    >>> find(["task", "cat", "dog"], {"task": None, REST: None}, "probabilities.csv")
    {'task': 'task', 'cat': 'cat', 'dog': 'dog'}
    """
    given = {role: name for role, name in wanted.items() if name is not None}
    if REST in wanted and "task" in wanted and "task" in columns:  # the others are labels, and a label may be called "item"
        given.setdefault("task", "task")
    for role, name in given.items():
        if name not in columns:
            raise InputError(f"{where}: there is no column {shown(name)} for the {role}; the columns are: {_listed(columns)}")
    _refuse_one_of_many(columns, given, where)
    if "worker" in wanted and wanted.get("task") is None:
        _refuse_compared(columns, where)
    free = [c for c in columns if c not in given.values()]
    required = [role for role in wanted if role != REST and role not in OPTIONAL]
    found = dict(given)
    for role in required:  # in this order: what serves one role is no candidate for the next
        if role not in given:
            found[role] = _usual(role, [c for c in free if c not in found.values()], columns, wanted, found, where)
    more = [c for c in free if c not in found.values()]
    roles = [*required, *(role for role in given if role not in required)]
    out = {role: found[role] for role in roles} | {c: c for c in more if REST in wanted or (c in OPTIONAL and c in wanted)}
    if len(set(out.values())) < len(out):
        raise InputError(f"{where}: one column cannot serve two roles: {out}; the columns are: {_listed(columns)}")
    return out


def plain(name: object) -> str:
    """Return a column's name in lower case, without spaces and punctuation.

    >>> plain("Prompt_ID"), plain("")
    ('promptid', '')
    """
    return _plain_text(str(name))


@lru_cache(SEEN)
def _plain_text(name: str) -> str:
    text = re.sub(r"[^a-z0-9]", "", name.lower())
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
    text = plain(name)
    return text in OTHER or text in ("", "id") or text in CONTENT.split() or OTHER_ENDING.search(str(name)) is not None


def family(columns: Iterable[object]) -> list[str]:
    """Return columns that look like one per worker: judge_1, judge_2; rater_a, rater_b; gpt4_label, claude_label.

    >>> family(["item", "text", "judge_1", "judge_2"]), family(["item", "worker_id", "worker_name"])
    (['judge_1', 'judge_2'], [])
    """
    return list(_family(tuple(map(str, columns))))


@lru_cache(SEEN)
def _family(columns: tuple[str, ...]) -> tuple[str, ...]:
    stems: dict[tuple[str, str], list[str]] = {}
    words = [*WORKER.split(), *LABEL.split(), "ann", "anno", "lf", "w", "r", "j", "a"]
    for name in columns:
        last = re.split(r"[^a-z0-9]+", name.lower())[1:][-1:]
        if last and last[0] in LABEL.split():  # gpt-4o_score
            stems.setdefault((last[0], "of"), []).append(name)
            continue
        parts = [part for part in re.split(r"[^a-z0-9]+|(?<=[a-z])(?=[0-9])", name.lower()) if part]
        if len(parts) != FEW:
            continue
        head, tail = parts
        if head in words and (tail.isdigit() or len(tail) == 1):
            stems.setdefault((head, "numbered"), []).append(name)
        elif head in words and not is_other(name) and tail not in OTHER:
            stems.setdefault((head, "named"), []).append(name)
    least = {"numbered": FEW, "named": FEW + 1, "of": FEW + 1}
    fitting = [found for (_, how), found in stems.items() if len(found) >= least[how]]
    largest: list[str] = max(fitting, key=len, default=[])
    return tuple(largest)


def _refuse_one_of_many(columns: Sequence[str], given: Mapping[str, str], where: str) -> None:
    """Raise where two columns of one family are named as worker and label: what follows would be nonsense."""
    alike = family(columns)
    if {given.get("worker"), given.get("label")} <= set(alike):
        raise InputError(f"{where}: {_looks_wide(alike)}")


def _refuse_compared(columns: Sequence[str], where: str) -> None:
    """Raise where votes compare two things: the task is then more than one column."""
    compared = [c for c in columns if COMPARED.fullmatch(plain(c))]
    if len(compared) > 1:
        raise InputError(
            f"{where}: votes that compare {listed(compared)} have no single column for the task; make one of what was compared, "
            f"and say which with {_option('task')}; or rank them: adj.rank, adjudge rank (the columns are: {_listed(columns)})"
        )


def _looks_wide(alike: Sequence[str]) -> str:
    return f"this looks like one column per worker ({listed(alike)}): say wide=True (--wide on the command line)"


def _usual(
    role: str, free: Sequence[str], columns: Sequence[str], wanted: Mapping[str, str | None], found: Mapping[str, str], where: str
) -> str:
    by_name = not wanted.keys().isdisjoint(BY_NAME)
    for rank in RANKS[role]:
        stems = {c: stem for c in free if (stem := _stem(c, rank)) is not None}
        stems = {c: stem for c, stem in stems.items() if BESIDE.get(stem) not in stems.values()}
        candidates = list(stems)
        if len(set(stems.values())) == 1 and len(candidates) > 1:  # question and question_id are one candidate: the id
            with_id = [c for c in candidates if plain(c).endswith("id")]
            candidates = with_id if len(with_id) == 1 else candidates
        if candidates and rank.guarded:
            others = [c for c in free if c not in candidates and not is_other(c) and not _serves(c, wanted, found)]
            candidates += others
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            remedy = "leave the others out" if by_name else f"say which with {_option(role)}"
            raise InputError(
                f"{where}: the {role} could be any of {_listed(candidates)}; {remedy} (the columns are: {_listed(columns)})"
            )
    alike = family(columns) if role in ("task", "worker", "label") and "worker" in wanted else []
    if alike:
        raise InputError(f"{where}: {_looks_wide(alike)}; else say which is the {role} with {_option(role)}")
    remedy = f"call its column {role.rpartition(' ')[2]!r}" if by_name else f"say which with {_option(role)}"
    hint = "" if by_name else _hint(role, free, columns, wanted, found)
    raise InputError(f"{where}: no column looks like the {role}; {remedy}{hint} (the columns are: {_listed(columns)})")


def _hint(
    role: str, free: Sequence[str], columns: Sequence[str], wanted: Mapping[str, str | None], found: Mapping[str, str]
) -> str:
    """Return what else may be meant by columns among which a role was not found."""
    if said := of_columns(columns):
        return said
    doubtful = [c for c in free if not is_other(c) and not _serves(c, wanted, found)]
    if role == "task" and "worker" in wanted and len(columns) > len(VOTE) and not any(map(is_known, columns)):
        return "; where there is one column per worker: wide=True (--wide)"
    if role in ("worker", "label") and "worker" in wanted:
        counts = [c for c in free if _stem(c, RANKS["count"][0]) is not None]
        if role == "worker" and counts:
            return f"; where each line counts votes: count={shown(counts[0])} (--count) and model='mv'"
        if role == "worker" and len(doubtful) <= 1:  # the label
            return "; where votes do not say who gave them: model='mv' (--model mv)"
        if role == "worker" and len(doubtful) > 1:
            return "; where there is one column per worker: wide=True (--wide)"
    if len(doubtful) == 1 and role == "label":
        return f", perhaps {shown(doubtful[0])}"
    return ""


def _serves(column: str, wanted: Mapping[str, str | None], found: Mapping[str, str]) -> bool:
    """Return whether a column fits another role that is wanted, and so is no candidate for this one."""
    others = [role for role in wanted if role in RANKS and role not in ("label", "truth")]
    return column in found.values() or any(_stem(column, rank) is not None for role in others for rank in RANKS[role])


def _stem(name: object, rank: Rank) -> str | None:
    """Return the name of a rank that a column has, without what may follow it; None where it has none."""
    return _plain_stem(plain(name), rank)


@lru_cache(SEEN)
def _plain_stem(text: str, rank: Rank) -> str | None:
    for suffix in rank.suffixes:
        if text.endswith(suffix) and text[: len(text) - len(suffix)] in rank.names:
            return text[: len(text) - len(suffix)]
    return None


def _listed(columns: Iterable[object]) -> str:
    return listed(("'' (without a name)" if str(c) == "" else c for c in columns), MAX_LISTED)


def _option(role: str) -> str:
    option = {"truth": "truth_label", "judge": "worker"}.get(role, role)
    return f"{option}=… (--{option.replace('_', '-')} on the command line)"
