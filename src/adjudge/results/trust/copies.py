"""Workers who copy: pairs that agree beyond what the truth explains, and rings of them, proved task by task.

`find_copies` is the one detector. `result.workers` and `adj.agreement` both show what it finds.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import UNCHECKED_BYTES, free_memory, gib
from adjudge.data.votes import Votes
from adjudge.results.trust import candidates
from adjudge.results.trust.candidates import MIN_CANDIDATE_LABELS, CellBelief
from adjudge.results.trust.posterior import (
    POSTERIOR_BLOCK_CELLS,
    Ballots,
    Belief,
    Flags,
    Floats,
    Integers,
    Kinds,
    Singles,
    VoteComparison,
    compare,
    expected,
    kinds,
    of_labels,
    settle,
    tally,
)

log = logging.getLogger(__name__)
NO_RING: Final = -1
MAX_COPY_SEARCH_CELLS: Final = 1 << 29  # (tasks + rows) x labels
MAX_RING_SEARCHES: Final = 4  # searches, each with the rings found before counted as one voter
FIRST_ALLOWANCE: Final = 3.0  # evidence that members may lack in the first search, when a ring still counts as many voters
MIN_OUTVOTING: Final = 0.2  # share of the workers that may outvote the others
MAX_USUAL_EXCESS: Final = 0.9  # agreement beyond expectation that counts as normal
COPY_PROBABILITY: Final = 0.95  # a worker who copies gives the other's answer with this probability, and otherwise an own one
MIN_VOTE_PAIR_BUDGET: Final = 1 << 20  # pairs of votes to compare, or the number of votes if that is larger
MAX_TASK_VOTES: Final = 256  # votes of one task that are paired with one another, if there are too many pairs
MIN_UNEXPLAINED: Final = np.log(2.0)  # gain of an answer whose probability is about a half or less
MIN_SHARED_UNEXPLAINED: Final = 2  # unexplained answers that two workers must share, if there are too many pairs
MIN_LINK: Final = 1.0  # evidence (in nats) above which two groups are joined
MIN_RING_EVIDENCE: Final = 2.5  # evidence of a ring, beyond the logarithm of the number of possible rings
MIN_MEMBER_EVIDENCE: Final = 1.0  # evidence of a member, beyond the logarithm of the number of workers
MIN_COPIED: Final = 0.8  # share of a member's answers, of those that could have differed, which are the ring's
WEAK_MARGIN: Final = 0.8  # members are removed together whose lack of evidence is at least this share of the worst one's
MAX_LINKED: Final = 3000  # linked workers whose groups are searched


@dataclass(frozen=True, eq=False)
class Copies:
    """Who copies whom, and the conclusions when each ring counts as one voter."""

    ring: Integers  # [workers] the smallest code in the worker's ring; -1 for workers in none
    partner: Integers  # [workers] the member of the ring with the most remarkable agreement; -1 for workers in none
    compared: Flags  # [tasks] tasks of two workers or more, and known ones
    ballots: Ballots  # their votes, each worker once per task
    belief: Belief | CellBelief
    comparison: VoteComparison
    kinds: Kinds

    def labels(self, start: Integers) -> Integers:
        """Return the most probable label of each compared task, [tasks]; the other tasks keep theirs from `start`, [tasks]."""
        out = start.copy()
        out[self.compared] = self.belief.best()
        return out


def find_copies(votes: Votes, labels: NDArray[np.int32], known: Flags | None = None, *, need: int | None = None) -> Copies | None:
    """Return who copies whom, starting from labels, [tasks], of which those `known`, [tasks], are certain.

    Votes on tasks of one worker whose label is not known are left out, and so are repeated votes of a worker on a task:
    they say nothing about who agrees with whom. None if memory does not suffice (`need` bytes); the log says so.
    """
    n, k = votes.n_workers, votes.n_labels
    if not n or not _has_room(votes, sum(search_memory(votes)) if need is None else need):
        return None
    whole = Ballots.of(votes).first_votes()
    informative = whole.informative(known)
    ballots, labels = whole.of_tasks(informative), labels[informative]
    known = None if known is None else known[informative]
    judge = (_ByCells if k >= MIN_CANDIDATE_LABELS else _ByLabels)(ballots, labels, known)
    belief, comparison = judge.settled()
    found = kinds(ballots, comparison)
    chance = expected(ballots, comparison, found)
    ring, shared = np.full(n, NO_RING), SharedTaskPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for search in range(MAX_RING_SEARCHES):
        compared, loss = comparable(ballots, chance)
        shared = pairs(compared, loss, n)
        now = rings(compared, shared, loss, n, 0.0 if search else FIRST_ALLOWANCE)
        is_first = not search and affordable(compared)
        del compared  # arrays as long as the votes are released as soon as possible
        if is_first:
            now = np.where(now >= 0, now, outvoting(ballots))
        if np.array_equal(now, ring):
            break
        ring = now
        del belief, comparison, found  # as long as the rows and votes, like the next ones
        repeats, repeated = same_answers(ballots, ring)
        belief, comparison = judge.settled(~repeats)
        found = kinds(ballots, comparison)
        chance = expected(ballots, judge.compared(repeated), found)
    return Copies(ring, partners(ring, shared), informative, ballots, belief, comparison, found)


class _ByLabels:
    """The posterior over all labels, between passes."""

    def __init__(self, ballots: Ballots, labels: NDArray[np.int32], known: Flags | None) -> None:
        self._ballots, self._known = ballots, known
        self._posterior = of_labels(labels, ballots.panel.n_labels)

    def settled(self, chosen: Flags | None = None) -> tuple[Belief, VoteComparison]:
        """Return what the posterior says to which passes over all votes, or the `chosen` ones, [votes], converge."""
        some = self._ballots if chosen is None else self._ballots.kept(chosen)
        self._posterior = settle(some, self._posterior, self._known, in_place=True)
        self._belief = tally(self._ballots, self._posterior)
        return self._belief, compare(self._ballots, self._belief)

    def compared(self, repeated: Flags) -> VoteComparison:
        """Compare every vote with the others on its task, given which votes are `repeated`, [votes]."""
        return compare(self._ballots, self._belief, repeated)


class _ByCells:
    """The posterior over the labels given on each task, between passes: the same for many labels."""

    def __init__(self, ballots: Ballots, labels: NDArray[np.int32], known: Flags | None) -> None:
        self._ballots, self._known = ballots, known
        self._cells, self._posterior = candidates.start(ballots, labels)

    def settled(self, chosen: Flags | None = None) -> tuple[CellBelief, VoteComparison]:
        """Return what the posterior says to which passes over all votes, or the `chosen` ones, [votes], converge."""
        some = self._ballots if chosen is None else self._ballots.kept(chosen)
        self._posterior = candidates.settle(some, self._cells, self._posterior, self._known)
        self._belief = candidates.tally(self._ballots, self._cells, self._posterior)
        return self._belief, candidates.compare(self._ballots, self._belief)

    def compared(self, repeated: Flags) -> VoteComparison:
        """Compare every vote with the others on its task, given which votes are `repeated`, [votes]."""
        return candidates.compare(self._ballots, self._belief, repeated)


def search_memory(votes: Votes) -> tuple[int, int]:
    """Return about how many bytes `find_copies` returns, and how many more it needs at its peak."""
    n, rows, tasks, workers, k = len(votes), votes.n_rows, votes.n_tasks, votes.n_workers, votes.n_labels
    kept = k * rows if k * rows <= POSTERIOR_BLOCK_CELLS else 0  # counts are kept, or counted again when they are needed
    belief = 4 * k * tasks + 8 * k * workers + 8 * kept
    # Probabilities of some labels in float32, posteriors of some tasks, and the sums for the mean worker.
    settling = (
        4 * min(k * (rows + workers), POSTERIOR_BLOCK_CELLS) + 4 * min(k * tasks, POSTERIOR_BLOCK_CELLS) + 6 * 8 * k * k + 40 * n
    )
    size = np.diff(votes.task_ptr)
    if k >= MIN_CANDIDATE_LABELS:  # links between votes and the labels given on their tasks
        links = int((size * np.minimum(size, k)).sum())
        belief, settling = candidates.LINK_BYTES * links, candidates.LINK_BYTES * links + 40 * n
    # Pairs of votes, and of workers; if there are too many of the former, only some workers are compared.
    every, budget, of_workers = int((size * (size - 1) // 2).sum()), max(MIN_VOTE_PAIR_BUDGET, n), workers * workers // 2
    if every <= budget:
        comparing = 66 * every + 60 * min(every, of_workers)
    else:
        comparing = 66 * budget + 60 * min(budget, of_workers) + 85 * n if of_workers <= every else 40 * budget
    comparing += 60 * n + 100 * workers + 50 * rows + 24 * tasks
    return belief, max(settling, comparing)


def outvoting(ballots: Ballots) -> Integers:
    """Return large groups that agree suspiciously often, without regard to the truth, [workers]; -1 for workers in none.

    A ring that outvotes the others determines the labels, which then explain its agreement. Here it is only suspected.
    Once it counts as one voter, its agreement beyond the truth must prove it, as with any ring.
    """
    workers = ballots.panel.n_workers
    compared, loss = comparable(ballots, by_agreement(ballots))
    ring = rings(compared, pairs(compared, loss, workers), loss, workers, FIRST_ALLOWANCE)
    size = np.bincount(ring[ring >= 0], minlength=workers)
    return np.where((ring >= 0) & (size[ring] >= MIN_OUTVOTING * workers), ring, NO_RING)


def _has_room(votes: Votes, need: int) -> bool:
    """Return whether verdicts fit in `need` bytes; log a warning if not."""
    size = votes.n_tasks, votes.n_rows, votes.n_labels
    if votes.n_labels < MIN_CANDIDATE_LABELS and (votes.n_tasks + votes.n_rows) * votes.n_labels > MAX_COPY_SEARCH_CELLS:
        log.warning("no intervals, verdicts and copies: %d tasks and %d rows x %d labels are too many", *size)
        return False
    if need > UNCHECKED_BYTES and need > (have := free_memory()):
        log.warning(
            "no intervals, verdicts and copies: they need about %s (%d tasks and %d rows x %d labels), but %s are free: "
            "merge rare labels, drop workers with few votes, or use a machine with more memory",
            *(gib(need), *size, gib(have)),
        )
        return False
    return True


class ComparedVotes(NamedTuple):
    """Votes whose answers are compared, [votes] each, sorted by task; each worker once per task."""

    task: Integers
    worker: Integers
    label: Integers
    chance: Floats  # the probability of the answer, given those of the others
    gain: Floats  # the log-likelihood ratio of copying, where another gave the same answer


class SharedTaskPairs(NamedTuple):
    """Workers who share tasks, [pairs] each."""

    first: Integers
    second: Integers
    evidence: Floats  # log-likelihood ratio: one copies the other, against both answering by themselves


def comparable(ballots: Ballots, chance: Singles) -> tuple[ComparedVotes, float]:
    """Return (the votes, each with its chance; the log-likelihood ratio of a disagreement).

    `chance`, [votes], is the probability of each vote given the others. Answers may agree for reasons that no model
    sees, such as tasks that mislead. So the crowd's mean excess of agreement is treated as normal.
    """
    task, worker, given = ballots.task(), ballots.worker(), ballots.label().astype(np.int64)
    expected = chance.astype(np.float64)
    usual = usual_excess(task, given, expected)
    gain = np.log((1.0 - COPY_PROBABILITY + COPY_PROBABILITY / expected) / (1.0 - usual + usual / expected))
    return ComparedVotes(task, worker, given, expected, gain), float(np.log((1.0 - COPY_PROBABILITY) / (1.0 - usual)))


def usual_excess(task: Integers, label: Integers, chance: Floats) -> float:
    """Return the share of answers that are alike beyond expectation, over neighbouring votes, [votes] each.

    >>> usual_excess(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), np.full(4, 0.5))
    0.0
    """
    both = task[1:] == task[:-1]
    alike, expected = (label[1:] == label[:-1])[both], 0.5 * (chance[1:] + chance[:-1])[both]
    left = float((1.0 - expected).sum())
    return float(np.clip((alike - expected).sum() / left, 0.0, MAX_USUAL_EXCESS)) if left > 0 else 0.0


def by_agreement(ballots: Ballots) -> Singles:
    """Return the share of votes on the same task that agree as the probability of every vote, [votes]; it needs no truth."""
    task, label = ballots.task(), ballots.label()
    both = task[1:] == task[:-1]
    usual = float((label[1:] == label[:-1])[both].mean()) if both.any() else 0.5
    return np.full(len(task), np.clip(usual, 0.05, 0.95), np.float32)


def affordable(compared: ComparedVotes) -> bool:
    """Return whether all pairs of votes on the same task can be compared."""
    return _number(compared) <= max(MIN_VOTE_PAIR_BUDGET, len(compared.task))


def pairs(compared: ComparedVotes, loss: float, workers: int, budget: int | None = None) -> SharedTaskPairs:
    """Return the pairs of workers that share tasks, with the evidence that one copies the other.

    If there are more than `budget` pairs of votes (`MIN_VOTE_PAIR_BUDGET`, or as many as votes), only workers who share
    unexplained answers are compared.
    """
    budget = max(MIN_VOTE_PAIR_BUDGET, len(compared.task)) if budget is None else budget
    if _number(compared) > budget:
        log.info("too many pairs of votes: only workers who share %d unexplained answers are compared", MIN_SHARED_UNEXPLAINED)
        odd = _thin(_select(compared, compared.gain >= MIN_UNEXPLAINED), budget)
        key, same, _ = _list_pairs(odd, workers)
        pair, number = np.unique(key[same], return_counts=True)
        suspects = np.zeros(workers, np.bool_)
        suspects[np.concatenate([pair // workers, pair % workers])[np.tile(number >= MIN_SHARED_UNEXPLAINED, 2)]] = True
        compared = _thin(_select(compared, suspects[compared.worker]), budget)
    key, same, gain = _list_pairs(compared, workers)
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    evidence = np.add.reduceat(np.where(same, gain, loss)[order], starts) if len(key) else np.zeros(0)
    return SharedTaskPairs(key[starts] // workers, key[starts] % workers, evidence)


def _select(compared: ComparedVotes, chosen: Flags) -> ComparedVotes:
    task, worker, label, chance, gain = compared
    return ComparedVotes(task[chosen], worker[chosen], label[chosen], chance[chosen], gain[chosen])


def _sizes(task: Integers) -> tuple[Integers, Integers]:
    """Return (where each task begins, how many votes it has) in a sorted list of tasks."""
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    return starts, np.diff(starts, append=len(task))


def _number(compared: ComparedVotes) -> int:
    """Return the number of pairs of votes on the same task."""
    _, size = _sizes(compared.task)
    return int((size * (size - 1) // 2).sum())


def _thin(compared: ComparedVotes, budget: int) -> ComparedVotes:
    """Return votes whose pairs fit the budget: the least explained ones of tasks with many votes, in as many tasks as fit."""
    starts, size = _sizes(compared.task)
    if size.max(initial=0) > MAX_TASK_VOTES:
        log.info("tasks with more than %d votes: only their least explained answers are compared", MAX_TASK_VOTES)
        rank = np.arange(len(compared.task)) - np.repeat(starts, size)
        order = np.lexsort([-compared.gain, compared.task])
        kept = np.zeros(len(compared.task), np.bool_)
        kept[order[rank < MAX_TASK_VOTES]] = True
        compared = _select(compared, kept)
        starts, size = _sizes(compared.task)
    cost = size * (size - 1) // 2
    if cost.sum() > budget:
        stirred = np.argsort(compared.task[starts] * 2654435761 % 2**32, kind="stable")
        fits = np.zeros(len(size), np.bool_)
        fits[stirred[np.cumsum(cost[stirred]) <= budget]] = True
        log.warning("copies are searched in %d of %d tasks: there are too many pairs of votes", fits.sum(), len(size))
        compared = _select(compared, np.repeat(fits, size))
    return compared


def _list_pairs(compared: ComparedVotes, workers: int) -> tuple[Integers, Flags, Floats]:
    """Return (pair of workers as one number, whether they agree, the mean gain) of each pair of votes, [pairs of votes]."""
    starts, size = _sizes(compared.task)
    left = np.repeat(starts + size, size) - np.arange(len(compared.task))  # votes of the task from here on
    here, keys, sames, gains = np.flatnonzero(left > 1), [], [], []
    lag = 1
    while len(here):
        other = here + lag
        keys.append(compared.worker[here] * workers + compared.worker[other])  # rows are sorted, so the first is the smaller
        sames.append(compared.label[here] == compared.label[other])
        gains.append(0.5 * (compared.gain[here] + compared.gain[other]))
        lag += 1
        here = here[left[here] > lag]
    if not keys:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)
    return np.concatenate(keys), np.concatenate(sames), np.concatenate(gains)


class Proof(NamedTuple):
    """The evidence for candidate rings and their members, task by task."""

    member: Floats  # [workers] evidence that the worker belongs to the ring
    copied: Floats  # [workers] share of answers that are the ring's, of those that could have differed
    ring: Floats  # [rings] evidence for the whole ring


def rings(compared: ComparedVotes, found: SharedTaskPairs, loss: float, workers: int, allowance: float = 0.0) -> Integers:
    """Return the ring of each worker, [workers]: the smallest code among its members; -1 for workers in none.

    `allowance` is evidence that each member may lack.
    """
    ring = np.full(workers, NO_RING)
    need = np.log(max(workers, 2)) + MIN_MEMBER_EVIDENCE - allowance
    for group in candidate_rings(found, workers, need):
        ring[group] = group.min()
    tried = ring.copy()  # those whose ring is not proved yet
    while (tried >= 0).any():
        weakest = _weakest(tried, prove(compared, tried, loss), need, workers, allowance)
        tried[~np.isin(tried, ring[weakest])] = NO_RING
        tried[weakest] = ring[weakest] = NO_RING
    return _renumber(ring)


def partners(ring: Integers, found: SharedTaskPairs) -> Integers:
    """Return for each worker in a ring the member with the strongest evidence of copying, [workers]; -1 for the others."""
    out = ring.copy()
    members = np.flatnonzero(ring >= 0)
    order = members[np.argsort(ring[members], kind="stable")]
    second = order[1:][ring[order[1:]] == ring[order[:-1]]]
    out[ring[second][::-1]] = second[::-1]  # the worker with the smallest code points at the next one
    both = (ring[found.first] >= 0) & (ring[found.first] == ring[found.second])
    one = np.concatenate([found.first[both], found.second[both]])
    other = np.concatenate([found.second[both], found.first[both]])
    rising = np.argsort(np.tile(found.evidence[both], 2), kind="stable")  # the strongest comes last, and overwrites the others
    out[one[rising]] = other[rising]
    return out


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


def candidate_rings(found: SharedTaskPairs, workers: int, need: float) -> list[Integers]:
    """Return groups of workers, [members] each, that pairwise evidence joins.

    Greedy: the two groups with the largest sum of evidence between them are joined, until no sum is above `MIN_LINK`.
    One disagreement counts as much as several agreements, so groups do not merge by chance.
    """
    strong = found.evidence > MIN_LINK
    while True:  # a worker whose links together do not suffice belongs to no ring
        linked = np.concatenate([found.first[strong], found.second[strong]])
        hope = np.bincount(linked, np.tile(found.evidence[strong], 2), minlength=workers)
        able = hope >= need
        still = strong & able[found.first] & able[found.second]
        if still.sum() == strong.sum():
            break
        strong = still
    out: list[Integers] = []
    within = able[found.first] & able[found.second]
    part = _parts(workers, found.first[strong], found.second[strong])
    within &= part[found.first] == part[found.second]
    first, second, evidence = found.first[within], found.second[within], found.evidence[within]
    order = np.argsort(part[first], kind="stable")
    bounds = np.flatnonzero(np.diff(part[first][order], prepend=-1, append=-2)) if len(order) else np.zeros(0, np.int64)
    for start, end in zip(bounds, bounds[1:], strict=False):
        some = order[start:end]
        members = np.unique(np.concatenate([first[some], second[some]]))
        if len(members) > MAX_LINKED:
            log.warning("copies are searched among the %d most suspicious of %d linked workers", MAX_LINKED, len(members))
            members = np.sort(members[np.argsort(-hope[members], kind="stable")[:MAX_LINKED]])
            some = some[np.isin(first[some], members) & np.isin(second[some], members)]
        ends = np.searchsorted(members, first[some]), np.searchsorted(members, second[some])
        out += [members[group] for group in join_greedily(len(members), *ends, evidence[some])]
    return out


def join_greedily(n: int, first: Integers, second: Integers, evidence: Floats) -> list[Integers]:
    """Return the groups of two and more that greedy joining makes of n workers, from the evidence of each pair.

    >>> [g.tolist() for g in join_greedily(3, np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([4.0, 3.0, -5.0]))]
    [[0, 1]]
    """
    between = np.zeros((n, n))
    between[first, second] = between[second, first] = evidence
    np.fill_diagonal(between, -np.inf)
    groups: list[list[int]] = [[one] for one in range(n)]
    best = between.argmax(axis=1)
    top = between[np.arange(n), best]
    while n and top[a := int(top.argmax())] > MIN_LINK:
        b = int(best[a])
        groups[a] += groups[b]
        groups[b] = []
        between[a] += between[b]
        between[a, [a, b]] = -np.inf
        between[b] = between[:, b] = -np.inf
        between[:, a] = between[a]
        stale = np.flatnonzero((best == a) | (best == b) | (between[:, a] > top))
        stale = np.union1d(stale, [a, b])
        best[stale] = between[stale].argmax(axis=1)
        top[stale] = between[stale, best[stale]]
    return [np.array(sorted(group)) for group in groups if len(group) > 1]


def prove(compared: ComparedVotes, ring: Integers, loss: float) -> Proof:
    """Return the evidence for candidate rings, [workers]: every answer compared with the other members' on the same task.

    An answer counts once, however many members gave it. Of m members on a task m - 1 count for the ring: one of them
    did not copy.
    """
    some = np.flatnonzero(ring[compared.worker] >= 0)
    worker, label, gain, expected = compared.worker[some], compared.label[some], compared.gain[some], compared.chance[some]
    key = compared.task[some] * len(ring) + ring[worker]
    _, group, present = np.unique(key, return_inverse=True, return_counts=True)
    labels = int(label.max(initial=0)) + 1
    _, answer, alike = np.unique(group * labels + label, return_inverse=True, return_counts=True)
    others, agreeing = present[group] - 1, alike[answer] - 1
    together = others > 0
    share = np.where(together, agreeing / np.maximum(others, 1), 0.0)
    evidence = np.where(together, share * gain + (1.0 - share) * loss, 0.0)
    left = np.where(together, 1.0 - expected, 0.0)
    beyond = np.where(together, share - expected, 0.0)
    n = len(ring)
    with np.errstate(invalid="ignore", divide="ignore"):
        copied = np.bincount(worker, beyond, minlength=n) / np.bincount(worker, left, minlength=n)
    return Proof(
        np.bincount(worker, evidence, minlength=n).astype(np.float64),
        np.nan_to_num(copied),
        np.bincount(ring[worker], evidence * others / (others + 1), minlength=n).astype(np.float64),
    )


def same_answers(ballots: Ballots, ring: Integers) -> tuple[Flags, Flags]:
    """Return, [votes] each: whether a vote repeats one of its ring on the task; whether it repeats one or is repeated."""
    of_vote = ring[ballots.row_worker][ballots.row]
    repeats, shared = np.zeros(len(of_vote), np.bool_), np.zeros(len(of_vote), np.bool_)
    some = np.flatnonzero(of_vote >= 0)
    key = (ballots.task()[some] * len(ring) + of_vote[some]) * ballots.panel.n_labels + ballots.label()[some]
    _, first, group, number = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    shared[some] = number[group] > 1
    repeats[some] = True
    repeats[some[first]] = False
    return repeats, shared


def _weakest(ring: Integers, proof: Proof, need: float, workers: int, allowance: float) -> Integers:
    """Return who is removed: the weakest members of each ring that has members too weak, or all of a ring without proof."""
    members = np.flatnonzero(ring >= 0)
    size = np.bincount(ring[members], minlength=len(ring))
    margin = np.minimum(proof.member[members] - need, 10.0 * (proof.copied[members] - MIN_COPIED))
    worst = np.zeros(len(ring))
    np.minimum.at(worst, ring[members], margin)
    weak = members[margin < WEAK_MARGIN * worst[ring[members]]]
    ring_codes = np.flatnonzero(size > 0)
    need_of_ring = _log_choose(workers, size[ring_codes]) + MIN_RING_EVIDENCE - allowance * size[ring_codes]
    unproved = ring_codes[proof.ring[ring_codes] < need_of_ring]
    single = ring_codes[size[ring_codes] < 2]
    removed = np.concatenate([single, unproved[~np.isin(unproved, ring[weak])]])
    return np.union1d(weak, members[np.isin(ring[members], removed)])


def _log_choose(n: int, k: Integers) -> Floats:
    """Return the logarithm of n over k, [k]: the number of possible rings of k."""
    return np.array([math.lgamma(n + 1) - math.lgamma(one + 1) - math.lgamma(n - one + 1) for one in k.tolist()])


def _parts(n: int, first: Integers, second: Integers) -> Integers:
    """Return the connected part of each of n workers, [n]: the smallest code in it."""
    part = np.arange(n)
    while True:
        least = np.minimum(part[first], part[second])
        before = part.copy()
        np.minimum.at(part, first, least)
        np.minimum.at(part, second, least)
        part = part[part]
        if np.array_equal(before, part):
            return part


def _renumber(ring: Integers) -> Integers:
    """Return rings named by the smallest code that is left in them, [workers]."""
    out, members = ring.copy(), np.flatnonzero(ring >= 0)
    _, first, group = np.unique(ring[members], return_index=True, return_inverse=True)
    out[members] = members[first][group]
    return out
