"""What each judge adds: to random panels that already have the judge most like it, and to all the others together.

The first decides the word. Panels of up to a dozen other judges are drawn, with the judge that this one agrees with most always
among them, and decided by majority vote, ties shared. So a copy adds nothing to its original, and the measurement does not
depend on how a model weighs a judge.

In a crowd, where nobody saw most of the tasks, a worker is measured on the tasks that it has voted on. Of the other votes on such
a task a random part is kept, and majority vote decides with and without the worker's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.engines.registry import AutoEngine
from adjudge.errors import InputError
from adjudge.evaluation.inputs import VoteSubset, subset, vote_tasks
from adjudge.evaluation.intervals import Estimate, Flags, Floats, Integers
from adjudge.evaluation.panel.yardstick import Decider, Yardstick, chunks, independent_votes, majority_shares
from adjudge.io.frames import column
from adjudge.results.result import Result
from adjudge.results.trust.copies import NO_RING, find_copies

Counts = NDArray[np.int32]  # of votes, [..., tasks, K]
ADDS: Final = "adds"
ADDS_NOTHING: Final = "adds nothing"
UNCLEAR: Final = "unclear"
REPEATS: Final = "repeats"  # another judge, whose answers panels gain by counting twice
TOO_FEW: Final = "too few votes"
NOT_LOOKED_AT: Final = "not looked at"
MAX_OTHERS: Final = 12  # in a panel that a judge is added to
PANELS_PER_JUDGE: Final = 60  # that each judge is added to
SAME_ANSWERS: Final = 0.975  # share of shared tasks: from here on judges who answer alike are treated as one
PANEL_CHUNK_CELLS: Final = 1 << 21  # panels x tasks x labels per block
MIN_JUDGED_VOTES: Final = 20  # on tasks that count; workers with fewer get no verdict
MAX_JUDGED_WORKERS: Final = 60  # workers, those with most votes
MAX_CONFUSION_LINES: Final = 100_000
KNOWN_SHARES: Final[Any] = {"tasks": pl.Int64, "share": pl.Float64, "low": pl.Float64, "high": pl.Float64}
VOTE_DRAWS: Final = 20  # of the other votes on a worker's tasks


@dataclass(frozen=True)
class Judge:
    """What one worker adds."""

    worker: int  # code
    votes: int  # on tasks that count
    word: str
    why: str
    adds: Estimate | None = None  # accuracy gained by panels that the worker joins
    beside: int = NO_RING  # the worker most like it, which these panels have
    lost_without: Estimate | None = None  # accuracy lost where all others decide without it
    effective_votes: float | None = None  # by which the worker raises those of all
    cost: float | None = None  # of a vote
    accuracy: Estimate | None = None  # of the worker's own votes, on tasks with truth


@dataclass(frozen=True, eq=False)
class Alike:
    """Whom each judge is most like."""

    beside: Integers  # [workers] code
    same: Floats  # [workers] share of shared tasks with the same answer
    shared: Integers  # [workers] tasks
    ring: Integers  # [workers] the smallest code in the worker's ring; -1 for workers in none

    def is_twin(self, judge: int) -> bool:
        """Return whether a judge gives the answers of the one most like it, beyond what the truth explains."""
        ring = self.ring[judge]
        return bool(ring != NO_RING and ring == self.ring[self.beside[judge]] and self.same[judge] >= SAME_ANSWERS)


def answers(votes: Votes, tasks: Integers) -> Counts:
    """Return how often each worker gave each label to these tasks, codes in order: [workers, tasks, K]."""
    position = np.full(votes.n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    at, row = position[vote_tasks(votes)], votes.row
    at, row = at[at >= 0], row[at >= 0]
    k = votes.n_labels
    cell = (votes.row_worker()[row] * len(tasks) + at) * k + votes.row_label[row]
    return np.bincount(cell, minlength=votes.n_workers * len(tasks) * k).astype(np.int32).reshape(votes.n_workers, len(tasks), k)


def find_alike(votes: Votes, labels: Integers, codes: Integers | None) -> Alike:
    """Return whom each judge agrees with most; `labels` are those of all votes and `codes` true labels, [tasks] each."""
    n, known = votes.n_workers, None
    if codes is not None:
        known = (codes >= 0) & (codes < votes.n_labels)
        labels = np.where(known, codes, labels)
    same, shared = np.zeros((n, n)), np.zeros((n, n))
    for cut in chunks(votes.n_tasks, PANEL_CHUNK_CELLS // (n * votes.n_labels)):
        said = np.minimum(answers(votes, np.arange(cut.start, cut.stop)), 1).astype(np.float32)
        flat, voted = said.reshape(n, -1), said.max(axis=2)
        same += flat @ flat.T
        shared += voted @ voted.T
    likeness = (same + 1.0) / (shared + 2.0)  # two who share little are not treated as alike
    np.fill_diagonal(likeness, -1.0)
    beside = likeness.argmax(axis=1)
    own = np.arange(n)
    met = shared[own, beside]
    copies = find_copies(votes, labels.astype(np.int32), known)
    ring = np.full(n, NO_RING) if copies is None else copies.ring
    return Alike(beside, same[own, beside] / np.maximum(met, 1.0), met.astype(np.int64), ring)


class KnownAnswers(NamedTuple):
    """What the workers answered on tasks with truth: a line per worker, task and given label."""

    worker: Integers  # [answers] code, ascending
    task: Integers  # [answers] place among the tasks that count, ascending for each worker
    label: Integers  # [answers] code
    share: Floats  # [answers] of the worker's votes on the task

    @classmethod
    def of(cls, votes: Votes, yardstick: Yardstick) -> KnownAnswers:
        """Return the answers to the tasks that count."""
        position = np.full(votes.n_tasks, -1)
        position[yardstick.tasks] = np.arange(len(yardstick))
        at, row = position[vote_tasks(votes)], votes.row
        at, row = at[at >= 0], row[at >= 0]
        worker, label = votes.row_worker()[row].astype(np.int64), votes.row_label[row].astype(np.int64)
        (worker, at, label), times = np.unique(np.stack([worker, at, label]), axis=1, return_counts=True)
        _, pair = np.unique(np.stack([worker, at]), axis=1, return_inverse=True)
        return cls(worker, at, label, times / np.bincount(pair.ravel(), times)[pair.ravel()])

    def of_workers(self) -> Iterator[tuple[int, KnownAnswers]]:
        """Yield the answers of each worker who has some."""
        codes, first = np.unique(self.worker, return_index=True)
        for code, start, end in zip(codes.tolist(), first, [*first[1:], len(self.worker)], strict=True):
            yield code, self.only(slice(start, end))

    def only(self, some: slice | Flags) -> KnownAnswers:
        """Return some of these answers."""
        return KnownAnswers(self.worker[some], self.task[some], self.label[some], self.share[some])

    def mean(self, yardstick: Yardstick, value: Floats) -> Estimate:
        """Return the mean over tasks of a value of each answer, [answers], with its interval."""
        tasks, place = np.unique(self.task, return_inverse=True)
        return yardstick.of_some(tasks).interval(np.bincount(place, self.share * value).astype(np.float64))


def measure_accuracies(votes: Votes, yardstick: Yardstick) -> dict[int, Estimate]:
    """Return how often the votes of each worker are right, by code; only workers who voted on tasks that count are in it."""
    every = KnownAnswers.of(votes, yardstick).of_workers()
    return {code: own.mean(yardstick, yardstick.chance[own.task, own.label]) for code, own in every}


def measure_confusions(votes: Votes, yardstick: Yardstick) -> pl.DataFrame:
    """Return the share of each given label by worker and true label, with intervals; only true labels that a worker met."""
    true = np.where(yardstick.chance.any(axis=1), yardstick.chance.argmax(axis=1), -1)
    lines: list[tuple[int, int, int, int, float, float, float]] = []
    for code, own in KnownAnswers.of(votes, yardstick).of_workers():
        for label in np.unique(true[own.task][true[own.task] >= 0]).tolist():
            met = own.only(true[own.task] == label)
            if len(lines) > MAX_CONFUSION_LINES:
                raise InputError(f"the confusions have more than {MAX_CONFUSION_LINES} lines: give votes of fewer workers")
            for given in range(votes.n_labels):
                share = met.mean(yardstick, (met.label == given).astype(np.float64))
                lines.append((code, label, given, len(np.unique(met.task)), *share.rounded()))
    codes = np.array([line[:3] for line in lines], np.int64).reshape(-1, 3)
    ids = [column(names, codes[:, n]) for n, names in enumerate((votes.workers, votes.labels, votes.labels))]
    rest = pl.DataFrame([line[3:] for line in lines], KNOWN_SHARES, orient="row")
    return pl.DataFrame(dict(zip(("worker", "true", "given"), ids, strict=True))).hstack(rest)


def judge_panel(
    decider: Decider,
    yardstick: Yardstick,
    like: Alike,
    labels: Integers,  # [tasks] of all votes
    reference: Integers,  # [tasks] that errors are measured against
    within: float,
    seed: int,
    step: Callable[[str], None],
) -> list[Judge]:
    """Return what each judge of a panel adds, the one that adds most first."""
    votes = decider.votes
    given = answers(votes, yardstick.tasks)
    panels = RandomPanels.of(given, np.random.default_rng([seed, 3]))
    whole = independent_votes(VoteSubset(votes, np.arange(votes.n_tasks)), reference)
    shares, worker = yardstick.shares_of(labels), votes.row_worker()[votes.row]
    out = []
    for judge in range(votes.n_workers):
        step(f"judge {judge + 1} of {votes.n_workers}")
        beside, others = int(like.beside[judge]), subset(votes, worker != judge)
        lost = yardstick.gain(shares - yardstick.shares_of(decider.labels(others)), pseudo=1.0)
        gain, other = panels.gain(judge, beside, yardstick), votes.workers[beside]
        if like.is_twin(judge):
            why = f"gives the answers of {other} on {like.same[judge]:.0%} of {like.shared[judge]} tasks: keep one of them"
            twice = f"{why}; majority vote would gain {points(gain)} if that one counted twice"
            word, why = (ADDS_NOTHING, why) if gain.low <= 0 else (REPEATS, twice)
        else:
            where = (f"panels that have {other}, the judge most like it,", "panels")
            missed = f"all others lose {points(lost)} without it"
            word, why = _word(gain, lost, within, where, f"{len(yardstick)} tasks", missed)
        more = whole - independent_votes(others, reference)
        out.append(Judge(judge, int(given[judge].sum()), word, why, gain, beside, lost, None if np.isnan(more) else more))
    return sorted(out, key=_order_by_gain)


def _order_by_gain(judge: Judge) -> float:
    return 0.0 if judge.adds is None else -judge.adds


@dataclass(frozen=True, eq=False)
class RandomPanels:
    """Random panels of 1 to `MAX_OTHERS` judges, every size alike, and the votes of each on the tasks that count."""

    given: Counts  # [workers, judged, K] answers
    members: Flags  # [panels, workers]
    counts: Counts  # [panels, judged, K] votes of the members

    @classmethod
    def of(cls, given: Counts, rng: np.random.Generator) -> RandomPanels:
        """Return panels of the workers with these answers."""
        n = len(given)
        size = rng.integers(1, min(n - 1, MAX_OTHERS), size=PANELS_PER_JUDGE, endpoint=True)
        members: Flags = rng.permuted(np.tile(np.arange(n), (PANELS_PER_JUDGE, 1)), axis=1) < size[:, None]
        return cls(given, members, np.stack([given[panel].sum(axis=0, dtype=np.int32) for panel in members]))

    def gain(self, judge: int, beside: int, yardstick: Yardstick) -> Estimate:
        """Return the gain of panels from a judge, by majority vote; all panels leave it out and have `beside` first."""
        n, k = self.counts.shape[1:]
        by_label, by_panel = np.zeros((n, k)), np.zeros(len(self.members))
        less, more = self.members[:, judge, None, None], ~self.members[:, beside, None, None]
        for cut in chunks(n, PANEL_CHUNK_CELLS // (len(self.members) * k)):
            own = self.given[judge, cut]
            counts = self.counts[:, cut] - less * own + more * self.given[beside, cut]
            change = majority_shares(counts + own) - majority_shares(counts)
            by_label[cut] = change.mean(axis=0)
            by_panel += yardstick.of_some(cut).right(change).sum(axis=1) / n
        return yardstick.gain(by_label, by_panel)


def judge_crowd(result: Result, yardstick: Yardstick, within: float, seed: int, step: Callable[[str], None]) -> list[Judge]:
    """Return what each worker of a crowd adds, those that add most first, then workers of whom too little is known.

    `result` is the fit of all votes.
    """
    votes = result.votes
    counts, task = np.zeros(votes.n_tasks, np.bool_), vote_tasks(votes)
    counts[yardstick.tasks] = True
    counts &= np.diff(votes.task_ptr) > 1  # where nobody else has voted, nothing can be compared
    worker = votes.row_worker()[votes.row]
    cast = np.bincount(worker[counts[task]], minlength=votes.n_workers)
    order = np.argsort(-cast, kind="stable").tolist()
    looked_at = [code for code in order[:MAX_JUDGED_WORKERS] if cast[code] >= MIN_JUDGED_VOTES]
    out = []
    for place, code in enumerate(looked_at):
        step(f"worker {place + 1} of {len(looked_at)}")
        own = np.unique(task[(worker == code) & counts[task]])
        out.append(_judge_worker(result, yardstick, code, own, within, np.random.default_rng([seed, 4, code])))
    out.sort(key=_order_by_gain)
    for code in (code for code in order if code not in set(looked_at)):
        few = TOO_FEW, f"{cast[code]} votes on tasks that count, of {MIN_JUDGED_VOTES} needed"
        many = NOT_LOOKED_AT, f"not among the {MAX_JUDGED_WORKERS} with most votes"
        out.append(Judge(code, int(cast[code]), *(few if cast[code] < MIN_JUDGED_VOTES else many)))
    return out


def _judge_worker(
    result: Result, yardstick: Yardstick, worker: int, tasks: Integers, within: float, rng: np.random.Generator
) -> Judge:
    """Return what a worker adds on these tasks, [own tasks] codes."""
    votes = result.votes
    position, index, labels = (np.full(votes.n_tasks, -1) for _ in range(3))
    position[tasks], index[yardstick.tasks] = np.arange(len(tasks)), np.arange(len(yardstick))
    at = position[vote_tasks(votes)]
    own = votes.row_worker()[votes.row] == worker
    others = subset(votes, (at >= 0) & ~own)
    labels[others.tasks] = result.predict(others.votes, engine=AutoEngine(threads=1)).fit.outcome.labels
    measure, every = yardstick.of_some(index[tasks]), result.fit.outcome.labels.astype(np.int64)
    lost = measure.gain(measure.shares_of(every) - measure.shares_of(labels), pseudo=1.0)
    gain, what = _gain_of_votes(votes, at, own, measure, rng), f"its {len(tasks)} tasks"
    missed = f"lose {100 * lost:.1f} points if all others decide alone"
    word, why = _word(gain, lost, within, (what, what), "they", missed, " with some of the other votes")
    return Judge(worker, int(((at >= 0) & own).sum()), word, why, gain, lost_without=lost)


def _gain_of_votes(votes: Votes, at: Integers, own: Flags, measure: Yardstick, rng: np.random.Generator) -> Estimate:
    """Return the gain of tasks from a worker's votes when added to a random part of the others, at least one."""
    n, k = len(measure), votes.n_labels
    inside = at >= 0
    cell, other = at[inside] * k + votes.row_label[votes.row[inside]], ~own[inside]
    mine = np.bincount(cell[~other], minlength=n * k).reshape(n, k)
    total, panels = np.zeros((n, k)), []
    for _ in range(VOTE_DRAWS):
        counts = np.bincount(cell[other][_draw_votes(at[inside][other], n, rng)], minlength=n * k).reshape(n, k)
        change = majority_shares(counts + mine) - majority_shares(counts)
        total += change / VOTE_DRAWS
        panels.append(float(measure.right(change).mean()))
    return measure.gain(total, np.array(panels))


