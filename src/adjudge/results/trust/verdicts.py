"""A word for every worker, and the figures behind it: credible intervals, information, evidence, proofs of copying.

Workers who know agree with each other where the others are wrong, "beyond what the truth explains". So rings that
`find_copies` finds may be copies or experts. Independent workers who agree in a share A of their pairs of votes must be right
with a probability a that follows from A. The votes of everybody else say how often the ring is right. Only if these votes say
clearly less than a, the answers are copied. docs/decisions/027-verdicts.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.results.trust import candidates
from adjudge.results.trust.candidates import MIN_CANDIDATE_LABELS, CellBelief
from adjudge.results.trust.copies import NO_RING, Copies, find_copies, search_memory
from adjudge.results.trust.posterior import (
    CHUNK_WORKERS,
    EQUAL_ACCURACY_VOTES,
    MEAN_WORKER_VOTES,
    Ballots,
    Belief,
    Flags,
    Floats,
    Integers,
    Kinds,
    Singles,
    mutual_information,
)

MIN_AGREEING: Final = 0.975  # share of agreeing pairs of votes in a ring from which its answers may be called copied
AGREEING_RISK: Final = 0.01  # probability that the share is less, where some pairs differ: experts may agree by luck
MIN_LOG_RATIO: Final = 1.0  # log-likelihood by which the others' votes must prefer a lower accuracy
EXACT_PAIRS: Final = 100  # pairs of votes, none of which differs, from which less is asked:
MIN_LOG_RATIO_EXACT: Final = 1 / 3  # independent workers hardly ever agree like that
MAX_REFITS: Final = 64  # fits without some rings: where there are more rings, several are left out together
QUANTILE_POINTS: Final = 4001
MAX_HALVINGS: Final = 60

# How likely labels of tasks are right without the votes of some workers. From who is left out, [workers], follows a function
# from labels, [tasks], to probabilities, [tasks], which are NaN where no other vote is left.
JudgeWithout = Callable[[Flags], Callable[[Integers], Floats]]


class RingProof(NamedTuple):
    """What the pairs of a ring say, and what everybody else says of its answers."""

    members: Integers  # [members]
    agreeing: int  # pairs of votes that give the same label
    pairs: int
    needed: float  # accuracy that would explain the agreement of independent workers
    found: float  # accuracy that the others' votes make likeliest; NaN where they were not asked
    log_ratio: float  # log-likelihood of `found` less that of `needed`; 0 where `found` is not below it

    @property
    def is_copied(self) -> bool:
        """Whether the answers are copied, and not those of a minority that is right."""
        exact = self.pairs == self.agreeing >= EXACT_PAIRS
        needed = MIN_LOG_RATIO_EXACT if exact else MIN_LOG_RATIO
        return self.log_ratio > needed and answer_alike(self.agreeing, self.pairs)


def prove_rings(found: Copies, judge_without: JudgeWithout, labels: int, per_set: int = 1) -> list[RingProof]:
    """Return the proof of each ring, in the order of their smallest members; `labels` is the number of labels there are.

    Where votes are answers to the options of a set, `per_set` of them count as one: they may be right or wrong together.
    """
    rings = np.unique(found.ring[found.ring >= 0])
    if not len(rings) or labels < 2:
        return [RingProof(np.flatnonzero(found.ring == ring), 0, 0, np.nan, np.nan, 0.0) for ring in rings]
    answers = [_in_sets(one, per_set) for one in _answers(found, rings)]
    needed = [accuracy_of_agreement(one.agreeing, one.pairs, labels) for one in answers]
    asked = [n for n, one in enumerate(answers) if answer_alike(one.agreeing, one.pairs)]
    best = dict.fromkeys(range(len(rings)), (np.nan, 0.0))
    for batch in (asked[start::MAX_REFITS] for start in range(min(MAX_REFITS, len(asked)))):
        chance = judge_without(np.isin(found.ring, rings[batch]))
        for n in batch:
            wanted = np.zeros(len(found.compared), np.int64)
            wanted[answers[n].task] = answers[n].label
            p = chance(wanted)[answers[n].task]
            accuracy, ratio = likeliest_accuracy(p[~np.isnan(p)], needed[n], labels)
            best[n] = accuracy, ratio / per_set
    return [
        RingProof(np.flatnonzero(found.ring == ring), one.agreeing, one.pairs, needed[n], *best[n])
        for n, (ring, one) in enumerate(zip(rings, answers, strict=True))
    ]


class RingAnswers(NamedTuple):
    """The answers of a ring: one per task, by the plurality of its members. Tasks on which they are tied are left out."""

    task: Integers  # [tasks of the ring] codes among all tasks
    label: Integers
    agreeing: int  # pairs of votes
    pairs: int


def _in_sets(answers: RingAnswers, per_set: int) -> RingAnswers:
    """Return the answers of a ring with so many pairs counted as one; of those that differ none is lost."""
    pairs, differing = (-(-number // per_set) for number in (answers.pairs, answers.pairs - answers.agreeing))
    return answers._replace(agreeing=pairs - differing, pairs=pairs)


def _answers(found: Copies, rings: Integers) -> list[RingAnswers]:
    """Return the answers of each ring."""
    ballots, k = found.ballots, found.ballots.panel.n_labels
    of_vote = found.ring[ballots.worker()]
    some = np.flatnonzero(of_vote >= 0)
    number, task = np.searchsorted(rings, of_vote[some]), ballots.task()[some]
    cell, votes = np.unique((number * ballots.n_tasks + task) * k + ballots.label()[some], return_counts=True)
    group, label = cell // k, cell % k
    order = np.lexsort([-votes, group])  # of each ring and task the label with the most votes first
    group, label, votes = group[order], label[order], votes[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    size = np.add.reduceat(votes, starts)
    agreeing = np.add.reduceat(votes * (votes - 1) // 2, starts)
    second = np.where(np.diff(starts, append=len(group)) > 1, votes[np.minimum(starts + 1, len(votes) - 1)], 0)
    is_clear = votes[starts] > second
    ring, where = group[starts] // ballots.n_tasks, np.flatnonzero(found.compared)[group[starts] % ballots.n_tasks]
    return [
        RingAnswers(
            where[mine & is_clear],
            label[starts][mine & is_clear],
            int(agreeing[mine].sum()),
            int((size * (size - 1) // 2)[mine].sum()),
        )
        for mine in (ring == n for n in range(len(rings)))
    ]


def shared_tasks(ballots: Ballots, partner: Integers) -> tuple[Integers, Integers]:
    """Return of each worker with a partner, [workers]: the tasks that both judged, and on how many their answers agree."""
    n, one = len(partner), np.flatnonzero(partner >= 0)
    shared, agreeing = np.zeros(n, np.int64), np.zeros(n, np.int64)
    worker, task, label = ballots.worker(), ballots.task(), ballots.label()
    involved = np.zeros(n, np.bool_)
    involved[one] = involved[partner[one]] = True
    some = np.flatnonzero(involved[worker])
    key = worker[some] * ballots.n_tasks + task[some]
    order = np.argsort(key, kind="stable")
    key, given = key[order], label[some][order]
    mine = partner[key // max(ballots.n_tasks, 1)] >= 0
    wanted = partner[key[mine] // ballots.n_tasks] * ballots.n_tasks + key[mine] % ballots.n_tasks
    at = np.minimum(np.searchsorted(key, wanted), max(len(key) - 1, 0))
    both = key[at] == wanted
    who = key[mine][both] // max(ballots.n_tasks, 1)
    np.add.at(shared, who, 1)
    np.add.at(agreeing, who, given[at][both] == given[mine][both])
    return shared, agreeing


def answer_alike(agreeing: int, pairs: int) -> bool:
    """Return whether a ring agrees more than independent workers do who are nearly always right.

    Either no pair of votes differs, or the share that agrees is at least 0.975 beyond doubt.

    >>> answer_alike(60, 60), answer_alike(295, 300), answer_alike(2950, 3000)
    (True, False, True)
    """
    return 0 < pairs == agreeing or (
        agreeing >= MIN_AGREEING * pairs > 0 and beta_quantile(agreeing, pairs - agreeing, AGREEING_RISK) >= MIN_AGREEING
    )


def accuracy_of_agreement(agreeing: int, pairs: int, labels: int) -> float:
    """Return the accuracy of independent workers who agree in so many of their pairs of votes.

    Two who are right with probability a, and else give any of the other labels alike, agree with probability
    a^2 + (1 - a)^2 / (K - 1). The share of agreeing pairs is taken for the median of what it may be.

    >>> round(accuracy_of_agreement(100, 100, 2), 4), round(accuracy_of_agreement(980, 1000, 4), 4)
    (0.9989, 0.9899)
    """
    share, e = beta_quantile(agreeing, pairs - agreeing, 0.5), 1.0 / (labels - 1)
    return float((e + np.sqrt(max(share * (1.0 + e) - e, 0.0))) / (1.0 + e))


def beta_quantile(right: int, wrong: int, level: float) -> float:
    """Return a quantile of the beta distribution with parameters right + 1/2 and wrong + 1/2.

    With x = sin^2 u its density is sin(u)^(2 right) cos(u)^(2 wrong), a smooth hill of width 1 / sqrt(2 n).

    >>> round(beta_quantile(5, 5, 0.5), 6), round(beta_quantile(0, 0, 0.25), 6)
    (0.5, 0.146447)
    """
    n = right + wrong
    peak = np.arctan2(np.sqrt(right), np.sqrt(wrong)) if n else np.pi / 4
    reach = 8.0 / np.sqrt(2.0 * n) if n else np.pi
    u = np.linspace(max(peak - reach, 0.0), min(peak + reach, np.pi / 2), QUANTILE_POINTS)
    with np.errstate(divide="ignore"):
        height = (2.0 * right * np.log(np.sin(u)) if right else 0.0) + (2.0 * wrong * np.log(np.cos(u)) if wrong else 0.0 * u)
    density = np.exp(height - np.max(height))
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(u))])
    return float(np.sin(np.interp(level * area[-1], area, u)) ** 2)


def likeliest_accuracy(p: Floats, needed: float, labels: int) -> tuple[float, float]:
    """Return the accuracy x of answers that the others make likeliest, and by how much they prefer it to `needed`.

    `p`, [tasks], is the probability of each answer. l(x) = sum of log(x p + (1 - x) (1 - p) / (K - 1)) is concave. The
    preference is l(x) - l(needed), or 0 where x is not below `needed`.

    >>> x, ratio = likeliest_accuracy(np.array([0.9] * 8 + [0.1] * 2), 0.99, 2)
    >>> round(x, 3), round(ratio, 2)
    (0.875, 0.36)
    """
    if not len(p):
        return float("nan"), 0.0
    wrong = (1.0 - p) / (labels - 1)

    def slope(x: float) -> float:
        return float(((p - wrong) / (x * p + (1.0 - x) * wrong)).sum())

    def fit(x: float) -> float:
        return float(np.log(x * p + (1.0 - x) * wrong).sum())

    low, high = 1e-12, 1.0 - 1e-12
    if slope(high) >= 0.0:
        return 1.0, 0.0
    for _ in range(MAX_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    best = 0.5 * (low + high)
    return best, max(fit(best) - fit(needed), 0.0) if best < needed else 0.0


VERDICT_NAMES: Final = ("informative", "unclear", "spammer", "adversary", "copy")
INFORMATIVE, UNCLEAR, SPAMMER, ADVERSARY, COPY = range(len(VERDICT_NAMES))
MIN_SPAMMER: Final = 0.5  # probability of not looking above which a worker is called a spammer
MIN_ADVERSARY: Final = 0.9  # and above which an adversary: bad luck in a few votes is no ill will
MAX_BELOW: Final = -2.33  # standard errors below chance from which a worker is called an adversary: one in a hundred by luck
MAX_BELOW_EVADING: Final = -1.645  # the same, where evading explains the votes better than guessing: one in twenty
MAX_UNIFORM_BITS: Final = 8.0  # bits by which giving all labels alike may explain more than evading, divided by the labels
MIN_BITS: Final = float(np.log2(10.0))  # evidence from which answers are taken to say something: ten to one
COVERAGE: Final = 0.9  # probability that an interval holds the truth
DENSITY_POINTS: Final = 301  # at which a density is evaluated
NODES: Final = np.linspace(np.log(0.02), np.log(1e5), 48)  # of log a and log b; quantiles are interpolated between them
MAX_SAMPLED: Final = 10_000  # workers, or tasks, that say enough about all
SPREAD_GRID: Final = np.concatenate([np.linspace(0.0005, 0.1, 25), np.linspace(0.1, 0.5, 21)[1:]])
PRIOR_ACCURACY: Final = 2 / 3  # the mean accuracy, before any vote is seen,
PRIOR_VOTES: Final = 2.0  # and the pseudo-votes behind it
PRIOR_MEAN_SPREAD: Final = 0.1  # mean of the exponential prior of the spread
MAX_SHIFT_GROUPS: Final = 16  # of workers whose errors about the labels are estimated apart
MAX_SHIFTS: Final = 400  # numbers whose covariance is computed


class CredibleInterval(NamedTuple):
    """Where the truth lies with probability `COVERAGE`."""

    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the votes say about workers and labels; NaN, and verdict unclear, where memory does not suffice."""

    accuracy: CredibleInterval  # [workers] each
    information: Floats  # [workers] bits per vote
    evidence: Floats  # [workers] bits over all votes, for answers that say something and against guessing
    verdict: NDArray[np.int8]  # [workers] index of one of `VERDICTS`
    answers_like: Integers  # [workers] the worker of the same ring whose answers are most alike; -1 for workers in none
    shared: Integers  # [workers] tasks that both judged
    agreeing: Integers  # [workers] and those on which their answers agree
    proofs: list[RingProof]  # of each ring
    compared: Integers  # [workers] votes that say something about the worker
    priors: CredibleInterval  # [K] each


