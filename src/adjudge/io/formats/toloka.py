"""Toloka's TSV: a row per answer, with columns `INPUT:…`, `OUTPUT:…`, `GOLDEN:…` and `ASSIGNMENT:…`."""

from __future__ import annotations

from typing import Final

import polars as pl

from adjudge.errors import InputError, listed
from adjudge.io.formats.content import Content
from adjudge.io.formats.extract import REJECTED, Ask, Ballots, Extract, choose

NAME: Final = "toloka"
TASK: Final = "ASSIGNMENT:task_id"
WORKER: Final = "ASSIGNMENT:worker_id"
STATUS: Final = "ASSIGNMENT:status"
LEFT_OUT: Final = {"REJECTED": REJECTED, "ACTIVE": "not finished", "EXPIRED": "not finished"}
SKIPPED: Final = "SKIPPED"


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per answer that was not rejected, and gold from the control tasks."""
    named = ask.columns.get("label")
    outputs = [name for name in content.fields if name.startswith("OUTPUT:")]
    asked = Ask(question=ask.question if named is None else named.removeprefix("OUTPUT:"))
    question = choose((name.removeprefix("OUTPUT:") for name in outputs), asked, content.name)
    output, golden = f"OUTPUT:{question}", f"GOLDEN:{question}"
    task, worker = ask.column("task"), ask.column("worker") or WORKER
    inputs = [name for name in content.fields if name.startswith("INPUT:")]
    keys = [task or TASK] if task or TASK in content.fields else inputs
    if not keys:
        raise InputError(f"{content.name}: {NAME} needs {TASK} or INPUT:…; the columns are: {listed(content.fields)}")
    content.require(*keys, worker, form=NAME)
    more = [name for name in (STATUS, golden) if name in content.fields]
    frame = content.texts(list(dict.fromkeys([*keys, worker, output, *more])))
    ids = (
        frame[keys[0]] if len(keys) == 1 else frame.select(pl.concat_str(pl.col(keys).fill_null(""), separator=" | ")).to_series()
    )
    states = frame[STATUS].str.to_uppercase().to_list() if STATUS in frame.columns else [None] * len(frame)
    known = frame[golden].to_list() if golden in frame.columns else [None] * len(frame)
    ballots, found = Ballots(ask, content.name), dict[str, str]()
    for one, who, answer, state, gold in zip(ids, frame[worker], frame[output], states, known, strict=True):
        if gold is not None and found.get(one) != gold:
            ballots.gold(one, _options(gold, ask))
            found[one] = gold
        if state in LEFT_OUT:
            ballots.skipped[LEFT_OUT[state]] += 1
        elif one is None or who is None:  # a control task that nobody was given
            ballots.skipped["rows without a worker"] += 1
        else:
            ballots.vote(one, who, None if answer is None or state == SKIPPED else _options(answer, ask))
    return ballots.extract(NAME, {"task": " + ".join(keys), "worker": worker, "label": output}, question)


def _options(value: str, ask: Ask) -> list[object]:
    """Return the options of an answer; several are written with commas between them."""
    return [part.strip() for part in value.split(",") if part.strip()] if ask.sets else [value]
