"""CrowdFlower, later Figure Eight: a row per judgment, with `_unit_id`, `_worker_id` and a column per question."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from adjudge.errors import InputError, listed
from adjudge.io.formats.content import Content
from adjudge.io.formats.extract import REJECTED, Ask, Ballots, Extract, SeveralQuestions

NAME: Final = "crowdflower"
GOLD: Final = "_gold"
LINE: Final = r"\r?\n"  # between the options of an answer
TRUE: Final = ("true", "1")
SEVERAL: Final = "gold with several right answers"


def read(content: Content, ask: Ask) -> Extract:
    """Return a vote per judgment, and gold from the test questions; tainted judgments are left out."""
    task, worker = ask.column("task") or "_unit_id", ask.column("worker") or "_worker_id"
    content.require(task, worker, form=NAME)
    question = ask.column("label") or _question(content, task)
    gold = question + GOLD
    more = [name for name in (gold, "_golden", "_tainted") if name in content.fields]
    content.require(question, form=NAME)
    frame = content.texts(list(dict.fromkeys([task, worker, question, *more])))
    empty = [None] * len(frame)
    known, golden, tainted = (frame[name].to_list() if name in more else empty for name in (gold, "_golden", "_tainted"))
    ballots, found = Ballots(ask, content.name), dict[str, str]()
    for one, who, answer, right, is_gold, bad in zip(
        frame[task], frame[worker], frame[question], known, golden, tainted, strict=True
    ):
        if right is not None and (is_gold is None or is_gold.lower() in TRUE) and found.get(one) != right:
            found[one] = right
            options = re.split(LINE, right)
            if len(options) > 1 and not ask.sets:  # any of them was accepted
                ballots.skipped[SEVERAL] += 1
            else:
                ballots.gold(one, options)
        if bad is not None and bad.lower() in TRUE:
            ballots.skipped[REJECTED] += 1
        else:
            ballots.vote(one, who, None if answer is None else re.split(LINE, answer))
    return ballots.extract(NAME, {"task": task, "worker": worker, "label": question}, question)


def _question(content: Content, task: str) -> str:
    """Return the question: one that could have gold, or else the one column that differs within a task."""
    own = [name for name in content.fields if not name.startswith(("_", "orig_"))]
    asked = [name for name in own if name + GOLD in own]
    if not asked:
        frame = content.texts([task, *own])
        asked = [name for name in own if frame.group_by(task).agg(pl.col(name).drop_nulls().n_unique())[name].gt(1).any()]
    if len(asked) == 1:
        return asked[0]
    if asked:
        raise SeveralQuestions(content.name, asked)
    raise InputError(
        f"{content.name}: which column holds the answers? None differs between the workers of a unit; "
        f"say which with question=… (--question): {listed(own)}"
    )
