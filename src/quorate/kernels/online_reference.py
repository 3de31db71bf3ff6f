"""The definition of the online state, in plain Python: the oracle of the compiled one, and the fallback without it.

Shares of tasks in the counts are whole multiples of 2^-32, so that what was put in can be taken out to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quorate.kernels import reference

ONE = 1 << 32


class Online:
    """Counts kept vote by vote; the same methods as the compiled `Online`."""

    def __init__(self, label_hash: Sequence[int], hard: bool, strength: float) -> None:
        self._k = len(label_hash)
        self._label_hash = np.array(label_hash, np.uint64)
        self._hard = hard
        self._strength = strength
        self._votes: list[list[int]] = []  # rows by task
        self._keys: list[int] = []
        self._shares: list[NDArray[np.int64]] = []
        self._row_of: dict[tuple[int, int], int] = {}
        self._row_pairs: list[tuple[int, int]] = []
        self._counts: list[NDArray[np.int64]] = []
        self._totals: list[NDArray[np.int64]] = []
        self._pooled = np.zeros((self._k, self._k), np.int64)
        self._class_counts = np.zeros(self._k, np.int64)

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len(self._votes)

    @property
    def rows(self) -> int:
        """The number of (worker, label) pairs seen."""
        return len(self._row_pairs)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self._totals)

    def add_tasks(self, keys: NDArray[np.uint64]) -> None:
        """Takes new tasks by the keys that settle their ties."""
        for key in keys.tolist():
            self._votes.append([])
            self._keys.append(key)
            self._shares.append(np.zeros(self._k, np.int64))

    def learn(self, task: int, worker: int, label: int, replace: bool) -> None:
        """Takes a vote; with `replace` in the place of the worker's earlier ones on the task."""
        row = self._row(worker, label)
        self._put(task, -1)
        if replace:
            self._drop(task, worker)
        self._votes[task].append(row)
        self._settle(task)

    def learn_many(self, task: NDArray[np.uint32], worker: NDArray[np.uint32], label: NDArray[np.uint32], replace: bool) -> None:
        """Takes votes in order."""
        for vote in zip(task.tolist(), worker.tolist(), label.tolist(), strict=True):
            self.learn(*vote, replace)

    def retract(self, task: int, worker: int) -> int:
        """Takes all votes of a worker on a task back, and returns how many there were."""
        theirs = sum(self._row_pairs[row][0] == worker for row in self._votes[task])
        if theirs:
            self._put(task, -1)
            self._drop(task, worker)
            self._settle(task)
        return theirs

    def predict(self, task: int, posterior: NDArray[np.float64]) -> tuple[int, bool, int]:
        """Returns (label, tie, votes) of the E-step under today's parameters; posterior OUT [K]."""
        rows = self._votes[task]
        table = np.array([self._log_line(row) for row in rows]).reshape(len(rows), self._k)
        settled = self._class_counts.sum()
        with np.errstate(divide="ignore"):
            prior = np.log(self._class_counts / settled) if settled else np.full(self._k, -np.log(self._k))
        label, tie = np.zeros(1, np.int32), np.zeros(1, np.bool_)
        reference.em_pass(
            np.array([0, len(rows)]),
            np.arange(len(rows), dtype=np.uint32),
            table,
            prior,
            np.array([self._keys[task]], np.uint64),
            self._label_hash,
            hard=self._hard,
            by_prior=False,
            labels=label,
            tie=tie,
            posterior=posterior[None, :],
        )
        return int(label[0]), bool(tie[0]), len(rows)

    def predict_all(
        self,
        labels: NDArray[np.int32],
        confidence: NDArray[np.float64],
        tie: NDArray[np.bool_],
        votes: NDArray[np.int64],
    ) -> None:
        """Fills in what `predict` says of every task; label -1 where there is no vote. OUT [tasks]."""
        posterior = np.zeros(self._k)
        for task in range(self.tasks):
            labels[task], tie[task], votes[task] = self.predict(task, posterior)
            confidence[task] = posterior[labels[task]]
            if not votes[task]:
                labels[task], tie[task] = -1, False

    def n_votes(self) -> int:
        """Returns the number of votes kept."""
        return sum(map(len, self._votes))

    def export_votes(self, task_ptr: NDArray[np.int64], row: NDArray[np.uint32], shares: NDArray[np.int64]) -> None:
        """Fills in the votes as rows by task, and every task's share. OUT [tasks + 1], [votes], [tasks, K]."""
        task_ptr[0] = 0
        np.cumsum([len(v) for v in self._votes], out=task_ptr[1:])
        row[:] = [r for rows in self._votes for r in rows]
        shares[:] = np.array(self._shares).reshape(shares.shape)

    def export_rows(self, worker: NDArray[np.uint32], label: NDArray[np.uint32]) -> None:
        """Fills in who and what each row is. OUT [rows]."""
        pairs = np.array(self._row_pairs, np.uint32).reshape(-1, 2)
        worker[:], label[:] = pairs[:, 0], pairs[:, 1]

    def restore(
        self,
        key: NDArray[np.uint64],
        row_worker: NDArray[np.uint32],
        row_label: NDArray[np.uint32],
        task_ptr: NDArray[np.int64],
        row: NDArray[np.uint32],
        shares: NDArray[np.int64],
    ) -> None:
        """Takes exported votes and shares into an empty state."""
        for worker, label in zip(row_worker.tolist(), row_label.tolist(), strict=True):
            self._row(worker, label)
        self.add_tasks(key)
        for task in range(self.tasks):
            self._votes[task] = row[task_ptr[task] : task_ptr[task + 1]].tolist()
            self._shares[task] = shares[task].astype(np.int64)
            self._put(task, 1)

    def counts(self, out: NDArray[np.int64]) -> None:
        """Fills in the counts, in units. OUT [rows * K]."""
        out[:] = np.concatenate([np.zeros(0, np.int64), *self._counts])

    def class_counts(self, out: NDArray[np.int64]) -> None:
        """Fills in the class counts, in units. OUT [K]."""
        out[:] = self._class_counts

    def confusion(self, worker: int, out: NDArray[np.float64]) -> None:
        """Fills in today's pi of a worker. OUT [K true, K given]."""
        for given in range(self._k):
            seen = self._counts[self._row_of[worker, given]] if (worker, given) in self._row_of else np.zeros(self._k)
            whole = self._totals[worker] / ONE + self._strength
            part = seen / ONE + self._strength * self._mean(given)
            out[:, given] = np.divide(part, whole, out=np.zeros(self._k), where=whole > 0)

    def _row(self, worker: int, label: int) -> int:
        while len(self._totals) <= worker:
            self._totals.append(np.zeros(self._k, np.int64))
        row = self._row_of.setdefault((worker, label), len(self._row_pairs))
        if row == len(self._row_pairs):
            self._row_pairs.append((worker, label))
            self._counts.append(np.zeros(self._k, np.int64))
        return row

    def _drop(self, task: int, worker: int) -> None:
        self._votes[task] = [row for row in self._votes[task] if self._row_pairs[row][0] != worker]

    def _put(self, task: int, sign: int) -> None:
        """Adds the share of a task to all counts, or takes it out."""
        share = sign * self._shares[task]
        if not self._votes[task]:
            return
        self._class_counts += share
        for row in self._votes[task]:
            worker, label = self._row_pairs[row]
            self._counts[row] += share
            self._totals[worker] += share
            self._pooled[label] += share

    def _settle(self, task: int) -> None:
        """The paper's step for a question: majority vote, M-step, E-step for this question, M-step."""
        rows = self._votes[task]
        if not rows:
            self._shares[task] = np.zeros(self._k, np.int64)
            return
        ballots = np.bincount([self._row_pairs[row][1] for row in rows], minlength=self._k)[None, :]
        if self._hard:
            winner, _ = reference.pick(ballots.astype(float), np.array([self._keys[task]], np.uint64), self._label_hash)
            self._shares[task] = self._one_hot(int(winner[0]))
        else:
            self._shares[task] = to_units(ballots / len(rows))[0]
        self._put(task, 1)
        posterior = np.zeros(self._k)
        label, _, _ = self.predict(task, posterior)
        self._put(task, -1)
        self._shares[task] = self._one_hot(label) if self._hard else to_units(posterior[None, :])[0]
        self._put(task, 1)

    def _one_hot(self, label: int) -> NDArray[np.int64]:
        share = np.zeros(self._k, np.int64)
        share[label] = ONE
        return share

    def _log_line(self, row: int) -> NDArray[np.float64]:
        """Returns log pi of a row today, [K]: the mean worker's votes, `strength` of them, come on top of its own."""
        worker, given = self._row_pairs[row]
        extra = self._strength * ONE
        with np.errstate(divide="ignore", invalid="ignore"):
            line = np.log((self._counts[row] + extra * self._mean(given)) / (self._totals[worker] + extra))
        return np.where(np.isnan(line), -np.inf, line)

    def _mean(self, given: int) -> NDArray[np.float64]:
        whole = self._pooled.sum(axis=0)
        flat = np.full(self._k, 1 / self._k)
        np.divide(self._pooled[given], whole, out=flat, where=whole > 0)
        return flat


def to_units(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Returns probabilities, [n, K], as units that sum to one exactly: the largest takes what rounding leaves."""
    units = np.rint(probabilities * ONE).astype(np.int64)
    largest = probabilities.argmax(axis=1)
    units[np.arange(len(units)), largest] += ONE - units.sum(axis=1)
    return units
