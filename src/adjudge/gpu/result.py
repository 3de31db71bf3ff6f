"""A fit on a device decoded for people: labels and confidence stay there until they are read."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from adjudge.errors import InputError, AdjudgeError
from adjudge.gpu.device import Device
from adjudge.gpu.task_array import TaskArray
from adjudge.gpu.votes import DeviceVotes
from adjudge.io.exclude import held
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.explanation import Explanation


class CudaResult(Result):
    """What `fit` and `aggregate` return on engine "cuda": a `Result` whose labels and confidence are on the device, too.

    Frames are made of copies, when they are asked for. `labels_array` and `confidence_array` are what PyTorch, JAX and CuPy
    take without one (`torch.from_dlpack(result.labels_array)`).
    """

    @property
    def labels_array(self) -> Any:
        """The code of every task's label, int32 [tasks] on the device: its index in `votes.labels`; tasks are as in `labels`."""
        return self._on_device(self.fit.outcome.labels, np.int32)

    @property
    def confidence_array(self) -> Any:
        """The confidence of every task's label, float64 [tasks] on the device."""
        return self._on_device(self.fit.outcome.confidence, np.float64)

    @property
    def tasks_array(self) -> Any:
        """The id of every task, int64 [tasks] on the device; ids that are text are not there, and asking is an error."""
        numbers = getattr(self.votes, "task_numbers", None)
        if numbers is not None:
            return numbers
        if self.votes.tasks.kind != "integer":
            raise InputError(f"the tasks are ids of kind {self.votes.tasks.kind}: take them from result.labels")
        return self._on_device(self.votes.tasks.values, np.int64)

    @property
    def expected_errors(self) -> float:
        """The expected number of wrong labels, if confidence is to be believed: the sum of 1 - confidence over the tasks."""
        confidence: Any = self.fit.outcome.confidence
        if not isinstance(confidence, TaskArray) or confidence.is_on_host:
            return super().expected_errors
        with confidence.device.current():
            return float((1.0 - confidence.array).sum())

    @property
    def ties(self) -> int:
        """The number of tasks whose label had to be picked among tied ones."""
        tie: Any = self.fit.outcome.tie
        return int(tie.total()) if isinstance(tie, TaskArray) and not tie.is_on_host else super().ties

    @property
    def is_here(self) -> bool:
        """Whether intervals and verdicts can be found: votes and labels of a device come to the host for them."""
        return len(self.fit.outcome.labels) == self.votes.n_tasks

    def explain(self, task: object, *, settled: float = 0.95, by: Literal["confidence", "model"] = "confidence") -> Explanation:
        """Return why a task has its label, as `Result.explain` does; votes of a device come to the host for it."""
        from adjudge.results.explain import explain

        return explain(self._with_votes_here, task, settled=settled, by=by)

    @cached_property
    def _with_votes_here(self) -> CudaResult:
        """The same result over votes of the host, which `explain` needs."""
        return replace(self, votes=held(self.votes)) if isinstance(self.votes, DeviceVotes) else self

    def _on_device(self, array: Any, dtype: type[np.generic]) -> Any:
        """Return an array of tasks on the device of this fit; one of the host is copied."""
        if isinstance(array, TaskArray):
            return array.on_device()
        device: Device = self.device
        with device.current():
            return device.upload(np.asarray(array, dtype))

    @property
    def device(self) -> Device:
        """The device of this fit."""
        found: Device | None = getattr(self.session, "device", None)
        if found is None:
            raise AdjudgeError("this result was loaded without its device: take its arrays from result.labels")
        return found
