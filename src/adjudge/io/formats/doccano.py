"""doccano: one `<username>.jsonl` per annotator, in a zip archive, in a folder, or alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

from adjudge.errors import InputError, itemize, quote
from adjudge.io.formats import archive
from adjudge.io.formats.decoding import decode_lines
from adjudge.io.formats.export import AnswerCollector, Ask, Extract
from adjudge.io.formats.registry import Content, look_bytes

SUFFIX: Final = ".jsonl"
ENDINGS: Final = (SUFFIX, ".json", ".ndjson", ".txt")  # that a file alone may have


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per labelled document of each annotator; documents without a label are abstentions."""
    ballots, people = AnswerCollector(ask, content.name), set[str]()
    for file, data in _files(content):
        worker, where = _worker(file), f"{content.name}: {file}"
        if worker in people:
            raise InputError(f"{content.name} has two files of {quote(worker)}: an annotator has one, so read them in two calls")
        people.add(worker)
        for number, record in enumerate(decode_lines(data, dict[str, Any], where), 1):
            if "id" not in record or "label" not in record:
                raise InputError(f"{where}: line {number} has no id or no label; its fields are: {itemize(record)}")
            label = record["label"]
            if isinstance(label, list) and any(isinstance(one, list | dict) for one in label):
                raise InputError(
                    f"{where}: line {number} marks spans ({quote(label)}), which are not votes: use labels of documents"
                )
            # Every document is in every annotator's file, so a missing label means no answer.
            options = label if isinstance(label, list) else [label]
            ballots.vote(record["id"], worker, None if label is None or not options else options)
    if not ballots.tasks:
        raise InputError(f"{content.name} has no documents in it")
    return ballots.extract({"task": "id", "worker": "the file name", "label": "label"})


def _worker(file: str) -> str:
    """Return the annotator that a file is named for."""
    name = PurePosixPath(file).name.removesuffix(".gz")
    worker = next((name.removesuffix(end) for end in ENDINGS if name.endswith(end)), None)
    if worker is None:
        raise InputError(f"{file} looks like a file of doccano, whose name is the annotator: name it ANNOTATOR{SUFFIX}")
    return worker


def is_own(content: Content) -> bool:
    """Return whether the first file of a folder or archive that has lines has those of doccano."""
    for name, data in _files(content):
        if data.strip():
            start = look_bytes(data, name)
            return start.kind == "lines" and start.has("id") and start.values.get("label") == "["
    return False


def _files(content: Content) -> Iterator[tuple[str, bytes]]:
    assert content.path is not None
    own = [name for name in content.fields if name.endswith(SUFFIX)]
    if content.kind == "zip":
        yield from ((name, archive.member(content.path, name, content.name)) for name in own)
    elif content.kind == "folder":
        yield from ((name, archive.unpack(content.path / name, f"{content.name}/{name}")) for name in own)
    else:
        yield PurePosixPath(content.name).name, content.data
