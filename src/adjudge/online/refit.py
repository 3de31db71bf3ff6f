"""A batch fit of a stream's votes, in three steps: begun at one moment, run anywhere, taken up by the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adjudge.data.options import DEFAULTS, Confidence, EngineName, StreamedModel
from adjudge.data.votes import FrameKind, Votes
from adjudge.engines.base import Engine
from adjudge.io.label_names import LabelNames
from adjudge.io.stream_votes import stream_gold, stream_history, stream_votes
from adjudge.kernels.online_units import to_units
from adjudge.models.base import MODELS, make
from adjudge.results.result import Result
from adjudge.results.temperature import posterior_of


class Refit:
    """A batch fit of the votes that a stream had at one moment; `Online.begin_refit` makes one.

    It is a copy: running it touches nothing of the stream, in whatever thread, and the stream may change meanwhile. What
    evicted tasks taught about workers is part of the fit, as their history.
    """

    def __init__(
        self,
        now: Mapping[str, Any],  # a snapshot of the state
        names: LabelNames,
        *,
        model: StreamedModel,
        options: Mapping[str, Any],  # of the batch model, its seed among them
        confidence: Confidence,
        frame_kind: FrameKind,
        warm: bool,
    ) -> None:
        self._now, self._labels = now, names.first(now["n_labels"]).vocabulary
        self.model, self._options, self._confidence = model, options, confidence
        self._frame_kind, self._warm = frame_kind, warm
        self._result: Result | None = None

    def __repr__(self) -> str:
        return f"Refit({self.model}: {len(self._now['task_ptr']) - 1} tasks, {'not run' if self._result is None else 'run'})"

    @property
    def votes(self) -> Votes:
        """The votes that are fitted."""
        return stream_votes(self._now, self._labels, self._frame_kind)

    @property
    def result(self) -> Result | None:
        """The fit, None before it was run."""
        return self._result

    def run(self, *, engine: EngineName | str | Engine = DEFAULTS.engine, threads: int | None = None) -> Result:
        """Return the fit; it is the same for any number of threads.

        - `engine`: where it runs, as for `adj.aggregate`.
        - `threads`: on how many threads it runs, as there.
        """
        now = self._now
        start = now["labels"][self._has_votes()] if self._warm else None
        gold: Any = stream_gold(now) if len(now["gold_labels"]) else None
        model = make(self.model, MODELS[self.model].options(), self._options)
        known = {"start": start, "gold": gold, "history": stream_history(now, self._labels)}
        self._result = model.fit(self.votes, engine=engine, threads=threads, confidence=self._confidence, **known)
        return self._result

    def adopted_by(self, state: Any) -> Result:
        """Put the labels of the fit into a state; where it was not run, run it first."""
        result, now = self._result or self.run(), self._now
        fitted = (now[name] for name in ("task_offsets", "task_texts", "task_ptr", "row"))
        state.adopt(*fitted, **shares(result, self._has_votes(), self.model), gold=now["task_gold"])
        return result

    def _has_votes(self) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.diff(self._now["task_ptr"]) > 0
        return has


def shares(result: Result, has: NDArray[np.bool_], model: StreamedModel) -> dict[str, NDArray[Any]]:
    """Return the labels (and posteriors) of a fit as a state takes them; `has` says which tasks have votes, [tasks]."""
    winners = np.full(len(has), -1, np.int32)
    winners[has] = result.fit.outcome.labels
    out: dict[str, NDArray[Any]] = {"winners": winners}
    if model == "ds":  # a hybrid fit ends hard
        out["units"] = np.zeros((len(has), result.votes.n_labels), np.int64)
        out["units"][has] = to_units(posterior_of(result.fit, result.session))
    elif model == "auto":  # between fits the stream is one of fds, whose parameters are not those of auto
        out["fitted"] = np.zeros(len(has), np.uint8)
        out["fitted"][has] = 1 + np.asarray(result.fit.outcome.tie, np.uint8)
    return out
