"""The workers of a result: a frame with accuracy, intervals, verdicts and their reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Votes, abstention_rates, piece, without_weights
from adjudge.engines.base import Session
from adjudge.engines.registry import resolve
from adjudge.io.frames import column, match_ids, numbers
from adjudge.models.honest import HonestProbabilities, accuracy_columns, has_room, measure_and_judge
from adjudge.results.trust import candidates
from adjudge.results.trust.candidates import MIN_CANDIDATE_LABELS, CellBelief
from adjudge.results.trust.copies import NO_RING, find_copies, search_memory, shared_tasks
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
from adjudge.results.trust.proof import JudgeWithout, RingProof, prove_rings

if TYPE_CHECKING:
    from adjudge.results.result import Result

VERDICT_NAMES: Final = ("informative", "unclear", "spammer", "adversary", "copy")
INFORMATIVE, UNCLEAR, SPAMMER, ADVERSARY, COPY = range(len(VERDICT_NAMES))
MIN_SPAMMER: Final = 0.5  # probability of not looking above which a worker is called a spammer
MIN_ADVERSARY: Final = 0.9  # and above which an adversary: a few unlucky votes are not malice
MAX_BELOW: Final = -2.33  # standard errors below chance from which a worker is called an adversary: one in a hundred by luck
MAX_BELOW_EVADING: Final = -1.645  # the same, if evading explains the votes better than guessing: one in twenty
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
CONFUSION_CHUNK_TASKS: Final = 1 << 20  # tasks per chunk, so that copies stay small
MIN_ONE_LABEL_SHARE: Final = 0.9  # share of one label among a spammer's votes from which it is named


def reasons(
    votes: Votes,
    found: Assessment,
    given: NDArray[np.int64],
    agreement: NDArray[np.float64],
    below: NDArray[np.float64] | None,
    noun: str = "vote",
) -> pl.Series:
    """Return the sentence of each worker, [workers]; null if memory did not suffice to judge them.

    `given` has the votes of each, `agreement` the share that equals the label, `below` how far they follow what others say.
    `noun` is what votes are called.
    """
    favourite, most = _favourites(votes)
    needed, right = np.zeros(votes.n_workers), np.zeros(votes.n_workers)
    for proof in found.proofs:
        needed[proof.members], right[proof.members] = proof.needed, proof.found
    facts = pl.DataFrame(
        {
            "word": pl.Series(VERDICT_NAMES).gather(found.verdict),
            "votes": pl.Series(given).cast(pl.String) + np.where(given == 1, f" {noun}", f" {noun}s"),
            "equal": _percent(agreement),
            "label": column(votes.labels, favourite).cast(pl.String),
            "most": _percent(most / np.maximum(given, 1)),
            "is_one": most >= MIN_ONE_LABEL_SHARE * given,
            "bits": found.evidence,
            "compared": found.compared,
            "z": np.full(len(given), np.nan) if below is None else below,
            "like": column(votes.workers, found.answers_like).cast(pl.String),
            "agreeing": found.agreeing,
            "shared": found.shared,
            "needed": _percent(needed),
            "right": _percent(right),
        }
    )
    word, bits = pl.col("word"), _figure("bits")
    alike = pl.format("agrees with {} on {} of {} shared tasks", "like", "agreeing", "shared")
    own = (
        pl.when(word == "informative")
        .then(pl.format("{} of {} equal the labels: {} bits of evidence against guessing", "equal", "votes", bits))
        .when(word == "adversary")
        .then(pl.format("{} of {} equal the labels, and answers avoid what others say (z = {})", "equal", "votes", _figure("z")))
        .when((word == "spammer") & pl.col("is_one"))
        .then(pl.format("gives '{}' in {} of {}, regardless of the task", "label", "most", "votes"))
        .when(word == "spammer")
        .then(pl.format("{} of {} equal the labels, as guesses would: {} bits of evidence", "equal", "votes", bits))
        .when(pl.col("compared") == 0)
        .then(pl.format("nothing to compare {} with: no other worker judged the same tasks", "votes"))
        .when(pl.col("bits") >= MIN_BITS)
        .then(pl.format("{} of {} equal the labels, but evidence points both ways (z = {})", "equal", "votes", _figure("z")))
        .otherwise(pl.format("{} cannot tell: {} bits of evidence, {} are needed", "votes", bits, pl.lit(f"{MIN_BITS:.1f}")))
    )
    # If agreement needs an accuracy that the others contradict, it is the reason; otherwise it is added to the reason.
    proved = pl.format("{}, which takes an accuracy of {}; the others' votes say {}", alike, "needed", "right")
    why = pl.when(word == "copy").then(proved).when(pl.col("like").is_not_null()).then(pl.format("{}; {}", own, alike))
    out = facts.select(why=pl.when(pl.col("bits").is_not_nan()).then(why.otherwise(own)))
    return out["why"]


def _favourites(votes: Votes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the label that each worker gives most often, the first of several, and how often, [workers] each."""
    by_row, worker = votes.votes_per_row(), votes.row_worker()
    order = np.lexsort((-by_row, worker))  # rows of a worker are in the order of their labels
    first = order[votes.worker_ptr[:-1]] if votes.n_workers else np.zeros(0, np.int64)
    return votes.row_label[first].astype(np.int64), by_row[first]


