"""Do workers answer alike: agreement beyond chance of every two, those who are alike side by side, rings among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.data.weights import unweighted
from adjudge.evaluation.agreement.pairs import VotePairs, figures, pair_tables
from adjudge.report import words
from adjudge.results.groups import as_members
from adjudge.results.result import Result

QUESTION: Final = "Do they answer alike?"
MAX_WORKERS: Final = 60  # of a matrix
MAX_PAIRS: Final = 3_000_000  # pairs of votes that are compared: a second or so; of more tasks every n-th is looked at
ALL_VOTE: Final = 0.95  # share of the workers on a task from which a crowd is a panel: everybody judges everything
FEW_EFFECTIVE: Final = 2 / 3  # of the votes on a task, below which workers are said to err together
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AgreementView:
    """Some workers in an order in which those who answer alike are neighbours."""

    workers: tuple[str, ...]  # [n] in the order of the matrix
    codes: Integers  # [n] of these workers
    kappa: Floats  # [n, n] Cohen's kappa; 1 with oneself, NaN where no task is shared or chance explains all
    agreement: Floats  # [n, n] share of shared tasks with the same answer
    shared: Integers  # [n, n] shared tasks
    ring: Integers  # [n] number of the ring that a worker is in, neighbours in one ring; -1: in none
    n_workers: int  # of all
    ring_sizes: tuple[int, ...]  # of all rings, the largest first
    votes_per_task: float  # on the task of a vote; NaN where it was not measured
    effective_votes: float  # that shared error leaves of them
    sampled: bool  # whether only some tasks were compared

    @property
    def cells(self) -> pl.DataFrame:
        """A, b, row, column, shared, agreement, kappa: a line for every two workers that share a task, both ways."""
        row, col = np.nonzero(self.shared)
        names = pl.Series(self.workers, dtype=pl.String)
        return pl.DataFrame(
            {
                "a": names.gather(row),
                "b": names.gather(col),
                "row": row,
                "column": col,
                "shared": self.shared[row, col],
                "agreement": self.agreement[row, col],
                "kappa": self.kappa[row, col],
            }
        ).with_columns(pl.col("kappa").fill_nan(None))

    @property
    def rings(self) -> list[tuple[int, int]]:
        """Where each ring begins and ends in the order of the matrix."""
        spans = []
        for number in np.unique(self.ring[self.ring >= 0]).tolist():
            where = np.flatnonzero(self.ring == number)
            spans.append((int(where[0]), int(where[-1]) + 1))
        return spans

    @property
    def sentence(self) -> str:
        """What the picture shows here."""
        if self.n_workers < 2:
            return "There is one worker: nobody to agree with."
        if not self.shared.any():
            return "No two workers judged the same task, so nobody can be compared: ask several workers per task."
        weight, sizes = self.weight_sentence(), self.ring_sizes
        alike = ""
        if len(sizes) == 1:
            alike = f" {words.count(sizes[0])} workers answer alike beyond what the labels explain."
        elif sizes:
            most = f"{words.count(len(sizes))} rings, the largest of {words.count(sizes[0])} workers,"
            alike = f" {most} answer alike beyond what the labels explain."
        return (weight or self._mean_sentence()) + alike

    def weight_sentence(self) -> str:
        """Return how many independent votes those on a task are worth; empty where that was not measured."""
        votes, effective = self.votes_per_task, self.effective_votes
        if votes != votes or effective != effective:
            return ""
        if ALL_VOTE * self.n_workers <= votes <= self.n_workers + 0.05:
            what = f"{words.counted(self.n_workers, 'judge')} carry the weight of {words.figure(effective)}"
        else:
            what = f"the {words.figure(votes)} votes on a task carry the weight of {words.figure(effective)} independent ones"
        if effective < FEW_EFFECTIVE * votes:
            return words.sentence(f"{what}: workers err together")
        return words.sentence(what)

    def _mean_sentence(self) -> str:
        upper = np.triu(self.shared, 1) * ~np.isnan(self.kappa)
        if not upper.any():
            return "Workers who share tasks give one label throughout: agreement beyond chance cannot be told."
        mean = float((np.nan_to_num(self.kappa) * upper).sum() / upper.sum())
        return f"Two workers agree {words.percent(max(mean, 0.0))} of the way from chance to always."


def agreement(result: Result, *, limit: int = MAX_WORKERS) -> AgreementView:
    """Return the view of how far workers agree.

    - `result`: of any model, whose votes are in memory.
    - `limit`: how many workers the matrix has at most: those in rings first, then those with most votes.

    >>> import adjudge as adj
    >>> view = agreement(adj.aggregate(adj.simulate(tasks=400, workers=9, votes_per_task=9, seed=1).votes))
    >>> view.sentence, view.kappa.shape
    ('9 judges carry the weight of 8.8.', (9, 9))
    """
    people = result if result.grouping is None else as_members(result)
    votes = unweighted(people.votes)
    ring = _rings(people)
    number = votes.by_worker(votes.votes_per_row())
    whole = np.where(ring >= 0, -1 - ring.max(initial=0) + ring, -number)  # rings stay together
    chosen = np.sort(np.lexsort((np.arange(len(ring)), whole, ring < 0))[:limit])
    kappa, same, shared, sampled = _pairs(votes, chosen)
    order = _clustered(kappa, ring[chosen])
    chosen, square = chosen[order], np.ix_(order, order)
    facts = result.facts
    return AgreementView(
        workers=tuple(words.name(votes.workers[int(w)]) for w in chosen),
        codes=chosen,
        kappa=kappa[square],
        agreement=same[square],
        shared=shared[square],
        ring=ring[chosen],
        n_workers=votes.n_workers,
        ring_sizes=tuple(sorted(np.unique(ring[ring >= 0], return_counts=True)[1].tolist(), reverse=True)),
        votes_per_task=_number(facts.get("votes_per_task")),
        effective_votes=_number(facts.get("effective_votes")),
        sampled=sampled,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _rings(people: Result) -> Integers:
    """Return the number of the ring of each worker, [workers]; -1 for workers in none."""
    found, out = people.judged.assessment, np.full(people.votes.n_workers, -1, np.int64)
    if found.proofs:
        for number, proof in enumerate(found.proofs):
            out[proof.members] = number
        return out
    for worker in np.flatnonzero(found.answers_like >= 0).tolist():  # partners are in one ring
        partner = int(found.answers_like[worker])
        known = max(int(out[worker]), int(out[partner]))
        if out[worker] >= 0 and out[partner] >= 0 and out[worker] != out[partner]:
            out[out == min(int(out[worker]), int(out[partner]))] = known
        out[[worker, partner]] = known if known >= 0 else int(out.max()) + 1
    return out


def _pairs(votes: Votes, chosen: Integers) -> tuple[Floats, Floats, Integers, bool]:
    """Return kappa, agreement and shared tasks of every two chosen workers, [n, n] each, and whether tasks were sampled."""
    n = len(chosen)
    left_out = np.ones(votes.n_workers, np.bool_)
    left_out[chosen] = False
    some = votes if not left_out.any() else votes.without_workers(left_out)[0]
    size = np.diff(some.task_ptr)
    number = int((size * (size - 1) // 2).sum())
    every = -(-number // MAX_PAIRS)
    if every > 1:
        some = _every(some, every)
    kappa, same, shared = np.full((n, n), np.nan), np.full((n, n), np.nan), np.zeros((n, n), np.int64)
    if len(some) and some.n_workers == n:
        found = figures(pair_tables(VotePairs(some)))
        for out, values in ((kappa, found.kappa), (same, found.agreement), (shared, found.shared)):
            out[found.a, found.b] = out[found.b, found.a] = values
    at = np.arange(n)
    kappa[at, at] = same[at, at] = 1.0
    return kappa, same, shared, every > 1


def _every(votes: Votes, step: int) -> Votes:
    """Return the votes on every so many-th task, with the same workers and rows."""
    tasks = np.arange(0, votes.n_tasks, step)
    size = np.diff(votes.task_ptr)[tasks]
    ptr = np.concatenate([[0], np.cumsum(size)])
    where = np.repeat(votes.task_ptr[tasks] - ptr[:-1], size) + np.arange(ptr[-1])
    return replace(votes, task_ptr=ptr, row=votes.row[where], tasks=votes.tasks.take(tasks))


def _clustered(kappa: Floats, ring: Integers) -> Integers:
    """Return an order of workers, [n], in which those who agree are neighbours: average linkage, rings first of all."""
    clusters = [np.flatnonzero(ring == number).tolist() for number in np.unique(ring[ring >= 0])]
    clusters += [[worker] for worker in np.flatnonzero(ring < 0).tolist()]
    near = np.nan_to_num(kappa, nan=0.0)
    between = np.array([[near[np.ix_(a, b)].mean() for b in clusters] for a in clusters]).reshape(len(clusters), len(clusters))
    np.fill_diagonal(between, -np.inf)
    while len(clusters) > 1:
        i, j = sorted(divmod(int(np.argmax(between)), len(clusters)))
        one, other = clusters[i], clusters[j]
        joined = max(  # turned so that the nearest ends meet
            ((a, b) for a in (one, one[::-1]) for b in (other, other[::-1])), key=lambda ends: near[ends[0][-1], ends[1][0]]
        )
        size = np.array([len(one), len(other)])
        mean = (between[i] * size[0] + between[j] * size[1]) / size.sum()
        between[i], between[:, i] = mean, mean
        between[i, i] = -np.inf
        clusters[i] = [*joined[0], *joined[1]]
        del clusters[j]
        between = np.delete(np.delete(between, j, axis=0), j, axis=1)
    return np.array(clusters[0] if clusters else [], np.int64)
