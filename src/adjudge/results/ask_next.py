"""Choose which tasks to ask about next, and which worker: the largest expected gain per unit of cost first.

A vote that cannot change a label alone may do so together with others. So the gain is computed several votes ahead, divided by
their number, and the best rate counts. Votes on one task are correlated beyond what its label explains, because some tasks are
hard or misleading: the votes so far predict part of the next ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from math import factorial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER
from adjudge.data.options import Number
from adjudge.data.vocabulary import Vocabulary, text_of
from adjudge.errors import InputError, OptionError, quote
from adjudge.io.frames import column, match_ids, numbers, vocabulary
from adjudge.io.items import with_items
from adjudge.io.workers import Cost, read_costs
from adjudge.models.knowledge import Learned
from adjudge.models.temperature import probability_pieces
from adjudge.results.evidence import TaskVotes, figures_at, mean_worker
from adjudge.results.explain import require_here

if TYPE_CHECKING:
    from adjudge.results.result import Result
    from adjudge.results.sets import MultiResult

Floats = NDArray[np.float64]
LOOK_AHEAD: Final = 5  # votes
GAIN_SHARE: Final = 0.5  # of the gain that the confusions predict: honest confidence also counts half of what votes say
LEAST_ALIKE: Final = 1 / 11  # correlation of the votes on a task beyond its label, at least: ten votes of the mean worker


def gain_rate(
    belief: Floats,  # [n, 2] probability of the two best labels, the label of the task first
    said: Floats,  # [n, 2] votes for either
    votes: Floats,  # [n] votes on the task
    channel: Floats,  # [n, 2 given, 2 true] how often a worker gives either label for either true label
    shared_error: float,
    *,
    two_labels: bool,  # True if votes can give no third label
) -> Floats:
    """Return the expected gain in right labels per vote, [n], of the best number of votes ahead.

    >>> ready = np.array([[0.6, 0.4], [0.99, 0.01]]), np.ones((2, 2)), np.full(2, 2.0)
    >>> able = np.tile([[0.9, 0.1], [0.1, 0.9]], (2, 1, 1))
    >>> gain_rate(*ready, able, 0.0, two_labels=True).round(3).tolist()
    [0.117, 0.001]
    """
    alike = max(shared_error, LEAST_ALIKE)
    lent = (1.0 - alike) / alike  # votes of the worker's kind that an own vote of the task weighs against
    q = (lent * channel + said[:, :, None]) / (lent + votes)[:, None, None]
    chances = np.stack([q[:, 0], q[:, 1], np.maximum(1.0 - q.sum(axis=1), 0.0)], axis=1)  # [n, 3 given, 2 true]
    best = np.zeros(len(belief))
    powers = [np.ones_like(chances)]
    for ahead in range(1, LOOK_AHEAD + 1):
        powers.append(powers[-1] * chances)
        right = np.zeros(len(belief))
        for first, second, others, ways in _outcomes(ahead, two_labels):
            joint = belief * powers[first][:, 0] * powers[second][:, 1] * powers[others][:, 2]
            right += ways * np.maximum(joint[:, 0], joint[:, 1])
        np.maximum(best, (right - belief[:, 0]) / ahead, out=best)
    return GAIN_SHARE * best


@cache
def _outcomes(votes: int, two_labels: bool) -> tuple[tuple[int, int, int, int], ...]:
    """Return how votes can fall on the first label, the second and others, and in how many orders."""
    return tuple(
        (first, second, others, factorial(votes) // (factorial(first) * factorial(second) * factorial(others)))
        for first in range(votes + 1)
        for second in range(votes + 1 - first)
        for others in [votes - first - second]
        if not (two_labels and others)
    )


def first_vote_right(priors: Floats, confusion: Floats) -> float:
    """Return how likely a task without votes is right after its first one; priors [K], confusion [K given, K true].

    >>> first_vote_right(np.array([0.5, 0.5]), np.array([[0.8, 0.3], [0.2, 0.7]]))
    0.75
    """
    return float((priors * confusion).max(axis=1, initial=0.0).sum())


Codes = NDArray[np.int64]
ANY_WORKER: Final = "any"  # as worker: all who have votes
ASK_CHUNK_TASKS: Final = 1 << 16  # tasks per block
ASK_CHUNK_PAIRS: Final = 1 << 18  # tasks x workers per block
OVERSAMPLED: Final = 4  # compare workers on this many times the requested tasks
MIN_CANDIDATES: Final = 32  # workers compared on each task, in addition to as many as may have voted on it
LEAST_COST: Final = 1e-12  # in ratios


class RankedTasks(NamedTuple):
    """Tasks worth asking about, in any order; -1 and below stand for tasks without votes."""

    code: Codes  # [tasks]
    gain: Floats  # [tasks] expected gain in right labels of one more vote
    worker: Codes  # [tasks] among the candidates; all 0 if there are none
    cost: Floats  # [tasks]


def ask_next(
    result: Result,
    n: int | None = None,
    *,
    worker: object = None,
    cost: Cost | None = None,
    budget: float | None = None,
) -> pl.DataFrame:
    """Return the tasks to ask about next, as a polars frame; see `Result.ask_next`."""
    _check(n, cost, budget)
    require_here(result, "ask_next")
    gains = TaskGains(result, _candidates(result, worker, cost), cost)
    limit, cheapest = n, float(gains.prices.min(initial=np.inf))
    if budget is not None and 0 < cheapest < np.inf:
        pays = int(budget / cheapest) + 1
        limit = pays if n is None else min(n, pays)
    ranked = gains.ranked(limit, only_gains=n is None)
    return with_items(gains.frame(ranked, _affordable(ranked, n, budget)), result.votes)


def ask_next_sets(
    result: MultiResult, n: int | None = None, *, cost: float | None = None, budget: float | None = None
) -> pl.DataFrame:
    """Return the tasks with several options to ask about next: gains are sums over the options that one vote answers."""
    if cost is not None:
        Number(least=0).check("cost", cost)
    _check(n, cost, budget)
    k = len(result.votes.options)
    parts = [TaskGains(one, None, cost) for one in result.results] if k else []  # without options nothing can be gained
    gain = np.zeros(len(result.votes.tasks))
    for part in parts:
        every = np.concatenate([np.zeros(0), *(gains for _, gains in part.gains())])
        gain += np.maximum(every, 0.0).reshape(-1, k).sum(axis=1) if len(parts) == 1 else np.maximum(every, 0.0)
    code = np.arange(len(gain))[gain > 0] if n is None else np.arange(len(gain))
    price = np.full(len(code), 0.0 if cost is None else float(cost))
    ranked = RankedTasks(code, gain[code], np.zeros(len(code), np.int64), price)
    chosen = _affordable(ranked, n, budget)
    told: pl.DataFrame = result.labels_frame()[ranked.code[chosen].tolist()]
    frame = told.select("task", numbers(ranked.gain[chosen]).alias("expected_gain"), "label", "confidence", "votes")
    return frame if cost is None else frame.with_columns(cost=numbers(price[chosen]))


def _check(n: object, cost: object, budget: object) -> None:
    """Raise unless these options are right, and fit together."""
    if n is not None:
        Number(least=1, whole=True).check("n", n)
    if budget is not None:
        Number(least=0).check("budget", budget)
        if cost is None:
            raise OptionError(f"budget is {quote(budget)}, which pays for votes of unknown cost: give cost=…, too")


def _candidates(result: Result, worker: object, cost: Cost | None) -> Vocabulary | None:
    """Return the workers who can be asked, or None if it makes no difference."""
    is_price = cost is None or isinstance(cost, int | float | np.integer | np.floating)
    if worker is None and is_price:
        return None
    if worker is None or (isinstance(worker, str) and worker == ANY_WORKER):
        return result.votes.workers
    named = [worker] if isinstance(worker, str | int | np.integer) else _as_list(worker)
    if not named:
        raise OptionError(f"worker is {quote(worker)}: give 'any', a worker, or a list of workers")
    texts = list(dict.fromkeys(text_of(one) for one in named))
    if not all(texts) or any(one is None or one != one for one in named):
        raise OptionError(f"worker is {quote(worker)}: one of these ids is missing or empty")
    mapping = {} if result.grouping is None else result.grouping.mapping
    for one in texts:
        if one in mapping and mapping[one] != one:
            raise InputError(f"worker {quote(one)} votes in group {quote(mapping[one])}: name the group")
    return vocabulary(pl.Series(texts, dtype=pl.String))


def _as_list(workers: Any) -> list[object]:
    """Return a list, set or column of workers as a list; nothing for anything else."""
    is_many = isinstance(workers, Sequence | Set | np.ndarray | pl.Series) or type(workers).__name__ == "Series"
    return list(workers) if is_many and not isinstance(workers, bytes) else []


def _affordable(ranked: RankedTasks, n: int | None, budget: float | None) -> Codes:
    """Return which of the tasks to ask about, highest gain per cost first: at most n, and as many as the budget pays."""
    worth = ranked.gain / np.maximum(ranked.cost, LEAST_COST) if ranked.cost.any() else ranked.gain
    order = np.lexsort((np.abs(ranked.code), -worth))
    if budget is not None:
        left, taken = float(budget), []
        for at, price in zip(order.tolist(), ranked.cost[order].tolist(), strict=True):
            if price <= left * (1 + 1e-12):
                taken.append(at)
                left -= price
                if n is not None and len(taken) == n:
                    break
        order = np.array(taken, np.int64)
    return order if n is None else order[:n]


@dataclass(frozen=True, eq=False)
class TaskGains:
    """The expected gain of one more vote on each task of a result."""

    result: Result
    candidates: Vocabulary | None  # workers who can be asked
    cost: Cost | None

    @cached_property
    def learned(self) -> Learned:
        """What the fit knows of workers."""
        return self.result.learned()

    @cached_property
    def mean_worker(self) -> Floats:
        """The confusion of the mean worker, [K given, K true]."""
        honest = self.result.fit.honest
        return mean_worker(self.learned) if honest is None else np.asarray(honest.honest.population)

    @cached_property
    def prices(self) -> Floats:
        """What a vote of each candidate costs, [candidates]; one price where there are none."""
        if self.candidates is None:
            return np.zeros(1) if self.cost is None else read_costs(self.cost, Vocabulary.of(["anybody"]))
        return np.zeros(len(self.candidates)) if self.cost is None else read_costs(self.cost, self.candidates)

    @property
    def shared_error(self) -> float:
        """How far workers err together."""
        found = self.result.fit.facts.get("shared_error", self.learned.facts.get("shared_error", 0.0))
        return float(found) if isinstance(found, int | float) else 0.0

    def ranked(self, limit: int | None, *, only_gains: bool) -> RankedTasks:
        """Return the tasks with the largest gains, including tasks without votes: at least `limit`, if there are that many."""
        keep = None if limit is None else limit * (1 if self.candidates is None else OVERSAMPLED)
        codes, gains = [np.zeros(0, np.int64)], [np.zeros(0)]
        for first, gain in self.gains():
            here = np.flatnonzero(gain > 0 if only_gains else gain >= 0)
            codes.append(first + here)
            gains.append(gain[here])
            if keep is not None and sum(map(len, gains)) > keep:
                code, value = np.concatenate(codes), np.concatenate(gains)
                best = np.sort(np.argsort(-value, kind="stable")[:keep])
                codes, gains = [code[best]], [value[best]]
        code, value = np.concatenate(codes), np.concatenate(gains)
        found = RankedTasks(
            code, value, np.zeros(len(code), np.int64), np.full(len(code), self.prices[0] if len(self.prices) else 0.0)
        )
        found = found if self.candidates is None else self._with_workers(found)
        unvoted = self._find_unvoted(limit)
        return RankedTasks(*(np.concatenate(both) for both in zip(unvoted, found, strict=True)))

    def gains(self) -> Iterator[tuple[int, Floats]]:
        """Yield (the first of some tasks, the expected gain of one more vote on each, -1 for gold), in task order."""
        result, gold = self.result, self.result.fit.task_columns.get("gold")
        for cut, probabilities in probability_pieces(result.fit, result.session):
            for start in range(0, len(probabilities), ASK_CHUNK_TASKS):
                some = probabilities[start : start + ASK_CHUNK_TASKS]
                tasks = slice(cut.start + start, cut.start + start + len(some))
                best = self._best_two(some, figures_at(result.fit.outcome.labels, np.arange(tasks.start, tasks.stop)))
                gain = self._gain(best, *result.votes.votes_in(tasks))
                if gold is not None:
                    gain[figures_at(gold, np.arange(tasks.start, tasks.stop))] = -1.0
                yield tasks.start, gain

    def _best_two(self, probabilities: Floats, labels: NDArray[np.int32]) -> tuple[Codes, Floats]:
        """Return the label and the best other one of tasks, [tasks, 2], and their probabilities, [tasks, 2]."""
        n = np.arange(len(labels))
        others = probabilities.copy()
        others[n, labels] = -1.0
        pair = np.stack([labels.astype(np.int64), others.argmax(axis=1)], axis=1)
        return pair, np.maximum(np.take_along_axis(probabilities, pair, axis=1), 0.0)

    def _gain(self, best: tuple[Codes, Floats], ptr: Codes, row: NDArray[np.uint32]) -> Floats:
        """Return the gain of a vote of the mean worker, [tasks]; `ptr` and `row` are the votes of the tasks."""
        (pair, belief), k = best, self.result.votes.n_labels
        if k < 2:
            return np.zeros(len(pair))
        said, votes = self._said(pair, ptr, row)
        channel = self.mean_worker[pair[:, :, None], pair[:, None, :]]
        return gain_rate(belief, said, votes, channel, self.shared_error, two_labels=k == 2)

    def _said(self, pair: Codes, ptr: Codes, row: NDArray[np.uint32]) -> tuple[Floats, Floats]:
        """Return the votes of tasks for their two best labels, [tasks, 2], and all their votes, [tasks], by weight."""
        votes, n = self.result.votes, len(pair)
        task, given = np.repeat(np.arange(n), np.diff(ptr)), votes.row_label[row]
        weight = np.ones(len(row)) if votes.row_weight is None else votes.row_weight[row]
        said = [np.bincount(task, weight * (given == pair[task, at]), minlength=n) for at in (0, 1)]
        return np.stack(said, axis=1).astype(np.float64), np.bincount(task, weight, minlength=n).astype(np.float64)

    def _with_workers(self, found: RankedTasks) -> RankedTasks:
        """Return the tasks with the candidate whose vote is worth most on each; without those that all have voted on."""
        assert self.candidates is not None
        if not len(found.code):
            return found
        some = TaskVotes.of(self.result, found.code)
        k, n = self.result.votes.n_labels, some.n_tasks
        most = int(np.diff(some.task_ptr).max(initial=0))
        able = self._ablest(most + MIN_CANDIDATES)
        gain, chosen = np.full(n, -1.0), np.zeros(n, np.int64)
        place = np.full(self.result.votes.n_workers, -1)
        known = match_ids(self.candidates, self.result.votes.workers)[able]
        place[known[known >= 0]] = np.flatnonzero(known >= 0)
        probabilities = self._probabilities(found.code)
        pair, belief = self._best_two(probabilities, some.labels.astype(np.int32))
        said, votes = self._said(pair, some.task_ptr, some.row)
        price = np.maximum(self.prices[able], LEAST_COST) if self.prices.any() else np.ones(len(able))
        step = max(ASK_CHUNK_PAIRS // max(len(able), 1), 1)
        for start in range(0, n, step):
            cut = slice(start, min(start + step, n))
            size = cut.stop - cut.start
            of_task, of_able = (
                grid.ravel() for grid in np.meshgrid(np.arange(start, cut.stop), np.arange(len(able)), indexing="ij")
            )
            channel = self._channel(known[of_able], pair[of_task])
            each = gain_rate(belief[of_task], said[of_task], votes[of_task], channel, self.shared_error, two_labels=k == 2)
            each = each.reshape(size, len(able))
            here = slice(int(some.task_ptr[start]), int(some.task_ptr[cut.stop]))
            at = place[some.worker[here]]
            each[some.task[here][at >= 0] - start, at[at >= 0]] = -1.0  # do not ask a worker twice
            best = np.where(each < 0, -1.0, each / price).argmax(axis=1)
            gain[cut], chosen[cut] = each[np.arange(size), best], able[best]
        kept = gain >= 0
        return RankedTasks(found.code[kept], gain[kept], chosen[kept], self.prices[chosen[kept]])

    def _ablest(self, number: int) -> Codes:
        """Return the candidates, [some], whose votes are worth most for their price on a task in doubt."""
        assert self.candidates is not None
        every = np.arange(len(self.candidates))
        if len(every) <= number:
            return every
        known, k = match_ids(self.candidates, self.result.votes.workers), self.result.votes.n_labels
        worth = np.zeros(len(every))
        shares = self._label_shares()
        top = np.argsort(-shares, kind="stable")[:2]
        for start in range(0, len(every), ASK_CHUNK_TASKS):
            who = known[start : start + ASK_CHUNK_TASKS]
            channel = self._channel(who, np.tile(top, (len(who), 1)))
            doubt = np.full((len(who), 2), 0.5)
            worth[start : start + ASK_CHUNK_TASKS] = gain_rate(
                doubt, np.zeros((len(who), 2)), np.zeros(len(who)), channel, 0.0, two_labels=k == 2
            )
        price = np.maximum(self.prices, LEAST_COST) if self.prices.any() else np.ones(len(every))
        return np.argsort(-worth / price, kind="stable")[:number]

    def _channel(self, worker: Codes, pair: Codes) -> Floats:
        """Return how often workers, [n] (-1 for an unknown one), give two labels where these are true, [n, 2 given, 2 true].

        Every worker is lent five votes of the mean worker, as for honest confidence.
        """
        known, there = self.learned.knowledge, self._known_worker
        lent = PSEUDO_VOTES_PER_WORKER * self.mean_worker[pair[:, :, None], pair[:, None, :]]
        who = np.where(worker >= 0, there[np.maximum(worker, 0)] if len(there) else -1, -1)
        met = known.by_worker(known.counts) if known.n_rows else np.zeros((max(known.n_workers, 1), known.n_labels))
        total = np.where((who >= 0)[:, None], np.take_along_axis(met[np.maximum(who, 0)], pair, axis=1), 0.0)
        votes = np.zeros(lent.shape)
        for given in (0, 1):
            row = np.where(who >= 0, known.row_of(np.maximum(who, 0), pair[:, given]), -1)
            found = np.flatnonzero(row >= 0)
            votes[found, given] = np.take_along_axis(known.counts[row[found]], pair[found], axis=1)
        out: Floats = (votes + lent) / (total + PSEUDO_VOTES_PER_WORKER)[:, None, :]
        return out

    @cached_property
    def _known_worker(self) -> Codes:
        """The code of each worker of the votes among the workers that the model knows, [workers]."""
        return match_ids(self.result.votes.workers, self.learned.knowledge.workers)

    def _probabilities(self, codes: Codes) -> Floats:
        """Return the reported probabilities of tasks, [tasks, K]."""
        out = np.zeros((len(codes), self.result.votes.n_labels))
        for cut, part in probability_pieces(self.result.fit, self.result.session):
            here = np.flatnonzero((codes >= cut.start) & (codes < cut.start + len(part)))
            out[here] = part[codes[here] - cut.start]
        return out

    def _label_shares(self) -> Floats:
        """Return how many tasks have each label, as shares, [K]."""
        counts = self.learned.knowledge.class_counts
        exists = self.mean_worker.sum(axis=0) > 0
        out: Floats = np.where(exists, counts + 1.0, 0.0) / max(float((counts + 1.0)[exists].sum()), 1.0)
        return out

    def _find_unvoted(self, limit: int | None) -> RankedTasks:
        """Return tasks that have nothing but abstentions, as codes -1, -2, …: their first vote is worth most."""
        number = len(self.result.votes.unvoted)
        number = number if limit is None else min(number, limit)
        code = -1 - np.arange(number)
        if not number:
            return RankedTasks(code, np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
        gain, worker = first_vote_right(self._label_shares(), self.mean_worker), 0
        if self.candidates is not None:
            worker = int(self._ablest(1)[0])
        return RankedTasks(code, np.full(number, gain), np.full(number, worker), np.full(number, self.prices[worker]))

    def frame(self, ranked: RankedTasks, chosen: Codes) -> pl.DataFrame:
        """Return the chosen tasks as a frame, in this order."""
        votes, outcome = self.result.votes, self.result.fit.outcome
        code = ranked.code[chosen]
        has = code >= 0
        at = np.where(has, code, 0)
        nothing = np.zeros(len(at), np.int64)
        there = votes.n_tasks > 0
        label = np.where(has, figures_at(outcome.labels, at) if there else nothing, -1)
        confidence = figures_at(outcome.confidence, at) if there else nothing.astype(np.float64)
        number = np.array([votes.votes_on(one) for one in code[has].tolist()], np.int64)
        counted = nothing.copy()
        counted[has] = number
        columns = {
            "task": self._ids(code),
            **({} if self.candidates is None else {"worker": column(self.candidates, ranked.worker[chosen])}),
            "expected_gain": numbers(ranked.gain[chosen]),
            "label": column(votes.labels, label),
            "confidence": pl.select(pl.when(numbers(has)).then(numbers(confidence))).to_series(),
            "votes": numbers(counted),
            **({} if self.cost is None else {"cost": numbers(ranked.cost[chosen])}),
        }
        return pl.DataFrame(columns)

    def _ids(self, code: Codes) -> pl.Series:
        """Return the ids of tasks, those without votes too."""
        votes = self.result.votes
        ids = pl.concat([column(votes.unvoted.take(-1 - code[code < 0])), column(votes.tasks.take(code[code >= 0]))])
        order = np.concatenate([np.flatnonzero(code < 0), np.flatnonzero(code >= 0)])
        return ids.gather(numbers(np.argsort(order)))
