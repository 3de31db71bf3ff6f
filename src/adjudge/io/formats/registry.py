"""Every format: its name, how it is recognised, and the module that reads it, which is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from adjudge.errors import InputError, listed, unknown
from adjudge.io.columns import is_usual
from adjudge.io.formats.content import JSON, TABLES, Content

AUTO: Final = "auto"
TABLE: Final = "table"  # as a format: an ordinary table, whatever it looks like
MODULES: Final = "adjudge.io.formats."
RESPONSES: Final = ("{", "[", "n")  # an object; a list or null in a record that nobody has seen
RECORDS: Final = (*JSON, *TABLES)  # rows with named fields, however they are stored


@dataclass(frozen=True)
class Format:
    """A format of the registry."""

    name: str
    module: str  # has `read`, or `columns` for tables whose names are all there is to know
    test: Callable[[Content], bool]  # whether a content is of this format
    needs: str  # what the test looks for, in words
    knows: frozenset[str] = frozenset()  # roles beside votes that it can give: gold label, truth
    fits: Callable[[Content], bool] | None = None  # a weaker test, where the caller has named the format
    named: frozenset[str] = frozenset()  # roles whose column, or whose question, the caller may name
    back: str = ""  # the module that writes labels in the tool's own form; none for tools that have no such form

    def load(self) -> Any:
        """Return the module that reads it."""
        return import_module(MODULES + self.module)


def _label_studio(c: Content) -> bool:
    lists = {c.values.get("annotations"), c.values.get("predictions")}
    return c.kind in JSON and not lists.isdisjoint("[n") and c.has("id", "data")  # null: nobody has seen the first task yet


def _label_studio_min(c: Content) -> bool:
    return c.kind in RECORDS and c.has("id", "annotator", "annotation_id", "lead_time")


def _mturk(c: Content) -> bool:
    return c.kind in RECORDS and c.has("HITId", "WorkerId", "AssignmentStatus") and _begins(c, "Answer.")


def _toloka(c: Content) -> bool:
    return c.kind in RECORDS and c.has("ASSIGNMENT:worker_id") and _begins(c, "OUTPUT:")


def _argilla(c: Content) -> bool:
    return c.kind in JSON and c.values.get("responses", "") in RESPONSES and c.has("id", "fields", "suggestions")


def _argilla_flat(c: Content) -> bool:
    asked = (name for name in c.fields if name.endswith(".responses"))
    return c.kind in RECORDS and c.has("id") and any(c.has(f"{name}.users") for name in asked)


def _prodigy(c: Content) -> bool:
    return c.kind in JSON and c.has("_input_hash", "_task_hash", "answer")


def _doccano(c: Content) -> bool:
    if c.kind in ("zip", "folder"):
        return (
            bool(c.fields)
            and all(name.endswith(".jsonl") for name in c.fields)
            and bool(import_module(f"{MODULES}doccano").first(c))
        )
    return (
        c.kind == "lines"
        and c.has("id", "text")
        and c.values.get("label") == "["
        and not any(is_usual(f, "worker") for f in c.fields)
    )


def _community_notes(c: Content) -> bool:
    return c.kind in RECORDS and c.has("noteId", "helpfulnessLevel") and (c.has("raterParticipantId") or c.has("participantId"))


def _crowdflower(c: Content) -> bool:
    return c.kind in RECORDS and c.has("_unit_id", "_worker_id")


def _netease(c: Content) -> bool:
    return c.kind in RECORDS and c.has("taskId", "workerId", "answer", "truth") and (c.has("completeTime") or c.has("tasksetId"))


def _by_module(name: str) -> Callable[[Content], bool]:
    """Return the test of a module, which is loaded only for contents that could be of its format."""

    def test(c: Content) -> bool:
        if c.kind == "folder" or (name == "fast_dawid_skene" and c.name.endswith("crowd.csv")):
            return bool(import_module(MODULES + name).is_own(c))
        return False

    return test


def _peerannot(c: Content) -> bool:
    return c.kind == "object" and set(c.values.values()) == {"{"} and bool(c.inner) and "{" not in c.inner


def _begins(c: Content, start: str) -> bool:
    return any(name.startswith(start) for name in c.fields)


KNOWN: Final = frozenset({"gold label", "truth"})
COLUMNS: Final = frozenset({"task", "worker", "label"})
QUESTION: Final = frozenset({"label"})
FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        form.name: form
        for form in (
            Format(
                "label-studio",
                "label_studio",
                _label_studio,
                "tasks with id, data and annotations or predictions",
                KNOWN,
                named=QUESTION,
                back="label_studio_predictions",
            ),
            Format(
                "label-studio-min",
                "label_studio_min",
                _label_studio_min,
                "id, annotator, annotation_id and lead_time",
                named=COLUMNS,
            ),
            Format("mturk", "mturk", _mturk, "HITId, WorkerId, AssignmentStatus and Answer.…", named=COLUMNS),
            Format("toloka", "toloka", _toloka, "ASSIGNMENT:worker_id and OUTPUT:…", KNOWN, named=COLUMNS),
            Format(
                "argilla",
                "argilla",
                _argilla,
                "records with id, fields, suggestions and responses",
                named=QUESTION,
                back="argilla_suggestions",
            ),
            Format(
                "argilla-flat",
                "argilla",
                _argilla_flat,
                "id, QUESTION.responses and QUESTION.responses.users",
                named=QUESTION,
                back="argilla_suggestions",
            ),
            Format("prodigy", "prodigy", _prodigy, "_input_hash, _task_hash and answer", named=QUESTION),
            Format("doccano", "doccano", _doccano, "a file USER.jsonl per annotator, with id, text and label"),
            Format("community-notes", "community_notes", _community_notes, "noteId, raterParticipantId and helpfulnessLevel"),
            Format("crowdflower", "crowdflower", _crowdflower, "_unit_id and _worker_id", KNOWN, named=COLUMNS),
            Format(
                "netease-crowd", "netease", _netease, "taskId, workerId, answer, truth and completeTime", frozenset({"truth"})
            ),
            Format(
                "fast-dawid-skene",
                "fast_dawid_skene",
                _by_module("fast_dawid_skene"),
                "three columns (annotator, question, annotation) without a header",
                frozenset({"truth"}),
                lambda c: c.kind in ("table", "folder"),
            ),
            Format(
                "truth-inference",
                "truth_inference",
                _by_module("truth_inference"),
                "a folder with label.csv or answer.csv, and truth.csv",
                frozenset({"truth"}),
            ),
            Format("peerannot", "peerannot", _peerannot, "an object {task: {worker: label}}"),
        )
    }
)


def recognise(contents: Sequence[Content], named: str = AUTO) -> Format | None:
    """Return the format of some files that belong together; None for ordinary tables.

    A format that the caller named is an error where the content does not fit.
    """
    if named == TABLE:
        return None
    if named != AUTO:
        if named not in FORMATS:
            raise unknown("format", named, (AUTO, TABLE, *FORMATS))
        form = FORMATS[named]
        for content in contents:
            if not (form.fits or form.test)(content):
                raise InputError(
                    f"{content.name} does not look like {named}: {form.needs} are expected; found: {_found(content)}"
                )
        return form
    found = [_only([form for form in FORMATS.values() if form.test(content)], content) for content in contents]
    if any(form is not found[0] for form in found):
        kinds = listed(f"{c.name} ({'ordinary' if f is None else f.name})" for c, f in zip(contents, found, strict=True))
        raise InputError(f"these are of several formats: {kinds}; read them in several calls")
    return found[0] if found else None


def _only(found: list[Format], content: Content) -> Format | None:
    if len(found) > 1:
        names = listed(form.name for form in found)
        raise InputError(f"{content.name} could be any of {names}: say which with format=… (--format)")
    return found[0] if found else None


def _found(content: Content) -> str:
    what = {"other": "nothing readable", "object": "one JSON object"}.get(content.kind, content.kind)
    return f"{what} with {listed(content.fields)}" if content.fields else what