def assess(
    votes: Votes,
    labels: NDArray[np.int32],
    known: Flags | None = None,
    *,
    below: Floats | None = None,
    judge_without: JudgeWithout | None = None,
    n_labels: int | None = None,
    per_set: int = 1,
) -> Assessment:
    """Return what the votes say, starting from labels, [tasks], of which those `known`, [tasks], are certain.

    Votes that say nothing about their worker are left out (see `find_copies`). `below`, [workers], says how far answers follow
    what the others say, in standard errors: without it nobody is called an adversary. `judge_without` judges the answers of
    rings by the other votes, of `n_labels` labels that there are: without it nobody is called a copy. Where votes are answers
    to the options of a set, `per_set` of them count as one in what is certain: intervals, and the proof of copying.
    """
    found = find_copies(votes, labels, known, need=estimate(votes))
    if found is None:
        return _nothing(votes.n_workers, votes.n_labels)
    ballots, belief = found.ballots, found.belief
    z = np.full(votes.n_workers, np.nan) if below is None else below
    proofs = [] if judge_without is None else prove_rings(found, judge_without, n_labels or ballots.n_labels, per_set)
    copying = np.zeros(votes.n_workers, np.bool_)
    for proof in proofs:
        copying[proof.members] = proof.is_copied
    shared, agreeing = shared_tasks(ballots, found.partner)
    return Assessment(
        accuracy=accuracy_interval(ballots, belief, found.comparison.right, per_set),
        information=(
            candidates.mutual_information(ballots, belief)
            if isinstance(belief, CellBelief)
            else mutual_information(ballots, belief)
        ),
        evidence=found.kinds.bits,
        verdict=verdicts(found.kinds, copying, z, ballots.n_labels),
        answers_like=found.partner,
        shared=shared,
        agreeing=agreeing,
        proofs=proofs,
        compared=ballots.per_worker,
        priors=prior_interval(ballots, belief),
    )


