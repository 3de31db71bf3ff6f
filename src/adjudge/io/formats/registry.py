"""Exports of annotation tools: what the start of a source shows, and which reader takes it.

`look` shows the start of a source as a `Content`; `recognise` returns the format whose test it passes.

To add a format, write one file in this folder and one line in `FORMATS`. The file has one function,

    def read(content: Content, ask: Ask) -> Extract

which returns votes, gold, truth and notes (`adjudge.io.formats.export`; its `AnswerCollector` takes answers one by one). The
line has the name, the reader, the test, and a description of the test. Tests use the fields of `Content`, so that a module
is loaded only for its own exports. A table whose column names are all there is to know needs no file: its line has `columns`.
A module may have `read_all(contents, ask)` instead, which is given several files together. Verdicts of evaluation tools, whose
files do not say whether two scorers answer one question, go through `Verdicts` of verdicts.py, as in phoenix.py.
A module whose files also hold what was judged has `items(contents)`, a generator of (task, {column: value}) with the tasks of the
votes; a value is text, or anything that JSON holds. `read_items` of export.py calls it when somebody asks for items; reading
votes never does.
A file whose line says `writes_back` also has `SUFFIXES`, `rows`, `without_votes` and `id_of`, as label_studio.py does; or, if
labels are added to a table of its tasks, `table` in place of all four, as in inspect.py.

Another package adds a format with an entry point, named like the format, in the group `adjudge.formats`:

    [project.entry-points."adjudge.formats"]
    my-tool = "my_package.reader"

The module has `read` as above, `recognise(content) -> bool`, and `NEEDS`, its description in words. It is loaded for
`format="my-tool"`, or if a content passes no test of `FORMATS` and is not a table of task, worker and label either.
"""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import polars as pl

from adjudge.data.extensions import extension_names, load_extension
from adjudge.errors import InputError, OptionError, choice_error, itemize
from adjudge.io import files, frames, spreadsheet
from adjudge.io.columns import VOTE_ROLES, is_usual
from adjudge.io.formats import archive
from adjudge.io.formats.decoding import decode, decode_lines

log = logging.getLogger(__name__)
# "table": text with a header; "typed": Parquet, Arrow and spreadsheets; "frame": in memory; the next three are JSON, and
# "records" is JSON in memory; "other" shows nothing that a format could be recognised by.
Kind = Literal["folder", "zip", "table", "typed", "frame", "array", "object", "lines", "records", "other"]
OBJECTS: Final = ("object", "lines")  # a whole document of JSON, or several
TABLE_KINDS: Final = ("table", "typed", "frame")
JSON_KINDS: Final = ("array", "lines", "records")  # of objects
RECORDS: Final = (*JSON_KINDS, *TABLE_KINDS)  # rows with named fields, however they are stored
OBJECT_ROWS: Final = (*JSON_KINDS, "typed", "frame")  # the same, if fields may hold lists and objects
MAX_JSON_START_BYTES: Final = 1 << 20  # a first record may be long
# Strings and punctuation. A string that the end cuts off is one token: its quotes are not tried again and again.
JSON_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|[{}\[\]:]', re.DOTALL)
SHEET: Final = ".xlsx"
SHEET_MEMBER: Final = "xl/workbook.xml"  # that every such file has
AUTO: Final = "auto"
TABLE: Final = "table"  # as a format: always an ordinary table
MODULES: Final = "adjudge.io.formats."


