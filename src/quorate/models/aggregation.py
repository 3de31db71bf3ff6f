"""One call from votes to labels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from inspect import signature
from typing import TYPE_CHECKING, Any

from quorate.data.votes import Votes
from quorate.engines.base import Engine
from quorate.engines.registry import home_of, resolve
from quorate.errors import InputError, OptionError
from quorate.io.answers import read_answers
from quorate.io.sources import Source
from quorate.models.base import Model, make
from quorate.models.em import Progress
from quorate.results.known import HasLearned, Priors, as_knowledge, as_learned

if TYPE_CHECKING:
    from quorate.io.sets import SetVotes
    from quorate.results.sets import MultiResult

MODEL_OPTIONS = ("seed", "smoothing", "strength", "tol", "max_iter", "switch", "stop", "ties")


def aggregate(
    source: Votes | Source,
    model: str | Model = "fds",
    *,
    seed: int = 0,
    engine: str | Engine = "auto",
    threads: int | None = None,
    memory: str | int | None = None,
    work: str | os.PathLike[str] | None = None,
    resume: bool = False,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: str = "all",
    smoothing: float = 0.0,
    strength: float | str = 0.0,
    tol: float = 1e-4,
    max_iter: int = 100,
    switch: float = 0.005,
    stop: str = "priors",
    ties: str = "hash",
    trace: str = "full",
    multi: bool = False,
    per_option: bool = False,
    gold: Source | None = None,
    history: Source | HasLearned | None = None,
    priors: Priors | None = None,
    priors_weight: float | None = None,
    warm_start: HasLearned | str | os.PathLike[str] | None = None,
    calibrate: Source | bool = False,
    progress: Progress | None = None,
) -> Any:
    """Return the label of every task with its confidence, and what every worker can be trusted with.

    `source` is anything `qr.read` takes; `model` is a name (see `quorate.models.base`) or a model with its settings.
    `multi=True` takes votes that are sets of options (lists, JSON lists, or text joined by `|`) and returns a
    `MultiResult`; `per_option=True` then fits each option apart, where one confusion per worker is pooled by default.

    `engine="disk"` fits votes that need not fit in memory, "auto" chooses it for files that would not; `memory` ("2GB")
    bounds what is used. With a folder as `work` such a fit can be broken off, and goes on with `resume=True`.

    What you know beforehand:

    - `gold`: labels of some tasks (a frame, a file, or a dict task -> label), fixed in every pass; learned from.
    - `history`: earlier votes of the workers (a result, a saved model, or a table worker, true, given, count), added as
      pseudo-votes in every M-step.
    - `strength`: votes of the mean worker lent to every worker; "auto" finds how many. 0 is the paper.
    - `priors`: class priors (by label, in label order, or "uniform"), fixed; or worth `priors_weight` tasks.
    - `warm_start`: a result or saved model to go on from, after new votes have come.
    - `calibrate`: True fits a temperature on the gold, so that confidence is as high as labels are right; or give
      labels for that alone.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> qr.aggregate(votes, model="mv").labels.select("task", "label").rows()
    [('t1', 'cat'), ('t2', 'dog')]
    """
    given = {
        "seed": seed,
        "smoothing": smoothing,
        "strength": strength,
        "tol": tol,
        "max_iter": max_iter,
        "switch": switch,
        "stop": stop,
        "ties": ties,
    }
    chosen = make(model, DEFAULTS, given)
    place = resolve(engine, threads, source=None if multi else source, memory=memory, room=chosen.room, work=work, resume=resume)
    watch: dict[str, Any] = {"engine": place, "threads": threads, "trace": trace, "progress": progress}
    known: dict[str, Any] = {
        "history": history,
        "priors": priors,
        "priors_weight": priors_weight,
        "warm_start": warm_start,
    }
    if multi:
        from quorate.io.sets import SetVotes, read_sets

        not_here = {**known, "calibrate": None if calibrate is False else calibrate}
        given_too = [name for name, value in not_here.items() if value is not None]
        if given_too:
            raise OptionError(f"{given_too[0]} makes sense for tasks with one label only: leave it out with multi=True")
        sets = (
            source
            if isinstance(source, SetVotes)
            else read_sets(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
        )
        return fit_sets(sets, chosen, per_option=per_option, gold=gold, **watch)
    if per_option:
        raise OptionError("per_option makes sense with multi=True only")
    votes = place.read(source, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
    if home_of(votes) is not None and calibrate is not False and calibrate is not None:
        raise OptionError("calibrate looks at tasks one by one, which votes on Spark do not allow: leave it out")
    if calibrate is False or calibrate is None:
        return chosen.fit(votes, gold=gold, **known, **watch)
    if calibrate is True and gold is None:
        raise InputError("calibrate=True fits a temperature on gold: give gold=…, or known labels as calibrate=…")
    from quorate.results.calibrate import calibrated

    # What is fitted several times is read once: a file need not be read again, and an iterator could not be.
    gold = None if gold is None else read_answers(gold, "gold")[0]
    known["history"] = None if history is None else as_knowledge(history)
    known["warm_start"] = None if warm_start is None else as_learned(warm_start, "warm_start")
    result = chosen.fit(votes, gold=gold, **known, **watch)
    return calibrated(result, calibrate, gold, lambda other: chosen.fit(votes, gold=other, **known, **watch))


DEFAULTS = {name: signature(aggregate).parameters[name].default for name in MODEL_OPTIONS}


def fit_sets(
    votes: SetVotes,
    model: Model,
    *,
    per_option: bool = False,
    gold: Source | None = None,
    **watch: Any,
) -> MultiResult:
    """Return the sets a model finds: one confusion per worker pooled over options, or each option fitted apart."""
    from quorate.io.sets import gold_of_options
    from quorate.results.sets import MultiResult

    problems = [votes.of_option(o) for o in range(len(votes.options))] if per_option and len(votes.options) else [votes.binary]
    standards = None if gold is None else gold_of_options(gold, votes.options)
    return MultiResult(votes, tuple(model.fit(p, gold=standards, **watch) for p in problems), model.name)
