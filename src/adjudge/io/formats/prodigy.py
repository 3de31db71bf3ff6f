"""Prodigy's JSONL: a line per annotation, a choice among options or a yes or no to one label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from adjudge.errors import InputError, quote
from adjudge.io.formats.export import REJECTED, AnswerCollector, Ask, Extract, choose
from adjudge.io.formats.registry import Content

CHOICE: Final = "choice"
CONTENT_FIELDS: Final = ("text", "image", "html")


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per annotation; ignored ones are abstentions, and each label of yes-or-no annotations is a question."""
    kinds = [_question(record, f"{content.name}: line {number}") for number, record in enumerate(content.records, 1)]
    question = choose((kind for kind in kinds if kind), ask, content.name)
    ballots, fields = AnswerCollector(ask, content.name), set()
    for number, (record, kind) in enumerate(zip(content.records, kinds, strict=True), 1):
        if kind != question:
            continue
        field = "_annotator_id" if record.get("_annotator_id") is not None else "_session_id"
        task, worker, answer = record.get("_input_hash"), record.get(field), record.get("answer")
        if worker is None:
            raise InputError(
                f"{content.name}: line {number} has neither _annotator_id nor _session_id: every vote needs a worker"
            )
        if answer not in ("accept", "reject", "ignore"):
            raise InputError(
                f"{content.name}: the answer in line {number} is {quote(answer)}: accept, reject or ignore is expected"
            )
        fields.add(field)
        if answer == "ignore":
            ballots.vote(task, worker, None)
        elif "options" not in record:
            ballots.vote(task, worker, [answer])
        elif answer == "reject":  # the task itself is refused, with any choice
            ballots.skipped[REJECTED] += 1
        else:
            accepted = record.get("accept") or []
            ballots.vote(task, worker, accepted if isinstance(accepted, list) else [accepted])
    label = "accept" if question == CHOICE else f"answer to {question!r}"
    return ballots.extract({"task": "_input_hash", "worker": " or ".join(sorted(fields)), "label": label}, question)


def items(contents: Sequence[Content]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield text, image or HTML of every annotated input."""
    for record in (record for content in contents for record in content.records):
        yield str(record["_input_hash"]), {name: record[name] for name in CONTENT_FIELDS if name in record}


def _question(record: dict[str, Any], where: str) -> str:
    """Return what a line answers: the choice among options, or a label that is accepted or rejected."""
    if "options" in record:
        return CHOICE
    if record.get("spans") or record.get("relations"):
        raise InputError(f"{where} marks spans, which are not votes: use choices, or accepted and rejected labels")
    return str(record.get("label") or "answer")
