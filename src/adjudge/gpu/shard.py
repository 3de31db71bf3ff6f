"""A shard whose votes and labels are on a device. It takes and returns arrays of the host, or `TaskArray`s that stay there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.fit import Parameters
from adjudge.engines.passes import RowInputs
from adjudge.engines.shard import Shard, Tally, TieKeys
from adjudge.gpu.arrays import TaskArray
from adjudge.gpu.state import DeviceRules, FitDevice
from adjudge.gpu.votes import DeviceLayout, TieIds, label_type
from adjudge.kernels import reference
from adjudge.kernels.reference import Sums

Floats = NDArray[np.float64]


class DeviceShard(Shard):
    """The votes of some tasks on one device. `bind` says where they are stored before any pass."""

    rules: DeviceRules

    def __init__(
        self,
        rules: DeviceRules,
        fit_device: FitDevice,
        task_ptr: NDArray[np.int64],  # [tasks + 1] absolute positions in `row`
        row: NDArray[np.uint32],  # [all votes]
        task_key: TieKeys,
        *,
        gold: NDArray[np.int32] | None = None,  # [tasks] given labels, NO_GOLD if there is none
    ) -> None:
        super().__init__(rules, task_ptr, row, task_key, labels=np.zeros(0, np.int32) if gold is None else None, gold=gold)
        self._prepare(fit_device, len(self._ptr) - 1)
        if self._gold is not None:
            device = fit_device.device
            self._given_layout = DeviceLayout.of(device, self._given_ptr, self._given_row)
            self._given_codes = device.upload(self._given.astype(label_type(len(rules.label_hash))))
            self._given_true = device.upload(np.repeat(self._given.astype(np.int64), np.diff(self._given_ptr)))

    @classmethod
    def over_layout(cls, rules: DeviceRules, fit_device: FitDevice, layout: DeviceLayout, ties: TieIds) -> DeviceShard:
        """Return a shard of votes that were on the device before any fit; none of its tasks has gold."""
        out = object.__new__(cls)
        out.rules, out.n_tasks, out.n_votes, out._gold = rules, layout.n_tasks, layout.n_votes, None
        out._prepare(fit_device, layout.n_tasks)
        out.bind(layout, ties)
        return out

    def _prepare(self, fit_device: FitDevice, n_open: int) -> None:
        """Make the labels of the tasks without gold, all 0 at first."""
        self.fit_device, self._n_open = fit_device, n_open
        self._labels = fit_device.device.xp.zeros(n_open, label_type(len(self.rules.label_hash)))

    @property
    def host_votes(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The votes on tasks without gold on the host: absolute positions, [tasks + 1], and rows."""
        return self._ptr, self._row

    def tie_ids(self) -> tuple[NDArray[Any], bool, int]:
        """Return what ties are settled by on the host: ids or keys, [tasks]; whether they are ids; and the salt."""
        if isinstance(self._key, np.ndarray):
            return self._key, False, 0
        ids, texts, seed = self._key.ids()
        if texts is not None:
            return self._key.every(), False, 0
        return ids, True, salt_of(seed)

    @property
    def bound(self) -> tuple[DeviceLayout, TieIds]:
        """The votes on tasks without gold as they are stored on the device, and what settles their ties."""
        return self._layout, self._ties

    def bind(self, layout: DeviceLayout, ties: TieIds) -> None:
        """Take the votes on tasks without gold as they are stored on the device now."""
        self._layout, self._ties = layout, ties

    def unbind(self) -> None:
        """Release the votes and the passes' buffers."""
        del self._layout, self._ties

    def votes_per_row(self) -> NDArray[np.int64]:
        """Return how many votes each row has, with those on gold tasks, [rows]."""
        rows, device = len(self.rules.row_label), self.fit_device.device
        found: NDArray[np.int64] = device.download(self.fit_device.kernels.votes_per_row(self._layout, rows))
        return found if self._gold is None else found + np.bincount(self._given_row, minlength=rows)

    @property
    def labels(self) -> NDArray[np.int32]:
        """The current label of every task, on the host, [tasks]."""
        here: NDArray[np.int32] = self.fit_device.device.download(self._labels).astype(np.int32)
        if self._gold is None:
            return here
        merged: NDArray[np.int32] = self._gold.copy()
        merged[self._is_open] = here
        return merged

    def codes(self) -> Any:
        """Return a copy of the current labels on the device, [tasks]; none of the tasks has gold."""
        return self._labels.copy()

    def recount(self, labels: Any, tally: Tally) -> None:
        """Take these labels, [tasks], as the current ones, and count them; gold tasks keep theirs."""
        self.take(labels)
        into = tally[0].into(self.fit_device)
        self.fit_device.kernels.recount_hard(self._layout, self._labels, into["counts"], into["class_counts"])
        self.count_gold(tally)

    def weighted_majority(
        self, params: Parameters, tally: Tally, confidence: NDArray[np.float64], tie: NDArray[np.bool_]
    ) -> None:
        """Count the winners of weighted votes; confidence (the winner's share of the weights) and tie are OUT."""
        act = partial(self._pass, params, hard=True, likelihood=False, **self._counting(tally))
        self._write(act, {"tie": (tie, False)})
        shares = self._shares_of_weights(params)
        winners = self.fit_device.device.xp.take_along_axis(shares, self._labels.astype(np.int64)[:, None], axis=1)[:, 0]
        self._merge_gold(winners, confidence, 1.0)
        self.count_gold(tally)

    def weight_shares(self, params: Parameters, out: NDArray[np.float64]) -> None:
        """Write the share of each label in a task's weights to OUT [tasks, K]; a gold label has share 1."""
        self._merge_gold(self._shares_of_weights(params), out, self.certain())

    def _shares_of_weights(self, params: Parameters) -> Any:
        """Return the share of each label in the weights of tasks without gold, device [tasks, K]."""
        fit_device, rules = self.fit_device, self.rules
        out = fit_device.device.xp.empty((self._n_open, len(rules.label_hash)))
        fit_device.kernels.weight_shares(self._layout, fit_device.row_label, rules.table_on(fit_device, params), out)
        return out

    def take(self, labels: Any) -> None:
        """Take these labels, [tasks], as the current ones, without counting; gold tasks keep theirs."""
        if isinstance(labels, TaskArray) and self._gold is None:  # they are on the device
            self._labels = labels.array.astype(self._labels.dtype)
            return
        self._labels = self.fit_device.device.upload(super()._of_open(labels).astype(self._labels.dtype))

    def _of_open(self, array: Any) -> Any:
        """Return a device array of the items of tasks without gold of an array that passes read, [tasks]."""
        if isinstance(array, TaskArray):  # none of its tasks has gold
            return array.array
        return self.fit_device.device.upload(super()._of_open(array))

    def run(self, kernel: str, inputs: RowInputs, **how: Any) -> Any:
        """Return what a kernel says of the votes without gold under the current labels; arrays in `how` are on the device."""
        fit_device = self.fit_device
        votes = self._layout, fit_device.row_label, self._labels
        by_row = {name: fit_device.input(name, array) for name, array in inputs.items()}
        return getattr(fit_device.kernels, kernel)(*votes, **by_row, row_weight=fit_device.row_weight, **how)

    def add(
        self,
        kernel: str,
        inputs: RowInputs,
        sums: Mapping[str, NDArray[np.int64]],
        on_gold: Callable[..., None],
        **how: Any,
    ) -> None:
        """Run a kernel that adds to sums by row of the host, which all devices share."""
        device = self.fit_device.device
        mine = {name: device.xp.zeros(each.shape, np.int64) for name, each in sums.items()}
        self.run(kernel, inputs, **mine, **how)
        here: dict[str, NDArray[np.int64]] = {name: device.download(each) for name, each in mine.items()}
        self._add_gold(on_gold, here)
        with self.rules.lock:
            for name, found in here.items():
                np.add(sums[name], found, out=sums[name])

    def _pass(self, params: Parameters, **how: Any) -> Sums:
        rules, fit_device = self.rules, self.fit_device
        sums: Sums = fit_device.kernels.em_pass(
            self._layout,
            rules.table_on(fit_device, params),
            params.log_prior,
            self._ties,
            rules.label_hash,
            by_prior=rules.by_prior,
            **{"labels": self._labels, **how},
        )
        return sums

    def _counting(self, tally: Tally) -> dict[str, Any]:
        """Return the arrays that a pass counts into, and the unit."""
        into: dict[str, Any] = tally[0].into(self.fit_device)
        return into

    def _majority(self, **how: Any) -> None:
        fit_device, weight = self.fit_device, self.fit_device.row_weight
        given = self._layout, fit_device.row_label, self._ties, self.rules.label_hash
        fit_device.kernels.majority(*given, row_weight=weight, labels=self._labels, **how)

    def count_gold(self, tally: Tally) -> None:
        """Count the votes on gold tasks under the labels that were given."""
        if self._gold is not None:
            counts, class_counts, one = tally[0].certain(self.fit_device)
            self.fit_device.kernels.recount_hard(self._given_layout, self._given_codes, counts, class_counts, one)

    def _with_gold(self, sums: Sums, params: Parameters) -> Sums:
        """Return sums whose likelihood has that of the gold tasks, too: the sum of log p(votes, given label)."""
        of_votes = self.rules.table_on(self.fit_device, params)[self._given_layout.row.astype(np.int64), self._given_true]
        of_gold = float(of_votes.sum()) + float(params.log_prior[self._given].sum())
        return sums._replace(log_likelihood=sums.log_likelihood + of_gold)

    def _without_gold(self, out: NDArray[Any]) -> Any:
        """Return the device array that passes write to, of the tasks without gold."""
        return self.fit_device.device.xp.empty((self._n_open, *out.shape[1:]), out.dtype)

    def _merge_gold(self, part: Any, out: Any, of_gold: Any) -> None:
        """Copy a pass's output to OUT [tasks, …] on the host, with the gold tasks' own values."""
        if isinstance(out, TaskArray):
            out.put(part)
            return
        here = self.fit_device.device.download(part)
        if self._gold is None:
            out[...] = here
        else:
            super()._merge_gold(here, out, of_gold)


def salt_of(seed: int) -> int:
    """Return what a seed adds to the hash of an id, as a signed number of 64 bits.

    >>> salt_of(0), salt_of(1)
    (0, 6238072747940578789)
    """
    return int(reference.mix(np.array([int(seed) % 2**64], np.uint64)).view(np.int64)[0])
