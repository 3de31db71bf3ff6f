"""The state of a stream: the content of its file with the checks before use, its labels, and its votes for batch fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.memory import free_memory, gib
from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Gold, Votes
from adjudge.errors import label_error
from adjudge.io.container import MAX_VOTE_COUNT, Array, Bounds, Types
from adjudge.io.encode import Coded, narrow_ids, votes_of
from adjudge.io.frames import column
from adjudge.kernels import reference
from adjudge.kernels.online_honest import SHARE_UNITS


class LabelNames:
    """The labels of a stream, never changed: a stream that gets one more takes others in their place.

    >>> names = LabelNames(["cat", "dog", "fish"])
    >>> names.code["dog"], names.first(2).ids
    (1, ['cat', 'dog'])
    """

    def __init__(self, labels: Iterable[object]) -> None:
        self.vocabulary = Vocabulary.of(labels, "label")
        self.ids = self.vocabulary.ids()
        self.code = {text: code for code, text in enumerate(self.vocabulary.texts())}

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, number: int) -> LabelNames:
        """Return the first so many."""
        return self if len(self) == number else LabelNames(self.ids[:number])

    def hashes(self) -> list[int]:
        """Return the hash of each, by which ties are settled."""
        return cast(list[int], reference.hash_texts(*self.vocabulary.text_buffers()).tolist())

    def codes(self, labels: pl.Series, first_row: int) -> pl.Series:
        """Return the codes of labels as text, null if one is missing; `first_row` rows came before these."""
        unknown = [text for text in labels.drop_nulls().unique(maintain_order=True) if text not in self.code]
        if unknown:
            row = first_row + int((labels == unknown[0]).arg_true()[0]) + 1
            raise label_error(unknown[0], self.ids, f" in row {row}")
        return labels.replace_strict(self.code, return_dtype=pl.UInt32)


VERSION: Final = 1
# For hard labels, `shares` is the label of each task, -1 without votes; for soft ones, its probabilities in units of 2^-32,
# with the `labels` of tasks in an array of their own. `auto` also stores whether each label is that of the last `fitted`
# model. Gold is stored by task id, since a gold task may have no votes. Later answers also depend on the `order` of tasks
# among all `tasks_seen`, the sums over `evicted` tasks (the base), the number of `changes`, and the values that the last
# renewal `measured`.
META: Final[Types] = {
    "labels": list,
    "model": str,
    "seed": int,
    "duplicates": str,
    "strength": (float, int),
    "confidence": str,
    "options": dict,
    "numbers": dict,
    "hard": bool,
    "abstentions": int,
    "changes": int,
    "tasks_seen": int,
    "evicted": int,
    "measured": (dict, type(None)),
}
COUNTS: Final = ("abstentions", "changes", "tasks_seen", "evicted")
ARRAYS: Final = {
    "task_offsets": Array("<i8", ("tasks+1",)),
    "task_texts": Array("|u1", ("task bytes",)),
    "worker_offsets": Array("<i8", ("workers+1",)),
    "worker_texts": Array("|u1", ("worker bytes",)),
    "row_worker": Array("<u4", ("rows",)),
    "row_label": Array("<u4", ("rows",)),
    "task_ptr": Array("<i8", ("tasks+1",)),
    "row": Array("<u4", ("votes",)),
}
HARD_SHARES: Final = Array("<i4", ("tasks",))
SOFT_SHARE_ARRAYS: Final = {"shares": Array("<i8", ("tasks", "labels")), "labels": HARD_SHARES}
GOLD_ARRAYS: Final = {
    "gold_offsets": Array("<i8", ("gold+1",)),
    "gold_texts": Array("|u1", ("gold bytes",)),
    "gold_labels": Array("<i4", ("gold",)),
}
FLAG_PER_TASK: Final = Array("|u1", ("tasks",))
ORDER: Final = {"order": Array("<i8", ("tasks",))}
BASE_ARRAYS: Final = {"base_counts": Array("<i8", ("rows", "labels")), "base_classes": Array("<i8", ("labels",))}
BASE_OF_LABELS: Final = {"base_labelled": Array("<i8", ("rows", "labels")), "base_labelled_classes": Array("<i8", ("labels",))}
MEASURED_ARRAYS: Final = {
    "lent": Array("<f8", ("labels", "labels")),
    "log_prior": Array("<f8", ("labels",)),
    "uniform": Array("<f8", ("labels",)),
}
MOMENT: Final[Types] = {"lent_total": float, "shared_error": float, "holds": float, "votes": int, "changes": int}
MAX_STREAM_COUNT: Final = 1 << 62
LARGEST_RATIO: Final = 1e9  # of pseudo-votes: products of a few such numbers stay finite
EMPTY_INTEGERS: Final = np.zeros(0, np.int64)
STATE_BYTES_PER_CELL: Final = {True: 12, False: 20}  # bytes that the state of hard (soft) labels takes for every worker and label


def check_content(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Check the content of a stream's file and return the arguments of `restore`.

    `restore` checks that ids and (worker, label) pairs are distinct.
    """
    hard, k = meta["hard"], len(meta["labels"])
    for name in COUNTS:
        bounds.need(0 <= meta[name] < MAX_STREAM_COUNT, f"it has {meta[name]} {name}")
    sizes = bounds.arrays(arrays, _arrays_of(meta))
    bounds.need(sizes.get("labels", k) == k, f"its shares are for {sizes.get('labels')} labels, not for {k}")
    bounds.within("gold_labels", arrays["gold_labels"], 0, k - 1)
    for role in ("task", "worker", "gold"):
        bounds.texts(role, arrays[f"{role}_offsets"], arrays[f"{role}_texts"])
    arrays = dict(arrays)
    _check_measured(bounds, meta, arrays)
    for name in ("order", *BASE_ARRAYS, *BASE_OF_LABELS):
        bounds.within(name, arrays.get(name, EMPTY_INTEGERS), 0, MAX_STREAM_COUNT)
    task_ptr, row, shares = arrays["task_ptr"], arrays["row"], arrays.pop("shares")
    bounds.pointers("task_ptr", task_ptr, len(row))
    bounds.below("row", row, sizes["rows"])
    bounds.below("row_worker", arrays["row_worker"], sizes["workers"])
    bounds.below("row_label", arrays["row_label"], k)
    has = np.diff(task_ptr) > 0
    if not hard:
        bounds.within("shares", shares, 0, SHARE_UNITS)
        bounds.need((np.einsum("ij->i", shares) == has * SHARE_UNITS).all(), "the shares of a task do not sum to one")
        arrays["units"] = shares
    labels = shares if hard else arrays.pop("labels")
    bounds.within("shares" if hard else "labels", labels, -1, k - 1)
    bounds.need(((labels >= 0) == has).all(), "a task with votes has no label, or one without votes has a label")
    arrays["winners"] = labels
    if "fitted" in arrays:
        bounds.within("fitted", arrays["fitted"], 0, 2)
        bounds.need(not arrays["fitted"][~has].any(), "a task without votes has a label of the last fit")
    taken, free = sizes["workers"] * k * STATE_BYTES_PER_CELL[hard], free_memory()
    too_much = f"its {sizes['workers']} workers and {k} labels would take {gib(taken)} of memory, but only {gib(free)} are free"
    bounds.need(taken < free, too_much)
    return arrays


