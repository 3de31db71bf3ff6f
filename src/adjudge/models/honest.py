"""Honest confidence: how likely labels are right, whichever model chose them.

The posterior of expectation-maximisation is not calibrated: each task contributes to the counts that judge it, and workers who
err together look like workers who are right. The rule here scores each task without its own part, lends every worker five
votes of the mean worker, lets no vote speak against what it says, and divides the scores by a temperature that follows from
the errors that workers share. A fifth comes from the shares of the votes. If votes agree with each other no more than
chance, nothing is left but that. Everything is a sum over votes or tasks: docs/confidence.md has the measurements.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER, WIDE_TABLE, Fit, Pieces, effective_votes, given_votes, lay_out, own_rates
from adjudge.data.memory import free_memory, gib
from adjudge.data.votes import Votes, WorkerRows
from adjudge.data.wide import Cells, WidePart, WideTable
from adjudge.engines.base import Session, WorkerBlock
from adjudge.engines.passes import Answers, BelowChance, Chance, Confidence, PairSums, Probabilities, RowFunction
from adjudge.kernels import cpu
from adjudge.kernels.reference import HonestRule

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]
MAX_PSEUDO_ACCURACY: Final = 0.95  # so that a newcomer to a crowd that agrees on everything is not certain to be right
PRIOR_WEIGHT: Final = 0.8  # of the logarithm of class priors in scores
MIN_WORKERS_FOR_SPREAD: Final = 3  # with two votes or more, below which the spread of skill is not measured
DEFAULT_SPREAD: Final = 1 / 11  # taken then
MIN_SPREAD, MAX_SPREAD = 1 / 201, 1 / 2
TINY: Final = 1e-9
CHUNK_CELLS: Final = 1 << 20  # rows x labels of a table that is made, at once
SHARED_DOUBT: Final = 0.35  # of the doubt about a worker's tasks that may be an error of all


@dataclass(frozen=True)
class Dependence:
    """Whether workers err together or differ in skill, measured against majority vote."""

    shared_error: float  # rho: correlation of errors within a task beyond what the workers' own rates explain
    votes_per_task: float  # on the task of a vote, on average over votes
    skill_spread: float  # intraclass correlation of right votes within workers
    agreement: float = 1.0  # share of the votes that equal the winner of their task

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Dependence:
        """Return what was measured, from the facts of a fit."""
        return cls(*(float(facts[name]) for name in DEPENDENCE))

    @property
    def inflation(self) -> float:
        """By how much shared error makes the votes of a task count less: phi."""
        return 1.0 + (self.votes_per_task - 1.0) * self.shared_error

    @property
    def effective_votes(self) -> float:
        """How many independent votes those on a task amount to."""
        return float(effective_votes(self.votes_per_task, self.shared_error))

    @property
    def trust_in_skill(self) -> float:
        """How far agreement with the majority tells skill, from 0 to 1."""
        return 1.0 / (1.0 + self.shared_error / self.skill_spread)


DEPENDENCE: Final = ("shared_error", "votes_per_task", "skill_spread")  # facts that a dependence is made of
UNMEASURED_DEPENDENCE: Final = Dependence(0.0, 1.0, DEFAULT_SPREAD)  # without votes to measure it from


@dataclass(frozen=True)
class AccuracyLaw:
    """How the accuracy of a worker follows from its votes and from the crowd: the one rule of batch fits and streams.

    The accuracy is the mean honest probability of the worker's answers. A worker with fewer than five votes is lent the
    others by the mean worker, so that one vote says little, and an interval of few votes is wide.
    """

    inflation: float  # by how much shared error makes votes count less
    mean_worker: float  # the accuracy of the mean worker

    def __call__(self, mean: Floats, doubt: Floats, votes: NDArray[np.number[Any]]) -> tuple[Floats, Floats]:
        """Return the mean of accuracies, and the strength of the beta law around each, [workers] each.

        `mean` is the probability of a worker's answers, `doubt` that of the labels of its tasks being wrong, [workers] each, in
        the mean over so many `votes`, [workers].
        """
        counted = np.maximum(votes, PSEUDO_VOTES_PER_WORKER)
        lent = (counted - votes) * min(self.mean_worker, MAX_PSEUDO_ACCURACY)
        mean = np.clip((votes * mean + lent) / counted, 0.01, 0.99)
        variance = mean * (1.0 - mean) / counted + (SHARED_DOUBT * doubt) ** 2 * self.inflation
        return mean, np.maximum(mean * (1.0 - mean) / variance - 1.0, 0.5)


@dataclass(frozen=True, eq=False)
class Honest:
    """Honest probabilities of the labels of a fit: the rule, and the mean worker that it lends."""

    rule: HonestRule
    population: Floats  # [K given, K true] probabilities
    dependence: Dependence

    @property
    def accuracy_law(self) -> AccuracyLaw:
        """How the accuracies of workers follow from their votes."""
        return AccuracyLaw(self.dependence.inflation, mean_accuracy(self.rule.log_prior, np.diagonal(self.population)))

    def lines(self, block: WorkerBlock, counts: Any) -> tuple[Any, Any]:
        """Return log-probabilities of votes by true label, with and without one of them, [rows, K] each.

        A weighted vote says as much more or less, and as many votes are left out with it as it weighs. Lines are in parts where
        only cells with votes are stored.
        """
        panel, exists, weights = block.panel, self.rule.uniform > 0, block.weights
        lent = np.where(exists, PSEUDO_VOTES_PER_WORKER * self.population, 0.0)
        if isinstance(counts, Cells) and block.history is None:
            table = wide_lines(panel, counts, panel.by_worker(counts), lent, counted=True)
            return table, table.without()
        counts = np.asarray(counts)
        if block.threads and weights is None and block.history is None:
            here = np.ascontiguousarray(counts), panel.worker_ptr, panel.row_label
            return cpu.honest_lines(*here, lent, exists, PSEUDO_VOTES_PER_WORKER, block.threads)
        past, row_ptr = lay_out(panel, None, block.history), panel.worker_ptr if weights is None else weights.worker_ptr
        lines = np.empty((row_ptr[-1], panel.n_labels))
        without = np.zeros(lines.shape)  # needed only if there is a vote to leave out
        less: Any = np.float64(1.0)
        with np.errstate(divide="ignore"):
            log_lent = np.log(lent)
        for workers, rows in _worker_chunks(row_ptr, panel.n_labels):  # tables of many labels are large: no other is as long
            pairs = slice(int(panel.worker_ptr[workers.start]), int(panel.worker_ptr[workers.stop]))
            start, length = panel.worker_ptr[:-1][workers] - pairs.start, np.diff(panel.worker_ptr)[workers]
            votes, label, of_worker = counts[pairs], panel.row_label[pairs], np.repeat(np.arange(len(length)), length)
            met = np.add.reduceat(votes, start, axis=0, dtype=np.float64)
            if past is not None:
                votes, met = votes + past.cells[pairs], met + past.totals[workers]
            if weights is not None:
                pair = weights.pair[rows] - pairs.start
                votes, label, of_worker = votes[pair], label[pair], of_worker[pair]
            total = np.log(met + PSEUDO_VOTES_PER_WORKER)
            np.subtract(log_lent[label], total[of_worker], out=lines[rows])
            row, c = np.nonzero(votes)  # most cells of many labels have no votes, and need no logarithm
            row, c = row[exists[c]], c[exists[c]]
            voted, worker, mean = votes[row, c].astype(np.float64), of_worker[row], lent[label[row], c]
            less = less if weights is None else weights.weight[rows.start + row]
            lines[rows.start + row, c] = np.log(voted + mean) - total[worker, c]
            fewer = np.log(np.maximum(met[worker, c] - less, 0.0) + PSEUDO_VOTES_PER_WORKER)
            without[rows.start + row, c] = np.log(np.maximum(voted - less, 0.0) + mean) - fewer
            if weights is not None:
                lines[rows] *= weights.weight[rows, None]
                without[rows] *= weights.weight[rows, None]
        return lines, without


def wide_lines(panel: WorkerRows, counts: Cells, met: Floats, lent: Floats, *, counted: bool) -> WideTable:
    """Return the lines of votes in parts; those of votes that were `counted` also without one of them.

    `counts` are the votes of the rows, `met` those of each worker by true label, [workers, K], and `lent` those that every
    worker is lent, [K given, K true].
    """
    row, c = counts.row, counts.label
    worker, mean = panel.row_worker()[row], lent[panel.row_label[row], c]
    by_worker = -np.log(met + PSEUDO_VOTES_PER_WORKER)
    own, without = np.log(counts.count + mean) + by_worker[worker, c], None
    with np.errstate(divide="ignore"):
        by_given = np.log(lent)
    if counted:
        fewer = np.log(np.maximum(met[worker, c] - 1.0, 0.0) + PSEUDO_VOTES_PER_WORKER)
        without = np.log(np.maximum(counts.count - 1.0, 0.0) + mean) - fewer
    return WideTable(panel, (WidePart(by_worker, by_given, replace(counts, count=own), without=without),))


def _worker_chunks(worker_ptr: NDArray[np.int64], n_labels: int) -> Iterator[tuple[slice, slice]]:
    """Yield some workers and their rows, of about `CHUNK_CELLS` cells of the table; a worker is never split.

    `worker_ptr` says where each worker's rows begin, [workers + 1].
    """
    step, start = max(CHUNK_CELLS // max(n_labels, 1), 1), 0
    while start < len(worker_ptr) - 1:
        end = int(np.searchsorted(worker_ptr, worker_ptr[start] + step, side="right")) - 1
        end = max(end, start + 1)
        yield slice(start, end), slice(int(worker_ptr[start]), int(worker_ptr[end]))
        start = end


@dataclass(frozen=True, eq=False)
class HonestProbabilities:
    """The honest probabilities of the labels of a fit, computed on demand."""

    honest: Honest
    session: Session
    labels: NDArray[np.int32]  # [tasks]
    lines: RowFunction | None = None  # of votes that were never counted

    def __call__(self) -> Pieces:
        """Return the probabilities of all labels, [tasks, K]."""
        self._count()
        return self.session.run(Probabilities(self.honest.rule), self._line_function)

    def vote_lines(self) -> tuple[Any, Any]:
        """Return what votes of each row say of every label, with and without one of them in the counts, [rows, K] each."""
        self._count()
        return self.session.gather(self._line_function)

    @property
    def _line_function(self) -> Callable[[WorkerBlock, Any], tuple[Any, Any]]:
        return self.lines or self.honest.lines

    def _count(self) -> None:
        """Make the labels the current ones, as they may not be after unpickling; sessions elsewhere keep theirs."""
        if not hasattr(self.session, "honest_outcome"):
            self.session.recount(self.labels)

    def worker_accuracy(self, panel: WorkerRows, votes: NDArray[np.int64], per_set: int = 1) -> tuple[Floats, Floats]:
        """Return the mean of every worker's accuracy, and the strength of the beta law around it, [workers] each.

        The mean is the honest probability of the worker's own answers. The law is as wide as a binomial one, and as the doubt
        about labels that workers share. `votes` says how many each has, [workers], of which `per_set` count as one. Weighted
        votes count by their weight in the means; the width is that of (sum of weights)^2 / (sum of their squares) votes,
        regardless of the scale of the weights.
        """
        sums, weight, law = self.answer_sums(), panel.row_weight, self.honest.accuracy_law
        if weight is None:
            return worker_law(panel, sums / per_set, votes / per_set, law)
        by_row = self.session.votes.votes_per_row()
        counted = panel.by_worker(by_row * weight)
        effective = counted**2 / panel.by_worker(by_row * weight**2)
        return worker_law(panel, sums * weight, counted, law, effective)

    def answer_sums(self) -> Floats:
        """Return by row the probabilities of the votes' answers, and of their tasks' labels being wrong, [2, rows]."""
        self._count()
        return self.session.run(Answers(self.honest.rule), self._line_function)

    def below_chance(self, panel: WorkerRows) -> Floats:
        """Return how far each worker's answers follow what the others say, in standard errors, [workers].

        This is z of the mean probability of the answers, each without the vote itself, less what answers drawn from the
        worker's own mix of labels would have. Below 0 answers avoid what the others say. 0 for fewer than two votes on tasks
        with other votes, or with gold. If votes have weights, the others' count; the worker's answers count once each.
        """
        self._count()
        votes, (got, mean, square) = self.session.run(BelowChance(self.honest.rule), self._line_function)
        n = panel.by_worker(votes).astype(np.float64)
        length, safe = np.diff(panel.worker_ptr), np.maximum(n, 1.0)
        by_row = np.repeat(safe, length)
        said, mean, square = votes / by_row, mean / by_row, square / by_row
        variance = panel.by_worker(said * np.maximum(square - mean**2, 0.0)) / np.maximum(n - 1.0, 1.0)
        beyond = panel.by_worker(got) / safe - panel.by_worker(said * mean)
        out: Floats = np.where(n > 1, beyond / np.sqrt(np.maximum(variance, 1e-12)), 0.0)
        return out

    def chance(self, wanted: NDArray[np.int32]) -> Floats:
        """Return the honest probability of a wanted label of every task, before the last step, [tasks]; `wanted` is [tasks]."""
        self._count()
        return self.session.run(Chance(self.honest.rule, wanted), self._line_function)

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Which labels there are, [K]."""
        return self.honest.rule.uniform > 0