def _draw_votes(task: Integers, n: int, rng: np.random.Generator) -> Flags:
    """Return a random part of votes, [votes]: of each task any number alike, and one at least; `task` is that of each vote."""
    luck: Floats = rng.random(len(task))
    out: Flags = luck < rng.random(n)[task]
    least = np.full(n, np.inf)
    np.minimum.at(least, task, luck)
    out |= luck == least[task]
    return out


def _word(
    gain: Estimate, lost: Estimate, within: float, where: tuple[str, str], tasks: str, missed: str, beside: str = ""
) -> tuple[str, str]:
    """Return the verdict on a judge, and why: a verdict other than "unclear" needs an interval that supports it.

    `where` names what gains, in full and in brief.
    """
    full, brief = where
    if gain.low > 0:
        return ADDS, f"{full} gain {points(gain)}{beside}"
    if gain.high >= within:
        return UNCLEAR, f"{brief} gain {points(gain)}: {tasks} do not show more"
    if lost.low > 0:
        return UNCLEAR, f"{brief} gain {points(gain)}, but {missed}"
    return ADDS_NOTHING, f"{full} gain {points(gain)}{beside}"


def points(gain: Estimate) -> str:
    """Return a gain in points of accuracy, with its interval, as reasons have it."""
    return f"{100 * gain:.1f} points ({100 * gain.low:.1f} to {100 * gain.high:.1f})"
