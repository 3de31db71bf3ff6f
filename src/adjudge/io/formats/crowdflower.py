"""CrowdFlower, later Figure Eight: a row per judgment, with `_unit_id`, `_worker_id` and a column per question."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from adjudge.io.formats.export import REJECTED, AnswerCollector, Ask, Extract, choose_varying
from adjudge.io.formats.registry import Content

FORM: Final = "crowdflower"
GOLD_SUFFIX: Final = "_gold"
OPTION_SEPARATOR: Final = r"\r?\n"  # between the options of an answer
TRUE: Final = ("true", "1")
SEVERAL_GOLD_ANSWERS: Final = "gold with several right answers"


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per judgment, and gold from the test questions; tainted judgments are left out."""
    task, worker = ask.column("task") or "_unit_id", ask.column("worker") or "_worker_id"
    content.require(task, worker, form=FORM)
    question = ask.column("label") or _question(content, task)
    content.require(question, form=FORM)
    extras = question + GOLD_SUFFIX, "_golden", "_tainted"
    frame = content.texts([task, worker, question, *(name for name in extras if content.has(name))])
    empty = [None] * len(frame)
    known, golden, tainted = (frame[name].to_list() if name in frame.columns else empty for name in extras)
    ballots, seen = AnswerCollector(ask, content.name), set[tuple[str, str]]()
    rows = zip(frame[task], frame[worker], frame[question], known, golden, tainted, strict=True)
    for task_id, who, answer, right, is_gold, is_tainted in rows:
        if right is not None and (is_gold is None or is_gold.lower() in TRUE) and (task_id, right) not in seen:
            seen.add((task_id, right))
            options = re.split(OPTION_SEPARATOR, right)
            if len(options) > 1 and not ask.sets:  # any of them was accepted
                ballots.skipped[SEVERAL_GOLD_ANSWERS] += 1
            else:
                ballots.gold(task_id, options)
        if is_tainted is not None and is_tainted.lower() in TRUE:
            ballots.skipped[REJECTED] += 1
        else:
            ballots.vote(task_id, who, None if answer is None else re.split(OPTION_SEPARATOR, answer))
    return ballots.extract({"task": task, "worker": worker, "label": question}, question)


def _question(content: Content, task: str) -> str:
    """Return the question: one that could have gold, or else the one column that differs within a task."""
    own = [name for name in content.fields if not name.startswith(("_", "orig_"))]
    asked = [name for name in own if name + GOLD_SUFFIX in own]
    if not asked:
        frame = content.texts([task, *own])
        asked = [name for name in own if frame.group_by(task).agg(pl.col(name).drop_nulls().n_unique())[name].gt(1).any()]
    return choose_varying(own, asked, content.name, "None differs between the workers of a unit")
