"""What readers and writers of exports share.

A reader gets a request (`Ask`), collects answers one by one (`AnswerCollector`), and returns an `Extract`.
A writer gets the labels of a result (`Consensus`), and looks up how the tool itself writes each of them (`Values`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, cast

import polars as pl

from adjudge.data.vocabulary import text_of
from adjudge.data.votes import Understood
from adjudge.errors import InputError, OptionError, itemize, quote
from adjudge.io.formats.registry import Content, Format, join_names
from adjudge.io.frames import prepare_ids
from adjudge.io.reading import Wanted, normalize_texts

EVERY_QUESTION: Final = "all"  # as a question: each in turn, on the command line
PREDICTED: Final = "predictions of models (predictions=True, --predictions, makes them votes)"
REJECTED: Final = "rejected"
DRAFT: Final = "drafts"
MAX_TASK_EXAMPLES: Final = 3  # ids in a message


@dataclass(frozen=True)
class Ask:
    """What the caller wants from an export."""

    format: str = "auto"
    question: str | None = None
    predictions: bool = False  # whether models vote
    columns: Wanted = field(default_factory=dict)  # role -> the column that the caller named
    sets: bool = False  # whether labels are sets of options
    numbers: bool = False  # whether scores are wanted, and not labels
    declared: bool = False  # whether the caller has listed all labels, so that numbers may be among them

    def column(self, role: str, prefix: str = "") -> str | None:
        """Return the column that the caller named for a role, without a prefix; for the label a question is as good."""
        named = self.columns.get(role)
        named = None if named is None else named.removeprefix(prefix)
        if role == "label" and self.question is not None:
            if named is not None and named != self.question:
                raise OptionError(f"label is {quote(named)}, question is {quote(self.question)}: give one of them")
            return self.question
        return named


class SeveralQuestions(InputError):  # noqa: N818
    """An export has several questions, and the caller did not say which one is meant."""

    def __init__(
        self,
        where: str,
        questions: Sequence[str],
        described: Sequence[str] | None = None,
        hint: str = "",
        scored: Sequence[str] = (),
    ) -> None:
        self.questions = tuple(questions)
        self.scored = tuple(scored)  # those answered with numbers
        super().__init__(
            f"{where} has {len(questions)} questions: {itemize(described or questions)}; choose one with question=… "
            f"(--question NAME on the command line, --question all for each in turn){hint}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return InputError, self.args


@dataclass(frozen=True, eq=False)
class Extract:
    """The content of an export. Ids and labels are text; with sets, labels are lists of text."""

    votes: pl.DataFrame  # task, worker, label; without a label it is an abstention
    columns: Mapping[str, str]  # role -> field
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> answers left out
    gold: pl.DataFrame | None = None  # task, label: learned from
    truth: pl.DataFrame | None = None  # task, label: only evaluates
    question: str | None = None  # that was answered, if the format has questions


def choose(questions: Iterable[str], ask: Ask, where: str, prefix: str = "") -> str:
    """Return the requested question, or the only one; otherwise the error lists them."""
    names = sorted(set(questions))
    wanted = ask.column("label", prefix)
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{where} has no question {quote(wanted)}; the questions are: {itemize(names) or 'none'}")
        return wanted
    if not names:
        raise InputError(f"{where} has no answers that are labels: nobody has chosen, rated or classified anything in it")
    if len(names) > 1:
        raise SeveralQuestions(where, names)
    return names[0]


def choose_varying(columns: Sequence[str], varying: Sequence[str], where: str, nothing: str) -> str:
    """Return the one column that differs within a task, which is the question: data is the same for all workers.

    `nothing` says between whom no column differs.
    """
    if len(varying) == 1:
        return varying[0]
    if varying:
        raise SeveralQuestions(where, varying)
    raise InputError(
        f"{where}: which column holds the answers? {nothing}; say which with question=… (--question): {itemize(columns)}"
    )


def read_export(form: Format, contents: Sequence[Content], ask: Ask, *, votes: bool = True) -> Extract:
    """Return what the files of an export give as one extract; without `votes`, gold and truth are wanted."""
    named = {role: column for role, column in ask.columns.items() if column is not None}
    if votes and ask.question == EVERY_QUESTION:
        raise OptionError("question='all' is for `adjudge aggregate` on the command line: ask for one question at a time")
    role = next((role for role in named if role not in form.nameable), None)
    if votes and role is not None:
        raise OptionError(
            f"{role} names a column, and {form.name} has none: leave it out (question=… chooses among questions, "
            "format='table' reads an ordinary table)"
        )
    ask = replace(ask, columns=named if votes else {})
    if hasattr(form.load(), "read_all"):
        return cast(Extract, form.load().read_all(contents, ask))
    extracts: list[Extract] = [form.read(content, ask) for content in contents]
    if len(extracts) == 1:
        return extracts[0]
    names = sorted({extract.question for extract in extracts if extract.question is not None})
    if len(names) > 1:
        raise SeveralQuestions(join_names(contents), names)
    skipped = sum((Counter(extract.skipped) for extract in extracts), Counter[str]())

    def join(what: str) -> Any:
        frames = [frame for extract in extracts if (frame := getattr(extract, what)) is not None]
        return pl.concat(frames) if frames else None

    return replace(extracts[0], votes=join("votes"), skipped=skipped, gold=join("gold"), truth=join("truth"))


def read_items(form: Format, contents: Sequence[Content]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each task with its content by column, from formats that have it; reads nothing until the first item is taken."""
    items = getattr(form.load(), "items", None)
    if items is not None:
        yield from items(contents)


