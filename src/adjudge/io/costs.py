"""What a vote of each worker costs: one number for all, a price per worker, or a table of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.errors import InputError, listed, shown
from adjudge.io.answers import is_dict, text_column
from adjudge.io.ids import require_present
from adjudge.io.sources import Source, read_frame

Cost: TypeAlias = float | Mapping[Any, float] | Source


def read_costs(source: Cost, workers: Vocabulary) -> NDArray[np.float64]:
    """Return what a vote of each of these workers costs, [workers].

    `source` is a number, a dict worker -> cost, or a frame or file with the columns worker and cost. Workers are matched by
    id as text. A worker without cost is an error; costs of other workers are not used, as a price list may have many.

    >>> read_costs({"bob": 0.5, "ann": 2, "eve": 9}, Vocabulary.of(["ann", "bob"])).tolist()
    [2.0, 0.5]
    """
    if isinstance(source, int | float | np.integer | np.floating):
        return np.full(len(workers), _cost(source, "cost"))
    prices = _prices(source)
    missing = [worker for worker in workers.texts() if worker not in prices]
    if missing:
        some = listed(missing, 3)
        raise InputError(f"cost has no price for {len(missing)} of {len(workers)} workers: {some}; give one for each of them")
    return np.array([prices[worker] for worker in workers.texts()], np.float64)


def _prices(source: Any) -> dict[str, float]:
    """Return worker to cost; two costs of one worker are an error."""
    if is_dict(source):
        pairs = [(str(worker), cost) for worker, cost in source.items()]
    else:
        frame, _ = read_frame(source, {"worker": None, "cost": None})
        workers = text_column(frame["worker"], "worker")
        require_present(workers, "worker", why=" of the costs")
        pairs = list(zip(workers.to_list(), _numbers(frame["cost"]), strict=True))
    out: dict[str, float] = {}
    for worker, given in pairs:
        cost = _cost(given, f"the cost of worker {shown(worker)}")
        if out.setdefault(worker, cost) != cost:
            raise InputError(f"cost gives worker {shown(worker)} two prices ({out[worker]:g}, {cost:g}): keep one")
    return out


def _numbers(series: pl.Series) -> list[object]:
    """Return a column of costs as numbers; what is none stays as it is, for the message."""
    if series.dtype != pl.String:
        return (series.cast(pl.Float64) if series.dtype.is_numeric() else series).to_list()
    numbers = series.str.strip_chars().cast(pl.Float64, strict=False)
    return [text if number is None else number for text, number in zip(series, numbers, strict=True)]


def _cost(value: object, what: str) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 <= float(cast(Any, value)) < math.inf:
        raise InputError(f"{what} is {shown(value)}: give a number of at least 0")
    return float(cast(Any, value))