def estimate(votes: Votes) -> int:
    """Return about how many bytes `assess` takes at its peak; benchmarks/memory.py measures it."""
    k = votes.n_labels
    belief, search = search_memory(votes)
    shifts = 1 if k >= MIN_CANDIDATE_LABELS else max(k, min(MAX_SHIFTS, k * (MAX_SHIFT_GROUPS + 2)))
    intervals = 2 * 8 * shifts * min(votes.n_tasks, 2 * MAX_SAMPLED) + 32 * len(votes) + 100 * votes.n_workers
    return belief + max(search, intervals)


def verdicts(found: Kinds, copying: Flags, below: Floats, labels: int) -> NDArray[np.int8]:
    """Return the index of a word for each worker, [workers].

    The more labels there are, the less a vote says about evading: a worker who guesses avoids most labels, too. So nobody is
    called an adversary whose answers are not significantly `below` chance, [workers] standard errors. `copying`, [workers],
    are those whose answers are proved to be copied.
    """
    blind = found.guesser + found.evader
    evading = (found.evader > found.guesser) & (found.alike < MAX_UNIFORM_BITS / labels)
    word = np.full(len(blind), UNCLEAR, np.int8)
    word[(found.bits >= MIN_BITS) & (found.looks > found.evades)] = INFORMATIVE
    word[~evading & (blind > MIN_SPAMMER)] = SPAMMER
    word[(below < MAX_BELOW) | ((below < MAX_BELOW_EVADING) & evading & (blind > MIN_ADVERSARY))] = ADVERSARY
    word[copying] = COPY
    return word


