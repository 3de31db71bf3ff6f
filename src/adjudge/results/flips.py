"""Which votes a label hangs on: what the model that was learned would decide without a vote, or had it been another.

The model decides as it does in `predict`: from the parameters that were learned, which one vote would hardly change.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Parameters
from adjudge.data.exact import LOG_UNIT, whole
from adjudge.data.options import DEFAULTS
from adjudge.data.votes import Panel
from adjudge.engines.shard import hashes
from adjudge.kernels import reference
from adjudge.results.evidence import Codes, Floats, Scores, TaskVotes, split
from adjudge.results.knowledge import Learned, transfer

Flags = NDArray[np.bool_]


Decisions = tuple[Codes, Codes, Codes]  # labels: [tasks] now, [votes] without each vote, and [votes] had each been another


class Said(NamedTuple):
    """What votes say of every label, [votes, K]."""

    finite: Floats
    misses: Floats  # 1 where a vote is impossible under a label


class Flips(NamedTuple):
    """Whether the label of its task would be another, [votes] each."""

    removed: Flags  # without the vote
    changed: Flags  # had it been for the runner-up


def flips_of(some: TaskVotes, runner_up: Codes, learned: Learned) -> Flips:
    """Return on which votes the labels of some tasks hang; `runner_up` has the other label of each task, [tasks], or -1.

    Nothing hangs on a vote where the learned model would decide otherwise anyway, and everything on the only vote of a task.
    """
    has_other = runner_up >= 0
    other = np.where(has_other, runner_up, some.labels)[some.task]
    before, removed, changed = _by_votes(some, other) if learned.scoring == "heads" else _by_lines(some, learned, other)
    settled = (before == some.labels) & has_other
    alone = np.diff(some.task_ptr) == 1
    label, same = some.labels[some.task], (settled & ~alone)[some.task]
    return Flips((removed != label) & same | (alone & has_other)[some.task], (changed != label) & settled[some.task])


def _by_votes(some: TaskVotes, other: Codes) -> Decisions:
    """Return what majority vote decides; `other` is the label that each vote could have been for, [votes]."""
    counted, total, each, weights = some.counted(), some.sums(some.weight), np.arange(len(some.row)), _vote_weights(some)
    now = _picked(some, counted / total[:, None], weights)
    left, total = counted[some.task], total[some.task]
    left[each, some.given] -= some.weight
    fewer = total - some.weight
    removed = _picked(some, left / np.where(fewer > 0, fewer, 1.0)[:, None], weights, some.task)
    left[each, other] += some.weight
    return now, removed, _picked(some, left / total[:, None], weights, some.task)


def _by_lines(some: TaskVotes, learned: Learned, other: Codes) -> Decisions:
    """Return what scores decide; `other` is the label that each vote could have been for, [votes]."""
    params, (own, new) = _learned_lines(some, learned, some.given, other)
    (start, ruled_out), weights = split(params.log_prior), params.log_prior
    finite, misses = some.sums(own.finite) + start, some.sums(own.misses)
    now = _picked(some, Scores(finite, misses, ruled_out > 0).limited(), weights)
    finite, misses = finite[some.task] - own.finite, misses[some.task] - own.misses
    removed = _picked(some, Scores(finite, misses, ruled_out > 0).limited(), weights, some.task)
    finite, misses = finite + new.finite, misses + new.misses
    return now, removed, _picked(some, Scores(finite, misses, ruled_out > 0).limited(), weights, some.task)


def _learned_lines(some: TaskVotes, learned: Learned, *given: Codes) -> tuple[Parameters, list[Said]]:
    """Return the parameters for the workers of these votes, and what each vote says where it gives these labels, [votes]."""
    votes, k = some.result.votes, some.result.votes.n_labels
    present, worker = np.unique(some.worker, return_inverse=True)
    cells = np.unique(np.concatenate([worker * k + labels for labels in given]))
    panel = Panel(
        worker_ptr=np.searchsorted(cells // k, np.arange(len(present) + 1)).astype(np.int64),
        row_label=(cells % k).astype(np.int32),
        workers=votes.workers.take(present),
        labels=votes.labels,
    )
    params = transfer(learned, panel).params
    lines = [params.table[np.searchsorted(cells, worker * k + labels)] * some.weight[:, None] for labels in given]
    return params, [Said(*split(whole(one, LOG_UNIT))) for one in lines]


def _picked(some: TaskVotes, scores: Floats, weights: Floats, task: Codes | None = None) -> Codes:
    """Return the winners of scores, [n, K], ties by the rule of the fit.

    `task` says which task each line is of, [n]; `weights` are of labels, [K], where the more frequent one wins a tie.
    """
    result = some.result
    seed, ties = (result.settings.get(name, getattr(DEFAULTS, name)) for name in ("seed", "ties"))
    key = reference.tie_keys(hashes(reference, result.votes.tasks.take(some.codes)), cast(int, seed))
    own = key if task is None else key[task]
    label_hash = hashes(reference, result.votes.labels)
    winner, _ = reference.pick(scores, own, label_hash, weights if ties == "prior" else None)
    return winner.astype(np.int64)


def _vote_weights(some: TaskVotes) -> Floats:
    """Return how many votes each label has in all, [K]: where ties go to the more frequent one."""
    votes = some.result.votes
    by_row = votes.votes_per_row() * (1.0 if votes.row_weight is None else votes.row_weight)
    return np.bincount(votes.row_label, by_row, minlength=votes.n_labels).astype(np.float64)
