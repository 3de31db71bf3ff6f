"""Streams under test: their counts and bytes, a stream on the reference state, and events during a refit."""

import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np

import adjudge as adj
from adjudge.kernels.online_honest import SHARE_UNITS
from adjudge.models.base import Model
from adjudge.online import stream as online_module
from adjudge.online.refit import content_of

LABELS = ["a", "b", "c"]


def counts(online):
    """(counts by (worker, label), class counts) in units, straight from the state."""
    flat, classes = online._state.counts()
    now = online._state.snapshot()
    lines = np.reshape(flat, (-1, len(classes))).tolist()
    return {(int(w), int(c)): line for w, c, line in zip(now["row_worker"], now["row_label"], lines, strict=True)}, list(classes)


def recount(online):
    """The same from scratch, out of the votes and the shares of the tasks, and what evicted ones add up to."""
    now = online._state.snapshot()
    row_worker, row_label, task_ptr, row, shares = (now[n] for n in ("row_worker", "row_label", "task_ptr", "row", "shares"))
    k = now["n_labels"]
    if shares.ndim == 1:
        shares = np.where(np.arange(k) == shares[:, None], SHARE_UNITS, 0)
    by_row = now.get("base_counts", np.zeros((len(row_worker), k), np.int64)).copy()
    classes = now.get("base_classes", np.zeros(k, np.int64)).copy()
    for task in range(len(task_ptr) - 1):
        for r in row[task_ptr[task] : task_ptr[task + 1]]:
            by_row[r] += shares[task]
        if task_ptr[task] < task_ptr[task + 1]:
            classes += shares[task]
            assert shares[task].sum() == SHARE_UNITS
        else:
            assert not shares[task].any()
    return {(int(w), int(c)): line for w, c, line in zip(row_worker, row_label, by_row.tolist(), strict=True)}, classes.tolist()


def with_reference(**options):
    """A stream on the reference state."""
    with mock.patch.object(online_module, "compiled", return_value=None):
        return adj.Online(**options)


def saved(online):
    with tempfile.TemporaryDirectory() as folder:
        online.save(Path(folder) / "stream")
        return (Path(folder) / "stream").read_bytes()


def learned(online):
    """What a stream would save without what it has measured, which depends on when it was read."""
    meta, arrays = content_of(online, "a test")
    measured = {"measured", "lent", "log_prior", "uniform"}
    return {name: meta[name] for name in meta.keys() - measured}, {
        name: (array.shape, array.tobytes()) for name, array in arrays.items() if name not in measured
    }


@contextmanager
def during_fit(act):
    """Within this, a refit is over only after `act()`, as if it had taken that long."""
    real = Model.fit

    def slow(self, *votes, **options):
        result = real(self, *votes, **options)
        act()
        return result

    with mock.patch.object(Model, "fit", slow):
        yield
