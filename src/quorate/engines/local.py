"""The engine of this process: shards of tasks, one kernel call each, statistics summed in shard order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.engines.glad import LocalGlad, Place
from quorate.engines.memory import require
from quorate.fit import Outcome
from quorate.kernels import glad_reference, reference
from quorate.params import Parameters
from quorate.statistics import Statistics
from quorate.vocabulary import Vocabulary
from quorate.votes import Votes

RECOUNT = 1 << 20  # votes recounted at once, to bound the memory that takes
Tally = tuple[Any, Any]  # counts [rows, K] and class counts [K]: int64 when hard, float64 when soft


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

    def load(self, votes: Votes, *, seed: int, ties: str) -> LocalSession:
        """Returns a session over these votes; too little memory is foreseen and said."""
        require(votes, self.shard_votes, self.threads)
        return LocalSession(self, votes, seed=seed, by_prior=ties == "prior")


class LocalSession:
    """Votes in memory, cut into shards, and the current label of every task."""

    def __init__(self, engine: LocalEngine, votes: Votes, *, seed: int, by_prior: bool) -> None:
        self._engine = engine
        self._votes = votes
        self._by_prior = by_prior
        kernels = engine.kernels
        self._task_key = kernels.tie_keys(_hashes(kernels, votes.tasks, engine.threads), seed, engine.threads)
        self._label_hash = _hashes(kernels, votes.labels, 1)
        self._labels = np.zeros(votes.n_tasks, np.int32)
        self._tally: Tally | None = None  # the counts of the current labels, while these are hard

    def start(self, *, hard: bool) -> Statistics:
        """Returns the statistics of majority vote: by winner (hard) or by vote shares (soft)."""
        tally = self._empty(hard)
        for shard in self._shards():
            self._majority(shard, soft=not hard, counts=tally[0], class_counts=tally[1])
        self._tally = tally if hard else None
        return Statistics(*tally)

    def recount(self, labels: NDArray[np.int32]) -> Statistics:
        """Returns the statistics of these labels, [tasks], and takes them as the current ones."""
        tally = self._empty(hard=True)
        self._labels[:] = labels
        for shard in self._shards(RECOUNT):
            ptr = self._votes.task_ptr[shard.start : shard.stop + 1]
            reference.recount_hard(ptr, self._votes.row, self._labels[shard], *tally)
        self._tally = tally
        return Statistics(*tally)

    def step(self, params: Parameters, *, hard: bool, likelihood: bool = True) -> Statistics:
        """Returns the statistics of one pass: an E-step under `params`, and the recount."""
        delta = hard and self._tally is not None  # then only tasks whose label changes touch the counts
        tally = self._tally if delta and self._tally is not None else self._empty(hard)
        options = {"hard": hard, "delta": delta, "likelihood": likelihood}
        sums = [self._pass(shard, params, counts=tally[0], class_counts=tally[1], **options) for shard in self._shards()]
        self._tally = tally if hard else None
        return Statistics(tally[0], tally[1], *_total(sums))

    def confusion_table(self, counts: Any, smoothing: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Returns log pi, [rows, K], and the votes of each worker by true label, [workers, K]."""
        out: tuple[NDArray[np.float64], NDArray[np.float64]] = self._engine.kernels.confusion_table(
            counts, self._votes.worker_ptr, smoothing, threads=self._engine.threads
        )
        return out

    def finish(self, params: Parameters) -> Outcome:
        """Returns what the E-step under `params` says of every task."""
        confidence, tie = np.empty(self._votes.n_tasks), np.empty(self._votes.n_tasks, np.bool_)
        counts, class_counts = self._empty(hard=False)
        sums = [
            self._pass(
                shard,
                params,
                hard=False,
                confidence=confidence[shard],
                tie=tie[shard],
                counts=counts,
                class_counts=class_counts,
            )
            for shard in self._shards()
        ]
        self._tally = None
        return self._outcome(confidence, tie, counts, _total(sums).log_likelihood)

    def majority(self) -> tuple[Outcome, Statistics]:
        """Returns what majority vote says of every task (a vote is right when it agrees), and its winners' statistics."""
        confidence, tie = np.empty(self._votes.n_tasks), np.empty(self._votes.n_tasks, np.bool_)
        counts, class_counts = self._empty(hard=True)
        for shard in self._shards():
            self._majority(
                shard,
                soft=False,
                confidence=confidence[shard],
                tie=tie[shard],
                counts=counts,
                class_counts=class_counts,
            )
        return self._outcome(confidence, tie, counts, float("nan")), Statistics(counts, class_counts)

    def posterior(self, params: Parameters) -> NDArray[np.float64]:
        """Returns T_qc under `params`, [tasks, K]."""
        out = np.empty((self._votes.n_tasks, self._votes.n_labels))
        for shard in self._shards():
            self._pass(shard, params, hard=False, posterior=out[shard])
        return out

    def shares(self) -> NDArray[np.float64]:
        """Returns the share of each task's votes that each label has, [tasks, K]."""
        out = np.empty((self._votes.n_tasks, self._votes.n_labels))
        for shard in self._shards():
            self._majority(shard, soft=True, posterior=out[shard])
        return out

    def glad(self) -> LocalGlad:
        """Returns the passes of GLAD over these votes."""
        engine = self._engine
        place = Place(engine.glad_kernels, engine.threads, self._shards, self._task_key, self._label_hash, self._by_prior)
        return LocalGlad(self._votes, place)

    def _shards(self, most: int = 1 << 62) -> Iterator[slice]:
        """Yields slices of tasks that hold about `shard_votes` votes each, or `most` where that is less."""
        ptr, size = self._votes.task_ptr, min(most, self._engine.shard_votes)
        start, tasks = 0, self._votes.n_tasks
        while start < tasks:
            end = int(np.searchsorted(ptr, ptr[start] + size, side="right")) - 1
            end = max(end, start + 1)
            yield slice(start, end)
            start = end

    def _pass(self, shard: slice, params: Parameters, **out: Any) -> reference.Sums:
        em_pass: Callable[..., reference.Sums] = self._engine.kernels.em_pass
        return em_pass(
            self._votes.task_ptr[shard.start : shard.stop + 1],
            self._votes.row,
            params.table,
            params.log_prior,
            self._task_key[shard],
            self._label_hash,
            by_prior=self._by_prior,
            labels=self._labels[shard],
            threads=self._engine.threads,
            **out,
        )

    def _majority(self, shard: slice, **out: Any) -> None:
        self._engine.kernels.majority(
            self._votes.task_ptr[shard.start : shard.stop + 1],
            self._votes.row,
            self._votes.row_label,
            self._task_key[shard],
            self._label_hash,
            favour=self._vote_share() if self._by_prior else None,
            labels=self._labels[shard],
            threads=self._engine.threads,
            **out,
        )

    def _vote_share(self) -> NDArray[np.float64]:
        """Returns each label's share of all votes, [K]: the class marginal before there is any model."""
        weights = self._votes.votes_per_row()
        return np.bincount(self._votes.row_label, weights, minlength=self._votes.n_labels).astype(np.float64)

    def _empty(self, hard: bool) -> Tally:
        k, kind = self._votes.n_labels, np.int64 if hard else np.float64
        return np.zeros((self._votes.n_rows, k), kind), np.zeros(k, kind)

    def _outcome(self, confidence: NDArray[np.float64], tie: NDArray[np.bool_], counts: Any, likelihood: float) -> Outcome:
        right = counts[np.arange(self._votes.n_rows), self._votes.row_label].astype(np.float64)
        return Outcome(self._labels.copy(), confidence, tie, right, likelihood)


def _hashes(kernels: ModuleType, ids: Vocabulary, threads: int) -> NDArray[np.uint64]:
    """Returns the hash of every id's text, [n]."""
    if ids.kind == "integer":  # no need to spell millions of numbers out
        return kernels.hash_integers(ids.values, threads)  # type: ignore[no-any-return]
    return kernels.hash_texts(*ids.text_buffers(), threads)  # type: ignore[no-any-return]


def _total(sums: list[reference.Sums]) -> reference.Sums:
    """Returns the sum of the shards' scalars, in shard order."""
    if not sums:
        return reference.Sums(0.0, 0.0, 0, 0)
    likelihood, classification, changed, impossible = zip(*sums, strict=True)
    return reference.Sums(sum(likelihood), sum(classification), sum(changed), sum(impossible))
