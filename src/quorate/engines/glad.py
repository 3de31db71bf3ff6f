"""GLAD on the engine of this process: its two passes over shards, and what the last E-step says of every task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quorate.engines.base import GladModel, GladSlope
from quorate.fit import Outcome
from quorate.kernels import reference
from quorate.kernels.reference import Sums
from quorate.statistics import Statistics
from quorate.votes import Votes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """What the session of an engine lends to GLAD's passes."""

    kernels: ModuleType  # glad_reference or its twin
    threads: int
    cuts: Sequence[slice]  # of tasks
    task_key: NDArray[np.uint64]  # [tasks]
    label_hash: NDArray[np.uint64]  # [K]
    by_prior: bool
    gold: NDArray[np.int32] | None = None  # [tasks] given labels, below 0 where there is none


class LocalGlad:
    """Votes in memory with, for each, the probability that it is right: all that an E-step leaves for the M-step."""

    def __init__(self, votes: Votes, place: Place) -> None:
        self._votes = votes
        self._place = place
        self._row_worker = votes.row_worker().astype(np.int32)
        self._labels = np.zeros(votes.n_tasks, np.int32) if place.gold is None else np.maximum(place.gold, 0)
        self._right = np.empty(len(votes))
        self._class_counts = np.zeros(votes.n_labels)

    def expect(self, model: GladModel) -> Sums:
        """Returns the sums of an E-step."""
        return self._expect(model)

    def class_counts(self) -> Floats:
        """Returns the expected number of tasks of each label in the last E-step, [K]."""
        return self._class_counts

    def gradient(self, model: GladModel) -> GladSlope:
        """Returns the expected log-likelihood under the last E-step, with its slopes."""
        by_worker, worker_curvature = np.zeros_like(model.ability), np.zeros_like(model.ability)
        by_task, task_curvature = np.empty_like(model.ease), np.empty_like(model.ease)
        value = 0.0
        for shard in self._place.cuts:
            ptr, cast = self._cut(shard)
            value += self._place.kernels.gradient(
                ptr,
                self._votes.row,
                self._row_worker,
                model.ability,
                model.ease[shard],
                self._right[cast],
                model.log_others,
                threads=self._place.threads,
                by_worker=by_worker,
                by_task=by_task[shard],
                worker_curvature=worker_curvature,
                task_curvature=task_curvature[shard],
            )
        return GladSlope(value, by_worker, by_task, worker_curvature, task_curvature)

    def finish(self, model: GladModel) -> tuple[Outcome, Statistics]:
        """Returns what the E-step says of every task, and its soft statistics."""
        votes = self._votes
        confidence, tie = np.empty(votes.n_tasks), np.empty(votes.n_tasks, np.bool_)
        posterior = np.empty((votes.n_tasks, votes.n_labels))
        sums = self._expect(model, confidence=confidence, tie=tie, posterior=posterior)
        counts, class_counts = np.zeros((votes.n_rows, votes.n_labels)), np.zeros(votes.n_labels)
        for shard in self._place.cuts:  # once in a fit: the reference is fast enough
            reference.recount_soft(self._cut(shard)[0], votes.row, posterior[shard], counts, class_counts)
        right = np.bincount(votes.row, self._right, minlength=votes.n_rows).astype(np.float64)
        return Outcome(self._labels.copy(), confidence, tie, right, sums.log_likelihood), Statistics(counts, class_counts)

    def posterior(self, model: GladModel) -> Floats:
        """Returns T_qc, [tasks, K]."""
        out = np.empty((self._votes.n_tasks, self._votes.n_labels))
        self._expect(model, posterior=out)
        return out

    def _expect(self, model: GladModel, **out: Any) -> Sums:
        if self._place.gold is not None and "posterior" not in out:
            out["posterior"] = np.empty((self._votes.n_tasks, self._votes.n_labels))
        self._class_counts = np.zeros(self._votes.n_labels)
        likelihood, changed = 0.0, 0
        for shard in self._place.cuts:
            ptr, cast = self._cut(shard)
            sums = self._place.kernels.expect(
                ptr,
                self._votes.row,
                self._row_worker,
                self._votes.row_label,
                model.ability,
                model.ease[shard],
                model.log_prior,
                model.log_others,
                self._place.task_key[shard],
                self._place.label_hash,
                by_prior=self._place.by_prior,
                threads=self._place.threads,
                labels=self._labels[shard],
                right=self._right[cast],
                class_counts=self._class_counts,
                **{name: array[shard] for name, array in out.items()},
            )
            likelihood += sums.log_likelihood
            changed += sums.changed
        gold = self._place.gold
        if gold is not None:
            changed -= int(((self._labels != gold) & (gold >= 0)).sum())  # given back below
            likelihood += self._fix(gold, **out)
        return Sums(likelihood, float("nan"), changed, 0)

    def _fix(self, gold: NDArray[np.int32], posterior: Floats, **out: NDArray[Any]) -> float:
        """Gives gold tasks their label, and returns what that adds to the log-likelihood: log p of the given labels."""
        votes, chosen = self._votes, np.flatnonzero(gold >= 0)
        given, found = gold[chosen], posterior[chosen]
        certain = np.eye(votes.n_labels)[given]
        self._class_counts += certain.sum(axis=0) - found.sum(axis=0)
        posterior[chosen] = certain
        self._labels[chosen] = given
        for name, value in (("confidence", 1.0), ("tie", False)):
            if name in out:
                out[name][chosen] = value
        lengths = np.diff(votes.task_ptr)[chosen]
        where = np.repeat(votes.task_ptr[chosen], lengths) + np.arange(lengths.sum())
        where -= np.repeat(np.cumsum(lengths) - lengths, lengths)  # the places of these tasks' votes
        self._right[where] = votes.row_label[votes.row[where]] == np.repeat(given, lengths)
        with np.errstate(divide="ignore"):
            return float(np.log(found[np.arange(len(given)), given]).sum())

    def _cut(self, shard: slice) -> tuple[NDArray[np.int64], slice]:
        """Returns the task_ptr of a shard, and the slice of its votes."""
        ptr = self._votes.task_ptr[shard.start : shard.stop + 1]
        return ptr, slice(ptr[0], ptr[-1])
