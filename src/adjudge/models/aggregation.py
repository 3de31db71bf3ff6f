"""One call from votes to labels."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

from adjudge.data.options import (
    DEFAULTS,
    SET_SEPARATOR,
    Confidence,
    Duplicates,
    EngineName,
    ModelName,
    Stop,
    Strength,
    Ties,
    TraceDetail,
)
from adjudge.data.votes import Votes
from adjudge.data.weights import require_unweighted
from adjudge.engines.base import Engine
from adjudge.engines.registry import home_of, resolve
from adjudge.errors import InputError, OptionError
from adjudge.io.answers import matching_answers, read_answers
from adjudge.io.exclude import read_workers, require_in_memory, without_workers
from adjudge.io.formats.found import gold_frame
from adjudge.io.groups import ANSWERS_LIKE, group_votes, read_groups
from adjudge.io.read import SHAPING, Shaping
from adjudge.io.shapes import ANYBODY
from adjudge.io.sources import Source, encoded_folder, is_spark_frame
from adjudge.models.base import Model, make
from adjudge.models.em import Progress
from adjudge.results.knowledge import Learned
from adjudge.results.known import HasLearned, Priors, as_knowledge, opened, require_same_voters
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.io.sets import SetVotes
    from adjudge.results.sets import MultiResult


class Options(Shaping, total=False):
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
    set_separator: str
    smoothing: float | None
    strength: Strength | None
    tol: float | None
    max_iter: int | None
    switch: float | None
    stop: Stop | None
    ties: Ties | None
    accelerate: bool | None
    trace: TraceDetail
    per_option: bool
    gold: Source | None
    history: Source | HasLearned | None
    priors: Priors | None
    priors_weight: float | None
    warm_start: HasLearned | str | os.PathLike[str] | None
    calibrate: Source | bool
    confidence: Confidence
    groups: Source | None
    exclude: Source | None
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
    wide: bool = False,
    count: str | None = None,
    weight: str | None = None,
    abstain: Iterable[object] | object | None = None,
    normalize: bool = False,
    strict: bool = False,
    separator: str | None = None,
    header: bool = True,
    set_separator: str = SET_SEPARATOR,
    smoothing: float | None = None,
    strength: Strength | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    switch: float | None = None,
    stop: Stop | None = None,
    ties: Ties | None = None,
    accelerate: bool | None = None,
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
    groups: Source | None = None,
    exclude: Source | None = None,
    progress: Progress | None = None,
    format: str = "auto",  # noqa: A002
    question: str | None = None,
    predictions: bool = False,
) -> Result | MultiResult:
    """Return the label of every task with its confidence, and what every worker can be trusted with.

    `adj.Online`, for votes that keep coming, has the same defaults but for three: `model` is "fds", one rule for refits and for
    the votes between them; `duplicates` is "last", as a second vote there is mostly a change of mind; `strength` is 1, as
    workers are judged from their first vote on. Here all votes are at hand.

    - `source`: votes, or anything that `adj.read` takes; `task`, `worker`, `label`, `labels` and `duplicates` are as there.
    - `model`: "auto" (careful; majority vote where workers err together), "fds" (Fast Dawid-Skene), "ds" (Dawid-Skene),
      "hybrid" (soft at first, hard at the end), "one-coin" (one accuracy per worker), "glad" (abilities and difficulties),
      "iwmv" (weighted majority), "mv" (majority vote), "ordinal" (grades with an order: numbers, or `labels` from low to
      high); of the field, "wawa", "zbs", "goldmv", "catd", "la", "zc", "lfc", "ibcc", "ebcc", "mace", "kos" and "mmsr"
      (docs/choosing-a-model.md); or a model with its settings, as `adj.DawidSkene(tol=1e-6)`. Long names in any case mean the
      same ("Dawid-Skene", "majority"); type checkers know the short ones.

    How votes are laid out, and what their labels mean, as for `adj.read`:

    - `wide`: True for one line per task and one column per worker, or a matrix of tasks x workers.
    - `count`: the column that says how many votes a line stands for; model "mv" then needs no worker.
    - `weight`: the column of what a vote counts (a judge's stated confidence, a sampling weight), from 0, an abstention, to
      a million: in vote shares, counts, scores and the sums behind shared error. Every model but "glad" takes it.
    - `abstain`: labels that are abstentions, as ["NA", "skip"] or -1.
    - `normalize`: True joins labels that differ only in case or white space.
    - `strict`: True makes errors of what looks wrong about votes, gold or calibration labels (`SuspiciousVotes`).
    - `separator`, `header`: of text files, where their first line does not show them.
    - `format`, `question`, `predictions`: of exports of annotation tools: their format, where content does not show it;
      which question, where they have several; True makes the predictions of models votes.

    Settings of a model, which are its own defaults where they are None:

    - `seed`, `ties`: decide between labels that score the same: by a "hash" of seed, task and label, or by the "prior".
    - `tol`, `max_iter`, `stop`: stop when the priors (glad: the objective) change by less than `tol`, or with
      stop="labels" when no label changed; after `max_iter` iterations at the latest, with a warning.
    - `smoothing`: added to every cell of every confusion. 0 is the paper.
    - `strength`: votes of the mean worker lent to every worker; "auto" finds how many. 0 is the paper.
    - `switch`: hybrid turns hard when the priors change by at most this.
    - `accelerate`: True spares "ds", "hybrid" and "one-coin" most of their soft passes, by extrapolation. False is the paper.

    Where it runs, and what is told of it:

    - `engine`: "cpu" (compiled), "reference" (NumPy), "disk" (votes that need not fit in memory), "cuda" (a GPU), "spark",
      one that was registered, or "auto": compiled, on disk for files that would not fit in memory, Spark for its frames, and
      a GPU for many votes where there is one.
    - `threads`: how many to use; all cores by default.
    - `memory`: the most to use on disk, or with "cuda" of each GPU, as "2GB" or in bytes; "auto" goes to disk for what would
      need more.
    - `work`, `resume`: with a folder as `work` a fit on disk that was interrupted is continued by `resume=True`.
    - `trace`: "light" spares hard passes the likelihood of each iteration, which makes them faster.
    - `progress`: called after every iteration, with its line of the trace.

    Prior knowledge:

    - `gold`: labels of some tasks (a frame, a file, or a dict task -> label), fixed in every pass; learned from. Where it
      is not given, labels that an export itself gives (`votes.found_gold`) are gold; `gold={}` leaves them out.
    - `history`: earlier votes of the workers (a result, a saved model, or a table worker, true, given, count), added as
      pseudo-votes in every M-step.
    - `priors`: class priors (by label, in label order, or "uniform"), fixed; or worth `priors_weight` tasks.
    - `warm_start`: a result or saved model to continue from, after new votes have come.
    - `confidence`: "posterior" is the model's own, "honest" is judged from the votes of other tasks and the errors that
      workers share: how likely labels are right, whichever model chose them.
    - `calibrate`: True fits a temperature on the gold, so that confidence is as high as labels are right; or give
      labels for that alone.

    Who votes (votes in memory):

    - `groups`: workers who err together and so vote as one, as copies of one model do: a dict worker -> group, a frame or
      file with the columns worker and group, or "answers_like" for those whose answers are alike beyond chance in a first
      fit. A group votes once per task, by the plurality of its members' votes; where they tie, it abstains. Other workers
      vote alone. `result.groups` tells of groups, `result.workers` of their members.
    - `exclude`: workers whose votes are left out: a list or set of ids, a frame or file with a column worker, or a text
      file with one id per line.

    Tasks with several correct options:

    - `multi`: True takes votes that are sets of options (lists, JSON lists, or text joined by `|`) and returns a
      `MultiResult`.
    - `set_separator`: what joins the options of a set written as text, as "," or ";".
    - `per_option`: fits each option apart, where one confusion per worker is pooled by default.

    >>> import adjudge as adj
    >>> votes = [("t1", "ann", "cat"), ("t1", "bob", "cat"), ("t1", "eve", "dog"), ("t2", "ann", "dog"), ("t2", "bob", "dog")]
    >>> adj.aggregate(votes, model="mv").labels.select("task", "label").rows()
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
        "accelerate": accelerate,
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
    shaping: Any = _given(
        wide=wide,
        count=count,
        weight=weight,
        abstain=abstain,
        normalize=normalize,
        strict=strict,
        separator=separator,
        header=header,
        format=format,
        question=question,
        predictions=predictions,
    )
    if chosen.is_ordered and labels is not None and not isinstance(labels, str):
        labels = list(labels)
        chosen = chosen.over(labels)
    columns: Any = {"task": task, "worker": worker, "label": label, "labels": labels, "duplicates": duplicates}
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
            "weight": weight,
        }
        columns["set_separator"] = set_separator
        return _fitted_sets(source, chosen, alone, {**columns, **shaping}, per_option=per_option, gold=gold, **watch)
    if per_option or set_separator != SET_SEPARATOR:
        raise OptionError(f"{'per_option' if per_option else 'set_separator'} works only with multi=True")
    if exclude is not None:
        require_in_memory("exclude", place, "leave the votes of these workers out of the source")
    if groups is not None:
        require_in_memory("groups", place, "give the votes of the groups as votes of workers")
    if weight is not None:
        chosen.require_weights()
    if worker is None and chosen.name == "mv" and place.name != "spark" and not _is_read(source):
        columns["worker"] = ANYBODY
    votes = place.read(given_votes, **columns, **shaping)
    if votes.understood is not None and not votes.understood.has_workers and chosen.name != "mv":
        raise InputError("these votes do not say who gave them, so only majority vote can count them: model='mv' (--model mv)")
    if groups is not None:
        require_unweighted(votes, "groups", "leave the groups or the weight out")
    facts: dict[str, object] = {}
    if gold is None and getattr(votes, "found_gold", None) is not None:  # votes on Spark have no such thing
        gold = gold_frame(votes)
        facts["gold_of_export"] = len(gold)
    if exclude is not None:
        keep = labels is not None or isinstance(source, Votes) or "gold_of_export" in facts
        votes, *left_out = without_workers(votes, read_workers(exclude), keep_labels=keep)
        facts |= dict(zip(("excluded_workers", "excluded_votes"), left_out, strict=True))
    if is_calibrated and calibrate is True and gold is None:
        raise InputError("calibrate=True fits a temperature on gold: give gold=…, or known labels as calibrate=…")
    if gold is not None and home_of(votes) is None:
        gold = matching_answers(gold, "gold", votes.tasks, strict=strict)
    return _fitted(votes, chosen, groups, calibrate if is_calibrated else None, gold, known, watch, facts)


