"""What readers of a stream are told: the answers of its state, in the words of its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.vocabulary import Id
from adjudge.io.ids import column, label_columns
from adjudge.io.label_names import LabelNames
from adjudge.io.stream_votes import stream_ids
from adjudge.kernels.online_units import ONE
from adjudge.kernels.reference import ANSWER_UNIT
from adjudge.results.honest import AccuracyLaw, CrowdSums, accuracy_columns


@dataclass(frozen=True)
class Prediction:
    """What is known of one task today."""

    label: Id | None  # None when all votes were taken back
    probabilities: Mapping[Id, float]
    confidence: float  # the probability of the label
    votes: int
    tie: bool
    gold: bool = False  # whether its label was given as gold


@dataclass(frozen=True)
class EvictedTask:
    """What a task was that left memory: plain texts and numbers, to be kept anywhere and brought back.

    Labels are codes: places in the list of the stream's labels, which only grows.
    """

    task: str
    votes: tuple[tuple[str, int], ...]  # worker and label, in order
    label: int  # -1 without votes
    units: tuple[int, ...] | None  # its probabilities in units of 2^-32, where the stream keeps them
    fitted: int  # 1 where the label is that of the last refit of auto, 2 where that was tied, else 0
    gold: int  # -1: none
    order: int  # its number among all tasks of the stream

    @property
    def record(self) -> tuple[tuple[tuple[str, int], ...], int, tuple[int, ...] | None, int, int, int]:
        """The same without the id, as `Online.state` gives and takes it."""
        return self.votes, self.label, self.units, self.fitted, self.gold, self.order


def prediction(found: tuple[int, bool, int, bool, list[float]], ids: list[Id]) -> Prediction:
    """Return what the state says of one task; `ids` are the labels, of which the last may be named and not be there yet."""
    label, tie, votes, gold, likely = found
    probabilities = dict(zip(ids, likely, strict=False))
    if label < 0:  # no votes: what is left is the share of each label
        return Prediction(None, probabilities, max(likely), 0, tie=False)
    return Prediction(ids[label], probabilities, likely[label], votes, tie, gold)


def task_frame(found: tuple[Any, ...], names: LabelNames) -> pl.DataFrame:
    """Return the state's table of tasks as a frame: task, label, confidence, votes, tie, and gold where there is any."""
    texts, numbers, labels, confidence, tie, votes, gold = found
    frame = pl.DataFrame(
        {
            "task": column(stream_ids(texts, numbers)),
            "label": column(names.vocabulary, labels),
            "confidence": confidence,
            "votes": votes,
            "tie": tie,
            **({} if gold is None else {"gold": gold}),
        }
    )
    return frame.with_columns(pl.when(pl.col("label").is_not_null()).then("confidence"))


def worker_frame(found: tuple[Any, ...], law: AccuracyLaw | None) -> pl.DataFrame:
    """Return the state's table of workers as a frame: worker, votes, accuracy, and with a `law` the bounds of its interval."""
    texts, numbers, votes, right, doubt = found
    frame = pl.DataFrame({"worker": column(stream_ids(texts, numbers)), "votes": votes}).filter(votes > 0)
    votes, right, doubt = (each[votes > 0] for each in (votes, right, doubt))
    if law is None:
        return frame.with_columns(accuracy=right / ONE / votes)
    return frame.with_columns(**accuracy_columns(*law(right * ANSWER_UNIT / votes, doubt * ANSWER_UNIT / votes, votes)))


def crowd_sums(found: tuple[Any, ...]) -> CrowdSums:
    """Return what the state says of its crowd."""
    votes, right, doubt, *rest = found
    return CrowdSums(votes, right * ANSWER_UNIT, doubt * ANSWER_UNIT, *rest)


def confusion_frame(matrix: NDArray[np.float64], names: LabelNames) -> pl.DataFrame:
    """Return pi of a worker, [K true, K given], as a frame: a row per true label, a column per given label."""
    labels = names.first(len(matrix)).vocabulary
    columns = {name: matrix[:, code] for code, name in enumerate(label_columns(labels.texts(), "true"))}
    return pl.DataFrame({"true": column(labels), **columns})
