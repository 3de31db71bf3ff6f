"""What a reader of a format is asked for, and what it gives: votes, gold, and a count of everything that is neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from adjudge.data.vocabulary import text_of
from adjudge.errors import InputError, OptionError, listed, shown
from adjudge.io.shapes import Layout

ALL: Final = "all"  # as a question: each in turn, on the command line
PREDICTED: Final = "predictions of models (predictions=True, --predictions, makes them votes)"
REJECTED: Final = "rejected"
DRAFT: Final = "drafts"


@dataclass(frozen=True)
class Ask:
    """What the caller wants from an export."""

    format: str = "auto"
    question: str | None = None
    predictions: bool = False  # whether models vote
    columns: Mapping[str, str | None] = field(default_factory=dict)  # role -> the column that the caller named
    sets: bool = False  # whether labels are sets of options

    @classmethod
    def of(cls, layout: Layout, *, sets: bool = False) -> Ask:
        """Return what the options of reading ask for."""
        return cls(layout.format, layout.question, layout.predictions, sets=sets)

    def column(self, role: str) -> str | None:
        """Return the column that the caller named for a role; for the label a question is as good."""
        named = self.columns.get(role)
        if role == "label" and self.question is not None:
            if named is not None and named != self.question:
                raise OptionError(f"label is {shown(named)}, question is {shown(self.question)}: give one of them")
            return self.question
        return named


class SeveralQuestions(InputError):  # noqa: N818
    """An export has several questions, and the caller did not say which one is meant."""

    def __init__(self, where: str, questions: Sequence[str]) -> None:
        self.questions = tuple(questions)
        super().__init__(
            f"{where} has {len(questions)} questions: {listed(questions)}; choose one with question=… "
            "(--question NAME on the command line, --question all for each in turn)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError, self.args


@dataclass(frozen=True, eq=False)
class Extract:
    """The content of an export. Ids and labels are text; with sets, labels are lists of text."""

    votes: pl.DataFrame  # task, worker, label; without a label it is an abstention
    format: str
    columns: Mapping[str, str]  # role -> field
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> answers left out
    gold: pl.DataFrame | None = None  # task, label: learned from
    truth: pl.DataFrame | None = None  # task, label: only evaluates
    question: str | None = None  # that was answered, where the format has questions


def choose(questions: Iterable[str], ask: Ask, where: str) -> str:
    """Return the question that is asked for, or the only one; the error lists them otherwise."""
    names = sorted(set(questions))
    wanted = ask.column("label")
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{where} has no question {shown(wanted)}; the questions are: {listed(names) or 'none'}")
        return wanted
    if not names:
        raise InputError(f"{where} has no answers that are labels: nobody has chosen, rated or classified anything in it")
    if len(names) > 1:
        raise SeveralQuestions(where, names)
    return names[0]


def merged(extracts: Sequence[Extract], where: str) -> Extract:
    """Return the extracts of several files of one export as one."""
    if len(extracts) == 1:
        return extracts[0]
    names = sorted({extract.question for extract in extracts if extract.question is not None})
    if len(names) > 1:
        raise SeveralQuestions(where, names)
    skipped: Counter[str] = Counter()
    for extract in extracts:
        skipped.update(extract.skipped)
    known = {
        what: pl.concat(some) if (some := [f for e in extracts if (f := getattr(e, what)) is not None]) else None
        for what in ("gold", "truth")
    }
    votes = pl.concat([extract.votes for extract in extracts])
    return Extract(votes, extracts[0].format, extracts[0].columns, skipped, question=extracts[0].question, **known)


class Ballots:
    """Answers taken one by one, for formats that are read so."""

    def __init__(self, ask: Ask, where: str) -> None:
        self._ask, self.where = ask, where
        self.tasks: list[str] = []
        self.workers: list[str] = []
        self.labels: list[Any] = []  # text, or a list of texts with sets; None is an abstention
        self.skipped: Counter[str] = Counter()
        self._gold: list[tuple[str, Any]] = []

    def vote(self, task: object, worker: object, options: Sequence[object] | None) -> None:
        """Take the options that a worker has chosen; None is an abstention."""
        one, who, answer = self._id(task, "task"), self._id(worker, "worker"), self._answer(options, task)
        self.tasks.append(one)
        self.workers.append(who)
        self.labels.append(answer)

    def gold(self, task: object, options: Sequence[object] | None) -> None:
        """Take the label of a task that the export itself gives."""
        answer = self._answer(options, task)
        if answer is not None:
            self._gold.append((self._id(task, "task"), answer))

    def extract(self, form: str, columns: Mapping[str, str], question: str | None = None) -> Extract:
        """Return all that was taken."""
        kind = pl.List(pl.String) if self._ask.sets else pl.String()
        votes = pl.DataFrame(
            {
                "task": pl.Series(self.tasks, dtype=pl.String),
                "worker": pl.Series(self.workers, dtype=pl.String),
                "label": pl.Series(self.labels, dtype=kind),
            }
        )
        gold = None
        if self._gold:
            tasks, labels = zip(*self._gold, strict=True)
            gold = pl.DataFrame({"task": pl.Series(tasks, dtype=pl.String), "label": pl.Series(labels, dtype=kind)})
        return Extract(votes, form, columns, dict(self.skipped), gold, question=question)

    def _answer(self, options: Sequence[object] | None, task: object) -> Any:
        if options is None:
            return None
        chosen = [label_text(option, self.where, task) for option in options]
        if self._ask.sets:
            return chosen
        if len(chosen) > 1:
            raise several_options(chosen, self.where, task)
        return chosen[0] if chosen else None

    def _id(self, value: object, role: str) -> str:
        if type(value) is str and value:
            return value
        if type(value) is int:
            return str(value)
        if value is None or value == "":
            raise InputError(f"{self.where}: {role} is missing in answer {len(self.tasks) + 1}: every vote needs a {role}")
        raise InputError(f"{self.where}: {role} is {shown(value)} in answer {len(self.tasks) + 1}: text or a number is expected")


def several_options(chosen: Sequence[str], where: str, task: object) -> InputError:
    """Return the error for an answer with several options where one is expected."""
    return InputError(
        f"{where}: an answer on task {shown(task)} has {len(chosen)} options ({listed(chosen)}): these are sets, "
        "which multi=True (--multi) reads"
    )


def label_text(value: object, where: str, task: object) -> str:
    """Return the text of a label; numbers with decimals, boxes and spans are no labels."""
    if type(value) is str:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool | int):
        return text_of(value)
    raise InputError(
        f"{where}: an answer on task {shown(task)} is {shown(value)}, which is no label: choices and whole numbers are votes; "
        "boxes, spans, free text and decimals are not"
    )
