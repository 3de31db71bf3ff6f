"""Toloka's TSV: a row per answer, with columns `INPUT:…`, `OUTPUT:…`, `GOLDEN:…` and `ASSIGNMENT:…`."""

from __future__ import annotations

from typing import Final

import polars as pl

from adjudge.errors import InputError, itemize
from adjudge.io.formats.export import REJECTED, AnswerCollector, Ask, Extract, choose
from adjudge.io.formats.registry import Content

OUTPUT: Final = "OUTPUT:"
TASK_ID_COLUMN: Final = "ASSIGNMENT:task_id"
WORKER_ID_COLUMN: Final = "ASSIGNMENT:worker_id"
STATUS: Final = "ASSIGNMENT:status"
SKIPPED_STATUSES: Final = {"REJECTED": REJECTED, "ACTIVE": "not finished", "EXPIRED": "not finished"}


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per answer that was not rejected, and gold from the control tasks."""
    outputs = [name.removeprefix(OUTPUT) for name in content.fields if name.startswith(OUTPUT)]
    question = choose(outputs, ask, content.name, OUTPUT)
    task, worker, golden = ask.column("task"), ask.column("worker") or WORKER_ID_COLUMN, f"GOLDEN:{question}"
    inputs = [name for name in content.fields if name.startswith("INPUT:")]
    keys = [task or TASK_ID_COLUMN] if task or content.has(TASK_ID_COLUMN) else inputs
    if not keys:
        raise InputError(f"{content.name}: toloka needs {TASK_ID_COLUMN} or INPUT:…; the columns are: {itemize(content.fields)}")
    content.require(*keys, worker, form="toloka")
    more = [name for name in (STATUS, golden) if content.has(name)]
    frame = content.texts([*keys, worker, OUTPUT + question, *more])
    joined = pl.concat_str(pl.col(keys).fill_null(""), separator=" | ")
    ids = frame[keys[0]] if len(keys) == 1 else frame.select(joined).to_series()
    empty = pl.Series([None] * len(frame), dtype=pl.String)
    states, known = (frame[name] if name in more else empty for name in (STATUS, golden))
    ballots = AnswerCollector(ask, content.name)
    rows = zip(ids, frame[worker], frame[OUTPUT + question], states.str.to_uppercase(), known, strict=True)
    for task_id, who, answer, state, gold in rows:
        if gold is not None:
            ballots.gold(task_id, _options(gold, ask))
        if state in SKIPPED_STATUSES:
            ballots.skipped[SKIPPED_STATUSES[state]] += 1
        elif task_id is None or who is None:  # a control task that nobody was given
            ballots.skipped["rows without a worker"] += 1
        else:
            ballots.vote(task_id, who, None if answer is None or state == "SKIPPED" else _options(answer, ask))
    return ballots.extract({"task": " + ".join(keys), "worker": worker, "label": OUTPUT + question}, question)


def _options(value: str, ask: Ask) -> list[object]:
    """Return the options of an answer; several are written with commas between them."""
    return [part.strip() for part in value.split(",") if part.strip()] if ask.sets else [value]
