"""Verdicts that evaluation tools log: which of them answer one question, and which values are labels.

A tool files its verdicts under names: scorers, assertions, keys of a score, kinds of feedback. Few files say whether two names
are judges of one question or two questions, so `Verdicts` decides. Names are judges of one question if they have the same set of
values and agree more often than chance explains; the first line on the screen then says so. Otherwise the caller chooses, with
the name of a question or with names joined by commas. If a tool says who judged, in a field of its own, its names are questions
(`is_question`), and one judge answers several. If it does not, the name stands for the judge (`judge_of`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import text_of
from adjudge.errors import InputError, itemize, quote
from adjudge.io.formats.export import Ask, Extract, SeveralQuestions, chosen_label

Kind = Literal["labels", "numbers"]
Names = tuple[str, ...]
Shares = NDArray[np.float64]  # [tasks, labels] what judges say together of each task: shares of labels, or a number; else NaN
# Values that belong to one scale, though a judge may not use all of them: Inspect's grades, booleans, pass and fail as numbers.
SCALES: Final = (frozenset("CPI"), frozenset({"true", "false"}), frozenset("01"))
MIN_AGREEMENT_Z: Final = 1.645  # standard errors above chance from which judges agree: chance gets there in one case of 20
MIN_MISSED_PROBABILITY: Final = 0.05  # of a value that a judge has not used, from which chance explains that
MAX_COMPARED_TASKS: Final = 2_000  # on which judges are compared
MAX_COMPARED_LABELS: Final = 100  # the most frequent ones
MAX_WIDTH_RATIO: Final = 5  # of the ranges of numbers that may be of one scale
MAX_SHOWN_VALUES: Final = 5
SEPARATOR: Final = ","  # between judges that the caller joins


class Question(NamedTuple):
    """Names whose verdicts answer one question."""

    names: Names
    kind: Kind
    values: str  # in words

    @property
    def name(self) -> str:
        """What `question` selects it by."""
        return SEPARATOR.join(self.names)

    def __str__(self) -> str:
        return f"{quote(self.name) if len(self.names) > 1 else self.name} ({self.values})"


class Verdicts:
    """Verdicts taken one by one.

    `no_answer` is a label by which judges abstain, unless the question also has a Y, of which it is the opposite.
    """

    def __init__(self, ask: Ask, where: str, *, no_answer: str | None = None) -> None:
        self.where, self.skipped = where, Counter[str]()
        self._ask, self._no_answer = ask, no_answer
        self._rows: list[tuple[str, str, str, Any]] = []  # name, judge, task and verdict
        self._questions: set[str] = set()
        self._unreadable: dict[str, str] = {}  # name -> what is wrong with its first verdict that is not a label
        self._gold: list[tuple[str, str, Any]] = []  # name, task and value

    def add(self, name: str, judge: str, task: str, value: object, *, is_question: bool = False) -> None:
        """Take a verdict: text, a boolean, a number, or a list of options; None and NaN are abstentions.

        `is_question` says that the tool itself makes a question of this name: it is joined with others only if the caller asks.
        """
        if not isinstance(value, str | bool | int | float | list | None):
            what = f"the verdict of {quote(judge)} on task {quote(task)} is {quote(value)}, which is not a label"
            self._unreadable.setdefault(name, f"{self.where}: {what}: text, booleans and numbers are expected")
            value = None
        is_missing = value == "" or value != value
        self._rows.append((name, judge, task, None if is_missing else value))
        if is_question:
            self._questions.add(name)

    def add_scored(self, name: str, judge: str, task: str, label: object, score: object, *, is_question: bool = False) -> None:
        """Take a verdict that has a label, a score, or both: the score if scores are wanted, else the label."""
        has_label, has_score = (value is not None and value != "" for value in (label, score))
        is_scored = has_score and (self._ask.numbers or not has_label)
        self.add(name, judge, task, score if is_scored else label, is_question=is_question)

    def gold(self, name: str, task: str, value: object) -> None:
        """Take the right verdict on a task, which the file itself gives."""
        self._gold.append((name, task, _comparable(value)))

    def extract(self, columns: Mapping[str, str]) -> Extract:
        """Return the verdicts on the requested question, or on the only one; `columns` are the fields by role."""
        if not self._rows:
            raise InputError(f"{self.where} has no verdicts: nobody has scored anything in it")
        names, judges, tasks, values = map(list, zip(*self._rows, strict=True))
        frame = pl.DataFrame({"name": names, "worker": judges, "task": tasks}).with_row_index()
        parts = {name: Part.of(part, values, self._no_answer) for (name,), part in frame.group_by("name", maintain_order=True)}
        question = self._choose(parts)
        self._require_labels(question.names)
        chosen = [parts[name] for name in question.names]
        if question.kind == "numbers" and not self._ask.numbers and not self._ask.declared:
            raise InputError(
                f"{self.where}: {question} has numbers, which are scores and not labels: `adjudge scores` weighs them; where "
                "they are grades, labels=… (--labels 1,2,3) lists all of them"
            )
        if question.kind == "labels" and self._ask.numbers:
            raise InputError(f"{self.where}: {question} has labels, which are not numbers: `adjudge aggregate` reads them")
        each = [part.votes(self._ask, self.where) for part in chosen]
        if self._questions.issuperset(question.names) and len(chosen) > 1:
            each = _separate_judges(question.names, each)
        votes = pl.concat(each).sort("index").drop("index")
        if len(chosen) > 1:
            together = f"{itemize(question.names, 6)} as judges of one question"
            columns = {**columns, "worker": f"{columns['worker']} ({together})"}
        skipped = {reason: count for reason, count in self.skipped.items() if count}
        rows = {task: value for name, task, value in self._gold if name in question.names and value is not None}
        gold = None
        if rows and question.kind == "labels":
            labels = [[value] for value in rows.values()] if self._ask.sets else list(rows.values())
            gold = pl.DataFrame({"task": list(rows), "label": labels})
        return Extract(votes, columns, skipped, gold, question=question.name)

    def _choose(self, parts: Mapping[str, Part]) -> Question:
        wanted = self._ask.column("label")
        questions, hint = self._group({name: part for name, part in parts.items() if part.values}, parts)
        if wanted is not None:
            whole = next((question for question in questions if question.name == wanted), None)
            return whole or _join(_select_names(wanted, list(parts), self.where), parts, self.where)
        self._require_labels(list(parts), "; if another question is meant, question=… (--question NAME) chooses it")
        if len(questions) == 1:
            return questions[0]
        if not questions:
            raise InputError(f"{self.where} has no verdicts but abstentions: {itemize(parts)}")
        scored = [q.name for q in questions if q.kind == "numbers" and not (self._ask.numbers or self._ask.declared)]
        raise SeveralQuestions(self.where, [q.name for q in questions], list(map(str, questions)), hint, scored)

    def _require_labels(self, names: Sequence[str], hint: str = "") -> None:
        """Raise if one of these names has a verdict that is neither text nor a boolean nor a number."""
        for name in names:
            if name in self._unreadable:
                raise InputError(self._unreadable[name] + (hint if len(names) > 1 else ""))

    def _group(self, used: Mapping[str, Part], parts: Mapping[str, Part]) -> tuple[list[Question], str]:
        """Return the questions, and what separates names that could be judges of one."""
        loose = {name: part for name, part in used.items() if name not in self._questions}
        groups, apart = _join_judges(loose)
        groups += [(name,) for name in used if name not in loose]
        questions = [_join(group, parts, self.where) for group in groups]
        if apart is None:
            return questions, ""
        joined = SEPARATOR.join(name for name in loose if name in apart or used[name].is_like(used[apart[0]]))
        return questions, (
            f"; {apart[0]} and {apart[1]} agree no better than chance: where all are judges of one question, --question {joined} "
            "says so"
        )


class Part:
    """The verdicts under one name."""

    def __init__(self, rows: pl.DataFrame, values: list[Any]) -> None:
        self.rows, self._given = rows, values
        kinds = {type(value) for value in values if value is not None}
        numbers = kinds <= {int, float} and any(value not in (0, 1) for value in values if value is not None)
        self.kind: Kind = "numbers" if numbers else "labels"
        self._plain: list[Any] = values if numbers else list(map(_comparable, values))
        self.values = Counter(value for value in self._plain if value is not None)

    @classmethod
    def of(cls, rows: pl.DataFrame, every: Sequence[Any], no_answer: str | None) -> Part:
        """Return the verdicts of these rows, whose index is their place among all values."""
        values = [every[at] for at in rows["index"].to_list()]
        if no_answer is not None and not {"Y", "y"} & {value for value in values if isinstance(value, str)}:
            values = [None if value == no_answer else value for value in values]
        return cls(rows, values)

    @property
    def described(self) -> str:
        """The values in words."""
        if self.kind == "numbers":
            return f"{min(self.values):g} to {max(self.values):g}"
        return itemize(sorted(map(str, self.values)), MAX_SHOWN_VALUES)

    def is_like(self, other: Part) -> bool:
        """Return whether both have the same set of values, up to values that chance explains to be missing from one.

        Numbers are alike if their ranges overlap, and neither is many times as wide as the other.
        """
        if self.kind != other.kind:
            return False
        if self.kind == "numbers":
            (low, high), (from_, to) = ((min(part.values), max(part.values)) for part in (self, other))
            widths = high - low, to - from_
            return bool(max(low, from_) <= min(high, to) and max(widths) <= MAX_WIDTH_RATIO * min(widths))
        if any(scale >= self.values.keys() | other.values.keys() for scale in SCALES):
            return True
        return self._explains(other) and other._explains(self)

    def _explains(self, other: Part) -> bool:
        total, size = self.values.total(), other.values.total()
        missing = sum(count for value, count in self.values.items() if value not in other.values)
        return bool((1 - missing / total) ** size >= MIN_MISSED_PROBABILITY)

    def votes(self, ask: Ask, where: str) -> pl.DataFrame:
        """Return index, task, worker and label of every verdict; labels are text, lists of text, or the numbers."""
        if ask.numbers:
            return self.rows.select("index", "task", "worker", label=pl.Series(self._given, dtype=pl.Float64, strict=False))
        kind = pl.List(pl.String) if ask.sets else pl.String()
        options = [value if isinstance(value, list | None) else [value] for value in self._given]
        labels = [chosen_label(given, where, task, sets=ask.sets) for given, task in zip(options, self.rows["task"], strict=True)]
        return self.rows.select("index", "task", "worker", label=pl.Series(labels, dtype=kind))

    def by_task(self) -> dict[str, list[Any]]:
        """Return the values that were given to each task."""
        given: dict[str, list[Any]] = {}
        for task, value in zip(self.rows["task"].to_list(), self._plain, strict=True):
            if value is not None:
                given.setdefault(task, []).append(value)
        return given


def judge_of(name: str, source: str | None) -> str:
    """Return what a judge is called of whom a file says no more than the name of the verdict and the kind of its source.

    >>> judge_of("helpful", "LLM"), judge_of("helpful", None)
    ('helpful (LLM)', 'helpful')
    """
    return f"{name} ({source})" if source else name


def number_names(names: Sequence[str]) -> list[str]:
    """Return names of which the second of a kind has a number.

    >>> number_names(["regex", "contains", "regex"])
    ['regex', 'contains', 'regex (2)']
    """
    seen = Counter[str]()
    out = []
    for name in names:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return out


def _separate_judges(names: Names, each: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the votes under several names with a worker per name and judge, if a judge has voted under several."""
    judges = [frozenset(votes["worker"]) for votes in each]
    if all(first.isdisjoint(second) for first, second in combinations(judges, 2)):
        return list(each)
    return [
        votes.with_columns(worker=pl.format("{} ({})", pl.lit(name), "worker")) for name, votes in zip(names, each, strict=True)
    ]


