"""The engine of CUDA devices: passes run there, on one device or several, and everything else as on the processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from adjudge.data.counts import Others
from adjudge.data.options import Place
from adjudge.data.votes import Panel, Votes
from adjudge.engines.local import LocalEngine, processor_engine
from adjudge.engines.session import LocalSession
from adjudge.errors import OptionError, AdjudgeError, listed
from adjudge.gpu.columns import column_length, device_number
from adjudge.gpu.device import Device, device_at, device_count, is_started
from adjudge.gpu.encode import ENCODE_BYTES, encode
from adjudge.gpu.kernels import DeviceKernels
from adjudge.gpu.plan import crossover_votes
from adjudge.gpu.session import CudaSession
from adjudge.gpu.store import DeviceStore, release
from adjudge.gpu.votes import DeviceVotes
from adjudge.io.answers import gold_codes, matching_answers, read_gold
from adjudge.io.read import as_votes
from adjudge.io.sources import Source, is_device_source
from adjudge.kernels.cpu import cores


@dataclass(frozen=True)
class CudaEngine:
    """Runs passes on CUDA devices. Votes that do not fit there are streamed from the memory of the host."""

    devices: tuple[Device, ...]
    memory: int | None = None  # bytes of each device that a fit may take; None: what is free
    kernels: Callable[[Device], Any] = field(default=DeviceKernels)
    threads: int = field(default_factory=cores)  # of what has no kernel on a device
    # Chosen by "auto", which refuses nothing: what the devices cannot do is done on the processor.
    is_automatic: bool = False
    name: str = "cuda"
    bounds_memory: bool = True  # whether `memory` may be given

    @property
    def place(self) -> Place:
        """What is in this process: all counts. Where `auto` chose the engine, which runs every model, all votes as well."""
        return "memory" if self.is_automatic else "process"

    def __reduce__(self) -> tuple[Any, ...]:
        devices = tuple(one if one.number is None else one.number for one in self.devices)
        return _unpickled_engine, (devices, self.memory, self.kernels, self.threads, self.is_automatic)

    def read(self, source: Votes | Source, **options: Any) -> Votes:
        """Return the votes of any source: in memory, or where arrays of a device are; the options are those of `adjudge.read`."""
        if not is_device_source(source):
            return as_votes(source, **options)
        number = device_number(source)
        here = [one for one in self.devices if one.number in (None, number)]
        if not here:
            names = listed(f"{one.name} ({one.number})" for one in self.devices)
            raise OptionError(f"the votes are on CUDA device {number}, but the engine on {names}: give it that device")
        release(here[0], ENCODE_BYTES * column_length(source))
        return encode(here[0], source, **options)

    def load(
        self,
        votes: Votes,
        *,
        seed: int,
        ties: str,
        gold: Source | None = None,
        history: Callable[[Panel], Others] | None = None,
    ) -> LocalSession:
        """Return a session over these votes; raise beforehand if the memory of the devices is too small."""
        if not len(votes):  # nothing to run
            return processor_engine(self.threads).load(votes, seed=seed, ties=ties, gold=gold, history=history)
        if gold is not None and isinstance(votes, DeviceVotes):  # `aggregate` leaves the look at their tasks to the engine
            gold = matching_answers(gold, "gold", votes.tasks)
        given = None if gold is None else read_gold(gold, votes.labels)
        codes = None if given is None else gold_codes(given, votes.tasks)
        try:
            store = DeviceStore(self, votes, seed, ties, codes)
        except AdjudgeError:
            if not self.is_automatic:
                raise
            return processor_engine(self.threads).load(votes, seed=seed, ties=ties, gold=gold, history=history)
        return CudaSession(store, gold=given, history=history)


def cuda_engine(threads: int) -> CudaEngine:
    """Return the engine of all CUDA devices that are found; raise with what is missing where there is none."""
    found = max(device_count(), 1)  # the first one says what is missing
    return CudaEngine(tuple(device_at(number) for number in range(found)), threads=threads)


def preferred(votes: int, threads: int) -> CudaEngine | None:
    """Return the engine where it is there and faster than the processor for so many votes; nothing is raised."""
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