def _nothing(workers: int, k: int) -> Assessment:
    empty, none = np.full(workers, np.nan), np.zeros(workers, np.int64)
    unknown = CredibleInterval(np.full(k, np.nan), np.full(k, np.nan))
    unclear, nobody = np.full(workers, UNCLEAR, np.int8), np.full(workers, NO_RING)
    return Assessment(CredibleInterval(empty, empty), empty, empty, unclear, nobody, none, none, [], none, unknown)


def beta_interval(mean: Floats, strength: Floats, share: float = 0.9) -> tuple[Floats, Floats]:
    """Return (low, high), [n] each: the bounds of the middle `share` of beta distributions, to about 0.003.

    `mean` and `strength`, [n]: a beta distribution of a right and b wrong votes has mean a / (a + b), strength a + b.

    >>> low, high = beta_interval(np.array([0.5, 0.9]), np.array([2.0, 100.0]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.05, 0.847], [0.95, 0.944])
    """
    a, b = (np.maximum(part * strength, 0.02) for part in (mean, 1.0 - mean))
    (row, down), (col, across) = _between(np.log(a)), _between(np.log(b))
    centre, width = np.log(a / b), np.sqrt(1.0 / a + 1.0 / b)
    ends = []
    for table in _tables((1.0 - share) / 2.0):
        top = table[row, col] * (1.0 - across) + table[row, col + 1] * across
        bottom = table[row + 1, col] * (1.0 - across) + table[row + 1, col + 1] * across
        log_odds = centre + width * (top * (1.0 - down) + bottom * down)
        ends.append(0.5 + 0.5 * np.tanh(0.5 * log_odds))
    return ends[0], ends[1]


