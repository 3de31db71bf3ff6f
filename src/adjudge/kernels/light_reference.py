"""The first pass of LA in NumPy: tasks one after the other, workers known better from each to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels.reference import Floats, pick


def light_pass(
    task_ptr: NDArray[np.int64],  # IN [tasks + 1]
    row: NDArray[np.uint32],  # IN [votes]
    row_worker: NDArray[np.int64],  # IN [rows]
    row_label: NDArray[np.int32],  # IN [rows]
    order: NDArray[np.int64],  # IN [tasks] each task once
    task_key: NDArray[np.uint64],  # IN [tasks]
    label_hash: NDArray[np.uint64],  # IN [K]
    right: Floats,  # IN/OUT [workers] right votes of each so far
    total: Floats,  # IN/OUT [workers] all votes of each so far, above 0
    labels: NDArray[np.int32],  # OUT [tasks] of tasks that have votes
    *,
    gold: NDArray[np.int32] | None = None,  # IN [tasks] given labels, below 0 where there is none
    tie_weights: Floats | None = None,  # IN [K] the larger wins a tie; None: the hash alone decides
    row_weight: Floats | None = None,  # IN [rows] what a vote of a row counts; None: 1
) -> None:
    """Decide task after task by votes weighted with right / total of their worker, and count each vote before the next task."""
    k = len(label_hash)
    for task in order.tolist():
        rows = row[task_ptr[task] : task_ptr[task + 1]]
        if not len(rows):
            continue
        workers, given = row_worker[rows], row_label[rows]
        times = np.ones(len(rows)) if row_weight is None else row_weight[rows]
        winner = -1 if gold is None else int(gold[task])
        if winner < 0:
            scores: Floats = np.bincount(given, weights=right[workers] / total[workers] * times, minlength=k).astype(np.float64)
            winner = int(pick(scores[None], task_key[task : task + 1], label_hash, tie_weights)[0][0])
        labels[task] = winner
        np.add.at(total, workers, times)
        np.add.at(right, workers, times * (given == winner))
