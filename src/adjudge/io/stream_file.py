"""The content of a stream's file, and its checks before use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from adjudge.data.memory import available, gib
from adjudge.errors import InputError, RepairedStream, warn
from adjudge.io.bounds import LARGEST, Array, Bounds, Types
from adjudge.io.stream_votes import NO_GOLD
from adjudge.kernels.online_units import ONE

# What a file holds. With hard labels `shares` is the label of each task, -1 without votes; else its probabilities in units
# of 2^-32. Version 2 has `confidence`, the `labels` of tasks beside their probabilities, and for `auto` whether a label is
# that of the last `fitted` model. Version 3 has `abstentions`, and gold: ids of tasks, with votes or without, and labels.
# Version 4 has everything else that later answers depend on: the `order` of tasks among all `tasks_seen`, what those that
# were `evicted` add up to (the base), the number of `changes`, and what the last renewal `measured`.
META: Final[Types] = {
    "labels": list,
    "model": str,
    "seed": int,
    "duplicates": str,
    "strength": (float, int),
    "options": dict,
    "numbers": dict,
    "hard": bool,
}
ARRAYS: Final = {
    "task_offsets": Array("<i8", ("task ids+1",)),
    "task_texts": Array("|u1", ("task bytes",)),
    "worker_offsets": Array("<i8", ("workers+1",)),
    "worker_texts": Array("|u1", ("worker bytes",)),
    "row_worker": Array("<u4", ("rows",)),
    "row_label": Array("<u4", ("rows",)),
    "task_ptr": Array("<i8", ("tasks+1",)),
    "row": Array("<u4", ("votes",)),
}
HARD_SHARES: Final = Array("<i4", ("tasks",))
SOFT_SHARES: Final = Array("<i8", ("tasks", "labels"))
GOLD: Final = {
    "gold_offsets": Array("<i8", ("gold+1",)),
    "gold_texts": Array("|u1", ("gold bytes",)),
    "gold_labels": Array("<i4", ("gold",)),
}
MARKS: Final = Array("|u1", ("tasks",))
ORDER: Final = {"order": Array("<i8", ("tasks",))}
BASE: Final = {"base_counts": Array("<i8", ("rows", "labels")), "base_classes": Array("<i8", ("labels",))}
BASE_OF_LABELS: Final = {"base_labelled": Array("<i8", ("rows", "labels")), "base_labelled_classes": Array("<i8", ("labels",))}
MEASURED: Final = {
    "lent": Array("<f8", ("labels", "labels")),
    "log_prior": Array("<f8", ("labels",)),
    "uniform": Array("<f8", ("labels",)),
}
MOMENT: Final[Types] = {"lent_total": float, "shared_error": float, "holds": float, "votes": int, "changes": int}
MAX_VOTES: Final = 1 << 62
LARGEST_RATIO: Final = 1e9  # of what is lent: products of a few such numbers stay finite
NOTHING: Final = np.zeros(0, np.int64)
PER_CELL: Final = {True: 12, False: 20}  # bytes that the state of hard (soft) labels takes for every worker and label


def checked(
    bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], *, repair: bool
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return what `restore` takes, after it was checked, and how many ids without a task were dropped.

    `restore` checks that ids and (worker, label) pairs are distinct.
    """
    hard, k, is_first = meta["hard"], len(meta["labels"]), "confidence" not in meta
    if "abstentions" in meta:
        bounds.fields("its meta", meta, {"abstentions": int})
        bounds.need(0 <= meta["abstentions"] < MAX_VOTES, f"it has {meta['abstentions']} abstentions")
    wanted = {**ARRAYS, **GOLD, **_wanted_later(bounds, meta), "shares": HARD_SHARES if hard else SOFT_SHARES}
    if not hard and not is_first:
        wanted["labels"] = HARD_SHARES
    if meta["model"] == "auto":
        wanted["fitted"] = MARKS
    if "abstentions" not in meta:
        arrays = {**NO_GOLD, **arrays}
    sizes = bounds.arrays(arrays, wanted)
    bounds.need(sizes.get("labels", k) == k, f"its shares are for {sizes.get('labels')} labels, not for {k}")
    bounds.within("gold_labels", arrays["gold_labels"], 0, k - 1)
    for role in ("task", "worker", "gold"):
        bounds.texts(role, arrays[f"{role}_offsets"], arrays[f"{role}_texts"])
    tasks, dropped = sizes["tasks"], sizes["task ids"] - sizes["tasks"]
    bounds.need(dropped >= 0, f"it has votes of {tasks} tasks, but ids of only {sizes['task ids']}")
    if dropped:
        if not repair:
            raise InputError(
                f"{bounds.source} has ids of {sizes['task ids']} tasks but votes of {tasks}: an interrupted learn in "
                "version 0.1.0 leaves such a file; adjudge.Online.load(path, repair=True) drops the ids without votes"
            )
        offsets = arrays["task_offsets"][: tasks + 1]
        arrays = {**arrays, "task_offsets": offsets, "task_texts": arrays["task_texts"][: offsets[-1]]}
    arrays = dict(arrays)
    _check_measured(bounds, meta, arrays)
    for name in ("order", *BASE, *BASE_OF_LABELS):
        bounds.within(name, arrays.get(name, NOTHING), 0, MAX_VOTES)
    task_ptr, row, shares = arrays["task_ptr"], arrays["row"], arrays.pop("shares")
    bounds.pointers("task_ptr", task_ptr, len(row))
    bounds.below("row", row, sizes["rows"])
    bounds.below("row_worker", arrays["row_worker"], sizes["workers"])
    bounds.below("row_label", arrays["row_label"], k)
    has = np.diff(task_ptr) > 0
    if not hard:
        bounds.within("shares", shares, 0, ONE)
        bounds.need((np.einsum("ij->i", shares) == has * ONE).all(), "the shares of a task do not sum to one")
        arrays["units"] = shares
    labels = shares if hard else np.where(has, shares.argmax(axis=1), -1).astype(np.int32) if is_first else arrays.pop("labels")
    bounds.within("shares" if hard else "labels", labels, -1, k - 1)
    bounds.need(((labels >= 0) == has).all(), "a task with votes has no label, or one without votes has a label")
    arrays["winners"] = labels
    if "fitted" in arrays:
        bounds.within("fitted", arrays["fitted"], 0, 2)
        bounds.need(not arrays["fitted"][~has].any(), "a task without votes has a label of the last fit")
    taken, free = sizes["workers"] * k * PER_CELL[hard], available()
    too_much = f"its {sizes['workers']} workers and {k} labels would take {gib(taken)} of memory, but only {gib(free)} are free"
    bounds.need(taken < free, too_much)
    return arrays, dropped