def _between(x: Floats) -> tuple[Integers, Floats]:
    """Return (the node before, the distance to it as a share of the step), [n] each; values outside are moved to the ends."""
    at = np.clip((x - NODES[0]) / (NODES[1] - NODES[0]), 0.0, len(NODES) - 1.001)
    before = at.astype(np.int64)
    return before, at - before


@cache
def _tables(tail: float) -> tuple[Floats, Floats]:
    """Return two tables, [log a, log b]: the quantiles of `tail` and 1 - `tail` of the log-odds, in standard units.

    The density of the log-odds x is exp(a x) / (1 + exp x)^(a + b), one smooth hill that falls like exp(a x) to the
    left and exp(-b x) to the right. The unit is sqrt(1/a + 1/b), the origin log(a / b).
    """
    tables = np.empty((2, len(NODES), len(NODES)))
    u = np.linspace(-1.0, 1.0, DENSITY_POINTS)
    u = u * (0.15 + 0.85 * u * u)  # closer where the hill is steep
    b = np.exp(NODES)[:, None]
    for n, a in enumerate(np.exp(NODES)):
        width = np.sqrt(1.0 / a + 1.0 / b)
        x = np.log(a / b) + np.where(u < 0, u * (6.0 * width + 12.0 / a), u * (6.0 * width + 12.0 / b))
        height = a * x - (a + b) * np.logaddexp(0.0, x)
        density = np.exp(height - height.max(axis=1, keepdims=True))
        area = np.zeros_like(x)
        np.cumsum((density[:, 1:] + density[:, :-1]) * np.diff(x, axis=1), axis=1, out=area[:, 1:])
        area /= area[:, -1:]
        for table, level in zip(tables, (tail, 1.0 - tail), strict=True):
            at = np.array([np.interp(level, line, place) for line, place in zip(area, x, strict=True)])
            table[n] = (at - np.log(a / b)[:, 0]) / width[:, 0]
    return tables[0], tables[1]


