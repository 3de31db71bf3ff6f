"""Auto's M-step on a device: the tables of careful workers from counts that stay there.

What all workers share goes through the functions of `adjudge.results.careful` on the host. They get the votes by true and
given label, [K, K], and three numbers per worker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.gpu.device import Device, Program
from adjudge.gpu.segment_sums import THREADS, add_lines, blocks_of
from adjudge.models.auto import CarefulRecipe
from adjudge.results.careful import TINY, CarefulShared, pooled_votes, shared_by_all
from adjudge.results.honest import Dependence

Floats = NDArray[np.float64]
T = TypeVar("T")


def careful_lines(
    device: Device,
    counts: Any,  # device [rows, K] int64 or float64
    worker_ptr: Any,  # device int64 [workers + 1]
    row_worker: Any,  # device int64 [rows]
    row_label: Any,  # device int32 [rows]
    recipe: CarefulRecipe,
) -> tuple[Any, Any]:
    """Return log W of a careful version, device [rows, K], and the votes of each worker by true label, device [workers, K].

    It is for votes without weights, of workers without a history.
    """
    with device.current():
        rows, k = counts.shape
        table = device.xp.empty((rows, k))
        if not table.size:
            return table, device.xp.zeros((len(worker_ptr) - 1, k))
        seen = DeviceSeen(device, counts.astype(np.float64, copy=False), worker_ptr, row_label)
        shared = shared_by_all(seen.gather, recipe.dependence, recipe.exists, lambda *_: cast(Any, seen))
        of_version = _taste if recipe.kind == "A" else _own_votes
        given = of_version(seen, shared, recipe.dependence, recipe.exists)
        program = device.program("careful", K=k)
        program.launch("careful_table", blocks_of(table.size), THREADS, row_worker, row_label, *given, seen.counts, table, rows)
        return table, seen.met


class DeviceSeen:
    """Votes of all workers under the labels believed, on a device: `Seen` of `adjudge.results.careful`."""

    def __init__(self, device: Device, counts: Any, worker_ptr: Any, row_label: Any) -> None:
        self.device, self.counts, self._row_label = device, counts, row_label
        xp, k, workers = device.xp, counts.shape[1], len(worker_ptr) - 1
        self.met, self.said, self.right_votes = xp.empty((workers, k)), xp.empty((workers, k)), xp.empty(workers)
        out = self.met, self.said, self.right_votes
        self.program: Program = device.program("careful", K=k)
        self.program.launch("careful_seen", blocks_of(workers * k), THREADS, counts, worker_ptr, row_label, *out, workers)
        self.total = self.met.sum(axis=1)  # device [workers]

    @cached_property
    def right(self) -> Floats:
        """The right votes of each worker, [workers], on the host."""
        return self.device.download(self.right_votes)

    @cached_property
    def votes(self) -> Floats:
        """The votes of each worker, [workers], on the host."""
        return self.device.download(self.total)

    def expected_accuracy(self, own: Floats) -> Floats:
        """Return what the mean worker would reach on the labels that each worker met, [workers], on the host."""
        return self.device.download(self.expected_rate(own))

    def expected_rate(self, own: Floats) -> Any:
        """Return the same on the device."""
        xp = self.device.xp
        return xp.clip((self.met * self.device.upload(own)).sum(axis=1) / xp.maximum(self.total, TINY), 0.02, 0.98)

    def gather(self, function: Callable[[Any, Any], T]) -> T:
        """Return what a function says of all workers; votes by true and given label are summed on the device."""
        return cast(T, self._pooled()) if function is pooled_votes else function(None, self.counts)

    def product(self, lines: Any, matrix: Any) -> Any:
        """Return lines, device [some, K], times a matrix, device [K, K]."""
        out = self.device.xp.empty(lines.shape)
        self.program.launch("careful_product", blocks_of(out.size), THREADS, lines, matrix, out, len(out))
        return out

    def _pooled(self) -> Floats:
        """Return the votes of all workers, [K true, K given]."""
        k = self.counts.shape[1]
        pooled = self.device.xp.zeros((k, k))
        add_lines(self.device, self._row_label, lambda order: order.astype(np.uint32), self.counts, pooled)
        return np.ascontiguousarray(self.device.download(pooled).T)


def _taste(seen: DeviceSeen, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return what a table of version A is made of: a worker's accuracy, and the worker's taste for labels."""
    xp, met, phi = seen.device.xp, seen.met, found.inflation
    sure, wrong, there, errors = _rates(seen, shared, phi**-0.5, exists)
    believed = xp.where(there, sure, 0.0)
    expected = seen.product(met * wrong, seen.device.upload(errors)) + met * believed
    lent = 10.0 * expected / xp.maximum(expected.sum(axis=1, keepdims=True), TINY)
    taste = ((seen.said + lent + 1e-3) / (expected + lent + 1e-3)) ** (0.6 * phi**-0.25)
    by_given = seen.device.upload(errors.T)
    norm = wrong * seen.product(taste, by_given) + believed * taste  # sums over given labels
    return sure, wrong, by_given, there, taste, xp.where(norm > 0, norm, 1.0), None, met


def _own_votes(seen: DeviceSeen, shared: CarefulShared, found: Dependence, exists: NDArray[np.bool_]) -> tuple[Any, ...]:
    """Return what a table of version B is made of: a worker's accuracy, and the worker's own rows up to a cap."""
    sure, wrong, there, errors = _rates(seen, shared, shared.trust, exists)
    cap = shared.trust * found.effective_votes / (found.effective_votes + 5.0)
    share = seen.device.xp.minimum(seen.met / (seen.met + 10.0), cap)
    return sure, wrong, seen.device.upload(errors.T), there, None, None, share, seen.met


def _rates(seen: DeviceSeen, shared: CarefulShared, weight: float, exists: NDArray[np.bool_]) -> tuple[Any, Any, Any, Floats]:
    """Return the probabilities to be right and to be wrong by true label, device [workers, K] each, and two more.

    These are the labels that exist, device [K], and how the mean worker errs, [K true, K given], on the host.
    """
    device, xp = seen.device, seen.device.xp
    usual = seen.expected_rate(shared.own)
    rate = xp.clip((seen.right_votes + shared.kappa * usual) / (seen.total + shared.kappa), 0.01, 0.995)
    shift = weight * (xp.log(rate / (1.0 - rate)) - xp.log(usual / (1.0 - usual)))
    log_odds = device.upload(np.log(shared.own / (1.0 - shared.own)))
    sure = 1.0 / (1.0 + xp.exp(-(log_odds + shift[:, None])))
    there = device.upload(exists)
    errors = shared.mean_worker.copy()
    np.fill_diagonal(errors, 0.0)
    of_label = errors.sum(axis=1, keepdims=True)
    errors /= np.where(of_label > 0, of_label, 1.0)
    return sure, xp.where(there, 1.0 - sure, 0.0), there, errors