def _comparable(value: Any) -> Any:
    """Return a value as labels have it; options of a set in one text."""
    if isinstance(value, list):
        return SEPARATOR.join(map(str, value))
    return str(int(value)) if type(value) in (int, float) and value in (0, 1) else None if value is None else text_of(value)


def _select_names(wanted: str, names: Sequence[str], where: str) -> list[str]:
    """Return the names that the caller joins by commas or matches with a pattern."""
    parts = [wanted] if wanted in names else [part.strip() for part in wanted.split(SEPARATOR)]
    for part in parts:
        if not any(name == part or fnmatchcase(name, part) for name in names):
            raise InputError(f"{where} has no question {quote(part)}; the questions are: {itemize(names)}")
    return [name for name in names if any(name == part or fnmatchcase(name, part) for part in parts)]


def _join(names: Sequence[str], parts: Mapping[str, Part], where: str) -> Question:
    if len({parts[name].kind for name in names if parts[name].values}) > 1:
        described = itemize(f"{name} ({parts[name].described})" for name in names)
        raise InputError(f"{where}: {described}: numbers and labels do not answer one question, so choose one with question=…")
    longest = max((parts[name] for name in names), key=lambda part: len(part.values))
    return Question(tuple(names), longest.kind, longest.described if longest.values else "no answers")