class AccuracyDistribution(NamedTuple):
    """The accuracies of all workers: a beta distribution."""

    mean: float
    spread: float  # the variance, as a share of mean * (1 - mean)
    mean_variance: float  # variance of the mean


def accuracy_interval(ballots: Ballots, belief: Belief | CellBelief, right: Singles, per_set: int = 1) -> CredibleInterval:
    """Return where the accuracy of each worker lies, [workers] each; `right` is the posterior of each vote, [votes].

    A vote on an uncertain task says less about its worker: of n votes, n - V / (a (1 - a)) count, where V is the
    variance of the number of right votes (the missing information, by Louis's identity). The population adds
    pseudo-votes. Where `per_set` votes may be right or wrong together, they are worth one.
    """
    worker, votes = ballots.worker(), ballots.per_worker
    expected = np.bincount(worker, right, minlength=len(votes))
    unsure = np.bincount(worker, right * (1.0 - right), minlength=len(votes))
    if isinstance(belief, CellBelief):
        now = belief.votes_right()
    else:
        now = np.zeros(len(votes))
        for c in range(ballots.panel.n_labels):
            now += belief.totals[c] * belief.right(ballots, c)
    now = np.clip(now / ballots.divisor, 1e-3, 1.0 - 1e-3)
    counting = np.maximum(votes - unsure / (now * (1.0 - now)), 0.05 * ballots.divisor)
    alone = now + (expected - votes * now) / counting  # the accuracy by the worker's own votes
    crowd = population(alone, counting, ballots.divisor)
    pseudo = 1.0 / crowd.spread - 1.0
    mean = np.clip((counting * np.clip(alone, 0.0, 1.0) + pseudo * crowd.mean) / (counting + pseudo), 1e-3, 1.0 - 1e-3)
    total = counting + pseudo
    variance = mean * (1.0 - mean) / (total / per_set + 1.0) + crowd.mean_variance * (pseudo / total) ** 2
    return _interval(mean, variance)