@dataclass(frozen=True, eq=False)
class Content:
    """A source, and what its first bytes show."""

    name: str  # in messages
    kind: Kind
    path: Path | None = None
    fields: tuple[str, ...] = ()  # columns, the keys of the first record, or the files of a folder or archive
    values: Mapping[str, str] = field(default_factory=dict)  # JSON: the first character of each field's value
    inner: frozenset[str] = frozenset()  # JSON: the first characters of the values inside the fields
    separator: str = ","
    start: bytes = b""  # of a file, unpacked
    held: Any = None  # a frame or records in memory; or what keeps the file of a pipe

    def has(self, *names: str, begins: str = "") -> bool:
        """Return whether all these fields are there, and one that begins so."""
        return set(names) <= set(self.fields) and any(name.startswith(begins) for name in self.fields)

    def require(self, *names: str, form: str) -> None:
        """Raise if a field that a format needs is missing."""
        missing = [name for name in names if name not in self.fields]
        if missing:
            raise InputError(f"{self.name}: {form} needs {itemize(missing)}; the fields are: {itemize(self.fields)}")

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """The first lines of a text file, the header among them."""
        try:
            return tuple(tuple(row) for row in csv.reader(files.lines_in(self.start), delimiter=self.separator) if row)
        except csv.Error:
            return ()

    def table(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return these columns; those of text files as text."""
        wanted = {name: name for name in columns}
        if self.kind == "frame":
            return frames.select(self.held, wanted)
        if self.kind in JSON_KINDS:
            records = self.records
            return pl.DataFrame({name: _series([r.get(name) for r in records]) for name in columns}, strict=False)
        assert self.path is not None
        form = files.sniff_format(self.start) if self.kind == "typed" else files.FileFormat("text", self.separator)
        return pl.concat(list(files.batches(self.path, wanted, form, self.name)))

    def texts(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return these columns as text, without white space around it and with empty text as missing."""
        return pl.DataFrame([as_text(column) for column in self.table(list(dict.fromkeys(columns))).iter_columns()])

    def lines(self, kind: Any) -> list[dict[str, Any]]:
        """Return the lines of a table with the columns that are fields of this type; cells without a value are left out."""
        import msgspec

        names = [part.encode_name for part in msgspec.structs.fields(kind) if part.encode_name in self.fields]
        if self.kind == "frame":  # whose cells may hold objects
            wrapped = frames.wrap_frame(self.held)
            cells = (wrapped.get_column(name).to_list() for name in names)
            columns = [[cell.tolist() if hasattr(cell, "tolist") else cell for cell in column] for column in cells]
        else:
            columns = [column.to_list() for column in self.table(names).iter_columns()]
        rows = zip(*columns, strict=True)
        return [{name: cell for name, cell in zip(names, row, strict=True) if not is_missing(cell)} for row in rows]

    @cached_property
    def data(self) -> bytes:
        """The bytes of a file, as UTF-8 and unpacked."""
        assert self.path is not None
        data = archive.unpack(self.path, self.name)
        encoding = files.encoding_of(data)
        try:
            return data if encoding is None else data.decode(encoding).encode()
        except UnicodeDecodeError as error:
            raise files.decode_error(self.name, error) from error

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The objects of a JSON array, of JSON lines, or of a list in memory."""
        if self.kind == "records":
            for number, one in enumerate(self.held, 1):
                if not isinstance(one, dict):
                    raise InputError(
                        f"{self.name}: item {number} is a {type(one).__name__}, the first one a dict: give dicts throughout"
                    )
            return list(self.held)
        return list(self.decoded(dict[str, Any]))

    def decoded(self, kind: Any) -> list[Any]:
        """Return records, objects, or the lines of a table, each of this type; what does not fit is an error.

        Cells of a text table are converted: "0.5" is a number if the type says so.
        """
        import msgspec

        if self.kind == "records" or self.kind in TABLE_KINDS:
            records = self.records if self.kind == "records" else self.lines(kind)
            try:
                return list(msgspec.convert(records, list[kind], strict=self.kind != "table"))
            except msgspec.MsgspecError as error:
                raise InputError(f"{self.name} is damaged: {error}") from error
        try:
            if self.kind == "lines":
                return decode_lines(self.data, kind, self.name)
            if self.kind == "object":
                return [decode(self.data, kind, self.name)]
            return list(decode(self.data, list[kind], self.name))
        finally:
            vars(self).pop("data", None)  # objects do not refer to it, and both would fill memory


def as_text(column: pl.Series) -> pl.Series:
    """Return a column as text, without white space around it and with empty text as missing."""
    plain = frames.prepare_ids(column, column.name).cast(pl.String).str.strip_chars()
    return plain.set(plain == "", None)


def is_missing(cell: object) -> bool:
    """Return whether a cell has no value."""
    return cell is None or (cell == "" if isinstance(cell, str) else isinstance(cell, float) and cell != cell)


def look(path: Path, name: str, held: object = None) -> Content:
    """Return what the start of a file or folder shows; a file that cannot be read shows nothing."""
    try:
        if path.is_dir():
            return Content(name, "folder", path, tuple(sorted(p.name for p in path.iterdir() if not p.name.startswith("."))))
        start = files.start_of(path)
        is_json = start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
        json_start = (files.start_of(path, MAX_JSON_START_BYTES) if is_json else b"") or start
    except (OSError, EOFError, ValueError, zlib.error):
        return Content(name, "other", path, held=held)
    shown: dict[str, Any] = {"path": path, "start": start[:8], "held": held}
    if start.startswith(archive.ZIP_SIGNATURES):
        named = name.lower().endswith(SHEET)
        inside = () if named else tuple(archive.members(path, name))
        if named or SHEET_MEMBER in inside:  # spreadsheets are archives, too
            return Content(name, "typed", fields=spreadsheet.sheet_columns(path), **shown)
        return Content(name, "zip", fields=inside, **shown)
    if start.startswith((b"PAR1", b"ARROW1")):
        return Content(name, "typed", fields=_schema(path, start), **shown)
    shown["start"] = start
    encoding = files.encoding_of(start)
    if encoding is None and b"\0" in start.split(b"\n", 1)[0]:
        return Content(name, "other", **shown)
    plain = json_start.decode(encoding or "utf-8", "replace").lstrip("\ufeff \t\r\n")
    if plain.startswith("{") or re.match(r"\[\s*[{\]]", plain):
        return _look_json(name, plain, shown)
    try:
        separator, fields = files.header_in(start)
    except csv.Error:
        return Content(name, "other", **shown)
    return Content(name, "table", fields=fields, separator=separator, **shown)


def look_bytes(data: bytes, name: str) -> Content:
    """Return what the start of a JSON file in memory shows."""
    return _look_json(name, data[:MAX_JSON_START_BYTES].decode("utf-8", "replace").lstrip("\ufeff \t\r\n"), {})


def look_frame(frame: Any, name: str) -> Content:
    """Return what the columns of a frame show."""
    return Content(name, "frame", fields=tuple(frames.columns_of(frame)), held=frame)


def look_records(records: Sequence[Any], name: str) -> Content:
    """Return what the first of some records in memory shows."""
    values = {str(key): _first_character(value) for key, value in records[0].items()}
    return Content(name, "records", fields=tuple(values), values=values, held=records)


def _look_json(name: str, text: str, shown: dict[str, Any]) -> Content:
    level = 2 if text.startswith("[") else 1
    values, inner, end = _first_object(text, level)
    kind: Kind = "array"
    if level == 1:
        # A single object is a table of one line, unless all it has is objects, or it is spread over several lines.
        is_line = text[end:].lstrip().startswith("{") or (values and set(values.values()) != {"{"})
        kind = "lines" if is_line and "\n" not in text[:end].strip() else "object"
    return Content(name, kind, fields=tuple(values), values=values, inner=inner, **shown)


def _first_object(text: str, level: int) -> tuple[dict[str, str], frozenset[str], int]:
    """Return the keys of the first object and how their values begin, how values inside these begin, and where it ends."""
    values: dict[str, str] = {}
    inner: set[str] = set()
    depth, last = 0, '""'
    for token in JSON_TOKEN.finditer(text):
        mark = token[0][0]
        if mark == '"':
            last = token[0]
        elif mark == ":" and depth in (level, level + 1):
            begins = text[token.end() : token.end() + 64].lstrip()[:1]
            if not begins:  # cut off
                break
            if depth == level:
                values[_unquote(last)] = begins
            else:
                inner.add(begins)
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth < level:
                return values, frozenset(inner), token.end()
    return values, frozenset(inner), len(text)


def _unquote(token: str) -> str:
    try:
        return str(json.loads(token))
    except (ValueError, RecursionError):
        return token


def _first_character(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return "{" if isinstance(value, dict) else "["
    return "n" if value is None else '"' if isinstance(value, str) else "0"


def _schema(path: Path, start: bytes) -> tuple[str, ...]:
    try:
        return tuple(pl.read_parquet_schema(path) if start.startswith(b"PAR1") else pl.read_ipc_schema(path))
    except (pl.exceptions.PolarsError, OSError, files.PANIC):
        return ()  # its reader raises the error


def _series(values: list[Any]) -> pl.Series:
    """Return a field of JSON records as a column; fields of several types as text, objects as JSON."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str} or kinds <= {int} or kinds <= {bool} or kinds <= {int, float}:
        return pl.Series(values, strict=False)
    if kinds <= {list}:
        lists = [None if v is None else [None if x is None else _text(x) for x in v] for v in values]
        return pl.Series(lists, dtype=pl.List(pl.String))
    return pl.Series([None if value is None else _text(value) for value in values], dtype=pl.String)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


Test = Callable[[Content], bool]
NONE: Final = frozenset[str]()
VOTE: Final = frozenset(VOTE_ROLES)
QUESTION: Final = frozenset({"label"})
TRUTH: Final = frozenset({"truth"})
GOLD: Final = frozenset({"gold label", "truth"})


@dataclass(frozen=True)
class Format:
    """A format of the registry."""

    name: str
    test: Test  # whether a content is of this format
    needs: str  # what the test looks for, in words
    gives: frozenset[str] = NONE  # roles in addition to votes: gold label, truth
    nameable: frozenset[str] = NONE  # roles whose column, or whose question, the caller may name
    reader: Any = ""  # a module of this folder, by default of this name, or "module:function"; or a module of another package
    fits: Test | None = None  # a weaker test, if the caller has named the format
    columns: Mapping[str, tuple[str, ...]] | None = None  # of tables whose names are all there is to know: role -> names
    writes_back: bool = False  # whether labels can be written in the tool's own form

    def load(self) -> Any:
        """Return the module that reads it."""
        home = self.reader or self.name.replace("-", "_")
        return import_module(MODULES + home.partition(":")[0]) if isinstance(home, str) else home

    def read(self, content: Content, ask: Any) -> Any:
        """Return the `Extract` of a content, as `read` of its module does."""
        function = self.reader.partition(":")[2] if isinstance(self.reader, str) else ""
        return getattr(self.load(), function or "read")(content, ask)

    def columns_in(self, content: Content) -> dict[str, str]:
        """Return the column of each role of a table."""
        return {role: next(name for name in names if content.has(name)) for role, names in (self.columns or {}).items()}


def _records(*names: str, begins: str = "", kinds: Sequence[Kind] = RECORDS) -> tuple[Test, str]:
    """Return the test for records with all these fields and one with this prefix, and its description."""
    needs = [*names, *([f"{begins}…"] if begins else [])]
    return lambda c: c.kind in kinds and c.has(*names, begins=begins), f"{', '.join(needs[:-1])} and {needs[-1]}"


def _label_studio(c: Content) -> bool:
    lists = {c.values.get("annotations"), c.values.get("predictions")}
    return c.kind in JSON_KINDS and not lists.isdisjoint("[n") and c.has("id", "data")  # null: nobody has seen the first task yet


def _argilla(c: Content) -> bool:  # an object; a list or null in a record that nobody has seen
    return c.kind in JSON_KINDS and c.values.get("responses") in (*"{[n",) and c.has("id", "fields", "suggestions")


def _argilla_flat(c: Content) -> bool:
    return c.kind in RECORDS and c.has("id") and any(n.endswith(".responses") and c.has(f"{n}.users") for n in c.fields)


def _doccano(c: Content) -> bool:
    if c.kind in ("zip", "folder"):
        return bool(c.fields) and all(n.endswith(".jsonl") for n in c.fields) and _ask_reader("doccano", "is_own", c)
    is_document = c.kind == "lines" and c.has("id", "text") and c.values.get("label") == "["
    return is_document and not any(is_usual(name, "worker") for name in c.fields)


def _community_notes(c: Content) -> bool:
    return c.kind in RECORDS and c.has("noteId", "helpfulnessLevel") and (c.has("raterParticipantId") or c.has("participantId"))


def _netease(c: Content) -> bool:
    return c.kind in RECORDS and c.has("taskId", "workerId", "answer", "truth") and (c.has("completeTime") or c.has("tasksetId"))


def _fast_dawid_skene(c: Content) -> bool:
    return (c.kind == "folder" or c.name.endswith("crowd.csv")) and _ask_reader("research", "is_fast_dawid_skene", c)


def _truth_inference(c: Content) -> bool:
    return c.kind == "folder" and _ask_reader("research", "is_truth_inference", c)


def _peerannot(c: Content) -> bool:
    return c.kind == "object" and set(c.values.values()) == {"{"} and bool(c.inner) and "{" not in c.inner


def _inspect(c: Content) -> bool:
    if c.kind == "zip":
        return any(name in c.fields for name in archive.LOG_MEMBERS)
    return c.kind in ("object", "lines") and c.has("version", "status") and c.values.get("eval") == "{"


def _promptfoo(c: Content) -> bool:
    if c.kind in OBJECTS and c.has("evalId", "results", "config"):
        return c.values["results"] == "{"
    return c.kind in JSON_KINDS and c.has("gradingResult", "testIdx", "promptIdx")


def _mlflow(c: Content) -> bool:
    if c.kind in OBJECTS and c.has("traces", "next_page_token"):
        return c.values["traces"] == "["
    if c.kind in (*OBJECTS, *JSON_KINDS) and set(c.fields) == {"info", "data"}:
        return c.values["info"] == c.values["data"] == "{" and (c.kind == "records" or b'"trace_id"' in c.start)
    return c.kind in OBJECT_ROWS and c.has("trace_id", "assessments")


def _phoenix(c: Content) -> bool:
    if c.kind in OBJECTS and c.has("data", "next_cursor"):
        return c.values["data"] == "[" and b'"annotator_kind"' in c.start
    return c.kind in RECORDS and c.has("span_id", "annotator_kind") and (c.has("annotation_name") or c.has("name", "result"))


def _langfuse(c: Content) -> bool:
    if c.kind in OBJECTS and c.has("data", "meta"):
        return c.values["data"] == "[" and c.values["meta"] == "{" and _ask_reader("langfuse", "is_page", c)
    return c.kind in RECORDS and c.has("dataType", "source", "name", "value") and (c.has("traceId") or c.has("subject"))


def _opik(c: Content) -> bool:
    if c.kind in OBJECTS and c.has("trace", "spans", "downloaded_at"):
        return c.values["trace"] == "{" and c.values["spans"] == "["
    return c.kind in OBJECT_ROWS and c.has("id", "feedback_scores") and c.values.get("feedback_scores", "[") in "[n"


def _trulens(c: Content) -> bool:
    if c.kind in JSON_KINDS and c.has("feedback_result_id", "record_id", "name"):
        return True
    return c.kind in OBJECT_ROWS and c.has("record_id", "app_id") and any(f"{name}_calls" in c.fields for name in c.fields)


def _opentelemetry(c: Content) -> bool:
    if c.kind in OBJECTS and "[" in (c.values.get("resourceLogs"), c.values.get("resourceSpans")):
        return True
    return c.kind in (*OBJECTS, *JSON_KINDS) and c.has("event_name", "attributes", "span_id", "severity_number")


def _ask_reader(module: str, test: str, c: Content) -> bool:
    """Return what a test in a module says, which is loaded only for contents that could be of its format."""
    return bool(getattr(import_module(MODULES + module), test)(c))


_FORMATS: Final = (
    Format("label-studio", _label_studio, "tasks with id, data and annotations or predictions", GOLD, QUESTION, writes_back=True),
    Format("label-studio-min", *_records("id", "annotator", "annotation_id", "lead_time"), NONE, VOTE, "label_studio:read_min"),
    Format("mturk", *_records("HITId", "WorkerId", "AssignmentStatus", begins="Answer."), NONE, VOTE),
    Format("toloka", *_records("ASSIGNMENT:worker_id", begins="OUTPUT:"), GOLD, VOTE),
    Format("argilla", _argilla, "records with id, fields, suggestions and responses", NONE, QUESTION, writes_back=True),
    Format(
        "argilla-flat",
        _argilla_flat,
        "id, QUESTION.responses and QUESTION.responses.users",
        NONE,
        QUESTION,
        "argilla",
        writes_back=True,
    ),
    Format("prodigy", *_records("_input_hash", "_task_hash", "answer", kinds=JSON_KINDS), NONE, QUESTION),
    Format("doccano", _doccano, "a file USER.jsonl per annotator, with id, text and label"),
    Format(
        "community-notes",
        _community_notes,
        "noteId, raterParticipantId and helpfulnessLevel",
        columns={"task": ("noteId",), "worker": ("raterParticipantId", "participantId"), "label": ("helpfulnessLevel",)},
    ),
    Format("crowdflower", *_records("_unit_id", "_worker_id"), GOLD, VOTE),
    Format(
        "netease-crowd",
        _netease,
        "taskId, workerId, answer, truth and completeTime",
        TRUTH,
        columns={"task": ("taskId",), "worker": ("workerId",), "label": ("answer",), "truth": ("truth",)},
    ),
    Format(
        "fast-dawid-skene",
        _fast_dawid_skene,
        "three columns (annotator, question, annotation) without a header",
        TRUTH,
        reader="research:read_fast_dawid_skene",
        fits=lambda c: c.kind in ("table", "folder"),
    ),
    Format(
        "truth-inference",
        _truth_inference,
        "a folder with label.csv or answer.csv, and truth.csv",
        TRUTH,
        reader="research:read_truth_inference",
    ),
    Format(
        "inspect",
        _inspect,
        "an archive with header.json, or one object with version, status and eval",
        NONE,
        QUESTION,
        writes_back=True,
    ),
    Format("promptfoo", _promptfoo, "one object with evalId, results and config, or lines with gradingResult", NONE, QUESTION),
    Format("mlflow", _mlflow, "a frame with trace_id and assessments, or traces with info and data", GOLD, QUESTION),
    Format("phoenix", _phoenix, "span_id, annotation_name and annotator_kind", NONE, QUESTION),
    Format("langfuse", _langfuse, "scores with traceId or subject, name, source, dataType and value", NONE, QUESTION),
    Format("langsmith", *_records("run_id", "key", "feedback_source", kinds=OBJECT_ROWS), NONE, QUESTION),
    Format("opik", _opik, "traces or spans with id and feedback_scores", NONE, QUESTION),
    Format("trulens", _trulens, "feedback_result_id, record_id and name, or record_id, app_id and NAME_calls", NONE, QUESTION),
    Format("opentelemetry", _opentelemetry, "OTLP with resourceLogs or resourceSpans, or lines with event_name", NONE, QUESTION),
    Format("peerannot", _peerannot, "an object {task: {worker: label}}", reader="research:read_peerannot"),
)
FORMATS: Final[Mapping[str, Format]] = MappingProxyType({form.name: form for form in _FORMATS})


def recognise(contents: Sequence[Content], named: str = AUTO) -> Format | None:
    """Return the format of some files that belong together; None for ordinary tables.

    A format that the caller named is an error if the content does not fit.
    """
    if named == TABLE:
        return None
    if named != AUTO:
        if named not in FORMATS and named not in _list_installed():
            raise choice_error("format", named, (AUTO, TABLE, *FORMATS, *_list_installed()))
        form = FORMATS.get(named) or _load_installed(named)
        for content in contents:
            if not (form.fits or form.test)(content):
                what = {"other": "nothing readable", "object": "one JSON object"}.get(content.kind, content.kind)
                what += f" with {itemize(content.fields)}" if content.fields else ""
                raise InputError(f"{content.name} does not look like {named}: {form.needs} are expected; found: {what}")
        return form
    forms = [_recognise_one(content) for content in contents]
    if any(form is not forms[0] for form in forms):
        kinds = itemize(f"{c.name} ({'ordinary' if f is None else f.name})" for c, f in zip(contents, forms, strict=True))
        raise InputError(f"these are of several formats: {kinds}; read them in several calls")
    return forms[0] if forms else None


def _recognise_one(content: Content) -> Format | None:
    fitting = [form for form in FORMATS.values() if form.test(content)]
    if not fitting and not set(content.fields) >= VOTE:
        has_usual_names = all(any(is_usual(name, role) for name in content.fields) for role in VOTE_ROLES)
        fitting = [] if has_usual_names else [_load_installed(name) for name in _list_installed() if _is_installed(name, content)]
    if len(fitting) > 1:
        names = itemize(form.name for form in fitting)
        raise InputError(f"{content.name} could be any of {names}: say which with format=… (--format)")
    return fitting[0] if fitting else None


def _list_installed() -> list[str]:
    """Return the names of other packages' formats."""
    return extension_names("formats", FORMATS)


@cache
def _load_installed(name: str) -> Format:
    """Return the format of an entry point; a module that cannot be used is an error."""
    module = load_extension("formats", name)
    try:
        return Format(name, module.recognise, module.NEEDS, NONE, VOTE, module)
    except AttributeError as error:
        raise OptionError(f"format {name!r} ({module.__name__}) cannot be used: {error}") from error


def _is_installed(name: str, content: Content) -> bool:
    """Return whether a content has the format of an entry point; an entry point that fails is skipped."""
    try:
        return bool(_load_installed(name).test(content))
    except Exception as error:
        log.warning("format %s is not used to read %s: %s", name, content.name, error)
        return False


def expand(content: Content) -> Content:
    """Return the only file of an archive in place of the archive, unless it is an export itself."""
    if content.kind != "zip" or len(content.fields) != 1 or recognise([content]) is not None:
        return content
    assert content.path is not None
    inside = content.fields[0]
    spool = files.Spool(io.BytesIO(archive.member(content.path, inside, content.name)))
    return look(spool.path, f"{content.name}: {inside}", spool)


def join_names(contents: Sequence[Content]) -> str:
    """Return what messages call contents that belong together."""
    return contents[0].name if len(contents) == 1 else f"{contents[0].name} and {len(contents) - 1} more"
