"""The engine of CUDA devices, the session of a fit there, and its result: everything but passes runs as on the processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER, Others, Parameters, TableLines
from adjudge.data.options import Place
from adjudge.data.votes import Gold, Votes, WorkerRows
from adjudge.engines.base import FitEstimate, PassSums, Recipe
from adjudge.engines.local import LocalEngine, processor_engine
from adjudge.engines.passes import Confidence, PairSums, RowFunction, RowInputs, VotePass
from adjudge.engines.session import DecidedBy, LocalSession, unpickled_session
from adjudge.errors import AdjudgeError, InputError, OptionError, itemize
from adjudge.gpu.arrays import TaskArray
from adjudge.gpu.device import Device, device_at, device_count, is_started
from adjudge.gpu.encode import ENCODE_BYTES, column_length, device_number, encode
from adjudge.gpu.passes import DeviceKernels
from adjudge.gpu.plan import crossover_votes
from adjudge.gpu.state import DeviceCounts, DeviceParameters, DeviceRules, Replicated
from adjudge.gpu.store import DeviceStore, release
from adjudge.gpu.tables import careful_lines
from adjudge.gpu.votes import DeviceVotes
from adjudge.io.answers import gold_codes, read_gold, read_matching_answers
from adjudge.io.read import as_votes
from adjudge.io.reading import PLAIN_READING, Reading
from adjudge.io.sources import Opened, Source
from adjudge.io.workers import load_votes
from adjudge.kernels.cpu import cores
from adjudge.models.auto import CarefulRecipe
from adjudge.models.dawid_skene import ConfusionRecipe
from adjudge.models.honest import Honest
from adjudge.results.result import Result

if TYPE_CHECKING:
    from adjudge.results.explanation import Explanation


class CudaResult(Result):
    """What `fit` and `aggregate` return on engine "cuda": a `Result` whose labels and confidence are on the device, too.

    Frames are copied to the host on first use. `labels_array` and `confidence_array` are the arrays that PyTorch, JAX and CuPy
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
        """Return why a task has its label, as `Result.explain` does; the device's votes are copied to the host for it.

        Parameters
        ----------
        task, settled, by : as for `Result.explain`
            The task, and how to explain it.

        """
        from adjudge.results.explain import explain

        return explain(self._with_votes_here, task, settled=settled, by=by)

    @cached_property
    def _with_votes_here(self) -> CudaResult:
        """The same result over votes of the host, which `explain` needs."""
        return replace(self, votes=load_votes(self.votes)) if isinstance(self.votes, DeviceVotes) else self

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


Floats = NDArray[np.float64]
T = TypeVar("T")


