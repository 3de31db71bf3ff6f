"""One call from votes to labels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from quorate.data.options import DEFAULTS, Confidence, Duplicates, EngineName, ModelName, Stop, Strength, Ties, TraceDetail
from quorate.data.votes import Votes
from quorate.engines.base import Engine
from quorate.engines.registry import home_of, resolve
from quorate.errors import InputError, OptionError
from quorate.io.answers import read_answers
from quorate.io.sources import Source
from quorate.models.base import Model, make
from quorate.models.em import Progress
from quorate.results.known import HasLearned, Priors, as_knowledge, as_learned
from quorate.results.result import Result

if TYPE_CHECKING:
    from quorate.io.sets import SetVotes
    from quorate.results.sets import MultiResult


class Options(TypedDict, total=False):
    """The options of `aggregate`, but for `multi`, on which the kind of its result depends."""

    seed: int | None
    engine: EngineName | str | Engine
    threads: int | None
    memory: str | int | None
    work: str | os.PathLike[str] | None
    resume: bool
    task: str | None
    worker: str | None
    label: str | None
    labels: Iterable[object] | None
    duplicates: Duplicates
    smoothing: float | None
    strength: Strength | None
    tol: float | None
    max_iter: int | None
    switch: float | None
    stop: Stop | None
    ties: Ties | None
    trace: TraceDetail
    per_option: bool
    gold: Source | None
    history: Source | HasLearned | None
    priors: Priors | None
    priors_weight: float | None
    warm_start: HasLearned | str | os.PathLike[str] | None
    calibrate: Source | bool
    confidence: Confidence
    progress: Progress | None


@overload
def aggregate(
    source: Votes | Source, model: ModelName | Model = ..., *, multi: Literal[False] = ..., **options: Unpack[Options]
) -> Result: ...


@overload
def aggregate(
    source: SetVotes | Source, model: ModelName | Model = ..., *, multi: Literal[True], **options: Unpack[Options]
) -> MultiResult: ...


@overload
def aggregate(
    source: Votes | SetVotes | Source, model: ModelName | Model = ..., *, multi: bool, **options: Unpack[Options]
) -> Result | MultiResult: ...


def aggregate(
    source: Votes | SetVotes | Source,
    model: ModelName | Model = DEFAULTS.model,
    *,
    seed: int | None = None,
    engine: EngineName | str | Engine = DEFAULTS.engine,
    threads: int | None = None,
    memory: str | int | None = None,
    work: str | os.PathLike[str] | None = None,
    resume: bool = False,
    task: str | None = None,
    worker: str | None = None,
    label: str | None = None,
    labels: Iterable[object] | None = None,
    duplicates: Duplicates = DEFAULTS.duplicates,
    smoothing: float | None = None,
    strength: Strength | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    switch: float | None = None,
    stop: Stop | None = None,
    ties: Ties | None = None,
    trace: TraceDetail = "full",
    multi: bool = False,
    per_option: bool = False,
    gold: Source | None = None,
    history: Source | HasLearned | None = None,
    priors: Priors | None = None,
    priors_weight: float | None = None,
    warm_start: HasLearned | str | os.PathLike[str] | None = None,
    calibrate: Source | bool = False,
    confidence: Confidence = DEFAULTS.confidence,
    progress: Progress | None = None,
) -> Result | MultiResult:
    """Return the label of every task with its confidence, and what every worker can be trusted with.

    - `source`: votes, or anything that `qr.read` takes; `task`, `worker`, `label`, `labels` and `duplicates` are as there.
    - `model`: "auto" (careful; majority vote where workers err together), "fds" (Fast Dawid-Skene), "ds" (Dawid-Skene),
      "hybrid" (soft at first, hard at the end), "one-coin" (one accuracy per worker), "glad" (abilities and difficulties),
      "iwmv" (weighted majority), "mv" (majority vote); or a model with its settings, as `qr.DawidSkene(tol=1e-6)`.

    Settings of a model, which are its own defaults where they are None:

    - `seed`, `ties`: decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".
    - `tol`, `max_iter`, `stop`: stop when the priors (glad: the objective) change by less than `tol`, or with
      stop="labels" when no label changed; after `max_iter` iterations at the latest, with a warning.
    - `smoothing`: added to every cell of every confusion. 0 is the paper.
    - `strength`: votes of the mean worker lent to every worker; "auto" finds how many. 0 is the paper.
    - `switch`: hybrid turns hard when the priors change by at most this.

    Where it runs, and what is told of it:

    - `engine`: "cpu" (compiled), "reference" (NumPy), "disk" (votes that need not fit in memory), "spark", one that was
      registered, or "auto": compiled, on disk for files that would not fit in memory, and Spark for its frames.
    - `threads`: how many to use; all cores by default.
    - `memory`: the most to use on disk, as "2GB" or in bytes; "auto" then goes to disk for what would need more.
    - `work`, `resume`: with a folder as `work` a fit on disk that was interrupted is continued by `resume=True`.
    - `trace`: "light" spares hard passes the likelihood of each iteration, which makes them faster.
    - `progress`: called after every iteration, with its line of the trace.

    Prior knowledge:

    - `gold`: labels of some tasks (a frame, a file, or a dict task -> label), fixed in every pass; learned from.
    - `history`: earlier votes of the workers (a result, a saved model, or a table worker, true, given, count), added as
      pseudo-votes in every M-step.
    - `priors`: class priors (by label, in label order, or "uniform"), fixed; or worth `priors_weight` tasks.
    - `warm_start`: a result or saved model to continue from, after new votes have come.
    - `confidence`: "posterior" is the model's own, "honest" is judged from the votes of other tasks and the errors that
      workers share: how likely labels are right, whichever model chose them.
    - `calibrate`: True fits a temperature on the gold, so that confidence is as high as labels are right; or give
      labels for that alone.

    Tasks with several correct options:

    - `multi`: True takes votes that are sets of options (lists, JSON lists, or text joined by `|`) and returns a
      `MultiResult`.
    - `per_option`: fits each option apart, where one confusion per worker is pooled by default.

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
    chosen = make(model, DEFAULTS._asdict(), {name: value for name, value in given.items() if value is not None})
    given_votes: Any = source  # of one label each, or of sets: `multi` says which
    place = resolve(
        engine, threads, source=None if multi else given_votes, memory=memory, room=chosen.room, work=work, resume=resume
    )
    watch: dict[str, Any] = {"engine": place, "trace": trace, "progress": progress, "confidence": confidence}
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
            raise OptionError(f"{given_too[0]} works only for tasks with one label: leave it out with multi=True")
        sets = (
            source
            if isinstance(source, SetVotes)
            else read_sets(given_votes, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
        )
        return fit_sets(sets, chosen, per_option=per_option, gold=gold, **watch)
    if per_option:
        raise OptionError("per_option works only with multi=True")
    votes = place.read(given_votes, task=task, worker=worker, label=label, labels=labels, duplicates=duplicates)
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


def fit_sets(
    votes: SetVotes,
    model: Model,
    *,
    per_option: bool = False,
    gold: Source | None = None,
    **watch: Any,
) -> MultiResult:
    """Return the sets a model finds: one confusion per worker pooled over options, or each option fitted separately."""
    from quorate.io.sets import gold_of_options
    from quorate.results.sets import MultiResult

    problems = [votes.of_option(o) for o in range(len(votes.options))] if per_option and len(votes.options) else [votes.binary]
    standards = None if gold is None else gold_of_options(gold, votes.options)
    return MultiResult(votes, tuple(model.fit(p, gold=standards, **watch) for p in problems), model.name)
