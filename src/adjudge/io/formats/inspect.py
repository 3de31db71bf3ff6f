"""Logs of Inspect: `.eval`, a zip archive with a member per sample, and `.json`, one object with all samples.

A scorer is a judge. A panel, a scorer that runs several graders and logs what each said, gives a judge per grader. A key of a
score that is an object is a question. A score that a person has edited is a vote of that person; the scorer's own
vote stays. The `target` of a sample is the truth for its answer, not for the verdicts of judges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
import polars as pl

from adjudge.data.vocabulary import text_of
from adjudge.errors import InputError, quote
from adjudge.io.formats import archive
from adjudge.io.formats.decoding import decode
from adjudge.io.formats.export import Ask, Extract
from adjudge.io.formats.registry import Content, join_names
from adjudge.io.formats.verdicts import Verdicts, number_names

LOG_VERSION: Final = 2
# Members of an archive that hold a sample: whole, or what is left of one whose messages and events are stored apart.
SAMPLE_PATTERN: Final = re.compile(r"samples/.*_epoch_\d+(\.json|/sample\.json)", re.DOTALL)
NO_ANSWER_GRADE: Final = "N"  # the grade of no answer
UNCHANGED: Final = "UNCHANGED"  # what an edit leaves as it was
UNSCORED: Final = "samples without scores"
INVALID: Final = "invalidated samples"
AnySample = TypeVar("AnySample", bound="SampleId")


class Provenance(msgspec.Struct, gc=False):
    """Who has edited a score."""

    author: str


class Metadata(msgspec.Struct, gc=False):
    """What a scorer has logged with a score; only the votes of a panel are decoded."""

    panel: Any = None


class ScoreEdit(msgspec.Struct, gc=False):
    """An edit of a score; the first one has the score as the scorer gave it."""

    value: Any = UNCHANGED
    provenance: Provenance | None = None
    metadata: Metadata | str | None = None


class Score(msgspec.Struct, gc=False):
    """What a scorer said of a sample."""

    value: Any = None
    metadata: Metadata | None = None
    history: list[ScoreEdit] = []


class SampleId(msgspec.Struct, gc=False):
    """What identifies a sample of a log."""

    id: int | str
    epoch: int = 1


class Sample(SampleId, gc=False):
    """A sample and its scores; messages and events are not even decoded."""

    scores: dict[str, Score] | None = None
    invalidation: Provenance | None = None


class ModelReply(msgspec.Struct, gc=False):
    """What the model has answered."""

    completion: Any = None


class SampleItem(SampleId, gc=False):
    """A sample and its content."""

    input: Any = None
    target: Any = None
    output: ModelReply | None = None


class SampleScores(SampleId, gc=False):
    """A sample, its target and its scores as they are in the end."""

    target: Any = None
    scores: dict[str, Score] | None = None


class ScorerSpec(msgspec.Struct, gc=False):
    """A scorer of the task."""

    name: str
    options: dict[str, Any] = {}


class EvalSpec(msgspec.Struct):
    """The task that was run."""

    task: str
    model: str
    eval_id: str = ""
    scorers: list[ScorerSpec] | None = None
    model_roles: dict[str, Any] | None = None


class LogHeader(msgspec.Struct):
    """The header of a log."""

    version: int
    eval: EvalSpec


class Version(msgspec.Struct):
    """The version of a log whose header has an unknown form."""

    version: int


def read_all(contents: Sequence[Content], ask: Ask) -> Extract:
    """Return the verdicts of the scorers of logs; ids of several logs begin with the fields in which the logs differ."""
    where = join_names(contents)
    logs = [read_log(content, Sample) for content in contents]
    fields, prefixes = _distinguish([log.eval for log, _ in logs], where)
    has_epochs = len({sample.epoch for _, samples in logs for sample in samples}) > 1
    verdicts = Verdicts(ask, where, no_answer=NO_ANSWER_GRADE)
    for (log, samples), prefix in zip(logs, prefixes, strict=True):
        scores = LogScores(log.eval, verdicts)
        for sample in samples:
            scores.take(sample, prefix + _task_id(sample, has_epochs))
        scores.add_abstentions()
    task = "/".join([*fields, "sample.id", *(["epoch"] if has_epochs else [])])
    return verdicts.extract({"task": task, "worker": "scorer", "label": "scores[].value"})


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield input, target and the model's answer of each sample."""
    logs = [read_log(content, SampleItem) for content in contents]
    _, prefixes = _distinguish([log.eval for log, _ in logs], join_names(contents))
    has_epochs = len({sample.epoch for _, samples in logs for sample in samples}) > 1
    for (_, samples), prefix in zip(logs, prefixes, strict=True):
        for sample in samples:
            completion = None if sample.output is None else sample.output.completion
            yield prefix + _task_id(sample, has_epochs), {"input": sample.input, "target": sample.target, "output": completion}


