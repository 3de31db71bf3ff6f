"""What parts and blocks tell people in the end: labels and probabilities of tasks, figures and confusions of workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.engines.base import Recipe
from quorate.io.ids import column
from quorate.params import Parameters
from quorate.spark.blocks import Named, State
from quorate.spark.executor import Setting
from quorate.spark.messages import Decide, tasks_of
from quorate.spark.session import ipc
from quorate.vocabulary import Vocabulary

END = "end"  # the name of the counts that a fit ended with
OWN = "own"  # the name of the counts that its table was made of


class Ids(NamedTuple):
    """The ids of a part's tasks."""

    data: bytes


class Tagged(NamedTuple):
    """One of several states of a block."""

    name: str
    state: State


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


def tell_workers(recipe: Recipe | None, names: tuple[str, ...], items: Iterable[tuple[int, Any]]) -> Iterator[bytes]:
    """Yield the frame of a block's workers, as bytes; the names are of columns that the recipe knows."""
    for named, states in _named_in(items):
        block, end = named.block, states[END].counts
        if end.dtype == np.float64:  # right and agreeing votes; else the counts of hard labels
            right, agreeing = end[:, 0], end[:, 1]
        else:
            right = agreeing = end[np.arange(block.n_rows), block.row_label]
        votes = block.by_worker(block.per_row)
        columns = {
            "worker": column(named.workers),
            "votes": votes,
            "accuracy": block.by_worker(right) / votes,
            "agreement": block.by_worker(agreeing) / votes,
        }
        if names and recipe is not None:
            known = recipe.on(block.workers_here())(states[OWN].counts, None).columns
            columns |= {name: known[name] for name in names}
        yield ipc(pl.DataFrame(columns))


def tell_confusion(recipe: Recipe, worker: str, items: Iterable[tuple[int, Any]]) -> list[NDArray[np.float64]]:
    """Return pi_cl of a worker of this block, [K true, K given], if there is one of this id."""
    for named, states in _named_in(items):
        code, block = _place(named.workers, worker), named.block
        if code is not None:
            lines = recipe.on(block.workers_here())(states[END].counts, None)
            return [Parameters.of(np.zeros(block.n_labels), lines).confusion(block, code)]
    return []


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
