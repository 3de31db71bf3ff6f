"""What parts and blocks tell people in the end: labels and probabilities of tasks, figures and confusions of workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.engines.spark_blocks import Block, Named, Plan, State
from quorate.engines.spark_mail import Decide, tasks_of
from quorate.engines.spark_pass import Setting
from quorate.io.ids import column
from quorate.io.spark import ipc
from quorate.statistics import Statistics
from quorate.vocabulary import Vocabulary

END = ""  # the name of the counts that a fit ended with


class Ids(NamedTuple):
    """The ids of a part's tasks."""

    data: bytes


class Tagged(NamedTuple):
    """One of several states of a block."""

    name: str
    state: State


class Column(NamedTuple):
    """A figure of each worker that a model's recipe knows after its M-step."""

    attribute: str
    plan: Plan


def tell_tasks(setting: Setting, decide: Decide, names: list[str] | None, items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yields frames of a part's tasks: probabilities by these names of labels, or the labels; as bytes."""
    every = list(items)
    ids = next((item.data for _, item in every if isinstance(item, Ids)), None)
    for _, _, at in tasks_of(setting, (one for one in every if not isinstance(one[1], Ids))):
        assert ids is not None
        verdict = decide.verdict(at)
        told = verdict.labels(at.part, ids) if names is None else verdict.probabilities(at.part, ids, names)
        for frame in told:
            yield ipc(frame)


def tell_workers(columns: Mapping[str, Column], items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yields the frame of a block's workers, as bytes."""
    for named, states in _named_in(items):
        block, end = named.block, states[END].counts
        if end.dtype == np.float64:  # right and agreeing votes; else the counts of hard labels
            right, agreeing = end[:, 0], end[:, 1]
        else:
            right = agreeing = end[np.arange(block.n_rows), block.row_label]
        votes = block.by_worker(block.per_row)
        told = {
            "worker": column(named.workers),
            "votes": votes,
            "accuracy": block.by_worker(right) / votes,
            "agreement": block.by_worker(agreeing) / votes,
        }
        for name, (attribute, plan) in columns.items():
            recipe: Any = plan(block)
            recipe.m_step(_statistics(block, states[name]))
            told[name] = getattr(recipe, attribute)
        yield ipc(pl.DataFrame(told))


def tell_confusion(plan: Plan, worker: str, items: Iterable[tuple[int, Any]]) -> list[NDArray[np.float64]]:
    """Returns pi_cl of a worker of this block, [K true, K given], if there is one of this id."""
    for named, states in _named_in(items):
        code = _place(named.workers, worker)
        if code is not None:
            return [plan(named.block).m_step(_statistics(named.block, states[END])).confusion(named.block, code)]
    return []


def _statistics(block: Block, state: State) -> Statistics:
    return Statistics(state.counts, np.zeros(block.n_labels))


def _place(workers: Vocabulary, worker: str) -> int | None:
    found = column(workers).cast(pl.String) if workers.kind != "boolean" else pl.Series(workers.texts(), dtype=pl.String)
    where = (found == worker).arg_true()
    return int(where[0]) if len(where) else None


def _named_in(items: Iterable[tuple[int, Any]]) -> Iterator[tuple[Named, dict[str, State]]]:
    named: Named | None = None
    states: dict[str, State] = {}
    for _, item in items:
        if isinstance(item, Named):
            named = item
        elif isinstance(item, Tagged):
            states[item.name] = item.state
    if named is not None and named.block.n_rows:
        yield named, states
