"""Votes on devices: shards that stay there, or that are streamed from the host in every pass; and the labels of all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from adjudge.data.votes import Votes
from adjudge.engines.base import GladPasses, WholeVotes
from adjudge.engines.local import MemoryStore, processor_engine
from adjudge.engines.session import VoteStore
from adjudge.engines.shard import MAX_FINE_VOTES, TieKeys, Units, rules_for, units_of
from adjudge.errors import AdjudgeError
from adjudge.gpu.arrays import TaskArray
from adjudge.gpu.device import Copier, Device
from adjudge.gpu.passes import require_labels
from adjudge.gpu.plan import DevicePlan, FitSize, fits_beside, plan_in_place, plan_shards, usable
from adjudge.gpu.shard import DeviceShard, salt_of
from adjudge.gpu.state import DeviceRules, FitDevice
from adjudge.gpu.votes import DeviceLayout, DeviceVotes, TieIds

if TYPE_CHECKING:
    from adjudge.gpu.engine import CudaEngine

Floats = NDArray[np.float64]
T = TypeVar("T")


class Resident(NamedTuple):
    """Votes on devices."""

    key: tuple[Any, ...]  # everything they depend on except the votes
    plan: DevicePlan
    shards: list[tuple[DeviceLayout, TieIds]]  # the votes of every shard


# Votes kept on devices for the next fit over them: copying takes longer than a pass. They are freed with their `Votes`, or
# when another fit needs the memory.
_RESIDENT: WeakKeyDictionary[Votes, Resident] = WeakKeyDictionary()


class DeviceStore(VoteStore):
    """Votes on one or several devices, divided into shards that keep the label of every task."""

    rules: DeviceRules

    def __init__(self, engine: CudaEngine, votes: Votes, seed: int, ties: str, gold: NDArray[np.int32] | None) -> None:
        self.votes = votes
        self.gold = gold
        self._engine, self._seed = engine, seed
        devices = (votes.layout.device,) if isinstance(votes, DeviceVotes) else engine.devices
        require_labels(votes.n_labels, devices)
        self.rules = DeviceRules.over(votes, ties, self._units, devices, engine.kernels, is_bounded=engine.memory is not None)
        self._plan = self._plan_votes()

    def __reduce__(self) -> tuple[Any, ...]:  # shards and keys follow from these; their labels are in the outcome of the fit
        return unpickled_store, (self._engine, self.votes, self._seed, self.rules.by_prior, self.gold)

    @property
    def is_streamed(self) -> bool:
        """Whether votes are copied to the devices in every pass."""
        return self._plan.streamed

    def relabel(self, what: str, act: Callable[[slice, DeviceShard], T]) -> list[T]:
        """Run an action on each shard, on its device, and return its results; the shard keeps the labels it leaves."""
        fit_devices = self.rules.fit_devices[: max(self._plan.shard_device, default=0) + 1]
        ready = self._streams if self.is_streamed else self._shards  # before any thread asks for them
        if len(fit_devices) == 1:
            results = [_run(fit_devices[0], ready[0], act)]
        else:  # a thread waits for each device; each may have a stream of its own, so nothing is under way when they take over
            for fit_device in fit_devices:
                with fit_device.device.current():
                    fit_device.device.wait()
            with ThreadPoolExecutor(len(fit_devices)) as threads:
                results = list(threads.map(lambda one: _run(one, ready[one.index], act, wait=True), fit_devices))
        return [one for some in results for one in some]  # shards are dealt out in their order

    def decide(self, what: str, act: Callable[..., T]) -> tuple[list[T], tuple[NDArray[Any], ...]]:
        """Return the results of act(tasks, shard, confidence OUT, tie OUT) on each shard, and labels, confidence, tie of all."""
        if self.stays:
            return self._decide_there(what, act)
        return super().decide(what, act)

    @property
    def stays(self) -> bool:
        """Whether what is decided stays on a device: all tasks are in one shard there, and gold is not among them."""
        return self.gold is None and not self.is_streamed and len(self._plan.cuts) == 1

    def _decide_there(self, what: str, act: Callable[..., T]) -> tuple[list[T], Any]:
        """Do what `decide` does; the arrays stay on the device until they are read."""
        device, n = self.rules.fit_devices[0].device, self.votes.n_tasks
        labels, confidence, tie = (TaskArray.to_fill(device, n, kind) for kind in (np.int32, np.float64, np.bool_))

        def decide_shard(cut: slice, shard: DeviceShard) -> T:
            said = act(cut, shard, confidence, tie)
            labels.put(shard.codes())
            return said

        return self.relabel(what, decide_shard), (labels, confidence, tie)

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return how many votes each row has, [rows]."""
        found = self.relabel("votes", lambda _, shard: shard.votes_per_row())
        total: NDArray[np.int64] = np.sum(found, axis=0, dtype=np.int64)
        return total

    def glad(self) -> GladPasses:
        """Return the passes of GLAD over these votes, on the first device if they all fit there."""
        from adjudge.gpu.glad import glad_on

        fit_device, resident = self.rules.fit_devices[0], None
        if not fit_device.has_device_kernels:
            return self.on_processor.glad()
        if self.stays:
            resident = self._shards[0][0][1].bound
        for _ in range(2):  # the second time without the votes of other fits
            found = glad_on(
                fit_device.device,
                self.votes,
                self.rules.label_hash,
                seed=self._seed,
                by_prior=self.rules.by_prior,
                gold=self.gold,
                room=usable(fit_device.device.memory()[0], self._engine.memory),
                resident=resident,
            )
            if found is not None:
                return found
            for votes in list(_RESIDENT):
                if votes is not self.votes:
                    _RESIDENT.pop(votes, None)
        return self.on_processor.glad()

    def whole(self) -> WholeVotes:
        """Return all votes, for a method whose passes are its own: they run on the processor."""
        return self.on_processor.whole()

    @cached_property
    def on_processor(self) -> MemoryStore:
        """The same votes in memory, for passes that have no kernel on a device."""
        threads, votes = self._engine.threads, self.votes
        engine = processor_engine(threads)
        rules = rules_for(votes, engine.kernels, threads, "prior" if self.rules.by_prior else "hash")
        return MemoryStore(engine, votes, self._seed, rules, self.gold)

    def _units(self) -> Units:
        """Return the units of soft shares; the votes are counted on the device."""
        few = len(self.votes) <= MAX_FINE_VOTES
        return units_of(self.votes, self.rules.kernels, 1, None if few else self.votes_per_row())

    def _plan_votes(self) -> DevicePlan:
        """Return how the votes are divided; those of another fit give way where there is too little room."""
        resident = self._resident()
        if resident is not None:
            room = [usable(device.memory()[0], None) for device in self.rules.devices]
            if fits_beside(self._size, resident.plan, room):
                return resident.plan
            _RESIDENT.pop(self.votes, None)
        if _RESIDENT:
            with suppress(AdjudgeError):
                plan = self._divide()
                if not plan.streamed:
                    return plan
            _RESIDENT.clear()
        return self._divide()

    def _resident(self) -> Resident | None:
        """Return the votes that a previous fit left on the devices, if this fit can use them."""
        found = None if self.gold is not None else _RESIDENT.get(self.votes)
        return found if found is not None and found.key == self._key else None

    @property
    def _size(self) -> FitSize:
        """The sizes of the fit."""
        votes = self.votes
        on_gold = 0 if self.gold is None else int(np.diff(votes.task_ptr)[self.gold >= 0].sum())
        return FitSize(len(votes), votes.n_tasks, votes.n_rows, votes.n_labels, votes.n_workers, on_gold)

    def _divide(self) -> DevicePlan:
        """Return how the votes are divided among the devices as these are now."""
        votes, devices, limit, size = self.votes, self.rules.devices, self._engine.memory, self._size
        room = [usable(device.memory()[0], limit) for device in devices]
        if isinstance(votes, DeviceVotes) and self.gold is None:
            return plan_in_place(size, devices[0].name, room[0], allowed=limit is not None)
        return plan_shards(size, votes.task_ptr, [one.name for one in devices], room, allowed=limit is not None)

    @property
    def _key(self) -> tuple[Any, ...]:
        """Return the key of votes on devices: the devices, and the seed if ids are hashed on the host."""
        seed = None if self.votes.tasks.kind == "integer" else self._seed
        return self.rules.devices, self._engine.memory, seed

    @cached_property
    def _shards(self) -> list[list[tuple[slice, DeviceShard]]]:
        """The tasks and shards of every device, [devices]; resident votes are copied there now."""
        plan, rules, votes = self._plan, self.rules, self.votes
        if isinstance(votes, DeviceVotes) and self.gold is None:
            ties, fit_device = TieIds(None, votes.task_numbers, salt_of(self._seed)), rules.fit_devices[0]
            with fit_device.device.current():
                return [[(plan.cuts[0], DeviceShard.over_layout(rules, fit_device, votes.layout, ties))]]
        keys = TieKeys(rules.kernels, votes.tasks, self._seed, self._engine.threads)
        before = self._resident()
        if before is not None and before.plan != plan:  # another fit has left them since this one was planned
            before = None
        on_devices: list[tuple[DeviceLayout, TieIds]] = []
        out: list[list[tuple[slice, DeviceShard]]] = [[] for _ in rules.fit_devices]
        for number, (cut, at) in enumerate(zip(plan.cuts, plan.shard_device, strict=True)):
            fit_device = rules.fit_devices[at]
            given = None if self.gold is None else self.gold[cut]
            with fit_device.device.current():
                ptr = votes.task_ptr[cut.start : cut.stop + 1]
                shard = DeviceShard(rules, fit_device, ptr, votes.row, keys.within(cut), gold=given)
                out[at].append((cut, shard))
                if not plan.streamed:
                    layout, ties = _copy_votes(shard) if before is None else before.shards[number]
                    shard.bind(layout, TieIds(ties.keys, ties.numbers, salt_of(self._seed)))
                    on_devices.append((layout, ties))
        if self.gold is None and not plan.streamed:
            _RESIDENT[votes] = Resident(self._key, plan, on_devices)
        return out

    @cached_property
    def _streams(self) -> list[ShardStream]:
        """The streams of every device, [devices]."""
        out = []
        for fit_device, some in zip(self.rules.fit_devices, self._shards, strict=True):
            with fit_device.device.current():
                out.append(ShardStream(fit_device, some))
        return out


