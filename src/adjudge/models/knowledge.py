"""What a fit has learned of workers and labels: taken out of it, merged, and carried over to other votes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, cast, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data import options
from adjudge.data.exact import LOG_UNIT, round_to_unit, sum_of
from adjudge.data.fit import Fit, Knowledge, Parameters
from adjudge.data.options import Choice, Rules
from adjudge.data.vocabulary import Vocabulary, require_array
from adjudge.data.votes import Understood, WorkerRows
from adjudge.data.wide import Cells, WideTable
from adjudge.errors import InputError, itemize, quote
from adjudge.io.encode import sort_order
from adjudge.io.frames import column, match_ids, vocabulary
from adjudge.kernels import reference
from adjudge.models.careful import careful_priors, known_confusion, known_lines
from adjudge.models.honest import DEPENDENCE, Dependence
from adjudge.models.temperature import TEMPERATURE

Floats = NDArray[np.float64]
WARM_START_PSEUDO_VOTES = 0.01  # pseudo-votes of the mean worker: without them a warm start would rule out all unseen answers
# How a model scores votes: by confusions, by a weight per worker, by one accuracy per worker, by counting heads, by careful
# workers (adjudge.models.careful), or by judges of grades (adjudge.models.grade_scale).
Scoring = Literal["confusion", "weight", "coin", "heads", "careful", "ordinal"]
RULES: Rules = {"scoring": Choice(get_args(Scoring)), "temperature": TEMPERATURE}
# Models whose parameters do not follow from votes by true label, and so not from the sum of two such tables.
NOT_MERGED: Final[Mapping[str, str]] = {
    "goldmv": "do not keep their votes on gold apart",
    "kos": "know workers from messages, not from counts of their votes",
    "mmsr": "know workers from how they agree with each other, not from counts of their votes",
    "mace": "know workers from how often they spam, not from counts of their votes",
    "ebcc": "know workers by subtypes of the labels, which counts of their votes do not keep",
}


@dataclass(frozen=True, eq=False)
class Learned:
    """All that a fit knows of workers and labels, without votes and tasks: what is saved, merged and carried over."""

    model: str  # its name
    settings: Mapping[str, object]
    scoring: str
    knowledge: Knowledge
    table: Any  # [rows, K] log pi, as the last M-step left it: an array, or a `WideTable`
    denominators: Floats  # [workers, K] votes and pseudo-votes by true label: what pi is a share of
    shared: Floats  # [K given, K true] pseudo-votes that every worker has in every cell
    priors: Floats  # [K]
    skill: Floats | None = None  # [workers] the weight or the accuracy, where scoring asks for it
    iterations: int = 0
    temperature: float = 1.0
    facts: Mapping[str, object] = field(default_factory=dict)  # tasks, votes, log-likelihood: for people
    groups: Mapping[str, str] = field(default_factory=dict)  # worker to the group that votes for it; see adjudge.io.workers

    def __post_init__(self) -> None:
        known, k = self.knowledge, self.knowledge.n_labels
        shapes = {
            "table": (known.n_rows, k),
            "denominators": (known.n_workers, k),
            "shared": (k, k),
            "priors": (k,),
            **({} if self.skill is None else {"skill": (known.n_workers,)}),
        }
        for name, shape in shapes.items():
            if isinstance(getattr(self, name), WideTable):  # of a fit in this process
                continue
            array = require_array(name, getattr(self, name), np.float64, shape)
            if np.isnan(array).any():
                raise InputError(f"{name} holds NaN: give numbers")
        options.check({"scoring": self.scoring, "temperature": self.temperature}, RULES)

    def confusion(self, worker: int) -> Floats:
        """Return pi_cl of one worker, [K true, K given]; that of the population for an unknown one (-1)."""
        known = self.knowledge
        if self.scoring == "careful":
            return known_confusion(known, dependence_of(self), worker)
        if self.scoring == "ordinal":
            from adjudge.models import grade_scale

            return grade_scale.judge_confusion(known, grade_scale.scale_of(known, self.priors, self.settings), worker)
        if worker < 0:
            return known.mean_worker().T
        with np.errstate(divide="ignore", invalid="ignore"):
            matrix = np.nan_to_num(self.shared / self.denominators[worker]).T
        rows = slice(known.worker_ptr[worker], known.worker_ptr[worker + 1])
        matrix[:, known.row_label[rows]] = np.exp(self.table[rows]).T
        out: Floats = matrix
        return out

    def stored_for(self, *, wide: bool) -> Learned:
        """Return the same with counts and table as a session takes them: by the cells with votes where it is `wide`."""
        known = self.knowledge
        if wide and self.scoring == "careful":
            counts = known.counts if isinstance(known.counts, Cells) else Cells.of(known.counts)
            return replace(self, knowledge=replace(known, counts=counts))
        if not isinstance(known.counts, Cells) and not isinstance(self.table, WideTable):
            return self
        return replace(self, table=np.asarray(self.table), knowledge=replace(known, counts=np.asarray(known.counts)))

    def label_shares(self) -> Floats:
        """Return what the stopping rule of a fit that continues from here follows, [K]."""
        shares = _shares(self.knowledge) if self.scoring == "coin" else None  # the priors may be fixed
        return self.priors if shares is None else shares


class Transferred(NamedTuple):
    """Parameters for other votes."""

    params: Parameters
    worker: NDArray[np.int64]  # [workers] the code of each worker in the model; -1 for an unknown one


def transfer(learned: Learned, panel: WorkerRows) -> Transferred:
    """Return the parameters for the votes of a panel over the same labels; unknown workers are like the population."""
    known, k = learned.knowledge, panel.n_labels
    worker = match_ids(panel.workers, known.workers)
    skill = None if learned.skill is None else _skills(learned, worker)
    uses_prior = True
    table: Any
    if learned.scoring == "weight" and skill is not None:
        table, uses_prior = np.zeros((panel.n_rows, k)), False
        table[np.arange(panel.n_rows), panel.row_label] = np.repeat(skill, np.diff(panel.worker_ptr))
    elif learned.scoring == "coin" and skill is not None:
        table = coin_table(panel, skill, 1.0 - skill, other_labels(possible_labels(known, learned.priors)))
    elif learned.scoring == "careful":
        table = known_lines(known, dependence_of(learned), panel, worker)
    elif learned.scoring == "ordinal":
        table = _grade_lines(learned, panel, worker)
    else:
        table = _confusions(learned, panel, worker)
    priors = careful_priors(learned.priors, learned.priors > 0) if learned.scoring == "careful" else learned.priors
    totals = np.zeros((panel.n_workers, k))
    return Transferred(Parameters(priors, table, totals, uses_prior=uses_prior), worker)


def dependence_of(learned: Learned) -> Dependence:
    """Return how far workers erred together in the fit that learned this."""
    return Dependence.of(learned.facts)


def _shares(known: Knowledge) -> Floats | None:
    """Return the shares of the labels among the tasks, [K]; None if no task is known."""
    total = sum_of(known.class_counts)
    return known.class_counts / total if total > 0 else None


def loosen(learned: Learned, lent: float = WARM_START_PSEUDO_VOTES) -> Learned:
    """Return what was learned with a little of the mean worker lent to every worker.

    A cell without votes is 0, and would rule out an answer forever: expectation-maximisation never leaves a 0. A warm start
    gets that freedom, and no more.
    """
    if learned.scoring != "confusion":
        return learned
    known = learned.knowledge
    frequency = known.counts.sum(axis=0)
    votes = lent * known.mean_worker() * (frequency / max(float(frequency.sum()), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.exp(learned.table) * np.repeat(learned.denominators, np.diff(known.worker_ptr), axis=0)
        denominators = learned.denominators + votes.sum(axis=0)
        table = np.log(own + votes[known.row_label]) - np.repeat(np.log(denominators), np.diff(known.worker_ptr), axis=0)
    table[np.isnan(table)] = -np.inf
    return replace(learned, table=table, denominators=denominators, shared=learned.shared + votes)


def possible_labels(panel: WorkerRows, expected: Floats | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which labels there are, [K]: those that somebody gave, and those of which tasks are expected, [K]."""
    out: NDArray[np.bool_] = expected > 0
    out[panel.row_label] = True
    return out


