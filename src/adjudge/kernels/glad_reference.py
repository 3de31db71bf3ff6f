"""The definition of GLAD's passes, in readable NumPy (Whitehill et al. 2009, for K labels as in crowd-kit).

With x = ability * ease of the vote's worker and task, a vote is right with probability s = 1 / (1 + exp(-x)), and each
of the K - 1 other labels has (1 - s) / (K - 1). Since log s - log(1 - s) = x, a vote adds

    -softplus(x) - log(K - 1)    to the score of every label, and    x + log(K - 1)    to that of the label it gives.

Nothing here overflows: softplus(x) = max(x, 0) + log(1 + exp(-|x|)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.reference import Floats, Sums, check_codes, check_votes, pick

FLAT = 1e-5  # below this |x| the bound's curvature is 1/4 to the last digit


def expect(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1] absolute positions in `row`
    row: NDArray[np.uint32],  # IN [all votes]
    row_worker: NDArray[np.int32],  # IN [rows]
    row_label: NDArray[np.int32],  # IN [rows]
    ability: Floats,  # IN [workers] alpha
    ease: Floats,  # IN [tasks] beta, the inverse of the difficulty
    log_prior: Floats,  # IN [K]
    log_others: float,  # log(K - 1)
    task_key: NDArray[np.uint64],  # IN [tasks] see tie_keys
    label_hash: NDArray[np.uint64],  # IN [K]
    *,
    checked: bool = False,  # whether these votes are known to be sound, see reference.check_votes
    by_prior: bool,  # ties go to the larger prior first
    threads: int = 1,  # for faster twins
    labels: NDArray[np.int32],  # IN/OUT [tasks] previous label in, this pass's out
    right: Floats,  # OUT [votes of these tasks] the posterior probability of the label that the vote gives
    class_counts: Floats,  # OUT [K] added to
    confidence: Floats | None = None,  # OUT [tasks]
    tie: NDArray[np.bool_] | None = None,  # OUT [tasks]
    posterior: Floats | None = None,  # OUT [tasks, K]
) -> Sums:
    """Return the sums of one E-step. The M-step needs only the probability that each vote is right."""
    if not checked:
        check_votes(task_ptr, row, len(row_worker))
        check_codes("row_worker", row_worker, len(ability))
        check_codes("row_label", row_label, len(log_prior))
    some = row[task_ptr[0] : task_ptr[-1]]
    tasks, k = len(task_ptr) - 1, len(log_prior)
    task = np.repeat(np.arange(tasks), np.diff(task_ptr))
    given = row_label[some]
    x = ability[row_worker[some]] * ease[task]
    of_label = np.bincount(task * k + given, x + log_others, minlength=tasks * k).reshape(tasks, k)
    of_all = np.bincount(task, -_softplus(x) - log_others, minlength=tasks)
    scores: Floats = of_label + of_all[:, None] + log_prior
    winner, tied = pick(scores, task_key, label_hash, tie_weights=log_prior if by_prior else None)

    best = scores.max(axis=1, initial=-np.inf, keepdims=True)
    weight = np.exp(scores - best)
    total = weight.sum(axis=1, keepdims=True)
    probability = weight / total
    changed = int((winner != labels).sum())
    labels[:] = winner
    right[:] = probability[task, given]
    class_counts += probability.sum(axis=0)
    if confidence is not None:
        confidence[:] = probability[np.arange(tasks), winner]
    if tie is not None:
        tie[:] = tied
    if posterior is not None:
        posterior[:] = probability
    return Sums(float((best + np.log(total)).sum()), float("nan"), changed, 0)


def gradient(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [all votes]
    row_worker: NDArray[np.int32],  # IN [rows]
    ability: Floats,  # IN [workers]
    ease: Floats,  # IN [tasks]
    right: Floats,  # IN [votes of these tasks] see expect
    log_others: float,
    *,
    checked: bool = False,  # whether these votes are known to be sound, see reference.check_votes
    threads: int = 1,  # for faster twins
    by_worker: Floats,  # OUT [workers] added to: d/d ability
    by_task: Floats,  # OUT [tasks] d/d log ease
    worker_curvature: Floats,  # OUT [workers] added to
    task_curvature: Floats,  # OUT [tasks]
) -> float:
    """Return the expected log-likelihood of the votes, the sum of right * log s + (1 - right) * log((1 - s) / (K - 1)).

    The curvatures are those of the quadratic that touches softplus at x and lies above it everywhere (Jaakkola and
    Jordan 2000), with w = (s - 1/2) / x. They limit the length of a step, and unlike s (1 - s) never vanish.
    """
    if not checked:
        check_votes(task_ptr, row, len(row_worker))
        check_codes("row_worker", row_worker, len(ability))
    some = row[task_ptr[0] : task_ptr[-1]]
    task = np.repeat(np.arange(len(task_ptr) - 1), np.diff(task_ptr))
    worker = row_worker[some]
    beta = ease[task]
    x = ability[worker] * beta
    sigma = np.exp(-_softplus(-x))
    flat = np.abs(x) < FLAT
    w = np.where(flat, 0.25, (sigma - 0.5) / np.where(flat, 1.0, x))
    by_worker += np.bincount(worker, (right - sigma) * beta, minlength=len(ability))
    by_task[:] = np.bincount(task, (right - sigma) * x, minlength=len(ease))
    worker_curvature += np.bincount(worker, w * beta * beta, minlength=len(ability))
    task_curvature[:] = np.bincount(task, w * x * x, minlength=len(ease))
    return float((right * x - _softplus(x) - (1.0 - right) * log_others).sum())


def _softplus(x: Floats) -> Floats:
    """Return log(1 + exp(x)), without overflow."""
    out: Floats = np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    return out