def _percent(share: NDArray[np.float64]) -> pl.Series:
    """Return shares as text in percent, [n], with a decimal where they are close to all without being all."""
    percent = pl.Series("p", share, pl.Float64).fill_nan(None) * 100
    near = (percent > 99) & (percent < 100)
    close = percent.clip(0, 99.9).round(1).cast(pl.String)
    return close.zip_with(near.fill_null(False), percent.round(0).cast(pl.Int64).cast(pl.String)) + "%"


def _figure(name: str) -> pl.Expr:
    """Return a column as text with one decimal."""
    return pl.col(name).round(1).cast(pl.String)


@dataclass(frozen=True, eq=False)
class JudgedWorkers:
    """The workers of a result, judged when asked; what is found is kept."""

    result: Result

    def frame(self, *, trust: bool = True) -> pl.DataFrame:
        """Return a line per worker, as a polars frame; without `trust` what costs no pass alone."""
        if self.result.grouping is not None:
            from adjudge.results.groups import members_frame

            return members_frame(self.result, trust=trust)
        right, agreeing = self.result.right_votes, self.result.agreeing_votes()
        cast = self.result.votes.votes_per_row()
        votes, counted = self._by_worker(cast), self._weigh(cast)
        return pl.DataFrame(
            {
                "worker": column(self.result.votes.workers),
                "votes": votes,
                "accuracy": self._weigh(right) / counted,
                "agreement": self._weigh(agreeing) / counted,
                "abstained": abstained_column(self.result.votes, votes),
                **(self._repeat_columns() if trust and self.result.is_here else {}),
                **(self._trust_columns(votes, self._by_worker(agreeing) / votes) if trust and self.result.is_here else {}),
                **(self._honest_columns(votes) if trust and self.result.fit.honest is not None else {}),
                **self.result.fit.worker_columns,
            }
        )

    def _honest_columns(self, votes: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return the accuracy of every worker with its 90% interval if confidence is honest, on every engine.

        Adds how far answers follow the other votes if the session runs in this process.
        """
        found = accuracy_columns(*self.result.fit.honest.worker_accuracy(self.result.votes, votes, self.result.per_set))
        return found if self.below_chance is None else {**found, "below_chance": self.below_chance}

    @cached_property
    def assessment(self) -> Assessment:
        """Intervals and verdicts of all workers, which do not depend on the model."""
        result, honest = self.result, self.honest
        assess_votes = partial(
            assess, without_weights(result.votes), result.fit.outcome.labels, result.session.gold(), per_set=result.per_set
        )
        if honest is None:
            return assess_votes()
        return assess_votes(below=self.below_chance, judge_without=self.judge_without, n_labels=int(honest.exists.sum()))

    @cached_property
    def honest(self) -> HonestProbabilities | None:
        """The honest probabilities of the labels, whichever confidence the fit has; None if there are none."""
        session = getattr(self.result.session, "own", self.result.session)  # members of groups are judged by their own votes
        if self.result.fit.honest is not None and session is self.result.session:
            return cast(HonestProbabilities, self.result.fit.honest)
        if not self.result.is_here or not hasattr(session, "run") or not has_room(self.result.votes):
            return None
        named, history = self.result.votes.given_labels() | (self.result.fit.params.priors > 0), self.result.history
        if history is not None:
            named[match_ids(history.labels, self.result.votes.labels)[np.unique(history.row_label)]] = True
        return measure_and_judge(session, self.result.fit.outcome.labels, named)

    @cached_property
    def below_chance(self) -> NDArray[np.float64] | None:
        """How far each worker's answers follow what the others say, in standard errors, [workers]; None if it is unknown."""
        known = self.honest
        if known is None or hasattr(known.session, "honest_outcome"):  # its tasks are not in this process
            return None
        z: NDArray[np.float64] = known.below_chance(self.result.votes) / np.sqrt(self.result.per_set)
        return z

    def judge_without(self, left_out: NDArray[np.bool_]) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
        """Return how likely labels are right, [tasks], judged by a fit of this model without some workers, [workers]."""
        assert self.honest is not None
        left, tasks = self.result.votes.without_workers(left_out)
        honest = None if not len(left) else measure_and_judge(*self._refit(left, tasks), self.honest.exists)

        def chance(wanted: NDArray[np.int64]) -> NDArray[np.float64]:
            out = np.full(self.result.votes.n_tasks, np.nan)
            if honest is not None:
                out[tasks] = honest.chance(wanted[tasks].astype(np.int32))
            return out

        return chance

    def _refit(self, left: Votes, tasks: NDArray[np.int64]) -> tuple[Session, NDArray[np.int32]]:
        """Return a session over some of the votes, on these tasks, and the labels of the same model: or of majority vote."""
        known = self.result.session.gold()
        gold = None if known is None else gold_frame(left, self.result.fit.outcome.labels[tasks], known[tasks])
        if self.result.refit is not None:
            again = self.result.refit(left, gold=gold, history=self.result.history)
            return again.session, again.fit.outcome.labels
        given = {name: self.result.settings.get(name, getattr(DEFAULTS, name)) for name in ("seed", "ties")}
        session = resolve(DEFAULTS.engine).load(left, seed=cast(int, given["seed"]), ties=cast(str, given["ties"]), gold=gold)
        return session, session.majority().labels

    def _trust_columns(self, votes: NDArray[np.int64], agreement: NDArray[np.float64]) -> dict[str, Any]:
        found, below, what = self.assessment, self.below_chance, "vote" if self.result.per_set == 1 else "answer"
        return {
            "accuracy_low": found.accuracy.low,
            "accuracy_high": found.accuracy.high,
            "information": found.information,
            "evidence": found.evidence,
            "below_chance": pl.repeat(None, len(votes), dtype=pl.Float64, eager=True) if below is None else numbers(below),
            "verdict": pl.Series(VERDICT_NAMES).gather(found.verdict),
            "answers_like": column(self.result.votes.workers, found.answers_like),
            "why": reasons(without_weights(self.result.votes), found, votes, agreement, below, what),
        }

    def _repeat_columns(self) -> dict[str, pl.Series]:
        """Return how often every worker repeats its own answer; nothing if nobody voted twice on a task."""
        votes = self.result.votes
        if votes.duplicates != "all" or self.result.per_set > 1:
            return {}
        same, pairs = repeated_answers(votes)
        if not pairs.any():
            return {}
        shares = pl.Series(np.divide(same, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0))
        return {"self_consistency": shares.fill_nan(None)}

    def _by_worker(self, by_row: NDArray[Any]) -> NDArray[Any]:
        starts = self.result.votes.worker_ptr[:-1]
        return np.add.reduceat(by_row, starts) if len(starts) else by_row

    def _weigh(self, by_row: NDArray[Any]) -> NDArray[Any]:
        """Return sums by worker, [workers], of votes by row, [rows], each times its weight."""
        weight = self.result.votes.row_weight
        return self._by_worker(by_row if weight is None else by_row * weight)


def agreeing_votes(result: Result) -> NDArray[np.int64]:
    """Return the votes of each row that equal the label of their task, [rows]."""
    v, out = result.votes, np.zeros(result.votes.n_rows, np.int64)
    for part, whole_ptr, whole_row in v.parts():
        labels = piece(result.fit.outcome.labels, part)
        for start in range(0, len(labels), CONFUSION_CHUNK_TASKS):
            ptr = whole_ptr[start : start + CONFUSION_CHUNK_TASKS + 1]
            row = whole_row[ptr[0] : ptr[-1]]
            chosen = np.repeat(labels[start : start + CONFUSION_CHUNK_TASKS], np.diff(ptr))
            out += np.bincount(row[v.row_label[row] == chosen], minlength=v.n_rows)
    return out


def repeated_answers(votes: Votes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, of the pairs of votes that a worker gave one task, those that agree and all of them, [workers] each.

    >>> import adjudge as adj
    >>> votes = adj.read([(1, "ann", "x"), (1, "ann", "x"), (1, "ann", "y"), (1, "bob", "x"), (2, "bob", "y")])
    >>> same, pairs = repeated_answers(votes)
    >>> same.tolist(), pairs.tolist()
    ([1, 0], [3, 0])
    """
    same, pairs = np.zeros(votes.n_workers, np.int64), np.zeros(votes.n_workers, np.int64)
    row_worker, row_label = votes.row_worker(), votes.row_label
    for _, whole_ptr, whole_row in votes.parts():
        for start in range(0, len(whole_ptr) - 1, CONFUSION_CHUNK_TASKS):
            ptr = whole_ptr[start : start + CONFUSION_CHUNK_TASKS + 1]
            row = whole_row[ptr[0] : ptr[-1]]
            worker, label = row_worker[row], row_label[row]
            begins = np.ones(len(row), np.bool_)  # of a worker's votes on a task: they stand together
            begins[1:] = worker[1:] != worker[:-1]
            begins[ptr[:-1] - ptr[0]] = True
            for new, out in ((begins, pairs), (begins | np.append(True, label[1:] != label[:-1])[: len(row)], same)):
                first = np.flatnonzero(new)
                size = np.diff(first, append=len(row))
                np.add.at(out, worker[first[size > 1]], (size * (size - 1) // 2)[size > 1])
    return same, pairs


def abstained_column(votes: Votes, given: NDArray[np.int64]) -> pl.Series:
    """Return the share of abstentions of each worker, [workers], who gave so many votes; null if it was not counted."""
    rates = abstention_rates(given, votes.abstentions, votes.abstained)
    empty = pl.repeat(None, len(given), dtype=pl.Float64, eager=True)
    return (empty if rates is None else numbers(rates)).alias("abstained")


def gold_frame(votes: Votes, labels: NDArray[np.int32], known: NDArray[np.bool_]) -> pl.DataFrame | None:
    """Return the labels of those tasks of some votes that are `known`, [tasks], as a table of gold; None if none is."""
    at = np.flatnonzero(known)
    return pl.DataFrame({"task": column(votes.tasks, at), "label": column(votes.labels, labels[at])}) if len(at) else None


class CredibleInterval(NamedTuple):
    """Where the truth lies with probability `COVERAGE`."""

    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the votes say about workers and labels; NaN, and verdict unclear, if memory does not suffice."""

    accuracy: CredibleInterval  # [workers] each
    information: Floats  # [workers] bits per vote
    evidence: Floats  # [workers] bits over all votes, for answers that say something and against guessing
    verdict: NDArray[np.int8]  # [workers] index into `VERDICT_NAMES`
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
    """Return intervals and verdicts, starting from labels, [tasks], of which those `known`, [tasks], are certain.

    Votes that say nothing about their worker are left out (see `find_copies`). `below`, [workers], is how far answers follow the
    other votes, in standard errors: without it nobody is called an adversary. `judge_without` judges the answers of rings by the
    other votes, with `n_labels` possible labels: without it nobody is called a copy. If votes are answers to the options of a
    set, `per_set` of them count as one in intervals and in the proof of copying.
    """
    found = find_copies(votes, labels, known, need=estimate(votes))
    if found is None:
        return _nothing(votes.n_workers, votes.n_labels)
    ballots, belief = found.ballots, found.belief
    z = np.full(votes.n_workers, np.nan) if below is None else below
    proofs = []
    if judge_without is not None and (found.ring >= 0).any():
        proofs = prove_rings(found, judge_without, n_labels or ballots.n_labels, per_set)
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
        beyond = np.bincount(cell, (label == c) - belief.right(ballots, c)[worker], minlength=len(chosen) * groups)
        slope = posterior[:, c : c + 1] * beyond.reshape(-1, groups)
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