def table(contents: Sequence[Content], *, votes: bool = True) -> pl.DataFrame:
    """Return a line per sample with its target and the value of each scorer; labels are joined to `task`.

    Values that are objects are JSON. Without `votes` the scorers are left out.
    """
    logs = [read_log(content, SampleScores) for content in contents]
    fields, prefixes = _distinguish([log.eval for log, _ in logs], join_names(contents))
    has_epochs = len({sample.epoch for _, samples in logs for sample in samples}) > 1
    rows = []
    for (log, samples), prefix in zip(logs, prefixes, strict=True):
        for sample in samples:
            row = {"task": prefix + _task_id(sample, has_epochs), **{field: getattr(log.eval, field) for field in fields}}
            row |= {"id": str(sample.id), "epoch": sample.epoch, "target": _cell(sample.target)}
            rows.append(row | ({name: _cell(score.value) for name, score in (sample.scores or {}).items()} if votes else {}))
    return pl.DataFrame(rows, infer_schema_length=None)


def _cell(value: Any) -> str | None:
    """Return a value as a cell of a table."""
    if value is None or isinstance(value, str):
        return value
    return text_of(value) if isinstance(value, bool | int) else msgspec.json.encode(value).decode()


def _task_id(sample: Any, has_epochs: bool) -> str:
    """Return the id of a sample as votes have it."""
    return f"{sample.id}/{sample.epoch}" if has_epochs else str(sample.id)


