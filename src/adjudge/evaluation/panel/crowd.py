"""What single workers of a crowd add, where nobody saw most of the tasks: measured on the tasks that each has voted on.

Of the other votes on such a task a random part is kept, and majority vote decides with and without the worker's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from adjudge.data.votes import Votes
from adjudge.evaluation.panel.judges import ADDS, NOT_LOOKED_AT, NOTHING, TOO_FEW, UNCLEAR, Judge, points
from adjudge.evaluation.panel.sampling import Flags, Integers, kept, vote_tasks
from adjudge.evaluation.panel.yardstick import Floats, Interval, Yardstick, majority_shares
from adjudge.results.result import Result

MIN_VOTES: Final = 20  # on tasks that count, below which nothing is said of a worker
MAX_JUDGED: Final = 60  # workers, those with most votes
DRAWS: Final = 20  # of the other votes on a worker's tasks


def judged(result: Result, yardstick: Yardstick, within: float, seed: int, step: Callable[[str], None]) -> list[Judge]:
    """Return what each worker of a crowd adds, those that add most first, then workers of whom too little is known.

    `result` is the fit of all votes.
    """
    votes = result.votes
    counts, task = np.zeros(votes.n_tasks, np.bool_), vote_tasks(votes)
    counts[yardstick.tasks] = True
    counts &= np.diff(votes.task_ptr) > 1  # where nobody else has voted, nothing can be compared
    worker = votes.row_worker()[votes.row]
    cast = np.bincount(worker[counts[task]], minlength=votes.n_workers)
    order = np.argsort(-cast, kind="stable")
    looked_at = [int(one) for one in order[:MAX_JUDGED] if cast[one] >= MIN_VOTES]
    found = []
    for place, one in enumerate(looked_at):
        step(f"worker {place + 1} of {len(looked_at)}")
        own = np.unique(task[(worker == one) & counts[task]])
        found.append(_judge(result, yardstick, one, own, within, np.random.default_rng([seed, 4, one])))
    found.sort(key=lambda judge: -(judge.adds.value if judge.adds else 0.0))
    for one in (int(code) for code in order if int(code) not in set(looked_at)):
        few = cast[one] < MIN_VOTES
        why = (
            f"{cast[one]} votes on tasks that count, of {MIN_VOTES} needed"
            if few
            else f"not among the {MAX_JUDGED} with most votes"
        )
        found.append(Judge(one, int(cast[one]), TOO_FEW if few else NOT_LOOKED_AT, why))
    return found


def _judge(result: Result, yardstick: Yardstick, worker: int, tasks: Integers, within: float, rng: np.random.Generator) -> Judge:
    """Return what a worker adds on these tasks, [own tasks] codes."""
    votes = result.votes
    position = np.full(votes.n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    at = position[vote_tasks(votes)]
    own = votes.row_worker()[votes.row] == worker
    others = kept(votes, (at >= 0) & ~own)
    without = result.predict(others.votes, threads=1)
    index = np.full(votes.n_tasks, -1)
    index[yardstick.tasks] = np.arange(len(yardstick))
    measure = yardstick.of_some(index[tasks])
    labels = np.full(votes.n_tasks, -1)
    labels[others.tasks] = without.fit.outcome.labels
    all_labels = result.fit.outcome.labels.astype(np.int64)
    lost = measure.gain(measure.shares_of(all_labels) - measure.shares_of(labels), pseudo=1.0)
    gain = _added(votes, at, own, measure, rng)
    number = int(((at >= 0) & own).sum())
    return Judge(worker, number, *_word(gain, lost, within, len(tasks)), gain, lost_without=lost)


def _added(votes: Votes, at: Integers, own: Flags, measure: Yardstick, rng: np.random.Generator) -> Interval:
    """Return what tasks gain by a worker's votes, beside a random part of the others, one at least."""
    n, k = len(measure), votes.n_labels
    here = at >= 0
    cell, other = at[here] * k + votes.row_label[votes.row[here]], ~own[here]
    mine = np.bincount(cell[~other], minlength=n * k).reshape(n, k)
    total, panels = np.zeros((n, k)), []
    for _ in range(DRAWS):
        counts = np.bincount(cell[other][_some(at[here][other], n, rng)], minlength=n * k).reshape(n, k)
        change = majority_shares(counts + mine) - majority_shares(counts)
        total += change / DRAWS
        panels.append(float(measure.right(change).mean()))
    return measure.gain(total, np.array(panels))


def _some(task: Integers, n: int, rng: np.random.Generator) -> Flags:
    """Return a random part of votes, [votes]: of each task any number alike, and one at least; `task` is that of each vote."""
    luck: Floats = rng.random(len(task))
    out: Flags = luck < rng.random(n)[task]
    least = np.full(n, np.inf)
    np.minimum.at(least, task, luck)
    out |= luck == least[task]
    return out


def _word(gain: Interval, lost: Interval, within: float, tasks: int) -> tuple[str, str]:
    """Return what can be said of a worker, and why: a word is said where an interval earns it."""
    said = points(gain)
    if gain.low > 0:
        return ADDS, f"its {tasks} tasks gain {said} beside some of the other votes"
    if gain.high >= within:
        return UNCLEAR, f"its {tasks} tasks gain {said}: they tell no more"
    if lost.low > 0:
        return UNCLEAR, f"its {tasks} tasks gain {said}, but lose {100 * lost.value:.1f} points where all others decide alone"
    return NOTHING, f"its {tasks} tasks gain {said} beside some of the other votes"
