"""Large crowds as arrays, made in a few seconds."""

import numpy as np

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import Votes


def large_votes(votes, *, labels, workers=20_000, each=0, skew=False, longest=0, seed=0):
    """Return votes of workers of different skill; `each` per task, or 1 to 9, and some tasks up to `longest`."""
    rng = np.random.default_rng(seed)
    length = np.full(votes // each, each) if each else rng.integers(1, 10, votes // 5)
    if longest:
        length[:: max(len(length) // 20, 1)] = rng.integers(100, longest + 1, len(length[:: max(len(length) // 20, 1)]))
    ptr = np.concatenate([[0], np.cumsum(length)])
    tasks, n = len(length), int(ptr[-1])
    task = np.repeat(np.arange(tasks), length)
    worker = (workers * rng.random(n) ** (4 if skew else 1)).astype(np.int64)
    skill, truth = rng.uniform(0.3, 0.95, workers), rng.integers(0, labels, tasks)
    given = np.where(rng.random(n) < skill[worker], truth[task], rng.integers(0, labels, n))
    pairs, row = np.unique(worker * labels + given, return_inverse=True)
    order = np.argsort(task * len(pairs) + row.reshape(-1), kind="stable")
    who, of_pair = np.unique(pairs // labels, return_inverse=True)
    return Votes(
        task_ptr=ptr.astype(np.int64),
        row=row.reshape(-1)[order].astype(np.uint32),
        worker_ptr=np.searchsorted(of_pair.reshape(-1), np.arange(len(who) + 1)).astype(np.int64),
        row_label=(pairs % labels).astype(np.int32),
        workers=Vocabulary.wrap("integer", who),
        labels=Vocabulary.of([f"l{c}" for c in range(labels)]),
        tasks=Vocabulary.wrap("integer", np.arange(tasks)),
        unvoted=Vocabulary.wrap("integer", np.zeros(0, np.int64)),
    )
