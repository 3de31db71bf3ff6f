"""What the workers of a stream are judged by, in plain Python: sums over its crowd, and over the votes of single workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.kernels import honest_online_reference as honest
from adjudge.kernels.online_evicted import Evicting
from adjudge.kernels.online_tables import Change, Texts, pack
from adjudge.kernels.online_units import ONE
from adjudge.kernels.reference import mix

Floats = NDArray[np.float64]


class Judging(Evicting):
    """The steps of judging workers; see `Online::crowd` and `Online::judge` in the core."""

    def _crowd(self, state: Change, whole: Mapping[str, Mapping[Any, Any]], kind: int) -> tuple[Any, ...]:
        """Return sums over a sample of the tasks there are (`whole`), and what was measured; probabilities are in units."""
        k = self._k
        votes, right, doubt = (np.zeros((k, k), np.int64) for _ in range(3))
        open_sizes = [len(rows) for task, rows in whole["votes"].items() if whole["held"][task] < 0]
        cast, pairs = sum(open_sizes), sum(size * (size - 1) for size in open_sizes)
        every = max(1, sum(map(len, whole["votes"].values())) * k // honest.SAMPLED_CELLS)
        for task, rows in whole["votes"].items():
            if not rows or int(mix(np.array([whole["number"][task]], np.uint64))[0]) % every:
                continue
            held, label = whole["held"][task], whole["label"][task]
            if held >= 0:
                likely = self._certain(held)
            else:
                likely = self._predict(state, task)[2] if kind == honest.POSTERIOR else self._honest(state, task)
            for row in rows:
                given = whole["pair"][row][1]
                votes[given, label] += 1
                right[given, label] += honest.answer_units(likely[given])
                doubt[given, label] += honest.answer_units(1.0 - likely[label])
        measured: honest.Measured | None = None if kind == honest.POSTERIOR else state.get("fact", "measured")
        if measured is None:
            return votes, right, doubt, cast, pairs, 0.0, np.zeros(0), np.zeros(0)
        mean = np.array([measured.lent[c][c] / measured.lent_total for c in range(k)])
        return votes, right, doubt, cast, pairs, measured.shared_error, np.array(measured.log_prior, np.float64), mean

    def _judge(self, state: Change, workers: Sequence[str], right: Floats, doubt: Floats) -> tuple[Any, Any, Any]:
        """Return votes of workers, and sums of what arrays, [K given, K label], say of each, [workers] each."""
        count, _, _ = self._names(state)
        votes, sums = np.zeros(len(workers), np.int64), np.zeros((2, len(workers)))
        for at, worker in enumerate(workers):
            who = state.get("worker", worker)
            for given in range(self._k) if who is not None else ():
                row = state.get("row", (who, given))
                for label, units in enumerate(() if row is None else state.get(count, row)):
                    number = units // ONE
                    votes[at] += number
                    for out, cells in zip(sums, (right, doubt), strict=True):
                        out[at] += float(number) * cells[given, label]
        return votes, sums[0], sums[1]

    def _worker_table(self, change: Change, kind: int) -> tuple[Texts, bool, Any, Any, Any]:
        """Return ids, whether they came as numbers, votes, expected right votes and doubts in units, of every worker."""
        state = change.merged()
        votes, right, doubt = (np.zeros(len(state["worker"]), np.int64) for _ in range(3))
        for task, rows in state["votes"].items():
            held, before = state["held"][task], None
            if rows and kind != honest.POSTERIOR:
                before = self._honest(change, task) if held < 0 else self._certain(held)
            for row in rows:
                who, given = state["pair"][row]
                votes[who] += 1
                if before is not None:
                    right[who] += honest.answer_units(before[given])
                    doubt[who] += honest.answer_units(1.0 - before[state["label"][task]])
        if kind != honest.POSTERIOR:
            return pack(state["worker"]), state["fact"]["worker numbers"], votes, right, doubt
        for row, (who, given) in state["pair"].items():
            right[who] += state["count"][row][given] - self._base_line(change, "base count", row)[given]
        return pack(state["worker"]), state["fact"]["worker numbers"], votes, right, doubt