def _distinguish(specs: Sequence[EvalSpec], where: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the fields in which logs differ, and the prefix of the sample ids of each."""
    if len(specs) == 1:
        return (), [""]
    for fields in (("model",), ("task",), ("task", "model"), ("eval_id",)):
        values = [tuple(getattr(spec, field) for field in fields) for spec in specs]
        if len(set(values)) == len(specs):
            return fields, ["".join(f"{value}/" for value in some) for some in values]
    raise InputError(f"{where}: two of these are the same log, {quote(specs[0].task)}: name each log once")


class LogScores:
    """The scores of one log, taken sample by sample."""

    def __init__(self, spec: EvalSpec, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._graders = {name: grader_names(scorer, spec) for name, scorer in _scorers_by_name(spec.scorers or ())}
        self._judges: dict[str, dict[str, None]] = {}  # scorer -> those who vote in its name
        self._keys: dict[str, dict[str, None]] = {}  # scorer -> the questions of its scores, if these are objects
        self._silent: list[tuple[str, str | None, str]] = []  # scorer, judge (None for all of the scorer's) and task

    def take(self, sample: Sample, task: str) -> None:
        """Take the scores of a sample."""
        if sample.invalidation is not None:
            self._verdicts.skipped[INVALID] += 1
        elif not sample.scores:
            self._verdicts.skipped[UNSCORED] += 1
        else:
            self._silent += [(name, None, task) for name in self._graders if name not in sample.scores]
            for name, score in sample.scores.items():
                own, people = _by_editor(score)
                panel = _panel(score)
                if panel is not None:
                    votes, judges = panel
                    for judge, vote in zip(judges or _pad(self._graders.get(name), name, len(votes)), votes, strict=True):
                        self._add(name, judge, task, vote)
                elif own != UNCHANGED:
                    self._add(name, name, task, own)
                for author, value in people.items():
                    self._add(name, author, task, value, is_person=True)

    def _add(self, scorer: str, judge: str, task: str, value: Any, *, is_person: bool = False) -> None:
        if not is_person:
            self._judges.setdefault(scorer, {})[judge] = None
        if isinstance(value, dict):
            self._keys.setdefault(scorer, {}).update(dict.fromkeys(value))
            for key, part in value.items():
                self._verdicts.add(key, judge, task, part, is_question=True)
        elif value is None:
            self._silent.append((scorer, judge, task))
        else:
            self._verdicts.add(scorer, judge, task, value)

    def add_abstentions(self) -> None:
        """Add an abstention wherever a scorer, or a grader of a panel, gave no value: of all questions that it answers."""
        for scorer, judge, task in self._silent:
            keys = self._keys.get(scorer)
            for name in keys or [scorer]:
                for one in self._judges.get(scorer, [scorer]) if judge is None else [judge]:
                    self._verdicts.add(name, one, task, None, is_question=keys is not None)


def _by_editor(score: Score) -> tuple[Any, dict[str, Any]]:
    """Return the value that the scorer gave (UNCHANGED if it gave none), and the last value that each person gave."""
    if not score.history:
        return score.value, {}
    own: Any = UNCHANGED
    people: dict[str, Any] = {}
    for edit in score.history:
        if edit.value != UNCHANGED and edit.provenance is None:
            own = edit.value
        elif edit.value != UNCHANGED and edit.provenance is not None:
            people[edit.provenance.author] = edit.value
    return own, people


def _panel(score: Score) -> tuple[list[Any], list[str] | None] | None:
    """Return the votes of the graders of a panel, and their names if the score has them; None for any other scorer."""
    given = [score.metadata, *(edit.metadata for edit in score.history[:1])]  # an edit may replace the metadata
    panel = next((one.panel for one in given if isinstance(one, Metadata) and isinstance(one.panel, dict)), {})
    votes, judges = panel.get("votes"), panel.get("judges")
    if not isinstance(votes, list):
        return None
    is_named = isinstance(judges, list) and len(judges) == len(votes) and all(isinstance(judge, str) for judge in judges)
    return votes, judges if is_named else None


def _scorers_by_name(scorers: Iterable[ScorerSpec]) -> Iterator[tuple[str, ScorerSpec]]:
    """Yield scorers by the names that their scores have: of several of one name the second is called name1."""
    seen = Counter[str]()
    for scorer in scorers:
        name = scorer.name.rpartition("/")[2]
        yield f"{name}{seen[name] or ''}", scorer
        seen[name] += 1


def grader_names(scorer: ScorerSpec, spec: EvalSpec) -> list[str]:
    """Return the names of the graders of a panel, as far as the log tells: models, or scorers with what distinguishes them.

    >>> grader_names(ScorerSpec("qa", {"model": ["openai/gpt", {"model": "google/gemini"}]}), EvalSpec("task", "model"))
    ['openai/gpt', 'google/gemini']
    >>> judges = [{"name": "judge", "params": {"strict": strict, "level": 2}} for strict in (True, False)]
    >>> grader_names(ScorerSpec("multi_scorer", {"scorers": judges}), EvalSpec("task", "model"))
    ['judge(strict=True)', 'judge(strict=False)']
    """
    role = scorer.options.get("model_role", "grader")
    models = scorer.options.get("model") or (spec.model_roles or {}).get(role if isinstance(role, str) else "grader")
    members = [one for one in scorer.options.get("scorers") or () if isinstance(one, dict)]
    if not members:
        given = models if isinstance(models, list) else []
        return number_names([str(one.get("model", "")) if isinstance(one, dict) else str(one) for one in given])
    names = [str(one.get("name", "")) for one in members]
    params = [one.get("params") or {} for one in members]
    differing = [
        key
        for key in dict.fromkeys(key for one in params for key in one)
        if any(p.get(key) != params[0].get(key) for p in params)
    ]
    if len(set(names)) < len(names):
        told = [", ".join(f"{key}={one.get(key)}" for key in differing) for one in params]
        names = [f"{name}({what})" if what else name for name, what in zip(names, told, strict=True)]
    return number_names(names)


def _pad(names: list[str] | None, scorer: str, size: int) -> list[str]:
    """Return the names of the graders of a panel; numbered ones if the log does not tell."""
    return names if names is not None and len(names) == size else [f"{scorer}[{n}]" for n in range(size)]


def read_log(content: Content, kind: type[AnySample]) -> tuple[LogHeader, list[AnySample]]:
    """Return header and samples of a log, the latter as this type; the last record of a sample replaces earlier ones."""
    if content.kind == "zip":
        assert content.path is not None
        start = next(name for name in archive.LOG_MEMBERS if name in content.fields)
        parts = archive.read_members(content.path, lambda name: name == start or SAMPLE_PATTERN.fullmatch(name), content.name)
        header: Any = None
        samples: list[Any] = []
        decoder = msgspec.json.Decoder(kind)
        for name, data in parts:
            where = f"{content.name}: {name}"
            if name == start:
                header = _decode_header(data, LogHeader, where)
            else:
                samples.append(_decode(decoder, data, where))
    else:
        log_type: Any = msgspec.defstruct("Log", [("samples", list[kind] | None, None)], bases=(LogHeader,))  # type: ignore[valid-type]
        header = _decode_header(content.data, log_type, content.name)
        samples = header.samples or []
    return header, list({(sample.id, sample.epoch): sample for sample in samples}.values())


def _decode_header(data: bytes, kind: type[LogHeader], where: str) -> LogHeader:
    """Return a header, which is of a version that is read."""
    try:
        header: LogHeader = _decode(msgspec.json.Decoder(kind), data, where)
        version = header.version
    except InputError:
        version = _decode(msgspec.json.Decoder(Version), data, where).version
        if version == LOG_VERSION:
            raise
    if version != LOG_VERSION:
        remedy = "`inspect log convert` updates it" if version < LOG_VERSION else "a newer adjudge may read it"
        raise InputError(f"{where} is an Inspect log of version {version}, and version {LOG_VERSION} is read: {remedy}")
    return header


def _decode(decoder: msgspec.json.Decoder[Any], data: bytes, where: str) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return decode(data, decoder.type, where)