class CudaSession(LocalSession):
    """A fit over votes on devices. The M-steps of Dawid-Skene and `auto` run there; other recipes get a copy of the counts."""

    result: ClassVar[type[Result]] = CudaResult
    _rules: DeviceRules
    _store: DeviceStore

    def __init__(self, store: DeviceStore, *, gold: Gold | None = None, history: Any = None) -> None:
        super().__init__(store, store.rules, gold=gold, history=history)
        self._block = self._block._replace(row_votes=self._row_votes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Reduce a finished fit to host arrays, so that its result can be pickled and loaded without a device."""
        params = self._params
        return unpickled_cuda_session, (self._store, self.gold_labels, params, self._decided_by, self._block.history)

    def m_step(self, recipe: Recipe, priors: Floats) -> None:
        """Compute the table from the counts of the last pass, on the device if the recipe is the paper's own."""
        is_own = type(recipe) is ConfusionRecipe and recipe.beliefs.shared is None
        is_careful = type(recipe) is CarefulRecipe and self._rules.fit_devices[0].has_device_kernels
        if not self._is_plain or not (is_own or is_careful):
            super().m_step(recipe, priors)
            return
        self._lines = self._params = self._spread = self._bound = None  # the table before makes room for the one to come
        with self.device.current():  # where the recipe adds up a table
            made = recipe.on(self._block)(self._counted[0], None) if is_own else self._careful(cast(CarefulRecipe, recipe))
        self._lines = made
        self._params = DeviceParameters.on_devices(self._rules.fit_devices, priors, self._lines)

    @property
    def _is_plain(self) -> bool:
        """Whether kernels over counts can take them: they are on the device, votes have no weights, workers no history."""
        return self._block.history is None and self._weights is None and isinstance(self._counted[0], DeviceCounts)

    def _careful(self, recipe: CarefulRecipe) -> TableLines:
        """Return the lines of a careful version, on the first device."""
        assert self._kept is not None  # what it is anchored in
        fit_device, (before, now) = self._rules.fit_devices[0], (self._kept[0].summed, self._counted[0].summed)
        with fit_device.device.current():
            counts = recipe.anchor * before + (1.0 - recipe.anchor) * now if recipe.anchor else now
            return TableLines(*careful_lines(fit_device.ids, counts, recipe))

    def blend(self) -> None:
        """Average the saved and the current table and log priors, in place."""
        one, two = self._aside, self._current
        if isinstance(one, DeviceParameters) and isinstance(two, DeviceParameters):
            self._params, self._lines, self._aside, self._kept = two.blend_with(one), None, None, None
        else:
            super().blend()

    def _inputs(self, job: VotePass[Any], function: RowFunction) -> RowInputs:
        """Return a pass's inputs per row, computed on the device if it has a kernel for them."""
        fit_device = self._rules.fit_devices[0]
        honest = getattr(function, "__self__", None)
        is_own = isinstance(honest, Honest) and function == honest.lines
        if honest is None or not (is_own and self._is_plain and fit_device.has_device_kernels):
            inputs = super()._inputs(job, function)
            rows = np.arange(self.votes.n_rows, dtype=np.uint32)
            return job.inputs_at(inputs, rows) if isinstance(job, PairSums) else inputs  # kernels take the values of rows
        counts, exists = self._counted[0].summed, honest.rule.uniform > 0
        with fit_device.device.current():
            ids = fit_device.worker_ptr, fit_device.row_worker, fit_device.row_label
            lines = fit_device.kernels.honest_lines(counts, *ids, honest.population, exists, PSEUDO_VOTES_PER_WORKER)
        return job.inputs(tuple(Replicated(self._rules.fit_devices, one) for one in lines), self._block)

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

    def run(self, job: VotePass[T], function: RowFunction) -> T:
        """Return the result of a pass over all votes; ties on the device stay there."""
        if isinstance(job, Confidence) and isinstance(job.tie, TaskArray) and self._store.stays:
            there: VotePass[Any] = replace(job, tie=job.tie.parts)
            return cast(T, super().run(there, function))
        return super().run(job, function)

    def estimate(self, shown: Recipe | None = None) -> FitEstimate:
        """Return the fit's knowledge of workers, in arrays of the host."""
        found = super().estimate(shown)
        return found._replace(params=on_host(found.params))

    def scoring(self) -> tuple[DecidedBy, Parameters | None]:
        """Return how the tasks were decided, and the parameters that votes were scored by, in arrays of the host."""
        decided_by, params = super().scoring()
        return decided_by, None if params is None else on_host(params)

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
        """Return how many votes each pair has, weighted if votes have weights, [pairs]; they are counted on the device."""
        found: NDArray[Any] = self._pool(self._store.votes_per_row())
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


@dataclass(frozen=True)
class CudaEngine:
    """Runs passes on CUDA devices. Votes that do not fit there are streamed from the memory of the host."""

    devices: tuple[Device, ...]
    memory: int | None = None  # bytes of each device that a fit may take; None: what is free
    kernels: Callable[[Device], Any] = field(default=DeviceKernels)
    threads: int = field(default_factory=cores)  # for work that has no device kernel
    # Chosen by "auto", which refuses nothing: what the devices cannot do is done on the processor.
    is_automatic: bool = False
    name: str = "cuda"

    @property
    def place(self) -> Place:
        """What is in this process: all counts. Where `auto` chose the engine, which runs every model, all votes as well."""
        return "memory" if self.is_automatic else "process"

    def __reduce__(self) -> tuple[Any, ...]:
        devices = tuple(one if one.number is None else one.number for one in self.devices)
        return _unpickled_engine, (devices, self.memory, self.kernels, self.threads, self.is_automatic)

    def read(self, source: Votes | Source | Opened, reading: Reading = PLAIN_READING) -> Votes:
        """Return the votes of any source: in memory, or where arrays of a device are."""
        opened = Opened.of(source)
        if opened.home != self.name or isinstance(opened.source, Votes):
            return as_votes(opened, reading)
        source = opened.source
        number = device_number(source)
        here = [one for one in self.devices if one.number in (None, number)]
        if not here:
            names = itemize(f"{one.name} ({one.number})" for one in self.devices)
            raise OptionError(f"the votes are on CUDA device {number}, but the engine on {names}: give it that device")
        release(here[0], ENCODE_BYTES * column_length(source))
        return encode(here[0], source, reading)

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Source | None = None,
        history: Callable[[WorkerRows], Others] | None = None,
    ) -> LocalSession:
        """Return a session over these votes; raise beforehand if the memory of the devices is too small."""
        if not len(votes):  # nothing to run
            return processor_engine(self.threads).load(votes, seed=seed, ties=ties, gold=gold, history=history)
        if gold is not None and isinstance(votes, DeviceVotes):  # `aggregate` leaves the look at their tasks to the engine
            gold = read_matching_answers(gold, "gold", votes.tasks)
        given = None if gold is None else read_gold(gold, votes.labels)
        codes = None if given is None else gold_codes(given, votes.tasks)
        try:
            store = DeviceStore(self, votes, seed, ties, codes)
        except AdjudgeError:
            if not self.is_automatic:
                raise
            return processor_engine(self.threads).load(votes, seed=seed, ties=ties, gold=gold, history=history)
        return CudaSession(store, gold=given, history=history)


def cuda_engine(threads: int, *, devices: Sequence[int] | None = None, memory: int | None = None) -> CudaEngine:
    """Return the engine of these CUDA devices, by default all; without any, the error says what is missing."""
    numbers = range(max(device_count(), 1)) if devices is None else devices  # the first one says what is missing
    return CudaEngine(tuple(device_at(number) for number in numbers), memory, threads=threads)


def preferred(votes: int, threads: int) -> CudaEngine | None:
    """Return the engine if it is available and faster than the processor for this number of votes, else None."""
    if votes < crossover_votes(threads, warm=is_started()) or find_spec("cupy") is None or not device_count():
        return None
    try:
        devices = tuple(device_at(number) for number in range(device_count()))
        for device in devices:
            device.check()
    except AdjudgeError:
        return None
    return CudaEngine(devices, threads=threads)


def _unpickled_engine(
    devices: tuple[Any, ...], memory: int | None, kernels: Callable[[Device], Any], threads: int, is_automatic: bool
) -> CudaEngine | LocalEngine:
    """Return an engine that was pickled; where its devices are not, the processor does the same work."""
    try:
        found = tuple(device_at(one) if isinstance(one, int) else one for one in devices)
    except AdjudgeError:
        return processor_engine(threads)
    return CudaEngine(found, memory, kernels, threads, is_automatic)
