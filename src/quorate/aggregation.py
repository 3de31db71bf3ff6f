"""One call from votes to labels."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature

from quorate.em import Progress
from quorate.engines.base import Engine
from quorate.io.read import as_votes
from quorate.io.sources import Source
from quorate.models.base import Model
from quorate.models.registry import make
from quorate.result import Result
from quorate.votes import Votes

MODEL_OPTIONS = ("seed", "smoothing", "tol", "max_iter", "switch", "stop", "ties")


def aggregate(
    source: Votes | Source,
    model: str | Model = "fds",
    *,
    seed: int = 0,
    engine: str | Engine = "auto",
    threads: int | None = None,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    smoothing: float = 0.0,
    tol: float = 1e-4,
    max_iter: int = 100,
    switch: float = 0.005,
    stop: str = "priors",
    ties: str = "hash",
    trace: str = "full",
    progress: Progress | None = None,
) -> Result:
    """Returns the label of every task with its confidence, and what every worker can be trusted with.

    `source` is anything `qr.read` takes; `model` is a name (mv, ds, fds, hybrid, glad) or a model with its settings.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.aggregate(votes, model="mv").labels.select("task", "label").rows()
    [('t1', 'cat'), ('t2', 'dog')]
    """
    given = {
        "seed": seed,
        "smoothing": smoothing,
        "tol": tol,
        "max_iter": max_iter,
        "switch": switch,
        "stop": stop,
        "ties": ties,
    }
    chosen = make(model, DEFAULTS, given)
    votes = as_votes(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
    return chosen.fit(votes, engine=engine, threads=threads, trace=trace, progress=progress)


DEFAULTS = {name: signature(aggregate).parameters[name].default for name in MODEL_OPTIONS}