def _join_judges(parts: Mapping[str, Part]) -> tuple[list[Names], tuple[str, str] | None]:
    """Return groups of names that answer one question each, and two like names that only chance lets agree, if there are some.

    Groups that agree most are joined first. Those with too few verdicts for evidence are joined if they never differ and all
    others that one of them never differs from are the same; a judge who always says the same follows the only group of several.
    """
    order = list(parts)
    groups: list[Names] = [(name,) for name in order]
    shares: dict[Names, Shares] = dict(zip(groups, _shares_by_task(list(parts.values())), strict=True))
    evidence: dict[tuple[Names, Names], float] = {}

    def alike() -> list[tuple[Names, Names]]:
        return [(a, b) for a, b in combinations(groups, 2) if all(parts[x].is_like(parts[y]) for x in a for y in b)]

    def join(a: Names, b: Names) -> None:
        both = tuple(sorted(a + b, key=order.index))
        with warnings.catch_warnings(action="ignore"):  # tasks on which nobody has a verdict
            shares[both] = np.nanmean([shares[name,] for name in both], axis=0)
        groups[groups.index(a)] = both
        groups.remove(b)

    while pairs := alike():
        for pair in pairs:
            if pair not in evidence:
                evidence[pair] = _agreement(shares[pair[0]], shares[pair[1]])
        best = max(pairs, key=lambda pair: evidence[pair])
        if evidence[best] <= MIN_AGREEMENT_Z:
            break
        join(*best)
    same = {(a, b) for a, b in alike() if _never_differ(shares[a], shares[b])}
    same_as = {group: {group, *(x for pair in same if group in pair for x in pair)} for group in groups}
    for clique in {frozenset(same_as[a]) for a, b in same if same_as[a] == same_as[b]}:
        first, *others = (group for group in list(groups) if group in clique)
        for other in others:
            join(next(group for group in groups if first[0] in group), other)
    constant = [group for group in groups if not np.ptp(_find_known(shares[group]), axis=0).any()]
    for group in constant:
        leaders = [b if a == group else a for a, b in alike() if group in (a, b)]
        leaders = [leader for leader in leaders if len(leader) > 1 and leader not in constant]
        if len(leaders) == 1:
            join(leaders[0], group)
    return groups, next(((a[0], b[0]) for a, b in alike()), None)


