"""The engine of this process: shards of tasks in memory, one kernel call each, statistics summed in shard order."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.engines.glad import Glad, Place
from quorate.engines.glad_local import MemoryShelf
from quorate.engines.memory import require, require_glad
from quorate.engines.shard import Rules, Shard, Tally, Units, cuts, hashes, units_of
from quorate.fit import Outcome
from quorate.gold import Gold
from quorate.io.answers import gold_codes
from quorate.kernels import glad_reference, reference
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.votes import Votes


@dataclass(frozen=True)
class LocalEngine:
    """Runs a kernel module over shards of about `shard_votes` votes each; a task is never split.

    The reference works shard by shard to bound its memory; the compiled kernels shard for their threads themselves.
    """

    name: str = "reference"
    kernels: ModuleType = reference
    glad_kernels: ModuleType = glad_reference
    threads: int = 1
    shard_votes: int = 1 << 18

    def load(self, votes: Votes, *, seed: int, ties: str, gold: Gold | None = None) -> LocalSession:
        """Returns a session over these votes; too little memory is foreseen and said."""
        require(votes, self.shard_votes if self.kernels is reference else 0, self.threads)  # compiled passes need no such room
        codes = None if gold is None else gold_codes(gold, votes.tasks)
        return LocalSession(self, votes, seed=seed, ties=ties, gold=codes)


class LocalSession:
    """Votes in memory, cut into shards, and the current label of every task."""

    def __init__(self, engine: LocalEngine, votes: Votes, *, seed: int, ties: str, gold: NDArray[np.int32] | None = None) -> None:
        kernels, threads = engine.kernels, engine.threads
        self._engine = engine
        self._votes = votes
        self._gold = gold
        self._rules = Rules.of(kernels, threads, votes.row_label, votes.labels, ties, self._units)
        self._task_key = kernels.tie_keys(hashes(kernels, votes.tasks, threads), seed, threads)
        self._cuts = cuts(votes.task_ptr, engine.shard_votes)
        self._shards = [
            Shard(
                self._rules,
                votes.task_ptr[cut.start : cut.stop + 1],
                votes.row,
                self._task_key[cut],
                gold=None if gold is None else gold[cut],
            )
            for cut in self._cuts
        ]
        self._tally: Tally | None = None  # the counts of the current labels, while these are hard

    def start(self, *, hard: bool) -> Statistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        tally, favour = self._rules.empty(hard=hard), self._favour()
        for shard in self._shards:
            shard.start(tally, hard=hard, favour=favour)
        self._tally = tally if hard else None
        return Statistics(*self._rules.counted(tally))

    def recount(self, labels: NDArray[np.int32]) -> Statistics:
        """Returns the statistics of these labels, [tasks], and takes them as the current ones."""
        tally = self._rules.empty(hard=True)
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.recount(labels[cut], tally)
        self._tally = tally
        return Statistics(*tally)

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> Statistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount."""
        delta = hard and self._tally is not None  # then only tasks whose label changes touch the counts
        tally = self._tally if delta and self._tally is not None else self._rules.empty(hard=hard)
        sums = total([shard.step(params, tally, hard=hard, delta=delta, likelihood=likelihood) for shard in self._shards])
        self._tally = tally if hard else None
        classification = self._rules.classification(tally, params) if hard else float("nan")
        return Statistics(*self._rules.counted(tally), sums.log_likelihood, classification, sums.changed, sums.impossible)

    def confusion_table(self, counts: Any, smoothing: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        return self._rules.confusion_table(counts, self._votes.worker_ptr, smoothing)

    def finish(self, params: Parameters) -> Outcome:
        """Returns what the E-step under `params` says of every task."""
        confidence, tie, tally = *self._blank(), self._rules.empty(hard=False)
        sums = total(
            [shard.finish(params, tally, confidence[cut], tie[cut]) for cut, shard in zip(self._cuts, self._shards, strict=True)]
        )
        self._tally = None
        return self._outcome(confidence, tie, tally, sums.log_likelihood)

    def majority(self) -> tuple[Outcome, Statistics]:
        """Returns what majority vote says of every task (a vote is right when it agrees), and its winners' statistics."""
        confidence, tie, tally = *self._blank(), self._rules.empty(hard=True)
        favour = self._favour()
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.majority(tally, favour, confidence[cut], tie[cut])
        return self._outcome(confidence, tie, tally, float("nan")), Statistics(*tally)

    def weigh(self, params: Parameters) -> tuple[Outcome, Statistics]:
        """Returns what weighted votes say of every task (a vote is right when it agrees), and their winners' statistics."""
        confidence, tie, tally = *self._blank(), self._rules.empty(hard=True)
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.weigh(params, tally, confidence[cut], tie[cut])
        self._tally = None
        return self._outcome(confidence, tie, tally, float("nan")), Statistics(*tally)

    def weight_shares(self, params: Parameters) -> NDArray[np.float64]:
        """Returns the share of each task's weights that each label has, [tasks, K]."""
        out = np.empty((self._votes.n_tasks, self._votes.n_labels))
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.weight_shares(params, out[cut])
        return out

    def posterior(self, params: Parameters) -> NDArray[np.float64]:
        """Returns T_qc under `params`, [tasks, K]."""
        out = np.empty((self._votes.n_tasks, self._votes.n_labels))
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.posterior(params, out[cut])
        return out

    def gold(self) -> NDArray[np.bool_] | None:
        """Returns which tasks have their label from gold, [tasks]; None where no gold was given."""
        return None if self._gold is None else self._gold >= 0

    def shares(self) -> NDArray[np.float64]:
        """Returns the share of each task's votes that each label has, [tasks, K]."""
        out, favour = np.empty((self._votes.n_tasks, self._votes.n_labels)), self._favour()
        for cut, shard in zip(self._cuts, self._shards, strict=True):
            shard.shares(favour, out[cut])
        return out

    def glad(self) -> Glad:
        """Returns the passes of GLAD over these votes; too little memory is foreseen and said."""
        engine, rules = self._engine, self._rules
        require_glad(self._votes)
        place = Place(engine.glad_kernels, engine.threads, rules.label_hash, rules.by_prior, self._gold)
        return Glad(self._votes, place, MemoryShelf(self._votes, self._task_key, self._cuts))

    def _units(self) -> Units:
        known = None if self._tally is None else self._tally[0].sum(axis=1)  # hard: whole votes
        return units_of(self._votes, self._engine.kernels, self._engine.threads, known)

    def _blank(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        return np.empty(self._votes.n_tasks), np.empty(self._votes.n_tasks, np.bool_)

    def _favour(self) -> NDArray[np.float64] | None:
        """Returns each label's share of all votes, [K], where ties ask for it: the class marginal before any model."""
        if not self._rules.by_prior:
            return None
        weights = self._votes.votes_per_row()
        return np.bincount(self._votes.row_label, weights, minlength=self._votes.n_labels).astype(np.float64)

    def _outcome(self, confidence: NDArray[np.float64], tie: NDArray[np.bool_], tally: Tally, likelihood: float) -> Outcome:
        counts, _ = self._rules.counted(tally)
        right = counts[np.arange(self._votes.n_rows), self._votes.row_label].astype(np.float64)
        labels = np.concatenate([np.zeros(0, np.int32), *(shard.labels for shard in self._shards)])
        return Outcome(labels, confidence, tie, right, likelihood)


def total(sums: list[reference.Sums]) -> reference.Sums:
    """Returns the sum of the shards' scalars, in shard order."""
    if not sums:
        return reference.Sums(0.0, 0.0, 0, 0)
    likelihood, classification, changed, impossible = zip(*sums, strict=True)
    return reference.Sums(sum(likelihood), sum(classification), sum(changed), sum(impossible))
