"""The answers to gold tasks: a table, a dict, or the export of the annotation tool in which a person gave them."""

from __future__ import annotations

import os
import warnings
from hashlib import blake2b
from typing import Any

import polars as pl

from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import InputError, MissingLabels, SuspiciousVotes, itemize, quote
from adjudge.io.answers import read_answers, texts
from adjudge.io.formats import registry
from adjudge.io.formats.registry import Content
from adjudge.io.frames import column, frame_of
from adjudge.io.read import read, warn_suspicious
from adjudge.io.reading import normalize_texts
from adjudge.io.sources import Opened, Source


def read_gold_answers(source: Source) -> dict[str, str]:
    """Return task -> label, both as text, of gold answers; a task without an answer is left out.

    The export of an annotation tool has votes: one person's answer per task, or several that agree. Tasks of Label Studio get
    new numbers when they are imported; those that a draw wrote carry their own.

    >>> read_gold_answers({7: "cat", 8: None})
    {'7': 'cat'}
    """
    contents = _contents(source)
    export = None if contents is None else registry.recognise(contents)
    if contents is None or export is None:
        frame, _ = read_answers(source, "gold")
        return dict(frame.select("task", "label").iter_rows())
    with warnings.catch_warnings():  # one vote per task, and tasks without: as it has to be here
        warnings.simplefilter("ignore", SuspiciousVotes)
        warnings.simplefilter("ignore", MissingLabels)
        votes = read(source)
    frame = texts(frame_of(votes).select("task", "label"))
    if votes.found_gold is not None:
        marked = pl.DataFrame({"task": column(votes.found_gold.tasks), "label": column(votes.labels, votes.found_gold.labels)})
        frame = pl.concat([texts(marked), frame.filter(~pl.col("task").is_in(texts(marked)["task"].implode()))])
    frame = frame.unique(maintain_order=True)
    twice = frame.filter(frame["task"].is_duplicated())
    if len(twice):
        task = twice["task"][0]
        labels = itemize(twice.filter(task=task)["label"])
        raise InputError(f"the gold gives task {quote(task)} several labels ({labels}): settle it, and keep one answer per task")
    original = _original_ids(export.name, contents)
    return {original.get(task, task): label for task, label in frame.iter_rows()}


def check_answer_labels(answers: dict[str, str], labels: Vocabulary) -> None:
    """Check the labels of gold answers against those of the votes, because a label of another spelling counts as an error.

    Raises
    ------
    InputError
        If a label differs from one of the votes only in case or white space, or if no answer has a label of the votes.

    """
    known = labels.texts()
    others = [label for label in dict.fromkeys(answers.values()) if label not in set(known)]
    if not others:
        return
    by_form = dict(zip(normalize_texts(known), known, strict=True))
    meant = {label: by_form[form] for label, form in zip(others, normalize_texts(others), strict=True) if form in by_form}
    for label, voted in meant.items():
        raise InputError(f"the gold has the label {quote(label)}, and the votes have {quote(voted)}: spell it as the votes do")
    listed = f"{itemize(map(quote, others[:3]))} (the votes have {itemize(map(quote, known[:3]))})"
    if set(answers.values()) <= set(others):
        raise InputError(f"no answer of the gold is a label of the votes: it has {listed}")
    count = sum(label in others for label in answers.values())
    warn_suspicious([f"{count} gold answers are labels that no vote has, so they count as errors: {listed}"], strict=False)


def _contents(source: Source) -> list[Content] | None:
    """Return the files of a source, or the records of an export in memory; None for anything else."""
    if isinstance(source, list) and source and all(isinstance(record, dict) for record in source):
        return [registry.look_records(source, "the records")]
    if not isinstance(source, str | os.PathLike | list | tuple):
        return None
    paths = Opened.of(source).paths
    return None if paths is None else [registry.expand(registry.look(path, str(path))) for path in paths]


def _original_ids(form: str, contents: list[Content]) -> dict[str, str]:
    """Return the ids that tasks had when they were drawn, by the ids that a tool gave them."""
    module: Any = registry.FORMATS[form].load() if form in registry.FORMATS else None
    return module.original_ids(contents) if hasattr(module, "original_ids") else {}


def digest_answers(answers: dict[str, str]) -> str:
    """Return a digest of answers, the same in any order: the same answers are the same look.

    >>> digest_answers({"a": "x", "b": "y"}) == digest_answers({"b": "y", "a": "x"})
    True
    """
    whole = blake2b(digest_size=16)
    for task, label in sorted(answers.items()):
        for text in (task, label):
            data = text.encode("utf-8", "surrogatepass")
            whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()