def _shares_by_task(parts: Sequence[Part]) -> list[Shares]:
    """Return what each name says of every task."""
    each = [part.by_task() for part in parts]
    tasks = list(dict.fromkeys(task for given in each for task in given))[:MAX_COMPARED_TASKS]
    frequent = sum((part.values for part in parts if part.kind == "labels"), Counter[Any]()).most_common(MAX_COMPARED_LABELS)
    unit = {label: row for (label, _), row in zip(frequent, np.eye(len(frequent)), strict=True)}
    out = []
    for part, given in zip(parts, each, strict=True):
        shares = np.full((len(tasks), len(unit) if part.kind == "labels" else 1), np.nan)
        for row, task in zip(shares, tasks, strict=True):
            if task in given:
                said: Any = [unit.get(value, 0.0) if part.kind == "labels" else value for value in given[task]]
                row[:] = sum(said) / len(said)
        if part.kind == "numbers":
            shares /= np.nanstd(shares) or 1.0
        out.append(shares)
    return out


def _find_known(shares: Shares) -> Shares:
    return shares[~np.isnan(shares[:, 0])]


def _in_common(first: Shares, second: Shares) -> tuple[Shares, Shares]:
    """Return what two say of the tasks on which both have verdicts."""
    both = ~(np.isnan(first[:, 0]) | np.isnan(second[:, 0]))
    return first[both], second[both]


def _never_differ(first: Shares, second: Shares) -> bool:
    a, b = _in_common(first, second)
    return len(a) > 0 and bool((a == b).all())


def _agreement(first: Shares, second: Shares) -> float:
    """Return how many standard errors above chance two groups of judges agree; 0 if unknown.

    Chance is all the ways in which the tasks of one group could belong to those of the other, so one rule serves shares of
    labels and numbers: for one judge each it is Cohen's kappa by its standard error, for numbers r sqrt(n - 1).

    >>> a = np.eye(2)[[0, 1, 0, 1, 0, 1, 0, 1, 0]]
    >>> _agreement(a, np.roll(a, 1, axis=0)) < 0, round(_agreement(a, a), 3), _agreement(a, a[[0] * 9])
    (True, 2.828, 0.0)
    """
    a, b = _in_common(first, second)
    if len(a) < 2:
        return 0.0
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    variance = float(np.sum((a.T @ a) * (b.T @ b))) / (len(a) - 1)
    return float(np.sum(a * b)) / variance**0.5 if variance > 0 else 0.0
