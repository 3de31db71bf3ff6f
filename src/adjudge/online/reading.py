"""Reading a stream: its settings, its answers in its users' ids, and the measurements they need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adjudge.data.fit import PSEUDO_VOTES_PER_WORKER
from adjudge.data.options import Choice, Confidence, Kept, Number, Rules, StreamedModel
from adjudge.data.vocabulary import Id
from adjudge.io.frames import column, label_columns
from adjudge.io.stream_file import LabelNames, stream_ids
from adjudge.kernels.online_honest import SHARE_UNITS
from adjudge.kernels.reference import ANSWER_UNIT
from adjudge.models.honest import AccuracyLaw, CrowdSums, StreamSums, accuracy_columns, stream_error, stream_rule

STREAMED: Final = get_args(StreamedModel)
RULES: Final[Rules] = {
    "model": Choice(STREAMED),
    "duplicates": Choice(get_args(Kept)),
    "confidence": Choice(get_args(Confidence)),
    "seed": Number(whole=True),
    "strength": Number(least=0, most=1e12),
}
CONFIDENCE_CODES: Final[Mapping[Confidence, int]] = {"posterior": 0, "honest": 1}  # as the states know them
LASTING: Final = 2  # honest, by a measurement of any age


class OnlineSettings(TypedDict):
    """What a stream was made with."""

    labels: list[Id]
    model: StreamedModel
    seed: int
    duplicates: Kept
    strength: float
    confidence: Confidence


FULL_MEASUREMENT = 2  # an argument of `measure`; 1 is the mean worker alone


class Renewal:
    """The renewals of one stream. Readers make them, one at a time; others read and learn meanwhile."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self._lock = threading.Lock()
        self.every_label = False  # whether labels that nobody has given are possible, too

    def now(self) -> None:
        """Measure everything, whether it is due or not."""
        is_done = False
        while not is_done:
            with self._lock: is_done = self.measure(FULL_MEASUREMENT)  # noqa: E701  # fmt: skip

    def due(self) -> None:
        """Measure what is due: nothing, the mean worker, or all."""
        with self._lock: self.measure(self._state.due(1))  # noqa: E701  # fmt: skip

    def read(self, kind: int, read: Callable[[int], Any]) -> Any:
        """Return what a reader of the state finds, given the kind of confidence, after renewing what is due.

        Votes that came during the renewal can make another one due, and need not: what was measured lasts.
        """
        found = read(kind)
        while found is False:
            self.due()
            found = read(LASTING)
        return found

    def measure(self, due: int) -> bool:
        """Measure nothing (0), the mean worker (1) or all (2); return False if a label was added meanwhile."""
        if not due:
            return True
        pairs, given, left_out, tasks, votes, changes = self._state.measure(due == FULL_MEASUREMENT)
        k = len(tasks)
        by_label, not_summed = (np.asarray(count, np.float64).reshape(k, k) for count in (given, left_out))
        by_class = np.array(tasks, np.float64)
        if due == FULL_MEASUREMENT:
            shared_error, holds = stream_error(StreamSums(*pairs), by_label - not_summed)
        else:  # what was measured stays, and so does the moment of it
            shared_error, holds, votes, changes = self._state.measured()
        rule, lent = stream_rule(by_label, by_class, shared_error, holds, every_label=self.every_label)
        is_done: bool = self._state.install(lent, PSEUDO_VOTES_PER_WORKER, *rule, votes, changes)
        return is_done


@dataclass(frozen=True)
class Prediction:
    """The current label of a task, with its confidence."""

    label: Id | None  # None when all votes were taken back
    probabilities: Mapping[Id, float]
    confidence: float  # the probability of the label
    votes: int
    tie: bool
    gold: bool = False  # whether its label was given as gold


@dataclass(frozen=True)
class EvictedTask:
    """An evicted task in plain texts and numbers, which can be stored anywhere and brought back.

    Labels are codes: positions in the list of the stream's labels, which only grows.
    """

    task: str
    votes: tuple[tuple[str, int], ...]  # worker and label, in order
    label: int  # -1 without votes
    units: tuple[int, ...] | None  # its probabilities in units of 2^-32, where the stream keeps them
    fitted: int  # 1 if the label is that of the last refit of auto, 2 where that was tied, else 0
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
        return frame.with_columns(accuracy=right / SHARE_UNITS / votes)
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
