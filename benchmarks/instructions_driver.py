"""Every kernel over fixed votes, in one thread: what `instructions.py` counts the instructions of, under valgrind.

Called as `instructions_driver.py MARKS`, the library that marks where a count begins and ends. Each kernel runs on some votes
and on twice as many, after a call that is not counted. The difference of both counts is that of the votes alone, without
Python's part of a call.
"""

import ctypes
import gc
import sys
from types import SimpleNamespace

import numpy as np

from adjudge.kernels import cpu
from adjudge.kernels.reference import HonestRule

PER_TASK, K, WORKERS = 5, 4, 400
VOTES = 40_000
SETS = ("baseline", "avx2")  # of instructions that valgrind knows, in the core's order


def crowd(votes, seed=0):
    """Votes as arrays, and the counts and table of majority vote on them; nothing here depends on how a kernel works."""
    draw = np.random.default_rng(seed)
    tasks, rows = votes // PER_TASK, WORKERS * K
    true = np.repeat(draw.integers(K, size=tasks), PER_TASK)
    given = np.where(draw.random(len(true)) < 0.7, true, draw.integers(K, size=len(true)))
    row = (draw.integers(WORKERS, size=len(true)) * K + given).reshape(-1, PER_TASK)
    made = SimpleNamespace(
        task=np.repeat(np.arange(tasks, dtype=np.int32), PER_TASK),
        task_ptr=np.arange(0, tasks * PER_TASK + 1, PER_TASK, dtype=np.int64),
        row=np.sort(row, axis=1).ravel().astype(np.uint32),
        row_label=np.tile(np.arange(K, dtype=np.int32), WORKERS),
        worker_ptr=np.arange(0, rows + 1, K, dtype=np.int64),
        task_key=draw.integers(2**64, size=tasks, dtype=np.uint64),
        label_hash=draw.integers(2**64, size=K, dtype=np.uint64),
        labels=np.zeros(tasks, np.int32),
        counts=np.zeros((rows, K), np.int64),
        class_counts=np.zeros(K, np.int64),
        soft_counts=np.zeros((rows, K)),
        soft_classes=np.zeros(K),
        draw=draw,
    )
    majority(made, soft=False)
    made.table, _ = cpu.confusion_table(made.counts, made.worker_ptr, 0.5)
    made.log_prior = np.log(made.class_counts / tasks)
    return made


def majority(votes, *, soft):
    """Majority vote, by winner or by shares."""
    cpu.majority(
        votes.task_ptr, votes.row, votes.row_label, votes.task_key, votes.label_hash, tie_weights=None, soft=soft, checked=True,
        labels=votes.labels, counts=votes.soft_counts if soft else votes.counts,
        class_counts=votes.soft_classes if soft else votes.class_counts,
    )  # fmt: skip


def em_pass(votes, *, hard, delta=False, likelihood=True):
    """One pass of expectation-maximisation."""
    cpu.em_pass(
        votes.task_ptr, votes.row, votes.table, votes.log_prior, votes.task_key, votes.label_hash, checked=True, hard=hard,
        delta=delta, likelihood=likelihood, by_prior=False, labels=votes.labels,
        counts=votes.counts if hard else votes.soft_counts, class_counts=votes.class_counts if hard else votes.soft_classes,
    )  # fmt: skip


def honest(votes):
    """Honest confidence of all labels."""
    share = np.full(K, 1 / K)
    cpu.honest_pass(
        votes.task_ptr, votes.row, votes.row_label, votes.labels, votes.table, votes.table,
        HonestRule(np.log(share), share, 0.2, 0.7),
        confidence=np.zeros(len(votes.labels)), tie=np.zeros(len(votes.labels), np.bool_),
    )  # fmt: skip


def confusions(votes):
    """The M-step of Dawid-Skene; its work is that of rows, so there are as many rows as votes / K."""
    cpu.confusion_table(votes.many, votes.many_ptr, 0.0)


def encode(votes, ids, dictionary):
    """Codes of a column of ids."""
    core = cpu.required()
    table, out, stream = getattr(core, dictionary)(), core.Codes(), core.Stream(ids.__arrow_c_stream__())
    while (batch := stream.next()) is not None:
        core.encode(batch, [0], [table], [out], 1)


KERNELS = {
    "majority, hard": lambda votes: majority(votes, soft=False),
    "majority, soft": lambda votes: majority(votes, soft=True),
    "hard pass, delta": lambda votes: em_pass(votes, hard=True, delta=True, likelihood=False),
    "hard pass, full": lambda votes: em_pass(votes, hard=True, likelihood=False),
    "hard pass, likelihood": lambda votes: em_pass(votes, hard=True, delta=True),
    "soft pass": lambda votes: em_pass(votes, hard=False),
    "confusion table": confusions,
    "group by task": lambda votes: cpu.required().group_by_task(votes.task, votes.row, len(votes.labels), 1),
    "honest pass": honest,
    "encode integers": lambda votes: encode(votes, votes.integers, "IntDictionary"),
    "encode text": lambda votes: encode(votes, votes.texts, "TextDictionary"),
}


def prepared(kernel, votes):
    """The votes that a kernel runs on."""
    made = crowd(votes)
    if kernel == "confusion table":
        made.many = made.draw.integers(0, 50, (votes // K, K))
        made.many_ptr = np.arange(0, len(made.many) // K * K + 1, K, dtype=np.int64)
        made.many = made.many[: made.many_ptr[-1]]
    if kernel == "group by task":
        order = made.draw.permutation(len(made.row))
        made.task, made.row = made.task[order], made.row[order]
    if kernel.startswith("encode"):
        import polars as pl

        ids = pl.Series("id", made.draw.integers(10**9, 10**9 + WORKERS, votes))
        made.integers, made.texts = ids.to_frame(), (pl.lit("worker ") + ids.cast(pl.String)).pipe(pl.select)
    return made


def main():
    """Run every kernel of every set of instructions, with a mark before and after."""
    marks, core = ctypes.CDLL(sys.argv[1]), cpu.required()
    begin, end = marks.begin, marks.end
    gc.disable()  # a collection would be counted with the kernel that it happens in
    begin()
    end(b"first|none|0")  # the first call binds names
    for name, run in KERNELS.items():
        for votes in (VOTES, 2 * VOTES):
            made = prepared(name, votes)
            for index, kind in enumerate(SETS):
                try:
                    core.use_kernels(index)
                except ValueError:  # this processor has no such instructions
                    continue
                if core.kernels() == kind:
                    run(made)
                    begin()
                    run(made)
                    end(f"{name}|{kind}|{votes}".encode())
    core.use_kernels(-1)


if __name__ == "__main__":
    main()