def _run(
    fit_device: FitDevice,
    shards: Iterable[tuple[slice, DeviceShard]],
    act: Callable[[slice, DeviceShard], T],
    *,
    wait: bool = False,
) -> list[T]:
    """Return the results of an action on the shards of a device."""
    with fit_device.device.current():
        results = [act(cut, shard) for cut, shard in shards]
        if wait:
            fit_device.device.wait()
        return results


def release(device: Device, needed: int) -> None:
    """Free the votes cached for further fits if a device is short of memory."""
    if _RESIDENT and usable(device.memory()[0], None) < needed:
        _RESIDENT.clear()


def unpickled_store(engine: Any, votes: Votes, seed: int, by_prior: bool, gold: NDArray[np.int32] | None) -> Any:
    """Return a store that was pickled: on devices, or in memory where there are none, or where they have no room for it."""
    ties = "prior" if by_prior else "hash"
    if hasattr(engine, "devices"):
        with suppress(AdjudgeError):
            return DeviceStore(engine, votes, seed, ties, gold)
        engine = processor_engine(engine.threads)
    return MemoryStore(engine, votes, seed, rules_for(votes, engine.kernels, engine.threads, ties), gold)


def _copy_votes(shard: DeviceShard) -> tuple[DeviceLayout, TieIds]:
    """Return the votes of a shard, copied to its device."""
    device, (ids, are_numbers, salt) = shard.fit_device.device, shard.tie_ids()
    layout, on_device = DeviceLayout.of(device, *shard.host_votes), device.upload(ids)
    return layout, TieIds(None, on_device, salt) if are_numbers else TieIds(on_device, None, salt)