class AnswerCollector:
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
        ids = self._id(task, "task"), self._id(worker, "worker")
        self.labels.append(self._answer(options, task))
        self.tasks.append(ids[0])
        self.workers.append(ids[1])

    def gold(self, task: object, options: Sequence[object] | None) -> None:
        """Take the label of a task that the export itself gives."""
        answer = self._answer(options, task)
        if answer is not None:
            self._gold.append((self._id(task, "task"), answer))

    def extract(self, columns: Mapping[str, str], question: str | None = None) -> Extract:
        """Return all that was taken; `columns` are the fields of task, worker and label."""
        text, kind = pl.String(), pl.List(pl.String) if self._ask.sets else pl.String()
        schema: dict[str, Any] = {"task": text, "worker": text, "label": kind}
        votes = pl.DataFrame({"task": self.tasks, "worker": self.workers, "label": self.labels}, schema=schema)
        gold = pl.DataFrame(self._gold, {"task": text, "label": kind}, orient="row") if self._gold else None
        return Extract(votes, columns, dict(self.skipped), gold, question=question)

    def _answer(self, options: Sequence[object] | None, task: object) -> Any:
        return chosen_label(options, self.where, task, sets=self._ask.sets)

    def _id(self, value: object, role: str) -> str:
        if type(value) is str and value:
            return value
        if type(value) is int:
            return str(value)
        at = f"in answer {len(self.tasks) + 1}"
        if value is None or value == "":
            raise InputError(f"{self.where}: {role} is missing {at}: every vote needs a {role}")
        raise InputError(f"{self.where}: {role} is {quote(value)} {at}: text or a number is expected")


def chosen_label(options: Sequence[object] | None, where: str, task: object, *, sets: bool) -> Any:
    """Return the options of an answer as a list of texts with `sets`, else the text of the only one; None is an abstention."""
    if options is None:
        return None
    chosen = [label_text(option, where, task) for option in options]
    if sets:
        return chosen
    if len(chosen) > 1:
        raise InputError(
            f"{where}: an answer on task {quote(task)} has {len(chosen)} options ({itemize(chosen)}): these are sets, "
            "which multi=True (--multi) reads"
        )
    return chosen[0] if chosen else None


