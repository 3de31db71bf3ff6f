"""Sizes that tests of the engine share."""

import numpy as np

from adjudge.gpu.plan import FitSize


def little_memory(votes, parts=4, gold=None):
    """Return the bytes of device memory for the tables of a fit, labels, and a part of the votes, or a few tasks, at a time.

    A fourth has the votes streamed on one device and on two. Votes on gold tasks stay there.
    """
    given = votes.tasks.codes(gold or ())
    on_gold = int(np.diff(votes.task_ptr)[given[given >= 0]].sum())
    size = FitSize(len(votes), votes.n_tasks, votes.n_rows, votes.n_labels, votes.n_workers, on_gold)
    longest = int(np.diff(votes.task_ptr).max(initial=0))
    few = 2 * (8 * longest + 24) + 3 * (size.per_out() + size.per_work())
    part = (4 * len(votes) + (12 + size.per_work()) * votes.n_tasks) // parts
    return size.tables() + size.per_label() * votes.n_tasks + max(few, part)
