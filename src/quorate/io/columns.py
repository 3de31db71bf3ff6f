"""Which column is the task, the worker, the label: by its usual names, or as the caller says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from quorate.errors import InputError, listed, shown

TRUE_LABEL: Final = "label truth gold answer trueanswer truelabel goldlabel groundtruth target class category"
WORKER: Final = "worker annotator rater user judge labeler labeller participant coder reviewer voter grader assessor"
# Names are compared in lower case without spaces, dots, dashes, underscores and a trailing "id".
USUAL: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        role: frozenset(names.split())
        for role, names in {
            "task": "task question item unit example instance object document sample subject hit datapoint",
            "worker": WORKER,
            "excluded worker": WORKER,
            "group": "group team family ring cluster",
            "label": "label answer choice vote annotation response rating judgment judgement category class option",
            "truth": TRUE_LABEL,
            "gold label": TRUE_LABEL,
            "true": "true truelabel truth",
            "given": "given givenlabel answer said label",
            "count": "count votes n number weight",
        }.items()
    }
)
# Taken only when no usual name is there: too general to contradict one.
LAST_RESORT: Final[Mapping[str, frozenset[str]]] = MappingProxyType({"task": frozenset({"", "key", "index"})})
# Taken where a column has exactly this name, and not missed where none has.
OPTIONAL: Final = frozenset({"confidence", "gold"})
# Roles of tables whose columns no option names (gold, histories, groups, workers left out).
BY_NAME: Final = frozenset({"gold label", "true", "given", "count", "group", "excluded worker"})
REST: Final = "*"  # as a role: every column that serves no other, under its own name


def find(columns: Sequence[str], wanted: Mapping[str, str | None], where: str) -> dict[str, str]:
    """Return the column of each wanted role; one that is absent or ambiguous is an error that lists the columns.

    >>> find(["question_id", "annotator", "answer"], {"task": None, "worker": None, "label": None}, "votes.csv")
    {'task': 'question_id', 'worker': 'annotator', 'label': 'answer'}
    >>> find(["task", "cat", "dog"], {"task": None, REST: None}, "probabilities.csv")
    {'task': 'task', 'cat': 'cat', 'dog': 'dog'}
    """
    given = {role: name for role, name in wanted.items() if name is not None}
    if REST in wanted and "task" in columns:  # the others are labels, and a label may be called "item"
        given.setdefault("task", "task")
    for role, name in given.items():
        if name not in columns:
            raise InputError(f"{where}: there is no column {shown(name)} for the {role}; the columns are: {listed(columns)}")
    free = [c for c in columns if c not in given.values()]
    by_name = not wanted.keys().isdisjoint(BY_NAME)
    required = [role for role in wanted if role != REST and role not in OPTIONAL]
    found = {role: given[role] if role in given else _usual(role, free, columns, where, by_name) for role in required}
    more = [c for c in free if c not in found.values()]
    found |= {c: c for c in more if REST in wanted or (c in OPTIONAL and c in wanted)}
    if len(set(found.values())) < len(found):
        raise InputError(f"{where}: one column cannot serve two roles: {found}; the columns are: {listed(columns)}")
    return found


def _usual(role: str, free: Sequence[str], columns: Sequence[str], where: str, by_name: bool) -> str:
    for names in (USUAL[role], LAST_RESORT.get(role, frozenset())):
        candidates = [c for c in free if _plain(c) in names]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            remedy = "leave the others out" if by_name else f"say which with {_option(role)}"
            raise InputError(
                f"{where}: the {role} could be any of {listed(candidates)}; {remedy} (the columns are: {listed(columns)})"
            )
    remedy = f"call its column {role.rpartition(' ')[2]!r}" if by_name else f"say which with {_option(role)}"
    raise InputError(f"{where}: no column looks like the {role}; {remedy} (the columns are: {listed(columns)})")


def _option(role: str) -> str:
    option = "truth_label" if role == "truth" else role
    return f"{option}=… (--{option.replace('_', '-')} on the command line)"


def _plain(name: str) -> str:
    """Return a column's name without case, punctuation and a trailing "id"."""
    return re.sub(r"id$", "", re.sub(r"[^a-z0-9]", "", str(name).lower()))
