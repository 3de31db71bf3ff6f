"""The passes, as multiples of the floor: the time two threads take to read the two vote arrays once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from measure import interleaved

from adjudge.kernels import cpu
from adjudge.kernels import reference as ref

PER_TASK = 5


class Crowd:
    """Votes as arrays, drawn from a simple crowd, and a model that has converged on them."""

    def __init__(self, votes, workers=20_000, k=4, threads=2, seed=0):
        rng = np.random.default_rng(seed)
        self.tasks, self.threads = votes // PER_TASK, threads
        self.task_ptr = np.arange(0, votes + 1, PER_TASK, dtype=np.int64)
        self.worker_ptr = np.arange(0, workers * k + 1, k, dtype=np.int64)
        truth = rng.integers(k, size=self.tasks, dtype=np.int32)
        self.row = np.empty(votes, np.uint32)
        for start in range(0, self.tasks, 1 << 20):  # in pieces, since the draws take more memory than the votes
            true = np.repeat(truth[start : start + (1 << 20)], PER_TASK)
            right = rng.random(len(true)) < 0.7
            label = np.where(right, true, rng.integers(k, size=len(true)))
            rows = (rng.integers(workers, size=len(true)) * k + label).reshape(-1, PER_TASK)
            self.row[start * PER_TASK : start * PER_TASK + len(true)] = np.sort(rows, axis=1).ravel()
        self.task_key = rng.integers(2**64, size=self.tasks, dtype=np.uint64)
        self.label_hash = rng.integers(2**64, size=k, dtype=np.uint64)
        self.labels = np.zeros(self.tasks, np.int32)
        self.counts, self.class_counts = np.zeros((workers * k, k), np.int64), np.zeros(k, np.int64)
        row_label = np.tile(np.arange(k, dtype=np.int32), workers)
        cpu.majority(
            self.task_ptr, self.row, row_label, self.task_key, self.label_hash, soft=False, tie_weights=None, threads=threads,
            labels=self.labels, counts=self.counts, class_counts=self.class_counts,
        )  # fmt: skip
        self.soft_counts, self.soft_classes = cpu.room(self.counts.shape, zero=True), np.zeros(k)
        self.soft_labels = self.labels.copy()
        for _ in range(3):
            self.m_step()
            self.hard(delta=True)

    def m_step(self):
        self.table, _ = cpu.confusion_table(self.counts, self.worker_ptr, 0.0, threads=self.threads)
        with np.errstate(divide="ignore"):
            self.log_prior = np.log(self.class_counts / self.tasks)

    def given(self):
        return self.task_ptr, self.row, self.table, self.log_prior, self.task_key, self.label_hash

    def hard(self, delta, likelihood=False):
        if not delta:
            self.counts[:] = 0
            self.class_counts[:] = 0
        return cpu.em_pass(
            *self.given(), checked=True, hard=True, by_prior=False, delta=delta, likelihood=likelihood, threads=self.threads,
            labels=self.labels, counts=self.counts, class_counts=self.class_counts,
        )  # fmt: skip

    def soft(self):
        self.soft_counts[:] = 0
        self.soft_classes[:] = 0
        return cpu.em_pass(
            *self.given(), checked=True, hard=False, by_prior=False, threads=self.threads,
            labels=self.soft_labels, counts=self.soft_counts, class_counts=self.soft_classes,
        )  # fmt: skip

    def exact(self, tasks=200_000):
        """Whether the fast labels of the first tasks are the reference's."""
        labels = self.labels[:tasks].copy()
        ptr = self.task_ptr[: tasks + 1]
        ref.em_pass(
            ptr,
            self.row,
            self.table,
            self.log_prior,
            self.task_key[:tasks],
            self.label_hash,
            hard=True,
            by_prior=False,
            labels=labels,
        )
        fast = self.labels[:tasks].copy()
        cpu.em_pass(
            ptr, self.row, self.table, self.log_prior, self.task_key[:tasks], self.label_hash,
            checked=True, hard=True, by_prior=False, likelihood=False, labels=fast, threads=self.threads,
        )  # fmt: skip
        return bool(np.array_equal(labels, fast))


def floor(arrays):
    """A callable that reads every array once, half of each in each of two threads."""
    pool = ThreadPoolExecutor(2)
    halves = [[a[: len(a) // 2] for a in arrays], [a[len(a) // 2 :] for a in arrays]]

    def read():
        list(pool.map(lambda half: [np.bitwise_or.reduce(a) for a in half], halves))

    return read


def multiples(crowd, repeats):
    """{pass: seconds} with the floor among them."""
    return interleaved(
        {
            "floor": floor([crowd.task_ptr, crowd.row]),
            "hard, delta recount": lambda: crowd.hard(True),
            "hard, full recount": lambda: crowd.hard(False),
            "soft": crowd.soft,
            "hard, delta recount, with likelihood": lambda: crowd.hard(True, likelihood=True),
        },
        repeats,
    )


def run(folder):
    """Rows of (what, figure, bar)."""
    crowd = Crowd(20_000_000)
    yield "labels exact on 200 thousand tasks (1: yes)", float(crowd.exact()), "1"
    two = multiples(crowd, 31)
    bars = {"hard, delta recount": "at most 5x", "hard, full recount": "at most 9x", "soft": "at most 18x"}
    yield "floor, ms", two["floor"] * 1e3, ""
    for name, seconds in two.items():
        if name != "floor":
            yield f"{name} / floor ({seconds * 1e9 / 20e6:.2f} ns a vote)", seconds / two["floor"], bars.get(name, "")
    crowd.threads = 1
    one = multiples(crowd, 7)
    for name in bars:
        yield f"{name}: one thread / two threads", one[name] / two[name], "at least 1.7x"
    del crowd
    wide = multiples(Crowd(20_000_000, workers=1_000_000), 7)
    for name in bars:
        yield f"1 million workers: {name} / floor ({wide[name] * 1e9 / 20e6:.2f} ns a vote)", wide[name] / wide["floor"], ""
    small, large = multiples(Crowd(1_000_000), 31), multiples(Crowd(100_000_000), 5)
    for name in bars:
        yield f"{name}: a vote among 100 million / among 1 million", large[name] / small[name] / 100, "at most 1.5x"