def worker_law(
    panel: WorkerRows, sums: Floats, votes: NDArray[np.number[Any]], law: AccuracyLaw, effective: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the mean of every worker's accuracy, and the strength of the beta law around it, [workers] each.

    `sums` has by row the probabilities of the votes' answers, and of their tasks' labels being wrong, [2, rows]. `votes` is the
    number of votes of each worker, [workers], and `effective` the number that sets the width, if it differs.
    """
    answers, doubts = (panel.by_worker(one) for one in sums)
    return law(answers / votes, doubts / votes, votes if effective is None else effective)


def mean_accuracy(log_prior: Floats, right: Floats) -> float:
    """Return the accuracy of the mean worker: its chance of a right answer by true label, [K], weighed by their shares.

    `log_prior` is that of an `HonestRule`, [K].
    """
    share = np.exp(log_prior / PRIOR_WEIGHT)
    total = share.sum()
    return float((share * right).sum() / total) if total else 0.5  # nobody has voted


def accuracy_columns(mean: Floats, strength: Floats) -> dict[str, Floats]:
    """Return the accuracy of every worker and its 90% interval, which holds it, by name, [workers] each."""
    from adjudge.results.workers import beta_interval  # loaded only for workers

    low, high = beta_interval(mean, strength)
    return {"accuracy": mean, "accuracy_low": np.minimum(low, mean), "accuracy_high": np.maximum(high, mean)}


def measure(session: Session) -> tuple[Dependence, NDArray[np.bool_]]:
    """Return whether workers err together, and which labels tasks have, [K], gold ones too.

    Both are by majority vote; the errors are from one pass over pairs of votes that leaves gold tasks out.
    """
    present = np.asarray(session.start(hard=True).class_counts) > 0
    once = AgreementOnce()
    hits, votes = session.gather(partial(_hits, once), gold=False)
    if not votes:
        return UNMEASURED_DEPENDENCE, present
    mean = hits / votes
    together, apart, _, pairs = session.run(PairSums(), partial(_errors, once, mean))
    moments = session.gather(partial(_spread_of_hits, once, mean), gold=False)
    return Dependence(_shared_error(together, apart), float(1.0 + pairs / votes), spread(moments), float(mean)), present


def honest_fit(fit: Fit, session: Session, dependence: Dependence, exists: NDArray[np.bool_]) -> Fit:
    """Return a fit whose confidence is honest; `exists` says which labels there are, [K]."""
    shown = judge_labels(session, fit.outcome.labels, dependence, exists)
    found = shown.honest
    facts = {**facts_of(dependence), **fit.facts, "holds": found.rule.holds}
    elsewhere = getattr(session, "honest_outcome", None)  # of sessions whose tasks are not in this process
    if elsewhere is not None:
        return replace(fit, outcome=elsewhere(fit.outcome, found.lines, found.rule), honest=shown, facts=facts)
    confidence, tie = session.run(Confidence(found.rule, fit.outcome.tie), found.lines)
    outcome = replace(fit.outcome, confidence=confidence, tie=tie)
    return replace(fit, outcome=outcome, shown=shown, honest=shown, facts=facts)


def judge_labels(
    session: Session, labels: NDArray[np.int32], dependence: Dependence, exists: NDArray[np.bool_]
) -> HonestProbabilities:
    """Return the honest probabilities of labels, [tasks], of the votes of a session; `exists` says which there are, [K]."""
    sums = session.recount(labels)
    found = _judge(session, dependence, exists, np.asarray(sums.class_counts, np.float64))
    return HonestProbabilities(found, session, labels)


def has_room(votes: Votes) -> bool:
    """Return whether memory suffices for the honest probabilities of labels; log a warning if not."""
    need, have = 3 * 8 * votes.n_rows * votes.n_labels, free_memory()  # lines with and without a vote, and counts
    if need > have:
        size = gib(need), votes.n_rows, votes.n_labels, gib(have)
        log.warning("no adversaries and copies: they need about %s (%d rows x %d labels), but %s are free", *size)
    return need <= have


def measure_and_judge(session: Session, labels: NDArray[np.int32], named: NDArray[np.bool_]) -> HonestProbabilities:
    """Return the same of a fit without honest confidence; `named`, [K], are the existing labels, besides those of gold."""
    dependence, present = measure(session)
    return judge_labels(session, labels, dependence, named | present)


class StreamSums(NamedTuple):
    """Sums over the tasks of a stream and ordered pairs of different votes on one."""

    together: float  # of what both votes err beyond their workers' own rates
    apart: float  # of the standard deviations of that
    skills: float  # of how far both workers agree with the labels beyond chance
    alike: float  # of pairs that give the same label
    pairs: float  # of all pairs


def stream_error(sums: StreamSums, given: Floats) -> tuple[float, float]:
    """Return rho and `holds` of a stream: from its sums, and its votes by given and true label, [K given, K true]."""
    if not given.sum():
        return UNMEASURED_DEPENDENCE.shared_error, 1.0
    return _shared_error(sums.together, sums.apart), _holds(_chance(given), sums.skills, sums.alike, sums.pairs)


def stream_rule(
    given: Floats, tasks: Floats, shared_error: float, holds: float, *, every_label: bool = False
) -> tuple[HonestRule, Floats]:
    """Return the rule of a stream, and the votes of the mean worker that it lends, [K given, K true].

    `given` has its votes by given and true label, [K given, K true], `tasks` its tasks by label, [K]; with `every_label` all
    labels exist, not only those that were given.
    """
    exists = (given.sum(axis=1) > 0) | (tasks > 0) | every_label
    rule, mean_worker = rule_of(given.T, tasks, exists, shared_error, holds)
    return rule, PSEUDO_VOTES_PER_WORKER * mean_worker


class CrowdSums(NamedTuple):
    """What a stream knows of its votes in memory: sums over all of them, or over a sample of their tasks."""

    votes: NDArray[np.int64]  # [K given, K label] votes of the sample, by their own label and that of their task
    right: Floats  # the same: probabilities of their answers, summed
    doubt: Floats  # the same: probabilities that the labels of their tasks are wrong
    cast: int  # votes on tasks without gold
    pairs: int  # ordered pairs of different ones on one task
    shared_error: float
    log_prior: Floats  # [K] of the rule; empty where confidence is not honest
    mean_worker: Floats  # [K] the mean worker's chance of a right answer, by true label

    @property
    def law(self) -> AccuracyLaw:
        """How the accuracies of workers follow from their votes."""
        inflation = Dependence(self.shared_error, 1.0 + self.pairs / max(self.cast, 1), DEFAULT_SPREAD).inflation
        if len(self.log_prior):
            return AccuracyLaw(inflation, mean_accuracy(self.log_prior, self.mean_worker))
        return AccuracyLaw(inflation, float((self.right.sum() + 0.5) / (self.votes.sum() + 1.0)))

    def by_answer(self) -> tuple[Floats, Floats]:
        """Return how likely an answer is right and a label wrong, by given label and label of the task, [K, K] each.

        Cells with few votes are filled up with the mean of those that agree with the label, or of those that do not.
        """
        accuracy, own = self.law.mean_worker, np.arange(len(self.votes))
        votes, agreeing = float(self.votes.sum()), np.diagonal(self.votes)
        usual = accuracy, (1.0 - accuracy) / max(len(own) - 1, 1)  # without votes: of answers that agree, and of others
        tables = []
        for sums, (same, other) in ((self.right, usual), (self.doubt, (1.0 - accuracy, 1.0 - accuracy))):
            agreed = np.diagonal(sums)
            pooled = (sums.sum() - agreed.sum() + other) / (votes - agreeing.sum() + 1.0)
            table = (sums + PSEUDO_VOTES_PER_WORKER * pooled) / (self.votes + PSEUDO_VOTES_PER_WORKER)
            pooled = (agreed.sum() + same) / (agreeing.sum() + 1.0)
            table[own, own] = (agreed + PSEUDO_VOTES_PER_WORKER * pooled) / (agreeing + PSEUDO_VOTES_PER_WORKER)
            tables.append(table)
        right, doubt = tables
        return right, doubt


def facts_of(found: Dependence) -> dict[str, object]:
    """Return what was measured, by name."""
    return {
        "shared_error": found.shared_error,
        "skill_spread": found.skill_spread,
        "effective_votes": found.effective_votes,
        "votes_per_task": found.votes_per_task,
        "trust_in_skill": found.trust_in_skill,
    }


def _judge(session: Session, dependence: Dependence, exists: NDArray[np.bool_], tasks: Floats) -> Honest:
    """Return the rule for the labels that were counted last; `tasks` says how many tasks have each, [K]."""
    once = AgreementOnce()
    votes = session.gather(partial(_given, once), gold=False)
    every, holds = float(votes.sum()), 1.0
    if every:
        chance = _chance(votes)
        agree = float(np.trace(votes)) / every
        holds = _holds(chance, *session.run(PairSums(), partial(_skills, once, agree, chance)))
    pooled = session.gather(votes_of_all) if session.gold_given else votes
    rule, mean_worker = rule_of(pooled.T, tasks, exists, dependence.shared_error, holds)
    return Honest(rule, mean_worker, dependence)


def _shared_error(together: float, apart: float) -> float:
    """Return rho, the correlation of errors within a task."""
    return float(max(0.0, together / max(apart, TINY)))


def _chance(given: Floats) -> float:
    """Return how often two votes agree by chance alone, from votes by given and true label, [K given, K true]."""
    return min(float(((given.sum(axis=1) / float(given.sum())) ** 2).sum()), 0.999)


def _holds(chance: float, skills: float, alike: float, pairs: float) -> float:
    """Return how far votes agree with each other as the labels say they should, from 0 to 1."""
    observed = (alike - chance * pairs) / (1.0 - chance)
    return float(np.clip((observed + 0.15) / (skills + 1.0), 0.0, 1.0))


def rule_of(
    pooled: Floats,  # [K true, K given] votes
    tasks: Floats,  # [K]
    exists: NDArray[np.bool_],  # [K]
    shared_error: float,
    holds: float,
) -> tuple[HonestRule, Floats]:
    """Return the rule for these counts of votes and tasks, and the mean worker, [K given, K true]."""
    k, n_labels = len(exists), max(int(exists.sum()), 1)
    accuracy = (np.trace(pooled) + 1.0 / n_labels) / (pooled.sum() + 1.0)
    accuracy = np.clip(accuracy, 1.0 / n_labels + 0.02, 0.995)
    if exists.all():
        mean_worker = population(pooled, accuracy, floor=1e-3)
    else:
        mean_worker, inner = np.zeros((k, k)), np.ix_(exists, exists)
        mean_worker[inner] = population(pooled[inner], accuracy, floor=1e-3)
    with np.errstate(divide="ignore"):
        log_prior = np.where(exists, PRIOR_WEIGHT * np.log((tasks + 1.0) / (tasks.sum() + n_labels)), -np.inf)
    return HonestRule(log_prior, exists / n_labels, shared_error, holds), np.ascontiguousarray(mean_worker.T)


def population(pooled: Floats, accuracy: float, floor: float = 1e-6) -> Floats:
    """Return the confusion of the mean worker, [K true, K given], 80% symmetrised: errors go where errors go.

    `pooled` has the votes of all workers by true and given label, [K true, K given].
    """
    k = len(pooled)
    own = np.arange(k)
    errors = pooled.astype(np.float64)
    errors[own, own] = 0.0
    off = np.tile(errors.sum(axis=0) + TINY, (k, 1))
    off[own, own] = 0.0
    off += floor * (off.sum() + 1.0) / max(k, 1)
    off[own, own] = 0.0
    total = off.sum(axis=1, keepdims=True)
    off /= np.where(total > 0, total, 1.0)
    symmetric = (1.0 - accuracy) * off
    symmetric[own, own] = accuracy
    mixed = pooled + symmetric
    mixed = np.clip(0.2 * mixed / mixed.sum(axis=1, keepdims=True) + 0.8 * symmetric, 1e-4, None)
    out: Floats = mixed / mixed.sum(axis=1, keepdims=True)
    return out


def spread_moments(right: Floats, votes: Floats, mean: Floats) -> Floats:
    """Return what `spread` needs of some workers, [3]: from right votes, votes and expected accuracy, [workers] each."""
    several = votes >= 2
    right, votes, mean = right[several], votes[several], mean[several]
    variance = np.maximum(mean * (1.0 - mean), TINY)
    between = (votes * (right / votes - mean) ** 2 - variance).sum()
    return np.array([several.sum(), between, (variance * (votes - 1.0)).sum()])


def spread(moments: Floats) -> float:
    """Return how much workers differ in skill: the intraclass correlation of right votes within workers, by moments."""
    workers, between, within = moments
    if workers < MIN_WORKERS_FOR_SPREAD:
        return DEFAULT_SPREAD
    return float(np.clip(between / max(within, TINY), MIN_SPREAD, MAX_SPREAD))


def votes_of_all(block: WorkerBlock, counts: Any) -> Floats:
    """Return the votes of all workers together, [K given, K true], from their votes by row, [rows, K]."""
    return WorkerAgreement.of(block, counts).given if pools_votes(block, counts) else given_votes(block.panel, counts)


def pools_votes(block: WorkerBlock, counts: Any) -> bool:
    """Return whether the compiled sums over workers add up the votes of all of them along the way."""
    return not isinstance(counts, Cells) and block.threads > 0 and block.panel.n_labels < WIDE_TABLE


class WorkerAgreement(NamedTuple):
    """How far the workers of a block agree with the labels of tasks."""

    right: Floats  # [workers] right votes
    votes: Floats  # [workers] all votes
    given: Floats  # [K given, K true] votes of all workers together; empty unless `pools_votes`

    @classmethod
    def of(cls, block: WorkerBlock, counts: Any) -> WorkerAgreement:
        """Return what the votes by row, [rows, K], show."""
        panel, nothing = block.panel, np.empty((0, 0))
        if isinstance(counts, Cells):
            own = counts[np.arange(panel.n_rows), panel.row_label]
            return cls(panel.by_worker(own), panel.by_worker(counts.sum(axis=1)), nothing)
        if block.threads:
            rows, given = (counts, panel.worker_ptr, panel.row_label), pools_votes(block, counts)
            return cls(*cpu.worker_sums(*rows, met=False, said=False, given=given, threads=block.threads)[2:])
        both = np.stack([counts[np.arange(panel.n_rows), panel.row_label], counts.sum(axis=1)], axis=1)
        right, votes = panel.by_worker(both.astype(np.float64)).T
        return cls(right, votes, nothing)


class AgreementOnce:
    """What the first look at some counts shows, kept for those that follow while the counts stay as they are."""

    def __init__(self) -> None:
        self._last: tuple[Any, WorkerAgreement] | None = None

    def look(self, block: WorkerBlock, counts: Any) -> WorkerAgreement:
        """Return how far the workers of a block agree with the labels."""
        if self._last is None or self._last[0] is not counts:
            self._last = counts, WorkerAgreement.of(block, counts)
        return self._last[1]


def _hits(once: AgreementOnce, block: WorkerBlock, counts: Any) -> Floats:
    return np.array([part.sum() for part in once.look(block, counts)[:2]])


def _given(once: AgreementOnce, block: WorkerBlock, counts: Any) -> Floats:
    return once.look(block, counts).given if pools_votes(block, counts) else given_votes(block.panel, counts)


def _spread_of_hits(once: AgreementOnce, mean: float, block: WorkerBlock, counts: Any) -> Floats:
    seen = once.look(block, counts)
    return spread_moments(seen.right, seen.votes, np.full(len(seen.votes), mean))


def _errors(once: AgreementOnce, mean: float, block: WorkerBlock, counts: Any) -> Floats:
    """Return what a vote errs beyond its worker's own rate, and the standard deviation of that, [2, 2, workers]."""
    seen = once.look(block, counts)
    rate = own_rates(seen.right, seen.votes, mean)
    deviation = np.sqrt(rate * (1.0 - rate))
    return np.array([[-rate, 1.0 - rate], [deviation, deviation]])


def _skills(once: AgreementOnce, agree: float, chance: float, block: WorkerBlock, counts: Any) -> Floats:
    """Return the skill of each vote's worker: agreement with the labels beyond chance, [1, 2, workers]."""
    seen = once.look(block, counts)
    skill = np.clip(((seen.right + 2.0 * agree) / (seen.votes + 2.0) - chance) / (1.0 - chance), 0.0, 1.0)
    return np.array([[skill, skill]])
