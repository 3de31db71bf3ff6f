"""One call from votes to labels."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from adjudge.data.options import (
    DEFAULTS,
    SET_SEPARATOR,
    Confidence,
    ModelName,
    ReadOptions,
    TraceDetail,
)
from adjudge.data.votes import Votes, require_unweighted
from adjudge.engines.base import Engine
from adjudge.engines.registry import EngineChoice, resolve
from adjudge.errors import InputError, OptionError
from adjudge.io.answers import gold_frame, read_answers, read_matching_answers
from adjudge.io.columns import ANYBODY
from adjudge.io.families import is_families, require_families
from adjudge.io.reading import Reading
from adjudge.io.sources import Opened, Source
from adjudge.io.workers import ANSWERS_LIKE, group_votes, read_groups, read_workers, require_in_memory, without_workers
from adjudge.models.base import Model, as_model
from adjudge.models.em import Progress
from adjudge.models.knowledge import Learned
from adjudge.models.prior_knowledge import HasLearned, Priors, as_knowledge, opened, require_same_voters
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.io.sets import SetVotes
    from adjudge.models.objects import FitsVotes
    from adjudge.results.sets import MultiResult


class Options(ReadOptions, total=False):
    """The options of `aggregate`, except for `multi`, on which the kind of its result depends."""

    seed: int
    gold: Source | None
    history: Source | HasLearned | None
    priors: Priors | None
    priors_weight: float | None
    warm_start: HasLearned | str | os.PathLike[str] | None
    confidence: Confidence
    calibrate: Source | bool
    groups: Source | None
    exclude: Source | None
    per_option: bool
    engine: EngineChoice
    trace: TraceDetail
    progress: Progress | None


@overload
def aggregate(
    source: Votes | Source, model: ModelName | Model | FitsVotes = ..., *, multi: Literal[False] = ..., **options: Unpack[Options]
) -> Result: ...


@overload
def aggregate(
    source: SetVotes | Source, model: ModelName | Model | FitsVotes = ..., *, multi: Literal[True], **options: Unpack[Options]
) -> MultiResult: ...


@overload
def aggregate(
    source: Votes | SetVotes | Source, model: ModelName | Model | FitsVotes = ..., *, multi: bool, **options: Unpack[Options]
) -> Result | MultiResult: ...


def aggregate(
    source: Votes | SetVotes | Source,
    model: ModelName | Model | FitsVotes = DEFAULTS.model,
    *,
    seed: int = DEFAULTS.seed,
    gold: Source | None = None,
    history: Source | HasLearned | None = None,
    priors: Priors | None = None,
    priors_weight: float | None = None,
    warm_start: HasLearned | str | os.PathLike[str] | None = None,
    confidence: Confidence = DEFAULTS.confidence,
    calibrate: Source | bool = False,
    groups: Source | None = None,
    exclude: Source | None = None,
    multi: bool = False,
    per_option: bool = False,
    engine: EngineChoice = DEFAULTS.engine,
    trace: TraceDetail = "full",
    progress: Progress | None = None,
    **reading: Unpack[ReadOptions],
) -> Result | MultiResult:
    """Return the label of every task with its confidence, and a reliability estimate for each worker.

    `adj.Online`, for streams of votes, has the same defaults except for three: `model` is "fds", so that refits and the votes
    between them follow one rule; `duplicates` is "last", because a second vote there is usually a change of mind; `strength` is
    1, because workers are judged from their first vote on.

    Parameters
    ----------
    source : Votes or SetVotes or source
        Votes, or anything that `adj.read` takes.
    model : str or model, default "auto"
        "auto" (careful; majority vote if workers share errors), "fds" (Fast Dawid-Skene), "ds" (Dawid-Skene), "hybrid" (soft at
        first, hard at the end), "one-coin" (one accuracy per worker), "glad" (abilities and difficulties), "iwmv" (weighted
        majority), "mv" (majority vote), "ordinal" (grades with an order: numbers, or `labels` from low to high), "panel" (dense
        panels, from gold); from the literature, "wawa", "zbs", "goldmv", "catd", "la", "zc", "lfc", "ibcc", "ebcc", "mace", "kos"
        and "mmsr" (docs/choosing-a-model.md); or a model with its settings, such as `adj.DawidSkene(tol=1e-6)`. Long names in any
        case work, too ("Dawid-Skene", "majority"); type checkers know the short ones. Other packages can add models by name, and
        any object with a method `fit(votes)` is a model (docs/extending.md).
    seed : int, default 0
        Seed of the hash that breaks ties.
    gold : source, optional
        Labels of some tasks (a frame, a file, or a dict of task to label), fixed in every pass and learned from. By
        default, gold in an export (`votes.found_gold`) is used; `gold={}` leaves it out.
    history : source or HasLearned, optional
        Earlier votes of the workers (a result, a saved model, or a table worker, true, given, count), added as pseudo-votes in
        every M-step.
    priors : Priors, optional
        Class priors: by label, in label order, or "uniform".
    priors_weight : float, optional
        Strength of the priors, in pseudo-tasks; by default they are fixed.
    warm_start : HasLearned or str or path, optional
        A result or saved model to continue from, with new votes.
    confidence : {"honest", "posterior"}, default "honest"
        "honest" estimates how likely each label is right, from the votes on other tasks and the errors that workers share, for
        any model. "posterior" is the model's own.
    calibrate : source or bool, default False
        True fits a temperature on the gold, so that confidence matches accuracy. You can also give labels that are used only for
        this.
    groups : source, optional
        Workers who share errors and so vote as one, such as prompts of one model: a dict of worker to group, a frame or file with
        the columns worker and group, or "answers_like" for workers whose answers are alike beyond chance in a first fit. A group
        votes once per task, by the plurality of its members' votes; if they tie, it abstains. Other workers vote alone.
        `result.groups` lists the groups, `result.workers` their members.
    exclude : source, optional
        Workers whose votes are left out: a list or set of ids, a frame or file with a column worker, or a text file with one id
        per line.
    multi : bool, default False
        True takes votes that are sets of options (lists, JSON lists, or text joined by `|` or another `set_separator`) and
        returns a `MultiResult`.
    per_option : bool, default False
        Fits each option separately; by default one confusion per worker is pooled.
    engine : str or engine, default "auto"
        "cpu" (compiled), "reference" (NumPy), "disk" (votes that need not fit in memory), "cuda" (a GPU), "spark", one that was
        registered, or "auto": compiled, on disk for files that would not fit in memory, Spark for its frames, and a GPU, if there
        is one, for many votes. Or an engine with its settings, such as `adj.Cpu(threads=2)` or `adj.Disk(memory="2GB",
        work="folder", resume=True)`.
    trace : {"full", "light"}, default "full"
        "light" skips the likelihood of each iteration in hard passes, which makes them faster.
    progress : callable, optional
        Called after every iteration with its row of the trace.
    **reading
        The options of `adj.read`, for sources that are not yet read.

    Returns
    -------
    Result or MultiResult
        Labels, confidence and workers; a `MultiResult` with `multi=True`.

    Raises
    ------
    InputError
        If the input cannot be read or understood; the message names the place and the value.
    OptionError
        If an option is unknown or out of range, or conflicts with another.
    AdjudgeError
        If an engine or an optional library is missing, or memory is insufficient.

    Examples
    --------
    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.aggregate(votes, model="mv").labels.select("task", "label").rows()
    [('t1', 'cat'), ('t2', 'dog')]

    """
    chosen, how = as_model(model, seed), Reading.of(reading)
    opened = Opened.of(source)
    place = resolve(engine, source=None if multi else opened, room=chosen.room)
    watch: dict[str, Any] = {"engine": place, "trace": trace, "progress": progress, "confidence": confidence}
    known: dict[str, Any] = {
        "history": history,
        "priors": priors,
        "priors_weight": priors_weight,
        "warm_start": warm_start,
    }
    if chosen.is_ordered and isinstance(how.labels, tuple):
        chosen = chosen.over(how.labels)
    chosen.require_engine(place)
    is_calibrated = not (calibrate is False or calibrate is None)
    if is_calibrated and place.name == "spark":
        raise OptionError("calibrate looks at tasks one by one, which votes on Spark do not allow: leave it out")
    if multi:
        alone = {
            **known,
            "calibrate": calibrate if is_calibrated else None,
            "groups": groups,
            "exclude": exclude,
            "weight": how.weight,
        }
        return _fitted_sets(opened, chosen, alone, how, per_option=per_option, gold=gold, **watch)
    if per_option:
        raise OptionError("per_option works only with multi=True")
    if exclude is not None:
        require_in_memory("exclude", place, "leave the votes of these workers out of the source")
    if groups is not None:
        require_in_memory("groups", place, "give the votes of the groups as votes of workers")
    if how.weight is not None:
        chosen.require_weights()
    if how.worker is None and chosen.name == "mv" and place.name != "spark" and not opened.is_read:
        how = replace(how, worker=ANYBODY)
    votes = place.read(opened, how)
    is_declared = how.labels is not None or isinstance(opened.source, Votes)
    if votes.understood is not None and not votes.understood.has_workers and chosen.name != "mv":
        raise InputError("these votes do not say who gave them, so only majority vote can count them: model='mv' (--model mv)")
    if groups is not None:
        require_unweighted(votes, "groups", "leave the groups or the weight out")
    facts: dict[str, object] = {}
    if gold is None and getattr(votes, "found_gold", None) is not None:  # votes on Spark do not have it
        gold = gold_frame(votes)
        facts["gold_of_export"] = len(gold)
    if exclude is not None:
        keep = is_declared or "gold_of_export" in facts
        votes, *left_out = without_workers(votes, read_workers(exclude), keep_labels=keep)
        facts |= dict(zip(("excluded_workers", "excluded_votes"), left_out, strict=True))
    if is_calibrated and calibrate is True and gold is None:
        raise InputError("calibrate=True fits a temperature on gold: give gold=…, or known labels as calibrate=…")
    if gold is not None and Opened.of(votes).home is None:
        gold = read_matching_answers(gold, "gold", votes.tasks, strict=how.strict)
    return _fit_votes(votes, chosen, groups, calibrate if is_calibrated else None, gold, known, watch, facts)


def _fitted_sets(
    opened: Opened,
    model: Model,
    alone: dict[str, Any],  # options of tasks with one label, of which none may be given
    reading: Reading,
    *,
    gold: Source | None,
    engine: Engine,
    **how: Any,
) -> MultiResult:
    """Return the fit of votes that are sets of options."""
    from adjudge.io.sets import SetVotes, read_sets

    source = opened.source
    if engine.name == "spark" or opened.home == "spark":
        raise OptionError(
            "several options per task (multi=True) are not run on Spark: call adj.aggregate(frame.toArrow(), multi=True), or "
            "give one yes/no vote per task and option without multi"
        )
    if model.is_ordered:
        raise OptionError(f"model {model.name!r} is for grades, and the options of sets have no order: choose another model")
    given_too = [name for name, value in alone.items() if value is not None]
    if given_too:
        raise OptionError(f"{given_too[0]} works only for tasks with one label: leave it out with multi=True")
    if isinstance(source, Votes):
        require_unweighted(source, "multi=True")
    sets = source if isinstance(source, SetVotes) else read_sets(opened, reading)
    gold = sets.found_gold if gold is None else gold
    return fit_sets(sets, model, gold=gold, set_separator=reading.set_separator, engine=engine, **how)


def _fit_votes(
    votes: Votes,
    model: Model,
    groups: Source | None,
    calibrate: Source | bool | None,
    gold: Source | None,
    known: dict[str, Any],
    watch: dict[str, Any],
    facts: dict[str, object],
) -> Result:
    """Return the fit of votes of one label each: of groups where there are some, calibrated where asked, with more facts."""
    earlier = [what for what in ("history", "warm_start") if known[what] is not None]
    known |= {what: opened(known[what], what) for what in earlier}
    if calibrate is not None or groups is not None:
        # What is used several times is read once: a file need not be read again, and an iterator could not be.
        gold = None if gold is None else read_answers(gold, "gold")[0]
        if known["history"] is not None and not isinstance(known["history"], Learned):
            known["history"] = as_knowledge(known["history"])

    def fit(some: Votes, some_gold: Source | None) -> Result:
        return model.fit(some, gold=some_gold, **known, **watch)

    result, grouping, mapping = None, None, dict[str, str]()
    if isinstance(groups, str) and groups == ANSWERS_LIKE:
        from adjudge.results.groups import answering_alike

        result = fit(votes, gold)  # it stays where it shows no groups
        mapping = answering_alike(result)
    elif groups is not None:
        mapping = require_families(votes.workers.texts()) if is_families(groups) else read_groups(groups)
    for what in earlier:
        require_same_voters(known[what], mapping, what)
    if mapping:
        grouping, result = group_votes(votes, mapping), None
        votes = grouping.votes
    if groups is not None:
        sizes = (0, 0) if grouping is None else (len(grouping.groups), grouping.ties_within)
        facts |= dict(zip(("groups", "ties_within"), sizes, strict=True))
    result = fit(votes, gold) if result is None else result
    if facts:
        result = replace(result, fit=replace(result.fit, facts={**result.fit.facts, **facts}), grouping=grouping)
    if calibrate is None:
        return result
    from adjudge.models.temperature import calibrate_result

    return calibrate_result(result, calibrate, cast(Any, gold), partial(fit, votes))


def fit_sets(
    votes: SetVotes,
    model: Model,
    *,
    per_option: bool = False,
    gold: Source | None = None,
    set_separator: str = SET_SEPARATOR,
    **watch: Any,
) -> MultiResult:
    """Return the sets a model finds: one confusion per worker pooled over options, or each option fitted separately."""
    from adjudge.io.sets import gold_of_options
    from adjudge.results.sets import MultiResult

    problems = [votes.of_option(o) for o in range(len(votes.options))] if per_option and len(votes.options) else [votes.binary]
    standards = None if gold is None else gold_of_options(gold, votes.options, set_separator)
    return MultiResult(votes, tuple(model.fit(p, gold=standards, **watch) for p in problems), model.name)
