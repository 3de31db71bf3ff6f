"""What outlives a fit: models that predict other votes, their files, and what several of them know together.

A file is a checksummed container (`adjudge.io.container`) of kind "model" or "sets"; docs/reference/files.md names its parts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER, Fit, Knowledge, given_votes
from adjudge.data.options import DEFAULTS, Choice, Confidence, Number, ReadOptions, Rules
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.data.votes import Votes, pairs_of, require_unweighted
from adjudge.data.wide import Cells, dense
from adjudge.engines.base import Session, WorkerBlock
from adjudge.engines.passes import Confidence as ConfidencePass
from adjudge.engines.registry import EngineChoice, resolve
from adjudge.errors import AdjudgeError, InputError, OptionError, itemize, quote
from adjudge.io import container
from adjudge.io.container import MAX_VOTE_COUNT, Array, Bounds, Types
from adjudge.io.encode import over_labels
from adjudge.io.frames import column
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sets import NO_YES, SetVotes, read_sets
from adjudge.io.sources import Opened, Source
from adjudge.io.workers import group_votes, require_in_memory
from adjudge.models import knowledge
from adjudge.models.careful import known_counts
from adjudge.models.honest import DEPENDENCE, Dependence, Honest, HonestProbabilities, rule_of, wide_lines
from adjudge.models.knowledge import Learned, Scoring, columns_of_facts, transfer
from adjudge.models.prior_knowledge import HasLearned, as_learned
from adjudge.models.temperature import COLDEST, HOTTEST, tempered_fit
from adjudge.results.result import Result, confusion_frame

if TYPE_CHECKING:
    from adjudge.results.sets import FittedSets, MultiResult


KIND: Final = "model"
VERSION: Final = 1
SETS_KIND: Final = "sets"
SETS_VERSION: Final = 1
SETS_META: Final[Types] = {"options": list, "models": list}
Floats = NDArray[np.float64]
PROBABILITY_TOLERANCE: Final = 1e-6  # probabilities may be this far beyond what they should be
# docs/reference/files.md describes each part.
META: Final[Types] = {
    "model": str,
    "settings": dict,
    "scoring": str,
    "labels": list,
    "worker_kind": str,
    "iterations": int,
    "temperature": (float, int),
    "facts": dict,
    "groups": dict,
}
ARRAYS: Final = {
    "worker_ids": Array(None, ("ids",)),
    "worker_offsets": Array("<i8", ("offsets",)),
    "worker_ptr": Array("<i8", ("workers+1",)),
    "row_label": Array("<i4", ("rows",)),
    "counts": Array("<f8", ("rows", "labels")),
    "class_counts": Array("<f8", ("labels",)),
    "table": Array("<f8", ("rows", "labels")),
    "denominators": Array("<f8", ("workers", "labels")),
    "shared": Array("<f8", ("labels", "labels")),
    "priors": Array("<f8", ("labels",)),
    "skill": Array("<f8", ("workers",), optional=True),
}
OF_KNOWLEDGE: Final = ("worker_ptr", "row_label", "counts", "class_counts")  # the other arrays are those of `Learned`
ID_ARRAYS: Final = {
    "string": {"worker_ids": Array("|u1", ("bytes",)), "worker_offsets": Array("<i8", ("workers+1",))},
    "integer": {"worker_ids": Array("<i8", ("workers",)), "worker_offsets": Array("<i8", (0,))},
    "boolean": {"worker_ids": Array("|b1", ("workers",)), "worker_offsets": Array("<i8", (0,))},
}
SETTINGS: Final[Rules] = {"seed": Number(whole=True), "ties": Choice(("hash", "prior"))}


Fitted: TypeAlias = HasLearned | str | os.PathLike[str]  # a result, a loaded model, or the path of a saved one


@dataclass(frozen=True, eq=False, repr=False)
class FittedModel:
    """What `adjudge.load` returns: all that a fit has learned of workers and labels.

    Examples
    --------
    >>> import adjudge as adj, tempfile, pathlib
    >>> crowd = adj.simulate(tasks=200, workers=10, seed=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "crowd.adjudge"
    >>> adj.aggregate(crowd.votes).save(path)
    >>> model = adj.load(path)
    >>> model
    FittedModel(auto: 10 workers, 3 labels, learned from 1000 votes on 200 tasks)
    >>> model.predict([("new", "w1", "l2"), ("new", "w2", "l2"), ("new", "w3", "l0")]).labels["label"].to_list()
    ['l2']

    """

    content: Learned

    def __post_init__(self) -> None:
        if not isinstance(self.content, Learned):
            raise InputError(
                f"content is {quote(self.content)}: adjudge.load makes fitted models of files, result.learned() of fits"
            )

    def __repr__(self) -> str:
        known, facts = self.content.knowledge, self.content.facts
        source = f", learned from {facts['votes']} votes on {facts['tasks']} tasks" if {"votes", "tasks"} <= facts.keys() else ""
        return f"FittedModel({self.content.model}: {known.n_workers} workers, {known.n_labels} labels{source})"

    @property
    def model(self) -> str:
        """The name of the model that was fitted."""
        return self.content.model

    @property
    def iterations(self) -> int:
        """The iterations so far, including those of the fits that this one continued."""
        return self.content.iterations

    @property
    def workers(self) -> pl.DataFrame:
        """Worker, votes (expected, with those of a history) and accuracy (expected share of right ones)."""
        known = self.content.knowledge
        votes = known.by_worker(known.counts.sum(axis=1)) if known.n_rows else np.zeros(known.n_workers)
        right = known.counts[np.arange(known.n_rows), known.row_label]
        right = known.by_worker(right) if known.n_rows else np.zeros(known.n_workers)
        return pl.DataFrame(
            {"worker": column(known.workers), "votes": votes, "accuracy": right / np.where(votes > 0, votes, 1.0)}
        )

    @property
    def priors(self) -> pl.DataFrame:
        """Label and prior, p_c."""
        return pl.DataFrame({"label": column(self.content.knowledge.labels), "prior": self.content.priors})

    @property
    def groups(self) -> pl.DataFrame:
        """Worker and group, of the workers who vote in groups; `predict` lets each group vote once per task."""
        pairs = self.content.groups
        schema = {"worker": pl.String, "group": pl.String}
        return pl.DataFrame({"worker": list(pairs), "group": list(pairs.values())}, schema=schema)

    def confusion(self, worker: object = None) -> pl.DataFrame:
        """Return the confusion (pi) of a worker or of the population: a row per true label, a column per given label.

        Parameters
        ----------
        worker : object, optional
            Id of the worker; by default the population.

        """
        return confusion_frame(self.content.knowledge.labels, self.confusion_matrix(worker))

    def confusion_matrix(self, worker: object = None) -> NDArray[np.float64]:
        """Return `confusion` as an array, shape (K true, K given).

        Parameters
        ----------
        worker : object, optional
            Id of the worker; by default the population.

        """
        if worker is None:
            return self.content.confusion(-1)
        code = int(self.content.knowledge.workers.codes([worker])[0])
        if code < 0:
            group = self.content.groups.get(text_of(worker))
            if group is not None:
                raise InputError(f"worker {quote(worker)} votes in group {quote(group)}: ask for the confusion of the group")
            raise InputError(f"worker {quote(worker)} is not known; there are {self.content.knowledge.n_workers} workers")
        return self.content.confusion(code)

    def predict(
        self,
        votes: Votes | Source,
        *,
        engine: EngineChoice = DEFAULTS.engine,
        confidence: Confidence | None = None,
        **reading: Unpack[ReadOptions],
    ) -> Result:
        """Label tasks with the model; unknown workers count as the average worker and are listed.

        Parameters
        ----------
        votes : Votes or source
            Anything that `adj.read` accepts, or a Spark frame, which gives a result of Spark frames.
        engine : str or engine, default "auto"
            Where to run, as for `adj.aggregate`.
        confidence : "honest" or "posterior", optional
            "honest" (if the fit was) or "posterior"; by default that of the fit.
        **reading
            The options of `adj.read`.

        Returns
        -------
        Result
            Labels of the tasks.

        """
        return predict(self.content, votes, engine, confidence, Reading.of(reading))

    def learned(self) -> Learned:
        """Return what was learned, in codes."""
        return self.content

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file; the same model gives the same bytes.

        Parameters
        ----------
        path : str or path
            The file; it is written completely or not at all.

        """
        write_model(Path(path), self.content)


@dataclass(frozen=True, eq=False)
class LearnedSets:
    """All that a fit of sets knows of workers and options, without votes and tasks."""

    options: Vocabulary
    parts: tuple[Learned, ...]  # one for all options, or one for each, in their order; over no and yes

    def __post_init__(self) -> None:
        if not len(self.options):
            raise InputError("no vote names an option, so nothing was learned of any: declare the options with labels=…")
        if len(self.parts) not in (1, len(self.options)):
            raise InputError(f"there are {len(self.parts)} models of {len(self.options)} options: give one, or one for each")
        for part in self.parts:
            labels = tuple(part.knowledge.labels.ids())
            if labels != NO_YES:
                raise InputError(f"a model of an option is over the labels {itemize(map(quote, labels))}: give {itemize(NO_YES)}")

    def option(self, option: object) -> int:
        """Return the code of an option, of options that were fitted apart; another is an error that names them."""
        code = int(self.options.codes([option])[0])
        if code < 0:
            raise InputError(f"each option was fitted apart: name one of {itemize(self.options.ids())}, not {quote(option)}")
        return code

    @property
    def model(self) -> str:
        """The name of the model that was fitted."""
        return self.parts[0].model


def load(path: str | os.PathLike[str]) -> FittedModel | FittedSets:
    """Return the model in a file that `save` or `adjudge aggregate --save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    FittedModel or FittedSets or ScorePanel
        `FittedSets` for a fit with `multi=True`, `ScorePanel` for a file of `adj.scores(…).save`.

    Raises
    ------
    InputError
        If the file is not a saved model, or is damaged.

    """
    kind = container.kind_of(Path(path))
    if kind == "scores":
        from adjudge.results.plotting import load as load_name  # scores are above results

        return cast(FittedModel, load_name("adjudge.evaluation.scores.saved:read_panel")(Path(path)))  # it predicts as one does
    if kind != "sets":
        return FittedModel(read_model(Path(path)))
    from adjudge.results.sets import FittedSets

    return FittedSets(read_set_model(Path(path)))


def merge(first: Fitted, second: Fitted, *more: Fitted) -> FittedModel:
    """Merge what several models know about their workers.

    Parameters
    ----------
    first, second, *more : result, model, str or path
        Results, loaded models, or files of saved models, all over the same labels.

    Returns
    -------
    FittedModel
        The merged model.

    Examples
    --------
    >>> import adjudge as adj
    >>> monday, tuesday = (adj.aggregate(adj.simulate(tasks=100, workers=8, seed=s).votes) for s in (1, 2))
    >>> adj.merge(monday, tuesday)
    FittedModel(auto: 8 workers, 3 labels, learned from 1000 votes on 200 tasks)

    """
    whole = as_learned(first, "the first model")
    for other in (second, *more):
        whole = knowledge.merge(whole, as_learned(other, "a model to merge"))
    return FittedModel(whole)


def predict(
    learned: Learned,
    source: Votes | Source,
    engine: EngineChoice = "auto",
    confidence: Confidence | None = None,
    reading: Reading = PLAIN_READING,
) -> Result:
    """Return the labels of votes under a model that was learned on others, with its confidence unless another is given.

    Votes of members of its groups count as theirs.
    """
    honest, opened, grouping = _is_honest(learned, confidence), Opened.of(source), None
    place = resolve(engine, source=opened)
    if learned.groups:
        require_in_memory("a model with groups", place, "group the votes first")
    votes = place.read(opened, reading if opened.is_read else reading.recall(columns_of_facts(learned.facts)))
    if votes.n_rows and not len(votes.workers):
        raise OptionError(
            f"predict needs the workers of the votes in one process, and those of {votes.n_rows} rows stay on the executors: "
            "give the votes of some tasks at a time, or engine=adj.Spark(rows='driver') where they fit"
        )
    if learned.groups:
        require_unweighted(votes, "a model with groups")
        grouping = group_votes(votes, learned.groups, strict=False)
        votes = grouping.votes
    votes = over_labels(votes, learned.knowledge.labels, "model")
    given = learned.settings
    session = place.load(votes, seed=cast(int, given["seed"]), ties=cast(str, given["ties"]))
    if honest and not hasattr(session, "run"):
        raise OptionError(f"honest confidence does not run on engine {place.name!r} yet: ask for confidence='posterior'")
    learned = learned.stored_for(wide=getattr(session, "is_wide", False))
    params, worker = transfer(learned, pairs_of(votes))
    session.adopt(lambda _: params, learned.priors)
    if learned.scoring == "heads":
        outcome = session.majority()
    elif learned.scoring == "weight":
        outcome = session.weighted_majority()
    else:
        session.e_step(hard=False, last=True)
        outcome = session.finish()
    fit = Fit(outcome, params, session.estimate().statistics, worker_columns={"known": worker >= 0})
    if learned.scoring == "ordinal":
        from adjudge.models.grade_scale import grade_columns, grades_learned

        fit = replace(fit, task_columns=grade_columns(session, grades_learned(learned.knowledge, given)))
    if honest:
        fit = _with_honest_confidence(fit, session, learned.knowledge, worker, learned.facts)
    if honest or "holds" not in learned.facts:  # a temperature is of the confidence that it was fitted on
        fit = tempered_fit(fit, session, learned.temperature)
    result = getattr(session, "result", Result)  # an engine far away has results of its own
    return result(session.votes, fit, session, learned.model, given, learned.scoring, used=learned, grouping=grouping)


def predict_sets(
    learned: LearnedSets,
    votes: SetVotes | Source,
    engine: EngineChoice = "auto",
    confidence: Confidence | None = None,
    reading: Reading = PLAIN_READING,
) -> MultiResult:
    """Return the sets of votes under a model that was learned on others."""
    options, reading = learned.options, reading.recall(columns_of_facts(learned.parts[0].facts))
    sets = votes if isinstance(votes, SetVotes) else read_sets(votes, replace(reading, labels=tuple(options.ids())))
    if sets.options.texts() != options.texts():
        raise InputError(
            f"the model has the options {itemize(options.ids())}, the votes have {itemize(sets.options.ids())}: "
            "give the votes as they were before they were read, or read them with labels=…"
        )
    place = resolve(engine)
    apart = len(learned.parts) > 1
    problems = [sets.of_option(o) for o in range(len(options))] if apart else [sets.binary]
    results = tuple(
        predict(part, problem, place, confidence=confidence) for part, problem in zip(learned.parts, problems, strict=True)
    )
    from adjudge.results.sets import MultiResult

    return MultiResult(sets, results, learned.model)


def _with_honest_confidence(
    fit: Fit, session: Session, known: Knowledge, worker: NDArray[np.int64], facts: Mapping[str, Any]
) -> Fit:
    """Return a prediction whose confidence is honest, from what another fit knows and measured.

    The votes at hand were never in its counts, so no task has a part to leave out. `worker` has the code of each worker of
    these votes there, [workers], -1 for an unknown one.
    """
    dependence = Dependence.of(facts)
    exists = known.class_counts > 0
    exists[known.row_label] = True
    pooled = given_votes(known, known.counts).T
    rule, mean_worker = rule_of(pooled, known.class_counts, exists, dependence.shared_error, float(facts["holds"]))
    found = Honest(rule, mean_worker, dependence)
    lines = PredictedLines(found, known, worker)
    shown = HonestProbabilities(found, session, fit.outcome.labels, lines)
    elsewhere = getattr(session, "honest_outcome", None)  # of sessions whose tasks are not in this process
    if elsewhere is not None:
        return replace(fit, outcome=elsewhere(fit.outcome, lines, rule), honest=shown)
    session.recount(fit.outcome.labels)
    confidence, tie = session.run(ConfidencePass(rule, fit.outcome.tie), lines)
    return replace(fit, outcome=replace(fit.outcome, confidence=confidence, tie=tie), shown=shown, honest=shown)


@dataclass(frozen=True, eq=False)
class PredictedLines:
    """The log-probabilities of votes that were never counted, from the counts of another fit."""

    honest: Honest
    known: Knowledge
    worker: NDArray[np.int64]  # [workers] codes there

    def __call__(self, block: WorkerBlock, counts: Any) -> tuple[Any, Any]:
        """Return them twice, [rows, K] each: no vote is left out of the counts."""
        panel, known, exists = block.panel, self.known, self.honest.rule.uniform > 0
        met = known.by_worker(known.counts) if known.n_rows else np.zeros((known.n_workers, known.n_labels))
        total = np.where((self.worker >= 0)[:, None], met[np.maximum(self.worker, 0)] if known.n_workers else 0.0, 0.0)
        lent = np.where(exists, PSEUDO_VOTES_PER_WORKER * self.honest.population, 0.0)
        votes = known_counts(known, panel, self.worker)
        if isinstance(votes, Cells):
            table = wide_lines(panel, votes, total, lent, counted=False)
            return table, table
        total = np.repeat(total, np.diff(panel.worker_ptr), axis=0)
        lines = np.full((panel.n_rows, panel.n_labels), -np.inf)
        lines[:, exists] = np.log(votes[:, exists] + lent[panel.row_label][:, exists])
        lines[:, exists] -= np.log(total[:, exists] + PSEUDO_VOTES_PER_WORKER)
        if block.weights is not None:
            lines = block.weights.lines(lines)
        return lines, lines


def _is_honest(learned: Learned, confidence: Confidence | None) -> bool:
    """Return whether predictions of a model have honest confidence: as asked for, or as it was fitted."""
    if confidence is not None:
        Choice(get_args(Confidence)).check("confidence", confidence)
    can_be = "holds" in learned.facts
    if confidence == "honest" and not can_be:
        raise OptionError("confidence is 'honest', but the model was fitted with posterior confidence: fit it again, and save it")
    return can_be and confidence != "posterior"


def write_model(path: Path, learned: Learned) -> None:
    """Write what was learned to one file, whole or not at all; the same content gives the same bytes."""
    container.save(path, KIND, VERSION, *model_contents(learned))


def model_contents(learned: Learned) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the metadata and the arrays of a model file."""
    known = learned.knowledge
    ids = {"worker_ids": known.workers.values, "worker_offsets": known.workers.offsets}
    named = {"labels": known.labels.ids(), "worker_kind": known.workers.kind}
    meta = {name: named[name] if name in named else getattr(learned, name) for name in META}
    parts = {name: getattr(known if name in OF_KNOWLEDGE else learned, name) for name in ARRAYS if name not in ids}
    arrays = dense({name: array for name, array in {**ids, **parts}.items() if array is not None})
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in meta.items()}, arrays


def read_model(path: Path) -> Learned:
    """Return what was saved; a damaged, forged or foreign file is an error."""
    if container.kind_of(path) == "sets":
        raise InputError(f"{path} is a model of sets (multi=True), which only predict can use: give one of tasks with one label")
    return check_model(path, *container.load(path, KIND, VERSION, META, ARRAYS))


def check_model(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Learned:
    """Return what the meta and the arrays of a file say, after both were checked in full; their types have been."""
    bounds = Bounds(path)
    known = _check_knowledge(bounds, meta, arrays)
    _check_parameters(bounds, meta, arrays)
    for worker, group in meta["groups"].items():
        bounds.need(isinstance(group, str), f"its groups put worker {quote(worker)} into {quote(group)}, which is not text")
    told = {name: value for name, value in meta.items() if name not in ("labels", "worker_kind")}
    own: dict[str, Any] = {name: array for name, array in arrays.items() if name not in (*OF_KNOWLEDGE, *ID_ARRAYS["string"])}
    return Learned(**{**told, "temperature": float(meta["temperature"])}, **own, knowledge=known)


def write_set_model(path: Path, learned: LearnedSets) -> None:
    """Write what was learned to one file, whole or not at all; the same content gives the same bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    models = []
    for number, part in enumerate(learned.parts):
        meta, own = model_contents(part)
        models.append(meta)
        arrays |= {f"{number}.{name}": array for name, array in own.items()}
    container.save(path, SETS_KIND, SETS_VERSION, {"options": learned.options.ids(), "models": models}, arrays)


def read_set_model(path: Path) -> LearnedSets:
    """Return what was saved; a damaged, forged or foreign file is an error."""
    meta, arrays = container.load(path, SETS_KIND, SETS_VERSION, SETS_META)
    bounds, parts = Bounds(path), []
    for number, one in enumerate(meta["models"]):
        bounds.need(isinstance(one, dict), f"model {number} is {quote(one)}, not an object")
        bounds.fields(f"its model {number}", one, META)
        bounds.need(not one.get("groups"), f"model {number} has groups, which sets have not")
        own = {name: arrays.pop(f"{number}.{name}") for name in ARRAYS if f"{number}.{name}" in arrays}
        bounds.arrays(own, ARRAYS)
        parts.append(check_model(path, one, own))
    bounds.need(not arrays, f"it has an array {itemize(map(quote, arrays), 3)} that nothing uses")
    bounds.need(parts, "it has no model")
    try:
        return LearnedSets(Vocabulary.of(meta["options"], "option"), tuple(parts))
    except AdjudgeError as error:
        raise InputError(f"{path} is not valid: {error}") from error


def _check_knowledge(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Knowledge:
    """Return the workers, labels and counts of a file, after they were checked in full."""
    kind = meta["worker_kind"]
    bounds.need(kind in ID_ARRAYS, f"its workers are of kind {quote(kind)}; known are {itemize(ID_ARRAYS)}")
    bounds.arrays({name: arrays[name] for name in ("worker_ids", "worker_offsets")}, ID_ARRAYS[kind])
    try:
        labels = Vocabulary.of(meta["labels"], "label")
    except AdjudgeError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    if kind == "string":
        bounds.texts("worker", arrays["worker_offsets"], arrays["worker_ids"])
    workers = Vocabulary(kind, arrays["worker_ids"], arrays["worker_offsets"])
    k, ptr, given = len(labels), arrays["worker_ptr"], arrays["row_label"]
    bounds.need(len(ptr) == len(workers) + 1, f"it has rows of {len(ptr) - 1} workers and names of {len(workers)}")
    bounds.need(len(arrays["priors"]) == k, f"it has priors of {len(arrays['priors'])} labels and names of {k}")
    bounds.need(column(workers).n_unique() == len(workers), "two of its workers have the same name")
    bounds.pointers("worker_ptr", ptr, len(given), rising=True)
    bounds.below("row_label", given, k)
    falls = given[1:] <= given[:-1]
    falls[ptr[1:-1] - 1] = False  # another worker begins
    bounds.need(not falls.any(), "the rows of a worker are not in the order of the labels")
    for name in ("counts", "class_counts", "denominators", "shared"):
        bounds.within(name, arrays[name], 0, MAX_VOTE_COUNT)
    return Knowledge(workers=workers, labels=labels, **{name: arrays[name] for name in OF_KNOWLEDGE})


def _check_order(bounds: Bounds, order: object, labels: list[Any]) -> None:
    """Raise unless this is an order of all labels of a file."""
    from adjudge.data.grades import check_order, grades_of

    try:
        grades_of([text_of(label) for label in labels], check_order(order))
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error


def _check_parameters(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise unless the parameters and settings of a file are what a fit can end with."""
    scoring, skill = meta["scoring"], arrays.get("skill")
    bounds.need(scoring in get_args(Scoring), f"its votes are scored by {quote(scoring)}; known are {itemize(get_args(Scoring))}")
    skilled = scoring in ("weight", "coin")
    bounds.need((skill is not None) == skilled, f"votes scored by {scoring} {'need the' if skilled else 'have no'} array skill")
    if skill is not None:
        bounds.within("skill", skill, 0 if scoring == "coin" else -MAX_VOTE_COUNT, 1 if scoring == "coin" else MAX_VOTE_COUNT)
    finite = np.where(np.isneginf(arrays["table"]), 0.0, arrays["table"])  # what never happens is minus infinity
    bounds.within("table", finite, -MAX_VOTE_COUNT, MAX_VOTE_COUNT if scoring == "weight" else PROBABILITY_TOLERANCE)
    bounds.within("priors", arrays["priors"], 0, 1 + PROBABILITY_TOLERANCE)
    total = float(arrays["priors"].sum())
    bounds.need(not len(arrays["priors"]) or abs(total - 1) < PROBABILITY_TOLERANCE, f"its priors sum to {total}, not to 1")
    rules: Rules = {"iterations": Number(least=0, whole=True), "temperature": Number(least=COLDEST, most=HOTTEST)}
    try:
        options.check(meta, rules)
        options.check({"seed": None, "ties": None, **meta["settings"]}, SETTINGS)
    except OptionError as error:
        raise InputError(f"{bounds.source} is not valid: {error}") from error
    if scoring == "careful" or "holds" in meta["facts"]:
        measured = dict(zip(DEPENDENCE, (0.0, 1.0, 1e-9), strict=True)) | ({"holds": 0.0} if "holds" in meta["facts"] else {})
        for name, least in measured.items():
            figure = meta["facts"].get(name)
            told = isinstance(figure, int | float) and not isinstance(figure, bool) and least <= figure <= MAX_VOTE_COUNT
            bounds.need(told, f"its fact {name} is {quote(figure)}, not a number from {least:g} on")
    for name in ("settings", "facts"):
        for key, value in meta[name].items():
            if name == "settings" and key == "order" and value is not None:
                _check_order(bounds, value, meta["labels"])
                continue
            bounds.need(value is None or type(value) in (str, int, float, bool), f"its {name} have {key} {quote(value)}")