def _arrays_of(meta: dict[str, Any]) -> dict[str, Array]:
    """Return the arrays that a file with this meta has."""
    hard = meta["hard"]
    arrays = {**ARRAYS, **GOLD_ARRAYS, **ORDER, **({"shares": HARD_SHARES} if hard else SOFT_SHARE_ARRAYS)}
    if meta["model"] == "auto":
        arrays["fitted"] = FLAG_PER_TASK
    if meta["evicted"]:
        arrays |= BASE_ARRAYS if hard else {**BASE_ARRAYS, **BASE_OF_LABELS}
    if meta["measured"] is not None:
        arrays |= MEASURED_ARRAYS
    return arrays


def _check_measured(bounds: Bounds, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raise unless the measured values give probabilities for any votes.

    Labels that exist are those with a part in `uniform`: the mean worker gives each of them, and its score has a start.
    """
    found = meta["measured"]
    if found is None:
        return
    bounds.fields("what it measured", found, MOMENT)
    whole = found["lent_total"]
    bounds.need(SHARE_UNITS / LARGEST_RATIO <= whole <= SHARE_UNITS * LARGEST_RATIO, f"it lends {whole} units")
    bounds.need(0 <= found["shared_error"] < MAX_VOTE_COUNT, f"it has a shared error of {found['shared_error']}")
    bounds.need(0 <= found["holds"] <= 1, f"it has holds of {found['holds']}")
    bounds.need(0 <= found["votes"] < MAX_STREAM_COUNT, f"it measured {found['votes']} votes")
    bounds.need(0 <= found["changes"] <= meta["changes"], f"it was measured after {found['changes']} changes")
    lent, log_prior, uniform = (arrays[name] for name in MEASURED_ARRAYS)
    bounds.within("uniform", uniform, 0, 1)
    exists = uniform > 0
    bounds.within("lent", lent, 0, whole)
    bounds.within("lent", lent[np.ix_(exists, exists)], whole / LARGEST_RATIO, whole)
    bounds.need((log_prior == -np.inf)[~exists].all(), "a label that does not exist has a prior")
    bounds.within("log_prior", log_prior[exists], -LARGEST_RATIO, 0)


Texts = tuple[NDArray[np.int64], NDArray[np.uint8]]  # offsets [n + 1], bytes
EMPTY_GOLD_ARRAYS: Final[Mapping[str, NDArray[Any]]] = {
    "gold_offsets": np.zeros(1, np.int64),
    "gold_texts": np.zeros(0, np.uint8),
    "gold_labels": np.zeros(0, np.int32),
}


def stream_ids(texts: Texts, numbers: bool) -> Vocabulary:
    """Return ids with their original type: numbers, if all of them came as numbers."""
    offsets, data = texts
    ids = Vocabulary("string", data, offsets)
    return narrow_ids(ids) if numbers else ids


def stream_votes(now: Mapping[str, Any], labels: Vocabulary, frame_kind: FrameKind = "polars") -> Votes:
    """Return the votes of a snapshot over these labels; results come back in frames of this kind."""
    row, votes_of_task = now["row"], np.diff(now["task_ptr"])
    coded = Coded(
        {
            "task": np.repeat(np.arange(len(votes_of_task), dtype=np.uint32), votes_of_task),
            "worker": now["row_worker"][row],
            "label": now["row_label"][row],
        },
        {
            "task": stream_ids((now["task_offsets"], now["task_texts"]), now["numbers"][0]),
            "worker": stream_ids((now["worker_offsets"], now["worker_texts"]), now["numbers"][1]),
            "label": labels,
        },
    )
    return votes_of(coded, labels, abstentions=now["abstentions"], frame_kind=frame_kind)


def stream_gold(now: Mapping[str, Any]) -> Gold:
    """Return the gold of a snapshot, of tasks without votes too."""
    return Gold(stream_ids((now["gold_offsets"], now["gold_texts"]), now["numbers"][0]), now["gold_labels"])


def stream_history(now: Mapping[str, Any], labels: Vocabulary) -> pl.DataFrame | None:
    """Return what evicted tasks of a snapshot say of workers: worker, true, given, count; None if there are none.

    The true labels are those that the tasks had when they were evicted.
    """
    counts = now.get("base_labelled", now.get("base_counts"))
    if counts is None or not counts.any():  # of tasks without votes nothing is left
        return None
    row, true = np.nonzero(counts)
    workers = stream_ids((now["worker_offsets"], now["worker_texts"]), now["numbers"][1])
    return pl.DataFrame(
        {
            "worker": column(workers, now["row_worker"][row]),
            "true": column(labels, true),
            "given": column(labels, now["row_label"][row]),
            "count": counts[row, true] // SHARE_UNITS,
        }
    )


def state_arrays(votes: Votes, gold: Gold | None) -> dict[str, NDArray[Any]]:
    """Return votes and gold as a state takes them; tasks with nothing but abstentions come last."""
    (task_offsets, task_texts), (unvoted_offsets, unvoted_texts) = (ids.text_buffers() for ids in (votes.tasks, votes.unvoted))
    worker_offsets, worker_texts = votes.workers.text_buffers()
    known = EMPTY_GOLD_ARRAYS.values() if gold is None else (*gold.tasks.text_buffers(), gold.labels)
    arrays = {
        "task_offsets": np.concatenate([task_offsets, task_offsets[-1] + unvoted_offsets[1:]]),
        "task_texts": np.concatenate([task_texts, unvoted_texts]),
        "worker_offsets": worker_offsets,
        "worker_texts": worker_texts,
        "row_worker": votes.row_worker().astype(np.uint32),
        "row_label": votes.row_label.astype(np.uint32),
        "task_ptr": np.pad(votes.task_ptr, (0, len(votes.unvoted)), mode="edge"),
        "row": votes.row,
        **dict(zip(EMPTY_GOLD_ARRAYS, known, strict=True)),
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}
