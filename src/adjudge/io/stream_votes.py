"""The votes and the gold in the state of a stream, as a batch fit takes them; and those of a batch fit, as a state takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Vocabulary
from adjudge.data.votes import FrameKind, Gold, Votes
from adjudge.io.dictionary import Coded
from adjudge.io.encode import votes_of
from adjudge.io.ids import column, narrowed
from adjudge.kernels.online_units import ONE

Texts = tuple[NDArray[np.int64], NDArray[np.uint8]]  # offsets [n + 1], bytes
NO_GOLD: Final[Mapping[str, NDArray[Any]]] = {
    "gold_offsets": np.zeros(1, np.int64),
    "gold_texts": np.zeros(0, np.uint8),
    "gold_labels": np.zeros(0, np.int32),
}


def stream_ids(texts: Texts, numbers: bool) -> Vocabulary:
    """Return ids as they came: as numbers, where they did and all of them are."""
    offsets, data = texts
    ids = Vocabulary("string", data, offsets)
    return narrowed(ids) if numbers else ids


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
    """Return what evicted tasks of a snapshot say of workers: worker, true, given, count; None where there are none.

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
            "count": counts[row, true] // ONE,
        }
    )


def state_arrays(votes: Votes, gold: Gold | None) -> dict[str, NDArray[Any]]:
    """Return votes and gold as a state takes them; tasks with nothing but abstentions come last."""
    (task_offsets, task_texts), (unvoted_offsets, unvoted_texts) = (ids.text_buffers() for ids in (votes.tasks, votes.unvoted))
    worker_offsets, worker_texts = votes.workers.text_buffers()
    known = NO_GOLD.values() if gold is None else (*gold.tasks.text_buffers(), gold.labels)
    arrays = {
        "task_offsets": np.concatenate([task_offsets, task_offsets[-1] + unvoted_offsets[1:]]),
        "task_texts": np.concatenate([task_texts, unvoted_texts]),
        "worker_offsets": worker_offsets,
        "worker_texts": worker_texts,
        "row_worker": votes.row_worker().astype(np.uint32),
        "row_label": votes.row_label.astype(np.uint32),
        "task_ptr": np.pad(votes.task_ptr, (0, len(votes.unvoted)), mode="edge"),
        "row": votes.row,
        **dict(zip(NO_GOLD, known, strict=True)),
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}