def other_labels(possible: NDArray[np.bool_]) -> int:
    """Return how many labels an error can fall on: those that there are, but one."""
    return max(int(possible.sum()) - 1, 1)


def coin_table(panel: WorkerRows, right: Floats, wrong: Floats, others: int) -> Floats:
    """Return log pi, [rows, K], if a worker is right with one probability, [workers], and errors fall on other labels alike.

    The probability to be wrong, [workers], is a separate argument: computed as a difference it would lose digits near 1.
    """
    length = np.diff(panel.worker_ptr)
    with np.errstate(divide="ignore"):
        own, other = (round_to_unit(np.log(p), LOG_UNIT) for p in (right, wrong / others))
    table = np.repeat(np.repeat(other, length)[:, None], panel.n_labels, axis=1)
    table[np.arange(panel.n_rows), panel.row_label] = np.repeat(own, length)
    return table


def _confusions(learned: Learned, panel: WorkerRows, worker: NDArray[np.int64]) -> Floats:
    known = learned.knowledge
    who = np.repeat(worker, np.diff(panel.worker_ptr))
    place = np.where(who >= 0, known.row_of(np.maximum(who, 0), panel.row_label), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(known.mean_worker())[panel.row_label]  # unknown workers
        absent = np.log(learned.shared[panel.row_label]) - np.log(_rows(learned.denominators, who))
    absent[np.isnan(absent)] = -np.inf  # 0 / 0
    table = np.where((who >= 0)[:, None], absent, table)
    table[place >= 0] = learned.table[place[place >= 0]]
    return np.ascontiguousarray(round_to_unit(table, LOG_UNIT))


def _grade_lines(learned: Learned, panel: WorkerRows, worker: NDArray[np.int64]) -> Floats:
    """Return the lines of judges of grades: as the fit left them, and for grades that a judge did not give there."""
    from adjudge.models import grade_scale

    known = learned.knowledge
    who = np.repeat(worker, np.diff(panel.worker_ptr))
    place = np.where(who >= 0, known.row_of(np.maximum(who, 0), panel.row_label), -1)
    out, new = np.empty((panel.n_rows, panel.n_labels)), place < 0
    out[~new] = learned.table[place[~new]]
    if new.any():
        scale = grade_scale.scale_of(known, learned.priors, learned.settings)
        out[new] = grade_scale.other_lines(known, scale, who[new], panel.row_label[new])
    return out


def _refit_judges(every: Knowledge, learned: Learned) -> Floats:
    """Return the lines of judges of grades whose knowledge has grown, [rows, K]."""
    from adjudge.models import grade_scale

    return grade_scale.own_lines(every, grade_scale.scale_of(every, learned.priors, learned.settings))


def _skills(learned: Learned, worker: NDArray[np.int64]) -> Floats:
    """Return the weight or accuracy of each worker of other votes, [workers]; an unknown one has that of the mean vote."""
    assert learned.skill is not None
    votes = learned.knowledge.by_worker(learned.knowledge.counts).sum(axis=1) if len(learned.skill) else np.zeros(0)
    total = float(votes.sum())
    mean = float((learned.skill * votes).sum() / total) if total else 1.0
    return np.where(worker >= 0, _rows(learned.skill, worker), mean)


def _rows(array: Floats, place: NDArray[np.int64]) -> Floats:
    """Return the lines at these places, and an arbitrary one for -1."""
    return array[np.maximum(place, 0)] if len(array) else np.ones((len(place), *array.shape[1:]))


COLUMN_FACT: Final = "{} column"  # the fact that names the column of a role in the votes that a fit learned from


def columns_as_facts(understood: Understood | None) -> dict[str, str]:
    """Return the columns of a table of votes as facts of a fitted model."""
    columns = {} if understood is None else understood.table_columns()
    return {COLUMN_FACT.format(role): name for role, name in columns.items()}


def columns_of_facts(facts: Mapping[str, object]) -> dict[str, str]:
    """Return the columns that facts name, by role.

    >>> columns_of_facts({"votes": 7, "task column": "item"})
    {'task': 'item'}
    """
    named = {role: facts.get(COLUMN_FACT.format(role)) for role in ("task", "worker", "label")}
    return {role: name for role, name in named.items() if isinstance(name, str)}


def learned_from(
    panel: WorkerRows, fit: Fit, *, model: str, settings: Any, scoring: str, history: Knowledge | None = None, facts: Any = None
) -> Learned:
    """Return what a fit has learned, and what its history knew before it."""
    own = Knowledge(
        worker_ptr=panel.worker_ptr,
        row_label=panel.row_label,
        workers=panel.workers,
        labels=panel.labels,
        counts=fit.statistics.counts.astype(np.float64)
        if scoring == "careful"
        else np.asarray(fit.statistics.counts, np.float64),
        class_counts=fit.statistics.class_counts.astype(np.float64),
    )
    prior, k = fit.params.prior, panel.n_labels
    shared = np.full((k, k), prior.smoothing) + (0.0 if prior.workers is None else prior.workers.shared)
    mine = Learned(
        model=model,
        settings=settings,
        scoring=scoring,
        knowledge=own,
        table=fit.params.table,
        denominators=fit.params.denominators(),
        shared=shared,
        priors=fit.params.priors if fit.scored_by is None else fit.scored_by,
        skill=fit.skill,
        iterations=fit.trace[-1].iteration if fit.trace else 0,
        temperature=fit.temperature,
        facts=facts or {},
    )
    return mine if history is None else _with_history(mine, history)


def _with_history(mine: Learned, history: Knowledge) -> Learned:
    """Return what was learned, with the rows and workers that only the history knows."""
    own = mine.knowledge
    past = over(history, own.labels)
    every = added(own, past)
    place = every.row_of(match_ids(own.workers, every.workers)[own.row_worker()], own.row_label)
    worker = match_ids(own.workers, every.workers)
    denominators = every.by_worker(every.counts) + mine.shared.sum(axis=0)  # of workers whom only the history knows
    denominators[worker] = mine.denominators
    with np.errstate(divide="ignore", invalid="ignore"):
        believed = np.log(every.counts + mine.shared[every.row_label])
        table = believed - np.repeat(np.log(denominators), np.diff(every.worker_ptr), axis=0)
    table[np.isnan(table)] = -np.inf
    if mine.scoring == "ordinal":
        table = _refit_judges(every, mine)
    table[place] = mine.table
    skill = None if mine.skill is None else _counted_skill(every, mine)
    if skill is not None and mine.skill is not None:
        skill[worker] = mine.skill
    return replace(mine, knowledge=every, table=table, denominators=denominators, skill=skill)


def merge(first: Learned, second: Learned) -> Learned:
    """Return the knowledge of both, and the parameters that follow from it."""
    if first.scoring != second.scoring or (first.scoring == "weight" and first.model != second.model):
        raise InputError(f"a model of {first.model!r} and one of {second.model!r} cannot be merged: use two of the same model")
    if first.model in NOT_MERGED:
        why = NOT_MERGED[first.model]
        raise InputError(f"models of {first.model!r} {why}: fit all votes (and all gold) instead of a merge")
    if set(first.knowledge.labels.texts()) != set(second.knowledge.labels.texts()):
        raise InputError(
            f"the models are over other labels ({itemize(first.knowledge.labels.ids())}, and "
            f"{itemize(second.knowledge.labels.ids())}): merge models over the same labels"
        )
    every = added(first.knowledge, over(second.knowledge, first.knowledge.labels))
    shared = first.shared
    table, totals = reference.confusion_table(every.counts + shared[every.row_label], every.worker_ptr, 0.0)
    denominators = every.by_worker(every.counts) + shared.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.log(totals) - np.log(denominators)
    shift[~np.isfinite(shift)] = 0.0
    table += np.repeat(shift, np.diff(every.worker_ptr), axis=0)
    if first.scoring == "ordinal":
        table = _refit_judges(every, first)
    numbers: dict[str, object] = {
        name: a + b
        for name in ("votes", "tasks")
        if isinstance(a := first.facts.get(name), int) and isinstance(b := second.facts.get(name), int)
    }
    share = first.knowledge.counts.sum() / max(float(every.counts.sum()), 1.0)
    for name in (*DEPENDENCE, "holds"):  # what was measured of votes: the mean, by votes
        one, two = first.facts.get(name), second.facts.get(name)
        if isinstance(one, int | float) and isinstance(two, int | float):
            numbers[name] = float(share * one + (1.0 - share) * two)
    numbers["confidence"] = "honest" if "holds" in numbers else "posterior"
    return replace(
        first,
        knowledge=every,
        table=table,
        denominators=denominators,
        priors=_merged_priors(first, second, every),
        skill=None if first.skill is None else _counted_skill(every, first),
        iterations=max(first.iterations, second.iterations),
        temperature=1.0,  # how sure the merged model may be is not known
        facts=numbers,
        groups=_merged_groups(first, second),
    )


def _merged_groups(first: Learned, second: Learned) -> dict[str, str]:
    """Return the groups of both; a worker who votes in a group of one, and alone or elsewhere in the other, is an error."""
    for one, other in ((first, second), (second, first)):
        alone = set(other.knowledge.workers.texts()) if one.groups else set()
        for worker, group in one.groups.items():
            there = other.groups.get(worker, worker if worker in alone else group)
            if there != group:
                raise InputError(
                    f"worker {quote(worker)} votes in group {quote(group)} of one model, but not of the other: merge models "
                    "that were fitted with the same groups"
                )
    return {**first.groups, **second.groups}


def _merged_priors(first: Learned, second: Learned, every: Knowledge) -> Floats:
    """Return the priors of two together, [K]: what both say where they are fixed, else the shares of the labels."""
    total = float(every.class_counts.sum())
    if first.settings.get("class_priors") != "uniform" and first.model != "zc":  # whose priors are always equal
        return every.class_counts / total if total else first.priors
    other = second.priors[match_ids(first.knowledge.labels, second.knowledge.labels)]
    if np.array_equal(first.priors, other):
        return first.priors
    possible = (first.priors > 0) | (other > 0)
    return possible / max(int(possible.sum()), 1)


def _counted_skill(known: Knowledge, learned: Learned) -> Floats:
    """Return weights or accuracies from the votes that met the true label, and the pseudo-votes of every worker, [workers]."""
    there = possible_labels(known, learned.priors)
    right = known.by_worker(known.counts[np.arange(known.n_rows), known.row_label]) + np.diag(learned.shared)[there].sum()
    total = known.by_worker(known.counts.sum(axis=1)) + learned.shared[np.ix_(there, there)].sum()
    if learned.scoring == "weight":
        labels = int(there.sum()) if learned.model == "la" else known.n_labels  # as their fits count them
        return weight_function(learned.model, learned.settings, total, labels)(right)
    accuracy: Floats = right / np.where(total > 0, total, 1.0)
    return accuracy


def added(first: Knowledge, second: Knowledge) -> Knowledge:
    """Return the sum of two over the same labels in the same order."""
    k = max(first.n_labels, 1)
    new = second.workers.take(np.flatnonzero(match_ids(second.workers, first.workers) < 0))
    parts = [column(v) for v in (first.workers, new) if len(v)] or [column(first.workers)]
    if len({part.dtype for part in parts}) > 1:  # numbers in one, texts in the other: an id is its text
        parts = [part.cast(pl.String) for part in parts]
    ids = vocabulary(pl.concat(parts, rechunk=True))
    order = sort_order(ids)
    workers = ids.take(order)
    cells = [
        match_ids(part.workers, workers)[part.row_worker()] * k + part.row_label for part in (first, second)
    ]  # (worker, given label) pairs of both
    rows, where = np.unique(np.concatenate(cells), return_inverse=True)
    counts = np.zeros((len(rows), first.n_labels))
    np.add.at(counts, where[: len(cells[0])], first.counts)
    np.add.at(counts, where[len(cells[0]) :], second.counts)
    row_worker, row_label = np.divmod(rows, k)
    return Knowledge(
        worker_ptr=np.searchsorted(row_worker, np.arange(len(workers) + 1)).astype(np.int64),
        row_label=row_label.astype(np.int32),
        workers=workers,
        labels=first.labels,
        counts=counts,
        class_counts=first.class_counts + second.class_counts,
    )


def over(known: Knowledge, labels: Vocabulary) -> Knowledge:
    """Return knowledge over other labels that hold all of its own: what was never seen has no count."""
    place = match_ids(known.labels, labels)
    if len(labels) == known.n_labels and (place == np.arange(len(labels))).all():
        return replace(known, labels=labels)
    order = np.lexsort((place[known.row_label], known.row_worker()))
    counts, class_counts = np.zeros((known.n_rows, len(labels))), np.zeros(len(labels))
    counts[:, place] = known.counts[order]
    class_counts[place] = known.class_counts
    row_label = place[known.row_label][order].astype(np.int32)
    return replace(known, row_label=row_label, labels=labels, counts=counts, class_counts=class_counts)


Weighing = Callable[[Floats], Floats]  # from right votes to weights, [workers] each
MIN_GOLD_WEIGHT: Final = 1e-6  # goldmv: of a worker who was never right, so that a vote still weighs more than none
MIN_WRONG_VOTES: Final = 0.5  # catd: wrong votes of a worker who has fewer
INITIAL_VOTES: Final = 2.0  # la: votes that every worker starts with
INITIAL_RIGHT_VOTES: Final = 1.0  # and those of them that are right
AGREEMENT: Final = ("wawa", "zbs", "goldmv")  # a weight is the share of right votes


def weight_function(model: str, settings: Mapping[str, Any], total: Floats, labels: int) -> Weighing:
    """Return the function from right votes to weights of a model, [workers] each.

    - `model`: its name; `settings`: its options.
    - `total`: votes of each worker, [workers].
    - `labels`: how many labels there are (K).

    >>> weight_function("iwmv", {}, np.array([4.0]), 3)(np.array([3.0])).tolist()
    [1.25]
    >>> weight_function("wawa", {}, np.array([4.0]), 3)(np.array([3.0])).tolist()
    [0.75]
    """
    some = np.where(total > 0, total, 1.0)
    if model == "catd":
        from adjudge.kernels.special import chi_square_quantile

        bound = chi_square_quantile(cast(float, settings["alpha"]) / 2.0, some)
        return lambda right: bound / np.maximum(total - right, MIN_WRONG_VOTES)
    if model == "la":
        return lambda right: labels * (right + INITIAL_RIGHT_VOTES) / (total + INITIAL_VOTES) - 1.0
    if model == "iwmv":
        return lambda right: labels * right / some - 1.0
    if model in AGREEMENT:
        return lambda right: right / some
    raise ValueError(f"the weights of model {model!r} do not follow from how often workers were right")