def label_text(value: object, where: str, task: object) -> str:
    """Return the text of a label; numbers with decimals, boxes and spans are not labels."""
    if type(value) is str:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool | int):
        return text_of(value)
    raise InputError(
        f"{where}: an answer on task {quote(task)} is {quote(value)}, which is not a label: choices and whole numbers are votes; "
        "boxes, spans, free text and decimals are not"
    )


class ConsensusLabel(NamedTuple):
    """The label of a task: one option, or a set of them."""

    options: list[str]
    confidence: float
    scores: list[float]  # the probability of each option


@dataclass(frozen=True, eq=False)
class Consensus:
    """The labels of a result, for writers."""

    labels: pl.DataFrame  # as `Result.labels` has them, or `MultiResult.labels`
    model: str  # its name
    understood: Understood | None = None  # what reading made of the votes
    scores: Sequence[Mapping[str, float]] | None = None  # of sets: the probability of every option, by line of `labels`

    @property
    def by(self) -> str:
        """Who says so, as tools show it."""
        return f"adjudge {self.model}"

    @property
    def is_set(self) -> bool:
        """Whether labels are sets of options."""
        return isinstance(self.labels.schema["label"], pl.List)

    @cached_property
    def answers(self) -> dict[str, ConsensusLabel]:
        """The label of every task that has one, by the text of the task's id."""
        found = self.labels.filter(pl.col("label").is_not_null())
        tasks = prepare_ids(found["task"], "task").cast(pl.String).to_list()
        confidence = found["confidence"].to_list()
        if not self.is_set:
            texts = prepare_ids(found["label"], "label").cast(pl.String).to_list()
            each = zip(tasks, texts, confidence, strict=True)
            return {task: ConsensusLabel([label], sure, [sure]) for task, label, sure in each}
        scores = self.scores or [{}] * len(found)  # tasks without a label come last
        every = zip(tasks, found["label"].to_list(), confidence, scores, strict=False)
        return {task: ConsensusLabel(options, sure, [one[o] for o in options]) for task, options, sure, one in every}

    def column(self, form: str, role: str = "label") -> str | None:
        """Return the field that had a role when the votes were read as this format; None if they were read otherwise."""
        known = self.understood
        return None if known is None or known.format != form else known.columns.get(role)

    def require_some(self, tasks: Sequence[str], where: str) -> None:
        """Raise if none of these tasks has a label here: the file is another one than that of the votes."""
        if tasks and self.answers.keys().isdisjoint(tasks):
            raise InputError(
                f"{where}: none of its {len(tasks)} tasks ({itemize(tasks, MAX_TASK_EXAMPLES)}) has a label in this result, "
                f"whose tasks are {itemize(self.answers, MAX_TASK_EXAMPLES)}: name the file that the votes came from"
            )


class Values:
    """The labels of a question as the tool writes them, by their text: 4 for "4", a path of names for "a / b"."""

    def __init__(self, otherwise: Callable[[str], Any] = str) -> None:
        self._known: dict[str, Any] = {}
        self._otherwise = otherwise  # what a label that nobody has given becomes
        self._normal: dict[str, Any] | None = None

    def add(self, text: str, value: object) -> None:
        """Take a value as somebody has given it."""
        self._known.setdefault(text, value)

    def of(self, label: str) -> Any:
        """Return a label as the tool writes it; one that was normalised in reading has its own spelling again.

        >>> values = Values()
        >>> values.add("Very good", "Very good")
        >>> values.of("Very good"), values.of("very good"), values.of("bad")
        ('Very good', 'Very good', 'bad')
        """
        if label in self._known:
            return self._known[label]
        if self._normal is None:
            forms = normalize_texts(list(self._known))
            self._normal = dict(zip(reversed(forms), reversed(self._known.values()), strict=True))  # the first one counts
        return self._normal[label] if label in self._normal else self._otherwise(label)