def _wanted_later(bounds: Bounds, meta: dict[str, Any]) -> dict[str, Array]:
    """Return the arrays that files of version 4 have and earlier ones have not, after a look at the meta."""
    if "changes" not in meta:
        return {}
    bounds.fields("its meta", meta, {"changes": int, "tasks_seen": int, "evicted": int, "measured": (dict, type(None))})
    for name in ("changes", "tasks_seen", "evicted"):
        bounds.need(0 <= meta[name] < MAX_VOTES, f"it has {meta[name]} {name}")
    base = {**BASE, **({} if meta["hard"] else BASE_OF_LABELS)} if meta["evicted"] else {}
    return {**ORDER, **base, **(MEASURED if meta["measured"] is not None else {})}


def _check_measured(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise unless what was measured gives probabilities, whatever the votes.

    Labels that exist are those with a part in `uniform`: the mean worker gives each of them, and its score has a start.
    """
    found = meta.get("measured")
    if found is None:
        return
    bounds.fields("what it measured", found, MOMENT)
    whole = found["lent_total"]
    bounds.need(ONE / LARGEST_RATIO <= whole <= ONE * LARGEST_RATIO, f"it lends {whole} units")
    bounds.need(0 <= found["shared_error"] < LARGEST, f"it has a shared error of {found['shared_error']}")
    bounds.need(0 <= found["holds"] <= 1, f"it has holds of {found['holds']}")
    bounds.need(0 <= found["votes"] < MAX_VOTES, f"it measured {found['votes']} votes")
    bounds.need(0 <= found["changes"] <= meta["changes"], f"it was measured after {found['changes']} changes")
    lent, log_prior, uniform = (arrays[name] for name in MEASURED)
    bounds.within("uniform", uniform, 0, 1)
    exists = uniform > 0
    bounds.within("lent", lent, 0, whole)
    bounds.within("lent", lent[np.ix_(exists, exists)], whole / LARGEST_RATIO, whole)
    bounds.need((log_prior == -np.inf)[~exists].all(), "a label that does not exist has a prior")
    bounds.within("log_prior", log_prior[exists], -LARGEST_RATIO, 0)


def warn_repaired(path: Path, dropped: int) -> None:
    """Warn of ids of tasks that were dropped from a file, if any were."""
    if dropped:
        warn(f"{path}: dropped the ids of {dropped} tasks that have no votes", RepairedStream)
