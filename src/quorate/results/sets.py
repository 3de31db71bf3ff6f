"""Tasks with several correct options: any model on the (task, option) questions, decoded as sets (the paper's section 6)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from quorate.data.understood import Understood
from quorate.errors import InputError, listed, shown
from quorate.io import frames
from quorate.io.frames import Frame
from quorate.io.ids import column, label_columns
from quorate.io.sets import SetVotes
from quorate.io.sources import Source
from quorate.results.result import Result

YES = 1  # the code of "yes"


@dataclass(frozen=True, eq=False, repr=False)
class MultiResult:
    """What `aggregate(multi=True)` returns: the chosen set of every task, the probability of every option, the workers.

    >>> import quorate as qr
    >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t1", "eve", ["joy"]), ("t2", "ann", [])]
    >>> qr.aggregate(votes, model="mv", multi=True).labels.select("task", "label").rows()
    [('t1', ['joy']), ('t2', [])]
    """

    votes: SetVotes
    results: tuple[Result, ...]  # one for all options, or one for each
    model: str

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields: frames are made again when asked for."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def __repr__(self) -> str:
        v = self.votes
        return f"MultiResult({self.model}: {len(v.tasks)} tasks, {v.binary.n_workers} workers, {len(v.options)} options)"

    @property
    def understood(self) -> Understood | None:
        """What reading made of the votes: format, columns, votes (sets), abstentions, repeated votes."""
        return self.votes.understood

    @property
    def iterations(self) -> int:
        """The number of iterations; the most of any option where each was fitted apart."""
        return max((r.iterations for r in self.results), default=0)

    @property
    def converged(self) -> bool:
        """Whether every fit met its stopping rule."""
        return all(r.converged for r in self.results)

    @property
    def log_likelihood(self) -> float:
        """The marginal log-likelihood of all yes-or-no votes."""
        return sum(r.log_likelihood for r in self.results)

    @property
    def facts(self) -> Mapping[str, object]:
        """What was measured of the yes-or-no votes and what was chosen, as `Result.facts`; by option where each was fitted apart.

        >>> import quorate as qr
        >>> votes = [("t1", "ann", ["fear", "joy"]), ("t1", "bob", ["joy"]), ("t2", "ann", ["fear"]), ("t2", "bob", ["joy"])]
        >>> apart = qr.aggregate(votes, model="auto", multi=True, per_option=True, confidence="posterior")
        >>> [(option, found["chose"]) for option, found in apart.facts.items()]
        [('fear', 'careful'), ('joy', 'careful')]
        """
        if len(self.results) == 1:
            return self.results[0].facts
        return {option: r.facts for option, r in zip(self.votes.options.texts(), self.results, strict=True)}

    @cached_property
    def labels(self) -> Frame:
        """Task, label (the chosen set), confidence (that the whole set is right), votes, tie (of any option)."""
        return self._native(self.labels_frame())

    @cached_property
    def probabilities(self) -> Frame:
        """Task and one column per option: the probability that it is correct."""
        return self._native(self.probabilities_frame())

    @cached_property
    def workers(self) -> Frame:
        """Worker, votes (sets cast), accuracy (honest where confidence is) and agreement on the (task, option) questions."""
        return self._native(self.workers_frame())

    def confusion(self, worker: object, option: object = None) -> Frame:
        """Return the 2 x 2 confusion of a `worker` (for one `option` where each was fitted apart): rows true, columns said."""
        if len(self.results) == 1:
            return self.results[0].confusion(worker)
        code = int(self.votes.options.codes([option])[0])
        if code < 0:
            raise InputError(f"each option was fitted apart: name one of {listed(self.votes.options.ids())}, not {shown(option)}")
        return self.results[code].confusion(worker)

    def join(self, frame: Source, *, task: str | None = None, prefix: str = "consensus") -> Frame:
        """Return your own `frame` with the set of each row's task beside it; `task` and `prefix` are as for `Result.join`."""
        from quorate.io.join import join

        return join(self.labels_frame(), frame, self.understood, task=task, prefix=prefix)

    def write(self, path: str | os.PathLike[str], source: Source, *, format: str = "auto") -> None:  # noqa: A002
        """Write the sets to `path` in the form of the `source` that the votes came from; `format` is as for `Result.write`."""
        from quorate.io.back import write_back
        from quorate.io.formats.consensus import Consensus

        options, table = self.votes.options.texts(), self.probabilities_frame().drop("task")
        scores = [dict(zip(options, line, strict=True)) for line in table.iter_rows()]
        write_back(Consensus(self.labels_frame(), self.model, self.understood, scores), source, path, format)

    def labels_frame(self) -> pl.DataFrame:
        """Return `labels` as a polars frame, whatever the caller's kind."""
        names = self.votes.options.texts()
        chosen, tie = self._matrix("labels") == YES, self._matrix("tie")
        sets = pl.Series([[names[o] for o in np.flatnonzero(line)] for line in chosen], dtype=pl.List(pl.String))
        voted = pl.DataFrame(
            {
                "task": column(self.votes.tasks),
                "label": sets,
                "confidence": self._matrix("confidence").prod(axis=1),
                "votes": self.votes.per_task,
                "tie": tie.any(axis=1),
                **self._gold(),
            }
        )
        if not len(self.votes.unvoted):
            return voted
        ids = self.votes.unvoted.cast(voted.schema["task"])
        left = pl.DataFrame({"task": ids}).with_columns(votes=pl.lit(0, pl.Int64), tie=False)
        return pl.concat([voted, left], how="diagonal")

    def probabilities_frame(self) -> pl.DataFrame:
        """Return `probabilities` as a polars frame, whatever the caller's kind."""
        yes = [r.probabilities_frame()["yes"].to_numpy() for r in self.results]
        shape = len(self.votes.tasks), len(self.votes.options)
        matrix = yes[0].reshape(shape) if len(yes) == 1 else np.stack(yes, axis=1)
        names = label_columns(self.votes.options.texts(), "task")
        return pl.DataFrame({"task": column(self.votes.tasks), **{n: matrix[:, o] for o, n in enumerate(names)}})

    def workers_frame(self) -> pl.DataFrame:
        """Return `workers` as a polars frame, whatever the caller's kind."""
        frame = pl.concat([_workers_of(r) for r in self.results], how="diagonal")
        weighted = pl.col("accuracy", "agreement") * pl.col("votes")
        every = frame.group_by("worker", maintain_order=True).agg(weighted.sum() / pl.col("votes").sum(), pl.col("votes").sum())
        return every.select("worker", pl.col("votes") // max(len(self.votes.options), 1), "accuracy", "agreement")

    def _gold(self) -> dict[str, NDArray[np.bool_]]:
        parts = [r.fit.task_columns["gold"] for r in self.results if "gold" in r.fit.task_columns]
        if not parts:
            return {}
        shape = len(self.votes.tasks), len(self.votes.options)
        marked: NDArray[np.bool_] = parts[0].reshape(shape) if len(parts) == 1 else np.stack(parts, axis=1)
        return {"gold": marked[:, 0]}  # a gold set tells of every option

    def _matrix(self, name: str) -> NDArray[Any]:
        """Return a figure of the outcome by task and option, [tasks, K]."""
        parts = [getattr(r.fit.outcome, name) for r in self.results]
        shape = len(self.votes.tasks), len(self.votes.options)
        return parts[0].reshape(shape) if len(parts) == 1 else np.stack(parts, axis=1)

    def _native(self, frame: pl.DataFrame) -> Frame:
        return frames.native(frame, self.votes.frame_kind)


def _workers_of(result: Result) -> pl.DataFrame:
    """Return the workers of a fit without verdicts; their accuracy is honest where confidence is."""
    frame = result.workers_frame(trust=False)
    if result.fit.honest is None:
        return frame
    mean, _ = result.fit.honest.worker_accuracy(result.votes, frame["votes"].to_numpy())
    return frame.with_columns(accuracy=mean)