def _fitted_sets(
    source: Votes | SetVotes | Source,
    model: Model,
    alone: dict[str, Any],  # options of tasks with one label, of which none may be given
    reading: dict[str, Any],
    *,
    gold: Source | None,
    engine: Engine,
    **how: Any,
) -> MultiResult:
    """Return the fit of votes that are sets of options."""
    from adjudge.io.sets import SetVotes, read_sets

    if engine.name == "spark" or is_spark_frame(source):
        raise OptionError(
            "several options per task (multi=True) are not run on Spark: give the votes in memory (frame.toArrow()) with "
            "another engine, or one yes/no vote per task and option without multi"
        )
    if model.is_ordered:
        raise OptionError(f"model {model.name!r} is for grades, and the options of sets have no order: choose another model")
    given_too = [name for name, value in alone.items() if value is not None]
    if given_too:
        raise OptionError(f"{given_too[0]} works only for tasks with one label: leave it out with multi=True")
    if isinstance(source, Votes):
        require_unweighted(source, "multi=True")
    given: Any = source
    sets = source if isinstance(source, SetVotes) else read_sets(given, **reading)
    gold = sets.found_gold if gold is None else gold
    return fit_sets(sets, model, gold=gold, set_separator=reading["set_separator"], engine=engine, **how)


def _given(**shaping: object) -> dict[str, object]:
    """Return those options of reading that are not as by default: an engine may know none of them."""
    return {
        name: value
        for name, value in shaping.items()
        if value is not SHAPING[name] and not (isinstance(value, str) and value == SHAPING[name])  # strings are equal, not one
    }


def _is_read(source: object) -> bool:
    """Return whether votes were read before, and so have workers or not."""
    return isinstance(source, Votes) or encoded_folder(source) is not None


def _fitted(
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
    known |= {what: opened(known[what], what) for what in ("history", "warm_start")}
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
        mapping = read_groups(groups)
    for what in ("history", "warm_start"):
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
    from adjudge.results.calibrate import calibrated

    return calibrated(result, calibrate, cast(Any, gold), partial(fit, votes))


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