class ShardStream:
    """The shards of one device, one after the other: the next one is copied while the current one is worked on.

    After the last comes the first of the next pass.
    """

    def __init__(self, fit_device: FitDevice, shards: list[tuple[slice, DeviceShard]]) -> None:
        self._shards = shards
        self._parts = [_PinnedShard(shard) for _, shard in shards]
        device = fit_device.device
        most = [max((len(part.arrays[i]) for part in self._parts), default=0) for i in range(3)]
        kinds = [array.dtype for array in self._parts[0].arrays] if self._parts else [np.uint32, np.uint32, np.int64]
        self._buffers = [[device.xp.empty(n, kind) for n, kind in zip(most, kinds, strict=True)] for _ in range(2)]
        self._copier: Copier = device.copier()
        self._ready: int | None = None  # the shard whose copy was started last
        self._turn = 0  # its buffer

    def __iter__(self) -> Iterator[tuple[slice, DeviceShard]]:
        """Yield tasks and shard; its votes stay on the device until the next iteration."""
        for number, (cut, shard) in enumerate(self._shards):
            if self._ready != number:  # the first of all, or after a pass that was interrupted
                self._start(number)
            self._copier.arrive()
            shard.bind(*self._parts[number].on(self._buffers[self._turn]))
            self._start((number + 1) % len(self._shards))
            yield cut, shard
            shard.unbind()

    def __del__(self) -> None:
        """Wait for the copy of a shard that no pass asked for: its memory is given to others now."""
        with suppress(Exception):
            self._copier.wait()

    def _start(self, number: int) -> None:
        self._turn, self._ready = 1 - self._turn, number
        for to, host in zip(self._buffers[self._turn], self._parts[number].arrays, strict=True):
            self._copier.copy(to[: len(host)], host)


class _PinnedShard:
    """The votes of a shard in pinned memory: where tasks begin, rows, and what settles ties."""

    def __init__(self, shard: DeviceShard) -> None:
        device, (ptr, row) = shard.fit_device.device, shard.host_votes
        ids, self._are_numbers, self._salt = shard.tie_ids()
        first, last = int(ptr[0]), int(ptr[-1])
        self.arrays = [
            device.pinned(len(ptr), np.uint32),
            device.pinned(last - first, np.uint32),
            device.pinned(len(ids), ids.dtype),
        ]
        np.subtract(ptr, first, out=self.arrays[0], casting="unsafe")
        self.arrays[1][...] = row[first:last]
        self.arrays[2][...] = ids
        found = DeviceLayout.of(device, ptr, row[:0])  # lengths alone
        self._each, self._long, self._device = found.each, found.long_tasks, device

    def on(self, buffers: list[Any]) -> tuple[DeviceLayout, TieIds]:
        """Return the votes as they are stored in buffers of the device."""
        ptr, row, ids = (buffer[: len(array)] for buffer, array in zip(buffers, self.arrays, strict=True))
        ties = TieIds(None, ids, self._salt) if self._are_numbers else TieIds(ids, None, self._salt)
        return DeviceLayout(self._device, ptr, row, self._each, self._long), ties
