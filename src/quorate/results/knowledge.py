"""What was learned of workers, carried over to other votes: to predict new tasks, and to start a fit warm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from quorate import settings
from quorate.bounds import require_array
from quorate.errors import InputError
from quorate.exact import LOG_UNIT, sum_of, whole
from quorate.io.ids import matched
from quorate.knowledge import Knowledge
from quorate.params import Parameters
from quorate.settings import Choice, Rules
from quorate.temperature import TEMPERATURE
from quorate.votes import Panel

Floats = NDArray[np.float64]
LENT = 0.01  # votes of the mean worker that free a warm start from what was never seen
# How a model scores votes: by confusions, by a weight per worker, by one accuracy per worker, or by counting heads.
Scoring = Literal["confusion", "weight", "coin", "heads"]
RULES: Rules = {"scoring": Choice(get_args(Scoring)), "temperature": TEMPERATURE}


@dataclass(frozen=True, eq=False)
class Learned:
    """All that a fit knows of workers and labels, without votes and tasks: what is saved, merged and carried over."""

    model: str  # its name
    settings: Mapping[str, object]
    scoring: str
    knowledge: Knowledge
    table: Floats  # [rows, K] log pi, as the last M-step left it
    denominators: Floats  # [workers, K] votes and pseudo-votes by true label: what pi is a share of
    shared: Floats  # [K given, K true] pseudo-votes that every worker has in every cell
    priors: Floats  # [K]
    skill: Floats | None = None  # [workers] the weight or the accuracy, where scoring asks for it
    iterations: int = 0
    temperature: float = 1.0
    facts: Mapping[str, object] = field(default_factory=dict)  # tasks, votes, log-likelihood: for people

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
            array = require_array(name, getattr(self, name), np.float64, shape)
            if np.isnan(array).any():
                raise InputError(f"{name} holds NaN: give numbers")
        settings.check({"scoring": self.scoring, "temperature": self.temperature}, RULES)

    def confusion(self, worker: int) -> Floats:
        """Returns pi_cl of one worker, [K true, K given]; that of the population for an unknown one (-1)."""
        known = self.knowledge
        if worker < 0:
            return known.mean_worker().T
        with np.errstate(divide="ignore", invalid="ignore"):
            matrix = np.nan_to_num(self.shared / self.denominators[worker]).T
        rows = slice(known.worker_ptr[worker], known.worker_ptr[worker + 1])
        matrix[:, known.row_label[rows]] = np.exp(self.table[rows]).T
        out: Floats = matrix
        return out

    def label_shares(self) -> Floats:
        """Return what the stopping rule of a fit that continues from here follows, [K]."""
        shares = _shares(self.knowledge) if self.scoring == "coin" else None  # the priors may be fixed
        return self.priors if shares is None else shares


class Transferred(NamedTuple):
    """Parameters for other votes."""

    params: Parameters
    worker: NDArray[np.int64]  # [workers] the code of each worker in what was learned; -1 for an unknown one


def transfer(learned: Learned, panel: Panel) -> Transferred:
    """Returns the parameters for the votes of a panel over the same labels; unknown workers are like the population."""
    known, k = learned.knowledge, panel.n_labels
    worker = matched(panel.workers, known.workers)
    skill = None if learned.skill is None else _skills(learned, worker)
    uses_prior = True
    if learned.scoring == "weight" and skill is not None:
        table, uses_prior = np.zeros((panel.n_rows, k)), False
        table[np.arange(panel.n_rows), panel.row_label] = np.repeat(skill, np.diff(panel.worker_ptr))
    elif learned.scoring == "coin" and skill is not None:
        table = coin_table(panel, skill, 1.0 - skill, other_labels(possible_labels(known, learned.priors)))
    else:
        table = _confusions(learned, panel, worker)
    totals = np.zeros((panel.n_workers, k))
    return Transferred(Parameters(learned.priors, table, totals, uses_prior=uses_prior), worker)


def _shares(known: Knowledge) -> Floats | None:
    """Returns the shares of the labels among the tasks, [K]; None where no task is known."""
    total = sum_of(known.class_counts)
    return known.class_counts / total if total > 0 else None


def loosened(learned: Learned, lent: float = LENT) -> Learned:
    """Returns what was learned with a little of the mean worker lent to every worker.

    A cell that no vote has filled yet is 0, and would forbid for good what new votes may tell: expectation-maximisation
    never leaves a 0. A new fit that goes on from here gets that freedom, and no more.
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


def possible_labels(panel: Panel, expected: Floats | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Returns which labels there are, [K]: those that somebody gave, and those of which tasks are expected, [K]."""
    out: NDArray[np.bool_] = expected > 0
    out[panel.row_label] = True
    return out


def other_labels(possible: NDArray[np.bool_]) -> int:
    """Returns how many labels an error can fall on: those that there are, but one."""
    return max(int(possible.sum()) - 1, 1)


def coin_table(panel: Panel, right: Floats, wrong: Floats, others: int) -> Floats:
    """Returns log pi, [rows, K], where a worker is right with one probability, [workers], and errors fall on other labels alike.

    The probability to be wrong, [workers], is given beside it: near 1 a difference would lose its digits.
    """
    length = np.diff(panel.worker_ptr)
    with np.errstate(divide="ignore"):
        own, other = (whole(np.log(p), LOG_UNIT) for p in (right, wrong / others))
    table = np.repeat(np.repeat(other, length)[:, None], panel.n_labels, axis=1)
    table[np.arange(panel.n_rows), panel.row_label] = np.repeat(own, length)
    return table


def _confusions(learned: Learned, panel: Panel, worker: NDArray[np.int64]) -> Floats:
    known = learned.knowledge
    who = np.repeat(worker, np.diff(panel.worker_ptr))
    place = np.where(who >= 0, known.row_of(np.maximum(who, 0), panel.row_label), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.log(known.mean_worker())[panel.row_label]  # unknown workers
        absent = np.log(learned.shared[panel.row_label]) - np.log(_rows(learned.denominators, who))
    absent[np.isnan(absent)] = -np.inf  # 0 / 0
    table = np.where((who >= 0)[:, None], absent, table)
    table[place >= 0] = learned.table[place[place >= 0]]
    return np.ascontiguousarray(whole(table, LOG_UNIT))


def _skills(learned: Learned, worker: NDArray[np.int64]) -> Floats:
    """Returns the weight or accuracy of each worker of other votes, [workers]; an unknown one has that of the mean vote."""
    assert learned.skill is not None
    votes = learned.knowledge.by_worker(learned.knowledge.counts).sum(axis=1) if len(learned.skill) else np.zeros(0)
    total = float(votes.sum())
    mean = float((learned.skill * votes).sum() / total) if total else 1.0
    return np.where(worker >= 0, _rows(learned.skill, worker), mean)


def _rows(array: Floats, place: NDArray[np.int64]) -> Floats:
    """Returns the lines at these places, whatever for -1."""
    return array[np.maximum(place, 0)] if len(array) else np.ones((len(place), *array.shape[1:]))
