"""The session of a fit on devices: votes, labels, counts and tables are there; the host sees what a model asks for."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.counts import Lines, Others, Parameters
from adjudge.data.votes import Gold
from adjudge.engines.base import Estimate, GladPasses, HonestFunction, PassSums, Recipe
from adjudge.engines.session import DecidedBy, LocalSession, unpickled_session
from adjudge.gpu.careful import careful_lines
from adjudge.gpu.device import Device
from adjudge.gpu.fit_device import Replicated
from adjudge.gpu.result import CudaResult
from adjudge.gpu.rules import DeviceRules
from adjudge.gpu.state import DeviceCounts, DeviceParameters
from adjudge.gpu.store import DeviceStore
from adjudge.gpu.task_array import TaskArray
from adjudge.kernels.reference import HonestRule
from adjudge.models.auto import CarefulRecipe
from adjudge.models.confusion import ConfusionRecipe
from adjudge.results.honest import LENT, Honest
from adjudge.results.result import Result

Floats = NDArray[np.float64]


class CudaSession(LocalSession):
    """A fit over votes on devices. The M-steps of Dawid-Skene and `auto` run there; other recipes get a copy of the counts."""

    result: ClassVar[type[Result]] = CudaResult
    _rules: DeviceRules
    _store: DeviceStore

    def __init__(self, store: DeviceStore, *, gold: Gold | None = None, history: Any = None) -> None:
        super().__init__(store, store.rules, gold=gold, history=history)
        self._block = self._block._replace(row_votes=self._row_votes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a finished fit is asked for, so that its result can be pickled; devices are not needed to load it."""
        params = self._params
        return unpickled_cuda_session, (self._store, self.gold_labels, params, self._decided_by, self._block.history)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Make the table from the counts of the last pass: on the device, where the recipe is the paper's own."""
        is_own = type(recipe) is ConfusionRecipe and recipe.beliefs.shared is None
        is_careful = type(recipe) is CarefulRecipe and self._rules.fit_devices[0].has_device_kernels
        if not self._is_plain or not (is_own or is_careful):
            super().m_step(recipe, priors)
            return
        self._lines = self._params = self._spread = self._bound = None  # the table before makes room for the one to come
        with self.device.current():  # where the recipe adds up a table
            made = recipe.on(self._block)(self._counted[0], None) if is_own else self._careful(cast(CarefulRecipe, recipe))
        self._lines = made
        self._params = DeviceParameters.made(self._rules.fit_devices, priors, self._lines)

    @property
    def _is_plain(self) -> bool:
        """Whether kernels over counts can take them: they are on the device, votes have no weights, workers no history."""
        return self._block.history is None and self._weights is None and isinstance(self._counted[0], DeviceCounts)

    def _careful(self, recipe: CarefulRecipe) -> Lines:
        """Return the lines of a careful version, on the first device."""
        assert self._kept is not None  # what it is anchored in
        fit_device, (before, now) = self._rules.fit_devices[0], (self._kept[0].summed, self._counted[0].summed)
        with fit_device.device.current():
            counts = recipe.anchor * before + (1.0 - recipe.anchor) * now if recipe.anchor else now
            ids = fit_device.worker_ptr, fit_device.row_worker, fit_device.row_label
            return Lines(*careful_lines(fit_device.device, counts, *ids, recipe))

    def blend(self) -> None:
        """Take the mean of the table and log priors that were set aside and of the current ones; where they are."""
        one, two = self._aside, self._current
        if isinstance(one, DeviceParameters) and isinstance(two, DeviceParameters):
            self._params, self._lines, self._aside, self._kept = two.blended(one), None, None, None
        else:
            super().blend()

    def _vote_lines(self, function: HonestFunction) -> Any:
        """Return what a function says of the votes of all rows: on the device, where it has a kernel."""
        fit_device = self._rules.fit_devices[0]
        honest = getattr(function, "__self__", None)
        is_own = isinstance(honest, Honest) and function == honest.lines
        if honest is None or not (is_own and self._is_plain and fit_device.has_device_kernels):
            return super()._vote_lines(function)
        counts, exists = self._counted[0].summed, honest.rule.uniform > 0
        with fit_device.device.current():
            ids = fit_device.worker_ptr, fit_device.row_worker, fit_device.row_label
            lines = fit_device.kernels.honest_lines(counts, *ids, honest.population, exists, LENT)
        return tuple(Replicated(self._rules.fit_devices, one) for one in lines)

    @property
    def device(self) -> Device:
        """The device that the fit is on; the first of several."""
        return self._rules.fit_devices[0].device

    def recount(self, labels: NDArray[np.int32]) -> PassSums:
        """Take these labels, [tasks], as the current ones, and return their sums; those on the device stay there."""
        given: Any = labels
        if not isinstance(given, TaskArray) or not self._store.stays or (self._is_current and self._recounted is given):
            return super().recount(labels)
        parts: Any = given.parts
        sums = super().recount(parts)
        self._recounted = labels
        return sums

    def honest(self, function: HonestFunction, rule: HonestRule, tie: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the honest confidence of the current labels, and whether they are tied, [tasks] each, where these are."""
        given: Any = tie
        if isinstance(given, TaskArray) and self._store.stays:
            parts: Any = given.parts
            return super().honest(function, rule, parts)
        return super().honest(function, rule, tie)

    def estimate(self, shown: Recipe | None = None) -> Estimate:
        """Return the fit's knowledge of workers, in arrays of the host."""
        found = super().estimate(shown)
        return found._replace(params=on_host(found.params))

    def scoring(self) -> tuple[DecidedBy, Parameters | None]:
        """Return how the tasks were decided, and the parameters that votes were scored by, in arrays of the host."""
        decided_by, params = super().scoring()
        return decided_by, None if params is None else on_host(params)

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes."""
        return self._store.glad()

    def _on_host(self, counts: Any) -> Any:
        """Return counts by row as an array of the host."""
        return counts.on_host() if isinstance(counts, DeviceCounts) else counts

    def _right(self, counts: Any) -> Floats:
        """Return the right votes of each row, [rows], of counts by row, [rows, K]."""
        if not isinstance(counts, DeviceCounts):
            return super()._right(counts)
        fit_device, by_row = self._rules.fit_devices[0], counts.summed
        with fit_device.device.current():
            rows = fit_device.device.xp.arange(len(by_row))
            right: Floats = fit_device.device.download(by_row[rows, fit_device.row_label]).astype(np.float64)
        return right

    def _row_votes(self) -> NDArray[Any]:
        """Return how many votes each pair has, weighted where votes have weights, [pairs]; they are counted on the device."""
        found: NDArray[Any] = self._pooled(self._store.votes_per_row())
        return found


def on_host(params: Parameters) -> Parameters:
    """Return parameters in arrays of the host."""
    if not isinstance(params, DeviceParameters):
        return params
    return Parameters(params.priors, params.table, params.worker_totals, params.prior, params.penalty, params.uses_prior)


def unpickled_cuda_session(
    store: Any, gold: Gold | None, params: Parameters | None, decided_by: DecidedBy, history: Others | None
) -> LocalSession:
    """Return a session that was pickled: on devices, or in memory where there are none."""
    if not isinstance(store, DeviceStore):
        return unpickled_session(store, gold, params, decided_by, history)
    session = CudaSession(store, gold=gold, history=None if history is None else lambda _: history)
    session._params, session._decided_by = params, decided_by
    return session