def population(alone: Floats, votes: Floats, cast: Integers) -> AccuracyDistribution:
    """Return the beta distribution of accuracies behind estimates, [workers], from votes that count and votes cast, [workers].

    The variance of an estimate is mean (1 - mean) (spread (1 - 1 / cast) + 1 / votes): one vote alone says nothing about
    the spread. The spread is its posterior mean. Its maximum would often be 0, and make all workers alike.
    """
    every = max(len(alone) // MAX_SAMPLED, 1)
    alone, votes, cast = alone[::every], votes[::every], cast[::every]
    mean, spread, weight = PRIOR_ACCURACY, PRIOR_MEAN_SPREAD, np.ones(len(alone))
    before = np.gradient(SPREAD_GRID) * np.exp(-SPREAD_GRID / PRIOR_MEAN_SPREAD)
    for _ in range(4):
        mean = float(np.clip((weight @ alone + PRIOR_VOTES * PRIOR_ACCURACY) / (weight.sum() + PRIOR_VOTES), 0.01, 0.99))
        unit, fits = mean * (1.0 - mean), np.empty(len(SPREAD_GRID))
        for n, one in enumerate(SPREAD_GRID):
            variance = unit * (one * (1.0 - 1.0 / cast) + 1.0 / votes)
            fits[n] = -0.5 * (np.log(variance) + (alone - mean) ** 2 / variance).sum()
        after = before * np.exp(fits - fits.max())
        spread = float(after @ SPREAD_GRID / after.sum())
        weight = 1.0 / (spread + 1.0 / votes)
    return AccuracyDistribution(mean, spread, mean * (1.0 - mean) / (every * float(weight.sum()) + PRIOR_VOTES))


def prior_interval(ballots: Ballots, belief: Belief | CellBelief) -> CredibleInterval:
    """Return where the share of each label among future tasks lies, [K] each.

    It comes from the information that tasks give on the shares. The chance to be right under each true label is unknown:
    that of all workers together, and that of some groups of them.
    """
    tasks, k = ballots.n_tasks, ballots.panel.n_labels
    if not tasks:
        return CredibleInterval(np.zeros(k), np.ones(k))
    variance = candidates.prior_variance(belief) if isinstance(belief, CellBelief) else _prior_variance(ballots, belief)
    mean = np.clip(belief.priors, 0.5 / (tasks + 1.0), 1.0 - 0.5 / (tasks + 1.0))  # a label that nobody gave may still occur
    return _interval(mean, np.maximum(variance, mean * (1.0 - mean) / (tasks + 2.0)))


def _prior_variance(ballots: Ballots, belief: Belief) -> Floats:
    """Return the variance of the share of each label, [K]."""
    tasks, k = ballots.n_tasks, ballots.panel.n_labels
    groups = min(MAX_SHIFT_GROUPS, ballots.panel.n_workers, MAX_SHIFTS // k - 2)
    score, held = _scores(ballots, belief, max(groups, 0))
    information = score.T @ score * (tasks / len(score)) + np.diag(held)
    priors = belief.priors
    turn = np.diag(priors) - np.outer(priors, priors)
    covariance = turn @ np.linalg.pinv(information, rcond=1e-10, hermitian=True)[:k, :k] @ turn
    return np.diagonal(covariance)


def _scores(ballots: Ballots, belief: Belief, groups: int) -> tuple[Floats, Floats]:
    """Return the slopes of some tasks' log-likelihoods, [tasks, shifts], and the information of the pseudo-votes, [shifts].

    Shifts are those of the logits of the K shares; of the chance to be right under each of K labels; and of the same
    in each group.
    """
    panel, k = ballots.panel, ballots.panel.n_labels
    chosen = np.arange(0, ballots.n_tasks, max(ballots.n_tasks // MAX_SAMPLED, 1))
    posterior = belief.posterior[:, chosen].T.astype(np.float64)
    parts, held = [posterior - belief.priors], [np.zeros(k)]
    if groups < 1:
        return parts[0], held[0]
    length = ballots.per_task[chosen]
    start = np.cumsum(length) - length
    votes = np.repeat(ballots.task_ptr[chosen] - start, length) + np.arange(length.sum())
    row = ballots.row[votes]
    worker, label = ballots.row_worker[row], panel.row_label[row]
    group = np.arange(panel.n_workers) * 2654435761 % 2**32 * groups >> 32  # hashed, as neighbours may be alike
    cell = np.repeat(np.arange(len(chosen)), length) * groups + group[worker]
    size = np.bincount(group, minlength=groups)
    for c in range(k):
        beyond = np.bincount(cell, (label == c) - belief.right(ballots, c)[worker], minlength=len(chosen) * groups).reshape(
            -1, groups
        )
        slope = posterior[:, c : c + 1] * beyond
        unit = belief.mean[c, c] * (1.0 - belief.mean[c, c])
        parts += [slope.sum(axis=1, keepdims=True), slope]
        held += [np.array([EQUAL_ACCURACY_VOTES * unit]), size * MEAN_WORKER_VOTES * unit]
    return np.hstack(parts), np.concatenate(held)


def _interval(mean: Floats, variance: Floats) -> CredibleInterval:
    """Return the middle of the beta distributions of these means and variances, [n] each."""
    low, high = np.empty(len(mean)), np.empty(len(mean))
    for start in range(0, len(mean), CHUNK_WORKERS):
        cut = slice(start, start + CHUNK_WORKERS)
        some = mean[cut]
        strength = np.maximum(some * (1.0 - some) / variance[cut] - 1.0, 0.5)
        low[cut], high[cut] = beta_interval(some, strength, COVERAGE)
    return CredibleInterval(low, high)
